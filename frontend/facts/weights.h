/* Functions of weights.c. */
#ifndef DOPPLER_FRONTEND_FACTS_WEIGHTS_H
#define DOPPLER_FRONTEND_FACTS_WEIGHTS_H

#include "frontend/facts/arch.h"

/* Builds w, a drafter's token list, from n stored numbers of 4 or 8 bytes: ids, or, if `relative`, offsets from the index. Fails
 * if an id is not below vocab. tensor: its name, for messages. */
dop_status dop_drafter_list(const uint8_t *data, uint32_t bytes, bool relative, uint32_t vocab, const char *path,
                            const char *tensor, dop_arena *arena, dop_diag *diag, dop_weight *w);

#endif
