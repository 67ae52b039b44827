/* Token ids against vectors made by other programs. */
#include "tests/unit/tokenizer_util.h"
#include "text/import/tokenizer_hf.h"

static void
check_family(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/golden/tokenizers/%s/vectors.json", DOP_SHARED_DIR, name);
    if (access(path, R_OK) != 0)
        cr_skip_test("no shared data");
    json_t *vectors = util_json(path);
    static const char *const files[] = {"tokenizer.json", "tokenizer.json.gz", "tokenizer.model"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/golden/tokenizers/%s/%s", DOP_SHARED_DIR, name, files[i]);
        if (access(path, R_OK) == 0)
            break;
    }
    dop_tokenizer *t = util_tokenizer(path);
    size_t n = json_array_size(vectors);
    cr_assert(n > 300);
    cr_expect_eq(util_check_vectors(t, vectors, name, 0), 0, "%s: vectors differ", name);
    dop_tokenizer_destroy(t);
    json_decref(vectors);
}

#define FAMILY(id, name)    \
    Test(tokenizer, id)     \
    {                       \
        check_family(name); \
    }

FAMILY(llama_2, "llama-2")
FAMILY(llama_3, "llama-3")
FAMILY(llama_4, "llama-4")
FAMILY(mistral_v0_1, "mistral-v0.1")
FAMILY(mistral_v0_3, "mistral-v0.3")
FAMILY(gpt_2, "gpt-2")
FAMILY(qwen2, "qwen2")
FAMILY(o200k, "o200k")
FAMILY(cl100k, "cl100k")
FAMILY(phi_3_mini, "phi-3-mini")
FAMILY(gpt_neox, "gpt-neox")
FAMILY(xlnet_base_cased, "xlnet-base-cased")
FAMILY(bert_base_cased, "bert-base-cased")
FAMILY(gte, "gte")
FAMILY(nai_t5_spm, "nai-t5-spm")
FAMILY(nerdstash_spm, "nerdstash-spm")
FAMILY(llama2_spm, "llama2-spm")

static bool
has_special(const dop_tokenizer *t, const json_t *ids)
{
    for (size_t i = 0; i < json_array_size(ids); i++)
        if (dop_tokenizer_is_special(t, (uint32_t)json_integer_value(json_array_get(ids, i))))
            return true;
    return false;
}

/* Where nothing is normalized away, ids decode to the text they came from. */
static void
check_lossless(const char *name, const char *file)
{
    char path[1024];
    size_t bad = 0, seen = 0;
    snprintf(path, sizeof path, "%s/golden/tokenizers/%s/vectors.json", DOP_SHARED_DIR, name);
    if (access(path, R_OK) != 0)
        cr_skip_test("no shared data");
    json_t *vectors = util_json(path);
    snprintf(path, sizeof path, "%s/golden/tokenizers/%s/%s", DOP_SHARED_DIR, name, file);
    dop_tokenizer *t = util_tokenizer(path);
    for (size_t i = 0; i < json_array_size(vectors); i++) {
        const json_t *v = json_array_get(vectors, i), *text = json_object_get(v, "text"),
                     *list = json_object_get(v, "ids");
        dop_ids ids = {0};
        dop_buf out = {0};
        dop_diag diag = {0};
        for (size_t k = 0; k < json_array_size(list); k++)
            dop_ids_push(&ids, (uint32_t)json_integer_value(json_array_get(list, k)));
        if (has_special(t, list)) {
            dop_ids_finish(&ids);
            continue; /* they may swallow white space */
        }
        seen++;
        cr_assert_eq(dop_tokenizer_decode(t, ids.data, ids.count, DOP_DECODE_SKIP_SPECIAL, &diag, &out), DOP_OK);
        if (out.size != json_string_length(text) ||
            (out.size && memcmp(out.data, json_string_value(text), out.size) != 0))
            if (bad++ < 5)
                fprintf(stderr, "%s vector %zu: \"%.100s\"\n", name, i, json_string_value(text));
        dop_ids_finish(&ids);
        dop_buf_finish(&out);
    }
    cr_expect(seen > 200, "%s: only %zu texts", name, seen);
    cr_expect_eq(bad, 0, "%s: %zu texts do not come back", name, bad);
    dop_tokenizer_destroy(t);
    json_decref(vectors);
}

Test(tokenizer, lossless)
{
    check_lossless("llama2-spm", "tokenizer.model");
    check_lossless("nerdstash-spm", "tokenizer.model");
    check_lossless("cl100k", "tokenizer.json.gz");
    check_lossless("o200k", "tokenizer.json.gz");
}

static void
put_base64(dop_buf *out, const uint8_t *p, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
        char c[4] = {digits[v >> 18], digits[v >> 12 & 63], digits[v >> 6 & 63], digits[v & 63]};
        if (i + 2 >= n)
            c[3] = '=';
        if (i + 1 >= n)
            c[2] = '=';
        dop_buf_append(out, c, 4);
    }
}

/* Published ranks as a tiktoken file, with nothing beside it: the vocabulary is known by its size, and it gives the ids
 * that tokenizer.json gives.  `ranks` leaves out the special tokens. */
static void
check_tiktoken(const char *name, const char *file, uint32_t ranks, const char *tail)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/golden/tokenizers/%s/vectors.json", DOP_SHARED_DIR, name);
    if (access(path, R_OK) != 0)
        cr_skip_test("no shared data");
    json_t *vectors = util_json(path);
    snprintf(path, sizeof path, "%s/golden/tokenizers/%s/%s", DOP_SHARED_DIR, name, file);
    dop_tokenizer *json = util_tokenizer(path), *t = NULL;
    dop_buf lines = {0};
    dop_diag diag = {0};
    for (uint32_t id = 0; id < ranks; id++) {
        size_t n;
        const char *s = dop_tokenizer_piece(json, id, &n);
        put_base64(&lines, (const uint8_t *)s, n);
        dop_buf_printf(&lines, " %u\n", id);
    }
    dop_tokenizer_from_bytes("ranks.tiktoken", lines.data, lines.size, NULL, &diag, &t);
    cr_assert(t, "%s: %s", name, diag.message);
    for (size_t i = json_array_size(vectors); i-- > 0;) /* the special tokens of a definition may be others */
        if (has_special(json, json_object_get(json_array_get(vectors, i), "ids")))
            json_array_remove(vectors, i);
    cr_assert(json_array_size(vectors) > 200);
    cr_expect_eq(util_check_vectors(t, vectors, name, 0), 0);
    cr_expect_neq(dop_tokenizer_find(t, tail, strlen(tail)), DOP_NO_TOKEN);
    dop_buf_finish(&lines);
    dop_tokenizer_destroy(json);
    dop_tokenizer_destroy(t);
    json_decref(vectors);
}

Test(tokenizer, tiktoken_files)
{
    check_tiktoken("cl100k", "tokenizer.json.gz", 100256, "<|endofprompt|>");
    check_tiktoken("o200k", "tokenizer.json.gz", 199998, "<|endoftext|>");
    check_tiktoken("llama-3", "tokenizer.json", 128000, "<|reserved_special_token_246|>");
}

static void
check_model(const char *tokenizer, const char *vectors_path)
{
    if (access(vectors_path, R_OK) != 0)
        cr_skip_test("no shared data");
    dop_tokenizer *t = util_tokenizer(tokenizer);
    json_t *j = util_json(vectors_path), *vectors = json_object_get(j, "vectors");
    cr_assert(json_array_size(vectors) > 5);
    cr_expect_eq(util_check_vectors(t, vectors, tokenizer, DOP_ENCODE_PARSE_SPECIAL), 0);
    dop_tokenizer_destroy(t);
    json_decref(j);
}

Test(tokenizer, demo)
{
    check_model(DOP_SOURCE_DIR "/examples/shakespeare-gemma3/tokenizer.json",
                DOP_SOURCE_DIR "/examples/shakespeare-gemma3/tokenizer_vectors.json");
}

Test(tokenizer, stories260k)
{
    check_model(DOP_SHARED_DIR "/models/stories260k-hf/tokenizer.json",
                DOP_SHARED_DIR "/models/stories260k-hf/tokenizer_vectors.json");
}
