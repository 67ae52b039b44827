/* Writes the sections of a plan (plan/plan_format.h) to a file or to memory. */
#ifndef DOPPLER_COMPILER_WRITE_PLAN_FILE_H
#define DOPPLER_COMPILER_WRITE_PLAN_FILE_H

#include "base/progress.h"
#include "compiler/pack/pack.h"
#include "plan/plan.h"

typedef struct dop_plan_sections {
    dop_buf sec[DOP_SEC_LIMIT]; /* owned; contents of each section except the weights */
    const dop_pack *pack;       /* packs DOP_SEC_WEIGHTS during writing, because it may be larger than memory */
    uint64_t weights_size;      /* bytes of packed weights, without weights that stay in the model's files */
    bool refers;                /* weights stay in the model's files where their format allows it (DOP_SEC_RANGES) */
    /* true: weights are written to a file next to the plan, whose row of DOP_SEC_FILES then gets size and digest */
    bool external;
    dop_progress progress; /* progress callback for the step "weights", in bytes */
} dop_plan_sections;

/* plan_ranges.c: true if a plan can name the model's files. Otherwise it must contain all weights. */
bool dop_plan_can_refer(const dop_weights *weights);
/* plan_ranges.c: returns how this weight stays in the model's files, or DOP_STORED_NOT if it does not. */
dop_stored dop_plan_sections_refers(const dop_plan_sections *sections, const dop_packed *item);

void dop_plan_sections_finish(dop_plan_sections *sections); /* accepts zeroed sections */

/* Writes a plan under a temporary name next to `path` and renames it when it is complete. Leaves no file after a
 * failure. External weights are written to `path`.weights in this way, too. */
dop_status dop_plan_sections_write(dop_plan_sections *sections, const char *path, dop_diag *diag);

/* Writes the parts of a model as one file with the directory `rows`, and sets the rows' offsets, sizes and digests.
 * With `split`, writes the files `path`.part0 and so on. External weights are in files `path`.part0.weights and so on.
 * Every part gets the digest of the set. */
dop_status dop_plan_set_write(dop_plan_sections *const *parts, dop_plan_set_row *rows, uint32_t n, const char *path,
                              bool split, dop_diag *diag);

/* Fails if a program has the plan at `path` open (dop_plan_open). */
dop_status dop_plan_refuse_open(const char *path, dop_diag *diag);

/* A plan in memory for dop_plan_open_memory(), with zeros for weights. Their digest is 0 and must not be checked. */
typedef struct dop_plan_image {
    void *bytes;
    uint64_t size;
} dop_plan_image;
dop_status dop_plan_sections_image(const dop_plan_sections *sections, dop_diag *diag, dop_plan_image *out_image);
void dop_plan_image_finish(dop_plan_image *image); /* accepts a zeroed image */

#endif
