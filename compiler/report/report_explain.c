/* Implements --explain: why regions got their kernels, and why two regions were not joined. */
#include "compiler/report/report_explain.h"
#include "compiler/report/report.h"
#include "compiler/report/report_parts.h"
#include "compiler/report/report_rules.h"
#include "compiler/schedule/region_facts.h"
#include "ir/graph/ops.h"
#include "passes/fusion/fuse.h"
#include "passes/fusion/region.h"

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

/* Text lines about the pairs A+B in one schedule. */
typedef struct pairs {
    const dop_schedule *s;
    const dop_target *target;
    dop_flow flow;
    const char *from, *to;
    bool exact;             /* A or B names a layer, so the lines name layers, too */
    dop_region_id *writers; /* [n_nodes] region that stores each node; 0: none */
    dop_region_id reader;   /* region of B whose reads are examined */
    const dop_report_places *places;
    line *lines;
    uint32_t n, cap;
    dop_diag *diag;
    dop_status status; /* first failure; all later calls do nothing */
} pairs;

static void
add_pair_line(pairs *p, const char *text)
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
            p->status = DOP_NO_MEMORY(p->diag);
            return;
        }
        p->lines = lines;
        p->cap = cap;
    }
    char *copy = strdup(text);
    if (!copy) {
        p->status = DOP_NO_MEMORY(p->diag);
        return;
    }
    p->lines[p->n++] = (line){copy, 1};
}

/* Adds a line "L0/o add -> L0/ffn_up row_rms: WHAT", or increments the count of an equal line. Frees `what`. */
static void
add_pair(pairs *p, dop_label from, dop_node_id producer, dop_label to, dop_node_id consumer, dop_buf *what)
{
    const dop_graph *g = &p->s->g;
    char a[64], b[64];
    dop_buf text = {0};
    const char *(*const print)(dop_label, char *, size_t) = p->exact ? dop_label_print : dop_label_any_layer;
    dop_buf_printf(&text, "%s %s -> %s %s: %s", print(from, a, sizeof a), dop_op_of(dop_node_at(g, producer)->op)->name,
                   print(to, b, sizeof b), dop_op_of(dop_node_at(g, consumer)->op)->name, what->data ? what->data : "");
    if (text.failed || what->failed)
        p->status = DOP_NO_MEMORY(p->diag);
    else
        add_pair_line(p, text.data);
    dop_buf_finish(&text);
    dop_buf_finish(what);
}

/* Appends the savings of a fusion on the target: the value's write and read, a dispatch and its barrier. */
static void
put_saving(const pairs *p, dop_node_id base, dop_buf *out)
{
    const dop_target *t = p->target;
    const uint64_t bytes = 2 * dop_node_bytes(&p->s->g, dop_node_space(&p->s->g, base));
    char size[32];
    dop_buf_printf(out, "; joined, %s less would be moved (%.3g us), and a dispatch%s less be made (%.3g us)",
                   dop_report_bytes((double)bytes, size, sizeof size), (double)bytes / t->bandwidth * 1e6,
                   p->s->placement.barrier[p->reader] ? " and its barrier" : "",
                   t->dispatch_us + (p->s->placement.barrier[p->reader] ? t->barrier_us : 0));
}

static uint64_t
largest_matrix(const dop_graph *g, const dop_region *r)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < r->info->product.n_mats; i++) {
        const uint64_t bytes = dop_node_bytes(g, dop_node_at(g, r->info->product.mats[i])->src[1]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Appends the numbers that explain a reason against joining, and a change that would allow it. */
static dop_status
put_change(const pairs *p, dop_region_id writer, dop_node_id base, dop_reason reason, dop_buf *out)
{
    const dop_graph *g = &p->s->g;
    const dop_target *t = p->target;
    const dop_region *from = &g->regions[writer], *to = &g->regions[p->reader];
    const dop_template_info *has = dop_template_of(from->tpl);
    const uint32_t *grid = p->s->regions[writer].grid;
    const unsigned long long workgroups = (unsigned long long)grid[0] * grid[1] * grid[2];
    const uint32_t cols = dop_node_cols(g, dop_node_space(g, base));
    char a[32], b[32];
    uint32_t registers;
    switch (reason) {
    case DOP_REASON_reduction_barrier:
    case DOP_REASON_cross_workgroup:
    case DOP_REASON_tile_mismatch:
        dop_buf_printf(
            out,
            "; the first has %llu workgroup%s, each with %s, rows have %u value%s: one would have to make all "
            "that a workgroup of the second reads",
            workgroups, workgroups == 1 ? "" : "s", has->makes, cols, cols == 1 ? "" : "s");
        return DOP_OK;
    case DOP_REASON_shared_memory:
        dop_buf_printf(out, "; a row of %u values takes %s of the workgroup's %s: at most three quarters may be used",
                       cols, dop_report_bytes(4.0 * cols, a, sizeof a),
                       dop_report_bytes((double)t->shared_bytes, b, sizeof b));
        return DOP_OK;
    case DOP_REASON_registers: {
        dop_status st = dop_fuse_registers(g, from, to, from->tpl, p->diag, &registers);
        if (st == DOP_OK)
            dop_buf_printf(out, "; about %u registers, and the target has %u", registers, t->registers);
        return st;
    }
    case DOP_REASON_multiple_readers: {
        const uint32_t n = dop_flow_n_readers(&p->flow, base);
        const dop_fuse_times times = dop_fuse_times_of(g, t, from, n);
        dop_buf_printf(out,
                       "; %u dispatches read it: computing it in each takes %.3g us, storing and loading it %.3g us", n,
                       times.again_us, times.stored_us);
        if (times.again_us <= times.stored_us)
            dop_buf_puts(
                out, ": gathered rows are stored all the same, so that the first layer has the kernels of the others");
        dop_buf_printf(out, "; with {op: %s+%s, fuse: on} in a kernel path the second computes it for itself", p->from,
                       p->to);
        return DOP_OK;
    }
    case DOP_REASON_cost:
        dop_buf_printf(out, "; matrices of up to %s and %s",
                       dop_report_bytes((double)largest_matrix(g, from), a, sizeof a),
                       dop_report_bytes((double)largest_matrix(g, to), b, sizeof b));
        if (has->tail)
            dop_buf_printf(out, "; a head's may have %s", dop_report_bytes((double)has->tail, a, sizeof a));
        if (dop_template_of(to->tpl)->beside)
            dop_buf_printf(out, "; one beside another may have %s",
                           dop_report_bytes((double)dop_template_of(to->tpl)->beside, a, sizeof a));
        dop_buf_printf(out, "; a kernel path's {op: %s+%s, fuse: on} joins them nevertheless", p->from, p->to);
        return DOP_OK;
    case DOP_REASON_capacity:
        dop_buf_printf(out, "; %u and %u products, and the most are %u that meet, %u statistics, %u heads, %u rows",
                       from->info->product.n_mats, to->info->product.n_mats, has->meets, has->statistics, has->merges,
                       has->activations);
        return DOP_OK;
    case DOP_REASON_template_limit:
        dop_buf_printf(out, "; a %s behind a %s", dop_template_name(to->tpl), dop_template_name(from->tpl));
        return DOP_OK;
    default:
        return DOP_OK;
    }
}

static void
tell_read(void *user, dop_node_id base)
{
    pairs *p = user;
    const dop_graph *g = &p->s->g;
    const dop_region_id writer = p->writers[base];
    char reasons[256];
    dop_node_id at;
    dop_buf what = {0};
    if (p->status != DOP_OK || !writer || !region_matches(g, &g->regions[writer], p->from))
        return;
    dop_reason reason = dop_report_why(p->s, p->reader, base, reasons, sizeof reasons, &at);
    if (reason == DOP_REASON_none)
        dop_buf_printf(&what, "not joined: %s", reasons);
    else
        dop_buf_printf(&what, "not joined: %s, %s (%s)", dop_reason_code(reason), dop_reason_text(reason), reasons);
    p->status = put_change(p, writer, base, reason, &what);
    put_saving(p, base, &what);
    const uint32_t *numbers = p->places->numbers;
    if (numbers && numbers[writer] != numbers[p->reader])
        dop_buf_printf(&what, "; crosses from part %u to part %u", numbers[writer], numbers[p->reader]);
    add_pair(p, dop_region_label(g, &g->regions[writer]), base, dop_region_label(g, &g->regions[p->reader]), at, &what);
}

static void
tell_fused(pairs *p)
{
    const dop_graph *g = &p->s->g;
    for (uint32_t i = 0; i < p->s->log.n && p->status == DOP_OK; i++) {
        const dop_fusion_event *e = &p->s->log.items[i];
        dop_buf what = {0};
        char size[32];
        if (e->reason != DOP_REASON_none || !node_matches(g, e->producer, p->from) ||
            !node_matches(g, e->consumer, p->to))
            continue;
        dop_buf_printf(&what, "joined by %s as %s: %s less are moved (%.3g us)", e->pass, dop_fusion_rule(g, e),
                       dop_report_bytes((double)e->bytes, size, sizeof size),
                       (double)e->bytes / p->target->bandwidth * 1e6);
        if (e->dispatches)
            dop_buf_printf(&what, ", %u dispatch%s less (%.3g us)", e->dispatches, e->dispatches > 1 ? "es" : "",
                           e->dispatches * (p->target->dispatch_us + p->target->barrier_us));
        add_pair(p, dop_node_at(g, e->producer)->label, e->producer, dop_node_at(g, e->consumer)->label, e->consumer,
                 &what);
    }
}

/* Appends the lines about A+B in one schedule, and adds their number to *io_found. */
static dop_status
explain_pairs(const dop_target *t, const dop_schedule *s, const dop_report_places *places, const char *from,
              const char *to, dop_diag *diag, dop_buf *out, uint32_t *io_found)
{
    const dop_graph *g = &s->g;
    pairs p = {.s = s, .target = t, .from = from, .to = to, .places = places, .diag = diag};
    p.exact = strchr(from, '/') || strchr(to, '/');
    dop_status st = dop_flow_init(g, diag, &p.flow);
    if (st != DOP_OK)
        return st;
    p.writers = calloc(g->n_nodes, sizeof *p.writers);
    if (!p.writers) {
        dop_flow_finish(&p.flow);
        return DOP_NO_MEMORY(diag);
    }
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
    dop_flow_finish(&p.flow);
    return p.status;
}

/* --- OP -------------------------------------------------------------------------------------------------------------- */

/* Regions that differ only in their layer, shown as one line. */
typedef struct group {
    char *text;      /* owned; line without the label */
    dop_label label; /* label of the first region */
    dop_buf layers;  /* completed runs of layers, as "0-4,6-10" */
    dop_region_id first;
    uint32_t count, last; /* number of regions; layer of the last region */
    uint32_t run;         /* first layer of the current run */
} group;

typedef struct groups {
    group *items;
    uint32_t n, cap;
} groups;

static void
groups_finish(groups *x)
{
    for (uint32_t i = 0; i < x->n; i++) {
        free(x->items[i].text);
        dop_buf_finish(&x->items[i].layers);
    }
    free(x->items);
}

/* Appends the current run of consecutive layers to x->layers. */
static void
end_layer_run(group *x)
{
    dop_buf_printf(&x->layers, x->run == x->last ? "%s%u" : "%s%u-%u", x->layers.size ? "," : "", x->run, x->last);
}

/* Adds a region to the group with equal text and role, or makes a new group. Takes ownership of the text. */
static dop_status
add_to_group(groups *x, dop_label label, char *text, dop_region_id r, dop_diag *diag)
{
    const uint32_t layer = label.layer >= 0 ? (uint32_t)label.layer : 0;
    uint32_t i = 0;
    while (i < x->n && (strcmp(x->items[i].text, text) != 0 || strcmp(x->items[i].label.role, label.role) != 0 ||
                        label.layer < 0 || x->items[i].label.layer < 0 || x->items[i].last >= layer))
        i++;
    if (i < x->n) {
        group *old = &x->items[i];
        free(text);
        old->count++;
        if (layer != old->last + 1) {
            end_layer_run(old);
            old->run = layer;
        }
        old->last = layer;
        return DOP_OK;
    }
    if (x->n == x->cap) {
        uint32_t cap = x->cap ? 2 * x->cap : 16;
        group *items = realloc(x->items, cap * sizeof *items);
        if (!items) {
            free(text);
            return DOP_NO_MEMORY(diag);
        }
        x->items = items;
        x->cap = cap;
    }
    x->items[x->n++] = (group){.text = text, .label = label, .first = r, .count = 1, .last = layer, .run = layer};
    return DOP_OK;
}

static void
put_group(const dop_schedule *s, group *x, dop_buf *out)
{
    dop_buf_printf(out, "%s @%u ", dop_schedule_name(s), x->first);
    if (x->label.layer >= 0) {
        end_layer_run(x);
        dop_buf_printf(out, "L%s/", x->layers.data ? x->layers.data : "");
    }
    dop_buf_printf(out, "%s: %s", x->label.role, x->text);
    if (x->count > 1)
        dop_buf_printf(out, " (%u times)", x->count);
    dop_buf_puts(out, "\n");
}

/* Appends a region's kernel, grid and tile, and its cost on the target: bytes, dispatch and barrier. */
static void
put_region(const dop_target *t, const dop_schedule *s, const dop_report_places *places, dop_region_id r, dop_buf *out)
{
    const dop_built_region *b = &s->regions[r];
    uint64_t rd, wr;
    char read[32], written[32];
    dop_region_traffic(&s->g, &s->g.regions[r], DOP_REPORT_DEPTH, &rd, &wr);
    dop_buf_printf(out, "%s (%s), grid %ux%ux%u, tile", dop_variant_of(b->choice.variant)->name, b->choice.why,
                   b->grid[0], b->grid[1], b->grid[2]);
    dop_tile_put(&b->choice.tile, out);
    dop_buf_printf(out, "; reads %s, writes %s: %.3g us by bandwidth, %.3g us for the dispatch%s",
                   dop_report_bytes((double)rd, read, sizeof read),
                   dop_report_bytes((double)wr, written, sizeof written), (double)(rd + wr) / t->bandwidth * 1e6,
                   t->dispatch_us + (s->placement.barrier[r] ? t->barrier_us : 0),
                   s->placement.barrier[r] ? " and its barrier" : "");
    dop_report_place(places, s, r, out);
}

static dop_status
explain_regions(const dop_compilation *c, const dop_schedule *s, const dop_report_places *places, const char *op,
                dop_diag *diag, dop_buf *out, uint32_t *io_found)
{
    groups found = {0};
    dop_status st = DOP_OK;
    for (dop_region_id r = 1; r < s->g.n_regions && st == DOP_OK; r++) {
        dop_buf text = {0};
        if (s->g.regions[r].dead || !region_matches(&s->g, &s->g.regions[r], op))
            continue;
        ++*io_found;
        put_region(c->target, s, places, r, &text);
        st = text.failed ? DOP_NO_MEMORY(diag)
                         : add_to_group(&found, dop_region_label(&s->g, &s->g.regions[r]), text.data, r, diag);
        if (text.failed)
            dop_buf_finish(&text);
    }
    for (uint32_t i = 0; i < found.n && st == DOP_OK; i++)
        put_group(s, &found.items[i], out);
    groups_finish(&found);
    return st;
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
            st = explain_pairs(c->target, s, &places, from, plus + 1, diag, out, &found);
        else
            st = explain_regions(c, s, &places, op, diag, out, &found);
        dop_report_places_finish(&places);
    }
    if (st == DOP_OK && !found && plus)
        return DOP_FAIL(diag, DOP_E_USAGE, "--explain %s: no region of %s reads what one of %s makes", op, plus + 1,
                        from);
    if (st == DOP_OK && !found)
        return DOP_FAIL(
            diag, DOP_E_USAGE,
            "--explain %s: no region has that op, template or label; known are ops and templates as matmul, attention "
            "and gemv, and the last parts of labels as qkv, o and head",
            op);
    return st;
}
