/* The engine's thread.
 *
 * A model in several parts (pipeline parallel) has as many in-flight steps as parts, each with different sequences,
 * so that every part is occupied. They end in the order in which they were started. A single job cannot occupy the
 * other parts: its steps are waited for one by one, as for a model in one part. */
#include "serve/engine/engine_run.h"
#include "runtime/model/model.h"
#include "runtime/step/step_rows.h"
#include "serve/engine/engine_internal.h"
#include "serve/engine/engine_slots.h"
#include "serve/engine/engine_step.h"

#include <string.h>

static void
set_slots_in_flight(dop_engine *e, uint32_t group, bool flies)
{
    const dop_group *g = &e->groups[group];
    for (uint32_t i = 0; i < e->n_slots; i++) {
        dop_slot *s = &e->slots[i];
        bool has = flies ? false : s->flies && s->group == group;
        for (uint32_t k = 0; k < g->n_rows && flies && !has; k++)
            has = g->rows[k].sequence == s->sequence;
        if (has)
            s->flies = flies;
        if (has && flies)
            s->group = group;
    }
}

static void finish_all_steps(dop_engine *e);

/* Waits for the oldest in-flight step, and appends its tokens to the jobs. */
static void
finish_oldest_step(dop_engine *e)
{
    const uint32_t group = e->first_group;
    const dop_group *g = &e->groups[group];
    dop_engine_picks p = {0};
    dop_diag diag = {0};
    e->first_group = (e->first_group + 1) % DOP_ENGINE_MAX_GROUPS;
    e->n_flying--;
    dop_status st = dop_step_end(e->model, &diag);
    const double ran = dop_now_ms();
    if (st == DOP_OK)
        dop_engine_pick_all(e, true, group, &p);
    const double picked = dop_now_ms();
    set_slots_in_flight(e, group, false);
    if (st == DOP_OK) {
        dop_step_commit(e->model);
        dop_engine_mark_chunks(e);
    } else if (st == DOP_E_DEVICE) {
        dop_engine_give_up(e, &diag);
        finish_all_steps(e);
        return;
    } else { /* retries each sequence separately, with nothing else in flight */
        finish_all_steps(e);
        dop_engine_run_each(e, g->rows, g->n_rows);
    }
    dop_engine_lock(e);
    dop_engine_write_all(e, &p);
    dop_engine_count_step(e, g->n_rows, g->start_ms, picked - ran);
    dop_engine_unlock(e);
}

/* Waits for all in-flight steps. */
static void
finish_all_steps(dop_engine *e)
{
    while (e->n_flying > 0 && !e->broken)
        finish_oldest_step(e);
    for (uint32_t i = 0; i < e->n_slots && e->broken; i++) /* the device has failed: no in-flight step will end */
        e->slots[i].flies = false;
    e->n_flying = e->broken ? 0 : e->n_flying;
}

/* Submits a step with the rows of e->rows, as the newest one in flight. */
static void
submit_step(dop_engine *e)
{
    const uint32_t group = (e->first_group + e->n_flying) % DOP_ENGINE_MAX_GROUPS;
    dop_group *g = &e->groups[group];
    dop_diag diag = {0};
    dop_engine_ready_picks(e);
    g->start_ms = dop_now_ms();
    g->n_rows = e->n_rows;
    memcpy(g->rows, e->rows, e->n_rows * sizeof *e->rows);
    dop_status st = dop_step_start(e->model, g->rows, g->n_rows, &diag);
    if (st == DOP_OK) {
        set_slots_in_flight(e, group, true);
        e->n_flying++;
        return;
    }
    if (st == DOP_E_DEVICE) {
        dop_engine_give_up(e, &diag);
        finish_all_steps(e);
        return;
    }
    /* The code below may change sequences of other in-flight steps, so these must end first. */
    finish_all_steps(e);
    if (!e->broken && !(st == DOP_E_FULL && dop_engine_make_pages(e)))
        dop_engine_run_each(e, g->rows, g->n_rows);
}

static void
run_in_flight_steps(dop_engine *e)
{
    e->n_rows = 0;
    e->lands = false;
    if (e->n_flying < e->n_groups && !e->broken)
        dop_engine_plan_step(e);
    dop_engine_lock(e);
    const bool alone = e->metrics.running == 1;
    dop_engine_unlock(e);
    if (e->n_rows > 0 && alone && e->n_flying == 0)
        dop_engine_run_step(e);
    else if (e->n_rows > 0)
        submit_step(e);
    dop_engine_lock(e);
    const bool idle = e->metrics.running == 0; /* jobs may have failed while their rows were in flight */
    dop_engine_unlock(e);
    if (e->lands || idle)
        finish_all_steps(e);
    else if (e->n_flying == e->n_groups || (e->n_rows == 0 && e->n_flying > 0))
        finish_oldest_step(e);
}

void *
dop_engine_run(void *engine)
{
    dop_engine *e = engine;
    while (dop_engine_end_turns(e), dop_engine_take_jobs(e)) {
        dop_engine_prepare_masks(e);
        if (e->n_groups > 1) {
            run_in_flight_steps(e);
            continue;
        }
        dop_engine_plan_step(e);
        if (e->n_rows > 0)
            dop_engine_run_step(e);
    }
    return NULL;
}
