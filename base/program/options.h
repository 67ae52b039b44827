/* Command lines from a table: parsing, checking, and the text of --help; how errors are shown.  Shared by both programs. */
#ifndef DOPPLER_BASE_PROGRAM_OPTIONS_H
#define DOPPLER_BASE_PROGRAM_OPTIONS_H

#include "base/base.h"

#include <stddef.h>

/* Kinds of options, each with the type of the field that its value is stored in. */
typedef enum dop_option_kind {
    DOP_OPT_FLAG,     /* bool: no value */
    DOP_OPT_TEXT,     /* const char * */
    DOP_OPT_OPTIONAL, /* const char *: may have a value, only as --name=VALUE; "" when there is none */
    DOP_OPT_COUNT,    /* uint32_t, min .. max; where min is -1, the value -1 is stored as DOP_OPTION_MINUS_1 */
    DOP_OPT_REAL,     /* double, min .. max */
    DOP_OPT_LIST,     /* dop_texts: may be given several times */
    DOP_OPT_FILES,    /* dop_texts: OPTIONAL that may be given several times */
    DOP_OPT_PAIRS,    /* dop_texts: "" without a value; a value as --name=A+B, or as --name A+B where A+B is no file */
    DOP_OPT_POINTER,  /* no option of this program: `help` says what to use instead; also as -name */
} dop_option_kind;

#define DOP_OPTION_MINUS_1 (UINT32_MAX - 1)

/* Texts in order; the texts themselves are not owned (they point into argv). */
typedef struct dop_texts {
    const char **items; /* owned */
    size_t count;
} dop_texts;

dop_status dop_texts_push(dop_texts *texts, const char *text, dop_diag *diag);
void dop_texts_finish(dop_texts *texts); /* accepts a zeroed one */

typedef struct dop_option {
    char letter;      /* -x; 0: none */
    const char *name; /* --name; NULL: none; starting a row with neither: a heading, its text in `help` */
    dop_option_kind kind;
    size_t offset;   /* offset of the option's field in the structure of values, bytes */
    const char *arg; /* what --help calls the value */
    const char *help;
    double min, max;    /* COUNT and REAL */
    const char *values; /* TEXT and OPTIONAL: the words that it may be, between spaces; NULL: any text */
    bool one_dash;      /* also as -name */
    bool joined;        /* -xVALUE is accepted for a VALUE in lowercase letters too, which looks like a name */
} dop_option;

/* Rows of a table of options for the structure `type`; programs define shorter names for them.  The text of --help comes last, and
 * more fields of the row may follow it. */
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

/* The row for an option of other programs, such as llama.cpp's: using it fails with a line that says what to use here. */
#define DOP_OPTION_POINTER(x, long_name, text)                                \
    {                                                                         \
        .letter = x, .name = long_name, .kind = DOP_OPT_POINTER, .help = text \
    }

#define DOP_OPTIONS_OF_GPU_LAYERS(text)                                              \
    DOP_OPTION_POINTER(0, "ngl", text), DOP_OPTION_POINTER(0, "n-gpu-layers", text), \
        DOP_OPTION_POINTER(0, "gpu-layers", text)

/* A rule about which options go together.  Lists are names with spaces between them; NAME=VALUE means the option with this value. */
typedef struct dop_option_rule {
    const char *options;  /* the options that the rule is about; NULL: the rule holds whatever is given */
    const char *needs;    /* options of which one must be given too; NULL: none need be */
    const char *excludes; /* options that must not be given too; NULL: all may be */
    const char *modes;    /* modes of the program in which the options may be given; NULL: all */
    const char *why; /* text of the error behind the option's name; @ stands for the option that it does not go with */
} dop_option_rule;

enum { DOP_OPTIONS_MOST = 192 };
typedef struct dop_options_given {
    bool row[DOP_OPTIONS_MOST]; /* for each row of the table: the option is given */
} dop_options_given;

/* Fills values (fields of options that are not given keep what they hold) and the other arguments.  Accepts --name VALUE,
 * --name=VALUE, -x VALUE, -xVALUE and -- , and -name VALUE where the row has one_dash.  Everything wrong is DOP_E_USAGE, also an option
 * with one value that is given twice; an unknown option names the nearest one, or what to use instead of it.  An argument such as -fa is
 * the name of an unknown option, not -f with the value "a", unless the row of the letter has `joined`.
 * Lists in values must be finished by the caller, also after a failure. */
dop_status dop_options_parse(const dop_option *table, size_t n, int argc, char **argv, dop_diag *diag, void *values,
                             dop_texts *out_rest, dop_options_given *out_given);

/* Sets one option as a file states it, by its name without dashes; a flag is "true" or "false".  The value must outlive values.
 * DOP_E_USAGE: there is no such option, or it has not this value. */
dop_status dop_option_set(const dop_option *table, size_t n, const char *name, const char *value, dop_diag *diag,
                          void *values);

/* Is the option of that name given? */
bool dop_option_given(const dop_option *table, size_t n, const dop_options_given *given, const char *name);
/* DOP_E_USAGE: the first rule that the given options break.  mode: what the program is asked to do, the name of an option or of
 * what it does without one; NULL: it has no modes. */
dop_status dop_options_check(const dop_option *table, size_t n, const dop_option_rule *rules, size_t n_rules,
                             const dop_options_given *given, const void *values, const char *mode, dop_diag *diag);

/* One line per option, aligned. */
void dop_options_help(const dop_option *table, size_t n, dop_buf *out);

/* Prints `PROGRAM: FILE:LINE: error: MESSAGE` to stderr, or a JSON object where the log is JSON (say.h). */
void dop_diag_print(const dop_diag *diag, const char *program, bool verbose);
/* Exit status that CLI.md fixes for a code. */
int dop_status_exit(dop_status code);

#endif
