/* Rank 0 of a plan in parts: sends orders and receives answers. */
#include "plan/plan_names.h"
#include "runtime/parts/lead/ranks.h"

#include <stdlib.h>
#include <string.h>

static dop_status
send_order(dop_ranks *r, uint32_t to, const dop_order *order, dop_diag *diag)
{
    r->message.size = 0;
    dop_order_encode(order, &r->message);
    if (r->message.failed)
        return DOP_NO_MEMORY(diag);
    return r->wire->send(r->wire->user, to, DOP_LANE_ORDERS, r->message.data, r->message.size, diag);
}

static dop_status
send_to_all(dop_ranks *r, const dop_order *order, dop_diag *diag)
{
    for (uint32_t i = 1; i < r->wire->n; i++)
        DOP_RETURN_IF_ERROR(send_order(r, i, order, diag));
    return DOP_OK;
}

/* Sends the rows of the last step to rank 1 if they were held back. */
static dop_status
send_held_rows(dop_model *m, dop_diag *diag)
{
    dop_ranks *r = m->ranks;
    if (!r->holds)
        return DOP_OK;
    r->holds = false;
    const double start = dop_now_ms();
    dop_status st = dop_ranks_send_rows(m, r->wire, r->held_schedule, r->held_rows, diag);
    r->times.send_ms += dop_now_ms() - start;
    return st;
}

dop_status
dop_ranks_order(dop_model *model, dop_order_kind kind, const uint32_t *args, uint32_t n_args, dop_diag *diag)
{
    dop_order order = {.kind = kind};
    dop_status st = model->ranks ? send_held_rows(model, diag) : DOP_OK;
    if (!model->ranks || st != DOP_OK)
        return st;
    for (uint32_t i = 0; i < n_args; i++)
        order.args[i] = args[i];
    return send_to_all(model->ranks, &order, diag);
}

/* --- opening --------------------------------------------------------------------------------------------------------- */

dop_status
dop_ranks_start(dop_model *model, const char *path, const dop_open_options *options, dop_diag *diag)
{
    dop_ranks *r = calloc(1, sizeof *r);
    model->ranks = r;
    if (!r)
        return DOP_NO_MEMORY(diag);
    r->wire = options->wire;
    const dop_order order = {.kind = DOP_ORDER_OPEN,
                             .n_rows = (uint32_t)strlen(path) + 1,
                             .args = {DOP_ORDERS_VERSION, options->first_tokens, options->max_chunk,
                                      options->no_scoring, options->on_demand, options->no_steps},
                             .rows = path};
    return send_to_all(r, &order, diag);
}

/* Receives and checks a rank's answer, which must be for the same plan. */
static dop_status
receive_opened(dop_model *m, uint32_t rank, dop_diag *diag, dop_rank_opened *out, dop_rank_schedule **out_schedules)
{
    const dop_wire *w = m->ranks->wire;
    const uint8_t *bytes;
    size_t size;
    char who[96];
    w->describe(w->user, rank, who, sizeof who);
    dop_status st = w->receive(w->user, rank, DOP_LANE_ANSWERS, diag, &bytes, &size);
    if (st != DOP_OK)
        return st;
    m->ranks->n_answered = rank;
    if (size < sizeof *out)
        return DOP_FAIL(diag, DOP_E_INPUT, "%s runs another version of doppler-exec", who);
    memcpy(out, bytes, sizeof *out);
    out->text[sizeof out->text - 1] = out->device[sizeof out->device - 1] = 0;
    if (out->version != DOP_ORDERS_VERSION)
        return DOP_FAIL(diag, DOP_E_INPUT, "%s runs another version of doppler-exec", who);
    if (out->status != DOP_OK)
        return DOP_FAIL(diag, (dop_status)out->status, "%s: %s", who, out->text);
    if (out->digest != dop_ranks_digest(&m->plan))
        return DOP_FAIL_IN(
            diag, DOP_E_INPUT, m->plan.path,
            "%s has another plan under that name (digest %016llx, and here it is %016llx): copy the same "
            "plan to all hosts",
            who, (unsigned long long)out->digest, (unsigned long long)dop_ranks_digest(&m->plan));
    if (size != sizeof *out + (uint64_t)out->n_schedules * sizeof **out_schedules)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "%s answers %zu bytes", who, size);
    dop_log_printf(&m->log, "%s: part %u on %s, %.2f GiB", who, rank, out->device,
                   (double)out->device_bytes / (1 << 30));
    m->memory.total += out->device_bytes;
    free(*out_schedules);
    *out_schedules = malloc((size_t)out->n_schedules * sizeof **out_schedules + 1);
    if (!*out_schedules)
        return DOP_NO_MEMORY(diag);
    memcpy(*out_schedules, bytes + sizeof *out, (size_t)out->n_schedules * sizeof **out_schedules);
    return DOP_OK;
}

/* Gives rank 0's schedules the picks of the last part's schedules. *out_most: the largest answer in bytes. */
static dop_status
take_schedules(dop_model *m, const dop_rank_schedule *last, uint32_t n, uint64_t *out_most, dop_diag *diag)
{
    dop_ranks *r = m->ranks;
    *out_most = 0;
    r->schedules = malloc(m->plan.n_schedules * sizeof *r->schedules);
    if (!r->schedules)
        return DOP_NO_MEMORY(diag);
    memcpy(r->schedules, m->plan.schedules, m->plan.n_schedules * sizeof *r->schedules);
    for (uint32_t i = 0; i < m->used.n; i++) {
        dop_plan_schedule *s = &r->schedules[m->used.schedules[i]];
        uint32_t k = 0;
        while (k < n && (last[k].kind != s->kind || last[k].max_rows != s->max_rows))
            k++;
        if (k == n)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path,
                               "the last part has no schedule for %u rows that this one has: compile the plan again",
                               s->max_rows);
        s->greedy = last[k].greedy;
        const uint64_t bytes = dop_plan_logit_rows(s) * dop_plan_result_row_bytes(&m->plan, s);
        *out_most = bytes > *out_most ? bytes : *out_most;
    }
    m->plan.schedules = r->schedules;
    return DOP_OK;
}

dop_status
dop_ranks_join(dop_model *model, dop_diag *diag)
{
    dop_model *m = model;
    dop_ranks *r = m->ranks;
    dop_rank_schedule *schedules = NULL;
    dop_rank_opened opened;
    uint64_t most = 0;
    dop_status st = DOP_OK;
    r->facts = *m->plan.model;
    for (uint32_t i = 1; i < r->wire->n && st == DOP_OK; i++) {
        st = receive_opened(m, i, diag, &opened, &schedules);
        if (st != DOP_OK)
            break;
        m->plan.replaces = m->plan.replaces || opened.replaces;
        r->facts.rewind = opened.rewind < r->facts.rewind ? opened.rewind : r->facts.rewind;
    }
    if (st == DOP_OK)
        st = take_schedules(m, schedules, opened.n_schedules, &most, diag);
    free(schedules);
    if (st != DOP_OK)
        return st;
    m->plan.model = &r->facts;
    const size_t entries = (size_t)r->facts.n_sequences * m->pages.per;
    r->results = malloc(most + 1);
    r->shadow = malloc(entries * sizeof *r->shadow + 1);
    if (!r->results || !r->shadow)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < DOP_RANKS_AHEAD; i++)
        if (!(r->started[i] = malloc(sizeof *r->started[i])))
            return DOP_NO_MEMORY(diag);
    memset(r->shadow, 0xff, entries * sizeof *r->shadow);
    return DOP_OK;
}

void
dop_ranks_end(dop_model *model)
{
    dop_ranks *r = model->ranks;
    const uint8_t *bytes;
    size_t size;
    if (!r)
        return;
    for (uint32_t i = r->n_answered + 1; i < r->wire->n;
         i++) /* ranks that were not waited for; a lost rank ends this loop */
        (void)r->wire->receive(r->wire->user, i, DOP_LANE_ANSWERS, NULL, &bytes, &size);
    (void)dop_ranks_order(model, DOP_ORDER_CLOSE, NULL, 0, NULL);
    dop_log_printf(
        &model->log,
        "steps in parts: %llu; %.1f ms of waiting for this device, %.1f of sending, %.1f of waiting for answers",
        (unsigned long long)r->times.steps, r->times.wait_ms, r->times.send_ms, r->times.orders_ms);
    dop_buf_finish(&r->message);
    for (uint32_t i = 0; i < DOP_RANKS_AHEAD; i++)
        free(r->started[i]);
    free(r->schedules);
    free(r->results);
    free(r->shadow);
    free(r);
    model->ranks = NULL;
}

void
dop_ranks_dismiss(const dop_wire *wire)
{
    dop_ranks r = {.wire = wire};
    (void)send_to_all(&r, &(dop_order){.kind = DOP_ORDER_END}, NULL);
    dop_buf_finish(&r.message);
}

/* --- steps ----------------------------------------------------------------------------------------------------------- */

dop_status
dop_ranks_tell_pages(dop_model *model, uint32_t place, uint32_t n, dop_diag *diag)
{
    dop_ranks *r = model->ranks;
    const dop_pages *p = &model->pages;
    dop_status st = DOP_OK;
    if (!r || p->page == 0)
        return DOP_OK;
    const uint32_t *now = p->tables + (size_t)place * p->per, end = (n + p->page - 1) / p->page;
    uint32_t *told = r->shadow + (size_t)place * p->per, i = 0;
    while (i < end && i < p->of[place].n && st == DOP_OK) {
        uint32_t k = i;
        while (k < end && k < p->of[place].n && k - i < DOP_WIRE_MOST / 8 && told[k] != now[k])
            k++;
        if (k > i) {
            const dop_order order = {.kind = DOP_ORDER_PAGES, .n_rows = k - i, .args = {place, i}, .rows = now + i};
            st = send_to_all(r, &order, diag);
            memcpy(told + i, now + i, (k - i) * sizeof *told);
        }
        i = k > i ? k : i + 1;
    }
    return st;
}

static dop_rank_answer
answer_of(const dop_model *m, uint32_t schedule, dop_form form)
{
    if (form == DOP_FORM_BODY)
        return DOP_ANSWER_NOTHING;
    if (form == DOP_FORM_READ)
        return DOP_ANSWER_ROWS;
    return m->plan.schedules[schedule].greedy == DOP_PICKS_NONE ? DOP_ANSWER_NOTHING : DOP_ANSWER_PICKS;
}

dop_status
dop_ranks_submit(dop_model *model, uint32_t schedule, dop_form form, dop_diag *diag)
{
    dop_model *m = model;
    dop_ranks *r = m->ranks;
    const dop_plan_schedule *s = &m->plan.schedules[schedule];
    const dop_row *said = m->replay.rows;
    dop_order_row rows[DOP_STEP_MAX_ROWS];
    const uint32_t n = m->replay.n_rows;
    dop_status st = DOP_OK;
    if (r->n_steps == DOP_RANKS_AHEAD)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "more than %d steps under way", DOP_RANKS_AHEAD);
    /* Page tables of many sequences need many orders, which must not wait for held rows. */
    if (said[0].sequence != said[n - 1].sequence)
        st = send_held_rows(m, diag);
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        const uint32_t place = said[i].sequence;
        rows[i] = (dop_order_row){said[i].token, said[i].position, place, m->parity[place]};
        if (i + 1 == n || said[i + 1].sequence != place)
            st = dop_ranks_tell_pages(m, place, rows[i].position + 1, diag);
    }
    const dop_rank_answer answer = answer_of(m, schedule, form);
    const dop_order order = {
        .kind = DOP_ORDER_STEP, .n_rows = n, .args = {s->kind, s->max_rows, form, answer, s->ordering}, .rows = rows};
    if (st == DOP_OK)
        st = send_to_all(r, &order, diag);
    if (st != DOP_OK)
        return st;
    const uint32_t at = (r->first + r->n_steps++) % DOP_RANKS_AHEAD;
    r->steps[at].schedule = schedule;
    r->steps[at].n_rows = n;
    r->steps[at].answer = answer;
    r->steps[at].picks = 0;
    return DOP_OK;
}

dop_status
dop_ranks_run(dop_model *model, uint32_t schedule, dop_form form, dop_diag *diag, uint64_t *out_ticket)
{
    dop_replay *replay = &model->replay;
    if (!model->ranks->holds)
        return dop_replay_submit(replay, schedule, form, 1, diag, out_ticket);
    DOP_RETURN_IF_ERROR(dop_replay_submit_pieces(replay, schedule, form, 1, DOP_PIECE_STEP, diag, out_ticket));
    DOP_RETURN_IF_ERROR(send_held_rows(model, diag));
    return dop_replay_submit_pieces(replay, schedule, form, 1, DOP_PIECE_OUT, diag, out_ticket);
}

dop_status
dop_ranks_pass(dop_model *model, dop_diag *diag)
{
    dop_ranks *r = model->ranks;
    if (r->n_passed == r->n_steps)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "no step to pass on");
    const uint32_t at = (r->first + r->n_passed++) % DOP_RANKS_AHEAD;
    r->steps[at].picks = model->flight.picks_asked;
    r->holds = true;
    r->held_schedule = r->steps[at].schedule;
    r->held_rows = r->steps[at].n_rows;
    return r->steps[at].answer == DOP_ANSWER_NOTHING ? DOP_OK : send_held_rows(model, diag);
}

/* Stores picks where this part's device would have put them. */
static dop_status
take_picks(dop_model *m, uint32_t schedule, uint32_t n, uint32_t picks, dop_diag *diag)
{
    const dop_wire *w = m->ranks->wire;
    volatile dop_step *step = dop_replay_step(&m->replay);
    const bool each = m->plan.schedules[schedule].greedy == DOP_PICKS_EACH;
    const uint8_t *bytes;
    size_t size;
    dop_status st = w->receive(w->user, w->n - 1, DOP_LANE_ANSWERS, diag, &bytes, &size);
    if (st != DOP_OK)
        return st;
    const uint32_t *ids = (const uint32_t *)(const void *)bytes, wanted = each ? n : 1;
    if (size != wanted * sizeof *ids)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "%zu bytes of picks for %u rows", size, n);
    for (uint32_t i = 0; i < wanted; i++)
        step->ids[each ? i : (picks - 1) % DOP_STEP_RING] = ids[i];
    return DOP_OK;
}

dop_status
dop_ranks_take(dop_model *model, dop_diag *diag)
{
    dop_model *m = model;
    dop_ranks *r = m->ranks;
    if (r->n_passed == 0)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "no step to wait for");
    const uint32_t schedule = r->steps[r->first].schedule, n = r->steps[r->first].n_rows;
    const dop_plan_schedule *s = &m->plan.schedules[schedule];
    const uint32_t picks = r->steps[r->first].picks;
    const dop_rank_answer answer = r->steps[r->first].answer;
    r->first = (r->first + 1) % DOP_RANKS_AHEAD;
    r->n_passed--;
    r->n_steps--;
    if (answer == DOP_ANSWER_NOTHING)
        return DOP_OK;
    if (s->greedy == DOP_PICKS_NEXT) /* as rank 0's device would have counted it */
        dop_replay_step(&m->replay)->n_out = picks;
    if (answer == DOP_ANSWER_PICKS)
        return take_picks(m, schedule, n, picks, diag);
    const uint32_t rows = dop_plan_logit_rows(s);
    const uint64_t row_bytes = dop_plan_result_row_bytes(&m->plan, s);
    return dop_ranks_receive_all(r->wire, r->wire->n - 1, DOP_LANE_ANSWERS, r->results,
                                 row_bytes * (rows < n ? rows : n), diag);
}

/* --- states ---------------------------------------------------------------------------------------------------------- */

/* Returns the parity of the place. Slots have a single copy. */
static uint32_t
find_place_parity(const dop_model *m, const dop_states *x)
{
    return x->place < m->plan.model->n_sequences ? m->parity[x->place] : 0;
}

static dop_status
tell_pages(dop_model *m, const dop_states *x, dop_diag *diag)
{
    return x->rows && x->place < m->plan.model->n_sequences ? dop_ranks_tell_pages(m, x->place, x->to, diag) : DOP_OK;
}

static dop_status
ask_states_size(dop_model *m, uint32_t rank, const dop_states *x, dop_diag *diag, uint64_t *out_size)
{
    const dop_order order = dop_order_of_states(DOP_ORDER_SIZE, x, find_place_parity(m, x));
    DOP_RETURN_IF_ERROR(send_held_rows(m, diag));
    DOP_RETURN_IF_ERROR(send_order(m->ranks, rank, &order, diag));
    return dop_ranks_receive_all(m->ranks->wire, rank, DOP_LANE_ANSWERS, out_size, sizeof *out_size, diag);
}

uint64_t
dop_ranks_size(dop_model *model, const dop_states *states)
{
    uint64_t all = 0, size;
    for (uint32_t i = 1; model->ranks && i < model->ranks->wire->n; i++)
        if (ask_states_size(model, i, states, NULL, &size) == DOP_OK) /* the next call reports a lost rank */
            all += size;
    return all;
}

dop_status
dop_ranks_read(dop_model *model, const dop_states *states, dop_bytes_fn *take, void *user, dop_diag *diag)
{
    dop_ranks *r = model->ranks;
    dop_status st = r ? tell_pages(model, states, diag) : DOP_OK;
    for (uint32_t i = 1; r && i < r->wire->n && st == DOP_OK; i++) {
        const dop_order order = dop_order_of_states(DOP_ORDER_READ, states, find_place_parity(model, states));
        uint64_t left = 0;
        if ((st = ask_states_size(model, i, states, diag, &left)) == DOP_OK)
            st = send_order(r, i, &order, diag);
        while (left > 0 && st == DOP_OK) {
            const uint8_t *bytes;
            size_t size = 0;
            st = r->wire->receive(r->wire->user, i, DOP_LANE_ANSWERS, diag, &bytes, &size);
            if (st == DOP_OK && (size == 0 || size > left))
                st = DOP_FAIL(diag, DOP_E_INTERNAL, "%zu bytes of states where %llu are left", size,
                              (unsigned long long)left);
            if (st == DOP_OK)
                st = take(user, bytes, size, diag);
            left -= size;
        }
    }
    return st;
}

dop_status
dop_ranks_write(dop_model *model, const dop_states *states, const uint8_t *bytes, dop_diag *diag)
{
    dop_ranks *r = model->ranks;
    dop_status st = r ? tell_pages(model, states, diag) : DOP_OK;
    for (uint32_t i = 1; r && i < r->wire->n && st == DOP_OK; i++) {
        const dop_order order = dop_order_of_states(DOP_ORDER_WRITE, states, find_place_parity(model, states));
        uint64_t size = 0;
        if ((st = ask_states_size(model, i, states, diag, &size)) == DOP_OK)
            st = send_order(r, i, &order, diag);
        for (uint64_t at = 0, piece; at < size && st == DOP_OK; at += piece) {
            piece = size - at < DOP_WIRE_MOST / 2 ? size - at : DOP_WIRE_MOST / 2;
            st = send_order(r, i, &(dop_order){.kind = DOP_ORDER_BYTES, .n_rows = (uint32_t)piece, .rows = bytes + at},
                            diag);
        }
        bytes += size;
    }
    return st;
}
