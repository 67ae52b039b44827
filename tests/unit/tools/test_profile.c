/* The profiler on a hand-made plan: the same tokens as without it, every dispatch of every replay accounted for, output
 * that its readers can parse.
 * Needs runtime/device/device.h's Vulkan device. */
#include "base/label.h"
#include "plan/trace.h"
#include "runtime/model/model.h"
#include "tests/unit/plan_builder.h"
#include "tools/profile/profile.h"
#include "tools/profile/profile_html.h"
#include "tools/profile/profile_table.h"
#include "tools/profile/profile_trace.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static dop_sequence *
open_toy(const dop_open_options *o)
{
    char path[] = "/tmp/doppler-test-XXXXXX";
    plan_builder b;
    dop_diag diag = {0};
    pb_toy(&b);
    pb_write(&b, path);
    plan_builder_finish(&b);
    dop_model *m = NULL;
    dop_sequence *s = NULL;
    cr_assert_eq(dop_model_open(path, o, &diag, &m), DOP_OK, "%s", diag.message);
    unlink(path);
    cr_assert_eq(dop_sequence_create(m, &diag, &s), DOP_OK, "%s", diag.message);
    return s;
}

static void
close_model(dop_sequence *s)
{
    dop_model_close(s->model); /* and the sequence */
}

static void
run(dop_sequence *s, dop_profile *p, uint32_t n_prompt, uint32_t n)
{
    uint32_t all[TOY_CTX + 1];
    dop_diag diag = {0};
    for (uint32_t i = 0; i < n_prompt; i++)
        all[i] = (i * 7 + 3) % TOY_VOCAB;
    cr_assert_eq(dop_sequence_rewind(s, 0, &diag), DOP_OK, "%s", diag.message);
    dop_sequence_expect(s, n);
    dop_profile_begin(p, "prompt", 0);
    cr_assert_eq(dop_sequence_feed(s, all, n_prompt, &diag), DOP_OK, "%s", diag.message);
    dop_profile_end(p);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t want = toy_argmax(all, n_prompt + i);
        dop_profile_begin(p, "token", i);
        cr_assert_eq(dop_sequence_next(s, &diag, &all[n_prompt + i]), DOP_OK, "%s", diag.message);
        dop_profile_end(p);
        cr_assert_eq(all[n_prompt + i], want, "token %u: %u instead of %u", i, all[n_prompt + i], want);
    }
}

/* n_prompt must fit one chunk.  The first pick is the prompt's, and each of the others a decode step. */
static void
check_profile(const dop_open_options *o, uint32_t n_prompt, uint32_t n, bool warm)
{
    dop_sequence *s = open_toy(o);
    dop_profile p;
    dop_diag diag = {0};
    cr_assert_eq(dop_profile_attach(s->model, &diag, &p), DOP_OK, "%s", diag.message);
    if (warm)
        run(s, &p, n_prompt, n);
    cr_assert_eq(dop_profile_start(&p, &diag), DOP_OK, "%s", diag.message);
    run(s, &p, n_prompt, n);
    cr_assert_eq(dop_profile_stop(&p, &diag), DOP_OK, "%s", diag.message);

    const dop_plan *plan = p.info.plan;
    cr_assert_eq(p.n_steps, n);
    size_t n_dispatches = 0;
    for (size_t i = 0; i < p.n_steps; i++) {
        const dop_profile_step *step = &p.steps[i];
        const dop_plan_schedule *sched = &plan->schedules[step->schedule];
        cr_assert_eq(sched->kind, i == 0 && n_prompt > 1 ? DOP_SCHED_PREFILL : DOP_SCHED_DECODE, "step %zu", i);
        cr_assert_eq(step->n_dispatches, sched->n_dispatches);
        cr_assert_leq(step->first_time + step->n_dispatches, p.n_times - 1);
        for (uint32_t j = 0; j < step->n_dispatches; j++)
            cr_assert_leq(p.times[step->first_time + j], p.times[step->first_time + j + 1], "step %zu, %u", i, j);
        if (i > 0)
            cr_assert_leq(p.times[step->first_time - 1], p.times[step->first_time], "steps are in order");
        n_dispatches += step->n_dispatches;
    }
    cr_assert_eq(p.n_times, n_dispatches + p.n_steps);
    uint64_t counted = 0, bytes = 0;
    double in_groups = 0, in_totals = 0;
    for (size_t i = 0; i < p.n_groups; i++) {
        counted += p.groups[i].count;
        bytes += p.groups[i].bytes;
        in_groups += p.groups[i].total_ms;
    }
    for (size_t i = 0; i < p.n_totals; i++)
        in_totals += p.totals[i].dispatch_ms;
    cr_assert_eq(counted, n_dispatches);
    cr_assert_float_eq(in_groups, in_totals, 1e-6 + 1e-9 * in_totals);
    for (size_t i = 0; i < p.n_steps; i++)
        for (uint32_t j = 0; j < p.steps[i].n_dispatches; j++) {
            const dop_plan_dispatch *d = &plan->dispatches[plan->schedules[p.steps[i].schedule].first_dispatch + j];
            bytes -= d->bytes_read + d->bytes_written;
        }
    cr_assert_eq(bytes, 0);

    /* One clock: the device worked between the first span's start and the last one's end. */
    cr_assert_gt(p.n_spans, n);
    double margin = p.calibrated ? 1 : 1000;
    cr_assert_geq(p.times[0], p.spans[0].start_ms - margin);
    for (size_t i = 0; i < p.n_spans; i++) {
        cr_assert_leq(p.spans[i].start_ms, p.spans[i].end_ms);
        cr_assert_geq(p.spans[i].start_ms, i ? p.spans[i - 1].start_ms : p.origin_ms);
    }
    cr_assert_leq(p.times[p.n_times - 1], p.spans[p.n_spans - 1].end_ms + margin);

    /* Nothing of it stays: the session goes on without timestamps. */
    run(s, &p, n_prompt, n);
    cr_assert_eq(p.n_steps, n);
    dop_profile_finish(&p);
    close_model(s);
}

Test(profile, every_dispatch_of_every_step)
{
    check_profile(NULL, 5, 20, true);
    check_profile(NULL, 1, 3, false);
}

Test(profile, more_steps_than_it_can_hold_unread)
{
    check_profile(NULL, 20, DOP_PROFILE_RING + 30, true);
    check_profile(&(dop_open_options){.steps_ahead = 16}, 20, DOP_PROFILE_RING + 30, false);
}

Test(profile, several_steps_in_one_submission)
{
    check_profile(&(dop_open_options){.steps_per_submit = 7}, 5, 50, false);
}

Test(profile, more_steps_in_one_submission_than_it_can_hold)
{
    dop_sequence *s = open_toy(&(dop_open_options){.steps_per_submit = 256});
    dop_profile p;
    dop_diag diag = {0};
    uint32_t id = 1;
    cr_assert_eq(dop_profile_attach(s->model, &diag, &p), DOP_OK);
    dop_sequence_expect(s, 100);
    cr_assert_eq(dop_sequence_feed(s, &id, 1, &diag), DOP_OK);
    dop_status st = DOP_OK;
    for (int i = 0; i < 100 && st == DOP_OK; i++)
        st = dop_sequence_next(s, &diag, &id);
    cr_assert_eq(st, DOP_E_USAGE);
    cr_assert_str_eq(diag.message, "--profile takes at most 64 steps in one submission: use a smaller --gpu-loop");
    dop_profile_finish(&p); /* while it is attached */
    close_model(s);
}

static size_t
count_events(json_t *events, const char *category)
{
    size_t i, n = 0;
    json_t *e;
    json_array_foreach(events, i, e)
    {
        const char *c = json_string_value(json_object_get(e, "cat"));
        if (c && strcmp(c, category) == 0) {
            n++;
            cr_assert(json_is_number(json_object_get(e, "ts")));
            cr_assert_geq(json_number_value(json_object_get(e, "dur")), 0);
        }
    }
    return n;
}

Test(profile, outputs_parse)
{
    dop_sequence *s = open_toy(NULL);
    dop_profile p;
    dop_diag diag = {0};
    json_error_t error;
    dop_buf text = {0};
    cr_assert_eq(dop_profile_attach(s->model, &diag, &p), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_profile_start(&p, &diag), DOP_OK);
    run(s, &p, 5, 4);
    cr_assert_eq(dop_profile_stop(&p, &diag), DOP_OK);

    dop_profile_trace_json(&p, &text);
    json_t *root = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &error);
    cr_assert(root, "trace: %s, line %d", error.text, error.line);
    json_t *events = json_object_get(root, "traceEvents");
    cr_assert_eq(count_events(events, "step"), p.n_steps);
    cr_assert_eq(count_events(events, "dispatch"), p.n_times - p.n_steps);
    cr_assert_eq(count_events(events, "host"), p.n_spans);
    cr_assert(json_string_value(json_object_get(json_object_get(root, "otherData"), "device")));
    json_decref(root);
    dop_buf_finish(&text);

    dop_profile_html(&p, &text);
    const char *open = "<script type=\"application/json\" id=\"data\">", *close = "</script>";
    char *from = strstr(text.data, open), *to = from ? strstr(from, close) : NULL;
    cr_assert(to);
    from += strlen(open);
    root = json_loadb(from, (size_t)(to - from), JSON_REJECT_DUPLICATES, &error);
    cr_assert(root, "page: %s, line %d", error.text, error.line);
    cr_assert_eq(json_array_size(json_object_get(root, "steps")), p.n_steps);
    cr_assert_eq(json_array_size(json_object_get(root, "tables")), p.n_totals);
    cr_assert(!strstr(text.data, "http://") && !strstr(text.data, "https://"), "the page loads nothing");
    cr_assert(strstr(text.data, "<style>\n:root {") && strstr(text.data, "getElementById"),
              "style and script are there");
    cr_assert(!strstr(text.data, "@data@") && !strstr(text.data, "@profile."), "no hole is left");
    json_decref(root);
    dop_buf_finish(&text);

    dop_profile_table(&p, &text);
    for (size_t i = 0; i < p.n_groups; i++)
        cr_assert(strstr(text.data, p.groups[i].name));
    dop_buf_finish(&text);

    dop_trace_kernels(p.info.plan, &text);
    size_t lines = 0;
    for (const char *c = text.data; *c; c++)
        lines += *c == '\n';
    cr_assert_eq(lines, p.info.plan->n_dispatches);
    dop_buf_finish(&text);
    dop_profile_finish(&p);
    close_model(s);
}

Test(profile, group_names)
{
    static const char *const cases[][2] = {
        {"L0/qkv", "L*/qkv"}, {"L12/ffn_up", "L*/ffn_up"}, {"head", "head"}, {"L/x", "L/x"},
        {"L3", "L3"},         {"Lx3/y", "Lx3/y"},          {"", ""},         {"L3x/y", "L3x/y"},
        {"L03/y", "L03/y"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[96];
        dop_label_any_layer(dop_label_read(cases[i][0]), name, sizeof name);
        cr_assert_str_eq(name, cases[i][1]);
    }
}

Test(profile, json_strings)
{
    dop_buf b = {0};
    dop_json_string("a\"b\\c\n</script>\x7f\xc3\xa9", &b);
    cr_assert_str_eq(b.data, "\"a\\\"b\\\\c\\u000a\\u003c/script>\\u007f\xc3\xa9\"");
    dop_buf_finish(&b);
}
