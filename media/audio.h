/* Audio input of speech models: file bytes to samples, samples to log-mel values.
 *
 * Both functions are in a module that is loaded on demand, because its audio libraries are not on every machine (audio_module.c).  They
 * keep no state and are callable from any thread. */
#ifndef DOPPLER_MEDIA_AUDIO_H
#define DOPPLER_MEDIA_AUDIO_H

#include "base/budget.h"
#include "include/doppler/status.h"

#include <stddef.h>
#include <stdint.h>

enum {
    DOP_AUDIO_RATE = 16000, /* sample rate in Hz, one channel */
    DOP_AUDIO_HOP = 160,    /* samples from one frame to the next */
    DOP_AUDIO_WINDOW = 400  /* samples of a frame's window */
};

/* Decodes WAV, FLAC, OGG and MP3, mixes to mono and resamples to DOP_AUDIO_RATE.  most_seconds: maximum duration.  budget: charged for
 * the samples; NULL: unlimited.  Release *out_samples with free.  DOP_E_INPUT: damaged, another file type, or empty; DOP_E_LIMIT: too
 * long. */
typedef dop_status dop_audio_decode_fn(const void *bytes, size_t n, double most_seconds, dop_budget *budget,
                                       dop_diag *diag, float **out_samples, size_t *out_n);
/* Computes log-mel values as Whisper's feature extractor does: out_mel [bins, n / DOP_AUDIO_HOP].  n: number of samples, a multiple of
 * DOP_AUDIO_HOP and at least DOP_AUDIO_WINDOW. */
typedef dop_status dop_audio_mel_fn(const float *samples, size_t n, uint32_t bins, dop_diag *diag, float *out_mel);

dop_audio_decode_fn dop_audio_decode;
dop_audio_mel_fn dop_audio_mel;
/* Call the functions of the loaded module.  DOP_E_USAGE: the module is not installed. */
dop_audio_decode_fn dop_audio_load_decode;
dop_audio_mel_fn dop_audio_load_mel;

#define DOP_AUDIO_MODULE "doppler-audio.so"

#endif
