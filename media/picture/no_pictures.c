/* Image decoding without format libraries (DOPPLER_MEDIA=OFF).  GIF needs no library and is supported. */
#include "media/picture/picture_internal.h"
#include "media/picture/picture_write.h"

dop_status
dop_decode_png(dop_decoding *d)
{
    return DOP_FAIL(d->diag, DOP_E_USAGE, "this build of Doppler does not read PNG pictures");
}

dop_status
dop_decode_jpeg(dop_decoding *d)
{
    return DOP_FAIL(d->diag, DOP_E_USAGE, "this build of Doppler does not read JPEG pictures");
}

dop_status
dop_decode_webp(dop_decoding *d)
{
    return DOP_FAIL(d->diag, DOP_E_USAGE, "this build of Doppler does not read WebP pictures");
}

dop_status
dop_picture_write_png(const dop_picture *picture, const dop_picture_text *texts, size_t n_texts, dop_diag *diag,
                      dop_buf *out)
{
    (void)picture, (void)texts, (void)n_texts, (void)out;
    return DOP_FAIL(diag, DOP_E_USAGE, "this build of Doppler does not write PNG pictures");
}

dop_status
dop_picture_write_alpha_png(uint32_t width, uint32_t height, const uint8_t *alpha, dop_diag *diag, dop_buf *out)
{
    (void)width, (void)height, (void)alpha, (void)out;
    return DOP_FAIL(diag, DOP_E_USAGE, "this build of Doppler does not write PNG pictures");
}
