/* Whole steps in another ordering against those by barriers: the kernels of a persistent dispatch cannot be run one by
 * one. */
#include "runtime/check.h"

#include "runtime/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Same weights, same values; sums in another order, and what is rounded on the way (8-bit activations, f16 caches) now and
 * then to the other side: the bound of logits with everything rounded that golden models have. */
static const double steps_bound = 2e-2;
enum { STEPS = 8 };

typedef struct steps {
    dop_session *session;
    size_t vocab;
    uint32_t second_half; /* position of the step STEPS / 2 */
    float *logits;        /* [STEPS][vocab] */
} steps;

/* Half of the steps are from the start, half around the position from which on a stage does something else. */
static uint32_t
second_half(const dop_plan *plan, uint32_t schedule)
{
    const dop_plan_schedule *s = &plan->schedules[schedule];
    uint32_t most = 0;
    for (uint32_t i = 0; i < s->n_stages; i++) {
        uint32_t positions = plan->dispatches[s->first_stage + i].short_positions;
        most = positions > most ? positions : most;
    }
    return most >= STEPS && most + STEPS <= plan->model->ctx ? most - STEPS / 4 : STEPS / 2;
}

static dop_status
run(const steps *x, uint32_t schedule, dop_diag *diag)
{
    dop_session *s = x->session;
    dop_status st = dop_session_need(s, schedule, diag);
    for (uint32_t i = 0; i < STEPS && st == DOP_OK; i++) {
        uint32_t token = (uint32_t)((i * 2654435761u) % x->vocab);
        uint64_t ticket;
        dop_session_write_step(s, &token, 1, i < STEPS / 2 ? i : x->second_half + i - STEPS / 2);
        if ((st = dop_session_submit(s, schedule, DOP_FORM_READ, 1, diag, &ticket)) == DOP_OK)
            st = dop_replay_wait(&s->replay, ticket, diag);
        s->picks_taken = s->picks_asked;
        if (st == DOP_OK && dop_session_stalled(s, s->picks_asked))
            st = DOP_FAIL(diag, DOP_E_DEVICE, "a wait ran out in a step that is ordered by %s",
                          dop_plan_ordering_name(s->plan.schedules[schedule].ordering));
        if (st == DOP_OK)
            memcpy(x->logits + i * x->vocab, dop_replay_logits(&s->replay, schedule), x->vocab * sizeof(float));
    }
    return st;
}

/* Largest difference in standard deviations of a step's logits. */
static double
worst(const float *a, const float *b, size_t vocab)
{
    double most = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        double sum = 0, squares = 0, difference = 0;
        for (size_t k = i * vocab; k < (i + 1) * vocab; k++) {
            double d = fabs((double)a[k] - (double)b[k]);
            sum += (double)a[k];
            squares += (double)a[k] * (double)a[k];
            difference = !(d <= difference) ? d : difference; /* NaN counts */
        }
        double mean = sum / (double)vocab, deviation = sqrt(squares / (double)vocab - mean * mean);
        double error = difference / (deviation > 0 ? deviation : 1);
        most = !(error <= most) ? error : most;
    }
    return most;
}

dop_status
dop_check_steps(dop_session *session, uint32_t ordering, dop_diag *diag, bool *out_miss)
{
    dop_session *s = session;
    size_t vocab = s->plan.model->vocab;
    float *logits = calloc(2 * STEPS * vocab, sizeof *logits);
    *out_miss = false;
    if (!logits)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    uint32_t half = second_half(&s->plan, s->decode[ordering]);
    dop_status st = run(&(steps){s, vocab, half, logits}, s->decode[DOP_ORDER_BARRIERS], diag);
    if (st == DOP_OK)
        st = run(&(steps){s, vocab, half, logits + STEPS * vocab}, s->decode[ordering], diag);
    if (st != DOP_OK)
        goto error;
    double error = worst(logits, logits + STEPS * vocab, vocab);
    *out_miss = !(error <= steps_bound);
    dop_buf line = {0};
    dop_buf_printf(&line, "%-4s  %-36s %-16s error %.2e  bound %.0e  %zu values\n", *out_miss ? "MISS" : "ok",
                   dop_plan_ordering_name(ordering), "steps", error, steps_bound, STEPS * vocab);
    st = line.failed ? DOP_FAIL(diag, DOP_E_NOMEM, "out of memory") : dop_cli_print(line.data, line.size, diag);
    dop_buf_finish(&line);
error:
    free(logits);
    return st;
}
