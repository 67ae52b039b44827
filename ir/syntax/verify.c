/* The verifier of text.h: checks nodes, then states, then regions.  It assumes only that array bounds are right. */
#include "ir/graph/access.h"
#include "ir/graph/dims.h"
#include "ir/graph/graph_add.h"
#include "ir/graph/ops.h"
#include "ir/graph/shapes.h"
#include "ir/region/region.h"
#include "ir/syntax/text.h"

#include <stdlib.h>
#include <string.h>

typedef struct verify_ctx {
    const dop_graph *g;
    const char *when;
    dop_diag *diag;
    uint32_t *uses;     /* [n_nodes] number of uses by other nodes and as outputs */
    uint32_t *owner;    /* [n_nodes] region that writes the memory of a base node; 0: none */
    uint32_t *listed;   /* [n_nodes] last checked region that lists the node; 0: none yet */
    uint32_t *place;    /* [n_nodes] 1 + position of the node in that region */
    uint8_t *needed;    /* [n_nodes] true if the outputs depend on the node */
    uint8_t *taken;     /* [n_regions] true if all sources of the region come from regions ordered before it */
    const char **names; /* [n_nodes] scratch for sorting */
} verify_ctx;

#define BAD(v, fmt, ...) DOP_FAIL((v)->diag, DOP_E_INTERNAL, "%s: " fmt, (v)->when, __VA_ARGS__)

static const char *
verified_name(const verify_ctx *v, dop_node_id id)
{
    return v->g->nodes[id].name;
}

static bool
has_trait(const verify_ctx *v, dop_node_id id, dop_traits t)
{
    return (dop_op_of(v->g->nodes[id].op)->traits & t) != 0;
}

/* True if the label prints on one line and has the same meaning when it is read back. */
static bool
is_label_ok(dop_label l)
{
    const char *s = dop_label_text(l);
    const size_t n = strlen(s);
    const dop_label again = dop_label_read(s);
    if (n > 200 || (n && (s[0] == ' ' || s[n - 1] == ' ')))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < 0x20 || s[i] > 0x7e)
            return false;
    }
    return again.layer == l.layer && strcmp(again.role, l.role) == 0;
}

static int
compare_node_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static dop_status
verify_names(verify_ctx *v)
{
    const dop_graph *g = v->g;
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        const dop_node *n = &g->nodes[id];
        if (!n->name || !dop_name_ok(n->name))
            return BAD(v, "node %u has the name '%.100s', which would not read back", id, n->name ? n->name : "");
        if (!n->label.role || !is_label_ok(n->label))
            return BAD(v, "%%%s has the label '%.100s', which would not read back", n->name,
                       n->label.role ? dop_label_text(n->label) : "");
        v->names[id - 1] = n->name;
    }
    qsort(v->names, g->n_nodes - 1, sizeof *v->names, compare_node_names);
    for (uint32_t i = 1; i + 1 < g->n_nodes; i++) {
        if (strcmp(v->names[i - 1], v->names[i]) == 0)
            return BAD(v, "two nodes are named %%%s", v->names[i]);
    }
    return DOP_OK;
}

static dop_status
verify_node(verify_ctx *v, dop_node_id id)
{
    const dop_graph *g = v->g;
    const dop_node *n = &g->nodes[id];
    if (n->op == DOP_OP_none || (unsigned)n->op >= DOP_OP_COUNT || n->n_srcs > DOP_MAX_SRCS)
        return BAD(v, "%%%s has no op or too many sources", n->name);
    for (uint32_t i = 0; i < n->n_srcs; i++) {
        if (n->src[i] == 0 || n->src[i] >= g->n_nodes)
            return BAD(v, "%%%s: source %u is not a node", n->name, i);
        if (n->src[i] >= id)
            return BAD(v, "%%%s uses %%%s, which comes after it", n->name, verified_name(v, n->src[i]));
        v->uses[n->src[i]]++;
    }
    dop_want want = {n->type, n->shape}, got;
    dop_diag inner = {0};
    dop_status st = dop_shape_infer(g, n->op, n->name, n->src, n->n_srcs, n->attr, &want, &inner, &got);
    if (st != DOP_OK)
        return BAD(v, "%s", inner.message);
    char a[DOP_SHAPE_TEXT], b[DOP_SHAPE_TEXT];
    if (n->shape.rank > DOP_MAX_RANK || !dop_shape_equal(&n->shape, &got.shape))
        return BAD(v, "%%%s is marked %s but %s gives %s", n->name, dop_shape_text(g, &n->shape, a),
                   dop_op_of(n->op)->name, dop_shape_text(g, &got.shape, b));
    uint32_t src, axis;
    if (!dop_node_access_fits(g, id, &src, &axis))
        return BAD(v, "%%%s: %s does not read axis %u of %%%s %s as its row of the table says", n->name,
                   dop_op_of(n->op)->name, axis, verified_name(v, n->src[src]),
                   dop_shape_text(g, &g->nodes[n->src[src]].shape, a));
    if (n->type != got.type)
        return BAD(v, "%%%s is marked %s but %s gives %s", n->name, dop_type_of(n->type)->name, dop_op_of(n->op)->name,
                   dop_type_of(got.type)->name);
    return DOP_OK;
}

static dop_status
verify_nodes(verify_ctx *v)
{
    const dop_graph *g = v->g;
    dop_status st = verify_names(v);
    for (dop_node_id id = 1; id < g->n_nodes && st == DOP_OK; id++)
        st = verify_node(v, id);
    for (uint32_t i = 0; i < g->n_outs && st == DOP_OK; i++) {
        if (g->outs[i] == 0 || g->outs[i] >= g->n_nodes)
            return BAD(v, "output %u is not a node", i);
        v->uses[g->outs[i]]++;
        v->needed[g->outs[i]] = 1;
    }
    if (st != DOP_OK)
        return st;
    for (dop_node_id id = g->n_nodes; id-- > 1;) {
        for (uint32_t i = 0; v->needed[id] && i < g->nodes[id].n_srcs; i++)
            v->needed[g->nodes[id].src[i]] = 1;
    }
    return DOP_OK;
}

/* Checks that nothing else reads an append state that state_write has extended.  A replace state has several copies, so a step
 * may write the next version and still read the previous one.  Also checks that no two leaves name the same state. */
static dop_status
verify_state(verify_ctx *v)
{
    const dop_graph *g = v->g;
    uint32_t n_states = 0;
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        const dop_node *n = &g->nodes[id];
        if (n->op == DOP_OP_state)
            v->names[n_states++] = n->attr[0].s;
        if (n->op != DOP_OP_state_write)
            continue;
        dop_node_id c = n->src[0];
        bool appends = dop_shape_appends(&n->shape);
        for (;;) {
            if (appends && v->uses[c] > 1)
                return BAD(v, "%%%s overwrites %%%s, which has %u more readers", n->name, verified_name(v, c),
                           v->uses[c] - 1);
            if (!has_trait(v, c, DOP_VIEW))
                break;
            c = g->nodes[c].src[0];
        }
        dop_op op = g->nodes[c].op;
        if (op != DOP_OP_state && op != DOP_OP_state_write)
            return BAD(v, "%%%s writes to %%%s, which is not state", n->name, verified_name(v, c));
        if (!appends && (op != DOP_OP_state || v->place[c]++))
            return BAD(v, "%%%s replaces %%%s, which this step has replaced already", n->name, verified_name(v, c));
    }
    memset(v->place, 0, g->n_nodes * sizeof *v->place);
    qsort(v->names, n_states, sizeof *v->names, compare_node_names);
    for (uint32_t i = 1; i < n_states; i++) {
        if (strcmp(v->names[i - 1], v->names[i]) == 0)
            return BAD(v, "state \"%s\" appears twice", v->names[i]);
    }
    return DOP_OK;
}

/* Checks that a ring has a row for every position that any row of a step attends to. */
static dop_status
verify_rings(verify_ctx *v)
{
    const dop_graph *g = v->g;
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        if (dop_op_of(g->nodes[id].op)->root != DOP_ROOT_attention)
            continue;
        const dop_reach r = dop_attention_reach(g, id);
        uint32_t sees = r.chunk && (!r.window || r.chunk < r.window) ? r.chunk : r.window;
        if (r.ring && r.mask != DOP_MASK_cache && (sees == 0 || (uint64_t)sees + g->max_t - 1 > r.ring))
            return BAD(v, "%%%s: %u positions of each of %u rows do not fit a ring of %u rows", g->nodes[id].name, sees,
                       g->max_t, r.ring);
    }
    return DOP_OK;
}

/* Checks the lists and outputs of a region, independent of other regions. */
static dop_status
verify_region(verify_ctx *v, dop_region_id id)
{
    const dop_graph *g = v->g;
    const dop_region *r = &g->regions[id];
    if (r->tpl == DOP_TPL_none || (unsigned)r->tpl >= DOP_TPL_COUNT)
        return BAD(v, "region @%u has no template", id);
    if (r->variant && !dop_name_ok(r->variant))
        return BAD(v, "region @%u uses '%.100s', which would not read back", id, r->variant);
    if (r->n_nodes == 0 || r->n_outs == 0)
        return BAD(v, "region @%u lists or writes nothing", id);
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        dop_node_id n = r->nodes[i];
        if (n == 0 || n >= g->n_nodes)
            return BAD(v, "region @%u lists %u, which is not a node", id, n);
        if (has_trait(v, n, DOP_LEAF))
            return BAD(v, "region @%u lists %%%s, which is a leaf", id, verified_name(v, n));
        if (v->listed[n] == id)
            return BAD(v, "region @%u lists %%%s twice", id, verified_name(v, n));
        v->listed[n] = id;
        v->place[n] = i + 1;
    }
    uint32_t last = 0;
    for (uint32_t i = 0; i < r->n_outs; i++) {
        dop_node_id n = r->outs[i];
        if (n == 0 || n >= g->n_nodes || v->listed[n] != id)
            return BAD(v, "region @%u writes %%%s, which it does not list", id,
                       n && n < g->n_nodes ? verified_name(v, n) : "?");
        if (v->place[n] <= last)
            return BAD(v, "region @%u writes %%%s out of order", id, verified_name(v, n));
        last = v->place[n];
        dop_node_id base = dop_node_base(g, n, NULL);
        if (v->listed[base] != id)
            return BAD(v, "region @%u writes %%%s but does not list %%%s, whose bytes it has", id, verified_name(v, n),
                       verified_name(v, base));
        if (v->owner[base] && v->owner[base] != id)
            return BAD(v, "%%%s is written by region @%u and by region @%u", verified_name(v, n), v->owner[base], id);
        v->owner[base] = id;
    }
    return DOP_OK;
}

/* Finds the value `src` that node `reader` of region `id` reads.  *out_from is the region that wrote it, or 0 if it is a leaf or
 * computed in region `id`. */
static dop_status
find_region_source(verify_ctx *v, dop_region_id id, dop_node_id reader, dop_node_id src, dop_region_id *out_from)
{
    *out_from = 0;
    for (dop_node_id s = src;; s = v->g->nodes[s].src[0]) {
        if (v->listed[s] == id) {
            if (v->place[s] < v->place[reader])
                return DOP_OK;
            return BAD(v, "region @%u lists %%%s before its source %%%s", id, verified_name(v, reader),
                       verified_name(v, s));
        }
        if (has_trait(v, s, DOP_LEAF))
            return DOP_OK;
        if (has_trait(v, s, DOP_VIEW))
            continue;
        *out_from = v->owner[s];
        if (*out_from)
            return DOP_OK;
        return BAD(v, "region @%u reads %%%s, which no region writes", id, verified_name(v, s));
    }
}

/* Checks the sources of region `id`.  *out_ready: all come from regions that are already ordered. */
static dop_status
check_region_reads(verify_ctx *v, dop_region_id id, bool *out_ready)
{
    const dop_region *r = &v->g->regions[id];
    *out_ready = true;
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        v->listed[r->nodes[i]] = id;
        v->place[r->nodes[i]] = i + 1;
    }
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        const dop_node *n = &v->g->nodes[r->nodes[i]];
        for (uint32_t k = 0; k < n->n_srcs; k++) {
            dop_region_id from;
            dop_status st = find_region_source(v, id, r->nodes[i], n->src[k], &from);
            if (st != DOP_OK)
                return st;
            if (from && from != id && !v->taken[from])
                *out_ready = false;
        }
    }
    return DOP_OK;
}

/* Checks that some region writes every value that a region reads, and that the regions can be ordered.  Each round orders the
 * regions whose sources are ready; if a round orders none, the rest is a cycle.  Regions already in order need one round. */
static dop_status
verify_flow(verify_ctx *v)
{
    const dop_graph *g = v->g;
    uint32_t left = 0, before;
    memset(v->listed, 0, g->n_nodes * sizeof *v->listed);
    for (dop_region_id id = 1; id < g->n_regions; id++)
        left += !g->regions[id].dead;
    do {
        before = left;
        for (dop_region_id id = 1; id < g->n_regions; id++) {
            bool ready;
            if (g->regions[id].dead || v->taken[id])
                continue;
            dop_status st = check_region_reads(v, id, &ready);
            if (st != DOP_OK)
                return st;
            v->taken[id] = ready;
            left -= ready;
        }
    } while (left && left < before);
    return left ? BAD(v, "%u regions wait for each other", left) : DOP_OK;
}

/* Checks that the analysis is up to date, and that the region stores each of its outputs once. */
static dop_status
verify_analysis(verify_ctx *v, dop_region_id id)
{
    const dop_region *r = &v->g->regions[id];
    for (uint32_t i = 1; i < r->n_nodes; i++)
        if (r->nodes[i - 1] >= r->nodes[i])
            return BAD(v, "region @%u lists %%%s before %%%s, which is an earlier node", id,
                       verified_name(v, r->nodes[i - 1]), verified_name(v, r->nodes[i]));
    if (!r->info || r->info->digest != dop_region_digest(r))
        return BAD(v, "region @%u was changed and not described again", id);
    for (uint32_t i = 0; i < r->info->product.n_parts; i++)
        if (r->info->product.parts[i].rows == 0)
            return BAD(v, "region @%u: products of different shape meet", id);
    const uint32_t activations = dop_template_of(r->tpl)->activations;
    if (r->info->product.n_activations > (activations > 1 ? activations : 1))
        return BAD(v, "region @%u: its products read %u different rows", id, r->info->product.n_activations);
    dop_region_storers(r, v->place); /* has space: outputs are not more than nodes, as checked before */
    for (uint32_t i = 0; i < r->n_outs; i++)
        if (v->place[i] != 1)
            return BAD(v, "region @%u writes %%%s, which %s", id, verified_name(v, r->outs[i]),
                       v->place[i] ? "several things of it would store" : "nothing of it would store");
    return DOP_OK;
}

static dop_status
verify_regions(verify_ctx *v)
{
    const dop_graph *g = v->g;
    uint32_t live = 0;
    for (dop_region_id id = 1; id < g->n_regions; id++) {
        if (g->regions[id].dead)
            continue;
        live++;
        DOP_RETURN_IF_ERROR(verify_region(v, id));
    }
    if (live == 0)
        return DOP_OK;
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        /* listed[] holds the last region that lists the node */
        if (v->needed[id] && !v->listed[id] && !has_trait(v, id, DOP_LEAF) && !has_trait(v, id, DOP_VIEW))
            return BAD(v, "no region lists %%%s", verified_name(v, id));
        if (v->needed[id] && has_trait(v, id, DOP_EFFECT) && !v->owner[id])
            return BAD(v, "no region writes %%%s, which is state", verified_name(v, id));
    }
    for (uint32_t i = 0; i < g->n_outs; i++) {
        dop_node_id base = dop_node_base(g, g->outs[i], NULL);
        if (!has_trait(v, base, DOP_LEAF) && !v->owner[base])
            return BAD(v, "no region writes %%%s, a result of the graph", verified_name(v, base));
    }
    DOP_RETURN_IF_ERROR(verify_flow(v));
    for (dop_region_id id = 1; id < g->n_regions; id++)
        if (!g->regions[id].dead)
            DOP_RETURN_IF_ERROR(verify_analysis(v, id));
    return DOP_OK;
}

static dop_status
verify_head(verify_ctx *v)
{
    const dop_graph *g = v->g;
    uint32_t named = 0;
    if (!g->name || !dop_name_ok(g->name))
        return BAD(v, "the graph's name '%.100s' cannot be printed", g->name ? g->name : "");
    for (uint32_t i = 0; i < DOP_N_SYMS; i++) {
        const char *name = g->dim_names[i];
        if (g->bound[i] < 1 || (name && (i == DOP_SYM_1 || i == DOP_SYM_R)) || (!name && g->bound[i] != 1) ||
            (name && (!dop_dim_name_ok(name, strlen(name)) || dop_graph_dim(g, name, strlen(name)) != i)))
            return BAD(v, "dimension %u cannot be printed", i);
        named += name != NULL;
    }
    return named ? DOP_OK : BAD(v, "graph %s has no dimensions", g->name);
}

dop_status
dop_graph_verify(const dop_graph *g, const char *when, dop_diag *diag)
{
    verify_ctx v = {.g = g, .when = when, .diag = diag};
    size_t n = g->n_nodes;
    dop_status st;
    v.uses = calloc(n, sizeof *v.uses);
    v.owner = calloc(n, sizeof *v.owner);
    v.listed = calloc(n, sizeof *v.listed);
    v.place = calloc(n, sizeof *v.place);
    v.needed = calloc(n, sizeof *v.needed);
    v.taken = calloc(g->n_regions + (size_t)1, sizeof *v.taken);
    v.names = calloc(n, sizeof *v.names);
    if (!v.uses || !v.owner || !v.listed || !v.place || !v.needed || !v.taken || !v.names) {
        st = DOP_NO_MEMORY(diag);
        goto error;
    }
    if ((st = verify_head(&v)) == DOP_OK && (st = verify_nodes(&v)) == DOP_OK && (st = verify_state(&v)) == DOP_OK &&
        (st = verify_rings(&v)) == DOP_OK)
        st = verify_regions(&v);
error:
    free(v.uses);
    free(v.owner);
    free(v.listed);
    free(v.place);
    free(v.needed);
    free(v.taken);
    free(v.names);
    return st;
}
