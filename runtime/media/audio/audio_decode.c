/* Decoding of audio files by libsndfile, mixing to one channel, and resampling by libsamplerate. */
#include "runtime/media/audio.h"

#include <samplerate.h>
#include <sndfile.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 14, MAX_CHANNELS = 64, MAX_RATE = 768000 }; /* PIECE: frames that are decoded at once */

/* A file in memory, as libsndfile reads it. */
typedef struct memory {
    const uint8_t *bytes;
    sf_count_t n, at;
} memory;

static sf_count_t
memory_size(void *user)
{
    return ((memory *)user)->n;
}

static sf_count_t
memory_tell(void *user)
{
    return ((memory *)user)->at;
}

static sf_count_t
memory_seek(sf_count_t offset, int whence, void *user)
{
    memory *m = user;
    const sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? m->at : m->n;
    if (offset < -base || offset > m->n - base)
        return -1;
    return m->at = base + offset;
}

static sf_count_t
memory_read(void *to, sf_count_t count, void *user)
{
    memory *m = user;
    const sf_count_t left = m->n - m->at, n = count < left ? count : left;
    if (n <= 0)
        return 0;
    memcpy(to, m->bytes + m->at, (size_t)n);
    m->at += n;
    return n;
}

static sf_count_t
memory_write(const void *from, sf_count_t count, void *user)
{
    (void)from;
    (void)count;
    (void)user;
    return 0;
}

typedef struct decoder {
    SNDFILE *file;
    SF_INFO info;
    SRC_STATE *resampler; /* NULL: the rate is right */
    float *piece, *mono;  /* [PIECE, channels], [PIECE] */
    dop_budget *budget;
    dop_diag *diag;
    size_t most; /* samples of the longest audio */
    float *out;
    size_t n, cap;
} decoder;

static dop_status
reserve(decoder *d, size_t more)
{
    if (more > d->most - d->n)
        return DOP_FAIL(d->diag, DOP_E_LIMIT, "the audio is longer than %zu seconds", d->most / (size_t)DOP_AUDIO_RATE);
    if (d->n + more <= d->cap)
        return DOP_OK;
    const size_t cap = d->n + more > 2 * d->cap ? d->n + more : 2 * d->cap;
    if (!dop_budget_take(d->budget, (cap - d->cap) * sizeof *d->out))
        return DOP_FAIL(d->diag, DOP_E_LIMIT, "the audio takes more memory than is allowed");
    float *p = realloc(d->out, cap * sizeof *p);
    if (!p)
        return DOP_FAIL(d->diag, DOP_E_NOMEM, "out of memory");
    d->out = p;
    d->cap = cap;
    return DOP_OK;
}

/* Appends n samples of one channel, at the right rate; ends: there are no more. */
static dop_status
append(decoder *d, const float *mono, size_t n, bool ends)
{
    dop_status st = DOP_OK;
    if (!d->resampler) {
        if (n > 0 && (st = reserve(d, n)) == DOP_OK) {
            memcpy(d->out + d->n, mono, n * sizeof *mono);
            d->n += n;
        }
        return st;
    }
    SRC_DATA x = {.data_in = mono,
                  .input_frames = (long)n,
                  .src_ratio = (double)DOP_AUDIO_RATE / d->info.samplerate,
                  .end_of_input = ends};
    float made[4096];
    do {
        x.data_out = made;
        x.output_frames = sizeof made / sizeof *made;
        if (src_process(d->resampler, &x) != 0)
            return DOP_FAIL(d->diag, DOP_E_INPUT, "the audio cannot be resampled from %d Hz", d->info.samplerate);
        if (x.output_frames_gen > 0 && (st = reserve(d, (size_t)x.output_frames_gen)) == DOP_OK) {
            memcpy(d->out + d->n, made, (size_t)x.output_frames_gen * sizeof *made);
            d->n += (size_t)x.output_frames_gen;
        }
        x.data_in += x.input_frames_used;
        x.input_frames -= x.input_frames_used;
    } while (st == DOP_OK && (x.input_frames > 0 || x.output_frames_gen == sizeof made / sizeof *made));
    return st;
}

static dop_status
read_pieces(decoder *d)
{
    const int channels = d->info.channels;
    dop_status st = DOP_OK;
    sf_count_t all = 0;
    for (sf_count_t n = PIECE; n == PIECE && st == DOP_OK; all += n) {
        n = sf_readf_float(d->file, d->piece, PIECE);
        if (!dop_budget_step(d->budget, (uint64_t)(n + 1) * (uint64_t)channels))
            return DOP_FAIL(d->diag, DOP_E_LIMIT, "reading the audio takes longer than is allowed");
        for (sf_count_t i = 0; i < n; i++) {
            float sum = 0;
            for (int c = 0; c < channels; c++)
                sum += d->piece[i * channels + c];
            d->mono[i] = sum / (float)channels;
            if (!(d->mono[i] > -1e6f && d->mono[i] < 1e6f))
                return DOP_FAIL(d->diag, DOP_E_INPUT, "the audio has values that are no numbers");
        }
        st = append(d, d->mono, (size_t)n, n < PIECE);
    }
    if (st == DOP_OK && sf_error(d->file) != SF_ERR_NO_ERROR)
        st = DOP_FAIL(d->diag, DOP_E_INPUT, "the audio is damaged: %s", sf_strerror(d->file));
    if (st == DOP_OK && (d->info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC && all < d->info.frames)
        st = DOP_FAIL(d->diag, DOP_E_INPUT, "the audio is cut off");
    if (st == DOP_OK && d->n == 0)
        st = DOP_FAIL(d->diag, DOP_E_INPUT, "the audio is empty");
    return st;
}

static dop_status
open_file(decoder *d, memory *m)
{
    SF_VIRTUAL_IO io = {memory_size, memory_seek, memory_read, memory_write, memory_tell};
    int why = 0;
    d->file = sf_open_virtual(&io, SFM_READ, &d->info, m);
    if (!d->file)
        return DOP_FAIL(d->diag, DOP_E_INPUT, "this is no audio that can be read: %s", sf_strerror(NULL));
    if (d->info.channels < 1 || d->info.channels > MAX_CHANNELS || d->info.samplerate < 100 ||
        d->info.samplerate > MAX_RATE)
        return DOP_FAIL(d->diag, DOP_E_INPUT, "audio of %d channels at %d Hz is not supported", d->info.channels,
                        d->info.samplerate);
    if (d->info.samplerate != DOP_AUDIO_RATE && !(d->resampler = src_new(SRC_SINC_MEDIUM_QUALITY, 1, &why)))
        return DOP_FAIL(d->diag, DOP_E_NOMEM, "out of memory");
    d->piece = malloc(PIECE * (size_t)d->info.channels * sizeof *d->piece);
    d->mono = malloc(PIECE * sizeof *d->mono);
    return d->piece && d->mono ? DOP_OK : DOP_FAIL(d->diag, DOP_E_NOMEM, "out of memory");
}

dop_status
dop_audio_decode(const void *bytes, size_t n, double most_seconds, dop_budget *budget, dop_diag *diag,
                 float **out_samples, size_t *out_n)
{
    memory m = {.bytes = bytes, .n = (sf_count_t)n};
    decoder d = {.budget = budget, .diag = diag, .most = (size_t)(most_seconds * DOP_AUDIO_RATE)};
    *out_samples = NULL;
    *out_n = 0;
    dop_status st = open_file(&d, &m);
    if (st == DOP_OK)
        st = read_pieces(&d);
    if (d.file)
        sf_close(d.file);
    if (d.resampler)
        src_delete(d.resampler);
    free(d.piece);
    free(d.mono);
    if (st != DOP_OK) {
        free(d.out);
        return st;
    }
    *out_samples = d.out;
    *out_n = d.n;
    return DOP_OK;
}
