/* GIF decoder for the first frame: LZW and a palette.  Too small to justify a library. */
#include "media/picture/picture_internal.h"

#include <stdlib.h>
#include <string.h>

enum { CODES = 4096 };

typedef struct gif_state {
    dop_decoding *d;
    size_t at;              /* bytes of the file read so far */
    const uint8_t *palette; /* colors of 3 bytes; NULL: grayscale */
    uint32_t colors;
    /* Index of the transparent color, which also fills the canvas outside the frame; 0 if none is stated. */
    int transparent;
    bool some_transparent; /* true if the file states a transparent color */
    /* Rectangle of the frame, in pixels of the image. */
    uint32_t left, top, width, height;
    bool interlaced;
    uint64_t written; /* pixels of the frame decoded so far */
    /* LZW dictionary: the string of a code is the string of prefix[code], followed by last[code]. */
    uint16_t prefix[CODES];
    uint8_t last[CODES];
    uint8_t string[CODES]; /* scratch: string of one code, in reverse */
} gif_state;

static dop_status
refuse_truncated_gif(gif_state *g)
{
    return dop_decoding_damaged(g->d, "GIF", "it ends too early");
}

static uint32_t
load_gif_u16(const uint8_t *p)
{
    return (uint32_t)(p[0] | p[1] << 8);
}

/* Returns the next n bytes of the file; NULL: fewer are left. */
static const uint8_t *
take_gif_bytes(gif_state *g, size_t n)
{
    if (n > g->d->size - g->at)
        return NULL;
    g->at += n;
    return g->d->bytes + g->at - n;
}

/* Reads the palette if the flags of a header announce one.  False if it is truncated. */
static bool
take_gif_palette(gif_state *g, uint8_t flags)
{
    if (!(flags & 0x80))
        return true;
    g->colors = 2U << (flags & 7);
    g->palette = take_gif_bytes(g, 3 * (size_t)g->colors);
    return g->palette != NULL;
}

static void
put_gif_pixel(gif_state *g, uint64_t pixel, uint8_t index)
{
    static const uint32_t first[] = {0, 4, 2, 1}, step[] = {8, 8, 4, 2};
    uint32_t y = (uint32_t)(pixel / g->width);
    if (g->interlaced)
        for (uint32_t pass = 0;; pass++) {
            const uint32_t rows = g->height > first[pass] ? (g->height - first[pass] + step[pass] - 1) / step[pass] : 0;
            if (y < rows) {
                y = first[pass] + y * step[pass];
                break;
            }
            y -= rows;
        }
    const uint64_t x = g->left + pixel % g->width, row = g->top + (uint64_t)y;
    if (x >= g->d->picture.width || row >= g->d->picture.height)
        return;
    uint8_t *to = g->d->picture.rgb + (row * g->d->picture.width + x) * 3;
    if (g->d->alpha)
        memset(to, g->some_transparent && index == g->transparent ? 0 : 255, 3);
    else if (!g->palette)
        memset(to, index, 3);
    else if (index < g->colors)
        memcpy(to, g->palette + 3 * (size_t)index, 3);
    else
        memset(to, 0, 3);
}

/* Writes the string of a code and returns its first pixel. */
static uint8_t
put_gif_code(gif_state *g, uint32_t code, uint32_t roots)
{
    uint32_t n = 0;
    const uint64_t all = (uint64_t)g->width * g->height;
    while (code >= roots) { /* a prefix is always a smaller code */
        g->string[n++] = g->last[code];
        code = g->prefix[code];
    }
    const uint8_t head = (uint8_t)code;
    g->string[n++] = head;
    while (n > 0 && g->written < all)
        put_gif_pixel(g, g->written++, g->string[--n]);
    return head;
}

/* Decodes the LZW codes of the frame.  Their bits come in blocks of up to 255 bytes, each preceded by its length; length 0 ends them. */
static dop_status
decode_gif_frame(gif_state *g)
{
    const uint8_t *first = take_gif_bytes(g, 1);
    if (!first || *first < 1 || *first > 11)
        return first ? dop_decoding_damaged(g->d, "GIF", "its codes have no valid width") : refuse_truncated_gif(g);
    const uint32_t bits0 = *first, clear = 1U << bits0, end = clear + 1;
    const uint64_t all = (uint64_t)g->width * g->height;
    uint32_t width = bits0 + 1, next = clear + 2, held = 0, n_held = 0, block = 0;
    int32_t before = -1; /* previous code; -1: none */
    uint8_t head = 0;    /* first pixel of the previous code's string */
    while (g->written < all) {
        while (n_held < width) {
            const uint8_t *byte = take_gif_bytes(g, 1);
            if (byte && block == 0) {
                block = *byte;
                byte = block ? take_gif_bytes(g, 1) : NULL;
            }
            if (!byte)
                return refuse_truncated_gif(g);
            block--;
            held |= (uint32_t)*byte << n_held;
            n_held += 8;
        }
        const uint32_t code = held & ((1U << width) - 1);
        held >>= width;
        n_held -= width;
        if (code == end)
            return refuse_truncated_gif(g);
        if (code == clear) {
            width = bits0 + 1;
            next = clear + 2;
            before = -1;
            continue;
        }
        if (before < 0 ? code >= clear : code > next || (code == next && next >= CODES))
            return dop_decoding_damaged(g->d, "GIF", "a code that is not in its dictionary");
        /* The code may be the one defined now: the previous string followed by its own first pixel. */
        if (before >= 0 && code == next) {
            g->prefix[next] = (uint16_t)before;
            g->last[next] = head;
        }
        const uint64_t before_code = g->written;
        const uint8_t now = put_gif_code(g, code, clear);
        const dop_status st = dop_decoding_step(g->d, 1 + g->written - before_code);
        if (st != DOP_OK)
            return st;
        if (before >= 0 && next < CODES) {
            g->prefix[next] = (uint16_t)before;
            g->last[next] = now;
            next++;
            if (next == 1U << width && width < 12)
                width++;
        }
        before = (int32_t)code;
        head = now;
    }
    return DOP_OK;
}

static dop_status
read_gif_image(gif_state *g, uint32_t canvas_width, uint32_t canvas_height)
{
    const uint8_t *p = take_gif_bytes(g, 9);
    if (!p)
        return refuse_truncated_gif(g);
    g->left = load_gif_u16(p);
    g->top = load_gif_u16(p + 2);
    g->width = load_gif_u16(p + 4);
    g->height = load_gif_u16(p + 6);
    g->interlaced = p[8] & 0x40;
    if (g->width == 0 || g->height == 0)
        return dop_decoding_damaged(g->d, "GIF", "its first frame has no pixels");
    /* Some files have a canvas smaller than their frames. */
    const uint32_t w = canvas_width > g->left + g->width ? canvas_width : g->left + g->width;
    const uint32_t h = canvas_height > g->top + g->height ? canvas_height : g->top + g->height;
    dop_status st = take_gif_palette(g, p[8]) ? dop_decoding_start(g->d, w, h, 0) : refuse_truncated_gif(g);
    if (st != DOP_OK)
        return st;
    const gif_state frame = *g;
    g->left = g->top = 0; /* fill the area outside the frame */
    g->width = w;
    g->height = h;
    g->interlaced = false;
    if ((g->palette || g->d->alpha) && (frame.width < w || frame.height < h))
        for (uint64_t i = 0; i < (uint64_t)w * h; i++)
            put_gif_pixel(g, i, (uint8_t)g->transparent);
    g->left = frame.left;
    g->top = frame.top;
    g->width = frame.width;
    g->height = frame.height;
    g->interlaced = frame.interlaced;
    return decode_gif_frame(g);
}

/* Reads an extension; the graphic control extension states the transparent color. */
static bool
read_gif_extension(gif_state *g)
{
    const uint8_t *label = take_gif_bytes(g, 1);
    while (label) {
        const uint8_t *n = take_gif_bytes(g, 1);
        const uint8_t *p = n ? take_gif_bytes(g, *n) : NULL;
        if (!p)
            return false;
        if (*n == 0)
            return true;
        if (*label == 0xf9 && *n >= 4 && (p[0] & 1)) {
            g->transparent = p[3];
            g->some_transparent = true;
        }
    }
    return false;
}

dop_status
dop_decode_gif(dop_decoding *d)
{
    gif_state *g = calloc(1, sizeof *g);
    if (!g)
        return DOP_NO_MEMORY(d->diag);
    g->d = d;
    const uint8_t *head = take_gif_bytes(g, 13);
    dop_status st = head && take_gif_palette(g, head[10]) ? DOP_OK : refuse_truncated_gif(g);
    while (st == DOP_OK) {
        const uint8_t *kind = take_gif_bytes(g, 1);
        if (kind && *kind == ',') {
            st = read_gif_image(g, load_gif_u16(head + 6), load_gif_u16(head + 8));
            break;
        }
        if (kind && *kind == '!') {
            if (!read_gif_extension(g))
                st = refuse_truncated_gif(g);
        } else if (kind && *kind == ';') {
            st = dop_decoding_damaged(d, "GIF", "it has no frame");
        } else {
            st = kind ? dop_decoding_damaged(d, "GIF", "a block of an unknown kind") : refuse_truncated_gif(g);
        }
    }
    free(g);
    return st;
}
