#include "serve/http/http_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* Splits [HOST:]PORT into host and port. */
static dop_status
split_listen_address(const char *address, char *host, size_t size, const char **out_port, dop_diag *diag)
{
    const char *colon = strrchr(address, ':');
    size_t n = colon ? (size_t)(colon - address) : 0;
    const char *from = address;
    *out_port = colon ? colon + 1 : address;
    if (n >= 2 && from[0] == '[' && from[n - 1] == ']') {
        from++;
        n -= 2;
    }
    char *end;
    unsigned long port = strtoul(*out_port, &end, 10);
    if (!**out_port || *end || port > 65535 || n >= size || **out_port == '-' || (colon && n == 0))
        return DOP_FAIL(diag, DOP_E_USAGE, "--serve takes [HOST:]PORT, not \"%s\"", address);
    snprintf(host, size, "%.*s", (int)n, n ? from : "");
    if (n == 0)
        snprintf(host, size, "127.0.0.1");
    return DOP_OK;
}

static bool
is_loopback_address(const struct sockaddr_storage *a)
{
    const struct sockaddr_in6 *six = (const void *)a;
    const struct sockaddr_in *four = (const void *)a;
    return a->ss_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) : ntohl(four->sin_addr.s_addr) >> 24 == 127;
}

/* Sets the names under which the server answers, and its URL. */
static void
set_server_names(dop_http *h, const char *host)
{
    char number[16];
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    getsockname(h->listener, (struct sockaddr *)&own, &size);
    getnameinfo((struct sockaddr *)&own, size, NULL, 0, number, sizeof number, NI_NUMERICSERV);
    snprintf(h->url, sizeof h->url, strchr(host, ':') ? "http://[%s]:%s" : "http://%s:%s", host, number);
    const size_t n = strlen(h->url);
    snprintf(h->url + n, sizeof h->url - n, "%s", h->options.prefix ? h->options.prefix : "");
    snprintf(h->names.bound, sizeof h->names.bound, "%s", host);
    h->names.loopback = is_loopback_address(&own);
    h->names.added = h->options.names;
    h->names.n_added = h->options.n_names;
    if (gethostname(h->names.machine, sizeof h->names.machine - 1) != 0)
        h->names.machine[0] = 0;
}

/* Uses a listening socket that was opened by another process. */
static dop_status
adopt_listener(dop_http *h, int fd, dop_diag *diag)
{
    char host[256];
    struct sockaddr_storage own;
    socklen_t size = sizeof own, size_on = sizeof(int);
    int listens = 0;
    if (getsockname(fd, (struct sockaddr *)&own, &size) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size_on) != 0 || !listens ||
        (own.ss_family != AF_INET && own.ss_family != AF_INET6) ||
        getnameinfo((struct sockaddr *)&own, size, host, sizeof host, NULL, 0, NI_NUMERICHOST) != 0)
        return DOP_FAIL(diag, DOP_E_IO, "the socket that was passed does not listen on an Internet address");
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    h->listener = fd;
    set_server_names(h, host);
    return DOP_OK;
}

static dop_status
open_listener(dop_http *h, dop_diag *diag)
{
    char host[256];
    const char *port;
    if (h->options.listener > 0)
        return adopt_listener(h, h->options.listener, diag);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    dop_status st = split_listen_address(h->options.address, host, sizeof host, &port, diag);
    int error, fd = -1, on = 1;
    if (st != DOP_OK)
        return st;
    if ((error = getaddrinfo(host, port, &hints, &list)) != 0)
        return DOP_FAIL(diag, DOP_E_IO, "cannot serve on %s: %s", h->options.address, gai_strerror(error));
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        if (fd >= 0)
            setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (fd >= 0 && (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, 1024) != 0)) {
            error = errno;
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    if (fd < 0)
        return DOP_FAIL(diag, DOP_E_IO, "cannot serve on %s: %s", h->options.address, strerror(error));
    h->listener = fd;
    set_server_names(h, host);
    return DOP_OK;
}

/* Raises the descriptor limit as far as possible, and reduces max_connections to fit it. */
static dop_status
limit_connections(dop_http *h, dop_diag *diag)
{
    enum { SPARE = 64 }; /* descriptors for everything else that is opened while the server runs */
    struct rlimit r;
    if (getrlimit(RLIMIT_NOFILE, &r) != 0)
        return DOP_OK;
    const rlim_t before = r.rlim_cur;
    r.rlim_cur = r.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &r) != 0)
        r.rlim_cur = before;
    const rlim_t used = (rlim_t)h->event + SPARE; /* the newest descriptor has about the highest number */
    if (r.rlim_cur != RLIM_INFINITY && r.rlim_cur < used + 4)
        return DOP_FAIL(diag, DOP_E_IO, "the limit of %llu open files (ulimit -n) is too low for a server",
                        (unsigned long long)r.rlim_cur);
    if (r.rlim_cur != RLIM_INFINITY && r.rlim_cur - used < h->options.max_connections)
        h->options.max_connections = (uint32_t)(r.rlim_cur - used);
    return DOP_OK;
}

static dop_status
open_descriptors(dop_http *h, dop_diag *diag)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &h->event};
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->epoll < 0 || h->event < 0 || epoll_ctl(h->epoll, EPOLL_CTL_ADD, h->event, &e) != 0)
        return DOP_FAIL(diag, DOP_E_IO, "cannot start the HTTP server: %s", strerror(errno));
    return limit_connections(h, diag);
}

dop_status
dop_http_start(const dop_api *api, const dop_http_options *options, dop_diag *diag, dop_http **out_http)
{
    dop_http *h = calloc(1, sizeof *h);
    *out_http = NULL;
    if (!h)
        return DOP_NO_MEMORY(diag);
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->more_work, NULL);
    pthread_cond_init(&h->more_answers, NULL);
    h->api = api;
    h->options = *options;
    h->listener = h->epoll = h->event = -1;
    (void)!getrandom(&h->first_id, sizeof h->first_id, 0);
    dop_status st = open_listener(h, diag);
    if (st == DOP_OK && (st = open_descriptors(h, diag)) == DOP_OK &&
        (!dop_http_start_workers(h) || !(h->runs = pthread_create(&h->thread, NULL, dop_http_loop, h) == 0)))
        st = DOP_FAIL(diag, DOP_E_IO, "cannot start a thread for the HTTP server");
    if (st == DOP_OK)
        *out_http = h;
    else
        dop_http_destroy(h);
    return st;
}

const char *
dop_http_url(const dop_http *http)
{
    return http->url;
}

uint32_t
dop_http_max_connections(const dop_http *http)
{
    return http->options.max_connections;
}

void
dop_http_swap_keys(dop_http *http, dop_http_keys *served, dop_http_keys *io_keys)
{
    pthread_mutex_lock(&http->lock);
    const dop_http_keys before = *served;
    *served = *io_keys;
    *io_keys = before;
    pthread_mutex_unlock(&http->lock);
}

void
dop_http_stop_listening(dop_http *http)
{
    pthread_mutex_lock(&http->lock);
    http->stops = true;
    pthread_mutex_unlock(&http->lock);
    dop_http_wake(http);
}

bool
dop_http_is_idle(dop_http *http)
{
    pthread_mutex_lock(&http->lock);
    const bool idle = http->n_exchanges == 0;
    pthread_mutex_unlock(&http->lock);
    return idle;
}

void
dop_http_destroy(dop_http *http)
{
    dop_http *h = http;
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->ends = true;
    pthread_mutex_unlock(&h->lock);
    if (h->runs) {
        dop_http_wake(h);
        pthread_join(h->thread, NULL); /* the thread closes all connections */
    }
    dop_http_join_workers(h);
    if (h->listener >= 0)
        close(h->listener);
    if (h->epoll >= 0)
        close(h->epoll);
    if (h->event >= 0)
        close(h->event);
    pthread_cond_destroy(&h->more_work);
    pthread_cond_destroy(&h->more_answers);
    pthread_mutex_destroy(&h->lock);
    free(h);
}
