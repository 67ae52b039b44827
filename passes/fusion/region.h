/* Data flow between regions: which region stores a value, which ones read it, and a topological order of the regions.
 *
 * The flow is built once per pass and updated with every change.  Absorbing a region touches only what the two regions hold and
 * read, and the regions between them in the order. */
#ifndef DOPPLER_PASSES_FUSION_REGION_H
#define DOPPLER_PASSES_FUSION_REGION_H

#include "passes/pass.h"

/* True if a kernel must compute the value: it is neither a leaf nor a view. */
bool dop_node_computed(const dop_graph *g, dop_node_id id);
/* Returns the bytes of a value at the graph's largest T. */
uint64_t dop_node_bytes(const dop_graph *g, dop_node_id id);

/* A set of regions, in ascending order. */
typedef struct dop_region_set {
    uint32_t n, cap;
    dop_region_id *ids;
} dop_region_set;

/* Data flow of a graph's regions.  Arrays are heap memory; all pointers must be NULL before dop_flow_init(). */
typedef struct dop_flow {
    const dop_graph *g;
    dop_region_id *owner;    /* [n_nodes] region that stores or first computes the node; 0: leaf or view */
    dop_region_set *readers; /* [n_nodes] regions that read the node from memory, without those that hold it */
    dop_region_set *holders; /* [n_nodes] regions that compute the node */
    bool *output;            /* [n_nodes] true if the node is a result of the graph or the base of one */
    /* A topological order of the regions; dead regions keep their places. */
    uint32_t n_order, *place; /* place: [n_regions] position of the region in `order` */
    dop_region_id *order;     /* [n_order] regions by place */
    uint8_t *seen;            /* [n_regions] scratch of searches, zero between them */
    dop_region_id *stack;
    /* Regions whose outputs must be recomputed (dop_flow_settle). */
    uint32_t n_dirty, cap_dirty;
    dop_region_id *dirty;
    bool *is_dirty; /* [n_regions] */
} dop_flow;

/* Builds the flow from the current regions. */
dop_status dop_flow_init(const dop_graph *g, dop_diag *diag, dop_flow *out_flow);
void dop_flow_finish(dop_flow *f);
/* Builds the flow, recomputes the outputs of each region (region.outs) from their readers, and drops regions that store nothing. */
dop_status dop_flow_start(dop_graph *g, dop_diag *diag, dop_flow *out_flow);

static inline uint32_t
dop_flow_n_readers(const dop_flow *f, dop_node_id id)
{
    return f->readers[id].n;
}

/* Calls fn once for every value (base node, leaves included) that the region reads from memory. */
typedef void (*dop_reads_fn)(void *user, dop_node_id base);
void dop_region_reads(const dop_region *r, dop_reads_fn fn, void *user);
/* dop_flow_path_around: true if a path leads from a to b through at least one other region.  dop_flow_path_between: the same in
 * either direction. */
bool dop_flow_path_around(const dop_flow *f, dop_region_id a, dop_region_id b);
bool dop_flow_path_between(const dop_flow *f, dop_region_id a, dop_region_id b);
/* True if one of the two reads a value that the other stores. */
bool dop_flow_reads(const dop_flow *f, dop_region_id a, dop_region_id b);

/* Moves all nodes of src into dst (template `tpl`), keeping handle order. src is dead afterwards unless keep_src.  No path may
 * lead around the two.  Call dop_flow_settle() before the next query. */
dop_status dop_flow_absorb(dop_flow *f, dop_graph *g, dop_region_id dst, dop_region_id src, dop_template tpl,
                           bool keep_src, dop_diag *diag);
/* Recomputes the outputs of changed regions. */
dop_status dop_flow_settle(dop_flow *f, dop_graph *g, dop_diag *diag);
/* Absorbs src into dst and settles the flow. */
dop_status dop_flow_join(dop_flow *f, dop_graph *g, dop_region_id dst, dop_region_id src, dop_diag *diag,
                         bool *changed);

#endif
