/* The turns of an agent: every prompt is the one before, what was answered, and a result.
 *
 *   turns PLAN TURNS SYSTEM RESULT CHUNK BOUND [FOLDER [again]]    (SYSTEM, RESULT: tokens; CHUNK: the most that a step reads; BOUND: of any
 *                                                           logit, in standard deviations of its row, from reading everything; 0: nothing
 *                                                           is compared)
 *
 * No turn may read more than what is new and a chunk.  In every third turn the format writes the end of the last prompt anew, and with
 * it the answer.  Then prompts that share the text so far and part from it.  With FOLDER prompts are kept in
 * files there, and the process kills itself in the end; with `again` another process goes on with the last prompt, which the files hold.
 * Uses the public interface only. */
#include <doppler/doppler.h>

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static double
now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
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
    const double start = now_ms();
    const uint32_t rest = read_prompt(t, s, t->rows[0]);
    if (t->bound <= 0)
        printf("turn %u: %u tokens, %u read, first token after %.1f ms\n", number, t->n, rest, now_ms() - start);
    t->read += rest;
    t->given += given;
    if (rest > given + more)
        printf("%u tokens read for %u new ones\n", rest, given);
    must(rest <= given + more, "more is read than what is new and what may be read again", number, t->n);
    if (number % COMPARED == 0 && t->bound > 0) {
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

/* The prompt and what was answered to it, for another process. */
static FILE *
open_ids(const char *folder, const char *how)
{
    char path[512];
    snprintf(path, sizeof path, "%s/ids", folder);
    FILE *f = fopen(path, how);
    must(f != NULL, "the file of ids", 0, 0);
    return f;
}

/* Waits until files are written, and dies as a process that is killed. */
static void
die(agent *t, const char *folder)
{
    size_t n;
    const uint32_t *tokens = dop_sequence_tokens(t->s, &n);
    FILE *f = open_ids(folder, "wb");
    must(fwrite(tokens, sizeof *tokens, n, f) == n && fclose(f) == 0, "the file of ids", 0, t->n);
    const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
    uint64_t before = 0;
    for (uint32_t same = 0; same < 20; same++) {
        const dop_counters c = dop_model_counters(t->m);
        same = c.files_written != before ? 0 : same;
        before = c.files_written;
        nanosleep(&pause, NULL);
    }
    must(before > 0, "no file is written", 0, 0);
    printf("%llu files\n", (unsigned long long)before);
    fflush(stdout);
    raise(SIGKILL);
}

/* Another process goes on: nothing is read twice but less than a block and the last token. */
static void
go_on(agent *t, const char *folder, uint32_t n_result)
{
    FILE *f = open_ids(folder, "rb");
    t->n = (uint32_t)fread(t->ids, sizeof *t->ids, MOST, f);
    fclose(f);
    must(t->n > ANSWER, "the file of ids", 0, t->n);
    add(t, n_result);
    turn(t, COMPARED, n_result, t->facts.page ? t->facts.page : 64, t->s);
    const dop_counters c = dop_model_counters(t->m);
    must(c.tokens_loaded + n_result + 64 >= t->n && c.file_hits > 0, "prompts come from files", 0,
         (uint32_t)c.tokens_loaded);
    printf("%llu tokens from %llu files, worst %.3g standard deviations\n", (unsigned long long)c.tokens_loaded,
           (unsigned long long)c.file_hits, t->worst);
}

int
main(int argc, char **argv)
{
    static agent t;
    if (argc < 7 || argc > 9)
        return 2;
    t.x = 5;
    t.chunk = (uint32_t)strtoul(argv[5], NULL, 10);
    t.bound = strtod(argv[6], NULL);
    const uint32_t n = (uint32_t)strtoul(argv[2], NULL, 10), n_system = (uint32_t)strtoul(argv[3], NULL, 10),
                   n_result = (uint32_t)strtoul(argv[4], NULL, 10);
    const dop_open_options open = {.checkpoints = 64,
                                   .max_chunk = t.chunk,
                                   .cache_memory = argc > 7 ? 1 << 28 : 0,
                                   .prompt_cache = argc > 7 ? argv[7] : NULL};
    ok(&t, dop_model_open(argv[1], &open, &t.diag, &t.m), "opening");
    if (t.bound > 0)
        ok(&t, dop_model_open(argv[1], NULL, &t.diag, &t.all), "opening");
    dop_model_facts(t.m, &t.facts);
    must(t.facts.ctx <= MOST, "the context is too long", 0, t.facts.ctx);
    ok(&t, dop_sequence_create(t.m, &t.diag, &t.s), "create");
    if (t.all)
        ok(&t, dop_sequence_create(t.all, &t.diag, &t.a), "create");
    t.rows[0] = calloc(t.facts.vocab, sizeof(float));
    t.rows[1] = calloc(t.facts.vocab, sizeof(float));
    must(t.rows[0] && t.rows[1], "memory", 0, 0);
    if (argc > 8) {
        go_on(&t, argv[7], n_result);
    } else {
        turns(&t, n, n_system, n_result);
        if (argc > 7)
            die(&t, argv[7]);
        branches(&t, n_result);
    }
    printf("%u turns and %d branches: %llu tokens read, %llu new; worst %.3g standard deviations\n", n, BRANCHES,
           (unsigned long long)t.read, (unsigned long long)t.given, t.worst);
    dop_model_close(t.m);
    dop_model_close(t.all);
    free(t.rows[0]);
    free(t.rows[1]);
    return 0;
}
