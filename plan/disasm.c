#include "plan/disasm.h"
#include "plan/plan.h"
#include "plan/plan_names.h"

#include <stdio.h>

void
dop_plan_schedule_name(const dop_plan_schedule *schedule, char out[DOP_SCHEDULE_NAME])
{
    static const char *const kinds[] = {"?",       "decode",         "prefill",        "score",   "rows",  "embed",
                                        "encode",  "image",          "features",       "draft",   "audio", "context",
                                        "denoise", "decode_latents", "encode_picture", "encode_2"};
    _Static_assert(sizeof kinds / sizeof *kinds == DOP_SCHED_END, "each kind has a name");
    snprintf(out, DOP_SCHEDULE_NAME, "%s%u%s", kinds[schedule->kind], schedule->max_rows,
             schedule->adapted ? "_adapted" : "");
}

static void
disasm_dispatch(const dop_plan *plan, const dop_plan_dispatch *d, uint32_t index, dop_buf *out)
{
    const dop_plan_kernel *k = &plan->kernels[d->kernel];
    dop_buf_printf(out, "  %4u %c %-16s %-40s grid %u,%u,%u local %u,%u,%u", index,
                   d->flags & DOP_DISPATCH_BARRIER ? '|' : ' ', dop_plan_string(plan, d->label),
                   dop_plan_string(plan, k->name), d->grid[0], d->grid[1], d->grid[2], k->local[0], k->local[1],
                   k->local[2]);
    dop_buf_printf(out, " read %llu write %llu { %s }\n", (unsigned long long)d->bytes_read,
                   (unsigned long long)d->bytes_written, dop_plan_string(plan, d->ops));
    if (d->short_positions > 0)
        dop_buf_printf(out, "         up to %u positions: grid %u,1,%u\n", d->short_positions, d->short_groups,
                       d->short_splits);
    dop_buf_puts(out, "        ");
    if (dop_has_record(d->n_args))
        dop_buf_printf(out, " record+%llu:", (unsigned long long)d->record);
    for (uint32_t i = 0; i < d->n_args; i++) {
        const dop_plan_arg *a = &plan->args[d->first_arg + i];
        const char *value = dop_plan_string(plan, a->value);
        if (a->slot == DOP_ARG_NUMBERS) {
            dop_buf_printf(out, " numbers=%u,%u", (uint32_t)a->offset, (uint32_t)(a->offset >> 32));
            continue;
        }
        dop_buf_printf(out, " %s%s%s+%llu:%llu", value, value[0] ? "=" : "",
                       dop_plan_string(plan, plan->slots[a->slot].name), (unsigned long long)a->offset,
                       (unsigned long long)a->size);
        if (a->view)
            dop_buf_printf(out, "/view%u", a->view);
    }
    dop_buf_puts(out, "\n");
}

void
dop_plan_disasm(const dop_plan *plan, dop_buf *out)
{
    for (uint32_t i = 0; i < plan->n_schedules; i++) {
        const dop_plan_schedule *s = &plan->schedules[i];
        uint32_t barriers = 0;
        for (uint32_t j = 0; j < s->n_dispatches; j++)
            barriers += plan->dispatches[s->first_dispatch + j].flags & DOP_DISPATCH_BARRIER;
        char name[DOP_SCHEDULE_NAME];
        dop_plan_schedule_name(s, name);
        dop_buf_printf(out, "schedule %u %s profile %s dispatches %u (body %u) ", i, name,
                       dop_plan_string(plan, plan->profiles[s->profile].name), s->n_dispatches, s->n_body);
        if (s->ordering == DOP_ORDER_PERSISTENT)
            dop_buf_printf(out, "persistent, %u stages, barriers %u", s->n_stages, barriers);
        else
            dop_buf_printf(out, "barriers %u", barriers);
        dop_buf_puts(out, s->greedy ? " greedy\n" : "\n");
        for (uint32_t j = 0; j < s->n_dispatches; j++)
            disasm_dispatch(plan, &plan->dispatches[s->first_dispatch + j], j, out);
        for (uint32_t j = 0; j < s->n_stages; j++)
            disasm_dispatch(plan, &plan->dispatches[s->first_stage + j], j, out);
    }
}
