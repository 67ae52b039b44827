/* Following a kernel path: which rule holds for a region, and what to say when it cannot. */
#include "compiler/schedule/kernel_path.h"
#include "ir/graph/ops.h"

#include "compiler/schedule/region_facts.h"
#include "passes/fusion/region.h"

#include <stdio.h>
#include <string.h>

static bool
in_phase(const dop_path_rule *r, dop_phase phase)
{
    return phase == DOP_PHASE_DECODE ? r->decode : r->prefill;
}

/* Does rule i apply in this phase, and is it not muted? */
static bool
is_on(const dop_kernel_path *p, uint32_t i, dop_phase phase)
{
    return i + 1 != p->muted && in_phase(&p->rules[i], phase);
}

static bool
in_layers(const dop_path_rule *r, dop_label label)
{
    const uint32_t layer = (uint32_t)label.layer;
    for (uint32_t i = 0; i < r->n_layers && label.layer >= 0; i++)
        if (layer >= r->layers[i].first && layer <= r->layers[i].last)
            return true;
    return r->n_layers == 0;
}

/* Does the `op` of a rule (NULL: everything) name this label? */
static bool
names_label(const char *op, dop_label label)
{
    return !op || dop_label_is(label, op);
}

static bool
is_about(const dop_path_rule *rule, dop_phase phase, const dop_graph *g, const dop_region *r)
{
    const dop_label label = dop_region_label(g, r);
    if (rule->reader || !in_phase(rule, phase) || !in_layers(rule, label) || (rule->step && rule->step != g->max_t) ||
        (rule->tpl && rule->tpl != r->tpl))
        return false;
    if (names_label(rule->op, label) || strcmp(rule->op, dop_template_name(r->tpl)) == 0)
        return true;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (strcmp(dop_op_of(dop_node_at(g, r->nodes[i])->op)->name, rule->op) == 0)
            return true;
    return false;
}

bool
dop_kernel_path_unfused(const dop_kernel_path *p, dop_phase phase)
{
    bool unfused = p->unfused;
    for (uint32_t i = 0; i < p->n_rules; i++) {
        const dop_path_rule *r = &p->rules[i];
        if (is_on(p, i, phase) && r->n_layers == 0 && !r->op)
            unfused = r->unfused || (unfused && !r->fused);
    }
    return unfused;
}

bool
dop_kernel_path_has_apart(const dop_kernel_path *p, dop_phase phase)
{
    for (uint32_t i = 0; i < p->n_rules; i++)
        if (is_on(p, i, phase) && p->rules[i].unfused)
            return true;
    return false;
}

static bool
stands_apart(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *r)
{
    bool apart = false;
    for (uint32_t i = 0; i < p->n_rules; i++)
        if (is_on(p, i, phase) && (p->rules[i].unfused || p->rules[i].fused) && is_about(&p->rules[i], phase, g, r)) {
            p->rules[i].met++;
            apart = p->rules[i].unfused;
        }
    return apart;
}

static bool
is_node(const dop_graph *g, dop_node_id id, const char *name)
{
    const dop_node *n = dop_node_at(g, id);
    return strcmp(dop_op_of(n->op)->name, name) == 0 || dop_label_is(n->label, name);
}

/* For a rule about a pair A+B: does a node of region b that B names read a node of region a that A names?  *out_reads: b reads
 * something of a, whatever its name. */
static bool
is_edge(const dop_path_rule *rule, const dop_graph *g, const dop_region *a, const dop_region *b, bool *out_reads)
{
    *out_reads = false;
    for (uint32_t i = 0; i < b->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, b->nodes[i]);
        for (uint32_t k = 0; k < n->n_srcs; k++) {
            dop_node_id base = dop_node_base(g, n->src[k], NULL);
            if (!dop_region_has(a, base) || dop_region_has(b, base))
                continue;
            *out_reads = true;
            if (is_node(g, base, rule->op) && is_node(g, b->nodes[i], rule->reader))
                return true;
        }
    }
    return false;
}

static bool
has_node(const dop_graph *g, const dop_region *r, const char *name)
{
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (is_node(g, r->nodes[i], name))
            return true;
    return false;
}

/* Is the rule about this pair of regions?  Where neither region reads the other, as with sibling products, A and B may be named in
 * either order. */
static bool
is_pair(const dop_path_rule *rule, const dop_graph *g, const dop_region *a, const dop_region *b)
{
    bool ab, ba;
    if (is_edge(rule, g, a, b, &ab) || is_edge(rule, g, b, a, &ba))
        return true;
    return !ab && !ba &&
           ((has_node(g, a, rule->op) && has_node(g, b, rule->reader)) ||
            (has_node(g, b, rule->op) && has_node(g, a, rule->reader)));
}

/* The last rule about this pair of regions, which wins over earlier ones; NULL: there is none.  Counts the use in its `met`. */
static const dop_path_rule *
pair_rule(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *a, const dop_region *b)
{
    for (uint32_t i = p->n_rules; i-- > 0;) {
        dop_path_rule *rule = &p->rules[i];
        if (rule->reader && is_on(p, i, phase) && is_pair(rule, g, a, b)) {
            rule->met++;
            return rule;
        }
    }
    return NULL;
}

bool
dop_kernel_path_joins(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *a, const dop_region *b)
{
    const dop_path_rule *rule = pair_rule(p, phase, g, a, b);
    return rule && rule->fused;
}

bool
dop_kernel_path_apart(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *a, const dop_region *b)
{
    const dop_path_rule *rule = pair_rule(p, phase, g, a, b);
    if (rule)
        return rule->unfused;
    return stands_apart(p, phase, g, a) || stands_apart(p, phase, g, b);
}

/* For a rule about a pair A+B: does a node of the region that B names read a node that A names?  The rule then applies somewhere,
 * even if no pass would have joined the two. */
static bool
reads_pair(const dop_path_rule *rule, dop_phase phase, const dop_graph *g, const dop_region *r)
{
    for (uint32_t i = 0; rule->reader && in_phase(rule, phase) && i < r->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, r->nodes[i]);
        for (uint32_t k = 0; k < n->n_srcs && is_node(g, r->nodes[i], rule->reader); k++)
            if (is_node(g, dop_node_base(g, n->src[k], NULL), rule->op))
                return true;
    }
    return false;
}

bool
dop_kernel_path_has_expand(const dop_kernel_path *p, dop_phase phase)
{
    for (uint32_t i = 0; i < p->n_rules; i++)
        if (in_phase(&p->rules[i], phase) && p->rules[i].expands)
            return true;
    return false;
}

dop_type
dop_kernel_path_expand(dop_kernel_path *p, dop_phase phase, const dop_graph *g, dop_node_id matmul)
{
    const dop_label label = dop_node_at(g, matmul)->label;
    dop_type type = DOP_TYPE_none;
    for (uint32_t i = 0; i < p->n_rules; i++) {
        dop_path_rule *r = &p->rules[i];
        bool named = names_label(r->op, label) || strcmp(r->op, "matmul") == 0;
        if (!r->expands || !named || !in_phase(r, phase) || !in_layers(r, label) || (r->step && r->step != g->max_t))
            continue;
        r->expanded++;
        r->undone += type != DOP_TYPE_none && r->expand == DOP_TYPE_none;
        type = r->expand;
    }
    return type;
}

/* Is `name` in a list that commas separate, as "gemv_rows, gemv"? */
static bool
lists(const char *list, const char *name)
{
    size_t len = strlen(name);
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        if (n == len && memcmp(p, name, len) == 0)
            return true;
        p += n;
        p += strspn(p, ", ");
    }
    return false;
}

/* Adds the names of the variants that can make the region to the list in `out`. */
static void
put_possible(const dop_graph *g, const dop_region *r, const dop_target *t, char *out, size_t cap)
{
    for (int v = 1; v < DOP_VARIANT_COUNT; v++) {
        const dop_variant *x = dop_variant_of((dop_variant_id)v);
        size_t used = strlen(out);
        if (x->tpl == r->tpl && !lists(out, x->name) && !dop_kernel_fits((dop_variant_id)v, g, r, t).why &&
            used + strlen(x->name) + 3 < cap)
            snprintf(out + used, cap - used, "%s%s", used ? ", " : "", x->name);
    }
}

static void
put_missing(uint32_t caps, char *out, size_t cap)
{
    size_t used = 0;
    out[0] = 0;
#define CAP(bit, name, what)                   \
    if ((caps & DOP_CAP_##name) && used < cap) \
        used += (size_t)snprintf(out + used, cap - used, "%s%s (%s)", used ? " and " : "", #name, what);
    DOP_CAPS(CAP)
#undef CAP
}

dop_status
dop_kernel_path_choose(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *r,
                       const dop_target *t, dop_diag *diag, const char **out_variant)
{
    dop_path_rule *last = NULL;
    *out_variant = NULL;
    for (uint32_t i = 0; i < p->n_rules; i++) {
        dop_path_rule *rule = &p->rules[i];
        rule->met += reads_pair(rule, phase, g, r);
        if (!is_about(rule, phase, g, r))
            continue;
        rule->met++;
        if (rule->variant == DOP_VARIANT_none)
            continue;
        const dop_variant *v = dop_variant_of(rule->variant);
        uint32_t missing = dop_caps_missing(v->caps, t->caps);
        if ((rule->hint && missing) || (rule->gpu && t->cpu))
            continue;
        if (!rule->hint)
            put_possible(g, r, t, rule->possible, sizeof rule->possible);
        if (v->tpl != r->tpl)
            continue;
        if (missing) {
            char names[256];
            put_missing(missing, names, sizeof names);
            return DOP_FAIL(diag, DOP_E_INPUT, "%s: %s at %s needs %s, which target %s lacks; possible: %s",
                            rule->source, v->name, dop_label_text(dop_region_label(g, r)), names, t->name,
                            rule->possible);
        }
        rule->why_not = dop_kernel_fits(rule->variant, g, r, t).why;
        if (rule->why_not) /* the variant may fit other regions; --explain gives the reason at each one */
            continue;
        rule->used++;
        *out_variant = v->name;
        if (last)
            last->by = i + 1;
        last = rule;
    }
    if (last)
        last->won++;
    return DOP_OK;
}

void
dop_kernel_path_tile(const dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *r, dop_tile *tile)
{
    for (uint32_t i = 0; i < p->n_rules; i++)
        for (int k = 0; p->rules[i].tiles && is_about(&p->rules[i], phase, g, r) && k < DOP_TILE_FIELDS; k++)
            if (p->rules[i].tile[k])
                dop_tile_set(tile, k, p->rules[i].tile[k]);
}

static dop_status
about_nothing(const dop_path_rule *r, dop_diag *diag)
{
    if (r->reader)
        return DOP_FAIL(
            diag, r->forced ? DOP_E_USAGE : DOP_E_INPUT,
            "%s: no %s here reads what a %s makes; dopplerc --explain %s+%s names such pairs, by label, its last part, "
            "or op",
            r->source, r->reader, r->op, r->op, r->reader);
    return DOP_FAIL(diag, r->forced ? DOP_E_USAGE : DOP_E_INPUT,
                    "%s: no region here is %s; an op is a template, a label or its last part (qkv, attn, o, ffn_up, "
                    "ffn_down, head) or an op of the IR",
                    r->source, r->op ? r->op : "of these layers");
}

bool
dop_path_rule_joins(const dop_path_rule *rule, dop_phase phase)
{
    return rule->reader && rule->fused && in_phase(rule, phase);
}

bool
dop_kernel_path_to_judge(const dop_kernel_path *p, uint32_t i, dop_phase phase)
{
    const dop_path_rule *r = &p->rules[i];
    return (r->unfused || (r->fused && !r->reader)) && !r->changed && in_phase(r, phase);
}

void
dop_path_rule_look(dop_path_rule *rule, const dop_graph *g, const dop_fusion_log *log)
{
    uint32_t edges = 0, together = 0, beside = 0;
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        const dop_region *reg = &g->regions[r];
        if (reg->dead)
            continue;
        for (uint32_t i = 0; i < reg->n_nodes; i++) {
            const dop_node *n = dop_node_at(g, reg->nodes[i]);
            for (uint32_t k = 0; k < n->n_srcs && is_node(g, reg->nodes[i], rule->reader); k++) {
                const dop_node_id base = dop_node_base(g, n->src[k], NULL);
                const bool edge = is_node(g, base, rule->op);
                edges += edge;
                together += edge && dop_region_has(reg, base);
            }
        }
        beside += has_node(g, reg, rule->op) && has_node(g, reg, rule->reader);
    }
    rule->edges += edges;
    rule->joined += edges ? together : beside; /* no edges: neither op reads the other */
    for (uint32_t i = 0; i < log->n; i++) {
        const dop_fusion_event *e = &log->items[i];
        const bool pair = is_node(g, e->producer, rule->op) && is_node(g, e->consumer, rule->reader);
        const bool turned = !edges && is_node(g, e->producer, rule->reader) && is_node(g, e->consumer, rule->op);
        if ((pair || turned) && dop_reason_weight(e->reason) > dop_reason_weight(rule->apart))
            rule->apart = e->reason;
    }
}

/* The error for a rule with `fuse` that has no effect: names what the rule tried and the reason. */
static dop_status
joins_nothing(const dop_path_rule *r, dop_diag *diag)
{
    const dop_status code = r->forced ? DOP_E_USAGE : DOP_E_INPUT;
    const char *says = r->forced ? "" : r->fused ? ": fuse: on" : ": fuse: off";
    const char *reason = r->apart ? dop_reason_code(r->apart) : "no pass that could join them runs here",
               *text = r->apart ? dop_reason_text(r->apart) : "", *comma = r->apart ? ", " : "";
    if (r->reader && r->fused)
        return DOP_FAIL(diag, code, "%s%s cannot join %s and %s: %s%s%s; dopplerc --explain %s+%s says more", r->source,
                        says, r->op, r->reader, reason, comma, text, r->op, r->reader);
    if (r->reader)
        return DOP_FAIL(diag, code, "%s%s changes nothing: %s and %s are not joined without it either: %s%s%s",
                        r->source, says, r->op, r->reader, reason, comma, text);
    if (r->fused)
        return DOP_FAIL(diag, code,
                        "%s: fuse: on changes nothing: no earlier fuse: off is about %s alone; a pair to be joined is "
                        "op: A+B",
                        r->source, r->op ? r->op : "this");
    return DOP_FAIL(diag, code, "%s: fuse: off changes nothing: the dispatches of %s are the same without it",
                    r->source, r->op ? r->op : "this phase");
}

dop_status
dop_kernel_path_check(const dop_kernel_path *p, dop_diag *diag)
{
    for (uint32_t i = 0; i < p->n_rules; i++) {
        const dop_path_rule *r = &p->rules[i];
        if (r->hint)
            continue;
        if (r->expand != DOP_TYPE_none && !r->expanded)
            return DOP_FAIL(
                diag, DOP_E_INPUT,
                "%s: weights: dequant finds no matmul %s of several tokens whose weights are quantized, in rows of "
                "a multiple of 8 values",
                r->source, r->op ? r->op : "here");
        if (!r->met && !r->expanded)
            return about_nothing(r, diag);
        if ((r->fused || r->unfused) && !r->changed && !(r->reader && r->fused && r->joined))
            return r->reader && !r->edges && !r->joined && !r->apart ? about_nothing(r, diag) : joins_nothing(r, diag);
        if (r->expands && r->expand == DOP_TYPE_none && !r->undone)
            return DOP_FAIL(diag, DOP_E_INPUT,
                            "%s: weights: fused changes nothing: no earlier weights: dequant is about %s", r->source,
                            r->op ? r->op : "this");
        if (r->used && !r->won && r->by && p->rules[r->by - 1].forced == r->forced)
            return DOP_FAIL(diag, r->forced ? DOP_E_USAGE : DOP_E_INPUT,
                            "%s has no effect: %s, which comes later, decides wherever it would", r->source,
                            p->rules[r->by - 1].source);
        if (r->variant == DOP_VARIANT_none || r->used)
            continue;
        const dop_variant *v = dop_variant_of(r->variant);
        if (r->why_not)
            return DOP_FAIL(diag, DOP_E_INPUT, "%s: %s can be used nowhere here: %s; possible: %s", r->source, v->name,
                            r->why_not, r->possible);
        if (!*r->possible)
            return about_nothing(r, diag);
        return DOP_FAIL(diag, DOP_E_INPUT, "%s: %s is a kernel for %s regions, which none of these is; possible: %s",
                        r->source, v->name, dop_template_name(v->tpl), r->possible);
    }
    return DOP_OK;
}
