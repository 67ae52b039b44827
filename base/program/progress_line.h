/* Progress display of programs on stderr. */
#ifndef DOPPLER_BASE_PROGRAM_PROGRESS_LINE_H
#define DOPPLER_BASE_PROGRAM_PROGRESS_LINE_H

#include "base/base.h"

/* Progress display state.  Terminals show one updated line with percentage, bytes and seconds left.  Otherwise, with `verbose`, each
 * tenth of a step prints a line. */
typedef struct dop_progress_line {
    const char *program;
    bool quiet, verbose;
    const char *step; /* current step; NULL: none yet */
    double start_ms;  /* start of the step, ms */
    double shown_ms;  /* time of the last output, ms */
    int tenth;        /* last tenth printed */
    uint32_t width;   /* characters of the line on the terminal */
} dop_progress_line;

/* A dop_progress callback with a dop_progress_line as `user`; never cancels.  Units are bytes, except in the steps "kernels", "tokens"
 * and "steps". */
dop_progress_fn dop_progress_line_show;
/* Clears the line on a terminal. */
void dop_progress_line_end(dop_progress_line *line);

#endif
