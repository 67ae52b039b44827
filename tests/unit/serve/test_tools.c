/* How answers are read that may call tools: in the forms of several families' templates, whole and as they come. */
#include "serve/api/api_internal.h"
#include "serve/api/api_tools.h"

#include <criterion/criterion.h>

#include <string.h>

typedef struct reading_case {
    const char *mark; /* of the template, which says no more of calls */
    const char *begin;
    const char *text;
    const char *content, *reasoning;
    const char *calls; /* NAME ARGUMENTS; NAME ARGUMENTS */
} reading_case;

static const reading_case cases[] = {
    /* hermes, qwen */
    {"<tool_call>", NULL, "Hello.", "Hello.", "", ""},
    {"<tool_call>", NULL, "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
     "Let me see.\n", "", "f {\"a\":1}"},
    {"<tool_call>", NULL,
     "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": {\"b\": "
     "[2]}}</tool_call>",
     "", "", "f {}; g {\"b\":[2]}"},
    {"<tool_call>", NULL, "<tool_call>no object", "<tool_call>no object", "", ""},
    {"<tool_call>", NULL,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": [0.1, 1.0, 123456789012345678901, -1e400, "
     "1.5e-7]}}</tool_call>",
     "", "", "f {\"a\":[0.1,1.0,123456789012345678901,-1e400,1.5e-7]}"},
    /* llama 3 */
    {"<|python_tag|>", NULL, "{\"name\": \"f\", \"parameters\": {\"a\": \"x\"}}", "", "", "f {\"a\":\"x\"}"},
    {"<|python_tag|>", NULL,
     "<|python_tag|>{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}}", "", "",
     "f {}; g {}"},
    {"<|python_tag|>", NULL, "{not JSON", "{not JSON", "", ""},
    {"<|python_tag|>", NULL, "A king.", "A king.", "", ""},
    /* mistral: a list, and the form of its later models */
    {"[TOOL_CALLS]", NULL,
     "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]", "", "",
     "f {\"a\":1}; g {}"},
    {"[TOOL_CALLS]", NULL, "Well. [TOOL_CALLS]f[ARGS]{\"a\": 1}[TOOL_CALLS]g[ARGS]{}", "Well. ", "",
     "f {\"a\":1}; g {}"},
    {"[TOOL_CALLS]", "[TOOL_CALLS]", "[{\"name\": \"f\", \"arguments\": {}}]", "", "", "f {}"},
    /* phi */
    {"<|tool|>", NULL, "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": null}}]<|/tool_call|>", "", "",
     "f {\"a\":null}"},
    /* glm: keys and values, which are JSON or text */
    {"<arg_key>", NULL,
     "So.\n<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n<arg_key>b</arg_key>\n<arg_value>in "
     "Rome</arg_value>\n</tool_call><tool_call>g</tool_call>",
     "So.\n", "", "f {\"a\":1,\"b\":\"in Rome\"}; g {}"},
    {"<arg_key>", NULL,
     "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>0.1</arg_value>\n<arg_key>b</arg_key>\n"
     "<arg_value>18446744073709551616</arg_value>\n</tool_call>",
     "", "", "f {\"a\":0.1,\"b\":18446744073709551616}"},
    /* harmony, gpt-oss */
    {"<|channel|>", NULL, "<|channel|>final<|message|>Hello.", "Hello.", "", ""},
    {"<|channel|>", NULL, "Hello.", "Hello.", "", ""},
    {"<|channel|>", NULL,
     "<|channel|>analysis<|message|>He greets.<|end|><|start|>assistant<|channel|>final<|message|>Hello "
     "<b>you</b>.<|return|>",
     "Hello <b>you</b>.", "He greets.", ""},
    {"<|channel|>", NULL,
     "<|channel|>analysis<|message|>Look it up.<|end|><|start|>assistant<|channel|>commentary to=functions.f "
     "<|constrain|>json<|message|>{\"a\":1}",
     "", "Look it up.", "f {\"a\":1}"},
    {"<|channel|>", NULL, " to=functions.f<|channel|>commentary json<|message|>{\"a\": 2}<|call|>", "", "",
     "f {\"a\":2}"},
    {"<|channel|>", NULL,
     "<|channel|>commentary<|message|>I look. <|end|><|start|>assistant<|channel|>commentary "
     "to=functions.f<|message|>{}<|call|><|start|>assistant<|channel|>final<|message|>Done.",
     "I look. Done.", "", "f {}"},
    {"<|channel|>", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>", "{\"a\": \"b\"}", "", "",
     "f {\"a\":\"b\"}"},
    {"<|channel|>", NULL, "<|channel|>anal", "", "", ""},
    /* without the prefix, in the commentary; one that does not exist; the model's own tool; arguments that were cut */
    {"<|channel|>", NULL, "<|channel|>commentary to=f <|constrain|>json<|message|>{}<|call|>", "", "", "f {}"},
    {"<|channel|>", NULL, "<|channel|>commentary to=functions.f<|message|><|call|>", "", "", "f {}"},
    {"<|channel|>", NULL, "<|channel|>commentary to=functions.ghost<|message|>{}<|call|>", "{}", "", ""},
    {"<|channel|>", NULL, "<|channel|>analysis to=python<|message|>print(1)<|call|>", "", "print(1)", ""},
    {"<|channel|>", NULL, "<|channel|>commentary to=functions.f<|message|>{\"a\": ", "{\"a\": ", "", ""},
    /* reasoning has no calls */
    {"<tool_call> <think>", NULL,
     "<think>I may write <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call></think>No.", "No.",
     "I may write <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", ""},
    {"<tool_call> <think>", NULL,
     "<think>\nAh.\n</think>\n\n<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", "", "Ah.", "f {}"},
    {"<tool_call> <think>", NULL, "So. <think><tool_call>{\"name\": \"f\"}</tool_call></think>Well.",
     "So. <think><tool_call>{\"name\": \"f\"}</tool_call></think>Well.", "", ""},
    {"<tool_call> <think>", NULL, "<think>never closed <tool_call>{\"name\": \"f\"}</tool_call>", "",
     "never closed <tool_call>{\"name\": \"f\"}</tool_call>", ""},
    /* tools that do not exist, calls that were cut, arguments of other kinds */
    {"<tool_call>", NULL, "<tool_call>{\"name\": \"ghost\", \"arguments\": {}}</tool_call>",
     "<tool_call>{\"name\": \"ghost\", \"arguments\": {}}</tool_call>", "", ""},
    {"<tool_call>", NULL, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ",
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ", "", ""},
    {"<tool_call>", NULL, "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>", "", "",
     "f {\"a\":1}"},
    {"<tool_call>", NULL, "<tool_call>{\"arguments\": null, \"name\": \"f\"}</tool_call>", "", "", "f {}"},
    {"<tool_call>", NULL, "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>",
     "<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>", "", ""},
    /* numbers as they were written */
    {"<tool_call>", NULL,
     "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 123456789012345678901, \"b\": 0.10, \"c\": 1E5}}</tool_call>",
     "", "", "f {\"a\":123456789012345678901,\"b\":0.10,\"c\":1E5}"},
    {"<arg_key>", NULL, "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>01234 and mo",
     "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>01234 and mo", "", ""},
    {"<arg_key>", NULL, "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>",
     "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>", "", ""},
    {"<function= <parameter=", NULL,
     "<function=f>\n<parameter=zip>\n01234\n</parameter>\n<parameter=code>\nx\n\n</parameter> in it\n</parameter>\n"
     "</function>\n</tool_call>",
     "", "", "f {\"zip\":\"01234\",\"code\":\"x\\n\\n</parameter> in it\"}"},
    {"<|tool_call_start|>", NULL,
     "<|tool_call_start|>[f(a='it''s', b=[True, None], c={'k': 1.5}), g()]<|tool_call_end|>Done.", "Done.", "",
     "f {\"a\":\"it''s\",\"b\":[true,null],\"c\":{\"k\":1.5}}; g {}"},
    {"<|tool_call>call:", NULL, "<|tool_call>call:f{a:<|\"|>x}{y<|\"|>,b:[1,{k:<|\"|>v<|\"|>}]}<tool_call|>", "", "",
     "f {\"a\":\"x}{y\",\"b\":[1,{\"k\":\"v\"}]}"},
    {"]<]minimax[>[ <invoke name=", NULL,
     "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"g\">\n]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
     "", "", "g {}"},
    /* Olmo 3: calls on lines, with white space that the template lacks, and without the end mark */
    {"<function_calls>", NULL, "<function_calls>f(zip=\"94107\")\ng()</function_calls>", "", "",
     "f {\"zip\":\"94107\"}; g {}"},
    {"<function_calls>", NULL, "<function_calls>f(zip=\"1\", deep=true)</function_calls>Done.", "Done.", "",
     "f {\"zip\":\"1\",\"deep\":true}"},
    {"<function_calls>", NULL, "I look.\n<function_calls>\ng()\n\nf(zip = \"a, b()\")\ng( )\n</function_calls>\n",
     "I look.\n", "", "g {}; f {\"zip\":\"a, b()\"}; g {}"},
    {"<function_calls>", NULL, "<function_calls>g()\nf(code='x')", "", "", "g {}; f {\"code\":\"x\"}"},
    {"<function_calls>", NULL, "<function_calls>g()\nghost()</function_calls>", ")\nghost()</function_calls>", "",
     "g {}"},
    /* Python's escapes: letters by their numbers, and backslashes before letters that are none */
    {"<|tool_call_start|>", NULL,
     "<|tool_call_start|>[f(zip='caf\\u00e9', code='\\x41\\U0001f600\\ud83d\\ude00')]<|tool_call_end|>", "", "",
     "f {\"zip\":\"caf\u00e9\",\"code\":\"A\U0001f600\U0001f600\"}"},
    {"<|tool_call_start|>", NULL,
     "<|tool_call_start|>[f(zip=\"a\\'b\", code='\\d+\\n\\\\s \\u12 \\ud800.')]<|tool_call_end|>", "", "",
     "f {\"zip\":\"a'b\",\"code\":\"\\\\d+\\n\\\\s \\\\u12 \ufffd.\"}"},
    {"<|tool_call_start|>", NULL, "<|tool_call_start|>[f(n=''), f(n=None)]<|tool_call_end|>", "", "",
     "f {\"n\":null}; f {\"n\":null}"},
    /* parameters without their end marks: before the end of the call, another parameter, and another call */
    {"<function= <parameter=", NULL, "<tool_call>\n<function=f>\n<parameter=zip>\n94107\n</function>\n</tool_call>", "",
     "", "f {\"zip\":\"94107\"}"},
    {"<function= <parameter=", NULL,
     "<tool_call>\n<function=f>\n<parameter=zip>\n94107\n<parameter=code>\na "
     "<b>\n\n</parameter>\n</function>\n</tool_call>",
     "", "", "f {\"zip\":\"94107\",\"code\":\"a <b>\\n\"}"},
    {"<function= <parameter=", NULL,
     "<tool_call>\n<function=f>\n<parameter=zip>\n1\n</function>\n</tool_call>\n<tool_call>\n<function=f>\n"
     "<parameter=zip>\n2\n</parameter>\n</function>\n</tool_call>",
     "", "", "f {\"zip\":\"1\"}; f {\"zip\":\"2\"}"},
    {"<arg_key>", NULL,
     "<tool_call>f\n<arg_key>zip</arg_key>\n<arg_value>94107\n<arg_key>code</arg_key>\n<arg_value>x\n</tool_call>", "",
     "", "f {\"zip\":\"94107\",\"code\":\"x\"}"},
    {"functools", NULL, " functools[{\"name\": \"f\", \"arguments\": {}}]", " ", "", "f {}"},
    {"<|START_ACTION|>", NULL,
     "<|START_ACTION|>[\n{\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {}}\n]<|END_ACTION|>", "", "",
     "f {}"},
};

static void
list_calls(const json_t *calls, dop_buf *out)
{
    static const char alphabet[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    size_t i;
    const json_t *call;
    json_array_foreach(calls, i, call)
    {
        const json_t *function = json_object_get(call, "function");
        const char *id = json_string_value(json_object_get(call, "id"));
        cr_assert(strlen(id) == 9 && strncmp(id, "call", 4) == 0 && strspn(id, alphabet) == 9, "%s", id);
        dop_buf_printf(out, "%s%s %s", i ? "; " : "", json_string_value(json_object_get(function, "name")),
                       json_string_value(json_object_get(function, "arguments")));
    }
}

/* The same without their ids. */
static void
list_arguments(const json_t *calls, dop_buf *out)
{
    size_t i;
    const json_t *call;
    json_array_foreach(calls, i, call)
    {
        const json_t *function = json_object_get(call, "function");
        dop_buf_printf(out, "%s %s;", json_string_value(json_object_get(function, "name")),
                       json_string_value(json_object_get(function, "arguments")));
    }
}

static void
expect(const dop_buf *got, const char *want, const char *what, const reading_case *c)
{
    cr_assert(got->size == strlen(want) && memcmp(got->size ? got->data : "", want, got->size) == 0,
              "%s of %s: \"%.*s\" instead of \"%s\"", what, c->text, (int)got->size, got->size ? got->data : "", want);
}

static dop_tool_form *
form_of_mark(const char *mark)
{
    dop_buf text = {0};
    dop_chat *chat;
    dop_tool_form *form;
    dop_buf_printf(&text, "{# %s #}{%% for m in messages %%}{{ m.role }}: {{ m.content }}\n{%% endfor %%}", mark);
    cr_assert_eq(dop_chat_create(text.data, text.size, NULL, &chat), DOP_OK);
    cr_assert_eq(dop_tool_form_create(chat, text.data, NULL, NULL, &form), DOP_OK);
    dop_chat_destroy(chat);
    dop_buf_finish(&text);
    return form;
}

static json_t *
tools_of(void)
{
    json_t *tools =
        json_loads("[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\","
                   " \"properties\": {\"zip\": {\"type\": \"string\"}, \"code\": {\"type\": \"string\"}, \"n\":"
                   " {\"type\": \"integer\"}}}}},"
                   " {\"type\": \"function\", \"function\": {\"name\": \"g\"}}]",
                   0, NULL);
    cr_assert_not_null(tools);
    return tools;
}

static bool
begins_with(const dop_buf *whole, const dop_buf *part)
{
    return part->size <= whole->size && (part->size == 0 || memcmp(part->data, whole->data, part->size) == 0);
}

/* Reads a text, of which the first n bytes come first (SIZE_MAX: byte by byte), and checks it. */
static void
check_reading(const dop_reading_terms *terms, const reading_case *c, size_t n)
{
    dop_reading r;
    dop_buf calls = {0};
    const size_t all = strlen(c->text);
    dop_reading_begin(&r, terms);
    for (size_t i = 1; n == SIZE_MAX && i < all; i++)
        dop_reading_feed(&r, c->text, i, false);
    if (n <= all)
        dop_reading_feed(&r, c->text, n, false);
    dop_reading_feed(&r, c->text, all, true);
    expect(&r.content, c->content, "content", c);
    expect(&r.reasoning, c->reasoning, "reasoning", c);
    list_calls(r.calls, &calls);
    expect(&calls, c->calls, "calls", c);
    cr_assert_eq(r.calls != NULL, c->calls[0] != 0, "a list of calls is there where there are some");
    dop_buf_finish(&calls);
    dop_reading_finish(&r);
}

/* What was sent of an answer is never taken back, and an answer that ends early has no calls that the whole one has not. */
static void
check_beginnings(const dop_reading_terms *terms, const reading_case *c)
{
    dop_reading whole;
    dop_buf calls = {0};
    dop_reading_begin(&whole, terms);
    dop_reading_feed(&whole, c->text, strlen(c->text), true);
    list_arguments(whole.calls, &calls);
    for (size_t n = 0; n <= strlen(c->text); n++)
        for (int ended = 0; ended < 2; ended++) {
            dop_reading part;
            dop_buf some = {0};
            dop_reading_begin(&part, terms);
            dop_reading_feed(&part, c->text, n, ended == 1);
            list_arguments(part.calls, &some);
            cr_assert(begins_with(&calls, &some), "calls after %zu bytes of %s: %s", n, c->text, some.data);
            cr_assert(
                ended || (begins_with(&whole.content, &part.content) && begins_with(&whole.reasoning, &part.reasoning)),
                "%zu bytes of %s: \"%.*s\"", n, c->text, (int)part.content.size, part.content.data);
            dop_buf_finish(&some);
            dop_reading_finish(&part);
        }
    dop_buf_finish(&calls);
    dop_reading_finish(&whole);
}

Test(tools, answers_are_read)
{
    json_t *tools = tools_of();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const reading_case *c = &cases[i];
        dop_tool_form *form = form_of_mark(c->mark);
        const dop_reading_terms terms = {.form = form, .tools = tools, .begin = c->begin};
        check_reading(&terms, c, SIZE_MAX);
        for (size_t n = 0; n <= strlen(c->text); n++)
            check_reading(&terms, c, n);
        check_beginnings(&terms, c);
        dop_tool_form_destroy(form);
    }
    json_decref(tools);
}

/* A value that has its end mark may have the end of a call in it. */
Test(tools, values_with_the_end_of_a_call)
{
    static const char text[] = "<tool_call>\n<function=f>\n<parameter=code>\n</function>\n</tool_call> ends "
                               "<parameter=ghost>\n</parameter>\n</function>\n</tool_call>";
    json_t *tools = tools_of();
    dop_tool_form *form = form_of_mark("<function= <parameter=");
    const reading_case c = {NULL, NULL, text,
                            "",   "",   "f {\"code\":\"</function>\\n</tool_call> ends <parameter=ghost>\"}"};
    check_reading(&(dop_reading_terms){.form = form, .tools = tools}, &c, SIZE_MAX);
    dop_tool_form_destroy(form);
    json_decref(tools);
}

Test(tools, one_call_at_most)
{
    static const char *const rows[][2] = {
        {"<tool_call>", "<tool_call>{\"name\": \"f\"}</tool_call><tool_call>{\"name\": \"g\"}</tool_call>"},
        {"[TOOL_CALLS]", "[TOOL_CALLS][{\"name\": \"f\"}, {\"name\": \"g\"}]"},
        {"<|tool_call_start|>", "<|tool_call_start|>[f(), g()]<|tool_call_end|>"},
        {"<|channel|>",
         "<|channel|>commentary to=functions.f<|message|>{}<|call|><|start|>assistant<|channel|>commentary "
         "to=functions.g<|message|>{}<|call|>"},
    };
    json_t *tools = tools_of();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_tool_form *form = form_of_mark(rows[i][0]);
        dop_reading r;
        dop_reading_begin(&r, &(dop_reading_terms){.form = form, .tools = tools, .single = true});
        dop_reading_feed(&r, rows[i][1], strlen(rows[i][1]), true);
        cr_assert_eq(json_array_size(r.calls), 1, "%s", rows[i][1]);
        cr_assert_eq(r.content.size, 0, "%s", rows[i][1]);
        dop_reading_finish(&r);
        dop_tool_form_destroy(form);
    }
    json_decref(tools);
}

/* Without tools, or where a schema shapes the answer, nothing is a call; reasoning is one all the same. */
Test(tools, no_calls_where_none_are_wanted)
{
    static const char text[] = "<think>Ah.</think>{\"name\": \"f\"}<tool_call>{\"name\": \"f\"}</tool_call>";
    static const char *const marks[] = {"<tool_call> <think>", "<|python_tag|> <think>"};
    for (size_t i = 0; i < 2; i++) {
        dop_tool_form *form = form_of_mark(marks[i]);
        dop_reading r;
        dop_reading_begin(&r, &(dop_reading_terms){.form = form});
        dop_reading_feed(&r, text, strlen(text), true);
        cr_assert_null(r.calls);
        cr_assert_eq(r.content.size, strlen(text) - strlen("<think>Ah.</think>"));
        cr_assert_eq(r.reasoning.size, 3);
        dop_reading_finish(&r);
        /* The prompt may end within reasoning. */
        dop_reading_begin(&r, &(dop_reading_terms){.form = form, .thinks = true});
        dop_reading_feed(&r, "Ah.\n</think>\n\nNo.", 17, true);
        cr_assert(r.reasoning.size == 3 && r.content.size == 3);
        dop_reading_finish(&r);
        dop_tool_form_destroy(form);
    }
}

/* An end mark of reasoning that nothing began: what comes before it is reasoning, or stays content where that was sent. */
Test(tools, reasoning_without_its_beginning)
{
    static const struct {
        const char *text, *content, *reasoning, *sent; /* sent: the content where its first four bytes were sent */
    } rows[] = {
        {"I weigh it.</think>\n\nAnswer.", "Answer.", "I weigh it.", "I weigh it.Answer."},
        {"\nSo.\n</think>Yes. </think>", "Yes. </think>", "So.", NULL},
        {"</think>\n\nAnswer.", "Answer.", "", NULL},
        {"<think>a</think>b</think>", "b</think>", "a", NULL},
        {"The mark `</think>` ends it.", "The mark `</think>` ends it.", "", NULL},
        {"Hm.</think><tool_call>{\"name\": \"f\"}</tool_call>", "", "Hm.", NULL},
        {"No end.", "No end.", "", "No end."},
    };
    dop_tool_form *form = form_of_mark("<tool_call> <think>");
    json_t *tools = tools_of();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int sent = 0; sent < (rows[i].sent ? 2 : 1); sent++) {
            const reading_case c = {.text = rows[i].text};
            dop_reading r;
            dop_reading_begin(&r, &(dop_reading_terms){.form = form, .tools = tools, .lone_close = true});
            for (size_t n = 1; n <= strlen(c.text); n++) {
                dop_reading_feed(&r, c.text, n, n == strlen(c.text));
                r.shown = sent ? (n < 4 ? n : 4) : 0;
            }
            expect(&r.content, sent ? rows[i].sent : rows[i].content, "content", &c);
            expect(&r.reasoning, sent ? "" : rows[i].reasoning, "reasoning", &c);
            dop_reading_finish(&r);
        }
    /* In JSON of a schema it is a text as any other. */
    dop_reading r;
    dop_reading_begin(&r, &(dop_reading_terms){.form = form});
    static const char json[] = "{\"a\": \"x</think>y\"}";
    dop_reading_feed(&r, json, strlen(json), true);
    cr_assert_eq(r.content.size, strlen(json));
    dop_reading_finish(&r);
    json_decref(tools);
    dop_tool_form_destroy(form);
}

/* Tokens of reasoning and its marks, where each byte is a token and where the text is three. */
static void
check_thoughts(const dop_reading_terms *terms, const char *text, size_t from, size_t to)
{
    enum { MOST = 256 };
    const size_t n = strlen(text);
    uint32_t ends[MOST];
    const uint32_t few[] = {(uint32_t)to, (uint32_t)to, (uint32_t)n};
    dop_reading r;
    cr_assert(n < MOST);
    dop_reading_begin(&r, terms);
    for (size_t i = 0; i < n; i++) {
        ends[i] = (uint32_t)i + 1;
        dop_reading_feed(&r, text, i + 1, i + 1 == n);
    }
    cr_assert_eq(dop_reading_thought_tokens(&r, ends, (uint32_t)n), to - from, "%s", text);
    cr_assert_eq(dop_reading_thought_tokens(&r, ends, (uint32_t)to - 1), to - 1 - from, "%s", text);
    cr_assert_eq(dop_reading_thought_tokens(&r, few, 3), to == n ? 3 : 2, "%s", text);
    dop_reading_finish(&r);
}

Test(tools, tokens_of_reasoning_are_counted)
{
    static const char
        whole[] = "<think>Ah.</think>\n\nNo.",
        rest[] = "Ah.\n</think>\n\nNo.",
        channels[] =
            "<|channel|>commentary<|message|>So.<|end|><|start|>assistant<|channel|>analysis<|message|>Ah.<|end|>"
            "<|start|>assistant<|channel|>final<|message|>No.";
    dop_tool_form *form = form_of_mark("<tool_call> <think>"), *harmony = form_of_mark("<|channel|>");
    check_thoughts(&(dop_reading_terms){.form = form}, whole, 0, 18);
    check_thoughts(&(dop_reading_terms){.form = form, .begin = "<think>", .thinks = false}, rest, 0, 12);
    check_thoughts(&(dop_reading_terms){.form = form, .thinks = true}, rest, 0, 12);
    check_thoughts(&(dop_reading_terms){.form = form, .thinks = true}, "Ah. No end", 0, 10);
    const char *end = strstr(channels, "Ah.<|end|>") + strlen("Ah.<|end|>");
    check_thoughts(&(dop_reading_terms){.form = harmony}, channels,
                   strlen("<|channel|>commentary<|message|>So.<|end|>"), (size_t)(end - channels));
    dop_tool_form_destroy(form);
    dop_tool_form_destroy(harmony);
}

/* Texts between marks become what the schema says. */
Test(tools, arguments_have_the_types_of_the_schema)
{
    static const struct {
        const char *schema, *text, *want;
    } rows[] = {
        {"{\"type\": \"string\"}", "5", "\"5\""},
        {"{\"type\": \"integer\"}", "5", "5"},
        {"{\"type\": \"integer\"}", "five", "\"five\""},
        {"{\"type\": \"number\"}", "123456789012345678901", "123456789012345678901"},
        {"{\"type\": \"boolean\"}", "True", "true"},
        {"{\"type\": [\"string\", \"null\"]}", "null", "null"},
        {"{\"type\": [\"string\", \"null\"]}", "7", "\"7\""},
        {"{\"anyOf\": [{\"type\": \"string\"}, {\"type\": \"null\"}]}", "None", "null"},
        {"{\"type\": \"string\", \"nullable\": true}", "null", "null"},
        {"{\"enum\": [\"1\", \"2\"]}", "1", "\"1\""},
        {"{\"enum\": [1, 2]}", "1", "1"},
        {"{\"const\": \"true\"}", "true", "\"true\""},
        {"{\"$ref\": \"#/$defs/t\"}", "true", "\"true\""},
        {"{\"type\": \"object\"}", "{'a': [1, None]}", "{\"a\":[1,null]}"},
        {"{\"type\": \"array\"}", "[1, \"x\"]", "[1,\"x\"]"},
        {"{}", "[1, 2]", "[1,2]"},
        {"{}", "two words", "\"two words\""},
        {"{}", "", "\"\""},
        {"{\"type\": \"string\"}", "None", "\"None\""},
        {"{\"type\": [\"integer\", \"null\"]}", " ", "null"},
        {"{\"type\": [\"string\", \"integer\"]}", "", "\"\""},
        /* arguments that are not wanted are left out */
        {"{\"type\": \"integer\"}", "", NULL},
        {"{\"type\": \"integer\"}", "\n", NULL},
        {"{\"type\": \"number\"}", "None", NULL},
        {"{\"type\": \"boolean\"}", "null", NULL},
        {"{\"type\": \"array\", \"items\": {\"type\": \"string\"}}", "", NULL},
        {"{\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"boolean\"}]}", "None", NULL},
    };
    dop_tool_form *form = form_of_mark("<arg_key>");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *schema = json_loads(rows[i].schema, 0, NULL);
        json_t *tools = json_pack("[{s:{s:s, s:{s:{s:o}, s:{s:{s:s}}}}}]", "function", "name", "f", "parameters",
                                  "properties", "a", schema, "$defs", "t", "type", "string");
        dop_buf text = {0}, want = {0};
        dop_reading r;
        dop_buf_printf(&text, "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>%s</arg_value>\n</tool_call>",
                       rows[i].text);
        dop_buf_printf(&want, rows[i].want ? "{\"a\":%s}" : "{}", rows[i].want);
        dop_reading_begin(&r, &(dop_reading_terms){.form = form, .tools = tools});
        dop_reading_feed(&r, text.data, text.size, true);
        cr_assert_eq(json_array_size(r.calls), 1, "%s", text.data);
        cr_assert_str_eq(
            json_string_value(json_object_get(json_object_get(json_array_get(r.calls, 0), "function"), "arguments")),
            want.data, "%s", rows[i].schema);
        dop_reading_finish(&r);
        dop_buf_finish(&text);
        dop_buf_finish(&want);
        json_decref(tools);
    }
    dop_tool_form_destroy(form);
}
