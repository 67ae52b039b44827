/* Responses that are kept in memory, as JSON texts, so that threads share no values. */
#ifndef DOPPLER_SERVE_PROTOCOLS_RESPONSES_STORE_H
#define DOPPLER_SERVE_PROTOCOLS_RESPONSES_STORE_H

#include "serve/protocols/protocol.h"

dop_status dop_response_store_create(uint32_t n, dop_diag *diag, dop_response_store **out_store);
void dop_response_store_destroy(dop_response_store *store); /* ends their calls; accepts NULL */

/* Keeps a response and the items of its conversation as JSON texts; the oldest responses make room. */
void dop_response_store_put(dop_response_store *store, const char *id, const json_t *response, const json_t *items);
/* Keeps a response whose answer is still being made, with its call, which the store owns from then on. */
bool dop_response_store_put_call(dop_response_store *store, const char *id, const json_t *response, const json_t *items,
                                 dop_call *call);
/* The response, and in *out_items, unless that is NULL, the items of its conversation, its output behind them: new references; NULL:
 * there is none of this id.  settle is called first where the answer is still being made. */
json_t *dop_response_store_get(dop_response_store *store, const char *id, dop_response_settle *settle, bool cancels,
                               json_t **out_items);
/* False: there is none of this id. */
bool dop_response_store_delete(dop_response_store *store, const char *id);

#endif
