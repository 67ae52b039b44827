/* The parts of the converter; only hf_to_gguf*.c include this. */
#ifndef DOPPLER_TESTS_UNIT_HF_TO_GGUF_PARTS_H
#define DOPPLER_TESTS_UNIT_HF_TO_GGUF_PARTS_H

#include <jansson.h>

#include "tests/unit/gguf_writer.h"

enum { HG_MAX_RANK = 4 };

/* What is done to the values of a tensor. */
typedef enum hg_how {
    HG_PLAIN,
    HG_WHOLE_NAME, /* nothing; its name takes no ending */
    HG_NORM,
    HG_Q,
    HG_K,
    HG_QKV_BY_HEAD, /* fused, head by head */
    HG_TRANSPOSED,
    HG_DROPPED /* it becomes metadata */
} hg_how;

typedef struct hg_rule {
    const char *hf;   /* below the model's prefix, "*" for the layer; NULL ends a list */
    const char *gguf; /* in a layer: below "blk.N." */
    hg_how how;
} hg_rule;

enum {
    HG_PERMUTE = 1, /* q and k rotate in pairs there, in halves here */
    HG_ADD_1 = 2    /* norms are stored minus 1 */
};

typedef struct hg_model hg_model;

typedef struct hg_family {
    const char *model_type, *arch;
    const hg_rule *rules[3];
    unsigned flags;
    void (*metadata)(hg_model *m); /* what only this family has; NULL: nothing */
} hg_family;

struct hg_model {
    json_t *root, *config; /* config.json, and its text_config where there is one */
    json_t *header;        /* of the safetensors file */
    dop_map map;
    const uint8_t *data; /* of the tensors */
    const hg_family *family;
    uint32_t layers, hidden, heads, head_dim;
    gguf_writer *w;
    char *error;
    size_t error_size;
};

typedef struct hg_tensor {
    const char *dtype;
    uint32_t rank;
    uint64_t shape[HG_MAX_RANK], count;
    const uint8_t *data;
} hg_tensor;

bool hg_find(const hg_model *m, const char *name, hg_tensor *out);
/* malloc'ed */
float *hg_values(const hg_tensor *t);
void hg_write(hg_model *m, const char *name, const hg_tensor *t, const float *v);

/* Keys that every family has, and then those of its own. */
void hg_metadata(hg_model *m);
/* Tensors that no tensor of the model becomes: frequency divisors. */
void hg_extra_tensors(hg_model *m);

void hg_window(hg_model *m);
void hg_window_flags(hg_model *m);
void hg_gemma(hg_model *m);
void hg_gemma4(hg_model *m);
void hg_granite(hg_model *m);
void hg_parallel(hg_model *m);
void hg_cohere2(hg_model *m);
void hg_apertus(hg_model *m);

#endif
