#include "serve/api/api_json.h"
#include "serve/api/api_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

void
dop_answer_json(dop_answer *answer, unsigned status, json_t *value)
{
    answer->status = status;
    answer->type = "application/json";
    answer->body.size = 0;
    dop_json_encode(&answer->body, value);
    json_decref(value);
}

json_t *
dop_json_base64(const void *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *b = bytes;
    dop_buf out = {0};
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)b[i] << 16 | (i + 1 < n ? (uint32_t)b[i + 1] << 8 : 0) | (i + 2 < n ? b[i + 2] : 0);
        char four[4] = {digits[v >> 18], digits[v >> 12 & 63], i + 1 < n ? digits[v >> 6 & 63] : '=',
                        i + 2 < n ? digits[v & 63] : '='};
        dop_buf_append(&out, four, sizeof four);
    }
    json_t *text = out.failed ? NULL : json_stringn(out.size ? out.data : "", out.size);
    dop_buf_finish(&out);
    return text;
}

void
dop_answer_finish(dop_answer *answer)
{
    dop_buf_finish(&answer->headers);
    dop_buf_finish(&answer->body);
    *answer = (dop_answer){.errors = answer->errors};
}

void
dop_answer_header(dop_answer *answer, const char *name, const char *const *values, size_t n)
{
    enum { MOST_VALUES = 20, MOST_BYTES = 64 };
    dop_buf *out = &answer->headers;
    if (n == 0)
        return;
    dop_buf_printf(out, "%s: ", name);
    for (size_t i = 0; i < n && i < MOST_VALUES; i++) {
        size_t k = 0;
        dop_buf_puts(out, i > 0 ? ", " : "");
        for (const char *c = values[i]; *c && k < MOST_BYTES; c++)
            if (*c >= ' ' && *c < 127 && *c != ',') {
                dop_buf_append(out, c, 1);
                k++;
            }
    }
    dop_buf_puts(out, n > MOST_VALUES ? ", ...\r\n" : "\r\n");
}

dop_error_form
dop_api_error_form(const char *path)
{
    static const char messages[] = "/v1/messages"; /* may follow a prefix */
    const char *at = path ? strstr(path, messages) : NULL;
    return at && (!at[strlen(messages)] || at[strlen(messages)] == '/') ? DOP_ERRORS_ANTHROPIC : DOP_ERRORS_OPENAI;
}

/* Returns Anthropic's error type for an HTTP status. */
static const char *
get_anthropic_error_type(unsigned status)
{
    static const struct {
        unsigned status;
        const char *type;
    } rows[] = {
        {401, "authentication_error"}, {403, "permission_error"}, {404, "not_found_error"}, {408, "timeout_error"},
        {413, "request_too_large"},    {429, "rate_limit_error"}, {500, "api_error"},       {503, "overloaded_error"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].status == status)
            return rows[i].type;
    return "invalid_request_error";
}

void
dop_answer_error(dop_answer *answer, const dop_api_error *error, const char *fmt, ...)
{
    dop_buf message = {0};
    va_list ap;
    va_start(ap, fmt);
    dop_buf_vprintf(&message, fmt, ap);
    va_end(ap);
    json_t *text = dop_json_text(message.size ? message.data : "", message.size);
    text = text ? text : json_null();
    if (answer->errors == DOP_ERRORS_ANTHROPIC)
        dop_answer_json(answer, error->status,
                        json_pack("{s:s, s:{s:s, s:o}}", "type", "error", "error", "type",
                                  get_anthropic_error_type(error->status), "message", text));
    else
        dop_answer_json(answer, error->status,
                        json_pack("{s:{s:o, s:s, s:s?, s:s?}}", "error", "message", text, "type", error->type, "param",
                                  error->param, "code", error->code));
    answer->streams = false;
    dop_buf_finish(&message);
}

void
dop_answer_no_memory(dop_answer *answer)
{
    dop_answer_error(answer, &(dop_api_error){503, "server_error", "out_of_memory", NULL}, "out of memory");
}

void
dop_answer_failure(dop_answer *answer, const dop_job_state *s)
{
    if (s->end == DOP_JOB_TIMEOUT)
        dop_answer_error(answer, &(dop_api_error){408, "timeout_error", "timeout", NULL},
                         "the answer took longer than this server allows");
    else if (s->end == DOP_JOB_SHUTDOWN)
        dop_answer_error(answer, &(dop_api_error){503, "server_error", "shutting_down", NULL},
                         "the server is shutting down");
    else if (s->end == DOP_JOB_DISPLACED)
        dop_answer_not_submitted(answer, DOP_SUBMIT_QUEUE_FULL, NULL);
    else if (s->by_request)
        dop_answer_error(answer,
                         &(dop_api_error){400, "invalid_request_error",
                                          s->diag->code == DOP_E_INPUT ? "invalid_value" : "request_too_costly", NULL},
                         "%s", s->diag->message);
    else
        dop_answer_error(answer,
                         s->diag->code == DOP_E_DEVICE /* a failed device fails all later requests, too */
                             ? &(dop_api_error){503, "server_error", "device_failed", NULL}
                             : &(dop_api_error){500, "server_error", NULL, NULL},
                         "%s", s->diag->message);
}

void
dop_answer_event(dop_answer *answer, const char *name, json_t *value)
{
    if (name)
        dop_buf_printf(&answer->body, "event: %s\n", name);
    dop_buf_puts(&answer->body, "data: ");
    dop_json_encode(&answer->body, value);
    dop_buf_puts(&answer->body, "\n\n");
    json_decref(value);
}

void
dop_answer_failed_event(dop_answer *answer, const dop_job_state *s)
{
    dop_answer error = {.errors = answer->errors};
    dop_answer_failure(&error, s);
    dop_answer_error_event(&error);
    dop_buf_append(&answer->body, error.body.data, error.body.size);
    dop_answer_finish(&error);
}

void
dop_answer_error_event(dop_answer *answer)
{
    dop_buf event = {0};
    if (answer->errors == DOP_ERRORS_ANTHROPIC)
        dop_buf_puts(&event, "event: error\n");
    dop_buf_printf(&event, "data: %s\n\n", answer->body.size ? answer->body.data : "{}");
    dop_buf_finish(&answer->body);
    answer->body = event;
}

void
dop_answer_not_submitted(dop_answer *answer, dop_submit result, const dop_diag *diag)
{
    if (result == DOP_SUBMIT_QUEUE_FULL)
        dop_answer_error(answer, &(dop_api_error){429, "rate_limit_error", "queue_full", NULL},
                         "the queue is full: try again later");
    else if (result == DOP_SUBMIT_STOPPED)
        dop_answer_error(answer, &(dop_api_error){503, "server_error", "shutting_down", NULL},
                         "the server is shutting down");
    else if (diag->code == DOP_E_LIMIT)
        dop_answer_error(answer, &(dop_api_error){400, "invalid_request_error", "request_too_costly", NULL}, "%s",
                         diag->message);
    else
        dop_answer_error(answer,
                         diag->code == DOP_E_NOMEM    ? &(dop_api_error){503, "server_error", "out_of_memory", NULL}
                         : diag->code == DOP_E_DEVICE ? &(dop_api_error){503, "server_error", "device_failed", NULL}
                                                      : &(dop_api_error){500, "server_error", NULL, NULL},
                         "%s", diag->message);
}

void
dop_reader_refuse(dop_reader *r, const char *param, const char *fmt, ...)
{
    char message[512];
    va_list ap;
    if (r->failed)
        return;
    r->failed = true;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    dop_answer_error(r->answer, &(dop_api_error){400, "invalid_request_error", "invalid_value", param}, "%s", message);
}

uint64_t
dop_any_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = (uint64_t)time(NULL);
    return seed;
}

const json_t *
dop_reader_get(dop_reader *r, const char *name)
{
    const size_t most = sizeof r->asked / sizeof *r->asked;
    size_t i = 0;
    while (i < r->n_asked && strcmp(r->asked[i], name) != 0)
        i++;
    if (i == r->n_asked && i < most)
        r->asked[r->n_asked++] = name;
    const json_t *v = json_object_get(r->root, name);
    return json_is_null(v) ? NULL : v;
}

void
dop_reader_forget(dop_reader *r, const char *name)
{
    size_t i = 0;
    while (i < r->n_asked && strcmp(r->asked[i], name) != 0)
        i++;
    if (i < r->n_asked)
        r->asked[i] = r->asked[--r->n_asked];
}

double
dop_reader_real(dop_reader *r, const char *name, double otherwise, double min, double max)
{
    const json_t *v = dop_reader_get(r, name);
    if (!v)
        return otherwise;
    double x = json_number_value(v);
    if (!json_is_number(v) || !(x >= min && x <= max)) {
        dop_reader_refuse(r, name, "%s is a number between %g and %g", name, min, max);
        return otherwise;
    }
    return x;
}

int64_t
dop_reader_whole(dop_reader *r, const char *name, int64_t otherwise, int64_t min, int64_t max)
{
    const json_t *v = dop_reader_get(r, name);
    if (!v)
        return otherwise;
    const double x = json_is_real(v) ? json_real_value(v) : 0; /* 10.0 counts as a whole number */
    const bool whole = json_is_integer(v) || (json_is_real(v) && x == floor(x) && fabs(x) < 9e15);
    const int64_t n = json_is_real(v) && whole ? (int64_t)x : json_integer_value(v);
    if (!whole || n < min || n > max) {
        dop_reader_refuse(r, name, "%s is a whole number between %lld and %lld", name, (long long)min, (long long)max);
        return otherwise;
    }
    return n;
}

bool
dop_reader_bool(dop_reader *r, const char *name, bool otherwise)
{
    const json_t *v = dop_reader_get(r, name);
    if (v && !json_is_boolean(v))
        dop_reader_refuse(r, name, "%s is true or false", name);
    return v ? json_is_true(v) : otherwise;
}

const char *
dop_reader_text(dop_reader *r, const char *name, size_t *out_n)
{
    const json_t *v = dop_reader_get(r, name);
    *out_n = 0;
    if (v && !json_is_string(v))
        dop_reader_refuse(r, name, "%s is a text", name);
    *out_n = json_string_length(v);
    return json_string_value(v);
}

size_t
dop_partial_mark(const char *text, size_t n, const char *mark)
{
    const size_t len = strlen(mark);
    for (size_t k = len - 1 < n ? len - 1 : n; k > 0; k--)
        if (memcmp(text + n - k, mark, k) == 0)
            return k;
    return 0;
}

/* Adds a call with a generated id. */
static void
append_call_json(json_t *calls, const char *name, size_t n_name, const char *arguments, size_t n_arguments)
{
    static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    uint64_t number = 0;
    char id[] = "call00000"; /* nine letters and digits, as required by Mistral's templates */
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number = json_array_size(calls);
    for (size_t i = 4; i + 1 < sizeof id; i++, number /= 62)
        id[i] = letters[number % 62];
    json_array_append_new(calls,
                          json_pack("{s:s, s:s, s:{s:o, s:o}}", "id", id, "type", "function", "function", "name",
                                    dop_json_text(name, n_name), "arguments", dop_json_text(arguments, n_arguments)));
}

void
dop_reading_add_thought(dop_reading *r, size_t from, size_t to)
{
    dop_thought *last = r->thoughts.size ? (dop_thought *)(r->thoughts.data + r->thoughts.size) - 1 : NULL;
    if (last && last->to == from)
        last->to = to;
    else if (to > from)
        dop_buf_append(&r->thoughts, &(dop_thought){from, to}, sizeof(dop_thought));
}

void
dop_reading_add_call(dop_reading *r, const char *name, size_t n_name, const char *arguments, size_t n_arguments)
{
    const size_t number = json_array_size(r->calls);
    if (r->terms.single && number > 0)
        return;
    if (!r->calls)
        r->calls = json_array();
    append_call_json(r->calls, name, n_name, arguments, n_arguments);
    if (r->terms.form->id_has_name)
        json_object_set_new(json_array_get(r->calls, number), "id",
                            json_sprintf("functions.%.*s:%zu", (int)n_name, name, number));
}
