/* Recurrent mixers of GGUF files: keys "ssm.*", "kda.*" and "shortconv.*".  A layer's tensors tell whether it has a recurrent mixer, and whether it has attention. */
#ifndef DOPPLER_FRONTEND_GGUF_RECURRENT_H
#define DOPPLER_FRONTEND_GGUF_RECURRENT_H

#include "frontend/gguf/gguf_import.h"

/* Whether a layer has a recurrent mixer (dop_gi_recurs), and whether it has attention (dop_gi_attends). */
bool dop_gi_recurs(const dop_gi *gi, uint32_t layer);
bool dop_gi_attends(const dop_gi *gi, uint32_t layer);
/* Reads the recurrent mixer of a layer, which stands beside its attention or instead of it. */
dop_status dop_gi_recurrent(dop_gi *gi, uint32_t layer, double eps);
/* Replaces the vector w, which lies in the file, by a copy in the form that the graph needs (DOP_PART_TAPS, DOP_PART_DECAY). */
dop_status dop_gi_vector(const dop_gi *gi, const dop_rows *rows, dop_weight *w);
/* Makes w, the taps of one convolution, from several tensors with a group of channels each; their names are consecutive rows of the
 * table, from n on. */
dop_status dop_gi_taps(const dop_gi *gi, const dop_tensor_name *n, const dop_weight_need *need, const dop_rows *rows,
                       dop_weight *w);

#endif
