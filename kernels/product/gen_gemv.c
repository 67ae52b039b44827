/* Products of one token (GEMV) on GPUs, which have many invocations. */
#include "kernels/product/gen_gemv.h"

#include "kernels/emit/weight_types.h"
#include "kernels/gen/gen_tail.h"
#include "kernels/gen/int8.h"
#include "kernels/gen/products.h"
#include "kernels/gen/row_program.h"
#include "kernels/gen/templates.h"
#include "kernels/product/gen_expert.h"
#include "kernels/product/product.h"
#include "kernels/row/gen_choice.h"

#include <string.h>

/* Declares the activation in shared memory: a vec4 at (step, quarter), so that adjacent invocations, which process adjacent
 * steps, read adjacent words. CPU devices have no banks and keep the original order. Long rows are stored as f16. */
static void
declare_stage(dop_gen *gen, uint32_t k_pad, uint32_t unit, bool half, dop_buf *decls)
{
    uint32_t quarters = unit / 4, steps = k_pad / unit;
    dop_buf_printf(decls, "shared vec4 dop_x[%u];\n", k_pad / (half ? 8 : 4));
    if (half) {
        /* Two quarters per vec4: a step of 8 values is one load. */
        dop_buf_printf(decls,
                       "#define DOP_X_AT(i) ((i) %% %uu / 2u * %uu + (i) / %uu)\n"
                       "#define DOP_X_GET(v, q) dop_x_half(dop_x[(q) / 2u * %uu + (v)], q)\n"
                       "vec4 dop_x_half(vec4 x, uint q)\n{\n"
                       "    return dop_f16x4(floatBitsToUint((q & 1u) == 0u ? x.xy : x.zw));\n}\n"
                       "void DOP_X_PUT(uint i, vec4 x)\n{\n"
                       "    vec2 w = uintBitsToFloat(uvec2(packHalf2x16(x.xy), packHalf2x16(x.zw)));\n"
                       "    if ((i & 1u) == 0u)\n        dop_x[DOP_X_AT(i)].xy = w;\n"
                       "    else\n        dop_x[DOP_X_AT(i)].zw = w;\n}\n",
                       quarters, steps, quarters, steps);
        return;
    }
    if (gen->e.target->cpu)
        dop_buf_printf(decls, "#define DOP_X_AT(i) (i)\n#define DOP_X_GET(v, q) dop_x[(v) * %uu + (q)]\n", quarters);
    else
        dop_buf_printf(
            decls,
            "#define DOP_X_AT(i) ((i) %% %uu * %uu + (i) / %uu)\n#define DOP_X_GET(v, q) dop_x[(q) * %uu + (v)]\n",
            quarters, steps, quarters, steps);
    dop_buf_puts(decls, "#define DOP_X_PUT(i, x) dop_x[DOP_X_AT(i)] = x\n"
                        "#define DOP_X_PUT1(i, x) dop_x[DOP_X_AT((i) >> 2)][(i) & 3u] = x\n");
}

/* Fills *p. A GEMV has one row; experts may have several rows, each with its own workgroups. */
static dop_status
find_gemv_parts(const dop_gen *gen, dop_parts *p)
{
    dop_status st = dop_gen_parts(gen, p);
    p->t = gen->e.r->tpl == DOP_TPL_expert_tiles && gen->e.g->max_t > 1 ? "dop_t" : "0u";
    return st;
}

static dop_rowprog
gemv_row_program(const dop_parts *p)
{
    return (dop_rowprog){.nodes = p->prog,
                         .n_nodes = p->n_prog,
                         .len = p->k,
                         .t = p->t,
                         .unit = "0u",
                         .store_if = "DOP_GROUP.x == 0u",
                         .staged = p->act,
                         .stage = "DOP_X",
                         .stage_base = "0u",
                         .others = p->activations + 1,
                         .n_others = p->n_activations - 1,
                         .which = "dop_act"};
}

dop_stmt *
dop_stage_beside(dop_gen *gen, const dop_parts *p, uint32_t first, dop_nest *n)
{
    dop_emit *e = &gen->e;
    dop_buf inner = {0};
    dop_emit_scope(e, &inner, "        ");
    const char *x = dop_emit_value(e, dop_node_at(e->g, p->beside)->src[0], (dop_index){p->t, "c"}, 4);
    dop_stmt *loop = dop_nest_for(n, "i", "gl_LocalInvocationIndex", dop_nest_text(n, "%uu", p->k2 / 4), "WG");
    loop->apart = true;
    dop_nest_let(n, "uint", "c", "i * 4u");
    dop_nest_hole(n, "x beside", dop_gen_keep(gen, &inner));
    dop_nest_call(n, "DOP_X_PUT", dop_nest_text(n, "%uu + i, %s", first / 4, x));
    dop_nest_end(n);
    return loop;
}

/* Emits code for an activation that is not staged: computes x[q], four values of unit v, from memory, and accumulates the
 * statistics. */
static void
compute_values(dop_gen *gen, const dop_parts *p, dop_nest *n)
{
    dop_emit *e = &gen->e;
    const bool wide = dop_emit_wide(e, p->act), padded = p->k % p->unit != 0;
    const char *column = "c", *cj = "(c + j)", *times = "";
    dop_buf inner = {0};
    if (p->sum)
        dop_nest_let(n, "uint", "slot", "v / %uu", dop_product_units(p));
    dop_nest_let(n, "uint", "c", "v%s * %uu + q * 4u", p->sum ? dop_nest_text(n, " %% %uu", dop_product_units(p)) : "",
                 p->unit);
    if (p->own_rows) {
        column = dop_emit_str(e, "(%s * %uu + c)", p->sum ? "slot" : "dop_slot", p->k);
        cj = dop_emit_str(e, "(%s + j)", column);
    }
    if (p->sum)
        times = dop_emit_str(e, " * %s[slot]", dop_choice_row(gen, dop_node_at(e->g, p->sum)->src[1]));
    if (padded)
        dop_nest_set(n, "x[q]", "vec4(0.0)");
    dop_emit_scope(e, &inner, "                        ");
    const dop_index ix = {p->t, wide ? column : cj};
    dop_emit_line(e, "x[q]%s = %s%s;", wide ? "" : "[j]", dop_emit_value(e, p->act, ix, wide ? 4 : 1), times);
    for (uint32_t i = 0; i < p->n_stats && wide; i++)
        dop_emit_line(e, "dop_stat%u += dop_sumsq(%s);", i,
                      dop_emit_value(e, dop_node_at(e->g, p->stats[i])->src[0], ix, 4));
    if (!wide)
        dop_nest_for(n, "j", "0u", "4u", NULL);
    if (!wide || padded)
        dop_nest_if(n, "%s < %uu", wide ? "c" : "c + j", p->k);
    dop_nest_hole(n, "x", dop_gen_keep(gen, &inner));
    if (!wide || padded)
        dop_nest_end(n);
    if (!wide)
        dop_nest_end(n);
}

/* Emits code that puts the activations of one step into registers x[], from shared memory, or from global memory if they are
 * not staged. */
static void
get_gemv_row(dop_gen *gen, const dop_parts *p, dop_nest *n, uint32_t rows)
{
    dop_emit *e = &gen->e;
    if (p->ints) {
        dop_nest_let(n, "dop_xi", "x", "dop_xi_get(v)")->reads = rows;
        return;
    }
    dop_nest_array(n, "vec4", "x", p->unit / 4);
    dop_nest_unrolled(n, "q", p->unit / 4);
    if (p->staged) {
        dop_nest_set(n, "x[q]", "DOP_X_GET(v, q)")->reads = rows;
    } else {
        if (p->beside) {
            dop_buf inner = {0};
            dop_emit_scope(e, &inner, "                        ");
            dop_emit_line(e, "x[q] = %s;",
                          dop_emit_value(e, dop_node_at(e->g, p->beside)->src[0], (dop_index){p->t, "c"}, 4));
            dop_nest_if(n, "v >= %uu", dop_product_steps(p));
            dop_nest_let(n, "uint", "c", "(v - %uu) * %uu + q * 4u", dop_product_steps(p), p->unit);
            dop_nest_hole(n, "x beside", dop_gen_keep(gen, &inner));
            dop_nest_else(n);
        }
        compute_values(gen, p, n);
        if (p->beside)
            dop_nest_end(n);
    }
    dop_nest_end(n);
}

/* Staging of the activation in shared memory. */
typedef struct staging {
    uint32_t unit, k_pad; /* largest unit of all parts, in values; length of a row, padded to whole units */
    bool half;            /* the row is staged as f16 */
} staging;

static bool
are_wide(const dop_emit *e, const dop_parts *p)
{
    bool wide = true;
    for (uint32_t i = 0; i < p->n_activations; i++)
        wide = wide && dop_emit_wide(e, p->activations[i]);
    return wide;
}

/* Decides how the activation is staged; sets p->staged if the row is in shared memory. */
static staging
plan_staging(const dop_gen *gen, dop_parts *p)
{
    const dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    staging x = {.unit = p->unit}; /* one staged activation serves all parts */
    uint32_t per_wg = tile->wg / tile->lanes * tile->rows;
    x.k_pad = (p->k + x.unit - 1) / x.unit * x.unit;
    uint32_t capacity = e->target->shared_bytes / 4 * 3, all = x.k_pad * dop_product_summed(p) + p->k2;
    /* On GPUs the row is staged if computing it is costly, if a lane reads many values at once (bank conflicts), or if many
     * rows share it. Otherwise a plain f32 row is read from global memory. Mailboxes must be polled only once. */
    bool worth = x.unit > 8 || p->n_prog > 0 || per_wg >= 16 || e->routes;
    if (gen->descriptor->ints)
        p->staged = true;
    else if (!p->staged && worth && tile->stage && all * 4 <= capacity)
        p->staged = true;
    else if (!p->staged && worth && tile->stage && all * 2 <= capacity && x.k_pad == p->k && are_wide(e, p))
        p->staged = x.half = true;
    return x;
}

/* Emits the function that stages the row: a row program that writes dop_x, or its int8 form. Statistics become the globals
 * dop_stat<i>. */
static dop_status
stage_activation(dop_gen *gen, const dop_parts *p, const staging *s, dop_nest *n, dop_product *x)
{
    dop_emit *e = &gen->e;
    dop_status st = DOP_OK;
    bool ints = gen->descriptor->ints, direct = false, each = false;
    dop_rowprog prog = gemv_row_program(p);
    dop_buf decls = {0}, stats = {0};
    prog.padded = s->k_pad;
    if (p->experts)
        dop_expert_program(gen, p, s->k_pad, n, &prog, &decls, &each);
    const uint32_t first = s->k_pad * dop_product_summed(p), all = first + p->k2;
    if (ints)
        st = dop_int8_declare(gen, &prog, all, &decls, &direct);
    if (p->mixed) {
        if (st == DOP_OK && !direct)
            st = DOP_FAIL(e->diag, DOP_E_INTERNAL, "a row for two kinds of products is not made four values at a time");
        prog.stage = "DOP_XM";
        dop_buf_puts(&decls, "bool dop_floats;\n#undef DOP_X_PUT\n#define DOP_XM_PUT(i, x) "
                             "if (dop_floats) DOP_X_PUT(i, x); else dop_xi_put(i, x)\n");
    }
    if (!ints || p->mixed)
        declare_stage(gen, all, s->unit, s->half, &decls);
    const uint32_t floats = ints && !direct ? dop_nest_memory(n, "dop_x") : 0;
    x->rows = dop_nest_memory(n, ints ? "dop_xq" : "dop_x");
    prog.memory = floats ? floats : x->rows;
    dop_nest_hole(n, "row in shared memory", dop_gen_keep(gen, &decls));
    dop_nest_function(n, x->put, "");
    if (each)
        dop_nest_for(n, "dop_j", "0u", dop_nest_text(n, "%uu", p->slots), NULL);
    uint32_t n_binds = e->n_binds;
    gen->own_sums = e->routes && !p->experts && gen->choice->tile.subgroup;
    dop_nest_rowprog(gen, &prog, n);
    gen->own_sums = false;
    if (each)
        dop_nest_end(n);
    if (p->beside)
        dop_stage_beside(gen, p, first, n)->writes = prog.memory;
    dop_emit_scope(e, &stats, "    ");
    for (uint32_t i = 0; i < p->n_stats; i++)
        dop_emit_line(e, "dop_stat%u = %s;", i, dop_emit_value(e, p->stats[i], (dop_index){p->t, "0u"}, 1));
    e->n_binds = n_binds;
    if (floats) {
        dop_stmt *row8 = dop_nest_call(n, "dop_xi_row", "");
        row8->reads = floats;
        row8->writes = x->rows;
    }
    dop_nest_hole(n, "stat", dop_gen_keep(gen, &stats));
    dop_nest_end(n);
    return st;
}

/* Emits the per-head product after the products (dop_tail_facts). In a dispatch, each workgroup that made values of a head
 * checks whether it completed the head. A stage instead has extra workgroups for the heads, from number `first` on, which
 * receive the values through mailboxes. */
static void
emit_tail(dop_gen *gen, uint32_t first, uint32_t per_wg, dop_buf *decls, dop_buf *before)
{
    dop_emit *e = &gen->e;
    const uint32_t heads = dop_tail_heads(gen), k = heads ? dop_tail_depth(gen) : 0;
    dop_tail_declare(gen, 1, decls);
    if (heads && e->routes) {
        dop_buf_printf(before,
                       "    if (DOP_GROUP.x >= %uu) {\n        dop_tail(DOP_GROUP.x - %uu);\n        return;\n    }\n",
                       first, first);
        gen->grid[0] += heads;
    } else if (heads) {
        dop_buf_printf(decls,
                       "void dop_tails(uint wg)\n{\n    uint first = wg * %uu, last = min(first + %uu, %uu) - 1u;\n"
                       "    for (uint h = first / %uu; h <= last / %uu; h++)\n"
                       "        if (dop_last_of(%s, h, (h * %uu + %uu) / %uu - h * %uu / %uu + 1u))\n"
                       "            dop_tail(h);\n}\n",
                       per_wg, per_wg, heads * k, k, k, dop_emit_counts(e), k, k - 1, per_wg, k, per_wg);
    }
}

/* Returns the tile of float parts in a region with integer products: enough cooperative lanes to process a row in one step,
 * because such regions have few float rows. */
static dop_selection
choose_floats(const dop_gen *gen, const dop_parts *p)
{
    dop_selection c = *gen->choice;
    c.tile.lanes = gen->e.target->subgroup;
    while (c.tile.lanes < c.tile.wg && c.tile.lanes < dop_product_units(p))
        c.tile.lanes *= 2;
    c.tile.rows = c.tile.unroll = 1;
    return c;
}

/* Redefines the macros of cooperative lanes for float parts, whose functions come after those of integer products. */
static void
emit_floats_team(dop_gen *gen, dop_nest *n)
{
    dop_nest_hole(n, "teams of floats",
                  "#undef LANES\n#undef LANES_LOG2\n#undef TEAMS\n#undef LANE\n#undef TEAM\n"
                  "#define dop_team dop_team_of_floats\n#define dop_team_sum dop_team_sum_of_floats\n");
    dop_product_team(gen, n);
}

/* Returns the call of part i, which `n_wg` workgroups per slot compute, from workgroup `first` on. */
static const char *
gemv_part_call(dop_gen *gen, const dop_parts *p, uint32_t i, uint32_t first, uint32_t n_wg, bool tails)
{
    dop_emit *e = &gen->e;
    const char *call = dop_emit_str(e, "dop_part%u(wg - %uu);", i, first);
    if (p->experts && !p->sum)
        call =
            dop_emit_str(e, "dop_slot = (wg - %uu) / %uu; dop_part%u((wg - %uu) %% %uu);", first, n_wg, i, first, n_wg);
    if (p->mixed)
        call = dop_emit_str(e, "dop_floats = %s; %s", dop_int8_part(e->g, &p->part[i]) ? "false" : "true", call);
    if (p->n_activations > 1)
        call = dop_emit_str(e, "dop_act = %uu; %s", p->part[i].act, call);
    return tails ? dop_emit_str(e, "%s dop_tails(wg - %uu);", call, first) : call;
}

/* Returns the placement of GEMV: groups of cooperative lanes divide the weight rows, and the lanes of a group divide the
 * depth. */
static dop_nest_placement
place_gemv(const dop_gen *gen, const dop_parts *p, const staging *s)
{
    const dop_tile *tile = &gen->choice->tile;
    const uint32_t sg = tile->subgroup ? gen->e.target->subgroup : 1;
    dop_nest_placement pl = {.subgroup = sg, .sum = tile->lanes > sg ? DOP_MEET_each : DOP_MEET_lanes};
    pl.at[DOP_PLACE_n][DOP_LEVEL_group] = tile->wg / tile->lanes;
    pl.at[DOP_PLACE_n][DOP_LEVEL_loop] = tile->loops;
    pl.at[DOP_PLACE_n][DOP_LEVEL_reg] = tile->rows;
    pl.at[DOP_PLACE_k][DOP_LEVEL_loop] = dop_div_up_u32(dop_product_all(p), tile->lanes * tile->unroll);
    pl.at[DOP_PLACE_k][DOP_LEVEL_lane] = tile->lanes;
    pl.at[DOP_PLACE_k][DOP_LEVEL_reg] = tile->unroll;
    pl.x = (dop_movement){.path = p->staged ? DOP_PATH_whole : DOP_PATH_direct, .unit = p->unit};
    if (p->staged)
        pl.x.form = gen->descriptor->ints ? "8 bits" : s->half ? "halves" : "floats";
    pl.w = (dop_movement){.path = DOP_PATH_direct, .ahead = 1, .unit = p->unit};
    return pl;
}

/* Emits the functions of all parts, then their calls. If a region has both kinds, float parts come after parts of integer products and
 * have their own cooperative lanes. */
static dop_status
emit_gemv_parts(dop_gen *gen, const dop_parts *p, dop_nest *n, const dop_product *x, const staging *s, dop_buf *calls)
{
    dop_emit *e = &gen->e;
    const dop_selection *own = gen->choice, other = choose_floats(gen, p);
    const uint32_t handing = dop_tail_heads(gen) ? dop_region_part(e->r, e->r->info->tail.of) : p->n;
    const dop_nest_placement placement = n->placement;
    uint32_t *first = dop_arena_alloc(n->arena, (p->n + 1) * sizeof *first), *n_wg;
    n_wg = dop_arena_alloc(n->arena, p->n * sizeof *n_wg);
    if (!first || !n_wg)
        return DOP_NO_MEMORY(e->diag);
    first[0] = 0;
    for (uint32_t floats = 0; floats < 2; floats++) {
        for (uint32_t i = 0; i < p->n && e->status == DOP_OK; i++) {
            const dop_segment *part = &p->part[i];
            if (floats != (p->mixed && !dop_int8_part(e->g, part)))
                continue;
            const dop_tile *tile = &gen->choice->tile;
            const uint32_t n_parts = part->argmax ? (uint32_t)dop_node_i(e->g, part->argmax, DOP_A_parts) : 0;
            const uint32_t per_wg = tile->wg / tile->lanes * tile->rows * (tile->loops ? tile->loops : 1);
            n_wg[i] = n_parts ? (e->routes && n_parts > e->target->cores ? e->target->cores : n_parts)
                              : dop_div_up_u32(part->rows, per_wg);
            dop_product_part(gen, p, n, x, i, n_wg[i]);
        }
        if (floats || !p->mixed)
            break;
        gen->choice = &other;
        emit_floats_team(gen, n);
        n->placement = place_gemv(gen, p, s);
    }
    gen->choice = own;
    n->placement = placement;
    for (uint32_t i = 0; i < p->n && e->status == DOP_OK; i++) {
        const char *call = gemv_part_call(gen, p, i, first[i], n_wg[i], i == handing && !e->routes);
        first[i + 1] = first[i] + n_wg[i] * (p->sum ? 1 : p->slots);
        dop_gen_call(calls, call, i + 1 < p->n ? first[i + 1] : 0);
    }
    gen->grid[0] = first[p->n];
    return e->status;
}

dop_status
dop_gemv_emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    dop_parts p;
    dop_nest n;
    dop_buf decls = {0}, calls = {0}, before = {0};
    dop_status st = find_gemv_parts(gen, &p);
    if (st != DOP_OK)
        return st;
    const staging s = plan_staging(gen, &p);
    const dop_nest_placement pl = place_gemv(gen, &p, &s);
    dop_product x = {.put = "dop_prologue", .put_all = "", .get = get_gemv_row, .stats_beside = !p.staged};
    dop_nest_open(&n, dop_variant_of(gen->choice->variant)->name, &pl, e->g->arena, e->diag);
    dop_product_team(gen, &n);
    gen->halves = s.half;
    if (p.experts)
        dop_expert_begin(gen, &p, &n);
    if (p.experts && strcmp(p.t, "0u") != 0)
        dop_buf_printf(&before, "    dop_t = DOP_GROUP.y;\n    if (dop_t >= %s)\n        return;\n",
                       dop_emit_n_tokens(e));
    for (uint32_t i = 0; i < p.n_stats; i++)
        dop_buf_printf(&decls, "float dop_stat%u;\n", i);
    if (p.n_activations > 1) /* index of the activation that the workgroup's part reads */
        dop_buf_puts(&decls, "uint dop_act;\n");
    dop_nest_hole(&n, "experts, statistics", dop_gen_keep(gen, &decls));
    decls = (dop_buf){0};
    if (p.staged)
        st = stage_activation(gen, &p, &s, &n, &x);
    if (st == DOP_OK)
        st = emit_gemv_parts(gen, &p, &n, &x, &s, &calls);
    emit_tail(gen, gen->grid[0], tile->wg / tile->lanes * tile->rows, &decls, &before);
    dop_nest_hole(&n, "product of heads", dop_gen_keep(gen, &decls));
    gen->grid[1] = strcmp(p.t, "0u") == 0 ? 1 : e->g->max_t;
    const char *first = dop_gen_keep(gen, &before);
    const dop_status end = dop_product_finish(gen, &n, first, &calls);
    return st == DOP_OK ? end : st;
}

uint32_t
dop_gemv_shared(dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    dop_parts p;
    if (find_gemv_parts(gen, &p) != DOP_OK)
        return 0; /* the error is reported at generation */
    staging x = plan_staging(gen, &p);
    dop_rowprog prog = gemv_row_program(&p);
    uint32_t bytes =
        4 * (tile->subgroup ? tile->wg / gen->e.target->subgroup : tile->wg); /* reduction over groups of lanes */
    const uint32_t all = x.k_pad * dop_product_summed(&p) + p.k2;
    bytes += (p.experts ? dop_expert_bytes(gen) : 0) + dop_tail_bytes(gen, 1);
    if (gen->descriptor->ints)
        bytes += dop_int8_bytes(gen, &prog, all) + (p.mixed ? all * 4 + tile->wg / gen->e.target->subgroup * 4 : 0);
    else if (p.staged)
        bytes += all * (x.half ? 2 : 4);
    for (uint32_t i = 0; i < p.n; i++)
        if (p.part[i].argmax)
            return bytes + tile->wg * 8;
    return bytes;
}
