/* Shared by the tests of grammars and schemas: vocabularies of bytes, and texts that a grammar accepts or not. */
#ifndef DOPPLER_TESTS_UNIT_GRAMMAR_UTIL_H
#define DOPPLER_TESTS_UNIT_GRAMMAR_UTIL_H

#include "tests/unit/tokenizer_util.h"
#include "text/grammar/grammar.h"
#include "text/import/tokenizer_json.h"

typedef struct util_bytes {
    dop_tokenizer *tok;
    dop_vocab *vocab;
} util_bytes;

/* How byte-level vocabularies (GPT-2) write a byte. */
static inline void
util_put_byte(dop_buf *out, unsigned byte)
{
    unsigned c = byte, others = 0;
    bool own = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    for (unsigned b = 0; b < byte && !own; b++)
        others += !((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174);
    if (!own)
        c = 256 + others;
    if (c == '"' || c == '\\')
        dop_buf_printf(out, "\\%c", (char)c);
    else if (c < 0x80)
        dop_buf_printf(out, "%c", (char)c);
    else
        dop_buf_printf(out, "%c%c", (char)(0xc0 | c >> 6), (char)(0x80 | (c & 0x3f)));
}

/* A token for the end (0), one for each byte (byte + 1), and n_words that are made of lower-case letters and blanks. */
static inline util_bytes
util_bytes_make(uint32_t n_words)
{
    util_bytes u = {0};
    dop_buf text = {0};
    dop_diag diag = {0};
    uint32_t n = 0, end = 0;
    dop_buf_puts(&text, "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":0,\"content\":\"<eos>\",\"special\":true}],"
                        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"
                        "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"<eos>\":0");
    for (unsigned b = 0; b < 256; b++) {
        dop_buf_puts(&text, ",\"");
        util_put_byte(&text, b);
        dop_buf_printf(&text, "\":%u", ++n);
    }
    for (uint32_t i = 0; i < n_words; i++) { /* in the system of base 26, behind a blank every other time */
        dop_buf_puts(&text, i % 2 ? ",\"" : ",\"\xc4\xa0");
        for (uint32_t k = i / 2 + 26; k > 0; k /= 26)
            dop_buf_printf(&text, "%c", (char)('a' + k % 26));
        dop_buf_printf(&text, "\":%u", ++n);
    }
    dop_buf_puts(&text, "},\"merges\":[]}}");
    cr_assert_eq(dop_tokenizer_from_json("vocabulary", text.data, text.size, NULL, &diag, &u.tok), DOP_OK, "%s",
                 diag.message);
    dop_buf_finish(&text);
    cr_assert_eq(dop_vocab_create(u.tok, dop_tokenizer_vocab_size(u.tok), &end, 1, &diag, &u.vocab), DOP_OK, "%s",
                 diag.message);
    return u;
}

static inline void
util_bytes_free(util_bytes *u)
{
    dop_vocab_destroy(u->vocab);
    dop_tokenizer_destroy(u->tok);
}

/* Whether the whole text is one of the grammar's; *out_at: bytes of it that were accepted. */
static inline bool
util_accepts(dop_grammar *g, const char *text, size_t n, size_t *out_at)
{
    dop_matcher *m;
    dop_diag diag = {0};
    size_t i = 0;
    cr_assert_eq(dop_matcher_create(g, &diag, &m), DOP_OK, "%s", diag.message);
    while (i < n && dop_matcher_accept(m, 1u + (unsigned char)text[i], NULL) == DOP_OK)
        i++;
    bool good = i == n && dop_matcher_may_end(m);
    dop_matcher_destroy(m);
    if (out_at)
        *out_at = i;
    return good;
}

#endif
