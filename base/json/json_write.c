/* Numbers without a Jansson value, and JSON output. */
#include "base/json/json.h"

#include "base/encoding/utf8.h"

#include "base/json/number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Member name that marks a number without a Jansson value.  It is not valid UTF-8, so no JSON text can contain it. */
static const char number_name[] = "\xff";

json_t *
dop_json_kept_number(const char *text, size_t n)
{
    json_t *o = json_object(), *digits = json_stringn_nocheck(text, n);
    if (json_object_set_new_nocheck(o, number_name, digits) == 0)
        return o;
    json_decref(o);
    return NULL;
}

const char *
dop_json_number_text(const json_t *v)
{
    return json_object_size(v) == 1 ? json_string_value(json_object_get(v, number_name)) : NULL;
}

bool
dop_json_number(const json_t *v, double *out)
{
    const char *text = dop_json_number_text(v);
    char *end;
    *out = json_is_number(v) ? json_number_value(v) : 0;
    if (!text && json_object_size(v) == 1)
        text = json_string_value(json_object_get(v, "__float__"));
    if (!text)
        return json_is_number(v);
    *out = dop_strtod(text, &end); /* dop_strtod also parses infinities and NaN */
    return end != text && *end == 0;
}

/* --- with reals only ---------------------------------------------------------------------------------------------------------- */

static bool
has_kept_number(const json_t *v)
{
    const char *name;
    const json_t *e;
    size_t i;
    if (dop_json_number_text(v))
        return true;
    json_array_foreach(v, i, e)
    {
        if (has_kept_number(e))
            return true;
    }
    json_object_foreach((json_t *)(uintptr_t)v, name, e)
    {
        if (has_kept_number(e))
            return true;
    }
    return false;
}

static json_t *
copy_plain_json(const json_t *v)
{
    const char *name;
    json_t *e, *out;
    size_t i, n;
    double d;
    if (dop_json_number_text(v) && dop_json_number(v, &d))
        return json_real(isnan(d) ? 0 : isinf(d) ? copysign(1.7976931348623157e308, d) : d);
    if (!json_is_array(v) && !json_is_object(v))
        return json_incref((json_t *)(uintptr_t)v);
    out = json_is_array(v) ? json_array() : json_object();
    json_array_foreach(v, i, e)
    {
        if (json_array_append_new(out, copy_plain_json(e)) != 0)
            goto error;
    }
    json_object_keylen_foreach((json_t *)(uintptr_t)v, name, n, e)
    {
        if (json_object_setn_new_nocheck(out, name, n, copy_plain_json(e)) != 0)
            goto error;
    }
    return out;
error:
    json_decref(out);
    return NULL;
}

json_t *
dop_json_plain(json_t *v)
{
    return has_kept_number(v) ? copy_plain_json(v) : json_incref(v);
}

/* --- text --------------------------------------------------------------------------------------------------------------------- */

static void
encode_text(dop_buf *out, const char *s, size_t n)
{
    static const char plain[] = "\"\\\b\f\n\r\t", name[] = "\"\\bfnrt";
    size_t from = 0;
    dop_buf_puts(out, "\"");
    for (size_t i = 0; i < n; i++) {
        const char c = s[i], *p = c ? strchr(plain, c) : NULL;
        if (!p && (unsigned char)c >= 0x20)
            continue;
        dop_buf_append(out, s + from, i - from);
        from = i + 1;
        if (p)
            dop_buf_append(out, (const char[]){'\\', name[p - plain]}, 2);
        else
            dop_buf_printf(out, "\\u%04x", (unsigned)(unsigned char)c);
    }
    dop_buf_append(out, s + from, n - from);
    dop_buf_puts(out, "\"");
}

static void
encode_members(dop_buf *out, const json_t *v)
{
    const char *name, *between = "";
    json_t *e;
    size_t i, n;
    dop_buf_puts(out, json_is_array(v) ? "[" : "{");
    json_array_foreach(v, i, e)
    {
        dop_buf_puts(out, between);
        dop_json_encode(out, e);
        between = ",";
    }
    json_object_keylen_foreach((json_t *)(uintptr_t)v, name, n, e)
    {
        dop_buf_puts(out, between);
        encode_text(out, name, n);
        dop_buf_puts(out, ":");
        dop_json_encode(out, e);
        between = ",";
    }
    dop_buf_puts(out, json_is_array(v) ? "]" : "}");
}

void
dop_json_encode(dop_buf *out, const json_t *v)
{
    const char *digits = dop_json_number_text(v);
    char real[32];
    if (!v) {
        out->failed = true;
        return;
    }
    switch (json_typeof(v)) {
    case JSON_STRING:
        encode_text(out, json_string_value(v), json_string_length(v));
        return;
    case JSON_INTEGER:
        dop_buf_printf(out, "%lld", (long long)json_integer_value(v));
        return;
    case JSON_REAL:
        dop_buf_append(out, real, dop_real_text(json_real_value(v), real));
        return;
    case JSON_TRUE:
    case JSON_FALSE:
        dop_buf_puts(out, json_is_true(v) ? "true" : "false");
        return;
    case JSON_NULL:
        dop_buf_puts(out, "null");
        return;
    default:
        if (digits)
            dop_buf_puts(out, digits);
        else
            encode_members(out, v);
    }
}

json_t *
dop_json_text(const char *bytes, size_t n)
{
    dop_buf out = {0};
    json_t *text = NULL;
    while (n > 0) {
        size_t good = dop_utf8_check(bytes, n);
        dop_buf_append(&out, bytes, good);
        bytes += good;
        n -= good;
        if (n == 0)
            break;
        dop_buf_puts(&out, "\xef\xbf\xbd");
        do { /* skip to the next possible start of a character */
            bytes++;
            n--;
        } while (n > 0 && ((unsigned char)*bytes & 0xc0) == 0x80);
    }
    if (!out.failed)
        text = json_stringn(out.size ? out.data : "", out.size);
    dop_buf_finish(&out);
    return text;
}
