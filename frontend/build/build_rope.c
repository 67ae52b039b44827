/* Rotary tables. Each scaling changes the frequencies theta^(-2i/dims); some also multiply cosines and sines.
 *
 * Sources of the formulas: Hugging Face transformers, modeling_rope_utils.py (linear, llama3, yarn, longrope, proportional),
 * models/llama4/modeling_llama4.py (query temperature); YaRN: https://arxiv.org/abs/2309.00071; LongRoPE:
 * https://arxiv.org/abs/2402.13753. */
#include "frontend/build/build.h"

#include <math.h>
#include <stdlib.h>

static const double two_pi = 6.283185307179586476925286766559;

/* Llama 3: interpolates long wavelengths, keeps short ones and blends in between. */
static double
scale_llama3(const dop_rope *r, double freq)
{
    const double ctx = r->original_ctx, wavelength = two_pi / freq;
    if (wavelength > ctx / r->low_freq_factor)
        return freq / r->factor;
    if (wavelength < ctx / r->high_freq_factor || r->low_freq_factor == r->high_freq_factor) /* no range to blend in */
        return freq;
    const double smooth = (ctx / wavelength - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return (1 - smooth) * freq / r->factor + smooth * freq;
}

/* YaRN: returns the fractional index of the pair that makes `turns` full turns within the original context. */
static double
get_yarn_pair(const dop_rope *r, double turns)
{
    return r->dims * log(r->original_ctx / (turns * two_pi)) / (2 * log(r->theta));
}

static double
scale_yarn(const dop_rope *r, double freq, uint32_t i)
{
    double low = get_yarn_pair(r, r->beta_fast), high = get_yarn_pair(r, r->beta_slow);
    if (r->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, r->dims - 1);
    if (low == high)
        high += 0.001;
    const double ramp = fmin(fmax((i - low) / (high - low), 0), 1);
    return freq / r->factor * ramp + freq * (1 - ramp);
}

static double
get_yarn_mscale(double factor, double mscale)
{
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

/* Returns the factor on cosines and sines. */
static double
get_attention_factor(const dop_rope *r)
{
    if (r->attention_factor > 0)
        return r->attention_factor;
    if (r->scaling == DOP_ROPE_YARN) {
        if (r->mscale > 0 && r->mscale_all_dim > 0)
            return get_yarn_mscale(r->factor, r->mscale) / get_yarn_mscale(r->factor, r->mscale_all_dim);
        return get_yarn_mscale(r->factor, 1);
    }
    if (r->scaling == DOP_ROPE_LONGROPE && r->factor > 1)
        return sqrt(1 + log(r->factor) / log(r->original_ctx));
    return 1;
}

static double
get_scaled_frequency(const dop_rope *r, uint32_t i, uint32_t n_pos)
{
    double freq = pow(r->theta, -2.0 * i / r->dims);
    switch (r->scaling) {
    case DOP_ROPE_PLAIN:
        break;
    case DOP_ROPE_LINEAR:
        freq /= r->factor;
        break;
    case DOP_ROPE_LLAMA3:
        freq = scale_llama3(r, freq);
        break;
    case DOP_ROPE_YARN:
        freq = scale_yarn(r, freq, i);
        break;
    case DOP_ROPE_LONGROPE:
        return freq / (n_pos > r->original_ctx ? r->long_factors : r->short_factors)[i];
    case DOP_ROPE_PROPORTIONAL:
        freq = 2 * i < r->rotated ? freq / r->factor : 0;
        break;
    }
    return r->n_factors ? freq / r->short_factors[i] : freq;
}

uint32_t
dop_rope_low(uint32_t n_pos)
{
    return n_pos > DOP_ROPE_FULL ? DOP_ROPE_LOW : 0;
}

uint32_t
dop_rope_rows(uint32_t n_pos)
{
    const uint32_t low = dop_rope_low(n_pos);
    return low ? low + (n_pos - 1) / low + 1 : n_pos;
}

static dop_status
check_rope_lengths(const dop_rope *r, dop_diag *diag)
{
    const uint32_t half = r->dims / 2;
    if (r->dims == 0 || r->dims % 2 != 0 || (r->n_factors && (r->n_factors != half || !r->short_factors)) ||
        (r->scaling == DOP_ROPE_LONGROPE && (!r->n_factors || !r->long_factors)))
        return DOP_FAIL(diag, DOP_E_INTERNAL, "a rotary embedding of %u values was not checked", r->dims);
    return DOP_OK;
}

dop_status
dop_rope_frequency(const dop_rope *r, uint32_t pair, uint32_t n_pos, dop_diag *diag, double *out_frequency)
{
    dop_status st = DOP_OK;
    DOP_TRY(check_rope_lengths(r, diag));
error:
    *out_frequency = st == DOP_OK ? get_scaled_frequency(r, pair, n_pos) : 0;
    return st;
}

dop_status
dop_rope_table(const dop_rope *r, uint32_t n_pos, float *out_table, dop_diag *diag)
{
    const uint32_t half = r->dims / 2;
    if (check_rope_lengths(r, diag) != DOP_OK)
        return DOP_E_INTERNAL;
    double *freq = malloc(half * sizeof *freq);
    if (!freq)
        return DOP_NO_MEMORY(diag);
    const double factor = get_attention_factor(r) * (r->attention_times > 0 ? r->attention_times : 1);
    for (uint32_t i = 0; i < half; i++)
        freq[i] = get_scaled_frequency(r, i, n_pos);
    const uint32_t low = dop_rope_low(n_pos), rows = dop_rope_rows(n_pos);
    for (uint32_t k = 0; k < rows; k++) {
        float *row = out_table + (size_t)k * r->dims;
        const bool high = low && k >= low;
        const double p = high ? (double)(k - low) * low : (double)k + r->first, by = high ? 1 : factor;
        for (uint32_t i = 0; i < half; i++) {
            row[i] = (float)(cos(p * freq[i]) * by);
            row[half + i] = (float)(sin(p * freq[i]) * by);
        }
    }
    free(freq);
    return DOP_OK;
}

void
dop_temper_table(const dop_temper *t, uint32_t n_pos, float *out_table)
{
    for (uint32_t p = 0; p < n_pos; p++)
        out_table[p] = (float)(1 + t->scale * log1p(floor((p + t->from) / t->floor)));
}
