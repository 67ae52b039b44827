/* Several sequences of a hand-made plan on a real device: beside each other, forked, copied, cut, kept in files; and what is
 * refused.  Needs runtime/device/device.h's Vulkan device.  Real models: tests/golden/sequences.sh. */
#include "include/doppler/text.h"
#include "runtime/model/model.h"
#include "tests/unit/plan_builder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A sequence and the tokens that it should have. */
typedef struct kept {
    dop_sequence *s;
    uint32_t ids[TOY_CTX + 1], n;
} kept;

static dop_diag diag;

static dop_model *
open_toy(uint32_t n_sequences, bool together)
{
    char path[] = "/tmp/doppler-test-XXXXXX";
    int fd = mkstemp(path);
    plan_builder b;
    dop_buf file;
    dop_model *m = NULL;
    memset(&diag, 0, sizeof diag);
    pb_toy_of(&b, n_sequences);
    if (!together && n_sequences > 1) /* without the schedule for rows of several */
        b.sections[DOP_SEC_SCHEDULES].size -= sizeof(dop_plan_schedule);
    pb_build(&b, &file);
    cr_assert(fd >= 0 && write(fd, file.data, file.size) == (ssize_t)file.size);
    close(fd);
    cr_assert_eq(dop_model_open(path, NULL, &diag, &m), DOP_OK, "%s", diag.message);
    unlink(path);
    dop_buf_finish(&file);
    plan_builder_finish(&b);
    return m;
}

static void
ok(dop_status st)
{
    cr_assert_eq(st, DOP_OK, "%s", diag.message);
}

static void
fails(dop_status st, dop_status want, const char *says)
{
    cr_assert_eq(st, want, "%s: %s", says, diag.message);
    cr_assert(strstr(diag.message, says), "\"%s\" does not say \"%s\"", diag.message, says);
    memset(&diag, 0, sizeof diag);
}

static void
start(dop_model *m, kept *k, uint32_t first, uint32_t n)
{
    ok(dop_sequence_create(m, &diag, &k->s));
    for (k->n = 0; k->n < n; k->n++)
        k->ids[k->n] = (first + k->n * 7) % TOY_VOCAB;
    ok(dop_sequence_feed(k->s, k->ids, n, &diag));
}

static void
check_tokens(const kept *k)
{
    size_t n;
    const uint32_t *ids = dop_sequence_tokens(k->s, &n);
    cr_assert_eq(n, k->n);
    cr_assert_arr_eq(ids, k->ids, n * sizeof *ids);
}

static void
check_next(kept *k)
{
    uint32_t want = toy_argmax(k->ids, k->n);
    ok(dop_sequence_next(k->s, &diag, &k->ids[k->n]));
    cr_assert_eq(k->ids[k->n++], want);
    check_tokens(k);
}

static void
check_row(const dop_model *m, uint32_t row, const uint32_t *ids, uint32_t n)
{
    float want[TOY_VOCAB];
    toy_logits(ids, n, want);
    const float *got = dop_step_logits(m, row);
    cr_assert(got);
    cr_assert_arr_eq(got, want, sizeof want);
}

Test(sequences, each_as_if_alone)
{
    dop_model *m = open_toy(3, true);
    kept k[3];
    dop_facts facts;
    dop_model_facts(m, &facts);
    cr_assert_eq(facts.n_sequences, 3);
    cr_assert_eq(facts.vocab, TOY_VOCAB);
    for (uint32_t i = 0; i < 3; i++)
        start(m, &k[i], i * 5, 3 + i * 11);
    for (uint32_t round = 0; round < 40; round++)
        check_next(&k[round * 7 % 5 % 3]);
    /* A place that is free again is empty. */
    dop_sequence_destroy(k[1].s);
    start(m, &k[1], 9, 1);
    for (uint32_t round = 0; round < 12; round++)
        check_next(&k[round % 3]);
    dop_sequence_destroy(k[0].s); /* the one that runs is closed with the model */
    check_next(&k[2]);
    dop_model_close(m);
}

/* Rows of three sequences, mixed, of which every third step is rolled back; by a schedule for that, and one by one. */
static void
steps(bool together)
{
    dop_model *m = open_toy(3, together);
    kept k[3];
    uint32_t x = 5;
    cr_assert_eq(dop_model_max_rows_of_several(m), together ? 4 : 1);
    for (uint32_t i = 0; i < 3; i++)
        start(m, &k[i], i * 9, 1 + i);
    for (uint32_t round = 0; round < 30; round++) {
        dop_step_row rows[4];
        uint32_t n = 1 + round % 4, more[3] = {0}, of[4], at[4];
        for (uint32_t i = 0; i < n; i++) {
            x = x * 1664525 + 1013904223;
            of[i] = (x >> 16) % 3;
            at[i] = k[of[i]].n + more[of[i]]++;
            rows[i] = (dop_step_row){k[of[i]].s, (x >> 8) % TOY_VOCAB, round % 4 == 3 ? 0 : (x >> 20) % 4};
            k[of[i]].ids[at[i]] = rows[i].token;
        }
        ok(dop_step_run(m, rows, n, &diag));
        for (uint32_t i = 0; i < n; i++) {
            if (rows[i].wants & DOP_WANTS_LOGITS)
                check_row(m, i, k[of[i]].ids, at[i] + 1);
            uint32_t want = rows[i].wants & DOP_WANTS_PICK ? toy_argmax(k[of[i]].ids, at[i] + 1) : UINT32_MAX;
            cr_assert_eq(dop_step_pick(m, i), want);
        }
        if (round % 3 == 2)
            dop_step_rollback(m);
        else
            dop_step_commit(m);
        for (uint32_t i = 0; i < 3; i++) {
            k[i].n += round % 3 == 2 ? 0 : more[i];
            check_tokens(&k[i]);
        }
        if (round % 5 == 4)
            check_next(&k[round % 3]);
    }
    dop_model_close(m);
}

Test(sequences, steps_of_several_together)
{
    steps(true);
}

Test(sequences, steps_of_several_one_by_one)
{
    steps(false);
}

Test(sequences, fork_copy_and_cut)
{
    dop_model *m = open_toy(3, true);
    kept a, b, c;
    start(m, &a, 1, 20);
    check_next(&a);
    b = a;
    ok(dop_sequence_fork(a.s, &diag, &b.s));
    check_tokens(&b);
    for (uint32_t i = 0; i < 6; i++) {
        check_next(&b);
        ok(dop_sequence_feed(a.s, &(uint32_t){i}, 1, &diag));
        a.ids[a.n++] = i;
    }
    check_next(&a);
    start(m, &c, 30, 50);
    ok(dop_sequence_copy(c.s, b.s, &diag));
    memcpy(c.ids, b.ids, sizeof c.ids);
    c.n = b.n;
    check_next(&c);
    check_next(&b);
    ok(dop_sequence_copy(b.s, b.s, &diag));
    check_next(&b);
    /* What follows a hole has other positions, and is fed again. */
    ok(dop_sequence_cut(a.s, 3, 9, &diag));
    memmove(a.ids + 3, a.ids + 12, (a.n - 12) * sizeof *a.ids);
    a.n -= 9;
    check_tokens(&a);
    check_next(&a);
    ok(dop_sequence_cut(a.s, 0, 5, &diag));
    memmove(a.ids, a.ids + 5, (a.n - 5) * sizeof *a.ids);
    a.n -= 5;
    check_next(&a);
    ok(dop_sequence_cut(a.s, a.n, 0, &diag));
    ok(dop_sequence_cut(a.s, 0, a.n, &diag));
    a.n = 0;
    check_tokens(&a);
    dop_model_close(m);
}

/* Errors are values, and nothing is changed by them. */
Test(sequences, what_is_refused)
{
    dop_model *m = open_toy(2, true), *other = open_toy(1, true);
    kept a, b, o;
    dop_sequence *none = NULL, *dead;
    start(m, &a, 1, 100);
    start(m, &b, 2, 3);
    start(other, &o, 3, 3);
    fails(dop_sequence_create(m, &diag, &none), DOP_E_INPUT, "holds 2 sequences at a time");
    fails(dop_sequence_fork(a.s, &diag, &none), DOP_E_INPUT, "holds 2 sequences at a time");
    fails(dop_sequence_create(other, &diag, &none), DOP_E_INPUT, "one sequence at a time");
    cr_assert_null(none);
    fails(dop_sequence_copy(a.s, o.s, &diag), DOP_E_INPUT, "of another model");
    fails(dop_sequence_rewind(b.s, 4, &diag), DOP_E_INPUT, "cannot be rewound to 4");
    fails(dop_sequence_cut(b.s, 2, 2, &diag), DOP_E_INPUT, "2 from 2 on cannot be cut");
    fails(dop_sequence_cut(b.s, 0, 4, &diag), DOP_E_INPUT, "cannot be cut");
    dead = b.s;
    dop_sequence_destroy(b.s);
    const struct {
        dop_step_row row;
        uint32_t n;
        const char *says;
    } cases[] = {
        {{o.s, 1, 0}, 2, "row 1 is of no sequence of this model"},
        {{dead, 1, 0}, 2, "row 1 is of no sequence of this model"},
        {{a.s, TOY_VOCAB, 0}, 2, "token id 64 is outside"},
        {{a.s, 1, 0}, 29, "do not fit the plan's context"},
        {{a.s, 1, 0}, 33, "take at most 32"},
        {{a.s, 1, 0}, DOP_STEP_MAX_ROWS + 1, "4096 is the most"},
    };
    static dop_step_row rows[DOP_STEP_MAX_ROWS + 1];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (uint32_t k = 0; k < cases[i].n; k++)
            rows[k] = k == 1 ? cases[i].row : (dop_step_row){a.s, 1, 0};
        fails(dop_step_run(m, rows, cases[i].n, &diag), DOP_E_INPUT, cases[i].says);
        check_tokens(&a);
    }
    start(m, &b, 2, 3);
    for (uint32_t k = 0; k < 5; k++)
        rows[k] = (dop_step_row){k % 2 ? a.s : b.s, 1, 0};
    fails(dop_step_run(m, rows, 5, &diag), DOP_E_INPUT,
          "5 rows of several sequences: this plan's schedules take at most 4");
    ok(dop_step_run(m, rows, 4, &diag));
    fails(dop_sequence_fork(a.s, &diag, &none), DOP_E_USAGE, "neither committed nor rolled back");
    fails(dop_sequence_copy(a.s, b.s, &diag), DOP_E_USAGE, "neither committed nor rolled back");
    fails(dop_sequence_cut(a.s, 0, 1, &diag), DOP_E_USAGE, "neither committed nor rolled back");
    fails(dop_sequence_save(a.s, "/tmp/doppler-test-none", NULL, 0, &diag), DOP_E_USAGE,
          "neither committed nor rolled back");
    uint32_t id;
    fails(dop_step_sample(m, 0, &diag, &id), DOP_E_INPUT, "has no logits to pick from");
    dop_sequence_destroy(b.s); /* the step goes with it */
    check_next(&a);
    dop_model_close(m);
    dop_model_close(other);
}

static dop_status
second_best(void *user, const float *logits, uint32_t vocab, const uint32_t *tokens, size_t n, dop_diag *d,
            uint32_t *out_id)
{
    uint32_t *calls = user, best = 0, second = UINT32_MAX;
    (void)tokens;
    if (++*calls == 5)
        return DOP_FAIL(d, DOP_E_IO, "no more after %zu tokens", n);
    if (*calls == 7) {
        *out_id = vocab;
        return DOP_OK;
    }
    for (uint32_t i = 1; i < vocab; i++)
        best = logits[i] > logits[best] ? i : best;
    for (uint32_t i = 0; i < vocab; i++)
        if (i != best && (second == UINT32_MAX || logits[i] > logits[second]))
            second = i;
    *out_id = second;
    return DOP_OK;
}

Test(sequences, a_sampler_of_ones_own)
{
    dop_model *m = open_toy(2, true);
    kept a;
    uint32_t calls = 0, id;
    start(m, &a, 1, 4);
    dop_sequence_set_sampler(a.s, second_best, &calls);
    for (uint32_t i = 0; i < 8; i++) {
        float logits[TOY_VOCAB];
        if (calls == 4)
            fails(dop_sequence_next(a.s, &diag, &id), DOP_E_IO, "no more after 8 tokens");
        if (calls == 6)
            fails(dop_sequence_next(a.s, &diag, &id), DOP_E_INPUT, "the sampler gave token id 64");
        toy_logits(a.ids, a.n, logits);
        logits[toy_argmax(a.ids, a.n)] = -100;
        ok(dop_sequence_next(a.s, &diag, &id));
        for (uint32_t k = 0; k < TOY_VOCAB; k++)
            cr_assert(logits[k] <= logits[id]);
        a.ids[a.n++] = id;
        check_tokens(&a);
    }
    /* In a step too, and back to the model's own way. */
    dop_step_row row = {a.s, 3, DOP_WANTS_LOGITS};
    a.ids[a.n] = 3;
    ok(dop_step_run(m, &row, 1, &diag));
    ok(dop_step_sample(m, 0, &diag, &id));
    cr_assert_neq(id, toy_argmax(a.ids, a.n + 1));
    dop_sequence_set_sampler(a.s, NULL, NULL);
    ok(dop_step_sample(m, 0, &diag, &id));
    cr_assert_eq(id, toy_argmax(a.ids, a.n + 1));
    dop_step_commit(m);
    a.n++;
    check_next(&a);
    dop_model_close(m);
}

/* --- pages, without a device -------------------------------------------------------------------------------------------- */

/* Feeds so many tokens more to the sequence at a place; tells whether there were pages enough. */
static bool
grow(dop_pages *p, uint32_t place, uint32_t from, uint32_t to)
{
    if (dop_pages_missing(p, place, from, to) > dop_pages_available(p))
        return false;
    for (uint32_t i = from / p->page, old; i <= (to - 1) / p->page; i++)
        dop_pages_own(p, place, i, &old);
    return true;
}

Test(sequences, pages_come_and_go)
{
    const dop_plan_model model = {.ctx = 16, .n_sequences = 3, .page = 4, .n_pages = 6};
    uint32_t device[3 * 4] = {0}, a[16], b[16], old;
    dop_pages p;
    for (uint32_t i = 0; i < 16; i++) {
        a[i] = i;
        b[i] = i < 4 ? i : 100 + i;
    }
    ok(dop_pages_init(&model, device, &diag, &p));
    cr_assert(grow(&p, 0, 0, 13) && dop_pages_available(&p) == 2);
    cr_assert(!grow(&p, 1, 0, 12) && p.of[1].n == 0, "three pages of two");
    /* A fork has the same pages until it writes. */
    dop_pages_share(&p, 0, 1, 13);
    cr_assert(dop_pages_available(&p) == 2 && memcmp(device, device + 4, sizeof *device * 4) == 0);
    dop_pages_own(&p, 1, 3, &old);
    cr_assert(old == device[3] && device[7] != old && dop_pages_available(&p) == 1);
    dop_pages_keep(&p, 1, 0);
    cr_assert_eq(dop_pages_available(&p), 2);
    /* What is let go is found again, but for the last page, which is not full, and for another text. */
    dop_pages_note(&p, 0, 0, a, 13);
    const uint32_t second = device[1];
    dop_pages_keep(&p, 0, 0);
    cr_assert_eq(dop_pages_available(&p), 6);
    cr_assert_eq(dop_pages_find(&p, 1, 0, a, 15), 12);
    cr_assert_eq(device[5], second);
    cr_assert_eq(dop_pages_find(&p, 2, 0, b, 15), 4);
    cr_assert_eq(dop_pages_find(&p, 0, 0, b + 1, 15), 0);
    cr_assert_eq(dop_pages_find(&p, 0, 9, a, 15), 0); /* another adapter */
    cr_assert_eq(p.reused, 16);
    dop_pages_keep(&p, 1, 0);
    dop_pages_keep(&p, 2, 0);
    /* The same text in pages of its own: those that are known take their place. */
    cr_assert(grow(&p, 0, 0, 8) && dop_pages_available(&p) == 4);
    dop_pages_note(&p, 0, 0, a, 8);
    cr_assert(device[1] == second && dop_pages_available(&p) == 4);
    /* Pages that are not known are taken first, then the end of what is known. */
    cr_assert(grow(&p, 1, 0, 16) && dop_pages_available(&p) == 0);
    dop_pages_keep(&p, 1, 0);
    dop_pages_keep(&p, 0, 0);
    cr_assert_eq(dop_pages_find(&p, 2, 0, a, 15), 8);
    /* What is written again is not what it was. */
    dop_pages_own(&p, 2, 1, &old);
    cr_assert_eq(old, UINT32_MAX);
    dop_pages_keep(&p, 2, 0);
    cr_assert_eq(dop_pages_find(&p, 0, 0, a, 15), 4);
    dop_pages_keep(&p, 0, 0);
    cr_assert_eq(dop_pages_available(&p), 6);
    dop_pages_finish(&p);
}

/* Rows of an image are known by its digest, not by their tokens. */
Test(sequences, keys_of_a_prefix)
{
    uint32_t ids[8] = {1, 2, 9, 9, 9, 3, 4, 5};
    dop_prefix p = {0}, q = {0};
    cr_assert(dop_prefix_keys(&p, ids, 8) == ids, "tokens are keys");
    ok(dop_prefix_set(&p, 7, (dop_prefix_mark[]){{.pos = 2, .n = 3, .digest = {5, 6}}}, 1, &diag));
    ok(dop_prefix_copy(&q, &p, &diag));
    const uint32_t *a = dop_prefix_keys(&p, ids, 8), *b = dop_prefix_keys(&q, ids, 8);
    cr_assert(q.seed == 7 && dop_prefix_same(a, b, 8) == 8 && a[2] != 9 && a[2] != a[3] && a[2] >= 1u << 31);
    q.marks[0].digest[1]++;
    b = dop_prefix_keys(&q, ids, 8);
    cr_assert(dop_prefix_same(a, b, 8) == 2 && a[5] == 3 && b[7] == 5, "another image");
    dop_prefix_cut(&p, 0, 1);
    const uint32_t first = a[2];
    a = dop_prefix_keys(&p, ids + 1, 7);
    cr_assert(a[0] == 2 && a[1] == first && a[4] == 3, "it moves up");
    dop_prefix_rewind(&p, 3);
    cr_assert(p.n_marks == 1 && p.marks[0].n == 2);
    dop_prefix_rewind(&p, 1);
    cr_assert_eq(p.n_marks, 0);
    dop_prefix_finish(&p);
    dop_prefix_finish(&q);
}

/* --- files ------------------------------------------------------------------------------------------------------------ */

static void
rewrite(const char *path, const uint8_t *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
}

Test(sequences, saved_and_restored)
{
    dop_model *m = open_toy(2, true), *one = open_toy(1, true), *again = open_toy(2, true);
    char path[] = "/tmp/doppler-test-XXXXXX";
    kept a, b, c, o;
    cr_assert(close(mkstemp(path)) == 0);
    start(m, &a, 1, 31);
    check_next(&a);
    b = a;
    ok(dop_sequence_save(a.s, path, "a note", 6, &diag));
    for (uint32_t i = 0; i < 5; i++)
        check_next(&a);
    ok(dop_sequence_create(m, &diag, &b.s));
    ok(dop_sequence_feed(b.s, (uint32_t[]){9, 9, 9}, 3, &diag));
    ok(dop_sequence_load(b.s, path, &diag, NULL, NULL));
    check_next(&b);
    check_next(&b);
    /* In another process, as it were. */
    start(again, &c, 8, 8);
    char *note;
    size_t n_note;
    ok(dop_sequence_load(c.s, path, &diag, &note, &n_note));
    cr_assert(n_note == 6 && strcmp(note, "a note") == 0);
    dop_free(note);
    memcpy(c.ids, a.ids, sizeof c.ids);
    c.n = 32;
    check_next(&c);

    dop_map map;
    ok(dop_map_open(path, &diag, &map));
    uint8_t *bytes = malloc(map.size);
    size_t size = map.size;
    memcpy(bytes, map.data, size);
    dop_map_close(&map);
    start(one, &o, 3, 3);
    fails(dop_sequence_save(o.s, path, NULL, 0, &diag), DOP_E_INPUT, "does not list its states");
    fails(dop_sequence_load(b.s, "/nonexistent/file", &diag, NULL, NULL), DOP_E_IO, "cannot open");
    for (size_t n = 0; n < size; n += n < 80 ? 13 : 97) {
        rewrite(path, bytes, n);
        fails(dop_sequence_load(b.s, path, &diag, NULL, NULL), DOP_E_INPUT,
              n < 96 ? "not a saved sequence" : "cut short");
        check_tokens(&b);
    }
    for (size_t at = 0; at < size; at += 41) {
        bytes[at] ^= 0x10;
        rewrite(path, bytes, size);
        cr_assert_eq(dop_sequence_load(b.s, path, &diag, NULL, NULL), DOP_E_INPUT);
        memset(&diag, 0, sizeof diag);
        bytes[at] ^= 0x10;
    }
    rewrite(path, bytes, size);
    check_next(&b);
    ok(dop_sequence_load(b.s, path, &diag, NULL, NULL));
    dop_model_close(again);
    dop_model_close(one);
    dop_model_close(m);
    free(bytes);
    unlink(path);
}

Test(sequences, files_of_others)
{
    dop_model *two = open_toy(2, true), *three = open_toy(3, true);
    char path[] = "/tmp/doppler-test-XXXXXX";
    kept a, b;
    cr_assert(close(mkstemp(path)) == 0);
    start(two, &a, 1, 9);
    start(three, &b, 2, 4);
    ok(dop_sequence_save(a.s, path, NULL, 0, &diag));
    fails(dop_sequence_load(b.s, path, &diag, NULL, NULL), DOP_E_INPUT, "of another plan");
    check_next(&b);
    dop_map map;
    ok(dop_map_open(path, &diag, &map));
    uint8_t bytes[256];
    size_t size = map.size;
    cr_assert(size <= sizeof bytes);
    /* As it would be if somebody had made it so: digests that fit, and contents that do not. */
    const struct {
        size_t at;
        uint32_t value;
        const char *says;
    } cases[] = {
        {8, 1, "saved in version 1"},         {16, 200, "9 with states"},
        {24, 10, "9 tokens, 10 with states"}, {56, 1, "another of the plan's targets"},
        {88, TOY_VOCAB, "token id 64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        memcpy(bytes, map.data, size);
        memcpy(bytes + cases[i].at, &cases[i].value, sizeof cases[i].value);
        uint64_t digest = dop_plan_digest(bytes, size - sizeof digest);
        memcpy(bytes + size - sizeof digest, &digest, sizeof digest);
        char changed[] = "/tmp/doppler-test-XXXXXX";
        cr_assert(close(mkstemp(changed)) == 0);
        rewrite(changed, bytes, size);
        fails(dop_sequence_load(a.s, changed, &diag, NULL, NULL), DOP_E_INPUT, cases[i].says);
        check_tokens(&a);
        unlink(changed);
    }
    check_next(&a);
    dop_map_close(&map);
    dop_model_close(two);
    dop_model_close(three);
    unlink(path);
}

/* Rows of section STATES that are not what they should be. */
Test(sequences, states_that_leave_their_slot)
{
    const struct {
        size_t at;
        uint64_t value;
        const char *says;
    } cases[] = {
        {offsetof(dop_plan_state, slot), 9, "which is none for states"},
        {offsetof(dop_plan_state, slot), 0, "which is none for states"},
        {offsetof(dop_plan_state, rows), 0, "0 rows"},
        {offsetof(dop_plan_state, row_bytes), 2, "rows of 2 bytes"},
        {offsetof(dop_plan_state, paged), 1, "leaves the pages of its pool"},
        {offsetof(dop_plan_state, paged), 2, "leaves the pages of its pool"},
        {offsetof(dop_plan_state, offset), 4, "leaves its slot"},
        {offsetof(dop_plan_state, sequence_stride), 4, "leaves its slot"},
        {offsetof(dop_plan_state, sequence_stride), (uint64_t)1 << 62, "leaves its slot"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        plan_builder b;
        dop_buf file;
        dop_plan plan;
        memset(&diag, 0, sizeof diag);
        pb_toy_of(&b, 2);
        uint8_t *row = (uint8_t *)PB_AT(&b, STATES, dop_plan_state, 0) + cases[i].at;
        memcpy(row, &cases[i].value, cases[i].at < offsetof(dop_plan_state, offset) ? 4 : 8);
        pb_build(&b, &file);
        uint8_t *data = aligned_alloc(16, (file.size + 15) / 16 * 16);
        cr_assert(data);
        memcpy(data, file.data, file.size);
        fails(dop_plan_open_memory(data, file.size, &diag, &plan), DOP_E_INPUT, cases[i].says);
        free(data);
        dop_buf_finish(&file);
        plan_builder_finish(&b);
    }
}

/* Whatever a diagnostic held before, a call leaves its own failure in it, or none. */
Test(diagnostic, a_diagnostic_serves_for_many_calls)
{
    dop_model *m = open_toy(1, false);
    dop_sequence *s;
    dop_text *text;
    uint32_t ids[TOY_CTX + 1], id;
    for (uint32_t i = 0; i <= TOY_CTX; i++)
        ids[i] = (i * 7 + 3) % TOY_VOCAB;
    cr_assert_eq(dop_sequence_create(m, &diag, &s), DOP_OK, "%s", diag.message);
    memset(&diag, 0x5a, sizeof diag);
    cr_assert_eq(dop_sequence_rewind(s, 7, &diag), diag.code);
    cr_assert(diag.code != DOP_OK && strlen(diag.message) > 0 && !diag.path[0] && diag.line == 0);
    char first[sizeof diag.message];
    snprintf(first, sizeof first, "%s", diag.message);
    cr_assert_eq(dop_sequence_feed(s, ids, TOY_CTX + 1, &diag), DOP_E_INPUT);
    cr_assert(strstr(diag.message, "do not fit"), "%s", diag.message);
    cr_assert_str_neq(diag.message, first);
    cr_assert_eq(dop_text_open("/nowhere/one.plan", &diag, &text), DOP_E_IO);
    cr_assert_str_eq(diag.path, "/nowhere/one.plan");
    cr_assert_eq(dop_text_open("/nowhere/two.plan", &diag, &text), DOP_E_IO);
    cr_assert_str_eq(diag.path, "/nowhere/two.plan");
    cr_assert_eq(dop_sequence_feed(s, ids, 3, &diag), DOP_OK);
    cr_assert(diag.code == DOP_OK && !diag.message[0] && !diag.path[0], "%s", diag.message);
    cr_assert_eq(dop_sequence_rewind(s, 100, &diag), diag.code);
    cr_assert_neq(diag.code, DOP_OK);
    cr_assert_eq(dop_sequence_next(s, &diag, &id), DOP_OK, "%s", diag.message);
    cr_assert(diag.code == DOP_OK && !diag.message[0], "%s", diag.message);
    cr_assert_neq(dop_sequence_rewind(s, 100, NULL), DOP_OK); /* no message is wanted */
    dop_model_close(m);
}
