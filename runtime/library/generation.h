/* The inside of a generation (doppler/generation.h), for callers that run the steps of many generations together: the server's
 * engine.  For them a token comes in these parts, of which dop_generation_next is the sum for one sequence:
 *
 *     dop_generation_prepare   some work on what the matcher allows next, so that no step has to wait for it
 *     dop_generation_ready     gives the sequence what the device needs to pick
 *     (a step with a row of the sequence that wants dop_generation_wants)
 *     dop_generation_pick      the token, from the device's pick or from the row's logits; any thread, one generation each
 *     dop_generation_write     the text of the token, and whether it ends the text */
#ifndef DOPPLER_RUNTIME_LIBRARY_GENERATION_H
#define DOPPLER_RUNTIME_LIBRARY_GENERATION_H

#include "runtime/library/output.h"
#include "runtime/model/info.h"
#include "text/tokenizer/tokenizer.h"

#include <doppler/generation.h>

struct dop_matcher;

/* What a thread needs to pick tokens from logits on the host. */
typedef struct dop_picker {
    dop_sampler sampler;
    float *allowed; /* owned, [vocab]: the logits that a matcher leaves */
} dop_picker;

dop_status dop_picker_init(dop_picker *picker, uint32_t vocab, dop_diag *diag);
void dop_picker_finish(dop_picker *picker); /* accepts a zeroed one */

struct dop_generation {
    dop_model *model;
    dop_sequence *sequence;      /* whose tokens are written; NULL: not known yet */
    const dop_tokenizer *tok;    /* NULL: ids alone */
    struct dop_matcher *matcher; /* not owned; NULL: every token is allowed */
    dop_sampling sampling;       /* how tokens are picked; sampling.biases is `biases` */
    dop_bias *biases;            /* owned */
    char **stops;                /* owned, [n_stops], with the bytes of the texts behind them */
    const uint32_t *end_ids;     /* [n_end_ids]: the model's ids that end generation */
    uint32_t n_end_ids;
    uint32_t max_tokens;
    uint32_t n_top;

    uint32_t n_written;    /* tokens of the text */
    uint32_t pick;         /* the last token */
    const uint32_t *mask;  /* the matcher's mask for the next pick, where the device picks; NULL: not known yet */
    bool mask_ready;       /* the matcher has its next mask; until then a step would wait for it */
    bool begun, ended;     /* dop_generation_begin was called; dop_generation_next gave the token that ends the text */
    bool refused;          /* the last failure is due to what was asked for, and would occur again */
    dop_logprob *logprobs; /* owned, [1 + n_top]: the last token and the likeliest ids; NULL: not wanted */
    dop_picker own;        /* dop_generation_next picks with it, where a matcher is followed on the host */

    dop_text_stream stream;
    dop_buf piece; /* text of the last token */
    dop_output output;
};

/* Initializes a generation from options, whose text and matcher are not used: tok and matcher are given instead. */
dop_status dop_generation_init(dop_generation *generation, dop_model *model, const dop_tokenizer *tok,
                               struct dop_matcher *matcher, const dop_generation_options *options, dop_diag *diag);
void dop_generation_finish(dop_generation *generation); /* accepts a zeroed one */

/* Who picks: DOP_WANTS_PICK and DOP_WANTS_DRAW, the device; DOP_WANTS_LOGITS, the host. */
uint32_t dop_generation_wants(const dop_generation *generation);
/* Computes the matcher's mask for the next pick, for at most about `steps` steps of the grammar. */
dop_status dop_generation_prepare(dop_generation *generation, uint64_t steps, dop_diag *diag);
dop_status dop_generation_ready(dop_generation *generation, dop_diag *diag);
/* Picks the next token.  row: the row of the open step that the pick is from; history: the n_history tokens before the pick. */
dop_status dop_generation_pick(dop_generation *generation, uint32_t row, dop_picker *picker, const uint32_t *history,
                               size_t n_history, dop_diag *diag);
/* Counts the pick as written.  The text that it adds is output.text[*out_from .. size). */
dop_status dop_generation_write(dop_generation *generation, dop_diag *diag, size_t *out_from, dop_end *out_end);
/* Releases what was held back. */
dop_status dop_generation_flush(dop_generation *generation, dop_diag *diag, size_t *out_from);

#endif
