/* Sequences that go on with their own picks, with steps that run ahead of these and without: the picks are the same. */
#include "tests/tools/sequences/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
ok(state *t, dop_status st, const char *what)
{
    if (st == DOP_OK)
        return;
    printf("%s: %s\n", what, t->diag.message);
    exit(1);
}

bool
is_full(state *t, dop_status st, const char *what)
{
    if (st != DOP_E_FULL) {
        ok(t, st, what);
        return false;
    }
    memset(&t->diag, 0, sizeof t->diag);
    t->full++;
    return true;
}

void
must(bool good, const char *what)
{
    if (good)
        return;
    printf("failed: %s\n", what);
    exit(1);
}

uint32_t
pick(state *t, uint32_t n)
{
    t->x = t->x * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(t->x >> 33) % n;
}

void
check_tokens(state *t, uint32_t i)
{
    size_t n;
    const uint32_t *ids = dop_sequence_tokens(t->of[i].s, &n);
    must(n == t->of[i].n && memcmp(ids, t->text[t->of[i].text], n * sizeof *ids) == 0, "tokens of a sequence");
}

enum { SPEAKERS = 4, SAYS = 12 };

/* What happens in each step: who has a row, who says something else than the pick, and whether the step is taken back. */
typedef struct conversation {
    uint32_t n, of[SPEAKERS], n_steps;
    uint32_t ends; /* steps after which there was no page left; UINT32_MAX: there were enough */
    bool speaks[SAYS][SPEAKERS], other[SAYS][SPEAKERS], back[SAYS], draws;
    uint32_t said[SAYS][SPEAKERS];
} conversation;

static bool
begin_to_talk(state *t, const conversation *c, uint32_t *out_tokens)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const uint32_t text = t->of[c->of[i]].text, n = t->of[c->of[i]].n;
        const dop_sampling way = {.temperature = 1, .top_p = 1, .seed = i, .repeat_penalty = 1};
        dop_sequence *s = t->of[c->of[i]].s;
        ok(t, dop_sequence_rewind(s, 0, &t->diag), "rewind");
        if (is_full(t, dop_sequence_feed(s, t->text[text], n, &t->diag), "feed"))
            return false;
        out_tokens[i] = (t->text[text][n - 1] + 1) % t->facts.vocab;
        dop_sequence_expect(s, UINT32_MAX);
        dop_sequence_set_sampling(s, &way);
    }
    return true;
}

/* The first time steps may run ahead of the picks, the second time not. */
static void
converse(state *t, conversation *c, bool again)
{
    uint32_t token[SPEAKERS], speaker[SPEAKERS];
    if (!begin_to_talk(t, c, token))
        c->ends = 0;
    for (uint32_t k = 0; k < c->n_steps && k < c->ends; k++) {
        dop_step_row rows[SPEAKERS];
        uint32_t n = 0;
        for (uint32_t i = 0; i < c->n; i++) {
            if (!c->speaks[k][i])
                continue;
            dop_sequence_expect(t->of[c->of[i]].s, again ? 1 : UINT32_MAX);
            speaker[n] = i;
            rows[n++] = (dop_step_row){t->of[c->of[i]].s, token[i], c->draws ? DOP_WANTS_DRAW : DOP_WANTS_PICK};
        }
        if (n == 0)
            continue;
        if (is_full(t, dop_step_run(t->m, rows, n, &t->diag), "step")) {
            c->ends = k;
            return;
        }
        for (uint32_t r = 0; r < n; r++) {
            uint32_t id = dop_step_pick(t->m, r), *said = &c->said[k][speaker[r]];
            if (c->draws)
                ok(t, dop_step_sample(t->m, r, &t->diag, &id), "sample");
            must(!again || id == *said, "the same picks with steps that run ahead");
            *said = id;
            if (!c->back[k])
                token[speaker[r]] = c->other[k][speaker[r]] ? (id + 1) % t->facts.vocab : id;
        }
        if (c->back[k])
            dop_step_rollback(t->m);
        else
            dop_step_commit(t->m);
    }
}

/* Sequences leave, join and are contradicted at any time. */
void
talk_in_steps(state *t)
{
    conversation c = {
        .n_steps = 2 + pick(t, SAYS - 1), .ends = UINT32_MAX, .draws = dop_model_draws(t->m) && pick(t, 2)};
    const uint32_t most = dop_model_max_rows_of_several(t->m), first = pick(t, t->facts.n_sequences);
    for (uint32_t k = 0; k < t->facts.n_sequences && c.n < SPEAKERS && (c.n < most || c.n == 0); k++) {
        const uint32_t i = (first + k) % t->facts.n_sequences;
        if (t->of[i].s && t->of[i].n > 0 && (c.n == 0 || pick(t, 4) > 0))
            c.of[c.n++] = i;
    }
    for (uint32_t i = 0; i < c.n; i++) {
        ok(t, dop_sequence_set_speculation(t->of[c.of[i]].s, NULL, &t->diag), "speculation");
        ok(t, dop_sequence_set_mask(t->of[c.of[i]].s, NULL, &t->diag), "mask");
        free(t->of[c.of[i]].mask);
        t->of[c.of[i]].mask = NULL;
    }
    for (uint32_t k = 0; k < c.n_steps; k++) {
        c.back[k] = pick(t, 8) == 0;
        for (uint32_t i = 0; i < c.n; i++) {
            c.speaks[k][i] = k == 0 || (c.speaks[k - 1][i] ? pick(t, 8) > 0 : pick(t, 4) == 0);
            c.other[k][i] = pick(t, 12) == 0;
        }
    }
    converse(t, &c, false);
    converse(t, &c, true);
    for (uint32_t i = 0; i < c.n; i++) {
        size_t n;
        dop_sequence_set_sampling(t->of[c.of[i]].s, &(dop_sampling){.repeat_penalty = 1});
        dop_sequence_expect(t->of[c.of[i]].s, UINT32_MAX);
        (void)dop_sequence_tokens(t->of[c.of[i]].s, &n);
        if (n < t->of[c.of[i]].n) /* there were no pages */
            t->of[c.of[i]].n = (uint32_t)n;
        ok(t, dop_sequence_rewind(t->of[c.of[i]].s, t->of[c.of[i]].n, &t->diag), "rewind");
        check_tokens(t, c.of[i]);
    }
}
