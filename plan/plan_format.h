/* plan.bin: the interface between dopplerc and doppler-exec.
 *
 * Little-endian, fixed-width rows, mapped and never parsed into copies.  Layout:
 *   dop_plan_header, dop_plan_section[n_sections], then the sections, each aligned to 16 bytes and DOP_SEC_WEIGHTS to
 *   4096.  Every offset below is in bytes from the start of its section unless it says otherwise.  Strings are offsets
 *   into DOP_SEC_STRINGS, each 0-terminated; offset 0 is "".
 * A reader checks: magic, version, sizes, that sections lie inside the file and do not overlap, each section's digest
 * (XXH3, 64 bits; of the weights as in plan/plan_weights.h), then every index, offset and count in the rows.  The
 * header's digest covers the header (with the digest field zero) and the section table.
 * A model in parts is several plans, one for each device: in separate files, or one after the other in a file that begins
 * with a directory (dop_plan_set_header).  Each of them states which part it is (DOP_SEC_PART).
 * What changes from step to step, dop_step, is in base/step_record.h.
 * Nothing in the file depends on time, paths, the environment or the number of threads: equal inputs, equal bytes. */
#ifndef DOPPLER_PLAN_PLAN_FORMAT_H
#define DOPPLER_PLAN_PLAN_FORMAT_H

#include "base/caps.h"
#include "base/step_record.h"

#include <stddef.h>
#include <stdint.h>

#define DOP_PLAN_MAGIC "DOPPLAN\n" /* 8 bytes */
#define DOP_PLAN_VERSION 29u

/* Sections: SECTION(number, name, row type or byte, what).  At most one of each. */
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
    uint64_t digest;    /* of this header with digest = 0, then the section table */
} dop_plan_header;

typedef struct dop_plan_section {
    uint32_t kind;      /* DOP_SEC_* */
    uint32_t row_bytes; /* size of one row as the writer knew it; must equal the reader's */
    uint64_t offset;    /* from the start of the file */
    uint64_t size;      /* bytes, a multiple of row_bytes */
    uint64_t digest;    /* XXH3 of the section's bytes (weights: plan_weights.h) */
} dop_plan_section;

#define DOP_PLAN_NO_RINGS 0xffffffffu
enum { DOP_PLAN_MAX_COPIES = DOP_STEP_SEVERAL + 1 };
enum { DOP_PLAN_MAX_USES = 16 }; /* adapters of a sequence at once */
typedef struct dop_plan_model {
    uint32_t vocab;
    uint32_t ctx; /* cache length S: positions 0 .. ctx - 1 */
    uint32_t ctx_train;
    uint32_t n_layers;
    uint32_t hidden; /* values of a row of hidden states */
    /* How many positions may be written and then dropped.  Where append state is a ring, dropped positions have overwritten
     * some that earlier rows see.  DOP_PLAN_NO_RINGS: any number. */
    uint32_t rewind;
    uint32_t n_sequences; /* most sequences, Q: 1 .. DOP_STEP_MAX_SEQUENCES */
    /* Positions of a page, a power of two that divides ctx; 0: every sequence has its states in one piece. */
    uint32_t page;
    uint32_t n_pages; /* of the pool, at least as many as one sequence may have; 0 with page 0 */
    int32_t bos_id;   /* -1: none */
    uint32_t n_end_ids;
    uint32_t end_ids[16];
    float temperature; /* the model's own sampling defaults; < 0: not stated, greedy */
    float top_p, min_p;
    uint32_t top_k;
    uint32_t name;        /* string */
    uint32_t family;      /* string */
    uint32_t quant;       /* string: how the weights are stored, as text */
    uint32_t kernel_path; /* string: which path made it, "" for the default */
    /* Room for adapters: how many, of up to which rank; the row of TENSORS with what each sequence uses, f32 [n_sequences, ranks +
     * adapter_uses]: factors, of rank r of adapter i in column i * rank + r, and then numbers of adapters from 1 on, 0 behind the last
     * one; what GGUF files call such models, several names with spaces between them (string).  Without room all are 0. */
    uint32_t adapters, adapter_rank, adapter_factors, adapter_archs, adapter_uses;
    uint32_t tied;         /* 1: the output matrix is the embedding */
    uint32_t state_copies; /* of states that steps replace, 2 .. DOP_PLAN_MAX_COPIES */
} dop_plan_model;

/* Targets in the order of preference: the runtime uses the first one whose kernels the device can run, and ignores the
 * others.  Each has its own schedules, and its own buffers where they differ; kernels and weights are shared. */
enum { DOP_MAX_TARGETS = 8 };
/* What chunks of a prompt cost on a target (plan/chunks.h), in tokens: beside their own; in a tile; from which on each costs
 * one; and that a smaller chunk lacks for the cost of one. */
typedef struct dop_chunk_costs {
    uint32_t start, tile, full, lack;
} dop_chunk_costs;

typedef struct dop_plan_profile {
    uint32_t name;          /* string */
    uint32_t caps;          /* capabilities that any kernel of this profile needs, DOP_CAP_* bits of ir/target.h */
    uint32_t subgroup;      /* size the kernels were compiled for; 0: any */
    uint32_t shared_bytes;  /* largest use */
    uint32_t max_workgroup; /* largest use, invocations */
    uint32_t matrix;        /* shape of products on matrix units that kernels with coop_nv or coop_khr use: M, N << 8,
                               K << 16; f16 factors, f32 sums, one subgroup; 0: no such kernels */
    uint32_t draws;         /* 1: kernels that pick draw rows with DOP_ROW_DRAWN */
    uint32_t submit_mib[2]; /* MiB of weights up to which a submission has four steps, and two */
    dop_chunk_costs chunks;
} dop_plan_profile;

typedef struct dop_plan_kernel {
    uint32_t name;        /* string: variant and shape, for people */
    uint32_t variant;     /* string: row of kernels.def */
    uint32_t spirv_first; /* first word in DOP_SEC_SPIRV */
    uint32_t spirv_words;
    uint32_t caps;     /* DOP_CAP_* bits */
    uint32_t subgroup; /* required subgroup size; 0: any */
    uint32_t local[3]; /* workgroup size */
    uint32_t shared_bytes;
    uint32_t n_args;   /* push constants, or in a parameter record (caps.h) */
    uint32_t rounding; /* dop_rounding of its products (caps.h): how near to exact sums --check expects it */
} dop_plan_kernel;

/* Device buffers.  Slots of one kind may share an allocation. */
enum {
    DOP_SLOT_WEIGHTS =
        1, /* filled from DOP_SEC_WEIGHTS, from file_offset on, and DOP_SEC_RANGES at load; at most 2 GiB each */
    DOP_SLOT_STATE,   /* zeroed at load, kept between steps; dop_plan_slot.state says how */
    DOP_SLOT_SCRATCH, /* activations: lifetimes already folded into argument offsets */
    DOP_SLOT_STEP,    /* dop_step, host visible */
    DOP_SLOT_RESULT,  /* what the host reads after a step: logits; host visible and cached */
    DOP_SLOT_COUNTS, /* counters by which workgroups of a dispatch agree, zero between dispatches; and sums for the last one */
    DOP_SLOT_MAILBOX,  /* two copies of the mailboxes of a persistent dispatch's stages: all ones at load */
    DOP_SLOT_TABLE,    /* of a schedule: stages and parameter records, written by the runtime at load */
    DOP_SLOT_RECEIVED, /* in a part: what the previous part computed for the step's rows */
    DOP_SLOT_SENT      /* in a part: what the next part receives */
};
#define DOP_PLAN_NO_SLOT 0xffffffffu

typedef struct dop_plan_slot {
    uint32_t kind;
    uint32_t name; /* string */
    uint64_t size; /* bytes */
    uint64_t
        file_offset; /* WEIGHTS: of its own bytes, from the start of DOP_SEC_WEIGHTS (or of file `file` when external) */
    uint32_t file;   /* external weights: row of DOP_SEC_FILES; 0xffffffff: embedded */
    uint32_t state;  /* STATE: DOP_PLAN_STATE_*; else 0 */
    uint32_t rows;   /* APPEND: rows of the slot's state with the fewest rows, all sequences together; else 0 */
    uint32_t reserved;
} dop_plan_slot;

/* Append: a row for every position of a sequence, or a ring of rows for its last ones (key and value caches); writing a row
 * again does not change it.
 * Replace: dop_plan_model.state_copies copies of a state that a step replaces as a whole, one after the other in the bytes of each
 * argument; the parity of the sequence is the number of the current one (dop_step). */
enum { DOP_PLAN_STATE_APPEND = 1, DOP_PLAN_STATE_REPLACE };

/* A step of prefill, score or embed has rows of one sequence, a step of rows those of any sequences.  Score and rows give the
 * logits of every row; embed gives the hidden states of every row after the final norm (f32 [max_rows, hidden], in place of
 * logits); encode is a program's (dop_plan_program); the others give the logits of the last row. */
enum {
    DOP_SCHED_DECODE = 1,
    DOP_SCHED_PREFILL,
    DOP_SCHED_SCORE,
    DOP_SCHED_ROWS,
    DOP_SCHED_EMBED,
    DOP_SCHED_ENCODE, /* of programs, from here on */
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

/* The program `encode`.  Its step has all rows of some texts, the rows of a text one after the other with positions from 0 on, and
 * leaves nothing behind.  In place of a row's sequence the row table has the last position that the row sees (that of the text's last
 * row), in place of its flags its type: 0, or 1 in the second text of a pair.  It gives a row of `width` values, f32, for each row,
 * from which the host makes one for each text.  A plan has schedules for sequences, or programs, or both.
 *
 * The programs `image` and `features`, which are run one after the other.  A step of `image` has all rows of some tiles; position and
 * last position are those in the tile.  What else is known of rows is received (dop_plan_crossing), as frontend/build/build_vision.h
 * says.  `features` receives rows of the former, `merge` of them side by side and without class rows, and gives one row for them. */
/*
 * The program `audio`, in plans with schedules for sequences.  A step has all n_places rows of one or more chunks of audio, with
 * positions from 0 on, and in the row table the sequence whose states it fills (dop_plan_state.filled): "mel" is received, two frames
 * for each row, and "lasts", the last position of the chunk (frontend/build/build_vision.h).
 *
 * The program `draft` predicts the token after the next one.  A step of it has rows of sequences: position p has the token of position
 * p + 1, and receives the hidden state f32 [width] that a step of the sequence has sent for position p.  It gives logits, of each
 * row in schedules of up to DOP_DRAFT_EACH rows and of the last in others, picks where it gives those of each (DOP_PICKS_NEXT in the
 * schedule of one row; ids of the vocabulary), sends the state that it receives for the position after, and keeps states of its own.
 * Or its rows stay: it reads the states of the sequence up to position p, which steps of the sequence have written, and writes none, so that
 * only the last row of a sequence is run, and the rows of what it picks come at the same position.
 * Where there is this program, decode, prefill and rows send hidden states. */
enum { DOP_DRAFT_EACH = 64 };
/* Of a text: its first row, the mean of all, its last row, the first one of the token `end_id` (of the largest id where that is
 * UINT32_MAX; the first row where there is none). */
enum { DOP_POOL_CLS = 1, DOP_POOL_MEAN, DOP_POOL_LAST, DOP_POOL_END };
typedef struct dop_plan_program {
    uint32_t name;       /* string: "encode", "image", "features", "draft", "audio", ... */
    uint32_t kind;       /* of its schedules: DOP_SCHED_ENCODE and so on; one row of each */
    uint32_t width;      /* values of a row of its output */
    uint32_t n_types;    /* of rows; 0: they have none */
    uint32_t pool;       /* DOP_POOL_* */
    uint32_t normalized; /* 1: vectors have length 1 */
    uint32_t
        classes; /* the output has scores of so many classes, width of them; 0: a vector.  draft: tokens that can be drafts, each of
                            which has a logit; 0: all of the vocabulary */
    uint32_t end_id; /* with DOP_POOL_END; 0 otherwise */
    uint32_t
        n_places; /* image: what "places", "corners" and "axes" are below; 0: none is received.  audio: rows of a chunk */
    uint32_t class_row; /* image: 1: the last row of a tile is no patch */
    uint32_t merge;     /* features: rows of the image that make one; else 0 */
    uint32_t bins;      /* audio: values of a frame; else 0 */
    uint32_t stays;     /* draft: 1: its rows stay at their positions, and it keeps no states; else 0 */
} dop_plan_program;

/* The programs of a diffusion model beside `encode`: `context`, `denoise` and `decode`, and perhaps `encode_picture` and `encode_2`
 * (frontend/build/build_diffusion.h).  A step has as many rows as its only schedule. */
typedef struct dop_plan_draw {
    double scaling, moved; /* latents are divided by scaling, then `moved` is added, before they are decoded */
    double beta_first, beta_last;
    uint32_t width, height;         /* of the latents, in places */
    uint32_t scale;                 /* pixels of a place along an edge */
    uint32_t latents, colours;      /* values of a place, and of a pixel */
    uint32_t times;                 /* values of the embedding of times */
    uint32_t cosine_first;          /* 1: it has cosines first */
    uint32_t shift;                 /* of its frequencies */
    uint32_t context, context_rows; /* values of a row of the text, and rows */
    uint32_t pad;                   /* the token that fills texts up */
    /* As dop_diffusion of frontend/facts/diffusion.h. */
    uint32_t train_steps, offset, beta_roots, spacing, predicts, rescaled, last_first, method;
    /* A second text encoder, program `encode_2`: values of a row, and of the vector of a text, whose end's row has it behind those; the
     * token that fills its texts up.  Rows of a text are then those of both encoders, side by side.  0: there is none. */
    uint32_t text_2, pooled, pad_2;
    uint32_t size_values; /* of the embedding of each of six sizes, which are received behind the vector of the text */
    uint32_t blank_zero;  /* 1: where guidance compares with no text, its rows and its vector are zeros */
} dop_plan_draw;

/* Values of what `encode_2` gives. */
static inline size_t
dop_draw_rows_2(const dop_plan_draw *d)
{
    return (size_t)d->context_rows * (d->text_2 + d->pooled);
}

/* Values that join the embedding of the time: a text's vector, and the embeddings of the sizes. */
static inline size_t
dop_draw_added(const dop_plan_draw *d)
{
    return d->pooled + 6 * (size_t)d->size_values;
}

/* Values of latents, and of a decoded picture. */
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

/* What a schedule picks: nothing; the arg-max of its last row's logits, with which it advances the step record to the next
 * step; or the arg-max of every row t, which it stores in ids[t] of the step record, with its margin, and changes nothing else, except
 * for rows with DOP_ROW_CONTINUED (dop_step). */
enum { DOP_PICKS_NONE, DOP_PICKS_NEXT, DOP_PICKS_EACH };

/* How the dispatches of a schedule are ordered.
 * Persistent: the first dispatch runs the schedule's stages.  Its workgroups, all of which the device must run at once, go
 * through them together and pass values on through mailboxes in DOP_SLOT_MAILBOX: a word there is all ones until it is filled.
 * There are two copies.  The parity of dop_step.persistent_runs, or of several_runs for schedules of rows, says which one a step
 * uses; the sender of a word empties its place in the other copy.
 * It is used only where a probe shows that it makes progress.  A wait that exceeds its bound sets DOP_STEP_STALLED and
 * continues: the results of that step are garbage, and it must be run again with barriers.  The last dispatch counts the run. */
enum { DOP_ORDER_BARRIERS = 0, DOP_ORDER_PERSISTENT = 1, DOP_N_ORDERS };

typedef struct dop_plan_schedule {
    uint32_t kind;     /* DOP_SCHED_* */
    uint32_t profile;  /* row of DOP_SEC_PROFILES */
    uint32_t max_rows; /* most rows one replay takes: 1 for decode */
    uint32_t first_dispatch;
    uint32_t n_dispatches;
    uint32_t n_body;        /* the first n_body need not be followed by the rest (the LM head and what only it reads)
                                unless logits are wanted; n_body == n_dispatches when there is no such split */
    uint32_t logits_slot;   /* slot of the logits, f32 [1 or max_rows, vocab], or hidden states; DOP_PLAN_NO_SLOT in all
                               parts except the last, which never make any */
    uint32_t greedy;        /* DOP_PICKS_*: what the last dispatch does */
    uint64_t logits_offset; /* bytes into that slot */
    uint32_t ordering;      /* DOP_ORDER_*; of schedules that differ only in it the runtime uses the faster */
    uint32_t
        adapted; /* 1: for steps with rows that use adapters; others run the schedule of this kind and size with 0 */
    uint32_t reserved;    /* 0 */
    uint32_t n_stages;    /* persistent: the stages of its first dispatch, else 0 */
    uint32_t first_stage; /* row of DOP_SEC_DISPATCHES; in such rows the kernel is that of the dispatch, arguments and
                               grid are the stage's, and flags is the number of its function in the kernel */
    uint32_t
        table_slot; /* the slot of its table: n_stages dop_stage_row, then the parameter records of its dispatches and
                                then those of its stages, without gaps; DOP_PLAN_NO_SLOT: it has neither */
} dop_plan_schedule;

enum {
    DOP_DISPATCH_BARRIER = 1 /* a memory barrier before this dispatch */
};

typedef struct dop_plan_dispatch {
    uint32_t kernel;    /* row of DOP_SEC_KERNELS */
    uint32_t grid[3];   /* workgroups */
    uint32_t first_arg; /* row of DOP_SEC_ARGS */
    uint32_t n_args;    /* eight bytes each; those of a stage are in its row of the table or its record */
    uint32_t flags;     /* DOP_DISPATCH_* */
    uint32_t label;     /* string: "L3/qkv" */
    uint32_t ops;       /* string: the region's ops, for people */
    uint32_t region;    /* region number in the schedule's graph in DOP_SEC_IR */
    uint64_t bytes_read, bytes_written; /* per replay at max_rows, cache traffic at ctx excluded */
    /* Stages: the third dimension of the grid is the most splits of the cache; only as many workgroups run as there are
     * splits (dop_workgroups in kernels/glsl/persistent.glsl).  While the cache has at most short_positions positions, this
     * step's included, the stage uses another function, with short_groups workgroups for each of up to short_splits splits. */
    uint32_t short_positions, short_function, short_groups, short_splits; /* 0: there is no such form */
    uint64_t record; /* of a dispatch or stage with a parameter record: bytes into the schedule's table; else 0 */
    uint32_t stage_rounding; /* stages: dop_rounding of its products; else 0, and the kernel's counts */
    uint32_t reserved;       /* 0 */
} dop_plan_dispatch;

/* An argument is a device address; or, with slot DOP_ARG_NUMBERS, two 32-bit numbers that the kernel gets unchanged; or, with a
 * view, the number of a texel: where the argument begins in a uniform texel buffer (R32G32B32A32_UINT) that shows all of the
 * allocation in which its slot lies.  View v (caps.h) is binding 0 of descriptor set v - 1.  What a dispatch reads through one
 * view lies in one allocation. */
#define DOP_ARG_NUMBERS 0xffffffffu
typedef struct dop_plan_arg {
    uint32_t slot;   /* row of DOP_SEC_SLOTS, or DOP_ARG_NUMBERS */
    uint32_t value;  /* string: the IR value there, "" for the step record and for numbers */
    uint64_t offset; /* bytes into the slot; numbers: the first in the low half, the second in the high one */
    uint64_t size;   /* bytes from there that the kernel may access; numbers: 0 */
    uint32_t view;   /* DOP_VIEW_*; 0: none */
    uint32_t reserved;
} dop_plan_arg;

/* A row of the table that a persistent dispatch goes through. */
typedef struct dop_stage_row {
    uint64_t args[DOP_PUSH_ARGS]; /* as push constants */
    uint16_t groups, splits;      /* workgroups of each split of the cache, and the most splits */
    uint16_t short_groups, short_splits;
    uint16_t function, short_function;
    uint32_t short_positions;
} dop_stage_row;

typedef struct dop_plan_tensor {
    uint32_t name; /* string: canonical weight name */
    uint32_t type; /* row of base/storage/types.def */
    uint32_t rows, cols;
    uint32_t slot;          /* row of DOP_SEC_SLOTS */
    uint32_t experts;       /* matrices of rows x cols; 1 unless the weight has one for each expert */
    uint64_t offset;        /* bytes into the slot, of the first */
    uint64_t size;          /* bytes of one */
    uint64_t expert_stride; /* distance between two in bytes; 0: there is only one */
    uint32_t gguf;          /* string: the name of its tensor in GGUF files, "" where they have none */
    uint32_t reserved;
} dop_plan_tensor;

/* One state of all sequences.  Append: row p of sequence q begins at offset + q * sequence_stride + p * row_bytes; or, in
 * pages, at offset + (page * n + p % page) * row_bytes, where n is entry p / page of the sequence's table (dop_step).
 * Replace: copy c of sequence q at offset + c * copy_stride + q * sequence_stride, row_bytes in all. */
typedef struct dop_plan_state {
    uint32_t name;   /* string: of the IR */
    uint32_t slot;   /* row of DOP_SEC_SLOTS, whose `state` is the kind */
    uint32_t rows;   /* of one sequence; 1 for replace */
    uint32_t paged;  /* 1: append state in pages */
    uint64_t offset; /* bytes into the slot; this and the next three are multiples of 4 */
    uint64_t row_bytes;
    uint64_t sequence_stride; /* bytes */
    uint64_t copy_stride;     /* bytes; append: 0 */
    uint32_t filled;   /* 1: rows that the program `audio` fills for a sequence, which steps read and never write */
    uint32_t reserved; /* 0 */
} dop_plan_state;

/* Where rows of a matrix in adapters' files go (dop_adapter_place of base/format/adapter.h): to these rows of the product whose low
 * ranks are the rows a and b of TENSORS, f16 [ranks, cols] and [rows, ranks].  Where a is b there is no product: the columns of b are
 * what adapters that are control vectors add behind layer `start` of the `total` layers. */
typedef struct dop_plan_adapter_place {
    uint32_t tensor; /* string: the matrix's name in files, without ".weight"; rows are in the order of names */
    uint32_t a, b;
    uint32_t first, n; /* rows of b */
    uint32_t start, block, step, total;
    uint32_t order, head;
    uint32_t reserved;
} dop_plan_adapter_place;

typedef struct dop_plan_file {
    uint32_t name;   /* string: file name relative to the plan's directory; of a model's file its absolute path */
    uint32_t model;  /* 1: a file of the model, of which rows of DOP_SEC_RANGES are used; 0: external weights */
    uint64_t size;   /* bytes */
    uint64_t digest; /* plan/plan_weights.h; of a model's file 0, because its ranges have digests */
} dop_plan_file;

/* Bytes of a WEIGHTS slot that a file of the model has, so that the plan need not hold them: as the kernels read them, or as the blocks of
 * a quantized type, of which one plane of a packed matrix is made when weights are loaded.  All other bytes of the slot follow each other in
 * DOP_SEC_WEIGHTS.  Rows are in the order of slots and offsets, and apart from each other.  The groups of a matrix are the row behind that
 * of its units, and no other row ends within a tensor. */
enum { DOP_RANGE_BYTES, DOP_RANGE_UNITS, DOP_RANGE_GROUPS };
typedef struct dop_plan_range {
    uint32_t slot;        /* row of DOP_SEC_SLOTS, which is not in an external file */
    uint32_t file;        /* row of DOP_SEC_FILES, with `model` */
    uint64_t offset;      /* bytes into the slot */
    uint64_t size;        /* bytes */
    uint64_t file_offset; /* bytes from the start of the file */
    uint64_t before;      /* bytes of the slot's ranges before this one */
    uint64_t digest;      /* of the file's bytes, plan/plan_weights.h; of UNITS and GROUPS of one matrix the same */
    uint32_t what;        /* DOP_RANGE_BYTES, ... */
    uint32_t type;        /* of UNITS and GROUPS: row of base/storage/types.def; else 0 */
    uint64_t blocks;      /* of UNITS and GROUPS: blocks of the matrix, which follow each other in the file; else 0 */
} dop_plan_range;

/* --- a model in parts -------------------------------------------------------------------------------------------------
 *
 * Part 0 takes tokens, the last part gives logits and picks, and each part has whole layers.  All parts get the same row
 * table for a step.  A step runs the same schedule in each part (same kind and max_rows, each in the ordering that the part
 * has chosen).  Before it, the rows of the values that the part receives, which the previous part has sent in this step, are
 * put where the part's crossings say. */
enum { DOP_MAX_PARTS = 64, DOP_PART_MAX_VALUES = 12 };
enum {
    DOP_PART_REPLACES = 1, /* some part has states that steps replace: all parts count parity (dop_step) */
    DOP_PART_UNPAGED = 2   /* some part has states that are not in pages */
};
typedef struct dop_plan_part {
    uint32_t number, n_parts;        /* of 0 .. n_parts - 1 */
    uint32_t first_layer, end_layer; /* first_layer .. end_layer - 1 */
    uint64_t set;                    /* digest over all parts; shared by the parts of one compilation and no others */
    uint32_t flags;                  /* DOP_PART_*, of the whole model */
    uint32_t reserved;
} dop_plan_part;

/* A value of a schedule that this part receives or sends, at most DOP_PART_MAX_VALUES each way.  What a part sends is what
 * the next one receives, in the same order.  A value that a part only forwards is sent from where it was received. */
enum { DOP_CROSSING_RECEIVED = 1, DOP_CROSSING_SENT };
enum { DOP_PLAN_F32 = 1 }; /* row of base/storage/types.def */
typedef struct dop_plan_crossing {
    uint32_t schedule; /* row of DOP_SEC_SCHEDULES */
    uint32_t way;      /* DOP_CROSSING_* */
    uint32_t name;     /* string: of the IR */
    uint32_t type;     /* row of base/storage/types.def; DOP_PLAN_F32, ... */
    uint32_t slot;     /* of kind RECEIVED or SENT; row t of the step at offset + t * row_bytes */
    uint32_t one_row;  /* 1: the value always has one row; else one for each row of the step */
    uint64_t offset;   /* bytes into the slot */
    uint64_t row_bytes;
} dop_plan_crossing;

/* A file of several parts: this header, then a dop_plan_set_row for each part, then the plans, each aligned to 4096 bytes.
 * The digest is XXH3 over the header, with this field zero, and the rows. */
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
    uint64_t offset, size; /* of the plan: bytes from the start of the file */
    uint64_t digest;       /* that of the plan's header */
    uint32_t first_layer, end_layer;
    char target[32]; /* 0-terminated */
} dop_plan_set_row;

#endif
