/* The turns of an agent: every prompt is the one before, what was answered, and a result.
 *
 *   turns PLAN TURNS SYSTEM RESULT CHUNK BOUND [FOLDER]    (SYSTEM, RESULT: tokens; CHUNK: the most that a step reads; BOUND: of any
 *                                                           logit, in standard deviations of its row, from reading everything)
 *
 * No turn may read more than what is new and a chunk.  In every third turn the format writes the end of the last prompt anew, and with
 * it the answer.  Then prompts that share the text so far and part from it.  With FOLDER all this, in a second model, once more:
 * prompts that files hold are not read again there.  Uses the public interface, and the end of a turn. */
#include "runtime/model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ANSWER = 6, BRANCHES = 16, REWRITTEN = 3, COMPARED = 5, MOST = 1 << 16 };

typedef struct agent {
    dop_model *m, *all; /* the model, and one without checkpoints that reads everything */
    dop_sequence *s, *a;
    dop_facts facts;
    dop_diag diag;
    uint32_t ids[MOST], n, chunk;
    uint64_t x, read, given;
    double bound, worst;
    float *rows[2]; /* [vocab] */
} agent;

static void
ok(agent *t, dop_status st, const char *what)
{
    if (st == DOP_OK)
        return;
    printf("%s: %s\n", what, t->diag.message);
    exit(1);
}

static void
must(bool good, const char *what, uint32_t turn, uint32_t n)
{
    if (good)
        return;
    printf("turn %u, %u tokens: %s\n", turn, n, what);
    exit(1);
}

static uint32_t
pick(agent *t, uint32_t n)
{
    t->x = t->x * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(t->x >> 33) % n;
}

static void
add(agent *t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        t->ids[t->n++] = pick(t, t->facts.vocab);
}

typedef struct taken {
    float *row;
    uint32_t vocab;
} taken;

static dop_status
take(void *user, size_t first, size_t n, const float *rows, dop_diag *diag)
{
    const taken *x = user;
    (void)first;
    (void)diag;
    memcpy(x->row, rows + (n - 1) * x->vocab, x->vocab * sizeof *rows);
    return DOP_OK;
}

/* The prompt, up to the logits after it; returns how many tokens were read. */
static uint32_t
read_prompt(agent *t, dop_sequence *s, float *row)
{
    taken x = {row, t->facts.vocab};
    size_t found;
    ok(t, dop_sequence_reuse(s, t->ids, t->n, &t->diag, &found), "reuse");
    const uint32_t rest = t->n - (uint32_t)found;
    if (rest > 1)
        ok(t, dop_sequence_feed(s, t->ids + found, rest - 1, &t->diag), "feed");
    ok(t, dop_sequence_score(s, t->ids + t->n - 1, 1, take, &x, &t->diag), "score");
    return rest;
}

static void
compare(agent *t, uint32_t turn)
{
    double sum = 0, squares = 0, worst = 0, n = t->facts.vocab;
    for (uint32_t i = 0; i < t->facts.vocab; i++) {
        const double want = (double)t->rows[1][i], d = fabs((double)t->rows[0][i] - want);
        sum += want;
        squares += want * want;
        worst = d > worst || isnan(d) ? d : worst;
    }
    worst /= sqrt(squares / n - (sum / n) * (sum / n));
    t->worst = worst > t->worst ? worst : t->worst;
    if (!(worst <= t->bound)) {
        printf("turn %u: %.3g standard deviations from reading everything\n", turn, worst);
        exit(1);
    }
}

/* One turn: `given` tokens of the prompt are new, and at most `more` are read again. */
static void
turn(agent *t, uint32_t number, uint32_t given, uint32_t more, dop_sequence *s)
{
    uint32_t id;
    const uint32_t rest = read_prompt(t, s, t->rows[0]);
    t->read += rest;
    t->given += given;
    if (rest > given + more)
        printf("%u tokens read for %u new ones\n", rest, given);
    must(rest <= given + more, "more is read than what is new and what may be read again", number, t->n);
    if (number % COMPARED == 0) {
        ok(t, dop_sequence_rewind(t->a, 0, &t->diag), "rewind");
        (void)read_prompt(t, t->a, t->rows[1]);
        compare(t, number);
    }
    for (uint32_t i = 0; i < ANSWER; i++)
        ok(t, dop_sequence_next(s, &t->diag, &id), "next");
    ok(t, dop_sequence_end_turn(s, &t->diag), "end of a turn");
}

static void
turns(agent *t, uint32_t n, uint32_t n_system, uint32_t n_result)
{
    add(t, n_system);
    turn(t, 1, t->n, 0, t->s);
    for (uint32_t k = 2; k <= n; k++) {
        size_t n_tokens;
        const uint32_t *tokens = dop_sequence_tokens(t->s, &n_tokens), before = t->n;
        const uint32_t anew = k % REWRITTEN == 0 ? REWRITTEN : 0;
        must(n_tokens == t->n + ANSWER, "the answer is in the sequence", k, t->n);
        t->n -= anew; /* tokens that the format writes in another way */
        if (anew)
            add(t, anew + ANSWER);
        else
            for (uint32_t i = 0; i < ANSWER; i++, t->n++)
                t->ids[t->n] = tokens[t->n];
        add(t, n_result);
        turn(t, k, t->n - before + anew, t->chunk, t->s);
    }
}

/* Prompts that share what has been said and part, in turn: each reads what it has of its own. */
static void
branches(agent *t, uint32_t n_own)
{
    const uint32_t shared = t->n - t->n / 4;
    for (uint32_t k = 0; k < BRANCHES; k++) {
        t->n = shared;
        add(t, n_own);
        /* The first one finds one of the checkpoints that are spread over a prompt, the others where it parted. */
        turn(t, 1000 + k, n_own, k == 0 ? t->chunk + t->facts.ctx / 16 : 0, t->s);
    }
}

int
main(int argc, char **argv)
{
    static agent t;
    if (argc < 7 || argc > 8)
        return 2;
    t.x = 5;
    t.chunk = (uint32_t)strtoul(argv[5], NULL, 10);
    t.bound = strtod(argv[6], NULL);
    const uint32_t n = (uint32_t)strtoul(argv[2], NULL, 10), n_system = (uint32_t)strtoul(argv[3], NULL, 10),
                   n_result = (uint32_t)strtoul(argv[4], NULL, 10);
    const dop_open_options open = {.checkpoints = 64, .max_chunk = t.chunk};
    ok(&t, dop_model_open(argv[1], &open, &t.diag, &t.m), "opening");
    ok(&t, dop_model_open(argv[1], NULL, &t.diag, &t.all), "opening");
    dop_model_facts(t.m, &t.facts);
    must(t.facts.ctx <= MOST, "the context is too long", 0, t.facts.ctx);
    ok(&t, dop_sequence_create(t.m, &t.diag, &t.s), "create");
    ok(&t, dop_sequence_create(t.all, &t.diag, &t.a), "create");
    t.rows[0] = calloc(t.facts.vocab, sizeof(float));
    t.rows[1] = calloc(t.facts.vocab, sizeof(float));
    must(t.rows[0] && t.rows[1], "memory", 0, 0);
    turns(&t, n, n_system, n_result);
    branches(&t, n_result);
    printf("%u turns and %d branches: %llu tokens read, %llu new; worst %.3g standard deviations\n", n, BRANCHES,
           (unsigned long long)t.read, (unsigned long long)t.given, t.worst);
    dop_model_close(t.m);
    dop_model_close(t.all);
    free(t.rows[0]);
    free(t.rows[1]);
    return 0;
}
