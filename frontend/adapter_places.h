/* Places of adapters' matrices: what the tables of tensor names say about which rows of which weight an adapter of a model changes,
 * for adapters in Hugging Face names and in GGUF names, whatever the model's own format is. */
#ifndef DOPPLER_FRONTEND_ADAPTER_PLACES_H
#define DOPPLER_FRONTEND_ADAPTER_PLACES_H

#include "base/format/adapter.h"
#include "frontend/facts/arch.h"

/* Lists targets, which are the model's weights by index, and places, in the arena. */
dop_status dop_adapter_places(const dop_checkpoint *m, dop_arena *arena, dop_diag *diag, dop_adapter_map *out);

/* Reads an adapter and merges it into the model's weights, times `scale`.  The weights keep what they were read from; their changes are
 * applied when rows are read (dop_weight_row). */
dop_status dop_checkpoint_merge(dop_checkpoint *m, const char *path, double scale, dop_diag *diag);
/* control_vector.c: makes the model add a control vector, a GGUF file, times `scale` behind its layers first .. last. */
dop_status dop_checkpoint_control(dop_checkpoint *m, const char *path, double scale, uint32_t first, uint32_t last,
                                  dop_diag *diag);

#endif
