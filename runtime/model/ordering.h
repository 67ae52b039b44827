/* Chooses the ordering of decode steps: barriers or a persistent dispatch, and barriers for good after a stall.  The schedules of all orderings compute the same values, so a step of one may follow a step of another.  Mailboxes and their parity stay consistent because every run of a schedule is complete. */
#ifndef DOPPLER_RUNTIME_MODEL_ORDERING_H
#define DOPPLER_RUNTIME_MODEL_ORDERING_H

#include <doppler/doppler.h>

/* Uses the decode schedule with this DOP_ORDER_* from now on; does nothing when there is none.  May be called at any time
 * between calls; steps in flight are not affected. */
void dop_model_use_ordering(dop_model *model, uint32_t ordering);
/* After loading: chooses what the options ask for. */
dop_status dop_model_choose_ordering(dop_model *model, dop_ordering wanted, dop_diag *diag);
/* Is a probe due before the step at pos?  If so, nothing may be in flight. */
bool dop_model_probes_next(const dop_model *model, uint32_t pos);
/* Chooses the fastest ordering for steps from pos on whose results are those of barriers. */
dop_status dop_model_probe(dop_model *model, uint32_t pos, dop_diag *diag);
/* The same, if a probe is due.  Where a form is not there a moment later, the text keeps barriers to its end: when a thread is done with the
 * others shall not decide where in a text its bits change. */
dop_status dop_model_probe_at(dop_model *model, uint32_t pos, dop_diag *diag);
/* Has a finished step stalled, or did the step that should have made the last of n_picks finish without it?  If so, all picks
 * that were not taken yet are invalid. */
bool dop_model_stalled(const dop_model *model, uint32_t n_picks);
/* Returns to barriers for good.  Drops every pick that was not taken, and empties the mailboxes. */
dop_status dop_model_fall_back(dop_model *model, dop_diag *diag);

#endif
