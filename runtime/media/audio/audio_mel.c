/* Log-mel spectrograms, as Whisper's feature extractor defines them: transformers, feature_extraction_whisper.py and audio_utils.py. */
#include "runtime/media/audio.h"

#include <complex.h>
#include <fftw3.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { FREQUENCIES = DOP_AUDIO_WINDOW / 2 + 1 };

/* A triangle of the filter bank: weights of the frequencies from `first` on. */
typedef struct filter {
    uint32_t first, n;
    double weights[FREQUENCIES];
} filter;

typedef struct bank {
    uint32_t n;
    filter *filters;
    double window[DOP_AUDIO_WINDOW];
    fftw_plan fft; /* of the next two */
    double *in;
    fftw_complex *spectrum;
} bank;

/* Plans are made by one thread at a time. */
static pthread_mutex_t planning = PTHREAD_MUTEX_INITIALIZER;

/* Slaney's scale: linear up to 1000 Hz, logarithmic above it. */
static double
mel_of(double hz)
{
    return hz < 1000 ? hz * 3 / 200 : 15 + log(hz / 1000) * 27 / log(6.4);
}

static double
hz_of(double mel)
{
    return mel < 15 ? mel * 200 / 3 : 1000 * exp((mel - 15) * log(6.4) / 27);
}

/* Triangles between the points of the scale, each of area 1. */
static void
make_filters(bank *b)
{
    const double top = mel_of(DOP_AUDIO_RATE / 2.0), step = top / (b->n + 1);
    for (uint32_t i = 0; i < b->n; i++) {
        filter *f = &b->filters[i];
        const double low = hz_of(i * step), mid = hz_of((i + 1) * step), high = hz_of((i + 2) * step);
        for (uint32_t k = 0; k < FREQUENCIES; k++) {
            const double hz = (double)k * DOP_AUDIO_RATE / DOP_AUDIO_WINDOW;
            const double up = (hz - low) / (mid - low), down = (high - hz) / (high - mid), w = fmin(up, down);
            if (w <= 0)
                continue;
            if (f->n == 0)
                f->first = k;
            f->weights[f->n++] = w * 2 / (high - low);
        }
    }
}

static dop_status
open_bank(bank *b, uint32_t bins, dop_diag *diag)
{
    *b = (bank){.n = bins};
    b->filters = calloc(bins, sizeof *b->filters);
    b->in = fftw_alloc_real(DOP_AUDIO_WINDOW);
    b->spectrum = fftw_alloc_complex(FREQUENCIES);
    if (b->in && b->spectrum) {
        pthread_mutex_lock(&planning);
        b->fft = fftw_plan_dft_r2c_1d(DOP_AUDIO_WINDOW, b->in, b->spectrum, FFTW_ESTIMATE);
        pthread_mutex_unlock(&planning);
    }
    if (!b->filters || !b->fft)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < DOP_AUDIO_WINDOW; i++)
        b->window[i] = 0.5 - 0.5 * cos(2 * acos(-1.0) * i / DOP_AUDIO_WINDOW);
    make_filters(b);
    return DOP_OK;
}

static void
close_bank(bank *b)
{
    free(b->filters);
    pthread_mutex_lock(&planning);
    if (b->fft)
        fftw_destroy_plan(b->fft);
    pthread_mutex_unlock(&planning);
    fftw_free(b->in);
    fftw_free(b->spectrum);
}

/* The sample at position i, reflected at both ends. */
static double
sample_at(const float *samples, size_t n, int64_t i)
{
    const int64_t end = (int64_t)n - 1;
    i = i < 0 ? -i : i;
    i = i > end ? 2 * end - i : i;
    return (double)samples[i < 0 ? 0 : i];
}

/* Sums of a frame's power within each triangle, to out[bin * stride]. */
static void
power_of(const bank *b, const float *samples, size_t n, size_t frame, float *out, size_t stride)
{
    double power[FREQUENCIES];
    const int64_t from = (int64_t)(frame * DOP_AUDIO_HOP) - DOP_AUDIO_WINDOW / 2;
    for (int64_t i = 0; i < DOP_AUDIO_WINDOW; i++)
        b->in[i] = sample_at(samples, n, from + i) * b->window[i];
    fftw_execute(b->fft);
    for (uint32_t k = 0; k < FREQUENCIES; k++)
        power[k] = creal(b->spectrum[k]) * creal(b->spectrum[k]) + cimag(b->spectrum[k]) * cimag(b->spectrum[k]);
    for (uint32_t i = 0; i < b->n; i++) {
        const filter *f = &b->filters[i];
        double sum = 0;
        for (uint32_t k = 0; k < f->n; k++)
            sum += f->weights[k] * power[f->first + k];
        out[i * stride] = (float)log10(fmax(sum, 1e-10));
    }
}

dop_status
dop_audio_mel(const float *samples, size_t n, uint32_t bins, dop_diag *diag, float *out_mel)
{
    bank b = {0};
    if (n < DOP_AUDIO_WINDOW || n % DOP_AUDIO_HOP || bins == 0 || bins > 1024)
        return DOP_FAIL(diag, DOP_E_USAGE, "%zu samples make no frames of %u bins", n, bins);
    const size_t frames = n / DOP_AUDIO_HOP;
    float most = -INFINITY;
    dop_status st = open_bank(&b, bins, diag);
    for (size_t i = 0; i < frames && st == DOP_OK; i++)
        power_of(&b, samples, n, i, out_mel + i, frames);
    for (size_t i = 0; i < frames * bins && st == DOP_OK; i++)
        most = fmaxf(most, out_mel[i]);
    for (size_t i = 0; i < frames * bins && st == DOP_OK; i++)
        out_mel[i] = (fmaxf(out_mel[i], most - 8) + 4) / 4;
    close_bank(&b);
    return st;
}
