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

/* The stop texts must outlive it. */
void dop_output_init(dop_output *out, const dop_texts *stops);
void dop_output_finish(dop_output *out); /* accepts a zeroed one */
/* Takes the text of a token; none after a stop text.  What is released is text[*out_from .. text.size). */
dop_status dop_output_push(dop_output *out, const char *bytes, size_t n, dop_diag *diag, size_t *out_from);
/* End of generation: what is still held is released. */
dop_status dop_output_end(dop_output *out, dop_diag *diag, size_t *out_from);

#endif
