/* In-flight steps that the device makes by itself: each begins with the picks of the step before, so that it can be submitted before the host has seen them.  dop_sequence_next makes such steps for one sequence (sequence.c), and dop_step_run for the same sequences from step to step, each with one row.  model->flight is the queue of both, and steps that are not taken are dropped here. */
#ifndef DOPPLER_RUNTIME_STEP_STEP_AHEAD_H
#define DOPPLER_RUNTIME_STEP_STEP_AHEAD_H

#include "base/step_record.h"

#include <doppler/doppler.h>

/* Before the open step is committed: only the first `n` rows of the sequence will become part of it.  Where steps replace states, which
 * have nothing in between, none of its rows will unless all do, and they are to be in a later step again. */
void dop_step_keep(dop_model *model, const dop_sequence *sequence, uint32_t n);
/* Are steps of this sequence in flight, or is the device's own next step one of it? */
bool dop_step_runs(const dop_model *model, const dop_sequence *sequence);
/* Is a step of rows in flight, so that anything but its rows would drop it? */
bool dop_step_rows_run(const dop_model *model);
/* Waits for everything submitted, and drops picks that were not taken.  A single sequence that ran keeps the replaced states from
 * after the first step that was in flight, because all tokens of that step were known; the sequences of steps of rows have
 * the states of their tokens. */
dop_status dop_step_drain(dop_model *model, dop_diag *diag);
/* Is the step that is in m->step, of n rows that want what they get, likely to be followed by one with its picks? */
bool dop_step_may_continue(const dop_model *model, const dop_step_row *rows, uint32_t n_rows);
/* Submits `times` steps of flight.rows[0 .. n_rows), from whose picks the device goes on: its own next ones, or where nothing
 * goes on those in rows[].  *io_schedule: what ran is the schedule for the adapters of the rows. */
dop_status dop_step_continue(dop_model *model, uint32_t n_rows, uint32_t times, uint32_t *io_schedule, dop_diag *diag);
/* Are there pages for the next `times` positions of flight.rows[0 .. n_rows)? */
bool dop_step_has_pages(const dop_model *model, uint32_t schedule, uint32_t n_rows, uint32_t times);
/* Submits the step that follows the one of m->step, which was the last one submitted, unless a row cannot or need not go on.  What
 * fails here fails again when that step is wanted. */
void dop_step_continue_rows(dop_model *model, uint32_t n_rows);
/* Is what m->step wants in flight? */
bool dop_step_is_ahead(const dop_model *model, const dop_step_row *rows, uint32_t n_rows);
/* Makes m->step the oldest step in flight, whose other rows are dropped. */
void dop_step_take_ahead(dop_model *model, uint32_t n_rows);
/* Removes the oldest submission from those in flight. */
void dop_step_pop_ahead(dop_model *model);
/* When that has ended: the sequences that are not in m->step lose what it has made of them.  Does nothing while more is in flight. */
void dop_step_drop_rest(dop_model *model);

/* How the device draws from a row of the sequence. */
dop_row_way dop_sequence_way(const dop_sequence *sequence);

#endif
