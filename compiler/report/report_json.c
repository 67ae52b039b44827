/* Writes the report as JSON; report_json.h has the schema. */
#include "compiler/report/report_json.h"
#include "compiler/report/report.h"
#include "compiler/report/report_parts.h"
#include "compiler/schedule/persistent.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static json_t *
make_number(double v)
{
    return json_real(v);
}

static json_t *
make_integer(uint64_t v)
{
    return json_integer((json_int_t)v);
}

/* Makes a list of words: "a b c" becomes ["a", "b", "c"]. */
static json_t *
make_word_list(const char *text)
{
    json_t *list = json_array();
    while (*text) {
        size_t n = strcspn(text, " ");
        json_array_append_new(list, json_stringn(text, n));
        text += n + (text[n] == ' ');
    }
    return list;
}

static json_t *
make_totals(const dop_report_totals *t)
{
    json_t *o = json_object();
    json_object_set_new(o, "dispatches", make_integer(t->dispatches));
    json_object_set_new(o, "barriers", make_integer(t->barriers));
    json_object_set_new(o, "bytes_read", make_number(t->read));
    json_object_set_new(o, "bytes_written", make_number(t->written));
    json_object_set_new(o, "activation_bytes", make_integer(t->activations));
    json_object_set_new(o, "unshared_bytes", make_integer(t->unshared));
    return o;
}

static json_t *
list_regions(const dop_report_schedule *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->n_rows; i++) {
        const dop_report_row *r = &s->rows[i];
        json_t *o = json_object();
        json_object_set_new(o, "label", json_string(r->label));
        json_object_set_new(o, "template", json_string(r->tpl));
        json_object_set_new(o, "variant", json_string(r->variant));
        json_object_set_new(o, "why", json_string(r->why));
        json_object_set_new(o, "ops", make_word_list(r->ops));
        json_object_set_new(o, "count", make_integer(r->count));
        json_object_set_new(o, "bytes_read", make_number(r->read));
        json_object_set_new(o, "bytes_written", make_number(r->written));
        json_object_set_new(o, "floor_us", make_number(r->floor_us));
        json_object_set_new(o, "workgroups", make_integer(r->workgroups));
        json_object_set_new(o, "kernel", make_integer(r->kernel));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *
list_fusions(const dop_report_schedule *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->n_fusions; i++) {
        const dop_report_fusion *f = &s->fusions[i];
        json_t *o = json_object();
        json_object_set_new(o, "rule", json_string(f->rule));
        json_object_set_new(o, "pass", json_string(f->pass));
        json_object_set_new(o, "producer", json_string(f->producer));
        json_object_set_new(o, "consumer", json_string(f->consumer));
        json_object_set_new(o, "count", make_integer(f->count));
        json_object_set_new(o, "bytes", make_number(f->bytes));
        json_object_set_new(o, "dispatches", make_integer(f->dispatches));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *
list_refusals(const dop_report_schedule *s)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->n_refusals; i++) {
        const dop_report_refusal *f = &s->refusals[i];
        json_t *o = json_object();
        json_object_set_new(o, "producer", json_string(f->producer));
        json_object_set_new(o, "consumer", json_string(f->consumer));
        json_object_set_new(o, "from", json_string(f->from));
        json_object_set_new(o, "to", json_string(f->to));
        json_object_set_new(o, "reason", json_string(f->reason ? dop_reason_code(f->reason) : "not-tried"));
        json_object_set_new(o, "reasons", json_string(f->reasons));
        json_object_set_new(o, "count", make_integer(f->count));
        json_object_set_new(o, "bytes", make_number(f->bytes));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *
list_viability(const dop_report_schedule *s)
{
    json_t *list = json_array();
    for (int i = 0; i < DOP_REPORT_CLASSES; i++) {
        const dop_report_class *c = &s->classes[i];
        json_t *o = json_object(), *reasons = json_object();
        json_object_set_new(o, "producer", json_string(c->producer));
        json_object_set_new(o, "consumer", json_string(c->consumer));
        json_object_set_new(o, "why", json_string(c->why));
        json_object_set_new(o, "fused", make_integer(c->fused));
        json_object_set_new(o, "refused", make_integer(c->refused));
        for (int r = 1; r < DOP_REASON_COUNT; r++)
            if (c->reasons[r])
                json_object_set_new(reasons, dop_reason_code((dop_reason)r), make_integer(c->reasons[r]));
        json_object_set_new(o, "reasons", reasons);
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *
make_schedule_json(const dop_report_schedule *s)
{
    json_t *o = json_object();
    json_object_set_new(o, "name", json_string(dop_schedule_name(s->s)));
    json_object_set_new(o, "tokens", make_integer(s->tokens));
    json_object_set_new(o, "dispatches_per_layer", make_integer(s->per_layer));
    json_object_set_new(o, "dispatches_outside", make_integer(s->outside));
    json_object_set_new(o, "distinct_kernels", make_integer(s->kernels));
    char says[256];
    if (*dop_persistent_says(s->s, says, sizeof says))
        json_object_set_new(o, "persistent", json_string(says));
    json_object_set_new(o, "before", make_totals(&s->before));
    json_object_set_new(o, "after", make_totals(&s->after));
    json_object_set_new(o, "regions", list_regions(s));
    json_object_set_new(o, "fusions", list_fusions(s));
    json_object_set_new(o, "refusals", list_refusals(s));
    json_object_set_new(o, "viability", list_viability(s));
    return o;
}

static json_t *
list_weight_rows(const dop_report *r)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->n_weights; i++) {
        const dop_report_weights_row *w = &r->weights_rows[i];
        json_t *o = json_object();
        json_object_set_new(o, "stored", w->stored ? json_string(dop_type_of(w->stored)->name) : json_null());
        json_object_set_new(o, "packed", json_string(dop_type_of(w->packed)->name));
        json_object_set_new(o, "asked", json_string(dop_type_of(w->asked)->name));
        json_object_set_new(o, "columns", w->cols ? make_integer(w->cols) : json_null());
        json_object_set_new(o, "count", make_integer(w->count));
        json_object_set_new(o, "experts", make_integer(w->experts));
        json_object_set_new(o, "bytes", make_integer(w->bytes));
        json_object_set_new(o, "how", json_string(w->how));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *
list_capabilities(uint32_t caps)
{
    json_t *list = json_array();
#define CAP(bit, name, what)   \
    if (caps & DOP_CAP_##name) \
        json_array_append_new(list, json_string(#name));
    DOP_CAPS(CAP)
#undef CAP
    return list;
}

dop_status
dop_report_json(const dop_report *r, dop_diag *diag, dop_buf *out)
{
    const dop_compilation *c = r->c;
    json_t *o = json_object(), *x = json_object(), *list = json_array();
    json_object_set_new(o, "format", json_string("doppler-report 1"));
    json_object_set_new(x, "name", json_string(c->model.name ? c->model.name : "model"));
    json_object_set_new(x, "family", json_string(c->model.arch.family));
    json_object_set_new(x, "context", make_integer(c->ctx));
    json_object_set_new(o, "model", x);
    x = json_object();
    json_object_set_new(x, "name", json_string(c->target->name));
    json_object_set_new(x, "bandwidth", make_number(c->target->bandwidth));
    json_object_set_new(x, "capabilities", list_capabilities(c->target->caps));
    json_object_set_new(o, "target", x);
    json_object_set_new(o, "kernel_path", c->path_name ? json_string(c->path_name) : json_null());
    json_object_set_new(o, "distinct_kernels", make_integer(c->kernels.n));
    x = json_object();
    json_object_set_new(x, "weights", make_integer(r->weights));
    json_object_set_new(x, "caches", make_integer(r->caches));
    json_object_set_new(x, "activations", make_integer(r->activations));
    json_object_set_new(x, "results", make_integer(r->results));
    json_object_set_new(x, "kernels", make_integer(r->kernels));
    json_object_set_new(o, "memory", x);
    json_object_set_new(o, "weights", list_weight_rows(r));
    for (uint32_t i = 0; i < r->n_schedules; i++)
        json_array_append_new(list, make_schedule_json(&r->schedules[i]));
    json_object_set_new(o, "schedules", list);
    dop_report_parts_json(r, o);
    x = json_object();
    for (int i = 1; i < DOP_REASON_COUNT; i++)
        json_object_set_new(x, dop_reason_code((dop_reason)i), json_string(dop_reason_text((dop_reason)i)));
    json_object_set_new(o, "reasons", x);
    char *text = json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    json_decref(o);
    if (!text)
        return DOP_NO_MEMORY(diag);
    dop_buf_puts(out, text);
    dop_buf_puts(out, "\n");
    free(text);
    return DOP_OK;
}
