/* The work on hostile texts: normal forms in linear time, and budgets through normalizing, splitting and merging. */
#include "base/encoding/utf8.h"
#include "base/os/clock.h"
#include "tests/unit/tokenizer_util.h"
#include "text/import/tokenizer_json.h"
#include "text/tokenizer/normal_form.h"

#include <time.h>
#include <utf8proc.h>

/* Milliseconds of processor time, which other processes do not lengthen. */
static double
processor_ms(void)
{
    return (double)clock() * 1e3 / CLOCKS_PER_SEC;
}

static const struct {
    unsigned ours, theirs;
} forms[] = {
    {DOP_NORMAL_COMPOSE, UTF8PROC_COMPOSE},
    {0, UTF8PROC_DECOMPOSE},
    {DOP_NORMAL_COMPOSE | DOP_NORMAL_COMPAT, UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
    {DOP_NORMAL_COMPAT, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
};

static void
put(dop_buf *b, uint32_t cp)
{
    char bytes[4];
    dop_buf_append(b, bytes, dop_utf8_put(cp, bytes));
}

/* Letters with and without marks, marks of many classes, Hangul in parts, ligatures, and whatever else there is. */
static uint32_t
any_char(uint64_t *seed)
{
    static const uint32_t some[] = {'a', 'e', ' ', '<', 0xe9, 0x1e9b, 0x212b, 0xfb01, 0x3060, 0x338, 0x345, 0x5b0};
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    uint32_t r = (uint32_t)(*seed >> 33), x = r >> 4;
    switch (r & 7u) {
    case 0:
    case 1:
        return some[x % (sizeof some / sizeof *some)];
    case 2:
    case 3:
    case 4:
        return 0x300 + x % 0x70;
    case 5:
        return 0x1100 + x % 0xff;
    case 6:
        return 0xac00 + x % 11172;
    default:
        x %= 0x30000;
        return x >= 0xd800 && x < 0xe000 ? 'x' : x ? x : 'y';
    }
}

Test(tokenizer_budget, normal_forms_are_those_of_utf8proc)
{
    uint64_t seed = 7;
    for (int round = 0; round < 4000; round++) {
        dop_buf text = {0};
        for (int i = 0, n = round % 50; i < n; i++)
            put(&text, any_char(&seed));
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
            dop_buf got = {0};
            dop_diag diag = {0};
            utf8proc_uint8_t *want = NULL;
            utf8proc_ssize_t n =
                utf8proc_map((const utf8proc_uint8_t *)(text.data ? text.data : ""), (utf8proc_ssize_t)text.size, &want,
                             (utf8proc_option_t)(UTF8PROC_STABLE | forms[f].theirs));
            cr_assert(n >= 0);
            cr_assert_eq(dop_normal_form(forms[f].ours, text.data, text.size, NULL, &diag, &got), DOP_OK, "%s",
                         diag.message);
            cr_assert_eq(got.size, (size_t)n, "round %d, form %zu", round, f);
            cr_assert(n == 0 || memcmp(got.data, want, (size_t)n) == 0, "round %d, form %zu", round, f);
            free(want);
            dop_buf_finish(&got);
        }
        dop_buf_finish(&text);
    }
}

/* The marks behind a letter, in descending order of their classes, and a class that stands several times. */
static dop_buf
marks_out_of_order(size_t n)
{
    static const uint32_t falling[] = {0x345, 0x301, 0x323, 0x327, 0x334, 0x302, 0x316};
    dop_buf text = {0};
    put(&text, 'a');
    for (size_t i = 0; i < n; i++)
        put(&text, falling[i % (sizeof falling / sizeof *falling)]);
    return text;
}

Test(tokenizer_budget, marks_out_of_order_take_linear_time)
{
    enum { n = 1000 * 1000 };
    dop_buf text = marks_out_of_order(n);
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        dop_buf got = {0};
        dop_diag diag = {0};
        dop_budget b = {.steps = 4 * n, .bytes = (uint64_t)16 * n};
        const double start = processor_ms();
        cr_assert_eq(dop_normal_form(forms[f].ours, text.data, text.size, &b, &diag, &got), DOP_OK, "%s", diag.message);
        cr_expect_lt(processor_ms() - start, 5000); /* 50 ms; by insertion it would be hours */
        cr_expect_eq(b.bytes, (uint64_t)16 * n, "bytes are given back");
        /* Class by class, and within a class as they stood. */
        unsigned last = 0;
        for (size_t i = 0; i < got.size;) {
            dop_utf8_char c = dop_utf8_next(got.data + i, got.size - i);
            unsigned class = (unsigned)utf8proc_get_property((utf8proc_int32_t)c.cp)->combining_class;
            cr_assert_geq(class, last);
            last = class;
            i += c.len;
        }
        cr_expect_gt(got.size, text.size - 8);
        dop_buf_finish(&got);
        b = (dop_budget){.steps = n / 2, .bytes = UINT64_MAX};
        cr_expect_eq(dop_normal_form(forms[f].ours, text.data, text.size, &b, &diag, &got), DOP_E_LIMIT);
        dop_buf_finish(&got);
        b = (dop_budget){.steps = UINT64_MAX, .bytes = n};
        cr_expect_eq(dop_normal_form(forms[f].ours, text.data, text.size, &b, &diag, &got), DOP_E_LIMIT);
        cr_expect_eq(b.bytes, n);
        dop_buf_finish(&got);
    }
    dop_buf_finish(&text);
}

/* A tokenizer of bytes whose pre-tokenizer splits by this pattern (as JSON). */
static dop_tokenizer *
splitting(const char *normalizer, const char *pattern)
{
    dop_buf b = {0};
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    dop_buf_printf(&b,
                   "{\"added_tokens\": [], \"normalizer\": %s, \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": "
                   "{\"Regex\": %s}, \"behavior\": \"Isolated\"}, \"post_processor\": null, \"decoder\": null, "
                   "\"model\": {\"type\": \"BPE\", \"unk_token\": \"?\", \"vocab\": {\"?\": 0, \"a\": 1, \"aa\": 2, "
                   "\"1\": 3, \"11\": 4}, \"merges\": [\"a a\", \"1 1\"]}}",
                   normalizer, pattern);
    dop_tokenizer_from_json("t.json", b.data, b.size, NULL, &diag, &t);
    cr_assert(t, "%s", diag.message);
    dop_buf_finish(&b);
    return t;
}

static dop_buf
run_of(char c, size_t n)
{
    dop_buf text = {0};
    dop_buf_zeros(&text, n);
    memset(text.data, c, n);
    return text;
}

/* Encodes within 300 ms, and checks that it ended in time, with everything given back. */
static dop_status
encode_in_time(const dop_tokenizer *t, const dop_buf *text, uint64_t steps, double most_ms, dop_diag *diag)
{
    dop_ids ids = {0};
    dop_budget b = {.steps = steps, .bytes = 1u << 30, .until_ms = dop_now_ms() + 300};
    const double start = processor_ms();
    dop_status st = dop_tokenizer_encode_within(t, text->data, text->size, DOP_ENCODE_PROMPT, &b, diag, &ids);
    cr_expect_lt(processor_ms() - start, most_ms);
    cr_expect_eq(b.bytes, 1u << 30);
    cr_expect(st == DOP_OK || ids.count == 0);
    dop_ids_finish(&ids);
    return st;
}

Test(tokenizer_budget, patterns_that_look_ahead_end_in_time)
{
    static const char *const patterns[] = {
        "\"\\\\d{1,3}(?=(?:\\\\d{3})*\\\\b)\"", /* groups of three digits, counted from the right */
        "\"(?=(\\\\d{3})+(?!\\\\d))\"",
        "\"\\\\d(?=\\\\d*x)|\\\\d\"",
    };
    dop_buf text = run_of('1', 1000 * 1000);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        dop_diag diag = {0};
        dop_tokenizer *t = splitting("null", patterns[i]);
        cr_expect_eq(encode_in_time(t, &text, UINT64_MAX, 3000, &diag), DOP_E_LIMIT, "%s: %s", patterns[i],
                     diag.message);
        text.size = 300; /* what people write goes through */
        cr_expect_eq(encode_in_time(t, &text, UINT64_MAX, 3000, &diag), DOP_OK, "%s: %s", patterns[i], diag.message);
        text.size = 1000 * 1000;
        dop_tokenizer_destroy(t);
    }
    dop_buf_finish(&text);
}

Test(tokenizer_budget, patterns_that_try_everything_are_given_up)
{
    dop_diag diag = {0};
    dop_ids ids = {0};
    dop_tokenizer *t = splitting("null", "\"(?:a+)+b|.\"");
    dop_buf text = run_of('a', 5000);
    dop_status st = dop_tokenizer_encode(t, text.data, text.size, 0, &diag, &ids);
    cr_expect_eq(st, DOP_E_LIMIT, "%s", diag.message);
    cr_expect(strstr(diag.message, "gave up on this text"), "%s", diag.message);
    dop_ids_finish(&ids);
    dop_buf_finish(&text);
    dop_tokenizer_destroy(t);
}

Test(tokenizer_budget, one_long_word)
{
    dop_diag diag = {0};
    dop_tokenizer *t = splitting("{\"type\": \"NFC\"}", "\"zz\"");
    dop_buf text = run_of('a', 1000 * 1000);
    cr_expect_eq(encode_in_time(t, &text, 1000, 3000, &diag), DOP_E_LIMIT, "%s", diag.message);
    cr_expect(strstr(diag.message, "too many steps"), "%s", diag.message);
    cr_expect_eq(encode_in_time(t, &text, 1000 * 1000 * 10, 3000, &diag), DOP_E_LIMIT, "within the merges");
    diag = (dop_diag){0};
    dop_budget b = {.steps = UINT64_MAX, .bytes = 1 << 20};
    dop_ids ids = {0};
    cr_expect_eq(dop_tokenizer_encode_within(t, text.data, text.size, 0, &b, &diag, &ids), DOP_E_LIMIT);
    cr_expect(strstr(diag.message, "too much memory"), "%s", diag.message);
    cr_expect_eq(b.bytes, 1 << 20);
    atomic_bool cancelled = true;
    b = (dop_budget){.steps = UINT64_MAX, .bytes = UINT64_MAX, .cancelled = &cancelled};
    cr_expect_eq(dop_tokenizer_encode_within(t, text.data, text.size, 0, &b, &diag, &ids), DOP_E_LIMIT);
    dop_ids_finish(&ids);
    dop_buf_finish(&text);
    dop_tokenizer_destroy(t);
}

Test(tokenizer_budget, normalizing_within_a_tokenizer)
{
    dop_diag diag = {0};
    dop_tokenizer *t = splitting("{\"type\": \"NFC\"}", "\"zz\"");
    dop_buf text = marks_out_of_order(80 * 1000);
    const double start = processor_ms();
    dop_ids ids = {0};
    cr_expect_eq(dop_tokenizer_encode(t, text.data, text.size, 0, &diag, &ids), DOP_OK, "%s", diag.message);
    cr_expect_lt(processor_ms() - start, 3000); /* 53 s when every mark is inserted */
    dop_ids_finish(&ids);
    dop_buf_finish(&text);
    dop_tokenizer_destroy(t);
}
