/* Prefix reuse; see resume.h. */
#include "runtime/step/resume.h"
#include "runtime/step/features.h"
#include "runtime/step/restore_point.h"
#include "runtime/step/sequence.h"
#include "runtime/step/sequence_pages.h"
#include "runtime/step/sequence_states.h"
#include "runtime/step/step.h"
#include "runtime/step/step_ahead.h"
#include "runtime/step/stored.h"

#include <inttypes.h>
#include <string.h>

/* Minimum number of additional tokens for which a copy of another sequence or a load from the store is worthwhile. */
enum { WORTH_A_COPY = 32 };

static bool
has_rings(const dop_sequence *s, uint32_t n)
{
    const uint32_t rewind = s->model->plan.model->rewind;
    return rewind == DOP_PLAN_NO_RINGS || s->n_written <= n || s->n_written - n <= rewind;
}

/* Returns how many of the `same` common tokens remain usable without a checkpoint. */
static uint32_t
count_staying_tokens(const dop_sequence *s, uint32_t same)
{
    uint32_t n = same < s->n_fed ? same : s->n_fed;
    if (s->model->plan.replaces && n < s->n_fed)
        n = dop_sequence_version(s, n) != UINT32_MAX ? dop_sequence_version(s, n) : 0;
    return has_rings(s, n) ? n : 0;
}

static uint32_t
same_keys(dop_sequence *s, uint64_t seed, const uint32_t *keys, size_t most)
{
    const size_t n = s->n_tokens < most ? s->n_tokens : most;
    const uint32_t *own = s->prefix.seed == seed ? dop_prefix_keys(&s->prefix, s->tokens, n) : NULL;
    return own ? (uint32_t)dop_prefix_same(own, keys, n) : 0;
}

uint32_t
dop_sequence_reach(dop_sequence *sequence, uint64_t seed, const uint32_t *keys, size_t most)
{
    dop_sequence *s = sequence;
    const uint32_t same = same_keys(s, seed, keys, most), fed = same < s->n_fed ? same : s->n_fed,
                   n = count_staying_tokens(s, same);
    const dop_restore_point *c = n < fed ? dop_restore_point_find(s->model, seed, keys, fed, fed) : NULL;
    return c && c->n > n ? c->n : n;
}

/* Source of the states for a prompt. */
typedef struct source {
    uint32_t n;               /* number of tokens that it covers */
    dop_sequence *other;      /* sequence to copy; NULL: none */
    bool pages;               /* use pages */
    dop_restore_point *point; /* checkpoint for the states of a single position; NULL: not needed */
    uint32_t rows;            /* tokens in cached pages */
} source;

typedef struct search {
    dop_sequence *s;
    const dop_prompt *prompt;
    const uint32_t *keys;
    uint32_t most, common;
} search;

static void
note_common(search *x, uint32_t n)
{
    x->common = n > x->common ? n : x->common;
}

static source
find_pages(search *x)
{
    dop_model *m = x->s->model;
    source from = {.pages = true, .rows = dop_pages_match(&m->pages, x->prompt->seed, x->keys, x->most)};
    note_common(x, from.rows);
    from.n = from.rows;
    if (m->kept.one_position) {
        from.point = dop_restore_point_find(m, x->prompt->seed, x->keys, x->most, from.rows);
        from.n = from.point ? from.point->n : 0;
    }
    return from;
}

/* Finds the best sequence to copy, among those not in flight. */
static source
find_other(search *x)
{
    dop_model *m = x->s->model;
    source best = {0};
    for (uint32_t i = 0; i < m->plan.model->n_sequences; i++) {
        dop_sequence *o = m->sequences[i];
        if (!o || o == x->s || o->n_fed > o->n_tokens)
            continue;
        const uint32_t same = same_keys(o, x->prompt->seed, x->keys, x->most);
        note_common(x, same);
        if (dop_step_none_has(m, o, NULL) != DOP_OK)
            continue;
        /* A copied sequence has no older version of replaced states to return to. */
        const uint32_t n = m->plan.replaces && same < o->n_fed ? 0 : count_staying_tokens(o, same);
        if (n > best.n)
            best = (source){.n = n, .other = o};
    }
    return best;
}

static void
note_checkpoints(search *x)
{
    dop_model *m = x->s->model;
    for (uint32_t i = 0; i < m->kept.slots.n; i++) {
        dop_restore_point *c = &m->kept.points[i];
        const uint32_t n = c->n < x->most ? c->n : x->most;
        const uint32_t *own =
            c->id && c->prefix.seed == x->prompt->seed ? dop_prefix_keys(&c->prefix, c->tokens, n) : NULL;
        if (own)
            note_common(x, (uint32_t)dop_prefix_same(own, x->keys, n));
    }
}

static dop_status
take_pages(dop_sequence *s, const source *from, const uint32_t *keys, uint64_t seed, dop_diag *diag, uint32_t *out_n)
{
    dop_model *m = s->model;
    const uint32_t rest = m->pages.page ? from->n % m->pages.page : 0;
    const uint64_t reused = m->pages.reused;
    const bool tail = rest > 0 && from->rows < from->n;
    *out_n = 0;
    s->n_tokens = 0;
    dop_status st = dop_sequence_empty(s, diag);
    if (st != DOP_OK || from->n == 0)
        return st;
    (void)dop_pages_find(&m->pages, s->place, seed, keys, from->n + (tail ? 0 : m->pages.page));
    m->pages.reused = reused + from->n;
    dop_pages_keep(&m->pages, s->place, tail ? from->n - rest : from->n);
    if (tail && dop_sequence_reserve(s, from->n - rest, from->n, NULL) != DOP_OK) {
        m->pages.reused = reused;
        return dop_sequence_empty(s, diag); /* there is no page for the rows after the last full page */
    }
    st = from->point ? dop_restore_point_take(s, from->point, tail, diag) : DOP_OK;
    if (st != DOP_OK) {
        s->n_fed = 0;
        return st;
    }
    *out_n = from->n;
    if (!from->point) {
        s->n_fed = s->n_written = from->n;
        dop_sequence_kept(s, UINT32_MAX, 0);
    }
    return DOP_OK;
}

/* Resumes from the store: after the cached pages, or without pages after the sequence's own rows. */
static dop_status
take_stored(search *x, const dop_stored_load *load, dop_diag *diag, uint32_t *out_n)
{
    dop_sequence *s = x->s;
    dop_model *m = s->model;
    dop_status st = DOP_OK;
    dop_sequence_note(s);
    *out_n = 0;
    s->n_tokens = 0;
    if (m->pages.page > 0) {
        const uint64_t reused = m->pages.reused;
        if ((st = dop_sequence_empty(s, diag)) != DOP_OK)
            return st;
        (void)dop_pages_find(&m->pages, s->place, x->prompt->seed, x->keys, load->rows);
        m->pages.reused = reused + load->n;
    }
    s->n_fed = s->n_written = load->rows;
    st = dop_stored_take(s, load, diag);
    if (st == DOP_OK)
        *out_n = load->n;
    if (st == DOP_OK || st == DOP_E_DEVICE)
        return st;
    dop_diag_clear(diag); /* too few pages, or states of another model: feed the whole prompt */
    return dop_sequence_empty(s, diag);
}

static dop_status
apply_source(search *x, const source *from, uint32_t own, dop_diag *diag, uint32_t *out_n)
{
    dop_sequence *s = x->s;
    dop_status st;
    *out_n = own;
    if (from->pages)
        return take_pages(s, from, x->keys, x->prompt->seed, diag, out_n);
    if (from->other) {
        *out_n = from->n;
        st = dop_sequence_copy(s, from->other, diag);
        return st == DOP_OK ? dop_sequence_rewind(s, from->n, diag) : st;
    }
    return dop_sequence_rewind(s, own, diag);
}

/* Returns how many rows of the prompt the sequence has in its own contiguous cache. */
static uint32_t
own_rows(search *x)
{
    const uint32_t same = same_keys(x->s, x->prompt->seed, x->keys, x->most);
    return same < x->s->n_fed ? same : x->s->n_fed;
}

dop_status
dop_sequence_resume(dop_sequence *sequence, const dop_prompt *prompt, dop_diag *diag, dop_resumed *out)
{
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    dop_prefix prefix = {0};
    *out = (dop_resumed){0};
    dop_status st = dop_step_none_has(m, s, diag);
    if (st == DOP_OK && (st = dop_step_drain(m, diag)) == DOP_OK && (st = dop_sequence_settle(s, diag)) == DOP_OK)
        st = dop_prefix_set(&prefix, prompt->seed, prompt->marks, prompt->n_marks, diag);
    if (st != DOP_OK)
        return st;
    search x = {.s = s, .prompt = prompt, .most = (uint32_t)prompt->most};
    x.keys = dop_prefix_keys(&prefix, prompt->ids, prompt->n);
    if (!x.keys && prompt->n > 0) {
        dop_prefix_finish(&prefix);
        return DOP_NO_MEMORY(diag);
    }
    for (uint32_t i = 0; i < m->plan.model->n_sequences; i++)
        if (m->sequences[i] && m->sequences[i]->n_fed <= m->sequences[i]->n_tokens)
            dop_sequence_note(m->sequences[i]);
    note_common(&x, same_keys(s, prompt->seed, x.keys, x.most));
    note_checkpoints(&x);
    const uint32_t own = dop_sequence_reach(s, prompt->seed, x.keys, x.most);
    source best = {.n = own}, next = find_pages(&x);
    if (next.n > best.n)
        best = next;
    next = find_other(&x);
    if (next.n > best.n && (next.n >= best.n + WORTH_A_COPY || best.n == 0))
        best = next;
    dop_stored_load load = {0};
    const uint32_t rows = m->pages.page ? dop_pages_match(&m->pages, prompt->seed, x.keys, x.most) : own_rows(&x);
    st =
        dop_stored_find(m, prompt->seed, x.keys, x.most, rows, best.n > 0 ? best.n + WORTH_A_COPY - 1 : 0, diag, &load);
    note_common(&x, load.known);
    if (st == DOP_OK)
        st = load.n > 0 ? take_stored(&x, &load, diag, &out->n) : apply_source(&x, &best, own, diag, &out->n);
    m->kept.prompts.tokens_loaded += load.n > 0 ? out->n : 0;
    m->kept.prompts.tokens_saved += out->n;
    dop_stored_load_finish(&load);
    if (st == DOP_OK) {
        if (out->n > 0)
            memcpy(s->tokens, prompt->ids, out->n * sizeof *s->tokens);
        s->n_tokens = out->n;
        s->logits = NULL;
        out->common = s->parts_at = x.common;
    }
    dop_prefix_finish(&s->prefix);
    if (st == DOP_OK)
        s->prefix = prefix;
    else
        dop_prefix_finish(&prefix);
    return st;
}

dop_status
dop_sequence_reuse(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag, size_t *out_found)
{
    dop_diag_clear(diag);
    DOP_DRIVE(sequence->model, diag);
    dop_sequence *s = sequence;
    dop_resumed got = {0};
    const dop_prompt prompt = {.ids = ids,
                               .n = n,
                               .most = n > 0 ? n - 1 : 0, /* the last token is always fed, for its logits */
                               .seed = s->prefix.seed,
                               .marks = s->prefix.marks,
                               .n_marks = s->prefix.n_marks};
    *out_found = 0;
    const uint32_t vocab = s->model->plan.model->vocab;
    if (n > s->model->plan.model->ctx)
        return DOP_FAIL(diag, DOP_E_INPUT, "%zu tokens and a context of %u", n, s->model->plan.model->ctx);
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= vocab && !dop_features_has(sequence->model, ids[i]))
            return DOP_FAIL(diag, DOP_E_INPUT, "token id %u is outside the vocabulary of %u", ids[i], vocab);
    dop_status st = dop_sequence_resume(s, &prompt, diag, &got);
    *out_found = got.n;
    return st;
}

/* --- ends of turns, and checkpoints by handle --------------------------------------------------------------------------- */

dop_status
dop_sequence_end_turn(dop_sequence *sequence, dop_diag *diag)
{
    dop_diag_clear(diag);
    DOP_DRIVE(sequence->model, diag);
    dop_sequence *s = sequence;
    dop_status st = DOP_OK;
    if ((s->model->kept.slots.n == 0 && !s->model->kept.prompts.store) || s->model->step.n_rows > 0)
        return DOP_OK;
    if ((st = dop_step_drain(s->model, diag)) == DOP_OK && (st = dop_sequence_settle(s, diag)) == DOP_OK)
        st = dop_sequence_mark(s, diag);
    return st == DOP_OK ? dop_stored_keep(s, diag) : st;
}

dop_status
dop_sequence_checkpoint(dop_sequence *sequence, dop_diag *diag, uint64_t *out_id)
{
    dop_diag_clear(diag);
    DOP_DRIVE(sequence->model, diag);
    dop_sequence *s = sequence;
    dop_restore_point *made = NULL;
    *out_id = 0;
    if (s->n_tokens == 0)
        return DOP_FAIL(diag, DOP_E_INPUT, "a checkpoint of a sequence without tokens");
    dop_status st = dop_sequence_make_room(s, NULL, 0, diag);
    if (st == DOP_OK)
        st = dop_sequence_catch_up(s, diag);
    if (st == DOP_OK)
        st = dop_restore_point_make(s, diag, &made);
    if (st != DOP_OK)
        return st;
    if (!made)
        return DOP_FAIL_IN(diag, DOP_E_FULL, s->model->plan.path,
                           "all %u checkpoints are held: drop one, or open the model with more",
                           s->model->kept.slots.n);
    made->held++;
    *out_id = made->id;
    return DOP_OK;
}

static dop_restore_point *
find_held(dop_model *m, uint64_t id)
{
    for (uint32_t i = 0; i < m->kept.slots.n; i++)
        if (id && m->kept.points[i].id == id && m->kept.points[i].held > 0)
            return &m->kept.points[i];
    return NULL;
}

dop_status
dop_sequence_restore(dop_sequence *sequence, uint64_t id, dop_diag *diag)
{
    dop_diag_clear(diag);
    DOP_DRIVE(sequence->model, diag);
    dop_sequence *s = sequence;
    dop_restore_point *c = find_held(s->model, id);
    dop_resumed got;
    if (!c)
        return DOP_FAIL(diag, DOP_E_INPUT, "there is no checkpoint %" PRIu64 " of this model", id);
    if (c->prefix.seed != s->prefix.seed)
        return DOP_FAIL(diag, DOP_E_INPUT, "the checkpoint was made with other adapters than the sequence has");
    const dop_prompt prompt = {.ids = c->tokens,
                               .n = c->n,
                               .most = c->n,
                               .seed = c->prefix.seed,
                               .marks = c->prefix.marks,
                               .n_marks = c->prefix.n_marks};
    dop_status st = dop_sequence_resume(s, &prompt, diag, &got);
    if (st != DOP_OK)
        return st;
    memcpy(s->tokens, c->tokens, c->n * sizeof *s->tokens);
    s->n_tokens = c->n;
    return DOP_OK;
}

void
dop_model_drop_checkpoint(dop_model *model, uint64_t id)
{
    dop_restore_point *c = find_held(model, id);
    if (c)
        c->held--;
}
