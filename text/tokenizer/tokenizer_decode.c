/* Decodes ids to text, in complete characters only. */
#include "base/encoding/utf8.h"
#include "text/tokenizer/tokenizer_internal.h"

void
dop_text_stream_init(dop_text_stream *s, const dop_tokenizer *tok, unsigned flags)
{
    memset(s, 0, sizeof *s);
    s->tok = tok;
    s->flags = flags;
    s->first = !(flags & DOP_DECODE_CONTINUE);
    s->strip = (flags & DOP_DECODE_CONTINUE) ? 0 : tok->head->strip;
}

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Appends the complete characters of s; keeps the start of an incomplete one in st->hold. */
static void
put_text_bytes(dop_text_stream *st, const char *s, size_t n, dop_buf *out)
{
    while (n && st->held) { /* complete the held character byte by byte */
        char c[4];
        memcpy(c, st->hold, st->held);
        c[st->held] = *s;
        dop_utf8_char u = dop_utf8_next(c, st->held + 1u);
        if (u.valid) {
            dop_buf_append(out, c, u.len);
            st->held = 0;
        } else if (u.partial) {
            st->hold[st->held++] = *s;
        } else { /* the held bytes are ill-formed; the new byte may begin a character */
            dop_buf_append(out, replacement, 3);
            st->held = 0;
            continue;
        }
        s++;
        n--;
    }
    size_t i = 0;
    while (i < n) {
        size_t good = dop_utf8_check(s + i, n - i);
        dop_buf_append(out, s + i, good);
        i += good;
        if (i == n)
            break;
        dop_utf8_char u = dop_utf8_next(s + i, n - i);
        if (u.partial) {
            st->held = u.len;
            memcpy(st->hold, s + i, u.len);
            break;
        }
        dop_buf_append(out, replacement, 3);
        i += u.len;
    }
}

dop_status
dop_text_stream_push(dop_text_stream *s, uint32_t id, dop_diag *diag, dop_buf *out)
{
    const dop_tokenizer *t = s->tok;
    if (id >= t->head->tokens)
        return DOP_FAIL(diag, DOP_E_INPUT, "token id %u is outside the vocabulary of %u", id, t->head->tokens);
    if ((s->flags & DOP_DECODE_SKIP_SPECIAL) && (t->token_flags[id] & DOP_TOKEN_SPECIAL))
        return DOP_OK;
    const char *p = t->text_bytes + t->text_off[id];
    size_t n = t->text_off[id + 1] - t->text_off[id];
    bool first = s->first;
    s->first = false;
    if (first && (t->token_flags[id] & DOP_TOKEN_GOES_ON)) {
        dop_buf_append(out, t->strings + t->head->joint.offset, t->head->joint.bytes);
        s->strip = 0;
    }
    if (first && (t->head->flags & DOP_TOK_F_FIRST_TRIM)) {
        for (size_t i = 0; i < n; i++)
            if (p[i] != ' ')
                put_text_bytes(s, p + i, 1, out);
        n = 0;
    }
    if (id == t->head->unk && t->head->model != DOP_TOK_WORDPIECE)
        s->strip = 0; /* the unknown token's text keeps its leading spaces */
    if (n && s->strip && (t->head->flags & DOP_TOK_F_STRIP_EACH)) {
        size_t drop = *p == ' ';
        p += drop;
        n -= drop;
        s->strip = n == 0;
    }
    while (n && s->strip) {
        if (*p != ' ') {
            s->strip = 0;
            break;
        }
        s->strip--;
        p++;
        n--;
    }
    put_text_bytes(s, p, n, out);
    return out->failed ? DOP_NO_MEMORY(diag) : DOP_OK;
}

void
dop_text_stream_flush(dop_text_stream *s, dop_buf *out)
{
    if (s->held)
        dop_buf_append(out, replacement, 3);
    s->held = 0;
}

dop_status
dop_tokenizer_decode(const dop_tokenizer *tok, const uint32_t *ids, size_t count, unsigned flags, dop_diag *diag,
                     dop_buf *out)
{
    dop_text_stream s;
    dop_text_stream_init(&s, tok, flags);
    for (size_t i = 0; i < count; i++) {
        dop_status st = dop_text_stream_push(&s, ids[i], diag, out);
        if (st != DOP_OK)
            return st;
    }
    dop_text_stream_flush(&s, out);
    return out->failed ? DOP_NO_MEMORY(diag) : DOP_OK;
}
