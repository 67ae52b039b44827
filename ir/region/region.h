/* What is known about a region, found once and read by everyone: passes, the verifier, selection, generators, the plan
 * writer, the report and --check (docs/design.md, section 3).
 *
 * A region's nodes are in handle order, which is a topological order.  dop_region_describe() reads the template, the nodes and
 * the outputs, so it must run again whenever one of them changes.  The verifier refuses a region whose analysis is out of date,
 * and a region with an output that nothing in it stores or that is stored twice.
 *
 * All lists are in handle order and lie in the graph's arena; reading them needs no lock. */
#ifndef DOPPLER_IR_REGION_REGION_H
#define DOPPLER_IR_REGION_REGION_H

#include "ir/graph/graph.h"

/* A segment: sibling products (as gate and up of a feed-forward network) whose results are combined in one output.  One workgroup
 * makes the same columns of each product of the segment. */
typedef struct dop_segment {
    uint32_t n_mats;
    dop_node_id *mats; /* the products */
    /* Rows of each matrix, which are columns of the product (of one slot); 0: the products differ, or their rows do. */
    uint32_t rows;
    uint32_t act; /* index of the activation that the segment's products read, among the region's */
    uint32_t n_outs;
    dop_node_id *outs;  /* stored values computed from them, argmax not counted */
    dop_node_id argmax; /* partial arg-max over the segment's values; 0: none */
} dop_segment;

/* A row program: nodes that a group of invocations computes together, walking over a vector (a row or a head) of `unit`. */
typedef struct dop_program {
    dop_unit unit;
    uint32_t n_nodes;
    dop_node_id *nodes;
} dop_program;

enum { DOP_MAX_WRITES = 2 }; /* cache writes of an attention region: K and V */
enum { DOP_MAX_ACTS = 4 };   /* activations of a region's products */

/* Facts about the matrix products of a region (templates gemv, matmul, expert and expert_tiles). */
typedef struct dop_product_facts {
    uint32_t n_mats; /* products, of all parts together */
    dop_node_id *mats;
    uint32_t n_parts; /* segments, ordered by their first products */
    dop_segment *parts;
    uint32_t most_mats; /* products of the part that has most; at least 1 */
    dop_node_id act;    /* activation: source 0 of the first part's products */
    /* The distinct activations of the region's products, in the order of the parts, all of one length.  In template gemv products
     * of different parts may read different ones that are computed from one row (say from a residual and the weights of several
     * norms). */
    uint32_t n_activations;
    dop_node_id activations[DOP_MAX_ACTS];
    uint32_t depth; /* K: values of an activation that one output sums over */
    /* [n_nodes of the region] the part that the node belongs to; n_parts: it is computed from no product */
    const uint32_t *part_of;
    const bool *feeds; /* [n_nodes of the region] an activation is computed from the node */
    bool staged;       /* a row program runs before the products: the activation needs it, or it stores something */
    uint32_t n_stats;  /* statistics that no product depends on; unless `staged`, they are used only after the sums */
    dop_node_id *stats;
    dop_program prog; /* computes the activation, a statistic or a stored row */
    /* Templates gemv and expert: a product whose activation is another row than `act`; 0: none.  An invocation sums it beside the
     * region's only other product, and the only part combines both results.  The product belongs to no part itself. */
    dop_node_id beside;
    /* Values that a part makes and of which other parts read whole rows, behind their own sums (the first half of a product of low
     * rank).  These parts' workgroups wait for those that make the value. */
    uint32_t n_awaited;
    dop_node_id *awaited;
} dop_product_facts;

/* Facts about products by expert (templates expert and expert_tiles), whose matrices are chosen by a value. */
typedef struct dop_expert_facts {
    uint32_t slots;  /* slots (chosen experts of a row) of each product; 1 without experts */
    dop_node_id ids; /* which matrix each slot of a row uses; 0: slot j uses matrix j */
    /* The node group_rows, by whose order (sorted by expert) the rows of the step are computed; 0: in the step's order. */
    dop_node_id blocks;
    dop_node_id sum;    /* sum over the slots of the one product, 0: none */
    dop_program choice; /* nodes that run before the products, where the region itself makes its choice of experts */
} dop_expert_facts;

/* The per-head product of a region of template gemv or attention: the region makes and stores a value, and each head of the value
 * is multiplied with a matrix of its own.  The last workgroup that finishes values of a head computes the head's product. */
typedef struct dop_tail_facts {
    dop_node_id id; /* the product, 0: none */
    dop_node_id of; /* the value whose heads are multiplied */
} dop_tail_facts;

/* Facts about a region of template row: one row program for each unit.  No program has the arithmetic on weight vectors (rank
 * 1). */
typedef struct dop_row_facts {
    uint32_t n_programs;
    dop_program *programs;
} dop_row_facts;

/* Facts about a region of template attention. */
typedef struct dop_attention_facts {
    dop_node_id root;   /* attention or attn_split; 0: another template */
    dop_node_id merged; /* the merge of its parts, 0: elsewhere or none */
    dop_program query;  /* what the region computes from the queries */
    bool query_runs;    /* `query` runs as a row program, because it sums over heads or rotates computed values */
    uint32_t n_writes;
    struct {
        dop_node_id id; /* state_write */
        uint32_t which; /* 0: K, 1: V */
        bool again; /* K and V are one cache: the row is computed for this use too, but only the first one stores it */
        dop_program prog;
    } writes[DOP_MAX_WRITES];
    uint32_t n_after; /* outputs that are computed from the attention itself */
    dop_node_id *after;
    /* Row programs that run before all others: statistics of whole rows that the heads need, a program for each row length. */
    uint32_t n_whole;
    dop_program *whole;
} dop_attention_facts;

/* Facts about a region of template scan (a linear recurrence). */
typedef struct dop_scan_facts {
    dop_node_id root;     /* any of its roots, which read the same sources; 0: another template */
    dop_node_id made[2];  /* the root that gives values and the one that gives states; 0: none */
    dop_node_id saved;    /* state_write of the new states, 0: in another region */
    dop_program heads[2]; /* what the region computes from q and k as row programs; no nodes: it loads them */
    dop_program behind;   /* epilogue: what the region computes from the recurrence's values, the root included */
} dop_scan_facts;

/* The analysis of a region: what is known of every region, then a record for each family of templates, which is zero in a region
 * of another family. */
typedef struct dop_analysis {
    uint64_t digest;  /* of the template, nodes and outputs that were analysed */
    dop_node_id root; /* product, attention or reduction that the region is built around; none: its first node */
    bool has_unit;    /* some node sums over vectors of `unit` or rotates their pairs */
    dop_unit unit;
    uint32_t n_reads;
    dop_node_id *reads; /* values (of base nodes, leaves included) that the region reads from memory */
    const bool *wide;   /* [n_nodes of the region] four columns of the node can be computed at once */

    dop_product_facts product;
    dop_expert_facts experts;
    dop_tail_facts tail;
    dop_row_facts row;
    dop_attention_facts attn;
    dop_scan_facts scan;

    uint32_t capacity; /* nodes for which `memory` has space */
    void *memory;      /* of all lists */
} dop_analysis;

/* Analyses the region and sets r->info.  It accepts any list of ids; reporting wrong ones is left to the verifier.
 * Errors: out of memory. */
dop_status dop_region_describe(dop_graph *g, dop_region *r, dop_diag *diag);
/* Analyses every region that is not dead (dop_region_describe). */
dop_status dop_graph_describe(dop_graph *g, dop_diag *diag);
uint64_t dop_region_digest(const dop_region *r);
/* Is `value`, computed inside or outside, an activation of the region's products, or read to compute one? */
bool dop_region_feeds(const dop_graph *g, const dop_region *r, dop_node_id value);
/* Counts how often the region stores each output: counts[n_outs], each 1 in a correct region. */
void dop_region_storers(const dop_region *r, uint32_t *counts);

/* Can the node be computed four columns at a time in region r?  (Every width on the way is a multiple of 4 or 1.) */
bool dop_region_wide(const dop_graph *g, const dop_region *r, dop_node_id id);
/* Does the region store `value` so that some of its own workgroups can read what other workgroups of the dispatch computed? */
bool dop_region_hands_on(const dop_region *r, dop_node_id value);
/* Do other parts of the region wait for `value`?  Do they for anything that the part with this number makes, or does the part wait? */
bool dop_region_awaits(const dop_region *r, dop_node_id value);
bool dop_region_part_is_awaited(const dop_region *r, uint32_t part);
bool dop_region_part_waits(const dop_graph *g, const dop_region *r, uint32_t part);
/* Number of the part that computes `id`; n_parts: none does. */
uint32_t dop_region_part(const dop_region *r, dop_node_id id);
bool dop_region_is_out(const dop_region *r, dop_node_id id);

#endif
