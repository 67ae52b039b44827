/* What jobs have written, as JSON: complete, or piece by piece as server-sent events. */
#include "base/utf8.h"
#include "runtime/server/api_internal.h"

#include <stdlib.h>
#include <string.h>

static const char *
finish_reason(const dop_job_state *s, const json_t *calls)
{
    if (s->end == DOP_JOB_LENGTH) /* a last call may have been cut */
        return "length";
    return calls ? "tool_calls" : "stop";
}

/* Is nothing wrong with a job in this state? */
static bool
is_good(dop_job_end end)
{
    return end == DOP_JOB_GOES_ON || end == DOP_JOB_END_TOKEN || end == DOP_JOB_STOP_TEXT || end == DOP_JOB_LENGTH;
}

static void
fail(dop_answer *answer, const dop_job_state *s)
{
    if (s->end == DOP_JOB_TIMEOUT)
        dop_answer_error(answer, &(dop_api_error){408, "timeout_error", "timeout", NULL},
                         "the answer took longer than this server allows");
    else if (s->end == DOP_JOB_SHUTDOWN)
        dop_answer_error(answer, &(dop_api_error){503, "server_error", "shutting_down", NULL},
                         "the server is shutting down");
    else
        dop_answer_error(answer,
                         s->diag->code == DOP_E_LIMIT /* such as a grammar that is too ambiguous */
                             ? &(dop_api_error){400, "invalid_request_error", NULL, NULL}
                             : s->diag->code == DOP_E_DEVICE /* later requests get the same answer (api.c) */
                                   ? &(dop_api_error){503, "server_error", "device_failed", NULL}
                                   : &(dop_api_error){500, "server_error", NULL, NULL},
                         "%s", s->diag->message);
}

/* --- parts ------------------------------------------------------------------------------------------------------------------ */

static json_t *
one_token(const dop_call *c, const dop_top *t)
{
    size_t n;
    const char *piece = dop_tokenizer_piece(c->api->tok, t->id, &n);
    json_t *bytes = json_array();
    for (size_t i = 0; piece && i < n; i++)
        json_array_append_new(bytes, json_integer((unsigned char)piece[i]));
    return json_pack("{s:o, s:i, s:f, s:o}", "token", dop_json_text(piece ? piece : "", piece ? n : 0), "id",
                     (int)t->id, "logprob", (double)t->logprob, "bytes", bytes);
}

static json_t *
chat_logprobs(const dop_call *c, const dop_job_state *s, uint32_t from)
{
    json_t *content = json_array();
    for (uint32_t i = from; i < s->n_tokens; i++) {
        const dop_job_token *t = &s->tokens[i];
        json_t *one = one_token(c, &t->pick), *top = json_array();
        for (uint32_t k = 0; k < t->n_top; k++)
            json_array_append_new(top, one_token(c, &t->top[k]));
        json_object_set_new(one, "top_logprobs", top);
        json_array_append_new(content, one);
    }
    return json_pack("{s:o, s:n}", "content", content, "refusal");
}

static json_t *
token_text(const dop_call *c, uint32_t id)
{
    size_t n;
    const char *piece = dop_tokenizer_piece(c->api->tok, id, &n);
    return dop_json_text(piece ? piece : "", piece ? n : 0);
}

static json_t *
completion_logprobs(const dop_call *c, const dop_job_state *s, uint32_t from)
{
    json_t *tokens = json_array(), *logprobs = json_array(), *tops = json_array(), *offsets = json_array();
    size_t offset = 0;
    for (uint32_t i = 0; i < s->n_tokens; i++) {
        const dop_job_token *t = &s->tokens[i];
        size_t n = 0;
        (void)dop_tokenizer_piece(c->api->tok, t->pick.id, &n);
        if (i >= from) {
            json_t *top = json_object();
            for (uint32_t k = 0; k < t->n_top; k++) {
                json_t *name = token_text(c, t->top[k].id);
                json_object_set_new(top, json_string_value(name), json_real((double)t->top[k].logprob));
                json_decref(name);
            }
            json_array_append_new(tokens, token_text(c, t->pick.id));
            json_array_append_new(logprobs, json_real((double)t->pick.logprob));
            json_array_append_new(tops, top);
            json_array_append_new(offsets, json_integer((json_int_t)offset));
        }
        offset += n;
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "tokens", tokens, "token_logprobs", logprobs, "top_logprobs", tops,
                     "text_offset", offsets);
}

static json_t *
logprobs(const dop_call *c, const dop_job_state *s, uint32_t from)
{
    if (!c->logprobs)
        return json_null();
    return c->chat ? chat_logprobs(c, s, from) : completion_logprobs(c, s, from);
}

/* Counts the tokens of all choices.  A prompt that several choices share counts once. */
static json_t *
usage(const dop_call *c)
{
    json_int_t prompt = 0, reused = 0, written = 0;
    for (uint32_t i = 0; i < c->n_choices; i++) {
        dop_job_state s = dop_job_look(c->choices[i].job);
        written += s.n_tokens;
        if (i % c->n_each > 0)
            continue;
        prompt += s.n_prompt;
        reused += s.n_reused;
    }
    return json_pack("{s:I, s:I, s:I, s:{s:I}}", "prompt_tokens", prompt, "completion_tokens", written, "total_tokens",
                     prompt + written, "prompt_tokens_details", "cached_tokens", reused);
}

static json_t *
envelope(const dop_call *c, bool chunk, json_t *choices)
{
    const char *object = !c->chat ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion";
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", c->id, "object", object, "created", (json_int_t)c->created,
                     "model", c->api->facts.name, "system_fingerprint", "doppler-" DOP_VERSION, "choices", choices);
}

/* --- whole ------------------------------------------------------------------------------------------------------------------ */

/* Is there nothing but white space? */
static bool
is_blank(const dop_buf *text)
{
    size_t n = 0;
    while (n < text->size && strchr(" \n\r\t", text->data[n]))
        n++;
    return n == text->size;
}

static json_t *
message(dop_choice *choice, const dop_job_state *s)
{
    dop_reading *r = &choice->reading;
    dop_reading_feed(r, s->text, s->n_text, true);
    json_t *text = r->calls && is_blank(&r->content)
                       ? json_null()
                       : dop_json_text(r->content.size ? r->content.data : "", r->content.size);
    json_t *m = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content", text, "refusal");
    if (r->reasoning.size > 0)
        json_object_set_new(m, "reasoning_content", dop_json_text(r->reasoning.data, r->reasoning.size));
    if (r->calls)
        json_object_set(m, "tool_calls", r->calls);
    return m;
}

static json_t *
whole_choice(dop_call *c, uint32_t index)
{
    dop_choice *own = &c->choices[index];
    dop_job_state s = dop_job_look(own->job);
    json_t *m = c->chat ? message(own, &s) : NULL;
    json_t *choice = json_pack("{s:i, s:s, s:o}", "index", (int)index, "finish_reason",
                               finish_reason(&s, own->reading.calls), "logprobs", logprobs(c, &s, 0));
    if (m)
        json_object_set_new(choice, "message", m);
    else
        json_object_set_new(choice, "text", json_stringn(s.text, s.n_text));
    dop_call_note_validity(c, index, choice);
    return choice;
}

static json_t *
embeddings(const dop_call *c)
{
    json_t *data = json_array();
    json_int_t tokens = 0;
    for (uint32_t i = 0; i < c->n_choices; i++) {
        dop_job_state s = dop_job_look(c->choices[i].job);
        json_t *values = c->base64 ? dop_json_base64(s.embedding, s.n_embedding * sizeof(float)) : json_array();
        for (uint32_t k = 0; k < s.n_embedding && !c->base64; k++)
            json_array_append_new(values, json_real((double)s.embedding[k]));
        json_array_append_new(
            data, json_pack("{s:s, s:i, s:o}", "object", "embedding", "index", (int)i, "embedding", values));
        tokens += s.n_prompt;
    }
    return json_pack("{s:s, s:o, s:s, s:{s:I, s:I}}", "object", "list", "data", data, "model", c->api->facts.name,
                     "usage", "prompt_tokens", tokens, "total_tokens", tokens);
}

static bool
poll_whole(dop_call *c, dop_answer *answer)
{
    for (uint32_t i = 0; i < c->n_choices; i++) {
        dop_job_state s = dop_job_look(c->choices[i].job);
        if (s.end == DOP_JOB_GOES_ON)
            return false;
        if (!is_good(s.end)) {
            fail(answer, &s);
            return true;
        }
    }
    if (c->embeds) {
        dop_answer_json(answer, 200, embeddings(c));
        return true;
    }
    json_t *choices = json_array();
    for (uint32_t i = 0; i < c->n_choices; i++)
        json_array_append_new(choices, whole_choice(c, i));
    json_t *all = envelope(c, false, choices);
    json_object_set_new(all, "usage", usage(c));
    dop_answer_json(answer, 200, all);
    return true;
}

/* --- streams ------------------------------------------------------------------------------------------------------------------ */

static void
event(dop_answer *answer, json_t *value)
{
    dop_buf_puts(&answer->body, "data: ");
    dop_json_encode(&answer->body, value);
    dop_buf_puts(&answer->body, "\n\n");
    json_decref(value);
}

/* Appends an event about one choice.  Owns from now on: delta (of a chat; of a completion, its text), and probabilities. */
static void
chunk(const dop_call *c, uint32_t index, json_t *delta, const char *reason, json_t *probabilities, dop_answer *answer)
{
    json_t *choice = json_pack("{s:i, s:o, s:s?, s:o}", "index", (int)index, c->chat ? "delta" : "text", delta,
                               "finish_reason", reason, "logprobs", probabilities);
    if (reason)
        dop_call_note_validity(c, index, choice);
    json_t *choices = json_array();
    json_array_append_new(choices, choice);
    json_t *all = envelope(c, true, choices);
    if (c->include_usage)
        json_object_set_new(all, "usage", json_null());
    event(answer, all);
}

/* A call as OpenAI streams it: its name first, then its arguments in pieces. */
static void
stream_call(const dop_call *c, uint32_t index, size_t number, const json_t *call, dop_answer *answer)
{
    enum { PIECE = 64 }; /* characters of arguments, about */
    const json_t *function = json_object_get(call, "function"), *arguments = json_object_get(function, "arguments");
    const char *text = json_string_value(arguments);
    const size_t n = json_string_length(arguments);
    chunk(c, index,
          json_pack("{s:[{s:I, s:O, s:s, s:{s:O, s:s}}]}", "tool_calls", "index", (json_int_t)number, "id",
                    json_object_get(call, "id"), "type", "function", "function", "name",
                    json_object_get(function, "name"), "arguments", ""),
          NULL, json_null(), answer);
    for (size_t at = 0; at < n;) {
        size_t end = at + PIECE < n ? at + PIECE : n;
        while (end < n && ((unsigned char)text[end] & 0xc0) == 0x80)
            end++;
        chunk(c, index,
              json_pack("{s:[{s:I, s:{s:o}}]}", "tool_calls", "index", (json_int_t)number, "function", "arguments",
                        json_stringn(text + at, end - at)),
              NULL, json_null(), answer);
        at = end;
    }
}

static void
stream_error(const dop_job_state *s, dop_answer *answer)
{
    dop_answer error = {0};
    fail(&error, s);
    dop_buf_printf(&answer->body, "data: %s\n\n", error.body.data ? error.body.data : "{}");
    dop_buf_finish(&error.body);
}

/* How much of a text ends with a whole character. */
static size_t
whole_characters(const dop_buf *text)
{
    size_t n = text->size;
    const size_t good = dop_utf8_check(text->size ? text->data : "", n);
    return n - good < 4 ? good : n; /* longer ones are not characters at all */
}

/* Sends what is new in a part of the answer as a delta of this name. */
static void
stream_text(const dop_call *c, uint32_t index, const char *name, const dop_buf *text, bool ended, size_t *io_sent,
            json_t *probabilities, dop_answer *answer)
{
    const size_t n = ended ? text->size : whole_characters(text), from = *io_sent < n ? *io_sent : n;
    chunk(c, index, json_pack("{s:o}", name, dop_json_text(text->size ? text->data + from : "", n - from)), NULL,
          probabilities, answer);
    *io_sent = n > *io_sent ? n : *io_sent;
}

static void
stream_message(dop_call *c, uint32_t index, const dop_job_state *s, bool ended, dop_answer *answer)
{
    dop_choice *choice = &c->choices[index];
    dop_reading *r = &choice->reading;
    dop_reading_feed(r, s->text, s->n_text, ended);
    if (r->reasoning.size > choice->sent_reasoning)
        stream_text(c, index, "reasoning_content", &r->reasoning, ended, &choice->sent_reasoning, json_null(), answer);
    const bool more =
        r->content.size > choice->sent && !(choice->sent == 0 && is_blank(&r->content) && (!ended || r->calls));
    /* White space at the beginning waits, because a call may follow. */
    if (more)
        stream_text(c, index, "content", &r->content, ended, &choice->sent, logprobs(c, s, choice->sent_tokens),
                    answer);
    else if (c->logprobs && s->n_tokens > choice->sent_tokens)
        chunk(c, index, json_pack("{s:s}", "content", ""), NULL, logprobs(c, s, choice->sent_tokens), answer);
    choice->sent_tokens = s->n_tokens;
    for (; choice->sent_calls < json_array_size(r->calls); choice->sent_calls++)
        stream_call(c, index, choice->sent_calls, json_array_get(r->calls, choice->sent_calls), answer);
}

static void
stream_choice(dop_call *c, uint32_t index, dop_answer *answer)
{
    dop_choice *choice = &c->choices[index];
    dop_job_state s = dop_job_look(choice->job);
    bool ended = s.end != DOP_JOB_GOES_ON;
    if (choice->over)
        return;
    if (!choice->begun && c->chat && (s.n_tokens > 0 || ended))
        chunk(c, index, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL, json_null(), answer);
    choice->begun |= s.n_tokens > 0 || ended;
    if (c->chat) {
        stream_message(c, index, &s, ended, answer);
    } else if (s.n_text > choice->sent || (c->logprobs && s.n_tokens > choice->sent_tokens)) {
        chunk(c, index, json_stringn(s.text + choice->sent, s.n_text - choice->sent), NULL,
              logprobs(c, &s, choice->sent_tokens), answer);
        choice->sent = s.n_text;
        choice->sent_tokens = s.n_tokens;
    }
    choice->over = ended;
    if (ended && is_good(s.end))
        chunk(c, index, c->chat ? json_object() : json_string(""), finish_reason(&s, choice->reading.calls),
              json_null(), answer);
    else if (ended)
        stream_error(&s, answer);
}

static bool
poll_stream(dop_call *c, dop_answer *answer)
{
    bool over = true;
    answer->status = 200;
    answer->type = "text/event-stream";
    answer->streams = true;
    for (uint32_t i = 0; i < c->n_choices; i++) {
        stream_choice(c, i, answer);
        over &= c->choices[i].over;
    }
    if (!over)
        return false;
    if (c->include_usage) {
        json_t *all = envelope(c, true, json_array());
        json_object_set_new(all, "usage", usage(c));
        event(answer, all);
    }
    dop_buf_puts(&answer->body, "data: [DONE]\n\n");
    return true;
}

bool
dop_call_poll(dop_call *call, dop_answer *io_answer)
{
    dop_engine_lock(call->api->engine);
    bool over = call->stream ? poll_stream(call, io_answer) : poll_whole(call, io_answer);
    dop_engine_unlock(call->api->engine);
    return over;
}

void
dop_call_end(dop_call *call)
{
    if (!call)
        return;
    for (uint32_t i = 0; i < call->n_choices; i++) {
        dop_job_release(call->api->engine, call->choices[i].job);
        dop_reading_finish(&call->choices[i].reading);
    }
    dop_buf_finish(&call->begin);
    json_decref(call->tools);
    json_decref(call->schema);
    free(call);
}
