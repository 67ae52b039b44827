/* Fills few.glsl: matmul regions of a few tokens on GPUs.  Weights are read and unpacked once for all tokens, by lanes that share
 * rows as in a gemv. */
#include "kernels/gen.h"

#include "kernels/weight_types.h"

enum { MOST_ROWS = 8, INT_UNIT = 32 };

static dop_site
site_of(const dop_gen *gen)
{
    return (dop_site){gen->e.g, gen->e.r, gen->e.target, gen->e.routes};
}

static dop_few_piece
piece_in(const dop_gen *gen)
{
    const dop_site s = site_of(gen);
    return dop_few_piece_of(&s, gen->descriptor->ints, gen->e.routes != NULL);
}

static void
declare_rows(dop_gen *gen, const dop_parts *p, uint32_t piece, dop_keys *outer, dop_buf *decls)
{
    uint32_t steps = gen->e.g->max_t * piece, quarters = p->unit / 4;
    dop_keys keys = {0};
    dop_keys_num(gen, &keys, "STEPS", steps);
    const bool half = piece_in(gen).half, eights = gen->descriptor->ints || half;
    dop_keys_num(gen, outer, "AT_ONCE", eights ? 8 : 4);
    dop_keys_set(outer, "PUT",
                 gen->descriptor->ints ? "dop_xi_put8(i, xs[0], xs[1]);"
                 : eights              ? "dop_x[i] = dop_x_halves(xs[0], xs[1]);"
                                       : "DOP_X_PUT(i, xs[0]);");
    if (gen->descriptor->ints) {
        gen->e.status = dop_template_fill(gen, "gemv_i8.glsl", &keys, decls);
        if (gen->e.status == DOP_OK)
            gen->e.status = dop_template_fill(gen, "few_i8.glsl", &keys, decls);
        return;
    }
    if (half &&
        gen->e.routes) { /* The stages of a dispatch share this array, so its type must be that of the others. */
        dop_buf_printf(decls,
                       "shared vec4 dop_x[%u];\n"
                       "void dop_x_put(uint i, vec4 x)\n{\n"
                       "    vec2 w = uintBitsToFloat(uvec2(packHalf2x16(x.xy), packHalf2x16(x.zw)));\n"
                       "    if ((i & 1u) == 0u)\n        dop_x[i >> 1].xy = w;\n"
                       "    else\n        dop_x[i >> 1].zw = w;\n}\n#define DOP_X_PUT(i, x) dop_x_put(i, x)\n",
                       steps);
        return;
    }
    if (half) {
        dop_buf_printf(decls,
                       "shared uvec4 dop_x[%u];\n"
                       "uvec4 dop_x_halves(vec4 a, vec4 b)\n{\n"
                       "    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), "
                       "packHalf2x16(b.zw));\n}\n",
                       steps);
        return;
    }
    /* The array has the first four values of every step, then the next four, and so on: neighbouring invocations, which take
     * neighbouring steps, read neighbouring words. */
    dop_buf_printf(decls,
                   "shared vec4 dop_x[%u];\n#define DOP_X_PUT(i, x) dop_x[(i) %% %uu * %uu + (i) / %uu] = x\n"
                   "#define DOP_X_GET(v, q) dop_x[(q) * %uu + (v)]\n",
                   steps * quarters, quarters, steps, quarters, steps);
}

/* Statistics of the rows, which are needed only when sums are stored: subgroups share out the rows and compute them before the first
 * piece is used.  `done` gets the code that reads those of row t. */
static void
sum_stats(dop_gen *gen, const dop_parts *p, dop_buf *decls, dop_buf *sums, dop_buf *done)
{
    dop_emit *e = &gen->e;
    const uint32_t subgroups = gen->choice->tile.wg / e->target->subgroup, n = e->g->max_t;
    const uint32_t share = subgroups > n ? subgroups / n : 1, step = subgroups / share;
    for (uint32_t i = 0; i < p->n_stats; i++) {
        const dop_node *stat = dop_node_at(e->g, p->stats[i]);
        dop_buf inner = {0};
        dop_emit_scope(e, &inner, "                ");
        dop_emit_line(e, "sum += dop_sumsq(%s);", dop_emit_value(e, stat->src[0], (dop_index){"t", "c"}, 4));
        dop_buf_printf(decls, "shared float dop_rs%u[%u];\n", i, n * share);
        dop_buf_printf(
            sums,
            "    for (uint s = gl_LocalInvocationIndex / SG, t = s / %uu; c0 == 0u && t < %s; t += %uu) {\n"
            "        float sum = 0.0;\n"
            "        for (uint c = (s %% %uu * SG + gl_LocalInvocationIndex %% SG) * 4u; c < %uu; c += %uu) {\n"
            "%s        }\n        sum = subgroupAdd(sum);\n"
            "        if (gl_LocalInvocationIndex %% SG == 0u)\n"
            "            dop_rs%u[t * %uu + s %% %uu] = sum;\n    }\n",
            share, dop_emit_n_tokens(e), step, share, p->k, share * e->target->subgroup * 4,
            inner.data ? inner.data : "", i, share, share);
        dop_buf_printf(done,
                       "                float rs%u = 0.0;\n                for (uint k = 0u; k < %uu; k++)\n"
                       "                    rs%u += dop_rs%u[t * %uu + k];\n"
                       "                rs%u = inversesqrt(rs%u / %u.0 + %.9g);\n",
                       i, share, i, i, share, i, i, p->k, dop_node_f(e->g, p->stats[i], DOP_A_eps));
        dop_buf_finish(&inner);
    }
}

/* Multiplies the units of step j with all rows. */
static void
emit_dots(dop_gen *gen, const dop_parts *p, const dop_segment *part, dop_buf *dots)
{
    const dop_graph *g = gen->e.g;
    const uint32_t rows = gen->choice->tile.rows, n = g->max_t;
    const char *in = "                ";
    /* Weights are unpacked once and stay in registers; of activations only those of one row are there at a time. */
    if (gen->descriptor->ints)
        dop_buf_printf(dots,
                       "%s[[unroll]] for (uint t = 0u; t < R; t++) {\n%s    dop_xi x = dop_xi_get(t * PIECE + v);\n",
                       in, in);
    else if (piece_in(gen).half)
        dop_buf_printf(dots,
                       "%s[[unroll]] for (uint t = 0u; t < R; t++) {\n%s    uvec4 xh = %s(dop_x[t * PIECE + v]);\n"
                       "%s    vec4 x[2] = vec4[2](dop_f16x4(xh.xy), dop_f16x4(xh.zw));\n",
                       in, in, gen->e.routes ? "floatBitsToUint" : "", in);
    else
        dop_buf_printf(
            dots,
            "%s[[unroll]] for (uint t = 0u; t < R; t++) {\n%s    vec4 x[%u];\n"
            "%s    [[unroll]] for (uint q = 0u; q < %uu; q++)\n%s        x[q] = DOP_X_GET(t * PIECE + v, q);\n",
            in, in, p->unit / 4, in, p->unit / 4, in);
    for (uint32_t m = 0; m < part->n_mats; m++) {
        dop_type type = dop_node_at(g, dop_node_at(g, part->mats[m])->src[1])->type;
        dop_buf_printf(dots,
                       "%s    [[unroll]] for (uint r = 0u; r < %uu; r++)\n"
                       "%s        acc[(%u + r) * %u + t] += dop_wdot%s_%s(q%u[j * %uu + r], x);\n",
                       in, rows, in, m * rows, n, gen->descriptor->ints ? "i" : "", dop_type_of(type)->name, m, rows);
    }
    dop_buf_printf(dots, "%s}\n", in);
}

/* Emits how a workgroup of a stage walks over sets of rows of the matrices; n_wg 0: there is one set.  `before`: code in front of
 * the products of a set.  Where all rows of the step fit into shared memory they are put there once for all sets, else in pieces
 * for each set. */
static void
set_sets(dop_gen *gen, const dop_segment *part, uint32_t index, uint32_t n_wg, const char *before, dop_keys *keys)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    const uint32_t per_wg = tile->wg / tile->lanes * tile->rows;
    const bool whole = e->routes && piece_in(gen).n == 1;
    const char *put = whole ? "    dop_put_rows(0u);\n    barrier();\n" : "";
    dop_keys_set(keys, "PIECE_IN",
                 whole ? ""
                       : dop_emit_str(e, "        barrier();\n        dop_put_rows(first * %uu);\n        barrier();\n",
                                      dop_few_unit(e->g, e->r)));
    dop_keys_set(keys, "EARLY", n_wg ? "" : before);
    if (n_wg == 0) {
        dop_keys_set(keys, "SETS", put);
        dop_keys_set(keys, "NEXT_SET", "");
        dop_keys_set(keys, "SETS_END", "");
        return;
    }
    const char *more = dop_emit_str(e, "set + %uu < %uu", n_wg * per_wg, part->rows);
    dop_buf text = {0};
    dop_buf_printf(&text,
                   "%s    for (uint set = wg * %uu; set < %uu; set += %uu) {\n    uint next_row = row + %uu;\n%s", put,
                   per_wg, part->rows, n_wg * per_wg, n_wg * per_wg, before);
    dop_keys_set(keys, "SETS", dop_gen_keep(gen, &text));
    dop_keys_set(keys, "NEXT_SET",
                 !whole ? ""
                        : dop_emit_str(e, "            else if (%s)\n                dop_fetch%u(next_row, LANE%s);\n",
                                       more, index, dop_gemv_list(gen, part, ", n#")));
    dop_keys_set(keys, "SETS_END",
                 dop_emit_str(e, "    row = next_row;\n%s%s    }\n",
                              tile->lanes > e->target->subgroup ? "    barrier();\n" : "",
                              whole ? ""
                                    : dop_emit_str(e, "    if (%s)\n        dop_fetch%u(row, LANE%s);\n", more, index,
                                                   dop_gemv_list(gen, part, ", q#"))));
}

/* Emits which lanes store sums.  `once`: lane t * ROWS + r stores column r of row t, and no other; else a lane stores several.
 * Returns the code that loads what the lanes need for that, which comes before the products. */
static const char *
set_store_rows(dop_gen *gen, const dop_segment *part, bool once, const dop_buf *early, dop_keys *keys)
{
    dop_emit *e = &gen->e;
    const uint32_t rows = gen->choice->tile.rows, all = rows * e->g->max_t;
    const char *n = dop_emit_n_tokens(e);
    if (!once) {
        dop_keys_set(keys, "STORE_ROWS",
                     dop_emit_str(e,
                                  "for (uint i = LANE, t = i / %uu, r = i %% %uu, c = row + r; i < %uu && t < %s;\n"
                                  "         i += LANES, t = i / %uu, r = i %% %uu, c = row + r)\n        if (c < %uu)",
                                  rows, rows, all, n, rows, rows, part->rows));
        return "";
    }
    dop_keys_set(keys, "STORE_ROWS",
                 dop_emit_str(e, "if (LANE < %uu && LANE / %uu < %s && row + r < %uu)", all, rows, n, part->rows));
    dop_buf text = {0};
    dop_buf_printf(&text, "    uint r = LANE %% %uu, t = min(LANE / %uu, %s - 1u), c = min(row + r, %uu);\n%s", rows,
                   rows, n, part->rows - 1, early->data ? early->data : "");
    return dop_gen_keep(gen, &text);
}

static dop_status
emit_part(dop_gen *gen, const dop_parts *p, uint32_t index, uint32_t n_wg, const char *stats, dop_buf *out)
{
    dop_emit *e = &gen->e;
    const dop_segment *part = &p->part[index];
    const dop_tile *tile = &gen->choice->tile;
    const dop_index ix = {"t", "c"};
    dop_keys keys = {0};
    dop_buf begin = {0}, fetch = {0}, raw = {0}, dots = {0}, store = {0}, early = {0};
    const bool once = tile->rows * e->g->max_t <= tile->lanes; /* a lane stores one sum at most */
    const bool sets = n_wg * (tile->wg / tile->lanes * tile->rows) < part->rows;
    uint32_t n_binds = e->n_binds;
    for (uint32_t m = 0; m < part->n_mats; m++)
        dop_emit_bind(e, part->mats[m], dop_emit_str(e, "y[%u]", m), false, NULL);
    for (uint32_t i = 0; i < p->n_stats; i++)
        dop_emit_bind(e, p->stats[i], dop_emit_str(e, "rs%u", i), false, NULL);
    dop_gemv_fetch(gen, p, index, &begin, &fetch, &raw);
    emit_dots(gen, p, part, &dots);
    dop_buf_puts(&store, stats);
    /* Then values that the epilogue reads are loaded before the products, which hide the latency. */
    if (once)
        e->constants = e->early = &early;
    dop_emit_scope(e, &store, "        ");
    for (uint32_t i = 0; i < part->n_outs; i++)
        dop_emit_store(e, part->outs[i], ix, 1, dop_emit_value(e, part->outs[i], ix, 1));
    e->constants = e->early = NULL;
    const char *before = set_store_rows(gen, part, once, &early, &keys);
    set_sets(gen, part, index, sets ? n_wg : 0, before, &keys);
    dop_keys_num(gen, &keys, "P", index);
    dop_keys_num(gen, &keys, "M", part->n_mats);
    dop_keys_num(gen, &keys, "N", part->rows);
    dop_keys_num(gen, &keys, "R", e->g->max_t);
    dop_keys_num(gen, &keys, "U", p->unit);
    dop_keys_num(gen, &keys, "UNITS", dop_div_up_u32(p->k, p->unit));
    dop_keys_num(gen, &keys, "ROWS", tile->rows);
    dop_keys_num(gen, &keys, "UNROLL", tile->unroll);
    dop_keys_set(&keys, "N_TOKENS", dop_emit_n_tokens(e));
    dop_keys_set(&keys, "FETCH", fetch.data);
    dop_keys_set(&keys, "RAW", raw.data);
    dop_keys_set(&keys, "Q", dop_gemv_list(gen, part, ", q#"));
    dop_keys_set(&keys, "NEXT", dop_gemv_list(gen, part, ", n#"));
    dop_keys_set(&keys, "SHIFT", dop_gemv_list(gen, part, " q# = n#;"));
    dop_keys_set(&keys, "DOTS", dots.data);
    dop_keys_set(&keys, "STORE", store.data);
    dop_status st = e->status == DOP_OK ? dop_template_fill(gen, "few_part.glsl", &keys, out) : e->status;
    e->n_binds = n_binds;
    dop_buf_finish(&begin);
    dop_buf_finish(&fetch);
    dop_buf_finish(&raw);
    dop_buf_finish(&dots);
    dop_buf_finish(&store);
    dop_buf_finish(&early);
    return st;
}

/* Where more lanes than a subgroup share a row, their sums are added up in shared memory. */
static void
declare_sums(const dop_gen *gen, dop_buf *decls)
{
    const dop_tile *tile = &gen->choice->tile;
    const uint32_t sg = gen->e.target->subgroup;
    uint32_t log2 = 0;
    while (1u << log2 < sg)
        log2++;
    dop_buf_printf(decls, "#define SG_LOG2 %u\n", log2);
    if (tile->lanes > sg)
        dop_buf_printf(decls, "shared float dop_few_sums[%u];\n",
                       tile->wg / sg * gen->e.r->info->most_mats * tile->rows * gen->e.g->max_t);
}

static dop_status
emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    dop_parts p;
    dop_keys keys = {0};
    dop_buf decls = {0}, load = {0}, parts = {0}, calls = {0}, team = {0}, stats = {0}, done = {0}, receive = {0};
    dop_status st = dop_gen_parts(gen, &p);
    if (st != DOP_OK)
        return st;
    uint32_t first = 0, per_wg = tile->wg / tile->lanes * tile->rows, n = e->g->max_t;
    const dop_few_piece x = piece_in(gen);
    uint32_t piece = x.units;
    gen->halves = x.half && (e->routes || dop_region_has(e->r, dop_node_base(e->g, p.act, NULL)));
    declare_rows(gen, &p, piece, &keys, &decls);
    if (e->routes) {
        dop_few_receive(gen, &p, &x, &decls, &receive, &done);
    } else {
        dop_emit_scope(e, &load, "                ");
        dop_emit_line(e, "x = %s;", dop_emit_value(e, p.act, (dop_index){"t", "c"}, 4));
        sum_stats(gen, &p, &decls, &stats, &done);
    }
    declare_sums(gen, &decls);
    for (uint32_t i = 0; st == DOP_OK && i < p.n; i++) {
        uint32_t n_wg = dop_div_up_u32(p.part[i].rows, per_wg * (tile->loops ? tile->loops : 1));
        st = emit_part(gen, &p, i, n_wg, done.data ? done.data : "", &parts);
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
    dop_keys_set(&keys, "TEAM", team.data);
    dop_keys_set(&keys, "DECLS", decls.data);
    dop_keys_set(&keys, "LOAD", load.data);
    dop_keys_set(&keys, "STATS", stats.data);
    dop_keys_set(&keys, "RECEIVE", receive.data);
    dop_keys_set(&keys, "PARTS", parts.data);
    dop_keys_set(&keys, "CALLS", calls.data);
    if (st == DOP_OK)
        st = e->status == DOP_OK ? dop_template_fill(gen, "few.glsl", &keys, &gen->main) : e->status;
    dop_buf_finish(&team);
    dop_buf_finish(&decls);
    dop_buf_finish(&load);
    dop_buf_finish(&parts);
    dop_buf_finish(&calls);
    dop_buf_finish(&stats);
    dop_buf_finish(&receive);
    dop_buf_finish(&done);
    return st;
}

/* The number of workgroups of all parts, each of which has `rows` rows of the matrices. */
static uint32_t
count_groups(const dop_region *r, const dop_graph *g, uint32_t rows)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->info->n_parts; i++)
        n += dop_div_up_u32(dop_product_cols(g, r->info->parts[i].mats[0]), rows);
    return n;
}

/* Every workgroup stages all rows, which takes about as long as its share of the weights.  So there should be one workgroup for
 * each multiprocessor, or a few less with equal shares. */
static void
choose_tile(const dop_site *s, dop_tile *tile)
{
    const dop_target *t = s->t;
    dop_products p = dop_products_of(s);
    const uint32_t unit = dop_few_unit(s->g, s->r), units = dop_div_up_u32(p.k, unit);
    const bool quant = dop_type_of(p.type)->kind == DOP_KIND_QUANT, large = t->max_workgroup >= 512 && t->cores > 1;
    const uint32_t piece = dop_few_piece_of(s, unit == INT_UNIT && quant, false).units;
    const uint32_t least = quant ? 8 : 16, most_wg = large ? 512 : tile->wg, step = t->subgroup * 2;
    uint64_t best = UINT64_MAX;
    tile->rows = p.most > 2 || p.k < t->schedule.few_long ? 1 : 2; /* They share a load of the activation. */
    tile->unroll = 1;
    tile->lanes = least;
    tile->wg = most_wg;
    for (uint32_t lanes = least; lanes <= 128 && (lanes == least || lanes <= units); lanes *= 2)
        for (uint32_t wg = most_wg; wg >= most_wg / 2 && wg >= lanes && wg <= most_wg; wg -= step) {
            const uint32_t rows = wg / lanes * tile->rows, groups = count_groups(s->r, s->g, rows);
            /* A value that is staged takes one and a half times as long as a weight. */
            const uint64_t cost = (uint64_t)(2 * rows * p.most + 3 * s->g->max_t) * dop_div_up_u32(groups, t->cores) *
                                  dop_div_up_u32(units, lanes) * lanes;
            /* Of tiles with equal costs the one with more invocations wins, because it stages faster: down of llama3.1-8b q4_k
             * takes 23 us for four rows instead of 31, and 18 instead of 25 for two. */
            const bool more = cost == best && wg > tile->wg && lanes <= t->subgroup;
            if (wg % lanes || wg % t->subgroup || (cost >= best && !more))
                continue;
            best = cost;
            tile->lanes = lanes;
            tile->wg = wg;
        }
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
    const dop_site s = site_of(gen);
    const uint32_t n = s.g->max_t, subgroups = tile->wg / s.t->subgroup;
    const uint32_t sums = subgroups * (1 + s.r->info->most_mats * tile->rows * n);
    const dop_few_piece x = piece_in(gen);
    return n * x.units * x.bytes + (sums + p.n_stats * (subgroups > n ? subgroups : n)) * 4;
}

static dop_refusal
refuses(const dop_site *s)
{
    const dop_analysis *a = s->r->info;
    if (s->g->max_t < 2 || s->g->max_t > MOST_ROWS)
        return (dop_refusal){"it is for steps of 2 to 8 rows", NULL};
    if (a->staged || a->experts.slots > 1 || !dop_region_wide(s->g, s->r, a->act))
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

static const char *
avoid_for_matrix_units(const dop_site *s, bool less_time)
{
    if (s->t->cpu)
        return "sums across lanes are slow on CPU devices";
    bool units = dop_matrix_fit_of(s->t, s->g->max_t, dop_products_of(s).k) == DOP_MATRIX_FIT_yes;
    return units && !less_time ? "matrix units take less time for these rows" : NULL;
}

static const char *
avoid(const dop_site *s)
{
    return avoid_for_matrix_units(s, false);
}

/* Matrix units (matmul_coop_few) take about as long
 * for one row as for sixteen.  In that time packed integer products make four rows, or eight where there are many columns, and floats fewer. */
static const char *
avoid_ints(const dop_site *s)
{
    const char *no = dop_int8_avoid(s);
    const bool many = s->g->max_t <= MOST_ROWS && dop_products_of(s).rows >= s->t->schedule.int_many_columns;
    return no ? no : avoid_for_matrix_units(s, s->g->max_t <= s->t->schedule.int_rows || many);
}

const dop_descriptor dop_descriptor_few = {
    .fits = fits,
    .avoid = avoid,
    .tile = choose_tile,
    .shared = shared_bytes,
    .emit = emit,
    .trips = dop_trips_gemv,
    .stage = DOP_VARIANT_few,
    .as_stage = dop_few_stage,
};
const dop_descriptor dop_descriptor_few_i8 = {
    .fits = fits_ints,
    .avoid = avoid_ints,
    .tile = choose_tile,
    .shared = shared_bytes,
    .emit = emit,
    .trips = dop_trips_gemv,
    .stage = DOP_VARIANT_few_i8,
    .as_stage = dop_few_stage,
    .ints = true,
};
