#include "base/program/say.h"

#include "base/json/json.h"
#include "base/os/clock.h"
#include "base/program/names.h"
#include "base/program/print.h"
#include "base/program/process.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_bool as_json; /* atomic, because several threads write lines */

void
dop_say_as_json(void)
{
    atomic_store(&as_json, true);
}

bool
dop_says_json(void)
{
    return atomic_load(&as_json);
}

static json_t *
make_log_object(const char *level, const char *message)
{
    char when[32];
    dop_now_utc(when, sizeof when);
    return json_pack("{s:s, s:s, s:o}", "time", when, "level", level, "message",
                     dop_json_text(message, strlen(message)));
}

/* Writes one line with a single call, so that lines of different threads do not mix.  Releases the object. */
static void
write_log_object(json_t *object)
{
    dop_buf line = {0};
    if (object)
        dop_json_encode(&line, object);
    dop_buf_puts(&line, "\n");
    if (object && !line.failed)
        fputs(line.data, stderr);
    dop_buf_finish(&line);
    json_decref(object);
}

void
dop_say_object(const char *level, const char *message, const char *url, dop_buf *out)
{
    json_t *object = make_log_object(level, message);
    if (object && url)
        json_object_set_new(object, "url", json_string(url));
    if (object)
        dop_json_encode(out, object);
    dop_buf_puts(out, "\n");
    json_decref(object);
}

void
dop_say(const char *level, const char *format, ...)
{
    dop_buf text = {0}, named = {0};
    va_list ap;
    va_start(ap, format);
    dop_buf_vprintf(&text, format, ap);
    va_end(ap);
    dop_name_options(dop_buf_text(&text), &named);
    if (dop_says_json()) {
        write_log_object(make_log_object(level, dop_buf_text(&named)));
    } else {
        dop_cli_end_line();
        fprintf(stderr, "%s: %s\n", dop_process_name(), dop_buf_text(&named));
    }
    dop_buf_finish(&named);
    dop_buf_finish(&text);
}

void
dop_say_failure(const dop_diag *diag)
{
    dop_buf named = {0};
    dop_name_options(diag->message, &named);
    json_t *object = make_log_object("error", dop_buf_text(&named));
    if (object && diag->path[0])
        json_object_set_new(object, "path", dop_json_text(diag->path, strlen(diag->path)));
    if (object && diag->line > 0)
        json_object_set_new(object, "line", json_integer(diag->line));
    if (object && diag->column > 0)
        json_object_set_new(object, "column", json_integer(diag->column));
    write_log_object(object);
    dop_buf_finish(&named);
}
