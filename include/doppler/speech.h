/* Speech to text: from the bytes of an audio file to segments of text with their times, by a plan with the program "audio" (Whisper).
 *
 *     dop_audio_read         decodes a file, on any thread
 *     dop_speech_open        what a model of speech needs to know of its vocabulary
 *     dop_speech_transcribe  listens and writes, on the thread that drives the model
 *     dop_transcript_write   JSON, text, SRT or WebVTT of what was heard
 *
 * Audio is read by a module that is loaded at need (the package doppler-audio). */
#ifndef DOPPLER_INCLUDE_DOPPLER_SPEECH_H
#define DOPPLER_INCLUDE_DOPPLER_SPEECH_H

#include <doppler/doppler.h>
#include <doppler/text.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dop_audio dop_audio;   /* samples of one channel at 16 kHz */
typedef struct dop_speech dop_speech; /* a model that hears */

struct dop_budget;
/* Zeros are the defaults. */
typedef struct dop_audio_options {
    double max_seconds;        /* the longest audio; 0: four hours */
    struct dop_budget *budget; /* of the programs' own; NULL: none */
} dop_audio_options;

/* Decodes WAV, FLAC, OGG and MP3, mixes the channels and resamples.  *out_audio is the caller's to close.
 * DOP_E_INPUT: damaged, empty, or of another kind; DOP_E_LIMIT: too long; DOP_E_USAGE: the module is not there.  Any thread. */
dop_status dop_audio_read(const void *bytes, size_t n, const dop_audio_options *options, dop_diag *diag,
                          dop_audio **out_audio);
void dop_audio_close(dop_audio *audio); /* accepts NULL */
double dop_audio_seconds(const dop_audio *audio);
/* Log-mel values of the chunk of a model's length that begins at `from` seconds, out_mel [facts->bins, facts->frames], as dop_sequence_hear
 * takes them. */
dop_status dop_audio_chunk(const dop_audio *audio, const dop_audio_facts *facts, double from, dop_diag *diag,
                           float *out_mel);

/* text: the model's, which must live as long.  *out_speech is the caller's to close.  DOP_E_INPUT: the model hears nothing, or its
 * vocabulary lacks the tokens of a model of speech. */
dop_status dop_speech_open(dop_model *model, const dop_text *text, dop_diag *diag, dop_speech **out_speech);
void dop_speech_close(dop_speech *speech); /* accepts NULL */
/* Does the model know several languages, and how to translate?  Else it writes English only. */
bool dop_speech_languages(const dop_speech *speech);

/* A stretch of what was said. */
typedef struct dop_speech_segment {
    double start, end; /* seconds */
    const char *text;  /* 0-terminated */
    const uint32_t *tokens;
    size_t n_tokens;
    /* Of the chunk that the segment was heard in: its beginning in frames of 10 ms, the temperature of its tokens, their mean
     * log-probability, how much the text can be compressed, and the probability that nobody speaks. */
    uint32_t seek;
    double temperature, avg_logprob, compression_ratio, no_speech_prob;
} dop_speech_segment;

/* Zeros are the defaults, except for the numbers that dop_speech_how_init sets. */
typedef struct dop_speech_how {
    const char *language; /* "en", "en-GB" or "english"; NULL or "auto": found in the first chunk */
    bool translate;       /* write English whatever the language is */
    bool no_timestamps;   /* a chunk is one segment */
    const char *prompt;   /* text that could have been before, for names and style; NULL: none */
    bool forget;          /* what was heard before is no prompt of the next chunk */
    /* Above 1: so many chunks are written at the same time, each by a sequence of its own, of which the plan must have as many.  The audio is
     * then cut where it is quiet, and `prompt` leads each chunk; what was heard before leads none. */
    uint32_t together;
    double temperature;   /* of the first attempt; later ones are 0.2 hotter, up to 1 */
    bool one_attempt;     /* no hotter attempts */
    double worst_logprob; /* a mean log-probability below this is a failure: -1 */
    double worst_ratio;   /* a compression ratio above this is a failure: 2.4 */
    double silence;       /* a chunk with a larger no_speech_prob, and a failure by worst_logprob, is silence: 0.6 */
    uint64_t seed;        /* of the random numbers */
    /* Called with each segment in order; NULL: nobody is told.  If it returns anything but DOP_OK, transcribing ends with that. */
    dop_status (*segment)(void *user, const dop_speech_segment *segment, dop_diag *diag);
    /* Asked before every token; false ends with DOP_E_CANCELLED.  done: share of the audio that was heard.  NULL: it goes on. */
    bool (*continues)(void *user, double done);
    void *user;
} dop_speech_how;
void dop_speech_how_init(dop_speech_how *how);

typedef struct dop_transcript {
    const char *language; /* its code, "en" */
    const char *task;     /* "transcribe" or "translate" */
    double duration;      /* of the audio, in seconds */
    char *text;           /* of all segments */
    size_t n_segments;
    dop_speech_segment *segments;
    uint32_t n_tokens;                       /* that were written, all attempts together */
    uint32_t n_chunks;                       /* that were heard */
    double features_s, encoder_s, decoder_s; /* seconds that their parts took */
} dop_transcript;

/* Writes down what the audio says, chunk after chunk.  sequence: of the speech's model; its tokens are lost.  *out_transcript: the
 * caller's to finish, also after an error.  DOP_E_INPUT: an unknown language, a task that the model does not know, or fewer sequences
 * than how->together. */
dop_status dop_speech_transcribe(const dop_speech *speech, dop_sequence *sequence, const dop_audio *audio,
                                 const dop_speech_how *how, dop_diag *diag, dop_transcript *out_transcript);
void dop_transcript_finish(dop_transcript *transcript);

typedef enum dop_transcript_form {
    DOP_TRANSCRIPT_TEXT,
    DOP_TRANSCRIPT_JSON,    /* {"text": ...} */
    DOP_TRANSCRIPT_VERBOSE, /* with language, duration and segments */
    DOP_TRANSCRIPT_SRT,
    DOP_TRANSCRIPT_VTT
} dop_transcript_form;
/* *out_text: the caller's (dop_free), 0-terminated. */
dop_status dop_transcript_write(const dop_transcript *transcript, dop_transcript_form form, dop_diag *diag,
                                char **out_text, size_t *out_n);

#ifdef __cplusplus
}
#endif
#endif
