/* Steps: choosing a schedule, submitting, and waiting. */
#ifndef DOPPLER_RUNTIME_STEP_STEP_H
#define DOPPLER_RUNTIME_STEP_STEP_H

#include "runtime/model/model.h"

/* The schedule with which to feed n tokens next, and how many of them it takes. */
void dop_step_choose(const dop_model *model, uint32_t kind, size_t n, uint32_t *out_schedule, uint32_t *out_take);
/* Marks the schedules that a text after n tokens needs from its first step to its last, in forms that are always there: those that feed the
 * tokens, and with `steps` those of steps of one row, and where the plan has a layer that drafts, its own and those that check drafts; with
 * adapters or without.  A persistent form is among them where `ordering` names it; otherwise a text takes it when it is there.
 * first: [n_schedules], false. */
void dop_step_first(const dop_model *model, uint32_t n, bool steps, dop_ordering ordering, bool *first);
/* The schedule with which to feed the next tokens of a sequence, those before `end` if it can be, and how many of them it takes: as
 * above, but rows that see one another are in one step.  DOP_E_INPUT: no schedule holds them. */
dop_status dop_step_choose_rows(const dop_sequence *sequence, uint32_t kind, uint32_t end, dop_diag *diag,
                                uint32_t *out_schedule, uint32_t *out_take);
/* Call before n tokens are fed as `kind` to a plan in parts: sets the size of the chunks that the above chooses from then on. */
void dop_step_choose_chunks(dop_model *model, uint32_t kind, size_t n);
/* The decode schedule for n steps from pos on. */
uint32_t dop_step_decode_at(const dop_model *model, uint32_t pos, uint32_t n);
/* How many versions of the states that steps replace a step writes with n rows of a sequence: one after each row, or one. */
uint32_t dop_step_versions(const dop_model *model, uint32_t schedule, uint32_t n);
/* Of states that steps replace, makes the copy current that lies `by` behind the current one, or before it, because versions of the sequence at
 * this place were committed or undone.  Nothing may be in flight. */
void dop_step_move_states(dop_model *model, uint32_t place, int32_t by);
/* Notes that one version was committed while later steps may be in flight: the device itself has changed the step record. */
void dop_step_note_version(dop_model *model, uint32_t place);
/* The one way in which a step runs: dop_step_issue makes its positions writable, writes the step record and submits, and
 * dop_step_collect waits.  A step that stalls (only a persistent schedule can) is run again with barriers, and io->schedule is what
 * ran in the end.  io: schedule, form, times, own and continued; rows: [n], of different sequences; none where `own` rows are of no
 * sequence, as in the other ranks of a plan in parts.  Logits of earlier steps become invalid. */
dop_status dop_step_issue(dop_model *model, const dop_sequence_rows *rows, uint32_t n, dop_issue *io, dop_diag *diag);
dop_status dop_step_collect(dop_model *model, dop_sequence_rows *rows, uint32_t n, dop_issue *io, dop_diag *diag);
/* What follows when all parts have run the step: the states after its rows are the current ones. */
void dop_step_collected(dop_model *model, dop_sequence_rows *rows, uint32_t n, const dop_issue *issue);
/* Waits for a step; in a plan in parts, only for this part, which then passes its rows on, */
dop_status dop_step_pass(dop_model *model, uint64_t ticket, dop_diag *diag);
/* and then for the result of all parts for the oldest step that was passed on. */
dop_status dop_step_take(dop_model *model, dop_diag *diag);
/* The logits or hidden states of a schedule, after waiting for a step with DOP_FORM_READ; f32, valid until the next step. */
const float *dop_model_logits(const dop_model *model, uint32_t schedule);
/* One whole step of n rows, the tokens of a sequence from pos on, which are then fed.  *io_schedule is the schedule that ran in the end. */
dop_status dop_step_finish(dop_sequence *sequence, uint32_t n, uint32_t pos, dop_form form, uint32_t *io_schedule,
                           dop_diag *diag);
/* Has the step rows of the sequence? */
bool dop_step_has(const dop_open_step *step, const dop_sequence *sequence);
/* For plans in parts: are there started steps (dop_step_start)? */
bool dop_step_started(const dop_model *model);
/* Fails with DOP_E_USAGE while a step is open. */
dop_status dop_step_none_open(const dop_model *model, dop_diag *diag);
/* The same while a step is open, or one with this sequence is in flight.  States of other sequences may be changed, because all
 * ranks execute orders in order. */
dop_status dop_step_none_has(const dop_model *model, const dop_sequence *sequence, dop_diag *diag);
/* The error for logits, after the token at pos, that are not finite. */
dop_status dop_step_not_finite(const dop_model *model, uint32_t pos, dop_diag *diag);

#endif
