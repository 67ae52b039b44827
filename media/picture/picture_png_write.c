/* PNG encoder (libpng), with text chunks. */
#include "media/picture/picture_write.h"

#include <png.h>
#include <stdlib.h>
#include <string.h>

/* Encoder state outside of local variables, because libpng reports errors by longjmp. */
typedef struct writer {
    dop_buf *out;
    png_structp png;
    png_infop info;
    uint8_t *row; /* row buffer of black pixels with alpha */
    char error[128];
} writer;

static void
on_png_encode_error(png_structp png, png_const_charp text)
{
    writer *w = png_get_error_ptr(png);
    snprintf(w->error, sizeof w->error, "%s", text);
    png_longjmp(png, 1);
}

static void
ignore_png_encode_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void
on_png_write(png_structp png, png_bytep bytes, size_t n)
{
    dop_buf_append(((writer *)png_get_io_ptr(png))->out, bytes, n);
}

static void
on_png_flush(png_structp png)
{
    (void)png;
}

/* Sets iTXt chunks, whose text is UTF-8. */
static void
set_png_texts(writer *w, const dop_picture_text *texts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        png_text text = {.compression = PNG_ITXT_COMPRESSION_NONE,
                         .key = (char *)(uintptr_t)texts[i].key,
                         .text = (char *)(uintptr_t)texts[i].text,
                         .itxt_length = strlen(texts[i].text)};
        png_set_text(w->png, w->info, &text, 1);
    }
}

static void
write_alpha_rows(writer *w, uint32_t width, uint32_t height, const uint8_t *alpha)
{
    for (size_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++)
            w->row[2 * x + 1] = alpha[y * width + x];
        png_write_row(w->png, w->row);
    }
}

/* Writes an image, or with `alpha` black pixels of its size with that alpha. */
static bool
run_png_encoder(writer *w, const dop_picture *picture, const uint8_t *alpha, const dop_picture_text *texts,
                size_t n_texts)
{
    if (setjmp(png_jmpbuf(w->png)))
        return false;
    png_set_write_fn(w->png, w, on_png_write, on_png_flush);
    png_set_IHDR(w->png, w->info, picture->width, picture->height, 8,
                 alpha ? PNG_COLOR_TYPE_GRAY_ALPHA : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    set_png_texts(w, texts, n_texts);
    png_write_info(w->png, w->info);
    if (alpha)
        write_alpha_rows(w, picture->width, picture->height, alpha);
    for (uint32_t y = 0; y < picture->height && !alpha; y++)
        png_write_row(w->png, picture->rgb + (size_t)y * picture->width * 3);
    png_write_end(w->png, w->info);
    return true;
}

static dop_status
write_png(const dop_picture *picture, const uint8_t *alpha, const dop_picture_text *texts, size_t n_texts,
          dop_diag *diag, dop_buf *out)
{
    writer w = {.out = out, .row = alpha ? calloc(picture->width, 2) : NULL};
    const size_t before = out->size;
    if (alpha && !w.row)
        return DOP_NO_MEMORY(diag);
    w.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &w, on_png_encode_error, ignore_png_encode_warning);
    w.info = w.png ? png_create_info_struct(w.png) : NULL;
    const bool done = w.info && run_png_encoder(&w, picture, alpha, texts, n_texts);
    png_destroy_write_struct(&w.png, &w.info);
    free(w.row);
    if (done && !out->failed)
        return DOP_OK;
    out->size = before;
    return w.error[0] ? DOP_FAIL(diag, DOP_E_INTERNAL, "PNG: %s", w.error) : DOP_NO_MEMORY(diag);
}

dop_status
dop_picture_write_png(const dop_picture *picture, const dop_picture_text *texts, size_t n_texts, dop_diag *diag,
                      dop_buf *out)
{
    return write_png(picture, NULL, texts, n_texts, diag, out);
}

dop_status
dop_picture_write_alpha_png(uint32_t width, uint32_t height, const uint8_t *alpha, dop_diag *diag, dop_buf *out)
{
    return write_png(&(dop_picture){width, height, NULL}, alpha, NULL, 0, diag, out);
}
