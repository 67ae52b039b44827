/* In-flight steps that the device continues by itself: each begins with the picks of the step before, so it can be
 * submitted before the host has read them. dop_sequence_next uses them for one sequence (sequence.c), and dop_step_run
 * for a fixed set of sequences with one row each. model->flight is the queue of both. This file also drops steps that
 * turn out not to be needed. */
#ifndef DOPPLER_RUNTIME_STEP_STEP_AHEAD_H
#define DOPPLER_RUNTIME_STEP_STEP_AHEAD_H

#include "base/step_record.h"

#include <doppler/doppler.h>

/* Limits the commit of the open step to the first `n` rows of the sequence. Replaced states may have no version in
 * between: then none of its rows are committed unless all are, and they must be run again. */
void dop_step_keep(dop_model *model, const dop_sequence *sequence, uint32_t n);
/* True if steps of this sequence are in flight, or the device's own next step includes it. */
bool dop_step_runs(const dop_model *model, const dop_sequence *sequence);
/* True if a multi-row step is in flight, so that any other step would drop it. */
bool dop_step_rows_run(const dop_model *model);
/* Waits for everything submitted, and drops picks that were not taken. A single sequence keeps the replaced states
 * after its first in-flight step, whose tokens were all known. Sequences of multi-row steps keep the states of their
 * known tokens. */
dop_status dop_step_drain(dop_model *model, dop_diag *diag);
/* True if the step in m->step, of n rows, is likely to be followed by one with its own picks. */
bool dop_step_may_continue(const dop_model *model, const dop_step_row *rows, uint32_t n_rows);
/* Submits `times` steps of flight.rows[0 .. n_rows). The device continues from its own picks; if nothing is in flight,
 * it starts with rows[]. *io_schedule is set to the variant for adapters if the rows use them. */
dop_status dop_step_continue(dop_model *model, uint32_t n_rows, uint32_t times, uint32_t *io_schedule, dop_diag *diag);
/* True if there are pages for the next `times` positions of flight.rows[0 .. n_rows). */
bool dop_step_has_pages(const dop_model *model, uint32_t schedule, uint32_t n_rows, uint32_t times);
/* Submits the step after m->step, which must be the last one submitted, unless some row cannot or need not continue.
 * Errors are ignored here, because they recur when that step is requested. */
void dop_step_continue_rows(dop_model *model, uint32_t n_rows);
/* True if the step requested in m->step is already in flight. */
bool dop_step_is_ahead(const dop_model *model, const dop_step_row *rows, uint32_t n_rows);
/* Makes the oldest in-flight step the step of m->step, and drops its other rows. */
void dop_step_take_ahead(dop_model *model, uint32_t n_rows);
/* Removes the oldest submission from those in flight. */
void dop_step_pop_ahead(dop_model *model);
/* Releases the pages of in-flight sequences that are not in m->step, after that step has ended. Does nothing while more
 * is in flight. */
void dop_step_drop_rest(dop_model *model);

/* Returns the device's sampling parameters for a row of the sequence. */
dop_row_way dop_sequence_way(const dop_sequence *sequence);

#endif
