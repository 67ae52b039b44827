/* Multithreaded resampling of one channel with libsamplerate. */
#ifndef DOPPLER_MEDIA_AUDIO_AUDIO_RESAMPLE_H
#define DOPPLER_MEDIA_AUDIO_AUDIO_RESAMPLE_H

#include "base/base.h"
#include "base/budget.h"

typedef struct dop_resampler dop_resampler;

/* Creates a resampler from `rate` Hz to DOP_AUDIO_RATE.  budget (NULL: unlimited) must outlive it and is charged for its memory.  The
 * caller destroys *out_resampler. */
dop_status dop_resampler_create(uint32_t rate, dop_budget *budget, dop_diag *diag, dop_resampler **out_resampler);
void dop_resampler_destroy(dop_resampler *resampler); /* accepts NULL */
/* Returns the buffer for the next input samples; *out_n is its capacity, never 0. */
float *dop_resampler_room(dop_resampler *resampler, size_t *out_n);
/* Processes n samples in that buffer.  ends: no more input follows.  *out_samples [*out_n] is new output, valid until the next call. */
dop_status dop_resampler_feed(dop_resampler *resampler, size_t n, bool ends, dop_diag *diag, const float **out_samples,
                              size_t *out_n);

#endif
