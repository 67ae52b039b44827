/* Transcribing: chunk after chunk, in attempts of rising temperature, to segments with times.  Reference: openai/whisper, transcribe.py
 * and decoding.py. */
#include "runtime/library/speech.h"
#include "runtime/media/audio.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

enum { FRAMES_OF_TIME = 2, FRAMES_OF_SECOND = DOP_AUDIO_RATE / DOP_AUDIO_HOP }; /* a token of time is 0.02 s */

/* What was written about a chunk. */
typedef struct attempt {
    uint32_t *ids; /* [cap] without the token that ends the text; owned */
    size_t n, cap;
    char *text; /* of the ids that are text; owned */
    double temperature, avg_logprob, ratio, no_speech;
} attempt;

typedef struct work {
    const dop_speech *s;
    dop_sequence *sequence;
    const dop_speech_how *how;
    dop_diag *diag;
    dop_transcript *out;
    float *mel, *chunk;   /* all frames, and those of a chunk */
    size_t frames, heard; /* of mel; of them those of the audio itself */
    uint32_t language;    /* number in dop_languages; UINT32_MAX: not known yet */
    uint32_t *before;     /* tokens of earlier chunks and of the prompt; owned */
    size_t n_before, cap_before;
    float *scores; /* [vocab] */
    size_t cap_segments;
    dop_buf text;
} work;

void
dop_speech_how_init(dop_speech_how *how)
{
    *how = (dop_speech_how){.worst_logprob = -1, .worst_ratio = 2.4, .silence = 0.6};
}

static dop_status
no_memory(work *w)
{
    return DOP_FAIL(w->diag, DOP_E_NOMEM, "out of memory");
}

static bool
continues(const work *w, size_t frame)
{
    return !w->how->continues || w->how->continues(w->how->user, w->heard ? (double)frame / (double)w->heard : 1);
}

/* --- prompts ------------------------------------------------------------------------------------------------------------ */

static dop_status
keep_before(work *w, const uint32_t *ids, size_t n)
{
    if (w->n_before + n > w->cap_before) {
        const size_t cap = 2 * (w->n_before + n);
        uint32_t *p = realloc(w->before, cap * sizeof *p);
        if (!p)
            return no_memory(w);
        w->before = p;
        w->cap_before = cap;
    }
    if (n > 0)
        memcpy(w->before + w->n_before, ids, n * sizeof *ids);
    w->n_before += n;
    return DOP_OK;
}

/* The likeliest language of the chunk that the sequence hears. */
static dop_status
find_language(work *w)
{
    const dop_speech *s = w->s;
    dop_speech_picker p = {.speech = s, .how = w->how, .begin = 2, .n_forced = 1, .any_language = true};
    uint32_t id = UINT32_MAX;
    dop_status st = dop_sequence_feed(w->sequence, &s->tokens.sot, 1, w->diag);
    dop_sequence_set_sampler(w->sequence, dop_speech_pick, &p);
    if (st == DOP_OK)
        st = dop_sequence_next(w->sequence, w->diag, &id);
    dop_sequence_set_sampler(w->sequence, NULL, NULL);
    for (uint32_t i = 0; i < dop_n_languages && st == DOP_OK; i++)
        if (s->language_ids[i] == id)
            w->language = i;
    return st;
}

/* Feeds what stands before a chunk's text, and says which tokens follow that. */
static dop_status
feed_prompt(work *w, dop_speech_picker *p)
{
    const dop_speech_tokens *t = &w->s->tokens;
    const size_t most = w->s->ctx / 2 > 1 ? w->s->ctx / 2 - 1 : 0, n = w->n_before < most ? w->n_before : most;
    dop_status st = dop_sequence_rewind(w->sequence, 0, w->diag);
    if (st == DOP_OK && n > 0 && t->prev != UINT32_MAX) {
        st = dop_sequence_feed(w->sequence, &t->prev, 1, w->diag);
        if (st == DOP_OK)
            st = dop_sequence_feed(w->sequence, w->before + w->n_before - n, n, w->diag);
    }
    if (st == DOP_OK)
        st = dop_sequence_feed(w->sequence, &t->sot, 1, w->diag);
    if (t->languages) {
        p->forced[p->n_forced++] = w->s->language_ids[w->language];
        p->forced[p->n_forced++] = w->how->translate ? t->translate : t->transcribe;
    }
    if (w->how->no_timestamps)
        p->forced[p->n_forced++] = t->no_timestamps;
    (void)dop_sequence_tokens(w->sequence, &p->begin);
    p->begin += p->n_forced;
    return st;
}

/* --- attempts ----------------------------------------------------------------------------------------------------------- */

/* How many times shorter zlib makes the text: repetitions make it large. */
static dop_status
ratio_of(work *w, const char *text, double *out)
{
    const size_t n = strlen(text);
    uLongf size = compressBound(n);
    Bytef *packed = malloc(size + 1);
    if (!packed)
        return no_memory(w);
    const int done = compress(packed, &size, (const Bytef *)text, n);
    free(packed);
    *out = done == Z_OK && size > 0 ? (double)n / (double)size : 0;
    return DOP_OK;
}

/* The text of those of the ids that are no special tokens. */
static dop_status
text_of(work *w, const uint32_t *ids, size_t n, char **out)
{
    uint32_t *own = malloc((n + 1) * sizeof *own);
    size_t kept = 0, size;
    *out = NULL;
    if (!own)
        return no_memory(w);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < w->s->tokens.eot)
            own[kept++] = ids[i];
    dop_status st = dop_text_decode(w->s->text, own, kept, w->diag, out, &size);
    free(own);
    return st;
}

static dop_status
write_attempt(work *w, size_t frame, double temperature, attempt *a)
{
    dop_speech_picker p = {
        .speech = w->s, .how = w->how, .temperature = temperature, .random = w->how->seed + frame, .scores = w->scores};
    a->n = 0;
    a->temperature = temperature;
    dop_free(a->text);
    a->text = NULL;
    dop_status st = feed_prompt(w, &p);
    dop_sequence_set_sampler(w->sequence, dop_speech_pick, &p);
    const size_t room = w->s->ctx > p.begin ? w->s->ctx - p.begin : 0,
                 most = room < w->s->ctx / 2 ? room : w->s->ctx / 2;
    uint32_t id = 0;
    for (uint32_t i = 0; i < p.n_forced && st == DOP_OK; i++)
        st = dop_sequence_next(w->sequence, w->diag, &id);
    while (st == DOP_OK && a->n < most && a->n < a->cap) {
        if (!continues(w, frame))
            st = DOP_FAIL(w->diag, DOP_E_CANCELLED, "cancelled");
        if (st == DOP_OK)
            st = dop_sequence_next(w->sequence, w->diag, &id);
        w->out->n_tokens++;
        if (st != DOP_OK || id == w->s->tokens.eot)
            break;
        a->ids[a->n++] = id;
    }
    dop_sequence_set_sampler(w->sequence, NULL, NULL);
    a->no_speech = p.no_speech;
    a->avg_logprob = p.sum_logprobs / (double)(a->n + 1);
    if (st == DOP_OK)
        st = text_of(w, a->ids, a->n, &a->text);
    return st == DOP_OK ? ratio_of(w, a->text, &a->ratio) : st;
}

static bool
failed(const work *w, const attempt *a)
{
    const bool unlikely = a->avg_logprob < w->how->worst_logprob;
    if (unlikely && a->no_speech > w->how->silence)
        return false; /* it is silence */
    return unlikely || a->ratio > w->how->worst_ratio;
}

static dop_status
write_chunk(work *w, size_t frame, attempt *a)
{
    double temperature = w->how->temperature;
    dop_status st = write_attempt(w, frame, temperature, a);
    while (st == DOP_OK && !w->how->one_attempt && failed(w, a) && temperature + 0.2 < 1.01) {
        temperature += 0.2;
        st = write_attempt(w, frame, temperature, a);
    }
    return st;
}

/* --- segments ----------------------------------------------------------------------------------------------------------- */

static dop_status
add_segment(work *w, const attempt *a, size_t frame, double start, double end, const uint32_t *ids, size_t n)
{
    dop_transcript *t = w->out;
    char *text = NULL;
    uint32_t *own = malloc((n + 1) * sizeof *own);
    dop_status st = own ? text_of(w, ids, n, &text) : no_memory(w);
    const char *c = text ? text : "";
    while (*c == ' ' || *c == '\n' || *c == '\t' || *c == '\r')
        c++;
    if (st != DOP_OK || !*c || end <= start) { /* nothing was said */
        free(own);
        dop_free(text);
        return st;
    }
    if (t->n_segments == w->cap_segments) {
        const size_t cap = w->cap_segments ? 2 * w->cap_segments : 16;
        dop_speech_segment *p = realloc(t->segments, cap * sizeof *p);
        if (!p) {
            free(own);
            dop_free(text);
            return no_memory(w);
        }
        t->segments = p;
        w->cap_segments = cap;
    }
    memcpy(own, ids, n * sizeof *ids);
    t->segments[t->n_segments] = (dop_speech_segment){.start = start,
                                                      .end = end,
                                                      .text = text,
                                                      .tokens = own,
                                                      .n_tokens = n,
                                                      .seek = (uint32_t)frame,
                                                      .temperature = a->temperature,
                                                      .avg_logprob = a->avg_logprob,
                                                      .compression_ratio = a->ratio,
                                                      .no_speech_prob = a->no_speech};
    dop_buf_puts(&w->text, text);
    const dop_speech_segment *last = &t->segments[t->n_segments++];
    return w->how->segment ? w->how->segment(w->how->user, last, w->diag) : DOP_OK;
}

/* Cuts a chunk's tokens at its pairs of times.  *io_frame: where the next chunk begins.  *out_used: the tokens of segments. */
static dop_status
cut_chunk(work *w, const attempt *a, size_t *io_frame, size_t *out_used)
{
    const uint32_t first = w->s->tokens.first_time, *ids = a->ids;
    const size_t frame = *io_frame, left = w->heard - frame,
                 size = left < w->s->facts.frames ? left : w->s->facts.frames;
    const double offset = (double)frame / FRAMES_OF_SECOND;
    const bool single = a->n > 0 && ids[a->n - 1] >= first && (a->n < 2 || ids[a->n - 2] < first);
    dop_status st = DOP_OK;
    size_t from = 0, last = 0;
    for (size_t i = 1; i <= a->n && st == DOP_OK; i++) {
        const bool pair = i < a->n && ids[i] >= first && ids[i - 1] >= first;
        if (!pair && !(i == a->n && single && from > 0))
            continue;
        const double start = (ids[from] - first) * 0.02, end = (ids[i - 1] - first) * 0.02;
        st = add_segment(w, a, frame, offset + start, offset + end, ids + from, i - from);
        from = last = i;
    }
    if (st != DOP_OK)
        return st;
    if (from > 0) {
        /* What follows the last pair of times is heard again, unless the chunk ends with a time. */
        const size_t heard = (size_t)(ids[last - 1] - first) * FRAMES_OF_TIME;
        *io_frame = frame + (single || heard == 0 ? size : heard);
        *out_used = last;
        return DOP_OK;
    }
    double end = (double)size / FRAMES_OF_SECOND;
    for (size_t i = a->n; i-- > 0;)
        if (ids[i] >= first) {
            end = ids[i] > first ? (ids[i] - first) * 0.02 : end;
            break;
        }
    *io_frame = frame + size;
    *out_used = a->n;
    return add_segment(w, a, frame, offset, offset + end, ids, a->n);
}

static dop_status
hear_chunk(work *w, size_t *io_frame, attempt *a)
{
    const size_t values = (size_t)w->s->facts.bins * w->s->facts.frames, left = w->heard - *io_frame;
    dop_frames_cut(w->mel, w->frames, &w->s->facts, *io_frame, w->chunk);
    dop_status st = dop_sequence_hear(w->sequence, w->chunk, values, w->diag, NULL);
    if (st == DOP_OK && w->language == UINT32_MAX && w->s->tokens.languages)
        st = find_language(w);
    if (st == DOP_OK)
        st = write_chunk(w, *io_frame, a);
    if (st != DOP_OK)
        return st;
    if (a->no_speech > w->how->silence && a->avg_logprob < w->how->worst_logprob) {
        *io_frame += left < w->s->facts.frames ? left : w->s->facts.frames;
        return DOP_OK;
    }
    size_t used = 0;
    st = cut_chunk(w, a, io_frame, &used);
    if (w->how->forget || a->temperature > 0.5) /* what was written at random does not lead the next chunk */
        w->n_before = 0;
    if (st == DOP_OK && !w->how->forget && a->temperature <= 0.5)
        st = keep_before(w, a->ids, used);
    return st;
}

static dop_status
choose_language(work *w)
{
    const char *name = w->how->language;
    const bool many = w->s->tokens.languages;
    w->language = many ? UINT32_MAX : 0;
    if (!many && w->how->translate)
        return DOP_FAIL(w->diag, DOP_E_INPUT, "the model writes English only, and does not translate");
    for (uint32_t i = 0; name && i < dop_n_languages; i++)
        if (strcasecmp(name, dop_languages[i].code) == 0 || strcasecmp(name, dop_languages[i].name) == 0) {
            if (many ? w->s->language_ids[i] == UINT32_MAX : i > 0)
                return DOP_FAIL(w->diag, DOP_E_INPUT, "the model does not know the language \"%.40s\"", name);
            w->language = i;
            return DOP_OK;
        }
    return name ? DOP_FAIL(w->diag, DOP_E_INPUT, "the language \"%.40s\" is not known", name) : DOP_OK;
}

static dop_status
begin(work *w, const dop_audio *audio, attempt *a)
{
    const dop_audio_facts *f = &w->s->facts;
    dop_status st = choose_language(w);
    if (st == DOP_OK)
        st = dop_audio_frames(audio, f, w->diag, &w->mel, &w->frames);
    w->heard = (audio->n + DOP_AUDIO_HOP - 1) / DOP_AUDIO_HOP;
    a->cap = w->s->ctx;
    w->chunk = malloc((size_t)f->bins * f->frames * sizeof *w->chunk);
    w->scores = malloc(w->s->vocab * sizeof *w->scores);
    a->ids = malloc(a->cap * sizeof *a->ids);
    if (st == DOP_OK && (!w->chunk || !w->scores || !a->ids))
        st = no_memory(w);
    if (st != DOP_OK || !w->how->prompt)
        return st;
    uint32_t *ids = NULL;
    size_t n = 0;
    char *text = malloc(strlen(w->how->prompt) + 2);
    if (!text)
        return no_memory(w);
    sprintf(text, " %s", w->how->prompt + strspn(w->how->prompt, " \n\t"));
    st = dop_text_encode(w->s->text, text, strlen(text), 0, w->diag, &ids, &n);
    free(text);
    if (st == DOP_OK)
        st = keep_before(w, ids, n);
    dop_free(ids);
    return st;
}

dop_status
dop_speech_transcribe(const dop_speech *speech, dop_sequence *sequence, const dop_audio *audio,
                      const dop_speech_how *how, dop_diag *diag, dop_transcript *out_transcript)
{
    work w = {.s = speech, .sequence = sequence, .how = how, .diag = diag, .out = out_transcript};
    attempt a = {0};
    size_t frame = 0;
    dop_diag_clear(diag);
    *out_transcript =
        (dop_transcript){.task = how->translate ? "translate" : "transcribe", .duration = dop_audio_seconds(audio)};
    dop_status st = begin(&w, audio, &a);
    while (st == DOP_OK && frame < w.heard)
        st = hear_chunk(&w, &frame, &a);
    out_transcript->language = w.language == UINT32_MAX ? "" : dop_languages[w.language].code;
    if (w.text.failed && st == DOP_OK)
        st = no_memory(&w);
    const char *all = w.text.data ? w.text.data : "";
    if (!(out_transcript->text = strdup(all + strspn(all, " "))) && st == DOP_OK)
        st = no_memory(&w);
    free(w.mel);
    free(w.chunk);
    free(w.scores);
    free(w.before);
    free(a.ids);
    dop_free(a.text);
    dop_buf_finish(&w.text);
    return st;
}

void
dop_transcript_finish(dop_transcript *transcript)
{
    for (size_t i = 0; i < transcript->n_segments; i++) {
        dop_free((void *)(uintptr_t)transcript->segments[i].text);
        free((void *)(uintptr_t)transcript->segments[i].tokens);
    }
    free(transcript->segments);
    free(transcript->text);
    *transcript = (dop_transcript){0};
}
