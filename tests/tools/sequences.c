/* Sequences that come and go in random order, against the same texts run alone.
 *
 *   sequences PLAN OPERATIONS SEED BOUND WORK [LENGTH [persistent]]    (BOUND: of any logit, in standard deviations of its
 *                                                                       row; WORK: a folder; LENGTH: tokens of a text)
 *
 * There are a few texts, some of which begin alike.  Every sequence holds the beginning of one of them, whatever is done with
 * it: fed, stepped beside others, rolled back, rewound, cut, forked, copied, saved, loaded, taken to a checkpoint, begun from what is cached.  So
 * the logits of every position are known beforehand: those of the text in a model of its own, token by token.  Where the plan's
 * pool has fewer pages than its sequences may want, a call that finds none must have changed nothing.  Uses the public
 * interface only; with DOP_RANKS, as `sequences_ranks` under mpirun, of a plan in parts. */
#include "tests/tools/sequences/state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef DOP_RANKS
#include "runtime/parts/lead/ranks.h"
#include "runtime/parts/mpi/mpi.h"
#endif

static const struct dop_wire *wire; /* NULL: the plan is in one part */

static void
compare(state *t, uint32_t text, uint32_t pos, const float *got)
{
    const float *want = t->want[text] + (size_t)pos * t->facts.vocab;
    double sum = 0, squares = 0, worst = 0, n = t->facts.vocab;
    for (uint32_t i = 0; i < t->facts.vocab; i++) {
        double d = fabs((double)got[i] - (double)want[i]);
        sum += (double)want[i];
        squares += (double)want[i] * (double)want[i];
        worst = d > worst || isnan(d) ? d : worst;
    }
    worst /= sqrt(squares / n - (sum / n) * (sum / n));
    t->worst = worst > t->worst || isnan(worst) ? worst : t->worst;
    t->rows++;
    if (!(worst <= t->bound)) {
        printf("text %u, position %u: %.3g standard deviations from the same text alone\n", text, pos, worst);
        exit(1);
    }
}

typedef struct keeper {
    state *t;
    uint32_t text;
} keeper;

static dop_status
keep(void *user, size_t first, size_t n, const float *rows, dop_diag *diag)
{
    keeper *k = user;
    size_t vocab = k->t->facts.vocab;
    (void)diag;
    memcpy(k->t->want[k->text] + first * vocab, rows, n * vocab * sizeof *rows);
    return DOP_OK;
}

void
open_model(state *t, const char *plan)
{
    const dop_open_options open = {.wire = wire,
                                   .ordering = t->ordering,
                                   .checkpoints = CHECKPOINTS + 2,
                                   .cache_memory = 300000,
                                   .prompt_cache = t->folder,
                                   .prompt_cache_bytes = 3000000};
    ok(t, dop_model_open(plan, &open, &t->diag, &t->m), "opening");
    dop_model_facts(t->m, &t->facts);
}

static void
count_loads(state *t)
{
    const dop_counters c = dop_model_counters(t->m);
    t->loaded += c.tokens_loaded;
    t->from_files += c.file_hits;
    t->counts.steps_ahead += c.steps_ahead;
    t->counts.rows_dropped += c.rows_dropped;
    t->counts.tokens_reused += c.tokens_reused;
    t->counts.pages_copied += c.pages_copied;
}

/* Texts 1 and 2 begin as text 0 does. */
static void
make_texts(state *t, const char *plan)
{
    dop_open_options alone = {.max_chunk = 1, .wire = wire};
    dop_model *m;
    dop_sequence *s;
    ok(t, dop_model_open(plan, &alone, &t->diag, &m), "opening");
    dop_model_facts(m, &t->facts);
    for (uint32_t i = 0; i < TEXTS; i++) {
        for (uint32_t k = 0; k < t->length; k++)
            t->text[i][k] = i > 0 && i < 3 && k < 8 * i ? t->text[0][k] : pick(t, t->facts.vocab);
        t->want[i] = calloc((size_t)t->length * t->facts.vocab, sizeof(float));
        must(t->want[i] != NULL, "memory");
        keeper k = {t, i};
        ok(t, dop_sequence_create(m, &t->diag, &s), "create");
        ok(t, dop_sequence_score(s, t->text[i], t->length, keep, &k, &t->diag), "score");
        dop_sequence_destroy(s);
    }
    /* Are prefixes found again, also those of a sequence that is gone? */
    size_t found;
    ok(t, dop_sequence_create(m, &t->diag, &s), "create");
    ok(t, dop_sequence_feed(s, t->text[4], LENGTH, &t->diag), "feed");
    dop_sequence_destroy(s);
    ok(t, dop_sequence_create(m, &t->diag, &s), "create");
    ok(t, dop_sequence_reuse(s, t->text[4], LENGTH, &t->diag, &found), "reuse");
    /* Not where layers have states of one position: this model has no checkpoints. */
    t->shares = t->facts.page > 0 && found == (LENGTH - 1) / t->facts.page * t->facts.page;
    dop_sequence_destroy(s);
    dop_model_close(m);
    open_model(t, plan);
}

/* The texts that begin with the first n tokens of this one: a sequence may go on as any of them. */
static uint32_t
another_text(state *t, uint32_t text, uint32_t n)
{
    uint32_t other = pick(t, TEXTS);
    return memcmp(t->text[text], t->text[other], n * sizeof(uint32_t)) == 0 ? other : text;
}

static dop_status
compare_rows(void *user, size_t first, size_t n, const float *rows, dop_diag *diag)
{
    struct {
        state *t;
        uint32_t i;
    } *u = user;
    (void)diag;
    for (size_t k = 0; k < n; k++)
        compare(u->t, u->t->of[u->i].text, u->t->of[u->i].n + (uint32_t)(first + k), rows + k * u->t->facts.vocab);
    return DOP_OK;
}

static void
feed(state *t, uint32_t i, bool score)
{
    uint32_t n = 1 + pick(t, 12 * t->length / LENGTH);
    struct {
        state *t;
        uint32_t i;
    } u = {t, i};
    t->of[i].text = another_text(t, t->of[i].text, t->of[i].n);
    if (n > t->length - t->of[i].n)
        n = t->length - t->of[i].n;
    const uint32_t *ids = t->text[t->of[i].text] + t->of[i].n;
    dop_status st = score ? dop_sequence_score(t->of[i].s, ids, n, compare_rows, &u, &t->diag)
                          : dop_sequence_feed(t->of[i].s, ids, n, &t->diag);
    if (!is_full(t, st, "feed")) {
        t->of[i].n += n;
        t->of[i].restored = false;
    }
}

/* One time in three a mask for its next picks, of some ids or of one, or none. */
static void
change_mask(state *t, uint32_t i)
{
    const uint32_t words = (t->facts.vocab + 31) / 32, how = pick(t, 9);
    if (how > 2)
        return;
    free(t->of[i].mask);
    t->of[i].mask = how == 0 ? NULL : calloc(words, sizeof(uint32_t));
    for (uint32_t k = 0; k < t->facts.vocab && how == 1; k++)
        t->of[i].mask[k / 32] |= (uint32_t)(pick(t, 4) == 0) << k % 32;
    const uint32_t one = pick(t, t->facts.vocab);
    if (t->of[i].mask)
        t->of[i].mask[one / 32] |= 1u << one % 32;
    ok(t, dop_sequence_set_mask(t->of[i].s, t->of[i].mask, &t->diag), "mask");
}

/* A pick is allowed, and the largest logit of those that are. */
static void
check_pick(state *t, uint32_t text, uint32_t pos, const uint32_t *mask, uint32_t id)
{
    const float *want = t->want[text] + (size_t)pos * t->facts.vocab;
    must(id < t->facts.vocab && (!mask || mask[id / 32] >> id % 32 & 1), "a pick is one of those that are allowed");
    for (uint32_t k = 0; k < t->facts.vocab; k++)
        must((mask && !(mask[k / 32] >> k % 32 & 1)) || (double)want[k] <= (double)want[id] + 2 * t->bound * 10,
             "a pick is far from the largest logit");
}

/* What it would say next, which is taken back. */
static void
next(state *t, uint32_t i)
{
    uint32_t id;
    if (t->of[i].n == 0 || t->of[i].n == t->length)
        return;
    change_mask(t, i);
    if (is_full(t, dop_sequence_next(t->of[i].s, &t->diag, &id), "next"))
        return;
    check_pick(t, t->of[i].text, t->of[i].n - 1, t->of[i].mask, id);
    ok(t, dop_sequence_rewind(t->of[i].s, t->of[i].n, &t->diag), "rewind");
}

static uint32_t
free_place(const state *t)
{
    uint32_t i = 0;
    while (i < t->facts.n_sequences && t->of[i].s)
        i++;
    return i;
}

/* Drafts of a caller: what the text says, which is mostly wrong, or any ids. */
static dop_status
draft(void *user, const uint32_t *tokens, size_t n_tokens, uint32_t most, dop_diag *diag, uint32_t *out_ids,
      uint32_t *out_n)
{
    state *t = user;
    (void)tokens;
    (void)diag;
    *out_n = pick(t, most + 1);
    for (uint32_t k = 0; k < *out_n; k++)
        out_ids[k] = n_tokens + k < t->length && pick(t, 2) ? t->text[0][n_tokens + k] : pick(t, t->facts.vocab);
    return DOP_OK;
}

/* What it says for a while, greedily or drawn, with drafts or without, and perhaps what a fork of it says next: all of this is
 * taken back in one of several ways. */
static void
talk(state *t, uint32_t i)
{
    const dop_speculation ways[] = {{.ngram = 1}, {.fn = draft, .user = t}, {.fn = draft, .user = t, .most = 1}};
    const dop_sampling drawn = {
        .temperature = 0.8f, .repeat_penalty = pick(t, 2) ? 1 : 1.2f, .repeat_last_n = 8, .seed = t->x};
    uint32_t id, n = 1 + pick(t, 7), to = free_place(t), taken = 0, how = pick(t, 5);
    dop_sequence *s = t->of[i].s, *other = NULL;
    bool drafts = false;
    if (t->of[i].n == 0 || t->of[i].n + 8 > t->facts.ctx)
        return;
    if (how < 3)
        drafts = dop_sequence_set_speculation(s, &ways[how], &t->diag) == DOP_OK;
    memset(&t->diag, 0, sizeof t->diag);
    if (pick(t, 3) == 0)
        dop_sequence_set_sampling(s, &drawn);
    dop_sequence_expect(s, pick(t, 2) ? n : UINT32_MAX);
    while (taken < n && !is_full(t, dop_sequence_next(s, &t->diag, &id), "next")) {
        taken++;
        if (other || to == t->facts.n_sequences || pick(t, 6) > 0)
            continue;
        ok(t, dop_sequence_fork(s, &t->diag, &other), "fork");
        t->of[to].s = other;
        t->of[to].n = t->of[i].n;
        t->of[to].text = t->of[i].text;
        t->of[to].restored = t->of[i].restored;
        free(t->of[to].mask);
        t->of[to].mask = NULL;
        if (pick(t, 2) && !is_full(t, dop_sequence_next(other, &t->diag, &id), "next"))
            memset(&t->diag, 0, sizeof t->diag);
    }
    size_t length;
    (void)dop_sequence_tokens(s, &length);
    must(length == t->of[i].n + taken, "what is taken is in the sequence");
    if (taken > 0 && pick(t, 3) == 0)
        ok(t, dop_sequence_cut(s, t->of[i].n, taken, &t->diag), "cut");
    else
        ok(t, dop_sequence_rewind(s, t->of[i].n, &t->diag), "rewind");
    if (other) {
        ok(t, dop_sequence_rewind(other, t->of[to].n, &t->diag), "rewind");
        dop_sequence_set_sampling(other, &(dop_sampling){.repeat_penalty = 1});
    }
    if (drafts && pick(t, 2))
        ok(t, dop_sequence_set_speculation(s, NULL, &t->diag), "speculation");
    dop_sequence_set_sampling(s, &(dop_sampling){.repeat_penalty = 1});
    dop_sequence_expect(s, UINT32_MAX);
}

/* Rows of some sequences, one or several of each, mixed; committed or rolled back. */
static void
step(state *t)
{
    dop_step_row rows[MAX];
    uint32_t of[MAX], pos[MAX], more[MAX] = {0}, n = 0, most = dop_model_max_rows_of_several(t->m);
    uint32_t want = 1 + pick(t, most > 1 ? most : t->facts.n_sequences);
    for (uint32_t tries = 0; tries < 4 * want && n < want && n < MAX; tries++) {
        uint32_t i = pick(t, t->facts.n_sequences);
        if (!t->of[i].s || t->of[i].n + more[i] >= t->length || (most == 1 && more[i] == 4))
            continue;
        if (more[i] == 0)
            t->of[i].text = another_text(t, t->of[i].text, t->of[i].n);
        pos[n] = t->of[i].n + more[i]++;
        of[n] = i;
        rows[n] = (dop_step_row){t->of[i].s, t->text[t->of[i].text][pos[n]], pick(t, 4)};
        n++;
    }
    if (n == 0)
        return;
    for (uint32_t k = 0; k < n; k++)
        change_mask(t, of[k]);
    if (is_full(t, dop_step_run(t->m, rows, n, &t->diag), "step"))
        return;
    for (uint32_t k = 0; k < n; k++) {
        const float *logits = dop_step_logits(t->m, k);
        if (rows[k].wants & DOP_WANTS_LOGITS)
            must(logits != NULL, "logits that a row wants");
        if (logits)
            compare(t, t->of[of[k]].text, pos[k], logits);
        const bool last = pos[k] + 1 == t->of[of[k]].n + more[of[k]];
        if (rows[k].wants & DOP_WANTS_PICK)
            check_pick(t, t->of[of[k]].text, pos[k], last ? t->of[of[k]].mask : NULL, dop_step_pick(t->m, k));
    }
    if (pick(t, 3) == 0) {
        dop_step_rollback(t->m);
        return;
    }
    dop_step_commit(t->m);
    for (uint32_t i = 0; i < t->facts.n_sequences; i++)
        t->of[i].n += more[i];
}

/* At least what another sequence has of this text now: the last token may not have been fed yet. */
static void
reuse(state *t, uint32_t i)
{
    size_t found, least = 0;
    const uint32_t *text = t->text[t->of[i].text];
    ok(t, dop_sequence_reuse(t->of[i].s, text, t->length, &t->diag, &found), "reuse");
    for (uint32_t k = 0; k < t->facts.n_sequences && t->shares; k++) {
        uint32_t n = k != i && t->of[k].s && t->of[k].n > 0 && !t->of[k].restored
                         ? (t->of[k].n - 1) / t->facts.page * t->facts.page
                         : 0;
        if (n > least && memcmp(text, t->text[t->of[k].text], n * sizeof *text) == 0)
            least = n;
    }
    must(found >= least && found < t->length, "what another sequence has is found");
    t->of[i].restored = false;
    t->of[i].n = (uint32_t)found;
    check_tokens(t, i);
}

/* The program ends and begins anew: only files are left. */
static void
restart(state *t, const char *plan)
{
    count_loads(t);
    for (uint32_t i = 0; i < t->facts.n_sequences; i++) {
        if (t->of[i].s && t->of[i].n > 0)
            ok(t, dop_sequence_end_turn(t->of[i].s, &t->diag), "end of a turn");
        t->of[i].s = NULL;
        free(t->of[i].mask);
        t->of[i].mask = NULL;
    }
    memset(t->checkpoint, 0, sizeof t->checkpoint);
    dop_model_close(t->m);
    open_model(t, plan);
    t->restarts++;
    for (uint32_t i = 0; i < t->facts.n_sequences; i++) {
        ok(t, dop_sequence_create(t->m, &t->diag, &t->of[i].s), "create");
        t->of[i].restored = false;
        t->of[i].n = 0;
        reuse(t, i);
    }
}

/* A checkpoint of a sequence, or a sequence that is taken to one, by its handle. */
static void
checkpoint(state *t, uint32_t i)
{
    const uint32_t k = pick(t, CHECKPOINTS);
    if (t->checkpoint[k] && pick(t, 2)) {
        ok(t, dop_sequence_restore(t->of[i].s, t->checkpoint[k], &t->diag), "restore");
        t->of[i].text = t->checkpoint_text[k];
        t->of[i].n = t->checkpoint_n[k];
        t->of[i].restored = true;
        t->restored++;
        return;
    }
    dop_model_drop_checkpoint(t->m, t->checkpoint[k]);
    t->checkpoint[k] = 0;
    if (t->of[i].n == 0 || is_full(t, dop_sequence_checkpoint(t->of[i].s, &t->diag, &t->checkpoint[k]), "checkpoint"))
        return;
    must(t->checkpoint[k] != 0, "a handle");
    t->checkpoint_text[k] = t->of[i].text;
    t->checkpoint_n[k] = t->of[i].n;
    t->held++;
}

static void
create_or_fork(state *t, uint32_t from)
{
    uint32_t to = free_place(t);
    bool fork = t->of[from].s && pick(t, 3) > 0;
    dop_sequence *s = NULL;
    if (to == t->facts.n_sequences) { /* the plan is full: an error, and nothing changes */
        memset(&t->diag, 0, sizeof t->diag);
        dop_status st = fork ? dop_sequence_fork(t->of[from].s, &t->diag, &s) : dop_sequence_create(t->m, &t->diag, &s);
        must(st == DOP_E_INPUT && !s, "one sequence too many");
        memset(&t->diag, 0, sizeof t->diag);
        return;
    }
    ok(t, fork ? dop_sequence_fork(t->of[from].s, &t->diag, &s) : dop_sequence_create(t->m, &t->diag, &s), "create");
    t->of[to].s = s;
    free(t->of[to].mask);
    t->of[to].mask = NULL;
    t->of[to].restored = fork && t->of[from].restored;
    t->of[to].n = fork ? t->of[from].n : 0;
    t->of[to].text = fork ? t->of[from].text : pick(t, TEXTS);
    if (!fork && pick(t, 3) > 0)
        reuse(t, to);
}

static void
save_or_load(state *t, uint32_t i, const char *work)
{
    if (t->n_files < 4 || pick(t, 3) == 0) {
        uint32_t f = t->n_files < 4 ? t->n_files++ : pick(t, 4);
        snprintf(t->file[f], sizeof t->file[f], "%s/sequence.%u", work, f);
        ok(t, dop_sequence_save(t->of[i].s, t->file[f], NULL, 0, &t->diag), "save");
        t->file_text[f] = t->of[i].text;
        t->file_n[f] = t->of[i].n;
        return;
    }
    uint32_t f = pick(t, t->n_files);
    if (is_full(t, dop_sequence_load(t->of[i].s, t->file[f], &t->diag, NULL, NULL), "load"))
        return;
    t->of[i].text = t->file_text[f];
    t->of[i].n = t->file_n[f];
    t->of[i].restored = true; /* it may have been saved so */
}

/* Somebody makes room, as often as not. */
static void
make_room(state *t)
{
    uint32_t i = pick(t, 2 * t->facts.n_sequences);
    if (i >= t->facts.n_sequences || !t->of[i].s)
        return;
    check_tokens(t, i);
    dop_sequence_destroy(t->of[i].s);
    t->of[i].s = NULL;
}

static void
operation(state *t, const char *work)
{
    uint32_t i = pick(t, t->facts.n_sequences), op = pick(t, 16), k = pick(t, t->facts.n_sequences);
    if (wire == NULL && pick(t, 16) == 0) {
        talk_in_steps(t);
        return;
    }
    if (t->of[i].s && pick(t, 8) == 0) {
        if (pick(t, 3) == 0) {
            if (t->of[i].n > 0)
                ok(t, dop_sequence_end_turn(t->of[i].s, &t->diag), "end of a turn");
            t->of[i].text = pick(t, TEXTS);
            reuse(t, i);
        } else {
            checkpoint(t, i);
        }
        check_tokens(t, i);
        return;
    }
    if (op < 6) {
        step(t);
        return;
    }
    if (op < 8 || !t->of[i].s) {
        create_or_fork(t, k);
        return;
    }
    switch (op) {
    case 8:
        dop_sequence_destroy(t->of[i].s);
        t->of[i].s = NULL;
        return;
    case 9:
        t->of[i].n = pick(t, t->of[i].n + 1);
        ok(t, dop_sequence_rewind(t->of[i].s, t->of[i].n, &t->diag), "rewind");
        break;
    case 10:
        if (t->of[k].s) {
            ok(t, dop_sequence_copy(t->of[i].s, t->of[k].s, &t->diag), "copy");
            t->of[i].n = t->of[k].n;
            t->of[i].text = t->of[k].text;
            t->of[i].restored = t->of[k].restored;
        }
        break;
    case 11:
        save_or_load(t, i, work);
        break;
    case 12:
        if (pick(t, 2))
            next(t, i);
        else
            talk(t, i);
        break;
    case 13: /* what is cut at the end is as if rewound; in the middle it is another text */
        if (t->of[i].n > 2) {
            uint32_t n = 1 + pick(t, t->of[i].n - 1);
            ok(t, dop_sequence_cut(t->of[i].s, t->of[i].n - n, n, &t->diag), "cut");
            t->of[i].n -= n;
        }
        break;
    default:
        if (t->of[i].n < t->length)
            feed(t, i, op == 14);
    }
    check_tokens(t, i);
}

/* --- draws -------------------------------------------------------------------------------------------------------------- */

typedef struct entry {
    double logit;
    uint32_t id;
} entry;

static int
larger_first(const void *x, const void *y)
{
    const entry *a = x, *b = y;
    return a->logit != b->logit ? (a->logit > b->logit ? -1 : 1) : a->id < b->id ? -1 : a->id > b->id;
}

/* What is to be drawn from, by the words of dop_sampling: out_share [vocab]. */
static void
shares_of(const state *t, const float *logits, const dop_sampling *p, const uint32_t *mask, double *out_share)
{
    entry *e = calloc(t->facts.vocab, sizeof *e);
    uint32_t n = 0, kept = 0;
    double total = 0, sum = 0;
    must(e != NULL, "memory");
    memset(out_share, 0, t->facts.vocab * sizeof *out_share);
    for (uint32_t i = 0; i < t->facts.vocab; i++)
        if (!mask || mask[i / 32] >> i % 32 & 1)
            e[n++] = (entry){(double)logits[i], i};
    qsort(e, n, sizeof *e, larger_first);
    if (p->top_k && p->top_k < n)
        n = p->top_k;
    for (uint32_t i = 0; i < n; i++)
        total += exp(e[i].logit - e[0].logit);
    while (kept < n && (kept == 0 || p->top_p >= 1 || sum < (double)p->top_p * total))
        sum += exp(e[kept++].logit - e[0].logit);
    sum = 0;
    for (uint32_t i = 0; i < kept; i++)
        if (p->min_p <= 0 || e[i].logit >= e[0].logit + log((double)p->min_p))
            sum += out_share[e[i].id] = exp((e[i].logit - e[0].logit) / (double)p->temperature);
    for (uint32_t i = 0; i < t->facts.vocab; i++)
        out_share[i] /= sum;
    free(e);
}

/* Pearson's statistic over the ids that are expected five times, and the rest together. */
static void
compare_draws(const state *t, const double *share, const uint32_t *counts, uint32_t n, uint32_t which)
{
    double statistic = 0, rest = 0, rest_got = 0, bins = -1;
    for (uint32_t i = 0; i < t->facts.vocab; i++) {
        const double want = share[i] * n;
        must(want > 0 || counts[i] == 0, "a draw is one of those that may be drawn");
        if (want >= 5) {
            statistic += (counts[i] - want) * (counts[i] - want) / want;
            bins++;
        } else {
            rest += want;
            rest_got += counts[i];
        }
    }
    if (rest >= 5) {
        statistic += (rest_got - rest) * (rest_got - rest) / rest;
        bins++;
    }
    if (bins > 0 && statistic > bins + 5 * sqrt(2 * bins) + 8) {
        printf("draws of way %u: %.1f for %.0f degrees of freedom\n", which, statistic, bins);
        exit(1);
    }
}

/* One row of each sequence in every step, which is rolled back: the same logits with another seed. */
static void
check_draws(state *t)
{
    static const dop_sampling ways[] = {
        {.temperature = 0.5f, .top_p = 1, .top_k = 6, .repeat_penalty = 1},
        {.temperature = 1.5f, .top_p = 0.4f, .repeat_penalty = 1},
        {.temperature = 2, .top_k = 20, .top_p = 0.7f, .min_p = 0.1f, .repeat_penalty = 1},
        {.temperature = 2, .top_k = 2, .top_p = 1, .repeat_penalty = 1},
        {.temperature = 2, .top_k = 1, .top_p = 1, .repeat_penalty = 1}, /* only the largest is left */
    };
    enum { DRAWS = 160, ALONE = 3 };
    const uint32_t q = t->facts.n_sequences;
    uint32_t *counts = calloc(t->facts.vocab, sizeof *counts), first[MAX];
    double *share = calloc(t->facts.vocab, sizeof *share);
    float *logits = calloc(t->facts.vocab, sizeof *logits);
    dop_step_row rows[MAX];
    must(counts && share && logits, "memory");
    for (uint32_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        memset(counts, 0, t->facts.vocab * sizeof *counts);
        for (uint32_t round = 0; round * q < DRAWS + q; round++) {
            for (uint32_t i = 0; i < q; i++) {
                dop_sampling way = ways[w];
                way.seed = (round + 1) * 1000003u + i * 7919u + w;
                dop_sequence_set_sampling(t->of[i].s, &way);
                ok(t, dop_sequence_set_mask(t->of[i].s, w % 2 ? t->of[0].mask : NULL, &t->diag), "mask");
                rows[i] = (dop_step_row){t->of[i].s, t->text[0][8], round ? DOP_WANTS_DRAW : DOP_WANTS_LOGITS};
            }
            ok(t, dop_step_run(t->m, rows, q, &t->diag), "step");
            for (uint32_t i = 0; i < q; i++) {
                uint32_t id = 0;
                if (round == 0 && i == 0)
                    memcpy(logits, dop_step_logits(t->m, 0), t->facts.vocab * sizeof *logits);
                must(round == 0 || dop_step_logits(t->m, i) == NULL, "a draw needs no logits");
                ok(t, dop_step_sample(t->m, i, &t->diag, &id), "sample");
                counts[id] += round > 0;
                if (round == 1)
                    first[i] = id;
            }
            dop_step_rollback(t->m);
        }
        shares_of(t, logits, &ways[w], w % 2 ? t->of[0].mask : NULL, share);
        compare_draws(t, share, counts, (DRAWS / q + (DRAWS % q != 0)) * q, w);
        /* Alone, by the schedule for one row: the same seed at the same position, and logits that differ by rounding. */
        uint32_t same = 0;
        for (uint32_t i = 0; i < q && i < ALONE; i++) {
            dop_sampling way = ways[w];
            uint32_t id = 0;
            way.seed = 2 * 1000003u + i * 7919u + w;
            dop_sequence_set_sampling(t->of[i].s, &way);
            for (uint32_t host = 0; host < 2; host++) {
                rows[i].wants = host ? DOP_WANTS_LOGITS : DOP_WANTS_DRAW;
                ok(t, dop_step_run(t->m, &rows[i], 1, &t->diag), "step");
                ok(t, dop_step_sample(t->m, 0, &t->diag, &id), "sample");
                same += id == first[i];
                dop_step_rollback(t->m);
            }
        }
        must(same + 1 >= 2 * (q < ALONE ? q : ALONE),
             "a seed draws the same alone and beside others, on device and host");
    }
    free(counts);
    free(share);
    free(logits);
}

/* Every sequence holds the same few tokens. */
static void
draw_all(state *t)
{
    if (!dop_model_draws(t->m) ||
        (t->facts.n_sequences > 1 && dop_model_max_rows_of_several(t->m) < t->facts.n_sequences))
        return;
    for (uint32_t i = 0; i < t->facts.n_sequences; i++) {
        dop_sequence_destroy(t->of[i].s);
        ok(t, dop_sequence_create(t->m, &t->diag, &t->of[i].s), "create");
        ok(t, dop_sequence_feed(t->of[i].s, t->text[0], 8, &t->diag), "feed");
    }
    while (!t->of[0].mask)
        change_mask(t, 0);
    check_draws(t);
    printf("draws of 5 ways\n");
}

static int
test(int argc, char **argv)
{
    static state t;
    if (argc < 6 || argc > 8)
        return 2;
    t.ordering = argc > 7 && strcmp(argv[7], "persistent") == 0 ? DOP_ORDERING_PERSISTENT : DOP_ORDERING_AUTO;
    t.length = argc > 6 ? (uint32_t)strtoul(argv[6], NULL, 10) : LENGTH;
    if (t.length < LENGTH || t.length > LONGEST)
        return 2;
    t.x = strtoull(argv[3], NULL, 10) + 1;
    t.bound = strtod(argv[4], NULL);
    snprintf(t.folder, sizeof t.folder, "%s/states", argv[5]);
    make_texts(&t, argv[1]);
    unsigned long n = strtoul(argv[2], NULL, 10);
    for (unsigned long i = 0; i < n; i++) {
        const uint64_t full = t.full;
        if (wire == NULL && i % 250 == 249)
            restart(&t, argv[1]);
        operation(&t, argv[5]);
        if (t.full > full)
            make_room(&t);
    }
    for (uint32_t i = 0; i < t.facts.n_sequences; i++)
        if (t.of[i].s)
            check_tokens(&t, i);
    count_loads(&t);
    const dop_counters c = t.counts;
    printf("%lu operations on %u sequences, %llu rows compared, worst %.3g standard deviations\n", n,
           t.facts.n_sequences, (unsigned long long)t.rows, t.worst);
    printf("%llu checkpoints held, %llu times taken to one\n", (unsigned long long)t.held,
           (unsigned long long)t.restored);
    printf("%llu restarts, %llu tokens from host memory and files, %llu pieces from files\n",
           (unsigned long long)t.restarts, (unsigned long long)t.loaded, (unsigned long long)t.from_files);
    must(n < 500 || (t.loaded > 0 && t.from_files > 0), "prompts come from files");
    must(n < 200 || (t.held > 0 && t.restored > 0), "checkpoints are made and used");
    printf("%llu steps in flight before they were asked for, %llu rows dropped\n", (unsigned long long)c.steps_ahead,
           (unsigned long long)c.rows_dropped);
    must(wire != NULL || n < 80 || t.facts.n_sequences == 1 || (c.steps_ahead > n / 40 && c.rows_dropped > 0),
         "steps run ahead, and are dropped");
    printf("%u pages of %u: %llu tokens found again, %llu pages copied, %llu times full\n", t.facts.n_pages,
           t.facts.page, (unsigned long long)c.tokens_reused, (unsigned long long)c.pages_copied,
           (unsigned long long)t.full);
    printf("a prefix of a sequence that is gone: %s\n", t.shares ? "found in whole pages" : "not found");
    must(!t.shares || n < 80 || c.tokens_reused > n / 20, "prefixes are found again");
    must(t.facts.page == 0 || t.facts.n_pages >= t.facts.n_sequences * (t.facts.ctx / t.facts.page) || t.full > n / 100,
         "a small pool is full sometimes");
    draw_all(&t);
    for (uint32_t i = 0; i < t.facts.n_sequences; i++)
        dop_sequence_destroy(t.of[i].s);
    must(dop_model_counters(t.m).pages_free == t.facts.n_pages, "all pages are free in the end");
    dop_model_close(t.m);
    for (uint32_t i = 0; i < TEXTS; i++)
        free(t.want[i]);
    return t.rows > n / (t.facts.n_sequences > 1 ? 2 : 4) ? 0 : 1; /* one sequence has nothing to fork or copy to */
}

#ifdef DOP_RANKS
int
main(int argc, char **argv)
{
    static const dop_open_options options;
    dop_mpi *mpi;
    dop_diag diag = {0};
    int result = 1;
    dop_status st = dop_mpi_start(NULL, &diag, &mpi);
    if (st == DOP_OK) {
        wire = dop_mpi_wire(mpi);
        if (wire->rank > 0)
            st = dop_ranks_follow(wire, &options, &diag);
        else
            result = test(argc, argv);
        if (wire->rank == 0)
            dop_ranks_dismiss(wire);
    }
    fflush(stdout);
    if (st != DOP_OK)
        printf("%s\n", diag.message);
    result = wire && wire->rank > 0 ? st != DOP_OK : result;
    dop_mpi_end(mpi, st);
    return result;
}
#else
int
main(int argc, char **argv)
{
    return test(argc, argv);
}
#endif
