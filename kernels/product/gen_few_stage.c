/* Small-batch products as stages of a persistent dispatch: receiving of rows, and choice of tiles. */
#include "kernels/product/gen_few_stage.h"

#include "kernels/emit/weight_types.h"
#include "kernels/gen/gen.h"
#include "kernels/gen/products.h"

enum { INT_UNIT_BYTES = 40 /* unit of activations: 32 values, a scale, their sum */ };

/* Returns the bytes of shared memory per unit of one row. Activations stored as f16 are staged as f16. */
static uint32_t
unit_bytes(const dop_site *s, uint32_t unit, bool ints)
{
    const bool half = dop_node_at(s->g, s->r->info->product.act)->type == DOP_TYPE_f16 && unit == 8;
    return ints ? INT_UNIT_BYTES : unit * (half ? 2 : 4);
}

/* Returns the units of a row that are staged at a time: all, or a multiple of 32 that fits in shared memory next to the sums
 * of cooperative lanes. */
static uint32_t
piece_of(const dop_target *t, uint32_t rows, uint32_t k, uint32_t unit, uint32_t unit_bytes)
{
    enum { OTHER_BYTES = 2048, STEP = 32 };
    const uint32_t units = dop_div_up_u32(k, unit), room = (t->shared_bytes - OTHER_BYTES) / (rows * unit_bytes);
    const uint32_t most = room > STEP ? room / STEP * STEP : room > 0 ? room : 1, pieces = dop_div_up_u32(units, most);
    const uint32_t even = dop_div_up_u32(units, pieces);
    return pieces == 1 || most < STEP ? even : dop_div_up_u32(even, STEP) * STEP;
}

/* Returns the bytes of shared memory that attention stages of a persistent dispatch need for queries, scores and this step's
 * rows. Attention's sums are not counted, because they share memory with the rows staged here. */
static uint32_t
attention_bytes(const dop_graph *g)
{
    enum { POSITIONS = 64, LITTLE = 1024 };
    uint32_t most = 0;
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        const dop_node *n = dop_node_at(g, id);
        if (dop_op_of(n->op)->root != DOP_ROOT_attention)
            continue;
        const dop_node *q = dop_node_at(g, n->src[0]);
        const uint32_t heads = q->shape.dim[1].mul, dim = q->shape.dim[2].mul, kv = dop_cache_heads(g, n->src[1]);
        const uint32_t bytes = (heads / kv * (dim + POSITIONS) + g->max_t * 2 * dim) * 4 + LITTLE;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Plans the pieces. In a stage, arrays of other stages need space, too. Floats are then staged as f16 if this saves pieces,
 * and if activations are small like the output of a norm. They are, unless a statistic is known only after the sums. */
dop_few_piece
dop_few_piece_of(const dop_site *s, bool ints, bool stage)
{
    const uint32_t unit = dop_products_unit(s->g, s->r), k = s->r->info->product.depth, rows = s->g->max_t,
                   bytes = unit_bytes(s, unit, ints);
    dop_target t = *s->t;
    dop_few_piece p = {.bytes = bytes, .half = !ints && bytes == unit * 2};
    if (stage)
        t.shared_bytes -= attention_bytes(s->g);
    p.units = piece_of(&t, rows, k, unit, p.bytes);
    if (stage && !ints && !p.half && unit == 8 && p.units < dop_div_up_u32(k, unit) &&
        s->r->info->product.n_stats == 0) {
        p = (dop_few_piece){.bytes = unit * 2, .half = true};
        p.units = piece_of(&t, rows, k, unit, p.bytes);
    }
    p.n = dop_div_up_u32(dop_div_up_u32(k, unit), p.units);
    return p;
}

/* The values of a staged piece that an invocation receives, four adjacent columns at a time. In each batch these are `groups`
 * vec4s of every row or, for short rows, one vec4 of every `apart`th row. */
typedef struct share {
    uint32_t columns; /* vec4s per row of a piece */
    uint32_t apart;   /* rows received concurrently: a divisor of the rows of the step */
    uint32_t rows;    /* rows of which an invocation receives values */
    uint32_t groups, batches;
    bool whole; /* every invocation has a value and all pieces are equally long, so no bounds test is needed */
} share;

static share
plan_share(const dop_gen *gen, const dop_parts *p, const dop_few_piece *piece)
{
    enum { MOST_LOOKS = 8 }; /* mailbox reads in flight; each needs four registers */
    const uint32_t wg = gen->choice->tile.wg, n = gen->e.g->max_t, sg = gen->e.target->subgroup;
    share s = {.columns = piece->units * p->unit / 4, .apart = 1};
    while (s.columns % sg == 0 && wg % s.columns == 0 && s.columns * s.apart * 2 <= wg && n % (s.apart * 2) == 0)
        s.apart *= 2;
    s.rows = n / s.apart;
    const uint32_t each = s.apart > 1 ? 1 : dop_div_up_u32(s.columns, wg), most = MOST_LOOKS / s.rows;
    s.groups = each < most ? each : most > 0 ? most : 1;
    s.batches = dop_div_up_u32(each, s.groups);
    s.whole = piece->n * piece->units * p->unit == p->k &&
              (s.apart > 1 ? s.columns * s.apart == wg : s.columns == wg * s.groups * s.batches);
    return s;
}

/* Returns the number of subgroups that share the sum of one row's statistic. */
static uint32_t
count_summing_subgroups(const dop_gen *gen, const share *s)
{
    const uint32_t sg = gen->e.target->subgroup;
    return s->apart > 1 ? s->columns / sg : gen->choice->tile.wg / sg;
}

uint32_t
dop_few_stat_values(const dop_gen *gen, const dop_parts *p, const dop_few_piece *piece)
{
    return gen->choice->tile.wg / gen->e.target->subgroup * plan_share(gen, p, piece).rows;
}

/* Emits code that stores each subgroup's partial sums of statistics, over all pieces, for each of its rows. `done` gets code
 * that adds up the partial sums of row t. */
static void
put_stats(dop_gen *gen, const dop_parts *p, const share *s, dop_buf *receive, dop_buf *done)
{
    dop_emit *e = &gen->e;
    const uint32_t n = count_summing_subgroups(gen, s);
    for (uint32_t i = 0; i < p->n_stats; i++) {
        for (uint32_t k = 0; k < s->rows; k++)
            dop_buf_printf(receive,
                           "    s%u_%u = subgroupAdd(s%u_%u);\n    if (gl_LocalInvocationIndex %% SG == 0u)\n"
                           "        dop_rs%u[gl_LocalInvocationIndex / SG * %uu + %uu] = s%u_%u + (c0 == 0u ? 0.0 : "
                           "dop_rs%u[gl_LocalInvocationIndex / SG * %uu + %uu]);\n",
                           i, k, i, k, i, s->rows, k, i, k, i, s->rows, k);
        dop_buf_printf(done,
                       "                float rs%u = 0.0;\n                [[unroll]] for (uint k = 0u; k < %uu; k++)\n"
                       "                    rs%u += dop_rs%u[(t %% %uu * %uu + k) * %uu + t / %uu];\n"
                       "                rs%u = inversesqrt(rs%u / %u.0 + %.9g);\n",
                       i, n, i, i, s->apart, n, s->rows, s->apart, i, i, p->k,
                       dop_node_f(e->g, p->stats[i], DOP_A_eps));
    }
}

/* Emits code that receives one group of columns in all rows of the invocation. */
static void
receive_group(dop_gen *gen, const dop_parts *p, const dop_few_piece *piece, const share *s, uint32_t g)
{
    dop_emit *e = &gen->e;
    const char *guard = s->whole ? "" : dop_emit_str(e, "if (in%u) ", g);
    for (uint32_t k = 0; k < s->rows; k++) {
        const char *t = s->apart == 1 ? dop_emit_str(e, "%uu", k)
                        : k           ? dop_emit_str(e, "(row + %uu)", k * s->apart)
                                      : "row";
        const dop_index ix = {t, dop_emit_str(e, "col%u", g)};
        const char *x = dop_emit_value(e, p->act, ix, 4);
        for (uint32_t i = 0; i < p->n_stats; i++)
            dop_emit_line(e, "%ss%u_%u += dop_sumsq(%s);", guard, i, k,
                          dop_emit_value(e, dop_node_at(e->g, p->stats[i])->src[0], ix, 4));
        dop_emit_line(e, "%s{ %s(%s * %uu + i%u, %s); }", guard, p->ints ? "dop_xi_put" : "DOP_X_PUT", t,
                      piece->units * p->unit / 4, g, x);
    }
}

void
dop_few_receive(dop_gen *gen, const dop_parts *p, const dop_few_piece *piece, dop_buf *receive, dop_buf *done)
{
    dop_emit *e = &gen->e;
    const share s = plan_share(gen, p, piece);
    dop_buf constants = {0}, early = {0}, text = {0};
    for (uint32_t i = 0; i < p->n_stats; i++)
        for (uint32_t k = 0; k < s.rows; k++)
            dop_buf_printf(receive, "    float s%u_%u = 0.0;\n", i, k);
    if (s.apart > 1)
        dop_buf_printf(receive, "    uint row = gl_LocalInvocationIndex / %uu %% %uu;\n", s.columns, s.apart);
    dop_buf_printf(receive, "    for (uint batch = 0u; batch < %uu; batch++) {\n", s.batches);
    for (uint32_t g = 0; g < s.groups; g++) {
        dop_buf_printf(receive, "    uint i%u = gl_LocalInvocationIndex %% %uu + (batch * %uu + %uu) * WG;\n", g,
                       s.apart > 1 ? s.columns : gen->choice->tile.wg, s.groups, g);
        if (s.whole)
            dop_buf_printf(receive, "    uint col%u = c0 + i%u * 4u;\n", g, g);
        else
            dop_buf_printf(receive,
                           "    bool in%u = i%u < %uu && c0 + i%u * 4u < %uu%s;\n"
                           "    uint col%u = min(c0 + i%u * 4u, %uu);\n",
                           g, g, s.columns, g, p->k,
                           s.apart > 1 ? dop_emit_str(e, " && gl_LocalInvocationIndex < %uu", s.columns * s.apart) : "",
                           g, g, p->k - 4);
    }
    e->constants = &constants;
    e->early = &early;
    dop_emit_scope(e, &text, "    ");
    for (uint32_t g = 0; g < s.groups; g++)
        receive_group(gen, p, piece, &s, g);
    e->constants = e->early = NULL;
    dop_buf_puts(receive, constants.data ? constants.data : "");
    dop_buf_puts(receive, early.data ? early.data : "");
    dop_buf_puts(receive, text.data ? text.data : "");
    dop_buf_puts(receive, "    }\n");
    put_stats(gen, p, &s, receive, done);
    dop_buf_finish(&constants);
    dop_buf_finish(&early);
    dop_buf_finish(&text);
}

uint32_t
dop_few_groups(const dop_site *s, uint32_t rows)
{
    const dop_product_facts *a = &s->r->info->product;
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->n_parts; i++)
        if (!dop_region_part_is_awaited(s->r, i))
            n += dop_div_up_u32(dop_product_cols(s->g, a->parts[i].mats[0]), rows);
    return n;
}

/* Returns the cycles of a multiprocessor per step of a subgroup, estimated by instructions: products, and 16-byte loads of
 * activations from shared memory, which adjacent groups of lanes share. */
static uint32_t
cost_of_step(const dop_schedule_numbers *in, bool ints, uint32_t rows, uint32_t lanes, uint32_t columns)
{
    const uint32_t waves = lanes >= 32 ? 4 : lanes > 8 ? lanes / 8 : 1;
    return columns * (in->few_stage_column + rows * (ints ? in->few_stage_int : in->few_stage_float)) +
           rows * (in->few_stage_load * waves + ints);
}

/* Chooses the tile of a stage: every core has one workgroup, which stages the rows of the step and walks over its share of
 * the matrices. */
const char *
dop_few_stage(const dop_site *s, dop_tile *tile)
{
    const dop_schedule_numbers *in = &s->t->schedule;
    const dop_products p = dop_products_of(s);
    const dop_product_facts *a = &s->r->info->product;
    const bool ints = dop_type_of(p.type)->kind == DOP_KIND_QUANT;
    const uint32_t unit = ints ? 32 : 8, n = s->g->max_t, units = p.k / unit;
    const dop_few_piece piece = dop_few_piece_of(s, ints, true);
    uint64_t best = UINT64_MAX;
    if (p.k % unit)
        return "rows of products are no whole units";
    for (uint32_t lanes = piece.units < 8 ? dop_pow2_floor(piece.units) : 8; lanes <= 128 && lanes <= tile->wg;
         lanes *= 2)
        for (uint32_t rows = 1; rows <= in->few_stage_rows; rows++) {
            const uint32_t per = tile->wg / lanes * rows, columns = rows * a->most_mats;
            uint32_t loops = 1;
            while (loops * per < p.rows && dop_few_groups(s, per * loops) > s->t->cores)
                loops++;
            const uint32_t steps = dop_div_up_u32(units, lanes);
            /* If rows do not fit in shared memory, they are received again for every set. */
            const uint64_t cost = (uint64_t)loops * (steps * cost_of_step(in, ints, n, lanes, columns) +
                                                     columns * n * in->few_stage_sum + in->few_stage_set) +
                                  (piece.n > 1 ? loops - 1 : 0) * (uint64_t)(units * unit * n / tile->wg);
            if (columns * n > in->few_stage_sums || lanes > piece.units || cost >= best)
                continue;
            best = cost;
            tile->lanes = lanes;
            tile->rows = rows;
            tile->loops = loops;
        }
    if (best == UINT64_MAX)
        return "rows of products are too short";
    tile->unroll = 1;
    while (!ints && tile->unroll * 2 * tile->rows * a->most_mats <= in->few_stage_loads &&
           tile->unroll * 2 * tile->lanes <= piece.units)
        tile->unroll *= 2;
    return NULL;
}
