/* Attention on CPU devices, four query rows at a time. A workgroup is one subgroup whose lanes divide the head. Reductions
 * and broadcasts use shuffles instead of barriers, and the four rows are vector components. Loops are post-tested, because a
 * pre-tested loop would run once more with all lanes inactive. */
#include "kernels/attention/attend.h"
#include "kernels/attention/gen_attention.h"
#include "kernels/gen/gen_cache.h"
#include "kernels/gen/gen_tail.h"
#include "kernels/gen/legal.h"
#include "kernels/gen/templates.h"
#include "kernels/gen/trips.h"

enum { ROWS = 4 };

/* Division of cache rows among lanes; index 0 is K, 1 is V. */
typedef struct lanes {
    uint32_t wg, once; /* lanes; positions per loop iteration */
    uint32_t step, steps[2];
    bool whole[2];
} lanes;

static lanes
divide_head_lanes(const dop_gen *gen, const dop_attn *a)
{
    const bool eights = a->dim % 8 == 0 && a->value_dim % 8 == 0 && a->value_start % 8 == 0 && a->value_stride % 8 == 0;
    lanes l = {.wg = gen->choice->tile.wg, .once = gen->choice->tile.positions};
    l.step = dop_attn_in_eights(gen->e.g, a) && eights ? 8 : 4;
    for (int v = 0; v < 2; v++) {
        const uint32_t values = v ? a->value_dim : a->dim;
        l.steps[v] = dop_div_up_u32(values / l.step, l.wg);
        l.whole[v] = values % (l.step * l.wg) == 0;
    }
    return l;
}

static dop_nest_placement
place_attention_rows(const dop_gen *gen, const dop_attn *a, const lanes *l)
{
    const uint32_t wgs = a->kv * dop_div_up_u32(gen->e.g->max_t * a->group, ROWS);
    return (dop_nest_placement){
        .at =
            {[DOP_PLACE_t] = {[DOP_LEVEL_grid] = wgs, [DOP_LEVEL_reg] = ROWS},
             [DOP_PLACE_s] =
                 {[DOP_LEVEL_grid] = a->splits, [DOP_LEVEL_loop] = DOP_ROWS_TILE / l->once, [DOP_LEVEL_reg] = l->once},
             [DOP_PLACE_d] = {[DOP_LEVEL_lane] = l->wg, [DOP_LEVEL_reg] = l->steps[0] * l->step}},
        .x = {.path = DOP_PATH_whole, .unit = 4, .form = "floats"},
        .w = {.path = DOP_PATH_direct, .unit = l->step},
        .sum = DOP_MEET_lanes,
        .subgroup = l->wg,
        .step = "DOP_STEP()"};
}

/* Begins loops over the positions of a tile: base + b is the first of WG positions. */
static void
begin_positions(dop_nest *n, const lanes *l)
{
    const char *once = dop_nest_text(n, "%uu", l->once);
    if (l->once < DOP_ROWS_TILE)
        dop_nest_rolled(n, "b0", "0u", "min(hi - base, TILE)", dop_nest_text(n, "(b0 += %s)", once));
    else
        dop_nest_for(n, "b0", "0u", "TILE", "TILE")->unroll = true;
    dop_nest_for(n, "o", "0u", once, "WG")->unroll = true;
    dop_nest_code(n, "uint b = b0 + o;\n");
}

/* Returns code that loads row i of K or V, with the statement `use` for each load and query row. Past the end, the last
 * position is loaded. Lane-dependent conditions are omitted where possible, because drivers would turn each value into a
 * select. */
static const char *
each_load(dop_attend *x, const lanes *l, uint32_t which, const char *use)
{
    const char *condition = l->whole[which] ? "" : which ? "if (d < DV) " : "if (d < D) ";
    return dop_nest_text(&x->n,
                         "uint at = DOP_%s_%c(min(base + b + i, hi - 1u));\n"
                         "    [[unroll]] for (uint s = 0u; s < %uu; s++) {\n"
                         "        uint d = (s * WG + LANE) * STEP;\n"
                         "        %s{\n"
                         "            %s\n"
                         "            DOP_ROWS(j) { %s }\n"
                         "        }\n"
                         "    }\n",
                         l->step == 8 ? "ROW" : "AT", which ? 'V' : 'K', l->steps[which], condition,
                         dop_attend_load(x, which ? 'V' : 'K', l->step, "d"), use);
}

/* Emits code that computes the scores of a tile and the running max. Each lane computes partial products of WG positions; a
 * transposing reduction leaves it the sum of one position. A score is read only by its own lane. Unrolled, because a driver
 * may limit iterations. */
static void
score_tile(dop_attend *x, const lanes *l)
{
    dop_nest *n = &x->n;
    const char *dot =
        l->step == 8 ? "x[j] += dot(x0, q[j][s * 2u]) + dot(x1, q[j][s * 2u + 1u]);" : "x[j] += dot(x0, q[j][s]);";
    dop_nest_code(n, "vec4 top = m;\n");
    begin_positions(n, l);
    dop_nest_code(n,
                  "vec4 parts[WG];\n[[unroll]] for (uint i = 0u; i < WG; i++) {\n    vec4 x = vec4(0.0);\n    %s    "
                  "parts[i] = x;\n}\n",
                  each_load(x, l, 0, dot));
    for (uint32_t half = l->wg / 2; half > 0; half /= 2) /* ends with lane i holding the sum for position i */
        dop_attend_halve(x, "parts", 2 * half, "LANE", half);
    dop_nest_code(n,
                  "uint p = base + b + LANE;\n"
                  "vec4 x = parts[0];\n"
                  "x = %s;\n"
                  "DOP_ROWS(j) x[j] = %s ? x[j] : -1e30;\n"
                  "dop_s[b + LANE] = x;\n"
                  "top = max(top, x);\n",
                  x->score, dop_attend_seen(x, x->gen->e.g->max_t == 1 ? "0u" : "j"));
    dop_nest_end(n);
    dop_nest_end(n);
    dop_nest_code(n, "top = subgroupMax(top);\n");
}

/* Emits code that computes the weights of a tile, and accumulates the weighted values. */
static void
weigh_tile(dop_attend *x, const lanes *l)
{
    dop_nest *n = &x->n;
    dop_nest_code(n, "%s\nDOP_ROWS(j) [[unroll]] for (uint s = 0u; s < %uu; s++)\n    acc[j][s] *= fix[j];\n",
                  dop_attend_rescale(x), l->steps[1] * l->step / 4);
    begin_positions(n, l);
    dop_nest_code(n, "vec4 x = dop_s[b + LANE], e = %s;\ndop_s[b + LANE] = e;\nl += e;\n",
                  dop_attend_weight(x, "x", "m"));
    dop_nest_end(n);
    dop_nest_end(n);
    begin_positions(n, l);
    dop_nest_code(n,
                  "vec4 es = dop_s[b + LANE];\n[[unroll]] for (uint i = 0u; i < WG; i++) {\n    vec4 e = "
                  "subgroupShuffle(es, i);\n    %s}\n",
                  each_load(x, l, 1,
                            l->step == 8 ? "acc[j][s * 2u] += e[j] * x0; acc[j][s * 2u + 1u] += e[j] * x1;"
                                         : "acc[j][s] += e[j] * x0;"));
    dop_nest_end(n);
    dop_nest_end(n);
}

/* Returns code with this statement for every four values of a lane of K or V, at column d of row j. */
static const char *
each_four(dop_attend *x, const lanes *l, uint32_t which, const char *statement)
{
    const uint32_t fours = l->step / 4;
    return dop_nest_text(&x->n,
                         "DOP_ROWS(j) [[unroll]] for (uint s = 0u; s < %uu; s++) {\n"
                         "    uint d = (s / %uu * WG + LANE) * STEP + s %% %uu * 4u;\n"
                         "    %s\n"
                         "}\n",
                         l->steps[which] * fours, fours, fours, statement);
}

/* Emits code that stores the outputs through the memory of the queries, so that adjacent lanes store adjacent values. */
static void
store_row_outputs(dop_attend *x, const lanes *l)
{
    dop_nest *n = &x->n;
    dop_nest_code(n, "l = subgroupAdd(l);\n");
    dop_nest_code(n, "%s",
                  each_four(x, l, 1,
                            l->whole[1] ? "dop_q[(j * DV + d) >> 2] = acc[j][s];"
                                        : "if (d < DV) dop_q[(j * DV + d) >> 2] = acc[j][s];"));
    dop_stmt *s = dop_nest_for(n, "i", "LANE", "min(R, n_rows - r0) * (DV / 4u)", "WG");
    s->rolled = s->apart = true;
    dop_nest_code(n, "uint j = i / (DV / 4u), d = i %% (DV / 4u) * 4u, t = DOP_T(j), h = DOP_H(j);\n"
                     "float sum = l[j], top = m[j];\n"
                     "vec4 o = dop_q[i];\n");
    dop_attend_store(x);
    dop_nest_end(n);
}

/* Declares numbers, shared memory and macros of the placement. */
static dop_status
declare_attention_rows(dop_attend *x, const lanes *l)
{
    const dop_attn *a = &x->a;
    const dop_number numbers[] = {
        {"R", ROWS}, {"G", a->group}, {"SUBGROUPS", 1}, {"TILE", DOP_ROWS_TILE}, {"STEP", l->step}};
    const uint32_t longest = a->dim > a->value_dim ? a->dim : a->value_dim;
    dop_keys keys = {0};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        dop_nest_number(&x->n, numbers[i].name, numbers[i].value);
    x->q = dop_nest_shared(&x->n, "vec4", "dop_q", ROWS * longest / 4);
    dop_buf_puts(&x->decls, "shared vec4 dop_s[TILE]; // each lane reads only what it wrote\n"
                            "#define DOP_ROWS(j) [[unroll]] for (uint j = 0u; j < R; j++)\n"
                            "#define DOP_T(j) (min(r0 + (j), n_rows - 1u) / G)\n"
                            "#define DOP_H(j) (kvh * G + min(r0 + (j), n_rows - 1u) % G)\n"
                            "#define DOP_OTHER(x, bit) subgroupShuffle(x, LANE ^ bit)\n"
                            "#define DOP_Q_PUT(i, x) dop_q[i] = x\n"
                            "#define DOP_Q_PUT1(i, x) dop_q[(i) >> 2][(i) & 3u] = x\n");
    return dop_template_fill(x->gen, "rows.glsl", &keys, &x->decls);
}

/* Returns code that finds the workgroup's rows. If rows belong to several sequences, a workgroup has those of only one
 * token. */
static const char *
find_query_rows(dop_emit *e, bool mixes, uint32_t of_token)
{
    const char *of = dop_emit_str(e, "gl_WorkGroupID.y / %uu", of_token);
    const char *first =
        mixes ? dop_emit_str(e, "%s * G + gl_WorkGroupID.y %% %uu * R", of, of_token) : "gl_WorkGroupID.y * R";
    const char *end = mixes ? dop_emit_str(e, "min(n_tokens, %s + 1u)", of) : "n_tokens";
    return dop_emit_str(e,
                        "    uint kvh = gl_WorkGroupID.x, r0 = %s, split = gl_WorkGroupID.z;\n"
                        "    uint n_tokens = %s, n_rows = %s * G;\n    if (r0 >= n_rows)\n        return;\n",
                        first, dop_emit_n_tokens(e), end);
}

static dop_status
emit_attention_rows(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    dop_attend x = {.a = dop_attn_at(&gen->site), .vector = true};
    const lanes l = divide_head_lanes(gen, &x.a);
    const bool mixes = dop_attn_mixes(&gen->site), one = e->g->max_t == 1;
    const uint32_t of_token = dop_div_up_u32(x.a.group, ROWS);
    const dop_nest_placement pl = place_attention_rows(gen, &x.a, &l);
    x.a.rows = ROWS;
    x.step = l.step;
    /* A single-row step loads its position only once, because loads are expensive on CPU devices. Only such a step has
     * per-head products. */
    const dop_attend_rows rows = {.find = find_query_rows(e, mixes, of_token),
                                  .sequence = mixes ? "DOP_T(0u)" : "0u",
                                  .tokens = one ? "1u" : "R",
                                  .token = one ? "0u" : "DOP_T(i)",
                                  .product = "x",
                                  .tail = "DOP_H(0u)",
                                  .tail_heads = "min(R, n_rows - r0)",
                                  .at_once = 1};
    dop_attend_open(&x, gen, &pl, &rows, (const char *const[]){"dop_ldw4", "dop_ldw4"});
    const dop_status st = declare_attention_rows(&x, &l);
    dop_attend_begin(&x, "");
    dop_nest_code(&x.n, "vec4 q[R][%u], acc[R][%u], m = vec4(-1e30), l = vec4(0.0);\n", l.steps[0] * l.step / 4,
                  l.steps[1] * l.step / 4);
    dop_nest_code(&x.n, "%s",
                  each_four(&x, &l, 0,
                            l.whole[0] ? "q[j][s] = dop_q[(j * D + d) >> 2];"
                                       : "q[j][s] = d < D ? dop_q[(j * D + d) >> 2] : vec4(0.0);"));
    dop_nest_code(&x.n, "DOP_ROWS(j) [[unroll]] for (uint s = 0u; s < %uu; s++)\n    acc[j][s] = vec4(0.0);\n",
                  l.steps[1] * l.step / 4);
    dop_nest_rolled(&x.n, "base", "lo", "hi", "(base += TILE)");
    score_tile(&x, &l);
    weigh_tile(&x, &l);
    dop_nest_end(&x.n);
    store_row_outputs(&x, &l);
    gen->grid[0] = x.a.kv;
    gen->grid[1] = mixes ? e->g->max_t * of_token : dop_div_up_u32(e->g->max_t * x.a.group, ROWS);
    gen->grid[2] = x.a.splits;
    return st == DOP_OK ? dop_attend_finish(&x) : st;
}

static uint32_t
attention_rows_shared(dop_gen *gen)
{
    dop_attn a = dop_attn_at(&gen->site);
    return (ROWS * (a.dim > a.value_dim ? a.dim : a.value_dim) + DOP_ROWS_TILE * ROWS) * 4 + dop_tail_bytes(gen, 1);
}

static dop_refusal
fits_attention_rows(const dop_site *s)
{
    for (uint32_t i = 0; i < s->r->n_nodes; i++)
        if (dop_node_at(s->g, s->r->nodes[i])->op == DOP_OP_attn_combine)
            return (dop_refusal){"it does not merge the splits of the cache", "`apart`"};
    return dop_attn_refuses_slopes(s);
}

static const char *
avoid_attention_rows(const dop_site *s)
{
    return s->t->cpu ? NULL : "meant for CPU devices";
}

static uint64_t
trips_attention_rows(const dop_site *s, const dop_tile *tile)
{
    const dop_attn a = dop_attn_at(s);
    const uint64_t n = dop_attn_reaches(s, &a), tile_of = DOP_ROWS_TILE;
    const uint64_t inner = tile->positions < tile_of ? 3 * (tile_of / tile->positions + 1) : 0;
    return dop_trips_heads(s, tile, &a, ROWS) + dop_turns(n, tile_of) * (inner + 1);
}

static void
choose_attention_rows_tile(const dop_site *s, dop_tile *tile)
{
    dop_attn_tile(s, tile);
    tile->wg = s->t->subgroup;
    /* One position per lane and iteration keeps the code small; more positions only if the loop trip count requires it. */
    tile->positions = tile->wg;
    while (tile->positions < DOP_ROWS_TILE && dop_trips_too_many(s, &dop_descriptor_attention_rows, tile))
        tile->positions *= 2;
}

/* Checks that the workgroup is one subgroup, and that each lane gets whole positions. */
static void
legal_attention_rows(dop_check *c)
{
    const uint32_t sg = c->s->t->subgroup;
    if (dop_check_equal(c, DOP_TILE_NO_wg, sg, "a subgroup") &&
        dop_check_multiple(c, DOP_TILE_NO_positions, sg, sg, DOP_ROWS_TILE))
        dop_check_divides(c, DOP_TILE_NO_positions, DOP_ROWS_TILE, "positions of a tile");
}

const dop_descriptor dop_descriptor_attention_rows = {
    .legal = legal_attention_rows,
    .fits = fits_attention_rows,
    .avoid = avoid_attention_rows,
    .tile = choose_attention_rows_tile,
    .shared = attention_rows_shared,
    .emit = emit_attention_rows,
    .trips = trips_attention_rows,
    .texels = true,
    .stage = DOP_VARIANT_attention_decode,
};
