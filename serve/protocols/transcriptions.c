/* POST /v1/audio/transcriptions and /v1/audio/translations: makes a transcription job from a form with an audio
 * file, and writes the transcript in OpenAI's formats, whole or as events. */
#include "serve/protocols/transcriptions.h"

#include "media/audio.h"
#include "runtime/library/speech.h"
#include "serve/api/api_json.h"
#include "serve/api/api_read.h"
#include "serve/protocols/form_data.h"
#include "serve/protocols/protocol.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_LANES = 64, MOST_PROMPT = 32000 /* bytes */ };

/* State of a request's job. */
typedef struct heard {
    dop_hearing *hearing; /* owned */
    uint64_t bytes;       /* memory of the audio samples */
    dop_transcript_form form;
    dop_speech_how how;
    /* Set while the audio is being transcribed. */
    dop_engine *engine;
    dop_job *job;
} heard;

static void
finish_heard(void *state)
{
    heard *h = state;
    if (!h)
        return;
    dop_hearing_release(h->hearing);
    free(h);
}

/* ---- transcription, on the engine's thread ---- */

/* dop_speech_how.continues: reports progress. */
static bool
report_transcription(void *user, double done)
{
    const heard *h = user;
    return dop_job_advance(h->engine, h->job, (uint32_t)(done * 1000), 1000);
}

/* dop_job_task.run: transcribes the audio. */
static dop_status
run_transcription_task(void *state, dop_model *model, dop_engine *engine, dop_job *job, dop_diag *diag)
{
    heard *h = state;
    dop_sequence *sequences[MOST_LANES];
    dop_lane lanes[MOST_LANES], *list[MOST_LANES];
    const uint32_t wanted = dop_hearing_most_lanes(h->hearing);
    const uint32_t n = dop_job_sequences(engine, job, sequences, wanted < MOST_LANES ? wanted : (uint32_t)MOST_LANES);
    uint32_t made = 0;
    dop_status st = DOP_OK;
    (void)model;
    h->engine = engine;
    h->job = job;
    while (made < n && st == DOP_OK) {
        list[made] = &lanes[made];
        st = dop_lane_init(&lanes[made], h->hearing, sequences[made], diag);
        made++;
    }
    while (st == DOP_OK && !dop_hearing_is_over(h->hearing)) {
        for (uint32_t i = 0; i < made && st == DOP_OK; i++)
            st = dop_lane_begin(&lanes[i], diag);
        if (st == DOP_OK)
            st = dop_lanes_step(list, made, 0, diag);
    }
    for (uint32_t i = 0; i < made; i++) {
        (void)dop_sequence_rewind(lanes[i].sequence, 0, NULL); /* the cache is not reused */
        dop_lane_finish(&lanes[i]);
    }
    return st;
}

/* ---- requests ---- */

static void
read_transcript_form(dop_reader *r, heard *out)
{
    static const struct {
        const char *name;
        dop_transcript_form form;
    } rows[] = {{"json", DOP_TRANSCRIPT_JSON},
                {"text", DOP_TRANSCRIPT_TEXT},
                {"srt", DOP_TRANSCRIPT_SRT},
                {"verbose_json", DOP_TRANSCRIPT_VERBOSE},
                {"vtt", DOP_TRANSCRIPT_VTT}};
    size_t n, i = 0;
    const char *name = dop_reader_text(r, "response_format", &n);
    while (name && i < sizeof rows / sizeof *rows && strcmp(rows[i].name, name) != 0)
        i++;
    out->form = rows[0].form;
    if (i == sizeof rows / sizeof *rows)
        dop_reader_refuse(r, "response_format", "response_format is json, text, srt, verbose_json or vtt");
    else
        out->form = rows[i].form;
}

/* Reads a numeric field of a form; returns `otherwise` if it is absent. */
static double
read_form_number(dop_reader *r, const char *name, double otherwise, double min, double max)
{
    size_t n;
    char *end = NULL;
    const char *text = dop_reader_text(r, name, &n);
    const double v = text ? strtod(text, &end) : otherwise;
    if (text && (end == text || *end || !(v >= min && v <= max))) {
        dop_reader_refuse(r, name, "%s is a number between %g and %g", name, min, max);
        return otherwise;
    }
    return v;
}

static bool
read_form_bool(dop_reader *r, const char *name)
{
    size_t n;
    const char *text = dop_reader_text(r, name, &n);
    const bool is = text && (strcasecmp(text, "true") == 0 || strcmp(text, "1") == 0);
    if (text && !is && strcasecmp(text, "false") != 0 && strcmp(text, "0") != 0)
        dop_reader_refuse(r, name, "%s is true or false", name);
    return is;
}

static void
refuse_word_times(dop_reader *r)
{
    static const char *const names[] = {"timestamp_granularities[]", "timestamp_granularities"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *list = dop_reader_get(r, names[i]), *v;
        size_t k;
        if (json_is_string(list) && strcmp(json_string_value(list), "segment") != 0)
            dop_reader_refuse(r, names[i], "times of words are not computed: timestamp_granularities is segment");
        json_array_foreach(list, k, v) if (strcmp(json_string_value(v), "segment") != 0)
            dop_reader_refuse(r, names[i], "times of words are not computed: timestamp_granularities is segment");
    }
}

static void
read_speech_options(dop_reader *r, const dop_api *api, heard *h)
{
    size_t n, n_prompt;
    dop_speech_how_init(&h->how);
    h->how.language = dop_reader_text(r, "language", &n);
    h->how.prompt = dop_reader_text(r, "prompt", &n_prompt);
    h->how.temperature = read_form_number(r, "temperature", 0, 0, 1);
    h->how.one_attempt = h->how.temperature > 0;
    const double seed = read_form_number(r, "seed", 0, -1, 9e15);
    if (seed != floor(seed))
        dop_reader_refuse(r, "seed", "seed is a whole number");
    h->how.seed = seed < 0 ? dop_any_seed() : (uint64_t)seed; /* -1: random, as in other requests */
    /* Other providers cut the audio at quiet places. Here, the pieces are also transcribed in parallel. */
    const json_t *cut = dop_reader_get(r, "chunking_strategy");
    if (cut)
        h->how.together = api->facts.n_sequences;
    if (n_prompt > MOST_PROMPT || (h->how.prompt && strlen(h->how.prompt) != n_prompt))
        dop_reader_refuse(r, "prompt", "prompt is a text of at most %d bytes", MOST_PROMPT);
    h->how.continues = report_transcription;
    h->how.user = h;
}

/* Decodes the audio file and prepares its transcription. */
static void
read_audio_file(dop_reader *r, const dop_api *api, const dop_api_request *request, const dop_form_data *form, heard *h)
{
    const dop_audio_options options = {.budget = request->budget};
    dop_audio *audio = NULL;
    dop_diag diag = {0};
    dop_audio_facts facts;
    if (form->files[DOP_FORM_FILE].count == 0) {
        dop_reader_refuse(r, "file", "file is the sound, as a file of the form");
        return;
    }
    if (form->files[DOP_FORM_FILE].count > 1) {
        dop_reader_refuse(r, "file", "one file is heard, and file is given %u times", form->files[DOP_FORM_FILE].count);
        return;
    }
    dop_status st =
        dop_audio_read(form->files[DOP_FORM_FILE].bytes, form->files[DOP_FORM_FILE].n, &options, &diag, &audio);
    (void)dop_model_audio(api->model, &facts);
    h->bytes = st == DOP_OK ? (uint64_t)(dop_audio_seconds(audio) * DOP_AUDIO_RATE) * sizeof(float) : 0;
    if (st == DOP_OK && !dop_budget_take(request->budget, (uint64_t)(dop_audio_seconds(audio) * 100) * facts.bins * 4))
        st = DOP_FAIL(&diag, DOP_E_LIMIT, "the audio takes more memory than is allowed");
    if (st == DOP_E_USAGE) {
        r->failed = true;
        dop_answer_error(r->answer, &(dop_api_error){503, "server_error", "no_audio", NULL}, "%s", diag.message);
    } else if (st != DOP_OK) {
        dop_reader_fail(r, "file", &diag, request->budget);
    } else if (dop_hearing_create(api->speech, audio, &h->how, &diag, &h->hearing) != DOP_OK) {
        dop_reader_fail(r, strstr(diag.message, "language") ? "language" : NULL, &diag, request->budget);
    }
    dop_audio_close(audio);
}

static void
submit_transcription(dop_reader *r, dop_call *c, const dop_api_request *request, heard *h)
{
    dop_diag diag = {0};
    const dop_job_request job = {.task = {run_transcription_task, finish_heard, h, h->bytes},
                                 .wake = request->wake,
                                 .user = request->user,
                                 .wake_at_end = !c->stream,
                                 .client = request->client,
                                 .priority = request->priority,
                                 .time_limit_s = c->api->time_limit_s};
    const dop_submit result = dop_engine_submit(c->api->engine, &job, 1, &diag, &c->choices[0].job);
    if (result != DOP_SUBMIT_OK) {
        r->failed = true;
        dop_answer_not_submitted(r->answer, result, &diag);
    }
}

/* ---- answers ---- */

static const heard *
get_call_state(const dop_call *c)
{
    return dop_job_look(c->choices[0].job).task;
}

static const char *
get_transcript_type(const dop_call *c)
{
    const dop_transcript_form form = get_call_state(c)->form;
    return form == DOP_TRANSCRIPT_JSON || form == DOP_TRANSCRIPT_VERBOSE ? "application/json"
           : form == DOP_TRANSCRIPT_VTT                                  ? "text/vtt; charset=utf-8"
                                                                         : "text/plain; charset=utf-8";
}

static void
write_no_frame(const dop_call *c, dop_buf *out)
{
    (void)c, (void)out;
}

static void
write_transcript(const dop_call *c, uint32_t index, dop_buf *out)
{
    const heard *h = get_call_state(c);
    dop_transcript t = *dop_hearing_transcript(h->hearing); /* no lock needed: the job has ended */
    dop_diag diag = {0};
    char *text = NULL;
    size_t n = 0;
    (void)index;
    for (uint32_t i = 0; i < DOP_N_LANGUAGES; i++) /* OpenAI uses the language's name */
        if (strcmp(t.language, dop_language_at(i)->code) == 0)
            t.language = dop_language_at(i)->name;
    out->failed = out->failed || dop_transcript_write(&t, h->form, &diag, &text, &n) != DOP_OK;
    if (text)
        dop_buf_append(out, text, n);
    dop_free(text);
}

static bool
stream_transcript(dop_call *c, dop_answer *answer)
{
    dop_choice *choice = &c->choices[0];
    dop_engine_lock(c->api->engine);
    const dop_job_state s = dop_job_look(choice->job);
    dop_engine_unlock(c->api->engine);
    const heard *h = s.task;
    const bool ended = s.end != DOP_JOB_GOES_ON;
    dop_hearing_lock(h->hearing);
    const dop_transcript *t = dop_hearing_transcript(h->hearing);
    for (; choice->sent < t->n_segments; choice->sent++) {
        const char *text = t->segments[choice->sent].text;
        text += choice->sent == 0 ? strspn(text, " ") : 0;
        dop_answer_event(
            answer, NULL,
            json_pack("{s:s, s:o}", "type", "transcript.text.delta", "delta", dop_json_text(text, strlen(text))));
    }
    if (ended && s.end == DOP_JOB_END_TOKEN)
        dop_answer_event(answer, NULL,
                         json_pack("{s:s, s:o, s:{s:s, s:f}}", "type", "transcript.text.done", "text",
                                   dop_json_text(t->text, strlen(t->text)), "usage", "type", "duration", "seconds",
                                   t->duration));
    dop_hearing_unlock(h->hearing);
    if (ended && s.end != DOP_JOB_END_TOKEN)
        dop_answer_failed_event(answer, &s);
    if (ended)
        dop_buf_puts(&answer->body, "data: [DONE]\n\n");
    return ended;
}

static const dop_task_writer writer = {write_no_frame, write_transcript, write_no_frame, stream_transcript,
                                       get_transcript_type};

static dop_call *
begin_transcription_call(const dop_api *api, const dop_api_request *request, const json_t *root, bool translates,
                         dop_answer *answer)
{
    dop_reader r = {.root = root, .answer = answer};
    dop_form_data form = {0};
    if (!api->speech) {
        dop_reader_refuse(&r, "model", "the model hears nothing");
        return NULL;
    }
    heard *h = calloc(1, sizeof *h);
    dop_call *c = calloc(1, sizeof *c + sizeof *c->choices);
    if (!h || !c) {
        dop_answer_no_memory(answer);
        free(h);
        free(c);
        return NULL;
    }
    (void)dop_reader_get(&r, "model");
    c->stream = read_form_bool(&r, "stream");
    read_transcript_form(&r, h);
    refuse_word_times(&r);
    read_speech_options(&r, api, h);
    h->how.translate = translates;
    r.failed = r.failed || !dop_request_form(request, answer, &form);
    dop_reader_report(&r);
    if (!r.failed)
        read_audio_file(&r, api, request, &form, h);
    json_decref(form.fields);
    c->api = api;
    c->tasks = &writer;
    c->n_choices = 1;
    c->created = (int64_t)time(NULL);
    if (!r.failed)
        submit_transcription(&r, c, request, h);
    if (r.failed) {
        finish_heard(h);
        free(c);
        return NULL;
    }
    if (api->hold)
        api->hold(api->models, api);
    return c;
}

void
dop_transcriptions_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                         dop_call **out_call)
{
    *out_call = begin_transcription_call(api, request, root, false, answer);
}

void
dop_translations_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                       dop_call **out_call)
{
    *out_call = begin_transcription_call(api, request, root, true, answer);
}
