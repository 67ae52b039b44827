/* Texts with drafts, against the same texts without.
 *
 *   drafts PLAN TOKENS SEED [DRAFT_PLAN|own|none [persistent]]
 *
 * The plain text of so many greedy tokens is the drafts' source, a part of which is made wrong; now and then the text is rewound
 * in the middle of what a round gave.  Then, with a draft plan, the same by its drafts, or with `own` by those of the plan's own
 * layer.  How many drafts there are depends on times, so these are given: rounds pay as long as a third of the drafts are right.
 * With `persistent` all steps are in that order that can be. */
#include "runtime/step/speculator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 3 };

typedef struct state {
    uint32_t *text; /* of n tokens, with the prompt */
    uint32_t n, vocab, percent;
    uint64_t x;
} state;

static uint32_t
pick(state *t, uint32_t n)
{
    t->x = t->x * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(t->x >> 33) % n;
}

static dop_status
recall(void *user, const uint32_t *tokens, size_t n_tokens, uint32_t most, dop_diag *diag, uint32_t *out_ids,
       uint32_t *out_n)
{
    state *t = user;
    (void)tokens;
    (void)diag;
    *out_n = most < t->n - n_tokens ? most : t->n - (uint32_t)n_tokens;
    for (uint32_t i = 0; i < *out_n; i++)
        out_ids[i] = pick(t, 100) < t->percent ? t->text[n_tokens + i] : pick(t, t->vocab);
    return DOP_OK;
}

static void
ok(dop_status st, const dop_diag *diag)
{
    if (st == DOP_OK)
        return;
    printf("%s\n", diag->message);
    exit(1);
}

static double
stands_still(void)
{
    return 0;
}

static void
give_times(dop_speculator *p)
{
    p->now_ms = stands_still;
    p->policy.token.ms = 1;
    for (uint32_t i = 0; i < p->policy.n_sizes; i++)
        p->policy.sizes[i].time.ms = 1.3;
}

/* The text once more, with speculation; false: another one. */
static bool
compare(state *t, dop_sequence *s, const dop_speculation *how, const char *what)
{
    dop_diag diag = {0};
    uint32_t id, n = PROMPT, alone = 0; /* tokens that came from no round */
    ok(dop_sequence_rewind(s, 0, &diag), &diag);
    ok(dop_sequence_set_speculation(s, how, &diag), &diag);
    give_times(s->speculator);
    ok(dop_sequence_feed(s, t->text, PROMPT, &diag), &diag);
    while (n < t->n) {
        const bool made = s->speculator->known > n;
        const dop_speculation_counts before = s->speculator->counts;
        ok(dop_sequence_next(s, &diag, &id), &diag);
        alone += !made && s->speculator->counts.steps == before.steps && s->speculator->counts.again == before.again;
        if (id != t->text[n]) {
            printf("%s: token %u is %u instead of %u\n", what, n, id, t->text[n]);
            return false;
        }
        n++;
        if (pick(t, 12) == 0 && n > PROMPT + 2) {
            n -= pick(t, 2);
            ok(dop_sequence_rewind(s, n, &diag), &diag);
        }
    }
    dop_speculation_counts c = dop_sequence_speculation_counts(s);
    printf("%s: %llu of %llu drafts accepted in %llu steps, %llu picks made again, %u tokens without drafts\n", what,
           (unsigned long long)c.accepted, (unsigned long long)c.drafted, (unsigned long long)c.steps,
           (unsigned long long)c.again, alone);
    return c.accepted > 0;
}

int
main(int argc, char **argv)
{
    dop_diag diag = {0};
    dop_model *m, *small = NULL;
    dop_sequence *s, *d;
    dop_facts facts;
    if (argc < 4)
        return 2;
    const bool persistent = argc > 5 && strcmp(argv[5], "persistent") == 0;
    const dop_open_options how = {.ordering = persistent ? DOP_ORDERING_PERSISTENT : DOP_ORDERING_AUTO};
    ok(dop_model_open(argv[1], &how, &diag, &m), &diag);
    dop_model_facts(m, &facts);
    state t = {.n = PROMPT + (uint32_t)atoi(argv[2]), .vocab = facts.vocab, .percent = 75};
    t.x = strtoull(argv[3], NULL, 10) + 1;
    t.text = calloc(t.n, sizeof *t.text);
    if (!t.text)
        return 1;
    for (uint32_t i = 0; i < PROMPT; i++)
        t.text[i] = pick(&t, t.vocab);
    ok(dop_sequence_create(m, &diag, &s), &diag);
    ok(dop_sequence_feed(s, t.text, PROMPT, &diag), &diag);
    for (uint32_t n = PROMPT; n < t.n; n++)
        ok(dop_sequence_next(s, &diag, &t.text[n]), &diag);
    bool good = compare(&t, s, &(dop_speculation){.fn = recall, .user = &t}, "recalled");
    if (good && argc > 4 && strcmp(argv[4], "own") == 0)
        good = compare(&t, s, &(dop_speculation){.own = true}, "of its own layer");
    else if (good && argc > 4 && strcmp(argv[4], "none") != 0) {
        ok(dop_model_open(argv[4], NULL, &diag, &small), &diag);
        ok(dop_sequence_create(small, &diag, &d), &diag);
        good = compare(&t, s, &(dop_speculation){.draft = d}, "of another plan");
    }
    dop_model_close(m);
    dop_model_close(small);
    free(t.text);
    return good ? 0 : 1;
}
