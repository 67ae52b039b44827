/* Memory for bodies that are arriving or wait to be read.
 *
 * A body reserves its full length before it is read from the socket, so that every body that begins can also end.
 * Bodies without a reservation wait in the sockets' buffers, in order of arrival. While any waits, a stalled body is
 * dropped. Long bodies have a separate pool, so that they do not delay short ones. */
#include "serve/http/http_internal.h"

#include "base/os/clock.h"

enum {
    LONG = 4 << 20,       /* bytes; longer bodies are long */
    ALL_SHORT = 16 << 20, /* maximum bytes of all reservations of short bodies */
    ALL_LONG = 32 << 20,  /* the same for long bodies; a single body may exceed it */
    STALLED_MS = 500      /* a body without 64 KiB of progress for this time may be dropped */
};

static dop_http_memory *
get_body_memory(dop_http *h, uint64_t bytes)
{
    return &h->memory[bytes > LONG];
}

/* Reserves the memory that a connection waits for. Returns false if it does not fit now. */
static bool
grant_body_memory(dop_connection *c)
{
    dop_http *h = c->http;
    dop_http_memory *m = get_body_memory(h, c->wanted);
    if (m->reserved + c->wanted > (c->wanted > LONG ? ALL_LONG : ALL_SHORT) && m->reserved > 0)
        return false;
    m->reserved += c->wanted;
    m->n_wanting--;
    c->reserved = c->wanted;
    c->wanted = 0;
    c->since_ms = c->progress_ms = dop_now_ms(); /* its deadline begins now */
    c->progress = 0;
    return true;
}

bool
dop_connection_reserve(dop_connection *c, uint64_t bytes)
{
    if (bytes <= DOP_HTTP_SMALL_BODY)
        return true;
    c->wanted = bytes;
    return get_body_memory(c->http, bytes)->n_wanting++ == 0 &&
           grant_body_memory(c); /* connections that already wait come first */
}

void
dop_connection_unreserve(dop_connection *c)
{
    get_body_memory(c->http, c->reserved)->reserved -= c->reserved;
    get_body_memory(c->http, c->wanted)->n_wanting -= c->wanted > 0;
    c->reserved = c->wanted = 0;
}

/* Implements dop_http_grant_next for one of the two pools. */
static dop_connection *
grant_next_in_pool(dop_http *h, const dop_http_memory *m, double now_ms, dop_connection **out_stalled)
{
    dop_connection *oldest = NULL, *stalled = NULL;
    for (dop_connection *c = h->connections; c && m->n_wanting > 0; c = c->next) {
        if (c->wanted > 0 && get_body_memory(h, c->wanted) == m && (!oldest || c->since_ms < oldest->since_ms))
            oldest = c;
        if (c->reserved > 0 && get_body_memory(h, c->reserved) == m && c->state == DOP_CONNECTION_BODY &&
            now_ms - c->progress_ms > STALLED_MS && (!stalled || c->progress_ms < stalled->progress_ms))
            stalled = c;
    }
    if (oldest && grant_body_memory(oldest))
        return oldest;
    *out_stalled = oldest && stalled ? stalled : *out_stalled;
    return NULL;
}

dop_connection *
dop_http_grant_next(dop_http *h, double now_ms, dop_connection **out_stalled)
{
    *out_stalled = NULL;
    dop_connection *c = grant_next_in_pool(h, &h->memory[0], now_ms, out_stalled);
    return c ? c : grant_next_in_pool(h, &h->memory[1], now_ms, out_stalled);
}
