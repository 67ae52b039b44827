/* probe PLAN TOKENS: what a probe of the plan's persistent form says at the start and in the middle of a sequence, whatever
 * the device, and whether the sequence notices.
 *
 * TOKENS is a file with ids: half of them are fed, and the others scored.  Their logits must be the same bytes with probes
 * in between and without.  Prints a line for each probe.  Exit status 0 when the form would do, 3 when a probe finds a
 * fault, 1 when the logits are not the same, 2 when something cannot be used. */
#include "runtime/model/probe.h"
#include "runtime/model/model.h"
#include "runtime/model/model_load.h"
#include "runtime/step/step_ahead.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 512, DIFFERENT = 1, UNUSABLE = 2, FAULT = 3 };

typedef struct job {
    const char *plan;
    uint32_t tokens[MAX_TOKENS], n;
    float *rows[2]; /* [n - n / 2, vocab], without and with probes */
    size_t size;    /* bytes of one of them */
    bool fault;
} job;

static dop_status
keep(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag)
{
    float **at = user;
    (void)first, (void)diag;
    memcpy(at[0], rows, n_rows * (size_t)(at[1] - at[0]) * sizeof *rows);
    size_t vocab = (size_t)(at[1] - at[0]);
    at[0] += n_rows * vocab;
    at[1] += n_rows * vocab;
    return DOP_OK;
}

static dop_status
probe_at(job *j, dop_model *m, uint32_t pos, dop_diag *diag)
{
    dop_probe_result r;
    dop_status st = dop_probe_run(m, DOP_ORDER_PERSISTENT, pos, diag, &r);
    if (st != DOP_OK)
        return st;
    printf("position %u: logits %.2e standard deviations apart, %.2e allowed: %s\n", pos, r.distance, r.bound,
           r.fault ? r.fault : "ok");
    j->fault = j->fault || r.fault;
    return DOP_OK;
}

/* Steps of rows, which have forms of their own. */
static dop_status
probe_rows(job *j, dop_model *m, dop_diag *diag)
{
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < m->plan.n_schedules && st == DOP_OK; i++) {
        const dop_plan_schedule *s = &m->plan.schedules[i];
        dop_probe_result r;
        if (s->kind != DOP_SCHED_ROWS || s->ordering != DOP_ORDER_BARRIERS || s->max_rows > DOP_STEP_SEVERAL ||
            m->orders.several[s->max_rows - 1].schedule == UINT32_MAX)
            continue;
        if ((st = dop_model_need(m, i, diag)) == DOP_OK &&
            (st = dop_model_need(m, m->orders.several[s->max_rows - 1].schedule, diag)) == DOP_OK)
            st = dop_probe_rows(m, i, m->orders.several[s->max_rows - 1].schedule, diag, &r);
        if (st != DOP_OK)
            return st;
        printf("%u rows: logits %.2e standard deviations apart, %.2e allowed: %s\n", s->max_rows, r.distance, r.bound,
               r.fault ? r.fault : "ok");
        j->fault = j->fault || r.fault;
    }
    return st;
}

static dop_status
run(job *j, bool probes, dop_diag *diag)
{
    dop_model *m = NULL;
    dop_sequence *s = NULL;
    dop_model_info info;
    uint32_t half = j->n / 2;
    dop_status st = dop_model_open(j->plan, &(dop_open_options){.ordering = DOP_ORDERING_PERSISTENT}, diag, &m);
    if (st != DOP_OK || (st = dop_sequence_create(m, diag, &s)) != DOP_OK)
        goto error;
    dop_model_describe(m, &info);
    size_t vocab = info.plan->model->vocab;
    j->size = (j->n - half) * vocab * sizeof(float);
    if (!(j->rows[probes] = malloc(j->size))) {
        st = DOP_NO_MEMORY(diag);
        goto error;
    }
    float *at[2] = {j->rows[probes], j->rows[probes] + vocab};
    if ((st = dop_sequence_feed(s, j->tokens, half, diag)) != DOP_OK || (st = dop_step_drain(m, diag)) != DOP_OK)
        goto error;
    if (probes && ((st = probe_at(j, m, 0, diag)) != DOP_OK || (st = probe_at(j, m, half, diag)) != DOP_OK ||
                   (st = probe_rows(j, m, diag)) != DOP_OK))
        goto error;
    st = dop_sequence_score(s, j->tokens + half, j->n - half, keep, at, diag);
error:
    dop_model_close(m);
    return st;
}

int
main(int argc, char **argv)
{
    static job j;
    dop_diag diag = {0};
    FILE *f = argc == 3 ? fopen(argv[2], "r") : NULL;
    while (f && j.n < MAX_TOKENS && fscanf(f, "%u", &j.tokens[j.n]) == 1)
        j.n++;
    if (f)
        fclose(f);
    if (j.n < 2) {
        fprintf(stderr, "usage: probe PLAN TOKENS\n");
        return UNUSABLE;
    }
    j.plan = argv[1];
    if (run(&j, false, &diag) != DOP_OK || run(&j, true, &diag) != DOP_OK) {
        fprintf(stderr, "probe: %s\n", diag.message);
        return UNUSABLE;
    }
    bool same = memcmp(j.rows[0], j.rows[1], j.size) == 0;
    if (!same)
        fprintf(stderr, "probe: the sequence has other logits after a probe\n");
    free(j.rows[0]);
    free(j.rows[1]);
    return !same ? DIFFERENT : j.fault ? FAULT : 0;
}
