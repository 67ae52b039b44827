/* Writes the output of jobs as JSON: a whole answer, or a stream of server-sent events. */
#include "serve/api/api_answer.h"
#include "base/encoding/utf8.h"
#include "serve/api/api_constraints.h"
#include "serve/api/api_internal.h"
#include "serve/api/api_json.h"
#include "serve/api/api_texts.h"
#include "serve/api/api_tools.h"

#include <stdlib.h>
#include <string.h>

const char *
dop_finish_reason(const dop_job_state *s, const json_t *calls)
{
    if (s->end == DOP_JOB_LENGTH) /* the last call may be truncated */
        return "length";
    return calls ? "tool_calls" : "stop";
}

/* True if a job in this state is still running or has succeeded. */
static bool
is_good_end(dop_job_end end)
{
    return end == DOP_JOB_GOES_ON || end == DOP_JOB_END_TOKEN || end == DOP_JOB_STOP_TEXT || end == DOP_JOB_LENGTH;
}

/* --- snapshots -------------------------------------------------------------------------------------------------------------- */

/* Snapshot of a job, with copies of the data that still grows, so that the answer can be written without the
 * engine's lock. */
typedef struct glance {
    dop_job_state state; /* state.tokens begins with token first_token unless the job has ended */
    uint32_t first_token;
    dop_buf text, tokens;
} glance;

/* Takes a snapshot of a choice's job. from: first token whose log-probabilities are copied. */
static void
take_glance(const dop_call *c, uint32_t index, uint32_t from, glance *out)
{
    *out = (glance){0};
    dop_engine_lock(c->api->engine);
    dop_job_state *s = &out->state;
    *s = dop_job_look(c->choices[index].job);
    if (s->end == DOP_JOB_GOES_ON) { /* an ended job needs no copies: it does not change any more */
        dop_buf_append(&out->text, s->text, s->n_text);
        if (s->tokens && s->n_tokens > from)
            dop_buf_append(&out->tokens, s->tokens + from, (s->n_tokens - from) * sizeof *s->tokens);
        s->text = out->text.size ? out->text.data : "";
        s->tokens = (const dop_job_token *)(const void *)out->tokens.data;
        out->first_token = from;
    }
    dop_engine_unlock(c->api->engine);
}

/* True if memory for the copies ran out. The caller then acts as if there were no new output. */
static bool
is_glance_failed(const glance *g)
{
    return g->text.failed || g->tokens.failed;
}

static void
finish_glance(glance *g)
{
    dop_buf_finish(&g->text);
    dop_buf_finish(&g->tokens);
}

static const dop_job_token *
get_glance_token(const glance *g, uint32_t i)
{
    return &g->state.tokens[i - g->first_token];
}

/* --- parts ------------------------------------------------------------------------------------------------------------------ */

static json_t *
make_token_json(const dop_call *c, const dop_logprob *t)
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
make_token_text(const dop_call *c, uint32_t id)
{
    size_t n;
    const char *piece = dop_tokenizer_piece(c->api->tok, id, &n);
    return dop_json_text(piece ? piece : "", piece ? n : 0);
}

/* Returns the number of characters that begin in a token. A character split over several tokens counts for the first
 * one. */
static size_t
count_token_characters(const dop_call *c, uint32_t id)
{
    size_t n = 0, characters = 0;
    const char *piece = dop_tokenizer_piece(c->api->tok, id, &n);
    for (size_t i = 0; piece && i < n; i++)
        characters += ((unsigned char)piece[i] & 0xc0) != 0x80;
    return characters;
}

/* Names of the log-probability lists, in the order in which an answer has them. */
static const char *const chat_lists[] = {"content", NULL};
static const char *const completion_lists[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset", NULL};

static const char *const *
get_logprob_lists(const dop_call *c)
{
    return c->chat ? chat_lists : completion_lists;
}

/* Returns an entry of top_logprobs in a completion: the highest log-probability for each distinct token text. */
static json_t *
make_alternatives(const dop_call *c, const dop_logprob *top, uint32_t n, const dop_logprob *also)
{
    json_t *list = json_object();
    for (uint32_t k = 0; k < n + (also != NULL); k++) {
        const dop_logprob *one = k < n ? &top[k] : also;
        json_t *name = make_token_text(c, one->id);
        if (!json_object_get(list, json_string_value(name)))
            json_object_set_new(list, json_string_value(name), json_real((double)one->logprob));
        json_decref(name);
    }
    return list;
}

/* Returns a token with its alternatives, in the format of chat completions. */
static json_t *
make_token_with_top(const dop_call *c, const dop_job_token *t)
{
    json_t *one = make_token_json(c, &t->pick), *top = json_array();
    for (uint32_t k = 0; k < t->n_top; k++)
        json_array_append_new(top, make_token_json(c, &t->top[k]));
    json_object_set_new(one, "top_logprobs", top);
    return one;
}

/* Returns a token's item in one of the log-probability lists. offset: characters in the tokens before it. */
static json_t *
make_list_item(const dop_call *c, int list, const dop_job_token *t, size_t offset)
{
    if (c->chat)
        return make_token_with_top(c, t);
    if (list == 0)
        return make_token_text(c, t->pick.id);
    if (list == 1)
        return json_real((double)t->pick.logprob);
    return list == 3 ? json_integer((json_int_t)offset) : make_alternatives(c, t->top, t->n_top, NULL);
}

/* Returns the item of an echoed prompt token. The first one has no log-probability. */
static json_t *
make_prompt_item(const dop_call *c, const dop_choice *own, const dop_logprob *scored, int list, uint32_t i,
                 size_t offset)
{
    if (list == 0)
        return make_token_text(c, own->prompt[i]);
    if (list == 3)
        return json_integer((json_int_t)offset);
    if (i == 0 || !scored)
        return json_null();
    const dop_logprob *at = scored + (size_t)(i - 1) * (1 + c->n_top);
    return list == 1 ? json_real((double)at->logprob) : make_alternatives(c, at + 1, c->n_top, c->n_top ? at : NULL);
}

/* Returns the item of token i, counting the tokens of an echoed prompt. Adds the token's characters to *io_offset. */
static json_t *
make_item_at(const dop_call *c, const dop_choice *own, const glance *g, int list, uint32_t i, size_t *io_offset)
{
    const uint32_t before = own->n_prompt; /* 0 without echo */
    const size_t offset = *io_offset;
    const uint32_t id = i < before ? own->prompt[i] : get_glance_token(g, i - before)->pick.id;
    *io_offset += i < own->n_added ? 0 : count_token_characters(c, id);
    return i < before ? make_prompt_item(c, own, g->state.scored, list, i, offset)
                      : make_list_item(c, list, get_glance_token(g, i - before), offset);
}

/* Returns the log-probabilities from token `from` on, counting the tokens of an echoed prompt. *io_offset:
 * characters in the tokens before; it is advanced past the new ones. */
static json_t *
make_logprobs(const dop_call *c, const dop_choice *own, const glance *g, uint32_t from, size_t *io_offset)
{
    const char *const *lists = get_logprob_lists(c);
    if (!c->logprobs)
        return json_null();
    json_t *all = json_object();
    size_t offset = *io_offset;
    for (int k = 0; lists[k]; k++) {
        json_t *list = json_array();
        offset = *io_offset;
        for (uint32_t i = from; i < own->n_prompt + g->state.n_tokens; i++)
            json_array_append_new(list, make_item_at(c, own, g, k, i, &offset));
        json_object_set_new(all, lists[k], list);
    }
    *io_offset = offset;
    if (c->chat)
        json_object_set_new(all, "refusal", json_null());
    return all;
}

json_t *
dop_call_logprobs(const dop_call *call)
{
    const dop_job_state s = dop_job_look(call->choices[0].job);
    json_t *list = json_array();
    for (uint32_t i = 0; i < s.n_tokens; i++)
        json_array_append_new(list, make_token_with_top(call, &s.tokens[i]));
    return list;
}

/* Returns the token counts of all choices. A prompt shared by several choices counts once. */
static json_t *
make_chat_usage(const dop_call *c)
{
    json_int_t prompt = 0, reused = 0, written = 0, thought = 0;
    for (uint32_t i = 0; i < c->n_choices; i++) { /* all jobs have ended */
        dop_job_state s = dop_job_look(c->choices[i].job);
        written += s.n_tokens;
        thought += dop_reading_thought_tokens(&c->choices[i].reading, s.text_ends, s.n_tokens);
        if (i % c->n_each > 0)
            continue;
        prompt += s.n_prompt;
        reused += s.n_reused;
    }
    return json_pack("{s:I, s:I, s:I, s:{s:I}, s:{s:I}}", "prompt_tokens", prompt, "completion_tokens", written,
                     "total_tokens", prompt + written, "prompt_tokens_details", "cached_tokens", reused,
                     "completion_tokens_details", "reasoning_tokens", thought);
}

static json_t *
make_envelope(const dop_call *c, bool chunk, json_t *choices)
{
    const char *object = !c->chat ? "text_completion" : chunk ? "chat.completion.chunk" : "chat.completion";
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", c->id, "object", object, "created", (json_int_t)c->created,
                     "model", c->api->facts.name, "system_fingerprint", "doppler-" DOP_VERSION, "choices", choices);
}

/* --- whole answers ---------------------------------------------------------------------------------------------------------- */

/* True if the text is empty or only white space. */
static bool
is_blank_buf(const dop_buf *text)
{
    size_t n = 0;
    while (n < text->size && strchr(" \n\r\t", text->data[n]))
        n++;
    return n == text->size;
}

/* Returns a choice's message. Its answer must be completely parsed. */
static json_t *
make_chat_message(const dop_reading *r)
{
    json_t *text = r->calls && is_blank_buf(&r->content)
                       ? json_null()
                       : dop_json_text(r->content.size ? r->content.data : "", r->content.size);
    json_t *m = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content", text, "refusal");
    if (r->reasoning.size > 0)
        json_object_set_new(m, "reasoning_content", dop_json_text(r->reasoning.data, r->reasoning.size));
    if (r->calls)
        json_object_set(m, "tool_calls", r->calls);
    return m;
}

/* Appends a JSON value without its last n bytes (closing brackets), so that more can be added inside. Takes
 * ownership of the value. */
static void
append_json_open(dop_buf *out, json_t *value, size_t n)
{
    dop_json_encode(out, value);
    json_decref(value);
    out->size -= out->failed ? 0 : n;
}

/* Appends an object's members and its closing bracket, without the opening one. Takes ownership of the object. */
static void
append_json_rest(dop_buf *out, json_t *object)
{
    dop_buf text = {0};
    append_json_open(&text, object, 0);
    if (text.failed)
        out->failed = true;
    else
        dop_buf_append(out, text.data + 1, text.size - 1);
    dop_buf_finish(&text);
}

/* Writes the members of a choice that precede its log-probabilities. */
static void
write_choice_begin(dop_call *c, uint32_t index, dop_buf *out)
{
    dop_choice *own = &c->choices[index];
    const dop_job_state s = dop_job_look(own->job);
    if (c->chat)
        dop_reading_feed(&own->reading, s.text, s.n_text, true);
    append_json_open(
        out, json_pack("{s:i, s:s}", "index", (int)index, "finish_reason", dop_finish_reason(&s, own->reading.calls)),
        strlen("}"));
    if (!c->logprobs)
        dop_buf_puts(out, ",\"logprobs\":null");
}

/* Returns the text, after the prompt if the answer echoes it. */
static json_t *
make_echoed_text(const dop_choice *own, const char *text, size_t n)
{
    dop_buf all = {0};
    if (own->before.size)
        dop_buf_append(&all, own->before.data, own->before.size);
    if (n)
        dop_buf_append(&all, text, n);
    json_t *made = all.failed ? NULL : dop_json_text(all.size ? all.data : "", all.size);
    dop_buf_finish(&all);
    return made;
}

/* Writes the members of a choice that follow its log-probabilities, and closes the choice. */
static void
write_choice_end(const dop_call *c, uint32_t index, dop_buf *out)
{
    const dop_choice *own = &c->choices[index];
    const dop_job_state s = dop_job_look(own->job);
    json_t *rest = c->chat ? json_pack("{s:o}", "message", make_chat_message(&own->reading))
                           : json_pack("{s:o}", "text", make_echoed_text(own, s.text, s.n_text));
    dop_call_note_validity(c, index, rest);
    dop_buf_puts(out, ",");
    append_json_rest(out, rest);
}

enum { PIECE = 1 << 17 }; /* bytes of an answer after which the written part is sent to the client */

/* Writes log-probability lists of the current choice. Returns false if more of them follow. */
static bool
write_logprob_lists(dop_call *c, dop_buf *out)
{
    dop_writing *w = &c->writing;
    const dop_choice *own = &c->choices[w->choice];
    const glance g = {.state = dop_job_look(own->job)};
    const uint32_t n = own->n_prompt + g.state.n_tokens;
    const char *const *lists = get_logprob_lists(c);
    for (; lists[w->list]; w->list++, w->token = 0) {
        if (w->token == 0) {
            dop_buf_printf(out, "%s\"%s\":[", w->list == 0 ? ",\"logprobs\":{" : ",", lists[w->list]);
            w->offset = 0;
        }
        for (; w->token < n; w->token++) {
            if (out->size > PIECE || out->failed)
                return out->failed;
            dop_buf_puts(out, w->token > 0 ? "," : "");
            append_json_open(out, make_item_at(c, own, &g, w->list, w->token, &w->offset), 0);
        }
        dop_buf_puts(out, "]");
    }
    dop_buf_puts(out, c->chat ? ",\"refusal\":null}" : "}");
    return true;
}

static void
write_answer_begin(const dop_call *c, dop_buf *out)
{
    if (c->tasks)
        c->tasks->begin(c, out);
    else if (c->ranks)
        dop_buf_printf(out, "{\"id\":\"%s\",\"object\":\"list\",\"results\":[", c->id);
    else if (c->embeds)
        dop_buf_puts(out, "{\"object\":\"list\",\"data\":[");
    else
        append_json_open(out, make_envelope(c, false, json_array()), strlen("]}"));
}

static void
write_answer_end(const dop_call *c, dop_buf *out)
{
    json_int_t tokens = 0;
    if (c->tasks) {
        c->tasks->end(c, out);
        return;
    }
    dop_buf_puts(out, "],\"usage\":");
    for (uint32_t i = 0; i < c->n_choices && c->embeds; i++)
        tokens += dop_job_look(c->choices[i].job).n_prompt;
    append_json_open(
        out, c->embeds ? json_pack("{s:I, s:I}", "prompt_tokens", tokens, "total_tokens", tokens) : make_chat_usage(c),
        0);
    if (c->ranks) /* Cohere's member; the rest is in Jina's format */
        dop_buf_puts(out, ",\"meta\":{\"api_version\":{\"version\":\"2\"},\"billed_units\":{\"search_units\":1}}");
    if (c->embeds) {
        dop_buf_puts(out, ",\"model\":");
        append_json_open(out, json_string(c->api->facts.name), 0);
    }
    dop_buf_puts(out, "}");
}

/* Writes the next part of an answer that is not an event stream. All jobs have ended. Returns true if the answer is
 * complete. */
static bool
write_answer_part(dop_call *c, dop_buf *out)
{
    dop_writing *w = &c->writing;
    if (!w->begun)
        write_answer_begin(c, out);
    w->begun = true;
    if (c->ranks) {
        dop_texts_write_ranks(c, out);
        w->choice = c->n_choices;
    }
    for (; w->choice < c->n_choices; w->choice++) {
        if (out->size > PIECE)
            return false;
        if (!w->in_choice && w->choice > 0)
            dop_buf_puts(out, ",");
        if (c->embeds || c->tasks) {
            (c->tasks ? c->tasks->choice : dop_texts_write_vector)(c, w->choice, out);
            continue;
        }
        if (!w->in_choice)
            write_choice_begin(c, w->choice, out);
        w->in_choice = true;
        if (c->logprobs && !write_logprob_lists(c, out))
            return false;
        write_choice_end(c, w->choice, out);
        w->in_choice = false;
        w->list = 0;
        w->token = 0;
    }
    write_answer_end(c, out);
    return true;
}

/* True if all jobs have succeeded. Otherwise *out_bad is the state of the first one that has not. */
static bool
have_all_jobs_ended(const dop_call *c, dop_job_state *out_bad)
{
    bool all = true;
    dop_engine_lock(c->api->engine);
    for (uint32_t i = 0; i < c->n_choices && all; i++) {
        *out_bad = dop_job_look(c->choices[i].job);
        all = out_bad->end != DOP_JOB_GOES_ON && is_good_end(out_bad->end);
    }
    dop_engine_unlock(c->api->engine);
    return all;
}

/* Used if at most one call is permitted: parses the text so far, and stops jobs whose call is complete. */
static void
stop_single_call_jobs(dop_call *c)
{
    for (uint32_t i = 0; i < c->n_choices; i++) {
        dop_choice *own = &c->choices[i];
        glance g;
        if (own->reading.over)
            continue;
        take_glance(c, i, UINT32_MAX, &g);
        if (!is_glance_failed(&g))
            dop_reading_feed(&own->reading, g.state.text, g.state.n_text, false);
        if (own->reading.over)
            dop_job_stop(c->api->engine, own->job);
        finish_glance(&g);
    }
}

static void read_choice_news(dop_call *c, uint32_t index, const dop_job_state *s, dop_news *out);

/* Writes the whole answer of a call with a writer. */
static void
write_whole_by_writer(dop_call *c, dop_answer *answer)
{
    dop_news news;
    const dop_job_state s = dop_job_look(c->choices[0].job);
    read_choice_news(c, 0, &s, &news);
    answer->status = 200;
    answer->type = "application/json";
    c->writer->whole(c, &news, answer);
}

static bool
poll_whole(dop_call *c, dop_answer *answer)
{
    dop_job_state s;
    if (!c->writing.begun && !have_all_jobs_ended(c, &s)) {
        if (c->terms.single && c->terms.tools && is_good_end(s.end))
            stop_single_call_jobs(c);
        if (!is_good_end(s.end))
            dop_answer_failure(answer, &s);
        return !is_good_end(s.end);
    }
    if (c->writer) {
        write_whole_by_writer(c, answer);
        return true;
    }
    answer->status = 200;
    answer->type = c->tasks && c->tasks->type ? c->tasks->type(c) : "application/json";
    answer->more = !write_answer_part(c, &answer->body);
    answer->streams |= answer->more;
    return !answer->more;
}

/* --- streams ------------------------------------------------------------------------------------------------------------------ */

/* Appends a chunk event for one choice. delta: the new part, an object for chat, a text for completions. Takes
 * ownership of delta and the log-probabilities. */
static void
append_chunk_event(const dop_call *c, uint32_t index, json_t *delta, const char *reason, json_t *probabilities,
                   dop_answer *answer)
{
    json_t *choice = json_pack("{s:i, s:o, s:s?, s:o}", "index", (int)index, c->chat ? "delta" : "text", delta,
                               "finish_reason", reason, "logprobs", probabilities);
    if (reason)
        dop_call_note_validity(c, index, choice);
    json_t *choices = json_array();
    json_array_append_new(choices, choice);
    json_t *all = make_envelope(c, true, choices);
    if (c->include_usage)
        json_object_set_new(all, "usage", json_null());
    dop_answer_event(answer, NULL, all);
}

/* Appends the events of a tool call in OpenAI's format: the name first, then the arguments in pieces. */
static void
stream_tool_call(const dop_call *c, uint32_t index, size_t number, const json_t *call, dop_answer *answer)
{
    enum { DELTA = 64 }; /* approximate characters of arguments per event */
    const json_t *function = json_object_get(call, "function"), *arguments = json_object_get(function, "arguments");
    const char *text = json_string_value(arguments);
    const size_t n = json_string_length(arguments);
    append_chunk_event(c, index,
                       json_pack("{s:[{s:I, s:O, s:s, s:{s:O, s:s}}]}", "tool_calls", "index", (json_int_t)number, "id",
                                 json_object_get(call, "id"), "type", "function", "function", "name",
                                 json_object_get(function, "name"), "arguments", ""),
                       NULL, json_null(), answer);
    for (size_t at = 0; at < n;) {
        size_t end = at + DELTA < n ? at + DELTA : n;
        while (end < n && ((unsigned char)text[end] & 0xc0) == 0x80)
            end++;
        append_chunk_event(c, index,
                           json_pack("{s:[{s:I, s:{s:o}}]}", "tool_calls", "index", (json_int_t)number, "function",
                                     "arguments", json_stringn(text + at, end - at)),
                           NULL, json_null(), answer);
        at = end;
    }
}

/* Returns the length of a text without an incomplete UTF-8 character at its end. */
static size_t
count_whole_character_bytes(const dop_buf *text)
{
    size_t n = text->size;
    const size_t good = dop_utf8_check(text->size ? text->data : "", n);
    return n - good < 4 ? good : n; /* a longer rest is not a truncated character */
}

/* Returns the number of unsent bytes that can be sent now. */
static size_t
count_new_bytes(const dop_buf *text, bool ended, size_t sent)
{
    const size_t n = ended ? text->size : count_whole_character_bytes(text);
    return n > sent ? n - sent : 0;
}

/* Parses new text of a choice and determines what can be sent: new content, new reasoning, and calls. Leading white
 * space is held back, because a call may follow. */
static void
read_choice_news(dop_call *c, uint32_t index, const dop_job_state *s, dop_news *out)
{
    dop_choice *choice = &c->choices[index];
    dop_reading *r = &choice->reading;
    const bool was_over = r->over, ended = s->end != DOP_JOB_GOES_ON;
    dop_reading_feed(r, s->text, s->n_text, ended);
    if (r->over && !was_over && !ended)
        dop_job_stop(c->api->engine, choice->job);
    *out = (dop_news){.state = *s, .ended = ended, .good = is_good_end(s->end), .calls = r->calls};
    out->reasoning = r->reasoning.size ? r->reasoning.data + choice->sent_reasoning : "";
    out->n_reasoning = count_new_bytes(&r->reasoning, ended, choice->sent_reasoning);
    const bool waits = choice->sent == 0 && is_blank_buf(&r->content) && (!ended || r->calls);
    out->content = r->content.size ? r->content.data + choice->sent : "";
    out->n_content = waits ? 0 : count_new_bytes(&r->content, ended, choice->sent);
    out->first_call = choice->sent_calls;
    out->thought_tokens = ended ? dop_reading_thought_tokens(r, s->text_ends, s->n_tokens) : 0;
    choice->sent_reasoning += out->n_reasoning;
    choice->sent += out->n_content;
    r->shown = choice->sent;
    choice->sent_calls = json_array_size(r->calls);
}

static void
stream_chat_message(dop_call *c, uint32_t index, const glance *g, dop_answer *answer)
{
    dop_choice *choice = &c->choices[index];
    dop_news news;
    read_choice_news(c, index, &g->state, &news);
    if (news.n_reasoning)
        append_chunk_event(c, index,
                           json_pack("{s:o}", "reasoning_content", dop_json_text(news.reasoning, news.n_reasoning)),
                           NULL, json_null(), answer);
    if (news.n_content || (c->logprobs && g->state.n_tokens > choice->sent_tokens))
        append_chunk_event(c, index, json_pack("{s:o}", "content", dop_json_text(news.content, news.n_content)), NULL,
                           make_logprobs(c, choice, g, choice->sent_tokens, &choice->offset), answer);
    choice->sent_tokens = g->state.n_tokens;
    for (size_t i = news.first_call; i < json_array_size(news.calls); i++)
        stream_tool_call(c, index, i, json_array_get(news.calls, i), answer);
}

/* Streams new text of a completion, preceded by the prompt if it is echoed. */
static void
stream_text_completion(const dop_call *c, uint32_t index, const glance *g, dop_answer *answer)
{
    dop_choice *choice = (dop_choice *)(uintptr_t)&c->choices[index];
    const dop_job_state *s = &g->state;
    const bool first = c->echo && !choice->repeated;
    const uint32_t from = first ? 0 : choice->n_prompt + choice->sent_tokens;
    if (!first && s->n_text == choice->sent && !(c->logprobs && s->n_tokens > choice->sent_tokens))
        return;
    const char *text = s->text + choice->sent;
    const size_t n = s->n_text - choice->sent;
    append_chunk_event(c, index, first ? make_echoed_text(choice, text, n) : json_stringn(text, n), NULL,
                       make_logprobs(c, choice, g, from, &choice->offset), answer);
    choice->repeated = true;
    choice->sent = s->n_text;
    choice->sent_tokens = s->n_tokens;
}

static void
stream_choice(dop_call *c, uint32_t index, dop_answer *answer)
{
    dop_choice *choice = &c->choices[index];
    glance g;
    if (choice->over)
        return;
    take_glance(c, index, choice->sent_tokens, &g);
    dop_job_state s = g.state;
    bool ended = s.end != DOP_JOB_GOES_ON;
    if (is_glance_failed(&g)) {
        finish_glance(&g);
        return;
    }
    if (!choice->begun && c->chat && (s.n_tokens > 0 || ended))
        append_chunk_event(c, index, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL, json_null(),
                           answer);
    choice->begun |= s.n_tokens > 0 || ended;
    if (c->chat) {
        stream_chat_message(c, index, &g, answer);
    } else if ((s.n_tokens > 0 || ended) && is_good_end(s.end)) {
        stream_text_completion(c, index, &g, answer);
    }
    choice->over = ended;
    if (ended && is_good_end(s.end))
        append_chunk_event(c, index, c->chat ? json_object() : json_string(""),
                           dop_finish_reason(&s, choice->reading.calls), json_null(), answer);
    else if (ended)
        dop_answer_failed_event(answer, &s);
    finish_glance(&g);
}

/* Streams new output of a call with a writer. Returns true if the answer is complete. */
static bool
stream_by_writer(dop_call *c, dop_answer *answer)
{
    glance g;
    dop_news news;
    take_glance(c, 0, UINT32_MAX, &g);
    const bool failed = is_glance_failed(&g);
    if (!failed) {
        read_choice_news(c, 0, &g.state, &news);
        c->writer->stream(c, &news, answer);
    }
    finish_glance(&g);
    return !failed && news.ended;
}

static bool
poll_stream(dop_call *c, dop_answer *answer)
{
    bool over = true;
    answer->status = 200;
    answer->type = "text/event-stream";
    answer->streams = true;
    if (c->tasks)
        return c->tasks->stream(c, answer);
    if (c->writer)
        return stream_by_writer(c, answer);
    for (uint32_t i = 0; i < c->n_choices; i++) {
        stream_choice(c, i, answer);
        over &= c->choices[i].over;
    }
    if (!over)
        return false;
    if (c->include_usage) {
        json_t *all = make_envelope(c, true, json_array());
        json_object_set_new(all, "usage", make_chat_usage(c));
        dop_answer_event(answer, NULL, all);
    }
    dop_buf_puts(&answer->body, "data: [DONE]\n\n");
    return true;
}

dop_answer_counts
dop_call_count(const dop_call *c)
{
    dop_answer_counts n = {.known = true};
    snprintf(n.model, sizeof n.model, "%s", c->api->facts.name);
    dop_engine_lock(c->api->engine);
    for (uint32_t i = 0; i < c->n_choices; i++) {
        const dop_job_state s = dop_job_look(c->choices[i].job);
        n.written += s.n_tokens;
        if (s.first_ms > 0 && (n.first_at_ms <= 0 || s.first_ms < n.first_at_ms))
            n.first_at_ms = s.first_ms;
        if (c->n_each > 1 && i % c->n_each > 0)
            continue;
        n.prompt += (uint32_t)s.n_prompt;
        n.reused += (uint32_t)s.n_reused;
    }
    dop_engine_unlock(c->api->engine);
    return n;
}

bool
dop_call_poll(dop_call *call, dop_answer *io_answer)
{
    const bool over = call->stream ? poll_stream(call, io_answer) : poll_whole(call, io_answer);
    if (over)
        io_answer->counts = dop_call_count(call);
    return over;
}

void
dop_choice_finish(dop_choice *choice)
{
    free(choice->prompt);
    dop_buf_finish(&choice->before);
    choice->prompt = NULL;
}

void
dop_call_end(dop_call *call)
{
    if (!call)
        return;
    const dop_api *api = call->api;
    for (uint32_t i = 0; i < call->n_choices; i++) {
        dop_job_release(call->api->engine, call->choices[i].job);
        dop_reading_finish(&call->choices[i].reading);
        dop_choice_finish(&call->choices[i]);
    }
    dop_buf_finish(&call->begin);
    json_decref(call->tools);
    json_decref(call->schema);
    json_decref(call->documents);
    if (call->writer)
        call->writer->finish(call->state);
    free(call);
    if (api->give_back)
        api->give_back(api->models, api);
}
