/* Tokenizers out of GGUF files, and the container reader on damaged files. */
#include "base/format/gguf.h"
#include "tests/unit/buf_align.h"
#include "tests/unit/tokenizer_util.h"
#include "text/import/tokenizer_gguf.h"

static dop_tokenizer *
open_tokenizer(const char *path)
{
    dop_gguf g;
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    cr_assert_eq(dop_gguf_open(path, &diag, &g), DOP_OK, "%s: %s", path, diag.message);
    dop_tokenizer_from_gguf(&g, &diag, &t);
    cr_assert(t, "%s: %s", path, diag.message);
    dop_gguf_close(&g); /* the tokenizer keeps nothing of the file */
    return t;
}

static void
check_family(const char *name, const char *file)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/golden/tokenizers/%s/vectors.json", DOP_SHARED_DIR, name);
    if (access(path, R_OK) != 0)
        cr_skip_test("no shared data");
    json_t *vectors = util_json(path);
    snprintf(path, sizeof path, "%s/golden/tokenizers/%s/%s", DOP_SHARED_DIR, name, file);
    dop_tokenizer *t = open_tokenizer(path);
    cr_assert(json_array_size(vectors) > 300);
    cr_expect_eq(util_check_vectors(t, vectors, name, 0), 0, "%s: vectors differ", name);
    dop_tokenizer_destroy(t);
    json_decref(vectors);
}

Test(tokenizer_gguf, llama_spm)
{
    check_family("gguf-llama-spm", "ggml-vocab-llama-spm.gguf");
}

Test(tokenizer_gguf, gpt_2)
{
    check_family("gguf-gpt-2", "ggml-vocab-gpt-2.gguf");
}

Test(tokenizer_gguf, phi_3)
{
    check_family("gguf-phi-3", "ggml-vocab-phi-3.gguf");
}

Test(tokenizer_gguf, shakespeare)
{
    if (access(DOP_SHARED_DIR "/models/shakespeare-gemma3-gguf", R_OK) != 0)
        cr_skip_test("no shared data");
    static const char *const files[] = {"f16", "q4_0", "q4_k_m", "q6_k", "q8_0"};
    json_t *j = util_json(DOP_SHARED_DIR "/models/shakespeare-gemma3-gguf/tokenizer_vectors.json");
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/models/shakespeare-gemma3-gguf/shakespeare-gemma3-%s.gguf", DOP_SHARED_DIR,
                 files[i]);
        dop_tokenizer *t = open_tokenizer(path);
        cr_expect_eq(util_check_vectors(t, json_object_get(j, "vectors"), path, DOP_ENCODE_PARSE_SPECIAL), 0);
        cr_expect(dop_tokenizer_bos(t) == 2 && dop_tokenizer_eos(t) == 1 && dop_tokenizer_adds_bos(t));
        cr_expect(dop_tokenizer_is_end(t, 5)); /* <end_of_turn> */
        dop_tokenizer_destroy(t);
    }
    json_decref(j);
}

Test(tokenizer_gguf, stories260k)
{
    if (access(DOP_SHARED_DIR "/models/stories260k-gguf", R_OK) != 0)
        cr_skip_test("no shared data");
    dop_tokenizer *t = open_tokenizer(DOP_SHARED_DIR "/models/stories260k-gguf/stories260k-f32.gguf");
    json_t *j = util_json(DOP_SHARED_DIR "/models/stories260k-hf/tokenizer_vectors.json");
    cr_expect_eq(util_check_vectors(t, json_object_get(j, "vectors"), "stories260k-gguf", 0), 0);
    dop_ids ids = {0};
    dop_buf out = {0};
    dop_diag diag = {0};
    cr_assert_eq(dop_tokenizer_encode(t, "Once upon", 9, DOP_ENCODE_ADD_SPECIAL, &diag, &ids), DOP_OK);
    cr_expect_eq(ids.data[0], 1);
    dop_tokenizer_decode(t, ids.data, ids.count, DOP_DECODE_SKIP_SPECIAL, &diag, &out);
    cr_expect_str_eq(out.data, "Once upon");
    dop_ids_finish(&ids);
    dop_buf_finish(&out);
    json_decref(j);
    dop_tokenizer_destroy(t);
}

/* ---- container ---- */

static void
put_str(dop_buf *b, const char *s)
{
    uint64_t n = strlen(s);
    dop_buf_append(b, &n, 8);
    dop_buf_append(b, s, n);
}

static void
put_u32(dop_buf *b, uint32_t v)
{
    dop_buf_append(b, &v, 4);
}

static void
put_u64(dop_buf *b, uint64_t v)
{
    dop_buf_append(b, &v, 8);
}

/* A small file with every kind of value, nested arrays and two tensors. */
static dop_buf
sample(uint32_t version)
{
    dop_buf b = {0};
    dop_buf_puts(&b, "GGUF");
    put_u32(&b, version);
    put_u64(&b, 2);
    put_u64(&b, 10);
    put_str(&b, "general.alignment"), put_u32(&b, DOP_GGUF_U32), put_u32(&b, 64);
    put_str(&b, "a.i8"), put_u32(&b, DOP_GGUF_I8), dop_buf_append(&b, "\xfe", 1);
    put_str(&b, "a.u16"), put_u32(&b, DOP_GGUF_U16), dop_buf_append(&b, "\xff\xff", 2);
    put_str(&b, "a.f32"), put_u32(&b, DOP_GGUF_F32), dop_buf_append(&b, &(float){1.5f}, 4);
    put_str(&b, "a.bool"), put_u32(&b, DOP_GGUF_BOOL), dop_buf_append(&b, "\1", 1);
    put_str(&b, "a.str"), put_u32(&b, DOP_GGUF_STRING), put_str(&b, "value");
    put_str(&b, "a.i64"), put_u32(&b, DOP_GGUF_I64), put_u64(&b, (uint64_t)INT64_MIN);
    put_str(&b, "a.f64"), put_u32(&b, DOP_GGUF_F64), dop_buf_append(&b, &(double){-0.25}, 8);
    put_str(&b, "a.strs"), put_u32(&b, DOP_GGUF_ARRAY), put_u32(&b, DOP_GGUF_STRING), put_u64(&b, 3);
    put_str(&b, "x"), put_str(&b, ""), put_str(&b, "zz");
    put_str(&b, "a.nested"), put_u32(&b, DOP_GGUF_ARRAY), put_u32(&b, DOP_GGUF_ARRAY), put_u64(&b, 2);
    put_u32(&b, DOP_GGUF_U8), put_u64(&b, 2), dop_buf_append(&b, "ab", 2);
    put_u32(&b, DOP_GGUF_STRING), put_u64(&b, 1), put_str(&b, "q");
    put_str(&b, "t.f32"), put_u32(&b, 2), put_u64(&b, 3), put_u64(&b, 2), put_u32(&b, 0), put_u64(&b, 0);
    put_str(&b, "t.q4"), put_u32(&b, 1), put_u64(&b, 64), put_u32(&b, 2), put_u64(&b, 64);
    buf_align(&b, 64);
    dop_buf_zeros(&b, 64 + 36);
    return b;
}

Test(gguf, values_and_tensors)
{
    for (uint32_t version = 2; version <= 3; version++) {
        dop_buf b = sample(version);
        dop_gguf g;
        dop_diag diag = {0};
        uint64_t u;
        int64_t i;
        double f;
        bool yes;
        dop_gguf_str s;
        cr_assert_eq(dop_gguf_open_bytes("mem", b.data, b.size, &diag, &g), DOP_OK, "%s", diag.message);
        cr_expect(g.version == version && g.kv_count == 10 && g.tensor_count == 2 && g.alignment == 64);
        cr_expect(dop_gguf_i64(dop_gguf_find(&g, "a.i8"), 0, &i) && i == -2);
        cr_expect(!dop_gguf_u64(dop_gguf_find(&g, "a.i8"), 0, &u));
        cr_expect(dop_gguf_u64(dop_gguf_find(&g, "a.u16"), 0, &u) && u == 65535);
        cr_expect(dop_gguf_f64(dop_gguf_find(&g, "a.f32"), 0, &f) && f == 1.5);
        cr_expect(!dop_gguf_u64(dop_gguf_find(&g, "a.f32"), 0, &u));
        cr_expect(dop_gguf_bool(dop_gguf_find(&g, "a.bool"), 0, &yes) && yes);
        cr_expect(dop_gguf_i64(dop_gguf_find(&g, "a.i64"), 0, &i) && i == INT64_MIN);
        cr_expect(dop_gguf_f64(dop_gguf_find(&g, "a.f64"), 0, &f) && f == -0.25);
        cr_expect(dop_gguf_string(dop_gguf_find(&g, "a.str"), &s) && s.len == 5 && memcmp(s.data, "value", 5) == 0);
        cr_expect(!dop_gguf_string(dop_gguf_find(&g, "a.strs"), &s));
        uint64_t at = 0;
        const dop_gguf_kv *strs = dop_gguf_find(&g, "a.strs");
        cr_expect(dop_gguf_next_string(strs, &at, &s) && s.len == 1);
        cr_expect(dop_gguf_next_string(strs, &at, &s) && s.len == 0);
        cr_expect(dop_gguf_next_string(strs, &at, &s) && s.len == 2 && s.data[1] == 'z');
        cr_expect(!dop_gguf_next_string(strs, &at, &s));
        const dop_gguf_kv *nested = dop_gguf_find(&g, "a.nested");
        cr_expect(nested && nested->elem == DOP_GGUF_ARRAY && nested->count == 2);
        cr_expect(!dop_gguf_find(&g, "a.nothing") && !dop_gguf_u64(NULL, 0, &u));
        const dop_gguf_tensor *t = dop_gguf_find_tensor(&g, "t.q4");
        cr_assert(t);
        cr_expect(t->bytes == 36 && t->dims[0] == 64 && t->dims[1] == 1 && t->offset == g.data_offset + 64);
        t = dop_gguf_find_tensor(&g, "t.f32");
        cr_expect(t && t->bytes == 24 && t->dims_count == 2 && t->dims[1] == 2);
        dop_gguf_close(&g);
        dop_buf_finish(&b);
    }
}

static void
expect_bad(const void *bytes, size_t n, const char *part)
{
    dop_gguf g;
    dop_diag diag = {0};
    cr_expect_eq(dop_gguf_open_bytes("mem", bytes, n, &diag, &g), DOP_E_INPUT);
    cr_expect(strstr(diag.message, part), "\"%s\" does not say \"%s\"", diag.message, part);
    cr_expect(!g.kvs && !g.tensors);
}

Test(gguf, damaged)
{
    dop_buf b = sample(3);
    for (size_t n = 0; n < b.size; n++) {
        dop_gguf g;
        dop_diag diag = {0};
        char *copy = malloc(n + 1); /* exact size, so that sanitizers see a read beyond it */
        memcpy(copy, b.data, n);
        char *fit = realloc(copy, n ? n : 1);
        cr_expect_eq(dop_gguf_open_bytes("mem", fit, n, &diag, &g), DOP_E_INPUT, "cut to %zu", n);
        cr_expect(diag.message[0]);
        free(fit);
    }
    expect_bad("GGML", 4, "not a GGUF");
    for (size_t i = 0; i < b.size - 100; i++) { /* nothing may crash, whatever a byte says */
        for (unsigned k = 0; k < 8; k++) {
            dop_gguf g;
            dop_diag diag = {0};
            char old = b.data[i];
            b.data[i] = (char)((unsigned)(uint8_t)old ^ (1u << k));
            if (dop_gguf_open_bytes("mem", b.data, b.size, &diag, &g) == DOP_OK)
                dop_gguf_close(&g);
            b.data[i] = old;
        }
    }
    b.data[4] = 0, b.data[7] = 3;
    expect_bad(b.data, b.size, "big-endian");
    b.data[7] = 0, b.data[4] = 1;
    expect_bad(b.data, b.size, "version 1");
    b.data[4] = 3;
    memset(b.data + 8, 0xff, 8);
    expect_bad(b.data, b.size, "more than fit");
    dop_buf_finish(&b);
}

Test(gguf, tensor_errors)
{
    static const struct {
        const char *name;
        uint64_t dim;
        uint32_t type;
        uint64_t offset;
        const char *message;
    } rows[] = {
        {"w", 64, 99, 0, "unknown type 99"},
        {"w", 33, 2, 0, "not a multiple of the 32"},
        {"w", UINT64_MAX & ~31ull, 2, 0, "impossible shape"},
        {"w", 0, 0, 0, "impossible shape"},
        {"w", 64, 2, 7, "not a multiple of the alignment"},
        {"w", 64, 2, UINT64_MAX & ~31ull, "beyond the end"},
        {"w", 64, 0, 1 << 20, "beyond the end"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_buf b = {0};
        dop_buf_puts(&b, "GGUF");
        put_u32(&b, 3), put_u64(&b, 1), put_u64(&b, 0);
        put_str(&b, rows[i].name), put_u32(&b, 2), put_u64(&b, rows[i].dim), put_u64(&b, 2);
        put_u32(&b, rows[i].type), put_u64(&b, rows[i].offset);
        buf_align(&b, 32);
        dop_buf_zeros(&b, 128);
        expect_bad(b.data, b.size, rows[i].message);
        dop_buf_finish(&b);
    }
}

Test(gguf, twice_the_same_key)
{
    dop_buf b = {0};
    dop_buf_puts(&b, "GGUF");
    put_u32(&b, 3), put_u64(&b, 0), put_u64(&b, 2);
    for (int i = 0; i < 2; i++)
        put_str(&b, "k"), put_u32(&b, DOP_GGUF_U8), dop_buf_append(&b, "x", 1);
    expect_bad(b.data, b.size, "\"k\" is there twice");
    dop_buf_finish(&b);
}

/* ---- how text is split ---- */

static void
put_text(dop_buf *b, const char *key, const char *value)
{
    put_str(b, key), put_u32(b, DOP_GGUF_STRING), put_str(b, value);
}

static void
put_texts(dop_buf *b, const char *key, const char *const *list, size_t n)
{
    put_str(b, key), put_u32(b, DOP_GGUF_ARRAY), put_u32(b, DOP_GGUF_STRING), put_u64(b, n);
    for (size_t i = 0; i < n; i++)
        put_str(b, list[i]);
}

/* The tokenizer of a file without tensors that has these tokens and merges; types may be NULL. */
static dop_tokenizer *
tokenizer_of(const char *model, const char *pre, const char *const *tokens, size_t n_tokens, const int32_t *types,
             const char *const *merges, size_t n_merges)
{
    dop_buf b = {0};
    dop_gguf g;
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    dop_buf_puts(&b, "GGUF");
    put_u32(&b, 3), put_u64(&b, 0), put_u64(&b, 6u + (pre ? 1u : 0u) + (types ? 1u : 0u));
    put_text(&b, "tokenizer.ggml.model", model);
    if (pre)
        put_text(&b, "tokenizer.ggml.pre", pre);
    put_texts(&b, "tokenizer.ggml.tokens", tokens, n_tokens);
    put_texts(&b, "tokenizer.ggml.merges", merges, n_merges);
    if (types) {
        put_str(&b, "tokenizer.ggml.token_type"), put_u32(&b, DOP_GGUF_ARRAY), put_u32(&b, DOP_GGUF_I32);
        put_u64(&b, n_tokens), dop_buf_append(&b, types, n_tokens * sizeof *types);
    }
    put_str(&b, "tokenizer.ggml.bos_token_id"), put_u32(&b, DOP_GGUF_U32), put_u32(&b, 0);
    put_str(&b, "tokenizer.ggml.eos_token_id"), put_u32(&b, DOP_GGUF_U32), put_u32(&b, 1);
    put_str(&b, "tokenizer.ggml.add_bos_token"), put_u32(&b, DOP_GGUF_BOOL), dop_buf_append(&b, "\0", 1);
    buf_align(&b, 32);
    cr_assert_eq(dop_gguf_open_bytes("mem", b.data, b.size, &diag, &g), DOP_OK, "%s", diag.message);
    dop_tokenizer_from_gguf(&g, &diag, &t);
    cr_assert(t, "%s %s: %s", model, pre ? pre : "", diag.message);
    dop_gguf_close(&g);
    dop_buf_finish(&b);
    return t;
}

/* The tokens of a text with "|" between them. */
static void
expect_pieces(const dop_tokenizer *t, const char *what, const char *const *tokens, const char *text, unsigned flags,
              const char *want)
{
    dop_ids ids = {0};
    dop_diag diag = {0};
    dop_buf got = {0};
    cr_assert_eq(dop_tokenizer_encode(t, text, strlen(text), flags, &diag, &ids), DOP_OK, "%s: %s", what, diag.message);
    for (size_t i = 0; i < ids.count; i++)
        dop_buf_printf(&got, "%s%s", i ? "|" : "", tokens[ids.data[i]]);
    cr_expect_str_eq(got.data ? got.data : "", want, "%s: %s, expected %s", what, got.data ? got.data : "", want);
    dop_ids_finish(&ids);
    dop_buf_finish(&got);
}

Test(tokenizer_gguf, every_name_of_a_splitting_rule)
{
    static const char *const tokens[] = {"<s>", "</s>",   "1",   "2",  "3",   "4",        "5",         "6",
                                         "7",   "12",     "123", "34", "234", "45",       "456",       "67",
                                         "567", "123456", "a",   "b",  ",",   "\xc4\xa0", "\304\240b", ",\xc4\xa0"};
    static const char *const merges[] = {"1 2", "12 3", "3 4",     "2 34",       "4 5",       "45 6",
                                         "6 7", "5 67", "123 456", ", \xc4\xa0", "\xc4\xa0 b"};
    static const struct {
        const char *names, *digits, *words; /* of 1234567, and of "a, b" */
    } rows[] = {
        {"minimax-m2 talkie granite-embed-multi-97m hy_v4 jais-2 jina-v5-nano kimi-k2 minicpm5 llama-bpe gpt-4o",
         "123|456|7", "a|,|\304\240b"},
        {"afmoe tiny_aya cohere2moe", "1|234|567", "a|,|\304\240b"},
        {"superbpe", "1|234|567", "a|,\xc4\xa0|b"},
        {"spark2_5 youtu ufakzeka laguna exaone-moe f2llmv2 qwen2 chameleon", "1|2|3|4|5|6|7", "a|,|\304\240b"},
        {"viking", "1|2|3|4|5|6|7", "a|,|\304\240b"},
        {"deepseek-llm jina-v1-en poro-chat bloom gpt3-finnish", "123456|7", "a|,|\304\240b"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char names[256], *rest = NULL;
        snprintf(names, sizeof names, "%s", rows[i].names);
        for (char *name = strtok_r(names, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
            dop_tokenizer *t = tokenizer_of("gpt2", name, tokens, sizeof tokens / sizeof *tokens, NULL, merges,
                                            sizeof merges / sizeof *merges);
            expect_pieces(t, name, tokens, "1234567", 0, rows[i].digits);
            expect_pieces(t, name, tokens, "a, b", 0, rows[i].words);
            dop_tokenizer_destroy(t);
        }
    }
}

/* Gemma 4's files: merges over characters, U+2581 for spaces, bytes by name, line feeds together, and <bos> whatever
 * add_bos_token says. */
Test(tokenizer_gguf, gemma4)
{
#define MARK "\xe2\x96\x81"
    static const char *const tokens[] = {
        "<bos>", "<eos>", "a",      "b",      MARK,     "ab",     "\342\226\201a", "\342\226\201\342\226\201",
        "\n",    "\n\n",  "<0xC3>", "<0xA9>", "<0x0A>", "<turn>", "\xc3\xb6"};
    static const char *const merges[] = {"a b", "\342\226\201 a", "\342\226\201 \342\226\201"};
    int32_t types[sizeof tokens / sizeof *tokens] = {3, 3};
    const size_t n = sizeof tokens / sizeof *tokens, n_merges = sizeof merges / sizeof *merges;
    for (size_t i = 2; i < n; i++)
        types[i] = i >= 10 && i <= 12 ? 6 : i == 13 ? 4 : 1;
    for (int k = 0; k < 2; k++) { /* the name of the rule, with another model, means the same */
        dop_tokenizer *t = tokenizer_of(k ? "gpt2" : "gemma4", k ? "gemma4" : NULL, tokens, n, types, merges, n_merges);
        expect_pieces(t, "words", tokens, "ab a", 0, "ab|\342\226\201a");
        expect_pieces(t, "no space in front", tokens, "a", DOP_ENCODE_ADD_SPECIAL, "<bos>|a");
        expect_pieces(t, "lines", tokens, "a\n\nb\n", 0, "a|\n\n|b|\n");
        expect_pieces(t, "bytes", tokens, "\xc3\xa9\xc3\xb6", 0, "<0xC3>|<0xA9>|\xc3\xb6");
        expect_pieces(t, "spaces", tokens, "  b", 0, "\342\226\201\342\226\201|b");
        expect_pieces(t, "marks of turns", tokens, "a<turn>b", DOP_ENCODE_PARSE_SPECIAL, "a|<turn>|b");
        dop_buf out = {0};
        dop_diag diag = {0};
        const uint32_t ids[] = {6, 7, 10, 11, 8};
        cr_assert_eq(dop_tokenizer_decode(t, ids, 5, DOP_DECODE_SKIP_SPECIAL, &diag, &out), DOP_OK);
        cr_expect_str_eq(out.data, " a  \xc3\xa9\n");
        dop_buf_finish(&out);
        dop_tokenizer_destroy(t);
    }
    dop_tokenizer *t = tokenizer_of("gpt2", "sarvam-moe", tokens, n, types, merges, n_merges);
    expect_pieces(t, "no <bos>", tokens, "ab a", DOP_ENCODE_ADD_SPECIAL, "ab|\342\226\201a");
    dop_tokenizer_destroy(t);
}
