/* Creates, destroys, forks and rewinds sequences (tokens plus a place in the plan's states). */
#ifndef DOPPLER_RUNTIME_STEP_SEQUENCE_STATES_H
#define DOPPLER_RUNTIME_STEP_SEQUENCE_STATES_H

#include <doppler/doppler.h>

/* Checks that the sliding windows still have all positions that the row at `next` attends to; positions written and
 * dropped later may have overwritten them. If not, restores a checkpoint or empties the sequence, so that tokens are
 * fed again. Nothing may be in flight. */
dop_status dop_sequence_keep_rings(dop_sequence *sequence, uint32_t next, dop_diag *diag);
/* Takes the states back to at most the first n tokens, or fewer if replaced states have no copy from that position.
 * Nothing may be in flight. */
dop_status dop_sequence_go_back(dop_sequence *sequence, uint32_t n, dop_diag *diag);
/* Drops tokens that speculation made and no call has returned, also from the states. Nothing may be in flight. */
dop_status dop_sequence_settle(dop_sequence *sequence, dop_diag *diag);
/* Restores the longest checkpoint of at most the first n tokens, or empties the sequence. Nothing may be in flight. */
dop_status dop_sequence_fall_back(dop_sequence *sequence, uint32_t n, dop_diag *diag);
/* Empties the sequence and zeroes its states.  Nothing may be in flight. */
dop_status dop_sequence_empty(dop_sequence *sequence, dop_diag *diag);

#endif
