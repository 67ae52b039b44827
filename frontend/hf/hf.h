/* Internal declarations of the Hugging Face importer; only frontend/hf/ includes this. */
#ifndef DOPPLER_FRONTEND_HF_HF_H
#define DOPPLER_FRONTEND_HF_HF_H

#include "base/json/json_util.h"
#include "frontend/facts/facts.h"
#include "frontend/facts/import.h"
#include "frontend/hf/tensor.h"

/* quantization_config of config.json: how the checkpoint's matrices are quantized. */
typedef struct dop_hf_quant {
    bool used;  /* quantized as AWQ or GPTQ */
    bool awq;   /* AWQ; otherwise GPTQ */
    bool mxfp4; /* experts are mxfp4 blocks and scales; `used` is then false, because other tensors are not quantized */
    bool act_order, symmetric;
    bool by_input;        /* AWQ's gemv form: a word has eight inputs instead of eight outputs */
    bool bytes, hqq, mlx; /* bitsandbytes (8 or 4 bits); HQQ; MLX */
    const char *skipped;  /* matrices named by the last note about conversion to f16 */
    bool codes;           /* the tensors of each matrix determine its layout (codes.c) */
    uint32_t bits;        /* bits per integer: 4; GPTQ also 2, 3 or 8 */
    bool expanded;        /* the note about matrices expanded to f16 has been given */
    uint32_t group;       /* inputs per scale; 0: one scale per row */
    uint32_t zero_add;    /* added to stored zero points */
} dop_hf_quant;

/* State of an import from a Hugging Face directory: config.json and the facts read so far. */
typedef struct dop_hf {
    const char *dir;
    const char *path;          /* path of config.json */
    json_t *root;              /* owned */
    dop_json top;              /* outermost object of config.json */
    dop_json cfg;              /* text_config if present, otherwise the outermost object */
    const dop_st_set *tensors; /* tensors given by the caller instead of the directory's files; NULL: none */
    const dop_family *family;
    dop_layer layer; /* facts common to all layers; copied to each layer before its own facts are read */
    dop_hf_quant quant;
    bool one_norm; /* the file says that a parallel layer's feed-forward part has no norm of its own */
    const char
        *headless; /* architecture name without output matrix (dop_family_without_head); NULL: has an output matrix */
    /* Reranker that answers in words: token ids of "no" and "yes", whose output matrix rows give the scores; equal if
     * not a reranker. */
    uint32_t answers[2];
    bool classes;                          /* the model returns class scores instead of token logits */
    bool projected;                        /* CLIP: the first dense layer after the final norm is text_projection */
    const char *dense_dirs[DOP_MAX_DENSE]; /* folders of dense modules (dop_hf_modules) */
    dop_arena *arena;
    dop_diag *diag;
    dop_checkpoint *model;
} dop_hf;
/* Default sizes for a text_config, in which transformers omits values equal to the defaults of its class (LLaVA 1.5 states none
 * of its Llama's). 0: required. */
typedef struct dop_hf_sizes {
    uint32_t hidden, layers, heads, ffn, vocab;
} dop_hf_sizes;

#endif
