/* --explain: why regions got their kernels, and why two of them are not one. */
#include "base/label.h"
#include "compiler/region_facts.h"
#include "compiler/report.h"
#include "passes/region.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool
node_matches(const dop_graph *g, dop_node_id id, const char *op)
{
    return strcmp(dop_op_of(dop_node_at(g, id)->op)->name, op) == 0 || dop_label_is(dop_node_at(g, id)->label, op);
}

static bool
region_matches(const dop_graph *g, const dop_region *r, const char *op)
{
    if (strcmp(dop_template_name(r->tpl), op) == 0 || dop_label_is(dop_region_label(g, r), op))
        return true;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (strcmp(dop_op_of(dop_node_at(g, r->nodes[i])->op)->name, op) == 0)
            return true;
    return false;
}

/* --- A+B ------------------------------------------------------------------------------------------------------------- */

typedef struct line {
    char *text; /* owned */
    uint32_t count;
} line;

/* The pairs of one schedule. */
typedef struct pairs {
    const dop_schedule *s;
    const char *from, *to;
    bool exact;             /* a layer was asked for: layers are not counted together */
    dop_region_id *writers; /* [n_nodes]: region that stores the node; 0: none */
    dop_region_id reader;   /* whose reads are looked at */
    const dop_report_places *places;
    line *lines;
    uint32_t n, cap;
    dop_diag *diag;
    dop_status status; /* the first failure; every later call does nothing */
} pairs;

static void
add_line(pairs *p, const char *text)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (strcmp(p->lines[i].text, text) == 0) {
            p->lines[i].count++;
            return;
        }
    if (p->n == p->cap) {
        uint32_t cap = p->cap ? 2 * p->cap : 16;
        line *lines = realloc(p->lines, cap * sizeof *lines);
        if (!lines) {
            p->status = DOP_FAIL(p->diag, DOP_E_NOMEM, "out of memory");
            return;
        }
        p->lines = lines;
        p->cap = cap;
    }
    char *copy = strdup(text);
    if (!copy) {
        p->status = DOP_FAIL(p->diag, DOP_E_NOMEM, "out of memory");
        return;
    }
    p->lines[p->n++] = (line){copy, 1};
}

/* "L0/o add -> L0/ffn_up row_rms: WHAT" */
static void
add_pair(pairs *p, const char *from, dop_node_id producer, const char *to, dop_node_id consumer, const char *what)
{
    const dop_graph *g = &p->s->g;
    char a[64], b[64], text[768];
    if (p->exact) {
        snprintf(a, sizeof a, "%s", from);
        snprintf(b, sizeof b, "%s", to);
    } else {
        dop_label_any_layer(from, a, sizeof a);
        dop_label_any_layer(to, b, sizeof b);
    }
    snprintf(text, sizeof text, "%s %s -> %s %s: %s", a, dop_op_of(dop_node_at(g, producer)->op)->name, b,
             dop_op_of(dop_node_at(g, consumer)->op)->name, what);
    add_line(p, text);
}

static void
tell_read(void *user, dop_node_id base)
{
    pairs *p = user;
    const dop_graph *g = &p->s->g;
    const dop_region_id writer = p->writers[base];
    char reasons[256], what[512];
    dop_node_id at;
    if (p->status != DOP_OK || !writer || !region_matches(g, &g->regions[writer], p->from))
        return;
    dop_reason reason = dop_report_why(p->s, p->reader, base, reasons, sizeof reasons, &at);
    if (reason == DOP_REASON_none)
        snprintf(what, sizeof what, "not joined: %s", reasons);
    else
        snprintf(what, sizeof what, "not joined: %s, %s (%s)", dop_reason_code(reason), dop_reason_text(reason),
                 reasons);
    const uint32_t *numbers = p->places->numbers;
    if (numbers && numbers[writer] != numbers[p->reader])
        snprintf(what + strlen(what), sizeof what - strlen(what), "; crosses from part %u to part %u", numbers[writer],
                 numbers[p->reader]);
    add_pair(p, dop_region_label(g, &g->regions[writer]), base, dop_region_label(g, &g->regions[p->reader]), at, what);
}

static void
tell_fused(pairs *p)
{
    const dop_graph *g = &p->s->g;
    for (uint32_t i = 0; i < p->s->log.n && p->status == DOP_OK; i++) {
        const dop_fusion_event *e = &p->s->log.items[i];
        char what[128];
        if (e->reason != DOP_REASON_none || !node_matches(g, e->producer, p->from) ||
            !node_matches(g, e->consumer, p->to))
            continue;
        snprintf(what, sizeof what, "joined by %s as %s", e->pass, dop_fusion_rule(g, e));
        add_pair(p, dop_node_at(g, e->producer)->label, e->producer, dop_node_at(g, e->consumer)->label, e->consumer,
                 what);
    }
}

/* Of one schedule; *io_found counts lines. */
static dop_status
explain_pairs(const dop_schedule *s, const dop_report_places *places, const char *from, const char *to, dop_diag *diag,
              dop_buf *out, uint32_t *io_found)
{
    const dop_graph *g = &s->g;
    pairs p = {.s = s, .from = from, .to = to, .places = places, .diag = diag};
    p.exact = strchr(from, '/') || strchr(to, '/');
    p.writers = calloc(g->n_nodes, sizeof *p.writers);
    if (!p.writers)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    for (dop_region_id r = 1; r < g->n_regions; r++)
        for (uint32_t i = 0; i < g->regions[r].n_outs && !g->regions[r].dead; i++)
            p.writers[g->regions[r].outs[i]] = r;
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        p.reader = r;
        if (region_matches(g, &g->regions[r], to))
            dop_region_reads(&g->regions[r], tell_read, &p);
    }
    tell_fused(&p);
    for (uint32_t i = 0; i < p.n; i++) {
        dop_buf_printf(out, "%s %s", dop_schedule_name(s), p.lines[i].text);
        if (p.lines[i].count > 1)
            dop_buf_printf(out, " (%u times)", p.lines[i].count);
        dop_buf_puts(out, "\n");
        free(p.lines[i].text);
    }
    *io_found += p.n;
    free(p.lines);
    free(p.writers);
    return p.status;
}

static void
explain_regions(const dop_schedule *s, const dop_report_places *places, const char *op, dop_buf *out,
                uint32_t *io_found)
{
    for (dop_region_id r = 1; r < s->g.n_regions; r++) {
        const dop_region *reg = &s->g.regions[r];
        const dop_built_region *b = &s->regions[r];
        if (!region_matches(&s->g, reg, op))
            continue;
        ++*io_found;
        dop_buf_printf(out, "%s @%u %s: %s (%s), grid %ux%ux%u of %u", dop_schedule_name(s), r,
                       dop_region_label(&s->g, reg), dop_variant_of(b->choice.variant)->name, b->choice.why, b->grid[0],
                       b->grid[1], b->grid[2], b->choice.tile.wg);
        dop_report_place(places, s, r, out);
        dop_buf_puts(out, "\n");
    }
}

dop_status
dop_report_explain(const dop_compilation *c, const char *op, const dop_compilation *parts, uint32_t n, dop_diag *diag,
                   dop_buf *out)
{
    uint32_t found = 0;
    const char *plus = strchr(op, '+');
    char from[64];
    dop_status st = DOP_OK;
    snprintf(from, sizeof from, "%.*s", plus ? (int)(plus - op) : 0, op);
    for (uint32_t i = 0; i < c->n_schedules && st == DOP_OK; i++) {
        const dop_schedule *s = &c->schedules[i];
        dop_report_places places;
        if ((st = dop_report_places_make(c, i, parts, n, diag, &places)) != DOP_OK)
            break;
        if (plus)
            st = explain_pairs(s, &places, from, plus + 1, diag, out, &found);
        else
            explain_regions(s, &places, op, out, &found);
        dop_report_places_finish(&places);
    }
    if (st == DOP_OK && !found && plus)
        return DOP_FAIL(diag, DOP_E_USAGE, "--explain %s: no region of %s reads what one of %s makes", op, plus + 1,
                        from);
    if (st == DOP_OK && !found)
        return DOP_FAIL(diag, DOP_E_USAGE, "--explain %s: no region has that op, template or label", op);
    return st;
}
