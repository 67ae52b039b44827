/* A hand-made plan on a real device: feeding, picking, scoring, and what may not happen after loading.
 * Needs runtime/device/device.h's Vulkan device. */
#include "runtime/model/model.h"
#include "tests/unit/plan_builder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes the plan and opens it; the file is gone afterwards, the map stays. */
static dop_sequence *
open_plan(plan_builder *b, const dop_open_options *o, dop_diag *diag)
{
    char path[] = "/tmp/doppler-test-XXXXXX";
    pb_write(b, path);
    dop_model *m = NULL;
    dop_sequence *s = NULL;
    dop_open_options none = {0};
    dop_status st = dop_model_open(path, o ? o : &none, diag, &m);
    cr_assert_eq(st == DOP_OK, m != NULL);
    cr_assert_eq(st, diag->code);
    unlink(path);
    cr_assert(!m || dop_sequence_create(m, diag, &s) == DOP_OK, "%s", diag->message);
    return s;
}

static void
close_model(dop_sequence *s)
{
    dop_model_close(s->model); /* and the sequence */
}

static dop_sequence *
open_toy(const dop_open_options *o)
{
    plan_builder b;
    dop_diag diag = {0};
    pb_toy(&b);
    dop_sequence *s = open_plan(&b, o, &diag);
    cr_assert(s, "%s", diag.message);
    plan_builder_finish(&b);
    return s;
}

static void
fill_prompt(uint32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ids[i] = (uint32_t)(i * 7 + 3) % TOY_VOCAB;
}

/* The prompt, then n greedy tokens, against the model in C. */
static void
check_greedy(dop_sequence *s, size_t n_prompt, size_t n)
{
    uint32_t all[TOY_CTX + 1];
    dop_diag diag = {0};
    fill_prompt(all, n_prompt);
    cr_assert_eq(dop_sequence_rewind(s, 0, &diag), DOP_OK, "%s", diag.message);
    dop_sequence_expect(s, (uint32_t)n);
    cr_assert_eq(dop_sequence_feed(s, all, n_prompt, &diag), DOP_OK, "%s", diag.message);
    for (size_t i = 0; i < n; i++) {
        uint32_t id = UINT32_MAX, want = toy_argmax(all, n_prompt + i);
        cr_assert_eq(dop_sequence_next(s, &diag, &id), DOP_OK, "token %zu: %s", i, diag.message);
        cr_assert_eq(id, want, "prompt of %zu, token %zu: %u instead of %u", n_prompt, i, id, want);
        all[n_prompt + i] = id;
    }
    size_t n_all;
    const uint32_t *tokens = dop_sequence_tokens(s, &n_all);
    cr_assert_eq(n_all, n_prompt + n);
    cr_assert_arr_eq(tokens, all, n_all * sizeof *all);
}

static dop_status
no_rows(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag)
{
    (void)user, (void)first, (void)n_rows, (void)rows, (void)diag;
    return DOP_OK;
}

/* A kernel that fills matrices itself looks whether the device orders their elements as it does (DOP_CAP_coop_pairs). */
Test(sequence, matrices_in_another_order)
{
    const uint32_t ids[] = {1, 2};
    dop_diag diag = {0};
    dop_sequence *s = open_toy(NULL);
    dop_replay *r = &s->model->replay;
    for (uint32_t n = 1; n <= 2; n++) {
        dop_replay_write_step(r, ids, n, 0, 0);
        dop_replay_step(r)->flags |= DOP_STEP_UNPAIRED;
        r->pairs = false;
        cr_expect_eq(dop_replay_wait(r, r->submitted, &diag), DOP_OK, "no kernel looks");
        r->pairs = true;
        cr_expect_eq(dop_replay_wait(r, r->submitted, &diag), n == 1 ? DOP_OK : DOP_E_DEVICE, "%u rows", n);
    }
    cr_expect(strstr(diag.message, "compile it for a target without coop_pairs"), "%s", diag.message);
    close_model(s);
}

Test(sequence, greedy_for_every_prompt_length)
{
    dop_sequence *s = open_toy(NULL);
    for (size_t n = 1; n <= 50; n += n < 12 ? 1 : 5)
        check_greedy(s, n, 20);
    check_greedy(s, 100, 28); /* up to the last position */
    close_model(s);
}

Test(sequence, greedy_with_other_steps_ahead_and_chunks)
{
    const dop_open_options variants[] = {
        {.steps_ahead = 1},
        {.steps_ahead = 16, .steps_per_submit = 3},
        {.steps_per_submit = 256},
        {.max_chunk = 1},
        {.max_chunk = 7},
        {.separate_memory = true, .threads = 3},
        {.first_tokens = 1},
        {.first_tokens = 45, .no_scoring = true},
        {.first_tokens = 45, .max_chunk = 7, .threads = 1},
        {.first_tokens = 5, .separate_memory = true},
        {.on_demand = true},
        {.on_demand = true, .first_tokens = 45, .no_steps = true},
    };
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        dop_sequence *s = open_toy(&variants[i]);
        check_greedy(s, 1, 40);
        check_greedy(s, 45, 60);
        close_model(s);
    }
}

/* What opening puts off is there when it is wanted, and does not count as made by the calls that want it. */
Test(sequence, schedules_put_off)
{
    for (uint32_t round = 0; round < 10; round++) {
        dop_sequence *s = open_toy(&(dop_open_options){.first_tokens = round < 5 ? 1 : 32, .no_scoring = round % 2});
        dop_diag diag = {0};
        check_greedy(s, 45, 30);
        dop_counters c = dop_model_counters(s->model);
        cr_assert_eq(c.allocations, 0);
        cr_assert_eq(c.recordings, 0);
        uint32_t id = 1;
        dop_status st = dop_sequence_score(s, &id, 1, no_rows, NULL, &diag);
        if (round % 2)
            cr_assert(st == DOP_E_INTERNAL && strstr(diag.message, "without scoring"), "%s", diag.message);
        else
            cr_assert_eq(st, DOP_OK, "%s", diag.message);
        close_model(s); /* maybe while they are being made */
    }
    close_model(open_toy(&(dop_open_options){.first_tokens = 1}));
}

Test(sequence, takes_more_than_it_expected)
{
    dop_sequence *s = open_toy(NULL);
    dop_diag diag = {0};
    uint32_t all[64], n = 3;
    fill_prompt(all, n);
    dop_sequence_expect(s, 2);
    cr_assert_eq(dop_sequence_feed(s, all, n, &diag), DOP_OK);
    for (; n < 20; n++) {
        cr_assert_eq(dop_sequence_next(s, &diag, &all[n]), DOP_OK, "%s", diag.message);
        cr_assert_eq(all[n], toy_argmax(all, n));
    }
    close_model(s);
}

Test(sequence, feeding_after_picking_continues_the_sequence)
{
    dop_sequence *s = open_toy(NULL);
    dop_diag diag = {0};
    uint32_t all[TOY_CTX], n = 0, more[9];
    fill_prompt(more, 9);
    for (uint32_t round = 0; round < 6; round++) {
        uint32_t n_more = round + 1, n_take = round * 2;
        cr_assert_eq(dop_sequence_feed(s, more, n_more, &diag), DOP_OK, "%s", diag.message);
        memcpy(all + n, more, n_more * sizeof *more);
        n += n_more;
        for (uint32_t i = 0; i < n_take; i++, n++) {
            cr_assert_eq(dop_sequence_next(s, &diag, &all[n]), DOP_OK, "%s", diag.message);
            cr_assert_eq(all[n], toy_argmax(all, n), "round %u, token %u", round, i);
        }
    }
    close_model(s);
}

Test(sequence, sampling_on_the_host_and_back)
{
    dop_sequence *s = open_toy(NULL);
    dop_diag diag = {0};
    uint32_t all[TOY_CTX], n = 10;
    fill_prompt(all, n);
    /* top-k 1 through the host gives the arg-max and so checks logits and positions. */
    dop_sampling top1 = {.temperature = 1, .top_p = 1, .top_k = 1, .repeat_penalty = 1}, greedy = {.repeat_penalty = 1};
    cr_assert_eq(dop_sequence_feed(s, all, n, &diag), DOP_OK);
    for (uint32_t i = 0; i < 40; i++, n++) {
        if (i % 5 == 0)
            dop_sequence_set_sampling(s, i % 10 ? &greedy : &top1);
        cr_assert_eq(dop_sequence_next(s, &diag, &all[n]), DOP_OK, "%s", diag.message);
        cr_assert_eq(all[n], toy_argmax(all, n), "token %u", i);
    }
    close_model(s);
}

Test(sequence, same_seed_same_tokens)
{
    uint32_t ids[3][30], prompt[4];
    dop_diag diag = {0};
    fill_prompt(prompt, 4);
    dop_sequence *s = open_toy(NULL);
    for (int run = 0; run < 3; run++) {
        dop_sampling p = {.temperature = 1.5f, .top_p = 1, .repeat_penalty = 1, .seed = run == 2 ? 8 : 7};
        cr_assert_eq(dop_sequence_rewind(s, 0, &diag), DOP_OK);
        dop_sequence_set_sampling(s, &p);
        cr_assert_eq(dop_sequence_feed(s, prompt, 4, &diag), DOP_OK);
        for (int i = 0; i < 30; i++)
            cr_assert_eq(dop_sequence_next(s, &diag, &ids[run][i]), DOP_OK);
    }
    cr_assert_arr_eq(ids[0], ids[1], sizeof ids[0]);
    cr_assert(memcmp(ids[0], ids[2], sizeof ids[0]) != 0);
    close_model(s);
}

typedef struct score_state {
    const uint32_t *tokens;
    size_t base, next; /* tokens before the first scored one; next expected row */
} score_state;

static dop_status
check_rows(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag)
{
    score_state *st = user;
    (void)diag;
    cr_assert_eq(first, st->next);
    for (size_t r = 0; r < n_rows; r++) {
        float want[TOY_VOCAB];
        toy_logits(st->tokens, st->base + first + r + 1, want);
        cr_assert_arr_eq(rows + r * TOY_VOCAB, want, sizeof want, "row %zu", first + r);
    }
    st->next = first + n_rows;
    return DOP_OK;
}

static void
check_score(dop_sequence *s)
{
    dop_diag diag = {0};
    uint32_t all[TOY_CTX], n = 45;
    fill_prompt(all, n);
    score_state st = {all, 0, 0};
    cr_assert_eq(dop_sequence_score(s, all, n, check_rows, &st, &diag), DOP_OK, "%s", diag.message);
    cr_assert_eq(st.next, n);
    /* Picking goes on from the last scored position, and scoring after picking from the last pick. */
    for (uint32_t i = 0; i < 7; i++, n++) {
        cr_assert_eq(dop_sequence_next(s, &diag, &all[n]), DOP_OK, "%s", diag.message);
        cr_assert_eq(all[n], toy_argmax(all, n));
    }
    fill_prompt(all + n, 3);
    st = (score_state){all, n, 0};
    cr_assert_eq(dop_sequence_score(s, all + n, 3, check_rows, &st, &diag), DOP_OK, "%s", diag.message);
    cr_assert_eq(st.next, 3);
}

Test(sequence, score)
{
    dop_sequence *s = open_toy(NULL);
    check_score(s);
    close_model(s);
}

/* What a discrete GPU does: weights through staging buffers, logits through a mirror; more pieces than threads. */
Test(sequence, separate_memory)
{
    plan_builder b;
    dop_diag diag = {0};
    pb_toy(&b);
    dop_buf *w = &b.sections[DOP_SEC_WEIGHTS];
    uint64_t padding = (uint64_t)100 << 20;
    dop_buf weights = {0};
    dop_buf_zeros(&weights, padding);
    dop_buf_append(&weights, w->data, w->size);
    dop_buf_finish(w);
    *w = weights;
    PB_AT(&b, SLOTS, dop_plan_slot, 0)->size = w->size;
    for (uint32_t i = 0; i < b.sections[DOP_SEC_ARGS].size / sizeof(dop_plan_arg); i++) {
        dop_plan_arg *a = PB_AT(&b, ARGS, dop_plan_arg, i);
        if (a->slot == 0)
            a->offset = padding;
    }
    dop_sequence *s = open_plan(&b, &(dop_open_options){.separate_memory = true, .threads = 2}, &diag);
    cr_assert(s, "%s", diag.message);
    check_score(s);
    check_greedy(s, 20, 20);
    close_model(s);
    plan_builder_finish(&b);
}

Test(sequence, score_without_a_schedule_for_it)
{
    plan_builder b;
    dop_diag diag = {0};
    pb_toy(&b);
    b.sections[DOP_SEC_SCHEDULES].size -= sizeof(dop_plan_schedule);
    dop_sequence *s = open_plan(&b, NULL, &diag);
    cr_assert(s, "%s", diag.message);
    check_score(s);
    close_model(s);
    plan_builder_finish(&b);
}

Test(sequence, schedules_that_do_not_pick)
{
    plan_builder b;
    dop_diag diag = {0};
    pb_toy(&b);
    for (uint32_t i = 0; i < 3; i++) {
        dop_plan_schedule *sched = PB_AT(&b, SCHEDULES, dop_plan_schedule, i);
        sched->greedy = 0;
        sched->n_dispatches = 2;
    }
    dop_sequence *s = open_plan(&b, NULL, &diag);
    cr_assert(s, "%s", diag.message);
    check_greedy(s, 1, 10);
    check_greedy(s, 45, 10);
    close_model(s);
    plan_builder_finish(&b);
}

Test(sequence, schedules_without_a_split)
{
    plan_builder b;
    dop_diag diag = {0};
    pb_toy(&b);
    for (uint32_t i = 0; i < 3; i++)
        PB_AT(&b, SCHEDULES, dop_plan_schedule, i)->n_body = 3;
    dop_sequence *s = open_plan(&b, NULL, &diag);
    cr_assert(s, "%s", diag.message);
    check_greedy(s, 1, 10);
    check_greedy(s, 99, 10);
    close_model(s);
    plan_builder_finish(&b);
}

/* A kernel with more arguments than push constants hold finds them in memory, in each of the forms of memory that there are. */
Test(sequence, parameter_records)
{
    const dop_open_options variants[] = {{0}, {.steps_ahead = 16, .steps_per_submit = 3}, {.separate_memory = true}};
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        plan_builder b;
        dop_diag diag = {0};
        pb_toy(&b);
        pb_toy_record(&b);
        dop_sequence *s = open_plan(&b, &variants[i], &diag);
        cr_assert(s, "%s", diag.message);
        check_greedy(s, 1, 40);
        check_greedy(s, 45, 60);
        close_model(s);
        plan_builder_finish(&b);
    }
}

Test(sequence, nothing_is_made_after_loading)
{
    dop_sequence *s = open_toy(NULL);
    dop_counters c = dop_model_counters(s->model);
    cr_assert_eq(c.submissions, 0);
    check_greedy(s, 40, 50);
    check_greedy(s, 3, 50);
    c = dop_model_counters(s->model);
    cr_assert_eq(c.allocations, 0);
    cr_assert_eq(c.recordings, 0);
    /* Two resets, 32 + 8 tokens of prompt, 3 tokens, and one submission per further token. */
    cr_assert_eq(c.submissions, 2 + 2 + 1 + 49 + 49, "%llu", (unsigned long long)c.submissions);
    close_model(s);
}

Test(sequence, limits_have_clear_errors)
{
    dop_sequence *s = open_toy(NULL);
    uint32_t ids[TOY_CTX + 1] = {0}, id;
    dop_diag diag = {0};
    cr_assert_eq(dop_sequence_next(s, &diag, &id), DOP_E_INPUT);
    cr_assert(strstr(diag.message, "no tokens"), "%s", diag.message);
    memset(&diag, 0, sizeof diag);
    cr_assert_eq(dop_sequence_feed(s, ids, TOY_CTX + 1, &diag), DOP_E_INPUT);
    cr_assert(strstr(diag.message, "context of 128"), "%s", diag.message);
    memset(&diag, 0, sizeof diag);
    ids[1] = TOY_VOCAB;
    cr_assert_eq(dop_sequence_feed(s, ids, 2, &diag), DOP_E_INPUT);
    cr_assert(strstr(diag.message, "token id 64 is outside the vocabulary of 64"), "%s", diag.message);
    memset(&diag, 0, sizeof diag);
    /* A refused feed leaves the sequence usable; the context can be filled to the last position. */
    fill_prompt(ids, TOY_CTX);
    cr_assert_eq(dop_sequence_feed(s, ids, TOY_CTX, &diag), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_sequence_next(s, &diag, &id), DOP_OK, "%s", diag.message);
    cr_assert_eq(id, toy_argmax(ids, TOY_CTX));
    cr_assert_eq(dop_sequence_next(s, &diag, &id), DOP_E_INPUT);
    cr_assert(strstr(diag.message, "context of 128 tokens is full"), "%s", diag.message);
    close_model(s);
}

Test(sequence, one_at_a_time)
{
    dop_sequence *s = open_toy(NULL), *other = NULL;
    dop_model *m = s->model;
    dop_diag diag = {0};
    check_greedy(s, 9, 9);
    cr_assert_eq(dop_sequence_create(m, &diag, &other), DOP_E_INPUT);
    cr_assert_null(other);
    cr_assert(strstr(diag.message, "one sequence at a time"), "%s", diag.message);
    check_greedy(s, 9, 9);
    /* The next one starts from nothing, also while steps run ahead for this one. */
    uint32_t id;
    dop_sequence_expect(s, UINT32_MAX);
    cr_assert_eq(dop_sequence_next(s, &diag, &id), DOP_OK);
    dop_sequence_destroy(s);
    dop_sequence_destroy(NULL);
    cr_assert_eq(dop_sequence_create(m, &diag, &s), DOP_OK, "%s", diag.message);
    uint32_t all[TOY_CTX] = {7}, n = 1;
    cr_assert_eq(dop_sequence_feed(s, all, 1, &diag), DOP_OK);
    for (; n < 20; n++) {
        cr_assert_eq(dop_sequence_next(s, &diag, &all[n]), DOP_OK);
        cr_assert_eq(all[n], toy_argmax(all, n));
    }
    close_model(s);
}

Test(sequence, rewinding)
{
    dop_sequence *s = open_toy(NULL);
    dop_diag diag = {0};
    uint32_t all[TOY_CTX], n = 50;
    size_t n_all;
    fill_prompt(all, n);
    cr_assert_eq(dop_sequence_feed(s, all, n, &diag), DOP_OK);
    for (uint32_t i = 0; i < 12; i++) {
        n = n * 7 / 9;
        cr_assert_eq(dop_sequence_rewind(s, n, &diag), DOP_OK, "%s", diag.message);
        (void)dop_sequence_tokens(s, &n_all);
        cr_assert_eq(n_all, n);
        if (i % 3 == 0 && n > 0)
            all[n - 1] = dop_sequence_tokens(s, &n_all)[n - 1];
        uint32_t more[2] = {i, i + 1};
        if (i % 2) {
            cr_assert_eq(dop_sequence_feed(s, more, 2, &diag), DOP_OK);
            memcpy(all + n, more, sizeof more);
            n += 2;
        }
        for (uint32_t k = 0; k < 5 && n > 0; k++, n++) {
            cr_assert_eq(dop_sequence_next(s, &diag, &all[n]), DOP_OK, "%s", diag.message);
            cr_assert_eq(all[n], toy_argmax(all, n), "round %u, token %u", i, n);
        }
    }
    cr_assert_eq(dop_sequence_rewind(s, n + 1, &diag), DOP_E_INPUT);
    cr_assert(strstr(diag.message, "cannot be rewound"), "%s", diag.message);
    close_model(s);
}

static void
expect_row(const dop_model *m, uint32_t row, const uint32_t *tokens, uint32_t n)
{
    float want[TOY_VOCAB];
    toy_logits(tokens, n, want);
    const float *got = dop_step_logits(m, row);
    cr_assert(got);
    cr_assert_arr_eq(got, want, sizeof want);
}

/* Steps of 1 to 8 rows, of which some want something; every third one is rolled back, and others come in its place. */
Test(step, rows_commit_and_rollback)
{
    dop_sequence *s = open_toy(NULL);
    dop_model *m = s->model;
    dop_diag diag = {0};
    uint32_t all[TOY_CTX + 8], n = 0, x = 1;
    size_t n_all;
    for (uint32_t round = 0; round < 60 && n < TOY_CTX - 12; round++) {
        dop_step_row rows[8];
        uint32_t n_rows = 1 + round % 8;
        for (uint32_t i = 0; i < n_rows; i++) {
            x = x * 1664525 + 1013904223;
            uint32_t wants = round % 5 == 0 || i + 1 == n_rows ? (x >> 16) % 4 : round % 5 == 1 ? 0 : (x >> 20) % 4;
            rows[i] = (dop_step_row){s, (x >> 8) % TOY_VOCAB, wants};
            all[n + i] = rows[i].token;
        }
        cr_assert_eq(dop_step_run(m, rows, n_rows, &diag), DOP_OK, "%s", diag.message);
        (void)dop_sequence_tokens(s, &n_all);
        cr_assert_eq(n_all, n, "not committed yet");
        for (uint32_t i = 0; i < n_rows; i++) {
            if (rows[i].wants & DOP_WANTS_LOGITS)
                expect_row(m, i, all, n + i + 1);
            uint32_t pick = rows[i].wants & DOP_WANTS_PICK ? toy_argmax(all, n + i + 1) : UINT32_MAX;
            cr_assert_eq(dop_step_pick(m, i), pick);
            cr_assert(rows[i].wants || !dop_step_logits(m, i));
        }
        if (round % 3 == 2) {
            dop_step_rollback(m);
        } else {
            dop_step_commit(m);
            n += n_rows;
        }
        cr_assert_null(dop_step_logits(m, 0));
        if (round % 7 == 3) { /* other ways to go on */
            cr_assert_eq(dop_sequence_next(s, &diag, &all[n]), DOP_OK, "%s", diag.message);
            cr_assert_eq(all[n], toy_argmax(all, n));
            n++;
        }
        cr_assert_arr_eq(dop_sequence_tokens(s, &n_all), all, n * sizeof *all);
        cr_assert_eq(n_all, n);
    }
    dop_step_commit(m); /* there is none */
    dop_step_rollback(m);
    close_model(s);
}

Test(step, errors_are_values_and_change_nothing)
{
    dop_sequence *s = open_toy(NULL), *s2 = open_toy(NULL);
    dop_model *m = s->model;
    uint32_t all[TOY_CTX], id;
    dop_diag diag = {0};
    dop_step_row rows[40];
    fill_prompt(all, 100);
    cr_assert_eq(dop_sequence_feed(s, all, 100, &diag), DOP_OK);
    for (uint32_t i = 0; i < 40; i++)
        rows[i] = (dop_step_row){s, 1, 0};
    const struct {
        uint32_t n, at;
        dop_step_row row;
        const char *says;
    } cases[] = {
        {0, 0, {s, 1, 0}, "without rows"},
        {2, 1, {NULL, 1, 0}, "row 1 is of no sequence"},
        {2, 0, {s2, 1, 0}, "row 0 is of no sequence"},
        {2, 1, {s, TOY_VOCAB, 0}, "token id 64 is outside"},
        {33, 32, {s, 1, 0}, "a step of 33 rows: this plan's schedules take at most 32"},
        {9, 0, {s, 1, DOP_WANTS_LOGITS}, "9 rows that want logits: this plan's schedules take at most 8"},
        {29, 0, {s, 1, 0}, "do not fit the plan's context of 128"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rows[cases[i].at] = cases[i].row;
        memset(&diag, 0, sizeof diag);
        cr_assert_eq(dop_step_run(m, rows, cases[i].n, &diag), DOP_E_INPUT, "%s", cases[i].says);
        cr_assert(strstr(diag.message, cases[i].says), "%s", diag.message);
        rows[cases[i].at] = (dop_step_row){s, 1, 0};
    }
    /* While a step is open, nothing else is done. */
    cr_assert_eq(dop_step_run(m, rows, 3, &diag), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_step_run(m, rows, 3, &diag), DOP_E_USAGE);
    cr_assert_eq(dop_sequence_next(s, &diag, &id), DOP_E_USAGE);
    cr_assert_eq(dop_sequence_feed(s, all, 1, &diag), DOP_E_USAGE);
    cr_assert_eq(dop_sequence_rewind(s, 0, &diag), DOP_E_USAGE);
    cr_assert_eq(dop_sequence_score(s, all, 1, no_rows, NULL, &diag), DOP_E_USAGE);
    dop_step_rollback(m);
    cr_assert_eq(dop_sequence_next(s, &diag, &id), DOP_OK, "%s", diag.message);
    cr_assert_eq(id, toy_argmax(all, 100));
    close_model(s);
    close_model(s2);
}

/* Logits that are not finite are an error wherever the host looks at them; what the device picks by itself is tested on
 * golden models (tests/errors/not_finite.sh). */
Test(step, logits_that_are_not_finite)
{
    static const uint32_t bad[] = {0x7fc00000, 0xffffffff, 0x7f800000, 0xff800000};
    for (uint32_t i = 0; i < 4; i++) {
        plan_builder b;
        dop_diag diag = {0};
        pb_toy(&b);
        for (uint32_t h = 0; h < 64; h++) /* one logit of every row */
            memcpy(b.sections[DOP_SEC_WEIGHTS].data + (h * 64 + 7 + i) * 4, &bad[i], 4);
        dop_sequence *s = open_plan(&b, NULL, &diag);
        plan_builder_finish(&b);
        dop_sampling sampled = {.temperature = 1, .top_p = 1, .repeat_penalty = 1};
        uint32_t ids[3] = {1, 2, 3}, id;
        dop_sequence_set_sampling(s, &sampled);
        cr_assert_eq(dop_sequence_feed(s, ids, 3, &diag), DOP_OK);
        cr_assert_eq(dop_sequence_next(s, &diag, &id), DOP_E_INPUT);
        cr_assert(strstr(diag.message, "the logits after position 2 are not finite"), "%s", diag.message);
        memset(&diag, 0, sizeof diag);
        cr_assert_eq(dop_sequence_score(s, ids, 3, no_rows, NULL, &diag), DOP_E_INPUT);
        cr_assert(strstr(diag.message, "the logits after position 3 are not finite"), "%s", diag.message);
        cr_assert_eq(dop_sequence_rewind(s, 0, &diag), DOP_OK);
        dop_step_row rows[2] = {{s, 1, 0}, {s, 2, DOP_WANTS_LOGITS}};
        cr_assert_eq(dop_step_run(s->model, rows, 2, &diag), DOP_E_INPUT);
        rows[1].wants = 0;
        cr_assert_eq(dop_step_run(s->model, rows, 2, &diag), DOP_OK);
        dop_step_commit(s->model);
        close_model(s);
    }
}

/* Opens a changed toy and returns the message. */
static void
expect_refusal(plan_builder *b, dop_status want, const char *part)
{
    dop_diag diag = {0};
    dop_sequence *s = open_plan(b, NULL, &diag);
    cr_assert_null(s, "accepted, expected: %s", part);
    cr_assert_eq(diag.code, want, "%s", diag.message);
    cr_assert(strstr(diag.message, part), "\"%s\" does not say \"%s\"", diag.message, part);
    cr_assert_null(strchr(diag.message, '\n'));
}

Test(sequence, what_the_device_lacks_is_named)
{
    plan_builder b;
    pb_toy(&b);
    dop_plan_kernel *k = PB_AT(&b, KERNELS, dop_plan_kernel, 1), was = *k;
    k->caps = 1u << 20;
    expect_refusal(&b, DOP_E_DEVICE, "capability 20");
    *k = was;
    k->shared_bytes = 1u << 30;
    expect_refusal(&b, DOP_E_DEVICE, "1073741824 bytes of shared memory");
    expect_refusal(&b, DOP_E_DEVICE, "kernel toy_rows");
    *k = was;
    k->subgroup = 128;
    expect_refusal(&b, DOP_E_DEVICE, "subgroups of 128 invocations");
    *k = was;
    PB_AT(&b, DISPATCHES, dop_plan_dispatch, 0)->grid[1] = UINT32_MAX;
    expect_refusal(&b, DOP_E_DEVICE, "workgroups");
    plan_builder_finish(&b);
}

Test(sequence, plan_that_does_not_fit)
{
    plan_builder b;
    pb_toy(&b);
    PB_AT(&b, SLOTS, dop_plan_slot, 1)->size = (uint64_t)1 << 41;
    expect_refusal(&b, DOP_E_DEVICE, "`ctx`");
    plan_builder_finish(&b);
    /* Many slots that fit one by one and not together. */
    pb_toy(&b);
    for (uint32_t i = 0; i < 600; i++) {
        uint32_t slot = pb_slot(&b, DOP_SLOT_STATE, "more", (uint64_t)1 << 30);
        dop_plan_arg *a = PB_AT(&b, ARGS, dop_plan_arg, 0);
        (void)a;
        dop_plan_dispatch *d = PB_AT(&b, DISPATCHES, dop_plan_dispatch, 0);
        dop_plan_dispatch more = *d;
        more.first_arg = pb_arg(&b, 2, 0, sizeof(dop_step));
        pb_arg(&b, slot, 0, 4);
        PB_ROW(&b, DISPATCHES, more);
    }
    dop_plan_schedule *s = PB_AT(&b, SCHEDULES, dop_plan_schedule, 0);
    s->n_dispatches = (uint32_t)(b.sections[DOP_SEC_DISPATCHES].size / sizeof(dop_plan_dispatch));
    expect_refusal(&b, DOP_E_DEVICE,
                   ": choose another `device`"); /* no option of the compiler makes such states smaller */
    plan_builder_finish(&b);
}

Test(sequence, a_later_profile_is_taken_when_the_first_needs_more)
{
    plan_builder b;
    dop_diag diag = {0};
    pb_toy(&b);
    /* Profile 0: a decode schedule whose kernel the device cannot run; profile 1: the toy. */
    dop_plan_profile p = *PB_AT(&b, PROFILES, dop_plan_profile, 0);
    p.name = pb_string(&b, "modest");
    PB_ROW(&b, PROFILES, p);
    for (uint32_t i = 0; i < 4; i++)
        PB_AT(&b, SCHEDULES, dop_plan_schedule, i)->profile = 1;
    dop_plan_kernel k = *PB_AT(&b, KERNELS, dop_plan_kernel, 0);
    k.caps = 1u << 20;
    dop_plan_dispatch d = *PB_AT(&b, DISPATCHES, dop_plan_dispatch, 0);
    d.kernel = PB_ROW(&b, KERNELS, k);
    dop_plan_schedule sched = *PB_AT(&b, SCHEDULES, dop_plan_schedule, 0);
    sched.profile = 0;
    sched.first_dispatch = PB_ROW(&b, DISPATCHES, d);
    sched.n_dispatches = sched.n_body = 1;
    PB_ROW(&b, SCHEDULES, sched);
    dop_sequence *s = open_plan(&b, NULL, &diag);
    cr_assert(s, "%s", diag.message);
    dop_model_info info;
    dop_model_describe(s->model, &info);
    cr_assert_eq(info.profile, 1);
    check_greedy(s, 9, 9);
    close_model(s);
    plan_builder_finish(&b);
}

/* Seconds of work for a step and a tenth of a second as the limit: an error in time. */
Test(sequence, a_device_that_does_not_finish)
{
    static const char slow[] = "#version 460\n"
                               "#extension GL_EXT_buffer_reference : require\n"
                               "layout(local_size_x = 64) in;\n"
                               "layout(buffer_reference, std430) buffer U32 { uint at[]; };\n"
                               "layout(push_constant) uniform P { U32 step; U32 state; };\n"
                               "void main() { uint x = state.at[0];\n"
                               "    for (uint i = 0; i < 20000u; i++) x = x * 1664525u + state.at[x & 63u];\n"
                               "    state.at[64 + gl_LocalInvocationID.x] = x; }\n";
    plan_builder b;
    dop_diag diag = {0};
    uint32_t ids[3] = {1, 2, 3}, id;
    pb_toy(&b);
    /* llvmpipe ends a loop after 65535 rounds: many workgroups are what takes time. */
    PB_AT(&b, DISPATCHES, dop_plan_dispatch, 0)->kernel = pb_kernel(&b, "slow", slow, 64, 2);
    PB_AT(&b, DISPATCHES, dop_plan_dispatch, 0)->grid[0] = 200;
    dop_sequence *s = open_plan(&b, &(dop_open_options){.timeout_s = 0.01, .max_chunk = 1}, &diag);
    cr_assert(s, "%s", diag.message);
    dop_model_info info;
    dop_model_describe(s->model, &info);
    if (!info.device->cpu)
        cr_skip_test("needs a slow device");
    dop_status st = dop_sequence_feed(s, ids, 3, &diag);
    if (st == DOP_OK)
        st = dop_sequence_next(s, &diag, &id);
    cr_assert_eq(st, DOP_E_DEVICE);
    cr_assert(strstr(diag.message, "did not finish within 0.01 seconds"), "%s", diag.message);
    /* Leave no leak behind: what has finished by the time of closing is given back. */
    for (int i = 0; i < 600 && !dop_replay_is_idle(&s->model->replay); i++)
        usleep(100000);
    cr_assert(dop_replay_is_idle(&s->model->replay));
    close_model(s);
    plan_builder_finish(&b);
}

Test(sequence, unknown_device)
{
    plan_builder b;
    dop_diag diag = {0};
    pb_toy(&b);
    dop_sequence *s = open_plan(&b, &(dop_open_options){.device = "no such device"}, &diag);
    cr_assert_null(s);
    cr_assert(strstr(diag.message, "`dop_devices`"), "%s", diag.message);
    memset(&diag, 0, sizeof diag);
    s = open_plan(&b, &(dop_open_options){.device = "99"}, &diag);
    cr_assert_null(s);
    cr_assert(strstr(diag.message, "no device \"99\""), "%s", diag.message);
    plan_builder_finish(&b);
}

Test(sequence, no_vulkan_driver)
{
    plan_builder b;
    dop_diag diag = {0};
    pb_toy(&b);
    setenv("VK_ICD_FILENAMES", "/nonexistent.json", 1);
    setenv("VK_DRIVER_FILES", "/nonexistent.json", 1);
    dop_sequence *s = open_plan(&b, NULL, &diag);
    cr_assert_null(s);
    cr_assert_eq(diag.code, DOP_E_DEVICE);
    cr_assert(strstr(diag.message, "no Vulkan driver was found: install one"), "%s", diag.message);
    plan_builder_finish(&b);
}

Test(sequence, pipeline_cache_is_kept_and_a_damaged_one_ignored)
{
    char dir[] = "/tmp/doppler-test-XXXXXX", command[256], path[512] = "";
    cr_assert(mkdtemp(dir));
    char sub[64];
    snprintf(sub, sizeof sub, "%s/a/b", dir);
    dop_open_options o = {.cache_dir = sub};
    dop_sequence *s = open_toy(&o);
    close_model(s);
    snprintf(command, sizeof command, "ls %s/pipelines-*.bin", sub);
    FILE *f = popen(command, "r");
    cr_assert(fgets(path, sizeof path, f), "no cache was written");
    pclose(f);
    path[strcspn(path, "\n")] = 0;
    for (int damage = 0; damage < 3; damage++) {
        f = fopen(path, "r+b");
        if (damage == 0)
            fputs("garbage", f);
        else if (damage == 1)
            cr_assert_eq(ftruncate(fileno(f), 5), 0);
        else
            fseek(f, 60, SEEK_SET), fputc(0x55, f);
        fclose(f);
        s = open_toy(&o);
        check_greedy(s, 5, 5);
        close_model(s);
    }
    /* An unusable place is no error. */
    o.cache_dir = "/proc/none";
    s = open_toy(&o);
    close_model(s);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    cr_assert_eq(system(command), 0);
}
