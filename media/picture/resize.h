/* Resizing of 8-bit RGB with a filter whose width follows the scale ("antialias"), to the same bits as the two programs that models
 * are trained and evaluated with, Pillow and torchvision.  Both resize along rows, then along columns, round to 8 bits in between, and
 * have fixed-point weights: Pillow with 22 bits behind the binary point, torchvision (for tensors) with as many, up to 22, as let the
 * largest weight fit 15 bits and a sign. */
#ifndef DOPPLER_MEDIA_PICTURE_RESIZE_H
#define DOPPLER_MEDIA_PICTURE_RESIZE_H

#include "media/picture/picture.h"

/* Filters for resizing, by Pillow's numbers, which preprocessor_config.json has under `resample`. */
typedef enum dop_filter {
    DOP_FILTER_LANCZOS = 1,
    DOP_FILTER_BILINEAR = 2,
    DOP_FILTER_BICUBIC = 3,
} dop_filter;

typedef enum dop_fixed_point { DOP_FIXED_TORCHVISION, DOP_FIXED_PILLOW } dop_fixed_point;

/* Resizes a picture to width x height pixels, whose memory is charged to `budget` (NULL: unlimited) and stays charged. */
dop_status dop_picture_resize(const dop_picture *picture, uint32_t width, uint32_t height, dop_filter filter,
                              dop_fixed_point point, dop_budget *budget, dop_diag *diag, dop_picture *out_picture);

#endif
