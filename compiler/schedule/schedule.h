/* A schedule: the graph of one phase and step size after the passes, with a kernel for each region. */
#ifndef DOPPLER_COMPILER_SCHEDULE_SCHEDULE_H
#define DOPPLER_COMPILER_SCHEDULE_SCHEDULE_H

#include "frontend/build/build.h"
#include "kernels/kernel.h"
#include "passes/pass.h"
#include "plan/plan_format.h"

typedef struct dop_compilation dop_compilation; /* defined in compiler/schedule/compilation.h */

typedef struct dop_built_region {
    uint32_t kernel; /* index into the compilation's kernels */
    uint32_t grid[3];
    uint32_t n_args;
    const dop_kernel_arg *args;
    dop_selection choice;
} dop_built_region;

typedef struct dop_persistent dop_persistent; /* defined in compiler/schedule/persistent.h */

typedef struct dop_schedule {
    dop_phase phase;
    dop_graph g;
    dop_graph before; /* graph before the passes, for the report */
    uint32_t n_ops;   /* computed nodes before the passes: the number of dispatches without fusion */
    dop_placement placement;
    dop_fusion_log log;
    dop_built_region *regions;        /* [g.n_regions] kernel, grid and arguments of each region */
    const dop_persistent *persistent; /* persistent form (one dispatch of stages); NULL: none */
    const char *persistent_no;        /* why there is no persistent form; NULL: none was requested, or there is one */
    bool mixed;                       /* a step may have rows of several sequences */
    bool embeds;                      /* the output is hidden states instead of logits */
    bool adapted;                     /* rows may use adapters; steps without adapters use another schedule */
    uint32_t program;                 /* program of the schedule, as DOP_SCHED_ENCODE; 0: ordinary steps of sequences */
    uint32_t sends;                   /* index of the output that the program `draft` receives; 0: none */
    uint32_t n_body;                  /* number of leading regions that states need; the rest serves the logits only */
    /* Values received from the previous part or from the host, and values sent to the next part. */
    uint32_t n_received, n_sent;
    dop_node_id received[DOP_PART_MAX_VALUES], sent[DOP_PART_MAX_VALUES];
} dop_schedule;

/* Adds the compilation's next schedule: builds the graph for `max_t` tokens, runs the passes, chooses and generates
 * kernels. */
dop_status dop_schedule_add(dop_compilation *c, dop_phase phase, uint32_t max_t, dop_diag *diag);
/* Adds a schedule for steps of up to max_t rows of any sequences, with the logits of every row. */
dop_status dop_schedule_add_rows(dop_compilation *c, uint32_t max_t, dop_diag *diag);
/* Adds a schedule for up to max_t tokens of one sequence, with the hidden states of every row. */
dop_status dop_schedule_add_embed(dop_compilation *c, uint32_t max_t, dop_diag *diag);
/* Adds a schedule of the program `encode` for up to max_t rows of any texts. */
dop_status dop_schedule_add_encode(dop_compilation *c, uint32_t max_t, dop_diag *diag);
/* image: adds a schedule of the program `image` for up to max_t rows of patches. features: adds one of the program
 * `features`, which makes up to max_t features from these rows. */
dop_status dop_schedule_add_image(dop_compilation *c, uint32_t max_t, dop_diag *diag);
dop_status dop_schedule_add_features(dop_compilation *c, uint32_t max_t, dop_diag *diag);
/* Adds a schedule of the program `audio` for up to max_t rows of audio chunks. */
dop_status dop_schedule_add_audio(dop_compilation *c, uint32_t max_t, dop_diag *diag);
/* Adds one schedule for each of a diffusion model's programs `context`, `denoise` and `decode`. */
dop_status dop_schedule_add_draw(dop_compilation *c, dop_diag *diag);
/* Adds a schedule of the program `draft` for up to max_t rows. If max_t is at most DOP_DRAFT_EACH (plan/plan_format.h):
 * rows of any sequences, with the logits of each row. Otherwise: rows of one sequence, with the logits of the last row. */
dop_status dop_schedule_add_draft(dop_compilation *c, uint32_t max_t, dop_diag *diag);
/* Adds a schedule of an existing graph in the compilation's arena. The graph must have the builder's names and outputs. */
dop_status dop_schedule_add_graph(dop_compilation *c, dop_phase phase, const dop_graph *g, dop_diag *diag);

/* Disables the pass that drops rows which only some steps need: --invariant. */
void dop_passes_hold_rows(dop_pass_options *o);
/* Disables every pass that fuses ops or splits them for fusion: --no-fuse. */
void dop_passes_skip_fusion(dop_pass_options *o);
/* Returns the maximum number of rows in a step of the schedule. */
uint32_t dop_schedule_rows(const dop_schedule *s);
/* Returns the name of a schedule: "decode1", "prefill64", ... */
const char *dop_schedule_name(const dop_schedule *s);

#endif
