/* The reader of JSON that others wrote: what it takes as Python does, what it refuses where, numbers, bounds, and
 * text again. */
#include "base/json/json.h"

#include "base/json/number.h"
#include "base/os/clock.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static json_t *
read_with(const char *text, size_t n, unsigned flags)
{
    dop_diag diag = {0};
    json_t *v;
    cr_assert_eq(dop_json_decode(text, n, &(dop_json_how){.flags = flags}, &diag, &v), DOP_OK, "%s: %s", text,
                 diag.message);
    return v;
}

/* What an exact reading of a text is as text again. */
static void
becomes(const char *text, const char *want)
{
    dop_buf out = {0};
    json_t *v = read_with(text, strlen(text), DOP_JSON_EXACT);
    dop_json_encode(&out, v);
    cr_assert_str_eq(out.data, want);
    dop_buf_finish(&out);
    json_decref(v);
}

Test(json, values_come_back)
{
    becomes(" \n\t\r[ ] ", "[]");
    becomes("{\"a\" : [1, {\"b\":null}, [], {}, true,false ] ,\"\":\"\"}",
            "{\"a\":[1,{\"b\":null},[],{},true,false],\"\":\"\"}");
    becomes("\xef\xbb\xbf{\"a\":1}", "{\"a\":1}");
    becomes("\"\\u00e9\\ud83d\\ude00\\/\\\"\\\\\\b\\f\\n\\r\\t\\u0001\x7f\"",
            "\"\xc3\xa9\xf0\x9f\x98\x80/\\\"\\\\\\b\\f\\n\\r\\t\\u0001\x7f\"");
    becomes("{\"b\":1,\"a\":2,\"b\":3}", "{\"b\":3,\"a\":2}"); /* the last value in the first place, as in a dict */
    becomes("[\"\\ud83d\", \"\\ude00x\", \"\\ud83d\\ud83d\\ude00\"]",
            "[\"\xef\xbf\xbd\",\"\xef\xbf\xbdx\",\"\xef\xbf\xbd\xf0\x9f\x98\x80\"]");
    becomes("{\"\\u0000\":1,\"\\u0000a\":\"\\u0000\",\"\":2}", "{\"\\u0000\":1,\"\\u0000a\":\"\\u0000\",\"\":2}");
    becomes("7", "7");
}

Test(json, numbers_come_back)
{
    static const char *const same[] = {
        "0",
        "-1",
        "0.1",
        "1.0",
        "1.5",
        "-0.0",
        "3.14159",
        "1e+16",
        "1e-07",
        "123456789.125",
        "0.0001",
        "5e-324",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "123456789012345678901",
        "-340282366920938463463374607431768211456",
        "1.7976931348623157e+308",
        "1e400",
        "-1E400",
        "1000000000000000019884624838656",
        "Infinity",
        "-Infinity",
        "NaN",
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        becomes(same[i], same[i]);
    becomes("1e2", "100.0");
    becomes("-0", "0");
    becomes("1.50", "1.5");
    becomes("0.30000000000000004", "0.30000000000000004");
    becomes("[123456789012345678901, {\"x\": 18446744073709551616}]",
            "[123456789012345678901,{\"x\":18446744073709551616}]");
}

Test(json, numbers_beyond_range_have_a_value)
{
    static const struct {
        const char *text;
        double value;
        json_type lenient; /* without DOP_JSON_EXACT */
    } rows[] = {
        {"1000000000000000019884624838656", 1000000000000000019884624838656.0, JSON_REAL},
        {"-9223372036854775809", -9223372036854775808.0, JSON_REAL},
        {"9223372036854775807", 9223372036854775807.0, JSON_INTEGER},
        {"1e400", INFINITY, JSON_OBJECT},
        {"-Infinity", -INFINITY, JSON_OBJECT},
        {"{\"__float__\": \"Infinity\"}", INFINITY, JSON_OBJECT},
        {"2.5", 2.5, JSON_REAL},
    };
    double d;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (unsigned flags = 0; flags <= DOP_JSON_EXACT; flags++) {
            json_t *v = read_with(rows[i].text, strlen(rows[i].text), flags);
            cr_assert(dop_json_number(v, &d), "%s", rows[i].text);
            cr_assert_eq(d, rows[i].value, "%s", rows[i].text);
            cr_assert(flags || json_typeof(v) == rows[i].lenient, "%s", rows[i].text);
            json_decref(v);
        }
    }
    const char others[] = "[NaN, \"1\", {\"__float__\": \"x\"}, {\"\\u00ff\": \"12\"}, null]";
    json_t *v = read_with(others, strlen(others), DOP_JSON_EXACT);
    cr_assert(dop_json_number(json_array_get(v, 0), &d) && isnan(d));
    for (size_t i = 1; i < json_array_size(v); i++)
        cr_assert_not(dop_json_number(json_array_get(v, i), &d), "%zu", i);
    json_decref(v);
    cr_assert_not(dop_json_number(NULL, &d));
}

Test(json, copies_keep_digits_and_plain_ones_do_not)
{
    const char text[] = "{\"maximum\": 18446744073709551615, \"b\": [1, -1e999, \"s\"]}";
    json_t *v = read_with(text, strlen(text), DOP_JSON_EXACT), *copy = json_deep_copy(v), *plain = dop_json_plain(v);
    cr_assert_str_eq(dop_json_number_text(json_object_get(copy, "maximum")), "18446744073709551615");
    cr_assert(json_is_real(json_object_get(plain, "maximum")));
    cr_assert_eq(json_real_value(json_object_get(plain, "maximum")), 18446744073709551615.0);
    cr_assert(json_is_real(json_array_get(json_object_get(plain, "b"), 1)));
    json_t *same = dop_json_plain(plain);
    cr_assert_eq(same, plain);
    json_decref(same);
    json_decref(plain);
    json_decref(copy);
    json_decref(v);
}

Test(json, errors_say_where)
{
    static const struct {
        const char *text, *message;
        long line, column;
        unsigned flags;
    } rows[] = {
        {"", "invalid JSON: it is empty", 1, 1, 0},
        {" \n ", "invalid JSON: there is no value", 2, 2, 0},
        {"{\n  \"a\": 64,\n  \"b\" 320\n}\n", "invalid JSON: ':' expected near '320'", 3, 7, 0},
        {"{\"a\": 64", "invalid JSON: ',' or '}' expected at the end", 1, 9, 0},
        {"[1,]", "invalid JSON: a value expected near ']'", 1, 4, 0},
        {"{\"a\":1,}", "invalid JSON: a name in quotes expected near '}'", 1, 8, 0},
        {"{a:1}", "invalid JSON: a name in quotes or '}' expected near 'a'", 1, 2, 0},
        {"[1 2]", "invalid JSON: ',' or ']' expected near '2'", 1, 4, 0},
        {"[1}", "invalid JSON: ',' or ']' expected near '}'", 1, 3, 0},
        {"[01]", "invalid JSON: ',' or ']' expected near '1'", 1, 3, 0},
        {"[1.]", "invalid JSON: ',' or ']' expected near '.'", 1, 3, 0},
        {"[.5]", "invalid JSON: a value expected near '.5'", 1, 2, 0},
        {"[+1]", "invalid JSON: a value expected near '+1'", 1, 2, 0},
        {"[nan]", "invalid JSON: a value expected near 'nan'", 1, 2, 0},
        {"[-]", "invalid JSON: a value expected near '-'", 1, 2, 0},
        {"[0x10]", "invalid JSON: ',' or ']' expected near 'x10'", 1, 3, 0},
        {"'a'", "invalid JSON: a value expected near '''", 1, 1, 0},
        {"// c\n1", "invalid JSON: a value expected near '/'", 1, 1, 0},
        {"\"\xc3\xa9\xc3\xa9\" x", "invalid JSON: the end expected near 'x'", 1, 6, 0},
        {"[\"abc", "invalid JSON: a string without end", 1, 2, 0},
        {"[\"a\nb\"]", "invalid JSON: control character 0x0a in a string", 1, 4, 0},
        {"[\"a\xff\"]", "invalid JSON: the byte 0xff is not UTF-8", 1, 4, 0},
        {"[\"\xed\xa0\x80\"]", "invalid JSON: the byte 0xed is not UTF-8", 1, 3, 0},
        {"[\"\\x41\"]", "invalid JSON: invalid escape in a string", 1, 3, 0},
        {"[\"\\u12g4\"]", "invalid JSON: invalid escape in a string", 1, 3, 0},
        {"{\"a\":1,\n \"a\":2}", "invalid JSON: a name comes twice in an object, near 'a'", 2, 2, DOP_JSON_UNIQUE},
        {"\xff\xfe{", "invalid JSON: the text is UTF-16; JSON is UTF-8", 1, 1, 0},
        {"<!DOCTYPE html>", "invalid JSON: a value expected near '<'", 1, 1, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_diag diag = {0};
        json_t *v;
        const dop_json_how how = {.path = "f.json", .flags = rows[i].flags};
        cr_assert_eq(dop_json_decode(rows[i].text, strlen(rows[i].text), &how, &diag, &v), DOP_E_INPUT, "%s",
                     rows[i].text);
        cr_assert_null(v);
        cr_assert_str_eq(diag.message, rows[i].message);
        cr_assert_str_eq(diag.path, "f.json");
        cr_assert(diag.line == rows[i].line && diag.column == rows[i].column, "%s: %ld:%ld", rows[i].text, diag.line,
                  diag.column);
    }
}

Test(json, a_value_before_other_text)
{
    size_t end;
    json_t *v;
    const char text[] = " {\"a\": \"}\"}]] and so on";
    cr_assert_eq(dop_json_decode(text, strlen(text), &(dop_json_how){.end = &end}, NULL, &v), DOP_OK);
    cr_assert_eq(end, 11);
    json_decref(v);
    cr_assert_eq(dop_json_decode(NULL, 0, NULL, NULL, &v), DOP_E_INPUT);
}

/* n times a text. */
static char *
times(const char *part, size_t n, size_t *out_size)
{
    const size_t len = strlen(part);
    char *text = malloc(n * len + 1);
    for (size_t i = 0; i < n; i++)
        memcpy(text + i * len, part, len);
    *out_size = n * len;
    return text;
}

Test(json, depth_is_bounded)
{
    static const char *const opens[] = {"[", "{\"a\":", "[{\"a\":", "[\n"};
    for (size_t i = 0; i < sizeof opens / sizeof *opens; i++) {
        dop_diag diag = {0};
        json_t *v;
        size_t n;
        char *text = times(opens[i], 1000 * 1000, &n);
        cr_assert_eq(dop_json_decode(text, n, NULL, &diag, &v), DOP_E_INPUT);
        cr_assert_str_eq(diag.message, "invalid JSON: nested more than 1000 deep");
        free(text);
    }
    size_t n;
    char *text = times("[", 2 * DOP_JSON_MAX_DEPTH, &n);
    memset(text + DOP_JSON_MAX_DEPTH, ']', DOP_JSON_MAX_DEPTH);
    json_decref(read_with(text, n, 0));
    free(text);
}

/* Some ten milliseconds each; where time grows with the square of the text it is minutes. */
Test(json, time_is_linear)
{
    static const char *const parts[] = {"[],", "\"\\u0041\",", "1e5,", "\"a\":0,"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        size_t n;
        char *text = times(parts[i], 400 * 1000, &n);
        json_t *v = NULL;
        text[n - 1] = ' ';
        dop_buf whole = {0};
        dop_buf_puts(&whole, i == 3 ? "{" : "[");
        dop_buf_append(&whole, text, n);
        dop_buf_puts(&whole, i == 3 ? "}" : "]");
        const double begin = dop_now_ms();
        cr_assert_eq(dop_json_decode(whole.data, whole.size, NULL, NULL, &v), DOP_OK);
        cr_assert_lt(dop_now_ms() - begin, 5000.0, "%s", parts[i]);
        json_decref(v);
        dop_buf_finish(&whole);
        free(text);
    }
}

Test(json, budgets_end_it)
{
    size_t n;
    char *text = times("[[", 400, &n);
    dop_diag diag = {0};
    json_t *v;
    dop_budget b = {.steps = UINT64_MAX, .bytes = 20000};
    cr_assert_eq(dop_json_decode(text, n, &(dop_json_how){.budget = &b}, &diag, &v), DOP_E_LIMIT);
    cr_assert_str_eq(diag.message, "JSON takes too much memory");
    cr_assert_eq(b.bytes, 20000); /* all of it was given back */
    diag = (dop_diag){0};
    b = (dop_budget){.steps = 100, .bytes = UINT64_MAX};
    cr_assert_eq(dop_json_decode(text, n, &(dop_json_how){.budget = &b}, &diag, &v), DOP_E_LIMIT);
    cr_assert_str_eq(diag.message, "JSON takes too many steps");
    free(text);
    b = (dop_budget){.steps = 1000, .bytes = 2000};
    cr_assert_eq(dop_json_decode("{\"a\":[1,2]}", 11, &(dop_json_how){.budget = &b}, NULL, &v), DOP_OK);
    cr_assert_lt(b.bytes, 2000);
    json_decref(v);
}

Test(json, reals_as_python_prints_them)
{
    static const struct {
        double value;
        const char *text;
    } rows[] = {{0.1, "0.1"},      {1, "1.0"},          {-0.0, "-0.0"},  {1e15, "1000000000000000.0"},
                {1e16, "1e+16"},   {1e-4, "0.0001"},    {1e-5, "1e-05"}, {1.0 / 3, "0.3333333333333333"},
                {INFINITY, "inf"}, {-INFINITY, "-inf"}, {1e22, "1e+22"}, {123456.7, "123456.7"}};
    char text[32];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_assert_eq(dop_real_text(rows[i].value, text), strlen(rows[i].text));
        cr_assert_str_eq(text, rows[i].text);
    }
}
