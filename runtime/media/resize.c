#include "runtime/media/resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* For each pixel of the output, along one edge: which pixels of the input it reads, and with which weights. */
typedef struct taps {
    uint32_t *first, *n; /* [outputs]: the first pixel that an output reads, and how many */
    int32_t *weights;    /* [outputs, most], fixed-point */
    uint32_t most;       /* most pixels that one output reads */
    uint32_t bits;       /* bits of the weights behind the binary point */
} taps;

/* The value of a filter at a distance: Lanczos with three lobes (a sinc windowed by the central lobe of a sinc three times as wide), a
 * triangle (bilinear), or Keys' cubic with a = -1/2. */
static double
filter_at(dop_filter filter, double x)
{
    x = fabs(x);
    switch (filter) {
    case DOP_FILTER_LANCZOS: {
        const double a = M_PI * x, b = a / 3;
        return x == 0 ? 1 : x < 3 ? sin(a) / a * (sin(b) / b) : 0;
    }
    case DOP_FILTER_BILINEAR:
        return x < 1 ? 1 - x : 0;
    case DOP_FILTER_BICUBIC:
        return x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0;
    }
    return 0;
}

static void
taps_finish(taps *t)
{
    free(t->first);
    free(t->n);
    free(t->weights);
}

/* Bits of the weights behind the binary point.  For torchvision the largest weight decides: it must fit 16 bits with a sign. */
static uint32_t
bits_of(double largest, dop_fixed_point point)
{
    uint32_t bits = 0;
    if (point == DOP_FIXED_PILLOW)
        return 22;
    while (bits < 22 && (int)(0.5 + largest * (1 << (bits + 1))) < 1 << 15)
        bits++;
    return bits;
}

static dop_status
taps_make(uint32_t from, uint32_t to, dop_filter filter, dop_fixed_point point, dop_diag *diag, taps *t)
{
    const double scale = (double)from / to, wide = scale > 1 ? scale : 1;
    const double support = wide * (filter == DOP_FILTER_LANCZOS ? 3 : filter == DOP_FILTER_BICUBIC ? 2 : 1);
    t->most = (uint32_t)ceil(support) * 2 + 1;
    t->first = calloc(to, sizeof *t->first);
    t->n = calloc(to, sizeof *t->n);
    t->weights = calloc((size_t)to * t->most, sizeof *t->weights);
    double *const real = calloc((size_t)to * t->most, sizeof *real);
    double largest = 0;
    if (!t->first || !t->n || !t->weights || !real) {
        free(real);
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    }
    for (uint32_t i = 0; i < to; i++) {
        const double center = (i + 0.5) * scale;
        const int64_t low = (int64_t)(center - support + 0.5), high = (int64_t)(center + support + 0.5);
        double *const w = real + (size_t)i * t->most, sum = 0;
        t->first[i] = low > 0 ? (uint32_t)low : 0;
        t->n[i] = (uint32_t)(high < from ? high : from) - t->first[i];
        for (uint32_t k = 0; k < t->n[i]; k++) {
            w[k] = filter_at(filter, (k + (double)t->first[i] - center + 0.5) / wide);
            sum += w[k];
        }
        for (uint32_t k = 0; k < t->n[i]; k++) {
            w[k] = sum != 0 ? w[k] / sum : w[k];
            largest = w[k] > largest ? w[k] : largest;
        }
    }
    t->bits = bits_of(largest, point);
    for (size_t k = 0; k < (size_t)to * t->most; k++)
        t->weights[k] = (int32_t)((real[k] < 0 ? -0.5 : 0.5) + real[k] * (1 << t->bits));
    free(real);
    return DOP_OK;
}

static uint8_t
to_8_bits(int32_t sum, uint32_t bits)
{
    const int32_t v = sum >> bits;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void
along_row(const taps *t, const uint8_t *in, uint32_t outputs, uint8_t *out)
{
    for (uint32_t i = 0; i < outputs; i++) {
        const int32_t *const w = t->weights + (size_t)i * t->most;
        const uint8_t *p = in + 3 * (size_t)t->first[i];
        int32_t r = 1 << (t->bits - 1), g = r, b = r;
        for (uint32_t k = 0; k < t->n[i]; k++, p += 3) {
            r += w[k] * p[0];
            g += w[k] * p[1];
            b += w[k] * p[2];
        }
        out[3 * i] = to_8_bits(r, t->bits);
        out[3 * i + 1] = to_8_bits(g, t->bits);
        out[3 * i + 2] = to_8_bits(b, t->bits);
    }
}

/* Makes row i of the output from rows of the input; sums[n] is scratch for the sums of a row. */
static void
along_columns(const taps *t, const uint8_t *in, uint32_t i, size_t n, int32_t *sums, uint8_t *out)
{
    for (size_t x = 0; x < n; x++)
        sums[x] = 1 << (t->bits - 1);
    for (uint32_t k = 0; k < t->n[i]; k++) {
        const int32_t w = t->weights[(size_t)i * t->most + k];
        const uint8_t *const row = in + (t->first[i] + (size_t)k) * n;
        for (size_t x = 0; x < n; x++)
            sums[x] += w * row[x];
    }
    for (size_t x = 0; x < n; x++)
        out[x] = to_8_bits(sums[x], t->bits);
}

/* Resizes one edge; the other one keeps its length. */
static dop_status
resize_edge(const dop_picture *in, bool rows, uint32_t to, dop_filter filter, dop_fixed_point point, dop_budget *budget,
            dop_diag *diag, dop_picture *out)
{
    const uint32_t from = rows ? in->width : in->height;
    taps t = {0};
    *out = (dop_picture){rows ? to : in->width, rows ? in->height : to, NULL};
    const size_t row = (size_t)out->width * 3;
    const uint64_t bytes = row * out->height;
    int32_t *sums = NULL;
    dop_status st = DOP_OK;
    if (!dop_budget_take(budget, bytes) ||
        !dop_budget_step(budget, bytes / 3 * (1 + (from > to ? from / to : 1)))) { /* about a step for four products */
        *out = (dop_picture){0};
        return dop_budget_fail(budget, diag, "resizing the picture");
    }
    st = taps_make(from, to, filter, point, diag, &t);
    out->rgb = malloc(bytes);
    sums = rows ? NULL : malloc(row * sizeof *sums);
    if (st == DOP_OK && (!out->rgb || (!rows && !sums)))
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    for (uint32_t y = 0; st == DOP_OK && y < out->height; y++)
        if (rows)
            along_row(&t, in->rgb + (size_t)y * in->width * 3, to, out->rgb + y * row);
        else
            along_columns(&t, in->rgb, y, row, sums, out->rgb + y * row);
    taps_finish(&t);
    free(sums);
    if (st != DOP_OK) {
        dop_budget_give(budget, bytes);
        dop_picture_finish(out);
    }
    return st;
}

dop_status
dop_picture_resize(const dop_picture *picture, uint32_t width, uint32_t height, dop_filter filter,
                   dop_fixed_point point, dop_budget *budget, dop_diag *diag, dop_picture *out_picture)
{
    const dop_picture *from = picture;
    dop_picture between = {0};
    dop_status st = DOP_OK;
    *out_picture = (dop_picture){0};
    if (width == 0 || height == 0 || width > DOP_PICTURE_MAX_EDGE || height > DOP_PICTURE_MAX_EDGE)
        return DOP_FAIL(diag, DOP_E_INPUT, "a picture of %u x %u pixels cannot be resized to %u x %u", picture->width,
                        picture->height, width, height);
    if (width != picture->width) {
        st = resize_edge(from, true, width, filter, point, budget, diag, &between);
        from = &between;
    }
    if (st == DOP_OK && height != picture->height) {
        st = resize_edge(from, false, height, filter, point, budget, diag, out_picture);
    } else if (st == DOP_OK && from == &between) {
        *out_picture = between;
        return DOP_OK;
    } else if (st == DOP_OK) { /* no edge changes */
        const uint64_t bytes = (uint64_t)width * height * 3;
        if (!dop_budget_take(budget, bytes))
            return dop_budget_fail(budget, diag, "resizing the picture");
        *out_picture = (dop_picture){width, height, malloc(bytes)};
        if (!out_picture->rgb)
            return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
        memcpy(out_picture->rgb, picture->rgb, bytes);
    }
    dop_budget_give(budget, (uint64_t)between.width * between.height * 3);
    dop_picture_finish(&between);
    return st;
}
