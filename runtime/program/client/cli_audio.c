/* --audio: speech to text, and what a model of speech hears before --tokens. */
#include "runtime/program/client/cli_audio.h"
#include "runtime/program/client/cli_generate.h"

#include <doppler/speech.h>

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static dop_status
read_audio(const char *path, dop_diag *diag, dop_audio **out)
{
    dop_buf file = {0};
    *out = NULL;
    dop_status st = dop_cli_read(path, diag, &file);
    if (st == DOP_OK) {
        st = dop_audio_read(file.data, file.size, NULL, diag, out);
        if (st != DOP_OK && !diag->path[0])
            snprintf(diag->path, sizeof diag->path, "%s", path);
    }
    dop_buf_finish(&file);
    return st;
}

/* The log-mel values of the first chunk: of --mel, or of --audio. */
static dop_status
first_chunk(const dop_cli *cli, const dop_audio_facts *facts, dop_diag *diag, float *out)
{
    const size_t size = (size_t)facts->bins * facts->frames * sizeof *out;
    dop_buf file = {0};
    dop_audio *audio = NULL;
    dop_status st;
    if (!cli->mel) {
        st = read_audio(cli->audio, diag, &audio);
        if (st == DOP_OK)
            st = dop_audio_chunk(audio, facts, 0, diag, out);
        dop_audio_close(audio);
        return st;
    }
    st = dop_cli_read(cli->mel, diag, &file);
    if (st == DOP_OK && file.size != size)
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, cli->mel, "%zu bytes are no f32 [%u, %u], which are %zu", file.size,
                         facts->bins, facts->frames, size);
    if (st == DOP_OK)
        memcpy(out, file.data, size);
    dop_buf_finish(&file);
    return st;
}

static dop_status
write_rows(const char *path, const float *rows, size_t n, dop_diag *diag)
{
    dop_out_file file;
    dop_status st = dop_out_file_open(path, diag, &file);
    if (st != DOP_OK)
        return st;
    if (fwrite(rows, sizeof *rows, n, file.f) != n)
        st = DOP_FAIL_IN(diag, DOP_E_IO, path, "cannot write: %s", strerror(errno));
    dop_status closed = dop_out_file_close(&file, st == DOP_OK, diag);
    return st != DOP_OK ? st : closed;
}

dop_status
dop_cli_hear(const dop_cli *cli, dop_model *model, dop_sequence *sequence, dop_diag *diag)
{
    dop_audio_facts facts;
    if (!cli->audio && !cli->mel)
        return DOP_OK;
    if (!dop_model_audio(model, &facts))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, cli->plans.items[0],
                           "the plan hears nothing: it is not of a model of speech");
    const size_t n = (size_t)facts.bins * facts.frames, n_rows = (size_t)facts.rows * facts.width;
    float *mel = malloc(n * sizeof *mel), *rows = malloc(n_rows * sizeof *rows);
    dop_status st = mel && rows ? DOP_OK : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if (st == DOP_OK)
        st = first_chunk(cli, &facts, diag, mel);
    if (st == DOP_OK)
        st = dop_sequence_hear(sequence, mel, n, diag, rows);
    if (st == DOP_OK && cli->features)
        st = write_rows(cli->features, rows, n_rows, diag);
    free(mel);
    free(rows);
    return st;
}

typedef struct work {
    dop_cli *cli;
    dop_cli_generation gen;
    dop_speech *speech;
    dop_audio *audio;
    dop_transcript transcript;
    bool wrote; /* something is on the line */
} work;

/* Prints the text of a segment as soon as it is known. */
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
    dop_status st = dop_transcript_write(&w->transcript,
                                         cli->srt   ? DOP_TRANSCRIPT_SRT
                                         : cli->vtt ? DOP_TRANSCRIPT_VTT
                                                    : DOP_TRANSCRIPT_VERBOSE,
                                         diag, &text, &n);
    if (st == DOP_OK)
        st = dop_cli_print(text, n, diag);
    if (st == DOP_OK && cli->json)
        st = dop_cli_print("\n", 1, diag);
    dop_free(text);
    return st;
}

static dop_status
transcribe(work *w, dop_diag *diag)
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
    dop_status st = read_audio(cli->audio, diag, &w.audio);
    if (st == DOP_OK)
        st = dop_cli_generation_open(cli, "--audio", diag, &w.gen);
    if (st == DOP_OK)
        st = dop_speech_open(w.gen.model, w.gen.text, diag, &w.speech);
    const double begin = dop_now_ms();
    if (st == DOP_OK)
        st = transcribe(&w, diag);
    const double ms = dop_now_ms() - begin;
    if (st == DOP_OK)
        st = print_transcript(&w, diag);
    if (st == DOP_OK && !cli->quiet)
        fprintf(stderr, "load %.0f ms; %.1f s of audio in %.2f s, %.1f times as fast; %u tokens; on %s\n",
                w.gen.facts.load_ms, w.transcript.duration, ms / 1e3, w.transcript.duration / ms * 1e3,
                w.transcript.n_tokens, w.gen.facts.device);
    dop_transcript_finish(&w.transcript);
    dop_speech_close(w.speech);
    dop_cli_generation_finish(&w.gen);
    dop_audio_close(w.audio);
    return st;
}
