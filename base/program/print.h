/* Checked standard output of programs: a full disk or a closed pipe is an error. */
#ifndef DOPPLER_BASE_PROGRAM_PRINT_H
#define DOPPLER_BASE_PROGRAM_PRINT_H

#include "base/base.h"

/* Writes text to stdout.  Fails if stdout cannot be written.  On terminals, control characters are replaced (dop_make_harmless). */
dop_status dop_cli_print(const char *text, size_t len, dop_diag *diag);
/* Writes an assembled text to stdout.  Fails also if the buffer failed. */
dop_status dop_cli_print_buf(const dop_buf *text, dop_diag *diag);
/* Writes a line and a newline to stdout.  line NULL: fails, because memory ran out. */
dop_status dop_cli_print_line(const char *line, dop_diag *diag);
/* Ends an unfinished line on stdout before output to stderr, if both are the same terminal or file. */
void dop_cli_end_line(void);

#endif
