/* A simulation of pipeline parallelism: steps that go through the parts of a plan as in the runtime (runtime/parts/lead/ranks.h).  Each
 * part runs the steps in their order, one at a time; the values that cross a cut are sent when the part before it is done, one step
 * after the other; the last part answers to the first. */
#ifndef DOPPLER_COMPILER_PARTS_PIPELINE_H
#define DOPPLER_COMPILER_PARTS_PIPELINE_H

#include "plan/plan_format.h"

#include <stdbool.h>

typedef struct dop_pipeline {
    uint32_t n_parts;
    double part_free[DOP_MAX_PARTS]; /* microseconds: when each part has nothing more to do */
    double link_free[DOP_MAX_PARTS]; /* link i is between parts i and i + 1 */
    double part_busy[DOP_MAX_PARTS]; /* microseconds that each part has worked so far */
} dop_pipeline;

/* The time of one kind of step, in microseconds. */
typedef struct dop_pipeline_step {
    double part[DOP_MAX_PARTS]; /* work of each part */
    double hop[DOP_MAX_PARTS];  /* sending over each cut */
    bool waits[DOP_MAX_PARTS];  /* the part behind the cut receives only while it runs no step */
    double answer;              /* the answer from the last part to the first; one part: 0 */
} dop_pipeline_step;

/* Runs a step that may begin at `ready`.  Returns the time at which its answer is there. */
double dop_pipeline_run(dop_pipeline *p, const dop_pipeline_step *step, double ready);

/* The mean time between answers when `groups` groups of sequences take steps in turn, and a group begins its next step when the
 * answer to its last one is there. */
double dop_pipeline_period(uint32_t n_parts, const dop_pipeline_step *step, uint32_t groups);

#endif
