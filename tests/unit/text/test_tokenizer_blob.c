/* The binary form: round trip, determinism, damage. */
#include "tests/unit/tokenizer_util.h"
#include "text/import/tokenizer_hf.h"

#define DEMO DOP_SOURCE_DIR "/examples/shakespeare-gemma3"

static dop_tokenizer *
demo(void)
{
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    dop_tokenizer_from_hf_dir(DEMO, &diag, &t);
    cr_assert(t, "%s: %s", diag.path, diag.message);
    return t;
}

Test(tokenizer_blob, facts_of_the_demo)
{
    dop_tokenizer *t = demo();
    size_t n;
    const uint32_t *end = dop_tokenizer_end_ids(t, &n);
    cr_expect_eq(dop_tokenizer_vocab_size(t), 2048);
    cr_expect_eq(dop_tokenizer_bos(t), 2);
    cr_expect_eq(dop_tokenizer_eos(t), 1);
    cr_expect(n == 1 && end[0] == 1);
    cr_expect(dop_tokenizer_is_end(t, 1) && !dop_tokenizer_is_end(t, 2));
    cr_expect(dop_tokenizer_adds_bos(t));
    cr_expect(dop_tokenizer_is_special(t, 4) && !dop_tokenizer_is_special(t, 400));
    cr_expect_eq(dop_tokenizer_find(t, "<end_of_turn>", 13), 5);
    cr_expect_eq(dop_tokenizer_find(t, "no such token", 13), DOP_NO_TOKEN);
    size_t len;
    cr_expect_null(dop_tokenizer_chat_template(t, &len));
    cr_expect_null(dop_tokenizer_piece(t, 2048, &len));
    dop_tokenizer_destroy(t);
}

Test(tokenizer_blob, facts_of_stories)
{
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    if (access(DOP_SHARED_DIR "/models/stories260k-hf/tokenizer.json", R_OK) != 0)
        cr_skip_test("no shared data");
    cr_assert_eq(dop_tokenizer_from_hf_dir(DOP_SHARED_DIR "/models/stories260k-hf", &diag, &t), DOP_OK);
    size_t n;
    const uint32_t *end = dop_tokenizer_end_ids(t, &n);
    cr_expect(n == 2 && end[0] == 1 && end[1] == 2);
    cr_expect(dop_tokenizer_bos(t) == 1 && dop_tokenizer_adds_bos(t));
    dop_tokenizer_destroy(t);
}

Test(tokenizer_blob, missing_directory)
{
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    cr_expect_eq(dop_tokenizer_from_hf_dir("/no/such/dir", &diag, &t), DOP_E_IO);
    cr_expect_null(t);
    cr_expect_str_eq(diag.path, "/no/such/dir/tokenizer.json");
}

Test(tokenizer_blob, round_trip_and_determinism)
{
    dop_tokenizer *t = demo(), *again = demo(), *loaded = NULL;
    dop_buf a = {0}, b = {0}, c = {0};
    dop_diag diag = {0};
    cr_assert_eq(dop_tokenizer_serialize(t, &a), DOP_OK);
    cr_assert_eq(dop_tokenizer_serialize(again, &b), DOP_OK);
    cr_expect(a.size == b.size && memcmp(a.data, b.data, a.size) == 0);
    cr_assert_eq(dop_tokenizer_from_blob(a.data, a.size, &diag, &loaded), DOP_OK, "%s", diag.message);
    dop_tokenizer_destroy(t); /* the loaded one needs the bytes only */
    json_t *j = util_json(DEMO "/tokenizer_vectors.json");
    cr_expect_eq(util_check_vectors(loaded, json_object_get(j, "vectors"), "demo", DOP_ENCODE_PARSE_SPECIAL), 0);
    cr_assert_eq(dop_tokenizer_serialize(loaded, &c), DOP_OK);
    cr_expect(a.size == c.size && memcmp(a.data, c.data, a.size) == 0);
    json_decref(j);
    dop_tokenizer_destroy(again);
    dop_tokenizer_destroy(loaded);

    /* Unaligned bytes are copied. */
    char *moved = malloc(a.size + 1);
    memcpy(moved + 1, a.data, a.size);
    cr_expect_eq(dop_tokenizer_from_blob(moved + 1, a.size, &diag, &loaded), DOP_OK);
    free(moved);
    dop_ids ids = {0};
    cr_expect_eq(dop_tokenizer_encode(loaded, "hello world", 11, DOP_ENCODE_ADD_SPECIAL, &diag, &ids), DOP_OK);
    cr_expect(ids.count == 5 && ids.data[0] == 2 && ids.data[4] == 959);
    dop_ids_finish(&ids);
    dop_tokenizer_destroy(loaded);
    dop_buf_finish(&a);
    dop_buf_finish(&b);
    dop_buf_finish(&c);
}

/* Loads bytes; whatever loads must also be usable. */
static bool
try_blob(const void *bytes, size_t size)
{
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    dop_status st = dop_tokenizer_from_blob(bytes, size, &diag, &t);
    if (st != DOP_OK) {
        cr_expect(st == DOP_E_INPUT && diag.message[0] && !t);
        return false;
    }
    static const char text[] = "Hello <start_of_turn> na\xc3\xafve \xe2\x80\x94 world, to be or not to be\n\n\n";
    dop_ids ids = {0};
    dop_buf out = {0};
    dop_diag d2 = {0};
    dop_tokenizer_encode(t, text, sizeof text - 1, DOP_ENCODE_ADD_SPECIAL | DOP_ENCODE_PARSE_SPECIAL, &d2, &ids);
    dop_tokenizer_decode(t, ids.data, ids.count, 0, &d2, &out);
    for (uint32_t i = 0; i < dop_tokenizer_vocab_size(t); i++)
        dop_tokenizer_decode(t, &i, 1, 0, &d2, &out);
    dop_tokenizer_find(t, "world", 5);
    dop_ids_finish(&ids);
    dop_buf_finish(&out);
    dop_tokenizer_destroy(t);
    return true;
}

Test(tokenizer_blob, damaged)
{
    dop_tokenizer *t = demo();
    dop_buf a = {0};
    cr_assert_eq(dop_tokenizer_serialize(t, &a), DOP_OK);
    dop_tokenizer_destroy(t);
    cr_assert(try_blob(a.data, a.size));
    cr_expect(!try_blob(a.data, 0));
    for (size_t n = 0; n < 1000; n++)
        cr_expect(!try_blob(a.data, n * a.size / 1000), "cut to %zu", n * a.size / 1000);
    /* Every byte of the header and the section table, several values each. */
    size_t refused = 0;
    for (size_t i = 0; i < 400; i++) {
        static const uint8_t flip[] = {0x01, 0x80, 0xff};
        for (size_t k = 0; k < sizeof flip; k++) {
            a.data[i] = (char)((uint8_t)a.data[i] ^ flip[k]);
            refused += !try_blob(a.data, a.size);
            a.data[i] = (char)((uint8_t)a.data[i] ^ flip[k]);
        }
    }
    cr_expect(refused > 600, "only %zu of 1200 refused", refused);
    /* Random damage anywhere. */
    uint32_t seed = 1;
    for (int k = 0; k < 3000; k++) {
        size_t at[4];
        uint8_t old[4];
        for (int m = 0; m < 4; m++) {
            seed = seed * 1664525u + 1013904223u;
            at[m] = (size_t)(seed >> 4) % a.size;
            old[m] = (uint8_t)a.data[at[m]];
            a.data[at[m]] = (char)(seed >> 24);
        }
        try_blob(a.data, a.size);
        for (int m = 3; m >= 0; m--)
            a.data[at[m]] = (char)old[m];
    }
    cr_expect(try_blob(a.data, a.size));
    dop_buf_finish(&a);
}
