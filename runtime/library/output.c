#include "runtime/library/output.h"

#include <string.h>

void
dop_output_init(dop_output *out, const char *const *stops, size_t n_stops)
{
    memset(out, 0, sizeof *out);
    out->stops = stops;
    out->n_stops = n_stops;
}

void
dop_output_finish(dop_output *out)
{
    dop_buf_finish(&out->held);
    dop_buf_finish(&out->text);
}

/* Returns the offset of the first stop text in the held text, or the held size if there is none. */
static size_t
find_held_stop(const dop_output *out, size_t *out_index)
{
    size_t first = out->held.size;
    for (size_t i = 0; i < out->n_stops; i++) {
        const char *stop = out->stops[i];
        size_t n = strlen(stop);
        const char *hit = n && out->held.size ? memmem(out->held.data, out->held.size, stop, n) : NULL;
        if (hit && (size_t)(hit - out->held.data) < first) {
            first = (size_t)(hit - out->held.data);
            *out_index = i;
        }
    }
    return first;
}

/* Returns the length of the longest suffix of the held text that is a prefix of a stop text. */
static size_t
stop_prefix(const dop_output *out)
{
    size_t longest = 0;
    for (size_t i = 0; i < out->n_stops; i++) {
        const char *stop = out->stops[i];
        size_t n = strlen(stop), most = n && n - 1 < out->held.size ? n - 1 : n ? out->held.size : 0;
        for (size_t k = most; k > longest; k--)
            if (memcmp(out->held.data + out->held.size - k, stop, k) == 0)
                longest = k;
    }
    return longest;
}

static dop_status
release_held_text(dop_output *out, size_t keep, dop_diag *diag)
{
    size_t index = 0, stop = find_held_stop(out, &index), n = out->held.size - keep;
    if (stop < out->held.size) {
        out->stopped = true;
        out->stop = index;
        n = stop;
        keep = 0;
    }
    if (n > 0) {
        dop_buf_append(&out->text, out->held.data, n);
        memmove(out->held.data, out->held.data + n, keep);
    }
    out->held.size = keep;
    if (out->held.failed || out->text.failed)
        return DOP_NO_MEMORY(diag);
    return DOP_OK;
}

dop_status
dop_output_push(dop_output *out, const char *bytes, size_t n, dop_diag *diag, size_t *out_from)
{
    *out_from = out->text.size;
    if (out->stopped)
        return DOP_OK;
    if (n > 0)
        dop_buf_append(&out->held, bytes, n);
    return release_held_text(out, stop_prefix(out), diag);
}

dop_status
dop_output_end(dop_output *out, dop_diag *diag, size_t *out_from)
{
    *out_from = out->text.size;
    if (out->stopped)
        return DOP_OK;
    return release_held_text(out, 0, diag);
}
