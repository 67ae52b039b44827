/* Prefill attention on matrix units, in one pass over the cache, with the online softmax of FlashAttention-2 (Dao, arXiv
 * 2307.08691). A workgroup has query rows: tokens by the query heads of one KV head, or a part of these. It processes CP
 * positions at a time. All its subgroups share their K and V rows in shared memory, while the next ones are prefetched to
 * registers (attention_units.glsl). The results of position groups are merged at the end.
 *
 * Scores stay in fragments: exp2(score - M) is computed element-wise, independent of the fragment layout. M need not be the
 * maximum: no score so far exceeds it by more than 2^SLACK. Only if a score does, the subgroup computes row maxima through
 * shared memory and rescales its sums; almost all tiles skip this. */
#include "kernels/attention/attend.h"
#include "kernels/attention/gen_attend.h"
#include "kernels/attention/gen_attention.h"
#include "kernels/gen/gen_cache.h"
#include "kernels/gen/legal.h"
#include "kernels/gen/templates.h"

#include <math.h>

/* How a fragment of probabilities, which is an accumulator, becomes a factor of the second product. */
typedef enum pass_way {
    PASS_CAST,   /* by a conversion: NV matrices have no fixed use */
    PASS_HALVES, /* through shared memory, as f16 accumulators */
    PASS_FLOATS  /* through shared memory, as f32 accumulators that invocations convert */
} pass_way;

/* Properties derived from a tile: the division of work among subgroups, and the shared memory layout in 16-byte words. */
typedef struct layout {
    uint32_t dim, value_dim; /* head sizes, zero-padded to whole fragments */
    uint32_t heads;          /* query heads of a workgroup; others have the rest of the KV head's group */
    uint32_t subgroups, row_groups, position_groups;
    uint32_t value_groups; /* subgroups with the same rows and positions, each with a share of the values */
    uint32_t depth_groups; /* value groups that each compute a share of the scores' depth and add them up */
    uint32_t m, rows;      /* query rows of a fragment; of the workgroup */
    uint32_t n;            /* columns of a fragment, also rows of its second factor */
    uint32_t positions;    /* positions processed at a time */
    bool split_q;          /* queries are represented as sums of two f16 values */
    bool q_stays;          /* queries stay in shared memory, because registers cannot hold them */
    bool one_buffer;       /* K and V of a tile alternate in one shared memory buffer */
    bool in_keys;          /* V is columns of K */
    pass_way pass;
    uint32_t v_at, q_at, piece_at, piece, words;
    uint32_t bytes; /* total bytes of shared memory */
} layout;

static uint32_t
larger_of(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* True if queries must be sums of two f16 values. Rounding a query to f16 causes a score error proportional to the scale.
 * Usually the scale is 1/sqrt(dim), and the error is negligible. With normalized queries and keys and a scale of 1 (Gemma 4),
 * it is not. */
static bool
splits_queries(const dop_graph *g, const dop_attn *a)
{
    return dop_node_f(g, a->id, DOP_A_scale) * sqrt(a->dim) > 2;
}

/* Returns the 32-bit registers of an invocation that are live throughout the loop over positions, without queries. */
static uint32_t
value_registers(const layout *l, const dop_target *t)
{
    const uint32_t sum = l->m * l->n / t->subgroup, scores = l->positions / l->position_groups / l->n;
    return (l->value_dim / l->value_groups / l->n + scores + 2) * sum +
           l->positions * larger_of(l->dim, l->value_dim) / 2 / (l->subgroups * t->subgroup);
}

/* Returns the live registers if queries stay in registers. */
static uint32_t
count_units_registers(const layout *l, const dop_target *t)
{
    return value_registers(l, t) + l->dim / l->n / l->depth_groups * (l->m * l->n / t->subgroup) / 2;
}

/* Returns the query heads per workgroup: all that share a KV head, or the largest divisor that fits in the rows of a
 * fragment. */
static uint32_t
count_units_heads(const dop_attn *a, uint32_t m)
{
    uint32_t heads = a->group;
    for (uint32_t of = 1; heads > m; of++)
        if (a->group % of == 0)
            heads = a->group / of;
    return heads;
}

static layout
lay_out_units(const dop_graph *g, const dop_attn *a, const dop_tile *tile, const dop_target *t)
{
    const uint32_t n = dop_matrix_n(t->matrix);
    layout l = {.dim = dop_div_up_u32(a->dim, n) * n,
                .value_dim = dop_div_up_u32(a->value_dim, n) * n,
                .value_groups = tile->group_wgs ? tile->group_wgs : 1,
                .m = dop_matrix_m(t->matrix),
                .n = n,
                .in_keys = dop_attn_values_in_keys(g, a)};
    l.heads = count_units_heads(a, l.m);
    l.depth_groups = l.dim / n % l.value_groups == 0 ? l.value_groups : 1;
    l.subgroups = tile->wg / t->subgroup;
    l.position_groups = tile->ds ? tile->ds : 1;
    l.row_groups = larger_of(l.subgroups / l.position_groups / l.value_groups, 1);
    l.positions = tile->positions ? tile->positions : 64;
    l.rows = l.row_groups * l.m;
    l.split_q = splits_queries(g, a);
    l.q_stays = l.split_q || count_units_registers(&l, t) > t->schedule.attention_units_registers;
    l.pass = !(t->caps & DOP_CAP_coop_khr) ? PASS_CAST : t->caps & DOP_CAP_coop_f16_sums ? PASS_HALVES : PASS_FLOATS;
    uint32_t k = l.positions * (l.dim / 8 + 1), v = l.positions * (l.value_dim / 8 + 1);
    uint32_t q = l.rows * (l.dim / 8 + 1) * (l.split_q ? 2 : 1),
             stats = (2 * l.position_groups * l.value_groups + 2) * l.rows * 4 + 64;
    l.piece = l.m * (n / 4 + 1) * (l.pass == PASS_FLOATS ? 2 : 1);
    uint32_t pieces = l.piece * l.subgroups, rest = pieces + (l.q_stays ? q : 0);
    l.one_buffer = !l.in_keys && (k + v + rest) * 16 + stats > t->shared_bytes;
    uint32_t tiles = l.in_keys ? k : l.one_buffer ? larger_of(k, v) : k + v;
    l.v_at = l.in_keys ? a->value_start / 8 : l.one_buffer ? 0 : k;
    l.q_at = l.q_stays ? tiles : 0;
    l.piece_at = l.q_stays ? tiles + q : tiles;
    l.words = larger_of(l.piece_at + pieces, q);
    l.bytes = l.words * 16 + stats;
    return l;
}

/* State of the generator: nest, layout, and memory bits. */
typedef struct units {
    dop_attend x;
    layout l;
    bool late; /* scores have a soft cap, so scaling is applied late */
    uint32_t keys, values, pieces,
        rows; /* memory bits (dop_nest_memory): K, V, pieces of subgroups, statistics of rows */
} units;

/* Emits code that computes products of queries and keys. Queries that are sums of two f16 values are two factors. */
static void
multiply_queries(units *u)
{
    const layout *l = &u->l;
    dop_nest_code(&u->x.n,
                  "DOP_EACH(c, FC) s[c] = FRAG(0.0);\n"
                  "DOP_EACH(i, FS) {\n%s%s"
                  "    DOP_EACH(c, FC) {\n"
                  "        FRAG_B k;\n"
                  "        coopMatLoadNV(k, dop_s, (cw + c * MN) * LK + (part + i) * MW, LK, true);\n"
                  "        s[c] = coopMatMulAddNV(%s, k, s[c]);\n%s"
                  "    }\n"
                  "}\n",
                  l->q_stays ? "    FRAG_A own;\n"
                               "    coopMatLoadNV(own, dop_s, Q_AT + row0 * LK + (part + i) * MW, LK, false);\n"
                             : "",
                  l->split_q
                      ? "    FRAG_A rest;\n"
                        "    coopMatLoadNV(rest, dop_s, Q_AT + (ROWS + row0) * LK + (part + i) * MW, LK, false);\n"
                      : "",
                  l->q_stays ? "own" : "q[i]", l->split_q ? "        s[c] = coopMatMulAddNV(rest, k, s[c]);\n" : "")
        ->reads = u->keys | (l->q_stays ? u->x.q : 0);
}

/* Emits code that adds up the scores of the subgroups that share the depth, one fragment at a time. */
static void
add_depths(units *u)
{
    dop_nest *n = &u->x.n;
    for (uint32_t c = 0; c < u->l.positions / u->l.position_groups / u->l.n; c++) {
        dop_nest_code(n, "if (live)\n    coopMatStoreNV(s[%u], dop_s, PIECE_AT, LS, false);\n", c)->writes = u->pieces;
        dop_nest_code(n,
                      "if (live) {\n"
                      "    coopMatLoadNV(s[%u], dop_s, PIECES_AT + rg * PIECE, LS, false);\n"
                      "    DOP_ADD(s[%u], DG, PIECES_AT + (g * RG + rg) * PIECE)\n"
                      "}\n",
                      c, c)
            ->reads = u->pieces;
    }
}

/* Emits code that masks positions at the edges of the rows' ranges, and rescales all sums if a score exceeds M by too
 * much. */
static void
rescale_units(units *u)
{
    const char *cap =
        u->late ? dop_nest_text(&u->x.n, "DOP_EACH(c, FC) DOP_EACH(e, EL) s[c][e] = dop_tanh(s[c][e] * %.9g);\n",
                                dop_node_f(u->x.gen->e.g, u->x.a.id, DOP_A_scale) /
                                    dop_node_f(u->x.gen->e.g, u->x.a.id, DOP_A_cap))
                : "";
    dop_nest_code(&u->x.n,
                  "%sif (first + CW > sl + 1u || first < sg) {\n"
                  "    FRAG col, row, from;\n"
                  "    coopMatLoadNV(col, dop_c, 0u, 0u, false);\n"
                  "    coopMatLoadNV(row, dop_p, row0, 0u, true);\n"
                  "    coopMatLoadNV(from, dop_w, row0, 0u, true);\n"
                  "    DOP_EACH(c, FC) DOP_EACH(e, EL) {\n"
                  "        float at = col[e] + float(first + c * MN);\n"
                  "        s[c][e] = at <= row[e] && at >= from[e] ? s[c][e] : UNSEEN;\n"
                  "    }\n"
                  "}\n"
                  "FRAG top = s[0];\n"
                  "bool over = false;\n"
                  "DOP_EACH(e, EL) {\n"
                  "    [[unroll]] for (uint c = 1u; c < FC; c++)\n"
                  "        top[e] = max(top[e], s[c][e]);\n"
                  "    over = over || top[e] * FACTOR > m[e] + SLACK;\n"
                  "}\n"
                  "if (subgroupAny(over)) {\n"
                  "    coopMatStoreNV(top, dop_s, PIECE_AT, LS, false);\n"
                  "    DOP_SYNC;\n"
                  "    float was = dop_m[stats + lane / LANES];\n"
                  "    float now = max(was, dop_row_max(PIECE_AT, lane) * FACTOR);\n"
                  "    subgroupBarrier();\n"
                  "    if (lane %% LANES == 0u) {\n"
                  "        dop_m[stats + lane / LANES] = now;\n"
                  "        dop_f[stats + lane / LANES] = exp2(was - now);\n"
                  "    }\n"
                  "    DOP_SYNC;\n"
                  "    FRAG f;\n"
                  "    coopMatLoadNV(m, dop_m, stats, 0u, true);\n"
                  "    coopMatLoadNV(f, dop_f, stats, 0u, true);\n"
                  "    DOP_EACH(e, EL) {\n"
                  "        sums[e] *= f[e];\n"
                  "        DOP_EACH(i, FV) acc[i][e] *= f[e];\n"
                  "    }\n"
                  "}\n",
                  cap)
        ->writes = u->pieces;
}

/* Emits code that converts scores to weights p, factors of the second product: by a conversion, or through shared memory, two
 * fragments at a time. */
static void
weigh_units(units *u)
{
    static const char *const pass[] = {
        [PASS_CAST] = "    p[c] = FRAG_A(s[c]);\n",
        [PASS_HALVES] = "    FRAG_A h = FRAG_A(s[c]);\n"
                        "    coopMatStoreNV(h, dop_s, PIECE_AT + c % 2u * MW, LS, false);\n",
        [PASS_FLOATS] = "    coopMatStoreNV(s[c], dop_s, PIECE_AT + MM * LS, LS, false);\n"
                        "    DOP_SYNC;\n"
                        "    DOP_EACH(k, OWN) {\n"
                        "        uint d = lane % LANES * OWN + k, at = PIECE_AT + lane / LANES * LS + c % 2u * MW + "
                        "d / 2u;\n"
                        "        vec4 x = uintBitsToFloat(dop_s[PIECE_AT + MM * LS + lane / LANES * LS + d]);\n"
                        "        dop_s[at][d % 2u * 2u] = packHalf2x16(x.xy);\n"
                        "        dop_s[at][d % 2u * 2u + 1u] = packHalf2x16(x.zw);\n"
                        "    }\n"};
    dop_nest_code(&u->x.n, "DOP_EACH(c, FC) {\n    DOP_EACH(e, EL) s[c][e] = exp2(s[c][e] * FACTOR - m[e]);\n%s%s}\n",
                  pass[u->l.pass],
                  u->l.pass == PASS_CAST
                      ? ""
                      : "    if (c % 2u == 1u || c + 1u == FC) {\n"
                        "        DOP_SYNC;\n"
                        "        [[unroll]] for (uint j = c / 2u * 2u; j <= c; j++)\n"
                        "            coopMatLoadNV(p[j], dop_s, PIECE_AT + j % 2u * MW, LS, false);\n"
                        "        subgroupBarrier();\n"
                        "    }\n")
        ->writes = u->pieces;
}

/* Emits an iteration of the loop over positions. The sums add up the rounded weights that V is multiplied by, so that
 * normalized weights add up to 1. */
static void
emit_units_iteration(units *u)
{
    static const char *const next = "if (base + CP <= wh) {\n    DOP_LOAD(NK, D, K, base + CP)\n}\n";
    const layout *l = &u->l;
    dop_nest *n = &u->x.n;
    const bool depths = l->depth_groups > 1;
    dop_nest_code(n, "DOP_PUT(NK, D, K, 0u, LK)\n")->writes = u->keys;
    dop_nest_code(n, "%s", l->in_keys ? next : "DOP_LOAD(NV, DV, V, base)\n")->reads = u->keys;
    dop_nest_code(n,
                  "uint first = base + cw; // of this subgroup's positions\n"
                  "bool live = first <= sh && first + CW > sf;\n"
                  "FRAG_A p[FC];\n%s",
                  depths ? "FRAG s[FC];\n" : "");
    dop_nest_if(n, "live")->apart = true;
    dop_nest_code(n, "%s", depths ? "" : "FRAG s[FC];\n");
    multiply_queries(u);
    if (depths) {
        dop_nest_end(n);
        add_depths(u);
        dop_nest_if(n, "live")->apart = true;
    }
    rescale_units(u);
    weigh_units(u);
    dop_nest_end(n);
    if (!l->in_keys) {
        dop_nest_code(n, "DOP_PUT(NV, DV, V, V_AT, LV)\n")->writes = u->values;
        dop_nest_code(n, "%s", next)->reads = u->values;
    }
    dop_nest_if(n, "live")->apart = true;
    dop_nest_code(n, "DOP_EACH(c, FC) {\n"
                     "    sums = coopMatMulAddNV(p[c], FRAG_B(1.0), sums);\n"
                     "    DOP_EACH(i, FV) {\n"
                     "        FRAG_B v;\n"
                     "        coopMatLoadNV(v, dop_s, V_AT + (cw + c * MN) * LV + (vg * FV + i) * MW, LV, false);\n"
                     "        acc[i] = coopMatMulAddNV(p[c], v, acc[i]);\n"
                     "    }\n"
                     "}\n")
        ->reads = u->values;
    dop_nest_end(n);
}

/* Emits code that rescales the sums of all position groups to a common maximum, and adds them up. */
static void
merge_position_groups(units *u)
{
    dop_nest *n = &u->x.n;
    dop_nest_code(n, "if (lane %% LANES == 0u)\n    dop_f[stats + lane / LANES] = l;\n")->writes = u->rows;
    dop_nest_code(n, "float most = dop_m[row], own = dop_m[stats + lane / LANES];\n"
                     "[[unroll]] for (uint g = 1u; g < PS; g++)\n"
                     "    most = max(most, dop_m[g * ROWS + row]);\n"
                     "l = 0.0;\n"
                     "DOP_EACH(g, PS) l += dop_f[g * ROWS + row] * exp2(dop_m[g * ROWS + row] - most);\n")
        ->reads = u->rows;
    dop_nest_code(n, "if (lane %% LANES == 0u)\n    dop_f[stats + lane / LANES] = exp2(own - most);\n"
                     "DOP_SYNC;\n"
                     "FRAG f;\n"
                     "coopMatLoadNV(f, dop_f, stats, 0u, true);\n")
        ->writes = u->rows;
    dop_nest_unrolled(n, "matrix", u->l.value_dim / u->l.n / u->l.value_groups);
    dop_nest_code(n, "DOP_EACH(e, EL) acc[matrix][e] *= f[e];\n"
                     "if (sub >= RG)\n    coopMatStoreNV(acc[matrix], dop_s, PIECE_AT, LS, false);\n")
        ->writes = u->pieces;
    dop_nest_code(n, "if (sub < RG)\n    DOP_ADD(acc[matrix], PS, PIECE_AT + g * RG * PIECE)\n")->reads = u->pieces;
    dop_nest_end(n);
    dop_nest_return(n, "sub >= RG");
}

/* Emits code that stores outputs through the subgroup's piece of shared memory; each invocation holds the sum of weights of
 * its row. A sink is an additional score that only counts in the sum. It may exceed the running max by far, which makes the
 * sum large, as intended. */
static void
store_units_output(units *u)
{
    dop_emit *e = &u->x.gen->e;
    dop_nest *n = &u->x.n;
    const dop_node_id sinks = dop_attention_sinks(e->g, u->x.a.id);
    const bool padded = u->l.value_dim != u->x.a.value_dim;
    dop_nest_code(n, "coopMatStoreNV(sums, dop_s, PIECE_AT, LS, false);\n"
                     "DOP_SYNC;\n"
                     "float l = uintBitsToFloat(dop_s[PIECE_AT + lane / LANES * LS].x);\n"
                     "subgroupBarrier();\n"
                     "uint row = row0 + lane / LANES, t = t0 + row / G, h = DOP_H(row);\n")
        ->writes = u->pieces;
    if (u->l.position_groups > 1)
        merge_position_groups(u);
    else
        dop_nest_code(n, "float most = dop_m[stats + lane / LANES];\n");
    if (sinks) {
        dop_buf sink = {0};
        dop_emit_scope(e, &sink, "    ");
        dop_emit_line(e, "l += exp2(%s * 1.44269504 - most);", dop_emit_value(e, sinks, (dop_index){"0u", "h"}, 1));
        dop_nest_hole(n, "sink", dop_gen_keep(u->x.gen, &sink));
    }
    dop_nest_unrolled(n, "matrix", u->l.value_dim / u->l.n / u->l.value_groups);
    dop_nest_code(n, "coopMatStoreNV(acc[matrix], dop_s, PIECE_AT, LS, false);\nDOP_SYNC;\n");
    dop_nest_if(n, "row < R && t < n_tokens")->apart = true;
    dop_nest_for(n, "k", "0u", "OWN", NULL)->unroll = true;
    dop_nest_let(n, "uint", "at", "lane %% LANES * OWN + k");
    dop_nest_let(n, "uint", "d", "(vg * FV + matrix) * MN + at * 4u");
    dop_nest_let(n, "vec4", "o", "uintBitsToFloat(dop_s[PIECE_AT + lane / LANES * LS + at])");
    if (padded)
        dop_nest_if(n, "d < DV")->apart = true;
    dop_nest_hole(n, "end", u->x.store);
    dop_nest_ends(n, 2 + padded);
    dop_nest_code(n, "subgroupBarrier();\n");
    dop_nest_end(n);
}

/* Declares numbers, memory, macros and functions. Scores times FACTOR are arguments of exp2. */
static dop_status
declare_units_attention(units *u)
{
    dop_attend *x = &u->x;
    const layout *l = &u->l;
    const double scale = dop_node_f(x->gen->e.g, x->a.id, DOP_A_scale),
                 cap = dop_node_f(x->gen->e.g, x->a.id, DOP_A_cap);
    dop_nest *n = &x->n;
    dop_keys keys = {0};
    u->keys = dop_nest_memory(n, "keys");
    u->values = l->in_keys || l->one_buffer ? u->keys : dop_nest_memory(n, "values");
    u->pieces = dop_nest_memory(n, "pieces of subgroups");
    u->rows = dop_nest_memory(n, "what rows have");
    x->q = l->q_stays ? dop_nest_memory(n, "queries") : u->keys | u->values | u->pieces;
    u->late = cap > 0;
    DOP_NUMBERS(x->gen, &keys, &x->decls, {"G", l->heads}, {"BQ", x->gen->choice->tile.bq}, {"RG", l->row_groups},
                {"PS", l->position_groups}, {"VG", l->value_groups}, {"DG", l->depth_groups}, {"#IN_KEYS", l->in_keys},
                {"CP", l->positions}, {"V_AT", l->v_at}, {"Q_AT", l->q_at}, {"PIECES_AT", l->piece_at},
                {"PIECE", l->piece}, {"WORDS", l->words}, {"#SPLIT_Q", l->split_q});
    dop_buf_printf(&x->decls, "#define FACTOR %.9g\n#define DOP_WORDS(p, i) U32x4(p).v[i]\n",
                   (cap > 0 ? cap : scale) * 1.4426950408889634);
    return dop_template_fill(x->gen, "attention_units.glsl", &keys, &x->decls);
}

/* Returns code that computes ranges of positions. Workgroup: lo to wh. Subgroup: all rows attend to sg .. sl, and some rows
 * to positions from sf on and up to sh. */
static const char *
find_units_ranges(dop_gen *gen, const dop_attn *a)
{
    return dop_emit_str(
        &gen->e,
        "    uint sub = gl_LocalInvocationIndex / SG, lane = gl_LocalInvocationIndex %% SG;\n"
        "    uint rg = sub %% RG, cw = sub / RG %% PS * CW, vg = sub / (RG * PS), row0 = rg * MM, stats = sub * MM;\n"
        "    uint part = DG > 1u ? vg * FS : 0u; // of the depth\n"
        "    uint lo = 0xffffffffu, wh = 0u, sf = 0xffffffffu, sg = 0u, sl = 0xffffffffu, sh = 0u;\n"
        "    for (uint j = lane; j < ROWS; j += SG) {\n"
        "        uint t = DOP_T(min(j, R - 1u));\n"
        "        %s\n"
        "        bool own = j >= row0 && j < row0 + MM;\n"
        "        lo = min(lo, begin), wh = max(wh, end);\n"
        "        sf = own ? min(sf, begin) : sf, sg = own ? max(sg, begin) : sg;\n"
        "        sl = own ? min(sl, end) : sl, sh = own ? max(sh, end) : sh;\n"
        "        if (sub == 0u)\n"
        "            dop_p[j] = float(end), dop_w[j] = float(begin);\n"
        "    }\n"
        "    lo = subgroupMin(lo), wh = subgroupMax(wh);\n"
        "    sf = subgroupMin(sf), sg = subgroupMax(sg), sl = subgroupMin(sl), sh = subgroupMax(sh);\n",
        dop_attn_bounds(gen, a));
}

/* Emits the loop over positions. Queries stay in registers, or in shared memory if registers cannot hold them. */
static void
walk_units(units *u)
{
    const layout *l = &u->l;
    dop_nest *n = &u->x.n;
    dop_nest_code(n, "DOP_FILL(Q_AT, ROWS * (1u + SPLIT_Q), D, DM, LK)\n"
                     "for (uint i = gl_LocalInvocationIndex; i < (ROWS - R) * LK; i += WG)\n"
                     "    [[unroll]] for (uint k = 0u; k <= SPLIT_Q; k++)\n"
                     "        dop_s[Q_AT + (k * ROWS + R) * LK + i] = uvec4(0u);\n"
                     "if (gl_LocalInvocationIndex < MN)\n"
                     "    dop_c[gl_LocalInvocationIndex] = float(gl_LocalInvocationIndex);\n"
                     "DOP_ALL(i, PS * VG * ROWS) dop_m[i] = NOTHING;\n")
        ->writes = u->x.q;
    if (!l->q_stays)
        dop_nest_code(n, "FRAG_A q[FS];\n"
                         "DOP_EACH(i, FS) coopMatLoadNV(q[i], dop_s, Q_AT + row0 * LK + (part + i) * MW, LK, false);\n")
            ->reads = u->x.q;
    dop_nest_code(n, "DOP_FILL(0u, CP, D, DM, LK)\n%s", l->in_keys ? "" : "DOP_FILL(V_AT, CP, DV, DVM, LV)\n")->writes =
        u->keys | u->values;
    dop_nest_code(n, "FRAG acc[FV], sums = FRAG(0.0), m = FRAG(NOTHING);\nDOP_EACH(i, FV) acc[i] = FRAG(0.0);\n");
    dop_nest_for(n, "base", "lo", "wh", "CP")->through = true; /* with a bound of wh + 1, NVIDIA's compiler unrolls */
    emit_units_iteration(u);
    dop_nest_end(n);
}

static dop_status
emit_units(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    units u = {.x = {.a = dop_attn_at(&gen->site)}};
    dop_attn *a = &u.x.a;
    const layout l = u.l = lay_out_units(e->g, a, tile, e->target);
    a->rows = l.heads * tile->bq;
    gen->halves = true;
    gen->votes = true;
    if (l.pass == PASS_HALVES)
        e->caps |= DOP_CAP_coop_f16_sums;
    if (dop_node_at(e->g, a->n->src[1])->type == DOP_TYPE_f32)
        e->blocks = true; /* cache.glsl has the functions that pack f16 */
    gen->grid[0] = a->kv * (a->group / l.heads);
    gen->grid[1] = dop_div_up_u32(e->g->max_t, tile->bq);
    const dop_nest_placement pl = {
        .at = {[DOP_PLACE_t] = {[DOP_LEVEL_grid] = gen->grid[0] * gen->grid[1],
                                [DOP_LEVEL_group] = l.row_groups,
                                [DOP_LEVEL_unit] = l.m},
               [DOP_PLACE_s] = {[DOP_LEVEL_group] = l.position_groups,
                                [DOP_LEVEL_reg] = l.positions / l.position_groups / l.n,
                                [DOP_LEVEL_unit] = l.n},
               [DOP_PLACE_d] = {[DOP_LEVEL_group] = l.value_groups,
                                [DOP_LEVEL_reg] = l.value_dim / l.value_groups / l.n,
                                [DOP_LEVEL_unit] = l.n}},
        .x = {.path = DOP_PATH_whole, .unit = 4, .form = l.split_q ? "two halves" : "halves"},
        .w = {.path = DOP_PATH_pieces, .unit = 8, .ahead = 1, .form = "halves"},
        .sum = l.depth_groups > 1 ? DOP_MEET_each : DOP_MEET_none,
        .subgroup = e->target->subgroup};
    const dop_attend_rows rows = {
        .find = dop_emit_str(e,
                             "    uint kvh = gl_WorkGroupID.x / %uu, t0 = gl_WorkGroupID.y * BQ, n_tokens = %s;\n"
                             "    if (t0 >= n_tokens)\n        return;\n",
                             a->group / l.heads, dop_emit_n_tokens(e)),
        .sequence = "0u",
        .span = find_units_ranges(gen, a),
        .product = "x",
        .tail = a->head0,
        .tail_heads = "G",
        .at_once = 1};
    dop_attend_open(&u.x, gen, &pl, &rows, (const char *const[]){"DOP_WORDS", "DOP_WORDS"});
    const dop_status st = declare_units_attention(&u);
    dop_attend_begin(&u.x, "    uvec4 next[max(NK, NV)];\n    DOP_LOAD(NK, D, K, lo)\n");
    walk_units(&u);
    store_units_output(&u);
    return st == DOP_OK ? dop_attend_finish(&u.x) : st;
}

static uint32_t
units_shared_bytes(dop_gen *gen)
{
    dop_attn a = dop_attn_at(&gen->site);
    return lay_out_units(gen->e.g, &a, &gen->choice->tile, gen->e.target).bytes;
}

static uint32_t
longest_head(const dop_target *t)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < t->schedule.n_attention_tiles; i++)
        most = larger_of(most, t->schedule.attention_tiles[i].most_dim);
    return most;
}

static dop_refusal
fits_units(const dop_site *s)
{
    dop_diag ignored = {0};
    dop_gen gen;
    dop_attn a = dop_attn_at(s);
    dop_gen_open(&gen, s, NULL, NULL, &ignored);
    if (dop_attn_mixes(s))
        return (dop_refusal){"the rows of a step are of several sequences", NULL};
    if (a.n->op != DOP_OP_attention)
        return (dop_refusal){"the cache is split", NULL};
    if (!dop_attn_in_eights(s->g, &a) && dop_attention_cached(s->g, a.id))
        return (dop_refusal){"the cache is f32", "`kv` f16"};
    if (a.dim % 8 || larger_of(a.dim, a.value_dim) > longest_head(s->t))
        return (dop_refusal){"the head is no multiple of 8 values, or longer than schedule.attention_tiles has", NULL};
    const bool in_keys =
        dop_attn_values_in_keys(s->g, &a) && a.value_start % 8 == 0 && a.value_dim % dop_matrix_n(s->t->matrix) == 0;
    if (!in_keys && (a.value_start || a.value_stride != a.value_dim || a.value_dim % 8))
        return (dop_refusal){"values are no rows of multiples of 8", NULL};
    if (dop_matrix_n(s->t->matrix) != dop_matrix_k(s->t->matrix)) /* a fragment of weights is also a factor */
        return (dop_refusal){"the target's matrices have fewer columns than depth", NULL};
    if (dop_attn_makes_heads(&gen) || !dop_emit_wide(&gen.e, a.n->src[0]))
        return (dop_refusal){"the region makes heads or cache rows itself", "`apart`"};
    return dop_attn_refuses_slopes(s);
}

/* Avoids only single tokens. Unused fragment rows are cheap: even 4 rows are faster with matrix units than without. */
static const char *
avoid_units(const dop_site *s)
{
    return s->g->max_t < 2 ? "one token" : NULL;
}

/* Applies the groups to the tile. If a head is too long for the accumulators of one subgroup, whose registers cannot hold
 * queries either, its values are divided into groups. */
static layout
apply_units_shape(const dop_site *s, const dop_attn *a, const dop_attention_groups *of, dop_tile *tile)
{
    enum { ONE_GROUP = 256, MOST_GROUPS = 8 };
    layout l;
    tile->ds = of->position_groups;
    tile->positions = of->positions;
    const uint32_t m = dop_matrix_m(s->t->matrix);
    tile->bq = of->row_groups * m / count_units_heads(a, m);
    for (tile->group_wgs = 1;; tile->group_wgs *= 2) {
        tile->wg = of->row_groups * of->position_groups * tile->group_wgs * s->t->subgroup;
        l = lay_out_units(s->g, a, tile, s->t);
        const uint32_t next = 2 * tile->group_wgs;
        const uint32_t used = l.split_q ? value_registers(&l, s->t) : count_units_registers(&l, s->t);
        if (l.value_dim <= ONE_GROUP || of->position_groups > 1 || next > MOST_GROUPS || l.value_dim % (next * l.n) ||
            used <= s->t->schedule.attention_units_registers)
            return l;
    }
}

/* Chooses the tile: the first row of schedule.attention_tiles that fits the head and the target. If there are not enough
 * query rows to occupy all cores, positions are divided among subgroups instead. */
static void
choose_units_tile(const dop_site *s, dop_tile *tile)
{
    const dop_target *t = s->t;
    dop_attn a = dop_attn_at(s);
    const dop_attention_shape *rows = t->schedule.attention_tiles;
    for (uint32_t i = 0; i < t->schedule.n_attention_tiles; i++) {
        if (larger_of(a.dim, a.value_dim) > rows[i].most_dim)
            continue;
        bool many =
            apply_units_shape(s, &a, &rows[i].many, tile).bytes <= t->shared_bytes && tile->wg <= t->max_workgroup;
        if (many &&
            dop_div_up_u32(s->g->max_t, tile->bq) * (a.heads / count_units_heads(&a, dop_matrix_m(t->matrix))) * 4 >=
                t->cores * 3)
            return;
        if (apply_units_shape(s, &a, &rows[i].few, tile).bytes <= t->shared_bytes && tile->wg <= t->max_workgroup)
            return;
        if (many) {
            apply_units_shape(s, &a, &rows[i].many, tile);
            return;
        }
    }
}

/* Checks that groups of subgroups for query rows, positions and values consist of whole fragments. */
static void
legal_units(dop_check *c)
{
    const dop_attn a = dop_attn_at(c->s);
    const dop_tile *t = c->tile;
    const uint32_t n = dop_matrix_n(c->s->t->matrix), positions = t->positions ? t->positions : 64,
                   values = t->group_wgs ? t->group_wgs : 1, groups = (t->ds ? t->ds : 1) * values;
    if (!dop_check_range(c, DOP_TILE_NO_ds, 1, t->wg / c->s->t->subgroup / values) ||
        !dop_check_multiple(c, DOP_TILE_NO_wg, groups * c->s->t->subgroup, groups * c->s->t->subgroup,
                            c->s->t->max_workgroup))
        return;
    const layout l = lay_out_units(c->s->g, &a, t, c->s->t);
    dop_check_when(c, l.value_dim % (values * n) == 0, DOP_TILE_NO_group_wgs, "values cannot be divided into groups");
    dop_check_when(c, positions % (n * l.position_groups) == 0, DOP_TILE_NO_ds,
                   "ds must divide the positions that are processed at a time, in whole matrices");
    dop_check_range(c, DOP_TILE_NO_bq, 1, l.rows / l.heads);
}

const dop_descriptor dop_descriptor_attention_coop = {
    .fields = DOP_FIELD(bq) | DOP_FIELD(ds),
    .legal = legal_units,
    .fits = fits_units,
    .avoid = avoid_units,
    .tile = choose_units_tile,
    .shared = units_shared_bytes,
    .emit = emit_units,
    .stage = DOP_VARIANT_attention_decode,
    .matrix_form = DOP_CAP_coop_khr,
};
