/* Mapping of library parameter names to command line options, for messages. */
#ifndef DOPPLER_BASE_PROGRAM_NAMES_H
#define DOPPLER_BASE_PROGRAM_NAMES_H

#include "base/base.h"

/* Appends a message, replacing each public parameter between backquotes (`ctx`) by the name of its option.  Others stay unchanged. */
void dop_name_options(const char *message, dop_buf *out);
/* Writes such a message to stderr between two texts; without replacement if memory runs out. */
void dop_print_named(const char *before, const char *message, const char *after);

#endif
