/* Detects animations from the file structure alone.  Damaged files count as still images; decoding reports the
 * damage. */
#include "media/picture/picture.h"

#include <string.h>

/* Returns the offset after the GIF sub-blocks that begin at `at`. */
static size_t
skip_gif_blocks(const uint8_t *p, size_t size, size_t at)
{
    while (at < size && p[at] > 0)
        at += 1 + (size_t)p[at];
    return at + 1;
}

static bool
gif_is_animated(const uint8_t *p, size_t size)
{
    enum { HEADER = 13, DESCRIPTOR = 10 };
    size_t at = HEADER;
    uint32_t frames = 0;
    if (size < HEADER)
        return false;
    at += p[10] & 0x80 ? 3 * ((size_t)2 << (p[10] & 7)) : 0;
    while (at + 1 < size) {
        if (p[at] == 0x21) { /* extension: label and sub-blocks */
            at = skip_gif_blocks(p, size, at + 2);
        } else if (p[at] == 0x2c && at + DESCRIPTOR <= size) {
            if (++frames > 1)
                return true;
            const size_t palette = p[at + 9] & 0x80 ? 3 * ((size_t)2 << (p[at + 9] & 7)) : 0;
            at = skip_gif_blocks(p, size, at + DESCRIPTOR + palette + 1);
        } else {
            return false;
        }
    }
    return false;
}

/* True if an APNG's acTL chunk, which precedes the first image data, states more than one frame. */
static bool
png_is_animated(const uint8_t *p, size_t size)
{
    enum { SIGNATURE = 8, CHUNK = 12 };
    for (size_t at = SIGNATURE; at + CHUNK <= size;) {
        const size_t n = (size_t)p[at] << 24 | (size_t)p[at + 1] << 16 | (size_t)p[at + 2] << 8 | p[at + 3];
        if (memcmp(p + at + 4, "acTL", 4) == 0 && size - at >= CHUNK + 4)
            return p[at + 8] || p[at + 9] || p[at + 10] || p[at + 11] > 1;
        if (memcmp(p + at + 4, "IDAT", 4) == 0 || n > size - at - CHUNK)
            return false;
        at += CHUNK + n;
    }
    return false;
}

bool
dop_picture_is_animated(const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    if (size >= 6 && (memcmp(p, "GIF87a", 6) == 0 || memcmp(p, "GIF89a", 6) == 0))
        return gif_is_animated(p, size);
    if (size >= 8 && memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0)
        return png_is_animated(p, size);
    return size > 20 && memcmp(p + 8, "WEBPVP8X", 8) == 0 && (p[20] & 2); /* the animation flag */
}
