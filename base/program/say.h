/* Lines that a program says of its work on stderr: text, or one JSON object a line where its log is JSON. */
#ifndef DOPPLER_BASE_PROGRAM_SAY_H
#define DOPPLER_BASE_PROGRAM_SAY_H

#include "base/base.h"

/* From now on every line of dop_say, dop_say_failure and dop_diag_print is a JSON object with "time", "level" and "message". */
void dop_say_as_json(void);
bool dop_says_json(void);

/* Writes "PROGRAM: MESSAGE" and a line feed.  level: "info", "note" or "error", which only JSON shows.  Names of parameters between
 * backquotes become options (names.h). */
void dop_say(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes why something failed, as a JSON object that has "path", "line" and "column" too, where they are known. */
void dop_say_failure(const dop_diag *diag);
/* Appends such an object and a line feed.  url: a further member; NULL: none. */
void dop_say_object(const char *level, const char *message, const char *url, dop_buf *out);

#endif
