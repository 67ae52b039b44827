/* Statements of Jinja: what stands between "{%" and "%}", and the texts between tags. */
#ifndef DOPPLER_TEXT_JINJA_PARSE_BLOCK_H
#define DOPPLER_TEXT_JINJA_PARSE_BLOCK_H

#include "text/jinja/jinja.h"

/* Parses into cx->tree. */
void dop_j_parse(dop_j_ctx *cx, const char *s, size_t n);

#endif
