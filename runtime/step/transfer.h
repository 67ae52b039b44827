/* Transfers states of a sequence to another place of the same plan, to a checkpoint slot, to the host, and back. Each
 * call records its own command buffer, because the copies depend on the places and position counts. */
#ifndef DOPPLER_RUNTIME_STEP_TRANSFER_H
#define DOPPLER_RUNTIME_STEP_TRANSFER_H

#include "runtime/model/model.h"

/* Writes or reads bytes of a weights slot. Nothing may be in flight. */
dop_status dop_transfer_tensor(dop_model *model, uint32_t slot, uint64_t offset, void *bytes, uint64_t size, bool write,
                               dop_diag *diag);
/* These act on the states of the sequence at a place: the first n positions of append state, and the current copy of
 * replaced state. Nothing may be in flight. */
bool dop_transfer_can(const dop_model *model); /* true if the plan records where each state is */
dop_status dop_transfer_clear(dop_model *model, uint32_t place, dop_diag *diag);
dop_status dop_transfer_copy(dop_model *model, uint32_t from, uint32_t to, uint32_t n, dop_diag *diag);
/* Copies the first rows of a page to another page. Apart from this, only the functions that read and write states
 * access pages. */
dop_status dop_transfer_copy_page(dop_model *model, uint32_t from, uint32_t to, uint32_t rows, dop_diag *diag);
/* Return the size of states in bytes, and read or write them, in the order of the plan's states. A slot has only the
 * rows of its last page. */
uint64_t dop_transfer_size(dop_model *model, const dop_states *states);
dop_status dop_transfer_read(dop_model *model, const dop_states *states, dop_bytes_fn *take, void *user,
                             dop_diag *diag);
dop_status dop_transfer_write(dop_model *model, const dop_states *states, const uint8_t *bytes, dop_diag *diag);
/* Creates n slots, in all parts. */
dop_status dop_transfer_make_slots(dop_model *model, uint32_t n, dop_diag *diag);
/* Copies the single-position states of the first n tokens between a place and a slot. tail: also copies the rows of a
 * partly filled last page. */
dop_status dop_transfer_copy_slot(dop_model *model, uint32_t from, uint32_t to, uint32_t n, bool tail, dop_diag *diag);
/* Allocates the staging buffer for host transfers permanently; otherwise each call allocates its own. */
dop_status dop_transfer_keep_staging(dop_model *model, dop_diag *diag);
void dop_transfer_finish(dop_model *model); /* accepts a model without slots or staging memory */

#endif
