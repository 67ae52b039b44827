/* Gathers the report: grouped regions, fusions, refused pairs, the viability matrix, totals before and after. */
#include "compiler/report/report.h"

#include "compiler/report/report_rules.h"
#include "compiler/report/report_weights.h"
#include "compiler/schedule/region_facts.h"
#include "ir/graph/dims.h"
#include "ir/graph/ops.h"
#include "passes/fusion/region.h"

#include <stdio.h>
#include <string.h>

typedef struct maker {
    dop_report *r;
    dop_report_schedule *out;
    const dop_schedule *s;
    dop_diag *diag;
    dop_region_id *writers; /* [n_nodes] region that stores each node; 0: none */
    dop_status status;      /* first failure; all later calls do nothing */
} maker;

static void *
alloc_for_report(maker *m, size_t n, size_t size)
{
    void *p = m->status == DOP_OK ? dop_arena_alloc(&m->r->arena, (n ? n : 1) * size) : NULL;
    if (!p && m->status == DOP_OK)
        m->status = DOP_NO_MEMORY(m->diag);
    return p;
}

static const char *
keep_report_text(maker *m, const char *text)
{
    char *p = m->status == DOP_OK ? dop_arena_strdup(&m->r->arena, text) : NULL;
    if (!p && m->status == DOP_OK)
        m->status = DOP_NO_MEMORY(m->diag);
    return p ? p : "";
}

static bool
equal_text(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static const char *
get_op_name(const dop_graph *g, dop_node_id id)
{
    return dop_op_of(dop_node_at(g, id)->op)->name;
}

/* --- regions ---------------------------------------------------------------------------------------------------------- */

static void
add_region(maker *m, dop_region_id id)
{
    const dop_schedule *s = m->s;
    const dop_region *reg = &s->g.regions[id];
    const dop_built_region *b = &s->regions[id];
    char label[64];
    uint64_t rd, wr;
    dop_buf ops = {0};
    dop_label_any_layer(dop_region_label(&s->g, reg), label, sizeof label);
    dop_region_ops(&s->g, reg, &ops);
    dop_region_traffic(&s->g, reg, DOP_REPORT_DEPTH, &rd, &wr);
    const char *text = ops.data ? ops.data : "", *variant = dop_variant_of(b->choice.variant)->name;
    uint32_t groups = b->grid[0] * b->grid[1] * b->grid[2];
    dop_report_row *row = NULL;
    for (uint32_t i = 0; i < m->out->n_rows && !row; i++) {
        dop_report_row *x = &m->out->rows[i];
        if (equal_text(x->label, label) && equal_text(x->ops, text) && equal_text(x->variant, variant) &&
            x->workgroups == groups)
            row = x;
    }
    if (!row) {
        row = &m->out->rows[m->out->n_rows++];
        *row = (dop_report_row){.label = keep_report_text(m, label),
                                .tpl = dop_template_name(reg->tpl),
                                .variant = variant,
                                .why = b->choice.why,
                                .ops = keep_report_text(m, text),
                                .workgroups = groups,
                                .kernel = b->kernel,
                                .first = id};
    }
    row->count++;
    row->read += (double)rd / m->out->tokens;
    row->written += (double)wr / m->out->tokens;
    row->floor_us += (double)(rd + wr) / m->out->tokens / m->r->c->target->bandwidth * 1e6;
    dop_buf_finish(&ops);
}

static void
count_report_dispatches(maker *m)
{
    const dop_graph *g = &m->s->g;
    uint32_t n_layers = m->r->c->model.arch.n_layers;
    uint32_t *layers = alloc_for_report(m, n_layers, sizeof *layers);
    bool *kernels = alloc_for_report(m, m->r->c->kernels.n, sizeof *kernels);
    if (m->status != DOP_OK)
        return;
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        const dop_label label = dop_region_label(g, &g->regions[r]);
        const uint32_t l = (uint32_t)label.layer;
        if (label.layer < 0 || l >= n_layers)
            m->out->outside++;
        else if (++layers[l] > m->out->per_layer)
            m->out->per_layer = layers[l];
        m->out->kernels += !kernels[m->s->regions[r].kernel];
        kernels[m->s->regions[r].kernel] = true;
    }
}

/* --- viability matrix
 * --------------------------------------------------------------------------------------------------- */

typedef enum kind { ELEMENT, REDUCTION, TILED } kind;
static const char *const kind_names[] = {"element", "reduction", "tiled"};

static kind
classify_op(const dop_graph *g, dop_node_id id)
{
    dop_root root = dop_op_of(dop_node_at(g, id)->op)->root;
    return root == DOP_ROOT_product || root == DOP_ROOT_attention ? TILED
           : root == DOP_ROOT_element                             ? ELEMENT
                                                                  : REDUCTION;
}

/* Viability matrix: the fusions that this compiler supports for a producer (row) and a consumer (column). */
static const char *const cells[3][3] = {
    {"expressions are inlined, chains of any length and fan-in, until registers run out",
     "chains run in the load phase of a row program; recomputed for several readers while that moves fewer bytes",
     "chains run in the load phase of a matmul or attention; not on the side of the weights"},
    {"the workgroup that sums a row finishes it, and a matmul takes a norm's statistic as a scalar after its sum",
     "joined where both walk the same rows or heads: sandwich norms, qk-norm with rotation; not from heads to rows",
     "one token: the row is staged by every workgroup, or its statistic summed beside the product; several tokens: "
     "the statistic only"},
    {"joined where one workgroup makes the element: bias, residual, activation, gate, soft cap, cache write, cast",
     "arg-max as a partial result; others need a row or head that several workgroups make",
     "siblings with one input share a dispatch, and so do two whose results are added; a product of a product needs "
     "rows that all workgroups make, or is of heads, which one completes"},
};

static void
init_classes(dop_report_schedule *out)
{
    for (int p = 0; p < 3; p++)
        for (int c = 0; c < 3; c++)
            out->classes[3 * p + c] =
                (dop_report_class){.producer = kind_names[p], .consumer = kind_names[c], .why = cells[p][c]};
}

static dop_report_class *
find_viability_class(maker *m, dop_node_id producer, dop_node_id consumer)
{
    return &m->out->classes[3 * classify_op(&m->s->g, producer) + classify_op(&m->s->g, consumer)];
}

/* --- fusions ------------------------------------------------------------------------------------------------------------ */

static void
add_fusion(maker *m, const dop_fusion_event *e)
{
    const dop_graph *g = &m->s->g;
    const char *rule = dop_fusion_rule(g, e), *p = get_op_name(g, e->producer), *c = get_op_name(g, e->consumer);
    dop_report_fusion *f = NULL;
    for (uint32_t i = 0; i < m->out->n_fusions && !f; i++) {
        dop_report_fusion *x = &m->out->fusions[i];
        if (equal_text(x->rule, rule) && equal_text(x->pass, e->pass) && equal_text(x->producer, p) &&
            equal_text(x->consumer, c))
            f = x;
    }
    if (!f) {
        f = &m->out->fusions[m->out->n_fusions++];
        *f = (dop_report_fusion){.rule = rule, .pass = e->pass, .producer = p, .consumer = c};
    }
    f->count++;
    f->dispatches += e->dispatches;
    f->bytes += (double)e->bytes / m->out->tokens;
    find_viability_class(m, e->producer, e->consumer)->fused++;
}

/* --- refused pairs ------------------------------------------------------------------------------------------------------ */

typedef struct edge {
    maker *m;
    dop_region_id consumer;
} edge;

static void
put_refusal(maker *m, dop_node_id producer, const edge *e, dop_node_id consumer, const char *reasons, dop_reason reason,
            uint64_t bytes)
{
    const dop_graph *g = &m->s->g;
    const char *p = get_op_name(g, producer), *c = get_op_name(g, consumer);
    const dop_region_id writer = m->writers[producer];
    char from[64], to[64];
    dop_report_refusal *f = NULL;
    dop_label_any_layer(writer ? dop_region_label(g, &g->regions[writer]) : dop_node_at(g, producer)->label, from,
                        sizeof from);
    dop_label_any_layer(dop_region_label(g, &g->regions[e->consumer]), to, sizeof to);
    for (uint32_t i = 0; i < m->out->n_refusals && !f; i++) {
        dop_report_refusal *x = &m->out->refusals[i];
        if (equal_text(x->producer, p) && equal_text(x->consumer, c) && equal_text(x->reasons, reasons) &&
            equal_text(x->from, from) && equal_text(x->to, to))
            f = x;
    }
    if (!f) {
        f = &m->out->refusals[m->out->n_refusals++];
        *f = (dop_report_refusal){.producer = p,
                                  .consumer = c,
                                  .from = keep_report_text(m, from),
                                  .to = keep_report_text(m, to),
                                  .reasons = keep_report_text(m, reasons),
                                  .reason = reason};
    }
    f->count++;
    f->bytes += (double)bytes / m->out->tokens;
    dop_report_class *cell = find_viability_class(m, producer, consumer);
    cell->refused++;
    cell->reasons[reason]++;
}

dop_reason
dop_report_why(const dop_schedule *s, dop_region_id consumer, dop_node_id base, char *out_reasons, size_t cap,
               dop_node_id *out_reader)
{
    const dop_region *reg = &s->g.regions[consumer];
    dop_reason reason = DOP_REASON_none;
    size_t used = 0;
    out_reasons[0] = 0;
    *out_reader = 0;
    for (uint32_t i = 0; i < s->log.n; i++) {
        const dop_fusion_event *x = &s->log.items[i];
        char one[64];
        if (x->reason == DOP_REASON_none || x->producer != base || !dop_region_has(reg, x->consumer))
            continue;
        snprintf(one, sizeof one, "%s %s", x->pass, dop_reason_code(x->reason));
        if (!strstr(out_reasons, one) && used + strlen(one) + 3 < cap)
            used += (size_t)snprintf(out_reasons + used, cap - used, "%s%s", used ? ", " : "", one);
        if (dop_reason_weight(x->reason) > dop_reason_weight(reason)) {
            reason = x->reason;
            *out_reader = x->consumer;
        }
    }
    for (uint32_t i = 0; i < reg->n_nodes && !*out_reader; i++)
        for (uint32_t k = 0; k < dop_node_at(&s->g, reg->nodes[i])->n_srcs && !*out_reader; k++)
            if (dop_node_base(&s->g, dop_node_at(&s->g, reg->nodes[i])->src[k], NULL) == base)
                *out_reader = reg->nodes[i];
    if (reason == DOP_REASON_none)
        snprintf(out_reasons, cap, "no pass that could join them ran");
    return reason;
}

static void
explain_read(void *user, dop_node_id base)
{
    edge *e = user;
    maker *m = e->m;
    const dop_graph *g = &m->s->g;
    char reasons[256];
    dop_node_id reader;
    if (m->status != DOP_OK || !dop_node_computed(g, base))
        return;
    dop_reason reason = dop_report_why(m->s, e->consumer, base, reasons, sizeof reasons, &reader);
    /* A fusion would save a write and a read. dop_node_space counts only the cache rows that this step writes. */
    uint64_t bytes = dop_node_bytes(g, dop_node_space(g, base));
    m->out->n_unexplained += reason == DOP_REASON_none;
    put_refusal(m, base, e, reader, reasons, reason, 2 * bytes);
}

static void
gather_refusals(maker *m)
{
    const dop_graph *g = &m->s->g;
    dop_report_refusal *list = m->out->refusals;
    for (dop_region_id r = 1; r < g->n_regions; r++)
        for (uint32_t i = 0; i < g->regions[r].n_outs && !g->regions[r].dead; i++)
            m->writers[g->regions[r].outs[i]] = r;
    for (dop_region_id r = 1; r < g->n_regions; r++)
        dop_region_reads(&g->regions[r], explain_read, &(edge){m, r});
    /* Sort by traffic in descending order. */
    for (uint32_t i = 1; i < m->out->n_refusals; i++)
        for (uint32_t k = i; k > 0 && list[k].bytes > list[k - 1].bytes; k--) {
            dop_report_refusal t = list[k];
            list[k] = list[k - 1];
            list[k - 1] = t;
        }
}

/* --- totals ------------------------------------------------------------------------------------------------------------- */

static dop_report_totals
sum_report_totals(maker *m, const dop_graph *g, const dop_placement *p)
{
    dop_report_totals t = {
        .dispatches = 0, .barriers = p->n_barriers, .activations = p->scratch, .unshared = p->unshared};
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        uint64_t rd, wr;
        if (g->regions[r].dead)
            continue;
        t.dispatches++;
        dop_region_traffic(g, &g->regions[r], DOP_REPORT_DEPTH, &rd, &wr);
        t.read += (double)rd / m->out->tokens;
        t.written += (double)wr / m->out->tokens;
    }
    return t;
}

/* Computes the totals of the graph before the passes, with one dispatch per op. */
static void
measure_unfused(maker *m)
{
    dop_graph *g = &m->out->unfused;
    dop_pass_ctx cx = {.arena = &m->r->arena, .diag = m->diag, .target = m->r->c->target};
    dop_pass_options opt = {.stop_after = -1};
    if (m->status != DOP_OK)
        return;
    *g = m->s->before;
    g->arena = &m->r->arena;
    g->regions = alloc_for_report(m, 1, sizeof *g->regions); /* region 0 is unused */
    g->n_regions = g->cap_regions = 1;
    if (m->status != DOP_OK)
        return;
    for (int i = 0; i < DOP_PASS_COUNT; i++)
        opt.skip[i] = i != DOP_PASS_form_regions && i != DOP_PASS_order && i != DOP_PASS_place;
    m->status = dop_passes_run(&cx, &opt, g);
    if (m->status == DOP_OK)
        m->out->before = sum_report_totals(m, g, &cx.placement);
}

static void
make_schedule(maker *m)
{
    const dop_graph *g = &m->s->g;
    m->out->s = m->s;
    m->out->tokens = g->max_t;
    init_classes(m->out);
    m->out->rows = alloc_for_report(m, g->n_regions, sizeof *m->out->rows);
    m->out->fusions = alloc_for_report(m, m->s->log.n, sizeof *m->out->fusions);
    uint32_t n_reads = 0;
    for (dop_region_id r = 1; r < g->n_regions; r++)
        for (uint32_t i = 0; i < g->regions[r].n_nodes; i++)
            n_reads += dop_node_at(g, g->regions[r].nodes[i])->n_srcs;
    m->out->refusals = alloc_for_report(m, n_reads, sizeof *m->out->refusals);
    m->writers = alloc_for_report(m, g->n_nodes, sizeof *m->writers);
    if (m->status != DOP_OK)
        return;
    for (dop_region_id r = 1; r < g->n_regions && m->status == DOP_OK; r++)
        add_region(m, r);
    for (uint32_t i = 0; i < m->s->log.n; i++)
        if (m->s->log.items[i].reason == DOP_REASON_none)
            add_fusion(m, &m->s->log.items[i]);
    count_report_dispatches(m);
    gather_refusals(m);
    m->out->after = sum_report_totals(m, g, &m->s->placement);
    measure_unfused(m);
}

uint64_t
dop_report_state_bytes(const dop_compilation *c)
{
    const dop_graph *g = &c->schedules[0].g;
    const uint32_t page = dop_graph_page(g), total = c->options.ctx_total;
    uint64_t n = 0;
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        const bool appends = dop_shape_appends(&dop_node_at(g, id)->shape);
        const uint64_t bytes = dop_node_bytes(g, id);
        if (dop_node_at(g, id)->op != DOP_OP_state)
            continue;
        if (!appends) /* replaced states have g->copies copies */
            n += g->copies * bytes;
        else if (page && total && !dop_cache_ring(g, id)) /* page pool for --ctx-total positions */
            n += bytes / g->max_q / g->max_s * (dop_div_up_u32(total, page) * page);
        else
            n += bytes;
    }
    return n;
}

dop_status
dop_report_make(const dop_compilation *c, dop_diag *diag, dop_report *out_report)
{
    dop_report *r = out_report;
    dop_status st = DOP_OK;
    memset(r, 0, sizeof *r);
    r->c = c;
    dop_arena_init(&r->arena);
    for (uint32_t i = 0; i < c->pack.n_segments; i++)
        r->weights += c->pack.segment_size[i];
    for (uint32_t i = 0; i < c->kernels.n; i++)
        r->kernels += c->kernels.items[i].spirv.size;
    st = dop_report_count_weights(r, diag);
    for (uint32_t i = 0; i < c->n_schedules && st == DOP_OK; i++) {
        const dop_schedule *s = &c->schedules[i];
        maker m = {.r = r, .out = &r->schedules[i], .s = s, .diag = diag};
        make_schedule(&m);
        st = m.status;
        if (i == 0)
            r->caches = dop_report_state_bytes(c);
        if (s->placement.scratch > r->activations)
            r->activations = s->placement.scratch;
        uint64_t result = s->g.n_outs ? dop_node_bytes(&s->g, s->g.outs[0]) : 0;
        if (result > r->results)
            r->results = result;
        r->n_schedules++;
    }
    if (st != DOP_OK)
        dop_report_finish(r);
    return st;
}

void
dop_report_finish(dop_report *r)
{
    dop_arena_finish(&r->arena);
    memset(r, 0, sizeof *r);
}

const char *
dop_report_bytes(double bytes, char *out, size_t cap)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;
    while (bytes >= 1024 && u < 4) {
        bytes /= 1024;
        u++;
    }
    snprintf(out, cap, u == 0 ? "%.0f %s" : bytes < 10 ? "%.2f %s" : "%.1f %s", bytes, units[u]);
    return out;
}
