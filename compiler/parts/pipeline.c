#include "compiler/parts/pipeline.h"

#include <string.h>

static double
max_time(double a, double b)
{
    return a > b ? a : b;
}

double
dop_pipeline_run(dop_pipeline *p, const dop_pipeline_step *step, double ready)
{
    double at = ready;
    for (uint32_t k = 0; k < p->n_parts; k++) {
        if (k > 0) {
            const double idle = step->waits[k - 1] ? p->part_free[k] : 0;
            at = max_time(max_time(at, p->link_free[k - 1]), idle) + step->hop[k - 1];
            p->link_free[k - 1] = at;
        }
        at = max_time(at, p->part_free[k]) + step->part[k];
        p->part_free[k] = at;
        p->part_busy[k] += step->part[k];
    }
    return at + step->answer;
}

double
dop_pipeline_period(uint32_t n_parts, const dop_pipeline_step *step, uint32_t groups)
{
    enum { ROUNDS = 64 }; /* warm-up steps of each group; as many timed steps follow */
    dop_pipeline p = {.n_parts = n_parts};
    double answered[DOP_MAX_PARTS] = {0}, start = 0, end = 0;
    for (uint32_t i = 0; i < 2 * ROUNDS; i++)
        for (uint32_t g = 0; g < groups; g++) {
            answered[g] = dop_pipeline_run(&p, step, answered[g]);
            if (g + 1 == groups)
                *(i < ROUNDS ? &start : &end) = answered[g];
        }
    return (end - start) / (ROUNDS * (double)groups);
}
