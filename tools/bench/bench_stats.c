#include "tools/bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int
compare_stat_values(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

dop_status
dop_stats_of(const double *values, size_t n, dop_diag *diag, dop_stats *out_stats)
{
    dop_stats *s = out_stats;
    memset(s, 0, sizeof *s);
    double *sorted = calloc(n ? n : 1, sizeof *sorted);
    if (!sorted)
        return DOP_NO_MEMORY(diag);
    if (n > 0) {
        memcpy(sorted, values, n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, compare_stat_values);
        for (size_t i = 0; i < n; i++)
            s->mean += sorted[i] / (double)n;
        for (size_t i = 0; i < n; i++)
            s->stddev += (sorted[i] - s->mean) * (sorted[i] - s->mean);
        s->stddev = n > 1 ? sqrt(s->stddev / (double)(n - 1)) : 0;
        s->median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
        s->min = sorted[0];
        s->max = sorted[n - 1];
    }
    free(sorted);
    return DOP_OK;
}

/* Sums the smaller of two sizes per dispatch: the bytes that it reads, and the weights bound to it. A gather reads
 * one row of a large matrix, so the size of the weights alone would be too large. */
uint64_t
dop_bench_weights_read(const dop_plan *plan, uint32_t schedule)
{
    const dop_plan_schedule *s = &plan->schedules[schedule];
    uint64_t total = 0;
    bool persistent = s->n_stages > 0; /* the first dispatch contains all stages */
    for (uint32_t i = persistent; i < s->n_dispatches + s->n_stages; i++) {
        uint32_t row = i < s->n_dispatches ? s->first_dispatch + i : s->first_stage + i - s->n_dispatches;
        const dop_plan_dispatch *d = &plan->dispatches[row];
        uint64_t weights = 0;
        for (uint32_t j = 0; j < d->n_args; j++) {
            const dop_plan_arg *a = &plan->args[d->first_arg + j];
            if (a->slot != DOP_ARG_NUMBERS && plan->slots[a->slot].kind == DOP_SLOT_WEIGHTS)
                weights += a->size;
        }
        total += weights < d->bytes_read ? weights : d->bytes_read;
    }
    return total;
}

double
dop_bench_known_floor(const char *device_name)
{
    /* Measured with a read-only kernel on data larger than the caches. H200: docs/design.md, "read 4.6 TB/s". */
    static const struct {
        const char *part;
        double gbps;
    } known[] = {
        {"H200", 4600},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strstr(device_name, known[i].part))
            return known[i].gbps;
    return 0;
}
