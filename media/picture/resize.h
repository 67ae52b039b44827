/* Antialiased resizing of 8-bit RGB, bit-exact with Pillow and torchvision, which models are trained and evaluated with.  Both resize
 * rows, then columns, rounding to 8 bits in between, with fixed-point weights.  Pillow has 22 fractional bits; torchvision (for
 * tensors) has as many, up to 22, as let the largest weight fit 15 bits and a sign. */
#ifndef DOPPLER_MEDIA_PICTURE_RESIZE_H
#define DOPPLER_MEDIA_PICTURE_RESIZE_H

#include "media/picture/picture.h"

/* Resize filters, numbered as in Pillow and in `resample` of preprocessor_config.json. */
typedef enum dop_filter {
    DOP_FILTER_LANCZOS = 1,
    DOP_FILTER_BILINEAR = 2,
    DOP_FILTER_BICUBIC = 3,
} dop_filter;

typedef enum dop_fixed_point { DOP_FIXED_TORCHVISION, DOP_FIXED_PILLOW } dop_fixed_point;

/* Resizes an image to width x height pixels.  budget (NULL: unlimited) is charged for the result, which stays charged. */
dop_status dop_picture_resize(const dop_picture *picture, uint32_t width, uint32_t height, dop_filter filter,
                              dop_fixed_point point, dop_budget *budget, dop_diag *diag, dop_picture *out_picture);

#endif
