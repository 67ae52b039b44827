/* Makes the table of weights: conversions of stored types to packed types. */
#include "compiler/report/report_weights.h"
#include "compiler/report/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns how a packed tensor was made from the stored one. */
static const char *
name_conversion(const dop_packed *x)
{
    const bool blocks = dop_type_of(x->type)->kind == DOP_KIND_QUANT;
    if (!x->source)
        return "computed";
    if (x->source->type == x->type)
        return blocks ? "repacked" : "copied";
    return blocks ? "quantized" : "converted";
}

static int
compare_row_bytes(const void *a, const void *b)
{
    const dop_report_weights_row *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->packed != y->packed)
        return x->packed < y->packed ? -1 : 1;
    if (x->stored != y->stored)
        return x->stored < y->stored ? -1 : 1;
    if (x->cols != y->cols)
        return x->cols < y->cols ? -1 : 1;
    return x->experts < y->experts ? -1 : x->experts > y->experts;
}

dop_status
dop_report_count_weights(dop_report *r, dop_diag *diag)
{
    const dop_compilation *c = r->c;
    r->weights_rows = dop_arena_alloc(&r->arena, (c->pack.n + 1) * sizeof *r->weights_rows);
    if (!r->weights_rows)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < c->pack.n; i++) {
        const dop_packed *x = &c->pack.items[i];
        dop_report_weights_row row = {.packed = x->type,
                                      .asked = x->type,
                                      .how = name_conversion(x),
                                      .experts = x->experts},
                               *at = NULL;
        if (x->source) {
            row.stored = x->source->type;
            row.asked = c->asked_types[x->from.index];
        }
        if (x->source && x->source->rank < 2) /* --quant does not apply to vectors */
            row.asked = row.packed;
        row.cols = row.asked == row.packed ? 0 : x->cols;
        for (uint32_t k = 0; k < r->n_weights && !at; k++) {
            dop_report_weights_row *o = &r->weights_rows[k];
            if (o->stored == row.stored && o->packed == row.packed && o->asked == row.asked && o->cols == row.cols &&
                o->experts == row.experts)
                at = o;
        }
        if (!at) {
            at = &r->weights_rows[r->n_weights++];
            *at = row;
        }
        at->count++;
        at->bytes += x->size;
    }
    qsort(r->weights_rows, r->n_weights, sizeof *r->weights_rows, compare_row_bytes);
    return DOP_OK;
}

void
dop_report_weights_why(const dop_report_weights_row *row, char *out, size_t cap)
{
    int n = 0;
    out[0] = 0;
    if (row->experts > 1)
        n = snprintf(out, cap, "; %u experts each", row->experts);
    if (row->asked != row->packed && n >= 0 && (size_t)n < cap)
        snprintf(out + n, cap - (size_t)n, "; as %s rows of %u would be padded to more bytes",
                 dop_type_of(row->asked)->name, row->cols);
}
