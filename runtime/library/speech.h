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
    uint32_t end_time; /* behind the last of them: tokens from here on were added to the model, and are never written */
    bool languages;    /* the model knows several languages, and tasks */
} dop_speech_tokens;

struct dop_speech {
    dop_model *model;
    const dop_text *text;
    dop_audio_facts facts;
    dop_speech_tokens tokens;
    uint32_t vocab, ctx;
    uint32_t
        *language_ids;    /* [DOP_N_LANGUAGES] ids of the tokens of languages, UINT32_MAX where there is none; owned */
    uint32_t *suppressed; /* [n_suppressed] tokens that no transcription has; owned */
    size_t n_suppressed;
    uint32_t *at_first; /* [n_at_first] tokens that none begins with; owned */
    size_t n_at_first;
};

/* The state of picking the tokens of a window. */
typedef struct dop_speech_picker {
    const dop_speech *speech;
    bool no_timestamps;
    double temperature;
    uint64_t random;     /* state of the random numbers */
    float *scores;       /* [vocab] scratch */
    double sum_logprobs; /* of the tokens picked so far */
} dop_speech_picker;
/* The rules of timestamps and suppressed tokens, then the likeliest token or a random one.  tokens [n_tokens]: those that were picked. */
dop_status dop_speech_pick(dop_speech_picker *picker, const float *logits, const uint32_t *tokens, size_t n_tokens,
                           dop_diag *diag, uint32_t *out_id);
/* The probability of a token, 0 where the vocabulary has none; the id of the likeliest language. */
double dop_speech_probability(const dop_speech *speech, const float *logits, uint32_t id);
uint32_t dop_speech_likeliest_language(const dop_speech *speech, const float *logits);

/* --- a transcription under way: speech_hearing.c ---------------------------------------------------------------------------- */

/* Audio that is being written down, window by window, by lanes that one thread drives.  Its transcript may be read by other
 * threads under its lock. */
typedef struct dop_hearing dop_hearing;

/* What was written about a window. */
typedef struct dop_attempt {
    uint32_t *ids; /* owned, [cap]: without the token that ends the text */
    size_t n, cap;
    char *text; /* owned: of the ids that are text */
    double temperature, avg_logprob, ratio, no_speech;
} dop_attempt;

/* how: copied.  Its functions are called by the thread that drives lanes; `segment` under the lock. */
dop_status dop_hearing_create(const dop_speech *speech, const dop_audio *audio, const dop_speech_how *how,
                              dop_diag *diag, dop_hearing **out_hearing);
dop_hearing *dop_hearing_share(dop_hearing *hearing);
void dop_hearing_release(dop_hearing *hearing); /* the last owner's call destroys it; accepts NULL */
void dop_hearing_lock(dop_hearing *hearing);
void dop_hearing_unlock(dop_hearing *hearing);
/* The transcript so far; under the lock. */
dop_transcript *dop_hearing_transcript(dop_hearing *hearing);
/* Whether everything is written. */
bool dop_hearing_is_over(const dop_hearing *hearing);
/* How many lanes find something to do at once. */
uint32_t dop_hearing_most_lanes(const dop_hearing *hearing);

/* A sequence that writes down one window after the other. */
typedef struct dop_lane {
    dop_hearing *hearing; /* shared */
    dop_sequence *sequence;
    uint32_t window; /* its number; UINT32_MAX: none */
    dop_speech_picker picker;
    dop_attempt attempt;
    uint32_t token;                       /* of the next row */
    uint32_t forced[4], n_forced, behind; /* tokens that follow it, of which `behind` have been rows */
    bool finds_language;                  /* the next row is to tell the language */
    uint32_t pick;                        /* of the last step; UINT32_MAX: none was wanted */
    size_t most;                          /* tokens of the window's text */
    float *chunk, *scores;                /* owned */
} dop_lane;

dop_status dop_lane_init(dop_lane *lane, dop_hearing *hearing, dop_sequence *sequence, dop_diag *diag);
void dop_lane_finish(dop_lane *lane); /* accepts a zeroed one */
/* Takes a window where the lane has none and there is one, hears it, and feeds what stands before its text. */
dop_status dop_lane_begin(dop_lane *lane, dop_diag *diag);
static inline bool
dop_lane_writes(const dop_lane *lane)
{
    return lane->window != UINT32_MAX;
}
/* The row that a lane that writes has in the next step; what it picks from that row's logits, by any thread; and, once the step is committed, what
 * follows from it. */
dop_step_row dop_lane_row(const dop_lane *lane);
dop_status dop_lane_pick(dop_lane *lane, const float *logits, dop_diag *diag);
dop_status dop_lane_write(dop_lane *lane, dop_diag *diag);
/* A step of those of n lanes that write of one model, whose picks are made by up to n_threads threads (0: one per core). */
dop_status dop_lanes_step(dop_lane *const *lanes, uint32_t n, uint32_t n_threads, dop_diag *diag);

/* The parts of a hearing that lanes use. */
bool dop_hearing_next(dop_hearing *hearing, uint32_t *out_window);
void dop_hearing_cut(const dop_hearing *hearing, uint32_t window, float *out_chunk);
const dop_speech *dop_hearing_speech(const dop_hearing *hearing);
const dop_speech_how *dop_hearing_how(const dop_hearing *hearing);
/* The first frame of a window; the number of the language, UINT32_MAX: not known; tokens before the text. */
size_t dop_hearing_frame(const dop_hearing *hearing, uint32_t window);
uint32_t *dop_hearing_language(dop_hearing *hearing);
const uint32_t *dop_hearing_before(const dop_hearing *hearing, size_t *out_n);
/* Does the user want to go on? */
bool dop_hearing_continues(const dop_hearing *hearing);
/* Counts tokens written, and seconds of encoder and decoder. */
void dop_hearing_count(dop_hearing *hearing, uint32_t tokens, double encoder_s, double decoder_s);
/* Completes an attempt by its text; does it have to be made again? */
dop_status dop_hearing_judge(dop_hearing *hearing, dop_attempt *attempt, dop_diag *diag, bool *out_failed);
/* Takes what was written about a window as its segments. */
dop_status dop_hearing_take(dop_hearing *hearing, uint32_t window, const dop_attempt *attempt, dop_diag *diag);

#endif
