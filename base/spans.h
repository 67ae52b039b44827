/* Timing spans of opening a model, recorded by several threads: a breakdown of the time to the first token (-v). */
#ifndef DOPPLER_BASE_SPANS_H
#define DOPPLER_BASE_SPANS_H

#include "base/os/clock.h"
#include "base/os/log.h"

#include <stdatomic.h>
#include <stdint.h>

enum { DOP_MAX_SPANS = 48 };

/* Spans of one opening; zero-initialize.  Spans beyond DOP_MAX_SPANS are dropped. */
typedef struct dop_spans {
    _Atomic uint32_t n;
    struct {
        const char *name; /* static or otherwise outliving the spans; not owned */
        double begin_ms;  /* start in milliseconds of dop_now_ms() */
        double end_ms;    /* end in milliseconds of dop_now_ms(); 0: not ended */
    } rows[DOP_MAX_SPANS];
} dop_spans;

/* Starts a span and returns its number, for dop_spans_end.  spans may be NULL. */
uint32_t dop_spans_begin(dop_spans *spans, const char *name);
void dop_spans_end(dop_spans *spans, uint32_t span);
/* Returns the duration in milliseconds of the first finished span with that name; 0: none.  No thread may record spans meanwhile. */
double dop_spans_length(const dop_spans *spans, const char *name);
/* Logs one line per span, ordered by start; times are relative to origin_ms.  No thread may record spans meanwhile. */
void dop_spans_log(const dop_spans *spans, double origin_ms, const dop_log *log);

#endif
