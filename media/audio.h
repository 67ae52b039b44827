/* Audio for a model of speech: from the bytes of a file to samples, and from samples to log-mel values.
 *
 * Both are in a module that is loaded at need, because libraries for sound are not on every machine (audio_module.c); the functions here
 * are also what it is made of.  Nothing is kept between calls; any thread. */
#ifndef DOPPLER_MEDIA_AUDIO_H
#define DOPPLER_MEDIA_AUDIO_H

#include "base/budget.h"
#include "include/doppler/status.h"

#include <stddef.h>
#include <stdint.h>

enum {
    DOP_AUDIO_RATE = 16000, /* samples of a second, of one channel */
    DOP_AUDIO_HOP = 160,    /* samples from one frame to the next */
    DOP_AUDIO_WINDOW = 400  /* samples of a frame's window */
};

/* Decodes WAV, FLAC, OGG and MP3; mixes the channels and resamples to DOP_AUDIO_RATE.  most_seconds: the
 * longest audio.  budget: charged for the samples; NULL: not limited.  *out_samples: the caller's (free).  DOP_E_INPUT: damaged, of
 * another kind, or empty; DOP_E_LIMIT: too long. */
typedef dop_status dop_audio_decode_fn(const void *bytes, size_t n, double most_seconds, dop_budget *budget,
                                       dop_diag *diag, float **out_samples, size_t *out_n);
/* Log-mel values of n samples, which is a multiple of DOP_AUDIO_HOP and at least DOP_AUDIO_WINDOW, as Whisper's feature extractor makes
 * them: out_mel [bins, n / DOP_AUDIO_HOP]. */
typedef dop_status dop_audio_mel_fn(const float *samples, size_t n, uint32_t bins, dop_diag *diag, float *out_mel);

dop_audio_decode_fn dop_audio_decode;
dop_audio_mel_fn dop_audio_mel;
/* The same, by the module: DOP_E_USAGE where it is not there. */
dop_audio_decode_fn dop_audio_load_decode;
dop_audio_mel_fn dop_audio_load_mel;

#define DOP_AUDIO_MODULE "doppler-audio.so"

#endif
