/* Writes the report as one HTML page (assets/report.html): tables, and drawings of a layer before and after the passes.
 * The page loads nothing. */
#include "compiler/report/report_html.h"
#include "base/program/page.h"
#include "compiler/report/report.h"
#include "compiler/report/report_draw.h"
#include "compiler/report/report_parts.h"
#include "compiler/report/report_rules.h"
#include "compiler/report/report_weights.h"
#include "compiler/schedule/persistent.h"
#include "compiler/schedule/region_facts.h"
#include "ir/graph/dims.h"
#include "ir/graph/ops.h"
#include "passes/fusion/region.h"

#include <stdio.h>
#include <string.h>

static void
put_escaped_text(dop_buf *out, const char *before, const char *text, const char *after)
{
    dop_buf_puts(out, before);
    dop_draw_escape(out, text);
    dop_buf_puts(out, after);
}

/* --- drawings
 * ----------------------------------------------------------------------------------------------------------- */

typedef struct picture {
    const dop_report_schedule *s;
    const dop_schedule *sched;
    dop_arena arena;
    int32_t layer;
    int *colour; /* [n_regions of the fused graph] colour of each region; -1: not in this layer */
    dop_draw_box *boxes;
    dop_draw_edge *edges;
    uint32_t n_boxes, n_edges;
    uint32_t *box_of; /* 1 + the box of a node (before the passes) or of a region (after); 0: none */
} picture;

static const char *
keep_picture_text(picture *p, dop_buf *text)
{
    char *s = dop_arena_strdup(&p->arena, text->data ? text->data : "");
    dop_buf_finish(text);
    return s ? s : "";
}

static void
put_shape(const dop_graph *g, dop_node_id id, dop_buf *out)
{
    const dop_node *n = dop_node_at(g, id);
    char b[32];
    dop_buf_printf(out, "%%%s  %s", n->name, dop_type_of(n->type)->name);
    for (uint32_t i = 0; i < n->shape.rank; i++)
        dop_buf_printf(out, "%s%llu", i ? "x" : " ", (unsigned long long)dop_dim_value(g, n->shape.dim[i], g->max_t));
    dop_buf_printf(out, "  %s\n", dop_report_bytes((double)dop_node_bytes(g, id), b, sizeof b));
}

/* Returns the region that makes a node after the passes, found by name. If a pass split node "n", returns the region of
 * its first part ("n.rms"). Returns 0 if a pass folded the node away. */
static dop_region_id
find_region_by_name(const dop_graph *g, const char *name)
{
    size_t len = strlen(name);
    dop_region_id part = 0;
    for (dop_region_id r = 1; r < g->n_regions; r++)
        for (uint32_t i = 0; i < g->regions[r].n_nodes; i++) {
            const char *x = dop_node_at(g, g->regions[r].nodes[i])->name;
            if (strcmp(x, name) == 0)
                return r;
            if (!part && strncmp(x, name, len) == 0 && x[len] == '.')
                part = r;
        }
    return part;
}

static uint32_t
add_box(picture *p, const dop_draw_box *box)
{
    p->boxes[p->n_boxes] = *box;
    return ++p->n_boxes; /* 1 + the index of the new box */
}

static void
add_picture_edge(picture *p, uint32_t from, uint32_t to, const char *tip, const char *note)
{
    for (uint32_t i = 0; i < p->n_edges; i++) {
        dop_draw_edge *e = &p->edges[i];
        if (e->from == from && e->to == to) {
            dop_buf both = {0};
            dop_buf_printf(&both, "%s%s", e->tip, tip);
            e->tip = keep_picture_text(p, &both);
            if (!*e->note)
                e->note = note;
            return;
        }
    }
    p->edges[p->n_edges++] = (dop_draw_edge){from, to, tip, note};
}

static void
picture_unfused(picture *p)
{
    const dop_graph *g = &p->s->unfused, *fused = &p->sched->g;
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        const dop_node *n = dop_node_at(g, id);
        if (!dop_node_computed(g, id) || n->label.layer != p->layer)
            continue;
        dop_region_id r = find_region_by_name(fused, n->name);
        dop_buf tip = {0};
        /* Boxes of values from outside of the layer come before their readers, so that all edges point forward. */
        for (uint32_t k = 0; k < n->n_srcs; k++) {
            dop_node_id b = dop_node_base(g, n->src[k], NULL);
            if (dop_node_computed(g, b) && !p->box_of[b]) {
                dop_buf text = {0};
                put_shape(g, b, &text);
                p->box_of[b] = add_box(p, &(dop_draw_box){.title = dop_node_at(g, b)->name,
                                                          .text = "",
                                                          .tip = keep_picture_text(p, &text),
                                                          .colour = -1,
                                                          .width = 92});
            }
        }
        dop_buf_printf(&tip, "%s\n", dop_op_of(n->op)->name);
        put_shape(g, id, &tip);
        for (uint32_t k = 0; k < n->n_srcs; k++) {
            dop_buf_puts(&tip, "reads ");
            put_shape(g, n->src[k], &tip);
        }
        if (r)
            dop_buf_printf(&tip, "after the passes in @%u", r);
        p->box_of[id] = add_box(p, &(dop_draw_box){.title = dop_op_of(n->op)->name,
                                                   .text = "",
                                                   .tip = keep_picture_text(p, &tip),
                                                   .colour = r ? p->colour[r] : -1,
                                                   .width = 92});
        for (uint32_t k = 0; k < n->n_srcs; k++) {
            dop_node_id b = dop_node_base(g, n->src[k], NULL);
            dop_buf text = {0};
            if (!dop_node_computed(g, b))
                continue;
            put_shape(g, b, &text);
            add_picture_edge(p, p->box_of[b] - 1, p->box_of[id] - 1, keep_picture_text(p, &text), "");
        }
    }
}

typedef struct reading {
    picture *p;
    const dop_flow *flow;
    dop_region_id region;
    bool edges; /* true: add edges; false: add boxes of values from outside of the layer */
} reading;

static void
add_read_edge(void *user, dop_node_id base)
{
    reading *x = user;
    picture *p = x->p;
    const dop_graph *g = &p->sched->g;
    dop_region_id from = x->flow->owner[base];
    dop_buf text = {0};
    if (!dop_node_computed(g, base) || !from)
        return;
    if (!x->edges) {
        if (!p->box_of[from]) {
            put_shape(g, base, &text);
            p->box_of[from] = add_box(p, &(dop_draw_box){.title = dop_node_at(g, base)->name,
                                                         .text = "",
                                                         .tip = keep_picture_text(p, &text),
                                                         .colour = -1,
                                                         .width = 92});
        }
        return;
    }
    char reasons[256], note[64] = "";
    dop_node_id reader;
    dop_reason why = dop_report_why(p->sched, x->region, base, reasons, sizeof reasons, &reader);
    put_shape(g, base, &text);
    dop_buf_printf(&text, "  %s\n  %s\n", reasons, why ? dop_reason_text(why) : "");
    if (p->boxes[p->box_of[from] - 1].colour >= 0)
        snprintf(note, sizeof note, "%s", why ? dop_reason_code(why) : "");
    const char *kept = dop_arena_strdup(&p->arena, note);
    add_picture_edge(p, p->box_of[from] - 1, p->box_of[x->region] - 1, keep_picture_text(p, &text), kept ? kept : "");
}

static void
put_region_tip(const picture *p, dop_region_id r, dop_buf *tip)
{
    const dop_graph *g = &p->sched->g;
    const dop_region *reg = &g->regions[r];
    const dop_built_region *b = &p->sched->regions[r];
    uint64_t rd, wr;
    char x[32], y[32];
    dop_region_traffic(g, reg, DOP_REPORT_DEPTH, &rd, &wr);
    dop_buf_printf(tip, "@%u %s: %s, %u x %u x %u workgroups of %u\nreads %s, writes %s\n%s\n", r,
                   dop_label_text(dop_region_label(g, reg)), dop_variant_of(b->choice.variant)->name, b->grid[0],
                   b->grid[1], b->grid[2], b->choice.tile.wg, dop_report_bytes((double)rd, x, sizeof x),
                   dop_report_bytes((double)wr, y, sizeof y), b->choice.why);
    dop_buf_puts(tip, "stores\n");
    for (uint32_t i = 0; i < reg->n_outs; i++) {
        dop_buf_puts(tip, "  ");
        put_shape(g, reg->outs[i], tip);
    }
    dop_buf_puts(tip, "computes");
    for (uint32_t i = 0; i < reg->n_nodes; i++)
        dop_buf_printf(tip, "%s%%%s=%s", i % 4 ? "  " : "\n  ", dop_node_at(g, reg->nodes[i])->name,
                       dop_op_of(dop_node_at(g, reg->nodes[i])->op)->name);
}

static dop_status
picture_fused(picture *p, dop_diag *diag)
{
    const dop_graph *g = &p->sched->g;
    dop_flow flow;
    dop_status st = dop_flow_init(g, diag, &flow);
    if (st != DOP_OK)
        return st;
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        dop_buf ops = {0}, tip = {0}, title = {0};
        if (p->colour[r] < 0)
            continue;
        dop_region_reads(&g->regions[r], add_read_edge, &(reading){p, &flow, r, false});
        put_region_tip(p, r, &tip);
        dop_region_ops(g, &g->regions[r], &ops);
        dop_buf_printf(&title, "%s \xc2\xb7 %s", dop_label_text(dop_region_label(g, &g->regions[r])),
                       dop_variant_of(p->sched->regions[r].choice.variant)->name);
        p->box_of[r] = add_box(p, &(dop_draw_box){.title = keep_picture_text(p, &title),
                                                  .text = keep_picture_text(p, &ops),
                                                  .tip = keep_picture_text(p, &tip),
                                                  .colour = p->colour[r],
                                                  .width = 300,
                                                  .barrier = p->sched->placement.barrier[r]});
        dop_region_reads(&g->regions[r], add_read_edge, &(reading){p, &flow, r, true});
    }
    dop_flow_finish(&flow);
    return DOP_OK;
}

/* Assigns a colour to each region that computes a node of the layer, in schedule order. */
static void
colour_regions(picture *p)
{
    const dop_graph *g = &p->sched->g;
    int n = 0;
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        p->colour[r] = -1;
        for (uint32_t i = 0; i < g->regions[r].n_nodes && p->colour[r] < 0; i++)
            if (dop_node_at(g, g->regions[r].nodes[i])->label.layer == p->layer)
                p->colour[r] = n++;
    }
}

static dop_status
reset_picture(picture *p, uint32_t n_ids, uint32_t n_reads, dop_diag *diag)
{
    p->n_boxes = p->n_edges = 0;
    p->box_of = dop_arena_alloc(&p->arena, n_ids * sizeof *p->box_of);
    p->boxes = dop_arena_alloc(&p->arena, ((size_t)n_ids + n_reads) * sizeof *p->boxes);
    p->edges = dop_arena_alloc(&p->arena, ((size_t)n_reads + 1) * sizeof *p->edges);
    return p->box_of && p->boxes && p->edges ? DOP_OK : DOP_NO_MEMORY(diag);
}

static uint32_t
count_graph_reads(const dop_graph *g)
{
    uint32_t n = 0;
    for (dop_region_id r = 1; r < g->n_regions; r++)
        for (uint32_t i = 0; i < g->regions[r].n_nodes; i++)
            n += dop_node_at(g, g->regions[r].nodes[i])->n_srcs;
    return n;
}

/* --- layers to draw
 * ----------------------------------------------------------------------------------------------------- */

enum { MOST_KINDS = 4 };

/* A kind of layer: layers with equal ops, shapes and attributes. */
typedef struct layer_kind {
    uint64_t hash;
    uint32_t layer; /* layer of this kind that is drawn: the one nearest to the middle of the model */
    uint32_t count;
} layer_kind;

static uint64_t
mix_layer_hash(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x100000001b3u; /* FNV-1a on words */
}

/* Adds a node to the hash of its layer: op, shape and integer attributes, without names and float attributes. */
static uint64_t
mix_node_hash(uint64_t hash, const dop_node *n)
{
    const dop_op_info *info = dop_op_of(n->op);
    hash = mix_layer_hash(hash, n->op);
    for (uint32_t i = 0; i < n->shape.rank; i++)
        hash = mix_layer_hash(mix_layer_hash(hash, n->shape.dim[i].mul), n->shape.dim[i].sym);
    for (uint8_t k = 0; k < info->n_attrs; k++)
        if (dop_attr_kind_of(info->attrs[k]) != DOP_ATTR_S && dop_attr_kind_of(info->attrs[k]) != DOP_ATTR_F)
            hash = mix_layer_hash(hash, (uint64_t)n->attr[k].i);
    return hash;
}

/* Finds up to MOST_KINDS kinds of layers, in the order of their first layers. */
static dop_status
find_kinds(picture *p, uint32_t n_layers, dop_diag *diag, layer_kind *out_kinds, uint32_t *out_n)
{
    const dop_graph *g = &p->s->unfused;
    uint64_t *hash = dop_arena_alloc(&p->arena, n_layers * sizeof *hash);
    if (!hash)
        return DOP_NO_MEMORY(diag);
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        const int32_t layer = dop_node_at(g, id)->label.layer;
        if (layer >= 0 && (uint32_t)layer < n_layers && dop_node_computed(g, id))
            hash[layer] = mix_node_hash(hash[layer], dop_node_at(g, id));
    }
    *out_n = 0;
    for (uint32_t i = 0; i < n_layers; i++) {
        uint32_t k = 0;
        while (k < *out_n && out_kinds[k].hash != hash[i])
            k++;
        if (k == MOST_KINDS)
            continue;
        if (k == *out_n)
            out_kinds[(*out_n)++] = (layer_kind){.hash = hash[i], .layer = i};
        layer_kind *kind = &out_kinds[k];
        const uint32_t middle = n_layers / 2, old = kind->layer;
        kind->count++;
        if ((i > middle ? i - middle : middle - i) < (old > middle ? old - middle : middle - old))
            kind->layer = i;
    }
    return DOP_OK;
}

/* Appends the range of the layer's attention: ": attention to the last 512 positions". */
static void
put_attention_range(const picture *p, dop_buf *out)
{
    const dop_graph *g = &p->s->unfused;
    bool attends = false;
    for (dop_node_id id = 1; id < g->n_nodes && !attends; id++) {
        const dop_node *n = dop_node_at(g, id);
        if (n->label.layer != p->layer || dop_op_of(n->op)->root != DOP_ROOT_attention)
            continue;
        const long long window = dop_node_i(g, id, DOP_A_window), chunk = dop_node_i(g, id, DOP_A_chunk);
        attends = true;
        if (window)
            dop_buf_printf(out, ": attention to the last %lld positions", window);
        else if (chunk)
            dop_buf_printf(out, ": attention within chunks of %lld positions", chunk);
        else
            dop_buf_puts(out, ": attention to all positions");
    }
    if (!attends)
        dop_buf_puts(out, ": no attention");
}

/* Appends drawings of a layer before and after the passes, side by side. */
static dop_status
put_layer_pictures(picture *p, const dop_report *r, const layer_kind *kind, dop_diag *diag, dop_buf *out)
{
    const uint32_t n_layers = r->c->model.arch.n_layers;
    const dop_report_schedule *s = p->s;
    p->layer = (int32_t)kind->layer;
    colour_regions(p);
    dop_status st = reset_picture(p, s->unfused.n_nodes, count_graph_reads(&s->unfused), diag);
    if (st != DOP_OK)
        return st;
    picture_unfused(p);
    dop_buf_printf(out, "<section><h3>Layer %u", kind->layer);
    put_attention_range(p, out);
    if (kind->count < n_layers)
        dop_buf_printf(out, " (%u of %u layers are so)", kind->count, n_layers);
    for (uint32_t k = 0; k < r->n_parts; k++)
        if (kind->layer >= r->parts[k].cut->first_layer && kind->layer < r->parts[k].cut->end_layer)
            dop_buf_printf(out, ", in part %u of %u", k, r->n_parts);
    dop_buf_puts(out, "</h3>\n<div class=\"pair\"><figure><figcaption>Before: one dispatch per op</figcaption>\n");
    st = dop_draw(p->boxes, p->n_boxes, p->edges, p->n_edges, &p->arena, diag, out);
    if (st == DOP_OK)
        st = reset_picture(p, s->s->g.n_regions, count_graph_reads(&s->s->g), diag);
    if (st == DOP_OK)
        st = picture_fused(p, diag);
    if (st != DOP_OK)
        return st;
    dop_buf_puts(out, "</figure><figure><figcaption>After: what makes something of this layer</figcaption>\n");
    st = dop_draw(p->boxes, p->n_boxes, p->edges, p->n_edges, &p->arena, diag, out);
    dop_buf_puts(out, "</figure></div></section>\n");
    return st;
}

/* Appends drawings of one layer of each kind, such as full and sliding-window attention. */
static dop_status
put_pictures(const dop_report *r, const dop_report_schedule *s, dop_diag *diag, dop_buf *out)
{
    picture p = {.s = s, .sched = s->s};
    layer_kind kinds[MOST_KINDS];
    uint32_t n = 0;
    dop_arena_init(&p.arena);
    p.colour = dop_arena_alloc(&p.arena, s->s->g.n_regions * sizeof *p.colour);
    dop_status st = p.colour ? find_kinds(&p, r->c->model.arch.n_layers, diag, kinds, &n) : DOP_NO_MEMORY(diag);
    dop_buf_puts(out,
                 "<p>Each colour is one dispatch; a dashed line is a barrier; the note on an edge says why it is not "
                 "fused. Point at anything, click it, or go there with Tab and the arrows for its values, bytes and "
                 "reasons; Escape closes.</p>\n");
    dop_buf_puts(out, "<div class=\"kinds\">\n");
    for (uint32_t i = 0; i < n && st == DOP_OK; i++)
        st = put_layer_pictures(&p, r, &kinds[i], diag, out);
    dop_buf_puts(out, "</div>\n");
    dop_arena_finish(&p.arena);
    return st;
}

/* --- tables ------------------------------------------------------------------------------------------------------------- */

static void
put_html_totals(const dop_report_schedule *s, dop_buf *out)
{
    const dop_report_totals *t[2] = {&s->before, &s->after};
    dop_buf_puts(out, "<table><tr><th></th><th class=n>dispatches</th><th class=n>barriers</th><th class=n>read per "
                      "token</th><th class=n>written per token</th><th class=n>activation memory</th></tr>\n");
    for (int i = 0; i < 2; i++) {
        char a[32], b[32], c[32];
        dop_buf_printf(out,
                       "<tr><td>%s</td><td class=n>%u</td><td class=n>%u</td><td class=n>%s</td><td class=n>%s</td>"
                       "<td class=n>%s</td></tr>\n",
                       i ? "fused" : "one dispatch per op", t[i]->dispatches, t[i]->barriers,
                       dop_report_bytes(t[i]->read, a, sizeof a), dop_report_bytes(t[i]->written, b, sizeof b),
                       dop_report_bytes((double)t[i]->activations, c, sizeof c));
    }
    dop_buf_puts(out, "</table>\n");
}

static void
put_html_rows(const dop_report_schedule *s, dop_buf *out)
{
    dop_buf_puts(out,
                 "<h3>Regions</h3><table><tr><th class=n>count</th><th>label</th><th>kernel</th><th class=n>read</th>"
                 "<th class=n>written</th><th class=n>floor, us</th><th class=n>workgroups</th><th>ops</th></tr>\n");
    for (uint32_t i = 0; i < s->n_rows; i++) {
        const dop_report_row *r = &s->rows[i];
        char a[32], b[32];
        dop_buf_printf(out, "<tr><td class=n>%u</td><td>%s</td><td><code data-tip=\"", r->count, r->label);
        dop_draw_escape(out, r->why);
        dop_buf_printf(out,
                       "\">%s</code></td><td class=n>%s</td><td class=n>%s</td><td class=n>%.3f</td>"
                       "<td class=n>%u</td><td class=o>%s</td></tr>\n",
                       r->variant, dop_report_bytes(r->read, a, sizeof a), dop_report_bytes(r->written, b, sizeof b),
                       r->floor_us, r->workgroups, r->ops);
    }
    dop_buf_puts(out, "</table>\n");
}

static void
put_decisions(const dop_report_schedule *s, dop_buf *out)
{
    const char *add, *norm;
    char a[32];
    dop_buf_puts(out, "<h3>Not fused</h3><table><tr><th class=n>pairs</th><th class=n>would save</th><th>pair</th>"
                      "<th>reason</th><th>every pass that tried</th></tr>\n");
    for (uint32_t i = 0; i < s->n_refusals; i++) {
        const dop_report_refusal *f = &s->refusals[i];
        dop_buf_printf(out,
                       "<tr><td class=n>%u</td><td class=n>%s</td><td>%s <code>%s</code> &rarr; %s "
                       "<code>%s</code></td><td data-tip=\"",
                       f->count, dop_report_bytes(f->bytes, a, sizeof a), f->from, f->producer, f->to, f->consumer);
        dop_draw_escape(out, f->reason ? dop_reason_text(f->reason) : f->reasons);
        dop_buf_printf(out, "\">%s</td><td class=o>%s</td></tr>\n",
                       f->reason ? dop_reason_code(f->reason) : "not-tried", f->reasons);
    }
    dop_buf_puts(out, "</table>\n<details><summary><h3 style=\"display:inline-block\">Fused</h3></summary><table><tr>"
                      "<th class=n>edges</th><th class=n>dispatches saved</th><th class=n>bytes saved</th><th>rule</th>"
                      "<th>pass</th><th>pair</th></tr>\n");
    for (uint32_t i = 0; i < s->n_fusions; i++) {
        const dop_report_fusion *f = &s->fusions[i];
        dop_buf_printf(out,
                       "<tr><td class=n>%u</td><td class=n>%u</td><td class=n>%s</td><td>%s</td><td>%s</td>"
                       "<td><code>%s &rarr; %s</code></td></tr>\n",
                       f->count, f->dispatches, dop_report_bytes(f->bytes, a, sizeof a), f->rule, f->pass, f->producer,
                       f->consumer);
    }
    dop_buf_puts(out, "</table></details>\n");
    if (dop_report_residual_rules(s, &add, &norm))
        dop_buf_printf(out, "<p>residual+rmsnorm: done as %s and %s</p>\n", add, norm);
}

static void
put_html_classes(const dop_report_schedule *s, bool open, dop_buf *out)
{
    dop_buf_puts(out, open ? "<details open>" : "<details>");
    dop_buf_puts(out, "<summary><h3 style=\"display:inline-block\">Viability</h3></summary><table><tr><th>producer "
                      "/ consumer</th><th class=n>fused</th><th class=n>refused</th><th>reasons</th>"
                      "<th>what this compiler does</th></tr>\n");
    for (int i = 0; i < DOP_REPORT_CLASSES; i++) {
        const dop_report_class *c = &s->classes[i];
        const char *sep = "";
        dop_buf_printf(out, "<tr><td>%s / %s</td><td class=n>%u</td><td class=n>%u</td><td>", c->producer, c->consumer,
                       c->fused, c->refused);
        for (int r = 1; r < DOP_REASON_COUNT; r++)
            if (c->reasons[r]) {
                dop_buf_printf(out, "%s%s&nbsp;%u", sep, dop_reason_code((dop_reason)r), c->reasons[r]);
                sep = ", ";
            }
        put_escaped_text(out, "</td><td class=o>", c->why, "</td></tr>\n");
    }
    dop_buf_puts(out, "</table></details>\n");
}

static void
put_card(dop_buf *out, const char *value, const char *what)
{
    put_escaped_text(out, "<div class=card><b>", value, "</b><span>");
    put_escaped_text(out, "", what, "</span></div>\n");
}

static void
put_html_head(const dop_report *r, dop_buf *out)
{
    const dop_compilation *c = r->c;
    const dop_report_schedule *d = &r->schedules[0];
    char a[32];
    put_escaped_text(out, "<h1>", c->model.name ? c->model.name : "model", "</h1>\n");
    dop_buf_printf(out,
                   "<p>%s, target %s, context %u, kernel path %s; traffic counted with %u cached positions, floors at "
                   "%.4g GB/s</p>\n<div class=cards>\n",
                   c->model.arch.family, c->target->name, c->ctx, c->path_name ? c->path_name : "default",
                   DOP_REPORT_DEPTH, c->target->bandwidth / 1e9);
    snprintf(a, sizeof a, "%u \xe2\x86\x92 %u", d->before.dispatches, d->after.dispatches);
    put_card(out, a, "dispatches per decoded token");
    snprintf(a, sizeof a, "%u", d->per_layer);
    put_card(out, a, "dispatches per layer");
    snprintf(a, sizeof a, "%.1f us", (d->after.read + d->after.written) / c->target->bandwidth * 1e6);
    put_card(out, a, "floor per decoded token");
    snprintf(a, sizeof a, "%u", c->kernels.n);
    put_card(out, a, "distinct kernels");
    put_card(out, dop_report_bytes((double)r->weights, a, sizeof a), "weights");
    put_card(out, dop_report_bytes((double)r->caches, a, sizeof a), "caches");
    put_card(out, dop_report_bytes((double)r->activations, a, sizeof a), "activations");
    put_card(out, dop_report_bytes((double)r->results, a, sizeof a), "logits");
    dop_buf_puts(out, "</div>\n");
}

static void
put_html_weights(const dop_report *r, dop_buf *out)
{
    dop_buf_puts(out, "<h2>Weights</h2><table><tr><th class=n>count</th><th class=n>bytes</th><th>stored</th><th>packed"
                      "</th><th></th></tr>\n");
    for (uint32_t i = 0; i < r->n_weights; i++) {
        const dop_report_weights_row *w = &r->weights_rows[i];
        char a[32], why[160];
        dop_report_weights_why(w, why, sizeof why);
        dop_buf_printf(out,
                       "<tr><td class=n>%u</td><td class=n>%s</td><td>%s</td><td>%s</td><td class=o>%s%s</td></tr>\n",
                       w->count, dop_report_bytes((double)w->bytes, a, sizeof a),
                       w->stored ? dop_type_of(w->stored)->name : "-", dop_type_of(w->packed)->name, w->how, why);
    }
    dop_buf_puts(out, "</table>\n");
}

dop_status
dop_report_html(const dop_report *r, dop_diag *diag, dop_buf *out)
{
    dop_status st = DOP_OK;
    const char *rest = dop_page_fill(dop_page_report, "title", out);
    dop_draw_escape(out, r->c->model.name ? r->c->model.name : "model");
    rest = dop_page_fill(rest, "body", out);
    put_html_head(r, out);
    dop_report_parts_html(r, out);
    for (uint32_t i = 0; i < r->n_schedules && st == DOP_OK; i++) {
        const dop_report_schedule *s = &r->schedules[i];
        dop_buf_printf(
            out, "<h2>%s</h2><p>%u token%s a replay, %u dispatches per layer and %u outside, %u distinct kernels</p>\n",
            dop_schedule_name(s->s), s->tokens, s->tokens == 1 ? "" : "s", s->per_layer, s->outside, s->kernels);
        char says[256];
        if (*dop_persistent_says(s->s, says, sizeof says))
            dop_buf_printf(out, "<p>%s</p>\n", says);
        put_html_totals(s, out);
        st = put_pictures(r, s, diag, out);
        put_html_rows(s, out);
        put_decisions(s, out);
        put_html_classes(s, i == 0, out);
    }
    put_html_weights(r, out);
    dop_buf_puts(out, "<h2>Reasons</h2><table>\n");
    for (int x = 1; x < DOP_REASON_COUNT; x++) {
        dop_buf_printf(out, "<tr><td>%s</td>", dop_reason_code((dop_reason)x));
        put_escaped_text(out, "<td>", dop_reason_text((dop_reason)x), "</td></tr>\n");
    }
    dop_buf_puts(out, "</table>");
    dop_page_fill(rest, NULL, out);
    return st;
}
