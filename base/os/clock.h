/* The clock that spans, deadlines and measurements use. */
#ifndef DOPPLER_BASE_OS_CLOCK_H
#define DOPPLER_BASE_OS_CLOCK_H

#include <stddef.h>

double dop_now_ms(void); /* milliseconds of CLOCK_MONOTONIC */
/* Writes the date and the time of day for lines of a log, as 2026-11-28T16:09:30Z (21 bytes). */
void dop_now_utc(char *out, size_t size);

#endif
