/* The progress that programs show on stderr: a line that is overwritten, or lines. */
#ifndef DOPPLER_BASE_PROGRAM_PROGRESS_LINE_H
#define DOPPLER_BASE_PROGRAM_PROGRESS_LINE_H

#include "base/base.h"

/* On a terminal one line with share, bytes and seconds left; elsewhere, with `verbose`, a line for each tenth of a step; else nothing. */
typedef struct dop_progress_line {
    const char *program;
    bool quiet, verbose;
    const char *step; /* the step that is shown; NULL: none yet */
    double start_ms;  /* when the step began */
    double shown_ms;  /* when the line was last written */
    int tenth;        /* the last tenth that was shown */
    uint32_t width;   /* characters of the line on the terminal */
} dop_progress_line;

/* Fits dop_progress, with a dop_progress_line as `user`; never cancels.  What is done counts bytes, except in the steps "kernels",
 * "tokens" and "steps". */
dop_progress_fn dop_progress_line_show;
/* Clears the line on a terminal. */
void dop_progress_line_end(dop_progress_line *line);

#endif
