/* The parts of the Hugging Face importer; only frontend/hf/ includes this. */
#ifndef DOPPLER_FRONTEND_HF_HF_H
#define DOPPLER_FRONTEND_HF_HF_H

#include "base/json/json_util.h"
#include "frontend/facts/facts.h"
#include "frontend/facts/import.h"
#include "frontend/hf/tensor.h"

/* The quantization_config of config.json: how the checkpoint's matrices are quantized. */
typedef struct dop_hf_quant {
    bool used;  /* the checkpoint is quantized this way */
    bool awq;   /* AWQ; else GPTQ */
    bool mxfp4; /* experts are mxfp4 blocks and scales; `used` is then false, as all other tensors are not quantized */
    bool act_order, symmetric;
    bool by_input;        /* AWQ's gemv form: a word has eight inputs, not eight outputs */
    bool bytes, hqq, mlx; /* bitsandbytes; HQQ; MLX */
    const char *skipped;  /* the matrices that the last note about conversion to f16 named */
    bool codes;           /* matrices say by their tensors how they are stored (codes.c) */
    uint32_t bits;        /* bits of an integer: 4; GPTQ also 2, 3 or 8 */
    bool expanded;        /* the note about matrices that become f16 has been given */
    uint32_t group;       /* inputs per scale; 0: one scale for a whole row */
    uint32_t zero_add;    /* added to stored zero points */
} dop_hf_quant;

/* A Hugging Face directory that is being imported: config.json, opened, and what was read so far. */
typedef struct dop_hf {
    const char *dir;
    const char *path;          /* path of config.json */
    json_t *root;              /* owned */
    dop_json top;              /* config.json's outermost object */
    dop_json cfg;              /* its text_config where there is one, else its outermost object */
    const dop_st_set *tensors; /* tensors that the directory's files are not read for; NULL: there are none */
    const dop_family *family;
    dop_layer layer; /* what all layers share; copied to each layer before what differs is read */
    dop_hf_quant quant;
    bool one_norm; /* the file says that a parallel layer's feed-forward part has no norm of its own */
    const char *
        headless; /* name of an architecture without output matrix (dop_family_without_head); NULL: there is a matrix */
    /* A reranker that answers in words: the tokens "no" and "yes", whose rows of the output matrix give the scores; else equal. */
    uint32_t answers[2];
    bool classes; /* the model gives scores of classes instead of logits of tokens */
    bool
        projected; /* CLIP: the first product after the last norm is text_projection, as in models of text and pictures */
    const char *dense_dirs[DOP_MAX_DENSE]; /* folders of modules that are a product (dop_hf_modules) */
    dop_arena *arena;
    dop_diag *diag;
    dop_checkpoint *model;
} dop_hf;

/* Reads all facts that files state besides the weights.  The caller releases hf->root. */
dop_status dop_hf_facts(dop_hf *hf);
/* reranker.c: makes a text model whose name says so one of classes (hf->classes, hf->answers). */
dop_status dop_hf_reranker(dop_hf *hf);
/* Reads sizes, layers, multipliers, biases: everything of dop_arch except the rotary embeddings and the ids. */
dop_status dop_hf_config(dop_hf *hf);
/* Reads the rotary embeddings, and which layer uses which.  sliding[n_layers]: the layer is of type sliding_attention. */
dop_status dop_hf_ropes(dop_hf *hf, const bool *sliding);
/* recurrent.c.  dop_hf_read_recurrent() reads the family's recurrent mixer into hf->layer.mixers[1].  dop_hf_adjust_ffn() corrects
 * the width of LFM2's feed-forward parts.  dop_hf_recurs() tells whether layers of a type in layer_types are recurrent.
 * dop_hf_settle_mixers() gives each layer its mixers, when everything else of the layers is known. */
dop_status dop_hf_read_recurrent(dop_hf *hf);
dop_status dop_hf_adjust_ffn(dop_hf *hf);
bool dop_hf_adjusts_ffn(const dop_hf *hf); /* the file states the width of a feed-forward part without gate */
bool dop_hf_recurs(const dop_hf *hf, const char *layer_type);
dop_status dop_hf_settle_mixers(dop_hf *hf);
/* Clears rotates[n_layers] where the family's field for it says that attention has no rotary embedding. */
dop_status dop_hf_positions(const dop_hf *hf, bool *rotates);
/* Reads which layers have experts, and how many, into their feed-forward parts. */
dop_status dop_hf_experts(dop_hf *hf);
/* Latent attention: reads its sizes (dop_hf_latent), before what differs between layers is read, and afterwards the factor that its
 * rotary embedding puts on the scores (dop_hf_latent_rope). */
dop_status dop_hf_latent(dop_hf *hf, dop_attention *t);
dop_status dop_hf_latent_rope(dop_hf *hf);
/* Sparse attention: reads the index that chooses positions, and which layers have one. */
dop_status dop_hf_index(dop_hf *hf);
/* Gemma 4: reads per-layer inputs, and which layers use the keys and values of another layer, which decides the width of their
 * feed-forward parts.  sliding[n_layers]: the layer is of type sliding_attention. */
dop_status dop_hf_layer_inputs(dop_hf *hf, const bool *sliding);
/* Llama 4: sets which layers see chunks, and what differs between layers with and without rotary embedding. */
dop_status dop_hf_chunks(dop_hf *hf, const bool *rotates, const bool *chunked);
/* Falcon: reads the number of KV heads. */
dop_status dop_hf_multi_query(dop_hf *hf, dop_attention *t);
/* DiffLlama: sets differential attention in each layer; dop_hf_lambda_init() is the part of its factor that is not learned. */
void dop_hf_differential(dop_hf *hf);
double dop_hf_lambda_init(int32_t layer);
/* Gemma 3n: reads its streams, and what differs between its layers. */
dop_status dop_hf_altup(dop_hf *hf);
/* encoder.c.  dop_hf_both_ways() reads whether rows also see later rows, and dop_hf_window_of_both() the window on each side.
 * dop_hf_encoder() reads an encoder's other facts, before what differs between layers is read, and dop_hf_settle_encoder() the rest
 * afterwards, such as sentence-transformers' modules. */
dop_status dop_hf_both_ways(dop_hf *hf, dop_attention *t);
dop_status dop_hf_window_of_both(dop_hf *hf, uint32_t *io_window);
dop_status dop_hf_encoder(dop_hf *hf);
dop_status dop_hf_settle_encoder(dop_hf *hf);
/* The tensor name of a product after the last norm, or of its bias or norm; NULL: the role is none of the three. */
const char *dop_hf_dense_name(const dop_hf *hf, dop_role role, uint32_t *out_dense);
/* Reads to how many rows of an encoder the layers of a decoder attend. */
dop_status dop_hf_cross(dop_hf *hf);
/* Reads MiniCPM's multipliers. */
dop_status dop_hf_mup(dop_hf *hf);
/* MiMo: what sliding layers have of their own, and heads of values. */
dop_status dop_hf_swa_heads(dop_hf *hf, const bool *sliding);
/* Reads lists with a value for each layer: its number of heads, and the base of its rotary embedding, of which 0 means none. */
dop_status dop_hf_layer_heads(dop_hf *hf, bool *rotates);
/* Resolves a key "one|other": `other` where config.json has that field, else `one`, which is copied to `first`. */
const char *dop_hf_key(const dop_hf *hf, const char *keys, char *first, size_t size);

/* Is `arch` a model of several parts whose text part is a model by itself, named by text_config.model_type?  Text alone is then
 * computed as by that model.  Families with a text part of their own list `arch` in their row. */
bool dop_hf_any_text_part(const char *arch);
/* Sizes that a text_config may leave out, because transformers writes into it only what differs from the defaults of its class:
 * LLaVA 1.5 states nothing of its Llama.  0: it must state the size, as a config.json of one part must all of them. */
typedef struct dop_hf_sizes {
    uint32_t hidden, layers, heads, ffn, vocab;
} dop_hf_sizes;
dop_hf_sizes dop_hf_part_sizes(const dop_hf *hf);
/* Do layers of this family have a mixer or a feed-forward part alone, and is no layer of this model a mixture of experts? */
bool dop_hf_lacks_experts(const dop_hf *hf);
/* Do layers of this family have a mixer or a feed-forward part alone, and does config.json list them?  *out_n is the list's
 * length. */
bool dop_hf_counts_blocks(const dop_hf *hf, uint32_t *out_n);
/* eagle.c.  reader: makes the model that was read the drafter that it is (dop_sharer).  eagle: makes the model of one layer that was read the
 * drafter that it is (dop_eagle).  eagle_tensors: finds which of the tensors it has that a drafter may do without, and what names of tensors
 * outside of its layer and in it begin with.  eagle_list: makes w, its list of tokens. */
dop_status dop_hf_reader(dop_hf *hf);
dop_status dop_hf_eagle(dop_hf *hf);
void dop_hf_eagle_tensors(dop_hf *hf, const dop_st_set *set, const char **out_root, const char **out_inside);
dop_status dop_hf_eagle_list(dop_hf *hf, const dop_st_set *set, const char *name, dop_weight *w);
/* Reads end ids, sampling defaults, tokenizer and chat template. */
dop_status dop_hf_text(dop_hf *hf);
/* Maps the tensors, and fills model->weights with the weights that the facts call for. */
dop_status dop_hf_weights(dop_hf *hf);

/* Fills hf->quant; refuses what the rest of quant.c does not read. */
dop_status dop_hf_quant_config(dop_hf *hf);
/* Sets type, source and parts of w, whose rows, cols and name are set, from the quantized tensors NAME.*: the rows are
 * the outputs from `first` on of `outputs`.  name ends in a dot. */
dop_status dop_hf_quant_weight(dop_hf *hf, const dop_st_set *set, const char *name, uint64_t outputs, uint64_t first,
                               dop_weight *w);
/* Sets type, source and parts of w, experts in mxfp4, from the tensors NAME_blocks [experts, outputs, inputs / 32, 16] and
 * NAME_scales [experts, outputs, inputs / 32], both bytes. */
dop_status dop_hf_mxfp4_weight(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows,
                               dop_weight *w);

/* flat.c.  dop_hf_awq_gemv() reads a weight of AWQ's gemv form as dop_hf_quant_weight() does.  dop_hf_has_flat() tells whether the
 * matrix `name`, "...weight", is stored as bitsandbytes or HQQ, and dop_hf_flat_weight() reads a weight from it. */
dop_status dop_hf_awq_gemv(dop_hf *hf, const dop_st_set *set, const char *name, uint64_t outputs, uint64_t first,
                           dop_weight *w);
bool dop_hf_has_flat(const dop_hf *hf, const dop_st_set *set, const char *name);
dop_status dop_hf_flat_weight(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows, dop_weight *w);
/* codes.c: is the matrix `name`, "...weight", stored as codes with scales? */
bool dop_hf_has_codes(const dop_st_set *set, const char *name);
/* Reads a weight from a matrix of codes as dop_hf_quant_weight() does; `rows` may be any rows of the matrix. */
dop_status dop_hf_codes_weight(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows,
                               dop_weight *w);

/* codes.c: whether the tensor `name`, which has the matrices of all experts, is stored as codes with scales
 * (dop_hf_has_expert_codes); and reads a weight of rank 3 from it (dop_hf_expert_codes). */
bool dop_hf_has_expert_codes(const dop_st_set *set, const char *name);
dop_status dop_hf_expert_codes(dop_hf *hf, const dop_st_set *set, const char *name, const dop_rows *rows,
                               dop_weight *w);

#endif
