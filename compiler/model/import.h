/* What the importers share: the table of families (families.c) and the entry function of each format.
 *
 * A family is a row: how its files spell things, and which facts hold for all of its models.  All other facts are stated by
 * the file.  Nothing after the importers looks at a family. */
#ifndef DOPPLER_COMPILER_MODEL_IMPORT_H
#define DOPPLER_COMPILER_MODEL_IMPORT_H

#include "compiler/model/arch.h"

/* Facts of a family, or which optional fields of config.json it has. */
enum {
    DOP_FAM_PRE_NORM = 1 << 0,       /* norms before attention and feed-forward */
    DOP_FAM_POST_NORM = 1 << 1,      /* norms after them, before the residual add */
    DOP_FAM_LAYER_NORM = 1 << 2,     /* LayerNorm with bias instead of RMSNorm */
    DOP_FAM_NORM_ADD_1 = 1 << 3,     /* Hugging Face checkpoints store norm weights minus 1 */
    DOP_FAM_NOT_GATED = 1 << 4,      /* act(up) instead of act(gate) * up */
    DOP_FAM_LEARNED_POS = 1 << 5,    /* a position embedding instead of rotary */
    DOP_FAM_QK_NORM = 1 << 6,        /* norm of every q and k head */
    DOP_FAM_QK_NORM_ROW = 1 << 7,    /* norm over all heads of q, and of k */
    DOP_FAM_EMBED_SQRT = 1 << 8,     /* embedding times sqrt(hidden) */
    DOP_FAM_QUERY_SCALAR = 1 << 9,   /* field query_pre_attn_scalar */
    DOP_FAM_SOFTCAPS = 1 << 10,      /* fields attn_logit_softcapping, final_logit_softcapping */
    DOP_FAM_MULTIPLIERS = 1 << 11,   /* Granite's four multipliers */
    DOP_FAM_LOCAL_ROPE = 1 << 12,    /* sliding layers rotate with their own base */
    DOP_FAM_NOPE = 1 << 13,          /* field no_rope_layers */
    DOP_FAM_TIED = 1 << 14,          /* tie_word_embeddings is true where config.json does not say */
    DOP_FAM_NO_NORM_BIAS = 1 << 15,  /* LayerNorm has a weight only */
    DOP_FAM_ROPE_PAIRS = 1 << 16,    /* Hugging Face checkpoints rotate pairs (2i, 2i+1) */
    DOP_FAM_NOPE_FULL = 1 << 17,     /* in models with a window, layers without it do not rotate */
    DOP_FAM_ONE_NORM = 1 << 18,      /* a parallel layer's feed-forward part has no norm of its own */
    DOP_FAM_LOGIT_SCALE = 1 << 19,   /* field logit_scale */
    DOP_FAM_V_NORM = 1 << 20,        /* norm of every v head, without weights */
    DOP_FAM_LAYER_SCALE = 1 << 21,   /* a learned value multiplies the stream after each layer */
    DOP_FAM_HEADS_BY_TYPE = 1 << 22, /* fields global_head_dim, num_global_key_value_heads, per_layer_config */
    DOP_FAM_LATENT = 1 << 24,        /* latent attention: fields kv_lora_rank, q_lora_rank, qk_nope_head_dim, ... */
    DOP_FAM_LAYER_INPUTS =
        1 << 25,                  /* fields hidden_size_per_layer_input, num_kv_shared_layers, attention_k_eq_v, ... */
    DOP_FAM_SINKS = 1 << 23,      /* a learned logit per head takes part in attention's softmax */
    DOP_FAM_PLAIN_NORM = 1 << 26, /* norms have no weights */
    DOP_FAM_CLIP = 1 << 27,       /* field clip_qkv */
    DOP_FAM_HEAD_NORM = 1 << 28,  /* with QK_NORM: every head has weights of its own, and no bias */
    DOP_FAM_NORM_AFTER = 1 << 29, /* with QK_NORM: after the rotation */
    DOP_FAM_SUB_NORMS = 1 << 30   /* norms of what the last product of attention and of the feed-forward part reads */
};
/* ... and those that an int has no room for. */
#define DOP_FAM_EMBED_NORM (1ull << 31)  /* a norm of the embedding */
#define DOP_FAM_QK_PLAIN (1ull << 32)    /* with QK_NORM: without weights, as the embedding's norm is */
#define DOP_FAM_FINAL_WHOLE (1ull << 33) /* with NORM_ADD_1: not the last norm */
#define DOP_FAM_MUP (1ull << 34)         /* MiniCPM's fields scale_emb, scale_depth, dim_model_base */
#define DOP_FAM_MULTI_QUERY \
    (1ull << 35) /* Falcon's fields multi_query, new_decoder_architecture, num_ln_in_parallel_attn */
#define DOP_FAM_ONE_BASE \
    (1ull << 37) /* with LOCAL_ROPE: files may state one base for both, whose scaling is not for sliding layers */
#define DOP_FAM_SWA_HEADS (1ull << 38)    /* MiMo: sliding layers have heads of their own and sinks; field v_head_dim */
#define DOP_FAM_LOGIT_TIMES (1ull << 39)  /* field output_multiplier */
#define DOP_FAM_DIFFERENTIAL (1ull << 40) /* differential attention */
#define DOP_FAM_ALTUP \
    (1ull << 41) /* fields altup_num_inputs, laurel_rank, activation_sparsity_pattern; widths by layer */
#define DOP_FAM_DOGE \
    (1ull << 42) /* scores grow by what a key's position adds, and streams have weights; field keep_window_size */
#define DOP_FAM_ENCODER (1ull << 43)     /* encoders: no output matrix, every row sees all rows of its text */
#define DOP_FAM_SUM_NORM (1ull << 44)    /* norms of the stream after each addition, and none at the end */
#define DOP_FAM_POSITIONS_2 (1ull << 45) /* the table of positions has two rows more, at its beginning */
#define DOP_FAM_T5 (1ull << 46)    /* fields relative_attention_num_buckets, feed_forward_proj; scores are not scaled */
#define DOP_FAM_ALIBI (1ull << 36) /* scores fall with the distance, in place of a rotation */

/* A fact that a field of config.json decides, and its value where the file is silent; no key: always that value. */
typedef struct dop_fact_field {
    const char *key;
    bool otherwise;
} dop_fact_field;

/* A size that a field of config.json states ("one|other": the other where the file has it), and its default where the
 * file is silent; 0: the file must state it; no key: the family has no such size. */
typedef struct dop_size_field {
    const char *key;
    uint32_t otherwise;
} dop_size_field;

/* How config.json states the recurrent mixer of a family (dop_recurrent), and which layers have it. */
typedef struct dop_hf_recurrent {
    dop_mixer_kind kind;
    const char *layer_types[2]; /* what layer_types calls them; none: every layer */
    const char *interval;       /* without layer_types: the field by which every n-th layer is attention, */
    const char *attention_list; /* or that lists the layers that are */
    const char *positions;      /* the field that says "rope" where attention rotates; NULL: it always does */
    bool beside;                /* beside the attention, not instead of it */
    dop_size_field taps, heads, head_dim, groups, state_dim;
    const char *width,
        *expand; /* fields that also state the values of all heads: as a number, or as a multiple of the model's width */
    dop_fact_field conv_bias;
    bool norm, norm_rows; /* as in dop_recurrent */
    bool gguf_in_turn;    /* dop_recurrent.in_turn of GGUF files, whose value heads lie in that order */
    bool multipliers;     /* Falcon-H1's */
    bool hybrid;          /* layers that layers_block_type calls "hybrid" have a shared block (dop_side) */
    bool blocks;          /* a layer is one part: fields layers_block_type, hybrid_override_pattern */
    bool norm_groups;     /* as in dop_recurrent */
    bool selective,
        each; /* as in dop_recurrent; then heads are not stated, but their number is `expand` times the width */
    dop_size_field dt_rank;
    const char *period,
        *offset;        /* fields by which a layer is attention where its number less the offset is a multiple */
    bool low_rank_gate; /* the gate and dt are computed through as many values as a head has */
    bool gate_sigmoid;
    bool small_norms;         /* selective: B, C and what dt is computed from have norms */
    bool counts_from_1;       /* the layers in attention_list */
    bool pre_norm;            /* layers that recur have norms before their parts, the others behind them */
    double norm_eps;          /* of the mixer's norm; 0: as of all norms */
    const char *doubles_beta; /* the field that says that beta goes to 2 */
    bool own_act;             /* the activation that the file states is of the feed-forward parts only */
    bool adjusts_ffn;         /* LFM2's block_ fields */
} dop_hf_recurrent;

/* Which layers slide when config.json has no layer_types. */
typedef enum dop_window_rule {
    DOP_WINDOW_NONE,    /* the family has no sliding window */
    DOP_WINDOW_ALL,     /* every layer, when sliding_window is set */
    DOP_WINDOW_QWEN,    /* use_sliding_window: layers from max_window_layers on */
    DOP_WINDOW_PATTERN, /* all but every n-th layer; n is sliding_window_pattern, or the family's period */
    DOP_WINDOW_GLOBAL, /* all but every global_attn_every_n_layers-th, from the first on; local_attention is both sides' width */
    DOP_WINDOW_NOPE,  /* use_sliding_window: layers without rotary embedding */
    DOP_WINDOW_CHUNKS /* no window: layers with rotary embedding see chunks of attention_chunk_size positions */
} dop_window_rule;

/* Which rows of a fused tensor a weight has. */
typedef enum dop_slice {
    DOP_PART_ALL,
    DOP_PART_ROW, /* a vector that is stored as a matrix of one row */
    DOP_PART_Q,   /* of q, k and v below each other */
    DOP_PART_K,
    DOP_PART_V,
    DOP_PART_HEAD_Q, /* of q, k and v of the first head, then of the second, ... */
    DOP_PART_HEAD_K,
    DOP_PART_HEAD_V,
    DOP_PART_GQA_Q, /* of the queries that go with the first head of keys, that head, and its values, then of the second, ... */
    DOP_PART_GQA_K,
    DOP_PART_GQA_V,
    DOP_PART_BELOW_2, /* below two rows that are not used */
    DOP_PART_HEADS,   /* a vector that is stored as a matrix with a row for each head */
    DOP_PART_FLAT,    /* of rank 3: the matrices of all experts are one matrix, one below the other */
    DOP_PART_PAIR_Q,  /* of the query and the gate of the first head, then of the second, ... */
    DOP_PART_PAIR_GATE,
    DOP_PART_MIX_Z, /* of gate, convolved part and dt below each other */
    DOP_PART_MIX_IN,
    DOP_PART_MIX_DT,
    DOP_PART_GROUP_Q, /* of query, key, values and gate of the first group of a recurrent mixer, then of the second, ... */
    DOP_PART_GROUP_K,
    DOP_PART_GROUP_V,
    DOP_PART_GROUP_Z,
    DOP_PART_GROUP_BETA, /* of beta and dt of the first group, then of the second, ... */
    DOP_PART_GROUP_DT,
    DOP_PART_THIRD_1, /* of three of equal height below each other */
    DOP_PART_THIRD_2,
    DOP_PART_THIRD_3,
    DOP_PART_KEYS,   /* a whole part of several below each other: of all groups' keys, or queries, */
    DOP_PART_VALUES, /* or of all values */
    DOP_PART_SELECT_DT, /* of what is computed from the values of a selective scan: dt's values, B and C below each other */
    DOP_PART_SELECT_K,
    DOP_PART_SELECT_Q,
    DOP_PART_PAIRED,   /* heads of values i and i + half of them beside each other, twice (differential attention) */
    DOP_PART_LAMBDA,   /* one value, computed from the vectors NAME_q1, NAME_k1, NAME_q2 and NAME_k2 */
    DOP_PART_FOURFOLD, /* every row, or value, comes four times */
    DOP_PART_LOOSE,    /* a vector that is stored in any shape of as many values */
    DOP_PART_TAPS,     /* the taps of a convolution, stored [channels, 1, taps] */
    DOP_PART_GATE,     /* of gate and up below each other */
    DOP_PART_UP,
    DOP_PART_EVEN, /* of two matrices whose rows take turns */
    DOP_PART_ODD,
    DOP_PART_PLAIN, /* of each head's query in latent attention: the values that are not rotated, and those that are */
    DOP_PART_ROTATED,
    DOP_PART_LATENT, /* of the values from which keys and values are computed, with the rotated values of the key below them */
    DOP_PART_LATENT_ROTATED,
    DOP_PART_K_UP, /* of each head's matrices of keys and of values below each other; the one of keys transposed */
    DOP_PART_V_UP,
    DOP_PART_DECAY, /* GGUF: -exp() of the values that the graph reads */
    DOP_PART_KEY    /* GGUF: not a tensor but a key of the metadata, with a value per layer or one for all */
} dop_slice;

/* Name of a weight in a format: Hugging Face below "model." and below the layer, GGUF below "blk.<i>.".  A weight of rank 3
 * is one tensor with the experts as its first axis, or, where the name has a *, a tensor for each expert whose number
 * stands there: "mlp.experts.*.up_proj.weight".  Several names of one role
 * in a row are parts of a matrix that lie below each other (dop_rows.own rows of each); GGUF has no such matrix. */
typedef struct dop_tensor_name {
    dop_role role; /* none ends the list */
    const char *source;
    dop_slice part;
    bool transposed; /* stored [input, output] (Conv1D) */
} dop_tensor_name;

/* Fields of config.json that families spell differently.  NULL: the family has none (for heads: and no attention).  "one|other": the
 * other where the file has it (numbers of layers, heads and values, eps). */
typedef struct dop_hf_keys {
    const char *hidden, *layers, *heads, *ctx, *ffn, *act, *eps;
    const char *kv_heads;        /* NULL: num_key_value_heads */
    const char *theta, *partial; /* rotary base and rotated part of a head; NULL: rope_theta, partial_rotary_factor */
} dop_hf_keys;

/* How a family's files spell a mixture of experts, and what holds for all of its models.  A key that is NULL is not read. */
typedef struct dop_expert_keys {
    const char *n, *n_too;           /* number of experts: either field */
    const char *active;              /* active experts per row */
    const char *width;               /* hidden values of one */
    const char *shared_width;        /* hidden values of the shared expert; or */
    const char *shared_n;            /* ... this many times the width of one expert */
    const char *normalized;          /* decides dop_experts.normalized */
    const char *scale;               /* of the sum of all chosen experts */
    const char *groups, *group_keep; /* of experts; the best groups */
    const char *first, *last;        /* layers that have experts, counted from 0; a negative last counts from the end */
    const char *step;                /* ... of which only every step-th layer, counted from 1 */
    const char *offset;              /* ... or from this layer on */
    const char *dense, *only;        /* lists of layers without experts, and of layers with experts */
    const char *limit;               /* limit of DOP_ACT_CLAMPED, of which only one value is supported */
    const char *jitter;              /* half of dop_experts.near */
    const char *correction;          /* the field that says whether there is a correction; NULL: `facts` do */
    const char *enabled;             /* the field that says whether there are experts; NULL: there are */
    /* They work beside the dense part of their layers: each has norms of its own, and the router reads the stream through
     * another one and divides its logits by the root of the model's width. */
    bool beside;
    /* A file that states no experts (0) means layers of the shared expert alone, which are dense ones. */
    bool shared_alone;
    /* Defaults where the file is silent. */
    uint32_t n_otherwise, active_otherwise, shared_otherwise, first_otherwise;
    bool gguf_normalized; /* `normalized` in GGUF files without the key */
    bool gguf_plain;      /* GGUF files that do not state a score use softmax, not normalized unless they say so */
    dop_experts facts;    /* everything that is not read */
} dop_expert_keys;

/* How an encoder's files give scores of classes: products after the last norm, of which the last gives the scores. */
typedef struct dop_class_head {
    const char *names[DOP_MAX_DENSE]; /* of the products, without ".weight" */
    const char *act;                  /* after all but the last */
    dop_pool_kind pool;
    bool no_bias;     /* the last product has none */
    const char *norm; /* behind the first product's activation; NULL: there is none */
} dop_class_head;

typedef struct dop_family {
    const char *name;
    const char *archs[3];       /* config.json architectures; the first is the one to list in messages */
    const char *model_types[3]; /* config.json model_type */
    uint64_t flags;             /* DOP_FAM_* */
    dop_fact_field bias_qkv, bias_o, bias_ffn, bias_head, parallel;
    bool attn_gate, attn_gate_heads, attn_gate_softplus; /* dop_attention.gate and so on */
    dop_fact_field embed_sqrt;         /* the embedding is multiplied by the root of its width, not rounded */
    const dop_hf_recurrent *recurrent; /* NULL: there are no recurrent layers */
    dop_fact_field qk_norm;            /* whether the norms of q and k that the flags state exist; no key: they do */
    dop_window_rule window_rule;
    uint32_t types, relative_most;    /* dop_encoder.n_types and dop_relative.most, where files are silent */
    dop_pool_kind pool;               /* of an encoder whose files do not say it */
    const dop_class_head *class_head; /* NULL: no scores of classes */
    const dop_hf_keys *keys;
    const dop_expert_keys *experts; /* NULL: all layers are dense */
    const dop_tensor_name *names;
    const dop_tensor_name *more_names; /* searched first; NULL: none */
    const char *prefix;                /* usual prefix of tensor names */
    const char *layer_prefix;          /* "layers." */
    /* GGUF: general.architecture (several are separated by spaces), names that differ from the common ones (gguf_names), whether
     * rotary pairs lie side by side, whether a file may state a window for every layer although the family has none (files of other
     * families take the name), and the number of layers of the one size whose query scale is 1/sqrt(hidden / heads). */
    const char *gguf;
    const dop_tensor_name *more_gguf_names;
    bool gguf_interleaved, gguf_windows;
    bool gguf_untruncated; /* YaRN's correction range is not rounded, which files do not state */
    uint32_t gguf_wide_layers;
    uint32_t gguf_period; /* with DOP_WINDOW_PATTERN: as `period`, where files do not state it; 0: it is that */
    bool gguf_full_first; /* ... and the first layer of each period is full, instead of the last */
    /* The defaults of the family's configuration class where config.json says nothing; 0 or NULL: it must say. */
    uint32_t kv_heads, heads, head_dim, vocab, ctx, window, period;
    uint32_t ffn_times; /* feed-forward width as a multiple of the model's; 0: none */
    const char *act;
    double attn_scale;          /* factor on q.k; 0: it follows from the head dim */
    double eps, theta, partial; /* partial: part of a head that rotates; 0: all */
} dop_family;

extern const dop_family dop_families[];
extern const uint32_t dop_n_families;

const dop_family *dop_family_by_arch(const char *arch);
/* The family of a model without its output matrix ("Qwen3Model"), as embedding models are published; and of one that gives
 * scores of classes in place of tokens ("Qwen3ForSequenceClassification").  NULL: it is none. */
const dop_family *dop_family_without_head(const char *arch);
const dop_family *dop_family_with_classes(const char *arch);
const dop_family *dop_family_by_model_type(const char *model_type);
/* "LlamaForCausalLM, MistralForCausalLM, ..." */
void dop_family_list(dop_buf *out);
/* "llama, mistral, ..." */
void dop_family_list_types(dop_buf *out);
/* Neutral facts (no multipliers, no caps, no ids) of a model and of the layer that its layers are copied from. */
void dop_arch_defaults(dop_arch *a, dop_layer *layer);
/* Sets the facts that the family's row alone decides. */
void dop_family_facts(const dop_family *f, dop_arch *a, dop_layer *layer);
/* Gives a layer these experts, in the form that the family uses. */
void dop_set_experts(const dop_expert_keys *k, const dop_arch *a, const dop_experts *x, dop_layer *layer);
/* Sets the epsilon and the addition of every norm that exists. */
void dop_set_norms(dop_arch *a, dop_layer *layer, double eps, double add);
/* Activation by its name in config.json (or in families[]), or in an RDRR manifest; false when unknown. */
bool dop_act_by_name(const char *name, dop_act_kind *out);
bool dop_act_by_rdrr_name(const char *name, dop_act_kind *out);

/* By the GGUF name.  Families may share one, so this also selects by what the file states: experts, a window. */
const dop_family *dop_family_by_gguf(const char *arch, size_t len, bool experts, bool windows);
/* "llama, qwen2, ..." */
void dop_family_list_gguf(dop_buf *out);
extern const dop_tensor_name dop_gguf_names[];
/* Names in layers whose q, k and v are one tensor, "attn_qkv". */
extern const dop_tensor_name dop_gguf_names_fused[];

/* What GGUF files of the family call the tensor of a weight, and in files where q, k and v are one; NULL: they have none.  In the
 * arena.  family: NULL where it is not known. */
dop_status dop_gguf_full_name(const dop_family *family, const dop_weight_need *need, bool fused, dop_arena *arena,
                              const char **out_name);
/* The name of a role: in `more` (may be NULL), else in `names`; NULL when neither has it. */
const dop_tensor_name *dop_find_tensor_name(const dop_tensor_name *more, const dop_tensor_name *names, dop_role role);
/* Names of checkpoints laid out like Llama's, and what differs with norms on both sides of a block. */
extern const dop_tensor_name dop_hf_names_common[], dop_hf_names_sandwich[];
/* Where the text part's tensors begin ("model."): the prefix with which has() knows the embedding's name; `otherwise`
 * when it knows none. */
const char *dop_hf_prefix(bool (*has)(void *user, const char *name), void *user, const char *embed,
                          const char *otherwise);
/* The whole name of a weight's tensor. */
void dop_hf_full_name(const char *prefix, const char *layer_prefix, const dop_weight_need *need, const char *source,
                      char *out, size_t size);
/* The name of an expert's tensor: the * in `pattern` is its number. */
void dop_expert_name(const char *pattern, uint32_t expert, char *out, size_t size);
/* A list for dop_weight.each of a weight whose name has a *; NULL without an error: it has none.  Also an error: the
 * weight is not of rank 3. */
dop_status dop_expert_list(const dop_weight_need *need, const char *pattern, dop_arena *arena, dop_diag *diag,
                           dop_weight **out_list);
/* The rows of a fused tensor that a weight has; for rank 3, of each expert's tensor. */
typedef struct dop_rows {
    uint64_t start, total; /* its first row, and those of the whole tensor */
    bool one_row;          /* a vector stored as a matrix */
    uint64_t each; /* of rank 3: values from one matrix to the next, in a tensor of rank 2; 0: those of its rows */
    uint32_t block, block_step; /* rows that lie together, and from one block's first to the next's; 0: all do */
    uint32_t own; /* rows of the part itself, where the weight may continue below it; 0: all of the weight's */
    uint32_t row; /* a vector stored as a matrix of rows of this many values; 0: it is not */
    bool loose;   /* a vector stored in any shape */
    bool flat;    /* of rank 3: the tensor has rank 2, one matrix below the other */
    bool turned;  /* a vector [block_step, block] that is stored [block, 1, block_step] */
} dop_rows;

/* `rows`: those of the weight itself (of an expert).  l is NULL outside the layers. */
dop_rows dop_part_rows(const dop_layer *l, dop_slice part, uint32_t rows);

/* Sets m->chat_template from the files of a directory; leaves it NULL when none has one. */
dop_status dop_import_chat_template(const char *dir, dop_checkpoint *m, dop_diag *diag);
/* Sets it from a text that was read with status st, and finishes the text. */
dop_status dop_import_keep_template(dop_checkpoint *m, dop_status st, dop_buf *text, dop_diag *diag);

/* Formats.  `m` has its arena set and is finished by the caller, also after an error. */
dop_status dop_import_hf(const char *dir, dop_diag *diag, dop_checkpoint *m);
dop_status dop_import_rdrr(const char *dir, dop_diag *diag, dop_checkpoint *m);
dop_status dop_import_gguf(const char *path, dop_diag *diag, dop_checkpoint *m);

#endif
