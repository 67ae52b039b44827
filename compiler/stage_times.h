/* Measured times of stages: what doppler-exec PLAN --profile FILE.yaml writes, and what another shape would take.
 *
 * A file is a YAML list, so that files of several profiles (other numbers of rows) are joined by cat:
 *
 *   - {device: NVIDIA H200, driver: ..., model: llama3.1-8b, weights: f16, date: "2026-11-22"}
 *   - {step: decode, rows: 1, dispatches: 162, us: 4650, weights: 1.5e10, bytes: 1.5e10, products: 7.5e9}
 *   - {step: decode, rows: 1, op: head, kernel: gemv_subgroup, count: 1, us: 245.2, weights: ..., ...}
 *
 * The first row says where it was measured, those without `op` are of whole steps and all others
 * of one kind of dispatch: `us` the mean of one of them, in microseconds, `weights` the bytes of weights that it reads,
 * `bytes` all that it reads and writes but for caches, `products` how often a weight meets a value.  A whole step is
 * measured without time stamps where that can be done, and the times of its stages are scaled to it.
 *
 * What another shape takes follows from the nearest kind of dispatch that was measured.  One dispatch takes fixed_us
 * whatever it does.  The rest of its time goes with the bytes of a step of up to 64 rows, which is what bounds those, and
 * with the products of larger ones; where there are none, with the bytes.  Between two measured numbers of rows it is
 * linear; above the largest it goes with rows; below the smallest it stays what it is up to 64 rows (the weights are read
 * all the same), and goes with rows beyond. */
#ifndef DOPPLER_COMPILER_STAGE_TIMES_H
#define DOPPLER_COMPILER_STAGE_TIMES_H

#include "runtime/base.h"

enum { DOP_STAGE_BYTES_ROWS = 64 }; /* up to so many rows bytes say how long a step takes */

/* Of a step: decode, a piece of a prompt, rows of several sequences. */
typedef enum dop_step_kind { DOP_STEP_DECODE, DOP_STEP_PREFILL, DOP_STEP_ROWS, DOP_STEP_KINDS } dop_step_kind;

typedef struct dop_stage_time {
    dop_step_kind step;
    uint32_t rows;
    char op[64], kernel[40]; /* "" both: a whole step */
    double count;            /* such dispatches in a step; of a whole step: all */
    double us;               /* of one */
    double weights, bytes, products;
} dop_stage_time;

typedef struct dop_stage_times {
    char device[128], model[128], storage[64];
    uint32_t n, cap;
    dop_stage_time *items; /* owned; stages are scaled to the whole steps */
} dop_stage_times;

/* What is asked for: one dispatch of a step, with its work at that many rows. */
typedef struct dop_stage_wanted {
    dop_step_kind step;
    uint32_t rows;
    const char *op, *kernel;
    double weights, bytes, products;
} dop_stage_wanted;

/* Adds a file to `io`, zeroed at first.  Errors: what the rows are not, with the line. */
dop_status dop_stage_times_add(dop_stage_times *io, const char *path, dop_diag *diag);
/* After the last file: scales stages.  Errors: a stage without its whole step. */
dop_status dop_stage_times_ready(dop_stage_times *io, const char *path, dop_diag *diag);
void dop_stage_times_finish(dop_stage_times *t); /* accepts zeroed ones */

/* In microseconds.  *out_guessed: no dispatch of the kind was measured, and the step's mean rate was taken.  Negative: no
 * such step was measured at all.  byte_speed, product_speed: of the device against the measured one; 1: the same. */
double dop_stage_times_of(const dop_stage_times *t, const dop_stage_wanted *w, double fixed_us, double byte_speed,
                          double product_speed, bool *out_guessed);

#endif
