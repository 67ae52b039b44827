/* Layered drawing of a small graph as SVG: boxes in levels by data flow, long edges routed between the boxes. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_DRAW_H
#define DOPPLER_COMPILER_REPORT_REPORT_DRAW_H

#include "base/arena.h"
#include "base/base.h"

typedef struct dop_draw_box {
    const char *title, *text; /* text: words, wrapped to the width; "" if none */
    const char *tip;          /* lines shown while the pointer is on it */
    int colour;               /* 0..11; -1: grey, for something outside of what is drawn */
    bool barrier;             /* marked: a barrier before it waits for what is above */
    uint32_t width;           /* least width in pixels */
} dop_draw_box;

typedef struct dop_draw_edge {
    uint32_t from, to;      /* from < to */
    const char *tip, *note; /* note: short, written beside the edge; "" if none */
} dop_draw_edge;

/* HTML-escapes text. */
void dop_draw_escape(dop_buf *out, const char *text);
dop_status dop_draw(const dop_draw_box *boxes, uint32_t n_boxes, const dop_draw_edge *edges, uint32_t n_edges,
                    dop_arena *arena, dop_diag *diag, dop_buf *out);

#endif
