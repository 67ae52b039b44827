/* dopplerc: options, and what to print about a compilation. */
#include "compiler/compile.h"
#include "compiler/inputs.h"
#include "compiler/modules_tar.h"
#include "compiler/parts.h"
#include "compiler/plan_file.h"
#include "compiler/plan_write.h"
#include "compiler/report.h"
#include "compiler/simulate.h"
#include "compiler/target.h"
#include "compiler/tune.h"
#include "ir/cache_row.h"
#include "ir/text.h"
#include "runtime/cli_process.h"
#include "runtime/options.h"
#include "runtime/plan_format.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct cli {
    const char *output, *target, *quant, *chunks, *rows, *kv, *act, *stop_after, *emit, *dump_dir, *dumps, *report,
        *weights, *explain, *tune, *tuning, *kernel_path, *parts, *part_memory, *simulate;
    uint32_t ctx, threads, sequences, ctx_total;
    dop_texts skip, force, no_fuse;
    bool split, json, embed, check, quiet, verbose, help, version;
} cli;

#ifdef DOP_COMMIT /* the build says it where it knows */
#define RELEASE "dopplerc " DOP_VERSION " (" DOP_COMMIT ")"
#else
#define RELEASE "dopplerc " DOP_VERSION
#endif

#define OPT(...) DOP_OPTION(cli, __VA_ARGS__)
#define NUM(...) DOP_NUMBER_OPTION(cli, __VA_ARGS__)
#define HEADING DOP_OPTION_HEADING

static const dop_option options[] = {
    HEADING("Output"),
    OPT('o', "output", TEXT, output, "FILE", "the plan"),
    OPT(0, "report", OPTIONAL, report, "FILE",
        "fusion report: text on stdout, or a file whose name says the form: FILE.txt, .json, .html"),
    OPT(0, "explain", TEXT, explain, "OP",
        "why each instance of OP got its kernel; A+B: why these two are, or are not, one dispatch"),
    OPT(0, "emit", TEXT, emit, "STAGE", "print ir, regions, glsl, spirv (all modules as a tar archive) or plan"),
    OPT(0, "dump-dir", TEXT, dump_dir, "DIR", "write every stage as a numbered file"),
    OPT('d', "dump", TEXT, dumps, "LETTERS", "print the graph after these passes"),
    HEADING("Model"),
    OPT(0, "target", TEXT, target, "NAME|FILE",
        "the device to compile for: auto (default), tier1, tier2, tier3, lavapipe, ...; with a comma-separated list a "
        "device uses the first target that it can run"),
    OPT(0, "quant", TEXT, quant, "SPEC",
        "storage of the weights: keep (default), f16, q8_0, q6_k, q5_k, q4_k, q4_0, mxfp4, int4_g128, ...; by class as "
        "attn=q8_0,ffn=q4_k,embed=q6_k; or a .yaml of name patterns"),
    NUM(0, "ctx", COUNT, ctx, "N", "cache length (default: the model's, at most 4096)", 1, 1u << 24),
    OPT(0, "chunks", TEXT, chunks, "LIST", "prefill chunk sizes, for example 8,64,512"),
    NUM(0, "sequences", COUNT, sequences, "N", "sequences that the plan holds at once (default 1)", 1, 64),
    NUM(0, "ctx-total", COUNT, ctx_total, "N", "cache positions that all sequences share (default: sequences x ctx)", 1,
        1u << 30),
    OPT(0, "rows", TEXT, rows, "LIST",
        "sizes of steps with rows of several sequences, for example 4,16 (default: a row of each sequence, and a "
        "quarter "
        "and less of that)"),
    OPT(0, "embed", FLAG, embed, NULL, "let the plan also compute hidden states, for embeddings"),
    OPT(0, "kv", TEXT, kv, "TYPE",
        "storage of the cache: f16 (default), f32, q8_0 or q4_0; keys and values apart as k=q8_0,v=q4_0"),
    OPT(0, "act", TEXT, act, "TYPE", "storage of activations: f32 (default) or f16"),
    OPT(0, "weights", TEXT, weights, "HOW",
        "embed (default), or external: in a separate file FILE.weights beside the plan"),
    OPT(0, "parts", TEXT, parts, "N|LIST|auto",
        "cut the model at layers into parts for one device each: a number of parts, their layers as 20,12, or auto for "
        "as many as --part-memory requires"),
    OPT(0, "part-memory", TEXT, part_memory, "LIST", "memory of the parts' devices, for example 24GiB,16GiB"),
    OPT(0, "split", FLAG, split, NULL, "with --parts: one file for each part, FILE.part0 and so on"),
    OPT(0, "simulate", TEXT, simulate, "FILE.yaml",
        "with --parts: predict their speed from measured stage times and the links that FILE describes"),
    OPT(0, "json", FLAG, json, NULL, "with --simulate: as JSON"),
    HEADING("Compilation"),
    OPT(0, "no-fuse", PAIRS, no_fuse, "A+B",
        "one dispatch per op; with A+B keep only this pair apart, named as for --explain; repeatable"),
    OPT(0, "skip", LIST, skip, "PASS", "leave a pass out; repeatable"),
    OPT(0, "stop-after", TEXT, stop_after, "PASS", "stop after this pass; for --emit ir"),
    OPT(0, "kernel-path", TEXT, kernel_path, "NAME|FILE", "which kernel each op uses, and what is fused"),
    OPT(0, "force", LIST, force, "OP=VARIANT", "choose a kernel; repeatable"),
    OPT(0, "tune", OPTIONAL, tune, "OP",
        "time all possible kernels and tiles on this device (or only those of OP) and write -o FILE.yaml for --tuning"),
    OPT(0, "tuning", TEXT, tuning, "FILE",
        "use what --tune has measured; ignored for another device, driver or version of the kernels"),
    OPT(0, "check", FLAG, check, NULL, "print, parse and compare the graph after every pass"),
    NUM('j', "threads", COUNT, threads, "N", "threads (default: one per core)", 1, 256),
    OPT(0, "quiet", FLAG, quiet, NULL, "no progress, no notes"),
    OPT('v', "verbose", FLAG, verbose, NULL, "show where in the source errors come from"),
    OPT('h', "help", FLAG, help, NULL, "this text"),
    OPT(0, "version", FLAG, version, NULL, "the release and its commit"),
    DOP_OPTION_POINTER('m', "model", "the model comes without an option: dopplerc MODEL -o PLAN"),
    DOP_OPTION_POINTER('c', "ctx-size", "use --ctx N"),
    DOP_OPTION_POINTER('t', NULL, "use -j N"),
    DOP_OPTION_POINTER('n', "n-predict", "doppler-exec PLAN -n N generates"),
    DOP_OPTION_POINTER('p', "prompt", "doppler-exec PLAN -p TEXT generates"),
    DOP_OPTION_POINTER(0, "ngl", "the whole model runs on the device of --target"),
    DOP_OPTION_POINTER(0, "n-gpu-layers", "the whole model runs on the device of --target"),
    DOP_OPTION_POINTER(0, "gpu-layers", "the whole model runs on the device of --target"),
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

static dop_status
parse_chunks(const char *list, dop_compile_options *o, dop_diag *diag)
{
    const char *p = list;
    while (*p) {
        char *end = NULL;
        unsigned long v = strtoul(p, &end, 10);
        if (end == p || v < 1 || v > 4096 || (*end && *end != ','))
            return DOP_FAIL(diag, DOP_E_USAGE, "--chunks %s: expected sizes from 1 to 4096, separated by commas", list);
        if (o->n_chunks == DOP_MAX_CHUNKS)
            return DOP_FAIL(diag, DOP_E_USAGE, "--chunks %s: at most %d sizes", list, DOP_MAX_CHUNKS);
        o->chunks[o->n_chunks++] = (uint32_t)v;
        p = *end ? end + 1 : end;
    }
    return o->n_chunks ? DOP_OK : DOP_FAIL(diag, DOP_E_USAGE, "--chunks needs at least one size");
}

static dop_status
parse_rows(const char *list, dop_compile_options *o, dop_diag *diag)
{
    const char *p = list;
    while (*p) {
        char *end = NULL;
        unsigned long v = strtoul(p, &end, 10);
        if (end == p || v < 1 || v > DOP_STEP_MAX_ROWS || (*end && *end != ','))
            return DOP_FAIL(diag, DOP_E_USAGE, "--rows %s: expected sizes from 1 to %d, separated by commas", list,
                            DOP_STEP_MAX_ROWS);
        bool there = false;
        for (uint32_t i = 0; i < o->n_rows; i++)
            there = there || o->rows[i] == v;
        if (!there && o->n_rows == DOP_MAX_ROWS_SIZES)
            return DOP_FAIL(diag, DOP_E_USAGE, "--rows %s: at most %d sizes", list, DOP_MAX_ROWS_SIZES);
        if (!there)
            o->rows[o->n_rows++] = (uint32_t)v;
        p = *end ? end + 1 : end;
    }
    return o->n_rows ? DOP_OK : DOP_FAIL(diag, DOP_E_USAGE, "--rows needs at least one size");
}

static dop_status
parse_storage(const char *option, const char *text, dop_type *out, dop_diag *diag)
{
    *out = DOP_TYPE_none;
    if (!text)
        return DOP_OK;
    if (strcmp(text, "f16") == 0)
        *out = DOP_TYPE_f16;
    else if (strcmp(text, "f32") == 0)
        *out = DOP_TYPE_f32;
    else
        return DOP_FAIL(diag, DOP_E_USAGE, "--%s %s: known are f16 and f32", option, text);
    return DOP_OK;
}

static bool
cache_type(const char *text, size_t len, dop_type *out)
{
    return dop_type_parse(text, len, out) && (*out == DOP_TYPE_f16 || *out == DOP_TYPE_f32 || dop_cache_blocks(*out));
}

/* One type for all, or k=TYPE,v=TYPE in either order. */
static dop_status
parse_cache(const char *text, dop_compile_options *o, dop_diag *diag)
{
    if (!text || cache_type(text, strlen(text), &o->kv_type))
        return DOP_OK;
    dop_type types[2] = {DOP_TYPE_none, DOP_TYPE_none};
    for (const char *p = text; p;) {
        const char *end = strchr(p, ',');
        size_t len = end ? (size_t)(end - p) : strlen(p);
        dop_type *which = p[0] == 'k' ? &types[0] : p[0] == 'v' ? &types[1] : NULL;
        if (!which || p[1] != '=' || *which != DOP_TYPE_none || !cache_type(p + 2, len - 2, which))
            break;
        p = end ? end + 1 : NULL;
        if (!p && types[0] != DOP_TYPE_none && types[1] != DOP_TYPE_none) {
            o->kv_type = types[0];
            o->v_type = types[1];
            return DOP_OK;
        }
    }
    return DOP_FAIL(diag, DOP_E_USAGE, "--kv %s: known are f16, f32, q8_0 and q4_0, for both or as k=TYPE,v=TYPE",
                    text);
}

static dop_status
check_letters(const char *letters, dop_diag *diag)
{
    for (; *letters; letters++) {
        int i = 0;
        while (i < DOP_PASS_COUNT && dop_pass_of((dop_pass_id)i)->letter != *letters)
            i++;
        if (i == DOP_PASS_COUNT)
            return DOP_FAIL(diag, DOP_E_USAGE, "-d: no pass has the letter %c; see --help", *letters);
    }
    return DOP_OK;
}

static dop_status
unknown_pass(const char *name, dop_diag *diag)
{
    dop_buf list = {0};
    for (int i = 0; i < DOP_PASS_COUNT; i++)
        dop_buf_printf(&list, " %s", dop_pass_of((dop_pass_id)i)->name);
    dop_status st = DOP_FAIL(diag, DOP_E_USAGE, "unknown pass %s; known:%s", name, list.data ? list.data : "");
    dop_buf_finish(&list);
    return st;
}

static dop_status
parse_passes(const cli *c, dop_compile_options *o, dop_diag *diag)
{
    dop_pass_id p;
    o->passes.stop_after = -1;
    o->passes.check = c->check;
    for (size_t i = 0; i < c->skip.count; i++) {
        if (!dop_pass_parse(c->skip.items[i], &p))
            return unknown_pass(c->skip.items[i], diag);
        o->passes.skip[p] = true;
    }
    if (c->stop_after) {
        if (!dop_pass_parse(c->stop_after, &p))
            return unknown_pass(c->stop_after, diag);
        o->passes.stop_after = (int)p;
    }
    for (size_t i = 0; i < c->no_fuse.count; i++) {
        if (!*c->no_fuse.items[i])
            dop_passes_skip_fusion(&o->passes);
        else if (o->n_apart == DOP_MAX_FORCES)
            return DOP_FAIL(diag, DOP_E_USAGE, "--no-fuse: at most %d pairs", DOP_MAX_FORCES);
        else
            o->apart[o->n_apart++] = c->no_fuse.items[i];
    }
    for (size_t i = 0; i < c->force.count; i++) {
        char *eq = strchr(c->force.items[i], '=');
        if (!eq || o->n_forces == DOP_MAX_FORCES)
            return DOP_FAIL(diag, DOP_E_USAGE, "--force %s: expected OP=VARIANT", c->force.items[i]);
        *eq = 0; /* argv is ours to cut */
        o->forces[o->n_forces++] = (dop_force){c->force.items[i], eq + 1};
    }
    return DOP_OK;
}

/* --- dumps ----------------------------------------------------------------------------------------------------------- */

typedef struct dumper {
    const cli *c;
    uint32_t serial;
    const char *target; /* part of names when there are several; NULL */
    const dop_inputs *inputs;
    dop_diag *diag;
    dop_status status;
} dumper;

static void
dump_file(dumper *d, const char *path, const void *data, size_t size)
{
    if (d->status == DOP_OK)
        d->status = dop_inputs_refuse(d->inputs, path, d->diag);
    if (d->status == DOP_OK)
        d->status = dop_write_file(path, data, size, d->diag);
}

static void
dump_pass(void *user, dop_pass_id pass, const dop_graph *g, bool changed)
{
    dumper *d = user;
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
dump_kernels(dumper *d, const dop_compilation *c)
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

/* --- output ---------------------------------------------------------------------------------------------------------- */

static void
emit_stage(const cli *o, const dop_compilation *c, dop_buf *out)
{
    bool ir = strcmp(o->emit, "ir") == 0, regions = strcmp(o->emit, "regions") == 0;
    bool glsl = strcmp(o->emit, "glsl") == 0;
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
    for (uint32_t i = 0; i < c->kernels.n && glsl; i++) {
        const dop_built_kernel *k = &c->kernels.items[i];
        dop_buf_printf(out, "// kernel %u: %s, first used by %s\n%s", i, dop_variant_of(k->k.variant)->name, k->label,
                       k->k.glsl);
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

/* ".json", or "" when the file's name ends in nothing of the kind. */
static const char *
ending_of(const char *file)
{
    const char *slash = strrchr(file, '/'), *dot = strrchr(slash ? slash : file, '.');
    return dot ? dot : "";
}

/* What --parts asks for. */
typedef struct parts {
    dop_cuts cuts;
    dop_compilation *list; /* owned, [cuts.n_parts]; NULL: the plan is one */
} parts;

/* The form follows from the file's name. */
static dop_status
make_report(const char *file, const dop_compilation *c, const parts *p, dop_diag *diag, dop_buf *out)
{
    const char *dot = ending_of(file);
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

/* Is the stage printed once, for all targets together? */
static bool
emits_all(const cli *o)
{
    return o->emit && (strcmp(o->emit, "plan") == 0 || strcmp(o->emit, "spirv") == 0);
}

/* What is printed of one target's compilation; several are told apart by a comment line. */
static dop_status
print_outputs(const cli *o, const dop_compilation *c, bool several, const parts *p, dop_diag *diag)
{
    dop_buf text = {0};
    dop_status st = DOP_OK;
    if (o->emit && !emits_all(o)) {
        if (several)
            dop_buf_printf(&text, "%s target %s\n", strcmp(o->emit, "glsl") == 0 ? "//" : "#", c->target.name);
        emit_stage(o, c, &text);
    }
    if (o->explain) {
        if (several)
            dop_buf_printf(&text, "target %s\n", c->target.name);
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
simulate(const cli *o, const dop_compilation *whole, const parts *p, dop_diag *diag)
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

static dop_status
write_outputs(const cli *o, dop_compilation *list, uint32_t n, const parts *p, dumper *d, dop_diag *diag)
{
    dop_buf text = {0};
    dop_status st = d->status;
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        d->target = n > 1 ? list[i].target.name : NULL;
        if (o->dump_dir)
            st = dump_kernels(d, &list[i]);
        if (st == DOP_OK)
            st = print_outputs(o, &list[i], n > 1, p, diag);
    }
    if (st == DOP_OK && emits_all(o)) {
        st = strcmp(o->emit, "plan") == 0 ? dop_plan_listing(list, n, diag, &text)
                                          : dop_modules_tar(list, n, diag, &text);
        st = st == DOP_OK ? put(NULL, &text, diag) : st;
        dop_buf_finish(&text);
    }
    if (st == DOP_OK && o->simulate)
        st = simulate(o, &list[0], p, diag);
    const bool external = o->weights && strcmp(o->weights, "external") == 0;
    if (st == DOP_OK && o->output)
        st = p->list ? dop_plan_write_parts(p->list, p->cuts.n_parts, o->output, external, o->split, diag)
                     : dop_plan_write(list, n, o->output, external, diag);
    return st;
}

static void
show_progress(void *user, const char *what, double done)
{
    const cli *o = user;
    if (o->quiet || !isatty(2))
        return;
    fprintf(stderr, "\r%-8s %3.0f%%%s", what, done * 100, done >= 1 ? "\r              \r" : "");
}

/* Options that make no sense together. */
static dop_status
check_options(const cli *o, dop_diag *diag)
{
    static const char *const stages[] = {"ir", "regions", "glsl", "spirv", "plan"};
    bool known = !o->emit;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        known = known || strcmp(o->emit, stages[i]) == 0;
    if (!known)
        return DOP_FAIL(diag, DOP_E_USAGE, "--emit %s: known are ir, regions, glsl, spirv and plan", o->emit);
    if (o->emit && strcmp(o->emit, "spirv") == 0 && (o->explain || o->dumps || (o->report && !*o->report)))
        return DOP_FAIL(diag, DOP_E_USAGE, "--emit spirv makes an archive of stdout, which has no room for more");
    if (o->emit && strcmp(o->emit, "spirv") == 0 && isatty(1))
        return DOP_FAIL(diag, DOP_E_USAGE,
                        "--emit spirv makes an archive, which is no text: | tar x, or --dump-dir DIR");
    if (o->weights && strcmp(o->weights, "embed") != 0 && strcmp(o->weights, "external") != 0)
        return DOP_FAIL(diag, DOP_E_USAGE, "--weights %s: known are embed and external", o->weights);
    dop_status st = o->dumps ? check_letters(o->dumps, diag) : DOP_OK;
    if (st != DOP_OK)
        return st;
    if (!o->output && !o->emit && !o->report && !o->explain && !o->dump_dir && !o->dumps && !o->simulate)
        return DOP_FAIL(diag, DOP_E_USAGE, "nothing to do: name the plan with -o FILE, or ask for --emit or --report");
    if (o->tune && (!o->output || o->emit || o->report || o->explain || o->dump_dir || o->dumps || o->tuning))
        return DOP_FAIL(diag, DOP_E_USAGE, "--tune writes a tuning file and nothing else: give -o FILE.yaml");
    if (o->stop_after && (o->output || o->report || o->explain))
        return DOP_FAIL(diag, DOP_E_USAGE, "--stop-after leaves no plan: use it with --emit ir or --dump-dir");
    if (o->stop_after && o->emit && strcmp(o->emit, "ir") != 0 && strcmp(o->emit, "regions") != 0)
        return DOP_FAIL(diag, DOP_E_USAGE, "--stop-after leaves no kernels for --emit %s: use it with --emit ir",
                        o->emit);
    if ((o->part_memory || o->split) && !o->parts)
        return DOP_FAIL(diag, DOP_E_USAGE, "--%s is about a plan in parts: give --parts",
                        o->split ? "split" : "part-memory");
    if ((o->simulate && !o->parts) || (o->json && !o->simulate))
        return DOP_FAIL(diag, DOP_E_USAGE,
                        o->simulate ? "--simulate is about a plan in parts: give --parts"
                                    : "--json is the form of a prediction: give --simulate");
    if (o->parts && !o->output && !o->simulate)
        return DOP_FAIL(diag, DOP_E_USAGE, "--parts %s is about a plan: give -o FILE, or --simulate", o->parts);
    if (o->weights && !o->output)
        return DOP_FAIL(diag, DOP_E_USAGE, "--weights %s is about a plan: give -o FILE", o->weights);
    const char *ending = o->report ? ending_of(o->report) : "";
    if (*ending && strcmp(ending, ".txt") != 0 && strcmp(ending, ".json") != 0 && strcmp(ending, ".html") != 0)
        return DOP_FAIL(diag, DOP_E_USAGE, "--report=%s: known are FILE.txt, FILE.json and FILE.html", o->report);
    return DOP_OK;
}

static dop_status
fill_options(const cli *o, dop_compile_options *opt, dop_diag *diag)
{
    *opt = (dop_compile_options){.ctx = o->ctx,
                                 .quant = o->quant,
                                 .threads = o->threads,
                                 .tuning = o->tuning,
                                 .kernel_path = o->kernel_path,
                                 .progress = show_progress,
                                 .user = (void *)(uintptr_t)o};
    opt->no_spirv = !o->output && !o->report && !o->dump_dir && !emits_all(o);
    dop_status st = parse_passes(o, opt, diag);
    if (st == DOP_OK && o->chunks)
        st = parse_chunks(o->chunks, opt, diag);
    opt->sequences = o->sequences;
    opt->ctx_total = o->ctx_total;
    opt->embed = o->embed;
    opt->in_parts = o->parts != NULL;
    if (st == DOP_OK && o->rows)
        st = parse_rows(o->rows, opt, diag);
    if (st == DOP_OK)
        st = parse_cache(o->kv, opt, diag);
    if (st == DOP_OK)
        st = parse_storage("act", o->act, &opt->act_type, diag);
    return st;
}

/* Prints what was compiled for, and what may surprise.  Called when everything is written: an error stays the only line. */
static void
say_notes(const cli *o, const char *model, const dop_compilation *list, uint32_t n, const parts *p)
{
    const dop_checkpoint *m = &list[0].model;
    if (o->quiet)
        return;
    if (n == 1 && list[0].target.device[0]) {
        fprintf(stderr, "dopplerc: target %s: for %s, the device that doppler-exec picks here\n", list[0].target.name,
                list[0].target.device);
    } else {
        fprintf(stderr, "dopplerc: target");
        for (uint32_t i = 0; i < n; i++)
            fprintf(stderr, "%s %s", i ? "," : "", list[i].target.name);
        fprintf(stderr, ": as --target says\n");
    }
    for (uint32_t i = 0; p->list && i < p->cuts.n_parts; i++)
        fprintf(stderr, "%s%s %u to %u%s",
                i ? "," : "dopplerc: ", i ? "" : "layers of the parts:", i ? p->cuts.end[i - 1] : 0, p->cuts.end[i] - 1,
                i + 1 == p->cuts.n_parts ? "\n" : "");
    if (m->note)
        fprintf(stderr, "dopplerc: %s: note: %s\n", model, m->note);
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

/* For target i of n.  cuts: where it is to be cut from what is for other targets, or NULL; like: a compilation with the same
 * sizes of steps, or NULL. */
static dop_status
compile_target(const dop_compile_options *common, const char *model, const dop_target *targets, uint32_t n, uint32_t i,
               const dop_cuts *cuts, const dop_compilation *like, dumper *d, dop_compilation *out)
{
    dop_compile_options opt = *common;
    opt.target = &targets[i];
    opt.cuts = cuts;
    for (uint32_t k = 0; k < n && !d->c->parts; k++) /* the weights of all lie where each can allocate them */
        if (opt.max_alloc == 0 || targets[k].max_alloc < opt.max_alloc)
            opt.max_alloc = targets[k].max_alloc;
    if (like) {
        opt.n_chunks = like->options.n_chunks;
        memcpy(opt.chunks, like->options.chunks, sizeof opt.chunks);
        opt.n_rows = like->options.n_rows;
        memcpy(opt.rows, like->options.rows, sizeof opt.rows);
    }
    if (d->c->dump_dir || d->c->dumps) {
        d->target = n > 1 ? targets[i].name : NULL;
        opt.passes.dump = dump_pass;
        opt.passes.user = d;
    }
    return dop_compile(model, &opt, d->diag, out);
}

/* Where the first compilation is cut; parts for different targets are kept apart while they are fused, so that it is made
 * again then. */
static dop_status
choose_cuts(const dop_compile_options *common, const char *model, const dop_target *targets, uint32_t n, parts *p,
            dumper *d, dop_compilation *first)
{
    const cli *o = d->c;
    dop_compilation sized = {.options = first->options};
    dop_status st = dop_parts_choose(first, o->parts, o->part_memory, d->diag, &p->cuts);
    if (st == DOP_OK && n > 1 && n != p->cuts.n_parts)
        st = DOP_FAIL(d->diag, DOP_E_USAGE, "--target names %u targets for %u parts: name one for all, or one for each",
                      n, p->cuts.n_parts);
    if (st != DOP_OK || n == 1)
        return st;
    sized.options = first->options;
    dop_compilation_finish(first);
    return compile_target(common, model, targets, n, 0, &p->cuts, &sized, d, first);
}

/* One compilation for each target, and what they make together. */
static dop_status
compile_targets(const cli *o, const char *model, const dop_compile_options *common, const dop_target *targets,
                uint32_t n, const dop_inputs *inputs, dop_diag *diag)
{
    dumper d = {.c = o, .inputs = inputs, .diag = diag};
    parts p = {.list = NULL};
    dop_status st = DOP_OK;
    dop_compilation *list = calloc(n, sizeof *list);
    if (!list)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        st = compile_target(common, model, targets, n, i, i && o->parts ? &p.cuts : NULL,
                            i && o->parts ? &list[0] : NULL, &d, &list[i]);
        if (i == 0 && st == DOP_OK && o->parts)
            st = choose_cuts(common, model, targets, n, &p, &d, &list[0]);
        if (i == 0 && st == DOP_OK && list[i].tuning_stale)
            fprintf(stderr, "dopplerc: %s: note: measured %s: ignored; make it again with --tune\n", o->tuning,
                    list[i].tuning_stale);
    }
    if (st == DOP_OK && !o->stop_after && !o->parts)
        st = dop_compilations_share(list, n, diag);
    if (st == DOP_OK && o->parts && !(p.list = calloc(p.cuts.n_parts, sizeof *p.list)))
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if (st == DOP_OK && o->parts)
        st = dop_parts_make(list, n, &p.cuts, diag, p.list);
    if (st == DOP_OK)
        st = write_outputs(o, list, n, &p, &d, diag);
    if (st == DOP_OK)
        say_notes(o, model, list, n, &p);
    if (p.list)
        dop_parts_finish(p.list, p.cuts.n_parts);
    free(p.list);
    for (uint32_t i = 0; i < n; i++)
        dop_compilation_finish(&list[i]);
    free(list);
    return st;
}

static void
show_line(const char *text)
{
    fprintf(stderr, "%s\n", text);
}

/* No output may replace an input or another output. */
static dop_status
check_outputs(const cli *o, const char *model, dop_inputs *inputs, dop_diag *diag)
{
    const char *read[] = {model, o->kernel_path, o->tuning, o->quant, o->simulate};
    char *weights = NULL;
    dop_status st = o->target ? dop_inputs_add_list(inputs, o->target, diag) : DOP_OK;
    for (size_t i = 0; i < sizeof read / sizeof *read && st == DOP_OK; i++)
        st = read[i] ? dop_inputs_add(inputs, read[i], diag) : DOP_OK;
    if (st == DOP_OK && o->output && o->weights && strcmp(o->weights, "external") == 0 &&
        asprintf(&weights, "%s.weights", o->output) < 0)
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    const char *written[] = {o->output, weights, o->report && *o->report ? o->report : NULL};
    for (size_t i = 0; i < sizeof written / sizeof *written && st == DOP_OK; i++) {
        st = written[i] ? dop_inputs_refuse(inputs, written[i], diag) : DOP_OK;
        if (st == DOP_OK && i < 2 && written[i] && written[2] && strcmp(written[i], written[2]) == 0)
            st = DOP_FAIL_IN(diag, DOP_E_USAGE, written[i], "the plan and the report need files of their own");
    }
    if (st == DOP_OK && o->output && !o->tune)
        st = dop_plan_refuse_open(o->output, diag);
    free(weights);
    return st;
}

static dop_status
compile(const cli *o, const char *model, dop_diag *diag)
{
    dop_compile_options opt;
    dop_target targets[DOP_MAX_TARGETS];
    uint32_t n = 0;
    char exe[1024];
    dop_inputs inputs = {0};
    dop_status st = fill_options(o, &opt, diag);
    if (st == DOP_OK)
        st = check_options(o, diag);
    if (st == DOP_OK)
        st = check_outputs(o, model, &inputs, diag);
    if (st == DOP_OK)
        st = dop_targets_resolve(o->target ? o->target : "auto", diag, targets, &n);
    if (st == DOP_OK && n > 1 && o->report && *o->report)
        st = DOP_FAIL(diag, DOP_E_USAGE, "--report=%s is about one target: give one --target, or --report for text",
                      o->report);
    if (st == DOP_OK && o->dump_dir && mkdir(o->dump_dir, 0777) != 0 && errno != EEXIST)
        st = DOP_FAIL_IN(diag, DOP_E_IO, o->dump_dir, "cannot make the folder: %s", strerror(errno));
    if (st == DOP_OK) {
        ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
        exe[len > 0 ? len : 0] = 0;
        if (len <= 0) /* no /proc, as in a chroot: the name it was started by */
            snprintf(exe, sizeof exe, "%s", (const char *)getauxval(AT_EXECFN));
        opt.exe_path = exe;
        opt.target = &targets[0];
        st = o->tune ? dop_tune(model, &opt, *o->tune ? o->tune : NULL, o->output, o->quiet ? NULL : show_line, diag)
                     : compile_targets(o, model, &opt, targets, n, &inputs, diag);
    }
    dop_inputs_finish(&inputs);
    return st;
}

static void
print_help(void)
{
    dop_buf text = {0};
    dop_buf_puts(&text,
                 "usage: dopplerc MODEL -o PLAN [options]\n\n"
                 "Compiles a language model ahead of time into a plan for doppler-exec.  MODEL is a Hugging Face\n"
                 "directory, an RDRR directory or a .gguf file.\n");
    dop_options_help(options, N_OPTIONS, &text);
    dop_buf_puts(&text, "\nPasses (for --skip, --stop-after, -d)\n");
    for (int i = 0; i < DOP_PASS_COUNT; i++) {
        const dop_pass_info *p = dop_pass_of((dop_pass_id)i);
        dop_buf_printf(&text, "  %c  %-16s %s\n", p->letter, p->name, p->what);
    }
    fputs(text.data ? text.data : "", stdout);
    dop_buf_finish(&text);
}

int
main(int argc, char **argv)
{
    cli o;
    dop_diag diag = {0};
    dop_texts rest = {0};
    dop_process_prepare("dopplerc");
    memset(&o, 0, sizeof o);
    dop_status st = dop_options_parse(options, N_OPTIONS, argc, argv, &diag, &o, &rest);
    if (st == DOP_OK && o.help)
        print_help();
    else if (st == DOP_OK && o.version)
        puts(RELEASE);
    else if (st == DOP_OK && rest.count != 1)
        st = DOP_FAIL(&diag, DOP_E_USAGE,
                      rest.count ? "more than one model" : "no model: dopplerc MODEL -o PLAN (see --help)");
    else if (st == DOP_OK)
        st = compile(&o, rest.items[0], &diag);
    if (st == DOP_OK && fflush(stdout) != 0)
        st = DOP_FAIL(&diag, DOP_E_IO, "cannot write to stdout: %s", strerror(errno));
    if (st != DOP_OK)
        dop_diag_print(&diag, "dopplerc", o.verbose);
    dop_texts_finish(&o.skip);
    dop_texts_finish(&o.force);
    dop_texts_finish(&o.no_fuse);
    dop_texts_finish(&rest);
    return dop_status_exit(st);
}
