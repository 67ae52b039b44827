/* Builds a graph: adds nodes one after the other, and outputs. graph_regions.c adds regions. */
#include "ir/graph/graph_add.h"
#include "ir/graph/ops.h"
#include "ir/graph/shapes.h"

#include <stdlib.h>
#include <string.h>

/* Limit for untrusted text: keeps 32-bit handles far from wrapping. */
enum { MAX_NODES = 1 << 22 };

dop_status
dop_graph_open(dop_graph *g, dop_arena *arena, const char *name, dop_diag *diag)
{
    memset(g, 0, sizeof *g);
    if (!dop_name_ok(name))
        return DOP_FAIL(diag, DOP_E_INTERNAL, "a graph cannot be named '%.100s'", name);
    g->arena = arena;
    for (uint32_t i = 0; i < DOP_N_SYMS; i++)
        g->bound[i] = 1;
    g->name = dop_arena_strdup(arena, name);
    if (!g->name || !dop_arena_grow(arena, (void **)&g->nodes, 0, &g->cap_nodes, sizeof *g->nodes) ||
        !dop_arena_grow(arena, (void **)&g->regions, 0, &g->cap_regions, sizeof *g->regions))
        return DOP_NO_MEMORY(diag);
    g->n_nodes = g->n_regions = 1;
    g->copies = 2;
    g->nodes[0].name = "";
    g->nodes[0].label = (dop_label){-1, ""};
    return DOP_OK;
}

dop_sym
dop_graph_dim(const dop_graph *g, const char *name, size_t n)
{
    for (uint32_t i = 1; i < DOP_N_SYMS; i++)
        if (g->dim_names[i] && strlen(g->dim_names[i]) == n && memcmp(g->dim_names[i], name, n) == 0)
            return (dop_sym)i;
    return DOP_SYM_1;
}

dop_status
dop_graph_declare(dop_graph *g, const char *name, uint32_t bound, dop_diag *diag)
{
    static const char *const known[DOP_SYM_R] = {"", "T", "S", "Q"};
    const size_t n = strlen(name);
    uint32_t at = 1;
    if (!dop_dim_name_ok(name, n))
        return DOP_FAIL(diag, DOP_E_INTERNAL, "a dimension cannot be named '%.100s'", name);
    if (dop_graph_dim(g, name, n))
        return DOP_FAIL(diag, DOP_E_INTERNAL, "a second dimension is named %s", name);
    if (bound == 0)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "%s is at least 1", name);
    while (at < DOP_SYM_R && strcmp(known[at], name) != 0)
        at++;
    for (at = at < DOP_SYM_R ? at : DOP_SYM_OWN; at < DOP_N_SYMS && g->dim_names[at];)
        at++;
    if (at == DOP_N_SYMS)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "more than %d dimensions", DOP_N_SYMS - 2);
    g->bound[at] = bound;
    g->dim_names[at] = dop_arena_strdup(g->arena, name);
    return g->dim_names[at] ? DOP_OK : DOP_NO_MEMORY(diag);
}

dop_status
dop_graph_init(dop_graph *g, dop_arena *arena, const char *name, uint32_t max_t, uint32_t max_s, dop_diag *diag)
{
    DOP_RETURN_IF_ERROR(dop_graph_open(g, arena, name, diag));
    DOP_RETURN_IF_ERROR(dop_graph_declare(g, "T", max_t, diag));
    DOP_RETURN_IF_ERROR(dop_graph_declare(g, "S", max_s, diag));
    return dop_graph_declare(g, "Q", 1, diag);
}

dop_status
dop_graph_init_like(dop_graph *g, dop_arena *arena, const dop_graph *from, dop_diag *diag)
{
    DOP_RETURN_IF_ERROR(dop_graph_open(g, arena, from->name, diag));
    for (uint32_t i = 1; i < DOP_N_SYMS; i++)
        if (from->dim_names[i])
            DOP_RETURN_IF_ERROR(dop_graph_declare(g, from->dim_names[i], from->bound[i], diag));
    g->copies = from->copies;
    g->keeps_each = from->keeps_each;
    g->stays = from->stays;
    g->rows_apart = from->rows_apart;
    return DOP_OK;
}

/* Keeps the counter of generated names, x<number>, above every such name that the caller chose. */
static void
reserve_name(dop_graph *g, const char *name)
{
    size_t digits = name[0] == 'x' ? strspn(name + 1, "0123456789") : 0;
    if (digits == 0 || digits > 18 || name[1 + digits] != 0)
        return;
    uint64_t v = strtoull(name + 1, NULL, 10);
    if (v >= g->next_name)
        g->next_name = v + 1;
}

static dop_input_kind
find_input_kind(const char *name)
{
    static const char *const names[] = {[DOP_INPUT_tokens] = "tokens",
                                        [DOP_INPUT_positions] = "positions",
                                        [DOP_INPUT_sequences] = "sequences",
                                        [DOP_INPUT_lasts] = "lasts",
                                        [DOP_INPUT_types] = "types"};
    for (size_t i = DOP_INPUT_tokens; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return (dop_input_kind)i;
    return DOP_INPUT_other;
}

dop_status
dop_graph_add(dop_graph *g, dop_op op, const char *name, const dop_node_id *srcs, uint32_t n_srcs,
              const dop_attr *attrs, const dop_want *want, dop_diag *diag, dop_node_id *out_id)
{
    const dop_op_info *info = dop_op_of(op);
    dop_node n = {.op = op, .n_srcs = n_srcs, .label = {-1, ""}};
    for (uint32_t i = 0; i < n_srcs && i < DOP_MAX_SRCS;
         i++) /* copied before *out_id is written, which may alias srcs */
        n.src[i] = srcs[i];
    *out_id = 0;
    if (g->n_nodes >= MAX_NODES)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "graph %s: more than %d nodes", g->name, MAX_NODES);
    if (name && !dop_name_ok(name))
        return DOP_FAIL(diag, DOP_E_INTERNAL, "a node cannot be named '%.100s'", name);
    for (uint32_t i = 0; i < n_srcs && i < DOP_MAX_SRCS; i++) {
        if (n.src[i] == 0 || n.src[i] >= g->n_nodes)
            return DOP_FAIL(diag, DOP_E_INTERNAL, "%%%s: %s source %u is not a node", name ? name : "?", info->name, i);
    }
    char *own =
        name ? dop_arena_strdup(g->arena, name) : dop_arena_printf(g->arena, "x%llu", (unsigned long long)g->next_name);
    if (!own)
        return DOP_NO_MEMORY(diag);
    n.name = own;
    static const dop_attr defaults[DOP_MAX_ATTRS];
    bool optional = true;
    for (uint8_t k = 0; k < info->n_attrs; k++)
        optional = optional && dop_attr_optional(info->attrs[k]);
    if (!attrs && optional)
        attrs = defaults;
    dop_want got;
    dop_status st = dop_shape_infer(g, op, own, n.src, n_srcs, attrs, want, diag, &got);
    if (st != DOP_OK)
        return st;
    n.type = got.type;
    n.shape = got.shape;
    for (uint8_t k = 0; k < info->n_attrs; k++) {
        n.attr[k] = attrs[k];
        if (dop_attr_kind_of(info->attrs[k]) == DOP_ATTR_S && !(n.attr[k].s = dop_arena_strdup(g->arena, attrs[k].s)))
            return DOP_NO_MEMORY(diag);
    }
    if (op == DOP_OP_input)
        n.input = find_input_kind(n.attr[0].s);
    if (!dop_arena_grow(g->arena, (void **)&g->nodes, g->n_nodes, &g->cap_nodes, sizeof *g->nodes))
        return DOP_NO_MEMORY(diag);
    reserve_name(g, own);
    g->nodes[g->n_nodes] = n;
    *out_id = g->n_nodes++;
    if (info->root == DOP_ROOT_attention) {
        dop_reach x = dop_attention_reach(g, *out_id), *r = &g->reach;
        g->reaches_differ = g->reaches_differ || (g->has_attention && (x.window != r->window || x.chunk != r->chunk ||
                                                                       x.ring != r->ring || x.mask != r->mask));
        g->reach = x;
        g->has_chunks = g->has_chunks || x.chunk > 0;
        g->has_rings = g->has_rings || x.ring > 0;
        g->has_attention = true;
    }
    return DOP_OK;
}

dop_status
dop_graph_output(dop_graph *g, dop_node_id id, dop_diag *diag)
{
    if (id == 0 || id >= g->n_nodes)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "graph %s: output %u is not a node", g->name, id);
    if (g->n_outs >= MAX_NODES ||
        !dop_arena_grow(g->arena, (void **)&g->outs, g->n_outs, &g->cap_outs, sizeof *g->outs))
        return DOP_NO_MEMORY(diag);
    g->outs[g->n_outs++] = id;
    return DOP_OK;
}
