/* Measured times of stages, as doppler-exec PLAN --profile FILE.yaml writes them, and estimates for other shapes.
 *
 * A file is a YAML list, so files of several profiles (with other row counts) can be concatenated:
 *
 *   - {device: NVIDIA L40S, driver: ..., model: llama3.1-8b, weights: f16, date: "2026-11-22"}
 *   - {step: decode, rows: 1, dispatches: 162, us: 4650, weights: 1.5e10, bytes: 1.5e10, products: 7.5e9}
 *   - {step: decode, rows: 1, op: head, kernel: gemv_subgroup, count: 1, us: 245.2, weights: ..., ...}
 *
 * The first row names the device and model of the measurement.  Rows without `op` describe whole steps, all others one kind
 * of dispatch.  `us` is the mean of one dispatch in microseconds, `weights` the bytes of weights that it reads, `bytes` all
 * that it reads and writes except caches, `products` the number of multiply-adds with weights.  A whole step is measured
 * without timestamps where possible, and the times of its stages are scaled to it.
 *
 * The time of another shape is estimated from the nearest measured kind of dispatch.  Each dispatch has a fixed cost of
 * fixed_us.  Up to 64 rows, steps are memory-bound: the rest of the time is proportional to the bytes.  In larger steps it is
 * proportional to the products, or to the bytes if there are no products.  Between two measured row counts it is
 * interpolated linearly.  Above the largest it is proportional to the rows.  Below the smallest it is constant up to 64 rows,
 * because all weights are read anyway, and proportional to the rows beyond. */
#ifndef DOPPLER_COMPILER_PARTS_STAGE_TIMES_H
#define DOPPLER_COMPILER_PARTS_STAGE_TIMES_H

#include "base/base.h"

enum { DOP_STAGE_BYTES_ROWS = 64 }; /* steps of up to this many rows are memory-bound */

/* Kind of step: decode, a chunk of a prompt, or rows of several sequences. */
typedef enum dop_step_kind { DOP_STEP_DECODE, DOP_STEP_PREFILL, DOP_STEP_ROWS, DOP_STEP_KINDS } dop_step_kind;

typedef struct dop_stage_time {
    dop_step_kind step;
    uint32_t rows;
    char op[64], kernel[40]; /* names of op and kernel; both empty: a whole step */
    double count;            /* number of equal dispatches in a step; for a whole step, number of all dispatches */
    double us;               /* microseconds of one dispatch, or of the whole step */
    double weights, bytes, products;
} dop_stage_time;

typedef struct dop_stage_times {
    char device[128], model[128], storage[64];
    uint32_t n, cap;
    dop_stage_time *items; /* owned; dop_stage_times_ready() scales stages to their whole steps */
} dop_stage_times;

/* A dispatch whose time is estimated, and its work in a step of `rows` rows. */
typedef struct dop_stage_wanted {
    dop_step_kind step;
    uint32_t rows;
    const char *op, *kernel;
    double weights, bytes, products;
} dop_stage_wanted;

/* Adds the rows of a file to `io`, which must be zeroed before the first call. Fails, with the line number, if a row
 * does not have the format above. */
dop_status dop_stage_times_add(dop_stage_times *io, const char *path, dop_diag *diag);
/* Scales the stage times so that they add up to the time of their whole step. Called after the last file. Fails if a
 * stage has no whole step. */
dop_status dop_stage_times_ready(dop_stage_times *io, const char *path, dop_diag *diag);
void dop_stage_times_finish(dop_stage_times *t); /* accepts a zeroed struct */

/* Returns the estimated time of a dispatch in microseconds, or a negative number if no step of its kind was measured.
 * byte_speed and product_speed: speed relative to the measured device (1: equal). *out_guessed: true if no dispatch of
 * this kind was measured, so that the step's mean rate was used. */
double dop_stage_times_of(const dop_stage_times *t, const dop_stage_wanted *w, double fixed_us, double byte_speed,
                          double product_speed, bool *out_guessed);

#endif
