/* A model whose steps go through several ranks, here threads with memory between them (runtime/parts/lead/wire.h); orders as
 * messages.  Every rank has all of a hand-made plan, and what the last one makes counts: so everything that rank 0 does to
 * its sequences must have been done there too.  Needs runtime/device/device.h's Vulkan device.  Real parts: tests/golden/ranks.sh. */
#include "plan/chunks.h"
#include "runtime/parts/lead/ranks.h"
#include "runtime/step/step_rows.h"
#include "tests/unit/plan_builder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 3, LANES = 3, QUEUE = 256 };

/* --- memory as a wire ------------------------------------------------------------------------------------------------ */

typedef struct message {
    uint8_t *bytes;
    size_t size;
} message;

typedef struct queue {
    message rows[QUEUE];
    uint32_t first, n;
    uint8_t *last; /* what the receiver has */
} queue;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    queue queues[RANKS][RANKS][LANES]; /* [from][to] */
    bool failed;
    dop_diag why;
    uint64_t sent;
} net = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

typedef struct end {
    dop_wire wire;
    pthread_t thread;
    dop_status st;
    dop_diag diag;
} end;
static end ends[RANKS];

static dop_status
mem_send(void *user, uint32_t to, dop_wire_lane lane, const void *bytes, size_t size, dop_diag *d)
{
    const dop_wire *w = user;
    (void)d;
    cr_assert(size <= DOP_WIRE_MOST && to < w->n);
    pthread_mutex_lock(&net.lock);
    queue *q = &net.queues[w->rank][to][lane];
    while (q->n == QUEUE && !net.failed)
        pthread_cond_wait(&net.changed, &net.lock);
    message *m = &q->rows[(q->first + q->n++) % QUEUE];
    m->bytes = aligned_alloc(16, dop_align_u64(size + 1, 16));
    m->size = size;
    memcpy(m->bytes, bytes, size);
    net.sent++;
    pthread_cond_broadcast(&net.changed);
    pthread_mutex_unlock(&net.lock);
    return DOP_OK;
}

static dop_status
mem_receive(void *user, uint32_t from, dop_wire_lane lane, dop_diag *d, const uint8_t **out_bytes, size_t *out_size)
{
    const dop_wire *w = user;
    dop_status st = DOP_OK;
    pthread_mutex_lock(&net.lock);
    queue *q = &net.queues[from][w->rank][lane];
    while (q->n == 0 && !(net.failed && w->rank == 0))
        pthread_cond_wait(&net.changed, &net.lock);
    if (q->n == 0) {
        st = DOP_FAIL(d, net.why.code, "%s", net.why.message);
    } else {
        free(q->last);
        q->last = q->rows[q->first].bytes;
        *out_bytes = q->last;
        *out_size = q->rows[q->first].size;
        q->first = (q->first + 1) % QUEUE;
        q->n--;
    }
    pthread_cond_broadcast(&net.changed);
    pthread_mutex_unlock(&net.lock);
    return st;
}

static bool
mem_ready(void *user, uint32_t from, dop_wire_lane lane)
{
    const dop_wire *w = user;
    pthread_mutex_lock(&net.lock);
    const bool there = net.queues[from][w->rank][lane].n > 0;
    pthread_mutex_unlock(&net.lock);
    return there;
}

static void
mem_fail(void *user, const dop_diag *d)
{
    (void)user;
    pthread_mutex_lock(&net.lock);
    net.failed = true;
    net.why = *d;
    pthread_cond_broadcast(&net.changed);
    pthread_mutex_unlock(&net.lock);
}

static void
mem_describe(void *user, uint32_t rank, char *out, size_t cap)
{
    (void)user;
    snprintf(out, cap, "rank %u", rank);
}

static void *
follow(void *user)
{
    static const dop_open_options options;
    end *e = user;
    e->st = dop_ranks_follow(&e->wire, &options, &e->diag);
    return NULL;
}

/* --- models ---------------------------------------------------------------------------------------------------------- */

static dop_diag diag;
static char path[] = "/tmp/doppler-ranks-XXXXXX";

static void
ok(dop_status st)
{
    cr_assert_eq(st, DOP_OK, "%s", diag.message);
}

static void
write_toy(uint32_t n_sequences)
{
    plan_builder b;
    dop_buf file;
    int fd = mkstemp(path);
    pb_toy_of(&b, n_sequences);
    pb_build(&b, &file);
    cr_assert(fd >= 0 && write(fd, file.data, file.size) == (ssize_t)file.size);
    close(fd);
    dop_buf_finish(&file);
    plan_builder_finish(&b);
}

static void
start_ranks(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        ends[i].wire = (dop_wire){.rank = i,
                                  .n = n,
                                  .local = i,
                                  .twins = true,
                                  .user = &ends[i].wire,
                                  .send = mem_send,
                                  .receive = mem_receive,
                                  .ready = mem_ready,
                                  .fail = mem_fail,
                                  .describe = mem_describe};
        if (i > 0)
            cr_assert_eq(pthread_create(&ends[i].thread, NULL, follow, &ends[i]), 0);
    }
}

static dop_model *
open_ranks(uint32_t n)
{
    dop_model *m = NULL;
    memset(&diag, 0, sizeof diag);
    start_ranks(n);
    ok(dop_model_open(path, &(dop_open_options){.wire = &ends[0].wire}, &diag, &m));
    return m;
}

static void
end_ranks(uint32_t n)
{
    dop_ranks_dismiss(&ends[0].wire);
    for (uint32_t i = 1; i < n; i++) {
        pthread_join(ends[i].thread, NULL);
        cr_assert_eq(ends[i].st, DOP_OK, "%s", ends[i].diag.message);
    }
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = 0; b < n; b++)
            for (uint32_t l = 0; l < LANES; l++) {
                cr_assert_eq(net.queues[a][b][l].n, 0, "%u to %u, lane %u: not received", a, b, l);
                free(net.queues[a][b][l].last);
                net.queues[a][b][l].last = NULL;
            }
    unlink(path);
}

/* Some greedy tokens, which must be those of the toy's formula. */
static void
go_on(dop_sequence *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        size_t n_tokens;
        uint32_t id;
        const uint32_t *tokens = dop_sequence_tokens(s, &n_tokens);
        const uint32_t want = toy_argmax(tokens, n_tokens);
        ok(dop_sequence_next(s, &diag, &id));
        cr_assert_eq(id, want, "token %zu: %u instead of %u", n_tokens, id, want);
    }
}

static void
feed(dop_sequence *s, uint32_t n, uint32_t seed)
{
    uint32_t ids[TOY_CTX];
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (seed * 31 + i * 7) % TOY_VOCAB;
    ok(dop_sequence_feed(s, ids, n, &diag));
}

static dop_status
check_row(void *user, size_t first, size_t n, const float *rows, dop_diag *d)
{
    const uint32_t *tokens = user;
    (void)d;
    for (size_t i = 0; i < n; i++) {
        float want[TOY_VOCAB];
        toy_logits(tokens, first + i + 1, want);
        cr_assert_arr_eq(rows + i * TOY_VOCAB, want, sizeof want);
    }
    return DOP_OK;
}

Test(ranks, one_sequence)
{
    dop_sequence *s;
    uint32_t ids[50];
    char file[] = "/tmp/doppler-ranks-saved-XXXXXX";
    write_toy(2);
    dop_model *m = open_ranks(2);
    ok(dop_sequence_create(m, &diag, &s));
    feed(s, 43, 1); /* in pieces: those before the last one are waited for here only */
    go_on(s, 20);
    ok(dop_sequence_rewind(s, 30, &diag));
    go_on(s, 5);
    ok(dop_sequence_cut(s, 3, 4, &diag));
    go_on(s, 5);
    close(mkstemp(file));
    ok(dop_sequence_save(s, file, NULL, 0, &diag));
    go_on(s, 2);
    ok(dop_sequence_rewind(s, 0, &diag));
    for (uint32_t i = 0; i < 50; i++)
        ids[i] = i * 11 % TOY_VOCAB;
    ok(dop_sequence_score(s, ids, 50, check_row, ids, &diag));
    ok(dop_sequence_load(s, file, &diag, NULL, NULL));
    unlink(file);
    go_on(s, 5);
    dop_model_close(m);
    end_ranks(2);
}

/* Two groups of sequences in turn, with a step of each under way. */
static void
go_on_in_groups(dop_model *m, dop_sequence *const s[4], uint32_t rounds)
{
    dop_step_row rows[4];
    cr_assert_eq(dop_step_groups(m, 4), RANKS);
    for (uint32_t i = 0; i < 4; i++)
        rows[i] = (dop_step_row){s[i], i + 1, DOP_WANTS_PICK};
    for (uint32_t g = 0; g < 2; g++)
        ok(dop_step_start(m, rows + 2 * g, 2, &diag));
    cr_assert_eq(dop_step_start(m, rows, 2, &diag), DOP_E_USAGE, "a sequence in two steps");
    memset(&diag, 0, sizeof diag);
    cr_assert_eq(dop_sequence_rewind(s[3], 0, &diag), DOP_E_USAGE);
    memset(&diag, 0, sizeof diag);
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t g = 0; g < 2; g++) {
            ok(dop_step_end(m, &diag));
            const uint32_t picks[2] = {dop_step_pick(m, 0), dop_step_pick(m, 1)};
            dop_step_commit(m);
            for (uint32_t i = 0; i < 2; i++) {
                size_t n;
                const uint32_t *tokens = dop_sequence_tokens(s[2 * g + i], &n);
                cr_assert_eq(picks[i], toy_argmax(tokens, n));
                rows[2 * g + i].token = picks[i];
            }
            if (round + 1 < rounds)
                ok(dop_step_start(m, rows + 2 * g, 2, &diag));
        }
    cr_assert_eq(dop_step_end(m, &diag), DOP_E_USAGE);
    memset(&diag, 0, sizeof diag);
}

/* Rows of two sequences and a chunk of a prompt are under way at once, and a third one begins anew meanwhile. */
static void
read_in_groups(dop_model *m, dop_sequence *const s[4])
{
    dop_step_row two[2] = {{s[0], 4, DOP_WANTS_PICK}, {s[1], 9, DOP_WANTS_LOGITS}};
    ok(dop_step_start(m, two, 2, &diag));
    ok(dop_sequence_rewind(s[3], 0, &diag));
    ok(dop_sequence_copy(s[3], s[2], &diag));
    cr_assert_eq(dop_sequence_copy(s[3], s[0], &diag), DOP_E_USAGE);
    memset(&diag, 0, sizeof diag);
    dop_step_row chunk[5];
    for (uint32_t i = 0; i < 5; i++)
        chunk[i] = (dop_step_row){s[3], 3 * i, i == 4 ? DOP_WANTS_PICK : 0};
    ok(dop_step_start(m, chunk, 5, &diag));
    cr_assert_eq(dop_sequence_feed(s[2], (uint32_t[]){1}, 1, &diag), DOP_E_USAGE);
    memset(&diag, 0, sizeof diag);
    dop_step_row one = {s[2], 6, DOP_WANTS_PICK};
    ok(dop_step_start(m, &one, 1, &diag));
    for (uint32_t i = 0; i < 4; i++) {
        size_t n;
        if (i == 0 || i > 1)
            ok(dop_step_end(m, &diag));
        const uint32_t row = i == 0 ? 0 : i == 1 ? 1 : i == 2 ? 4 : 0;
        const uint32_t pick = dop_step_pick(m, row);
        const float *logits = dop_step_logits(m, row);
        const uint32_t found = logits ? dop_logits_largest(logits, TOY_VOCAB) : pick;
        if (i > 0)
            dop_step_commit(m);
        const uint32_t *tokens = dop_sequence_tokens(s[i == 2 ? 3 : i == 3 ? 2 : i], &n);
        uint32_t all[TOY_CTX + 1];
        memcpy(all, tokens, n * sizeof *all);
        if (i == 0)
            all[n++] = two[0].token;
        cr_assert_eq(found, toy_argmax(all, n), "step %u", i);
    }
}

static const dop_chunk_costs gpu_costs = {40, 128, 512, 12}; /* of nvidia-hopper */

/* Room without tokens costs nothing beyond a tile; a larger step costs more, but less than two that have as many tokens. */
Test(ranks, times_of_chunks)
{
    cr_assert_eq(dop_chunks_time(&gpu_costs, 512, 100), dop_chunks_time(&gpu_costs, 128, 128));
    cr_assert_eq(dop_chunks_time(&gpu_costs, 64, 33), dop_chunks_time(&gpu_costs, 64, 64));
    cr_assert_lt(dop_chunks_time(&gpu_costs, 512, 100),
                 dop_chunks_time(&gpu_costs, 64, 64) + dop_chunks_time(&gpu_costs, 64, 36));
    cr_assert_lt(dop_chunks_time(&gpu_costs, 512, 512) + dop_chunks_time(&gpu_costs, 16, 8),
                 dop_chunks_time(&gpu_costs, 1024, 1024));
    cr_assert_lt(dop_chunks_time(NULL, 8, 8) + dop_chunks_time(NULL, 8, 4), dop_chunks_time(NULL, 64, 12));
    cr_assert_lt(dop_chunks_time(NULL, 64, 17), dop_chunks_time(NULL, 8, 8) + dop_chunks_time(NULL, 64, 9));
    for (uint32_t n = 1; n < 3000; n++)
        for (int i = 0; i < 2; i++) {
            const dop_chunk_costs *costs = i ? &gpu_costs : NULL;
            cr_assert(dop_chunks_time(costs, 4096, n) <= dop_chunks_time(costs, 4096, n + 1), "%u tokens", n);
            cr_assert_lt(dop_chunks_time(costs, n + 1, n + 1),
                         dop_chunks_time(costs, n, n) + dop_chunks_time(costs, 1, 1));
        }
}

static uint32_t
next_of(const dop_chunk_costs *costs, const dop_chunk_size *sizes, size_t n_sizes, size_t n)
{
    return sizes[dop_chunks_next(costs, sizes, n_sizes, n)].room;
}

/* One step with room for all, unless a full one and a small one take less time; an option may limit how many tokens each has. */
Test(ranks, next_chunk)
{
    const dop_chunk_size gpu[] = {{1024, 1024}, {64, 64}, {1, 1}, {512, 512}, {16, 16}},
                         cpu[] = {{1, 1}, {8, 8}, {64, 64}}, limited[] = {{1, 1}, {16, 16}, {64, 50}, {512, 50}},
                         single[] = {{64, 1}, {16, 1}, {1, 1}};
    static const uint32_t expected[][2] = {{1, 1},      {2, 16},      {16, 16},     {17, 64},    {64, 64},
                                           {65, 512},   {100, 512},   {512, 512},   {513, 512},  {520, 512},
                                           {600, 1024}, {1024, 1024}, {1025, 1024}, {3000, 1024}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        cr_expect_eq(next_of(&gpu_costs, gpu, 5, expected[i][0]), expected[i][1], "%u tokens in %u", expected[i][0],
                     next_of(&gpu_costs, gpu, 5, expected[i][0]));
    cr_expect_eq(next_of(NULL, cpu, 3, 9), 8);
    cr_expect_eq(next_of(NULL, cpu, 3, 16), 8);
    cr_expect_eq(next_of(NULL, cpu, 3, 17), 64);
    cr_expect_eq(next_of(NULL, cpu, 3, 65), 64);
    cr_expect_eq(next_of(&gpu_costs, limited, 4, 50), 64, "the smaller one of two that may have as many");
    cr_expect_eq(next_of(&gpu_costs, limited, 4, 51), 64);
    cr_expect_eq(next_of(&gpu_costs, single, 3, 7), 1);
}

/* All chunks of one size, smaller where the prompt is short or parts are many. */
Test(ranks, chunks)
{
    const uint32_t sizes[] = {512, 128, 256}, small[] = {4, 16}, large[] = {256, 384, 512, 1024};
    cr_assert_eq(dop_chunks_best(&gpu_costs, sizes, 3, 2048, 1), 512);
    cr_assert_eq(dop_chunks_best(&gpu_costs, sizes, 3, 2048, 2), 512);
    cr_assert_eq(dop_chunks_best(&gpu_costs, sizes, 3, 2048, 4), 256);
    cr_assert_eq(dop_chunks_best(&gpu_costs, sizes, 3, 512, 1), 512);
    cr_assert_eq(dop_chunks_best(&gpu_costs, sizes, 3, 512, 2), 256);
    cr_assert_eq(dop_chunks_best(&gpu_costs, sizes, 3, 512, 8), 128);
    cr_assert_eq(dop_chunks_best(&gpu_costs, sizes, 3, 100, 2), 512,
                 "one chunk of the smallest size, whatever the limit");
    cr_assert_eq(dop_chunks_best(&gpu_costs, sizes, 3, 32768, 2), 512);
    cr_assert_eq(dop_chunks_best(&gpu_costs, small, 2, 21, 3), 16);
    cr_assert_eq(dop_chunks_best(&gpu_costs, large, 4, 2048, 1), 1024);
    cr_assert_eq(dop_chunks_best(&gpu_costs, large, 4, 2048, 2), 512);
    cr_assert_eq(dop_chunks_best(&gpu_costs, large, 4, 512, 2), 256);
    cr_assert_eq(dop_chunks_best(&gpu_costs, large, 4, 200, 2), 1024,
                 "one chunk, of the smallest size that has room for it");
    cr_assert_eq(dop_chunks_best(&gpu_costs, sizes, 0, 21, 3), 0);
}

/* Steps of rows of several sequences, forks, copies, rolled back and dropped ones; and another model after this one. */
Test(ranks, several_sequences)
{
    dop_sequence *s[4];
    write_toy(4);
    dop_model *m = open_ranks(RANKS);
    ok(dop_sequence_create(m, &diag, &s[0]));
    feed(s[0], 20, 3);
    ok(dop_sequence_fork(s[0], &diag, &s[1]));
    go_on(s[1], 3);
    ok(dop_sequence_create(m, &diag, &s[2]));
    feed(s[2], 9, 5);
    ok(dop_sequence_fork(s[2], &diag, &s[3]));
    go_on(s[0], 2);
    for (uint32_t round = 0; round < 6; round++) {
        dop_step_row rows[4];
        for (uint32_t i = 0; i < 4; i++)
            rows[i] = (dop_step_row){s[i], (round * 5 + i) % TOY_VOCAB, round % 2 ? DOP_WANTS_PICK : DOP_WANTS_LOGITS};
        ok(dop_step_run(m, rows, 4, &diag));
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t tokens[TOY_CTX + 1];
            size_t n;
            const uint32_t *has = dop_sequence_tokens(s[i], &n);
            memcpy(tokens, has, n * sizeof *has);
            tokens[n] = rows[i].token;
            const float *logits = dop_step_logits(m, i);
            const uint32_t pick = logits ? dop_logits_largest(logits, TOY_VOCAB) : dop_step_pick(m, i);
            cr_assert_eq(pick, toy_argmax(tokens, n + 1), "round %u, row %u", round, i);
        }
        if (round % 3 == 2)
            dop_step_rollback(m);
        else
            dop_step_commit(m);
    }
    go_on_in_groups(m, s, 4);
    read_in_groups(m, s);
    ok(dop_sequence_copy(s[3], s[1], &diag));
    dop_sequence_destroy(s[2]);
    ok(dop_sequence_create(m, &diag, &s[2]));
    feed(s[2], 4, 8);
    for (uint32_t i = 0; i < 4; i++)
        go_on(s[i], 3);
    dop_model_close(m);
    ok(dop_model_open(path, &(dop_open_options){.wire = &ends[0].wire, .max_chunk = 3}, &diag, &m));
    ok(dop_sequence_create(m, &diag, &s[0]));
    feed(s[0], 20, 3);
    go_on(s[0], 3);
    dop_model_close(m);
    end_ranks(RANKS);
}

/* A plan that another rank cannot open is refused with that rank's name and reason, and the next one opens. */
Test(ranks, refused)
{
    dop_model *m;
    write_toy(1);
    m = open_ranks(2);
    dop_model_close(m);
    cr_assert_eq(dop_model_open("/nowhere/plan", &(dop_open_options){.wire = &ends[0].wire}, &diag, &m), DOP_E_IO);
    memset(&diag, 0, sizeof diag);
    ok(dop_model_open(path, &(dop_open_options){.wire = &ends[0].wire}, &diag, &m));
    dop_model_close(m);
    end_ranks(2);
}

/* --- orders as messages ---------------------------------------------------------------------------------------------- */

Test(ranks, orders)
{
    const dop_plan_model facts = {
        .vocab = 100, .ctx = 64, .n_sequences = 4, .page = 16, .n_pages = 8, .state_copies = 3};
    const dop_order_row rows[2] = {{5, 63, 3, 2}, {99, 0, 0, 0}}, bad = {5, 64, 0, 0}, gone = {5, 63, 0, 3};
    const uint32_t pages[2] = {7, 1}, page = 8;
    const dop_order good[] = {
        {DOP_ORDER_OPEN, 5, {1, 2, 3, 1}, "plan"},
        {DOP_ORDER_STEP, 2, {1, 8, DOP_FORM_READ, DOP_ANSWER_ROWS}, rows},
        {DOP_ORDER_PAGES, 2, {3, 2}, pages},
        {DOP_ORDER_COPY_PLACE, 0, {0, 3, 64, 1, 0}, NULL},
        {DOP_ORDER_READ, 0, {3, 0, 64, 3, 1}, NULL},
        {DOP_ORDER_BYTES, 4, {0}, "plan"},
        {DOP_ORDER_END, 0, {0}, NULL},
    };
    const dop_order wrong[] = {
        {DOP_ORDER_STEP, 2, {1, 1, 0, 0}, rows}, /* more rows than the schedule has */
        {DOP_ORDER_STEP, 1, {1, 8, 0, 0}, &bad},
        {DOP_ORDER_STEP, 1, {1, 8, 0, 0}, &gone}, /* a copy that the plan lacks */
        {DOP_ORDER_STEP, 0, {1, 8, 0, 0}, NULL},
        {DOP_ORDER_STEP, 1, {1, 8, DOP_N_FORMS, 0}, rows},
        {DOP_ORDER_STEP, 1, {1, 8, 0, 0, DOP_N_ORDERS}, rows},
        {DOP_ORDER_PAGES, 1, {0, 0}, &page},
        {DOP_ORDER_PAGES, 2, {0, 3}, pages},
        {DOP_ORDER_CLEAR_PLACE, 0, {4}, NULL},
        {DOP_ORDER_COPY_PAGE, 0, {0, 1, 17}, NULL},
        {DOP_ORDER_SIZE, 0, {0, 0, 65, 3}, NULL},
        {DOP_ORDER_CLOSE, 0, {1}, NULL},
    };
    static const size_t row_bytes[] = {
#define ORDER(name, words, row, what) [DOP_ORDER_##name] = row,
        DOP_ORDERS(ORDER)
#undef ORDER
    };
    dop_diag d = {0};
    dop_order o;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        dop_buf b = {0};
        dop_order_encode(&good[i], &b);
        const uint8_t *bytes = (const uint8_t *)b.data;
        cr_assert_eq(dop_order_decode(bytes, b.size, &facts, &d, &o), DOP_OK, "%zu: %s", i, d.message);
        cr_assert(o.kind == good[i].kind && o.n_rows == good[i].n_rows);
        cr_assert_arr_eq(o.args, good[i].args, sizeof o.args);
        if (o.n_rows > 0)
            cr_assert_arr_eq(o.rows, good[i].rows, o.n_rows * row_bytes[o.kind]);
        for (size_t n = 0; n < b.size; n++)
            cr_assert_eq(dop_order_decode(bytes, n, &facts, NULL, &o), DOP_E_INTERNAL);
        dop_buf_finish(&b);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        dop_buf b = {0};
        dop_order_encode(&wrong[i], &b);
        cr_assert_eq(dop_order_decode((const uint8_t *)b.data, b.size, &facts, NULL, &o), DOP_E_INTERNAL, "%zu", i);
        dop_buf_finish(&b);
    }
}
