/* Mapping from adapter tensors to model weights: which rows of which weight an adapter changes. Derived from the tables of tensor
 * names, for adapters with Hugging Face names and with GGUF names, independent of the model's own format. */
#ifndef DOPPLER_FRONTEND_ADAPTER_PLACES_H
#define DOPPLER_FRONTEND_ADAPTER_PLACES_H

#include "base/format/adapter.h"
#include "frontend/facts/arch.h"

/* Lists targets (indices of the model's weights) and places, in the arena. */
dop_status dop_adapter_places(const dop_checkpoint *m, dop_arena *arena, dop_diag *diag, dop_adapter_map *out);

/* Reads an adapter and merges it into the model's weights, times `scale`. Stored weights stay unchanged; the changes are applied
 * when rows are read (dop_weight_row). */
dop_status dop_checkpoint_merge(dop_checkpoint *m, const char *path, double scale, dop_diag *diag);
/* Adds a control vector (a GGUF file), times `scale`, to the residual stream after layers first .. last. Defined in
 * control_vector.c. */
dop_status dop_checkpoint_control(dop_checkpoint *m, const char *path, double scale, uint32_t first, uint32_t last,
                                  dop_diag *diag);

#endif
