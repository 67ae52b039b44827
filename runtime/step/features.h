/* Rows of steps that are no tokens: features of pictures, under ids of their own behind the vocabulary (features.c). */
#ifndef DOPPLER_RUNTIME_STEP_FEATURES_H
#define DOPPLER_RUNTIME_STEP_FEATURES_H

#include "runtime/model/model.h"

/* Is the id that of a row of features that the model has? */
bool dop_features_has(const dop_model *model, uint32_t id);
/* Of rows at `pos` that a step takes: at most `take`, and fewer where rows that see one another would not be in one step.  0: `take`
 * rows do not hold them. */
uint32_t dop_features_uncut(const dop_model *model, const uint32_t *tokens, uint32_t pos, uint32_t take, uint32_t end);
/* Writes what a step receives about its rows beside the row table, as the schedule says where.  known: the rows' tokens are known; else
 * the device has made them, and they are text.  DOP_E_INPUT: features of a row are gone. */
dop_status dop_features_write(dop_model *model, uint32_t schedule, const dop_sequence_rows *rows, uint32_t n,
                              bool known, dop_diag *diag);

#endif
