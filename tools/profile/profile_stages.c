/* Times of the stages of a persistent dispatch; see profile_stages.h for the method. */
#include "tools/profile/profile_stages.h"
#include "runtime/model/model.h"
#include "tools/profile/profile.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_ROUNDS = 3, MOST_ROUNDS = 25 };
static const double enough_ms = 2000; /* time limit for starting rounds after LEAST_ROUNDS */

typedef struct stages {
    dop_model *model;
    const dop_plan_schedule *schedule;
    const dop_plan_dispatch *dispatch;
    VkQueryPool queries; /* two timestamps per run; run i executes the first i + 1 stages */
    uint64_t args[16];
    uint32_t counts;  /* argument with the number of stages to run */
    uint32_t runs;    /* runs so far in the current round */
    uint64_t *ticks;  /* [2 * n_stages] */
    double *ms;       /* [n_stages][MOST_ROUNDS] */
    double *levels;   /* [n_stages]: means of neighboring runs, pooled by isotonic regression */
    uint32_t *widths; /* [n_stages]: number of runs in each of `levels` */
} stages;

static dop_status
prepare_stage_runs(stages *x, dop_diag *diag)
{
    const dop_model *m = x->model;
    const uint32_t n = x->schedule->n_stages;
    x->counts = x->dispatch->n_args;
    for (uint32_t i = x->dispatch->n_args; i-- > 0;) {
        const dop_plan_arg *a = &m->plan.args[x->dispatch->first_arg + i];
        x->args[i] = dop_memory_arg(&m->memory, a);
        if (a->slot == DOP_ARG_NUMBERS)
            x->counts = i;
    }
    if (x->counts == x->dispatch->n_args || (uint32_t)x->args[x->counts] != n)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path, "the plan is damaged: its stages are not counted");
    x->ticks = calloc(2 * (size_t)n, sizeof *x->ticks);
    x->ms = calloc((size_t)n * MOST_ROUNDS, sizeof *x->ms);
    x->levels = calloc(n, sizeof *x->levels);
    x->widths = calloc(n, sizeof *x->widths);
    if (!x->ticks || !x->ms || !x->levels || !x->widths)
        return DOP_NO_MEMORY(diag);
    VkQueryPoolCreateInfo queries = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = 2 * n};
    VkResult r = vkCreateQueryPool(m->device.handle, &queries, NULL, &x->queries);
    return r == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, r, "vkCreateQueryPool");
}

/* Clears both mailbox copies, and makes the next step use the first copy. */
static dop_status
clear_mailboxes(stages *x, dop_diag *diag)
{
    dop_replay *r = &x->model->replay;
    uint64_t ticket;
    DOP_RETURN_IF_ERROR(dop_replay_clear(r, DOP_CLEAR_SYNC, diag, &ticket));
    DOP_RETURN_IF_ERROR(dop_replay_wait(r, ticket, diag));
    *dop_plan_runs(dop_replay_step(r), x->schedule) = 0;
    return DOP_OK;
}

/* Records a run with n stages. It uses the other mailbox copy than the run before, as consecutive steps do. */
static void
record_run(stages *x, VkCommandBuffer commands, uint32_t n)
{
    const dop_model *m = x->model;
    const dop_slot_place *step = &m->memory.places[m->plan.step_slot];
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT};
    const uint32_t rows = x->schedule->max_rows;
    const uint64_t runs = rows == 1 ? offsetof(dop_step, persistent_runs) : offsetof(dop_step, several_runs[rows - 1]);
    vkCmdFillBuffer(commands, m->memory.blocks[step->block].buffer, step->offset + runs, 4, x->runs++);
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1, &all,
                         0, NULL, 0, NULL);
    uint64_t *counts = &x->args[x->counts];
    *counts = (*counts & ~(uint64_t)UINT32_MAX) | n;
    vkCmdPushConstants(commands, m->pipelines.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                       x->dispatch->n_args * (uint32_t)sizeof x->args[0], x->args);
    vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, x->queries, 2 * n - 2);
    vkCmdDispatch(commands, x->dispatch->grid[0], x->dispatch->grid[1], x->dispatch->grid[2]);
    vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, x->queries, 2 * n - 1);
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1, &all,
                         0, NULL, 0, NULL);
}

/* Runs one round: the dispatch with 1, 2, ... n_stages stages. */
static dop_status
run_stage_round(stages *x, uint32_t round, dop_diag *diag)
{
    dop_model *m = x->model;
    const uint32_t n = x->schedule->n_stages, bits = m->device.info.timestamp_bits;
    const uint64_t mask = bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    VkCommandBuffer commands;
    uint64_t ticket;
    dop_status st = clear_mailboxes(x, diag);
    if (st == DOP_OK)
        st = dop_replay_begin(&m->replay, diag, &commands);
    if (st != DOP_OK)
        return st;
    x->runs = 0;
    vkCmdResetQueryPool(commands, x->queries, 0, 2 * n);
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, m->pipelines.rows[x->dispatch->kernel]);
    for (uint32_t i = 1; i <= n; i++)
        record_run(x, commands, i);
    st = dop_replay_end(&m->replay, diag, &ticket);
    if (st == DOP_OK)
        st = dop_replay_wait(&m->replay, ticket, diag);
    if (st != DOP_OK)
        return st;
    VkResult r = vkGetQueryPoolResults(m->device.handle, x->queries, 0, 2 * n, 2 * n * sizeof *x->ticks, x->ticks,
                                       sizeof *x->ticks, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    if (r != VK_SUCCESS)
        return DOP_VK_FAIL(diag, r, "vkGetQueryPoolResults");
    for (uint32_t i = 0; i < n; i++)
        x->ms[i * MOST_ROUNDS + round] =
            (double)((x->ticks[2 * i + 1] - x->ticks[2 * i]) & mask) * (double)m->device.info.timestamp_period * 1e-6;
    return DOP_OK;
}

static int
compare_ms(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Computes each stage's fraction of the time from the medians of the runs. Times must not decrease with the number
 * of stages, so violating neighbors are averaged and share the increase (isotonic regression, pool adjacent violators). */
static void
compute_stage_shares(stages *x, uint32_t rounds, double *shares)
{
    double *level = x->levels, before = 0;
    uint32_t *width = x->widths, pools = 0, at = 0;
    for (uint32_t i = 0; i < x->schedule->n_stages; i++) {
        qsort(x->ms + i * MOST_ROUNDS, rounds, sizeof *x->ms, compare_ms);
        level[pools] = x->ms[i * MOST_ROUNDS + rounds / 2];
        width[pools++] = 1;
        for (; pools > 1 && level[pools - 1] < level[pools - 2]; pools--) {
            uint32_t *w = &width[pools - 2];
            level[pools - 2] = (level[pools - 2] * w[0] + level[pools - 1] * w[1]) / (w[0] + w[1]);
            w[0] += w[1];
        }
    }
    const double whole = level[pools - 1] > 0 ? level[pools - 1] : 1;
    for (uint32_t i = 0; i < pools; before = level[i++])
        for (uint32_t k = 0; k < width[i]; k++)
            shares[at++] = (level[i] - before) / width[i] / whole;
}

dop_status
dop_profile_stages(dop_profile *profile, dop_model *model, dop_diag *diag)
{
    const uint32_t decode = model->info.ordering == DOP_ORDER_PERSISTENT ? model->info.decode : UINT32_MAX;
    const uint32_t schedule = model->orders.last_rows != UINT32_MAX ? model->orders.last_rows : decode;
    if (schedule == UINT32_MAX)
        return DOP_OK;
    stages x = {.model = model, .schedule = &model->plan.schedules[schedule]};
    x.dispatch = &model->plan.dispatches[x.schedule->first_dispatch];
    volatile dop_step *step = dop_replay_step(&model->replay);
    uint32_t rounds = 0;
    double start = dop_now_ms(), *shares = calloc(x.schedule->n_stages, sizeof *shares);
    dop_status st = DOP_OK;
    DOP_TRY(shares ? dop_replay_wait(&model->replay, model->replay.submitted, diag) : DOP_NO_MEMORY(diag));
    DOP_TRY(prepare_stage_runs(&x, diag));
    if (step->rows[0].position >= model->plan.model->ctx)
        /* at most the last position of the context */
        step->rows[0].position = model->plan.model->ctx - 1;
    while (rounds < MOST_ROUNDS && (rounds < LEAST_ROUNDS || dop_now_ms() - start < enough_ms))
        DOP_TRY(run_stage_round(&x, rounds++, diag));
    DOP_TRY(clear_mailboxes(&x, diag));
    if (step->flags & DOP_STEP_STALLED)
        DOP_TRY(DOP_FAIL(diag, DOP_E_DEVICE,
                         "the stages of a persistent dispatch stalled: profile with --ordering barriers"));
    compute_stage_shares(&x, rounds, shares);
    profile->staged = schedule;
    profile->stage_shares = shares;
    shares = NULL;
error:
    if (x.queries)
        vkDestroyQueryPool(model->device.handle, x.queries, NULL);
    free(x.ticks);
    free(x.ms);
    free(x.levels);
    free(x.widths);
    free(shares);
    return st;
}

uint32_t
dop_profile_n_dispatches(const dop_profile *p, uint32_t schedule)
{
    const dop_plan_schedule *s = &p->info.plan->schedules[schedule];
    return s->n_dispatches + (p->stage_shares && schedule == p->staged ? s->n_stages - 1 : 0);
}

uint32_t
dop_profile_dispatch(const dop_profile *p, uint32_t schedule, uint32_t i)
{
    const dop_plan_schedule *s = &p->info.plan->schedules[schedule];
    if (!p->stage_shares || schedule != p->staged)
        return s->first_dispatch + i;
    return i < s->n_stages ? s->first_stage + i : s->first_dispatch + 1 + i - s->n_stages;
}

dop_status
dop_profile_cut_stages(dop_profile *p, dop_diag *diag)
{
    if (!p->stage_shares)
        return DOP_OK;
    const uint32_t more = p->info.plan->schedules[p->staged].n_stages - 1;
    double *times = calloc(p->n_times + p->n_steps * (size_t)more + 1, sizeof *times);
    if (!times)
        return DOP_NO_MEMORY(diag);
    size_t n = 0;
    for (size_t i = 0; i < p->n_steps; i++) {
        dop_profile_step *s = &p->steps[i];
        const double *t = &p->times[s->first_time];
        const uint32_t cuts = s->schedule == p->staged ? more : 0;
        double at = t[0];
        s->first_time = n;
        times[n++] = t[0];
        for (uint32_t k = 0; k < cuts; k++)
            times[n++] = at += p->stage_shares[k] * (t[1] - t[0]);
        for (uint32_t k = 1; k <= s->n_dispatches; k++)
            times[n++] = t[k];
        s->n_dispatches += cuts;
    }
    free(p->times);
    p->times = times;
    p->n_times = n;
    return DOP_OK;
}
