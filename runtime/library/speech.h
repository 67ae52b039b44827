/* The parts of doppler/speech.h: samples, frames, the tokens of a model of speech, and how they are picked. */
#ifndef DOPPLER_RUNTIME_LIBRARY_SPEECH_H
#define DOPPLER_RUNTIME_LIBRARY_SPEECH_H

#include "base/budget.h"
#include "base/encoding/languages.h"
#include "runtime/model/model.h"

#include <doppler/speech.h>

struct dop_audio {
    float *samples; /* [n] of one channel at 16 kHz; owned */
    size_t n;
};

/* Log-mel values of all of the audio, f32 [bins, *out_frames], at least those of a chunk; the caller's (free). */
dop_status dop_audio_frames(const dop_audio *audio, const dop_audio_facts *facts, dop_diag *diag, float **out_mel,
                            size_t *out_frames);
/* The chunk of frames [bins, facts->frames] that begins at frame `from`; zeros behind the last frame. */
void dop_frames_cut(const float *mel, size_t frames, const dop_audio_facts *facts, size_t from, float *out_chunk);

/* Ids of a vocabulary's special tokens; UINT32_MAX: it has none. */
typedef struct dop_speech_tokens {
    uint32_t sot, translate, transcribe, no_speech, no_timestamps, prev, lm, eot;
    uint32_t first_time; /* the token of time 0; each of those after it is 0.02 s later */
    bool languages;      /* the model knows several languages, and tasks */
} dop_speech_tokens;

struct dop_speech {
    dop_model *model;
    const dop_text *text;
    dop_audio_facts facts;
    dop_speech_tokens tokens;
    uint32_t vocab, ctx;
    uint32_t
        *language_ids;    /* [dop_n_languages] ids of the tokens of languages, UINT32_MAX where there is none; owned */
    uint32_t *suppressed; /* [n_suppressed] tokens that no transcription has; owned */
    size_t n_suppressed;
    uint32_t *at_first; /* [n_at_first] tokens that none begins with; owned */
    size_t n_at_first;
};

/* The state of picking the tokens of a chunk. */
typedef struct dop_speech_picker {
    const dop_speech *speech;
    const dop_speech_how *how;
    double temperature;
    uint64_t random; /* state of the random numbers */
    size_t begin;    /* tokens of the sequence before the first one that is picked, forced ones included */
    uint32_t
        forced[3]; /* the first picks, which follow the token that begins a transcription: language, task, no times */
    uint32_t n_forced;
    bool any_language;   /* the first pick is the likeliest language */
    double no_speech;    /* after the first pick: the probability that nobody speaks */
    float *scores;       /* [vocab] scratch */
    double sum_logprobs; /* of the tokens picked so far */
    uint32_t n;          /* number of them */
} dop_speech_picker;
/* A dop_sampler_fn: the rules of timestamps and suppressed tokens, then the likeliest token or a random one. */
dop_status dop_speech_pick(void *picker, const float *logits, uint32_t vocab, const uint32_t *tokens, size_t n_tokens,
                           dop_diag *diag, uint32_t *out_id);

#endif
