/* Products on CPU devices, for one token or several, including experts, as a nest. A workgroup is one subgroup, and every
 * lane has some rows of each matrix. Lanes exchange activations by shuffles, so that no sum crosses lanes, and scales are
 * loaded by the lanes that need them. There are no barriers: each would split the code into coroutines and prevent the driver
 * from finding uniform values. Such devices compile slowly, so code is not repeated: matrices of equal storage share theirs,
 * regardless of their part, and only the epilogues differ. Loads are few, because every load that is not from a view becomes
 * a loop over the lanes. */
#include "kernels/product/gen_rows.h"

#include "kernels/emit/weight_types.h"
#include "kernels/gen/gen_tail.h"
#include "kernels/gen/generate.h"
#include "kernels/gen/int8.h"
#include "kernels/gen/products.h"
#include "kernels/gen/row_program.h"
#include "kernels/gen/templates.h"
#include "kernels/product/gen_expert.h"
#include "kernels/product/gen_gemv.h"
#include "kernels/row/gen_choice.h"
#include "kernels/row/gen_group.h"

static const dop_weight_type *
weight_type(const dop_rows_gen *s, dop_node_id matmul)
{
    return dop_weight_type_of(dop_product_type(s->gen->e.g, matmul));
}

/* Returns the depth in values per iteration of a part's loop. */
static uint32_t
rows_loop_unit(const dop_rows_gen *s, const dop_segment *part)
{
    uint32_t unit = dop_part_unit(s->gen->e.g, part), least = s->gen->choice->tile.bk;
    return unit > least ? unit : least;
}

static dop_rowprog
rows_row_program(dop_rows_gen *s)
{
    return (dop_rowprog){.nodes = s->p.prog,
                         .n_nodes = s->p.n_prog,
                         .len = s->p.k,
                         .t = s->tb > 1 ? "t" : "0u",
                         .unit = s->blocks.by_pair ? dop_emit_str(&s->gen->e, "(" DOP_ROWS_PAIR " %% %uu)", s->p.slots)
                                                   : "0u",
                         .lanes = s->gen->choice->tile.wg,
                         .lane = "LANE",
                         .store_if = "gl_WorkGroupID.x == 0u",
                         .staged = s->staged ? s->p.act : 0,
                         .stage = "DOP_X",
                         .stage_base = dop_emit_str(&s->gen->e, "j * %uu", s->k_pad),
                         .others = s->p.activations + 1,
                         .n_others = s->p.n_activations - 1,
                         .apart = s->tb * s->k_pad};
}

/* Returns the rounds of a workgroup, which accumulate one matrix each: one per slot of a sum over slots, then one for the
 * second product (dop_product_facts.beside). */
static uint32_t
rounds_of(const dop_rows_gen *s)
{
    return s->summed + (s->p.beside != 0);
}

/* The row program of a token, and its staging. */
typedef struct prologue {
    dop_rowprog prog;
    bool direct, each; /* direct: staged in final form; each: the program runs once per slot of a sum */
} prologue;

/* Declares shared memory for activations (dop_x) and statistics (dop_st). */
static dop_status
declare_staged_rows(dop_rows_gen *s, prologue *o, dop_buf *decls)
{
    dop_emit *e = &s->gen->e;
    const dop_parts *p = &s->p;
    *o = (prologue){.prog = rows_row_program(s), .direct = true};
    o->prog.padded = s->k_pad;
    if (p->experts && s->staged && !s->blocks.n)
        dop_expert_program(s->gen, p, s->k_pad, &s->nest, &o->prog, decls, &o->each);
    dop_status st =
        s->ints ? dop_int8_declare(s->gen, &o->prog, s->k_pad * s->held + p->k2, decls, &o->direct) : DOP_OK;
    uint32_t values = s->ints || !s->staged ? 0 : s->tb * s->k_pad * s->held + p->k2;
    /* Two values per 64-bit word halve the number of loads. */
    bool pairs = values && (e->caps & DOP_CAP_int64) && s->k_pad == p->k && dop_rowprog_wide(s->gen, &o->prog);
    if (pairs)
        dop_buf_printf(decls,
                       "shared u64vec2 dop_x[%u];\n"
                       "#define DOP_X_PUT(i, x) dop_x[i] = u64vec2(pack64(floatBitsToUint((x).xy)), "
                       "pack64(floatBitsToUint((x).zw)))\n"
                       "vec4 dop_x_get(uint i)\n{\n    u64vec2 w = dop_x[i];\n"
                       "    return uintBitsToFloat(uvec4(unpack32(w.x), unpack32(w.y)));\n}\n",
                       values / 4);
    else if (values)
        dop_buf_printf(decls,
                       "shared vec4 dop_x[%u];\n"
                       "#define DOP_X_PUT(i, x) dop_x[i] = x\n"
                       "#define DOP_X_PUT1(i, x) dop_x[(i) >> 2][(i) & 3u] = x\n"
                       "vec4 dop_x_get(uint i) { return dop_x[i]; }\n",
                       values / 4);
    if (p->n_stats)
        dop_buf_printf(decls, "shared float dop_st[TB * %uu];\n", p->n_stats);
    return st;
}

/* Emits code that runs the row programs of the tokens, one after the other. They store the activation in dop_x, if it fits,
 * and statistics in dop_st. */
static void
emit_prologue(dop_rows_gen *s, const prologue *o)
{
    dop_emit *e = &s->gen->e;
    dop_nest *n = &s->nest;
    const dop_parts *p = &s->p;
    const bool many = s->tb > 1, loop = many || s->blocks.n;
    dop_buf stats = {0};
    if (!s->staged && !p->n_stats)
        return;
    if (s->blocks.n)
        dop_nest_for(n, "j", "0u", "TB", NULL)->rolled = true;
    else if (many)
        dop_nest_rolled(n, "j", "0u", "min(TB, n_tokens - t0)", NULL);
    else
        dop_nest_let(n, "const uint", "j", "0u");
    dop_nest_let(n, "uint", "t", "%s", dop_rows_row(s));
    if (s->blocks.n)
        dop_nest_break(n, "t >= n_tokens");
    if (o->each)
        dop_nest_for(n, "dop_j", "0u", dop_nest_text(n, "%uu", s->summed), NULL)->rolled = true;
    uint32_t n_binds = e->n_binds;
    e->viewing = true;
    dop_nest_rowprog(s->gen, &o->prog, n);
    e->viewing = false;
    if (o->each)
        dop_nest_end(n);
    if (p->beside && s->staged)
        dop_stage_beside(s->gen, p, s->k_pad * s->held, n);
    dop_emit_scope(e, &stats, "    ");
    for (uint32_t i = 0; i < p->n_stats; i++)
        dop_emit_line(e, "dop_st[j * %uu + %uu] = %s;", p->n_stats, i,
                      dop_emit_value(e, p->stats[i], (dop_index){many ? "t" : "0u", "0u"}, 1));
    e->n_binds = n_binds;
    dop_nest_hole(n, "stat", dop_gen_keep(s->gen, &stats));
    if (loop)
        dop_nest_end(n);
    if (!o->direct) {
        dop_nest_call(n, "DOP_STEP", "");
        dop_nest_call(n, "dop_xi_row", "");
    }
}

/* Emits code that computes columns c .. c+3 of one token's activation into `to`, which is initially zero. */
static void
emit_columns(dop_rows_gen *s, const char *to, const char *in, dop_buf *out)
{
    dop_emit *e = &s->gen->e;
    const dop_parts *p = &s->p;
    bool wide = dop_emit_wide(e, p->act);
    dop_buf *inner = dop_gen_text(s->gen);
    uint32_t n_binds = e->n_binds;
    for (uint32_t i = 0; i < p->n_stats; i++)
        dop_emit_bind(e, p->stats[i], dop_emit_str(e, "dop_st[j * %uu + %uu]", p->n_stats, i), false, NULL);
    dop_emit_scope(e, inner, dop_emit_str(e, "%s        ", in));
    const char *at = "", *times = "";
    if (s->blocks.by_pair)
        at = dop_emit_str(e, DOP_ROWS_PAIR " %% %uu * %uu + ", p->slots, p->k);
    else if (p->sum) {
        if (p->own_rows)
            at = dop_emit_str(e, "dop_slot * %uu + ", p->k);
        times = dop_emit_str(e, " * %s[dop_slot]", dop_choice_row(s->gen, dop_node_at(e->g, p->sum)->src[1]));
    }
    dop_index ix = {s->tb > 1 ? "t" : "0u", dop_emit_str(e, wide ? "(%sc)" : "(%sc + k)", at)};
    if (!*at && wide)
        ix.c = "c";
    dop_emit_line(e, wide ? "%s = %s%s;" : "%s[k] = %s%s;", to, dop_emit_value(e, p->act, ix, wide ? 4 : 1), times);
    if (wide && s->k_pad == p->k && !p->beside)
        dop_buf_printf(out, "%s{\n%s%s}\n", in, dop_buf_text(inner), in);
    else if (wide)
        dop_buf_printf(out, "%sif (c < %uu) {\n%s%s}\n", in, p->k, dop_buf_text(inner), in);
    else
        dop_buf_printf(out, "%sfor (uint k = 0u; k < 4u; k++)\n%s    if (c + k < %uu) {\n%s%s    }\n", in, in, p->k,
                       dop_buf_text(inner), in);
    e->n_binds = n_binds;
}

/* True if computing four activation values from views is faster than loading them from shared memory, which is a loop over
 * the lanes on CPU devices. */
static bool
quickly_made(const dop_rows_gen *s)
{
    const dop_parts *p = &s->p;
    return (s->gen->e.caps & DOP_CAP_texels) && !p->staged && !p->experts && !p->beside && p->n_activations == 1 &&
           dop_emit_wide(&s->gen->e, p->act) && dop_gen_operations(s->gen, p->act, 3) < 3;
}

/* Emits an if that loads the activation of the second product in the last round; code for the other rounds follows in the
 * else branch. */
static void
emit_beside(dop_rows_gen *s, const char *in, dop_buf *out)
{
    dop_emit *e = &s->gen->e;
    dop_buf *inner = dop_gen_text(s->gen);
    const uint32_t n_binds = e->n_binds;
    dop_emit_scope(e, inner, dop_emit_str(e, "%s        ", in));
    const char *x = dop_emit_value(e, dop_node_at(e->g, s->p.beside)->src[0], (dop_index){"0u", "c"}, 4);
    dop_buf_printf(out, "%sif (more) {\n%s    if (c < %uu) {\n%s%s        four = %s;\n%s    }\n%s} else {\n", in, in,
                   s->p.k2, dop_buf_text(inner), in, x, in, in);
    e->n_binds = n_binds;
}

/* Emits code that puts the activations of step v into x[j][] for every token j. Each lane loads or computes four values, and
 * all lanes receive them by shuffles. */
static void
emit_load(dop_rows_gen *s, const dop_segment *part, dop_buf *load)
{
    const char *in = "                ";
    uint32_t fours = rows_loop_unit(s, part) / 4;
    const uint32_t before = part->act * s->tb * s->k_pad / (s->ints ? 32 : 4); /* offset of this activation */
    const char *behind = before ? dop_emit_str(&s->gen->e, " + %uu", before) : "";
    if (s->ints) {
        if (rounds_of(s) > 1)
            behind = dop_emit_str(&s->gen->e, " + dop_slot * %uu", s->k_pad / 32);
        dop_buf_printf(load, "            dop_xi x[1];\n            x[0] = dop_xi_get(v%s);\n", behind);
        return;
    }
    const char *lane = fours < s->sg ? dop_emit_str(&s->gen->e, "LANE %% %uu", fours) : "LANE";
    dop_emit *e = &s->gen->e;
    const uint32_t n_binds = e->n_binds;
    const dop_node_id vector = !s->staged && quickly_made(s) ? dop_gen_vector(s->gen, s->p.act, s->p.k) : 0;
    e->viewing = !s->staged;
    dop_buf_printf(load, "            vec4 x[TB][%u];\n", fours);
    if (!s->staged)
        dop_buf_printf(load, "            uint c = v * %uu + %s * 4u;\n", rows_loop_unit(s, part), lane);
    if (vector) { /* loaded once for all tokens */
        dop_emit_scope(e, load, "            ");
        dop_emit_bind(e, vector, dop_emit_value(e, vector, (dop_index){"0u", "c"}, 4), false, NULL);
    }
    dop_buf_puts(load, "            [[unroll]] for (uint j = 0u; j < TB; j++) {\n");
    if (s->staged) {
        dop_buf_printf(load, "%svec4 four = dop_x_get(%s * %uu + v * %uu + %s%s);\n", in,
                       s->p.sum || s->p.beside ? "dop_slot" : "j", s->k_pad / 4, fours, lane, behind);
    } else {
        if (s->tb > 1)
            dop_buf_printf(load, "%suint t = min(%s, n_tokens - 1u);\n", in, dop_rows_row(s));
        dop_buf_printf(load, "%svec4 four = vec4(0.0);\n", in);
        if (s->p.beside)
            emit_beside(s, in, load);
        emit_columns(s, "four", in, load);
        if (s->p.beside)
            dop_buf_printf(load, "%s}\n", in);
    }
    e->viewing = false;
    e->n_binds = n_binds;
    dop_buf_printf(load, "%s[[unroll]] for (uint q = 0u; q < %uu; q++)\n%s    x[j][q] = subgroupShuffle(four, q);\n",
                   in, fours, in);
    dop_buf_puts(load, "            }\n");
}

/* True if the results of the part can be stored four adjacent rows at a time. Adjacent lanes with two rows each then exchange
 * sums; with one row each, the exchange would take as long as shared memory. */
static bool
stored_in_fours(const dop_rows_gen *s, const dop_segment *part)
{
    const dop_graph *g = s->gen->e.g;
    bool fours = s->tb > 1 && s->tb % 4 == 0 && (s->rows == 2 || s->rows == 4) && part->rows % 4 == 0 && !s->blocks.n &&
                 !s->p.experts && !s->p.sum && !s->p.beside && !part->argmax;
    for (uint32_t i = 0; i < part->n_outs && fours; i++)
        fours = dop_emit_wide(&s->gen->e, part->outs[i]) && !dop_node_writes_blocks(g, part->outs[i]);
    return fours;
}

/* Returns the index of unit k of step v in row r of matrix m, counted over packed rows. */
static const char *
unit_index(dop_rows_gen *s, const dop_segment *part, uint32_t m, uint32_t k)
{
    dop_emit *e = &s->gen->e;
    const dop_weight_type *wt = weight_type(s, part->mats[m]);
    uint32_t steps = rows_loop_unit(s, part) / wt->unit;
    uint32_t per_row = dop_row_values(e->g, dop_node_at(e->g, part->mats[m])->src[1]) / wt->unit;
    /* gl_WorkGroupID.z is zero, which the driver does not know. Otherwise it would compute equal offsets of two matrices
     * once, as a vector, and every lane would load them from memory. */
    const char *apart = m ? dop_emit_str(e, " + %uu * gl_WorkGroupID.z", m) : "";
    const char *each = s->p.beside ? "per_row" : dop_emit_str(e, "%uu", per_row);
    const char *last = s->p.beside ? "per_row - 1u" : dop_emit_str(e, "%uu", per_row - 1);
    const char *in_row = steps == 1 ? "v" : dop_emit_str(e, "min(v * %uu + %uu, %s)", steps, k, last);
    return dop_emit_str(e, "(min(row + r%s, rows - 1u) * %s%s + %s)", s->fours ? "" : " * SG", each, apart, in_row);
}

static const char *
first_word(dop_rows_gen *s, const dop_segment *part, uint32_t m, uint32_t k)
{
    return dop_gen_first_word(s->gen, dop_emit_str(&s->gen->e, "w%u", m), unit_index(s, part, m, k),
                              weight_type(s, part->mats[m])->unit_bytes);
}

/* Emits code that loads the first words of all rows and matrices one after the other, so that all slow loads overlap. */
static void
load_ahead(dop_rows_gen *s, const dop_segment *part)
{
    dop_nest *n = &s->nest;
    if (!s->ahead)
        return;
    for (uint32_t m = 0; m < part->n_mats; m++)
        dop_nest_array(n, s->gen->e.caps & DOP_CAP_texels ? "uvec4" : "uint64_t", dop_nest_text(n, "ahead%u", m),
                       s->rows);
    dop_nest_unrolled(n, "r", s->rows);
    for (uint32_t m = 0; m < part->n_mats; m++)
        dop_nest_load(n, dop_nest_text(n, "ahead%u[r]", m), "%s", first_word(s, part, m, 0));
    dop_nest_end(n);
}

/* Emits code that multiplies row r of every matrix by the activations of step v. */
static void
multiply_weight_row(dop_rows_gen *s, const dop_segment *part)
{
    dop_emit *e = &s->gen->e;
    dop_nest *n = &s->nest;
    for (uint32_t m = 0; m < part->n_mats; m++) {
        const dop_weight_type *wt = weight_type(s, part->mats[m]);
        const char *name = dop_type_of(wt->type)->name;
        const uint32_t steps = rows_loop_unit(s, part) / wt->unit, fours = wt->unit / 4;
        dop_emit_weight(e, dop_node_at(e->g, part->mats[m])->src[1]);
        for (uint32_t k = 0; k < steps; k++) {
            const char *q = dop_nest_text(n, "q%u_%u", m, k), *x = "x[j]";
            if (steps > 1) {
                x = dop_nest_text(n, "vec4[%u](", fours);
                for (uint32_t i = 0; i < fours; i++)
                    x = dop_nest_text(n, "%s%sx[j][%u]", x, i ? ", " : "", k * fours + i);
                x = dop_nest_text(n, "%s)", x);
            }
            if (s->ahead)
                dop_nest_set(n, "dop_ahead", "%s", k ? first_word(s, part, m, k) : dop_nest_text(n, "ahead%u[r]", m));
            dop_nest_let(n, dop_nest_text(n, "dop_raw_%s", name), q, "dop_wload_%s(w%u, %s, aux%u)", name, m,
                         unit_index(s, part, m, k), m);
            dop_nest_unrolled(n, "j", s->tb);
            dop_nest_dot(n, dop_nest_text(n, "acc[(%uu * ROWS + r) * TB + j]", m), "dop_wdot%s_%s(%s, %s)",
                         s->ints ? "i" : "", name, q, x);
            dop_nest_end(n);
        }
    }
}

/* True if two parts can form a group that shares its code. */
static bool
can_share_code(const dop_rows_gen *s, const dop_segment *a, const dop_segment *b)
{
    if (a->n_mats != b->n_mats || a->argmax || b->argmax || a->act != b->act)
        return false;
    for (uint32_t m = 0; m < a->n_mats; m++)
        if (weight_type(s, a->mats[m]) != weight_type(s, b->mats[m]))
            return false;
    return true;
}

/* Returns the number of blocks of rows of a part, per slot. */
static uint32_t
blocks_of(const dop_rows_gen *s, const dop_segment *part)
{
    return dop_div_up_u32(part->rows, s->rows * s->sg);
}

static uint32_t
slots_of(const dop_rows_gen *s)
{
    return s->blocks.n || s->p.sum ? 1 : s->p.slots;
}

/* Returns the expression of matrix w; with experts, of the matrix of the block's or slot's expert. */
static const char *
find_rows_matrix(dop_rows_gen *s, dop_node_id w)
{
    if (s->blocks.n)
        return dop_emit_str(&s->gen->e, "dop_same(%s)", dop_emit_matrix(&s->gen->e, w, "dop_matrix"));
    if (!s->p.experts)
        return dop_emit_matrix_arg(&s->gen->e, w);
    return dop_emit_str(&s->gen->e, "dop_same(%s)", dop_expert_weights(s->gen, &s->p, w, "dop_slot"));
}

/* Emits code that prepares the last round, which accumulates the second product: moves the sums of earlier rounds to other
 * registers, because the last round uses the first ones. */
static void
begin_last_round(dop_rows_gen *s, dop_node_id w)
{
    dop_emit *e = &s->gen->e;
    dop_nest *n = &s->nest;
    const dop_parts *p = &s->p;
    const dop_node_id other = dop_node_at(e->g, p->beside)->src[1];
    const uint32_t unit = dop_weight_type_of(dop_node_at(e->g, w)->type)->unit, step = rows_loop_unit(s, &p->part[0]);
    const char *slot = dop_emit_str(e, "min(dop_slot, %uu)", s->summed - 1);
    dop_nest_let(n, "bool", "more", "dop_slot == %uu", s->summed);
    dop_nest_let(n, "uint", "units", "more ? %uu : %uu", dop_div_up_u32(p->k2, step), dop_div_up_u32(p->k, step));
    dop_nest_let(n, "uint", "per_row", "more ? %uu : %uu", dop_row_values(e->g, other) / unit,
                 dop_row_values(e->g, w) / unit);
    dop_nest_set(n, "w0", "dop_same(%s)",
                 dop_emit_either(e, "more", dop_emit_matrix_arg(e, other),
                                 p->experts ? dop_expert_weights(s->gen, p, w, slot) : dop_emit_matrix_arg(e, w)));
    dop_nest_set(n, "aux0", "more ? %s : %s", dop_emit_weight(e, other), dop_emit_weight(e, w));
    dop_nest_if(n, "more");
    dop_nest_unrolled(n, "r", s->rows);
    dop_nest_set(n, "acc[ROWS + r]", "acc[r]");
    dop_nest_set(n, "acc[r]", "0.0");
    dop_nest_ends(n, 2);
}

/* Emits code that computes the sums of a block: a loop over steps of the depth. With several rounds it is inside a loop over
 * rounds, in which each slot and the second product has its own matrix. */
static void
sum_block(dop_rows_gen *s, const dop_segment *part)
{
    dop_nest *n = &s->nest;
    const bool rounds = s->p.sum || s->p.beside;
    dop_buf load = {0};
    dop_nest_zeros(n, "acc", s->mats * s->rows * s->tb);
    if (rounds) {
        dop_stmt *loop = dop_nest_for(n, "dop_slot", "0u", dop_nest_text(n, "%uu", rounds_of(s)), NULL);
        loop->declared = loop->rolled = true;
    }
    for (uint32_t m = 0; m < part->n_mats && rounds; m++) {
        const dop_node_id w = dop_node_at(s->gen->e.g, part->mats[m])->src[1];
        if (s->p.beside)
            begin_last_round(s, w);
        else
            dop_nest_set(n, dop_nest_text(n, "w%u", m), "%s", find_rows_matrix(s, w));
    }
    dop_nest_rolled(n, "v", "0u",
                    s->p.beside ? "units" : dop_nest_text(n, "%uu", dop_div_up_u32(s->p.k, rows_loop_unit(s, part))),
                    NULL);
    load_ahead(s, part);
    emit_load(s, part, &load);
    dop_nest_hole(n, "x", dop_gen_keep(s->gen, &load));
    dop_nest_unrolled(n, "r", s->rows);
    multiply_weight_row(s, part);
    dop_nest_ends(n, 2);
    if (rounds)
        dop_nest_end(n);
}

/* Declares a variable for the first part, and assigns it for later parts. */
static void
declare_or_set(dop_nest *n, uint32_t index, const char *type, const char *name, const char *value)
{
    if (index)
        dop_nest_set(n, name, "%s", value);
    else
        dop_nest_let(n, type, name, "%s", value);
}

/* Emits code that selects part `index` of the n parts of a group by the block number: sets the part's first block and its
 * matrices. */
static void
select_part(dop_rows_gen *s, const dop_segment *part, uint32_t index, uint32_t n_parts, uint32_t base)
{
    dop_emit *e = &s->gen->e;
    dop_nest *n = &s->nest;
    if (index)
        dop_nest_if(n, "%s >= %uu", s->block, base);
    declare_or_set(n, index, "uint", "base", dop_nest_text(n, "%uu", base));
    declare_or_set(n, index, "uint", "rows", dop_nest_text(n, "%uu", part->rows));
    if (index || s->p.n > 1)
        declare_or_set(n, index, "uint", "part", dop_nest_text(n, "%uu", index));
    if (s->p.experts && !s->blocks.n && !s->p.sum) {
        dop_nest_set(n, "dop_slot", "(%s - base) / %uu", s->block, blocks_of(s, part));
        dop_nest_add(n, "base", "dop_slot * %uu", blocks_of(s, part));
    }
    for (uint32_t m = 0; m < part->n_mats; m++) {
        const dop_node_id w = dop_node_at(e->g, part->mats[m])->src[1];
        declare_or_set(n, index, "DOP_W", dop_nest_text(n, "w%u", m),
                       s->p.sum ? dop_emit_matrix_arg(e, w) : find_rows_matrix(s, w));
        declare_or_set(n, index, "uint", dop_nest_text(n, "aux%u", m), dop_emit_weight(e, w));
    }
    if (index)
        dop_nest_end(n);
    for (uint32_t m = 0; index && index + 1 == n_parts && m < part->n_mats; m++)
        dop_nest_set(n, dop_nest_text(n, "w%u", m), "dop_same(w%u)", m);
}

/* Begins the loop over the blocks of a group. A workgroup has a fixed share of adjacent blocks, so that it reads memory in
 * order. With tile.claims, it has the block of its own number, and then blocks that it claims from the group's counter. */
static void
begin_block_loop(dop_rows_gen *s, uint32_t group, uint32_t blocks)
{
    dop_nest *n = &s->nest;
    const bool claims = s->gen->choice->tile.claims && blocks >= s->gen->choice->tile.loops;
    const char *end = dop_nest_text(n, "end%u", group), *next = NULL;
    s->gen->claims = s->gen->claims || claims;
    if (claims) {
        dop_nest_let(n, "uint", s->block, "gl_WorkGroupID.x");
        dop_nest_let(n, "uint", end, "%uu", blocks);
        next = dop_nest_text(n, "(%s = gl_NumWorkGroups.x + dop_claim(%s, %uu, %uu))", s->block,
                             dop_emit_counts(&s->gen->e), group, blocks);
    } else {
        dop_nest_let(n, "uint", s->block, "gl_WorkGroupID.x * %uu / gl_NumWorkGroups.x", blocks);
        dop_nest_let(n, "uint", end, "(gl_WorkGroupID.x + 1u) * %uu / gl_NumWorkGroups.x", blocks);
    }
    /* With fewer blocks than workgroups, some workgroups have none. */
    s->some = blocks < s->gen->choice->tile.loops;
    if (s->some)
        dop_nest_if(n, "%s < %s", s->block, end);
    dop_nest_rolled(n, s->block, NULL, end, next);
}

/* Begins the loops of a part with a partial arg-max, which divides the rows into ranges. The results are the maximum of each
 * range and its index. */
static void
begin_ranges(dop_rows_gen *s, const dop_segment *part, uint32_t parts)
{
    dop_nest *n = &s->nest;
    const uint32_t span = dop_div_up_u32(part->rows, parts);
    dop_nest_let(n, "uint", "last_part", "(gl_WorkGroupID.x + 1u) * %uu / gl_NumWorkGroups.x", parts);
    dop_nest_for(n, "a", dop_nest_text(n, "gl_WorkGroupID.x * %uu / gl_NumWorkGroups.x", parts), "last_part", NULL)
        ->rolled = true;
    dop_nest_let(n, "float", "best", "-3.4e38");
    dop_nest_let(n, "uint", "where", "0xffffffffu");
    dop_nest_let(n, "uint", "last", "min((a + 1u) * %uu, %uu)", span, part->rows);
    dop_nest_rolled(n, s->block, "0u", dop_nest_text(n, "%uu", dop_div_up_u32(span, s->rows * s->sg)), NULL);
}

static void
end_ranges(dop_rows_gen *s, const dop_segment *part)
{
    dop_nest *n = &s->nest;
    const char *out = dop_emit_arg(&s->gen->e, part->argmax, true);
    dop_nest_reduce(n, "float top", "subgroupMax(best)");
    dop_nest_reduce(n, "where", "subgroupMin(best == top ? where : 0xffffffffu)");
    dop_nest_if(n, "LANE == 0u");
    dop_nest_call(n, "dop_st1_f32", dop_nest_text(n, "%s, a * 2u, top", out));
    dop_nest_call(n, "dop_st1_f32", dop_nest_text(n, "%s, a * 2u + 1u, float(where)", out));
    dop_nest_ends(n, 2);
}

/* Emits a group of parts whose matrices share code. Loops are post-tested, because a pre-tested loop would run once more with
 * all lanes inactive. */
static dop_status
emit_group(dop_rows_gen *s, const dop_segment *const *parts, uint32_t n_parts, uint32_t group)
{
    const dop_region *r = s->gen->e.r;
    dop_nest *n = &s->nest;
    const dop_node_id argmax = parts[0]->argmax;
    const uint32_t ranges = argmax ? (uint32_t)dop_node_i(s->gen->e.g, argmax, DOP_A_parts) : 0;
    uint32_t blocks = 0, handing = 0; /* first block of the values that the per-head product reads */
    bool hands = false;
    dop_buf tail = {0};
    s->fours = true;
    s->mats = parts[0]->n_mats + (s->p.beside != 0);
    s->block = dop_nest_text(n, "b%u", group);
    for (uint32_t i = 0; i < n_parts; i++) {
        s->fours = s->fours && stored_in_fours(s, parts[i]);
        if (r->info->tail.id && parts[i] == &s->p.part[dop_region_part(r, r->info->tail.of)]) {
            handing = blocks;
            hands = true;
        }
        blocks += blocks_of(s, parts[i]) * slots_of(s);
    }
    s->p.act = s->p.activations[parts[0]->act];
    if (argmax)
        begin_ranges(s, parts[0], ranges);
    else
        begin_block_loop(s, group, blocks);
    for (uint32_t i = 0, base = 0; i < n_parts; i++) {
        select_part(s, parts[i], i, n_parts, base);
        base += blocks_of(s, parts[i]) * slots_of(s);
    }
    if (argmax)
        dop_nest_set(n, "rows", "last");
    const uint32_t span = argmax ? dop_div_up_u32(parts[0]->rows, ranges) : 0;
    dop_nest_let(n, "uint", "row", "%s + %s",
                 argmax ? dop_nest_text(n, "a * %uu + %s * (ROWS * SG)", span, s->block)
                        : dop_nest_text(n, "(%s - base) * (ROWS * SG)", s->block),
                 s->fours ? "LANE * ROWS" : "LANE");
    sum_block(s, parts[0]);
    dop_rows_end(s, parts, n_parts);
    dop_nest_end(n);
    if (argmax)
        end_ranges(s, parts[0]);
    else if (s->some)
        dop_nest_end(n);
    dop_status st = hands ? dop_tail_blocks(s->gen, handing, s->rows * s->sg, blocks, &tail) : DOP_OK;
    if (hands)
        dop_nest_hole(n, "heads", dop_gen_keep(s->gen, &tail));
    return st;
}

static uint32_t
experts_bytes(dop_gen *gen, const dop_rows_gen *s)
{
    return s->blocks.n ? dop_blocks_bytes(gen, s->tb) : s->p.experts ? dop_expert_bytes(gen) : 0;
}

/* Emits code that finds the workgroup's rows of the step, and returns if it has none. */
static void
emit_tokens(dop_rows_gen *s, dop_buf *decls, dop_buf *out)
{
    dop_gen *gen = s->gen;
    if (s->p.experts) /* a workgroup of one subgroup needs no barrier */
        dop_buf_puts(decls, "#define barrier() DOP_STEP()\n");
    if (s->tb == 1 && !s->blocks.n) {
        dop_buf_puts(out, "    const uint t0 = 0u, n_tokens = 1u;\n");
        if (s->p.beside && !s->p.experts)
            dop_buf_puts(decls, "uint dop_slot;\n");
        return;
    }
    dop_buf_puts(decls, "#define BM TB\n");
    dop_buf_printf(out, "    uint n_tokens = %s;\n", dop_emit_n_tokens(&gen->e));
    gen->grid[1] = dop_tiles_begin(gen, "gl_WorkGroupID.y", "n_tokens", decls, out);
    if (s->blocks.n)
        dop_buf_puts(decls, "uint dop_pair_of(uint j) { return subgroupBroadcastFirst(dop_pair[j]); }\n");
}

static dop_status
begin_rows_gen(dop_rows_gen *s, dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    *s = (dop_rows_gen){.gen = gen, .tb = tile->bm, .rows = tile->rows, .sg = tile->wg};
    dop_status st = dop_gen_parts(gen, &s->p);
    if (st != DOP_OK)
        return st;
    uint32_t unit = s->p.unit > tile->bk ? s->p.unit : tile->bk;
    s->k_pad = (s->p.k + unit - 1) / unit * unit;
    s->blocks = dop_blocks_of(gen->e.g, gen->e.r);
    s->summed = s->p.sum ? s->p.slots : 1;
    s->held = s->summed * s->p.n_activations; /* at most one factor exceeds 1: sums over slots have one activation */
    s->p.t = s->tb > 1 ? "t" : "0u";
    bool fours = true;
    for (uint32_t i = 0; i < s->p.n; i++)
        fours = fours && stored_in_fours(s, &s->p.part[i]);
    s->sums = s->tb > 1 && !fours ? s->sg * s->tb * gen->e.r->info->product.most_mats * s->rows * 4 : 0;
    /* Other uses of shared memory are small. Fusion has checked the size of programs that must run first. */
    s->ints = gen->descriptor->ints;
    s->ahead = dop_gen_ahead(gen);
    const uint32_t others = s->sums + experts_bytes(gen, s);
    s->staged =
        s->ints || (s->p.staged && s->tb == 1) ||
        (!quickly_made(s) && others + (s->tb * (s->k_pad * s->held + 16) + s->p.k2) * 4 <= gen->e.target->shared_bytes);
    return DOP_OK;
}

/* Returns the placement: weight rows are divided among workgroups, lanes and registers; each lane walks over the whole
 * depth. */
static dop_nest_placement
place_rows(const dop_rows_gen *s)
{
    dop_nest_placement pl = {.subgroup = s->sg, .sum = DOP_MEET_none};
    pl.at[DOP_PLACE_t][DOP_LEVEL_reg] = s->tb;
    pl.at[DOP_PLACE_n][DOP_LEVEL_grid] = s->gen->choice->tile.loops;
    pl.at[DOP_PLACE_n][DOP_LEVEL_lane] = s->sg;
    pl.at[DOP_PLACE_n][DOP_LEVEL_reg] = s->rows;
    pl.at[DOP_PLACE_k][DOP_LEVEL_loop] = s->k_pad / s->p.unit;
    pl.x = (dop_movement){.path = s->staged ? DOP_PATH_whole : DOP_PATH_direct, .unit = 4};
    pl.w = (dop_movement){.unit = s->p.unit};
    return pl;
}

/* Groups parts that can share code, and emits the groups one after the other. */
static dop_status
emit_groups(dop_rows_gen *s)
{
    dop_emit *e = &s->gen->e;
    bool *done = dop_arena_alloc(e->g->arena, s->p.n * sizeof *done);
    const dop_segment **members = dop_arena_alloc(e->g->arena, s->p.n * sizeof *members);
    if (!(done && members))
        DOP_RETURN_IF_ERROR(DOP_NO_MEMORY(e->diag));
    for (uint32_t i = 0, group = 0; i < s->p.n; i++) {
        uint32_t n = 0;
        if (done[i])
            continue;
        members[n++] = &s->p.part[i];
        for (uint32_t k = i + 1; k < s->p.n; k++)
            if (!done[k] && can_share_code(s, &s->p.part[i], &s->p.part[k])) {
                done[k] = true;
                members[n++] = &s->p.part[k];
            }
        DOP_RETURN_IF_ERROR(emit_group(s, members, n, group++));
    }
    return DOP_OK;
}

dop_status
dop_rows_emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    dop_rows_gen s;
    dop_keys keys = {0};
    dop_buf decls = {0}, tokens = {0};
    prologue rows;
    dop_status st = begin_rows_gen(&s, gen);
    if (st != DOP_OK)
        return st;
    dop_nest *n = &s.nest;
    const dop_nest_placement pl = place_rows(&s);
    dop_nest_open(n, dop_variant_of(gen->choice->variant)->name, &pl, e->g->arena, e->diag);
    dop_nest_number(n, "ROWS", s.rows);
    dop_nest_number(n, "TB", s.tb);
    st = dop_template_fill(gen, "rows.glsl", &keys, &decls);
    emit_tokens(&s, &decls, &tokens);
    dop_nest_hole(n, "lanes", dop_gen_keep(gen, &decls));
    const bool chooses = s.tb == 1 && s.p.experts && !s.blocks.n;
    if (chooses)
        dop_expert_begin(gen, &s.p, n);
    if (s.sums)
        dop_buf_printf(&decls, "shared vec4 dop_part[%u];\n", s.sums / 16);
    dop_tail_declare(gen, 1, &decls);
    if (st == DOP_OK)
        st = declare_staged_rows(&s, &rows, &decls);
    dop_nest_hole(n, "rows in shared memory", dop_gen_keep(gen, &decls));
    dop_nest_function(n, "main", "");
    dop_nest_hole(n, "tokens", dop_gen_keep(gen, &tokens));
    if (chooses)
        dop_nest_call(n, "dop_choose", "");
    if (st == DOP_OK)
        emit_prologue(&s, &rows);
    dop_nest_call(n, "DOP_STEP", "");
    if (st == DOP_OK)
        st = emit_groups(&s);
    dop_nest_end(n);
    gen->grid[0] = gen->choice->tile.loops;
    return st == DOP_OK ? dop_gen_print_nest(gen, n) : st;
}

uint32_t
dop_rows_shared(dop_gen *gen)
{
    dop_rows_gen s;
    if (begin_rows_gen(&s, gen) != DOP_OK)
        return 0; /* the error is reported at generation */
    dop_rowprog prog = rows_row_program(&s);
    uint32_t row = s.ints     ? dop_int8_bytes(gen, &prog, s.k_pad * s.held + s.p.k2)
                   : s.staged ? (s.tb * s.k_pad * s.held + s.p.k2) * 4
                              : 0;
    return s.sums + row + s.tb * s.p.n_stats * 4 + experts_bytes(gen, &s) + dop_tail_bytes(gen, 1);
}
