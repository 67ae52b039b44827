#include "compiler/pack/imatrix.h"

#include "base/encoding/little_endian.h"
#include "base/format/gguf.h"
#include "frontend/facts/lookup.h"
#include "ir/interp/interp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const char *name;               /* name of a tensor, in the arena */
    const uint8_t *values, *counts; /* f32: sums of squares, and row counts of matrices; counts NULL: means */
    uint64_t n;                     /* number of values */
    uint32_t matrices;              /* number of matrices that the values are for; 0: unknown */
} entry;

struct dop_imatrix {
    const char *path;
    dop_map map;   /* mapped file of the older format (.dat) */
    dop_gguf gguf; /* opened GGUF file */
    entry *entries;
    uint32_t n;
    dop_lookup by_name;
};

static float
load_imatrix_value(const uint8_t *p, uint64_t i)
{
    float v;
    memcpy(&v, p + 4 * i, sizeof v);
    return v;
}

static const entry *
find_imatrix_entry(const dop_imatrix *m, const char *name)
{
    uint32_t cursor = 0, i;
    while (name && dop_lookup_next(&m->by_name, dop_lookup_hash(name), &cursor, &i))
        if (strcmp(m->entries[i].name, name) == 0)
            return &m->entries[i];
    return NULL;
}

/* Finds the entry for a weight under any of its names. Matrices made from a GGUF model use GGUF's names; others use
 * this compiler's or the model's names. */
static const entry *
find_weight(const dop_imatrix *m, const dop_weight *w)
{
    const char *const names[] = {w->source, w->gguf, w->gguf_fused, w->name};
    const entry *e = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !e; i++)
        e = find_imatrix_entry(m, names[i]);
    return e;
}

static dop_status
add_imatrix_entry(dop_imatrix *m, const entry *e, dop_diag *diag)
{
    for (uint64_t i = 0; i < e->n; i++)
        if (!(load_imatrix_value(e->values, i) >= 0 && isfinite(load_imatrix_value(e->values, i))))
            return DOP_FAIL_IN(diag, DOP_E_INPUT, m->path, "%s: value %llu is no sum of squares", e->name,
                               (unsigned long long)i);
    for (uint32_t i = 0; e->counts && i < e->matrices; i++)
        if (!(load_imatrix_value(e->counts, i) >= 0 && isfinite(load_imatrix_value(e->counts, i))))
            return DOP_FAIL_IN(diag, DOP_E_INPUT, m->path, "%s: count %u is no number of rows", e->name, i);
    if (find_imatrix_entry(m, e->name))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->path, "%s is there twice", e->name);
    m->entries[m->n] = *e;
    return dop_lookup_add(&m->by_name, dop_lookup_hash(e->name), m->n++) ? DOP_OK : DOP_NO_MEMORY(diag);
}

/* Returns the name of a tensor without the suffix `end`. Returns NULL without this suffix or if memory runs out. */
static char *
strip_tensor_suffix(const dop_gguf_tensor *t, const char *end, dop_arena *arena)
{
    const size_t n = strlen(end);
    return t->name.len > n && memcmp(t->name.data + t->name.len - n, end, n) == 0
               ? dop_arena_printf(arena, "%.*s", (int)(t->name.len - n), t->name.data)
               : NULL;
}

static dop_status
read_gguf_imatrix(dop_imatrix *m, dop_arena *arena, dop_diag *diag)
{
    enum { F32 = 0 /* value of ggml_type */ };
    const dop_gguf *g = &m->gguf;
    dop_gguf_str s;
    if (dop_gguf_string(dop_gguf_find(g, "general.type"), &s) && (s.len != 7 || memcmp(s.data, "imatrix", 7) != 0))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->path, "this is a %.*s, not an importance matrix",
                           (int)(s.len > 40 ? 40 : s.len), s.data);
    m->entries = dop_arena_alloc(arena, (g->tensor_count + 1) * sizeof *m->entries);
    if (!m->entries)
        return DOP_NO_MEMORY(diag);
    for (size_t i = 0; i < g->tensor_count; i++) {
        const dop_gguf_tensor *t = &g->tensors[i];
        const char *name = strip_tensor_suffix(t, ".in_sum2", arena);
        if (!name)
            continue;
        const char *counted = dop_arena_printf(arena, "%s.counts", name);
        const dop_gguf_tensor *c = counted ? dop_gguf_find_tensor(g, counted) : NULL;
        if (!c)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, m->path, "%s.in_sum2 has no counts beside it", name);
        if (t->type != F32 || c->type != F32)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, m->path, "the sums or counts of %s are not F32", name);
        const uint64_t matrices = c->bytes / 4, n = t->bytes / 4;
        if (matrices == 0 || matrices > DOP_MAX_EXPERTS || n % matrices != 0 || t->dims[0] != n / matrices)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, m->path, "%s has %llu values in rows of %llu, and %llu counts", name,
                               (unsigned long long)n, (unsigned long long)t->dims[0], (unsigned long long)matrices);
        DOP_RETURN_IF_ERROR(add_imatrix_entry(m,
                                              &(entry){.name = name,
                                                       .values = g->map.data + t->offset,
                                                       .counts = g->map.data + c->offset,
                                                       .n = n,
                                                       .matrices = (uint32_t)matrices},
                                              diag));
    }
    if (m->n == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->path, "this is no importance matrix: it has no tensors NAME.in_sum2");
    return DOP_OK;
}

/* Reads a number of the older format and advances *at. Returns false at the end of the file or if the number is
 * negative. */
static bool
read_old_number(const dop_map *map, uint64_t *at, uint32_t *out)
{
    if (map->size < 4 || *at > map->size - 4)
        return false;
    *out = dop_word_at(map->data + *at, 0);
    *at += 4;
    return *out <= INT32_MAX;
}

static dop_status
read_old_imatrix(dop_imatrix *m, dop_arena *arena, dop_diag *diag)
{
    enum { LEAST = 12 /* minimum bytes of an entry */, LONGEST = 512 };
    const dop_map *map = &m->map;
    uint64_t at = 0;
    uint32_t n = 0, length, calls;
    if (!read_old_number(map, &at, &n) || n == 0 || n > map->size / LEAST)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->path, "this is no importance matrix: neither GGUF nor the older form");
    m->entries = dop_arena_alloc(arena, n * sizeof *m->entries);
    if (!m->entries)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < n; i++) {
        entry e = {0};
        uint32_t values = 0;
        const bool named =
            read_old_number(map, &at, &length) && length > 0 && length <= LONGEST && length <= map->size - at;
        if (named) {
            e.name = dop_arena_printf(arena, "%.*s", (int)length, (const char *)map->data + at);
            at += length;
        }
        if (!named || !e.name || !read_old_number(map, &at, &calls) || !read_old_number(map, &at, &values) ||
            values == 0 || values > (map->size - at) / 4)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, m->path, "the importance matrix is damaged or cut off in entry %u",
                               i);
        e.values = map->data + at;
        e.n = values;
        at += 4 * (uint64_t)values;
        DOP_RETURN_IF_ERROR(add_imatrix_entry(m, &e, diag));
    }
    return DOP_OK;
}

dop_status
dop_imatrix_open(const char *path, dop_arena *arena, dop_diag *diag, const dop_imatrix **out)
{
    dop_imatrix *m = dop_arena_alloc(arena, sizeof *m);
    if (!m)
        return DOP_NO_MEMORY(diag);
    memset(m, 0, sizeof *m);
    m->path = path;
    dop_status st = dop_map_open(path, diag, &m->map);
    if (st == DOP_OK && m->map.size >= 4 && memcmp(m->map.data, "GGUF", 4) == 0) {
        dop_map_close(&m->map);
        m->map = (dop_map){0};
        st = dop_gguf_open(path, diag, &m->gguf);
        if (st == DOP_OK)
            st = read_gguf_imatrix(m, arena, diag);
    } else if (st == DOP_OK) {
        st = read_old_imatrix(m, arena, diag);
    }
    if (st == DOP_OK)
        *out = m;
    else
        dop_imatrix_close(m);
    return st;
}

void
dop_imatrix_close(const dop_imatrix *m)
{
    if (!m)
        return;
    dop_imatrix own = *m;
    dop_lookup_finish(&own.by_name);
    dop_gguf_close(&own.gguf);
    if (own.map.data)
        dop_map_close(&own.map);
}

dop_status
dop_imatrix_check(const dop_imatrix *m, const dop_weights *w, const bool *wanted, dop_diag *diag, uint32_t *out_without)
{
    uint32_t found = 0;
    *out_without = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        const dop_weight *x = &w->items[i];
        const entry *e = wanted[i] ? find_weight(m, x) : NULL;
        const uint64_t each = e ? e->n / (e->matrices ? e->matrices : 1) : 0, most = dop_weight_experts(x);
        found += e != NULL;
        *out_without += wanted[i] && !e;
        if (e && !(each == x->cols && e->matrices <= 1 && e->n == x->cols) && e->n != most * x->cols)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, m->path,
                               "%s has %llu values, and the matrix %s of this model has %u inputs%s: the importance "
                               "matrix is of another model",
                               e->name, (unsigned long long)e->n, x->source, x->cols,
                               most > 1 ? " for each expert" : "");
    }
    return found || !*out_without
               ? DOP_OK
               : DOP_FAIL_IN(diag, DOP_E_INPUT, m->path,
                             "the importance matrix knows none of the matrices to quantize (it has %s, ...): it is of "
                             "another model",
                             m->entries[0].name);
}

bool
dop_imatrix_columns(const dop_imatrix *m, const dop_weight *w, uint32_t expert, float *out)
{
    const entry *e = find_weight(m, w);
    if (!e)
        return false;
    const uint64_t first = e->n == w->cols ? 0 : (uint64_t)expert * w->cols;
    if (first + w->cols > e->n || (e->counts && load_imatrix_value(e->counts, first ? expert : 0) <= 0))
        return false;
    double sum = 0;
    for (uint32_t i = 0; i < w->cols; i++)
        sum += (double)(out[i] = load_imatrix_value(e->values, first + i));
    for (uint32_t i = 0; i < w->cols && sum > 0; i++)
        out[i] = (float)((double)out[i] * w->cols / sum);
    return sum > 0;
}
