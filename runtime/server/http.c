#include "runtime/server/http.h"

#include "base/clock.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* A request; it is suspended while its call has nothing new.  Everything from `call` on is under the server's lock. */
typedef struct request {
    dop_http *http;
    struct MHD_Connection *connection;
    struct client *client;
    double begin_ms;
    bool seen, too_large; /* the handler was called; the body is longer than allowed */
    size_t received;      /* bytes of the body, those that were dropped too */
    dop_buf body;

    dop_call *call;
    dop_answer answer;
    size_t sent; /* bytes of the answer, of a stream */
    bool over;   /* the answer is complete */
    bool gone;   /* the client went away */
} request;

typedef struct client {
    struct client *next, *before;
    int fd;
    double since_ms; /* of its opening, or of its last request's end */
    bool asked;      /* a request has come */
    request *request;
} client;

struct dop_http {
    const dop_api *api;
    dop_http_options options;
    char *keys; /* owned */
    char url[300];
    struct MHD_Daemon *daemon;
    pthread_t watcher;
    bool watches;
    pthread_mutex_t lock;
    bool ends; /* the watcher is to end */
    client *clients;
    uint32_t n_clients, n_requests;
};

/* --- answers ------------------------------------------------------------------------------------------------------------------- */

static void
lock(dop_http *h)
{
    pthread_mutex_lock(&h->lock);
}

static void
unlock(dop_http *h)
{
    pthread_mutex_unlock(&h->lock);
}

static void
wake(void *user)
{
    request *r = user;
    MHD_resume_connection(r->connection);
}

static ssize_t
read_stream(void *user, uint64_t at, char *out, size_t most)
{
    request *r = user;
    ssize_t n = 0;
    (void)at;
    lock(r->http);
    if (!r->over && !r->gone && r->call)
        r->over = dop_call_poll(r->call, &r->answer);
    size_t left = r->answer.body.size - r->sent;
    if (r->gone || r->answer.body.failed) {
        n = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (left > 0) {
        n = (ssize_t)(left < most ? left : most);
        memcpy(out, r->answer.body.data + r->sent, (size_t)n);
        r->sent += (size_t)n;
        if (r->sent == r->answer.body.size)
            r->sent = r->answer.body.size = 0;
    } else if (r->over) {
        n = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        MHD_suspend_connection(r->connection);
    }
    unlock(r->http);
    return n;
}

static void
add_headers(const request *r, struct MHD_Response *response)
{
    const dop_answer *a = &r->answer;
    MHD_add_response_header(response, "Content-Type", a->type ? a->type : "application/json");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    if (a->streams)
        MHD_add_response_header(response, "X-Accel-Buffering", "no");
    if (a->type && strncmp(a->type, "text/html", 9) == 0)
        MHD_add_response_header(response, "Content-Security-Policy",
                                "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                                "img-src data:; connect-src 'self'; base-uri 'none'; frame-ancestors 'none'");
    if (a->allow)
        MHD_add_response_header(response, "Allow", a->allow);
    for (const char *line = a->headers.size ? a->headers.data : ""; *line;) {
        char name[64], value[1024];
        const char *end = strstr(line, "\r\n");
        if (!end || sscanf(line, "%63[^:]: %1023[^\r]", name, value) != 2)
            break;
        MHD_add_response_header(response, name, value);
        line = end + 2;
    }
    if (a->status == 401)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (a->status == 429 || a->status == 503)
        MHD_add_response_header(response, "Retry-After", "1");
}

static enum MHD_Result
give_answer(request *r)
{
    dop_answer *a = &r->answer;
    struct MHD_Response *response;
    if (a->body.failed) {
        a->body.failed = false;
        dop_answer_error(a, &(dop_api_error){500, "server_error", NULL, NULL}, "out of memory");
    }
    if (a->streams)
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 32768, read_stream, r, NULL);
    else
        response =
            MHD_create_response_from_buffer(a->body.size, a->body.data ? a->body.data : "", MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    add_headers(r, response);
    dop_engine_count_answer(r->http->api->engine, a->status);
    enum MHD_Result result = MHD_queue_response(r->connection, a->status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result
refuse(request *r, const dop_api_error *error, const char *text)
{
    dop_answer_error(&r->answer, error, "%s", text);
    r->over = true;
    return give_answer(r);
}

/* --- requests -------------------------------------------------------------------------------------------------------------------- */

/* Is the key in the list?  The time does not depend on how much of a key is right, so that it cannot be guessed bit by bit. */
static bool
has_key(const char *keys, const char *key)
{
    size_t len = strlen(key);
    bool found = false;
    for (const char *line = keys; *line;) {
        size_t n = strcspn(line, "\r\n");
        unsigned different = n != len || n == 0;
        for (size_t i = 0; i < n; i++)
            different |= (unsigned)(line[i] ^ key[len ? i % len : 0]);
        found |= !different;
        line += n;
        line += strspn(line, "\r\n");
    }
    return found;
}

static bool
may_come(const request *r, const char *url)
{
    static const char scheme[] = "Bearer ";
    if (!r->http->keys || strcmp(url, "/health") == 0 || strcmp(url, "/") == 0)
        return true;
    const char *given = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Authorization");
    return given && strncasecmp(given, scheme, strlen(scheme)) == 0 && has_key(r->http->keys, given + strlen(scheme));
}

static enum MHD_Result
refuse_size(request *r)
{
    char text[100];
    snprintf(text, sizeof text, "the body of a request has at most %zu bytes here", r->http->options.max_body);
    return refuse(r, &(dop_api_error){413, "invalid_request_error", "body_too_large", NULL}, text);
}

/* Called when the head of a request has arrived and its body has not: refuses what can be refused by then. */
static enum MHD_Result
check_head(request *r, const char *url, const char *method)
{
    const char *length = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Content-Length");
    const char *type = MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, "Content-Type");
    static const char json[] = "application/json";
    r->seen = true;
    if (!may_come(r, url))
        return refuse(r, &(dop_api_error){401, "invalid_request_error", "invalid_api_key", NULL},
                      "Incorrect API key provided: send one as \"Authorization: Bearer KEY\"");
    if (length && strtoull(length, NULL, 10) > r->http->options.max_body)
        return refuse_size(r);
    /* A page of another site can make a browser send other types without asking the server first. */
    if (strcmp(method, "POST") == 0 && type && strncasecmp(type, json, strlen(json)) != 0)
        return refuse(r, &(dop_api_error){415, "invalid_request_error", "unsupported_media_type", NULL},
                      "bodies are JSON: send the header \"Content-Type: application/json\"");
    return MHD_YES;
}

static void
take_body(request *r, const char *data, size_t n)
{
    r->received += n;
    if (r->received > r->http->options.max_body) {
        r->too_large = true;
        dop_buf_finish(&r->body);
    } else {
        dop_buf_append(&r->body, data, n);
    }
}

/* Called when the body is complete: queues an answer, or begins a call and waits for it. */
static enum MHD_Result
begin(request *r, const char *url, const char *method)
{
    if (r->too_large)
        return refuse_size(r);
    if (r->body.failed)
        return refuse(r, &(dop_api_error){500, "server_error", NULL, NULL}, "out of memory");
    dop_api_request q = {method, url, r->body.data, r->body.size, wake, r};
    dop_call *call = NULL;
    dop_api_begin(r->http->api, &q, &r->answer, &call);
    lock(r->http);
    r->call = call;
    r->over = !call || dop_call_poll(call, &r->answer);
    bool answers = r->over || r->answer.streams;
    if (!answers)
        MHD_suspend_connection(r->connection);
    unlock(r->http);
    return answers ? give_answer(r) : MHD_YES;
}

static enum MHD_Result
go_on(request *r)
{
    lock(r->http);
    bool gone = r->gone;
    if (!gone && !r->over) {
        r->over = dop_call_poll(r->call, &r->answer);
        if (!r->over)
            MHD_suspend_connection(r->connection);
    }
    bool over = r->over;
    unlock(r->http);
    return gone ? MHD_NO : over ? give_answer(r) : MHD_YES;
}

static enum MHD_Result
handle(void *user, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
       const char *data, size_t *io_n, void **io_request)
{
    dop_http *h = user;
    request *r = *io_request;
    (void)version;
    if (!r)
        return MHD_NO; /* note_request() had no memory for it */
    if (!r->seen)
        return check_head(r, url, method);
    if (*io_n > 0) {
        take_body(r, data, *io_n);
        *io_n = 0;
        return r->received > 4 * h->options.max_body ? MHD_NO : MHD_YES;
    }
    (void)connection;
    return r->call ? go_on(r) : begin(r, url, method);
}

static client *
client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* The first line of a request has arrived. */
static void *
note_request(void *user, const char *uri, struct MHD_Connection *connection)
{
    dop_http *h = user;
    (void)uri;
    request *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->http = h;
    r->connection = connection;
    r->begin_ms = dop_now_ms();
    lock(h);
    h->n_requests++;
    r->client = client_of(connection);
    if (r->client) {
        r->client->request = r;
        r->client->asked = true;
    }
    unlock(h);
    return r;
}

static void
note_completed(void *user, struct MHD_Connection *connection, void **io_request, enum MHD_RequestTerminationCode how)
{
    dop_http *h = user;
    request *r = *io_request;
    (void)connection, (void)how;
    if (!r)
        return;
    lock(h);
    dop_call_end(r->call);
    h->n_requests--;
    if (r->client) {
        r->client->request = NULL;
        r->client->since_ms = dop_now_ms();
    }
    unlock(h);
    dop_buf_finish(&r->body);
    dop_buf_finish(&r->answer.headers);
    dop_buf_finish(&r->answer.body);
    free(r);
    *io_request = NULL;
}

static void
note_connection(void *user, struct MHD_Connection *connection, void **io_client,
                enum MHD_ConnectionNotificationCode what)
{
    dop_http *h = user;
    client *c = *io_client;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    lock(h);
    if (what == MHD_CONNECTION_NOTIFY_STARTED && (c = calloc(1, sizeof *c)) != NULL) {
        c->fd = info ? info->connect_fd : -1;
        c->since_ms = dop_now_ms();
        c->next = h->clients;
        if (c->next)
            c->next->before = c;
        h->clients = c;
        h->n_clients++;
        *io_client = c;
    } else if (what == MHD_CONNECTION_NOTIFY_CLOSED && c) {
        if (c->next)
            c->next->before = c->before;
        if (c->before)
            c->before->next = c->next;
        else
            h->clients = c->next;
        h->n_clients--;
        free(c);
        *io_client = NULL;
    }
    unlock(h);
}

/* --- watching -------------------------------------------------------------------------------------------------------------------- */

/* Has the client closed the connection?  libmicrohttpd does not watch connections that are suspended. */
static bool
has_left(const client *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLRDHUP};
    return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

/* Seconds that a connection may wait without a request.  Where there is no room for another connection it gives way soon, so that
 * silent clients do not keep the others out. */
static double
patience(const dop_http *h, const client *c)
{
    const double full_s = 1, most = c->asked ? h->options.idle_s : h->options.receive_s;
    return h->n_clients >= h->options.max_connections && most > full_s ? full_s : most;
}

static void
watch_client(const dop_http *h, client *c, double now)
{
    request *r = c->request;
    if (r && r->call && !r->gone && !r->over) {
        if (!has_left(c))
            return;
        r->gone = true;
        dop_call_end(r->call); /* its sequences are free with the next step */
        r->call = NULL;
        MHD_resume_connection(r->connection);
    } else if (r && !r->call && !r->over && now - r->begin_ms > h->options.receive_s * 1e3) {
        shutdown(c->fd, SHUT_RDWR);
    } else if (!r && now - c->since_ms > patience(h, c) * 1e3) {
        shutdown(c->fd, SHUT_RDWR);
    }
}

static void *
watch(void *user)
{
    enum { PAUSE_US = 20000 };
    dop_http *h = user;
    for (bool ends = false; !ends;) {
        double now = dop_now_ms();
        lock(h);
        for (client *c = h->clients; c; c = c->next)
            watch_client(h, c, now);
        ends = h->ends;
        unlock(h);
        usleep(PAUSE_US);
    }
    return NULL;
}

/* --- starting -------------------------------------------------------------------------------------------------------------------- */

/* [HOST:]PORT to its parts. */
static dop_status
split_address(const char *address, char *host, size_t size, const char **out_port, dop_diag *diag)
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

static dop_status
listen_on(dop_http *h, dop_diag *diag, int *out_fd)
{
    char host[256], number[16];
    const char *port;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *list = NULL;
    dop_status st = split_address(h->options.address, host, sizeof host, &port, diag);
    int error, fd = -1, on = 1;
    if (st != DOP_OK)
        return st;
    if ((error = getaddrinfo(host, port, &hints, &list)) != 0)
        return DOP_FAIL(diag, DOP_E_IO, "cannot serve on %s: %s", h->options.address, gai_strerror(error));
    for (const struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a->ai_protocol);
        if (fd >= 0)
            setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        if (fd >= 0 && (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, 511) != 0)) {
            error = errno;
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(list);
    if (fd < 0)
        return DOP_FAIL(diag, DOP_E_IO, "cannot serve on %s: %s", h->options.address, strerror(error));
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    getsockname(fd, (struct sockaddr *)&own, &size);
    getnameinfo((struct sockaddr *)&own, size, NULL, 0, number, sizeof number, NI_NUMERICSERV);
    snprintf(h->url, sizeof h->url, strchr(host, ':') ? "http://[%s]:%s" : "http://%s:%s", host, number);
    *out_fd = fd;
    return DOP_OK;
}

static void
drop_log(void *user, const char *fmt, va_list ap)
{
    (void)user, (void)fmt, (void)ap;
}

dop_status
dop_http_start(const dop_api *api, const dop_http_options *options, dop_diag *diag, dop_http **out_http)
{
    enum { THREADS = 4 };
    dop_http *h = calloc(1, sizeof *h);
    int fd = -1;
    *out_http = NULL;
    if (!h)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    pthread_mutex_init(&h->lock, NULL);
    h->api = api;
    h->options = *options;
    dop_status st = DOP_OK;
    if (options->keys && !(h->keys = strdup(options->keys)))
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if (st != DOP_OK || (st = listen_on(h, diag, &fd)) != DOP_OK)
        goto error;
    h->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG, 0,
        NULL, NULL, handle, h, MHD_OPTION_EXTERNAL_LOGGER, drop_log, NULL, MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)options->max_connections, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS,
        MHD_OPTION_NOTIFY_COMPLETED, note_completed, h, MHD_OPTION_NOTIFY_CONNECTION, note_connection, h,
        MHD_OPTION_URI_LOG_CALLBACK, note_request, h, MHD_OPTION_END);
    if (!h->daemon) {
        close(fd);
        st = DOP_FAIL(diag, DOP_E_IO, "cannot start the HTTP server");
        goto error;
    }
    h->watches = pthread_create(&h->watcher, NULL, watch, h) == 0;
    if (!h->watches)
        st = DOP_FAIL(diag, DOP_E_IO, "cannot start a thread for the HTTP server");
error:
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

void
dop_http_stop_listening(dop_http *http)
{
    MHD_socket fd = MHD_quiesce_daemon(http->daemon);
    if (fd != MHD_INVALID_SOCKET)
        close(fd);
}

bool
dop_http_is_idle(dop_http *http)
{
    lock(http);
    bool idle = http->n_requests == 0;
    unlock(http);
    return idle;
}

void
dop_http_destroy(dop_http *http)
{
    dop_http *h = http;
    if (!h)
        return;
    if (h->watches) {
        lock(h);
        h->ends = true;
        for (client *c = h->clients; c; c = c->next)
            if (c->request && c->request->call && !c->request->gone) {
                c->request->gone = true;
                dop_call_end(c->request->call);
                c->request->call = NULL;
                MHD_resume_connection(c->request->connection);
            }
        unlock(h);
        pthread_join(h->watcher, NULL);
    }
    if (h->daemon)
        MHD_stop_daemon(h->daemon);
    pthread_mutex_destroy(&h->lock);
    free(h->keys);
    free(h);
}
