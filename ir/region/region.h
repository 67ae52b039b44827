/* Analysis of a region, computed once and used by passes, the verifier, selection, generators, the plan writer, the report
 * and --check (docs/design.md, section 3).
 *
 * A region's nodes are in handle order, which is a topological order.  dop_region_describe() reads the template, the nodes and
 * the outputs, so it must run again after any of them changes.  The verifier rejects a region with an outdated analysis, and a
 * region that does not store each of its outputs exactly once.
 *
 * All lists are in handle order and allocated in the graph's arena; reading them needs no lock. */
#ifndef DOPPLER_IR_REGION_REGION_H
#define DOPPLER_IR_REGION_REGION_H

#include "ir/graph/graph.h"

/* A segment: sibling products (such as gate and up of a feed-forward network) whose results are combined in one output.  One
 * workgroup computes the same columns of each product of the segment. */
typedef struct dop_segment {
    uint32_t n_mats;
    dop_node_id *mats; /* the products */
    /* Rows of each matrix, which are columns of the product (of one slot).  0: the products or their rows differ, which is an
     * error. */
    uint32_t rows;
    uint32_t act; /* index in dop_product_facts.activations of the activation that the products read */
    uint32_t n_outs;
    dop_node_id *outs;  /* stored values that are computed from the products, except argmax */
    dop_node_id argmax; /* partial arg-max over the segment's values; 0: none */
} dop_segment;

/* A row program: nodes that a group of invocations computes together, iterating over a vector (a row or a head) of `unit`. */
typedef struct dop_program {
    dop_unit unit;
    uint32_t n_nodes;
    dop_node_id *nodes;
} dop_program;

enum { DOP_MAX_WRITES = 2 }; /* maximum cache writes of an attention region: K and V */
enum { DOP_MAX_ACTS = 4 };   /* maximum activations of a region's products */

/* Facts about the matrix products of a region (templates gemv, matmul, expert and expert_tiles). */
typedef struct dop_product_facts {
    uint32_t n_mats; /* products of all segments */
    dop_node_id *mats;
    uint32_t n_parts; /* segments, ordered by their first products */
    dop_segment *parts;
    uint32_t most_mats; /* maximum number of products in one segment (>= 1) */
    dop_node_id act;    /* activation: source 0 of the first segment's products */
    /* The distinct activations of the region's products, in the order of the segments, all of one length.  In template gemv,
     * products of different segments may read different activations computed from one row (for example, one residual normalized
     * by several norms). */
    uint32_t n_activations;
    dop_node_id activations[DOP_MAX_ACTS];
    uint32_t depth; /* K: values of an activation that one output sums over */
    /* [n_nodes of the region] segment that computes the node; n_parts: not computed from any product */
    const uint32_t *part_of;
    const bool *feeds; /* [n_nodes of the region] true if an activation is computed from the node */
    bool
        staged; /* a row program runs before the products, because the activation needs it or because it stores something */
    uint32_t n_stats; /* statistics that no product depends on; unless `staged`, they are used only after the sums */
    dop_node_id *stats;
    dop_program prog; /* row program that computes the activation, statistics and stored rows */
    /* Templates gemv and expert: a product with an activation other than `act`; 0: none.  An invocation accumulates it along with
     * the region's only other product, and the only segment combines both results.  It belongs to no segment itself. */
    dop_node_id beside;
    /* Values of one segment that the epilogues of other segments read as whole rows (the first half of a low-rank product).  The
     * workgroups of those segments wait for the ones that compute the value. */
    uint32_t n_awaited;
    dop_node_id *awaited;
} dop_product_facts;

/* Facts about products with experts (templates expert and expert_tiles), whose matrices are chosen by a value. */
typedef struct dop_expert_facts {
    uint32_t slots;  /* slots (chosen experts of a row) of each product; 1 without experts */
    dop_node_id ids; /* matrix of each slot of a row; 0: slot j uses matrix j */
    /* The node group_rows, whose order (sorted by expert) the computation follows; 0: the order of the step. */
    dop_node_id blocks;
    dop_node_id sum; /* sum over the slots of the region's only product; 0: none */
    dop_program
        choice; /* row program that chooses the experts before the products; empty: the region only reads the choice */
} dop_expert_facts;

/* The per-head product of a gemv or attention region.  The region computes and stores a value, and each head of the value is
 * multiplied with a matrix of its own.  The last workgroup that finishes values of a head computes the head's product. */
typedef struct dop_tail_facts {
    dop_node_id id; /* the per-head product; 0: none */
    dop_node_id of; /* value whose heads are multiplied */
} dop_tail_facts;

/* Facts about a region of template row: one row program per unit.  Arithmetic on weight vectors (rank 1) belongs to no program. */
typedef struct dop_row_facts {
    uint32_t n_programs;
    dop_program *programs;
} dop_row_facts;

/* Facts about a region of template attention. */
typedef struct dop_attention_facts {
    dop_node_id root;   /* attention or attn_split; 0: the region has another template */
    dop_node_id merged; /* attn_combine that merges the splits in this region; 0: none, or in another region */
    dop_program query;  /* row program that computes the queries */
    bool query_runs;    /* `query` runs as a row program, because it sums over heads or rotates computed values */
    uint32_t n_writes;
    struct {
        dop_node_id id; /* state_write */
        uint32_t which; /* written cache, 0: K, 1: V */
        bool
            again; /* K and V are one cache: the row is computed for this use too, but only the first write stores it */
        dop_program prog;
    } writes[DOP_MAX_WRITES];
    uint32_t n_after; /* outputs that are computed from the result of the attention */
    dop_node_id *after;
    /* Row programs that run before all others: statistics of whole rows that the heads need, one program per row length. */
    uint32_t n_whole;
    dop_program *whole;
} dop_attention_facts;

/* Facts about a region of template scan (a linear recurrence). */
typedef struct dop_scan_facts {
    dop_node_id
        root; /* any root of the region, all of which read the same sources; 0: the region has another template */
    dop_node_id made[2];  /* root that computes values, and root that computes states; 0: none */
    dop_node_id saved;    /* state_write of the new states; 0: in another region */
    dop_program heads[2]; /* row programs that compute q and k; without nodes: q or k is loaded */
    dop_program behind;   /* epilogue: nodes computed from the recurrence's values, the root included */
} dop_scan_facts;

/* The analysis of a region: facts about every region, then a record for each family of templates.  The records of other families
 * are zero. */
typedef struct dop_analysis {
    uint64_t digest; /* digest of the template, nodes and outputs that were analysed */
    dop_node_id
        root;      /* node that the region is built around: product, attention or reduction, otherwise its first node */
    bool has_unit; /* some node sums over vectors of `unit` or rotates their pairs */
    dop_unit unit;
    uint32_t n_reads;
    dop_node_id *reads; /* values that the region reads from memory: base nodes, leaves included */
    const bool *wide;   /* [n_nodes of the region] true if four columns of the node can be computed at once */

    dop_product_facts product;
    dop_expert_facts experts;
    dop_tail_facts tail;
    dop_row_facts row;
    dop_attention_facts attn;
    dop_scan_facts scan;

    uint32_t capacity; /* number of nodes that `memory` has space for */
    void *memory;      /* memory of all lists */
} dop_analysis;

/* Analyses the region and sets r->info.  Accepts any list of ids; the verifier reports invalid ones.  Errors: out of memory. */
dop_status dop_region_describe(dop_graph *g, dop_region *r, dop_diag *diag);
/* Analyses every region that is not dead (dop_region_describe). */
dop_status dop_graph_describe(dop_graph *g, dop_diag *diag);
uint64_t dop_region_digest(const dop_region *r);
/* True if `value` is an activation of the region's products, or is read to compute one. */
bool dop_region_feeds(const dop_graph *g, const dop_region *r, dop_node_id value);
/* Counts how often the region stores each output: counts[n_outs], each 1 in a correct region. */
void dop_region_storers(const dop_region *r, uint32_t *counts);

/* True if region r can compute four columns of the node at a time: every width on the way is a multiple of 4 or 1. */
bool dop_region_wide(const dop_graph *g, const dop_region *r, dop_node_id id);
/* True if the region stores `value` in a way that lets its workgroups read results of other workgroups of the dispatch. */
bool dop_region_hands_on(const dop_region *r, dop_node_id value);
/* Waits between segments.  dop_region_awaits: true if other segments wait for `value`.  dop_region_part_is_awaited: true if other
 * segments wait for a value of this segment.  dop_region_part_waits: true if the segment waits for another one. */
bool dop_region_awaits(const dop_region *r, dop_node_id value);
bool dop_region_part_is_awaited(const dop_region *r, uint32_t part);
bool dop_region_part_waits(const dop_graph *g, const dop_region *r, uint32_t part);
/* Returns the number of the segment that computes `id`; n_parts if none does. */
uint32_t dop_region_part(const dop_region *r, dop_node_id id);
bool dop_region_is_out(const dop_region *r, dop_node_id id);

#endif
