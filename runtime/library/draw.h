/* What the program's own users of doppler/draw.h check before a picture is drawn. */
#ifndef DOPPLER_RUNTIME_LIBRARY_DRAW_H
#define DOPPLER_RUNTIME_LIBRARY_DRAW_H

#include <doppler/draw.h>

/* Are the options in range for this model?  Errors: those of dop_draw_picture.  Any thread. */
dop_status dop_draw_check(const dop_model *model, const dop_draw_options *options, dop_diag *diag);

#endif
