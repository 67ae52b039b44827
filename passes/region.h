/* Data flow between regions: who stores a value, who reads it, and what order that leaves. */
#ifndef DOPPLER_PASSES_REGION_H
#define DOPPLER_PASSES_REGION_H

#include "passes/pass.h"

/* A value is computed when a kernel must make it: neither a leaf nor a view. */
bool dop_node_computed(const dop_graph *g, dop_node_id id);
/* Bytes of a value at the graph's largest T. */
uint64_t dop_node_bytes(const dop_graph *g, dop_node_id id);

/* The flow of a graph's regions; valid until a region changes.  Plain heap memory, since passes rebuild it often. */
typedef struct dop_flow {
    const dop_graph *g;
    dop_region_id *owner;   /* [n_nodes] region that stores or first makes the node, 0: leaf or view */
    uint32_t *first_reader; /* [n_nodes + 1] index into readers */
    dop_region_id *readers; /* regions that read the node from memory, ascending, without those that hold it */
} dop_flow;

dop_status dop_flow_init(const dop_graph *g, dop_diag *diag, dop_flow *out_flow);
void dop_flow_finish(dop_flow *f);
/* Recomputes what each region stores (region.outs) from who reads it, drops regions that store nothing, and rebuilds
 * the flow. */
dop_status dop_flow_update(dop_graph *g, dop_diag *diag, dop_flow *f);

uint32_t dop_flow_n_readers(const dop_flow *f, dop_node_id id);
/* Calls fn for every value (base node, leaves included) that the region reads from memory, each once. */
typedef void (*dop_reads_fn)(void *user, dop_node_id base);
void dop_region_reads(const dop_graph *g, const dop_region *r, dop_reads_fn fn, void *user);
/* A path from a to b through at least one other region. */
dop_status dop_flow_path_around(const dop_flow *f, dop_region_id a, dop_region_id b, dop_diag *diag, bool *out_path);

/* Moves all of src's nodes into dst (template `tpl`), keeping topological order; src is dead afterwards unless
 * keep_src.  The flow must be updated afterwards. */
dop_status dop_region_absorb(dop_graph *g, dop_region_id dst, dop_region_id src, dop_template tpl, bool keep_src,
                             dop_diag *diag);

#endif
