/* Formatted output to a dop_log (-v), one line without a newline per call.  A NULL log or callback discards it. */
#ifndef DOPPLER_BASE_OS_LOG_H
#define DOPPLER_BASE_OS_LOG_H

#include <doppler/status.h>

void dop_log_printf(const dop_log *log, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
