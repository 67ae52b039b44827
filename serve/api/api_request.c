/* Turns a request's JSON into the jobs that answer it. */
#include "serve/api/api_request.h"
#include "serve/api/api_adapters.h"
#include "serve/api/api_answer.h"
#include "serve/api/api_constraints.h"
#include "serve/api/api_gather.h"
#include "serve/api/api_history.h"
#include "serve/api/api_images.h"
#include "serve/api/api_json.h"
#include "serve/api/api_read.h"
#include "serve/api/api_require.h"
#include "serve/api/api_tools.h"
#include "text/grammar/grammar.h"

#include <doppler/draw.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void
read_sampling_params(gathering *g)
{
    dop_reader *r = &g->r;
    dop_sampling *s = &g->job.sampling;
    *s = g->api->sampling;
    s->temperature = (float)dop_reader_real(r, "temperature", (double)s->temperature, 0, 100);
    s->top_p = (float)dop_reader_real(r, "top_p", (double)s->top_p, 0, 1);
    const int64_t top_k = dop_reader_whole(r, "top_k", s->top_k, -1, UINT32_MAX);
    s->top_k = top_k > 0 ? (uint32_t)top_k : 0; /* -1 disables it, as in other servers */
    s->min_p = (float)dop_reader_real(r, "min_p", (double)s->min_p, 0, 1);
    s->repeat_penalty = (float)dop_reader_real(r, "repetition_penalty", (double)s->repeat_penalty, 0.01, 1000);
    s->repeat_penalty = (float)dop_reader_real(r, "repeat_penalty", (double)s->repeat_penalty, 0.01, 1000);
    const int64_t last_n = dop_reader_whole(r, "repeat_last_n", s->repeat_last_n, -1, UINT32_MAX);
    s->repeat_last_n = last_n < 0 ? UINT32_MAX : (uint32_t)last_n; /* -1: all tokens */
    const json_t *seed = dop_reader_get(r, "seed");
    const int64_t seed_value = dop_reader_whole(r, "seed", -1, INT64_MIN, INT64_MAX);
    s->seed = seed && seed_value != -1 ? (uint64_t)seed_value : dop_any_seed(); /* -1: random, as in other servers */
    s->presence_penalty = (float)dop_reader_real(r, "presence_penalty", (double)s->presence_penalty, -2, 2);
    s->frequency_penalty = (float)dop_reader_real(r, "frequency_penalty", (double)s->frequency_penalty, -2, 2);
    g->job.ignore_end = dop_reader_bool(r, "ignore_eos", false);
    g->job.time_limit_s = g->api->time_limit_s;
}

static void
read_stop_texts(gathering *g)
{
    const json_t *v = dop_reader_get(&g->r, "stop");
    size_t n = json_is_array(v) ? json_array_size(v) : v ? 1 : 0;
    size_t known = 0;
    for (const char *const *s = g->call->chat ? dop_chat_stops(g->api->chat) : NULL; s && *s; s++)
        g->stops[known++] = *s;
    const size_t own = g->call->n_own_stops = known;
    for (size_t i = 0; i < n && !g->r.failed; i++) {
        const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_string(one) || strlen(json_string_value(one)) != json_string_length(one))
            dop_reader_refuse(&g->r, "stop", "stop is a text, or a list of texts");
        else if (json_string_length(one) == 0) /* an empty text stops nothing */
            continue;
        else if (known == DOP_JOB_MAX_STOPS)
            dop_reader_refuse(&g->r, "stop", "at most %zu texts stop an answer", DOP_JOB_MAX_STOPS - own);
        else
            g->stops[known++] = json_string_value(one);
    }
    g->job.stops = g->stops;
    g->job.n_stops = known;
}

static void
add_logit_bias(gathering *g, int64_t id, const json_t *by)
{
    const double x = json_is_false(by) ? -100 : json_number_value(by); /* false bans the token, as in llama.cpp */
    if (id < 0 || id >= g->api->facts.vocab || !(json_is_number(by) || json_is_false(by)) || !(fabs(x) <= 100))
        dop_reader_refuse(&g->r, "logit_bias", "logit_bias gives token ids below %u a number between -100 and 100",
                          g->api->facts.vocab);
    else if (g->biases)
        g->biases[g->job.sampling.n_biases++] = (dop_bias){(uint32_t)id, (float)x};
}

/* Reads {"ID": NUMBER, ...} or, as in llama.cpp, [[ID, NUMBER], ...]. */
static void
read_logit_biases(gathering *g)
{
    const json_t *v = dop_reader_get(&g->r, "logit_bias");
    const size_t n = json_is_array(v) ? json_array_size(v) : json_object_size(v);
    const char *key;
    json_t *by;
    if (!v)
        return;
    if ((!json_is_object(v) && !json_is_array(v)) || n > DOP_JOB_MAX_BIAS) {
        dop_reader_refuse(&g->r, "logit_bias", "logit_bias is an object of at most %d token ids", DOP_JOB_MAX_BIAS);
        return;
    }
    g->biases = calloc(n + 1, sizeof *g->biases);
    g->job.sampling.biases = g->biases;
    g->job.sampling.n_biases = 0;
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *pair = json_array_get(v, i), *id = json_array_get(pair, 0);
        add_logit_bias(g, json_is_integer(id) ? json_integer_value(id) : -1, json_array_get(pair, 1));
    }
    json_object_foreach((json_t *)(uintptr_t)v, key, by)
    {
        char *end;
        const unsigned long id = strtoul(key, &end, 10);
        add_logit_bias(g, end == key || *end || id > UINT32_MAX ? -1 : (int64_t)id, by);
    }
}

static void
read_logprob_options(gathering *g)
{
    dop_reader *r = &g->r;
    if (g->call->chat) {
        g->call->logprobs = dop_reader_bool(r, "logprobs", false);
        g->call->n_top = (uint32_t)dop_reader_whole(r, "top_logprobs", 0, 0, DOP_JOB_MAX_TOP);
        if (g->call->n_top > 0 && !g->call->logprobs)
            dop_reader_refuse(r, "top_logprobs", "top_logprobs needs logprobs");
    } else {
        int64_t n = dop_reader_whole(r, "logprobs", -1, 0, DOP_JOB_MAX_TOP);
        g->call->logprobs = n >= 0;
        g->call->n_top = n > 0 ? (uint32_t)n : 0;
    }
    g->job.sampling.logprobs = g->call->logprobs;
    g->job.n_top = g->call->n_top;
    g->job.scores = g->call->echo && g->call->logprobs;
}

static void
read_answer_options(gathering *g)
{
    dop_reader *r = &g->r;
    dop_call *c = g->call;
    c->stream = dop_reader_bool(r, "stream", false);
    g->job.wake_at_end = !c->stream;
    const json_t *options = dop_reader_get(r, "stream_options");
    if (options && (!json_is_object(options) || !c->stream))
        dop_reader_refuse(r, "stream_options", "stream_options is an object, for streams only");
    c->include_usage = json_is_true(json_object_get(options, "include_usage"));
    g->n_each = (uint32_t)dop_reader_whole(r, "n", 1, 1, g->api->max_choices);
    if (dop_reader_whole(r, "best_of", g->n_each, 1, 1 << 20) != g->n_each)
        dop_reader_refuse(r, "best_of", "best_of is not supported");
    c->echo = dop_reader_bool(r, "echo", false);
    if (c->echo && c->chat)
        dop_reader_refuse(r, "echo", "echo is for /v1/completions");
    size_t n;
    (void)dop_reader_text(r, "suffix", &n);
    if (n > 0)
        dop_reader_refuse(r, "suffix", "suffix is not supported");
    (void)dop_reader_text(r, "model", &n); /* read but not used: the model is already chosen */
    dop_reader_adapters(r, g->api, &g->job);
}

/* --- prompts ----------------------------------------------------------------------------------------------------------------- */

static bool
append_rendered_buf(dop_buf *text, const dop_buf *more)
{
    if (more->size)
        dop_buf_append(text, more->data, more->size);
    return true;
}

/* Renders the conversation. If it ends with an answer, that answer is continued. A marker appended to the answer
 * shows where to cut the prompt. */
static dop_status
render_conversation(gathering *g, json_t *messages, const json_t *tools, const json_t *extra, dop_diag *diag,
                    dop_buf *out)
{
    static const char end[] = "\x01\x01";
    dop_chat_input in = {.messages = messages,
                         .tools = tools,
                         .add_generation_prompt = true,
                         .tokenizer = g->api->tok,
                         .extra = extra,
                         .budget = g->budget};
    json_t *last = json_array_get(messages, json_array_size(messages) - 1);
    const char *role = json_string_value(json_object_get(last, "role"));
    const json_t *content = json_object_get(last, "content");
    if (role && strcmp(role, "assistant") == 0 && json_string_length(content) > 0 &&
        !json_object_get(last, "tool_calls") && dop_reader_bool(&g->r, "continue_final_message", true)) {
        json_t *longer = json_sprintf("%s%s", json_string_value(content), end),
               *kept = json_incref((json_t *)(uintptr_t)content);
        json_object_set_new(last, "content", longer);
        in.add_generation_prompt = false;
        const dop_status st = dop_chat_render(g->api->chat, &in, diag, out);
        const char *hit = st == DOP_OK && out->size ? memmem(out->data, out->size, end, strlen(end)) : NULL;
        out->size = hit ? (size_t)(hit - out->data) : 0;
        json_object_set_new(last, "content", kept);
        if (hit)
            return DOP_OK;
        in.add_generation_prompt = true;
    }
    out->size = 0;
    return dop_chat_render(g->api->chat, &in, diag, out);
}

static bool
ends_with_mark(const dop_buf *text, const char *mark)
{
    size_t n = text->size, len = mark ? strlen(mark) : 0;
    while (n > 0 && strchr(" \n\r\t", text->data[n - 1]))
        n--;
    while (len > 0 && strchr(" \n\r\t", mark[len - 1]))
        len--;
    return len > 0 && n >= len && memcmp(text->data + n - len, mark, len) == 0;
}

/* Prepends reasoning to the constraint: any text up to the end mark of reasoning, white space, and the marks that
 * would end the prompt if there were no reasoning. */
static void
prepend_reasoning_parts(gathering *g)
{
    json_t *seq = json_pack("[{s:s}, {s:[s, s, s]}]", "until", g->api->form->think_close, "any", "", "\n", "\n\n");
    if (g->call->begin.size)
        json_array_append_new(seq, json_stringn(g->call->begin.data, g->call->begin.size));
    g->call->begin.size = 0;
    json_array_append_new(seq, g->parts);
    g->parts = json_pack("{s:o}", "seq", seq);
    if (!g->parts)
        dop_gather_no_memory(g);
}

/* Determines from the prompt's end whether the answer begins inside reasoning, and which marks of the answer the
 * prompt already has. */
static void
inspect_prompt_end(gathering *g, dop_buf *text)
{
    const dop_tool_form *f = g->api->form;
    dop_call *c = g->call;
    const bool shaped = g->parts != NULL;
    c->terms.lone_close = !shaped && f->think_close;
    if (ends_with_mark(text, f->think_open)) {
        c->terms.thinks =
            g->wish != DOP_REASONING_OFF && !g->grammar; /* a grammar constrains the whole text, from its beginning */
        g->reasoning_closed = !c->terms.thinks;
        if (!c->terms.thinks)
            dop_buf_printf(text, "\n%s\n\n", f->think_close);
        else if (g->parts)
            prepend_reasoning_parts(g);
    }
    if (!c->begin.size && !shaped && f->open && !strchr(f->open, DOP_HOLE_ID) && ends_with_mark(text, f->open))
        dop_buf_puts(&c->begin, f->open);
    else
        (void)append_rendered_buf(text, &c->begin);
    c->terms.begin = c->begin.size ? c->begin.data : NULL;
}

/* Removes reasoning from messages, because templates refuse some combinations of reasoning with calls and content. */
static bool
drop_message_reasoning(json_t *messages, const char *name)
{
    bool any = false;
    size_t i;
    json_t *m;
    json_array_foreach(messages, i, m) any |= name && json_object_del(m, name) == 0;
    return any;
}

/* Returns the request's messages, with the server's system message first if they have none. A new reference; NULL:
 * refused. */
static json_t *
make_request_messages(gathering *g)
{
    const json_t *given = dop_reader_get(&g->r, "messages");
    if (!json_is_array(given) || json_array_size(given) == 0) {
        dop_reader_refuse(&g->r, "messages", "messages is a list of {\"role\", \"content\"} that is not empty");
        return NULL;
    }
    const char *first = json_string_value(json_object_get(json_array_get(given, 0), "role"));
    if (!g->api->system || (first && (strcmp(first, "system") == 0 || strcmp(first, "developer") == 0)))
        return json_incref((json_t *)(uintptr_t)given);
    json_t *list = json_pack("[{s:s, s:s}]", "role", "system", "content", g->api->system);
    if (list)
        json_array_extend(list, (json_t *)(uintptr_t)given);
    return list;
}

static void
gather_messages(gathering *g, const json_t *tools)
{
    dop_buf text = {0};
    dop_diag diag = {0};
    const dop_tool_form *form = g->api->form;
    json_t *list = make_request_messages(g);
    json_t *extra = dop_gather_variables(g),
           *messages =
               g->r.failed ? NULL : dop_history_make(form, list, g->call->tools ? tools : NULL, &g->r, &g->images);
    /* their marks must stay visible in the text */
    if (form->manner == DOP_FORM_CHANNELS || form->think_open || form->content_open)
        g->job.keep_special = true;
    g->prompts = calloc(1, sizeof *g->prompts);
    g->n_prompts = g->prompts ? 1 : 0;
    if (!g->prompts)
        dop_gather_no_memory(g);
    if (!g->r.failed && g->prompts) {
        dop_status st = render_conversation(g, messages, tools, extra, &diag, &text);
        if (st != DOP_OK && drop_message_reasoning(messages, form->reasoning)) {
            dop_diag again = {0};
            if ((st = render_conversation(g, messages, tools, extra, &again, &text)) != DOP_OK)
                diag = again;
        }
        if (st == DOP_OK) {
            inspect_prompt_end(g, &text);
            dop_gather_check_reasoning(g);
            if (g->rendered)
                (void)append_rendered_buf(g->rendered, &text);
            st = dop_request_images_encode(&g->images, g->api->tok, &text, &diag, &g->prompts[0]);
        }
        if (st != DOP_OK)
            dop_gather_refuse(g, "messages", &diag);
    }
    json_decref(list);
    json_decref(messages);
    json_decref(extra);
    dop_buf_finish(&text);
}

/* Returns the maximum number of tokens per answer such that all answers together stay below the server's limit. */
static uint64_t
count_fitting_tokens(const gathering *g)
{
    enum { TEXT = 8, PROBABILITY = 120 }; /* bytes per token in JSON: its text; a log-probability with its token */
    const uint64_t each = TEXT + (g->job.sampling.logprobs ? (uint64_t)PROBABILITY * (1 + g->job.n_top) : 0),
                   n = (uint64_t)g->n_prompts * g->n_each, most = g->api->max_answer / (each * (n ? n : 1));
    uint64_t longest = 0; /* tokens of the longest echoed prompt */
    for (uint32_t i = 0; i < g->n_prompts && g->call->echo; i++)
        longest = g->prompts[i].count > longest ? g->prompts[i].count : longest;
    return !g->api->max_answer ? UINT64_MAX : most > longest ? most - longest : 0;
}

/* Refuses a prompt that leaves no room for an answer. Clients recognize these texts of their API. */
static void
refuse_prompt_length(gathering *g, uint32_t n_prompt)
{
    const uint32_t ctx = g->api->facts.ctx;
    const dop_api_error error = {400, "invalid_request_error", "context_length_exceeded",
                                 g->call->chat ? "messages" : "prompt"};
    if (g->r.answer->errors == DOP_ERRORS_ANTHROPIC)
        dop_answer_error(g->r.answer, &error, "prompt is too long: %u tokens > %u maximum", n_prompt,
                         n_prompt > ctx ? ctx : ctx - 1);
    else
        dop_answer_error(g->r.answer, &error, "This model's maximum context length is %u tokens, and the prompt has %u",
                         ctx, n_prompt);
    g->r.failed = true;
}

/* Sets the maximum length of the answers. max_tokens is an upper limit, reduced to fit the context and the server's
 * limits. Refuses prompts that fill the context. */
static void
limit_answer_lengths(gathering *g)
{
    dop_reader *r = &g->r;
    uint32_t ctx = g->api->facts.ctx, most = g->api->max_tokens ? g->api->max_tokens : ctx, longest = 0;
    int64_t wanted = dop_reader_whole(r, "n_predict", -1, -2, INT64_MAX); /* negative: limited by the context only */
    wanted = dop_reader_whole(r, "max_tokens", wanted, -1, INT64_MAX);
    wanted = dop_reader_whole(r, "max_completion_tokens", wanted, -1, INT64_MAX);
    for (uint32_t i = 0; i < g->n_prompts && !r->failed; i++) {
        if (g->prompts[i].failed)
            dop_gather_no_memory(g);
        else if (g->prompts[i].count == 0)
            dop_reader_refuse(r, g->call->chat ? "messages" : "prompt", "the prompt is empty");
        /* A tokenizer may have more ids than the model. */
        for (size_t k = 0; k < g->prompts[i].count && !r->failed; k++)
            if (g->prompts[i].data[k] >= g->api->facts.vocab)
                dop_reader_refuse(r, g->call->chat ? "messages" : "prompt",
                                  "the tokenizer makes token id %u of the prompt, and the model's vocabulary has %u",
                                  g->prompts[i].data[k], g->api->facts.vocab);
        longest = g->prompts[i].count > longest ? (uint32_t)g->prompts[i].count : longest;
    }
    if (r->failed)
        return;
    uint32_t room = longest < ctx ? ctx - longest : 0;
    const uint64_t fits = count_fitting_tokens(g);
    const bool single = g->n_prompts * g->n_each == 1;
    if (longest > ctx || (room == 0 && wanted != 0)) {
        refuse_prompt_length(g, longest);
        return;
    }
    g->call->clamped = wanted > (int64_t)room && room <= most;
    wanted = wanted > (int64_t)room ? (int64_t)room : wanted;
    wanted = wanted > (int64_t)most ? (int64_t)most : wanted;
    if (single && wanted > 0 && (uint64_t)wanted > fits && fits > 0)
        wanted = (int64_t)fits;
    if ((wanted > 0 && (uint64_t)wanted > fits) || (fits == 0 && g->call->echo)) {
        dop_reader_refuse(
            r, g->n_each > 1 ? "n" : "max_tokens",
            "the answer could become too large for this server: it would have up to %llu tokens with what is "
            "asked about each, and %llu fit",
            (unsigned long long)wanted * g->n_prompts * g->n_each, (unsigned long long)fits * g->n_prompts * g->n_each);
    }
    if (wanted < 0) {
        wanted = most < room ? most : room;
        wanted = (uint64_t)wanted > fits ? (int64_t)fits : wanted;
    }
    g->job.max_tokens = (uint32_t)wanted;
}

/* --- tools --------------------------------------------------------------------------------------------------- */

static const json_t *
gather_tools(gathering *g)
{
    dop_reader *r = &g->r;
    const json_t *tools = dop_reader_get(r, "tools"), *choice = dop_reader_get(r, "tool_choice");
    const char *word = json_string_value(choice);
    const char *only = json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
    const char *type = json_string_value(json_object_get(choice, "type"));
    g->call->terms.single = !dop_reader_bool(r, "parallel_tool_calls", true);
    for (size_t i = 0; i < json_array_size(tools); i++)
        if (!json_is_string(json_object_get(json_object_get(json_array_get(tools, i), "function"), "name")))
            dop_reader_refuse(r, "tools", "tool %zu is not {\"type\": \"function\", \"function\": {\"name\": ...}}",
                              i + 1);
    if (tools && !json_is_array(tools))
        dop_reader_refuse(r, "tools", "tools is a list");
    if (type && strcmp(type, "allowed_tools") == 0 && !r->failed) {
        tools = g->allowed = dop_tools_allowed(tools, choice, &word);
        if (!word)
            dop_reader_refuse(r, "tool_choice", "allowed_tools is {\"mode\": auto or required, \"tools\": [...]}");
    } else if (choice && !only &&
               (!word || (strcmp(word, "none") != 0 && strcmp(word, "auto") != 0 && strcmp(word, "required") != 0)))
        dop_reader_refuse(r, "tool_choice", "tool_choice is none, auto, required or a function");
    if (json_array_size(tools) == 0 && (only || (word && strcmp(word, "required") == 0)))
        dop_reader_refuse(r, "tool_choice", "tool_choice wants a call, and there are no tools");
    if (r->failed || json_array_size(tools) == 0 || (word && strcmp(word, "none") == 0))
        return NULL;
    g->job.keep_special = true;
    const bool demanded = only || (word && strcmp(word, "required") == 0), shaped = g->parts != NULL;
    if (demanded) {
        dop_shape_demand demand = {.parts = NULL};
        if (shaped || g->grammar)
            dop_reader_refuse(r, "tool_choice", "response_format and required calls exclude one another");
        else
            dop_gather_demand(g, "tools", dop_tool_require(g->api->form, tools, only, &demand), &demand, true);
    }
    if (!shaped) /* an answer with a schema cannot be a call */
        g->call->tools = json_deep_copy(tools);
    g->call->terms.tools = g->call->tools;
    if (g->call->tools && g->call->terms.single) /* the job is stopped when its call is complete */
        g->job.wake_at_end = false;
    return tools;
}

/* --- jobs -------------------------------------------------------------------------------------------------------------------------- */

/* Allocates the choices of the call. Returns NULL if memory runs out. */
static dop_call *
allocate_choices(gathering *g)
{
    const uint32_t n = g->n_prompts * g->n_each;
    dop_call *c = realloc(g->call, sizeof *c + n * sizeof *c->choices);
    if (!c)
        return NULL;
    g->call = c;
    memset(c->choices, 0, n * sizeof *c->choices);
    c->n_choices = n;
    c->n_each = g->n_each;
    for (uint32_t i = 0; i < n && c->echo; i++)
        if (!dop_gather_echo(g, i / g->n_each, &c->choices[i]))
            return NULL;
    return c;
}

static void
submit_call_jobs(gathering *g)
{
    dop_call *c = allocate_choices(g);
    const uint32_t n = c ? c->n_choices : 0;
    dop_job_request *all = calloc(n + 1, sizeof *all);
    dop_job **jobs = calloc(n + 1, sizeof *jobs);
    dop_diag diag = {0};
    dop_submit result = c && all && jobs ? DOP_SUBMIT_OK : DOP_SUBMIT_FAILED;
    if (result == DOP_SUBMIT_FAILED)
        DOP_NO_MEMORY(&diag);
    for (uint32_t i = 0; i < n && result == DOP_SUBMIT_OK; i++) {
        const dop_ids *prompt = &g->prompts[i / g->n_each];
        all[i] = g->job;
        all[i].prompt = prompt->data;
        all[i].n_prompt = prompt->count;
        all[i].eyes = g->api->eyes;
        all[i].images = g->images.list;
        all[i].n_images = g->images.n;
        all[i].second = g->seconds ? g->seconds[i] : 0;
        all[i].sampling.seed += i % g->n_each;
        if (g->grammar && dop_matcher_create(g->grammar, &diag, &all[i].matcher) != DOP_OK)
            result = DOP_SUBMIT_FAILED;
    }
    if (result == DOP_SUBMIT_OK)
        result = dop_engine_submit(g->api->engine, all, n, &diag, jobs);
    for (uint32_t i = 0; i < n && all && jobs; i++) {
        if (result == DOP_SUBMIT_OK)
            c->choices[i].job = jobs[i];
        else
            dop_matcher_destroy(all[i].matcher);
    }
    free(all);
    free(jobs);
    if (result == DOP_SUBMIT_OK)
        return;
    g->r.failed = true;
    dop_answer_not_submitted(g->r.answer, result, &diag);
}

static void
assign_call_id(dop_call *c)
{
    uint64_t number = dop_any_seed();
    if (c->writer)
        snprintf(c->id, sizeof c->id, "%s_%016llx", c->writer->id, (unsigned long long)number);
    else
        snprintf(c->id, sizeof c->id, "%s-%016llx", c->chat ? "chatcmpl" : "cmpl", (unsigned long long)number);
    c->created = (int64_t)time(NULL);
}

static void
compile_gathered_parts(gathering *g)
{
    dop_diag diag = {0};
    if (dop_constraints_find_parts(g->api->shapes, g->parts, g->budget, &diag, &g->grammar) != DOP_OK)
        dop_gather_refuse(g, g->param, &diag);
}

static void
gather_request(gathering *g)
{
    const json_t *tools = NULL;
    read_answer_options(g);
    if (g->r.failed)
        return;
    read_sampling_params(g);
    read_stop_texts(g);
    read_logit_biases(g);
    read_logprob_options(g);
    dop_gather_shape(g);
    if (g->call->chat && !g->r.failed)
        tools = gather_tools(g);
    if (g->r.failed)
        return;
    if (g->call->chat)
        gather_messages(g, tools);
    else
        dop_gather_prompts(g, "prompt");
    if (!g->r.failed && g->parts)
        compile_gathered_parts(g);
    if (!g->r.failed && g->grammar)
        dop_constraints_note_unenforced(&g->r, g->grammar, g->schema, g->call);
    if (!g->r.failed)
        limit_answer_lengths(g);
    if (!g->r.failed && g->n_prompts * g->n_each > g->api->max_choices)
        dop_reader_refuse(&g->r, "n", "at most %u answers to a request", g->api->max_choices);
}

/* Frees the gathered state and, if `ends`, the call. */
static void
finish_gathering(gathering *g, bool ends)
{
    for (uint32_t i = 0; i < g->n_prompts && g->prompts; i++)
        dop_ids_finish(&g->prompts[i]);
    free(g->prompts);
    free(g->seconds);
    dop_request_images_finish(&g->images);
    free(g->biases);
    json_decref(g->parts);
    json_decref(g->schema);
    json_decref(g->allowed);
    dop_grammar_release(g->grammar);
    if (!ends)
        return;
    dop_buf_finish(&g->call->begin);
    json_decref(g->call->tools);
    json_decref(g->call->schema);
    json_decref(g->call->documents);
    for (uint32_t i = 0; i < g->call->n_choices; i++)
        dop_choice_finish(&g->call->choices[i]);
    if (g->call->writer)
        g->call->writer->finish(g->call->state);
    free(g->call);
    g->call = NULL;
}

/* Refuses a request for text if the model generates none. */
static void
refuse_textless_model(gathering *g)
{
    dop_draw_facts draws;
    if (dop_model_draw_facts(g->api->model, &draws))
        dop_reader_refuse(&g->r, "model", "the model draws and writes nothing: use /v1/images/generations");
    else if (g->api->program.width)
        dop_reader_refuse(&g->r, "model", "the model encodes texts and writes none: use /v1/embeddings%s",
                          g->api->program.classes ? " or /v1/rerank" : "");
}

/* Begins to gather a request, with a new call. Returns false if memory ran out; the answer is then an error. */
static bool
begin_gathering(const dop_api *api, const dop_api_request *request, const json_t *root, bool chat, dop_answer *answer,
                gathering *g)
{
    *g = (gathering){.api = api, .r = {.root = root, .answer = answer}, .budget = request->budget};
    g->images = (dop_request_images){.eyes = api->eyes, .urls = api->urls, .budget = request->budget};
    g->call = calloc(1, sizeof *g->call);
    if (!g->call) {
        dop_answer_no_memory(answer);
        return false;
    }
    g->call->api = api;
    g->call->chat = chat;
    g->call->terms.form = api->form;
    if (chat && !api->chat)
        refuse_textless_model(g);
    if (chat && !api->chat)
        dop_reader_refuse(
            &g->r, "messages",
            "the model has no chat template: use /v1/completions, or start the server with --chat-template");
    return true;
}

void
dop_call_render(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer)
{
    gathering g;
    dop_buf text = {0};
    if (!begin_gathering(api, request, root, true, answer, &g))
        return;
    g.rendered = &text;
    if (!g.r.failed) {
        const json_t *tools = gather_tools(&g);
        if (!g.r.failed)
            gather_messages(&g, tools);
    }
    if (!g.r.failed && text.failed)
        dop_gather_no_memory(&g);
    dop_reader_report(&g.r);
    if (!g.r.failed)
        dop_answer_json(answer, 200,
                        json_pack("{s:o}", "prompt", dop_json_text(text.size ? text.data : "", text.size)));
    finish_gathering(&g, true);
    dop_buf_finish(&text);
}

bool
dop_call_measure(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                 size_t *out_n)
{
    gathering g;
    if (!begin_gathering(api, request, root, true, answer, &g))
        return false;
    if (!g.r.failed)
        dop_gather_shape(&g);
    const json_t *tools = g.r.failed ? NULL : gather_tools(&g);
    if (!g.r.failed)
        gather_messages(&g, tools);
    const bool good = !g.r.failed && g.n_prompts == 1 && !g.prompts[0].failed;
    *out_n = good ? g.prompts[0].count : 0;
    if (!good && !g.r.failed)
        dop_gather_no_memory(&g);
    finish_gathering(&g, true);
    return good;
}

dop_call *
dop_call_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_call_how how,
               dop_answer *answer)
{
    bool chat = how.kind == DOP_CALL_CHAT;
    gathering g;
    if (!begin_gathering(api, request, root, chat, answer, &g)) {
        if (how.writer)
            how.writer->finish(how.state);
        return NULL;
    }
    g.job.wake = request->wake;
    g.job.user = request->user;
    g.job.client = request->client;
    g.job.priority = request->priority;
    g.call->writer = how.writer;
    g.call->state = how.state;
    assign_call_id(g.call);
    g.call->ranks = how.kind == DOP_CALL_RERANK;
    g.call->embeds = how.kind == DOP_CALL_EMBEDDING || g.call->ranks;
    if (!g.call->embeds)
        refuse_textless_model(&g);
    if (!g.r.failed && g.call->ranks)
        dop_gather_rerank(&g);
    else if (!g.r.failed && g.call->embeds)
        dop_gather_embedding(&g);
    else if (!g.r.failed)
        gather_request(&g);
    dop_reader_report(&g.r);
    if (!g.r.failed)
        submit_call_jobs(&g);
    finish_gathering(&g, g.r.failed);
    if (!g.call)
        return NULL;
    static const dop_tool_form plain; /* plain text without marks */
    if (!chat)
        g.call->terms = (dop_reading_terms){.form = &plain};
    for (uint32_t i = 0; i < g.call->n_choices && (chat || how.writer); i++)
        dop_reading_begin(&g.call->choices[i].reading, &g.call->terms);
    if (api->hold)
        api->hold(api->models, api);
    return g.call;
}
