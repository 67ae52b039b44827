/* Output of dopplerc: printed and written results of compilations. */
#include "compiler/parts/simulate.h"
#include "compiler/report/report.h"
#include "compiler/report/report_explain.h"
#include "compiler/report/report_html.h"
#include "compiler/report/report_json.h"
#include "compiler/report/report_text.h"
#include "compiler/write/plan_file.h"
#include "compiler/write/plan_write.h"
#include "ir/syntax/text.h"
#include "tools/dopplerc/cli.h"
#include "tools/dopplerc/modules_tar.h"

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
write_or_print(const char *path, const dop_buf *text, dop_diag *diag)
{
    if (text->failed)
        return DOP_NO_MEMORY(diag);
    if (path)
        return dop_write_file(path, text->data ? text->data : "", text->size, diag);
    if (text->size && fwrite(text->data, 1, text->size, stdout) != text->size)
        return DOP_FAIL(diag, DOP_E_IO, "cannot write to stdout: %s", strerror(errno));
    return DOP_OK;
}

/* Writes a report in the format of the file name's ending; text by default. */
static dop_status
make_report(const char *file, const dop_compilation *c, const dop_compile_job *job, dop_diag *diag, dop_buf *out)
{
    const char *dot = dop_cli_ending(file);
    dop_report report;
    dop_status st = dop_report_make(c, diag, &report);
    if (st != DOP_OK)
        return st;
    report.parts = job->parts;
    report.n_parts = job->parts ? job->cuts.n_parts : 0;
    if (strcmp(dot, ".json") == 0)
        st = dop_report_json(&report, diag, out);
    else if (strcmp(dot, ".html") == 0)
        st = dop_report_html(&report, diag, out);
    else
        dop_report_text(&report, out);
    dop_report_finish(&report);
    return st;
}

/* Prints --emit, --explain and --report of one target's compilation. With several targets, a line with the target's
 * name precedes each. */
static dop_status
print_outputs(const dop_compiler_cli *o, const dop_compilation *c, const dop_compile_job *job, dop_diag *diag)
{
    const bool several = job->n > 1;
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
        st = dop_report_explain(c, o->explain, job->parts, job->parts ? job->cuts.n_parts : 0, diag, &text);
    }
    if (st == DOP_OK)
        st = write_or_print(NULL, &text, diag);
    dop_buf_finish(&text);
    for (size_t i = 0; st == DOP_OK && i < o->report.count; i++) {
        const char *file = o->report.items[i];
        st = make_report(file, c, job, diag, &text);
        st = st == DOP_OK ? write_or_print(*file ? file : NULL, &text, diag) : st;
        dop_buf_finish(&text);
    }
    return st;
}

static dop_status
print_simulation(const dop_compiler_cli *o, const dop_compile_job *job, dop_diag *diag)
{
    const dop_compilation *whole = &job->list[0];
    dop_sim_setup setup;
    dop_sim_result in_parts, one;
    dop_buf text = {0};
    dop_status st = dop_sim_load(o->simulate, diag, &setup);
    if (st != DOP_OK)
        return st;
    st = dop_simulate(&setup, o->simulate, job->parts, job->cuts.n_parts, diag, &in_parts);
    if (st == DOP_OK)
        st = dop_simulate(&setup, o->simulate, whole, 1, diag, &one);
    if (st == DOP_OK && o->json)
        st = dop_sim_json(&setup, whole, &in_parts, &one, diag, &text);
    else if (st == DOP_OK)
        dop_sim_text(&setup, whole, &in_parts, &one, &text);
    if (st == DOP_OK)
        st = write_or_print(NULL, &text, diag);
    dop_buf_finish(&text);
    dop_sim_setup_finish(&setup);
    return st;
}

dop_status
dop_cli_write(const dop_compiler_cli *o, dop_compile_job *job, dop_dumper *d, dop_diag *diag)
{
    dop_buf text = {0};
    dop_status st = d->status;
    for (uint32_t i = 0; i < job->n && st == DOP_OK; i++) {
        d->target = job->n > 1 ? job->list[i].target->name : NULL;
        if (o->dump_dir)
            st = dump_kernels(d, &job->list[i]);
        if (st == DOP_OK)
            st = print_outputs(o, &job->list[i], job, diag);
    }
    if (st == DOP_OK && dop_cli_emits_all(o)) {
        st = strcmp(o->emit, "plan") == 0 ? dop_plan_listing(job->list, job->n, diag, &text)
                                          : dop_modules_tar(job->list, job->n, diag, &text);
        st = st == DOP_OK ? write_or_print(NULL, &text, diag) : st;
        dop_buf_finish(&text);
    }
    if (st == DOP_OK && o->simulate)
        st = print_simulation(o, job, diag);
    return st == DOP_OK && o->output ? dop_compile_job_write(job, o->output, diag) : st;
}
