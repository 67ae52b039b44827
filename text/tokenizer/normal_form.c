#include "text/tokenizer/normal_form.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/encoding/utf8.h"

/* Characters of one text segment while they are decomposed, reordered and composed. */
typedef struct stretch {
    utf8proc_int32_t *cp, *sorted; /* [cap] owned; sorted: scratch memory for reordering */
    size_t n, cap;
    dop_budget *budget;
} stretch;

static bool
reserve_stretch(stretch *t, size_t n)
{
    if (n <= t->cap)
        return true;
    size_t cap = n + n / 2 + 64;
    if (cap > SIZE_MAX / sizeof *t->cp || !dop_budget_take(t->budget, 2 * (cap - t->cap) * sizeof *t->cp))
        return false;
    utf8proc_int32_t *cp = realloc(t->cp, cap * sizeof *cp), *sorted = NULL;
    if (cp) {
        t->cp = cp;
        sorted = realloc(t->sorted, cap * sizeof *sorted);
    }
    if (!sorted) {
        dop_budget_give(t->budget, 2 * (cap - t->cap) * sizeof *t->cp);
        return false;
    }
    t->sorted = sorted;
    t->cap = cap;
    return true;
}

static uint8_t
combining_class(utf8proc_int32_t cp)
{
    return cp < 0x300 ? 0 : (uint8_t)utf8proc_get_property(cp)->combining_class;
}

/* Canonical ordering (UAX #15): sorts the marks of one starter stably by combining class. Uses insertion sort for
 * short runs and counting sort over the 256 classes for long ones. */
static void
order_run(stretch *t, size_t from, size_t to)
{
    enum { few = 16 };
    utf8proc_int32_t *cp = t->cp;
    if (to - from <= few) {
        for (size_t i = from + 1; i < to; i++) {
            utf8proc_int32_t c = cp[i];
            size_t k = i;
            for (; k > from && combining_class(cp[k - 1]) > combining_class(c); k--)
                cp[k] = cp[k - 1];
            cp[k] = c;
        }
        return;
    }
    size_t at[257] = {0};
    for (size_t i = from; i < to; i++)
        at[combining_class(cp[i]) + 1]++;
    for (size_t c = 1; c <= 256; c++)
        at[c] += at[c - 1];
    for (size_t i = from; i < to; i++)
        t->sorted[at[combining_class(cp[i])]++] = cp[i];
    memcpy(cp + from, t->sorted, (to - from) * sizeof *cp);
}

static void
order_marks(stretch *t)
{
    for (size_t i = 0, end; i < t->n; i = end) {
        end = i + 1;
        if (combining_class(t->cp[i]) == 0)
            continue;
        while (end < t->n && combining_class(t->cp[end]) != 0)
            end++;
        if (end - i > 1)
            order_run(t, i, end);
    }
}

static dop_status
report_normal_failure(const stretch *t, dop_diag *diag)
{
    if (t->budget && t->budget->end != DOP_BUDGET_LEFT)
        return dop_budget_fail(t->budget, diag, "normalizing the text");
    return DOP_NO_MEMORY(diag);
}

static dop_status
decompose_text(stretch *t, const char *s, size_t n, utf8proc_option_t options, dop_diag *diag)
{
    int boundary = 0;
    t->n = 0;
    for (size_t i = 0; i < n;) {
        dop_utf8_char c = dop_utf8_next(s + i, n - i);
        i += c.len;
        if (!dop_budget_step(t->budget, 1) || !reserve_stretch(t, t->n + 1))
            return report_normal_failure(t, diag);
        utf8proc_ssize_t room = (utf8proc_ssize_t)(t->cap - t->n);
        utf8proc_ssize_t made = utf8proc_decompose_char((utf8proc_int32_t)c.cp, t->cp + t->n, room, options, &boundary);
        if (made > room) { /* nothing was written; `made` is the required number of elements */
            if (!reserve_stretch(t, t->n + (size_t)made))
                return report_normal_failure(t, diag);
            made = utf8proc_decompose_char((utf8proc_int32_t)c.cp, t->cp + t->n, made, options, &boundary);
        }
        if (made < 0)
            return DOP_FAIL(diag, DOP_E_INPUT, "Unicode normalization failed: %s", utf8proc_errmsg(made));
        t->n += (size_t)made;
    }
    return DOP_OK;
}

static dop_status
normalize_stretch(stretch *t, unsigned form, const char *s, size_t n, dop_diag *diag, dop_buf *out)
{
    unsigned options = UTF8PROC_STABLE | (form & DOP_NORMAL_COMPOSE ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                       (form & DOP_NORMAL_COMPAT ? (unsigned)UTF8PROC_COMPAT : 0);
    dop_status st = decompose_text(t, s, n, (utf8proc_option_t)options, diag);
    if (st != DOP_OK)
        return st;
    order_marks(t);
    if (t->n && (form & DOP_NORMAL_COMPOSE)) {
        utf8proc_ssize_t left = utf8proc_normalize_utf32(t->cp, (utf8proc_ssize_t)t->n, (utf8proc_option_t)options);
        if (left < 0)
            return DOP_FAIL(diag, DOP_E_INPUT, "Unicode normalization failed: %s", utf8proc_errmsg(left));
        t->n = (size_t)left;
    }
    for (size_t i = 0; i < t->n; i++) {
        char bytes[4];
        dop_buf_append(out, bytes, dop_utf8_put((uint32_t)t->cp[i], bytes));
    }
    return DOP_OK;
}

dop_status
dop_normal_form(unsigned form, const char *s, size_t n, dop_budget *budget, dop_diag *diag, dop_buf *out)
{
    stretch t = {.budget = budget};
    dop_status st = DOP_OK;
    /* ASCII characters are their own normal forms. Each composes with following marks, but never with preceding
     * characters. So the text can be cut before every ASCII character, and the segments normalized separately. */
    for (size_t i = 0; i < n && st == DOP_OK;) {
        size_t end = i;
        while (end < n && (uint8_t)s[end] < 0x80)
            end++;
        size_t plain = end < n && end > i ? end - 1 : end;
        dop_buf_append(out, s + i, plain - i);
        if (!dop_budget_step(budget, 1 + (plain - i) / 16))
            st = report_normal_failure(&t, diag);
        i = plain;
        while (end < n && (uint8_t)s[end] >= 0x80)
            end++;
        if (st == DOP_OK && end > i && (uint8_t)s[end - 1] >= 0x80)
            st = normalize_stretch(&t, form, s + i, end - i, diag, out);
        i = end;
    }
    dop_budget_give(budget, 2 * t.cap * sizeof *t.cp);
    free(t.cp);
    free(t.sorted);
    return st;
}
