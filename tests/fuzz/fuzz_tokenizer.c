/* libFuzzer entry for everything in runtime/text that reads outside bytes, and for GGUF; not part of the test suite.
 * From the repository root:
 *
 *   clang -std=c11 -g -O1 -D_GNU_SOURCE -I. -fsanitize=fuzzer,address,undefined -o fuzz_tokenizer \
 *         tests/fuzz/fuzz_tokenizer.c runtime/base.c runtime/gguf.c $(find runtime/text -name "*.c") \
 *         -ljansson -lpcre2-8 -lutf8proc -lm && ./fuzz_tokenizer CORPUS_DIR
 *
 * The first byte says what the rest is: 'B' a tokenizer's binary form, 'J' a tokenizer.json or tekken.json, 'P' a
 * SentencePiece model, 'M' its charsmap, 'D' damages to a small binary
 * form, 'T' a tiktoken file behind a first line with the pattern, 'G' a GGUF file, 'C' a
 * chat template.  Whatever is not refused must be usable, and a tokenizer must survive a round trip through
 * its binary form. */
#include <stdlib.h>
#include <string.h>

#include "runtime/gguf.h"
#include "runtime/text/chat.h"
#include "runtime/text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
require(bool ok)
{
    if (!ok)
        abort();
}

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

static dop_status
fuzz_gguf(const uint8_t *data, size_t size, dop_diag *diag, dop_tokenizer **out_tok)
{
    dop_gguf g;
    dop_status st = dop_gguf_open_bytes("fuzz", data, size, diag, &g);
    if (st != DOP_OK)
        return st;
    for (size_t i = 0; i < g.tensor_count; i++)
        require(g.tensors[i].offset <= size && g.tensors[i].bytes <= size - g.tensors[i].offset);
    st = dop_tokenizer_from_gguf(&g, diag, out_tok);
    dop_gguf_close(&g);
    return st;
}

/* The binary form of a small tokenizer ('W' WordPiece, otherwise Unigram) with bytes changed: two bytes where (from the
 * end when the highest bit is set), one byte what. */
static dop_status
fuzz_damage(const uint8_t *data, size_t size, void **out_copy, dop_diag *diag, dop_tokenizer **out_tok)
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
fuzz_charsmap(const uint8_t *data, size_t size, dop_diag *diag, dop_tokenizer **out_tok)
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

/* The first line is the pattern; without one it is a known vocabulary or refused. */
static dop_status
fuzz_tiktoken(const char *text, size_t size, dop_diag *diag, dop_tokenizer **out_tok)
{
    const char *end = memchr(text, '\n', size);
    size_t n = end ? (size_t)(end - text) : 0;
    dop_tokenizer_facts facts;
    dop_tokenizer_facts_init(&facts);
    json_t *config = n ? json_pack("{s:s%, s:{s:{s:s, s:b}}}", "pat_str", text, n, "added_tokens_decoder", "300",
                                   "content", "<s>", "special", 1)
                       : NULL; /* NULL too when the line is not UTF-8 */
    facts.config = config;
    dop_status st =
        dop_tokenizer_from_tiktoken("fuzz", text + n + (end != NULL), size - n - (end != NULL), &facts, diag, out_tok);
    json_decref(config);
    return st;
}

static dop_status
fuzz_chat(const char *text, size_t size, dop_diag *diag)
{
    dop_chat *chat = NULL;
    dop_buf out = {0};
    dop_status st = dop_chat_create(text, size, DOP_CHAT_ANY, diag, &chat);
    if (st == DOP_OK) {
        json_t *messages = json_pack("[{s:s,s:s},{s:s,s:s}]", "role", "system", "content", " be brief ", "role", "user",
                                     "content", "hi");
        dop_chat_input in = {.messages = messages, .add_generation_prompt = true, .bos_token = "<s>"};
        st = dop_chat_render(chat, &in, diag, &out);
        json_decref(messages);
    }
    dop_chat_destroy(chat);
    dop_buf_finish(&out);
    return st;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    dop_status st = DOP_OK;
    void *copy = NULL;
    if (size == 0)
        return 0;
    const uint8_t *rest = data + 1;
    size_t n = size - 1;
    switch (data[0]) {
    case 'B':
        copy = malloc(n ? n : 1); /* aligned, so that it is used in place */
        require(copy != NULL);
        memcpy(copy, rest, n);
        st = dop_tokenizer_from_blob(copy, n, &diag, &t);
        break;
    case 'D':
        st = fuzz_damage(rest, n, &copy, &diag, &t);
        break;
    case 'J':
        st = dop_tokenizer_from_json("fuzz", rest, n, NULL, &diag, &t);
        break;
    case 'P':
        st = dop_tokenizer_from_sentencepiece("fuzz", rest, n, NULL, &diag, &t);
        break;
    case 'M':
        st = fuzz_charsmap(rest, n, &diag, &t);
        break;
    case 'T':
        st = fuzz_tiktoken((const char *)rest, n, &diag, &t);
        break;
    case 'G':
        st = fuzz_gguf(rest, n, &diag, &t);
        break;
    case 'C':
        st = fuzz_chat((const char *)rest, n, &diag);
        break;
    default:
        return 0;
    }
    if (t)
        use_tokenizer(t);
    free(copy);
    require(st == DOP_OK || (st == DOP_E_INPUT && diag.message[0]) || st == DOP_E_NOMEM);
    return 0;
}
