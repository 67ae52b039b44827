/* GGML files of speech models (whisper.cpp): sizes, mel filters, vocabulary and tensors in sequence, little-endian.
 *
 * Parsing verifies everything, so listed data lies inside the file.  Format: whisper.cpp, models/convert-pt-to-ggml.py and
 * src/whisper.cpp (whisper_model_load). */
#ifndef DOPPLER_BASE_FORMAT_GGML_H
#define DOPPLER_BASE_FORMAT_GGML_H

#include "base/arena.h"
#include "base/base.h"

typedef struct dop_ggml_sizes {
    uint32_t vocab; /* vocabulary size, including special tokens */
    uint32_t audio_rows, audio_hidden, audio_heads, audio_layers;
    uint32_t text_rows, text_hidden, text_heads, text_layers;
    uint32_t bins; /* log-mel values of a frame */
    uint32_t type; /* storage type of most tensors: a number of the format */
} dop_ggml_sizes;

/* Bytes of a token, not 0-terminated; its id is its index in the list. */
typedef struct dop_ggml_token {
    const char *bytes;
    uint32_t n;
} dop_ggml_token;

enum { DOP_GGML_MAX_DIMS = 4 };

typedef struct dop_ggml_tensor {
    const char *name; /* tensor name, in the arena */
    uint32_t n_dims;
    uint32_t dims[DOP_GGML_MAX_DIMS]; /* fastest first; 1 beyond n_dims */
    uint32_t type;                    /* ggml_type; always valid for dop_gguf_tensor_type */
    const uint8_t *data;              /* unaligned, inside the file */
    uint64_t bytes;
} dop_ggml_tensor;

typedef struct dop_ggml {
    const char *path; /* for messages; not owned */
    dop_ggml_sizes sizes;
    dop_ggml_token *tokens; /* [n_tokens] ordinary tokens, in the arena */
    uint32_t n_tokens;
    dop_ggml_tensor *tensors; /* [n_tensors] in file order, in the arena */
    uint32_t n_tensors;
} dop_ggml;

/* Verifies and lists a file in memory; the caller keeps the bytes.  DOP_E_INPUT: damaged, or another kind of model. */
dop_status dop_ggml_parse(const char *path, const void *bytes, uint64_t size, dop_arena *arena, dop_diag *diag,
                          dop_ggml *out_ggml);
/* Locates the special tokens after the ordinary ones: end of text, start of transcript, languages, tasks, times.  *out_first: first id;
 * *out_languages: number of languages.  False if the vocabulary is too small for them. */
bool dop_ggml_specials(const dop_ggml *ggml, uint32_t *out_first, uint32_t *out_languages);

#endif
