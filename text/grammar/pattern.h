/* The regular expressions of `pattern` (ECMA-262) as terms of regular.h. */
#ifndef DOPPLER_TEXT_GRAMMAR_PATTERN_H
#define DOPPLER_TEXT_GRAMMAR_PATTERN_H

#include "text/grammar/regular.h"

/* Makes the term of all texts in which a regular expression matches somewhere.  DOP_E_INPUT: the pattern is no regular expression, or
 * (*out_irregular) it uses what is not supported as a term: a backreference, lookbehind, or properties other than general
 * categories. */
dop_status dop_pattern_term(dop_regular *r, const char *pattern, size_t n, dop_diag *diag, dop_term *out_term,
                            bool *out_irregular);

/* Appends the expression as PCRE2 writes it, for PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX | PCRE2_ALLOW_EMPTY_CLASS. */
void dop_pattern_to_pcre2(const char *pattern, size_t n, dop_buf *out);

#endif
