/* doppler-exec --imatrix-out: how large the inputs of each product are while a model reads a text, for dopplerc --imatrix.
 *
 * The steps run as they are, and beside them every value that a product reads is copied to the host, which adds the squares up.  So
 * every such value has to be in memory: the plan must be one that dopplerc --no-fuse made.  Where a product has a matrix for
 * each expert, a row counts for the matrices of the experts that it chose. */
#ifndef DOPPLER_TOOLS_IMATRIX_IMATRIX_H
#define DOPPLER_TOOLS_IMATRIX_IMATRIX_H

#include "ir/graph/graph.h"
#include "runtime/model/model.h"

/* How large the inputs of a tensor's products were. */
typedef struct dop_imatrix_entry {
    const char *name; /* the tensor's name in GGUF files, or the compiler's own; owned by the plan */
    uint32_t cols, matrices;
    double *sums;     /* owned, [matrices][cols]: sums of the squares of the inputs */
    uint64_t *counts; /* owned, [matrices]: rows that were added up */
} dop_imatrix_entry;

typedef struct dop_imatrix_made {
    dop_imatrix_entry *entries; /* owned */
    uint32_t n;
    uint32_t chunks, chunk_size; /* number of windows of the text that were read; most tokens of a window */
} dop_imatrix_made;

/* Reads the ids in windows of `window` tokens, each from an empty sequence; `bos`, unless negative, goes before each but the first.
 * `progress` may be NULL.  DOP_E_INPUT: the plan computes inputs inside of its kernels. */
dop_status dop_imatrix_make(dop_model *model, dop_sequence *sequence, const uint32_t *ids, size_t n, uint32_t window,
                            int32_t bos, void (*progress)(size_t done, size_t all), dop_diag *diag,
                            dop_imatrix_made *out);
void dop_imatrix_made_finish(dop_imatrix_made *made); /* accepts a zeroed one */
/* The bytes of a GGUF file; dataset: the name of the text. */
void dop_imatrix_gguf(const dop_imatrix_made *made, const char *dataset, dop_buf *out);

#endif
