/* Rows of steps that are image features instead of tokens. Their ids follow those of the vocabulary. */
#ifndef DOPPLER_RUNTIME_STEP_FEATURES_H
#define DOPPLER_RUNTIME_STEP_FEATURES_H

#include "runtime/model/model.h"

/* Like dop_features_add, but takes ownership of the rows: *io_rows becomes NULL. */
dop_status dop_features_take(dop_model *model, float **io_rows, uint32_t n, uint32_t height, uint32_t width,
                             dop_diag *diag, uint32_t *out_first);
/* True if the model has a feature row with this id. */
bool dop_features_has(const dop_model *model, uint32_t id);
/* Shortens a step of `take` rows at `pos` so that it does not cut a group of rows that attend to one another. Returns
 * at most `take`; 0: the group that begins at `pos` needs more than `take` rows. */
uint32_t dop_features_uncut(const dop_model *model, const uint32_t *tokens, uint32_t pos, uint32_t take, uint32_t end);
/* Like dop_features_uncut, but extends the step up to `most` rows if the group at `pos` needs more than n. Returns n if
 * even `most` rows are too few. */
uint32_t dop_features_whole(const dop_model *model, const uint32_t *tokens, uint32_t pos, uint32_t n, uint32_t end,
                            uint32_t most);
/* Writes the features and positions of the step's rows into the schedule's inputs. known: false if the device picked
 * the tokens; they are then text. Fails with DOP_E_INPUT if features of a row were dropped. */
dop_status dop_features_write(dop_model *model, uint32_t schedule, const dop_sequence_rows *rows, uint32_t n,
                              bool known, dop_diag *diag);

#endif
