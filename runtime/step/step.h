/* Steps: choosing a schedule, submitting, and waiting. */
#ifndef DOPPLER_RUNTIME_STEP_STEP_H
#define DOPPLER_RUNTIME_STEP_STEP_H

#include "runtime/model/model.h"

/* Chooses the schedule for feeding n tokens next, and how many of them it runs. */
void dop_step_choose(const dop_model *model, uint32_t kind, size_t n, uint32_t *out_schedule, uint32_t *out_take);
/* Marks the schedules that a text after n prompt tokens certainly needs: the ones that feed the tokens and, with
 * `steps`, those of single-row steps and of a draft layer with its checks; each also in its variant for adapters.
 * Persistent schedules are marked only if `ordering` names them; otherwise a text uses them once they are compiled.
 * first: [n_schedules], initially false. */
void dop_step_first(const dop_model *model, uint32_t n, bool steps, dop_ordering ordering, bool *first);
/* Chooses the schedule and row count for the sequence's next tokens, up to `end` if possible. Like dop_step_choose, but
 * keeps rows that attend to one another in one step. Fails with DOP_E_INPUT if no schedule holds them. */
dop_status dop_step_choose_rows(const dop_sequence *sequence, uint32_t kind, uint32_t end, dop_diag *diag,
                                uint32_t *out_schedule, uint32_t *out_take);
/* Sets the chunk size that dop_step_choose uses in a plan in parts. Call before n tokens are fed as `kind`. */
void dop_step_choose_chunks(dop_model *model, uint32_t kind, size_t n);
/* Returns the decode schedule for n steps from pos on. */
uint32_t dop_step_decode_at(const dop_model *model, uint32_t pos, uint32_t n);
/* Returns the number of versions of replaced states that a step with n rows of a sequence writes: one per row, or
 * one. */
uint32_t dop_step_versions(const dop_model *model, uint32_t schedule, uint32_t n);
/* Moves the current copy of replaced states by `by` versions, forward after commits and backward (negative) after
 * rollbacks. Nothing may be in flight. */
void dop_step_move_states(dop_model *model, uint32_t place, int32_t by);
/* Counts one committed version while later steps may be in flight. The device has already updated the step record. */
void dop_step_note_version(dop_model *model, uint32_t place);
/* The only way to run a step. dop_step_issue makes its positions writable, writes the step record and submits;
 * dop_step_collect waits. A persistent schedule that stalls is run again with barriers; io->schedule is then the
 * schedule that ran. The caller sets io: schedule, form, times, own and continued. rows: [n], of different sequences; n
 * is 0 in the other ranks of a plan in parts. Logits of earlier steps become invalid. */
dop_status dop_step_issue(dop_model *model, const dop_sequence_rows *rows, uint32_t n, dop_issue *io, dop_diag *diag);
dop_status dop_step_collect(dop_model *model, dop_sequence_rows *rows, uint32_t n, dop_issue *io, dop_diag *diag);
/* Makes the states after the rows current. Call it after all parts have run the step. */
void dop_step_collected(dop_model *model, dop_sequence_rows *rows, uint32_t n, const dop_issue *issue);
/* Waits for a step. In a plan in parts, waits only for this part, then passes its rows on to the next one. */
dop_status dop_step_pass(dop_model *model, uint64_t ticket, dop_diag *diag);
/* In a plan in parts, waits for the result of the oldest step that was passed on. */
dop_status dop_step_take(dop_model *model, dop_diag *diag);
/* Returns the logits or hidden states of a schedule, after a wait for a step with DOP_FORM_READ. f32, valid until the
 * next step. */
const float *dop_model_logits(const dop_model *model, uint32_t schedule);
/* Runs a whole step of n rows, the tokens of a sequence from pos on, and marks them as fed. *io_schedule is set to the
 * schedule that ran. */
dop_status dop_step_finish(dop_sequence *sequence, uint32_t n, uint32_t pos, dop_form form, uint32_t *io_schedule,
                           dop_diag *diag);
/* True if the step has rows of the sequence. */
bool dop_step_has(const dop_open_step *step, const dop_sequence *sequence);
/* True if a step of a plan in parts is started and not finished (dop_step_start). */
bool dop_step_started(const dop_model *model);
/* Fails with DOP_E_USAGE while a step is open. */
dop_status dop_step_none_open(const dop_model *model, dop_diag *diag);
/* Fails with DOP_E_USAGE while a step is open or one with this sequence is in flight. States of other sequences may
 * change, because all ranks execute orders in sequence. */
dop_status dop_step_none_has(const dop_model *model, const dop_sequence *sequence, dop_diag *diag);
/* Reports that the logits after the token at pos are not finite. */
dop_status dop_step_not_finite(const dop_model *model, uint32_t pos, dop_diag *diag);

#endif
