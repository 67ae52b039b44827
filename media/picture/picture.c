#include "media/picture/picture.h"

#include "media/picture/picture_internal.h"

#include <stdlib.h>
#include <string.h>

/* Turns a decoded picture upright, as its EXIF orientation says. */
static dop_status
orient(dop_decoding *d)
{
    static const struct {
        /* swap: rows of the file become columns; left_right, top_bottom: the file is read from right to left, from bottom to top. */
        bool swap, left_right, top_bottom;
    } how[9] = {
        [2] = {false, true, false}, [3] = {false, true, true}, [4] = {false, false, true}, [5] = {true, false, false},
        [6] = {true, false, true},  [7] = {true, true, true},  [8] = {true, true, false}};
    const uint32_t w = d->picture.width, h = d->picture.height, o = d->orientation;
    const uint64_t n = (uint64_t)w * h * 3;
    if (o < 2 || o > 8)
        return DOP_OK;
    if (!dop_budget_take(d->budget, n))
        return dop_budget_fail(d->budget, d->diag, "decoding the picture");
    uint8_t *turned = malloc(n);
    if (!turned) {
        dop_budget_give(d->budget, n);
        return DOP_NO_MEMORY(d->diag);
    }
    const uint32_t out_w = how[o].swap ? h : w, out_h = how[o].swap ? w : h;
    for (uint32_t y = 0; y < out_h; y++)
        for (uint32_t x = 0; x < out_w; x++) {
            const uint32_t sx = how[o].swap ? y : x, sy = how[o].swap ? x : y;
            const uint64_t from =
                (uint64_t)(how[o].top_bottom ? h - 1 - sy : sy) * w + (how[o].left_right ? w - 1 - sx : sx);
            memcpy(turned + ((uint64_t)y * out_w + x) * 3, d->picture.rgb + from * 3, 3);
        }
    free(d->picture.rgb);
    dop_budget_give(d->budget, n);
    d->picture = (dop_picture){out_w, out_h, turned};
    return DOP_OK;
}

static bool
begins(const dop_decoding *d, size_t at, const char *with, size_t n)
{
    return d->size >= at + n && memcmp(d->bytes + at, with, n) == 0;
}

/* Decodes a file by the decoder that its first bytes call for, since names and media types that come with pictures are often wrong. */
static dop_status
decode(dop_decoding *d)
{
    static const struct {
        const char *bytes;
        size_t n, at;
        dop_status (*decode)(dop_decoding *d); /* NULL: a format that is recognized and refused */
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
        if (begins(d, kinds[i].at, kinds[i].bytes, kinds[i].n))
            return kinds[i].decode ? kinds[i].decode(d)
                                   : DOP_FAIL(d->diag, DOP_E_INPUT,
                                              "the picture is %s: PNG, JPEG, WebP and GIF are read", kinds[i].what);
    return DOP_FAIL(d->diag, DOP_E_INPUT, "this is no picture of a known kind: PNG, JPEG, WebP and GIF are read");
}

/* Decodes what d describes, whose other fields are set here. */
static dop_status
decode_upright(dop_decoding *d, dop_picture *out_picture)
{
    d->max_pixels = d->max_pixels ? d->max_pixels : DOP_PICTURE_MAX_PIXELS;
    d->orientation = 1;
    *out_picture = (dop_picture){0};
    dop_status st = decode(d);
    if (st == DOP_OK)
        st = orient(d);
    dop_budget_give(d->budget, d->scratch);
    if (st != DOP_OK) {
        dop_budget_give(d->budget, (uint64_t)d->picture.width * d->picture.height * 3);
        dop_picture_finish(&d->picture);
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
