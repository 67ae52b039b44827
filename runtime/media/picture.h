/* Pictures from outside: PNG, JPEG, WebP and GIF, decoded to 8-bit RGB by the system's libraries.
 *
 * The pixels are those that Pillow's Image.open, ImageOps.exif_transpose and convert("RGB") give, which is what image processors of
 * published models are defined on: the orientation in EXIF is applied, alpha is dropped (not blended), of 16 bits the upper 8 count,
 * an animation is its first frame.  One exception: 16-bit grayscale is scaled like everything else, where Pillow clips it to white. */
#ifndef DOPPLER_RUNTIME_MEDIA_PICTURE_H
#define DOPPLER_RUNTIME_MEDIA_PICTURE_H

#include "base/base.h"
#include "base/budget.h"

enum {
    DOP_PICTURE_MAX_EDGE = 32767, /* pixels: sizes of pictures and of what is made of them multiply without overflow */
    DOP_PICTURE_MAX_PIXELS = 1 << 26 /* where a caller has no number of its own: 8192 x 8192, 192 MiB of RGB */
};

typedef struct dop_picture {
    uint32_t width, height; /* pixels */
    uint8_t *rgb;           /* height * width * 3, row by row from the top; owned */
} dop_picture;

/* Decodes a file that is in memory.  DOP_E_LIMIT: more than max_pixels (0: DOP_PICTURE_MAX_PIXELS), or `budget` (NULL: unlimited) is
 * exhausted, which is charged before memory is taken; what the picture has stays charged.  DOP_E_INPUT: damaged, cut off, or of
 * another kind.  Each with one line.  Any thread. */
dop_status dop_picture_decode(const void *bytes, size_t size, uint64_t max_pixels, dop_budget *budget, dop_diag *diag,
                              dop_picture *out_picture);
void dop_picture_finish(dop_picture *picture); /* accepts a zeroed one */

#endif
