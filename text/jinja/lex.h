/* Jinja templates to tokens, with the environment that Hugging Face uses: trim_blocks and lstrip_blocks on, the last newline of the template dropped.  Reference: Jinja2's documentation, "Whitespace Control". */
#ifndef DOPPLER_TEXT_JINJA_LEX_H
#define DOPPLER_TEXT_JINJA_LEX_H

#include "text/jinja/jinja.h"

/* Cuts a template into tokens ending with JT_EOF; NULL after an error. */
dop_j_tok *dop_j_lex(dop_j_ctx *cx, const char *s, size_t n, size_t *out_n);

#endif
