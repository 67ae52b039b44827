/* Converts conversations of other APIs to messages of a chat completion. */
#include "serve/protocols/conversation.h"
#include "serve/api/api_json.h"
#include "serve/api/api_read.h"
#include "serve/protocols/protocol.h"

#include <string.h>

/* Moves the text into a separate part. */
static void
end_text_part(dop_conversation *t)
{
    if (!t->parts && !(t->parts = json_array()))
        t->failed = true;
    if (t->text.size == 0)
        return;
    json_t *part = json_pack("{s:s, s:o}", "type", "text", "text", json_stringn(t->text.data, t->text.size));
    t->failed |= t->text.failed || !part || json_array_append_new(t->parts, part) != 0;
    dop_buf_finish(&t->text);
}

/* Ends the last message. */
static void
end_conversation_turn(dop_conversation *t)
{
    if (!t->role)
        return;
    if (t->parts)
        end_text_part(t);
    const bool none = t->text.size == 0 && t->calls;
    json_t *text = t->parts ? t->parts
                   : none   ? json_null()
                            : json_stringn(t->text.size ? t->text.data : "", t->text.size);
    t->parts = NULL;
    json_t *message = json_pack("{s:s, s:o}", "role", t->role, "content", text);
    if (message && t->reasoning.size)
        json_object_set_new(message, "reasoning_content", json_stringn(t->reasoning.data, t->reasoning.size));
    if (message && t->calls)
        json_object_set(message, "tool_calls", t->calls);
    t->failed |= !message || t->text.failed || t->reasoning.failed || json_array_append_new(t->messages, message) != 0;
    json_decref(t->calls);
    dop_buf_finish(&t->text);
    dop_buf_finish(&t->reasoning);
    t->calls = NULL;
    t->role = NULL;
}

static void
begin_conversation_turn(dop_conversation *t, const char *role)
{
    if (!t->messages && !(t->messages = json_array()))
        t->failed = true;
    if (t->role && strcmp(t->role, role) == 0)
        return;
    end_conversation_turn(t);
    t->role = role;
}

void
dop_conversation_text(dop_conversation *t, const char *role, const char *between, const json_t *text)
{
    begin_conversation_turn(t, role);
    if (t->text.size && json_string_length(text) > 0)
        dop_buf_puts(&t->text, between);
    dop_buf_append(&t->text, json_string_value(text), json_string_length(text));
}

void
dop_conversation_picture(dop_conversation *t, const char *role, const json_t *part)
{
    begin_conversation_turn(t, role);
    end_text_part(t);
    t->failed |= json_array_append(t->parts, (json_t *)(uintptr_t)part) != 0;
}

void
dop_conversation_reasoning(dop_conversation *t, const json_t *text)
{
    begin_conversation_turn(t, "assistant");
    dop_buf_append(&t->reasoning, json_string_value(text), json_string_length(text));
}

void
dop_conversation_call(dop_conversation *t, const char *id, const char *name, const json_t *arguments)
{
    begin_conversation_turn(t, "assistant");
    if (!t->calls && !(t->calls = json_array()))
        t->failed = true;
    json_array_append_new(t->calls, json_pack("{s:s, s:s, s:{s:s, s:O?}}", "id", id, "type", "function", "function",
                                              "name", name, "arguments", (json_t *)(uintptr_t)arguments));
}

void
dop_conversation_result(dop_conversation *t, const char *id, const dop_buf *text)
{
    begin_conversation_turn(t, "tool");
    if (text->size)
        dop_buf_append(&t->text, text->data, text->size);
    end_conversation_turn(t); /* each result is a separate message */
    json_t *last = json_array_get(t->messages, json_array_size(t->messages) - 1);
    json_object_set_new(last, "tool_call_id", json_string(id));
    t->failed |= text->failed;
}

json_t *
dop_conversation_end(dop_conversation *t, dop_reader *r, json_t *request)
{
    end_conversation_turn(t);
    json_object_set_new(request, "messages", t->messages ? t->messages : json_array());
    t->messages = NULL;
    if (t->failed)
        dop_reader_fail(r, NULL, &(dop_diag){.code = DOP_E_NOMEM, .message = "out of memory"}, NULL);
    dop_reader_report(r);
    if (!r->failed)
        return request;
    json_decref(request);
    return NULL;
}

json_t *
dop_tool_description(const json_t *name, const json_t *description, const json_t *parameters, const json_t *strict)
{
    return json_pack("{s:s, s:{s:O, s:O*, s:O*, s:O*}}", "type", "function", "function", "name",
                     (json_t *)(uintptr_t)name, "description", (json_t *)(uintptr_t)description, "parameters",
                     (json_t *)(uintptr_t)parameters, "strict", (json_t *)(uintptr_t)strict);
}

void
dop_reader_ignore(dop_reader *r, const char *param, const char *const *names, size_t n)
{
    if (n > 0 && dop_reader_bool(r, "strict", false))
        dop_reader_refuse(r, param, "%.100s has no effect here, and the request is strict", names[0]);
    else if (!r->failed)
        dop_answer_header(r->answer, "X-Doppler-Ignored", names, n);
}

void
dop_reader_take_chat(dop_reader *r, json_t *out)
{
    static const char *const names[] = {
        "enable_thinking", "think",        "reasoning_effort", "reasoning", "thinking_budget",   "chat_template_kwargs",
        "response_format", "json_schema",  "guided_json",      "regex",     "guided_regex",      "guided_choice",
        "grammar",         "compact_json", "guided_grammar",   "strict",    "structured_outputs"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *v = dop_reader_get(r, names[i]);
        if (v)
            json_object_set(out, names[i], (json_t *)(uintptr_t)v);
    }
}

json_t *
dop_call_arguments(const json_t *call)
{
    const json_t *text = json_object_get(json_object_get(call, "function"), "arguments");
    json_t *value = NULL;
    if (dop_json_decode(json_string_value(text), json_string_length(text), &(dop_json_how){.flags = DOP_JSON_EXACT},
                        NULL, &value) == DOP_OK &&
        json_is_object(value))
        return value;
    json_decref(value);
    return json_object();
}
