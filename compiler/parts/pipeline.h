/* Steps that go through the parts of a plan, as the runtime lets them (runtime/parts/lead/ranks.h): each part runs the steps in their
 * order, one at a time; what crosses a cut is sent when the part before it is done, one step after the other; the last
 * part answers to the first. */
#ifndef DOPPLER_COMPILER_PARTS_PIPELINE_H
#define DOPPLER_COMPILER_PARTS_PIPELINE_H

#include "runtime/plan/plan_format.h"

#include <stdbool.h>

typedef struct dop_pipeline {
    uint32_t n_parts;
    double part_free[DOP_MAX_PARTS]; /* microseconds: when each part has nothing more to do */
    double link_free[DOP_MAX_PARTS]; /* link i is between parts i and i + 1 */
    double part_busy[DOP_MAX_PARTS]; /* time that each part has worked */
} dop_pipeline;

/* The time of one kind of step, in microseconds. */
typedef struct dop_pipeline_step {
    double part[DOP_MAX_PARTS];
    double hop[DOP_MAX_PARTS]; /* over each cut */
    bool waits[DOP_MAX_PARTS]; /* the part behind the cut receives only while it runs no step */
    double answer;             /* from the last part to the first; one part: 0 */
} dop_pipeline_step;

/* A step that may begin at `ready`; returns when its answer is there. */
double dop_pipeline_run(dop_pipeline *p, const dop_pipeline_step *step, double ready);

/* Steps of `groups` groups in turn, each of which begins when its own answer is there: the mean time from one step of any
 * group to the next one. */
double dop_pipeline_period(uint32_t n_parts, const dop_pipeline_step *step, uint32_t groups);

#endif
