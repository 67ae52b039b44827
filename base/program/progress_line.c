#include "base/program/progress_line.h"

#include "base/os/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void
dop_progress_line_end(dop_progress_line *line)
{
    if (line->width)
        fprintf(stderr, "\r%*s\r", (int)line->width, "");
    line->width = 0;
}

static void
overwrite_progress_line(dop_progress_line *l, const char *step, uint64_t done, uint64_t all, double now)
{
    const bool bytes = strcmp(step, "kernels") != 0 && strcmp(step, "tokens") != 0 && strcmp(step, "steps") != 0;
    const double unit = bytes ? 1e6 : 1, seconds = (now - l->start_ms) / 1e3;
    char text[120];
    int n = snprintf(text, sizeof text, "%s %3.0f%%  %.0f of %.0f%s", step, 100.0 * (double)done / (double)all,
                     (double)done / unit, (double)all / unit, bytes ? " MB" : "");
    if (seconds > 0.5 && done > 0)
        n += snprintf(text + n, sizeof text - (size_t)n, "  %.0f s left",
                      seconds * ((double)all - (double)done) / (double)done);
    fprintf(stderr, "\r%s%*s", text, (int)l->width > n ? (int)l->width - n : 0, "");
    l->width = (uint32_t)n;
    l->shown_ms = now;
}

bool
dop_progress_line_show(void *user, const char *step, uint64_t done, uint64_t all)
{
    dop_progress_line *l = user;
    const bool fresh = !l->step || strcmp(l->step, step) != 0;
    const double now = dop_now_ms();
    if (l->quiet || all == 0)
        return true;
    if (fresh) {
        l->start_ms = now;
        l->tenth = -1;
    }
    l->step = step;
    if (isatty(STDERR_FILENO)) {
        if (done >= all)
            dop_progress_line_end(l);
        else if (fresh || now - l->shown_ms > 50)
            overwrite_progress_line(l, step, done, all, now);
        return true;
    }
    const int tenth = (int)(10 * (double)done / (double)all);
    if (l->verbose && tenth > l->tenth)
        fprintf(stderr, "%s: %s %d%%\n", l->program, step, tenth * 10);
    l->tenth = tenth > l->tenth ? tenth : l->tenth;
    return true;
}
