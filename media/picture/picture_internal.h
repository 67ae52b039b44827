/* Image decoders; internal to media/. */
#ifndef DOPPLER_MEDIA_PICTURE_PICTURE_INTERNAL_H
#define DOPPLER_MEDIA_PICTURE_PICTURE_INTERNAL_H

#include "media/picture/picture.h"

/* State of decoding one image. */
typedef struct dop_decoding {
    const uint8_t *bytes;
    size_t size;         /* file size in bytes */
    uint64_t max_pixels; /* maximum number of pixels */
    dop_budget *budget;  /* NULL: unlimited */
    dop_diag *diag;
    dop_picture picture;  /* result so far */
    uint64_t scratch;     /* bytes charged to the budget until decoding ends */
    uint32_t columns;     /* pixels per row of the file; equals the height if the orientation swaps rows and columns */
    uint32_t orientation; /* EXIF orientation, 1 to 8 */
    bool alpha;           /* true to decode alpha, in all three channels, instead of colors */
} dop_decoding;

/* Checks the image size and allocates the pixels, after a decoder has read the header.  scratch_bytes: decoder memory, charged to the
 * budget until decoding ends. */
dop_status dop_decoding_start(dop_decoding *d, uint64_t width, uint64_t height, uint64_t scratch_bytes);
/* Charges the work of n pixels or bytes.  Fails if the budget is exhausted or cancelled. */
dop_status dop_decoding_step(dop_decoding *d, uint64_t n);
/* Stores row y of the file; pixels have `stride` bytes: color, and alpha if requested.  Applies the orientation, so no second copy is
 * needed; d->orientation must be set before dop_decoding_start. */
void dop_decoding_put_row(dop_decoding *d, uint32_t y, const uint8_t *pixels, uint32_t stride);
/* Fails because the file is damaged.  what: message of a library or our own. */
dop_status dop_decoding_damaged(dop_decoding *d, const char *kind, const char *what);

/* Each decodes one file type into d->picture and sets d->orientation. */
dop_status dop_decode_png(dop_decoding *d);
dop_status dop_decode_jpeg(dop_decoding *d);
dop_status dop_decode_webp(dop_decoding *d);
dop_status dop_decode_gif(dop_decoding *d);

/* Returns the orientation, 1 to 8, of an EXIF block (a TIFF header and its first directory); 1 if none or damaged. */
uint32_t dop_exif_orientation(const uint8_t *bytes, size_t size);

#endif
