/* The components of tokenizer.json one by one, on a small vocabulary; what is refused and how it is named. */
#include "tests/unit/tokenizer_util.h"
#include "text/import/tokenizer_facts.h"
#include "text/import/tokenizer_json.h"

/* A tokenizer of characters: every ASCII letter and some marks are tokens, "ab", "abc", "\u2581a" and "ab\u2581" are merged. */
static dop_status
make(const char *normalizer, const char *pre, const char *decoder, const char *added, dop_diag *diag,
     dop_tokenizer **out)
{
    dop_buf b = {0};
    dop_buf_printf(&b,
                   "{\"added_tokens\": [%s], \"normalizer\": %s, \"pre_tokenizer\": %s, \"post_processor\": null,"
                   " \"decoder\": %s, \"model\": {\"type\": \"BPE\", \"unk_token\": \"?\", \"fuse_unk\": false,"
                   " \"vocab\": {\"?\": 0, \"\xe2\x96\x81\": 1, \"ab\": 2, \"abc\": 3, \"\xe2\x96\x81"
                   "a\": 4, \"\xc3\xa9\": 5,"
                   " \"-\": 6, \" \": 7, \"1\": 8, \"2\": 9, \".\": 10, \"ab\xe2\x96\x81\": 11",
                   added, normalizer, pre, decoder);
    for (int c = 'a'; c <= 'z'; c++)
        dop_buf_printf(&b, ", \"%c\": %d", c, 100 + c - 'a');
    dop_buf_puts(&b, "}, \"merges\": [\"a b\", [\"ab\", \"c\"], \"\xe2\x96\x81 a\", \"ab \xe2\x96\x81\"]}}");
    dop_status st = dop_tokenizer_from_json("t.json", b.data, b.size, NULL, diag, out);
    dop_buf_finish(&b);
    return st;
}

/* Ids of a text as a string "1 2 3". */
static void
ids_of(const dop_tokenizer *t, const char *text, unsigned flags, dop_buf *out)
{
    dop_ids ids = {0};
    dop_diag diag = {0};
    cr_assert_eq(dop_tokenizer_encode(t, text, strlen(text), flags, &diag, &ids), DOP_OK, "%s", diag.message);
    out->size = 0;
    dop_buf_puts(out, "");
    for (size_t i = 0; i < ids.count; i++)
        dop_buf_printf(out, "%s%u", i ? " " : "", ids.data[i]);
    dop_ids_finish(&ids);
}

#define REGEX(pattern) "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" pattern "\"}, \"behavior\": \"Isolated\"}"
#define WORDS(split)                                      \
    "{\"type\": \"Sequence\", \"pretokenizers\": [" split \
    ", {\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\"}]}"

Test(tokenizer_json, normalizers_and_pre_tokenizers)
{
    static const struct {
        const char *normalizer, *pre, *text, *ids;
    } rows[] = {
        {"null", "null", "abcab", "3 2"},
        {"null", "null", "abXc", "2 0 102"},
        {"{\"type\": \"Lowercase\"}", "null", "ABC", "3"},
        {"{\"type\": \"NFC\"}", "null", "e\xcc\x81", "5"},
        {"{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFD\"}, {\"type\": \"StripAccents\"}]}", "null",
         "\xc3\xa9", "104"},
        {"{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Sequence\", \"normalizers\": [{\"type\": "
         "\"Lowercase\"}]},"
         "{\"type\": \"NFC\"}]}",
         "null", "ABE\xcc\x81", "2 5"},
        {"{\"type\": \"Nmt\"}", "null", "a\x01\tb\xe2\x80\x8b", "100 7 101 7"},
        {"{\"type\": \"StripAccents\"}", "null", "a\xcc\x81\xe0\xa4\xbe", "100"}, /* a nonspacing, a spacing mark */
        {"{\"type\": \"BertNormalizer\"}", "null", "A\x01\tb\xc3\xa9", "100 7 101 104"},
        {"{\"type\": \"BertNormalizer\", \"lowercase\": false, \"clean_text\": false}", "null", "a\xc3\xa9", "100 5"},
        {"{\"type\": \"BertNormalizer\", \"strip_accents\": false}", "null", "\xc3\x89 ", "5 7"},
        {"{\"type\": \"BertNormalizer\"}", "null",
         "a\xe4\xb8\xad"
         "b",
         "100 7 0 7 101"},
        {"{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"\"}", "null", "ab", "2"},
        {"{\"type\": \"NFKC\"}", "null", "\xef\xbd\x81", "100"},
        {"{\"type\": \"Strip\"}", "null", "  a \n", "100"},
        {"{\"type\": \"Strip\", \"strip_left\": false}", "null", " a ", "7 100"},
        {"{\"type\": \"Prepend\", \"prepend\": \"x\"}", "null", "ab", "123 2"},
        {"{\"type\": \"Replace\", \"pattern\": {\"String\": \"q\"}, \"content\": \"ab\"}", "null", "qqc", "2 3"},
        {"{\"type\": \"Replace\", \"pattern\": {\"Regex\": \"[0-9]+\"}, \"content\": \"a\"}", "null", "12b", "2"},
        {"null", "{\"type\": \"Digits\", \"individual_digits\": true}", "ab12", "2 8 9"},
        {"null", "{\"type\": \"Punctuation\"}", "ab.c", "2 10 102"},
        {"null", "{\"type\": \"Whitespace\"}", " ab c ", "2 102"},
        {"null", "{\"type\": \"WhitespaceSplit\"}", "ab. c", "2 10 102"},
        /* words, which a mark begins: joiners are in those of Whitespace, the first numbers above in those of patterns */
        {"null", WORDS("{\"type\": \"Whitespace\"}"),
         "a\xe2\x80\x8c"
         "b\xc2\xb2",
         "4 0 101 1 0"},
        {"null", WORDS("{\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\w+\"}, \"behavior\": \"Isolated\"}"),
         "a\xe2\x80\x8c"
         "b\xc2\xb2",
         "4 1 0 1 101 0"},
        /* Oniguruma's names: symbols are punctuation, \\h is hexadecimal, and marks belong to the words that \\b ends. */
        {"null", WORDS(REGEX("[[:punct:]]")), "a\xe2\x88\x9a", "4 1 0"},
        {"null", WORDS(REGEX("\\\\h")), "az1 a", "4 1 125 1 8 1 4"},
        {"null", WORDS(REGEX("\\\\b")), "a\xcc\x81\xc2\xb2", "4 0 0"},
        {"null", "{\"type\": \"BertPreTokenizer\"}", "ab. c", "2 10 102"},
        {"null", "{\"type\": \"CharDelimiterSplit\", \"delimiter\": \"-\"}", "ab-c", "2 102"},
        {"null", "{\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", \"prepend_scheme\": \"always\"}", "ab a",
         "1 2 4"},
        {"null", "{\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", \"prepend_scheme\": \"never\"}", "ab a",
         "2 4"},
        {"null", "{\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", \"add_prefix_space\": true}", "a", "4"},
        /* only without a split are merges found that cross words */
        {"null", "{\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", \"prepend_scheme\": \"never\"}", "ab c",
         "2 1 102"},
        {"null",
         "{\"type\": \"Metaspace\", \"replacement\": \"\xe2\x96\x81\", \"prepend_scheme\": \"never\", \"split\": "
         "false}",
         "ab c", "11 102"},
        {"null", "{\"type\": \"Split\", \"pattern\": {\"String\": \"b\"}, \"behavior\": \"Isolated\"}", "abc",
         "100 101 102"},
        {"null", "{\"type\": \"Split\", \"pattern\": {\"String\": \"b\"}, \"behavior\": \"Removed\"}", "abc",
         "100 102"},
        {"null", "{\"type\": \"Split\", \"pattern\": {\"String\": \"b\"}, \"behavior\": \"MergedWithPrevious\"}", "abc",
         "2 102"},
        {"null", "{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"MergedWithNext\"}", "xabaa",
         "123 2 100 100"},
        {"null", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[ab]\"}, \"behavior\": \"Contiguous\"}", "abc",
         "2 102"},
        {"null",
         "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[ab]+\"}, \"behavior\": \"Removed\", \"invert\": true}",
         "xab-ab", "2 2"},
        {"null", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(?=b)\"}, \"behavior\": \"Isolated\"}", "abc",
         "100 101 102"},
    };
    dop_buf got = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_diag diag = {0};
        dop_tokenizer *t = NULL;
        cr_assert_eq(make(rows[i].normalizer, rows[i].pre, "null", "", &diag, &t), DOP_OK, "row %zu: %s", i,
                     diag.message);
        ids_of(t, rows[i].text, 0, &got);
        cr_expect_str_eq(got.data, rows[i].ids, "%s %s: %s", rows[i].normalizer, rows[i].pre, rows[i].text);
        dop_tokenizer_destroy(t);
    }
    dop_buf_finish(&got);
}

/* Splits behind ByteLevel, as Falcon has them, see the letters of bytes: of the two of U+00F9 the second is a digit there. */
Test(tokenizer_json, splits_of_letters)
{
    static const char text[] =
        "{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Punctuation\", \"behavior\": "
        "\"Contiguous\"}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, {\"type\": \"Digits\"}, {\"type\": "
        "\"Split\", \"pattern\": {\"Regex\": \"[0-9][0-9][0-9]\"}, \"behavior\": \"Isolated\"}]}, \"decoder\": "
        "{\"type\": "
        "\"ByteLevel\"}, \"model\": {\"type\": \"BPE\", \"vocab\": {\"1\": 1, \"2\": 2, \"3\": 3, \"12\": 4, \"123\": "
        "5, "
        "\"31\": 6, \"\u00c4\u0142\": 7, \"\u0120\": 8, \"\u01201\": 9, \"\u00c3\": 10, \"\u00a9\": 11, \"\u00b9\": "
        "12, "
        "\"\u00c3\u00a9\": 13, \"\u00c3\u00b9\": 14}, \"merges\": [\"1 2\", \"12 3\", \"3 1\", \"\u0120 1\", \"\u00c3 "
        "\u00a9\", \"\u00c3 \u00b9\"]}}";
    static const struct {
        const char *text, *ids;
    } rows[] = {{"12312", "5 4"}, {"3123", "3 4 3"}, {" 12", "8 4"}, {"\xc3\xa9", "13"}, {"\xc3\xb9", "10 12"}};
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    dop_buf got = {0};
    cr_assert_eq(dop_tokenizer_from_json("t.json", text, strlen(text), NULL, &diag, &t), DOP_OK, "%s", diag.message);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ids_of(t, rows[i].text, 0, &got);
        cr_expect_str_eq(got.data, rows[i].ids, "%s: %s", rows[i].text, got.data);
    }
    dop_buf_finish(&got);
    dop_tokenizer_destroy(t);
}

/* Over characters, as the first GPT has it: the last character of a word has a piece of its own. */
Test(tokenizer_json, ends_of_words)
{
    static const char text[] =
        "{\"model\": {\"type\": \"BPE\", \"unk_token\": \"?\", \"end_of_word_suffix\": \"</w>\", \"vocab\": {\"?\": 0, "
        "\"a\": 1, \"b\": 2, \"a</w>\": 3, \"b</w>\": 4, \"ab</w>\": 5, \"ab\": 6, \"\u00e9</w>\": 7}, \"merges\": "
        "[\"a b</w>\", \"a b\"]}, \"pre_tokenizer\": {\"type\": \"WhitespaceSplit\"}, \"decoder\": {\"type\": "
        "\"BPEDecoder\", \"suffix\": \"</w>\"}}";
    static const struct {
        const char *text, *ids;
    } rows[] = {{"ab abab b", "5 6 5 4"},
                {"a\xc3\xa9", "1 7"},
                {"\xc3\xa9"
                 "a",
                 "0 3"},
                {"bx", "2 0"},
                {"", ""}};
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    dop_buf got = {0};
    cr_assert_eq(dop_tokenizer_from_json("t.json", text, strlen(text), NULL, &diag, &t), DOP_OK, "%s", diag.message);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ids_of(t, rows[i].text, 0, &got);
        cr_expect_str_eq(got.data, rows[i].ids, "%s: %s", rows[i].text, got.data);
    }
    const uint32_t ids[] = {5, 6, 4};
    got.size = 0;
    cr_assert_eq(dop_tokenizer_decode(t, ids, 3, 0, &diag, &got), DOP_OK);
    cr_expect(got.size == 7 && memcmp(got.data, "ab abb ", 7) == 0, "%.*s", (int)got.size, got.data);
    dop_buf_finish(&got);
    dop_tokenizer_destroy(t);
}

Test(tokenizer_json, added_tokens)
{
    static const struct {
        const char *options, *text, *ids;
        unsigned flags;
    } rows[] = {
        {"", "ab<x>c", "2 200 102", 0},
        {", \"special\": true", "b<x>", "101 200", DOP_ENCODE_PARSE_SPECIAL},
        {", \"special\": true", "b<x>", "101 0 123 0", 0},
        {", \"lstrip\": true", "a \t<x> a", "100 200 7 100", 0},
        {", \"rstrip\": true",
         "a <x> \xc2\xa0"
         "a",
         "100 7 200 100", 0},
        /* tokens of white space stay tokens behind it */
        {", \"rstrip\": true}, {\"id\": 199, \"content\": \"  \"", "a<x>     b", "100 200 199 199 7 101", 0},
        {", \"rstrip\": true}, {\"id\": 199, \"content\": \"  \", \"lstrip\": true, \"rstrip\": true", "a<x>     b",
         "100 200 101", 0},
        {", \"single_word\": true", "a<x>", "100 0 123 0", 0},
        {", \"single_word\": true", "<x>\xe2\x80\x8d", "0 123 0 0", 0},
        {", \"single_word\": true", "<x> <x>", "200 7 200", 0},
        {", \"normalized\": true", "A<X>", "100 200", 0}, /* found after lower-casing */
        {", \"normalized\": false", "A<X>", "100 0 123 0", 0},
    };
    dop_buf got = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char added[300];
        dop_diag diag = {0};
        dop_tokenizer *t = NULL;
        snprintf(added, sizeof added, "{\"id\": 200, \"content\": \"<x>\"%s}", rows[i].options);
        cr_assert_eq(make("{\"type\": \"Lowercase\"}", "null", "null", added, &diag, &t), DOP_OK, "%s", diag.message);
        ids_of(t, rows[i].text, rows[i].flags, &got);
        cr_expect_str_eq(got.data, rows[i].ids, "%s: %s", rows[i].options, rows[i].text);
        cr_expect_eq(dop_tokenizer_vocab_size(t), 201);
        cr_expect_eq(dop_tokenizer_find(t, "<x>", 3), 200);
        dop_tokenizer_destroy(t);
    }
    dop_buf_finish(&got);
}

Test(tokenizer_json, longest_added_token_wins)
{
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    dop_buf got = {0};
    cr_assert_eq(make("null", "null", "null",
                      "{\"id\": 200, \"content\": \"<x\"}, {\"id\": 201, \"content\": \"<xy>\"}, {\"id\": 202, "
                      "\"content\": \"\\n\"}",
                      &diag, &t),
                 DOP_OK, "%s", diag.message);
    ids_of(t, "<xy<xy><x\n\n", 0, &got);
    cr_expect_str_eq(got.data, "200 124 201 200 202 202");
    dop_buf_finish(&got);
    dop_tokenizer_destroy(t);
}

Test(tokenizer_json, refused)
{
    static const struct {
        const char *normalizer, *pre, *decoder, *added, *message;
    } rows[] = {
        {"{\"type\": \"Precompiled\"}", "null", "null", "", "\"precompiled_charsmap\" is not a string"},
        {"{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"A!\"}", "null", "null", "", "is not valid base64"},
        {"{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAAA\"}", "null", "null", "", "it is too short"},
        {"{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NoSuch\"}]}", "null", "null", "",
         "normalizer \"NoSuch\""},
        {"{\"type\": \"Sequence\"}", "null", "null", "", "no list \"normalizers\""},
        {"{}", "null", "null", "", "normalizer \"(no type)\""},
        {"null", "{\"type\": \"UnicodeScripts\"}", "null", "", "pre-tokenizer \"UnicodeScripts\" is not supported"},
        {"null", "{\"type\": \"Split\", \"behavior\": \"Isolated\"}", "null", "", "has no pattern"},
        {"null", "{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Sideways\"}", "null", "",
         "\"Sideways\""},
        {"null", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(\"}, \"behavior\": \"Isolated\"}", "null", "",
         "regular expression"},
        {"null", "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"[a&&b]\"}, \"behavior\": \"Isolated\"}", "null", "",
         "intersects"},
        {"null", "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"}, {\"type\": \"Metaspace\"}]}",
         "null", "", "\"Metaspace\" after \"ByteLevel\""},
        {"null", "null", "{\"type\": \"WordPiece\"}", "", "supported with a WordPiece model"},
        {"null", "null", "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Fuse\"}, {\"type\": \"ByteFallback\"}]}",
         "", "after \"Fuse\""},
        {"null", "null", "null", "{\"id\": -1, \"content\": \"x\"}", "added token 0 has no id"},
        {"null", "null", "null", "{\"id\": 99999999, \"content\": \"x\"}", "added token 0 has no id"},
        {"null", "null", "null", "{\"id\": 5}", "\"content\" is missing"},
        {"null", "null", "null", "{\"id\": 5, \"content\": \"x\", \"special\": 3}", "\"special\" is not true or false"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_diag diag = {0};
        dop_tokenizer *t = NULL;
        cr_expect_eq(make(rows[i].normalizer, rows[i].pre, rows[i].decoder, rows[i].added, &diag, &t), DOP_E_INPUT,
                     "row %zu", i);
        cr_expect(strstr(diag.message, rows[i].message), "\"%s\" does not say \"%s\"", diag.message, rows[i].message);
        cr_expect_null(t);
    }
}

Test(tokenizer_json, damaged_files)
{
    static const struct {
        const char *text, *message;
        long line;
    } rows[] = {
        {"", "invalid JSON", 1},
        {"{\n \"model\": {,\n}", "invalid JSON", 2},
        {"[]", "no object \"model\"", 0},
        {"{\"model\": {\"type\": \"WordLevel\"}}", "\"WordLevel\" is not supported", 0},
        {"{\"model\": {\"type\": \"Unigram\"}}", "no object \"vocab\"", 0},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": {\"a\": 0}}}", "of a Unigram model is a list", 0},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[1, 2]]}}", "entry 0 of the vocabulary is not", 0},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", \"b\"]]}}", "entry 0 of the vocabulary has no score",
         0},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", -1.0]], \"unk_id\": 1}}", "\"unk_id\" is no token",
         0},
        {"{\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", -1.0]]}, \"pre_tokenizer\": {\"type\": "
         "\"ByteLevel\"}}",
         "\"ByteLevel\" with a model \"Unigram\"", 0},
        {"{\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"a\": 0}}}",
         "unk_token \"[UNK]\" is not in the vocabulary", 0},
        {"{\"model\": {\"type\": \"WordPiece\", \"vocab\": {\"[UNK]\": 0}, \"max_input_chars_per_word\": 0}}",
         "\"max_input_chars_per_word\" must be", 0},
        {"{\"model\": {\"type\": \"BPE\"}}", "no object \"vocab\"", 0},
        {"{\"model\": {\"vocab\": {}}}", "0 tokens", 0},
        {"{\"model\": {\"vocab\": {\"a\": 0}}}", "no list \"merges\"", 0},
        {"{\"model\": {\"vocab\": {\"a\": \"0\"}, \"merges\": []}}", "\"a\" has no id", 0},
        {"{\"model\": {\"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}}", "two tokens have the id 0", 0},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"ab\"]}}", "merge 0 is not a pair", 0},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}}", "\"b\" is not in the vocabulary", 0},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a a\"]}}", "result \"aa\"", 0},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [], \"unk_token\": \"u\"}}", "unk_token \"u\"", 0},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [], \"continuing_subword_prefix\": \"##\"}}",
         "continuing_subword_prefix", 0},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [], \"byte_fallback\": true, \"end_of_word_suffix\": "
         "\"</w>\"}}",
         "\"end_of_word_suffix\" with \"byte_fallback\"", 0},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [], \"end_of_word_suffix\": "
         "\"an end of a word that has far too many letters\"}}",
         "\"end_of_word_suffix\" of so many bytes", 0},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"post_processor\": {\"type\": \"TemplateProcessing\","
         "\"single\": [{\"SpecialToken\": {\"id\": \"<s>\"}}, {\"Sequence\": {}}], \"special_tokens\": {}}}",
         "\"<s>\" is not defined", 0},
        {"{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": []}, \"post_processor\": {\"type\": \"TemplateProcessing\","
         "\"single\": [{\"SpecialToken\": {\"id\": \"s\"}}, {\"Sequence\": {}}], \"special_tokens\": {\"s\": {\"ids\": "
         "[7]}}}}",
         "outside the vocabulary", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_diag diag = {0};
        dop_tokenizer *t = NULL;
        cr_expect_eq(dop_tokenizer_from_json("t.json", rows[i].text, strlen(rows[i].text), NULL, &diag, &t),
                     DOP_E_INPUT);
        cr_expect(strstr(diag.message, rows[i].message), "%s: \"%s\"", rows[i].text, diag.message);
        cr_expect_str_eq(diag.path, "t.json");
        cr_expect(rows[i].line == 0 || diag.line == rows[i].line, "%s: line %ld", rows[i].text, diag.line);
    }
    /* Every cut of a real file. */
    dop_buf b = {0};
    cr_assert(util_read(DOP_SOURCE_DIR "/examples/shakespeare-gemma3/tokenizer.json", &b));
    for (size_t n = 0; n < b.size - 4; n += 997) {
        dop_diag diag = {0};
        dop_tokenizer *t = NULL;
        cr_expect_eq(dop_tokenizer_from_json("t.json", b.data, n, NULL, &diag, &t), DOP_E_INPUT);
        cr_expect(diag.line > 0);
    }
    dop_buf_finish(&b);
}

Test(tokenizer_json, facts_decide_about_bos_and_eos)
{
    static const char text[] =
        "{\"model\": {\"vocab\": {\"a\": 0, \"<s>\": 1, \"</s>\": 2}, \"merges\": []},"
        "\"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\":"
        "{\"id\": \"<s>\"}}, {\"Sequence\": {}}], \"special_tokens\": {\"<s>\": {\"ids\": [1]}}}}";
    static const struct {
        int add_bos, add_eos;
        const char *ids;
    } rows[] = {{-1, -1, "1 0"}, {0, -1, "0"}, {1, -1, "1 0"}, {1, 1, "1 0 2"}, {0, 1, "0 2"}};
    static const int64_t ends[] = {2, 0, 77};
    dop_buf got = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_tokenizer_facts f;
        dop_diag diag = {0};
        dop_tokenizer *t = NULL;
        size_t n;
        dop_tokenizer_facts_init(&f);
        f.add_bos = rows[i].add_bos;
        f.add_eos = rows[i].add_eos;
        f.bos_token = "<s>";
        f.eos_ids = ends;
        f.eos_count = 3; /* the one outside the vocabulary is left out */
        f.chat_template = "{{ x }}";
        cr_assert_eq(dop_tokenizer_from_json("t.json", text, strlen(text), &f, &diag, &t), DOP_OK, "%s", diag.message);
        ids_of(t, "a", DOP_ENCODE_ADD_SPECIAL, &got);
        cr_expect_str_eq(got.data, rows[i].ids);
        const uint32_t *end = dop_tokenizer_end_ids(t, &n);
        cr_expect(n == 2 && end[0] == 0 && end[1] == 2 && dop_tokenizer_eos(t) == 2 && dop_tokenizer_bos(t) == 1);
        const char *chat = dop_tokenizer_chat_template(t, &n);
        cr_expect(chat && n == 7 && memcmp(chat, "{{ x }}", 7) == 0);
        dop_tokenizer_destroy(t);
    }
    dop_buf_finish(&got);
}

/* Tokens that only tokenizer_config.json adds, as transformers does; those of the file itself stay as they are. */
Test(tokenizer_json, tokens_of_the_config_alone)
{
    static const char text[] = "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []},"
                               "\"added_tokens\": [{\"id\": 2, \"content\": \"<x>\", \"special\": true}]}";
    dop_tokenizer_facts f;
    dop_diag diag = {0};
    dop_tokenizer *t = NULL;
    dop_buf got = {0};
    dop_tokenizer_facts_init(&f);
    f.config = json_loads("{\"added_tokens_decoder\": {\"2\": {\"content\": \"<x>\"}, \"5\": {\"content\": \"<y>\", "
                          "\"special\": true}, \"1\": {\"content\": \"b\"}}}",
                          0, NULL);
    cr_assert_eq(dop_tokenizer_from_json("t.json", text, strlen(text), &f, &diag, &t), DOP_OK, "%s", diag.message);
    cr_expect_eq(dop_tokenizer_vocab_size(t), 6);
    ids_of(t, "a<y>b<x>", DOP_ENCODE_PARSE_SPECIAL, &got);
    cr_expect_str_eq(got.data, "0 5 1 2", "%s", got.data);
    cr_expect(dop_tokenizer_is_special(t, 5) && dop_tokenizer_is_special(t, 2) && !dop_tokenizer_is_special(t, 1));
    dop_tokenizer_destroy(t);
    json_decref((json_t *)(uintptr_t)f.config);
    f.config = json_loads("{\"added_tokens_decoder\": {\"-2\": {\"content\": \"<x>\"}}}", 0, NULL);
    cr_expect_eq(dop_tokenizer_from_json("t.json", text, strlen(text), &f, &diag, &t), DOP_E_INPUT);
    cr_expect(strstr(diag.message, "\"-2\" is no token id"), "%s", diag.message);
    json_decref((json_t *)(uintptr_t)f.config);
    dop_buf_finish(&got);
}

/* Long words without a break: quadratic behaviour would show as a test that does not end. */
Test(tokenizer_json, long_words)
{
    dop_tokenizer *t = util_tokenizer(DOP_SOURCE_DIR "/examples/shakespeare-gemma3/tokenizer.json");
    static const char *const units[] = {"a", " ", "the", "\n", "\xe2\x96\x81", "\xf0\x9f\x98\x80"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        dop_buf text = {0}, back = {0};
        dop_ids ids = {0};
        dop_diag diag = {0};
        while (text.size < 1000000)
            dop_buf_puts(&text, units[i]);
        cr_assert_eq(dop_tokenizer_encode(t, text.data, text.size, 0, &diag, &ids), DOP_OK);
        cr_expect(ids.count > 1000);
        dop_tokenizer_decode(t, ids.data, ids.count, 0, &diag, &back);
        if (i != 4) /* U+2581 comes back as a space, as with every such vocabulary */
            cr_expect(back.size == text.size && memcmp(back.data, text.data, text.size) == 0);
        dop_ids_finish(&ids);
        dop_buf_finish(&text);
        dop_buf_finish(&back);
    }
    dop_tokenizer_destroy(t);
}
