/* Texts that share a long beginning and part, all of them at once, on the memory of one and of their own ends.
 *
 *   branches PLAN SEQUENCES SHARED OWN WRITTEN SEED [CHUNK]    (SHARED, OWN, WRITTEN: tokens)
 *
 * One sequence reads the shared tokens; the others find them there.  Then each reads tokens of its own, and all of them write in steps
 * that they share.  Each must write what a sequence writes that has read everything alone, no token of the beginning may be read twice but
 * less than CHUNK tokens (default 64), and the pages in use are those of one beginning and of the ends.  Uses the public
 * interface only. */
#include <doppler/doppler.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, MOST_TOKENS = 1 << 16 };

typedef struct branch {
    dop_sequence *s;
    uint32_t *ids; /* [shared + own + written]: the prompt, and what a sequence alone writes */
} branch;

typedef struct tree {
    dop_model *m, *alone;
    dop_diag diag;
    uint32_t n, shared, own, written, chunk, vocab;
    uint64_t x;
    branch of[MOST];
} tree;

static void
ok(const tree *t, dop_status st, const char *what)
{
    if (st == DOP_OK)
        return;
    printf("%s: %s\n", what, t->diag.message);
    exit(1);
}

static uint32_t
pick(tree *t)
{
    t->x = t->x * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(t->x >> 33) % t->vocab;
}

/* Makes the prompts, and writes what follows each in a model that shares nothing. */
static void
write_alone(tree *t)
{
    const uint32_t n = t->shared + t->own;
    dop_sequence *s;
    ok(t, dop_sequence_create(t->alone, &t->diag, &s), "create");
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t *ids = t->of[i].ids = calloc(n + t->written, sizeof *ids);
        if (!ids)
            exit(1);
        for (uint32_t k = 0; k < n; k++)
            ids[k] = i > 0 && k < t->shared ? t->of[0].ids[k] : pick(t);
        ids[t->shared] = i % t->vocab; /* there they part */
        ok(t, dop_sequence_rewind(s, 0, &t->diag), "rewind");
        ok(t, dop_sequence_feed(s, ids, n, &t->diag), "feed");
        for (uint32_t k = n; k < n + t->written; k++)
            ok(t, dop_sequence_next(s, &t->diag, &ids[k]), "next");
    }
}

/* Reads the prompts; returns how many tokens of the beginning were read more than once. */
static uint64_t
read_all(tree *t)
{
    const uint32_t n = t->shared + t->own;
    uint64_t twice = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        branch *b = &t->of[i];
        size_t found = 0;
        ok(t, dop_sequence_create(t->m, &t->diag, &b->s), "create");
        if (i == 0)
            ok(t, dop_sequence_feed(b->s, b->ids, t->shared, &t->diag), "feed");
        else
            ok(t, dop_sequence_reuse(b->s, b->ids, n, &t->diag, &found), "reuse");
        found = i == 0 ? t->shared : found;
        if (found + t->chunk < t->shared) {
            printf("branch %u finds %zu of %u tokens\n", i, found, t->shared);
            exit(1);
        }
        twice += found < t->shared ? t->shared - found : 0;
        if (i == 0)
            continue;
        ok(t, dop_sequence_feed(b->s, b->ids + found, n - 1 - found, &t->diag), "feed");
    }
    ok(t, dop_sequence_feed(t->of[0].s, t->of[0].ids + t->shared, t->own - 1, &t->diag), "feed");
    return twice;
}

/* Steps that all sequences share: the last token of each prompt, and what they write. */
static void
write_together(tree *t)
{
    dop_step_row rows[MOST];
    for (uint32_t k = t->shared + t->own; k < t->shared + t->own + t->written; k++) {
        for (uint32_t i = 0; i < t->n; i++)
            rows[i] = (dop_step_row){t->of[i].s, t->of[i].ids[k - 1], DOP_WANTS_PICK};
        ok(t, dop_step_run(t->m, rows, t->n, &t->diag), "a step");
        for (uint32_t i = 0; i < t->n; i++)
            if (dop_step_pick(t->m, i) != t->of[i].ids[k]) {
                printf("branch %u: token %u is %u instead of %u\n", i, k, dop_step_pick(t->m, i), t->of[i].ids[k]);
                exit(1);
            }
        dop_step_commit(t->m);
    }
}

int
main(int argc, char **argv)
{
    static tree t;
    dop_facts facts;
    if (argc < 7 || argc > 8)
        return 2;
    t.n = (uint32_t)strtoul(argv[2], NULL, 10);
    t.shared = (uint32_t)strtoul(argv[3], NULL, 10);
    t.own = (uint32_t)strtoul(argv[4], NULL, 10);
    t.written = (uint32_t)strtoul(argv[5], NULL, 10);
    t.x = strtoull(argv[6], NULL, 10);
    t.chunk = argc > 7 ? (uint32_t)strtoul(argv[7], NULL, 10) : 64;
    if (t.n == 0 || t.n > MOST || t.own == 0 || t.shared > MOST_TOKENS || t.own > MOST_TOKENS ||
        t.written > MOST_TOKENS)
        return 2;
    ok(&t, dop_model_open(argv[1], &(dop_open_options){.checkpoints = 32}, &t.diag, &t.m), "opening");
    ok(&t, dop_model_open(argv[1], NULL, &t.diag, &t.alone), "opening");
    dop_model_facts(t.m, &facts);
    t.vocab = facts.vocab;
    if (facts.page == 0)
        return 2;
    write_alone(&t);
    const uint64_t twice = read_all(&t);
    write_together(&t);
    const dop_counters c = dop_model_counters(t.m);
    const uint32_t own = t.own + t.written, used = facts.n_pages - c.pages_free,
                   ends = t.n * ((own + facts.page - 1) / facts.page + 1),
                   most = (t.shared + facts.page - 1) / facts.page + ends;
    printf("%u branches of %u tokens: %u pages of %u tokens in use, %u without sharing; %llu tokens read twice\n", t.n,
           t.shared + own, used, facts.page, t.n * ((t.shared + own + facts.page - 1) / facts.page),
           (unsigned long long)twice);
    if (used > most)
        printf("more pages than the %u of one beginning and %u ends\n", most, t.n);
    dop_model_close(t.m);
    dop_model_close(t.alone);
    for (uint32_t i = 0; i < t.n; i++)
        free(t.of[i].ids);
    return used > most;
}
