#include "plan/trace.h"

#include "base/json/json.h"
#include "base/label.h"
#include "plan/disasm.h"
#include "plan/plan_names.h"

#include <string.h>

static void
put_trace_layer(const char *label, dop_buf *out)
{
    const dop_label l = dop_label_read(label);
    if (l.layer >= 0)
        dop_buf_printf(out, " layer=%d op=%s", (int)l.layer, l.role);
    else
        dop_buf_printf(out, " layer=- op=%s", l.role);
}

static void
put_trace_dispatch(const dop_plan *plan, const dop_plan_dispatch *d, const json_t *choices, dop_buf *out)
{
    const dop_plan_kernel *k = &plan->kernels[d->kernel];
    const char *name = dop_plan_string(plan, k->name);
    const char *why = json_string_value(json_object_get(choices, name));
    put_trace_layer(dop_plan_string(plan, d->label), out);
    dop_buf_printf(out, " ops={%s} shape=", dop_plan_string(plan, d->ops));
    for (uint32_t i = 0; i < d->n_args; i++) {
        const dop_plan_arg *a = &plan->args[d->first_arg + i];
        const char *value = dop_plan_string(plan, a->value);
        if (a->slot == DOP_ARG_NUMBERS)
            dop_buf_printf(out, "%s%u:%u", i ? "," : "", (uint32_t)a->offset, (uint32_t)(a->offset >> 32));
        else
            dop_buf_printf(out, "%s%s:%llu", i ? "," : "", value[0] ? value : "step", (unsigned long long)a->size);
    }
    dop_buf_printf(out, " grid=%ux%ux%u local=%ux%ux%u barrier=%s variant=%s kernel=%s why=\"%s\"\n", d->grid[0],
                   d->grid[1], d->grid[2], k->local[0], k->local[1], k->local[2],
                   d->flags & DOP_DISPATCH_BARRIER ? "yes" : "no", dop_plan_string(plan, k->variant), name,
                   why ? why : "-");
}

void
dop_trace_kernels(const dop_plan *plan, dop_buf *out)
{
    json_t *card = NULL;
    if (plan->card)
        dop_json_decode(plan->card, (size_t)plan->card_size, NULL, NULL, &card);
    const json_t *choices = json_object_get(card, "choices");
    for (uint32_t i = 0; i < plan->n_schedules; i++) {
        const dop_plan_schedule *s = &plan->schedules[i];
        char name[DOP_SCHEDULE_NAME];
        dop_plan_schedule_name(s, name);
        for (uint32_t j = 0; j < s->n_dispatches; j++) {
            dop_buf_puts(out, name);
            if (plan->n_profiles > 1)
                dop_buf_printf(out, " target=%s", dop_plan_string(plan, plan->profiles[s->profile].name));
            put_trace_dispatch(plan, &plan->dispatches[s->first_dispatch + j], choices, out);
        }
    }
    json_decref(card);
}
