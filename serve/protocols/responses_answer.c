/* Writes answers in the format of OpenAI's Responses API: items, and events that report their progress. */
#include "serve/protocols/responses_answer.h"
#include "serve/api/api_answer.h"
#include "serve/api/api_json.h"
#include "serve/protocols/conversation.h"
#include "serve/protocols/protocol.h"
#include "serve/protocols/responses_request.h"
#include "serve/protocols/responses_store.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char reasoning_type[] = "reasoning", message_type[] = "message";

static json_t *
make_buf_json(const dop_buf *text)
{
    return dop_json_text(text->size ? text->data : "", text->size);
}

/* Writes the id of the next item: a prefix for its type, and the digits of the response's id. */
static void
make_item_id(const dop_call *c, const dop_response *p, const char *mark, char *out, size_t size)
{
    const char *digits = strchr(c->id, '_');
    snprintf(out, size, "%s_%s%02zu", mark, digits ? digits + 1 : "", json_array_size(p->output));
}

void
dop_response_name_items(const dop_call *c, json_t *items)
{
    static const char *const marks[][2] = {{"function_call", "fc"}, {"custom_tool_call", "ctc"}, {"reasoning", "rs"}};
    const char *digits = strchr(c->id, '_');
    json_t *item;
    size_t i;
    json_array_foreach(items, i, item)
    {
        const char *type = json_string_value(json_object_get(item, "type")), *mark = type ? "item" : "msg";
        if (json_is_string(json_object_get(item, "id")))
            continue;
        for (size_t k = 0; type && k < sizeof marks / sizeof *marks; k++)
            if (strcmp(type, marks[k][0]) == 0)
                mark = marks[k][1];
        if (type && strcmp(type, message_type) == 0)
            mark = "msg";
        json_object_set_new(item, "id", json_sprintf("%s_%si%02zu", mark, digits ? digits + 1 : "", i));
    }
}

/* --- the response -------------------------------------------------------------------------------------------------------------- */

static json_t *
make_response_usage(const dop_news *news)
{
    const dop_job_state *s = &news->state;
    return json_pack("{s:I, s:{s:I}, s:I, s:{s:I}, s:I}", "input_tokens", (json_int_t)s->n_prompt,
                     "input_tokens_details", "cached_tokens", (json_int_t)s->n_reused, "output_tokens",
                     (json_int_t)s->n_tokens, "output_tokens_details", "reasoning_tokens",
                     (json_int_t)news->thought_tokens, "total_tokens",
                     (json_int_t)s->n_prompt + (json_int_t)s->n_tokens);
}

/* Returns the error of a failed job in the response's format. */
static json_t *
make_response_error(const dop_job_state *s)
{
    dop_answer error = {0};
    json_t *whole = NULL;
    dop_answer_failure(&error, s);
    (void)dop_json_decode(error.body.data, error.body.size, &(dop_json_how){0}, NULL, &whole);
    const json_t *message = json_object_get(json_object_get(whole, "error"), "message");
    json_t *made = json_pack("{s:s, s:O?}", "code", s->by_request ? "invalid_prompt" : "server_error", "message",
                             (json_t *)(uintptr_t)message);
    json_decref(whole);
    dop_answer_finish(&error);
    return made;
}

json_t *
dop_response_json(const dop_call *c, const dop_response *response, const dop_news *news, const char *status)
{
    const bool cut = news && news->state.end == DOP_JOB_LENGTH;
    if (!status)
        status = !news->good ? "failed" : cut ? "incomplete" : "completed";
    json_t *all = json_pack("{s:s, s:s, s:I, s:s, s:o, s:o, s:s, s:O, s:s, s:o}", "id", c->id, "object", "response",
                            "created_at", (json_int_t)c->created, "status", status, "error",
                            news && !news->good ? make_response_error(&news->state) : json_null(), "incomplete_details",
                            cut ? json_pack("{s:s}", "reason", "max_output_tokens") : json_null(), "model",
                            c->api->facts.name, "output", response->output, "service_tier", "default", "usage",
                            news && news->ended ? make_response_usage(news) : json_null());
    if (all && news && news->ended && news->good)
        json_object_set_new(all, "completed_at", json_integer((json_int_t)time(NULL)));
    if (all)
        json_object_update(all, response->terms.echo);
    return all;
}

/* --- items ---------------------------------------------------------------------------------------------------------------------- */

/* Appends a named and numbered event. answer NULL: the response is not streamed. Takes ownership of the value. */
static void
append_response_event(dop_response *p, dop_answer *answer, const char *name, json_t *value)
{
    if (answer && value) {
        json_object_set_new(value, "type", json_string(name));
        json_object_set_new(value, "sequence_number", json_integer((json_int_t)p->n_events++));
        dop_answer_event(answer, name, value);
        return;
    }
    json_decref(value);
}

/* Appends an event about the item in progress. extra: further members of the event, whose ownership is taken. */
static void
append_item_event(const dop_call *c, dop_response *p, dop_answer *answer, const char *name, const char *mark,
                  json_t *extra)
{
    char id[64];
    make_item_id(c, p, mark, id, sizeof id);
    json_t *value = json_pack("{s:n, s:n, s:s, s:I}", "type", "sequence_number", "item_id", id, "output_index",
                              (json_int_t)json_array_size(p->output));
    if (value)
        json_object_update(value, extra);
    json_decref(extra);
    append_response_event(p, answer, name, value);
}

/* Returns the content part of the item in progress. Its text is empty unless the item has ended. */
static json_t *
make_content_part(const dop_call *c, const dop_response *p, bool ended)
{
    json_t *text = ended ? make_buf_json(&p->text) : json_string("");
    if (p->open == reasoning_type)
        return json_pack("{s:s, s:o}", "type", "reasoning_text", "text", text);
    return json_pack("{s:s, s:o, s:[], s:o}", "type", "output_text", "text", text, "annotations", "logprobs",
                     ended && c->logprobs ? dop_call_logprobs(c) : json_array());
}

/* Returns the item in progress. Its content is empty unless the item has ended. */
static json_t *
make_open_item(const dop_call *c, const dop_response *p, bool ended, bool cut)
{
    char id[64];
    const char *status = !ended ? "in_progress" : cut ? "incomplete" : "completed";
    json_t *content = json_array();
    if (ended)
        json_array_append_new(content, make_content_part(c, p, true));
    make_item_id(c, p, p->open == reasoning_type ? "rs" : "msg", id, sizeof id);
    if (p->open == reasoning_type)
        return json_pack("{s:s, s:s, s:s, s:[], s:o}", "id", id, "type", p->open, "status", status, "summary",
                         "content", content);
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", id, "type", p->open, "status", status, "role", "assistant",
                     "content", content);
}

static void
begin_response_item(const dop_call *c, dop_response *p, const char *type, dop_answer *answer)
{
    const char *mark = type == reasoning_type ? "rs" : "msg";
    p->open = type;
    p->text.size = 0;
    append_response_event(p, answer, "response.output_item.added",
                          json_pack("{s:n, s:n, s:I, s:o}", "type", "sequence_number", "output_index",
                                    (json_int_t)json_array_size(p->output), "item",
                                    make_open_item(c, p, false, false)));
    append_item_event(c, p, answer, "response.content_part.added", mark,
                      json_pack("{s:i, s:o}", "content_index", 0, "part", make_content_part(c, p, false)));
}

/* Ends the item in progress. cut: the answer reached its maximum length in this item. */
static void
end_response_item(const dop_call *c, dop_response *p, bool cut, dop_answer *answer)
{
    const bool reasons = p->open == reasoning_type;
    const char *mark = reasons ? "rs" : "msg";
    if (!p->open)
        return;
    json_t *part = make_content_part(c, p, true),
           *done = json_pack("{s:i, s:o}", "content_index", 0, "text", make_buf_json(&p->text));
    if (!reasons && done)
        json_object_set(done, "logprobs", json_object_get(part, "logprobs"));
    append_item_event(c, p, answer, reasons ? "response.reasoning_text.done" : "response.output_text.done", mark, done);
    append_item_event(c, p, answer, "response.content_part.done", mark,
                      json_pack("{s:i, s:o}", "content_index", 0, "part", part));
    json_t *item = make_open_item(c, p, true, cut);
    append_response_event(p, answer, "response.output_item.done",
                          json_pack("{s:n, s:n, s:I, s:O}", "type", "sequence_number", "output_index",
                                    (json_int_t)json_array_size(p->output), "item", item));
    json_array_append_new(p->output, item);
    p->open = NULL;
}

static void
add_response_text(const dop_call *c, dop_response *p, const char *type, const char *text, size_t n, dop_answer *answer)
{
    const bool reasons = type == reasoning_type;
    if (p->open != type) {
        end_response_item(c, p, false, answer);
        begin_response_item(c, p, type, answer);
    }
    dop_buf_append(&p->text, text, n);
    json_t *delta = json_pack("{s:i, s:o}", "content_index", 0, "delta", dop_json_text(text, n));
    if (!reasons && delta)
        json_object_set_new(delta, "logprobs", json_array());
    append_item_event(c, p, answer, reasons ? "response.reasoning_text.delta" : "response.output_text.delta",
                      reasons ? "rs" : "msg", delta);
}

/* Returns a call as an item: a function call, or a call of a custom tool with text input. */
static json_t *
make_call_item(const char *id, const json_t *call, const json_t *given, bool custom, const char *status)
{
    const json_t *function = json_object_get(call, "function");
    return json_pack("{s:s, s:s, s:s, s:O, s:O, s:O}", "id", id, "type", custom ? "custom_tool_call" : "function_call",
                     "status", status, "call_id", json_object_get(call, "id"), "name",
                     json_object_get(function, "name"), custom ? "input" : "arguments", (json_t *)(uintptr_t)given);
}

static void
add_response_call(const dop_call *c, dop_response *p, const json_t *call, dop_answer *answer)
{
    enum { DELTA = 64 }; /* approximate bytes of arguments per event */
    const json_t *function = json_object_get(call, "function");
    const char *name = json_string_value(json_object_get(function, "name"));
    const bool custom = json_object_get(p->terms.custom, name) != NULL;
    const char *mark = custom ? "ctc" : "fc";
    json_t *arguments = custom ? dop_call_arguments(call) : NULL, *none = json_string(""),
           *given = json_incref(custom ? json_object_get(arguments, "input") : json_object_get(function, "arguments"));
    char id[64];
    end_response_item(c, p, false, answer);
    if (!json_is_string(given)) { /* the call is truncated */
        json_decref(given);
        given = json_incref(none);
    }
    make_item_id(c, p, mark, id, sizeof id);
    append_response_event(p, answer, "response.output_item.added",
                          json_pack("{s:n, s:n, s:I, s:o}", "type", "sequence_number", "output_index",
                                    (json_int_t)json_array_size(p->output), "item",
                                    make_call_item(id, call, none, custom, "in_progress")));
    const char *text = json_string_value(given);
    const size_t n = json_string_length(given);
    for (size_t at = 0; at < n && answer;) {
        size_t end = at + DELTA < n ? at + DELTA : n;
        while (end < n && ((unsigned char)text[end] & 0xc0) == 0x80)
            end++;
        append_item_event(c, p, answer,
                          custom ? "response.custom_tool_call_input.delta" : "response.function_call_arguments.delta",
                          mark, json_pack("{s:o}", "delta", json_stringn(text + at, end - at)));
        at = end;
    }
    append_item_event(c, p, answer,
                      custom ? "response.custom_tool_call_input.done" : "response.function_call_arguments.done", mark,
                      json_pack("{s:s, s:O}", "name", name, custom ? "input" : "arguments", given));
    json_t *item = make_call_item(id, call, given, custom, "completed");
    append_response_event(p, answer, "response.output_item.done",
                          json_pack("{s:n, s:n, s:I, s:O}", "type", "sequence_number", "output_index",
                                    (json_int_t)json_array_size(p->output), "item", item));
    json_array_append_new(p->output, item);
    json_decref(given);
    json_decref(none);
    json_decref(arguments);
}

/* Adds new output to the response. */
static void
add_response_news(const dop_call *c, dop_response *p, const dop_news *news, dop_answer *answer)
{
    if (news->n_reasoning)
        add_response_text(c, p, reasoning_type, news->reasoning, news->n_reasoning, answer);
    size_t n = news->n_content;
    while (news->calls && n > 0 && strchr(" \n\r\t", news->content[n - 1]))
        n--;
    if (news->n_content && n > 0)
        add_response_text(c, p, message_type, news->content, news->n_content, answer);
    for (size_t i = news->first_call; i < json_array_size(news->calls); i++)
        add_response_call(c, p, json_array_get(news->calls, i), answer);
    if (news->ended)
        end_response_item(c, p, news->state.end == DOP_JOB_LENGTH, answer);
}

/* Stores an ended response if the request asks for it. */
static void
store_ended_response(const dop_call *c, dop_response *p, const json_t *response)
{
    if (!p->terms.keeps || !response)
        return;
    dop_response_name_items(c, p->terms.items);
    json_array_extend(p->terms.items, p->output);
    dop_response_store_put(c->api->store, c->id, response, p->terms.items);
}

static void
write_whole_response(dop_call *c, const dop_news *news, dop_answer *answer)
{
    dop_response *p = c->state;
    add_response_news(c, p, news, NULL);
    json_t *all = dop_response_json(c, p, news, NULL);
    dop_json_encode(&answer->body, all);
    answer->body.failed |= !all || p->text.failed;
    store_ended_response(c, p, all);
    json_decref(all);
}

static void
write_response_stream(dop_call *c, const dop_news *news, dop_answer *answer)
{
    dop_response *p = c->state;
    if (p->n_events == 0) {
        append_response_event(p, answer, "response.created",
                              json_pack("{s:n, s:n, s:o}", "type", "sequence_number", "response",
                                        dop_response_json(c, p, NULL, "in_progress")));
        append_response_event(p, answer, "response.in_progress",
                              json_pack("{s:n, s:n, s:o}", "type", "sequence_number", "response",
                                        dop_response_json(c, p, NULL, "in_progress")));
    }
    add_response_news(c, p, news, answer);
    answer->body.failed |= p->text.failed;
    if (!news->ended)
        return;
    json_t *all = dop_response_json(c, p, news, NULL);
    const char *name = !news->good                         ? "response.failed"
                       : news->state.end == DOP_JOB_LENGTH ? "response.incomplete"
                                                           : "response.completed";
    append_response_event(p, answer, name, json_pack("{s:n, s:n, s:O}", "type", "sequence_number", "response", all));
    store_ended_response(c, p, all);
    json_decref(all);
}

static void
finish_response_state(void *state)
{
    dop_response *p = state;
    if (!p)
        return;
    dop_response_terms_finish(&p->terms);
    json_decref(p->output);
    dop_buf_finish(&p->text);
    free(p);
}

const dop_writer dop_responses_writer = {
    .id = "resp", .whole = write_whole_response, .stream = write_response_stream, .finish = finish_response_state};
