/* Transfers between ranks that may exceed a message (rows at a cut, logits, states), and waits for the device. */
#include "runtime/parts/lead/ranks.h"

#include <string.h>

dop_status
dop_ranks_send_all(const dop_wire *wire, uint32_t to, dop_wire_lane lane, const void *bytes, uint64_t size,
                   dop_diag *diag)
{
    for (uint64_t at = 0, piece; at < size; at += piece) {
        piece = size - at < DOP_WIRE_MOST ? size - at : DOP_WIRE_MOST;
        DOP_RETURN_IF_ERROR(wire->send(wire->user, to, lane, (const uint8_t *)bytes + at, (size_t)piece, diag));
    }
    return DOP_OK;
}

dop_status
dop_ranks_receive_all(const dop_wire *wire, uint32_t from, dop_wire_lane lane, void *bytes, uint64_t size,
                      dop_diag *diag)
{
    for (uint64_t at = 0; at < size;) {
        const uint8_t *message;
        size_t n;
        DOP_RETURN_IF_ERROR(wire->receive(wire->user, from, lane, diag, &message, &n));
        if (n == 0 || n > size - at)
            return DOP_FAIL(diag, DOP_E_INTERNAL, "%zu bytes where %llu are left", n, (unsigned long long)(size - at));
        memcpy((uint8_t *)bytes + at, message, n);
        at += n;
    }
    return DOP_OK;
}

static uint64_t
count_row_value_bytes(const dop_part_value *value, uint32_t n)
{
    return value->row_bytes * (value->one_row ? 1 : n);
}

dop_status
dop_ranks_send_rows(const dop_model *model, const dop_wire *wire, uint32_t schedule, uint32_t n, dop_diag *diag)
{
    dop_part_value values[DOP_PART_MAX_VALUES];
    const uint32_t n_values = dop_part_outputs(model, schedule, values);
    for (uint32_t i = 0; i < n_values; i++)
        DOP_RETURN_IF_ERROR(dop_ranks_send_all(wire, wire->rank + 1, DOP_LANE_ROWS, values[i].bytes,
                                               count_row_value_bytes(&values[i], n), diag));
    return DOP_OK;
}

void
dop_ranks_begin_rows(const dop_model *model, uint32_t schedule, uint32_t n, dop_inbox *out_inbox)
{
    *out_inbox = (dop_inbox){.n_rows = n};
    out_inbox->n_values = dop_part_inputs(model, schedule, out_inbox->values);
}

dop_status
dop_ranks_take_rows(const dop_wire *wire, dop_inbox *inbox, bool wait, dop_diag *diag)
{
    while (inbox->n_taken < inbox->n_values && (wait || wire->ready(wire->user, wire->rank - 1, DOP_LANE_ROWS))) {
        const dop_part_value *value = &inbox->values[inbox->n_taken];
        const uint64_t left = count_row_value_bytes(value, inbox->n_rows) - inbox->at;
        const uint8_t *message;
        size_t n;
        dop_status st = wire->receive(wire->user, wire->rank - 1, DOP_LANE_ROWS, diag, &message, &n);
        if (st == DOP_OK && (n == 0 || n > left))
            st = DOP_FAIL(diag, DOP_E_INTERNAL, "%zu bytes where %llu are left", n, (unsigned long long)left);
        if (st != DOP_OK)
            return st;
        memcpy(value->bytes + inbox->at, message, n);
        inbox->at = n == left ? 0 : inbox->at + n;
        inbox->n_taken += n == left;
    }
    return DOP_OK;
}

bool
dop_ranks_pass_on(const dop_model *model, uint32_t schedule)
{
    dop_part_value in[DOP_PART_MAX_VALUES], out[DOP_PART_MAX_VALUES];
    const uint32_t n_in = dop_part_inputs(model, schedule, in), n_out = dop_part_outputs(model, schedule, out);
    for (uint32_t i = 0; i < n_in; i++)
        for (uint32_t k = 0; k < n_out; k++)
            if (in[i].bytes == out[k].bytes)
                return true;
    return false;
}

bool
dop_ranks_may_spin(const dop_wire *wire, const dop_replay *replay)
{
    return !wire->crowded && !replay->device->info.caps.cpu && !replay->observer;
}

typedef struct answers {
    const dop_wire *wire;
    uint32_t from;
    dop_wire_lane lane;
} answers;

static void
move_messages(void *user)
{
    const answers *a = user;
    (void)a->wire->ready(a->wire->user, a->from, a->lane);
}

dop_status
dop_ranks_wait(const dop_wire *wire, dop_replay *replay, uint64_t ticket, dop_diag *diag)
{
    enum { SPIN_MS = 100 };
    answers a = {wire, wire->rank == 0 ? wire->n - 1 : 0, wire->rank == 0 ? DOP_LANE_ANSWERS : DOP_LANE_ORDERS};
    if (dop_ranks_may_spin(wire, replay))
        (void)dop_replay_look(replay, ticket, SPIN_MS, move_messages, &a);
    return dop_replay_wait(replay, ticket, diag);
}
