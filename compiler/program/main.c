/* dopplerc: compiles a model for each target as options say, and writes what they ask for. */
#include "base/clock.h"
#include "base/program/process.h"
#include "compiler/program/cli.h"
#include "compiler/program/compile.h"
#include "compiler/program/tune.h"
#include "compiler/program/tune_target.h"
#include "compiler/target/target.h"
#include "compiler/write/plan_file.h"
#include "runtime/adapter/adapter.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef DOP_COMMIT /* set by the build where it is known */
#define RELEASE "dopplerc " DOP_VERSION " (" DOP_COMMIT ")"
#else
#define RELEASE "dopplerc " DOP_VERSION
#endif

/* Compiles the model for target i of n.  cuts: where the model will be cut between parts with different targets, or NULL.  like: the
 * compilation whose sizes of steps it takes, or NULL. */
static dop_status
compile_target(const dop_compile_options *common, const char *model, const dop_target *targets, uint32_t n, uint32_t i,
               const dop_cuts *cuts, const dop_compilation *like, dop_dumper *d, dop_compilation *out)
{
    dop_compile_options opt = *common;
    opt.target = &targets[i];
    opt.cuts = cuts;
    for (uint32_t k = 0; k < n && !d->c->parts; k++) /* one layout of weights fits all targets */
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
        opt.passes.dump = dop_dump_pass;
        opt.passes.user = d;
    }
    return dop_compile(model, &opt, d->diag, out);
}

/* Chooses the cuts by the first compilation.  With several targets the first compilation is made again with these cuts, because no
 * region may then cross one. */
static dop_status
choose_cuts(const dop_compile_options *common, const char *model, const dop_target *targets, uint32_t n,
            dop_cli_parts *p, dop_dumper *d, dop_compilation *first)
{
    const dop_compiler_cli *o = d->c;
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

/* Compiles the model for each target, and writes and prints what the options ask for. */
static dop_status
compile_targets(const dop_compiler_cli *o, const char *model, const dop_compile_options *common,
                const dop_target *targets, uint32_t n, const dop_inputs *inputs, dop_diag *diag)
{
    const double start_ms = dop_now_ms();
    dop_dumper d = {.c = o, .inputs = inputs, .diag = diag};
    dop_cli_parts p = {.list = NULL};
    dop_status st = DOP_OK;
    dop_compilation *list = calloc(n, sizeof *list);
    if (!list)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        st = compile_target(common, model, targets, n, i, i && o->parts ? &p.cuts : NULL,
                            i && o->parts ? &list[0] : NULL, &d, &list[i]);
        if (i == 0 && st == DOP_OK && o->parts)
            st = choose_cuts(common, model, targets, n, &p, &d, &list[0]);
        if (i == 0 && st == DOP_OK && list[i].stale)
            fprintf(stderr, "dopplerc: %s: note: measured %s: ignored; make it again with --tune\n", list[i].stale_file,
                    list[i].stale);
    }
    if (st == DOP_OK && !o->stop_after && !o->parts)
        st = dop_compilations_share(list, n, diag);
    if (st == DOP_OK && o->parts && !(p.list = calloc(p.cuts.n_parts, sizeof *p.list)))
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if (st == DOP_OK && o->parts)
        st = dop_parts_make(list, n, &p.cuts, diag, p.list);
    if (st == DOP_OK)
        st = dop_cli_write(o, list, n, &p, &d, diag);
    if (st == DOP_OK) {
        dop_cli_say_notes(o, model, list, n, &p);
        dop_cli_say_summary(o, list, &p, start_ms);
    }
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

static void
show_share(double done)
{
    fprintf(stderr, "\rmeasuring %3.0f%%%s", done * 100, done >= 1 ? "\r              \r" : "");
}

static dop_status
add_adapter(const char *argument, dop_inputs *inputs, dop_diag *diag)
{
    dop_arena arena;
    const char *path = NULL;
    double scale;
    dop_arena_init(&arena);
    dop_status st = dop_adapter_argument(argument, &arena, diag, &path, &scale);
    if (st == DOP_OK)
        st = dop_inputs_add(inputs, path, diag);
    dop_arena_finish(&arena);
    return st;
}

/* Fails where an output would replace an input, another output, or a plan that a program has open.  Fills `inputs`. */
static dop_status
check_outputs(const dop_compiler_cli *o, const char *model, dop_inputs *inputs, dop_diag *diag)
{
    const char *read[] = {model, o->kernel_path, o->tuning, o->quant, o->imatrix, o->simulate};
    char *weights = NULL;
    dop_status st = o->target ? dop_inputs_add_list(inputs, o->target, diag) : DOP_OK;
    for (size_t i = 0; i < sizeof read / sizeof *read && st == DOP_OK; i++)
        st = read[i] ? dop_inputs_add(inputs, read[i], diag) : DOP_OK;
    for (size_t i = 0; i < o->lora.count && st == DOP_OK; i++)
        st = add_adapter(o->lora.items[i], inputs, diag);
    for (size_t i = 0; i < o->control_vector.count && st == DOP_OK; i++)
        st = add_adapter(o->control_vector.items[i], inputs, diag);
    if (st == DOP_OK && o->output && o->weights && strcmp(o->weights, "external") == 0 &&
        asprintf(&weights, "%s.weights", o->output) < 0)
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    const char *written[] = {o->output ? o->output : o->target_out, weights,
                             o->report && *o->report ? o->report : NULL};
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
compile(const dop_compiler_cli *o, const char *model, dop_diag *diag)
{
    dop_compile_options opt;
    dop_target targets[DOP_MAX_TARGETS];
    uint32_t n = 0;
    char exe[1024];
    dop_inputs inputs = {0};
    dop_status st = dop_cli_fill(o, &opt, diag);
    if (st == DOP_OK)
        st = dop_cli_check(o, diag);
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
        if (len <= 0) /* no /proc, as in a chroot: the path given to exec */
            snprintf(exe, sizeof exe, "%s", (const char *)getauxval(AT_EXECFN));
        opt.exe_path = exe;
        opt.target = &targets[0];
        if (o->target_out)
            st = dop_tune_target(model, &opt, o->target_out, o->quiet ? NULL : show_line,
                                 !o->quiet && isatty(2) ? show_share : NULL, diag);
        else
            st = o->tune
                     ? dop_tune(model, &opt, *o->tune ? o->tune : NULL, o->output, o->quiet ? NULL : show_line, diag)
                     : compile_targets(o, model, &opt, targets, n, &inputs, diag);
    }
    dop_inputs_finish(&inputs);
    return st;
}

/* std::set_new_handler of the C++ library.  The shader compiler is C++ and may hold a lock when memory is refused to it: threads that
 * wait for that lock would wait for ever, so the program ends instead. */
void (*set_new_handler(void (*handler)(void)))(void) __asm__("_ZSt15set_new_handlerPFvvE");

static void
end_without_memory(void)
{
    static const char text[] = "dopplerc: error: out of memory in the shader compiler: fewer threads (-j) need less\n";
    static atomic_flag ends = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&ends)) /* another thread ends the program */
        pause();
    ssize_t n = write(STDERR_FILENO, text, sizeof text - 1);
    (void)n;
    _exit(1);
}

int
main(int argc, char **argv)
{
    dop_compiler_cli o;
    dop_diag diag = {0};
    dop_texts rest = {0};
    dop_process_prepare("dopplerc");
    set_new_handler(end_without_memory);
    dop_status st = dop_cli_parse(argc, argv, &diag, &o, &rest);
    if (st == DOP_OK && o.help)
        dop_cli_print_help();
    else if (st == DOP_OK && o.version)
        puts(RELEASE);
    else if (st == DOP_OK && rest.count == 0 && dop_cli_print_lists(&o))
        ; /* a list needs no model */
    else if (st == DOP_OK && rest.count != 1)
        st = DOP_FAIL(&diag, DOP_E_USAGE,
                      rest.count ? "more than one model" : "no model: dopplerc MODEL -o PLAN (see --help)");
    else if (st == DOP_OK)
        st = compile(&o, rest.items[0], &diag);
    if (st == DOP_OK && fflush(stdout) != 0)
        st = DOP_FAIL(&diag, DOP_E_IO, "cannot write to stdout: %s", strerror(errno));
    if (st != DOP_OK)
        dop_diag_print(&diag, "dopplerc", o.verbose);
    dop_cli_finish(&o);
    dop_texts_finish(&rest);
    return dop_status_exit(st);
}
