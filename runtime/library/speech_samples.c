/* Audio samples: reads files, and computes log-mel values of chunks. */
#include "media/audio.h"
#include "runtime/library/speech.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

dop_status
dop_audio_read(const void *bytes, size_t n, const dop_audio_options *options, dop_diag *diag, dop_audio **out_audio)
{
    static const dop_audio_options none;
    const dop_audio_options *o = options ? options : &none;
    dop_diag_clear(diag);
    *out_audio = NULL;
    dop_audio *a = calloc(1, sizeof *a);
    if (!a)
        return DOP_NO_MEMORY(diag);
    const double most = o->max_seconds > 0 ? o->max_seconds : 4 * 3600;
    dop_status st = dop_audio_load_decode(bytes, n, most, o->budget, diag, &a->samples, &a->n);
    if (st != DOP_OK) {
        dop_audio_close(a);
        return st;
    }
    *out_audio = a;
    return DOP_OK;
}

void
dop_audio_close(dop_audio *audio)
{
    if (!audio)
        return;
    free(audio->samples);
    free(audio);
}

double
dop_audio_seconds(const dop_audio *audio)
{
    return (double)audio->n / DOP_AUDIO_RATE;
}

dop_status
dop_audio_frames(const dop_audio *audio, const dop_audio_facts *facts, dop_diag *diag, float **out_mel,
                 size_t *out_frames)
{
    const size_t chunk = (size_t)facts->frames * DOP_AUDIO_HOP;
    /* Audio that fits in one chunk is padded to a chunk. Longer audio gets a chunk of silence appended, so that a chunk
     * can begin at every position. */
    const size_t used = (audio->n + DOP_AUDIO_HOP - 1) / DOP_AUDIO_HOP * DOP_AUDIO_HOP;
    const size_t all = audio->n <= chunk ? chunk : used + chunk;
    float *samples = calloc(all, sizeof *samples), *mel = NULL;
    *out_mel = NULL;
    *out_frames = all / DOP_AUDIO_HOP;
    if (samples)
        mel = malloc(*out_frames * facts->bins * sizeof *mel);
    if (!samples || !mel) {
        free(samples);
        return DOP_NO_MEMORY(diag);
    }
    memcpy(samples, audio->samples, audio->n * sizeof *samples);
    dop_status st = dop_audio_load_mel(samples, all, facts->bins, diag, mel);
    free(samples);
    if (st != DOP_OK) {
        free(mel);
        return st;
    }
    *out_mel = mel;
    return DOP_OK;
}

void
dop_frames_cut(const float *mel, size_t frames, const dop_audio_facts *facts, size_t from, float *out_chunk)
{
    for (uint32_t b = 0; b < facts->bins; b++)
        for (uint32_t i = 0; i < facts->frames; i++)
            out_chunk[(size_t)b * facts->frames + i] = from + i < frames ? mel[b * frames + from + i] : 0;
}
