/* What jobs have written, as JSON: complete, or piece by piece as server-sent events. */
#include "runtime/server/api_internal.h"

#include <stdlib.h>
#include <string.h>

static const char *
finish_reason(const dop_job_state *s, const json_t *calls)
{
    if (s->end == DOP_JOB_LENGTH) /* the last call may have been cut */
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

/* Replaces a choice's text by its content, which is the text without calls of tools; returns the content's bytes. */
static size_t
read_answer(const dop_call *c, dop_job_state *io_state, bool ended, dop_reading *out)
{
    if (!c->tools)
        return io_state->n_text;
    dop_reading_make(c->tools, c->begin, io_state->text, io_state->n_text, ended, out);
    io_state->text = out->content.size ? out->content.data : "";
    return out->content.size;
}

static json_t *
whole_choice(const dop_call *c, uint32_t index)
{
    dop_job_state s = dop_job_look(c->choices[index].job);
    dop_reading r = {0};
    const size_t n = read_answer(c, &s, true, &r);
    json_t *calls = r.calls;
    json_t *choice = json_pack("{s:i, s:s, s:o}", "index", (int)index, "finish_reason", finish_reason(&s, calls),
                               "logprobs", logprobs(c, &s, 0));
    dop_call_note_validity(c, index, choice);
    json_t *text = calls && n == 0 ? json_null() : json_stringn(s.text, n);
    if (!c->chat) {
        json_object_set_new(choice, "text", text);
        return choice;
    }
    json_t *message = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content", text, "refusal");
    if (r.reasoning.size > 0)
        json_object_set_new(message, "reasoning_content", dop_json_text(r.reasoning.data, r.reasoning.size));
    if (calls)
        json_object_set(message, "tool_calls", calls);
    json_object_set_new(choice, "message", message);
    dop_reading_finish(&r);
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

static json_t *
text_delta(const dop_call *c, const char *text, size_t n)
{
    json_t *t = json_stringn(text, n);
    return c->chat ? json_pack("{s:o}", "content", t) : t;
}

static json_t *
calls_delta(json_t *calls)
{
    for (size_t i = 0; i < json_array_size(calls); i++)
        json_object_set_new(json_array_get(calls, i), "index", json_integer((json_int_t)i));
    return json_pack("{s:O}", "tool_calls", calls);
}

static void
stream_error(const dop_job_state *s, dop_answer *answer)
{
    dop_answer error = {0};
    fail(&error, s);
    dop_buf_printf(&answer->body, "data: %s\n\n", error.body.data ? error.body.data : "{}");
    dop_buf_finish(&error.body);
}

static void
end_choice(const dop_call *c, uint32_t index, const dop_job_state *s, json_t *calls, dop_answer *answer)
{
    const char *reason = finish_reason(s, calls);
    if (calls)
        chunk(c, index, calls_delta(calls), NULL, json_null(), answer);
    chunk(c, index, c->chat ? json_object() : json_string(""), reason, json_null(), answer);
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
    dop_reading r = {0};
    const size_t n = read_answer(c, &s, ended, &r);
    if (r.reasoning.size > choice->sent_reasoning) {
        const size_t from = choice->sent_reasoning;
        chunk(c, index,
              json_pack("{s:o}", "reasoning_content", dop_json_text(r.reasoning.data + from, r.reasoning.size - from)),
              NULL, json_null(), answer);
        choice->sent_reasoning = r.reasoning.size;
    }
    if (n > choice->sent || (c->logprobs && s.n_tokens > choice->sent_tokens)) {
        size_t from = choice->sent < n ? choice->sent : n;
        chunk(c, index, text_delta(c, s.text + from, n - from), NULL, logprobs(c, &s, choice->sent_tokens), answer);
        choice->sent = n;
        choice->sent_tokens = s.n_tokens;
    }
    choice->over = ended;
    if (ended && is_good(s.end))
        end_choice(c, index, &s, r.calls, answer);
    else if (ended)
        stream_error(&s, answer);
    dop_reading_finish(&r);
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
    for (uint32_t i = 0; i < call->n_choices; i++)
        dop_job_release(call->api->engine, call->choices[i].job);
    free(call->begin);
    json_decref(call->schema);
    free(call);
}
