#include "runtime/model/part.h"
#include "plan/plan_names.h"

static uint32_t
list_part_values(const dop_model *m, uint32_t schedule, uint32_t way, dop_part_value out[DOP_PART_MAX_VALUES])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->plan.n_crossings; i++) {
        const dop_plan_crossing *x = &m->plan.crossings[i];
        if (x->schedule != schedule || x->way != way)
            continue;
        uint8_t *slot = dop_memory_host(&m->memory, x->slot);
        out[n++] = (dop_part_value){.name = dop_plan_string(&m->plan, x->name),
                                    .bytes = slot + x->offset,
                                    .slot = x->slot,
                                    .offset = x->offset,
                                    .row_bytes = x->row_bytes,
                                    .one_row = x->one_row,
                                    .type = x->type};
    }
    return n;
}

uint32_t
dop_part_inputs(const dop_model *model, uint32_t schedule, dop_part_value out_values[DOP_PART_MAX_VALUES])
{
    return list_part_values(model, schedule, DOP_CROSSING_RECEIVED, out_values);
}

uint32_t
dop_part_outputs(const dop_model *model, uint32_t schedule, dop_part_value out_values[DOP_PART_MAX_VALUES])
{
    return list_part_values(model, schedule, DOP_CROSSING_SENT, out_values);
}

bool
dop_part_is_inner(const dop_model *model)
{
    return model->plan.part && model->plan.part->number + 1 < model->plan.part->n_parts;
}
