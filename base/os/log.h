/* The log of the library's decisions (-v).  Lines come without a newline; a NULL log or function drops them. */
#ifndef DOPPLER_BASE_OS_LOG_H
#define DOPPLER_BASE_OS_LOG_H

#include <doppler/status.h>

void dop_log_printf(const dop_log *log, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
