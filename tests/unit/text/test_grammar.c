/* Grammars and schemas of tests/grammar/corpus.json: every text that random picks among the allowed tokens make is valid, as
 * an independent reading of the schema, or a regular expression, says; and what is refused says why. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tests/unit/grammar_util.h"
#include "text/import/tokenizer_hf.h"

#include "runtime/sample/sampling.h"
#include "text/grammar/grammar.h"
#include "text/schema/validate.h"

#include <math.h>
#include <pcre2.h>

enum { SAMPLES = 20, MOST_TOKENS = 3000 };

static dop_tokenizer *tok;
static dop_vocab *vocab;
static json_t *corpus;
static uint32_t n_vocab;
static bool *closes; /* [n_vocab]: the token ends a text, or something in it */

static void
open_all(void)
{
    size_t n_ends;
    cr_assert_eq(dop_tokenizer_from_hf_dir(DOP_SOURCE_DIR "/examples/shakespeare-gemma3", NULL, &tok), DOP_OK);
    n_vocab = dop_tokenizer_vocab_size(tok);
    const uint32_t *ends = dop_tokenizer_end_ids(tok, &n_ends);
    cr_assert_eq(dop_vocab_create(tok, n_vocab, ends, n_ends, NULL, &vocab), DOP_OK);
    closes = calloc(n_vocab, sizeof *closes);
    cr_assert(closes);
    for (uint32_t id = 0; id < n_vocab; id++) {
        size_t n = 0;
        const char *piece = dop_tokenizer_piece(tok, id, &n);
        closes[id] = dop_tokenizer_is_end(tok, id);
        for (size_t i = 0; i < n; i++)
            closes[id] |= piece[i] && strchr("\"]})<", piece[i]) != NULL;
    }
    corpus = util_json(DOP_SOURCE_DIR "/tests/grammar/corpus.json");
}

static void
close_all(void)
{
    json_decref(corpus);
    free(closes);
    dop_vocab_destroy(vocab);
    dop_tokenizer_destroy(tok);
}

TestSuite(grammar, .init = open_all, .fini = close_all);

/* --- an independent reading of schemas -------------------------------------------------------------------------------------- */

static bool
finds(const char *pattern, const char *text, size_t n, bool whole)
{
    int error;
    size_t offset;
    dop_buf all = {0};
    dop_buf_printf(&all, whole ? "\\A(?:%s)\\z" : "%s", pattern);
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)all.data, all.size, PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | PCRE2_ALT_BSUX,
                                   &error, &offset, NULL);
    cr_assert(re, "%s: PCRE2 error %d at %zu", pattern, error, offset);
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(re, NULL);
    bool found = pcre2_match(re, (PCRE2_SPTR)text, n, 0, 0, data, NULL) >= 0;
    pcre2_match_data_free(data);
    pcre2_code_free(re);
    dop_buf_finish(&all);
    return found;
}

static size_t
characters(const char *s, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((unsigned char)s[i] & 0xc0) != 0x80;
    return count;
}

static bool
has_format(const char *format, const char *s)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int y, m, d, n = 0, h, min, sec;
    unsigned a, b, c, e;
    if (strcmp(format, "date") == 0 || strcmp(format, "date-time") == 0) {
        if (sscanf(s, "%4d-%2d-%2d%n", &y, &m, &d, &n) != 3 || n != 10 || m < 1 || m > 12 || d < 1 ||
            d > days[m - 1] + (m == 2 && y % 4 == 0 && (y % 100 != 0 || y % 400 == 0)))
            return false;
        if (strcmp(format, "date") == 0)
            return !s[n];
        if (s[n++] != 'T')
            return false;
        s += n;
    } else if (strcmp(format, "ipv4") == 0) {
        return sscanf(s, "%3u.%3u.%3u.%3u%n", &a, &b, &c, &e, &n) == 4 && !s[n] && a < 256 && b < 256 && c < 256 &&
               e < 256;
    } else if (strcmp(format, "uuid") == 0) {
        return finds("^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$", s, strlen(s), false);
    } else if (strcmp(format, "email") == 0) {
        return finds("^[^@. ]+(\\.[^@. ]+)*@[A-Za-z0-9-]+(\\.[A-Za-z0-9-]+)+$", s, strlen(s), false);
    }
    n = 0;
    return sscanf(s, "%2d:%2d:%2d%n", &h, &min, &sec, &n) == 3 && n == 8 && h < 24 && min < 60 && sec < 60 &&
           finds("^(\\.\\d+)?(Z|[+-]\\d\\d:\\d\\d)$", s + n, strlen(s + n), false);
}

static bool valid(const json_t *root, const json_t *schema, const json_t *v);

static bool
has_type(const char *type, const json_t *v)
{
    return (strcmp(type, "null") == 0 && json_is_null(v)) || (strcmp(type, "boolean") == 0 && json_is_boolean(v)) ||
           (strcmp(type, "integer") == 0 && json_is_integer(v)) || (strcmp(type, "number") == 0 && json_is_number(v)) ||
           (strcmp(type, "string") == 0 && json_is_string(v)) || (strcmp(type, "array") == 0 && json_is_array(v)) ||
           (strcmp(type, "object") == 0 && json_is_object(v));
}

static bool
valid_scalar(const json_t *schema, const json_t *v)
{
    const json_t *k;
    double x = json_number_value(v);
    if (json_is_number(v)) {
        if (((k = json_object_get(schema, "minimum")) && x < json_number_value(k)) ||
            ((k = json_object_get(schema, "maximum")) && x > json_number_value(k)) ||
            ((k = json_object_get(schema, "exclusiveMinimum")) && x <= json_number_value(k)) ||
            ((k = json_object_get(schema, "exclusiveMaximum")) && x >= json_number_value(k)))
            return false;
    } else if (json_is_string(v)) {
        size_t n = json_string_length(v), length = characters(json_string_value(v), n);
        if (((k = json_object_get(schema, "minLength")) && length < (size_t)json_integer_value(k)) ||
            ((k = json_object_get(schema, "maxLength")) && length > (size_t)json_integer_value(k)) ||
            ((k = json_object_get(schema, "pattern")) &&
             !finds(json_string_value(k), json_string_value(v), n, false)) ||
            ((k = json_object_get(schema, "format")) && !has_format(json_string_value(k), json_string_value(v))))
            return false;
    }
    return true;
}

static bool
valid_array(const json_t *root, const json_t *schema, const json_t *v)
{
    const json_t *k, *prefix = json_object_get(schema, "prefixItems"), *items = json_object_get(schema, "items");
    size_t n = json_array_size(v);
    if (((k = json_object_get(schema, "minItems")) && n < (size_t)json_integer_value(k)) ||
        ((k = json_object_get(schema, "maxItems")) && n > (size_t)json_integer_value(k)))
        return false;
    for (size_t i = 0; i < n; i++) {
        const json_t *of = i < json_array_size(prefix) ? json_array_get(prefix, i) : items;
        if (of && !valid(root, of, json_array_get(v, i)))
            return false;
    }
    return true;
}

static bool
valid_object(const json_t *root, const json_t *schema, const json_t *v)
{
    const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
    const json_t *others = json_object_get(schema, "additionalProperties");
    const char *key;
    json_t *member;
    for (size_t i = 0; i < json_array_size(required); i++)
        if (!json_object_get(v, json_string_value(json_array_get(required, i))))
            return false;
    json_object_foreach((json_t *)(uintptr_t)v, key, member)
    {
        const json_t *of = json_object_get(properties, key);
        if (!of)
            of = others;
        if (of && !valid(root, of, member))
            return false;
    }
    return true;
}

static const json_t *
follow(const json_t *root, const char *ref)
{
    char copy[200], *save = NULL;
    snprintf(copy, sizeof copy, "%s", ref + 1);
    for (char *part = strtok_r(copy, "/", &save); part; part = strtok_r(NULL, "/", &save))
        root = json_object_get(root, part);
    return root;
}

static bool
valid(const json_t *root, const json_t *schema, const json_t *v)
{
    const json_t *k;
    size_t count = 0;
    if (json_is_boolean(schema))
        return json_is_true(schema);
    if ((k = json_object_get(schema, "$ref")) && !valid(root, follow(root, json_string_value(k)), v))
        return false;
    if ((k = json_object_get(schema, "const")) && !json_equal(k, v))
        return false;
    if ((k = json_object_get(schema, "enum"))) {
        for (size_t i = 0; i < json_array_size(k); i++)
            count += json_equal(json_array_get(k, i), v) != 0;
        if (count == 0)
            return false;
    }
    static const char *const lists[] = {"anyOf", "oneOf", "allOf"};
    for (size_t l = 0; l < 3; l++) {
        count = 0;
        if (!(k = json_object_get(schema, lists[l])))
            continue;
        for (size_t i = 0; i < json_array_size(k); i++)
            count += valid(root, json_array_get(k, i), v);
        if (l == 0 ? count == 0 : l == 1 ? count != 1 : count != json_array_size(k))
            return false;
    }
    if ((k = json_object_get(schema, "type"))) {
        bool has = json_is_string(k) && has_type(json_string_value(k), v);
        for (size_t i = 0; i < json_array_size(k); i++)
            has |= has_type(json_string_value(json_array_get(k, i)), v);
        if (!has)
            return false;
    }
    return valid_scalar(schema, v) && (!json_is_array(v) || valid_array(root, schema, v)) &&
           (!json_is_object(v) || valid_object(root, schema, v));
}

/* --- sampling ------------------------------------------------------------------------------------------------------------------ */

/* Random logits, with more weight, as a text gets longer, on what ends strings, lists and texts, so that these end. */
static void
make_logits(uint64_t *rng, uint32_t n_written, float *logits)
{
    float more = n_written < 8 ? -2 : n_written < 40 ? 0.2f * (float)n_written : 8;
    for (uint32_t id = 0; id < n_vocab; id += 4) {
        *rng ^= *rng << 13; /* xorshift64 (Marsaglia 2003) */
        *rng ^= *rng >> 7;
        *rng ^= *rng << 17;
        uint64_t bits = *rng;
        for (uint32_t k = id; k < id + 4 && k < n_vocab; k++, bits >>= 16)
            logits[k] = (float)(bits & 0xffff) * 0x1p-13f + (closes[k] ? more : 0);
    }
}

/* A text by picks among what the grammar allows; false: it did not end. */
static bool
write_text(dop_grammar *grammar, uint64_t seed, dop_buf *out)
{
    dop_matcher *m;
    dop_sampler sampler;
    dop_diag diag = {0};
    dop_ids ids = {0};
    float *logits = malloc(n_vocab * sizeof *logits);
    bool ended = false;
    cr_assert_eq(dop_matcher_create(grammar, &diag, &m), DOP_OK, "%s", diag.message);
    cr_assert(logits);
    cr_assert_eq(dop_sampler_init(&sampler, n_vocab, NULL), DOP_OK);
    sampler.params = (dop_sampling){.temperature = 1, .top_p = 1, .repeat_penalty = 1, .seed = seed};
    uint64_t rng = seed + 1;
    for (uint32_t i = 0; i < MOST_TOKENS && !ended; i++) {
        make_logits(&rng, i, logits);
        cr_assert_eq(dop_matcher_apply(m, logits, n_vocab, &diag), DOP_OK, "%s after \"%s\"", diag.message,
                     out->data ? out->data : "");
        uint32_t id = dop_sampler_pick(&sampler, logits, NULL, i, NULL);
        cr_assert_eq(dop_matcher_accept(m, id, &diag), DOP_OK, "%s", diag.message);
        ended = dop_tokenizer_is_end(tok, id);
        if (!ended) {
            dop_ids_push(&ids, id);
            size_t n;
            const char *piece = dop_tokenizer_piece(tok, id, &n);
            dop_buf_append(out, piece, n);
        }
    }
    cr_assert(!ended || dop_matcher_must_end(m));
    dop_buf text = {0}; /* what the pieces make is what the ids decode to */
    cr_assert_eq(
        dop_tokenizer_decode(tok, ids.data, ids.count, DOP_DECODE_SKIP_SPECIAL | DOP_DECODE_CONTINUE, NULL, &text),
        DOP_OK);
    cr_assert(!ended || (text.size == out->size && (text.size == 0 || memcmp(text.data, out->data, text.size) == 0)));
    dop_buf_finish(&text);
    dop_ids_finish(&ids);
    free(logits);
    dop_sampler_finish(&sampler);
    dop_matcher_destroy(m);
    return ended;
}

Test(grammar, schemas)
{
    size_t i, n_valid = 0;
    json_t *schema;
    dop_grammar_costs all = {0};
    json_array_foreach(json_object_get(corpus, "schemas"), i, schema)
    {
        dop_grammar *g;
        dop_diag diag = {0};
        char *shown = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
        cr_assert_eq(dop_grammar_from_schema(vocab, schema, NULL, NULL, 0, NULL, &diag, &g), DOP_OK, "%s: %s", shown,
                     diag.message);
        for (uint64_t k = 0; k < SAMPLES; k++) {
            dop_buf text = {0};
            bool ended = write_text(g, i * 100 + k, &text);
            cr_assert(ended, "%s: does not end: %.300s", shown, text.data);
            json_error_t error;
            json_t *v = json_loadb(text.data ? text.data : "", text.size, JSON_DECODE_ANY, &error);
            cr_assert(v, "%s: no JSON (%s): %s", shown, error.text, text.data ? text.data : "");
            cr_assert(valid(schema, schema, v), "%s: not valid: %s", shown, text.data);
            json_decref(v);
            dop_buf_finish(&text);
            n_valid++;
        }
        dop_grammar_costs c = dop_grammar_cost(g);
        all.masks_made += c.masks_made;
        all.masks_found += c.masks_found;
        all.walk_ms += c.walk_ms;
        dop_grammar_release(g);
        free(shown);
    }
    cr_assert_geq(i, 60);
    cr_assert_eq(n_valid, i * SAMPLES);
    cr_log_info("%zu texts; masks: %llu made in %.3f ms each, %llu found\n", n_valid,
                (unsigned long long)all.masks_made, all.walk_ms / (double)all.masks_made,
                (unsigned long long)all.masks_found);
}

/* Is there white space between the tokens of a JSON text? */
static bool
has_blanks(const dop_buf *text)
{
    bool quoted = false;
    for (size_t i = 0; i < text->size; i++) {
        const char c = text->data[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        else if (!quoted && strchr(" \n\t\r", c))
            return true;
    }
    return false;
}

/* With DOP_SCHEMA_COMPACT, and within the part {"compact"}, JSON has no white space between its tokens; otherwise it may. */
Test(grammar, compact)
{
    size_t i, n_blank = 0;
    json_t *schema;
    json_array_foreach(json_object_get(corpus, "schemas"), i, schema)
    {
        dop_grammar *g[3];
        json_t *parts = json_pack("{s:{s:O}}", "compact", "schema", schema);
        if (i % 4 != 0) {
            json_decref(parts);
            continue;
        }
        cr_assert_eq(dop_grammar_from_schema(vocab, schema, NULL, NULL, DOP_SCHEMA_COMPACT, NULL, NULL, &g[0]), DOP_OK);
        cr_assert_eq(dop_grammar_from_parts(vocab, parts, NULL, NULL, &g[1]), DOP_OK);
        cr_assert_eq(dop_grammar_from_schema(vocab, schema, NULL, NULL, 0, NULL, NULL, &g[2]), DOP_OK);
        for (size_t k = 0; k < 3; k++) {
            dop_buf text = {0};
            cr_assert(write_text(g[k], i * 100 + k, &text));
            cr_assert(k == 2 || !has_blanks(&text), "%s", text.data);
            n_blank += k == 2 && has_blanks(&text);
            dop_buf_finish(&text);
            dop_grammar_release(g[k]);
        }
        json_decref(parts);
    }
    cr_assert_gt(n_blank, 2);
}

/* What is written under schemas of zod, pydantic and OpenAPI is valid, as the validator says. */
Test(grammar, generated)
{
    enum { FEW = 3 };
    size_t i, n = 0;
    json_t *entry, *all = util_json(DOP_SOURCE_DIR "/tests/grammar/generated_schemas.json");
    json_array_foreach(all, i, entry)
    {
        dop_grammar *g;
        dop_diag diag = {0};
        dop_schema_index *index;
        const json_t *schema = json_object_get(entry, "schema");
        const char *name = json_string_value(json_object_get(entry, "name"));
        cr_assert_eq(dop_grammar_from_schema(vocab, schema, NULL, NULL, 0, NULL, &diag, &g), DOP_OK, "%s: %s", name,
                     diag.message);
        cr_assert_eq(dop_schema_index_create(schema, NULL, NULL, &diag, &index), DOP_OK);
        for (uint64_t k = 0; k < FEW && !*dop_grammar_unenforced(g); k++) {
            dop_buf text = {0};
            bool good = false;
            if (!write_text(g, 90000 + i * 10 + k, &text)) { /* texts without a bound may be long */
                dop_buf_finish(&text);
                continue;
            }
            json_t *v = json_loadb(text.data ? text.data : "", text.size, JSON_DECODE_ANY, NULL);
            cr_assert(v, "%s: no JSON: %s", name, text.data ? text.data : "");
            cr_assert_eq(dop_schema_validate(index, schema, v, NULL, &diag, &good), DOP_OK, "%s: %s", name,
                         diag.message);
            cr_assert(good, "%s: not valid: %s", name, text.data);
            json_decref(v);
            dop_buf_finish(&text);
            n++;
        }
        dop_schema_index_destroy(index);
        dop_grammar_release(g);
    }
    json_decref(all);
    cr_log_info("%zu texts of %zu schemas\n", n, i);
    cr_assert_geq(n, 700);
}

Test(grammar, grammars)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(corpus, "grammars"), i, entry)
    {
        dop_grammar *g;
        dop_diag diag = {0};
        const char *text_of = json_string_value(json_object_get(entry, "grammar"));
        const char *regex = json_string_value(json_object_get(entry, "regex"));
        cr_assert_eq(dop_grammar_from_gbnf(vocab, "g", text_of, strlen(text_of), NULL, &diag, &g), DOP_OK, "%s: %s",
                     text_of, diag.message);
        for (uint64_t k = 0; k < SAMPLES; k++) {
            dop_buf text = {0};
            bool ended = write_text(g, 5000 + i * 100 + k, &text);
            cr_assert(ended, "%s: does not end: %.300s", text_of, text.data);
            cr_assert(finds(regex, text.data ? text.data : "", text.size, true), "%s: not valid: %s", text_of,
                      text.data ? text.data : "");
            dop_buf_finish(&text);
        }
        dop_grammar_release(g);
    }
    cr_assert_geq(i, 20);
}

/* A schema that allows nothing allows nothing as one of two either: only the other one's texts are written.  Returns false for a
 * schema that is refused for its form. */
static bool
only_the_other(dop_vocab *bytes, json_t *schema, const char *shown)
{
    static const char *const others[] = {"1",    "-2.5", "\"x\"", "\"aa\"", "null",
                                         "true", "[]",   "[1]",   "{}",     "{\"a\":1}"};
    dop_grammar *g;
    dop_diag diag = {0};
    size_t at;
    json_t *both = json_pack("{s:[O, {s:s}]}", "anyOf", schema, "const", "only");
    const bool made = dop_grammar_from_schema(bytes, both, NULL, NULL, 0, NULL, &diag, &g) == DOP_OK;
    json_decref(both);
    if (!made)
        return false;
    cr_expect(util_accepts(g, "\"only\"", 6, &at), "%s", shown);
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        cr_expect(!util_accepts(g, others[k], strlen(others[k]), &at), "%s allows %s", shown, others[k]);
    dop_grammar_release(g);
    return true;
}

Test(grammar, refused)
{
    size_t i, n_nothing = 0;
    json_t *entry;
    dop_grammar *g;
    util_bytes bytes = util_bytes_make(0);
    json_array_foreach(json_object_get(corpus, "refused"), i, entry)
    {
        dop_diag diag = {0};
        json_t *schema = json_object_get(entry, "schema");
        const char *says = json_string_value(json_object_get(entry, "says"));
        char *shown = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
        cr_assert_eq(dop_grammar_from_schema(vocab, schema, NULL, NULL, 0, NULL, &diag, &g), DOP_E_INPUT, "%s", shown);
        cr_assert(strstr(diag.message, says), "%s: \"%s\" instead of \"%s\"", shown, diag.message, says);
        n_nothing += !strstr(shown, "$ref") && only_the_other(bytes.vocab, schema, shown);
        free(shown);
    }
    util_bytes_free(&bytes);
    cr_expect_geq(n_nothing, 18, "%zu", n_nothing);
    json_array_foreach(json_object_get(corpus, "wrong"), i, entry)
    {
        dop_diag diag = {0};
        const char *text = json_string_value(json_object_get(entry, "grammar"));
        const char *says = json_string_value(json_object_get(entry, "says"));
        cr_assert_eq(dop_grammar_from_gbnf(vocab, "g", text, strlen(text), NULL, &diag, &g), DOP_E_INPUT, "%s", text);
        cr_assert(strstr(diag.message, says) && diag.line == json_integer_value(json_object_get(entry, "line")) &&
                      diag.column == json_integer_value(json_object_get(entry, "column")),
                  "%s: %ld:%ld %s", text, diag.line, diag.column, diag.message);
    }
}

/* Quoted texts of calls: an escape of four kinds, no control characters, and no mark inside; with a long mark anything up to it. */
Test(grammar, quoted_texts)
{
    static const struct {
        const char *mark, *text;
        bool good;
    } rows[] = {
        {"'", "'ab \xc3\xa9\"'", true}, {"'", "''", true},
        {"'", "'\\n\\t\\\\\\''", true}, {"'", "'\x7f'", true},
        {"'", "'a\nb'", false},         {"'", "'\x1f'", false},
        {"'", "'\x01'", false},         {"'", "'a'b'", false},
        {"'", "'\\q'", false},          {"'", "'ab", false},
        {"'", "'\\'", false},           {"\"", "\"a'\"", true},
        {"\"", "\"a\t\"", false},       {"<|>", "<|>a\n'<|<|>", true},
        {"<|>", "<|>a<|>b<|>", false},  {"<|>", "<|>a<|", false},
    };
    util_bytes bytes = util_bytes_make(0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_grammar *g;
        dop_diag diag = {0};
        size_t at;
        json_t *part = json_pack("{s:s}", "string", rows[i].mark);
        cr_assert_eq(dop_grammar_from_parts(bytes.vocab, part, NULL, &diag, &g), DOP_OK, "%s", diag.message);
        cr_expect_eq(util_accepts(g, rows[i].text, strlen(rows[i].text), &at), rows[i].good, "row %zu: %s", i,
                     rows[i].text);
        dop_grammar_release(g);
        json_decref(part);
    }
    util_bytes_free(&bytes);
}

Test(grammar, unenforced)
{
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(corpus, "unenforced"), i, entry)
    {
        dop_grammar *g;
        dop_diag diag = {0};
        const json_t *schema = json_object_get(entry, "schema");
        char *shown = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
        cr_assert_eq(dop_grammar_from_schema(vocab, schema, NULL, NULL, 0, NULL, &diag, &g), DOP_OK, "%s: %s", shown,
                     diag.message);
        cr_assert_str_eq(dop_grammar_unenforced(g), json_string_value(json_object_get(entry, "names")), "%s", shown);
        dop_grammar_release(g);
        free(shown);
    }
    cr_assert_geq(i, 10);
}

/* What the accepting text may be cut to is refused as a whole: masks allow no end too early. */
Test(grammar, ends)
{
    static const char text[] = "root ::= \"ab\" \"c\"?";
    dop_grammar *g;
    dop_matcher *m;
    cr_assert_eq(dop_grammar_from_gbnf(vocab, "g", text, strlen(text), NULL, NULL, &g), DOP_OK);
    cr_assert_eq(dop_matcher_create(g, NULL, &m), DOP_OK);
    uint32_t a = dop_tokenizer_find(tok, "a", 1), b = dop_tokenizer_find(tok, "b", 1), end = dop_tokenizer_eos(tok);
    cr_assert(!dop_matcher_may_end(m));
    cr_assert_eq(dop_matcher_accept(m, end, NULL), DOP_E_INPUT);
    cr_assert_eq(dop_matcher_accept(m, b, NULL), DOP_E_INPUT);
    cr_assert_eq(dop_matcher_accept(m, a, NULL), DOP_OK);
    cr_assert_eq(dop_matcher_accept(m, b, NULL), DOP_OK);
    cr_assert(dop_matcher_may_end(m) && !dop_matcher_must_end(m));
    const uint32_t *mask = dop_matcher_mask(m, NULL);
    cr_assert(mask[end / 32] >> (end % 32) & 1);
    cr_assert(!(mask[a / 32] >> (a % 32) & 1));
    cr_assert_eq(dop_matcher_accept(m, end, NULL), DOP_OK);
    cr_assert_eq(dop_matcher_accept(m, end, NULL), DOP_E_INPUT);
    dop_matcher_destroy(m);
    dop_grammar_release(g);
}
