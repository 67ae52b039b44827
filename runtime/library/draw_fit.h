/* Initial image of a drawing and the mask of the pixels to draw, in the plan's size. */
#ifndef DOPPLER_RUNTIME_LIBRARY_DRAW_FIT_H
#define DOPPLER_RUNTIME_LIBRARY_DRAW_FIT_H

#include "media/picture/picture.h"
#include "plan/plan_format.h"
#include "runtime/library/draw.h"

/* Initial image. All memory is owned. */
typedef struct dop_draw_init {
    dop_picture picture; /* in the plan's size */
    uint8_t *drawn;      /* [height * width], by pixel; 0: the pixel is kept; NULL: no mask */
    uint8_t *places;     /* [latents_height * latents_width]: nonzero if any pixel of the latent position is drawn */
} dop_draw_init;

/* Reads the image and mask of the options. The caller must finish *out_init, also after an error. */
dop_status dop_draw_init_read(const dop_plan_draw *plan, const dop_draw_options *options, dop_diag *diag,
                              dop_draw_init *out_init);
void dop_draw_init_finish(dop_draw_init *init);

#endif
