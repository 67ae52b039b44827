/* Clocks for deadlines, measurements and log lines. */
#ifndef DOPPLER_BASE_OS_CLOCK_H
#define DOPPLER_BASE_OS_CLOCK_H

#include <stddef.h>

double dop_now_ms(void); /* monotonic time in milliseconds (CLOCK_MONOTONIC) */
/* Formats the current time in UTC for logs: 2026-11-28T16:09:30Z (21 bytes with the terminator). */
void dop_now_utc(char *out, size_t size);

#endif
