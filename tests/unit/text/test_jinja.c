/* The Jinja interpreter against Jinja2, and its limits.
 *
 * jinja.json has some hundred small templates with what Jinja2 3.1 makes of them in the settings of transformers
 * (ImmutableSandboxedEnvironment, trim_blocks, lstrip_blocks, loop controls, tojson, strftime_now, raise_exception,
 * generation); null where Jinja2 refuses, which the interpreter must do too. */
#include "base/os/clock.h"
#include "tests/unit/tokenizer_util.h"
#include "text/chat/chat.h"

static const struct tm day = {
    .tm_year = 124, .tm_mon = 6, .tm_mday = 26, .tm_wday = 5, .tm_yday = 207, .tm_hour = 13, .tm_min = 5, .tm_sec = 9};

static dop_status
render(const char *template, size_t n, const json_t *given, dop_budget *budget, dop_diag *diag, dop_buf *out)
{
    dop_chat *chat = NULL;
    json_t *messages = json_pack("[{s:s,s:s}]", "role", "user", "content", "hi");
    const dop_chat_input in = {.messages = messages,
                               .add_generation_prompt = true,
                               .bos_token = "<s>",
                               .eos_token = "</s>",
                               .now = &day,
                               .extra = given,
                               .budget = budget};
    dop_status st = dop_chat_create(template, n, diag, &chat);
    if (st == DOP_OK)
        st = dop_chat_render(chat, &in, diag, out);
    dop_chat_destroy(chat);
    json_decref(messages);
    return st;
}

Test(jinja, as_jinja2)
{
    json_t *all = util_json(DOP_SOURCE_DIR "/tests/unit/jinja.json"), *rows = json_object_get(all, "rows"), *row;
    size_t i, bad = 0;
    cr_assert(json_array_size(rows) > 900);
    json_array_foreach(rows, i, row)
    {
        const json_t *template = json_array_get(row, 0), *want = json_array_get(row, 1);
        dop_diag diag = {0};
        dop_buf out = {0};
        const dop_status st = render(json_string_value(template), json_string_length(template),
                                     json_object_get(all, "given"), NULL, &diag, &out);
        const bool ok = json_is_null(want)
                            ? st != DOP_OK
                            : st == DOP_OK && out.size == json_string_length(want) &&
                                  memcmp(out.data ? out.data : "", json_string_value(want), out.size) == 0;
        if (!ok)
            fprintf(stderr, "%s\n--- want\n%s\n--- got %s\n%s\n", json_string_value(template),
                    json_is_null(want) ? "(refused)" : json_string_value(want), diag.message, out.data ? out.data : "");
        bad += !ok;
        dop_buf_finish(&out);
    }
    cr_expect_eq(bad, 0, "%zu templates differ", bad);
    json_decref(all);
}

/* Whole numbers beyond 64 bits are kept as they are written, and computing with them is refused, never wrong. */
Test(jinja, large_integers)
{
    static const struct {
        const char *template, *want;
    } rows[] = {
        {"{{ 123456789012345678901234567890 }} {{ -123456789012345678901 }}",
         "123456789012345678901234567890 -123456789012345678901"},
        {"{{ [18446744073709551616] | tojson }} {{ '123456789012345678901' | int }}",
         "[18446744073709551616] 123456789012345678901"},
        {"{{ '%d %s {}' % (18446744073709551616, 1) }} {{ '{:,}'.format(18446744073709551616) }}",
         "18446744073709551616 1 {} 18,446,744,073,709,551,616"},
        {"{{ 9223372036854775807 + 1 }}", NULL},
        {"{{ 9223372036854775807 * 2 }}", NULL},
        {"{{ 3 ** 50 }}", NULL},
        {"{{ 18446744073709551616 + 1 }}", NULL},
        {"{{ -9223372036854775808 // -1 }}", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_diag diag = {0};
        dop_buf out = {0};
        const dop_status st = render(rows[i].template, strlen(rows[i].template), NULL, NULL, &diag, &out);
        cr_expect_eq(st, rows[i].want ? DOP_OK : DOP_E_INPUT, "%s: %s", rows[i].template, diag.message);
        cr_expect_str_eq(out.data ? out.data : "", rows[i].want ? rows[i].want : "", "%s", rows[i].template);
        dop_buf_finish(&out);
    }
}

/* Two values that share their parts, 2^60 items when they are looked through. */
#define SHARED(one, many)                                                   \
    "{% set n = namespace(a=" one ", b=" one ") %}{% for i in range(60) %}" \
    "{% set n.a = " many("n.a") " %}{% set n.b = " many("n.b") " %}{% endfor %}"
#define LISTS(x) "[" x ", " x "]"
#define TUPLES(x) "(" x ", " x ")"
#define DICTS(x) "{1: " x ", 2: " x "}"

static const char *const endless[] = {
    SHARED("[1]", LISTS) "{{ n.a == n.b }}",
    SHARED("[1]", LISTS) "{{ n.a < n.b }}",
    SHARED("[1]", LISTS) "{{ n.a in [n.b] }}",
    SHARED("[1]", LISTS) "{{ [n.a, n.b] | sort }}",
    SHARED("[1]", DICTS) "{{ n.a == n.b }}",
    SHARED("()", TUPLES) "{{ {n.a: 1} }}",
    SHARED("()", TUPLES) "{{ [n.a] | unique | list }}",
    SHARED("()", TUPLES) "{{ n.a }}",
    SHARED("()", TUPLES) "{{ n.a | tojson }}",
    "{{ 'a' * 10 ** 12 }}",
    "{{ [1] * 10 ** 12 }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ 'a'.center(10 ** 10) }}",
    "{{ 'a\\nb' | indent(10 ** 10) }}",
    "{{ [[1]] | tojson(indent=10 ** 10) }}",
    "{{ [1] | batch(10 ** 12, 0) | list }}",
    "{{ [1] | slice(10 ** 12) | list }}",
    "{% set n = namespace(s='a') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
    "{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}",
    "{% set n = namespace(s='a') %}{% for i in range(99) %}{% set n.s = n.s.replace('a', 'aa') %}{% endfor %}",
    "{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s.join(n.s) %}{% endfor %}",
    "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    "{% set r = range(100000) %}{% for a in r %}{% for b in r %}{% endfor %}{% endfor %}",
    "{% set r = range(100000) %}{% for a in r %}{% set x = -1 in r %}{% endfor %}",
    "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% set x = s.upper() %}{% endfor %}",
    "{% set s = ' ' * 1000000 %}{% for i in range(100000) %}{% set x = s.strip() %}{% endfor %}",
    "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% set x = s.find('ab') %}{% endfor %}",
    "{% set s = 'a' * 1000000 %}{% for i in range(100000) %}{% set x = s[500000] %}{% endfor %}",
    "{% set s = 'a ' * 100000 %}{% for i in range(100000) %}{% set x = s.split() | sort %}{% endfor %}",
    "{% for a in range(100000) %}{% for b in range(99) %}{% set x = '%.500f' % 1e300 %}{% endfor %}{% endfor %}",
};

/* Each takes as long as the interpreter lets a template run, because one that is opened is tried without a budget: by default
 * every third of them. */
static void
check_endless(size_t every)
{
    for (size_t i = 0; i < sizeof endless / sizeof *endless; i += every) {
        dop_diag diag = {0};
        dop_buf out = {0};
        dop_budget budget = {.steps = 300 * 1000, .bytes = 32 << 20};
        cr_expect_eq(render(endless[i], strlen(endless[i]), NULL, &budget, &diag, &out), DOP_E_LIMIT, "%s: %s",
                     endless[i], diag.message);
        cr_expect_eq(budget.bytes, 32 << 20, "%s: memory is not given back", endless[i]);
        cr_expect_eq(out.size, 0);
        dop_buf_finish(&out);
    }
}

Test(jinja, small_templates_that_would_not_end)
{
    check_endless(3);
}

Test(jinja_whole, small_templates_that_would_not_end)
{
    check_endless(1);
}

/* The interpreter's own limits hold without a budget, too. */
Test(jinja, limits_without_a_budget)
{
    static const size_t some[] = {9, 18, 27};
    for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
        dop_diag diag = {0};
        dop_buf out = {0};
        const char *text = endless[some[k]];
        cr_expect_eq(render(text, strlen(text), NULL, NULL, &diag, &out), DOP_E_LIMIT, "%s: %s", text, diag.message);
        cr_expect(strstr(diag.message, "chat template takes too m"), "%s", diag.message);
        dop_buf_finish(&out);
    }
}

/* Steps that a dictionary of n names costs, from its JSON to lookups and output. */
static uint64_t
steps_of(size_t n)
{
    static const char text[] = "{% for k, v in d.items() %}{{ d[k] }}{% endfor %}{{ d | tojson | length }}"
                               "{{ d | dictsort | length }}{{ dict(d, a=1) == d }}";
    json_t *d = json_object(), *given = json_pack("{s:o}", "d", d);
    dop_diag diag = {0};
    dop_buf out = {0};
    dop_budget budget = {.steps = UINT64_MAX - 1, .bytes = UINT64_MAX};
    for (size_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "name %zu", i);
        json_object_set_new(d, name, json_integer((json_int_t)i));
    }
    cr_expect_eq(render(text, strlen(text), given, &budget, &diag, &out), DOP_OK, "%s", diag.message);
    json_decref(given);
    dop_buf_finish(&out);
    return UINT64_MAX - 1 - budget.steps;
}

Test(jinja, large_dictionaries_take_linear_time)
{
    const uint64_t small = steps_of(1000), large = steps_of(30000);
    cr_expect(large < 75 * small, "%llu steps for 1000 names, %llu for 30000", (unsigned long long)small,
              (unsigned long long)large);
    cr_expect(large < 12 * 1000 * 1000, "%llu steps", (unsigned long long)large);
}

/* Syntax that is nested or chained without end. */
Test(jinja, deep_syntax)
{
    static const struct {
        const char *head, *part, *tail;
    } rows[] = {
        {"{{ ", "(", ""},
        {"{{ ", "[", ""},
        {"{{ ", "{1:", ""},
        {"{{ ", "not ", "1 }}"},
        {"{{ ", "-", "1 }}"},
        {"{{ 1", "+1", " }}"},
        {"{{ a", ".a", " }}"},
        {"{{ a", "()", " }}"},
        {"{{ 1", "|d", " }}"},
        {"{{ 1", " and 1", " }}"},
        {"", "{% if 1 %}", ""},
        {"{% set ", "(", ""},
        {"{% for ", "(", ""},
        {"{{ 'a'", "[0]", " }}"},
        {"{{ 1", " if 1 else 1", " }}"},
        {"{% if 0 %}", "{% elif 0 %}", "{% endif %}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_buf text = {0}, out = {0};
        dop_diag diag = {0};
        dop_buf_puts(&text, rows[i].head);
        for (int k = 0; k < 20000; k++)
            dop_buf_puts(&text, rows[i].part);
        dop_buf_puts(&text, rows[i].tail);
        const dop_status st = render(text.data, text.size, NULL, NULL, &diag, &out);
        cr_expect(st == DOP_E_LIMIT || st == DOP_E_INPUT, "%s%s...: %s", rows[i].head, rows[i].part, diag.message);
        dop_buf_finish(&text);
        dop_buf_finish(&out);
    }
}

Test(jinja, reserved_names)
{
    static const char *const reserved[] = {
        "messages", "tools",     "bos_token", "eos_token",       "add_generation_prompt",
        "range",    "namespace", "dict",      "raise_exception", "strftime_now"};
    static const char *const free_names[] = {"enable_thinking", "reasoning_effort", "documents", "date_string",
                                             "custom_tools"};
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        json_t *given = json_pack("{s:i}", reserved[i], 1);
        dop_diag diag = {0};
        dop_buf out = {0};
        cr_expect(dop_chat_reserved(reserved[i]), "%s", reserved[i]);
        cr_expect_eq(render("a", 1, given, NULL, &diag, &out), DOP_E_INPUT, "%s", reserved[i]);
        cr_expect(strstr(diag.message, reserved[i]), "%s", diag.message);
        json_decref(given);
        dop_buf_finish(&out);
    }
    for (size_t i = 0; i < sizeof free_names / sizeof *free_names; i++)
        cr_expect(!dop_chat_reserved(free_names[i]), "%s", free_names[i]);
}
