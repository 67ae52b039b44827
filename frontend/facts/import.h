/* Declarations shared by the importers: the rows of the family table (families.c) and tensor name tables. A family row states how
 * files spell facts, and which facts hold for all of the family's models; the files state all others. Code after the importers
 * does not depend on the family. */
#ifndef DOPPLER_FRONTEND_FACTS_IMPORT_H
#define DOPPLER_FRONTEND_FACTS_IMPORT_H

#include "frontend/facts/arch.h"

/* Family flags: facts that hold for the family, and optional fields of config.json that it has. */
enum {
    DOP_FAM_PRE_NORM = 1 << 0,       /* norms before attention and feed-forward */
    DOP_FAM_POST_NORM = 1 << 1,      /* norms on the results of attention and feed-forward, before the residual add */
    DOP_FAM_LAYER_NORM = 1 << 2,     /* LayerNorm with bias instead of RMSNorm */
    DOP_FAM_NORM_ADD_1 = 1 << 3,     /* Hugging Face checkpoints store norm weights minus 1 */
    DOP_FAM_NOT_GATED = 1 << 4,      /* act(up) instead of act(gate) * up */
    DOP_FAM_LEARNED_POS = 1 << 5,    /* learned position embedding instead of RoPE */
    DOP_FAM_QK_NORM = 1 << 6,        /* norm of each q and k head */
    DOP_FAM_QK_NORM_ROW = 1 << 7,    /* one norm over all q heads and one over all k heads */
    DOP_FAM_EMBED_SQRT = 1 << 8,     /* embedding is multiplied by sqrt(hidden) */
    DOP_FAM_QUERY_SCALAR = 1 << 9,   /* field query_pre_attn_scalar */
    DOP_FAM_SOFTCAPS = 1 << 10,      /* fields attn_logit_softcapping, final_logit_softcapping */
    DOP_FAM_MULTIPLIERS = 1 << 11,   /* Granite's four multipliers (embedding, attention, residual, logits) */
    DOP_FAM_LOCAL_ROPE = 1 << 12,    /* sliding layers have their own RoPE base */
    DOP_FAM_NOPE = 1 << 13,          /* field no_rope_layers */
    DOP_FAM_TIED = 1 << 14,          /* tie_word_embeddings defaults to true */
    DOP_FAM_NO_NORM_BIAS = 1 << 15,  /* LayerNorm has no bias unless field bias_norm sets it */
    DOP_FAM_ROPE_PAIRS = 1 << 16,    /* Hugging Face checkpoints rotate pairs (2i, 2i+1) */
    DOP_FAM_NOPE_FULL = 1 << 17,     /* in models with a window, layers without one have no RoPE */
    DOP_FAM_ONE_NORM = 1 << 18,      /* parallel layers: the feed-forward part has no norm of its own */
    DOP_FAM_LOGIT_SCALE = 1 << 19,   /* field logit_scale */
    DOP_FAM_V_NORM = 1 << 20,        /* norm of each v head, without weights */
    DOP_FAM_LAYER_SCALE = 1 << 21,   /* the residual stream is multiplied by a learned value after each layer */
    DOP_FAM_HEADS_BY_TYPE = 1 << 22, /* fields global_head_dim, num_global_key_value_heads, per_layer_config */
    DOP_FAM_LATENT = 1 << 24,        /* latent attention: fields kv_lora_rank, q_lora_rank, qk_nope_head_dim, ... */
    DOP_FAM_LAYER_INPUTS =
        1 << 25,                  /* fields hidden_size_per_layer_input, num_kv_shared_layers, attention_k_eq_v, ... */
    DOP_FAM_SINKS = 1 << 23,      /* attention sinks: a learned logit per head in the softmax */
    DOP_FAM_PLAIN_NORM = 1 << 26, /* norms have no weights */
    DOP_FAM_CLIP = 1 << 27,       /* field clip_qkv */
    DOP_FAM_HEAD_NORM = 1 << 28,  /* with QK_NORM: norm weights are per head, without bias */
    DOP_FAM_NORM_AFTER = 1 << 29, /* with QK_NORM: q and k are normalized after the rotation */
    DOP_FAM_SUB_NORMS = 1 << 30   /* norms of the inputs of attention's output projection and of the down projection */
};
/* Family flags beyond bit 30, which do not fit an enum constant (an int). */
#define DOP_FAM_EMBED_NORM (1ull << 31)  /* the embedding is normalized */
#define DOP_FAM_QK_PLAIN (1ull << 32)    /* with QK_NORM: norms of q, k and the embedding have no weights */
#define DOP_FAM_FINAL_WHOLE (1ull << 33) /* with NORM_ADD_1: the final norm's weights are stored unchanged */
#define DOP_FAM_MUP (1ull << 34)         /* MiniCPM's fields scale_emb, scale_depth, dim_model_base */
#define DOP_FAM_MULTI_QUERY \
    (1ull << 35) /* Falcon's fields multi_query, new_decoder_architecture, num_ln_in_parallel_attn */
#define DOP_FAM_ONE_BASE \
    (1ull                \
     << 37) /* with LOCAL_ROPE: files may state one base for all layers; scaling applies to full-attention layers only */
#define DOP_FAM_SWA_HEADS (1ull << 38) /* MiMo: sliding layers have sinks and their own head counts; field v_head_dim */
#define DOP_FAM_LOGIT_TIMES (1ull << 39)  /* field output_multiplier (factor on the logits) */
#define DOP_FAM_DIFFERENTIAL (1ull << 40) /* differential attention (dop_attention.differential) */
#define DOP_FAM_ALTUP \
    (1ull             \
     << 41) /* AltUp (dop_altup): fields altup_num_inputs, laurel_rank, activation_sparsity_pattern; feed-forward width per layer */
#define DOP_FAM_DOGE \
    (1ull << 42) /* Doge: learned biases of keys, learned weights of residual streams; field keep_window_size */
#define DOP_FAM_ENCODER (1ull << 43) /* encoder: no output matrix, rows attend in both directions */
#define DOP_FAM_SUM_NORM \
    (1ull << 44) /* the residual stream is normalized after each addition; there is no final norm */
#define DOP_FAM_POSITIONS_2 (1ull << 45) /* the first two rows of the position embedding are unused */
#define DOP_FAM_T5 (1ull << 46)    /* fields relative_attention_num_buckets, feed_forward_proj; scores are not scaled */
#define DOP_FAM_INDEX (1ull << 47) /* sparse attention: fields index_n_heads, index_head_dim, index_topk, ... */
#define DOP_FAM_INDEX_PAIRS (1ull << 48) /* the sparse index rotates pairs (2i, 2i+1) by default */
#define DOP_FAM_OPT (1ull << 49) /* fields do_layer_norm_before, _remove_final_layer_norm, word_embed_proj_dim */
#define DOP_FAM_SCALE_ALONE \
    (1ull << 50) /* with LATENT: the scale of scores depends on head_dim only; YaRN's factor is ignored */
#define DOP_FAM_CROSS (1ull << 51) /* cross-attention to an encoder's rows; the key projection has no bias */
#define DOP_FAM_EAGLE \
    (1ull << 52) /* EAGLE drafter (dop_eagle): a single layer without embedding or head of a whole model */
#define DOP_FAM_READER (1ull << 54)   /* drafter whose layers read a model's keys and values (dop_sharer) */
#define DOP_FAM_HALF_FFN (1ull << 53) /* files state twice the feed-forward width */
#define DOP_FAM_ALIBI (1ull << 36)    /* ALiBi position bias instead of RoPE */

/* Boolean fact: config.json field that states it, and its default. key NULL: `otherwise` holds for all models of the family. */
typedef struct dop_fact_field {
    const char *key;
    bool otherwise;
} dop_fact_field;

/* Size: config.json field that states it, and its default; default 0: the field is required. Key "one|other": reads `other` if
 * the file has it, otherwise `one`. key NULL: the family has no such size. */
typedef struct dop_size_field {
    const char *key;
    uint32_t otherwise;
} dop_size_field;

/* Fields of config.json that describe a family's recurrent mixer (dop_recurrent) and its layers. */
typedef struct dop_hf_recurrent {
    dop_mixer_kind kind;
    const char *layer_types[2]; /* names of recurrent layers in layer_types; none: every layer is recurrent */
    const char *interval;       /* without layer_types: field n, where every n-th layer is attention */
    const char *attention_list; /* without layer_types: field that lists the attention layers */
    const char *positions;      /* field with value "rope" if attention has RoPE; NULL: it always has */
    bool beside;                /* recurrent layers have both the mixer and attention, in parallel */
    dop_size_field taps, heads, head_dim, groups, state_dim;
    /* Optional fields with the total width of all value heads: in values, and as a multiple of the model's width. */
    const char *width, *expand;
    dop_fact_field conv_bias;
    bool norm, norm_rows; /* the mixer has a norm; sets dop_recurrent.norm_rows */
    bool gguf_in_turn;    /* sets dop_recurrent.in_turn for GGUF files, whose value heads are stored in that order */
    bool multipliers;     /* reads Falcon-H1's multipliers of projections */
    bool hybrid;          /* Zamba 2: layers called "hybrid" in layers_block_type have a shared block (dop_side) */
    /* a layer is either a mixer or a feed-forward part: fields layers_block_type, hybrid_override_pattern */
    bool blocks;
    bool norm_groups; /* sets dop_recurrent.norm_groups */
    /* Set dop_recurrent.selective and .each. A selective scan has `expand` times the model's width heads; no field
     * states the number. */
    bool selective, each;
    dop_size_field dt_rank;      /* sets dop_recurrent.dt_rank */
    const char *period, *offset; /* fields with numbers: layer i is attention if i % period == offset */
    bool low_rank_gate;          /* gate and dt are low-rank projections of rank head_dim */
    bool gate_sigmoid;           /* sets dop_recurrent.gate_sigmoid */
    const char *gate_type;       /* field with value "sigmoid" if the gate is a sigmoid; NULL: gate_sigmoid applies */
    /* selective scan: norms of B, C and of the low-rank values that dt is projected from */
    bool small_norms;
    bool counts_from_1; /* layers in attention_list are counted from 1 */
    bool pre_norm;   /* recurrent layers have norms before mixer and feed-forward part; other layers have them after */
    double norm_eps; /* eps of the mixer's norm; 0: as all norms */
    const char *doubles_beta; /* field that is true if the delta rule's beta is in 0 .. 2 instead of 0 .. 1 */
    bool own_act;             /* the stated activation is for feed-forward parts only; the mixer uses SiLU */
    bool adjusts_ffn;         /* LFM2: fields block_* adjust the feed-forward width */
} dop_hf_recurrent;

/* Returns the mixer facts fixed by the family: sizes are 0, factors 1, and there are no norms. */
static inline dop_recurrent
dop_family_recurrent(const dop_hf_recurrent *r)
{
    return (dop_recurrent){.delta = r->kind == DOP_MIXER_DELTA,
                           .skip = r->kind == DOP_MIXER_SSM,
                           .norm_rows = r->norm_rows,
                           .norm_groups = r->norm_groups,
                           .selective = r->selective,
                           .each = r->each,
                           .gate_sigmoid = r->gate_sigmoid,
                           .beta_scale = 1,
                           .in_scale = 1,
                           .gate_scale = 1,
                           .dt_scale = 1,
                           .value_scale = 1,
                           .key_scale = 1,
                           .query_scale = 1};
}

/* Rule for the layers with a sliding window if config.json has no layer_types. */
typedef enum dop_window_rule {
    DOP_WINDOW_NONE,    /* the family has no sliding window */
    DOP_WINDOW_ALL,     /* every layer, if sliding_window is set */
    DOP_WINDOW_QWEN,    /* with use_sliding_window: layers from max_window_layers on */
    DOP_WINDOW_PATTERN, /* all but every n-th layer; n: sliding_window_pattern, or the family's period */
    /* All layers except 0, n, 2n, ..., which are full; n: global_attn_every_n_layers. Field local_attention is the total window
     * width, both sides together. */
    DOP_WINDOW_GLOBAL,
    DOP_WINDOW_NOPE,  /* with use_sliding_window: layers without RoPE */
    DOP_WINDOW_CHUNKS /* no window: layers with RoPE attend within chunks of attention_chunk_size positions */
} dop_window_rule;

/* Storage of a weight in its tensor: which rows of a fused tensor, or another stored form. A comment that begins with "rows"
 * lists the rows of the fused tensor for this and the following members. */
typedef enum dop_slice {
    DOP_PART_ALL,
    DOP_PART_ROW, /* a vector that is stored as a matrix of one row */
    DOP_PART_Q,   /* rows: q, k, v */
    DOP_PART_K,
    DOP_PART_V,
    DOP_PART_HEAD_Q, /* rows: q, k, v of head 0, then of head 1, ... */
    DOP_PART_HEAD_K,
    DOP_PART_HEAD_V,
    DOP_PART_GQA_Q, /* rows: per head group its query heads, its key head, its value head */
    DOP_PART_GQA_K,
    DOP_PART_GQA_V,
    DOP_PART_BELOW_2, /* all rows except the first two, which are unused */
    DOP_PART_HEADS,   /* a vector stored as a matrix with a row per head */
    DOP_PART_FLAT,    /* rank 3, stored as one matrix: the experts' matrices one after another */
    DOP_PART_PAIR_Q,  /* rows: per head query, gate */
    DOP_PART_PAIR_GATE,
    DOP_PART_MIX_Z, /* rows: a recurrent mixer's gate, convolution input, dt */
    DOP_PART_MIX_IN,
    DOP_PART_MIX_DT,
    DOP_PART_GROUP_Q, /* rows: per group of a recurrent mixer query, key, values, gate */
    DOP_PART_GROUP_K,
    DOP_PART_GROUP_V,
    DOP_PART_GROUP_Z,
    DOP_PART_GROUP_BETA, /* rows: per group of a recurrent mixer beta, dt */
    DOP_PART_GROUP_DT,
    DOP_PART_THIRD_1, /* rows: three matrices of equal height */
    DOP_PART_THIRD_2,
    DOP_PART_THIRD_3,
    DOP_PART_KEYS,      /* one of several tensors of the weight: keys or queries of all groups of a recurrent mixer */
    DOP_PART_VALUES,    /* one of several tensors of the weight: values of all heads of a recurrent mixer */
    DOP_PART_SELECT_DT, /* rows: low-rank dt, B, C of a selective scan */
    DOP_PART_SELECT_K,
    DOP_PART_SELECT_Q,
    /* differential attention: for each i, value heads i and i + n_kv_heads / 2; the whole list twice */
    DOP_PART_PAIRED,
    /* differential attention: a single value computed from the vectors NAME_q1, NAME_k1, NAME_q2, NAME_k2 */
    DOP_PART_LAMBDA,
    DOP_PART_FOURFOLD, /* every stored row (or value of a vector) is repeated four times */
    DOP_PART_LOOSE,    /* a vector stored in any shape with the right number of values */
    DOP_PART_TAPS,     /* convolution taps, stored [channels, 1, taps] */
    DOP_PART_GATE,     /* rows: gate, up */
    DOP_PART_UP,
    DOP_PART_EVEN, /* rows: two matrices interleaved row by row */
    DOP_PART_ODD,
    DOP_PART_PLAIN, /* rows: latent attention: per query head the values without rotation, then the rotated ones */
    DOP_PART_ROTATED,
    DOP_PART_LATENT, /* rows: latent attention: cached latent values, then the rotated values of the key */
    DOP_PART_LATENT_ROTATED,
    DOP_PART_K_UP, /* rows: latent attention: per head the key matrix (transposed), then the value matrix */
    DOP_PART_V_UP,
    DOP_PART_DECAY, /* GGUF: the file stores -exp(x) of the value x that the graph reads */
    DOP_PART_KEY    /* GGUF: a metadata key instead of a tensor, with one value per layer or one for all */
} dop_slice;

/* Tensor name of a weight in a format, without prefix and layer ("model." and "layers.<i>." of Hugging Face, "blk.<i>." of GGUF).
 * A weight of rank 3 is one tensor with the experts as first axis. If the name has a *, each expert has a tensor, and * is its
 * number: "mlp.experts.*.up_proj.weight". Consecutive entries of one role name parts of one weight: matrices one after another
 * with dop_rows.own rows each, or taps of channel groups. */
typedef struct dop_tensor_name {
    dop_role role; /* none: end of the list */
    const char *source;
    dop_slice part;
    bool transposed; /* stored [input, output] (Conv1D) */
} dop_tensor_name;

/* Fields of config.json that families spell differently. NULL: the family has no such field (no `heads`: no attention). hidden,
 * layers, heads and eps may be "one|other": reads `other` if the file has it, otherwise `one`. */
typedef struct dop_hf_keys {
    const char *hidden, *layers, *heads, *ctx, *ffn, *act, *eps;
    const char *kv_heads;        /* NULL: num_key_value_heads */
    const char *theta, *partial; /* RoPE base, rotated fraction of a head; NULL: rope_theta, partial_rotary_factor */
} dop_hf_keys;

/* Fields of config.json for a mixture of experts, and facts of all models of the family. NULL keys are not read. */
typedef struct dop_expert_keys {
    const char *n, *n_too;           /* number of experts; n_too replaces n if the file has it */
    const char *active;              /* active experts per row */
    const char *width;               /* hidden width of one expert */
    const char *shared_width;        /* hidden width of the shared expert; alternative: shared_n */
    const char *shared_n;            /* hidden width of the shared expert as a multiple of an expert's width */
    const char *normalized;          /* field for dop_experts.normalized (boolean) */
    const char *norm_order;          /* field for dop_experts.normalized (1: by the sum of the weights; null: no) */
    const char *scale;               /* factor on the sum of the chosen experts */
    const char *groups, *group_keep; /* number of expert groups; number of best groups that are kept */
    /* first and last layer with experts, from 0; a negative last counts from the end */
    const char *first, *last;
    const char *step;         /* every step-th layer between first and last has experts, counted from 1 */
    const char *offset;       /* with step: number of a layer with experts, which fixes the phase */
    const char *dense, *only; /* list of layers without experts; list of layers with experts */
    const char *limit;        /* limit of DOP_ACT_CLAMPED; only one value is supported */
    const char *jitter;       /* field with half of dop_experts.near */
    const char *correction;   /* field that enables the correction; NULL: facts.correction applies */
    const char *enabled;      /* field that enables experts; NULL: always enabled */
    /* Experts and a dense part work in parallel, with separate norms. The router reads the stream through a third norm, and its
     * logits are divided by sqrt(hidden). */
    bool beside;
    /* In a file with 0 experts, each layer's feed-forward part is the shared expert, as a dense part. */
    bool shared_alone;
    /* Defaults of n, active, shared_width or shared_n, and first; UINT32_MAX: the file must state it. */
    uint32_t n_otherwise, active_otherwise, shared_otherwise, first_otherwise;
    bool gguf_normalized; /* dop_experts.normalized for GGUF files without key expert_weights_norm */
    bool gguf_plain;   /* GGUF files without expert_gating_func use softmax scores and normalize only if they say so */
    dop_experts facts; /* facts of all models, and defaults of facts that are read */
} dop_expert_keys;

/* Classification head of an encoder: dense layers after the final norm; the last one gives the class scores. */
typedef struct dop_class_head {
    const char *names[DOP_MAX_DENSE]; /* tensor names of the dense layers, without ".weight" */
    const char *act;                  /* activation after every dense layer except the last */
    dop_pool_kind pool;
    bool no_bias;     /* the last dense layer has no bias */
    const char *norm; /* norm after the first dense layer's activation; NULL: none */
} dop_class_head;

enum { DOP_FAMILY_NAMES = 6 }; /* maximum number of names of a family in config.json */
typedef struct dop_family {
    const char *name;
    const char *archs[DOP_FAMILY_NAMES];       /* config.json architectures; the first is shown in messages */
    const char *model_types[DOP_FAMILY_NAMES]; /* config.json model_type */
    uint64_t flags;                            /* DOP_FAM_* */
    dop_fact_field bias_qkv, bias_o, bias_ffn, bias_head, bias_norm, parallel;
    bool bias_down;                                      /* sets dop_ffn.bias_down */
    bool attn_gate, attn_gate_heads, attn_gate_softplus; /* set dop_attention.gate, gate_heads and gate_softplus */
    dop_fact_field embed_sqrt;         /* the embedding is multiplied by sqrt of its width, without rounding */
    const dop_hf_recurrent *recurrent; /* recurrent mixer; NULL: none */
    dop_fact_field qk_norm;            /* field that enables the q and k norms of the flags; no key: enabled */
    dop_window_rule window_rule;
    uint32_t types, relative_most;    /* defaults of dop_encoder.n_types and dop_relative.most */
    dop_pool_kind pool;               /* default pooling of an encoder; DOP_BY_NONE: not an encoder */
    bool reranks;                     /* text models may be rerankers that answer yes or no (frontend/hf/reranker.c) */
    const dop_class_head *class_head; /* classification head; NULL: none */
    const dop_hf_keys *keys;
    const dop_expert_keys *experts; /* mixture of experts; NULL: all layers are dense */
    bool experts_either;            /* tensors with all experts' matrices may be stored transposed */
    const dop_tensor_name *names;
    const dop_tensor_name *more_names; /* names searched before `names`; NULL: none */
    const char *prefix;                /* tensor name prefix if no known one matches the tensors */
    const char *layer_prefix;          /* "layers." */
    const char *gguf;                  /* general.architecture of GGUF files, separated by spaces */
    const char *gguf_encoders;         /* names in `gguf` whose models are bidirectional and return vectors */
    const char
        *gguf_as; /* GGUF name under which models are converted, if the family has no name of its own; NULL: none */
    const dop_tensor_name *more_gguf_names; /* names searched before dop_gguf_names; NULL: none */
    /* GGUF: rotary pairs are (2i, 2i+1); a file may state a window for every layer although the family has none, as files of
     * other families use its name. */
    bool gguf_interleaved, gguf_windows;
    bool gguf_untruncated; /* GGUF: YaRN's correction range is not rounded, which files do not state */
    /* GGUF: models with this many layers use the query scale 1/sqrt(hidden / heads) instead of 1/sqrt(head_dim); 0:
     * none. */
    uint32_t gguf_wide_layers;
    uint32_t gguf_period; /* GGUF: default of `period`; 0: `period` */
    bool gguf_full_first; /* GGUF: the first layer of each period is full instead of the last */
    /* Defaults of the family's transformers configuration class; 0 or NULL: the field is required. */
    uint32_t kv_heads, heads, head_dim, vocab, ctx, window, period;
    uint32_t ffn_times; /* feed-forward width as a multiple of hidden; 0: none */
    const char *act;
    double attn_scale;          /* factor on q.k; 0: 1/sqrt(head_dim) */
    double eps, theta, partial; /* partial: rotated fraction of a head; 0: all */
} dop_family;
/* Tensor names of Llama's layout; differing names for layers with norms before and after each part. */
extern const dop_tensor_name dop_hf_names_common[], dop_hf_names_sandwich[];
/* Rows of a fused tensor that hold a weight; for rank 3, the rows in each expert's tensor. */
typedef struct dop_rows {
    uint64_t start, total; /* first row of the weight; total rows of the tensor */
    bool one_row;          /* a vector stored as a matrix of one row */
    uint64_t each;         /* rank 3 in a tensor of rank 2: values from one expert's matrix to the next; 0: adjacent */
    uint32_t block,
        block_step; /* contiguous rows; rows from one block's start to the next; 0: all rows are contiguous */
    uint32_t own;   /* rows of this part if the weight may continue in another tensor; 0: all rows */
    uint32_t row;   /* a vector stored as a matrix with rows of this many values; 0: not */
    bool loose;     /* a vector stored in any shape */
    bool flat;      /* rank 3 stored as rank 2: the experts' matrices one after another */
    bool turned;    /* taps: a vector [block_step, block] stored as [block, 1, block_step] */
} dop_rows;

struct dop_st_set;
struct json_t;

#endif
