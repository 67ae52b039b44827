/* Checks and preparation before an image is drawn, for internal users of doppler/draw.h. */
#ifndef DOPPLER_RUNTIME_LIBRARY_DRAW_H
#define DOPPLER_RUNTIME_LIBRARY_DRAW_H

#include "base/base.h"
#include "base/budget.h"

#include <doppler/draw.h>

/* Checks that the options are valid for this model. Errors as in dop_draw_picture. Callable from any thread. */
dop_status dop_draw_check(const dop_model *model, const dop_draw_options *options, dop_diag *diag);

/* Decodes an initial image, crops and resizes it to the plan's size, and appends it as a small PNG. As
 * dop_draw_options.init, the PNG gives the same drawing as the original bytes. Fails with DOP_E_INPUT if it is damaged
 * or no image, DOP_E_LIMIT if it has too many pixels or the budget is exhausted. out_size: original width and height.
 * Callable from any thread. */
dop_status dop_draw_fit(const dop_model *model, const void *bytes, size_t n, dop_budget *budget, dop_diag *diag,
                        dop_buf *out_png, uint32_t out_size[2]);
/* Does the same for the mask of an image of original size `size`, which the mask must have, too. The PNG is for
 * dop_draw_options.mask, together with the PNG of dop_draw_fit. */
dop_status dop_draw_fit_mask(const dop_model *model, const void *bytes, size_t n, const uint32_t size[2],
                             dop_budget *budget, dop_diag *diag, dop_buf *out_png);

#endif
