/* The API over HTTP/1.1, on libmicrohttpd: sockets, keys, limits on requests, and clients that disconnect. */
#ifndef DOPPLER_RUNTIME_SERVER_HTTP_H
#define DOPPLER_RUNTIME_SERVER_HTTP_H

#include "runtime/server/api.h"

typedef struct dop_http dop_http;

typedef struct dop_http_options {
    /* [HOST:]PORT; the host is 127.0.0.1 when it is left out, [..] around one with colons; port 0: any. */
    const char *address;
    const char *keys; /* one per line, 0-terminated; NULL: no key is required */
    size_t max_body;  /* bytes of a request's body */
    uint32_t max_connections;
    double receive_s; /* in which a request must arrive */
    /* Until a connection without a request is closed: receive_s before its first, idle_s after one; soon where no other has room. */
    double idle_s;
} dop_http_options;

/* Starts serving; api must outlive it. */
dop_status dop_http_start(const dop_api *api, const dop_http_options *options, dop_diag *diag, dop_http **out_http);
/* Its address, as http://HOST:PORT. */
const char *dop_http_url(const dop_http *http);
/* Refuses new connections; existing ones continue. */
void dop_http_stop_listening(dop_http *http);
/* Whether no request is being answered. */
bool dop_http_is_idle(dop_http *http);
/* Closes all connections.  Accepts NULL. */
void dop_http_destroy(dop_http *http);

#endif
