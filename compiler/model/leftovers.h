/* The tensors of a model that no weight uses.  Each is either excused by its name, for a reason that the user is told, or an
 * error: a tensor that nothing reads means that the facts do not describe the model. */
#ifndef DOPPLER_COMPILER_MODEL_LEFTOVERS_H
#define DOPPLER_COMPILER_MODEL_LEFTOVERS_H

#include "compiler/model/arch.h"

/* Reasons; leftovers.c has the text of each. */
typedef enum dop_excuse {
    DOP_EXCUSE_ROTARY,
    DOP_EXCUSE_MASK,
    DOP_EXCUSE_VISION,
    DOP_EXCUSE_AUDIO,
    DOP_EXCUSE_DRAFT,
    DOP_EXCUSE_TIED,
    DOP_EXCUSE_ADAPTER,
    DOP_EXCUSE_ZERO_BIAS,
    DOP_EXCUSE_ACT_EPS,
    DOP_EXCUSE_SHARED,
    DOP_EXCUSE_HEAD,
    DOP_N_EXCUSES
} dop_excuse;

typedef struct dop_leftovers {
    /* Set by the importer. */
    dop_checkpoint *model;
    dop_diag *diag;
    const char *facts;        /* where the facts come from, for messages: "config.json" */
    const char *layer_prefix; /* what comes before a layer's number in a name: "layers." */
    const char *layers_key;   /* the field that counts the layers: "num_hidden_layers" */
    uint32_t draft_layers;    /* layers after those of the model that predict further tokens */
    /* Found so far. */
    uint32_t excused[DOP_N_EXCUSES];
    uint32_t n_unknown;
    const char *unknown, *file; /* the first one, and the file it is in */
} dop_leftovers;

/* Adds one tensor that no weight uses. */
dop_status dop_leftovers_add(dop_leftovers *l, const char *name, uint32_t rank, const char *file);
/* The error about the unknown ones, or the note in l->model about the excused ones. */
dop_status dop_leftovers_finish(dop_leftovers *l);
/* Adds to the line that the user sees. */
dop_status dop_checkpoint_note(dop_checkpoint *m, const char *text, dop_diag *diag);

#endif
