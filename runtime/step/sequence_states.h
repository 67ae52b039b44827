/* Sequences as tokens and a place in the plan's states: creating, destroying, forking and rewinding them. */
#ifndef DOPPLER_RUNTIME_STEP_SEQUENCE_STATES_H
#define DOPPLER_RUNTIME_STEP_SEQUENCE_STATES_H

#include <doppler/doppler.h>

/* Rings may have lost positions that the row at `next` sees, because later positions were written and dropped again.  In that
 * case this takes the states to a checkpoint, or empties them, so that everything is fed again.  Nothing may be in flight. */
dop_status dop_sequence_keep_rings(dop_sequence *sequence, uint32_t next, dop_diag *diag);
/* Takes the states back to at most the first n tokens, to fewer where steps replace them and no copy from that point is left.
 * Nothing may be in flight. */
dop_status dop_sequence_go_back(dop_sequence *sequence, uint32_t n, dop_diag *diag);
/* Drops tokens that speculation has made and nobody took, also from the states.  Nothing may be in flight. */
dop_status dop_sequence_settle(dop_sequence *sequence, dop_diag *diag);
/* Takes the states to the longest checkpoint of at most the first n tokens, or empties the sequence.  Nothing may be in flight. */
dop_status dop_sequence_fall_back(dop_sequence *sequence, uint32_t n, dop_diag *diag);
/* Empties the sequence and zeroes its states.  Nothing may be in flight. */
dop_status dop_sequence_empty(dop_sequence *sequence, dop_diag *diag);

#endif
