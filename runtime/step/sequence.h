/* Sequences: feeding, scoring, and picking the next token, with in-flight steps if the device can continue by
 * itself. */
#ifndef DOPPLER_RUNTIME_STEP_SEQUENCE_H
#define DOPPLER_RUNTIME_STEP_SEQUENCE_H

#include <doppler/doppler.h>

/* Fails if n more tokens do not fit in the context. */
dop_status dop_sequence_check_room(const dop_sequence *sequence, size_t n, dop_diag *diag);
/* Checks that n more tokens are valid and fit, and drops steps that ran ahead. */
dop_status dop_sequence_make_room(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag);
/* Feeds the tokens that are not in the states yet. */
dop_status dop_sequence_catch_up(dop_sequence *sequence, dop_diag *diag);

/* Picks with the caller's own sampler, from the logits after the first n_tokens tokens. */
dop_status dop_sequence_own_pick(dop_sequence *sequence, const float *logits, size_t n_tokens, dop_diag *diag,
                                 uint32_t *out_id);

/* Decides where the next token is picked: DOP_WANTS_PICK and DOP_WANTS_DRAW mean on the device, DOP_WANTS_LOGITS on the
 * host. A plan in parts picks in its last part, which receives no masks. */
uint32_t dop_sequence_wants(const dop_sequence *sequence);
/* The phases of dop_sequence_next. may_pick: checks that there may be a next token. pick: picks it by a single-token
 * step and appends it. picked: updates the counts and may submit the next step. */
dop_status dop_sequence_may_pick(dop_sequence *sequence, dop_diag *diag);
dop_status dop_sequence_pick(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id);
void dop_sequence_picked(dop_sequence *sequence);
/* Returns the next token without drafts, in all three phases. */
dop_status dop_sequence_next_plain(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id);
/* Picks on the host from the logits of a single-token step, without appending the token. */
dop_status dop_sequence_pick_on_host(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id);

#endif
