/* Check of persistent dispatches stage by stage; see check_stages.h. */
#include "tools/check/check_stages.h"

#include "base/program/print.h"
#include "ir/graph/cache_row.h"
#include "ir/graph/dims.h"
#include "plan/plan_names.h"
#include "runtime/model/model_load.h"
#include "runtime/model/ordering.h"
#include "runtime/step/step.h"
#include "tools/check/check.h"
#include "tools/check/check_compare.h"
#include "tools/check/check_device.h"
#include "tools/check/check_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 9 };

typedef struct stages {
    dop_check_device *device;
    const dop_plan *plan;
    const dop_graph *g;
    const dop_check_result *results; /* [n_kernels]: their bounds */
    const dop_plan_schedule *persistent, *barriers;
    dop_diag *diag;
    float *logits;      /* [vocab]: logits of the step */
    uint32_t slot;      /* slot of the mailboxes */
    uint64_t copy_size; /* size of one copy of the mailboxes in bytes */
    uint64_t copy;      /* byte offset of the copy that this step uses */
    uint32_t pos;
    uint32_t parity; /* parity of the sequence before the step */
    uint64_t values; /* number of values compared */
    double worst;    /* largest error, as a fraction of its bound */
    char where[128];
} stages;

/* Value produced by a stage. */
typedef struct made {
    const dop_plan_arg *arg; /* argument that holds the value in the other schedule's kernel */
    uint64_t offset;
    dop_type type;
    uint32_t n;
    float *value;
} made;

/* Returns the dispatch's argument for this value in a slot of this kind (0: any), or NULL. */
static const dop_plan_arg *
find_arg(const stages *x, const dop_plan_dispatch *d, const char *name, uint32_t kind)
{
    for (uint32_t i = 0; i < d->n_args; i++) {
        const dop_plan_arg *a = &x->plan->args[d->first_arg + i];
        if (a->slot != DOP_ARG_NUMBERS && (!kind || x->plan->slots[a->slot].kind == kind) &&
            strcmp(dop_plan_string(x->plan, a->value), name) == 0)
            return a;
    }
    return NULL;
}

static dop_status
fail_damaged_stage(const stages *x, const dop_plan_dispatch *d)
{
    return DOP_FAIL_IN(x->diag, DOP_E_INPUT, x->plan->path, "the plan is damaged: stage %s does not fit its graph",
                       dop_plan_string(x->plan, d->label));
}

static dop_status
read_values(stages *x, const dop_plan_arg *a, uint64_t offset, dop_type type, uint32_t n, float *out)
{
    uint64_t bytes = dop_cache_row_bytes(type, n);
    void *raw = malloc((size_t)bytes);
    dop_status st = DOP_OK;
    DOP_TRY(raw ? dop_check_read(x->device, a->slot, a->offset + offset, raw, bytes, x->diag) : DOP_NO_MEMORY(x->diag));
    dop_check_decode(type, raw, n, out);
error:
    free(raw);
    return st;
}

/* Copies the stage's mailbox inputs to the buffers that the other schedule's dispatch reads. */
static dop_status
copy_stage_inputs(stages *x, const dop_plan_dispatch *stage, const dop_plan_dispatch *other)
{
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < stage->n_args && st == DOP_OK; i++) {
        const dop_plan_arg *from = &x->plan->args[stage->first_arg + i];
        if (from->slot == DOP_ARG_NUMBERS || x->plan->slots[from->slot].kind != DOP_SLOT_MAILBOX)
            continue;
        const char *name = dop_plan_string(x->plan, from->value);
        const dop_plan_arg *to = find_arg(x, other, name, 0);
        dop_node_id id = 1;
        while (id < x->g->n_nodes && strcmp(dop_node_at(x->g, id)->name, name) != 0)
            id++;
        if (id == x->g->n_nodes)
            return fail_damaged_stage(x, stage);
        if (!to || dop_region_has(&x->g->regions[stage->region], id))
            continue;
        uint32_t n = dop_node_cols(x->g, id);
        uint64_t bytes = (uint64_t)n * sizeof(float);
        if (x->copy_size + bytes > from->size || bytes > to->size)
            return fail_damaged_stage(x, stage);
        float *row = malloc(2 * (size_t)bytes);
        st = row ? read_values(x, from, x->copy, DOP_TYPE_f32, n, row) : DOP_NO_MEMORY(x->diag);
        if (st == DOP_OK) { /* expert ids in mailboxes are floats, too */
            dop_type type = dop_node_at(x->g, id)->type == DOP_TYPE_u32 ? DOP_TYPE_u32 : DOP_TYPE_f32;
            dop_check_encode(type, row, n, row + n);
            st = dop_check_write(x->device, to->slot, to->offset, row + n, bytes, x->diag);
        }
        free(row);
    }
    return st;
}

/* Reads a value of the region as the stage left it. Its n is 0 if the value has no mailbox. */
static dop_status
read_stage_value(stages *x, const dop_plan_dispatch *stage, const dop_plan_dispatch *other, dop_node_id id,
                 made *out_made)
{
    made *m = out_made;
    const dop_node *n = dop_node_at(x->g, id);
    bool write = dop_node_is(x->g, id, DOP_EFFECT);
    dop_node_id place = write ? dop_storage_node(x->g, id) : id;
    const dop_plan_arg *mailbox = write ? NULL : find_arg(x, stage, n->name, DOP_SLOT_MAILBOX);
    uint32_t cols = dop_node_cols(x->g, id);
    *m = (made){.arg = find_arg(x, other, dop_node_at(x->g, place)->name, 0), .type = n->type};
    bool logits = m->arg && m->arg->slot == x->barriers->logits_slot;
    if (!m->arg || n->op == DOP_OP_attn_split || (!write && !mailbox && !logits))
        return DOP_OK;
    bool blocks = write && dop_shape_blocks(&n->shape, n->type);
    bool plain = n->type == DOP_TYPE_f16 || n->type == DOP_TYPE_f32 || n->type == DOP_TYPE_u32;
    uint64_t row = blocks || plain ? dop_cache_row_bytes(n->type, cols) : 0;
    uint64_t replaced = dop_node_rows(x->g, place, 1) * row; /* size of one copy in bytes */
    bool appends = dop_shape_appends(&n->shape);
    m->offset = !write    ? 0
                : appends ? x->pos % dop_cache_rows(x->g, id) * row
                          : (x->parity + 1) % x->plan->model->state_copies * replaced;
    if (row == 0 || m->offset + row > m->arg->size || (mailbox && x->copy_size + row > mailbox->size) ||
        (logits && cols != x->plan->model->vocab))
        return fail_damaged_stage(x, stage);
    m->n = cols;
    m->value = malloc(cols * sizeof *m->value);
    if (!m->value)
        return DOP_NO_MEMORY(x->diag);
    if (logits) {
        memcpy(m->value, x->logits, cols * sizeof *m->value);
        return DOP_OK;
    }
    return mailbox ? read_values(x, mailbox, x->copy, DOP_TYPE_f32, cols, m->value)
                   : read_values(x, m->arg, m->offset, m->type, cols, m->value);
}

/* Restores a cache row as the stage left it, because later stages read it. */
static dop_status
restore_cache_row(stages *x, const made *m)
{
    uint64_t bytes = dop_cache_row_bytes(m->type, m->n);
    void *raw = malloc((size_t)bytes);
    if (!raw)
        return DOP_NO_MEMORY(x->diag);
    dop_check_encode(m->type, m->value, m->n, raw);
    dop_status st = dop_check_write(x->device, m->arg->slot, m->arg->offset + m->offset, raw, bytes, x->diag);
    free(raw);
    return st;
}

/* Returns the error bound of a stage, in standard deviations of the value. A stage may skip the 8-bit rounding of
 * activations that the dispatch does (gemv_subgroup_mixed). That rounding is up to 1/254 of a block's maximum (2 to 3
 * deviations), so 0.006 deviations on average. Sums have the same average; the worst of thousands is 4 times larger,
 * and gate times up another 2 times. The rest allows for blocks with outliers. A stage may also round to f16 where the
 * dispatch does not (long rows in shared memory). */
static double
get_stage_bound(const stages *x, const dop_plan_dispatch *stage, const dop_plan_dispatch *other)
{
    static const double unrounded = 0.1;
    bool rounds = x->plan->kernels[other->kernel].rounding == DOP_ROUNDING_i8;
    const double bound = dop_check_bound(stage->stage_rounding, x->g, &x->g->regions[stage->region]);
    return rounds && stage->stage_rounding != DOP_ROUNDING_i8 ? unrounded
                                                              : fmax(bound, x->results[other->kernel].bound);
}

/* Compares a stage's value with the dispatch's. The error is in standard deviations of the value, beyond one
 * rounding step for f16 and blocks. */
static dop_status
compare_stage_value(stages *x, const dop_plan_dispatch *stage, const dop_plan_dispatch *other, const char *name,
                    const made *m)
{
    float *want = malloc((m->n + 1) * sizeof *want);
    if (!want)
        return DOP_NO_MEMORY(x->diag);
    double sum = 0, squares = 0, most = 0, step = m->type == DOP_TYPE_f32 ? 0 : 1.0 / 1024;
    const bool blocks = dop_cache_blocks(m->type);
    dop_status st = read_values(x, m->arg, m->offset, m->type, m->n, want);
    for (uint32_t i = 0; i < m->n && st == DOP_OK; i++) {
        double w = (double)want[i], d = fabs((double)m->value[i] - w) - step * fabs(w);
        if (blocks) /* one step between neighboring values of the block */
            d -= (1 + step) * (double)dop_cache_step(m->type, want + i / DOP_CACHE_BLOCK * DOP_CACHE_BLOCK);
        sum += w;
        squares += w * w;
        most = !(d <= most) ? d : most; /* keeps NaN */
    }
    double mean = sum / m->n, deviation = sqrt(squares / m->n - mean * mean);
    double share = most / (deviation > 0 ? deviation : 1) / get_stage_bound(x, stage, other);
    if (!(share <= x->worst)) {
        x->worst = share;
        snprintf(x->where, sizeof x->where, "%s %%%s at position %u", dop_plan_string(x->plan, stage->label), name,
                 x->pos);
    }
    x->values += m->n;
    free(want);
    return st;
}

static dop_status
check_stage(stages *x, const dop_plan_dispatch *stage)
{
    const dop_plan_dispatch *other = &x->plan->dispatches[x->barriers->first_dispatch];
    for (uint32_t i = 0; i + 1 < x->barriers->n_dispatches && other->region != stage->region; i++)
        other++;
    if (other->region != stage->region)
        return fail_damaged_stage(x, stage);
    const dop_region *r = &x->g->regions[stage->region];
    made *outs = calloc(r->n_outs + 1, sizeof *outs);
    dop_status st = outs ? DOP_OK : DOP_NO_MEMORY(x->diag);
    for (uint32_t i = 0; i < r->n_outs && st == DOP_OK; i++)
        st = read_stage_value(x, stage, other, r->outs[i], &outs[i]);
    if (st == DOP_OK)
        st = copy_stage_inputs(x, stage, other);
    if (st == DOP_OK)
        st = dop_check_dispatch(x->device, other, x->diag);
    for (uint32_t i = 0; i < r->n_outs && st == DOP_OK; i++) {
        const dop_node *n = dop_node_at(x->g, r->outs[i]);
        if (outs[i].n > 0)
            st = compare_stage_value(x, stage, other, n->name, &outs[i]);
        if (outs[i].n > 0 && dop_node_is(x->g, r->outs[i], DOP_EFFECT) && st == DOP_OK)
            st = restore_cache_row(x, &outs[i]);
    }
    for (uint32_t i = 0; i < r->n_outs && outs; i++)
        free(outs[i].value);
    free(outs);
    return st;
}

static void
note_stage_failure(stages *x, const char *what)
{
    x->worst = (double)INFINITY;
    snprintf(x->where, sizeof x->where, "%s at position %u", what, x->pos);
}

/* Checks that the other mailbox copy is clear: stages clear a value's place there when they store it, including
 * attention splits that this step does not use. */
static dop_status
check_cleared(stages *x)
{
    uint64_t other = x->copy ? 0 : x->copy_size;
    uint32_t *words = malloc((size_t)x->copy_size);
    if (!words)
        return DOP_NO_MEMORY(x->diag);
    dop_status st = dop_check_read(x->device, x->slot, other, words, x->copy_size, x->diag);
    bool left = false;
    for (uint64_t i = 0; i < x->copy_size / 4 && st == DOP_OK; i++)
        left = left || words[i] != UINT32_MAX;
    if (left)
        note_stage_failure(x, "values are left for the next step");
    free(words);
    return st;
}

static void
check_pick(stages *x, uint32_t pick)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < x->plan->model->vocab; i++)
        if (x->logits[i] > x->logits[best])
            best = i;
    if (pick != best)
        note_stage_failure(x, "a token is picked that has not the largest logit");
}

static dop_status
check_step(stages *x, uint32_t token)
{
    dop_model *s = x->device->model;
    uint32_t schedule = (uint32_t)(x->persistent - x->plan->schedules);
    dop_issue run = {.schedule = schedule, .form = DOP_FORM_READ, .own = true};
    dop_replay_write_step(&s->replay, &token, 1, x->pos, s->parity[0]);
    const volatile dop_step *record = dop_replay_step(&s->replay);
    uint32_t n_out = record->n_out;
    x->parity = s->parity[0];
    x->copy = x->copy_size * (record->persistent_runs & 1);
    dop_status st = dop_step_issue(s, NULL, 0, &run, x->diag);
    if (st == DOP_OK)
        st = dop_replay_wait(&s->replay, run.ticket, x->diag);
    s->flight.picks_taken = s->flight.picks_asked;
    if (st == DOP_OK && dop_model_stalled(s, s->flight.picks_asked))
        st = DOP_FAIL(x->diag, DOP_E_DEVICE, "a wait ran out in a persistent dispatch");
    if (st != DOP_OK)
        return st;
    memcpy(x->logits, dop_replay_logits(&s->replay, schedule), x->plan->model->vocab * sizeof *x->logits);
    check_pick(x, record->ids[n_out % DOP_STEP_RING]);
    if ((st = check_cleared(x)) != DOP_OK)
        return st;
    dop_replay_write_step(&s->replay, &token, 1, x->pos, s->parity[0]); /* the last dispatch advanced the record */
    for (uint32_t i = 0; i < x->persistent->n_stages && st == DOP_OK; i++)
        st = check_stage(x, &x->plan->dispatches[x->persistent->first_stage + i]);
    dop_step_move_states(s, 0, 1); /* advances the parity of states */
    return st;
}

/* Returns the position of a step. Steps 0 to 2 are around the position where a stage changes its behavior, or in
 * mid-cache, where attention has several splits. Steps 3 to 5 are at the start, where attention must ignore the former;
 * later steps return to the first positions. */
static uint32_t
choose_step_position(const stages *x, uint32_t step)
{
    uint32_t far = 0, ctx = x->plan->model->ctx;
    for (uint32_t i = 0; i < x->persistent->n_stages; i++) {
        uint32_t positions = x->plan->dispatches[x->persistent->first_stage + i].short_positions;
        far = positions > far ? positions : far;
    }
    if (ctx < 2 * STEPS)
        return step % ctx;
    if (far < STEPS || far > ctx - STEPS)
        far = ctx / 2;
    return step / 3 == 1 ? step - 3 : far + step % 3 - (step < 3 ? 2 : 1);
}

static dop_status
print_line(const stages *x)
{
    dop_buf line = {0};
    dop_buf_printf(&line, "%-4s  %-36s %-16s error %.2f of the bounds of its kernels  %llu values\n",
                   x->worst <= 1 ? "ok" : "MISS", "persistent", "stages", x->worst, (unsigned long long)x->values);
    if (!(x->worst <= 1))
        dop_buf_printf(&line, "      %s\n", x->where);
    dop_status st = dop_cli_print_buf(&line, x->diag);
    dop_buf_finish(&line);
    return st;
}

/* Clears replace states: earlier kernel checks leave NaN in copies that no kernel wrote. */
static dop_status
clear_replaced(const stages *x)
{
    const dop_plan *p = x->plan;
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < p->n_states && st == DOP_OK; i++) {
        const dop_plan_state *s = &p->states[i];
        if (s->copy_stride == 0)
            continue;
        void *none = calloc(1, (size_t)s->row_bytes);
        st = none ? dop_check_write(x->device, s->slot, s->offset + x->device->model->parity[0] * s->copy_stride, none,
                                    s->row_bytes, x->diag)
                  : DOP_NO_MEMORY(x->diag);
        free(none);
    }
    return st;
}

dop_status
dop_check_stages(dop_check_device *device, const dop_graph *graphs, const dop_check_result *results, dop_diag *diag,
                 dop_check_result *out_result)
{
    dop_model *s = device->model;
    const dop_plan *p = &s->plan;
    uint32_t barriers = s->orders.decode[DOP_ORDER_BARRIERS];
    stages x = {.device = device,
                .plan = p,
                .g = &graphs[barriers],
                .results = results,
                .persistent = &p->schedules[s->orders.decode[DOP_ORDER_PERSISTENT]],
                .barriers = &p->schedules[barriers],
                .diag = diag,
                .logits = calloc(p->model->vocab, sizeof(float))};
    const dop_plan_dispatch *d = &p->dispatches[x.persistent->first_dispatch];
    for (uint32_t i = 0; i < d->n_args; i++)
        /* number argument: rows of the table (low half), words of a copy (high half) */
        if (p->args[d->first_arg + i].slot == DOP_ARG_NUMBERS)
            x.copy_size = (p->args[d->first_arg + i].offset >> 32) * 4;
    while (x.slot < p->n_slots && (p->slots[x.slot].kind != DOP_SLOT_MAILBOX || !s->used.slots[x.slot]))
        x.slot++;
    bool fits = x.slot < p->n_slots && x.copy_size > 0 && x.copy_size <= p->slots[x.slot].size / 2;
    dop_status st = DOP_OK;
    DOP_TRY(!x.logits ? DOP_NO_MEMORY(diag) : fits ? dop_model_need(s, barriers, diag) : fail_damaged_stage(&x, d));
    DOP_TRY(clear_replaced(&x));
    for (uint32_t i = 0; i < STEPS; i++) {
        x.pos = choose_step_position(&x, i);
        DOP_TRY(check_step(&x, (uint32_t)(i * 2654435761ull % p->model->vocab)));
    }
    DOP_TRY(print_line(&x));
error:
    *out_result = (dop_check_result){.error = x.worst, .bound = 1, .values = x.values, .miss = !(x.worst <= 1)};
    free(x.logits);
    return st;
}
