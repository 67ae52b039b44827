/* Applies a kernel path: finds the rules for a region, and reports rules that cannot be followed. */
#include "compiler/schedule/kernel_path.h"

#include "compiler/schedule/region_facts.h"
#include "ir/graph/ops.h"
#include "passes/fusion/region.h"

#include <stdio.h>
#include <string.h>

static bool
in_phase(const dop_path_rule *r, dop_phase phase)
{
    return phase == DOP_PHASE_DECODE ? r->decode : r->prefill;
}

/* True if rule i applies in this phase and is not muted. */
static bool
is_rule_on(const dop_kernel_path *p, uint32_t i, dop_phase phase)
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

/* True if the `op` of a rule names this label; a NULL op names every label. */
static bool
names_label(const char *op, dop_label label)
{
    return !op || dop_label_is(label, op);
}

static bool
rule_fits_region(const dop_path_rule *rule, dop_phase phase, const dop_graph *g, const dop_region *r)
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
        if (is_rule_on(p, i, phase) && r->n_layers == 0 && !r->op)
            unfused = r->unfused || (unfused && !r->fused);
    }
    return unfused;
}

bool
dop_kernel_path_has_apart(const dop_kernel_path *p, dop_phase phase)
{
    for (uint32_t i = 0; i < p->n_rules; i++)
        if (is_rule_on(p, i, phase) && p->rules[i].unfused)
            return true;
    return false;
}

static bool
is_kept_apart(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *r)
{
    bool apart = false;
    for (uint32_t i = 0; i < p->n_rules; i++)
        if (is_rule_on(p, i, phase) && (p->rules[i].unfused || p->rules[i].fused) &&
            rule_fits_region(&p->rules[i], phase, g, r)) {
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

/* True if region b matches B of a pair rule A+B and reads a node of region a that matches A. *out_reads: true if b
 * reads any value of a. */
static bool
is_rule_edge(const dop_path_rule *rule, const dop_graph *g, const dop_region *a, const dop_region *b, bool *out_reads)
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

/* True if the rule is about this pair of regions. If neither region reads the other (sibling products), A and B may be
 * in either order. */
static bool
is_rule_pair(const dop_path_rule *rule, const dop_graph *g, const dop_region *a, const dop_region *b)
{
    bool ab, ba;
    if (is_rule_edge(rule, g, a, b, &ab) || is_rule_edge(rule, g, b, a, &ba))
        return true;
    return !ab && !ba &&
           ((has_node(g, a, rule->op) && has_node(g, b, rule->reader)) ||
            (has_node(g, b, rule->op) && has_node(g, a, rule->reader)));
}

/* Returns the last rule about this pair of regions, which overrides earlier ones, or NULL. Counts the use in rule->met. */
static const dop_path_rule *
find_pair_rule(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *a, const dop_region *b)
{
    for (uint32_t i = p->n_rules; i-- > 0;) {
        dop_path_rule *rule = &p->rules[i];
        if (rule->reader && is_rule_on(p, i, phase) && is_rule_pair(rule, g, a, b)) {
            rule->met++;
            return rule;
        }
    }
    return NULL;
}

bool
dop_kernel_path_joins(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *a, const dop_region *b)
{
    const dop_path_rule *rule = find_pair_rule(p, phase, g, a, b);
    return rule && rule->fused;
}

bool
dop_kernel_path_apart(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *a, const dop_region *b)
{
    const dop_path_rule *rule = find_pair_rule(p, phase, g, a, b);
    if (rule)
        return rule->unfused;
    return is_kept_apart(p, phase, g, a) || is_kept_apart(p, phase, g, b);
}

/* True if the region has a node that matches B of a pair rule A+B and reads a node that matches A. The rule then
 * applies somewhere, even if no pass would join the two. */
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

/* True if a comma-separated list as "gemv_rows, gemv" contains `name`. */
static bool
list_has_name(const char *list, const char *name)
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

/* Appends the names of the variants that support the region to the list in `out`. */
static void
put_possible(const dop_graph *g, const dop_region *r, const dop_target *t, char *out, size_t cap)
{
    for (int v = 1; v < DOP_VARIANT_COUNT; v++) {
        const dop_variant *x = dop_variant_of((dop_variant_id)v);
        size_t used = strlen(out);
        if (x->tpl == r->tpl && !list_has_name(out, x->name) && !dop_kernel_fits((dop_variant_id)v, g, r, t).why &&
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
        if (!rule_fits_region(rule, phase, g, r))
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
        if (rule->why_not) /* the variant may fit other regions; --explain shows the reason for each region */
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

/* A region's tile: the variant's own choice, the result of the rules, and the rule that set each field. */
typedef struct tiled {
    dop_kernel_path *p;
    const dop_graph *g;
    const dop_region *r;
    const dop_target *t;
    dop_selection own, made;
    uint32_t by[DOP_TILE_FIELDS], last; /* rule that set each field; last rule; from 1, 0: none */
    bool hinted;                        /* true if some of these rules are hints */
} tiled;

/* Returns the text of a refusal: the rule, the constraint that its tile violates, and the region. */
static const char *
fault_text(const tiled *x, const dop_path_rule *rule, const dop_tile_fault *fault)
{
    const char *text = dop_arena_printf(x->g->arena, "%s: %s: %s at %s on target %s", rule->source, fault->why,
                                        dop_variant_of(x->own.variant)->name,
                                        dop_label_text(dop_region_label(x->g, x->r)), x->t->name);
    return text ? text : "out of memory";
}

static void
skip_hint(dop_kernel_path *p, dop_path_rule *rule, const char *why)
{
    p->n_skipped += !rule->skipped;
    rule->skipped = true;
    if (!p->skipped)
        p->skipped = why;
}

static bool
is_legal(tiled *x, dop_selection *choice, dop_tile_fault *fault)
{
    if (memcmp(&choice->tile, &x->own.tile, sizeof choice->tile) != 0)
        dop_kernel_settle(choice->variant, x->g, x->r, x->t, &choice->tile);
    return dop_kernel_legal(choice->variant, x->g, x->r, x->t, &choice->tile, fault);
}

/* Makes the tile from the fields that rules state. Uses a hint only if `hints` is true and the hint is legal. */
static void
make_tile(tiled *x, dop_phase phase, bool hints)
{
    const uint32_t has = dop_kernel_fields(x->own.variant);
    memset(x->by, 0, sizeof x->by);
    x->made = x->own;
    x->last = 0;
    x->hinted = false;
    for (uint32_t i = 0; i < x->p->n_rules; i++) {
        dop_path_rule *rule = &x->p->rules[i];
        dop_selection next = x->made, tried;
        dop_tile_fault fault;
        if (!rule->fields || (rule->hint && !hints) || (rule->variant && rule->variant != x->own.variant) ||
            !rule_fits_region(rule, phase, x->g, x->r))
            continue;
        if (rule->fields & ~has)
            rule->lacks = x->own.variant;
        for (int k = 0; k < DOP_TILE_FIELDS; k++)
            if (rule->fields & has & 1u << k)
                dop_tile_set(&next.tile, k, rule->tile[k]);
        tried = next;
        if (rule->hint && !is_legal(x, &tried, &fault)) {
            skip_hint(x->p, rule, fault_text(x, rule, &fault));
            continue;
        }
        rule->had |= rule->fields & has;
        x->made = next;
        x->hinted = x->hinted || rule->hint;
        for (int k = 0; k < DOP_TILE_FIELDS; k++)
            if (rule->fields & has & 1u << k) {
                if (x->by[k])
                    x->p->rules[x->by[k] - 1].outdone = i + 1;
                x->by[k] = x->last = i + 1;
            }
    }
}

dop_status
dop_kernel_path_tile(dop_kernel_path *p, dop_phase phase, const dop_graph *g, const dop_region *r, const dop_target *t,
                     dop_diag *diag, dop_selection *choice)
{
    tiled x = {.p = p, .g = g, .r = r, .t = t, .own = *choice};
    dop_tile_fault fault;
    make_tile(&x, phase, true);
    if (!x.last)
        return DOP_OK;
    bool legal = is_legal(&x, &x.made, &fault);
    if (!legal && x.hinted) { /* fields measured in another combination may conflict with the requested ones */
        make_tile(&x, phase, false);
        legal = is_legal(&x, &x.made, &fault);
    }
    if (!legal) {
        const uint32_t by = fault.field < DOP_TILE_FIELDS ? x.by[fault.field] : 0;
        return DOP_FAIL(diag, DOP_E_INPUT, "%s", fault_text(&x, &p->rules[(by ? by : x.last) - 1], &fault));
    }
    for (int k = 0; k < DOP_TILE_FIELDS; k++)
        if (x.by[k])
            p->rules[x.by[k] - 1].kept |= 1u << k;
    *choice = x.made;
    if (x.last && memcmp(&x.made.tile, &x.own.tile, sizeof x.made.tile) != 0)
        choice->source = p->rules[x.last - 1].source;
    return DOP_OK;
}

/* Appends the names of fields as "wg, lanes". */
static void
list_fields(uint32_t fields, dop_buf *out)
{
    for (int k = 0; k < DOP_TILE_FIELDS; k++)
        if (fields & 1u << k)
            dop_buf_printf(out, "%s%s", out->size ? ", " : "", dop_tile_name(k));
}

/* Fails if no region's variant has a field of the rule, or if later rules always override one. A hint is skipped
 * instead. */
static dop_status
check_fields(dop_kernel_path *p, dop_path_rule *r, dop_arena *arena, dop_diag *diag)
{
    const uint32_t unknown = r->lacks ? r->fields & ~r->had : 0, outdone = r->hint ? 0 : r->had & ~r->kept;
    const char *why = NULL;
    dop_buf names = {0}, known = {0};
    list_fields(unknown ? unknown : outdone, &names);
    if (unknown) {
        list_fields(dop_kernel_fields(r->lacks), &known);
        why = dop_arena_printf(arena, "%s: %s %s of the tile of %s, whose fields are %s", r->source,
                               dop_buf_text(&names), unknown & (unknown - 1) ? "are not fields" : "is not a field",
                               dop_variant_of(r->lacks)->name, dop_buf_text(&known));
    } else if (outdone && r->outdone) {
        why = dop_arena_printf(arena, "%s: %s has no effect: %s, which comes later, decides wherever it would",
                               r->source, dop_buf_text(&names), p->rules[r->outdone - 1].source);
    }
    dop_buf_finish(&names);
    dop_buf_finish(&known);
    if (!why || r->skipped)
        return DOP_OK;
    if (!r->hint)
        return DOP_FAIL(diag, DOP_E_INPUT, "%s", why);
    skip_hint(p, r, why);
    return DOP_OK;
}

static dop_status
fail_unmatched_rule(const dop_path_rule *r, dop_diag *diag)
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
    return (r->unfused || r->fused) && !r->changed && in_phase(r, phase);
}

/* True if the node is in a region of this name. The last region that has the node counts. *out_region: that region, or 0. */
static bool
is_in_named_region(const dop_graph *g, dop_node_id id, const char *name, dop_region_id *out_region)
{
    dop_region_id r = g->n_regions ? g->n_regions - 1 : 0;
    while (r > 0 && (g->regions[r].dead || !dop_region_has(&g->regions[r], id)))
        r--;
    *out_region = r;
    return r > 0 && dop_label_is(dop_region_label(g, &g->regions[r]), name);
}

/* For a rule that joins dispatches named A and B: counts the edges between two regions of these names. Keeps the most
 * informative reason why passes did not join them. */
static void
count_named_edges(dop_path_rule *rule, const dop_graph *g, const dop_fusion_log *log)
{
    uint32_t edges = 0;
    dop_region_id a, b;
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        for (uint32_t k = 0; is_in_named_region(g, id, rule->reader, &b) && k < dop_node_at(g, id)->n_srcs; k++)
            edges += is_in_named_region(g, dop_node_base(g, dop_node_at(g, id)->src[k], NULL), rule->op, &a) && a != b;
    for (uint32_t i = 0; edges && i < log->n; i++) {
        const dop_fusion_event *e = &log->items[i];
        if (is_in_named_region(g, e->producer, rule->op, &a) && is_in_named_region(g, e->consumer, rule->reader, &b) &&
            dop_reason_weight(e->reason) > dop_reason_weight(rule->apart))
            rule->apart = e->reason;
    }
    rule->edges += edges;
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
    if (rule->fused)
        count_named_edges(rule, g, log);
}

/* Fails for a `fuse` rule without effect, and says why the passes did not join the pair. */
static dop_status
fail_useless_fuse(const dop_path_rule *r, dop_diag *diag)
{
    const dop_status code = r->forced ? DOP_E_USAGE : DOP_E_INPUT;
    const char *says = r->forced ? "" : r->fused ? ": fuse: on" : ": fuse: off";
    const char *reason = r->apart ? dop_reason_code(r->apart) : "no pass that could join them runs here",
               *text = r->apart ? dop_reason_text(r->apart) : "", *comma = r->apart ? ", " : "";
    if (r->reader && r->fused && r->joined)
        return DOP_FAIL(diag, code,
                        "%s%s finds nothing to join: %s and %s are joined without it where they can be, and elsewhere "
                        "not: %s%s%s; dopplerc --explain %s+%s says more",
                        r->source, says, r->op, r->reader, reason, comma, text, r->op, r->reader);
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
dop_kernel_path_check(dop_kernel_path *p, dop_arena *arena, dop_diag *diag)
{
    for (uint32_t i = 0; i < p->n_rules; i++) {
        const dop_path_rule *r = &p->rules[i];
        const dop_status st = check_fields(p, &p->rules[i], arena, diag);
        if (st != DOP_OK)
            return st;
        if (r->hint)
            continue;
        if (r->expand != DOP_TYPE_none && !r->expanded)
            return DOP_FAIL(
                diag, DOP_E_INPUT,
                "%s: weights: dequant finds no matmul %s of several tokens whose weights are quantized, in rows of "
                "a multiple of 8 values",
                r->source, r->op ? r->op : "here");
        if (!r->met && !r->expanded)
            return fail_unmatched_rule(r, diag);
        if ((r->fused || r->unfused) && !r->changed && !(r->reader && r->fused && r->joined && r->joined >= r->edges))
            return r->reader && !r->edges && !r->joined && !r->apart ? fail_unmatched_rule(r, diag)
                                                                     : fail_useless_fuse(r, diag);
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
            return fail_unmatched_rule(r, diag);
        return DOP_FAIL(diag, DOP_E_INPUT, "%s: %s is a kernel for %s regions, which none of these is; possible: %s",
                        r->source, v->name, dop_template_name(v->tpl), r->possible);
    }
    return DOP_OK;
}
