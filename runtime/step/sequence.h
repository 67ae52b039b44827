/* Sequences: feeding, scoring, and picking the next token, where the device can with in-flight steps. */
#ifndef DOPPLER_RUNTIME_STEP_SEQUENCE_H
#define DOPPLER_RUNTIME_STEP_SEQUENCE_H

#include <doppler/doppler.h>

/* Do n more tokens fit the context? */
dop_status dop_sequence_check_room(const dop_sequence *sequence, size_t n, dop_diag *diag);
/* Checks n more tokens, and drops steps that ran ahead. */
dop_status dop_sequence_make_room(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag);
/* Feeds the tokens that are not in the states yet. */
dop_status dop_sequence_catch_up(dop_sequence *sequence, dop_diag *diag);

/* A pick by the caller's own sampler, from the logits after the first n_tokens tokens. */
dop_status dop_sequence_own_pick(dop_sequence *sequence, const float *logits, size_t n_tokens, dop_diag *diag,
                                 uint32_t *out_id);

/* Who picks after the last token, the one place that decides: DOP_WANTS_PICK or DOP_WANTS_DRAW, the device; DOP_WANTS_LOGITS, the
 * host.  A plan in parts picks in its last part, which receives no masks. */
uint32_t dop_sequence_wants(const dop_sequence *sequence);
/* Pieces of dop_sequence_next: checks that there may be a next token; picks it by a step of one token and appends it;
 * and does what follows after a token was returned. */
dop_status dop_sequence_may_pick(dop_sequence *sequence, dop_diag *diag);
dop_status dop_sequence_pick(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id);
void dop_sequence_picked(dop_sequence *sequence);
/* All of these: the next token without drafts. */
dop_status dop_sequence_next_plain(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id);
/* A pick that is not appended yet, from a step of one token whose logits the host has. */
dop_status dop_sequence_pick_on_host(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id);

#endif
