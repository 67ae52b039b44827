/* Memory for bodies: all that arrive or wait to be read share one budget.
 *
 * A body reserves its full length before it is read from the socket, so that each one that has begun can also end.  Bodies that find
 * no room wait in the sockets' buffers.  While any waits, a body that stalls gives way. */
#include "runtime/serve/http_internal.h"

#include "base/clock.h"

enum {
    ALL = 48 << 20,   /* bytes of all reservations, or one body of the largest size */
    STALLED_MS = 1000 /* time without DOP_HTTP_PROGRESS bytes after which a body gives way */
};

/* Reserves what a connection waits for.  False: it does not fit now. */
static bool
grant(dop_connection *c)
{
    dop_http *h = c->http;
    const uint64_t all = h->options.max_body > ALL ? h->options.max_body : ALL;
    if (h->reserved + c->wanted > all && h->reserved > 0)
        return false;
    h->reserved += c->wanted;
    h->n_wanting--;
    c->reserved = c->wanted;
    c->wanted = 0;
    c->since_ms = c->progress_ms = dop_now_ms(); /* its time begins now */
    c->progress = 0;
    return true;
}

bool
dop_connection_reserve(dop_connection *c, uint64_t bytes)
{
    if (bytes <= DOP_HTTP_SMALL_BODY)
        return true;
    c->wanted = bytes;
    return c->http->n_wanting++ == 0 && grant(c); /* those that came before are first */
}

void
dop_connection_unreserve(dop_connection *c)
{
    c->http->reserved -= c->reserved;
    c->http->n_wanting -= c->wanted > 0;
    c->reserved = c->wanted = 0;
}

dop_connection *
dop_http_grant_next(dop_http *h, double now_ms)
{
    dop_connection *oldest = NULL, *stalled = NULL;
    for (dop_connection *c = h->connections; c && h->n_wanting > 0; c = c->next) {
        if (c->wanted > 0 && (!oldest || c->since_ms < oldest->since_ms))
            oldest = c;
        if (c->reserved > 0 && c->state == DOP_CONNECTION_BODY && now_ms - c->progress_ms > STALLED_MS &&
            (!stalled || c->progress_ms < stalled->progress_ms))
            stalled = c;
    }
    if (oldest && stalled && h->reserved + oldest->wanted > ALL)
        dop_connection_close(stalled);
    return oldest && grant(oldest) ? oldest : NULL;
}
