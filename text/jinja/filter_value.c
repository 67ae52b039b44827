/* Filters of single values. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/arena.h"
#include "text/jinja/args.h"
#include "text/jinja/attribute.h"
#include "text/jinja/jinja.h"
#include "text/jinja/method.h"
#include "text/jinja/number.h"
#include "text/jinja/value.h"

static dop_j_val
f_default(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    const dop_j_val *other = dop_j_arg(a, 0, "default_value");
    (void)cx;
    (void)how;
    if (v.kind == J_UNDEF || (dop_j_bool_arg(a, 1, "boolean", false) && !dop_j_truth(v)))
        return other ? *other : dop_j_lit("");
    return v;
}

/* Truncates a floating-point number to an integer. Returns false if the result does not fit in 64 bits. */
static bool
truncate_real(double f, dop_j_val *out)
{
    if (!(fabs(f) < 0x1p63))
        return false;
    *out = dop_j_int((int64_t)f);
    return true;
}

static dop_j_val
f_int(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_val *other = dop_j_arg(a, 0, "default");
    const int64_t base = dop_j_int_arg(cx, a, 1, "base", 10);
    dop_j_val r = other ? *other : dop_j_int(0);
    double f;
    if (v.kind == J_UNDEF)
        return dop_j_undefined_use(cx, v, a->line);
    if (v.kind == J_STR && dop_j_read_int(cx, v.u.str, base >= 0 && base <= 36 ? (int)base : 10, &r))
        return r;
    if (v.kind == J_STR && dop_j_read_float(v.u.str, &f) && truncate_real(f, &r))
        return r;
    if (v.kind == J_FLOAT && !truncate_real(v.u.f, &r))
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "a number is too large to compute with");
    return v.kind == J_INT || v.kind == J_BIG ? v : v.kind == J_BOOL ? dop_j_int(v.u.b) : r;
}

static dop_j_val
f_float(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_val *other = dop_j_arg(a, 0, "default");
    double f;
    if (v.kind == J_UNDEF)
        return dop_j_undefined_use(cx, v, a->line);
    if (dop_j_number(v, &f) || (v.kind == J_STR && dop_j_read_float(v.u.str, &f)))
        return dop_j_float(f);
    return other ? *other : dop_j_float(0);
}

static dop_j_val
f_abs(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    if (v.kind == J_BOOL)
        return dop_j_int(v.u.b);
    if (v.kind == J_INT && v.u.i != INT64_MIN)
        return dop_j_int(v.u.i < 0 ? -v.u.i : v.u.i);
    return v.kind == J_FLOAT ? dop_j_float(fabs(v.u.f)) : dop_j_wrong(cx, a, "abs", v);
}

/* Rounds an integer to tens, hundreds, ..., half to even. */
static dop_j_val
round_whole(int64_t i, int64_t digits)
{
    int64_t unit = 1;
    for (; digits < 0 && digits > -19; digits++)
        unit *= 10;
    if (digits < 0)
        return dop_j_int(0);
    int64_t q = i / unit, rest = i % unit;
    if (rest < 0) {
        rest += unit;
        q--;
    }
    const int64_t half = unit - rest;
    q += rest > half || (rest == half && q % 2 != 0);
    int64_t r;
    return dop_j_int(__builtin_mul_overflow(q, unit, &r) ? i : r);
}

/* round: "common" rounds half to even as Python's round(); "ceil" and "floor" are Jinja's. */
static dop_j_val
f_round(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const int64_t digits = dop_j_int_arg(cx, a, 0, "precision", 0);
    const dop_j_str method = dop_j_str_arg(cx, a, 1, "method", "common");
    double f;
    char t[700];
    const bool up = dop_j_eq_lit(method, "ceil"), down = dop_j_eq_lit(method, "floor");
    if (!dop_j_number(v, &f) || v.kind == J_BIG || digits < -300 || digits > 300)
        return dop_j_wrong(cx, a, "round", v);
    if (!up && !down && !dop_j_eq_lit(method, "common"))
        return dop_j_fail(cx, a->line, DOP_E_INPUT, "round: the method is one of common, ceil, floor");
    if (up || down) {
        const double by = pow(10, (double)digits);
        return dop_j_float((up ? ceil(f * by) : floor(f * by)) / by);
    }
    if (v.kind != J_FLOAT)
        return digits < 0 ? round_whole(v.kind == J_INT ? v.u.i : v.u.b, digits)
                          : dop_j_int(v.kind == J_INT ? v.u.i : v.u.b);
    if (!isfinite(f))
        return v;
    if (digits < 0) {
        const double by = pow(10, (double)-digits);
        return dop_j_float(nearbyint(f / by) * by);
    }
    dop_j_step(cx, 100 + 4 * (uint64_t)digits);
    snprintf(t, sizeof t, "%.*f", (int)digits, f);
    return dop_j_float(dop_strtod(t, NULL));
}

/* attr: finds attributes and methods, but not members of a mapping. */
static dop_j_val
f_attr(dop_j_ctx *cx, dop_j_val v, const dop_j_args *a, int how)
{
    (void)how;
    const dop_j_str name = dop_j_str_arg(cx, a, 0, "name", "");
    const bool none = v.kind == J_DICT && !dop_j_find_method(J_DICT, name);
    return cx->status != DOP_OK || none ? dop_j_undef(name) : dop_j_attribute(cx, v, name, a->line);
}

const dop_j_filter_row dop_j_value_filters[] = {
    {"default", f_default, 0}, {"d", f_default, 0},   {"int", f_int, 0},   {"float", f_float, 0},
    {"abs", f_abs, 0},         {"round", f_round, 0}, {"attr", f_attr, 0}, {NULL, NULL, 0},
};
