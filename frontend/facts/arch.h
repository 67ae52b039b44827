/* What the importers fill and the graph builder reads: the facts of an architecture, and where each weight lies.
 * Nothing after the importers knows which format or family a model came from. */
#ifndef DOPPLER_FRONTEND_FACTS_ARCH_H
#define DOPPLER_FRONTEND_FACTS_ARCH_H

#include "base/arena.h"
#include "base/base.h"
#include "base/storage/types.h"
#include "frontend/facts/arch.h"

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

/* A rotary embedding; several layers share one.  The builder turns it into a table of cosines and sines. */
typedef struct dop_rope {
    double theta;
    uint32_t dims;    /* rotated values of each head, even, at most the head dim */
    uint32_t rotated; /* proportional: how many of `dims` rotate, even; the other values have frequency 0 */
    uint32_t first;   /* the row of position 0 turns as far as this position */
    bool interleaved; /* pairs (2i, 2i+1) instead of (i, i + dims/2) */
    /* Multimodal rotary embedding, where a row has a position in time, one by row and one by column of its picture: how many of the
     * dims / 2 pairs turn by each; all 0: rows have one position.  sections_mixed: the pairs of rows and columns are every third one from
     * pair 1 and from pair 2 on; else they follow those of time.  https://arxiv.org/abs/2409.12191 */
    uint32_t sections[3];
    bool sections_mixed;
    dop_rope_scaling scaling;
    double factor;
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn */
    bool truncate;                            /* yarn: round the correction range to whole dims */
    double attention_factor;                  /* multiplies cosines and sines; 0: the scaling's own default */
    double attention_times;                   /* another factor on cosines and sines; 0: 1 */
    double mscale, mscale_all_dim;            /* yarn, DeepSeek */
    uint32_t original_ctx;                    /* positions before scaling */
    uint32_t n_factors; /* length of each factor list: longrope's, dims / 2, or a GGUF file's frequency divisors */
    const double *short_factors, *long_factors;
} dop_rope;

static inline bool
dop_rope_sectioned(const dop_rope *r)
{
    return r->sections[0] + r->sections[1] + r->sections[2] > 0;
}

/* Token mixers: what combines the rows of different positions in a layer. */
typedef enum dop_mixer_kind {
    DOP_MIXER_ATTENTION,
    DOP_MIXER_LATENT, /* attention over a compressed cache */
    DOP_MIXER_CONV,   /* gated short convolution */
    DOP_MIXER_DELTA,  /* gated delta rule */
    DOP_MIXER_SSM     /* state space, Mamba-2 */
} dop_mixer_kind;

/* Latent attention (MLA: https://arxiv.org/abs/2405.04434).  Keys and values of all heads are computed from `rank` latent values per
 * row; `rotated` further values carry the position of the key.  The cache keeps only latent and rotated values.  A head's query
 * has `plain` values, which a matrix of the head turns into factors on the latent values, and `rotated` values. */
typedef struct dop_latent {
    uint32_t rank;                      /* 0: attention is not latent */
    uint32_t q_rank;                    /* queries are computed from this many values; 0: from the layer's input */
    uint32_t plain, rotated, value_dim; /* per head: query values without and with rotation; values of v */
    dop_norm q_norm, norm;              /* on the q_rank values behind the queries; on the `rank` latent values */
} dop_latent;

/* Sparse attention (https://arxiv.org/abs/2512.02556): a row sees only the `top` positions that an index scores highest, by the ops
 * index_scores and top_positions.  The index has heads of queries and one head of keys, which have a cache of their own. */
typedef struct dop_indexer {
    uint32_t top;               /* 0: rows see all positions */
    uint32_t n_heads, head_dim; /* n_heads 0: the layer sees what the last layer with heads chose */
    bool interleaved;           /* the index rotates pairs (2i, 2i+1), whatever attention rotates */
    dop_norm norm;              /* on keys */
} dop_indexer;

typedef struct dop_attention {
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t window;    /* sliding window: positions that a query sees, its own included; 0: no window */
    uint32_t chunk;     /* positions come in chunks of this many, and a query sees only its own chunk; 0: no chunks */
    dop_latent latent;  /* latent attention: n_kv_heads is then 1, and head_dim the length of a query */
    uint32_t value_dim; /* values of a head of v; 0: head_dim */
    int32_t rope;       /* index into dop_arch.ropes; -1: no rotation */
    uint32_t alibi;     /* ALiBi: attribute `alibi` of the op attention; 0: none */
    bool alibi_scaled;  /* ALiBi's slopes are divided by the root of head_dim, as scores are */
    double clip;        /* results of the q, k and v projections are clamped to -clip .. clip; 0: not clamped */
    dop_norm q_norm, k_norm, v_norm; /* before the rotation, unless norm_after; v_norm always goes over each head */
    bool norm_after;                 /* q_norm and k_norm come after the rotation */
    bool norm_rows;                  /* q_norm and k_norm go over all heads of a row, instead of over each head */
    bool norm_heads;                 /* q_norm and k_norm go over each head, and every head has weights of its own */
    dop_norm o_norm;                 /* on the result of all heads, before the output projection */
    bool bias_q, bias_k, bias_v, bias_o;
    uint32_t shares;    /* the layer uses the keys and values of layer shares - 1; 0: its own */
    bool k_is_v;        /* values are the result of the projection of keys */
    bool gate;          /* the heads' results are multiplied by the sigmoid of a projection of the layer's input */
    bool gate_heads;    /* with gate: the projection has one value for each head, instead of as many as the results */
    bool gate_softplus; /* with gate: softplus instead of sigmoid */
    bool sinks;         /* a learned logit per head that only takes part in the softmax */
    /* Doge (transformers, modular_doge.py): the score at a key grows by exp(fade * softplus(w * v)), where v is all values (of v) at
     * the key's position; each KV head has a learned row w and a learned fade.  The cache keeps this bias behind the key, four
     * times, because kernels read four values at a time. */
    bool key_bias;
    uint32_t adapter; /* rank of low-rank projections that are added to q, k and v; 0: none */
    bool wide;        /* attention reads the residual stream concatenated with the model's embedding */
    /* Differential attention: the results of the second half of the heads, times a learned value, are subtracted from the results of
     * the first half, and the difference is normed without weights.  https://arxiv.org/abs/2410.05258 */
    bool differential;
    double scale;      /* factor on q.k, resolved (1/sqrt(head dim) and its variants) */
    double softcap;    /* cap on scaled q.k: softcap * tanh(x / softcap); 0: none */
    bool both;         /* queries also see later positions; a window then extends to both sides */
    bool relative;     /* scores have a learned bias for each head and distance: dop_encoder.relative */
    dop_indexer index; /* with latent: which positions rows see */
    bool tempered;     /* queries are multiplied by dop_arch.temper at their positions */
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

/* Recurrent mixers, whose state has the same size for any number of positions: the last inputs of a causal convolution of each
 * channel, and, except for the short convolution, a matrix [head_dim, state_dim] per head (linear_scan of ir/ops.def).
 * Short convolution: out(c * conv(b * x)), b, c and x projections as wide as the model.
 * Mamba-2 and the gated delta rule: one projection and convolution, then SiLU, give values, keys and queries (x, B and C);
 * dt = softplus(projection + bias), decay = exp(-exp(learned) dt), and a gate is a projection of its own. */
typedef struct dop_recurrent {
    uint32_t taps; /* positions that the convolution reads, its own included; 0: the layer has no recurrent mixer */
    bool conv_bias;
    uint32_t n_heads, head_dim;   /* heads of values, and values of each; n_heads 0: short convolution */
    uint32_t n_groups, state_dim; /* heads of keys and queries, and values of each */
    bool in_turn; /* value head h goes with key head h % n_groups; else with key head h / (n_heads / n_groups) */
    bool delta;   /* delta rule: queries and keys are scaled to length 1, and queries by 1/sqrt(state_dim) besides */
    /* Mamba's selective scan: the convolution gives values only, from which dt, B and C are computed; a head is one channel, and
     * every column of its state has a learned rate of decay.  `each` is Kimi's delta rule, in which dt has a value for each of a
     * head's columns.  With either, every column decays by itself. */
    bool selective, each;
    uint32_t dt_rank, gate_rank;            /* dt and the gate are low-rank projections of these ranks; 0: full rank */
    bool gate_sigmoid;                      /* the gate is a sigmoid instead of a SiLU */
    double dt_least;                        /* lower limit of dt */
    double beta_scale;                      /* factor on the delta rule's beta; 1: none */
    dop_norm dt_norm, key_norm, query_norm; /* selective: on the dt_rank values behind dt, on B and on C */
    bool skip;                              /* a learned multiple of each head's values is added to its result */
    bool bias_in, bias_out;                 /* biases of the projections before and after the scan or convolution */
    bool norm_rows;   /* `norm` goes over all heads, after the gate; else over each head, before the gate */
    bool norm_groups; /* with norm_rows: `norm` goes over the heads of each of n_groups separately */
    bool norm_first;  /* with norm_rows: `norm` comes before the gate */
    dop_norm norm;
    double in_scale;             /* factor on the input of projections that have a bias; 1: none */
    double gate_scale, dt_scale; /* factors on the projections of gate and dt; 1: none */
    double value_scale, key_scale,
        query_scale; /* factors on the convolution's inputs, by which importers multiply its taps; 1: none */
} dop_recurrent;

typedef struct dop_mixer {
    dop_mixer_kind kind;
    double scale;       /* factor on the mixer's result; 1: none */
    dop_attention attn; /* for DOP_MIXER_ATTENTION and _LATENT */
    dop_recurrent rec;  /* for the kinds that keep a state of fixed size */
} dop_mixer;

/* Channels of a recurrent mixer's convolution; hidden: the width of the model. */
static inline uint32_t
dop_conv_channels(const dop_recurrent *s, uint32_t hidden)
{
    return s->selective ? s->n_heads * s->head_dim
           : s->n_heads ? s->n_heads * s->head_dim + 2 * s->n_groups * s->state_dim
                        : hidden;
}

/* Number of values of dt in a row (dop_scan_steps), and of learned rates of decay (dop_scan_rates). */
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
    DOP_FFN_BOTH,    /* a dense part beside a mixture of experts; their results are added */
    DOP_FFN_NONE     /* the layer is its mixer alone */
} dop_ffn_kind;

/* How a mixture of experts routes.  A router scores every expert by the softmax or sigmoid of its logits; for each row `active`
 * experts are chosen, and their results are added, each times its score.  The choice goes by the scores, plus a learned correction
 * where there is one, and only among the experts of the best groups where there are groups. */
typedef enum dop_score_kind {
    DOP_SCORE_SOFTMAX,
    DOP_SCORE_SIGMOID,
    DOP_SCORE_NEAR /* the op near_softmax */
} dop_score_kind;
typedef struct dop_experts {
    uint32_t n, width;                       /* number of experts; hidden values of one expert */
    uint32_t active;                         /* experts that are chosen for a row */
    uint32_t groups, group_best, group_keep; /* as in the op top_k; 1, 1, 1: no groups */
    dop_score_kind score;
    bool correction;   /* a learned value per expert is added for the choice only */
    bool normalized;   /* weights of a row are divided by their sum */
    double sum_eps;    /* with normalized: added to the sum that weights are divided by */
    double near;       /* DOP_SCORE_NEAR: eps of the op near_softmax */
    double scale;      /* factor on the sum of all chosen experts; 1: none */
    bool scales_input; /* the weight of the only active expert multiplies its input, not its result */
    bool bias;         /* every expert's matrices have biases */
    bool router_bias;
    bool scaled;          /* the weights are multiplied by a learned value per expert, after normalization */
    dop_norm router_norm; /* norm of the stream for the router; none: the router reads what the experts read */
    double router_scale;  /* factor on the router's logits; 0: none */
    dop_norm norm,
        post_norm; /* DOP_FFN_BOTH: before and after the experts; none: experts read what the dense part reads */
    uint32_t shared_width; /* hidden values of the shared expert, which works on every row; 0: there is none */
    bool shared_gate;      /* the shared expert's result is multiplied by the sigmoid of a projection */
} dop_experts;

typedef struct dop_ffn {
    dop_ffn_kind kind;
    uint32_t width;      /* hidden values of the dense part */
    dop_experts experts; /* for DOP_FFN_EXPERTS and DOP_FFN_BOTH */
    dop_act_kind act;
    bool gated;               /* act(gate) * up; else act(up) alone */
    bool bias;                /* every matrix of the dense part has a bias */
    bool bias_down;           /* the dense part's last matrix has a bias, whether or not the others have */
    double gate_scale, scale; /* factors on the activation's input, and on the dense part's result; 1: none */
    dop_norm post_dense_norm; /* DOP_FFN_BOTH: on the dense part's result, before the experts' is added */
    double sparsity; /* the dense part's gate becomes relu(gate - mean - sparsity * standard deviation); 0: unchanged */
    dop_norm down_norm; /* on the input of the dense part's down projection */
} dop_ffn;

/* Whether a feed-forward part has a dense part (dop_ffn_dense), and experts (dop_ffn_experts). */
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

/* Does a feed-forward part have a shared expert? */
static inline bool
dop_ffn_shared(const dop_ffn *f)
{
    return dop_ffn_experts(f) && f->experts.shared_width > 0;
}

/* Zamba 2: a block whose weights several layers share.  It is the layer's attention, which is `wide`, and a gated feed-forward part;
 * each layer has adapters of rank `rank` on gate and up.  A projection of the layer's own takes the block's result, which is then
 * added to the input of the layer's other mixer instead of to the residual stream. */
typedef struct dop_side {
    uint32_t width, rank;  /* hidden values of the feed-forward part (0: no shared block); rank of the adapters */
    uint32_t index, block; /* number of this layer among those with a shared block; number of its shared block */
    dop_act_kind act;
    dop_norm norm, ffn_norm; /* before attention, over stream and embedding; before the feed-forward part */
} dop_side;

/* EAGLE-3 (https://arxiv.org/abs/2503.01840): a drafter, which is published as a checkpoint of its own.  Its hidden states are a product of
 * the model's residual streams before several layers, side by side; its attention is `wide` and reads the normed embedding of the next
 * token and the normed hidden state, side by side, and its residual stream begins with the hidden state.  Its own result is the hidden
 * state of its next token. */
enum { DOP_MAX_JOINED = 8 };
typedef struct dop_eagle {
    uint32_t vocab; /* tokens that can be drafts; 0: the layer is no such drafter */
    uint32_t n,
        from[DOP_MAX_JOINED];  /* the streams: those before these layers of the model; n_layers: behind the last one */
    bool defaults;             /* its checkpoint does not say which streams: those before layers 2, n / 2 and n - 3 */
    bool residual_normed;      /* the residual stream begins with the normed hidden state */
    bool embeds, head, listed; /* it has an embedding, an output matrix, a list of the tokens that can be drafts */
    dop_norm each_norm, norm;  /* on each of the streams, each with weights of its own; on all of them side by side */
} dop_eagle;

/* A drafter of several layers that keep no keys and values: they attend to those of the model's layers (dop_attention.shares), and the
 * only row of a sequence is the last one.  Its residual stream begins with a product of the model's embedding of the next token and the
 * hidden state, side by side; another product makes the hidden state of its next token from its result.  All tokens that it drafts from one
 * hidden state see the same positions, and its queries turn as far as the next token's position.  Gemma 4's assistant: transformers,
 * modeling_gemma4_assistant.py and SinglePositionMultiTokenCandidateGenerator. */
typedef struct dop_sharer {
    uint32_t
        hidden; /* values of the residual stream, which has a width of its own; 0: the layer is of no such drafter */
    bool enters,
        leaves; /* it is the first layer; it is the last one, which has a norm and an output matrix behind it */
} dop_sharer;

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
    bool residual_weights;              /* the stream is multiplied by learned values before a part's result is added */
    uint32_t laurel;                    /* with dop_arch.altup: rank of a residual block beside attention */
    dop_norm laurel_norm;               /* on the product of the residual block `laurel` */
    dop_norm attn_norm, post_attn_norm; /* before the mixers, and on their result */
    dop_norm ffn_norm, post_ffn_norm;   /* before the feed-forward part, and on its result */
    dop_norm attn_sum_norm, ffn_sum_norm; /* on the stream after mixers' and feed-forward part's results were added */
    dop_norm post_input_norm;             /* on what the layer's own input contributes (dop_layer_inputs) */
    bool parallel;
    bool control;          /* a control vector is added to the stream after the layer */
    bool scaled;           /* the stream after the layer is multiplied by a learned value */
    double residual_scale; /* factor on what is added to the stream; 1: none */
    dop_norm draft_embed_norm, draft_hidden_norm, draft_norm; /* of the layer that drafts: dop_arch.drafts */
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
    DOP_MAX_AUDIO_ROWS = 4096, /* of a chunk of audio, two frames each; a step has them all */
    DOP_MAX_AUDIO_BINS = 1024
};

/* Temperature of attention at far positions, as in Llama 4: queries are multiplied by
 * 1 + scale * log(1 + floor((position + from) / floor)). */
typedef struct dop_temper {
    double scale, floor; /* floor 0: there is none */
    double from;         /* what is added to the position */
} dop_temper;

/* Per-layer inputs.  Each layer has `width` values per token: a second embedding's, times `scale`, plus a projection of the model's
 * embedding, times `projected` and normed; the sum is divided by sqrt(2).  After its feed-forward
 * part a layer adds post_input_norm(up(act(gate(x)) * its input)) to the stream x.  Gemma 4: transformers,
 * modeling_gemma4.py, project_per_layer_inputs. */
typedef struct dop_layer_inputs {
    uint32_t width, vocab; /* vocab: rows of the second embedding; width 0: there are no per-layer inputs */
    double scale, projected;
    dop_norm norm; /* on the projection, over the values of one layer */
} dop_layer_inputs;

/* Alternating updates (AltUp, Gemma 3n): the residual stream is n streams.  A layer predicts all of them, computes only the stream
 * `active`, and corrects every prediction by the difference that the computation made. */
typedef struct dop_altup {
    uint32_t n, active; /* n 0: one stream, as in other models */
    bool scales;        /* per-layer inputs are gated by the active stream times learned values */
    dop_norm norm;      /* before the routers */
} dop_altup;
enum { DOP_MAX_STREAMS = 8 };

/* T5's relative position bias (https://arxiv.org/abs/1910.10683): attention scores have a learned bias for each head and bucket of
 * distances.  Half of the buckets are for keys before the query, half for keys after it; near distances have a bucket each, and
 * buckets widen logarithmically up to the distance `most`. */
typedef struct dop_relative {
    uint32_t buckets, most; /* buckets 0: there is no such bias */
} dop_relative;

/* A dense layer of an encoder's head.  After the last norm an encoder applies dop_encoder.n_dense of them, and gives one vector or
 * one row of class scores for each text. */
typedef struct dop_dense {
    uint32_t width;    /* values of the layer's result */
    bool bias, active; /* active: the activation `act` follows */
    dop_act_kind act;
    dop_norm norm; /* after the activation */
} dop_dense;
enum { DOP_MAX_DENSE = 3 };

/* Pooling: which rows of a text become its vector.  The numbers are DOP_POOL_* of plan/plan_format.h. */
typedef enum dop_pool_kind { DOP_BY_NONE, DOP_BY_CLS, DOP_BY_MEAN, DOP_BY_LAST, DOP_BY_END } dop_pool_kind;

typedef struct dop_encoder {
    bool used;        /* the model is an encoder: without output matrix, its only program is `encode` */
    uint32_t n_types; /* rows have a type (first or second text of a pair), each with an embedding; 0: they have none */
    bool norm_sum;    /* dop_arch.embed_norm is on the sum of token, position and type embeddings */
    uint32_t n_dense; /* products after the last norm */
    dop_dense dense[DOP_MAX_DENSE];
    dop_pool_kind pool;
    uint32_t end_id;  /* DOP_BY_END: the first row of this token is pooled; UINT32_MAX: the row of the largest id */
    bool normalized;  /* vectors have length 1 */
    uint32_t classes; /* the encoder gives scores of this many classes; 0: a vector */
    dop_relative relative;
} dop_encoder;

/* Width of the input of dense layer `i` of an encoder. */
static inline uint32_t
dop_dense_in(const dop_encoder *e, uint32_t hidden, uint32_t i)
{
    return i > 0 && i <= e->n_dense ? e->dense[i - 1].width : hidden;
}

/* Cross-attention: every layer attends, after its own attention, to the rows of an encoder, whose keys and values another program of the
 * plan makes once for each input (Whisper's audio: https://arxiv.org/abs/2212.04356). */
typedef struct dop_cross {
    uint32_t rows;  /* rows of the encoder; 0: there is no cross-attention */
    uint32_t width; /* values of each of them */
    dop_norm norm;  /* on the stream before it */
} dop_cross;

typedef struct dop_arch {
    char family[32]; /* for messages and the model card only */
    uint32_t n_layers, hidden, vocab;
    uint32_t ctx_train; /* positions the model was trained for */
    dop_layer *layers;  /* [n_layers + drafts] */
    /* Multi-token prediction (https://arxiv.org/abs/2412.19437, section 2.2): layer n_layers predicts the token after the next one.  Its
     * input is a product of the next token's embedding and the hidden state behind final_norm, each normed, side by side; behind it
     * comes a norm of its own, and the model's output matrix.  For the tokens after that it takes its own result as hidden state: the
     * stream before its norm, or behind it where drafts_normed.  Or the layer is a drafter of its own, dop_layer.eagle, or a drafter is all
     * layers from n_layers on, dop_layer.reader; its checkpoint has n_layers 0, and no weights but the layers'. */
    uint32_t drafts; /* number of layers that draft; 0: there is none */
    bool drafts_normed;
    uint32_t n_ropes;
    dop_rope ropes[DOP_MAX_ROPES];

    dop_layer_inputs inputs;
    dop_altup altup;
    uint32_t
        embed_width; /* embedding and output matrix have rows of this length, which products lead to and from; 0: `hidden` */
    dop_norm embed_norm; /* on the embedding */
    dop_norm final_norm;
    bool head_bias; /* the output matrix has a bias */
    bool learned_positions;
    uint32_t ctx_limit;   /* positions for which these facts hold; 0: any */
    double embed_scale;   /* factor on the embedding; 1: none */
    double logit_scale;   /* logits are multiplied by it; 1: none */
    double logit_softcap; /* cap on the logits, after logit_scale; 0: none */
    dop_temper temper;
    dop_encoder encoder;
    dop_cross cross;
    bool tied; /* the output matrix is the embedding */

    int64_t bos_id; /* -1: none */
    uint32_t n_end_ids;
    int64_t end_ids[DOP_MAX_END_IDS];
} dop_arch;

/* Length of a row of the embedding and of the output matrix. */
static inline uint32_t
dop_embed_width(const dop_arch *a)
{
    return a->embed_width ? a->embed_width : a->hidden;
}

/* How a quantized matrix is coded that is stored row by row with a scale for each tile (FP8, INT8, packed integers, NVFP4): value
 * (row, col) is the number that its code stands for, times the scale of its tile.  After the colon: the type of the blocks that
 * compiler/pack/pack_codes.h makes of it. */
typedef enum dop_code_kind {
    DOP_CODE_E4M3, /* 8 bits: f8_128, or bf16 */
    DOP_CODE_INT8, /* 8 bits, signed, or with 128 added where dop_code_parts.biased: q8_0, or f16 */
    DOP_CODE_INT4, /* 4 bits, from which a zero point is subtracted; eight in a word, the first in its lowest bits: int4, or f16 */
    DOP_CODE_E2M1, /* 4 bits, two in a byte, the first in its low nibble: nvfp4 */
    DOP_CODE_FLAT, /* dop_flat_parts instead of codes, scales and tiles: int4 or f16 (MLX: q4_1, q5_1 or f16) */
} dop_code_kind;

/* A matrix of bitsandbytes, HQQ or MLX, quantized as one list of values, i = row * columns + column, with 4 or 8 bits for each (MLX: 2 to 8). */
typedef struct dop_flat_parts {
    const uint8_t *codes;
    uint32_t bits;
    uint64_t group;  /* values that share a scale */
    uint64_t groups; /* number of groups */
    bool strided;    /* the values of a group are `groups` apart in the list; else one after the other */
    /* HQQ: a value is (code - zero) * scale.  4-bit codes lie in halves of the list: a byte has a code of the first half in the high
     * nibble and the matching one of the second half in the low nibble. */
    const uint8_t *scales, *zeros;
    dop_type scale_type, zero_type;
    /* MLX: the codes of the whole matrix are one stream of bits, the lowest of a byte first, and a value is code * scale + zero. */
    bool stream;
    /* torchao's int4: a stream whose value is (code - 8) * scale + zero, in which the scales of one group of all rows lie together. */
    bool centred;
    bool signs;    /* of centred codes: 8 was taken off each of them, modulo 16 */
    uint32_t step; /* of centred codes: scales from one to the next, between which zeros may lie */
    uint32_t
        outer_tiles; /* of centred codes: tiles of `inner_tiles` * 16 columns in a row, in the order of matrix units (tinygemm) */
    uint32_t inner_tiles;
    uint64_t rows, columns; /* of centred codes: of the groups, and of the matrix */
    /* bitsandbytes: a value is levels[code] times the group's `largest`; of two codes in a byte the first has the high nibble.
     * `largest` is f32; with nested levels it is a byte b, and the factor is nested_levels[b] * nested[group / nested_group] +
     * offset. */
    const uint8_t *levels; /* f32 [16]; NULL: HQQ */
    const uint8_t *largest;
    const uint8_t *nested_levels, *nested; /* f32 [256] and f32; NULL: not nested */
    uint64_t nested_group;
    float offset;
} dop_flat_parts;

typedef struct dop_code_parts {
    dop_code_kind kind;
    const dop_flat_parts *flat; /* for DOP_CODE_FLAT */
    bool biased;                /* DOP_CODE_INT8: 128 was added to each code */
    bool bytes; /* DOP_CODE_INT4: each code is a byte from -8 to 7 instead, with zero points as zero_bytes has them */
    const uint8_t *codes;
    uint64_t row_bytes;                   /* bytes of codes in a row */
    const uint8_t *scales;                /* one for each tile, row by row of tiles */
    dop_type scale_type;                  /* f16, bf16 or f32; none: e4m3 without sign */
    bool exponents;                       /* scales are bytes b that stand for 2^(b - 127) instead (E8M0) */
    uint32_t tile_rows, tile_cols, tiles; /* size of a tile; number of tiles in a row of tiles */
    const uint8_t *zeros; /* int4: words with eight rows each [rows / 8, tiles]; NULL: every zero point is 8 */
    uint32_t zero_words;  /* int4: `zeros` are words with eight tiles each instead, [rows, zero_words]; 0: not */
    const uint8_t *
        zero_bytes; /* signed bytes, one for each tile as scales are, that are subtracted from signed codes; NULL: zero */
    const uint8_t *order; /* 32-bit number of the tile of each column; NULL: column / tile_cols */
    float factor;         /* int8, nvfp4: what all scales are multiplied by */
    uint64_t first, block,
        block_step; /* row r lies in row first + r; block > 0: first + r / block * block_step + r % block */
} dop_code_parts;

/* A matrix of 4-bit integers whose words, scales and zero points a file stores separately (AWQ, GPTQ), each with the outputs along
 * its last axis.  Value (row, col) is scale * (integer - zero), with scale and zero of group col / group and output first + row.
 * compiler/pack/pack_rows.h makes blocks of it. */
typedef struct dop_int4_parts {
    const dop_code_parts *codes; /* a matrix in this form; no other field is then used.  NULL: not */
    /* Microscaling (mxfp4) instead of integers: `words` has 16 bytes for each 32 inputs, of two codes in a byte the first in the low
     * nibble, and `scales` an exponent byte for each 32 inputs; both output by output.  Only `first` and `step` are used besides. */
    bool microscaling;
    uint32_t step;         /* stored outputs from one row to the next; 0: 1 */
    const uint8_t *words;  /* words of eight integers: by_output [inputs, outputs / 8], else [inputs / 8, outputs] */
    const uint8_t *zeros;  /* 32-bit words of eight outputs [groups, outputs / 8]; NULL: every zero point is 8 */
    const uint8_t *scales; /* [groups, outputs] */
    dop_type scale_type;   /* f16, bf16 or f32; every value fits f16 */
    /* A word of `words` has eight outputs of one input, and words of zeros and integers have the order 0 2 4 6 1 3 5 7 (AWQ); else a
     * word has eight inputs of one output, and all values are in order (GPTQ). */
    bool by_output;
    uint32_t zero_add; /* added to a stored zero point, modulo 16 */
    uint32_t bits; /* bits of an integer: 2, 3 (crossing words), 4 or 8; 0: 4.  Unless 0, words have inputs in order */
    const uint8_t *order; /* 32-bit group number of each input; NULL: input / group */
    uint32_t group;       /* inputs per scale: a multiple of the block of the weight's type */
    uint64_t outputs;     /* number of outputs of the stored tensors */
    uint64_t first;       /* the output that is row 0 */
} dop_int4_parts;

/* A change that an adapter makes to rows of a matrix: rows `whole` in place of those that are stored; then scale * b a is added; then
 * each row is given the length in `lengths` (DoRA, https://arxiv.org/abs/2402.09353).  What is NULL is not done. */
typedef struct dop_weight_change {
    uint32_t expert, first, n; /* rows first .. first + n - 1 of this expert's matrix */
    uint32_t rank;
    float scale;
    const float *a, *b; /* [rank, cols], [n, rank] */
    const float *lengths, *whole;
} dop_weight_change;

/* A weight: a vector, a matrix, or a matrix for each expert, somewhere in a mapped file.  Experts lie expert_stride bytes
 * apart in one tensor, or are tensors of their own (`each`).  Code that works on matrices gets them from
 * dop_weight_expert(). */
typedef struct dop_weight {
    const char *name; /* canonical, see below; in the arena */
    dop_type type;
    uint32_t rank;    /* 1, 2, or 3: a matrix for each expert */
    uint32_t experts; /* rank 3: size of the first axis, one for each expert; else 0 */
    uint32_t rows;    /* number of rows; a vector has 1 */
    uint32_t cols;    /* length of a row, along which a matmul sums; of a vector its length */
    const uint8_t *data;
    uint64_t row_stride; /* bytes from row to row */
    uint32_t block_rows; /* rows come in blocks of this many, which lie block_stride bytes apart; 0: no blocks */
    uint64_t block_stride;
    uint64_t col_stride; /* bytes from value to value (Conv1D is transposed); 0: dense, the only choice for blocks */
    uint32_t
        taps; /* with col_stride: a row has the channels of each tap of a window, and is stored with the taps of each channel; 0: no */
    const char *source; /* the tensor's name in the model, for messages */
    /* llama.cpp's name of the tensor, and its name in files where q, k and v are one tensor; NULL: llama.cpp has no such tensor.
     * Set in weights of a checkpoint. */
    const char *gguf, *gguf_fused;
    const dop_int4_parts
        *parts; /* a matrix of codes in separate parts, instead of data and strides; NULL: none; in the arena */
    uint64_t expert_stride; /* rank 3: bytes from expert to expert */
    /* nvfp4: an f32 for each matrix, by which all its values are multiplied; not necessarily aligned.  NULL: no such factor. */
    const uint8_t *factors;
    /* Rank 3: [experts] weights of rank 2, instead of data, strides and parts; in the arena.  NULL: one tensor has all experts. */
    const struct dop_weight *each;
    /* Rank 2: the matrix that has the rows from own_rows on, which may itself continue in another; in the arena.  It has the type and
     * column stride of this one, and `rows` counts its rows too.  NULL: all rows are where data and strides say. */
    const struct dop_weight *below;
    uint32_t own_rows; /* rows before those of `below`; 0: there is no `below` */
    /* What adapters that are merged change; in the arena.  expert: the number of the matrix that dop_weight_expert() gave. */
    const dop_weight_change *changes;
    uint32_t n_changes, expert;
} dop_weight;

/* The weights of a model; weights.def has their names and shapes. */
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

/* An entry of an RDRR manifest's forceKernels: the kernel to use for an op. */
typedef struct dop_path_force {
    const char *source, *op, *kernel; /* source: file and field, for messages */
} dop_path_force;

typedef struct dop_checkpoint {
    dop_arena *arena;
    dop_arch arch;
    dop_weights weights;
    /* Facts of the vision part (vision.h), whose weights are among `weights`; in the arena.  NULL: the model has none. */
    const struct dop_vision *vision;
    /* Facts of the U-Net and the decoder of a diffusion model (diffusion.h), whose text encoder is `arch`; in the arena.  NULL: none. */
    const struct dop_diffusion *diffusion;
    /* How pictures are prepared for it, as a plan holds that (media/picture/image_processor.def); in the arena.  NULL: not known. */
    const uint8_t *images;
    size_t n_images; /* bytes of `images` */
    bool tiles;      /* pictures are divided into tiles, of which steps of the vision part take several */
    /* With cross-attention: tokens that a transcription must not have, as the plan's section of speech has them; in the arena. */
    const uint32_t *suppressed;
    /* Tokenizer and chat template, as found; NULL / empty when absent.  Paths are for messages. */
    char *tokenizer_json_path;
    char *tokenizer_gguf_path; /* a GGUF file with its vocabulary inside (dop_tokenizer_from_gguf) */
    char *tokenizer_ggml_path; /* the same of a GGML file (dop_tokenizer_from_ggml) */
    char *chat_template;
    char *
        pair_prompt; /* a reranker's prompt for a query and a document, with {query} and {document} in it; NULL: none */
    char *chat_type; /* RDRR names the template instead of giving it: "gemma", "llama3", "chatml", "qwen", ... */
    char *name;      /* for the card: the model's own name, else family and size; never a path or a part of one */
    double temperature, top_p, min_p; /* the model's own sampling defaults; temperature < 0: not stated (greedy) */
    uint32_t top_k;
    char *note; /* one line that the user should see ("not verified: ..."); NULL: none */
    /* The kernel path of an RDRR manifest: storage types (none: not stated), a name, or dispatches one by one. */
    dop_type path_act, path_kv;
    char *path_name;
    char *path_file, *path_field; /* manifest and the field in it that names a known path; field NULL: none does */
    bool path_expands; /* quantized weights are expanded before they are multiplied (preferFusedDequant: false) */
    dop_path_force *path_forces;
    uint32_t n_path_forces;
    dop_path_step *path;
    uint32_t n_path;
} dop_checkpoint;

/* Loads MODEL (directory or file; format detected by content).  Tensors stay mapped until dop_checkpoint_finish().
 * Errors name the file and, where there is one, the field or tensor. */
dop_status dop_checkpoint_load(const char *path, dop_arena *arena, dop_diag *diag, dop_checkpoint *out_model);
/* Adds the vision part that a GGUF model has in a file of its own (mmproj).  mmproj: NULL: the only such file beside the model, if there is
 * one and it fits; else a note says why not.  Without a vision part it does nothing. */
dop_status dop_checkpoint_add_vision(dop_checkpoint *m, const char *mmproj, dop_diag *diag);
/* Adds the drafter (dop_eagle, dop_sharer) in a directory or file to a model, in place of the model's own layer that drafts, if it has one. */
dop_status dop_checkpoint_add_drafter(dop_checkpoint *m, const char *path, dop_diag *diag);
/* Is this a drafter, which is no model by itself? */
static inline bool
dop_arch_is_drafter(const dop_arch *a)
{
    return a->n_layers == 0 && a->drafts;
}
void dop_checkpoint_finish(dop_checkpoint *m); /* accepts a zeroed one */

/* Number of matrices of a weight; a vector counts as one. */
static inline uint32_t
dop_weight_experts(const dop_weight *w)
{
    return w->rank == 3 ? w->experts : 1;
}

/* The matrix of an expert, below dop_weight_experts(), as a weight of rank 2; a weight of lower rank is its own. */
dop_weight dop_weight_expert(const dop_weight *w, uint32_t expert);

/* Where a row of a weight begins that has no `parts` and is not of rank 3. */
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

/* The role of a weight in the model: a row of weights.def.  A norm has two roles, weight and bias. */
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

/* A weight that the facts call for. */
typedef struct dop_weight_need {
    char name[32]; /* canonical: "embed", "L3.q" */
    dop_role role;
    int32_t layer;                      /* -1: none */
    uint32_t rank, experts, rows, cols; /* as in dop_weight */
    bool vectors;                       /* rank 2: the rows are a vector for each expert, not a matrix */
} dop_weight_need;

/* "q" */
const char *dop_role_name(dop_role role);
/* The role of a matrix's bias; DOP_W_none where the matrix cannot have one. */
dop_role dop_role_bias(dop_role role);
/* Whether the facts call for this role in this layer (-1: outside), and what it must then be. */
bool dop_arch_weight(const dop_arch *a, int32_t layer, dop_role role, dop_weight_need *out_need);
/* The norm that a NORM row of weights.def stands for; its kind is DOP_NORM_NONE where the facts have no such norm. */
dop_norm dop_arch_norm(const dop_arch *a, int32_t layer, dop_role role);
/* Calls fn for every weight that the facts call for, in the order of weights.def; stops at the first failure.  `need` is valid
 * only during the call. */
typedef dop_status dop_weight_need_fn(void *user, const dop_weight_need *need);
dop_status dop_arch_each_weight(const dop_arch *a, dop_weight_need_fn *fn, void *user);

/* Number of layers that have weights: also those that draft. */
static inline uint32_t
dop_arch_all_layers(const dop_arch *a)
{
    return a->n_layers + a->drafts;
}

/* Is the drafter of a model one whose rows attend to the model's caches alone? */
static inline bool
dop_arch_drafts_by_reading(const dop_arch *a)
{
    return a->drafts > 0 && a->layers[a->n_layers].reader.hidden > 0;
}

/* Prepares layers[n_layers], for which there must be room, as the layer that drafts: like the last layer that attends, if it can be one
 * without a window, with norms of the same kind, and with the last feed-forward part where that layer has none.  Returns whether the
 * model's layers can be copied so. */
bool dop_arch_draft_layer(dop_arch *a);

/* The attention among a layer's mixers, and the recurrent mixer among them; NULL: none. */
const dop_attention *dop_layer_attention(const dop_layer *y);
const dop_recurrent *dop_layer_recurrent(const dop_layer *y);

/* Checks the facts alone (zero heads, absurd sizes, hidden not divisible, ...), for every importer. */
dop_status dop_arch_check(const dop_arch *a, const char *path, dop_diag *diag);
/* Checks that every weight the facts call for exists with the right shape, and that no float tensor exceeds its file. */
dop_status dop_arch_check_weights(const dop_arch *a, const dop_weights *w, const char *path, dop_diag *diag);

/* Makes a model of one layer, whose facts an importer has read, the drafter that it is (dop_eagle).  e: the drafter's own facts; its norms have
 * the eps of the others. */
void dop_arch_make_drafter(dop_arch *a, const dop_eagle *e);
/* Makes a model, whose facts an importer has read, the drafter that it is (dop_sharer); hidden: the hidden size of the model that it is for. */
void dop_arch_make_reader(dop_arch *a, uint32_t hidden);
/* The layer of a model whose keys and values attention t of a drafter (dop_sharer) reads: the last one that keeps some and has a window where
 * t has one.  Returns NULL, or what that layer has that does not fit. */
const char *dop_arch_find_read(const dop_arch *a, const dop_attention *t, uint32_t *out_layer);

#endif
