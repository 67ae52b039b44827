/* The fusion report: work and cost of each dispatch, fusions with their rules, and refused fusions with their reasons.
 *
 * dop_report_make() gathers all data once; the writers (text, JSON, one HTML page) only print it. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_H
#define DOPPLER_COMPILER_REPORT_REPORT_H

#include "compiler/schedule/compilation.h"

/* Number of cached positions assumed for the traffic of attention. */
enum { DOP_REPORT_DEPTH = 512 };

/* A row of the table of regions: regions of several layers with equal role, ops, kernel and number of workgroups. Bytes
 * and time are sums over all `count` regions per token: in a schedule of T tokens, divided by T. */
typedef struct dop_report_row {
    const char *label; /* label with L* for any layer (then a slash and "qkv"), or a role alone ("head") */
    const char *tpl, *variant, *why;
    const char *ops; /* names of the ops in order, separated by spaces */
    uint32_t count;
    double read, written; /* bytes */
    double floor_us;      /* minimum time in microseconds: bytes at the target's bandwidth */
    uint32_t workgroups;  /* workgroups of one region */
    uint32_t kernel;      /* index in the compilation's kernels */
    dop_region_id first;  /* first of the equal regions */
} dop_report_row;

/* A row of the table of fusions: pairs of ops that a pass joined by a rule. */
typedef struct dop_report_fusion {
    const char *rule, *pass, *producer, *consumer; /* producer, consumer: names of ops */
    uint32_t count, dispatches;                    /* number of edges; number of dispatches saved */
    double bytes;                                  /* traffic saved per token in bytes */
} dop_report_fusion;

/* A row of the table of refusals: a dispatch that reads another one's output, with the reason of every pass that tried
 * to join them. */
typedef struct dop_report_refusal {
    const char *producer, *consumer; /* names of ops */
    const char *from, *to;           /* labels of the two dispatches, with L* for any layer */
    const char *reasons;             /* passes and reasons: "fuse-prologue cost, fuse-epilogue tile-mismatch" */
    dop_reason reason;               /* reason of the pass that came closest to joining the two */
    uint32_t count;
    double bytes; /* traffic that a fusion would save per token in bytes */
} dop_report_refusal;

/* A cell of the viability matrix: fusions of a producer of one kind with a consumer of another kind. */
typedef struct dop_report_class {
    const char *producer, *consumer; /* kinds of ops: "element", "reduction" or "tiled" */
    const char *why;                 /* the fusions that this compiler supports here */
    uint32_t fused, refused;
    uint32_t reasons[DOP_REASON_COUNT];
} dop_report_class;
enum { DOP_REPORT_CLASSES = 9 };

typedef struct dop_report_totals {
    uint32_t dispatches, barriers;
    double read, written; /* bytes per token */
    uint64_t activations; /* bytes of activation memory */
    uint64_t unshared;    /* bytes of activation memory if no values shared memory */
} dop_report_totals;

typedef struct dop_report_schedule {
    const dop_schedule *s;
    uint32_t tokens;
    uint32_t per_layer, outside; /* dispatches of the layer with most; dispatches outside of layers */
    uint32_t kernels;            /* number of distinct kernels */
    dop_report_totals before, after;
    uint32_t n_rows, n_fusions, n_refusals, n_unexplained;
    dop_report_row *rows;
    dop_report_fusion *fusions;
    dop_report_refusal *refusals;
    dop_report_class classes[DOP_REPORT_CLASSES];
    /* Graph before the passes, with one region per op, for drawing. */
    dop_graph unfused;
} dop_report_schedule;

/* A row of the table of weights: weights with equal stored, requested and packed types and equal number of experts. */
typedef struct dop_report_weights_row {
    dop_type stored, packed; /* stored none: computed by the compiler, not in the model */
    dop_type asked;          /* type requested by --quant; not `packed` if its blocks would need too much padding */
    uint32_t cols;           /* values per row if `asked` is not `packed`; otherwise 0 */
    uint32_t experts;        /* number of matrices of each weight */
    uint32_t count;
    uint64_t bytes;  /* bytes in the plan */
    const char *how; /* one of "copied", "repacked", "converted", "quantized", "computed" */
} dop_report_weights_row;

typedef struct dop_report {
    const dop_compilation *c;
    dop_arena arena;
    uint64_t weights, caches, activations, results, kernels; /* bytes of device memory; kernels: bytes of SPIR-V */
    uint32_t n_weights;
    dop_report_weights_row *weights_rows; /* sorted by bytes in descending order */
    uint32_t n_schedules;
    dop_report_schedule schedules[DOP_MAX_SCHEDULES];
    /* Parts of the plan (parts.h). The caller sets them after dop_report_make(). */
    const dop_compilation *parts;
    uint32_t n_parts; /* 0: the plan has one part */
} dop_report;

/* report_parts.c: a row of the table of parts. */
typedef struct dop_report_part {
    uint32_t first_layer, end_layer;
    const char *target;
    uint64_t weights, caches, activations; /* bytes of the part's device memory */
    double read, written;                  /* bytes per token, with DOP_REPORT_DEPTH cached positions */
    double floor_us;                       /* minimum time in microseconds: these bytes at the target's bandwidth */
    uint64_t sent;                         /* bytes per token sent to the next part; 0 in the last part */
} dop_report_part;

/* Returns the bytes of all states: caches, and all copies of replaced states. */
uint64_t dop_report_state_bytes(const dop_compilation *c);

dop_status dop_report_make(const dop_compilation *c, dop_diag *diag, dop_report *out_report);
void dop_report_finish(dop_report *r); /* accepts a zeroed report */
/* Formats a number of bytes as "1.18 MiB". Returns out. */
const char *dop_report_bytes(double bytes, char *out, size_t cap);

extern const char *const dop_page_report; /* HTML text of the report page (assets/report.html) */

/* Returns why region `consumer` reads `base` from memory instead of computing it: the reason of the pass that came
 * closest, or none if no pass tried. out_reasons: refusals of all passes. out_reader: the node that reads it. */
dop_reason dop_report_why(const dop_schedule *s, dop_region_id consumer, dop_node_id base, char *out_reasons,
                          size_t cap, dop_node_id *out_reader);

/* Assignment of a schedule's regions to the parts of a plan. */
typedef struct dop_report_places {
    const dop_compilation *parts; /* [n]; n == 0: the plan has one part */
    uint32_t n;
    uint32_t schedule; /* index of the schedule in the compilation */
    uint32_t *numbers; /* owned, [n_regions]; part of each region; NULL if n == 0 */
} dop_report_places;

#endif
