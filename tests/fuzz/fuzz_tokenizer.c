/* libFuzzer entry for everything in runtime/text that reads outside bytes, and for GGUF; not part of the test suite.
 * From the repository root:
 *
 *   clang -std=c11 -g -O1 -D_GNU_SOURCE -I. -fsanitize=fuzzer,address,undefined -o fuzz_tokenizer \
 *         tests/fuzz/fuzz_tokenizer.c runtime/base.c runtime/gguf.c $(find runtime/text -name "*.c") \
 *         -ljansson -lpcre2-8 -lutf8proc -lm && ./fuzz_tokenizer CORPUS_DIR
 *
 * The first byte says what the rest is: 'B' a tokenizer's binary form, 'J' a tokenizer.json, 'G' a GGUF file,
 * 'C' a chat template.  Whatever is not refused must be usable, and a tokenizer must survive a round trip through
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
    static const char text[] =
        "The <s> quick brown fox\n\njumps  over\tna\xc3\xafve 12345 \xe2\x80\x94 don't </s> [INST]";
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
    if (size == 0)
        return 0;
    const uint8_t *rest = data + 1;
    size_t n = size - 1;
    switch (data[0]) {
    case 'B': {
        void *copy = malloc(n ? n : 1); /* aligned, so that it is used in place */
        require(copy != NULL);
        memcpy(copy, rest, n);
        st = dop_tokenizer_from_blob(copy, n, &diag, &t);
        if (st == DOP_OK)
            use_tokenizer(t);
        free(copy);
        break;
    }
    case 'J':
        st = dop_tokenizer_from_json("fuzz", rest, n, NULL, &diag, &t);
        if (st == DOP_OK)
            use_tokenizer(t);
        break;
    case 'G':
        st = fuzz_gguf(rest, n, &diag, &t);
        if (st == DOP_OK)
            use_tokenizer(t);
        break;
    case 'C':
        st = fuzz_chat((const char *)rest, n, &diag);
        break;
    default:
        return 0;
    }
    require(st == DOP_OK || (st == DOP_E_INPUT && diag.message[0]) || st == DOP_E_NOMEM);
    return 0;
}
