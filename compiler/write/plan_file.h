/* Writes the sections of a plan (plan/plan_format.h) to a file or to memory. */
#ifndef DOPPLER_COMPILER_WRITE_PLAN_FILE_H
#define DOPPLER_COMPILER_WRITE_PLAN_FILE_H

#include "base/progress.h"
#include "compiler/pack/pack.h"
#include "plan/plan.h"

typedef struct dop_plan_sections {
    dop_buf sec[DOP_SEC_LIMIT]; /* owned: the bytes of each section except the weights */
    const dop_pack *pack;       /* packs DOP_SEC_WEIGHTS while it is written: it may be larger than memory */
    uint64_t weights_size;      /* bytes of the packed weights, but for those that stay in the model's files */
    bool
        refers; /* weights that files of the model have as kernels read them, or only have to be repacked, stay there, as DOP_SEC_RANGES says */
    /* Weights are written to a file beside the plan; size and digest in its row of DOP_SEC_FILES are set then. */
    bool external;
    dop_progress progress; /* step "weights", in bytes */
} dop_plan_sections;

/* plan_ranges.c: can a plan name the model's files?  Where not, it holds all weights. */
bool dop_plan_can_refer(const dop_weights *weights);
/* plan_ranges.c: does this weight stay in the model's files, and how? */
dop_stored dop_plan_sections_refers(const dop_plan_sections *sections, const dop_packed *item);

void dop_plan_sections_finish(dop_plan_sections *sections); /* accepts a zeroed one */

/* Writes a plan to a temporary name beside `path` and renames it when it is complete; nothing is left after a failure.  External
 * weights are written to `path`.weights in this way too. */
dop_status dop_plan_sections_write(dop_plan_sections *sections, const char *path, dop_diag *diag);

/* Writes the parts of a model: as one file with the directory `rows`, whose offsets, sizes and digests are set here; or, with
 * `split`, as files `path`.part0 and so on.  External weights are in files `path`.part0.weights and so on.  Every part
 * gets the digest of the set. */
dop_status dop_plan_set_write(dop_plan_sections *const *parts, dop_plan_set_row *rows, uint32_t n, const char *path,
                              bool split, dop_diag *diag);

/* Fails when a program has the plan at `path` open (dop_plan_open). */
dop_status dop_plan_refuse_open(const char *path, dop_diag *diag);

/* A plan in memory, for dop_plan_open_memory(), with zeros for weights; their digest is 0 and must not be checked. */
typedef struct dop_plan_image {
    void *bytes;
    uint64_t size;
} dop_plan_image;
dop_status dop_plan_sections_image(const dop_plan_sections *sections, dop_diag *diag, dop_plan_image *out_image);
void dop_plan_image_finish(dop_plan_image *image); /* accepts a zeroed one */

#endif
