/* The parts of the GGUF importer; only frontend/gguf/ includes this. */
#ifndef DOPPLER_FRONTEND_GGUF_GGUF_IMPORT_H
#define DOPPLER_FRONTEND_GGUF_GGUF_IMPORT_H

#include "base/format/gguf.h"
#include "frontend/facts/facts.h"
#include "frontend/facts/import.h"

enum { DOP_GGUF_MAX_PARTS = 1024 };

/* An open model: one file, or all parts of a split one. */
typedef struct dop_gi {
    const char *path; /* path of the first file */
    dop_gguf *parts;  /* [n_parts], malloc'ed; the first has the metadata */
    uint32_t n_parts;
    bool *taken; /* [tensors of all parts] dop_gi_take() has returned the tensor; in the arena */
    const dop_family *family;
    const char *name; /* general.architecture, with which keys of the architecture begin; in the arena */
    dop_layer layer;  /* what all layers share; copied to each layer before what differs is read */
    bool *slides;     /* [n_layers] the layer has the sliding window; in the arena */
    bool swaps;       /* of two classes the first is the one that a text is relevant: they are exchanged */
    uint32_t draft;   /* layers after those of the model that predict further tokens; they are not read */
    dop_diag *diag;
    dop_checkpoint *model;
} dop_gi;

/* Opens gi->path and the parts that belong to it. */
dop_status dop_gi_open(dop_gi *gi);
/* Passes the mapped files to the model's weights and closes the rest; also after a failed opening. */
void dop_gi_close(dop_gi *gi);
/* Reads facts, ids, tokenizer and chat template from the metadata. */
dop_status dop_gi_config(dop_gi *gi);
/* The value of a key of the architecture, such as "block_count"; NULL: it is absent.  out_full gets the whole
 * key, "llama.block_count". */
const dop_gguf_kv *dop_gi_find(const dop_gi *gi, const char *key, char *out_full, size_t size);
/* Reads an integer fact, `otherwise` where the key is absent; otherwise 0: the key must be there.  An array has a value for each
 * layer, of which that of `layer` is taken. */
dop_status dop_gi_size(const dop_gi *gi, const dop_fact_key *fact, uint32_t layer, uint32_t otherwise, uint32_t *out);
/* Reads a fact that is a number, `otherwise` where the key is absent, which may lie outside the fact's range. */
dop_status dop_gi_number(const dop_gi *gi, const dop_fact_key *fact, double otherwise, double *out);
/* Reads a fact that is true or false, `otherwise` where the key is absent. */
dop_status dop_gi_flag(const dop_gi *gi, const dop_fact_key *fact, bool otherwise, bool *out);
/* Reads the rotary embeddings, and which layer uses which.  The layers, and which of them slide, must be known. */
dop_status dop_gi_ropes(dop_gi *gi);
/* attention.c: reads everything about latent attention but n_heads (dop_gi_latent), and, once the rotary embedding is known,
 * multiplies the scale of the scores by YaRN's factor (dop_gi_latent_rope). */
dop_status dop_gi_latent(const dop_gi *gi, uint32_t layer, dop_attention *t);
dop_status dop_gi_latent_rope(dop_gi *gi);
dop_status dop_gi_index(dop_gi *gi); /* attention.c: the index of sparse attention */
/* attention.c: Gemma 3n's streams (dop_gi_altup); Llama 4's chunked layers, and its layers that temper queries instead of rotating
 * them (dop_gi_chunks). */
dop_status dop_gi_altup(dop_gi *gi);
dop_status dop_gi_chunks(dop_gi *gi);
/* eagle.c, drafters.  eagle_vocab: reads the number of the model's tokens.  eagle: makes the model of one layer that was read the drafter that it
 * is.  eagle_list: makes w, its list of tokens. */
dop_status dop_gi_eagle_vocab(dop_gi *gi);
dop_status dop_gi_eagle(dop_gi *gi);
dop_status dop_gi_reader(dop_gi *gi); /* makes the model that was read the drafter that it is (dop_sharer) */
dop_status dop_gi_eagle_list(const dop_gi *gi, const char *name, dop_weight *w);
/* Gemma 4: reads per-layer inputs, and which layers use the keys and values of another layer. */
dop_status dop_gi_layer_inputs(dop_gi *gi);
/* encoder.c: reads whether the model is an encoder, its pooling and products, before the layers are read (dop_gi_encoder); exchanges
 * the rows of two classes in the product that gives them, where dop_gi.swaps (dop_gi_swap_classes). */
dop_status dop_gi_encoder(dop_gi *gi);
dop_status dop_gi_swap_classes(const dop_gi *gi, const dop_weight_need *need, dop_weight *w);
/* Whether the model has a rotary embedding at all. */
dop_status dop_gi_rotates(const dop_gi *gi, bool *out);
/* Whether a layer has a recurrent mixer (dop_gi_recurs), and whether it has attention (dop_gi_attends). */
bool dop_gi_recurs(const dop_gi *gi, uint32_t layer);
bool dop_gi_attends(const dop_gi *gi, uint32_t layer);
/* Reads the recurrent mixer of a layer, which stands beside its attention or instead of it. */
dop_status dop_gi_recurrent(dop_gi *gi, uint32_t layer, double eps);
/* Replaces the vector w, which lies in the file, by a copy in the form that the graph needs (DOP_PART_TAPS, DOP_PART_DECAY). */
dop_status dop_gi_vector(const dop_gi *gi, const dop_rows *rows, dop_weight *w);
/* Makes w, the taps of one convolution, from several tensors with a group of channels each; their names are consecutive rows of the
 * table, from n on. */
dop_status dop_gi_taps(const dop_gi *gi, const dop_tensor_name *n, const dop_weight_need *need, const dop_rows *rows,
                       dop_weight *w);
/* Reads which layers have experts, and how many, into their feed-forward parts. */
dop_status dop_gi_experts(dop_gi *gi);
/* Reads end ids, chat template, name and vocabulary. */
dop_status dop_gi_text(dop_gi *gi);
/* Fills the model's weights with those that the facts call for. */
dop_status dop_gi_weights(dop_gi *gi);
/* A tensor by its name, and the part that has it; NULL: no part has it. */
const dop_gguf_tensor *dop_gi_tensor(const dop_gi *gi, const char *name, const dop_gguf **out_part);
/* Finds a tensor as dop_gi_tensor() does, and marks it as read. */
const dop_gguf_tensor *dop_gi_take(const dop_gi *gi, const char *name, const dop_gguf **out_part);

#endif
