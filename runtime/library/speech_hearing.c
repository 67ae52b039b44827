/* Transcription in progress: windows of the audio, context from earlier windows, and segments. Reference:
 * openai/whisper, transcribe.py. */
#include "base/os/clock.h"
#include "media/audio.h"
#include "runtime/library/speech.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

enum { FRAMES_OF_TIME = 2, FRAMES_OF_SECOND = DOP_AUDIO_RATE / DOP_AUDIO_HOP }; /* a timestamp token is 0.02 s */

/* A window: range of frames that is transcribed separately. */
typedef struct stretch {
    size_t frame, size;
    bool done;
    dop_speech_segment *segments; /* owned, [n], until earlier windows have their segments */
    size_t n, cap;
} stretch;

struct dop_hearing {
    const dop_speech *s;
    dop_speech_how how; /* language and prompt are cleared after creation */
    atomic_uint owners;
    pthread_mutex_t lock; /* guards `out` */
    dop_transcript out;
    float *mel;
    size_t frames, heard; /* frames of mel, and how many of them are audio, not padding */
    float silence;        /* mel value of silence */
    uint32_t language;    /* index for dop_language_at; UINT32_MAX: not detected yet */
    uint32_t *before;     /* owned: tokens of the prompt and earlier windows */
    size_t n_before, cap_before;
    stretch *windows;  /* owned */
    uint32_t n, cap;   /* number and capacity of windows */
    uint32_t begun;    /* number of windows started */
    uint32_t told;     /* number of windows whose segments are in the transcript */
    size_t next_frame; /* start of the next window, if windows are transcribed one by one */
    size_t cap_segments;
    dop_buf text;
};

void
dop_speech_how_init(dop_speech_how *how)
{
    *how = (dop_speech_how){.worst_logprob = -1, .worst_ratio = 2.4, .silence = 0.6};
}

static dop_status
fail_hearing_memory(dop_diag *diag)
{
    return DOP_NO_MEMORY(diag);
}

/* --- creation
 * ------------------------------------------------------------------------------------------------------------ */

static dop_status
keep_before(dop_hearing *h, const uint32_t *ids, size_t n, dop_diag *diag)
{
    if (h->n_before + n > h->cap_before) {
        const size_t cap = 2 * (h->n_before + n);
        uint32_t *p = realloc(h->before, cap * sizeof *p);
        if (!p)
            return fail_hearing_memory(diag);
        h->before = p;
        h->cap_before = cap;
    }
    if (n > 0)
        memcpy(h->before + h->n_before, ids, n * sizeof *ids);
    h->n_before += n;
    return DOP_OK;
}

static dop_status
keep_prompt(dop_hearing *h, const char *prompt, dop_diag *diag)
{
    uint32_t *ids = NULL;
    size_t n = 0;
    char *text = malloc(strlen(prompt) + 2);
    if (!text)
        return fail_hearing_memory(diag);
    sprintf(text, " %s", prompt + strspn(prompt, " \n\t"));
    dop_status st = dop_text_encode(h->s->text, text, strlen(text), 0, diag, &ids, &n);
    free(text);
    if (st == DOP_OK && prompt[strspn(prompt, " \n\t")])
        st = keep_before(h, ids, n, diag);
    dop_free(ids);
    return st;
}

static dop_status
choose_language(dop_hearing *h, dop_diag *diag)
{
    const char *name = h->how.language && strcasecmp(h->how.language, "auto") != 0 ? h->how.language : NULL;
    const bool many = h->s->tokens.languages;
    h->language = many ? UINT32_MAX : 0;
    if (!many && h->how.translate)
        return DOP_FAIL(diag, DOP_E_INPUT, "the model writes English only, and does not translate");
    if (!name)
        return DOP_OK;
    const uint32_t i = dop_language_find(name);
    if (i == DOP_N_LANGUAGES)
        return DOP_FAIL(diag, DOP_E_INPUT, "the language \"%.40s\" is not known", name);
    if (many ? h->s->language_ids[i] == UINT32_MAX : i > 0)
        return DOP_FAIL(diag, DOP_E_INPUT, "the model does not know the language \"%.40s\"", name);
    h->language = i;
    return DOP_OK;
}

static dop_status
add_window(dop_hearing *h, size_t frame, size_t size, dop_diag *diag)
{
    if (h->n == h->cap) {
        const uint32_t cap = h->cap ? 2 * h->cap : 16;
        stretch *p = realloc(h->windows, cap * sizeof *p);
        if (!p)
            return fail_hearing_memory(diag);
        h->windows = p;
        h->cap = cap;
    }
    h->windows[h->n++] = (stretch){.frame = frame, .size = size};
    return DOP_OK;
}

/* Returns the quietest frame of [from, end): the middle of the 0.2 s with the smallest sum of values. */
static size_t
find_quietest_frame(const dop_hearing *h, size_t from, size_t end)
{
    enum { WIDTH = FRAMES_OF_SECOND / 5 };
    const uint32_t bins = h->s->facts.bins;
    double least = INFINITY, sum = 0;
    size_t best = end;
    for (size_t i = from; i < end; i++) {
        for (uint32_t b = 0; b < bins; b++) {
            sum += (double)h->mel[b * h->frames + i];
            sum -= i >= from + WIDTH ? (double)h->mel[b * h->frames + i - WIDTH] : 0;
        }
        if (i + 1 >= from + WIDTH && sum < least) {
            least = sum;
            best = i + 1 - WIDTH / 2;
        }
    }
    return best;
}

/* Cuts all the audio into windows. Each ends at the quietest point of its last third. */
static dop_status
cut_windows(dop_hearing *h, dop_diag *diag)
{
    const size_t most = h->s->facts.frames;
    for (size_t frame = 0, size; frame < h->heard; frame += size) {
        size = h->heard - frame;
        if (size > most)
            size = find_quietest_frame(h, frame + most - most / 3, frame + most) - frame;
        DOP_RETURN_IF_ERROR(add_window(h, frame, size, diag));
    }
    return DOP_OK;
}

dop_status
dop_hearing_create(const dop_speech *speech, const dop_audio *audio, const dop_speech_how *how, dop_diag *diag,
                   dop_hearing **out_hearing)
{
    dop_hearing *h = calloc(1, sizeof *h);
    *out_hearing = NULL;
    if (!h)
        return fail_hearing_memory(diag);
    const double begin = dop_now_ms();
    h->s = speech;
    h->how = *how;
    h->out = (dop_transcript){.language = "",
                              .task = how->translate ? "translate" : "transcribe",
                              .duration = dop_audio_seconds(audio),
                              .text = strdup("")};
    atomic_init(&h->owners, 1);
    pthread_mutex_init(&h->lock, NULL);
    dop_status st = h->out.text ? choose_language(h, diag) : fail_hearing_memory(diag);
    if (st == DOP_OK)
        st = dop_audio_frames(audio, &speech->facts, diag, &h->mel, &h->frames);
    h->heard = (audio->n + DOP_AUDIO_HOP - 1) / DOP_AUDIO_HOP;
    if (st == DOP_OK)
        h->silence = h->mel[h->frames - 1]; /* longer audio is padded with silence */
    if (st == DOP_OK && how->prompt)
        st = keep_prompt(h, how->prompt, diag);
    if (st == DOP_OK)
        st = how->together > 1 ? cut_windows(h, diag) : DOP_OK;
    h->how.language = h->how.prompt = NULL;
    h->out.features_s = (dop_now_ms() - begin) / 1e3;
    if (st != DOP_OK) {
        dop_hearing_release(h);
        return st;
    }
    *out_hearing = h;
    return DOP_OK;
}

dop_hearing *
dop_hearing_share(dop_hearing *hearing)
{
    atomic_fetch_add(&hearing->owners, 1);
    return hearing;
}

static void
free_segments(dop_speech_segment *segments, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        dop_free((void *)(uintptr_t)segments[i].text);
        free((void *)(uintptr_t)segments[i].tokens);
    }
    free(segments);
}

void
dop_hearing_release(dop_hearing *hearing)
{
    dop_hearing *h = hearing;
    if (!h || atomic_fetch_sub(&h->owners, 1) > 1)
        return;
    for (uint32_t i = 0; i < h->n; i++)
        free_segments(h->windows[i].segments, h->windows[i].n);
    free(h->windows);
    free(h->mel);
    free(h->before);
    dop_buf_finish(&h->text);
    dop_transcript_finish(&h->out);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

void
dop_transcript_finish(dop_transcript *transcript)
{
    free_segments(transcript->segments, transcript->n_segments);
    free(transcript->text);
    *transcript = (dop_transcript){0};
}

/* --- accessors
 * ----------------------------------------------------------------------------------------------------------- */

void
dop_hearing_lock(dop_hearing *hearing)
{
    pthread_mutex_lock(&hearing->lock);
}

void
dop_hearing_unlock(dop_hearing *hearing)
{
    pthread_mutex_unlock(&hearing->lock);
}

dop_transcript *
dop_hearing_transcript(dop_hearing *hearing)
{
    return &hearing->out;
}

bool
dop_hearing_is_over(const dop_hearing *hearing)
{
    const dop_hearing *h = hearing;
    return h->told == h->n && (h->how.together > 1 || h->next_frame >= h->heard);
}

uint32_t
dop_hearing_most_lanes(const dop_hearing *hearing)
{
    const dop_hearing *h = hearing;
    return h->how.together <= 1 ? 1 : h->n < h->how.together ? h->n : h->how.together;
}

bool
dop_hearing_continues(const dop_hearing *hearing)
{
    const dop_hearing *h = hearing;
    const size_t done = h->how.together > 1 ? (h->begun ? h->windows[h->begun - 1].frame : 0) : h->next_frame;
    return !h->how.continues || h->how.continues(h->how.user, h->heard ? (double)done / (double)h->heard : 1);
}

const dop_speech *
dop_hearing_speech(const dop_hearing *hearing)
{
    return hearing->s;
}

const dop_speech_how *
dop_hearing_how(const dop_hearing *hearing)
{
    return &hearing->how;
}

size_t
dop_hearing_frame(const dop_hearing *hearing, uint32_t window)
{
    return hearing->windows[window].frame;
}

uint32_t *
dop_hearing_language(dop_hearing *hearing)
{
    return &hearing->language;
}

const uint32_t *
dop_hearing_before(const dop_hearing *hearing, size_t *out_n)
{
    *out_n = hearing->n_before;
    return hearing->before;
}

void
dop_hearing_count(dop_hearing *hearing, uint32_t tokens, double encoder_s, double decoder_s)
{
    dop_hearing *h = hearing;
    dop_hearing_lock(h);
    h->out.n_tokens += tokens;
    h->out.n_chunks += encoder_s > 0;
    h->out.encoder_s += encoder_s;
    h->out.decoder_s += decoder_s;
    h->out.language = h->language == UINT32_MAX ? "" : dop_language_at(h->language)->code;
    dop_hearing_unlock(h);
}

/* --- windows ------------------------------------------------------------------------------------------------------------- */

bool
dop_hearing_next(dop_hearing *hearing, uint32_t *out_window)
{
    dop_hearing *h = hearing;
    const size_t left = h->heard - h->next_frame, most = h->s->facts.frames;
    if (h->how.together <= 1) { /* the next window begins where the last one ended */
        if (h->told < h->n || h->next_frame >= h->heard ||
            add_window(h, h->next_frame, left < most ? left : most, NULL) != DOP_OK)
            return false;
        /* the first window detects the language */
    } else if (h->begun == h->n || (h->begun > 0 && h->language == UINT32_MAX)) {
        return false;
    }
    *out_window = h->begun++;
    return true;
}

void
dop_hearing_cut(const dop_hearing *hearing, uint32_t window, float *out_chunk)
{
    const dop_hearing *h = hearing;
    const stretch *w = &h->windows[window];
    const size_t frames = h->s->facts.frames, next = w->frame + w->size;
    dop_frames_cut(h->mel, h->frames, &h->s->facts, w->frame, out_chunk);
    for (uint32_t b = 0; b < h->s->facts.bins && h->how.together > 1 && next < h->heard; b++)
        for (size_t i = w->size; i < frames; i++) /* the frames after it belong to the next window */
            out_chunk[b * frames + i] = h->silence;
}

/* --- segments ------------------------------------------------------------------------------------------------------------ */

/* Decodes the ids without special tokens. */
static dop_status
decode_speech_text(const dop_hearing *h, const uint32_t *ids, size_t n, dop_diag *diag, char **out)
{
    uint32_t *own = malloc((n + 1) * sizeof *own);
    size_t kept = 0, size;
    *out = NULL;
    if (!own)
        return fail_hearing_memory(diag);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < h->s->tokens.eot)
            own[kept++] = ids[i];
    dop_status st = dop_text_decode(h->s->text, own, kept, diag, out, &size);
    free(own);
    return st;
}

/* Computes the zlib compression ratio of the text; repetitive text has a high ratio. */
static dop_status
ratio_of(const char *text, dop_diag *diag, double *out)
{
    const size_t n = strlen(text);
    uLongf size = compressBound((uLong)n);
    Bytef *packed = malloc(size + 1);
    if (!packed)
        return fail_hearing_memory(diag);
    const int done = compress(packed, &size, (const Bytef *)text, (uLong)n);
    free(packed);
    *out = done == Z_OK && size > 0 ? (double)n / (double)size : 0;
    return DOP_OK;
}

dop_status
dop_hearing_judge(dop_hearing *hearing, dop_attempt *attempt, dop_diag *diag, bool *out_failed)
{
    const dop_speech_how *how = &hearing->how;
    dop_attempt *a = attempt;
    *out_failed = false;
    dop_free(a->text);
    DOP_RETURN_IF_ERROR(decode_speech_text(hearing, a->ids, a->n, diag, &a->text));
    DOP_RETURN_IF_ERROR(ratio_of(a->text, diag, &a->ratio));
    const bool unlikely = a->avg_logprob < how->worst_logprob;
    if (!(unlikely && a->no_speech > how->silence))
        /* otherwise it is silence */
        *out_failed = unlikely || a->ratio > how->worst_ratio;
    return DOP_OK;
}

static dop_status
add_segment(dop_hearing *h, stretch *w, const dop_attempt *a, double start, double end, const uint32_t *ids, size_t n,
            dop_diag *diag)
{
    const double offset = (double)w->frame / FRAMES_OF_SECOND;
    char *text = NULL;
    uint32_t *own = malloc((n + 1) * sizeof *own);
    dop_status st = own ? decode_speech_text(h, ids, n, diag, &text) : fail_hearing_memory(diag);
    const char *c = text ? text : "";
    c += strspn(c, " \n\t\r");
    if (st == DOP_OK && *c && end > start && w->n == w->cap) {
        const size_t cap = w->cap ? 2 * w->cap : 8;
        dop_speech_segment *p = realloc(w->segments, cap * sizeof *p);
        if (p) {
            w->segments = p;
            w->cap = cap;
        } else {
            st = fail_hearing_memory(diag);
        }
    }
    if (st != DOP_OK || !*c || end <= start) { /* empty segment */
        free(own);
        dop_free(text);
        return st;
    }
    memcpy(own, ids, n * sizeof *ids);
    w->segments[w->n++] = (dop_speech_segment){.start = offset + start,
                                               .end = offset + end,
                                               .text = text,
                                               .tokens = own,
                                               .n_tokens = n,
                                               .seek = (uint32_t)w->frame,
                                               .temperature = a->temperature,
                                               .avg_logprob = a->avg_logprob,
                                               .compression_ratio = a->ratio,
                                               .no_speech_prob = a->no_speech};
    return DOP_OK;
}

/* Splits a window's tokens into segments at pairs of timestamps. *out_frames: offset of the next window, if windows
 * follow each other. *out_used: number of tokens in segments. */
static dop_status
cut_segments(dop_hearing *h, stretch *w, const dop_attempt *a, dop_diag *diag, size_t *out_frames, size_t *out_used)
{
    const uint32_t first = h->s->tokens.first_time, *ids = a->ids;
    const double all = (double)w->size / FRAMES_OF_SECOND;
    const bool single = a->n > 0 && ids[a->n - 1] >= first && (a->n < 2 || ids[a->n - 2] < first);
    dop_status st = DOP_OK;
    size_t from = 0;
    for (size_t i = 1; i <= a->n && st == DOP_OK; i++) {
        const bool pair = i < a->n && ids[i] >= first && ids[i - 1] >= first;
        if (!pair && !(i == a->n && single && from > 0))
            continue;
        st = add_segment(h, w, a, (ids[from] - first) * 0.02, (ids[i - 1] - first) * 0.02, ids + from, i - from, diag);
        from = i;
    }
    *out_used = from;
    if (st == DOP_OK && from > 0 && from < a->n && h->how.together > 1) { /* no later window covers the rest */
        *out_used = a->n;
        return add_segment(h, w, a, (ids[from] - first) * 0.02, all, ids + from, a->n - from, diag);
    }
    if (st != DOP_OK)
        return st;
    if (from > 0) {
        /* The tokens after the last pair are transcribed again, unless the window ends with a timestamp. */
        const size_t heard = (size_t)(ids[from - 1] - first) * FRAMES_OF_TIME;
        *out_frames = single || heard == 0 ? w->size : heard;
        return DOP_OK;
    }
    double end = all;
    for (size_t i = a->n; i-- > 0;)
        if (ids[i] >= first) {
            end = ids[i] > first ? (ids[i] - first) * 0.02 : end;
            break;
        }
    *out_used = a->n;
    return add_segment(h, w, a, 0, end, ids, a->n, diag);
}

/* Appends the segments of finished windows to the transcript, in order. */
static dop_status
append_done_segments(dop_hearing *h, dop_diag *diag)
{
    dop_transcript *t = &h->out;
    dop_status st = DOP_OK;
    for (; h->told < h->n && h->windows[h->told].done && st == DOP_OK; h->told++) {
        stretch *w = &h->windows[h->told];
        if (t->n_segments + w->n > h->cap_segments) {
            const size_t cap = 2 * (t->n_segments + w->n);
            dop_speech_segment *p = realloc(t->segments, cap * sizeof *p);
            if (!p)
                return fail_hearing_memory(diag);
            t->segments = p;
            h->cap_segments = cap;
        }
        for (size_t i = 0; i < w->n; i++) {
            dop_buf_puts(&h->text, w->segments[i].text);
            t->segments[t->n_segments++] = w->segments[i];
        }
        const size_t first = t->n_segments - w->n, n = w->n;
        w->n = 0; /* the transcript owns the segments now */
        free(w->segments);
        w->segments = NULL;
        for (size_t i = 0; i < n && st == DOP_OK && h->how.segment; i++)
            st = h->how.segment(h->how.user, &t->segments[first + i], diag);
    }
    const char *all = h->text.data ? h->text.data : "";
    char *text = h->text.failed ? NULL : strdup(all + strspn(all, " "));
    if (!text)
        return st == DOP_OK ? fail_hearing_memory(diag) : st;
    free(t->text);
    t->text = text;
    return st;
}

dop_status
dop_hearing_take(dop_hearing *hearing, uint32_t window, const dop_attempt *attempt, dop_diag *diag)
{
    dop_hearing *h = hearing;
    stretch *w = &h->windows[window];
    const dop_attempt *a = attempt;
    const bool together = h->how.together > 1;
    size_t frames = w->size, used = 0;
    dop_status st = DOP_OK;
    if (!(a->no_speech > h->how.silence && a->avg_logprob < h->how.worst_logprob)) {
        st = cut_segments(h, w, a, diag, &frames, &used);
        if (!together && (h->how.forget || a->temperature > 0.5)) /* random samples are not used as context */
            h->n_before = 0;
        else if (st == DOP_OK && !together)
            st = keep_before(h, a->ids, used, diag);
    }
    w->done = true;
    h->next_frame = w->frame + frames;
    dop_hearing_lock(h);
    if (st == DOP_OK)
        st = append_done_segments(h, diag);
    dop_hearing_unlock(h);
    return st;
}
