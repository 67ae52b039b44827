/* Unused tensors: tensors of the model's files that no weight uses. Known names are excused, with a reason for the user. Others
 * are an error, because the facts then do not describe the model. */
#ifndef DOPPLER_FRONTEND_FACTS_LEFTOVERS_H
#define DOPPLER_FRONTEND_FACTS_LEFTOVERS_H

#include "frontend/facts/arch.h"

/* Reason why a tensor may be unused; leftovers.c has the texts. */
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
    const char *facts;        /* file that states the facts, for messages: "config.json" */
    const char *layer_prefix; /* prefix of a layer's number in tensor names: "layers." */
    const char *layers_key;   /* field with the number of layers: "num_hidden_layers" */
    uint32_t draft_layers;    /* number of multi-token prediction layers after the model's layers */
    /* Results. */
    uint32_t excused[DOP_N_EXCUSES]; /* number of excused tensors per reason */
    uint32_t n_unknown;              /* number of unknown tensors */
    const char *unknown, *file;      /* first unknown tensor, and its file */
} dop_leftovers;

/* Records a tensor that no weight uses. */
dop_status dop_leftovers_add(dop_leftovers *l, const char *name, uint32_t rank, const char *file);
/* Fails if there are unknown tensors, naming the first; otherwise adds the excused ones to the model's note. */
dop_status dop_leftovers_finish(dop_leftovers *l);
/* Appends to m->note, which is shown to the user. */
dop_status dop_checkpoint_note(dop_checkpoint *m, const char *text, dop_diag *diag);

#endif
