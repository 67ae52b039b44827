/* The parts of the Hugging Face importer; only compiler/import/hf/ includes this. */
#ifndef DOPPLER_COMPILER_IMPORT_HF_HF_H
#define DOPPLER_COMPILER_IMPORT_HF_HF_H

#include "base/read/json_util.h"
#include "compiler/import/hf/safetensors.h"
#include "compiler/model/facts.h"
#include "compiler/model/import.h"

/* quantization_config. */
typedef struct dop_hf_quant {
    bool used;  /* the checkpoint is quantized this way */
    bool awq;   /* else GPTQ */
    bool mxfp4; /* experts in blocks and scales; `used` is false, since everything else is as in other checkpoints */
    bool act_order, symmetric;
    bool by_input;       /* AWQ's gemv form: words of eight inputs */
    bool bytes, hqq;     /* bitsandbytes; HQQ */
    const char *skipped; /* the note about matrices that become f16 has been given of these */
    bool codes;          /* matrices say by their tensors how they are stored (codes.c) */
    uint32_t bits;       /* of an integer: 4, of GPTQ also 2, 3 or 8 */
    bool expanded;       /* the note about matrices that become f16 has been given */
    uint32_t group;      /* inputs per scale; 0: a whole row */
    uint32_t zero_add;   /* to stored zero points */
} dop_hf_quant;

/* config.json, opened. */
typedef struct dop_hf {
    const char *dir;
    const char *path; /* of config.json */
    json_t *root;     /* owned */
    dop_json top;     /* the file */
    dop_json cfg;     /* text_config where there is one, else the file */
    const dop_family *family;
    dop_layer layer; /* what all layers share; copied to each layer before what differs is read */
    dop_hf_quant quant;
    bool one_norm;        /* in a parallel layer the feed-forward part has no norm of its own, as the file says */
    const char *headless; /* the architecture, which has no output matrix (dop_family_without_head); NULL: it has one */
    bool classes;         /* it gives scores of classes in place of tokens */
    bool projected;       /* CLIP: its first product is text_projection, which is for pictures too */
    const char *dense_dirs[DOP_MAX_DENSE]; /* folders of modules that are a product (dop_hf_modules) */
    dop_arena *arena;
    dop_diag *diag;
    dop_checkpoint *model;
} dop_hf;

/* All that files say before the weights.  hf->root is the caller's to release. */
dop_status dop_hf_facts(dop_hf *hf);
/* Sizes, layers, multipliers, biases: everything of dop_arch except the rotary embeddings and the ids. */
dop_status dop_hf_config(dop_hf *hf);
/* Rotary embeddings, and which layer uses which.  sliding[n_layers]: the layer is of type sliding_attention. */
dop_status dop_hf_ropes(dop_hf *hf, const bool *sliding);
/* recurrent.c: the recurrent mixer of the family as hf->layer.mixers[1]; the width of a feed-forward part that is stated for
 * another form; whether layers of a type in layer_types recur; and, when everything else of the layers is known, the mixers
 * that each of them has. */
dop_status dop_hf_read_recurrent(dop_hf *hf);
dop_status dop_hf_adjust_ffn(dop_hf *hf);
bool dop_hf_adjusts_ffn(const dop_hf *hf); /* the width is stated for another form */
bool dop_hf_recurs(const dop_hf *hf, const char *layer_type);
dop_status dop_hf_settle_mixers(dop_hf *hf);
/* Clears rotates[n_layers] where the family has a field for whether attention rotates, and it says no. */
dop_status dop_hf_positions(const dop_hf *hf, bool *rotates);
/* The layers that have experts, and how many: sets their feed-forward parts. */
dop_status dop_hf_experts(dop_hf *hf);
/* Latent attention: its sizes, before what differs between layers is read; and what its rotary embedding states besides. */
dop_status dop_hf_latent(dop_hf *hf, dop_attention *t);
dop_status dop_hf_latent_rope(dop_hf *hf);
/* Gemma 4: per-layer inputs, and layers that use the keys and values of another one, with the width of feed-forward part that
 * follows.  sliding[n_layers]: the layer is of type sliding_attention. */
dop_status dop_hf_layer_inputs(dop_hf *hf, const bool *sliding);
/* Which layers see chunks, and what differs between those that rotate and the others. */
dop_status dop_hf_chunks(dop_hf *hf, const bool *rotates, const bool *chunked);
/* Falcon: heads of keys. */
dop_status dop_hf_multi_query(dop_hf *hf, dop_attention *t);
/* DiffLlama: what differential attention is in each layer; the part of its factor that is not learned. */
void dop_hf_differential(dop_hf *hf);
double dop_hf_lambda_init(int32_t layer);
/* Gemma 3n's streams, and what differs between its layers. */
dop_status dop_hf_altup(dop_hf *hf);
/* encoder.c.  Whether rows see those behind them, and then a window on each side; what an encoder has besides, before what differs
 * between layers is read; and what is left when that has been read, sentence-transformers' modules among it. */
dop_status dop_hf_both_ways(dop_hf *hf, dop_attention *t);
dop_status dop_hf_window_of_both(dop_hf *hf, uint32_t *io_window);
dop_status dop_hf_encoder(dop_hf *hf);
dop_status dop_hf_settle_encoder(dop_hf *hf);
/* The name of the tensor of a product behind the last norm, or of its bias or norm; NULL: the role is none of these. */
const char *dop_hf_dense_name(const dop_hf *hf, dop_role role, uint32_t *out_dense);
/* MiniCPM's multipliers. */
dop_status dop_hf_mup(dop_hf *hf);
/* MiMo: what sliding layers have of their own, and heads of values. */
dop_status dop_hf_swa_heads(dop_hf *hf, const bool *sliding);
/* Lists with a value for each layer: how many heads it has, and the base of its rotary embedding, where 0 is none. */
dop_status dop_hf_layer_heads(dop_hf *hf, bool *rotates);
/* Of "one|other": the other where config.json has it, else the first, which is copied. */
const char *dop_hf_key(const dop_hf *hf, const char *keys, char *first, size_t size);
/* Is a layer one part, and none of them experts? */
bool dop_hf_lacks_experts(const dop_hf *hf);
/* Is a layer of this family one part, mixer or feed-forward?  Then their number is that of the list that names them. */
bool dop_hf_counts_blocks(const dop_hf *hf, uint32_t *out_n);
/* End ids, sampling defaults, tokenizer, chat template. */
dop_status dop_hf_text(dop_hf *hf);
/* Maps the tensors and fills model->weights with those that the facts call for. */
dop_status dop_hf_weights(dop_hf *hf);

/* Fills hf->quant; refuses what the rest of quant.c does not read. */
dop_status dop_hf_quant_config(dop_hf *hf);
/* Sets type, source and parts of w, whose rows, cols and name are set, from the quantized tensors NAME.*: the rows are
 * the outputs from `first` on of `outputs`.  name ends in a dot. */
dop_status dop_hf_quant_weight(dop_hf *hf, const dop_st_set *set, const char *name, uint64_t outputs, uint64_t first,
                               dop_weight *w);
/* The same of experts in mxfp4: NAME_blocks [experts, outputs, inputs / 32, 16] and NAME_scales [experts, outputs,
 * inputs / 32], both bytes. */
dop_status dop_hf_mxfp4_weight(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows,
                               dop_weight *w);

/* flat.c: AWQ in its gemv form, as dop_hf_quant_weight; and bitsandbytes and HQQ: whether a matrix of this name, "...weight", is there
 * in that form, and the same for it. */
dop_status dop_hf_awq_gemv(dop_hf *hf, const dop_st_set *set, const char *name, uint64_t outputs, uint64_t first,
                           dop_weight *w);
bool dop_hf_has_flat(const dop_hf *hf, const dop_st_set *set, const char *name);
dop_status dop_hf_flat_weight(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows, dop_weight *w);
/* Is there a matrix of codes of this name, "...weight"? */
bool dop_hf_has_codes(const dop_st_set *set, const char *name);
/* As dop_hf_quant_weight, for matrices of codes (codes.c); any rows. */
dop_status dop_hf_codes_weight(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows,
                               dop_weight *w);

/* The same of a tensor with the matrices of all experts, which has this name. */
bool dop_hf_has_expert_codes(const dop_st_set *set, const char *name);
dop_status dop_hf_expert_codes(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows,
                               dop_weight *w);

#endif
