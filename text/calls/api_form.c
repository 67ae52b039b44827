/* Call formats: detected by rendering the template, otherwise from marks in its text. */
#include "text/calls/api_form.h"
#include "text/calls/api_span.h"

#include <stdlib.h>
#include <string.h>

/* Limit on interpreter steps of all renderings, about 10 ns each. About 50 renderings of common templates need 2
 * million; a malicious template may need many more. */
#define MAX_STEPS UINT64_C(50000000)

#define CALLS(open, call, between, close)                                                            \
    "{% for m in messages %}{{ m.role + ':' + (m.content or '') }}{% for c in m.tool_calls or [] %}" \
    "{% if loop.first %}" open "{% else %}" between "{% endif %}{% set f = c.function %}" call       \
    "{% if loop.last %}" close "{% endif %}{% endfor %}{{ '<end>' }}\n{% endfor %}"
#define OBJECT(arguments) "{{ {'name': f.name, '" arguments "': f.arguments} | tojson }}"
#define PAIRS(pair) "{% for k, v in f.arguments | items %}" pair "{% endfor %}"
#define VALUE "{{ v if v is string else v | tojson }}"

/* Templates often describe calls in prose without rendering earlier calls. If a template's text contains all marks
 * of a row, calls are assumed to have the format of the row's template. */
static const struct {
    const char *marks[2];
    const char *template;
} known[] = {
    {{"<|tool_calls_section_begin|>"},
     CALLS("<|tool_calls_section_begin|>",
           "<|tool_call_begin|>functions.{{ f.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>{{ f.arguments | "
           "tojson "
           "}}<|tool_call_end|>",
           "", "<|tool_calls_section_end|>")},
    {{"<\xef\xbd\x9ctool\xe2\x96\x81"
      "calls\xe2\x96\x81"
      "begin\xef\xbd\x9c>"},
     CALLS("<\xef\xbd\x9ctool\xe2\x96\x81"
           "calls\xe2\x96\x81"
           "begin\xef\xbd\x9c>",
           "<\xef\xbd\x9ctool\xe2\x96\x81"
           "call\xe2\x96\x81"
           "begin\xef\xbd\x9c>{{ f.name }}<\xef\xbd\x9ctool\xe2\x96\x81"
           "sep\xef\xbd\x9c>{{ f.arguments | tojson }}<\xef\xbd\x9ctool\xe2\x96\x81"
           "call\xe2\x96\x81"
           "end\xef\xbd\x9c>",
           "",
           "<\xef\xbd\x9ctool\xe2\x96\x81"
           "calls\xe2\x96\x81"
           "end\xef\xbd\x9c>")},
    {{"<function=", "<parameter="},
     CALLS("",
           "<tool_call>\n<function={{ f.name }}>\n" PAIRS("<parameter={{ k }}>\n" VALUE
                                                          "\n</parameter>\n") "</function>\n</tool_call>",
           "\n", "")},
    {{"<function="}, CALLS("", "<function={{ f.name }}>{{ f.arguments | tojson }}</function>", "", "")},
    {{"<arg_key>"},
     CALLS("",
           "<tool_call>{{ f.name }}\n" PAIRS("<arg_key>{{ k }}</arg_key>\n<arg_value>" VALUE
                                             "</arg_value>\n") "</tool_call>",
           "\n", "")},
    {{"]<]minimax[>[", "<invoke name="},
     "{% macro put(v) %}{% if v is mapping %}{% for k, x in v | items %}]<]minimax[>[<{{ k }}>{{ put(x) "
     "}}]<]minimax[>[</{{ k "
     "}}>{% endfor %}{% elif v is string %}{{ v }}{% elif v is iterable %}{% for x in v %}]<]minimax[>[<item>{{ put(x) "
     "}}]<]minimax[>[</item>{% endfor %}{% else %}{{ v | tojson }}{% endif %}{% endmacro %}" CALLS(
         "]<]minimax[>[<tool_call>\n",
         "]<]minimax[>[<invoke name=\"{{ f.name }}\">{{ put(f.arguments) }}]<]minimax[>[</invoke>\n", "",
         "]<]minimax[>[</tool_call>")},
    {{"<minimax:tool_call>"},
     CALLS(
         "<minimax:tool_call>\n",
         "<invoke name=\"{{ f.name }}\">\n" PAIRS("<parameter name=\"{{ k }}\">" VALUE "</parameter>\n") "</invoke>\n",
         "", "</minimax:tool_call>")},
    {{"[TOOL_CALLS]", "[ARGS]"}, CALLS("", "[TOOL_CALLS]{{ f.name }}[ARGS]{{ f.arguments | tojson }}", "", "")},
    {{"[TOOL_CALLS]"}, CALLS("[TOOL_CALLS][", OBJECT("arguments"), ", ", "]")},
    {{"<|tool_list_start|>"},
     CALLS("<|tool_call_start|>[",
           "{{ f.name }}(" PAIRS("{{ k }}={{ v | tojson }}{% if not loop.last %}, {% endif %}") ")", ", ",
           "]<|tool_call_end|>")},
    {{"<|tool_call_start|>"},
     CALLS("<|tool_call_start|>[",
           "{{ f.name }}(" PAIRS("{{ k }}={{ v | tojson }}{% if not loop.last %}, {% endif %}") ")", ", ",
           "]<|tool_call_end|>")},
    {{"<|tool_call>call:"},
     CALLS("",
           "<|tool_call>call:{{ f.name }}{{ '{' }}" PAIRS(
               "{{ k }}:{% if v is string %}<|\"|>{{ v }}<|\"|>{% else %}{{ v | "
               "tojson }}{% endif %}{% if not loop.last %},{% endif %}") "}<tool_call|>",
           "", "")},
    {{"<|tool_call|>"}, CALLS("<|tool_call|>[", OBJECT("arguments"), ", ", "]<|/tool_call|>")},
    {{"<|tool|>"}, CALLS("<|tool_call|>[", OBJECT("arguments"), ", ", "]<|/tool_call|>")},
    {{"<function_calls>"},
     CALLS("<function_calls>", "{{ f.name }}(" PAIRS("{{ k }}={{ v | tojson }}{% if not loop.last %}, {% endif %}") ")",
           "\n", "</function_calls>")},
    {{"<TOOLCALL>"}, CALLS("<TOOLCALL>[", OBJECT("arguments"), ", ", "]</TOOLCALL>")},
    {{"<|START_ACTION|>"},
     CALLS("<|START_ACTION|>[",
           "{{ {'tool_call_id': loop.index0 | string, 'tool_name': f.name, 'parameters': f.arguments} | "
           "tojson }}",
           ", ", "]<|END_ACTION|>")},
    {{"functools"}, CALLS(" functools[", OBJECT("arguments"), ", ", "]")},
    {{"<tool_calls>"}, CALLS("<tool_calls>[", OBJECT("arguments"), ", ", "]</tool_calls>")},
    {{"<tool_call>"}, CALLS("", "<tool_call>\n" OBJECT("arguments") "\n</tool_call>", "\n", "")},
    {{"<|python_tag|>"}, CALLS("", OBJECT("parameters"), "; ", "")},
    {{"\"parameters\": dictionary"}, CALLS("", OBJECT("parameters"), "; ", "")},
    {{"\"parameters\": {"}, CALLS("", OBJECT("parameters"), "; ", "")},
    /* Last row: default for templates that do not mention tool calls. */
    {{""}, CALLS("", "<tool_call>\n" OBJECT("arguments") "\n</tool_call>", "\n", "")},
};

/* True if the template's text contains the marks of a row. With a tokenizer: true if the row has a single mark, and
 * it is a token of the model. */
static bool
row_fits_template(size_t row, const char *template, const dop_tokenizer *tok)
{
    const char *const *marks = known[row].marks;
    if (!tok)
        return strstr(template, marks[0]) && (!marks[1] || strstr(template, marks[1]));
    const uint32_t id = marks[0][0] && !marks[1] ? dop_tokenizer_find(tok, marks[0], strlen(marks[0])) : DOP_NO_TOKEN;
    return id != DOP_NO_TOKEN && (marks[0][0] == '<' || marks[0][0] == '[');
}

static dop_status
find_form_by_marks(const char *template, const dop_tokenizer *tok, dop_diag *diag, dop_tool_form *form)
{
    enum { ROWS = sizeof known / sizeof *known };
    size_t row = 0;
    while (row + 1 < ROWS && !row_fits_template(row, template, NULL))
        row++;
    if (row + 1 == ROWS && tok) {
        /* no marks in the text; look for tokens of the model */
        row = 0;
        while (row + 1 < ROWS && !row_fits_template(row, template, tok))
            row++;
    }
    dop_chat *chat = NULL;
    const char *text = known[row].template;
    dop_status st = DOP_OK;
    DOP_TRY(dop_chat_create(text, strlen(text), diag, &chat));
    dop_budget budget = {.steps = MAX_STEPS, .bytes = UINT64_MAX};
    const dop_probe p = {.chat = chat, .budget = &budget};
    if (!dop_form_find_calls(&p, form))
        DOP_TRY(DOP_FAIL(diag, DOP_E_INPUT, "the form of calls after %s is not understood", known[row].marks[0]));
error:
    dop_chat_destroy(chat);
    return st;
}

dop_status
dop_tool_form_create(const dop_chat *chat, const char *template, const dop_tokenizer *tok, dop_diag *diag,
                     dop_tool_form **out_form)
{
    dop_tool_form *form = calloc(1, sizeof *form);
    dop_budget budget = {.steps = MAX_STEPS, .bytes = UINT64_MAX};
    const dop_probe p = {.chat = chat, .tok = tok, .budget = &budget};
    dop_status st = DOP_OK;
    *out_form = NULL;
    if (!form)
        return DOP_NO_MEMORY(diag);
    if (strstr(template, "<|channel|>"))
        form->manner = DOP_FORM_CHANNELS;
    if (chat) /* also for DOP_FORM_CHANNELS: rendering of histories is independent of how calls are parsed */
        form->shows_calls = dop_form_find_calls(&p, form);
    if (strstr(template, "<|channel|>"))
        form->manner = DOP_FORM_CHANNELS;
    else if (!form->shows_calls)
        st = find_form_by_marks(template, tok, diag, form);
    if (st == DOP_OK && chat)
        dop_form_find_rest(&p, template, form);
    const char *thought = form->open && form->think_close ? strstr(form->open, form->think_close) : NULL;
    if (thought) { /* drop an empty reasoning block, which begins every answer, from the call's mark */
        thought += strlen(form->think_close);
        thought += dop_span_blank(thought, strlen(thought), 0);
        memmove(form->open, thought, strlen(thought) + 1);
    }
    if (st != DOP_OK) {
        dop_tool_form_destroy(form);
        return st;
    }
    *out_form = form;
    return DOP_OK;
}

void
dop_tool_form_destroy(dop_tool_form *form)
{
    if (!form)
        return;
    char *texts[] = {form->open,       form->middle,      form->next,          form->tail,
                     form->head,       form->name_key,    form->arguments_key, form->arg_open,
                     form->assign,     form->value_close, form->quote,         form->item,
                     form->think_open, form->think_close, form->content_open,  form->content_close};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free(texts[i]);
    for (size_t i = 0; i < DOP_TYPES; i++) {
        free(form->words[i]);
        free(form->spelling[i]);
    }
    json_decref(form->thinking_on);
    json_decref(form->thinking_off);
    free(form);
}
