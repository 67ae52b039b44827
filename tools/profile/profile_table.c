#include "tools/profile/profile_table.h"
#include "base/label.h"
#include "plan/disasm.h"
#include "plan/plan_names.h"
#include "tools/profile/profile.h"
#include "tools/profile/profile_stages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dop_profile_group *
group_of(dop_profile *p, uint32_t schedule, const char *name, const char *variant)
{
    for (size_t i = 0; i < p->n_groups; i++)
        if (p->groups[i].schedule == schedule && strcmp(p->groups[i].name, name) == 0 &&
            strcmp(p->groups[i].variant, variant) == 0)
            return &p->groups[i];
    dop_profile_group *g = &p->groups[p->n_groups++];
    memset(g, 0, sizeof *g);
    g->schedule = schedule;
    snprintf(g->name, sizeof g->name, "%s", name);
    g->variant = variant;
    return g;
}

static dop_profile_total *
total_of(dop_profile *p, uint32_t schedule)
{
    for (size_t i = 0; i < p->n_totals; i++)
        if (p->totals[i].schedule == schedule)
            return &p->totals[i];
    dop_profile_total *t = &p->totals[p->n_totals++];
    memset(t, 0, sizeof *t);
    t->schedule = schedule;
    return t;
}

/* Orders groups by schedule, then by decreasing time. */
static int
compare_groups(const void *a, const void *b)
{
    const dop_profile_group *x = a, *y = b;
    if (x->schedule != y->schedule)
        return x->schedule < y->schedule ? -1 : 1;
    if (x->total_ms != y->total_ms)
        return x->total_ms > y->total_ms ? -1 : 1;
    int by_name = strcmp(x->name, y->name);
    return by_name ? by_name : strcmp(x->variant, y->variant);
}

/* Assigns each dispatch of a schedule to a group; done once, since steps repeat. */
static void
assign_groups(dop_profile *p, uint32_t schedule, uint32_t *group_rows)
{
    const dop_plan *plan = p->info.plan;
    for (uint32_t k = 0; k < dop_profile_n_dispatches(p, schedule); k++) {
        char name[sizeof p->groups->name];
        const uint32_t j = dop_profile_dispatch(p, schedule, k);
        const dop_plan_dispatch *d = &plan->dispatches[j];
        dop_label_any_layer(dop_label_read(dop_plan_string(plan, d->label)), name, sizeof name);
        dop_profile_group *g = group_of(p, schedule, name, dop_plan_string(plan, plan->kernels[d->kernel].variant));
        g->n_layers++;
        group_rows[j] = (uint32_t)(g - p->groups);
    }
}

dop_status
dop_profile_sum_up(dop_profile *profile, dop_diag *diag)
{
    dop_profile *p = profile;
    const dop_plan *plan = p->info.plan;
    p->groups = calloc((size_t)plan->n_dispatches + 1, sizeof *p->groups);
    p->totals = calloc((size_t)plan->n_schedules + 1, sizeof *p->totals);
    uint32_t *rows = calloc((size_t)plan->n_dispatches + 1, sizeof *rows);
    bool *used = calloc((size_t)plan->n_schedules + 1, sizeof *used);
    if (!p->groups || !p->totals || !rows || !used) {
        free(rows);
        free(used);
        return DOP_NO_MEMORY(diag);
    }
    for (size_t i = 0; i < p->n_steps; i++) {
        if (!used[p->steps[i].schedule])
            assign_groups(p, p->steps[i].schedule, rows);
        used[p->steps[i].schedule] = true;
    }
    for (size_t i = 0; i < p->n_steps; i++) {
        const dop_profile_step *s = &p->steps[i];
        const double *t = &p->times[s->first_time];
        dop_profile_total *total = total_of(p, s->schedule);
        total->steps++;
        total->dispatch_ms += t[s->n_dispatches] - t[0];
        if (i > 0 && p->steps[i - 1].schedule == s->schedule) {
            const dop_profile_step *before = &p->steps[i - 1];
            total->gap_ms += t[0] - p->times[before->first_time + before->n_dispatches];
            total->n_gaps++;
        }
        for (uint32_t j = 0; j < s->n_dispatches; j++) {
            const uint32_t row = dop_profile_dispatch(p, s->schedule, j);
            const dop_plan_dispatch *d = &plan->dispatches[row];
            dop_profile_group *g = &p->groups[rows[row]];
            g->count++;
            g->bytes += d->bytes_read + d->bytes_written;
            g->total_ms += t[j + 1] - t[j];
        }
    }
    qsort(p->groups, p->n_groups, sizeof *p->groups, compare_groups);
    free(rows);
    free(used);
    return DOP_OK;
}

static void
append_group_row(const dop_profile *p, const dop_profile_group *g, double all_ms, dop_buf *out)
{
    double gbps = g->total_ms > 0 ? (double)g->bytes * 1e-6 / g->total_ms : 0;
    dop_buf_printf(out, "  %-18s %-28s %8llu %10.3f %10.2f %6.1f%% %11.3f %9.2f", g->name, g->variant,
                   (unsigned long long)g->count, g->total_ms, g->count ? g->total_ms * 1e3 / (double)g->count : 0,
                   all_ms > 0 ? 100 * g->total_ms / all_ms : 0,
                   g->count ? (double)g->bytes * 1e-6 / (double)g->count : 0, gbps);
    if (p->floor_gbps > 0)
        dop_buf_printf(out, " %6.1f%%", 100 * gbps / p->floor_gbps);
    dop_buf_puts(out, "\n");
}

static void
table_of_schedule(const dop_profile *p, const dop_profile_total *t, dop_buf *out)
{
    const dop_plan_schedule *s = &p->info.plan->schedules[t->schedule];
    char name[DOP_SCHEDULE_NAME];
    dop_plan_schedule_name(s, name);
    dop_buf_printf(out, "\n%s: %llu replay%s, %.3f ms each on the device", name, (unsigned long long)t->steps,
                   t->steps == 1 ? "" : "s", t->dispatch_ms / (double)t->steps);
    if (t->n_gaps > 0)
        dop_buf_printf(out, ", %.3f ms between them", t->gap_ms / (double)t->n_gaps);
    dop_buf_printf(out, "\n  %-18s %-28s %8s %10s %10s %7s %11s %9s%s\n", "kernel", "variant", "count", "total ms",
                   "mean us", "share", "MB each", "GB/s", p->floor_gbps > 0 ? "   floor" : "");
    dop_profile_group sum = {.name = "all", .variant = ""};
    for (size_t i = 0; i < p->n_groups; i++) {
        const dop_profile_group *g = &p->groups[i];
        if (g->schedule != t->schedule)
            continue;
        append_group_row(p, g, t->dispatch_ms, out);
        sum.bytes += g->bytes;
        sum.count += g->count;
        sum.total_ms += g->total_ms;
    }
    append_group_row(p, &sum, t->dispatch_ms, out);
}

void
dop_profile_table(const dop_profile *profile, dop_buf *out)
{
    const dop_profile *p = profile;
    const dop_plan *plan = p->info.plan;
    dop_buf_printf(out, "%s, %s on %s (%s), %s\n", dop_plan_string(plan, plan->model->name),
                   dop_plan_string(plan, plan->model->quant), p->info.device->name, p->info.device->driver, p->date);
    dop_buf_printf(out,
                   "device clock: %s; bytes are what each dispatch reads and writes, without attention's share of "
                   "the cache%s\n",
                   p->calibrated ? "calibrated with the host's" : "placed beside the host's by guess",
                   p->floor_gbps > 0 ? "; floor: GB/s against the device's read bandwidth" : "");
    for (uint32_t o = DOP_ORDER_BARRIERS + 1; o < DOP_N_ORDERS && p->info.ordering == DOP_ORDER_BARRIERS; o++)
        if (dop_plan_decodes(plan, p->info.profile, o))
            dop_buf_printf(out, "decode steps are those ordered by barriers; runs may take others: --ordering %s\n",
                           dop_plan_ordering_name(o));
    if (p->stage_shares)
        dop_buf_puts(out, "stages of a persistent dispatch: what it takes longer for each, of runs that end there\n");
    for (size_t i = 0; i < p->n_totals; i++)
        table_of_schedule(p, &p->totals[i], out);
}
