/* Passes generated text on as it comes, but nothing of a stop text. */
#ifndef DOPPLER_BASE_PROGRAM_OUTPUT_H
#define DOPPLER_BASE_PROGRAM_OUTPUT_H

#include "base/program/options.h"

typedef struct dop_output {
    const dop_texts *stops;
    dop_buf held; /* text that may be the start of a stop text */
    dop_buf text; /* everything released so far */
    bool stopped; /* a stop text was seen; nothing is released any more */
} dop_output;

/* What a text ends with, besides stop texts. */
typedef struct dop_ending {
    const uint32_t *ids; /* [n_ids] that end it; they have no text */
    uint32_t n_ids;
    uint32_t most; /* tokens */
} dop_ending;

typedef enum dop_end { DOP_END_NOT_YET, DOP_END_ID, DOP_END_STOP_TEXT, DOP_END_CONSTRAINT, DOP_END_LENGTH } dop_end;

/* Is the id one that ends a text, so that nothing of it is shown? */
bool dop_ending_has(const dop_ending *ending, uint32_t id);
/* Why a text ends with this token, the n-th of it, whose text was pushed.  complete: what constrains it allows no more. */
dop_end dop_output_ends(const dop_output *out, const dop_ending *ending, uint32_t id, uint32_t n, bool complete);

/* The stop texts must outlive it. */
void dop_output_init(dop_output *out, const dop_texts *stops);
void dop_output_finish(dop_output *out); /* accepts a zeroed one */
/* Takes the text of a token; none after a stop text.  What is released is text[*out_from .. text.size). */
dop_status dop_output_push(dop_output *out, const char *bytes, size_t n, dop_diag *diag, size_t *out_from);
/* End of generation: what is still held is released. */
dop_status dop_output_end(dop_output *out, dop_diag *diag, size_t *out_from);

#endif
