#include "base/os/log.h"

#include <stdarg.h>
#include <stdio.h>

void
dop_log_printf(const dop_log *log, const char *fmt, ...)
{
    if (!log || !log->line)
        return;
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    log->line(log->user, text);
}
