/* Encodes text: extracts added tokens, then normalizes, splits and encodes the text between them. */
#include <stdlib.h>
#include <string.h>

#include "base/encoding/utf8.h"
#include "text/tokenizer/tokenizer_internal.h"
#include <utf8proc.h>

enum { cache_from = 2048 }; /* minimum bytes of text for which a word cache pays off */

typedef struct encoder {
    const dop_tokenizer *t;
    unsigned flags;
    dop_diag *diag;
    dop_ids *out;
    void *words; /* encoder state from the tokenizer kind's create() */
    dop_tok_work work;
    dop_buf normal; /* current text segment after normalization */
} encoder;

/* True if the character is a word character as defined by single_word of Hugging Face's tokenizers. Includes the two
 * joiners, and letters in circles and squares. */
static bool
is_word_character(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_ND) || c == UTF8PROC_CATEGORY_PC ||
           c == UTF8PROC_CATEGORY_NL || cp == 0x200c || cp == 0x200d || (cp >= 0x24b6 && cp <= 0x24e9) ||
           (cp >= 0x1f130 && cp <= 0x1f149) || (cp >= 0x1f150 && cp <= 0x1f169) || (cp >= 0x1f170 && cp <= 0x1f189);
}

static bool
is_added_allowed(const encoder *e, const dop_tok_added *a)
{
    return !(a->flags & DOP_ADDED_SPECIAL) || (e->flags & DOP_ENCODE_PARSE_SPECIAL);
}

/* Returns the longest added token of a group that s[0..n) begins with, or NULL. The group is sorted bytewise, so
 * each further byte of the text narrows the range of candidates by binary search. */
static const dop_tok_added *
match_added_token(const encoder *e, int group, const char *s, size_t n)
{
    const dop_tokenizer *t = e->t;
    const dop_tok_added *best = NULL;
    bool hide = !(t->head->flags & DOP_TOK_F_GGUF_MATCH);
    uint32_t lo = t->added_first[group][(uint8_t)s[0]], hi = t->added_first[group][(uint8_t)s[0] + 1];
    for (size_t depth = 1; lo < hi; depth++) {
        const dop_tok_added *a = &t->added[lo];
        if (a->text.bytes == depth && (hide || is_added_allowed(e, a)))
            best = a;
        if (a->text.bytes == depth)
            lo++; /* the token that ends here is first in the range; the rest are longer */
        if (depth >= n)
            break;
        uint8_t c = (uint8_t)s[depth];
        uint32_t x = lo, y = hi; /* lower bound: first entry with byte >= c at this depth */
        while (x < y) {
            uint32_t mid = x + (y - x) / 2;
            if ((uint8_t)t->strings[t->added[mid].text.offset + depth] < c)
                x = mid + 1;
            else
                y = mid;
        }
        lo = x;
        for (y = hi; x < y;) { /* upper bound: first entry with byte > c */
            uint32_t mid = x + (y - x) / 2;
            if ((uint8_t)t->strings[t->added[mid].text.offset + depth] <= c)
                x = mid + 1;
            else
                y = mid;
        }
        hi = x;
    }
    return best;
}

static bool
is_single_word(const char *s, size_t n, size_t a, size_t b)
{
    if (a > 0) {
        size_t p = dop_utf8_prev(s, a);
        if (is_word_character(dop_utf8_next(s + p, a - p).cp))
            return false;
    }
    return b >= n || !is_word_character(dop_utf8_next(s + b, n - b).cp);
}

static bool
is_stripped_space(const dop_tokenizer *t, uint32_t cp)
{
    return dop_utf8_is_space(cp) && (cp < 0x80 || !(t->head->flags & DOP_TOK_F_GGUF_MATCH));
}

static size_t
skip_spaces_before(const dop_tokenizer *t, const char *s, size_t a, size_t floor)
{
    while (a > floor) {
        size_t p = dop_utf8_prev(s, a);
        if (p < floor || !is_stripped_space(t, dop_utf8_next(s + p, a - p).cp))
            break;
        a = p;
    }
    return a;
}

static size_t
skip_spaces_after(const dop_tokenizer *t, const char *s, size_t n, size_t b)
{
    while (b < n) {
        dop_utf8_char c = dop_utf8_next(s + b, n - b);
        if (!is_stripped_space(t, c.cp))
            break;
        b += c.len;
    }
    return b;
}

typedef dop_status plain_fn(encoder *e, const char *s, size_t n, bool first);

/* Splits a text at the added tokens of a group. Calls `plain` for each text segment between tokens, and appends the
 * tokens' ids. */
static dop_status
cut_added(encoder *e, int group, const char *s, size_t n, bool first, plain_fn *plain)
{
    const uint32_t *index = e->t->added_first[group];
    size_t done = 0;
    dop_status st = DOP_OK;
    for (size_t i = 0; i < n && st == DOP_OK;) {
        if (index[(uint8_t)s[i]] == index[(uint8_t)s[i] + 1]) {
            i++;
            continue;
        }
        const dop_tok_added *m = match_added_token(e, group, s + i, n - i);
        if (!m) {
            i++;
            continue;
        }
        size_t a = i, b = i + m->text.bytes;
        i = b;
        if (!is_added_allowed(e, m) || ((m->flags & DOP_ADDED_SINGLE_WORD) && !is_single_word(s, n, a, b)))
            continue;
        if (m->flags & DOP_ADDED_LSTRIP)
            a = a < done ? done : skip_spaces_before(e->t, s, a, done);
        if (m->flags & DOP_ADDED_RSTRIP)
            b = skip_spaces_after(e->t, s, n, b);
        if (a > done)
            st = plain(e, s + done, a - done, first && done == 0);
        if (b > a) /* false if an earlier token's right white space already covered it */
            dop_ids_push(e->out, m->id);
        done = b;
        if (e->t->head->flags & DOP_TOK_F_GGUF_MATCH) /* otherwise tokens may also match in white space on the right */
            i = b;
    }
    if (st == DOP_OK && done < n)
        st = plain(e, s + done, n - done, first && done == 0);
    return st;
}

/* Sets the work area to a text with one span, then applies ops [first_op, last_op). */
static dop_status
apply_to_text(encoder *e, const char *s, size_t n, bool first, uint32_t first_op, uint32_t last_op)
{
    dop_tok_work *w = &e->work;
    w->text.size = 0;
    dop_buf_append(&w->text, s, n);
    w->spans.count = 0;
    dop_tok_spans_push(&w->spans, (dop_tok_span){0, n, first});
    if (w->text.failed || w->spans.failed)
        return DOP_NO_MEMORY(e->diag);
    return dop_tok_apply_ops(e->t, first_op, last_op, w, e->diag);
}

/* Pre-tokenizes and encodes normalized text that contains no added tokens. */
static dop_status
encode_words(encoder *e, const char *s, size_t n, bool first)
{
    dop_tok_work *w = &e->work;
    const dop_tokenizer *t = e->t;
    DOP_RETURN_IF_ERROR(apply_to_text(e, s, n, first, t->head->norm_ops, t->ops_count));
    for (size_t i = 0; i < w->spans.count; i++)
        DOP_RETURN_IF_ERROR(!dop_budget_step(w->budget, 4 + w->spans.data[i].len)
                                ? dop_tok_no_room(w->budget, e->diag)
                                : t->kind->word(e->words, w->text.data + w->spans.data[i].start, w->spans.data[i].len,
                                                e->diag, e->out));
    return DOP_OK;
}

/* Normalizes and encodes raw text that contains no added tokens of group 0. */
static dop_status
encode_raw(encoder *e, const char *s, size_t n, bool first)
{
    const dop_tokenizer *t = e->t;
    bool more = t->head->added_raw < t->added_count;
    if (!t->head->norm_ops)
        return more ? cut_added(e, 1, s, n, first, encode_words) : encode_words(e, s, n, first);
    dop_tok_work *w = &e->work;
    dop_status st = apply_to_text(e, s, n, first, 0, t->head->norm_ops);
    if (st != DOP_OK || w->spans.count == 0)
        return st;
    /* The normalizer keeps the text in one span. Moves the text out of the work area, because encode_words() reuses
     * it. */
    dop_buf text = e->normal;
    e->normal = w->text;
    w->text = text;
    return more ? cut_added(e, 1, e->normal.data, e->normal.size, first, encode_words)
                : encode_words(e, e->normal.data, e->normal.size, first);
}

dop_status
dop_tokenizer_encode(const dop_tokenizer *tok, const char *text, size_t len, unsigned flags, dop_diag *diag,
                     dop_ids *out_ids)
{
    return dop_tokenizer_encode_within(tok, text, len, flags, NULL, diag, out_ids);
}

/* True if the ids from index `from` on begin (or, with at_end, end) with the given list. */
static bool
has_ids(const dop_ids *ids, size_t from, bool at_end, const uint32_t *these, uint32_t n)
{
    if (n == 0 || ids->failed || ids->count - from < n)
        return false;
    return memcmp(ids->data + (at_end ? ids->count - n : from), these, n * sizeof *these) == 0;
}

/* Adds the definition's prefix and suffix tokens around the ids out[before ..]. */
static void
add_around(const dop_tokenizer *tok, unsigned flags, size_t before, dop_ids *out)
{
    const bool once = (flags & DOP_ENCODE_ONCE) != 0;
    uint32_t n = tok->prefix_count;
    const bool ends = (flags & DOP_ENCODE_OPEN) || (once && has_ids(out, before, true, tok->suffix, tok->suffix_count));
    if (n > 0 && !(once && has_ids(out, before, false, tok->prefix, n))) {
        for (uint32_t i = 0; i < n; i++)
            dop_ids_push(out, 0);
        if (out->failed)
            return;
        memmove(out->data + before + n, out->data + before, (out->count - before - n) * sizeof *out->data);
        memcpy(out->data + before, tok->prefix, n * sizeof *out->data);
    }
    for (uint32_t i = 0; i < tok->suffix_count && !ends; i++)
        dop_ids_push(out, tok->suffix[i]);
}

dop_status
dop_tokenizer_encode_within(const dop_tokenizer *tok, const char *text, size_t len, unsigned flags, dop_budget *budget,
                            dop_diag *diag, dop_ids *out_ids)
{
    dop_status st = DOP_OK;
    size_t before = out_ids->count;
    encoder e = {.t = tok, .flags = flags, .diag = diag, .out = out_ids, .work = {.budget = budget}};
    size_t bad = dop_utf8_check(text, len);
    if (bad != len)
        return DOP_FAIL(diag, DOP_E_INPUT, "the text is not valid UTF-8: byte 0x%02x at offset %zu", (uint8_t)text[bad],
                        bad);
    e.words = tok->kind->create(tok, len >= cache_from, budget);
    e.work.regex = dop_regex_scratch_create();
    if (!e.words || !e.work.regex) {
        st = DOP_NO_MEMORY(diag);
        goto error;
    }
    if (len)
        st = cut_added(&e, 0, text, len, true, encode_raw);
    if (st == DOP_OK && !out_ids->failed && (flags & DOP_ENCODE_ADD_SPECIAL))
        add_around(tok, flags, before, out_ids);
    if (st == DOP_OK && out_ids->failed)
        st = DOP_NO_MEMORY(diag);
error:
    if (st != DOP_OK)
        out_ids->count = before;
    tok->kind->destroy(e.words);
    dop_tok_work_finish(&e.work);
    dop_buf_finish(&e.normal);
    return st;
}

dop_status
dop_tokenizer_encode_pair(const dop_tokenizer *tok, const char *first, size_t n_first, const char *second,
                          size_t n_second, dop_budget *budget, dop_diag *diag, dop_ids *out_ids, size_t *out_second)
{
    const uint32_t *between = tok->middle_count ? tok->middle : tok->suffix;
    const uint32_t n = tok->middle_count ? tok->middle_count : tok->suffix_count;
    const size_t before = out_ids->count;
    dop_status st = dop_tokenizer_encode_within(tok, first, n_first, DOP_ENCODE_ADD_SPECIAL | DOP_ENCODE_OPEN, budget,
                                                diag, out_ids);
    for (uint32_t i = 0; i < n && st == DOP_OK; i++)
        dop_ids_push(out_ids, between[i]);
    *out_second = out_ids->count;
    if (st == DOP_OK)
        st = dop_tokenizer_encode_within(tok, second, n_second, 0, budget, diag, out_ids);
    for (uint32_t i = 0; i < tok->suffix_count && st == DOP_OK; i++)
        dop_ids_push(out_ids, tok->suffix[i]);
    if (st == DOP_OK && out_ids->failed)
        st = DOP_NO_MEMORY(diag);
    if (st != DOP_OK)
        out_ids->count = before;
    return st;
}
