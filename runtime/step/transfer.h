/* Transfers states of a sequence: to another place of the same plan, to a slot for checkpoints, to the host, and back.  Each call records its own command buffer, which depends on the places and on the number of positions. */
#ifndef DOPPLER_RUNTIME_STEP_TRANSFER_H
#define DOPPLER_RUNTIME_STEP_TRANSFER_H

#include "runtime/model/model.h"

/* transfer.c: writes bytes of a slot of weights, or reads them.  Nothing may be in flight. */
dop_status dop_transfer_tensor(dop_model *model, uint32_t slot, uint64_t offset, void *bytes, uint64_t size, bool write,
                               dop_diag *diag);
/* transfer.c: the states of the sequence at a place, with nothing in flight: the first n positions of append state, and the
 * current copy of state that steps replace. */
bool dop_transfer_can(const dop_model *model); /* whether the plan says where each state is */
dop_status dop_transfer_clear(dop_model *model, uint32_t place, dop_diag *diag);
dop_status dop_transfer_copy(dop_model *model, uint32_t from, uint32_t to, uint32_t n, dop_diag *diag);
/* Copies the first rows of a page to another page.  Of the other functions only those that read and write states access pages. */
dop_status dop_transfer_copy_page(dop_model *model, uint32_t from, uint32_t to, uint32_t rows, dop_diag *diag);
/* Size of states in bytes, and reading and writing them, in the order of the plan's states.  A slot has rows of its last page only. */
uint64_t dop_transfer_size(dop_model *model, const dop_states *states);
dop_status dop_transfer_read(dop_model *model, const dop_states *states, dop_bytes_fn *take, void *user,
                             dop_diag *diag);
dop_status dop_transfer_write(dop_model *model, const dop_states *states, const uint8_t *bytes, dop_diag *diag);
/* Makes n slots, in all parts. */
dop_status dop_transfer_make_slots(dop_model *model, uint32_t n, dop_diag *diag);
/* Copies the whole states of the first n tokens between a place and a slot; tail: also the rows of a last page that is not full. */
dop_status dop_transfer_copy_slot(dop_model *model, uint32_t from, uint32_t to, uint32_t n, bool tail, dop_diag *diag);
/* Keeps the memory through which states go to and from the host, which each call would allocate otherwise. */
dop_status dop_transfer_keep_staging(dop_model *model, dop_diag *diag);
void dop_transfer_finish(dop_model *model); /* accepts a model that has none of these */

#endif
