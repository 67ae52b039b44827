/* Image tokens of a prompt. */
#include "media/picture/image_processor.h"

#include <stdlib.h>
#include <string.h>

typedef struct marks {
    dop_image_mark *items;
    uint32_t n, cap;
    bool failed;
} marks;

/* Appends a text repeated n times as one mark.  Does nothing if the text is empty or n is 0. */
static void
append_image_mark(marks *m, const char *text, uint32_t n, bool features)
{
    if (!text[0] || n == 0 || m->failed)
        return;
    if (m->n == m->cap) {
        const uint32_t cap = m->cap ? 2 * m->cap : 16;
        dop_image_mark *items = realloc(m->items, cap * sizeof *items);
        m->failed = !items;
        if (!items)
            return;
        m->items = items;
        m->cap = cap;
    }
    dop_image_mark *const x = &m->items[m->n++];
    *x = (dop_image_mark){.n = n, .features = features};
    snprintf(x->text, sizeof x->text, "%s", text);
}

/* Appends the marker of a tile with its row and column, counted from 1. */
static void
append_tile_marker(marks *m, dop_mark_form form, uint32_t row, uint32_t column)
{
    char place[sizeof((dop_image_mark *)NULL)->text];
    if (form == DOP_MARKS_TILES)
        snprintf(place, sizeof place, "<row_%u_col_%u>", row + 1, column + 1);
    else
        snprintf(place, sizeof place, "<|img_row_%u_col_%u|>", row + 1, column + 1);
    append_image_mark(m, place, 1, false);
}

/* Appends the marks of DOP_MARKS_GRID. */
static void
append_grid_marks(marks *m, const dop_image_processor *p, const dop_image_layout *x)
{
    append_image_mark(m, p->begin, 1, false);
    for (uint32_t i = 0; i < x->n_tiles; i++) {
        const dop_image_tile tile = dop_image_tile_of(p, x, i);
        if (!tile.whole)
            append_tile_marker(m, DOP_MARKS_GRID, i / x->tile_columns, i % x->tile_columns);
        else if (x->n_tiles > 1)
            append_image_mark(m, p->whole, 1, false);
        append_image_mark(m, p->image, tile.features, true);
    }
    append_image_mark(m, p->end, 1, false);
}

/* Appends the marks of DOP_MARKS_TILES: each tile after a marker with its row and column, then the whole image. */
static void
append_tile_marks(marks *m, const dop_image_processor *p, const dop_image_layout *x)
{
    const uint32_t each = dop_image_tile_of(p, x, 0).features;
    for (uint32_t row = 0; row < x->tile_rows; row++) {
        for (uint32_t column = 0; column < x->tile_columns; column++) {
            append_image_mark(m, p->begin, 1, false);
            append_tile_marker(m, DOP_MARKS_TILES, row, column);
            append_image_mark(m, p->image, each, true);
        }
        append_image_mark(m, p->row_end, 1, false);
    }
    if (x->tile_rows > 0)
        append_image_mark(m, p->row_end, 1, false);
    append_image_mark(m, p->begin, 1, false);
    append_image_mark(m, p->whole, 1, false);
    append_image_mark(m, p->image, each, true);
    append_image_mark(m, p->end, 1, false);
}

dop_status
dop_image_marks(const dop_image_processor *p, const dop_image_layout *layout, dop_diag *diag,
                dop_image_mark **out_marks, uint32_t *out_n)
{
    marks m = {0};
    const uint32_t lines = p->marks == DOP_MARKS_LINES ? layout->grid_height / p->merge : 1;
    *out_marks = NULL;
    *out_n = 0;
    if (p->marks == DOP_MARKS_TILES) {
        append_tile_marks(&m, p, layout);
    } else if (p->marks == DOP_MARKS_GRID) {
        append_grid_marks(&m, p, layout);
    } else {
        append_image_mark(&m, p->begin, 1, false);
        for (uint32_t i = 0; i < lines; i++) {
            append_image_mark(&m, p->image, layout->features / lines, true);
            if (i + 1 < lines)
                append_image_mark(&m, p->row_end, 1, false);
        }
        append_image_mark(&m, p->end, 1, false);
    }
    if (m.failed) {
        free(m.items);
        return DOP_NO_MEMORY(diag);
    }
    *out_marks = m.items;
    *out_n = m.n;
    return DOP_OK;
}
