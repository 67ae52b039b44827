/* doppler-exec --imatrix-out: measures the input magnitudes of each product while a model reads a text, for dopplerc
 * --imatrix.
 *
 * In addition to the normal steps, every value that a product reads is copied to the host, which accumulates its
 * squares. All such values must be in memory, so the plan must be compiled with dopplerc --no-fuse. For experts, a row
 * counts for the matrices of its chosen experts. */
#ifndef DOPPLER_TOOLS_IMATRIX_IMATRIX_H
#define DOPPLER_TOOLS_IMATRIX_IMATRIX_H

#include "ir/graph/graph.h"
#include "runtime/model/model.h"

/* Magnitudes of the inputs of a tensor's products. */
typedef struct dop_imatrix_entry {
    const char *name; /* name in GGUF files, or the compiler's own; owned by the plan */
    uint32_t cols, matrices;
    double *sums;     /* owned, [matrices][cols]: sums of squared inputs */
    uint64_t *counts; /* owned, [matrices]: number of rows in the sums */
} dop_imatrix_entry;

typedef struct dop_imatrix_made {
    dop_imatrix_entry *entries; /* owned */
    uint32_t n;
    uint32_t chunks, chunk_size; /* number of text windows read; maximum tokens of a window */
} dop_imatrix_made;

/* Reads the ids in windows of `window` tokens, each into an empty sequence. `bos`, unless negative, precedes each
 * window but the first. `progress` may be NULL. Returns DOP_E_INPUT if the plan computes inputs inside its kernels. */
dop_status dop_imatrix_make(dop_model *model, dop_sequence *sequence, const uint32_t *ids, size_t n, uint32_t window,
                            int32_t bos, void (*progress)(size_t done, size_t all), dop_diag *diag,
                            dop_imatrix_made *out);
void dop_imatrix_made_finish(dop_imatrix_made *made); /* accepts a zeroed struct */
/* Writes the result as a GGUF file. dataset: name of the text. */
void dop_imatrix_gguf(const dop_imatrix_made *made, const char *dataset, dop_buf *out);

#endif
