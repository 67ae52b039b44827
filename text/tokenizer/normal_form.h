/* Unicode normalization forms (UAX #15). Runs in time linear in the text, even for long runs of combining marks. */
#ifndef DOPPLER_TEXT_TOKENIZER_NORMAL_FORM_H
#define DOPPLER_TEXT_TOKENIZER_NORMAL_FORM_H

#include "base/budget.h"

enum {
    DOP_NORMAL_COMPOSE = 1, /* NFC and NFKC; without this bit NFD and NFKD */
    DOP_NORMAL_COMPAT = 2   /* NFKC and NFKD: also decomposes compatibility characters */
};

/* Appends the normal form of s[0..n), which must be valid UTF-8. form: DOP_NORMAL_* bits. Charges the budget one
 * step per character, and its temporary memory while the call runs. Fails with DOP_E_LIMIT when the budget is
 * exhausted. */
dop_status dop_normal_form(unsigned form, const char *s, size_t n, dop_budget *budget, dop_diag *diag, dop_buf *out);

#endif
