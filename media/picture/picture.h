/* Pictures from outside: PNG, JPEG, WebP and GIF, decoded to 8-bit RGB by the system's libraries.
 *
 * The pixels are those that Pillow's Image.open, ImageOps.exif_transpose and convert("RGB") give, which is what image processors of
 * published models are defined on: the orientation in EXIF is applied, alpha is dropped (not blended), of 16 bits the upper 8 count,
 * an animation is its first frame.  One exception: 16-bit grayscale is scaled like everything else, where Pillow clips it to white. */
#ifndef DOPPLER_MEDIA_PICTURE_PICTURE_H
#define DOPPLER_MEDIA_PICTURE_PICTURE_H

#include "base/base.h"
#include "base/budget.h"

enum {
    DOP_PICTURE_MAX_EDGE = 32767, /* pixels: sizes of pictures and of what is made of them multiply without overflow */
    DOP_PICTURE_MAX_PIXELS = 1 << 26, /* limit where a caller states none: 8192 x 8192 pixels, 192 MiB of RGB */
    /* Limit with a budget where a caller states none.  Some decoders cannot be interrupted; this bounds the time they need. */
    DOP_PICTURE_BUDGETED_PIXELS = 1 << 25
};

typedef struct dop_picture {
    uint32_t width, height; /* pixels */
    uint8_t *rgb;           /* height * width * 3, row by row from the top; owned */
} dop_picture;

/* Decodes a file that is in memory.  `budget` (NULL: unlimited) is charged before memory is allocated; the bytes of the picture stay
 * charged.  DOP_E_LIMIT: the picture has more than max_pixels pixels (0: the limits above), or the budget is exhausted.
 * DOP_E_INPUT: the file is damaged, cut off, or of another kind.  Messages have one line.  Any thread. */
dop_status dop_picture_decode(const void *bytes, size_t size, uint64_t max_pixels, dop_budget *budget, dop_diag *diag,
                              dop_picture *out_picture);
/* The same for the opacity of the pixels (alpha) in the place of their colors: 0 to 255, three times the same number; 255 where the file has
 * none.  For GIF only the transparent color counts. */
dop_status dop_picture_decode_alpha(const void *bytes, size_t size, uint64_t max_pixels, dop_budget *budget,
                                    dop_diag *diag, dop_picture *out_picture);
/* Has a file more frames than one? */
bool dop_picture_is_animated(const void *bytes, size_t size);
void dop_picture_finish(dop_picture *picture); /* accepts a zeroed one */
/* Frees a picture and returns its bytes to the budget that was charged for them. */
void dop_picture_discard(dop_picture *picture, dop_budget *budget);

#endif
