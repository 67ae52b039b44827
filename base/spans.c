#include "base/spans.h"

#include <stdbool.h>
#include <string.h>

uint32_t
dop_spans_begin(dop_spans *spans, const char *name)
{
    uint32_t i = spans ? atomic_fetch_add(&spans->n, 1) : DOP_MAX_SPANS;
    if (i >= DOP_MAX_SPANS)
        return DOP_MAX_SPANS;
    spans->rows[i].name = name;
    spans->rows[i].begin_ms = dop_now_ms();
    return i;
}

void
dop_spans_end(dop_spans *spans, uint32_t span)
{
    if (spans && span < DOP_MAX_SPANS)
        spans->rows[span].end_ms = dop_now_ms();
}

static uint32_t
count_spans(const dop_spans *spans)
{
    uint32_t n = atomic_load(&spans->n);
    return n < DOP_MAX_SPANS ? n : DOP_MAX_SPANS;
}

double
dop_spans_length(const dop_spans *spans, const char *name)
{
    uint32_t n = count_spans(spans);
    for (uint32_t i = 0; i < n; i++)
        if (spans->rows[i].end_ms > 0 && strcmp(spans->rows[i].name, name) == 0)
            return spans->rows[i].end_ms - spans->rows[i].begin_ms;
    return 0;
}

void
dop_spans_log(const dop_spans *spans, double origin_ms, const dop_log *log)
{
    uint32_t n = count_spans(spans);
    bool done[DOP_MAX_SPANS] = {false};
    for (uint32_t k = 0; k < n; k++) {
        uint32_t next = DOP_MAX_SPANS;
        for (uint32_t i = 0; i < n; i++)
            if (!done[i] && (next == DOP_MAX_SPANS || spans->rows[i].begin_ms < spans->rows[next].begin_ms))
                next = i;
        done[next] = true;
        double from = spans->rows[next].begin_ms - origin_ms, to = spans->rows[next].end_ms - origin_ms;
        if (spans->rows[next].end_ms > 0)
            dop_log_printf(log, "start: %6.1f .. %6.1f ms %6.1f  %s", from, to, to - from, spans->rows[next].name);
    }
}
