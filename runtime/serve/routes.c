/* Which function answers which path, and the answers that need no job (runtime/serve/api/api.h). */
#include "runtime/serve/api/api.h"

#include "base/clock.h"
#include "base/program/page.h"
#include "runtime/serve/api/api_internal.h"
#include "runtime/serve/protocols/protocol.h"

#include <stdlib.h>
#include <string.h>

typedef void handler_fn(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                        dop_call **out_call);

/* GET / */
static void
get_page(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
         dop_call **out_call)
{
    (void)api, (void)request, (void)root, (void)out_call;
    answer->status = 200;
    answer->type = "text/html; charset=utf-8";
    dop_buf_puts(&answer->body, dop_page_chat);
}

static void
get_health(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
           dop_call **out_call)
{
    (void)request, (void)root, (void)out_call;
    dop_diag diag = {0};
    if (dop_engine_is_broken(api->engine, &diag))
        dop_answer_error(answer, &(dop_api_error){503, "server_error", "device_failed", NULL}, "%s", diag.message);
    else
        dop_answer_json(answer, 200, json_pack("{s:s}", "status", "ok"));
}

static void
get_metrics(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
            dop_call **out_call)
{
    (void)request, (void)root, (void)out_call;
    dop_metrics m = dop_engine_metrics(api->engine);
    answer->status = 200;
    answer->type = "text/plain; version=0.0.4; charset=utf-8";
    dop_metrics_write(&m, api->facts.name, &answer->body);
}

/* A model as both OpenAI and Anthropic describe it. */
static json_t *
model_entry(const dop_api *api)
{
    char when[32];
    const time_t created = (time_t)api->created;
    struct tm t;
    gmtime_r(&created, &t);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &t);
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:{s:I, s:I, s:I, s:s, s:s, s:b}}", "id", api->facts.name,
                     "object", "model", "created", (json_int_t)api->created, "owned_by", "doppler", "type", "model",
                     "display_name", api->facts.name, "created_at", when, "meta", "vocab", (json_int_t)api->facts.vocab,
                     "context", (json_int_t)api->facts.ctx, "sequences", (json_int_t)api->facts.n_sequences, "family",
                     api->facts.family, "device", api->facts.device, "chat", api->chat != NULL);
}

static void
get_models(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
           dop_call **out_call)
{
    (void)root, (void)out_call;
    static const char prefix[] = "/v1/models/";
    if (strncmp(request->path, prefix, strlen(prefix)) != 0) {
        dop_answer_json(answer, 200,
                        json_pack("{s:s, s:[o], s:b, s:s, s:s}", "object", "list", "data", model_entry(api), "has_more",
                                  0, "first_id", api->facts.name, "last_id", api->facts.name));
        return;
    }
    const char *name = request->path + strlen(prefix);
    if (strcmp(name, api->facts.name) == 0)
        dop_answer_json(answer, 200, model_entry(api));
    else
        dop_answer_error(answer, &(dop_api_error){404, "invalid_request_error", "model_not_found", "model"},
                         "The model '%.200s' does not exist", name);
}

static void
post_completions(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                 dop_call **out_call)
{
    *out_call = dop_call_begin(api, request, root, (dop_call_how){.kind = DOP_CALL_COMPLETION}, answer);
}

static void
post_chat(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
          dop_call **out_call)
{
    *out_call = dop_call_begin(api, request, root, (dop_call_how){.kind = DOP_CALL_CHAT}, answer);
}

static void
post_embeddings(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                dop_call **out_call)
{
    *out_call = dop_call_begin(api, request, root, (dop_call_how){.kind = DOP_CALL_EMBEDDING}, answer);
}

static void
post_rerank(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
            dop_call **out_call)
{
    *out_call = dop_call_begin(api, request, root, (dop_call_how){.kind = DOP_CALL_RERANK}, answer);
}

static void
post_template(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
              dop_call **out_call)
{
    (void)out_call;
    dop_call_render(api, request, root, answer);
}

/* GET /props, with llama.cpp's names. */
static void
get_props(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
          dop_call **out_call)
{
    (void)request, (void)root, (void)out_call;
    const dop_sampling *s = &api->sampling;
    const char *text = api->chat ? dop_chat_template(api->chat) : "";
    dop_answer_json(answer, 200,
                    json_pack("{s:{s:I, s:{s:f, s:I, s:f, s:f, s:f, s:I, s:f, s:f}}, s:I, s:s, s:o, s:s, s:{s:b, s:b}}",
                              "default_generation_settings", "n_ctx", (json_int_t)api->facts.ctx, "params",
                              "temperature", (double)s->temperature, "top_k", (json_int_t)s->top_k, "top_p",
                              (double)s->top_p, "min_p", (double)s->min_p, "repeat_penalty", (double)s->repeat_penalty,
                              "repeat_last_n", (json_int_t)s->repeat_last_n, "presence_penalty",
                              (double)s->presence_penalty, "frequency_penalty", (double)s->frequency_penalty,
                              "total_slots", (json_int_t)api->facts.n_sequences, "model_alias", api->facts.name,
                              "chat_template", dop_json_text(text, strlen(text)), "build_info", "doppler-" DOP_VERSION,
                              "modalities", "vision", 0, "audio", 0));
}

/* GET /slots: what each sequence does, with llama.cpp's names. */
static void
get_slots(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
          dop_call **out_call)
{
    (void)request, (void)root, (void)out_call;
    dop_slot_facts slots[DOP_ENGINE_MAX_SLOTS];
    const uint32_t n = dop_engine_slots(api->engine, slots);
    json_t *list = json_array();
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(list,
                              json_pack("{s:I, s:I, s:b, s:I, s:I, s:I}", "id", (json_int_t)i, "n_ctx",
                                        (json_int_t)api->facts.ctx, "is_processing", (int)slots[i].works,
                                        "n_prompt_tokens", (json_int_t)slots[i].n_prompt, "n_prompt_tokens_cache",
                                        (json_int_t)slots[i].n_reused, "n_decoded", (json_int_t)slots[i].n_written));
    dop_answer_json(answer, 200, list);
}

static void
post_tokenize(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
              dop_call **out_call)
{
    (void)out_call;
    dop_reader r = {.root = root, .answer = answer};
    dop_ids ids = {0};
    dop_diag diag = {0};
    size_t n;
    const char *text = dop_reader_text(&r, "content", &n);
    unsigned flags = (dop_reader_bool(&r, "add_special", false) ? DOP_ENCODE_ADD_SPECIAL | DOP_ENCODE_ONCE : 0) |
                     (dop_reader_bool(&r, "parse_special", true) ? DOP_ENCODE_PARSE_SPECIAL : 0);
    if (!text)
        dop_reader_refuse(&r, "content", "content is the text to tokenize");
    if (!r.failed && dop_tokenizer_encode_within(api->tok, text, n, flags, request->budget, &diag, &ids) != DOP_OK)
        dop_reader_fail(&r, "content", &diag, request->budget);
    dop_reader_report(&r);
    json_t *list = json_array();
    for (size_t i = 0; i < ids.count; i++)
        json_array_append_new(list, json_integer(ids.data[i]));
    if (r.failed)
        json_decref(list);
    else
        dop_answer_json(answer, 200, json_pack("{s:o}", "tokens", list));
    dop_ids_finish(&ids);
}

static void
post_detokenize(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                dop_call **out_call)
{
    (void)out_call;
    dop_reader r = {.root = root, .answer = answer};
    dop_ids ids = {0};
    dop_buf text = {0};
    dop_diag diag = {0};
    const json_t *list = dop_reader_get(&r, "tokens"), *v;
    size_t i;
    if (!json_is_array(list))
        dop_reader_refuse(&r, "tokens", "tokens is a list of token ids");
    json_array_foreach(list, i, v)
    {
        if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) >= api->facts.vocab)
            dop_reader_refuse(&r, "tokens", "token ids are whole numbers below %u", api->facts.vocab);
        else
            dop_ids_push(&ids, (uint32_t)json_integer_value(v));
    }
    if (!r.failed && dop_tokenizer_decode(api->tok, ids.data, ids.count, 0, &diag, &text) != DOP_OK)
        dop_reader_fail(&r, "tokens", &diag, request->budget);
    dop_reader_report(&r);
    if (!r.failed)
        dop_answer_json(answer, 200,
                        json_pack("{s:o}", "content", dop_json_text(text.size ? text.data : "", text.size)));
    dop_ids_finish(&ids);
    dop_buf_finish(&text);
}

enum { TAKES_GET = 1, TAKES_POST = 2, TAKES_DELETE = 4 };

typedef struct route {
    const char *path; /* a * at the end stands for any rest */
    const char *method;
    handler_fn *handler;
    bool waits; /* the handler may wait for the engine, although it is no POST: a worker calls it */
} route;

static const route routes[] = {
    {"/", "GET", get_page, false},
    {"/health", "GET", get_health, false},
    {"/metrics", "GET", get_metrics, false},
    {"/props", "GET", get_props, false},
    {"/slots", "GET", get_slots, false},
    {"/v1/models", "GET", get_models, false},
    {"/v1/models/*", "GET", get_models, false},
    {"/v1/completions", "POST", post_completions, false},
    {"/v1/chat/completions", "POST", post_chat, false},
    {"/v1/messages", "POST", dop_messages_begin, false},
    {"/v1/messages/count_tokens", "POST", dop_messages_count, false},
    {"/v1/responses", "POST", dop_responses_begin, false},
    {"/v1/responses/*", "GET", dop_responses_get, true},
    {"/v1/responses/*", "DELETE", dop_responses_delete, true},
    {"/v1/responses/*", "POST", dop_responses_cancel, false},
    {"/infill", "POST", dop_infill_begin, false},
    {"/v1/embeddings", "POST", post_embeddings, false},
    {"/v1/rerank", "POST", post_rerank, false},
    {"/v2/rerank", "POST", post_rerank, false}, /* Cohere's */
    {"/rerank", "POST", post_rerank, false},
    {"/apply-template", "POST", post_template, false},
    {"/tokenize", "POST", post_tokenize, false},
    {"/detokenize", "POST", post_detokenize, false},
};

static bool
fits(const char *pattern, const char *path)
{
    size_t n = strlen(pattern);
    return pattern[n - 1] == '*' ? strncmp(pattern, path, n - 1) == 0 : strcmp(pattern, path) == 0;
}

/* Which methods the routes that fit a path take. */
static unsigned
methods_of(const char *path)
{
    unsigned found = 0;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (fits(routes[i].path, path))
            found |= strcmp(routes[i].method, "GET") == 0      ? TAKES_GET
                     : strcmp(routes[i].method, "DELETE") == 0 ? TAKES_DELETE
                                                               : TAKES_POST;
    return found;
}

/* Finds the route of a request; NULL: the answer says that there is no such path or method. */
static const route *
find_route(const char *method, const char *path, dop_answer *answer)
{
    static const char *const allowed[] = {"",       "GET, HEAD",         "POST",         "GET, HEAD, POST",
                                          "DELETE", "GET, HEAD, DELETE", "POST, DELETE", "GET, HEAD, POST, DELETE"};
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const char *takes = routes[i].method;
        if (fits(routes[i].path, path) &&
            (strcmp(takes, method) == 0 ||
             (strcmp(takes, "GET") == 0 && strcmp(method, "HEAD") == 0))) /* the body is dropped later */
            return &routes[i];
    }
    const unsigned methods = methods_of(path);
    if (!methods) {
        dop_answer_error(answer, &(dop_api_error){404, "invalid_request_error", "unknown_url", NULL},
                         "Unknown request URL: %s %.200s", method, path);
        return NULL;
    }
    dop_answer_error(answer, &(dop_api_error){405, "invalid_request_error", "method_not_allowed", NULL},
                     "%.200s takes %s only", path, methods == TAKES_GET ? "GET" : allowed[methods]);
    answer->allow = allowed[methods];
    return NULL;
}

void
dop_api_budget(const dop_api *api, const atomic_bool *cancelled, dop_budget *out_budget)
{
    const dop_api_limits *l = &api->limits;
    *out_budget = DOP_BUDGET_UNLIMITED;
    if (l->steps > 0)
        out_budget->steps = l->steps;
    if (l->bytes > 0)
        out_budget->bytes = l->bytes;
    if (l->seconds > 0)
        out_budget->until_ms = dop_now_ms() + l->seconds * 1e3;
    out_budget->cancelled = cancelled;
}

bool
dop_api_answer_now(const dop_api *api, const char *method, const char *path, dop_answer *out_answer)
{
    const dop_api_request request = {.method = method, .path = path};
    dop_call *call = NULL;
    const route *found = find_route(method, path, out_answer);
    if (!found)
        return true;
    if (strcmp(method, "POST") == 0 || found->waits)
        return false;
    found->handler(api, &request, NULL, out_answer, &call);
    return true;
}

void
dop_api_begin(const dop_api *api, const dop_api_request *request, dop_answer *out_answer, dop_call **out_call)
{
    const route *found = find_route(request->method, request->path, out_answer);
    json_t *root = NULL;
    *out_call = NULL;
    if (!found || (strcmp(request->method, "POST") == 0 && !(root = dop_request_json(request, out_answer))))
        return;
    found->handler(api, request, root, out_answer, out_call);
    json_decref(root);
}
