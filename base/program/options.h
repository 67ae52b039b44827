/* Command lines from a table: parsing, checking, and the text of --help; how errors are shown.  Shared by both programs. */
#ifndef DOPPLER_BASE_PROGRAM_OPTIONS_H
#define DOPPLER_BASE_PROGRAM_OPTIONS_H

#include "base/base.h"

#include <stddef.h>

/* Kinds and the type of the field that `offset` names. */
typedef enum dop_option_kind {
    DOP_OPT_FLAG,     /* bool: no value */
    DOP_OPT_TEXT,     /* const char * */
    DOP_OPT_OPTIONAL, /* const char *: a value only as --name=VALUE; "" without */
    DOP_OPT_COUNT,    /* uint32_t, min .. max; -1 where min is: DOP_OPTION_MINUS_1 */
    DOP_OPT_REAL,     /* double, min .. max */
    DOP_OPT_LIST,     /* dop_texts: may be given several times */
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
    size_t offset;   /* of the field in the structure of values */
    const char *arg; /* what --help calls the value */
    const char *help;
    double min, max; /* COUNT and REAL */
} dop_option;

/* Rows of a table of options for the structure `type`; programs define shorter names for them. */
#define DOP_OPTION(type, letter, name, kind, field, arg, help) \
    DOP_NUMBER_OPTION(type, letter, name, kind, field, arg, help, 0, 0)
#define DOP_NUMBER_OPTION(type, letter, name, kind, field, arg, help, min, max)  \
    {                                                                            \
        letter, name, DOP_OPT_##kind, offsetof(type, field), arg, help, min, max \
    }
#define DOP_OPTION_HEADING(text)                   \
    {                                              \
        0, NULL, DOP_OPT_FLAG, 0, NULL, text, 0, 0 \
    }

/* What users of other programs try: one line that says where to find it here. */
#define DOP_OPTION_POINTER(letter, name, help)             \
    {                                                      \
        letter, name, DOP_OPT_POINTER, 0, NULL, help, 0, 0 \
    }

/* Fills values (fields of options that are not given keep what they hold) and the other arguments.  Accepts --name VALUE,
 * --name=VALUE, -x VALUE, -xVALUE and -- .  Everything wrong is DOP_E_USAGE; an unknown option names the nearest one, or
 * what to use instead of it.
 * Lists in values must be finished by the caller, also after a failure. */
dop_status dop_options_parse(const dop_option *table, size_t n, int argc, char **argv, dop_diag *diag, void *values,
                             dop_texts *out_rest);

/* One line per option, aligned. */
void dop_options_help(const dop_option *table, size_t n, dop_buf *out);

/* Prints `PROGRAM: FILE:LINE: error: MESSAGE` to stderr. */
void dop_diag_print(const dop_diag *diag, const char *program, bool verbose);
/* Exit status that CLI.md fixes for a code. */
int dop_status_exit(dop_status code);

#endif
