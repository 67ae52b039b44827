/* The clock that spans, deadlines and measurements use. */
#ifndef DOPPLER_BASE_OS_CLOCK_H
#define DOPPLER_BASE_OS_CLOCK_H

double dop_now_ms(void); /* milliseconds of CLOCK_MONOTONIC */

#endif
