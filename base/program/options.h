/* Command line parsing and checking from a table, --help, and error output.  Shared by the programs. */
#ifndef DOPPLER_BASE_PROGRAM_OPTIONS_H
#define DOPPLER_BASE_PROGRAM_OPTIONS_H

#include "base/base.h"

#include <stddef.h>

/* Kinds of options, with the type of the field that receives the value. */
typedef enum dop_option_kind {
    DOP_OPT_FLAG,     /* bool: no value */
    DOP_OPT_TEXT,     /* const char * */
    DOP_OPT_OPTIONAL, /* const char *: optional value, only as --name=VALUE; "" without one */
    DOP_OPT_COUNT,    /* uint32_t, min .. max; with min -1, the value -1 is stored as DOP_OPTION_MINUS_1 */
    DOP_OPT_REAL,     /* double, min .. max */
    DOP_OPT_LIST,     /* dop_texts: repeatable */
    DOP_OPT_FILES,    /* dop_texts: like OPTIONAL, but repeatable */
    DOP_OPT_PAIRS,    /* dop_texts: value as --name=A+B, or --name A+B unless A+B is a file; "" without a value */
    DOP_OPT_POINTER,  /* not supported by this program: `help` says what to use instead; also accepted as -name */
} dop_option_kind;

#define DOP_OPTION_MINUS_1 (UINT32_MAX - 1)

/* A list of strings, in order; the strings are not owned (they point into argv). */
typedef struct dop_texts {
    const char **items; /* owned array */
    size_t count;
} dop_texts;

dop_status dop_texts_push(dop_texts *texts, const char *text, dop_diag *diag);
void dop_texts_finish(dop_texts *texts); /* accepts a zeroed struct */

typedef struct dop_option {
    char letter; /* short name -x; 0: none */
    /* Long name --name; NULL: none; a row without letter and name is a heading with its text in `help`. */
    const char *name;
    dop_option_kind kind;
    size_t offset;   /* byte offset of the field in the structure of values */
    const char *arg; /* name of the value in --help */
    const char *help;
    double min, max;    /* range of COUNT and REAL */
    const char *values; /* TEXT and OPTIONAL: allowed words, separated by spaces; NULL: any text */
    bool one_dash;      /* also accepted as -name */
    bool joined;        /* -xVALUE is accepted even if VALUE has lowercase letters and could be an option name */
} dop_option;

/* Rows of an option table for the structure `type`; programs define shorter macros for them.  The --help text comes last; further
 * fields may follow it. */
#define DOP_OPTION(type, x, long_name, of_kind, field, value, ...)                                                \
    {                                                                                                             \
        .letter = x, .name = long_name, .kind = DOP_OPT_##of_kind, .offset = offsetof(type, field), .arg = value, \
        .help = __VA_ARGS__                                                                                       \
    }
#define DOP_NUMBER_OPTION(type, x, long_name, kind, field, value, text, least, ...) \
    DOP_OPTION(type, x, long_name, kind, field, value, text, .min = least, .max = __VA_ARGS__)
#define DOP_OPTION_HEADING(text) \
    {                            \
        .help = text             \
    }

/* Row for an option of another program, such as llama.cpp.  Using it fails with a line that names the alternative. */
#define DOP_OPTION_POINTER(x, long_name, text)                                \
    {                                                                         \
        .letter = x, .name = long_name, .kind = DOP_OPT_POINTER, .help = text \
    }

#define DOP_OPTIONS_OF_GPU_LAYERS(text)                                              \
    DOP_OPTION_POINTER(0, "ngl", text), DOP_OPTION_POINTER(0, "n-gpu-layers", text), \
        DOP_OPTION_POINTER(0, "gpu-layers", text)

/* A rule for combinations of options.  Lists are names separated by spaces; NAME=VALUE means the option with this value. */
typedef struct dop_option_rule {
    const char *options;  /* options that the rule is about; NULL: always applies */
    const char *needs;    /* options of which at least one must also be given; NULL: none */
    const char *excludes; /* options that must not be given with them; NULL: none */
    const char *modes;    /* program modes in which the options are allowed; NULL: all */
    const char *why;      /* Error text after the option's name; @ stands for the conflicting option. */
} dop_option_rule;

enum { DOP_OPTIONS_MOST = 192 };
typedef struct dop_options_given {
    bool row[DOP_OPTIONS_MOST]; /* [row of the table] true if the option is given */
} dop_options_given;

/* Parses a command line into values; fields of absent options keep their contents.  Accepts --name VALUE, --name=VALUE, -x VALUE,
 * -xVALUE and --, and -name VALUE for rows with one_dash.  All errors are DOP_E_USAGE, including single-valued options given twice.
 * Errors about unknown options suggest the nearest name or the alternative.  An argument such as -fa is an unknown option, not -f with
 * the value "a", unless the row has `joined`.  The caller must finish lists in values, also after a failure. */
dop_status dop_options_parse(const dop_option *table, size_t n, int argc, char **argv, dop_diag *diag, void *values,
                             dop_texts *out_rest, dop_options_given *out_given);

/* Sets one option from a configuration file, by its name without dashes; flags are "true" or "false".  The value must outlive values.
 * DOP_E_USAGE: unknown option or invalid value. */
dop_status dop_option_set(const dop_option *table, size_t n, const char *name, const char *value, dop_diag *diag,
                          void *values);

/* True if the option with this name is given. */
bool dop_option_given(const dop_option *table, size_t n, const dop_options_given *given, const char *name);
/* Fails with DOP_E_USAGE at the first rule that the given options violate.  mode: current mode of the program, as in
 * dop_option_rule.modes; NULL: no modes. */
dop_status dop_options_check(const dop_option *table, size_t n, const dop_option_rule *rules, size_t n_rules,
                             const dop_options_given *given, const void *values, const char *mode, dop_diag *diag);

/* Appends the help text, one aligned line per option. */
void dop_options_help(const dop_option *table, size_t n, dop_buf *out);

/* Prints `PROGRAM: FILE:LINE: error: MESSAGE` to stderr, or a JSON object if logs are JSON (say.h). */
void dop_diag_print(const dop_diag *diag, const char *program, bool verbose);
/* Returns the exit status that CLI.md specifies for a code. */
int dop_status_exit(dop_status code);

#endif
