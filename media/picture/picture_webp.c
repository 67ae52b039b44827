/* WebP decoder (libwebp), lossy and lossless.  For animations it decodes the first frame, on a transparent canvas. */
#include "media/picture/picture_internal.h"

#include <stdlib.h>
#include <string.h>
#include <webp/decode.h>
#include <webp/demux.h>

/* Decodes a frame into its canvas, in pieces, so that a cancelled request ends soon. */
static dop_status
decode_webp_frame(dop_decoding *d, const WebPIterator *frame, uint8_t *canvas, uint32_t wide)
{
    enum { PIECE = 1 << 14 };
    const size_t stride = (size_t)d->columns * wide, all = (size_t)d->picture.width * d->picture.height * wide,
                 first = (size_t)frame->y_offset * stride + (size_t)frame->x_offset * wide;
    WebPIDecoder *decoder = WebPINewRGB(wide == 4 ? MODE_RGBA : MODE_RGB, canvas + first, all - first, (int)stride);
    VP8StatusCode status = decoder ? VP8_STATUS_SUSPENDED : VP8_STATUS_OUT_OF_MEMORY;
    for (size_t n = 0; status == VP8_STATUS_SUSPENDED && n < frame->fragment.size;) {
        n = frame->fragment.size - n < PIECE ? frame->fragment.size : n + PIECE;
        status = dop_decoding_step(d, PIECE) == DOP_OK ? WebPIUpdate(decoder, frame->fragment.bytes, n)
                                                       : VP8_STATUS_USER_ABORT;
    }
    WebPIDelete(decoder);
    return status == VP8_STATUS_OK ? DOP_OK : dop_decoding_damaged(d, "WebP", "its first frame cannot be decoded");
}

/* Decodes the first frame; d->orientation must be set. */
static dop_status
decode_webp_first_frame(dop_decoding *d, const WebPIterator *frame, uint32_t width, uint32_t height)
{
    enum { LOSSLESS = 2 };
    WebPBitstreamFeatures f;
    if (WebPGetFeatures(frame->fragment.bytes, frame->fragment.size, &f) != VP8_STATUS_OK)
        return dop_decoding_damaged(d, "WebP", "its first frame has no valid head");
    if (f.width != frame->width || f.height != frame->height || frame->width > (int)width - frame->x_offset ||
        frame->height > (int)height - frame->y_offset)
        return dop_decoding_damaged(d, "WebP", "its first frame lies outside the canvas");
    const bool in_place = d->orientation == 1 && !d->alpha;
    const uint32_t wide = d->alpha ? 4 : 3;
    const uint64_t pixels = (uint64_t)width * height, frame_pixels = (uint64_t)f.width * (uint64_t)f.height;
    /* Memory of libwebp: 32-bit pixels of a lossless frame; for lossy frames with alpha, these and the alpha bytes. */
    const uint64_t held = f.format == LOSSLESS ? 4 * frame_pixels : f.has_alpha ? 5 * frame_pixels : 0;
    dop_status st = dop_decoding_start(d, width, height, held + (in_place ? 0 : wide * pixels));
    if (st != DOP_OK)
        return st;
    uint8_t *canvas = in_place ? d->picture.rgb : calloc(pixels, wide);
    st = canvas ? decode_webp_frame(d, frame, canvas, wide) : DOP_NO_MEMORY(d->diag);
    for (uint32_t y = 0; y < height && st == DOP_OK && !in_place; y++)
        dop_decoding_put_row(d, y, canvas + (size_t)y * width * wide, wide);
    if (!in_place)
        free(canvas);
    return st;
}

dop_status
dop_decode_webp(dop_decoding *d)
{
    const WebPData data = {d->bytes, d->size};
    WebPDemuxer *demuxer = WebPDemux(&data);
    if (!demuxer)
        return dop_decoding_damaged(d, "WebP", "its blocks do not fit together");
    const uint32_t w = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH), h = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT);
    WebPChunkIterator chunk;
    if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk))
        d->orientation = dop_exif_orientation(chunk.chunk.bytes, chunk.chunk.size);
    WebPDemuxReleaseChunkIterator(&chunk);
    WebPIterator frame;
    dop_status st = WebPDemuxGetFrame(demuxer, 1, &frame) ? decode_webp_first_frame(d, &frame, w, h)
                                                          : dop_decoding_damaged(d, "WebP", "it has no frame");
    WebPDemuxReleaseIterator(&frame);
    WebPDemuxDelete(demuxer);
    return st;
}
