/* Pictures to files: PNG. */
#ifndef DOPPLER_MEDIA_PICTURE_PICTURE_WRITE_H
#define DOPPLER_MEDIA_PICTURE_PICTURE_WRITE_H

#include "media/picture/picture.h"

/* A text that a PNG file carries: a key of 1 to 79 letters of Latin-1, and UTF-8. */
typedef struct dop_picture_text {
    const char *key, *text;
} dop_picture_text;

/* Appends the picture as a PNG file.  The same pixels and texts give the same bytes with the same libpng and zlib.  Any thread. */
dop_status dop_picture_write_png(const dop_picture *picture, const dop_picture_text *texts, size_t n_texts,
                                 dop_diag *diag, dop_buf *out);
/* Appends a PNG file of black pixels, [height * width], with these opacities. */
dop_status dop_picture_write_alpha_png(uint32_t width, uint32_t height, const uint8_t *alpha, dop_diag *diag,
                                       dop_buf *out);

#endif
