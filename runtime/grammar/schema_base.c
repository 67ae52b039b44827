/* Functions that all files which compile schemas call. */
#include "runtime/grammar/schema_internal.h"

#include <stdarg.h>
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

uint32_t
dop_schema_count(dop_schema *s, const json_t *schema, const char *name, uint32_t otherwise)
{
    enum { MOST = 100000 };
    const json_t *v = json_object_get(schema, name);
    if (!v)
        return otherwise;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > MOST) {
        dop_schema_refuse(s, "%s is a whole number up to %d", name, MOST);
        return otherwise;
    }
    return (uint32_t)json_integer_value(v);
}
