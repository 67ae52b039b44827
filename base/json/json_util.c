#include "base/json/json_util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *
dop_json_kind(const json_t *v)
{
    if (!v)
        return "nothing";
    if (dop_json_number_text(v))
        return "a number";
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    default:
        return "null";
    }
}

dop_status
dop_json_root(const json_t *root, const char *path, dop_diag *diag, dop_json *out)
{
    *out = (dop_json){.object = root, .path = path, .diag = diag};
    if (!json_is_object(root))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the file holds %s, expected an object", dop_json_kind(root));
    return DOP_OK;
}

bool
dop_json_has(const dop_json *j, const char *key)
{
    return dop_json_get(j, key) != NULL;
}

static const json_t *
find_json_member(const dop_json *j, const char *key)
{
    const json_t *at = j->object, *v = at ? json_object_get(at, key) : NULL;
    for (const char *dot; at && !v && (dot = strchr(key, '.'));
         key = dot + 1) { /* nested name: "attn_config.clip_qkv" */
        char outer[64];
        snprintf(outer, sizeof outer, "%.*s", (int)(dot - key), key);
        at = json_object_get(at, outer);
        v = json_object_get(at, dot + 1);
    }
    return v;
}

const json_t *
dop_json_get(const dop_json *j, const char *key)
{
    const json_t *v = find_json_member(j, key);
    return json_is_null(v) ? NULL : v;
}

bool
dop_json_is_null(const dop_json *j, const char *key)
{
    return json_is_null(find_json_member(j, key));
}

/* True if the value is a whole number.  Reals count, too: Python writes computed integers as 4096.0, and integers beyond 64 bits are
 * parsed as reals. */
static bool
is_whole_number(const json_t *v)
{
    return json_is_integer(v) || (json_is_real(v) && floor(json_real_value(v)) == json_real_value(v));
}

static dop_status
refuse_json_kind(const dop_json *j, const char *key, const json_t *v, const char *expected)
{
    return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s%s is %s, expected %s", j->where, key, dop_json_kind(v),
                       expected);
}

dop_status
dop_json_sub(const dop_json *j, const char *key, dop_json *out)
{
    const json_t *v = dop_json_get(j, key);
    *out = (dop_json){.object = v, .path = j->path, .diag = j->diag};
    snprintf(out->where, sizeof out->where, "%.40s%.40s.", j->where, key);
    if (v && !json_is_object(v)) {
        out->object = NULL;
        return refuse_json_kind(j, key, v, "an object");
    }
    return DOP_OK;
}

dop_status
dop_json_missing(const dop_json *j, const char *key)
{
    return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s%s is missing", j->where, key);
}

dop_status
dop_json_u32_or(const dop_json *j, const char *key, uint32_t min, uint32_t max, uint32_t otherwise, uint32_t *out)
{
    const json_t *v = dop_json_get(j, key);
    *out = otherwise;
    if (!v)
        return DOP_OK;
    if (!is_whole_number(v))
        return refuse_json_kind(j, key, v, "an integer");
    double n = json_number_value(v);
    if (n < (double)min || n > (double)max)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s%s is %.17g, expected %u to %u", j->where, key, n, min,
                           max);
    *out = (uint32_t)n;
    return DOP_OK;
}

dop_status
dop_json_u32(const dop_json *j, const char *key, uint32_t min, uint32_t max, uint32_t *out)
{
    return dop_json_has(j, key) ? dop_json_u32_or(j, key, min, max, 0, out) : dop_json_missing(j, key);
}

dop_status
dop_json_u64(const dop_json *j, const char *key, uint64_t min, uint64_t max, uint64_t *out)
{
    const json_t *v = dop_json_get(j, key);
    *out = 0;
    if (!v)
        return dop_json_missing(j, key);
    if (!json_is_integer(v))
        return refuse_json_kind(j, key, v, "an integer");
    json_int_t n = json_integer_value(v);
    if (n < 0 || (uint64_t)n < min || (uint64_t)n > max)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s%s is %lld, expected %llu to %llu", j->where, key,
                           (long long)n, (unsigned long long)min, (unsigned long long)max);
    *out = (uint64_t)n;
    return DOP_OK;
}

dop_status
dop_json_ids(const dop_json *j, const char *key, uint32_t vocab, uint32_t max_ids, int64_t *ids, uint32_t *out_n)
{
    const json_t *v = dop_json_get(j, key);
    const bool list = json_is_array(v);
    size_t n = !v ? 0 : list ? json_array_size(v) : 1;
    *out_n = 0;
    if (n > max_ids)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s%s has %zu ids, at most %u are supported", j->where, key,
                           n, max_ids);
    for (size_t i = 0; i < n; i++) {
        const json_t *e = list ? json_array_get(v, i) : v;
        if (!is_whole_number(e) || json_number_value(e) < -1)
            return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s%s is not a token id or a list of token ids", j->where,
                               key);
        if (json_number_value(e) >= 0 && json_number_value(e) < (double)vocab)
            ids[(*out_n)++] = (int64_t)json_number_value(e);
    }
    return DOP_OK;
}

static dop_status
read_number_in_range(const dop_json *j, const char *key, const json_t *v, double min, double max, double *out)
{
    double f;
    if (!dop_json_number(v, &f))
        return refuse_json_kind(j, key, v, "a number");
    if (!(f >= min && f <= max))
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s%s is %g, expected %g to %g", j->where, key, f, min, max);
    *out = f;
    return DOP_OK;
}

dop_status
dop_json_f64_or(const dop_json *j, const char *key, double min, double max, double otherwise, double *out)
{
    const json_t *v = dop_json_get(j, key);
    *out = otherwise;
    return v ? read_number_in_range(j, key, v, min, max, out) : DOP_OK;
}

dop_status
dop_json_f64(const dop_json *j, const char *key, double min, double max, double *out)
{
    return dop_json_has(j, key) ? dop_json_f64_or(j, key, min, max, 0, out) : dop_json_missing(j, key);
}

dop_status
dop_json_bool_or(const dop_json *j, const char *key, bool otherwise, bool *out)
{
    const json_t *v = dop_json_get(j, key);
    *out = otherwise;
    if (!v)
        return DOP_OK;
    if (!json_is_boolean(v))
        return refuse_json_kind(j, key, v, "true or false");
    *out = json_is_true(v);
    return DOP_OK;
}

dop_status
dop_json_str_or(const dop_json *j, const char *key, const char *otherwise, const char **out)
{
    const json_t *v = dop_json_get(j, key);
    *out = otherwise;
    if (!v)
        return DOP_OK;
    if (!json_is_string(v))
        return refuse_json_kind(j, key, v, "a string");
    *out = json_string_value(v);
    return DOP_OK;
}

dop_status
dop_json_f64_list(const dop_json *j, const char *key, double min, double max, dop_arena *arena, const double **out,
                  uint32_t *out_n)
{
    const json_t *v = dop_json_get(j, key);
    *out = NULL;
    *out_n = 0;
    if (!v)
        return DOP_OK;
    if (!json_is_array(v))
        return refuse_json_kind(j, key, v, "a list of numbers");
    size_t n = json_array_size(v);
    if (n > 65536)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s%s has %zu entries, expected at most 65536", j->where, key,
                           n);
    double *list = dop_arena_alloc(arena, (n ? n : 1) * sizeof *list);
    if (!list)
        return DOP_NO_MEMORY(j->diag);
    for (size_t i = 0; i < n; i++) {
        char item[96];
        snprintf(item, sizeof item, "%.64s[%zu]", key, i);
        dop_status st = read_number_in_range(j, item, json_array_get(v, i), min, max, &list[i]);
        if (st != DOP_OK)
            return st;
    }
    *out = list;
    *out_n = (uint32_t)n;
    return DOP_OK;
}
