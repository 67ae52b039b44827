/* Simulates pipeline parallelism: steps pass through the parts of a plan as in the runtime
 * (runtime/parts/lead/ranks.h). Each part runs the steps in order, one at a time. When a part finishes a step, the
 * values that cross the cut are sent; a cut sends one step at a time. The last part answers to the first. */
#ifndef DOPPLER_COMPILER_PARTS_PIPELINE_H
#define DOPPLER_COMPILER_PARTS_PIPELINE_H

#include "plan/plan_format.h"

#include <stdbool.h>

typedef struct dop_pipeline {
    uint32_t n_parts;
    double part_free[DOP_MAX_PARTS]; /* time from which each part is idle, in microseconds */
    double link_free[DOP_MAX_PARTS]; /* time from which each link is idle; link i connects parts i and i + 1 */
    double part_busy[DOP_MAX_PARTS]; /* total work of each part so far, in microseconds */
} dop_pipeline;

/* Times of one kind of step, in microseconds. */
typedef struct dop_pipeline_step {
    double part[DOP_MAX_PARTS]; /* work of each part */
    double hop[DOP_MAX_PARTS];  /* transfer over each cut */
    bool waits[DOP_MAX_PARTS];  /* true if the part after the cut receives only while it runs no step */
    double answer;              /* transfer of the answer from the last part to the first; 0 with one part */
} dop_pipeline_step;

/* Runs a step that may begin at time `ready`. Returns the time at which its answer arrives. */
double dop_pipeline_run(dop_pipeline *p, const dop_pipeline_step *step, double ready);

/* Returns the mean time between answers when `groups` groups of sequences alternate. A group begins its next step when
 * the answer to its last step arrives. */
double dop_pipeline_period(uint32_t n_parts, const dop_pipeline_step *step, uint32_t groups);

#endif
