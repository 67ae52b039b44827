/* Command line of dopplerc: options, their effect on a compilation, and its printed and written results. */
#ifndef DOPPLER_TOOLS_DOPPLERC_CLI_H
#define DOPPLER_TOOLS_DOPPLERC_CLI_H

#include "base/program/options.h"
#include "base/program/progress_line.h"
#include "compiler/library/job.h"

/* Options as given. Strings point into argv; options that are not given are NULL, 0 or false. */
typedef struct dop_compiler_cli {
    dop_compile_options plan; /* options for the library; dop_cli_fill adds lists to it */
    const char *output, *stop_after, *emit, *dump_dir, *dumps, *weights, *explain, *tune, *target_out, *simulate;
    dop_texts skip, force, avoid, no_fuse, lora, control_vector;
    dop_texts report; /* files of --report; "": print it */
    bool json, check, quiet, verbose, help, version;
    bool list_targets, list_types, list_kernels, list_models;
    dop_options_given given;
    dop_progress_line progress;
} dop_compiler_cli;

/* cli_options.c */
/* Parses the command line. *out_rest: arguments that are not options. The caller must finish *out and *out_rest even
 * after a failure. */
dop_status dop_cli_parse(int argc, char **argv, dop_diag *diag, dop_compiler_cli *out, dop_texts *out_rest);
void dop_cli_finish(dop_compiler_cli *o); /* accepts a zeroed struct */
/* Rejects unknown values and invalid combinations of options. */
dop_status dop_cli_check(const dop_compiler_cli *o, dop_diag *diag);
/* Completes o->plan, which then contains pointers into *o. */
void dop_cli_fill(dop_compiler_cli *o);
/* Sets options that only dopplerc offers, not the library. */
dop_status dop_cli_adjust(const dop_compiler_cli *o, dop_compilation_options *io_options, dop_diag *diag);
void dop_cli_print_help(void);
/* True if the stage of --emit is printed once for all targets. */
bool dop_cli_emits_all(const dop_compiler_cli *o);
/* Returns the ending of a file name with its dot, such as ".json"; "": none. */
const char *dop_cli_ending(const char *file);

/* lists.c */
/* Prints the lists that --list- options ask for. Returns false if none was given. */
bool dop_cli_print_lists(const dop_compiler_cli *o);

/* cli_output.c */
/* Writer of --dump-dir files and of the graphs of -d. */
typedef struct dop_dumper {
    const dop_compiler_cli *c;
    uint32_t serial;          /* number of the next file */
    const char *target;       /* target name for file names; NULL: there is only one target */
    const dop_inputs *inputs; /* input files, which no output may replace */
    dop_diag *diag;
    dop_status status; /* first write error; nothing is written after it */
} dop_dumper;

/* Dumps the graph after a pass (`dump` of passes/pass.h). user: a dop_dumper. */
void dop_dump_pass(void *user, dop_pass_id pass, const dop_graph *g, bool changed);
/* Writes and prints all requested results: --dump-dir files, --emit, --explain, the report, the simulation, the
 * plan. */
dop_status dop_cli_write(const dop_compiler_cli *o, dop_compile_job *job, dop_dumper *d, dop_diag *diag);

/* cli_summary.c */
/* Prints the summary line: output file, elapsed time since start_ms (dop_now_ms), size, device memory, weight types. */
void dop_cli_say_summary(const dop_compiler_cli *o, const dop_compile_job *job, double start_ms);

#endif
