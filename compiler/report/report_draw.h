/* Draws a small graph as SVG with a layered layout: boxes in levels by data flow, with long edges routed between
 * them. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_DRAW_H
#define DOPPLER_COMPILER_REPORT_REPORT_DRAW_H

#include "base/arena.h"
#include "base/base.h"

typedef struct dop_draw_box {
    const char *title, *text; /* text: wrapped below the title; "": none */
    const char *tip;          /* lines shown while the pointer is on the box */
    int colour;               /* 0 to 11; -1: grey, for a value from outside of the drawing */
    bool barrier;             /* draws a dashed line above the box: a barrier before the dispatch */
    uint32_t width;           /* minimum width in pixels */
} dop_draw_box;

typedef struct dop_draw_edge {
    uint32_t from, to;      /* indices of boxes, from < to */
    const char *tip, *note; /* tip: lines shown at the pointer; note: a word next to the edge, or "" */
} dop_draw_edge;

/* Appends text, escaped for HTML. */
void dop_draw_escape(dop_buf *out, const char *text);
/* Appends the drawing as an svg element. */
dop_status dop_draw(const dop_draw_box *boxes, uint32_t n_boxes, const dop_draw_edge *edges, uint32_t n_edges,
                    dop_arena *arena, dop_diag *diag, dop_buf *out);

#endif
