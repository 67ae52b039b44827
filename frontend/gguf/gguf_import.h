/* Internal declarations of the GGUF importer; only frontend/gguf/ includes this. */
#ifndef DOPPLER_FRONTEND_GGUF_GGUF_IMPORT_H
#define DOPPLER_FRONTEND_GGUF_GGUF_IMPORT_H

#include "base/format/gguf.h"
#include "frontend/facts/facts.h"
#include "frontend/facts/import.h"

enum { DOP_GGUF_MAX_PARTS = 1024 };

/* An open GGUF model: one file, or all parts of a split one. */
typedef struct dop_gi {
    const char *path; /* path of the first file */
    dop_gguf *parts;  /* [n_parts] from malloc; the first part has the metadata */
    uint32_t n_parts;
    bool *taken; /* [tensors of all parts] true if dop_gi_take() has returned the tensor; in the arena */
    const dop_family *family;
    const char *name; /* general.architecture, the prefix of the architecture's keys; in the arena */
    dop_layer layer;  /* facts common to all layers; copied to each layer before its own facts are read */
    bool *slides;     /* [n_layers] true if the layer has the sliding window; in the arena */
    bool swaps;       /* two classes are swapped, because the file has the score of "relevant" first */
    uint32_t draft;   /* number of multi-token prediction layers after the model's layers, which are not read */
    dop_diag *diag;
    dop_checkpoint *model;
} dop_gi;

#endif
