/* What dopplerc prints and writes of compilations, and its notes. */
#include "compiler/parts/simulate.h"
#include "compiler/program/cli.h"
#include "compiler/program/modules_tar.h"
#include "compiler/report/report.h"
#include "compiler/write/plan_file.h"
#include "compiler/write/plan_write.h"
#include "ir/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
dump_file(dop_dumper *d, const char *path, const void *data, size_t size)
{
    if (d->status == DOP_OK)
        d->status = dop_inputs_refuse(d->inputs, path, d->diag);
    if (d->status == DOP_OK)
        d->status = dop_write_file(path, data, size, d->diag);
}

void
dop_dump_pass(void *user, dop_pass_id pass, const dop_graph *g, bool changed)
{
    dop_dumper *d = user;
    const dop_pass_info *info = dop_pass_of(pass);
    dop_buf text = {0};
    bool print = d->c->dumps && strchr(d->c->dumps, info->letter);
    if (!print && !d->c->dump_dir)
        return;
    dop_buf_printf(&text, "# after %s%s%s%s\n", info->name, changed ? "" : " (unchanged)", d->target ? " for " : "",
                   d->target ? d->target : "");
    dop_graph_print(g, &text);
    if (print && text.data)
        fputs(text.data, stdout);
    if (d->c->dump_dir && d->status == DOP_OK) {
        char path[1200];
        snprintf(path, sizeof path, "%s/%03u-%s%s%s-%s.ir", d->c->dump_dir, d->serial++, d->target ? d->target : "",
                 d->target ? "-" : "", g->name, info->name);
        dump_file(d, path, text.data, text.size);
    }
    dop_buf_finish(&text);
}

static dop_status
dump_kernels(dop_dumper *d, const dop_compilation *c)
{
    for (uint32_t i = 0; i < c->kernels.n && d->status == DOP_OK; i++) {
        const dop_built_kernel *k = &c->kernels.items[i];
        char path[1200], name[160];
        dop_module_name(k, d->serial++, d->target, name, sizeof name);
        snprintf(path, sizeof path, "%s/%s.comp", d->c->dump_dir, name);
        dump_file(d, path, k->k.glsl, strlen(k->k.glsl));
        snprintf(path, sizeof path, "%s/%s.spv", d->c->dump_dir, name);
        if (k->spirv.size)
            dump_file(d, path, k->spirv.data, k->spirv.size);
    }
    return d->status;
}

static void
emit_stage(const dop_compiler_cli *o, const dop_compilation *c, dop_buf *out)
{
    bool ir = strcmp(o->emit, "ir") == 0, regions = strcmp(o->emit, "regions") == 0;
    bool glsl = strcmp(o->emit, "glsl") == 0, nest = strcmp(o->emit, "nest") == 0;
    for (uint32_t i = 0; i < c->n_schedules && (ir || regions); i++) {
        dop_buf text = {0};
        dop_graph_print(&c->schedules[i].g, &text);
        const char *from = text.data;
        if (from && regions) {
            dop_buf_printf(out, "%s\n", dop_schedule_name(&c->schedules[i]));
            from = strstr(from, "\nregion ");
            from = from ? from + 1 : "";
        }
        dop_buf_puts(out, from ? from : "");
        dop_buf_finish(&text);
    }
    for (uint32_t i = 0; i < c->kernels.n && nest; i++) {
        const dop_built_kernel *k = &c->kernels.items[i];
        dop_buf_printf(out, "# kernel %u: %s, first used by %s\n%s", i, dop_variant_of(k->k.variant)->name,
                       dop_label_text(k->label), k->k.nest ? k->k.nest : "");
        for (uint32_t f = 0; f < k->k.n_stages; f++)
            dop_buf_printf(out, "# stage %u of kernel %u\n%s", f, i, k->k.nests[f] ? k->k.nests[f] : "");
    }
    for (uint32_t i = 0; i < c->kernels.n && glsl; i++) {
        const dop_built_kernel *k = &c->kernels.items[i];
        dop_buf_printf(out, "// kernel %u: %s, first used by %s\n%s", i, dop_variant_of(k->k.variant)->name,
                       dop_label_text(k->label), k->k.glsl);
        for (uint32_t f = 0; f < k->k.n_stages; f++)
            dop_buf_printf(out, "// dop_stage_%u of kernel %u\n%s", f, i, k->k.stages[f]);
    }
}

static dop_status
put(const char *path, const dop_buf *text, dop_diag *diag)
{
    if (text->failed)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if (path)
        return dop_write_file(path, text->data ? text->data : "", text->size, diag);
    if (text->size && fwrite(text->data, 1, text->size, stdout) != text->size)
        return DOP_FAIL(diag, DOP_E_IO, "cannot write to stdout: %s", strerror(errno));
    return DOP_OK;
}

/* Makes a report in the form that the ending of the file name says; text by default. */
static dop_status
make_report(const char *file, const dop_compilation *c, const dop_cli_parts *p, dop_diag *diag, dop_buf *out)
{
    const char *dot = dop_cli_ending(file);
    dop_report report;
    dop_status st = dop_report_make(c, diag, &report);
    if (st != DOP_OK)
        return st;
    report.parts = p->list;
    report.n_parts = p->list ? p->cuts.n_parts : 0;
    if (strcmp(dot, ".json") == 0)
        st = dop_report_json(&report, diag, out);
    else if (strcmp(dot, ".html") == 0)
        st = dop_report_html(&report, diag, out);
    else
        dop_report_text(&report, out);
    dop_report_finish(&report);
    return st;
}

/* Prints what --emit, --explain and --report ask for of one target's compilation.  several: a line with the target's name precedes
 * it. */
static dop_status
print_outputs(const dop_compiler_cli *o, const dop_compilation *c, bool several, const dop_cli_parts *p, dop_diag *diag)
{
    dop_buf text = {0};
    dop_status st = DOP_OK;
    if (o->emit && !dop_cli_emits_all(o)) {
        if (several)
            dop_buf_printf(&text, "%s target %s\n", strcmp(o->emit, "glsl") == 0 ? "//" : "#", c->target->name);
        emit_stage(o, c, &text);
    }
    if (o->explain) {
        if (several)
            dop_buf_printf(&text, "target %s\n", c->target->name);
        st = dop_report_explain(c, o->explain, p->list, p->list ? p->cuts.n_parts : 0, diag, &text);
    }
    if (st == DOP_OK)
        st = put(NULL, &text, diag);
    dop_buf_finish(&text);
    if (st == DOP_OK && o->report) {
        st = make_report(o->report, c, p, diag, &text);
        st = st == DOP_OK ? put(*o->report ? o->report : NULL, &text, diag) : st;
        dop_buf_finish(&text);
    }
    return st;
}

static dop_status
simulate(const dop_compiler_cli *o, const dop_compilation *whole, const dop_cli_parts *p, dop_diag *diag)
{
    dop_sim_setup setup;
    dop_sim_result in_parts, one;
    dop_buf text = {0};
    dop_status st = dop_sim_load(o->simulate, diag, &setup);
    if (st != DOP_OK)
        return st;
    st = dop_simulate(&setup, o->simulate, p->list, p->cuts.n_parts, diag, &in_parts);
    if (st == DOP_OK)
        st = dop_simulate(&setup, o->simulate, whole, 1, diag, &one);
    if (st == DOP_OK && o->json)
        st = dop_sim_json(&setup, whole, &in_parts, &one, diag, &text);
    else if (st == DOP_OK)
        dop_sim_text(&setup, whole, &in_parts, &one, &text);
    if (st == DOP_OK)
        st = put(NULL, &text, diag);
    dop_buf_finish(&text);
    dop_sim_setup_finish(&setup);
    return st;
}

/* Fails where a file of a plan in parts would replace an input. */
static dop_status
refuse_inputs(const dop_compiler_cli *o, const dop_cli_parts *p, const dop_inputs *inputs, bool external,
              dop_diag *diag)
{
    dop_status st = DOP_OK;
    for (uint32_t i = 0; p->list && o->output && i < p->cuts.n_parts && st == DOP_OK; i++) {
        char *part = NULL, *weights = NULL;
        if (asprintf(&part, "%s.part%u", o->output, i) < 0 || asprintf(&weights, "%s.weights", part) < 0)
            st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
        if (st == DOP_OK && o->split)
            st = dop_inputs_refuse(inputs, part, diag);
        if (st == DOP_OK && external)
            st = dop_inputs_refuse(inputs, weights, diag);
        free(part);
        free(weights);
    }
    return st;
}

dop_status
dop_cli_write(const dop_compiler_cli *o, dop_compilation *list, uint32_t n, const dop_cli_parts *p, dop_dumper *d,
              dop_diag *diag)
{
    dop_buf text = {0};
    const bool external = o->weights && strcmp(o->weights, "external") == 0;
    dop_status st = d->status;
    if (st == DOP_OK)
        st = refuse_inputs(o, p, d->inputs, external, diag);
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        d->target = n > 1 ? list[i].target->name : NULL;
        if (o->dump_dir)
            st = dump_kernels(d, &list[i]);
        if (st == DOP_OK)
            st = print_outputs(o, &list[i], n > 1, p, diag);
    }
    if (st == DOP_OK && dop_cli_emits_all(o)) {
        st = strcmp(o->emit, "plan") == 0 ? dop_plan_listing(list, n, diag, &text)
                                          : dop_modules_tar(list, n, diag, &text);
        st = st == DOP_OK ? put(NULL, &text, diag) : st;
        dop_buf_finish(&text);
    }
    if (st == DOP_OK && o->simulate)
        st = simulate(o, &list[0], p, diag);
    if (st == DOP_OK && o->output)
        st = p->list ? dop_plan_write_parts(p->list, p->cuts.n_parts, o->output, external, o->split, diag)
                     : dop_plan_write(list, n, o->output, external, diag);
    return st;
}

/* Weights that were converted from one stored type to one packed type. */
typedef struct again {
    dop_type from, to;
    uint32_t count;
    uint64_t before, after; /* bytes as stored, and in the plan */
} again;

/* Prints a note about weights that the model stores as quantized blocks and that --quant converts to another type. */
static void
say_requantized(const char *model, const dop_compilation *c)
{
    enum { MOST = 16 };
    again list[MOST];
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->pack.n; i++) {
        const dop_packed *x = &c->pack.items[i];
        uint64_t row = 0;
        uint32_t k = 0;
        if (!x->source || x->source->type == x->type || dop_type_of(x->source->type)->kind != DOP_KIND_QUANT)
            continue;
        while (k < n && (list[k].from != x->source->type || list[k].to != x->type))
            k++;
        if (k == MOST)
            continue;
        if (k == n)
            list[n++] = (again){.from = x->source->type, .to = x->type};
        (void)dop_type_row_bytes(x->source->type, x->cols, &row);
        list[k].count++;
        list[k].before += row * x->rows * x->experts;
        list[k].after += x->size;
    }
    for (uint32_t k = 0; k < n; k++) {
        const bool rounds = dop_type_of(list[k].to)->kind == DOP_KIND_QUANT;
        fprintf(
            stderr,
            "dopplerc: %s: note: %u weight%s that the model stores as %s become%s %s (%.1f MiB become %.1f): %s; leave "
            "them with --quant keep%s\n",
            model, list[k].count, list[k].count == 1 ? "" : "s", dop_type_of(list[k].from)->name,
            list[k].count == 1 ? "s" : "", dop_type_of(list[k].to)->name, (double)list[k].before / (1 << 20),
            (double)list[k].after / (1 << 20),
            rounds ? "they are rounded a second time, and both errors add up"
                   : "what was lost when they were rounded does not come back",
            rounds ? ", or quantize the model as it was before" : "");
    }
}

void
dop_cli_say_notes(const dop_compiler_cli *o, const char *model, const dop_compilation *list, uint32_t n,
                  const dop_cli_parts *p)
{
    const dop_checkpoint *m = &list[0].model;
    if (o->quiet)
        return;
    if (n == 1 && list[0].target->device[0]) {
        fprintf(stderr, "dopplerc: target %s: for %s, the device that doppler-exec picks here%s\n",
                list[0].target->name, list[0].target->device,
                list[0].target->nearest ? "; no target file is for it, and this is the nearest one: costs are guesses"
                                        : "");
        if (list[0].target->nearest && o->output)
            fprintf(
                stderr,
                "dopplerc: nobody has said that it works there: doppler-exec %s --check compares every kernel with the "
                "reference, dopplerc %s --tune --target-out FILE.yaml measures a target for it\n",
                o->output, model);
    } else {
        fprintf(stderr, "dopplerc: target");
        for (uint32_t i = 0; i < n; i++)
            fprintf(stderr, "%s %s", i ? "," : "", list[i].target->name);
        fprintf(stderr, ": as --target says\n");
    }
    for (uint32_t i = 0; p->list && i < p->cuts.n_parts; i++)
        fprintf(stderr, "%s%s %u to %u%s",
                i ? "," : "dopplerc: ", i ? "" : "layers of the parts:", i ? p->cuts.end[i - 1] : 0, p->cuts.end[i] - 1,
                i + 1 == p->cuts.n_parts ? "\n" : "");
    if (m->note)
        fprintf(stderr, "dopplerc: %s: note: %s\n", model, m->note);
    if (list[0].options.quant && strcmp(list[0].options.quant, "keep") != 0)
        say_requantized(model, &list[0]);
    if (list[0].n_unweighed)
        fprintf(stderr,
                "dopplerc: %s: note: %s has nothing about %u of the quantized weights: all of their inputs matter the "
                "same\n",
                model, o->imatrix, list[0].n_unweighed);
    if (list[0].ctx > m->arch.ctx_train) {
        uint64_t tables = 0;
        for (uint32_t i = 0; i < list[0].pack.n; i++)
            tables += list[0].pack.items[i].source ? 0 : list[0].pack.items[i].size;
        fprintf(stderr,
                "dopplerc: %s: note: --ctx %u is more than the %u positions that the model was trained for: what it "
                "writes past them may make no sense; tables of positions take %.1f MiB\n",
                model, list[0].ctx, m->arch.ctx_train, (double)tables / (1 << 20));
    }
    if (o->output && !m->tokenizer_json_path && !m->tokenizer_gguf_path)
        fprintf(stderr, "dopplerc: %s: note: no tokenizer is here: the plan takes and gives token ids only\n", model);
}
