/* Converts a client's conversation to the form that the model's template accepts: joins lists of text parts, writes
 * call arguments as objects or texts, adapts ids, and renames the reasoning member. Content without a place in the
 * template is described in words. */
#include "serve/api/api_history.h"
#include "serve/api/api_call.h"
#include "serve/api/api_images.h"
#include "serve/api/api_internal.h"
#include "serve/api/api_json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct history {
    const dop_tool_form *form;
    dop_reader *reader;
    dop_request_images *images;
    json_t *out;
    json_t *ids; /* id as sent -> {"id": id given to the template, "name": name of the function} */
    size_t n_calls;
} history;

static const json_t *
get_nonnull_member(const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);
    return json_is_null(v) ? NULL : v;
}

/* --- contents -------------------------------------------------------------------------------------------------------------- */

/* Appends the text parts of a content to `text`, and reasoning parts to `reasoning`. */
static void
append_content_parts(history *h, const json_t *parts, dop_buf *text, dop_buf *reasoning)
{
    static const char *const kinds[][2] = {{"text", "text"},       {"input_text", "text"},   {"output_text", "text"},
                                           {"refusal", "refusal"}, {"thinking", "thinking"}, {"reasoning", "text"}};
    size_t i;
    const json_t *part;
    json_array_foreach(parts, i, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *piece = json_is_string(part) ? part : NULL;
        size_t kind = 0;
        if (dop_request_image(h->images, h->reader, part, text)) {
            if (h->reader->failed)
                return;
            continue;
        }
        for (; kind < sizeof kinds / sizeof *kinds && !piece; kind++)
            if (type && strcmp(type, kinds[kind][0]) == 0)
                piece = json_object_get(part, kinds[kind][1]);
        if (!json_is_string(piece)) {
            dop_reader_refuse(h->reader, "messages",
                              "parts of a message are {\"type\": \"text\", \"text\": ...}, not %s",
                              type ? type : "something else");
            return;
        }
        dop_buf_append(kind >= 5 ? reasoning : text, json_string_value(piece), json_string_length(piece));
    }
}

/* Returns the content of a message as one text; NULL: none. Reasoning parts are appended to `reasoning`. */
static json_t *
join_content_text(history *h, const json_t *message, dop_buf *reasoning)
{
    const json_t *content = get_nonnull_member(message, "content");
    json_t *made = NULL;
    dop_buf text = {0};
    if (json_is_string(content))
        return json_copy((json_t *)(uintptr_t)content);
    if (json_is_array(content)) {
        append_content_parts(h, content, &text, reasoning);
        made = json_stringn(text.size ? text.data : "", text.size);
    } else if (content) {
        dop_reader_refuse(h->reader, "messages", "the content of a message is a text or a list of parts");
    } else if (json_is_string(get_nonnull_member(message, "refusal"))) {
        made = json_copy((json_t *)(uintptr_t)get_nonnull_member(message, "refusal"));
    }
    dop_buf_finish(&text);
    return made;
}

/* --- calls ------------------------------------------------------------------------------------------------------------------- */

static json_t *
parse_exact_json(const char *text, size_t n)
{
    json_t *v = NULL;
    (void)dop_json_decode(text, n, &(dop_json_how){.flags = DOP_JSON_EXACT}, NULL, &v);
    return v;
}

/* Returns the arguments of a call in the template's form: an object, or JSON text. */
static json_t *
convert_call_arguments(const history *h, const json_t *sent)
{
    const dop_tool_form *f = h->form;
    const char *text = json_string_value(sent);
    size_t n = json_string_length(sent), from = text ? dop_span_blank(text, n, 0) : 0;
    json_t *value = text && from < n ? parse_exact_json(text, n) : text ? NULL : json_deep_copy(sent);
    if (json_is_string(value)) { /* JSON encoded twice */
        json_t *inner = parse_exact_json(json_string_value(value), json_string_length(value));
        json_decref(value);
        value = inner;
    }
    const bool none = !sent || json_is_null(sent) || (text && from == n) || json_is_null(value);
    json_t *made = NULL;
    if (none)
        made = f->arguments_text ? json_string("{}") : json_object();
    else if (json_is_object(value) && !f->arguments_text)
        made = json_incref(value);
    else if (json_is_object(value) && text && text[from] == '{')
        made = json_stringn(text, n);
    else if (json_is_object(value)) {
        dop_buf dump = {0};
        dop_json_encode(&dump, value);
        made = json_stringn(dump.data ? dump.data : "{}", dump.data ? dump.size : 2);
        dop_buf_finish(&dump);
    } else if (text && (f->arguments_text || f->takes_text))
        made = json_stringn(text, n);
    else
        made = f->arguments_text ? json_string("{}") : json_object();
    json_decref(value);
    return made;
}

static bool
is_short_call_id(const char *id)
{
    size_t n = 0;
    while (isalnum((unsigned char)id[n]))
        n++;
    return n == 9 && !id[n];
}

/* Returns a call's id in a form that the template accepts. */
static json_t *
convert_call_id(history *h, const char *id, const char *name)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    if (h->form->id_has_name)
        return json_sprintf("functions.%s:%zu", name, h->n_calls);
    if (!h->form->short_ids || is_short_call_id(id))
        return json_string(id);
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    char made[10] = {0};
    for (const char *c = id; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    for (size_t i = 0; i < 9; i++, hash /= 62)
        made[i] = letters[hash % 62];
    return json_string(made);
}

static json_t *
convert_call(history *h, const json_t *sent)
{
    const json_t *function =
        json_is_object(json_object_get(sent, "function")) ? json_object_get(sent, "function") : sent;
    const char *name = json_string_value(json_object_get(function, "name"));
    const char *id = json_string_value(json_object_get(sent, "id"));
    if (!name) {
        dop_reader_refuse(h->reader, "messages",
                          "a call of a message is {\"id\", \"type\", \"function\": {\"name\", \"arguments\"}}");
        return NULL;
    }
    char own[32];
    snprintf(own, sizeof own, "call%05zu", h->n_calls % 100000);
    json_t *given = convert_call_id(h, id ? id : own, name);
    json_object_set_new(h->ids, id ? id : own, json_pack("{s:O, s:s}", "id", given, "name", name));
    h->n_calls++;
    json_t *call = json_pack("{s:o, s:s, s:{s:s, s:o}}", "id", given, "type", "function", "function", "name", name,
                             "arguments", convert_call_arguments(h, json_object_get(function, "arguments")));
    if (h->form->flat)
        json_object_update_missing(call, json_object_get(call, "function"));
    return call;
}

static json_t *
convert_calls(history *h, const json_t *message)
{
    const json_t *sent = get_nonnull_member(message, "tool_calls"), *one,
                 *old = get_nonnull_member(message, "function_call");
    json_t *calls = json_array();
    size_t i;
    if (sent && !json_is_array(sent))
        dop_reader_refuse(h->reader, "messages", "tool_calls is a list");
    json_array_foreach(sent, i, one)
    {
        json_t *call = convert_call(h, one);
        if (call)
            json_array_append_new(calls, call);
    }
    if (json_is_object(old) && json_array_size(sent) == 0) {
        json_t *call = convert_call(h, old);
        if (call)
            json_array_append_new(calls, call);
    }
    return calls;
}

/* Appends calls to a message's text, in the format that the model should write. Used for templates that omit calls. */
static void
write_calls(const dop_tool_form *f, const json_t *calls, dop_buf *out)
{
    size_t i;
    const json_t *call;
    json_array_foreach(calls, i, call)
    {
        const json_t *function = json_object_get(call, "function"), *arguments = json_object_get(function, "arguments"),
                     *v;
        const char *name = json_string_value(json_object_get(function, "name")), *key;
        const char *const before[] = {f->open, f->head, "\1", f->middle};
        bool first = true;
        if (out->size)
            dop_buf_puts(out, "\n");
        for (size_t k = 0; k < 4; k++)
            for (const char *c = before[k] ? before[k] : ""; *c; c++)
                dop_buf_printf(out, "%.*s%s", (unsigned char)*c >= 8, c,
                               *c == DOP_HOLE_NAME    ? name
                               : *c == DOP_HOLE_ID    ? json_string_value(json_object_get(call, "id"))
                               : *c == DOP_HOLE_INDEX ? "0"
                                                      : "");
        if (f->manner == DOP_FORM_OBJECT || f->manner == DOP_FORM_NAMED) {
            if (json_is_string(arguments))
                dop_buf_append(out, json_string_value(arguments), json_string_length(arguments));
            else
                dop_json_encode(out, arguments);
        } else {
            const bool literals = f->manner == DOP_FORM_LITERAL;
            json_object_foreach((json_t *)(uintptr_t)arguments, key, v)
            {
                if (!literals || !first)
                    dop_buf_puts(out, f->arg_open);
                first = false;
                dop_buf_printf(out, "%s%s", key, f->assign);
                if (json_is_string(v) && literals)
                    dop_buf_printf(out, "%s%s%s", f->quote, json_string_value(v), f->quote);
                else if (json_is_string(v))
                    dop_buf_puts(out, json_string_value(v));
                else
                    dop_json_encode(out, v);
                if (!literals)
                    dop_buf_puts(out, f->value_close);
            }
        }
        for (const char *c = f->tail ? f->tail : ""; *c; c++)
            dop_buf_printf(out, "%.*s%s", (unsigned char)*c >= 8, c,
                           *c == DOP_HOLE_ID ? json_string_value(json_object_get(call, "id")) : "");
    }
}

/* --- messages ----------------------------------------------------------------------------------------------------------------- */

static const char *
get_message_reasoning(const json_t *message)
{
    static const char *const names[] = {"reasoning_content", "reasoning", "thinking"};
    for (size_t i = 0; i < 3; i++)
        if (json_string_length(json_object_get(message, names[i])) > 0)
            return json_string_value(json_object_get(message, names[i]));
    return NULL;
}

static void
set_message_content(const history *h, json_t *message, json_t *text)
{
    if (h->form->wants_parts && json_is_string(text))
        text = json_pack("[{s:s, s:o}]", "type", "text", "text", text);
    json_object_set_new(message, "content", text);
}

/* Returns the last message of h->out if it has this role; NULL otherwise. */
static json_t *
get_last_with_role(const history *h, const char *role)
{
    json_t *last = json_array_get(h->out, json_array_size(h->out) - 1);
    const char *own = json_string_value(json_object_get(last, "role"));
    return own && strcmp(own, role) == 0 ? last : NULL;
}

static void
add_assistant_message(history *h, const json_t *sent, json_t *message)
{
    const dop_tool_form *f = h->form;
    dop_buf parts = {0};
    json_t *text = join_content_text(h, sent, &parts), *calls = convert_calls(h, sent);
    const char *reasoning = get_message_reasoning(sent);
    const bool called = json_array_size(calls) > 0;
    if (!reasoning && parts.size)
        reasoning = parts.data;
    if (!text && !called && !reasoning)
        dop_reader_refuse(h->reader, "messages", "a message has no content");
    json_object_del(message, "tool_calls");
    json_object_del(message, "function_call");
    json_object_del(message, "refusal");
    json_object_del(message, "reasoning_content");
    json_object_del(message, "reasoning");
    json_object_del(message, "thinking");
    if (reasoning && f->reasoning)
        json_object_set_new(message, f->reasoning, json_string(reasoning));
    if (called && !f->shows_calls && f->manner != DOP_FORM_CHANNELS) {
        dop_buf all = {0};
        if (json_string_length(text))
            dop_buf_puts(&all, json_string_value(text));
        write_calls(f, calls, &all);
        json_decref(text);
        text = json_stringn(all.size ? all.data : "", all.size);
        dop_buf_finish(&all);
    } else if (called) {
        json_object_set(message, "tool_calls", calls);
        if (json_string_length(text) == 0 && (f->needs_content || f->null_content)) {
            json_decref(text);
            text = f->null_content ? json_null() : json_string(" ");
        }
    }
    set_message_content(h, message, text ? text : json_string(""));
    json_decref(calls);
    dop_buf_finish(&parts);
    json_array_append(h->out, message);
}

static void
add_tool_result(history *h, const json_t *sent, json_t *message)
{
    dop_buf parts = {0};
    json_t *text = join_content_text(h, sent, &parts);
    const char *id = json_string_value(json_object_get(sent, "tool_call_id"));
    const json_t *call = id ? json_object_get(h->ids, id) : NULL;
    if (!text)
        dop_reader_refuse(h->reader, "messages", "a message has no content");
    dop_buf_finish(&parts);
    if (h->form->shows_results || !text) {
        json_object_set_new(message, "role", json_string("tool"));
        if (call) {
            json_object_set(message, "tool_call_id", json_object_get(call, "id"));
            if (!json_is_string(json_object_get(message, "name")))
                json_object_set(message, "name", json_object_get(call, "name"));
        } else if (id) {
            json_object_set_new(message, "tool_call_id", convert_call_id(h, id, "unknown"));
        }
        set_message_content(h, message, text ? text : json_string(""));
        json_array_append(h->out, message);
        return;
    }
    /* If the template has no tool results, they are written in a user message. Several results share one message,
     * because roles must alternate. */
    json_t *told = json_sprintf("<tool_response>\n%s\n</tool_response>", json_string_value(text)),
           *last = get_last_with_role(h, "user");
    const char *before = json_string_value(json_object_get(last, "content"));
    if (before && strncmp(before, "<tool_response>", 15) == 0)
        json_object_set_new(last, "content", json_sprintf("%s\n%s", before, json_string_value(told)));
    else
        json_array_append_new(h->out, json_pack("{s:s, s:O}", "role", "user", "content", told));
    json_decref(told);
    json_decref(text);
}

static void
add_other_message(history *h, const json_t *sent, json_t *message)
{
    dop_buf parts = {0};
    json_t *text = join_content_text(h, sent, &parts);
    if (!text)
        dop_reader_refuse(h->reader, "messages", "a message has no content");
    if (strcmp(json_string_value(json_object_get(sent, "role")), "developer") == 0 && !h->form->knows_developer)
        json_object_set_new(message, "role", json_string("system"));
    set_message_content(h, message, text ? text : json_string(""));
    dop_buf_finish(&parts);
    json_array_append(h->out, message);
}

static void
add_history_message(history *h, const json_t *sent, size_t number)
{
    const char *role = json_string_value(json_object_get(sent, "role"));
    if (!json_is_object(sent)) {
        dop_reader_refuse(h->reader, "messages", "message %zu is not an object", number + 1);
        return;
    }
    if (!role) {
        dop_reader_refuse(h->reader, "messages", "message %zu of the conversation has no \"role\"", number + 1);
        return;
    }
    json_t *message = json_copy((json_t *)(uintptr_t)sent);
    if (strcmp(role, "assistant") == 0)
        add_assistant_message(h, sent, message);
    else if (strcmp(role, "tool") == 0 || strcmp(role, "function") == 0)
        add_tool_result(h, sent, message);
    else
        add_other_message(h, sent, message);
    json_decref(message);
}

/* --- content that templates do not support ------------------------------------------------------------------------------------- */

/* Adds descriptions of the tools and the format of a call to a message, for templates without tools. */
static void
describe_tools(history *h, const json_t *tools)
{
    dop_buf text = {0}, example = {0};
    size_t i;
    const json_t *tool;
    json_t *call = json_pack("[{s:s, s:{s:s, s:{s:s}}}]", "id", "call00000", "function", "name", "NAME", "arguments",
                             "KEY", "VALUE");
    dop_buf_puts(&text, "You may call functions. Their descriptions, one JSON object a line:\n");
    json_array_foreach(tools, i, tool)
    {
        dop_json_encode(&text, json_object_get(tool, "function"));
        dop_buf_puts(&text, "\n");
    }
    write_calls(h->form, call, &example);
    dop_buf_printf(&text, "To call one, write exactly\n%.*s\nwith its name and its arguments, and nothing behind it.",
                   (int)example.size, example.size ? example.data : "");
    json_t *first = json_array_get(h->out, 0);
    const char *role = json_string_value(json_object_get(first, "role"));
    const bool system = role && strcmp(role, "system") == 0;
    const char *own = json_string_value(json_object_get(first, "content"));
    if (h->form->shows_system && !system) {
        json_t *message = json_pack("{s:s}", "role", "system");
        set_message_content(h, message, json_stringn(text.data, text.size));
        json_array_insert_new(h->out, 0, message);
    } else if (own) {
        dop_buf both = {0};
        dop_buf_printf(&both, "%s\n\n", system ? own : "");
        dop_buf_append(&both, text.data, text.size);
        dop_buf_printf(&both, "\n\n%s", system ? "" : own);
        const size_t from = dop_span_blank(both.data, both.size, 0);
        json_object_set_new(first, "content", json_stringn(both.data + from, both.size - from));
        dop_buf_finish(&both);
    }
    json_decref(call);
    dop_buf_finish(&text);
    dop_buf_finish(&example);
}

static bool
is_result_of_call(const json_t *message, const json_t *call)
{
    return json_equal(json_object_get(message, "tool_call_id"), json_object_get(call, "id")) != 0;
}

/* Splits messages with several calls, for templates that support one call per message. Each call is followed by its
 * result. */
static void
split_parallel_calls(history *h)
{
    json_t *all = json_array(), *message;
    const size_t n = json_array_size(h->out);
    for (size_t i = 0; i < n; i++) {
        message = json_array_get(h->out, i);
        const json_t *calls = json_object_get(message, "tool_calls");
        size_t results = i + 1;
        while (json_array_size(calls) > 1 && results < n &&
               strcmp(json_string_value(json_object_get(json_array_get(h->out, results), "role")), "tool") == 0)
            results++;
        json_array_append(all, message);
        if (json_array_size(calls) < 2)
            continue;
        json_array_remove(all, json_array_size(all) - 1);
        for (size_t k = 0; k < json_array_size(calls); k++) {
            json_t *one = json_copy(message), *call = json_array_get(calls, k);
            json_object_set_new(one, "tool_calls", json_pack("[O]", call));
            if (k > 0)
                set_message_content(h, one, json_string(""));
            json_array_append_new(all, one);
            for (size_t r = i + 1; r < results; r++)
                if (is_result_of_call(json_array_get(h->out, r), call))
                    json_array_append(all, json_array_get(h->out, r));
        }
        for (size_t r = i + 1; r < results; r++) { /* results without a call stay at the end */
            bool any = false;
            for (size_t k = 0; k < json_array_size(calls); k++)
                any |= is_result_of_call(json_array_get(h->out, r), json_array_get(calls, k));
            if (!any)
                json_array_append(all, json_array_get(h->out, r));
        }
        i = results - 1;
    }
    json_decref(h->out);
    h->out = all;
}

json_t *
dop_history_make(const dop_tool_form *form, const json_t *messages, const json_t *tools, dop_reader *reader,
                 dop_request_images *images)
{
    history h = {.form = form, .reader = reader, .images = images, .out = json_array(), .ids = json_object()};
    size_t i;
    const json_t *m;
    json_array_foreach(messages, i, m)
    {
        add_history_message(&h, m, i);
        if (reader->failed)
            break;
    }
    if (!reader->failed && !form->several && form->shows_calls)
        split_parallel_calls(&h);
    if (!reader->failed && tools && !form->shows_tools && form->manner != DOP_FORM_CHANNELS)
        describe_tools(&h, tools);
    json_decref(h.ids);
    if (reader->failed) {
        json_decref(h.out);
        return NULL;
    }
    return h.out;
}
