/* How long whisper.cpp takes for a file, by its build of npm (tests/bench/speech.sh builds and calls this):
 *
 *   speech_peer MODEL.bin FILE.wav cpu|gpu alone|chained [SECONDS]
 *
 * The likeliest token, no hotter attempts, no times, English: as doppler-exec --temp 0 --language en --no-timestamps.  alone: a window
 * is not led by the text before it, as with --audio-batch; chained: it is.  SECONDS: of the file, the whole by default.  A part of
 * 40 s goes before, because kernels are compiled at first use.  FILE: 16 bits, one channel, 16 kHz, as tests/tools/sound writes it. */
#include "whisper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct heard {
    int windows, text; /* encoder runs, and tokens of text that were kept */
} heard;

static void
fail(const char *what)
{
    fprintf(stderr, "speech_peer: %s\n", what);
    exit(1);
}

static double
now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Only what concerns the device and errors: "load" lines are many. */
static void
logged(enum ggml_log_level level, const char *line, void *user)
{
    (void)user;
    if (level >= GGML_LOG_LEVEL_WARN || strstr(line, "ggml_vulkan: 0") || strstr(line, "print_timings"))
        fputs(line, stderr);
}

static bool
window_begins(struct whisper_context *c, struct whisper_state *s, void *user)
{
    (void)c, (void)s;
    ((heard *)user)->windows++;
    return true;
}

static float *
read_wav(const char *name, int *n)
{
    FILE *f = fopen(name, "rb");
    unsigned char head[44];
    if (!f || fread(head, 1, sizeof head, f) != sizeof head || memcmp(head, "RIFF", 4) != 0 ||
        memcmp(head + 36, "data", 4) != 0 || head[22] != 1 || head[34] != 16 || (head[24] | head[25] << 8) != 16000)
        fail("the file has not 16 bits, one channel and 16 kHz");
    const size_t bytes = (size_t)head[40] | (size_t)head[41] << 8 | (size_t)head[42] << 16 | (size_t)head[43] << 24;
    short *raw = malloc(bytes);
    float *pcm = malloc(bytes / 2 * sizeof *pcm);
    if (!raw || !pcm || fread(raw, 1, bytes, f) != bytes)
        fail("the file is cut off");
    fclose(f);
    *n = (int)(bytes / 2);
    for (int i = 0; i < *n; i++)
        pcm[i] = (float)raw[i] / 32768;
    free(raw);
    return pcm;
}

static double
hear(struct whisper_context *c, struct whisper_full_params p, const float *pcm, int n, heard *h)
{
    *h = (heard){0};
    p.encoder_begin_callback = window_begins;
    p.encoder_begin_callback_user_data = h;
    whisper_reset_timings(c);
    const double begin = now();
    if (whisper_full(c, p, pcm, n) != 0)
        fail("whisper_full failed");
    const double seconds = now() - begin;
    for (int i = 0; i < whisper_full_n_segments(c); i++)
        h->text += whisper_full_n_tokens(c, i);
    return seconds;
}

int
main(int argc, char **argv)
{
    if (argc < 5)
        fail("usage: speech_peer MODEL.bin FILE.wav cpu|gpu alone|chained [SECONDS]");
    int n = 0;
    float *pcm = read_wav(argv[2], &n);
    if (argc > 5 && atoi(argv[5]) * 16000 < n)
        n = atoi(argv[5]) * 16000;
    whisper_log_set(logged, NULL);
    struct whisper_context_params cp = whisper_context_default_params();
    cp.use_gpu = strcmp(argv[3], "gpu") == 0;
    struct whisper_context *c = whisper_init_from_file_with_params(argv[1], cp);
    if (!c)
        fail("cannot load the model");
    struct whisper_full_params p = whisper_full_default_params(WHISPER_SAMPLING_GREEDY);
    p.n_threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
    p.print_progress = false;
    p.no_timestamps = true;
    p.language = "en";
    p.temperature = p.temperature_inc = 0;
    p.greedy.best_of = 1;
    if (strcmp(argv[4], "alone") == 0)
        p.n_max_text_ctx = 0;
    heard h;
    const int part = n < 40 * 16000 ? n : 40 * 16000;
    const double first = hear(c, p, pcm, part, &h);
    printf("whisper.cpp, %s: %.2f s for a first part of %.0f s\n", argv[4], first, part / 16e3);
    fflush(stdout);
    const double seconds = hear(c, p, pcm, n, &h);
    whisper_print_timings(c);
    printf("whisper.cpp, %s: %.2f s for %.0f s of sound, %d windows, %d tokens\n", argv[4], seconds, n / 16e3,
           h.windows, h.text);
    fflush(stdout);
    _exit(0); /* what the library does at its end is not measured */
}
