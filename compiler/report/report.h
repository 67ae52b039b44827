/* The fusion report: what each dispatch does and costs, what was fused by which rule, what was not and why.
 *
 * dop_report_make() gathers everything once; the writers (text, JSON, one HTML page) only print it. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_H
#define DOPPLER_COMPILER_REPORT_REPORT_H

#include "compiler/schedule/compilation.h"

/* Number of cached positions with which the traffic of attention is counted. */
enum { DOP_REPORT_DEPTH = 512 };

/* A row of the table of regions: equal regions (label but for the layer, ops, kernel, number of workgroups) of several layers.  Bytes
 * and time are sums over all `count` regions, per token: those of a schedule of T tokens, divided by T. */
typedef struct dop_report_row {
    const char *label; /* "L*.qkv" with a slash: every layer's qkv; "head" */
    const char *tpl, *variant, *why;
    const char *ops; /* names of the ops in order, separated by spaces */
    uint32_t count;
    double read, written; /* bytes */
    double floor_us;      /* microseconds that the bytes take at the target's bandwidth */
    uint32_t workgroups;  /* workgroups of one region */
    uint32_t kernel;      /* index into the compilation's kernels */
    dop_region_id first;  /* the first of the equal regions */
} dop_report_row;

/* A row of the table of fusions: pairs of ops that one pass joined by one rule. */
typedef struct dop_report_fusion {
    const char *rule, *pass, *producer, *consumer; /* producer, consumer: ops */
    uint32_t count, dispatches;                    /* edges; dispatches saved */
    double bytes;                                  /* bytes of traffic saved per token */
} dop_report_fusion;

/* A row of the table of refusals: a dispatch that reads what another one makes, with the reason of every pass that tried to join
 * the two. */
typedef struct dop_report_refusal {
    const char *producer, *consumer; /* ops */
    const char *from, *to;           /* labels of the two dispatches, with L* for any layer */
    const char *reasons;             /* "fuse-prologue cost, fuse-epilogue reduction-barrier" */
    dop_reason reason;               /* the reason of the pass that came closest to joining the two */
    uint32_t count;
    double bytes; /* bytes that a fusion would save, per token */
} dop_report_refusal;

/* A cell of the viability matrix: what becomes of a producer of one kind whose value a consumer of another kind reads. */
typedef struct dop_report_class {
    const char *producer, *consumer; /* "element", "reduction", "tiled" */
    const char *why;                 /* what this compiler can join there */
    uint32_t fused, refused;
    uint32_t reasons[DOP_REASON_COUNT];
} dop_report_class;
enum { DOP_REPORT_CLASSES = 9 };

typedef struct dop_report_totals {
    uint32_t dispatches, barriers;
    double read, written; /* bytes per token */
    uint64_t activations; /* bytes of memory for activations */
    uint64_t unshared;    /* the bytes of all of them together: what they would take if none shared another's memory */
} dop_report_totals;

typedef struct dop_report_schedule {
    const dop_schedule *s;
    uint32_t tokens;
    uint32_t per_layer, outside; /* dispatches: of the layer that has most; of no layer */
    uint32_t kernels;            /* number of distinct kernels */
    dop_report_totals before, after;
    uint32_t n_rows, n_fusions, n_refusals, n_unexplained;
    dop_report_row *rows;
    dop_report_fusion *fusions;
    dop_report_refusal *refusals;
    dop_report_class classes[DOP_REPORT_CLASSES];
    /* The graph before the passes, with one region per op, for drawing. */
    dop_graph unfused;
} dop_report_schedule;

/* A row of the table of weights: weights that share their stored, asked and packed types and the number of experts. */
typedef struct dop_report_weights_row {
    dop_type stored, packed; /* types; stored none: the compiler computes it */
    dop_type asked;          /* by --quant; not `packed` where its blocks would need too much padding */
    uint32_t cols;           /* values of a row where `asked` is not `packed`; else 0 */
    uint32_t experts;        /* matrices of each weight */
    uint32_t count;
    uint64_t bytes;  /* bytes in the plan */
    const char *how; /* "copied", "repacked", "converted", "quantized", "computed" */
} dop_report_weights_row;

typedef struct dop_report {
    const dop_compilation *c;
    dop_arena arena;
    uint64_t weights, caches, activations, results, kernels; /* bytes of device memory; kernels: of SPIR-V */
    uint32_t n_weights;
    dop_report_weights_row *weights_rows; /* most bytes first */
    uint32_t n_schedules;
    dop_report_schedule schedules[DOP_MAX_SCHEDULES];
    /* The parts that the plan is cut into (parts.h); set by the caller after dop_report_make. */
    const dop_compilation *parts;
    uint32_t n_parts; /* 0: the plan is in one piece */
} dop_report;

/* report_parts.c: a row of the table of parts. */
typedef struct dop_report_part {
    uint32_t first_layer, end_layer;
    const char *target;
    uint64_t weights, caches, activations; /* bytes of device memory */
    double read, written;                  /* bytes for a token, with DOP_REPORT_DEPTH cached positions */
    double floor_us;                       /* time for these bytes at the target's bandwidth */
    uint64_t sent;                         /* bytes per token that the next part receives; 0: this is the last part */
} dop_report_part;

/* Bytes of the states: of caches, and of all copies of those that steps replace. */
uint64_t dop_report_state_bytes(const dop_compilation *c);
/* Appends the table of the parts to the text.  Here and below, nothing where the plan is in one piece. */
void dop_report_parts_text(const dop_report *r, dop_buf *out);
/* Appends the table of the parts, and a table of the values that cross each cut, to the page. */
void dop_report_parts_html(const dop_report *r, dop_buf *out);
/* Adds the list `parts` to the JSON. */
void dop_report_parts_json(const dop_report *r, void *json_object);

dop_status dop_report_make(const dop_compilation *c, dop_diag *diag, dop_report *out_report);
void dop_report_finish(dop_report *r); /* accepts a zeroed one */
/* A number of bytes for people, as "1.18 MiB"; returns out. */
const char *dop_report_bytes(double bytes, char *out, size_t cap);

/* report_weights.c.  count: makes the table of weights.  why: text to append to a row: how many experts each weight has, and why the
 * packed type is not the asked one; "": nothing to say. */
dop_status dop_report_count_weights(dop_report *r, dop_diag *diag);
void dop_report_weights_why(const dop_report_weights_row *row, char *out, size_t cap);

void dop_report_text(const dop_report *r, dop_buf *out);

/* One object, keys in this order; bytes are per token unless said otherwise, counts are integers.
 *   format              "doppler-report 1"
 *   model               {name, family, context}
 *   target              {name, bandwidth (bytes/s), capabilities [..]}
 *   kernel_path         name, or null
 *   distinct_kernels    of the whole plan
 *   memory              {weights, caches, activations, results, kernels}: bytes
 *   weights             [{stored, packed, asked, columns (null unless asked is not packed), count, bytes, how}]
 *   schedules           [{name, tokens, dispatches_per_layer, dispatches_outside, distinct_kernels,
 *                         persistent (a sentence; absent where a target does not ask for it),
 *                         before, after: {dispatches, barriers, bytes_read, bytes_written, activation_bytes,
 *                                 unshared_bytes (of activations, if none shared memory)},
 *                         regions: [{label, template, variant, why, ops [..], count, bytes_read, bytes_written,
 *                                    floor_us, workgroups, kernel}],
 *                         fusions: [{rule, pass, producer, consumer, count, bytes, dispatches}],
 *                         refusals: [{producer, consumer, from, to (labels of regions), reason, reasons, count,
 *                                    bytes}],
 *                         viability: [{producer, consumer, why, fused, refused, reasons {code: count}}]}]
 *   parts               of a plan in parts: [{layers [first, last], target, weights, caches, activations (bytes of memory),
 *                       bytes_read, bytes_written, floor_us, bytes_sent}]
 *   reasons             {code: text} */
dop_status dop_report_json(const dop_report *r, dop_diag *diag, dop_buf *out);

extern const char *const dop_page_report; /* assets/report.html */

/* One page without external resources: totals, a layer drawn before and after, the tables of the text. */
dop_status dop_report_html(const dop_report *r, dop_diag *diag, dop_buf *out);

/* Why region `consumer` reads `base` from memory instead of computing it.  out_reasons: every pass's refusal of the pair.  Returns the
 * reason of the pass that came closest; none when no pass tried.  out_reader: the node that reads it. */
dop_reason dop_report_why(const dop_schedule *s, dop_region_id consumer, dop_node_id base, char *out_reasons,
                          size_t cap, dop_node_id *out_reader);

/* Name of a fusion by the ops it joins, for people who know the hand-written combinations: "residual+rmsnorm". */
const char *dop_fusion_rule(const dop_graph *g, const dop_fusion_event *e);
/* True if no residual sum is joined with the norm after it ("residual+rmsnorm"), because both were joined with others: sets the names
 * of these two fusions. */
bool dop_report_residual_rules(const dop_report_schedule *s, const char **out_add, const char **out_norm);

/* Which part of a plan runs each region of a schedule. */
typedef struct dop_report_places {
    const dop_compilation *parts; /* [n]; n == 0: the plan is in one piece, and there is nothing to say */
    uint32_t n;
    uint32_t schedule; /* index of the schedule */
    uint32_t *numbers; /* owned, [n_regions]: the part of each region; NULL without parts */
} dop_report_places;

dop_status dop_report_places_make(const dop_compilation *c, uint32_t schedule, const dop_compilation *parts, uint32_t n,
                                  dop_diag *diag, dop_report_places *out_places);
void dop_report_places_finish(dop_report_places *p); /* accepts a zeroed one */
/* Appends where a region runs to the line about it: ", in part 0 of 2, which sends x1 (256 bytes a row) to part 1". */
void dop_report_place(const dop_report_places *p, const dop_schedule *s, dop_region_id r, dop_buf *out);

/* report_explain.c, --explain.  OP: why each region with this op, template, label or role got its kernel.  A+B: why regions of B
 * read from memory what regions of A make, or by which rule the ops were joined.  Equal layers are grouped.  parts[n]: the parts
 * of the plan; n == 0: it is in one piece. */
dop_status dop_report_explain(const dop_compilation *c, const char *op, const dop_compilation *parts, uint32_t n,
                              dop_diag *diag, dop_buf *out);

#endif
