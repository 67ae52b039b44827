/* Ids to text: round trips, streaming, ill-formed bytes. */
#include "base/encoding/utf8.h"
#include "tests/unit/tokenizer_util.h"

#define DEMO DOP_SOURCE_DIR "/examples/shakespeare-gemma3"

static const char *const texts[] = {
    "hello world",
    "na\xc3\xafve caf\xc3\xa9 \xe2\x80\x94 \xe2\x80\x9cquotes\xe2\x80\x9d",
    "\xf0\x9f\x98\x80 emoji \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x9a\x80!",
    "line\n\n\nbreaks\tand tabs",
    "\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e \xed\x95\x9c\xea\xb5\xad\xec\x96\xb4",
};

/* Decodes push by push; after every push the text so far must be valid UTF-8 and a prefix of the whole. */
static void
check_stream(const dop_tokenizer *t, const dop_ids *ids, const char *want, size_t n)
{
    for (size_t cut = 0; cut <= ids->count; cut++) {
        dop_text_stream s;
        dop_buf out = {0};
        dop_diag diag = {0};
        dop_text_stream_init(&s, t, 0);
        for (size_t i = 0; i < ids->count; i++) {
            cr_assert_eq(dop_text_stream_push(&s, ids->data[i], &diag, &out), DOP_OK);
            cr_expect_eq(dop_utf8_check(out.data ? out.data : "", out.size), out.size);
            cr_expect(out.size <= n && memcmp(out.data ? out.data : "", want, out.size) == 0);
            if (i + 1 == cut) { /* a copy of the stream goes on by itself */
                dop_text_stream other = s;
                dop_buf rest = {0};
                for (size_t k = cut; k < ids->count; k++)
                    dop_text_stream_push(&other, ids->data[k], &diag, &rest);
                dop_text_stream_flush(&other, &rest);
                cr_expect_eq(out.size + rest.size, n);
                cr_expect(memcmp(rest.data ? rest.data : "", want + out.size, rest.size) == 0);
                dop_buf_finish(&rest);
            }
        }
        dop_text_stream_flush(&s, &out);
        cr_expect(out.size == n && memcmp(out.data, want, n) == 0);
        dop_buf_finish(&out);
    }
}

static void
check_round_trip(const dop_tokenizer *t)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        dop_ids ids = {0};
        dop_diag diag = {0};
        size_t n = strlen(texts[i]);
        cr_assert_eq(dop_tokenizer_encode(t, texts[i], n, 0, &diag, &ids), DOP_OK);
        check_stream(t, &ids, texts[i], n);
        dop_ids_finish(&ids);
    }
}

Test(tokenizer_decode, round_trip_demo)
{
    dop_tokenizer *t = util_tokenizer(DEMO "/tokenizer.json");
    check_round_trip(t);
    dop_tokenizer_destroy(t);
}

Test(tokenizer_decode, round_trip_families)
{
    static const char *const names[] = {"llama-2", "llama-3", "mistral-v0.1", "gpt-2", "qwen2", "phi-3-mini"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/golden/tokenizers/%s/tokenizer.json", DOP_SHARED_DIR, names[i]);
        if (access(path, R_OK) != 0)
            cr_skip_test("no shared data");
        dop_tokenizer *t = util_tokenizer(path);
        check_round_trip(t);
        dop_tokenizer_destroy(t);
    }
}

Test(tokenizer_decode, whole_heldout_text)
{
    dop_tokenizer *t = util_tokenizer(DEMO "/tokenizer.json");
    dop_buf text = {0}, out = {0};
    dop_ids ids = {0};
    dop_diag diag = {0};
    cr_assert(util_read(DEMO "/heldout.txt", &text));
    cr_assert_eq(dop_tokenizer_encode(t, text.data, text.size, 0, &diag, &ids), DOP_OK);
    cr_assert_eq(dop_tokenizer_decode(t, ids.data, ids.count, 0, &diag, &out), DOP_OK);
    cr_expect(out.size == text.size && memcmp(out.data, text.data, text.size) == 0);
    dop_buf_finish(&text);
    dop_buf_finish(&out);
    dop_ids_finish(&ids);
    dop_tokenizer_destroy(t);
}

/* Byte tokens of the demo, fed in any order. */
static void
check_bytes(const dop_tokenizer *t, const char *bytes, const char *want)
{
    dop_buf out = {0};
    dop_diag diag = {0};
    dop_text_stream s;
    dop_text_stream_init(&s, t, DOP_DECODE_CONTINUE);
    for (size_t i = 0; bytes[i]; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)(uint8_t)bytes[i]);
        uint32_t id = dop_tokenizer_find(t, name, 6);
        cr_assert_neq(id, DOP_NO_TOKEN);
        cr_assert_eq(dop_text_stream_push(&s, id, &diag, &out), DOP_OK);
    }
    dop_text_stream_flush(&s, &out);
    cr_expect_str_eq(out.data, want);
    dop_buf_finish(&out);
}

Test(tokenizer_decode, ill_formed_bytes)
{
    dop_tokenizer *t = util_tokenizer(DEMO "/tokenizer.json");
    check_bytes(t, "\xe2\x80\x94", "\xe2\x80\x94");
    check_bytes(t, "\xe2\x80", "\xef\xbf\xbd"); /* cut at the end: one maximal part */
    check_bytes(t,
                "\xe2\x80"
                "A",
                "\xef\xbf\xbd"
                "A");
    check_bytes(t,
                "\xff"
                "A\x80",
                "\xef\xbf\xbd"
                "A\xef\xbf\xbd");
    check_bytes(t, "\xe2\x80\xe2\x80\x94", "\xef\xbf\xbd\xe2\x80\x94");     /* resynchronizes at once */
    check_bytes(t, "\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd");                 /* overlong */
    check_bytes(t, "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"); /* surrogate */
    check_bytes(t, "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80");
    check_bytes(t, "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    dop_tokenizer_destroy(t);
}

Test(tokenizer_decode, special_and_unknown_ids)
{
    dop_tokenizer *t = util_tokenizer(DEMO "/tokenizer.json");
    static const uint32_t ids[] = {2, 328, 345, 314, 959, 5};
    static const uint32_t outside = 2048;
    dop_buf out = {0};
    dop_diag diag = {0};
    cr_assert_eq(dop_tokenizer_decode(t, ids, 6, DOP_DECODE_SKIP_SPECIAL, &diag, &out), DOP_OK);
    cr_expect_str_eq(out.data, "hello world");
    out.size = 0;
    cr_assert_eq(dop_tokenizer_decode(t, ids, 6, 0, &diag, &out), DOP_OK);
    cr_expect_str_eq(out.data, "<bos>hello world<end_of_turn>");
    cr_expect_eq(dop_tokenizer_decode(t, &outside, 1, 0, &diag, &out), DOP_E_INPUT);
    cr_expect(strstr(diag.message, "2048"));
    dop_buf_finish(&out);
    dop_tokenizer_destroy(t);
}

Test(tokenizer_decode, leading_space_of_sentencepiece)
{
    dop_tokenizer *t;
    dop_buf out = {0};
    dop_ids ids = {0};
    dop_diag diag = {0};
    if (access(DOP_SHARED_DIR "/models/stories260k-hf/tokenizer.json", R_OK) != 0)
        cr_skip_test("no shared data");
    t = util_tokenizer(DOP_SHARED_DIR "/models/stories260k-hf/tokenizer.json");
    cr_assert_eq(dop_tokenizer_encode(t, "Once upon", 9, 0, &diag, &ids), DOP_OK);
    dop_tokenizer_decode(t, ids.data, ids.count, 0, &diag, &out);
    cr_expect_str_eq(out.data, "Once upon");
    out.size = 0;
    dop_tokenizer_decode(t, ids.data, ids.count, DOP_DECODE_CONTINUE, &diag, &out);
    cr_expect_str_eq(out.data, " Once upon");
    dop_buf_finish(&out);
    dop_ids_finish(&ids);
    dop_tokenizer_destroy(t);
}

Test(tokenizer_decode, invalid_text_names_the_offset)
{
    dop_tokenizer *t = util_tokenizer(DEMO "/tokenizer.json");
    dop_ids ids = {0};
    dop_diag diag = {0};
    dop_ids_push(&ids, 7);
    cr_expect_eq(dop_tokenizer_encode(t, "abc\xe2\x80zz", 7, 0, &diag, &ids), DOP_E_INPUT);
    cr_expect(strstr(diag.message, "offset 3"), "%s", diag.message);
    cr_expect(ids.count == 1);
    dop_ids_finish(&ids);
    dop_tokenizer_destroy(t);
}
