/* Matmul regions of several tokens: tiles through shared memory. */
#include "kernels/gen.h"

#include "kernels/weight_types.h"

#include <string.h>

/* x of one (token t, column c .. c+3), and its squares for the row statistic. */
static void
load_tile(dop_gen *gen, const dop_parts *p, const char *k, dop_buf *load)
{
    dop_emit *e = &gen->e;
    const char *in = "                ", *c = "c";
    const dop_blocks b = dop_blocks_of(e->g, e->r);
    if (b.by_pair) {
        dop_buf_printf(load, "%suint s = %s;\n", in, dop_blocks_column(gen, &b, "dop_pair[m]", p->k));
        c = "s";
    }
    if (dop_emit_wide(e, p->act)) {
        dop_emit_scope(e, load, in);
        dop_emit_line(e, "x = %s;", dop_emit_value(e, p->act, (dop_index){"t", c}, 4));
        for (uint32_t i = 0; i < p->n_stats; i++)
            dop_emit_line(e, "stat%u[i / WG] += dop_sumsq(%s);", i,
                          dop_emit_value(e, dop_node_at(e->g, p->stats[i])->src[0], (dop_index){"t", "c"}, 4));
        return;
    }
    dop_buf_printf(load, "%sfor (uint j = 0u; j < 4u; j++)\n%s    if (c + j < %s) {\n", in, in, k);
    dop_emit_scope(e, load, "                        ");
    dop_emit_line(e, "x[j] = %s;", dop_emit_value(e, p->act, (dop_index){"t", dop_emit_str(e, "(%s + j)", c)}, 1));
    for (uint32_t i = 0; i < p->n_stats; i++)
        dop_emit_line(e, "stat%u[i / WG] += dop_sumsq(%s);", i,
                      dop_emit_value(e, dop_node_at(e->g, p->stats[i])->src[0], (dop_index){"t", "(c + j)"}, 1));
    dop_buf_printf(load, "%s    }\n", in);
}

/* Depth of a product as GLSL: values of a row of the activation and of the matrix, and the `aux` of its storage type.
 * They are numbers of the dispatch where the region is one product of stored values: a layer has several of those, which then
 * share a kernel, and these loops are as fast with a limit from the push constants (those of matrix units are not).  Elsewhere
 * they are constants. */
typedef struct depth {
    const char *k, **stride, **aux; /* [n_mats] of the part */
} depth;

/* The number as a power of two times the rest, so that the compiler sees which low bits of an index are 0. */
static const char *
even_number(dop_emit *e, uint32_t value)
{
    uint32_t factor = 1;
    while (factor < 32 && value % (factor * 2) == 0)
        factor *= 2;
    return dop_emit_str(e, "(%s * %uu)", dop_emit_number(e, value / factor), factor);
}

static depth
depth_of(dop_gen *gen, const dop_parts *p, const dop_segment *part)
{
    dop_emit *e = &gen->e;
    depth d = {.stride = dop_arena_alloc(e->g->arena, part->n_mats * sizeof *d.stride),
               .aux = dop_arena_alloc(e->g->arena, part->n_mats * sizeof *d.aux)};
    if (!d.stride || !d.aux) {
        e->status = DOP_FAIL(e->diag, DOP_E_NOMEM, "out of memory");
        return d;
    }
    dop_node_id act = dop_node_base(e->g, p->act, NULL);
    bool numbers = !dop_blocks_of(e->g, e->r).id && p->n == 1 && part->n_mats == 1 && p->n_stats == 0 &&
                   !dop_region_has(e->r, act) && dop_row_values(e->g, act) == p->k;
    if (numbers) {
        e->long_row = act;
        d.k = e->row_values = even_number(e, p->k);
    } else {
        d.k = dop_emit_str(e, "%uu", p->k);
    }
    for (uint32_t m = 0; m < part->n_mats; m++) {
        dop_node_id w = dop_node_at(e->g, part->mats[m])->src[1];
        uint32_t stride = dop_row_values(e->g, w);
        d.aux[m] = dop_emit_weight(e, w);
        if (numbers && strcmp(d.aux[m], "0u") != 0)
            d.aux[m] = even_number(e, dop_weight_aux(e->g, w));
        d.stride[m] = numbers ? even_number(e, stride) : dop_emit_str(e, "%uu", stride);
    }
    return d;
}

static void
load_weights(dop_gen *gen, const dop_segment *part, const depth *deep, dop_buf *out)
{
    dop_emit *e = &gen->e;
    for (uint32_t m = 0; m < part->n_mats; m++) {
        dop_node_id w = dop_node_at(e->g, part->mats[m])->src[1];
        const char *a = dop_emit_matrix(e, w, "dop_matrix"), *type = dop_type_of(dop_node_at(e->g, w)->type)->name;
        dop_buf_printf(out,
                       "        for (uint i = gl_LocalInvocationIndex; i < BN * BK / 4u; i += WG) {\n"
                       "            uint n = i / (BK / 4u), k = (i %% (BK / 4u)) * 4u, c = k0 + k;\n"
                       "            vec4 w = vec4(0.0);\n"
                       "            if (c < %s)\n"
                       "                w = dop_w4_%s(%s, min(n0 + n, %uu) * %s + c, %s);\n"
                       "            for (uint j = 0u; j < 4u; j++)\n"
                       "                dop_b[(%uu * BK + k + j) * (BN + 1u) + n] = w[j];\n"
                       "        }\n",
                       deep->stride[m], type, a, part->rows - 1, deep->stride[m], deep->aux[m], m);
    }
}

static dop_status
emit_part(dop_gen *gen, const dop_parts *p, uint32_t index, dop_buf *out)
{
    dop_emit *e = &gen->e;
    const dop_segment *part = &p->part[index];
    const dop_tile *tile = &gen->choice->tile;
    dop_keys keys = {0};
    dop_buf *load = dop_keys_text(gen, &keys, "LOAD"), *load_b = dop_keys_text(gen, &keys, "LOAD_B"),
            *store = dop_keys_text(gen, &keys, "STORE"), *init = dop_keys_text(gen, &keys, "STATS_INIT"),
            *done = dop_keys_text(gen, &keys, "STATS_DONE"), *row = dop_keys_text(gen, &keys, "STATS_ROW");
    uint32_t n_binds = e->n_binds, passes = dop_div_up_u32(tile->bm * tile->bk / 4, tile->wg);
    depth deep = depth_of(gen, p, part);
    if (e->status != DOP_OK)
        return e->status;
    load_tile(gen, p, deep.k, load);
    load_weights(gen, part, &deep, load_b);
    for (uint32_t i = 0; i < p->n_stats; i++) {
        dop_buf_printf(init, "    float stat%u[%u];\n    for (uint i = 0u; i < %uu; i++)\n        stat%u[i] = 0.0;\n",
                       i, passes, passes, i);
        dop_buf_printf(done,
                       "    for (uint i = 0u; i < %uu; i++)\n"
                       "        if (i * WG + gl_LocalInvocationIndex < BM * BK / 4u)\n"
                       "            dop_rs%u[i * WG + gl_LocalInvocationIndex] = stat%u[i];\n"
                       "    barrier();\n",
                       passes, i, i);
        dop_buf_printf(row,
                       "        float rs%u = 0.0;\n"
                       "        for (uint q = 0u; q < BK / 4u; q++)\n"
                       "            rs%u += dop_rs%u[(ty * TM + i) * (BK / 4u) + q];\n"
                       "        rs%u = inversesqrt(rs%u / %u.0 + %.9g);\n",
                       i, i, i, i, i, p->k, dop_node_f(e->g, p->stats[i], DOP_A_eps));
        dop_emit_bind(e, p->stats[i], dop_emit_str(e, "rs%u", i), false, NULL);
    }
    for (uint32_t m = 0; m < part->n_mats; m++)
        dop_emit_bind(e, part->mats[m], dop_emit_str(e, "acc[(%uu * TM + i) * TN + j]", m), false, NULL);
    const dop_blocks b = dop_blocks_of(e->g, e->r);
    const char *pair = "dop_pair[ty * TM + i]";
    dop_index ix = {"t", b.id ? "s" : "c"};
    if (b.id)
        dop_buf_printf(store, "                uint s = %s;\n", dop_blocks_column(gen, &b, pair, part->rows));
    dop_emit_scope(e, store, "                ");
    for (uint32_t i = 0; i < part->n_outs; i++)
        dop_emit_store(e, part->outs[i], ix, 1, dop_emit_value(e, part->outs[i], ix, 1));
    DOP_NUMBERS(gen, &keys, NULL, {"P", index}, {"M", part->n_mats}, {"N", part->rows});
    dop_keys_set(&keys, "K", deep.k);
    dop_keys_set(&keys, "N_TOKENS", dop_emit_n_tokens(e));
    dop_keys_set(&keys, "LOAD_ROW", b.id ? dop_blocks_row(gen, &b, "dop_pair[m]") : "t0 + m");
    dop_keys_set(&keys, "STORE_ROW", b.id ? dop_blocks_row(gen, &b, pair) : "t0 + ty * TM + i");
    dop_status st = e->status == DOP_OK ? dop_template_fill(gen, "matmul_part.glsl", &keys, out) : e->status;
    e->n_binds = n_binds;
    return st;
}

static dop_status
emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    dop_parts p;
    dop_keys keys = {0};
    dop_buf *decls = dop_keys_text(gen, &keys, "DECLS"), *begin = dop_keys_text(gen, &keys, "BEGIN"),
            *parts = dop_keys_text(gen, &keys, "PARTS"), *calls = dop_keys_text(gen, &keys, "CALLS");
    dop_status st = dop_gen_parts(gen, &p);
    if (st != DOP_OK)
        return st;
    uint32_t first = 0, mats = 1;
    for (uint32_t i = 0; i < p.n_stats; i++)
        dop_buf_printf(decls, "shared float dop_rs%u[%u];\n", i, tile->bm * tile->bk / 4);
    for (uint32_t i = 0; st == DOP_OK && i < p.n; i++) {
        uint32_t n_wg = dop_div_up_u32(p.part[i].rows, tile->bn);
        mats = p.part[i].n_mats > mats ? p.part[i].n_mats : mats;
        st = emit_part(gen, &p, i, parts);
        const char *call = dop_emit_str(e, "dop_part%u(wg - %uu, t0);", i, first);
        first += n_wg;
        dop_gen_call(calls, call, i + 1 < p.n ? first : 0);
    }
    const dop_blocks b = dop_blocks_of(e->g, e->r);
    if (b.id) {
        dop_blocks_declare(&b, decls);
        dop_blocks_begin(gen, &b, "gl_WorkGroupID.y", begin);
    } else {
        dop_buf_printf(begin,
                       "    uint t0 = gl_WorkGroupID.y * BM;\n"
                       "    if (t0 >= %s)\n"
                       "        return;\n",
                       dop_emit_n_tokens(e));
    }
    gen->grid[0] = first;
    gen->grid[1] = b.id ? b.n * (b.span / tile->bm) : dop_div_up_u32(e->g->max_t, tile->bm);
    gen->grid[2] = 1;
    DOP_NUMBERS(gen, &keys, &gen->main, {"BM", tile->bm}, {"BN", tile->bn}, {"BK", tile->bk}, {"TM", tile->tm},
                {"TN", tile->tn}, {"M_MAX", mats});
    if (st == DOP_OK)
        st = e->status == DOP_OK ? dop_template_fill(gen, "matmul.glsl", &keys, &gen->main) : e->status;
    return st;
}

static uint32_t
shared_bytes(dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    uint32_t mats = 1;
    dop_parts p;
    if (dop_gen_parts(gen, &p) != DOP_OK)
        return 0; /* generation says why */
    for (uint32_t i = 0; i < p.n; i++)
        mats = p.part[i].n_mats > mats ? p.part[i].n_mats : mats;
    return ((tile->bm + 1) + mats * (tile->bn + 1)) * tile->bk * 4 + p.n_stats * tile->bm * tile->bk +
           dop_blocks_bytes(gen, tile->bm);
}

/* rows: of the step, or of a block, which is whole tiles then */
static void
tile_of_rows(const dop_site *s, uint32_t rows, dop_tile *tile)
{
    const dop_target *t = s->t;
    dop_products p = dop_products_of(s);
    uint32_t mats = p.most < 2 ? 2 : p.most;
    tile->bm = rows >= 64 ? 64 : rows >= 32 ? 32 : rows >= 16 ? 16 : 8;
    tile->bn = t->schedule.tile_rows;
    tile->bk = 32;
    /* Activations, two weight tiles (gate and up) or more, and a quarter more for statistics and sums. */
    while ((tile->bm + mats * tile->bn + mats + 1) * tile->bk * 4 > t->shared_bytes / 5 * 4 &&
           (tile->bn > 32 || tile->bm > 8 || tile->bk > 8)) {
        if (tile->bn > 32)
            tile->bn /= 2;
        else if (tile->bm > 8)
            tile->bm /= 2;
        else
            tile->bk /= 2;
    }
    tile->tm = tile->bm >= 32 ? 4 : 2;
    tile->tn = 4;
    tile->wg = tile->bm / tile->tm * (tile->bn / tile->tn);
    while (tile->wg > t->max_workgroup) {
        tile->tm *= 2;
        tile->wg /= 2;
    }
}

static void
choose_tile(const dop_site *s, dop_tile *tile)
{
    tile_of_rows(s, s->g->max_t, tile);
}

static void
choose_tile_at(const dop_site *s, dop_tile *tile)
{
    tile_of_rows(s, dop_blocks_of(s->g, s->r).span, tile);
}

const dop_descriptor dop_descriptor_matmul_tiled = {
    .fits = dop_products_refuse,
    .tile = choose_tile,
    .shared = shared_bytes,
    .emit = emit,
    .trips = dop_trips_tiles,
};
const dop_descriptor dop_descriptor_expert_tiled = {
    .fits = dop_blocks_refuse,
    .tile = choose_tile_at,
    .shared = shared_bytes,
    .emit = emit,
    .trips = dop_trips_tiles,
};
