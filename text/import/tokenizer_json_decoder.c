/* Decoder section of a tokenizer.json.
 *
 * A decoder is a list of steps. Steps before Fuse process tokens separately, so they are applied to the whole
 * vocabulary at import. At run time only leading spaces of the text remain to be dropped. */
#include "text/import/tokenizer_json_decoder.h"
#include "base/encoding/utf8.h"
#include "text/import/tokenizer_json.h"
#include "text/import/tokenizer_json_parts.h"

#define BAD(b, diag, ...) DOP_FAIL_IN((diag), DOP_E_INPUT, (b)->path, __VA_ARGS__)

static dop_status
dec_replace(dop_tok_build *b, const json_t *o, dop_tok_decoder *dec, uint32_t i, dop_diag *diag)
{
    const json_t *p = json_object_get(o, "pattern");
    dec->kind[i] = DOP_DEC_REPLACE;
    if (!json_object_get(p, "String"))
        return BAD(b, diag, "decoder \"Replace\" with a regular expression is not supported");
    DOP_RETURN_IF_ERROR(dop_tok_json_string(p, "String", b->path, diag, &dec->a[i], &dec->an[i]));
    return dop_tok_json_string(o, "content", b->path, diag, &dec->by[i], &dec->byn[i]);
}

static dop_status
dec_metaspace(dop_tok_build *b, const json_t *o, dop_tok_decoder *dec, uint32_t i, dop_diag *diag)
{
    const json_t *scheme = json_object_get(o, "prepend_scheme");
    bool prefix;
    dop_status st = dop_tok_json_string(o, "replacement", b->path, diag, &dec->a[i], &dec->an[i]);
    if (st == DOP_OK)
        st = dop_tok_json_bool(o, "add_prefix_space", true, b->path, diag, &prefix);
    if (st != DOP_OK)
        return st;
    dec->kind[i] = DOP_DEC_REPLACE;
    dec->by[i] = " ";
    dec->byn[i] = 1;
    if (json_is_string(scheme))
        prefix = strcmp(json_string_value(scheme), "never") != 0;
    b->flags |= prefix ? DOP_TOK_F_FIRST_TRIM : 0u;
    return DOP_OK;
}

/* Clean-up replacements, in order, that join English punctuation and contractions to the preceding word. */
static const char *const cleanups[][2] = {
    {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
    {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
};

/* Sets the steps of a WordPiece decoder. prefix: marks pieces that continue a word. */
static void
set_wordpiece_steps(dop_tok_decoder *dec, const char *prefix, size_t n, bool cleanup)
{
    dec->wordpiece = true;
    dec->kind[0] = DOP_DEC_WORDPIECE;
    dec->a[0] = prefix;
    dec->an[0] = n;
    dec->count = 1;
    for (size_t i = 0; cleanup && i < sizeof cleanups / sizeof *cleanups; i++, dec->count++) {
        dec->kind[dec->count] = DOP_DEC_REPLACE;
        dec->a[dec->count] = cleanups[i][0];
        dec->an[dec->count] = strlen(cleanups[i][0]);
        dec->by[dec->count] = cleanups[i][1];
        dec->byn[dec->count] = strlen(cleanups[i][1]);
    }
}

static dop_status
dec_wordpiece(dop_tok_build *b, const json_t *o, dop_tok_decoder *dec, dop_diag *diag)
{
    const char *prefix = "##";
    size_t n = 2;
    bool cleanup;
    dop_status st = dop_tok_json_bool(o, "cleanup", true, b->path, diag, &cleanup);
    if (st == DOP_OK && json_object_get(o, "prefix"))
        st = dop_tok_json_string(o, "prefix", b->path, diag, &prefix, &n);
    if (st != DOP_OK)
        return st;
    if (b->model != DOP_TOK_WORDPIECE || n != b->joint.bytes ||
        memcmp(prefix, b->strings.data + b->joint.offset, n) != 0)
        return BAD(b, diag, "decoder \"WordPiece\" is supported with a WordPiece model of the same prefix only");
    if (dec->count)
        return BAD(b, diag, "decoder \"WordPiece\" after another one is not supported");
    set_wordpiece_steps(dec, prefix, n, cleanup);
    b->strip = 1;
    return DOP_OK;
}

/* Sets step dec->count to replace the end-of-word mark with a space. The caller advances the count. */
static void
set_word_end_step(dop_tok_decoder *dec, const char *mark, size_t n)
{
    const uint32_t i = dec->count;
    dec->kind[i] = DOP_DEC_REPLACE;
    dec->a[i] = mark;
    dec->an[i] = n;
    dec->by[i] = " ";
    dec->byn[i] = 1;
}

static dop_status
dec_bpe(dop_tok_build *b, const json_t *o, dop_tok_decoder *dec, dop_diag *diag)
{
    const char *mark = "</w>";
    size_t n = 4;
    dop_status st = json_object_get(o, "suffix") ? dop_tok_json_string(o, "suffix", b->path, diag, &mark, &n) : DOP_OK;
    set_word_end_step(dec, mark, n);
    return st;
}

void
dop_tok_json_word_ends(const json_t *model, dop_tok_decoder *dec)
{
    const json_t *mark = json_object_get(model, "end_of_word_suffix");
    const size_t n = json_string_length(mark), most = sizeof dec->kind / sizeof *dec->kind;
    if (n == 0 || dec->fused || dec->count == 0 || dec->count == most ||
        dec->kind[dec->count - 1] != DOP_DEC_BYTE_LEVEL)
        return;
    set_word_end_step(dec, json_string_value(mark), n);
    dec->count++;
}

static dop_status
dec_strip(dop_tok_build *b, const json_t *o, dop_tok_decoder *dec, uint32_t i, dop_diag *diag)
{
    json_int_t start = json_integer_value(json_object_get(o, "start"));
    json_int_t stop = json_integer_value(json_object_get(o, "stop"));
    dop_status st = dop_tok_json_string(o, "content", b->path, diag, &dec->a[i], &dec->an[i]);
    if (st != DOP_OK)
        return st;
    if (start < 0 || stop < 0 || start > 64 || stop > 64)
        return BAD(b, diag, "decoder \"Strip\": start and stop must be 0 to 64");
    if (!dec->fused) {
        dec->kind[i] = DOP_DEC_STRIP;
        dec->left[i] = (uint32_t)start;
        dec->right[i] = (uint32_t)stop;
        return DOP_OK;
    }
    if (stop || dec->an[i] != 1 || dec->a[i][0] != ' ')
        return BAD(b, diag, "decoder \"Strip\" after \"Fuse\" is supported for leading spaces only");
    b->strip += (uint32_t)start;
    return DOP_OK;
}

static dop_status
dec_step(dop_tok_build *b, const json_t *o, dop_tok_decoder *dec, dop_diag *diag)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    uint32_t i = dec->count;
    dop_status st = DOP_OK;
    if (!type)
        return BAD(b, diag, "a decoder has no type");
    if (i >= sizeof dec->kind / sizeof *dec->kind)
        return BAD(b, diag, "the decoder has more than %zu steps", sizeof dec->kind / sizeof *dec->kind);
    if (strcmp(type, "Fuse") == 0) {
        dec->fused = true;
        return DOP_OK;
    }
    if (strcmp(type, "WordPiece") == 0 && !dec->fused)
        return dec_wordpiece(b, o, dec, diag);
    if (strcmp(type, "Strip") == 0) {
        bool per_token = !dec->fused;
        st = dec_strip(b, o, dec, i, diag);
        if (per_token)
            dec->count++;
        return st;
    }
    if (dec->fused)
        return BAD(b, diag, "decoder \"%s\" after \"Fuse\" is not supported", type);
    if (strcmp(type, "ByteLevel") == 0)
        dec->kind[i] = DOP_DEC_BYTE_LEVEL;
    else if (strcmp(type, "ByteFallback") == 0)
        dec->kind[i] = DOP_DEC_BYTE_FALLBACK;
    else if (strcmp(type, "Replace") == 0)
        st = dec_replace(b, o, dec, i, diag);
    else if (strcmp(type, "Metaspace") == 0)
        st = dec_metaspace(b, o, dec, i, diag);
    else if (strcmp(type, "BPEDecoder") == 0)
        st = dec_bpe(b, o, dec, diag);
    else
        return BAD(b, diag, "decoder \"%s\" is not supported", type);
    dec->count++;
    return st;
}

dop_status
dop_tok_json_decoder(dop_tok_build *b, const json_t *d, dop_tok_decoder *dec, dop_diag *diag)
{
    memset(dec, 0, sizeof *dec);
    if (!d || json_is_null(d)) {
        if (b->flags & DOP_TOK_F_BYTE_LEVEL)
            dec->kind[dec->count++] = DOP_DEC_BYTE_LEVEL;
        return DOP_OK;
    }
    const char *type = json_string_value(json_object_get(d, "type"));
    if (!type || strcmp(type, "Sequence") != 0)
        return dec_step(b, d, dec, diag);
    const json_t *list = json_object_get(d, "decoders");
    if (!json_is_array(list))
        return BAD(b, diag, "decoder \"Sequence\" has no list \"decoders\"");
    for (size_t i = 0; i < json_array_size(list); i++) {
        dop_status st = dec_step(b, json_array_get(list, i), dec, diag);
        if (st != DOP_OK)
            return st;
    }
    return DOP_OK;
}

static void
apply_replace(const char *a, size_t an, const char *by, size_t byn, const dop_buf *in, dop_buf *out)
{
    size_t done = 0;
    const char *p;
    while (an && done < in->size && (p = memmem(in->data + done, in->size - done, a, an)) != NULL) {
        size_t at = (size_t)(p - in->data);
        dop_buf_append(out, in->data + done, at - done);
        dop_buf_append(out, by, byn);
        done = at + an;
    }
    if (done < in->size)
        dop_buf_append(out, in->data + done, in->size - done);
}

static void
apply_strip(const dop_tok_decoder *dec, uint32_t i, const dop_buf *in, dop_buf *out)
{
    size_t from = 0, to = in->size, an = dec->an[i];
    for (uint32_t k = 0; an && k < dec->left[i] && to - from >= an && memcmp(in->data + from, dec->a[i], an) == 0; k++)
        from += an;
    for (uint32_t k = 0; an && k < dec->right[i] && to - from >= an && memcmp(in->data + to - an, dec->a[i], an) == 0;
         k++)
        to -= an;
    dop_buf_append(out, in->data + from, to - from);
}

void
dop_tok_decoder_apply(const dop_tok_decoder *dec, const char *s, size_t n, dop_buf *out)
{
    dop_buf cur = {0}, next = {0};
    dop_buf_append(&cur, s, n);
    for (uint32_t i = 0; i < dec->count && !cur.failed; i++) {
        int byte;
        char c;
        size_t skipped = 0;
        next.size = 0;
        switch (dec->kind[i]) {
        case DOP_DEC_BYTE_LEVEL: /* a token with a character outside the alphabet stays unchanged */
            if (!dop_tok_bytes_of_piece(cur.data, cur.size, &next)) {
                next.size = 0;
                dop_buf_append(&next, cur.data, cur.size);
            }
            break;
        case DOP_DEC_REPLACE:
            apply_replace(dec->a[i], dec->an[i], dec->by[i], dec->byn[i], &cur, &next);
            break;
        case DOP_DEC_BYTE_FALLBACK:
            byte = dop_tok_byte_token(cur.data, cur.size);
            c = (char)byte;
            if (byte >= 0)
                dop_buf_append(&next, &c, 1);
            else
                dop_buf_append(&next, cur.data, cur.size);
            break;
        case DOP_DEC_WORDPIECE:
            if (cur.size < dec->an[i] || memcmp(cur.data, dec->a[i], dec->an[i]) != 0)
                dop_buf_puts(&next, " ");
            else
                skipped = dec->an[i];
            dop_buf_append(&next, cur.data + skipped, cur.size - skipped);
            break;
        case DOP_DEC_STRIP:
            apply_strip(dec, i, &cur, &next);
            break;
        }
        dop_buf t = cur;
        cur = next;
        next = t;
    }
    dop_buf_append(out, cur.data, cur.size);
    out->failed |= cur.failed;
    dop_buf_finish(&cur);
    dop_buf_finish(&next);
}
