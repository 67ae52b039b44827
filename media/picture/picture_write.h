/* PNG encoding of images. */
#ifndef DOPPLER_MEDIA_PICTURE_PICTURE_WRITE_H
#define DOPPLER_MEDIA_PICTURE_PICTURE_WRITE_H

#include "media/picture/picture.h"

/* A text chunk of a PNG file.  key: 1 to 79 Latin-1 letters; text: UTF-8. */
typedef struct dop_picture_text {
    const char *key, *text;
} dop_picture_text;

/* Appends the image as a PNG file.  Equal pixels and texts give equal bytes for one version of libpng and zlib.  Callable from any
 * thread. */
dop_status dop_picture_write_png(const dop_picture *picture, const dop_picture_text *texts, size_t n_texts,
                                 dop_diag *diag, dop_buf *out);
/* Appends a PNG file of black pixels with alpha [height * width]. */
dop_status dop_picture_write_alpha_png(uint32_t width, uint32_t height, const uint8_t *alpha, dop_diag *diag,
                                       dop_buf *out);

#endif
