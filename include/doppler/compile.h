/* libdopplerc: compile a model ahead of time into a plan, which libdoppler runs (doppler/doppler.h).
 *
 * The library prints nothing, has no global variables of its own and reads no environment; Vulkan's loader, which it asks about the
 * device at hand, reads its own.  It finds its kernel templates from where it is installed.  The shader compiler in it is C++ and
 * cannot report that memory was refused to it: the process ends then (std::terminate). */
#ifndef DOPPLER_INCLUDE_DOPPLER_COMPILE_H
#define DOPPLER_INCLUDE_DOPPLER_COMPILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <doppler/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a plan is made.  Zeros are the defaults, which are those of dopplerc; texts are written as the values of its option of the same
 * name.  All memory is the caller's, and is only read until dop_compile returns. */
typedef struct dop_compile_options {
    const char *target; /* names or files, separated by commas; NULL: "auto", the device at hand */
    const char *device; /* with "auto" and `tuning`: number or part of the name of that device; NULL: the best one */
    const char *quant, *imatrix; /* storage of weights; a measured importance of their columns */
    const char *kv, *act;        /* storage of caches and of activations */
    const char *size;            /* of a diffusion model's pictures in pixels, as "512x512"; NULL: as it was trained */
    const char *chunks, *rows;   /* sizes of prefill chunks and of steps of several sequences, as "8,64,512" */
    const char *kernel_path, *tuning; /* files that choose kernels */
    const char *parts, *part_memory;  /* cut the model into parts, one for a device each */
    const char *const *forces;        /* [n_forces] kernels, as "OP=VARIANT" */
    const char *const *apart;         /* [n_apart] pairs of ops that are not fused, as "A+B"; "": none are */
    const char *const *skips;         /* [n_skips] names of passes that are left out */
    const char *const *loras;         /* [n_loras] adapters that are merged, as "FILE" or "FILE:SCALE" */
    const char *const *controls;      /* [n_controls] control vectors that are added, as "FILE" or "FILE:SCALE" */
    /* The file with a GGUF model's vision part; NULL: the only one beside the model whose name has "mmproj". */
    const char *mmproj;
    const char *
        draft_head; /* a drafter (EAGLE-3, Gemma 4's assistant) for the model, a directory or a GGUF file; NULL: the model's own, if it has one */
    const char *control_layers; /* layers behind which they are added, as "1-12"; NULL: all but the first */
    size_t n_forces, n_apart, n_skips, n_loras, n_controls;
    uint32_t ctx, sequences, ctx_total; /* positions of a sequence, sequences, positions of all of them */
    uint32_t threads;                   /* 0: one per core */
    bool embed;                         /* the plan also computes hidden states, for embeddings */
    uint32_t adapters, rank;            /* room for adapters that come at run time, and their largest rank; 0: none */
    bool invariant;                     /* the same bits for a row in every batch and chunk */
    bool external_weights;              /* weights are a file of their own, PLAN.weights */
    bool model_weights; /* weights that need no other form stay in the model's files, which the plan names */
    bool split;         /* with parts: one file for each, PLAN.part0 and so on */
    /* Progress of the steps "kernels" (in kernels) and "weights" (in bytes of the plan). */
    dop_progress progress;
    dop_log notes; /* what may surprise about the plan, a line each */
    /* [n_avoids] names of kernels that are not used, as the device's driver refuses them or computes something else; each may be
     * several, separated by commas. */
    const char *const *avoids;
    size_t n_avoids;
    uint32_t
        draft_vocabulary; /* drafts of the model's own layer are among so many tokens, the first; 0: all of the vocabulary */
} dop_compile_options;

/* The largest of their numbers. */
enum {
    DOP_COMPILE_MOST_CTX = 1 << 24,
    DOP_COMPILE_MOST_CTX_TOTAL = 1 << 30,
    DOP_COMPILE_MOST_SEQUENCES = 64,
    DOP_COMPILE_MOST_ADAPTERS = 64,
    DOP_COMPILE_MOST_RANK = 512
};

/* Facts about a plan that was written. */
typedef struct dop_compile_facts {
    char target[64]; /* name of the target, or of the first of several */
    uint64_t bytes;  /* size of the plan's files */
    uint64_t
        device_bytes; /* memory that it takes on the device, with the first target; of parts: all of them together */
    uint32_t n_parts; /* 1: the plan is in one piece */
    bool nearest;     /* no target file is for the device at hand, so that costs are those of the nearest one */
} dop_compile_facts;

/* Compiles the model at a path (a Hugging Face directory, an RDRR directory or its manifest.json, a .gguf file, or a diffusion
 * model in one .safetensors file) into the plan `plan`, which appears when it is complete: a failure, or the end of the process,
 * leaves what was there.  options: NULL for the defaults; out_facts: NULL if they are not wanted.  Equal files and options give
 * equal bytes.  Errors: DOP_E_INPUT: the model; DOP_E_USAGE: an option; DOP_E_DEVICE: no device for "auto"; DOP_E_IO;
 * DOP_E_NOMEM; DOP_E_CANCELLED: by options->progress.  Any thread; calls in several threads are independent of each other. */
dop_status dop_compile(const char *model, const char *plan, const dop_compile_options *options, dop_diag *diag,
                       dop_compile_facts *out_facts);

#ifdef __cplusplus
}
#endif

#endif
