/* Queries on the nodes of a graph, and the digest of a graph. */
#include "ir/graph/graph.h"

#include "ir/graph/cache_row.h"
#include "ir/graph/dims.h"
#include "ir/graph/ops.h"

#include <math.h>
#include <string.h>

/* Returns the index of the attribute in the op's row; -1 if the op does not have it. */
static int
find_attr_index(const dop_graph *g, dop_node_id id, dop_attr_id a)
{
    const dop_op_info *info = dop_op_of(g->nodes[id].op);
    for (int k = 0; k < info->n_attrs; k++) {
        if (info->attrs[k] == a)
            return k;
    }
    return -1;
}

double
dop_node_f(const dop_graph *g, dop_node_id id, dop_attr_id a)
{
    int k = find_attr_index(g, id, a);
    return k < 0 || dop_attr_kind_of(a) != DOP_ATTR_F ? 0.0 : g->nodes[id].attr[k].f;
}

int64_t
dop_node_i(const dop_graph *g, dop_node_id id, dop_attr_id a)
{
    int k = find_attr_index(g, id, a);
    if (k < 0 || dop_attr_kind_of(a) == DOP_ATTR_F || dop_attr_kind_of(a) == DOP_ATTR_S)
        return 0;
    return g->nodes[id].attr[k].i;
}

const char *
dop_node_s(const dop_graph *g, dop_node_id id, dop_attr_id a)
{
    int k = find_attr_index(g, id, a);
    return k < 0 || dop_attr_kind_of(a) != DOP_ATTR_S ? "" : g->nodes[id].attr[k].s;
}

bool
dop_node_has(const dop_graph *g, dop_node_id id, dop_attr_id a)
{
    return find_attr_index(g, id, a) >= 0;
}

bool
dop_node_writes_blocks(const dop_graph *g, dop_node_id id)
{
    return g->nodes[id].op == DOP_OP_state_write && dop_cache_blocks(g->nodes[id].type);
}

const dop_access dop_access_blocks = {
    .axis = {[DOP_AXIS_row] = DOP_ACCESS_same, [DOP_AXIS_head] = DOP_ACCESS_same, [DOP_AXIS_col] = DOP_ACCESS_all}};

bool
dop_attention_cached(const dop_graph *g, dop_node_id attention)
{
    return dop_shape_appends(&g->nodes[g->nodes[attention].src[1]].shape);
}

/* Return the numbers of optional attention sources; DOP_MAX_SRCS if absent.  After the five sources that are always present come
 * sinks or the table of relative biases, then `lasts` or the list of chosen positions. */
static uint32_t
find_chosen_src(const dop_graph *g, dop_node_id id)
{
    return dop_node_i(g, id, DOP_A_top) ? g->nodes[id].n_srcs - 1 : DOP_MAX_SRCS;
}

static uint32_t
find_lasts_src(const dop_graph *g, dop_node_id id)
{
    return dop_mask_has_lasts((dop_mask)dop_node_i(g, id, DOP_A_mask)) ? g->nodes[id].n_srcs - 1 : DOP_MAX_SRCS;
}

dop_node_id
dop_attention_sinks(const dop_graph *g, dop_node_id attention)
{
    const dop_node *n = &g->nodes[attention];
    const bool other = find_lasts_src(g, attention) == 5 || find_chosen_src(g, attention) == 5;
    return n->n_srcs > 5 && !other && !dop_node_i(g, attention, DOP_A_relative) ? n->src[5] : 0;
}

dop_node_id
dop_attention_relative(const dop_graph *g, dop_node_id attention)
{
    const dop_node *n = &g->nodes[attention];
    return n->op == DOP_OP_attention && dop_node_i(g, attention, DOP_A_relative) ? n->src[5] : 0;
}

dop_node_id
dop_attention_lasts(const dop_graph *g, dop_node_id attention)
{
    const uint32_t at = find_lasts_src(g, attention);
    return at < DOP_MAX_SRCS ? g->nodes[attention].src[at] : 0;
}

dop_node_id
dop_attention_chosen(const dop_graph *g, dop_node_id attention)
{
    const uint32_t at = find_chosen_src(g, attention);
    return at < DOP_MAX_SRCS ? g->nodes[attention].src[at] : 0;
}

const dop_access *
dop_node_access(const dop_graph *g, dop_node_id id, uint32_t k)
{
    static const dop_access step_rows = {
        .axis = {[DOP_AXIS_row] = DOP_ACCESS_all, [DOP_AXIS_head] = DOP_ACCESS_group, [DOP_AXIS_col] = DOP_ACCESS_all}};
    static const dop_access facts = {.axis = {[DOP_AXIS_row] = DOP_ACCESS_same}};
    static const dop_access lists = {.axis = {[DOP_AXIS_row] = DOP_ACCESS_same, [DOP_AXIS_col] = DOP_ACCESS_all}};
    static const dop_access distances = {.axis = {[DOP_AXIS_head] = DOP_ACCESS_same, [DOP_AXIS_col] = DOP_ACCESS_all}};
    const dop_op_info *info = dop_op_of(g->nodes[id].op);
    if (k == 1 && dop_node_writes_blocks(g, id))
        return &dop_access_blocks;
    if (info->root == DOP_ROOT_attention && (k == 1 || k == 2) && !dop_attention_cached(g, id))
        return &step_rows;
    if (info->root == DOP_ROOT_attention && k == 5 && dop_attention_relative(g, id))
        return &distances;
    if (info->root == DOP_ROOT_attention && k == find_chosen_src(g, id))
        return &lists;
    return info->root == DOP_ROOT_attention && k == find_lasts_src(g, id) ? &facts : &info->access[k];
}

bool
dop_node_is_input(const dop_graph *g, dop_node_id id)
{
    return g->nodes[id].op == DOP_OP_input;
}

bool
dop_node_gathers(const dop_graph *g, dop_node_id id)
{
    for (uint32_t k = 0; k < g->nodes[id].n_srcs; k++) {
        const dop_access *a = dop_node_access(g, id, k);
        if (a->axis[DOP_AXIS_row] == DOP_ACCESS_at && a->by != DOP_BY_STEP)
            return true;
    }
    return false;
}

bool
dop_node_has_experts(const dop_graph *g, dop_node_id id)
{
    for (uint32_t k = 0; k < g->nodes[id].n_srcs; k++)
        if (dop_node_access(g, id, k)->axis[DOP_AXIS_expert] == DOP_ACCESS_at)
            return true;
    return false;
}

bool
dop_node_merges(const dop_graph *g, dop_node_id id)
{
    for (uint32_t k = 0; k < g->nodes[id].n_srcs; k++)
        if (dop_node_access(g, id, k)->axis[DOP_AXIS_part] == DOP_ACCESS_all)
            return true;
    return false;
}

dop_node_id
dop_node_base(const dop_graph *g, dop_node_id id, uint32_t *out_start)
{
    uint32_t start = 0;
    while (dop_op_of(g->nodes[id].op)->traits & DOP_VIEW) {
        start += (uint32_t)dop_node_i(g, id, DOP_A_start);
        id = g->nodes[id].src[0];
    }
    if (out_start)
        *out_start = start;
    return id;
}

dop_node_id
dop_storage_node(const dop_graph *g, dop_node_id id)
{
    id = dop_node_base(g, id, NULL);
    while (dop_node_is(g, id, DOP_EFFECT))
        id = dop_node_base(g, g->nodes[id].src[0], NULL);
    return id;
}

uint32_t
dop_split_round(const dop_graph *g, dop_node_id id)
{
    for (uint32_t i = 1; i <= 2; i++)
        if (dop_cache_blocks(dop_node_at(g, dop_storage_node(g, dop_node_at(g, id)->src[i]))->type))
            return 0;
    return 2 * (uint32_t)dop_node_i(g, id, DOP_A_least);
}

uint32_t
dop_split_len(const dop_graph *g, dop_node_id id, uint32_t n)
{
    uint32_t splits = (uint32_t)dop_node_i(g, id, DOP_A_splits), least = (uint32_t)dop_node_i(g, id, DOP_A_least);
    uint32_t share = n / splits + (n % splits != 0), round = dop_split_round(g, id);
    uint32_t full = round > 0 ? n / splits / round * round : 0;
    if (n <= (uint32_t)dop_node_i(g, id, DOP_A_whole))
        return n;
    return full > 0 && n - full * splits <= round ? full : share < least ? least : share;
}

uint32_t
dop_split_count(const dop_graph *g, dop_node_id id, uint32_t n)
{
    uint32_t count = dop_div_up_u32(n, dop_split_len(g, id, n)), splits = (uint32_t)dop_node_i(g, id, DOP_A_splits);
    return count < splits ? count : splits;
}

uint32_t
dop_node_cols(const dop_graph *g, dop_node_id id)
{
    const dop_shape *s = &g->nodes[id].shape;
    if (s->rank == 1)
        return s->dim[0].sym == DOP_SYM_1 ? s->dim[0].mul : 1;
    uint32_t cols = 1; /* cannot overflow: checked when the node was added */
    for (uint32_t i = dop_shape_row_axes(s); i < s->rank; i++)
        cols *= s->dim[i].mul;
    return cols;
}

static uint32_t
last_axis_length(const dop_shape *s)
{
    return s->dim[s->rank - 1].mul;
}

uint32_t
dop_product_depth(const dop_graph *g, dop_node_id id)
{
    return last_axis_length(&g->nodes[g->nodes[id].src[0]].shape);
}

uint32_t
dop_product_cols(const dop_graph *g, dop_node_id id)
{
    return last_axis_length(&g->nodes[id].shape);
}

dop_type
dop_product_type(const dop_graph *g, dop_node_id id)
{
    return g->nodes[g->nodes[id].src[1]].type;
}

uint32_t
dop_product_slots(const dop_graph *g, dop_node_id id)
{
    return g->nodes[id].shape.rank == 3 ? g->nodes[id].shape.dim[1].mul : 1;
}

bool
dop_node_per_token(const dop_graph *g, dop_node_id id)
{
    return g->nodes[id].shape.dim[0].sym == DOP_SYM_T;
}

uint32_t
dop_node_row_multiple(const dop_graph *g, dop_node_id id)
{
    const dop_dim d = g->nodes[id].shape.dim[0];
    return d.sym == DOP_SYM_T ? d.mul : 0;
}

uint64_t
dop_node_rows(const dop_graph *g, dop_node_id id, uint32_t t)
{
    const dop_shape *s = &g->nodes[id].shape;
    uint64_t rows = 1; /* cannot overflow: checked when the node was added */
    for (uint32_t i = 0; i < dop_shape_row_axes(s); i++)
        rows *= dop_dim_value(g, s->dim[i], t);
    return rows;
}

uint32_t
dop_cache_heads(const dop_graph *g, dop_node_id cache)
{
    const dop_shape *s = &g->nodes[cache].shape;
    return s->dim[s->rank - 2].mul;
}

uint32_t
dop_cache_ring(const dop_graph *g, dop_node_id cache)
{
    const dop_dim d = g->nodes[cache].shape.dim[1];
    return d.sym == DOP_SYM_R ? d.mul : 0;
}

uint32_t
dop_cache_rows(const dop_graph *g, dop_node_id cache)
{
    return (uint32_t)dop_dim_value(g, g->nodes[cache].shape.dim[1], 1);
}

double
dop_alibi_slope(uint32_t max, uint32_t heads, uint32_t h)
{
    uint32_t n = 1;
    while (n * 2 <= heads)
        n *= 2;
    return exp2(-(double)max * (h < n ? h + 1.0 : h - n + 0.5) / n);
}

double
dop_alibi_root(const dop_graph *g, dop_node_id attention)
{
    const int64_t of = dop_node_i(g, attention, DOP_A_alibi_root);
    return of ? sqrt((double)of) : 1;
}

dop_reach
dop_attention_reach(const dop_graph *g, dop_node_id attention)
{
    return (dop_reach){(uint32_t)dop_node_i(g, attention, DOP_A_window),
                       (uint32_t)dop_node_i(g, attention, DOP_A_chunk), dop_cache_ring(g, g->nodes[attention].src[1]),
                       (dop_mask)dop_node_i(g, attention, DOP_A_mask)};
}

bool
dop_state_is_filled(const dop_graph *g, dop_node_id state)
{
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        const dop_node *n = &g->nodes[id];
        if (dop_op_of(n->op)->root == DOP_ROOT_attention && (n->src[1] == state || n->src[2] == state) &&
            dop_attention_reach(g, id).mask == DOP_MASK_cache)
            return true;
    }
    return false;
}

uint32_t
dop_reach_first(const dop_reach *r, uint32_t position)
{
    uint32_t window = r->window && position >= r->window ? position + 1 - r->window : 0;
    uint32_t chunk = r->chunk ? position / r->chunk * r->chunk : 0;
    return window > chunk ? window : chunk;
}

uint32_t
dop_reach_last(const dop_reach *r, uint32_t position, uint32_t last)
{
    if (r->mask == DOP_MASK_cache)
        return r->ring - 1;
    if (r->mask == DOP_MASK_causal || (r->mask == DOP_MASK_segments && last < position))
        return position;
    return r->mask == DOP_MASK_full && r->window && last >= position && last - position >= r->window
               ? position + r->window - 1
               : last;
}

uint32_t
dop_graph_page(const dop_graph *g)
{
    uint32_t page = DOP_PAGE;
    while (g->max_s % page) /* the last page of a sequence must be a whole page */
        page /= 2;
    return g->max_q > 1 ? page : 0;
}

dop_node_id
dop_graph_replaces(const dop_graph *g)
{
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        if (g->nodes[id].op == DOP_OP_state && !dop_shape_appends(&g->nodes[id].shape))
            return id;
    return 0;
}

bool
dop_graph_is_out(const dop_graph *g, dop_node_id id)
{
    for (uint32_t i = 0; i < g->n_outs; i++)
        if (g->outs[i] == id)
            return true;
    return false;
}

bool
dop_graph_mixes(const dop_graph *g)
{
    for (dop_node_id id = 1; id < g->n_nodes && g->max_q > 1 && g->max_t > 1; id++)
        if (g->nodes[id].input == DOP_INPUT_sequences)
            return g->nodes[id].shape.dim[0].sym == DOP_SYM_T;
    return false;
}

/* ---- digest of exactly the content of the text form; computed after every pass ---- */

/* Mixes in a 64-bit word, as FNV-1a does with bytes.  The shift feeds the high bits back into the low ones. */
static uint64_t
hash_word(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

static uint64_t
hash_string(uint64_t h, const char *s)
{
    while (*s)
        h = (h ^ (unsigned char)*s++) * 0x100000001b3u;
    return hash_word(h, 0);
}

static uint64_t
hash_ids(uint64_t h, const dop_node_id *ids, uint32_t n)
{
    h = hash_word(h, n);
    for (uint32_t i = 0; i < n; i++)
        h = hash_word(h, ids[i]);
    return h;
}

static uint64_t
hash_node(uint64_t h, const dop_node *n)
{
    h = hash_word(hash_word(hash_word(h, n->op), n->type), n->shape.rank);
    for (uint32_t i = 0; i < n->shape.rank; i++)
        h = hash_word(h, (uint64_t)n->shape.dim[i].mul << 8 | n->shape.dim[i].sym);
    h = hash_ids(h, n->src, n->n_srcs);
    const dop_op_info *info = dop_op_of(n->op);
    for (uint8_t k = 0; k < info->n_attrs; k++) {
        if (dop_attr_kind_of(info->attrs[k]) == DOP_ATTR_S)
            h = hash_string(h, n->attr[k].s);
        else
            h = hash_word(h, (uint64_t)n->attr[k].i); /* all bits, also of floating-point attributes */
    }
    return hash_string(hash_word(hash_string(h, n->name), (uint64_t)n->label.layer), n->label.role);
}

uint64_t
dop_graph_hash_unbound(const dop_graph *g)
{
    uint64_t h = hash_string(0xcbf29ce484222325u, g->name);
    h = hash_word(h, (uint64_t)g->max_t << 32 | g->max_s);
    h = hash_word(h, (uint64_t)g->max_q << 32 | g->n_nodes);
    for (uint32_t i = 1; i < DOP_N_SYMS; i++)
        if (g->dim_names[i])
            h = hash_word(hash_string(h, g->dim_names[i]), g->bound[i]);
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        h = hash_node(h, &g->nodes[id]);
    h = hash_ids(h, g->outs, g->n_outs);
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        const dop_region *rg = &g->regions[r];
        if (rg->dead)
            continue;
        h = hash_ids(hash_ids(hash_word(h, rg->tpl), rg->nodes, rg->n_nodes), rg->outs, rg->n_outs);
    }
    return h;
}

uint64_t
dop_graph_hash(const dop_graph *g)
{
    uint64_t h = dop_graph_hash_unbound(g);
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        const dop_region *rg = &g->regions[r];
        if (rg->dead || !rg->variant)
            continue;
        h = hash_string(hash_word(h, r), rg->variant);
        for (int i = 0; i < DOP_TILE_FIELDS; i++)
            h = hash_word(h, dop_tile_get(&rg->tile, i));
    }
    return h;
}
