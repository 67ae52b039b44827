/* The fusion report: what each dispatch does and costs, what was fused by which rule, what was not and why.
 *
 * dop_report_make() gathers everything once; the writers (text, JSON, one HTML page) only print it. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_H
#define DOPPLER_COMPILER_REPORT_REPORT_H

#include "compiler/schedule/compilation.h"

/* Cache positions at which traffic is counted. */
enum { DOP_REPORT_DEPTH = 512 };

/* The regions of several layers that do the same, as one row.  Bytes and time are those of all `count` of them, per token (in a
 * schedule of T tokens, divided by T). */
typedef struct dop_report_row {
    const char *label; /* "L*.qkv" with a slash: every layer's qkv; "head" */
    const char *tpl, *variant, *why;
    const char *ops; /* separated by spaces, in order */
    uint32_t count;
    double read, written; /* bytes */
    double floor_us;      /* bytes over the profile's bandwidth */
    uint32_t workgroups;  /* of one of them */
    uint32_t kernel;      /* number of its kernel */
    dop_region_id first;  /* the first such region */
} dop_report_row;

typedef struct dop_report_fusion {
    const char *rule, *pass, *producer, *consumer; /* ops */
    uint32_t count, dispatches;                    /* edges; dispatches saved */
    double bytes;                                  /* of traffic saved per token */
} dop_report_fusion;

/* A pair of neighbouring dispatches in the data flow, and the reasons of each pass that tried against joining them. */
typedef struct dop_report_refusal {
    const char *producer, *consumer; /* ops */
    const char *from, *to;           /* labels of their dispatches, written like those of regions */
    const char *reasons;             /* "fuse-prologue cost, fuse-epilogue reduction-barrier" */
    dop_reason reason;               /* the one that decided: of the pass that came closest */
    uint32_t count;
    double bytes; /* bytes that a fusion would save, per token */
} dop_report_refusal;

/* A cell of the viability matrix. */
typedef struct dop_report_class {
    const char *producer, *consumer; /* "element", "reduction", "tiled" */
    const char *why;                 /* what this compiler does */
    uint32_t fused, refused;
    uint32_t reasons[DOP_REASON_COUNT];
} dop_report_class;
enum { DOP_REPORT_CLASSES = 9 };

typedef struct dop_report_totals {
    uint32_t dispatches, barriers;
    double read, written; /* bytes per token */
    uint64_t activations; /* bytes of memory */
} dop_report_totals;

typedef struct dop_report_schedule {
    const dop_schedule *s;
    uint32_t tokens;
    uint32_t per_layer, outside; /* dispatches: the most that a layer takes; those that belong to none */
    uint32_t kernels;            /* distinct ones */
    dop_report_totals before, after;
    uint32_t n_rows, n_fusions, n_refusals, n_unexplained;
    dop_report_row *rows;
    dop_report_fusion *fusions;
    dop_report_refusal *refusals;
    dop_report_class classes[DOP_REPORT_CLASSES];
    /* Of the graph before the passes, one region per op, for drawing. */
    dop_graph unfused;
} dop_report_schedule;

/* The weights that have the same stored and the same packed type. */
typedef struct dop_report_weights_row {
    dop_type stored, packed; /* stored: none for what the compiler computes */
    dop_type asked;   /* by --quant; differs from `packed` where blocks of that type would need too much padding */
    uint32_t cols;    /* in that case, values of a row */
    uint32_t experts; /* matrices of each weight */
    uint32_t count;
    uint64_t bytes;  /* packed */
    const char *how; /* "copied", "repacked", "converted", "quantized", "computed" */
} dop_report_weights_row;

typedef struct dop_report {
    const dop_compilation *c;
    dop_arena arena;
    uint64_t weights, caches, activations, results, kernels; /* bytes of device memory, and of SPIR-V */
    uint32_t n_weights;
    dop_report_weights_row *weights_rows; /* most bytes first */
    uint32_t n_schedules;
    dop_report_schedule schedules[DOP_MAX_SCHEDULES];
    /* The parts that the plan is cut into (parts.h); set by the caller after dop_report_make. */
    const dop_compilation *parts;
    uint32_t n_parts; /* 0: the plan is in one piece */
} dop_report;

/* report_parts.c: one part. */
typedef struct dop_report_part {
    uint32_t first_layer, end_layer;
    const char *target;
    uint64_t weights, caches, activations; /* bytes of device memory */
    double read, written;                  /* bytes for a token, with DOP_REPORT_DEPTH cached positions */
    double floor_us;                       /* time for these bytes at the target's bandwidth */
    uint64_t sent;                         /* bytes per token that the next part receives; 0: this is the last part */
} dop_report_part;

uint64_t dop_report_state_bytes(const dop_compilation *c); /* of caches and replaced states */
/* As a table for the text, and as a list for the JSON. */
void dop_report_parts_text(const dop_report *r, dop_buf *out);
/* A table of the parts, and one of what crosses each cut; nothing where there are no parts. */
void dop_report_parts_html(const dop_report *r, dop_buf *out);
void dop_report_parts_json(const dop_report *r, void *json_object);

dop_status dop_report_make(const dop_compilation *c, dop_diag *diag, dop_report *out_report);
void dop_report_finish(dop_report *r); /* accepts a zeroed one */
/* A number of bytes for people, as "1.18 MiB"; returns out. */
const char *dop_report_bytes(double bytes, char *out, size_t cap);

/* report_weights.c: the table of weights, and why a row has another type than asked for ("" if it does not). */
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
 *                         before, after: {dispatches, barriers, bytes_read, bytes_written, activation_bytes},
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

/* Why region `consumer` reads `base` from memory instead of computing it: every refusal of the pair, and the one that
 * decided; none when no pass tried.  out_reader: the node that reads it. */
dop_reason dop_report_why(const dop_schedule *s, dop_region_id consumer, dop_node_id base, char *out_reasons,
                          size_t cap, dop_node_id *out_reader);

/* Name of a fusion by the ops it joins, for people who know the hand-written combinations: "residual+rmsnorm". */
const char *dop_fusion_rule(const dop_graph *g, const dop_fusion_event *e);
/* Where the regions of a schedule run. */
typedef struct dop_report_places {
    const dop_compilation *parts; /* [n]; n == 0: the plan is in one piece, and there is nothing to say */
    uint32_t n;
    uint32_t schedule; /* number of it */
    uint32_t *numbers; /* owned, [n_regions]: the part of each region; NULL without parts */
} dop_report_places;

dop_status dop_report_places_make(const dop_compilation *c, uint32_t schedule, const dop_compilation *parts, uint32_t n,
                                  dop_diag *diag, dop_report_places *out_places);
void dop_report_places_finish(dop_report_places *p); /* accepts a zeroed one */
/* ", in part 0 of 2, which sends x1 (256 bytes a row) to part 1": of a region, in the line about it. */
void dop_report_place(const dop_report_places *p, const dop_schedule *s, dop_region_id r, dop_buf *out);

/* report_explain.c: --explain OP: why each region with that op, template, label or last part of a label got its kernel; A+B: why
 * the regions of B read from memory what those of A make, or by which rule the ops were joined, with equal layers grouped.
 * parts[n]: of the plan; n == 0: it is in one piece. */
dop_status dop_report_explain(const dop_compilation *c, const char *op, const dop_compilation *parts, uint32_t n,
                              dop_diag *diag, dop_buf *out);

#endif
