/* The decoders of pictures; only media/ includes this. */
#ifndef DOPPLER_MEDIA_PICTURE_PICTURE_INTERNAL_H
#define DOPPLER_MEDIA_PICTURE_PICTURE_INTERNAL_H

#include "media/picture/picture.h"

/* A picture that is being decoded. */
typedef struct dop_decoding {
    const uint8_t *bytes;
    size_t size;         /* bytes of the file */
    uint64_t max_pixels; /* most pixels that the picture may have */
    dop_budget *budget;  /* NULL: unlimited */
    dop_diag *diag;
    dop_picture picture; /* what has been decoded so far */
    uint64_t scratch;    /* bytes that are charged to the budget until decoding ends */
    uint32_t columns; /* pixels in a row of the file: the picture's height if the orientation swaps rows and columns */
    uint32_t orientation; /* EXIF's number of the orientation, 1 to 8 */
    bool alpha;           /* the pixels' opacity is wanted, three times, and not their colors */
} dop_decoding;

/* Checks the picture's size and allocates its pixels, when a decoder has read the file's header.  scratch_bytes: memory of the decoder
 * itself, which stays charged to the budget until decoding ends. */
dop_status dop_decoding_start(dop_decoding *d, uint64_t width, uint64_t height, uint64_t scratch_bytes);
/* Charges the work of n pixels or bytes.  Fails if the budget is exhausted or the request was given up. */
dop_status dop_decoding_step(dop_decoding *d, uint64_t n);
/* Stores row y of the file, in pixels of `stride` bytes: color, and alpha if that is wanted.  The file's orientation is applied here, so
 * that the picture needs no second copy: d->orientation must be known before dop_decoding_start. */
void dop_decoding_put_row(dop_decoding *d, uint32_t y, const uint8_t *pixels, uint32_t stride);
/* Fails because the file is damaged; what: a library's message, or ours. */
dop_status dop_decoding_damaged(dop_decoding *d, const char *kind, const char *what);

/* Each decodes one kind of file into d->picture and sets d->orientation. */
dop_status dop_decode_png(dop_decoding *d);
dop_status dop_decode_jpeg(dop_decoding *d);
dop_status dop_decode_webp(dop_decoding *d);
dop_status dop_decode_gif(dop_decoding *d);

/* The orientation, 1 to 8, that an EXIF block (a TIFF header and its first directory) states; 1: none, or the block is damaged. */
uint32_t dop_exif_orientation(const uint8_t *bytes, size_t size);

#endif
