/* const and enum: adds the allowed values as a trie of their JSON texts, so that the cost of matching does not
 * depend on their number. */
#include "text/schema/schema_values.h"
#include "text/schema/schema_base.h"
#include "text/schema/schema_internal.h"
#include "text/schema/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

json_t *
dop_schema_pinned(const json_t *schema)
{
    json_t *one = json_object_get(schema, "const"), *several = json_object_get(schema, "enum"), *v;
    size_t i;
    bool is_there = !json_is_array(several);
    json_array_foreach(several, i, v) is_there |= one && dop_schema_equal(one, v);
    if (one)
        return is_there ? json_pack("[O]", one) : json_array();
    return json_is_array(several) ? json_incref(several) : NULL;
}

/* Returns a schema of all keywords except const and enum, or NULL if no other keyword restricts the values. */
static const json_t *
make_rest_schema(dop_schema *s, const json_t *schema)
{
    json_t *rest = json_object(), *v;
    const char *key;
    size_t n = 0;
    json_object_foreach((json_t *)(uintptr_t)schema, key, v)
    {
        if (strcmp(key, "const") == 0 || strcmp(key, "enum") == 0 || strcmp(key, "$id") == 0)
            continue;
        s->a.failed |= json_object_set(rest, key, v) != 0;
        n += dop_schema_asserts(key);
    }
    if (n > 0)
        return dop_schema_keep(s, rest, schema);
    json_decref(rest);
    return NULL;
}

static bool
is_allowed_value(dop_schema *s, const dop_conjunction *c, const json_t *const *rest, size_t pinned, const json_t *v,
                 unsigned bits)
{
    if (!(dop_schema_type_of(v) & bits))
        return false;
    for (size_t i = 0; i < c->n; i++) {
        if (rest[i] && !dop_schema_allows(s, rest[i], v))
            return false;
        json_t *list = i == pinned ? NULL : dop_schema_pinned(c->all[i]);
        const json_t *one;
        size_t k;
        bool found = !list;
        s->a.too_large |= !dop_budget_step(s->a.budget, 1 + json_array_size(list));
        json_array_foreach(list, k, one) found = found || dop_schema_equal(one, v);
        json_decref(list);
        if (!found)
            return false;
    }
    for (size_t i = 0; i < c->n_nots; i++)
        if (dop_schema_allows(s, c->nots[i], v))
            return false;
    return true;
}

/* Returns a value as its shortest JSON text, which the caller frees. */
static char *
make_value_text(const json_t *v)
{
    for (size_t precision = 15; precision < 17; precision++) {
        char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(precision));
        json_t *back = text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
        const bool same = back && dop_schema_equal(back, v);
        json_decref(back);
        if (same || !text)
            return text;
        free(text);
    }
    return json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
}

static int
compare_value_texts(const void *x, const void *y)
{
    return strcmp(*(char *const *)x, *(char *const *)y);
}

/* Adds sorted texts that share their first `depth` bytes, as a trie. */
static void
add_text_trie(dop_schema *s, char *const *texts, size_t n, size_t depth, uint32_t from, uint32_t to)
{
    while (n > 0 && dop_schema_goes_on(s)) {
        if (!texts[0][depth]) {
            dop_auto_nothing(&s->a, from, to);
            texts++;
            n--;
            continue;
        }
        size_t same = 1;
        while (same < n && texts[same][depth] == texts[0][depth])
            same++;
        const uint32_t next = dop_auto_state(&s->a);
        const uint8_t byte = (uint8_t)texts[0][depth];
        dop_auto_bytes(&s->a, from, byte, byte, next);
        if (same == 1) { /* a single remaining text needs no recursion */
            const char *rest = texts[0] + depth + 1;
            dop_auto_nothing(&s->a, dop_auto_text(&s->a, next, rest, strlen(rest)), to);
        } else if (depth < 4000) {
            add_text_trie(s, texts, same, depth + 1, next, to);
        } else {
            s->a.too_large = true;
        }
        texts += same;
        n -= same;
    }
}

bool
dop_schema_add_values(dop_schema *s, const dop_conjunction *c, unsigned bits, uint32_t from, uint32_t to)
{
    size_t pinned = SIZE_MAX, n = 0, i;
    const json_t *v;
    for (i = c->n; i-- > 0;)
        if (json_object_get(c->all[i], "const") || json_is_array(json_object_get(c->all[i], "enum")))
            pinned = i;
    if (pinned == SIZE_MAX) {
        dop_schema_refuse(s, "enum is a list");
        return true;
    }
    json_t *values = dop_schema_pinned(c->all[pinned]);
    char **texts = calloc(2 * json_array_size(values) + 1, sizeof *texts);
    const json_t **rest = calloc(c->n + 1, sizeof *rest);
    s->a.failed |= !texts || !rest;
    for (i = 0; i < c->n && !s->a.failed; i++)
        rest[i] = make_rest_schema(s, c->all[i]);
    json_array_foreach(values, i, v)
    {
        if (!dop_schema_goes_on(s) || !is_allowed_value(s, c, rest, pinned, v, bits))
            continue;
        texts[n] = make_value_text(v);
        s->a.failed |= !texts[n];
        n += texts[n] != NULL;
        if (json_is_real(v) && dop_schema_type_of(v) == DOP_IS_INTEGER && fabs(json_real_value(v)) <= 0x1p53) {
            json_t *whole = json_integer((json_int_t)json_real_value(v)); /* the integer of equal value */
            if ((texts[n] = json_dumps(whole, JSON_ENCODE_ANY)))
                n++;
            json_decref(whole);
        }
    }
    if (n == 0)
        dop_schema_note_empty(s, "no value is left: enum or const, and the other keywords, exclude one another");
    if (n > 1)
        qsort(texts, n, sizeof *texts, compare_value_texts);
    if (texts)
        add_text_trie(s, texts, n, 0, from, to);
    for (i = 0; i < n; i++)
        free(texts[i]);
    free(texts);
    free(rest);
    json_decref(values);
    return true;
}
