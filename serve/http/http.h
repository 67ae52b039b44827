/* The API over HTTP/1.1: sockets, deadlines, keys, host names, request limits and client disconnects.
 *
 * One thread owns all sockets and never blocks on anything else. Workers do the slow work (http_work.c), so that
 * answers such as GET /health are not delayed by other requests. */
#ifndef DOPPLER_SERVE_HTTP_HTTP_H
#define DOPPLER_SERVE_HTTP_HTTP_H

#include "serve/api/api.h"
#include "serve/http/http_rules.h"

typedef struct dop_http dop_http;

typedef enum dop_http_log { DOP_HTTP_LOG_NONE, DOP_HTTP_LOG_TEXT, DOP_HTTP_LOG_JSON } dop_http_log;

typedef struct dop_http_options {
    /* [HOST:]PORT. The default host is 127.0.0.1. IPv6 addresses are in brackets. Port 0: any free port. */
    const char *address;
    int listener; /* listening socket to use, closed by the server at the end; 0 or -1: the server opens one */
    const dop_http_keys *keys; /* must outlive the server; empty: no key is required */
    const char *const *names;  /* [n_names]: additional host names of the server; "*": any */
    size_t n_names;
    const char *const
        *origins; /* [n_origins]: origins (SCHEME://NAME[:PORT]) whose pages may send requests; "*": any */
    size_t n_origins;
    const char *prefix; /* path prefix "/NAME" of all requests; NULL or "": none */
    dop_http_log log;   /* format of the access log on stderr, one line per answer */
    double comment_s;   /* seconds after which an idle stream gets a keep-alive comment; 0: never */
    size_t max_body;    /* maximum bytes of a request's body */
    uint32_t max_connections;
    double
        /* seconds within which a request must arrive, and within which a client must read part of its answer */
        receive_s;
    /* Seconds that a connection may stay idle after a request; receive_s applies before the first one. Idle
     * connections are closed sooner if a new connection finds no room. */
    double idle_s;
} dop_http_options;

/* Starts serving; api must outlive the server. Raises the process's descriptor limit, and reduces max_connections to
 * fit it. */
dop_status dop_http_start(const dop_api *api, const dop_http_options *options, dop_diag *diag, dop_http **out_http);
/* Returns the server's URL, http://HOST:PORT with the prefix. */
const char *dop_http_url(const dop_http *http);
/* Returns the maximum number of connections: that of the options, or less if the descriptor limit is lower. */
uint32_t dop_http_max_connections(const dop_http *http);
/* Swaps the keys in use, `served` (those of the options), with *io_keys. Any thread. */
void dop_http_swap_keys(dop_http *http, dop_http_keys *served, dop_http_keys *io_keys);
/* Refuses new connections, and closes those whose request is incomplete. Other requests are still answered. */
void dop_http_stop_listening(dop_http *http);
/* True if no request is in progress. */
bool dop_http_is_idle(dop_http *http);
/* Ends the server and closes all connections.  Accepts NULL. */
void dop_http_destroy(dop_http *http);

#endif
