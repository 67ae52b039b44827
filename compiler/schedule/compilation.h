/* The state of one compilation: what was asked for, and what was made so far.  Its steps are in files of their own:
 * settle.c, schedule.c, persistent.c, kernel_set.c, pack.c; make.c calls them in turn. */
#ifndef DOPPLER_COMPILER_SCHEDULE_COMPILATION_H
#define DOPPLER_COMPILER_SCHEDULE_COMPILATION_H

#include "compiler/pack/pack.h"
#include "compiler/schedule/kernel_path.h"
#include "compiler/schedule/kernel_set.h"
#include "compiler/schedule/schedule.h"

enum { DOP_MAX_SCHEDULES = 48, DOP_MAX_CHUNKS = 5, DOP_MAX_ROWS_SIZES = 8, DOP_MAX_FORCES = 32 };

/* An option --force OP=VARIANT.  OP is what a rule of a kernel path has as `op`. */
typedef struct dop_force {
    const char *op, *variant;
} dop_force;

/* An option --lora FILE:SCALE. */
typedef struct dop_lora {
    const char *path;
    double scale;
} dop_lora;

typedef struct dop_compilation_options {
    const dop_target *target; /* the device to compile for; NULL: the one at hand */
    uint64_t max_alloc;       /* bytes of one allocation of weights, 0: the target's */
    const char *device;       /* the device at hand that tunings are compared with; NULL: the best one */
    const char *own_path;     /* file of the program or library that this code is in, to find the templates */
    uint32_t ctx;      /* positions that one sequence may have; 0: as many as the model was trained for, at most 4096 */
    uint32_t n_chunks; /* number of `chunks`, which are tokens of a piece of a prompt; 0: sizes that suit the target */
    uint32_t chunks[DOP_MAX_CHUNKS];
    uint32_t draw_width, draw_height;  /* pixels of a diffusion model's pictures; 0: those that it was trained for */
    uint32_t sequences;                /* most sequences that the plan holds at once; 0: 1 */
    uint32_t ctx_total;                /* least positions that all sequences together have; 0: sequences x ctx */
    uint32_t n_rows;                   /* number of `rows`; 0: sizes that suit the number of sequences */
    uint32_t rows[DOP_MAX_ROWS_SIZES]; /* rows of steps that may mix sequences and give the logits of each row */
    bool embed;                        /* adds a schedule that returns hidden states */
    /* Batch invariance: every step runs the same kernels, those of steps of chunks[0] rows, so that the logits of a row have the same
     * bits whatever other rows its step has. */
    bool invariant;
    dop_type kv_type, act_type; /* none: what the kernel path says, else f16 (f32 where the target lacks it) and f32 */
    dop_type v_type;            /* storage type of cached values; none: kv_type, which is otherwise for keys only */
    const char *kernel_path;    /* name or file of a kernel path; NULL: the model's own */
    const char *quant;          /* storage types of weights, as dop_quant_choose() reads them; NULL: the model's */
    const char *imatrix;        /* file of an importance matrix, or NULL */
    const char *mmproj;         /* file of the vision part of a GGUF model; NULL: the one beside it, if any */
    const char *draft_head;     /* a drafter (dop_eagle), a directory or file; NULL: the model's own, if it has one */
    uint32_t
        draft_vocabulary; /* tokens that can be drafts, the first of the vocabulary, where no drafter has a list; 0: all of it */
    const char *const *controls; /* [n_controls] control vectors to add, each FILE or FILE:SCALE */
    uint32_t n_controls;
    uint32_t control_first, control_last; /* the layers behind which they are added */
    const char *const *loras;             /* [n_loras] adapters to merge, each FILE or FILE:SCALE */
    uint32_t n_loras;
    uint32_t adapters, rank; /* adapters for which the plan has room at run time, each of up to this rank; 0: none */
    dop_pass_options passes;
    uint32_t n_forces;
    dop_force forces[DOP_MAX_FORCES];
    uint32_t n_apart;
    const char *apart[DOP_MAX_FORCES]; /* pairs A+B of --no-fuse */
    const char *tuning;                /* file of measured rules, or NULL */
    uint32_t threads;                  /* threads that compile and pack; 0: one per core */
    bool no_spirv;                     /* stop after GLSL: for --emit of earlier stages */
    /* Where the model will be cut between parts with different targets: no region crosses a cut, so that the same values cross
     * whatever the target.  NULL: nowhere. */
    const struct dop_cuts *cuts;
    bool in_parts; /* the schedules will be cut into parts (parts.h), so no persistent form of a whole one is made */
    dop_progress progress; /* steps "kernels" and "weights" */
} dop_compilation_options;

/* What a compilation of one part knows about the others. */
typedef struct dop_cut {
    uint32_t number, n_parts;
    uint32_t first_layer, end_layer; /* layers of the part: first_layer .. end_layer - 1 */
    uint32_t flags;                  /* DOP_PART_*: facts of the states of the whole model */
    uint32_t rewind;                 /* dop_plan_model.rewind (plan/plan_format.h) of the whole model */
} dop_cut;

struct dop_compilation {
    dop_arena arena;
    dop_checkpoint model;
    dop_compilation_options options;
    dop_lora *loras;          /* [options.n_loras], then [options.n_controls] */
    const dop_target *target; /* the target, changed where model and options rule out what it offers; in the arena */
    uint32_t ctx;
    uint32_t latents_width, latents_height; /* of a diffusion model */
    dop_kernel_path path;
    const char *path_name; /* name of the kernel path that is followed; NULL: kernels are chosen by default */
    dop_templates templates;
    const char *stale_file, *stale; /* file of measured rules that are left out, and why; NULL: none */
    uint32_t n_schedules;
    dop_schedule schedules[DOP_MAX_SCHEDULES];
    dop_kernel_set kernels;
    dop_pack pack;
    dop_type *packed_types;            /* [model.weights.n] storage type of each weight in the plan */
    dop_type *asked_types;             /* [model.weights.n] storage types before dop_quant_fallback() */
    const struct dop_imatrix *imatrix; /* the importance matrix; NULL: none */
    uint32_t n_unweighed;              /* weights to quantize for which the importance matrix has no entry */
    bool pictures;                     /* the plan takes pictures: rows of its steps may be features */
    const dop_cut *cut;                /* the part of a model that is compiled; NULL: the whole */
    /* In the compilation of a part: number of first kernels that belong to the whole model's compilation, which owns their memory. */
    uint32_t n_shared_kernels;
};

/* Most bytes of a segment of the packed weights. */
static inline uint64_t
dop_compilation_max_segment(const dop_compilation *c)
{
    const uint64_t limit = c->options.max_alloc ? c->options.max_alloc : c->target->max_alloc, most = 1ull << 31;
    return limit < most ? limit : most;
}

/* Tokens that can be drafts in a model with a layer that drafts; 0: all of the vocabulary. */
static inline uint32_t
dop_compilation_draft_ids(const dop_compilation *c)
{
    const dop_arch *a = &c->model.arch;
    const uint32_t listed = a->layers[a->n_layers].eagle.vocab;
    return listed ? listed : c->options.draft_vocabulary;
}

/* Ranks of all adapters for which the plan has room, a multiple of what kernels load at once. */
static inline uint32_t
dop_compilation_ranks(const dop_compilation *c)
{
    return (c->options.adapters * c->options.rank + 7) / 8 * 8;
}

/* Adapters that a sequence may use at once, a multiple of what kernels load at once. */
static inline uint32_t
dop_compilation_uses(const dop_compilation *c)
{
    const uint32_t most = c->options.adapters < DOP_PLAN_MAX_USES ? c->options.adapters : DOP_PLAN_MAX_USES;
    return (most + 3) / 4 * 4;
}

#endif
