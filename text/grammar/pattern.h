/* Converts the regular expressions of `pattern` (ECMA-262) to terms of regular.h. */
#ifndef DOPPLER_TEXT_GRAMMAR_PATTERN_H
#define DOPPLER_TEXT_GRAMMAR_PATTERN_H

#include "text/grammar/regular.h"

/* Creates the term of all texts that contain a match of the expression. Fails with DOP_E_INPUT if the pattern is not
 * a regular expression. Also fails, with *out_irregular set, for a backreference, lookbehind, or properties other
 * than general categories, which terms do not support. */
dop_status dop_pattern_term(dop_regular *r, const char *pattern, size_t n, dop_diag *diag, dop_term *out_term,
                            bool *out_irregular);

/* Appends the expression in PCRE2's syntax, for the options PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX |
 * PCRE2_ALLOW_EMPTY_CLASS, with a limit on the steps of one match. */
void dop_pattern_to_pcre2(const char *pattern, size_t n, dop_buf *out);

#endif
