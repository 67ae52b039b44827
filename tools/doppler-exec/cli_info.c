/* Inspection modes: --info, --disasm, --trace-kernels, --list-devices. */
#include "tools/doppler-exec/cli_info.h"
#include "base/json/json.h"
#include "base/label.h"
#include "plan/disasm.h"
#include "plan/plan_names.h"
#include "plan/plan_part.h"
#include "plan/plan_ranges.h"
#include "plan/trace.h"
#include "runtime/device/device.h"
#include "runtime/model/info.h"
#include "tools/doppler-exec/common/cli.h"
#include "tools/doppler-exec/common/cli_common.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static dop_status
print_device(void *user, const dop_device_facts *facts, dop_diag *diag)
{
    (void)user;
    return dop_cli_print_line(facts->line, diag);
}

dop_status
dop_mode_list_devices(dop_cli *cli, dop_diag *diag)
{
    (void)cli;
    return dop_devices(print_device, NULL, diag);
}

dop_status
dop_cli_each_part(const dop_cli *cli, dop_part_fn *fn, void *user, dop_diag *diag)
{
    const char *path;
    dop_plan plan;
    dop_status st = dop_cli_plan(cli, diag, &path);
    if (st != DOP_OK)
        return st;
    /* A file that holds one part is a plan by itself. */
    uint32_t n = access(path, F_OK) != 0 || dop_plan_is_set(path) ? dop_plan_count_parts(path) : 1;
    n = n > 0 ? n : 1; /* if the number is unknown, opening the plan reports the reason */
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        if (n > 1 && dop_plan_lacks_part(path, i)) {
            st = fn(user, NULL, n, i, diag);
            continue;
        }
        st = dop_plan_open_part(path, n > 1 ? n : 0, i, diag, &plan);
        if (st != DOP_OK)
            return st;
        st = fn(user, &plan, n, i, diag);
        dop_plan_close(&plan);
    }
    return st;
}

/* Collects the output of a function over all parts of a plan. */
typedef struct part_texts {
    void (*put)(const dop_plan *plan, dop_buf *out);
    dop_buf text;
} part_texts;

static dop_status
write_part(void *user, const dop_plan *plan, uint32_t n, uint32_t i, dop_diag *diag)
{
    part_texts *x = user;
    (void)diag;
    if (n > 1)
        dop_buf_printf(&x->text, "part %u of %u%s\n", i, n, plan ? "" : ": its file is not here");
    if (plan)
        x->put(plan, &x->text);
    return DOP_OK;
}

static dop_status
print_parts(const dop_cli *cli, void (*put)(const dop_plan *, dop_buf *), dop_diag *diag)
{
    part_texts x = {.put = put};
    dop_status st = DOP_OK;
    DOP_TRY(dop_cli_each_part(cli, write_part, &x, diag));
    DOP_TRY(dop_cli_print_buf(&x.text, diag));
error:
    dop_buf_finish(&x.text);
    return st;
}

dop_status
dop_mode_disasm(dop_cli *cli, dop_diag *diag)
{
    return print_parts(cli, dop_plan_disasm, diag);
}

dop_status
dop_mode_trace(dop_cli *cli, dop_diag *diag)
{
    return print_parts(cli, dop_trace_kernels, diag);
}

/* Statistics of one schedule. */
typedef struct schedule_facts {
    uint32_t barriers, outside;
    uint32_t layer_min, layer_max; /* fewest and most dispatches in a layer */
    uint32_t layers;
    uint64_t bytes_read, bytes_written;
} schedule_facts;

static bool
count_schedule(const dop_plan *plan, const dop_plan_schedule *s, schedule_facts *out)
{
    uint32_t n_layers = plan->model->n_layers < 65536 ? plan->model->n_layers : 65536;
    uint32_t *layers = calloc((size_t)n_layers + 1, sizeof *layers);
    if (!layers)
        return false;
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < s->n_dispatches; i++) {
        const dop_plan_dispatch *d = &plan->dispatches[s->first_dispatch + i];
        const int32_t layer = dop_label_read(dop_plan_string(plan, d->label)).layer;
        out->barriers += d->flags & DOP_DISPATCH_BARRIER;
        out->bytes_read += d->bytes_read;
        out->bytes_written += d->bytes_written;
        if (layer >= 0 && (uint32_t)layer < n_layers)
            layers[layer]++;
        else
            out->outside++;
    }
    for (uint32_t i = 0; i < n_layers; i++) {
        if (layers[i] == 0)
            continue;
        if (out->layers++ == 0 || layers[i] < out->layer_min)
            out->layer_min = layers[i];
        if (layers[i] > out->layer_max)
            out->layer_max = layers[i];
    }
    free(layers);
    return true;
}

static const char *const slot_names[] = {"?",      "weights",   "cache",  "activations", "step record", "results",
                                         "counts", "mailboxes", "stages", "received",    "sent"};

/* Writes the part's number and the values passed between parts for each token. */
static void
info_crossings(const dop_plan *plan, dop_buf *out)
{
    const dop_plan_part *p = plan->part;
    if (!p)
        return;
    dop_buf_printf(out, "%-11s %u of %u: layers %u to %u of %u; set %016llx\n", "part", p->number, p->n_parts,
                   p->first_layer, p->end_layer - 1, plan->model->n_layers, (unsigned long long)p->set);
    for (uint32_t way = DOP_CROSSING_RECEIVED; way <= DOP_CROSSING_SENT; way++) {
        uint64_t bytes = 0;
        dop_buf names = {0};
        for (uint32_t i = 0; i < plan->n_crossings; i++) {
            const dop_plan_crossing *x = &plan->crossings[i];
            const dop_plan_schedule *s = &plan->schedules[x->schedule];
            if (x->way != way || s->kind != DOP_SCHED_DECODE || s->ordering != DOP_ORDER_BARRIERS)
                continue;
            bytes += x->row_bytes;
            dop_buf_printf(&names, " %s", dop_plan_string(plan, x->name));
        }
        if (names.size)
            dop_buf_printf(out, "%-11s%s: %llu bytes a token\n", way == DOP_CROSSING_SENT ? "sends" : "receives",
                           names.data, (unsigned long long)bytes);
        dop_buf_finish(&names);
    }
}

static void
schedule_text(const dop_plan *plan, const dop_plan_schedule *s, const schedule_facts *f, dop_buf *out)
{
    char name[DOP_SCHEDULE_NAME];
    dop_plan_schedule_name(s, name);
    dop_buf_printf(out, "%-11s %s: %u dispatches, ", s == plan->schedules ? "schedules" : "", name, s->n_dispatches);
    if (s->ordering == DOP_ORDER_PERSISTENT)
        dop_buf_printf(out, "the first of them %u persistent stages, %u barriers", s->n_stages, f->barriers);
    else
        dop_buf_printf(out, "%u barriers", f->barriers);
    if (f->layers > 0 && f->layer_min == f->layer_max)
        dop_buf_printf(out, "; %u in each of %u layers, %u outside", f->layer_max, f->layers, f->outside);
    else if (f->layers > 0)
        dop_buf_printf(out, "; %u to %u in each of %u layers, %u outside", f->layer_min, f->layer_max, f->layers,
                       f->outside);
    dop_buf_printf(out, "; reads %.2f MiB, writes %.2f MiB", (double)f->bytes_read / (1 << 20),
                   (double)f->bytes_written / (1 << 20));
    if (plan->n_profiles > 1)
        dop_buf_printf(out, " (%s)", dop_plan_string(plan, plan->profiles[s->profile].name));
    dop_buf_puts(out, "\n");
}

static json_t *
schedule_json(const dop_plan *plan, const dop_plan_schedule *s, const schedule_facts *f)
{
    char name[DOP_SCHEDULE_NAME];
    dop_plan_schedule_name(s, name);
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "name", name, "ordering",
                     dop_plan_ordering_name(s->ordering), "profile",
                     dop_plan_string(plan, plan->profiles[s->profile].name), "maxRows", (json_int_t)s->max_rows,
                     "dispatches", (json_int_t)s->n_dispatches, "barriers", (json_int_t)f->barriers, "layers",
                     (json_int_t)f->layers, "layerDispatchesMin", (json_int_t)f->layer_min, "layerDispatchesMax",
                     (json_int_t)f->layer_max, "outsideLayers", (json_int_t)f->outside, "bytesRead",
                     (json_int_t)f->bytes_read, "bytesWritten", (json_int_t)f->bytes_written);
}

/* Writes all schedules as lines of text or as entries of a JSON list; one of `text` and `list` is NULL. */
static bool
info_schedules(const dop_plan *plan, dop_buf *text, json_t *list)
{
    for (uint32_t i = 0; i < plan->n_schedules; i++) {
        schedule_facts f;
        if (!count_schedule(plan, &plan->schedules[i], &f))
            return false;
        if (text)
            schedule_text(plan, &plan->schedules[i], &f, text);
        else
            json_array_append_new(list, schedule_json(plan, &plan->schedules[i], &f));
    }
    return true;
}

static void
info_memory(const dop_plan *plan, dop_buf *out)
{
    for (uint32_t p = 0; p < plan->n_profiles; p++) {
        uint64_t bytes[DOP_SLOT_KINDS];
        out->failed = dop_used_memory(plan, p, NULL, bytes) != DOP_OK || out->failed;
        dop_buf_printf(out, "%-11s", p ? "" : "memory");
        for (uint32_t kind = DOP_SLOT_WEIGHTS; kind < DOP_SLOT_KINDS && (kind <= DOP_SLOT_TABLE || plan->part); kind++)
            dop_buf_printf(out, "%s %s %.2f MiB", kind > 1 ? "," : "", slot_names[kind],
                           (double)bytes[kind] / (1 << 20));
        if (plan->n_profiles > 1)
            dop_buf_printf(out, " (%s)", dop_plan_string(plan, plan->profiles[p].name));
        dop_buf_puts(out, "\n");
    }
}

/* Writes the build settings recorded in the plan's card. */
static void
info_made(const dop_plan *plan, dop_buf *out)
{
    static const struct {
        const char *key, *label;
    } rows[] = {{"quant", "quant"},     {"imatrix", "imatrix"}, {"kernelPath", "kernel path"}, {"tuning", "tuning"},
                {"ignored", "ignored"}, {"avoided", "avoided"}, {"forced", "forced"},          {"apart", "apart"},
                {"skipped", "skipped"}, {"embed", "embed"}};
    json_t *card = NULL;
    if (plan->card)
        dop_json_decode(plan->card, (size_t)plan->card_size, NULL, NULL, &card);
    const json_t *made = json_object_get(card, "made");
    const char *release = json_string_value(json_object_get(made, "release"));
    const char *kernels = json_string_value(json_object_get(made, "kernels"));
    const char *shaders = json_string_value(json_object_get(made, "shaderCompiler"));
    if (release && kernels)
        dop_buf_printf(out, "%-11s %s, kernels %s%s%s\n", "made by", release, kernels, shaders ? ", " : "",
                       shaders ? shaders : "");
    bool first = true;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const json_t *value = json_object_get(made, rows[i].key), *item;
        size_t k;
        if (!value)
            continue;
        dop_buf_printf(out, "%s %s", first ? "options    " : ";", rows[i].label);
        first = false;
        if (json_is_string(value))
            dop_buf_printf(out, " %s", json_string_value(value));
        json_array_foreach(value, k, item)
        {
            if (json_is_string(item))
                dop_buf_printf(out, "%s %s", k ? "," : "", json_string_value(item));
        }
    }
    dop_buf_puts(out, first ? "" : "\n");
    json_decref(card);
}

static const char *const pool_names[] = {[DOP_POOL_CLS] = "the first one",
                                         [DOP_POOL_MEAN] = "the mean",
                                         [DOP_POOL_LAST] = "the last one",
                                         [DOP_POOL_END] = "that of its end"};

/* Lists the files that hold weights outside the plan. Weights that the plan stores in another form are on disk
 * twice. */
static void
info_files(const dop_plan *plan, dop_buf *out)
{
    for (uint32_t i = 0; i < plan->n_files; i++) {
        const dop_plan_file *f = &plan->files[i];
        const char *name = dop_plan_string(plan, f->name);
        uint64_t shared = 0;
        for (uint32_t k = 0; k < plan->n_ranges; k++)
            shared += plan->ranges[k].file == i ? dop_plan_range_bytes(&plan->ranges[k]) : 0;
        if (f->model)
            dop_buf_printf(out, "%-11s %llu bytes are those of %s, which has %llu\n", "", (unsigned long long)shared,
                           name, (unsigned long long)f->size);
        else
            dop_buf_printf(out, "%-11s in %s: %llu bytes, digest %016llx\n", "", name, (unsigned long long)f->size,
                           (unsigned long long)f->digest);
    }
    if (plan->n_ranges > 0)
        dop_buf_printf(out, "%-11s %llu bytes are in the plan: tables, and what kernels read in another form\n", "",
                       (unsigned long long)plan->weights_size);
}

static void
info_text(const dop_plan *plan, dop_buf *out)
{
    const dop_plan_model *m = plan->model;
    const char *path = dop_plan_string(plan, m->kernel_path);
    dop_buf_printf(out, "%-11s %s: %s, %u layers, vocabulary %u, trained for %u positions\n", "model",
                   dop_plan_string(plan, m->name), dop_plan_string(plan, m->family), m->n_layers, m->vocab,
                   m->ctx_train);
    dop_buf_printf(out, "%-11s %s\n", "weights", dop_plan_string(plan, m->quant));
    info_files(plan, out);
    dop_buf_printf(out, "%-11s %u positions", "context", m->ctx);
    if (m->page)
        dop_buf_printf(out, "; %u sequences, %u pages of %u positions", m->n_sequences, m->n_pages, m->page);
    dop_buf_puts(out, "\n");
    for (uint32_t i = 0; i < plan->n_programs; i++) {
        const dop_plan_program *p = &plan->programs[i];
        dop_buf_printf(out, "%-11s %s: rows of %u values", "program", dop_plan_string(plan, p->name), p->width);
        if (p->kind == DOP_SCHED_DRAFT)
            dop_buf_printf(out, "; %u tokens can be drafts", p->classes ? p->classes : plan->model->vocab);
        else if (p->classes)
            dop_buf_printf(out, ", scores of %u class%s", p->classes, p->classes == 1 ? "" : "es");
        if (p->kind == DOP_SCHED_ENCODE)
            dop_buf_printf(out, "; of a text %s%s", pool_names[p->pool], p->normalized ? ", of length 1" : "");
        else if (p->merge)
            dop_buf_printf(out, ", each from %u of image", p->merge);
        dop_buf_puts(out, "\n");
    }
    dop_buf_printf(out, "%-11s format %u, %llu bytes, digest %016llx\n", "plan", DOP_PLAN_VERSION,
                   (unsigned long long)plan->size, (unsigned long long)plan->digest);
    info_made(plan, out);
    info_crossings(plan, out);
    if (path[0])
        dop_buf_printf(out, "%-11s %s\n", "kernel path", path);
    for (uint32_t i = 0; i < plan->n_profiles; i++) {
        const dop_plan_profile *p = &plan->profiles[i];
        dop_buf_printf(out, "%-11s %s: subgroup %u, workgroups of at most %u, %u bytes of shared memory; needs ",
                       i ? "" : "target", dop_plan_string(plan, p->name), p->subgroup, p->max_workgroup,
                       p->shared_bytes);
        dop_buf_puts(out, p->caps ? "" : "nothing special");
        dop_caps_names(p->caps, out);
        if (p->matrix)
            dop_buf_printf(out, " of %ux%ux%u", dop_matrix_m(p->matrix), dop_matrix_n(p->matrix),
                           dop_matrix_k(p->matrix));
        dop_buf_puts(out, "\n");
    }
    out->failed = !info_schedules(plan, out, NULL) || out->failed;
    dop_buf_printf(out, "%-11s %u in all\n", "kernels", plan->n_kernels);
    info_memory(plan, out);
    dop_buf_printf(out, "%-11s %s; chat template: %s\n", "tokenizer", plan->tokenizer_size ? "yes" : "none, ids only",
                   plan->template_size ? "yes" : "none");
}

static json_t *
info_programs(const dop_plan *plan)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < plan->n_programs; i++) {
        const dop_plan_program *p = &plan->programs[i];
        const char *name = dop_plan_string(plan, p->name);
        const json_int_t width = p->width;
        json_array_append_new(
            list,
            p->kind == DOP_SCHED_ENCODE
                ? json_pack("{s:s, s:I, s:I, s:s, s:b}", "name", name, "width", width, "classes",
                            (json_int_t)p->classes, "pooling", pool_names[p->pool], "normalized", (int)p->normalized)
                : json_pack("{s:s, s:I, s:I}", "name", name, "width", width, "merge", (json_int_t)p->merge));
    }
    return list;
}

static json_t *
info_json(const dop_plan *plan)
{
    const dop_plan_model *m = plan->model;
    char digest[17];
    uint64_t bytes[DOP_SLOT_KINDS];
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)plan->digest);
    json_t *targets = json_array(), *schedules = json_array(), *root;
    for (uint32_t i = 0; i < plan->n_profiles; i++) {
        const dop_plan_profile *p = &plan->profiles[i];
        json_t *memory = json_object();
        dop_buf needs = {0};
        if (dop_used_memory(plan, i, NULL, bytes) == DOP_OK)
            for (uint32_t kind = DOP_SLOT_WEIGHTS; kind < DOP_SLOT_KINDS && (kind <= DOP_SLOT_TABLE || plan->part);
                 kind++)
                json_object_set_new(memory, slot_names[kind], json_integer((json_int_t)bytes[kind]));
        dop_caps_names(p->caps, &needs);
        json_array_append_new(targets,
                              json_pack("{s:s, s:s, s:I, s:I, s:I, s:o}", "name", dop_plan_string(plan, p->name),
                                        "needs", needs.data ? needs.data : "", "subgroup", (json_int_t)p->subgroup,
                                        "sharedBytes", (json_int_t)p->shared_bytes, "maxWorkgroup",
                                        (json_int_t)p->max_workgroup, "memory", memory));
        dop_buf_finish(&needs);
    }
    info_schedules(plan, NULL, schedules);
    root = json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:I, s:o, s:o}", "model", dop_plan_string(plan, m->name),
                     "family", dop_plan_string(plan, m->family), "weights", dop_plan_string(plan, m->quant), "layers",
                     (json_int_t)m->n_layers, "vocabulary", (json_int_t)m->vocab, "context", (json_int_t)m->ctx,
                     "planBytes", (json_int_t)plan->size, "digest", digest, "kernels", (json_int_t)plan->n_kernels,
                     "targets", targets, "schedules", schedules);
    if (root && plan->n_programs)
        json_object_set_new(root, "programs", info_programs(plan));
    const dop_plan_part *part = plan->part;
    char set[17];
    snprintf(set, sizeof set, "%016llx", (unsigned long long)(part ? part->set : 0));
    if (root && part)
        json_object_set_new(root, "part",
                            json_pack("{s:I, s:I, s:I, s:I, s:s}", "number", (json_int_t)part->number, "parts",
                                      (json_int_t)part->n_parts, "firstLayer", (json_int_t)part->first_layer,
                                      "endLayer", (json_int_t)part->end_layer, "set", set));
    json_t *card = NULL;
    if (plan->card)
        dop_json_decode(plan->card, (size_t)plan->card_size, NULL, NULL, &card);
    if (root && card)
        json_object_set(root, "card", card);
    json_decref(card);
    return root;
}

typedef struct info {
    dop_buf text;
    json_t *root; /* JSON facts of the plan, or an object that lists its parts; NULL: text output */
} info;

static dop_status
info_part(void *user, const dop_plan *plan, uint32_t n, uint32_t i, dop_diag *diag)
{
    info *x = user;
    (void)diag;
    if (!x->root) {
        dop_buf_puts(&x->text, i ? "\n" : "");
        if (plan)
            info_text(plan, &x->text);
        else
            dop_buf_printf(&x->text, "%-11s %u of %u: its file is not here\n", "part", i, n);
        return DOP_OK;
    }
    json_t *one =
        plan ? info_json(plan)
             : json_pack("{s:{s:I, s:I, s:b}}", "part", "number", (json_int_t)i, "parts", (json_int_t)n, "absent", 1);
    if (n == 1)
        x->text.failed = json_object_update_new(x->root, one) != 0;
    else if (json_array_append_new(json_object_get(x->root, "parts"), one) != 0)
        x->text.failed = true;
    return DOP_OK;
}

dop_status
dop_mode_info(dop_cli *cli, dop_diag *diag)
{
    info x = {.root = cli->json ? json_pack("{s:[]}", "parts") : NULL};
    dop_status st = cli->json && !x.root ? DOP_NO_MEMORY(diag) : dop_cli_each_part(cli, info_part, &x, diag);
    if (x.root && json_array_size(json_object_get(x.root, "parts")) == 0)
        json_object_del(x.root, "parts");
    char *dump = st == DOP_OK && x.root ? json_dumps(x.root, JSON_INDENT(2)) : NULL;
    if (dump)
        dop_buf_printf(&x.text, "%s\n", dump);
    if (st == DOP_OK)
        st = x.text.failed || (x.root && !dump) ? DOP_NO_MEMORY(diag) : dop_cli_print(x.text.data, x.text.size, diag);
    free(dump);
    json_decref(x.root);
    dop_buf_finish(&x.text);
    return st;
}
