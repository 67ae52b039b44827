/* Chooses the ordering of decode steps, barriers or a persistent dispatch, and returns to barriers for good after a
 * stall. All orderings compute the same values, so steps of different orderings may follow each other. Mailboxes and
 * their parity stay consistent because every run of a schedule is complete. */
#ifndef DOPPLER_RUNTIME_MODEL_ORDERING_H
#define DOPPLER_RUNTIME_MODEL_ORDERING_H

#include <doppler/doppler.h>

/* Switches decoding to the schedule with this DOP_ORDER_*; does nothing if there is none. May be called at any time
 * between calls; in-flight steps are not affected. */
void dop_model_use_ordering(dop_model *model, uint32_t ordering);
/* Chooses the ordering that the options request, after loading. */
dop_status dop_model_choose_ordering(dop_model *model, dop_ordering wanted, dop_diag *diag);
/* True if a probe is due before the step at pos. The probe needs an empty queue: nothing may be in flight. */
bool dop_model_probes_next(const dop_model *model, uint32_t pos);
/* Chooses the fastest ordering whose results match those of barriers, for steps from pos on. */
dop_status dop_model_probe(dop_model *model, uint32_t pos, dop_diag *diag);
/* Runs dop_model_probe if one is due. If a form is not compiled after a short wait, the text keeps barriers to its end:
 * otherwise compile time would decide where in a text the results change. */
dop_status dop_model_probe_at(dop_model *model, uint32_t pos, dop_diag *diag);
/* True if a finished step has stalled, or ended before making the last of n_picks picks. All picks not taken yet are
 * then invalid. */
bool dop_model_stalled(const dop_model *model, uint32_t n_picks);
/* Returns to barriers for good. Drops every pick that was not taken, and empties the mailboxes. */
dop_status dop_model_fall_back(dop_model *model, dop_diag *diag);

#endif
