/* Steps: choosing a schedule, submitting, and waiting. */
#include "runtime/step/step.h"
#include "plan/chunks.h"
#include "plan/plan_names.h"
#include "runtime/model/model_load.h"
#include "runtime/model/model_used.h"
#include "runtime/model/ordering.h"
#include "runtime/parts/lead/ranks.h"
#include "runtime/step/features.h"
#include "runtime/step/program.h"
#include "runtime/step/sequence_pages.h"
#include "runtime/step/speculator.h"

static uint32_t
schedule_cap(const dop_model *m, uint32_t schedule)
{
    uint32_t cap = m->plan.schedules[schedule].max_rows;
    cap = m->max_chunk && m->max_chunk < cap ? m->max_chunk : cap;
    return m->ranks && m->ranks->max_chunk && m->ranks->max_chunk < cap ? m->ranks->max_chunk : cap;
}

enum { MOST_SIZES = 64 };

static const dop_chunk_costs *
find_chunk_costs(const dop_model *m)
{
    return m->device.info.caps.cpu ? NULL : &m->plan.profiles[m->info.profile].chunks;
}

/* Lists the step sizes for tokens of a kind, with their schedules. Decode is the single-token schedule of every
 * kind. */
static size_t
sizes_of(const dop_model *m, uint32_t kind, dop_chunk_size sizes[MOST_SIZES], uint32_t schedules[MOST_SIZES])
{
    uint32_t n_of;
    const uint32_t *of = dop_used_of(&m->used, kind, DOP_ORDER_BARRIERS, &n_of);
    size_t n = 0;
    schedules[n++] = m->orders.decode[DOP_ORDER_BARRIERS];
    for (uint32_t i = 0; i < n_of && n < MOST_SIZES; i++)
        schedules[n++] = of[i];
    for (size_t i = 0; i < n; i++)
        sizes[i] = (dop_chunk_size){m->plan.schedules[schedules[i]].max_rows, schedule_cap(m, schedules[i])};
    return n;
}

void
dop_step_choose_chunks(dop_model *model, uint32_t kind, size_t n)
{
    const dop_model *m = model;
    dop_chunk_size sizes[MOST_SIZES];
    uint32_t chunks[MOST_SIZES], schedules[MOST_SIZES];
    size_t n_chunks = 0;
    if (!m->ranks || m->max_chunk > 0) /* an option has set the chunk size */
        return;
    m->ranks->max_chunk = 0;
    for (size_t i = 0, n_sizes = sizes_of(m, kind, sizes, schedules); i < n_sizes; i++)
        if (sizes[i].most > 1)
            chunks[n_chunks++] = sizes[i].most;
    m->ranks->max_chunk = dop_chunks_best(find_chunk_costs(m), chunks, n_chunks, n, m->ranks->wire->n);
}

void
dop_step_choose(const dop_model *model, uint32_t kind, size_t n, uint32_t *out_schedule, uint32_t *out_take)
{
    dop_chunk_size sizes[MOST_SIZES];
    uint32_t schedules[MOST_SIZES];
    const size_t n_sizes = sizes_of(model, kind, sizes, schedules),
                 next = dop_chunks_next(find_chunk_costs(model), sizes, n_sizes, n);
    *out_schedule = schedules[next];
    *out_take = n < sizes[next].most ? (uint32_t)n : sizes[next].most;
}

void
dop_step_first(const dop_model *model, uint32_t n, bool steps, dop_ordering ordering, bool *first)
{
    const dop_model *m = model;
    const uint32_t order = ordering > DOP_ORDERING_BARRIERS ? ordering - DOP_ORDERING_BARRIERS : DOP_ORDER_BARRIERS;
    const uint32_t orders[] = {DOP_ORDER_BARRIERS, order},
                   kinds[] = {DOP_SCHED_DECODE, DOP_SCHED_ROWS, DOP_SCHED_DRAFT};
    uint32_t n_of, left = n < m->plan.model->ctx ? n : m->plan.model->ctx, schedule, take;
    if (!dop_plan_steps(&m->plan))
        return;
    for (; left > 0; left -= take) {
        dop_step_choose(m, DOP_SCHED_PREFILL, left, &schedule, &take);
        first[schedule] = true;
    }
    dop_used_of(&m->used, DOP_SCHED_DRAFT, DOP_ORDER_BARRIERS, &n_of);
    const size_t n_kinds = !steps ? 0 : n_of > 0 ? 3 : 1;
    for (size_t k = 0; k < n_kinds * 2; k++) {
        const uint32_t *of = dop_used_of(&m->used, kinds[k / 2], orders[k % 2], &n_of);
        for (uint32_t i = 0; i < n_of; i++)
            first[of[i]] = true;
    }
    for (uint32_t i = 0; i < m->used.n; i++)
        if (first[m->used.schedules[i]])
            first[dop_model_schedule_adapted(m, m->used.schedules[i])] = true;
}

dop_status
dop_step_choose_rows(const dop_sequence *sequence, uint32_t kind, uint32_t end, dop_diag *diag, uint32_t *out_schedule,
                     uint32_t *out_take)
{
    const dop_sequence *s = sequence;
    const uint32_t n = s->n_tokens - s->n_fed;
    dop_step_choose(s->model, kind, end - s->n_fed, out_schedule, out_take);
    const uint32_t take = dop_features_uncut(s->model, s->tokens, s->n_fed, *out_take, s->n_tokens);
    if (take == *out_take)
        return DOP_OK;
    if (take > 0) {
        *out_take = take;
        return DOP_OK;
    }
    /* A group of rows that must be in one step begins here: find a larger schedule. */
    for (uint32_t more = *out_take + 1; more <= n; more++) {
        const uint32_t schedule = dop_model_schedule_for(s->model, kind, more);
        if (schedule == UINT32_MAX || more > schedule_cap(s->model, schedule))
            break;
        if (dop_features_uncut(s->model, s->tokens, s->n_fed, more, s->n_tokens) == more) {
            *out_schedule = schedule;
            *out_take = more;
            return DOP_OK;
        }
    }
    return DOP_FAIL(diag, DOP_E_INPUT,
                    "rows of a picture see one another, and this plan's steps do not hold all of them: compile with "
                    "larger `chunks`");
}

/* In a stalled step, late kernels may read and write one more position, which does not exist at the end of the
 * context. */
uint32_t
dop_step_decode_at(const dop_model *model, uint32_t pos, uint32_t n)
{
    return model->plan.model->ctx - pos > n ? model->info.decode : model->orders.decode[DOP_ORDER_BARRIERS];
}

/* Submits the contents of the step record. */
static dop_status
submit_step_record(dop_model *m, uint32_t schedule, dop_form form, uint32_t times, dop_diag *diag, uint64_t *out_ticket)
{
    dop_status st = dop_model_need(m, schedule, diag);
    if (st == DOP_OK)
        st = dop_model_make_code(m, schedule, form, diag);
    for (uint32_t i = 0; i < m->plan.model->n_sequences; i++)
        if (m->sequences[i])
            m->sequences[i]->logits = m->sequences[i]->picked_from = NULL;
    if (st == DOP_OK && m->ranks && (st = dop_ranks_submit(m, schedule, form, diag)) == DOP_OK)
        st = dop_ranks_run(m, schedule, form, diag, out_ticket);
    else if (st == DOP_OK)
        st = dop_replay_submit(&m->replay, schedule, form, times, diag, out_ticket);
    if (st == DOP_OK)
        dop_step_count_picks(m, schedule, form, times);
    return st;
}

dop_status
dop_step_pass(dop_model *model, uint64_t ticket, dop_diag *diag)
{
    if (!model->ranks)
        return dop_replay_wait(&model->replay, ticket, diag);
    const double start = dop_now_ms();
    dop_status st = dop_ranks_wait(model->ranks->wire, &model->replay, ticket, diag);
    model->ranks->times.wait_ms += dop_now_ms() - start;
    return st == DOP_OK ? dop_ranks_pass(model, diag) : st;
}

dop_status
dop_step_take(dop_model *model, dop_diag *diag)
{
    if (!model->ranks)
        return DOP_OK;
    const double start = dop_now_ms();
    dop_status st = dop_ranks_take(model, diag);
    model->ranks->times.orders_ms += dop_now_ms() - start;
    model->ranks->times.steps++;
    return st;
}

const float *
dop_model_logits(const dop_model *model, uint32_t schedule)
{
    return model->ranks ? model->ranks->results : dop_replay_logits(&model->replay, schedule);
}

uint32_t
dop_step_versions(const dop_model *model, uint32_t schedule, uint32_t n)
{
    const uint32_t copies = model->plan.model->state_copies;
    return copies > 2 && n < copies && model->plan.schedules[schedule].kind == DOP_SCHED_ROWS ? n : 1;
}

static void
note_versions(dop_model *m, uint32_t place, int32_t by)
{
    const int32_t copies = (int32_t)m->plan.model->state_copies;
    if (m->plan.replaces)
        m->parity[place] = (uint32_t)(((int32_t)m->parity[place] + by + copies) % copies);
}

void
dop_step_note_version(dop_model *model, uint32_t place)
{
    note_versions(model, place, 1);
}

void
dop_step_move_states(dop_model *model, uint32_t place, int32_t by)
{
    if (!model->plan.replaces)
        return;
    note_versions(model, place, by);
    dop_replay_step(&model->replay)->parity[place] = model->parity[place];
}

/* --- issuing and collecting ------------------------------------------------------------------------------------------ */

static void
write_record(dop_model *m, const dop_sequence_rows *rows, uint32_t n, bool continued)
{
    volatile dop_step *step = dop_replay_step(&m->replay);
    uint32_t at = 0;
    step->flags = 0;
    for (uint32_t k = 0; k < n; k++) {
        const dop_sequence *s = rows[k].sequence;
        step->parity[s->place] = m->parity[s->place];
        for (uint32_t i = 0, pos = rows[k].pos; i < rows[k].n; i++, pos++) {
            const uint32_t flags = i + 1 == rows[k].n ? dop_sequence_row_flags(s) : 0;
            const uint32_t token = s->tokens[pos], vocab = m->plan.model->vocab;
            dop_replay_write_row(&m->replay, at,
                                 &(dop_row){token < vocab ? token : vocab + at, pos, s->place,
                                            flags | (continued ? (uint32_t)DOP_ROW_CONTINUED : 0)});
            at++;
        }
    }
    step->n_rows = m->replay.n_rows = at;
}

dop_status
dop_step_issue(dop_model *model, const dop_sequence_rows *rows, uint32_t n, dop_issue *io, dop_diag *diag)
{
    dop_model *m = model;
    dop_status st = DOP_OK;
    const uint32_t more = io->times > 1 ? io->times - 1 : 0;
    for (uint32_t k = 0; k < n; k++)
        if (rows[k].sequence->n_uses > 0)
            io->schedule = dop_model_schedule_adapted(m, io->schedule);
    for (uint32_t k = 0; k < n && st == DOP_OK; k++) {
        const uint32_t end = rows[k].pos + rows[k].n + more;
        st = dop_sequence_reserve(rows[k].sequence, rows[k].pos, dop_sequence_end(rows[k].sequence, io->schedule, end),
                                  diag);
    }
    if (st != DOP_OK)
        return st;
    for (uint32_t k = 0; k < n; k++) {
        dop_sequence *s = rows[k].sequence;
        const uint32_t end = rows[k].pos + rows[k].n + more;
        s->n_written = end > s->n_written ? end : s->n_written;
        dop_sequence_kept(s, UINT32_MAX, 0); /* the step writes the other copy of replaced states */
    }
    if (!io->own)
        write_record(m, rows, n, io->continued);
    if (m->pictures.taken && (st = dop_features_write(m, io->schedule, rows, n, !io->own, diag)) != DOP_OK)
        return st;
    st = submit_step_record(m, io->schedule, io->form, more + 1, diag, &io->ticket);
    io->pick_end = m->flight.picks_asked;
    return st;
}

/* True if a finished step has stalled. A multi-row schedule sets only a flag, which the following step may have set
 * instead. */
static bool
has_stalled(const dop_model *m, const dop_issue *issue)
{
    const dop_plan_schedule *s = &m->plan.schedules[issue->schedule];
    if (s->ordering == DOP_ORDER_BARRIERS)
        return false;
    return s->greedy == DOP_PICKS_EACH ? (dop_replay_step(&m->replay)->flags & DOP_STEP_STALLED) != 0
                                       : dop_model_stalled(m, issue->pick_end);
}

static dop_status
wait_for_step(dop_model *m, uint64_t ticket, dop_diag *diag)
{
    DOP_RETURN_IF_ERROR(dop_step_pass(m, ticket, diag));
    return dop_step_take(m, diag);
}

void
dop_step_collected(dop_model *model, dop_sequence_rows *rows, uint32_t n, const dop_issue *issue)
{
    model->flight.picks_taken = issue->pick_end;
    for (uint32_t k = 0; k < n; k++) {
        rows[k].versions = dop_step_versions(model, issue->schedule, rows[k].n);
        /* Mirrors the update that the pick kernel has made on the device. */
        dop_step_move_states(model, rows[k].sequence->place, (int32_t)rows[k].versions);
        rows[k].ran = true;
    }
}

dop_status
dop_step_collect(dop_model *model, dop_sequence_rows *rows, uint32_t n, dop_issue *io, dop_diag *diag)
{
    dop_model *m = model;
    dop_status st = wait_for_step(m, io->ticket, diag);
    if (st == DOP_OK && has_stalled(m, io) && (st = dop_model_fall_back(m, diag)) == DOP_OK) {
        const dop_plan_schedule *s = &m->plan.schedules[io->schedule];
        io->schedule = dop_model_schedule_for(m, s->kind, s->max_rows);
        io->own = io->continued = false;
        if ((st = dop_step_issue(m, rows, n, io, diag)) == DOP_OK)
            st = wait_for_step(m, io->ticket, diag);
    }
    if (st == DOP_OK)
        dop_step_collected(m, rows, n, io);
    return st;
}

dop_status
dop_step_finish(dop_sequence *sequence, uint32_t n, uint32_t pos, dop_form form, uint32_t *io_schedule, dop_diag *diag)
{
    dop_model *m = sequence->model;
    dop_sequence_rows rows = {.sequence = sequence, .pos = pos, .n = n};
    dop_issue run = {.schedule = *io_schedule, .form = form};
    if (dop_step_started(m)) /* the results would belong to the started steps */
        return DOP_FAIL(diag, DOP_E_USAGE, "steps of several groups are under way");
    dop_status st = dop_step_issue(m, &rows, 1, &run, diag);
    if (st == DOP_OK)
        st = dop_step_collect(m, &rows, 1, &run, diag);
    *io_schedule = run.schedule;
    if (st != DOP_OK)
        return st;
    dop_sequence_kept(sequence, pos + rows.versions - 1, rows.versions - 1);
    sequence->n_fed = pos + n;
    return dop_head_keep(sequence, *io_schedule, 0, pos, n, diag);
}

bool
dop_step_has(const dop_open_step *step, const dop_sequence *sequence)
{
    for (uint32_t k = 0; k < step->n_sequences; k++)
        if (step->of[k].sequence == sequence)
            return true;
    return false;
}

bool
dop_step_started(const dop_model *model)
{
    return model->ranks && model->ranks->n_started > 0;
}

dop_status
dop_step_none_open(const dop_model *model, dop_diag *diag)
{
    return model->step.n_rows || dop_step_started(model)
               ? DOP_FAIL(diag, DOP_E_USAGE, "a step is neither committed nor rolled back")
               : DOP_OK;
}

dop_status
dop_step_none_has(const dop_model *model, const dop_sequence *sequence, dop_diag *diag)
{
    const dop_ranks *r = model->ranks;
    bool has = model->step.n_rows > 0;
    for (uint32_t i = 0; r && i < r->n_started && !has; i++)
        has = dop_step_has(r->started[(r->first_started + i) % DOP_RANKS_AHEAD], sequence);
    return has ? DOP_FAIL(diag, DOP_E_USAGE, "a step with this sequence is neither committed nor rolled back") : DOP_OK;
}

dop_status
dop_step_not_finite(const dop_model *model, uint32_t pos, dop_diag *diag)
{
    return DOP_FAIL_IN(
        diag, DOP_E_INPUT, model->plan.path,
        "the logits after position %u are not finite (infinite, or not a number): a weight is, or values "
        "grow past what they are stored as; compile with `act` f32 and `kv` f32, or look at the weights",
        pos);
}

dop_status
dop_program_step_pieces(dop_model *m, uint32_t schedule, dop_form form, uint32_t pieces, uint32_t n_rows,
                        dop_diag *diag)
{
    volatile dop_step *step = dop_replay_step(&m->replay);
    uint64_t ticket;
    step->flags = 0;
    step->n_rows = m->replay.n_rows = n_rows;
    DOP_RETURN_IF_ERROR(dop_model_need(m, schedule, diag));
    DOP_RETURN_IF_ERROR(dop_model_make_code(m, schedule, form, diag));
    DOP_RETURN_IF_ERROR(dop_replay_submit_pieces(&m->replay, schedule, form, 1, pieces, diag, &ticket));
    return dop_replay_wait(&m->replay, ticket, diag);
}

dop_status
dop_program_step(dop_model *m, uint32_t schedule, uint32_t n_rows, dop_diag *diag)
{
    return dop_program_step_pieces(m, schedule, DOP_FORM_READ, DOP_PIECES_ALL, n_rows, diag);
}
