/* WebP by libwebp: with and without loss; of an animation the first frame, on a transparent canvas. */
#include "media/picture/picture_internal.h"

#include <string.h>
#include <webp/demux.h>

/* Copies the canvas from RGBA to the picture's RGB, or alpha three times. */
static dop_status
first_frame(dop_decoding *d, const WebPData *data)
{
    WebPAnimDecoderOptions options;
    if (!WebPAnimDecoderOptionsInit(&options))
        return DOP_FAIL(d->diag, DOP_E_INTERNAL, "libwebp is of another version");
    WebPAnimDecoder *decoder = WebPAnimDecoderNew(data, &options);
    uint8_t *rgba = NULL;
    int ms = 0;
    dop_status st = DOP_OK;
    if (!decoder || !WebPAnimDecoderGetNext(decoder, &rgba, &ms) || !rgba)
        st = dop_decoding_damaged(d, "WebP", "its first frame cannot be decoded");
    else
        for (uint64_t i = 0, n = (uint64_t)d->picture.width * d->picture.height; i < n; i++)
            for (uint32_t k = 0; k < 3; k++)
                d->picture.rgb[3 * i + k] = rgba[4 * i + (d->alpha ? 3 : k)];
    WebPAnimDecoderDelete(decoder);
    return st;
}

dop_status
dop_decode_webp(dop_decoding *d)
{
    enum { CANVASES = 2 * 4 + 4 }; /* bytes per pixel that libwebp needs: two canvases of RGBA, and a frame */
    const WebPData data = {d->bytes, d->size};
    WebPDemuxer *demuxer = WebPDemux(&data);
    if (!demuxer)
        return dop_decoding_damaged(d, "WebP", "its blocks do not fit together");
    const uint32_t w = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH), h = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT);
    WebPChunkIterator chunk;
    if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk))
        d->orientation = dop_exif_orientation(chunk.chunk.bytes, chunk.chunk.size);
    WebPDemuxReleaseChunkIterator(&chunk);
    dop_status st = DOP_OK;
    DOP_TRY(dop_decoding_start(d, w, h, CANVASES));
    DOP_TRY(first_frame(d, &data));
error:
    WebPDemuxDelete(demuxer);
    return st;
}
