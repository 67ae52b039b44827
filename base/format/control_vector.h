/* Control vectors (representation engineering, https://arxiv.org/abs/2310.01405) as llama.cpp's tools make them: GGUF files with a
 * direction for each layer, "direction.N", which is added to the residual stream behind layer N. */
#ifndef DOPPLER_BASE_FORMAT_CONTROL_VECTOR_H
#define DOPPLER_BASE_FORMAT_CONTROL_VECTOR_H

#include "base/arena.h"
#include "base/base.h"

typedef struct dop_control_direction {
    uint32_t layer;
    const float *values; /* [width] */
} dop_control_direction;

typedef struct dop_control {
    dop_control_direction *directions; /* of the layers that were asked for, in the file's order */
    uint32_t n;
} dop_control;

/* The model that a control vector is for, and the layers behind which it is added. */
typedef struct dop_control_want {
    uint32_t width;  /* values of a row of the residual stream */
    uint32_t layers; /* of the model */
    uint32_t first, last;
} dop_control_want;

/* Is it a GGUF file with directions? */
bool dop_control_is(const char *path);
/* Reads a control vector into the arena.  Errors are one line: it is of another model, damaged, not finite, or none at all. */
dop_status dop_control_read(const char *path, const dop_control_want *want, dop_arena *arena, dop_diag *diag,
                            dop_control *out);

#endif
