/* Speech to text: transcribes an audio file to text segments with times, with a plan that has the program "audio" (Whisper).
 *
 *     dop_audio_read         decodes a file, on any thread
 *     dop_speech_open        finds the special tokens of a speech model
 *     dop_speech_transcribe  transcribes, on the model's thread
 *     dop_transcript_write   formats a transcript as JSON, text, SRT or WebVTT
 *
 * Audio decoding is in a module that is loaded on demand (package doppler-audio). */
#ifndef DOPPLER_INCLUDE_DOPPLER_SPEECH_H
#define DOPPLER_INCLUDE_DOPPLER_SPEECH_H

#include <doppler/doppler.h>
#include <doppler/text.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dop_audio dop_audio;   /* mono samples at 16 kHz */
typedef struct dop_speech dop_speech; /* an open speech model */

struct dop_budget;
/* Options of dop_audio_read.  Zeros are the defaults. */
typedef struct dop_audio_options {
    double max_seconds;        /* maximum duration in seconds; 0: four hours */
    struct dop_budget *budget; /* internal budget of the programs; NULL: none */
} dop_audio_options;

/* Decodes WAV, FLAC, OGG and MP3, mixes to mono and resamples to 16 kHz.  The caller closes *out_audio.  DOP_E_INPUT: damaged, empty,
 * or another file type; DOP_E_LIMIT: too long; DOP_E_USAGE: the module is not installed.  Callable from any thread. */
dop_status dop_audio_read(const void *bytes, size_t n, const dop_audio_options *options, dop_diag *diag,
                          dop_audio **out_audio);
void dop_audio_close(dop_audio *audio); /* accepts NULL */
double dop_audio_seconds(const dop_audio *audio);
/* Computes log-mel values of the audio chunk that starts at `from` seconds: out_mel [facts->bins, facts->frames], the input of
 * dop_sequence_hear. */
dop_status dop_audio_chunk(const dop_audio *audio, const dop_audio_facts *facts, double from, dop_diag *diag,
                           float *out_mel);

/* Opens a speech model.  text: the model's tokenizer, which must outlive it.  The caller closes *out_speech.  DOP_E_INPUT: the plan has
 * no program "audio", or its vocabulary lacks the special tokens of speech models. */
dop_status dop_speech_open(dop_model *model, const dop_text *text, dop_diag *diag, dop_speech **out_speech);
void dop_speech_close(dop_speech *speech); /* accepts NULL */
/* True if the model supports several languages and translation; otherwise it transcribes English only. */
bool dop_speech_languages(const dop_speech *speech);

/* One segment of a transcript. */
typedef struct dop_speech_segment {
    double start, end; /* seconds from the beginning of the audio */
    const char *text;  /* 0-terminated */
    const uint32_t *tokens;
    size_t n_tokens;
    /* Statistics of the chunk that contains the segment.  seek: beginning of the chunk in frames of 10 ms; temperature of the accepted
     * attempt; mean log-probability of its tokens; compression ratio of its text; probability of no speech. */
    uint32_t seek;
    double temperature, avg_logprob, compression_ratio, no_speech_prob;
} dop_speech_segment;

/* Options of dop_speech_transcribe.  Zeros are the defaults, except for the values that dop_speech_how_init sets. */
typedef struct dop_speech_how {
    const char *language; /* "en", "en-GB" or "english"; NULL or "auto": detected in the first chunk */
    bool translate;       /* translate to English */
    bool no_timestamps;   /* one segment per chunk, without time tokens */
    const char *prompt;   /* preceding text, as context for names and style; NULL: none */
    bool forget;          /* do not use the text of earlier chunks as context */
    /* Number of chunks that are transcribed concurrently, if above 1.  Each uses a sequence of its own; the plan must support as many.
     * The audio is then cut at quiet points.  `prompt` precedes each chunk; the text of earlier chunks is not used as context. */
    uint32_t together;
    double temperature;   /* temperature of the first attempt; each retry adds 0.2, up to 1 */
    bool one_attempt;     /* disable retries */
    double worst_logprob; /* an attempt with a lower mean log-probability fails; default -1 */
    double worst_ratio;   /* an attempt with a higher compression ratio fails; default 2.4 */
    double silence; /* a chunk that fails by worst_logprob and has a higher no_speech_prob is silence; default 0.6 */
    uint64_t seed;  /* seed of random draws */
    /* Called with each segment, in order; NULL: none.  A result other than DOP_OK ends the transcription with that result. */
    dop_status (*segment)(void *user, const dop_speech_segment *segment, dop_diag *diag);
    /* Called before every token; false cancels with DOP_E_CANCELLED.  done: fraction of the audio processed.  NULL: never cancel. */
    bool (*continues)(void *user, double done);
    void *user;
} dop_speech_how;
void dop_speech_how_init(dop_speech_how *how);

typedef struct dop_transcript {
    const char *language; /* language code, "en" */
    const char *task;     /* "transcribe" or "translate" */
    double duration;      /* duration of the audio in seconds */
    char *text;           /* text of all segments */
    size_t n_segments;
    dop_speech_segment *segments;
    uint32_t n_tokens;                       /* tokens generated, in all attempts */
    uint32_t n_chunks;                       /* chunks processed */
    double features_s, encoder_s, decoder_s; /* time spent in feature extraction, encoder and decoder, in seconds */
} dop_transcript;

/* Transcribes the audio chunk by chunk.  sequence: a sequence of the speech model; its tokens are lost.  Release *out_transcript with
 * dop_transcript_finish, also after an error.  DOP_E_INPUT: unknown language, unsupported task, or fewer sequences than how->together. */
dop_status dop_speech_transcribe(const dop_speech *speech, dop_sequence *sequence, const dop_audio *audio,
                                 const dop_speech_how *how, dop_diag *diag, dop_transcript *out_transcript);
void dop_transcript_finish(dop_transcript *transcript);

typedef enum dop_transcript_form {
    DOP_TRANSCRIPT_TEXT,
    DOP_TRANSCRIPT_JSON,    /* {"text": ...} */
    DOP_TRANSCRIPT_VERBOSE, /* also language, duration and segments */
    DOP_TRANSCRIPT_SRT,
    DOP_TRANSCRIPT_VTT
} dop_transcript_form;
/* Formats a transcript.  *out_text is 0-terminated; release it with dop_free. */
dop_status dop_transcript_write(const dop_transcript *transcript, dop_transcript_form form, dop_diag *diag,
                                char **out_text, size_t *out_n);

#ifdef __cplusplus
}
#endif
#endif
