/* Writes a GGUF file of a real model's shape with random weights, for speed work: the values mean nothing, the sizes
 * are right, and equal arguments give equal bytes.
 *
 *   make_gguf SHAPE[:LAYERS][+nextn] TYPE OUT.gguf [SEED|empty|peaked]
 *
 * TYPE: one of storages[] but f32.  As llama.cpp's own quantizer does it, embeddings of those below 8 bits are q6_k, rows that
 * whole blocks do not fill fall back to q8_0, and mxfp4 is for experts: everything else is q8_0 then.  There is no
 * vocabulary: prompts are token ids.  With `empty` the weights are a hole in the file, which takes no room on disk: for what
 * depends on sizes alone.  With `peaked` one logit of each step is far above the others, as it mostly is in a trained model:
 * the best of many random logits are so close that steps of other kernels may pick another token, and drafts stay in doubt.
 * With :LAYERS there are so many of the shape's layers: for stages of models that are too large.  With +nextn there is a layer of
 * multi-token prediction behind them.
 *
 * Names, keys and what llama.cpp stores another way than it was published (decays as -exp(A_log), stacked experts) follow
 * its converter (conversion/) and loader (src/models/), so that it reads the same file.  The shapes tiny-* are the same
 * architectures small, with sizes that are no powers of two.
 *
 * Build: cc -O2 -D_GNU_SOURCE -I ROOT -I ROOT/include make_gguf.c ROOT/base/[a-z]*.c ROOT/base/os/[a-z]*.c -lm -lpthread */
#include "base/base.h"
#include "tests/bench/storages.h"
#include "tests/unit/buf_align.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the layers that do not attend have instead. */
typedef enum recurrence { NONE, DELTA, SSM, CONV } recurrence;

typedef struct shape {
    const char *name, *arch;
    uint32_t hidden, ffn, layers, heads, kv_heads, head_dim, vocab;
    bool tied;
    float rope_base;
    uint32_t experts, used, expert_ffn; /* of a mixture; ffn is then the key of that name only */
    recurrence recurrent;
    uint64_t attends;                     /* bit i: layer i attends although others are recurrent */
    const char *parts;                    /* of layers of one part each: M recurrent, * attends, - or E feeds forward */
    uint32_t inner, state, groups, ranks; /* of recurrent layers, as the keys ssm.* name them */
    uint32_t taps;                        /* of their convolution */
    /* Latent attention: keys and values are made of `rank` values, queries of q_rank (0: of the input); head_dim counts
     * `rotated` ones too.  The first `dense` layers have no experts, the others `shared` that work on every row. */
    uint32_t rank, q_rank, rotated, value_dim, dense, shared;
    bool drafts; /* there is a layer of multi-token prediction */
    bool beside; /* every layer attends and has a recurrence beside that */
} shape;

#define EVERY_FOURTH 0x8888888888888888u

static const shape shapes[] = {
#include "tests/bench/make_gguf_shapes.inc"
};

enum { N_SHAPES = sizeof shapes / sizeof shapes[0], N_STORAGES = sizeof storages / sizeof storages[0] };
enum { MAX_TENSORS = 16384, TABLE = 65536 };

/* What f32 tensors are full of. */
typedef enum content { RANDOM, ONES, DECAYS } content;

typedef struct tensor {
    char name[64];
    const storage *type;
    content content;
    uint64_t cols, rows, experts; /* rows == 0: a vector; experts == 0: no third axis */
} tensor;

/* Peaked logits: each row of the last product has the random bits of an embedding's row, that of the token before it in the text.
 * The logits deviate by 1 from 0, and the one of the next token is about PEAK: the embedding's share of what the layers pass on
 * is made so large.  Each of them adds LAYER to its variance: 0.36 is that of silu(x) * y of normal x and y, and attention adds 1
 * at the first token, and less at each further one because it takes means.  Random blocks of q4_k deviate by 1.74 instead of 1,
 * from which five products make 16.  Where the matrices are tied, that token is the same one again. */
static const double PEAK = 8, LAYER = 0.8, Q4_K = 16;
enum { STRIDE = 7919 }; /* from a token to the next one */

typedef struct writer {
    FILE *f;
    const shape *shape;
    const storage *type, *embedding, *expert; /* of matrices */
    tensor tensors[MAX_TENSORS];
    size_t n_tensors;
    dop_buf keys;
    uint64_t n_keys, random;
    bool peaked;
    int16_t bell[TABLE]; /* a sum of four uniform draws: close to normal, exact on every machine */
} writer;

/* splitmix64 */
static uint64_t
draw(writer *w)
{
    uint64_t z = w->random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static const storage *
find_storage(const char *name)
{
    for (size_t i = 0; i < N_STORAGES; i++)
        if (strcmp(storages[i].name, name) == 0)
            return &storages[i];
    return NULL;
}

static void
put_text(dop_buf *b, const char *text)
{
    uint64_t n = strlen(text);
    dop_buf_append(b, &n, sizeof n);
    dop_buf_append(b, text, n);
}

/* A key; "%s." in front of those of the architecture. */
static void
put_key(writer *w, const char *prefix, const char *name, uint32_t type)
{
    char key[96];
    snprintf(key, sizeof key, "%s%s%s", prefix, prefix[0] ? "." : "", name);
    put_text(&w->keys, key);
    dop_buf_append(&w->keys, &type, sizeof type);
    w->n_keys++;
}

static void
key_u32(writer *w, const char *prefix, const char *name, uint32_t value)
{
    put_key(w, prefix, name, 4);
    dop_buf_append(&w->keys, &value, sizeof value);
}

static void
key_f32(writer *w, const char *prefix, const char *name, float value)
{
    put_key(w, prefix, name, 6);
    dop_buf_append(&w->keys, &value, sizeof value);
}

static void
key_text(writer *w, const char *name, const char *value)
{
    put_key(w, "", name, 8);
    put_text(&w->keys, value);
}

static void
key_list(writer *w, const char *prefix, const char *name, const uint32_t *values, uint64_t n)
{
    const uint32_t element = 5; /* i32 */
    put_key(w, prefix, name, 9);
    dop_buf_append(&w->keys, &element, sizeof element);
    dop_buf_append(&w->keys, &n, sizeof n);
    dop_buf_append(&w->keys, values, n * sizeof *values);
}

static bool
attends(const shape *s, uint32_t layer)
{
    return s->parts ? s->parts[layer] == '*' : !s->recurrent || s->attends >> layer % 64 & 1;
}

static bool
feeds_forward(const shape *s, uint32_t layer)
{
    return s->parts ? strchr("-E", s->parts[layer]) != NULL : s->ffn > 0;
}

/* Experts are scored by a sigmoid, and a correction is added for their choice. */
static bool
corrected(const shape *s)
{
    return s->experts && (s->rank || s->recurrent == CONV || s->recurrent == SSM);
}

static void
put_layer_keys(writer *w)
{
    const shape *s = w->shape;
    const char *a = s->arch;
    uint32_t kv_heads[64], widths[64];
    if (s->recurrent == CONV || s->parts) { /* which layers attend is told by their heads */
        for (uint32_t i = 0; i < s->layers; i++) {
            kv_heads[i] = attends(s, i) ? s->kv_heads : 0;
            widths[i] = feeds_forward(s, i) ? s->ffn : 0;
        }
        key_list(w, a, "attention.head_count_kv", kv_heads, s->layers);
    } else {
        key_u32(w, a, "attention.head_count_kv", s->kv_heads);
    }
    if (s->parts)
        key_list(w, a, "feed_forward_length", widths, s->layers);
    else
        key_u32(w, a, "feed_forward_length", s->ffn);
    if (s->recurrent == CONV)
        key_u32(w, a, "shortconv.l_cache", s->taps);
    if (s->recurrent == CONV || !s->recurrent)
        return;
    key_u32(w, a, "ssm.conv_kernel", s->taps);
    key_u32(w, a, "ssm.inner_size", s->inner);
    key_u32(w, a, "ssm.state_size", s->state);
    key_u32(w, a, "ssm.time_step_rank", s->ranks);
    key_u32(w, a, "ssm.group_count", s->groups);
    if (s->recurrent == DELTA)
        key_u32(w, a, "full_attention_interval", 4);
}

static void
put_rope_keys(writer *w)
{
    const shape *s = w->shape;
    const char *a = s->arch;
    const bool quarter = s->recurrent == DELTA;
    if (s->rank) {
        key_u32(w, a, "attention.kv_lora_rank", s->rank);
        if (s->q_rank)
            key_u32(w, a, "attention.q_lora_rank", s->q_rank);
        key_u32(w, a, "attention.key_length", s->rank + s->rotated);
        key_u32(w, a, "attention.value_length", s->rank);
        key_u32(w, a, "attention.key_length_mla", s->head_dim);
        key_u32(w, a, "attention.value_length_mla", s->value_dim);
        key_u32(w, a, "rope.dimension_count", s->rotated);
        key_f32(w, a, "rope.freq_base", s->rope_base);
        return;
    }
    const uint32_t sections[4] = {s->head_dim / 8 - 2 * (s->head_dim / 8 / 3), s->head_dim / 8 / 3, s->head_dim / 8 / 3,
                                  0};
    key_u32(w, a, "attention.key_length", s->head_dim);
    key_u32(w, a, "attention.value_length", s->head_dim);
    key_u32(w, a, "rope.dimension_count", quarter ? s->head_dim / 4 : s->head_dim);
    key_f32(w, a, "rope.freq_base", s->rope_base);
    if (quarter)
        key_list(w, a, "rope.dimension_sections", sections, 4);
}

static void
put_expert_keys(writer *w)
{
    const shape *s = w->shape;
    const char *a = s->arch;
    key_u32(w, a, "expert_count", s->experts);
    key_u32(w, a, "expert_used_count", s->used);
    key_u32(w, a, "expert_feed_forward_length", s->expert_ffn);
    if (s->shared && s->recurrent)
        key_u32(w, a, "expert_shared_feed_forward_length", s->shared * s->expert_ffn);
    if (!corrected(s))
        return;
    if (s->dense)
        key_u32(w, a, "leading_dense_block_count", s->dense);
    key_u32(w, a, "expert_gating_func", 2);
    put_key(w, a, "expert_weights_norm", 7);
    dop_buf_append(&w->keys, "\1", 1);
    if (!s->shared)
        return;
    key_u32(w, a, "expert_shared_count", s->recurrent ? 1 : s->shared);
    key_f32(w, a, "expert_weights_scale", 2.5f);
}

static void
put_keys(writer *w)
{
    const shape *s = w->shape;
    const char *a = s->arch;
    key_text(w, "general.architecture", a);
    key_text(w, "general.name", s->name);
    key_u32(w, "", "general.quantization_version", 2);
    key_u32(w, a, "context_length", 32768);
    key_u32(w, a, "embedding_length", s->hidden);
    key_u32(w, a, "block_count", s->layers + s->drafts);
    if (s->drafts)
        key_u32(w, a, "nextn_predict_layers", 1);
    key_u32(w, a, "attention.head_count", s->heads);
    key_f32(w, a, "attention.layer_norm_rms_epsilon", 1e-6f);
    if (s->parts) /* for layers of multi-token prediction, but it must be there */
        key_f32(w, a, "attention.layer_norm_epsilon", 1e-6f);
    put_layer_keys(w);
    if (s->heads)
        put_rope_keys(w);
    key_u32(w, a, "vocab_size", s->vocab);
    if (s->experts)
        put_expert_keys(w);
    if (strcmp(a, "gemma3") == 0)
        key_u32(w, a, "attention.sliding_window", 512);
    if (strcmp(a, "gpt-oss") == 0) {
        key_u32(w, a, "attention.sliding_window", 128);
        put_key(w, a, "rope.scaling.type", 8);
        put_text(&w->keys, "yarn");
        key_f32(w, a, "rope.scaling.factor", 32);
        key_u32(w, a, "rope.scaling.original_context_length", 4096);
    }
    key_text(w, "tokenizer.ggml.model", "no_vocab");
}

/* layer < 0: none.  A name without an ending is a weight. */
static tensor *
add_tensor(writer *w, int layer, const char *name, const storage *type, uint64_t cols, uint64_t rows)
{
    tensor *t = &w->tensors[w->n_tensors++];
    const char *ending = strchr(name, '.') && strcmp(strrchr(name, '.'), ".bias") == 0 ? "" : ".weight";
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s%s", name, ending);
    else
        snprintf(t->name, sizeof t->name, "blk.%d.%s%s", layer, name, ending);
    t->type = cols % type->values == 0 ? type : find_storage(cols % 32 == 0 ? "q8_0" : "f16");
    t->cols = cols;
    t->rows = rows;
    return t;
}

static tensor *
add_f32(writer *w, int layer, const char *name, content c, uint64_t cols, uint64_t rows)
{
    tensor *t = add_tensor(w, layer, name, find_storage("f32"), cols, rows);
    t->content = c;
    return t;
}

/* ssm_a and ssm_d have no ending. */
static void
add_bare(writer *w, int layer, const char *name, content c, uint64_t cols, uint64_t rows)
{
    tensor *t = add_f32(w, layer, name, c, cols, rows);
    snprintf(t->name, sizeof t->name, "blk.%d.%s", layer, name);
}

static void
add_attention(writer *w, int i)
{
    const shape *s = w->shape;
    const uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    const bool gated = s->recurrent == DELTA, oss = strcmp(s->arch, "gpt-oss") == 0;
    add_tensor(w, i, "attn_q", w->type, s->hidden, gated ? 2 * q : q);
    add_tensor(w, i, "attn_k", w->type, s->hidden, kv);
    add_tensor(w, i, "attn_v", w->type, s->hidden, kv);
    add_tensor(w, i, "attn_output", w->type, q, s->hidden);
    if (strcmp(s->arch, "llama") != 0 && !oss && !s->parts && !s->beside) {
        add_f32(w, i, "attn_q_norm", ONES, s->head_dim, 0);
        add_f32(w, i, "attn_k_norm", ONES, s->head_dim, 0);
    }
    if (oss) {
        add_f32(w, i, "attn_q.bias", RANDOM, q, 0);
        add_f32(w, i, "attn_k.bias", RANDOM, kv, 0);
        add_f32(w, i, "attn_v.bias", RANDOM, kv, 0);
        add_f32(w, i, "attn_output.bias", RANDOM, s->hidden, 0);
        add_f32(w, i, "attn_sinks", RANDOM, s->heads, 0);
    }
}

static void
add_latent(writer *w, int i)
{
    const shape *s = w->shape;
    const uint64_t heads = s->heads, plain = s->head_dim - s->rotated;
    if (s->q_rank) {
        add_tensor(w, i, "attn_q_a", w->type, s->hidden, s->q_rank);
        add_f32(w, i, "attn_q_a_norm", ONES, s->q_rank, 0);
    }
    add_tensor(w, i, s->q_rank ? "attn_q_b" : "attn_q", w->type, s->q_rank ? s->q_rank : s->hidden,
               heads * s->head_dim);
    add_tensor(w, i, "attn_kv_a_mqa", w->type, s->hidden, s->rank + s->rotated);
    add_f32(w, i, "attn_kv_a_norm", ONES, s->rank, 0);
    add_tensor(w, i, "attn_k_b", w->type, plain, s->rank)->experts = heads;
    add_tensor(w, i, "attn_v_b", w->type, s->rank, s->value_dim)->experts = heads;
    add_tensor(w, i, "attn_output", w->type, heads * s->value_dim, s->hidden);
}

static void
add_recurrent(writer *w, int i)
{
    const shape *s = w->shape;
    const uint64_t channels = s->inner + 2 * (uint64_t)s->groups * s->state;
    switch (s->recurrent) {
    case NONE:
        break;
    case DELTA:
        add_tensor(w, i, "attn_qkv", w->type, s->hidden, channels);
        add_tensor(w, i, "attn_gate", w->type, s->hidden, s->inner);
        add_f32(w, i, "ssm_conv1d", RANDOM, s->taps, channels);
        add_f32(w, i, "ssm_dt.bias", RANDOM, s->ranks, 0);
        add_bare(w, i, "ssm_a", DECAYS, s->ranks, 0);
        add_tensor(w, i, "ssm_beta", w->type, s->hidden, s->ranks);
        add_tensor(w, i, "ssm_alpha", w->type, s->hidden, s->ranks);
        add_f32(w, i, "ssm_norm", ONES, s->inner / s->ranks, 0);
        add_tensor(w, i, "ssm_out", w->type, s->inner, s->hidden);
        break;
    case SSM:
        add_tensor(w, i, "ssm_in", w->type, s->hidden, s->inner + channels + s->ranks);
        add_f32(w, i, "ssm_conv1d", RANDOM, s->taps, channels);
        add_f32(w, i, "ssm_conv1d.bias", RANDOM, channels, 0);
        add_f32(w, i, "ssm_dt.bias", RANDOM, s->ranks, 0);
        add_bare(w, i, "ssm_a", DECAYS, 1, s->ranks);
        add_bare(w, i, "ssm_d", ONES, 1, s->ranks);
        add_f32(w, i, "ssm_norm", ONES, s->inner / s->groups, s->groups);
        add_tensor(w, i, "ssm_out", w->type, s->inner, s->hidden);
        break;
    case CONV:
        add_f32(w, i, "shortconv.conv", RANDOM, s->taps, s->hidden);
        add_tensor(w, i, "shortconv.in_proj", w->type, s->hidden, 3 * (uint64_t)s->hidden);
        add_tensor(w, i, "shortconv.out_proj", w->type, s->hidden, s->hidden);
        break;
    }
}

static void
add_experts(writer *w, int i)
{
    static const char *const names[] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};
    const shape *s = w->shape;
    add_f32(w, i, "ffn_gate_inp", RANDOM, s->hidden, s->experts);
    for (int k = s->parts ? 1 : 0; k < 3; k++) /* there is no gate in Nemotron's */
        add_tensor(w, i, names[k], w->expert, k < 2 ? s->hidden : s->expert_ffn, k < 2 ? s->expert_ffn : s->hidden)
            ->experts = s->experts;
    if (corrected(s))
        add_f32(w, i, "exp_probs_b.bias", RANDOM, s->experts, 0);
    if (s->shared) {
        const uint64_t width = (uint64_t)s->shared * s->expert_ffn;
        if (s->recurrent == DELTA)
            add_f32(w, i, "ffn_gate_inp_shexp", RANDOM, s->hidden, 0);
        if (!s->parts)
            add_tensor(w, i, "ffn_gate_shexp", w->type, s->hidden, width);
        add_tensor(w, i, "ffn_up_shexp", w->type, s->hidden, width);
        add_tensor(w, i, "ffn_down_shexp", w->type, width, s->hidden);
    }
    if (strcmp(s->arch, "gpt-oss") != 0)
        return;
    add_f32(w, i, "ffn_gate_inp.bias", RANDOM, s->experts, 0);
    add_f32(w, i, "ffn_gate_exps.bias", RANDOM, s->expert_ffn, s->experts);
    add_f32(w, i, "ffn_up_exps.bias", RANDOM, s->expert_ffn, s->experts);
    add_f32(w, i, "ffn_down_exps.bias", RANDOM, s->hidden, s->experts);
}

static void
add_layer(writer *w, int i)
{
    const shape *s = w->shape;
    const bool is_gemma = strcmp(s->arch, "gemma3") == 0;
    /* The norm before the feed-forward part by the name that Hugging Face gives it. */
    const bool renamed = strcmp(s->arch, "gpt-oss") == 0 || s->recurrent == DELTA;
    add_f32(w, i, "attn_norm", ONES, s->hidden, 0);
    if (s->rank)
        add_latent(w, i);
    else if (i == (int)s->layers || s->beside || attends(s, (uint32_t)i))
        add_attention(w, i);
    else if (!s->parts || s->parts[i] == 'M')
        add_recurrent(w, i);
    if (s->beside)
        add_recurrent(w, i);
    if (is_gemma) {
        add_f32(w, i, "post_attention_norm", ONES, s->hidden, 0);
        add_f32(w, i, "post_ffw_norm", ONES, s->hidden, 0);
    }
    if (s->beside)
        add_bare(w, i, "ffn_norm", ONES, s->hidden, 0);
    else if (s->ffn && !s->parts)
        add_f32(w, i, renamed ? "post_attention_norm" : "ffn_norm", ONES, s->hidden, 0);
    if (i < (int)s->layers && !feeds_forward(s, (uint32_t)i))
        return;
    if (s->experts && i >= (int)s->dense) {
        add_experts(w, i);
    } else {
        if (!s->parts)
            add_tensor(w, i, "ffn_gate", w->type, s->hidden, s->ffn);
        add_tensor(w, i, "ffn_up", w->type, s->hidden, s->ffn);
        add_tensor(w, i, "ffn_down", w->type, s->ffn, s->hidden);
    }
}

static void
add_tensors(writer *w)
{
    const shape *s = w->shape;
    add_tensor(w, -1, "token_embd", w->embedding, s->hidden, s->vocab);
    add_f32(w, -1, s->recurrent == CONV ? "token_embd_norm" : "output_norm", ONES, s->hidden, 0);
    if (!s->tied)
        add_tensor(w, -1, "output", w->embedding, s->hidden, s->vocab);
    for (int i = 0; i < (int)s->layers + s->drafts; i++)
        add_layer(w, i);
    if (!s->drafts)
        return;
    const int last = (int)s->layers;
    add_tensor(w, last, "nextn.eh_proj", w->type, 2 * (uint64_t)s->hidden, s->hidden);
    add_f32(w, last, "nextn.enorm", ONES, s->hidden, 0);
    add_f32(w, last, "nextn.hnorm", ONES, s->hidden, 0);
    add_f32(w, last, "nextn.shared_head_norm", ONES, s->hidden, 0);
}

/* Rows of all experts; a vector is one. */
static uint64_t
tensor_rows(const tensor *t)
{
    return (t->rows ? t->rows : 1) * (t->experts ? t->experts : 1);
}

static uint64_t
tensor_bytes(const tensor *t)
{
    return tensor_rows(t) * (t->cols / t->type->values) * t->type->bytes;
}

static void
put_half(uint8_t *at, double value)
{
    uint16_t h = dop_f32_to_f16((float)value);
    memcpy(at, &h, sizeof h);
}

/* A draw of deviation 1: the bell's are 32768 / sqrt(3), summed over four and divided by four. */
static double
normal(writer *w)
{
    return sqrt(12.0) / 32768 * w->bell[draw(w) % TABLE];
}

/* Decays are -exp() of what was trained: between -0.1 and -8. */
static void
fill_f32(writer *w, const tensor *t, uint8_t *row)
{
    const double scale = t->rows ? 1 / sqrt((double)t->cols) : 0.5;
    for (uint64_t i = 0; i < t->cols; i++) {
        const double x = t->content == ONES ? 1 : t->content == DECAYS ? -exp(normal(w)) : scale * normal(w);
        const float f = (float)x;
        memcpy(row + 4 * i, &f, sizeof f);
    }
}

/* A half in the upper nibbles of four times 16 bits. */
static void
put_nibbles_of_half(uint8_t *p, double v)
{
    uint8_t half[2];
    put_half(half, v);
    for (int i = 0; i < 4; i++)
        p[2 * i + 1] = (uint8_t)((p[2 * i + 1] & 15) | (half[i / 2] >> (i % 2 * 4)) << 4);
}

/* The exponent with which blocks of mxfp4 have the deviation: that of its 16 values is 2.93. */
static uint8_t
mxfp4_exponent(double scale)
{
    return (uint8_t)(127 + lround(log2(scale / 2.93)));
}

/* For row r of the embedding or of the last product: where random numbers begin (0: go on), and what its values are multiplied
 * by. */
static double
begin_row(writer *w, const tensor *t, uint64_t r)
{
    const uint64_t vocab = w->shape->vocab;
    const bool embeds = strcmp(t->name, "token_embd.weight") == 0;
    if (!w->peaked || (!embeds && strcmp(t->name, "output.weight") != 0))
        return 1;
    w->random = (embeds ? r : (r + vocab - STRIDE % vocab) % vocab) << 32;
    const double cosine = fmin(PEAK / sqrt((double)t->cols), 0.9);
    const double gemma =
        strncmp(w->shape->arch, "gemma", 5) == 0 ? sqrt((double)t->cols) : 1; /* it multiplies by that */
    const double added = w->shape->layers * LAYER * (strcmp(w->type->name, "q4_k") == 0 ? Q4_K : 1);
    return embeds ? sqrt((double)t->cols * added / (1 - cosine * cosine)) * cosine / gemma : 1;
}

/* One row: random bits with scales that give a standard deviation of about `by` / sqrt(cols). */
static void
fill_row(writer *w, const tensor *t, double by, uint8_t *row)
{
    const storage *s = t->type;
    double scale = by / sqrt((double)t->cols);
    if (strcmp(s->name, "f32") == 0) {
        fill_f32(w, t, row);
        return;
    }
    if (strcmp(s->name, "f16") == 0) {
        for (uint64_t i = 0; i < t->cols; i++)
            put_half(row + 2 * i, scale * normal(w));
        return;
    }
    uint64_t n = t->cols / s->values;
    for (uint64_t i = 0; i < n * s->bytes; i += 8) {
        uint64_t bits = draw(w), left = n * s->bytes - i;
        memcpy(row + i, &bits, left < 8 ? left : 8);
    }
    for (uint64_t i = 0; i < n; i++) {
        uint8_t *block = row + i * s->bytes;
        if (strcmp(s->name, "mxfp4") == 0)
            block[0] = mxfp4_exponent(scale);
        else if (strcmp(s->name, "nvfp4") ==
                 0) /* 2^-9, the smallest e4m3 number, is about what matrices of models need */
            memset(block, scale > 0.02 ? 2 : 1, 4);
        else if (strcmp(s->name, "iq1_m") == 0)
            put_nibbles_of_half(block + 48, scale / s->deviation);
        else
            put_half(block + s->scale_at, scale / s->deviation);
        if (s->offset_at)
            put_half(block + s->offset_at, scale * s->offset);
        for (int k = 2; w->peaked && strcmp(s->name, "q4_0") == 0 && k < 18;
             k++) /* of -8 .. 7 not -8, because a mean is the same direction for all tokens */
            block[k] |= (uint8_t)((block[k] & 15 ? 0 : 8) | (block[k] >> 4 ? 0 : 0x80));
    }
}

static bool
put_zeros(FILE *f, uint64_t n)
{
    for (; n > 0; n--)
        if (fputc(0, f) == EOF)
            return false;
    return true;
}

static bool
write_header(writer *w)
{
    dop_buf b = {0};
    const uint32_t version = 3;
    const uint64_t n_tensors = w->n_tensors;
    uint64_t offset = 0;
    put_keys(w);
    dop_buf_append(&b, "GGUF", 4);
    dop_buf_append(&b, &version, sizeof version);
    dop_buf_append(&b, &n_tensors, sizeof n_tensors);
    dop_buf_append(&b, &w->n_keys, sizeof w->n_keys);
    dop_buf_append(&b, w->keys.data, w->keys.size);
    for (size_t i = 0; i < w->n_tensors; i++) {
        const tensor *t = &w->tensors[i];
        const uint32_t n_dims = t->experts ? 3 : t->rows ? 2 : 1;
        put_text(&b, t->name);
        dop_buf_append(&b, &n_dims, sizeof n_dims);
        dop_buf_append(&b, &t->cols, sizeof t->cols);
        if (t->rows)
            dop_buf_append(&b, &t->rows, sizeof t->rows);
        if (t->experts)
            dop_buf_append(&b, &t->experts, sizeof t->experts);
        dop_buf_append(&b, &t->type->id, sizeof t->type->id);
        dop_buf_append(&b, &offset, sizeof offset);
        offset += dop_align_u64(tensor_bytes(t), 32);
    }
    buf_align(&b, 32);
    bool ok = !b.failed && !w->keys.failed && fwrite(b.data, 1, b.size, w->f) == b.size;
    dop_buf_finish(&b);
    return ok;
}

static bool
write_weights(writer *w)
{
    for (size_t i = 0; i < TABLE; i++) {
        uint64_t bits = draw(w);
        int32_t sum = 0;
        for (int k = 0; k < 4; k++)
            sum += (int16_t)(uint16_t)(bits >> 16 * k);
        w->bell[i] = (int16_t)(sum / 4);
    }
    bool ok = true;
    for (size_t i = 0; i < w->n_tensors && ok; i++) {
        const tensor *t = &w->tensors[i];
        size_t row_bytes = (size_t)(t->cols / t->type->values * t->type->bytes);
        uint8_t *row = malloc(row_bytes);
        ok = row != NULL;
        for (uint64_t r = 0; r < tensor_rows(t) && ok; r++) {
            fill_row(w, t, begin_row(w, t, r), row);
            ok = fwrite(row, 1, row_bytes, w->f) == row_bytes;
        }
        free(row);
        uint64_t bytes = tensor_bytes(t);
        ok = ok && put_zeros(w->f, dop_align_u64(bytes, 32) - bytes);
    }
    return ok;
}

static bool
leave_hole(writer *w)
{
    off_t size = ftello(w->f);
    for (size_t i = 0; i < w->n_tensors; i++)
        size += (off_t)dop_align_u64(tensor_bytes(&w->tensors[i]), 32);
    return fflush(w->f) == 0 && ftruncate(fileno(w->f), size) == 0;
}

static int
usage(void)
{
    fprintf(stderr, "usage: make_gguf SHAPE[:LAYERS] TYPE OUT.gguf [SEED|empty|peaked]\n"
                    "peaked: one logit of each step far above the others, as in a trained model (for drafts)\ntypes:");
    for (size_t i = 1; i < N_STORAGES; i++)
        fprintf(stderr, " %s", storages[i].name);
    fprintf(stderr, "\nshapes:");
    for (size_t i = 0; i < N_SHAPES; i++)
        fprintf(stderr, " %s", shapes[i].name);
    fprintf(stderr, "\n");
    return 2;
}

int
main(int argc, char **argv)
{
    writer *w = calloc(1, sizeof *w);
    if (!w || argc < 4 || argc > 5) {
        free(w);
        return usage();
    }
    char *layers = strchr(argv[1], ':'), *drafts = strchr(argv[1], '+');
    shape some;
    const bool nextn = drafts && strcmp(drafts, "+nextn") == 0;
    if (nextn)
        *drafts = 0;
    if (layers)
        *layers++ = 0; /* argv is ours to cut */
    for (size_t i = 0; i < N_SHAPES; i++)
        if (strcmp(shapes[i].name, argv[1]) == 0)
            w->shape = &shapes[i];
    if (w->shape && layers) {
        some = *w->shape;
        some.layers = (uint32_t)strtoul(layers, NULL, 10);
        w->shape = some.layers > 0 && some.layers < w->shape->layers ? &some : NULL;
    }
    if (w->shape && nextn) {
        some = *w->shape;
        some.drafts = true;
        w->shape = &some;
    }
    w->type = find_storage(argv[2]);
    if (!w->shape || !w->type || strcmp(argv[2], "f32") == 0) {
        free(w);
        return usage();
    }
    w->expert = w->type;
    if (strcmp(argv[2], "mxfp4") == 0)
        w->type = find_storage("q8_0");
    w->embedding = w->type->values > 1 && strcmp(w->type->name, "q8_0") != 0 ? find_storage("q6_k") : w->type;
    w->random = argc > 4 ? strtoull(argv[4], NULL, 10) : 7; /* 0 for a word */
    w->f = fopen(argv[3], "wbe");
    add_tensors(w);
    w->peaked = argc > 4 && strcmp(argv[4], "peaked") == 0;
    bool empty = argc > 4 && strcmp(argv[4], "empty") == 0;
    bool ok = w->f && write_header(w) && (empty ? leave_hole(w) : write_weights(w));
    if (w->f)
        ok = fclose(w->f) == 0 && ok;
    if (!ok)
        fprintf(stderr, "make_gguf: %s: %s\n", argv[3], strerror(errno));
    dop_buf_finish(&w->keys);
    free(w);
    return ok ? 0 : 1;
}
