/* Token ids against vectors made by other programs. */
#include "tests/unit/tokenizer_util.h"

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
