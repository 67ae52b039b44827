/* State of one compilation: its options and everything made so far. settle.c, schedule.c, persistent.c, kernel_set.c
 * and pack.c implement its steps; make.c calls them in order. */
#ifndef DOPPLER_COMPILER_SCHEDULE_COMPILATION_H
#define DOPPLER_COMPILER_SCHEDULE_COMPILATION_H

#include "compiler/pack/pack.h"
#include "compiler/schedule/kernel_path.h"
#include "compiler/schedule/kernel_set.h"
#include "compiler/schedule/schedule.h"

enum { DOP_MAX_SCHEDULES = 48, DOP_MAX_CHUNKS = 5, DOP_MAX_ROWS_SIZES = 8, DOP_MAX_FORCES = 32 };

/* An option --force OP=VARIANT. OP has the syntax of `op` in a rule of a kernel path. */
typedef struct dop_force {
    const char *op, *variant;
} dop_force;

/* An option --lora FILE:SCALE. */
typedef struct dop_lora {
    const char *path;
    double scale;
} dop_lora;

typedef struct dop_compilation_options {
    const dop_target *target; /* device to compile for; NULL: the local device */
    uint64_t max_alloc;       /* maximum bytes of one weight allocation; 0: the target's limit */
    const char *device;       /* local device that tunings are checked against; NULL: the best one */
    const char *own_path;     /* path of the program or library of this code; templates are found from it */
    uint32_t ctx;             /* context length of a sequence in tokens; 0: the model's training length, at most 4096 */
    uint32_t n_chunks;        /* number of `chunks`, the prefill chunk sizes in tokens; 0: sizes that suit the target */
    uint32_t chunks[DOP_MAX_CHUNKS];
    uint32_t draw_width, draw_height;  /* image size of a diffusion model in pixels; 0: its training size */
    uint32_t sequences;                /* maximum number of sequences in the plan; 0: 1 */
    uint32_t ctx_total;                /* minimum total of positions for all sequences; 0: sequences x ctx */
    uint32_t n_rows;                   /* number of `rows`; 0: sizes that suit the number of sequences */
    uint32_t rows[DOP_MAX_ROWS_SIZES]; /* sizes of steps that may mix sequences and return the logits of each row */
    bool embed;                        /* adds a schedule that returns hidden states */
    /* Batch invariance: every step runs the kernels of steps with chunks[0] rows. The logits of a row then have the
     * same bits whatever other rows are in its step. */
    bool invariant;
    dop_type kv_type, act_type; /* none: the kernel path's type, otherwise f16 (f32 if not supported) and f32 */
    dop_type v_type;            /* storage type of cached values; none: kv_type. If set, kv_type applies to keys only */
    const char *kernel_path;    /* name or file of a kernel path; NULL: the model's own path */
    const char *quant;          /* storage types of weights, as in dop_quant_choose(); NULL: the model's types */
    const char *imatrix;        /* importance matrix file, or NULL */
    const char *mmproj;         /* file of a GGUF model's vision part; NULL: the one next to the model, if any */
    const char *draft_head;     /* directory or file of a drafter (dop_eagle); NULL: the model's own, if any */
    uint32_t draft_vocabulary;  /* only token ids below this are drafted, unless the drafter has a list; 0: all */
    const char *const *controls; /* [n_controls] control vectors to add, each FILE or FILE:SCALE */
    uint32_t n_controls;
    uint32_t control_first, control_last; /* control vectors are added to the outputs of these layers */
    const char *const *loras;             /* [n_loras] adapters to merge, each FILE or FILE:SCALE */
    uint32_t n_loras;
    uint32_t adapters, rank; /* maximum number of run-time adapters, and maximum rank of each; 0: none */
    dop_pass_options passes;
    uint32_t n_forces;
    dop_force forces[DOP_MAX_FORCES];
    uint32_t n_apart;
    const char *apart[DOP_MAX_FORCES]; /* pairs A+B of --no-fuse */
    const char *tuning;                /* file of measured rules (--tuning), or NULL */
    uint32_t threads;                  /* threads for compiling and packing; 0: one per core */
    bool no_spirv;                     /* stop after generating GLSL, for --emit of earlier stages */
    /* Cuts between parts with different targets. No region may cross a cut, so that equal values cross with every
     * target. NULL: no cuts. */
    const struct dop_cuts *cuts;
    bool in_parts; /* the schedules will be cut into parts (parts.h), which build their own persistent dispatches */
    dop_progress progress; /* progress callback for the steps "kernels" and "weights" */
} dop_compilation_options;

/* Position of a part in the whole model, for the compilation of that part. */
typedef struct dop_cut {
    uint32_t number, n_parts;
    uint32_t first_layer, end_layer; /* layers of the part: first_layer to end_layer - 1 */
    uint32_t flags;                  /* DOP_PART_*: properties of the whole model's states */
    uint32_t rewind;                 /* dop_plan_model.rewind (plan/plan_format.h) of the whole model */
} dop_cut;

struct dop_compilation {
    dop_arena arena;
    dop_checkpoint model;
    dop_compilation_options options;
    dop_lora *loras;          /* [options.n_loras] adapters, then [options.n_controls] control vectors */
    const dop_target *target; /* copy of the target without features that the model or options rule out; in the arena */
    uint32_t ctx;
    uint32_t latents_width, latents_height; /* size of a diffusion model's latents */
    dop_kernel_path path;
    const char *path_name; /* name of the kernel path in use; NULL: none */
    dop_templates templates;
    const char *stale_file, *stale; /* file of measured rules that is ignored, and the reason; NULL: none */
    uint32_t n_schedules;
    dop_schedule schedules[DOP_MAX_SCHEDULES];
    dop_kernel_set kernels;
    dop_pack pack;
    dop_type *packed_types;            /* [model.weights.n] storage type of each weight in the plan */
    dop_type *asked_types;             /* [model.weights.n] storage types before dop_quant_fallback() */
    const struct dop_imatrix *imatrix; /* importance matrix; NULL: none */
    uint32_t n_unweighed;              /* number of quantized weights without an entry in the importance matrix */
    bool pictures;                     /* the plan accepts images: rows of its steps may be image features */
    const dop_cut *cut;                /* part that is compiled; NULL: the whole model */
    /* In the compilation of a part: number of leading kernels that the whole model's compilation owns. */
    uint32_t n_shared_kernels;
};

/* Returns the maximum bytes of a segment of the packed weights. */
static inline uint64_t
dop_compilation_max_segment(const dop_compilation *c)
{
    const uint64_t limit = c->options.max_alloc ? c->options.max_alloc : c->target->max_alloc, most = 1ull << 31;
    return limit < most ? limit : most;
}

/* Returns the number of token ids that a draft layer may propose; 0: the whole vocabulary. */
static inline uint32_t
dop_compilation_draft_ids(const dop_compilation *c)
{
    const dop_arch *a = &c->model.arch;
    const uint32_t listed = a->layers[a->n_layers].eagle.vocab;
    return listed ? listed : c->options.draft_vocabulary;
}

/* Returns the total rank of all run-time adapters, rounded up to the 8 that kernels load at once. */
static inline uint32_t
dop_compilation_ranks(const dop_compilation *c)
{
    return (c->options.adapters * c->options.rank + 7) / 8 * 8;
}

/* Returns the number of adapters that a sequence may use at once, rounded up to the 4 that kernels load at once. */
static inline uint32_t
dop_compilation_uses(const dop_compilation *c)
{
    const uint32_t most = c->options.adapters < DOP_PLAN_MAX_USES ? c->options.adapters : DOP_PLAN_MAX_USES;
    return (most + 3) / 4 * 4;
}

#endif
