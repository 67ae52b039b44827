/* Sound: log-mel values of an independent implementation, and files of every kind that libsndfile writes, at several rates and numbers of
 * channels, whole and damaged. */
#include "media/audio.h"

#include <criterion/criterion.h>
#include <math.h>
#include <sndfile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file in memory that libsndfile writes. */
typedef struct file {
    uint8_t *bytes;
    sf_count_t n, at, cap;
} file;

static sf_count_t
file_size(void *user)
{
    return ((file *)user)->n;
}

static sf_count_t
file_tell(void *user)
{
    return ((file *)user)->at;
}

static sf_count_t
file_seek(sf_count_t offset, int whence, void *user)
{
    file *f = user;
    return f->at = offset + (whence == SEEK_SET ? 0 : whence == SEEK_CUR ? f->at : f->n);
}

static sf_count_t
file_read(void *to, sf_count_t count, void *user)
{
    file *f = user;
    const sf_count_t n = count < f->n - f->at ? count : f->n - f->at;
    memcpy(to, f->bytes + f->at, (size_t)n);
    f->at += n;
    return n;
}

static sf_count_t
file_write(const void *from, sf_count_t count, void *user)
{
    file *f = user;
    if (f->at + count > f->cap) {
        f->cap = 2 * (f->at + count);
        f->bytes = realloc(f->bytes, (size_t)f->cap);
        cr_assert_not_null(f->bytes);
    }
    memcpy(f->bytes + f->at, from, (size_t)count);
    f->at += count;
    f->n = f->at > f->n ? f->at : f->n;
    return count;
}

enum { TONE = 440 };

/* A file with a tone of half the largest amplitude in every channel. */
static file
write_tone(int format, int rate, int channels, sf_count_t frames, double amplitude)
{
    SF_VIRTUAL_IO io = {file_size, file_seek, file_read, file_write, file_tell};
    SF_INFO info = {.samplerate = rate, .channels = channels, .format = format};
    file f = {0};
    SNDFILE *to = sf_open_virtual(&io, SFM_WRITE, &info, &f);
    cr_assert_not_null(to, "%x: %s", (unsigned)format, sf_strerror(NULL));
    float *values = malloc((size_t)(frames * channels + 1) * sizeof *values);
    for (sf_count_t i = 0; i < frames * channels; i++)
        values[i] = (float)(amplitude * sin(2 * acos(-1.0) * TONE * (double)(i / channels) / rate));
    cr_assert_eq(sf_writef_float(to, values, frames), frames);
    sf_close(to);
    free(values);
    return f;
}

static dop_status
decode(const void *bytes, size_t n, double most, dop_diag *diag, float **out, size_t *out_n)
{
    dop_budget budget = {.steps = UINT64_MAX, .bytes = 64 << 20};
    *diag = (dop_diag){0};
    const dop_status st = dop_audio_decode(bytes, n, most, &budget, diag, out, out_n);
    cr_expect_eq(st == DOP_OK, *out != NULL);
    cr_expect_eq(st == DOP_OK, diag->message[0] == 0);
    cr_expect_null(strchr(diag->message, '\n'), "%s", diag->message);
    return st;
}

/* How much of the samples' power is the tone, and their root mean square. */
static double
share_of_tone(const float *x, size_t n, double *out_rms)
{
    double re = 0, im = 0, power = 0;
    for (size_t i = 0; i < n; i++) {
        const double phase = 2 * acos(-1.0) * TONE * (double)i / DOP_AUDIO_RATE;
        re += (double)x[i] * cos(phase);
        im += (double)x[i] * sin(phase);
        power += (double)x[i] * (double)x[i];
    }
    *out_rms = sqrt(power / (double)n);
    return power > 0 ? 2 * (re * re + im * im) / (double)n / power : 0;
}

static const struct {
    const char *name;
    int format;
    bool speech_rates; /* it has rates of telephones and of broadcasting only */
    int channels;      /* at most */
} kinds[] = {
    {"wav of 8 bits", SF_FORMAT_WAV | SF_FORMAT_PCM_U8, false, 6},
    {"wav of 16 bits", SF_FORMAT_WAV | SF_FORMAT_PCM_16, false, 6},
    {"wav of 24 bits", SF_FORMAT_WAV | SF_FORMAT_PCM_24, false, 6},
    {"wav of 32 bits", SF_FORMAT_WAV | SF_FORMAT_PCM_32, false, 6},
    {"wav of floats", SF_FORMAT_WAV | SF_FORMAT_FLOAT, false, 6},
    {"wav of doubles", SF_FORMAT_WAV | SF_FORMAT_DOUBLE, false, 6},
    {"wav of mu-law", SF_FORMAT_WAV | SF_FORMAT_ULAW, false, 2},
    {"wav of IMA ADPCM", SF_FORMAT_WAV | SF_FORMAT_IMA_ADPCM, false, 2},
    {"extensible wav", SF_FORMAT_WAVEX | SF_FORMAT_PCM_16, false, 6},
    {"rf64", SF_FORMAT_RF64 | SF_FORMAT_PCM_16, false, 6},
    {"flac", SF_FORMAT_FLAC | SF_FORMAT_PCM_16, false, 6},
    {"flac of 24 bits", SF_FORMAT_FLAC | SF_FORMAT_PCM_24, false, 6},
    {"vorbis", SF_FORMAT_OGG | SF_FORMAT_VORBIS, false, 6},
    {"opus", SF_FORMAT_OGG | SF_FORMAT_OPUS, true, 2},
    {"mp3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III, false, 2},
};

Test(audio, kinds_rates_and_channels)
{
    static const int rates[] = {8000, 11025, 16000, 44100, 48000}, channels[] = {1, 2, 6};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t i = 0; i < 15; i++) {
            const int rate = rates[i % 5], c = channels[i / 5];
            const bool lossy = kinds[k].channels == 2 || strcmp(kinds[k].name, "vorbis") == 0;
            if (c > kinds[k].channels || (kinds[k].speech_rates && rate % 4000))
                continue;
            file f = write_tone(kinds[k].format, rate, c, rate / 2, 0.5);
            float *x = NULL;
            size_t n = 0;
            dop_diag diag;
            cr_expect_eq(decode(f.bytes, (size_t)f.n, 10, &diag, &x, &n), DOP_OK, "%s, %d Hz, %d: %s", kinds[k].name,
                         rate, c, diag.message);
            double rms = 0;
            /* MP3's coder adds up to three of its frames of silence. */
            cr_expect(n + 200 >= DOP_AUDIO_RATE / 2 && n <= DOP_AUDIO_RATE / 2 + (lossy ? 4000 : 200),
                      "%s, %d Hz, %d: %zu samples", kinds[k].name, rate, c, n);
            /* Vorbis keeps low notes only of the sixth channel. */
            const double share = n > 6000 ? share_of_tone(x + 1500, 4000, &rms) : 0;
            cr_expect(share > 0.98 && rms > 0.29 && rms < 0.38, "%s, %d Hz, %d: share %g rms %g", kinds[k].name, rate,
                      c, share, rms);
            free(x);
            free(f.bytes);
        }
}

/* libsndfile reads these, also behind a tag of MP3; they are refused before it looks at them. */
Test(audio, other_containers)
{
    static const int formats[] = {SF_FORMAT_AIFF | SF_FORMAT_PCM_16, SF_FORMAT_AU | SF_FORMAT_PCM_16,
                                  SF_FORMAT_CAF | SF_FORMAT_PCM_24,  SF_FORMAT_W64 | SF_FORMAT_PCM_16,
                                  SF_FORMAT_SVX | SF_FORMAT_PCM_16,  SF_FORMAT_VOC | SF_FORMAT_PCM_16,
                                  SF_FORMAT_WVE | SF_FORMAT_ALAW,    SF_FORMAT_MAT5 | SF_FORMAT_PCM_16};
    for (size_t k = 0; k < 2 * sizeof formats / sizeof *formats; k++) {
        static const char tag[] = "ID3\3\0\0\0\0\0\4....";
        const size_t before = k % 2 ? sizeof tag - 1 : 0;
        file f = write_tone(formats[k / 2], 8000, 1, 4000, 0.5);
        uint8_t *own = malloc((size_t)f.n + before);
        float *x = NULL;
        size_t n = 0;
        dop_diag diag;
        memcpy(own, tag, before);
        memcpy(own + before, f.bytes, (size_t)f.n);
        cr_expect_eq(decode(own, (size_t)f.n + before, 10, &diag, &x, &n), DOP_E_INPUT, "%x", (unsigned)formats[k / 2]);
        cr_expect_str_eq(diag.message, "this is no audio that can be read: WAV, FLAC, OGG and MP3 are");
        free(own);
        free(f.bytes);
    }
}

/* Samples are made within the budget, with all that the resampler holds. */
Test(audio, memory_of_high_rates)
{
    static const int rates[] = {8000, 44100, 192000, 700000};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        file f = write_tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, rates[i], 1, rates[i], 0.5);
        dop_budget large = {.steps = UINT64_MAX, .bytes = 32 << 20}, small = {.steps = UINT64_MAX, .bytes = 1 << 20};
        dop_diag diag = {0}, other = {0};
        float *x = NULL;
        size_t n = 0;
        cr_expect_eq(dop_audio_decode(f.bytes, (size_t)f.n, 10, &large, &diag, &x, &n), DOP_OK, "%s", diag.message);
        cr_expect_geq(large.bytes, (32 << 20) - 2 * n * sizeof *x, "what resamples is given back");
        free(x);
        cr_expect_eq(dop_audio_decode(f.bytes, (size_t)f.n, 10, &small, &other, &x, &n), DOP_E_LIMIT);
        free(f.bytes);
    }
}

/* Long audio is resampled in blocks, which nobody can hear. */
Test(audio, blocks_of_long_audio)
{
    enum { SECONDS = 61, RATE = 44100, ALL = SECONDS * DOP_AUDIO_RATE };
    file f = write_tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, RATE, 1, (sf_count_t)RATE * SECONDS, 0.5);
    float *x = NULL;
    size_t n = 0;
    dop_diag diag;
    double worst = 0;
    cr_assert_eq(dop_audio_decode(f.bytes, (size_t)f.n, 100, NULL, &diag, &x, &n), DOP_OK);
    cr_assert_eq(n, ALL);
    for (size_t i = 400; i < ALL - 400; i++)
        worst = fmax(worst, fabs((double)x[i] - 0.5 * sin(2 * acos(-1.0) * TONE * (double)i / DOP_AUDIO_RATE)));
    cr_expect_lt(worst, 1e-3, "%g", worst);
    free(x);
    free(f.bytes);
}

/* What is cut off gives what is there, or one line; nothing is made up. */
Test(audio, cut_off)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        file f = write_tone(kinds[k].format, 16000, 1, 8000, 0.5);
        for (sf_count_t end = 0; end < f.n; end += f.n / 37 + 1) {
            uint8_t *own = malloc((size_t)end + 1); /* so that reading behind it is found */
            float *x = NULL;
            size_t n = 0;
            dop_diag diag;
            memcpy(own, f.bytes, (size_t)end);
            const dop_status st = decode(own, (size_t)end, 10, &diag, &x, &n);
            cr_expect(st == DOP_OK || st == DOP_E_INPUT, "%s: %s", kinds[k].name, diag.message);
            cr_expect(st != DOP_OK || (n > 0 && n < 16000), "%s: %zu", kinds[k].name, n);
            cr_expect(strncmp(kinds[k].name, "flac", 4) != 0 || st != DOP_OK, "%s", kinds[k].name);
            free(x);
            free(own);
        }
        free(f.bytes);
    }
}

static void
set_u32(uint8_t *at, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

Test(audio, headers_that_lie)
{
    float *x = NULL;
    size_t n = 0;
    dop_diag diag;
    file f = write_tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, 1000, 0.5);
    cr_assert(memcmp(f.bytes + 36, "data", 4) == 0);
    set_u32(f.bytes + 4, 0xfffffff0u); /* four gigabytes, of which some bytes are there */
    set_u32(f.bytes + 40, 0xffffff00u);
    cr_expect_eq(decode(f.bytes, (size_t)f.n, 10, &diag, &x, &n), DOP_OK, "%s", diag.message);
    cr_expect_eq(n, 1000);
    free(x);
    /* Writers to pipes leave sizes empty; RIFF's own does not matter. */
    static const uint32_t riff[] = {0, 0xffffffffu, 36, 2036};
    for (size_t i = 0; i < sizeof riff / sizeof *riff; i++) {
        set_u32(f.bytes + 4, riff[i]);
        set_u32(f.bytes + 40, 0);
        cr_expect_eq(decode(f.bytes, (size_t)f.n, 10, &diag, &x, &n), DOP_OK, "%s", diag.message);
        cr_expect_eq(n, 1000);
        free(x);
    }
    /* Without samples other chunks may follow, which are no samples; silence looks like none. */
    memcpy(f.bytes + 44, "LIST\xc8\x07\0\0", 8); /* 1992 bytes, up to the file's end */
    cr_expect_eq(decode(f.bytes, (size_t)f.n, 10, &diag, &x, &n), DOP_E_INPUT);
    memset(f.bytes + 44, 0, 2000);
    cr_expect_eq(decode(f.bytes, (size_t)f.n, 10, &diag, &x, &n), DOP_OK, "%s", diag.message);
    cr_expect_eq(n, 1000);
    free(x);
    static const struct {
        size_t at;
        uint32_t value;
    } wrong[] = {{24, 0}, {24, 1}, {24, 0x7fffffff}, {22, 0x00100000 | 1000}, {22, 0x00100000}, {34, 0x61640000}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        file g = write_tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, 1000, 0.5);
        set_u32(g.bytes + wrong[i].at, wrong[i].value);
        const dop_status st = decode(g.bytes, (size_t)g.n, 10, &diag, &x, &n);
        cr_expect(st == DOP_E_INPUT, "%zu: %d %s", i, st, diag.message);
        free(x);
        free(g.bytes);
    }
    free(f.bytes);
}

Test(audio, nothing_and_little)
{
    float *x = NULL;
    size_t n = 0;
    dop_diag diag;
    file f = write_tone(SF_FORMAT_WAV | SF_FORMAT_PCM_16, 16000, 1, 0, 0.5);
    cr_expect_eq(decode(f.bytes, (size_t)f.n, 10, &diag, &x, &n), DOP_E_INPUT);
    cr_expect_str_eq(diag.message, "the audio is empty");
    free(f.bytes);
    cr_expect_eq(decode("", 0, 10, &diag, &x, &n), DOP_E_INPUT);
    cr_expect_eq(decode("What is this? No sound.", 23, 10, &diag, &x, &n), DOP_E_INPUT);
    static const int few[] = {1, 7, 159};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        f = write_tone(SF_FORMAT_WAV | SF_FORMAT_FLOAT, 16000, 2, few[i], 0.5);
        cr_expect_eq(decode(f.bytes, (size_t)f.n, 10, &diag, &x, &n), DOP_OK, "%s", diag.message);
        cr_expect_eq(n, (size_t)few[i]);
        free(x);
        free(f.bytes);
    }
    f = write_tone(SF_FORMAT_WAV | SF_FORMAT_FLOAT, 16000, 1, 100, (double)INFINITY);
    cr_expect_eq(decode(f.bytes, (size_t)f.n, 10, &diag, &x, &n), DOP_E_INPUT);
    cr_expect_str_eq(diag.message, "the audio has values that are no numbers");
    free(f.bytes);
}

Test(audio, limits)
{
    float *x = NULL;
    size_t n = 0;
    dop_diag diag = {0};
    file f = write_tone(SF_FORMAT_FLAC | SF_FORMAT_PCM_16, 48000, 1, 48000 * 20, 0);
    cr_expect_eq(decode(f.bytes, (size_t)f.n, 10, &diag, &x, &n), DOP_E_LIMIT);
    cr_expect_str_eq(diag.message, "the audio is longer than 10 seconds");
    dop_budget small = {.steps = UINT64_MAX, .bytes = 1 << 16}, slow = {.steps = 100000, .bytes = UINT64_MAX};
    cr_expect_eq(dop_audio_decode(f.bytes, (size_t)f.n, 100, &small, &diag, &x, &n), DOP_E_LIMIT);
    cr_expect_eq(dop_audio_decode(f.bytes, (size_t)f.n, 100, &slow, &diag, &x, &n), DOP_E_LIMIT);
    free(f.bytes);
}

/* --- log-mel values --------------------------------------------------------------------------------------------------------- */

static float *
read_floats(const char *path, size_t n)
{
    char name[512];
    snprintf(name, sizeof name, DOP_SOURCE_DIR "/tests/speech/whisper/%s", path);
    float *x = malloc(n * sizeof *x);
    FILE *f = fopen(name, "rb");
    cr_assert(x && f, "%s", name);
    cr_assert_eq(fread(x, sizeof *x, n, f), n);
    fclose(f);
    return x;
}

Test(audio, log_mel_values)
{
    enum { SAMPLES = 32000, FRAMES = SAMPLES / DOP_AUDIO_HOP, BINS = 80 };
    dop_diag diag = {0};
    float *samples = read_floats("audio.f32", SAMPLES), *want = read_floats("features.f32", (size_t)FRAMES * BINS);
    float *got = malloc((size_t)FRAMES * BINS * sizeof *got);
    double worst = 0;
    cr_assert_eq(dop_audio_mel(samples, SAMPLES, BINS, &diag, got), DOP_OK, "%s", diag.message);
    for (size_t i = 0; i < (size_t)FRAMES * BINS; i++)
        worst = fmax(worst, fabs((double)got[i] - (double)want[i]));
    cr_expect_lt(worst, 1e-4, "%g", worst);
    free(samples);
    free(want);
    free(got);
}

/* Long audio is measured in blocks, on several threads: equal stretches have equal values wherever they are. */
Test(audio, log_mel_values_of_long_audio)
{
    enum { PERIOD = 32000, TIMES = 60, BINS = 128, FRAMES = PERIOD / DOP_AUDIO_HOP };
    dop_diag diag = {0};
    float *samples = read_floats("audio.f32", PERIOD), *all = malloc((size_t)PERIOD * TIMES * sizeof *all);
    float *mel = malloc((size_t)FRAMES * TIMES * BINS * sizeof *mel);
    cr_assert(all && mel);
    for (size_t i = 0; i < TIMES; i++)
        memcpy(all + i * PERIOD, samples, PERIOD * sizeof *all);
    cr_assert_eq(dop_audio_mel(all, (size_t)PERIOD * TIMES, BINS, &diag, mel), DOP_OK, "%s", diag.message);
    for (size_t b = 0; b < BINS; b++)
        for (size_t i = FRAMES + 4; i < (size_t)FRAMES * (TIMES - 1); i++)
            cr_assert_eq(mel[b * FRAMES * TIMES + i], mel[b * FRAMES * TIMES + FRAMES + i % FRAMES],
                         "bin %zu frame %zu", b, i);
    free(samples);
    free(all);
    free(mel);
}

Test(audio, silence_has_values)
{
    enum { SAMPLES = 32000, BINS = 80 };
    dop_diag diag = {0};
    float *samples = calloc(SAMPLES, sizeof *samples), *mel = malloc(SAMPLES / DOP_AUDIO_HOP * BINS * sizeof *mel);
    cr_assert_eq(dop_audio_mel(samples, SAMPLES, BINS, &diag, mel), DOP_OK);
    for (size_t i = 0; i < SAMPLES / DOP_AUDIO_HOP * BINS; i++)
        cr_assert_float_eq((double)mel[i], -1.5, 1e-6);
    cr_expect_eq(dop_audio_mel(samples, 399, BINS, &diag, mel), DOP_E_USAGE);
    cr_expect_eq(dop_audio_mel(samples, SAMPLES, 0, &diag, mel), DOP_E_USAGE);
    free(samples);
    free(mel);
}
