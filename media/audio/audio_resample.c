/* Block-wise resampling.  Blocks begin at whole seconds, where samples of both rates coincide.  Each block is resampled independently
 * with one extra second on each side, more than the reach of any libsamplerate filter. */
#include "media/audio/audio_resample.h"
#include "base/parallel.h"
#include "media/audio.h"

#include <samplerate.h>
#include <stdlib.h>
#include <string.h>

/* Approximate samples per block; samples resampled at once; maximum block length in seconds; maximum blocks at once. */
enum { BLOCK_SAMPLES = 1 << 18, ALL_SAMPLES = 1 << 21, MAX_SECONDS = 10, MAX_BLOCKS = 8 };

struct dop_resampler {
    uint32_t rate, seconds; /* input rate in Hz; block length in seconds */
    dop_budget *budget;     /* not owned; NULL: unlimited */
    uint64_t bytes;         /* charged to the budget */
    uint32_t n_blocks;      /* capacity in blocks; the last one is for the rest at the end */
    float *in;              /* [cap] input: the previous second, the samples to resample, and the second after them. */
    size_t n, cap, before;  /* n: samples in `in`; before: already resampled samples at its start */
    float *out;             /* [n_blocks, seconds * DOP_AUDIO_RATE] output */
    size_t wanted;          /* number of valid samples in `out` */
    float **made;           /* [n_blocks] scratch output of a block, including the extra seconds */
};

dop_status
dop_resampler_create(uint32_t rate, dop_budget *budget, dop_diag *diag, dop_resampler **out_resampler)
{
    dop_resampler *r = calloc(1, sizeof *r);
    *out_resampler = NULL;
    if (!r)
        return DOP_NO_MEMORY(diag);
    r->rate = rate;
    r->seconds = rate < BLOCK_SAMPLES / 2 ? BLOCK_SAMPLES / rate : 2;
    r->seconds = r->seconds < MAX_SECONDS ? r->seconds : MAX_SECONDS;
    const uint32_t fit = ALL_SAMPLES / (r->seconds * rate), cores = dop_cores() < MAX_BLOCKS ? dop_cores() : MAX_BLOCKS;
    r->n_blocks = 1 + (fit < 1 ? 1 : fit < cores ? fit : cores);
    r->cap = ((size_t)(r->n_blocks - 1) * r->seconds + 2) * rate;
    const uint64_t made = (uint64_t)r->n_blocks * (2 * r->seconds + 2) * DOP_AUDIO_RATE; /* samples of out and made */
    if (!dop_budget_take(budget, (r->cap + made) * sizeof *r->in)) {
        free(r);
        return DOP_FAIL(diag, DOP_E_LIMIT, "the audio takes more memory than is allowed");
    }
    r->budget = budget;
    r->bytes = (r->cap + made) * sizeof *r->in;
    r->in = malloc(r->cap * sizeof *r->in);
    r->out = malloc((size_t)r->n_blocks * r->seconds * DOP_AUDIO_RATE * sizeof *r->out);
    r->made = calloc(r->n_blocks, sizeof *r->made);
    bool good = r->in && r->out && r->made;
    for (uint32_t i = 0; i < r->n_blocks && good; i++) {
        r->made[i] = malloc((size_t)(r->seconds + 2) * DOP_AUDIO_RATE * sizeof **r->made);
        good = r->made[i] != NULL;
    }
    if (!good) {
        dop_resampler_destroy(r);
        return DOP_NO_MEMORY(diag);
    }
    *out_resampler = r;
    return DOP_OK;
}

void
dop_resampler_destroy(dop_resampler *resampler)
{
    if (!resampler)
        return;
    for (uint32_t i = 0; i < resampler->n_blocks && resampler->made; i++)
        free(resampler->made[i]);
    dop_budget_give(resampler->budget, resampler->bytes);
    free(resampler->made);
    free(resampler->in);
    free(resampler->out);
    free(resampler);
}

float *
dop_resampler_room(dop_resampler *resampler, size_t *out_n)
{
    *out_n = resampler->cap - resampler->n;
    return resampler->in + resampler->n;
}

/* A dop_parallel_fn: resamples one block. */
static dop_status
resample_block(void *user, uint32_t worker, uint32_t index, dop_diag *diag)
{
    const dop_resampler *r = user;
    const size_t begin = r->before + (size_t)index * r->seconds * r->rate, before = begin >= r->rate ? r->rate : 0;
    const size_t most = (size_t)(r->seconds + 1) * r->rate, left = r->n - begin, skip = before ? DOP_AUDIO_RATE : 0;
    const size_t at = (size_t)index * r->seconds * DOP_AUDIO_RATE, whole = (size_t)r->seconds * DOP_AUDIO_RATE;
    const size_t wanted = r->wanted - at < whole ? r->wanted - at : whole;
    SRC_DATA x = {.data_in = r->in + begin - before,
                  .input_frames = (long)(before + (left < most ? left : most)),
                  .data_out = r->made[index],
                  .output_frames = (long)(r->seconds + 2) * DOP_AUDIO_RATE,
                  .src_ratio = (double)DOP_AUDIO_RATE / r->rate};
    (void)worker;
    if (src_simple(&x, SRC_SINC_MEDIUM_QUALITY, 1) != 0)
        return DOP_FAIL(diag, DOP_E_INPUT, "the audio cannot be resampled from %u Hz", r->rate);
    const size_t made = (size_t)x.output_frames_gen, n = made <= skip ? 0 : made - skip < wanted ? made - skip : wanted;
    memcpy(r->out + at, r->made[index] + skip, n * sizeof *r->out);
    memset(r->out + at + n, 0, (wanted - n) * sizeof *r->out); /* the filter may omit the last sample */
    return DOP_OK;
}

dop_status
dop_resampler_feed(dop_resampler *resampler, size_t n, bool ends, dop_diag *diag, const float **out_samples,
                   size_t *out_n)
{
    dop_resampler *r = resampler;
    const size_t block = (size_t)r->seconds * r->rate;
    r->n += n;
    *out_samples = r->out;
    *out_n = 0;
    if (!ends && r->n < r->cap)
        return DOP_OK;
    const size_t fresh = r->n - r->before;
    const uint32_t blocks = ends ? (uint32_t)((fresh + block - 1) / block) : r->n_blocks - 1;
    r->wanted = ends ? (fresh * DOP_AUDIO_RATE + r->rate - 1) / r->rate : (size_t)blocks * r->seconds * DOP_AUDIO_RATE;
    const dop_status st = dop_parallel_for(blocks, 0, resample_block, r, diag);
    if (st != DOP_OK)
        return st;
    *out_n = r->wanted;
    const size_t gone = ends ? r->n : r->before + blocks * block - r->rate;
    r->n -= gone;
    memmove(r->in, r->in + gone, r->n * sizeof *r->in);
    r->before = ends ? 0 : r->rate;
    return DOP_OK;
}
