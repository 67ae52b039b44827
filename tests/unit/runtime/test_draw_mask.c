/* Masks of pictures to begin with: which pixels and which places of the latents are drawn. */
#include "media/picture/picture_write.h"
#include "runtime/library/draw_fit.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

/* What a plan of 8 x 4 pixels, 4 x 2 places, makes of a picture of width x height whose pixel (x, y) alone is transparent in the mask. */
static dop_draw_init
read_with(uint32_t width, uint32_t height, uint32_t x, uint32_t y)
{
    const dop_plan_draw plan = {.width = 4, .height = 2, .scale = 2, .latents = 4, .colours = 3};
    uint8_t *alpha = malloc((size_t)width * height), *rgb = calloc((size_t)width * height, 3);
    dop_buf picture = {0}, mask = {0};
    dop_diag diag = {0};
    dop_draw_init init;
    memset(alpha, 255, (size_t)width * height);
    alpha[y * width + x] = 0;
    cr_assert_eq(dop_picture_write_png(&(dop_picture){width, height, rgb}, NULL, 0, &diag, &picture), DOP_OK);
    cr_assert_eq(dop_picture_write_alpha_png(width, height, alpha, &diag, &mask), DOP_OK);
    const dop_draw_options o = {.init = picture.data, .n_init = picture.size, .mask = mask.data, .n_mask = mask.size};
    cr_assert_eq(dop_draw_init_read(&plan, &o, &diag, &init), DOP_OK, "%s", diag.message);
    cr_assert(init.picture.width == 8 && init.picture.height == 4);
    dop_buf_finish(&picture);
    dop_buf_finish(&mask);
    free(alpha);
    free(rgb);
    return init;
}

/* Rows of 8 pixels as bits, the first pixel the highest. */
static void
check_init(dop_draw_init *init, const uint8_t drawn[4], const uint8_t places[8])
{
    for (uint32_t y = 0; y < 4; y++)
        for (uint32_t x = 0; x < 8; x++)
            cr_expect_eq(init->drawn[y * 8 + x], drawn[y] >> (7 - x) & 1, "%u, %u", x, y);
    cr_expect_eq(memcmp(init->places, places, 8), 0);
    dop_draw_init_finish(init);
}

/* One pixel is enough for its place, whose other pixels are kept. */
Test(draw_mask, same_size)
{
    dop_draw_init init = read_with(8, 4, 3, 2);
    check_init(&init, (const uint8_t[]){0, 0, 0x10, 0}, (const uint8_t[]){0, 0, 0, 0, 0, 1, 0, 0});
}

/* Of a larger picture a pixel is drawn if any is that it covers, also in part: 20 x 10 pixels, 2.5 to one. */
Test(draw_mask, smaller)
{
    dop_draw_init init = read_with(20, 10, 2, 9);
    check_init(&init, (const uint8_t[]){0, 0, 0, 0xc0}, (const uint8_t[]){0, 0, 0, 0, 1, 0, 0, 0});
}

/* Of a smaller one a pixel becomes several: 4 x 2 pixels. */
Test(draw_mask, larger)
{
    dop_draw_init init = read_with(4, 2, 3, 0);
    check_init(&init, (const uint8_t[]){3, 3, 0, 0}, (const uint8_t[]){0, 0, 0, 1, 0, 0, 0, 0});
}

/* A square is cut to the shape around its middle, the mask as well: of 8 x 8 pixels rows 2 to 5 are left. */
Test(draw_mask, cut)
{
    dop_draw_init init = read_with(8, 8, 0, 2);
    check_init(&init, (const uint8_t[]){0x80, 0, 0, 0}, (const uint8_t[]){1, 0, 0, 0, 0, 0, 0, 0});
}
