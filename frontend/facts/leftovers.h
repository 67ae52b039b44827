/* Unused tensors: those of a model's files that no weight uses.  Each is either excused by its name, for a reason that the user is
 * told, or an error: a tensor that nothing reads means that the facts do not describe the model. */
#ifndef DOPPLER_FRONTEND_FACTS_LEFTOVERS_H
#define DOPPLER_FRONTEND_FACTS_LEFTOVERS_H

#include "frontend/facts/arch.h"

/* Reasons why a tensor may be unused; leftovers.c has the text of each. */
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
    DOP_EXCUSE_LIST,
    DOP_EXCUSE_DRAFTER,
    DOP_EXCUSE_CACHE_SCALE,
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
    uint32_t excused[DOP_N_EXCUSES]; /* number of tensors by reason */
    uint32_t n_unknown;              /* number of tensors without a reason */
    const char *unknown, *file;      /* the first tensor without a reason, and its file */
} dop_leftovers;

/* Adds one tensor that no weight uses. */
dop_status dop_leftovers_add(dop_leftovers *l, const char *name, uint32_t rank, const char *file);
/* Fails where tensors have no reason to be unused, naming the first; else notes in l->model which were excused. */
dop_status dop_leftovers_finish(dop_leftovers *l);
/* Appends to m->note, the line that the user sees. */
dop_status dop_checkpoint_note(dop_checkpoint *m, const char *text, dop_diag *diag);

#endif
