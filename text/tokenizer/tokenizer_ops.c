/* Normalizer and pre-tokenizer steps. Each step replaces the text or its spans. */
#include <stdlib.h>
#include <utf8proc.h>

#include "base/encoding/utf8.h"
#include "text/tokenizer/normal_form.h"
#include "text/tokenizer/tokenizer_charsmap.h"

void
dop_tok_spans_push(dop_tok_spans *s, dop_tok_span span)
{
    if (s->failed)
        return;
    if (s->count == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 64;
        dop_tok_span *p = cap <= SIZE_MAX / sizeof *p ? realloc(s->data, cap * sizeof *p) : NULL;
        if (!p) {
            s->failed = true;
            return;
        }
        s->data = p;
        s->cap = cap;
    }
    s->data[s->count++] = span;
}

void
dop_tok_work_finish(dop_tok_work *w)
{
    dop_buf_finish(&w->text);
    dop_buf_finish(&w->text_next);
    free(w->spans.data);
    free(w->spans_next.data);
    dop_regex_scratch_destroy(w->regex);
    memset(w, 0, sizeof *w);
}

static const char *
find_op_string(const dop_tokenizer *t, dop_tok_str s)
{
    return s.bytes ? t->strings + s.offset : "";
}

static dop_status
apply_normal_form(dop_tok_op_kind kind, dop_tok_work *w, const char *s, size_t n, dop_diag *diag, dop_buf *out)
{
    unsigned form = (kind == DOP_OP_NFC || kind == DOP_OP_NFKC ? (unsigned)DOP_NORMAL_COMPOSE : 0) |
                    (kind == DOP_OP_NFKC || kind == DOP_OP_NFKD ? (unsigned)DOP_NORMAL_COMPAT : 0);
    return dop_normal_form(form, s, n, w->budget, diag, out);
}

static bool
is_mark(uint32_t cp, bool all)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return c == UTF8PROC_CATEGORY_MN || (all && (c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME));
}

/* Maps a text character by character: converts to lower case or drops marks. */
static void
map_chars(dop_tok_op_kind kind, bool all_marks, const char *s, size_t n, dop_buf *out)
{
    for (size_t i = 0; i < n;) {
        dop_utf8_char c = dop_utf8_next(s + i, n - i);
        i += c.len;
        char bytes[4];
        if (kind == DOP_OP_STRIP_ACCENTS) {
            if (is_mark(c.cp, all_marks))
                continue;
        } else if (c.cp == 0x130) {
            dop_buf_puts(out, "i\xcc\x87"); /* U+0130 is the only character whose lower case has two characters */
            continue;
        } else {
            c.cp = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c.cp);
        }
        dop_buf_append(out, bytes, dop_utf8_put(c.cp, bytes));
    }
}

/* True if DOP_OP_BERT_CLEAN drops the character: control, format and private-use characters, except white space. */
static bool
is_control(uint32_t cp)
{
    utf8proc_category_t c = utf8proc_category((utf8proc_int32_t)cp);
    return cp != '\t' && cp != '\n' && cp != '\r' &&
           (c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CO);
}

static void
clean_bert_text(const char *s, size_t n, dop_buf *out)
{
    for (size_t i = 0; i < n;) {
        dop_utf8_char c = dop_utf8_next(s + i, n - i);
        if (dop_utf8_is_space(c.cp) && !is_control(c.cp))
            dop_buf_append(out, " ", 1);
        else if (c.cp != 0 && c.cp != 0xfffd && !is_control(c.cp))
            dop_buf_append(out, s + i, c.len);
        i += c.len;
    }
}

/* True if the character is in a CJK block. BERT's vocabularies encode such characters one by one. */
static bool
is_chinese(uint32_t cp)
{
    static const struct {
        uint32_t first, last;
    } blocks[] = {{0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfaff},   {0x20000, 0x2a6df},
                  {0x2a700, 0x2b73f}, {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f}};
    for (size_t i = 0; cp >= blocks[0].first && i < sizeof blocks / sizeof *blocks; i++)
        if (cp >= blocks[i].first && cp <= blocks[i].last)
            return true;
    return false;
}

static void
isolate_chinese(const char *s, size_t n, dop_buf *out)
{
    for (size_t i = 0; i < n;) {
        dop_utf8_char c = dop_utf8_next(s + i, n - i);
        bool alone = is_chinese(c.cp);
        dop_buf_append(out, " ", alone);
        dop_buf_append(out, s + i, c.len);
        dop_buf_append(out, " ", alone);
        i += c.len;
    }
}

static void
strip_spaces(unsigned sides, const char *s, size_t n, dop_buf *out)
{
    size_t a = 0;
    while ((sides & 1u) && a < n) {
        dop_utf8_char c = dop_utf8_next(s + a, n - a);
        if (!dop_utf8_is_space(c.cp))
            break;
        a += c.len;
    }
    while ((sides & 2u) && n > a) {
        size_t p = dop_utf8_prev(s, n);
        if (!dop_utf8_is_space(dop_utf8_next(s + p, n - p).cp))
            break;
        n = p;
    }
    dop_buf_append(out, s + a, n - a);
}

/* Finds the first match of an op's pattern (a literal or a regular expression) at or after `from`. */
static dop_status
find_op_match(const dop_tokenizer *t, uint32_t op, dop_tok_work *w, const char *s, size_t n, size_t from,
              dop_diag *diag, bool *found, size_t *a, size_t *b)
{
    if (t->regex[op])
        return dop_regex_find(t->regex[op], w->regex, s, n, from, w->budget, diag, found, a, b);
    dop_tok_str pat = t->ops[op].a;
    const char *p = pat.bytes && from < n ? memmem(s + from, n - from, find_op_string(t, pat), pat.bytes) : NULL;
    *found = p != NULL;
    if (!dop_budget_step(w->budget, 1))
        return dop_budget_fail(w->budget, diag, "tokenizing the text");
    if (p) {
        *a = (size_t)(p - s);
        *b = *a + pat.bytes;
    }
    return DOP_OK;
}

/* Fails if a step made the text longer than w->limit. Protects memory against damaged definitions; published ones
 * lengthen a text at most 11 times (NFKC). */
static dop_status
check_growth(const dop_tok_work *w, size_t size, dop_diag *diag)
{
    if (size <= w->limit)
        return DOP_OK;
    return DOP_FAIL(diag, DOP_E_INPUT,
                    "the tokenizer's normalizer lengthens the text too much (to more than %zu bytes)", w->limit);
}

static dop_status
replace_matches(const dop_tokenizer *t, uint32_t op, dop_tok_work *w, const char *s, size_t n, dop_diag *diag,
                dop_buf *out)
{
    dop_tok_str by = t->ops[op].b;
    size_t done = 0, from = 0;
    while (from <= n) {
        bool found;
        size_t a, b;
        dop_status st = find_op_match(t, op, w, s, n, from, diag, &found, &a, &b);
        if (st != DOP_OK)
            return st;
        if (!found)
            break;
        dop_buf_append(out, s + done, a - done);
        dop_buf_append(out, find_op_string(t, by), by.bytes);
        if ((st = check_growth(w, out->size, diag)) != DOP_OK)
            return st;
        done = b;
        from = b;
        if (a == b) /* empty match: advance by one character */
            from += b < n ? dop_utf8_next(s + b, n - b).len : 1;
    }
    dop_buf_append(out, s + done, n - done);
    return DOP_OK;
}

/* Appends one piece of a split to the spans, or merges it with the previous piece of the split. `base`: number of
 * spans before the split. */
static void
add_split_piece(dop_tok_split how, bool match, bool prev_match, size_t base, dop_tok_span span, dop_tok_spans *out)
{
    dop_tok_span *last = out->count > base ? &out->data[out->count - 1] : NULL;
    bool join = false;
    switch (how) {
    case DOP_SPLIT_REMOVED:
        if (match)
            return;
        break;
    case DOP_SPLIT_MERGED_WITH_PREVIOUS:
        join = last && match && !prev_match;
        break;
    case DOP_SPLIT_MERGED_WITH_NEXT: /* in a run of matches only the last one merges with the following text */
        join = last && !match && prev_match;
        break;
    case DOP_SPLIT_CONTIGUOUS:
        join = last && match == prev_match;
        break;
    default:
        break;
    }
    if (join)
        last->len += span.len;
    else if (span.len)
        dop_tok_spans_push(out, span);
}

static dop_status
split_span(const dop_tokenizer *t, uint32_t op, dop_tok_work *w, dop_tok_span in, dop_diag *diag, dop_tok_spans *out)
{
    const char *s = w->text.data + in.start;
    dop_tok_split how = (dop_tok_split)(t->ops[op].flags & 15u);
    bool invert = (t->ops[op].flags & DOP_SPLIT_INVERT) != 0, prev = false;
    size_t base = out->count, done = 0, from = 0;
    while (from <= in.len) {
        bool found;
        size_t a, b;
        dop_status st = find_op_match(t, op, w, s, in.len, from, diag, &found, &a, &b);
        if (st != DOP_OK)
            return st;
        if (!found)
            break;
        if (a > done) {
            add_split_piece(how, invert, prev, base, (dop_tok_span){in.start + done, a - done, in.first && done == 0},
                            out);
            prev = invert;
        }
        if (b > a) {
            add_split_piece(how, !invert, prev, base, (dop_tok_span){in.start + a, b - a, in.first && a == 0}, out);
            prev = !invert;
        }
        done = b;
        from = b;
        if (a == b)
            from += b < in.len ? dop_utf8_next(s + b, in.len - b).len : 1;
    }
    if (in.len > done)
        add_split_piece(how, invert, prev, base, (dop_tok_span){in.start + done, in.len - done, in.first && done == 0},
                        out);
    return DOP_OK;
}

bool
dop_tok_bytes_of_piece(const char *s, size_t n, dop_buf *out)
{
    for (size_t i = 0; i < n;) {
        dop_utf8_char u = dop_utf8_next(s + i, n - i);
        uint32_t c = u.cp, byte;
        if (!u.valid)
            return false;
        i += u.len;
        /* The substitutes from U+0100 on stand for bytes 0-32, 127-160 and 173, in this order. */
        if ((c > 32 && c < 127) || (c > 160 && c < 256 && c != 173))
            byte = c;
        else if (c >= 256 && c < 256 + 33)
            byte = c - 256;
        else if (c >= 256 + 33 && c < 256 + 67)
            byte = c - 256 - 33 + 127;
        else if (c == 256 + 67)
            byte = 173;
        else
            return false;
        char b = (char)byte;
        dop_buf_append(out, &b, 1);
    }
    return true;
}

/* Encodes bytes in GPT-2's byte alphabet; the inverse of dop_tok_bytes_of_piece(). */
static void
write_byte_letters(const char *s, size_t n, dop_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t byte = (unsigned char)s[i];
        char letter[4];
        const uint32_t c = byte <= 32                   ? 256 + byte
                           : byte >= 127 && byte <= 160 ? 256 + 33 + byte - 127
                           : byte == 173                ? 256 + 67
                                                        : byte;
        dop_buf_append(out, letter, dop_utf8_put(c, letter));
    }
}

/* Applies op i to the text of one span and appends the result to out. */
static dop_status
rewrite_span(const dop_tokenizer *t, uint32_t i, dop_tok_work *w, dop_tok_span in, dop_diag *diag, dop_buf *out)
{
    const dop_tok_op *op = &t->ops[i];
    const char *s = w->text.data + in.start;
    size_t n = in.len;
    switch ((dop_tok_op_kind)op->kind) {
    case DOP_OP_NFC:
    case DOP_OP_NFD:
    case DOP_OP_NFKC:
    case DOP_OP_NFKD:
        return apply_normal_form((dop_tok_op_kind)op->kind, w, s, n, diag, out);
    case DOP_OP_LOWERCASE:
    case DOP_OP_STRIP_ACCENTS:
        map_chars((dop_tok_op_kind)op->kind, (op->flags & DOP_ACCENTS_ALL) != 0, s, n, out);
        return DOP_OK;
    case DOP_OP_BERT_CLEAN:
        clean_bert_text(s, n, out);
        return DOP_OK;
    case DOP_OP_BERT_CHINESE:
        isolate_chinese(s, n, out);
        return DOP_OK;
    case DOP_OP_CHARSMAP:
        dop_charsmap_graphemes(t, s, n, out);
        return DOP_OK;
    case DOP_OP_SENTENCEPIECE:
        dop_charsmap_sentencepiece(t, op->flags, s, n, out);
        return DOP_OK;
    case DOP_OP_LETTERS:
        write_byte_letters(s, n, out);
        return DOP_OK;
    case DOP_OP_BYTES:
        return dop_tok_bytes_of_piece(s, n, out)
                   ? DOP_OK
                   : DOP_FAIL(diag, DOP_E_INPUT,
                              "the tokenizer turns text into bytes that is not made of their letters");
    case DOP_OP_STRIP:
        strip_spaces(op->flags, s, n, out);
        return DOP_OK;
    case DOP_OP_REPLACE:
    case DOP_OP_REPLACE_REGEX:
        return replace_matches(t, i, w, s, n, diag, out);
    case DOP_OP_PREPEND: {
        const char *a = find_op_string(t, op->a);
        bool has = n >= op->a.bytes && memcmp(s, a, op->a.bytes) == 0;
        if (n && !((op->flags & DOP_PREPEND_MISSING) && has) && !((op->flags & DOP_PREPEND_FIRST) && !in.first))
            dop_buf_append(out, a, op->a.bytes);
        dop_buf_append(out, s, n);
        return DOP_OK;
    }
    default:
        return DOP_FAIL(diag, DOP_E_INTERNAL, "tokenizer step %u does not rewrite text", op->kind);
    }
}

dop_status
dop_tok_apply_ops(const dop_tokenizer *t, uint32_t from, uint32_t to, dop_tok_work *w, dop_diag *diag)
{
    enum { growth = 256, slack = 1024 };
    w->limit = w->text.size < (SIZE_MAX - slack) / growth ? w->text.size * growth + slack : SIZE_MAX;
    for (uint32_t i = from; i < to; i++) {
        dop_tok_op_kind kind = (dop_tok_op_kind)t->ops[i].kind;
        bool is_split = kind == DOP_OP_SPLIT || kind == DOP_OP_SPLIT_REGEX;
        w->spans_next.count = 0;
        w->text_next.size = 0;
        for (size_t k = 0; k < w->spans.count; k++) {
            dop_tok_span in = w->spans.data[k];
            dop_status st;
            if (!dop_budget_step(w->budget, 1 + in.len / 4))
                return dop_budget_fail(w->budget, diag, "tokenizing the text");
            if (is_split) {
                st = split_span(t, i, w, in, diag, &w->spans_next);
            } else {
                size_t start = w->text_next.size;
                st = rewrite_span(t, i, w, in, diag, &w->text_next);
                if (st == DOP_OK)
                    st = check_growth(w, w->text_next.size, diag);
                if (w->text_next.size > start)
                    dop_tok_spans_push(&w->spans_next, (dop_tok_span){start, w->text_next.size - start, in.first});
            }
            if (st != DOP_OK)
                return st;
        }
        if (w->text_next.failed || w->spans_next.failed)
            return DOP_NO_MEMORY(diag);
        dop_tok_spans spans = w->spans;
        w->spans = w->spans_next;
        w->spans_next = spans;
        if (!is_split) {
            dop_buf text = w->text;
            w->text = w->text_next;
            w->text_next = text;
        }
    }
    return DOP_OK;
}
