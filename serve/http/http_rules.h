/* Who may ask for what: keys, and the rules that keep pages of other sites away from a server that a browser can reach.
 *
 * A page may make its visitor's browser send requests to any address.  Two rules stop those that matter.  A request with an Origin
 * is answered only when that is the server itself, and a body must be declared as JSON, which a page of another site cannot do
 * without asking first.  And the Host must be a name of this server: a page whose own name has been made to point here (DNS
 * rebinding) passes the first rule, and not this one. */
#ifndef DOPPLER_SERVE_HTTP_HTTP_RULES_H
#define DOPPLER_SERVE_HTTP_HTTP_RULES_H

#include "base/base.h"
#include "serve/http/http_parse.h"

/* Keys of a file: one a line, without blanks around it; empty lines and those that begin with # are none.  Behind a key may stand
 * priority=N.  Owned. */
typedef struct dop_http_keys {
    char *bytes;       /* the keys, each 0-terminated */
    size_t *at, *size; /* [n] */
    int *priority;     /* [n]: requests with a larger one are answered first; 0 unless the file says it */
    size_t n;
} dop_http_keys;

/* Reads the text of a file of that name.  DOP_E_INPUT: there is no key in it, or one that no header can carry. */
dop_status dop_http_keys_read(const char *path, const char *text, dop_diag *diag, dop_http_keys *out_keys);
void dop_http_keys_finish(dop_http_keys *keys); /* accepts a zeroed one */
/* Whose request it is, for its place in the queue. */
typedef struct dop_http_client {
    uint64_t id; /* of the key or, where there are none, of the address: a hash */
    int priority;
} dop_http_client;
uint64_t dop_http_hash(const char *text);

/* Does the value of Authorization, or that of X-Api-Key, have one of the keys?  NULL: there is no such field.  The time that this takes
 * does not depend on how much of a key is right. */
bool dop_http_keys_admit(const dop_http_keys *keys, const char *authorization, const char *api_key,
                         dop_http_client *out_client);

/* Under which names the server may be addressed. */
typedef struct dop_http_names {
    char bound[256];          /* the address that it listens on, without brackets */
    bool loopback;            /* only this machine reaches it */
    char machine[256];        /* the machine's own name */
    const char *const *added; /* [n_added], not owned */
    size_t n_added;
} dop_http_names;

/* Is the Host, NAME[:PORT], one of this server's?  NULL: a client of HTTP/1.0 that sends none, and no browser. */
bool dop_http_names_has(const dop_http_names *names, const char *host);
/* Is the Origin, SCHEME://NAME[:PORT], the server under the name of Host, or one of the added names? */
bool dop_http_names_has_origin(const dop_http_names *names, const char *origin, const char *host);
/* Is the Origin one of origins[n], or is any origin allowed ("*" among them)? */
bool dop_http_allows_origin(const char *const *origins, size_t n, const char *origin);
/* The rest of the path behind the prefix, from its slash on; "" where the path is the prefix alone; NULL: the path begins
 * otherwise. */
const char *dop_http_behind_prefix(const char *prefix, const char *path);
/* Makes one slash of several and drops those at the end of a path: what comes of a base address with a slash and a path with one. */
void dop_http_tidy_path(char *path);
/* Is the value of Content-Type application/json, with or without parameters? */
bool dop_http_is_json(const char *content_type);
bool dop_http_is_form(const char *content_type);

#endif
