/* Functions shared by the image decoders. */
#include "media/picture/picture_internal.h"

#include <stdlib.h>
#include <string.h>

dop_status
dop_decoding_damaged(dop_decoding *d, const char *kind, const char *what)
{
    if (dop_budget_ended(d->budget))
        return dop_budget_fail(d->budget, d->diag, "decoding the picture");
    return DOP_FAIL(d->diag, DOP_E_INPUT, "the picture is a damaged %s: %.200s", kind, what);
}

dop_status
dop_decoding_start(dop_decoding *d, uint64_t width, uint64_t height, uint64_t scratch_bytes)
{
    if (width == 0 || height == 0)
        return DOP_FAIL(d->diag, DOP_E_INPUT, "the picture has no pixels");
    if (width > DOP_PICTURE_MAX_EDGE || height > DOP_PICTURE_MAX_EDGE || width * height > d->max_pixels)
        return DOP_FAIL(d->diag, DOP_E_LIMIT,
                        "the picture has %llu x %llu pixels, more than the %llu (and %d to an edge) that are allowed",
                        (unsigned long long)width, (unsigned long long)height, (unsigned long long)d->max_pixels,
                        DOP_PICTURE_MAX_EDGE);
    const uint64_t pixels = width * height;
    if (!dop_budget_take(d->budget, 3 * pixels))
        return dop_budget_fail(d->budget, d->diag, "decoding the picture");
    d->columns = (uint32_t)width;
    d->picture.width = (uint32_t)(d->orientation < 5 ? width : height);
    d->picture.height = (uint32_t)(d->orientation < 5 ? height : width);
    if (!dop_budget_take(d->budget, scratch_bytes) || !dop_budget_step(d->budget, pixels))
        return dop_budget_fail(d->budget, d->diag, "decoding the picture");
    d->scratch = scratch_bytes;
    d->picture.rgb = calloc(pixels, 3);
    return d->picture.rgb ? DOP_OK : DOP_NO_MEMORY(d->diag);
}

dop_status
dop_decoding_step(dop_decoding *d, uint64_t n)
{
    return dop_budget_step(d->budget, n) ? DOP_OK : dop_budget_fail(d->budget, d->diag, "decoding the picture");
}

void
dop_decoding_put_row(dop_decoding *d, uint32_t y, const uint8_t *pixels, uint32_t stride)
{
    static const struct {
        /* swap: file rows become columns; left_right, top_bottom: the file is mirrored along that axis. */
        bool swap, left_right, top_bottom;
    } how[9] = {
        [2] = {false, true, false}, [3] = {false, true, true}, [4] = {false, false, true}, [5] = {true, false, false},
        [6] = {true, false, true},  [7] = {true, true, true},  [8] = {true, true, false}};
    const uint32_t o = d->orientation, w = d->columns, h = how[o].swap ? d->picture.width : d->picture.height;
    const size_t row = how[o].top_bottom ? h - 1 - y : y;
    for (uint32_t x = 0; x < w; x++, pixels += stride) {
        const size_t column = how[o].left_right ? w - 1 - x : x;
        uint8_t *to = d->picture.rgb + 3 * (how[o].swap ? column * h + row : row * w + column);
        for (uint32_t k = 0; k < 3; k++)
            to[k] = pixels[d->alpha ? 3 : k];
    }
}

/* Parses a TIFF header and its first directory.  The first two bytes state the byte order.  A directory is a count and entries of 12
 * bytes: tag, type, count, value. */
uint32_t
dop_exif_orientation(const uint8_t *bytes, size_t size)
{
    if (size >= 6 && memcmp(bytes, "Exif\0\0", 6) == 0) {
        bytes += 6;
        size -= 6;
    }
    if (size < 8 || (memcmp(bytes, "II*\0", 4) != 0 && memcmp(bytes, "MM\0*", 4) != 0))
        return 1;
    const bool little = bytes[0] == 'I';
#define U16(at) (little ? (uint32_t)(bytes[at] | bytes[(at) + 1] << 8) : (uint32_t)(bytes[at] << 8 | bytes[(at) + 1]))
    const uint64_t first =
        little ? U16(4) | (uint64_t)U16(6) << 16 : (uint64_t)U16(4) << 16 | U16(6); /* offset of the directory */
    if (first + 2 > size)
        return 1;
    const size_t n = U16(first);
    for (size_t i = 0; i < n && first + 2 + 12 * (i + 1) <= size; i++) {
        const size_t at = (size_t)first + 2 + 12 * i;
        enum { ORIENTATION = 0x112, SHORT = 3 };
        if (U16(at) == ORIENTATION && U16(at + 2) == SHORT)
            return U16(at + 8) >= 1 && U16(at + 8) <= 8 ? U16(at + 8) : 1;
    }
#undef U16
    return 1;
}
