#include "media/picture/picture.h"

#include "media/picture/picture_internal.h"

#include <stdlib.h>
#include <string.h>

static bool
file_has_bytes_at(const dop_decoding *d, size_t at, const char *with, size_t n)
{
    return d->size >= at + n && memcmp(d->bytes + at, with, n) == 0;
}

/* Selects the decoder by the first bytes, because file names and media types are often wrong. */
static dop_status
decode_by_magic(dop_decoding *d)
{
    static const struct {
        const char *bytes;
        size_t n, at;
        dop_status (*decode)(dop_decoding *d); /* NULL: recognized but not supported */
        const char *what;
    } kinds[] = {{"\x89PNG\r\n\x1a\n", 8, 0, dop_decode_png, NULL},
                 {"\xff\xd8\xff", 3, 0, dop_decode_jpeg, NULL},
                 {"WEBP", 4, 8, dop_decode_webp, NULL},
                 {"GIF87a", 6, 0, dop_decode_gif, NULL},
                 {"GIF89a", 6, 0, dop_decode_gif, NULL},
                 {"ftypavif", 8, 4, NULL, "an AVIF file"},
                 {"ftyphei", 7, 4, NULL, "a HEIC file"},
                 {"ftypmif1", 8, 4, NULL, "a HEIF file"},
                 {"ftyp", 4, 4, NULL, "a film"},
                 {"BM", 2, 0, NULL, "a BMP file"},
                 {"II*\0", 4, 0, NULL, "a TIFF file"},
                 {"MM\0*", 4, 0, NULL, "a TIFF file"},
                 {"\xff\x0a", 2, 0, NULL, "a JPEG XL file"},
                 {"\0\0\0\x0cJXL ", 8, 0, NULL, "a JPEG XL file"},
                 {"\0\0\0\x0cjP  ", 8, 0, NULL, "a JPEG 2000 file"},
                 {"%PDF", 4, 0, NULL, "a PDF file"},
                 {"<svg", 4, 0, NULL, "an SVG file"},
                 {"<", 1, 0, NULL, "markup (XML or HTML)"}};
    if (d->size == 0)
        return DOP_FAIL(d->diag, DOP_E_INPUT, "the picture is empty");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (file_has_bytes_at(d, kinds[i].at, kinds[i].bytes, kinds[i].n))
            return kinds[i].decode ? kinds[i].decode(d)
                                   : DOP_FAIL(d->diag, DOP_E_INPUT,
                                              "the picture is %s: PNG, JPEG, WebP and GIF are read", kinds[i].what);
    return DOP_FAIL(d->diag, DOP_E_INPUT, "this is no picture of a known kind: PNG, JPEG, WebP and GIF are read");
}

/* Decodes the file that d describes; sets the other fields of d. */
static dop_status
decode_upright(dop_decoding *d, dop_picture *out_picture)
{
    if (d->max_pixels == 0)
        d->max_pixels = d->budget ? DOP_PICTURE_BUDGETED_PIXELS : DOP_PICTURE_MAX_PIXELS;
    d->orientation = 1;
    *out_picture = (dop_picture){0};
    const dop_status st = decode_by_magic(d);
    dop_budget_give(d->budget, d->scratch);
    if (st != DOP_OK) {
        dop_picture_discard(&d->picture, d->budget);
        return st;
    }
    *out_picture = d->picture;
    return DOP_OK;
}

dop_status
dop_picture_decode(const void *bytes, size_t size, uint64_t max_pixels, dop_budget *budget, dop_diag *diag,
                   dop_picture *out_picture)
{
    dop_decoding d = {.bytes = bytes, .size = size, .max_pixels = max_pixels, .budget = budget, .diag = diag};
    return decode_upright(&d, out_picture);
}

dop_status
dop_picture_decode_alpha(const void *bytes, size_t size, uint64_t max_pixels, dop_budget *budget, dop_diag *diag,
                         dop_picture *out_picture)
{
    dop_decoding d = {
        .bytes = bytes, .size = size, .max_pixels = max_pixels, .budget = budget, .diag = diag, .alpha = true};
    return decode_upright(&d, out_picture);
}

void
dop_picture_finish(dop_picture *picture)
{
    free(picture->rgb);
    *picture = (dop_picture){0};
}

void
dop_picture_discard(dop_picture *picture, dop_budget *budget)
{
    dop_budget_give(budget, (uint64_t)picture->width * picture->height * 3);
    dop_picture_finish(picture);
}
