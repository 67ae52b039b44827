/* HTTP/1.1 message framing (RFC 9112), strictly: where a message begins and ends, and the header fields that the server uses.
 *
 * Servers and proxies that disagree about where a message ends can be made to see different requests in the same bytes (request
 * smuggling).  So whatever the RFC allows a recipient to repair is refused here: line ends without CR, bare CRs, folded lines, blanks
 * before a colon, a length beside a transfer coding, lengths or names that come twice.  Nothing here knows about sockets. */
#ifndef DOPPLER_SERVE_HTTP_HTTP_PARSE_H
#define DOPPLER_SERVE_HTTP_HTTP_PARSE_H

#include "base/base.h"

enum { DOP_HTTP_MAX_HEAD = 32768, DOP_HTTP_MAX_FIELDS = 100, DOP_HTTP_MAX_TRAILER = 4096 };

typedef enum dop_http_read {
    DOP_HTTP_MORE, /* more bytes are needed */
    DOP_HTTP_DONE,
    DOP_HTTP_WRONG /* the connection cannot be used any more: *out_fault says why */
} dop_http_read;

typedef struct dop_http_fault {
    unsigned status; /* HTTP status of the answer */
    const char *why; /* static */
} dop_http_fault;

/* The head of a request.  Texts are 0-terminated and point into the bytes that were read; NULL: absent. */
typedef struct dop_http_head {
    const char *method, *path; /* path: percent-decoded, without the query */
    const char *query;         /* behind the first "?", as it was written; "": there is none */
    const char *host;          /* NAME[:PORT], of the request target or of the Host field */
    const char *origin, *authorization, *content_type;
    const char *api_key;      /* X-Api-Key: a key as Anthropic's clients send it */
    const char *request_id;   /* X-Request-Id, the first one */
    const char *asked_method; /* Access-Control-Request-Method: a browser asks whether it may send this method */
    bool persists;            /* the connection may have another request */
    bool chunks;              /* the answer may be sent in chunks: HTTP/1.1 */
    bool chunked;             /* the body comes in chunks */
    bool expects_continue;    /* the client waits for "100 Continue" before it sends the body */
    uint64_t length;          /* bytes of the body, unless chunked */
} dop_http_head;

/* Reads a head from the beginning of bytes[n], which are changed when it is complete.  io_seen: bytes that earlier calls have looked
 * at, at first 0.  DOP_HTTP_DONE: *out_size bytes belong to the head. */
dop_http_read dop_http_read_head(char *bytes, size_t n, size_t *io_seen, dop_http_head *out_head, size_t *out_size,
                                 dop_http_fault *out_fault);

/* The state of a body that comes in chunks; zeroed at its beginning. */
typedef struct dop_http_chunks {
    int state;
    uint64_t left;    /* bytes of the current chunk that are still to come */
    uint32_t digits;  /* digits of the current chunk's size that were read */
    uint32_t skipped; /* bytes of extensions and trailers, of the whole body */
} dop_http_chunks;

/* Reads the next part of a chunked body from bytes[n]: uses *out_used bytes, the last *out_n of which, at *out_data, are the
 * body's. */
dop_http_read dop_http_read_chunks(dop_http_chunks *chunks, const char *bytes, size_t n, size_t *out_used,
                                   const char **out_data, size_t *out_n, dop_http_fault *out_fault);

#endif
