/* JPEG decoder (libjpeg-turbo): baseline, progressive and arithmetic; gray, YCbCr, RGB, CMYK and YCCK. */
#include "media/picture/picture_internal.h"

#include <jerror.h>
#include <jpeglib.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/* Decoder state outside of local variables, whose values are indeterminate after libjpeg reports an error by longjmp. */
typedef struct jpeg_state {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf leave;
    dop_decoding *d;
    uint8_t *row; /* buffer of one row */
    char error[JMSG_LENGTH_MAX];
    dop_status status;
} jpeg_state;

static void
on_jpeg_error(j_common_ptr info)
{
    jpeg_state *s = info->client_data;
    info->err->format_message(info, s->error);
    longjmp(s->leave, 1);
}

/* Handles libjpeg's warnings.  Missing data, which libjpeg replaces by gray, is an error here; extra bytes between segments are not. */
static void
on_jpeg_message(j_common_ptr info, int level)
{
    const int code = info->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE))
        on_jpeg_error(info);
}

/* Limits the number of scans and charges the budget for them.  A progressive file can have any number of scans of the whole image, with
 * a few bytes each. */
static void
on_jpeg_progress(j_common_ptr info)
{
    enum { MOST_SCANS = 256 };
    jpeg_state *s = info->client_data;
    if (((j_decompress_ptr)info)->input_scan_number > MOST_SCANS) {
        snprintf(s->error, sizeof s->error, "it has more than %d scans", MOST_SCANS);
        longjmp(s->leave, 1);
    }
    if (!dop_budget_step(s->d->budget, s->d->picture.width / 8)) {
        s->status = dop_budget_fail(s->d->budget, s->d->diag, "decoding the picture");
        longjmp(s->leave, 1);
    }
}

static uint8_t
multiply_unorm8(uint32_t a, uint32_t b) /* a * b / 255, rounded */
{
    const uint32_t t = a * b + 128;
    return (uint8_t)((t + (t >> 8)) >> 8);
}

/* Converts a row of CMYK to RGB, also in place.  Channels are inverted, as Adobe's programs store them: 255 is no ink. */
static void
cmyk_to_rgb(const uint8_t *cmyk, uint32_t n, uint8_t *rgb)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t light = cmyk[4 * i + 3];
        for (uint32_t c = 0; c < 3; c++)
            rgb[3 * i + c] = (uint8_t)(light - multiply_unorm8(255U - cmyk[4 * i + c], light));
    }
}

static void
read_jpeg_orientation(jpeg_state *s)
{
    for (jpeg_saved_marker_ptr m = s->jpeg.marker_list; m; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && m->data_length > 6 && memcmp(m->data, "Exif\0\0", 6) == 0) {
            s->d->orientation = dop_exif_orientation(m->data, m->data_length);
            return;
        }
}

/* Returns the bytes of the 16-bit coefficients that libjpeg keeps in memory for files with several scans. */
static uint64_t
coefficient_bytes(struct jpeg_decompress_struct *jpeg)
{
    uint64_t blocks = 0;
    for (int i = 0; i < jpeg->num_components && jpeg_has_multiple_scans(jpeg); i++) {
        const jpeg_component_info *c = &jpeg->comp_info[i];
        const uint64_t h = (uint64_t)c->h_samp_factor, v = (uint64_t)c->v_samp_factor;
        blocks += (c->width_in_blocks + h - 1) / h * h * ((c->height_in_blocks + v - 1) / v * v);
    }
    return blocks * DCTSIZE2 * sizeof(JCOEF);
}

static void
run_jpeg_decoder(jpeg_state *s)
{
    struct jpeg_decompress_struct *const jpeg = &s->jpeg;
    if (setjmp(s->leave)) {
        s->status = s->status != DOP_OK ? s->status : dop_decoding_damaged(s->d, "JPEG", s->error);
        return;
    }
    jpeg_create_decompress(jpeg);
    jpeg->client_data = s;
    jpeg->progress = &s->progress;
    jpeg_mem_src(jpeg, s->d->bytes, (unsigned long)s->d->size);
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, 0xffff);
    (void)jpeg_read_header(jpeg, TRUE);
    read_jpeg_orientation(s);
    s->status = dop_decoding_start(s->d, jpeg->image_width, jpeg->image_height, coefficient_bytes(jpeg));
    if (s->status != DOP_OK)
        return;
    jpeg->out_color_space = jpeg->num_components == 4 ? JCS_CMYK : JCS_RGB;
    (void)jpeg_start_decompress(jpeg);
    const uint32_t w = jpeg->output_width, h = jpeg->output_height;
    const bool cmyk = jpeg->out_color_space == JCS_CMYK;
    s->row = malloc((size_t)w * 4);
    if (!s->row) {
        s->status = DOP_NO_MEMORY(s->d->diag);
        return;
    }
    while (jpeg->output_scanline < h) {
        const uint32_t y = jpeg->output_scanline;
        if (jpeg_read_scanlines(jpeg, &s->row, 1) == 0)
            continue;
        if (cmyk)
            cmyk_to_rgb(s->row, w, s->row);
        if (!s->d->alpha)
            dop_decoding_put_row(s->d, y, s->row, 3);
    }
}

dop_status
dop_decode_jpeg(dop_decoding *d)
{
    jpeg_state s = {.d = d, .progress.progress_monitor = on_jpeg_progress};
    s.jpeg.err = jpeg_std_error(&s.errors);
    s.errors.error_exit = on_jpeg_error;
    s.errors.emit_message = on_jpeg_message;
    s.jpeg.client_data = &s;
    run_jpeg_decoder(&s);
    jpeg_destroy_decompress(&s.jpeg);
    free(s.row);
    if (s.status == DOP_OK && d->alpha)
        memset(d->picture.rgb, 255, (size_t)d->picture.width * d->picture.height * 3);
    return s.status;
}
