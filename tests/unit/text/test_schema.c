/* JSON schemas against the JSON-Schema-Test-Suite (draft 2020-12, required part): the validator agrees everywhere, and grammars of
 * the same schemas accept the valid values and, unless they name a keyword that they do not enforce, refuse the others. */
#include "tests/unit/grammar_util.h"

#include "text/schema/validate.h"

#include <math.h>

static json_t *suite;
static util_bytes u;

static void
open_suite(void)
{
    suite = util_json(DOP_SOURCE_DIR "/tests/grammar/json_schema_suite.json");
    u = util_bytes_make(0);
}

static void
close_suite(void)
{
    json_decref(suite);
    util_bytes_free(&u);
}

TestSuite(schema, .init = open_suite, .fini = close_suite);

/* What the suite has beyond a schema and its parts: the metaschema, which is not among its files, and vocabularies of others. */
static bool
needs_metaschema(const json_t *schema)
{
    char *text = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
    const bool needs = strstr(text, "\"$ref\":\"https://json-schema.org/draft/2020-12/schema\"") ||
                       strstr(text, "metaschema-no-validation") || strstr(text, "metaschema-optional-vocabulary");
    free(text);
    return needs;
}

Test(schema, suite_validator)
{
    const char *file;
    json_t *groups;
    size_t i, k, n = 0, n_wrong = 0, n_refused = 0;
    const json_t *group, *test;
    json_object_foreach(json_object_get(suite, "files"), file, groups) json_array_foreach(groups, i, group)
    {
        const json_t *schema = json_object_get(group, "schema");
        dop_schema_index *index;
        dop_diag diag = {0};
        if (needs_metaschema(schema)) {
            n_refused += json_array_size(json_object_get(group, "tests"));
            continue;
        }
        cr_assert_eq(dop_schema_index_create(schema, json_object_get(suite, "remotes"), NULL, &diag, &index), DOP_OK);
        json_array_foreach(json_object_get(group, "tests"), k, test)
        {
            bool valid, wanted = json_is_true(json_object_get(test, "valid"));
            dop_diag own = {0};
            dop_status st = dop_schema_validate(index, schema, json_object_get(test, "data"), NULL, &own, &valid);
            n++;
            if (st != DOP_OK || valid != wanted) {
                n_wrong++;
                cr_log_error("%s: %s: %s: %s instead of %s %s", file,
                             json_string_value(json_object_get(group, "description")),
                             json_string_value(json_object_get(test, "description")), valid ? "valid" : "invalid",
                             wanted ? "valid" : "invalid", own.message);
            }
        }
        dop_schema_index_destroy(index);
    }
    cr_log_info("%zu values validated, %zu wrong, %zu of the metaschema refused\n", n, n_wrong, n_refused);
    cr_assert_eq(n_wrong, 0);
    cr_assert_geq(n, 1250);
}

/* --- grammars -------------------------------------------------------------------------------------------------------------------- */

/* Whole numbers without a fraction, and members in an order that `turn` chooses. */
static json_t *
canonical(const json_t *v, uint32_t *turn)
{
    json_t *out, *member;
    size_t i, n = 0;
    const char *key, *keys[64];
    if (json_is_real(v) && floor(json_real_value(v)) == json_real_value(v) && fabs(json_real_value(v)) <= 0x1p53)
        return json_integer((json_int_t)json_real_value(v));
    if (json_is_array(v)) {
        out = json_array();
        json_array_foreach(v, i, member) json_array_append_new(out, canonical(member, turn));
        return out;
    }
    if (!json_is_object(v) || json_object_size(v) > 64)
        return json_incref((json_t *)(uintptr_t)v);
    out = json_object();
    json_object_foreach((json_t *)(uintptr_t)v, key, member) keys[n++] = key;
    for (i = n; i > 0; i--) { /* the turn is a number in the system of factorials */
        const size_t at = *turn % i;
        *turn /= (uint32_t)i;
        json_object_set_new(out, keys[at], canonical(json_object_get(v, keys[at]), turn));
        memmove(keys + at, keys + at + 1, (i - at - 1) * sizeof *keys);
    }
    return out;
}

static bool
accepts_in_some_order(dop_grammar *g, const json_t *v)
{
    enum { TURNS = 720 };
    bool accepted = false;
    char *last = NULL;
    for (uint32_t k = 0; k < TURNS && !accepted; k++) {
        uint32_t turn = k;
        json_t *one = canonical(v, &turn);
        char *text = json_dumps(one, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
        json_decref(one);
        if (!last || strcmp(last, text) != 0)
            accepted = util_accepts(g, text, strlen(text), NULL);
        free(last);
        last = text;
        if (turn > 0) /* all orders were tried */
            break;
    }
    free(last);
    return accepted;
}

/* Numbers with exponents, and characters that are escaped by numbers, can be written in ways that are not tried. */
static bool
can_be_written(const json_t *v)
{
    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
    bool can = !(json_is_real(v) && strpbrk(text, "eE"));
    for (const char *c = text; *c; c++)
        can &= !((unsigned char)*c == 0xc2 && (unsigned char)c[1] < 0xa0) && *c != 0x7f;
    free(text);
    return can;
}

/* A function without arguments has empty `properties`: no member is written that nobody asked for.  Where keywords want or allow some,
 * there are some. */
Test(schema, members_that_nothing_names)
{
    static const struct {
        const char *schema, *text;
        bool accepted;
    } rows[] = {
        {"{\"type\": \"object\", \"properties\": {}}", "{}", true},
        {"{\"type\": \"object\", \"properties\": {}}", "{\"a\": 1}", false},
        {"{\"properties\": {}, \"required\": [\"a\"]}", "{\"a\": 1}", true},
        {"{\"type\": \"object\", \"properties\": {}, \"minProperties\": 1}", "{\"a\": 1}", true},
        {"{\"type\": \"object\", \"properties\": {}, \"additionalProperties\": true}", "{\"a\": 1}", true},
        {"{\"type\": \"object\"}", "{\"a\": 1}", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_grammar *g;
        dop_diag diag = {0};
        json_t *root = json_loads(rows[i].schema, 0, NULL);
        cr_assert_eq(dop_grammar_from_schema(u.vocab, root, NULL, NULL, 0, NULL, &diag, &g), DOP_OK, "%s: %s",
                     rows[i].schema, diag.message);
        cr_expect_eq(util_accepts(g, rows[i].text, strlen(rows[i].text), NULL), rows[i].accepted, "%s: %s",
                     rows[i].schema, rows[i].text);
        dop_grammar_release(g);
        json_decref(root);
    }
}

Test(schema, suite_grammar)
{
    const char *file;
    json_t *groups;
    size_t i, k, n_schemas = 0, n_compiled = 0, n_exact = 0, n_valid = 0, n_invalid = 0, n_loose = 0, n_wrong = 0;
    const json_t *group, *test;
    json_object_foreach(json_object_get(suite, "files"), file, groups) json_array_foreach(groups, i, group)
    {
        const json_t *schema = json_object_get(group, "schema");
        const char *what = json_string_value(json_object_get(group, "description"));
        dop_grammar *g;
        dop_diag diag = {0};
        dop_budget budget = {.steps = 200000000, .bytes = 40u << 20};
        if (strcmp(file, "vocabulary") == 0) /* without the words that say what is valid */
            continue;
        n_schemas++;
        dop_status st = dop_grammar_from_schema(u.vocab, schema, NULL, NULL, DOP_SCHEMA_OPEN, &budget, &diag, &g);
        if (st != DOP_OK) {
            size_t n = 0;
            json_array_foreach(json_object_get(group, "tests"), k, test) n +=
                json_is_true(json_object_get(test, "valid"));
            /* Schemas that allow nothing, and references to others, are refused by name. */
            const bool remote = strstr(diag.message, "only references within the schema") != NULL ||
                                strstr(diag.message, "leads nowhere") != NULL;
            cr_assert(remote || n == 0, "%s: %s: %s", file, what, diag.message);
            continue;
        }
        n_compiled++;
        const char *unenforced = dop_grammar_unenforced(g);
        n_exact += !*unenforced;
        json_array_foreach(json_object_get(group, "tests"), k, test)
        {
            const json_t *v = json_object_get(test, "data");
            const bool valid = json_is_true(json_object_get(test, "valid"));
            if (!can_be_written(v))
                continue;
            const bool accepted = accepts_in_some_order(g, v);
            n_valid += valid;
            n_invalid += !valid && !*unenforced;
            n_loose += !valid && *unenforced;
            if ((valid && !accepted) || (!valid && accepted && !*unenforced)) {
                char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
                cr_log_error("%s: %s: %s: %s is %s but %s", file, what,
                             json_string_value(json_object_get(test, "description")), text, valid ? "valid" : "invalid",
                             accepted ? "accepted" : "refused");
                free(text);
                n_wrong++;
            }
        }
        dop_grammar_release(g);
    }
    cr_log_info("%zu schemas, %zu compiled, %zu of them exactly; %zu valid values, %zu invalid ones, %zu that need "
                "verification; %zu wrong\n",
                n_schemas, n_compiled, n_exact, n_valid, n_invalid, n_loose, n_wrong);
    cr_assert_eq(n_wrong, 0);
}

/* Schemas as zod 4, pydantic and OpenAPI's generators write them (tests/grammar/generated_schemas.json), with values that the
 * libraries' types have or have not. */
Test(schema, generated)
{
    json_t *all = util_json(DOP_SOURCE_DIR "/tests/grammar/generated_schemas.json"), *entry, *v;
    size_t i, k, n_valid = 0, n_invalid = 0, n_loose = 0, n_wrong = 0;
    json_array_foreach(all, i, entry)
    {
        const json_t *schema = json_object_get(entry, "schema");
        const char *name = json_string_value(json_object_get(entry, "name"));
        dop_grammar *g;
        dop_diag diag = {0};
        dop_schema_index *index;
        dop_budget budget = {.steps = 200000000, .bytes = 72u << 20};
        cr_assert_eq(dop_grammar_from_schema(u.vocab, schema, NULL, NULL, 0, &budget, &diag, &g), DOP_OK, "%s: %s",
                     name, diag.message);
        cr_assert_eq(dop_schema_index_create(schema, NULL, NULL, &diag, &index), DOP_OK);
        const bool loose = *dop_grammar_unenforced(g) != 0;
        n_loose += loose;
        for (size_t good = 0; good < 2; good++)
            json_array_foreach(json_object_get(entry, good ? "valid" : "invalid"), k, v)
            {
                bool valid = false;
                const bool accepted = accepts_in_some_order(g, v);
                cr_assert_eq(dop_schema_validate(index, schema, v, NULL, &diag, &valid), DOP_OK, "%s: %s", name,
                             diag.message);
                if (good ? !accepted || !valid : accepted && (valid || !loose)) {
                    char *text = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY),
                         *shown = json_dumps(schema, JSON_COMPACT);
                    cr_log_error("%s: %s %s: accepted %d, valid %d: %s (%s)", name, good ? "valid" : "invalid", text,
                                 accepted, valid, shown, dop_grammar_unenforced(g));
                    free(text);
                    free(shown);
                    n_wrong++;
                }
                *(good ? &n_valid : &n_invalid) += 1;
            }
        dop_schema_index_destroy(index);
        dop_grammar_release(g);
    }
    cr_log_info(
        "%zu schemas, %zu of them not exactly; %zu valid values accepted, %zu invalid ones refused; %zu wrong\n", i,
        n_loose, n_valid, n_invalid, n_wrong);
    json_decref(all);
    cr_assert_eq(n_wrong, 0);
    cr_assert_geq(i, 250);
}

/* Formats take what people write, and nothing that no validator takes. */
Test(schema, formats)
{
    static const char *const rows[][4] = {
        {"date", "2024-02-29", "2023-02-29", "1900-02-29"},
        {"date-time", "2000-02-29T23:59:59.123456789+14:00", "2024-01-01T24:00:00Z", "2024-01-01 10:00:00Z"},
        {"uuid", "F81D4FAE-7dec-11d0-A765-00a0c91e6bf6", "F81D4FAE7dec-11d0-A765-00a0c91e6bf6", "x"},
        {"email", "First_Last+tag@my-company.co.uk", "a..b@c.de", "a@b@c.de"},
        {"hostname", "API-2.eu.Example.com", "-a.de", "a..b"},
        {"uri", "https://Host.example:65535/a%20b?q=%C3%A9#f", "https://a b", "https://a/%2"},
        {"uri", "mailto:a.b@c.de", "mailto:", "no"},
        {"ipv6", "2001:DB8::1", "1::2::3", "g::"},
        {"duration", "P1Y2M10DT2H30M", "P", "P1S"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *schema = json_pack("{s:s, s:s}", "type", "string", "format", rows[i][0]);
        dop_grammar *g;
        dop_diag diag = {0};
        cr_assert_eq(dop_grammar_from_schema(u.vocab, schema, NULL, NULL, 0, NULL, &diag, &g), DOP_OK, "%s",
                     diag.message);
        cr_expect_str_eq(dop_grammar_unenforced(g), "", "%s", rows[i][0]);
        for (size_t k = 1; k < 4; k++) {
            char text[128];
            const int n = snprintf(text, sizeof text, "\"%s\"", rows[i][k]);
            cr_expect_eq(util_accepts(g, text, (size_t)n, NULL), k == 1, "%s: %s", rows[i][0], text);
        }
        dop_grammar_release(g);
        json_decref(schema);
    }
}
