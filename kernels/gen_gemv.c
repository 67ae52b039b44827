/* Matmul regions of one token where there are many invocations: GPUs. */
#include "kernels/gen.h"

#include "kernels/weight_types.h"

#include <string.h>

/* The layout of the activation in shared memory: a vec4 at (step, quarter), so that neighbouring invocations, which take
 * neighbouring steps, read neighbouring words.  A software device has no banks, so there the order stays.  Long rows are
 * kept as halves. */
static void
declare_stage(dop_gen *gen, uint32_t k_pad, uint32_t unit, bool half, dop_buf *decls)
{
    uint32_t quarters = unit / 4, steps = k_pad / unit;
    dop_buf_printf(decls, "shared vec4 dop_x[%u];\n", k_pad / (half ? 8 : 4));
    if (half) {
        /* Two quarters to a vec4: a step of 8 values is one load. */
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

/* Number of slots whose rows of the activation are parts of one sum. */
static uint32_t
summed_slots(const dop_parts *p)
{
    return p->sum ? p->slots : 1;
}

/* Steps along the row of the product beside, which come after all others. */
static uint32_t
units_beside(const dop_parts *p)
{
    return dop_div_up_u32(p->k2, p->unit);
}

/* Steps along the row of one slot. */
static uint32_t
units_of(const dop_parts *p)
{
    return dop_div_up_u32(p->k, p->unit);
}

/* Steps of one row of the matrices, and of the part of it without the product beside. */
static uint32_t
steps_of(const dop_parts *p)
{
    return units_of(p) * summed_slots(p);
}

static uint32_t
all_steps(const dop_parts *p)
{
    return steps_of(p) + units_beside(p);
}

/* A gemv has one row; experts may have several, each a workgroup's own. */
static dop_status
parts_of(const dop_gen *gen, dop_parts *p)
{
    dop_status st = dop_gen_parts(gen, p);
    p->t = gen->e.r->tpl == DOP_TPL_expert_tiles && gen->e.g->max_t > 1 ? "dop_t" : "0u";
    return st;
}

static dop_rowprog
program_of(const dop_parts *p)
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
                         .others = p->acts + 1,
                         .n_others = p->n_acts - 1,
                         .which = "dop_act"};
}

void
dop_stage_beside(dop_gen *gen, const dop_parts *p, uint32_t first, dop_buf *body)
{
    dop_emit *e = &gen->e;
    dop_buf inner = {0};
    dop_emit_scope(e, &inner, "        ");
    const char *x = dop_emit_value(e, dop_node_at(e->g, p->beside)->src[0], (dop_index){p->t, "c"}, 4);
    dop_buf_printf(body,
                   "    for (uint i = gl_LocalInvocationIndex; i < %uu; i += WG) {\n        uint c = i * 4u;\n"
                   "%s        DOP_X_PUT(%uu + i, %s);\n    }\n",
                   p->k2 / 4, inner.data ? inner.data : "", first / 4, x);
    dop_buf_finish(&inner);
}

/* Row program into dop_x, or into its 8-bit form; statistics become the globals dop_stat<i>. */
static dop_status
stage_activation(dop_gen *gen, const dop_parts *p, uint32_t k_pad, uint32_t unit, bool half, dop_buf *decls,
                 dop_buf *constants, dop_buf *body)
{
    dop_emit *e = &gen->e;
    dop_status st = DOP_OK;
    bool ints = gen->descriptor->ints, direct = false, each = false;
    dop_rowprog prog = program_of(p);
    prog.constants = constants;
    if (p->experts)
        dop_expert_program(gen, p, k_pad, &prog, decls, &each);
    const uint32_t first = k_pad * summed_slots(p), all = first + p->k2;
    if (ints)
        st = dop_int8_declare(gen, &prog, all, decls, &direct);
    if (p->mixed) {
        if (st == DOP_OK && !direct)
            st = DOP_FAIL(e->diag, DOP_E_INTERNAL, "a row for two kinds of products is not made four values at a time");
        prog.stage = "DOP_XM";
        dop_buf_puts(decls, "bool dop_floats;\n#undef DOP_X_PUT\n#define DOP_XM_PUT(i, x) "
                            "if (dop_floats) DOP_X_PUT(i, x); else dop_xi_put(i, x)\n");
    }
    if (!ints || p->mixed)
        declare_stage(gen, all, unit, half, decls);
    if (each)
        dop_buf_printf(body, "    for (uint dop_j = 0u; dop_j < %uu; dop_j++) {\n", p->slots);
    if (k_pad > p->k)
        dop_buf_printf(body,
                       "    for (uint i = %uu + gl_LocalInvocationIndex; i < %uu; i += WG)\n"
                       "        DOP_X_PUT1(%s%si, 0.0);\n",
                       p->k, k_pad, each ? prog.stage_base : "", each ? " + " : "");
    uint32_t n_binds = e->n_binds;
    gen->own_sums = e->routes && !p->experts && gen->choice->tile.subgroup;
    gen->ends_in_sum = false;
    dop_gen_rowprog(gen, &prog, body);
    gen->own_sums = false;
    if (each)
        dop_buf_puts(body, "    }\n");
    if (p->beside)
        dop_stage_beside(gen, p, first, body);
    if (ints && !direct)
        dop_buf_puts(body, "    barrier();\n    dop_xi_row();\n    barrier();\n");
    else if (!gen->ends_in_sum || p->beside)
        dop_buf_puts(body, "    barrier();\n");
    for (uint32_t i = 0; i < p->n_stats; i++)
        dop_buf_printf(body, "    dop_stat%u = %s;\n", i, dop_emit_value(e, p->stats[i], (dop_index){p->t, "0u"}, 1));
    e->n_binds = n_binds;
    return st;
}

/* x[] of one step: from shared memory, or computed on the spot together with the statistics. */
static void
load_activation(dop_gen *gen, const dop_parts *p, dop_buf *load)
{
    dop_emit *e = &gen->e;
    const char *in = "                ";
    if (p->ints) {
        dop_buf_printf(load, "%sdop_xi x = dop_xi_get(v);\n", in);
        return;
    }
    dop_buf_printf(load, "%s    vec4 x[%u];\n", in, p->unit / 4);
    if (p->staged) {
        dop_buf_printf(load, "%s[[unroll]] for (uint q = 0u; q < %uu; q++)\n%s    x[q] = DOP_X_GET(v, q);\n", in,
                       p->unit / 4, in);
        return;
    }
    bool wide = dop_emit_wide(e, p->act);
    dop_buf inner = {0};
    dop_buf_printf(load, "%s[[unroll]] for (uint q = 0u; q < %uu; q++) {\n", in, p->unit / 4);
    const char *column = "c", *cj = "(c + j)", *times = "";
    if (p->beside) {
        dop_emit_scope(e, &inner, "                        ");
        const char *y = dop_emit_value(e, dop_node_at(e->g, p->beside)->src[0], (dop_index){p->t, "c"}, 4);
        dop_buf_printf(load,
                       "%s    if (v >= %uu) {\n%s        uint c = (v - %uu) * %uu + q * 4u;\n%s%s        x[q] = %s;\n"
                       "%s        continue;\n%s    }\n",
                       in, steps_of(p), in, steps_of(p), p->unit, inner.data ? inner.data : "", in, y, in, in);
        dop_buf_finish(&inner);
        inner = (dop_buf){0};
    }
    if (p->sum)
        dop_buf_printf(load, "%s    uint slot = v / %uu, c = v %% %uu * %uu + q * 4u;\n", in, units_of(p), units_of(p),
                       p->unit);
    else
        dop_buf_printf(load, "%s    uint c = v * %uu + q * 4u;\n", in, p->unit);
    if (p->own_rows) {
        column = dop_emit_str(e, "(%s * %uu + c)", p->sum ? "slot" : "dop_slot", p->k);
        cj = dop_emit_str(e, "(%s + j)", column);
    }
    if (p->sum)
        times = dop_emit_str(e, " * %s[slot]", dop_choice_row(gen, dop_node_at(e->g, p->sum)->src[1]));
    if (p->k % p->unit)
        dop_buf_printf(load, "%s    x[q] = vec4(0.0);\n", in);
    if (wide) {
        dop_emit_scope(e, &inner, "                        ");
        dop_emit_line(e, "x[q] = %s%s;", dop_emit_value(e, p->act, (dop_index){p->t, column}, 4), times);
        for (uint32_t i = 0; i < p->n_stats; i++)
            dop_emit_line(e, "dop_stat%u += dop_sumsq(%s);", i,
                          dop_emit_value(e, dop_node_at(e->g, p->stats[i])->src[0], (dop_index){p->t, column}, 4));
        if (p->k % p->unit)
            dop_buf_printf(load, "%s    if (c < %uu) {\n%s%s    }\n", in, p->k, inner.data ? inner.data : "", in);
        else
            dop_buf_printf(load, "%s    {\n%s%s    }\n", in, inner.data ? inner.data : "", in);
    } else {
        dop_emit_scope(e, &inner, "                        ");
        dop_emit_line(e, "x[q][j] = %s%s;", dop_emit_value(e, p->act, (dop_index){p->t, cj}, 1), times);
        dop_buf_printf(load, "%s    for (uint j = 0u; j < 4u; j++)\n%s        if (c + j < %uu) {\n%s%s        }\n", in,
                       in, p->k, inner.data ? inner.data : "", in);
    }
    dop_buf_printf(load, "%s}\n", in);
    dop_buf_finish(&inner);
}

/* An index, bounded only if it may exceed `last`, because a bound is a third of a load's instructions. */
static const char *
limited(dop_emit *e, bool beyond, const char *index, uint32_t last)
{
    return beyond ? dop_emit_str(e, "min(%s, %uu)", index, last) : index;
}

/* Loads of a product, or of a sum over slots, together with those of the product beside it where both weights have one type. */
static void
fetch_both(dop_gen *gen, const dop_parts *p, dop_node_id w, const char *row, const char *into, dop_buf *body)
{
    dop_emit *e = &gen->e;
    const dop_node_id other = dop_node_at(e->g, p->beside)->src[1];
    const dop_weight_type *wt = dop_weight_type_of(dop_node_at(e->g, w)->type);
    const char *a = p->experts ? dop_expert_weights(gen, p, w, "slot") : dop_emit_arg(e, w, false),
               *b = dop_emit_arg(e, other, false);
    const char *aux = dop_emit_weight(e, w), *aux_b = dop_emit_weight(e, other);
    dop_buf_printf(body, "        %s = dop_wload_%s(more ? %s : %s, (%s) * (more ? %uu : %uu) + v, more ? %s : %s);\n",
                   into, dop_type_of(wt->type)->name, b, a, row, dop_row_values(e->g, other) / wt->unit,
                   dop_row_values(e->g, w) / wt->unit, aux_b, aux);
}

/* The matrix of product m, for loads of its weights.  Where a workgroup has one slot, its expert's matrix is looked up once, in
 * `begin`. */
static const char *
matrix_of(dop_gen *gen, const dop_parts *p, uint32_t index, uint32_t m, dop_buf *begin, dop_buf *fetch)
{
    dop_emit *e = &gen->e;
    const dop_node_id w = dop_node_at(e->g, p->part[index].mats[m])->src[1];
    if (!p->experts)
        return dop_emit_arg(e, w, false);
    if (p->sum)
        return dop_expert_weights(gen, p, w, "slot");
    const char *name = dop_emit_str(e, "dop_matrix%u_%u", index, m);
    dop_buf_printf(fetch, "U32 %s;\n", name);
    dop_buf_printf(begin, "    %s = %s;\n", name, dop_expert_weights(gen, p, w, "dop_slot"));
    return name;
}

void
dop_gemv_fetch(dop_gen *gen, const dop_parts *p, uint32_t index, dop_buf *begin, dop_buf *fetch, dop_buf *raw)
{
    const dop_segment *part = &p->part[index];
    uint32_t units = all_steps(p);
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    const dop_tile *tile = &gen->choice->tile;
    dop_buf body = {0};
    bool rows_end = part->argmax || part->rows % (tile->wg / tile->lanes * tile->rows) != 0;
    const char *row = limited(e, rows_end, dop_emit_str(e, "row + i %% %uu", tile->rows), part->rows - 1);
    const char *v = dop_emit_str(e, "u + i / %uu * LANES", tile->rows);
    v = limited(e, units % (tile->lanes * tile->unroll) != 0, v, units - 1);
    if (p->beside)
        v = dop_emit_str(e,
                         "%s, slot = min(v / %uu, %uu);\n        bool more = v >= %uu;\n"
                         "        v -= more ? %uu : slot * %uu",
                         v, units_of(p), p->slots - 1, steps_of(p), steps_of(p), units_of(p));
    else if (p->sum)
        v = dop_emit_str(e, "%s, slot = v / %uu;\n        v %%= %uu", v, units_of(p), units_of(p));
    units = units_of(p);
    dop_buf head = {0};
    dop_buf_printf(&head, "void dop_fetch%u(uint row, uint u", index);
    for (uint32_t m = 0; m < part->n_mats; m++) {
        dop_node_id w = dop_node_at(g, part->mats[m])->src[1];
        dop_type type = dop_node_at(g, w)->type;
        const dop_weight_type *wt = dop_weight_type_of(type);
        uint32_t steps = p->unit / wt->unit, per_row = dop_row_values(g, w) / wt->unit;
        uint32_t count = tile->unroll * tile->rows * steps;
        if (p->beside) {
            dop_buf_printf(&head, ", out dop_raw_%s q%u[%u]", dop_type_of(type)->name, m, count);
            dop_buf_printf(raw, "        dop_raw_%s q%u[%u], n%u[%u];\n", dop_type_of(type)->name, m, count, m, count);
            fetch_both(gen, p, w, row, dop_emit_str(e, "q%u[i]", m), &body);
            continue;
        }
        const char *a = matrix_of(gen, p, index, m, begin, fetch);
        const char *aux = dop_emit_weight(e, w), *name = dop_type_of(type)->name;
        dop_buf_printf(&head, ", out dop_raw_%s q%u[%u]", name, m, count);
        dop_buf_printf(raw, "        dop_raw_%s q%u[%u], n%u[%u];\n", name, m, count, m, count);
        for (uint32_t s = 0; s < steps; s++) {
            const char *unit = dop_emit_str(e, "v * %uu + %uu", steps, s);
            dop_buf_printf(&body, "        q%u[i * %uu + %uu] = dop_wload_%s(%s, (%s) * %uu + %s, %s);\n", m, steps, s,
                           name, a, row, per_row, limited(e, units * steps > per_row, unit, per_row - 1), aux);
        }
    }
    dop_buf_printf(fetch,
                   "%s)\n{\n    [[unroll]] for (uint i = 0u; i < %uu; i++) {\n        uint v = %s;\n%s    }\n}\n",
                   head.data ? head.data : "", tile->unroll * tile->rows, v, body.data ? body.data : "");
    dop_buf_finish(&head);
    dop_buf_finish(&body);
}

const char *
dop_gemv_list(dop_gen *gen, const dop_segment *part, const char *format)
{
    dop_buf b = {0};
    for (uint32_t m = 0; m < part->n_mats; m++)
        for (const char *p = format; *p; p++)
            if (*p == '#')
                dop_buf_printf(&b, "%u", m);
            else
                dop_buf_append(&b, p, 1);
    const char *text = dop_emit_str(&gen->e, "%s", b.data ? b.data : "");
    dop_buf_finish(&b);
    return text;
}

/* Products of step j's activations with what was loaded for it. */
static void
emit_dots(dop_gen *gen, const dop_parts *p, const dop_segment *part, dop_buf *dots)
{
    const dop_graph *g = gen->e.g;
    uint32_t rows = gen->choice->tile.rows;
    for (uint32_t m = 0; m < part->n_mats; m++) {
        dop_type type = dop_node_at(g, dop_node_at(g, part->mats[m])->src[1])->type;
        uint32_t unit = dop_weight_type_of(type)->unit, steps = p->unit / unit;
        dop_buf_printf(dots, "                [[unroll]] for (uint r = 0u; r < %uu; r++) {\n", rows);
        if (p->beside) {
            dop_buf_printf(dots,
                           "                    float y = dop_wdot%s_%s(q%u[j * %uu + r], x);\n"
                           "                    acc[r] += v < %uu ? y : 0.0;\n"
                           "                    acc[%uu + r] += v < %uu ? 0.0 : y;\n                }\n",
                           p->ints ? "i" : "", dop_type_of(type)->name, m, rows, steps_of(p), rows, steps_of(p));
            continue;
        }
        for (uint32_t s = 0; s < steps; s++) {
            dop_buf_printf(dots, "                    acc[%u + r] += dop_wdot%s_%s(q%u[(j * %uu + r) * %uu + %uu], ",
                           m * rows, p->ints ? "i" : "", dop_type_of(type)->name, m, rows, steps, s);
            if (steps == 1) {
                dop_buf_puts(dots, "x);\n");
                continue;
            }
            dop_buf_printf(dots, "vec4[%u](", unit / 4);
            for (uint32_t q = 0; q < unit / 4; q++)
                dop_buf_printf(dots, "%sx[%u]", q ? ", " : "", s * unit / 4 + q);
            dop_buf_puts(dots, "));\n");
        }
        dop_buf_puts(dots, "                }\n");
    }
}

/* The epilogue of row c.  Where a team has a lane for each of its rows, what the epilogue loads goes to `preload`, before
 * the products. */
static void
emit_store(dop_gen *gen, const dop_parts *p, const dop_segment *part, dop_buf *preload, dop_buf *store)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    dop_index ix = {p->t, "c"};
    uint32_t n_binds = e->n_binds;
    if (p->experts && !p->sum)
        ix.c = dop_emit_str(e, "(dop_slot * %uu + c)", part->rows);
    for (uint32_t m = 0; m < part->n_mats; m++)
        dop_emit_bind(e, p->sum ? p->sum : part->mats[m],
                      tile->rows == 1 ? dop_emit_str(e, "acc[%u]", m) : dop_emit_str(e, "acc[%u + r]", m * tile->rows),
                      false, NULL);
    if (p->beside)
        dop_emit_bind(e, p->beside, tile->rows == 1 ? "acc[1]" : dop_emit_str(e, "acc[%u + r]", tile->rows), false,
                      NULL);
    if (tile->rows <= tile->lanes)
        e->constants = e->early = preload;
    dop_emit_scope(e, store, "                ");
    for (uint32_t i = 0; i < part->n_outs; i++)
        dop_emit_store(e, part->outs[i], ix, 1, dop_emit_value(e, part->outs[i], ix, 1));
    if (part->argmax) {
        const char *y = dop_emit_value(e, dop_node_at(e->g, part->argmax)->src[0], ix, 1);
        dop_emit_line(e, "float logit = dop_logit(%s);", y);
        dop_emit_line(e, "if (logit > best || (logit == best && c < where)) {");
        dop_emit_line(e, "    best = logit;");
        dop_emit_line(e, "    where = c;");
        dop_emit_line(e, "}");
    }
    e->constants = e->early = NULL;
    e->n_binds = n_binds;
}

/* Which rows a lane stores, and what it loads for that before their products.  once: there is one set of rows, so that these
 * loads may be in flight while the prologue waits. */
static void
set_store_rows(dop_gen *gen, const dop_segment *part, const char *limit, bool once, const dop_buf *preload,
               dop_keys *keys)
{
    dop_keys_set(keys, once ? "PRELOAD" : "EARLY", "");
    const dop_tile *tile = &gen->choice->tile;
    uint32_t rows = tile->rows;
    if (rows > tile->lanes) {
        dop_keys_set(keys, once ? "EARLY" : "PRELOAD", "");
        dop_keys_set(keys, "STORE_ROWS",
                     dop_emit_str(&gen->e,
                                  "for (uint r = LANE, c = row + LANE; r < %uu && c < %s; r += LANES, c += LANES)",
                                  rows, limit));
        return;
    }
    dop_keys_set(keys, "STORE_ROWS", dop_emit_str(&gen->e, "if (LANE < %uu && row + LANE < %s)", rows, limit));
    dop_buf text = {0};
    dop_buf_printf(&text, "    uint r = min(LANE, %uu), c = min(row + r, %uu);\n%s", rows - 1, part->rows - 1,
                   preload->data ? preload->data : "");
    const char *kept = text.failed ? NULL : dop_arena_strdup(gen->e.g->arena, text.data);
    if (!kept)
        gen->e.status = DOP_FAIL(gen->e.diag, DOP_E_NOMEM, "out of memory");
    dop_keys_set(keys, once ? "EARLY" : "PRELOAD", kept ? kept : "");
    dop_buf_finish(&text);
}

static dop_status
emit_part(dop_gen *gen, const dop_parts *p, uint32_t index, uint32_t n_wg, dop_buf *decls, dop_buf *out)
{
    dop_emit *e = &gen->e;
    const dop_segment *part = &p->part[index];
    const dop_tile *tile = &gen->choice->tile;
    uint32_t per_wg = tile->wg / tile->lanes * tile->rows, n_binds = e->n_binds;
    dop_keys keys = {0};
    dop_buf load = {0}, fetch = {0}, raw = {0}, dots = {0}, store = {0}, end = {0}, init = {0}, done = {0},
            preload = {0}, begin = {0};
    for (uint32_t i = 0; i < p->n_stats; i++)
        dop_emit_bind(e, p->stats[i], dop_emit_str(e, "dop_stat%u", i), false, NULL);
    for (uint32_t i = 0; i < p->n_stats && !p->staged; i++) {
        dop_buf_printf(&init, "        dop_stat%u = 0.0;\n", i);
        dop_buf_printf(&done, "        dop_stat%u = inversesqrt(dop_team_sum(dop_stat%u) / %u.0 + %.9g);\n", i, i, p->k,
                       dop_node_f(e->g, p->stats[i], DOP_A_eps));
    }
    dop_keys_num(gen, &keys, "P", index);
    dop_keys_num(gen, &keys, "M", part->n_mats + (p->beside != 0));
    dop_keys_num(gen, &keys, "N", part->rows);
    dop_keys_num(gen, &keys, "U", p->unit);
    dop_keys_num(gen, &keys, "ROWS", tile->rows);
    dop_keys_num(gen, &keys, "UNITS", all_steps(p));
    const char *limit;
    if (part->argmax) {
        uint32_t chunk = dop_div_up_u32(part->rows, n_wg);
        dop_gemv_argmax(gen, part, n_wg, &keys, decls, &end);
        dop_keys_set(&keys, "FIRST", dop_emit_str(e, "wg * %uu", chunk));
        dop_keys_set(&keys, "END", dop_emit_str(e, "min((wg + 1u) * %uu, %uu)", chunk, part->rows));
        limit = dop_emit_str(e, "min((wg + 1u) * %uu, %uu)", chunk, part->rows);
        dop_keys_set(&keys, "STRIDE", dop_emit_str(e, "%uu", per_wg));
    } else {
        dop_keys_set(&keys, "FIRST", dop_emit_str(e, "wg * %uu", per_wg));
        dop_keys_set(&keys, "END", dop_emit_str(e, "%uu", part->rows));
        limit = dop_emit_str(e, "%uu", part->rows);
        dop_keys_set(&keys, "STRIDE", dop_emit_str(e, "%uu", n_wg * per_wg));
    }
    dop_parts own = *p;
    own.act = p->acts[part->act];
    own.ints = p->ints && (!p->mixed || dop_int8_part(e->g, part));
    load_activation(gen, &own, &load);
    dop_gemv_fetch(gen, p, index, &begin, &fetch, &raw);
    if (!part->argmax)
        dop_keys_set(&keys, "PART_BEGIN", begin.data);
    emit_dots(gen, &own, part, &dots);
    emit_store(gen, p, part, &preload, &store);
    const bool once = e->routes && !part->argmax && !p->experts && n_wg * per_wg >= part->rows;
    set_store_rows(gen, part, limit, once, &preload, &keys);
    dop_keys_set(&keys, "STATS_INIT", init.data);
    dop_keys_set(&keys, "STATS_DONE", done.data);
    dop_keys_set(&keys, "LOAD", load.data);
    dop_keys_set(&keys, "FETCH", fetch.data);
    dop_keys_set(&keys, "RAW", raw.data);
    /* A break would keep the optimizer from unrolling the loop. */
    const bool whole = e->routes && all_steps(p) % (tile->lanes * tile->unroll) == 0;
    dop_keys_set(&keys, "BREAK", whole ? "" : dop_emit_str(e, "if (v >= %uu)\nbreak;\n", all_steps(p)));
    dop_keys_set(&keys, "Q", dop_gemv_list(gen, part, ", q#"));
    dop_keys_set(&keys, "NEXT", dop_gemv_list(gen, part, ", n#"));
    dop_keys_set(&keys, "SHIFT", dop_gemv_list(gen, part, " q# = n#;"));
    dop_keys_num(gen, &keys, "UNROLL", tile->unroll);
    dop_keys_set(&keys, "DOTS", dots.data);
    dop_keys_set(&keys, "STORE", store.data);
    dop_keys_set(&keys, "PART_END", end.data);
    dop_status st = e->status == DOP_OK ? dop_template_fill(gen, "gemv_part.glsl", &keys, out) : e->status;
    e->n_binds = n_binds;
    dop_buf_finish(&load);
    dop_buf_finish(&fetch);
    dop_buf_finish(&raw);
    dop_buf_finish(&dots);
    dop_buf_finish(&store);
    dop_buf_finish(&end);
    dop_buf_finish(&init);
    dop_buf_finish(&done);
    dop_buf_finish(&preload);
    dop_buf_finish(&begin);
    return st;
}

static uint32_t
log2_of(uint32_t n)
{
    uint32_t l = 0;
    while ((1u << l) < n)
        l++;
    return l;
}

/* Where the activation lies. */
typedef struct staging {
    uint32_t unit, k_pad; /* of all parts; values of a row in whole units */
    bool half;            /* shared memory holds halves */
} staging;

static bool
are_wide(const dop_emit *e, const dop_parts *p)
{
    bool wide = true;
    for (uint32_t i = 0; i < p->n_acts; i++)
        wide = wide && dop_emit_wide(e, p->acts[i]);
    return wide;
}

/* Sets p->staged where the row lies in shared memory, and the unit of every part. */
static staging
plan_staging(const dop_gen *gen, dop_parts *p)
{
    const dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    staging x = {.unit = p->unit}; /* one activation in shared memory serves all parts */
    uint32_t per_wg = tile->wg / tile->lanes * tile->rows;
    x.k_pad = (p->k + x.unit - 1) / x.unit * x.unit;
    uint32_t capacity = e->target->shared_bytes / 4 * 3, all = x.k_pad * summed_slots(p) + p->k2;
    /* On GPUs the row is staged when it costs something to compute, when a lane reads much of it at once, which would
     * conflict, or when many rows share it; otherwise a plain f32 row is read where it lies.  A mailbox is polled only
     * once. */
    bool worth = x.unit > 8 || p->n_prog > 0 || per_wg >= 16 || e->routes;
    if (gen->descriptor->ints)
        p->staged = true;
    else if (!p->staged && worth && tile->stage && all * 4 <= capacity)
        p->staged = true;
    else if (!p->staged && worth && tile->stage && all * 2 <= capacity && x.k_pad == p->k && are_wide(e, p))
        p->staged = x.half = true;
    return x;
}

/* Where the workgroups of a part compute heads that have a tail, each checks afterwards whether it completed a head.  A stage
 * instead has extra workgroups for the heads, after the `first` others, which wait for what they receive. */
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

dop_status
dop_gen_team(dop_gen *gen, dop_buf *out)
{
    dop_keys keys = {0};
    dop_keys_num(gen, &keys, "LANES", gen->choice->tile.lanes);
    dop_keys_num(gen, &keys, "LANES_LOG2", log2_of(gen->choice->tile.lanes));
    return dop_template_fill(gen, "team.glsl", &keys, out);
}

/* Beside integer products, those of floats have teams that take a row in one step: there are few such rows. */
static dop_selection
choose_floats(const dop_gen *gen, const dop_parts *p)
{
    dop_selection c = *gen->choice;
    c.tile.lanes = gen->e.target->subgroup;
    while (c.tile.lanes < c.tile.wg && c.tile.lanes < units_of(p))
        c.tile.lanes *= 2;
    c.tile.rows = c.tile.unroll = 1;
    return c;
}

/* Parts of floats stand behind the others, with teams of their own. */
static dop_status
emit_floats_team(dop_gen *gen, dop_buf *out)
{
    dop_buf_puts(out, "#undef LANES\n#undef LANES_LOG2\n#undef TEAMS\n#undef LANE\n#undef TEAM\n"
                      "#define dop_team dop_team_of_floats\n#define dop_team_sum dop_team_sum_of_floats\n");
    return dop_gen_team(gen, out);
}

/* The call of part i, of which a slot has n_wg workgroups, from workgroup `first` on. */
static const char *
call_of(dop_gen *gen, const dop_parts *p, uint32_t i, uint32_t first, uint32_t n_wg, bool tails)
{
    dop_emit *e = &gen->e;
    const char *call = dop_emit_str(e, "dop_part%u(wg - %uu);", i, first);
    if (p->experts && !p->sum)
        call =
            dop_emit_str(e, "dop_slot = (wg - %uu) / %uu; dop_part%u((wg - %uu) %% %uu);", first, n_wg, i, first, n_wg);
    if (p->mixed)
        call = dop_emit_str(e, "dop_floats = %s; %s", dop_int8_part(e->g, &p->part[i]) ? "false" : "true", call);
    if (p->n_acts > 1)
        call = dop_emit_str(e, "dop_act = %uu; %s", p->part[i].act, call);
    return tails ? dop_emit_str(e, "%s dop_tails(wg - %uu);", call, first) : call;
}

dop_status
dop_gemv_emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    dop_parts p;
    dop_keys keys = {0};
    dop_buf decls = {0}, constants = {0}, prologue = {0}, parts = {0}, calls = {0}, before = {0}, team = {0},
            floats = {0};
    dop_status st = parts_of(gen, &p);
    if (st != DOP_OK)
        return st;
    if (p.experts)
        dop_expert_begin(gen, &p, &decls, &before);
    uint32_t first = 0, per_wg = tile->wg / tile->lanes * tile->rows;
    const uint32_t handing = dop_tail_heads(gen) ? dop_region_part(e->r, e->r->info->tail_of) : p.n;
    for (uint32_t i = 0; i < p.n_stats; i++)
        dop_buf_printf(&decls, "float dop_stat%u;\n", i);
    if (p.n_acts > 1) /* number of the activation that the workgroup's part reads */
        dop_buf_puts(&decls, "uint dop_act;\n");
    staging x = plan_staging(gen, &p);
    uint32_t unit = x.unit, k_pad = x.k_pad;
    bool half = x.half;
    gen->halves = half;
    if (p.staged)
        st = stage_activation(gen, &p, k_pad, unit, half, &decls, &constants, &prologue);
    const dop_selection *own = gen->choice, other = choose_floats(gen, &p);
    if (p.mixed) {
        gen->choice = &other;
        st = st == DOP_OK ? emit_floats_team(gen, &floats) : st;
        gen->choice = own;
    }
    for (uint32_t i = 0; st == DOP_OK && i < p.n; i++) {
        const dop_segment *part = &p.part[i];
        const bool is_float = p.mixed && !dop_int8_part(e->g, part);
        gen->choice = is_float ? &other : own;
        tile = &gen->choice->tile;
        per_wg = tile->wg / tile->lanes * tile->rows;
        uint32_t n_parts = part->argmax ? (uint32_t)dop_node_i(e->g, part->argmax, DOP_A_parts) : 0;
        uint32_t n_wg = n_parts ? (e->routes && n_parts > e->target->cores ? e->target->cores : n_parts)
                                : dop_div_up_u32(part->rows, per_wg * (tile->loops ? tile->loops : 1));
        st = emit_part(gen, &p, i, n_wg, &decls, is_float ? &floats : &parts);
        const uint32_t n_all = n_wg * (p.sum ? 1 : p.slots);
        const char *call = call_of(gen, &p, i, first, n_wg, i == handing && !e->routes);
        first += n_all;
        dop_gen_call(&calls, call, i + 1 < p.n ? first : 0);
    }
    gen->choice = own;
    if (floats.data)
        dop_buf_puts(&parts, floats.data);
    gen->grid[0] = first;
    emit_tail(gen, first, per_wg, &decls, &before);
    gen->grid[1] = strcmp(p.t, "0u") == 0 ? 1 : e->g->max_t;
    gen->grid[2] = 1;
    if (st == DOP_OK)
        st = dop_gen_team(gen, &team);
    dop_keys_set(&keys, "TEAM", team.data);
    dop_keys_set(&keys, "DECLS", decls.data);
    dop_keys_set(&keys, "CONSTANTS", constants.data);
    dop_keys_set(&keys, "PROLOGUE", prologue.data);
    dop_keys_set(&keys, "PARTS", parts.data);
    dop_keys_set(&keys, "BEFORE", before.data);
    dop_keys_set(&keys, "CALLS", calls.data);
    if (st == DOP_OK)
        st = e->status == DOP_OK ? dop_template_fill(gen, "gemv.glsl", &keys, &gen->main) : e->status;
    dop_buf_finish(&team);
    dop_buf_finish(&floats);
    dop_buf_finish(&decls);
    dop_buf_finish(&constants);
    dop_buf_finish(&prologue);
    dop_buf_finish(&parts);
    dop_buf_finish(&calls);
    dop_buf_finish(&before);
    return st;
}

uint32_t
dop_gemv_shared(dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    dop_parts p;
    if (parts_of(gen, &p) != DOP_OK)
        return 0; /* generation says why */
    staging x = plan_staging(gen, &p);
    dop_rowprog prog = program_of(&p);
    uint32_t bytes = 4 * (tile->subgroup ? tile->wg / gen->e.target->subgroup : tile->wg); /* sums of a team */
    const uint32_t all = x.k_pad * summed_slots(&p) + p.k2;
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
