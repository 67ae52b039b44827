/* One compilation: a model and options in, schedules and kernels out; plan_write.h makes the file. */
#ifndef DOPPLER_COMPILER_COMPILE_H
#define DOPPLER_COMPILER_COMPILE_H

#include "compiler/build.h"
#include "compiler/kernel_path.h"
#include "compiler/pack.h"
#include "compiler/tuning.h"
#include "kernels/kernel.h"
#include "passes/pass.h"

enum { DOP_MAX_SCHEDULES = 10, DOP_MAX_CHUNKS = 4, DOP_MAX_FORCES = 32 };

/* --force OP=VARIANT: OP as in a rule of a kernel path. */
typedef struct dop_force {
    const char *op, *variant;
} dop_force;

typedef struct dop_compile_options {
    const dop_target *target; /* NULL: auto */
    uint64_t max_alloc;       /* bytes of one allocation of weights, 0: the target's */
    const char *exe_path;     /* of the running program, to find the templates */
    uint32_t ctx;             /* 0: the model's, at most 4096 */
    uint32_t n_chunks;        /* 0: the target's default */
    uint32_t chunks[DOP_MAX_CHUNKS];
    dop_type kv_type, act_type; /* none: what the kernel path says, else f16 (f32 where the target lacks it) and f32 */
    const char *kernel_path;    /* name or file; NULL: what the model states */
    const char *quant;          /* "keep", a storage type */
    dop_pass_options passes;
    uint32_t n_forces;
    dop_force forces[DOP_MAX_FORCES];
    const char *tuning; /* file of measured tiles, or NULL */
    uint32_t threads;   /* 0: one per core */
    bool no_spirv;      /* stop after GLSL: for --emit of earlier stages */
    /* Progress of the long parts, 0..1; may be NULL. */
    void (*progress)(void *user, const char *what, double done);
    void *user;
} dop_compile_options;

/* A distinct kernel: equal GLSL text is one kernel. */
typedef struct dop_built_kernel {
    dop_kernel k;
    dop_template tpl;
    const char *label; /* of its first use, for people */
    dop_buf spirv;
    uint32_t shared_bytes;
    bool optional; /* that it needs too much shared memory is no failure: */
    bool dropped;  /* it and what uses it is left out then */
} dop_built_kernel;

typedef struct dop_built_region {
    uint32_t kernel; /* index into kernels */
    uint32_t grid[3];
    uint32_t n_args;
    dop_kernel_arg args[DOP_MAX_ARGS];
    dop_choice choice;
} dop_built_region;

typedef struct dop_persistent dop_persistent; /* compiler/persistent.h */

typedef struct dop_schedule {
    dop_phase phase;
    dop_graph g;
    dop_graph before; /* as the builder made it, for the report */
    uint32_t n_ops;   /* computed nodes before the passes: dispatches without fusion */
    dop_placement placement;
    dop_fusion_log log;
    dop_built_region *regions;        /* [g.n_regions] */
    const dop_persistent *persistent; /* the same in one dispatch of stages; NULL: there is no such form, */
    const char *persistent_no;        /* and why, where one was asked for */
    uint32_t n_body;                  /* regions before what only this step's logits need */
} dop_schedule;

typedef struct dop_compilation {
    dop_arena arena;
    dop_checkpoint model; /* weights carry the types they are packed with; see sources */
    dop_compile_options options;
    dop_target target;
    uint32_t ctx;
    dop_kernel_path path;
    const char *path_name; /* of the kernel path that made it; NULL: the default choices */
    dop_templates templates;
    dop_tuning tuning;
    uint32_t n_schedules;
    dop_schedule schedules[DOP_MAX_SCHEDULES];
    uint32_t n_kernels, cap_kernels;
    dop_built_kernel *kernels;
    dop_pack pack;
    dop_type *packed_types; /* [model.weights.n] */
    dop_type *asked_types;  /* likewise, before dop_quant_fallback */
} dop_compilation;

dop_status dop_compile(const char *model_path, const dop_compile_options *options, dop_diag *diag,
                       dop_compilation *out_compilation);
void dop_compilation_finish(dop_compilation *c); /* accepts a zeroed or half-built one */
/* Compilations of one model for several targets: the first one's weights become those of all.  Weights are packed the same
 * way for every target; errors: two targets want another storage type of one. */
dop_status dop_compilations_share(dop_compilation *list, uint32_t n, dop_diag *diag);

/* The kernel's row in the compilation's table: an equal one that is there, or a new one. */
dop_status dop_intern_kernel(dop_compilation *c, const dop_kernel *k, const dop_graph *g, const dop_region *r,
                             dop_diag *diag, uint32_t *out_index);

/* Skips every pass that joins ops or takes them apart for it: --no-fuse. */
void dop_passes_skip_fusion(dop_pass_options *o);
/* "decode", "prefill64", ... */
const char *dop_schedule_name(const dop_schedule *s);
/* Where a region belongs: its root's label. */
const char *dop_region_label(const dop_graph *g, const dop_region *r);
/* Its ops in order, separated by spaces. */
void dop_region_ops(const dop_graph *g, const dop_region *r, dop_buf *out);
/* Bytes it reads and writes per replay at the largest T; cache traffic is counted at `depth` positions. */
void dop_region_traffic(const dop_graph *g, const dop_region *r, uint32_t depth, uint64_t *out_read,
                        uint64_t *out_written);

#endif
