/* Selects a variant and a tile for a region: walks over kernels.def in order and queries each variant's descriptor. */
#include "ir/graph/access.h"
#include "ir/graph/dims.h"
#include "ir/graph/ops.h"
#include "ir/region/graph_regions.h"
#include "kernels/gen/legal.h"
#include "kernels/gen/products.h"

#include <stdio.h>
#include <string.h>

/* True if every value that the region computes or reads is a matrix whose rows are of one dimension of language models (T, S
 * or Q). */
static bool
has_only_rows(const dop_site *s)
{
    bool rows = true;
    for (uint32_t i = 0; i < s->r->n_nodes && rows; i++) {
        const dop_node *n = dop_node_at(s->g, s->r->nodes[i]);
        rows = dop_shape_is_rows(&n->shape);
        for (uint32_t k = 0; k < n->n_srcs && rows; k++)
            rows = dop_shape_is_rows(&dop_node_at(s->g, n->src[k])->shape) &&
                   dop_node_row_multiple(s->g, n->src[k]) ==
                       dop_node_row_multiple(s->g, dop_node_base(s->g, n->src[k], NULL));
    }
    return rows;
}

/* True if kernels support values with several rows per row of the step. For attention, the step's row table does not describe
 * such rows. So they must belong to one sequence, and their key range must be received from another node or be the whole
 * cache. */
static bool
allows_row_multiples(const dop_graph *g, const dop_region *r)
{
    const dop_template t = r->tpl;
    if (t != DOP_TPL_attention)
        return t == DOP_TPL_elementwise || t == DOP_TPL_row || t == DOP_TPL_matmul;
    const dop_node *n = dop_node_at(g, r->info->root);
    const dop_node_id lasts = dop_attention_lasts(g, r->info->root);
    const bool all = dop_attention_reach(g, r->info->root).mask == DOP_MASK_cache;
    return !dop_node_per_token(g, n->src[4]) && (all || (dop_node_at(g, n->src[3])->op == DOP_OP_received && lasts &&
                                                         dop_node_at(g, lasts)->op == DOP_OP_received));
}

/* Returns the reason why the variant cannot compute the region; sets the tile if it can. */
static dop_refusal
fit_variant(const dop_variant *v, const dop_site *s, dop_tile *tile)
{
    const dop_target *t = s->t;
    if (v->tpl != s->r->tpl)
        return (dop_refusal){"it is for other regions", NULL};
    for (uint32_t i = 0; i < s->r->n_nodes; i++)
        if (dop_node_has_windows(s->g, s->r->nodes[i]) && dop_node_has_holes(s->g, s->r->nodes[i]))
            return (dop_refusal){"a source is read through windows", NULL};
    if (dop_region_row_multiple(s->g, s->r) > 1 && !allows_row_multiples(s->g, s->r))
        return (dop_refusal){"its values have several rows for each row of a step", NULL};
    if (!has_only_rows(s))
        return (dop_refusal){"a value has other dimensions than T, S or Q on axis 0", NULL};
    if (dop_caps_missing(v->caps, t->caps))
        return (dop_refusal){"the target lacks a capability it needs", NULL};
    if (dop_target_avoids(t, v->name))
        return (dop_refusal){"the target avoids it", "a device or driver that gets it right"};
    dop_refusal no = v->descriptor->fits ? v->descriptor->fits(s) : (dop_refusal){0};
    if (no.why)
        return no;
    *tile = (dop_tile){.wg = dop_wg_of(t, t->schedule.workgroup), .subgroup = (v->caps & DOP_CAP_subgroup) != 0};
    if (v->descriptor->tile)
        v->descriptor->tile(s, tile);
    dop_tile_fault fault;
    if (dop_tile_legal(s, v->descriptor, tile, &fault))
        return (dop_refusal){0};
    const char *why = dop_arena_strdup(s->g->arena, fault.why);
    return (dop_refusal){why ? why : "out of memory", fault.remedy};
}

dop_refusal
dop_kernel_fits(dop_variant_id v, const dop_graph *g, const dop_region *r, const dop_target *t)
{
    dop_tile tile;
    dop_graph copy;
    return fit_variant(dop_variant_of(v), &(dop_site){dop_graph_by_rows(g, r, &copy), r, t, NULL}, &tile);
}

bool
dop_kernel_legal(dop_variant_id v, const dop_graph *g, const dop_region *r, const dop_target *t, const dop_tile *tile,
                 dop_tile_fault *out_fault)
{
    dop_graph copy;
    const dop_site s = {dop_graph_by_rows(g, r, &copy), r, t, NULL};
    return dop_tile_legal(&s, dop_variant_of(v)->descriptor, tile, out_fault);
}

uint32_t
dop_kernel_fields(dop_variant_id v)
{
    return dop_variant_of(v)->descriptor->fields | DOP_FIELD(wg);
}

void
dop_kernel_settle(dop_variant_id v, const dop_graph *g, const dop_region *r, const dop_target *t, dop_tile *tile)
{
    const dop_descriptor *d = dop_variant_of(v)->descriptor;
    dop_graph copy;
    const dop_site s = {dop_graph_by_rows(g, r, &copy), r, t, NULL};
    if (d->settle && tile->wg)
        d->settle(&s, tile);
}

/* Texts for --explain and for error messages, collected while walking over kernels.def. */
typedef struct walk {
    char possible[256], rejected[448];
    /* Last, and so most general, variant that does not fit although the target has the required capabilities. */
    const dop_variant *last;
    dop_refusal no;
} walk;

static void
add_possible(walk *w, const char *name)
{
    size_t used = strlen(w->possible);
    snprintf(w->possible + used, sizeof w->possible - used, "%s%s", used ? ", " : "", name);
}

static dop_status
report_none_fits(const dop_site *s, const walk *w, const char *forced, dop_diag *diag)
{
    const char *what = dop_template_name(s->r->tpl);
    if (forced)
        return DOP_FAIL(diag, DOP_E_INPUT, "no kernel %s for %s on target %s; possible: %s", forced, what, s->t->name,
                        *w->possible ? w->possible : "none");
    if (!w->last)
        return DOP_FAIL(diag, DOP_E_INPUT, "no kernel for %s on target %s", what, s->t->name);
    return DOP_FAIL(diag, DOP_E_INPUT, "no kernel for %s at %%%s on target %s; %s: %s%s%s", what,
                    dop_node_at(s->g, s->r->outs[0])->name, s->t->name, w->last->name, w->no.why,
                    w->no.remedy ? "; possible with " : "", w->no.remedy ? w->no.remedy : "");
}

dop_status
dop_kernel_select(const dop_graph *g, const dop_region *r, const dop_target *target, const char *forced, dop_diag *diag,
                  dop_selection *out_choice)
{
    dop_graph copy;
    const dop_site s = {dop_graph_by_rows(g, r, &copy), r, target, NULL};
    dop_selection *c = out_choice;
    walk w = {0};
    size_t used = 0;
    dop_variant_id unwelcome = DOP_VARIANT_none;
    dop_tile other = {0};
    memset(c, 0, sizeof *c);
    for (int i = 1; i < DOP_VARIANT_COUNT; i++) {
        const dop_variant *v = dop_variant_of((dop_variant_id)i);
        dop_tile tile;
        if (v->tpl != r->tpl)
            continue;
        dop_refusal no = fit_variant(v, &s, &tile);
        bool can = !no.why, named = forced && strcmp(forced, v->name) == 0;
        const char *avoid = can && v->descriptor->avoid ? v->descriptor->avoid(&s) : no.why;
        if (can)
            add_possible(&w, v->name);
        else if (!dop_caps_missing(v->caps, target->caps)) {
            w.last = v;
            w.no = no;
        }
        if (avoid && !named && used < sizeof w.rejected)
            used += (size_t)snprintf(w.rejected + used, sizeof w.rejected - used, "; not %s: %s", v->name, avoid);
        if (!c->variant && can && (forced ? named : !avoid)) {
            c->variant = (dop_variant_id)i;
            c->tile = tile;
        }
        if (!unwelcome && can && !forced) {
            unwelcome = (dop_variant_id)i;
            other = tile;
        }
    }
    if (!c->variant && unwelcome) { /* all variants that fit are advised against: use the first one */
        c->variant = unwelcome;
        c->tile = other;
    }
    if (!c->variant)
        return report_none_fits(&s, &w, forced, diag);
    snprintf(c->why, sizeof c->why, "%s%s", forced ? "asked for" : dop_variant_of(c->variant)->when, w.rejected);
    return DOP_OK;
}

const char *
dop_kernel_select_stage(const dop_graph *g, const dop_region *r, const dop_target *target, const dop_selection *own,
                        dop_selection *out_choice)
{
    const dop_site s = {g, r, target, NULL};
    dop_selection *c = out_choice;
    *c = *own;
    c->variant = dop_variant_of(own->variant)->descriptor->stage;
    const dop_variant *v = dop_variant_of(c->variant);
    if (!c->variant || (v->caps & ~target->caps))
        return "a region is neither element-wise, products of one token, attention, nor a recurrence";
    if (dop_target_avoids(target, v->name))
        return "the target avoids the kernel of a stage";
    c->tile = (dop_tile){.wg = target->persistent, .subgroup = true};
    c->source = NULL;
    return v->descriptor->as_stage(&s, &c->tile);
}

uint32_t
dop_kernel_select_short(const dop_graph *g, const dop_region *r, const dop_target *target, const dop_selection *stage,
                        dop_selection *out_choice)
{
    const dop_site s = {g, r, target, NULL};
    const dop_descriptor *d = dop_variant_of(stage->variant)->descriptor;
    *out_choice = *stage;
    return d->as_short_stage ? d->as_short_stage(&s, &stage->tile, &out_choice->tile) : 0;
}
