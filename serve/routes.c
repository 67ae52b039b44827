/* Routes of the server, and the answers that need no job (serve/api/api.h). */
#include "serve/routes.h"

#include "base/os/clock.h"
#include "base/program/page.h"
#include "serve/api/api.h"
#include "serve/api/api_adapters.h"
#include "serve/api/api_internal.h"
#include "serve/api/api_json.h"
#include "serve/api/api_read.h"
#include "serve/api/api_request.h"
#include "serve/models.h"
#include "serve/protocols/drawings.h"
#include "serve/protocols/form_data.h"
#include "serve/protocols/messages_answer.h"
#include "serve/protocols/native.h"
#include "serve/protocols/protocol.h"
#include "serve/protocols/transcriptions.h"

#include <doppler/draw.h>

#include <stdlib.h>
#include <string.h>

typedef void handler_fn(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                        dop_call **out_call);

/* Handles GET /: the chat page. */
static void
answer_chat_page(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                 dop_call **out_call)
{
    (void)api, (void)request, (void)root, (void)out_call;
    answer->status = 200;
    answer->type = "text/html; charset=utf-8";
    dop_buf_puts(&answer->body, dop_page_chat);
}

/* dop_models_fn: sets *user if the model's device has failed. */
static void
find_broken_device(void *user, const dop_models_entry *entry, const char *status, uint32_t ctx, const dop_api *api)
{
    dop_diag *diag = user;
    (void)entry, (void)status, (void)ctx;
    if (api && diag->code == DOP_OK)
        (void)dop_engine_is_broken(api->engine, diag);
}

static void
answer_health(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
              dop_call **out_call)
{
    (void)request, (void)root, (void)out_call;
    dop_diag diag = {0};
    bool broken = false;
    if (api->models)
        dop_models_each(api->models, find_broken_device, &diag);
    broken = api->models ? diag.code != DOP_OK : dop_engine_is_broken(api->engine, &diag);
    if (broken)
        dop_answer_error(answer, &(dop_api_error){503, "server_error", "device_failed", NULL}, "%s", diag.message);
    else
        dop_answer_json(answer, 200, json_pack("{s:s}", "status", "ok"));
}

typedef struct models_metrics {
    dop_metrics sum;
    dop_model_metrics each;
    uint32_t n_loaded;
} models_metrics;

static void
sum_model_metrics(void *user, const dop_models_entry *entry, const char *status, uint32_t ctx, const dop_api *api)
{
    (void)status, (void)ctx;
    models_metrics *all = user;
    if (!api)
        return;
    const dop_metrics m = dop_engine_metrics(api->engine);
    if (all->n_loaded++ == 0)
        all->sum.file_bytes = 0; /* replaced by the sizes that loaded models report, which are more recent */
    dop_metrics_add(&all->sum, &m);
    dop_model_metrics_add(&all->each, entry->id, &m);
}

static void
answer_metrics(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
               dop_call **out_call)
{
    (void)request, (void)root, (void)out_call;
    models_metrics m = {0};
    dop_models_counts counts = {0};
    if (api->models) {
        counts = dop_models_count(api->models);
        m.sum = counts.gone;
        dop_models_each(api->models, sum_model_metrics, &m);
    } else {
        m.sum = dop_engine_metrics(api->engine);
    }
    answer->status = 200;
    answer->type = "text/plain; version=0.0.4; charset=utf-8";
    dop_metrics_write(&m.sum, api->models ? "all" : api->facts.name, &answer->body);
    dop_model_metrics_write(&m.each, &answer->body);
    if (api->models)
        dop_buf_printf(&answer->body,
                       "# HELP doppler_model_loads_total Models that were loaded.\n"
                       "# TYPE doppler_model_loads_total counter\ndoppler_model_loads_total %llu\n"
                       "# HELP doppler_model_unloads_total Models that were unloaded.\n"
                       "# TYPE doppler_model_unloads_total counter\ndoppler_model_unloads_total %llu\n"
                       "# HELP doppler_models_bytes Device memory of the models that are loaded.\n"
                       "# TYPE doppler_models_bytes gauge\ndoppler_models_bytes %llu\n",
                       (unsigned long long)counts.loads, (unsigned long long)counts.unloads,
                       (unsigned long long)counts.bytes);
}

static void
refuse_unknown_model(const char *name, dop_answer *answer)
{
    dop_answer_error(answer, &(dop_api_error){404, "invalid_request_error", "model_not_found", "model"},
                     "The model '%.200s' does not exist", name);
}

/* Returns the image-generation facts of a model; NULL: it draws no images. */
static json_t *
make_draw_facts_json(const dop_api *api)
{
    dop_draw_facts d;
    if (!dop_model_draw_facts(api->model, &d))
        return NULL;
    return json_pack("{s:I, s:I, s:I, s:f, s:s, s:b}", "width", (json_int_t)d.width, "height", (json_int_t)d.height,
                     "steps", (json_int_t)d.steps, "guidance", d.guidance, "sampler", d.sampler, "init",
                     (int)d.takes_pictures);
}

/* Adds the context length to a model's entry, under the names used by clients of vLLM, OpenRouter, Groq and
 * Mistral and, in "meta", llama.cpp's. */
static void
add_context_length(json_t *entry, uint32_t ctx)
{
    static const char *const names[] = {"max_model_len", "context_length", "context_window", "max_context_length"},
                             *const inner[] = {"n_ctx", "n_ctx_train"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        json_object_set_new(entry, names[i], json_integer(ctx));
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++)
        json_object_set_new(json_object_get(entry, "meta"), inner[i], json_integer(ctx));
}

/* Returns the entry of a model, with the members of both OpenAI and Anthropic. */
static json_t *
make_model_entry(const dop_api *api, const char *name)
{
    json_t *draws = make_draw_facts_json(api);
    const bool writes = !draws;
    char when[32];
    const time_t created = (time_t)api->created;
    struct tm t;
    gmtime_r(&created, &t);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &t);
    json_t *entry =
        json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:{s:I, s:I, s:I, s:s, s:s, s:b, s:o*}}", "id", name, "object",
                  "model", "created", (json_int_t)api->created, "owned_by", "doppler", "type", "model", "display_name",
                  name, "created_at", when, "meta", "vocab", (json_int_t)api->facts.vocab, "context",
                  (json_int_t)api->facts.ctx, "sequences", (json_int_t)api->facts.n_sequences, "family",
                  api->facts.family, "device", api->facts.device, "chat", api->chat != NULL, "draws", draws);
    if (writes)
        add_context_length(entry, api->facts.ctx);
    return entry;
}

/* Returns the entry of a model that is not loaded. ctx: context length; 0: unknown. */
static json_t *
make_short_entry(const char *id, int64_t since, uint32_t ctx)
{
    char when[32];
    const time_t created = (time_t)since;
    struct tm t;
    gmtime_r(&created, &t);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &t);
    json_t *entry = json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:o*}", "id", id, "object", "model", "created",
                              (json_int_t)since, "owned_by", "doppler", "type", "model", "display_name", id,
                              "created_at", when, "meta", ctx ? json_pack("{s:I}", "context", (json_int_t)ctx) : NULL);
    if (ctx)
        add_context_length(entry, ctx);
    return entry;
}

typedef struct listing {
    json_t *list;
    int64_t created;
} listing;

/* Lists the names "base:adapter", which select an adapter of the model. api: may be NULL. */
static void
list_adapters(const dop_api *api, json_t *list)
{
    for (uint32_t i = 0; api && dop_adapter_list_name(api->adapters, i); i++) {
        char name[256];
        snprintf(name, sizeof name, "%s:%s", api->facts.name, dop_adapter_list_name(api->adapters, i));
        json_array_append_new(list, make_model_entry(api, name));
    }
}

/* dop_models_fn: lists a model of the catalog. */
static void
list_catalog_model(void *user, const dop_models_entry *entry, const char *status, uint32_t ctx, const dop_api *api)
{
    listing *l = user;
    json_t *one = api ? make_model_entry(api, api->facts.name) : make_short_entry(entry->id, l->created, ctx);
    json_t *names = json_array();
    for (size_t i = 0; i < entry->n_aliases; i++)
        json_array_append_new(names, json_string(entry->aliases[i]));
    json_object_set_new(one, "aliases", names);
    json_object_set_new(one, "status", json_string(status));
    json_array_append_new(l->list, one);
    list_adapters(api, l->list);
}

/* Returns the listed model with this id or alias; NULL: none. */
static json_t *
find_listed_model(const json_t *list, const char *name)
{
    size_t i, k;
    json_t *one, *alias;
    json_array_foreach(list, i, one)
    {
        if (strcmp(json_string_value(json_object_get(one, "id")), name) == 0)
            return json_incref(one);
        json_array_foreach(json_object_get(one, "aliases"), k,
                           alias) if (strcmp(json_string_value(alias), name) == 0) return json_incref(one);
    }
    return NULL;
}

static void
answer_models(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
              dop_call **out_call)
{
    (void)root, (void)out_call;
    listing l = {json_array(), api->created};
    if (api->models) {
        dop_models_each(api->models, list_catalog_model, &l);
    } else {
        json_array_append_new(l.list, make_model_entry(api, api->facts.name));
        list_adapters(api, l.list);
    }
    const char *name = dop_path_below(request->path, "models");
    if (!name) {
        const json_t *last = json_array_get(l.list, json_array_size(l.list) - 1);
        dop_answer_json(answer, 200,
                        json_pack("{s:s, s:O, s:b, s:O?, s:O?}", "object", "list", "data", l.list, "has_more", 0,
                                  "first_id", json_object_get(json_array_get(l.list, 0), "id"), "last_id",
                                  json_object_get(last, "id")));
        json_decref(l.list);
        return;
    }
    json_t *one = find_listed_model(l.list, name);
    if (one)
        dop_answer_json(answer, 200, one);
    else
        refuse_unknown_model(name, answer);
    json_decref(l.list);
}

static void
answer_adapters(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                dop_call **out_call)
{
    (void)request, (void)root, (void)out_call;
    dop_answer_json(answer, 200, dop_adapter_list_json(api->adapters));
}

static void
set_posted_adapters(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                    dop_call **out_call)
{
    (void)request, (void)out_call;
    dop_adapter_list_set(api, root, answer);
}

static void
begin_completion_call(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                      dop_call **out_call)
{
    *out_call = dop_call_begin(api, request, root, (dop_call_how){.kind = DOP_CALL_COMPLETION}, answer);
}

static void
begin_chat_call(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                dop_call **out_call)
{
    *out_call = dop_call_begin(api, request, root, (dop_call_how){.kind = DOP_CALL_CHAT}, answer);
}

static void
begin_embedding_call(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                     dop_call **out_call)
{
    *out_call = dop_call_begin(api, request, root, (dop_call_how){.kind = DOP_CALL_EMBEDDING}, answer);
}

static void
begin_rerank_call(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                  dop_call **out_call)
{
    *out_call = dop_call_begin(api, request, root, (dop_call_how){.kind = DOP_CALL_RERANK}, answer);
}

static void
answer_template(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                dop_call **out_call)
{
    (void)out_call;
    dop_call_render(api, request, root, answer);
}

/* Returns the text of a token; "" for DOP_NO_TOKEN. */
static json_t *
make_special_token_text(const dop_tokenizer *tok, uint32_t id)
{
    size_t n = 0;
    const char *piece = id != DOP_NO_TOKEN ? dop_tokenizer_piece(tok, id, &n) : NULL;
    return dop_json_text(piece ? piece : "", n);
}

/* Handles GET /props, with llama.cpp's names. */
static void
answer_props(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
             dop_call **out_call)
{
    (void)request, (void)root, (void)out_call;
    const dop_sampling *s = &api->sampling;
    const dop_metrics m = dop_engine_metrics(api->engine);
    const double heat = s->temperature > 0 ? (double)s->temperature : 0; /* negative: the model's files state none */
    const char *text = api->chat ? dop_chat_template(api->chat) : "";
    dop_slot_facts slots[DOP_ENGINE_MAX_SLOTS];
    dop_answer_json(
        answer, 200,
        json_pack("{s:{s:I, s:{s:f, s:I, s:f, s:f, s:f, s:I, s:f, s:f}}, s:I, s:s, s:o, s:o, s:o, s:s, s:{s:b, s:b}, "
                  "s:{s:I, s:I, s:I, s:I, s:I}}",
                  "default_generation_settings", "n_ctx", (json_int_t)api->facts.ctx, "params", "temperature", heat,
                  "top_k", (json_int_t)s->top_k, "top_p", (double)s->top_p, "min_p", (double)s->min_p, "repeat_penalty",
                  (double)s->repeat_penalty, "repeat_last_n", (json_int_t)s->repeat_last_n, "presence_penalty",
                  (double)s->presence_penalty, "frequency_penalty", (double)s->frequency_penalty, "total_slots",
                  (json_int_t)dop_engine_slots(api->engine, slots), "model_alias", api->facts.name, "chat_template",
                  dop_json_text(text, strlen(text)), "bos_token",
                  make_special_token_text(api->tok, dop_tokenizer_bos(api->tok)), "eos_token",
                  make_special_token_text(api->tok, dop_tokenizer_eos(api->tok)), "build_info", "doppler-" DOP_VERSION,
                  "modalities", "vision", api->eyes != NULL, "audio", api->speech != NULL, "prompt_cache",
                  "tokens_saved", (json_int_t)m.reused_tokens, "tokens_loaded", (json_int_t)m.loaded_tokens,
                  "checkpoint_bytes", (json_int_t)m.checkpoint_bytes, "memory_bytes", (json_int_t)m.cache_bytes,
                  "file_bytes", (json_int_t)m.file_bytes));
}

/* Handles GET /slots: the state of each sequence, with llama.cpp's names. */
static void
answer_slots(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
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

/* Returns {"id", "piece"}. The piece is a text, or a list of bytes if it is not valid UTF-8. */
static json_t *
make_token_piece(const dop_tokenizer *tok, uint32_t id)
{
    size_t n = 0;
    const char *piece = dop_tokenizer_piece(tok, id, &n);
    json_t *text = piece ? json_stringn(piece, n) : json_string("");
    if (!text) {
        text = json_array();
        for (size_t i = 0; i < n; i++)
            json_array_append_new(text, json_integer((unsigned char)piece[i]));
    }
    return json_pack("{s:I, s:o}", "id", (json_int_t)id, "piece", text);
}

static void
answer_tokenize(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                dop_call **out_call)
{
    (void)out_call;
    dop_reader r = {.root = root, .answer = answer};
    dop_ids ids = {0};
    dop_diag diag = {0};
    size_t n;
    const char *text = dop_reader_text(&r, "content", &n);
    const bool pieces = dop_reader_bool(&r, "with_pieces", false);
    unsigned flags = (dop_reader_bool(&r, "add_special", false) ? DOP_ENCODE_ADD_SPECIAL | DOP_ENCODE_ONCE : 0) |
                     (dop_reader_bool(&r, "parse_special", true) ? DOP_ENCODE_PARSE_SPECIAL : 0);
    if (!text)
        dop_reader_refuse(&r, "content", "content is the text to tokenize");
    if (!r.failed && dop_tokenizer_encode_within(api->tok, text, n, flags, request->budget, &diag, &ids) != DOP_OK)
        dop_reader_fail(&r, "content", &diag, request->budget);
    dop_reader_report(&r);
    json_t *list = json_array();
    for (size_t i = 0; i < ids.count; i++)
        json_array_append_new(list, pieces ? make_token_piece(api->tok, ids.data[i]) : json_integer(ids.data[i]));
    if (r.failed)
        json_decref(list);
    else
        dop_answer_json(answer, 200, json_pack("{s:o}", "tokens", list));
    dop_ids_finish(&ids);
}

static void
answer_detokenize(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
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

enum {
    ROUTE_LIST = 1,    /* the body is a list instead of an object */
    ROUTE_WAITS = 2,   /* the handler may block on the engine, although it is not a POST: a worker calls it */
    ROUTE_MODEL = 4,   /* the request is for a model, not for the server */
    ROUTE_FORM = 8,    /* the body is multipart/form-data; the handler receives its text fields as an object */
    ROUTE_STREAM = 16, /* with "stream": true, the answer is an event stream */
    ROUTE_EMPTY = 32   /* the body may be missing */
};

typedef struct route {
    const char *path; /* a trailing * matches any rest */
    const char *method;
    handler_fn *handler;
    unsigned kind; /* ROUTE_* */
} route;

static const route routes[] = {
    {"/", "GET", answer_chat_page, 0},
    {"/health", "GET", answer_health, 0},
    {"/metrics", "GET", answer_metrics, 0},
    {"/props", "GET", answer_props, ROUTE_MODEL},
    {"/slots", "GET", answer_slots, ROUTE_MODEL},
    {"/v1/models", "GET", answer_models, 0},
    {"/v1/models/*", "GET", answer_models, 0},
    {"/v1/health", "GET", answer_health, 0},
    /* for clients whose base URL lacks /v1 */
    {"/models", "GET", answer_models, 0},
    {"/models/*", "GET", answer_models, 0},
    {"/completions", "POST", begin_completion_call, ROUTE_MODEL | ROUTE_STREAM},
    {"/chat/completions", "POST", begin_chat_call, ROUTE_MODEL | ROUTE_STREAM},
    {"/responses", "POST", dop_responses_begin, ROUTE_MODEL | ROUTE_STREAM},
    {"/responses/*", "GET", dop_responses_get, ROUTE_WAITS},
    {"/responses/*", "DELETE", dop_responses_delete, ROUTE_WAITS},
    {"/responses/*", "POST", dop_responses_cancel, ROUTE_EMPTY},
    {"/embeddings", "POST", begin_embedding_call, ROUTE_MODEL},
    {"/lora-adapters", "GET", answer_adapters, ROUTE_MODEL},
    {"/lora-adapters", "POST", set_posted_adapters, ROUTE_LIST | ROUTE_MODEL},
    {"/v1/completions", "POST", begin_completion_call, ROUTE_MODEL | ROUTE_STREAM},
    {"/v1/chat/completions", "POST", begin_chat_call, ROUTE_MODEL | ROUTE_STREAM},
    {"/v1/messages", "POST", dop_messages_begin, ROUTE_MODEL | ROUTE_STREAM},
    {"/v1/messages/count_tokens", "POST", dop_messages_count, ROUTE_MODEL},
    {"/v1/responses", "POST", dop_responses_begin, ROUTE_MODEL | ROUTE_STREAM},
    {"/v1/responses/*", "GET", dop_responses_get, ROUTE_WAITS},
    {"/v1/responses/*", "DELETE", dop_responses_delete, ROUTE_WAITS},
    {"/v1/responses/*", "POST", dop_responses_cancel, ROUTE_EMPTY},
    {"/completion", "POST", dop_completion_begin, ROUTE_MODEL | ROUTE_STREAM},
    {"/infill", "POST", dop_infill_begin, ROUTE_MODEL | ROUTE_STREAM},
    {"/v1/embeddings", "POST", begin_embedding_call, ROUTE_MODEL},
    {"/v1/images/generations", "POST", dop_drawings_begin, ROUTE_MODEL | ROUTE_STREAM},
    {"/v1/images/edits", "POST", dop_edits_begin, ROUTE_MODEL | ROUTE_FORM | ROUTE_STREAM},
    {"/v1/audio/transcriptions", "POST", dop_transcriptions_begin, ROUTE_MODEL | ROUTE_FORM | ROUTE_STREAM},
    {"/v1/audio/translations", "POST", dop_translations_begin, ROUTE_MODEL | ROUTE_FORM | ROUTE_STREAM},
    {"/v1/rerank", "POST", begin_rerank_call, ROUTE_MODEL},
    {"/v2/rerank", "POST", begin_rerank_call, ROUTE_MODEL}, /* Cohere's path */
    {"/rerank", "POST", begin_rerank_call, ROUTE_MODEL},
    {"/apply-template", "POST", answer_template, ROUTE_MODEL},
    {"/tokenize", "POST", answer_tokenize, ROUTE_MODEL},
    {"/detokenize", "POST", answer_detokenize, ROUTE_MODEL},
};

static bool
matches_route_path(const char *pattern, const char *path)
{
    size_t n = strlen(pattern);
    return pattern[n - 1] == '*' ? strncmp(pattern, path, n - 1) == 0 : strcmp(pattern, path) == 0;
}

/* Returns the methods of all routes that match a path, as TAKES_* bits. */
static unsigned
get_path_methods(const char *path)
{
    unsigned found = 0;
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (matches_route_path(routes[i].path, path))
            found |= strcmp(routes[i].method, "GET") == 0      ? TAKES_GET
                     : strcmp(routes[i].method, "DELETE") == 0 ? TAKES_DELETE
                                                               : TAKES_POST;
    return found;
}

/* Returns the route of a request. NULL: no such path or method; the answer is then an error. */
static const route *
find_route(const char *method, const char *path, dop_answer *answer)
{
    static const char *const allowed[] = {"",       "GET, HEAD",         "POST",         "GET, HEAD, POST",
                                          "DELETE", "GET, HEAD, DELETE", "POST, DELETE", "GET, HEAD, POST, DELETE"};
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        const char *takes = routes[i].method;
        /* A GET route also handles HEAD; the body is dropped later. */
        if (matches_route_path(routes[i].path, path) &&
            (strcmp(takes, method) == 0 || (strcmp(takes, "GET") == 0 && strcmp(method, "HEAD") == 0)))
            return &routes[i];
    }
    const unsigned methods = get_path_methods(path);
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

/* True if a route that matches the path has this flag. */
static bool
has_route_kind(const char *path, unsigned kind)
{
    size_t i = 0;
    while (i < sizeof routes / sizeof *routes && !(routes[i].kind & kind && matches_route_path(routes[i].path, path)))
        i++;
    return i < sizeof routes / sizeof *routes;
}

bool
dop_api_takes_forms(const char *path)
{
    return has_route_kind(path, ROUTE_FORM);
}

const char *
dop_api_refuses_forms(const dop_api *api, const char *path)
{
    dop_draw_facts facts;
    if (api->models || !has_route_kind(path, ROUTE_FORM))
        return NULL;
    if (strstr(path, "/audio/"))
        return api->speech ? NULL : "the model hears nothing";
    return dop_model_draw_facts(api->model, &facts) ? NULL : "the model draws no pictures";
}

bool
dop_api_takes_nothing(const char *path)
{
    return has_route_kind(path, ROUTE_EMPTY);
}

/* Parses a request's body as its route expects. NULL: refused, with the reason in the answer. */
static json_t *
read_route_body(const dop_api_request *request, unsigned kind, dop_answer *answer)
{
    dop_form_data form;
    if (!(kind & ROUTE_FORM))
        return dop_request_json(request, kind & ROUTE_LIST, answer);
    return dop_request_form(request, answer, &form) ? form.fields : NULL;
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

enum { MOST_NAME = 512 }; /* maximum bytes of a model's name */

/* True if the query has a non-empty model name. */
static bool
is_model_in_query(const dop_api_request *request, char *name)
{
    return dop_request_parameter(request, "model", name, MOST_NAME) && *name;
}

bool
dop_api_answer_now(const dop_api *api, const dop_api_request *request, dop_answer *out_answer)
{
    char name[MOST_NAME];
    dop_call *call = NULL;
    const route *found = find_route(request->method, request->path, out_answer);
    if (!found)
        return true;
    const bool chosen = api->models && (found->kind & ROUTE_MODEL);
    if (strcmp(request->method, "POST") == 0 || found->kind & ROUTE_WAITS ||
        (chosen && is_model_in_query(request, name)))
        return false;
    const dop_api *own = chosen ? dop_models_peek(api->models) : api;
    if (own)
        found->handler(own, request, NULL, out_answer, &call);
    else
        dop_answer_error(out_answer, &(dop_api_error){503, "server_error", "no_model", NULL}, "no model is loaded");
    if (own && own != api)
        dop_models_give_back(api->models, own);
    return true;
}

void
dop_api_count_answer(const dop_api *api, unsigned status)
{
    if (api->models)
        dop_models_count_answer(api->models, status);
    else
        dop_engine_count_answer(api->engine, status);
}

void
dop_api_forget(const dop_api *api, const void *user)
{
    if (api->models)
        dop_models_forget(api->models, user);
}

/* True if the answer to a waiting request will be an event stream. */
static bool
will_answer_stream(const route *found, const json_t *root)
{
    const json_t *stream = json_object_get(root, "stream");
    const char *text = json_string_value(stream); /* forms have the value as text */
    return (found->kind & ROUTE_STREAM) && (json_is_true(stream) || (text && strcmp(text, "true") == 0));
}

/* Returns the API of the model that a request names; the caller gives it back. NULL: the answer has the reason, or
 * the request must wait. */
static const dop_api *
lease_requested_model(const dop_api *api, const dop_api_request *request, const route *found, const json_t *root,
                      dop_answer *answer)
{
    char queried[MOST_NAME];
    const char *name = json_string_value(json_object_get(root, "model"));
    const dop_api *own = NULL;
    dop_diag diag = {0};
    if (!root && is_model_in_query(request, queried))
        name = queried;
    name = name && *name ? name : NULL;
    switch (dop_models_take(api->models, name, request->wake, request->user, &diag, &own)) {
    case DOP_LEASE_GIVEN:
        break;
    case DOP_LEASE_WAITS:
        answer->waits = true;
        answer->events = will_answer_stream(found, root);
        break;
    case DOP_LEASE_UNKNOWN:
        refuse_unknown_model(name ? name : "", answer);
        break;
    case DOP_LEASE_STOPPED:
        dop_answer_error(answer, &(dop_api_error){503, "server_error", "shutting_down", NULL},
                         "the server is shutting down");
        break;
    case DOP_LEASE_FAILED:
        dop_answer_error(answer, &(dop_api_error){503, "server_error", "model_failed", "model"}, "%s", diag.message);
        break;
    }
    return own;
}

void
dop_api_begin(const dop_api *api, const dop_api_request *request, dop_answer *out_answer, dop_call **out_call)
{
    const route *found = find_route(request->method, request->path, out_answer);
    json_t *root = NULL;
    *out_call = NULL;
    if (!found)
        return;
    const bool empty = request->n_body == 0 && (found->kind & ROUTE_EMPTY);
    if (strcmp(request->method, "POST") == 0 && !empty && !(root = read_route_body(request, found->kind, out_answer)))
        return;
    const dop_api *own =
        api->models && (found->kind & ROUTE_MODEL) ? lease_requested_model(api, request, found, root, out_answer) : api;
    if (own)
        found->handler(own, request, root, out_answer, out_call);
    json_decref(root);
    if (own && own != api)
        dop_models_give_back(api->models, own);
}
