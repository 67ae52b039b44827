#include "runtime/step/restore_point.h"
#include "plan/plan_names.h"
#include "runtime/step/step.h"
#include "runtime/step/transfer.h"

#include <stdlib.h>
#include <string.h>

/* Fraction of device memory that checkpoints may use by default: 1 / 16. */
enum { SHARE_OF_MEMORY = 16 };
/* Number of chunk checkpoints to keep, spread over a long prompt. */
enum { SPREAD = 8 };

static uint32_t
count_slots(const dop_model *m, uint64_t bytes, const dop_open_options *o)
{
    const uint64_t budget = o->checkpoint_bytes ? o->checkpoint_bytes : m->device.info.caps.memory / SHARE_OF_MEMORY,
                   most = m->device.info.caps.max_alloc && m->device.info.caps.max_alloc < budget
                              ? m->device.info.caps.max_alloc
                              : budget;
    const uint32_t n = o->checkpoints < DOP_MAX_SLOTS ? o->checkpoints : (uint32_t)DOP_MAX_SLOTS;
    return bytes == 0 || most / bytes >= n ? n : (uint32_t)(most / bytes);
}

dop_status
dop_restore_points_open(dop_model *model, const dop_open_options *options, dop_diag *diag)
{
    dop_model *m = model;
    dop_diag full = {0};
    if (m->plan.n_states == 0 || !dop_plan_steps(&m->plan) || !dop_transfer_can(m))
        return DOP_OK;
    const dop_states whole = {.to = m->plan.model->ctx, .whole = true}, page = {.to = m->pages.page, .rows = true};
    const uint64_t bytes = dop_transfer_size(m, &whole);
    m->kept.one_position = bytes > 0;
    uint32_t n = count_slots(m, bytes + dop_transfer_size(m, &page), options);
    if (n == 0)
        return DOP_OK;
    dop_status st = dop_transfer_make_slots(m, n, &full);
    if (st == DOP_E_NOMEM && !m->ranks) { /* checkpoints are optional */
        dop_log_printf(&m->log, "checkpoints: none: %s", full.message);
        m->kept.slots.n = 0;
        return DOP_OK;
    }
    if (st == DOP_OK)
        st = dop_transfer_keep_staging(m, &full);
    if (st != DOP_OK && diag)
        *diag = full;
    m->memory.total += m->kept.slots.bytes * n;
    if (st == DOP_OK)
        dop_log_printf(&m->log, "checkpoints: %u of %.1f MiB", n, (double)m->kept.slots.bytes / (1 << 20));
    return st;
}

static void
clear_checkpoint(dop_restore_point *c)
{
    dop_prefix_finish(&c->prefix);
    free(c->tokens);
    memset(c, 0, sizeof *c);
}

void
dop_restore_points_finish(dop_model *model)
{
    for (uint32_t i = 0; i < DOP_MAX_SLOTS; i++)
        clear_checkpoint(&model->kept.points[i]);
}

static uint32_t
find_checkpoint_slot(const dop_model *m, const dop_restore_point *c)
{
    return m->plan.model->n_sequences + (uint32_t)(c - m->kept.points);
}

/* True if the checkpoint's keys are a prefix of the first n of these keys. */
static bool
checkpoint_begins_keys(dop_restore_point *c, uint64_t seed, const uint32_t *keys, uint32_t n)
{
    if (c->id == 0 || c->prefix.seed != seed || c->n > n)
        return false;
    const uint32_t *own = dop_prefix_keys(&c->prefix, c->tokens, c->n);
    return own && dop_prefix_same(own, keys, c->n) == c->n;
}

dop_restore_point *
dop_restore_point_find(dop_model *model, uint64_t seed, const uint32_t *keys, uint32_t most, uint32_t rows)
{
    dop_restore_point *best = NULL;
    const uint32_t page = model->pages.page;
    for (uint32_t i = 0; i < model->kept.slots.n; i++) {
        dop_restore_point *c = &model->kept.points[i];
        if ((!best || c->n > best->n) && (page ? c->n / page * page : c->n) <= rows &&
            checkpoint_begins_keys(c, seed, keys, most))
            best = c;
    }
    return best;
}

/* Returns a free slot, or evicts the least recently used checkpoint; NULL: all have handles. */
static dop_restore_point *
make_checkpoint_room(dop_model *m)
{
    dop_restore_point *oldest = NULL;
    for (uint32_t i = 0; i < m->kept.slots.n; i++) {
        dop_restore_point *c = &m->kept.points[i];
        if (c->id == 0)
            return c;
        if (c->held == 0 && (!oldest || c->used < oldest->used))
            oldest = c;
    }
    if (oldest)
        clear_checkpoint(oldest);
    return oldest;
}

dop_status
dop_restore_point_make(dop_sequence *sequence, dop_diag *diag, dop_restore_point **out_checkpoint)
{
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    const uint32_t n = s->n_fed, rewind = m->plan.model->rewind, *keys = dop_prefix_keys(&s->prefix, s->tokens, n);
    *out_checkpoint = NULL;
    if (n == 0 || m->kept.slots.n == 0 ||
        (rewind != DOP_PLAN_NO_RINGS && s->n_written > n && s->n_written - n > rewind))
        return DOP_OK;
    if (!keys)
        return DOP_NO_MEMORY(diag);
    dop_restore_point *c = dop_restore_point_find(m, s->prefix.seed, keys, n, n);
    if (c && c->n == n) {
        c->used = ++m->kept.clock;
        *out_checkpoint = c;
        return DOP_OK;
    }
    dop_restore_point made = {.id = ++m->kept.clock, .n = n, .used = m->kept.clock};
    made.over = s->n_written > n ? s->n_written - n : 0;
    made.tokens = malloc(n * sizeof *made.tokens);
    dop_status st = made.tokens ? dop_prefix_copy(&made.prefix, &s->prefix, diag) : DOP_NO_MEMORY(diag);
    c = st == DOP_OK ? make_checkpoint_room(m) : NULL;
    if (!c) {
        clear_checkpoint(&made);
        return st;
    }
    memcpy(made.tokens, s->tokens, n * sizeof *made.tokens);
    dop_prefix_rewind(&made.prefix, n);
    st = dop_transfer_copy_slot(m, s->place, find_checkpoint_slot(m, c), n, true, diag);
    if (st != DOP_OK) {
        clear_checkpoint(&made);
        return st;
    }
    *c = made;
    *out_checkpoint = c;
    m->kept.made++;
    return DOP_OK;
}

dop_status
dop_restore_point_take(dop_sequence *sequence, dop_restore_point *checkpoint, bool tail, dop_diag *diag)
{
    dop_sequence *s = sequence;
    dop_restore_point *c = checkpoint;
    c->used = ++s->model->kept.clock;
    s->n_fed = c->n;
    s->n_written = c->n + c->over;
    dop_sequence_kept(s, UINT32_MAX, 0);
    s->logits = NULL;
    s->model->kept.used++;
    return dop_transfer_copy_slot(s->model, find_checkpoint_slot(s->model, c), s->place, c->n, tail, diag);
}

/* --- when ---------------------------------------------------------------------------------------------------------------- */

/* True if an automatic checkpoint is useful and possible: pages do not hold all states, and nothing is in flight. */
static bool
is_useful(const dop_sequence *s)
{
    const dop_model *m = s->model;
    return m->kept.one_position && m->kept.slots.n > 0 && m->flight.n == 0 && s->n_fed <= s->n_tokens && s->n_fed > 0 &&
           m->step.n_rows == 0 && dop_step_none_has(m, s, NULL) == DOP_OK;
}

dop_status
dop_sequence_mark(dop_sequence *sequence, dop_diag *diag)
{
    dop_restore_point *made;
    if (!is_useful(sequence))
        return DOP_OK;
    DOP_RETURN_IF_ERROR(dop_restore_point_make(sequence, diag, &made));
    if (made)
        made->chunk = false;
    return DOP_OK;
}

dop_status
dop_sequence_mark_chunk(dop_sequence *sequence, dop_diag *diag)
{
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    dop_restore_point *made;
    const uint32_t every = m->plan.model->ctx / (m->kept.slots.n > 2 * SPREAD ? m->kept.slots.n / 2 : SPREAD) + 1;
    if (!is_useful(s))
        return DOP_OK;
    for (uint32_t i = 0; i < m->kept.slots.n && s->chunk_marks[0]; i++) {
        dop_restore_point *c = &m->kept.points[i];
        if (c->id == s->chunk_marks[0] && c->held == 0 && c->used == c->id && c->n < s->n_fed &&
            c->n / every == s->n_fed / every)
            clear_checkpoint(c);
    }
    dop_status st = DOP_OK;
    DOP_TRY(dop_restore_point_make(s, diag, &made));
    if (made && made->used == made->id)
        made->chunk = true;
error:
    s->chunk_marks[0] = s->chunk_marks[1];
    s->chunk_marks[1] = st == DOP_OK && made ? made->id : 0;
    return st;
}
