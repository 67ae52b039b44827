/* Special and suppressed tokens of a speech model's vocabulary. */
#include "runtime/library/speech.h"
#include "media/audio.h"

#include <stdlib.h>
#include <string.h>

dop_status
dop_audio_chunk(const dop_audio *audio, const dop_audio_facts *facts, double from, dop_diag *diag, float *out_mel)
{
    float *mel = NULL;
    size_t frames = 0;
    dop_diag_clear(diag);
    if (!(from >= 0 && from <= dop_audio_seconds(audio)))
        return DOP_FAIL(diag, DOP_E_INPUT, "the audio has no chunk from %g seconds on", from);
    dop_status st = DOP_OK;
    DOP_TRY(dop_audio_frames(audio, facts, diag, &mel, &frames));
    dop_frames_cut(mel, frames, facts, (size_t)(from * DOP_AUDIO_RATE / DOP_AUDIO_HOP), out_mel);
error:
    free(mel);
    return st;
}

enum { TIMES = 1501 /* 0 to 30 s in steps of 0.02 s */ };

/* Finds the id of a special token; UINT32_MAX: not in the vocabulary. */
static dop_status
find_special_id(const dop_text *text, const char *name, dop_diag *diag, uint32_t *out)
{
    uint32_t *ids = NULL;
    size_t n = 0;
    *out = UINT32_MAX;
    dop_status st = DOP_OK;
    DOP_TRY(dop_text_encode(text, name, strlen(name), DOP_TEXT_PARSE_SPECIAL, diag, &ids, &n));
    if (n == 1)
        *out = ids[0];
error:
    dop_free(ids);
    return st;
}

static dop_status
find_tokens(dop_speech *s, dop_diag *diag)
{
    dop_speech_tokens *t = &s->tokens;
    const struct {
        const char *names[2];
        uint32_t *to;
        bool needed;
    } rows[] = {
        {{"<|startoftranscript|>", NULL}, &t->sot, true},
        {{"<|endoftext|>", NULL}, &t->eot, true},
        {{"<|notimestamps|>", NULL}, &t->no_timestamps, true},
        {{"<|translate|>", NULL}, &t->translate, false},
        {{"<|transcribe|>", NULL}, &t->transcribe, false},
        {{"<|nospeech|>", "<|nocaptions|>"}, &t->no_speech, false},
        {{"<|startofprev|>", NULL}, &t->prev, false},
        {{"<|startoflm|>", NULL}, &t->lm, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        DOP_RETURN_IF_ERROR(find_special_id(s->text, rows[i].names[0], diag, rows[i].to));
        if (*rows[i].to == UINT32_MAX && rows[i].names[1])
            DOP_RETURN_IF_ERROR(find_special_id(s->text, rows[i].names[1], diag, rows[i].to));
        if (*rows[i].to == UINT32_MAX && rows[i].needed)
            return DOP_FAIL(diag, DOP_E_INPUT, "the vocabulary has no token %s, as models of speech have",
                            rows[i].names[0]);
    }
    t->first_time = t->no_timestamps + 1;
    if (t->first_time >= s->vocab)
        return DOP_FAIL(diag, DOP_E_INPUT, "the vocabulary has no tokens of times");
    t->end_time = s->vocab - t->first_time > TIMES ? t->first_time + TIMES : s->vocab;
    uint32_t known = 0;
    for (uint32_t i = 0; i < DOP_N_LANGUAGES; i++) {
        char name[16];
        snprintf(name, sizeof name, "<|%s|>", dop_language_at(i)->code);
        DOP_RETURN_IF_ERROR(find_special_id(s->text, name, diag, &s->language_ids[i]));
        known += s->language_ids[i] != UINT32_MAX;
    }
    /* English-only models have these tokens but were not trained on them. They are recognized by their end token,
     * 50256. */
    t->languages = known > 0 && t->transcribe != UINT32_MAX && t->eot != 50256;
    return DOP_OK;
}

static void
add_id(uint32_t *ids, size_t *n, uint32_t id)
{
    if (id != UINT32_MAX)
        ids[(*n)++] = id;
}

/* Suppresses symbols that are not spoken, which models write for sounds and speakers. Used if the model's files list no
 * suppressed tokens. */
static dop_status
add_signs(dop_speech *s, dop_diag *diag)
{
    static const char *const signs[] = {"\"",
                                        "#",
                                        "(",
                                        ")",
                                        "*",
                                        "+",
                                        "/",
                                        ":",
                                        ";",
                                        "<",
                                        "=",
                                        ">",
                                        "@",
                                        "[",
                                        "\\",
                                        "]",
                                        "^",
                                        "_",
                                        "`",
                                        "{",
                                        "|",
                                        "}",
                                        "~",
                                        "\u300c",
                                        "\u300d",
                                        "\u300e",
                                        "\u300f",
                                        "<<",
                                        ">>",
                                        "<<<",
                                        ">>>",
                                        "--",
                                        "---",
                                        "-(",
                                        "-[",
                                        "('",
                                        "(\"",
                                        "((",
                                        "))",
                                        "(((",
                                        ")))",
                                        "[[",
                                        "]]",
                                        "{{",
                                        "}}",
                                        "\u266a\u266a",
                                        "\u266a\u266a\u266a",
                                        "\u2669",
                                        "\u266a",
                                        "\u266b",
                                        "\u266c",
                                        "\u266d",
                                        "\u266e",
                                        "\u266f"};
    dop_status st = DOP_OK;
    for (size_t i = 0; i < 2 * (sizeof signs / sizeof *signs) && st == DOP_OK; i++) {
        char text[24];
        uint32_t *ids = NULL;
        size_t n = 0;
        snprintf(text, sizeof text, "%s%s", i % 2 ? " " : "", signs[i / 2]);
        st = dop_text_encode(s->text, text, strlen(text), 0, diag, &ids, &n);
        if (st == DOP_OK && n == 1 && s->n_suppressed < 256)
            add_id(s->suppressed, &s->n_suppressed, ids[0]);
        dop_free(ids);
    }
    return st;
}

static dop_status
find_suppressed(dop_speech *s, dop_diag *diag)
{
    const uint32_t *of = s->model->plan.speech, words = s->model->plan.n_speech;
    const bool stated = of && words >= 2 && of[0] <= words - 2 && of[1] == words - 2 - of[0];
    const uint32_t n = stated ? of[0] : 0, m = stated ? of[1] : 0;
    const dop_speech_tokens *t = &s->tokens;
    const uint32_t always[] = {t->sot, t->translate, t->transcribe, t->no_speech, t->no_timestamps, t->prev, t->lm};
    s->suppressed = calloc((size_t)n + 256 + 8, sizeof *s->suppressed);
    s->at_first = calloc((size_t)m + 4, sizeof *s->at_first);
    if (!s->suppressed || !s->at_first)
        return DOP_NO_MEMORY(diag);
    dop_status st = n == 0 ? add_signs(s, diag) : DOP_OK;
    for (uint32_t i = 0; i < n; i++)
        if (of[2 + i] < s->vocab)
            s->suppressed[s->n_suppressed++] = of[2 + i];
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        add_id(s->suppressed, &s->n_suppressed, always[i]);
    for (uint32_t i = 0; i < m; i++)
        if (of[2 + n + i] < s->vocab)
            s->at_first[s->n_at_first++] = of[2 + n + i];
    if (m == 0) {
        uint32_t space = UINT32_MAX;
        if (st == DOP_OK)
            st = find_special_id(s->text, " ", diag, &space);
        add_id(s->at_first, &s->n_at_first, space);
        add_id(s->at_first, &s->n_at_first, t->eot);
    }
    return st;
}

dop_status
dop_speech_open(dop_model *model, const dop_text *text, dop_diag *diag, dop_speech **out_speech)
{
    dop_diag_clear(diag);
    *out_speech = NULL;
    dop_speech *s = calloc(1, sizeof *s);
    if (!s || !(s->language_ids = calloc(DOP_N_LANGUAGES, sizeof *s->language_ids))) {
        free(s);
        return DOP_NO_MEMORY(diag);
    }
    s->model = model;
    s->text = text;
    s->vocab = model->plan.model->vocab;
    s->ctx = model->plan.model->ctx;
    dop_status st = dop_model_audio(model, &s->facts)
                        ? DOP_OK
                        : DOP_FAIL_IN(diag, DOP_E_INPUT, model->plan.path,
                                      "the plan hears nothing: it is not of a model of speech");
    if (st == DOP_OK && !text)
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, model->plan.path, "the plan has no tokenizer, and writes no text");
    if (st == DOP_OK)
        st = find_tokens(s, diag);
    if (st == DOP_OK)
        st = find_suppressed(s, diag);
    if (st != DOP_OK) {
        dop_speech_close(s);
        return st;
    }
    *out_speech = s;
    return DOP_OK;
}

void
dop_speech_close(dop_speech *speech)
{
    if (!speech)
        return;
    free(speech->language_ids);
    free(speech->suppressed);
    free(speech->at_first);
    free(speech);
}

bool
dop_speech_languages(const dop_speech *speech)
{
    return speech->tokens.languages;
}
