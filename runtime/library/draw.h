/* What the program's own users of doppler/draw.h check before a picture is drawn. */
#ifndef DOPPLER_RUNTIME_LIBRARY_DRAW_H
#define DOPPLER_RUNTIME_LIBRARY_DRAW_H

#include "base/base.h"
#include "base/budget.h"

#include <doppler/draw.h>

/* Are the options in range for this model?  Errors: those of dop_draw_picture.  Any thread. */
dop_status dop_draw_check(const dop_model *model, const dop_draw_options *options, dop_diag *diag);

/* Decodes a picture to begin with, and cuts and resizes it to a picture of the plan, as a small PNG file that is appended: as
 * dop_draw_options.init that gives the drawing which the bytes themselves give.  DOP_E_INPUT: it is damaged, or no picture; DOP_E_LIMIT:
 * it has too many pixels, or the budget is exhausted.  out_size: the width and height that it came with.  Any thread. */
dop_status dop_draw_fit(const dop_model *model, const void *bytes, size_t n, dop_budget *budget, dop_diag *diag,
                        dop_buf *out_png, uint32_t out_size[2]);
/* The same for the mask of a picture that came with `size`, which the file must have: as dop_draw_options.mask beside that small picture. */
dop_status dop_draw_fit_mask(const dop_model *model, const void *bytes, size_t n, const uint32_t size[2],
                             dop_budget *budget, dop_diag *diag, dop_buf *out_png);

#endif
