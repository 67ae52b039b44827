/* Standard output of a program, which is checked: a full disk or a closed pipe is an error. */
#ifndef DOPPLER_BASE_PROGRAM_PRINT_H
#define DOPPLER_BASE_PROGRAM_PRINT_H

#include "base/base.h"

/* Writes a text to stdout; fails when stdout cannot be written (a full disk, a closed pipe).  A terminal gets the text without control
 * characters (dop_make_harmless). */
dop_status dop_cli_print(const char *text, size_t len, dop_diag *diag);
/* Writes an assembled text to stdout; fails also when a part of the text was lost for want of memory. */
dop_status dop_cli_print_buf(const dop_buf *text, dop_diag *diag);
/* Writes a line to stdout and ends it.  line NULL: fails, because there was no memory to make the line. */
dop_status dop_cli_print_line(const char *line, dop_diag *diag);
/* Call before a line on stderr: ends an unfinished line on stdout where both go to the same terminal or file. */
void dop_cli_end_line(void);

#endif
