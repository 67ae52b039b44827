/* Writes answers in the format of Anthropic's Messages API. */
#include "serve/protocols/messages_answer.h"
#include "serve/api/api_json.h"
#include "serve/api/api_request.h"
#include "serve/protocols/conversation.h"
#include "serve/protocols/messages_request.h"

#include <stdlib.h>
#include <string.h>

/* State of a message that is being streamed. */
typedef struct streamed {
    bool begun;
    const char *open; /* type of the block in progress; NULL: none */
    size_t n_blocks;  /* number of blocks begun */
} streamed;

static bool
is_blank_text(const char *text, size_t n)
{
    while (n > 0 && strchr(" \n\r\t", text[n - 1]))
        n--;
    return n == 0;
}

/* Returns the id of a call. The API permits only letters, digits, - and _. */
static json_t *
make_tool_use_id(const json_t *call)
{
    char id[80];
    snprintf(id, sizeof id, "toolu_%.60s", json_string_value(json_object_get(call, "id")));
    for (char *c = id; *c; c++)
        if (*c == '.' || *c == ':')
            *c = '_';
    return json_string(id);
}

static json_t *
get_call_name(const json_t *call)
{
    return json_incref(json_object_get(json_object_get(call, "function"), "name"));
}

static const char *
get_stop_reason(const dop_call *c, const dop_news *news, const char **out_stop)
{
    const dop_job_state *s = &news->state;
    *out_stop = NULL;
    if (s->end == DOP_JOB_LENGTH)
        return c->clamped ? "model_context_window_exceeded" : "max_tokens";
    if (json_array_size(news->calls) > 0)
        return "tool_use";
    if (s->end == DOP_JOB_STOP_TEXT && s->stop && s->stop_index >= c->n_own_stops)
        *out_stop = s->stop;
    return *out_stop ? "stop_sequence" : "end_turn";
}

/* Returns the token counts. Cached prompt tokens are counted separately. */
static json_t *
make_messages_usage(const dop_news *news, bool ended)
{
    const dop_job_state *s = &news->state;
    return json_pack("{s:I, s:i, s:I, s:I}", "input_tokens", (json_int_t)(s->n_prompt - s->n_reused),
                     "cache_creation_input_tokens", 0, "cache_read_input_tokens", (json_int_t)s->n_reused,
                     "output_tokens", ended || s->n_tokens == 0 ? (json_int_t)s->n_tokens : 1);
}

/* Returns the message with its content. reason NULL: the message has not ended. */
static json_t *
make_message_json(const dop_call *c, const dop_news *news, json_t *content, const char *reason, const char *stop)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:s?, s:s?, s:o}", "id", c->id, "type", "message", "role", "assistant",
                     "model", c->api->facts.name, "content", content, "stop_reason", reason, "stop_sequence", stop,
                     "usage", make_messages_usage(news, reason != NULL));
}

static void
write_whole_message(dop_call *c, const dop_news *news, dop_answer *answer)
{
    json_t *content = json_array(), *call;
    size_t i;
    const char *stop, *reason = get_stop_reason(c, news, &stop);
    if (news->n_reasoning)
        json_array_append_new(content, json_pack("{s:s, s:o, s:s}", "type", "thinking", "thinking",
                                                 dop_json_text(news->reasoning, news->n_reasoning), "signature", ""));
    if (news->n_content && !(news->calls && is_blank_text(news->content, news->n_content)))
        json_array_append_new(
            content, json_pack("{s:s, s:o}", "type", "text", "text", dop_json_text(news->content, news->n_content)));
    json_array_foreach(news->calls, i, call) json_array_append_new(
        content, json_pack("{s:s, s:o, s:o, s:o}", "type", "tool_use", "id", make_tool_use_id(call), "name",
                           get_call_name(call), "input", dop_call_arguments(call)));
    json_t *all = make_message_json(c, news, content, reason, stop);
    dop_json_encode(&answer->body, all);
    answer->body.failed |= !all;
    json_decref(all);
}

/* --- streams ------------------------------------------------------------------------------------------------------------------ */

/* Appends an event whose value has the event's name as its "type". Takes ownership of the value. */
static void
append_messages_event(dop_answer *answer, const char *name, json_t *value)
{
    if (value)
        json_object_set_new(value, "type", json_string(name));
    dop_answer_event(answer, name, value);
}

static void
append_block_delta(const streamed *m, dop_answer *answer, json_t *what)
{
    append_messages_event(answer, "content_block_delta",
                          json_pack("{s:n, s:I, s:o}", "type", "index", (json_int_t)m->n_blocks - 1, "delta", what));
}

static void
end_message_block(streamed *m, dop_answer *answer)
{
    if (!m->open)
        return;
    if (strcmp(m->open, "thinking") == 0)
        append_block_delta(m, answer, json_pack("{s:s, s:s}", "type", "signature_delta", "signature", ""));
    append_messages_event(answer, "content_block_stop",
                          json_pack("{s:n, s:I}", "type", "index", (json_int_t)m->n_blocks - 1));
    m->open = NULL;
}

/* Begins a block, unless a block of this type is in progress. Takes ownership of the block. */
static void
begin_message_block(streamed *m, const char *type, json_t *block, dop_answer *answer)
{
    if (m->open && strcmp(m->open, type) == 0 && strcmp(type, "tool_use") != 0) {
        json_decref(block);
        return;
    }
    end_message_block(m, answer);
    m->open = type;
    append_messages_event(
        answer, "content_block_start",
        json_pack("{s:n, s:I, s:o}", "type", "index", (json_int_t)m->n_blocks++, "content_block", block));
}

/* Streams a call: its name, then its arguments in pieces. */
static void
stream_tool_use(streamed *m, const json_t *call, dop_answer *answer)
{
    enum { DELTA = 64 }; /* approximate bytes of arguments per event */
    json_t *input = dop_call_arguments(call);
    dop_buf text = {0};
    dop_json_encode(&text, input);
    begin_message_block(m, "tool_use",
                        json_pack("{s:s, s:o, s:o, s:{}}", "type", "tool_use", "id", make_tool_use_id(call), "name",
                                  get_call_name(call), "input"),
                        answer);
    for (size_t at = 0; at < text.size;) {
        size_t end = at + DELTA < text.size ? at + DELTA : text.size;
        while (end < text.size && ((unsigned char)text.data[end] & 0xc0) == 0x80)
            end++;
        append_block_delta(m, answer,
                           json_pack("{s:s, s:o}", "type", "input_json_delta", "partial_json",
                                     json_stringn(text.data + at, end - at)));
        at = end;
    }
    answer->body.failed |= text.failed;
    json_decref(input);
    dop_buf_finish(&text);
}

static void
end_message_stream(const dop_call *c, streamed *m, const dop_news *news, dop_answer *answer)
{
    const char *stop, *reason = get_stop_reason(c, news, &stop);
    end_message_block(m, answer);
    append_messages_event(answer, "message_delta",
                          json_pack("{s:n, s:{s:s, s:s?}, s:o}", "type", "delta", "stop_reason", reason,
                                    "stop_sequence", stop, "usage", make_messages_usage(news, true)));
    append_messages_event(answer, "message_stop", json_pack("{s:n}", "type"));
}

static void
write_message_stream(dop_call *c, const dop_news *news, dop_answer *answer)
{
    streamed *m = c->state;
    /* the number of cached prompt tokens is not known yet */
    if (!m->begun && news->state.n_tokens == 0 && !news->ended)
        return;
    if (!m->begun && news->good) {
        append_messages_event(
            answer, "message_start",
            json_pack("{s:n, s:o}", "type", "message", make_message_json(c, news, json_array(), NULL, NULL)));
        append_messages_event(answer, "ping", json_pack("{s:n}", "type"));
        m->begun = true;
    }
    if (news->n_reasoning) {
        begin_message_block(m, "thinking",
                            json_pack("{s:s, s:s, s:s}", "type", "thinking", "thinking", "", "signature", ""), answer);
        append_block_delta(m, answer,
                           json_pack("{s:s, s:o}", "type", "thinking_delta", "thinking",
                                     dop_json_text(news->reasoning, news->n_reasoning)));
    }
    if (news->n_content && !(news->calls && is_blank_text(news->content, news->n_content))) {
        begin_message_block(m, "text", json_pack("{s:s, s:s}", "type", "text", "text", ""), answer);
        append_block_delta(
            m, answer,
            json_pack("{s:s, s:o}", "type", "text_delta", "text", dop_json_text(news->content, news->n_content)));
    }
    for (size_t i = news->first_call; i < json_array_size(news->calls); i++)
        stream_tool_use(m, json_array_get(news->calls, i), answer);
    if (news->ended && news->good)
        end_message_stream(c, m, news, answer);
    else if (news->ended)
        dop_answer_failed_event(answer, &news->state);
}

const dop_writer dop_messages_writer = {
    .id = "msg", .whole = write_whole_message, .stream = write_message_stream, .finish = free};

/* --- paths ---------------------------------------------------------------------------------------------------------------------- */

void
dop_messages_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                   dop_call **out_call)
{
    dop_reader r = {.root = root, .answer = answer};
    json_t *chat = dop_messages_translate(&r, false);
    streamed *state = chat ? calloc(1, sizeof *state) : NULL;
    if (state)
        *out_call = dop_call_begin(
            api, request, chat, (dop_call_how){.kind = DOP_CALL_CHAT, .writer = &dop_messages_writer, .state = state},
            answer);
    else if (chat)
        dop_answer_no_memory(answer);
    json_decref(chat);
}

void
dop_messages_count(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                   dop_call **out_call)
{
    dop_reader r = {.root = root, .answer = answer};
    json_t *chat = dop_messages_translate(&r, true);
    size_t n;
    (void)out_call;
    if (chat && dop_call_measure(api, request, chat, answer, &n))
        dop_answer_json(answer, 200, json_pack("{s:I}", "input_tokens", (json_int_t)n));
    json_decref(chat);
}
