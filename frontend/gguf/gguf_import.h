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

#endif
