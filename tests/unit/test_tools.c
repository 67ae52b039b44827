/* How answers are read that may call tools: in the forms of several families' templates, whole and as they come. */
#include "runtime/server/api_internal.h"

#include <criterion/criterion.h>

#include <string.h>

typedef struct reading_case {
    const char *mark; /* of the template */
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
     "", "", "f {\"a\":[0.1,1.0,123456789012345678901,-1e400,1.5e-07]}"},
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
     "f {\"a\": 1}; g {}"},
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
     "f {\"a\": 2}"},
    {"<|channel|>", NULL,
     "<|channel|>commentary<|message|>I look. <|end|><|start|>assistant<|channel|>commentary "
     "to=functions.f<|message|>{}<|call|><|start|>assistant<|channel|>final<|message|>Done.",
     "I look. Done.", "", "f {}"},
    {"<|channel|>", "<|channel|>commentary to=functions.f <|constrain|>json<|message|>", "{\"a\": \"b\"}", "", "",
     "f {\"a\": \"b\"}"},
    {"<|channel|>", NULL, "<|channel|>analysis<|message|>cut sh", "", "cut sh", ""},
    {"<|channel|>", NULL, "<|channel|>anal", "", "", ""},
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

static void
expect(const dop_buf *got, const char *want, const char *what, const reading_case *c)
{
    cr_assert(got->size == strlen(want) && memcmp(got->size ? got->data : "", want, got->size) == 0,
              "%s of %s: \"%.*s\" instead of \"%s\"", what, c->text, (int)got->size, got->size ? got->data : "", want);
}

Test(tools, answers_are_read)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const reading_case *c = &cases[i];
        const dop_tool_form *form = dop_tool_form_of(c->mark);
        dop_reading whole, part;
        dop_buf calls = {0};
        cr_assert_not_null(form);
        dop_reading_make(form, c->begin, c->text, strlen(c->text), true, &whole);
        expect(&whole.content, c->content, "content", c);
        expect(&whole.reasoning, c->reasoning, "reasoning", c);
        list_calls(whole.calls, &calls);
        expect(&calls, c->calls, "calls", c);
        cr_assert_eq(whole.calls != NULL, c->calls[0] != 0, "a list of calls is there where there are some");
        /* What was sent of an answer is never taken back. */
        for (size_t n = 0; n < strlen(c->text); n++) {
            dop_reading_make(form, c->begin, c->text, n, false, &part);
            cr_assert(
                part.content.size <= whole.content.size &&
                    (part.content.size == 0 || memcmp(part.content.data, whole.content.data, part.content.size) == 0),
                "content after %zu bytes of %s: \"%.*s\"", n, c->text, (int)part.content.size, part.content.data);
            cr_assert(part.reasoning.size <= whole.reasoning.size &&
                          (part.reasoning.size == 0 ||
                           memcmp(part.reasoning.data, whole.reasoning.data, part.reasoning.size) == 0),
                      "reasoning after %zu bytes of %s", n, c->text);
            cr_assert_null(part.calls);
            dop_reading_finish(&part);
        }
        dop_reading_finish(&whole);
        dop_buf_finish(&calls);
    }
}

Test(tools, calls_that_are_required)
{
    json_t *tools = json_loads("[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": "
                               "\"object\", \"properties\": {\"a\": {\"type\": \"integer\"}}}}},"
                               " {\"type\": \"function\", \"function\": {\"name\": \"g\"}}]",
                               0, NULL);
    static const struct {
        const char *mark, *only, *wrong, *begin, *schema;
    } rows[] = {
        {"<|channel|>", "f", NULL, "<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
         "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"}},\"$id\":\"tool:0\"}"},
        {"<|channel|>", NULL, "wants the name of the function", NULL, NULL},
        {"<|channel|>", "h", "not among the tools", NULL, NULL},
        {"<arg_key>", "f", "cannot be required", NULL, NULL},
        {"<tool_call>", "g", NULL, "",
         "{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"g\"},\"arguments\":{\"type\":\"object\",\"$id\":"
         "\"tool:1\"}},"
         "\"required\":[\"name\",\"arguments\"]}"},
        {"[TOOL_CALLS]", "g", NULL, "[TOOL_CALLS]",
         "{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{\"name\":{\"const\":\"g\"},\"arguments\":{"
         "\"type\":\"object\",\"$id\":\"tool:1\"}},\"required\":[\"name\",\"arguments\"]},\"minItems\":1,\"maxItems\":"
         "1}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_tool_demand d;
        const char *wrong = dop_tool_require(dop_tool_form_of(rows[i].mark), tools, rows[i].only, &d);
        if (rows[i].wrong)
            cr_assert(wrong && strstr(wrong, rows[i].wrong), "%s", wrong ? wrong : "nothing is wrong");
        else
            cr_assert_null(wrong, "%s", wrong);
        if (rows[i].begin)
            cr_assert_str_eq(d.begin, rows[i].begin);
        json_t *want = rows[i].schema ? json_loads(rows[i].schema, 0, NULL) : NULL;
        cr_assert(!want || json_equal(want, d.schema), "schema %zu", i);
        json_decref(want);
        json_decref(d.schema);
        free(d.begin);
    }
    cr_assert_null(dop_tool_form_of("<tool_call><function=name>"));
    cr_assert_null(dop_tool_form_of("<start_of_turn>"));
    json_decref(tools);
}
