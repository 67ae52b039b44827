/* The picture that a drawing begins with, and the mask that says what of it is drawn, in the plan's size. */
#ifndef DOPPLER_RUNTIME_LIBRARY_DRAW_FIT_H
#define DOPPLER_RUNTIME_LIBRARY_DRAW_FIT_H

#include "media/picture/picture.h"
#include "plan/plan_format.h"
#include "runtime/library/draw.h"

/* A picture to begin with.  All memory is owned. */
typedef struct dop_draw_init {
    dop_picture picture; /* of the plan's size */
    uint8_t *drawn;      /* [height * width] of pixels; 0: the pixel is kept; NULL: there is no mask */
    uint8_t *places;     /* [latents_height * latents_width]: is one of the place's pixels drawn? */
} dop_draw_init;

/* Reads the options' picture and mask; *out_init is the caller's to finish, whatever comes back. */
dop_status dop_draw_init_read(const dop_plan_draw *plan, const dop_draw_options *options, dop_diag *diag,
                              dop_draw_init *out_init);
void dop_draw_init_finish(dop_draw_init *init);

#endif
