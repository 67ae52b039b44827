/* The thread that owns the sockets. */
#include "serve/http/http_internal.h"

#include "base/os/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 256, TICK_MS = 100, PAUSE_MS = 20 };

static void
register_listener(dop_http *h, bool accepts)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &h->listener};
    if (accepts == h->accepts || h->listener < 0)
        return;
    h->accepts =
        epoll_ctl(h->epoll, accepts ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, h->listener, &e) == 0 ? accepts : !accepts;
}

/* Closes the connection that is most suitable, to make room for a new one. Returns false if there is none. */
static bool
close_idlest_connection(dop_http *h, double now_ms)
{
    dop_connection *best = NULL;
    double most = 0;
    for (dop_connection *c = h->connections; c; c = c->next) {
        const double idles = dop_connection_idles(c, now_ms);
        if (idles > most) {
            most = idles;
            best = c;
        }
    }
    if (best)
        dop_connection_close(best);
    return best != NULL;
}

/* Accepts all pending connections. If that fails for lack of resources, the listener is disabled for a while,
 * because polling it repeatedly would occupy a core. */
static void
accept_connections(dop_http *h)
{
    for (int i = 0; i < EVENTS; i++) {
        const double now = dop_now_ms();
        const bool room = h->n_connections < h->options.max_connections || close_idlest_connection(h, now);
        const int fd = room ? accept4(h->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK) : -1;
        if (fd >= 0) {
            dop_connection_open(h, fd);
            continue;
        }
        if (room && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (room && (errno == EINTR || errno == ECONNABORTED || errno == EPROTO || errno == EPERM))
            continue;
        if (room) /* no descriptor or memory left */
            (void)close_idlest_connection(h, now);
        register_listener(h, false);
        h->accept_ms = now + PAUSE_MS;
        return;
    }
}

static void
send_exchange_output(dop_http *h)
{
    uint64_t count;
    ssize_t n = read(h->event, &count, sizeof count);
    (void)n;
    for (dop_exchange *x; (x = dop_exchange_next(h)) != NULL;)
        dop_connection_hear(x->connection, x);
}

static void
check_connections(dop_http *h, double now_ms)
{
    for (dop_connection *c = h->connections, *next; c; c = next) {
        next = c->next;
        dop_connection_check(c, now_ms);
    }
    for (dop_connection *c, *stalled; (c = dop_http_grant_next(h, now_ms, &stalled)) != NULL || stalled;) {
        if (c)
            dop_connection_resume(c);
        else
            dop_connection_close(stalled);
    }
}

static void
free_closed_connections(dop_http *h)
{
    for (dop_connection *c; (c = h->closed) != NULL;) {
        h->closed = c->next;
        free(c);
    }
}

/* Handles stop requests of other threads. Returns false if the server must end. */
static bool
handle_stop_requests(dop_http *h)
{
    pthread_mutex_lock(&h->lock);
    const bool stops = h->stops && !h->stopped, ends = h->ends;
    pthread_mutex_unlock(&h->lock);
    if (stops) {
        register_listener(h, false);
        close(h->listener);
        h->listener = -1;
        h->stopped = true;
    }
    for (dop_connection *c = h->connections, *next; c && (stops || ends); c = next) {
        next = c->next;
        if (ends)
            dop_connection_close(c);
        else
            dop_connection_stop(c);
    }
    return !ends;
}

void *
dop_http_loop(void *http)
{
    dop_http *h = http;
    struct epoll_event events[EVENTS];
    double checked = 0;
    register_listener(h, true);
    while (handle_stop_requests(h)) {
        const int n = epoll_wait(h->epoll, events, EVENTS,
                                 !h->accepts && !h->stopped ? PAUSE_MS
                                 : h->n_connections         ? TICK_MS
                                                            : -1);
        for (int i = 0; i < n; i++) {
            void *what = events[i].data.ptr;
            if (what == &h->listener)
                accept_connections(h);
            else if (what == &h->event)
                send_exchange_output(h);
            else
                dop_connection_ready(what, events[i].events);
        }
        const double now = dop_now_ms();
        if (now - checked >= TICK_MS) {
            check_connections(h, now);
            checked = now;
        }
        if (!h->accepts && now >= h->accept_ms)
            register_listener(h, true);
        free_closed_connections(h);
    }
    free_closed_connections(h);
    return NULL;
}
