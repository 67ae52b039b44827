/* Several sequences whose steps have drafts by the plan's own layer, against each sequence alone without drafts.
 *
 *   herd PLAN SEQUENCES TOKENS SEED
 *
 * Each step has the last token of every sequence and a random number of drafts behind it; sequences begin at different times, and now and
 * then one goes back by some tokens. */
#include "runtime/step/speculator.h"
#include "runtime/step/step_ahead.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, PROMPT = 3, DRAFTS = 3, MOST_AGAIN = 4 };

typedef struct one {
    dop_sequence *s;
    uint32_t *text;        /* [n]: what it writes alone */
    uint32_t known, start; /* tokens that are known; step in which it begins */
    uint32_t drafts[DRAFTS], n_drafts, row;
} one;

typedef struct herd {
    dop_model *m;
    uint32_t count, n; /* sequences, tokens of each */
    uint64_t x, drafted, accepted, rows;
    one all[MOST];
} herd;

static void
ok(dop_status st, const dop_diag *diag)
{
    if (st == DOP_OK)
        return;
    printf("%s\n", diag->message);
    exit(1);
}

static uint32_t
next(herd *h, uint32_t n)
{
    h->x = h->x * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(h->x >> 33) % n;
}

/* Writes what each sequence gives alone. */
static void
write_alone(herd *h)
{
    dop_diag diag = {0};
    for (uint32_t i = 0; i < h->count; i++) {
        one *o = &h->all[i];
        o->text = calloc(h->n, sizeof *o->text);
        if (!o->text)
            exit(1);
        for (uint32_t k = 0; k < PROMPT; k++)
            o->text[k] = next(h, h->m->plan.model->vocab);
        ok(dop_sequence_create(h->m, &diag, &o->s), &diag);
        ok(dop_sequence_feed(o->s, o->text, PROMPT, &diag), &diag);
        for (uint32_t k = PROMPT; k < h->n; k++)
            ok(dop_sequence_next(o->s, &diag, &o->text[k]), &diag);
        ok(dop_sequence_rewind(o->s, 0, &diag), &diag);
        ok(dop_head_create(o->s, &diag), &diag);
        o->known = PROMPT;
        o->start = next(h, 4);
    }
}

static void
draft(herd *h, uint32_t step)
{
    dop_diag diag = {0};
    dop_draft_ask asks[MOST];
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->count; i++) {
        one *o = &h->all[i];
        o->n_drafts = 0;
        if (step < o->start || o->known + DRAFTS >= h->n || o->known - o->s->n_tokens > MOST_AGAIN)
            continue;
        memcpy(o->s->tokens + o->s->n_tokens, o->text + o->s->n_tokens, (o->known - o->s->n_tokens) * sizeof *o->text);
        asks[n++] = (dop_draft_ask){.sequence = o->s, .known = o->known, .most = next(h, DRAFTS + 1), .ids = o->drafts};
    }
    ok(dop_heads_draft(h->m, asks, n, &diag), &diag);
    for (uint32_t i = 0, k = 0; i < h->count && k < n; i++)
        if (h->all[i].s == asks[k].sequence)
            h->all[i].n_drafts = asks[k++].n;
}

/* One step; false: all texts are complete. */
static bool
run(herd *h, uint32_t step)
{
    static dop_step_row rows[MOST * (2 * DRAFTS + 2 + PROMPT)];
    dop_diag diag = {0};
    uint32_t n = 0;
    draft(h, step);
    for (uint32_t i = 0; i < h->count; i++) {
        one *o = &h->all[i];
        if (step < o->start || o->known == h->n)
            continue;
        for (uint32_t k = o->s->n_tokens; k < o->known; k++)
            rows[n++] = (dop_step_row){o->s, o->text[k], k + 1 == o->known ? DOP_WANTS_PICK : 0};
        o->row = n - 1;
        for (uint32_t k = 0; k < o->n_drafts; k++)
            rows[n++] = (dop_step_row){o->s, o->drafts[k], DOP_WANTS_PICK};
    }
    if (n == 0)
        return step < 4;
    h->rows = n > h->rows ? n : h->rows;
    ok(dop_step_run(h->m, rows, n, &diag), &diag);
    for (uint32_t i = 0; i < h->count; i++) {
        one *o = &h->all[i];
        if (step < o->start || o->known == h->n)
            continue;
        const uint32_t fed = o->known - o->s->n_tokens;
        uint32_t taken = 0;
        for (bool right = true; right; taken++) {
            const uint32_t id = dop_step_pick(h->m, o->row + taken);
            if (id != o->text[o->known]) {
                printf("sequence %u: token %u is %u instead of %u\n", i, o->known, id, o->text[o->known]);
                exit(1);
            }
            o->known++;
            right = taken < o->n_drafts && id == o->drafts[taken];
        }
        h->drafted += o->n_drafts;
        h->accepted += taken - 1;
        dop_step_keep(h->m, o->s, fed + taken - 1);
    }
    dop_step_commit(h->m);
    return true;
}

int
main(int argc, char **argv)
{
    static herd h;
    dop_diag diag = {0};
    if (argc != 5)
        return 2;
    h.count = (uint32_t)atoi(argv[2]);
    h.n = PROMPT + (uint32_t)atoi(argv[3]);
    h.x = strtoull(argv[4], NULL, 10) + 1;
    if (h.count > MOST)
        return 2;
    ok(dop_model_open(argv[1], NULL, &diag, &h.m), &diag);
    write_alone(&h);
    for (uint32_t step = 0; run(&h, step); step++) {
        one *o = &h.all[next(&h, h.count)];
        if (next(&h, 9) == 0 && o->s->n_tokens > PROMPT + 3) {
            o->known = o->s->n_tokens - next(&h, 3);
            ok(dop_sequence_rewind(o->s, o->known - 1, &diag), &diag);
        }
    }
    printf("%llu of %llu drafts accepted, up to %llu rows in a step\n", (unsigned long long)h.accepted,
           (unsigned long long)h.drafted, (unsigned long long)h.rows);
    for (uint32_t i = 0; i < h.count; i++)
        free(h.all[i].text);
    dop_model_close(h.m);
    return h.drafted > 0 ? 0 : 1;
}
