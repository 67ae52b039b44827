/* What grammars may cost: hostile ones over a vocabulary of 128,000 words end within budgets of bytes and steps, which are asserted
 * here, and not times; and nothing of them is left. */
#include "base/os/clock.h"
#include "tests/unit/grammar_util.h"

enum { WORDS = 128000, SLICE = 1000000 };
static const size_t most_held = 128u << 20;
static util_bytes u;

static void
open_words(void)
{
    u = util_bytes_make(WORDS);
}

static void
close_words(void)
{
    cr_assert_eq(dop_vocab_held(u.vocab), 0, "what grammars held is given back");
    util_bytes_free(&u);
}

TestSuite(grammar_bounds, .init = open_words, .fini = close_words);

typedef struct cost {
    dop_status st;
    uint64_t steps, slices;
    char message[1024];
} cost;

/* Writes up to n tokens under a grammar, always the last allowed one, and looks after each slice at what is held. */
static cost
follow(dop_grammar *g, uint32_t n)
{
    cost c = {.st = DOP_OK};
    dop_matcher *m;
    dop_diag diag = {0};
    c.st = dop_matcher_create(g, &diag, &m);
    for (uint32_t i = 0; i < n && c.st == DOP_OK && !dop_matcher_must_end(m); i++) {
        bool ready = false;
        while (!ready && c.st == DOP_OK) {
            const uint64_t before = dop_grammar_cost(g).steps;
            c.st = dop_matcher_prepare(m, SLICE, &diag, &ready);
            /* A slice ends after the byte in which its steps are spent. */
            cr_assert_leq(dop_grammar_cost(g).steps - before, SLICE + 40000000);
            cr_assert_leq(dop_vocab_held(u.vocab), most_held);
            c.slices++;
        }
        const uint32_t *mask = c.st == DOP_OK ? dop_matcher_mask(m, &diag) : NULL;
        uint32_t id = UINT32_MAX;
        for (uint32_t k = dop_vocab_size(u.vocab); mask && k-- > 0 && id == UINT32_MAX;)
            id = mask[k / 32] >> (k % 32) & 1 ? k : id;
        if (id == UINT32_MAX || id == 0)
            break;
        if (c.st == DOP_OK)
            c.st = dop_matcher_accept(m, id, &diag);
    }
    snprintf(c.message, sizeof c.message, "%s", diag.message);
    c.steps = dop_grammar_cost(g).steps;
    if (m)
        dop_matcher_destroy(m);
    return c;
}

static cost
run_gbnf(const dop_buf *text, uint32_t n)
{
    dop_grammar *g = NULL;
    dop_diag diag = {0};
    dop_budget budget = {.steps = 200000000, .bytes = 72u << 20};
    cost c = {.st = dop_grammar_from_gbnf(u.vocab, "g", text->data, text->size, &budget, &diag, &g)};
    snprintf(c.message, sizeof c.message, "%s", diag.message);
    if (c.st == DOP_OK)
        c = follow(g, n);
    dop_grammar_release(g);
    return c;
}

static void
alternatives(dop_buf *text, const char *rules, const char *element, uint32_t n, uint32_t times, uint32_t more)
{
    dop_buf_printf(text, "%s\nroot ::= ", rules);
    for (uint32_t i = 0; i < n; i++)
        dop_buf_printf(text, "%s%s{%u}", i ? " | " : "", element, times + i * more);
}

Test(grammar_bounds, repetitions)
{
    static const struct {
        const char *rules, *element;
        uint32_t n, times, more;
        bool ends_well;
    } cases[] = {
        {"x ::= [a-z ]", "x", 182, 300, 0, true},
        {"x ::= [a-z ]", "x", 182, 1000, 0, true},
        {"x ::= [a-z ]+", "x", 182, 300, 1, false},
        {"x ::= [a-z] | [a-z ] [a-z]", "x", 40, 900, 7, false},
        {"x ::= ([^x]*){0,99}", "(x{0,99})", 1, 99, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dop_buf text = {0};
        alternatives(&text, cases[i].rules, cases[i].element, cases[i].n, cases[i].times, cases[i].more);
        const cost c = run_gbnf(&text, 5);
        cr_assert(c.st == DOP_OK || c.st == DOP_E_LIMIT, "%zu: %s", i, c.message);
        cr_assert(c.st == DOP_OK || !cases[i].ends_well, "%zu: %s", i, c.message);
        cr_assert_leq(c.steps, 1100u << 20, "%zu", i);
        cr_assert_eq(dop_vocab_held(u.vocab), 0, "%zu", i);
        cr_log_info("%zu: %s, %llu steps in %llu slices\n", i, c.st == DOP_OK ? "fine" : c.message,
                    (unsigned long long)c.steps, (unsigned long long)c.slices);
        dop_buf_finish(&text);
    }
}

/* Work that grows with the square of the text would exhaust the budget. */
Test(grammar_bounds, names)
{
    enum { NAMES = 120000 };
    dop_buf text = {0};
    dop_grammar *g = NULL;
    dop_diag diag = {0};
    dop_buf_puts(&text, "root ::= \"a\" n0\n");
    for (int i = 0; i < NAMES; i++)
        dop_buf_printf(&text, "n%d ::= [a-z] n%d\n", i, i + 1);
    dop_buf_printf(&text, "n%d ::= \"z\"\n", NAMES);
    dop_budget budget = {.steps = 20000000, .bytes = 256u << 20};
    cr_assert_eq(dop_grammar_from_gbnf(u.vocab, "g", text.data, text.size, &budget, &diag, &g), DOP_OK, "%s",
                 diag.message);
    const cost c = follow(g, 4);
    cr_assert_eq(c.st, DOP_OK, "%s", c.message);
    dop_grammar_release(g);
    budget = (dop_budget){.steps = 20000000, .bytes = 1u << 20};
    cr_assert_eq(dop_grammar_from_gbnf(u.vocab, "g", text.data, text.size, &budget, &diag, &g), DOP_E_LIMIT);
    cr_assert(strstr(diag.message, "takes too much memory"), "%s", diag.message);
    dop_buf_finish(&text);
}

/* A chain of rules that call one another first, as deep as a stack of C would not be. */
Test(grammar_bounds, left_calls)
{
    dop_buf text = {0};
    dop_buf_puts(&text, "root ::= n0\n");
    for (int i = 0; i < 50000; i++)
        dop_buf_printf(&text, "n%d ::= n%d \"a\" | \"b\"\n", i, i + 1);
    dop_buf_puts(&text, "n50000 ::= \"z\"\n");
    const cost c = run_gbnf(&text, 3);
    cr_assert(c.st == DOP_OK || c.st == DOP_E_LIMIT, "%s", c.message);
    dop_buf_finish(&text);
    dop_buf_puts(&text, "root ::= n0\n");
    for (int i = 0; i < 5000; i++)
        dop_buf_printf(&text, "n%d ::= n%d \"a\" | \"b\"\n", i, i + 1);
    dop_buf_puts(&text, "n5000 ::= n0 \"a\"\n");
    const cost circle = run_gbnf(&text, 3);
    cr_assert_eq(circle.st, DOP_E_INPUT);
    cr_assert(strstr(circle.message, "left recursion"), "%s", circle.message);
    dop_buf_finish(&text);
}

static json_t *
many(uint32_t n, bool required)
{
    json_t *properties = json_object(), *names = json_array();
    for (uint32_t i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%u", i);
        json_object_set_new(properties, name, json_pack("{s:s}", "type", "integer"));
        json_array_append_new(names, json_string(name));
    }
    json_t *schema = json_pack("{s:s, s:o}", "type", "object", "properties", properties);
    if (required)
        json_object_set(schema, "required", names);
    json_decref(names);
    return schema;
}

Test(grammar_bounds, schemas)
{
    json_t *words = json_array(), *texts = json_array();
    for (int i = 0; i < 20000; i++) {
        char word[32];
        snprintf(word, sizeof word, "word number %d", i);
        json_array_append_new(words, json_string(word));
        if (i % 10 == 0)
            json_array_append_new(texts, json_pack("{s:s}", "const", word));
    }
    const struct {
        const char *name;
        json_t *schema;
        uint64_t steps, bytes;
        bool fits;
    } cases[] = {
        {"properties", many(60000, true), 20000000, 72u << 20, true},
        {"optional properties", many(2000, false), 20000000, 72u << 20, true},
        {"enum", json_pack("{s:O}", "enum", words), 20000000, 72u << 20, true},
        {"anyOf", json_pack("{s:O}", "anyOf", texts), 200000000, 72u << 20, true},
        {"pattern", json_pack("{s:s}", "pattern", "^(((a*){0,99}){0,99}){0,99}$"), 20000000, 72u << 20, true},
        {"patterns", json_pack("{s:s}", "pattern", "a.{2000}b.{2000}c"), 100000000, 72u << 20, true},
        {"nested", json_pack("{s:s}", "pattern", "^((([a-z ]{1,200} ){1,200}x){1,200}y){1,200}$"), 100000000, 72u << 20,
         true},
        {"too little", many(60000, true), 20000000, 2u << 20, false},
        {"too few", many(60000, true), 20000, 72u << 20, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dop_grammar *g = NULL;
        dop_diag diag = {0};
        dop_budget budget = {.steps = cases[i].steps, .bytes = cases[i].bytes};
        const double begin = dop_now_ms();
        const dop_status st = dop_grammar_from_schema(u.vocab, cases[i].schema, NULL, NULL, 0, &budget, &diag, &g);
        cr_assert_eq(st, cases[i].fits ? DOP_OK : DOP_E_LIMIT, "%s: %s", cases[i].name, diag.message);
        cr_log_info("%s: %s, %llu steps, %llu KB, %.0f ms\n", cases[i].name, st == DOP_OK ? "fine" : diag.message,
                    (unsigned long long)(cases[i].steps - budget.steps),
                    (unsigned long long)(cases[i].bytes - budget.bytes) / 1024, dop_now_ms() - begin);
        if (st == DOP_OK) {
            const cost c = follow(g, 6);
            cr_assert(c.st == DOP_OK || c.st == DOP_E_LIMIT, "%s: %s", cases[i].name, c.message);
            const dop_grammar_costs costs = dop_grammar_cost(g);
            cr_log_info("  masks: %llu in %.0f ms, %llu steps, %llu KB\n", (unsigned long long)costs.masks_made,
                        costs.walk_ms, (unsigned long long)c.steps, (unsigned long long)costs.bytes / 1024);
        }
        dop_grammar_release(g);
        cr_assert_eq(dop_vocab_held(u.vocab), 0, "%s", cases[i].name);
        json_decref(cases[i].schema);
    }
    json_decref(words);
    json_decref(texts);
}

/* Grammars that are kept share one pool: what nobody uses makes room. */
Test(grammar_bounds, pool)
{
    enum { MANY = 12 };
    dop_grammar *kept[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        dop_buf text = {0};
        dop_diag diag = {0};
        alternatives(&text, "x ::= [a-z ]", "x", 150 + i, 300, 3);
        cr_assert_eq(dop_grammar_from_gbnf(u.vocab, "g", text.data, text.size, NULL, &diag, &kept[i]), DOP_OK, "%s",
                     diag.message);
        const cost c = follow(kept[i], 8);
        cr_assert_eq(c.st, DOP_OK, "%u: %s", i, c.message);
        cr_assert_leq(dop_vocab_held(u.vocab), most_held);
        dop_buf_finish(&text);
    }
    for (uint32_t i = 0; i < MANY; i++)
        dop_grammar_release(kept[i]);
}
