/* PNG decoder (libpng).  For animations (APNG) it decodes the default image. */
#include "media/picture/picture_internal.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

/* Decoder state outside of local variables, whose values are indeterminate after libpng reports an error by longjmp. */
typedef struct png_state {
    dop_decoding *d;
    size_t at; /* bytes of the file read so far */
    png_structp png;
    png_infop info;
    int passes;       /* passes over the rows: 7 if interlaced, otherwise 1 */
    uint8_t *scratch; /* Rows that cannot be decoded in place: all rows if interlaced, otherwise one; NULL: none. */
    char error[128];
    dop_status status;
} png_state;

static void
on_png_decode_error(png_structp png, png_const_charp text)
{
    png_state *s = png_get_error_ptr(png);
    snprintf(s->error, sizeof s->error, "%s", text);
    png_longjmp(png, 1);
}

static void
ignore_png_decode_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void
on_png_read(png_structp png, png_bytep to, size_t n)
{
    png_state *s = png_get_io_ptr(png);
    if (n > s->d->size - s->at)
        png_error(png, "it ends too early");
    memcpy(to, s->d->bytes + s->at, n);
    s->at += n;
}

/* Allocator for libpng with a size limit.  libpng holds a few rows, and text, profile and EXIF blocks.  For some blocks it allocates
 * the stated length before reading them. */
static png_voidp
allocate_png_memory(png_structp png, png_alloc_size_t n)
{
    enum { MOST = 1 << 20 };
    (void)png;
    return n <= MOST ? malloc(n) : NULL;
}

static void
free_png_memory(png_structp png, png_voidp memory)
{
    (void)png;
    free(memory);
}

/* Configures libpng to return 8-bit RGB, or RGBA if alpha is requested.  Otherwise tRNS chunks are not expanded to alpha, which would
 * be dropped. */
static void
set_png_transforms(png_state *s)
{
    const int color = png_get_color_type(s->png, s->info);
    if (color == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(s->png);
    if (!(color & PNG_COLOR_MASK_COLOR)) {
        png_set_expand_gray_1_2_4_to_8(s->png);
        png_set_gray_to_rgb(s->png);
    }
    png_set_strip_16(s->png);
    if (s->d->alpha) {
        if (png_get_valid(s->png, s->info, PNG_INFO_tRNS))
            png_set_tRNS_to_alpha(s->png);
        png_set_add_alpha(s->png, 255, PNG_FILLER_AFTER);
    } else {
        png_set_strip_alpha(s->png);
    }
    s->passes = png_set_interlace_handling(s->png);
    png_read_update_info(s->png, s->info);
}

static void
read_png_orientation(png_state *s)
{
    png_uint_32 n = 0;
    png_bytep exif = NULL;
    if (png_get_eXIf_1(s->png, s->info, &n, &exif) && exif)
        s->d->orientation = dop_exif_orientation(exif, n);
}

static void
run_png_decoder(png_state *s)
{
    static const png_byte exif[] = "eXIf";
    if (setjmp(png_jmpbuf(s->png))) {
        s->status = s->status != DOP_OK ? s->status : dop_decoding_damaged(s->d, "PNG", s->error);
        return;
    }
    png_set_read_fn(s->png, s, on_png_read);
    png_set_user_limits(s->png, 0x7fffffff, 0x7fffffff); /* dop_decoding_start checks the size, with a better message */
    /* Optional chunks may be numerous and large when decompressed.  Only EXIF, for the orientation, is kept. */
    png_set_keep_unknown_chunks(s->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(s->png, PNG_HANDLE_CHUNK_AS_DEFAULT, exif, 1);
    png_read_info(s->png, s->info);
    read_png_orientation(s);
    const uint32_t w = png_get_image_width(s->png, s->info), h = png_get_image_height(s->png, s->info);
    const uint32_t wide = s->d->alpha ? 4 : 3;
    const bool in_place = s->d->orientation == 1 && !s->d->alpha,
               interlaced = png_get_interlace_type(s->png, s->info) != PNG_INTERLACE_NONE;
    const size_t rows = in_place ? 0 : interlaced ? h : 1;
    s->status = dop_decoding_start(s->d, w, h, rows * w * wide);
    if (s->status != DOP_OK)
        return;
    set_png_transforms(s);
    if (png_get_rowbytes(s->png, s->info) != (size_t)w * wide)
        png_error(s->png, "rows of an unknown form");
    s->scratch = rows > 0 ? malloc(rows * w * wide) : NULL;
    if (rows > 0 && !s->scratch)
        s->status = DOP_NO_MEMORY(s->d->diag);
    for (int pass = 0; pass < s->passes; pass++)
        for (uint32_t y = 0; y < h && s->status == DOP_OK; y++) {
            uint8_t *row =
                in_place ? s->d->picture.rgb + (size_t)y * w * 3 : s->scratch + (interlaced ? (size_t)y * w * wide : 0);
            png_read_row(s->png, row, NULL);
            if (!in_place && pass + 1 == s->passes)
                dop_decoding_put_row(s->d, y, row, wide);
            s->status = dop_decoding_step(s->d, w);
        }
}

dop_status
dop_decode_png(dop_decoding *d)
{
    png_state s = {.d = d};
    s.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &s, on_png_decode_error, ignore_png_decode_warning, NULL,
                                     allocate_png_memory, free_png_memory);
    s.info = s.png ? png_create_info_struct(s.png) : NULL;
    if (s.info)
        run_png_decoder(&s);
    else
        s.status = DOP_NO_MEMORY(d->diag);
    free(s.scratch);
    png_destroy_read_struct(&s.png, &s.info, NULL);
    return s.status;
}
