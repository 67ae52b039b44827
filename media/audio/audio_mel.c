/* Log-mel spectrograms as in Whisper's feature extractor (transformers, feature_extraction_whisper.py and
 * audio_utils.py). */
#include "base/parallel.h"
#include "media/audio.h"

#include <kiss_fftr.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FREQUENCIES = DOP_AUDIO_WINDOW / 2 + 1 };
enum {
    BLOCK = 512,
    MAX_BINS = 1024,
    WORTH_A_THREAD = 4096
}; /* frames per work item; maximum number of bins; frames that justify a thread */

/* A triangular filter: weights of n frequencies from `first` on. */
typedef struct filter {
    uint32_t first, n;
    float weights[FREQUENCIES];
} filter;

typedef struct bank {
    uint32_t n;
    filter *filters;
    float window[DOP_AUDIO_WINDOW];
    kiss_fftr_cfg *fft; /* [n_threads] FFT plans; each has its own scratch memory */
    uint32_t n_threads;
    const float *samples;
    size_t n_samples, frames;
    float *mel;   /* [n, frames] output */
    float *most;  /* [blocks] largest value of each block */
    float lowest; /* lower bound of the output, set after the first pass */
} bank;

/* Slaney's mel scale: linear up to 1000 Hz, logarithmic above. */
static double
hz_to_mel(double hz)
{
    return hz < 1000 ? hz * 3 / 200 : 15 + log(hz / 1000) * 27 / log(6.4);
}

static double
mel_to_hz(double mel)
{
    return mel < 15 ? mel * 200 / 3 : 1000 * exp((mel - 15) * log(6.4) / 27);
}

/* Makes triangular filters between equidistant mel frequencies, each with area 1. */
static void
make_mel_filters(bank *b)
{
    const double top = hz_to_mel(DOP_AUDIO_RATE / 2.0), step = top / (b->n + 1);
    for (uint32_t i = 0; i < b->n; i++) {
        filter *f = &b->filters[i];
        const double low = mel_to_hz(i * step), mid = mel_to_hz((i + 1) * step), high = mel_to_hz((i + 2) * step);
        for (uint32_t k = 0; k < FREQUENCIES; k++) {
            const double hz = (double)k * DOP_AUDIO_RATE / DOP_AUDIO_WINDOW;
            const double up = (hz - low) / (mid - low), down = (high - hz) / (high - mid), w = fmin(up, down);
            if (w <= 0)
                continue;
            if (f->n == 0)
                f->first = k;
            f->weights[f->n++] = (float)(w * 2 / (high - low));
        }
    }
}

static void
close_mel_bank(bank *b)
{
    for (uint32_t i = 0; i < b->n_threads && b->fft; i++)
        kiss_fftr_free(b->fft[i]);
    free(b->fft);
    free(b->most);
    free(b->filters);
}

static dop_status
open_mel_bank(bank *b, dop_diag *diag)
{
    const uint64_t cores = b->frames / WORTH_A_THREAD + 1;
    bool good;
    b->n_threads = cores < dop_cores() ? (uint32_t)cores : dop_cores();
    b->n_threads = b->n_threads < DOP_MAX_THREADS ? b->n_threads : (uint32_t)DOP_MAX_THREADS;
    b->filters = calloc(b->n, sizeof *b->filters);
    b->most = calloc(b->frames / BLOCK + 1, sizeof *b->most);
    b->fft = calloc(b->n_threads, sizeof *b->fft);
    good = b->filters && b->most && b->fft;
    for (uint32_t i = 0; i < b->n_threads && good; i++)
        good = (b->fft[i] = kiss_fftr_alloc(DOP_AUDIO_WINDOW, 0, NULL, NULL)) != NULL;
    if (!good)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < DOP_AUDIO_WINDOW; i++)
        b->window[i] = (float)(0.5 - 0.5 * cos(2 * acos(-1.0) * i / DOP_AUDIO_WINDOW));
    make_mel_filters(b);
    return DOP_OK;
}

/* Computes the windowed samples of a frame; the audio is reflected at both ends. */
static void
apply_window(const bank *b, size_t frame, float *out)
{
    const int64_t from = (int64_t)(frame * DOP_AUDIO_HOP) - DOP_AUDIO_WINDOW / 2, end = (int64_t)b->n_samples - 1;
    if (from >= 0 && from + DOP_AUDIO_WINDOW <= end + 1) {
        for (int64_t i = 0; i < DOP_AUDIO_WINDOW; i++)
            out[i] = b->samples[from + i] * b->window[i];
        return;
    }
    for (int64_t i = 0; i < DOP_AUDIO_WINDOW; i++) {
        int64_t at = from + i < 0 ? -(from + i) : from + i;
        at = at > end ? 2 * end - at : at;
        out[i] = b->samples[at < 0 ? 0 : at] * b->window[i];
    }
}

/* A dop_parallel_fn: computes the log power in each filter for the frames of one block. */
static dop_status
measure_mel_block(void *user, uint32_t worker, uint32_t index, dop_diag *diag)
{
    bank *b = user;
    float in[DOP_AUDIO_WINDOW], power[FREQUENCIES], most = -INFINITY;
    kiss_fft_cpx spectrum[FREQUENCIES];
    const size_t from = (size_t)index * BLOCK, end = from + BLOCK < b->frames ? from + BLOCK : b->frames;
    (void)diag;
    for (size_t frame = from; frame < end; frame++) {
        apply_window(b, frame, in);
        kiss_fftr(b->fft[worker], in, spectrum);
        for (uint32_t k = 0; k < FREQUENCIES; k++)
            power[k] = spectrum[k].r * spectrum[k].r + spectrum[k].i * spectrum[k].i;
        for (uint32_t i = 0; i < b->n; i++) {
            const filter *f = &b->filters[i];
            float sum = 0;
            for (uint32_t k = 0; k < f->n; k++)
                sum += f->weights[k] * power[f->first + k];
            const float level = log10f(fmaxf(sum, 1e-10f));
            b->mel[i * b->frames + frame] = level;
            most = level > most ? level : most;
        }
    }
    b->most[index] = most;
    return DOP_OK;
}

/* A dop_parallel_fn: clamps a bin's levels to 8 below the maximum and scales them. */
static dop_status
scale_mel_bin(void *user, uint32_t worker, uint32_t index, dop_diag *diag)
{
    const bank *b = user;
    float *row = b->mel + (size_t)index * b->frames;
    (void)worker, (void)diag;
    for (size_t i = 0; i < b->frames; i++)
        row[i] = ((row[i] > b->lowest ? row[i] : b->lowest) + 4) / 4;
    return DOP_OK;
}

dop_status
dop_audio_mel(const float *samples, size_t n, uint32_t bins, dop_diag *diag, float *out_mel)
{
    bank b = {.n = bins, .samples = samples, .n_samples = n, .frames = n / DOP_AUDIO_HOP, .mel = out_mel};
    if (n < DOP_AUDIO_WINDOW || n % DOP_AUDIO_HOP || bins == 0 || bins > MAX_BINS || b.frames / BLOCK >= UINT32_MAX)
        return DOP_FAIL(diag, DOP_E_USAGE, "%zu samples make no frames of %u bins", n, bins);
    const uint32_t blocks = (uint32_t)((b.frames + BLOCK - 1) / BLOCK);
    float most = -INFINITY;
    dop_status st = DOP_OK;
    DOP_TRY(open_mel_bank(&b, diag));
    DOP_TRY(dop_parallel_for(blocks, b.n_threads, measure_mel_block, &b, diag));
    for (uint32_t i = 0; i < blocks; i++)
        most = b.most[i] > most ? b.most[i] : most;
    b.lowest = most - 8;
    DOP_TRY(dop_parallel_for(bins, b.n_threads, scale_mel_bin, &b, diag));
error:
    close_mel_bank(&b);
    return st;
}
