/* Allocates pages before a sequence is written, and releases them after it is rewound. */
#ifndef DOPPLER_RUNTIME_STEP_SEQUENCE_PAGES_H
#define DOPPLER_RUNTIME_STEP_SEQUENCE_PAGES_H

#include <doppler/doppler.h>

/* Makes positions [from, to) of the sequence writable: copies shared pages and allocates missing ones. Fails with
 * DOP_E_FULL, and changes nothing, if the pool has too few. Nothing may be in flight if a page is shared. */
dop_status dop_sequence_reserve(dop_sequence *sequence, uint32_t from, uint32_t to, dop_diag *diag);
/* Returns the end of the positions to reserve for steps that end at `end`. A persistent step that stalls may write one
 * more position. */
uint32_t dop_sequence_end(const dop_sequence *sequence, uint32_t schedule, uint32_t end);
/* Releases the pages after the tokens that are in the states. Nothing may be in flight. */
void dop_sequence_trim(dop_sequence *sequence);
/* Registers the full pages of fed tokens under their keys (dop_pages_note). */
void dop_sequence_note(dop_sequence *sequence);

#endif
