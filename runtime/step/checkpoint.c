/* Checkpoints by handle: restore points that the caller makes and drops. */
#include "runtime/step/restore_point.h"

#include <inttypes.h>
#include <string.h>

dop_status
dop_sequence_end_turn(dop_sequence *sequence, dop_diag *diag)
{
    dop_sequence *s = sequence;
    dop_status st = dop_step_none_has(s->model, s, diag);
    if (s->model->slots.n == 0 || s->model->step.n_rows > 0)
        return DOP_OK;
    if (st == DOP_OK && (st = dop_step_drain(s->model, diag)) == DOP_OK &&
        (st = dop_sequence_settle(s, diag)) == DOP_OK)
        st = dop_sequence_mark(s, diag);
    return st;
}

dop_status
dop_sequence_checkpoint(dop_sequence *sequence, dop_diag *diag, uint64_t *out_id)
{
    dop_diag_clear(diag);
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
                           "all %u checkpoints are held: drop one, or open the model with more", s->model->slots.n);
    made->held++;
    *out_id = made->id;
    return DOP_OK;
}

static dop_restore_point *
find_held(dop_model *m, uint64_t id)
{
    for (uint32_t i = 0; i < m->slots.n; i++)
        if (id && m->checkpoints[i].id == id && m->checkpoints[i].held > 0)
            return &m->checkpoints[i];
    return NULL;
}

dop_status
dop_sequence_restore(dop_sequence *sequence, uint64_t id, dop_diag *diag)
{
    dop_diag_clear(diag);
    dop_sequence *s = sequence;
    dop_restore_point *c = find_held(s->model, id);
    dop_resumed got;
    if (!c)
        return DOP_FAIL(diag, DOP_E_INPUT, "there is no checkpoint %" PRIu64 " of this model", id);
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
