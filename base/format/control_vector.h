/* Control vectors (representation engineering, https://arxiv.org/abs/2310.01405) as llama.cpp's tools make them: GGUF files with one
 * tensor "direction.N" per layer, which is added to the residual stream after layer N. */
#ifndef DOPPLER_BASE_FORMAT_CONTROL_VECTOR_H
#define DOPPLER_BASE_FORMAT_CONTROL_VECTOR_H

#include "base/arena.h"
#include "base/base.h"

typedef struct dop_control_direction {
    uint32_t layer;
    const float *values; /* [width] */
} dop_control_direction;

typedef struct dop_control {
    dop_control_direction *directions; /* directions of the requested layers, in file order */
    uint32_t n;
} dop_control;

/* Requirements on a control vector: the model's sizes, and the layers to read. */
typedef struct dop_control_want {
    uint32_t width;  /* width of the residual stream */
    uint32_t layers; /* number of layers of the model */
    uint32_t first, last;
} dop_control_want;

/* True if the file is GGUF with direction tensors. */
bool dop_control_is(const char *path);
/* Reads a control vector into the arena.  Fails with one line if it is of another model, damaged, not finite, or not a control vector. */
dop_status dop_control_read(const char *path, const dop_control_want *want, dop_arena *arena, dop_diag *diag,
                            dop_control *out);

#endif
