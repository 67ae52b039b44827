/* dopplerc: compiles a model for each target with libdopplerc and writes the requested outputs. */
#include "base/os/clock.h"
#include "base/program/names.h"
#include "base/program/process.h"
#include "kernels/spirv/link.h"
#include "tools/dopplerc/cli.h"
#include "tools/dopplerc/tune.h"
#include "tools/dopplerc/tune_target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef DOP_COMMIT /* defined by the build if the commit is known */
#define RELEASE "dopplerc " DOP_VERSION " (" DOP_COMMIT ")"
#else
#define RELEASE "dopplerc " DOP_VERSION
#endif

static void
print_version(void)
{
    dop_buf text = {0};
    dop_shader_compiler_describe(&text);
    printf(RELEASE "\nwith %s\n", text.failed ? "" : text.data);
    dop_buf_finish(&text);
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

static void
show_compiler_note(void *user, const char *text)
{
    (void)user;
    dop_print_named("dopplerc: ", text, "\n");
}

static void
begin_target(void *user, const char *target)
{
    dop_dumper *d = user;
    d->target = target;
}

/* Compiles the model for each target, and writes and prints the requested outputs. */
static dop_status
compile_targets(const dop_compiler_cli *o, dop_compile_job *job, dop_diag *diag)
{
    const double start_ms = dop_now_ms();
    dop_dumper d = {.c = o, .inputs = &job->inputs, .diag = diag};
    job->begin = begin_target;
    job->user = &d;
    if (o->dump_dir || o->dumps) {
        job->options.passes.dump = dop_dump_pass;
        job->options.passes.user = &d;
    }
    const dop_log notes = {show_compiler_note, NULL};
    DOP_RETURN_IF_ERROR(dop_compile_job_make(job, diag));
    dop_compile_job_note_stale(job, &notes);
    DOP_RETURN_IF_ERROR(dop_cli_write(o, job, &d, diag));
    if (!o->quiet)
        dop_compile_job_notes(job, o->output, &notes);
    dop_cli_say_summary(o, job, start_ms);
    return DOP_OK;
}

/* Fails if an output would replace an input, another output, or a plan that a program has open. */
static dop_status
check_outputs(const dop_compiler_cli *o, dop_compile_job *job, dop_diag *diag)
{
    char *weights = NULL;
    dop_status st = o->simulate ? dop_inputs_add(&job->inputs, o->simulate, diag) : DOP_OK;
    if (st == DOP_OK && o->output)
        st = o->tune ? dop_inputs_refuse(&job->inputs, o->output, diag)
                     : dop_compile_job_refuse_plan(job, o->output, diag);
    if (st == DOP_OK && o->target_out && !o->output)
        st = dop_inputs_refuse(&job->inputs, o->target_out, diag);
    if (st == DOP_OK && o->output && asprintf(&weights, "%s.weights", o->output) < 0)
        return DOP_NO_MEMORY(diag);
    for (size_t i = 0; st == DOP_OK && i < o->report.count; i++) {
        const char *report = o->report.items[i];
        if (*report)
            st = dop_inputs_refuse(&job->inputs, report, diag);
        if (st == DOP_OK && o->output &&
            (strcmp(o->output, report) == 0 || (o->plan.external_weights && strcmp(weights, report) == 0)))
            st = DOP_FAIL_IN(diag, DOP_E_USAGE, report, "the plan and the report need files of their own");
    }
    free(weights);
    return st;
}

static dop_status
compile_model(dop_compiler_cli *o, const char *model, dop_diag *diag)
{
    dop_compile_job job = {.model = NULL};
    dop_pass_id stop;
    dop_cli_fill(o);
    dop_status st = DOP_OK;
    DOP_TRY(o->stop_after && !dop_pass_parse(o->stop_after, &stop) ? dop_unknown_pass(o->stop_after, diag)
                                                                   : dop_cli_check(o, diag));
    DOP_TRY(dop_compile_job_prepare(model, &o->plan, diag, &job));
    DOP_TRY(dop_cli_adjust(o, &job.options, diag));
    DOP_TRY(check_outputs(o, &job, diag));
    DOP_TRY(dop_compile_job_find_targets(&job, diag));
    for (size_t i = 0; job.n > 1 && i < o->report.count; i++)
        if (*o->report.items[i])
            DOP_TRY(DOP_FAIL(diag, DOP_E_USAGE,
                             "--report=%s is about one target: give one --target, or --report for text",
                             o->report.items[i]));
    if (o->dump_dir && mkdir(o->dump_dir, 0777) != 0 && errno != EEXIST)
        DOP_TRY(DOP_FAIL_IN(diag, DOP_E_IO, o->dump_dir, "cannot make the folder: %s", strerror(errno)));
    if (o->tune || o->target_out) {
        job.options.target = &job.targets[0];
        DOP_TRY(o->target_out ? dop_tune_target(model, &job.options, o->target_out, o->quiet ? NULL : show_line,
                                                !o->quiet && isatty(2) ? show_share : NULL, diag)
                              : dop_tune(model, &job.options, *o->tune ? o->tune : NULL, o->output,
                                         o->quiet ? NULL : show_line, diag));
    } else
        DOP_TRY(compile_targets(o, &job, diag));
error:
    dop_compile_job_finish(&job);
    return st;
}

int
main(int argc, char **argv)
{
    dop_compiler_cli o;
    dop_diag diag = {0};
    dop_texts rest = {0};
    dop_process_prepare("dopplerc");
    dop_compiler_prepare("dopplerc");
    dop_status st = dop_cli_parse(argc, argv, &diag, &o, &rest);
    if (st == DOP_OK && o.help)
        dop_cli_print_help();
    else if (st == DOP_OK && o.version)
        print_version();
    else if (st == DOP_OK && rest.count == 0 && dop_cli_print_lists(&o))
        ; /* lists need no model */
    else if (st == DOP_OK && rest.count == 0)
        st = DOP_FAIL(&diag, DOP_E_USAGE, "no model: dopplerc MODEL -o PLAN (see --help)");
    else if (st == DOP_OK && rest.count > 1)
        st = DOP_FAIL(&diag, DOP_E_USAGE, "more than one model: beside \"%s\" there is \"%s\"; -o PLAN names the plan",
                      rest.items[0], rest.items[1]);
    else if (st == DOP_OK)
        st = compile_model(&o, rest.items[0], &diag);
    if (st == DOP_OK && fflush(stdout) != 0)
        st = DOP_FAIL(&diag, DOP_E_IO, "cannot write to stdout: %s", strerror(errno));
    if (st != DOP_OK)
        dop_diag_print(&diag, "dopplerc", o.verbose);
    dop_cli_finish(&o);
    dop_texts_finish(&rest);
    return dop_status_exit(st);
}
