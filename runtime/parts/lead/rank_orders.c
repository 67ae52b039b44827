#include "runtime/parts/lead/rank_orders.h"
#include "runtime/device/replay.h"

#include <string.h>

static const struct {
    const char *name;
    uint32_t words, row;
} table[DOP_N_ORDER_KINDS] = {
#define ORDER(name, words, row, what) [DOP_ORDER_##name] = {#name, words, row},
    DOP_ORDERS(ORDER)
#undef ORDER
};

enum { HEAD = (2 + DOP_ORDER_WORDS) * sizeof(uint32_t) };

void
dop_order_encode(const dop_order *order, dop_buf *out)
{
    dop_buf_append(out, &order->kind, sizeof order->kind);
    dop_buf_append(out, &order->n_rows, sizeof order->n_rows);
    dop_buf_append(out, order->args, sizeof order->args);
    if (order->n_rows > 0)
        dop_buf_append(out, order->rows, (size_t)order->n_rows * table[order->kind].row);
}

static bool
rows_fit(const dop_order *o, const dop_plan_model *m)
{
    const dop_order_row *rows = o->rows;
    if (o->args[2] >= DOP_N_FORMS || o->args[3] >= DOP_N_ANSWERS || o->args[4] >= DOP_N_ORDERS || o->n_rows == 0 ||
        o->n_rows > o->args[1] || o->n_rows > DOP_STEP_MAX_ROWS)
        return false;
    for (uint32_t i = 0; i < o->n_rows; i++)
        if (rows[i].token >= m->vocab || rows[i].position >= m->ctx || rows[i].place >= m->n_sequences ||
            rows[i].parity >= m->state_copies)
            return false;
    return true;
}

/* True if the numbers of an order are in range for the plan. */
static bool
order_fits_plan(const dop_order *o, const dop_plan_model *m)
{
    const uint32_t *a = o->args, n = m->n_sequences, per = m->page ? m->ctx / m->page : 0;
    switch ((dop_order_kind)o->kind) {
    case DOP_ORDER_STEP:
        return rows_fit(o, m);
    case DOP_ORDER_PAGES:
        for (uint32_t i = 0; i < o->n_rows; i++)
            if (((const uint32_t *)o->rows)[i] >= m->n_pages)
                return false;
        return a[0] < n && a[1] <= per && o->n_rows <= per - a[1];
    case DOP_ORDER_CLEAR:
        return a[0] < DOP_N_CLEARS;
    case DOP_ORDER_CLEAR_PLACE:
        return a[0] < n;
    case DOP_ORDER_COPY_PLACE:
        return a[0] < n && a[1] < n && a[2] <= m->ctx && a[3] < m->state_copies && a[4] < m->state_copies;
    case DOP_ORDER_COPY_PAGE:
        return a[0] < m->n_pages && a[1] < m->n_pages && a[2] <= m->page;
    case DOP_ORDER_SLOTS:
        return a[0] <= DOP_MAX_SLOTS;
    case DOP_ORDER_COPY_SLOT:
        return (a[0] < n) != (a[1] < n) && a[0] < n + DOP_MAX_SLOTS && a[1] < n + DOP_MAX_SLOTS && a[2] <= m->ctx &&
               a[3] < m->state_copies && a[4] <= 1;
    case DOP_ORDER_SIZE:
    case DOP_ORDER_READ:
    case DOP_ORDER_WRITE:
        return a[0] < n + DOP_MAX_SLOTS && a[1] <= a[2] && a[2] <= m->ctx && a[3] <= 3 && a[4] < m->state_copies;
    default:
        return true;
    }
}

dop_status
dop_order_decode(const uint8_t *bytes, size_t size, const dop_plan_model *model, dop_diag *diag, dop_order *out_order)
{
    dop_order *o = out_order;
    if (size < HEAD)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "an order of %zu bytes", size);
    memcpy(&o->kind, bytes, sizeof o->kind);
    memcpy(&o->n_rows, bytes + sizeof o->kind, sizeof o->n_rows);
    memcpy(o->args, bytes + sizeof o->kind + sizeof o->n_rows, sizeof o->args);
    o->rows = bytes + HEAD;
    if (o->kind >= DOP_N_ORDER_KINDS || size - HEAD != (uint64_t)o->n_rows * table[o->kind].row)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "order %u with %zu bytes", o->kind, size);
    for (uint32_t i = table[o->kind].words; i < DOP_ORDER_WORDS; i++)
        if (o->args[i] != 0)
            return DOP_FAIL(diag, DOP_E_INTERNAL, "order %s with too many words", table[o->kind].name);
    if (!model && o->kind > DOP_ORDER_END)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "order %s without a plan", table[o->kind].name);
    if (model && !order_fits_plan(o, model))
        return DOP_FAIL(diag, DOP_E_INTERNAL, "order %s is not for this plan", table[o->kind].name);
    return DOP_OK;
}
