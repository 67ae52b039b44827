/* Releases generated text as it comes, but nothing that is or may become a stop text. */
#ifndef DOPPLER_RUNTIME_LIBRARY_OUTPUT_H
#define DOPPLER_RUNTIME_LIBRARY_OUTPUT_H

#include "base/base.h"

typedef struct dop_output {
    const char *const *stops; /* [n_stops], not owned */
    size_t n_stops;
    dop_buf held; /* text that may be the start of a stop text */
    dop_buf text; /* everything released so far */
    bool stopped; /* a stop text was seen; nothing is released any more */
    size_t stop;  /* stopped: index of that stop text */
} dop_output;

/* The stop texts must outlive the output. */
void dop_output_init(dop_output *out, const char *const *stops, size_t n_stops);
void dop_output_finish(dop_output *out); /* accepts a zeroed one */
/* Takes the text of a token.  What this releases is text[*out_from .. text.size); after a stop text nothing. */
dop_status dop_output_push(dop_output *out, const char *bytes, size_t n, dop_diag *diag, size_t *out_from);
/* End of the text: releases what is still held, text[*out_from .. text.size). */
dop_status dop_output_end(dop_output *out, dop_diag *diag, size_t *out_from);

#endif
