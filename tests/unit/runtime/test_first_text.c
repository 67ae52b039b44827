/* What a first text needs: which schedules opening waits for, and in which order kernels are created.  The plan is
 * made up. */
#include "runtime/model/model.h"
#include "runtime/model/model_load.h"
#include "runtime/model/model_used.h"
#include "runtime/step/step.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { DECODE, PERSISTENT, PREFILL_16, PREFILL_512, SCORE, ROWS_4, ROWS_PERSISTENT, DRAFT, ADAPTED, N_SCHEDULES };

/* Each schedule has a kernel of its own, which has its number, and one that all schedules have; larger numbers are larger kernels. */
enum { SHARED = N_SCHEDULES, N_KERNELS };

typedef struct made_up {
    dop_plan_model about;
    dop_plan_profile profile;
    dop_plan_schedule schedules[N_SCHEDULES];
    dop_plan_dispatch dispatches[2 * N_SCHEDULES];
    dop_plan_kernel kernels[N_KERNELS];
    dop_plan_slot slot;
    dop_model model;
    bool first[N_SCHEDULES];
} made_up;

/* A plan whose layer that drafts is left out unless `drafts`, and whose schedule with adapters unless `adapters`. */
static made_up *
make_up(bool drafts, bool adapters)
{
    static const dop_plan_schedule schedules[N_SCHEDULES] = {
        [DECODE] = {.kind = DOP_SCHED_DECODE, .max_rows = 1},
        [PERSISTENT] = {.kind = DOP_SCHED_DECODE, .max_rows = 1, .ordering = DOP_ORDER_PERSISTENT},
        [PREFILL_16] = {.kind = DOP_SCHED_PREFILL, .max_rows = 16},
        [PREFILL_512] = {.kind = DOP_SCHED_PREFILL, .max_rows = 512},
        [SCORE] = {.kind = DOP_SCHED_SCORE, .max_rows = 64},
        [ROWS_4] = {.kind = DOP_SCHED_ROWS, .max_rows = 4},
        [ROWS_PERSISTENT] = {.kind = DOP_SCHED_ROWS, .max_rows = 4, .ordering = DOP_ORDER_PERSISTENT},
        [DRAFT] = {.kind = DOP_SCHED_DRAFT, .max_rows = 4},
        [ADAPTED] = {.kind = DOP_SCHED_PREFILL, .max_rows = 16, .adapted = 1},
    };
    made_up *m = calloc(1, sizeof *m);
    dop_diag diag = {0};
    cr_assert(m);
    memcpy(m->schedules, schedules, sizeof schedules);
    m->schedules[DRAFT].profile = drafts ? 0 : 1; /* that of another target */
    m->schedules[ADAPTED].profile = adapters ? 0 : 1;
    for (uint32_t i = 0; i < N_SCHEDULES; i++) {
        m->schedules[i].first_dispatch = 2 * i;
        m->schedules[i].n_dispatches = 2;
        m->schedules[i].logits_slot = m->schedules[i].table_slot = DOP_PLAN_NO_SLOT;
        m->dispatches[2 * i].kernel = i;
        m->dispatches[2 * i + 1].kernel = SHARED;
    }
    for (uint32_t i = 0; i < N_KERNELS; i++)
        m->kernels[i].spirv_words = 1000 + i;
    m->about.ctx = 4096;
    m->profile.chunks = (dop_chunk_costs){.start = 40, .tile = 128, .full = 512, .lack = 12};
    dop_plan *p = &m->model.plan;
    p->model = &m->about;
    p->profiles = &m->profile;
    p->n_profiles = 1;
    p->schedules = m->schedules;
    p->n_schedules = N_SCHEDULES;
    p->dispatches = m->dispatches;
    p->n_dispatches = 2 * N_SCHEDULES;
    p->kernels = m->kernels;
    p->n_kernels = N_KERNELS;
    p->slots = &m->slot;
    p->n_slots = 1;
    cr_assert_eq(dop_used_init(p, &diag, &m->model.used), DOP_OK);
    dop_used_add_profile(p, 0, UINT32_MAX, true, &m->model.used);
    m->model.orders.decode[DOP_ORDER_BARRIERS] = DECODE;
    m->model.orders.decode[DOP_ORDER_PERSISTENT] = PERSISTENT;
    return m;
}

static void
finish(made_up *m)
{
    free(m->model.used.schedules);
    free(m);
}

/* The schedules that are marked, as bits. */
static uint32_t
first_of(made_up *m, uint32_t n, dop_ordering ordering)
{
    uint32_t bits = 0;
    memset(m->first, 0, sizeof m->first);
    dop_step_first(&m->model, n, true, ordering, m->first);
    for (uint32_t i = 0; i < N_SCHEDULES; i++)
        bits |= (uint32_t)m->first[i] << i;
    return bits;
}

#define BIT(schedule) (UINT32_C(1) << (schedule))

Test(first_text, a_prompt_and_steps_of_one_row)
{
    made_up *m = make_up(false, false);
    const uint32_t small = BIT(DECODE) | BIT(PREFILL_16);
    cr_expect_eq(first_of(m, 1, DOP_ORDERING_AUTO), BIT(DECODE));
    cr_expect_eq(first_of(m, 12, DOP_ORDERING_AUTO), small);
    cr_expect_eq(first_of(m, 16, DOP_ORDERING_BARRIERS), small);
    cr_expect_eq(first_of(m, 512, DOP_ORDERING_AUTO), BIT(DECODE) | BIT(PREFILL_512));
    cr_expect_eq(first_of(m, 524, DOP_ORDERING_AUTO) & BIT(PREFILL_512), BIT(PREFILL_512));
    cr_expect_eq(first_of(m, UINT32_MAX, DOP_ORDERING_AUTO), BIT(DECODE) | BIT(PREFILL_512),
                 "a prompt past the context");
    cr_expect_eq(first_of(m, 12, DOP_ORDERING_PERSISTENT), small | BIT(PERSISTENT), "it is asked for");
    memset(m->first, 0, sizeof m->first);
    dop_step_first(&m->model, 12, false, DOP_ORDERING_AUTO, m->first);
    cr_expect(m->first[PREFILL_16] && !m->first[DECODE], "no steps follow the prompt");
    finish(m);
}

Test(first_text, a_layer_that_drafts_and_adapters)
{
    made_up *m = make_up(true, true);
    const uint32_t all = BIT(DECODE) | BIT(PREFILL_16) | BIT(ROWS_4) | BIT(DRAFT) | BIT(ADAPTED);
    cr_expect_eq(first_of(m, 12, DOP_ORDERING_AUTO), all);
    cr_expect_eq(first_of(m, 12, DOP_ORDERING_PERSISTENT), all | BIT(PERSISTENT) | BIT(ROWS_PERSISTENT));
    cr_expect_eq(first_of(m, 512, DOP_ORDERING_AUTO) & BIT(ADAPTED), 0, "of another size");
    dop_diag diag = {0};
    uint32_t order[N_KERNELS], n;
    bool persistent = false;
    const dop_open_options o = {.on_demand = true};
    (void)first_of(m, 12, DOP_ORDERING_AUTO);
    cr_assert_eq(dop_model_order_kernels(&m->model, m->first, &o, &diag, order, &n), DOP_OK);
    for (uint32_t i = 0; i < n; i++)
        persistent = persistent || order[i] == ROWS_PERSISTENT;
    cr_expect(persistent, "the other form of steps that check drafts is made ahead, too");
    finish(m);
}

Test(first_text, kernels_come_in_the_order_in_which_they_are_needed)
{
    made_up *m = make_up(false, false);
    dop_diag diag = {0};
    uint32_t order[N_KERNELS], n;
    (void)first_of(m, 12, DOP_ORDERING_AUTO);
    cr_assert_eq(dop_model_order_kernels(&m->model, m->first, &(dop_open_options){0}, &diag, order, &n), DOP_OK);
    /* The first text's, the largest first; the persistent form; the rest. */
    const uint32_t want[] = {SHARED, PREFILL_16, DECODE, PERSISTENT, ROWS_PERSISTENT, ROWS_4, SCORE, PREFILL_512};
    cr_assert_eq(n, sizeof want / sizeof *want, "none of schedules that are not used: %u", n);
    cr_expect_arr_eq(order, want, sizeof want);
    dop_open_options o = {.on_demand = true};
    cr_assert_eq(dop_model_order_kernels(&m->model, m->first, &o, &diag, order, &n), DOP_OK);
    cr_expect_eq(n, sizeof want / sizeof *want, "a GPU's driver makes the rest beside the persistent form: %u", n);
    m->model.device.info.caps.cpu = true;
    cr_assert_eq(dop_model_order_kernels(&m->model, m->first, &o, &diag, order, &n), DOP_OK);
    cr_expect_eq(n, 4, "on demand, those of the first text and no others: %u", n);
    cr_expect_arr_eq(order, want, 4 * sizeof *want);
    o.no_steps = true;
    cr_assert_eq(dop_model_order_kernels(&m->model, m->first, &o, &diag, order, &n), DOP_OK);
    cr_expect_eq(n, 3, "no form of steps: %u", n);
    finish(m);
}
