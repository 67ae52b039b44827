/* Errors, limits and memory of the Jinja interpreter, and text builders. */
#ifndef DOPPLER_TEXT_JINJA_ARENA_H
#define DOPPLER_TEXT_JINJA_ARENA_H

#include "text/jinja/jinja.h"

/* Initializes a context with the interpreter's limits. `budget` may be NULL. */
void dop_j_init(dop_j_ctx *cx, const char *name, dop_budget *budget, dop_diag *diag);
/* Records an error unless one was recorded before. Returns an undefined value. */
dop_j_val dop_j_fail(dop_j_ctx *cx, long line, dop_status code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Returns zeroed, 16-byte aligned memory that lives as long as the context, or NULL after an error. */
void *dop_j_alloc(dop_j_ctx *cx, size_t n);
/* Grows an arena array to at least `need` elements. No other pointer than *p may refer to the array. Returns false
 * after an error. */
bool dop_j_grow(dop_j_ctx *cx, void **p, size_t *cap, size_t need, size_t elem);
void dop_j_free_all(dop_j_ctx *cx);
void dop_j_put(dop_j_ctx *cx, dop_j_out *o, const char *s, size_t n);
void dop_j_puts(dop_j_ctx *cx, dop_j_out *o, const char *s);
void dop_j_fill(dop_j_ctx *cx, dop_j_out *o, dop_j_str s, uint64_t times);
dop_j_val dop_j_take(const dop_j_out *o);

#endif
