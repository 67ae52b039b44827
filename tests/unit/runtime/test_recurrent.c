/* Sequences of a model whose steps replace states, with a key and value cache beside them: whatever happens between two
 * steps, the next one finds the states of the sequence's tokens.  Needs runtime/device/device.h's Vulkan device. */
#include "runtime/model/model.h"
#include "runtime/model/ordering.h"
#include "runtime/model/probe.h"
#include "runtime/step/step_ahead.h"
#include "tests/unit/ir_plan.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 24, CTX = 64 };

/* h' = d h + b u by rows; attention over the rows so far.  MORE: a short convolution and a linear recurrence; and, for which
 * there are no stages of a persistent dispatch, the row before, in f16, and c' = c / 2 + 1 as a whole. */
#define RECURRENT(MORE_STATES, MIXED, MORE_WRITES, MORE_OUTS)                                               \
    "graph decode(T=1, S<=64, Q=1) {\n"                                                                     \
    "  %tok:u32[T] = input \"tokens\"\n"                                                                    \
    "  %pos:u32[T] = input \"positions\"\n"                                                                 \
    "  %seq:u32[T] = input \"sequences\"\n"                                                                 \
    "  %emb:f16[24,32] = weight \"embed\"\n"                                                                \
    "  %nw:f32[32] = weight \"norm\"\n"                                                                     \
    "  %dw:f32[48] = weight \"decay\"\n"                                                                    \
    "  %b:f32[48] = weight \"b\"\n"                                                                         \
    "  %wi:f16[48,32] = weight \"in\"\n"                                                                    \
    "  %wq:f16[32,32] = weight \"q\"\n"                                                                     \
    "  %wk:f16[32,32] = weight \"k\"\n"                                                                     \
    "  %wv:f16[32,32] = weight \"v\"\n"                                                                     \
    "  %wo:f16[48,32] = weight \"o\"\n"                                                                     \
    "  %head:f16[24,48] = weight \"head\"\n"                                                                \
    "  %h:f32[Q,48] = state \"h\" kind=replace\n"                                                           \
    "  %kc:f16[Q,S,2,16] = state \"L0.k\" kind=append\n"                                                    \
    "  %vc:f16[Q,S,2,16] = state \"L0.v\" kind=append\n" MORE_STATES "  %x:f32[T,32] = gather %emb, %tok\n" \
    "  %n:f32[T,32] = rmsnorm %x, %nw eps=0x1p-20 add=0\n" MIXED "  %q:f32[T,32] = matmul %mixed, %wq\n"    \
    "  %k:f32[T,32] = matmul %mixed, %wk\n"                                                                 \
    "  %v:f32[T,32] = matmul %mixed, %wv\n"                                                                 \
    "  %q3:f32[T,2,16] = reshape %q\n"                                                                      \
    "  %k3:f32[T,2,16] = reshape %k\n"                                                                      \
    "  %v3:f32[T,2,16] = reshape %v\n"                                                                      \
    "  %kc1:f16[Q,S,2,16] = state_write %kc, %k3, %pos, %seq\n"                                             \
    "  %vc1:f16[Q,S,2,16] = state_write %vc, %v3, %pos, %seq\n"                                             \
    "  %a:f32[T,2,16] = attention %q3, %kc1, %vc1, %pos, %seq scale=0.25 window=0 cap=0\n"                  \
    "  %a2:f32[T,32] = reshape %a\n"                                                                        \
    "  %ao:f32[T,48] = matmul %a2, %wo\n"                                                                   \
    "  %u:f32[T,48] = matmul %mixed, %wi\n"                                                                 \
    "  %old:f32[T,48] = gather %h, %seq\n"                                                                  \
    "  %d:f32[48] = sigmoid %dw\n"                                                                          \
    "  %dh:f32[T,48] = mul %old, %d\n"                                                                      \
    "  %bu:f32[T,48] = mul %u, %b\n"                                                                        \
    "  %new:f32[T,48] = add %dh, %bu\n"                                                                     \
    "  %h1:f32[Q,48] = state_write %h, %new, %seq\n" MORE_WRITES "  %g:f32[T,48] = silu %new\n"             \
    "  %sum:f32[T,48] = add %g, %ao\n"                                                                      \
    "  %y:f32[T,24] = matmul %sum, %head\n"                                                                 \
    "  %id:u32[T] = argmax %y\n"                                                                            \
    "  return %y, %id, %h1, %kc1, %vc1" MORE_OUTS "\n"                                                      \
    "}\n"

#define SCAN                                                                                    \
    "  %sv:f32[T,2,16] = reshape %cv\n"                                                         \
    "  %fade:f32[T,2] = slice %cv start=3\n"                                                    \
    "  %fades:f32[T,2] = sigmoid %fade\n"                                                       \
    "  %sk:f32[T,2,16] = scale %sv by=0.0625\n"                                                 \
    "  %y0:f32[T,2,16] = linear_scan %sv, %sk, %sv, %fades, %ss, %seq interleaved=0\n"          \
    "  %sa:f32[Q,2,16,16] = linear_scan_state %sv, %sk, %sv, %fades, %ss, %seq interleaved=0\n" \
    "  %ss1:f32[Q,2,16,16] = state_write %ss, %sa\n"                                            \
    "  %y1:f32[T,32] = reshape %y0\n"

static const char by_barriers[] =
    RECURRENT("  %c:f32[Q,4,8] = state \"c\" kind=replace\n"
              "  %p:f16[Q,32] = state \"p\" kind=replace\n"
              "  %cs:f32[Q,2,32] = state \"cs\" kind=replace\n"
              "  %ss:f32[Q,2,16,16] = state \"ss\" kind=replace\n"
              "  %taps:f32[3,32] = weight \"taps\"\n",
              "  %before:f32[T,32] = gather %p, %seq\n"
              "  %m0:f32[T,32] = add %n, %before\n"
              "  %cv:f32[T,32] = short_conv %m0, %cs, %taps, %seq\n"
              "  %cs1:f32[Q,2,32] = state_write %cs, %m0, %seq\n" SCAN "  %mixed:f32[T,32] = add %m0, %y1\n",
              "  %half:f32[Q,4,8] = scale %c by=0.5\n"
              "  %more:f32[Q,4,8] = offset %half by=1\n"
              "  %c1:f32[Q,4,8] = state_write %c, %more\n"
              "  %p1:f16[Q,32] = state_write %p, %n, %seq\n",
              ", %c1, %p1, %cs1, %ss1");
static const char in_stages[] =
    RECURRENT("  %cs:f32[Q,2,32] = state \"cs\" kind=replace\n"
              "  %ss:f32[Q,2,16,16] = state \"ss\" kind=replace\n"
              "  %taps:f32[3,32] = weight \"taps\"\n"
              "  %ws:f16[32,32] = weight \"ws\"\n",
              "  %p0:f32[T,32] = matmul %n, %ws\n"
              "  %cv:f32[T,32] = short_conv %p0, %cs, %taps, %seq\n"
              "  %cs1:f32[Q,2,32] = state_write %cs, %p0, %seq\n" SCAN "  %mixed:f32[T,32] = add %p0, %y1\n",
              "", ", %cs1, %ss1");

static ir_plan plan;
static dop_diag diag;
static dop_model *other; /* of the same plan, for sequences to compare with */

#define OK(call) cr_assert_eq((call), DOP_OK, "%s", diag.message)

static void
finish_plan(void)
{
    dop_model_close(other);
    other = NULL;
    ir_plan_finish(&plan);
}

/* A software device runs its workgroups one after another, so that a persistent dispatch has one. */
static void
make(bool persistent)
{
    dop_target t;
    ir_plan_target(persistent ? "nvidia-hopper" : "lavapipe", &t);
    if (persistent) {
        t.subgroup = 8;
        t.max_workgroup = 256;
        t.shared_bytes = 32768;
        t.cores = 1;
        t.persistent = 64;
        t.caps = DOP_CAP_f16_storage | DOP_CAP_f16_math | DOP_CAP_i8_storage | DOP_CAP_subgroup;
        t.int_dot = DOP_INT_DOT_OFF;
    }
    ir_plan_make(&plan, persistent ? in_stages : by_barriers, &t);
    cr_assert(!persistent || !plan.no_stages, "%s", plan.no_stages);
}

static dop_sequence *
open_model(const dop_open_options *o)
{
    dop_model *m = NULL;
    dop_sequence *s = NULL;
    OK(dop_model_open(plan.path, o, &diag, &m));
    OK(dop_sequence_create(m, &diag, &s));
    cr_assert(m->plan.replaces);
    return s;
}

static void
close_model(dop_sequence *s)
{
    dop_model_close(s->model);
}

/* Logits of one more token, which is not to stay. */
static void
logits_of(dop_sequence *s, uint32_t token, float *out)
{
    dop_step_row row = {s, token, DOP_WANTS_LOGITS};
    OK(dop_step_run(s->model, &row, 1, &diag));
    memcpy(out, dop_step_logits(s->model, 0), VOCAB * sizeof *out);
    dop_step_rollback(s->model);
}

/* What the interpreter picks behind the n tokens; all: [CTX]. */
static void
expect(uint32_t *all, uint32_t n_prompt, uint32_t n)
{
    ir_plan_restart(&plan);
    for (uint32_t i = 0; i + 1 < n_prompt + n; i++) {
        uint32_t best = ir_plan_step(&plan, all[i], i, NULL);
        if (i + 1 >= n_prompt)
            all[i + 1] = best;
    }
}

/* The states are those of the sequence's tokens: about what the interpreter has; and exactly what a new sequence has that
 * is fed them, where stages did not add them in another order.  Both are tried with a token more. */
static void
check_states(dop_sequence *s)
{
    float got[VOCAB], again[VOCAB], want[VOCAB], exact[VOCAB];
    size_t n;
    const uint32_t *tokens = dop_sequence_tokens(s, &n);
    logits_of(s, 5, got);
    logits_of(s, 5, again);
    cr_assert_arr_eq(got, again, sizeof got, "after %zu tokens: a step that was rolled back left something", n);
    if (plan.no_stages) {
        dop_sequence *fresh;
        if (other)
            OK(dop_sequence_create(other, &diag, &fresh));
        else
            fresh = open_model(&(dop_open_options){.ordering = DOP_ORDERING_BARRIERS});
        other = fresh->model;
        OK(dop_sequence_feed(fresh, tokens, n, &diag));
        logits_of(fresh, 5, want);
        dop_sequence_destroy(fresh);
        cr_assert_arr_eq(got, want, sizeof got, "after %zu tokens: other logits than a new sequence has", n);
    }
    ir_plan_restart(&plan);
    for (uint32_t i = 0; i < n; i++)
        ir_plan_step(&plan, tokens[i], i, NULL);
    ir_plan_step(&plan, 5, (uint32_t)n, exact);
    for (uint32_t i = 0; i < VOCAB; i++)
        cr_assert(fabsf(got[i] - exact[i]) < 2e-3f, "after %zu tokens: logit %u is %f instead of %f", n, i,
                  (double)got[i], (double)exact[i]);
}

static void
prompt(uint32_t *all, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        all[i] = (i * 7 + 3) % VOCAB;
}

/* n tokens behind the first n_have, which are what the interpreter picks. */
static void
take(dop_sequence *s, const uint32_t *all, uint32_t n_have, uint32_t n)
{
    for (uint32_t i = n_have; i < n_have + n; i++) {
        uint32_t id;
        OK(dop_sequence_next(s, &diag, &id));
        cr_assert_eq(id, all[i], "token %u: %u instead of %u", i, id, all[i]);
    }
}

static const dop_open_options ways[] = {
    {.ordering = DOP_ORDERING_BARRIERS},
    {.ordering = DOP_ORDERING_BARRIERS, .steps_ahead = 16, .steps_per_submit = 7, .separate_memory = true},
    {.ordering = DOP_ORDERING_PERSISTENT},
};
enum { N_WAYS = sizeof ways / sizeof *ways };

/* Every test by barriers and with a persistent dispatch; *out_all: a prompt of 9 tokens, and what follows. */
static dop_sequence *
begin(uint32_t way, uint32_t all[CTX])
{
    if (way == 0 || way == N_WAYS - 1) {
        if (way > 0)
            finish_plan();
        make(way > 0);
    }
    prompt(all, 9);
    expect(all, 9, CTX - 9);
    return open_model(&ways[way]);
}

Test(recurrent, greedy_steps_run_ahead)
{
    uint32_t all[CTX];
    for (uint32_t way = 0; way < N_WAYS; way++) {
        dop_sequence *s = begin(way, all);
        OK(dop_sequence_feed(s, all, 9, &diag));
        take(s, all, 9, 20);
        cr_assert_eq(s->model->flight.n, 2, "%u steps run ahead", s->model->flight.n);
        take(s, all, 29, CTX - 29);
        OK(dop_sequence_rewind(s, 0, &diag)); /* and all of it again, in the other copy */
        OK(dop_sequence_feed(s, all, 9, &diag));
        dop_sequence_expect(s, 10);
        take(s, all, 9, 10);
        cr_assert_eq(s->model->flight.n, 0, "a step that nobody wants");
        check_states(s);
        close_model(s);
    }
    finish_plan();
}

/* What the device has under way is dropped by feeding, scoring, sampling on the host, steps of rows. */
Test(recurrent, steps_that_are_dropped)
{
    const dop_sampling top1 = {.temperature = 1, .top_p = 1, .top_k = 1, .repeat_penalty = 1},
                       greedy = {.repeat_penalty = 1};
    uint32_t all[CTX], id;
    for (uint32_t way = 0; way < N_WAYS; way++) {
        dop_sequence *s = begin(way, all);
        OK(dop_sequence_feed(s, all, 9, &diag));
        check_states(s); /* drops the pick of the last token */
        for (uint32_t n = 9; n < 41; n += 4) {
            dop_sequence_set_sampling(s, n & 4 ? &greedy : &top1);
            take(s, all, n, 4);
        }
        check_states(s);
        take(s, all, 41, 3);
        prompt(all + 44, 5);
        OK(dop_sequence_feed(s, all + 44, 3, &diag));
        OK(dop_sequence_feed(s, all + 47, 2, &diag)); /* no pick between them */
        check_states(s);
        expect(all, 49, CTX - 49);
        take(s, all, 49, 4);
        dop_step_row rows = {s, all[53], DOP_WANTS_PICK};
        for (int i = 0; i < 3; i++) {
            OK(dop_step_run(s->model, &rows, 1, &diag));
            cr_assert_eq(dop_step_pick(s->model, 0), all[54]);
            if (i < 2)
                dop_step_rollback(s->model);
        }
        dop_step_commit(s->model);
        check_states(s);
        OK(dop_sequence_next(s, &diag, &id)); /* picks again what the step did */
        cr_assert_eq(id, all[54]);
        take(s, all, 55, CTX - 55);
        close_model(s);
    }
    finish_plan();
}

/* Steps of rows, of which the next is in flight when one is committed: taken, dropped by another token, by a rollback of the one
 * that was taken, by rewinding, and by the sequence's own steps. */
Test(recurrent, steps_of_rows_run_ahead)
{
    uint32_t all[CTX];
    for (uint32_t way = 0; way < N_WAYS; way++) {
        dop_sequence *s = begin(way, all);
        OK(dop_sequence_feed(s, all, 9, &diag));
        for (uint32_t n = 9, i = 0; n + 3 < CTX; i++) {
            dop_step_row row = {s, all[n], DOP_WANTS_PICK};
            OK(dop_step_run(s->model, &row, 1, &diag));
            cr_assert_eq(dop_step_pick(s->model, 0), all[n + 1], "step %u", i);
            if (i % 7 == 5) {
                dop_step_rollback(s->model);
                continue;
            }
            dop_step_commit(s->model);
            n++;
            if (i % 11 == 8)
                check_states(s);
            if (i % 13 == 12)
                take(s, all, n++, 1);
            if (i % 17 == 14)
                OK(dop_sequence_rewind(s, n -= 1 + i % 3, &diag));
            if (i % 9 == 6) {
                all[n] = (all[n] + 1) % 7;
                expect(all, n + 1, CTX - n - 1);
            }
        }
        const dop_counters c = dop_model_counters(s->model);
        cr_assert(c.steps_ahead > 8 && c.rows_dropped > 3, "%u, %u", (unsigned)c.steps_ahead, (unsigned)c.rows_dropped);
        check_states(s);
        close_model(s);
    }
    finish_plan();
}

Test(recurrent, rewinding)
{
    uint32_t all[CTX];
    for (uint32_t way = 0; way < N_WAYS; way++) {
        dop_sequence *s = begin(way, all);
        OK(dop_sequence_feed(s, all, 9, &diag));
        for (uint32_t back = 0; back < 8; back++) {
            size_t n;
            (void)dop_sequence_tokens(s, &n);
            take(s, all, (uint32_t)n, 6);
            OK(dop_sequence_rewind(s, (uint32_t)n + 6 - back, &diag));
            if (back % 3 != 1) /* with what a check leaves, and without */
                check_states(s);
        }
        OK(dop_sequence_rewind(s, 1, &diag));
        check_states(s);
        OK(dop_sequence_feed(s, all + 1, 30, &diag));
        take(s, all, 31, 5);
        dop_model *m = s->model;
        dop_sequence_destroy(s);
        OK(dop_sequence_create(m, &diag, &s)); /* of whose states nothing is left */
        OK(dop_sequence_feed(s, all, 9, &diag));
        take(s, all, 9, 5);
        check_states(s);
        close_model(s);
    }
    finish_plan();
}

/* The steps under way end without all of their work: the copies that they write are garbage, and they may have been
 * committed. */
static void
stall(dop_sequence *s, bool committed)
{
    dop_model *m = s->model;
    volatile dop_step *step = dop_replay_step(&m->replay);
    uint32_t n = m->flight.n;
    cr_assert_eq(n, 2);
    OK(dop_replay_wait(&m->replay, m->flight.steps[n - 1].ticket, &diag));
    cr_assert_eq(step->parity[0], m->parity[0]);
    uint32_t n_out = step->n_out, wrong = 1;
    uint64_t ticket;
    dop_replay_write_step(&m->replay, &wrong, 1, m->flight.rows[0].pos - n, m->parity[0]);
    OK(dop_replay_submit(&m->replay, m->orders.decode[DOP_ORDER_BARRIERS], DOP_FORM_FULL, n, &diag, &ticket));
    OK(dop_replay_wait(&m->replay, ticket, &diag));
    step->n_out = n_out;
    step->flags |= DOP_STEP_STALLED;
    step->ids[m->flight.picks_taken % DOP_STEP_RING] = wrong;
    step->parity[0] = committed ? 1 - m->parity[0] : m->parity[0];
}

/* Back to barriers with the last token fed again, as it is after a stall. */
static void
go_on_by_barriers(dop_sequence *s)
{
    size_t n;
    uint32_t last = dop_sequence_tokens(s, &n)[n - 1];
    OK(dop_step_drain(s->model, &diag));
    dop_model_use_ordering(s->model, DOP_ORDER_BARRIERS);
    OK(dop_sequence_rewind(s, (uint32_t)n - 1, &diag));
    OK(dop_sequence_feed(s, &last, 1, &diag));
}

/* The dispatch of all stages reads and writes what its stages do, together. */
static void
check_traffic(void)
{
    dop_plan p;
    uint32_t n = 0;
    OK(dop_plan_open(plan.path, &diag, &p));
    for (uint32_t i = 0; i < p.n_schedules; i++) {
        const dop_plan_schedule *d = &p.schedules[i];
        const dop_plan_dispatch *whole = &p.dispatches[d->first_dispatch];
        uint64_t reads = 0, writes = 0;
        for (uint32_t k = 0; k < d->n_stages; k++) {
            const dop_plan_dispatch *stage = &p.dispatches[d->first_stage + k];
            cr_expect(stage->bytes_read > 0 && stage->bytes_written > 0, "stage %u", k);
            reads += stage->bytes_read;
            writes += stage->bytes_written;
        }
        cr_expect(d->n_stages == 0 || (whole->bytes_read == reads && whole->bytes_written == writes),
                  "%llu and %llu bytes instead of %llu and %llu", (unsigned long long)whole->bytes_read,
                  (unsigned long long)whole->bytes_written, (unsigned long long)reads, (unsigned long long)writes);
        n += d->n_stages > 1;
    }
    cr_expect_gt(n, 0);
    dop_plan_close(&p);
}

Test(recurrent, a_step_that_stalls_is_run_again)
{
    uint32_t all[CTX];
    float logits[2][VOCAB];
    make(true);
    check_traffic();
    prompt(all, 9);
    expect(all, 9, CTX - 9);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t stalls = 0; stalls < 2; stalls++) {
            dop_sequence *s = open_model(&ways[N_WAYS - 1]);
            OK(dop_sequence_feed(s, all, 9, &diag));
            take(s, all, 9, 6 + i);
            if (stalls)
                stall(s, i & 1);
            else
                go_on_by_barriers(s);
            if (i & 2) {
                OK(dop_sequence_feed(s, all + 15 + i, 2, &diag)); /* nobody wants the step */
                take(s, all, 17 + i, 10);
            } else {
                take(s, all, 15 + i, 12);
            }
            cr_assert_eq(s->model->info.stalled, stalls);
            cr_assert_eq(s->model->info.ordering, DOP_ORDER_BARRIERS);
            logits_of(s, 5, logits[stalls]);
            check_states(s);
            close_model(s);
        }
        cr_assert_arr_eq(logits[0], logits[1], sizeof logits[0]);
    }
    finish_plan();
}

/* Whatever reads it finds no number where the copy of `h` that is not current lies. */
static void
spoil_other_copy(dop_sequence *s)
{
    enum { BYTES = 48 * 4 };
    dop_model *m = s->model;
    dop_replay *r = &m->replay;
    uint32_t i = 0;
    VkCommandBuffer c;
    VkCommandBufferAllocateInfo one = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                       .commandPool = r->pool,
                                       .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                       .commandBufferCount = 1};
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &c};
    while (i < m->plan.n_slots && m->plan.slots[i].state != DOP_PLAN_STATE_REPLACE)
        i++;
    cr_assert(i < m->plan.n_slots && m->plan.slots[i].size >= 2 * BYTES);
    const dop_slot_place *p = &m->memory.places[i];
    cr_assert_eq(vkAllocateCommandBuffers(m->device.handle, &one, &c), VK_SUCCESS);
    cr_assert_eq(vkBeginCommandBuffer(c, &begin), VK_SUCCESS);
    vkCmdFillBuffer(c, m->memory.blocks[p->block].buffer, p->offset + (1 - m->parity[0]) * BYTES, BYTES, UINT32_MAX);
    cr_assert_eq(vkEndCommandBuffer(c), VK_SUCCESS);
    cr_assert_eq(vkQueueSubmit(m->device.queue, 1, &submit, VK_NULL_HANDLE), VK_SUCCESS);
    cr_assert_eq(vkDeviceWaitIdle(m->device.handle), VK_SUCCESS);
    s->n_kept = UINT32_MAX; /* the sequence cannot go back to it */
}

/* A probe starts from the copy that is current: the other one may be anything, and one that started there would say that
 * the logits are others. */
Test(recurrent, a_probe_starts_from_the_current_copy)
{
    uint32_t all[CTX];
    make(true);
    prompt(all, 9);
    expect(all, 9, CTX - 9);
    for (uint32_t n = 1; n < 3; n++) { /* one parity, and the other */
        dop_sequence *s = open_model(&ways[N_WAYS - 1]);
        dop_model *m = s->model;
        dop_probe_result r;
        OK(dop_sequence_feed(s, all, 9, &diag));
        take(s, all, 9, n);
        OK(dop_step_drain(m, &diag));
        spoil_other_copy(s);
        OK(dop_probe_run(m, DOP_ORDER_PERSISTENT, 9 + n, &diag, &r));
        cr_assert(!r.fault, "%s", r.fault);
        m->parity[0] ^= 1u;
        OK(dop_probe_run(m, DOP_ORDER_PERSISTENT, 9 + n, &diag, &r));
        cr_assert(r.fault, "it starts from the other copy, and nobody notices");
        m->parity[0] ^= 1u;
        take(s, all, 9 + n, 20);
        close_model(s);
    }
    finish_plan();
}

/* status of a program, whose output is in `out` */
static int
output_of(const char *command, char *out, size_t size)
{
    FILE *f = popen(command, "r");
    cr_assert(f, "%s", command);
    size_t n = fread(out, 1, size - 1, f);
    out[n] = 0;
    return pclose(f);
}

/* doppler-exec --check says ok of a plan that replaces states.  When its graph says another state than its kernels write,
 * which no output of the step depends on, it says so. */
Test(recurrent, check_compares_states)
{
    char command[600], out[16384], *end;
    make(false);
    snprintf(command, sizeof command, DOP_EXEC " %s --check 2>&1", plan.path);
    int status = output_of(command, out, sizeof out);
    cr_assert_eq(status, 0, "%s", out);
    unsigned long n = strtoul(strstr(out, " of ") ? strstr(out, " of ") + 4 : "0", &end, 10);
    cr_assert(n > 0 && strncmp(end, " kernels agree", 14) == 0, "%s", out);
    cr_assert(!strstr(out, "MISS"), "%s", out);
    snprintf(command, sizeof command,
             DOP_TOOLS "/edit_plan %s %s.other 'by=0x1p-1' 'by=0x1p+1' && " DOP_EXEC " %s.other --check 2>&1; s=$?; "
                       "rm -f %s.other; exit $s",
             plan.path, plan.path, plan.path, plan.path);
    status = output_of(command, out, sizeof out);
    cr_assert_neq(status, 0, "%s", out);
    cr_assert(strstr(out, "MISS"), "%s", out);
    finish_plan();
}

/* A probe has copies of both kinds of states, says that the orderings agree, and no bit of a logit is another after it. */
Test(recurrent, probes_leave_the_states_alone)
{
    uint32_t all[CTX];
    float logits[2][VOCAB];
    make(true);
    prompt(all, 9);
    expect(all, 9, CTX - 9);
    for (uint32_t n = 1; n < 3; n++) {
        for (uint32_t probes = 0; probes < 2; probes++) {
            dop_sequence *s = open_model(&ways[N_WAYS - 1]);
            dop_probe_result r;
            OK(dop_sequence_feed(s, all, 9, &diag));
            take(s, all, 9, n);
            OK(dop_step_drain(s->model, &diag)); /* a probe begins with nothing under way */
            for (uint32_t i = 0; i < 2 * probes; i++) {
                OK(dop_probe_run(s->model, DOP_ORDER_PERSISTENT, (9 + n) * i, &diag, &r));
                cr_assert(!r.fault, "%s", r.fault);
            }
            take(s, all, 9 + n, 20);
            logits_of(s, 5, logits[probes]);
            check_states(s);
            s->model->orders.probes = probes == 1; /* and between two tokens, as models do it by themselves */
            s->model->orders.probe_at = 35;
            take(s, all, 29 + n, 20);
            cr_assert_eq(s->model->info.probe_ms > 0, probes == 1);
            check_states(s);
            close_model(s);
        }
        cr_assert_arr_eq(logits[0], logits[1], sizeof logits[0]);
    }
    finish_plan();
}
