/* The parts of the Hugging Face importer; only import_hf*.c include this. */
#ifndef DOPPLER_COMPILER_IMPORT_HF_H
#define DOPPLER_COMPILER_IMPORT_HF_H

#include "compiler/import.h"
#include "compiler/json_util.h"

/* config.json, opened. */
typedef struct dop_hf {
    const char *dir;
    const char *path; /* of config.json */
    json_t *root;     /* owned */
    dop_json top;     /* the file */
    dop_json cfg;     /* text_config where there is one, else the file */
    const dop_family *family;
    dop_arena *arena;
    dop_diag *diag;
    dop_model *model;
} dop_hf;

/* Sizes, layers, multipliers, biases: everything of dop_arch but the rotary embeddings and the ids. */
dop_status dop_hf_config(dop_hf *hf);
/* Rotary embeddings, and which layer uses which.  sliding[n_layers]: the layer is of type sliding_attention. */
dop_status dop_hf_ropes(dop_hf *hf, const bool *sliding);
/* End ids, sampling defaults, tokenizer, chat template. */
dop_status dop_hf_text(dop_hf *hf);
/* The chat template alone: needs dir, arena, diag and model. */
dop_status dop_hf_chat_template(dop_hf *hf);
/* Maps the tensors and fills model->weights with those that the facts call for. */
dop_status dop_hf_weights(dop_hf *hf);

#endif
