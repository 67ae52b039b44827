/* Decoding of untrusted PNG, JPEG, WebP and GIF files to 8-bit RGB with system libraries.
 *
 * Pixels equal those of Pillow's Image.open, ImageOps.exif_transpose and convert("RGB"), the reference of published image processors.
 * EXIF orientation is applied, alpha is dropped (not blended), 16-bit samples keep their upper 8 bits, and animations yield their first
 * frame.  One exception: 16-bit grayscale is scaled likewise, although Pillow clips it to white. */
#ifndef DOPPLER_MEDIA_PICTURE_PICTURE_H
#define DOPPLER_MEDIA_PICTURE_PICTURE_H

#include "base/base.h"
#include "base/budget.h"

enum {
    DOP_PICTURE_MAX_EDGE = 32767,     /* maximum edge in pixels; keeps products of sizes from overflowing */
    DOP_PICTURE_MAX_PIXELS = 1 << 26, /* default limit: 8192 x 8192 pixels, 192 MiB of RGB */
    /* Default limit with a budget.  It bounds the time of decoders that cannot be interrupted. */
    DOP_PICTURE_BUDGETED_PIXELS = 1 << 25
};

typedef struct dop_picture {
    uint32_t width, height; /* pixels */
    uint8_t *rgb;           /* owned; [height][width][3], top row first */
} dop_picture;

/* Decodes a file in memory.  budget (NULL: unlimited) is charged before allocations; the bytes of the image stay charged.  DOP_E_LIMIT:
 * more than max_pixels pixels (0: the limits above), or the budget is exhausted.  DOP_E_INPUT: damaged, truncated, or another file
 * type.  Messages have one line.  Callable from any thread. */
dop_status dop_picture_decode(const void *bytes, size_t size, uint64_t max_pixels, dop_budget *budget, dop_diag *diag,
                              dop_picture *out_picture);
/* Like dop_picture_decode, but returns alpha (0 to 255) in each of the three channels; 255 if the file has none.  For GIF, only the
 * transparent color has alpha 0. */
dop_status dop_picture_decode_alpha(const void *bytes, size_t size, uint64_t max_pixels, dop_budget *budget,
                                    dop_diag *diag, dop_picture *out_picture);
/* True if the file has several frames. */
bool dop_picture_is_animated(const void *bytes, size_t size);
void dop_picture_finish(dop_picture *picture); /* accepts a zeroed struct */
/* Frees an image and returns its bytes to the budget that was charged. */
void dop_picture_discard(dop_picture *picture, dop_budget *budget);

#endif
