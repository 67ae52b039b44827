/* How models write calls of tools.  A model's template shows it what a call looks like; which of these forms that is can
 * be told by a mark that the template contains.  The calls themselves are JSON in all of them. */
#include "runtime/server/api_internal.h"

#include <ctype.h>
#include <string.h>
#include <sys/random.h>

struct dop_tool_form {
    const char *mark;           /* in the template */
    const char *open;           /* before a call; "" where the answer itself is the call */
    const char *close;          /* behind it */
    const char *arguments;      /* the member that has them */
    const char *before, *after; /* around a call that is required; NULL: special tokens, which no grammar writes */
};

static const dop_tool_form forms[] = {
    {"<tool_call>", "<tool_call>", "</tool_call>", "arguments", "<tool_call>\n", "\n</tool_call>"},
    {"[TOOL_CALLS]", "[TOOL_CALLS]", "", "arguments", NULL, NULL},
    {"<|tool|>", "<|tool_call|>", "<|/tool_call|>", "arguments", NULL, NULL},
    {"<|python_tag|>", "", "", "parameters", "", ""},
};

const dop_tool_form *
dop_tool_form_of(const char *template)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strstr(template, forms[i].mark))
            return &forms[i];
    return NULL;
}

bool
dop_tool_form_around(const dop_tool_form *form, const char **out_before, const char **out_arguments,
                     const char **out_after)
{
    *out_before = form->before;
    *out_arguments = form->arguments;
    *out_after = form->after;
    return form->before != NULL;
}

/* Where an answer that is a call itself begins: behind blanks and the tag that may stand before it. */
static size_t
skip_tag(const char *text, size_t n)
{
    static const char tag[] = "<|python_tag|>";
    size_t at = 0;
    while (at < n && isspace((unsigned char)text[at]))
        at++;
    if (n - at >= strlen(tag) && memcmp(text + at, tag, strlen(tag)) == 0)
        at += strlen(tag);
    return at;
}

size_t
dop_tool_content(const dop_tool_form *form, const char *text, size_t n, bool ended)
{
    size_t len = strlen(form->open);
    if (len == 0) {
        size_t at = skip_tag(text, n);
        bool call = at == n || text[at] == '{' || text[at] == '<';
        if (!call)
            return n;
        json_t *calls = ended ? dop_tool_calls(form, text, n) : NULL;
        bool content = ended && !calls;
        json_decref(calls);
        return content ? n : 0;
    }
    const char *hit = n ? memmem(text, n, form->open, len) : NULL;
    if (hit)
        return (size_t)(hit - text);
    for (size_t k = len - 1 < n ? len - 1 : n; k > 0 && !ended; k--)
        if (memcmp(text + n - k, form->open, k) == 0)
            return n - k;
    return n;
}

static void
add_call(const dop_tool_form *form, const json_t *one, json_t *calls)
{
    const json_t *name = json_object_get(one, "name");
    json_t *arguments = json_object_get(one, form->arguments);
    if (!arguments)
        arguments = json_object_get(one, "arguments");
    if (!json_is_string(name))
        return;
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number = json_array_size(calls);
    char id[32];
    snprintf(id, sizeof id, "call_%016llx", (unsigned long long)number);
    dop_buf text = {0};
    if (json_is_string(arguments))
        dop_buf_append(&text, json_string_value(arguments), json_string_length(arguments));
    else if (arguments)
        dop_json_append(&text, arguments);
    else
        dop_buf_puts(&text, "{}");
    json_array_append_new(calls, json_pack("{s:s, s:s, s:{s:O, s:s}}", "id", id, "type", "function", "function", "name",
                                           name, "arguments", text.data ? text.data : "{}"));
    dop_buf_finish(&text);
}

json_t *
dop_tool_calls(const dop_tool_form *form, const char *text, size_t n)
{
    json_t *calls = json_array();
    size_t len = strlen(form->open), at = len ? 0 : skip_tag(text, n);
    while (at < n) {
        json_error_t error;
        if (len > 0) {
            const char *hit = memmem(text + at, n - at, form->open, len);
            if (!hit)
                break;
            at = (size_t)(hit - text) + len;
        }
        json_t *value = json_loadb(text + at, n - at, JSON_DISABLE_EOF_CHECK, &error);
        if (!value)
            break;
        at += (size_t)error.position;
        for (size_t i = 0; i < json_array_size(value); i++)
            add_call(form, json_array_get(value, i), calls);
        if (json_is_object(value))
            add_call(form, value, calls);
        json_decref(value);
        while (len == 0 && at < n && (isspace((unsigned char)text[at]) || text[at] == ';'))
            at++;
    }
    if (json_array_size(calls) > 0)
        return calls;
    json_decref(calls);
    return NULL;
}
