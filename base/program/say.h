/* Status messages of programs on stderr: text, or one JSON object per line. */
#ifndef DOPPLER_BASE_PROGRAM_SAY_H
#define DOPPLER_BASE_PROGRAM_SAY_H

#include "base/base.h"

/* Switches dop_say, dop_say_failure and dop_diag_print to JSON objects with "time", "level" and "message". */
void dop_say_as_json(void);
bool dop_says_json(void);

/* Writes "PROGRAM: MESSAGE" and a newline.  level: "info", "note" or "error"; shown in JSON only.  Parameter names between backquotes
 * become options (names.h). */
void dop_say(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes the reason of a failure as a JSON object, with "path", "line" and "column" if known. */
void dop_say_failure(const dop_diag *diag);
/* Appends a JSON object and a newline.  url: an additional member; NULL: none. */
void dop_say_object(const char *level, const char *message, const char *url, dop_buf *out);

#endif
