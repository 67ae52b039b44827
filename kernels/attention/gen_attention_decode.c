/* Attention of one token, or of one of each of several sequences, on a GPU: flash decoding, in which a workgroup takes R query heads of
 * one KV head over one split of the cache, CP positions at a time.  Lanes own pieces of rows of the cache (attention_pieces.glsl).
 *
 * The first rows are loaded before this step's queries are there, and the next ones while the current ones are used, so that the
 * latency of loads is hidden.
 *
 * Two placements: the workgroup's subgroups walk together, and scores go to shared memory, where one subgroup turns those of a head into
 * weights; or they walk apart over positions of their own, whose lanes keep the scores, and nobody waits before the end. */
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

/* Cooperative lanes that share a row of the cache; each lane has equally many pieces of 8 values. */
static uint32_t
lanes_of(const dop_attn *a, const dop_target *t)
{
    uint32_t lanes = t->subgroup;
    while (lanes > 1 && (a->dim % (8 * lanes) || a->value_dim % (8 * lanes)))
        lanes /= 2;
    return lanes;
}

/* Are the values columns of the keys, which a lane already holds? */
static bool
values_are_keys(const dop_graph *g, const dop_attn *a, uint32_t lanes)
{
    return dop_attn_values_in_keys(g, a) && a->value_start % (8 * lanes) == 0;
}

/* Applies the tile to the region's attention.  Returns how many workgroups a head group is divided among. */
static uint32_t
shape(const dop_gen *gen, dop_attn *a)
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

/* Positions of the cache per iteration of a workgroup: the tile's, else 64; with small subgroups four for each lane of the
 * subgroup that turns a head's scores into weights, but at least one for each set of lanes that share a row. */
static uint32_t
positions_of(const dop_attn *a, const dop_tile *tile, const dop_target *t)
{
    uint32_t least = tile->wg / lanes_of(a, t);
    if (tile->positions || t->subgroup >= 16)
        return tile->positions ? tile->positions : 64;
    return least > t->subgroup * 4 ? least : t->subgroup * 4;
}

/* The number of subgroups whose sums for one head fit a third of the shared memory; if that is not all, they take turns. */
static uint32_t
subgroups_at_once(const dop_attn *a, const dop_tile *tile, const dop_target *t)
{
    uint32_t n = tile->wg / t->subgroup;
    while (n > 1 && n % 2 == 0 && n * a->value_dim * 4 > t->shared_bytes / 3)
        n /= 2;
    return n;
}

/* Heads whose sums are combined at once: as many as a third of the shared memory holds. */
static uint32_t
heads_at_once(const dop_attn *a, const dop_tile *tile, const dop_target *t)
{
    uint32_t batch = t->shared_bytes / 3 / (subgroups_at_once(a, tile, t) * a->value_dim * 4);
    return batch < 1 ? 1 : batch > a->rows ? a->rows : batch;
}

static bool
power_of_two(uint32_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* Query heads whose scores a lane holds after products were summed over the lanes of a row: one, or all where heads cannot be
 * divided among the lanes. */
static uint32_t
left_heads(const dop_attn *a, uint32_t lanes)
{
    return power_of_two(a->rows) && a->rows <= lanes ? 1 : a->rows;
}

/* How lanes and subgroups share positions, values and sums. */
typedef struct shares {
    uint32_t lanes, subgroups, rows; /* invocations that share a row of the cache; subgroups; query heads */
    uint32_t positions, held;        /* positions at a time, of which an invocation holds that many */
    uint32_t batch, summed;          /* heads and subgroups whose sums meet in shared memory at once */
    uint32_t left;                   /* query heads whose scores a lane holds in the end */
    bool apart, in_keys;             /* subgroups walk apart; V is columns of K */
} shares;

static shares
shares_of(const dop_gen *gen, const dop_attn *a)
{
    const dop_tile *tile = &gen->choice->tile;
    const dop_target *t = gen->e.target;
    const uint32_t lanes = lanes_of(a, t), positions = positions_of(a, tile, t);
    return (shares){lanes,
                    tile->wg / t->subgroup,
                    a->rows,
                    positions,
                    positions * lanes / tile->wg,
                    heads_at_once(a, tile, t),
                    subgroups_at_once(a, tile, t),
                    left_heads(a, lanes),
                    tile->apart,
                    values_are_keys(gen->e.g, a, lanes)};
}

/* The row that a workgroup computes, its heads and its position, and the position of the first row that this step makes of its sequence:
 * rows of a sequence follow one another in the step, and so do their positions. */
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

/* Numbers, shared memory, macros and functions of the placement. */
static dop_status
declare(dop_attend *x, const shares *l, uint32_t made_rows)
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
    if (made_rows > 1) /* the largest array of these stages stands first */
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

/* What needs no queries: loads of rows of earlier steps.  In a stage, mailboxes of splits that this step does not send are emptied: they
 * are still full where an earlier step had more splits, and the next step must find them empty.  The last subgroup does it, because
 * it has no query to wait for. */
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

/* Sums of `array` over the lanes whose numbers differ in bits from `from` to below `lanes`: steps that halve the number of values,
 * and then whole ones.  `first` becomes the number of the first value that a lane keeps.  Returns how many steps halve. */
static uint32_t
sums(dop_attend *x, const char *array, const char *first, uint32_t values, uint32_t least, uint32_t from,
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

/* Products of the rows in registers with the queries, and their sums over the lanes of a row; returns how many steps halved them. */
static uint32_t
multiply(dop_attend *x, const shares *l)
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
    return sums(x, "s", "first", l->held * l->rows, l->apart ? l->left : 1, 1, l->lanes);
}

/* Scores become weights in shared memory, one head per subgroup.  Earlier sums must be multiplied by dop_fix, because the largest score
 * may have grown. */
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

/* The largest, or the sum, of a value over the lanes that have scores of the same head. */
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

/* Scores become weights where they are; the subgroup's other lanes need them, and by what earlier sums must be multiplied. */
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

/* A turn of the loop over positions; returns how many steps halved the sums of products. */
static uint32_t
turn(dop_attend *x, const shares *l)
{
    dop_nest *n = &x->n;
    const char *from = l->apart ? "0u" : "base + CP";
    const uint32_t halvings = multiply(x, l);
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

/* Puts what subgroups found of the heads from j0 on into shared memory, `count` values of a lane or heads.  If there is no room for all
 * subgroups they take turns at adding. */
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

/* Adds up and stores the sums of all heads, BATCH at a time, after those of the lanes of a subgroup that share values: of all of them, or
 * where subgroups walk apart of those that a lane keeps. */
static void
meet(dop_attend *x, const shares *l)
{
    dop_nest *n = &x->n;
    const uint32_t values = l->rows * (x->a.value_dim / 4 / l->lanes);
    dop_nest_let(n, "uint", "from", "0u");
    const uint32_t halvings =
        sums(x, "acc", "from", values, l->apart ? 1 : values, l->lanes, x->gen->e.target->subgroup);
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

/* The walk over positions. */
static void
walk(dop_attend *x, const shares *l)
{
    dop_nest *n = &x->n;
    /* Rows from these positions on do not come from memory. */
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
                  l->apart ? "float m[LEFT_HEADS], l[LEFT_HEADS];\n" /* of the lane's heads, the same in every turn */
                             "uint head = 0u;\n"
                             "DOP_EACH(j, LEFT_HEADS) {\n    m[j] = -1e30;\n    l[j] = 0.0;\n}\n"
                             "if (gl_LocalInvocationIndex % SG < R) {\n"
                             "    dop_m[sub * R + gl_LocalInvocationIndex % SG] = -1e30;\n"
                             "    dop_l[sub * R + gl_LocalInvocationIndex % SG] = 0.0;\n}\n"
                           : "for (uint j = gl_LocalInvocationIndex; j < R; j += WG) {\n"
                             "    dop_m[j] = -1e30;\n    dop_l[j] = 0.0;\n}\n");
    dop_stmt *loop = dop_nest_for(n, "base", "own", "hi", "CP");
    loop->in_step = l->apart ? "subgroupMemoryBarrierShared(), subgroupBarrier()" : NULL;
    const uint32_t halvings = turn(x, l);
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
emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    dop_attend x = {.a = dop_attn_at(&gen->site), .whole = true};
    dop_attn *a = &x.a;
    const uint32_t group_wgs = shape(gen, a), made_rows = e->routes ? e->g->max_t : 1;
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
    /* Where the workgroup keeps the rows that this step makes in shared memory, it reads only rows of earlier steps from a cache, and
     * these reads need not be coherent. */
    dop_attend_open(
        &x, gen, &pl, &rows,
        (const char *const[]){a->keeps[0] ? "dop_ldw4" : "dop_ldc4", a->keeps[1] ? "dop_ldw4" : "dop_ldc4"});
    const dop_status st = declare(&x, &l, made_rows);
    dop_attend_begin(&x, begin_early(&x, &l));
    walk(&x, &l);
    meet(&x, &l);
    gen->grid[0] = a->kv * group_wgs;
    gen->grid[1] = e->g->max_t;
    gen->grid[2] = a->splits;
    return st == DOP_OK ? dop_attend_finish(&x) : st;
}

static uint32_t
shared_bytes(dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    const dop_target *t = gen->e.target;
    dop_attn a = dop_attn_at(&gen->site);
    (void)shape(gen, &a);
    uint32_t at_once = positions_of(&a, tile, t), batch = heads_at_once(&a, tile, t);
    uint32_t scores = a.rows * at_once + a.rows * 3 * (tile->apart ? tile->wg / t->subgroup : 1);
    return (a.rows * a.dim + scores + batch * subgroups_at_once(&a, tile, t) * a.value_dim +
            (a.keeps[0] || a.keeps[1] ? (a.dim + a.value_stride) * (gen->e.routes ? gen->e.g->max_t : 1) : 0)) *
               4 +
           dop_tail_bytes(gen, dop_tail_at_once(gen, a.rows));
}

static uint64_t
trips(const dop_site *s, const dop_tile *tile)
{
    const dop_attn a = dop_attn_at(s);
    const uint32_t at_once = tile->positions ? tile->positions : 64;
    const uint32_t rows = a.group / (tile->group_wgs ? tile->group_wgs : 1);
    const uint64_t chunk = 8 + rows * (uint64_t)(dop_halvings(s->t->subgroup) + 4);
    return dop_trips_heads(s, tile, &a, rows) + dop_turns(dop_attn_reaches(s, &a), at_once) * chunk +
           (uint64_t)rows * a.value_dim + 64;
}

/* 32-bit registers of an invocation for cache rows, products and sums, where group_wgs workgroups share a head group. */
static uint32_t
registers_of(const dop_graph *g, const dop_attn *a, const dop_target *t, uint32_t wg, uint32_t group_wgs)
{
    uint32_t lanes = lanes_of(a, t), rows = 64 * lanes / wg, heads = a->group / group_wgs;
    uint32_t pieces = a->dim / 8 / lanes + (values_are_keys(g, a, lanes) ? 0 : a->value_dim / 8 / lanes);
    return rows * pieces * 4 + rows * heads + heads * a->value_dim / lanes;
}

/* 32-bit registers of an invocation for `rows` cache rows, products and sums of `heads` heads, where subgroups walk apart. */
static uint32_t
apart_registers(const dop_graph *g, const dop_attn *a, const dop_target *t, uint32_t heads, uint32_t rows)
{
    uint32_t lanes = lanes_of(a, t), values = a->dim + (values_are_keys(g, a, lanes) ? 0 : a->value_dim);
    return rows * (values / 2 / lanes + heads) + heads * a->value_dim / lanes;
}

/* The fewest workgroups among which a head group can be divided so that an invocation has registers for its part; 0: impossible. */
static uint32_t
least_group_wgs(const dop_site *s, const dop_attn *a, uint32_t wg)
{
    const dop_schedule_numbers *of = &s->t->schedule;
    const uint32_t rows = 64 * lanes_of(a, s->t) / wg;
    for (uint32_t n = 1; n <= a->group; n++)
        if (a->group % n == 0 && rows * a->group / n <= of->decode_products &&
            registers_of(s->g, a, s->t, wg, n) <= of->decode_group_registers)
            return n;
    return 0;
}

/* Lanes of a row must divide a subgroup, and the products that one invocation holds are registers. */
static dop_refusal
refuses(const dop_site *s, uint32_t wg, bool stage)
{
    const dop_target *t = s->t;
    dop_attn a = dop_attn_at(s);
    const dop_analysis *found = s->r->info;
    const bool drafts = stage && s->g->max_q == 1 && dop_attention_cached(s->g, a.id); /* a few rows of one sequence */
    if (s->g->max_t != 1 && !drafts && !dop_attn_mixes(s))
        return (dop_refusal){"several tokens of one sequence", NULL};
    if (s->g->max_t != 1 &&
        (found->attn.query_runs || found->attn.n_writes || found->attn.n_whole || found->attn.merged || found->tail.id))
        return (dop_refusal){"more is made here of each of several tokens than attention", NULL};
    if (!dop_attn_in_eights(s->g, &a))
        return (dop_refusal){"the cache is f32", "`kv` f16"};
    if (a.dim % 8 || a.value_dim % 8 || a.value_start % 8 || a.value_stride % 8 || t->subgroup == 0 ||
        64 % t->subgroup || wg > t->max_workgroup || wg / lanes_of(&a, t) > 64)
        return (dop_refusal){"the values of a head cannot be divided among enough lanes, 8 at a time", NULL};
    uint32_t group_wgs = least_group_wgs(s, &a, wg);
    if (group_wgs == 0)
        return (dop_refusal){"a head has more values than an invocation has registers for", NULL};
    if (s->r->info->attn.merged && !stage && group_wgs * a.kv > dop_template_of(DOP_TPL_attention)->merges)
        return (dop_refusal){"more head groups than can count their splits", NULL};
    return dop_attn_refuses_step(s);
}

static dop_refusal
fits(const dop_site *s)
{
    return refuses(s, s->t->schedule.decode_wg, false);
}

/* Where the step's rows make enough workgroups, the variants in which a single invocation walks over a short head are as fast. */
static const char *
avoid(const dop_site *s)
{
    const dop_attn a = dop_attn_at(s);
    if (s->t->cpu)
        return "sums across lanes are slow on CPU devices";
    return s->g->max_t > 1 && a.dim <= s->t->schedule.decode_short_head &&
                   (uint64_t)s->g->max_t * a.kv > 2ull * s->t->cores
               ? "there are workgroups enough for heads that are short"
               : NULL;
}

/* Where a lane holds much of a row, as in latent attention, a workgroup takes the least time with one
 * head, which leaves registers free and is less code. */
static bool
takes_one_head(const dop_site *s, const dop_attn *a)
{
    return a->dim / 8 / lanes_of(a, s->t) > s->t->schedule.decode_lane_pieces &&
           (!s->r->info->attn.merged || a->group * a->kv <= dop_template_of(DOP_TPL_attention)->merges);
}

/* Sets tile.apart, by which subgroups walk over positions of their own, where `registers` of an invocation hold its rows, products
 * and sums, and where shared memory holds the sums of all subgroups at once. */
static void
walk_apart(const dop_site *s, const dop_attn *a, uint32_t registers, dop_tile *tile)
{
    /* Several tokens make many workgroups. */
    const uint32_t rows = s->t->schedule.decode_apart_rows;
    const uint32_t heads = a->group / (tile->group_wgs ? tile->group_wgs : 1);
    if (s->g->max_t > 1 || heads > s->t->schedule.decode_apart_heads || s->t->cpu || s->t->subgroup < 2 ||
        apart_registers(s->g, a, s->t, heads, rows) > registers ||
        subgroups_at_once(a, tile, s->t) * s->t->subgroup != tile->wg)
        return;
    tile->apart = true;
    tile->positions = tile->wg / lanes_of(a, s->t) * rows;
}

/* What follows from the size of the workgroup; where that is none that `legal` allows, nothing. */
static void
settle(const dop_site *s, dop_tile *tile)
{
    dop_attn a = dop_attn_at(s);
    *tile = (dop_tile){.wg = tile->wg, .bq = 1, .subgroup = tile->subgroup};
    if (refuses(s, tile->wg, false).why)
        return;
    tile->group_wgs = takes_one_head(s, &a) ? a.group : least_group_wgs(s, &a, tile->wg);
    walk_apart(s, &a, s->t->schedule.decode_registers, tile);
}

static void
choose_tile(const dop_site *s, dop_tile *tile)
{
    tile->wg = s->t->schedule.decode_wg;
    settle(s, tile);
}

/* Each set of lanes has equally many rows of the cache at a time. */
static void
legal(dop_check *c)
{
    const dop_attn a = dop_attn_at(c->s);
    const dop_tile *t = c->tile;
    const uint32_t lanes = lanes_of(&a, c->s->t);
    const uint32_t most = dop_pow2_floor(c->s->t->max_workgroup);
    dop_check_power(c, DOP_TILE_NO_wg, c->s->t->subgroup, most < 64 * lanes ? most : 64 * lanes);
    const dop_refusal no = refuses(c->s, t->wg, c->s->routes != NULL);
    if (!dop_check_when(c, !no.why, DOP_TILE_NO_wg, no.why ? no.why : "") ||
        !dop_check_divides(c, DOP_TILE_NO_group_wgs, a.group, "query heads of a KV head"))
        return;
    const uint64_t places = (uint64_t)positions_of(&a, t, c->s->t) * lanes;
    dop_check_when(c, places >= t->wg && places % t->wg == 0, DOP_TILE_NO_wg,
                   "wg must divide the lanes of the positions that are walked over at a time");
}

/* Where KV heads are few, a head group is divided among workgroups as long as there are about enough of them for all
 * `splits`. */
static uint32_t
stage_group_wgs(const dop_site *s, const dop_attn *a, uint32_t splits)
{
    return a->kv * a->group * splits * s->g->max_t * 8 <= s->t->cores * s->t->schedule.decode_stage_busy
               ? a->group
               : least_group_wgs(s, a, s->t->persistent);
}

/* The most splits of a short cache: up to this number a stage divides head groups among more workgroups than for longer caches; 0:
 * it has no form for short caches. */
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
as_stage(const dop_site *s, dop_tile *tile)
{
    dop_attn a = dop_attn_at(s);
    tile->bq = 1;
    tile->whole = s->t->stage_whole;
    tile->least = s->t->split_least;
    tile->group_wgs = stage_group_wgs(s, &a, a.splits);
    /* Long caches: where 64 positions are one row for each invocation, twice as many at a time need half the barriers. */
    if (short_splits(s, &a) > 1 && a.dim == a.value_dim && s->t->persistent * 8 == a.dim * 64)
        tile->positions = s->t->schedule.decode_stage_positions;
    walk_apart(s, &a, s->t->schedule.decode_stage_registers, tile);
    return refuses(s, s->t->persistent, true).why;
}

static uint32_t
as_short_stage(const dop_site *s, const dop_tile *stage, dop_tile *tile)
{
    dop_attn a = dop_attn_at(s);
    uint32_t splits = short_splits(s, &a);
    if (splits < 2)
        return 0;
    tile->splits = splits;
    tile->group_wgs = stage_group_wgs(s, &a, splits);
    tile->positions = 0;
    tile->apart = false;
    walk_apart(s, &a, s->t->schedule.decode_stage_registers, tile);
    return splits * stage->whole;
}

const dop_descriptor dop_descriptor_attention_decode = {
    .settle = settle,
    .legal = legal,
    .fits = fits,
    .avoid = avoid,
    .tile = choose_tile,
    .shared = shared_bytes,
    .emit = emit,
    .trips = trips,
    .stage = DOP_VARIANT_attention_decode,
    .as_stage = as_stage,
    .as_short_stage = as_short_stage,
};
