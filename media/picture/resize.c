/* Both passes compute LANES values at a time in loops that compilers vectorize.  The column pass computes LANES values of an output row;
 * the row pass computes LANES rows, interleaved in a strip.  Sums are exact integers, so their order does not matter.  Factors have 16
 * bits, for which all CPUs have SIMD products; wider weights are split into two parts that are summed separately. */
#include "media/picture/resize.h"

#include "base/parallel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES = 16,
    LOW_BITS = 11,     /* bits of the lower part of a split weight */
    ROWS_EACH = LANES, /* output rows per work item */
    MOST_THREADS = 8
};

/* Filter taps along one edge: the input pixels and weights of each output pixel. */
typedef struct taps {
    uint32_t *first, *n; /* [outputs] first input pixel, and number of input pixels */
    int16_t *high, *low; /* [outputs, most] fixed-point weights high * 2^LOW_BITS + low; high NULL: only low */
    uint32_t most;       /* maximum number of input pixels of an output */
    uint32_t bits;       /* fractional bits of the weights */
} taps;

/* Returns the filter's value at distance x: Lanczos with three lobes, triangle (bilinear), or Keys' cubic with a = -1/2. */
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
finish_taps(taps *t)
{
    free(t->first);
    free(t->n);
    free(t->high);
    free(t->low);
}

/* Returns the fractional bits of the weights.  For torchvision, the largest weight must fit a signed 16-bit integer. */
static uint32_t
choose_fraction_bits(double largest, dop_fixed_point point)
{
    uint32_t bits = 0;
    if (point == DOP_FIXED_PILLOW)
        return 22;
    while (bits < 22 && (int)(0.5 + largest * (1 << (bits + 1))) < 1 << 15)
        bits++;
    return bits;
}

static dop_status
make_taps(uint32_t from, uint32_t to, dop_filter filter, dop_fixed_point point, dop_diag *diag, taps *t)
{
    const double scale = (double)from / to, wide = scale > 1 ? scale : 1;
    const double support = wide * (filter == DOP_FILTER_LANCZOS ? 3 : filter == DOP_FILTER_BICUBIC ? 2 : 1);
    t->most = (uint32_t)ceil(support) * 2 + 1;
    t->first = calloc(to, sizeof *t->first);
    t->n = calloc(to, sizeof *t->n);
    t->low = calloc((size_t)to * t->most, sizeof *t->low);
    if (point == DOP_FIXED_PILLOW)
        t->high = calloc((size_t)to * t->most, sizeof *t->high);
    double *const real = calloc((size_t)to * t->most, sizeof *real);
    double largest = 0;
    if (!t->first || !t->n || !t->low || (point == DOP_FIXED_PILLOW && !t->high) || !real) {
        free(real);
        return DOP_NO_MEMORY(diag);
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
    t->bits = choose_fraction_bits(largest, point);
    for (size_t k = 0; k < (size_t)to * t->most; k++) {
        const int32_t w = (int32_t)((real[k] < 0 ? -0.5 : 0.5) + real[k] * (1 << t->bits));
        t->low[k] = (int16_t)(t->high ? w & ((1 << LOW_BITS) - 1) : w);
        if (t->high)
            t->high[k] = (int16_t)(w >> LOW_BITS);
    }
    free(real);
    return DOP_OK;
}

static int32_t
weight_at(const taps *t, size_t at)
{
    return (t->high ? t->high[at] * (1 << LOW_BITS) : 0) + t->low[at];
}

static int32_t
to_8_bits(int32_t sum, uint32_t bits)
{
    const int32_t v = sum >> bits, least = v < 0 ? 0 : v;
    return least > 255 ? 255 : least;
}

/* Adds the products of n weights and n vectors of values, `stride` bytes apart, to io_sums. */
static void
add_products(const int16_t *w, uint32_t n, const uint8_t *v, size_t stride, uint32_t io_sums[LANES])
{
    uint32_t sums[LANES];
    memcpy(sums, io_sums, sizeof sums);
    for (uint32_t k = 0; k < n; k++, v += stride) {
        const int16_t weight = w[k];
        for (int l = 0; l < LANES; l++)
            sums[l] += (uint32_t)((int16_t)v[l] * weight);
    }
    memcpy(io_sums, sums, sizeof sums);
}

/* Computes output i of LANES rows or columns.  v: their first input values. */
static void
filter_lanes(const taps *t, uint32_t i, const uint8_t *v, size_t stride, uint8_t out[LANES])
{
    const size_t at = (size_t)i * t->most;
    const uint32_t bits = t->bits;
    uint32_t sums[LANES];
    int32_t values[LANES];
    for (int l = 0; l < LANES; l++)
        sums[l] = 0;
    if (t->high) {
        add_products(t->high + at, t->n[i], v, stride, sums);
        for (int l = 0; l < LANES; l++)
            sums[l] <<= LOW_BITS;
    }
    add_products(t->low + at, t->n[i], v, stride, sums);
    for (int l = 0; l < LANES; l++)
        values[l] = to_8_bits((int32_t)(sums[l] + (1u << (bits - 1))), bits);
    for (int l = 0; l < LANES; l++)
        out[l] = (uint8_t)values[l];
}

/* State of resizing one edge; threads divide the output rows. */
typedef struct edge {
    taps t;
    const dop_picture *in;
    dop_picture *out;
    uint8_t *strips; /* [threads, in->width * 3 * LANES] interleaved input rows, for the row pass */
} edge;

static dop_status
resize_along_rows(void *user, uint32_t worker, uint32_t index, dop_diag *diag)
{
    const edge *const e = user;
    const uint32_t y = index * LANES, n = e->out->height - y < LANES ? e->out->height - y : LANES;
    const size_t from = (size_t)e->in->width * 3, to = (size_t)e->out->width * 3;
    uint8_t *const strip = e->strips + worker * from * LANES, lanes[LANES];
    const uint8_t *rows[LANES];
    (void)diag;
    for (uint32_t l = 0; l < LANES; l++) /* repeat the last row */
        rows[l] = e->in->rgb + (y + (l < n ? l : n - 1)) * from;
    for (size_t x = 0; x < from; x++)
        for (uint32_t l = 0; l < LANES; l++)
            strip[x * LANES + l] = rows[l][x];
    for (size_t x = 0; x < to; x++) {
        const uint32_t i = (uint32_t)(x / 3);
        filter_lanes(&e->t, i, strip + (3 * (size_t)e->t.first[i] + x % 3) * LANES, (size_t)3 * LANES, lanes);
        for (uint32_t l = 0; l < n; l++)
            e->out->rgb[(y + l) * to + x] = lanes[l];
    }
    return DOP_OK;
}

static dop_status
resize_along_columns(void *user, uint32_t worker, uint32_t index, dop_diag *diag)
{
    const edge *const e = user;
    const size_t row = (size_t)e->out->width * 3;
    (void)worker;
    (void)diag;
    for (uint32_t y = index * ROWS_EACH; y < e->out->height && y < (index + 1) * ROWS_EACH; y++) {
        const uint8_t *const in = e->in->rgb + e->t.first[y] * row;
        uint8_t *const out = e->out->rgb + y * row;
        size_t x = 0;
        for (; x + LANES <= row; x += LANES)
            filter_lanes(&e->t, y, in + x, row, out + x);
        if (x == row)
            continue;
        if (row >= LANES) { /* the last LANES values; overlaps the previous ones */
            filter_lanes(&e->t, y, in + row - LANES, row, out + row - LANES);
            continue;
        }
        for (; x < row; x++) { /* images with fewer than LANES values per row */
            int32_t sum = 1 << (e->t.bits - 1);
            for (uint32_t k = 0; k < e->t.n[y]; k++)
                sum += weight_at(&e->t, (size_t)y * e->t.most + k) * in[k * row + x];
            out[x] = (uint8_t)to_8_bits(sum, e->t.bits);
        }
    }
    return DOP_OK;
}

/* Resizes one edge; the other keeps its length. */
static dop_status
resize_edge(const dop_picture *in, bool rows, uint32_t to, dop_filter filter, dop_fixed_point point, dop_budget *budget,
            dop_diag *diag, dop_picture *out)
{
    const uint32_t from = rows ? in->width : in->height, threads = dop_cores_up_to(MOST_THREADS);
    *out = (dop_picture){rows ? to : in->width, rows ? in->height : to, NULL};
    const uint64_t bytes = (uint64_t)out->width * 3 * out->height,
                   strips = rows ? (uint64_t)in->width * 3 * LANES * threads : 0;
    edge e = {.in = in, .out = out};
    if (!dop_budget_take(budget, bytes + strips) ||
        !dop_budget_step(budget, bytes / 3 * (1 + (from > to ? from / to : 1)))) { /* a step per four products */
        *out = (dop_picture){0};
        return dop_budget_fail(budget, diag, "resizing the picture");
    }
    dop_status st = make_taps(from, to, filter, point, diag, &e.t);
    out->rgb = malloc(bytes);
    e.strips = malloc(strips + 1);
    if (st == DOP_OK && (!out->rgb || !e.strips))
        st = DOP_NO_MEMORY(diag);
    if (st == DOP_OK)
        st = dop_parallel_for(dop_div_up_u32(out->height, ROWS_EACH), threads,
                              rows ? resize_along_rows : resize_along_columns, &e, diag);
    finish_taps(&e.t);
    free(e.strips);
    dop_budget_give(budget, strips);
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
    } else if (st == DOP_OK) { /* size unchanged */
        const uint64_t bytes = (uint64_t)width * height * 3;
        if (!dop_budget_take(budget, bytes))
            return dop_budget_fail(budget, diag, "resizing the picture");
        *out_picture = (dop_picture){width, height, malloc(bytes)};
        if (!out_picture->rgb)
            return DOP_NO_MEMORY(diag);
        memcpy(out_picture->rgb, picture->rgb, bytes);
    }
    dop_budget_give(budget, (uint64_t)between.width * between.height * 3);
    dop_picture_finish(&between);
    return st;
}
