/* Grammars and schemas from anywhere.  What compiles is walked for some tokens. */
#include "text/grammar/grammar.h"
#include "tests/fuzz/fuzz.h"
#include "text/import/tokenizer_json.h"

#include <jansson.h>

/* What an input of 2000 bytes may cost, in steps and bytes; the time that is spent is part of what must hold, too: the fuzzer's own
 * limit is a second. */
static const uint64_t most_steps = 20000000, most_bytes = 16u << 20, most_mask_steps = 50000000;

const dop_tokenizer *
fuzz_tokenizer(void)
{
    static dop_tokenizer *tok;
    static const char *const more[] = {"true", "null", "\":", "\",", "},", "ab", "00"};
    dop_buf text = {0};
    uint32_t n = 0;
    if (tok)
        return tok;
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
    require(dop_tokenizer_from_json("vocabulary", text.data, text.size, NULL, &diag, &tok) == DOP_OK);
    dop_buf_finish(&text);
    return tok;
}

static const dop_vocab *
vocabulary(void)
{
    static dop_vocab *vocab;
    dop_diag diag = {0};
    uint32_t end = 0;
    if (!vocab)
        require(dop_vocab_create(fuzz_tokenizer(), dop_tokenizer_vocab_size(fuzz_tokenizer()), &end, 1, &diag,
                                 &vocab) == DOP_OK);
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
    const dop_grammar_costs costs = dop_grammar_cost(grammar);
    require(costs.bytes <= (68u << 20) && costs.steps <= most_mask_steps);
    dop_matcher_destroy(m);
}

void
fuzz_grammar(const uint8_t *data, size_t size)
{
    dop_grammar *g = NULL;
    dop_diag diag = {0};
    dop_budget budget = {.steps = most_steps, .bytes = most_bytes};
    dop_status st = dop_grammar_from_gbnf(vocabulary(), "g", (const char *)data, size, &budget, &diag, &g);
    fuzz_check(st, &diag);
    if (st == DOP_OK)
        walk(g, (uint32_t)size);
    dop_grammar_release(g);
}

void
fuzz_schema(const uint8_t *data, size_t size)
{
    dop_grammar *g = NULL;
    dop_diag diag = {0};
    dop_budget budget = {.steps = most_steps, .bytes = most_bytes};
    json_t *schema = json_loadb((const char *)data, size, JSON_DECODE_ANY, NULL);
    if (!schema)
        return;
    dop_status st = dop_grammar_from_schema(vocabulary(), schema, NULL, NULL, 0, &budget, &diag, &g);
    fuzz_check(st, &diag);
    json_decref(schema);
    if (st == DOP_OK)
        walk(g, (uint32_t)size);
    dop_grammar_release(g);
}
