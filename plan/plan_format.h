/* plan.bin: the file format between dopplerc and doppler-exec.
 *
 * Little-endian, fixed-width rows, used in place from the mapping.  Layout: dop_plan_header, dop_plan_section[n_sections], then the
 * sections, each aligned to 16 bytes and DOP_SEC_WEIGHTS to 4096.  Offsets are in bytes from the start of their section unless stated
 * otherwise.  Strings are offsets into DOP_SEC_STRINGS, 0-terminated; offset 0 is "".  A reader checks magic, version and sizes, that
 * sections lie inside the file without overlap, the digest of each section (XXH3, 64 bits; weights: plan/plan_weights.h), then every
 * index, offset and count in the rows.  The header's digest covers the header, with its digest field zero, and the section table.  A
 * model in parts is several plans, one per device: separate files, or one file with a directory (dop_plan_set_header).  Each plan
 * states its part (DOP_SEC_PART).  Data that changes in each step (dop_step) is in base/step_record.h.  The file does not depend on
 * time, output paths, the environment or the number of threads: equal inputs give equal bytes. */
#ifndef DOPPLER_PLAN_PLAN_FORMAT_H
#define DOPPLER_PLAN_PLAN_FORMAT_H

#include "base/caps.h"
#include "base/step_record.h"

#include <stddef.h>
#include <stdint.h>

#define DOP_PLAN_MAGIC "DOPPLAN\n" /* 8 bytes */
#define DOP_PLAN_VERSION 29u

/* Sections: SECTION(number, name, row type, description).  Each occurs at most once. */
#define DOP_PLAN_SECTIONS(SECTION)                                                                                 \
    SECTION(1, STRINGS, char, "0-terminated strings")                                                              \
    SECTION(2, MODEL, dop_plan_model, "one row: facts the runtime needs")                                          \
    SECTION(3, CARD, char, "model card and compilation facts, JSON text")                                          \
    SECTION(4, IR, char, "the graphs after all passes, golden text")                                               \
    SECTION(5, PROFILES, dop_plan_profile, "device profiles this plan has schedules for")                          \
    SECTION(6, KERNELS, dop_plan_kernel, "compiled kernels")                                                       \
    SECTION(7, SPIRV, uint32_t, "SPIR-V words of all kernels")                                                     \
    SECTION(8, SLOTS, dop_plan_slot, "device buffers")                                                             \
    SECTION(9, SCHEDULES, dop_plan_schedule, "dispatch lists")                                                     \
    SECTION(10, DISPATCHES, dop_plan_dispatch, "dispatches in order")                                              \
    SECTION(11, ARGS, dop_plan_arg, "kernel arguments")                                                            \
    SECTION(12, TENSORS, dop_plan_tensor, "directory of the weights")                                              \
    SECTION(13, TOKENIZER, uint8_t, "tokenizer blob (text/tokenizer/tokenizer.h)")                                 \
    SECTION(14, TEMPLATE, char, "chat template text")                                                              \
    SECTION(15, WEIGHTS, uint8_t, "packed weights, page aligned")                                                  \
    SECTION(16, FILES, dop_plan_file, "files of external weights, or of the model")                                \
    SECTION(17, STATES, dop_plan_state, "directory of the states")                                                 \
    SECTION(18, PART, dop_plan_part, "one row: which part of a model this is")                                     \
    SECTION(19, CROSSINGS, dop_plan_crossing, "values that cross from part to part")                               \
    SECTION(20, PROGRAMS, dop_plan_program, "programs beside that which advances sequences")                       \
    SECTION(21, PLACES, dop_plan_adapter_place, "where the rows of adapters' matrices go")                         \
    SECTION(22, IMAGES, uint8_t, "how pictures are prepared (media/picture/image_processor.def)")                  \
    SECTION(23, SPEECH, uint32_t, "n and m, then n tokens that no transcription has, and m that none begins with") \
    SECTION(24, DRAW, dop_plan_draw, "one row: how pictures are made of noise")                                    \
    SECTION(25, RANGES, dop_plan_range, "weights that are read from the model's files")

enum {
#define SECTION(number, name, type, what) DOP_SEC_##name = number,
    DOP_PLAN_SECTIONS(SECTION)
#undef SECTION
        DOP_SEC_LIMIT = 32
};

typedef struct dop_plan_header {
    char magic[8];
    uint32_t version;
    uint32_t n_sections;
    uint64_t file_size; /* bytes */
    uint64_t digest;    /* digest of this header, with digest = 0, and the section table */
} dop_plan_header;

typedef struct dop_plan_section {
    uint32_t kind;      /* DOP_SEC_* */
    uint32_t row_bytes; /* row size of the writer; must equal the reader's */
    uint64_t offset;    /* from the start of the file */
    uint64_t size;      /* bytes, a multiple of row_bytes */
    uint64_t digest;    /* XXH3 of the section's bytes (weights: plan_weights.h) */
} dop_plan_section;

#define DOP_PLAN_NO_RINGS 0xffffffffu
enum { DOP_PLAN_MAX_COPIES = DOP_STEP_SEVERAL + 1 };
enum { DOP_PLAN_MAX_USES = 16 }; /* maximum number of adapters of a sequence at once */
typedef struct dop_plan_model {
    uint32_t vocab;
    uint32_t ctx; /* context length: positions 0 .. ctx - 1 */
    uint32_t ctx_train;
    uint32_t n_layers;
    uint32_t hidden; /* number of values of a hidden state row */
    /* Maximum number of positions that can be written and then dropped.  Bounded where append state is a ring, because dropped
     * positions overwrite rows that earlier positions attend to.  DOP_PLAN_NO_RINGS: unlimited. */
    uint32_t rewind;
    uint32_t n_sequences; /* maximum number of sequences: 1 .. DOP_STEP_MAX_SEQUENCES */
    /* Cache page size in positions, a power of two that divides ctx; 0: each sequence has contiguous states. */
    uint32_t page;
    uint32_t n_pages; /* pages of the pool, at least enough for one full sequence; 0 if page is 0 */
    int32_t bos_id;   /* id of the begin-of-text token; -1: none */
    uint32_t n_end_ids;
    uint32_t end_ids[16];
    /* Temperature, top_p, min_p, top_k: the model's own sampling defaults; temperature < 0: none, greedy. */
    float temperature;
    float top_p, min_p;
    uint32_t top_k;
    uint32_t name;        /* string */
    uint32_t family;      /* string */
    uint32_t quant;       /* string: storage of the weights, for display */
    uint32_t kernel_path; /* string: kernel path that the plan was compiled with; "": the default */
    /* Capacity for run-time adapters; all 0 without it.  adapters, adapter_rank: maximum number and rank.
     * adapter_factors: row of TENSORS, f32 [n_sequences, ranks + adapter_uses].  Column i * rank + r holds the scale of rank r of
     * adapter i.  The last adapter_uses columns list the adapters of the sequence, numbered from 1 and padded with 0.
     * adapter_archs: string: names of the model's architecture in GGUF files, separated by spaces. */
    uint32_t adapters, adapter_rank, adapter_factors, adapter_archs, adapter_uses;
    uint32_t tied;         /* 1: the output matrix is the embedding (tied weights) */
    uint32_t state_copies; /* copies of replace states, 2 .. DOP_PLAN_MAX_COPIES */
} dop_plan_model;

/* Targets, in order of preference.  The runtime uses the first one whose kernels the device can run.  Each target has its own
 * schedules, and its own buffers where they differ; kernels and weights are shared. */
enum { DOP_MAX_TARGETS = 8 };
/* Cost model of prefill chunks on a target (plan/chunks.h), in units of one token of a large chunk.
 * start: fixed cost of a chunk; tile: tokens are rounded up to this; full: number of tokens from which each costs one unit; lack: below
 * `full`, each missing token saves only (lack - 1) / lack units. */
typedef struct dop_chunk_costs {
    uint32_t start, tile, full, lack;
} dop_chunk_costs;

typedef struct dop_plan_profile {
    uint32_t name;          /* string */
    uint32_t caps;          /* DOP_CAP_* bits that any kernel of this profile needs (base/caps.h) */
    uint32_t subgroup;      /* subgroup size that kernels were compiled for; 0: any */
    uint32_t shared_bytes;  /* largest shared memory of any kernel */
    uint32_t max_workgroup; /* largest workgroup of any kernel, in invocations */
    /* Matrix unit shape of kernels with coop_nv or coop_khr: M, N << 8, K << 16; f16 factors, f32 sums, one subgroup; 0: no such
     * kernels. */
    uint32_t matrix;
    uint32_t draws;         /* 1: picking kernels support DOP_ROW_DRAWN (random draws) */
    uint32_t submit_mib[2]; /* maximum MiB of weights for four steps per submission, and for two */
    dop_chunk_costs chunks;
} dop_plan_profile;

typedef struct dop_plan_kernel {
    uint32_t name;        /* string: variant and shape, for display */
    uint32_t variant;     /* string: variant, a row of kernels.def */
    uint32_t spirv_first; /* first word in DOP_SEC_SPIRV */
    uint32_t spirv_words;
    uint32_t caps;     /* DOP_CAP_* bits */
    uint32_t subgroup; /* required subgroup size; 0: any */
    uint32_t local[3]; /* workgroup size */
    uint32_t shared_bytes;
    uint32_t n_args;   /* number of arguments, as push constants or in a parameter record (caps.h) */
    uint32_t rounding; /* dop_rounding of its products (caps.h): precision that --check expects */
} dop_plan_kernel;

/* Device buffers.  Slots of one kind may share an allocation. */
enum {
    DOP_SLOT_WEIGHTS = 1, /* weights, loaded from DOP_SEC_WEIGHTS and DOP_SEC_RANGES; at most 2 GiB each */
    DOP_SLOT_STATE,       /* states: zeroed at load, kept between steps; dop_plan_slot.state is the kind */
    DOP_SLOT_SCRATCH,     /* activations; argument offsets already overlap disjoint lifetimes */
    DOP_SLOT_STEP,        /* dop_step, host visible */
    DOP_SLOT_RESULT,      /* results that the host reads, such as logits; host visible and cached */
    /* Counters that synchronize the workgroups of a dispatch, zero between dispatches; and partial sums. */
    DOP_SLOT_COUNTS,
    DOP_SLOT_MAILBOX,  /* two copies of the mailboxes of a persistent dispatch; all ones at load */
    DOP_SLOT_TABLE,    /* stage table and parameter records of a schedule; written by the runtime at load */
    DOP_SLOT_RECEIVED, /* in a part: values that the previous part computed for the step's rows */
    DOP_SLOT_SENT      /* in a part: values for the next part */
};
#define DOP_PLAN_NO_SLOT 0xffffffffu

typedef struct dop_plan_slot {
    uint32_t kind;
    uint32_t name;        /* string */
    uint64_t size;        /* bytes */
    uint64_t file_offset; /* WEIGHTS: start of its own bytes in DOP_SEC_WEIGHTS, or in file `file` if external. */
    uint32_t file;        /* external weights: row of DOP_SEC_FILES; 0xffffffff: embedded */
    uint32_t state;       /* STATE: DOP_PLAN_STATE_*; otherwise 0 */
    uint32_t rows; /* APPEND: smallest number of rows of any state in the slot, over all sequences; otherwise 0 */
    uint32_t reserved;
} dop_plan_slot;

/* Append: one row per position of a sequence, or a ring of its last rows (KV caches); rewriting a row does not change it.
 * Replace: state that a step replaces as a whole (recurrent state).  It has dop_plan_model.state_copies consecutive copies in the bytes
 * of each argument; the sequence's parity is the index of the current copy (dop_step). */
enum { DOP_PLAN_STATE_APPEND = 1, DOP_PLAN_STATE_REPLACE };

/* Schedule kinds.  Steps of kind rows have rows of any sequences; prefill, score and embed steps have rows of one.  Score and rows
 * return the logits of every row; embed returns hidden states after the final norm, f32 [max_rows, hidden], in place of logits.  Encode
 * belongs to a program (dop_plan_program).  Other kinds return the logits of the last row. */
enum {
    DOP_SCHED_DECODE = 1,
    DOP_SCHED_PREFILL,
    DOP_SCHED_SCORE,
    DOP_SCHED_ROWS,
    DOP_SCHED_EMBED,
    DOP_SCHED_ENCODE, /* first kind that belongs to programs */
    DOP_SCHED_IMAGE,
    DOP_SCHED_FEATURES,
    DOP_SCHED_DRAFT,
    DOP_SCHED_AUDIO,
    DOP_SCHED_CONTEXT,
    DOP_SCHED_DENOISE,
    DOP_SCHED_DECODE_LATENTS,
    DOP_SCHED_ENCODE_PIXELS,
    DOP_SCHED_ENCODE_2,
    DOP_SCHED_END
};

/* The program `encode`.  A step has all rows of some texts, text by text, with positions from 0 in each, and keeps no state.  In the
 * row table, the field `sequence` holds the last position that the row attends to (the text's last row), and `flags` holds the row
 * type: 0, or 1 in the second text of a pair.  The output is f32 [rows, width]; the host pools it to one vector per text.  A plan has
 * schedules for sequences, or programs, or both.
 *
 * The programs `image` and `features`, which run in this order.  A step of `image` has all rows of some tiles; position and last
 * position count within the tile.  Other inputs of rows are received (dop_plan_crossing; see frontend/build/build_vision.h).
 * `features` receives the output rows without class rows, concatenates `merge` of them and returns one row. */
/* The program `audio`, in plans with schedules for sequences.  A step has all n_places rows of one or more audio chunks, with positions
 * from 0.  The row table holds the sequence whose states it fills (dop_plan_state.filled).  It receives "mel", two frames per row, and
 * "lasts", the last position of the chunk (frontend/build/build_vision.h).
 *
 * The program `draft` (multi-token prediction) predicts the token after the next one.  Row p has the token of position p + 1.  It
 * receives the hidden state, f32 [width], that a step of the sequence sent for position p; decode, prefill and rows schedules send
 * these.  Draft schedules of up to DOP_DRAFT_EACH rows return the logits of each row and pick from each (DOP_PICKS_NEXT if there is one
 * row).  Larger ones return the logits of the last row.  The program sends the hidden state for the following position and keeps states
 * of its own.
 * With `stays` it writes no states.  It reads those of the sequence up to position p, runs only the last row of a sequence, and runs
 * each next draft at that position, too. */
enum { DOP_DRAFT_EACH = 64 };
/* Pooling of a text: first row, mean, last row, or the first row with token `end_id` (with the largest id if end_id is UINT32_MAX; the
 * first row if no row matches). */
enum { DOP_POOL_CLS = 1, DOP_POOL_MEAN, DOP_POOL_LAST, DOP_POOL_END };
typedef struct dop_plan_program {
    uint32_t name;       /* string: "encode", "image", "features", "draft", "audio", ... */
    uint32_t kind;       /* kind of its schedules, DOP_SCHED_ENCODE and on; one program per kind */
    uint32_t width;      /* number of values of an output row */
    uint32_t n_types;    /* number of row types; 0: none */
    uint32_t pool;       /* DOP_POOL_* */
    uint32_t normalized; /* 1: vectors are normalized to length 1 */
    /* Number of classes that the output scores (equal to width); 0: vectors.  draft: size of the draft vocabulary, which is the number
     * of logits; 0: the whole vocabulary. */
    uint32_t classes;
    uint32_t end_id; /* with DOP_POOL_END: id of the token, or UINT32_MAX; otherwise 0 */
    /* Image: upper bound of the values of "places", "corners" and "axes"; 0: these are not received.  Audio: rows of a chunk. */
    uint32_t n_places;
    uint32_t class_row; /* image: 1 if the last row of a tile is a class row, not a patch */
    uint32_t merge;     /* features: number of image rows that make one feature; otherwise 0 */
    uint32_t bins;      /* audio: number of log-mel values of a frame; otherwise 0 */
    uint32_t stays;     /* draft: 1 if drafts run at one position and keep no states; otherwise 0 */
} dop_plan_program;

/* Programs of a diffusion model in addition to `encode`: `context`, `denoise` and `decode`, optionally `encode_picture` and `encode_2`
 * (frontend/build/build_diffusion.h).  Each has one schedule, and a step fills all of its rows. */
typedef struct dop_plan_draw {
    double scaling, moved; /* latents are divided by scaling, then `moved` is added, before decoding */
    double beta_first, beta_last;
    uint32_t width, height;    /* size of the latents */
    uint32_t scale;            /* edge of the pixel square of one latent position */
    uint32_t latents, colours; /* channels of the latents, and of a pixel */
    uint32_t times;            /* number of values of the time embedding */
    uint32_t cosine_first;     /* 1: cosines precede sines in the time embedding */
    uint32_t shift;            /* offset in the frequencies of the time embedding: 10000^(-i / (times / 2 - shift)) */
    uint32_t context, context_rows; /* number of values of a text row; number of text rows */
    uint32_t pad;                   /* padding token of texts */
    /* As in dop_diffusion (frontend/facts/diffusion.h). */
    uint32_t train_steps, offset, beta_roots, spacing, predicts, rescaled, last_first, method;
    /* The second text encoder, program `encode_2`; 0 without one.  text_2: values of a row; pooled: values of the vector of a text,
     * appended to the row of its end token; pad_2: padding token.  Text rows are then the concatenated rows of both encoders. */
    uint32_t text_2, pooled, pad_2;
    /* Number of values of the embedding of each of six sizes, received after the vector of the text. */
    uint32_t size_values;
    uint32_t blank_zero; /* 1: the unconditional branch of guidance uses zero rows and a zero vector */
} dop_plan_draw;

/* Returns the number of values of the output of `encode_2`. */
static inline size_t
dop_draw_rows_2(const dop_plan_draw *d)
{
    return (size_t)d->context_rows * (d->text_2 + d->pooled);
}

/* Returns the number of values added to the time embedding: a text vector and the embeddings of six sizes. */
static inline size_t
dop_draw_added(const dop_plan_draw *d)
{
    return d->pooled + 6 * (size_t)d->size_values;
}

/* Return the number of values of the latents, and of a decoded image. */
static inline size_t
dop_draw_latents(const dop_plan_draw *d)
{
    return (size_t)d->width * d->height * d->latents;
}

static inline size_t
dop_draw_pixels(const dop_plan_draw *d)
{
    return (size_t)d->width * d->height * d->scale * d->scale * d->colours;
}

/* Token picks of a schedule.  NONE: no picks.  NEXT: the arg-max of the last row's logits; also advances the step record to the next
 * step.
 * EACH: the arg-max of every row t, stored with its margin at ids[t] of the step record; advances only rows with DOP_ROW_CONTINUED
 * (dop_step). */
enum { DOP_PICKS_NONE, DOP_PICKS_NEXT, DOP_PICKS_EACH };

/* Synchronization between the dispatches of a schedule.
 * Persistent: the first dispatch runs all stages of the schedule.  Its workgroups must all be resident.  They execute the stages
 * together and pass values through mailboxes in DOP_SLOT_MAILBOX, whose words are all ones until filled.  Mailboxes have two copies;
 * the parity of dop_step.persistent_runs (several_runs for schedules of rows) selects one, and the sender of a word clears it in the
 * other copy.  Used only if a probe shows that it makes progress.  A wait that exceeds its bound sets DOP_STEP_STALLED and continues.
 * The results of that step are garbage, and it must be run again with barriers.  The last dispatch counts the run. */
enum { DOP_ORDER_BARRIERS = 0, DOP_ORDER_PERSISTENT = 1, DOP_N_ORDERS };

typedef struct dop_plan_schedule {
    uint32_t kind;     /* DOP_SCHED_* */
    uint32_t profile;  /* row of DOP_SEC_PROFILES */
    uint32_t max_rows; /* maximum number of rows of a replay; 1 for decode */
    uint32_t first_dispatch;
    uint32_t n_dispatches;
    /* Number of first dispatches that can run alone when no logits are needed; the rest is the LM head and its producers.  Equal to
     * n_dispatches if there is no such split. */
    uint32_t n_body;
    /* Slot of the logits, f32 [1 or max_rows, vocab], or of hidden states; DOP_PLAN_NO_SLOT in all parts except the last. */
    uint32_t logits_slot;
    uint32_t greedy;        /* DOP_PICKS_*: picks of the last dispatch */
    uint64_t logits_offset; /* byte offset in logits_slot */
    uint32_t ordering;      /* DOP_ORDER_*; among schedules that differ only in this, the runtime uses the faster */
    uint32_t adapted;  /* 1: for steps with adapters; other steps use the schedule with 0 and the same kind and size. */
    uint32_t reserved; /* 0 */
    uint32_t n_stages; /* persistent: number of stages of the first dispatch; otherwise 0 */
    /* Row of DOP_SEC_DISPATCHES of the first stage.  In stage rows, kernel is the persistent kernel, flags is the number of the stage's
     * function in it, and arguments and grid are the stage's. */
    uint32_t first_stage;
    /* Slot of the stage table: n_stages dop_stage_row, the parameter records of the dispatches, then those of the stages, without gaps.
     * DOP_PLAN_NO_SLOT: there are none. */
    uint32_t table_slot;
} dop_plan_schedule;

enum {
    DOP_DISPATCH_BARRIER = 1 /* a memory barrier before this dispatch */
};

typedef struct dop_plan_dispatch {
    uint32_t kernel;    /* row of DOP_SEC_KERNELS */
    uint32_t grid[3];   /* number of workgroups */
    uint32_t first_arg; /* row of DOP_SEC_ARGS */
    uint32_t n_args;    /* number of arguments, eight bytes each; a stage has them in its table row or record */
    uint32_t flags;     /* DOP_DISPATCH_* */
    uint32_t label;     /* string: "L3/qkv" */
    uint32_t ops;       /* string: ops of the region, for display */
    uint32_t region;    /* region number in the schedule's graph in DOP_SEC_IR */
    uint64_t bytes_read, bytes_written; /* bytes per replay at max_rows, without cache traffic */
    /* Stages: grid[2] is the maximum number of splits of the cache; workgroups run only for actual splits (dop_workgroups in
     * kernels/glsl/persistent.glsl).  While the cache has at most short_positions positions, including this step's, the stage uses
     * short_function, with short_groups workgroups for each of up to short_splits splits. */
    uint32_t short_positions, short_function, short_groups, short_splits; /* 0: the stage has no short form */
    uint64_t record;         /* byte offset of the parameter record in the schedule's table; 0 without one */
    uint32_t stage_rounding; /* stages: dop_rounding of its products; otherwise 0 (see the kernel's) */
    uint32_t reserved;       /* 0 */
} dop_plan_dispatch;

/* A kernel argument, in one of three forms.  A device address.  With slot DOP_ARG_NUMBERS: two 32-bit numbers, passed unchanged.  With
 * a view: the texel index of the argument in a uniform texel buffer (R32G32B32A32_UINT) over the whole allocation of its slot.  View v
 * (caps.h) is binding 0 of descriptor set v - 1.  All arguments of a dispatch in one view lie in one allocation. */
#define DOP_ARG_NUMBERS 0xffffffffu
typedef struct dop_plan_arg {
    uint32_t slot;   /* row of DOP_SEC_SLOTS, or DOP_ARG_NUMBERS */
    uint32_t value;  /* string: name of the IR value; "" for the step record and for numbers */
    uint64_t offset; /* byte offset in the slot; numbers: the first in the low half, the second in the high half */
    uint64_t size;   /* accessible bytes from there; numbers: 0 */
    uint32_t view;   /* DOP_VIEW_*; 0: none */
    uint32_t reserved;
} dop_plan_arg;

/* One stage in the table of a persistent dispatch. */
typedef struct dop_stage_row {
    uint64_t args[DOP_PUSH_ARGS]; /* arguments, as in push constants */
    uint16_t groups, splits;      /* workgroups per split of the cache; maximum number of splits */
    uint16_t short_groups, short_splits;
    uint16_t function, short_function;
    uint32_t short_positions;
} dop_stage_row;

typedef struct dop_plan_tensor {
    uint32_t name; /* string: canonical weight name */
    uint32_t type; /* row of base/storage/types.def */
    uint32_t rows, cols;
    uint32_t slot;          /* row of DOP_SEC_SLOTS */
    uint32_t experts;       /* number of matrices of rows x cols, one per expert; otherwise 1 */
    uint64_t offset;        /* byte offset of the first matrix in the slot */
    uint64_t size;          /* bytes of one matrix */
    uint64_t expert_stride; /* bytes from one matrix to the next; 0 if there is one */
    uint32_t gguf;          /* string: tensor name in GGUF files; "": none */
    uint32_t reserved;
} dop_plan_tensor;

/* One state of all sequences.
 * Append: row p of sequence q begins at offset + q * sequence_stride + p * row_bytes.  If paged, it begins at offset + (page * n + p %
 * page) * row_bytes, where n is entry p / page of the sequence's page table (dop_step).
 * Replace: copy c of sequence q begins at offset + c * copy_stride + q * sequence_stride and has row_bytes bytes. */
typedef struct dop_plan_state {
    uint32_t name;   /* string: IR name */
    uint32_t slot;   /* row of DOP_SEC_SLOTS; its `state` is the kind */
    uint32_t rows;   /* rows per sequence; 1 for replace */
    uint32_t paged;  /* 1: append state in cache pages */
    uint64_t offset; /* byte offset in the slot; this and the next three fields are multiples of 4 */
    uint64_t row_bytes;
    uint64_t sequence_stride; /* bytes */
    uint64_t copy_stride;     /* bytes; append: 0 */
    uint32_t filled;          /* 1: filled per sequence by the program `audio`; steps only read it */
    uint32_t reserved;        /* 0 */
} dop_plan_state;

/* Mapping of rows of an adapter matrix, as in dop_adapter_place (base/format/adapter.h), to a low-rank product of the plan.  a and b
 * are rows of TENSORS: A, f16 [ranks, cols], and B, f16 [rows, ranks].  a == b marks control vectors, without a product: the columns of
 * b are added after layer `start` of the `total` layers. */
typedef struct dop_plan_adapter_place {
    uint32_t tensor; /* string: name of the matrix in files, without ".weight"; places are sorted by it */
    uint32_t a, b;
    uint32_t first, n; /* range of rows of b */
    uint32_t start, block, step, total;
    uint32_t order, head;
    uint32_t reserved;
} dop_plan_adapter_place;

typedef struct dop_plan_file {
    uint32_t name;   /* string: file name relative to the plan's directory; absolute path of a model file */
    uint32_t model;  /* 1: a model file, read through DOP_SEC_RANGES; 0: external weights */
    uint64_t size;   /* bytes */
    uint64_t digest; /* digest as in plan/plan_weights.h; 0 for model files, whose ranges have digests */
} dop_plan_file;

/* A range of a WEIGHTS slot that is read from a model file instead of the plan.  BYTES: stored as kernels read it.  UNITS and GROUPS:
 * blocks of a quantized type, packed at load into the unit plane or the group plane of a matrix.  The other bytes of the slot are
 * consecutive in DOP_SEC_WEIGHTS.  Ranges are sorted by slot and offset and do not overlap.  The GROUPS range of a matrix directly
 * follows its UNITS range; other ranges do not end within a tensor. */
enum { DOP_RANGE_BYTES, DOP_RANGE_UNITS, DOP_RANGE_GROUPS };
typedef struct dop_plan_range {
    uint32_t slot;        /* row of DOP_SEC_SLOTS; the slot is not external */
    uint32_t file;        /* row of DOP_SEC_FILES with `model` set */
    uint64_t offset;      /* bytes into the slot */
    uint64_t size;        /* bytes */
    uint64_t file_offset; /* bytes from the start of the file */
    uint64_t before;      /* total bytes of earlier ranges of the slot */
    uint64_t digest;      /* digest of the file's bytes (plan/plan_weights.h); equal for UNITS and GROUPS of a matrix */
    uint32_t what;        /* DOP_RANGE_* */
    uint32_t type;        /* UNITS and GROUPS: row of base/storage/types.def; otherwise 0 */
    uint64_t blocks;      /* UNITS and GROUPS: number of consecutive blocks of the matrix in the file; otherwise 0 */
} dop_plan_range;

/* --- a model in parts -------------------------------------------------------------------------------------------------
 *
 * Part 0 receives tokens, the last part returns logits and picks, and each part has whole layers.  All parts use one row table and run
 * schedules of equal kind and max_rows in a step, each with its own ordering.  Before a step, the values sent by the previous part are
 * copied to where the crossings of this part place them. */
enum { DOP_MAX_PARTS = 64, DOP_PART_MAX_VALUES = 12 };
enum {
    DOP_PART_REPLACES = 1, /* some part has replace states: all parts track parity (dop_step) */
    DOP_PART_UNPAGED = 2   /* some part has states outside of cache pages */
};
typedef struct dop_plan_part {
    uint32_t number, n_parts;        /* part number, 0 .. n_parts - 1 */
    uint32_t first_layer, end_layer; /* layers first_layer .. end_layer - 1 */
    uint64_t set;                    /* digest over all parts, unique to one compilation */
    uint32_t flags;                  /* DOP_PART_*, of the whole model */
    uint32_t reserved;
} dop_plan_part;

/* A value that a schedule of this part receives or sends; at most DOP_PART_MAX_VALUES each way.  The next part receives the values that
 * this part sends, in order.  A forwarded value is sent from where it was received. */
enum { DOP_CROSSING_RECEIVED = 1, DOP_CROSSING_SENT };
enum { DOP_PLAN_F32 = 1 }; /* row of base/storage/types.def */
typedef struct dop_plan_crossing {
    uint32_t schedule; /* row of DOP_SEC_SCHEDULES */
    uint32_t way;      /* DOP_CROSSING_* */
    uint32_t name;     /* string: IR name */
    uint32_t type;     /* row of base/storage/types.def; DOP_PLAN_F32, ... */
    uint32_t slot;     /* slot of kind RECEIVED or SENT; row t of the step is at offset + t * row_bytes */
    uint32_t one_row;  /* 1: the value has one row; 0: one per row of the step */
    uint64_t offset;   /* bytes into the slot */
    uint64_t row_bytes;
} dop_plan_crossing;

/* A file of several parts: this header, a dop_plan_set_row per part, then the plans, each aligned to 4096 bytes.  The digest is XXH3
 * over the header, with its digest field zero, and the rows. */
#define DOP_PLAN_SET_MAGIC "DOPPARTS" /* 8 bytes */
typedef struct dop_plan_set_header {
    char magic[8];
    uint32_t version; /* DOP_PLAN_VERSION */
    uint32_t n_parts;
    uint64_t file_size; /* bytes */
    uint64_t set;       /* as in dop_plan_part */
    uint64_t digest;
} dop_plan_set_header;

typedef struct dop_plan_set_row {
    uint64_t offset, size; /* offset of the plan from the start of the file, and its size, in bytes */
    uint64_t digest;       /* digest of the plan's header */
    uint32_t first_layer, end_layer;
    char target[32]; /* 0-terminated */
} dop_plan_set_row;

#endif
