/* Parser of Jinja statements ("{% ... %}") and of the texts between tags. */
#ifndef DOPPLER_TEXT_JINJA_PARSE_BLOCK_H
#define DOPPLER_TEXT_JINJA_PARSE_BLOCK_H

#include "text/jinja/jinja.h"

/* Parses a template into cx->tree. */
void dop_j_parse(dop_j_ctx *cx, const char *s, size_t n);

#endif
