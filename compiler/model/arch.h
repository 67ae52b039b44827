/* What the importers fill and the graph builder reads: the facts of an architecture, and where each weight lies.
 * Nothing after the importers knows which format or family a model came from. */
#ifndef DOPPLER_COMPILER_MODEL_ARCH_H
#define DOPPLER_COMPILER_MODEL_ARCH_H

#include "base/arena.h"
#include "base/base.h"
#include "ir/types.h"

/* A normalization over the last axis, times (weight + add), plus bias.  A zeroed struct means that there is no normalization. */
typedef enum dop_norm_kind { DOP_NORM_NONE, DOP_NORM_RMS, DOP_NORM_LAYER } dop_norm_kind;
typedef struct dop_norm {
    dop_norm_kind kind;
    bool bias;  /* LayerNorm: a bias is added */
    bool plain; /* it has no weights */
    double eps; /* added to the mean square or the variance */
    double add; /* added to the weights: 1 where a family publishes them minus 1, else 0 */
} dop_norm;

typedef enum dop_act_kind {
#define ACT(kind, op, names, rdrr) DOP_ACT_##kind,
#include "compiler/model/activations.def"
#undef ACT
} dop_act_kind;

typedef enum dop_rope_scaling {
    DOP_ROPE_PLAIN,
    DOP_ROPE_LINEAR,
    DOP_ROPE_LLAMA3,
    DOP_ROPE_YARN,
    DOP_ROPE_LONGROPE,
    DOP_ROPE_PROPORTIONAL
} dop_rope_scaling;

/* A rotary embedding; several layers share one.  The builder turns it into a table of cosines and sines. */
typedef struct dop_rope {
    double theta;
    uint32_t dims;    /* rotated values of each head, even, at most the head dim */
    uint32_t rotated; /* proportional: how many of dims rotate, even; the others have frequency 0 */
    bool interleaved; /* pairs (2i, 2i+1) instead of (i, i + dims/2) */
    dop_rope_scaling scaling;
    double factor;
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn */
    bool truncate;                            /* yarn: round the correction range to whole dims */
    double attention_factor;                  /* multiplies cosines and sines; 0: the scaling's own default */
    double attention_times;                   /* multiplies cosines and sines besides; 0: 1 */
    double mscale, mscale_all_dim;            /* yarn, DeepSeek */
    uint32_t original_ctx;                    /* positions before scaling */
    uint32_t n_factors;                       /* longrope: dims / 2, or explicit frequency divisors of a GGUF file */
    const double *short_factors, *long_factors;
} dop_rope;

/* What mixes positions. */
typedef enum dop_mixer_kind {
    DOP_MIXER_ATTENTION,
    DOP_MIXER_LATENT, /* attention over a compressed cache */
    DOP_MIXER_CONV,   /* gated short convolution */
    DOP_MIXER_DELTA,  /* gated delta rule */
    DOP_MIXER_SSM     /* state space, Mamba-2 */
} dop_mixer_kind;

/* Keys and values of all heads are computed from `rank` values per row, together with which `rotated` values carry the position
 * of the key.  The cache keeps only these.  A head's query has `plain` values, which meet the key through a matrix of the
 * head, and `rotated` ones. */
typedef struct dop_latent {
    uint32_t rank;   /* 0: attention is not latent */
    uint32_t q_rank; /* queries are computed from this many values; 0: from the layer's input */
    uint32_t plain, rotated, value_dim;
    dop_norm q_norm, norm; /* of the values from which queries are computed, and of those for keys and values */
} dop_latent;

typedef struct dop_attention {
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t window;    /* positions that a query sees, itself included; 0: all before it */
    uint32_t chunk;     /* positions come in chunks of this many, and a query sees only its own chunk; 0: no chunks */
    dop_latent latent;  /* where it is used, n_kv_heads is 1 and head_dim is the length of a query */
    uint32_t value_dim; /* values of a head of v; 0: head_dim */
    int32_t rope;       /* index into dop_arch.ropes; -1: no rotation */
    uint32_t alibi;     /* ALiBi: attribute `alibi` of the op attention; 0: none */
    double clip;        /* results of the q, k and v projections are clamped to -clip .. clip; 0: not clamped */
    dop_norm q_norm, k_norm, v_norm; /* before the rotation; v_norm always goes over each head */
    bool norm_after;                 /* q_norm and k_norm come after the rotation */
    bool norm_rows;                  /* they go over all heads of a row, instead of over each head */
    bool norm_heads;                 /* they go over each head, and every head has weights of its own */
    dop_norm o_norm;                 /* of the result of all heads, before the output projection */
    bool bias_q, bias_k, bias_v, bias_o;
    uint32_t shares;    /* the layer uses the keys and values of layer shares - 1; 0: its own */
    bool k_is_v;        /* values are the result of the projection of keys */
    bool gate;          /* a head's result is multiplied by the sigmoid of a projection of its own */
    bool gate_heads;    /* ... which has one value for each head */
    bool gate_softplus; /* ... and by its softplus instead */
    bool sinks;         /* a learned logit per head that only takes part in the softmax */
    /* Every head's score at a key grows by exp(fade * softplus(product of all values)) of the key's position, a product and a fade
     * for each head of keys (Doge: transformers, modular_doge.py).  The cache keeps it behind the key, four times, because
     * kernels read four values at a time. */
    bool key_bias;
    bool wide; /* it reads the stream beside the model's embedding */
    /* Differential attention: what the second half of the heads gives, times a learned value, is subtracted from what the first
     * half gives, and the difference is normed without weights.  https://arxiv.org/abs/2410.05258 */
    bool differential;
    double scale;   /* factor on q.k, resolved (1/sqrt(head dim) and its variants) */
    double softcap; /* of q.k; 0: none */
    bool both;      /* queries see the positions behind them too; a window is then one on each side */
    bool relative;  /* scores grow by a learned value of the head and of the distance: dop_encoder.relative */
    bool tempered;  /* queries are multiplied by dop_arch.temper at their positions */
} dop_attention;

/* Values of a head of v, and of its result. */
static inline uint32_t
dop_value_dim(const dop_attention *t)
{
    return t->latent.rank ? t->latent.value_dim : t->value_dim ? t->value_dim : t->head_dim;
}

/* Values of all heads that the output projection reads. */
static inline uint32_t
dop_result_dim(const dop_attention *t)
{
    return t->n_heads * dop_value_dim(t) / (t->differential ? 2 : 1);
}

/* Mixers whose memory has the same size for any number of positions: the last inputs of a causal convolution of each channel,
 * and, except for the short convolution, a matrix [head_dim, state_dim] per head (linear_scan of ir/ops.def).
 * Short convolution: out(c * conv(b * x)), b, c and x projections as wide as the model.
 * Mamba-2 and the gated delta rule: one projection and convolution, then SiLU, give values, keys and queries (x, B and C);
 * dt = softplus(projection + bias), decay = exp(-exp(learned) dt), and a gate is a projection of its own. */
typedef struct dop_recurrent {
    uint32_t taps; /* of the convolution, its own position included; 0: the layer has no such mixer */
    bool conv_bias;
    uint32_t n_heads, head_dim;   /* of values; 0: short convolution */
    uint32_t n_groups, state_dim; /* heads of keys and queries, and their values */
    bool in_turn; /* value head h goes with key head h mod n_groups; else with h / (n_heads / n_groups) */
    bool delta;   /* the delta rule: queries and keys have length 1, queries times 1/sqrt(state_dim) */
    /* Mamba's selective scan: the convolution gives values only, from which dt, B and C are computed; a head is one channel, and
     * every column of its state has a learned rate.  In it and with `each` a column decays by itself; the latter is Kimi's delta
     * rule, in which dt has a value for each of a head's columns. */
    bool selective, each;
    uint32_t dt_rank, gate_rank; /* dt, and the gate, are computed through so many values; 0: from the input */
    bool gate_sigmoid;           /* the gate is a sigmoid instead of a SiLU */
    double dt_least;             /* of dt */
    double beta_scale;           /* of the delta rule's beta; 1: none */
    dop_norm dt_norm, key_norm, query_norm; /* selective: of the values behind dt, and of B and C */
    bool skip;                              /* a learned multiple of each head's values is added to its result */
    bool bias_in, bias_out;                 /* of the projections before and behind */
    bool norm_rows;   /* the norm is over all heads, after the gate; else over each head, before it */
    bool norm_groups; /* with norm_rows: over the heads of each of n_groups, apart */
    bool norm_first;  /* with norm_rows: before the gate */
    dop_norm norm;
    double in_scale;             /* of their input, where they have a bias; 1: none */
    double gate_scale, dt_scale; /* of these projections; 1: none */
    double value_scale, key_scale,
        query_scale; /* of the convolution's inputs; 1: none.  Importers multiply its taps by them. */
} dop_recurrent;

typedef struct dop_mixer {
    dop_mixer_kind kind;
    double scale;       /* of its result; 1: none */
    dop_attention attn; /* for attention */
    dop_recurrent rec;  /* for the kinds that keep a state of fixed size */
} dop_mixer;

/* Channels of its convolution; hidden: the width of the model. */
static inline uint32_t
dop_conv_channels(const dop_recurrent *s, uint32_t hidden)
{
    return s->selective ? s->n_heads * s->head_dim
           : s->n_heads ? s->n_heads * s->head_dim + 2 * s->n_groups * s->state_dim
                        : hidden;
}

/* Values of dt, and learned rates of decay. */
static inline uint32_t
dop_scan_steps(const dop_recurrent *s)
{
    return s->each ? s->n_heads * s->state_dim : s->n_heads;
}

static inline uint32_t
dop_scan_rates(const dop_recurrent *s)
{
    return s->selective ? s->n_heads * s->state_dim : s->n_heads;
}

/* The part of a layer that works on each position separately. */
typedef enum dop_ffn_kind {
    DOP_FFN_DENSE,
    DOP_FFN_EXPERTS, /* a mixture of experts */
    DOP_FFN_BOTH,    /* a dense part beside a mixture of experts, added */
    DOP_FFN_NONE     /* the layer is its mixer alone */
} dop_ffn_kind;

/* How a mixture of experts chooses and weighs.  A router scores every expert, `active` of them are chosen for each row, and
 * their results are added, each times its score, which is the softmax or sigmoid of the router's logits.  The choice is made by
 * the scores, plus a learned correction where there is one, and only among the best groups where there are groups. */
typedef enum dop_score_kind {
    DOP_SCORE_SOFTMAX,
    DOP_SCORE_SIGMOID,
    DOP_SCORE_NEAR /* the op near_softmax */
} dop_score_kind;
typedef struct dop_experts {
    uint32_t n, width;                       /* matrices of each kind; hidden values of one expert */
    uint32_t active;                         /* experts of a row */
    uint32_t groups, group_best, group_keep; /* as in the op top_k; 1, 1, 1: no groups */
    dop_score_kind score;
    bool correction;   /* a learned value per expert is added for the choice only */
    bool normalized;   /* weights of a row are divided by their sum */
    double sum_eps;    /* ... plus this */
    double near;       /* of DOP_SCORE_NEAR: eps of the op */
    double scale;      /* of the sum of all chosen experts; 1: none */
    bool scales_input; /* the weight of the only active expert multiplies its input, not its result */
    bool bias;         /* of every expert's matrices */
    bool router_bias;
    bool scaled;          /* the weights are multiplied by a learned value per expert, after normalization */
    dop_norm router_norm; /* the router reads the stream through it; none: it reads what the experts read */
    double router_scale;  /* of the router's logits; 0: none */
    dop_norm norm,
        post_norm; /* before and after the experts beside a dense part; none: they read what the dense part reads */
    uint32_t shared_width; /* hidden values of the shared expert, which works on every row; 0: there is none */
    bool shared_gate;      /* ... times the sigmoid of a product of its own */
} dop_experts;

typedef struct dop_ffn {
    dop_ffn_kind kind;
    uint32_t width;      /* hidden values of the dense part */
    dop_experts experts; /* of a mixture */
    dop_act_kind act;
    bool gated;               /* act(gate) * up; else act(up) alone */
    bool bias;                /* of every matrix */
    double gate_scale, scale; /* of the activation's input, and of the dense part's result; 1: none */
    dop_norm post_dense_norm; /* of the dense part's result beside a mixture, before the sum */
    double sparsity;    /* of the dense part's gate: standard deviations above its mean where it begins; 0: none */
    dop_norm down_norm; /* of what the last matrix of the dense part reads */
} dop_ffn;

/* Whether it has a dense part, and experts. */
static inline bool
dop_ffn_dense(const dop_ffn *f)
{
    return f->kind == DOP_FFN_DENSE || f->kind == DOP_FFN_BOTH;
}

static inline bool
dop_ffn_experts(const dop_ffn *f)
{
    return f->kind == DOP_FFN_EXPERTS || f->kind == DOP_FFN_BOTH;
}

/* Does it have an expert that works on every row? */
static inline bool
dop_ffn_shared(const dop_ffn *f)
{
    return dop_ffn_experts(f) && f->experts.shared_width > 0;
}

/* A block whose weights several layers share (Zamba 2): the layer's attention, which is `wide`, and a gated feed-forward part, to
 * whose first matrices each layer adds a product of its own of low rank.  A product of the layer's own makes of the result what
 * is added to the input of the layer's other mixer, and not to the stream. */
typedef struct dop_side {
    uint32_t width, rank;  /* hidden values, of both; width 0: there is no such block */
    uint32_t index, block; /* which of the layers with such a block this is, and which of the shared blocks it has */
    dop_act_kind act;
    dop_norm norm, ffn_norm; /* before attention, over both halves of its input, and before the feed-forward part */
} dop_side;

enum { DOP_MAX_MIXERS = 2 };

/* A layer adds to the residual stream x the result of its mixers, and then that of its feed-forward part on the
 * sum: x += scale * post(mixer(pre(x))), twice.  Several mixers read the same input and their results are added.  In a
 * parallel layer the feed-forward part instead reads the stream from before the mixers, through its own norm or, where it
 * has none, through the mixers' norm. */
typedef struct dop_layer {
    uint32_t n_mixers;
    dop_mixer mixers[DOP_MAX_MIXERS];
    dop_ffn ffn;
    dop_side side;
    bool residual_weights;              /* the stream is multiplied by learned values before each part is added to it */
    uint32_t laurel;                    /* with dop_arch.altup: rank of a residual block beside attention */
    dop_norm laurel_norm;               /* of its product */
    dop_norm attn_norm, post_attn_norm; /* before the mixers, and on their result */
    dop_norm ffn_norm, post_ffn_norm;   /* the same of the feed-forward part */
    dop_norm attn_sum_norm, ffn_sum_norm; /* of the stream after each part has been added to it */
    dop_norm post_input_norm;             /* on what the layer's own input contributes; dop_layer_inputs */
    bool parallel;
    bool scaled;           /* the stream after the layer is multiplied by a learned value */
    double residual_scale; /* of what is added to the stream; 1: none */
} dop_layer;

/* Limits far above any published model; within them no product of two sizes exceeds 64 bits. */
enum {
    DOP_MAX_ROPES = 4,
    DOP_MAX_END_IDS = 16,
    DOP_MAX_LAYERS = 1024,
    DOP_MAX_WIDTH = 1 << 20,
    DOP_MAX_VOCAB = 1 << 24,
    DOP_MAX_CTX = 1 << 30,
    DOP_MAX_HEADS = 4096,
    DOP_MAX_CHANNELS = 1 << 16, /* of a selective scan */
    DOP_MAX_EXPERTS = 4096,
    DOP_MAX_ACTIVE = 64,
    DOP_MAX_HEAD_DIM = 4096,
    DOP_MAX_TAPS = 16
};

/* Queries are multiplied by 1 + scale * log(1 + floor((position + from) / floor)). */
typedef struct dop_temper {
    double scale, floor; /* floor 0: there is none */
    double from;         /* what is added to the position */
} dop_temper;

/* Per-layer inputs.  Each layer has `width` values per token: those of an embedding for all layers, times `scale`, plus a
 * projection of the model's embedding, times `projected` and normed; the sum is divided by sqrt(2).  After its feed-forward
 * part a layer adds post_input_norm(up(act(gate(x)) * its input)) to the stream x.  Gemma 4: transformers,
 * modeling_gemma4.py, project_per_layer_inputs. */
typedef struct dop_layer_inputs {
    uint32_t width, vocab; /* vocab: rows of their embedding; width 0: there are none */
    double scale, projected;
    dop_norm norm; /* of the projection, over the values of a layer */
} dop_layer_inputs;

/* Alternating updates (Gemma 3n): n streams, of which a layer computes one, `active`, from predictions made of all, and corrects the
 * others by what it has changed. */
typedef struct dop_altup {
    uint32_t n, active; /* n 0: one stream, as in other models */
    bool scales;        /* what layers' own inputs meet is the active stream times learned values */
    dop_norm norm;      /* before the routers */
} dop_altup;
enum { DOP_MAX_STREAMS = 8 };

/* What is added to scores by distance: a value for each head and each of `buckets` distances, half of them before the query and
 * half behind it; near distances have one each, those up to `most` fewer and fewer.  T5: https://arxiv.org/abs/1910.10683 */
typedef struct dop_relative {
    uint32_t buckets, most; /* buckets 0: there is nothing */
} dop_relative;

/* What an encoder makes of the hidden states after the last norm: products one after the other, then one vector or one row of
 * scores for each text. */
typedef struct dop_dense {
    uint32_t width;
    bool bias, active;
    dop_act_kind act;
    dop_norm norm; /* after the activation */
} dop_dense;
enum { DOP_MAX_DENSE = 3 };

/* Which rows of a text become its vector; with the numbers of DOP_POOL_* in runtime/plan/plan_format.h. */
typedef enum dop_pool_kind { DOP_BY_NONE, DOP_BY_CLS, DOP_BY_MEAN, DOP_BY_LAST, DOP_BY_END } dop_pool_kind;

typedef struct dop_encoder {
    bool used;        /* it has no output matrix: its only program is `encode` */
    uint32_t n_types; /* rows have a type (first or second text of a pair), each with an embedding; 0: they have none */
    bool norm_sum;    /* embed_norm is of the sum of all embeddings */
    uint32_t n_dense; /* products after the last norm */
    dop_dense dense[DOP_MAX_DENSE];
    dop_pool_kind pool;
    uint32_t end_id;  /* DOP_BY_END: the token whose first row it is; UINT32_MAX: that of the largest id */
    bool normalized;  /* vectors have length 1 */
    uint32_t classes; /* what it gives are the scores of so many classes; 0: a vector */
    dop_relative relative;
} dop_encoder;

/* Values that the last product before products `i` gives. */
static inline uint32_t
dop_dense_in(const dop_encoder *e, uint32_t hidden, uint32_t i)
{
    return i > 0 && i <= e->n_dense ? e->dense[i - 1].width : hidden;
}

typedef struct dop_arch {
    char family[32]; /* for messages and the model card only */
    uint32_t n_layers, hidden, vocab;
    uint32_t ctx_train; /* positions the model was trained for */
    dop_layer *layers;  /* [n_layers] */
    uint32_t n_ropes;
    dop_rope ropes[DOP_MAX_ROPES];

    dop_layer_inputs inputs;
    dop_altup altup;
    dop_norm embed_norm; /* of the embedding */
    dop_norm final_norm;
    bool head_bias; /* of the output matrix */
    bool learned_positions;
    uint32_t ctx_limit;   /* positions for which these facts hold; 0: any */
    double embed_scale;   /* of the embedding; 1: none */
    double logit_scale;   /* logits are multiplied by it; 1: none */
    double logit_softcap; /* after that; 0: none */
    dop_temper temper;
    dop_encoder encoder;
    bool tied; /* the output matrix is the embedding */

    int64_t bos_id; /* -1: none */
    uint32_t n_end_ids;
    int64_t end_ids[DOP_MAX_END_IDS];
} dop_arch;

/* A matrix of codes, row by row, and a scale for each tile of it (FP8, INT8, packed integers, NVFP4).  Value (row, col) is the code's
 * number times the scale of its tile.  compiler/pack/pack_codes.h makes blocks of it. */
typedef enum dop_code_kind {
    DOP_CODE_E4M3, /* 8 bits, blocks of f8_128 */
    DOP_CODE_INT8, /* 8 bits with a sign, or with 128 added where they are `biased`: q8_0 */
    DOP_CODE_INT4, /* 4 bits less the zero point, the first of eight in the lowest bits of a word: int4 */
    DOP_CODE_E2M1, /* 4 bits, the first of two in the low nibble: nvfp4 */
    DOP_CODE_FLAT, /* dop_flat_parts, instead of codes, scales and tiles: int4 or f16 */
} dop_code_kind;

/* Codes of 4 or 8 bits of a matrix whose values are counted row after row, i = row * columns + column (bitsandbytes, HQQ). */
typedef struct dop_flat_parts {
    const uint8_t *codes;
    uint32_t bits;
    uint64_t group; /* values with one scale, one after the other; or, `strided`, `groups` apart */
    uint64_t groups;
    bool strided;
    /* HQQ: (code - zero) * scale.  Of 4 bits the codes are in halves: those of the second half of the groups (strided: of the second
     * half of every group) in the low nibbles of the first's. */
    const uint8_t *scales, *zeros;
    dop_type scale_type, zero_type;
    /* bitsandbytes: levels[code] times the group's largest, the first of two codes in the high nibble.  The largest ones are f32, or,
     * with nested levels, bytes for which these stand, times `nested` of each nested_group groups, plus an offset. */
    const uint8_t *levels; /* f32 [16]; NULL: HQQ */
    const uint8_t *largest;
    const uint8_t *nested_levels, *nested; /* f32 [256] and f32; NULL: not nested */
    uint64_t nested_group;
    float offset;
} dop_flat_parts;

typedef struct dop_code_parts {
    dop_code_kind kind;
    const dop_flat_parts *flat; /* of DOP_CODE_FLAT */
    bool biased;
    const uint8_t *codes;
    uint64_t row_bytes;                   /* of codes */
    const uint8_t *scales;                /* one for each tile, row of tiles by row of tiles */
    dop_type scale_type;                  /* f16, bf16 or f32; none: e4m3, without a sign */
    uint32_t tile_rows, tile_cols, tiles; /* size of a tile; tiles in a row of them */
    const uint8_t *zeros;                 /* int4: words of eight rows [rows / 8, tiles]; NULL: every zero point is 8 */
    uint32_t zero_words;                  /* of a row: words of eight tiles instead [rows, zero_words]; 0: not so */
    float factor;                         /* int8, nvfp4: what all scales are multiplied by */
    uint64_t first, block,
        block_step; /* row r is first + r, or with blocks of rows first + r / block * block_step + r % block */
} dop_code_parts;

/* A matrix of 4-bit integers whose words, scales and zero points a file stores separately (AWQ, GPTQ), each with the outputs
 * along its last axis.  Value (row, col) is scale * (integer - zero), both of group col / group and output first + row.
 * compiler/pack/pack_rows.h makes blocks of it. */
typedef struct dop_int4_parts {
    const dop_code_parts *codes; /* instead of everything else; NULL: none */
    /* Microscaling (mxfp4) instead of integers: words holds 16 bytes for 32 inputs, the first of two in the low nibble, and
     * scales an exponent byte for each 32; both output by output.  Of the other fields only `first` and `step` are used. */
    bool microscaling;
    uint32_t step;         /* outputs from one row to the next; 0: 1 */
    const uint8_t *words;  /* 32 bits, eight integers: by_output [inputs, outputs / 8], else [inputs / 8, outputs] */
    const uint8_t *zeros;  /* 32 bits, eight outputs [groups, outputs / 8]; NULL: every zero point is 8 */
    const uint8_t *scales; /* [groups, outputs] */
    dop_type scale_type;   /* f16, bf16 or f32; every value fits f16 */
    /* A word has eight outputs of one input, in the order 0 2 4 6 1 3 5 7, as words of zeros have; else all values are in order. */
    bool by_output;
    uint32_t zero_add; /* added to a stored zero point, modulo 16 */
    uint32_t
        bits; /* of an integer: 2, 3, 4 or 8, one after the other where they are no divisor of 32; 0: 4.  Unless 4, in order */
    const uint8_t *order; /* 32 bits: the group of each input; NULL: input / group */
    uint32_t group;       /* inputs per scale: a multiple of the block of the weight's type */
    uint64_t outputs;     /* of the stored tensors */
    uint64_t first;       /* the output that is row 0 */
} dop_int4_parts;

/* A weight: a vector, a matrix, or a matrix for each expert, somewhere in a mapped file.  Experts lie expert_stride bytes
 * apart in one tensor, or are tensors of their own (`each`).  Code that works on matrices gets them from
 * dop_weight_expert(). */
typedef struct dop_weight {
    const char *name; /* canonical, see below; in the arena */
    dop_type type;
    uint32_t rank;    /* 1, 2, or 3: a matrix for each expert */
    uint32_t experts; /* of rank 3: its first axis; else 0 */
    uint32_t rows;    /* 1 for a vector */
    uint32_t cols;    /* along which a matmul sums; the length of a vector */
    const uint8_t *data;
    uint64_t row_stride; /* bytes from row to row */
    uint32_t block_rows; /* rows come in blocks of this many, which lie block_stride bytes apart; 0: no blocks */
    uint64_t block_stride;
    uint64_t col_stride; /* bytes from value to value (Conv1D is transposed); 0: dense, the only choice for blocks */
    const char *source;  /* the tensor's name in the model, for messages */
    /* What llama.cpp calls the tensor, and what where q, k and v are one; NULL: it has no such tensor.  Of weights of a checkpoint. */
    const char *gguf, *gguf_fused;
    const dop_int4_parts
        *parts; /* a matrix of codes in separate parts, instead of data and strides; NULL: none; in the arena */
    uint64_t expert_stride; /* of rank 3: bytes from expert to expert */
    /* Of nvfp4: f32 of each matrix, by which its values are multiplied, not necessarily aligned; NULL: they are as they are. */
    const uint8_t *factors;
    /* Of rank 3: [experts] of rank 2, instead of data, strides and parts; NULL: one tensor has all experts; in the arena. */
    const struct dop_weight *each;
    /* Of rank 2: the matrix that has the rows from own_rows on, and may itself continue in another; NULL: all rows are where
     * data and strides say; in the arena.  It has the same type and column stride; `rows` counts its rows too. */
    const struct dop_weight *below;
    uint32_t own_rows; /* 0 without `below` */
} dop_weight;

/* Names and shapes of all weights: weights.def. */
typedef struct dop_weights {
    uint32_t n, cap;
    dop_weight *items; /* sorted by name after dop_weights_seal() */
    dop_map *maps;     /* files that data points into */
    uint32_t n_maps, cap_maps;
} dop_weights;

/* One dispatch of the kernel path that an RDRR manifest states. */
typedef struct dop_path_step {
    const char *phase;               /* "decode", "prefill", "both" */
    int32_t layer;                   /* -1: every layer, or outside of them */
    const char *op, *kernel, *entry; /* as the manifest spells them: "q_proj", "matmul_gemv_subgroup.wgsl", "main" */
} dop_path_step;

typedef struct dop_checkpoint {
    dop_arena *arena;
    dop_arch arch;
    dop_weights weights;
    /* Facts of its vision part (vision.h), whose weights are among the others; NULL: it has none.  In the arena. */
    const struct dop_vision *vision;
    /* Tokenizer and chat template, as found; NULL / empty when absent.  Paths are for messages. */
    char *tokenizer_json_path;
    char *tokenizer_gguf_path; /* a GGUF file with its vocabulary inside (dop_tokenizer_from_gguf) */
    char *chat_template;
    char *chat_type; /* RDRR names the template instead of giving it: "gemma", "llama3", "chatml", "qwen", ... */
    char *name;      /* for the card: the model's own name, else family and size; never a path or a part of one */
    double temperature, top_p, min_p; /* the model's own sampling defaults; temperature < 0: not stated (greedy) */
    uint32_t top_k;
    char *note; /* one line that the user should see ("not verified: ..."); NULL: none */
    /* The kernel path of an RDRR manifest: storage types (none: not stated), a name, or dispatches one by one. */
    dop_type path_act, path_kv;
    char *path_name;
    dop_path_step *path;
    uint32_t n_path;
} dop_checkpoint;

/* Loads MODEL (directory or file; format detected by content).  Tensors stay mapped until dop_checkpoint_finish().
 * Errors name the file and, where there is one, the field or tensor. */
dop_status dop_checkpoint_load(const char *path, dop_arena *arena, dop_diag *diag, dop_checkpoint *out_model);
void dop_checkpoint_finish(dop_checkpoint *m); /* accepts a zeroed one */

/* Matrices of a weight; a vector counts as one. */
static inline uint32_t
dop_weight_experts(const dop_weight *w)
{
    return w->rank == 3 ? w->experts : 1;
}

/* The matrix of an expert, below dop_weight_experts(), as a weight of rank 2; a weight of lower rank is its own. */
dop_weight dop_weight_expert(const dop_weight *w, uint32_t expert);

/* Where a row of a weight without parts begins; not of rank 3. */
static inline const uint8_t *
dop_weight_at(const dop_weight *w, uint32_t row)
{
    for (; w->below && row >= w->own_rows; w = w->below)
        row -= w->own_rows;
    if (w->block_rows)
        return w->data + row / w->block_rows * w->block_stride + row % w->block_rows * w->row_stride;
    return w->data + row * w->row_stride;
}

dop_status dop_weights_add(dop_weights *w, const dop_weight *item, dop_arena *arena, dop_diag *diag);
/* Adds maps to those of w, which then owns them; the list itself, made by malloc, is released. */
dop_status dop_weights_keep(dop_weights *w, dop_map *maps, uint32_t n, dop_diag *diag);
dop_status dop_weights_seal(dop_weights *w, dop_diag *diag); /* sorts; error on a duplicate name */
const dop_weight *dop_weights_find(const dop_weights *w, const char *name);

/* The role of a weight; the rows of weights.def.  A norm has two. */
typedef enum dop_role {
    DOP_W_none,
#define MATRIX(scope, role, ...) DOP_W_##role,
#define EXPERTS(scope, role, ...) DOP_W_##role,
#define BIAS(scope, role, ...) DOP_W_##role##_bias,
#define EXPERT_BIAS(scope, role, ...) DOP_W_##role##_bias,
#define VECTOR(scope, role, ...) DOP_W_##role,
#define NORM(scope, role, ...) DOP_W_##role, DOP_W_##role##_bias,
#include "compiler/model/weights.def"
    DOP_N_ROLES
} dop_role;

/* A weight that the facts call for. */
typedef struct dop_weight_need {
    char name[32]; /* canonical: "embed", "L3.q" */
    dop_role role;
    int32_t layer;                      /* -1: none */
    uint32_t rank, experts, rows, cols; /* as in dop_weight */
    bool vectors;                       /* of rank 2: a vector for each expert, not a matrix */
} dop_weight_need;

/* "q" */
const char *dop_role_name(dop_role role);
/* Of a matrix: the role of its bias, if it can have one; else none. */
dop_role dop_role_bias(dop_role role);
/* Whether the facts call for this role in this layer (-1: outside), and what it must then be. */
bool dop_arch_weight(const dop_arch *a, int32_t layer, dop_role role, dop_weight_need *out_need);
/* The norm of a role that weights.def has as one; of kind none where the facts have none. */
dop_norm dop_arch_norm(const dop_arch *a, int32_t layer, dop_role role);
/* Calls fn for every weight that the facts call for, in the order of weights.def; stops at the first failure.  `need` is valid
 * only during the call. */
typedef dop_status dop_weight_need_fn(void *user, const dop_weight_need *need);
dop_status dop_arch_each_weight(const dop_arch *a, dop_weight_need_fn *fn, void *user);

/* The attention among the mixers of a layer, and the mixer with a state of fixed size; NULL: none. */
const dop_attention *dop_layer_attention(const dop_layer *y);
const dop_recurrent *dop_layer_recurrent(const dop_layer *y);

/* Checks the facts alone (zero heads, absurd sizes, hidden not divisible, ...), for every importer. */
dop_status dop_arch_check(const dop_arch *a, const char *path, dop_diag *diag);
/* Checks that every weight the facts call for exists with the right shape, and that no float tensor exceeds its file. */
dop_status dop_arch_check_weights(const dop_arch *a, const dop_weights *w, const char *path, dop_diag *diag);

#endif
