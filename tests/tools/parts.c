/* A plan in parts, all of them in this process, against the plan of the whole model: the same bits.
 *
 *   parts PLAN PARTS N [TOKENS [barriers|persistent|near [STEPS]]]
 *
 * The same tokens go through both, in steps of every size that the plan has schedules for: chunks of a prompt, single
 * tokens, rows that all have logits, and rows of several sequences beside each other where the plan holds several.
 * What a part sends is copied to the next by hand.  Prints what was compared.  With `persistent` single tokens are decoded
 * in that ordering, once a probe has found nothing wrong with it.  With `near`, for parts of different targets, logits may
 * be 1e-3 standard deviations of their row apart.  STEPS: so many single tokens are timed. */
#include "plan/disasm.h"
#include "plan/plan_names.h"
#include "runtime/model/model_used.h"
#include "runtime/model/ordering.h"
#include "runtime/model/part.h"
#include "runtime/step/sequence_pages.h"
#include "runtime/step/step.h"
#include "runtime/step/step_ahead.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SEQUENCES = 3 };

typedef struct side {
    uint32_t n; /* models, 1: the whole one */
    dop_model *m[DOP_MAX_PARTS];
    dop_sequence *s[DOP_MAX_PARTS][MAX_SEQUENCES];
} side;

typedef struct test {
    side whole, parts;
    dop_diag diag;
    uint32_t n_sequences, fed[MAX_SEQUENCES];
    uint32_t steps, values, most_values;
    uint64_t crossed;
    bool persistent, near;
} test;

static void
ok(test *t, dop_status st, const char *what)
{
    if (st == DOP_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, t->diag.message);
    exit(1);
}

static void
open_side(test *t, side *x, const char *path, uint32_t n)
{
    x->n = n;
    for (uint32_t i = 0; i < n; i++) {
        const dop_open_options o = {.parts = n > 1 ? n : 0,
                                    .part = i,
                                    .ordering = t->persistent ? DOP_ORDERING_PERSISTENT : DOP_ORDERING_BARRIERS};
        ok(t, dop_model_open(path, &o, &t->diag, &x->m[i]), path);
        if (t->persistent) {
            ok(t, dop_model_probe(x->m[i], 0, &t->diag), "a probe");
            if (x->m[i]->orders.decode[DOP_ORDER_PERSISTENT] == UINT32_MAX) {
                fprintf(stderr, "a probe of part %u finds a fault\n", i);
                exit(1);
            }
            dop_model_use_ordering(x->m[i], DOP_ORDER_PERSISTENT);
        }
        t->n_sequences = x->m[i]->plan.model->n_sequences;
        t->n_sequences = t->n_sequences < MAX_SEQUENCES ? t->n_sequences : MAX_SEQUENCES;
        for (uint32_t k = 0; k < t->n_sequences; k++)
            ok(t, dop_sequence_create(x->m[i], &t->diag, &x->s[i][k]), "a sequence");
    }
}

static uint32_t
token(const test *t, uint32_t sequence, uint32_t pos)
{
    return (uint32_t)((pos * 2654435761u + sequence * 40503u) >> 7) % t->whole.m[0]->plan.model->vocab;
}

/* Copies what part i has sent to part i + 1. */
static void
hand_over(test *t, uint32_t i, uint32_t from, uint32_t to, uint32_t n_rows)
{
    dop_part_value out[DOP_PART_MAX_VALUES], in[DOP_PART_MAX_VALUES];
    const uint32_t n = dop_part_outputs(t->parts.m[i], from, out);
    if (n == 0 || n != dop_part_inputs(t->parts.m[i + 1], to, in)) {
        printf("part %u sends %u values, and part %u receives others\n", i, n, i + 1);
        exit(1);
    }
    t->most_values = n > t->most_values ? n : t->most_values;
    for (uint32_t k = 0; k < n; k++) {
        if (strcmp(out[k].name, in[k].name) != 0 || out[k].row_bytes != in[k].row_bytes ||
            out[k].one_row != in[k].one_row || out[k].type != in[k].type) {
            printf("part %u sends %s, and part %u receives %s\n", i, out[k].name, i + 1, in[k].name);
            exit(1);
        }
        const uint64_t bytes = out[k].row_bytes * (out[k].one_row ? 1 : n_rows);
        memcpy(in[k].bytes, out[k].bytes, bytes);
        t->crossed += bytes;
        t->values++;
    }
}

/* One step of a sequence by each model of a side; returns logits. */
static const float *
run_one(test *t, side *x, uint32_t k, uint32_t kind, uint32_t max_rows, uint32_t n)
{
    uint32_t before = 0, schedule = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        dop_sequence *s = x->s[i][k];
        schedule = dop_model_schedule_of(x->m[i], kind, max_rows);
        if (kind == DOP_SCHED_DECODE)
            schedule = dop_step_decode_at(x->m[i], s->n_tokens, 1);
        for (uint32_t j = 0; j < n; j++)
            s->tokens[s->n_tokens + j] = token(t, k, s->n_tokens + j);
        if (i > 0)
            hand_over(t, i - 1, before, schedule, n);
        ok(t, dop_step_finish(s, n, s->n_tokens, DOP_FORM_READ, &schedule, &t->diag), "a step");
        s->n_kept = s->n_tokens;
        s->n_tokens += n;
        s->n_fed = s->n_tokens;
        before = schedule;
    }
    return dop_replay_logits(&x->m[x->n - 1]->replay, schedule);
}

/* One step with a row, or two, of each sequence. */
static const float *
run_rows(test *t, side *x, uint32_t max_rows, uint32_t n_rows)
{
    uint32_t before = 0, schedule = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        dop_model *m = x->m[i];
        volatile dop_step *step = dop_replay_step(&m->replay);
        schedule = dop_model_schedule_of(m, DOP_SCHED_ROWS, max_rows);
        ok(t, dop_step_drain(m, &t->diag), "waiting");
        step->n_rows = n_rows;
        step->flags = 0;
        for (uint32_t r = 0, k; r < n_rows; r++) { /* rows of a sequence stand together */
            k = r * t->n_sequences / n_rows;
            dop_sequence *s = x->s[i][k];
            step->parity[s->place] = m->parity[s->place];
            s->tokens[s->n_tokens] = token(t, k, s->n_tokens);
            ok(t, dop_sequence_reserve(s, s->n_tokens, s->n_tokens + 1, &t->diag), "a page");
            step->rows[r].token = s->tokens[s->n_tokens];
            step->rows[r].position = s->n_tokens;
            step->rows[r].sequence = s->place;
            step->rows[r].flags = 0;
            s->n_tokens++;
            s->n_fed = s->n_tokens;
        }
        if (i > 0)
            hand_over(t, i - 1, before, schedule, n_rows);
        dop_issue run = {.schedule = schedule, .form = DOP_FORM_READ, .own = true};
        ok(t, dop_step_issue(m, NULL, 0, &run, &t->diag), "a step of rows");
        ok(t, dop_replay_wait(&m->replay, run.ticket, &t->diag), "a step of rows");
        for (uint32_t k = 0; k < t->n_sequences; k++)
            dop_step_move_states(m, x->s[i][k]->place, 1);
        before = schedule;
    }
    return dop_replay_logits(&x->m[x->n - 1]->replay, schedule);
}

/* The largest difference, in standard deviations of its row. */
static double
distance(const float *a, const float *b, uint32_t rows, uint32_t vocab)
{
    double worst = 0;
    for (uint32_t r = 0; r < rows; r++) {
        double sum = 0, squares = 0, most = 0;
        for (uint32_t i = r * vocab; i < (r + 1) * vocab; i++) {
            const double x = (double)a[i], d = fabs(x - (double)b[i]);
            sum += x;
            squares += x * x;
            most = d <= most ? most : d; /* NaN too */
        }
        most /= sqrt(squares / vocab - sum / vocab * (sum / vocab));
        worst = most <= worst ? worst : most;
    }
    return worst;
}

static void
same(test *t, const float *whole, const float *parts, uint32_t rows, const char *what)
{
    const uint32_t vocab = t->whole.m[0]->plan.model->vocab;
    t->steps++;
    if (memcmp(whole, parts, (size_t)rows * vocab * sizeof *whole) == 0)
        return;
    if (t->near && distance(whole, parts, rows, vocab) <= 1e-3)
        return;
    for (uint32_t i = 0; i < rows * vocab; i++)
        if (memcmp(&whole[i], &parts[i], sizeof *whole) != 0) {
            printf("%s: logit %u of row %u is %.9g in parts and %.9g in one\n", what, i % vocab, i / vocab,
                   (double)parts[i], (double)whole[i]);
            exit(1);
        }
}

/* A step of every schedule of a kind, as far as the context goes. */
static void
step_schedules(test *t, uint32_t left)
{
    const dop_model *m = t->whole.m[0];
    for (uint32_t i = 0; i < m->used.n; i++) {
        const dop_plan_schedule *row = &m->plan.schedules[m->used.schedules[i]];
        uint32_t n = row->max_rows > 1 ? row->max_rows - 1 : 1;
        char what[DOP_SCHEDULE_NAME];
        dop_plan_schedule_name(row, what);
        n = n < left ? n : left;
        if (row->ordering != DOP_ORDER_BARRIERS || row->kind == DOP_SCHED_EMBED)
            continue;
        if (row->kind == DOP_SCHED_ROWS) {
            n = n > 2 * t->n_sequences ? 2 * t->n_sequences : n;
            n = n < t->n_sequences ? row->max_rows : n;
            if (n < t->n_sequences)
                continue;
            same(t, run_rows(t, &t->whole, row->max_rows, n), run_rows(t, &t->parts, row->max_rows, n), n, what);
            continue;
        }
        for (uint32_t k = 0; k < t->n_sequences; k++)
            same(t, run_one(t, &t->whole, k, row->kind, row->max_rows, n),
                 run_one(t, &t->parts, k, row->kind, row->max_rows, n), dop_plan_logit_rows(row) > 1 ? n : 1, what);
    }
}

/* What a token takes by all models of a side, one after the other. */
static double
time_decoding(test *t, side *x, uint32_t steps)
{
    double start = 0;
    for (uint32_t i = 0; i < 8 + steps; i++) {
        start = i == 8 ? dop_now_ms() : start;
        (void)run_one(t, x, 0, DOP_SCHED_DECODE, 1, 1);
    }
    return (dop_now_ms() - start) / steps;
}

int
main(int argc, char **argv)
{
    static test t;
    if (argc < 4)
        return 2;
    t.persistent = argc > 5 && strcmp(argv[5], "persistent") == 0;
    t.near = argc > 5 && strcmp(argv[5], "near") == 0;
    open_side(&t, &t.whole, argv[1], 1);
    open_side(&t, &t.parts, argv[2], (uint32_t)strtoul(argv[3], NULL, 10));
    const uint32_t left = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) : 9;
    step_schedules(&t, left);
    step_schedules(&t, left); /* again: on states that are not empty, in the other copy of those that steps replace */
    printf("%u parts: %s in %u steps; %u values crossed, up to %u at a cut, %llu bytes\n", t.parts.n,
           t.near ? "nearly the same" : "the same bits", t.steps, t.values, t.most_values,
           (unsigned long long)t.crossed);
    const uint32_t steps = argc > 6 ? (uint32_t)strtoul(argv[6], NULL, 10) : 0;
    if (steps)
        printf("ms a token: %.4f in one, ", time_decoding(&t, &t.whole, steps));
    if (steps)
        printf("%.4f in parts\n", time_decoding(&t, &t.parts, steps));
    for (uint32_t i = 0; i < t.parts.n; i++)
        dop_model_close(t.parts.m[i]);
    dop_model_close(t.whole.m[0]);
    return 0;
}
