/* Grammars and schemas from anywhere: G and a GBNF text, or S and a JSON schema.  What compiles is walked for some tokens. */
#include "runtime/grammar/grammar.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A vocabulary of the printable signs of ASCII, and some pieces of JSON. */
static const dop_vocab *
vocabulary(void)
{
    static dop_vocab *vocab;
    static dop_tokenizer *tok;
    static const char *const more[] = {"true", "null", "\":", "\",", "},", "ab", "00"};
    dop_buf text = {0};
    uint32_t n = 0;
    if (vocab)
        return vocab;
    dop_buf_puts(&text, "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":0,\"content\":\"<eos>\",\"special\":true}],"
                        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"
                        "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"<eos>\":0");
    for (char c = '!'; c <= '~'; c++)
        dop_buf_printf(&text, ",\"%s%c\":%u", c == '"' || c == '\\' ? "\\" : "", c, ++n);
    dop_buf_printf(&text, ",\"\xc4\xa0\":%u", ++n); /* a blank, as byte-level vocabularies write it */
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        dop_buf_puts(&text, ",\"");
        for (const char *c = more[i]; *c; c++)
            dop_buf_printf(&text, "%s%c", *c == '"' ? "\\" : "", *c);
        dop_buf_printf(&text, "\":%u", ++n);
    }
    dop_buf_puts(&text, "},\"merges\":[]}}");
    dop_diag diag = {0};
    uint32_t end = 0;
    if (dop_tokenizer_from_json("vocabulary", text.data, text.size, NULL, &diag, &tok) != DOP_OK ||
        dop_vocab_create(tok, n + 1, &end, 1, &diag, &vocab) != DOP_OK) {
        fprintf(stderr, "%s\n", diag.message);
        abort();
    }
    dop_buf_finish(&text);
    return vocab;
}

static void
walk(dop_grammar *grammar, uint32_t seed)
{
    enum { TOKENS = 24, VOCAB = 128 };
    dop_matcher *m;
    dop_diag diag = {0};
    if (dop_matcher_create(grammar, &diag, &m) != DOP_OK)
        return;
    for (uint32_t i = 0; i < TOKENS; i++) {
        const uint32_t *mask = dop_matcher_mask(m, &diag);
        uint32_t id = UINT32_MAX;
        for (uint32_t k = 0; k < VOCAB && mask && id == UINT32_MAX; k++) {
            uint32_t at = (seed + k) % VOCAB;
            if (at < 103 && mask[at / 32] >> (at % 32) & 1)
                id = at;
        }
        if (id == UINT32_MAX || id == 0)
            break;
        if (dop_matcher_accept(m, id, &diag) != DOP_OK)
            abort(); /* what a mask allows is accepted */
        seed = seed * 1664525u + 1013904223u;
    }
    dop_matcher_destroy(m);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dop_grammar *g = NULL;
    dop_diag diag = {0};
    dop_status st = DOP_E_INPUT;
    if (size == 0 || size > 2000)
        return 0;
    const char *text = (const char *)data + 1;
    if (data[0] == 'G') {
        st = dop_grammar_from_gbnf(vocabulary(), "g", text, size - 1, &diag, &g);
    } else if (data[0] == 'S') {
        json_t *schema = json_loadb(text, size - 1, JSON_DECODE_ANY, NULL);
        if (schema)
            st = dop_grammar_from_schema(vocabulary(), schema, NULL, NULL, &diag, &g);
        json_decref(schema);
    }
    if (st == DOP_OK)
        walk(g, (uint32_t)size);
    dop_grammar_release(g);
    return 0;
}
