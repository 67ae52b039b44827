/* Interpolation of learned position tables at the patches of an image. */
#include "media/picture/image_processor.h"

/* Linear interpolation at patch i of n along a table edge of `edge` rows.  Returns the row before, the row after, and the weight of the
 * latter. */
static void
interpolate_place(uint32_t edge, uint32_t i, uint32_t n, uint32_t *out_low, uint32_t *out_high, float *out_share)
{
    const float at = n > 1 ? (float)i * ((float)(edge - 1) / (float)(n - 1)) : 0;
    *out_low = (uint32_t)at;
    *out_high = *out_low + 1 < edge ? *out_low + 1 : edge - 1;
    *out_share = at - (float)*out_low;
}

void
dop_image_corners(uint32_t edge, uint32_t y, uint32_t x, uint32_t grid_height, uint32_t grid_width,
                  uint32_t out_rows[4], float out_shares[4])
{
    uint32_t top, bottom, left, right;
    float down, across;
    interpolate_place(edge, y, grid_height, &top, &bottom, &down);
    interpolate_place(edge, x, grid_width, &left, &right, &across);
    out_rows[0] = top * edge + left;
    out_rows[1] = top * edge + right;
    out_rows[2] = bottom * edge + left;
    out_rows[3] = bottom * edge + right;
    out_shares[0] = (1 - down) * (1 - across);
    out_shares[1] = (1 - down) * across;
    out_shares[2] = down * (1 - across);
    out_shares[3] = down * across;
}

/* Returns the weight of row j of `edge` for output i of n, with a triangle filter.  The filter is one output wide when downsampling.
 * Weights are not normalized. */
static double
triangle_weight(uint32_t edge, uint32_t i, uint32_t n, uint32_t j)
{
    const double scale = (double)edge / n, width = scale > 1 ? scale : 1;
    const double away = ((j + 0.5) - scale * (i + 0.5)) / width;
    return away > -1 && away < 1 ? 1 - (away < 0 ? -away : away) : 0;
}

void
dop_image_resampling(uint32_t edge, uint32_t y, uint32_t x, uint32_t grid_height, uint32_t grid_width,
                     float *out_weights)
{
    double down = 0, across = 0;
    for (uint32_t j = 0; j < edge; j++) {
        down += triangle_weight(edge, y, grid_height, j);
        across += triangle_weight(edge, x, grid_width, j);
    }
    for (uint32_t i = 0; i < edge * edge; i++)
        out_weights[i] = (float)(triangle_weight(edge, y, grid_height, i / edge) / down *
                                 (triangle_weight(edge, x, grid_width, i % edge) / across));
}
