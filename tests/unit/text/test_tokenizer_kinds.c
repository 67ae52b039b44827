/* Every kind of vocabulary on small definitions of the project's own (tests/tokenizers): encoding, decoding, the binary
 * form, the same vocabulary in other files, damage. */
#include "base/encoding/protobuf.h"
#include "base/format/gguf.h"
#include "tests/unit/tokenizer_util.h"
#include "text/import/tokenizer_gguf.h"
#include "text/import/tokenizer_hf.h"
#include "text/import/tokenizer_json.h"

#define OWN DOP_SOURCE_DIR "/tests/tokenizers/"

static dop_tokenizer *
open_own(const char *name)
{
    char dir[512];
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    snprintf(dir, sizeof dir, "%s%s", OWN, name);
    dop_tokenizer_from_hf_dir(dir, &diag, &t);
    cr_assert(t, "%s: %s", dir, diag.message);
    return t;
}

static json_t *
own_vectors(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s%s/vectors.json", OWN, name);
    return util_json(path);
}

/* Decodes the ids of every vector, without special tokens; returns how many differ. */
static size_t
check_decoded(const dop_tokenizer *t, const json_t *vectors, const char *name)
{
    size_t bad = 0;
    for (size_t i = 0; i < json_array_size(vectors); i++) {
        const json_t *v = json_array_get(vectors, i), *ids = json_object_get(v, "ids");
        const char *want = json_string_value(json_object_get(v, "decoded"));
        dop_text_stream s;
        dop_buf out = {0};
        dop_diag diag = {0};
        dop_text_stream_init(&s, t, DOP_DECODE_SKIP_SPECIAL);
        dop_buf_puts(&out, "");
        for (size_t k = 0; k < json_array_size(ids); k++)
            dop_text_stream_push(&s, (uint32_t)json_integer_value(json_array_get(ids, k)), &diag, &out);
        dop_text_stream_flush(&s, &out);
        if (out.size != json_string_length(json_object_get(v, "decoded")) || memcmp(out.data, want, out.size) != 0) {
            fprintf(stderr, "%s vector %zu decodes to \"%s\", not \"%s\"\n", name, i, out.data, want);
            bad++;
        }
        dop_buf_finish(&out);
    }
    return bad;
}

/* The tokenizer and what its binary form is loaded to. */
static void
check_own(const char *name)
{
    dop_tokenizer *t = open_own(name), *loaded = NULL;
    json_t *vectors = own_vectors(name);
    dop_buf blob = {0};
    dop_diag diag = {0};
    cr_assert(json_array_size(vectors) >= 20);
    cr_expect_eq(util_check_vectors(t, vectors, name, 0), 0);
    cr_expect_eq(check_decoded(t, vectors, name), 0);
    cr_assert_eq(dop_tokenizer_serialize(t, &blob), DOP_OK);
    cr_assert_eq(dop_tokenizer_from_blob(blob.data, blob.size, &diag, &loaded), DOP_OK, "%s", diag.message);
    dop_tokenizer_destroy(t);
    cr_expect_eq(util_check_vectors(loaded, vectors, name, 0), 0);
    cr_expect_eq(check_decoded(loaded, vectors, name), 0);
    dop_tokenizer_destroy(loaded);
    dop_buf_finish(&blob);
    json_decref(vectors);
}

static const char *const names[] = {"unigram", "wordpiece", "wordpiece-cased", "spm-unigram",
                                    "spm-bpe", "tiktoken",  "tekken",          "clip"};
enum { name_count = sizeof names / sizeof *names };

Test(tokenizer_kinds, vectors)
{
    for (size_t i = 0; i < name_count; i++)
        check_own(names[i]);
}

/* ---- the binary form, damaged ---- */

static bool
try_blob(const void *bytes, size_t size)
{
    static const char text[] = "To be <s> [MASK] na\xc3\xafve \xef\xac\x81ne @@ 12\n\n \xe4\xb8\xad unbelievably";
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    dop_ids ids = {0};
    dop_buf out = {0};
    dop_status st = dop_tokenizer_from_blob(bytes, size, &diag, &t);
    if (st != DOP_OK) {
        cr_expect(st == DOP_E_INPUT && diag.message[0] && !t);
        return false;
    }
    dop_tokenizer_encode(t, text, sizeof text - 1, DOP_ENCODE_ADD_SPECIAL | DOP_ENCODE_PARSE_SPECIAL, &diag, &ids);
    for (size_t i = 0; i < ids.count; i++)
        cr_assert(ids.data[i] < dop_tokenizer_vocab_size(t));
    dop_tokenizer_decode(t, ids.data, ids.count, 0, &diag, &out);
    dop_ids_finish(&ids);
    dop_buf_finish(&out);
    dop_tokenizer_destroy(t);
    return true;
}

Test(tokenizer_kinds, damaged_blobs)
{
    for (size_t k = 0; k < name_count; k++) {
        dop_tokenizer *t = open_own(names[k]);
        dop_buf a = {0};
        cr_assert_eq(dop_tokenizer_serialize(t, &a), DOP_OK);
        dop_tokenizer_destroy(t);
        cr_assert(try_blob(a.data, a.size));
        for (size_t n = 0; n < 200; n++)
            cr_expect(!try_blob(a.data, n * a.size / 200), "%s cut to %zu", names[k], n * a.size / 200);
        uint32_t seed = (uint32_t)k + 1;
        for (int m = 0; m < 4000; m++) {
            seed = seed * 1664525u + 1013904223u;
            size_t at = (size_t)(seed >> 4) % (m % 4 ? a.size : 500); /* the header gets its share */
            char old = a.data[at];
            a.data[at] = (char)(seed >> 24);
            try_blob(a.data, a.size);
            a.data[at] = old;
        }
        cr_expect(try_blob(a.data, a.size));
        dop_buf_finish(&a);
    }
}

/* ---- the same vocabularies in GGUF ---- */

static void
put_str(dop_buf *b, const char *s, size_t n)
{
    uint64_t len = n;
    dop_buf_append(b, &len, 8);
    dop_buf_append(b, s, n);
}

static void
put_u32(dop_buf *b, uint32_t v)
{
    dop_buf_append(b, &v, 4);
}

static void
put_key(dop_buf *b, const char *key, uint32_t type)
{
    put_str(b, key, strlen(key));
    put_u32(b, type);
}

static void
put_list(dop_buf *b, const char *key, uint32_t type, uint64_t count)
{
    put_key(b, key, DOP_GGUF_ARRAY);
    put_u32(b, type);
    dop_buf_append(b, &count, 8);
}

static void
put_bool(dop_buf *b, const char *key, bool yes)
{
    put_key(b, key, DOP_GGUF_BOOL);
    dop_buf_append(b, yes ? "\1" : "\0", 1);
}

static void
put_number(dop_buf *b, const char *key, uint32_t v)
{
    put_key(b, key, DOP_GGUF_U32);
    put_u32(b, v);
}

static dop_buf
gguf_head(uint64_t values, const char *model)
{
    dop_buf b = {0};
    uint64_t tensors = 0;
    dop_buf_puts(&b, "GGUF");
    put_u32(&b, 3);
    dop_buf_append(&b, &tensors, 8);
    dop_buf_append(&b, &values, 8);
    put_key(&b, "tokenizer.ggml.model", DOP_GGUF_STRING);
    put_str(&b, model, strlen(model));
    return b;
}

static dop_tokenizer *
load_gguf(dop_buf *b)
{
    dop_gguf g;
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    cr_assert_eq(dop_gguf_open_bytes("mem", b->data, b->size, &diag, &g), DOP_OK, "%s", diag.message);
    dop_tokenizer_from_gguf(&g, &diag, &t);
    cr_assert(t, "%s", diag.message);
    dop_gguf_close(&g);
    dop_buf_finish(b);
    return t;
}

/* As converters write BERT: words get U+2581 in front, pieces that go on lose their "##". */
Test(tokenizer_kinds, bert_in_gguf)
{
    json_t *root = util_json(OWN "wordpiece/tokenizer.json");
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab"), *v;
    size_t n = json_object_size(vocab);
    const char **text = calloc(n, sizeof *text), *key;
    dop_buf b = gguf_head(6, "bert");
    json_object_foreach(vocab, key, v) text[json_integer_value(v)] = key;
    put_list(&b, "tokenizer.ggml.tokens", DOP_GGUF_STRING, n);
    for (size_t i = 0; i < n; i++) {
        char piece[128];
        bool goes_on = strncmp(text[i], "##", 2) == 0, special = i < 5;
        snprintf(piece, sizeof piece, "%s%s", goes_on || special ? "" : "\xe2\x96\x81", text[i] + (goes_on ? 2 : 0));
        put_str(&b, piece, strlen(piece));
    }
    put_list(&b, "tokenizer.ggml.token_type", DOP_GGUF_I32, n);
    for (size_t i = 0; i < n; i++)
        put_u32(&b, i < 5 ? 3 : 1);
    put_number(&b, "tokenizer.ggml.bos_token_id", 2);
    put_number(&b, "tokenizer.ggml.seperator_token_id", 3);
    put_number(&b, "tokenizer.ggml.unknown_token_id", 1);
    dop_tokenizer *t = load_gguf(&b);
    json_t *vectors = own_vectors("wordpiece");
    /* llama.cpp has no longest word: the one vector with 130 letters stays out. */
    for (size_t i = json_array_size(vectors); i-- > 0;)
        if (strncmp(json_string_value(json_object_get(json_array_get(vectors, i), "text")), "xxxx", 4) == 0)
            json_array_remove(vectors, i);
    cr_assert(json_array_size(vectors) >= 20);
    cr_expect_eq(util_check_vectors(t, vectors, "bert in GGUF", 0), 0);
    static const uint32_t ids[] = {2, 1, 3};
    dop_buf out = {0};
    dop_diag diag = {0};
    cr_assert_eq(dop_tokenizer_decode(t, ids, 3, DOP_DECODE_SKIP_SPECIAL, &diag, &out), DOP_OK);
    dop_buf_finish(&out);
    dop_tokenizer_destroy(t);
    json_decref(vectors);
    json_decref(root);
    free(text);
}

/* What a SentencePiece model holds, written as converters write T5: types have the same numbers. */
Test(tokenizer_kinds, t5_in_gguf)
{
    enum { keys = 10 };
    dop_buf model = {0}, tokens = {0}, scores = {0}, types = {0}, b = gguf_head(keys, "t5");
    cr_assert(util_read(OWN "spm-unigram/tokenizer.model", &model));
    dop_pb pb = dop_pb_of(model.data, model.size), map = {0};
    dop_pb_field f;
    uint64_t n = 0;
    while (dop_pb_next(&pb, &f)) {
        dop_pb in = dop_pb_of(f.data, f.len);
        dop_pb_field g;
        uint32_t type = 1;
        while (f.number == 1 && dop_pb_next(&in, &g)) {
            if (g.number == 1)
                put_str(&tokens, (const char *)g.data, g.len);
            else if (g.number == 2)
                put_u32(&scores, (uint32_t)g.value);
            else
                type = (uint32_t)g.value;
        }
        if (f.number == 1) {
            put_u32(&types, type);
            n++;
        }
        while (f.number == 3 && dop_pb_next(&in, &g))
            if (g.number == 2)
                map = dop_pb_of(g.data, g.len);
    }
    size_t map_size = (size_t)(map.end - map.at);
    cr_assert(n == 320 && map_size > 500);
    put_list(&b, "tokenizer.ggml.tokens", DOP_GGUF_STRING, n), dop_buf_append(&b, tokens.data, tokens.size);
    put_list(&b, "tokenizer.ggml.scores", DOP_GGUF_F32, n), dop_buf_append(&b, scores.data, scores.size);
    put_list(&b, "tokenizer.ggml.token_type", DOP_GGUF_I32, n), dop_buf_append(&b, types.data, types.size);
    put_list(&b, "tokenizer.ggml.precompiled_charsmap", DOP_GGUF_I8, map_size), dop_buf_append(&b, map.at, map_size);
    put_number(&b, "tokenizer.ggml.unknown_token_id", 0);
    put_number(&b, "tokenizer.ggml.eos_token_id", 2);
    put_bool(&b, "tokenizer.ggml.add_eos_token", true);
    put_bool(&b, "tokenizer.ggml.add_space_prefix", true);
    put_bool(&b, "tokenizer.ggml.remove_extra_whitespaces", true);
    dop_tokenizer *t = load_gguf(&b);
    json_t *vectors = own_vectors("spm-unigram");
    /* llama.cpp cuts user-defined tokens out of the text before it puts a space in front. */
    for (size_t i = json_array_size(vectors); i-- > 0;)
        if (strstr(json_string_value(json_object_get(json_array_get(vectors, i), "text")), "<mask>"))
            json_array_remove(vectors, i);
    cr_assert(json_array_size(vectors) >= 18);
    cr_expect_eq(util_check_vectors(t, vectors, "t5 in GGUF", 0), 0);
    dop_ids ids = {0};
    dop_diag diag = {0};
    cr_assert_eq(dop_tokenizer_encode(t, "so", 2, DOP_ENCODE_ADD_SPECIAL, &diag, &ids), DOP_OK);
    cr_expect(ids.count >= 2 && ids.data[ids.count - 1] == 2 && dop_tokenizer_eos(t) == 2);
    dop_ids_finish(&ids);
    dop_tokenizer_destroy(t);
    json_decref(vectors);
    dop_buf_finish(&model);
    dop_buf_finish(&tokens);
    dop_buf_finish(&scores);
    dop_buf_finish(&types);
}

/* ---- what stands beside the file ---- */

static void
write_file(const char *dir, const char *name, const void *bytes, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0, "%s", path);
}

static void
remove_files(const char *dir)
{
    static const char *const files[] = {"tokenizer.model", "tokenizer_config.json", "added_tokens.json", "b.tiktoken",
                                        "a.tiktoken",      "tekken.json",           "vocab.json",        "merges.txt"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", dir, files[i]);
        unlink(path);
    }
    rmdir(dir);
}

/* A model file with a config: the class's BOS, added tokens of the older and of the newer form. */
Test(tokenizer_kinds, config_beside_a_model)
{
    static const char added[] = "{\"<|im_end|>\": 481, \"<|plain|>\": 482}";
    static const char *const configs[] = {
        "{\"tokenizer_class\": \"LlamaTokenizer\", \"eos_token\": \"<|im_end|>\"}",
        "{\"add_bos_token\": true, \"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"<|im_end|>\"},"
        " \"added_tokens_decoder\": {\"481\": {\"content\": \"<|im_end|>\", \"special\": true},"
        " \"482\": {\"content\": \"<|plain|>\", \"special\": false}}}",
    };
    dop_buf model = {0};
    cr_assert(util_read(OWN "spm-bpe/tokenizer.model", &model));
    for (size_t k = 0; k < 2; k++) {
        char dir[] = "/tmp/doppler-kinds-XXXXXX";
        dop_diag diag = {0};
        dop_tokenizer *t = NULL;
        dop_ids ids = {0};
        dop_buf out = {0};
        static const char text[] = "so<|plain|><|im_end|>";
        cr_assert(mkdtemp(dir));
        write_file(dir, "tokenizer.model", model.data, model.size);
        write_file(dir, "tokenizer_config.json", configs[k], strlen(configs[k]));
        if (k == 0)
            write_file(dir, "added_tokens.json", added, sizeof added - 1);
        dop_tokenizer_from_hf_dir(dir, &diag, &t);
        cr_assert(t, "%s", diag.message);
        cr_expect_eq(dop_tokenizer_vocab_size(t), 483);
        cr_expect(dop_tokenizer_is_end(t, 481) && dop_tokenizer_is_special(t, 481) &&
                  !dop_tokenizer_is_special(t, 482));
        cr_assert_eq(dop_tokenizer_encode(t, text, sizeof text - 1, DOP_ENCODE_ADD_SPECIAL | DOP_ENCODE_PARSE_SPECIAL,
                                          &diag, &ids),
                     DOP_OK);
        cr_assert(ids.count >= 4);
        cr_expect(ids.data[0] == 1 && ids.data[ids.count - 2] == 482 && ids.data[ids.count - 1] == 481);
        ids.count = 0;
        cr_assert_eq(dop_tokenizer_encode(t, text, sizeof text - 1, 0, &diag, &ids), DOP_OK);
        cr_expect_neq(ids.data[ids.count - 1], 481); /* special text is plain text unless it is asked for */
        cr_assert_eq(dop_tokenizer_decode(t, ids.data, ids.count, 0, &diag, &out), DOP_OK);
        cr_expect_str_eq(out.data, text);
        dop_ids_finish(&ids);
        dop_buf_finish(&out);
        dop_tokenizer_destroy(t);
        remove_files(dir);
    }
    dop_buf_finish(&model);
}

/* vocab.json and merges.txt alone: tokenizer_class says how words are cut, and what stands at the ends of texts. */
Test(tokenizer_kinds, merges_by_class)
{
    static const char vocab[] =
        "{\"<s>\": 0, \"</s>\": 1, \"a\": 2, \"b\": 3, \"ab\": 4, \"1\": 5, \"2\": 6, \"12\": 7}",
                      merges[] = "#version: 0.2\na b\n1 2\n", text[] = "ab12<|im_end|>";
    static const struct {
        const char *config, *ids;
    } rows[] = {
        {"{\"added_tokens_decoder\": {\"9\": {\"content\": \"<|im_end|>\", \"special\": true}}}", "4 7 9"},
        {"{\"tokenizer_class\": \"Qwen2Tokenizer\", \"added_tokens_decoder\": {\"9\": {\"content\": \"<|im_end|>\"}}}",
         "4 5 6 9"},
        {"{\"tokenizer_class\": \"RobertaTokenizer\", \"added_tokens_decoder\": {\"9\": {\"content\": "
         "\"<|im_end|>\"}}}",
         "0 4 7 9 1"},
        {"{\"tokenizer_class\": \"GPT2Tokenizer\", \"bos_token\": \"</s>\", \"add_bos_token\": true, "
         "\"added_tokens_decoder\": "
         "{\"9\": {\"content\": \"<|im_end|>\"}}}",
         "1 4 7 9"}, /* OPT */
    };
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        char dir[] = "/tmp/doppler-kinds-XXXXXX";
        dop_diag diag = {0};
        dop_tokenizer *t = NULL;
        dop_ids ids = {0};
        dop_buf got = {0};
        cr_assert(mkdtemp(dir));
        write_file(dir, "vocab.json", vocab, sizeof vocab - 1);
        write_file(dir, "merges.txt", merges, sizeof merges - 1);
        write_file(dir, "tokenizer_config.json", rows[k].config, strlen(rows[k].config));
        dop_tokenizer_from_hf_dir(dir, &diag, &t);
        cr_assert(t, "%s", diag.message);
        cr_assert_eq(dop_tokenizer_encode(t, text, sizeof text - 1, DOP_ENCODE_ADD_SPECIAL | DOP_ENCODE_PARSE_SPECIAL,
                                          &diag, &ids),
                     DOP_OK);
        for (size_t i = 0; i < ids.count; i++)
            dop_buf_printf(&got, "%s%u", i ? " " : "", ids.data[i]);
        cr_expect_str_eq(got.data, rows[k].ids, "%s: %s", rows[k].config, got.data);
        dop_ids_finish(&ids);
        dop_buf_finish(&got);
        dop_tokenizer_destroy(t);
        remove_files(dir);
    }
}

/* Which file of a directory counts. */
Test(tokenizer_kinds, first_of_several_files)
{
    static const char *const order[] = {"tekken.json", "b.tiktoken", "a.tiktoken", "tokenizer.model"};
    char dir[] = "/tmp/doppler-kinds-XXXXXX", want[128];
    dop_buf path = {0};
    cr_assert(mkdtemp(dir));
    cr_expect(!dop_tokenizer_find_file(dir, &path));
    snprintf(want, sizeof want, "%s/tokenizer.json", dir);
    cr_expect_str_eq(path.data, want);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        write_file(dir, order[i], "x", 1);
        path.size = 0;
        cr_expect(dop_tokenizer_find_file(dir, &path));
        snprintf(want, sizeof want, "%s/%s", dir, order[i]);
        cr_expect_str_eq(path.data, want);
    }
    dop_buf_finish(&path);
    remove_files(dir);
}

/* ---- refused files ---- */

static void
expect_refused(const void *bytes, size_t n, const char *part)
{
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    cr_expect_eq(dop_tokenizer_from_bytes("file", bytes, n, NULL, &diag, &t), DOP_E_INPUT);
    cr_expect(strstr(diag.message, part), "\"%s\" does not say \"%s\"", diag.message, part);
    cr_expect_str_eq(diag.path, "file");
    cr_expect_null(t);
}

Test(tokenizer_kinds, refused_files)
{
    static const struct {
        const char *bytes, *message;
    } rows[] = {
        {"QQ== 0\nQg==\n", "line 2 is not a token in base64"},
        {"QQ== 0\n", "1 ranks are no vocabulary that is known"},
        {"QQ== 99999999\n", "is too large"},
        {"QQ== 0\nQg== x\n", "line 2"},
        {"{\"config\": {}, \"vocab\": []}", "\"default_vocab_size\" is not a number"},
        {"{\"config\": {\"default_vocab_size\": 2, \"default_num_special_tokens\": 1}, \"vocab\": []}", "\"pattern\""},
        {"{\"config\": {\"default_vocab_size\": 2, \"default_num_special_tokens\": 3, \"pattern\": \"a\"}, \"vocab\": "
         "[]}",
         "more special tokens than tokens"},
        {"{\"config\": {\"default_vocab_size\": 2, \"default_num_special_tokens\": 1, \"pattern\": \"a\"}, \"vocab\": "
         "[{}]}",
         "entry 0 of the vocabulary has no rank"},
        {"{\"config\": {\"default_vocab_size\": 2, \"default_num_special_tokens\": 1, \"pattern\": \"a\"}, \"vocab\": "
         "[{\"rank\": 0, \"token_bytes\": \"AAAAA\"}]}",
         "not valid base64"},
        {"{\"config\": {\"default_vocab_size\": 2, \"default_num_special_tokens\": 1, \"pattern\": \"a\"}, \"vocab\": "
         "[{\"rank\": 0, \"token_bytes\": \"QQ==\"}]}",
         "no token is the single byte 0x00"},
        {"\n\1", "not a SentencePiece model, or a damaged one"},
        {"\n\5\n\3<u>", "no piece is of type unknown"},
        {"\n\5\n\3\xff\xff\xff", "not valid UTF-8"},
        {"\n\7\n\3<u>\x18\2\n\7\n\3<v>\x18\2", "both of type unknown"},
        {"\n\7\n\3<u>\x18\2\n\7\n\3<v>\x18\6", "does not name one"},
        {"\n\7\n\3<u>\x18\2\n\7\n\3<v>\x18\7", "unknown type 7"},
        {"\n\7\n\3<u>\x18\2\x12\2\x18\3", "of type 3 is not supported"},
        {"\n\7\n\3<u>\x18\2\x12\3\x98\2\1", "there is no piece <0x00>"},
        {"\n\7\n\3<u>\x18\2\x1a\6\x12\4zzzz", "the precompiled charsmap is damaged"},
        {"\n\7\n\3<u>\x18\2*\3\x12\1z", "denormalizer_spec"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_refused(rows[i].bytes, strlen(rows[i].bytes), rows[i].message);
    /* Every cut and many single damages of a model file. */
    dop_buf b = {0};
    cr_assert(util_read(OWN "spm-unigram/tokenizer.model", &b));
    for (size_t n = 0; n < b.size; n += 7) {
        dop_diag diag = {0};
        dop_tokenizer *t = NULL;
        dop_status st = dop_tokenizer_from_bytes("file", b.data, n, NULL, &diag, &t);
        cr_expect(st == DOP_OK || (st == DOP_E_INPUT && diag.message[0]));
        dop_tokenizer_destroy(t);
        char old = b.data[n];
        b.data[n] = (char)(old ^ (1 << n % 8));
        t = NULL;
        st = dop_tokenizer_from_bytes("file", b.data, b.size, NULL, &diag, &t);
        cr_expect(st == DOP_OK || (st == DOP_E_INPUT && diag.message[0]));
        dop_tokenizer_destroy(t);
        b.data[n] = old;
    }
    dop_buf_finish(&b);
}

/* ---- bounds ---- */

/* A definition that doubles the text again and again is stopped, not followed. */
Test(tokenizer_kinds, normalizers_cannot_explode)
{
    dop_buf json = {0};
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    dop_ids ids = {0};
    dop_buf_puts(&json, "{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [");
    for (int i = 0; i < 40; i++)
        dop_buf_printf(&json, "%s{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aa\"}",
                       i ? ", " : "");
    dop_buf_puts(&json, "]}, \"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}");
    cr_assert_eq(dop_tokenizer_from_json("t", json.data, json.size, NULL, &diag, &t), DOP_OK, "%s", diag.message);
    cr_expect_eq(dop_tokenizer_encode(t, "aaaa", 4, 0, &diag, &ids), DOP_E_INPUT);
    cr_expect(strstr(diag.message, "lengthens the text too much"), "%s", diag.message);
    dop_ids_finish(&ids);
    dop_tokenizer_destroy(t);
    dop_buf_finish(&json);
}

/* A megabyte in one word. */
Test(tokenizer_kinds, long_words)
{
    enum { n = 1 << 20 };
    char *text = malloc(n);
    for (size_t i = 0; i < n; i++)
        text[i] = "abracadabra"[i % 11];
    for (size_t k = 0; k < name_count; k++) {
        dop_tokenizer *t = open_own(names[k]);
        dop_ids ids = {0};
        dop_diag diag = {0};
        cr_assert_eq(dop_tokenizer_encode(t, text, n, 0, &diag, &ids), DOP_OK, "%s", diag.message);
        cr_expect(ids.count >= 1);
        dop_ids_finish(&ids);
        dop_tokenizer_destroy(t);
    }
    free(text);
}
