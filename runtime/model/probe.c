/* Probes test whether an ordering is correct, and faster than barriers.
 *
 * A probe shares only the weights with the model. It has its own rows, step record, states, results, mailboxes and
 * command buffers, and works on a copy of the sequence's states. Probing at a depth thus uses a cache of that depth,
 * and no fault can affect the sequence. Only the cache positions that the probe reads are copied: it runs between two
 * tokens, where copying a long context would be noticeable.
 *
 * It decodes a few pseudo-random rows with barriers and with the other ordering, each from the same states, and
 * compares the logits. They may differ only as much as a different summation order would explain. The plan shows how
 * much that is: a multi-row schedule computes the same logits with other kernels. The limit is twice its distance from
 * barriers, plus a small constant in case both kernels sum in the same order.
 *
 * A part that makes no logits is judged by the values it sends. A part that receives values gets pseudo-random
 * numbers. */
#include "runtime/model/probe.h"
#include "runtime/model/model_load.h"
#include "runtime/model/model_used.h"
#include "runtime/model/part.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Times are the best of ROUNDS timed submissions of STEPS steps per ordering (fewer if steps are slow), after one of
 * WARM_UP steps. */
enum { WARM_UP = 2, ROUNDS = 2, STEPS = DOP_PROBE_ROWS };
static const double round_ms = 10; /* approximate limit for one round of one ordering */

/* Constant part of the limit, in standard deviations of a row of logits. Reordered f32 sums differ by 1e-5, or 1e-3 if
 * intermediate values are rounded to f16; a broken schedule differs by 0.1 and more. */
static const double floor_distance = 2e-3;

typedef struct prober {
    dop_model *m;
    dop_diag *diag;
    dop_memory memory;
    dop_replay replay;
    dop_used used;
    uint32_t pos;  /* position of the first row */
    uint32_t n;    /* number of rows, at most STEPS */
    bool together; /* true: all rows in one step; false: one step per row */
    uint32_t schedules[3];
    uint32_t rows[STEPS];
    size_t cols;      /* values in a row of logits, or in a row of sent values */
    float *logits[3]; /* [n][cols] by schedule: barriers, the other ordering, several rows; one allocation */
} prober;

enum { BARRIERS, OTHER, SEVERAL };

static uint32_t
next_xorshift(uint32_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 17;
    *x ^= *x << 5;
    return *x;
}

/* Returns the next crossing of schedule `which` at or after *io_from in the plan's table; NULL: no more. */
static const dop_plan_crossing *
next_crossing(const prober *p, uint32_t which, uint32_t way, uint32_t *io_from)
{
    const dop_plan *plan = &p->m->plan;
    while (*io_from < plan->n_crossings) {
        const dop_plan_crossing *x = &plan->crossings[(*io_from)++];
        if (x->schedule == p->schedules[which] && x->way == way)
            return x;
    }
    return NULL;
}

/* Returns the number of f32 values that a row sends. */
static size_t
sent_cols(const prober *p)
{
    const dop_plan_crossing *x;
    size_t n = 0;
    for (uint32_t at = 0; (x = next_crossing(p, BARRIERS, DOP_CROSSING_SENT, &at));)
        n += x->type == DOP_PLAN_F32 ? x->row_bytes / sizeof(float) : 0;
    return n;
}

/* Fills in received values for n_rows rows from `first` on, with pseudo-random f32 numbers. Other types are 0. */
static void
receive_probe_values(prober *p, uint32_t which, uint32_t first, uint32_t n_rows)
{
    const dop_plan_crossing *x;
    for (uint32_t at = 0; (x = next_crossing(p, which, DOP_CROSSING_RECEIVED, &at));) {
        uint8_t *slot = dop_memory_host(&p->memory, x->slot);
        for (uint32_t r = 0; r < (x->one_row ? 1 : n_rows); r++) {
            uint32_t seed = 0x9e3779b9u + 977u * (x->one_row ? first + n_rows - 1 : first + r);
            float *row = (float *)(void *)(slot + x->offset + r * x->row_bytes);
            memset(row, 0, x->row_bytes);
            for (size_t i = 0; x->type == DOP_PLAN_F32 && i < x->row_bytes / sizeof *row; i++)
                row[i] = (float)(int32_t)next_xorshift(&seed) * 0x1p-31f;
        }
    }
}

/* Copies the logits of the last of n_rows rows, or the values that it sends. */
static void
keep_probe_logits(prober *p, uint32_t which, uint32_t n_rows, float *out)
{
    const dop_plan_crossing *x;
    if (!dop_part_is_inner(p->m)) {
        memcpy(out, dop_replay_logits(&p->replay, p->schedules[which]), p->cols * sizeof *out);
        return;
    }
    for (uint32_t at = 0; (x = next_crossing(p, which, DOP_CROSSING_SENT, &at));) {
        const uint8_t *slot = dop_memory_host(&p->memory, x->slot);
        const size_t n = x->type == DOP_PLAN_F32 ? x->row_bytes / sizeof(float) : 0;
        memcpy(out, slot + x->offset + (x->one_row ? 0 : n_rows - 1) * x->row_bytes, n * sizeof(float));
        out += n;
    }
}

static dop_status
prober_init(prober *p)
{
    dop_model *m = p->m;
    const dop_plan *plan = &m->plan;
    p->cols = dop_part_is_inner(m) ? sent_cols(p) : plan->model->vocab;
    size_t n = (size_t)p->n * p->cols;
    uint32_t x = 0x9e3779b9u;
    dop_status st = dop_used_init(plan, p->diag, &p->used);
    p->logits[0] = calloc(3 * n + 1, sizeof(float));
    if (st == DOP_OK && !p->logits[0])
        st = DOP_NO_MEMORY(p->diag);
    if (st != DOP_OK)
        return st;
    for (uint32_t i = 0; i < 3; i++) {
        p->logits[i] = p->logits[0] + i * n;
        if (p->schedules[i] != UINT32_MAX)
            dop_used_add(plan, p->schedules[i], &p->used);
    }
    for (uint32_t i = 0; i < STEPS; i++)
        p->rows[i] = next_xorshift(&x) % plan->model->vocab;
    const dop_memory_use use = {p->used.slots, p->used.schedules, p->used.n,
                                m->memory.shared ? DOP_SHARING_ON : DOP_SHARING_OFF, p->pos + STEPS};
    uint64_t allocations = m->device.allocations;
    if ((st = dop_memory_beside(&m->memory, plan, &use, p->diag, &p->memory)) == DOP_OK)
        st = dop_replay_create(&m->device, plan, &p->memory, &m->pipelines, p->diag, &p->replay);
    for (uint32_t i = 0; i < 3 && st == DOP_OK; i++)
        if (p->schedules[i] != UINT32_MAX)
            st = dop_replay_add(&p->replay, p->schedules[i], p->diag);
    /* the probe's allocations do not count as the model's */
    m->base.allocations += m->device.allocations - allocations;
    return st;
}

static void
prober_finish(prober *p)
{
    p->m->base.recordings += p->replay.recordings;
    if (p->replay.device)
        dop_replay_destroy(&p->replay);
    dop_memory_destroy(&p->memory);
    free(p->logits[0]);
    free(p->used.schedules);
}

/* Resets the states to those of the sequence, and empties the mailboxes. */
static dop_status
restore_probe_states(prober *p)
{
    uint64_t ticket;
    DOP_RETURN_IF_ERROR(dop_replay_clear(&p->replay, DOP_CLEAR_ALL, p->diag, &ticket));
    if (p->pos > 0)
        DOP_RETURN_IF_ERROR(dop_replay_copy_states(&p->replay, &p->m->memory, p->diag, &ticket));
    DOP_RETURN_IF_ERROR(dop_replay_wait(&p->replay, ticket, p->diag));
    memset((void *)(uintptr_t)dop_replay_step(&p->replay), 0, sizeof(dop_step));
    return DOP_OK;
}

/* Runs the schedule n times with rows from `first` on. *out_stalled: true if a wait exceeded its bound or a step did
 * not end. */
static dop_status
run_probe_steps(prober *p, uint32_t which, uint32_t first, uint32_t n_rows, uint32_t parity, dop_form form, uint32_t n,
                bool *out_stalled)
{
    volatile dop_step *step = dop_replay_step(&p->replay);
    uint32_t before = step->n_out;
    /* Only the last part picks, although the schedules of all parts say what it picks. */
    const bool picks_here =
        !dop_part_is_inner(p->m) && p->m->plan.schedules[p->schedules[which]].greedy == DOP_PICKS_NEXT;
    const uint32_t picks = picks_here ? n : 0;
    uint64_t ticket;
    receive_probe_values(p, which, first, n_rows);
    dop_replay_write_step(&p->replay, p->rows + first, n_rows, p->pos + first, parity);
    dop_status st = DOP_OK;
    DOP_TRY(dop_replay_submit(&p->replay, p->schedules[which], form, n, p->diag, &ticket));
    DOP_TRY(dop_replay_wait(&p->replay, ticket, p->diag));
error:
    *out_stalled = which == OTHER && ((step->flags & DOP_STEP_STALLED) || step->n_out - before != picks);
    return st;
}

/* Collects the logits of every row from one schedule. */
static dop_status
collect_probe_logits(prober *p, uint32_t which, bool *out_stalled)
{
    dop_status st = restore_probe_states(p);
    *out_stalled = false;
    if (p->together && which != SEVERAL && st == DOP_OK) {
        st = run_probe_steps(p, which, 0, p->n, p->m->parity[0], DOP_FORM_READ, 1, out_stalled);
        if (st == DOP_OK)
            memcpy(p->logits[which], dop_replay_logits(&p->replay, p->schedules[which]),
                   p->n * p->cols * sizeof(float));
        return st;
    }
    for (uint32_t i = 0; i < p->n && st == DOP_OK && !*out_stalled; i++) {
        /* SEVERAL runs rows 0 .. i in one step each time, from the sequence's states; otherwise steps follow one
         * another. */
        uint32_t first = which == SEVERAL ? 0 : i, n = i + 1 - first,
                 parity = (p->m->parity[0] + first) % p->m->plan.model->state_copies;
        st = run_probe_steps(p, which, first, n, parity, DOP_FORM_READ, 1, out_stalled);
        if (st == DOP_OK)
            keep_probe_logits(p, which, n, p->logits[which] + i * p->cols);
    }
    return st;
}

/* Returns the largest root mean square difference of a row, in standard deviations of the row with barriers. NaN or
 * infinite if a logit is. */
static double
measure_distance(const prober *p, uint32_t which)
{
    const size_t cols = p->cols;
    double worst = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        const float *a = p->logits[BARRIERS] + i * cols, *b = p->logits[which] + i * cols;
        double sum = 0, squares = 0, apart = 0;
        for (size_t k = 0; k < cols; k++) {
            double x = (double)a[k], d = (double)b[k] - x;
            sum += x;
            squares += x * x;
            apart += d * d;
        }
        double n = (double)cols, variance = squares / n - (sum / n) * (sum / n);
        double here = apart > 0 ? sqrt(apart / n / variance) : apart;
        if (!(here <= worst))
            worst = here;
        if (isnan(worst))
            break;
    }
    return worst;
}

static dop_status
compare_orderings(prober *p, dop_probe_result *out)
{
    bool stalled;
    out->bound = floor_distance;
    dop_status st = collect_probe_logits(p, BARRIERS, &stalled);
    if (st == DOP_OK && p->schedules[SEVERAL] != UINT32_MAX &&
        (st = collect_probe_logits(p, SEVERAL, &stalled)) == DOP_OK)
        out->bound += 2 * measure_distance(p, SEVERAL);
    if (st == DOP_OK)
        st = collect_probe_logits(p, OTHER, &stalled);
    if (st != DOP_OK)
        return st;
    out->distance = measure_distance(p, OTHER);
    if (stalled)
        out->fault = "a wait ran out";
    else if (!isfinite(out->bound) || !(out->distance <= out->bound))
        out->fault = "its logits are others";
    return DOP_OK;
}

/* Measures the best time of a step of both orderings, alternating, with the first one swapped each round. */
static dop_status
measure_step_times(prober *p, dop_probe_result *out)
{
    uint32_t n = WARM_UP;
    out->ms[0] = out->ms[1] = (double)INFINITY;
    for (uint32_t round = 0; round <= ROUNDS; round++) {
        double t[2];
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t o = (round + i) % 2;
            bool stalled;
            double start = dop_now_ms();
            dop_status st =
                run_probe_steps(p, o, 0, p->together ? p->n : 1, p->m->parity[0], DOP_FORM_FULL, n, &stalled);
            t[o] = (dop_now_ms() - start) / n;
            if (st != DOP_OK)
                return st;
            if (stalled) {
                out->fault = "a wait ran out";
                return DOP_OK;
            }
        }
        if (round == 0)
            n = t[0] * STEPS < round_ms ? STEPS : t[0] * 2 < round_ms ? 2 : 1;
        for (uint32_t o = 0; o < 2 && round > 0; o++)
            out->ms[o] = t[o] < out->ms[o] ? t[o] : out->ms[o];
    }
    return DOP_OK;
}

static dop_status
run_probe(const prober *of, dop_diag *diag, dop_probe_result *out)
{
    dop_diag why = {0};
    prober p = *of;
    dop_model *m = p.m;
    p.diag = &why;
    *out = (dop_probe_result){.fault = NULL};
    dop_status st = prober_init(&p);
    out->bytes = p.memory.total;
    if (st != DOP_OK && !m->device.lost) {
        dop_log_printf(&m->log, "ordering: a probe has no room beside the model: %s", why.message);
        out->fault = "there is no room for a probe";
        st = DOP_OK;
    } else if (st == DOP_OK && (st = compare_orderings(&p, out)) == DOP_OK && !out->fault) {
        st = measure_step_times(&p, out);
    }
    if (st != DOP_OK && diag)
        *diag = why;
    prober_finish(&p);
    return st;
}

dop_status
dop_probe_run(dop_model *model, uint32_t other, uint32_t pos, dop_diag *diag, dop_probe_result *out)
{
    prober p = {.m = model,
                .pos = pos,
                .n = STEPS,
                .schedules = {model->orders.decode[DOP_ORDER_BARRIERS], model->orders.decode[other],
                              model->orders.probe_prefill}};
    return run_probe(&p, diag, out);
}

dop_status
dop_probe_rows(dop_model *model, uint32_t barriers, uint32_t other, dop_diag *diag, dop_probe_result *out)
{
    const uint32_t prefill = model->orders.probe_prefill;
    prober p = {
        .m = model,
        .n = model->plan.schedules[barriers].max_rows,
        .together = true,
        .schedules = {barriers, other, prefill != UINT32_MAX && dop_model_has(model, prefill) ? prefill : UINT32_MAX}};
    return run_probe(&p, diag, out);
}
