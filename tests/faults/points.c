#include "tests/faults/points.h"

#include <errno.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { N_BETWEEN = 100 };

bool points_armed;
uint64_t points_fail_at;
_Atomic uint64_t points_seen;
void **points_places;
static _Thread_local bool fail_next;

bool
points_fail(void *place)
{
    if (fail_next || !points_armed)
        return fail_next;
    uint64_t n = atomic_fetch_add(&points_seen, 1) + 1;
    if (points_places && n <= MAX_POINTS)
        points_places[n - 1] = place;
    if (n != points_fail_at)
        return false;
    errno = ENOMEM;
    return true;
}

WRAP(void *, malloc, (size_t n), (n))
WRAP(void *, calloc, (size_t n, size_t size), (n, size))
WRAP(void *, realloc, (void *p, size_t n), (p, n))
WRAP(char *, strdup, (const char *s), (s))
WRAP(char *, strndup, (const char *s, size_t n), (s, n))
WRAP(FILE *, fopen, (const char *path, const char *mode), (path, mode))
WRAP(FILE *, fdopen, (int fd, const char *mode), (fd, mode))

int __wrap_asprintf(char **out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int
__wrap_asprintf(char **out, const char *fmt, ...)
{
    if (POINT_FAILS())
        return -1;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(out, fmt, ap);
    va_end(ap);
    return n;
}

/* The buffer has to grow now, and cannot. */
static void
fail_growth(dop_buf *b)
{
    b->cap = b->size;
    fail_next = true;
}

void __real_dop_buf_append(dop_buf *b, const void *bytes, size_t n);
void __wrap_dop_buf_append(dop_buf *b, const void *bytes, size_t n);
void
__wrap_dop_buf_append(dop_buf *b, const void *bytes, size_t n)
{
    if (POINT_FAILS())
        fail_growth(b);
    __real_dop_buf_append(b, bytes, n);
    fail_next = false;
}

void __wrap_dop_buf_puts(dop_buf *b, const char *s);
void
__wrap_dop_buf_puts(dop_buf *b, const char *s)
{
    if (POINT_FAILS())
        fail_growth(b);
    __real_dop_buf_append(b, s, strlen(s));
    fail_next = false;
}

void __real_dop_buf_zeros(dop_buf *b, size_t n);
void __wrap_dop_buf_zeros(dop_buf *b, size_t n);
void
__wrap_dop_buf_zeros(dop_buf *b, size_t n)
{
    if (POINT_FAILS())
        fail_growth(b);
    __real_dop_buf_zeros(b, n);
    fail_next = false;
}

void __wrap_dop_buf_printf(dop_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void
__wrap_dop_buf_printf(dop_buf *b, const char *fmt, ...)
{
    if (POINT_FAILS())
        fail_growth(b);
    va_list ap;
    va_start(ap, fmt);
    dop_buf_vprintf(b, fmt, ap);
    va_end(ap);
    fail_next = false;
}

uint64_t
points_choose(bool all, uint64_t n, uint64_t *out)
{
    uint64_t chosen = 0;
    enum { TABLE = 1 << 16 };
    struct row {
        void *place;
        uint64_t first, last;
    } *rows = calloc(TABLE, sizeof *rows);
    for (uint64_t i = 0; rows && !all && i < n; i++) {
        uint64_t h = ((uintptr_t)points_places[i] * 0x9e3779b97f4a7c15u) >> 48;
        while (rows[h].place && rows[h].place != points_places[i])
            h = (h + 1) % TABLE;
        if (!rows[h].place)
            rows[h].first = i + 1;
        rows[h].place = points_places[i];
        rows[h].last = i + 1;
    }
    for (uint64_t i = 0; rows && i < n; i++) {
        bool take = all;
        if (!all) {
            uint64_t h = ((uintptr_t)points_places[i] * 0x9e3779b97f4a7c15u) >> 48;
            while (rows[h].place != points_places[i])
                h = (h + 1) % TABLE;
            take = rows[h].first == i + 1 || rows[h].last == i + 1 || i % (n / N_BETWEEN + 1) == 0;
        }
        if (take)
            out[chosen++] = i + 1;
    }
    free(rows);
    return chosen;
}

static void *
json_malloc(size_t n)
{
    return POINT_FAILS() ? NULL : __real_malloc(n);
}

void
points_of_json(void)
{
    json_object_seed(1);
    json_set_alloc_funcs(json_malloc, free);
}
