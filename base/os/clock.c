#include "base/os/clock.h"

#include <time.h>

double
dop_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void
dop_now_utc(char *out, size_t size)
{
    struct timespec now;
    struct tm t;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &t);
    strftime(out, size, "%Y-%m-%dT%H:%M:%SZ", &t);
}
