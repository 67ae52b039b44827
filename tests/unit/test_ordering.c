/* The choice between barriers and a persistent dispatch, and the way back from one that stalls, on a hand-made plan.
 * Needs runtime/device.h's Vulkan device. */
#include "runtime/session.h"
#include "tests/unit/plan_builder.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint32_t NEVER = UINT32_MAX, NO_STAGES = UINT32_MAX - 1;

static dop_session *
try_open(plan_builder *b, const dop_open_options *o, dop_diag *diag)
{
    char path[] = "/tmp/doppler-test-XXXXXX";
    int fd = mkstemp(path);
    dop_buf file;
    dop_session *s = NULL;
    cr_assert(fd >= 0);
    pb_build(b, &file);
    cr_assert_eq(write(fd, file.data, file.size), (ssize_t)file.size);
    close(fd);
    dop_buf_finish(&file);
    (void)dop_session_open(path, o, diag, &s);
    unlink(path);
    return s;
}

static dop_session *
open_toy(uint32_t stall_at, const dop_open_options *o)
{
    plan_builder b;
    dop_diag diag = {0};
    pb_toy(&b);
    if (stall_at != NO_STAGES)
        pb_toy_persistent(&b, stall_at);
    dop_session *s = try_open(&b, o, &diag);
    cr_assert(s, "%s", diag.message);
    plan_builder_finish(&b);
    return s;
}

static dop_session_info
describe(const dop_session *s)
{
    dop_session_info info;
    dop_session_describe(s, &info);
    return info;
}

/* n tokens after the first n_have of all, against the model in C. */
static void
take(dop_session *s, uint32_t *all, uint32_t n_have, uint32_t n)
{
    dop_diag diag = {0};
    for (uint32_t i = n_have; i < n_have + n; i++) {
        cr_assert_eq(dop_session_next(s, &diag, &all[i]), DOP_OK, "token %u: %s", i, diag.message);
        cr_assert_eq(all[i], toy_argmax(all, i), "token %u: %u instead of %u", i, all[i], toy_argmax(all, i));
    }
}

static void
feed(dop_session *s, uint32_t *all, uint32_t n_have, uint32_t n)
{
    dop_diag diag = {0};
    for (uint32_t i = n_have; i < n_have + n; i++)
        all[i] = (i * 7 + 3) % TOY_VOCAB;
    cr_assert_eq(dop_session_feed(s, all + n_have, n, &diag), DOP_OK, "%s", diag.message);
}

static void
check_greedy(dop_session *s, uint32_t n_prompt, uint32_t n)
{
    uint32_t all[TOY_CTX + 1];
    dop_diag diag = {0};
    cr_assert_eq(dop_session_reset(s, &diag), DOP_OK, "%s", diag.message);
    dop_session_expect(s, n);
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

/* The toy's stage stalls when its mailbox and the turn disagree: any run that was half a one, or cleared one of them, shows. */
Test(ordering, forced_persistent)
{
    for (size_t i = 0; i < N_FORCED; i++) {
        dop_session *s = open_toy(NEVER, &forced[i]);
        cr_assert_eq(describe(s).ordering, DOP_ORDER_PERSISTENT);
        for (uint32_t n = 1; n < 40; n += 9)
            check_greedy(s, n, 30);
        check_greedy(s, 100, 28); /* up to the last position */
        dop_session_info info = describe(s);
        cr_assert_eq(info.ordering, DOP_ORDER_PERSISTENT);
        cr_assert_not(info.stalled);
        cr_assert_eq(s->plan.schedules[info.decode].ordering, DOP_ORDER_PERSISTENT);
        cr_assert_gt(dop_replay_step(&s->replay)->turn, 100, "they were used");
        cr_assert_eq(dop_session_counters(s).recordings, 0);
        dop_session_close(s);
    }
}

/* A probe in the middle of a sequence runs its next steps several times, and changes none of them. */
Test(ordering, probes_between_tokens)
{
    for (uint32_t i = 0; i < 8; i++) {
        dop_session *s =
            open_toy(i < 4 ? NEVER : 12 + i, &forced[0]); /* or stalls at once, before, or while it probes */
        dop_sampling top1 = {.temperature = 1, .top_k = 1, .repeat_penalty = 1};
        uint32_t all[TOY_CTX];
        if (i % 2)
            dop_session_set_sampling(s, &top1);
        s->probes = true;
        s->probe_at = 16;
        feed(s, all, 0, 10);
        take(s, all, 10, 4);
        cr_assert(describe(s).probe_ms == 0, "%f", describe(s).probe_ms);
        take(s, all, 14, 60);
        cr_assert(describe(s).probe_ms > 0 || describe(s).stalled);
        cr_assert(i >= 4 || (s->probe_at == 1024 && !describe(s).stalled));
        dop_session_close(s);
    }
}

Test(ordering, sampling_on_the_host_with_stages)
{
    for (uint32_t stall_at = 0; stall_at < 60; stall_at += 7) {
        dop_session *s = open_toy(stall_at < 50 ? stall_at : NEVER, &forced[0]);
        dop_sampling top1 = {.temperature = 1, .top_k = 1, .repeat_penalty = 1}, greedy = {.repeat_penalty = 1};
        uint32_t all[TOY_CTX], n = 10;
        feed(s, all, 0, n);
        for (uint32_t i = 0; i < 12; i++, n += 4) {
            dop_session_set_sampling(s, i % 2 ? &greedy : &top1);
            take(s, all, n, 4);
        }
        cr_assert_eq(describe(s).stalled, stall_at < 50);
        dop_session_close(s);
    }
}

Test(ordering, a_stall_changes_no_token)
{
    for (size_t i = 0; i < N_FORCED; i++)
        for (uint32_t stall_at = 0; stall_at < 26; stall_at += 5) {
            dop_session *s = open_toy(stall_at, &forced[i]);
            check_greedy(s, i % 2 ? 1 : 9, 40);
            dop_session_info info = describe(s);
            cr_assert(info.stalled);
            cr_assert_eq(info.ordering, DOP_ORDER_BARRIERS);
            cr_assert_eq(s->plan.schedules[info.decode].ordering, DOP_ORDER_BARRIERS);
            volatile dop_step *step = dop_replay_step(&s->replay);
            cr_assert_eq(step->turn, 0);
            cr_assert_eq(step->flags, 0);
            check_greedy(s, 33, 60);
            cr_assert_eq(dop_session_counters(s).recordings, 0);
            dop_session_close(s);
        }
}

/* The stall lies in a step that was submitted ahead and is dropped: by feeding, by scoring, by a new sequence. */
Test(ordering, a_stall_in_steps_that_nobody_wants)
{
    for (uint32_t way = 0; way < 3; way++)
        for (uint32_t stall_at = 3; stall_at < 12; stall_at++) {
            dop_open_options o = {.ordering = DOP_ORDERING_PERSISTENT, .steps_ahead = 8};
            dop_session *s = open_toy(stall_at, &o);
            uint32_t all[TOY_CTX], n = 6;
            dop_diag diag = {0};
            feed(s, all, 0, n);
            take(s, all, n, 4);
            n += 4;
            if (way == 0) {
                feed(s, all, n, 5);
                n += 5;
            } else if (way == 1) {
                cr_assert_eq(dop_session_reset(s, &diag), DOP_OK);
                n = 0;
                feed(s, all, n, 3);
                n = 3;
            } else {
                dop_sampling top1 = {.temperature = 1, .top_k = 1, .repeat_penalty = 1};
                dop_session_set_sampling(s, &top1);
            }
            take(s, all, n, 20);
            dop_session_close(s);
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
    dop_session *s = open_toy(NEVER, &o);
    dop_diag diag = {0};
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(dop_session_probe_ordering(s, &diag), DOP_OK, "%s", diag.message);
        cr_assert_not(describe(s).stalled);
        cr_assert_gt(describe(s).probe_ms, 0);
        check_greedy(s, 1, 40);
        check_greedy(s, 20, 40);
        /* Neither way lets the mailbox and the turn disagree. */
        dop_session_use_ordering(s, i % 2 ? DOP_ORDER_PERSISTENT : DOP_ORDER_BARRIERS);
        check_greedy(s, 20, 40);
    }
    cr_assert_eq(lines, 10); /* what a step takes, and the choice */
    dop_session_close(s);
}

Test(ordering, probe_finds_a_stall)
{
    /* A slow machine probes for two steps and two more. */
    for (uint32_t stall_at = 0; stall_at < 4; stall_at++) {
        dop_session *s = open_toy(stall_at, &forced[0]);
        dop_diag diag = {0};
        cr_assert_eq(dop_session_probe_ordering(s, &diag), DOP_OK, "%s", diag.message);
        cr_assert_eq(describe(s).ordering, DOP_ORDER_BARRIERS);
        cr_assert_eq(s->decode[DOP_ORDER_PERSISTENT], UINT32_MAX);
        check_greedy(s, 1, 40);
        dop_session_close(s);
    }
}

/* Stages that pick other tokens without a stall are not taken, however fast. */
Test(ordering, probe_finds_other_tokens)
{
    plan_builder b;
    dop_diag diag = {0};
    pb_toy(&b);
    pb_toy_persistent(&b, NEVER);
    /* Its stage reads weights from one row further on. */
    dop_plan_schedule *sched = PB_AT(&b, SCHEDULES, dop_plan_schedule, 4);
    dop_plan_dispatch *d = PB_AT(&b, DISPATCHES, dop_plan_dispatch, sched->first_stage);
    dop_plan_arg *weights = PB_AT(&b, ARGS, dop_plan_arg, d->first_arg + 2);
    cr_assert_eq(weights->slot, 0);
    weights->offset += 64 * 4;
    weights->size -= 64 * 4;
    dop_session *s = try_open(&b, &forced[0], &diag);
    cr_assert(s, "%s", diag.message);
    cr_assert_eq(dop_session_probe_ordering(s, &diag), DOP_OK, "%s", diag.message);
    cr_assert_eq(describe(s).ordering, DOP_ORDER_BARRIERS);
    cr_assert_not(describe(s).stalled);
    check_greedy(s, 1, 40);
    dop_session_close(s);
    plan_builder_finish(&b);
}

Test(ordering, options)
{
    dop_diag diag = {0};
    dop_session *s = open_toy(NEVER, NULL);
    dop_session_info info = describe(s);
    if (info.device->cpu) { /* no probe there, and the kernels are not even made */
        cr_assert_eq(info.ordering, DOP_ORDER_BARRIERS);
        cr_assert_eq(info.probe_ms, 0);
        cr_assert_eq(s->decode[DOP_ORDER_PERSISTENT], UINT32_MAX);
        cr_assert_null(s->pipelines.rows[3]);
    } else {
        cr_assert_gt(info.probe_ms, 0);
    }
    check_greedy(s, 5, 40);
    dop_session_close(s);
    s = open_toy(NEVER, &(dop_open_options){.ordering = DOP_ORDERING_BARRIERS});
    cr_assert_eq(describe(s).ordering, DOP_ORDER_BARRIERS);
    cr_assert_eq(describe(s).probe_ms, 0);
    check_greedy(s, 5, 40);
    dop_session_close(s);

    plan_builder b;
    pb_toy(&b);
    s = try_open(&b, &forced[0], &diag);
    cr_assert_null(s);
    cr_assert_eq(diag.code, DOP_E_INPUT);
    cr_assert(strstr(diag.message, "no persistent decode schedule for target any"), "%s", diag.message);
    plan_builder_finish(&b);
    /* Stages alone are not enough: feeding in parts needs barriers. */
    pb_toy(&b);
    pb_toy_persistent(&b, NEVER);
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
    pb_toy_persistent(&b, NEVER);
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
