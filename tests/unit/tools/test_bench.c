/* --bench: statistics, the bytes that a step reads, and whole runs on a hand-made plan.
 * Needs runtime/device/device.h's Vulkan device. */
#include "tests/unit/plan_builder.h"
#include "tools/bench/bench.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Test(bench, statistics)
{
    dop_stats s;
    const double odd[] = {5, 1, 3}, even[] = {4, 1, 2, 9}, one[] = {7};
    cr_assert_eq(dop_stats_of(odd, 3, NULL, &s), DOP_OK);
    cr_assert_float_eq(s.mean, 3, 1e-12);
    cr_assert_float_eq(s.stddev, 2, 1e-12);
    cr_assert_float_eq(s.median, 3, 0);
    cr_assert_float_eq(s.min, 1, 0);
    cr_assert_float_eq(s.max, 5, 0);
    cr_assert_eq(dop_stats_of(even, 4, NULL, &s), DOP_OK);
    cr_assert_float_eq(s.mean, 4, 1e-12);
    cr_assert_float_eq(s.median, 3, 0);
    cr_assert_eq(dop_stats_of(one, 1, NULL, &s), DOP_OK);
    cr_assert_float_eq(s.stddev, 0, 0);
    cr_assert_float_eq(s.median, 7, 0);
}

Test(bench, weights_of_a_step)
{
    const dop_plan_slot slots[] = {{.kind = DOP_SLOT_WEIGHTS}, {.kind = DOP_SLOT_SCRATCH}};
    /* A gather: one row of a large matrix.  A matmul: all of its weights, and activations beside them. */
    const dop_plan_arg args[] = {{.slot = 0, .size = 1000000},
                                 {.slot = 1, .size = 64},
                                 {.slot = 0, .size = 4096},
                                 {.slot = 0, .size = 32},
                                 {.slot = 1, .size = 64}};
    const dop_plan_dispatch dispatches[] = {{.first_arg = 0, .n_args = 2, .bytes_read = 128},
                                            {.first_arg = 2, .n_args = 3, .bytes_read = 4096 + 32 + 64}};
    const dop_plan_schedule schedules[] = {{.first_dispatch = 0, .n_dispatches = 2}};
    const dop_plan plan = {.slots = slots, .args = args, .dispatches = dispatches, .schedules = schedules};
    cr_assert_eq(dop_bench_weights_read(&plan, 0), 128 + 4096 + 32);
}

static void
write_toy(char *path)
{
    plan_builder b;
    pb_toy(&b);
    pb_write(&b, path);
    plan_builder_finish(&b);
}

static const uint32_t prompts[] = {5, 0, 40}, gens[] = {0, 30}, depths[] = {0, 61};
static const dop_bench_options standard = {
    .prompts = prompts, .n_prompts = 3, .gens = gens, .n_gens = 2, .depths = depths, .n_depths = 2, .rounds = 3};

Test(bench, two_plans_in_turn)
{
    char path[] = "/tmp/doppler-test-XXXXXX";
    write_toy(path);
    const char *const paths[] = {path, path};
    static const char *const names[] = {"pp5", "pp40", "tg30", "pp5@d61", "pp40@d61", "tg30@d61"};
    dop_bench b;
    dop_diag diag = {0};
    cr_assert_eq(dop_bench_run(paths, 2, &standard, &diag, &b), DOP_OK, "%s", diag.message);
    cr_assert_eq(b.n_tests, 6);
    cr_assert_eq(b.n_plans, 2);
    for (size_t i = 0; i < 6; i++) {
        cr_assert_str_eq(b.tests[i].name, names[i]);
        for (size_t p = 0; p < 2; p++) {
            const dop_bench_row *r = &b.rows[p * 6 + i];
            for (uint32_t k = 0; k < 3; k++)
                cr_assert_gt(r->ms[k], 0);
            cr_assert_gt(r->median, 0);
            cr_assert_float_eq(r->ratio, r->median / b.rows[i].median, 1e-9);
            cr_assert(r->ratio_min <= r->ratio_max);
            double bytes = b.tests[i].n_gen ? (double)b.plans[p].bytes_per_token : 0;
            cr_assert_float_eq(r->gbps, bytes * r->median * 1e-9, 1e-12);
        }
        cr_assert_float_eq(b.rows[i].ratio, 1, 0);
    }
    /* What the last test left behind: its depth, the token it began with, and what it picked. */
    size_t n;
    (void)dop_sequence_tokens(b.plans[1].sequence, &n);
    cr_assert_eq(n, 61 + 1 + 30);
    cr_assert_gt(b.plans[0].start_to_first_token_ms, 0);
    cr_assert_float_eq(b.plans[1].start_to_first_token_ms, 0, 0);

    dop_buf text = {0};
    json_error_t error;
    dop_bench_json(&b, &text);
    json_t *root = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &error), *row;
    cr_assert(root, "%s", error.text);
    cr_assert_eq(json_array_size(json_object_get(root, "plans")), 2);
    json_t *results = json_object_get(root, "results");
    cr_assert_eq(json_array_size(results), 12);
    row = json_array_get(results, 5);
    cr_assert_eq(json_integer_value(json_object_get(row, "plan")), 1);
    cr_assert_str_eq(json_string_value(json_object_get(row, "test")), "tg30");
    cr_assert_eq(json_array_size(json_object_get(row, "samples")), 3);
    cr_assert_float_eq(json_number_value(json_object_get(row, "median")), b.rows[6 + 2].median,
                       1e-5 * b.rows[6 + 2].median);
    json_decref(root);
    dop_buf_finish(&text);

    size_t lines = 0;
    dop_bench_csv(&b, &text);
    for (const char *c = text.data; *c; c++)
        lines += *c == '\n';
    cr_assert_eq(lines, 13);
    dop_buf_finish(&text);
    dop_bench_markdown(&b, &text);
    for (size_t i = 0; i < 6; i++)
        cr_assert(strstr(text.data, names[i]));
    dop_buf_finish(&text);
    dop_bench_finish(&b);
    unlink(path);
}

Test(bench, tests_must_fit_the_context)
{
    char path[] = "/tmp/doppler-test-XXXXXX";
    write_toy(path);
    const char *const paths[] = {path};
    dop_bench_options o = standard;
    const uint32_t deep[] = {89};
    dop_bench b;
    dop_diag diag = {0};
    o.depths = deep;
    o.n_depths = 1;
    cr_assert_eq(dop_bench_run(paths, 1, &o, &diag, &b), DOP_E_INPUT);
    cr_assert_str_eq(
        diag.message,
        "pp40@d89 needs 129 positions, the plan's context is 128 and the model was trained for 128: give -p, "
        "-n and -d that fit");
    o.n_prompts = 0;
    o.n_gens = 0;
    memset(&diag, 0, sizeof diag);
    cr_assert_eq(dop_bench_run(paths, 1, &o, &diag, &b), DOP_E_USAGE);
    cr_assert_str_eq(diag.message, "nothing to measure: -p and -n are both 0");
    /* To the last position. */
    const uint32_t all[] = {67};
    const uint32_t depth[] = {61};
    o.gens = all;
    o.n_gens = 1;
    o.depths = depth;
    memset(&diag, 0, sizeof diag);
    cr_assert_eq(dop_bench_run(paths, 1, &o, &diag, &b), DOP_OK, "%s", diag.message);
    dop_bench_finish(&b);
    unlink(path);
}
