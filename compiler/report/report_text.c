/* Writes the report as text. */
#include "compiler/report/report_text.h"
#include "compiler/report/report.h"
#include "compiler/report/report_parts.h"
#include "compiler/report/report_rules.h"
#include "compiler/report/report_weights.h"
#include "compiler/schedule/persistent.h"

#include <stdio.h>
#include <string.h>

static void
put_text_totals(const dop_report_schedule *s, dop_buf *out)
{
    const dop_report_totals *t[2] = {&s->before, &s->after};
    dop_buf_printf(out, "  %-22s %10s %10s %14s %14s %14s %14s\n", "", "dispatches", "barriers", "read/token",
                   "written/token", "activations", "if not shared");
    for (int i = 0; i < 2; i++) {
        char a[32], b[32], c[32], d[32];
        dop_buf_printf(out, "  %-22s %10u %10u %14s %14s %14s %14s\n", i ? "fused" : "one dispatch per op",
                       t[i]->dispatches, t[i]->barriers, dop_report_bytes(t[i]->read, a, sizeof a),
                       dop_report_bytes(t[i]->written, b, sizeof b),
                       dop_report_bytes((double)t[i]->activations, c, sizeof c),
                       dop_report_bytes((double)t[i]->unshared, d, sizeof d));
    }
}

static void
put_text_rows(const dop_report_schedule *s, dop_buf *out)
{
    dop_buf_puts(out, "\n  regions; bytes and floor time are of all of a row, per token\n"
                      "    count       read    written   floor us  groups  label      kernel               ops\n");
    for (uint32_t i = 0; i < s->n_rows; i++) {
        const dop_report_row *r = &s->rows[i];
        char a[32], b[32];
        dop_buf_printf(out, "    %5u %10s %10s %10.3f %7u  %-10s %-20s %s\n", r->count,
                       dop_report_bytes(r->read, a, sizeof a), dop_report_bytes(r->written, b, sizeof b), r->floor_us,
                       r->workgroups, r->label, r->variant, r->ops);
    }
}

static void
put_text_fusions(const dop_report_schedule *s, dop_buf *out)
{
    uint32_t dispatches = 0;
    const char *add, *norm;
    dop_buf_puts(out, "\n  fused; saved per token\n    edges dispatches      bytes  rule               pass\n");
    for (uint32_t i = 0; i < s->n_fusions; i++) {
        const dop_report_fusion *f = &s->fusions[i];
        char a[32];
        dispatches += f->dispatches;
        dop_buf_printf(out, "    %5u %10u %10s  %-18s %-14s %s -> %s\n", f->count, f->dispatches,
                       dop_report_bytes(f->bytes, a, sizeof a), f->rule, f->pass, f->producer, f->consumer);
    }
    if (dop_report_residual_rules(s, &add, &norm))
        dop_buf_printf(out, "    residual+rmsnorm: done as %s and %s\n", add, norm);
    dop_buf_printf(out, "    %u ops became %u when norms, attention and arg-max were split; dispatches saved: %u\n",
                   s->before.dispatches, s->after.dispatches + dispatches, dispatches);
}

static void
put_text_refusals(const dop_report_schedule *s, dop_buf *out)
{
    dop_buf_puts(out, "\n  refused neighbours; what a fusion would save per token\n"
                      "    pairs      bytes  reason              pair\n");
    for (uint32_t i = 0; i < s->n_refusals; i++) {
        const dop_report_refusal *f = &s->refusals[i];
        char a[32];
        dop_buf_printf(out, "    %5u %10s  %-18s  %s %s -> %s %s  (%s)\n", f->count,
                       dop_report_bytes(f->bytes, a, sizeof a), f->reason ? dop_reason_code(f->reason) : "not-tried",
                       f->from, f->producer, f->to, f->consumer, f->reasons);
    }
}

static void
put_text_classes(const dop_report_schedule *s, dop_buf *out)
{
    dop_buf_puts(out, "\n  viability: producer into consumer, fused and refused edges\n");
    for (int i = 0; i < DOP_REPORT_CLASSES; i++) {
        const dop_report_class *c = &s->classes[i];
        char name[32];
        snprintf(name, sizeof name, "%s/%s", c->producer, c->consumer);
        dop_buf_printf(out, "    %-20s %5u fused %5u refused", name, c->fused, c->refused);
        const char *sep = ": ";
        for (int r = 1; r < DOP_REASON_COUNT; r++)
            if (c->reasons[r]) {
                dop_buf_printf(out, "%s%s %u", sep, dop_reason_code((dop_reason)r), c->reasons[r]);
                sep = ", ";
            }
        dop_buf_printf(out, "\n      %s\n", c->why);
    }
}

static void
put_text_weights(const dop_report *r, dop_buf *out)
{
    dop_buf_puts(out, "\nweights\n    count      bytes  stored      packed\n");
    for (uint32_t i = 0; i < r->n_weights; i++) {
        const dop_report_weights_row *w = &r->weights_rows[i];
        char a[32], why[160];
        dop_report_weights_why(w, why, sizeof why);
        dop_buf_printf(out, "    %5u %10s  %-10s  %-10s  %s%s\n", w->count,
                       dop_report_bytes((double)w->bytes, a, sizeof a), w->stored ? dop_type_of(w->stored)->name : "-",
                       dop_type_of(w->packed)->name, w->how, why);
    }
}

void
dop_report_text(const dop_report *r, dop_buf *out)
{
    const dop_compilation *c = r->c;
    char a[32], b[32], d[32], e[32], f[32];
    dop_buf_printf(out, "%s (%s), target %s, context %u, kernel path %s, %u distinct kernels\n",
                   c->model.name ? c->model.name : "model", c->model.arch.family, c->target->name, c->ctx,
                   c->path_name ? c->path_name : "default", c->kernels.n);
    dop_buf_printf(out, "memory: weights %s, caches %s, activations %s, logits %s, kernels %s\n",
                   dop_report_bytes((double)r->weights, a, sizeof a), dop_report_bytes((double)r->caches, b, sizeof b),
                   dop_report_bytes((double)r->activations, d, sizeof d),
                   dop_report_bytes((double)r->results, e, sizeof e),
                   dop_report_bytes((double)r->kernels, f, sizeof f));
    dop_buf_printf(out, "traffic is counted with %u cached positions; floors at %.4g GB/s\n", DOP_REPORT_DEPTH,
                   c->target->bandwidth / 1e9);
    dop_report_parts_text(r, out);
    put_text_weights(r, out);
    for (uint32_t i = 0; i < r->n_schedules; i++) {
        const dop_report_schedule *s = &r->schedules[i];
        double floor = (s->after.read + s->after.written) / c->target->bandwidth * 1e6;
        dop_buf_printf(out,
                       "\n%s: %u dispatch%s per layer and %u outside, %u distinct kernel%s, floor %.3f us per token\n",
                       dop_schedule_name(s->s), s->per_layer, s->per_layer == 1 ? "" : "es", s->outside, s->kernels,
                       s->kernels == 1 ? "" : "s", floor);
        char says[256];
        if (*dop_persistent_says(s->s, says, sizeof says))
            dop_buf_printf(out, "  %s\n", says);
        put_text_totals(s, out);
        put_text_rows(s, out);
        put_text_fusions(s, out);
        put_text_refusals(s, out);
        put_text_classes(s, out);
    }
    dop_buf_puts(out, "\nreasons\n");
    for (int x = 1; x < DOP_REASON_COUNT; x++)
        dop_buf_printf(out, "  %-18s %s\n", dop_reason_code((dop_reason)x), dop_reason_text((dop_reason)x));
}
