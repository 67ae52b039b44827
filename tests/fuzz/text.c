/* What is read into tokenizers, and chat templates.  Whatever is not refused must be usable, and a tokenizer must survive a
 * round trip through its binary form. */
#include "base/encoding/utf8.h"
#include "base/json/json.h"
#include "base/os/clock.h"
#include "serve/api/api_internal.h"
#include "serve/api/api_tools.h"
#include "tests/fuzz/fuzz.h"
#include "text/chat/chat.h"
#include "text/import/tokenizer_facts.h"
#include "text/import/tokenizer_files.h"
#include "text/import/tokenizer_json.h"
#include "text/import/tokenizer_spm.h"
#include "text/import/tokenizer_tiktoken.h"

static void
use_text(const dop_tokenizer *t, const char *text, size_t n)
{
    dop_ids ids = {0};
    dop_buf out = {0};
    dop_diag diag = {0};
    if (dop_tokenizer_encode(t, text, n, DOP_ENCODE_ADD_SPECIAL | DOP_ENCODE_PARSE_SPECIAL, &diag, &ids) == DOP_OK) {
        for (size_t i = 0; i < ids.count; i++)
            require(ids.data[i] < dop_tokenizer_vocab_size(t));
        require(dop_tokenizer_decode(t, ids.data, ids.count, 0, &diag, &out) == DOP_OK);
        require(dop_utf8_check(out.data ? out.data : "", out.size) == out.size);
    } else {
        require(diag.message[0] != 0);
    }
    dop_ids_finish(&ids);
    dop_buf_finish(&out);
}

static void
use_tokenizer(dop_tokenizer *t)
{
    static const char text[] = "  The <s> quick brown fox\n\njumps  over\tna\xc3\xafve 12345 \xe2\x80\x94 "
                               "\xef\xac\x81ne e\xcc\x81 @@ \xe4\xb8\xad don't </s> [INST]";
    dop_buf one = {0}, two = {0};
    dop_diag diag = {0};
    dop_tokenizer *again = NULL;
    use_text(t, text, sizeof text - 1);
    require(dop_tokenizer_serialize(t, &one) == DOP_OK);
    require(dop_tokenizer_from_blob(one.data, one.size, &diag, &again) == DOP_OK);
    require(dop_tokenizer_serialize(again, &two) == DOP_OK);
    require(one.size == two.size && memcmp(one.data, two.data, one.size) == 0);
    dop_tokenizer_destroy(again);
    dop_tokenizer_destroy(t);
    dop_buf_finish(&one);
    dop_buf_finish(&two);
}

/* The binary form of a small tokenizer ('W' WordPiece, otherwise Unigram) with bytes changed: two bytes where (from the
 * end when the highest bit is set), one byte what. */
static dop_status
damaged(const uint8_t *data, size_t size, void **out_copy, dop_diag *diag, dop_tokenizer **out_tok)
{
    static const char unigram[] =
        "{\"normalizer\": {\"type\": \"Lowercase\"}, \"pre_tokenizer\": {\"type\": \"Metaspace\","
        "\"replacement\": \"\xe2\x96\x81\"}, \"decoder\": {\"type\": \"Metaspace\","
        "\"replacement\": \"\xe2\x96\x81\"}, \"model\": {\"type\": \"Unigram\", \"unk_id\": 0,"
        "\"vocab\": [[\"<unk>\", 0], [\"\xe2\x96\x81\", -2], [\"a\", -3], [\"an\", -3.5], [\"e\", -3],"
        "[\"\xe2\x96\x81the\", -4], [\"fo\", -5], [\"ox\", -5]]}}";
    static const char wordpiece[] =
        "{\"normalizer\": {\"type\": \"BertNormalizer\"}, \"pre_tokenizer\": {\"type\":"
        "\"BertPreTokenizer\"}, \"decoder\": {\"type\": \"WordPiece\"}, \"model\": {\"type\":"
        "\"WordPiece\", \"vocab\": {\"[UNK]\": 0, \"the\": 1, \"f\": 2, \"##ox\": 3, \"##o\": 4,"
        "\"j\": 5, \"##u\": 6, \"##mps\": 7, \"1\": 8}}}";
    bool words = size && data[0] == 'W';
    dop_tokenizer *t = NULL;
    dop_buf blob = {0};
    require(dop_tokenizer_from_json("fuzz", words ? wordpiece : unigram,
                                    words ? sizeof wordpiece - 1 : sizeof unigram - 1, NULL, diag, &t) == DOP_OK);
    require(dop_tokenizer_serialize(t, &blob) == DOP_OK);
    dop_tokenizer_destroy(t);
    for (size_t i = 1; i + 3 <= size; i += 3) {
        size_t at = ((size_t)data[i] << 8 | data[i + 1]) & 0x7fffu;
        at %= blob.size;
        blob.data[data[i] & 0x80 ? blob.size - 1 - at : at] = (char)data[i + 2];
    }
    *out_copy = blob.data;
    return dop_tokenizer_from_blob(blob.data, blob.size, diag, out_tok);
}

static void
put_varint(dop_buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        dop_buf_append(b, &(char){(char)(uint8_t)(v | 0x80)}, 1);
    dop_buf_append(b, &(char){(char)v}, 1);
}

/* A small Unigram model around a charsmap. */
static dop_status
charsmap(const uint8_t *data, size_t size, dop_diag *diag, dop_tokenizer **out_tok)
{
    static const char *const pieces[] = {"<unk>", "\xe2\x96\x81", "a", "e", "fox", "1"};
    dop_buf b = {0};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        size_t n = strlen(pieces[i]);
        dop_buf_puts(&b, "\n");
        put_varint(&b, n + 4);
        dop_buf_puts(&b, "\n");
        put_varint(&b, n);
        dop_buf_puts(&b, pieces[i]);
        dop_buf_puts(&b, i ? "\x18\1" : "\x18\2");
    }
    dop_buf inner = {0};
    dop_buf_puts(&inner, "\x12");
    put_varint(&inner, size);
    dop_buf_append(&inner, data, size);
    dop_buf_puts(&b, "\x1a");
    put_varint(&b, inner.size);
    dop_buf_append(&b, inner.data, inner.size);
    dop_status st = dop_tokenizer_from_sentencepiece("fuzz", b.data, b.size, NULL, diag, out_tok);
    dop_buf_finish(&inner);
    dop_buf_finish(&b);
    return st;
}

/* What came of it, and the tokenizer if there is one. */
static void
finish(dop_status st, const dop_diag *diag, dop_tokenizer *t)
{
    fuzz_check(st, diag);
    require((st == DOP_OK) == (t != NULL));
    if (t)
        use_tokenizer(t);
}

void
fuzz_tokenizer_json(const uint8_t *data, size_t size)
{
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    dop_status st = dop_tokenizer_from_json("fuzz", data, size, NULL, &diag, &t);
    finish(st, &diag, t);
}

/* 'M' and a table of characters, or a model. */
void
fuzz_tokenizer_model(const uint8_t *data, size_t size)
{
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    dop_status st = size && data[0] == 'M' ? charsmap(data + 1, size - 1, &diag, &t)
                                           : dop_tokenizer_from_sentencepiece("fuzz", data, size, NULL, &diag, &t);
    finish(st, &diag, t);
}

/* The first line is the pattern; without one it is a known vocabulary or refused. */
void
fuzz_tokenizer_tiktoken(const uint8_t *data, size_t size)
{
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    const char *text = (const char *)data, *end = size ? memchr(text, '\n', size) : NULL;
    size_t n = end ? (size_t)(end - text) : 0;
    dop_tokenizer_facts facts;
    dop_tokenizer_facts_init(&facts);
    json_t *config = n ? json_pack("{s:s%, s:{s:{s:s, s:b}}}", "pat_str", text, n, "added_tokens_decoder", "300",
                                   "content", "<s>", "special", 1)
                       : NULL; /* NULL too when the line is not UTF-8 */
    facts.config = config;
    n += end != NULL;
    dop_status st = dop_tokenizer_from_tiktoken("fuzz", text + n, size - n, &facts, &diag, &t);
    finish(st, &diag, t);
    json_decref(config);
}

/* 'D' and damages to a small one, or all of it. */
void
fuzz_tokenizer_blob(const uint8_t *data, size_t size)
{
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    void *copy = NULL;
    dop_status st;
    if (size && data[0] == 'D') {
        st = damaged(data + 1, size - 1, &copy, &diag, &t);
    } else {
        copy = malloc(size ? size : 1); /* aligned, so that it is used in place */
        require(copy != NULL);
        if (size)
            memcpy(copy, data, size);
        st = dop_tokenizer_from_blob(copy, size, &diag, &t);
    }
    finish(st, &diag, t);
    free(copy);
}

/* Calls in what a model wrote, in the form of its template, as they come and at the end. */
static void
find_calls(const dop_chat *chat, const char *template, const json_t *tools, const char *text, size_t n)
{
    dop_tool_form *form;
    dop_diag diag = {0};
    const dop_status st = dop_tool_form_create(chat, template, NULL, &diag, &form);
    fuzz_check(st, &diag);
    for (int how = 0; how < 4 && st == DOP_OK; how++) {
        dop_reading r;
        dop_reading_begin(&r, &(dop_reading_terms){.form = form, .tools = how & 1 ? tools : NULL, .thinks = how & 2});
        for (size_t i = 0; i < n; i += n / 8 + 1)
            dop_reading_feed(&r, text, i, false);
        dop_reading_feed(&r, text, n, true);
        dop_reading_finish(&r);
    }
    dop_tool_form_destroy(form);
}

/* A template; and behind a 0 byte a conversation as JSON, which is also looked through for calls. */
void
fuzz_chat(const uint8_t *data, size_t size)
{
    static const struct tm day = {.tm_year = 124, .tm_mon = 5, .tm_mday = 7};
    const char *text = (const char *)data;
    size_t n = size ? strnlen(text, size) : 0;
    dop_chat *chat = NULL;
    dop_diag diag = {0};
    dop_buf out = {0};
    dop_status st = dop_chat_create(text, n, &diag, &chat);
    fuzz_check(st, &diag);
    json_t *given = NULL;
    if (n < size)
        dop_json_decode(text + n + 1, size - n - 1, &(dop_json_how){.flags = DOP_JSON_EXACT}, NULL, &given);
    json_t *messages = json_is_array(given) ? json_incref(given)
                                            : json_pack("[{s:s,s:s},{s:s,s:s}]", "role", "system", "content",
                                                        " be brief ", "role", "user", "content", "hi");
    json_t *tools = json_pack("[{s:s,s:{s:s,s:{s:s,s:{}}}}]", "type", "function", "function", "name", "f", "parameters",
                              "type", "object", "properties");
    for (int with = 0; with < 2 && st == DOP_OK; with++) {
        /* Time and memory of an input are part of what must hold. */
        dop_budget budget = {.steps = 4 * 1000 * 1000, .bytes = 64 << 20};
        const double start = dop_now_ms();
        dop_chat_input in = {.messages = messages,
                             .tools = with ? tools : NULL,
                             .add_generation_prompt = true,
                             .bos_token = "<s>",
                             .now = &day,
                             .budget = &budget};
        dop_diag why = {0};
        fuzz_check(dop_chat_render(chat, &in, &why, &out), &why);
        dop_diag why_added = {0};
        fuzz_check(dop_chat_render_added(chat, &in, &why_added, &out), &why_added);
        require(budget.bytes == 64 << 20);           /* memory was given back */
        require(dop_now_ms() - start < 20 * 1000.0); /* all work was charged; a sanitized build is slow */
    }
    if (n < size && st == DOP_OK) /* the template ends with a 0 there */
        find_calls(chat, text, tools, text + n + 1, size - n - 1);
    json_decref(given);
    json_decref(messages);
    json_decref(tools);
    dop_chat_destroy(chat);
    dop_buf_finish(&out);
}

/* A byte of flags, and JSON: what was read is written and read again as the same, within bounds that follow the length. */
void
fuzz_json(const uint8_t *data, size_t size)
{
    if (size == 0)
        return;
    const uint64_t steps = 64 + 4 * size, bytes = 4096 + 512 * size;
    dop_budget budget = {.steps = steps, .bytes = bytes};
    const dop_json_how how = {.flags = data[0] & 3u, .budget = &budget}, again = {.flags = DOP_JSON_EXACT};
    dop_diag diag = {0};
    dop_buf one = {0}, two = {0};
    json_t *value, *second;
    dop_status st = dop_json_decode(data + 1, size - 1, &how, &diag, &value);
    fuzz_check(st, &diag);
    require(st != DOP_E_LIMIT && (st == DOP_OK || budget.bytes == bytes));
    if (st != DOP_OK)
        return;
    json_t *plain = dop_json_plain(value);
    dop_json_encode(&one, value);
    require(dop_json_decode(one.data, one.size, &again, NULL, &second) == DOP_OK);
    dop_json_encode(&two, second);
    require(one.size == two.size && memcmp(one.data, two.data, one.size) == 0);
    json_decref(plain);
    json_decref(value);
    json_decref(second);
    dop_buf_finish(&one);
    dop_buf_finish(&two);
}
