#include "compiler/report.h"

#include "passes/region.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool
is_norm_part(dop_op op)
{
    return op == DOP_OP_row_rms || op == DOP_OP_rmsnorm || op == DOP_OP_row_istd || op == DOP_OP_layernorm;
}

static bool
is_attention(dop_op op)
{
    return op == DOP_OP_attention || op == DOP_OP_attn_split;
}

/* By kind of the ops when no combination of them has a name. */
static const char *
rule_of_kinds(const dop_graph *g, const dop_fusion_event *e)
{
    dop_op p = dop_node_at(g, e->producer)->op, c = dop_node_at(g, e->consumer)->op;
    dop_reach pr = dop_node_reach(g, e->producer), cr = dop_node_reach(g, e->consumer);
    bool p_elem = pr == DOP_REACH_ELEM || p == DOP_OP_gather || p == DOP_OP_last_row;
    bool c_elem = cr == DOP_REACH_ELEM || c == DOP_OP_gather || c == DOP_OP_last_row;
    bool p_row = pr == DOP_REACH_ROW || pr == DOP_REACH_HEAD || pr == DOP_REACH_DIMS;
    bool c_row = cr == DOP_REACH_ROW || cr == DOP_REACH_HEAD || cr == DOP_REACH_DIMS;
    if (is_attention(c))
        return "prologue+attention";
    if (is_attention(p) && c_elem)
        return "attention+element";
    if (c == DOP_OP_matmul)
        return p_elem ? "element+matmul" : "row+matmul";
    if (p == DOP_OP_matmul)
        return "matmul+element";
    if (p_elem && c_elem)
        return "element+element";
    if (p_elem && c_row)
        return "element+reduction";
    if (p_row && c_elem)
        return "reduction+element";
    return p_row && c_row ? "reduction+reduction" : e->pass;
}

const char *
dop_fusion_rule(const dop_graph *g, const dop_fusion_event *e)
{
    const dop_node *consumer = dop_node_at(g, e->consumer);
    dop_op p = dop_node_at(g, e->producer)->op, c = consumer->op;
    if (strncmp(e->pass, "merge-", 6) == 0)
        return p == DOP_OP_matmul ? "siblings" : "sibling-rows";
    if (p == DOP_OP_gather && c == DOP_OP_scale)
        return "gather+scale";
    if (p == DOP_OP_silu && c == DOP_OP_mul)
        return "silu+gate";
    if ((p == DOP_OP_gelu || p == DOP_OP_gelu_tanh) && c == DOP_OP_mul)
        return "gelu+gate";
    if (p == DOP_OP_add && is_norm_part(c))
        return "residual+rmsnorm";
    if (is_norm_part(p) && c == DOP_OP_mul)
        return "row-statistic";
    if (p == DOP_OP_matmul && c == DOP_OP_add)
        for (uint32_t i = 0; i < consumer->n_srcs; i++)
            if (dop_node_at(g, consumer->src[i])->op == DOP_OP_weight)
                return "matmul+bias";
    if (p == DOP_OP_matmul && c == DOP_OP_add)
        return "matmul+residual";
    if (p == DOP_OP_rope && c == DOP_OP_kv_write)
        return "rope+kv-write";
    if (c == DOP_OP_kv_write)
        return "kv-write";
    if (c == DOP_OP_rope)
        return "head-rope";
    if (p == DOP_OP_attn_combine)
        return "split-kv-combine";
    if (c == DOP_OP_argmax_part)
        return "lm-head+argmax";
    return rule_of_kinds(g, e);
}

/* "L12/qkv" becomes "L*qkv" with its slash: the same region of every layer is one row. */
static void
layer_free(const char *label, char *out, size_t cap)
{
    if (label[0] == 'L' && strchr(label, '/'))
        snprintf(out, cap, "L*%s", strchr(label, '/'));
    else
        snprintf(out, cap, "%s", label);
}

typedef struct row {
    char key[256];
    uint32_t count;
    uint64_t a, b;
} row;

typedef struct rows {
    row *items;
    uint32_t n, cap;
} rows;

static void
add_row(rows *t, const char *key, uint64_t a, uint64_t b)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (strcmp(t->items[i].key, key) == 0) {
            t->items[i].count++;
            t->items[i].a += a;
            t->items[i].b += b;
            return;
        }
    if (t->n == t->cap) {
        uint32_t cap = t->cap ? t->cap * 2 : 64;
        row *p = realloc(t->items, cap * sizeof *p);
        if (!p)
            return;
        t->items = p;
        t->cap = cap;
    }
    row *r = &t->items[t->n++];
    snprintf(r->key, sizeof r->key, "%s", key);
    r->count = 1;
    r->a = a;
    r->b = b;
}

static void
put_regions(const dop_schedule *s, dop_buf *out)
{
    rows t = {0};
    for (dop_region_id r = 1; r < s->g.n_regions; r++) {
        const dop_region *reg = &s->g.regions[r];
        char label[64], key[256];
        uint64_t rd, wr;
        dop_buf ops = {0};
        layer_free(dop_region_label(&s->g, reg), label, sizeof label);
        dop_region_ops(&s->g, reg, &ops);
        snprintf(key, sizeof key, "%-14s %-11s %s", label, dop_template_name(reg->tpl), ops.data ? ops.data : "");
        dop_region_traffic(&s->g, reg, 512, &rd, &wr);
        add_row(&t, key, rd, wr);
        dop_buf_finish(&ops);
    }
    dop_buf_printf(out, "  regions (dispatches): count, bytes read, bytes written (all of them, cache at 512)\n");
    for (uint32_t i = 0; i < t.n; i++)
        dop_buf_printf(out, "    %4u %12llu %10llu  %s\n", t.items[i].count, (unsigned long long)t.items[i].a,
                       (unsigned long long)t.items[i].b, t.items[i].key);
    free(t.items);
}

static void
put_events(const dop_schedule *s, bool fused, dop_buf *out)
{
    rows t = {0};
    for (uint32_t i = 0; i < s->log.n; i++) {
        const dop_fusion_event *e = &s->log.items[i];
        if ((e->reason == DOP_REASON_none) != fused)
            continue;
        char key[256];
        snprintf(key, sizeof key, "%-20s %s -> %s", fused ? dop_fusion_rule(&s->g, e) : dop_reason_code(e->reason),
                 dop_op_of(dop_node_at(&s->g, e->producer)->op)->name,
                 dop_op_of(dop_node_at(&s->g, e->consumer)->op)->name);
        add_row(&t, key, e->bytes, 0);
    }
    dop_buf_printf(out, fused ? "  fused: count, bytes of traffic saved, rule\n"
                              : "  refused: count, bytes that a fusion would save, reason\n");
    for (uint32_t i = 0; i < t.n; i++)
        dop_buf_printf(out, "    %4u %12llu  %s\n", t.items[i].count, (unsigned long long)t.items[i].a, t.items[i].key);
    free(t.items);
}

/* The most dispatches that any one layer takes. */
static uint32_t
per_layer(const dop_schedule *s, uint32_t n_layers)
{
    uint32_t most = 0;
    for (uint32_t l = 0; l < n_layers; l++) {
        char prefix[16];
        uint32_t n = 0;
        int len = snprintf(prefix, sizeof prefix, "L%u/", l);
        for (dop_region_id r = 1; r < s->g.n_regions; r++)
            n += strncmp(dop_region_label(&s->g, &s->g.regions[r]), prefix, (size_t)len) == 0;
        most = n > most ? n : most;
    }
    return most;
}

void
dop_report_text(const dop_compilation *c, dop_buf *out)
{
    uint64_t weights = 0;
    for (uint32_t i = 0; i < c->pack.n_segments; i++)
        weights += c->pack.segment_size[i];
    dop_buf_printf(out, "%s (%s), target %s, context %u, %u distinct kernels, weights %.1f MiB\n",
                   c->model.name ? c->model.name : "model", c->model.arch.family, c->target.name, c->ctx, c->n_kernels,
                   (double)weights / 1048576);
    for (uint32_t i = 0; i < c->n_schedules; i++) {
        const dop_schedule *s = &c->schedules[i];
        uint64_t rd = 0, wr = 0;
        for (dop_region_id r = 1; r < s->g.n_regions; r++) {
            uint64_t a, b;
            dop_region_traffic(&s->g, &s->g.regions[r], 512, &a, &b);
            rd += a;
            wr += b;
        }
        uint32_t n = s->g.n_regions - 1;
        dop_buf_printf(out,
                       "\n%s: %u ops in %u dispatches and %u barriers, %u dispatches per layer\n"
                       "  bytes per replay: %.2f MiB read, %.3f MiB written; activations %.1f KiB (%.1f unshared)\n",
                       dop_schedule_name(s), s->n_ops, n, s->placement.n_barriers, per_layer(s, c->model.arch.n_layers),
                       (double)rd / 1048576, (double)wr / 1048576, (double)s->placement.scratch / 1024,
                       (double)s->placement.unshared / 1024);
        put_regions(s, out);
        put_events(s, true, out);
        put_events(s, false, out);
    }
    dop_buf_puts(out, "\nreasons\n");
    for (int r = 1; r < DOP_REASON_COUNT; r++)
        dop_buf_printf(out, "  %-18s %s\n", dop_reason_code((dop_reason)r), dop_reason_text((dop_reason)r));
}

static bool
region_matches(const dop_graph *g, const dop_region *r, const char *op)
{
    const char *label = dop_region_label(g, r), *slash = strrchr(label, '/');
    if (strcmp(dop_template_name(r->tpl), op) == 0 || strcmp(label, op) == 0 || (slash && strcmp(slash + 1, op) == 0))
        return true;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (strcmp(dop_op_of(dop_node_at(g, r->nodes[i])->op)->name, op) == 0)
            return true;
    return false;
}

dop_status
dop_report_explain(const dop_compilation *c, const char *op, dop_diag *diag, dop_buf *out)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < c->n_schedules; i++) {
        const dop_schedule *s = &c->schedules[i];
        for (dop_region_id r = 1; r < s->g.n_regions; r++) {
            const dop_region *reg = &s->g.regions[r];
            const dop_built_region *b = &s->regions[r];
            if (!region_matches(&s->g, reg, op))
                continue;
            found++;
            dop_buf_printf(out, "%s @%u %s: %s (%s), grid %ux%ux%u of %u\n", dop_schedule_name(s), r,
                           dop_region_label(&s->g, reg), dop_variant_of(b->choice.variant)->name, b->choice.why,
                           b->grid[0], b->grid[1], b->grid[2], b->choice.tile.wg);
        }
    }
    if (!found)
        return DOP_FAIL(diag, DOP_E_USAGE, "--explain %s: no region has that op, template or label", op);
    return DOP_OK;
}
