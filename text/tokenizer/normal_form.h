/* Unicode normalization forms (UAX #15), in time that is linear in the text whatever its marks are. */
#ifndef DOPPLER_TEXT_TOKENIZER_NORMAL_FORM_H
#define DOPPLER_TEXT_TOKENIZER_NORMAL_FORM_H

#include "base/budget.h"

enum {
    DOP_NORMAL_COMPOSE = 1, /* NFC and NFKC; otherwise NFD and NFKD */
    DOP_NORMAL_COMPAT = 2   /* NFKC and NFKD: compatibility characters are decomposed, too */
};

/* Appends the form of s[0..n), which is valid UTF-8.  form: DOP_NORMAL_* bits.  Charges a step for each character, and
 * while it works the bytes that it holds beside out.  DOP_E_LIMIT: the budget is exhausted. */
dop_status dop_normal_form(unsigned form, const char *s, size_t n, dop_budget *budget, dop_diag *diag, dop_buf *out);

#endif
