/* Prints what the layer of a plan that drafts was given, and what it made of it, as JSON.
 *
 *   heads PLAN SEED TOKENS DRAFTS
 *
 * Feeds random tokens in pieces of random size, picks one more, and drafts.  "tokens": also the one that was picked; "hidden": a state for
 * each token that was fed; "ids" and "logits": of each draft, whose state is that behind the draft before.  tests/tools/draft_reference.py,
 * eagle.py and assistant.py compute the latter from the former. */
#include "plan/plan_names.h"
#include "runtime/model/model_used.h"
#include "runtime/step/speculator.h"
#include "runtime/step/step.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
ok(dop_status st, const dop_diag *diag)
{
    if (st == DOP_OK)
        return;
    printf("%s\n", diag->message);
    exit(1);
}

static uint32_t
next(uint64_t *x, uint32_t n)
{
    *x = *x * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*x >> 33) % n;
}

static void
print(const char *name, const float *x, size_t n)
{
    printf("\"%s\": [", name);
    for (size_t i = 0; i < n; i++)
        printf("%s%.9g", i ? ", " : "", (double)x[i]);
    printf("],\n");
}

int
main(int argc, char **argv)
{
    dop_diag diag = {0};
    dop_model *m = NULL;
    dop_sequence *s = NULL;
    if (argc != 5)
        return 2;
    uint64_t x = strtoull(argv[2], NULL, 10);
    const uint32_t n = (uint32_t)atoi(argv[3]), most = (uint32_t)atoi(argv[4]);
    ok(dop_model_open(argv[1], NULL, &diag, &m), &diag);
    const uint32_t vocab = m->plan.model->vocab;
    const size_t hidden = m->plan.model->hidden;
    ok(dop_sequence_create(m, &diag, &s), &diag);
    ok(dop_sequence_set_speculation(s, &(dop_speculation){.own = true}, &diag), &diag);
    for (uint32_t fed = 0, piece; fed < n; fed += piece) {
        uint32_t ids[64];
        piece = 1 + next(&x, 12);
        piece = piece < n - fed ? piece : n - fed;
        for (uint32_t i = 0; i < piece; i++)
            ids[i] = next(&x, vocab);
        ok(dop_sequence_feed(s, ids, piece, &diag), &diag);
    }
    uint32_t id, ids[8];
    ok(dop_sequence_next(s, &diag, &id), &diag);
    if (s->head->n_done || s->head->n_rows != n || n > DOP_DRAFT_EACH || most > 8)
        return 2;
    printf("{\"tokens\": [");
    for (uint32_t i = 0; i <= n; i++)
        printf("%s%u", i ? ", " : "", s->tokens[i]);
    printf("],\n");
    print("hidden", s->head->rows, n * hidden);
    for (uint32_t k = 1; k <= most; k++) { /* the logits of the last draft are those that are left */
        uint32_t made;
        char name[16];
        s->head->n_done = 0;
        s->head->n_rows = n;
        ok(dop_head_draft(s, k, &diag, ids, &made), &diag);
        if (made != k)
            return 2;
        const bool one = k > 1 || dop_plan_program_of(&m->plan, DOP_SCHED_DRAFT)->stays;
        const uint32_t schedule = dop_model_schedule_for(m, DOP_SCHED_DRAFT, one ? 1 : n);
        snprintf(name, sizeof name, "logits%u", k);
        ok(dop_replay_fetch_logits(&m->replay, schedule, 0, &diag), &diag); /* the last row comes first */
        print(name, dop_model_logits(m, schedule),
              dop_plan_result_row_bytes(&m->plan, &m->plan.schedules[schedule]) / sizeof(float));
    }
    printf("\"ids\": [");
    for (uint32_t i = 0; i < most; i++)
        printf("%s%u", i ? ", " : "", ids[i]);
    printf("]}\n");
    dop_sequence_destroy(s);
    dop_model_close(m);
    return 0;
}
