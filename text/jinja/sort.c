/* Stable merge sort that uses only "less than", as Python does. */
#include <string.h>

#include "text/jinja/arena.h"
#include "text/jinja/jinja.h"
#include "text/jinja/sort.h"
#include "text/jinja/value.h"

/* Merges two sorted runs, [low, mid) and [mid, high). */
static void
merge_sorted_runs(dop_j_ctx *cx, const dop_j_keyed *from, dop_j_keyed *to, size_t low, size_t mid, size_t high,
                  bool down, long line)
{
    for (size_t i = low, left = low, right = mid; i < high; i++) {
        bool ok = true, take_right = left == mid;
        if (left < mid && right < high && cx->status == DOP_OK) {
            const int c = dop_j_order(cx, from[right].key, from[left].key, &ok);
            take_right = ok && (down ? c > 0 : c < 0);
            if (!ok && !dop_j_equal(cx, from[left].key, from[right].key))
                dop_j_fail(cx, line, DOP_E_INPUT, "%s and %s have no order", dop_j_kind_name(from[left].key.kind),
                           dop_j_kind_name(from[right].key.kind));
        }
        to[i] = take_right ? from[right++] : from[left++];
    }
}

void
dop_j_sort(dop_j_ctx *cx, dop_j_keyed *items, size_t n, bool down, long line)
{
    dop_j_keyed *a = items, *b = dop_j_alloc(cx, n * sizeof *b + 1);
    for (size_t width = 1; b && width < n && cx->status == DOP_OK; width *= 2) {
        for (size_t low = 0; low < n && cx->status == DOP_OK; low += 2 * width)
            merge_sorted_runs(cx, a, b, low, low + width < n ? low + width : n,
                              low + 2 * width < n ? low + 2 * width : n, down, line);
        dop_j_keyed *t = a;
        a = b;
        b = t;
    }
    if (a != items && cx->status == DOP_OK)
        memcpy(items, a, n * sizeof *a);
}
