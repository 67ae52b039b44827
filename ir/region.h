/* What is known about a region, found once and read by everyone: passes, the verifier, selection, generators, the plan
 * writer, the report and --check (DESIGN section 3).
 *
 * A region's nodes stand in handle order, which is topological.  dop_region_describe() looks at the template, the nodes
 * and the outputs, so it runs again whenever one of them changes; the verifier refuses a region that was changed behind
 * its analysis' back, and one with an output that nothing of it stores, or two things do.
 *
 * All lists are in handle order and lie in the graph's arena; reading them needs no lock. */
#ifndef DOPPLER_IR_REGION_H
#define DOPPLER_IR_REGION_H

#include "ir/graph.h"

/* Products that meet: some output is made of all of them, so one workgroup makes the same columns of each. */
typedef struct dop_part {
    uint32_t n_mats;
    dop_node_id *mats; /* the products */
    uint32_t rows;     /* of each matrix: columns of a product; 0: the products differ */
    uint32_t n_outs;
    dop_node_id *outs;  /* stored values made of them, argmax not counted */
    dop_node_id argmax; /* partial arg-max over what they make, 0: none */
} dop_part;

/* Nodes that one team walks over a vector of `unit` together. */
typedef struct dop_program {
    dop_unit unit;
    uint32_t n_nodes;
    dop_node_id *nodes;
} dop_program;

enum { DOP_MAX_WRITES = 2 }; /* of one step into the caches of an attention region: K and V */

typedef struct dop_analysis {
    uint64_t digest;  /* of the template, nodes and outputs that were looked at */
    dop_node_id root; /* the product, attention or reduction it is built around; its first node when there is none */
    bool has_unit;    /* something sums over vectors of `unit` or rotates their pairs */
    dop_unit unit;
    uint32_t n_reads;
    dop_node_id *reads; /* values (of base nodes, leaves included) that it reads from memory */
    const bool *wide;   /* [n_nodes of the region] four columns of the node can be computed at once */

    /* templates gemv and matmul */
    uint32_t n_products; /* in all parts */
    dop_node_id *products;
    uint32_t n_parts; /* ordered by their first products */
    dop_part *parts;
    uint32_t most_mats; /* of any part, at least 1 */
    dop_node_id act;    /* activation: source 0 of every product */
    uint32_t depth;     /* its columns */
    const uint32_t
        *part_of;      /* [n_nodes of the region] the part that the node is of; n_parts: it is made of no product */
    const bool *feeds; /* [n_nodes of the region] the activation is made of the node */
    bool staged;       /* the activation needs a row program first, or the program stores something */
    uint32_t n_stats;  /* statistics that no product depends on: unless staged, wanted after the sums only */
    dop_node_id *stats;
    dop_program prog; /* what the activation, a statistic or a stored row is made of */

    /* template row: the nodes by unit; arithmetic on weight vectors (rank 1) is in none of them */
    uint32_t n_programs;
    dop_program *programs;

    /* template attention */
    dop_node_id attention; /* attention or attn_split */
    dop_node_id merged;    /* the merge of its parts, 0: elsewhere or none */
    dop_program query;     /* what the region makes of the queries */
    bool query_runs;       /* ... as a row program: it sums over heads, or rotates what it computes */
    uint32_t n_writes;
    struct {
        dop_node_id id; /* state_write */
        uint32_t which; /* 0: K, 1: V */
        bool again;     /* V is the cache of K: the row is made for this use of it too, and stored by the first */
        dop_program prog;
    } writes[DOP_MAX_WRITES];
    uint32_t n_after; /* outputs made of the attention itself */
    dop_node_id *after;

    uint32_t capacity; /* nodes that the lists have memory for */
    void *memory;
} dop_analysis;

/* Looks at the region and sets r->info.  Any ids may be listed: what is wrong with them is the verifier's to say.
 * Errors: out of memory. */
dop_status dop_region_describe(dop_graph *g, dop_region *r, dop_diag *diag);
/* The same for every region that is alive. */
dop_status dop_graph_describe(dop_graph *g, dop_diag *diag);
uint64_t dop_region_digest(const dop_region *r);
/* Is `value`, made outside or inside, the activation of the region's products or read by what makes it? */
bool dop_region_feeds(const dop_graph *g, const dop_region *r, dop_node_id value);
/* counts[n_outs]: how many things of the region store each output; 1 when all is well. */
void dop_region_storers(const dop_region *r, uint32_t *counts);

/* Can the node be computed four columns at a time in region r?  (Every width on the way is a multiple of 4 or 1.) */
bool dop_region_wide(const dop_graph *g, const dop_region *r, dop_node_id id);
/* Number of the part that makes `id`, n_parts: none does. */
uint32_t dop_region_part(const dop_region *r, dop_node_id id);
bool dop_region_is_out(const dop_region *r, dop_node_id id);

#endif
