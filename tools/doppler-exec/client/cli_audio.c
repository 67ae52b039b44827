/* --audio: speech to text. */
#include "tools/doppler-exec/client/cli_audio.h"
#include "tools/doppler-exec/client/cli_generate.h"
#include "tools/doppler-exec/common/cli_common.h"

#include <math.h>
#include <string.h>

typedef struct work {
    dop_cli *cli;
    dop_cli_generation gen;
    dop_speech *speech;
    dop_audio *audio;
    dop_transcript transcript;
    bool wrote; /* the current line has text */
} work;

/* Prints the text of a segment as soon as it is decoded. */
static dop_status
show_segment(void *user, const dop_speech_segment *segment, dop_diag *diag)
{
    work *w = user;
    const char *text = segment->text;
    while (*text == ' ' && !w->wrote)
        text++;
    w->wrote = w->wrote || *text;
    return dop_cli_print(text, strlen(text), diag);
}

static dop_status
print_transcript(work *w, dop_diag *diag)
{
    const dop_cli *cli = w->cli;
    char *text = NULL;
    size_t n = 0;
    if (!cli->json && !cli->srt && !cli->vtt)
        return dop_cli_print("\n", 1, diag);
    dop_status st = DOP_OK;
    DOP_TRY(dop_transcript_write(&w->transcript,
                                 cli->srt   ? DOP_TRANSCRIPT_SRT
                                 : cli->vtt ? DOP_TRANSCRIPT_VTT
                                            : DOP_TRANSCRIPT_VERBOSE,
                                 diag, &text, &n));
    DOP_TRY(dop_cli_print(text, n, diag));
    if (cli->json)
        DOP_TRY(dop_cli_print("\n", 1, diag));
error:
    dop_free(text);
    return st;
}

static dop_status
transcribe_audio(work *w, dop_diag *diag)
{
    const dop_cli *cli = w->cli;
    dop_speech_how how;
    dop_sampling sampling = {0};
    dop_speech_how_init(&how);
    dop_status st = dop_cli_sampling(w->cli, &w->gen.facts, diag, &sampling);
    if (st != DOP_OK)
        return st;
    how.language = cli->language;
    how.translate = cli->translate;
    how.no_timestamps = cli->no_timestamps;
    how.prompt = cli->prompt;
    how.together = cli->audio_batch;
    how.seed = sampling.seed;
    if (!isnan(cli->temperature)) {
        how.temperature = cli->temperature;
        how.one_attempt = true;
    }
    how.segment = cli->json || cli->srt || cli->vtt ? NULL : show_segment;
    how.user = w;
    return dop_speech_transcribe(w->speech, w->gen.sequence, w->audio, &how, diag, &w->transcript);
}

dop_status
dop_mode_audio(dop_cli *cli, dop_diag *diag)
{
    work w = {.cli = cli};
    if (cli->tokens || cli->tokens_file || cli->mel)
        return dop_mode_run(cli, diag);
    const double start = dop_now_ms();
    dop_status st = dop_cli_read_audio(cli->audio, diag, &w.audio);
    const double read_ms = dop_now_ms() - start;
    if (st == DOP_OK)
        st = dop_cli_generation_open(cli, "--audio", diag, &w.gen);
    if (st == DOP_OK)
        st = dop_speech_open(w.gen.model, w.gen.text, diag, &w.speech);
    const double begin = dop_now_ms();
    if (st == DOP_OK)
        st = transcribe_audio(&w, diag);
    const double ms = dop_now_ms() - begin;
    if (st == DOP_OK)
        st = print_transcript(&w, diag);
    if (st == DOP_OK && !cli->quiet)
        fprintf(stderr,
                "load %.0f ms; %.1f s of audio read in %.2f s, written down in %.2f s, %.1f times as fast (features "
                "%.2f s, "
                "encoder %.2f s for %u pieces, decoder %.2f s for %u tokens); on %s\n",
                w.gen.facts.load_ms, w.transcript.duration, read_ms / 1e3, ms / 1e3, w.transcript.duration / ms * 1e3,
                w.transcript.features_s, w.transcript.encoder_s, w.transcript.n_chunks, w.transcript.decoder_s,
                w.transcript.n_tokens, w.gen.facts.device);
    dop_transcript_finish(&w.transcript);
    dop_speech_close(w.speech);
    dop_cli_generation_finish(&w.gen);
    dop_audio_close(w.audio);
    return st;
}
