/* Recurrent mixers in GGUF files: keys "ssm.*", "kda.*" and "shortconv.*". A layer's tensors show whether it has a
 * recurrent mixer, attention, or both. */
#ifndef DOPPLER_FRONTEND_GGUF_RECURRENT_H
#define DOPPLER_FRONTEND_GGUF_RECURRENT_H

#include "frontend/gguf/gguf_import.h"

/* True if a layer has a recurrent mixer (dop_gi_recurs) or attention (dop_gi_attends). */
bool dop_gi_recurs(const dop_gi *gi, uint32_t layer);
bool dop_gi_attends(const dop_gi *gi, uint32_t layer);
/* Reads the recurrent mixer of a layer, which replaces attention or runs in parallel with it. */
dop_status dop_gi_recurrent(dop_gi *gi, uint32_t layer, double eps);
/* Replaces the mapped vector w by a copy in the form that the graph needs (DOP_PART_TAPS, DOP_PART_DECAY). */
dop_status dop_gi_vector(const dop_gi *gi, const dop_rows *rows, dop_weight *w);
/* Builds w, the taps of a convolution, from several tensors with a group of channels each. Their names are consecutive table rows
 * from n on. */
dop_status dop_gi_taps(const dop_gi *gi, const dop_tensor_name *n, const dop_weight_need *need, const dop_rows *rows,
                       dop_weight *w);

#endif
