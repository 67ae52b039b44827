/* Attention: properties of a region that all attention kernels need, and the general kernel, which does not use matrix units
 * and has no special form for one token. */
#include "kernels/attention/gen_attention.h"
#include "kernels/attention/attend.h"
#include "kernels/gen/gen_cache.h"
#include "kernels/gen/gen_tail.h"
#include "kernels/gen/legal.h"
#include "kernels/gen/products.h"
#include "kernels/gen/trips.h"

typedef dop_attn attn;

bool
dop_attn_mixes(const dop_site *s)
{
    const dop_attn a = dop_attn_at(s);
    const dop_node *sequences = dop_node_at(s->g, a.n->src[4]);
    return dop_attention_cached(s->g, a.id) && (s->g->max_q > 1 || s->g->rows_apart) && s->g->max_t > 1 &&
           sequences->shape.dim[0].sym == DOP_SYM_T;
}

attn
dop_attn_at(const dop_site *s)
{
    const dop_graph *g = s->g;
    attn a = {.id = s->r->info->attn.root, .splits = 1};
    a.n = dop_node_at(g, a.id);
    const dop_node *q = dop_node_at(g, a.n->src[0]);
    a.heads = q->shape.dim[1].mul;
    a.dim = q->shape.dim[2].mul;
    a.kv = dop_cache_heads(g, a.n->src[1]);
    a.group = a.heads / a.kv;
    uint32_t start;
    dop_node_id values = dop_node_base(g, a.n->src[2], &start);
    const dop_shape *v = &dop_node_at(g, values)->shape;
    const dop_shape *read = &dop_node_at(g, a.n->src[2])->shape;
    a.value_dim = read->dim[read->rank - 1].mul;
    a.value_stride = v->dim[v->rank - 1].mul;
    a.value_start = start;
    if (!dop_attention_cached(g, a.id)) /* in rows of this step, heads are adjacent */
        a.value_stride = a.value_dim;
    a.merged_heads = a.group;
    a.head0 = "head0";
    if (a.n->op == DOP_OP_attn_split) {
        a.splits = (uint32_t)dop_node_i(g, a.id, DOP_A_splits);
        a.round = dop_split_round(g, a.id);
    }
    a.max_splits = a.splits;
    return a;
}

bool
dop_attn_values_in_keys(const dop_graph *g, const attn *a)
{
    return dop_storage_node(g, a->n->src[1]) == dop_storage_node(g, a->n->src[2]) && a->value_stride == a->dim;
}

bool
dop_attn_makes_heads(const dop_gen *gen)
{
    const dop_analysis *a = gen->e.r->info;
    return a->attn.n_writes > 0 || a->attn.query_runs;
}

dop_refusal
dop_attn_refuses_slopes(const dop_site *s)
{
    const dop_node_id root = s->r->info->attn.root;
    if (dop_attention_chosen(s->g, root))
        return (dop_refusal){"rows see positions of a list", NULL};
    if (dop_attention_relative(s->g, root))
        return (dop_refusal){"scores grow by a table of distances", NULL};
    return dop_node_i(s->g, root, DOP_A_alibi) ? (dop_refusal){"scores fall with the distance (ALiBi)", NULL}
                                               : dop_attn_refuses(s);
}

dop_refusal
dop_attn_refuses_step(const dop_site *s)
{
    return dop_attention_cached(s->g, s->r->info->attn.root) ? dop_attn_refuses_slopes(s)
                                                             : (dop_refusal){"keys and values are in no cache", NULL};
}

/* Refuses heads that no attention kernel supports. */
static dop_refusal
refuse_heads(const dop_site *s)
{
    const dop_analysis *found = s->r->info;
    attn a = dop_attn_at(s);
    if (a.dim % 4 || a.value_dim % 4 || a.value_start % 4 || a.value_stride % 4)
        return (dop_refusal){"heads are not a multiple of 4 values", "heads that are padded with zeros"};
    for (uint32_t i = 0; i < found->attn.n_after && a.n->op == DOP_OP_attention; i++)
        if (!dop_region_wide(s->g, s->r, found->attn.after[i]))
            return (dop_refusal){"an output is not a multiple of 4 values wide", "`apart`"};
    return dop_tail_refuses(s);
}

dop_refusal
dop_attn_refuses(const dop_site *s)
{
    const dop_node_id root = s->r->info->attn.root;
    const dop_node_id lasts = dop_attention_lasts(s->g, root);
    /* In multi-sequence steps, that column of the row table holds sequences. */
    if (lasts &&
        (dop_attention_cached(s->g, root) || (s->g->max_q > 1 && dop_node_at(s->g, lasts)->op == DOP_OP_input)))
        return (dop_refusal){"the row table has no column for the last position that a row sees", NULL};
    return refuse_heads(s);
}

/* True if cached rows attend to other rows of their block, with a received last position. This kernel supports it if the
 * cache was written by an earlier dispatch. */
static bool
sees_blocks(const dop_site *s)
{
    const dop_analysis *found = s->r->info;
    const dop_node_id root = found->attn.root, lasts = dop_attention_lasts(s->g, root);
    return lasts && dop_attention_cached(s->g, root) && dop_node_at(s->g, lasts)->op == DOP_OP_received &&
           dop_attention_reach(s->g, root).mask == DOP_MASK_segments && found->attn.n_writes == 0 && !s->routes &&
           dop_node_i(s->g, root, DOP_A_alibi) == 0;
}

/* Returns the number of query rows whose sums are reduced across invocations at once: a quarter of the shared memory. */
static uint32_t
rows_at_once(uint32_t rows, const dop_tile *tile, const dop_target *t)
{
    uint32_t batch = t->shared_bytes / 4 / (tile->wg * 16);
    return batch < 1 ? 1 : batch > rows ? rows : batch;
}

/* Returns the number of query heads per workgroup. */
static uint32_t
count_wg_heads(const attn *a, const dop_tile *tile)
{
    return a->group / (tile->group_wgs ? tile->group_wgs : 1);
}

static uint32_t
tile_bytes(const attn *a, const dop_tile *tile, const dop_target *t)
{
    uint32_t rows = count_wg_heads(a, tile) * tile->bq;
    return (rows * a->dim + rows * tile->wg + rows_at_once(rows, tile, t) * tile->wg * 4 + rows * tile->wg / 8) * 4;
}

/* Returns the values of a K row that an invocation multiplies at once. */
static uint32_t
key_load_width(const dop_graph *g, const attn *a)
{
    const bool halves = dop_node_at(g, a->n->src[1])->type == DOP_TYPE_f16 && a->dim % 8 == 0;
    return halves || dop_attn_in_blocks(g, a, 0) ? 8 : 4;
}

/* Returns the placement of the general kernel: every invocation processes all query rows of the workgroup. DS adjacent
 * invocations score one position, so that each K row is read once for all query rows. Then an invocation has four values of
 * the head and a share of the positions, so that each V row is also read once. */
static dop_nest_placement
place_attention(const dop_gen *gen, const attn *a)
{
    const dop_tile *tile = &gen->choice->tile;
    const uint32_t ds = tile->ds ? tile->ds : 1,
                   wgs = a->heads / a->merged_heads * dop_div_up_u32(gen->e.g->max_t, tile->bq);
    return (dop_nest_placement){
        .at = {[DOP_PLACE_t] = {[DOP_LEVEL_grid] = wgs, [DOP_LEVEL_reg] = a->rows},
               [DOP_PLACE_s] = {[DOP_LEVEL_grid] = a->splits, [DOP_LEVEL_group] = tile->wg / ds},
               [DOP_PLACE_d] = {[DOP_LEVEL_lane] = ds}},
        .x = {.path = DOP_PATH_whole, .unit = 4, .form = "floats"},
        .w = {.path = DOP_PATH_direct, .unit = key_load_width(gen->e.g, a)},
        .sum = DOP_MEET_lanes,
        .subgroup = tile->subgroup ? gen->e.target->subgroup : 1};
}

/* Declares numbers, shared memory and macros of the placement. */
static void
declare_attention(dop_attend *x)
{
    const dop_tile *tile = &x->gen->choice->tile;
    dop_nest *n = &x->n;
    const uint32_t lanes = x->a.value_dim / 4, shares = tile->wg / lanes, subgroups = tile->wg / n->placement.subgroup;
    const uint32_t batch = rows_at_once(x->a.rows, tile, x->gen->e.target),
                   ds = n->placement.at[DOP_PLACE_d][DOP_LEVEL_lane];
    const dop_number numbers[] = {{"R", x->a.rows},   {"G", x->a.merged_heads}, {"BQ", tile->bq},
                                  {"DS", ds},         {"CP", tile->wg / ds},    {"LANES_D", lanes},
                                  {"SHARES", shares}, {"SUBGROUPS", subgroups}, {"BATCH", batch}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        dop_nest_number(n, numbers[i].name, numbers[i].value);
    x->q = dop_nest_shared(n, "vec4", "dop_q", x->a.rows * x->a.dim / 4);
    dop_nest_shared(n, "float", "dop_s", x->a.rows * tile->wg);
    dop_nest_shared(n, "vec4", "dop_acc", batch * shares * lanes);
    if (subgroups < tile->wg)
        dop_nest_shared(n, "float", "dop_part", x->a.rows * subgroups);
    dop_buf_puts(&x->decls,
                 "#define DOP_T(j) min(t0 + (j) / G, n_tokens - 1u)\n#define DOP_H(j) (head0 + (j) % G)\n"
                 "#define DOP_Q_PUT(i, x) dop_q[i] = x\n#define DOP_Q_PUT1(i, x) dop_q[(i) >> 2][(i) & 3u] = x\n"
                 "#define DOP_ROWS(j) for (uint j = 0u; j < R; j++)\n");
}

/* Emits code that computes s, the scores of CP positions, and top, the maximum over an invocation's scores and m. */
static void
score_positions(dop_attend *x)
{
    dop_nest *n = &x->n;
    dop_nest_code(n,
                  "uint p = base + gl_LocalInvocationIndex / DS, part = gl_LocalInvocationIndex %% DS;\n"
                  "float s[R], top[R];\n"
                  "DOP_ROWS(j) s[j] = 0.0;\n"
                  "if (p < hi) {\n"
                  "    uint at = DOP_%s_K(p);\n"
                  "    for (uint d = part * (D / DS); d < (part + 1u) * (D / DS); d += %uu) {\n"
                  "        %s\n"
                  "        DOP_ROWS(j) s[j] += dot(x0, dop_q[(j * D + d) >> 2])%s;\n"
                  "    }\n"
                  "}\n",
                  x->step == 8 ? "ROW" : "AT", x->step, dop_attend_load(x, 'K', x->step, "d"),
                  x->step == 8 ? " + dot(x1, dop_q[((j * D + d) >> 2) + 1u])" : "");
    for (uint32_t i = 1; i < n->placement.at[DOP_PLACE_d][DOP_LEVEL_lane]; i *= 2)
        dop_nest_code(n, "DOP_ROWS(j) s[j] += subgroupShuffleXor(s[j], %uu);\n", i);
    dop_nest_code(n,
                  "DOP_ROWS(j) {\n"
                  "    float x = %s;\n"
                  "    s[j] = %s ? x : -1e30;\n"
                  "    top[j] = max(m[j], s[j]);\n"
                  "}\n",
                  x->score, dop_attend_seen(x, "j / G"));
}

/* Emits code that reduces each row's maximum over the workgroup: by subgroups and then across them, or by a tree. */
static void
find_row_maxima(dop_attend *x)
{
    dop_nest *n = &x->n;
    const uint32_t wg = x->gen->choice->tile.wg;
    if (n->placement.subgroup > 1) {
        dop_nest_code(n, "DOP_ROWS(j) top[j] = subgroupMax(top[j]);\n");
        if (wg == n->placement.subgroup)
            return;
        dop_nest_code(n, "if (gl_LocalInvocationIndex %% SG == 0u)\n"
                         "    DOP_ROWS(j) dop_part[j * SUBGROUPS + gl_LocalInvocationIndex / SG] = top[j];\n");
        dop_nest_code(n, "DOP_ROWS(j) for (uint i = 0u; i < SUBGROUPS; i++)\n"
                         "    top[j] = max(top[j], dop_part[j * SUBGROUPS + i]);\n");
        return;
    }
    dop_nest_code(n, "DOP_ROWS(j) dop_s[j * WG + gl_LocalInvocationIndex] = top[j];\n");
    dop_nest_for(n, "i", "1u", dop_nest_text(n, "%uu", dop_halvings(wg)), NULL);
    dop_nest_code(
        n, "uint reach = WG >> i;\n"
           "if (gl_LocalInvocationIndex < reach)\n"
           "    DOP_ROWS(j) dop_s[j * WG + gl_LocalInvocationIndex] =\n"
           "        max(dop_s[j * WG + gl_LocalInvocationIndex], dop_s[j * WG + gl_LocalInvocationIndex + reach]);\n")
        ->disjoint = true;
    dop_nest_end(n);
    dop_nest_code(n, "DOP_ROWS(j) top[j] = dop_s[j * WG];\n");
}

/* Emits code that computes the weights of the positions, and accumulates an invocation's share of the weighted values. */
static void
weigh_positions(dop_attend *x)
{
    dop_nest *n = &x->n;
    dop_nest_code(n,
                  "DOP_ROWS(j) {\n"
                  "    %s\n"
                  "    acc[j] *= fix;\n"
                  "    float e = %s;\n"
                  "    l[j] += part == 0u ? e : 0.0;\n"
                  "    if (part == 0u)\n"
                  "        dop_s[j * CP + gl_LocalInvocationIndex / DS] = e;\n"
                  "}\n",
                  dop_attend_rescale(x), dop_attend_weight(x, "s[j]", "m[j]"));
    dop_nest_code(n,
                  "for (uint i = share; share < SHARES && i < min(hi - base, CP); i += SHARES) {\n"
                  "    uint at = DOP_AT_V(base + i);\n"
                  "    %s\n"
                  "    DOP_ROWS(j) acc[j] += dop_s[j * CP + i] * x0;\n"
                  "}\n",
                  dop_attend_load(x, 'V', 4, "d4 * 4u"));
}

/* Emits code that reduces and stores the sums of all rows, BATCH at a time. The sums of weights are per subgroup, or per
 * invocation. */
static void
reduce_query_rows(dop_attend *x)
{
    dop_nest *n = &x->n;
    const bool subgroups = n->placement.subgroup > 1,
               once = rows_at_once(x->a.rows, &x->gen->choice->tile, x->gen->e.target) == x->a.rows;
    dop_nest_code(n, subgroups ? "DOP_ROWS(j) {\n"
                                 "    float sum = subgroupAdd(l[j]);\n"
                                 "    if (gl_LocalInvocationIndex %% SG == 0u)\n"
                                 "        dop_part[j * SUBGROUPS + gl_LocalInvocationIndex / SG] = sum;\n"
                                 "}\n"
                               : "DOP_ROWS(j) dop_s[j * WG + gl_LocalInvocationIndex] = l[j];\n");
    if (!once)
        dop_nest_for(n, "j0", "0u", "R", "BATCH")->unroll = true;
    dop_nest_code(n,
                  "uint first = %s, rows = %s;\n"
                  "for (uint j = 0u; share < SHARES && j < rows; j++)\n"
                  "    dop_acc[(j * SHARES + share) * LANES_D + d4] = acc[first + j];\n",
                  once ? "0u" : "j0", once ? "R" : "min(BATCH, R - j0)");
    dop_nest_for(n, "i", "gl_LocalInvocationIndex", "rows * LANES_D", "WG")->apart = true;
    dop_nest_code(n, "uint j = first + i / LANES_D, d = i %% LANES_D * 4u, t = t0 + j / G, h = DOP_H(j);\n");
    dop_nest_if(n, "t < n_tokens")->apart = true;
    dop_nest_code(n,
                  "float sum = 0.0, top = m[0];\n"
                  "for (uint k = 1u; k < R; k++)\n"
                  "    top = k == j ? m[k] : top;\n"
                  "for (uint k = 0u; k < %s; k++)\n"
                  "    sum += %s[j * %s + k];\n"
                  "vec4 o = vec4(0.0);\n"
                  "for (uint k = 0u; k < SHARES; k++)\n"
                  "    o += dop_acc[((j - first) * SHARES + k) * LANES_D + i %% LANES_D];\n",
                  subgroups ? "SUBGROUPS" : "WG", subgroups ? "dop_part" : "dop_s", subgroups ? "SUBGROUPS" : "WG");
    dop_attend_store(x);
    dop_nest_end(n);
    dop_nest_end(n);
    if (!once)
        dop_nest_end(n);
}

static dop_status
emit_attention(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    dop_attend x = {.a = dop_attn_at(&gen->site)};
    attn *a = &x.a;
    gen->merges = e->r->info->attn.merged != 0;
    a->merged_heads = count_wg_heads(a, tile);
    a->rows = a->merged_heads * tile->bq;
    x.step = key_load_width(e->g, a);
    const dop_nest_placement pl = place_attention(gen, a);
    const dop_attend_rows rows = {
        .find = dop_emit_str(e,
                             "    uint head0 = gl_WorkGroupID.x * G, kvh = gl_WorkGroupID.x / %uu;\n"
                             "    uint t0 = gl_WorkGroupID.y * BQ, split = gl_WorkGroupID.z, n_tokens = %s;\n"
                             "    if (t0 >= n_tokens)\n        return;\n",
                             a->group / a->merged_heads, dop_emit_n_tokens(e)),
        .sequence = "t0",
        .tokens = "BQ",
        .token = e->g->max_t == 1 ? "0u" : "min(t0 + i, n_tokens - 1u)",
        .product = "s[j]",
        .tail = a->head0,
        .tail_heads = "G",
        .at_once = 1};
    dop_attend_open(&x, gen, &pl, &rows, (const char *const[]){"dop_ldc4", "dop_ldc4"});
    declare_attention(&x);
    dop_attend_begin(&x, "");
    dop_nest_code(&x.n, "vec4 acc[R];\nfloat l[R], m[R];\nDOP_ROWS(j) {\n    acc[j] = vec4(0.0);\n    l[j] = 0.0;\n"
                        "    m[j] = -1e30;\n}\n"
                        "uint d4 = gl_LocalInvocationIndex %% LANES_D, share = gl_LocalInvocationIndex / LANES_D;\n");
    dop_nest_for(&x.n, "base", "lo", "hi", "CP");
    score_positions(&x);
    find_row_maxima(&x);
    weigh_positions(&x);
    dop_nest_end(&x.n);
    reduce_query_rows(&x);
    gen->grid[0] = a->heads / a->merged_heads;
    gen->grid[1] = dop_div_up_u32(e->g->max_t, tile->bq);
    gen->grid[2] = a->splits;
    return dop_attend_finish(&x);
}

static uint32_t
attention_shared(dop_gen *gen)
{
    attn a = dop_attn_at(&gen->site);
    return tile_bytes(&a, &gen->choice->tile, gen->e.target) + dop_tail_bytes(gen, 1);
}

/* Divides a head group among several workgroups if it exceeds the capacity of one. */
static void
divide_heads(const attn *a, const dop_target *t, dop_tile *tile)
{
    const uint32_t sums = tile->wg * 4;
    for (uint32_t n = 1; n <= a->group; n++) {
        if (a->group % n)
            continue;
        tile->group_wgs = n;
        if (a->group / n <= t->schedule.attention_heads && tile_bytes(a, tile, t) + sums <= t->shared_bytes)
            return;
    }
}

void
dop_attn_tile(const dop_site *s, dop_tile *tile)
{
    const dop_graph *g = s->g;
    const dop_target *t = s->t;
    attn a = dop_attn_at(s);
    uint32_t sums = tile->wg * 4, least = tile->subgroup ? t->subgroup : 32;
    tile->wg = dop_wg_of(t, t->schedule.attention_wg);
    while (tile->wg < a.value_dim / 4 && tile->wg * 2 <= t->max_workgroup)
        tile->wg *= 2;
    /* One token: 64 positions at once, the length of the shortest split, with the maximum number of invocations. */
    if (g->max_t == 1 && tile->subgroup && !t->cpu) {
        tile->wg = t->schedule.attention_one_wg / (a.dim <= 64 ? 2 : 1);
        while (tile->wg > t->max_workgroup)
            tile->wg /= 2;
        while (tile->wg < a.value_dim / 4 && tile->wg * 2 <= t->max_workgroup)
            tile->wg *= 2;
        tile->ds = tile->wg / 64;
        while (tile->ds > t->subgroup || (tile->ds > 1 && a.dim % (tile->ds * key_load_width(g, &a))))
            tile->ds /= 2;
    }
    const uint32_t rows = t->schedule.attention_rows;
    tile->bq = a.group >= rows || dop_attn_mixes(s) || dop_attention_chosen(g, a.id) ? 1 : rows / a.group;
    if (tile->bq > g->max_t)
        tile->bq = g->max_t;
    /* queries, scores and final sums share the workgroup's memory */
    while (tile->bq > 1 &&
           (a.group * tile->bq * (a.dim + tile->wg + tile->wg / 8) + tile->wg * 6) * 4 > t->shared_bytes / 4 * 3)
        tile->bq /= 2;
    /* With large head groups, process fewer positions at a time, as long as there is an invocation for every four values of a
     * head. */
    while (tile_bytes(&a, tile, t) + sums > t->shared_bytes && tile->wg > least && tile->wg / 2 >= a.value_dim / 4) {
        tile->wg /= 2;
        if (tile->ds > 1)
            tile->ds /= 2;
    }
    divide_heads(&a, t, tile);
}

/* Returns the maximum number of positions that a workgroup walks over; with a window, at most its length plus the rows of the
 * step. */
uint64_t
dop_attn_reaches(const dop_site *s, const dop_attn *a)
{
    const dop_graph *g = s->g;
    const dop_reach reach = dop_attention_reach(g, a->id);
    uint64_t n = reach.window ? (uint64_t)reach.window + g->max_t : g->max_s;
    if (!dop_attention_cached(g, a->id))
        return g->max_t;
    if (reach.mask == DOP_MASK_cache)
        return reach.ring;
    const uint64_t top = (uint64_t)dop_node_i(g, a->id, DOP_A_top);
    n = n < g->max_s ? n : g->max_s;
    n = top && top < n ? top : n;
    if (a->splits < 2)
        return n;
    const uint64_t whole = (uint64_t)dop_node_i(g, a->id, DOP_A_whole),
                   least = (uint64_t)dop_node_i(g, a->id, DOP_A_least);
    const uint64_t each = n / a->splits + 1, most = each > whole ? each : whole;
    return most > least ? most : least;
}

/* Returns the loop trip count of the prologue and epilogue: heads of queries and of this step's rows, statistics of whole
 * rows, and the per-head product. */
uint64_t
dop_trips_heads(const dop_site *s, const dop_tile *tile, const dop_attn *a, uint32_t rows)
{
    const dop_analysis *found = s->r->info;
    const uint32_t lanes = tile->subgroup ? s->t->subgroup : tile->wg;
    const uint32_t len = a->dim > a->value_dim ? a->dim : a->value_dim;
    uint64_t n = 256 + dop_turns((uint64_t)rows * len, tile->wg) * 2;
    n += rows * dop_trips_program(s, &found->attn.query, a->dim, lanes);
    for (uint32_t i = 0; i < found->attn.n_writes; i++)
        n += dop_trips_program(s, &found->attn.writes[i].prog, len, lanes) + dop_turns(len, 8ull * lanes) * 5;
    for (uint32_t i = 0; i < found->attn.n_whole; i++)
        n += dop_trips_program(s, &found->attn.whole[i], found->attn.whole[i].unit.len, tile->wg);
    return n + (found->tail.id ? (dop_turns(1u << 14, tile->wg) + dop_turns(a->value_dim, 4)) * rows : 0);
}

/* Returns the loop trip count of the general kernel: loops over the workgroup's query rows for every chunk of positions. */
static uint64_t
trips_attention(const dop_site *s, const dop_tile *tile)
{
    const dop_attn a = dop_attn_at(s);
    const uint32_t ds = tile->ds ? tile->ds : 1, at_once = tile->wg / ds, lanes = a.value_dim / 4;
    const uint32_t rows = a.group / (tile->group_wgs ? tile->group_wgs : 1) * tile->bq, shares = tile->wg / lanes;
    const uint64_t chunk = dop_turns(a.dim / ds, 4) * (rows + 2) +
                           dop_turns(at_once, shares ? shares : 1) * (rows + 2) + 6ull * (rows + 1) +
                           (tile->subgroup ? rows * (dop_halvings(ds) + dop_turns(tile->wg, s->t->subgroup))
                                           : (uint64_t)dop_halvings(tile->wg) * (rows + 2)) +
                           1;
    return dop_trips_heads(s, tile, &a, rows) + dop_turns(dop_attn_reaches(s, &a), at_once) * chunk +
           rows * (tile->wg + 64ull);
}

static dop_refusal
fits_attention(const dop_site *s)
{
    dop_refusal no = sees_blocks(s) ? refuse_heads(s) : dop_attn_refuses(s);
    if (!no.why && dop_attn_at(s).value_dim / 4 > dop_pow2_floor(s->t->max_workgroup))
        return (dop_refusal){"a head has more values than four for each invocation",
                             "a target with a larger max_workgroup"};
    return no;
}

static dop_refusal
fits_attention_alone(const dop_site *s)
{
    dop_refusal no = dop_attn_refuses_blocks(s);
    return no.why ? no : fits_attention(s);
}

static void
settle_attention(const dop_site *s, dop_tile *tile)
{
    const attn a = dop_attn_at(s);
    if (tile->bq) /* otherwise the tile is illegal */
        divide_heads(&a, s->t, tile);
}

/* Checks the tile. An invocation has four values of a head, and ds lanes, which reduce by shuffles, share a key. Rows of
 * several sequences, or that attend to chosen positions, need workgroups of their own. */
static void
legal_attention(dop_check *c)
{
    const attn a = dop_attn_at(c->s);
    const dop_tile *t = c->tile;
    const bool alone = dop_attn_mixes(c->s) || dop_attention_chosen(c->s->g, a.id);
    const uint32_t ds = t->ds ? t->ds : 1, step = key_load_width(c->s->g, &a);
    dop_check_range(c, DOP_TILE_NO_wg, a.value_dim / 4, c->s->t->max_workgroup);
    if (!dop_check_range(c, DOP_TILE_NO_bq, 1, alone ? 1 : c->s->g->max_t) ||
        (t->ds > 1 && !dop_check_power(c, DOP_TILE_NO_ds, 1, t->subgroup ? c->s->t->subgroup : 1)))
        return;
    dop_check_when(c, ds == 1 || a.dim % (ds * step) == 0, DOP_TILE_NO_ds,
                   "ds must divide the values of a head, in whole loads");
    dop_check_divides(c, DOP_TILE_NO_group_wgs, a.group, "query heads of a KV head");
    dop_check_most(c, DOP_TILE_NO_bq, (uint64_t)count_wg_heads(&a, t) * t->bq, DOP_MOST_SUMS / 4, "heads x bq");
    if (c->s->r->info->attn.merged && !c->s->routes)
        dop_check_most(c, DOP_TILE_NO_group_wgs, a.heads / count_wg_heads(&a, t), DOP_COUNTS_MOST,
                       "workgroups of heads");
}

#define ATTENTION                                                                                        \
    .tile = dop_attn_tile, .shared = attention_shared, .emit = emit_attention, .trips = trips_attention, \
    .settle = settle_attention, .legal = legal_attention

const dop_descriptor dop_descriptor_attention = {ATTENTION, .fits = fits_attention_alone,
                                                 .stage = DOP_VARIANT_attention_decode, .fields = DOP_FIELD(bq)};
const dop_descriptor dop_descriptor_attention_subgroup = {
    ATTENTION, .fits = fits_attention, .stage = DOP_VARIANT_attention_decode, .fields = DOP_FIELD(bq) | DOP_FIELD(ds)};
