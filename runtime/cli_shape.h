/* --json-schema, --grammar and --json-mode: what is generated has a given shape. */
#ifndef DOPPLER_RUNTIME_CLI_SHAPE_H
#define DOPPLER_RUNTIME_CLI_SHAPE_H

#include "runtime/cli_generate.h"
#include "runtime/grammar/grammar.h"

typedef struct dop_shape {
    dop_vocab *vocab;
    dop_grammar *grammar;
    dop_matcher *matcher;
    dop_sampler sampler;
    float *logits; /* owned, [vocab] */
} dop_shape;

/* Does the command line ask for one? */
bool dop_cli_wants_shape(const dop_cli *cli);
/* The generation's sequence picks only what the shape allows from now on. */
dop_status dop_shape_start(const dop_cli *cli, dop_generation *gen, dop_diag *diag, dop_shape *out_shape);
void dop_shape_finish(dop_shape *shape); /* accepts a zeroed one */

#endif
