/* Profile as stage times, the input of dopplerc --simulate; see compiler/parts/stage_times.h. */
#include "tools/profile/profile_times.h"
#include "base/label.h"
#include "plan/plan_names.h"
#include "tools/bench/bench.h"
#include "tools/profile/profile.h"
#include "tools/profile/profile_stages.h"
#include "tools/profile/profile_trace.h"

#include <string.h>

/* Work of one or more dispatches. */
typedef struct work {
    double n, weights, bytes; /* number of dispatches; bytes of weights; all bytes read and written */
    double products;          /* multiplications of weights and values */
} work;

static const dop_plan_tensor *
tensor_at(const dop_plan *plan, const dop_plan_arg *a)
{
    for (uint32_t i = 0; i < plan->n_tensors; i++) {
        const dop_plan_tensor *t = &plan->tensors[i];
        const uint64_t size = t->experts > 1 ? t->expert_stride * t->experts : t->size;
        if (t->slot == a->slot && a->offset >= t->offset && a->offset - t->offset < size)
            return t;
    }
    return NULL;
}

static void
add_dispatch_work(const dop_plan *plan, uint32_t dispatch, uint32_t rows, work *io)
{
    const dop_plan_dispatch *d = &plan->dispatches[dispatch];
    double weights = 0, elements = 0;
    for (uint32_t j = 0; j < d->n_args; j++) {
        const dop_plan_arg *a = &plan->args[d->first_arg + j];
        if (a->slot == DOP_ARG_NUMBERS || plan->slots[a->slot].kind != DOP_SLOT_WEIGHTS)
            continue;
        const dop_plan_tensor *t = tensor_at(plan, a);
        weights += (double)a->size;
        elements += t ? (double)t->rows * t->cols * t->experts : 0;
    }
    /* Scales by the share of weights read: a gather reads a row of a large matrix, a step some experts. */
    const double read = (double)d->bytes_read;
    const double share = weights > read ? read / weights : 1;
    io->n += 1;
    io->weights += weights * share;
    io->bytes += read + (double)d->bytes_written;
    io->products += elements * share * rows;
}

static void
put_work(const work *w, double n, dop_buf *out)
{
    dop_buf_printf(out, ", weights: %.0f, bytes: %.0f, products: %.0f}\n", w->weights / n, w->bytes / n,
                   w->products / n);
}

static const char *
kind_of(const dop_plan_schedule *s)
{
    return s->kind == DOP_SCHED_DECODE    ? "decode"
           : s->kind == DOP_SCHED_PREFILL ? "prefill"
           : s->kind == DOP_SCHED_ROWS    ? "rows"
                                          : NULL;
}

static void
put_schedule(const dop_profile *p, const dop_profile_total *t, const dop_profile_whole *whole, dop_buf *out)
{
    const dop_plan *plan = p->info.plan;
    const dop_plan_schedule *s = &plan->schedules[t->schedule];
    const uint32_t n = dop_profile_n_dispatches(p, t->schedule);
    const char *kind = kind_of(s);
    work all = {0};
    if (!kind)
        return;
    for (uint32_t i = 0; i < n; i++)
        add_dispatch_work(plan, dop_profile_dispatch(p, t->schedule, i), s->max_rows, &all);
    dop_buf_printf(out, "- {step: %s, rows: %u, dispatches: %u, us: %.3f", kind, s->max_rows, n,
                   whole && whole->schedule == t->schedule ? whole->us : t->dispatch_ms * 1e3 / (double)t->steps);
    put_work(&all, 1, out);
    for (size_t i = 0; i < p->n_groups; i++) {
        const dop_profile_group *g = &p->groups[i];
        work own = {0};
        if (g->schedule != t->schedule || g->count == 0)
            continue;
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t at = dop_profile_dispatch(p, t->schedule, k);
            const dop_plan_dispatch *d = &plan->dispatches[at];
            char name[sizeof g->name];
            dop_label_any_layer(dop_label_read(dop_plan_string(plan, d->label)), name, sizeof name);
            if (strcmp(name, g->name) == 0 &&
                strcmp(dop_plan_string(plan, plan->kernels[d->kernel].variant), g->variant) == 0)
                add_dispatch_work(plan, at, s->max_rows, &own);
        }
        dop_buf_printf(out, "- {step: %s, rows: %u, op: %s, kernel: %s, count: %u, us: %.3f", kind, s->max_rows,
                       g->name, g->variant, g->n_layers, g->total_ms * 1e3 / (double)g->count);
        put_work(&own, own.n > 0 ? own.n : 1, out);
    }
}

void
dop_profile_times_yaml(const dop_profile *profile, const dop_profile_whole *whole, dop_buf *out)
{
    const dop_profile *p = profile;
    const dop_plan *plan = p->info.plan;
    dop_buf_puts(out, "# Stage times for dopplerc --simulate.  Rows without `op` are of whole steps.\n- {device: ");
    dop_json_string(p->info.device->name, out);
    dop_buf_puts(out, ", driver: ");
    dop_json_string(p->info.device->driver, out);
    dop_buf_puts(out, ", model: ");
    dop_json_string(dop_plan_string(plan, plan->model->name), out);
    dop_buf_puts(out, ", weights: ");
    dop_json_string(dop_plan_string(plan, plan->model->quant), out);
    dop_buf_printf(out, ", date: \"%.10s\"}\n", p->date);
    for (size_t i = 0; i < p->n_totals; i++)
        put_schedule(p, &p->totals[i], whole, out);
}
