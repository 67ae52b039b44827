/* How models write calls of tools.  A model's chat template shows it what a call looks like, and a mark that the template
 * contains tells which of these forms that is.  Arguments are JSON in all forms but one. */
#include "runtime/server/api_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef enum manner {
    OBJECTS, /* {"name": ..., "parameters": ...}, or a list of such; after some marks NAME[ARGS]{...} too */
    KEYS,    /* NAME, then <arg_key>KEY</arg_key><arg_value>VALUE</arg_value> for each argument */
    CHANNELS /* of messages with headers: api_harmony.c */
} manner;

struct dop_tool_form {
    const char *mark; /* in the template */
    manner manner;
    const char *open;           /* before a call; "" where the answer itself is the call */
    const char *arguments;      /* the member that has them */
    const char *before, *after; /* around a call that is required, by the grammar; NULL: it cannot be required */
    const char *begin; /* what the prompt then ends with, because no grammar writes special tokens; %s: the function */
    bool list;         /* a required call stands in a list */
};

static const dop_tool_form forms[] = {
    {"<|channel|>", CHANNELS, "", "", "", "", "<|channel|>commentary to=functions.%s <|constrain|>json<|message|>",
     false},
    {"<arg_key>", KEYS, "<tool_call>", "", NULL, NULL, "", false},
    {"<tool_call>", OBJECTS, "<tool_call>", "arguments", "<tool_call>\n", "\n</tool_call>", "", false},
    {"[TOOL_CALLS]", OBJECTS, "[TOOL_CALLS]", "arguments", "", "", "[TOOL_CALLS]", true},
    {"<|tool|>", OBJECTS, "<|tool_call|>", "arguments", "", "", "<|tool_call|>", true},
    {"<|python_tag|>", OBJECTS, "", "parameters", "", "", "", false},
    {"\"parameters\": dictionary", OBJECTS, "", "parameters", "", "", "",
     false}, /* Llama 3.2 describes the form in words */
};

const dop_tool_form *
dop_tool_form_of(const char *template)
{
    if (strstr(template, "<function=")) /* Qwen3-Coder writes calls as nested tags, which is none of these forms */
        return NULL;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strstr(template, forms[i].mark))
            return &forms[i];
    return NULL;
}

bool
dop_tool_form_has_channels(const dop_tool_form *form)
{
    return form && form->manner == CHANNELS;
}

/* --- calls that are required ------------------------------------------------------------------------------------------------- */

/* The schemas of the functions that may be called: all of `tools`, or the one of this name.  A schema describes a whole call, or,
 * where the prompt already names the function, its arguments. */
static json_t *
functions_of(const dop_tool_form *form, const json_t *tools, const char *only, const char **out_name)
{
    json_t *any = json_array();
    size_t i;
    const json_t *tool;
    json_array_foreach(tools, i, tool)
    {
        const json_t *function = json_object_get(tool, "function"),
                     *parameters = json_object_get(function, "parameters");
        const char *name = json_string_value(json_object_get(function, "name"));
        if (!name || (only && strcmp(only, name) != 0))
            continue;
        json_t *schema = parameters ? json_deep_copy(parameters) : json_pack("{s:s}", "type", "object");
        *out_name = name;
        if (json_is_object(schema)) /* references within it begin there (JSON schema 2020-12, section 8.2.1) */
            json_object_set_new(schema, "$id", json_sprintf("tool:%zu", i));
        if (form->manner != CHANNELS)
            schema = json_pack("{s:s, s:{s:{s:s}, s:o}, s:[s, s]}", "type", "object", "properties", "name", "const",
                               name, form->arguments, schema, "required", "name", form->arguments);
        json_array_append_new(any, schema);
    }
    return any;
}

const char *
dop_tool_require(const dop_tool_form *form, const json_t *tools, const char *only, dop_tool_demand *out)
{
    const char *name = NULL;
    memset(out, 0, sizeof *out);
    if (!form->before)
        return "calls in the form of this model's template cannot be required";
    json_t *any = functions_of(form, tools, only, &name);
    const size_t n = json_array_size(any);
    if (n == 0 || (n > 1 && form->manner == CHANNELS)) {
        json_decref(any);
        return n == 0 ? "tool_choice names a function that is not among the tools"
                      : "this model's template wants the name of the function whose call is required";
    }
    out->schema = n == 1 ? json_incref(json_array_get(any, 0)) : json_pack("{s:O}", "anyOf", any);
    json_decref(any);
    if (form->list)
        out->schema =
            json_pack("{s:s, s:o, s:i, s:i}", "type", "array", "items", out->schema, "minItems", 1, "maxItems", 1);
    out->before = form->before;
    out->after = form->after;
    const size_t size = strlen(form->begin) + strlen(name) + 1;
    out->begin = malloc(size);
    const char *hole = strstr(form->begin, "%s");
    if (out->begin && hole)
        snprintf(out->begin, size, "%.*s%s%s", (int)(hole - form->begin), form->begin, name, hole + 2);
    else if (out->begin)
        snprintf(out->begin, size, "%s", form->begin);
    return out->begin && out->schema ? NULL : "out of memory";
}

/* --- calls that were written ------------------------------------------------------------------------------------------------- */

/* Where an answer that is itself a call begins: after white space and an optional tag. */
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

static void
add_object(const dop_tool_form *form, const json_t *one, json_t *calls)
{
    const char *name = json_string_value(json_object_get(one, "name"));
    json_t *arguments = json_object_get(one, form->arguments);
    if (!arguments)
        arguments = json_object_get(one, "arguments");
    dop_buf text = {0};
    if (json_is_string(arguments))
        dop_buf_append(&text, json_string_value(arguments), json_string_length(arguments));
    else if (arguments)
        dop_json_encode(&text, arguments);
    else
        dop_buf_puts(&text, "{}");
    if (name)
        dop_json_add_call(calls, name, strlen(name), text.data ? text.data : "{}", text.size);
    dop_buf_finish(&text);
}

/* NAME[ARGS]{...}; returns where it ends, 0: it is no such call. */
static size_t
named_call(const char *text, size_t n, json_t *calls)
{
    static const char mark[] = "[ARGS]";
    const char *hit = memmem(text, n, mark, strlen(mark));
    const size_t name = hit ? (size_t)(hit - text) : 0, at = name + strlen(mark);
    size_t end = 0;
    for (size_t i = 0; i < name; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("_-.", text[i]))
            return 0;
    json_t *value = name ? dop_json_begin(text + at, n - at, &end) : NULL;
    if (!value)
        return 0;
    dop_json_add_call(calls, text, name, text + at, end);
    json_decref(value);
    return at + end;
}

/* NAME and the keys of its arguments; returns where it ends. */
static size_t
call_by_keys(const char *text, size_t n, json_t *calls)
{
    static const char key_[] = "<arg_key>", _key[] = "</arg_key>", value_[] = "<arg_value>", _value[] = "</arg_value>",
                      close[] = "</tool_call>";
    const char *end = memmem(text, n, close, strlen(close));
    size_t at = 0, name = 0;
    json_t *arguments = json_object();
    n = end ? (size_t)(end - text) : n;
    while (at < n && isspace((unsigned char)text[at]))
        at++;
    const char *first = text + at;
    while (at + name < n && !isspace((unsigned char)first[name]) && first[name] != '<')
        name++;
    for (at += name;;) {
        const char *k = memmem(text + at, n - at, key_, strlen(key_));
        const char *k_end = k ? memmem(k, n - (size_t)(k - text), _key, strlen(_key)) : NULL;
        const char *v = k_end ? memmem(k_end, n - (size_t)(k_end - text), value_, strlen(value_)) : NULL;
        const char *v_end = v ? memmem(v, n - (size_t)(v - text), _value, strlen(_value)) : NULL;
        if (!v_end)
            break;
        k += strlen(key_);
        v += strlen(value_);
        json_t *value;
        if (dop_json_decode(v, (size_t)(v_end - v), &(dop_json_how){.flags = DOP_JSON_EXACT}, NULL, &value) != DOP_OK)
            value = dop_json_text(v, (size_t)(v_end - v));
        json_t *key = dop_json_text(k, (size_t)(k_end - k));
        json_object_set_new(arguments, json_string_value(key), value);
        json_decref(key);
        at = (size_t)(v_end - text);
    }
    dop_buf out = {0};
    dop_json_encode(&out, arguments);
    if (name > 0)
        dop_json_add_call(calls, first, name, out.data ? out.data : "{}", out.size);
    dop_buf_finish(&out);
    json_decref(arguments);
    return n;
}

/* All of a text without channels; NULL: there is none. */
static json_t *
calls_of(const dop_tool_form *form, const char *text, size_t n)
{
    json_t *calls = json_array();
    size_t len = strlen(form->open), at = len ? 0 : skip_tag(text, n);
    while (at < n) {
        size_t end = 0;
        if (len > 0) {
            const char *hit = memmem(text + at, n - at, form->open, len);
            if (!hit)
                break;
            at = (size_t)(hit - text) + len;
        }
        if (form->manner == KEYS) {
            at += call_by_keys(text + at, n - at, calls);
            continue;
        }
        json_t *value = dop_json_begin(text + at, n - at, &end);
        const size_t named = value ? 0 : named_call(text + at, n - at, calls);
        if (!value && named == 0)
            break;
        at += value ? end : named;
        for (size_t i = 0; i < json_array_size(value); i++)
            add_object(form, json_array_get(value, i), calls);
        if (json_is_object(value))
            add_object(form, value, calls);
        json_decref(value);
        while (len == 0 && at < n && (isspace((unsigned char)text[at]) || text[at] == ';'))
            at++;
    }
    if (json_array_size(calls) > 0)
        return calls;
    json_decref(calls);
    return NULL;
}

/* How many bytes at the start of a text without channels are content for certain, and no part of a call. */
static size_t
content_of(const dop_tool_form *form, const char *text, size_t n, bool ended, const json_t *calls)
{
    const size_t len = strlen(form->open);
    if (len == 0) {
        const size_t at = skip_tag(text, n);
        const bool call = at == n || text[at] == '{' || text[at] == '<';
        return !call || (ended && !calls) ? n : 0;
    }
    const char *hit = n ? memmem(text, n, form->open, len) : NULL;
    if (hit)
        return ended && !calls ? n : (size_t)(hit - text);
    return ended ? n : n - dop_partial_mark(text, n, form->open);
}

void
dop_reading_make(const dop_tool_form *form, const char *begin, const char *text, size_t n, bool ended, dop_reading *out)
{
    dop_buf whole = {0};
    memset(out, 0, sizeof *out);
    if (begin) {
        dop_buf_puts(&whole, begin);
        dop_buf_append(&whole, text, n);
        text = whole.failed ? "" : whole.data;
        n = whole.failed ? 0 : whole.size;
    }
    if (form->manner == CHANNELS) {
        dop_reading_channels(text, n, ended, out);
    } else {
        out->calls = ended ? calls_of(form, text, n) : NULL;
        dop_buf_append(&out->content, text, content_of(form, text, n, ended, out->calls));
    }
    dop_buf_finish(&whole);
}

void
dop_reading_finish(dop_reading *reading)
{
    dop_buf_finish(&reading->content);
    dop_buf_finish(&reading->reasoning);
    json_decref(reading->calls);
    reading->calls = NULL;
}
