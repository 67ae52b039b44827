/* Responses kept in memory. They are stored as JSON texts, because threads must not share JSON values. */
#ifndef DOPPLER_SERVE_PROTOCOLS_RESPONSES_STORE_H
#define DOPPLER_SERVE_PROTOCOLS_RESPONSES_STORE_H

#include "serve/protocols/protocol.h"

dop_status dop_response_store_create(uint32_t n, dop_diag *diag, dop_response_store **out_store);
void dop_response_store_destroy(dop_response_store *store); /* ends the stored calls; accepts NULL */

/* Stores a response and its conversation items as JSON texts. The oldest responses are dropped to make room. */
void dop_response_store_put(dop_response_store *store, const char *id, const json_t *response, const json_t *items);
/* Stores a response whose answer is still in progress. The store takes ownership of the call. */
bool dop_response_store_put_call(dop_response_store *store, const char *id, const json_t *response, const json_t *items,
                                 dop_call *call);
/* Returns a stored response; NULL: no such id. *out_items (unless NULL) receives the items of its conversation,
 * followed by its output. Both are new references. If the answer is still in progress, `settle` is called first. */
json_t *dop_response_store_get(dop_response_store *store, const char *id, dop_response_settle *settle, bool cancels,
                               json_t **out_items);
/* Returns false if there is no response with this id. */
bool dop_response_store_delete(dop_response_store *store, const char *id);

#endif
