/* The API over HTTP/1.1: sockets, deadlines, keys, names, limits on requests, and clients that disconnect.
 *
 * One thread owns all sockets and never waits for anything else; what takes time is done by workers (http_work.c).  So an answer
 * that needs no work, such as GET /health, is not held up by those that do. */
#ifndef DOPPLER_SERVE_HTTP_HTTP_H
#define DOPPLER_SERVE_HTTP_HTTP_H

#include "serve/api/api.h"
#include "serve/http/http_rules.h"

typedef struct dop_http dop_http;

typedef enum dop_http_log { DOP_HTTP_LOG_NONE, DOP_HTTP_LOG_TEXT, DOP_HTTP_LOG_JSON } dop_http_log;

typedef struct dop_http_options {
    /* [HOST:]PORT; the host is 127.0.0.1 when it is left out, [..] around one with colons; port 0: any. */
    const char *address;
    int listener; /* a socket that listens already, which the server closes in the end; 0 or -1: it opens one */
    const dop_http_keys *keys; /* must outlive the server; none in it: no key is required */
    const char *const *names;  /* [n_names]: more names under which clients may address the server; "*": any */
    size_t n_names;
    const char *const
        *origins; /* [n_origins]: sites, as SCHEME://NAME[:PORT], whose pages may send requests; "*": any site */
    size_t n_origins;
    const char *prefix; /* "/NAME", with which all paths begin; NULL or "": there is none */
    dop_http_log log;   /* a line for each answer, on stderr */
    double comment_s;   /* seconds after which a stream without news gets a comment; 0: never */
    size_t max_body;    /* bytes of a request's body */
    uint32_t max_connections;
    double
        receive_s; /* seconds in which a request must arrive, and in which a client must read something of its answer */
    /* Seconds after a request until the connection is closed, unless another request comes; the first request has receive_s.
     * Where a new connection finds no room, idle ones are closed sooner. */
    double idle_s;
} dop_http_options;

/* Starts serving; api must outlive it.  The process's limit on descriptors is raised, and connections are limited to what it allows. */
dop_status dop_http_start(const dop_api *api, const dop_http_options *options, dop_diag *diag, dop_http **out_http);
/* The address of the server, as http://HOST:PORT, with its prefix. */
const char *dop_http_url(const dop_http *http);
/* Most connections at once: those of the options, or fewer where the process may not have so many descriptors. */
uint32_t dop_http_max_connections(const dop_http *http);
/* Replaces the keys in use: `served`, the ones of the options, gets *io_keys, and *io_keys the former ones.  Any thread. */
void dop_http_swap_keys(dop_http *http, dop_http_keys *served, dop_http_keys *io_keys);
/* Refuses new connections and closes those whose request has not arrived in full; the others get their answers. */
void dop_http_stop_listening(dop_http *http);
/* Whether no request is being answered. */
bool dop_http_is_idle(dop_http *http);
/* Ends the server and closes all connections.  Accepts NULL. */
void dop_http_destroy(dop_http *http);

#endif
