/* GGML files of models of speech, as whisper.cpp has them: sizes, mel filters, vocabulary and tensors, one after the other, little-endian.
 *
 * Everything is checked when the file is opened, so that what is listed lies inside the file.  Format: whisper.cpp,
 * models/convert-pt-to-ggml.py and src/whisper.cpp (whisper_model_load). */
#ifndef DOPPLER_BASE_FORMAT_GGML_H
#define DOPPLER_BASE_FORMAT_GGML_H

#include "base/arena.h"
#include "base/base.h"

typedef struct dop_ggml_sizes {
    uint32_t vocab; /* special tokens included */
    uint32_t audio_rows, audio_hidden, audio_heads, audio_layers;
    uint32_t text_rows, text_hidden, text_heads, text_layers;
    uint32_t bins; /* of a mel frame */
    uint32_t type; /* how most tensors are stored: a number of the format */
} dop_ggml_sizes;

/* A token as its bytes, not 0-terminated; its rank is its place in the list. */
typedef struct dop_ggml_token {
    const char *bytes;
    uint32_t n;
} dop_ggml_token;

enum { DOP_GGML_MAX_DIMS = 4 };

typedef struct dop_ggml_tensor {
    const char *name; /* in the arena */
    uint32_t n_dims;
    uint32_t dims[DOP_GGML_MAX_DIMS]; /* fastest first, 1 beyond n_dims */
    uint32_t type;                    /* ggml_type; always one that dop_gguf_tensor_type knows */
    const uint8_t *data;              /* in the file, unaligned */
    uint64_t bytes;
} dop_ggml_tensor;

typedef struct dop_ggml {
    const char *path; /* for messages, borrowed */
    dop_ggml_sizes sizes;
    dop_ggml_token *tokens; /* [n_tokens], in the arena; special tokens are not among them */
    uint32_t n_tokens;
    dop_ggml_tensor *tensors; /* [n_tensors], in the arena, in the order of the file */
    uint32_t n_tensors;
} dop_ggml;

/* Checks and lists a file that is in memory, whose bytes the caller keeps.  DOP_E_INPUT: it is damaged, or of another model. */
dop_status dop_ggml_parse(const char *path, const void *bytes, uint64_t size, dop_arena *arena, dop_diag *diag,
                          dop_ggml *out_ggml);
/* The ids behind the tokens: the end of the text, the beginning of a transcription, languages, tasks and so on, and times.  *out_first: id of the
 * first; *out_languages: how many languages there are.  False: there is no room for them in the vocabulary. */
bool dop_ggml_specials(const dop_ggml *ggml, uint32_t *out_first, uint32_t *out_languages);

#endif
