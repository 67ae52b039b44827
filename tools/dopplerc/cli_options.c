/* Options of dopplerc: their table, allowed values, and effect on a compilation. */
#include "base/os/system.h"
#include "base/words.h"
#include "tools/dopplerc/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPT(...) DOP_OPTION(dop_compiler_cli, __VA_ARGS__)
#define NUM(...) DOP_NUMBER_OPTION(dop_compiler_cli, __VA_ARGS__)
#define HEADING DOP_OPTION_HEADING

static const dop_option options[] = {
    HEADING("Output"),
    OPT('o', "output", TEXT, output, "FILE", "the plan"),
    OPT(0, "report", FILES, report, "FILE", "fusion report: text on stdout, or FILE.txt, .json or .html; repeatable"),
    OPT(0, "explain", TEXT, explain, "OP",
        "why each instance of OP got its kernel; A+B: why these two are, or are not, one dispatch"),
    OPT(0, "emit", TEXT, emit, "STAGE",
        "print ir, regions, nest (kernels before they are GLSL), glsl, spirv (all modules as a tar archive) or plan",
        .values = "ir regions nest glsl spirv plan"),
    OPT(0, "dump-dir", TEXT, dump_dir, "DIR", "write every stage as a numbered file"),
    OPT('d', "dump", TEXT, dumps, "LETTERS", "print the graph after these passes", .joined = true),
    HEADING("Model"),
    OPT(0, "target", TEXT, plan.target, "NAME|FILE",
        "the device to compile for: auto (default), tier1, tier2, tier3, lavapipe, ...; with a comma-separated list a "
        "device uses the first target that it can run"),
    OPT(0, "quant", TEXT, plan.quant, "SPEC",
        "storage of the weights: keep (default), f16, q8_0, q6_k, q5_k, q4_k, q4_0, mxfp4, int4_g128, ...; by class as "
        "attn=q8_0,ffn=q4_k,embed=q6_k; or a .yaml of name patterns"),
    OPT(0, "imatrix", TEXT, plan.imatrix, "FILE",
        "with --quant: how much the inputs of each product matter, as doppler-exec --imatrix-out or llama.cpp's "
        "imatrix tool measured it"),
    OPT(0, "mmproj", TEXT, plan.mmproj, "FILE",
        "the vision part of a GGUF model (default: the only file beside it whose name has mmproj)"),
    OPT(0, "draft-head", TEXT, plan.draft_head, "DIR|FILE",
        "a drafter for the model (EAGLE-3, Gemma 4's assistant; a directory, or a GGUF file), in place of its own "
        "layer for drafts"),
    NUM(0, "draft-vocabulary", COUNT, plan.draft_vocabulary, "N",
        "drafts of the model's own layer are among the first N tokens of the vocabulary: they cost less, and tokens "
        "behind are never drafted (default: all)",
        1, 1u << 24),
    OPT(0, "lora", LIST, lora, "FILE[:SCALE]",
        "merge a LoRA adapter into the weights, times SCALE: a PEFT directory, its .safetensors file or a GGUF "
        "adapter, "
        "or of a model that draws a .safetensors file alone; repeatable"),
    OPT(0, "control-vector", LIST, control_vector, "FILE[:SCALE]",
        "add a control vector (GGUF), times SCALE, to the residual stream; repeatable"),
    OPT(0, "control-vector-layers", TEXT, plan.control_layers, "A-B",
        "the layers, counted from 0, behind which control vectors are added (default: from 1 on)"),
    NUM(0, "adapters", COUNT, plan.adapters, "N", "leave room for N adapters that doppler-exec --lora loads", 1,
        DOP_COMPILE_MOST_ADAPTERS),
    NUM(0, "rank", COUNT, plan.rank, "R", "with --adapters: the largest rank that they may have", 1,
        DOP_COMPILE_MOST_RANK),
    NUM(0, "ctx", COUNT, plan.ctx, "N", "cache length (default: the model's, at most 4096)", 1, DOP_COMPILE_MOST_CTX),
    OPT(0, "size", TEXT, plan.size, "WxH", "size of the pictures that a diffusion model draws, in pixels"),
    OPT(0, "chunks", TEXT, plan.chunks, "LIST", "prefill chunk sizes, for example 8,64,512"),
    NUM(0, "sequences", COUNT, plan.sequences, "N", "sequences that the plan holds at once (default 1)", 1,
        DOP_COMPILE_MOST_SEQUENCES),
    NUM(0, "ctx-total", COUNT, plan.ctx_total, "N",
        "cache positions that all sequences share (default: sequences x ctx)", 1, DOP_COMPILE_MOST_CTX_TOTAL),
    OPT(0, "rows", TEXT, plan.rows, "LIST",
        "sizes of steps with rows of several sequences, for example 4,16 (default: a row of each sequence, and a "
        "quarter and less of that)"),
    OPT(0, "invariant", FLAG, plan.invariant, NULL,
        "the same bits for a row in every batch and chunk: all steps run the kernels of one size, --chunks (default "
        "64)"),
    OPT(0, "embed", FLAG, plan.embed, NULL, "let the plan also compute hidden states, for embeddings"),
    OPT(0, "kv", TEXT, plan.kv, "TYPE",
        "storage of the cache: f16 (default), f32, q8_0 or q4_0; keys and values apart as k=q8_0,v=q4_0"),
    OPT(0, "act", TEXT, plan.act, "TYPE", "storage of activations: f32 (default) or f16", .values = "f16 f32"),
    OPT(0, "weights", TEXT, weights, "HOW",
        "embed (default); external: in a separate file FILE.weights beside the plan; or model: those that keep their "
        "type stay in the model's files, which the plan names by their paths",
        .values = "embed external model"),
    OPT(0, "parts", TEXT, plan.parts, "N|LIST|auto",
        "cut the model at layers into parts for one device each: a number of parts, their layers as 20,12, or auto for "
        "as many as --part-memory requires"),
    OPT(0, "part-memory", TEXT, plan.part_memory, "LIST", "memory of the parts' devices, for example 24GiB,16GiB"),
    OPT(0, "split", FLAG, plan.split, NULL, "with --parts: one file for each part, FILE.part0 and so on"),
    OPT(0, "simulate", TEXT, simulate, "FILE.yaml",
        "with --parts: predict their speed from measured stage times and the links that FILE describes"),
    OPT(0, "json", FLAG, json, NULL, "with --simulate: as JSON"),
    HEADING("Compilation"),
    OPT(0, "no-fuse", PAIRS, no_fuse, "A+B",
        "one dispatch per op; with A+B keep only this pair apart, named as for --explain; repeatable"),
    OPT(0, "skip", LIST, skip, "PASS", "leave a pass out; repeatable"),
    OPT(0, "stop-after", TEXT, stop_after, "PASS", "stop after this pass; for --emit ir"),
    OPT(0, "kernel-path", TEXT, plan.kernel_path, "NAME|FILE", "which kernel each op uses, and what is fused"),
    OPT(0, "force", LIST, force, "OP=VARIANT", "choose a kernel; repeatable"),
    OPT(0, "avoid", LIST, avoid, "VARIANT,...", "do without kernels that this device's driver gets wrong; repeatable"),
    OPT(0, "tune", OPTIONAL, tune, "OP",
        "time all possible kernels and tiles on this device (or only those of OP) and write -o FILE.yaml for --tuning"),
    OPT(0, "target-out", TEXT, target_out, "FILE",
        "with --tune: try other numbers of the target on this device, 14 minutes at most, and write a target file that "
        "replaces it"),
    OPT(0, "tuning", TEXT, plan.tuning, "FILE",
        "use what --tune has measured; ignored for another device, driver or version of the kernels"),
    OPT(0, "check", FLAG, check, NULL, "print, parse and compare the graph after every pass"),
    NUM('j', "threads", COUNT, plan.threads, "N", "threads (default: one per core)", 1, 256),
    HEADING("What there is"),
    OPT(0, "list-targets", FLAG, list_targets, NULL, "the targets that --target knows by name"),
    OPT(0, "list-types", FLAG, list_types, NULL, "storage types of weights and caches"),
    OPT(0, "list-kernels", FLAG, list_kernels, NULL, "kernels, for --force and kernel paths"),
    OPT(0, "list-models", FLAG, list_models, NULL, "model families, with their names in config.json and GGUF files"),
    HEADING("Other"),
    OPT(0, "quiet", FLAG, quiet, NULL, "no progress, no notes"),
    OPT('v', "verbose", FLAG, verbose, NULL,
        "progress as lines where stderr is no terminal; where in the source errors come from"),
    OPT('h', "help", FLAG, help, NULL, "this text"),
    OPT(0, "version", FLAG, version, NULL, "print the release, its commit and the shader compiler"),
    DOP_OPTION_POINTER('m', "model", "the model comes without an option: dopplerc MODEL -o PLAN"),
    DOP_OPTION_POINTER('c', "ctx-size", "use --ctx N"),
    DOP_OPTION_POINTER('t', NULL, "use -j N"),
    DOP_OPTION_POINTER('n', "n-predict", "doppler-exec PLAN -n N generates"),
    DOP_OPTION_POINTER('p', "prompt", "doppler-exec PLAN -p TEXT generates"),
    DOP_OPTION_POINTER(0, "info", "doppler-exec PLAN --info tells what is in a plan"),
    DOP_OPTIONS_OF_GPU_LAYERS("the whole model runs on the device of --target"),
};
enum { N_OPTIONS = sizeof options / sizeof options[0] };

static const dop_option_rule rules[] = {
    {.options = "emit=spirv",
     .excludes = "explain dump report=",
     .why = "makes an archive of stdout, which has no room for more"},
    {.needs = "output emit report explain dump-dir dump simulate target-out",
     .why = "nothing to do: name the plan with -o FILE, or ask for --emit or --report"},
    {.options = "tune",
     .needs = "output target-out",
     .excludes = "emit report explain dump-dir dump tuning parts simulate",
     .why = "writes a tuning file and nothing else: give -o FILE.yaml"},
    {.options = "target-out",
     .needs = "tune=",
     .excludes = "output",
     .why = "is the file of --tune that measures a target, and of nothing else"},
    {.options = "stop-after",
     .excludes = "output report explain",
     .why = "leaves no plan: use it with --emit ir or --dump-dir"},
    {.options = "stop-after",
     .excludes = "emit=nest emit=glsl emit=spirv emit=plan",
     .why = "leaves no kernels for @: use it with --emit ir"},
    {.options = "imatrix", .needs = "quant kernel-path", .why = "is about what --quant makes: give --quant"},
    {.options = "split part-memory simulate", .needs = "parts", .why = "is about a plan in parts: give --parts"},
    {.options = "invariant",
     .excludes = "rows parts",
     .why = "has steps of one size, which --chunks gives, in one part: leave @ out"},
    {.options = "json", .needs = "simulate", .why = "is the form of a prediction: give --simulate"},
    {.options = "parts", .needs = "output simulate", .why = "is about a plan: give -o FILE, or --simulate"},
    {.options = "control-vector-layers", .needs = "control-vector", .why = "is about a control vector: give one"},
    {.options = "adapters",
     .needs = "rank",
     .excludes = "parts",
     .why = "is room for adapters of a rank: give --rank R"},
    {.options = "rank", .needs = "adapters", .why = "is that of adapters for which there is room: give --adapters N"},
    {.options = "split", .needs = "output", .why = "is about the files of a plan: give -o FILE"},
    {.options = "weights=embed weights=external weights=model",
     .needs = "output",
     .why = "is about a plan: give -o FILE"},
};

dop_status
dop_cli_parse(int argc, char **argv, dop_diag *diag, dop_compiler_cli *out, dop_texts *out_rest)
{
    memset(out, 0, sizeof *out);
    return dop_options_parse(options, N_OPTIONS, argc, argv, diag, out, out_rest, &out->given);
}

void
dop_cli_finish(dop_compiler_cli *o)
{
    dop_texts_finish(&o->skip);
    dop_texts_finish(&o->force);
    dop_texts_finish(&o->avoid);
    dop_texts_finish(&o->no_fuse);
    dop_texts_finish(&o->lora);
    dop_texts_finish(&o->control_vector);
    dop_texts_finish(&o->report);
}

void
dop_cli_print_help(void)
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

bool
dop_cli_emits_all(const dop_compiler_cli *o)
{
    return o->emit && (strcmp(o->emit, "plan") == 0 || strcmp(o->emit, "spirv") == 0);
}

const char *
dop_cli_ending(const char *file)
{
    const char *dot = strrchr(dop_path_name(file), '.');
    return dot ? dot : "";
}

dop_status
dop_cli_check(const dop_compiler_cli *o, dop_diag *diag)
{
    if (o->list_targets || o->list_types || o->list_kernels || o->list_models)
        return DOP_FAIL(diag, DOP_E_USAGE, "--list-targets and the other lists take no model");
    DOP_RETURN_IF_ERROR(
        dop_options_check(options, N_OPTIONS, rules, sizeof rules / sizeof *rules, &o->given, o, NULL, diag));
    if (o->dumps)
        DOP_RETURN_IF_ERROR(check_letters(o->dumps, diag));
    if (o->emit && strcmp(o->emit, "spirv") == 0 && isatty(1))
        return DOP_FAIL(diag, DOP_E_USAGE,
                        "--emit spirv makes an archive, which is no text: | tar x, or --dump-dir DIR");
    for (size_t i = 0; i < o->report.count; i++) {
        const char *file = o->report.items[i], *ending = dop_cli_ending(file);
        if (*ending && !dop_has_word(".txt .json .html", ending))
            return DOP_FAIL(diag, DOP_E_USAGE, "--report=%s: known are FILE.txt, FILE.json and FILE.html", file);
        for (size_t k = 0; k < i; k++)
            if (strcmp(o->report.items[k], file) == 0)
                return DOP_FAIL(diag, DOP_E_USAGE, "--report%s%s is given twice", *file ? "=" : "", file);
    }
    return DOP_OK;
}

void
dop_cli_fill(dop_compiler_cli *o)
{
    dop_compile_options *p = &o->plan;
    p->forces = o->force.items;
    p->n_forces = o->force.count;
    p->avoids = o->avoid.items;
    p->n_avoids = o->avoid.count;
    p->apart = o->no_fuse.items;
    p->n_apart = o->no_fuse.count;
    p->skips = o->skip.items;
    p->n_skips = o->skip.count;
    p->loras = o->lora.items;
    p->n_loras = o->lora.count;
    p->controls = o->control_vector.items;
    p->n_controls = o->control_vector.count;
    p->external_weights = o->weights && strcmp(o->weights, "external") == 0;
    p->model_weights = o->weights && strcmp(o->weights, "model") == 0;
    o->progress = (dop_progress_line){.program = "dopplerc", .quiet = o->quiet, .verbose = o->verbose};
    p->progress = (dop_progress){dop_progress_line_show, &o->progress};
}

dop_status
dop_cli_adjust(const dop_compiler_cli *o, dop_compilation_options *opt, dop_diag *diag)
{
    dop_pass_id p;
    opt->passes.check = o->check;
    opt->no_spirv = !o->output && !o->report.count && !o->dump_dir && !dop_cli_emits_all(o);
    if (!o->stop_after)
        return DOP_OK;
    if (!dop_pass_parse(o->stop_after, &p))
        return dop_unknown_pass(o->stop_after, diag);
    opt->passes.stop_after = (int)p;
    return DOP_OK;
}
