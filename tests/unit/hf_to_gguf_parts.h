/* The parts of the converter; only hf_to_gguf*.c include this. */
#ifndef DOPPLER_TESTS_UNIT_HF_TO_GGUF_PARTS_H
#define DOPPLER_TESTS_UNIT_HF_TO_GGUF_PARTS_H

#include <jansson.h>

#include "tests/unit/gguf_writer.h"

enum { HG_MAX_RANK = 5 };

/* What is done to the values of a tensor. */
typedef enum hg_how {
    HG_PLAIN,
    HG_WHOLE_NAME, /* nothing; its name takes no ending */
    HG_NORM,
    HG_Q,
    HG_K,
    HG_QKV_BY_HEAD,  /* fused, head by head */
    HG_QKV_BY_GROUP, /* ... with all queries that go with a head of keys */
    HG_TRANSPOSED,
    HG_BEHIND_2, /* without the first two rows */
    HG_DROPPED,  /* it becomes metadata */
    /* hf_to_gguf_split.c: one tensor of all experts, two of one, or values in another form */
    HG_EXPERTS,        /* one tensor for each expert (or head, or stream): stacked */
    HG_FLAT,           /* the matrices of all experts below each other: three axes */
    HG_FLAT_TURNED,    /* ... and each turned */
    HG_HALVES,         /* gate and up below each other (of each expert): two tensors, "gate,up" */
    HG_COLUMN_HALVES,  /* the same beside each other: [expert, in, out] becomes [expert, out, in] */
    HG_TURNED,         /* [expert, in, out] becomes [expert, out, in] */
    HG_EVEN_ODD,       /* values of gate and up in turn */
    HG_MXFP4,          /* blocks, whose scales are a tensor beside it */
    HG_MXFP4_EVEN_ODD, /* ... with rows of gate and up in turn */
    HG_KV_B,           /* keys and values of a latent head: "k,v", the keys turned */
    HG_DECAY,          /* -exp() */
    HG_COLUMN,         /* a vector as a matrix of one column */
    HG_DECAY_COLUMN,   /* both */
    HG_TAPS,           /* [channels, 1, taps] without the 1 */
    HG_TAPS_APART,     /* ... as [1, channels, 1, taps] */
    HG_GROUPS,         /* a vector as rows of one group each */
    HG_QKVZ,           /* "qkv,gate", key head by key head there */
    HG_V_ROWS,         /* value heads in the order that their key heads take turns; the qk channels before them stay */
    HG_V_ALL_ROWS,     /* the same of a tensor of value heads alone */
    HG_V_VALUES,       /* of one value (or row) of each value head */
    HG_V_DECAY,
    HG_V_TAPS,
    HG_V_COLUMNS,
    HG_MIX_IN /* Falcon-H1's multipliers */
} hg_how;

typedef struct hg_rule {
    const char *hf;   /* below the model's prefix, "*" for the layer; NULL ends a list */
    const char *gguf; /* in a layer: below "blk.N." */
    hg_how how;
} hg_rule;

enum {
    HG_PERMUTE = 1, /* q and k rotate in pairs there, in halves here */
    HG_ADD_1 = 2,   /* norms are stored minus 1 */
    /* What its metadata function writes itself, or nobody: heads of keys and values; feed-forward width; other numbers of heads and
     * their sizes; rotary embedding. */
    HG_OWN_KV = 4,
    HG_OWN_FFN = 8,
    HG_OWN_HEADS = 16,
    HG_NO_ROPE = 32,
    HG_LAYER_NORM = 512, /* the only epsilon is that of a layer norm, whatever its field is called */
    HG_OWN_WORDS = 256,  /* the tokenizer */
    HG_RMS = 64,        /* the only epsilon is that of a root mean square, whatever its field and the norm are called */
    HG_MULTIPLIED = 128 /* Falcon-H1's multipliers are in the matrices */
};

typedef struct hg_model hg_model;

typedef struct hg_family {
    const char *model_type, *arch; /* model_type: or several, between spaces */
    const hg_rule *rules[5];
    unsigned flags;
    void (*metadata)(hg_model *m); /* what only this family has; NULL: nothing */
} hg_family;

extern const hg_family hg_families[]; /* the last one has no model_type */

struct hg_model {
    const char *dir;
    json_t *root, *config; /* config.json, and its text_config where there is one */
    json_t *header;        /* of the safetensors file */
    dop_map map;
    const uint8_t *data; /* of the tensors */
    const hg_family *family;
    uint32_t layers, hidden, heads, kv_heads, head_dim;
    bool f32;
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

/* Opens config.json and model.safetensors of a directory. */
bool hg_open(hg_model *m, const char *dir);
void hg_close(hg_model *m);
bool hg_find(const hg_model *m, const char *name, hg_tensor *out);
/* malloc'ed */
float *hg_values(const hg_tensor *t);
void hg_write(hg_model *m, const char *name, const hg_tensor *t, const float *v);
/* A number of config.json; otherwise where it has none. */
double hg_number(const hg_model *m, const char *key, double otherwise);
/* A field, also one of an object of it ("attn_config.clip_qkv"); NULL: it is absent or null. */
const json_t *hg_field(const hg_model *m, const char *key);
/* The first field of these that is there, as a number; else otherwise. */
double hg_first(const hg_model *m, const char *const *keys, double otherwise);
#define NUMBER(m, otherwise, ...) hg_first(m, (const char *const[]){__VA_ARGS__, NULL}, otherwise)
/* A field as a key, when it is there. */
void hg_copy_u32(hg_model *m, const char *from, const char *key);
void hg_copy_f32(hg_model *m, const char *from, const char *key);
/* A parameter of the rotary embedding. */
double hg_rope_number(const hg_model *m, const char *key, double otherwise);
/* Heads of keys and values by layer: none where it does not attend. */
void hg_kv_heads_by_layer(hg_model *m);
/* Rows of `cols` values in another order: the new row r is the old row from[r]. */
void hg_reorder(float *v, const uint64_t *from, uint64_t rows, uint64_t cols);
/* The rules from HG_EXPERTS on.  hf: the tensor's whole name; gguf: of what it becomes, "blk.N." included, with a comma
 * between two.  ending: ".weight" or what the tensor has.  false: it cannot be done. */
bool hg_split(hg_model *m, const hg_rule *rule, const char *hf, const char *gguf, const char *ending);

/* Keys that every family has, and then those of its own. */
void hg_metadata(hg_model *m);
/* Tensors that no tensor of the model becomes: frequency divisors. */
void hg_extra_tensors(hg_model *m);

/* A tokenizer of the family's kind.  rope: the type of scaling, by which some families' models differ. */
void hg_tokenizer(hg_model *m, const char *rope);

/* hf_to_mmproj.c: the text of a token that stands for a picture, or before or behind one, in texts of the model; NULL: the token is
 * another one. */
const char *hg_picture_token(const hg_model *m, unsigned id);
/* Is the tensor of a vision part? */
bool hg_is_of_tower(const char *name);

void hg_sections(hg_model *m);
void hg_window(hg_model *m);
void hg_window_flags(hg_model *m);
void hg_gemma(hg_model *m);
void hg_gemma4(hg_model *m);
void hg_granite(hg_model *m);
void hg_minicpm(hg_model *m);
void hg_bailing(hg_model *m);
void hg_parallel(hg_model *m);
void hg_cohere2(hg_model *m);
void hg_apertus(hg_model *m);
void hg_experts(hg_model *m);
void hg_gpt_oss(hg_model *m);
void hg_llama4(hg_model *m);
void hg_deepseek(hg_model *m);
void hg_delta(hg_model *m);
void hg_granite_hybrid(hg_model *m);
void hg_ssm(hg_model *m);
void hg_lfm2(hg_model *m);
void hg_mistral3(hg_model *m);
void hg_starcoder(hg_model *m);
void hg_clip(hg_model *m);
void hg_hunyuan(hg_model *m);
void hg_cohere(hg_model *m);
void hg_dbrx(hg_model *m);
void hg_minicpm3(hg_model *m);
void hg_muse_glimmer(hg_model *m);
void hg_gemma3n(hg_model *m);
void hg_experts_in_windows(hg_model *m);
void hg_laguna(hg_model *m);
void hg_mimo2(hg_model *m);
void hg_granite_moe(hg_model *m);
void hg_nemotron_h(hg_model *m);
void hg_selective(hg_model *m);
void hg_kimi_linear(hg_model *m);
/* hf_to_gguf_encoders.c: rules and keys of encoders, and T5's names, whose numbers say what is what, as names without such. */
extern const hg_rule hg_bert[], hg_roberta[], hg_nomic_bert[], hg_modernbert[], hg_t5[];
void hg_encoder(hg_model *m);
void hg_modern_bert(hg_model *m);
void hg_t5_encoder(hg_model *m);
void hg_pooling(hg_model *m);
void hg_embedding_gemma(hg_model *m);
void hg_rename_t5(char *name, size_t size);

#endif
