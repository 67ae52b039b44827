/* What the programs call the parameters that messages of the libraries name. */
#ifndef DOPPLER_BASE_PROGRAM_NAMES_H
#define DOPPLER_BASE_PROGRAM_NAMES_H

#include "base/base.h"

/* Appends a message in which each parameter of the public headers between backquotes, as `ctx`, is replaced by the option that stands for
 * it; others stay as they are. */
void dop_name_options(const char *message, dop_buf *out);
/* Writes such a message to stderr, between two texts; as it is where memory runs out. */
void dop_print_named(const char *before, const char *message, const char *after);

#endif
