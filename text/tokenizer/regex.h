/* Regular expressions of tokenizer definitions, matched with PCRE2.
 *
 * The definitions are written for Oniguruma (Hugging Face tokenizers) or for llama.cpp's own splitter. Syntax that
 * means something else in PCRE2 is rewritten before compiling:
 *   \s \S   the White_Space property (PCRE2 adds U+180E)
 *   \w \W   Alphabetic, M, Nd, Pc    (PCRE2 10.42 has letters, all numbers and '_')
 * Character class intersection (`&&`) has no PCRE2 form and is rejected. */
#ifndef DOPPLER_TEXT_TOKENIZER_REGEX_H
#define DOPPLER_TEXT_TOKENIZER_REGEX_H

#include "base/budget.h"

typedef struct dop_regex dop_regex;                 /* compiled pattern; immutable, so threads may share it */
typedef struct dop_regex_scratch dop_regex_scratch; /* match buffers of one thread */

/* Compiles a pattern of n bytes from an untrusted source. Fails if the pattern is not valid UTF-8. */
dop_status dop_regex_create(const char *pattern, size_t n, dop_diag *diag, dop_regex **out_re);
void dop_regex_destroy(dop_regex *re);

/* Returns NULL when out of memory. */
dop_regex_scratch *dop_regex_scratch_create(void);
void dop_regex_scratch_destroy(dop_regex_scratch *scratch);

/* Finds the first match at or after byte `from` of a subject of n bytes of valid UTF-8. Sets *out_found to false if
 * there is none. Checks the budget's deadline before each search, because a look-ahead may scan the rest of the
 * subject. Fails with DOP_E_LIMIT when the budget is exhausted or the match exceeds PCRE2's step or memory limit. */
dop_status dop_regex_find(const dop_regex *re, dop_regex_scratch *scratch, const char *subject, size_t n, size_t from,
                          dop_budget *budget, dop_diag *diag, bool *out_found, size_t *out_start, size_t *out_end);

#endif
