#include "runtime/library/draw_fit.h"

#include "media/picture/picture_write.h"
#include "media/picture/resize.h"
#include "runtime/model/model.h"

#include <stdlib.h>
#include <string.h>

/* Crops an image in place to the largest centered part with the aspect ratio of width x height. */
static void
cut_to_shape(dop_picture *p, uint32_t width, uint32_t height)
{
    const uint64_t w = (uint64_t)p->height * width / height, h = (uint64_t)p->width * height / width;
    const uint32_t to_w = w > 0 && w < p->width ? (uint32_t)w : p->width,
                   to_h = to_w == p->width && h > 0 && h < p->height ? (uint32_t)h : p->height,
                   left = (p->width - to_w) / 2, top = (p->height - to_h) / 2;
    for (uint32_t y = 0; y < to_h; y++)
        memmove(p->rgb + (size_t)y * to_w * 3, p->rgb + ((size_t)(y + top) * p->width + left) * 3, (size_t)to_w * 3);
    p->width = to_w;
    p->height = to_h;
}

/* Decodes an image and fits it to the plan's size. The caller must finish *out_fit, also after an error. out_size:
 * original width and height. */
static dop_status
fit_picture(const dop_plan_draw *p, const void *bytes, size_t n, dop_budget *budget, dop_diag *diag,
            dop_picture *out_fit, uint32_t out_size[2])
{
    const uint32_t width = p->width * p->scale, height = p->height * p->scale;
    dop_picture given = {0};
    dop_status st = dop_picture_decode(bytes, n, 0, budget, diag, &given);
    *out_fit = (dop_picture){0};
    out_size[0] = given.width;
    out_size[1] = given.height;
    if (st == DOP_OK) {
        cut_to_shape(&given, width, height);
        st = dop_picture_resize(&given, width, height, DOP_FILTER_LANCZOS, DOP_FIXED_PILLOW, budget, diag, out_fit);
        given.width = out_size[0]; /* original size, as charged to the budget */
        given.height = out_size[1];
    }
    dop_picture_discard(&given, budget);
    return st;
}

/* Marks a pixel of the plan's size as drawn if any mask pixel that it covers is transparent. Returns the number of
 * drawn pixels. */
static size_t
find_drawn(const dop_picture *mask, uint32_t width, uint32_t height, uint8_t *out_drawn)
{
    size_t n = 0;
    for (uint64_t y = 0; y < height; y++)
        for (uint64_t x = 0; x < width; x++) {
            const uint64_t top = y * mask->height / height, left = x * mask->width / width,
                           bottom = ((y + 1) * mask->height + height - 1) / height,
                           right = ((x + 1) * mask->width + width - 1) / width;
            uint8_t drawn = 0;
            for (uint64_t v = top; v < bottom && !drawn; v++)
                for (uint64_t u = left; u < right && !drawn; u++)
                    drawn = mask->rgb[(v * mask->width + u) * 3] == 0;
            out_drawn[y * width + x] = drawn;
            n += drawn;
        }
    return n;
}

/* Computes the drawn pixels, in the plan's size, from the mask of an image of original size `size`. The caller frees
 * *out_drawn. */
static dop_status
fit_mask(const dop_plan_draw *p, const void *bytes, size_t n, const uint32_t size[2], dop_budget *budget,
         dop_diag *diag, uint8_t **out_drawn)
{
    const uint32_t width = p->width * p->scale, height = p->height * p->scale;
    dop_picture mask = {0};
    dop_status st = dop_picture_decode_alpha(bytes, n, 0, budget, diag, &mask);
    const uint64_t held = (uint64_t)mask.width * mask.height * 3;
    *out_drawn = NULL;
    if (st == DOP_OK && (mask.width != size[0] || mask.height != size[1]))
        st = DOP_FAIL(diag, DOP_E_INPUT, "the mask has %u x %u pixels, and the picture %u x %u: a mask has its size",
                      mask.width, mask.height, size[0], size[1]);
    if (st == DOP_OK) {
        cut_to_shape(&mask, width, height);
        *out_drawn = malloc((size_t)width * height);
        if (!*out_drawn)
            st = DOP_NO_MEMORY(diag);
        else if (find_drawn(&mask, width, height, *out_drawn) == 0)
            st = DOP_FAIL(
                diag, DOP_E_INPUT,
                "no pixel of the mask is transparent (alpha 0), so that nothing of the picture would be drawn");
    }
    dop_picture_finish(&mask);
    dop_budget_give(budget, held);
    return st;
}

dop_status
dop_draw_init_read(const dop_plan_draw *p, const dop_draw_options *o, dop_diag *diag, dop_draw_init *out)
{
    const uint32_t width = p->width * p->scale, height = p->height * p->scale;
    uint32_t size[2];
    *out = (dop_draw_init){0};
    dop_status st = fit_picture(p, o->init, o->n_init, NULL, diag, &out->picture, size);
    if (st != DOP_OK || !o->mask)
        return st;
    st = fit_mask(p, o->mask, o->n_mask, size, NULL, diag, &out->drawn);
    out->places = st == DOP_OK ? calloc((size_t)p->width * p->height, 1) : NULL;
    if (st == DOP_OK && !out->places)
        return DOP_NO_MEMORY(diag);
    for (size_t y = 0; y < height && st == DOP_OK; y++)
        for (size_t x = 0; x < width; x++)
            out->places[y / p->scale * p->width + x / p->scale] |= out->drawn[y * width + x];
    return st;
}

void
dop_draw_init_finish(dop_draw_init *init)
{
    dop_picture_finish(&init->picture);
    free(init->drawn);
    free(init->places);
    *init = (dop_draw_init){0};
}

dop_status
dop_draw_fit(const dop_model *model, const void *bytes, size_t n, dop_budget *budget, dop_diag *diag, dop_buf *out_png,
             uint32_t out_size[2])
{
    dop_picture picture = {0};
    dop_status st = DOP_OK;
    DOP_TRY(fit_picture(model->plan.draw, bytes, n, budget, diag, &picture, out_size));
    DOP_TRY(dop_picture_write_png(&picture, NULL, 0, diag, out_png));
error:
    dop_picture_discard(&picture, budget);
    return st;
}

dop_status
dop_draw_fit_mask(const dop_model *model, const void *bytes, size_t n, const uint32_t size[2], dop_budget *budget,
                  dop_diag *diag, dop_buf *out_png)
{
    const dop_plan_draw *p = model->plan.draw;
    const uint32_t width = p->width * p->scale, height = p->height * p->scale;
    uint8_t *alpha = NULL;
    dop_status st = DOP_OK;
    DOP_TRY(fit_mask(p, bytes, n, size, budget, diag, &alpha));
    for (size_t i = 0; i < (size_t)width * height; i++)
        alpha[i] = alpha[i] ? 0 : 255;
    DOP_TRY(dop_picture_write_alpha_png(width, height, alpha, diag, out_png));
error:
    free(alpha);
    return st;
}
