/* Functions that all files which compile schemas call. */
#include "runtime/grammar/schema_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void
dop_schema_refuse(dop_schema *s, const char *fmt, ...)
{
    char message[400];
    va_list ap;
    if (s->status != DOP_OK)
        return;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    s->status = DOP_FAIL(s->diag, DOP_E_INPUT, "JSON schema, at %s: %s", s->n_path ? s->path : "its root", message);
}

void
dop_schema_note_empty(dop_schema *s, const char *fmt, ...)
{
    va_list ap;
    if (s->empty[0])
        return;
    int n = snprintf(s->empty, sizeof s->empty, "JSON schema, at %s: ", s->n_path ? s->path : "its root");
    if (n < 0 || (size_t)n >= sizeof s->empty)
        return;
    va_start(ap, fmt);
    vsnprintf(s->empty + n, sizeof s->empty - (size_t)n, fmt, ap);
    va_end(ap);
}

void
dop_schema_unenforced(dop_schema *s, const char *keyword)
{
    const size_t n = strlen(keyword);
    for (const char *at = s->a.unenforced.size ? s->a.unenforced.data : NULL; at; at = strstr(at, ", ")) {
        at += *at == ',' ? 2 : 0;
        if (strncmp(at, keyword, n) == 0 && (!at[n] || at[n] == ','))
            return;
    }
    dop_buf_printf(&s->a.unenforced, "%s%s", s->a.unenforced.size ? ", " : "", keyword);
    s->a.failed |= s->a.unenforced.failed;
}

bool
dop_schema_goes_on(const dop_schema *s)
{
    return s->status == DOP_OK && !s->a.failed && !s->a.too_large;
}

size_t
dop_schema_enter(dop_schema *s, const char *name)
{
    size_t before = s->n_path;
    int n = snprintf(s->path + before, sizeof s->path - before, "/%s", name);
    s->n_path = before + (size_t)n < sizeof s->path ? before + (size_t)n : sizeof s->path - 1;
    return before;
}

void
dop_schema_leave(dop_schema *s, size_t before)
{
    s->n_path = before;
    s->path[before] = 0;
}

uint32_t
dop_schema_rule_new(dop_schema *s, uint32_t *out_start)
{
    uint32_t rule = dop_auto_rule(&s->a);
    *out_start = s->a.failed || s->a.too_large ? 0 : s->a.rules[rule];
    return rule;
}

uint32_t
dop_schema_text(dop_schema *s, uint32_t from, const char *text)
{
    return dop_auto_text(&s->a, from, text, strlen(text));
}

size_t
dop_schema_count(dop_schema *s, const json_t *schema, const char *name, size_t otherwise)
{
    const json_t *v = json_object_get(schema, name);
    const double x = json_number_value(v);
    if (!v)
        return otherwise;
    if (!json_is_number(v) || x < 0 || x != floor(x)) {
        dop_schema_refuse(s, "%s is a whole number that is not negative", name);
        return otherwise;
    }
    return x < 1e15 ? (size_t)x : SIZE_MAX;
}

const json_t *
dop_schema_keep(dop_schema *s, json_t *made, const json_t *from)
{
    if (!made || json_array_append_new(s->made, made) != 0) {
        s->a.failed = true;
        return json_true();
    }
    dop_schema_index_adopt(s->index, made, from);
    return made;
}

void *
dop_schema_grow(dop_schema *s, void *items, size_t n, size_t *io_cap, size_t size)
{
    if (n < *io_cap)
        return items;
    const size_t cap = *io_cap ? 2 * *io_cap : 8;
    if (!dop_budget_take(s->a.budget, (cap - *io_cap) * size)) {
        s->a.too_large = true;
        return items;
    }
    void *p = realloc(items, cap * size);
    if (!p) {
        s->a.failed = true;
        return items;
    }
    *io_cap = cap;
    return p;
}

/* Where JSON allows blanks, the automaton accepts none, one, or a line break with some indentation.  Any number of them would allow
 * an answer of blanks that never ends. */
uint32_t
dop_schema_blank(dop_schema *s, uint32_t from)
{
    enum { INDENTATION = 20 };
    if (s->blank == DOP_AUTO_NONE) {
        uint32_t start, space_start;
        uint32_t space = dop_schema_rule_new(s, &space_start);
        dop_auto_end(&s->a, dop_schema_text(s, space_start, " "));
        s->blank = dop_schema_rule_new(s, &start);
        dop_auto_end(&s->a, start);
        dop_auto_end(&s->a, dop_schema_text(s, start, " "));
        dop_auto_end(&s->a, dop_auto_repeat(&s->a, dop_schema_text(s, start, "\n"), space, 0, INDENTATION));
    }
    return dop_auto_call(&s->a, from, s->blank);
}
