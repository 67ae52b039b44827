/* Loads the audio module on first use and keeps it loaded. */
#include "media/audio.h"

#include <dlfcn.h>
#include <string.h>

static dop_status
find_audio_function(const char *name, dop_diag *diag, void **out)
{
    /* The run path of the program contains the module's folder. */
    void *handle = dlopen(DOP_AUDIO_MODULE, RTLD_NOW | RTLD_LOCAL);
    *out = handle ? dlsym(handle, name) : NULL;
    if (*out)
        return DOP_OK;
    const char *why = dlerror();
    return DOP_FAIL(diag, DOP_E_USAGE, "what reads audio is not here: install the package doppler-audio (%s)",
                    why ? why : "another release");
}

dop_status
dop_audio_load_decode(const void *bytes, size_t n, double most_seconds, dop_budget *budget, dop_diag *diag,
                      float **out_samples, size_t *out_n)
{
    void *at;
    dop_audio_decode_fn *fn;
    *out_samples = NULL;
    *out_n = 0;
    dop_status st = find_audio_function("dop_audio_decode", diag, &at);
    if (st != DOP_OK)
        return st;
    memcpy(&fn, &at, sizeof fn); /* POSIX: function and data pointers have one representation */
    return fn(bytes, n, most_seconds, budget, diag, out_samples, out_n);
}

dop_status
dop_audio_load_mel(const float *samples, size_t n, uint32_t bins, dop_diag *diag, float *out_mel)
{
    void *at;
    dop_audio_mel_fn *fn;
    dop_status st = find_audio_function("dop_audio_mel", diag, &at);
    if (st != DOP_OK)
        return st;
    memcpy(&fn, &at, sizeof fn);
    return fn(samples, n, bins, diag, out_mel);
}
