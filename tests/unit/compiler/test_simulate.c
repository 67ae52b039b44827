/* dopplerc --simulate: steps through parts, times of stages for other shapes, and the file that describes devices and
 * links.  All numbers are worked out by hand. */
#include "compiler/library/make.h"
#include "compiler/parts/parts.h"
#include "compiler/parts/pipeline.h"
#include "compiler/parts/simulate.h"
#include "compiler/parts/stage_times.h"
#include "compiler/target/target.h"
#include "tests/unit/import_util.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void
near(const char *what, double is, double wanted)
{
    cr_assert_float_eq(is, wanted, 1e-9, "%s is %g, not %g", what, is, wanted);
}
#define NEAR(a, b) near(#a, (a), (b))

/* Two parts of 10 and 20, a hop of 5, an answer of 1. */
static dop_pipeline_step
two_parts(bool waits)
{
    return (dop_pipeline_step){.part = {10, 20}, .hop = {5}, .waits = {waits}, .answer = 1};
}

Test(simulate, steps_one_after_the_other)
{
    const dop_pipeline_step s = two_parts(false), waiting = two_parts(true), one = {.part = {7}};
    dop_pipeline p = {.n_parts = 2}, q = {.n_parts = 2};
    /* Part 0 is done at 10, 20, 30; part 1 begins at 15, 35, 55. */
    NEAR(dop_pipeline_run(&p, &s, 0), 36);
    NEAR(dop_pipeline_run(&p, &s, 0), 56);
    NEAR(dop_pipeline_run(&p, &s, 0), 76);
    NEAR(p.part_busy[0], 30);
    NEAR(p.part_busy[1], 60);
    /* It receives when it is idle: from 35 and 60 on, for 5. */
    NEAR(dop_pipeline_run(&q, &waiting, 0), 36);
    NEAR(dop_pipeline_run(&q, &waiting, 0), 61);
    NEAR(dop_pipeline_run(&q, &waiting, 0), 86);
    NEAR(dop_pipeline_period(1, &one, 1), 7);
}

Test(simulate, groups_in_flight)
{
    const dop_pipeline_step s = two_parts(false), waiting = two_parts(true);
    /* One group goes round in 36; two could in 18, but part 1 takes 20; a third one waits. */
    NEAR(dop_pipeline_period(2, &s, 1), 36);
    NEAR(dop_pipeline_period(2, &s, 2), 20);
    NEAR(dop_pipeline_period(2, &s, 3), 20);
    NEAR(dop_pipeline_period(2, &waiting, 2), 25);
    /* A slow link is what everything waits for. */
    dop_pipeline_step slow = s;
    slow.hop[0] = 40;
    NEAR(dop_pipeline_period(2, &slow, 4), 40);
}

static const char times[] =
    "- {device: D, driver: V, model: M, weights: f16, date: \"2026-11-22\"}\n"
    "- {step: decode, rows: 1, dispatches: 3, us: 60, weights: 1600, bytes: 2000, products: 800}\n"
    "- {step: decode, rows: 1, op: head, kernel: gemv_subgroup, count: 1, us: 30, weights: 800, "
    "bytes: 1000, products: 400}\n"
    "- {step: decode, rows: 1, op: o, kernel: gemv, count: 2, us: 15, weights: 400, bytes: 500, "
    "products: 200}\n"
    "- {step: rows, rows: 16, dispatches: 1, us: 50, bytes: 1000}\n"
    "- {step: rows, rows: 32, dispatches: 1, us: 90, bytes: 1000}\n"
    "- {step: prefill, rows: 128, dispatches: 1, us: 110, weights: 900, bytes: 1000, products: "
    "1280}\n"
    "- {step: prefill, rows: 128, op: head, kernel: matmul, count: 1, us: 220, weights: 900, "
    "bytes: 1000, products: 1280}\n";

static scratch folder;

static void
enter_folder(void)
{
    folder = scratch_make();
    cr_assert_eq(chdir(folder.dir), 0);
}

static void
leave_folder(void)
{
    if (folder.dir[0])
        scratch_remove(&folder);
}

TestSuite(simulate, .fini = leave_folder);

static double
ask(const dop_stage_times *t, dop_stage_wanted w, double fixed, double byte_speed, bool guessed)
{
    bool is;
    const double us = dop_stage_times_of(t, &w, fixed, byte_speed, 4, &is);
    cr_assert_eq(is, guessed);
    return us;
}

Test(simulate, other_shapes)
{
    dop_stage_times t = {.n = 0};
    dop_diag diag = {0};
    dop_stage_wanted head = {DOP_STEP_DECODE, 1, "head", "gemv_subgroup", 2900, 3000, 1400};
    enter_folder();
    scratch_text(&folder, "t.yaml", times);
    cr_assert_eq(dop_stage_times_add(&t, "t.yaml", &diag), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_stage_times_ready(&t, "t.yaml", &diag), DOP_OK, "%s", diag.message);
    cr_assert_str_eq(t.device, "D");
    /* 10 of the 30 us are for any dispatch, the others for 1000 bytes. */
    NEAR(ask(&t, head, 10, 1, false), 10 + 20 * 3);
    NEAR(ask(&t, head, 10, 2, false), 10 + 20 * 3 / 2.0);
    head.kernel = "gemv_subgroup_i8"; /* of the same template */
    NEAR(ask(&t, head, 10, 1, false), 10 + 20 * 3);
    head.kernel = "argmax"; /* of another: the step has 60 - 3 * 10 us for 2000 bytes */
    NEAR(ask(&t, head, 10, 1, true), 10 + 30 / 2000.0 * 3000);
    /* Halfway between 16 and 32 rows, at the work of 24; below them all; and above. */
    dop_stage_wanted rows = {DOP_STEP_ROWS, 24, "head", "matmul", 1000, 1000, 0};
    NEAR(ask(&t, rows, 10, 1, true), 70);
    rows.rows = 4;
    NEAR(ask(&t, rows, 10, 1, true), 50);
    rows.rows = 64;
    NEAR(ask(&t, rows, 10, 1, true), 180);
    /* A prompt by its products, four times as fast here.  Stages of 220 are scaled to the whole step's 110. */
    NEAR(ask(&t, (dop_stage_wanted){DOP_STEP_PREFILL, 128, "head", "matmul", 1, 1, 2560}, 10, 1, false),
         10 + 100 * 2 / 4.0);
    NEAR(ask(&t, (dop_stage_wanted){DOP_STEP_PREFILL, 256, "head", "matmul", 1, 1, 5120}, 10, 1, false),
         2 * (10 + 100 * 2 / 4.0));
    dop_stage_times_finish(&t);
}

Test(simulate, descriptions)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "nothing is in this file: a description of devices and links is a mapping"},
        {"[1]", "a description of devices and links is a mapping"},
        {"link: {latency_us: 1, bandwidth: 1e9}", "it needs link and device; device is missing"},
        {"device: {bandwidth: 1, flops: 1}", "it needs link and device; link is missing"},
        {"wires: 3", "the description has no wires; known are link, device, sequences, groups, prompt"},
        {"prompt: 1\nprompt: 2", "prompt is given twice, first on line 1"},
        {"prompt: 0", "prompt: 0 is no whole number from 1 to 16777216"},
        {"prompt: 1.5", "prompt: 1.5 is no whole number from 1 to 16777216"},
        {"prompt: []", "prompt: this is no whole number from 1 to 16777216"},
        {"link: 3", "a link is a mapping of fields"},
        {"link: []", "link: an empty list"},
        {"link: {latency_us: 1}", "a link needs bandwidth"},
        {"link: {bandwidth: 1}", "a link needs latency_us"},
        {"link: {latency_us: -1, bandwidth: 1}", "latency_us: -1 is no number from 0 on"},
        {"link: {latency_us: 1, bandwidth: 0}", "bandwidth: 0 is no number above 0"},
        {"link: {latency_us: nan, bandwidth: 1}", "latency_us: nan is no number from 0 on"},
        {"link: {latency_us: 1, bandwidth: inf}", "bandwidth: inf is no number above 0"},
        {"link: {latency_us: 1us, bandwidth: 1}", "latency_us: 1us is no number from 0 on"},
        {"link: {latency: 1}", "a link has no latency; known are latency_us, bandwidth, overlaps"},
        {"link: {latency_us: 1, bandwidth: 1, overlaps: yes}", "overlaps: true or false"},
        {"link: {latency_us: 1, bandwidth: 1}\ndevice: {bandwidth: 1}",
         "a device needs stage_times, or bandwidth and flops"},
        {"link: {latency_us: 1, bandwidth: 1}\ndevice: {bandwidth: 1, flops: 1, memory_speed: 2}",
         "memory_speed and product_speed are about stage_times"},
        {"link: {latency_us: 1, bandwidth: 1}\ndevice: {stage_times: t.yaml, flops: 2}",
         "a device has stage_times or rates; memory_speed and product_speed say how many times as fast as the measured "
         "one it is"},
        {"link: {latency_us: 1, bandwidth: 1}\ndevice: {stage_times: []}", "no stage times are in this file"},
        {"link: {latency_us: 1, bandwidth: 1}\ndevice: {stage_times: bad.yaml}", "step is decode, prefill or rows"},
        {"link: {latency_us: 1, bandwidth: 1}\ndevice: {stage_times: part.yaml}",
         "head of decode rows 1 has no row of the whole step"},
    };
    dop_sim_setup s;
    enter_folder();
    scratch_text(&folder, "t.yaml", times);
    scratch_text(&folder, "bad.yaml", "- {step: draft, rows: 1, dispatches: 1, us: 1, bytes: 1}\n");
    scratch_text(&folder, "part.yaml",
                 "- {step: decode, rows: 1, op: head, kernel: gemv, count: 1, us: 1, bytes: 1}\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dop_diag diag = {0};
        scratch_text(&folder, "s.yaml", cases[i].text);
        cr_assert_eq(dop_sim_load("s.yaml", &diag, &s), DOP_E_INPUT, "%s", cases[i].text);
        cr_assert_str_eq(diag.message, cases[i].message);
    }
    dop_diag diag = {0};
    scratch_text(&folder, "s.yaml",
                 "link: [{latency_us: 1, bandwidth: 2e9}, {latency_us: 3, bandwidth: 4, overlaps: false}]\n"
                 "device: {stage_times: [t.yaml], memory_speed: 0.5, memory: 24e9, step_us: 0}\nprompt: 7\n");
    cr_assert_eq(dop_sim_load("s.yaml", &diag, &s), DOP_OK, "%s", diag.message);
    cr_assert(s.n_links == 2 && s.n_devices == 1 && s.prompt == 7 && s.sequences == 32 && s.groups == 0);
    cr_assert(s.links[0].overlaps && !s.links[1].overlaps);
    NEAR(s.links[0].bandwidth, 2e9);
    NEAR(s.devices[0].memory, 24e9);
    NEAR(s.devices[0].step_us, 0);
    NEAR(s.devices[0].product_speed, 1);
    cr_assert_eq(s.devices[0].times.n, 7);
    dop_sim_setup_finish(&s);
}

/* The golden llama, which has 12 dispatches and one value of 64 f32 that crosses. */
Test(simulate, a_model)
{
    const dop_cuts cuts = {.n_parts = 2, .end = {1, 2}};
    dop_target target;
    dop_compilation_options o = {.own_path = DOP_GLSL_SOURCE_DIR,
                                 .target = &target,
                                 .ctx = 56,
                                 .n_chunks = 2,
                                 .chunks = {4, 16},
                                 .sequences = 5,
                                 .n_rows = 2,
                                 .rows = {2, 8},
                                 .no_spirv = true,
                                 .in_parts = true};
    dop_diag diag = {0};
    dop_compilation c, parts[2];
    dop_sim_setup s;
    dop_sim_result two, one;
    enter_folder();
    scratch_text(&folder, "s.yaml",
                 "link: {latency_us: 7, bandwidth: 1e6}\n"
                 "device: {bandwidth: 1e9, flops: 1e18, stage_us: 2, step_us: 30, memory: 300e3}\n"
                 "sequences: 4\nprompt: 40\n");
    o.passes.stop_after = -1;
    cr_assert_eq(dop_target_resolve("lavapipe", &diag, &target), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_compilation_make(DOP_SOURCE_DIR "/tests/golden/llama", &o, &diag, &c), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_parts_make(&c, 1, &cuts, &diag, parts), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_sim_load("s.yaml", &diag, &s), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_simulate(&s, "s.yaml", parts, 2, &diag, &two), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_simulate(&s, "s.yaml", &c, 1, &diag, &one), DOP_OK, "%s", diag.message);
    /* One device: 12 dispatches of 2 us, and a nanosecond for a byte: 214,656 of weights and some 9,600 of values. */
    cr_assert(one.decode_us > 24 + 214.656 && one.decode_us < 24 + 214.656 + 11, "%g", one.decode_us);
    cr_assert(two.all_fit && !one.all_fit && two.weights[0] + two.weights[1] >= one.weights[0]);
    /* Parts do the same together; each adds 30 us of its host, a hop 7 us and 256 bytes at 1 MB/s, an answer 7. */
    NEAR(two.decode.part_us[0] + two.decode.part_us[1], one.decode_us + 60);
    cr_assert_eq(two.decode.hop_bytes[0], 256);
    NEAR(two.decode_us, one.decode_us + 60 + 7 + 256 + 7);
    /* Two groups of two rows of the four sequences, which wait for the link. */
    cr_assert(two.sequences == 4 && two.groups == 2 && two.many.rows == 2 && one.groups == 1 && one.many.rows == 4);
    NEAR(two.many.hop_us[0], 7 + 512);
    NEAR(two.many_us, 2 * (7 + 512));
    /* 40 tokens are two pieces of 16 and one of 8; hops of 4103 us are what the second part waits for. */
    cr_assert(two.n_chunks == 2 && two.repeats[0] == 2 && two.chunks[0].rows == 16 && two.chunks[1].rows == 8);
    NEAR(two.chunks[0].hop_us[0], 7 + 4096);
    NEAR(two.prompt_us, two.chunks[0].body_us[0] + 2 * (7 + 4096) + (7 + 2048) + two.chunks[1].part_us[1] + 7);
    cr_assert(two.chunks[0].body_us[1] < two.chunks[0].part_us[1]); /* without the head */
    s.n_links = 3;
    cr_assert_eq(dop_simulate(&s, "s.yaml", parts, 2, &diag, &two), DOP_E_INPUT);
    cr_assert_str_eq(diag.message, "3 links for 2 parts: one for all, or one for each of the 1 cuts");
    dop_sim_setup_finish(&s);
    dop_parts_finish(parts, 2);
    dop_compilation_finish(&c);
}
