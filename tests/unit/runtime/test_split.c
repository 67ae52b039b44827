/* Steps that are divided among several submissions, so that none takes too long on a slow device: how they are divided, and that
 * the results are the same.  Needs runtime/device/device.h's Vulkan device. */
#include "runtime/model/model.h"
#include "tests/unit/plan_builder.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

enum { N_DISPATCHES = 100 };

/* A schedule of several rows, whose dispatch i reads bytes[i]. */
typedef struct made_up {
    dop_plan plan;
    dop_plan_schedule schedule;
    dop_plan_dispatch dispatches[N_DISPATCHES];
    dop_plan_tensor tensor;
} made_up;

static void
make_up(made_up *m, uint64_t (*bytes)(uint32_t i))
{
    memset(m, 0, sizeof *m);
    m->schedule = (dop_plan_schedule){
        .kind = DOP_SCHED_PREFILL, .max_rows = 512, .n_dispatches = N_DISPATCHES, .n_body = N_DISPATCHES - 2};
    for (uint32_t i = 0; i < N_DISPATCHES; i++)
        m->dispatches[i].bytes_read = bytes(i);
    m->tensor = (dop_plan_tensor){.rows = 65536, .cols = 16384, .experts = 1}; /* 2^30 values */
    m->plan.schedules = &m->schedule;
    m->plan.n_schedules = 1;
    m->plan.dispatches = m->dispatches;
    m->plan.n_dispatches = N_DISPATCHES;
    m->plan.tensors = &m->tensor;
    m->plan.n_tensors = 1;
}

static uint64_t
equal(uint32_t i)
{
    (void)i;
    return 20 << 20;
}

static uint64_t
one_large(uint32_t i)
{
    return (uint64_t)(i == 50 ? 8000 : 1) << 20;
}

static uint64_t
nothing(uint32_t i)
{
    (void)i;
    return 0;
}

Test(split, slow_devices_get_more_segments)
{
    made_up m;
    make_up(&m, equal);
    dop_device_info fast = {.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                            .caps = {.cores = 132, .caps = DOP_CAP_coop_khr}},
                    slow = {.type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU};
    const double quick_ms = dop_replay_estimate_ms(&fast, &m.plan, 0),
                 slow_ms = dop_replay_estimate_ms(&slow, &m.plan, 0);
    cr_expect_eq(dop_replay_count_segments(&m.plan, 0, quick_ms, 500), 1, "%g ms", quick_ms);
    cr_expect(slow_ms > 5000, "%g ms", slow_ms);
    const uint32_t n = dop_replay_count_segments(&m.plan, 0, slow_ms, 500);
    cr_expect(n > 10 && slow_ms / n <= 500, "%u segments of %g ms", n, slow_ms);
    cr_expect_eq(dop_replay_count_segments(&m.plan, 0, slow_ms, 0), 1, "any time");
    cr_expect_eq(dop_replay_count_segments(&m.plan, 0, 1e12, 500), 64, "no more than that");
    m.schedule.n_dispatches = 3;
    cr_expect_eq(dop_replay_count_segments(&m.plan, 0, 1e12, 500), 3, "a dispatch each at least");
    m.schedule.n_dispatches = N_DISPATCHES;
    m.schedule.ordering = DOP_ORDER_PERSISTENT;
    cr_expect_eq(dop_replay_count_segments(&m.plan, 0, slow_ms, 500), 1, "one dispatch");
    m.schedule.ordering = DOP_ORDER_BARRIERS;
    m.schedule.max_rows = 1;
    cr_expect_lt(dop_replay_estimate_ms(&slow, &m.plan, 0), 500, "one row of such a model");
}

/* A place as one number that grows with it: rows of workgroups of the dispatches before it. */
static uint64_t
rows_before(const made_up *m, dop_replay_place place)
{
    uint64_t rows = place.row;
    for (uint32_t i = 0; i < place.dispatch; i++)
        rows += m->dispatches[i].grid[1] ? m->dispatches[i].grid[1] : 1;
    return rows;
}

Test(split, segments_follow_one_another_and_share_the_work)
{
    uint64_t (*const kinds[])(uint32_t) = {equal, one_large, nothing};
    const uint32_t grids[] = {0, 1, 7, 512};
    made_up m;
    for (size_t k = 0; k < 12; k++) {
        make_up(&m, kinds[k % 3]);
        for (uint32_t i = 0; i < N_DISPATCHES; i++)
            m.dispatches[i].grid[1] = grids[k / 3];
        for (uint32_t n = 1; n <= 64; n++)
            for (uint32_t all = N_DISPATCHES - 2; all <= N_DISPATCHES; all += 2) {
                dop_replay_place last = {0};
                uint32_t longest = 0, whole = 0;
                for (uint32_t i = 0; i < n; i++) {
                    const dop_replay_place end = dop_replay_segment_end(&m.plan, 0, all, n, i);
                    cr_assert(rows_before(&m, end) >= rows_before(&m, last) && end.dispatch <= all,
                              "segment %u of %u: %u to %u", i, n, last.dispatch, end.dispatch);
                    cr_assert(end.row == 0 || (end.dispatch < all && end.row < m.dispatches[end.dispatch].grid[1]));
                    longest = end.dispatch - last.dispatch > longest ? end.dispatch - last.dispatch : longest;
                    whole += last.dispatch <= 50 && last.row == 0 &&
                             (end.dispatch > 51 || (end.dispatch == 51 && end.row == 0));
                    last = end;
                }
                cr_assert(last.dispatch == all && last.row == 0);
                if (k % 3 != 1)
                    cr_expect_leq(longest, all / n + 2, "%u segments of %u dispatches: one has %u", n, all, longest);
                else if (grids[k / 3] == 512 &&
                         n > 2) /* the large dispatch has more than half of the work, so no segment has all of it */
                    cr_expect_eq(whole, 0, "%u segments", n);
            }
    }
}

/* Pipelines are made for it where a dispatch of theirs is divided, and nowhere else. */
Test(split, long_dispatches_are_divided)
{
    made_up m;
    make_up(&m, one_large);
    dop_device_info fast = {.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                            .caps = {.cores = 132, .caps = DOP_CAP_coop_khr}},
                    slow = {.type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU};
    m.dispatches[50].kernel = 1;
    m.dispatches[50].grid[1] = 32;
    cr_expect(dop_replay_divides(&slow, &m.plan, 1, 500), "it has most of the work");
    cr_expect_not(dop_replay_divides(&slow, &m.plan, 0, 500), "small ones");
    cr_expect_not(dop_replay_divides(&slow, &m.plan, 1, 0), "any time");
    cr_expect_not(dop_replay_divides(&fast, &m.plan, 1, 500), "a fast device");
    m.dispatches[50].grid[1] = 1;
    cr_expect_not(dop_replay_divides(&slow, &m.plan, 1, 500), "one row of workgroups");
    m.dispatches[50].grid[1] = 32;
    m.schedule.ordering = DOP_ORDER_PERSISTENT;
    cr_expect_not(dop_replay_divides(&slow, &m.plan, 1, 500), "a persistent dispatch");
}

/* Greedy ids with every dispatch in a submission of its own are those of the model in C. */
Test(split, results_are_the_same)
{
    const dop_open_options variants[] = {{.submit_ms = 1e-9},
                                         {.submit_ms = 1e-9, .steps_per_submit = 5},
                                         {.submit_ms = 1e-9, .max_chunk = 7, .first_tokens = 40},
                                         {.submit_ms = 1e-4, .separate_memory = true}};
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        char path[] = "/tmp/doppler-test-XXXXXX";
        uint32_t ids[TOY_CTX], n = 40;
        plan_builder b;
        dop_model *m = NULL;
        dop_sequence *s = NULL;
        dop_diag diag = {0};
        pb_toy(&b);
        for (uint32_t i = 0; i < b.sections[DOP_SEC_DISPATCHES].size / sizeof(dop_plan_dispatch); i++)
            PB_AT(&b, DISPATCHES, dop_plan_dispatch, i)->bytes_read = 1000;
        pb_write(&b, path);
        cr_assert_eq(dop_model_open(path, &variants[v], &diag, &m), DOP_OK, "%s", diag.message);
        unlink(path);
        uint32_t segments = 0;
        for (uint32_t i = 0; i < m->plan.n_schedules; i++)
            segments += m->replay.lengths[i].n_segments;
        cr_expect_gt(segments, m->plan.n_schedules, "variant %zu", v);
        cr_assert_eq(dop_sequence_create(m, &diag, &s), DOP_OK, "%s", diag.message);
        for (uint32_t i = 0; i < n; i++)
            ids[i] = (i * 7 + 3) % TOY_VOCAB;
        cr_assert_eq(dop_sequence_feed(s, ids, n, &diag), DOP_OK, "%s", diag.message);
        for (uint32_t i = 0; i < 20; i++, n++) {
            cr_assert_eq(dop_sequence_next(s, &diag, &ids[n]), DOP_OK, "%s", diag.message);
            cr_expect_eq(ids[n], toy_argmax(ids, n), "variant %zu, token %u", v, i);
        }
        const dop_counters c = dop_model_counters(m);
        cr_expect_eq(c.recordings, 0, "variant %zu", v);
        plan_builder_finish(&b);
        dop_model_close(m);
    }
}
