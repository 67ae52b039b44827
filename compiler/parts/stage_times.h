/* Measured times of stages, as doppler-exec PLAN --profile FILE.yaml writes them, and estimates for other shapes.
 *
 * A file is a YAML list, so that files of several profiles (other numbers of rows) are joined by cat:
 *
 *   - {device: NVIDIA L40S, driver: ..., model: llama3.1-8b, weights: f16, date: "2026-11-22"}
 *   - {step: decode, rows: 1, dispatches: 162, us: 4650, weights: 1.5e10, bytes: 1.5e10, products: 7.5e9}
 *   - {step: decode, rows: 1, op: head, kernel: gemv_subgroup, count: 1, us: 245.2, weights: ..., ...}
 *
 * The first row says where it was measured.  Rows without `op` describe whole steps, all others one kind of dispatch: `us` is
 * the mean of one dispatch in microseconds, `weights` the bytes of weights that it reads, `bytes` all that it reads and
 * writes except caches, `products` how often a weight meets a value.  A whole step is measured without time stamps where
 * possible, and the times of its stages are scaled to it.
 *
 * The time of another shape follows from the nearest kind of dispatch that was measured.  One dispatch takes fixed_us
 * whatever it does.  The rest of its time is proportional to the bytes for steps of up to 64 rows, which are bound by them, and
 * to the products for larger ones, or to the bytes where there are no products.  Between two measured numbers of rows it is
 * interpolated linearly.  Above the largest it is proportional to the rows; below the smallest it is constant up to 64 rows,
 * because the weights are read anyway, and proportional to the rows beyond. */
#ifndef DOPPLER_COMPILER_PARTS_STAGE_TIMES_H
#define DOPPLER_COMPILER_PARTS_STAGE_TIMES_H

#include "base/base.h"

enum { DOP_STAGE_BYTES_ROWS = 64 }; /* up to this many rows, bytes determine how long a step takes */

/* Kinds of steps: decode, a piece of a prompt, rows of several sequences. */
typedef enum dop_step_kind { DOP_STEP_DECODE, DOP_STEP_PREFILL, DOP_STEP_ROWS, DOP_STEP_KINDS } dop_step_kind;

typedef struct dop_stage_time {
    dop_step_kind step;
    uint32_t rows;
    char op[64], kernel[40]; /* "" both: a whole step */
    double count;            /* number of equal dispatches in a step; for a whole step, of all dispatches */
    double us;               /* microseconds of one dispatch, or of the whole step */
    double weights, bytes, products;
} dop_stage_time;

typedef struct dop_stage_times {
    char device[128], model[128], storage[64];
    uint32_t n, cap;
    dop_stage_time *items; /* owned; dop_stage_times_ready() scales stages to their whole steps */
} dop_stage_times;

/* A dispatch whose time is wanted, with its work in a step of `rows` rows. */
typedef struct dop_stage_wanted {
    dop_step_kind step;
    uint32_t rows;
    const char *op, *kernel;
    double weights, bytes, products;
} dop_stage_wanted;

/* Adds the rows of a file to `io`, which is zeroed before the first.  Errors: rows that are not as described above, with their line. */
dop_status dop_stage_times_add(dop_stage_times *io, const char *path, dop_diag *diag);
/* Called after the last file: scales the times of stages so that they add up to their whole step.  Errors: a stage without whole
 * step. */
dop_status dop_stage_times_ready(dop_stage_times *io, const char *path, dop_diag *diag);
void dop_stage_times_finish(dop_stage_times *t); /* accepts zeroed ones */

/* The time of a dispatch in microseconds; negative: no step of its kind was measured.  *out_guessed: no dispatch of its kind was
 * measured, and the mean rate of the step was used.  byte_speed, product_speed: the device relative to the measured one; 1: the
 * same. */
double dop_stage_times_of(const dop_stage_times *t, const dop_stage_wanted *w, double fixed_us, double byte_speed,
                          double product_speed, bool *out_guessed);

#endif
