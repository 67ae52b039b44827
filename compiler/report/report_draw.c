#include "compiler/report/report_draw.h"

#include <stdio.h>
#include <string.h>

/* Sizes in pixels. CHAR, TITLE and NOTE are maximum widths of a character in small type, in a box title and in a note.
 * SWEEPS is the number of passes that order and place items. */
enum {
    LINE = 14,
    PAD = 7,
    GAP_X = 18,
    GAP_Y = 30,
    THREAD = 8,
    SWEEPS = 12,
    CHAR = 6,
    TITLE = 7,
    NOTE = 6,
    NOTE_LINE = 12
};

/* Item of a level: a box, or an edge that passes through the level (a dummy node of a layered layout). */
typedef struct item {
    uint32_t level, order;
    int32_t box; /* index of the box; -1: an edge that passes through */
    double x, width;
    double wish;
} item;

/* Position of an edge's note: in the gap above the level where the edge ends. */
typedef struct note {
    double x, y, width; /* left end, baseline, width in pixels */
    uint32_t edge, level, line;
} note;

typedef struct link {
    uint32_t from, to; /* items, one level apart */
} link;

typedef struct layout {
    const dop_draw_box *boxes;
    const dop_draw_edge *edges;
    uint32_t n_boxes, n_edges, n_items, n_links, n_levels;
    item *items;
    link *links;
    uint32_t *first;  /* [n_edges + 1] first entry of each edge in `path` */
    uint32_t *path;   /* concatenated items of all edges, each from start to end */
    uint32_t *sorted; /* items sorted by level and order */
    double *y;        /* [n_levels + 1] top of each level in pixels */
    double *gap;      /* [n_levels + 1] space above each level in pixels */
    note *notes;      /* [n_notes] */
    uint32_t n_notes;
} layout;

void
dop_draw_escape(dop_buf *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        const char *e = *p == '<'    ? "&lt;"
                        : *p == '>'  ? "&gt;"
                        : *p == '&'  ? "&amp;"
                        : *p == '"'  ? "&quot;"
                        : *p == '\n' ? "&#10;"
                                     : NULL;
        if (e)
            dop_buf_puts(out, e);
        else
            dop_buf_append(out, p, 1);
    }
}

/* Wraps text into lines of at most `chars` bytes, and calls fn (may be NULL) for each. Returns the number of lines. */
static uint32_t
wrap_box_text(const char *text, uint32_t chars, void (*fn)(void *, uint32_t, const char *, size_t), void *user)
{
    uint32_t n = 0;
    while (*text) {
        size_t len = strlen(text), cut = len;
        if (len > chars) {
            cut = chars;
            while (cut > 0 && text[cut] != ' ')
                cut--;
            if (cut == 0)
                cut = chars;
        }
        if (fn)
            fn(user, n, text, cut);
        n++;
        text += cut;
        while (*text == ' ')
            text++;
    }
    return n;
}

/* Returns the length of UTF-8 text in characters. */
static uint32_t
count_utf8_chars(const char *text)
{
    uint32_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* Returns the width of a box: the requested minimum, or the width that its title needs. */
static uint32_t
measure_box_width(const dop_draw_box *b)
{
    const uint32_t title = count_utf8_chars(b->title) * TITLE + 2 * PAD;
    return title > b->width ? title : b->width;
}

static uint32_t
count_line_chars(const dop_draw_box *b)
{
    return (measure_box_width(b) - 2 * PAD) / CHAR;
}

static double
measure_box_height(const dop_draw_box *b)
{
    return 2 * PAD + LINE * (1.0 + wrap_box_text(b->text, count_line_chars(b), NULL, NULL)) - 2;
}

static void
assign_box_levels(layout *l)
{
    for (uint32_t i = 0; i < l->n_boxes; i++)
        l->items[i] = (item){.box = (int32_t)i, .width = measure_box_width(&l->boxes[i])};
    for (bool again = true; again;) {
        again = false;
        for (uint32_t e = 0; e < l->n_edges; e++) {
            item *a = &l->items[l->edges[e].from], *b = &l->items[l->edges[e].to];
            if (b->level < a->level + 1) {
                b->level = a->level + 1;
                again = true;
            }
        }
    }
    /* A box without inputs is placed one level above its first reader. */
    for (uint32_t i = 0; i < l->n_boxes; i++) {
        uint32_t least = UINT32_MAX;
        bool source = true;
        for (uint32_t e = 0; e < l->n_edges; e++) {
            source = source && l->edges[e].to != i;
            if (l->edges[e].from == i && l->items[l->edges[e].to].level < least)
                least = l->items[l->edges[e].to].level;
        }
        if (source && least != UINT32_MAX && least > 0)
            l->items[i].level = least - 1;
    }
    for (uint32_t i = 0; i < l->n_boxes; i++)
        if (l->items[i].level + 1 > l->n_levels)
            l->n_levels = l->items[i].level + 1;
}

static void
route_edges(layout *l)
{
    uint32_t n = 0;
    l->n_items = l->n_boxes;
    for (uint32_t e = 0; e < l->n_edges; e++) {
        uint32_t from = l->edges[e].from, to = l->edges[e].to, last = from;
        l->first[e] = n;
        l->path[n++] = from;
        for (uint32_t level = l->items[from].level + 1; level <= l->items[to].level; level++) {
            uint32_t next = to;
            if (level < l->items[to].level) {
                next = l->n_items++;
                l->items[next] = (item){.level = level, .box = -1, .width = THREAD};
            }
            l->links[l->n_links++] = (link){last, next};
            l->path[n++] = last = next;
        }
    }
    l->first[l->n_edges] = n;
}

/* Returns the mean over item i's neighbours on the level above (or below) of their centres (of_x) or their order; -1
 * without neighbours. */
static double
mean_neighbour(const layout *l, uint32_t i, bool above, bool of_x)
{
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t k = 0; k < l->n_links; k++) {
        uint32_t me = above ? l->links[k].to : l->links[k].from, it = above ? l->links[k].from : l->links[k].to;
        if (me == i) {
            sum += of_x ? l->items[it].x + l->items[it].width / 2 : l->items[it].order;
            n++;
        }
    }
    return n ? sum / n : -1;
}

static uint32_t
find_level_start(const layout *l, uint32_t level)
{
    uint32_t i = 0;
    while (i < l->n_items && l->items[l->sorted[i]].level < level)
        i++;
    return i;
}

static void
sort_level(layout *l, uint32_t level)
{
    uint32_t a = find_level_start(l, level), b = find_level_start(l, level + 1);
    for (uint32_t i = a + 1; i < b; i++)
        for (uint32_t k = i; k > a && l->items[l->sorted[k]].wish < l->items[l->sorted[k - 1]].wish; k--) {
            uint32_t t = l->sorted[k];
            l->sorted[k] = l->sorted[k - 1];
            l->sorted[k - 1] = t;
        }
    for (uint32_t i = a; i < b; i++)
        l->items[l->sorted[i]].order = i - a;
}

static void
order_levels(layout *l)
{
    uint32_t n = 0;
    for (uint32_t level = 0; level < l->n_levels; level++) {
        uint32_t order = 0;
        for (uint32_t i = 0; i < l->n_items; i++)
            if (l->items[i].level == level) {
                l->items[i].order = order++;
                l->sorted[n++] = i;
            }
    }
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (uint32_t k = 0; k < l->n_levels; k++) {
            uint32_t level = sweep % 2 ? l->n_levels - 1 - k : k;
            for (uint32_t i = find_level_start(l, level); i < find_level_start(l, level + 1); i++) {
                item *x = &l->items[l->sorted[i]];
                double m = mean_neighbour(l, l->sorted[i], sweep % 2 == 0, false);
                x->wish = m < 0 ? x->order : m;
            }
            sort_level(l, level);
        }
}

static void
place_level(layout *l, uint32_t level, int sweep)
{
    uint32_t a = find_level_start(l, level), b = find_level_start(l, level + 1);
    double right = -1e9, shift = 0;
    for (uint32_t i = a; i < b; i++) {
        item *x = &l->items[l->sorted[i]];
        double m = sweep == 0 ? -1 : mean_neighbour(l, l->sorted[i], sweep % 2 == 0, true);
        double wish = m < 0 ? x->x : m - x->width / 2;
        x->x = wish > right + GAP_X ? wish : right + GAP_X;
        if (i == a && right < -1e8)
            x->x = wish;
        right = x->x + x->width;
        shift += x->x - wish;
    }
    for (uint32_t i = a; i < b; i++)
        l->items[l->sorted[i]].x -= shift / (b - a);
}

/* Places the notes. Notes that would overlap get separate lines, and the gap grows with the number of lines. Returns
 * the right end of all notes in pixels. */
static double
place_notes(layout *l)
{
    double right = 0;
    for (uint32_t level = 0; level <= l->n_levels; level++)
        l->gap[level] = GAP_Y;
    for (uint32_t e = 0; e < l->n_edges; e++) {
        const item *at = &l->items[l->edges[e].to];
        if (!*l->edges[e].note)
            continue;
        note *n = &l->notes[l->n_notes];
        *n = (note){.edge = e, .level = at->level, .x = at->x + at->width / 2 + 5};
        n->width = count_utf8_chars(l->edges[e].note) * NOTE;
        for (bool again = true; again;) {
            again = false;
            for (uint32_t i = 0; i < l->n_notes && !again; i++) {
                const note *o = &l->notes[i];
                again = o->level == n->level && o->line == n->line && n->x < o->x + o->width + NOTE &&
                        o->x < n->x + n->width + NOTE;
            }
            n->line += again;
        }
        const double need = GAP_Y + n->line * NOTE_LINE;
        l->gap[n->level] = l->gap[n->level] > need ? l->gap[n->level] : need;
        right = right > n->x + n->width ? right : n->x + n->width;
        l->n_notes++;
    }
    return right;
}

static double
place_items(layout *l)
{
    double least = 1e9, most = 0;
    for (uint32_t i = 0; i < l->n_items; i++)
        l->items[i].x = 100.0 * l->items[i].order;
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (uint32_t k = 0; k < l->n_levels; k++)
            place_level(l, sweep % 2 ? l->n_levels - 1 - k : k, sweep);
    for (uint32_t i = 0; i < l->n_items; i++)
        least = l->items[i].x < least ? l->items[i].x : least;
    for (uint32_t i = 0; i < l->n_items; i++) {
        l->items[i].x += 8 - least;
        if (l->items[i].x + l->items[i].width > most)
            most = l->items[i].x + l->items[i].width;
    }
    const double right = place_notes(l);
    most = most > right ? most : right;
    double y = 8 + l->gap[0] - GAP_Y;
    for (uint32_t level = 0; level < l->n_levels; level++) {
        double h = 0;
        l->y[level] = y;
        for (uint32_t i = 0; i < l->n_boxes; i++)
            if (l->items[i].level == level && measure_box_height(&l->boxes[i]) > h)
                h = measure_box_height(&l->boxes[i]);
        y += h + l->gap[level + 1];
    }
    l->y[l->n_levels] = y;
    for (uint32_t i = 0; i < l->n_notes; i++)
        l->notes[i].y = l->y[l->notes[i].level] - 11 - (double)l->notes[i].line * NOTE_LINE;
    return most + 8;
}

typedef struct line_at {
    dop_buf *out;
    double x, y;
} line_at;

static void
put_text_line(void *user, uint32_t n, const char *text, size_t len)
{
    line_at *at = user;
    char line[256];
    snprintf(line, sizeof line, "%.*s", (int)len, text);
    dop_buf_printf(at->out, "<text class=\"ops\" x=\"%.0f\" y=\"%.0f\">", at->x, at->y + LINE * (double)n);
    dop_draw_escape(at->out, line);
    dop_buf_puts(at->out, "</text>");
}

static void
put_box(const layout *l, uint32_t i, dop_buf *out)
{
    const dop_draw_box *b = &l->boxes[i];
    const item *x = &l->items[i];
    double y = l->y[x->level], h = measure_box_height(b);
    dop_buf_printf(out, "<g class=\"box c%d\" data-c=\"%d\" data-tip=\"", b->colour < 0 ? 99 : b->colour % 12,
                   b->colour);
    dop_draw_escape(out, b->tip);
    dop_buf_printf(out, "\"><rect x=\"%.0f\" y=\"%.0f\" width=\"%u\" height=\"%.0f\" rx=\"5\"/>", x->x, y,
                   measure_box_width(b), h);
    if (b->barrier)
        dop_buf_printf(out, "<line class=\"barrier\" x1=\"%.0f\" y1=\"%.0f\" x2=\"%.0f\" y2=\"%.0f\"/>", x->x, y - 5,
                       x->x + measure_box_width(b), y - 5);
    dop_buf_printf(out, "<text x=\"%.0f\" y=\"%.0f\">", x->x + PAD, y + PAD + 9);
    dop_draw_escape(out, b->title);
    dop_buf_puts(out, "</text>");
    line_at at = {out, x->x + PAD, y + PAD + 9 + LINE};
    wrap_box_text(b->text, count_line_chars(b), put_text_line, &at);
    dop_buf_puts(out, "</g>\n");
}

static void
put_edge(const layout *l, uint32_t e, dop_buf *out)
{
    const dop_draw_edge *d = &l->edges[e];
    double px = 0, py = 0;
    dop_buf_printf(out, "<g class=\"edge\" data-e=\"%u\" data-tip=\"", e);
    dop_draw_escape(out, d->tip);
    dop_buf_puts(out, "\"><path d=\"");
    for (uint32_t k = l->first[e]; k < l->first[e + 1]; k++) {
        const item *x = &l->items[l->path[k]];
        double cx = x->x + x->width / 2, top = l->y[x->level], bottom = l->y[x->level + 1] - l->gap[x->level + 1];
        if (x->box >= 0)
            bottom = top + measure_box_height(&l->boxes[x->box]);
        if (k == l->first[e]) {
            dop_buf_printf(out, "M%.0f %.0f", cx, bottom);
        } else {
            dop_buf_printf(out, "C%.0f %.0f %.0f %.0f %.0f %.0f", px, py + GAP_Y * 0.6, cx, top - GAP_Y * 0.6, cx, top);
            if (x->box < 0)
                dop_buf_printf(out, "L%.0f %.0f", cx, bottom);
        }
        px = cx;
        py = bottom;
    }
    dop_buf_puts(out, "\"/></g>\n");
}

/* Appends a note. Notes are drawn after all edges, so that no edge crosses them. The page's script connects a note with
 * its edge by data-e. */
static void
put_note(const layout *l, const note *n, dop_buf *out)
{
    dop_buf_printf(out, "<text class=\"note\" data-e=\"%u\" x=\"%.0f\" y=\"%.0f\">", n->edge, n->x, n->y);
    dop_draw_escape(out, l->edges[n->edge].note);
    dop_buf_puts(out, "</text>\n");
}

dop_status
dop_draw(const dop_draw_box *boxes, uint32_t n_boxes, const dop_draw_edge *edges, uint32_t n_edges, dop_arena *arena,
         dop_diag *diag, dop_buf *out)
{
    layout l = {.boxes = boxes, .edges = edges, .n_boxes = n_boxes, .n_edges = n_edges};
    /* An edge passes through fewer levels than there are boxes. */
    size_t most = (size_t)n_boxes + (size_t)n_edges * n_boxes + 1;
    l.items = dop_arena_alloc(arena, most * sizeof *l.items);
    l.links = dop_arena_alloc(arena, most * sizeof *l.links);
    l.path = dop_arena_alloc(arena, (most + n_edges) * sizeof *l.path);
    l.first = dop_arena_alloc(arena, ((size_t)n_edges + 1) * sizeof *l.first);
    l.sorted = dop_arena_alloc(arena, most * sizeof *l.sorted);
    l.y = dop_arena_alloc(arena, ((size_t)n_boxes + 2) * sizeof *l.y);
    l.gap = dop_arena_alloc(arena, ((size_t)n_boxes + 2) * sizeof *l.gap);
    l.notes = dop_arena_alloc(arena, ((size_t)n_edges + 1) * sizeof *l.notes);
    if (!l.items || !l.links || !l.path || !l.first || !l.sorted || !l.y || !l.gap || !l.notes)
        return DOP_NO_MEMORY(diag);
    assign_box_levels(&l);
    route_edges(&l);
    order_levels(&l);
    double width = place_items(&l), height = l.y[l.n_levels] - l.gap[l.n_levels] + 8;
    dop_buf_printf(out, "<svg width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n", width, height, width,
                   height);
    for (uint32_t e = 0; e < n_edges; e++)
        put_edge(&l, e, out);
    for (uint32_t i = 0; i < l.n_notes; i++)
        put_note(&l, &l.notes[i], out);
    for (uint32_t i = 0; i < n_boxes; i++)
        put_box(&l, i, out);
    dop_buf_puts(out, "</svg>\n");
    return DOP_OK;
}
