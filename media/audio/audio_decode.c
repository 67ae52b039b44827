/* Audio file decoding with libsndfile, downmixed to mono. */
#include "media/audio.h"
#include "media/audio/audio_resample.h"

#include <sndfile.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 14, MAX_CHANNELS = 64, MAX_RATE = 768000 }; /* PIECE: frames decoded at once */

/* A file in memory, for libsndfile's virtual I/O. */
typedef struct memory {
    const uint8_t *bytes;
    sf_count_t n, at;
    sf_count_t data_size; /* offset of a 4-byte size that reads return as 0xffffffff; 0: none */
} memory;

/* Returns the size field of a RIFF chunk header. */
static uint32_t
read_chunk_size(const uint8_t *head)
{
    return (uint32_t)head[4] | (uint32_t)head[5] << 8 | (uint32_t)head[6] << 16 | (uint32_t)head[7] << 24;
}

/* Skips RIFF chunks from `at` on, up to the first one called `name` (NULL: all).  Returns the offset of that chunk, or of the first
 * data that is not a chunk.  Otherwise returns the end of the last chunk, which exceeds n if that chunk is truncated. */
static uint64_t
skip_chunks(const memory *m, uint64_t at, const char *name)
{
    while (at + 8 <= (uint64_t)m->n && !(name && memcmp(m->bytes + at, name, 4) == 0)) {
        const uint32_t size = read_chunk_size(m->bytes + at);
        for (int i = 0; i < 4; i++)
            if (m->bytes[at + (uint64_t)i] < ' ' || m->bytes[at + (uint64_t)i] > '~')
                return at;
        at += 8 + (uint64_t)size + size % 2;
    }
    return at;
}

/* Finds the data size field of a WAV file if it is 0 although samples follow, because programs that write to a pipe cannot fill it in.
 * Reads then return 0xffffffff for it, so that libsndfile decodes up to the end of the file. */
static void
find_open_size(memory *m)
{
    const uint64_t n = (uint64_t)m->n;
    if (n < 12 || memcmp(m->bytes, "RIFF", 4) != 0 || memcmp(m->bytes + 8, "WAVE", 4) != 0)
        return;
    const uint64_t at = skip_chunks(m, 12, "data");
    /* If the rest of the file consists of whole chunks, it has no samples. */
    if (at + 8 < n && memcmp(m->bytes + at, "data", 4) == 0 && read_chunk_size(m->bytes + at) == 0 &&
        skip_chunks(m, at + 8, NULL) != n)
        m->data_size = (sf_count_t)at + 4;
}

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
    /* Seeking past the end is allowed; otherwise libmpg123 prints errors to stderr. */
    if (offset < -base || (offset > 0 && base > INT64_MAX - offset))
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
    for (sf_count_t i = m->data_size; m->data_size && i < m->data_size + 4; i++)
        if (i >= m->at && i < m->at + n)
            ((uint8_t *)to)[i - m->at] = 0xff;
    m->at += n;
    return n;
}

static sf_count_t
refuse_memory_write(const void *from, sf_count_t count, void *user)
{
    (void)from;
    (void)count;
    (void)user;
    return 0;
}

typedef struct decoder {
    SNDFILE *file;
    SF_INFO info;
    dop_resampler *resampler; /* NULL: no resampling needed */
    float *piece, *mono;      /* buffers: [PIECE, channels] and [PIECE] */
    dop_budget *budget;
    dop_diag *diag;
    size_t most; /* maximum number of output samples */
    float *out;
    size_t n, cap;
} decoder;

static dop_status
reserve_samples(decoder *d, size_t more)
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
        return DOP_NO_MEMORY(d->diag);
    d->out = p;
    d->cap = cap;
    return DOP_OK;
}

static dop_status
append_samples(decoder *d, const float *samples, size_t n)
{
    const dop_status st = n > 0 ? reserve_samples(d, n) : DOP_OK;
    if (st == DOP_OK && n > 0) {
        memcpy(d->out + d->n, samples, n * sizeof *samples);
        d->n += n;
    }
    return st;
}

/* Resamples and appends n mono samples.  ends: no more samples follow. */
static dop_status
append_resampled(decoder *d, const float *mono, size_t n, bool ends)
{
    dop_status st = DOP_OK;
    do {
        size_t room, made = 0;
        const float *samples = NULL;
        float *to = dop_resampler_room(d->resampler, &room);
        room = room < n ? room : n;
        memcpy(to, mono, room * sizeof *mono);
        mono += room;
        n -= room;
        st = dop_resampler_feed(d->resampler, room, ends && n == 0, d->diag, &samples, &made);
        if (st == DOP_OK)
            st = append_samples(d, samples, made);
    } while (st == DOP_OK && n > 0);
    return st;
}

static dop_status
decode_audio_pieces(decoder *d)
{
    const int channels = d->info.channels;
    sf_count_t all = 0;
    for (sf_count_t n = PIECE; n == PIECE; all += n) {
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
        DOP_RETURN_IF_ERROR(d->resampler ? append_resampled(d, d->mono, (size_t)n, n < PIECE)
                                         : append_samples(d, d->mono, (size_t)n));
    }
    if (sf_error(d->file) != SF_ERR_NO_ERROR)
        return DOP_FAIL(d->diag, DOP_E_INPUT, "the audio is damaged: %s", sf_strerror(d->file));
    if ((d->info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_FLAC && all < d->info.frames)
        return DOP_FAIL(d->diag, DOP_E_INPUT, "the audio is cut off");
    if (d->n == 0)
        return DOP_FAIL(d->diag, DOP_E_INPUT, "the audio is empty");
    return DOP_OK;
}

/* True if the file starts like WAV, FLAC, OGG or MP3.  libsndfile would also read twenty other containers, which are not needed. */
static bool
is_known_audio(const uint8_t *p, size_t n)
{
    enum { TAG = 10 };
    while (n > TAG && memcmp(p, "ID3", 3) == 0) { /* skip ID3 tags, whose length has 7 bits per byte */
        const size_t size =
            (size_t)(p[6] & 127) << 21 | (size_t)(p[7] & 127) << 14 | (size_t)(p[8] & 127) << 7 | (p[9] & 127);
        const size_t all = TAG + size + (p[5] & 0x10 ? TAG : 0);
        if (all >= n)
            return false;
        p += all;
        n -= all;
    }
    if (n < 12)
        return false;
    if (memcmp(p, "RIFF", 4) == 0 || memcmp(p, "RIFX", 4) == 0 || memcmp(p, "RF64", 4) == 0)
        return memcmp(p + 8, "WAVE", 4) == 0;
    return memcmp(p, "fLaC", 4) == 0 || memcmp(p, "OggS", 4) == 0 || (p[0] == 0xff && (p[1] & 0xe6) == 0xe2);
}

static dop_status
open_audio_file(decoder *d, memory *m)
{
    SF_VIRTUAL_IO io = {memory_size, memory_seek, memory_read, refuse_memory_write, memory_tell};
    find_open_size(m);
    if (!is_known_audio(m->bytes, (size_t)m->n))
        return DOP_FAIL(d->diag, DOP_E_INPUT, "this is no audio that can be read: WAV, FLAC, OGG and MP3 are");
    d->file = sf_open_virtual(&io, SFM_READ, &d->info, m);
    if (!d->file)
        return DOP_FAIL(d->diag, DOP_E_INPUT, "this is no audio that can be read: %s", sf_strerror(NULL));
    if (d->info.channels < 1 || d->info.channels > MAX_CHANNELS || d->info.samplerate < 100 ||
        d->info.samplerate > MAX_RATE)
        return DOP_FAIL(d->diag, DOP_E_INPUT, "audio of %d channels at %d Hz is not supported", d->info.channels,
                        d->info.samplerate);
    if (d->info.samplerate != DOP_AUDIO_RATE) {
        const dop_status st = dop_resampler_create((uint32_t)d->info.samplerate, d->budget, d->diag, &d->resampler);
        if (st != DOP_OK)
            return st;
    }
    d->piece = malloc(PIECE * (size_t)d->info.channels * sizeof *d->piece);
    d->mono = malloc(PIECE * sizeof *d->mono);
    return d->piece && d->mono ? DOP_OK : DOP_NO_MEMORY(d->diag);
}

dop_status
dop_audio_decode(const void *bytes, size_t n, double most_seconds, dop_budget *budget, dop_diag *diag,
                 float **out_samples, size_t *out_n)
{
    memory m = {.bytes = bytes, .n = (sf_count_t)n};
    decoder d = {.budget = budget, .diag = diag, .most = (size_t)(most_seconds * DOP_AUDIO_RATE)};
    *out_samples = NULL;
    *out_n = 0;
    dop_status st = open_audio_file(&d, &m);
    if (st == DOP_OK)
        st = decode_audio_pieces(&d);
    if (d.file)
        sf_close(d.file);
    dop_resampler_destroy(d.resampler);
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
