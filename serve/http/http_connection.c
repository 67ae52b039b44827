/* One connection: reads requests and sends answers, one at a time, each with a deadline. */
#include "serve/api/api_json.h"
#include "serve/http/http_internal.h"
#include "serve/routes.h"

#include "base/os/clock.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    READ_SIZE = 65536,       /* bytes per recv call */
    SOCKET_BUFFER = 1 << 18, /* send buffer of the socket, in bytes */
    FULL = 1 << 19,          /* unsent bytes of an answer from which on its exchange is paused */
    PROGRESS = 1 << 16,      /* bytes that a client must read within receive_s */
    LINGER_MS = 2000
};

/* --- opening and closing ------------------------------------------------------------------------------------------------------- */

static void
enter_state(dop_connection *c, dop_connection_state state)
{
    c->state = state;
    c->since_ms = dop_now_ms();
}

static void
set_epoll_events(dop_connection *c, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = c};
    if (events != c->events)
        epoll_ctl(c->http->epoll, EPOLL_CTL_MOD, c->fd, &e);
    c->events = events;
}

/* Registers the socket for the epoll events that the connection waits for. */
static void
register_wanted_events(dop_connection *c)
{
    const bool reads =
        c->state == DOP_CONNECTION_HEAD || c->state == DOP_CONNECTION_BODY || c->state == DOP_CONNECTION_LINGERS;
    uint32_t events = c->left ? 0 : EPOLLRDHUP;
    events |= reads && !c->left && c->wanted == 0 ? EPOLLIN : 0;
    events |= c->out.size > c->sent || c->again ? EPOLLOUT : 0;
    set_epoll_events(c, events);
}

static void
set_client_address(dop_connection *c)
{
    struct sockaddr_storage a;
    socklen_t size = sizeof a;
    if (getpeername(c->fd, (struct sockaddr *)&a, &size) != 0 ||
        getnameinfo((struct sockaddr *)&a, size, c->client, sizeof c->client, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(c->client, sizeof c->client, "-");
}

dop_connection *
dop_connection_open(dop_http *h, int fd)
{
    const int on = 1, room = SOCKET_BUFFER;
    dop_connection *c = calloc(1, sizeof *c);
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
    if (!c || epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &e) != 0) {
        free(c);
        close(fd);
        return NULL;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    c->http = h;
    c->fd = fd;
    c->events = e.events;
    c->next = h->connections;
    if (c->next)
        c->next->before = c;
    h->connections = c;
    h->n_connections++;
    set_client_address(c);
    enter_state(c, DOP_CONNECTION_HEAD);
    return c;
}

static void
end_exchange(dop_connection *c)
{
    dop_exchange_end(c->exchange);
    c->exchange = NULL;
}

void
dop_connection_close(dop_connection *c)
{
    dop_http *h = c->http;
    end_exchange(c);
    dop_connection_unreserve(c);
    if (c->status || c->state == DOP_CONNECTION_WAITS) /* the request was not answered, or not completely */
        dop_http_log_answer(c);
    if (c->next)
        c->next->before = c->before;
    if (c->before)
        c->before->next = c->next;
    else
        h->connections = c->next;
    h->n_connections--;
    close(c->fd);
    c->fd = -1;
    free(c->head_bytes);
    dop_buf_finish(&c->in);
    dop_buf_finish(&c->body);
    dop_buf_finish(&c->out);
    c->next = h->closed; /* events of the current batch may still refer to the connection */
    h->closed = c;
}

/* --- sending ------------------------------------------------------------------------------------------------------------------- */

/* Called when the answer is complete and sent: prepares for the next request, or closes the connection. */
static void
finish_sent_answer(dop_connection *c)
{
    end_exchange(c);
    dop_connection_unreserve(c);
    c->complete = true;
    dop_http_log_answer(c);
    c->status = 0;
    c->complete = c->comments = false;
    c->counts = (dop_answer_counts){0};
    c->id[0] = 0;
    free(c->head_bytes);
    c->head_bytes = NULL;
    c->head = (dop_http_head){0};
    dop_buf_finish(&c->out);
    dop_buf_finish(&c->body);
    c->begun = c->chunked = false;
    c->seen = 0;
    if (c->left) {
        dop_connection_close(c);
    } else if (c->closes) {
        shutdown(c->fd, SHUT_WR);
        enter_state(c, DOP_CONNECTION_LINGERS);
    } else {
        enter_state(c, DOP_CONNECTION_HEAD);
    }
}

/* Counts bytes sent or received, and restarts the progress deadline after enough of them. */
static void
note_progress(dop_connection *c, size_t n)
{
    if ((c->progress += n) < PROGRESS)
        return;
    c->progress_ms = dop_now_ms();
    c->progress = 0;
}

/* Sends bytes of `out` until the socket would block. Returns false if the connection was closed. */
static bool
send_pending(dop_connection *c)
{
    while (c->out.size > c->sent) {
        const ssize_t n = send(c->fd, c->out.data + c->sent, c->out.size - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            break;
        if (n < 0) {
            dop_connection_close(c);
            return false;
        }
        c->sent += (size_t)n;
        note_progress(c, (size_t)n);
    }
    const size_t left = c->out.size - c->sent;
    if (left == 0)
        c->out.size = c->sent = 0;
    if (c->exchange && c->state == DOP_CONNECTION_WAITS && left < FULL)
        dop_exchange_resume(c->exchange);
    return true;
}

/* Starts the progress deadline. Call it before adding bytes to `out`. */
static void
begin_sending(dop_connection *c)
{
    if (c->out.size > c->sent)
        return;
    c->progress_ms = dop_now_ms();
    c->progress = 0;
}

static const char *
get_status_reason(unsigned status)
{
    static const struct {
        unsigned status;
        const char *text;
    } rows[] = {
        {200, "OK"},
        {308, "Permanent Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {413, "Content Too Large"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].status == status)
            return rows[i].text;
    return "Status";
}

static void
write_date_field(dop_buf *out)
{
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    const time_t now = time(NULL);
    struct tm t;
    gmtime_r(&now, &t);
    dop_buf_printf(out, "Date: %.3s, %02d %.3s %d %02d:%02d:%02d GMT\r\n", days + 3 * t.tm_wday, t.tm_mday,
                   months + 3 * t.tm_mon, 1900 + t.tm_year, t.tm_hour, t.tm_min, t.tm_sec);
}

static bool
is_allowed_origin(const dop_connection *c)
{
    const dop_http_options *o = &c->http->options;
    return c->head.origin && dop_http_allows_origin(o->origins, o->n_origins, c->head.origin);
}

/* Writes the CORS header fields that permit a page of an allowed origin to read the answer. */
static void
write_cors_fields(dop_connection *c, dop_buf *out)
{
    if (c->http->options.n_origins)
        dop_buf_puts(out, "Vary: Origin\r\n");
    if (!is_allowed_origin(c))
        return;
    dop_buf_printf(out,
                   "Access-Control-Allow-Origin: %s\r\nAccess-Control-Expose-Headers: X-Request-Id, "
                   "Request-Id, X-Doppler-Ignored, X-Doppler-Unenforced, Retry-After\r\n",
                   c->head.origin);
    if (c->head.asked_method && strcmp(c->head.method, "OPTIONS") == 0)
        dop_buf_puts(out,
                     "Access-Control-Allow-Methods: GET, HEAD, POST, DELETE\r\nAccess-Control-Allow-Headers: "
                     "Authorization, Content-Type, X-Request-Id, X-Api-Key, Anthropic-Version, Anthropic-Beta, *\r\n"
                     "Access-Control-Max-Age: 600\r\n");
}

/* Writes the head of an answer. length: bytes of the body; UINT64_MAX: not known yet. */
static void
write_answer_head(dop_connection *c, const dop_answer *a, uint64_t length)
{
    dop_buf *out = &c->out;
    begin_sending(c);
    dop_http_name_request(c);
    c->begun = true;
    c->wrote_ms = dop_now_ms();
    c->status = a->status;
    c->comments = a->streams && a->type && strcmp(a->type, "text/event-stream") == 0;
    c->pings = c->comments && a->errors == DOP_ERRORS_ANTHROPIC;
    c->chunked = length == UINT64_MAX && c->head.chunks;
    c->closes |= !c->head.persists || (length == UINT64_MAX && !c->chunked);
    dop_buf_printf(out, "HTTP/1.1 %u %s\r\n", a->status, get_status_reason(a->status));
    write_date_field(out);
    dop_buf_printf(out, "Content-Type: %s\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n",
                   a->type ? a->type : "application/json");
    dop_buf_printf(out, "X-Request-Id: %s\r\n", c->id);
    if (a->errors == DOP_ERRORS_ANTHROPIC)
        dop_buf_printf(out, "Request-Id: %s\r\n", c->id);
    write_cors_fields(c, out);
    if (a->streams)
        dop_buf_puts(out, "X-Accel-Buffering: no\r\n");
    if (a->type && strncmp(a->type, "text/html", 9) == 0)
        dop_buf_puts(
            out, "Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
                 "img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n");
    if (a->allow)
        dop_buf_printf(out, "Allow: %s\r\n", a->allow);
    if (a->status == 401)
        dop_buf_puts(out, "WWW-Authenticate: Bearer\r\n");
    if (a->status == 429 || a->status == 503)
        dop_buf_puts(out, "Retry-After: 1\r\n");
    dop_buf_append(out, a->headers.data, a->headers.size);
    if (c->chunked)
        dop_buf_puts(out, "Transfer-Encoding: chunked\r\n");
    else if (length != UINT64_MAX)
        dop_buf_printf(out, "Content-Length: %llu\r\n", (unsigned long long)length);
    if (c->closes)
        dop_buf_puts(out, "Connection: close\r\n");
    dop_buf_puts(out, "\r\n");
    dop_api_count_answer(c->http->api, a->status);
}

static bool
is_head_request(const dop_connection *c)
{
    return c->head.method && strcmp(c->head.method, "HEAD") == 0;
}

static void
write_answer_body(dop_connection *c, const dop_buf *body)
{
    if (body->size == 0 || is_head_request(c))
        return;
    begin_sending(c);
    c->wrote_ms = dop_now_ms();
    if (c->chunked)
        dop_buf_printf(&c->out, "%zx\r\n", body->size);
    dop_buf_append(&c->out, body->data, body->size);
    if (c->chunked)
        dop_buf_puts(&c->out, "\r\n");
}

/* Writes a complete answer to `out`. */
static void
write_whole_answer(dop_connection *c, dop_answer *a)
{
    if (a->body.failed || a->headers.failed) {
        dop_answer_finish(a);
        dop_answer_no_memory(a);
    }
    write_answer_head(c, a, a->body.size);
    write_answer_body(c, &a->body);
    c->counts = a->counts;
    enter_state(c, DOP_CONNECTION_FLUSHES);
    if (c->out.failed)
        dop_connection_close(c);
}

/* Refuses a request. If its body has not been read, the connection is closed after the answer. */
static void
refuse_request(dop_connection *c, const dop_api_error *error, const char *text)
{
    dop_answer a = {.errors = dop_api_error_form(c->head.path)};
    c->closes |= c->state != DOP_CONNECTION_WAITS;
    dop_answer_error(&a, error, "%s", text);
    write_whole_answer(c, &a);
    dop_answer_finish(&a);
}

/* Moves the output of an exchange to `out`. */
static void
consume_exchange_output(dop_connection *c, dop_exchange *x)
{
    dop_answer *a = &x->answer;
    if (x->begun) /* the body has been freed */
        dop_connection_unreserve(c);
    if (!x->over && !a->streams && a->body.size == 0) { /* no output yet */
        if (x->waits && x->events && !c->comments) { /* a keep-alive comment may begin the stream (write_keep_alive) */
            c->comments = true;
            c->wrote_ms = dop_now_ms();
        }
        dop_exchange_go_on(x, true);
        return;
    }
    if (c->begun && x->over && a->status >= 400 && !a->streams) { /* the stream was begun by a comment */
        dop_answer_error_event(a);
        c->status = a->status;
    }
    if (!c->begun && x->over) {
        write_whole_answer(c, a);
        return;
    }
    if (!c->begun)
        write_answer_head(c, a, UINT64_MAX);
    write_answer_body(c, &a->body);
    const bool failed = a->body.failed || c->out.failed;
    a->body.size = 0;
    if (failed) { /* the client detects that the answer is incomplete */
        dop_connection_close(c);
        return;
    }
    if (x->over && c->chunked && !is_head_request(c))
        dop_buf_puts(&c->out, "0\r\n\r\n");
    c->counts = a->counts;
    if (x->over)
        enter_state(c, DOP_CONNECTION_FLUSHES);
    else
        dop_exchange_go_on(x, c->out.size - c->sent < FULL);
}

/* --- requests ------------------------------------------------------------------------------------------------------------------ */

/* Returns the maximum bytes of the request's body. Audio files may have at least the size that OpenAI permits. */
static size_t
get_max_body(const dop_connection *c)
{
    const size_t stated = c->http->options.max_body, file = 25 << 20;
    return stated < file && dop_api_takes_forms(c->head.path) ? file : stated;
}

static void
refuse_size(dop_connection *c)
{
    char text[100];
    snprintf(text, sizeof text, "the body of a request has at most %zu bytes here", get_max_body(c));
    refuse_request(c, &(dop_api_error){413, "invalid_request_error", "body_too_large", NULL}, text);
}

static bool
needs_key(const dop_connection *c)
{
    return c->http->options.keys->n > 0 && strcmp(c->head.path, "/health") != 0 && strcmp(c->head.path, "/") != 0;
}

static bool
lacks_key(dop_connection *c)
{
    pthread_mutex_lock(&c->http->lock); /* keys may be replaced by another thread */
    c->whose = (dop_http_client){.id = dop_http_hash(c->client)};
    const bool has = dop_http_keys_admit(c->http->options.keys, c->head.authorization, c->head.api_key, &c->whose);
    const bool lacks = needs_key(c) && !has;
    pthread_mutex_unlock(&c->http->lock);
    return lacks;
}

/* Strips the prefix from the path. Returns true if the request was answered, because the path is only the prefix or
 * lacks it. */
static bool
strip_path_prefix(dop_connection *c)
{
    const char *prefix = c->http->options.prefix, *rest = dop_http_behind_prefix(prefix, c->head.path);
    dop_answer a = {.status = 308, .errors = dop_api_error_form(c->head.path)};
    if (!rest) {
        c->closes = true; /* the body has not been read */
        dop_answer_error(&a, &(dop_api_error){404, "invalid_request_error", "unknown_url", NULL},
                         "Unknown request URL: paths begin with %.200s here", prefix);
    } else if (prefix && *prefix && !*rest) { /* redirects, because the page uses relative URLs */
        c->closes = true;
        dop_buf_printf(&a.headers, "Location: %s/\r\n", prefix);
    } else {
        dop_http_tidy_path((char *)(uintptr_t)rest); /* the connection owns these bytes */
        c->head.path = rest;
        return false;
    }
    write_whole_answer(c, &a);
    dop_answer_finish(&a);
    return true;
}

/* Answers a CORS preflight request for an allowed origin. */
static bool
answer_preflight(dop_connection *c)
{
    dop_answer a = {.status = 200};
    if (!c->head.asked_method || strcmp(c->head.method, "OPTIONS") != 0 || !is_allowed_origin(c) || c->head.chunked ||
        c->head.length > 0)
        return false;
    write_whole_answer(c, &a);
    dop_answer_finish(&a);
    return true;
}

/* True if the request has no body and may have none. It then needs no Content-Type. */
static bool
has_permitted_empty_body(const dop_http_head *q)
{
    return !q->content_type && !q->chunked && q->length == 0 && dop_api_takes_nothing(q->path);
}

/* Makes the checks that do not need the body. Returns true if the request was answered or refused. */
static bool
check_request_head(dop_connection *c)
{
    const dop_http *h = c->http;
    const dop_http_head *q = &c->head;
    char text[600];
    const char *why;
    if (!dop_http_names_has(&h->names, q->host)) {
        snprintf(text, sizeof text, "\"%.200s\" is no name of this server: --serve-host NAME adds one", q->host);
        refuse_request(c, &(dop_api_error){403, "invalid_request_error", "unknown_host", NULL}, text);
    } else if (answer_preflight(c)) {
        return true;
    } else if (q->origin && !is_allowed_origin(c) && !dop_http_names_has_origin(&h->names, q->origin, q->host)) {
        refuse_request(c, &(dop_api_error){403, "invalid_request_error", "foreign_origin", NULL},
                       "pages of other sites are not answered: the Origin is not the Host");
    } else if (strip_path_prefix(c)) {
        return true;
    } else if (lacks_key(c)) {
        refuse_request(c, &(dop_api_error){401, "invalid_request_error", "invalid_api_key", NULL},
                       "Incorrect API key provided: send one as \"Authorization: Bearer KEY\"");
    } else if (strcmp(q->method, "POST") == 0 && (why = dop_api_refuses_forms(h->api, q->path))) {
        refuse_request(c, &(dop_api_error){400, "invalid_request_error", "invalid_value", "model"}, why);
    } else if (!q->chunked && q->length > get_max_body(c)) {
        refuse_size(c);
    } else if (strcmp(q->method, "POST") == 0 && dop_api_takes_forms(q->path)) {
        if (dop_http_is_form(q->content_type))
            return false;
        refuse_request(c, &(dop_api_error){415, "invalid_request_error", "unsupported_media_type", NULL},
                       "files come in forms: send the header \"Content-Type: multipart/form-data; boundary=...\"");
    } else if (strcmp(q->method, "POST") == 0 && !dop_http_is_json(q->content_type) && !has_permitted_empty_body(q)) {
        refuse_request(c, &(dop_api_error){415, "invalid_request_error", "unsupported_media_type", NULL},
                       "bodies are JSON: send the header \"Content-Type: application/json\"");
    } else {
        return false;
    }
    return true;
}

/* Removes n bytes from the beginning of `in`. */
static void
consume_input(dop_connection *c, size_t n)
{
    memmove(c->in.data, c->in.data + n, c->in.size - n);
    c->in.size -= n;
    if (c->in.size == 0)
        dop_buf_finish(&c->in);
}

static void
refuse_fault(dop_connection *c, const dop_http_fault *fault)
{
    c->head.persists = false;
    refuse_request(c, &(dop_api_error){fault->status, "invalid_request_error", "malformed_request", NULL}, fault->why);
}

/* Sends "100 Continue" if the client waits for it before sending the body. */
static void
send_continue(dop_connection *c)
{
    if (c->head.expects_continue && c->in.size == 0 && c->received == 0 && (c->head.chunked || c->head.length > 0))
        dop_buf_puts(&c->out, "HTTP/1.1 100 Continue\r\n\r\n");
}

/* Reads a head from `in`. Returns false if it is incomplete. */
static bool
consume_head(dop_connection *c)
{
    dop_http_fault fault;
    size_t size = 0;
    if (c->in.size == 0)
        return false;
    const dop_http_read r = dop_http_read_head(c->in.data, c->in.size, &c->seen, &c->head, &size, &fault);
    if (r == DOP_HTTP_MORE)
        return false;
    if (r == DOP_HTTP_WRONG) {
        refuse_fault(c, &fault);
        return true;
    }
    /* The head keeps pointing into the old buffer; the remaining bytes move to a new one. */
    c->head_bytes = c->in.data;
    dop_buf rest = {0};
    dop_buf_append(&rest, c->in.data + size, c->in.size - size);
    c->in = rest;
    c->asked = true;
    c->asked_ms = dop_now_ms();
    c->state = DOP_CONNECTION_BODY; /* the deadline of the head still applies */
    c->chunks = (dop_http_chunks){0};
    c->received = 0;
    if (c->in.failed)
        dop_connection_close(c);
    else if (!check_request_head(c) && (c->head.chunked || dop_connection_reserve(c, c->head.length)))
        send_continue(c);
    return true;
}

/* Reads a part of a body of known length. */
static dop_http_read
consume_plain_body(dop_connection *c)
{
    const uint64_t wanted = c->head.length - c->received;
    const size_t n = wanted < c->in.size ? (size_t)wanted : c->in.size;
    if (n > 0) {
        dop_buf_append(&c->body, c->in.data, n);
        c->received += n;
        consume_input(c, n);
    }
    return c->received == c->head.length ? DOP_HTTP_DONE : DOP_HTTP_MORE;
}

static dop_http_read
consume_chunked_body(dop_connection *c, dop_http_fault *fault)
{
    const size_t most = get_max_body(c);
    dop_http_read r = DOP_HTTP_MORE;
    size_t at = 0;
    while (r == DOP_HTTP_MORE && at < c->in.size && c->received <= most) {
        const char *data = NULL;
        size_t used = 0, n = 0;
        r = dop_http_read_chunks(&c->chunks, c->in.data + at, c->in.size - at, &used, &data, &n, fault);
        c->received += n;
        if (c->received <= most)
            dop_buf_append(&c->body, data, n);
        at += used;
    }
    if (at > 0)
        consume_input(c, at);
    return r;
}

/* Answers a complete request immediately, or passes it to a worker. */
static void
begin_request_answer(dop_connection *c)
{
    dop_answer a = {.errors = dop_api_error_form(c->head.path)};
    enter_state(c, DOP_CONNECTION_WAITS);
    const dop_api_request q = {.method = c->head.method, .path = c->head.path, .query = c->head.query};
    const bool answered = !c->body.failed && dop_api_answer_now(c->http->api, &q, &a);
    if (!answered && !c->body.failed)
        c->exchange = dop_exchange_begin(c, &q, &c->body);
    if (c->exchange)
        return;
    if (!answered)
        dop_answer_no_memory(&a);
    write_whole_answer(c, &a);
    dop_answer_finish(&a);
}

/* Reads the body. Returns false if it is incomplete. */
static bool
consume_body(dop_connection *c)
{
    dop_http_fault fault = {0};
    const dop_http_read r = c->head.chunked ? consume_chunked_body(c, &fault) : consume_plain_body(c);
    if (r == DOP_HTTP_MORE && c->head.chunked && c->reserved == 0 && c->received > DOP_HTTP_SMALL_BODY &&
        !dop_connection_reserve(c, get_max_body(c))) /* the length of a chunked body is not known */
        return false;
    if (r == DOP_HTTP_WRONG)
        refuse_fault(c, &fault);
    else if (c->received > get_max_body(c))
        refuse_size(c);
    else if (r == DOP_HTTP_DONE)
        begin_request_answer(c);
    else
        return false;
    return true;
}

/* --- events -------------------------------------------------------------------------------------------------------------------- */

/* Does all work that needs no waiting for the client or a worker. Stops after one answer, so that a client with many
 * requests does not delay other clients. */
static void
advance_connection(dop_connection *c)
{
    c->again = false;
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        if (c->state == DOP_CONNECTION_HEAD)
            goes_on = consume_head(c);
        else if (c->state == DOP_CONNECTION_BODY && c->wanted == 0)
            goes_on = consume_body(c);
        if (c->fd < 0 || !send_pending(c))
            return;
        if (c->state == DOP_CONNECTION_FLUSHES && c->out.size == 0) {
            finish_sent_answer(c);
            c->again = c->in.size > 0 && c->state == DOP_CONNECTION_HEAD;
            goes_on = false;
        }
    }
    if (c->fd >= 0)
        register_wanted_events(c);
}

void
dop_connection_hear(dop_connection *c, dop_exchange *x)
{
    consume_exchange_output(c, x);
    if (c->fd >= 0)
        advance_connection(c);
}

void
dop_connection_resume(dop_connection *c)
{
    send_continue(c);
    advance_connection(c);
}

/* Reads bytes from the socket into `in`. Returns false if the client has closed its side, or after an error. */
static bool
receive_bytes(dop_connection *c)
{
    static char bytes[READ_SIZE]; /* only one thread reads */
    const ssize_t n = recv(c->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return true;
    if (n <= 0)
        return false;
    if (c->state == DOP_CONNECTION_LINGERS)
        return true;
    c->heard_ms = dop_now_ms();
    if (c->state == DOP_CONNECTION_HEAD && c->in.size == 0)
        c->since_ms = c->heard_ms;
    if (c->state == DOP_CONNECTION_BODY)
        note_progress(c, (size_t)n);
    dop_buf_append(&c->in, bytes, (size_t)n);
    return !c->in.failed;
}

void
dop_connection_ready(dop_connection *c, uint32_t events)
{
    const bool reads = c->events & EPOLLIN;
    if (c->fd < 0)
        return;
    if (reads && (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))) {
        if (!receive_bytes(c)) {
            dop_connection_close(c);
            return;
        }
    } else if ((events & (EPOLLHUP | EPOLLERR)) ||
               ((events & EPOLLRDHUP) && (c->state == DOP_CONNECTION_WAITS || c->wanted > 0))) {
        dop_connection_close(c); /* the client can no longer receive the answer */
        return;
    } else if (events & EPOLLRDHUP) {
        c->left = true;
    }
    advance_connection(c);
}

/* --- deadlines ----------------------------------------------------------------------------------------------------------------- */

/* Keeps a stream alive with a comment, or with Anthropic's ping event, because proxies and clients close silent
 * connections. Events are written whole, so a comment may stand between any two of them. It may also come before the
 * first one, while the model is compiled or loaded. */
static void
write_keep_alive(dop_connection *c)
{
    const dop_answer waits = {
        .errors = dop_api_error_form(c->head.path), .status = 200, .type = "text/event-stream", .streams = true};
    static char text[] = ": waiting\n\n", ping[] = "event: ping\ndata: {\"type\": \"ping\"}\n\n";
    if (!c->begun)
        write_answer_head(c, &waits, UINT64_MAX);
    write_answer_body(c, c->pings ? &(dop_buf){.data = ping, .size = sizeof ping - 1}
                                  : &(dop_buf){.data = text, .size = sizeof text - 1});
    if (c->out.failed)
        dop_connection_close(c);
    else
        advance_connection(c);
}

void
dop_connection_check(dop_connection *c, double now_ms)
{
    const dop_http_options *o = &c->http->options;
    const bool waits = c->state == DOP_CONNECTION_HEAD && c->in.size == 0 && c->asked;
    const bool reads = c->state == DOP_CONNECTION_HEAD || c->state == DOP_CONNECTION_BODY;
    if (c->wanted > 0 && now_ms - c->since_ms > o->receive_s * 1e3) {
        refuse_request(c, &(dop_api_error){503, "server_error", "server_busy", NULL},
                       "the server receives too many other requests: try again later");
        dop_connection_unreserve(c);
        advance_connection(c);
    } else if ((c->out.size > c->sent && now_ms - c->progress_ms > o->receive_s * 1e3) ||
               (reads && now_ms - c->since_ms > (waits ? o->idle_s : o->receive_s) * 1e3) ||
               (c->state == DOP_CONNECTION_LINGERS && now_ms - c->since_ms > LINGER_MS)) {
        dop_connection_close(c);
    } else if (c->comments && c->state == DOP_CONNECTION_WAITS && c->out.size == c->sent && o->comment_s > 0 &&
               now_ms - c->wrote_ms > o->comment_s * 1e3) {
        write_keep_alive(c);
    }
}

double
dop_connection_idles(const dop_connection *c, double now_ms)
{
    /* Milliseconds of silence after which a connection may be closed in favor of a new one. They are short, because
     * most requests arrive at once. */
    enum { SILENT_MS = 100, KEPT_MS = 300, QUIET_MS = 100, HALF_MS = 1000, STALLED_MS = 100 };
    const double age = now_ms - c->since_ms, quiet = now_ms - c->heard_ms, stalled = now_ms - c->progress_ms;
    if (c->state == DOP_CONNECTION_LINGERS)
        return 4e9 + age;
    if (c->state == DOP_CONNECTION_HEAD && c->in.size == 0)
        return age > (c->asked ? KEPT_MS : SILENT_MS) ? 3e9 + age : 0;
    if (c->state == DOP_CONNECTION_HEAD || c->state == DOP_CONNECTION_BODY)
        return quiet > QUIET_MS || age > HALF_MS ? 2e9 + age : 0;
    return c->out.size > c->sent && stalled > STALLED_MS ? 1e9 + stalled : 0;
}

void
dop_connection_stop(dop_connection *c)
{
    c->closes = true;
    if (c->state == DOP_CONNECTION_HEAD || c->state == DOP_CONNECTION_BODY)
        dop_connection_close(c);
}
