/* Errors, limits and memory of the Jinja interpreter, and texts under construction. */
#ifndef DOPPLER_TEXT_JINJA_ARENA_H
#define DOPPLER_TEXT_JINJA_ARENA_H

#include "text/jinja/jinja.h"

/* A context with its limits; `budget` may be NULL. */
void dop_j_init(dop_j_ctx *cx, const char *name, dop_budget *budget, dop_diag *diag);
/* Records the first error; returns an undefined value. */
dop_j_val dop_j_fail(dop_j_ctx *cx, long line, dop_status code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Zeroed memory, 16-byte aligned, freed with the context; NULL after an error. */
void *dop_j_alloc(dop_j_ctx *cx, size_t n);
/* Makes room for `need` elements in an array of the arena that only *p refers to; false after an error. */
bool dop_j_grow(dop_j_ctx *cx, void **p, size_t *cap, size_t need, size_t elem);
void dop_j_free_all(dop_j_ctx *cx);
void dop_j_put(dop_j_ctx *cx, dop_j_out *o, const char *s, size_t n);
void dop_j_puts(dop_j_ctx *cx, dop_j_out *o, const char *s);
void dop_j_fill(dop_j_ctx *cx, dop_j_out *o, dop_j_str s, uint64_t times);
dop_j_val dop_j_take(const dop_j_out *o);

#endif
