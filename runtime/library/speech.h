/* Internals of doppler/speech.h: samples, mel frames, special tokens of speech models, and the token rules. */
#ifndef DOPPLER_RUNTIME_LIBRARY_SPEECH_H
#define DOPPLER_RUNTIME_LIBRARY_SPEECH_H

#include "base/budget.h"
#include "base/encoding/languages.h"
#include "runtime/model/model.h"

#include <doppler/speech.h>

struct dop_audio {
    float *samples; /* owned, [n]: one channel at 16 kHz */
    size_t n;
};

/* Computes the log-mel values of all the audio, f32 [bins, *out_frames], at least one chunk. The caller frees
 * *out_mel. */
dop_status dop_audio_frames(const dop_audio *audio, const dop_audio_facts *facts, dop_diag *diag, float **out_mel,
                            size_t *out_frames);
/* Copies the chunk of frames [bins, facts->frames] that begins at frame `from`, padded with zeros after the last
 * frame. */
void dop_frames_cut(const float *mel, size_t frames, const dop_audio_facts *facts, size_t from, float *out_chunk);

/* Ids of the special tokens; UINT32_MAX: not in the vocabulary. */
typedef struct dop_speech_tokens {
    uint32_t sot, translate, transcribe, no_speech, no_timestamps, prev, lm, eot;
    uint32_t first_time; /* timestamp token of time 0; each following one is 0.02 s later */
    uint32_t end_time;   /* end of the timestamp tokens; later ids were added to the model and are never written */
    bool languages;      /* the model is multilingual and supports tasks */
} dop_speech_tokens;

struct dop_speech {
    dop_model *model;
    const dop_text *text;
    dop_audio_facts facts;
    dop_speech_tokens tokens;
    uint32_t vocab, ctx;
    uint32_t *language_ids; /* owned, [DOP_N_LANGUAGES]: ids of language tokens; UINT32_MAX: none */
    uint32_t *suppressed;   /* owned, [n_suppressed]: tokens that are never picked */
    size_t n_suppressed;
    uint32_t *at_first; /* owned, [n_at_first]: tokens that are never picked first */
    size_t n_at_first;
};

/* State of picking the tokens of a window. */
typedef struct dop_speech_picker {
    const dop_speech *speech;
    bool no_timestamps;
    double temperature;
    uint64_t random;     /* state of the random generator */
    float *scores;       /* [vocab] scratch */
    double sum_logprobs; /* sum of the log-probabilities of all picks so far */
} dop_speech_picker;
/* Applies the timestamp rules and suppressed tokens, then picks the likeliest token or samples one. tokens [n_tokens]:
 * earlier picks. */
dop_status dop_speech_pick(dop_speech_picker *picker, const float *logits, const uint32_t *tokens, size_t n_tokens,
                           dop_diag *diag, uint32_t *out_id);
/* dop_speech_probability: returns the probability of a token, 0 if the vocabulary lacks it.
 * dop_speech_likeliest_language: returns the id of the likeliest language token. */
double dop_speech_probability(const dop_speech *speech, const float *logits, uint32_t id);
uint32_t dop_speech_likeliest_language(const dop_speech *speech, const float *logits);

/* --- transcription in progress: speech_hearing.c
 * ----------------------------------------------------------------------- */

/* Audio being transcribed window by window, by lanes that one thread drives. Other threads may read its transcript
 * under its lock. */
typedef struct dop_hearing dop_hearing;

/* One attempt to transcribe a window. */
typedef struct dop_attempt {
    uint32_t *ids; /* owned, [cap]: tokens without the end token */
    size_t n, cap;
    char *text; /* owned: text of the ids that are text tokens */
    double temperature, avg_logprob, ratio, no_speech;
} dop_attempt;

/* Creates a transcription of the audio. how: copied. Its callbacks run in the thread that drives the lanes; `segment`
 * runs under the lock. */
dop_status dop_hearing_create(const dop_speech *speech, const dop_audio *audio, const dop_speech_how *how,
                              dop_diag *diag, dop_hearing **out_hearing);
dop_hearing *dop_hearing_share(dop_hearing *hearing);
void dop_hearing_release(dop_hearing *hearing); /* destroys it when the last owner calls; accepts NULL */
void dop_hearing_lock(dop_hearing *hearing);
void dop_hearing_unlock(dop_hearing *hearing);
/* Returns the transcript so far. Call under the lock. */
dop_transcript *dop_hearing_transcript(dop_hearing *hearing);
/* True if everything is transcribed. */
bool dop_hearing_is_over(const dop_hearing *hearing);
/* Returns how many lanes can work at once. */
uint32_t dop_hearing_most_lanes(const dop_hearing *hearing);

/* A sequence that transcribes one window after another. */
typedef struct dop_lane {
    dop_hearing *hearing; /* shared ownership */
    dop_sequence *sequence;
    uint32_t window; /* number of the current window; UINT32_MAX: none */
    dop_speech_picker picker;
    dop_attempt attempt;
    uint32_t token; /* token of the next row */
    /* tokens forced after it, and their number; the first `behind` of them have been fed */
    uint32_t forced[4], n_forced, behind;
    bool finds_language;   /* the next row detects the language */
    uint32_t pick;         /* pick of the last step; UINT32_MAX: none was requested */
    size_t most;           /* maximum number of tokens in the window's text */
    float *chunk, *scores; /* owned: input of the encoder; scratch of the picker */
} dop_lane;

dop_status dop_lane_init(dop_lane *lane, dop_hearing *hearing, dop_sequence *sequence, dop_diag *diag);
void dop_lane_finish(dop_lane *lane); /* accepts a zeroed one */
/* If the lane is idle and a window is left: takes the window, runs the encoder, and feeds the tokens before its
 * text. */
dop_status dop_lane_begin(dop_lane *lane, dop_diag *diag);
static inline bool
dop_lane_writes(const dop_lane *lane)
{
    return lane->window != UINT32_MAX;
}
/* For a lane with a window. row: its row in the next step. pick: picks from that row's logits; callable from any
 * thread. write: advances the lane after the step is committed. */
dop_step_row dop_lane_row(const dop_lane *lane);
dop_status dop_lane_pick(dop_lane *lane, const float *logits, dop_diag *diag);
dop_status dop_lane_write(dop_lane *lane, dop_diag *diag);
/* Runs a step with the rows of all active lanes, which must share a model. Up to n_threads threads make the picks (0:
 * one per core). */
dop_status dop_lanes_step(dop_lane *const *lanes, uint32_t n, uint32_t n_threads, dop_diag *diag);

/* Internal accessors for lanes. */
bool dop_hearing_next(dop_hearing *hearing, uint32_t *out_window);
void dop_hearing_cut(const dop_hearing *hearing, uint32_t window, float *out_chunk);
const dop_speech *dop_hearing_speech(const dop_hearing *hearing);
const dop_speech_how *dop_hearing_how(const dop_hearing *hearing);
/* frame: first frame of a window. language: index of the language, UINT32_MAX if unknown. before: tokens of earlier
 * text that precede a window. */
size_t dop_hearing_frame(const dop_hearing *hearing, uint32_t window);
uint32_t *dop_hearing_language(dop_hearing *hearing);
const uint32_t *dop_hearing_before(const dop_hearing *hearing, size_t *out_n);
/* True if the user has not cancelled. */
bool dop_hearing_continues(const dop_hearing *hearing);
/* Adds to the counts of tokens, and of seconds in encoder and decoder. */
void dop_hearing_count(dop_hearing *hearing, uint32_t tokens, double encoder_s, double decoder_s);
/* Completes an attempt with its text and quality measures. *out_failed: true if it should be repeated. */
dop_status dop_hearing_judge(dop_hearing *hearing, dop_attempt *attempt, dop_diag *diag, bool *out_failed);
/* Turns an attempt into the segments of a window. */
dop_status dop_hearing_take(dop_hearing *hearing, uint32_t window, const dop_attempt *attempt, dop_diag *diag);

#endif
