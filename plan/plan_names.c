#include "plan/plan_names.h"
#include "plan/plan.h"

const char *
dop_plan_string(const dop_plan *plan, uint32_t offset)
{
    return plan->strings + offset;
}

const char *
dop_plan_ordering_name(uint32_t ordering)
{
    static const char *const names[DOP_N_ORDERS] = {"barriers", "persistent"};
    return names[ordering];
}

uint32_t
dop_plan_sequence_pages(const dop_plan *plan)
{
    return plan->model->page ? plan->model->ctx / plan->model->page : 0;
}

uint64_t
dop_plan_step_bytes(const dop_plan *plan)
{
    return dop_plan_way_offset(plan, plan->model->n_sequences);
}

uint64_t
dop_plan_way_offset(const dop_plan *plan, uint32_t place)
{
    return dop_plan_mask_offset(plan, plan->model->n_sequences) + place * sizeof(dop_row_way);
}

uint64_t
dop_plan_mask_offset(const dop_plan *plan, uint32_t place)
{
    const dop_plan_model *m = plan->model;
    return sizeof(dop_step) +
           ((uint64_t)m->n_sequences * dop_plan_sequence_pages(plan) + (uint64_t)place * dop_div_up_u32(m->vocab, 32)) *
               sizeof(uint32_t);
}

uint32_t
dop_plan_logit_rows(const dop_plan_schedule *schedule)
{
    bool last = schedule->kind == DOP_SCHED_DECODE || schedule->kind == DOP_SCHED_PREFILL ||
                (schedule->kind == DOP_SCHED_DRAFT && schedule->max_rows > DOP_DRAFT_EACH);
    return last ? 1 : schedule->max_rows;
}

uint64_t
dop_plan_result_row_bytes(const dop_plan *plan, const dop_plan_schedule *schedule)
{
    const dop_plan_program *p = dop_plan_program_of(plan, schedule->kind);
    const bool drafts = p && p->kind == DOP_SCHED_DRAFT;
    const uint32_t values = drafts && p->classes                ? p->classes
                            : p && !drafts                      ? p->width
                            : schedule->kind == DOP_SCHED_EMBED ? plan->model->hidden
                                                                : plan->model->vocab;
    return values * (uint64_t)sizeof(float);
}

const dop_plan_program *
dop_plan_program_of(const dop_plan *plan, uint32_t kind)
{
    for (uint32_t i = 0; i < plan->n_programs; i++)
        if (plan->programs[i].kind == kind)
            return &plan->programs[i];
    return NULL;
}

bool
dop_plan_is_of_features(const dop_plan *plan, const dop_plan_crossing *crossing)
{
    return !plan->part && crossing->way == DOP_CROSSING_RECEIVED &&
           plan->schedules[crossing->schedule].kind < DOP_SCHED_ENCODE && crossing->row_bytes > sizeof(uint32_t);
}

static const uint32_t any = UINT32_MAX;

/* True if there is a schedule of a kind up to last_kind, for a profile and ordering (or `any`). */
static bool
has_schedule(const dop_plan *plan, uint32_t profile, uint32_t ordering, uint32_t last_kind)
{
    for (uint32_t i = 0; i < plan->n_schedules; i++) {
        const dop_plan_schedule *s = &plan->schedules[i];
        if (s->kind <= last_kind && (profile == any || s->profile == profile) &&
            (ordering == any || s->ordering == ordering))
            return true;
    }
    return false;
}

bool
dop_plan_steps(const dop_plan *plan)
{
    return has_schedule(plan, any, any, DOP_SCHED_ENCODE - 1);
}

uint64_t
dop_plan_result_bytes(const dop_plan *plan, const dop_plan_schedule *schedule)
{
    if (schedule->logits_slot == DOP_PLAN_NO_SLOT)
        return 0;
    return dop_plan_logit_rows(schedule) * dop_plan_result_row_bytes(plan, schedule);
}

bool
dop_plan_decodes(const dop_plan *plan, uint32_t profile, uint32_t ordering)
{
    return has_schedule(plan, profile, ordering, DOP_SCHED_DECODE);
}
