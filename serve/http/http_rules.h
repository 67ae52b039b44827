/* Access rules: API keys, and protection against pages of other sites when a browser can reach the server.
 *
 * A page can make its visitor's browser send requests to any address. Two rules prevent harm. First, a request
 * with an Origin is answered only if the Origin is this server. A body must also be declared as JSON, which a
 * foreign page cannot do without a CORS preflight. Second, the Host must be a name of this server. This stops pages
 * whose own name was made to resolve to this server (DNS rebinding), which pass the first rule. */
#ifndef DOPPLER_SERVE_HTTP_HTTP_RULES_H
#define DOPPLER_SERVE_HTTP_HTTP_RULES_H

#include "base/base.h"
#include "serve/http/http_parse.h"

/* Keys from a file: one per line, surrounding blanks ignored. Empty lines and lines that begin with # are skipped. A
 * key may be followed by priority=N. Owned. */
typedef struct dop_http_keys {
    char *bytes;       /* the keys, each 0-terminated */
    size_t *at, *size; /* [n]: offset of each key in `bytes`, and its length */
    int *priority;     /* [n]: priority of requests with this key, higher first; 0 unless the file states one */
    size_t n;
} dop_http_keys;

/* Parses the text of a key file; path: its name, for errors. Fails with DOP_E_INPUT if it has no key, or one that a
 * header cannot carry. */
dop_status dop_http_keys_read(const char *path, const char *text, dop_diag *diag, dop_http_keys *out_keys);
void dop_http_keys_finish(dop_http_keys *keys); /* accepts a zeroed struct */
/* Client of a request, for fair queueing. */
typedef struct dop_http_client {
    uint64_t id; /* hash of the key, or of the address if no keys are used */
    int priority;
} dop_http_client;
uint64_t dop_http_hash(const char *text);

/* True if Authorization or X-Api-Key (NULL: absent) has one of the keys. The running time does not depend on how
 * much of a key is correct. */
bool dop_http_keys_admit(const dop_http_keys *keys, const char *authorization, const char *api_key,
                         dop_http_client *out_client);

/* Host names under which the server may be addressed. */
typedef struct dop_http_names {
    char bound[256];          /* listening address, without brackets */
    bool loopback;            /* the server is reachable from this machine only */
    char machine[256];        /* host name of the machine */
    const char *const *added; /* [n_added], not owned */
    size_t n_added;
} dop_http_names;

/* True if the Host, NAME[:PORT], is a name of this server. NULL is accepted: only clients of HTTP/1.0 omit it, and
 * they are not browsers. */
bool dop_http_names_has(const dop_http_names *names, const char *host);
/* True if the Origin, SCHEME://NAME[:PORT], is this server as named by Host, or one of the added names. */
bool dop_http_names_has_origin(const dop_http_names *names, const char *origin, const char *host);
/* True if the Origin is one of origins[n], or if "*" is among them. */
bool dop_http_allows_origin(const char *const *origins, size_t n, const char *origin);
/* Returns the rest of the path after the prefix, from its slash on. "": the path is only the prefix. NULL: the path
 * has another prefix. */
const char *dop_http_behind_prefix(const char *prefix, const char *path);
/* Collapses repeated slashes and removes a trailing slash. They occur if a base URL ends with a slash. */
void dop_http_tidy_path(char *path);
/* True if the Content-Type is application/json, with or without parameters. */
bool dop_http_is_json(const char *content_type);
bool dop_http_is_form(const char *content_type);

#endif
