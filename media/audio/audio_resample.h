/* Resampling of one channel by libsamplerate, on several threads. */
#ifndef DOPPLER_MEDIA_AUDIO_AUDIO_RESAMPLE_H
#define DOPPLER_MEDIA_AUDIO_AUDIO_RESAMPLE_H

#include "base/base.h"
#include "base/budget.h"

typedef struct dop_resampler dop_resampler;

/* From `rate` Hz to DOP_AUDIO_RATE.  The budget (NULL: unlimited), which must live as long, is charged for the resampler's memory until
 * it is destroyed.  *out_resampler: the caller's to destroy. */
dop_status dop_resampler_create(uint32_t rate, dop_budget *budget, dop_diag *diag, dop_resampler **out_resampler);
void dop_resampler_destroy(dop_resampler *resampler); /* accepts NULL */
/* Where the next samples are to be written, *out_n of them at most, which is never 0. */
float *dop_resampler_room(dop_resampler *resampler, size_t *out_n);
/* n samples have been written there; ends: no more will come.  *out_samples [*out_n]: what has been made of all so far and was not given
 * yet, which stays until the next call. */
dop_status dop_resampler_feed(dop_resampler *resampler, size_t n, bool ends, dop_diag *diag, const float **out_samples,
                              size_t *out_n);

#endif
