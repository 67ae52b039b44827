/* Parser for multipart/form-data bodies (RFC 7578): text fields and files. */
#include "serve/protocols/form_data.h"
#include "serve/api/api_json.h"
#include "serve/protocols/protocol.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_BOUNDARY = 70, MOST_PARTS = 64, MOST_HEAD = 4096, MOST_TEXT = 1 << 16 };

typedef struct form {
    const char *at, *end;
    char mark[MOST_BOUNDARY + 8]; /* delimiter before a part's head: CR LF, two hyphens, the boundary */
    size_t n_mark;
    bool is_too_long; /* a text field exceeds MOST_TEXT bytes */
    bool no_memory;
    dop_form_data *out;
} form;

/* Reads the boundary from the first line. */
static bool
read_form_boundary(form *f)
{
    const char *line = memchr(f->at, '\r', (size_t)(f->end - f->at));
    const size_t n = line ? (size_t)(line - f->at) : 0;
    if (n < 3 || n > MOST_BOUNDARY + 2 || memcmp(f->at, "--", 2) != 0 || f->end - line < 2 || line[1] != '\n')
        return false;
    f->n_mark = (size_t)snprintf(f->mark, sizeof f->mark, "\r\n%.*s", (int)n, f->at);
    f->at = line + 2;
    return f->n_mark == n + 2;
}

/* Reads a parameter name="value" of Content-Disposition from the head [head, end). Returns false if it is absent. */
static bool
read_form_parameter(const char *head, const char *end, const char *name, char *out, size_t size)
{
    const size_t len = strlen(name);
    for (const char *c = head; c + len + 2 < end; c++) {
        if (strncasecmp(c, name, len) != 0 || c[len] != '=' || c[len + 1] != '"' || (c[-1] != ' ' && c[-1] != ';'))
            continue;
        const char *from = c + len + 2, *to = memchr(from, '"', (size_t)(end - from));
        const size_t n = to ? (size_t)(to - from) : size;
        if (n >= size)
            return false;
        memcpy(out, from, n);
        out[n] = 0;
        return true;
    }
    return false;
}

/* Adds a part to the files. Returns false if parts of this name are text fields. */
static bool
add_form_file(form *f, const char *name, const char *bytes, size_t n)
{
    static const struct {
        const char *name;
        dop_form_name as;
    } rows[] = {
        {"file", DOP_FORM_FILE}, {"image", DOP_FORM_IMAGE}, {"image[]", DOP_FORM_IMAGE}, {"mask", DOP_FORM_MASK}};
    size_t i = 0;
    while (i < sizeof rows / sizeof *rows && strcmp(rows[i].name, name) != 0)
        i++;
    if (i == sizeof rows / sizeof *rows)
        return false;
    if (f->out->files[rows[i].as].count++ == 0) {
        f->out->files[rows[i].as].bytes = bytes;
        f->out->files[rows[i].as].n = n;
    }
    return true;
}

/* Adds a text field. A name that ends with [] makes a list. An empty text counts as absent, because clients send all
 * their fields. */
static bool
add_form_text(form *f, const char *name, const char *text, size_t n)
{
    const size_t len = strlen(name);
    if (n == 0)
        return true;
    f->is_too_long = n > MOST_TEXT;
    json_t *value = f->is_too_long ? NULL : dop_json_text(text, n);
    f->no_memory = !value && !f->is_too_long;
    if (!value)
        return false;
    if (len < 2 || strcmp(name + len - 2, "[]") != 0)
        return json_object_set_new(f->out->fields, name, value) == 0;
    json_t *list = json_object_get(f->out->fields, name);
    if (!list) {
        json_object_set_new(f->out->fields, name, json_array());
        list = json_object_get(f->out->fields, name);
    }
    return json_array_append_new(list, value) == 0;
}

/* Parses a part: its head, an empty line, and its content up to the next delimiter. *out_last: true if it was the
 * last part. */
static bool
read_form_part(form *f, bool *out_last)
{
    char name[96];
    const char *head = f->at, *blank = memmem(head, (size_t)(f->end - head), "\r\n\r\n", 4);
    if (!blank || blank - head > MOST_HEAD)
        return false;
    const char *from = blank + 4, *to = memmem(blank + 2, (size_t)(f->end - blank - 2), f->mark, f->n_mark);
    if (!to || f->end - to < (ptrdiff_t)f->n_mark + 2)
        return false;
    const size_t n = to >= from ? (size_t)(to - from) : 0;
    f->at = to + f->n_mark;
    *out_last = memcmp(f->at, "--", 2) == 0;
    if (!*out_last && memcmp(f->at, "\r\n", 2) != 0)
        return false;
    f->at += 2;
    if (!read_form_parameter(head + 1, blank, "name", name, sizeof name) || !name[0])
        return false;
    return add_form_file(f, name, from, n) || add_form_text(f, name, from, n);
}

bool
dop_request_form(const dop_api_request *request, dop_answer *answer, dop_form_data *out_form)
{
    const char *body = request->n_body ? request->body : ""; /* an empty body may be a NULL pointer */
    form f = {.at = body, .end = body + request->n_body, .out = out_form};
    bool last = false, good = false;
    *out_form = (dop_form_data){.fields = json_object()};
    f.no_memory = !out_form->fields;
    if (!dop_budget_step(request->budget, request->n_body / 16 + 1)) {
        dop_answer_error(answer, &(dop_api_error){400, "invalid_request_error", "request_too_costly", NULL},
                         "reading the request takes longer than is allowed");
        json_decref(out_form->fields);
        return false;
    }
    if (out_form->fields && request->n_body > 0 && read_form_boundary(&f)) {
        good = true;
        for (uint32_t i = 0; i < MOST_PARTS && good && !last; i++)
            good = read_form_part(&f, &last);
    }
    if (good && last)
        return true;
    if (f.no_memory)
        dop_answer_no_memory(answer);
    else if (f.is_too_long)
        dop_answer_error(answer, &(dop_api_error){400, "invalid_request_error", "invalid_form", NULL},
                         "a text field of the form must be at most %d bytes", MOST_TEXT);
    else
        dop_answer_error(answer, &(dop_api_error){400, "invalid_request_error", "invalid_form", NULL},
                         "the body is no complete multipart/form-data");
    json_decref(out_form->fields);
    *out_form = (dop_form_data){0};
    return false;
}
