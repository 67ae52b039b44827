/* Access log on stderr, one line per request. */
#include "base/json/json.h"
#include "base/os/clock.h"
#include "serve/api/api_internal.h"
#include "serve/http/http_internal.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PATH = 200 };

/* Appends a method or path, with blanks and control characters as '?', so that a request cannot forge log lines. */
static void
append_plain_text(const char *text, dop_buf *out)
{
    for (size_t i = 0; text[i] && i < MOST_PATH; i++)
        dop_buf_printf(out, "%c", text[i] > ' ' && text[i] < 127 ? text[i] : '?');
}

/* Appends a model's name in a harmless form. It may have blanks and characters outside ASCII. */
static void
append_model_name(const char *text, dop_buf *out)
{
    char name[sizeof((dop_answer_counts *)0)->model];
    snprintf(name, sizeof name, "%s", text);
    dop_make_harmless(name, "");
    dop_buf_puts(out, name);
}

/* Returns the milliseconds from the request to its first token, including loading the model and waiting in the
 * queue. */
static double
get_first_token_ms(const dop_connection *c)
{
    return c->counts.first_at_ms > 0 ? c->counts.first_at_ms - c->asked_ms : 0;
}

static void
write_text_line(const dop_connection *c, const char *when, double ms, dop_buf *out)
{
    const dop_answer_counts *n = &c->counts;
    dop_buf_printf(out, "%s %s %s ", when, c->id, c->client);
    append_plain_text(c->head.method ? c->head.method : "-", out);
    dop_buf_puts(out, " ");
    append_plain_text(c->head.path ? c->head.path : "-", out);
    dop_buf_printf(out, " %u %.1f ms", c->status, ms);
    if (n->known)
        dop_buf_printf(out, "; tokens: %u read, %u of them reused, %u written; first after %.1f ms; model ", n->prompt,
                       n->reused, n->written, get_first_token_ms(c));
    if (n->known)
        append_model_name(n->model, out);
    dop_buf_puts(out, c->complete ? "\n" : "; the client left\n");
}

static void
write_json_line(const dop_connection *c, const char *when, double ms, dop_buf *out)
{
    const dop_answer_counts *n = &c->counts;
    const char *path = c->head.path ? c->head.path : ""; /* no longer than a request head */
    json_t *line = json_pack("{s:s, s:s, s:s, s:s, s:o, s:I, s:f, s:b}", "time", when, "id", c->id, "client", c->client,
                             "method", c->head.method ? c->head.method : "", "path", dop_json_text(path, strlen(path)),
                             "status", (json_int_t)c->status, "ms", ms, "complete", (int)c->complete);
    if (line && n->known)
        json_object_update_new(
            line, json_pack("{s:o, s:I, s:I, s:I, s:f}", "model", dop_json_text(n->model, strlen(n->model)),
                            "promptTokens", (json_int_t)n->prompt, "reusedTokens", (json_int_t)n->reused,
                            "writtenTokens", (json_int_t)n->written, "firstTokenMs", get_first_token_ms(c)));
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9) | JSON_ENSURE_ASCII) : NULL;
    if (text)
        dop_buf_printf(out, "%s\n", text);
    free(text);
    json_decref(line);
}

void
dop_http_name_request(dop_connection *c)
{
    const char *given = c->head.request_id;
    size_t n = 0;
    if (c->id[0])
        return;
    while (given && given[n] > ' ' && given[n] < 127 && n < DOP_HTTP_ID)
        n++;
    if (n > 0 && n < DOP_HTTP_ID && !given[n])
        snprintf(c->id, sizeof c->id, "%s", given);
    else
        snprintf(c->id, sizeof c->id, "req-%016llx", (unsigned long long)(c->http->first_id + c->http->n_ids++));
}

void
dop_http_log_answer(dop_connection *c)
{
    char when[32];
    dop_buf line = {0};
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    const double ms = c->head_bytes ? dop_now_ms() - c->asked_ms : 0;
    if (c->http->options.log == DOP_HTTP_LOG_NONE)
        return;
    dop_http_name_request(c);
    if (!c->head_bytes) /* the head was malformed, and what was parsed of it may be freed */
        c->head = (dop_http_head){0};
    if (!c->status)
        c->status = 499; /* as in nginx: the client left before there was an answer */
    dop_now_utc(when, sizeof when);
    if (c->http->options.log == DOP_HTTP_LOG_JSON)
        write_json_line(c, when, ms, &line);
    else
        write_text_line(c, when, ms, &line);
    /* The socket thread must not block: if the reader of a pipe stalls, log lines are dropped. */
    if (!line.failed && line.size && poll(&p, 1, 0) > 0 && (p.revents & POLLOUT)) {
        const ssize_t n = write(STDERR_FILENO, line.data, line.size);
        (void)n;
    }
    dop_buf_finish(&line);
}
