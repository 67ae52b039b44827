/* Takes pages before a sequence is written, and releases them after it was rewound. */
#ifndef DOPPLER_RUNTIME_STEP_SEQUENCE_PAGES_H
#define DOPPLER_RUNTIME_STEP_SEQUENCE_PAGES_H

#include <doppler/doppler.h>

/* Makes the pages of positions [from, to) the sequence's own, so that a step may write there, and takes missing ones from the
 * pool.  DOP_E_FULL, with nothing changed: there are not enough.  Where a page is shared, nothing may be in flight. */
dop_status dop_sequence_reserve(dop_sequence *sequence, uint32_t from, uint32_t to, dop_diag *diag);
/* The end of the positions to reserve for steps that end at this one.  A persistent step that stalls may also write the next
 * position. */
uint32_t dop_sequence_end(const dop_sequence *sequence, uint32_t schedule, uint32_t end);
/* Releases the pages after the tokens that are in the states.  Nothing may be in flight. */
void dop_sequence_trim(dop_sequence *sequence);
/* Makes full pages of what is fed known by their keys (dop_pages_note). */
void dop_sequence_note(dop_sequence *sequence);

#endif
