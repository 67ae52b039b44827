/* Ranks 1 and up of a plan in parts: execute orders in sequence. While a multi-row step runs, the next order and its
 * rows are received, so that the device can continue at once. */
#include "plan/plan_names.h"
#include "runtime/model/model_load.h"
#include "runtime/model/model_used.h"
#include "runtime/model/ordering.h"
#include "runtime/parts/lead/ranks.h"
#include "runtime/step/step.h"
#include "runtime/step/transfer.h"

#include <stdlib.h>
#include <string.h>

typedef struct follower {
    const dop_wire *wire;
    const dop_open_options *options;
    dop_model *model;   /* NULL: no plan is open */
    uint64_t to_write;  /* bytes of states that are expected */
    uint64_t n_written; /* how many of them have arrived */
    uint8_t *states;    /* owned, [to_write]; NULL: none are expected */
    dop_states write;   /* destination of these states */
    /* Next order, if it has arrived already. */
    dop_order next;
    bool has_next;
    bool has_inbox; /* `next` is a multi-row step, and `inbox` receives its rows */
    dop_inbox inbox;
    uint32_t ends[DOP_STEP_MAX_SEQUENCES]; /* by place: end of the positions that the running step may read */
    /* Rows of the last step that are sent while the next one runs. */
    bool holds;
    uint32_t held_schedule, held_rows;
    dop_rank_times times;
    dop_diag *diag;
} follower;

static dop_status
send_answer(const follower *f, const void *bytes, uint64_t size)
{
    return dop_ranks_send_all(f->wire, 0, DOP_LANE_ANSWERS, bytes, size, f->diag);
}

/* --- opening --------------------------------------------------------------------------------------------------------- */

static void
list_schedules(const dop_model *m, dop_rank_opened *out, dop_buf *rows)
{
    for (uint32_t i = 0; i < m->used.n; i++) {
        const dop_plan_schedule *s = &m->plan.schedules[m->used.schedules[i]];
        const dop_rank_schedule row = {s->kind, s->max_rows, s->greedy, 0};
        if (s->ordering != DOP_ORDER_BARRIERS)
            continue;
        dop_buf_append(rows, &row, sizeof row);
        out->n_schedules++;
    }
}

static dop_status
open_rank_part(follower *f, const dop_order *o)
{
    dop_open_options options = *f->options;
    dop_rank_opened opened = {.version = DOP_ORDERS_VERSION};
    dop_diag why = {0};
    dop_buf rows = {0}, message = {0};
    const char *path = o->rows;
    options.first_tokens = o->args[1];
    options.max_chunk = o->args[2];
    options.no_scoring = o->args[3] != 0;
    options.on_demand = o->args[4] != 0;
    options.no_steps = o->args[5] != 0;
    options.wire = NULL;
    dop_status st = DOP_OK;
    if (o->args[0] != DOP_ORDERS_VERSION)
        return send_answer(f, &opened, sizeof opened); /* rank 0 compares the version */
    if (f->model || o->n_rows == 0 || path[o->n_rows - 1] != 0)
        st = DOP_FAIL(&why, DOP_E_INTERNAL, "a plan is open already");
    if (st == DOP_OK)
        st = dop_model_open_part(path, &options, f->wire, &why, &f->model);
    opened.status = st;
    if (st == DOP_OK) {
        const dop_model *m = f->model;
        opened.digest = dop_ranks_digest(&m->plan);
        opened.device_bytes = m->memory.total;
        opened.replaces = m->plan.replaces;
        opened.rewind = m->plan.model->rewind;
        snprintf(opened.device, sizeof opened.device, "%.95s", m->device.info.caps.name);
        list_schedules(m, &opened, &rows);
    } else {
        snprintf(opened.text, sizeof opened.text, "%s%s%.500s", why.path, why.path[0] ? ": " : "", why.message);
    }
    dop_buf_append(&message, &opened, sizeof opened);
    if (rows.size > 0)
        dop_buf_append(&message, rows.data, rows.size);
    st = rows.failed || message.failed
             ? DOP_NO_MEMORY(f->diag)
             : f->wire->send(f->wire->user, 0, DOP_LANE_ANSWERS, message.data, message.size, f->diag);
    dop_buf_finish(&rows);
    dop_buf_finish(&message);
    return st;
}

/* --- steps ----------------------------------------------------------------------------------------------------------- */

static void
set_pages(dop_model *m, const dop_order *o)
{
    dop_pages *p = &m->pages;
    const uint32_t *entries = o->rows;
    const size_t first = (size_t)o->args[0] * p->per + o->args[1];
    for (uint32_t i = 0; i < o->n_rows; i++) {
        p->tables[first + i] = entries[i];
        p->device_tables[first + i] = entries[i];
    }
}

static void
write_ordered_step(follower *f, const dop_order *o)
{
    dop_model *m = f->model;
    volatile dop_step *step = dop_replay_step(&m->replay);
    const dop_order_row *rows = o->rows;
    step->n_rows = m->replay.n_rows = o->n_rows;
    step->flags = 0;
    memset(f->ends, 0, sizeof f->ends);
    for (uint32_t i = 0; i < o->n_rows; i++) {
        uint32_t *end = &f->ends[rows[i].place];
        *end = rows[i].position >= *end ? rows[i].position + 1 : *end;
        dop_replay_write_row(&m->replay, i, &(dop_row){rows[i].token, rows[i].position, rows[i].place, 0});
        step->parity[rows[i].place] = m->parity[rows[i].place] = rows[i].parity;
    }
}

/* Chooses the schedule of an ordered step. A single-row step uses rank 0's ordering only if a probe on this rank also
 * found it correct and faster. */
static dop_status
choose_ordered_schedule(follower *f, const dop_order *o, uint32_t *out_schedule)
{
    dop_model *m = f->model;
    const uint32_t schedule = dop_model_schedule_of(m, o->args[0], o->args[1]);
    if (schedule == UINT32_MAX)
        return DOP_FAIL_IN(f->diag, DOP_E_INPUT, m->plan.path,
                           "this part has no schedule for %u rows: compile it again", o->args[1]);
    *out_schedule = schedule;
    if (schedule != m->orders.decode[DOP_ORDER_BARRIERS] || o->args[4] == DOP_ORDER_BARRIERS)
        return DOP_OK;
    const uint32_t pos = ((const dop_order_row *)o->rows)[0].position;
    dop_status st = dop_model_probe_at(m, pos, f->diag);
    *out_schedule = dop_step_decode_at(m, pos, 1);
    return st;
}

static dop_status
submit_and_wait(follower *f, uint32_t schedule, dop_form form)
{
    dop_issue run = {.schedule = schedule, .form = form, .own = true};
    DOP_RETURN_IF_ERROR(dop_step_issue(f->model, NULL, 0, &run, f->diag));
    return dop_ranks_wait(f->wire, &f->model->replay, run.ticket, f->diag);
}

/* Runs a stalled step again from the same rows. */
static dop_status
run_again(follower *f, uint32_t *io_schedule, dop_form form)
{
    dop_model *m = f->model;
    dop_part_value had[DOP_PART_MAX_VALUES], wanted[DOP_PART_MAX_VALUES];
    const uint32_t n = dop_part_inputs(m, *io_schedule, had);
    dop_status st = dop_model_fall_back(m, f->diag);
    if (st != DOP_OK)
        return st;
    *io_schedule = m->info.decode;
    if (dop_part_inputs(m, *io_schedule, wanted) != n)
        return DOP_FAIL(f->diag, DOP_E_INTERNAL, "two orderings of a step receive different values");
    for (uint32_t i = 0; i < n; i++)
        memmove(wanted[i].bytes, had[i].bytes, had[i].row_bytes);
    return submit_and_wait(f, *io_schedule, form);
}

/* Sends the picks or logits of a step, on the last part. n_out: number of picks before the step. */
static dop_status
answer_step(const follower *f, uint32_t schedule, uint32_t n, dop_rank_answer what, uint32_t n_out)
{
    dop_model *m = f->model;
    const dop_plan_schedule *s = &m->plan.schedules[schedule];
    const volatile dop_step *step = dop_replay_step(&m->replay);
    uint32_t ids[DOP_STEP_MAX_ROWS];
    if (what == DOP_ANSWER_ROWS) {
        const uint32_t rows = dop_plan_logit_rows(s);
        const uint64_t row_bytes = dop_plan_result_row_bytes(&m->plan, s);
        return send_answer(f, dop_replay_logits(&m->replay, schedule), row_bytes * (rows < n ? rows : n));
    }
    const bool each = s->greedy == DOP_PICKS_EACH;
    for (uint32_t i = 0; i < (each ? n : 1); i++)
        ids[i] = step->ids[each ? i : n_out % DOP_STEP_RING];
    return send_answer(f, ids, (each ? n : 1) * sizeof *ids);
}

static dop_status
receive_order(follower *f, dop_order *out_order)
{
    const uint8_t *bytes;
    size_t size;
    DOP_RETURN_IF_ERROR(f->wire->receive(f->wire->user, 0, DOP_LANE_ORDERS, f->diag, &bytes, &size));
    return dop_order_decode(bytes, size, f->model ? f->model->plan.model : NULL, f->diag, out_order);
}

/* True if the order changes only page table entries that the running step does not read. */
static bool
may_set_pages(const follower *f, const dop_order *o)
{
    return o->kind == DOP_ORDER_PAGES && (uint64_t)o->args[1] * f->model->pages.page >= f->ends[o->args[0]];
}

/* Receives the next order and its rows as far as they have arrived, while a step runs. *out_more: true if more may
 * follow. */
static dop_status
look_ahead(follower *f, bool *out_more)
{
    const dop_wire *w = f->wire;
    dop_order *o = &f->next;
    dop_status st = DOP_OK;
    while (!f->has_next && st == DOP_OK && w->ready(w->user, 0, DOP_LANE_ORDERS)) {
        st = receive_order(f, o);
        if (st == DOP_OK && may_set_pages(f, o))
            set_pages(f->model, o);
        else
            f->has_next = true;
    }
    *out_more = !f->has_next;
    if (st != DOP_OK || !f->has_next || o->kind != DOP_ORDER_STEP || o->args[1] == 1)
        return st;
    const uint32_t schedule = dop_model_schedule_of(f->model, o->args[0], o->args[1]);
    if (schedule == UINT32_MAX)
        return DOP_OK; /* reported when this order is executed */
    if (!f->has_inbox)
        dop_ranks_begin_rows(f->model, schedule, o->n_rows, &f->inbox);
    f->has_inbox = true;
    st = dop_ranks_take_rows(w, &f->inbox, false, f->diag);
    *out_more = f->inbox.n_taken < f->inbox.n_values;
    return st;
}

static dop_status
send_held_outputs(follower *f)
{
    if (!f->holds)
        return DOP_OK;
    f->holds = false;
    const double start = dop_now_ms();
    dop_status st = dop_ranks_send_rows(f->model, f->wire, f->held_schedule, f->held_rows, f->diag);
    f->times.send_ms += dop_now_ms() - start;
    return st;
}

/* Runs a multi-row step whose inputs are in host memory. Once these are on the device, receives the next step's
 * inputs. */
static dop_status
run_ahead(follower *f, uint32_t schedule, dop_form form)
{
    enum { LOOK_US = 200 };
    dop_model *m = f->model;
    dop_replay *r = &m->replay;
    uint64_t in, ticket;
    bool more = true, ended = false;
    const bool spins = dop_ranks_may_spin(f->wire, r);
    dop_status st = dop_model_need(m, schedule, f->diag);
    if (st == DOP_OK)
        st = dop_replay_submit_pieces(r, schedule, form, 1, DOP_PIECE_IN, f->diag, &in);
    if (st == DOP_OK)
        st = dop_replay_submit_pieces(r, schedule, form, 1, DOP_PIECE_STEP, f->diag, &ticket);
    if (st == DOP_OK)
        st = send_held_outputs(f);
    if (st == DOP_OK)
        st = dop_replay_submit_pieces(r, schedule, form, 1, DOP_PIECE_OUT, f->diag, &ticket);
    if (st == DOP_OK)
        st = dop_ranks_wait(f->wire, r, in, f->diag);
    if (st != DOP_OK)
        return st;
    dop_step_count_picks(m, schedule, form, 1);
    const double end = dop_now_ms() + m->device.timeout_s * 1e3;
    while (more && !ended && st == DOP_OK && dop_now_ms() < end) {
        st = look_ahead(f, &more);
        ended = more && (spins ? dop_replay_has_ended(r, ticket) : dop_replay_ends_within(r, ticket, LOOK_US));
    }
    return st == DOP_OK ? dop_ranks_wait(f->wire, r, ticket, f->diag) : st;
}

/* Sends the rows of the last step now; if the next step's rows have arrived, sends them while that step runs. */
static dop_status
pass_rows(follower *f, uint32_t schedule, uint32_t n)
{
    f->holds = true;
    f->held_schedule = schedule;
    f->held_rows = n;
    return f->has_inbox && f->inbox.n_taken == f->inbox.n_values ? DOP_OK : send_held_outputs(f);
}

static dop_status
run_ordered_step(follower *f, const dop_order *o)
{
    dop_model *m = f->model;
    const uint32_t n = o->n_rows;
    const dop_form form = (dop_form)o->args[2];
    const dop_rank_answer what = (dop_rank_answer)o->args[3];
    uint32_t schedule = 0;
    dop_status st = choose_ordered_schedule(f, o, &schedule);
    if (st != DOP_OK)
        return st;
    write_ordered_step(f, o);
    const uint32_t n_out = dop_replay_step(&m->replay)->n_out;
    const double start = dop_now_ms();
    if (!f->has_inbox)
        dop_ranks_begin_rows(m, schedule, n, &f->inbox);
    f->has_inbox = false;
    st = dop_ranks_take_rows(f->wire, &f->inbox, true, f->diag);
    const double received = dop_now_ms();
    const bool ahead = m->plan.schedules[schedule].max_rows > 1 && !dop_ranks_pass_on(m, schedule);
    if (st == DOP_OK && !ahead)
        st = send_held_outputs(f);
    if (st == DOP_OK)
        st = ahead ? run_ahead(f, schedule, form) : submit_and_wait(f, schedule, form);
    if (st == DOP_OK && m->plan.schedules[schedule].ordering != DOP_ORDER_BARRIERS &&
        dop_model_stalled(m, m->flight.picks_asked))
        st = run_again(f, &schedule, form);
    m->flight.picks_taken = m->flight.picks_asked;
    const double ran = dop_now_ms();
    if (st == DOP_OK && f->wire->rank + 1 < f->wire->n)
        st = pass_rows(f, schedule, n);
    else if (st == DOP_OK && what != DOP_ANSWER_NOTHING)
        st = answer_step(f, schedule, n, what, n_out);
    f->times.steps++;
    f->times.receive_ms += received - start;
    f->times.wait_ms += ran - received;
    f->times.send_ms += dop_now_ms() - ran;
    return st;
}

/* --- states ---------------------------------------------------------------------------------------------------------- */

static dop_status
send_bytes(void *user, const void *bytes, size_t size, dop_diag *diag)
{
    const follower *f = user;
    (void)diag; /* the follower's own `diag` is used */
    return size > 0 ? send_answer(f, bytes, size) : DOP_OK;
}

static void
take_parity(dop_model *m, const dop_order *o)
{
    if (o->args[0] < m->plan.model->n_sequences) /* otherwise it is a slot */
        m->parity[o->args[0]] = o->args[4];
}

static dop_status
begin_write(follower *f, const dop_order *o)
{
    if (f->states)
        return DOP_FAIL(f->diag, DOP_E_INTERNAL, "states while others are still to come");
    f->write = dop_order_states(o);
    take_parity(f->model, o);
    f->to_write = dop_transfer_size(f->model, &f->write);
    f->n_written = 0;
    if (f->to_write == 0)
        return DOP_OK;
    f->states = malloc(f->to_write);
    return f->states ? DOP_OK : DOP_NO_MEMORY(f->diag);
}

static dop_status
take_written_bytes(follower *f, const dop_order *o)
{
    if (!f->states || o->n_rows > f->to_write - f->n_written)
        return DOP_FAIL(f->diag, DOP_E_INTERNAL, "more bytes of states than there are");
    memcpy(f->states + f->n_written, o->rows, o->n_rows);
    f->n_written += o->n_rows;
    if (f->n_written < f->to_write)
        return DOP_OK;
    dop_status st = dop_transfer_write(f->model, &f->write, f->states, f->diag);
    free(f->states);
    f->states = NULL;
    return st;
}

static dop_status
read_states(follower *f, const dop_order *o)
{
    const dop_states states = dop_order_states(o);
    take_parity(f->model, o);
    return dop_transfer_read(f->model, &states, send_bytes, f, f->diag);
}

static dop_status
clear_rank_states(dop_model *m, uint32_t what, dop_diag *diag)
{
    uint64_t ticket;
    DOP_RETURN_IF_ERROR(dop_replay_clear(&m->replay, (dop_clear)what, diag, &ticket));
    return dop_replay_wait(&m->replay, ticket, diag);
}

static dop_status
answer_size(const follower *f, const dop_order *o)
{
    const dop_states states = dop_order_states(o);
    const uint64_t size = dop_transfer_size(f->model, &states);
    return send_answer(f, &size, sizeof size);
}

static dop_status
execute_order(follower *f, const dop_order *o)
{
    dop_model *m = f->model;
    const uint32_t *a = o->args;
    switch ((dop_order_kind)o->kind) {
    case DOP_ORDER_OPEN:
        return open_rank_part(f, o);
    case DOP_ORDER_CLOSE:
        if (m)
            dop_log_printf(
                &m->log,
                "steps: %llu; %.1f ms of waiting for orders, %.1f of waiting for rows, %.1f for this device, "
                "%.1f of sending",
                (unsigned long long)f->times.steps, f->times.orders_ms, f->times.receive_ms, f->times.wait_ms,
                f->times.send_ms);
        f->times = (dop_rank_times){0};
        dop_model_close(m);
        f->model = NULL;
        return DOP_OK;
    case DOP_ORDER_STEP:
        return run_ordered_step(f, o);
    case DOP_ORDER_PAGES:
        set_pages(m, o);
        return DOP_OK;
    case DOP_ORDER_CLEAR:
        return clear_rank_states(m, a[0], f->diag);
    case DOP_ORDER_CLEAR_PLACE:
        return dop_transfer_clear(m, a[0], f->diag);
    case DOP_ORDER_COPY_PLACE:
        m->parity[a[0]] = a[3];
        m->parity[a[1]] = a[4];
        return dop_transfer_copy(m, a[0], a[1], a[2], f->diag);
    case DOP_ORDER_SLOTS:
        return dop_transfer_make_slots(m, a[0], f->diag);
    case DOP_ORDER_COPY_SLOT:
        m->parity[a[0] < a[1] ? a[0] : a[1]] = a[3];
        return dop_transfer_copy_slot(m, a[0], a[1], a[2], a[4] != 0, f->diag);
    case DOP_ORDER_COPY_PAGE:
        return dop_transfer_copy_page(m, a[0], a[1], a[2], f->diag);
    case DOP_ORDER_SIZE:
        return answer_size(f, o);
    case DOP_ORDER_READ:
        return read_states(f, o);
    case DOP_ORDER_WRITE:
        return begin_write(f, o);
    case DOP_ORDER_BYTES:
        return take_written_bytes(f, o);
    default:
        return DOP_OK;
    }
}

dop_status
dop_ranks_follow(const dop_wire *wire, const dop_open_options *options, dop_diag *diag)
{
    follower f = {.wire = wire, .options = options, .diag = diag};
    dop_order o = {.kind = DOP_ORDER_CLOSE};
    dop_status st = DOP_OK;
    while (st == DOP_OK && o.kind != DOP_ORDER_END) {
        const double start = dop_now_ms();
        if (!f.has_next)
            st = receive_order(&f, &f.next);
        f.has_next = false;
        o = f.next;
        f.times.orders_ms += dop_now_ms() - start;
        if (st == DOP_OK)
            st = execute_order(&f, &o);
        if (st != DOP_OK)
            wire->fail(wire->user, diag);
    }
    free(f.states);
    dop_model_close(f.model);
    return st;
}
