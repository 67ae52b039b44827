/* The state of one compilation: what was asked for, and what was made so far.  Its steps are in files of their own:
 * compile_options.c, schedule.c, persistent.c, kernel_set.c, pack.c; compile.c calls them in turn. */
#ifndef DOPPLER_COMPILER_SCHEDULE_COMPILATION_H
#define DOPPLER_COMPILER_SCHEDULE_COMPILATION_H

#include "compiler/pack/pack.h"
#include "compiler/schedule/kernel_path.h"
#include "compiler/schedule/kernel_set.h"
#include "compiler/schedule/schedule.h"

enum { DOP_MAX_SCHEDULES = 24, DOP_MAX_CHUNKS = 5, DOP_MAX_ROWS_SIZES = 8, DOP_MAX_FORCES = 32 };

/* --force OP=VARIANT: OP as in a rule of a kernel path. */
typedef struct dop_force {
    const char *op, *variant;
} dop_force;

typedef struct dop_compile_options {
    const dop_target *target; /* NULL: auto */
    uint64_t max_alloc;       /* bytes of one allocation of weights, 0: the target's */
    const char *exe_path;     /* path of the running program, to find the templates */
    uint32_t ctx;             /* 0: the model's, at most 4096 */
    uint32_t n_chunks;        /* 0: the target's default */
    uint32_t chunks[DOP_MAX_CHUNKS];
    uint32_t sequences;                /* most sequences that the plan holds at once; 0: 1 */
    uint32_t ctx_total;                /* least positions of all of them together; 0: sequences x ctx */
    uint32_t n_rows;                   /* 0: depends on the number of sequences */
    uint32_t rows[DOP_MAX_ROWS_SIZES]; /* sizes of steps of rows of any sequences, with the logits of each row */
    bool embed;                        /* adds a schedule that returns hidden states */
    dop_type kv_type, act_type; /* none: what the kernel path says, else f16 (f32 where the target lacks it) and f32 */
    dop_type v_type;            /* of cached values; none: as kv_type, which otherwise is only that of keys */
    const char *kernel_path;    /* name or file; NULL: what the model states */
    const char *quant;          /* "keep", a storage type */
    const char *imatrix;        /* file of the importance of inputs, or NULL */
    dop_pass_options passes;
    uint32_t n_forces;
    dop_force forces[DOP_MAX_FORCES];
    uint32_t n_apart;
    const char *apart[DOP_MAX_FORCES]; /* --no-fuse A+B */
    const char *tuning;                /* file of measured rules, or NULL */
    uint32_t threads;                  /* 0: one per core */
    bool no_spirv;                     /* stop after GLSL: for --emit of earlier stages */
    /* Where the graph is cut between parts with different targets, so that what crosses does not depend on them.  NULL: nowhere. */
    const struct dop_cuts *cuts;
    bool in_parts; /* the schedules will be cut into parts (parts.h), so no persistent form of a whole one is made */
    /* Progress of the long parts, 0..1; may be NULL. */
    void (*progress)(void *user, const char *what, double done);
    void *user;
} dop_compile_options;

/* What a compilation of one part knows about the others. */
typedef struct dop_cut {
    uint32_t number, n_parts;
    uint32_t first_layer, end_layer; /* first_layer .. end_layer - 1 */
    uint32_t flags;                  /* DOP_PART_*, of the whole model */
    uint32_t rewind;                 /* of the whole model: dop_plan_model of runtime/plan/plan_format.h */
} dop_cut;

struct dop_compilation {
    dop_arena arena;
    dop_checkpoint model;
    dop_compile_options options;
    const dop_target *target; /* as the model and the options use it; in the arena */
    uint32_t ctx;
    dop_kernel_path path;
    const char *path_name; /* of the kernel path that is followed; NULL: the default choices */
    dop_templates templates;
    const char *stale_file, *stale; /* a file of rules that are left out, and why they are; NULL: there is none */
    uint32_t n_schedules;
    dop_schedule schedules[DOP_MAX_SCHEDULES];
    dop_kernel_set kernels;
    dop_pack pack;
    dop_type *packed_types;            /* [model.weights.n] */
    dop_type *asked_types;             /* likewise, before dop_quant_fallback */
    const struct dop_imatrix *imatrix; /* NULL: none */
    uint32_t n_unweighed;              /* weights to quantize that it does not know */
    const dop_cut *cut;                /* the part of a model that is compiled; NULL: the whole */
    /* In a part: this many first kernels are those of the whole model, which owns their memory. */
    uint32_t n_shared_kernels;
};

/* Most bytes of a segment of its weights. */
static inline uint64_t
dop_compilation_max_segment(const dop_compilation *c)
{
    const uint64_t limit = c->options.max_alloc ? c->options.max_alloc : c->target->max_alloc, most = 1ull << 31;
    return limit < most ? limit : most;
}

#endif
