/* Releases generated text as it arrives, except text that is or may become a stop text. */
#ifndef DOPPLER_RUNTIME_LIBRARY_OUTPUT_H
#define DOPPLER_RUNTIME_LIBRARY_OUTPUT_H

#include "base/base.h"

typedef struct dop_output {
    const char *const *stops; /* [n_stops], not owned */
    size_t n_stops;
    dop_buf held; /* held-back text that may be the start of a stop text */
    dop_buf text; /* everything released so far */
    bool stopped; /* a stop text was found; nothing more is released */
    size_t stop;  /* index of that stop text, if stopped */
} dop_output;

/* Initializes an output. The stop texts must outlive it. */
void dop_output_init(dop_output *out, const char *const *stops, size_t n_stops);
void dop_output_finish(dop_output *out); /* accepts a zeroed one */
/* Adds the text of a token. The newly released text is text[*out_from .. text.size); nothing after a stop text. */
dop_status dop_output_push(dop_output *out, const char *bytes, size_t n, dop_diag *diag, size_t *out_from);
/* Ends the text and releases the held-back rest, text[*out_from .. text.size). */
dop_status dop_output_end(dop_output *out, dop_diag *diag, size_t *out_from);

#endif
