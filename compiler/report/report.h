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

dop_status dop_report_make(const dop_compilation *c, dop_diag *diag, dop_report *out_report);
void dop_report_finish(dop_report *r); /* accepts a zeroed one */
/* A number of bytes for people, as "1.18 MiB"; returns out. */
const char *dop_report_bytes(double bytes, char *out, size_t cap);

extern const char *const dop_page_report; /* assets/report.html */

/* Why region `consumer` reads `base` from memory instead of computing it.  out_reasons: every pass's refusal of the pair.  Returns the
 * reason of the pass that came closest; none when no pass tried.  out_reader: the node that reads it. */
dop_reason dop_report_why(const dop_schedule *s, dop_region_id consumer, dop_node_id base, char *out_reasons,
                          size_t cap, dop_node_id *out_reader);

/* Which part of a plan runs each region of a schedule. */
typedef struct dop_report_places {
    const dop_compilation *parts; /* [n]; n == 0: the plan is in one piece, and there is nothing to say */
    uint32_t n;
    uint32_t schedule; /* index of the schedule */
    uint32_t *numbers; /* owned, [n_regions]: the part of each region; NULL without parts */
} dop_report_places;

#endif
