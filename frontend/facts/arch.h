/* Architecture facts and weights of a model: filled by the importers, read by the graph builder. Code after the importers does
 * not depend on the file format or the model family. */
#ifndef DOPPLER_FRONTEND_FACTS_ARCH_H
#define DOPPLER_FRONTEND_FACTS_ARCH_H

#include "base/arena.h"
#include "base/base.h"
#include "base/storage/types.h"

/* Normalization over the last axis: norm(x) * (weight + add) + bias. A zeroed struct means no normalization. */
typedef enum dop_norm_kind { DOP_NORM_NONE, DOP_NORM_RMS, DOP_NORM_LAYER } dop_norm_kind;
typedef struct dop_norm {
    dop_norm_kind kind;
    bool bias;  /* LayerNorm: has a bias */
    bool plain; /* has no weights */
    double eps; /* added to the mean square or the variance */
    double add; /* constant added to the weights: 1 where checkpoints store weight - 1, otherwise 0 */
} dop_norm;

typedef enum dop_act_kind {
#define ACT(kind, op, names, rdrr) DOP_ACT_##kind,
#include "frontend/facts/activations.def"
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

/* Rotary position embedding (RoPE). Several layers may share one. The builder turns it into a table of cosines and
 * sines. */
typedef struct dop_rope {
    double theta;
    uint32_t dims;    /* rotated values per head: even, at most head_dim */
    uint32_t rotated; /* proportional scaling: how many of `dims` rotate (even); the rest has frequency 0 */
    uint32_t first;   /* position offset: row 0 rotates as position `first` */
    bool interleaved; /* rotates pairs (2i, 2i+1) instead of (i, i + dims/2) */
    /* Multimodal RoPE (https://arxiv.org/abs/2409.12191): a row has a time, a picture row and a picture column position.
     * sections: number of the dims / 2 pairs that rotate by each; all 0: one position per row. sections_mixed: row and column
     * pairs are every third pair, starting at pairs 1 and 2; otherwise they follow the time pairs. */
    uint32_t sections[3];
    bool sections_mixed;
    dop_rope_scaling scaling;
    double factor;
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn */
    bool truncate;                            /* yarn: the correction range is rounded to whole dims */
    double attention_factor;                  /* factor on cosines and sines; 0: default of the scaling type */
    double attention_times;                   /* additional factor on cosines and sines; 0: none */
    double mscale, mscale_all_dim;            /* yarn: DeepSeek's attention factors */
    uint32_t original_ctx;                    /* context length before scaling, in positions */
    uint32_t n_factors; /* length of each factor list: dims / 2 (longrope), or a GGUF file's number of divisors */
    const double *short_factors, *long_factors;
} dop_rope;

static inline bool
dop_rope_sectioned(const dop_rope *r)
{
    return r->sections[0] + r->sections[1] + r->sections[2] > 0;
}

/* Token mixer: the part of a layer that combines rows of different positions. */
typedef enum dop_mixer_kind {
    DOP_MIXER_ATTENTION,
    DOP_MIXER_LATENT, /* multi-head latent attention (MLA) */
    DOP_MIXER_CONV,   /* gated short convolution */
    DOP_MIXER_DELTA,  /* gated delta rule */
    DOP_MIXER_SSM     /* state space, Mamba-2 */
} dop_mixer_kind;

/* Latent attention (MLA: https://arxiv.org/abs/2405.04434). Keys and values of all heads are computed from `rank` latent values
 * per row. Another `rotated` values per row carry the key's position. The cache holds only the latent and rotated values. A query
 * head has `plain` values, which a matrix of the head projects to the latent space, and `rotated` values. */
typedef struct dop_latent {
    uint32_t rank;                      /* latent values per row; 0: attention is not latent */
    uint32_t q_rank;                    /* length of the low-rank query vector; 0: projected from the input */
    uint32_t plain, rotated, value_dim; /* values per head: query without rotation, query with rotation, v */
    dop_norm q_norm, norm;              /* norms of the low-rank query vector and of the latent values */
} dop_latent;

/* Sparse attention (https://arxiv.org/abs/2512.02556): a row attends only to the `top` positions that an index scores highest
 * (ops index_scores and top_positions). The index has several query heads and one key head; its keys have a cache of their
 * own. */
typedef struct dop_indexer {
    uint32_t top;               /* number of attended positions; 0: all */
    uint32_t n_heads, head_dim; /* n_heads 0: reuses the positions of the last layer with index heads */
    bool interleaved;           /* the index rotates pairs (2i, 2i+1), independent of the attention's pairing */
    dop_norm norm;              /* norm of the index keys */
} dop_indexer;

typedef struct dop_attention {
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t window;    /* sliding window in positions, including the query's own; 0: none */
    uint32_t chunk;     /* chunked attention: a query attends only within its chunk of this many positions; 0: none */
    dop_latent latent;  /* latent attention; if used, n_kv_heads is 1 and head_dim is the query length */
    uint32_t value_dim; /* values of a v head; 0: head_dim */
    int32_t rope;       /* index into dop_arch.ropes; -1: no rotation */
    uint32_t alibi;     /* ALiBi: attribute `alibi` of op attention; 0: none */
    bool alibi_scaled;  /* ALiBi slopes are divided by sqrt(head_dim), as scores are */
    double clip;        /* results of the q, k and v projections are clamped to [-clip, clip]; 0: not clamped */
    dop_norm q_norm, k_norm, v_norm; /* q and k: before the rotation unless norm_after; v: per head */
    bool norm_after;                 /* q_norm and k_norm are applied after the rotation */
    bool norm_rows;                  /* q_norm and k_norm normalize all heads of a row together instead of each head */
    bool norm_heads;                 /* q_norm and k_norm normalize each head, with separate weights per head */
    dop_norm o_norm;                 /* norm of the concatenated head results, before the output projection */
    bool bias_q, bias_k, bias_v, bias_o;
    uint32_t shares;    /* 1 + number of the layer whose keys and values this layer uses; 0: its own */
    bool k_is_v;        /* values are the result of the key projection */
    bool gate;          /* head results are multiplied by the sigmoid of a projection of the layer's input */
    bool gate_heads;    /* with gate: one gate value per head instead of one per result value */
    bool gate_softplus; /* with gate: softplus instead of sigmoid */
    bool sinks;         /* attention sinks: a learned logit per head that takes part in the softmax only */
    /* Doge (transformers, modular_doge.py): adds the bias exp(fade * softplus(w * v)) to the score of a key. v: values of all v
     * heads at the key's position; w and fade: learned, a row and a number per KV head. The cache stores the bias after the key,
     * repeated four times because kernels read four values at a time. */
    bool key_bias;
    uint32_t adapter; /* rank of the low-rank projections added to q, k and v; 0: none */
    bool wide;        /* the input is the residual stream concatenated with the model's embedding */
    /* Differential attention (https://arxiv.org/abs/2410.05258): the second half of the heads' results, times a learned factor,
     * is subtracted from the first half. The difference is normalized without weights. */
    bool differential;
    double scale;      /* factor on q.k, resolved: 1/sqrt(head_dim) or a variant of it */
    double softcap;    /* cap on scaled q.k: softcap * tanh(x / softcap); 0: none */
    bool both;         /* bidirectional: queries also attend to later positions, and a window extends to both sides */
    bool relative;     /* a learned bias per head and distance is added to scores: dop_encoder.relative */
    dop_indexer index; /* with latent: selects the attended positions */
    bool tempered;     /* queries are scaled by dop_arch.temper at their position */
} dop_attention;

/* Returns the number of values of a v head, which is also the length of a head's result. */
static inline uint32_t
dop_value_dim(const dop_attention *t)
{
    return t->latent.rank ? t->latent.value_dim : t->value_dim ? t->value_dim : t->head_dim;
}

/* Returns the total length of the head results that the output projection reads. */
static inline uint32_t
dop_result_dim(const dop_attention *t)
{
    return t->n_heads * dop_value_dim(t) / (t->differential ? 2 : 1);
}

/* Recurrent mixers: their state has a fixed size for any number of positions. It holds the last inputs of a causal convolution
 * per channel. Except for the short convolution, it also holds a matrix [head_dim, state_dim] per head (linear_scan of
 * ir/ops.def). Short convolution: out(c * conv(b * x)), where b, c and x are projections as wide as the model. Mamba-2 and gated
 * delta rule: one projection, a convolution and SiLU produce values, keys and queries (x, B and C). dt = softplus(projection +
 * bias), decay = exp(-exp(learned) * dt); the gate is a separate projection. */
typedef struct dop_recurrent {
    uint32_t taps; /* positions that the convolution reads, including its own; 0: the layer has no recurrent mixer */
    bool conv_bias;
    uint32_t n_heads, head_dim;   /* number of value heads, and values per head; n_heads 0: short convolution */
    uint32_t n_groups, state_dim; /* number of key (and query) heads, and values per head */
    bool in_turn;                 /* value head h uses key head h % n_groups; otherwise h / (n_heads / n_groups) */
    bool delta; /* delta rule: keys and queries are scaled to length 1, then queries by 1/sqrt(state_dim) */
    /* selective: Mamba's selective scan. The convolution produces values only; dt, B and C are computed from them. A head is one
     * channel, and each column of its state has a learned decay rate. each: Kimi's delta rule, with a dt per state column of a
     * head. With either, every column decays separately. */
    bool selective, each;
    uint32_t dt_rank, gate_rank;            /* ranks of the low-rank projections to dt and to the gate; 0: full rank */
    bool gate_sigmoid;                      /* the gate is a sigmoid instead of SiLU */
    double dt_least;                        /* lower bound of dt */
    double beta_scale;                      /* factor on beta of the delta rule; 1: none */
    dop_norm dt_norm, key_norm, query_norm; /* selective: norms of the low-rank dt values, of B and of C */
    bool skip;              /* skip connection: a learned multiple of each head's values is added to its result */
    bool bias_in, bias_out; /* the input and output projections have a bias */
    bool norm_rows;   /* `norm` normalizes all heads together, after the gate; otherwise each head, before the gate */
    bool norm_groups; /* with norm_rows: `norm` normalizes each of the n_groups groups of heads separately */
    bool norm_first;  /* with norm_rows: `norm` is applied before the gate */
    dop_norm norm;
    double in_scale;             /* factor on the input of projections that have a bias; 1: none */
    double gate_scale, dt_scale; /* factors on the gate and dt projections; 1: none */
    double value_scale, key_scale,
        query_scale; /* factors on the convolution's inputs; importers fold them into the taps; 1: none */
} dop_recurrent;

typedef struct dop_mixer {
    dop_mixer_kind kind;
    double scale;       /* factor on the mixer's result; 1: none */
    dop_attention attn; /* for DOP_MIXER_ATTENTION and DOP_MIXER_LATENT */
    dop_recurrent rec;  /* for the other kinds */
} dop_mixer;

/* Returns the number of channels of a recurrent mixer's convolution. hidden: width of the model. */
static inline uint32_t
dop_conv_channels(const dop_recurrent *s, uint32_t hidden)
{
    return s->selective ? s->n_heads * s->head_dim
           : s->n_heads ? s->n_heads * s->head_dim + 2 * s->n_groups * s->state_dim
                        : hidden;
}

/* Returns the number of dt values per row. dop_scan_rates() returns the number of learned decay rates. */
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

/* Feed-forward part: the part of a layer that works on each row separately. */
typedef enum dop_ffn_kind {
    DOP_FFN_DENSE,
    DOP_FFN_EXPERTS, /* a mixture of experts */
    DOP_FFN_BOTH,    /* a dense part and a mixture of experts, whose results are added */
    DOP_FFN_NONE     /* the layer has a mixer only */
} dop_ffn_kind;

/* Mixture of experts. The router scores every expert by the softmax or sigmoid of its logits. For each row the `active` best
 * experts are chosen, and their results are added, weighted by score. The choice uses the scores plus an optional learned
 * correction. With groups, only experts of the best groups can be chosen. */
typedef enum dop_score_kind {
    DOP_SCORE_SOFTMAX,
    DOP_SCORE_SIGMOID,
    DOP_SCORE_NEAR /* op near_softmax */
} dop_score_kind;
typedef struct dop_experts {
    uint32_t n, width;                       /* number of experts; hidden width of one expert */
    uint32_t active;                         /* experts chosen per row */
    uint32_t groups, group_best, group_keep; /* expert groups, as in op top_k; 1, 1, 1: none */
    dop_score_kind score;
    bool correction;   /* a learned value per expert is added to the scores for the choice only */
    bool normalized;   /* the weights of a row's chosen experts are divided by their sum */
    double sum_eps;    /* with normalized: added to the sum that divides the weights */
    double near;       /* DOP_SCORE_NEAR: eps of op near_softmax */
    double scale;      /* factor on the sum of the chosen experts' results; 1: none */
    bool scales_input; /* the weight of the only active expert multiplies the expert's input instead of its result */
    bool bias;         /* the matrices of every expert have biases */
    bool router_bias;
    bool scaled;          /* weights are multiplied by a learned value per expert, after normalization */
    dop_norm router_norm; /* norm of the router's input; none: the router reads the experts' input */
    double router_scale;  /* factor on the router's logits; 0: none */
    dop_norm norm,
        /* DOP_FFN_BOTH: norms of the experts' input and result; no `norm`: they read the dense part's input */
        post_norm;
    uint32_t shared_width; /* hidden width of the shared expert, which processes every row; 0: none */
    bool shared_gate;      /* the shared expert's result is multiplied by the sigmoid of a projection */
} dop_experts;

typedef struct dop_ffn {
    dop_ffn_kind kind;
    uint32_t width;      /* hidden width of the dense part */
    dop_experts experts; /* for DOP_FFN_EXPERTS and DOP_FFN_BOTH */
    dop_act_kind act;
    bool gated;               /* act(gate) * up; otherwise act(up) */
    bool bias;                /* all matrices of the dense part have biases */
    bool bias_down;           /* the down projection of the dense part has a bias, independent of `bias` */
    double gate_scale, scale; /* factors on the activation's input and on the dense part's result; 1: none */
    dop_norm post_dense_norm; /* DOP_FFN_BOTH: norm of the dense part's result, before the experts' result is added */
    double sparsity; /* the dense part's gate becomes relu(gate - mean - sparsity * standard deviation); 0: unchanged */
    dop_norm down_norm; /* norm of the input of the dense part's down projection */
} dop_ffn;

/* True if a feed-forward part has a dense part. */
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

/* True if a feed-forward part has a shared expert. */
static inline bool
dop_ffn_shared(const dop_ffn *f)
{
    return dop_ffn_experts(f) && f->experts.shared_width > 0;
}

/* Zamba 2's shared block: attention (`wide`) and a gated feed-forward part whose weights several layers share. Each layer has its
 * own adapters of rank `rank` on gate and up. The layer projects the block's result and adds it to the input of its other mixer
 * instead of to the residual stream. */
typedef struct dop_side {
    uint32_t width, rank;  /* hidden width of the feed-forward part (0: no shared block); adapter rank */
    uint32_t index, block; /* number of this layer among the layers with a shared block; number of its shared block */
    dop_act_kind act;
    dop_norm norm, ffn_norm; /* norm before attention, over stream and embedding; norm before the feed-forward part */
} dop_side;

/* EAGLE-3 drafter (https://arxiv.org/abs/2503.01840), published as a checkpoint of its own. Its hidden state is projected from
 * the concatenated residual streams before several of the model's layers. Its attention is `wide`: the input is the normalized
 * embedding of the next token concatenated with the normalized hidden state. Its residual stream starts as the hidden state. Its
 * result is the hidden state for the next drafted token. */
enum { DOP_MAX_JOINED = 8 };
typedef struct dop_eagle {
    uint32_t vocab; /* number of draft tokens (reduced vocabulary); 0: the layer is not an EAGLE drafter */
    uint32_t n, from[DOP_MAX_JOINED]; /* layers whose input streams are read; n_layers: the last layer's result */
    bool defaults;             /* `from` is not stated in the checkpoint: layers 2, n_layers / 2 and n_layers - 3 */
    bool residual_normed;      /* the residual stream starts as the normalized hidden state */
    bool embeds, head, listed; /* has its own embedding; output matrix; list of draft token ids */
    dop_norm each_norm, norm;  /* norm of each stream (separate weights); norm of the concatenated streams */
} dop_eagle;

/* Drafter of several layers without a cache of its own: its layers attend to the cached keys and values of the model's layers
 * (dop_attention.shares). A sequence has one row, the last. The residual stream starts as a projection of the model's embedding
 * of the next token, concatenated with the hidden state. Another projection of the result gives the hidden state of the next
 * drafted token. All tokens drafted from one hidden state attend to the same positions, and their queries rotate as the next
 * token's position. Gemma 4's assistant: transformers, modeling_gemma4_assistant.py and
 * SinglePositionMultiTokenCandidateGenerator. */
typedef struct dop_sharer {
    uint32_t hidden;     /* width of the drafter's residual stream; 0: the layer is not of this kind */
    bool enters, leaves; /* first layer; last layer, which is followed by a norm and an output matrix */
} dop_sharer;

enum { DOP_MAX_MIXERS = 2 };

/* A layer updates the residual stream x twice, for the mixers and for the feed-forward part: x += scale * post(part(pre(x))).
 * Several mixers read the same input, and their results are added. In a parallel layer the feed-forward part reads the stream
 * from before the mixers. It is normalized by its own norm or, if it has none, by the mixers' norm. */
typedef struct dop_layer {
    uint32_t n_mixers;
    dop_mixer mixers[DOP_MAX_MIXERS];
    dop_ffn ffn;
    dop_side side;
    bool residual_weights;                /* the stream is multiplied by learned values before each result is added */
    uint32_t laurel;                      /* with dop_arch.altup: rank of the LAuReL block, parallel to attention */
    dop_norm laurel_norm;                 /* norm of the LAuReL block's result */
    dop_norm attn_norm, post_attn_norm;   /* norms of the mixers' input and of their result */
    dop_norm ffn_norm, post_ffn_norm;     /* norms of the feed-forward part's input and result */
    dop_norm attn_sum_norm, ffn_sum_norm; /* norms of the stream after each of the two additions */
    dop_norm post_input_norm;             /* norm of the contribution of the per-layer input (dop_layer_inputs) */
    bool parallel;
    bool control;          /* a control vector is added to the stream after the layer */
    bool scaled;           /* the stream after the layer is multiplied by a learned value */
    double residual_scale; /* factor on each result added to the stream; 1: none */
    dop_norm draft_embed_norm, draft_hidden_norm, draft_norm; /* norms of a drafting layer (dop_arch.drafts) */
    dop_eagle eagle;
    dop_sharer reader;
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
    DOP_MAX_CHANNELS = 1 << 16, /* channels of a selective scan */
    DOP_MAX_EXPERTS = 4096,
    DOP_MAX_ACTIVE = 64,
    DOP_MAX_HEAD_DIM = 4096,
    DOP_MAX_TAPS = 16,
    DOP_MAX_AUDIO_ROWS = 4096, /* rows of an audio chunk (two frames each); one step processes all of them */
    DOP_MAX_AUDIO_BINS = 1024
};

/* Attention temperature at far positions (Llama 4): queries are multiplied by 1 + scale * log(1 + floor((position + from) /
 * floor)). */
typedef struct dop_temper {
    double scale, floor; /* floor 0: none */
    double from;         /* offset added to the position */
} dop_temper;

/* Per-layer inputs (Gemma 4: transformers, modeling_gemma4.py, project_per_layer_inputs). Each layer has an input of `width`
 * values per token: (scale * second embedding + norm(projected * projection of the model's embedding)) / sqrt(2). After its
 * feed-forward part a layer adds post_input_norm(up(act(gate(x)) * input)) to the stream x. */
typedef struct dop_layer_inputs {
    uint32_t width, vocab; /* width 0: no per-layer inputs; vocab: rows of the second embedding */
    double scale, projected;
    dop_norm norm; /* norm of the projection, over the values of one layer */
} dop_layer_inputs;

/* Alternating updates (AltUp, Gemma 3n): n parallel residual streams. A layer predicts all streams, computes only stream
 * `active`, and corrects each prediction by the error on the computed one. */
typedef struct dop_altup {
    uint32_t n, active; /* n 0: a single residual stream */
    bool scales;        /* the gate of per-layer inputs is the active stream times learned values */
    dop_norm norm;      /* norm of the routers' input */
} dop_altup;
enum { DOP_MAX_STREAMS = 8 };

/* T5's relative position bias (https://arxiv.org/abs/1910.10683): a learned bias per head and distance bucket is added to
 * attention scores. Half of the buckets are for keys before the query, half for keys after it. Near distances have a bucket each;
 * buckets widen logarithmically up to distance `most`. */
typedef struct dop_relative {
    uint32_t buckets, most; /* number of buckets (0: no bias); distance at which buckets stop widening */
} dop_relative;

/* Dense layer of an encoder's head. After the final norm, dop_encoder.n_dense of these produce one vector or one row of class
 * scores per text. */
typedef struct dop_dense {
    uint32_t width;    /* length of the layer's result */
    bool bias, active; /* active: activation `act` follows the product */
    dop_act_kind act;
    dop_norm norm; /* norm after the activation */
} dop_dense;
enum { DOP_MAX_DENSE = 3 };

/* Pooling: how the rows of a text become its vector. Values equal DOP_POOL_* of plan/plan_format.h. */
typedef enum dop_pool_kind { DOP_BY_NONE, DOP_BY_CLS, DOP_BY_MEAN, DOP_BY_LAST, DOP_BY_END } dop_pool_kind;

typedef struct dop_encoder {
    bool used;        /* the model is an encoder: no output matrix, and `encode` is its only program */
    uint32_t n_types; /* number of token types (segments of a text pair), each with an embedding; 0: none */
    bool norm_sum;    /* dop_arch.embed_norm normalizes the sum of token, position and type embeddings */
    uint32_t n_dense; /* number of dense layers after the final norm */
    dop_dense dense[DOP_MAX_DENSE];
    dop_pool_kind pool;
    uint32_t end_id;  /* DOP_BY_END: pools the first row with this token id; UINT32_MAX: the row with the largest id */
    bool normalized;  /* vectors are scaled to length 1 */
    uint32_t classes; /* number of class scores; 0: the encoder returns a vector */
    dop_relative relative;
} dop_encoder;

/* Returns the input width of dense layer `i` of an encoder. */
static inline uint32_t
dop_dense_in(const dop_encoder *e, uint32_t hidden, uint32_t i)
{
    return i > 0 && i <= e->n_dense ? e->dense[i - 1].width : hidden;
}

/* Cross-attention (Whisper: https://arxiv.org/abs/2212.04356). After self-attention, every layer attends to the rows of an
 * encoder. Another program of the plan computes the keys and values of these rows once per input. */
typedef struct dop_cross {
    uint32_t rows;  /* encoder rows; 0: no cross-attention */
    uint32_t width; /* length of an encoder row */
    dop_norm norm;  /* norm of the stream before cross-attention */
} dop_cross;

typedef struct dop_arch {
    char family[32]; /* for messages and the model card only */
    uint32_t n_layers, hidden, vocab;
    uint32_t ctx_train; /* context length in training, in positions */
    dop_layer *layers;  /* [n_layers + drafts] */
    /* Multi-token prediction (https://arxiv.org/abs/2412.19437, section 2.2): layer n_layers drafts the token after the next one.
     * Its input is a projection of the next token's embedding and the hidden state after final_norm, each normalized,
     * concatenated. Its result goes through its own norm and the model's output matrix. To draft further tokens it reads its own
     * result as hidden state: before its norm, or after it if drafts_normed. Alternatively the layers from n_layers on are a
     * separate drafter (dop_layer.eagle: one layer; dop_layer.reader: all). A drafter's checkpoint has n_layers 0 and only the
     * weights of these layers. */
    uint32_t drafts; /* number of drafting layers; 0: none */
    bool drafts_normed;
    uint32_t n_ropes;
    dop_rope ropes[DOP_MAX_ROPES];

    dop_layer_inputs inputs;
    dop_altup altup;
    uint32_t
        /* row length of the embedding and output matrix, with projections to and from `hidden`; 0: `hidden` */
        embed_width;
    dop_norm embed_norm; /* norm of the embedding */
    dop_norm final_norm;
    bool head_bias; /* the output matrix has a bias */
    bool learned_positions;
    uint32_t ctx_limit;   /* number of positions for which these facts hold; 0: any */
    double embed_scale;   /* factor on the embedding; 1: none */
    double logit_scale;   /* factor on the logits; 1: none */
    double logit_softcap; /* cap on the logits after logit_scale: softcap * tanh(x / softcap); 0: none */
    dop_temper temper;
    dop_encoder encoder;
    dop_cross cross;
    bool tied; /* the output matrix is the embedding */

    int64_t bos_id; /* -1: none */
    uint32_t n_end_ids;
    int64_t end_ids[DOP_MAX_END_IDS];
} dop_arch;

/* Returns the row length of the embedding and the output matrix. */
static inline uint32_t
dop_embed_width(const dop_arch *a)
{
    return a->embed_width ? a->embed_width : a->hidden;
}

/* Coding of a matrix that is quantized row by row with a scale per tile (FP8, INT8, packed integers, NVFP4). Value (row, col) is
 * its code's number times the scale of its tile. After the colon: types that compiler/pack/pack_codes.h converts it to. */
typedef enum dop_code_kind {
    DOP_CODE_E4M3, /* 8 bits: f8_128, or bf16 */
    DOP_CODE_INT8, /* 8 bits signed, or unsigned with offset 128 if dop_code_parts.biased: q8_0, or f16 */
    DOP_CODE_INT4, /* 4 bits minus a zero point; eight per word, the first in the lowest bits: int4, or f16 */
    DOP_CODE_E2M1, /* 4 bits, two per byte, the first in the low nibble: nvfp4 */
    DOP_CODE_FLAT, /* coded as dop_flat_parts, without tiles: int4 or f16 (MLX: q4_1, q5_1 or f16) */
} dop_code_kind;

/* Matrix of bitsandbytes, HQQ, MLX or torchao, quantized as one flat list of values, i = row * columns + column. Values
 * have 4 or 8 bits (MLX: 2 to 8). */
typedef struct dop_flat_parts {
    const uint8_t *codes;
    uint32_t bits;
    uint64_t group;  /* values that share a scale */
    uint64_t groups; /* number of groups */
    bool strided;    /* values of a group are `groups` apart in the list; otherwise consecutive */
    /* HQQ: value = (code - zero) * scale. Each byte holds two 4-bit codes: the high nibble from the first half of the list, the
     * low nibble the matching one of the second half. */
    const uint8_t *scales, *zeros;
    dop_type scale_type, zero_type;
    /* MLX: the codes of the matrix are one bit stream, lowest bit of a byte first; value = code * scale + zero. */
    bool stream;
    /* torchao int4: a bit stream with value = (code - 8) * scale + zero. The scales of one group of all rows are
     * adjacent. */
    bool centred;
    bool signs;    /* centred codes: stored as (code - 8) modulo 16 */
    uint32_t step; /* centred codes: distance from one scale to the next, in scales; zeros may lie between */
    uint32_t
        /* centred codes: tiles of `inner_tiles` * 16 columns per row, in the order of matrix units (tinygemm) */
        outer_tiles;
    uint32_t inner_tiles;
    uint64_t rows, columns; /* centred codes: rows of scales per group; columns of the matrix */
    /* bitsandbytes: value = levels[code] * largest of the group; the first of two codes is in the high nibble. `largest` is f32.
     * With nested levels it is a byte b, and the factor is nested_levels[b] * nested[group / nested_group] + offset. */
    const uint8_t *levels; /* f32 [16]; NULL: not bitsandbytes */
    const uint8_t *largest;
    const uint8_t *nested_levels, *nested; /* f32 [256], and f32 per nested group; NULL: not nested */
    uint64_t nested_group;
    float offset;
} dop_flat_parts;

typedef struct dop_code_parts {
    dop_code_kind kind;
    const dop_flat_parts *flat; /* for DOP_CODE_FLAT */
    bool biased;                /* DOP_CODE_INT8: codes are stored with 128 added */
    bool bytes; /* DOP_CODE_INT4: each code is a signed byte (-8 to 7), with zero points in zero_bytes */
    const uint8_t *codes;
    uint64_t row_bytes;                   /* bytes per row of codes */
    const uint8_t *scales;                /* one scale per tile, tiles in row-major order */
    dop_type scale_type;                  /* f16, bf16 or f32; none: unsigned e4m3 */
    bool exponents;                       /* scales are E8M0 bytes b: 2^(b - 127) */
    uint32_t tile_rows, tile_cols, tiles; /* size of a tile in rows and columns; tiles per row */
    const uint8_t *zeros;                 /* int4: zero points, 8 rows per word [rows / 8, tiles]; NULL: all 8 */
    uint32_t zero_words;       /* int4: if not 0, `zeros` packs eight tiles per word instead: [rows, zero_words] */
    const uint8_t *zero_bytes; /* int8 zero point per tile, subtracted from signed codes; NULL: zero */
    const uint8_t *order;      /* 32-bit tile number of each column; NULL: column / tile_cols */
    float factor;              /* int8, nvfp4: factor on all scales */
    uint64_t first, block,
        block_step; /* row r is stored at row first + r; block > 0: first + r / block * block_step + r % block */
} dop_code_parts;

/* Matrix of 4-bit integers (AWQ, GPTQ) whose packed integers, scales and zero points are separate tensors with outputs along the
 * last axis. Value (row, col) = scale * (integer - zero), with scale and zero of group col / group and output first + row.
 * compiler/pack/pack_rows.h converts it to blocks. */
typedef struct dop_int4_parts {
    const dop_code_parts *codes; /* matrix in tile-scaled form, which replaces all other fields; NULL: none */
    /* Microscaling (mxfp4): `words` has 16 bytes per 32 inputs, two codes per byte, the first in the low nibble; `scales` has an
     * exponent byte per 32 inputs. Both are stored output by output. Only `first` and `step` are used in addition. */
    bool microscaling;
    uint32_t step; /* stored outputs from one row to the next; 0: 1 (adjacent) */
    /* packed integers, eight per word: [inputs, outputs / 8] if by_output, otherwise [inputs / 8, outputs] */
    const uint8_t *words;
    const uint8_t *zeros;  /* zero points, 8 outputs per word [groups, outputs / 8]; NULL: all 8 */
    const uint8_t *scales; /* [groups, outputs] */
    dop_type scale_type;   /* f16, bf16 or f32; every value fits f16 */
    /* AWQ: a word has eight outputs of one input; integers and zero points are in the order 0 2 4 6 1 3 5 7. False (GPTQ): a word
     * has eight inputs of one output, and all values are in order. */
    bool by_output;
    uint32_t zero_add;    /* constant added to stored zero points, modulo 16 */
    uint32_t bits;        /* bits per integer: 2, 3 (crossing words), 4 or 8, with inputs in order; 0: 4 bits */
    const uint8_t *order; /* 32-bit group number of each input; NULL: input / group */
    uint32_t group;       /* inputs per scale: a multiple of the block of the weight's type */
    uint64_t outputs;     /* number of outputs of the stored tensors */
    uint64_t first;       /* stored output that is row 0 of the matrix */
} dop_int4_parts;

/* Change that an adapter makes to rows of a matrix, in this order: replaces the rows by `whole`, adds scale * b a, and scales
 * each row to its length in `lengths` (DoRA, https://arxiv.org/abs/2402.09353). NULL members are skipped. */
typedef struct dop_weight_change {
    uint32_t expert, first, n; /* changed rows of this expert's matrix: first .. first + n - 1 */
    uint32_t rank;
    float scale;
    const float *a, *b; /* [rank, cols], [n, rank] */
    const float *lengths, *whole;
} dop_weight_change;

/* Weight in a mapped file: a vector, a matrix, or a matrix per expert. The experts' matrices are expert_stride bytes apart in one
 * tensor, or separate tensors (`each`). Use dop_weight_expert() to get a single matrix. */
typedef struct dop_weight {
    const char *name; /* canonical name, such as "embed" or "L3.q"; in the arena */
    dop_type type;
    uint32_t rank;    /* 1: vector, 2: matrix, 3: a matrix per expert */
    uint32_t experts; /* rank 3: number of experts; otherwise 0 */
    uint32_t rows;    /* number of rows; a vector has 1 */
    uint32_t cols;    /* length of a row, along which a matmul sums; for a vector its length */
    const uint8_t *data;
    uint64_t row_stride; /* bytes between rows */
    uint32_t block_rows; /* rows per block; blocks are block_stride bytes apart; 0: no blocks */
    uint64_t block_stride;
    uint64_t col_stride; /* bytes between values of a row (Conv1D is transposed); 0: dense, required for block types */
    uint32_t
        /* with col_stride: number of taps of a window. Rows are read [tap][channel] but stored [channel][tap]. 0: not
         * reordered */
        taps;
    const char *source; /* tensor name in the model's files, for messages */
    /* Name of the tensor in llama.cpp, alone and where q, k and v are one tensor; NULL: llama.cpp has no such tensor. Set in
     * weights of a checkpoint. */
    const char *gguf, *gguf_fused;
    const dop_int4_parts
        *parts; /* quantized matrix in separate parts, instead of data and strides; NULL: none; in the arena */
    uint64_t expert_stride; /* rank 3: bytes between experts */
    const uint8_t *factors; /* nvfp4: f32 factor per matrix, possibly unaligned; NULL: none */
    /* Rank 3: [experts] weights of rank 2, instead of data, strides and parts; in the arena. NULL: one tensor holds all
     * experts. */
    const struct dop_weight *each;
    /* Rank 2: continuation of the matrix from row own_rows on, which may continue further; in the arena. It has the same type and
     * column stride, and `rows` includes its rows. NULL: data and strides describe all rows. */
    const struct dop_weight *below;
    uint32_t own_rows; /* rows before those of `below`; 0: no `below` */
    /* Changes by merged adapters; in the arena. expert: number of the matrix that dop_weight_expert() returned. */
    const dop_weight_change *changes;
    uint32_t n_changes, expert;
} dop_weight;

/* Weights of a model; weights.def has their names and shapes. */
typedef struct dop_weights {
    uint32_t n, cap;
    dop_weight *items; /* sorted by name after dop_weights_seal() */
    dop_map *maps;     /* mapped files that `data` of weights points into */
    uint32_t n_maps, cap_maps;
} dop_weights;

/* One dispatch of the kernel path in an RDRR manifest. */
typedef struct dop_path_step {
    const char *phase;               /* "decode", "prefill", "both" */
    int32_t layer;                   /* -1: every layer, or outside of the layers */
    const char *op, *kernel, *entry; /* as the manifest spells them: "q_proj", "matmul_gemv_subgroup.wgsl", "main" */
} dop_path_step;

/* Entry of an RDRR manifest's forceKernels: the kernel to use for an op. */
typedef struct dop_path_force {
    const char *source, *op, *kernel; /* source: file and field, for messages */
} dop_path_force;

typedef struct dop_checkpoint {
    dop_arena *arena;
    dop_arch arch;
    dop_weights weights;
    /* Facts of the vision part (vision.h), whose weights are in `weights`; in the arena. NULL: none. */
    const struct dop_vision *vision;
    /* Facts of the U-Net and decoder of a diffusion model (diffusion.h), whose text encoder is `arch`; in the arena.
     * NULL: none. */
    const struct dop_diffusion *diffusion;
    /* Image preprocessing, serialized as in a plan (media/picture/image_processor.def); in the arena. NULL: unknown. */
    const uint8_t *images;
    size_t n_images; /* size of `images` in bytes */
    bool tiles;      /* pictures are split into tiles; a vision step processes several tiles */
    /* With cross-attention: token ids excluded from transcriptions, as in the plan's speech section; in the arena. */
    const uint32_t *suppressed;
    /* Tokenizer and chat template; NULL or empty if absent. Paths are for messages. */
    char *tokenizer_json_path;
    char *tokenizer_gguf_path; /* GGUF file with the vocabulary (dop_tokenizer_from_gguf) */
    char *tokenizer_ggml_path; /* GGML file with the vocabulary (dop_tokenizer_from_ggml) */
    char *chat_template;
    char *pair_prompt; /* reranker prompt with the placeholders {query} and {document}; NULL: none */
    char *chat_type;   /* RDRR: template name ("gemma", "llama3", "chatml", "qwen", ...) instead of its text */
    char *name;        /* name for the model card: stated, or family and size; never a path */
    double temperature, top_p, min_p; /* default sampling parameters; temperature < 0: not stated (greedy) */
    uint32_t top_k;
    char *note; /* one-line note for the user ("not verified: ..."); NULL: none */
    /* Kernel path of an RDRR manifest: storage types (none: not stated), a name, or a list of dispatches. */
    dop_type path_act, path_kv;
    char *path_name;
    char *path_file, *path_field; /* manifest and its field that names a known path; field NULL: no name */
    bool path_expands; /* quantized weights are dequantized before multiplication (preferFusedDequant: false) */
    dop_path_force *path_forces;
    uint32_t n_path_forces;
    dop_path_step *path;
    uint32_t n_path;
} dop_checkpoint;

/* Loads a model from a directory or file; detects the format by content. Tensors stay mapped until dop_checkpoint_finish().
 * Errors name the file and, if known, the field or tensor. */
dop_status dop_checkpoint_load(const char *path, dop_arena *arena, dop_diag *diag, dop_checkpoint *out_model);
/* Adds the vision part of a GGUF model, which is a file of its own (mmproj). mmproj NULL: uses the only such file next to the
 * model, if it fits; otherwise a note gives the reason. Does nothing if there is no vision part. */
dop_status dop_checkpoint_add_vision(dop_checkpoint *m, const char *mmproj, dop_diag *diag);
/* Adds the drafter (dop_eagle, dop_sharer) in a directory or file to a model. It replaces the model's own drafting
 * layer, if any. */
dop_status dop_checkpoint_add_drafter(dop_checkpoint *m, const char *path, dop_diag *diag);
/* True if the checkpoint is a drafter, which cannot run without its model. */
static inline bool
dop_arch_is_drafter(const dop_arch *a)
{
    return a->n_layers == 0 && a->drafts;
}
void dop_checkpoint_finish(dop_checkpoint *m); /* accepts a zeroed struct */

/* Returns the number of matrices of a weight; a vector counts as one. */
static inline uint32_t
dop_weight_experts(const dop_weight *w)
{
    return w->rank == 3 ? w->experts : 1;
}

/* Returns the matrix of an expert (< dop_weight_experts()) as a weight of rank 2; returns a weight of lower rank
 * unchanged. */
dop_weight dop_weight_expert(const dop_weight *w, uint32_t expert);

/* Returns the address of a row of a weight without `parts` and of rank 1 or 2. */
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
/* Moves maps to w, which then owns them; frees the list itself (from malloc). */
dop_status dop_weights_keep(dop_weights *w, dop_map *maps, uint32_t n, dop_diag *diag);
dop_status dop_weights_seal(dop_weights *w, dop_diag *diag); /* sorts by name; fails on a duplicate name */
const dop_weight *dop_weights_find(const dop_weights *w, const char *name);

/* Role of a weight in the model: a row of weights.def. A norm has two roles, weight and bias. */
typedef enum dop_role {
    DOP_W_none,
#define MATRIX(scope, role, ...) DOP_W_##role,
#define EXPERTS(scope, role, ...) DOP_W_##role,
#define BIAS(scope, role, ...) DOP_W_##role##_bias,
#define EXPERT_BIAS(scope, role, ...) DOP_W_##role##_bias,
#define VECTOR(scope, role, ...) DOP_W_##role,
#define NORM(scope, role, ...) DOP_W_##role, DOP_W_##role##_bias,
#include "frontend/facts/weights.def"
    DOP_N_ROLES
} dop_role;

/* Name and shape of a weight that the facts require. */
typedef struct dop_weight_need {
    char name[32]; /* canonical: "embed", "L3.q" */
    dop_role role;
    int32_t layer;                      /* -1: outside of the layers */
    uint32_t rank, experts, rows, cols; /* as in dop_weight */
    bool vectors;                       /* rank 2: each row is an expert's vector, not a row of a matrix */
} dop_weight_need;

/* Returns the role's name, such as "q". */
const char *dop_role_name(dop_role role);
/* Returns the role of a matrix's bias; DOP_W_none if the matrix cannot have one. */
dop_role dop_role_bias(dop_role role);
/* True if the facts require this role in this layer (-1: outside of the layers); *out_need gets its name and shape. */
bool dop_arch_weight(const dop_arch *a, int32_t layer, dop_role role, dop_weight_need *out_need);
/* Returns the norm of a NORM row of weights.def; its kind is DOP_NORM_NONE if the facts have no such norm. */
dop_norm dop_arch_norm(const dop_arch *a, int32_t layer, dop_role role);
/* Calls fn for each weight that the facts require, in the order of weights.def; stops at the first failure. `need` is valid only
 * during the call. */
typedef dop_status dop_weight_need_fn(void *user, const dop_weight_need *need);
dop_status dop_arch_each_weight(const dop_arch *a, dop_weight_need_fn *fn, void *user);

/* Returns the number of layers with weights, including drafting layers. */
static inline uint32_t
dop_arch_all_layers(const dop_arch *a)
{
    return a->n_layers + a->drafts;
}

/* True if the model's drafter attends only to the model's caches (dop_sharer). */
static inline bool
dop_arch_drafts_by_reading(const dop_arch *a)
{
    return a->drafts > 0 && a->layers[a->n_layers].reader.hidden > 0;
}

/* Fills layers[n_layers], which must be allocated, as drafting layer. Copies the last attention layer (preferably without a
 * window), its kinds of norms, and the last feed-forward part if that layer has none. Returns false if the model's layers cannot
 * be copied so. */
bool dop_arch_draft_layer(dop_arch *a);

/* Return the attention mixer and the recurrent mixer of a layer; NULL: none. */
const dop_attention *dop_layer_attention(const dop_layer *y);
const dop_recurrent *dop_layer_recurrent(const dop_layer *y);

/* Checks the facts for consistency (zero heads, excessive sizes, hidden not divisible, ...), for every importer. */
dop_status dop_arch_check(const dop_arch *a, const char *path, dop_diag *diag);
/* Checks that every required weight exists with the right shape, and that no float tensor extends past its file. */
dop_status dop_arch_check_weights(const dop_arch *a, const dop_weights *w, const char *path, dop_diag *diag);

/* Turns an imported one-layer model into an EAGLE drafter. e: facts of the drafter; its norms get the eps of the model's
 * norms. */
void dop_arch_make_drafter(dop_arch *a, const dop_eagle *e);
/* Turns an imported model into a drafter of kind dop_sharer. hidden: hidden size of the model that it drafts for. */
void dop_arch_make_reader(dop_arch *a, uint32_t hidden);
/* Finds the model layer whose keys and values attention t of a drafter (dop_sharer) reads: the last one with a cache of its own
 * that has a window exactly if t has one. Returns NULL, or a description of the mismatch. */
const char *dop_arch_find_read(const dop_arch *a, const dop_attention *t, uint32_t *out_layer);

#endif
