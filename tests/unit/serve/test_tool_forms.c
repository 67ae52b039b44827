/* Forms of calls found by rendering templates: small ones of our own that imitate the families', and real ones where they are there.
 * What a template writes of a call is read back as that call, and the grammar of a required call takes it. */
#include "serve/api/api_history.h"
#include "serve/api/api_require.h"
#include "serve/api/api_tools.h"
#include "tests/unit/tokenizer_util.h"
#include "text/import/tokenizer_hf.h"

#include "serve/api/api_internal.h"
#include "text/grammar/grammar.h"

#include <dirent.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A template of turns; `open`, `between` and `close` stand around calls, `call` writes the call c of the function f. */
#define TEMPLATE(open, between, close, call)                                                                    \
    "{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}{% for m in messages %}{{ '<|' + m.role + '|>' }}" \
    "{{ m.content or '' }}{% for c in m.tool_calls or [] %}{% if loop.first %}" open "{% else %}" between       \
    "{% endif %}{% set f = c.function %}" call "{% if loop.last %}" close "{% endif %}{% endfor %}<|end|>\n"    \
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
#define EACH(pair) "{% for k, v in f.arguments | items %}" pair "{% endfor %}"
#define TEXT "{{ v if v is string else v | tojson }}"
#define OBJECT(arguments) "{{ {'name': f.name, '" arguments "': f.arguments} | tojson }}"
#define COMMA "{% if not loop.last %}, {% endif %}"

typedef struct form_case {
    const char *name;
    dop_form_manner manner;
    const char *template;
} form_case;

static const form_case forms[] = {
    {"tags around JSON", DOP_FORM_OBJECT, TEMPLATE("", "\n", "", "<tool_call>\n" OBJECT("arguments") "\n</tool_call>")},
    {"bare JSON", DOP_FORM_OBJECT, TEMPLATE("", "; ", "", OBJECT("parameters"))},
    {"a list behind a mark", DOP_FORM_OBJECT, TEMPLATE("[TOOL_CALLS][", ", ", "]", OBJECT("arguments"))},
    {"a list with ids", DOP_FORM_OBJECT,
     TEMPLATE("[TOOL_CALLS] [", ", ", "]", "{{ {'id': c.id, 'name': f.name, 'arguments': f.arguments} | tojson }}")},
    {"a list between tags", DOP_FORM_OBJECT, TEMPLATE("<TOOLCALL>[", ", ", "]</TOOLCALL>", OBJECT("arguments"))},
    {"objects on lines", DOP_FORM_OBJECT, TEMPLATE("<tool_calls>\n", "\n", "\n</tool_calls>", OBJECT("arguments"))},
    {"other members", DOP_FORM_OBJECT,
     TEMPLATE("<|START_ACTION|>[\n", ",\n", "\n]<|END_ACTION|>",
              "{\"tool_call_id\": \"{{ loop.index0 }}\", \"tool_name\": {{ f.name | tojson }}, \"parameters\": {{ "
              "f.arguments | "
              "tojson }}}")},
    {"the name as the key", DOP_FORM_OBJECT,
     TEMPLATE("<|tools_prefix|>[", ", ", "]<|tools_suffix|>", "{{ {f.name: f.arguments} | tojson }}")},
    {"a function within", DOP_FORM_OBJECT,
     TEMPLATE(
         "", "", "",
         "<call>{{ {'type': 'function', 'function': {'name': f.name, 'arguments': f.arguments}} | tojson }}</call>")},
    {"name and arguments", DOP_FORM_NAMED,
     TEMPLATE("", "", "", "[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments | tojson }}")},
    {"name, id and arguments", DOP_FORM_NAMED,
     TEMPLATE("", "", "", "[TOOL_CALLS]{{ f.name }}[CALL_ID]{{ c.id }}[ARGS]{{ f.arguments | tojson }}")},
    {"sections", DOP_FORM_NAMED,
     TEMPLATE("<calls_begin>", "\n", "<calls_end>",
              "<call_begin>function<sep>{{ f.name }}\n```json\n{{ f.arguments | tojson }}\n```<call_end>")},
    {"sections and numbers", DOP_FORM_NAMED,
     TEMPLATE("<|calls_begin|>", "", "<|calls_end|>",
              "<|call_begin|>functions.{{ f.name }}:{{ loop.index0 }}<|args|>{{ f.arguments | tojson }}<|call_end|>")},
    {"a function's tag", DOP_FORM_NAMED,
     TEMPLATE("", "", "", "<function={{ f.name }}>{{ f.arguments | tojson }}</function>")},
    {"lines", DOP_FORM_NAMED, TEMPLATE("", "", "", ">>>{{ f.name }}\n{{ f.arguments | tojson }}")},
    {"nested tags", DOP_FORM_KEYS,
     TEMPLATE("", "\n", "",
              "<tool_call>\n<function={{ f.name }}>\n" EACH("<parameter={{ k }}>\n" TEXT
                                                            "\n</parameter>\n") "</function>\n</tool_call>")},
    {"attributes", DOP_FORM_KEYS,
     TEMPLATE(
         "<m:tool_call>\n", "", "</m:tool_call>",
         "<invoke name=\"{{ f.name }}\">\n" EACH("<parameter name=\"{{ k }}\">" TEXT "</parameter>\n") "</invoke>\n")},
    {"attributes that tell the type", DOP_FORM_KEYS,
     TEMPLATE("<|calls>\n", "\n", "\n</|calls>",
              "<|invoke name=\"{{ f.name }}\">\n" EACH(
                  "<|parameter name=\"{{ k }}\" string=\"{{ 'true' if v is string else 'false' "
                  "}}\">" TEXT "</|parameter>\n") "</|invoke>")},
    {"keys and values", DOP_FORM_KEYS,
     TEMPLATE("", "\n", "",
              "<tool_call>{{ f.name }}\n" EACH("<arg_key>{{ k }}</arg_key>\n<arg_value>" TEXT
                                               "</arg_value>\n") "</tool_call>")},
    {"keys and values on one line", DOP_FORM_KEYS,
     TEMPLATE(
         "", "", "",
         "<tool_call>{{ f.name }}" EACH("<arg_key>{{ k }}</arg_key><arg_value>" TEXT "</arg_value>") "</tool_call>")},
    {"tags named by keys", DOP_FORM_KEYS,
     "{% macro put(v) %}{% if v is mapping %}{% for k, x in v | items %}~[<{{ k }}>{{ put(x) }}~[</{{ k }}>{% endfor %}"
     "{% elif v is string %}{{ v }}{% elif v is iterable %}{% for x in v %}~[<item>{{ put(x) }}~[</item>{% endfor %}"
     "{% else %}{{ v | tojson }}{% endif %}{% endmacro %}" TEMPLATE(
         "~[<tool_call>\n", "", "~[</tool_call>",
         "~[<invoke name=\"{{ f.name }}\">{{ put(f.arguments) }}~[</invoke>\n")},
    {"Python", DOP_FORM_LITERAL, TEMPLATE("[", ", ", "]", "{{ f.name }}(" EACH("{{ k }}={{ v | tojson }}" COMMA) ")")},
    {"Python on lines", DOP_FORM_LITERAL,
     TEMPLATE("<function_calls>", "\n", "</function_calls>",
              "{{ f.name }}(" EACH("{{ k }}={{ v | tojson }}" COMMA) ")")},
    {"Python between marks", DOP_FORM_LITERAL,
     TEMPLATE("<|tool_call_start|>[", ", ", "]<|tool_call_end|>",
              "{{ f.name }}(" EACH("{{ k }}={% if v is string %}'{{ v }}'{% else %}{{ v }}{% endif %}" COMMA) ")")},
    {"marks for quotation", DOP_FORM_LITERAL,
     TEMPLATE("", "", "",
              "<|tool_call>call:{{ f.name }}{{ '{' }}" EACH(
                  "{{ k }}:{% if v is string %}<|\"|>{{ v }}<|\"|>{% else %}{{ v | tojson }}{% endif %}"
                  "{% if not loop.last %},{% endif %}") "}<tool_call|>")},
};

static const char *const samples[] = {
    "{\"city\": \"Paris\", \"days\": 5}",
    "{}",
    "{\"city\": \"\"}",
    "{\"city\": \"01234\", \"ok\": true}",
    "{\"days\": -3, \"list\": [1, \"a\", {\"k\": false}], \"more\": {\"a\": {\"b\": 1.5}}}",
    "{\"city\": \"  two\\nlines, \\u00e9 <b>bold</b> & {braces} \"}",
};

static json_t *
tools_of(void)
{
    json_t *parameters =
        json_loads("{\"type\": \"object\", \"properties\": {\"city\": {\"type\": \"string\"}, \"days\": {\"type\": "
                   "\"integer\"}, \"ok\": {\"type\": \"boolean\"}, \"list\": {\"type\": \"array\"}, \"more\": "
                   "{\"type\": \"object\"}}}",
                   0, NULL);
    json_t *tools = json_pack("[{s:s, s:{s:s, s:s, s:O}}, {s:s, s:{s:s, s:s, s:O}}]", "type", "function", "function",
                              "name", "look_up", "description", "x", "parameters", parameters, "type", "function",
                              "function", "name", "look", "description", "y", "parameters", parameters);
    cr_assert_not_null(tools);
    json_decref(parameters);
    return tools;
}

static json_t *
call_of(const char *name, const char *arguments, unsigned number)
{
    char id[16];
    snprintf(id, sizeof id, "callx%04u", number);
    return json_pack("{s:s, s:s, s:{s:s, s:s}}", "id", id, "type", "function", "function", "name", name, "arguments",
                     arguments);
}

/* What the template writes as the answer with these calls; NULL: it refuses. */
static char *
answer_of(const dop_chat *chat, const dop_tool_form *form, const json_t *tools, const json_t *calls, bool *out_thinks)
{
    dop_answer refused = {0};
    dop_reader reader = {.answer = &refused};
    dop_buf text = {0}, prompt = {0};
    dop_diag diag = {0};
    json_t *messages = json_pack("[{s:s, s:s}, {s:s, s:n, s:O}]", "role", "user", "content", "Speak, dopuser", "role",
                                 "assistant", "content", "tool_calls", calls);
    json_t *list = dop_history_make(form, messages, tools, &reader, NULL);
    cr_assert_not_null(list, "%s", refused.body.data);
    dop_chat_input in = {.messages = list, .tools = tools};
    const bool good = dop_chat_render(chat, &in, &diag, &text) == DOP_OK;
    json_array_remove(list, json_array_size(list) - 1);
    in.add_generation_prompt = true;
    (void)dop_chat_render(chat, &in, &diag, &prompt);
    dop_buf_append(&text, "", 1);
    dop_buf_append(&prompt, "", 1);
    char *from = text.data, *before = prompt.data, *answer = NULL;
    for (char *hit = from; (hit = strstr(hit, "dopuser")); hit++)
        from = hit;
    for (char *hit = before; (hit = strstr(hit, "dopuser")); hit++)
        before = hit;
    if (good) {
        const size_t skip = dop_form_answer(from, before), n = form->think_open ? strlen(form->think_open) : 0;
        size_t end = strlen(before);
        while (end > 0 && strchr("\n ", before[end - 1]))
            end--;
        *out_thinks = skip == strlen(before) && n > 0 && end >= n && memcmp(before + end - n, form->think_open, n) == 0;
        answer = strdup(from + skip);
    }
    json_decref(list);
    json_decref(messages);
    dop_buf_finish(&text);
    dop_buf_finish(&prompt);
    return answer;
}

/* Compares calls with those that were read; tells by which arguments, or NULL. */
static const char *
difference(const json_t *calls, const json_t *got)
{
    static char told[512];
    size_t i;
    const json_t *call;
    if (json_array_size(calls) != json_array_size(got))
        return "the number of calls";
    json_array_foreach(calls, i, call)
    {
        const json_t *want = json_object_get(call, "function"),
                     *own = json_object_get(json_array_get(got, i), "function");
        const char *text = json_string_value(json_object_get(own, "arguments"));
        json_t *a = json_loads(json_string_value(json_object_get(want, "arguments")), 0, NULL),
               *b = json_loads(text, 0, NULL);
        const bool same = json_equal(a, b) && json_equal(json_object_get(want, "name"), json_object_get(own, "name"));
        snprintf(told, sizeof told, "%s", text);
        json_decref(a);
        json_decref(b);
        if (!same)
            return told;
    }
    return NULL;
}

static const char *
read_back(const dop_tool_form *form, const json_t *tools, const char *answer, bool thinks, const json_t *calls)
{
    dop_reading r;
    dop_reading_begin(&r, &(dop_reading_terms){.form = form, .tools = tools, .thinks = thinks});
    for (size_t i = 1; i < strlen(answer); i++)
        dop_reading_feed(&r, answer, i, false);
    dop_reading_feed(&r, answer, strlen(answer), true);
    const char *different = difference(calls, r.calls);
    dop_reading_finish(&r);
    return different;
}

Test(tool_forms, are_found_and_calls_are_read_back)
{
    json_t *tools = tools_of();
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        dop_chat *chat;
        dop_tool_form *form;
        const char *text = forms[i].template;
        cr_assert_eq(dop_chat_create(text, strlen(text), NULL, &chat), DOP_OK);
        cr_assert_eq(dop_tool_form_create(chat, text, NULL, NULL, &form), DOP_OK);
        cr_assert(form->shows_calls, "%s: not found", forms[i].name);
        cr_assert_eq(form->manner, forms[i].manner, "%s: %d", forms[i].name, (int)form->manner);
        cr_assert(form->shows_tools && form->shows_results && form->several, "%s", forms[i].name);
        for (size_t k = 0; k < sizeof samples / sizeof *samples; k++)
            for (unsigned n = 1; n <= 2; n++) {
                bool thinks = false;
                json_t *calls = json_array();
                for (unsigned c = 0; c < n; c++)
                    json_array_append_new(calls, call_of(c ? "look" : "look_up", samples[(k + c) % 6], c));
                char *answer = answer_of(chat, form, tools, calls, &thinks);
                cr_assert_not_null(answer);
                const char *different = read_back(form, tools, answer, thinks, calls);
                cr_assert_null(different, "%s: %s is read from\n%s", forms[i].name, different, answer);
                free(answer);
                json_decref(calls);
            }
        dop_tool_form_destroy(form);
        dop_chat_destroy(chat);
    }
    json_decref(tools);
}

/* Seconds by which the clock runs ahead at every look at it: a machine that stands still between them. */
static _Atomic long stands_still, ahead;

int
clock_gettime(clockid_t id, struct timespec *out)
{
    const int result = (int)syscall(SYS_clock_gettime, id, out);
    ahead += stands_still;
    out->tv_sec += ahead;
    return result;
}

Test(tool_forms, are_found_on_a_machine_that_stands_still)
{
    const char *text = forms[0].template;
    dop_chat *chat;
    dop_tool_form *form;
    cr_assert_eq(dop_chat_create(text, strlen(text), NULL, &chat), DOP_OK);
    stands_still = 10;
    const dop_status st = dop_tool_form_create(chat, text, NULL, NULL, &form);
    dop_tool_form *other;
    const dop_status without = dop_tool_form_create(NULL, "", NULL, NULL, &other);
    stands_still = 0;
    cr_assert_eq(st, DOP_OK);
    cr_assert_eq(without, DOP_OK);
    cr_assert(form->shows_calls && form->manner == forms[0].manner);
    dop_tool_form_destroy(form);
    dop_tool_form_destroy(other);
    dop_chat_destroy(chat);
}

/* A template that would render for hours is given up after a number of steps. */
Test(tool_forms, templates_that_take_long)
{
    static const char text[] = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}";
    dop_chat *chat;
    dop_tool_form *form;
    cr_assert_eq(dop_chat_create(text, strlen(text), NULL, &chat), DOP_OK);
    cr_assert_eq(dop_tool_form_create(chat, text, NULL, NULL, &form), DOP_OK);
    cr_assert(!form->shows_calls);
    dop_tool_form_destroy(form);
    dop_chat_destroy(chat);
}

/* The grammar of a required call takes what the template writes, and nothing that is cut. */
Test(tool_forms, required_calls)
{
    dop_tokenizer *tok;
    dop_vocab *vocab;
    size_t n_ends;
    json_t *tools = tools_of();
    cr_assert_eq(dop_tokenizer_from_hf_dir(DOP_SOURCE_DIR "/examples/shakespeare-gemma3", NULL, &tok), DOP_OK);
    const uint32_t *ends = dop_tokenizer_end_ids(tok, &n_ends);
    cr_assert_eq(dop_vocab_create(tok, dop_tokenizer_vocab_size(tok), ends, n_ends, NULL, &vocab), DOP_OK);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        dop_chat *chat;
        dop_tool_form *form;
        dop_grammar *grammar;
        dop_shape_demand demand = {.parts = NULL};
        const char *text = forms[i].template;
        cr_assert_eq(dop_chat_create(text, strlen(text), NULL, &chat), DOP_OK);
        cr_assert_eq(dop_tool_form_create(chat, text, NULL, NULL, &form), DOP_OK);
        cr_assert_null(dop_tool_require(form, tools, NULL, &demand));
        cr_assert_eq(dop_grammar_from_parts(vocab, demand.parts, NULL, NULL, &grammar), DOP_OK);
        for (size_t k = 0; k < 5; k++) {
            const char *yes = form->spelling[DOP_TYPE_BOOL];
            if (k == 4 && (form->item || (yes && strcmp(yes, "True") == 0))) /* lists are written as JSON there */
                continue;
            bool thinks = false;
            json_t *calls = json_array();
            json_array_append_new(calls, call_of("look", samples[k], 0));
            char *answer = answer_of(chat, form, tools, calls, &thinks), *end = strstr(answer, "<|end|>");
            dop_ids ids = {0};
            dop_matcher *matcher;
            cr_assert(end);
            cr_assert_eq(dop_tokenizer_encode(tok, answer, (size_t)(end - answer), 0, NULL, &ids), DOP_OK);
            cr_assert_eq(dop_matcher_create(grammar, NULL, &matcher), DOP_OK);
            for (size_t t = 0; t < ids.count; t++) {
                cr_assert(!dop_matcher_may_end(matcher) || t + 1 == ids.count, "%s: may end within %s", forms[i].name,
                          answer);
                cr_assert_eq(dop_matcher_accept(matcher, ids.data[t], NULL), DOP_OK, "%s: token %zu of %s",
                             forms[i].name, t, answer);
            }
            cr_assert(dop_matcher_may_end(matcher), "%s: does not end after %s", forms[i].name, answer);
            dop_matcher_destroy(matcher);
            dop_ids_finish(&ids);
            free(answer);
            json_decref(calls);
        }
        dop_grammar_release(grammar);
        json_decref(demand.parts);
        cr_assert_not_null(dop_tool_require(form, tools, "ghost", &demand));
        dop_tool_form_destroy(form);
        dop_chat_destroy(chat);
    }
    dop_vocab_destroy(vocab);
    dop_tokenizer_destroy(tok);
    json_decref(tools);
}

/* Marks around reasoning and answers, and the name that reasoning has in messages. */
Test(tool_forms, reasoning)
{
    static const struct {
        const char *message, *member, *open, *close, *answer;
        const char *start; /* text behind the role, where an answer begins */
    } rows[] = {
        {"{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}",
         "reasoning_content", "<think>", "</think>", NULL, NULL},
        {"{% if m.thinking %}[THINK]{{ m.thinking }}[/THINK]{% endif %}{{ m.content }}", "thinking", "[THINK]",
         "[/THINK]", NULL, NULL},
        {"{% if m.reasoning %}<|think|>{{ m.reasoning }}<|stop|><|begin|>assistant{% endif %}<|content|>{{ m.content "
         "}}",
         "reasoning", "<|think|>", "<|stop|><|begin|>assistant", "<|content|>", NULL},
        {"{{ m.content }}", NULL, NULL, NULL, NULL, NULL},
        /* beside calls only, before a mark that begins in the same way */
        {"{% if m.reasoning and m.tool_calls %}<|channel>thought\n{{ m.reasoning }}\n<channel|>{% endif %}{% if "
         "m.tool_calls %}<|tool_call>{{ m.tool_calls[0].function.name }}{% endif %}{{ m.content }}",
         "reasoning", "<|channel>thought", "<channel|>", NULL, NULL},
        {"{{ m.content.split('<channel|>')[-1] }}", NULL, "<|channel>thought", "<channel|>", NULL, NULL},
        /* behind words that the prompt ends with */
        {"{% if m.reasoning_content %}{{ m.reasoning_content }}\n[FINAL]\n{% endif %}{{ m.content }}",
         "reasoning_content", "These are my steps:", "[FINAL]", NULL, "These are my steps:\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_buf text = {0};
        dop_chat *chat;
        dop_tool_form *form;
        dop_buf_printf(
            &text,
            "{%% for m in messages %%}{{ '<|' + m.role + '|>' }}{%% if m.role == 'assistant' %%}%s{%% else %%}{{ "
            "m.content }}{%% endif %%}<|end|>{%% endfor %%}{%% if add_generation_prompt %%}<|assistant|>%s{%% endif "
            "%%}",
            rows[i].message, rows[i].start ? rows[i].start : "");
        cr_assert_eq(dop_chat_create(text.data, text.size, NULL, &chat), DOP_OK);
        cr_assert_eq(dop_tool_form_create(chat, text.data, NULL, NULL, &form), DOP_OK);
        const char *const got[] = {form->reasoning, form->think_open, form->think_close, form->content_open};
        const char *const want[] = {rows[i].member, rows[i].open, rows[i].close, rows[i].answer};
        for (size_t k = 0; k < 4; k++)
            cr_assert((!got[k] && !want[k]) || (got[k] && want[k] && strcmp(got[k], want[k]) == 0),
                      "row %zu: %s instead of %s", i, got[k] ? got[k] : "nothing", want[k] ? want[k] : "nothing");
        dop_tool_form_destroy(form);
        dop_chat_destroy(chat);
        dop_buf_finish(&text);
    }
}

/* Variables that turn reasoning on and off. */
Test(tool_forms, switches_of_reasoning)
{
    static const struct {
        const char *prompt, *name, *off; /* off: the value as JSON */
    } rows[] = {
        {"{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}", "enable_thinking",
         "false"},
        {"{% if thinking %}<think>{% else %}</think>{% endif %}", "thinking", "false"},
        {"{% if not reasoning | default(true) %}<think></think>{% endif %}", "reasoning", "false"},
        {"{% if thinking_budget is defined and thinking_budget == 0 %}<think></think>{% endif %}", "thinking_budget",
         "0"},
        {"{% if reasoning_effort == 'none' %}[THINK][/THINK]{% endif %}", "reasoning_effort", "\"none\""},
        {"Effort: {{ reasoning_effort }}", NULL, NULL},
        {"<think>", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        dop_buf text = {0};
        dop_chat *chat;
        dop_tool_form *form;
        dop_buf_printf(
            &text,
            "{%% for m in messages %%}{{ m.content }}{%% endfor %%}{%% if add_generation_prompt %%}%s{%% endif %%}",
            rows[i].prompt);
        cr_assert_eq(dop_chat_create(text.data, text.size, NULL, &chat), DOP_OK);
        cr_assert_eq(dop_tool_form_create(chat, text.data, NULL, NULL, &form), DOP_OK);
        const char *name = form->thinking_switch;
        cr_assert((!name && !rows[i].name) || (name && rows[i].name && strcmp(name, rows[i].name) == 0), "row %zu: %s",
                  i, name ? name : "nothing");
        char *off = name ? json_dumps(form->thinking_off, JSON_ENCODE_ANY) : NULL;
        cr_assert(!name || strcmp(off, rows[i].off) == 0, "%s", off);
        free(off);
        dop_tool_form_destroy(form);
        dop_chat_destroy(chat);
        dop_buf_finish(&text);
    }
}

/* Every real template with tools reads back what it writes. */
Test(tool_forms, real_templates)
{
    DIR *dir = opendir(DOP_SHARED_DIR "/golden/chat_templates");
    json_t *tools = tools_of();
    unsigned n = 0, derived = 0;
    if (!dir)
        cr_skip_test("no shared data");
    for (const struct dirent *e; (e = readdir(dir));) {
        char path[1024];
        dop_buf text = {0};
        dop_chat *chat;
        dop_tool_form *form;
        if (!strstr(e->d_name, ".jinja"))
            continue;
        snprintf(path, sizeof path, DOP_SHARED_DIR "/golden/chat_templates/%s", e->d_name);
        cr_assert(util_read(path, &text));
        dop_buf_append(&text, "", 1);
        if (strstr(text.data, "tool") && dop_chat_create(text.data, text.size - 1, NULL, &chat) == DOP_OK) {
            cr_assert_eq(dop_tool_form_create(chat, text.data, NULL, NULL, &form), DOP_OK, "%s", e->d_name);
            n++;
            derived += form->shows_calls;
            for (size_t k = 0; k < 5; k++) {
                bool thinks = false;
                json_t *calls = json_array();
                json_array_append_new(calls, call_of("look_up", samples[k], 0));
                char *answer = answer_of(chat, form, tools, calls, &thinks);
                const char *different = answer ? read_back(form, tools, answer, thinks, calls) : NULL;
                cr_assert_null(different, "%s: %s is read from\n%s", e->d_name, different, answer);
                free(answer);
                json_decref(calls);
            }
            dop_tool_form_destroy(form);
            dop_chat_destroy(chat);
        }
        dop_buf_finish(&text);
    }
    closedir(dir);
    json_decref(tools);
    printf("%u real templates with tools, of which %u show their calls\n", n, derived);
    cr_assert_gt(n, 5);
}
