/* The parts of the Hugging Face importer; only frontend/hf/ includes this. */
#ifndef DOPPLER_FRONTEND_HF_HF_H
#define DOPPLER_FRONTEND_HF_HF_H

#include "base/json/json_util.h"
#include "frontend/facts/facts.h"
#include "frontend/facts/import.h"
#include "frontend/hf/tensor.h"

/* The quantization_config of config.json: how the checkpoint's matrices are quantized. */
typedef struct dop_hf_quant {
    bool used;  /* the checkpoint is quantized this way */
    bool awq;   /* AWQ; else GPTQ */
    bool mxfp4; /* experts are mxfp4 blocks and scales; `used` is then false, as all other tensors are not quantized */
    bool act_order, symmetric;
    bool by_input;        /* AWQ's gemv form: a word has eight inputs, not eight outputs */
    bool bytes, hqq, mlx; /* bitsandbytes; HQQ; MLX */
    const char *skipped;  /* the matrices that the last note about conversion to f16 named */
    bool codes;           /* matrices say by their tensors how they are stored (codes.c) */
    uint32_t bits;        /* bits of an integer: 4; GPTQ also 2, 3 or 8 */
    bool expanded;        /* the note about matrices that become f16 has been given */
    uint32_t group;       /* inputs per scale; 0: one scale for a whole row */
    uint32_t zero_add;    /* added to stored zero points */
} dop_hf_quant;

/* A Hugging Face directory that is being imported: config.json, opened, and what was read so far. */
typedef struct dop_hf {
    const char *dir;
    const char *path;          /* path of config.json */
    json_t *root;              /* owned */
    dop_json top;              /* config.json's outermost object */
    dop_json cfg;              /* its text_config where there is one, else its outermost object */
    const dop_st_set *tensors; /* tensors that the directory's files are not read for; NULL: there are none */
    const dop_family *family;
    dop_layer layer; /* what all layers share; copied to each layer before what differs is read */
    dop_hf_quant quant;
    bool one_norm; /* the file says that a parallel layer's feed-forward part has no norm of its own */
    const char *
        headless; /* name of an architecture without output matrix (dop_family_without_head); NULL: there is a matrix */
    /* A reranker that answers in words: the tokens "no" and "yes", whose rows of the output matrix give the scores; else equal. */
    uint32_t answers[2];
    bool classes; /* the model gives scores of classes instead of logits of tokens */
    bool
        projected; /* CLIP: the first product after the last norm is text_projection, as in models of text and pictures */
    const char *dense_dirs[DOP_MAX_DENSE]; /* folders of modules that are a product (dop_hf_modules) */
    dop_arena *arena;
    dop_diag *diag;
    dop_checkpoint *model;
} dop_hf;
/* Sizes that a text_config may leave out, because transformers writes into it only what differs from the defaults of its class:
 * LLaVA 1.5 states nothing of its Llama.  0: it must state the size, as a config.json of one part must all of them. */
typedef struct dop_hf_sizes {
    uint32_t hidden, layers, heads, ffn, vocab;
} dop_hf_sizes;

#endif
