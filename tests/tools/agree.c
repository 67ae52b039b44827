/* Feeds the same tokens through every schedule of a plan and compares the logits.
 *
 *   agree PLAN TOKENS BOUND [REFERENCE]
 *
 * TOKENS is a file with ids.  Token by token with the decode schedule gives what everything else is compared with: the
 * last row of every chunk of every prefill schedule, and every row of every score schedule.  REFERENCE (f32 rows, for the
 * first tokens) is compared with the decode rows.  Every logit must be within BOUND standard deviations of all logits.
 *
 * Exit status 0 when they agree, 1 when they do not, 2 when something cannot be used. */
#include "runtime/model/model.h"
#include "runtime/step/step.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 512, UNUSABLE = 2 };

typedef struct comparison {
    dop_model *m;
    dop_sequence *sequence;
    uint32_t tokens[MAX_TOKENS], n, vocab;
    float *rows; /* [n, vocab] of the decode schedule */
    double std, bound;
    uint32_t parity; /* of the next step */
    bool miss;
} comparison;

static int
fail(const char *what, const char *why)
{
    fprintf(stderr, "agree: %s: %s\n", what, why);
    return UNUSABLE;
}

static bool
read_tokens(const char *path, comparison *c)
{
    FILE *f = fopen(path, "r");
    while (f && c->n < MAX_TOKENS && fscanf(f, "%u", &c->tokens[c->n]) == 1)
        c->n++;
    if (f)
        fclose(f);
    return c->n > 1;
}

/* Logits of one replay: of its last token, or of all with a score schedule. */
static dop_status
replay(comparison *c, uint32_t schedule, uint32_t pos, uint32_t n, dop_diag *diag, const float **out_rows)
{
    dop_issue run = {.schedule = schedule, .form = DOP_FORM_READ, .own = true};
    dop_replay_write_step(&c->m->replay, c->tokens + pos, n, pos, c->parity);
    c->parity ^= 1u;
    dop_status st = dop_step_issue(c->m, NULL, 0, &run, diag);
    if (st == DOP_OK)
        st = dop_replay_wait(&c->m->replay, run.ticket, diag);
    *out_rows = dop_replay_logits(&c->m->replay, schedule);
    return st;
}

static double
worst_of(const comparison *c, const float *got, uint32_t first, uint32_t n)
{
    double worst = 0;
    const float *want = c->rows + (size_t)first * c->vocab;
    for (size_t i = 0; i < (size_t)n * c->vocab; i++) {
        double d = fabs((double)got[i] - (double)want[i]) / c->std;
        if (!(d <= worst)) /* a NaN is the worst, and stays */
            worst = d;
        if (isnan(d))
            return INFINITY;
    }
    return worst;
}

static void
report(comparison *c, const char *what, uint32_t tokens, double worst)
{
    bool ok = worst <= c->bound;
    printf("%s: %s", ok ? "ok" : "MISS", what);
    if (tokens)
        printf(" of %u", tokens);
    printf(": worst %.3g x std, bound %.3g\n", worst, c->bound);
    c->miss = c->miss || !ok;
}

static dop_status
decode_all(comparison *c, dop_diag *diag)
{
    double sum = 0, squares = 0, count = (double)c->n * c->vocab;
    for (uint32_t i = 0; i < c->n; i++) {
        const float *row;
        dop_status st = replay(c, c->m->orders.decode[DOP_ORDER_BARRIERS], i, 1, diag, &row);
        if (st != DOP_OK)
            return st;
        memcpy(c->rows + (size_t)i * c->vocab, row, c->vocab * sizeof *row);
        for (uint32_t k = 0; k < c->vocab; k++) {
            sum += (double)row[k];
            squares += (double)row[k] * (double)row[k];
        }
    }
    c->std = sqrt(squares / count - sum / count * (sum / count));
    return c->std > 0 ? DOP_OK : DOP_FAIL(diag, DOP_E_INPUT, "the logits are all equal");
}

static dop_status
compare_schedule(comparison *c, uint32_t schedule, dop_diag *diag)
{
    const dop_plan_schedule *row = &c->m->plan.schedules[schedule];
    bool score = row->kind == DOP_SCHED_SCORE;
    double worst = 0;
    uint64_t ticket;
    dop_status st = dop_replay_clear(&c->m->replay, DOP_CLEAR_STATE, diag, &ticket);
    if (st == DOP_OK)
        st = dop_replay_wait(&c->m->replay, ticket, diag);
    c->parity = 0;
    for (uint32_t pos = 0; pos < c->n && st == DOP_OK; pos += row->max_rows) {
        uint32_t n = c->n - pos < row->max_rows ? c->n - pos : row->max_rows;
        const float *got;
        st = replay(c, schedule, pos, n, diag, &got);
        double w = st == DOP_OK ? worst_of(c, got, score ? pos : pos + n - 1, score ? n : 1) : 0;
        worst = w > worst ? w : worst;
    }
    if (st == DOP_OK)
        report(c, score ? "decode and score" : "decode and prefill", row->max_rows, worst);
    return st;
}

static dop_status
compare_reference(comparison *c, const char *path, dop_diag *diag)
{
    dop_map map;
    dop_status st = dop_map_open(path, diag, &map);
    if (st != DOP_OK)
        return st;
    size_t row = c->vocab * sizeof(float);
    if (map.size % row != 0 || map.size / row == 0 || map.size / row > c->n)
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "not rows of %u logits for these tokens", c->vocab);
    else
        report(c, "decode and reference", 0,
               worst_of(c, (const float *)(const void *)map.data, 0, (uint32_t)(map.size / row)));
    dop_map_close(&map);
    return st;
}

int
main(int argc, char **argv)
{
    static comparison c;
    dop_diag diag = {0};
    dop_model_info info;
    if (argc < 4 || argc > 5)
        return fail("usage", "agree PLAN TOKENS BOUND [REFERENCE]");
    c.bound = atof(argv[3]);
    if (!read_tokens(argv[2], &c))
        return fail(argv[2], "no ids");
    dop_status st = dop_model_open(argv[1], &(dop_open_options){.ordering = DOP_ORDERING_BARRIERS}, &diag, &c.m);
    if (st != DOP_OK)
        return fail(argv[1], diag.message);
    if ((st = dop_sequence_create(c.m, &diag, &c.sequence)) != DOP_OK)
        return fail(argv[1], diag.message);
    dop_model_describe(c.m, &info);
    c.vocab = info.plan->model->vocab;
    c.rows = calloc((size_t)c.n * c.vocab, sizeof *c.rows);
    if (!c.rows || c.n > info.plan->model->ctx)
        st = DOP_FAIL(&diag, DOP_E_INPUT, "%u tokens do not fit", c.n);
    uint32_t others = 0;
    if (st == DOP_OK)
        st = decode_all(&c, &diag);
    for (uint32_t i = 0; i < info.plan->n_schedules && st == DOP_OK; i++) {
        const dop_plan_schedule *row = &info.plan->schedules[i];
        if (row->profile == info.profile && row->kind != DOP_SCHED_DECODE && row->ordering == DOP_ORDER_BARRIERS) {
            st = compare_schedule(&c, i, &diag);
            others++;
        }
    }
    if (st == DOP_OK && argc == 5)
        st = compare_reference(&c, argv[4], &diag);
    dop_model_close(c.m);
    free(c.rows);
    if (st != DOP_OK)
        return fail(argv[1], diag.message);
    return c.miss || others < 2;
}
