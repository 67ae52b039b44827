/* Builds grammar parts for a required answer: a tool call in the format of the model's template, or an answer that
 * matches a schema. */
#include "serve/api/api_require.h"
#include "serve/api/api_call.h"
#include "serve/api/api_internal.h"

#include <stdlib.h>
#include <string.h>

static bool
is_require_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Appends a text of the form to a sequence of parts, with its holes filled in. */
static void
append_form_text(json_t *seq, const char *text, const char *name, const char *key, const char *word)
{
    dop_buf plain = {0};
    for (const char *c = text ? text : ""; *c; c++) {
        const char *fill = *c == DOP_HOLE_NAME    ? name
                           : *c == DOP_HOLE_KEY   ? key
                           : *c == DOP_HOLE_TYPE  ? word
                           : *c == DOP_HOLE_INDEX ? "0"
                                                  : NULL;
        if (fill) {
            dop_buf_puts(&plain, fill);
        } else if (*c == DOP_HOLE_ID) {
            if (plain.size)
                json_array_append_new(seq, json_stringn(plain.data, plain.size));
            plain.size = 0;
            json_array_append_new(seq, json_pack("{s:i}", "id", 9));
        } else {
            dop_buf_append(&plain, c, 1);
        }
    }
    if (plain.size)
        json_array_append_new(seq, json_stringn(plain.data, plain.size));
    dop_buf_finish(&plain);
}

/* Returns a copy of a subschema, with the definitions that it may refer to. */
static json_t *
copy_subschema(const json_t *root, const json_t *schema)
{
    static const char *const names[] = {"$defs", "definitions"};
    json_t *own = json_copy((json_t *)(uintptr_t)schema);
    for (size_t i = 0; i < 2; i++)
        if (json_is_object(own) && json_object_get(root, names[i]) && !json_object_get(own, names[i]))
            json_object_set(own, names[i], json_object_get(root, names[i]));
    return own;
}

/* Returns the texts that a string is limited to; NULL: any. */
static const json_t *
get_string_choices(const json_t *schema)
{
    const json_t *all = json_object_get(schema, "enum"), *v;
    size_t i;
    json_array_foreach(all, i, v) if (!json_is_string(v)) return NULL;
    return json_array_size(all) > 0 ? all : NULL;
}

/* Returns the parts of a literal for DOP_FORM_LITERAL: Python keywords, and strings in the form's quotation marks. */
static json_t *
make_literal_parts(const dop_tool_form *f, const json_t *root, const json_t *schema)
{
    const unsigned bits = dop_tool_types(root, schema), string = 1u << DOP_TYPE_STRING;
    const json_t *choices = get_string_choices(schema), *v;
    json_t *any = json_array();
    size_t i;
    if (choices && bits == string)
        json_array_foreach(choices, i, v)
        {
            dop_buf text = {0};
            if (strlen(f->quote) == 1)
                dop_span_quote(&text, json_string_value(v), json_string_length(v));
            else
                dop_buf_printf(&text, "%s%s%s", f->quote, json_string_value(v), f->quote);
            json_array_append_new(any, json_stringn(text.data, text.size));
            dop_buf_finish(&text);
        }
    else if (!bits || (bits & string))
        json_array_append_new(any, json_pack("{s:s}", "string", f->quote));
    const char *yes = f->spelling[DOP_TYPE_BOOL];
    if (bits & 1u << DOP_TYPE_BOOL && yes && strcmp(yes, "True") == 0) {
        json_array_append_new(any, json_string("True"));
        json_array_append_new(any, json_string("False"));
    } else if (bits & ~string) {
        json_array_append_new(any, json_pack("{s:o}", "schema", copy_subschema(root, schema)));
    }
    return json_pack("{s:o}", "any", any);
}

/* Returns the parts of one argument, between the form's marks. */
static json_t *
make_argument_parts(const dop_tool_form *f, const json_t *root, const char *key, const json_t *schema)
{
    const unsigned bits = dop_tool_types(root, schema);
    json_t *seq = json_array();
    if (f->manner == DOP_FORM_LITERAL) {
        append_form_text(seq, "\4", "", key, "");
        append_form_text(seq, f->assign, "", key, "");
        json_array_append_new(seq, make_literal_parts(f, root, schema));
        return json_pack("{s:o}", "seq", seq);
    }
    dop_form_type type = DOP_TYPE_STRING;
    while (type < DOP_TYPES && bits != 1u << type)
        type++;
    const bool text = type == DOP_TYPE_STRING || type == DOP_TYPES;
    const char *word = f->words[text ? DOP_TYPE_STRING : type];
    const json_t *choices = get_string_choices(schema), *v;
    size_t i;
    append_form_text(seq, f->arg_open, "", key, "");
    json_array_append_new(seq, json_string(key));
    append_form_text(seq, f->assign, "", key, word ? word : "");
    if (text && !choices) { /* any text up to the mark, which may follow white space */
        const char *close = f->value_close;
        while (is_require_blank(*close))
            close++;
        json_t *mark = json_array();
        append_form_text(mark, close, "", key, "");
        json_array_append_new(seq, json_pack("{s:O}", "until", json_array_get(mark, 0)));
        json_decref(mark);
        return json_pack("{s:o}", "seq", seq);
    }
    if (text) {
        json_t *any = json_array();
        json_array_foreach(choices, i, v) json_array_append(any, (json_t *)(uintptr_t)v);
        json_array_append_new(seq, json_pack("{s:o}", "any", any));
    } else {
        json_array_append_new(seq, json_pack("{s:o}", "schema", copy_subschema(root, schema)));
    }
    append_form_text(seq, f->value_close, "", key, "");
    return json_pack("{s:o}", "seq", seq);
}

static bool
is_required_property(const json_t *schema, const char *key)
{
    size_t i;
    const json_t *v;
    json_array_foreach(json_object_get(schema, "required"), i,
                       v) if (json_is_string(v) && strcmp(json_string_value(v), key) == 0) return true;
    return false;
}

static json_t *
make_arguments_parts(const dop_tool_form *f, const json_t *schema)
{
    if (f->manner == DOP_FORM_OBJECT || f->manner == DOP_FORM_NAMED || f->manner == DOP_FORM_CHANNELS)
        return json_is_object(schema) ? json_pack("{s:O}", "schema", schema) : json_string("{}");
    json_t *items = json_array();
    const char *key;
    json_t *own;
    json_object_foreach(json_object_get(schema, "properties"), key, own)
        json_array_append_new(items, json_pack("{s:o, s:b}", "part", make_argument_parts(f, schema, key, own),
                                               "required", is_required_property(schema, key)));
    return json_pack("{s:o, s:s}", "list", items, "between", f->manner == DOP_FORM_LITERAL ? f->arg_open : "");
}

/* Returns the parts of a whole call. named: the prompt already has everything up to the end of the name. */
static json_t *
make_call_parts(const dop_tool_form *f, const char *name, const json_t *schema, bool named)
{
    json_t *seq = json_array();
    const bool channels = f->manner == DOP_FORM_CHANNELS;
    if (!channels) {
        append_form_text(seq, f->open, name, "", "");
        append_form_text(seq, f->head, name, "", "");
    }
    if (!named) {
        json_array_append_new(seq, json_string(name));
        append_form_text(seq, channels ? " <|constrain|>json<|message|>" : f->middle, name, "", "");
    }
    json_array_append_new(seq, make_arguments_parts(f, schema));
    if (!channels)
        append_form_text(seq, f->tail, name, "", "");
    return json_pack("{s:o}", "seq", seq);
}

/* Returns the name of a tool {"type": "function", "function": {"name"}}, or of its short form {"type": "function",
 * "name"}. */
static const json_t *
get_tool_name(const json_t *tool)
{
    const json_t *name = json_object_get(json_object_get(tool, "function"), "name");
    return name ? name : json_object_get(tool, "name");
}

json_t *
dop_tools_allowed(const json_t *tools, const json_t *choice, const char **out_mode)
{
    /* {"type": "allowed_tools", "allowed_tools": {"mode", "tools"}}, or the same without the inner object */
    const json_t *inner = json_object_get(choice, "allowed_tools"), *of = inner ? inner : choice,
                 *names = json_object_get(of, "tools"), *mode = json_object_get(of, "mode"), *tool, *one;
    json_t *list = json_array();
    size_t i, k;
    *out_mode = mode ? json_string_value(mode) : "auto";
    if (!*out_mode || (strcmp(*out_mode, "auto") != 0 && strcmp(*out_mode, "required") != 0) || !json_is_array(names))
        *out_mode = NULL;
    json_array_foreach(tools, i, tool)
    {
        bool allowed = false;
        json_array_foreach(names, k, one) allowed |= json_equal(get_tool_name(tool), get_tool_name(one));
        if (allowed)
            json_array_append(list, (json_t *)(uintptr_t)tool);
    }
    return list;
}

const char *
dop_tool_require(const dop_tool_form *form, const json_t *tools, const char *only, dop_shape_demand *out)
{
    const bool channels = form->manner == DOP_FORM_CHANNELS;
    json_t *any = json_array();
    size_t i, n = 0;
    const json_t *tool;
    const char *last = "";
    json_array_foreach(tools, i, tool) n +=
        !only || strcmp(only, json_string_value(json_object_get(json_object_get(tool, "function"), "name"))) == 0;
    json_array_foreach(tools, i, tool)
    {
        const json_t *function = json_object_get(tool, "function");
        const char *name = json_string_value(json_object_get(function, "name"));
        if (only && strcmp(only, name) != 0)
            continue;
        json_array_append_new(any,
                              make_call_parts(form, name, json_object_get(function, "parameters"), channels && n == 1));
        last = name;
    }
    if (n == 0) {
        json_decref(any);
        return "tool_choice names a function that is not among the tools";
    }
    if (channels) /* message marks are special tokens, so they are put into the prompt */
        dop_buf_printf(&out->begin, "<|channel|>commentary to=functions.%s%s", n == 1 ? last : "",
                       n == 1 ? " <|constrain|>json<|message|>" : "");
    out->parts = json_pack("{s:o}", "any", any);
    return out->parts && !out->begin.failed ? NULL : "out of memory";
}

const char *
dop_answer_require(const dop_tool_form *form, json_t *parts, dop_shape_demand *out)
{
    if (form->manner == DOP_FORM_CHANNELS)
        dop_buf_puts(&out->begin, "<|channel|>final<|message|>");
    else if (form->content_open)
        dop_buf_printf(&out->begin, "%s%s", form->content_open, strpbrk(form->content_open, "<[") ? "" : "\n");
    out->parts = parts;
    return out->parts && !out->begin.failed ? NULL : "out of memory";
}
