/* Python's operators: arithmetic, comparison, membership, items and slices. */
#include <math.h>
#include <string.h>

#include "base/encoding/utf8.h"
#include "text/jinja/arena.h"
#include "text/jinja/attribute.h"
#include "text/jinja/jinja.h"
#include "text/jinja/operator.h"
#include "text/jinja/print.h"
#include "text/jinja/text.h"
#include "text/jinja/value.h"

/* ---- items ---- */

static const dop_j_str no_item = {"item", 4};

/* Converts a negative index, which counts from the end, to one from the start. Returns false if it is out of range. */
static bool
normalize_index(int64_t *i, size_t n)
{
    if (*i < 0)
        *i += (int64_t)n;
    return *i >= 0 && *i < (int64_t)n;
}

dop_j_val
dop_j_item(dop_j_ctx *cx, dop_j_val v, dop_j_val key, long line)
{
    if (v.kind == J_UNDEF)
        return dop_j_undefined_use(cx, v, line);
    if (v.kind == J_DICT && dop_j_hashable(cx, key)) {
        const dop_j_val *found = dop_j_get(cx, v.u.dict, key);
        if (found)
            return *found;
    }
    if (key.kind == J_STR)
        return dop_j_attribute(cx, v, key.u.str, line);
    if (key.kind != J_BOOL && key.kind != J_INT)
        return dop_j_undef(no_item);
    int64_t i = key.kind == J_INT ? key.u.i : key.u.b;
    if ((v.kind == J_LIST || v.kind == J_TUPLE || v.kind == J_RANGE) && normalize_index(&i, v.u.list->n))
        return v.u.list->items[i];
    if (v.kind == J_STR && i >= 0 && (uint64_t)i < v.u.str.n) {
        const dop_j_str c = dop_j_cut(cx, v.u.str, i, i + 1);
        return c.n ? dop_j_str_val(c) : dop_j_undef(no_item);
    }
    if (v.kind == J_STR && i < 0) { /* count characters backwards from the end */
        size_t end = v.u.str.n, at = end;
        for (; i < 0 && at > 0 && dop_j_step(cx, 1); i++) {
            end = at;
            at = dop_utf8_prev(v.u.str.s, at);
        }
        return i == 0 ? dop_j_text(v.u.str.s + at, end - at) : dop_j_undef(no_item);
    }
    return dop_j_undef(no_item);
}

/* Clamps a bound of a Python slice with a positive or negative step. fallback: value for None. */
static int64_t
clamp_slice_bound(dop_j_val v, int64_t n, int64_t fallback, int64_t low, int64_t high)
{
    if (v.kind == J_NONE)
        return fallback;
    int64_t i = v.kind == J_BOOL ? v.u.b : v.u.i;
    if (i < 0)
        i = i < -n ? low : i + n;
    return i < low ? low : i > high ? high : i;
}

dop_j_val
dop_j_slice(dop_j_ctx *cx, dop_j_val v, const dop_j_val part[3], long line)
{
    if (v.kind == J_UNDEF)
        return dop_j_undefined_use(cx, v, line);
    bool ok = v.kind == J_LIST || v.kind == J_TUPLE || v.kind == J_RANGE || v.kind == J_STR;
    for (int i = 0; i < 3; i++)
        ok &= part[i].kind == J_NONE || part[i].kind == J_INT || part[i].kind == J_BOOL;
    if (!ok || cx->status != DOP_OK)
        return dop_j_undef((dop_j_str){"slice", 5});
    int64_t step = part[2].kind == J_NONE ? 1 : part[2].kind == J_BOOL ? part[2].u.b : part[2].u.i;
    if (step == 0)
        return dop_j_fail(cx, line, DOP_E_INPUT, "the step of a slice is 0");
    const int64_t n = (int64_t)(v.kind == J_STR ? dop_j_chars(cx, v.u.str) : v.u.list->n);
    step = step > n + 1 ? n + 1 : step < -n - 1 ? -n - 1 : step;
    const int64_t from = clamp_slice_bound(part[0], n, step > 0 ? 0 : n - 1, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
    const int64_t to = clamp_slice_bound(part[1], n, step > 0 ? n : -1, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
    if (v.kind == J_STR && step == 1)
        return dop_j_str_val(dop_j_cut(cx, v.u.str, from, to > from ? to : from));
    const dop_j_list *items = dop_j_items(cx, v);
    dop_j_val out = dop_j_new_list(cx, v.kind == J_STR ? J_LIST : v.kind);
    for (int64_t i = from; cx->status == DOP_OK && (step > 0 ? i < to : i > to); i += step)
        dop_j_push(cx, out, items->items[i]);
    if (cx->status != DOP_OK)
        return dop_j_undef(no_item);
    if (v.kind == J_RANGE) {
        out.u.list->first = v.u.list->first + v.u.list->step * from;
        out.u.list->stop = v.u.list->first + v.u.list->step * to;
        out.u.list->step = v.u.list->step * step;
    }
    return v.kind == J_STR ? dop_j_join(cx, out.u.list, (dop_j_str){"", 0}) : out;
}

/* ---- arithmetic ---- */

/* Returns a one-character code for an operator: 'p' for **, 'f' for //, otherwise the character itself. */
static int
encode_operator(dop_j_str op)
{
    return op.n == 2 ? (op.s[0] == '*' ? 'p' : 'f') : op.s[0];
}

static dop_j_val
raise_integer(int64_t x, int64_t y, bool *ok)
{
    int64_t r = 1;
    while (y > 0 && *ok) {
        if (y & 1)
            *ok = !__builtin_mul_overflow(r, x, &r);
        y >>= 1;
        if (y > 0 && *ok)
            *ok = !__builtin_mul_overflow(x, x, &x);
    }
    return dop_j_int(r);
}

/* Integer arithmetic; // and % round towards minus infinity. Sets *ok to false if the result exceeds 64 bits. */
static dop_j_val
compute_integers(int op, int64_t x, int64_t y, bool *ok)
{
    int64_t r = 0;
    switch (op) {
    case '+':
        *ok = !__builtin_add_overflow(x, y, &r);
        break;
    case '-':
        *ok = !__builtin_sub_overflow(x, y, &r);
        break;
    case '*':
        *ok = !__builtin_mul_overflow(x, y, &r);
        break;
    case 'p':
        return raise_integer(x, y, ok);
    default:
        *ok = !(x == INT64_MIN && y == -1);
        if (*ok) {
            const int64_t q = x / y - (x % y != 0 && (x < 0) != (y < 0));
            r = op == '%' ? x - q * y : q;
        }
    }
    return dop_j_int(r);
}

static double
compute_reals(int op, double x, double y)
{
    switch (op) {
    case '+':
        return x + y;
    case '-':
        return x - y;
    case '*':
        return x * y;
    case '/':
        return x / y;
    case 'p':
        return pow(x, y);
    default: {
        double m = fmod(x, y);
        if (m != 0 && (m < 0) != (y < 0))
            m += y;
        if (op == '%')
            return m == 0 ? copysign(0.0, y) : m;
        const double q = (x - m) / y, f = floor(q);
        return q == 0 ? copysign(0.0, x / y) : q - f > 0.5 ? f + 1.0 : f;
    }
    }
}

static dop_j_val
compute_numbers(dop_j_ctx *cx, int op, dop_j_val x, dop_j_val y, long line)
{
    double f, g;
    bool ok = true;
    dop_j_val r;
    if (x.kind == J_BOOL) /* booleans are numbers in Python */
        x = dop_j_int(x.u.b);
    if (y.kind == J_BOOL)
        y = dop_j_int(y.u.b);
    dop_j_number(x, &f);
    dop_j_number(y, &g);
    if (g == 0 && (op == '/' || op == 'f' || op == '%'))
        return dop_j_fail(cx, line, DOP_E_INPUT, "division by zero");
    if (op == 'p' && ((f == 0 && g < 0) || (f < 0 && g != floor(g))))
        return dop_j_fail(cx, line, DOP_E_INPUT, "the power of these numbers is no real number");
    if (x.kind == J_INT && y.kind == J_INT && op != '/' && !(op == 'p' && y.u.i < 0))
        r = compute_integers(op, x.u.i, y.u.i, &ok);
    else if (x.kind == J_BIG || y.kind == J_BIG)
        ok = false;
    else
        r = dop_j_float(compute_reals(op, f, g));
    if (ok && r.kind == J_FLOAT && op == 'p' && isinf(r.u.f) && isfinite(f) && isfinite(g))
        ok = false;
    return ok ? r : dop_j_fail(cx, line, DOP_E_INPUT, "a number is too large to compute with");
}

/* Concatenation and repetition of sequences. Returns false if the operands are not sequences. */
static bool
compute_sequences(dop_j_ctx *cx, int op, dop_j_val x, dop_j_val y, dop_j_val *out)
{
    dop_j_out text = {0};
    const bool lists = (x.kind == J_LIST || x.kind == J_TUPLE) && x.kind == y.kind;
    if (op == '+' && x.kind == J_STR && y.kind == J_STR) {
        const bool safe = x.safe || y.safe;
        const dop_j_val a = safe ? dop_j_escape(cx, x) : x, b = safe ? dop_j_escape(cx, y) : y;
        dop_j_put(cx, &text, a.u.str.s, a.u.str.n);
        dop_j_put(cx, &text, b.u.str.s, b.u.str.n);
        *out = dop_j_take(&text);
        out->safe = safe;
        return true;
    }
    if (op == '+' && lists) {
        *out = dop_j_new_list(cx, x.kind);
        for (size_t i = 0; i < x.u.list->n + y.u.list->n && cx->status == DOP_OK; i++)
            dop_j_push(cx, *out, i < x.u.list->n ? x.u.list->items[i] : y.u.list->items[i - x.u.list->n]);
        return true;
    }
    if (op == '*' && (x.kind == J_INT || x.kind == J_BOOL)) { /* swap the operands of 3 * "a" */
        const dop_j_val t = x;
        x = y;
        y = t;
    }
    if (op != '*' || (y.kind != J_INT && y.kind != J_BOOL))
        return false;
    const int64_t n = y.kind == J_INT ? y.u.i : y.u.b;
    const uint64_t times = n > 0 ? (uint64_t)n : 0;
    if (x.kind == J_STR) {
        dop_j_fill(cx, &text, x.u.str, times);
        *out = dop_j_take(&text);
        out->safe = x.safe;
        return true;
    }
    if (x.kind != J_LIST && x.kind != J_TUPLE)
        return false;
    *out = dop_j_new_list(cx, x.kind);
    for (uint64_t i = 0; x.u.list->n && i < times && cx->status == DOP_OK; i++)
        for (size_t k = 0; k < x.u.list->n && cx->status == DOP_OK; k++)
            dop_j_push(cx, *out, x.u.list->items[k]);
    return true;
}

dop_j_val
dop_j_binary(dop_j_ctx *cx, dop_j_str op, dop_j_val x, dop_j_val y, long line)
{
    const int code = encode_operator(op);
    dop_j_val r;
    double f;
    if (cx->status != DOP_OK)
        return dop_j_undef(no_item);
    if (code == '~') {
        dop_j_out o = {0};
        dop_j_print(cx, &o, x);
        dop_j_print(cx, &o, y);
        return dop_j_take(&o);
    }
    if (x.kind == J_UNDEF || y.kind == J_UNDEF)
        return dop_j_undefined_use(cx, x.kind == J_UNDEF ? x : y, line);
    if (compute_sequences(cx, code, x, y, &r))
        return r;
    if (dop_j_number(x, &f) && dop_j_number(y, &f))
        return compute_numbers(cx, code, x, y, line);
    return dop_j_fail(cx, line, DOP_E_INPUT, "cannot compute %s %.*s %s", dop_j_kind_name(x.kind), (int)op.n, op.s,
                      dop_j_kind_name(y.kind));
}

/* ---- comparison ---- */

bool
dop_j_contains(dop_j_ctx *cx, dop_j_val in, dop_j_val what, long line)
{
    if (in.kind == J_STR) {
        if (what.kind != J_STR)
            dop_j_fail(cx, line, DOP_E_INPUT, "a %s cannot be in a string", dop_j_kind_name(what.kind));
        return what.kind == J_STR && dop_j_find(cx, in.u.str, what.u.str) != NULL;
    }
    if (in.kind == J_DICT)
        return dop_j_get(cx, in.u.dict, what) != NULL;
    const dop_j_list *items = dop_j_items(cx, in);
    if (!items) {
        dop_j_fail(cx, line, DOP_E_INPUT, "nothing can be in a %s", dop_j_kind_name(in.kind));
        return false;
    }
    for (size_t i = 0; i < items->n && cx->status == DOP_OK; i++)
        if (dop_j_equal(cx, items->items[i], what))
            return true;
    return false;
}

bool
dop_j_compare(dop_j_ctx *cx, dop_j_str op, dop_j_val x, dop_j_val y, long line)
{
    bool ok;
    double number;
    if (dop_j_eq_lit(op, "==") || dop_j_eq_lit(op, "!="))
        return dop_j_equal(cx, x, y) == dop_j_eq_lit(op, "==");
    if (dop_j_eq_lit(op, "in") || dop_j_eq_lit(op, "not in"))
        return dop_j_contains(cx, y, x, line) == dop_j_eq_lit(op, "in");
    const int c = dop_j_order(cx, x, y, &ok);
    if (!ok && dop_j_number(x, &number) && dop_j_number(y, &number)) /* one operand is NaN */
        return false;
    if (!ok)
        dop_j_fail(cx, line, DOP_E_INPUT, "%s and %s have no order", dop_j_kind_name(x.kind), dop_j_kind_name(y.kind));
    return op.s[0] == '<' ? (op.n == 2 ? c <= 0 : c < 0) : (op.n == 2 ? c >= 0 : c > 0);
}
