/* Profile in trace-event format (a JSON object with "traceEvents"): complete events, times in microseconds. */
#include "tools/profile/profile_trace.h"
#include "plan/disasm.h"
#include "plan/plan_names.h"
#include "tools/profile/profile.h"
#include "tools/profile/profile_stages.h"

#include <string.h>

void
dop_json_string(const char *text, dop_buf *out)
{
    dop_buf_puts(out, "\"");
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            dop_buf_printf(out, "\\%c", *c);
        else if (*c < 0x20 || *c == '<' || *c == 0x7f) /* escapes '<', as the text may be inside a script element */
            dop_buf_printf(out, "\\u%04x", *c);
        else
            dop_buf_append(out, c, 1);
    }
    dop_buf_puts(out, "\"");
}

enum { PROCESS = 1, LANE_HOST = 1, LANE_STEPS, LANE_DISPATCHES };

static void
name_lane(int lane, const char *name, dop_buf *out)
{
    dop_buf_printf(out, "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}},\n",
                   PROCESS, lane, name);
    dop_buf_printf(
        out, "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}},\n",
        PROCESS, lane, lane);
}

static void
begin_event(const dop_profile *p, int lane, const char *category, const char *name, double start_ms, double end_ms,
            dop_buf *out)
{
    dop_buf_printf(out, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"cat\":\"%s\",\"name\":", PROCESS, lane, category);
    dop_json_string(name, out);
    dop_buf_printf(out, ",\"ts\":%.3f,\"dur\":%.3f", (start_ms - p->origin_ms) * 1e3, (end_ms - start_ms) * 1e3);
}

static void
step_events(const dop_profile *p, size_t number, dop_buf *out)
{
    const dop_profile_step *s = &p->steps[number];
    const dop_plan *plan = p->info.plan;
    const dop_plan_schedule *sched = &plan->schedules[s->schedule];
    const double *t = &p->times[s->first_time];
    char name[DOP_SCHEDULE_NAME];
    dop_plan_schedule_name(sched, name);
    begin_event(p, LANE_STEPS, "step", name, t[0], t[s->n_dispatches], out);
    dop_buf_printf(out, ",\"args\":{\"step\":%zu,\"dispatches\":%u}},\n", number, s->n_dispatches);
    for (uint32_t i = 0; i < s->n_dispatches; i++) {
        const dop_plan_dispatch *d = &plan->dispatches[dop_profile_dispatch(p, s->schedule, i)];
        begin_event(p, LANE_DISPATCHES, "dispatch", dop_plan_string(plan, d->label), t[i], t[i + 1], out);
        dop_buf_puts(out, ",\"args\":{\"kernel\":");
        dop_json_string(dop_plan_string(plan, plan->kernels[d->kernel].name), out);
        dop_buf_puts(out, ",\"ops\":");
        dop_json_string(dop_plan_string(plan, d->ops), out);
        dop_buf_printf(out, ",\"grid\":\"%u x %u x %u\",\"bytes\":%llu,\"barrier\":%s}},\n", d->grid[0], d->grid[1],
                       d->grid[2], (unsigned long long)(d->bytes_read + d->bytes_written),
                       d->flags & DOP_DISPATCH_BARRIER ? "true" : "false");
    }
}

void
dop_profile_trace_json(const dop_profile *profile, dop_buf *out)
{
    const dop_profile *p = profile;
    const dop_plan *plan = p->info.plan;
    dop_buf_puts(out,
                 "{\"displayTimeUnit\":\"ms\",\n\"otherData\":{\"program\":\"doppler-exec " DOP_VERSION "\",\"date\":");
    dop_json_string(p->date, out);
    dop_buf_puts(out, ",\"model\":");
    dop_json_string(dop_plan_string(plan, plan->model->name), out);
    dop_buf_puts(out, ",\"weights\":");
    dop_json_string(dop_plan_string(plan, plan->model->quant), out);
    dop_buf_puts(out, ",\"device\":");
    dop_json_string(p->info.device->name, out);
    dop_buf_puts(out, ",\"driver\":");
    dop_json_string(p->info.device->driver, out);
    dop_buf_printf(out, ",\"planDigest\":\"%016llx\",\"calibrated\":%s},\n\"traceEvents\":[\n",
                   (unsigned long long)plan->digest, p->calibrated ? "true" : "false");
    dop_buf_printf(out, "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"doppler-exec\"}},\n",
                   PROCESS);
    name_lane(LANE_HOST, "host", out);
    name_lane(LANE_STEPS, "device: replays", out);
    name_lane(LANE_DISPATCHES, "device: dispatches", out);
    for (size_t i = 0; i < p->n_spans; i++) {
        const dop_profile_span *s = &p->spans[i];
        begin_event(p, LANE_HOST, "host", s->name, s->start_ms, s->end_ms, out);
        dop_buf_printf(out, ",\"args\":{\"number\":%u}},\n", s->number);
    }
    for (size_t i = 0; i < p->n_steps; i++)
        step_events(p, i, out);
    /* Final event without a trailing comma: the end of the profile. */
    double end = p->n_times ? p->times[p->n_times - 1] : p->origin_ms;
    dop_buf_printf(out, "{\"ph\":\"i\",\"pid\":%d,\"tid\":%d,\"s\":\"p\",\"name\":\"end\",\"ts\":%.3f}\n]}\n", PROCESS,
                   LANE_DISPATCHES, (end - p->origin_ms) * 1e3);
}
