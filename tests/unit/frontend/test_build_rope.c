/* Rotary tables against the formulas written out once more, on numbers that tell the scalings apart. */
#include "frontend/build/build.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { DIMS = 32, HALF = DIMS / 2, N = 64 };

static const double two_pi = 6.283185307179586;

/* Compares a table with the angles position * freq[i] and the factor on both parts. */
static void
expect_table(const dop_rope *r, uint32_t n_pos, const double *freq, double factor)
{
    dop_diag diag = {0};
    float *table = calloc((size_t)n_pos * r->dims, sizeof *table);
    cr_assert_eq(dop_rope_table(r, n_pos, table, &diag), DOP_OK, "%s", diag.message);
    for (uint32_t p = 0; p < n_pos; p++)
        for (uint32_t i = 0; i < r->dims / 2; i++) {
            const float *row = table + (size_t)p * r->dims;
            cr_assert_float_eq(row[i], cos(p * freq[i]) * factor, 1e-6, "cos, position %u, pair %u", p, i);
            cr_assert_float_eq(row[r->dims / 2 + i], sin(p * freq[i]) * factor, 1e-6, "sin, position %u, pair %u", p,
                               i);
        }
    free(table);
}

static double
plain(double theta, uint32_t i)
{
    return exp(-log(theta) * 2 * i / DIMS);
}

Test(build_rope, plain_linear_and_divisors)
{
    double freq[HALF], divisors[HALF];
    dop_rope r = {.theta = 5000, .dims = DIMS, .factor = 1};
    for (uint32_t i = 0; i < HALF; i++)
        freq[i] = plain(5000, i);
    expect_table(&r, N, freq, 1);
    r.scaling = DOP_ROPE_LINEAR;
    r.factor = 2.5;
    for (uint32_t i = 0; i < HALF; i++)
        freq[i] /= 2.5;
    expect_table(&r, N, freq, 1);
    r.scaling = DOP_ROPE_PLAIN;
    for (uint32_t i = 0; i < HALF; i++) {
        divisors[i] = 1 + 0.25 * i;
        freq[i] = plain(5000, i) / divisors[i];
    }
    r.n_factors = HALF;
    r.short_factors = divisors;
    expect_table(&r, N, freq, 1);
}

Test(build_rope, llama3)
{
    double freq[HALF];
    unsigned kept = 0, blended = 0, divided = 0;
    dop_rope r = {.theta = 10000,
                  .dims = DIMS,
                  .scaling = DOP_ROPE_LLAMA3,
                  .factor = 8,
                  .low_freq_factor = 1,
                  .high_freq_factor = 4,
                  .original_ctx = 256};
    for (uint32_t i = 0; i < HALF; i++) {
        double f = plain(10000, i), turns = 256 * f / two_pi; /* full turns in the original context */
        double keep = turns < 1 ? 0 : turns > 4 ? 1 : (turns - 1) / 3;
        kept += keep == 1;
        divided += keep == 0;
        blended += keep > 0 && keep < 1;
        freq[i] = f * keep + f / 8 * (1 - keep);
    }
    cr_assert(kept && blended && divided);
    expect_table(&r, N, freq, 1);
    /* Llama 4 Scout: nothing is between equal bounds. */
    r.high_freq_factor = 1;
    for (uint32_t i = 0; i < HALF; i++)
        freq[i] = plain(10000, i) / (256 * plain(10000, i) / two_pi < 1 ? 8 : 1);
    expect_table(&r, N, freq, 1);
    r.high_freq_factor = r.low_freq_factor = 256 * plain(10000, 2) / two_pi; /* a pair that lies on the bound is kept */
    for (uint32_t i = 0; i < HALF; i++)
        freq[i] = plain(10000, i) / (i > 2 ? 8 : 1);
    expect_table(&r, N, freq, 1);
}

Test(build_rope, yarn)
{
    double freq[HALF];
    dop_rope r = {.theta = 10000,
                  .dims = DIMS,
                  .scaling = DOP_ROPE_YARN,
                  .factor = 4,
                  .beta_fast = 32,
                  .beta_slow = 1,
                  .truncate = true,
                  .original_ctx = 1024};
    /* pair with b turns: DIMS ln(1024 / (2 pi b)) / (2 ln 10000): 2.827 and 8.848, whole: 2 and 9 */
    for (uint32_t i = 0; i < HALF; i++) {
        double ramp = i <= 2 ? 0 : i >= 9 ? 1 : (i - 2) / 7.0;
        freq[i] = plain(10000, i) * (1 - ramp) + plain(10000, i) / 4 * ramp;
    }
    expect_table(&r, N, freq, 0.1 * log(4) + 1);
    r.truncate = false;
    for (uint32_t i = 0; i < HALF; i++) {
        double low = 16 * log(1024 / (two_pi * 32)) / log(10000), high = 16 * log(1024 / two_pi) / log(10000);
        double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
        freq[i] = plain(10000, i) * (1 - ramp) + plain(10000, i) / 4 * ramp;
    }
    expect_table(&r, N, freq, 0.1 * log(4) + 1);
    r.mscale = 0.707;
    r.mscale_all_dim = 1.4;
    expect_table(&r, N, freq, (0.0707 * log(4) + 1) / (0.14 * log(4) + 1));
    r.attention_factor = 1.25;
    expect_table(&r, N, freq, 1.25);
}

Test(build_rope, longrope_by_length)
{
    double freq[HALF], shorts[HALF], longs[HALF];
    dop_rope r = {.theta = 10000,
                  .dims = DIMS,
                  .scaling = DOP_ROPE_LONGROPE,
                  .factor = 16,
                  .original_ctx = 32,
                  .n_factors = HALF,
                  .short_factors = shorts,
                  .long_factors = longs};
    for (uint32_t i = 0; i < HALF; i++) {
        shorts[i] = 1 + 0.01 * i;
        longs[i] = 2 + i;
        freq[i] = plain(10000, i) / shorts[i];
    }
    double factor = sqrt(1 + log(16) / log(32));
    expect_table(&r, 32, freq, factor);
    for (uint32_t i = 0; i < HALF; i++)
        freq[i] = plain(10000, i) / longs[i];
    expect_table(&r, 33, freq, factor);
    r.factor = 1;
    expect_table(&r, 33, freq, 1);
}

Test(build_rope, proportional)
{
    double freq[HALF];
    dop_rope r = {.theta = 1e6, .dims = DIMS, .rotated = 8, .scaling = DOP_ROPE_PROPORTIONAL, .factor = 2};
    for (uint32_t i = 0; i < HALF; i++)
        freq[i] = i < 4 ? plain(1e6, i) / 2 : 0;
    expect_table(&r, N, freq, 1);
}

Test(build_rope, refuses_what_was_not_checked)
{
    float table[16];
    dop_rope odd = {.theta = 10000, .dims = 7, .factor = 1};
    dop_rope lost = {.theta = 10000, .dims = 4, .factor = 1, .scaling = DOP_ROPE_LONGROPE};
    dop_diag diag = {0};
    cr_expect_eq(dop_rope_table(&odd, 1, table, &diag), DOP_E_INTERNAL);
    cr_expect_eq(dop_rope_table(&lost, 1, table, &diag), DOP_E_INTERNAL);
}
