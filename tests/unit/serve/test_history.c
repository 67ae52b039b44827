/* Conversations as clients send them: what the model's template is given of them. */
#include "serve/api/api_history.h"
#include "tests/unit/tokenizer_util.h"

#include "serve/api/api_internal.h"

#define SYSTEM_USER "{% if m.role in ['system', 'user', 'tool'] %}[{{ m.role }}]{{ m.content }}{% endif %}"
#define CALLS(write) "{% for c in m.tool_calls or [] %}<call>" write "</call>{% endfor %}"
#define JSON_CALL "{{ {'name': c.function.name, 'arguments': c.function.arguments} | tojson }}"
#define TEMPLATE(rest)                                                                                \
    "{% for t in tools or [] %}{{ t.function.name }};{% endfor %}{% for m in messages %}" SYSTEM_USER \
    "{% if m.role == 'assistant' %}[assistant]" rest                                                  \
    "{% endif %}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"

static const char objects[] = TEMPLATE("{{ m.content }}" CALLS(JSON_CALL));
static const char items[] = TEMPLATE("{{ m.content }}" CALLS(
    "{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}={{ v | tojson }}{% if not "
    "loop.last %}, {% endif %}{% endfor %})"));
static const char texts[] = TEMPLATE("{{ m.content }}" CALLS("{{ c.function.name + ':' + c.function.arguments }}"));
static const char strict[] =
    TEMPLATE("{% if 'tool_calls' in m %}{% if m.tool_calls | length != 1 %}{{ raise_exception('one call "
             "at a time') }}{% endif %}" CALLS(JSON_CALL) "{% else %}{{ m.content }}{% endif %}");
static const char thoughtful[] =
    TEMPLATE("{% if m.thinking %}({{ m.thinking }}){% endif %}{{ m.content }}" CALLS(JSON_CALL));
static const char developers[] =
    "{% for m in messages %}{% if m.role == 'developer' %}[dev]{% else %}[{{ m.role }}]{% endif %}{{ "
    "m.content }}{% endfor %}";
static const char plain[] =
    "{% for m in messages %}{% if m.role not in ['user', 'assistant', 'system'] %}{{ raise_exception('what is "
    "this role?') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}";
static const char parts[] =
    "{% for m in messages %}[{{ m.role }}]{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}";
static const char short_ids[] =
    TEMPLATE("{{ m.content }}{% for c in m.tool_calls or [] %}{% if c.id | length != 9 %}{{ "
             "raise_exception('nine letters') }}{% endif %}<call>" JSON_CALL "</call>{% endfor %}");
static const char named_ids[] = TEMPLATE("{{ m.content }}{% for c in m.tool_calls or [] %}<call>{{ c.id }}<args>{{ "
                                         "c.function.arguments | tojson }}</call>{% endfor %}");

#define USER "{\"role\": \"user\", \"content\": \"x\"}"
#define CALL(arguments)                                                                                       \
    "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"c1\", \"type\": \"function\", " \
    "\"function\": {\"name\": "                                                                               \
    "\"look\", \"arguments\": " arguments "}}]}"

typedef struct history_case {
    const char *template, *messages;
    const char *want; /* the prompt, or with ! the beginning of what is refused */
} history_case;

static const history_case cases[] = {
    /* no calls at all */
    {strict,
     "[" USER ", {\"role\": \"assistant\", \"content\": \"b\", \"tool_calls\": null, \"function_call\": null, "
     "\"refusal\": null}]",
     "[user]x[assistant]b"},
    {strict, "[" USER ", {\"role\": \"assistant\", \"content\": \"b\", \"tool_calls\": []}]", "[user]x[assistant]b"},
    /* several, where the template takes one: each with its result */
    {strict,
     "[" USER ", {\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"a\", \"function\": {\"name\": \"look\", "
     "\"arguments\": \"{}\"}}, "
     "{\"id\": \"b\", \"function\": {\"name\": \"look\", \"arguments\": \"{}\"}}]}, {\"role\": \"tool\", "
     "\"tool_call_id\": \"b\", "
     "\"content\": \"B\"}, {\"role\": \"tool\", \"tool_call_id\": \"a\", \"content\": \"A\"}, {\"role\": \"tool\", "
     "\"tool_call_id\": "
     "\"z\", \"content\": \"Z\"}]",
     "[user]x[assistant]<call>{\"name\": \"look\", \"arguments\": {}}</call>[tool]A[assistant]<call>{\"name\": "
     "\"look\", "
     "\"arguments\": {}}</call>[tool]B[tool]Z"},
    /* arguments */
    {objects, "[" USER ", " CALL("\"{\\\"a\\\": 1}\"") "]",
     "[user]x[assistant]<call>{\"name\": \"look\", \"arguments\": {\"a\": 1}}</call>"},
    {objects, "[" USER ", " CALL("{\"a\": 1}") "]",
     "[user]x[assistant]<call>{\"name\": \"look\", \"arguments\": {\"a\": 1}}</call>"},
    {objects, "[" USER ", " CALL("\"\"") "]", "[user]x[assistant]<call>{\"name\": \"look\", \"arguments\": {}}</call>"},
    {objects, "[" USER ", " CALL("\" null \"") "]",
     "[user]x[assistant]<call>{\"name\": \"look\", \"arguments\": {}}</call>"},
    {objects, "[" USER ", " CALL("null") "]", "[user]x[assistant]<call>{\"name\": \"look\", \"arguments\": {}}</call>"},
    {objects, "[" USER ", " CALL("\"\\\"{\\\\\\\"a\\\\\\\": 1}\\\"\"") "]",
     "[user]x[assistant]<call>{\"name\": \"look\", \"arguments\": {\"a\": 1}}</call>"},
    {objects, "[" USER ", " CALL("\"{\\\"a\\\": \"") "]",
     "[user]x[assistant]<call>{\"name\": \"look\", \"arguments\": \"{\\\"a\\\": \"}</call>"},
    {items, "[" USER ", " CALL("\"{\\\"a\\\": \"") "]", "[user]x[assistant]<call>look()</call>"},
    {items, "[" USER ", " CALL("\"\"") "]", "[user]x[assistant]<call>look()</call>"},
    {items, "[" USER ", " CALL("\"[1]\"") "]", "[user]x[assistant]<call>look()</call>"},
    {items, "[" USER ", " CALL("\"{\\\"a\\\": 0.5}\"") "]", "[user]x[assistant]<call>look(a=0.5)</call>"},
    {texts, "[" USER ", " CALL("\"{\\\"a\\\":  123456789012345678901}\"") "]",
     "[user]x[assistant]<call>look:{\"a\":  123456789012345678901}</call>"},
    {texts, "[" USER ", " CALL("{\"a\": 1}") "]", "[user]x[assistant]<call>look:{\"a\":1}</call>"},
    {texts, "[" USER ", " CALL("\"\"") "]", "[user]x[assistant]<call>look:{}</call>"},
    {texts, "[" USER ", " CALL("\"{cut\"") "]", "[user]x[assistant]<call>look:{cut</call>"},
    {objects,
     "[" USER
     ", {\"role\": \"assistant\", \"content\": null, \"function_call\": {\"name\": \"look\", \"arguments\": \"{}\"}}, "
     "{\"role\": \"function\", \"name\": \"look\", \"content\": \"ok\"}]",
     "[user]x[assistant]<call>{\"name\": \"look\", \"arguments\": {}}</call>[tool]ok"},
    {objects, "[" USER ", {\"role\": \"assistant\", \"tool_calls\": [{\"id\": \"a\"}]}]", "!a call of a message is"},
    {objects, "[" USER ", {\"role\": \"assistant\", \"tool_calls\": {}}]", "!tool_calls is a list"},
    /* roles */
    {objects, "[{\"role\": \"developer\", \"content\": \"d\"}, " USER "]", "[system]d[user]x"},
    {developers, "[{\"role\": \"developer\", \"content\": \"d\"}, " USER "]", "[dev]d[user]x"},
    {plain, "[{\"role\": \"developer\", \"content\": \"d\"}, " USER "]", "[system]d[user]x"},
    /* contents */
    {objects,
     "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, {\"type\": \"input_text\", \"text\": "
     "\"b\"}]}]",
     "[user]ab"},
    {objects, "[" USER ", {\"role\": \"assistant\", \"content\": [{\"type\": \"refusal\", \"refusal\": \"no\"}]}]",
     "[user]x[assistant]no"},
    {objects, "[" USER ", {\"role\": \"assistant\", \"content\": null, \"refusal\": \"no\"}]", "[user]x[assistant]no"},
    {objects,
     "[" USER ", {\"role\": \"tool\", \"tool_call_id\": \"q\", \"content\": [{\"type\": \"text\", \"text\": \"t\"}]}]",
     "[user]x[tool]t"},
    {objects, "[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]", "!the model takes no pictures"},
    {objects, "[{\"role\": \"user\", \"content\": 5}]", "!the content of a message is"},
    {objects, "[{\"role\": \"user\", \"content\": null}]", "!a message has no content"},
    {objects, "[{\"role\": \"system\"}, " USER "]", "!a message has no content"},
    {objects, "[" USER ", {\"role\": \"assistant\", \"content\": null, \"tool_calls\": []}]",
     "!a message has no content"},
    {objects, "[" USER ", {\"role\": \"tool\", \"tool_call_id\": \"q\"}]", "!a message has no content"},
    {objects, "[5]", "!message 1 is not an object"},
    {objects, "[{\"content\": \"x\"}]", "!message 1 of the conversation has no \"role\""},
    {parts, "[" USER "]", "[user]x"},
    /* reasoning that is sent back */
    {thoughtful, "[" USER ", {\"role\": \"assistant\", \"content\": \"a\", \"reasoning_content\": \"r\"}]",
     "[user]x[assistant](r)a"},
    {thoughtful, "[" USER ", {\"role\": \"assistant\", \"content\": \"a\", \"reasoning\": \"r\"}]",
     "[user]x[assistant](r)a"},
    {thoughtful, "[" USER ", {\"role\": \"assistant\", \"content\": \"a\", \"thinking\": \"r\"}]",
     "[user]x[assistant](r)a"},
    {thoughtful, "[" USER ", {\"role\": \"assistant\", \"content\": \"a\", \"reasoning_content\": null}]",
     "[user]x[assistant]a"},
    {thoughtful,
     "[" USER ", {\"role\": \"assistant\", \"content\": [{\"type\": \"thinking\", \"thinking\": \"r\"}, {\"type\": "
     "\"text\", \"text\": "
     "\"a\"}]}]",
     "[user]x[assistant](r)a"},
    /* ids */
    {named_ids, "[" USER ", " CALL("\"{}\"") ", {\"role\": \"tool\", \"tool_call_id\": \"c1\", \"content\": \"ok\"}]",
     "[user]x[assistant]<call>functions.look:0<args>{}</call>[tool]ok"},
    {short_ids, "[" USER ", " CALL("\"{}\"") "]",
     "[user]x[assistant]<call>{\"name\": \"look\", \"arguments\": {}}</call>"},
    /* what a template has no place for is said in words */
    {plain,
     "[" USER
     ", " CALL("\"{\\\"a\\\": 1}\"") ", {\"role\": \"tool\", \"tool_call_id\": \"c1\", \"content\": \"A\"}, {\"role\": "
                                     "\"tool\", \"tool_call_id\": \"c2\", \"content\": \"B\"}]",
     "[user]x[assistant]<tool_call>\n{\"name\": \"look\", \"arguments\": "
     "{\"a\":1}}\n</tool_call>[user]<tool_response>\nA\n"
     "</tool_response>\n<tool_response>\nB\n</tool_response>"},
};

static dop_status
prompt_of(const char *template, const char *messages, const json_t *tools, dop_buf *out)
{
    dop_chat *chat;
    dop_tool_form *form;
    dop_answer refused = {0};
    dop_reader reader = {.answer = &refused};
    dop_diag diag = {0};
    json_t *sent = json_loads(messages, 0, NULL);
    cr_assert_not_null(sent, "%s", messages);
    cr_assert_eq(dop_chat_create(template, strlen(template), &diag, &chat), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_tool_form_create(chat, template, NULL, &diag, &form), DOP_OK, "%s", diag.message);
    json_t *list = dop_history_make(form, sent, tools, &reader, NULL);
    dop_status st = DOP_E_INPUT;
    if (list)
        st = dop_chat_render(chat, &(dop_chat_input){.messages = list, .tools = tools}, &diag, out);
    else
        dop_buf_append(out, refused.body.data, refused.body.size);
    if (list && st != DOP_OK)
        dop_buf_puts(out, diag.message);
    dop_buf_finish(&refused.body);
    json_decref(list);
    json_decref(sent);
    dop_tool_form_destroy(form);
    dop_chat_destroy(chat);
    return st;
}

Test(history, messages)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const history_case *c = &cases[i];
        dop_buf got = {0};
        const dop_status st = prompt_of(c->template, c->messages, NULL, &got);
        dop_buf_append(&got, "", 1);
        json_t *error = json_loads(got.data, 0, NULL);
        const char *message = json_string_value(json_object_get(json_object_get(error, "error"), "message"));
        if (c->want[0] == '!')
            cr_assert(st != DOP_OK && message && strncmp(message, c->want + 1, strlen(c->want) - 1) == 0, "%s: %s",
                      c->messages, got.data);
        else
            cr_assert(st == DOP_OK && strcmp(got.data, c->want) == 0, "%s:\n%s instead of\n%s", c->messages, got.data,
                      c->want);
        json_decref(error);
        dop_buf_finish(&got);
    }
}

/* A template that refuses says so in its own words. */
Test(history, refusals_of_templates)
{
    dop_buf got = {0};
    cr_assert_eq(prompt_of(plain, "[{\"role\": \"bard\", \"content\": \"x\"}]", NULL, &got), DOP_E_INPUT);
    dop_buf_append(&got, "", 1);
    cr_assert(strstr(got.data, "what is this role?"), "%s", got.data);
    dop_buf_finish(&got);
}

/* Templates that know no tools get them in words: behind the system's text, or before the user's. */
Test(history, tools_in_words)
{
    static const char *const rows[][2] = {
        {plain, "[" USER "]"},
        {plain, "[{\"role\": \"system\", \"content\": \"s\"}, " USER "]"},
        {"{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}[{{ m.role "
         "}}]{{ m.content "
         "}}{% endfor %}",
         "[" USER "]"},
    };
    static const char *const begins[] = {"[system]You may call functions.", "[system]s\n\nYou may call functions.",
                                         "[user]You may call functions."};
    json_t *tools = json_loads(
        "[{\"type\": \"function\", \"function\": {\"name\": \"look\", \"description\": \"somewhere\"}}]", 0, NULL);
    for (size_t i = 0; i < 3; i++) {
        dop_buf got = {0};
        cr_assert_eq(prompt_of(rows[i][0], rows[i][1], tools, &got), DOP_OK);
        dop_buf_append(&got, "", 1);
        cr_assert_eq(strncmp(got.data, begins[i], strlen(begins[i])), 0, "%s", got.data);
        cr_assert(strstr(got.data, "{\"name\":\"look\",\"description\":\"somewhere\"}"), "%s", got.data);
        cr_assert(
            strstr(got.data, "<tool_call>\n{\"name\": \"NAME\", \"arguments\": {\"KEY\":\"VALUE\"}}\n</tool_call>"),
            "%s", got.data);
        cr_assert(strstr(got.data, "x"), "%s", got.data);
        dop_buf_finish(&got);
    }
    json_decref(tools);
}
