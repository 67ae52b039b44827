/* What the importers share: the table of families (families.c) and the entry function of each format.
 *
 * A family is a row: how its files spell things, and which facts hold for all of its models.  All other facts are stated by
 * the file.  Nothing after the importers looks at a family. */
#ifndef DOPPLER_FRONTEND_FACTS_IMPORT_H
#define DOPPLER_FRONTEND_FACTS_IMPORT_H

#include "frontend/facts/arch.h"

/* Facts of a family, or which optional fields of config.json it has. */
enum {
    DOP_FAM_PRE_NORM = 1 << 0,       /* norms before attention and feed-forward */
    DOP_FAM_POST_NORM = 1 << 1,      /* norms after attention and feed-forward, before the residual add */
    DOP_FAM_LAYER_NORM = 1 << 2,     /* LayerNorm with bias instead of RMSNorm */
    DOP_FAM_NORM_ADD_1 = 1 << 3,     /* Hugging Face checkpoints store norm weights minus 1 */
    DOP_FAM_NOT_GATED = 1 << 4,      /* act(up) instead of act(gate) * up */
    DOP_FAM_LEARNED_POS = 1 << 5,    /* a position embedding instead of rotary */
    DOP_FAM_QK_NORM = 1 << 6,        /* norm of every q and k head */
    DOP_FAM_QK_NORM_ROW = 1 << 7,    /* one norm over all heads of q, and one over all heads of k */
    DOP_FAM_EMBED_SQRT = 1 << 8,     /* embedding times sqrt(hidden) */
    DOP_FAM_QUERY_SCALAR = 1 << 9,   /* field query_pre_attn_scalar */
    DOP_FAM_SOFTCAPS = 1 << 10,      /* fields attn_logit_softcapping, final_logit_softcapping */
    DOP_FAM_MULTIPLIERS = 1 << 11,   /* Granite's four multipliers */
    DOP_FAM_LOCAL_ROPE = 1 << 12,    /* sliding layers have a rotary base of their own */
    DOP_FAM_NOPE = 1 << 13,          /* field no_rope_layers */
    DOP_FAM_TIED = 1 << 14,          /* tie_word_embeddings is true where config.json does not say */
    DOP_FAM_NO_NORM_BIAS = 1 << 15,  /* LayerNorm has a weight only, unless bias_norm says otherwise */
    DOP_FAM_ROPE_PAIRS = 1 << 16,    /* Hugging Face checkpoints rotate pairs (2i, 2i+1) */
    DOP_FAM_NOPE_FULL = 1 << 17,     /* in models with a window, layers without a window do not rotate */
    DOP_FAM_ONE_NORM = 1 << 18,      /* a parallel layer's feed-forward part has no norm of its own */
    DOP_FAM_LOGIT_SCALE = 1 << 19,   /* field logit_scale */
    DOP_FAM_V_NORM = 1 << 20,        /* norm of every v head, without weights */
    DOP_FAM_LAYER_SCALE = 1 << 21,   /* the residual stream is multiplied by a learned value after each layer */
    DOP_FAM_HEADS_BY_TYPE = 1 << 22, /* fields global_head_dim, num_global_key_value_heads, per_layer_config */
    DOP_FAM_LATENT = 1 << 24,        /* latent attention: fields kv_lora_rank, q_lora_rank, qk_nope_head_dim, ... */
    DOP_FAM_LAYER_INPUTS =
        1 << 25,                  /* fields hidden_size_per_layer_input, num_kv_shared_layers, attention_k_eq_v, ... */
    DOP_FAM_SINKS = 1 << 23,      /* a learned logit per head takes part in attention's softmax */
    DOP_FAM_PLAIN_NORM = 1 << 26, /* norms have no weights */
    DOP_FAM_CLIP = 1 << 27,       /* field clip_qkv */
    DOP_FAM_HEAD_NORM = 1 << 28,  /* with QK_NORM: every head has norm weights of its own, and there is no bias */
    DOP_FAM_NORM_AFTER = 1 << 29, /* with QK_NORM: q and k are normed after the rotation, not before it */
    DOP_FAM_SUB_NORMS = 1 << 30   /* norms of the input of attention's output projection and of the down projection */
};
/* Flags DOP_FAM_* that an enum constant, which is an int, has no room for. */
#define DOP_FAM_EMBED_NORM (1ull << 31)  /* the embedding is normed */
#define DOP_FAM_QK_PLAIN (1ull << 32)    /* with QK_NORM: the norms of q, k and the embedding have no weights */
#define DOP_FAM_FINAL_WHOLE (1ull << 33) /* with NORM_ADD_1: the last norm's weights are stored as they are */
#define DOP_FAM_MUP (1ull << 34)         /* MiniCPM's fields scale_emb, scale_depth, dim_model_base */
#define DOP_FAM_MULTI_QUERY \
    (1ull << 35) /* Falcon's fields multi_query, new_decoder_architecture, num_ln_in_parallel_attn */
#define DOP_FAM_ONE_BASE \
    (1ull << 37) /* with LOCAL_ROPE: files may state one base for all layers, and scaling for the full ones only */
#define DOP_FAM_SWA_HEADS (1ull << 38)    /* MiMo: sliding layers have sinks and other head counts; field v_head_dim */
#define DOP_FAM_LOGIT_TIMES (1ull << 39)  /* field output_multiplier */
#define DOP_FAM_DIFFERENTIAL (1ull << 40) /* differential attention */
#define DOP_FAM_ALTUP \
    (1ull << 41) /* dop_altup; fields altup_num_inputs, laurel_rank, activation_sparsity_pattern; widths by layer */
#define DOP_FAM_DOGE \
    (1ull << 42) /* key_bias, residual_weights: learned biases of keys, weights of streams; field keep_window_size */
#define DOP_FAM_ENCODER (1ull << 43)     /* an encoder: no output matrix, every row sees all rows of its text */
#define DOP_FAM_SUM_NORM (1ull << 44)    /* the residual stream is normed after each addition, and not at the end */
#define DOP_FAM_POSITIONS_2 (1ull << 45) /* the table of position embeddings begins with two rows that are not used */
#define DOP_FAM_T5 (1ull << 46)    /* fields relative_attention_num_buckets, feed_forward_proj; scores are not scaled */
#define DOP_FAM_INDEX (1ull << 47) /* sparse attention: fields index_n_heads, index_head_dim, index_topk, ... */
#define DOP_FAM_INDEX_PAIRS (1ull << 48) /* the index rotates pairs where config.json does not say */
#define DOP_FAM_OPT (1ull << 49) /* fields do_layer_norm_before, _remove_final_layer_norm, word_embed_proj_dim */
#define DOP_FAM_SCALE_ALONE \
    (1ull << 50)                   /* with LATENT: the scale of scores is that of the heads alone, whatever YaRN says */
#define DOP_FAM_CROSS (1ull << 51) /* layers attend to an encoder's rows; keys have no bias */
#define DOP_FAM_EAGLE (1ull << 52) /* a drafter (dop_eagle): a layer without a model around it */
#define DOP_FAM_READER (1ull << 54)   /* a drafter (dop_sharer): layers that read a model's keys and values */
#define DOP_FAM_HALF_FFN (1ull << 53) /* files state twice the width of the feed-forward part */
#define DOP_FAM_ALIBI (1ull << 36)    /* ALiBi: attention scores fall with the distance; no rotary embedding */

/* A yes-or-no fact: the field of config.json that decides it, and its value where the file is silent.  No key: `otherwise` holds for
 * all models of the family. */
typedef struct dop_fact_field {
    const char *key;
    bool otherwise;
} dop_fact_field;

/* A size: the field of config.json that states it, and its default where the file is silent; default 0: the file must state it.
 * A key "one|other" is read as `other` where the file has that field, else as `one`.  No key: the family has no such size. */
typedef struct dop_size_field {
    const char *key;
    uint32_t otherwise;
} dop_size_field;

/* How config.json states the recurrent mixer of a family (dop_recurrent), and which layers have it. */
typedef struct dop_hf_recurrent {
    dop_mixer_kind kind;
    const char *layer_types[2]; /* what layer_types calls recurrent layers; none: every layer is recurrent */
    const char *interval;       /* without layer_types: the field whose value n makes every n-th layer attention */
    const char *attention_list; /* without layer_types: the field that lists the attention layers */
    const char *positions; /* the field that says "rope" where attention has a rotary embedding; NULL: it always has */
    bool beside;           /* recurrent layers have the mixer beside attention, not instead of it */
    dop_size_field taps, heads, head_dim, groups, state_dim;
    /* Fields that also state the width of all heads of values together: as a number, and as a multiple of the model's width. */
    const char *width, *expand;
    dop_fact_field conv_bias;
    bool norm, norm_rows; /* the mixer has a norm; dop_recurrent.norm_rows */
    bool gguf_in_turn;    /* dop_recurrent.in_turn in GGUF files: their value heads are stored in turn */
    bool multipliers;     /* Falcon-H1's multipliers of projections are read */
    bool hybrid;          /* Zamba 2: layers that layers_block_type calls "hybrid" have a shared block (dop_side) */
    bool blocks;      /* a layer is a mixer or a feed-forward part: fields layers_block_type, hybrid_override_pattern */
    bool norm_groups; /* dop_recurrent.norm_groups */
    /* dop_recurrent.selective and .each.  A selective scan's heads are not stated: there are `expand` times the model's width. */
    bool selective, each;
    dop_size_field dt_rank;      /* dop_recurrent.dt_rank */
    const char *period, *offset; /* fields of numbers: layer i is attention where i % period == offset */
    bool low_rank_gate;          /* the gate and dt are low-rank projections, of rank head_dim */
    bool gate_sigmoid;           /* dop_recurrent.gate_sigmoid */
    const char *gate_type;       /* the field that says "sigmoid" where the gate is one; NULL: gate_sigmoid says it */
    bool small_norms;            /* selective scan: B, C and the low-rank values that dt is computed from are normed */
    bool counts_from_1;          /* the layers in attention_list are counted from 1, not from 0 */
    bool pre_norm;   /* recurrent layers have norms before mixer and feed-forward part, other layers after them */
    double norm_eps; /* eps of the mixer's norm; 0: the eps of all norms */
    const char *doubles_beta; /* the field that says that the delta rule's beta lies in 0 .. 2 instead of 0 .. 1 */
    bool own_act;             /* the stated activation is for feed-forward parts only; the mixer uses SiLU */
    bool adjusts_ffn;         /* LFM2: the fields block_* correct the feed-forward width */
} dop_hf_recurrent;

/* The mixer as far as its family says it: sizes are 0, factors 1, and there are no norms. */
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

/* Which layers slide when config.json has no layer_types. */
typedef enum dop_window_rule {
    DOP_WINDOW_NONE,    /* the family has no sliding window */
    DOP_WINDOW_ALL,     /* every layer, when sliding_window is set */
    DOP_WINDOW_QWEN,    /* with use_sliding_window: layers from max_window_layers on */
    DOP_WINDOW_PATTERN, /* all but every n-th layer; n is sliding_window_pattern, or the family's period */
    /* All but every n-th layer, starting with the first, which is full; n is global_attn_every_n_layers.  The field
     * local_attention is the width of both sides together. */
    DOP_WINDOW_GLOBAL,
    DOP_WINDOW_NOPE,  /* with use_sliding_window: layers without rotary embedding */
    DOP_WINDOW_CHUNKS /* no window: layers with rotary embedding see chunks of attention_chunk_size positions */
} dop_window_rule;

/* Where a weight lies in its tensor: which rows of a fused tensor, or which other form the file stores.  A comment that begins with
 * "rows" describes the whole fused tensor of the members that follow. */
typedef enum dop_slice {
    DOP_PART_ALL,
    DOP_PART_ROW, /* a vector that is stored as a matrix of one row */
    DOP_PART_Q,   /* rows: q, k and v below each other */
    DOP_PART_K,
    DOP_PART_V,
    DOP_PART_HEAD_Q, /* rows: q, k and v of the first head, then q, k and v of the second, ... */
    DOP_PART_HEAD_K,
    DOP_PART_HEAD_V,
    DOP_PART_GQA_Q, /* rows: the query heads of the first head group, its key head and its value head, then the second group's, ... */
    DOP_PART_GQA_K,
    DOP_PART_GQA_V,
    DOP_PART_BELOW_2, /* all rows but the first two, which are not used */
    DOP_PART_HEADS,   /* a vector that is stored as a matrix with a row for each head */
    DOP_PART_FLAT,    /* a weight of rank 3 that is stored as one matrix, the experts' matrices below each other */
    DOP_PART_PAIR_Q,  /* rows: query and gate of the first head, then query and gate of the second, ... */
    DOP_PART_PAIR_GATE,
    DOP_PART_MIX_Z, /* rows: a recurrent mixer's gate, convolution input and dt below each other */
    DOP_PART_MIX_IN,
    DOP_PART_MIX_DT,
    DOP_PART_GROUP_Q, /* rows: query, key, values and gate of a recurrent mixer's first group, then those of its second group, ... */
    DOP_PART_GROUP_K,
    DOP_PART_GROUP_V,
    DOP_PART_GROUP_Z,
    DOP_PART_GROUP_BETA, /* rows: beta and dt of a recurrent mixer's first group, then beta and dt of its second, ... */
    DOP_PART_GROUP_DT,
    DOP_PART_THIRD_1, /* rows: three matrices of equal height below each other */
    DOP_PART_THIRD_2,
    DOP_PART_THIRD_3,
    DOP_PART_KEYS, /* a tensor that is one of several parts of the weight: a recurrent mixer's keys, or queries, of all groups */
    DOP_PART_VALUES, /* a tensor that is one of several parts of the weight: a recurrent mixer's values of all heads */
    DOP_PART_SELECT_DT, /* rows: a selective scan's low-rank dt, B and C below each other */
    DOP_PART_SELECT_K,
    DOP_PART_SELECT_Q,
    DOP_PART_PAIRED, /* differential attention: value heads i and i + n_kv_heads / 2 below each other for each i, and all of it twice */
    DOP_PART_LAMBDA, /* differential attention: one value, computed from the vectors NAME_q1, NAME_k1, NAME_q2, NAME_k2 */
    DOP_PART_FOURFOLD, /* the weight has every stored row, or value of a vector, four times */
    DOP_PART_LOOSE,    /* a vector that is stored in any shape with the right number of values */
    DOP_PART_TAPS,     /* the taps of a convolution, stored [channels, 1, taps] */
    DOP_PART_GATE,     /* rows: gate and up below each other */
    DOP_PART_UP,
    DOP_PART_EVEN, /* rows: two matrices interleaved row by row */
    DOP_PART_ODD,
    DOP_PART_PLAIN, /* rows: in latent attention, each head's query: values that are not rotated, then rotated values */
    DOP_PART_ROTATED,
    DOP_PART_LATENT, /* rows: in latent attention, the values in the cache, then the rotated values of the key */
    DOP_PART_LATENT_ROTATED,
    DOP_PART_K_UP, /* rows: in latent attention, each head's matrix of keys, transposed, then its matrix of values */
    DOP_PART_V_UP,
    DOP_PART_DECAY, /* GGUF: the file stores -exp(x) for each value x that the graph reads */
    DOP_PART_KEY    /* GGUF: a key of the metadata instead of a tensor, with a value per layer or one for all layers */
} dop_slice;

/* The name of a weight's tensor in a format, without prefix and layer: Hugging Face's prefix is "model." and "layers.<i>.", GGUF's
 * "blk.<i>.".  A weight of rank 3 is one tensor with the experts as its first axis, or, where the name has a *, a tensor for each
 * expert, whose number replaces the *: "mlp.experts.*.up_proj.weight".  Several consecutive rows of one role name parts of
 * one weight: matrices below each other, of dop_rows.own rows each, or taps of groups of channels. */
typedef struct dop_tensor_name {
    dop_role role; /* none ends the list */
    const char *source;
    dop_slice part;
    bool transposed; /* stored [input, output] (Conv1D) */
} dop_tensor_name;

/* Fields of config.json that families spell differently.  NULL: the family has no such field; without `heads` it has no attention.
 * hidden, layers, heads and eps may be "one|other": `other` is read where the file has that field, else `one`. */
typedef struct dop_hf_keys {
    const char *hidden, *layers, *heads, *ctx, *ffn, *act, *eps;
    const char *kv_heads;        /* NULL: num_key_value_heads */
    const char *theta, *partial; /* rotary base and rotated part of a head; NULL: rope_theta, partial_rotary_factor */
} dop_hf_keys;

/* How a family's files spell a mixture of experts, and what holds for all of its models.  A key that is NULL is not read. */
typedef struct dop_expert_keys {
    const char *n, *n_too;           /* number of experts; n_too is read instead where the file has it */
    const char *active;              /* active experts per row */
    const char *width;               /* hidden values of one expert */
    const char *shared_width;        /* hidden values of the shared expert; shared_n states them otherwise */
    const char *shared_n;            /* hidden values of the shared expert, in widths of one expert */
    const char *normalized;          /* decides dop_experts.normalized */
    const char *norm_order;          /* the same: 1, the sum of the weights, or null, for none */
    const char *scale;               /* factor on the sum of all chosen experts */
    const char *groups, *group_keep; /* number of groups of experts; number of best groups that are kept */
    const char *first, *last;        /* layers that have experts, counted from 0; a negative last counts from the end */
    const char *step;                /* among first .. last only every step-th layer has experts, counted from 1 */
    const char *offset;              /* with step: layers are counted so that the layer of this number has experts */
    const char *dense, *only;        /* lists of layers without experts, and of layers with experts */
    const char *limit;               /* limit of DOP_ACT_CLAMPED, of which only one value is supported */
    const char *jitter;              /* the field that states half of dop_experts.near */
    const char *correction; /* the field that says whether there is a correction; NULL: facts.correction says it */
    const char *enabled;    /* the field that says whether there are experts; NULL: there are */
    /* Experts work beside a dense part in the same layer: experts and dense part have norms of their own, and the router reads the
     * stream through a third norm and divides its logits by the root of the model's width. */
    bool beside;
    /* A file that states 0 experts has the shared expert alone in each layer, which is then a dense feed-forward part. */
    bool shared_alone;
    /* Defaults of n, active, shared_width or shared_n, and first, where the file is silent; UINT32_MAX: the file must state it. */
    uint32_t n_otherwise, active_otherwise, shared_otherwise, first_otherwise;
    bool gguf_normalized; /* dop_experts.normalized for GGUF files without the key expert_weights_norm */
    bool gguf_plain; /* GGUF files without expert_gating_func score by softmax, and normalize only where they say so */
    dop_experts facts; /* what holds for all models, and defaults of what is read */
} dop_expert_keys;

/* How an encoder's files give scores of classes: products after the last norm, of which the last gives the scores. */
typedef struct dop_class_head {
    const char *names[DOP_MAX_DENSE]; /* tensor names of the products, without ".weight" */
    const char *act;                  /* activation after every product but the last */
    dop_pool_kind pool;
    bool no_bias;     /* the last product has no bias */
    const char *norm; /* name of the norm after the first product's activation; NULL: there is none */
} dop_class_head;

enum { DOP_FAMILY_NAMES = 6 }; /* names of a family in config.json, at most */
typedef struct dop_family {
    const char *name;
    const char *archs[DOP_FAMILY_NAMES];       /* config.json architectures; the first is the one to list in messages */
    const char *model_types[DOP_FAMILY_NAMES]; /* config.json model_type */
    uint64_t flags;                            /* DOP_FAM_* */
    dop_fact_field bias_qkv, bias_o, bias_ffn, bias_head, bias_norm, parallel;
    bool bias_down;                                      /* dop_ffn.bias_down */
    bool attn_gate, attn_gate_heads, attn_gate_softplus; /* dop_attention.gate and so on */
    dop_fact_field embed_sqrt;         /* the embedding is multiplied by the root of its width, which is not rounded */
    const dop_hf_recurrent *recurrent; /* NULL: there are no recurrent layers */
    dop_fact_field qk_norm;            /* whether the norms of q and k that the flags state exist; no key: they exist */
    dop_window_rule window_rule;
    uint32_t types, relative_most; /* dop_encoder.n_types and dop_relative.most, where files are silent */
    dop_pool_kind pool;            /* pooling of an encoder whose files do not state it; DOP_BY_NONE: no encoder */
    bool reranks;                  /* its text models may be rerankers that answer yes or no (import/hf/reranker.c) */
    const dop_class_head *class_head; /* NULL: no scores of classes */
    const dop_hf_keys *keys;
    const dop_expert_keys *experts; /* NULL: all layers are dense */
    bool experts_either;            /* tensors with the matrices of all experts may be stored transposed */
    const dop_tensor_name *names;
    const dop_tensor_name *more_names; /* names that are searched before `names`; NULL: none */
    const char *prefix;                /* prefix of tensor names where the tensors show no known one */
    const char *layer_prefix;          /* "layers." */
    const char *gguf;                  /* general.architecture of GGUF files; several are separated by spaces */
    const char *gguf_encoders;         /* those of `gguf` whose models attend in both directions and give vectors */
    const char *
        gguf_as; /* without a name of its own in GGUF files: the one under which its models are converted; NULL: none */
    const dop_tensor_name *more_gguf_names; /* names that differ from dop_gguf_names; NULL: none */
    /* GGUF: whether rotary pairs are (2i, 2i+1), and whether a file may state a window for every layer although the family has none
     * (files of other families use its name). */
    bool gguf_interleaved, gguf_windows;
    bool gguf_untruncated; /* GGUF: YaRN's correction range is not rounded; files do not state it */
    /* GGUF: models of this many layers have the query scale 1/sqrt(hidden / heads) instead of 1/sqrt(head_dim); 0: none has it. */
    uint32_t gguf_wide_layers;
    uint32_t gguf_period; /* GGUF: as `period`, where files do not state it; 0: `period` */
    bool gguf_full_first; /* GGUF: the first layer of each period is full, instead of the last */
    /* The defaults of the family's configuration class where config.json says nothing; 0 or NULL: it must say. */
    uint32_t kv_heads, heads, head_dim, vocab, ctx, window, period;
    uint32_t ffn_times; /* feed-forward width as a multiple of the model's; 0: none */
    const char *act;
    double attn_scale;          /* factor on q.k; 0: 1/sqrt(head_dim) */
    double eps, theta, partial; /* partial: part of a head that rotates; 0: all */
} dop_family;
/* Tensor names of checkpoints laid out like Llama's, and the names that differ where blocks have norms before and after them. */
extern const dop_tensor_name dop_hf_names_common[], dop_hf_names_sandwich[];
/* The rows of a fused tensor that a weight has; for a weight of rank 3, the rows in each expert's tensor. */
typedef struct dop_rows {
    uint64_t start, total; /* first row of the weight; number of rows of the whole tensor */
    bool one_row;          /* the weight is a vector that is stored as a matrix of one row */
    uint64_t each; /* rank 3 in a tensor of rank 2: values from one matrix to the next; 0: as many as a matrix has */
    uint32_t block,
        block_step; /* rows that lie together; rows from the start of one block to the next; 0: all rows lie together */
    uint32_t own;   /* rows of this part, where the weight may continue in another tensor; 0: all rows of the weight */
    uint32_t row;   /* the weight is a vector that is stored as a matrix with rows of this many values; 0: it is not */
    bool loose;     /* the weight is a vector that is stored in any shape */
    bool flat;      /* a weight of rank 3 whose tensor has rank 2, the experts' matrices below each other */
    bool turned;    /* taps: a vector [block_step, block] that is stored [block, 1, block_step] */
} dop_rows;

struct dop_st_set;
struct json_t;

#endif
