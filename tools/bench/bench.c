#include "tools/bench/bench.h"
#include "base/format/adapter.h"
#include "runtime/model/model.h"
#include "runtime/model/model_load.h"
#include "runtime/step/step_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Prompt length for the time to first token: about as long as a short question. */
enum { FIRST_PROMPT = 16 };
/* Time limit of the warm-up round, which only raises the device's clocks. */
static const double warm_up_ms = 1000;

/* Fills `out` with reproducible random token ids (xorshift); speed does not depend on them. */
static void
random_tokens(uint32_t seed, uint32_t vocab, uint32_t *out, size_t n)
{
    uint32_t x = seed * 2654435761u + 1;
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        out[i] = x % vocab;
    }
}

static dop_status
feed_and_pick(dop_sequence *s, const uint32_t *ids, size_t n, dop_diag *diag)
{
    uint32_t id;
    dop_sequence_expect(s, 1);
    DOP_RETURN_IF_ERROR(dop_sequence_feed(s, ids, n, diag));
    return dop_sequence_next(s, diag, &id);
}

/* Fills the cache with `depth` tokens. */
static dop_status
fill_bench_cache(dop_sequence *s, const uint32_t *ids, uint32_t depth, dop_diag *diag)
{
    DOP_RETURN_IF_ERROR(dop_sequence_rewind(s, 0, diag));
    if (depth > 0)
        DOP_RETURN_IF_ERROR(feed_and_pick(s, ids, depth, diag));
    return dop_sequence_rewind(s, depth, diag);
}

/* Runs a test once. A tgN test starts no step later than limit_ms. */
static dop_status
measure_sequence(dop_sequence *s, const dop_bench_test *t, const uint32_t *ids, double limit_ms, dop_diag *diag,
                 double *out_ms)
{
    dop_status st = dop_sequence_rewind(s, t->depth, diag);
    if (st != DOP_OK)
        return st;
    if (t->n_prompt == 0)
        return dop_bench_generate(s, t, ids, limit_ms, diag, out_ms);
    const double start = dop_now_ms();
    st = feed_and_pick(s, ids, t->n_prompt, diag);
    *out_ms = dop_now_ms() - start;
    return st;
}

/* Returns the number of tokens that one run of a test counts. */
static double
count_test_tokens(const dop_bench_test *t)
{
    return (double)t->n_prompt + (double)t->n_gen * t->batch;
}

/* Runs n_gen steps of n rows, divided into groups so that each part of the model has a step in flight. */
static dop_status
run_step_groups(dop_model *m, dop_step_row *rows, uint32_t n, uint32_t groups, uint32_t n_gen, double limit_ms,
                dop_diag *diag)
{
    const double start = dop_now_ms();
    uint32_t left = n_gen;
    /* Runs the first step synchronously, so that all states are complete before steps overlap. */
    dop_status st = dop_step_run(m, rows, n, diag);
    for (uint32_t k = 0; k < n && st == DOP_OK; k++)
        rows[k].token = dop_step_pick(m, k);
    dop_step_commit(m);
    left -= 1;
    for (uint32_t g = 0; g < groups && left > 0 && st == DOP_OK; g++)
        st = dop_step_start(m, rows + n * g / groups, n * (g + 1) / groups - n * g / groups, diag);
    for (; left > 0 && st == DOP_OK; left--) {
        if (limit_ms > 0 && dop_now_ms() - start > limit_ms)
            left = 1; /* one last iteration: waits for the steps in flight */
        for (uint32_t g = 0; g < groups && st == DOP_OK; g++) {
            dop_step_row *own = rows + n * g / groups;
            const uint32_t n_own = n * (g + 1) / groups - n * g / groups;
            if ((st = dop_step_end(m, diag)) != DOP_OK)
                break;
            for (uint32_t k = 0; k < n_own; k++)
                own[k].token = dop_step_pick(m, k);
            dop_step_commit(m);
            if (left > 1)
                st = dop_step_start(m, own, n_own, diag);
        }
    }
    return st;
}

/* Runs a multi-sequence test once. All sequences share the first one's prefix. */
static dop_status
measure_batch(const dop_bench_plan *p, const dop_bench_test *t, const uint32_t *ids, double limit_ms, dop_diag *diag,
              double *out_ms)
{
    dop_sequence *s = p->sequence;
    dop_step_row rows[DOP_STEP_MAX_SEQUENCES];
    uint32_t n;
    dop_status st = dop_bench_fork(p, t, ids[0], diag, rows, &n);
    double start = dop_now_ms();
    const uint32_t groups = st == DOP_OK ? dop_step_groups(s->model, n) : 0;
    if (groups > 1)
        st = run_step_groups(s->model, rows, n, groups, t->n_gen, limit_ms, diag);
    for (uint32_t i = 0; i < t->n_gen && groups == 1 && st == DOP_OK; i++) {
        st = dop_step_run(s->model, rows, n, diag);
        for (uint32_t k = 0; k < n && st == DOP_OK; k++)
            rows[k].token = dop_step_pick(s->model, k);
        dop_step_commit(s->model);
        if (limit_ms > 0 && dop_now_ms() - start > limit_ms)
            break;
    }
    *out_ms = dop_now_ms() - start;
    for (uint32_t k = 1; k < n; k++)
        dop_sequence_destroy(rows[k].sequence);
    return st;
}

static dop_status
measure_test(dop_bench_plan *p, const dop_bench_test *t, const uint32_t *ids, double limit_ms, dop_diag *diag,
             double *out_ms)
{
    dop_sequence *s = p->sequence;
    if (t->drafts && t->batch > 1)
        return dop_bench_batch_drafts(p, t, ids, limit_ms, diag, out_ms);
    if (t->drafts)
        return dop_bench_drafts(s, t, ids, limit_ms, &p->replay, diag, out_ms);
    if (t->sampled)
        return dop_bench_sampled(s, t, ids, limit_ms, diag, out_ms);
    return t->batch > 1 ? measure_batch(p, t, ids, limit_ms, diag, out_ms)
                        : measure_sequence(s, t, ids, limit_ms, diag, out_ms);
}

static void
add_test(dop_bench *b, dop_bench_test test)
{
    dop_bench_test *t = &b->tests[b->n_tests++];
    *t = test;
    int at = snprintf(t->name, sizeof t->name, "%s%u", t->n_prompt ? "pp" : "tg", t->n_prompt ? t->n_prompt : t->n_gen);
    if (t->batch > 1)
        at += snprintf(t->name + at, sizeof t->name - (size_t)at, "b%u", t->batch);
    if (t->drafts)
        at += snprintf(t->name + at, sizeof t->name - (size_t)at, "d%u", t->drafts - 1);
    if (t->sampled)
        at += snprintf(t->name + at, sizeof t->name - (size_t)at, "s");
    if (t->depth > 0)
        snprintf(t->name + at, sizeof t->name - (size_t)at, "@d%u", t->depth);
}

static void
add_gen_tests(dop_bench *b, const dop_bench_options *o, uint32_t n_gen, uint32_t depth)
{
    for (size_t i = 0; i < (o->n_batches ? o->n_batches : 1); i++) {
        dop_bench_test t = {.n_gen = n_gen, .batch = o->n_batches ? o->batches[i] : 1, .depth = depth};
        add_test(b, t);
        for (size_t k = 0; k < o->n_drafts; k++) {
            t.drafts = o->drafts[k] + 1;
            add_test(b, t);
        }
    }
    if (o->sampled)
        add_test(b, (dop_bench_test){.n_gen = n_gen, .batch = 1, .sampled = true, .depth = depth});
}

/* Lists the tests ordered by depth, so that the cache is filled once per depth. */
static dop_status
list_tests(dop_bench *b, const dop_bench_options *o, dop_diag *diag)
{
    b->tests = calloc(o->n_depths * (o->n_prompts + o->n_gens * ((o->n_batches + 1) * (o->n_drafts + 1) + 1)) + 1,
                      sizeof *b->tests);
    if (!b->tests)
        return DOP_NO_MEMORY(diag);
    for (size_t d = 0; d < o->n_depths; d++) {
        for (size_t i = 0; i < o->n_prompts; i++)
            if (o->prompts[i] > 0)
                add_test(b, (dop_bench_test){.n_prompt = o->prompts[i], .batch = 1, .depth = o->depths[d]});
        for (size_t i = 0; i < o->n_gens; i++)
            if (o->gens[i] > 0)
                add_gen_tests(b, o, o->gens[i], o->depths[d]);
    }
    if (b->n_tests == 0)
        return DOP_FAIL(diag, DOP_E_USAGE, "nothing to measure: -p and -n are both 0");
    return DOP_OK;
}

static dop_status
check_context(const dop_bench *b, const dop_bench_plan *p, dop_diag *diag)
{
    const uint32_t ctx = p->info.plan->model->ctx, rows = dop_model_max_rows_of_several(p->model);
    for (size_t i = 0; i < b->n_tests; i++) {
        const dop_bench_test *t = &b->tests[i];
        const uint32_t least = t->drafts ? 2 * t->batch : t->batch; /* rows of a step */
        if (t->batch > p->info.plan->model->n_sequences)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, p->path,
                               "%s needs %u sequences and the plan holds %u at once: compile with --sequences %u",
                               t->name, t->batch, p->info.plan->model->n_sequences, t->batch);
        if ((rows > 1 || t->drafts) && rows < least)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, p->path,
                               "%s needs steps of %u rows and the plan's take %u: compile with --rows %u", t->name,
                               least, rows, least);
        uint64_t need = (uint64_t)t->depth + t->n_prompt + t->n_gen;
        if (need > ctx && need > p->info.plan->model->ctx_train)
            return DOP_FAIL_IN(
                diag, DOP_E_INPUT, p->path,
                "%s needs %llu positions, the plan's context is %u and the model was trained for %u: give "
                "-p, -n and -d that fit",
                t->name, (unsigned long long)need, ctx, p->info.plan->model->ctx_train);
        if (need > ctx)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, p->path,
                               "%s needs %llu positions and the plan's context is %u: compile with --ctx %llu", t->name,
                               (unsigned long long)need, ctx, (unsigned long long)need);
    }
    return DOP_OK;
}

/* Loads the adapters. The sequence uses the first one. */
static dop_status
load_adapters(const dop_bench_options *o, dop_bench_plan *p, dop_diag *diag)
{
    dop_arena arena;
    dop_status st = o->n_loras <= DOP_ADAPTERS_AT_ONCE
                        ? DOP_OK
                        : DOP_FAIL(diag, DOP_E_USAGE, "--bench takes at most %d adapters", DOP_ADAPTERS_AT_ONCE);
    dop_arena_init(&arena);
    for (size_t i = 0; i < o->n_loras && st == DOP_OK; i++) {
        const char *path = NULL;
        double scale = 1;
        st = dop_adapter_argument(o->loras[i], &arena, diag, &path, &scale);
        if (st == DOP_OK)
            st = dop_adapter_load(p->model, path, diag, &p->uses[i].adapter);
        p->uses[i].scale = (float)scale;
        p->n_uses++;
    }
    dop_arena_finish(&arena);
    return st == DOP_OK && p->n_uses ? dop_sequence_set_adapters(p->sequence, p->uses, 1, diag) : st;
}

static dop_status
open_plan(const dop_bench *b, const dop_bench_options *o, bool is_first, dop_bench_plan *p, dop_diag *diag)
{
    uint32_t ids[FIRST_PROMPT];
    dop_status st = dop_model_open(p->path, &o->open, diag, &p->model);
    if (st != DOP_OK)
        return st;
    dop_model_describe(p->model, &p->info);
    if ((st = dop_sequence_create(p->model, diag, &p->sequence)) != DOP_OK)
        return st;
    if ((st = check_context(b, p, diag)) != DOP_OK || (st = load_adapters(o, p, diag)) != DOP_OK)
        return st;
    const dop_plan_model *m = p->info.plan->model;
    p->weights_bytes = p->model->memory.bytes[DOP_SLOT_WEIGHTS];
    p->bytes_per_token = dop_bench_weights_read(p->info.plan, p->info.decode);
    p->floor_gbps = o->floor_gbps > 0 ? o->floor_gbps : dop_bench_known_floor(p->info.device->name);
    p->first_token_prompt = FIRST_PROMPT < m->ctx ? FIRST_PROMPT : m->ctx;
    random_tokens(3, m->vocab, ids, p->first_token_prompt);
    double start = dop_now_ms();
    st = feed_and_pick(p->sequence, ids, p->first_token_prompt, diag);
    p->first_token_ms = dop_now_ms() - start;
    if (is_first)
        p->start_to_first_token_ms = dop_now_ms() - o->start_ms;
    return st;
}

/* Computes the rates and their spread. Requires the results of plan 0. */
static dop_status
compute_rates(dop_bench *b, size_t plan, size_t test, dop_diag *diag)
{
    dop_bench_row *r = &b->rows[plan * b->n_tests + test];
    const dop_bench_row *first = &b->rows[test];
    const dop_bench_plan *p = &b->plans[plan];
    const dop_bench_test *t = &b->tests[test];
    double *rates = calloc(b->rounds, sizeof *rates);
    if (!rates)
        return DOP_NO_MEMORY(diag);
    dop_stats s;
    for (uint32_t i = 0; i < b->rounds; i++)
        rates[i] = count_test_tokens(t) * 1e3 / r->ms[i];
    dop_status st = dop_stats_of(rates, b->rounds, diag, &s);
    free(rates);
    if (st != DOP_OK)
        return st;
    r->mean = s.mean;
    r->stddev = s.stddev;
    r->median = s.median;
    r->ratio = r->median / first->median;
    for (uint32_t i = 0; i < b->rounds; i++) {
        double ratio = first->ms[i] / r->ms[i];
        r->ratio_min = i == 0 || ratio < r->ratio_min ? ratio : r->ratio_min;
        r->ratio_max = i == 0 || ratio > r->ratio_max ? ratio : r->ratio_max;
    }
    if (t->n_gen > 0) {
        r->gbps = (double)p->bytes_per_token * r->median / t->batch * 1e-9;
        r->floor_share = p->floor_gbps > 0 ? r->gbps / p->floor_gbps : 0;
    }
    return DOP_OK;
}

static void
print_round(const dop_bench_plan *p, const dop_bench_test *t, uint32_t round, uint32_t rounds, double ms)
{
    const dop_speculation_counts *c = &p->replay.counts;
    fprintf(stderr, "%s: %s, round %u of %u: %.2f tok/s", p->path, t->name, round + 1, rounds,
            count_test_tokens(t) * 1e3 / ms);
    if (t->drafts)
        fprintf(stderr, ", %llu of %llu drafts accepted in %llu rounds, %llu of which ended in doubt",
                (unsigned long long)c->accepted, (unsigned long long)c->drafted, (unsigned long long)c->steps,
                (unsigned long long)c->again);
    fprintf(stderr, "\n");
}

static void
add_counts(dop_speculation_counts *sum, const dop_speculation_counts *c)
{
    sum->steps += c->steps;
    sum->drafted += c->drafted;
    sum->accepted += c->accepted;
    sum->again += c->again;
}

/* Runs all rounds of one test. The plans take turns in each round. */
static dop_status
run_test(dop_bench *b, size_t test, const uint32_t *ids, bool progress, dop_diag *diag)
{
    const dop_bench_test *t = &b->tests[test];
    dop_status st = DOP_OK;
    double ms;
    for (size_t p = 0; p < b->n_plans && st == DOP_OK; p++)
        st = measure_test(&b->plans[p], t, ids, warm_up_ms, diag, &ms);
    for (uint32_t round = 0; round < b->rounds && st == DOP_OK; round++)
        for (size_t p = 0; p < b->n_plans && st == DOP_OK; p++) {
            dop_bench_row *row = &b->rows[p * b->n_tests + test];
            st = measure_test(&b->plans[p], t, ids, 0, diag, &row->ms[round]);
            if (t->drafts)
                add_counts(&row->drafts, &b->plans[p].replay.counts);
            if (progress && st == DOP_OK)
                print_round(&b->plans[p], t, round, b->rounds, row->ms[round]);
        }
    for (size_t p = 0; p < b->n_plans && st == DOP_OK; p++)
        st = compute_rates(b, p, test, diag);
    return st;
}

static dop_status
run_tests(dop_bench *b, bool progress, dop_diag *diag)
{
    uint32_t vocab = UINT32_MAX;
    uint32_t most = 1;
    for (size_t p = 0; p < b->n_plans; p++)
        if (b->plans[p].info.plan->model->vocab < vocab)
            vocab = b->plans[p].info.plan->model->vocab;
    for (size_t i = 0; i < b->n_tests; i++) {
        const dop_bench_test *t = &b->tests[i];
        uint32_t longest = t->n_prompt > t->depth ? t->n_prompt : t->depth;
        most = longest > most ? longest : most;
    }
    uint32_t *ids = calloc(most, sizeof *ids);
    if (!ids)
        return DOP_NO_MEMORY(diag);
    random_tokens(7, vocab, ids, most);
    dop_status st = DOP_OK;
    for (size_t i = 0; i < b->n_tests; i++) {
        for (size_t p = 0; p < b->n_plans; p++)
            if (i == 0 || b->tests[i].depth != b->tests[i - 1].depth)
                DOP_TRY(fill_bench_cache(b->plans[p].sequence, ids, b->tests[i].depth, diag));
        DOP_TRY(run_test(b, i, ids, progress, diag));
    }
error:
    free(ids);
    return st;
}

/* Waits until all kernels are compiled. A driver that compiles in the background would slow steps down. */
static dop_status
wait_for_kernels(dop_model *m, dop_diag *diag)
{
    for (uint32_t i = 0; i < m->used.n; i++)
        DOP_RETURN_IF_ERROR(dop_model_need(m, m->used.schedules[i], diag));
    return DOP_OK;
}

dop_status
dop_bench_run(const char *const *paths, size_t n_paths, const dop_bench_options *options, dop_diag *diag,
              dop_bench *out_bench)
{
    dop_bench *b = out_bench;
    memset(b, 0, sizeof *b);
    b->rounds = options->rounds ? options->rounds : 1;
    dop_status st = list_tests(b, options, diag);
    if (st != DOP_OK)
        goto error;
    b->plans = calloc(n_paths, sizeof *b->plans);
    b->rows = b->plans ? calloc(n_paths * b->n_tests, sizeof *b->rows) : NULL;
    if (!b->rows) {
        st = DOP_NO_MEMORY(diag);
        goto error;
    }
    for (size_t i = 0; i < n_paths * b->n_tests; i++)
        if (!(b->rows[i].ms = calloc(b->rounds, sizeof(double)))) {
            b->n_plans = n_paths;
            st = DOP_NO_MEMORY(diag);
            goto error;
        }
    b->n_plans = n_paths;
    for (size_t i = 0; i < n_paths; i++)
        b->plans[i].path = paths[i];
    for (size_t i = 0; i < n_paths && st == DOP_OK; i++)
        st = open_plan(b, options, i == 0, &b->plans[i], diag);
    for (size_t i = 0; i < n_paths && st == DOP_OK; i++)
        st = wait_for_kernels(b->plans[i].model, diag);
    if (st == DOP_OK)
        st = run_tests(b, options->progress, diag);
    /* Updates the info: a stall during the tests may have changed the ordering. */
    for (size_t i = 0; i < n_paths && st == DOP_OK; i++)
        dop_model_describe(b->plans[i].model, &b->plans[i].info);
error:
    if (st != DOP_OK)
        dop_bench_finish(b);
    return st;
}

void
dop_bench_finish(dop_bench *bench)
{
    dop_bench *b = bench;
    for (size_t i = 0; b->rows && i < b->n_plans * b->n_tests; i++)
        free(b->rows[i].ms);
    for (size_t i = 0; b->plans && i < b->n_plans; i++) {
        dop_model_close(b->plans[i].model);
        free(b->plans[i].replay.ids);
    }
    free(b->plans);
    free(b->tests);
    free(b->rows);
    memset(b, 0, sizeof *b);
}
