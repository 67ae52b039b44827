/* Matmul regions of a few tokens on GPUs: weights are read and unpacked once for all of them, as by a gemv. */
#include "kernels/gen.h"

#include "kernels/weight_types.h"

enum {
    MOST_ROWS = 8,
    INT_UNIT = 32,
    INT_UNIT_BYTES = 40 /* of a unit of activations: 32 values, a factor, their sum */
};

static uint32_t
unit_of(const dop_graph *g, const dop_region *r)
{
    uint32_t unit = 8;
    for (uint32_t i = 0; i < r->info->n_parts; i++) {
        uint32_t u = dop_part_unit(g, &r->info->parts[i]);
        unit = u > unit ? u : unit;
    }
    return unit;
}

/* Units of a row that lie in shared memory at a time: they fill at most half of it, in pieces of equal size. */
static uint32_t
piece_of(const dop_target *t, uint32_t rows, uint32_t k, uint32_t unit, bool ints)
{
    uint32_t bytes = rows * (ints ? INT_UNIT_BYTES : unit * 4), units = dop_div_up_u32(k, unit);
    uint32_t most = t->shared_bytes / 4 * 3 / bytes, pieces = dop_div_up_u32(units, most ? most : 1);
    return dop_div_up_u32(units, pieces);
}

static void
declare_rows(dop_gen *gen, const dop_parts *p, uint32_t piece, dop_buf *decls)
{
    uint32_t steps = gen->e.g->max_t * piece, quarters = p->unit / 4;
    dop_keys keys = {0};
    dop_keys_num(gen, &keys, "STEPS", steps);
    if (gen->descriptor->ints) {
        gen->e.status = dop_template_fill(gen, "gemv_i8.glsl", &keys, decls);
        dop_buf_puts(decls, "#define DOP_X_PUT(i, x) dop_xi_put(i, x)\n");
        return;
    }
    /* A quarter of all steps, then the next one: neighbours, which take neighbouring steps, read neighbouring words. */
    dop_buf_printf(decls,
                   "shared vec4 dop_x[%u];\n#define DOP_X_PUT(i, x) dop_x[(i) %% %uu * %uu + (i) / %uu] = x\n"
                   "#define DOP_X_GET(v, q) dop_x[(q) * %uu + (v)]\n",
                   steps * quarters, quarters, steps, quarters, steps);
}

/* Products of step j's units with all rows. */
static void
emit_dots(dop_gen *gen, const dop_parts *p, const dop_part *part, dop_buf *dots)
{
    const dop_graph *g = gen->e.g;
    const uint32_t rows = gen->choice->tile.rows, n = g->max_t;
    const char *in = "                ";
    if (gen->descriptor->ints)
        dop_buf_printf(
            dots,
            "%sdop_xi x[%u];\n%s[[unroll]] for (uint t = 0u; t < R; t++)\n%s    x[t] = dop_xi_get(t * PIECE + v);\n",
            in, n, in, in);
    else
        dop_buf_printf(
            dots,
            "%svec4 x[%u][%u];\n%s[[unroll]] for (uint t = 0u; t < R; t++)\n"
            "%s    [[unroll]] for (uint q = 0u; q < %uu; q++)\n%s        x[t][q] = DOP_X_GET(t * PIECE + v, q);\n",
            in, n, p->unit / 4, in, in, p->unit / 4, in);
    for (uint32_t m = 0; m < part->n_mats; m++) {
        dop_type type = dop_node_at(g, dop_node_at(g, part->mats[m])->src[1])->type;
        dop_buf_printf(dots,
                       "%s[[unroll]] for (uint r = 0u; r < %uu; r++)\n%s    [[unroll]] for (uint t = 0u; t < R; t++)\n"
                       "%s        acc[(%u + r) * %u + t] += dop_wdot%s_%s(q%u[j * %uu + r], x[t]);\n",
                       in, rows, in, in, m * rows, n, gen->descriptor->ints ? "i" : "", dop_type_of(type)->name, m,
                       rows);
    }
}

static dop_status
emit_part(dop_gen *gen, const dop_parts *p, uint32_t index, dop_buf *out)
{
    dop_emit *e = &gen->e;
    const dop_part *part = &p->part[index];
    const dop_tile *tile = &gen->choice->tile;
    const dop_index ix = {"t", "c"};
    dop_keys keys = {0};
    dop_buf begin = {0}, fetch = {0}, raw = {0}, dots = {0}, store = {0};
    uint32_t n_binds = e->n_binds;
    for (uint32_t m = 0; m < part->n_mats; m++)
        dop_emit_bind(e, part->mats[m], dop_emit_str(e, "acc[(%u + r) * %u + t]", m * tile->rows, e->g->max_t), false,
                      NULL);
    dop_gemv_fetch(gen, p, index, &begin, &fetch, &raw);
    emit_dots(gen, p, part, &dots);
    dop_emit_scope(e, &store, "                ");
    for (uint32_t i = 0; i < part->n_outs; i++)
        dop_emit_store(e, part->outs[i], ix, 1, dop_emit_value(e, part->outs[i], ix, 1));
    dop_keys_num(gen, &keys, "P", index);
    dop_keys_num(gen, &keys, "M", part->n_mats);
    dop_keys_num(gen, &keys, "N", part->rows);
    dop_keys_num(gen, &keys, "R", e->g->max_t);
    dop_keys_num(gen, &keys, "U", p->unit);
    dop_keys_num(gen, &keys, "UNITS", dop_div_up_u32(p->k, p->unit));
    dop_keys_num(gen, &keys, "ROWS", tile->rows);
    dop_keys_num(gen, &keys, "UNROLL", tile->unroll);
    dop_keys_set(&keys, "N_TOKENS", dop_emit_n_tokens(e));
    dop_keys_set(&keys, "FETCH", fetch.data ? fetch.data : "");
    dop_keys_set(&keys, "RAW", raw.data ? raw.data : "");
    dop_keys_set(&keys, "Q", dop_gemv_list(gen, part, ", q#"));
    dop_keys_set(&keys, "NEXT", dop_gemv_list(gen, part, ", n#"));
    dop_keys_set(&keys, "SHIFT", dop_gemv_list(gen, part, " q# = n#;"));
    dop_keys_set(&keys, "DOTS", dots.data ? dots.data : "");
    dop_keys_set(&keys, "STORE", store.data ? store.data : "");
    dop_status st = e->status == DOP_OK ? dop_template_fill(gen, "few_part.glsl", &keys, out) : e->status;
    e->n_binds = n_binds;
    dop_buf_finish(&begin);
    dop_buf_finish(&fetch);
    dop_buf_finish(&raw);
    dop_buf_finish(&dots);
    dop_buf_finish(&store);
    return st;
}

static dop_status
emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    dop_parts p;
    dop_keys keys = {0};
    dop_buf decls = {0}, load = {0}, parts = {0}, calls = {0}, team = {0};
    dop_status st = dop_gen_parts(gen, &p);
    if (st != DOP_OK)
        return st;
    uint32_t first = 0, per_wg = tile->wg / tile->lanes * tile->rows, n = e->g->max_t;
    uint32_t piece = piece_of(e->target, n, p.k, p.unit, gen->descriptor->ints);
    declare_rows(gen, &p, piece, &decls);
    dop_emit_scope(e, &load, "            ");
    dop_emit_line(e, "x = %s;", dop_emit_value(e, p.act, (dop_index){"t", "c"}, 4));
    for (uint32_t i = 0; st == DOP_OK && i < p.n; i++) {
        uint32_t n_wg = dop_div_up_u32(p.part[i].rows, per_wg);
        st = emit_part(gen, &p, i, &parts);
        const char *call = dop_emit_str(e, "dop_part%u(wg - %uu);", i, first);
        first += n_wg;
        dop_gen_call(&calls, call, i + 1 < p.n ? first : 0);
    }
    gen->grid[0] = first;
    gen->grid[1] = gen->grid[2] = 1;
    dop_keys_num(gen, &keys, "R", n);
    dop_keys_num(gen, &keys, "ROWS", tile->rows);
    dop_keys_num(gen, &keys, "PIECE", piece);
    dop_keys_num(gen, &keys, "U", p.unit);
    dop_keys_num(gen, &keys, "K", p.k);
    dop_keys_set(&keys, "N_TOKENS", dop_emit_n_tokens(e));
    if (st == DOP_OK)
        st = dop_gen_team(gen, &team);
    dop_keys_set(&keys, "TEAM", team.data ? team.data : "");
    dop_keys_set(&keys, "DECLS", decls.data ? decls.data : "");
    dop_keys_set(&keys, "LOAD", load.data ? load.data : "");
    dop_keys_set(&keys, "PARTS", parts.data ? parts.data : "");
    dop_keys_set(&keys, "CALLS", calls.data ? calls.data : "");
    if (st == DOP_OK)
        st = e->status == DOP_OK ? dop_template_fill(gen, "few.glsl", &keys, &gen->main) : e->status;
    dop_buf_finish(&team);
    dop_buf_finish(&decls);
    dop_buf_finish(&load);
    dop_buf_finish(&parts);
    dop_buf_finish(&calls);
    return st;
}

/* Every workgroup stages all rows, which takes as long as its share of the weights.  So there are only as many workgroups as
 * multiprocessors, or a few less. */
static void
choose_tile(const dop_site *s, dop_tile *tile)
{
    const dop_target *t = s->t;
    dop_products p = dop_products_of(s);
    const uint32_t unit = unit_of(s->g, s->r), teams = p.rows / p.most, units = dop_div_up_u32(p.k, unit);
    const bool quant = dop_type_of(p.type)->kind == DOP_KIND_QUANT;
    tile->wg = t->max_workgroup >= 512 && t->cores > 1 ? 512 : tile->wg;
    tile->lanes = quant ? 8 : 16;
    tile->rows = p.most > 2 ? 1 : 2;
    tile->unroll = 1;
    while (tile->lanes < 128 && tile->lanes * 2 <= tile->wg &&
           teams / (tile->wg / tile->lanes * tile->rows) < t->cores * 7 / 10)
        tile->lanes *= 2;
    const uint32_t piece = piece_of(t, s->g->max_t, p.k, unit, unit == INT_UNIT && quant);
    while (tile->lanes > 4 && (tile->lanes > units || tile->lanes > piece))
        tile->lanes /= 2;
}

static uint32_t
shared_bytes(dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    dop_parts p;
    if (dop_gen_parts(gen, &p) != DOP_OK)
        return 0; /* generation says why */
    const uint32_t n = gen->e.g->max_t, piece = piece_of(gen->e.target, n, p.k, p.unit, gen->descriptor->ints);
    return n * piece * (gen->descriptor->ints ? INT_UNIT_BYTES : p.unit * 4) + tile->wg / gen->e.target->subgroup * 4;
}

static dop_refusal
refuses(const dop_site *s)
{
    const dop_analysis *a = s->r->info;
    if (s->g->max_t < 2 || s->g->max_t > MOST_ROWS)
        return (dop_refusal){"it is for steps of 2 to 8 rows", NULL};
    if (a->n_stats > 0 || a->staged || a->slots > 1 || !dop_region_wide(s->g, s->r, a->act))
        return (dop_refusal){"it takes plain activations only, four at a time", NULL};
    if (s->t->subgroup < 8)
        return (dop_refusal){"subgroups are smaller than 8", NULL};
    return dop_products_refuse(s);
}

static dop_refusal
fits(const dop_site *s)
{
    dop_refusal no = refuses(s);
    if (no.why)
        return no;
    for (uint32_t i = 0; i < s->r->info->n_products; i++) {
        const dop_node *n = dop_node_at(s->g, s->r->info->products[i]);
        if (dop_weight_type_of(dop_node_at(s->g, n->src[1])->type)->unit != 8)
            return (dop_refusal){"blocks are too large for floats of several rows", "int_dot: prefer"};
    }
    return no;
}

static dop_refusal
fits_ints(const dop_site *s)
{
    dop_refusal no = refuses(s);
    return no.why ? no : dop_int8_refuses(s);
}

/* Measured on an H200 (tests/bench/RESULTS.md): matrix units (matmul_coop_few) take about as long for one row as for
 * sixteen.  In that time packed integer products make four rows, and floats fewer than that where rows are long. */
enum { MOST_ROWS_BEFORE_MATRIX_UNITS = 4 };

static const char *
avoid_more_than(const dop_site *s, uint32_t most)
{
    if (s->t->cpu)
        return "sums across lanes are slow on CPU devices";
    bool units = dop_matrix_fit_of(s->t, s->g->max_t, dop_products_of(s).k) == DOP_MATRIX_FIT_yes;
    return units && s->g->max_t > most ? "matrix units take less time for these rows" : NULL;
}

static const char *
avoid(const dop_site *s)
{
    return avoid_more_than(s, 0);
}

static const char *
avoid_ints(const dop_site *s)
{
    const char *no = dop_int8_avoid(s);
    return no ? no : avoid_more_than(s, MOST_ROWS_BEFORE_MATRIX_UNITS);
}

const dop_descriptor dop_descriptor_few = {
    .fits = fits,
    .avoid = avoid,
    .tile = choose_tile,
    .shared = shared_bytes,
    .emit = emit,
    .trips = dop_trips_gemv,
};
const dop_descriptor dop_descriptor_few_i8 = {
    .fits = fits_ints,
    .avoid = avoid_ints,
    .tile = choose_tile,
    .shared = shared_bytes,
    .emit = emit,
    .trips = dop_trips_gemv,
    .ints = true,
};
