/* The command line of dopplerc: its options, what they ask of a compilation, and what is printed and written of one. */
#ifndef DOPPLER_TOOLS_DOPPLERC_CLI_H
#define DOPPLER_TOOLS_DOPPLERC_CLI_H

#include "base/program/options.h"
#include "base/program/progress_line.h"
#include "compiler/library/job.h"

/* Options as they were given.  Texts point into argv; what is not given is NULL, 0 or false. */
typedef struct dop_compiler_cli {
    dop_compile_options
        plan; /* what the library is asked for; lists are in skip, force, no_fuse and lora until dop_cli_fill */
    const char *output, *stop_after, *emit, *dump_dir, *dumps, *weights, *explain, *tune, *target_out, *simulate;
    dop_texts skip, force, avoid, no_fuse, lora, control_vector;
    dop_texts report; /* files of --report; "": the report is printed */
    bool json, check, quiet, verbose, help, version;
    bool list_targets, list_types, list_kernels, list_models;
    dop_options_given given;
    dop_progress_line progress;
} dop_compiler_cli;

/* cli_options.c */
/* Parses the command line.  *out_rest: the arguments that are no options.  Both *out and *out_rest must be finished even after a
 * failure. */
dop_status dop_cli_parse(int argc, char **argv, dop_diag *diag, dop_compiler_cli *out, dop_texts *out_rest);
void dop_cli_finish(dop_compiler_cli *o); /* accepts a zeroed one */
/* Refuses values that are not known and options that make no sense together. */
dop_status dop_cli_check(const dop_compiler_cli *o, dop_diag *diag);
/* Completes o->plan, which points into *o then. */
void dop_cli_fill(dop_compiler_cli *o);
/* Sets what only dopplerc offers. */
dop_status dop_cli_adjust(const dop_compiler_cli *o, dop_compilation_options *io_options, dop_diag *diag);
void dop_cli_print_help(void);
/* Is the stage of --emit printed once, for all targets together? */
bool dop_cli_emits_all(const dop_compiler_cli *o);
/* The ending of a file name with its dot, as ".json"; "": it has none. */
const char *dop_cli_ending(const char *file);

/* lists.c */
/* Prints what the --list- options ask for.  False: none was given. */
bool dop_cli_print_lists(const dop_compiler_cli *o);

/* cli_output.c */
/* Writes the files of --dump-dir and prints the graphs of -d. */
typedef struct dop_dumper {
    const dop_compiler_cli *c;
    uint32_t serial;          /* number of the next file */
    const char *target;       /* target in names of files; NULL: there is only one */
    const dop_inputs *inputs; /* files that no file may replace */
    dop_diag *diag;
    dop_status status; /* the first failure to write a file; no file is written after it */
} dop_dumper;

/* Fits `dump` of the pass driver's options (passes/pass.h), with a dop_dumper as `user`. */
void dop_dump_pass(void *user, dop_pass_id pass, const dop_graph *g, bool changed);
/* Writes and prints everything that the options ask for of the compilations: files of --dump-dir, --emit and --explain, the report,
 * the prediction, the plan. */
dop_status dop_cli_write(const dop_compiler_cli *o, dop_compile_job *job, dop_dumper *d, dop_diag *diag);

/* cli_summary.c */
/* Prints the last line: what was written since start_ms (dop_now_ms), its size, its memory on the device, types of weights. */
void dop_cli_say_summary(const dop_compiler_cli *o, const dop_compile_job *job, double start_ms);

#endif
