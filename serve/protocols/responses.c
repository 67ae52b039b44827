/* Routes of OpenAI's Responses API. */
#include "serve/api/api_answer.h"
#include "serve/api/api_json.h"
#include "serve/api/api_read.h"
#include "serve/api/api_request.h"
#include "serve/protocols/protocol.h"
#include "serve/protocols/responses_answer.h"
#include "serve/protocols/responses_request.h"
#include "serve/protocols/responses_store.h"

#include <stdlib.h>
#include <string.h>

/* dop_response_settle: polls or cancels a background answer. */
static bool
settle_background_call(dop_call *call, bool cancels, dop_buf *io_response, dop_buf *io_items)
{
    dop_answer answer = {0};
    dop_response *p = call->state;
    json_t *response = NULL;
    p->terms.keeps = false; /* the store already has a row for it */
    const bool over = !cancels && dop_call_poll(call, &answer);
    if (cancels) {
        response = dop_response_json(call, p, NULL, "cancelled");
    } else if (over && answer.status == 200) {
        (void)dop_json_decode(answer.body.data, answer.body.size, &(dop_json_how){.flags = DOP_JSON_EXACT}, NULL,
                              &response);
    } else if (over) { /* the job has failed */
        dop_engine_lock(call->api->engine);
        const dop_job_state s = dop_job_look(call->choices[0].job);
        dop_engine_unlock(call->api->engine);
        response = dop_response_json(call, p, &(dop_news){.state = s, .ended = true}, NULL);
    }
    if (cancels || over) {
        io_response->size = io_items->size = 0;
        dop_json_encode(io_response, response);
        json_array_extend(p->terms.items, json_object_get(response, "output"));
        dop_json_encode(io_items, p->terms.items);
    }
    json_decref(response);
    dop_answer_finish(&answer);
    return cancels || over;
}

/* Answers with the initial state of a background response, and passes its call to the store. */
static void
detach_background_call(const dop_api *api, dop_call *call, dop_answer *answer)
{
    json_t *all = dop_response_json(call, call->state, NULL, "in_progress");
    const dop_response *p = call->state;
    char id[sizeof call->id];
    memcpy(id, call->id, sizeof id);
    dop_response_name_items(call, p->terms.items);
    if (all && dop_response_store_put_call(api->store, id, all, p->terms.items, call))
        dop_answer_json(answer, 200, json_incref(all));
    else
        dop_answer_no_memory(answer);
    json_decref(all);
}

void
dop_responses_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                    dop_call **out_call)
{
    dop_reader r = {.root = root, .answer = answer};
    dop_response *p = calloc(1, sizeof *p);
    json_t *chat = p ? dop_responses_translate(api, &r, settle_background_call, &p->terms) : NULL;
    dop_api_request own = *request;
    if (p && p->terms.detached) /* no connection waits for the call */
        own.wake = NULL;
    if (p)
        p->output = json_array();
    if (p && p->output && chat) {
        const bool detached = p->terms.detached;
        dop_call *call =
            dop_call_begin(api, &own, chat,
                           (dop_call_how){.kind = DOP_CALL_CHAT, .writer = &dop_responses_writer, .state = p}, answer);
        if (call && detached)
            detach_background_call(api, call, answer);
        else
            *out_call = call;
    } else {
        if (!p || (chat && !p->output))
            dop_answer_no_memory(answer);
        dop_responses_writer.finish(p);
    }
    json_decref(chat);
}

static void
answer_unknown_path(const dop_api_request *request, dop_answer *answer)
{
    dop_answer_error(answer, &(dop_api_error){404, "invalid_request_error", "unknown_url", NULL},
                     "Unknown request URL: %s %.200s", request->method, request->path);
}

/* Reads the id and the rest of a path /v1/responses/ID[/...]. Returns false if the path is unknown or the server
 * stores no responses; the answer is then an error. */
static bool
read_response_id(const dop_api *api, const dop_api_request *request, char *id, size_t size, const char **out_rest,
                 dop_answer *answer)
{
    const char *at = dop_path_below(request->path, "responses");
    const size_t n = strcspn(at, "/");
    *out_rest = at + n;
    snprintf(id, size, "%.*s", n < size ? (int)n : 0, at);
    if (strcmp(request->method, "POST") == 0 && strcmp(*out_rest, "/cancel") != 0) {
        answer_unknown_path(request, answer);
        return false;
    }
    if (!api->store)
        dop_answer_error(answer, &(dop_api_error){404, "invalid_request_error", "not_found", NULL},
                         "this server keeps no responses (--store)");
    return api->store != NULL;
}

/* Answers with a stored value, or with an error if it is NULL. */
static void
answer_stored_value(json_t *value, const char *id, dop_answer *answer)
{
    if (value)
        dop_answer_json(answer, 200, value);
    else
        dop_answer_error(answer, &(dop_api_error){404, "invalid_request_error", "not_found", NULL},
                         "Response with id '%.80s' not found.", id);
}

/* Completes an item for listing: adds the type of messages, and converts their text to a list of parts. */
static json_t *
complete_listed_item(json_t *item)
{
    const json_t *content = json_object_get(item, "content"), *role = json_object_get(item, "role");
    if (!json_object_get(item, "type"))
        json_object_set_new(item, "type", json_string("message"));
    if (json_is_string(content)) {
        const bool own = json_is_string(role) && strcmp(json_string_value(role), "assistant") == 0;
        json_object_set_new(item, "content",
                            json_pack("[{s:s, s:O}]", "type", own ? "output_text" : "input_text", "text",
                                      (json_t *)(uintptr_t)content));
    }
    return item;
}

/* Answers with a list of the first n items, according to the query: "order" (newest first unless asc), "after" an
 * item id, and "limit". */
static void
answer_item_list(const dop_api_request *request, const json_t *items, size_t n, dop_answer *answer)
{
    enum { USUAL = 20, MOST = 100 };
    char order[8] = "desc", number[8] = "", after[100] = "", *end = number;
    (void)dop_request_parameter(request, "order", order, sizeof order);
    const bool up = strcmp(order, "asc") == 0;
    if (!up && strcmp(order, "desc") != 0) {
        dop_answer_error(answer, &(dop_api_error){400, "invalid_request_error", "invalid_value", "order"},
                         "order is asc or desc");
        return;
    }
    const bool limited = dop_request_parameter(request, "limit", number, sizeof number);
    const unsigned long limit = limited ? strtoul(number, &end, 10) : USUAL;
    if (*end || limit < 1 || limit > MOST) {
        dop_answer_error(answer, &(dop_api_error){400, "invalid_request_error", "invalid_value", "limit"},
                         "limit is a whole number between 1 and %d", MOST);
        return;
    }
    bool begun = !dop_request_parameter(request, "after", after, sizeof after);
    json_t *list = json_array();
    size_t at = 0;
    for (; at < n && json_array_size(list) < limit; at++) {
        json_t *item = json_array_get(items, up ? at : n - 1 - at);
        const char *id = json_string_value(json_object_get(item, "id"));
        if (begun)
            json_array_append(list, complete_listed_item(item));
        begun |= id && strcmp(id, after) == 0;
    }
    const size_t last = json_array_size(list);
    if (begun)
        dop_answer_json(answer, 200,
                        json_pack("{s:s, s:O, s:b, s:O?, s:O?}", "object", "list", "data", list, "has_more",
                                  (int)(at < n), "first_id", json_object_get(json_array_get(list, 0), "id"), "last_id",
                                  json_object_get(json_array_get(list, last ? last - 1 : 0), "id")));
    else
        dop_answer_error(answer, &(dop_api_error){400, "invalid_request_error", "invalid_value", "after"},
                         "no item has the id '%.80s'", after);
    json_decref(list);
}

void
dop_responses_get(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                  dop_call **out_call)
{
    char id[80], streams[8] = "";
    const char *rest;
    json_t *items = NULL;
    (void)root, (void)out_call;
    if (!read_response_id(api, request, id, sizeof id, &rest, answer))
        return;
    if (*rest && strcmp(rest, "/input_items") != 0) {
        answer_unknown_path(request, answer);
        return;
    }
    if (!*rest && dop_request_parameter(request, "stream", streams, sizeof streams) && strcmp(streams, "true") == 0) {
        dop_answer_error(answer, &(dop_api_error){400, "invalid_request_error", "invalid_value", "stream"},
                         "a response is kept whole, and not as a stream");
        return;
    }
    json_t *response = dop_response_store_get(api->store, id, settle_background_call, false, *rest ? &items : NULL);
    if (*rest && response) { /* the input items precede the output */
        answer_item_list(request, items, json_array_size(items) - json_array_size(json_object_get(response, "output")),
                         answer);
        json_decref(response);
    } else {
        answer_stored_value(response, id, answer);
    }
    json_decref(items);
}

void
dop_responses_delete(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                     dop_call **out_call)
{
    char id[80];
    const char *rest;
    (void)root, (void)out_call;
    if (read_response_id(api, request, id, sizeof id, &rest, answer))
        answer_stored_value(!*rest && dop_response_store_delete(api->store, id)
                                ? json_pack("{s:s, s:s, s:b}", "id", id, "object", "response.deleted", "deleted", 1)
                                : NULL,
                            id, answer);
}

void
dop_responses_cancel(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                     dop_call **out_call)
{
    char id[80];
    const char *rest;
    (void)root, (void)out_call;
    if (read_response_id(api, request, id, sizeof id, &rest, answer))
        answer_stored_value(dop_response_store_get(api->store, id, settle_background_call, true, NULL), id, answer);
}
