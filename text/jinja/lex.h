/* Splits Jinja templates into tokens, with Hugging Face's environment: trim_blocks and lstrip_blocks on, the
 * template's last newline dropped. Reference: Jinja2's documentation, "Whitespace Control". */
#ifndef DOPPLER_TEXT_JINJA_LEX_H
#define DOPPLER_TEXT_JINJA_LEX_H

#include "text/jinja/jinja.h"

/* Returns the tokens of a template, ending with JT_EOF, or NULL after an error. */
dop_j_tok *dop_j_lex(dop_j_ctx *cx, const char *s, size_t n, size_t *out_n);

#endif
