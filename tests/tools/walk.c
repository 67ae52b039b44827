/* Sequences with drafts that come, go and go back in random order, against the same text without drafts.
 *
 *   walk PLAN OPERATIONS SEED [FILE [FOLDER KILLS]]
 *
 * All sequences have a beginning of one greedy text.  Operations: some next tokens, with drafts by the plan's own layer or, as those of a
 * random layer are hardly ever right, with drafts from the text of which a part is made wrong; going back; a fork; a copy; a checkpoint,
 * going back to one, dropping one; saving to FILE and loading it; a sequence that ends, and one that begins with what any other has.
 * With FOLDER prompts are kept in files there, and KILLS processes one after another are killed in the middle of their operations; each goes
 * on with the files that the last one left. */
#include "runtime/step/speculator.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROMPT = 3, MOST = 8, POINTS = 4 };

typedef struct walk {
    dop_model *m;
    dop_sequence *s[MOST];
    uint32_t n_places, n, vocab;
    uint32_t *text; /* [n] */
    uint64_t points[POINTS];
    uint64_t x, made, accepted, drafted;
    const char *file; /* NULL: nothing is saved */
    bool saved;
} walk;

static dop_diag diag;

static void
ok(dop_status st)
{
    if (st == DOP_OK)
        return;
    printf("%s\n", diag.message);
    exit(1);
}

static uint32_t
below(walk *w, uint32_t n)
{
    w->x = w->x * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->x >> 33) % n;
}

static dop_status
recall(void *user, const uint32_t *tokens, size_t n_tokens, uint32_t most, dop_diag *d, uint32_t *out_ids,
       uint32_t *out_n)
{
    walk *w = user;
    (void)tokens;
    (void)d;
    *out_n = most < w->n - n_tokens ? most : w->n - (uint32_t)n_tokens;
    for (uint32_t i = 0; i < *out_n; i++)
        out_ids[i] = below(w, 4) ? w->text[n_tokens + i] : below(w, w->vocab);
    return DOP_OK;
}

/* As if rounds always paid, whatever steps take. */
static double
stands_still(void)
{
    return 0;
}

static void
speculate(walk *w, dop_sequence *s)
{
    const dop_speculation own = {.own = true}, from_text = {.fn = recall, .user = w};
    if (s->speculator) {
        w->accepted += s->speculator->counts.accepted;
        w->drafted += s->speculator->counts.drafted;
    }
    ok(dop_sequence_set_speculation(s, below(w, 3) ? &from_text : &own, &diag));
    s->speculator->now_ms = stands_still;
    s->speculator->policy.wait = 0;
    s->speculator->policy.token.ms = 1;
    for (uint32_t i = 0; i < s->speculator->policy.n_sizes; i++)
        s->speculator->policy.sizes[i].time.ms = 1.1;
}

static uint32_t
length(const dop_sequence *s)
{
    size_t n;
    (void)dop_sequence_tokens(s, &n);
    return (uint32_t)n;
}

static void
write_tokens(walk *w, dop_sequence *s)
{
    for (uint32_t n = length(s), k = 1 + below(w, 7); k > 0 && n < w->n; k--, n++) {
        uint32_t id;
        ok(dop_sequence_next(s, &diag, &id));
        w->made++;
        if (id == w->text[n])
            continue;
        printf("token %u is %u instead of %u\n", n, id, w->text[n]);
        exit(1);
    }
}

static void
begin(walk *w, dop_sequence **s)
{
    size_t found;
    const uint32_t n = PROMPT + below(w, w->n / 2);
    ok(dop_sequence_create(w->m, &diag, s));
    ok(dop_sequence_reuse(*s, w->text, n, &diag, &found));
    ok(dop_sequence_feed(*s, w->text + found, n - found, &diag));
    speculate(w, *s);
}

static void
to_and_from_points(walk *w, dop_sequence *s)
{
    uint64_t *point = &w->points[below(w, POINTS)];
    switch (below(w, 3)) {
    case 0:
        dop_model_drop_checkpoint(w->m, *point);
        *point = 0;
        if (dop_sequence_checkpoint(s, &diag, point) != DOP_OK)
            *point = 0; /* all are held */
        break;
    case 1:
        if (*point)
            ok(dop_sequence_restore(s, *point, &diag));
        break;
    default:
        dop_model_drop_checkpoint(w->m, *point);
        *point = 0;
    }
}

static void
do_one(walk *w)
{
    dop_sequence **s = &w->s[below(w, w->n_places)];
    dop_sequence **other = &w->s[below(w, w->n_places)];
    if (!*s) {
        begin(w, s);
        return;
    }
    switch (below(w, 12)) {
    case 0:
        ok(dop_sequence_rewind(*s, PROMPT + below(w, length(*s) - PROMPT + 1), &diag));
        break;
    case 1:
        if (!*other && w->n_places > 1) {
            ok(dop_sequence_fork(*s, &diag, other));
            speculate(w, *other);
        }
        break;
    case 2:
        if (*other)
            ok(dop_sequence_copy(*other, *s, &diag));
        break;
    case 3:
        to_and_from_points(w, *s);
        break;
    case 4:
        if (w->file && below(w, 2)) {
            ok(dop_sequence_save(*s, w->file, NULL, 0, &diag));
            w->saved = true;
        } else if (w->saved) {
            ok(dop_sequence_load(*s, w->file, &diag, NULL, NULL));
        }
        break;
    case 5:
        if (below(w, 3)) {
            speculate(w, *s);
        } else {
            ok(dop_sequence_end_turn(*s, &diag));
            dop_sequence_destroy(*s);
            *s = NULL;
        }
        break;
    default:
        write_tokens(w, *s);
    }
    if (*s && length(*s) == w->n)
        ok(dop_sequence_rewind(*s, PROMPT + below(w, w->n / 2), &diag));
}

/* Lets processes begin that are killed; returns in each of them, and in the last one, which is not.  *out_life: the number of the process;
 * *out_dies: is it one of those? */
static void
live_and_die(uint32_t kills, uint32_t *out_life, bool *out_dies)
{
    *out_dies = false;
    for (*out_life = 0; *out_life < kills; ++*out_life) {
        int status;
        const pid_t child = fork();
        if (child == 0) {
            *out_dies = true;
            return;
        }
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
            printf("process %u was not killed\n", *out_life);
            exit(1);
        }
    }
}

int
main(int argc, char **argv)
{
    walk w = {0};
    dop_facts facts;
    if (argc < 4)
        return 2;
    w.file = argc > 4 ? argv[4] : NULL;
    w.x = strtoull(argv[3], NULL, 10) + 1;
    uint32_t life = 0, operations = (uint32_t)atoi(argv[2]);
    bool dies = false;
    if (argc > 6)
        live_and_die((uint32_t)atoi(argv[6]), &life, &dies);
    const dop_open_options open = {.prompt_cache = argc > 6 ? argv[5] : NULL, .cache_memory = argc > 6 ? 1 << 24 : 0};
    ok(dop_model_open(argv[1], argc > 6 ? &open : NULL, &diag, &w.m));
    dop_model_facts(w.m, &facts);
    w.n_places = facts.n_sequences < MOST ? facts.n_sequences : MOST;
    w.n = facts.ctx;
    w.vocab = facts.vocab;
    w.text = calloc(w.n, sizeof *w.text);
    if (!w.text)
        return 1;
    for (uint32_t i = 0; i < PROMPT; i++)
        w.text[i] = below(&w, w.vocab);
    ok(dop_sequence_create(w.m, &diag, &w.s[0]));
    ok(dop_sequence_feed(w.s[0], w.text, PROMPT, &diag));
    for (uint32_t n = PROMPT; n < w.n; n++)
        ok(dop_sequence_next(w.s[0], &diag, &w.text[n]));
    ok(dop_sequence_rewind(w.s[0], PROMPT, &diag));
    speculate(&w, w.s[0]);
    w.saved = life > 0 && access(w.file, R_OK) == 0;
    w.x += life;
    const uint32_t end = dies ? operations / 2 + below(&w, operations) / 2 : UINT32_MAX;
    for (uint32_t i = 0; i < operations; i++) {
        if (i == end) {
            fflush(stdout);
            raise(SIGKILL);
        }
        do_one(&w);
    }
    for (uint32_t i = 0; i < w.n_places; i++) {
        if (w.s[i] && w.s[i]->speculator) {
            w.accepted += w.s[i]->speculator->counts.accepted;
            w.drafted += w.s[i]->speculator->counts.drafted;
        }
        dop_sequence_destroy(w.s[i]);
    }
    printf("%llu tokens, %llu of %llu drafts accepted\n", (unsigned long long)w.made, (unsigned long long)w.accepted,
           (unsigned long long)w.drafted);
    const dop_counters c = dop_model_counters(w.m);
    if (argc > 6)
        printf("%llu tokens from %llu files\n", (unsigned long long)c.tokens_loaded, (unsigned long long)c.file_hits);
    dop_model_close(w.m);
    free(w.text);
    return w.accepted > 0 ? 0 : 1;
}
