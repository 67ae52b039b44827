/* Rows of steps that are no tokens: features of pictures, under ids of their own behind the vocabulary. */
#ifndef DOPPLER_RUNTIME_STEP_FEATURES_H
#define DOPPLER_RUNTIME_STEP_FEATURES_H

#include "runtime/model/model.h"

/* As dop_features_add, with rows that it owns then (*io_rows becomes NULL). */
dop_status dop_features_take(dop_model *model, float **io_rows, uint32_t n, uint32_t height, uint32_t width,
                             dop_diag *diag, uint32_t *out_first);
/* Is the id that of a row of features that the model has? */
bool dop_features_has(const dop_model *model, uint32_t id);
/* Of the rows at `pos` that a step could take: at most `take`, and fewer where rows that see one another would not be in one step.
 * 0: `take` rows do not hold those that begin at `pos`. */
uint32_t dop_features_uncut(const dop_model *model, const uint32_t *tokens, uint32_t pos, uint32_t take, uint32_t end);
/* As the former, but with up to `most` rows where n do not hold those at `pos`; n: not even these do. */
uint32_t dop_features_whole(const dop_model *model, const uint32_t *tokens, uint32_t pos, uint32_t n, uint32_t end,
                            uint32_t most);
/* Writes what a step receives about its rows beside the row table, where the schedule says.  known: the rows' tokens are known; else
 * the device has made them, and they are text.  DOP_E_INPUT: features of a row are gone. */
dop_status dop_features_write(dop_model *model, uint32_t schedule, const dop_sequence_rows *rows, uint32_t n,
                              bool known, dop_diag *diag);

#endif
