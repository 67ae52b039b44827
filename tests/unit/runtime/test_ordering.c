/* The choice between barriers and a persistent dispatch, and the way back from one that stalls, on a hand-made plan.
 * Also: a grid that is made on the device.  Needs runtime/device/device.h's Vulkan device. */
#include "plan/disasm.h"
#include "runtime/model/model.h"
#include "runtime/model/model_load.h"
#include "runtime/model/ordering.h"
#include "runtime/model/probe.h"
#include "runtime/step/step_ahead.h"
#include "tests/unit/plan_builder.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint32_t NEVER = UINT32_MAX, NO_STAGES = UINT32_MAX - 1;

static dop_sequence *
try_open(plan_builder *b, const dop_open_options *o, dop_diag *diag)
{
    char path[] = "/tmp/doppler-test-XXXXXX";
    dop_model *m = NULL;
    dop_sequence *s = NULL;
    pb_write(b, path);
    if (dop_model_open(path, o, diag, &m) == DOP_OK)
        cr_assert_eq(dop_sequence_create(m, diag, &s), DOP_OK, "%s", diag->message);
    unlink(path);
    return s;
}

static void
close_model(dop_sequence *s)
{
    dop_model_close(s->model); /* and the sequence */
}

static dop_sequence *
open_toy(uint32_t stall_at, const dop_open_options *o)
{
    plan_builder b;
    dop_diag diag = {0};
    pb_toy(&b);
    if (stall_at != NO_STAGES)
        pb_toy_persistent(&b, stall_at, 0);
    dop_sequence *s = try_open(&b, o, &diag);
    cr_assert(s, "%s", diag.message);
    plan_builder_finish(&b);
    return s;
}

static dop_model_info
describe(const dop_sequence *s)
{
    dop_model_info info;
    dop_model_describe(s->model, &info);
    return info;
}

/* n tokens after the first n_have of all, against the model in C. */
static void
take(dop_sequence *s, uint32_t *all, uint32_t n_have, uint32_t n)
{
    dop_diag diag = {0};
    for (uint32_t i = n_have; i < n_have + n; i++) {
        cr_assert_eq(dop_sequence_next(s, &diag, &all[i]), DOP_OK, "token %u: %s", i, diag.message);
        cr_assert_eq(all[i], toy_argmax(all, i), "token %u: %u instead of %u", i, all[i], toy_argmax(all, i));
    }
}

static void
feed(dop_sequence *s, uint32_t *all, uint32_t n_have, uint32_t n)
{
    dop_diag diag = {0};
    for (uint32_t i = n_have; i < n_have + n; i++)
        all[i] = (i * 7 + 3) % TOY_VOCAB;
    cr_assert_eq(dop_sequence_feed(s, all + n_have, n, &diag), DOP_OK, "%s", diag.message);
}

static void
check_greedy(dop_sequence *s, uint32_t n_prompt, uint32_t n)
{
    uint32_t all[TOY_CTX + 1];
    dop_diag diag = {0};
    cr_assert_eq(dop_sequence_rewind(s, 0, &diag), DOP_OK, "%s", diag.message);
    dop_sequence_expect(s, n);
    feed(s, all, 0, n_prompt);
    take(s, all, n_prompt, n);
}

static const dop_open_options forced[] = {
    {.ordering = DOP_ORDERING_PERSISTENT},
    {.ordering = DOP_ORDERING_PERSISTENT, .steps_ahead = 1},
    {.ordering = DOP_ORDERING_PERSISTENT, .steps_ahead = 16, .steps_per_submit = 3},
    {.ordering = DOP_ORDERING_PERSISTENT, .steps_per_submit = 256},
    {.ordering = DOP_ORDERING_PERSISTENT, .max_chunk = 1, .separate_memory = true},
};
enum { N_FORCED = sizeof forced / sizeof forced[0] };

/* The toy's stage stalls when its mailbox and the parity disagree: any run that was half a one, or cleared one of them, shows. */
Test(ordering, forced_persistent)
{
    for (size_t i = 0; i < N_FORCED; i++) {
        dop_sequence *s = open_toy(NEVER, &forced[i]);
        cr_assert_eq(describe(s).ordering, DOP_ORDER_PERSISTENT);
        for (uint32_t n = 1; n < 40; n += 9)
            check_greedy(s, n, 30);
        check_greedy(s, 100, 28); /* up to the last position */
        dop_model_info info = describe(s);
        cr_assert_eq(info.ordering, DOP_ORDER_PERSISTENT);
        cr_assert_not(info.stalled);
        cr_assert_eq(s->model->plan.schedules[info.decode].ordering, DOP_ORDER_PERSISTENT);
        cr_assert_gt(dop_replay_step(&s->model->replay)->persistent_runs, 100, "they were used");
        cr_assert_eq(dop_model_counters(s->model).recordings, 0);
        close_model(s);
    }
}

/* A probe in the middle of a sequence runs its next steps several times, and changes none of them. */
Test(ordering, probes_between_tokens)
{
    for (uint32_t i = 0; i < 8; i++) {
        dop_sequence *s =
            open_toy(i < 4 ? NEVER : 12 + i, &forced[0]); /* or stalls at once, before, or while it probes */
        dop_sampling top1 = {.temperature = 1, .top_p = 1, .top_k = 1, .repeat_penalty = 1};
        uint32_t all[TOY_CTX];
        if (i % 2)
            dop_sequence_set_sampling(s, &top1);
        s->model->orders.probes = true;
        s->model->orders.probe_at = 16;
        feed(s, all, 0, 10);
        take(s, all, 10, 4);
        cr_assert(describe(s).probe_ms == 0, "%f", describe(s).probe_ms);
        take(s, all, 14, 60);
        cr_assert(describe(s).probe_ms > 0 || describe(s).stalled);
        cr_assert(i >= 4 || (s->model->orders.probe_at == 1024 && !describe(s).stalled));
        close_model(s);
    }
}

/* The driver's function, in front of it: it compiles nothing until `compiling` is over, or refuses everything. */
static atomic_bool compiling, refuses;
static atomic_uint n_compiled;

VKAPI_ATTR VkResult VKAPI_CALL
vkCreateComputePipelines(VkDevice device, VkPipelineCache cache, uint32_t n, const VkComputePipelineCreateInfo *infos,
                         const VkAllocationCallbacks *allocator, VkPipeline *pipelines)
{
    atomic_fetch_add(&n_compiled, 1);
    while (atomic_load(&compiling))
        usleep(100);
    if (atomic_load(&refuses))
        return VK_ERROR_INVALID_SHADER_NV;
    PFN_vkVoidFunction fn = vkGetDeviceProcAddr(device, "vkCreateComputePipelines");
    return ((PFN_vkCreateComputePipelines)fn)(device, cache, n, infos, allocator, pipelines);
}

static void *
compile_soon(void *unused)
{
    (void)unused;
    usleep(5000);
    atomic_store(&compiling, false);
    return NULL;
}

/* A text takes the form that is there when it first wants it, and keeps it: a run does not depend on when a thread is done. */
Test(ordering, forms_that_come_later_are_for_the_next_text)
{
    const dop_open_options o = {.ordering = DOP_ORDERING_PERSISTENT, .on_demand = true, .no_steps = true};
    for (uint32_t soon = 0; soon < 2; soon++) {
        dop_sequence *s = open_toy(NEVER, &o);
        dop_model *m = s->model;
        dop_diag diag = {0};
        uint32_t all[TOY_CTX];
        pthread_t thread;
        dop_model_use_ordering(m, DOP_ORDER_BARRIERS);
        feed(s, all, 0, 10);
        take(s, all, 10, 3);
        m->orders.probes = true;
        atomic_store(&compiling, true);
        if (soon)
            cr_assert_eq(pthread_create(&thread, NULL, compile_soon, NULL), 0);
        take(s, all, 13, 5);
        if (soon) {
            pthread_join(thread, NULL);
            cr_assert(describe(s).probe_ms > 0, "it was there a moment later");
            close_model(s);
            continue;
        }
        cr_assert(describe(s).probe_ms == 0 && describe(s).ordering == DOP_ORDER_BARRIERS);
        atomic_store(&compiling, false);
        cr_assert_eq(dop_model_need(m, m->orders.decode[DOP_ORDER_PERSISTENT], &diag), DOP_OK, "%s", diag.message);
        take(s, all, 18, 20);
        cr_assert(describe(s).probe_ms == 0, "the text keeps its form");
        feed(s, all, 38, 3);
        take(s, all, 41, 10);
        cr_assert(describe(s).probe_ms > 0, "the next one takes what is there");
        close_model(s);
    }
}

/* What the driver is at when a model is closed is waited for, and nothing else is begun. */
Test(ordering, closing_begins_nothing)
{
    dop_sequence *s = open_toy(NEVER, &(dop_open_options){.on_demand = true, .no_steps = true, .threads = 1});
    const dop_model *m = s->model;
    pthread_t thread;
    cr_assert_gt(m->plan.schedules[m->orders.decode[DOP_ORDER_BARRIERS]].n_dispatches, 1);
    atomic_store(&compiling, true);
    cr_assert_not(dop_model_await(s->model, m->orders.decode[DOP_ORDER_BARRIERS]), "it is not there in time");
    cr_assert_eq(atomic_load(&n_compiled), 1);
    cr_assert_eq(pthread_create(&thread, NULL, compile_soon, NULL), 0);
    close_model(s);
    cr_expect_not(atomic_load(&compiling), "the driver was waited for");
    cr_expect_eq(atomic_load(&n_compiled), 1);
    pthread_join(thread, NULL);
}

static uint32_t
count_made(const dop_model *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->plan.n_schedules; i++)
        n += dop_model_has(m, i);
    return n;
}

/* On demand, what no call needs is never made, and no recording counts as made by a call. */
Test(ordering, schedules_on_demand)
{
    dop_sequence *s = open_toy(NO_STAGES, NULL);
    const uint32_t all = count_made(s->model);
    close_model(s);
    s = open_toy(NO_STAGES, &(dop_open_options){.on_demand = true});
    cr_expect_eq(count_made(s->model), 1, "steps of one row");
    check_greedy(s, 1, 3);
    cr_expect_eq(count_made(s->model), 1);
    check_greedy(s, 45, 3);
    cr_expect(count_made(s->model) > 1 && count_made(s->model) < all, "nobody scored");
    const dop_counters c = dop_model_counters(s->model);
    cr_expect_eq(c.recordings, 0);
    cr_expect_gt(c.waited_ms, 0);
    close_model(s);
    s = open_toy(NO_STAGES, &(dop_open_options){.on_demand = true, .no_steps = true});
    cr_expect_eq(count_made(s->model), 0, "nothing is known of what comes");
    check_greedy(s, 45, 3);
    close_model(s);
}

static void
note_refused(void *user, const char *kernel)
{
    (void)kernel;
    atomic_fetch_add((atomic_uint *)user, 1);
}

/* A text does without a form whose kernel the driver refuses, and it is told so. */
Test(ordering, refused_behind_the_text)
{
    atomic_uint n_refused = 0;
    const dop_open_options o = {.ordering = DOP_ORDERING_PERSISTENT,
                                .on_demand = true,
                                .no_steps = true,
                                .refused = note_refused,
                                .refused_user = &n_refused};
    dop_sequence *s = open_toy(NEVER, &o);
    dop_model *m = s->model;
    uint32_t all[TOY_CTX];
    dop_model_use_ordering(m, DOP_ORDER_BARRIERS);
    feed(s, all, 0, 10);
    take(s, all, 10, 3);
    m->orders.probes = true;
    atomic_store(&refuses, true);
    take(s, all, 13, 20);
    cr_expect(describe(s).probe_ms == 0 && describe(s).ordering == DOP_ORDER_BARRIERS);
    close_model(s);
    cr_expect_gt(atomic_load(&n_refused), 0);
}

Test(ordering, sampling_on_the_host_with_stages)
{
    for (uint32_t stall_at = 0; stall_at < 60; stall_at += 7) {
        dop_sequence *s = open_toy(stall_at < 50 ? stall_at : NEVER, &forced[0]);
        dop_sampling top1 = {.temperature = 1, .top_p = 1, .top_k = 1, .repeat_penalty = 1},
                     greedy = {.repeat_penalty = 1};
        uint32_t all[TOY_CTX], n = 10;
        feed(s, all, 0, n);
        for (uint32_t i = 0; i < 12; i++, n += 4) {
            dop_sequence_set_sampling(s, i % 2 ? &greedy : &top1);
            take(s, all, n, 4);
        }
        cr_assert_eq(describe(s).stalled, stall_at < 50);
        close_model(s);
    }
}

Test(ordering, a_stall_changes_no_token)
{
    for (size_t i = 0; i < N_FORCED; i++)
        for (uint32_t stall_at = 0; stall_at < 26; stall_at += 5) {
            dop_sequence *s = open_toy(stall_at, &forced[i]);
            check_greedy(s, i % 2 ? 1 : 9, 40);
            dop_model_info info = describe(s);
            cr_assert(info.stalled);
            cr_assert_eq(info.ordering, DOP_ORDER_BARRIERS);
            cr_assert_eq(s->model->plan.schedules[info.decode].ordering, DOP_ORDER_BARRIERS);
            volatile dop_step *step = dop_replay_step(&s->model->replay);
            cr_assert_eq(step->persistent_runs, 0);
            cr_assert_eq(step->flags, 0);
            check_greedy(s, 33, 60);
            cr_assert_eq(dop_model_counters(s->model).recordings, 0);
            close_model(s);
        }
}

/* The stall lies in a step that was submitted ahead and is dropped: by feeding, by scoring, by a new sequence. */
Test(ordering, a_stall_in_steps_that_nobody_wants)
{
    for (uint32_t way = 0; way < 3; way++)
        for (uint32_t stall_at = 3; stall_at < 12; stall_at++) {
            dop_open_options o = {.ordering = DOP_ORDERING_PERSISTENT, .steps_ahead = 8};
            dop_sequence *s = open_toy(stall_at, &o);
            uint32_t all[TOY_CTX], n = 6;
            dop_diag diag = {0};
            feed(s, all, 0, n);
            take(s, all, n, 4);
            n += 4;
            if (way == 0) {
                feed(s, all, n, 5);
                n += 5;
            } else if (way == 1) {
                cr_assert_eq(dop_sequence_rewind(s, 0, &diag), DOP_OK);
                n = 0;
                feed(s, all, n, 3);
                n = 3;
            } else {
                dop_sampling top1 = {.temperature = 1, .top_p = 1, .top_k = 1, .repeat_penalty = 1};
                dop_sequence_set_sampling(s, &top1);
            }
            take(s, all, n, 20);
            close_model(s);
        }
}

/* Steps of the caller's, which run ahead of the picks that it takes: one that stalls is run again, and what follows it is dropped;
 * so is what follows a step that is rolled back, or another token than the pick, or dop_sequence_next. */
Test(ordering, steps_of_rows_run_ahead)
{
    for (uint32_t stall_at = 1; stall_at < 40; stall_at += 3) {
        dop_sequence *s = open_toy(stall_at < 34 ? stall_at : NEVER, &forced[stall_at % 3]);
        uint32_t all[TOY_CTX + 1], n = 6;
        dop_diag diag = {0};
        feed(s, all, 0, n);
        all[n] = 1;
        for (uint32_t i = 0; i < 60; i++) {
            dop_step_row row = {s, all[n], DOP_WANTS_PICK};
            cr_assert_eq(dop_step_run(s->model, &row, 1, &diag), DOP_OK, "%s", diag.message);
            cr_assert_eq(dop_step_pick(s->model, 0), toy_argmax(all, n + 1), "step %u", i);
            if (i % 9 == 7) {
                dop_step_rollback(s->model);
                continue;
            }
            dop_step_commit(s->model);
            n++;
            if (i % 13 == 11)
                take(s, all, n++, 1);
            all[n] = i % 17 == 15 ? (i * 5) % TOY_VOCAB : toy_argmax(all, n);
        }
        cr_assert_eq(describe(s).stalled, stall_at < 34);
        const dop_counters c = dop_model_counters(s->model);
        cr_assert(stall_at % 3 == 1 ? c.steps_ahead == 0 : c.steps_ahead > 20 && c.rows_dropped > 5, "%u ran ahead",
                  (unsigned)c.steps_ahead);
        close_model(s);
    }
}

static void
count_lines(void *user, const char *text)
{
    uint32_t *n = user;
    *n += strncmp(text, "ordering: ", 10) == 0;
}

Test(ordering, probe_takes_either_and_leaves_nothing_behind)
{
    uint32_t lines = 0;
    dop_open_options o = {.ordering = DOP_ORDERING_PERSISTENT, .log = {.line = count_lines, .user = &lines}};
    dop_sequence *s = open_toy(NEVER, &o);
    dop_diag diag = {0};
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(dop_model_probe(s->model, 0, &diag), DOP_OK, "%s", diag.message);
        cr_assert_not(describe(s).stalled);
        cr_assert_gt(describe(s).probe_ms, 0);
        check_greedy(s, 1, 40);
        check_greedy(s, 20, 40);
        /* Neither way lets the mailbox and the parity disagree. */
        dop_model_use_ordering(s->model, i % 2 ? DOP_ORDER_PERSISTENT : DOP_ORDER_BARRIERS);
        check_greedy(s, 20, 40);
    }
    cr_assert_eq(lines, 10); /* what a step takes, and the choice */
    close_model(s);
}

Test(ordering, probe_finds_a_stall)
{
    /* A slow machine probes for two steps and two more. */
    for (uint32_t stall_at = 0; stall_at < 4; stall_at++) {
        dop_sequence *s = open_toy(stall_at, &forced[0]);
        dop_diag diag = {0};
        cr_assert_eq(dop_model_probe(s->model, 0, &diag), DOP_OK, "%s", diag.message);
        cr_assert_eq(describe(s).ordering, DOP_ORDER_BARRIERS);
        cr_assert_eq(s->model->orders.decode[DOP_ORDER_PERSISTENT], UINT32_MAX);
        check_greedy(s, 1, 40);
        close_model(s);
    }
}

/* The toy with its persistent form; the argument of the form's stage that is in this slot may be changed. */
static dop_sequence *
open_changed(float nudge, uint32_t slot, uint64_t offset)
{
    plan_builder b;
    dop_diag diag = {0};
    pb_toy(&b);
    pb_toy_persistent(&b, NEVER, nudge);
    dop_plan_schedule *sched = PB_AT(&b, SCHEDULES, dop_plan_schedule, 4);
    dop_plan_dispatch *d = PB_AT(&b, DISPATCHES, dop_plan_dispatch, sched->first_stage);
    for (uint32_t i = 0; i < d->n_args; i++) {
        dop_plan_arg *a = PB_AT(&b, ARGS, dop_plan_arg, d->first_arg + i);
        a->offset += a->slot == slot ? offset : 0;
        a->size -= a->slot == slot ? offset : 0;
    }
    if (nudge > 0) { /* the last token is as good as the best one of every row */
        float *w = (float *)(void *)b.sections[DOP_SEC_WEIGHTS].data;
        for (uint32_t h = 0; h < 64; h++)
            for (uint32_t v = 0; v < 63; v++)
                if (v == 0 || w[h * 64 + v] > w[h * 64 + 63])
                    w[h * 64 + 63] = w[h * 64 + v];
    }
    dop_sequence *s = try_open(&b, &forced[0], &diag);
    cr_assert(s, "%s", diag.message);
    plan_builder_finish(&b);
    return s;
}

/* Stages that make other logits without a stall are not taken, however fast: they read weights from one row further on, or
 * write the cache one position further on, or one logit in two is 0.1 (a thirtieth of a standard deviation) too large. */
Test(ordering, probe_finds_other_logits)
{
    for (uint32_t i = 0; i < 3; i++) {
        dop_sequence *s = i < 2 ? open_changed(0, i, i == 0 ? 64 * 4 : 4) : open_changed(0.1f, UINT32_MAX, 0);
        dop_diag diag = {0};
        uint32_t all[TOY_CTX];
        feed(s, all, 0,
             20); /* a cache of its own that is one off is as good as any other: there must be something in it */
        cr_assert_eq(dop_model_probe(s->model, 20, &diag), DOP_OK, "%s", diag.message);
        cr_assert_eq(describe(s).ordering, DOP_ORDER_BARRIERS, "change %u", i);
        cr_assert_eq(s->model->orders.decode[DOP_ORDER_PERSISTENT], UINT32_MAX);
        cr_assert_not(describe(s).stalled);
        if (i < 2)
            check_greedy(s, 1, 40);
        close_model(s);
    }
}

/* The two forms pick different tokens wherever logits are tied but for the last bits: neither is wrong. */
Test(ordering, a_near_tie_is_no_fault)
{
    dop_sequence *s = open_changed(1e-5f, UINT32_MAX, 0);
    dop_diag diag = {0};
    uint32_t differ = 0;
    for (uint32_t prompt = 0; prompt < 16; prompt++) {
        uint32_t first, ids[2];
        for (uint32_t o = 0; o < 2; o++) {
            dop_model_use_ordering(s->model, o);
            cr_assert_eq(dop_sequence_rewind(s, 0, &diag), DOP_OK);
            dop_sequence_expect(s, 2);
            cr_assert_eq(dop_sequence_feed(s, &prompt, 1, &diag), DOP_OK);
            cr_assert_eq(dop_sequence_next(s, &diag, &first), DOP_OK); /* by barriers always */
            cr_assert_eq(dop_sequence_next(s, &diag, &ids[o]), DOP_OK);
        }
        differ += ids[0] != 63 && ids[1] == 63;
        cr_assert(ids[0] == ids[1] || ids[1] == 63);
    }
    cr_assert_gt(differ, 0);
    for (int i = 0; i < 10; i++) {
        dop_probe_result r;
        cr_assert_eq(dop_probe_run(s->model, DOP_ORDER_PERSISTENT, 0, &diag, &r), DOP_OK, "%s", diag.message);
        cr_assert_null(r.fault, "%s: %g of %g", r.fault, r.distance, r.bound);
        cr_assert(r.distance > 0 && r.distance < 1e-5, "%g", r.distance);
    }
    cr_assert_eq(dop_model_probe(s->model, 0, &diag), DOP_OK);
    cr_assert_neq(s->model->orders.decode[DOP_ORDER_PERSISTENT], UINT32_MAX);
    close_model(s);
}

static dop_status
keep_row(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag)
{
    (void)first, (void)diag;
    memcpy(user, rows + (n_rows - 1) * TOY_VOCAB, TOY_VOCAB * sizeof *rows);
    return DOP_OK;
}

/* Nothing that a sequence is made of changes by a probe: every state word goes into the logits. */
Test(ordering, a_probe_leaves_the_sequence_alone)
{
    float logits[2][TOY_VOCAB];
    for (uint32_t with = 0; with < 2; with++) {
        dop_sequence *s = open_toy(NEVER, &forced[0]);
        dop_diag diag = {0};
        uint32_t all[TOY_CTX], id = 9;
        feed(s, all, 0, 30);
        take(s, all, 30, 7);
        cr_assert_eq(dop_step_drain(s->model, &diag), DOP_OK); /* steps that run ahead */
        uint32_t runs = dop_replay_step(&s->model->replay)->persistent_runs;
        for (uint32_t pos = 0; with && pos <= 40; pos += 10)
            cr_assert_eq(dop_model_probe(s->model, pos, &diag), DOP_OK, "%s", diag.message);
        cr_assert_eq(dop_replay_step(&s->model->replay)->persistent_runs, runs);
        dop_counters c = dop_model_counters(s->model);
        cr_assert_eq(c.allocations, 0);
        cr_assert_eq(c.recordings, 0);
        take(s, all, 37, 20);
        cr_assert_eq(dop_sequence_score(s, &id, 1, keep_row, logits[with], &diag), DOP_OK, "%s", diag.message);
        close_model(s);
    }
    cr_assert_arr_eq(logits[0], logits[1], sizeof logits[0]);
}

/* The toy with its context so many times as long. */
static dop_sequence *
open_long(uint32_t times)
{
    plan_builder b;
    dop_diag diag = {0};
    pb_toy(&b);
    pb_toy_persistent(&b, NEVER, 0);
    PB_AT(&b, MODEL, dop_plan_model, 0)->ctx *= times;
    dop_plan_slot *state = PB_AT(&b, SLOTS, dop_plan_slot, 1);
    cr_assert_eq(state->state, DOP_PLAN_STATE_APPEND);
    state->size *= times;
    state->rows *= times;
    for (uint32_t i = 0; i < b.sections[DOP_SEC_ARGS].size / sizeof(dop_plan_arg); i++)
        if (PB_AT(&b, ARGS, dop_plan_arg, i)->slot == 1)
            PB_AT(&b, ARGS, dop_plan_arg, i)->size *= times;
    dop_sequence *s = try_open(&b, &forced[0], &diag);
    cr_assert(s, "%s", diag.message);
    plan_builder_finish(&b);
    return s;
}

/* What a probe takes between two tokens follows from where it is, not from how long the context may become; and what it has
 * of the states is what the sequence has. */
Test(ordering, a_probe_takes_as_many_positions_as_it_reads)
{
    static const uint32_t at[] = {0, 1, 20, 60}, times[] = {1, 1000};
    uint64_t bytes[2][4];
    for (uint32_t i = 0; i < 2; i++) {
        dop_sequence *s = open_long(times[i]);
        dop_diag diag = {0};
        uint32_t all[TOY_CTX];
        feed(s, all, 0, 64);
        for (uint32_t k = 0; k < 4; k++) {
            dop_probe_result r;
            cr_assert_eq(dop_probe_run(s->model, DOP_ORDER_PERSISTENT, at[k], &diag, &r), DOP_OK, "%s", diag.message);
            cr_assert_null(r.fault, "at %u: %s", at[k], r.fault);
            bytes[i][k] = r.bytes;
        }
        take(s, all, 64, 20);
        close_model(s);
    }
    cr_assert_arr_eq(bytes[0], bytes[1], sizeof bytes[0], "%llu bytes for a short context, %llu for a long one",
                     (unsigned long long)bytes[0][3], (unsigned long long)bytes[1][3]);
    cr_assert_gt(bytes[1][3], bytes[1][0]);
}

/* Two arguments that name one state need as many of its rows as the longer one has, in either order. */
Test(ordering, a_probe_holds_the_longer_piece_of_a_state)
{
    dop_sequence *s = open_long(1000);
    const dop_plan *p = &s->model->plan;
    bool *slots = calloc(p->n_slots, sizeof *slots);
    dop_plan_arg *args = calloc(p->n_args + 2, sizeof *args), *of = NULL;
    uint32_t schedule = 0;
    memcpy(args + 1, p->args, p->n_args * sizeof *args);
    for (uint32_t i = 1; i <= p->n_args; i++)
        of = args[i].slot == 1 && (!of || args[i].size > of->size) ? &args[i] : of;
    cr_assert(slots && of);
    slots[1] = true;
    const dop_plan_arg shorter = {.slot = 1, .offset = of->offset, .size = of->size / 2},
                       none = {.slot = DOP_ARG_NUMBERS};
    uint64_t held[3] = {0};
    for (uint32_t i = 0; i < 3; i++) { /* without the shorter one, with it first, and last */
        dop_plan two = *p;
        dop_memory m = {0};
        dop_diag diag = {0};
        const dop_memory_use use = {.slots = slots, .schedules = &schedule, .n = 1, .positions = 20};
        const dop_log quiet = {0};
        args[0] = i == 1 ? shorter : none;
        args[p->n_args + 1] = i == 2 ? shorter : none;
        two.args = args;
        two.n_args = p->n_args + 2;
        cr_assert_eq(dop_memory_place(&s->model->device, &two, &use, &quiet, &diag, &m), DOP_OK, "%s", diag.message);
        cr_assert(m.n_pieces > 0 && m.pieces[0].slot == 1 && m.pieces[0].from == of->offset);
        held[i] = m.pieces[0].size;
        dop_memory_destroy(&m);
    }
    cr_expect_geq(held[0], 20 * (of->size / p->slots[1].rows));
    cr_expect_lt(held[0], of->size);
    cr_expect(held[1] == held[0] && held[2] == held[0], "%llu, %llu and %llu bytes", (unsigned long long)held[0],
              (unsigned long long)held[1], (unsigned long long)held[2]);
    free(slots);
    free(args);
    close_model(s);
}

/* Where memory for a probe is missing, nobody knows, and barriers are right. */
Test(ordering, no_room_for_a_probe)
{
    dop_sequence *s = open_toy(NEVER, &forced[0]);
    dop_diag diag = {0};
    s->model->device.info.caps.max_alloc = 1024;
    cr_assert_eq(dop_model_probe(s->model, 0, &diag), DOP_OK, "%s", diag.message);
    cr_assert_eq(describe(s).ordering, DOP_ORDER_BARRIERS);
    check_greedy(s, 5, 40);
    close_model(s);
}

Test(ordering, options)
{
    dop_diag diag = {0};
    dop_sequence *s = open_toy(NEVER, NULL);
    dop_model_info info = describe(s);
    if (info.device->cpu) { /* no probe there, and the kernels are not even made */
        cr_assert_eq(info.ordering, DOP_ORDER_BARRIERS);
        cr_assert_eq(info.probe_ms, 0);
        cr_assert_eq(s->model->orders.decode[DOP_ORDER_PERSISTENT], UINT32_MAX);
        cr_assert_null(s->model->pipelines.rows[3]);
    } else {
        cr_assert_gt(info.probe_ms, 0);
    }
    check_greedy(s, 5, 40);
    close_model(s);
    s = open_toy(NEVER, &(dop_open_options){.ordering = DOP_ORDERING_BARRIERS});
    cr_assert_eq(describe(s).ordering, DOP_ORDER_BARRIERS);
    cr_assert_eq(describe(s).probe_ms, 0);
    check_greedy(s, 5, 40);
    close_model(s);

    plan_builder b;
    pb_toy(&b);
    s = try_open(&b, &forced[0], &diag);
    cr_assert_null(s);
    cr_assert_eq(diag.code, DOP_E_INPUT);
    cr_assert(strstr(diag.message, "no persistent decode schedule for target any"), "%s", diag.message);
    plan_builder_finish(&b);
    /* Stages alone are not enough: feeding in parts needs barriers. */
    pb_toy(&b);
    pb_toy_persistent(&b, NEVER, 0);
    PB_AT(&b, SCHEDULES, dop_plan_schedule, 0)->kind = DOP_SCHED_PREFILL;
    memset(&diag, 0, sizeof diag);
    s = try_open(&b, &forced[0], &diag);
    cr_assert_null(s);
    cr_assert(strstr(diag.message, "no decode schedule for profile any"), "%s", diag.message);
    plan_builder_finish(&b);
}

Test(ordering, shown_by_disasm)
{
    plan_builder b;
    dop_buf file, text = {0};
    dop_plan plan;
    dop_diag diag = {0};
    pb_toy(&b);
    pb_toy_persistent(&b, NEVER, 0);
    pb_build(&b, &file);
    cr_assert_eq(dop_plan_open_memory(file.data, file.size, &diag, &plan), DOP_OK, "%s", diag.message);
    dop_plan_disasm(&plan, &text);
    cr_assert(strstr(text.data, "schedule 0 decode1 profile any dispatches 3 (body 1) barriers 2 greedy\n"), "%s",
              text.data);
    cr_assert(strstr(text.data,
                     "schedule 4 decode1 profile any dispatches 2 (body 2) persistent, 1 stages, barriers 1 greedy\n"),
              "%s", text.data);
    dop_buf_finish(&text);
    dop_plan_close(&plan);
    dop_buf_finish(&file);
    plan_builder_finish(&b);
}
