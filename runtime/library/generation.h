/* Internals of a generation (doppler/generation.h), for callers that run steps of many generations together, such as
 * the server's engine. They make a token in these phases, which dop_generation_next combines for one sequence:
 *
 * dop_generation_prepare: advances the matcher's next mask, so that no step has to wait for it.
 * dop_generation_ready: gives the sequence what the device needs to pick. Then the caller runs a step with a row of the
 * sequence that requests dop_generation_wants.
 * dop_generation_pick: gets the token from the device's pick or the row's logits. Callable from any thread, one per
 * generation.
 * dop_generation_write: appends the token's text, and reports whether the text ends. */
#ifndef DOPPLER_RUNTIME_LIBRARY_GENERATION_H
#define DOPPLER_RUNTIME_LIBRARY_GENERATION_H

#include "runtime/library/output.h"
#include "runtime/model/info.h"
#include "text/tokenizer/tokenizer.h"

#include <doppler/generation.h>

struct dop_matcher;

/* Per-thread scratch for picking tokens from logits on the host. */
typedef struct dop_picker {
    dop_sampler sampler;
    float *allowed; /* owned, [vocab]: logits restricted by a matcher */
} dop_picker;

dop_status dop_picker_init(dop_picker *picker, uint32_t vocab, dop_diag *diag);
void dop_picker_finish(dop_picker *picker); /* accepts a zeroed one */

struct dop_generation {
    dop_model *model;
    dop_sequence *sequence;      /* sequence that the text is written to; NULL: not set yet */
    const dop_tokenizer *tok;    /* NULL: token ids only, no text */
    struct dop_matcher *matcher; /* not owned; NULL: every token is allowed */
    dop_sampling sampling;       /* sampling parameters; sampling.biases points to `biases` */
    dop_bias *biases;            /* owned */
    char **stops;                /* owned, [n_stops]; one allocation with the texts */
    const uint32_t *end_ids;     /* [n_end_ids]: the model's end-of-generation ids */
    uint32_t n_end_ids;
    uint32_t max_tokens;
    uint32_t n_top;

    uint32_t n_written;    /* number of tokens written */
    uint32_t pick;         /* last picked token */
    const uint32_t *mask;  /* mask for the next pick if the device picks; NULL: not computed yet */
    bool mask_ready;       /* the matcher's next mask is ready; otherwise a step would wait for it */
    bool begun, ended;     /* begun: dop_generation_begin was called; ended: the last token was returned */
    bool refused;          /* the request itself caused the last failure, so a retry would fail again */
    dop_logprob *logprobs; /* owned, [1 + n_top]: of the last token and the likeliest ids; NULL: not requested */
    dop_picker own;        /* scratch of dop_generation_next if the matcher restricts picks on the host */

    dop_text_stream stream;
    dop_buf piece; /* text of the last token */
    dop_output output;
};

/* Initializes a generation from options; tok and matcher replace the text and matcher of the options. */
dop_status dop_generation_init(dop_generation *generation, dop_model *model, const dop_tokenizer *tok,
                               struct dop_matcher *matcher, const dop_generation_options *options, dop_diag *diag);
void dop_generation_finish(dop_generation *generation); /* accepts a zeroed one */

/* Returns where to pick: on the device (DOP_WANTS_PICK, DOP_WANTS_DRAW) or on the host (DOP_WANTS_LOGITS). */
uint32_t dop_generation_wants(const dop_generation *generation);
/* Computes the matcher's mask for the next pick, in at most about `steps` grammar steps. */
dop_status dop_generation_prepare(dop_generation *generation, uint64_t steps, dop_diag *diag);
dop_status dop_generation_ready(dop_generation *generation, dop_diag *diag);
/* Picks the next token. row: row of the open step; history: the n_history tokens before the pick. */
dop_status dop_generation_pick(dop_generation *generation, uint32_t row, dop_picker *picker, const uint32_t *history,
                               size_t n_history, dop_diag *diag);
/* Counts the pick as written and appends its text, output.text[*out_from .. size). */
dop_status dop_generation_write(dop_generation *generation, dop_diag *diag, size_t *out_from, dop_end *out_end);
/* Releases text that was held back. */
dop_status dop_generation_flush(dop_generation *generation, dop_diag *diag, size_t *out_from);

#endif
