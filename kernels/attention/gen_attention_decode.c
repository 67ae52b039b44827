/* Decode attention on a GPU, for one token, or for one of each of several sequences: flash decoding. A workgroup processes R
 * query heads of one KV head over one split of the cache, CP positions at a time. Lanes hold pieces of cache rows
 * (attention_pieces.glsl).
 *
 * To hide load latency, the first rows are loaded before this step's queries arrive, and the next ones while the current ones
 * are used.
 *
 * There are two placements. Subgroups can walk together: scores go to shared memory, where one subgroup computes a head's
 * weights. Or they walk apart over separate positions: lanes keep the scores, and there is no barrier until the end. */
#include "ir/graph/cache_row.h"
#include "ir/graph/ops.h"
#include "kernels/attention/attend.h"
#include "kernels/attention/gen_attend.h"
#include "kernels/attention/gen_attention.h"
#include "kernels/gen/gen_cache.h"
#include "kernels/gen/gen_tail.h"
#include "kernels/gen/legal.h"
#include "kernels/gen/products.h"
#include "kernels/gen/templates.h"
#include "kernels/gen/trips.h"

/* Returns the number of cooperative lanes per cache row; each lane has equally many pieces of 8 values. */
static uint32_t
count_decode_lanes(const dop_attn *a, const dop_target *t)
{
    uint32_t lanes = t->subgroup;
    while (lanes > 1 && (a->dim % (8 * lanes) || a->value_dim % (8 * lanes)))
        lanes /= 2;
    return lanes;
}

/* True if the values are columns of the keys, which a lane already holds. */
static bool
values_are_keys(const dop_graph *g, const dop_attn *a, uint32_t lanes)
{
    return dop_attn_values_in_keys(g, a) && a->value_start % (8 * lanes) == 0;
}

/* Applies the tile to the region's attention. Returns the number of workgroups per head group. */
static uint32_t
apply_decode_tile(const dop_gen *gen, dop_attn *a)
{
    const dop_tile *tile = &gen->choice->tile;
    uint32_t group_wgs = tile->group_wgs ? tile->group_wgs : 1;
    a->rows = a->merged_heads = a->group / group_wgs;
    a->head0 = "head0";
    if (tile->splits)
        a->splits = tile->splits;
    for (uint32_t which = 0; which < 2; which++)
        a->keeps[which] = dop_attn_has_row(gen, a, which);
    return group_wgs;
}

/* Returns the cache positions per iteration of a workgroup: the tile's, by default 64. With small subgroups it is four per
 * lane of the subgroup that computes a head's weights, but at least one per group of lanes that share a row. */
static uint32_t
positions_of(const dop_attn *a, const dop_tile *tile, const dop_target *t)
{
    uint32_t least = tile->wg / count_decode_lanes(a, t);
    if (tile->positions || t->subgroup >= 16)
        return tile->positions ? tile->positions : 64;
    return least > t->subgroup * 4 ? least : t->subgroup * 4;
}

/* Returns the number of subgroups whose sums for one head fit in a third of the shared memory; if not all do, they take
 * turns. */
static uint32_t
subgroups_at_once(const dop_attn *a, const dop_tile *tile, const dop_target *t)
{
    uint32_t n = tile->wg / t->subgroup;
    while (n > 1 && n % 2 == 0 && n * a->value_dim * 4 > t->shared_bytes / 3)
        n /= 2;
    return n;
}

/* Returns the number of heads whose sums are combined at once, in a third of the shared memory. */
static uint32_t
decode_heads_at_once(const dop_attn *a, const dop_tile *tile, const dop_target *t)
{
    uint32_t batch = t->shared_bytes / 3 / (subgroups_at_once(a, tile, t) * a->value_dim * 4);
    return batch < 1 ? 1 : batch > a->rows ? a->rows : batch;
}

static bool
power_of_two(uint32_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* Returns the number of query heads whose scores a lane holds after the reduction over a row's lanes: one, or all if heads
 * cannot be divided among the lanes. */
static uint32_t
left_heads(const dop_attn *a, uint32_t lanes)
{
    return power_of_two(a->rows) && a->rows <= lanes ? 1 : a->rows;
}

/* Division of positions, values and sums among lanes and subgroups. */
typedef struct shares {
    uint32_t lanes, subgroups, rows; /* lanes per cache row; subgroups; query heads */
    uint32_t positions, held;        /* positions per iteration, of the workgroup and of an invocation */
    uint32_t batch, summed;          /* heads and subgroups whose sums are in shared memory at once */
    uint32_t left;                   /* query heads whose scores a lane holds after the reduction */
    bool apart, in_keys;             /* subgroups walk apart; V is columns of K */
} shares;

static shares
shares_of(const dop_gen *gen, const dop_attn *a)
{
    const dop_tile *tile = &gen->choice->tile;
    const dop_target *t = gen->e.target;
    const uint32_t lanes = count_decode_lanes(a, t), positions = positions_of(a, tile, t);
    return (shares){lanes,
                    tile->wg / t->subgroup,
                    a->rows,
                    positions,
                    positions * lanes / tile->wg,
                    decode_heads_at_once(a, tile, t),
                    subgroups_at_once(a, tile, t),
                    left_heads(a, lanes),
                    tile->apart,
                    values_are_keys(gen->e.g, a, lanes)};
}

/* Returns code that finds the workgroup's row, heads and position. `made` is the first position of the sequence in this step:
 * rows of a sequence and their positions are consecutive in a step. */
static const char *
find_row(dop_emit *e, const dop_attn *a, uint32_t group_wgs)
{
    const bool rows = e->g->max_t > 1, made = rows && e->routes;
    return dop_emit_str(
        e,
        "%s%s    uint head0 = DOP_GROUP.x * R, kvh = DOP_GROUP.x / %uu, split = DOP_GROUP.z, last = %s, made = "
        "last;\n%s",
        rows ? "    uint t = DOP_GROUP.y;\n" : "",
        rows && !made ? dop_emit_str(e, "    if (t >= %s)\n        return;\n", dop_emit_n_tokens(e)) : "", group_wgs,
        dop_emit_seen_position(e, a->id, rows ? "t" : "0"),
        made ? "    uint row0 = t;\n"
               "    while (row0 > 0u && dop_stage.rows[row0 - 1u].sequence == dop_stage.rows[t].sequence)\n"
               "        row0--;\n"
               "    made = dop_stage.rows[row0].position;\n"
             : "");
}

/* Declares numbers, shared memory, macros and functions of the placement. */
static dop_status
declare_decode(dop_attend *x, const shares *l, uint32_t made_rows)
{
    static const char *const vectors[] = {[1] = "float", [2] = "vec2", [4] = "vec4"};
    const dop_attn *a = &x->a;
    const uint32_t held = l->held,
                   wide = !l->apart || l->rows % 2 ? 1
                          : l->rows % 4            ? 2
                                                   : 4,
                   walks = l->apart ? l->subgroups : 1, row = (a->dim + a->value_stride) / 4,
                   sums = l->batch * l->summed * a->value_dim / 4;
    dop_nest *n = &x->n;
    dop_keys keys = {0};
    if (made_rows > 1) /* the largest array of these stages comes first */
        dop_nest_shared(n, "vec4", "dop_acc", sums);
    x->q = dop_nest_memory(n, "rows of this step") | dop_nest_shared(n, "vec4", "dop_q", l->rows * a->dim / 4);
    dop_nest_shared(n, vectors[wide], "dop_s", l->positions * l->rows / wide);
    dop_nest_shared(n, vectors[wide], "dop_fix", walks * l->rows / wide);
    dop_nest_shared(n, "float", "dop_m", walks * l->rows);
    dop_nest_shared(n, "float", "dop_l", walks * l->rows);
    if (made_rows == 1)
        dop_nest_shared(n, "vec4", "dop_acc", sums);
    if (a->keeps[0] || a->keeps[1]) {
        dop_nest_shared(n, "vec4", "dop_new", row * made_rows);
        dop_attn_made(x->gen, a, &x->decls);
    }
    DOP_NUMBERS(x->gen, &keys, &x->decls, {"R", l->rows}, {"LANES", l->lanes}, {"CK", a->dim / 8 / l->lanes},
                {"CV", a->value_dim / 8 / l->lanes}, {"CP", l->positions}, {"NP", held},
                {"PAIR", !l->apart  ? held
                         : held % 2 ? 1
                                    : 2},
                {"#LEFT_HEADS", l->left}, {"BATCH", l->batch}, {"SUMMED", l->summed}, {"DOP_NEW", row},
                {"#KEEPS_K", a->keeps[0]}, {"#KEEPS_V", a->keeps[1]}, {"#V_IN_K", l->in_keys}, {"#APART", l->apart},
                {"#WIDE", wide});
    dop_buf_printf(&x->decls, "#define DOP_T(j) %s\n", x->gen->e.g->max_t > 1 ? "DOP_GROUP.y" : "0u");
    return dop_template_fill(x->gen, "attention_pieces.glsl", &keys, &x->decls);
}

/* Returns code that does not need queries: loads of rows of earlier steps. A stage also empties the mailboxes of unused
 * splits: they may be full from an earlier step with more splits, and the next step must find them empty. The last subgroup
 * does this, because it has no query to wait for. */
static const char *
begin_early(dop_attend *x, const shares *l)
{
    dop_emit *e = &x->gen->e;
    const bool clears = e->r->info->attn.merged && e->routes && x->a.splits > 1;
    const char *box = clears ? dop_emit_mailbox_arg(e, x->a.id, true) : "";
    return dop_emit_str(
        e,
        "    uint part = gl_LocalInvocationIndex %% LANES, sub = gl_LocalInvocationIndex / SG, own = lo%s;\n"
        "    DOP_EACH(n, NP) {\n"
        "        DOP_EACH(c, CK) dop_k[n * CK + c] = DOP_PIECE_K(0u);\n"
        "        DOP_EACH(c, CV) DOP_V(n, c) = DOP_PIECE_V(0u);\n"
        "    }\n"
        "    dop_hold_k(own, kvh, lo, min(hi, made));\n"
        "    dop_hold_v(own, kvh, lo, min(hi, made));\n%s",
        l->apart ? " + sub * (ROWS * NP)" : "",
        clears ? dop_emit_str(e,
                              "    if (gl_LocalInvocationIndex >= WG - SG)\n"
                              "        DOP_CLEAR(%s, used == 1u ? 0u : split + used, %uu)\n",
                              box, x->a.max_splits)
               : "");
}

/* Emits sums of `array` over the lanes whose numbers differ in the bits from `from` to below `lanes`: halving butterfly
 * steps, followed by full ones. `first` becomes the index of the first value that a lane keeps. Returns the number of halving
 * steps. */
static uint32_t
sum_over_lanes(dop_attend *x, const char *array, const char *first, uint32_t values, uint32_t least, uint32_t from,
               uint32_t lanes)
{
    uint32_t halvings = 0;
    bool halving = true;
    for (uint32_t bit = from; bit < lanes; bit *= 2) {
        halving = halving && values % 2 == 0 && values > least;
        if (halving) {
            dop_attend_halve(x, array, values, "gl_LocalInvocationIndex", bit);
            halvings++;
            values /= 2;
            dop_nest_code(&x->n, "%s += upper%u ? %uu : 0u;\n", first, bit, values);
            continue;
        }
        for (uint32_t i = 0; i < values; i++)
            dop_nest_code(&x->n, "%s[%u] += subgroupShuffleXor(%s[%u], %uu);\n", array, i, array, i, bit);
    }
    return halvings;
}

/* Emits products of the cache rows in registers with the queries, summed over a row's lanes. Returns the number of halving
 * steps. */
static uint32_t
multiply_decode(dop_attend *x, const shares *l)
{
    dop_nest *n = &x->n;
    dop_nest_code(n, "float s[NP * R];\n"
                     "DOP_EACH(p, NP / PAIR) DOP_EACH(j, R) {\n"
                     "    vec4 q0[CK], q1[CK];\n"
                     "    DOP_EACH(c, CK) {\n"
                     "        q0[c] = DOP_QUERY(j, c, 0u);\n"
                     "        q1[c] = DOP_QUERY(j, c, 1u);\n"
                     "    }\n"
                     "    DOP_EACH(i, PAIR) {\n"
                     "        const uint n = p * PAIR + i;\n"
                     "        s[DOP_VALUE(n, j)] = 0.0;\n"
                     "        DOP_EACH(c, CK) s[DOP_VALUE(n, j)] += DOP_DOT_K(dop_k[n * CK + c], q0[c], q1[c]);\n"
                     "    }\n"
                     "}\n");
    if (l->apart && !l->in_keys)
        dop_nest_code(n, "dop_hold_k(base + CP, kvh, 0u, held_k);\n");
    dop_nest_code(n, "uint first = 0u;\n");
    return sum_over_lanes(x, "s", "first", l->held * l->rows, l->apart ? l->left : 1, 1, l->lanes);
}

/* Emits code that computes weights in shared memory, one head per subgroup. Earlier sums are later scaled by dop_fix, because
 * the running max may have grown. */
static void
weigh_together(dop_attend *x, const shares *l, uint32_t halvings)
{
    dop_nest *n = &x->n;
    dop_nest_code(n,
                  "if ((part >> %uu) == 0u)\n"
                  "    DOP_EACH(i, %uu) {\n"
                  "        uint n = (first + i) / R, j = (first + i) %% R;\n"
                  "        float x = s[i];\n"
                  "        dop_s[j * CP + DOP_PLACE(n)] = DOP_PLACE(n) < hi - base ? %s : -1e30;\n"
                  "    }\n",
                  halvings, l->held * l->rows >> halvings, x->score);
    if (!l->in_keys)
        dop_nest_code(n, "dop_hold_k(base + CP, kvh, base + CP, held_k);\n");
    dop_nest_code(n,
                  "uint lane = gl_LocalInvocationIndex %% SG;\n"
                  "for (uint j = sub; j < R; j += SUBGROUPS) {\n"
                  "    float x[CP / SG], old = dop_m[j], top = old, sum = 0.0;\n"
                  "    DOP_EACH(i, CP / SG) {\n"
                  "        x[i] = dop_s[j * CP + i * SG + lane];\n"
                  "        top = max(top, x[i]);\n"
                  "    }\n"
                  "    top = subgroupMax(top);\n"
                  "    DOP_EACH(i, CP / SG) {\n"
                  "        x[i] = %s;\n"
                  "        dop_s[j * CP + i * SG + lane] = x[i];\n"
                  "        sum += x[i];\n"
                  "    }\n"
                  "    sum = subgroupAdd(sum);\n"
                  "    if (lane == 0u) {\n"
                  "        float fix = exp(old - top);\n"
                  "        dop_l[j] = dop_l[j] * fix + sum;\n"
                  "        dop_m[j] = top;\n"
                  "        dop_fix[j] = fix;\n"
                  "    }\n"
                  "}\n",
                  dop_attend_weight(x, "x[i]", "top"))
        ->disjoint = true;
}

/* Returns code that reduces a value (maximum or sum) over the lanes with scores of the same head. */
static const char *
over_lanes(dop_attend *x, const shares *l, uint32_t halvings, const char *format)
{
    const char *all = "";
    for (uint32_t bit = l->left == 1 ? l->rows : 1; bit < 1u << halvings; bit *= 2)
        all = dop_nest_text(&x->n, "%s    %s%uu));\n", all, format, bit);
    for (uint32_t bit = l->lanes; bit < x->gen->e.target->subgroup; bit *= 2)
        all = dop_nest_text(&x->n, "%s    %s%uu));\n", all, format, bit);
    return all;
}

/* Emits code that computes weights in the lanes that hold the scores. The subgroup's other lanes receive them, and the scale
 * factors of earlier sums, through shared memory. */
static void
weigh_apart(dop_attend *x, const shares *l, uint32_t halvings)
{
    dop_nest *n = &x->n;
    const uint32_t left = l->held * l->rows >> halvings;
    dop_nest_code(n,
                  "head = DOP_FIRST_HEAD;\n"
                  "float top[LEFT_HEADS];\n"
                  "DOP_EACH(j, LEFT_HEADS) top[j] = m[j];\n"
                  "DOP_EACH(i, %uu) {\n"
                  "    float x = s[i];\n"
                  "    s[i] = base + DOP_HELD(DOP_LEFT_ROW(i)) < hi ? %s : -1e30;\n"
                  "    top[i %% LEFT_HEADS] = max(top[i %% LEFT_HEADS], s[i]);\n"
                  "}\n",
                  left, x->score);
    const uint32_t written = dop_nest_named(n, "dop_s dop_fix");
    dop_stmt *s = dop_nest_code(n,
                                "DOP_EACH(j, LEFT_HEADS) {\n%s    %s\n"
                                "    if (DOP_TELLS)\n        DOP_OF_HEAD(dop_fix, sub, head + j) = fix;\n"
                                "}\n"
                                "DOP_EACH(i, %uu) {\n"
                                "    s[i] = %s;\n"
                                "    l[i %% LEFT_HEADS] += s[i];\n"
                                "    DOP_OF_HEAD(dop_s, DOP_PLACE(DOP_LEFT_ROW(i)), head + i %% LEFT_HEADS) = s[i];\n"
                                "}\n",
                                over_lanes(x, l, halvings, "top[j] = max(top[j], subgroupShuffleXor(top[j], "),
                                dop_attend_rescale(x), left, dop_attend_weight(x, "s[i]", "m[i % LEFT_HEADS]"));
    s->writes = written;
    s->reads = 0;
}

/* Emits an iteration of the loop over positions. Returns the number of halving steps of the products' sums. */
static uint32_t
emit_decode_iteration(dop_attend *x, const shares *l)
{
    dop_nest *n = &x->n;
    const char *from = l->apart ? "0u" : "base + CP";
    const uint32_t halvings = multiply_decode(x, l);
    (l->apart ? weigh_apart : weigh_together)(x, l, halvings);
    dop_nest_code(n, "DOP_EACH(j, R) {\n"
                     "    float fix = DOP_FIX(j);\n"
                     "    DOP_EACH(c, 2u * CV) acc[2u * j * CV + c] *= fix;\n"
                     "}\n"
                     "DOP_EACH(n, NP) DOP_EACH(j, R) {\n"
                     "    float w = DOP_WEIGHT(n, j);\n"
                     "    DOP_EACH(c, CV) {\n"
                     "        acc[2u * (j * CV + c)] += w * DOP_FACTOR_V(DOP_V(n, c)) * DOP_LO_V(DOP_V(n, c));\n"
                     "        acc[2u * (j * CV + c) + 1u] += w * DOP_FACTOR_V(DOP_V(n, c)) * DOP_HI_V(DOP_V(n, c));\n"
                     "    }\n"
                     "}\n")
        ->reads = dop_nest_named(n, "dop_s dop_fix");
    dop_nest_code(n,
                  "%sdop_hold_v(base + CP, kvh, %s, held_v);\n"
                  "if (last < hi)\n    dop_hold_new(base + CP, made, last);\n",
                  l->in_keys ? dop_nest_text(n, "dop_hold_k(base + CP, kvh, %s, held_k);\n", from) : "", from);
    return halvings;
}

/* Emits code that stores the subgroups' sums of the heads from j0 on in shared memory, for `count` values of a lane, or
 * heads. If there is no space for all subgroups, they take turns at adding. */
static void
share_values(dop_attend *x, const shares *l, uint32_t j0, uint32_t count)
{
    dop_nest *n = &x->n;
    const bool turns = l->summed < l->subgroups;
    if (l->apart) {
        dop_nest_code(
            n, /* j wraps around for heads of earlier batches */
            "DOP_EACH(k, %uu) {\n"
            "    uint v = from + k, j = v / (2u * CV) - %uu;\n"
            "    if (j < BATCH)\n"
            "        dop_acc[(j * SUBGROUPS + sub) * (DV / 4u) + (v / 2u %% CV * LANES + part) * 2u + v %% 2u] = "
            "acc[k];\n"
            "}\n",
            count, j0);
        return;
    }
    if (turns) {
        dop_nest_code(n, "for (uint k = gl_LocalInvocationIndex; k < BATCH * SUMMED * (DV / 4u); k += WG)\n"
                         "    dop_acc[k] = vec4(0.0);\n");
        dop_nest_for(n, "turn", "0u", "SUBGROUPS / SUMMED", NULL);
    }
    dop_nest_code(
        n,
        "if (gl_LocalInvocationIndex %% SG < LANES%s)\n"
        "    DOP_EACH(j, %uu) DOP_EACH(c, 2u * CV)\n"
        "        dop_acc[(j * SUMMED + sub %% SUMMED) * (DV / 4u) + (c / 2u * LANES + part) * 2u + c %% 2u] %s= "
        "acc[2u * (%uu + j) * CV + c];\n",
        turns ? " && sub / SUMMED == turn" : "", count, turns ? "+" : "", j0)
        ->disjoint = true;
    dop_nest_ends(n, turns);
}

/* Emits code that reduces and stores the sums of all heads, BATCH at a time: first over lanes of a subgroup that share
 * values, then over subgroups. When subgroups walk apart, a lane contributes the values that it keeps. */
static void
reduce_decode_heads(dop_attend *x, const shares *l)
{
    dop_nest *n = &x->n;
    const uint32_t values = l->rows * (x->a.value_dim / 4 / l->lanes);
    dop_nest_let(n, "uint", "from", "0u");
    const uint32_t halvings =
        sum_over_lanes(x, "acc", "from", values, l->apart ? 1 : values, l->lanes, x->gen->e.target->subgroup);
    for (uint32_t j0 = 0; j0 < l->rows; j0 += l->batch) {
        const uint32_t heads = l->rows - j0 < l->batch ? l->rows - j0 : l->batch;
        share_values(x, l, j0, l->apart ? values >> halvings : heads);
        dop_nest_for(n, "place", "gl_LocalInvocationIndex", dop_nest_text(n, "%uu * (DV / 4u)", heads), "WG")->apart =
            true;
        dop_nest_code(n, "uint j = place / (DV / 4u), k0 = j + %uu, d = place %% (DV / 4u) * 4u, h = head0 + k0;\n",
                      j0);
        dop_nest_code(n, "vec4 o = vec4(0.0);\n%s",
                      l->apart ? "float top = -1e30, sum = 0.0;\n"
                                 "DOP_EACH(k, SUBGROUPS) top = max(top, dop_m[k * R + k0]);\n"
                                 "DOP_EACH(k, SUBGROUPS) {\n"
                                 "    float worth = exp(dop_m[k * R + k0] - top);\n"
                                 "    sum += worth * dop_l[k * R + k0];\n"
                                 "    o += worth * dop_acc[(j * SUBGROUPS + k) * (DV / 4u) + d / 4u];\n"
                                 "}\n"
                               : "float top = dop_m[k0], sum = dop_l[k0];\n"
                                 "DOP_EACH(k, SUMMED) o += dop_acc[(j * SUMMED + k) * (DV / 4u) + d / 4u];\n");
        dop_attend_store(x);
        dop_nest_end(n);
    }
}

/* Emits the loop over positions. */
static void
walk_decode(dop_attend *x, const shares *l)
{
    dop_nest *n = &x->n;
    /* Rows from these positions on come from this step, not from global memory. */
    dop_nest_code(n,
                  "uint held_k = %s, held_v = %s;\n"
                  "if (last < hi) {\n"
                  "    dop_hold_k(own, kvh, made, held_k);\n"
                  "    dop_hold_v(own, kvh, made, held_v);\n"
                  "    dop_hold_new(own, made, last);\n"
                  "}\n",
                  x->a.keeps[0] ? "min(hi, made)" : "hi", x->a.keeps[1] ? "min(hi, made)" : "hi")
        ->reads = x->q;
    dop_nest_code(n, "vec4 acc[R * CV * 2u];\nDOP_EACH(i, R * CV * 2u) acc[i] = vec4(0.0);\n");
    dop_nest_code(n, "%s",
                  l->apart ? "float m[LEFT_HEADS], l[LEFT_HEADS];\n" /* per head of the lane, over all iterations */
                             "uint head = 0u;\n"
                             "DOP_EACH(j, LEFT_HEADS) {\n    m[j] = -1e30;\n    l[j] = 0.0;\n}\n"
                             "if (gl_LocalInvocationIndex % SG < R) {\n"
                             "    dop_m[sub * R + gl_LocalInvocationIndex % SG] = -1e30;\n"
                             "    dop_l[sub * R + gl_LocalInvocationIndex % SG] = 0.0;\n}\n"
                           : "for (uint j = gl_LocalInvocationIndex; j < R; j += WG) {\n"
                             "    dop_m[j] = -1e30;\n    dop_l[j] = 0.0;\n}\n");
    dop_stmt *loop = dop_nest_for(n, "base", "own", "hi", "CP");
    loop->in_step = l->apart ? "subgroupMemoryBarrierShared(), subgroupBarrier()" : NULL;
    const uint32_t halvings = emit_decode_iteration(x, l);
    dop_nest_end(n);
    if (l->apart)
        dop_nest_code(n,
                      "DOP_EACH(j, LEFT_HEADS) {\n%s"
                      "    if (DOP_TELLS && own < hi) {\n"
                      "        dop_m[sub * R + head + j] = m[j];\n"
                      "        dop_l[sub * R + head + j] = l[j];\n"
                      "    }\n"
                      "}\n",
                      over_lanes(x, l, halvings, "l[j] += (subgroupShuffleXor(l[j], "));
}

static dop_status
emit_decode(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    dop_attend x = {.a = dop_attn_at(&gen->site), .whole = true};
    dop_attn *a = &x.a;
    const uint32_t group_wgs = apply_decode_tile(gen, a), made_rows = e->routes ? e->g->max_t : 1;
    const shares l = shares_of(gen, a);
    if (gen->choice->tile.splits)
        e->splits = gen->choice->tile.splits;
    gen->merges = e->r->info->attn.merged != 0 && !e->routes;
    const dop_nest_placement pl = {
        .at = {[DOP_PLACE_t] = {[DOP_LEVEL_grid] = e->g->max_t * a->heads / a->rows, [DOP_LEVEL_reg] = a->rows},
               [DOP_PLACE_s] =
                   {[DOP_LEVEL_grid] = a->splits, [DOP_LEVEL_group] = l.positions / l.held, [DOP_LEVEL_reg] = l.held},
               [DOP_PLACE_d] = {[DOP_LEVEL_lane] = l.lanes, [DOP_LEVEL_reg] = a->dim / l.lanes}},
        .x = {.path = DOP_PATH_whole, .unit = 4, .form = "floats"},
        .w = {.path = DOP_PATH_direct, .unit = 8, .ahead = 1},
        .sum = DOP_MEET_lanes,
        .subgroup = e->target->subgroup};
    const dop_attend_rows rows = {.find = find_row(e, a, group_wgs),
                                  .sequence = e->g->max_t > 1 ? "t" : "0u",
                                  .span = "    uint hi = last + 1u, lo = DOP_FIRST(last);\n",
                                  .product = "x",
                                  .tail = a->head0,
                                  .tail_heads = "R",
                                  .at_once = dop_tail_at_once(gen, a->rows)};
    /* If this step's rows are kept in shared memory, only rows of earlier steps are read from the cache, so the reads need
     * not be coherent. */
    dop_attend_open(
        &x, gen, &pl, &rows,
        (const char *const[]){a->keeps[0] ? "dop_ldw4" : "dop_ldc4", a->keeps[1] ? "dop_ldw4" : "dop_ldc4"});
    const dop_status st = declare_decode(&x, &l, made_rows);
    dop_attend_begin(&x, begin_early(&x, &l));
    walk_decode(&x, &l);
    reduce_decode_heads(&x, &l);
    gen->grid[0] = a->kv * group_wgs;
    gen->grid[1] = e->g->max_t;
    gen->grid[2] = a->splits;
    return st == DOP_OK ? dop_attend_finish(&x) : st;
}

static uint32_t
decode_shared_bytes(dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    const dop_target *t = gen->e.target;
    dop_attn a = dop_attn_at(&gen->site);
    (void)apply_decode_tile(gen, &a);
    uint32_t at_once = positions_of(&a, tile, t), batch = decode_heads_at_once(&a, tile, t);
    uint32_t scores = a.rows * at_once + a.rows * 3 * (tile->apart ? tile->wg / t->subgroup : 1);
    return (a.rows * a.dim + scores + batch * subgroups_at_once(&a, tile, t) * a.value_dim +
            (a.keeps[0] || a.keeps[1] ? (a.dim + a.value_stride) * (gen->e.routes ? gen->e.g->max_t : 1) : 0)) *
               4 +
           dop_tail_bytes(gen, dop_tail_at_once(gen, a.rows));
}

static uint64_t
trips_decode(const dop_site *s, const dop_tile *tile)
{
    const dop_attn a = dop_attn_at(s);
    const uint32_t at_once = tile->positions ? tile->positions : 64;
    const uint32_t rows = a.group / (tile->group_wgs ? tile->group_wgs : 1);
    const uint64_t chunk = 8 + rows * (uint64_t)(dop_halvings(s->t->subgroup) + 4);
    return dop_trips_heads(s, tile, &a, rows) + dop_turns(dop_attn_reaches(s, &a), at_once) * chunk +
           (uint64_t)rows * a.value_dim + 64;
}

/* Returns an invocation's 32-bit registers for cache rows, products and sums, if group_wgs workgroups share a head group. */
static uint32_t
count_decode_registers(const dop_graph *g, const dop_attn *a, const dop_target *t, uint32_t wg, uint32_t group_wgs)
{
    uint32_t lanes = count_decode_lanes(a, t), rows = 64 * lanes / wg, heads = a->group / group_wgs;
    uint32_t pieces = a->dim / 8 / lanes + (values_are_keys(g, a, lanes) ? 0 : a->value_dim / 8 / lanes);
    return rows * pieces * 4 + rows * heads + heads * a->value_dim / lanes;
}

/* Returns an invocation's 32-bit registers for `rows` cache rows, and products and sums of `heads` heads, if subgroups walk
 * apart. */
static uint32_t
apart_registers(const dop_graph *g, const dop_attn *a, const dop_target *t, uint32_t heads, uint32_t rows)
{
    uint32_t lanes = count_decode_lanes(a, t), values = a->dim + (values_are_keys(g, a, lanes) ? 0 : a->value_dim);
    return rows * (values / 2 / lanes + heads) + heads * a->value_dim / lanes;
}

/* Returns the minimum number of workgroups per head group such that the registers of an invocation suffice; 0: impossible. */
static uint32_t
least_group_wgs(const dop_site *s, const dop_attn *a, uint32_t wg)
{
    const dop_schedule_numbers *of = &s->t->schedule;
    const uint32_t rows = 64 * count_decode_lanes(a, s->t) / wg;
    for (uint32_t n = 1; n <= a->group; n++)
        if (a->group % n == 0 && rows * a->group / n <= of->decode_products &&
            count_decode_registers(s->g, a, s->t, wg, n) <= of->decode_group_registers)
            return n;
    return 0;
}

/* Refuses regions whose cache rows cannot be divided among lanes of a subgroup, or whose products exceed the registers. */
static dop_refusal
refuse_decode(const dop_site *s, uint32_t wg, bool stage)
{
    const dop_target *t = s->t;
    dop_attn a = dop_attn_at(s);
    const dop_analysis *found = s->r->info;
    const bool drafts =
        stage && s->g->max_q == 1 && dop_attention_cached(s->g, a.id); /* draft tokens: a few rows of one sequence */
    if (s->g->max_t != 1 && !drafts && !dop_attn_mixes(s))
        return (dop_refusal){"several tokens of one sequence", NULL};
    if (s->g->max_t != 1 &&
        (found->attn.query_runs || found->attn.n_writes || found->attn.n_whole || found->attn.merged || found->tail.id))
        return (dop_refusal){"more is made here of each of several tokens than attention", NULL};
    if (!dop_attn_in_eights(s->g, &a))
        return (dop_refusal){"the cache is f32", "`kv` f16"};
    if (a.dim % 8 || a.value_dim % 8 || a.value_start % 8 || a.value_stride % 8 || t->subgroup == 0 ||
        64 % t->subgroup || wg > t->max_workgroup || wg / count_decode_lanes(&a, t) > 64)
        return (dop_refusal){"the values of a head cannot be divided among enough lanes, 8 at a time", NULL};
    uint32_t group_wgs = least_group_wgs(s, &a, wg);
    if (group_wgs == 0)
        return (dop_refusal){"a head has more values than an invocation has registers for", NULL};
    if (s->r->info->attn.merged && !stage && group_wgs * a.kv > dop_template_of(DOP_TPL_attention)->merges)
        return (dop_refusal){"more head groups than can count their splits", NULL};
    return dop_attn_refuses_step(s);
}

static dop_refusal
fits_decode(const dop_site *s)
{
    return refuse_decode(s, s->t->schedule.decode_wg, false);
}

/* If the step's rows make enough workgroups, variants in which one invocation processes a short head are as fast. */
static const char *
avoid_decode(const dop_site *s)
{
    const dop_attn a = dop_attn_at(s);
    if (s->t->cpu)
        return "sums across lanes are slow on CPU devices";
    return s->g->max_t > 1 && a.dim <= s->t->schedule.decode_short_head &&
                   (uint64_t)s->g->max_t * a.kv > 2ull * s->t->cores
               ? "there are workgroups enough for heads that are short"
               : NULL;
}

/* True if one head per workgroup is fastest. If a lane holds a large part of a row, as in latent attention, this saves
 * registers and code. */
static bool
takes_one_head(const dop_site *s, const dop_attn *a)
{
    return a->dim / 8 / count_decode_lanes(a, s->t) > s->t->schedule.decode_lane_pieces &&
           (!s->r->info->attn.merged || a->group * a->kv <= dop_template_of(DOP_TPL_attention)->merges);
}

/* Sets tile.apart (subgroups walk over separate positions) if `registers` per invocation suffice for rows, products and sums,
 * and shared memory for the sums of all subgroups. */
static void
let_subgroups_walk_apart(const dop_site *s, const dop_attn *a, uint32_t registers, dop_tile *tile)
{
    /* Multi-row steps already have many workgroups. */
    const uint32_t rows = s->t->schedule.decode_apart_rows;
    const uint32_t heads = a->group / (tile->group_wgs ? tile->group_wgs : 1);
    if (s->g->max_t > 1 || heads > s->t->schedule.decode_apart_heads || s->t->cpu || s->t->subgroup < 2 ||
        apart_registers(s->g, a, s->t, heads, rows) > registers ||
        subgroups_at_once(a, tile, s->t) * s->t->subgroup != tile->wg)
        return;
    tile->apart = true;
    tile->positions = tile->wg / count_decode_lanes(a, s->t) * rows;
}

/* Sets the fields that depend on the workgroup size; none if that size is illegal. */
static void
settle_decode(const dop_site *s, dop_tile *tile)
{
    dop_attn a = dop_attn_at(s);
    *tile = (dop_tile){.wg = tile->wg, .bq = 1, .subgroup = tile->subgroup};
    if (refuse_decode(s, tile->wg, false).why)
        return;
    tile->group_wgs = takes_one_head(s, &a) ? a.group : least_group_wgs(s, &a, tile->wg);
    let_subgroups_walk_apart(s, &a, s->t->schedule.decode_registers, tile);
}

static void
choose_decode_tile(const dop_site *s, dop_tile *tile)
{
    tile->wg = s->t->schedule.decode_wg;
    settle_decode(s, tile);
}

/* Checks that each group of lanes has equally many cache rows per iteration. */
static void
legal_decode(dop_check *c)
{
    const dop_attn a = dop_attn_at(c->s);
    const dop_tile *t = c->tile;
    const uint32_t lanes = count_decode_lanes(&a, c->s->t);
    const uint32_t most = dop_pow2_floor(c->s->t->max_workgroup);
    dop_check_power(c, DOP_TILE_NO_wg, c->s->t->subgroup, most < 64 * lanes ? most : 64 * lanes);
    const dop_refusal no = refuse_decode(c->s, t->wg, c->s->routes != NULL);
    if (!dop_check_when(c, !no.why, DOP_TILE_NO_wg, no.why ? no.why : "") ||
        !dop_check_divides(c, DOP_TILE_NO_group_wgs, a.group, "query heads of a KV head"))
        return;
    const uint64_t places = (uint64_t)positions_of(&a, t, c->s->t) * lanes;
    dop_check_when(c, places >= t->wg && places % t->wg == 0, DOP_TILE_NO_wg,
                   "wg must divide the lanes of the positions that are walked over at a time");
}

/* Returns the workgroups per head group of a stage. With few KV heads, each head gets its own workgroup, as long as there are
 * enough workgroups for all `splits`. */
static uint32_t
stage_group_wgs(const dop_site *s, const dop_attn *a, uint32_t splits)
{
    return a->kv * a->group * splits * s->g->max_t * 8 <= s->t->cores * s->t->schedule.decode_stage_busy
               ? a->group
               : least_group_wgs(s, a, s->t->persistent);
}

/* Returns the maximum number of splits of a short cache, for which a stage divides head groups among more workgroups than for
 * longer ones; 0: there is no tile for short caches. */
static uint32_t
short_splits(const dop_site *s, const dop_attn *a)
{
    uint32_t splits = a->splits, least = least_group_wgs(s, a, s->t->persistent);
    if (s->g->max_t > 1 || stage_group_wgs(s, a, splits) > least)
        return 0;
    while (splits > 1 && stage_group_wgs(s, a, splits) == least)
        splits /= 2;
    return stage_group_wgs(s, a, splits) > least ? splits : 0;
}

static const char *
decode_as_stage(const dop_site *s, dop_tile *tile)
{
    dop_attn a = dop_attn_at(s);
    tile->bq = 1;
    tile->whole = s->t->stage_whole;
    tile->least = s->t->split_least;
    tile->group_wgs = stage_group_wgs(s, &a, a.splits);
    /* Long caches: if 64 positions are only one row per invocation, twice as many per iteration halve the barriers. */
    if (short_splits(s, &a) > 1 && a.dim == a.value_dim && s->t->persistent * 8 == a.dim * 64)
        tile->positions = s->t->schedule.decode_stage_positions;
    let_subgroups_walk_apart(s, &a, s->t->schedule.decode_stage_registers, tile);
    return refuse_decode(s, s->t->persistent, true).why;
}

static uint32_t
decode_as_short_stage(const dop_site *s, const dop_tile *stage, dop_tile *tile)
{
    dop_attn a = dop_attn_at(s);
    uint32_t splits = short_splits(s, &a);
    if (splits < 2)
        return 0;
    tile->splits = splits;
    tile->group_wgs = stage_group_wgs(s, &a, splits);
    tile->positions = 0;
    tile->apart = false;
    let_subgroups_walk_apart(s, &a, s->t->schedule.decode_stage_registers, tile);
    return splits * stage->whole;
}

const dop_descriptor dop_descriptor_attention_decode = {
    .settle = settle_decode,
    .legal = legal_decode,
    .fits = fits_decode,
    .avoid = avoid_decode,
    .tile = choose_decode_tile,
    .shared = decode_shared_bytes,
    .emit = emit_decode,
    .trips = trips_decode,
    .stage = DOP_VARIANT_attention_decode,
    .as_stage = decode_as_stage,
    .as_short_stage = decode_as_short_stage,
};
