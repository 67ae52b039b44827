/* Strict HTTP/1.1 message framing (RFC 9112): message boundaries, and the header fields that the server uses.
 *
 * If a server and a proxy disagree about message boundaries, an attacker can hide a request inside another one
 * (request smuggling). This parser therefore rejects what the RFC permits a recipient to repair: line ends without
 * CR, bare CRs, folded lines, blanks before a colon, a length together with a transfer coding, and repeated lengths
 * or names. The parser does not use sockets. */
#ifndef DOPPLER_SERVE_HTTP_HTTP_PARSE_H
#define DOPPLER_SERVE_HTTP_HTTP_PARSE_H

#include "base/base.h"

enum { DOP_HTTP_MAX_HEAD = 32768, DOP_HTTP_MAX_FIELDS = 100, DOP_HTTP_MAX_TRAILER = 4096 };

typedef enum dop_http_read {
    DOP_HTTP_MORE, /* more bytes are needed */
    DOP_HTTP_DONE,
    DOP_HTTP_WRONG /* malformed: the connection cannot be used any more, and *out_fault has the reason */
} dop_http_read;

typedef struct dop_http_fault {
    unsigned status; /* HTTP status of the answer */
    const char *why; /* static string */
} dop_http_fault;

/* The head of a request. Strings are 0-terminated and point into the bytes that were read. NULL: absent. */
typedef struct dop_http_head {
    const char *method, *path; /* path: percent-decoded, without the query */
    const char *query;         /* query string after the first "?", not decoded; "": none */
    const char *host;          /* NAME[:PORT] from the request target or the Host field */
    const char *origin, *authorization, *content_type;
    const char *api_key;      /* X-Api-Key, used by Anthropic's clients */
    const char *request_id;   /* X-Request-Id (the first one) */
    const char *asked_method; /* Access-Control-Request-Method: the method that a browser's CORS preflight asks for */
    bool persists;            /* the connection stays open for another request */
    bool chunks;              /* the answer may use chunked transfer coding (HTTP/1.1) */
    bool chunked;             /* the body uses chunked transfer coding */
    bool expects_continue;    /* the client waits for "100 Continue" before it sends the body */
    uint64_t length;          /* bytes of the body, unless `chunked` */
} dop_http_head;

/* Parses a head at the beginning of bytes[n], and modifies these bytes once the head is complete. io_seen: bytes
 * scanned by earlier calls, initially 0. With DOP_HTTP_DONE, the head has *out_size bytes. */
dop_http_read dop_http_read_head(char *bytes, size_t n, size_t *io_seen, dop_http_head *out_head, size_t *out_size,
                                 dop_http_fault *out_fault);

/* Parser state of a chunked body; zero-initialized. */
typedef struct dop_http_chunks {
    int state;
    uint64_t left;    /* bytes left in the current chunk */
    uint32_t digits;  /* digits read of the current chunk's size */
    uint32_t skipped; /* bytes of extensions and trailers in the whole body */
} dop_http_chunks;

/* Parses the next part of a chunked body from bytes[n]. Consumes *out_used bytes, of which the last *out_n, at
 * *out_data, are data. */
dop_http_read dop_http_read_chunks(dop_http_chunks *chunks, const char *bytes, size_t n, size_t *out_used,
                                   const char **out_data, size_t *out_n, dop_http_fault *out_fault);

#endif
