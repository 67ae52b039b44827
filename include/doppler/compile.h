/* libdopplerc: compiles a model ahead of time into a plan, which libdoppler runs (doppler/doppler.h).
 *
 * The library prints nothing, has no global variables and does not read the environment; the Vulkan loader, used to query the
 * device, does.  Kernel templates are found relative to the installed library.  The shader compiler inside is C++ and cannot
 * report failed allocations: the process then ends in std::terminate. */
#ifndef DOPPLER_INCLUDE_DOPPLER_COMPILE_H
#define DOPPLER_INCLUDE_DOPPLER_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <doppler/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options of dop_compile.  Zero selects the default, which is that of dopplerc.  Strings have the syntax of dopplerc's option of
 * the same name.  The caller owns all memory, which must stay valid until dop_compile returns. */
typedef struct dop_compile_options {
    const char *target; /* target names or files, separated by commas; NULL: "auto", the local device */
    const char *device; /* for target "auto" and for `tuning`: device number or part of its name; NULL: the best */
    const char *quant, *imatrix; /* storage type of weights; file with measured importances of weight columns */
    const char *kv, *act;        /* storage types of KV caches and of activations */
    const char *size;          /* image size of a diffusion model in pixels, as "512x512"; NULL: the size of training */
    const char *chunks, *rows; /* prefill chunk sizes, and row counts of multi-sequence steps, as "8,64,512" */
    const char *kernel_path, *tuning; /* files that select kernels */
    const char *parts, *part_memory;  /* partition of the model into parts, one per device */
    const char *const *forces;        /* [n_forces] forced kernels, as "OP=VARIANT" */
    const char *const *apart;         /* [n_apart] pairs of ops that are not fused, as "A+B"; "": no fusion at all */
    const char *const *skips;         /* [n_skips] names of passes to skip */
    const char *const *loras;         /* [n_loras] LoRA adapters to merge, as "FILE" or "FILE:SCALE" */
    const char *const *controls;      /* [n_controls] control vectors to add, as "FILE" or "FILE:SCALE" */
    /* Vision file of a GGUF model; NULL: the only file next to the model whose name contains "mmproj". */
    const char *mmproj;
    /* Draft model (EAGLE-3, Gemma 4's assistant), a directory or GGUF file; NULL: the model's own, if any. */
    const char *draft_head;
    const char *control_layers; /* layers after which control vectors are added, as "1-12"; NULL: all but the first */
    size_t n_forces, n_apart, n_skips, n_loras, n_controls;
    /* Positions per sequence, number of sequences, positions of all sequences together. */
    uint32_t ctx, sequences, ctx_total;
    uint32_t threads;        /* compiler threads; 0: one per core */
    bool embed;              /* true to add schedules that return hidden states, for embeddings */
    uint32_t adapters, rank; /* maximum number and rank of adapters loaded at run time; 0: none */
    bool invariant;          /* true for batch-invariant results: a row has the same bits in every batch and chunk */
    bool external_weights;   /* true to write weights to a separate file, PLAN.weights */
    bool model_weights;      /* true to reference unconverted weights in the model's files instead of copying them */
    bool split;              /* with parts: true to write one file per part, PLAN.part0 and so on */
    /* Progress.  Steps: "kernels" (in kernels) and "weights" (in bytes of the plan). */
    dop_progress progress;
    dop_log notes; /* receives warnings about the plan, one per line */
    /* [n_avoids] kernels not to use, because the driver refuses or miscompiles them; each entry may list several, separated by
     * commas. */
    const char *const *avoids;
    size_t n_avoids;
    /* Restricts drafts of the model's own layer to token ids below this; 0: the whole vocabulary. */
    uint32_t draft_vocabulary;
} dop_compile_options;

/* Upper bounds of the numeric options. */
enum {
    DOP_COMPILE_MOST_CTX = 1 << 24,
    DOP_COMPILE_MOST_CTX_TOTAL = 1 << 30,
    DOP_COMPILE_MOST_SEQUENCES = 64,
    DOP_COMPILE_MOST_ADAPTERS = 64,
    DOP_COMPILE_MOST_RANK = 512
};

/* Facts about a compiled plan. */
typedef struct dop_compile_facts {
    char target[64];       /* name of the first target */
    uint64_t bytes;        /* total size of the plan's files */
    uint64_t device_bytes; /* device memory needed with the first target, summed over parts */
    uint32_t n_parts;      /* number of parts; 1: the plan is not divided */
    bool nearest; /* true if no target file matches the local device, so costs are those of the nearest target */
} dop_compile_facts;

/* Compiles a model into the plan file `plan`.  model: a Hugging Face directory, an RDRR directory or its manifest.json, a .gguf
 * file, or a diffusion model in one .safetensors file.  The plan replaces an existing file atomically, so a failure leaves the
 * old one.
 * options: NULL for the defaults; out_facts: NULL if not needed.  Equal inputs and options give equal bytes.  DOP_E_INPUT:
 * invalid model; DOP_E_USAGE: invalid option; DOP_E_DEVICE: no device for "auto"; DOP_E_CANCELLED: by options->progress; also
 * DOP_E_IO and DOP_E_NOMEM.  Callable from any thread; concurrent calls are independent. */
dop_status dop_compile(const char *model, const char *plan, const dop_compile_options *options, dop_diag *diag,
                       dop_compile_facts *out_facts);

#ifdef __cplusplus
}
#endif

#endif
