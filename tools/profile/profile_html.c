/* Data of the profile's HTML page (assets/profile.html): one JSON object with times in microseconds since the start.
 *
 * host: [name, start, end, depth, number]; steps: [schedule, [times]]; schedules: {name, dispatches: [label, group,
 * kernel, ops, grid, bytes, barrier]}; tables: {title, total, rows: [group, variant, count, total, bytes]}. */
#include "tools/profile/profile_html.h"
#include "base/label.h"
#include "base/program/page.h"
#include "plan/disasm.h"
#include "plan/plan_names.h"
#include "tools/profile/profile.h"
#include "tools/profile/profile_stages.h"
#include "tools/profile/profile_trace.h"

#include <string.h>

static void
append_json_field(const char *name, const char *value, dop_buf *out)
{
    dop_buf_printf(out, "\"%s\":", name);
    dop_json_string(value, out);
    dop_buf_puts(out, ",");
}

static void
put_schedules(const dop_profile *p, dop_buf *out)
{
    const dop_plan *plan = p->info.plan;
    for (uint32_t i = 0; i < plan->n_schedules; i++) {
        const dop_plan_schedule *s = &plan->schedules[i];
        char name[DOP_SCHEDULE_NAME];
        dop_plan_schedule_name(s, name);
        dop_buf_printf(out, "%s{\"name\":\"%s\",\"dispatches\":[", i ? ",\n" : "", name);
        for (uint32_t j = 0; j < dop_profile_n_dispatches(p, i); j++) {
            const dop_plan_dispatch *d = &plan->dispatches[dop_profile_dispatch(p, i, j)];
            char group[96];
            dop_label_any_layer(dop_label_read(dop_plan_string(plan, d->label)), group, sizeof group);
            const char *texts[] = {dop_plan_string(plan, d->label), group,
                                   dop_plan_string(plan, plan->kernels[d->kernel].name), dop_plan_string(plan, d->ops)};
            dop_buf_puts(out, j ? ",\n[" : "[");
            for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
                dop_json_string(texts[k], out);
                dop_buf_puts(out, ",");
            }
            dop_buf_printf(out, "\"%u x %u x %u\",%llu,%d]", d->grid[0], d->grid[1], d->grid[2],
                           (unsigned long long)(d->bytes_read + d->bytes_written),
                           d->flags & DOP_DISPATCH_BARRIER ? 1 : 0);
        }
        dop_buf_puts(out, "]}");
    }
}

static void
put_tables(const dop_profile *p, dop_buf *out)
{
    for (size_t i = 0; i < p->n_totals; i++) {
        const dop_profile_total *t = &p->totals[i];
        const dop_plan_schedule *s = &p->info.plan->schedules[t->schedule];
        const char *comma = "";
        char name[DOP_SCHEDULE_NAME];
        dop_plan_schedule_name(s, name);
        dop_buf_printf(out, "%s{\"title\":\"%s: %llu replays, %.3f ms each\",\"total\":%.3f,\"rows\":[", i ? ",\n" : "",
                       name, (unsigned long long)t->steps, t->dispatch_ms / (double)t->steps, t->dispatch_ms * 1e3);
        for (size_t j = 0; j < p->n_groups; j++) {
            const dop_profile_group *g = &p->groups[j];
            if (g->schedule != t->schedule)
                continue;
            dop_buf_printf(out, "%s[", comma);
            dop_json_string(g->name, out);
            dop_buf_puts(out, ",");
            dop_json_string(g->variant, out);
            dop_buf_printf(out, ",%llu,%.3f,%llu]", (unsigned long long)g->count, g->total_ms * 1e3,
                           (unsigned long long)g->bytes);
            comma = ",";
        }
        dop_buf_puts(out, "]}");
    }
}

void
dop_profile_html(const dop_profile *profile, dop_buf *out)
{
    const dop_profile *p = profile;
    const dop_plan *plan = p->info.plan;
    char digest[17];
    dop_buf hex = {0};
    dop_buf_printf(&hex, "%016llx", (unsigned long long)plan->digest);
    memset(digest, 0, sizeof digest);
    if (hex.data)
        memcpy(digest, hex.data, sizeof digest - 1);
    dop_buf_finish(&hex);
    const char *rest = dop_page_fill(dop_page_profile, "data", out);
    dop_buf_puts(out, "{");
    append_json_field("program", "doppler-exec " DOP_VERSION, out);
    append_json_field("model", dop_plan_string(plan, plan->model->name), out);
    append_json_field("weights", dop_plan_string(plan, plan->model->quant), out);
    append_json_field("device", p->info.device->name, out);
    append_json_field("driver", p->info.device->driver, out);
    append_json_field("date", p->date, out);
    append_json_field("plan", digest, out);
    dop_buf_printf(out, "\"calibrated\":%s,\"floor\":%.6g,\n\"host\":[", p->calibrated ? "true" : "false",
                   p->floor_gbps);
    for (size_t i = 0; i < p->n_spans; i++) {
        const dop_profile_span *s = &p->spans[i];
        dop_buf_puts(out, i ? ",[" : "[");
        dop_json_string(s->name, out);
        dop_buf_printf(out, ",%.3f,%.3f,%u,%u]", (s->start_ms - p->origin_ms) * 1e3, (s->end_ms - p->origin_ms) * 1e3,
                       s->depth, s->number);
    }
    dop_buf_puts(out, "],\n\"schedules\":[");
    put_schedules(p, out);
    dop_buf_puts(out, "],\n\"steps\":[");
    for (size_t i = 0; i < p->n_steps; i++) {
        const dop_profile_step *s = &p->steps[i];
        dop_buf_printf(out, "%s[%u,[", i ? ",\n" : "", s->schedule);
        for (uint32_t j = 0; j <= s->n_dispatches; j++)
            dop_buf_printf(out, "%s%.3f", j ? "," : "", (p->times[s->first_time + j] - p->origin_ms) * 1e3);
        dop_buf_puts(out, "]]");
    }
    dop_buf_puts(out, "],\n\"tables\":[");
    put_tables(p, out);
    dop_buf_puts(out, "]}");
    dop_page_fill(rest, NULL, out);
}
