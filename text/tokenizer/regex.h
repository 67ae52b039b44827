/* Regular expressions of tokenizer definitions, on PCRE2.
 *
 * The definitions are written for Oniguruma (Hugging Face tokenizers) or for llama.cpp's own splitter.  The few
 * places where PCRE2 means something else are rewritten before compiling:
 *   \s \S   the White_Space property (PCRE2 adds U+180E)
 *   \w \W   Alphabetic, M, Nd, Pc    (PCRE2 10.42 has letters, all numbers and '_')
 * Character class intersection (`&&`) has no PCRE2 form and is refused. */
#ifndef DOPPLER_TEXT_TOKENIZER_REGEX_H
#define DOPPLER_TEXT_TOKENIZER_REGEX_H

#include "base/budget.h"

typedef struct dop_regex dop_regex;                 /* compiled, immutable, may be shared by threads */
typedef struct dop_regex_scratch dop_regex_scratch; /* buffers for matching, of one thread */

/* Compiles a pattern of n bytes, which may be any bytes from outside: one that is not valid UTF-8 is refused. */
dop_status dop_regex_create(const char *pattern, size_t n, dop_diag *diag, dop_regex **out_re);
void dop_regex_destroy(dop_regex *re);

/* NULL when out of memory. */
dop_regex_scratch *dop_regex_scratch_create(void);
void dop_regex_scratch_destroy(dop_regex_scratch *scratch);

/* Finds the first match at or after `from` in a subject of n bytes of valid UTF-8; *out_found false: there is none.  Checks the budget's
 * clock before it searches, because a pattern that looks ahead may take time in proportion to the rest of the subject for every
 * match.  DOP_E_LIMIT: the budget is exhausted, or the match takes more steps or memory than PCRE2 is allowed here. */
dop_status dop_regex_find(const dop_regex *re, dop_regex_scratch *scratch, const char *subject, size_t n, size_t from,
                          dop_budget *budget, dop_diag *diag, bool *out_found, size_t *out_start, size_t *out_end);

#endif
