/* Fills rows.glsl: products on CPU devices, for one token or several, experts' products too.  Matrices of equal storage share their
 * code, whatever part they belong to, because CPU devices compile slowly; only the epilogues differ. */
#include "kernels/gen.h"

#include "kernels/weight_types.h"

typedef struct rows_gen {
    dop_gen *gen;
    dop_parts p;
    uint32_t tb, rows;
    uint32_t sg;     /* lanes of a workgroup, which is one subgroup */
    uint32_t k_pad;  /* values of a staged row, padded to whole units */
    uint32_t sums;   /* bytes of shared memory for the sums of several tokens */
    bool staged;     /* the whole activation is staged in dop_x */
    bool ints;       /* the staged activation is in 8 bits */
    bool fours;      /* the epilogue of the group at hand gives each lane four neighbouring rows */
    bool ahead;      /* the first words of units are prefetched, before all other loads */
    uint32_t summed; /* slots whose rows of the activation are parts of one sum, else 1 */
    uint32_t held;   /* rows of activations that lie in shared memory for each token */
    dop_blocks blocks;
} rows_gen;

/* Expression of the pair (row of the step and slot) that is token j of a block; it has the same value in all lanes. */
#define PAIR "dop_pair_of(j)"

/* The row of the step that is token j of the workgroup. */
static const char *
row_of(const rows_gen *s)
{
    return s->blocks.id ? dop_blocks_row(s->gen, &s->blocks, PAIR) : "t0 + j";
}

static const dop_weight_type *
weight_type(const rows_gen *s, dop_node_id matmul)
{
    return dop_weight_type_of(dop_node_at(s->gen->e.g, dop_node_at(s->gen->e.g, matmul)->src[1])->type);
}

/* Values of the depth that a part's loop takes per iteration. */
static uint32_t
unit_of(const rows_gen *s, const dop_segment *part)
{
    uint32_t unit = dop_part_unit(s->gen->e.g, part), least = s->gen->choice->tile.bk;
    return unit > least ? unit : least;
}

static dop_rowprog
program_of(rows_gen *s)
{
    return (dop_rowprog){.nodes = s->p.prog,
                         .n_nodes = s->p.n_prog,
                         .len = s->p.k,
                         .t = s->tb > 1 ? "t" : "0u",
                         .unit = s->blocks.by_pair ? dop_emit_str(&s->gen->e, "(" PAIR " %% %uu)", s->p.slots) : "0u",
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

/* Rounds of a workgroup, which add up one matrix each: one for each slot of a sum over slots, then one for the product beside
 * (dop_product_facts.beside). */
static uint32_t
rounds_of(const rows_gen *s)
{
    return s->summed + (s->p.beside != 0);
}

/* Runs the row programs of the tokens, one after the other.  They put the activation into dop_x, if it fits, and statistics into
 * dop_st. */
static dop_status
emit_prologue(rows_gen *s, dop_buf *decls, dop_buf *body)
{
    dop_emit *e = &s->gen->e;
    const dop_parts *p = &s->p;
    bool many = s->tb > 1, direct = true, each = false;
    dop_rowprog prog = program_of(s);
    if (p->experts && s->staged && !s->blocks.id)
        dop_expert_program(s->gen, p, s->k_pad, &prog, decls, &each);
    dop_status st = s->ints ? dop_int8_declare(s->gen, &prog, s->k_pad * s->held + p->k2, decls, &direct) : DOP_OK;
    uint32_t values = s->ints || !s->staged ? 0 : s->tb * s->k_pad * s->held + p->k2;
    /* With two values in a word there are half as many loads. */
    bool pairs = values && (e->caps & DOP_CAP_int64) && s->k_pad == p->k && dop_rowprog_wide(s->gen, &prog);
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
    if ((!s->staged && !p->n_stats) || st != DOP_OK)
        return st;
    if (s->blocks.id)
        dop_buf_printf(body,
                       "    [[dont_unroll]] for (uint j = 0u; j < TB; j++) {\n    uint t = %s;\n"
                       "    if (t >= n_tokens)\n        break;\n",
                       row_of(s));
    else
        dop_buf_printf(body, "%s    uint t = t0 + j;\n",
                       many ? "    [[dont_unroll]] for (uint j = 0u;;) {\n" : "    {\n    const uint j = 0u;\n");
    const char *until = many && !s->blocks.id ? "    DOP_UNTIL(++j >= min(TB, n_tokens - t0))\n" : "";
    if (each)
        dop_buf_printf(body, "    [[dont_unroll]] for (uint dop_j = 0u; dop_j < %uu; dop_j++) {\n", s->summed);
    for (uint32_t i = 0; i < p->n_activations && s->staged && s->k_pad > p->k; i++)
        dop_buf_printf(body,
                       "    for (uint i = %uu + LANE; i < %uu; i += WG)\n"
                       "        dop_x[(%s + i) >> 2][i & 3u] = 0.0;\n",
                       p->k + i * prog.apart, s->k_pad + i * prog.apart, prog.stage_base);
    uint32_t n_binds = e->n_binds;
    e->viewing = true;
    dop_gen_rowprog(s->gen, &prog, body);
    e->viewing = false;
    if (each)
        dop_buf_puts(body, "    }\n");
    if (p->beside && s->staged)
        dop_stage_beside(s->gen, p, s->k_pad * s->held, body);
    dop_emit_scope(e, body, "    ");
    for (uint32_t i = 0; i < p->n_stats; i++)
        dop_emit_line(e, "dop_st[j * %uu + %uu] = %s;", p->n_stats, i,
                      dop_emit_value(e, p->stats[i], (dop_index){many ? "t" : "0u", "0u"}, 1));
    e->n_binds = n_binds;
    dop_buf_printf(body, "%s    }\n%s", until, direct ? "" : "    DOP_STEP();\n    dop_xi_row();\n");
    return DOP_OK;
}

/* Computes columns c .. c+3 of one token's activation into `to`, which is zero before. */
static void
emit_columns(rows_gen *s, const char *to, const char *in, dop_buf *out)
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
        at = dop_emit_str(e, PAIR " %% %uu * %uu + ", p->slots, p->k);
    else if (p->sum) {
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

/* Is computing four values of the activation from views faster than loading them from shared memory, which is a loop over the
 * lanes on CPU devices? */
static bool
quickly_made(const rows_gen *s)
{
    const dop_parts *p = &s->p;
    return (s->gen->e.caps & DOP_CAP_texels) && !p->staged && !p->experts && !p->beside && p->n_activations == 1 &&
           dop_emit_wide(&s->gen->e, p->act) && dop_gen_operations(s->gen, p->act, 3) < 3;
}

/* Code that puts the activation of the product beside into registers in the last round, as an if; the code that follows is for the
 * other rounds. */
static void
emit_beside(rows_gen *s, const char *in, dop_buf *out)
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

/* Puts the activations of step v into x[j][] for every token j.  Each lane loads or computes four values, and all lanes get them
 * from it by shuffles. */
static void
emit_load(rows_gen *s, const dop_segment *part, dop_buf *load)
{
    const char *in = "                ";
    uint32_t fours = unit_of(s, part) / 4;
    const uint32_t before = part->act * s->tb * s->k_pad / (s->ints ? 32 : 4); /* of other activations */
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
        dop_buf_printf(load, "            uint c = v * %uu + %s * 4u;\n", unit_of(s, part), lane);
    if (vector) { /* It is loaded once for all tokens. */
        dop_emit_scope(e, load, "            ");
        dop_emit_bind(e, vector, dop_emit_value(e, vector, (dop_index){"0u", "c"}, 4), false, NULL);
    }
    dop_buf_puts(load, "            [[unroll]] for (uint j = 0u; j < TB; j++) {\n");
    if (s->staged) {
        dop_buf_printf(load, "%svec4 four = dop_x_get(%s * %uu + v * %uu + %s%s);\n", in,
                       s->p.sum || s->p.beside ? "dop_slot" : "j", s->k_pad / 4, fours, lane, behind);
    } else {
        if (s->tb > 1)
            dop_buf_printf(load, "%suint t = min(%s, n_tokens - 1u);\n", in, row_of(s));
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

/* Can the results of the part be stored four neighbouring rows at a time?  Neighbouring lanes then exchange sums if they have two
 * rows each; what lanes with one row would exchange takes as long as shared memory. */
static bool
stored_in_fours(const rows_gen *s, const dop_segment *part)
{
    const dop_graph *g = s->gen->e.g;
    bool fours = s->tb > 1 && s->tb % 4 == 0 && (s->rows == 2 || s->rows == 4) && part->rows % 4 == 0 &&
                 !s->blocks.id && !s->p.experts && !s->p.sum && !s->p.beside && !part->argmax;
    for (uint32_t i = 0; i < part->n_outs && fours; i++)
        fours = dop_emit_wide(&s->gen->e, part->outs[i]) && !dop_node_writes_blocks(g, part->outs[i]);
    return fours;
}

/* The number of unit k of step v in row r of matrix m, counted over packed rows. */
static const char *
unit_index(rows_gen *s, const dop_segment *part, uint32_t m, uint32_t k)
{
    dop_emit *e = &s->gen->e;
    const dop_weight_type *wt = weight_type(s, part->mats[m]);
    uint32_t steps = unit_of(s, part) / wt->unit;
    uint32_t per_row = dop_row_values(e->g, dop_node_at(e->g, part->mats[m])->src[1]) / wt->unit;
    /* gl_WorkGroupID.z is zero, which the driver does not know.  If it did, it would compute equal offsets of two matrices once,
     * as a vector, and every lane would take them from memory. */
    const char *apart = m ? dop_emit_str(e, " + %uu * gl_WorkGroupID.z", m) : "";
    const char *each = s->p.beside ? "per_row" : dop_emit_str(e, "%uu", per_row);
    const char *last = s->p.beside ? "per_row - 1u" : dop_emit_str(e, "%uu", per_row - 1);
    const char *in_row = steps == 1 ? "v" : dop_emit_str(e, "min(v * %uu + %uu, %s)", steps, k, last);
    return dop_emit_str(e, "(min(row + r%s, rows - 1u) * %s%s + %s)", s->fours ? "" : " * SG", each, apart, in_row);
}

static const char *
first_word(rows_gen *s, const dop_segment *part, uint32_t m, uint32_t k)
{
    return dop_gen_first_word(s->gen, dop_emit_str(&s->gen->e, "w%u", m), unit_index(s, part, m, k),
                              weight_type(s, part->mats[m])->unit_bytes);
}

/* Loads the first words of all rows and matrices one after the other, so that all slow loads overlap. */
static void
emit_ahead(rows_gen *s, const dop_segment *part, dop_buf *ahead)
{
    const char *in = "            ";
    if (!s->ahead)
        return;
    for (uint32_t m = 0; m < part->n_mats; m++)
        dop_buf_printf(ahead, "%s%s ahead%u[ROWS];\n", in, s->gen->e.caps & DOP_CAP_texels ? "uvec4" : "uint64_t", m);
    dop_buf_printf(ahead, "%s[[unroll]] for (uint r = 0u; r < ROWS; r++) {\n", in);
    for (uint32_t m = 0; m < part->n_mats; m++)
        dop_buf_printf(ahead, "%s    ahead%u[r] = %s;\n", in, m, first_word(s, part, m, 0));
    dop_buf_printf(ahead, "%s}\n", in);
}

/* Products of row r of every matrix with the activations of step v. */
static void
emit_dots(rows_gen *s, const dop_segment *part, dop_buf *dots)
{
    dop_emit *e = &s->gen->e;
    const char *in = "                ";
    for (uint32_t m = 0; m < part->n_mats; m++) {
        const dop_weight_type *wt = weight_type(s, part->mats[m]);
        const char *name = dop_type_of(wt->type)->name;
        uint32_t steps = unit_of(s, part) / wt->unit;
        dop_emit_weight(e, dop_node_at(e->g, part->mats[m])->src[1]);
        for (uint32_t k = 0; k < steps; k++) {
            if (s->ahead)
                dop_buf_printf(dots, "%sdop_ahead = %s;\n", in,
                               k ? first_word(s, part, m, k) : dop_emit_str(e, "ahead%u[r]", m));
            dop_buf_printf(dots,
                           "%sdop_raw_%s q%u_%u = dop_wload_%s(w%u, %s, aux%u);\n"
                           "%s[[unroll]] for (uint j = 0u; j < TB; j++)\n"
                           "%s    acc[(%uu * ROWS + r) * TB + j] += dop_wdot%s_%s(q%u_%u, ",
                           in, name, m, k, name, m, unit_index(s, part, m, k), m, in, in, m, s->ints ? "i" : "", name,
                           m, k);
            if (steps == 1) {
                dop_buf_puts(dots, "x[j]);\n");
                continue;
            }
            dop_buf_printf(dots, "vec4[%u](", wt->unit / 4);
            for (uint32_t q = 0; q < wt->unit / 4; q++)
                dop_buf_printf(dots, "%sx[j][%u]", q ? ", " : "", k * wt->unit / 4 + q);
            dop_buf_puts(dots, "));\n");
        }
    }
}

static void
emit_store(rows_gen *s, const dop_segment *part, dop_buf *store)
{
    dop_emit *e = &s->gen->e;
    dop_index ix = {s->tb > 1 ? "t" : "0u", "c"};
    uint32_t n_binds = e->n_binds;
    for (uint32_t m = 0; m < part->n_mats; m++)
        dop_emit_bind(e, s->p.sum ? s->p.sum : part->mats[m], dop_emit_str(e, "y[%u]", m + (s->p.beside != 0)), false,
                      NULL);
    if (s->p.beside) /* Its round is the last, so its sums are in y[0]. */
        dop_emit_bind(e, s->p.beside, "y[0]", false, NULL);
    dop_emit_scope(e, store, "                    ");
    if (s->blocks.id) {
        dop_emit_line(e, "uint at = %s;", dop_blocks_column(s->gen, &s->blocks, PAIR, part->rows));
        ix.c = "at";
    } else if (s->p.experts && !s->p.sum) {
        ix.c = dop_emit_str(e, "(dop_slot * %uu + c)", part->rows);
    }
    for (uint32_t i = 0; i < s->p.n_stats; i++) {
        dop_emit_line(e, "float st%u = dop_st[j * %uu + %uu];", i, s->p.n_stats, i);
        dop_emit_bind(e, s->p.stats[i], dop_emit_str(e, "st%u", i), false, NULL);
    }
    const uint32_t width = s->fours ? 4 : 1;
    for (uint32_t i = 0; i < part->n_outs; i++)
        dop_emit_store(e, part->outs[i], ix, width, dop_emit_value(e, part->outs[i], ix, width));
    if (part->argmax) {
        const char *y = dop_emit_value(e, dop_node_at(e->g, part->argmax)->src[0], ix, 1);
        dop_emit_line(e, "float logit = dop_logit(%s);", y);
        dop_emit_line(e, "if (logit > best) {");
        dop_emit_line(e, "    best = logit;");
        dop_emit_line(e, "    where = c;");
        dop_emit_line(e, "}");
    }
    e->n_binds = n_binds;
}

/* Can two parts be one group, which shares its code? */
static bool
alike(const rows_gen *s, const dop_segment *a, const dop_segment *b)
{
    if (a->n_mats != b->n_mats || a->argmax || b->argmax || a->act != b->act)
        return false;
    for (uint32_t m = 0; m < a->n_mats; m++)
        if (weight_type(s, a->mats[m]) != weight_type(s, b->mats[m]))
            return false;
    return true;
}

/* The number of blocks of rows of a part, for each slot. */
static uint32_t
blocks_of(const rows_gen *s, const dop_segment *part)
{
    return dop_div_up_u32(part->rows, s->rows * s->sg);
}

static uint32_t
slots_of(const rows_gen *s)
{
    return s->blocks.id || s->p.sum ? 1 : s->p.slots;
}

/* Expression of matrix w; with experts, of the matrix of the block's expert, or of the slot's. */
static const char *
matrix_of(rows_gen *s, dop_node_id w)
{
    if (s->blocks.id)
        return dop_emit_str(&s->gen->e, "dop_same(%s)", dop_emit_matrix(&s->gen->e, w, "dop_matrix"));
    if (!s->p.experts)
        return dop_emit_matrix_arg(&s->gen->e, w);
    return dop_emit_str(&s->gen->e, "dop_same(%s)", dop_expert_weights(s->gen, &s->p, w, "dop_slot"));
}

/* Prepares the last round, in which the product beside is summed up: moves the sums of earlier rounds to other registers, because
 * the last round uses the first ones. */
static void
emit_last_round(rows_gen *s, dop_node_id w, dop_buf *out)
{
    dop_emit *e = &s->gen->e;
    const dop_parts *p = &s->p;
    const dop_node_id other = dop_node_at(e->g, p->beside)->src[1];
    const uint32_t unit = dop_weight_type_of(dop_node_at(e->g, w)->type)->unit, step = unit_of(s, &p->part[0]);
    const char *slot = dop_emit_str(e, "min(dop_slot, %uu)", s->summed - 1);
    dop_buf_printf(out,
                   "        const bool more = dop_slot == %uu;\n"
                   "        const uint units = more ? %uu : %uu, per_row = more ? %uu : %uu;\n"
                   "        w0 = dop_same(more ? %s : %s);\n        aux0 = more ? %s : %s;\n"
                   "        if (more)\n            [[unroll]] for (uint r = 0u; r < ROWS; r++) {\n"
                   "                acc[ROWS + r] = acc[r];\n                acc[r] = 0.0;\n            }\n",
                   s->summed, dop_div_up_u32(p->k2, step), dop_div_up_u32(p->k, step),
                   dop_row_values(e->g, other) / unit, dop_row_values(e->g, w) / unit, dop_emit_matrix_arg(e, other),
                   p->experts ? dop_expert_weights(s->gen, p, w, slot) : dop_emit_matrix_arg(e, w),
                   dop_emit_weight(e, other), dop_emit_weight(e, w));
}

/* The loop over rounds, around the loop over steps: each slot has its own matrix, and so has the product beside. */
static void
emit_slots(rows_gen *s, const dop_segment *part, dop_keys *keys)
{
    dop_buf b = {0};
    const bool loop = s->p.sum || s->p.beside;
    if (loop)
        dop_buf_printf(&b, "        [[dont_unroll]] for (dop_slot = 0u; dop_slot < %uu; dop_slot++) {\n", rounds_of(s));
    for (uint32_t m = 0; m < part->n_mats && loop; m++) {
        const dop_node_id w = dop_node_at(s->gen->e.g, part->mats[m])->src[1];
        if (s->p.beside)
            emit_last_round(s, w, &b);
        else
            dop_buf_printf(&b, "        w%u = %s;\n", m, matrix_of(s, w));
    }
    dop_keys_set(keys, "SLOTS", b.data ? dop_emit_str(&s->gen->e, "%s", b.data) : "");
    dop_keys_set(keys, "SLOTS_END", loop ? "        }\n" : "");
    dop_buf_finish(&b);
}

/* Code that selects part `index` of the n parts of a group by the number of the block: where the part's blocks begin, and its
 * matrices. */
static void
emit_select(rows_gen *s, const dop_segment *part, uint32_t index, uint32_t n, uint32_t base, dop_buf *out)
{
    dop_emit *e = &s->gen->e;
    const char *in = index ? "            " : "        ";
    if (index)
        dop_buf_printf(out, "        if (b >= %uu) {\n", base);
    dop_buf_printf(out, "%s%sbase = %uu%s rows = %uu;\n", in, index ? "" : "uint ", base, index ? ";" : ",",
                   part->rows);
    if (index || s->p.n > 1)
        dop_buf_printf(out, "%s%spart = %uu;\n", in, index ? "" : "uint ", index);
    if (s->p.experts && !s->blocks.id && !s->p.sum)
        dop_buf_printf(out, "%sdop_slot = (b - base) / %uu;\n%sbase += dop_slot * %uu;\n", in, blocks_of(s, part), in,
                       blocks_of(s, part));
    for (uint32_t m = 0; m < part->n_mats; m++) {
        dop_node_id w = dop_node_at(e->g, part->mats[m])->src[1];
        dop_buf_printf(out, "%s%sw%u = %s;\n", in, index ? "" : "DOP_W ", m,
                       s->p.sum ? dop_emit_matrix_arg(e, w) : matrix_of(s, w));
        dop_buf_printf(out, "%s%saux%u = %s;\n", in, index ? "" : "uint ", m, dop_emit_weight(e, w));
    }
    if (index)
        dop_buf_puts(out, "        }\n");
    for (uint32_t m = 0; index && index + 1 == n && m < part->n_mats; m++)
        dop_buf_printf(out, "        w%u = dop_same(w%u);\n", m, m);
}

/* Keys for the loop over the n blocks of a group: a workgroup has a fixed share of neighbouring blocks, so that it reads memory in
 * order, or (tile.claims) first the block of its own number and then blocks that it claims.  Each group has a counter. */
static void
blocks_keys(rows_gen *s, uint32_t group, uint32_t n, dop_keys *keys)
{
    dop_emit *e = &s->gen->e;
    const bool claims = s->gen->choice->tile.claims && n >= s->gen->choice->tile.loops;
    s->gen->claims = s->gen->claims || claims;
    dop_keys_set(keys, "BEGIN", "    {\n");
    dop_keys_set(keys, "ROW", "(b - base) * (ROWS * SG)");
    if (claims) {
        dop_keys_set(keys, "FIRST", "gl_WorkGroupID.x");
        dop_keys_set(keys, "END", dop_emit_str(e, "%uu", n));
        dop_keys_set(keys, "NEXT",
                     dop_emit_str(e, "b = gl_NumWorkGroups.x + dop_claim(%s, %uu, %uu)", dop_emit_counts(e), group, n));
    } else {
        dop_keys_set(keys, "FIRST", dop_emit_str(e, "gl_WorkGroupID.x * %uu / gl_NumWorkGroups.x", n));
        dop_keys_set(keys, "END", dop_emit_str(e, "(gl_WorkGroupID.x + 1u) * %uu / gl_NumWorkGroups.x", n));
        dop_keys_set(keys, "NEXT", "++b");
    }
    dop_keys_set(keys, "DONE", "    }\n");
}

/* Keys for the loop of a part with a partial arg-max, which divides the rows into ranges: the results are the largest value of each
 * range and the value's index. */
static void
argmax_keys(rows_gen *s, const dop_segment *part, dop_keys *keys)
{
    dop_emit *e = &s->gen->e;
    uint32_t parts = (uint32_t)dop_node_i(e->g, part->argmax, DOP_A_parts), span = dop_div_up_u32(part->rows, parts);
    dop_keys_set(
        keys, "BEGIN",
        dop_emit_str(
            e,
            "    uint last_part = (gl_WorkGroupID.x + 1u) * %uu / gl_NumWorkGroups.x;\n"
            "    [[dont_unroll]] for (uint a = gl_WorkGroupID.x * %uu / gl_NumWorkGroups.x; a < last_part; a++) {\n"
            "    float best = -3.4e38;\n"
            "    uint where = 0xffffffffu, last = min((a + 1u) * %uu, %uu);\n",
            parts, parts, span, part->rows));
    dop_keys_set(keys, "FIRST", "0u");
    dop_keys_set(keys, "ROW", dop_emit_str(e, "a * %uu + b * (ROWS * SG)", span));
    dop_keys_set(keys, "END", dop_emit_str(e, "%uu", dop_div_up_u32(span, s->rows * s->sg)));
    dop_keys_set(keys, "NEXT", "++b");
    const char *out = dop_emit_arg(e, part->argmax, true);
    dop_keys_set(keys, "DONE",
                 dop_emit_str(e,
                              "    float top = subgroupMax(best);\n"
                              "    where = subgroupMin(best == top ? where : 0xffffffffu);\n"
                              "    if (LANE == 0u) {\n"
                              "        dop_st1_f32(%s, a * 2u, top);\n"
                              "        dop_st1_f32(%s, a * 2u + 1u, float(where));\n"
                              "    }\n"
                              "    }\n",
                              out, out));
}

/* Name of the epilogue's template. */
static const char *
finish_of(const rows_gen *s)
{
    return s->tb == 1 ? "rows_one.glsl" : s->fours ? "rows_fours.glsl" : "rows_many.glsl";
}

static dop_status
emit_group(rows_gen *s, const dop_segment *const *parts, uint32_t n, uint32_t group, dop_buf *out)
{
    dop_emit *e = &s->gen->e;
    dop_keys keys = {0};
    dop_buf *select = dop_keys_text(s->gen, &keys, "SELECT"), *load = dop_keys_text(s->gen, &keys, "LOAD"),
            *dots = dop_keys_text(s->gen, &keys, "DOTS"), *store = dop_keys_text(s->gen, &keys, "STORE"),
            *finish = dop_keys_text(s->gen, &keys, "FINISH"), *ahead = dop_keys_text(s->gen, &keys, "AHEAD");
    uint32_t blocks = 0, handing = 0; /* handing: number of the first block whose values the per-head product reads */
    bool hands = false;
    s->fours = true;
    for (uint32_t i = 0; i < n; i++) {
        s->fours = s->fours && stored_in_fours(s, parts[i]);
        emit_select(s, parts[i], i, n, blocks, select);
        if (e->r->info->tail.id && parts[i] == &s->p.part[dop_region_part(e->r, e->r->info->tail.of)]) {
            handing = blocks;
            hands = true;
        }
        blocks += blocks_of(s, parts[i]) * slots_of(s);
    }
    s->p.act = s->p.activations[parts[0]->act];
    emit_load(s, parts[0], load);
    emit_ahead(s, parts[0], ahead);
    emit_dots(s, parts[0], dots);
    for (uint32_t i = 0; i < n; i++) {
        if (n > 1)
            dop_buf_printf(store, "                if (part == %uu) {\n", i);
        emit_store(s, parts[i], store);
        if (n > 1)
            dop_buf_puts(store, "                }\n");
    }
    if (parts[0]->argmax) {
        argmax_keys(s, parts[0], &keys);
        dop_buf_puts(select, "        rows = last;\n");
    } else {
        blocks_keys(s, group, blocks, &keys);
    }
    /* Where blocks are fewer than workgroups, some workgroup has none; of a part with an arg-max every workgroup has some. */
    dop_keys_set(&keys, "SOME", !parts[0]->argmax && blocks < s->gen->choice->tile.loops ? "if (b < b1) " : "");
    DOP_NUMBERS(s->gen, &keys, NULL, {"M", parts[0]->n_mats + (s->p.beside != 0)});
    dop_keys_set(&keys, "LANE_ROW", s->fours ? "LANE * ROWS" : "LANE");
    dop_keys_set(&keys, "ROW_OF", row_of(s));
    emit_slots(s, parts[0], &keys);
    dop_status st = dop_template_fill(s->gen, finish_of(s), &keys, finish);
    dop_keys_set(&keys, "UNITS",
                 s->p.beside ? "units" : dop_emit_str(e, "%uu", dop_div_up_u32(s->p.k, unit_of(s, parts[0]))));
    if (st == DOP_OK)
        st = e->status == DOP_OK ? dop_template_fill(s->gen, "rows_group.glsl", &keys, out) : e->status;
    if (st == DOP_OK && hands)
        st = dop_tail_blocks(s->gen, handing, s->rows * s->sg, blocks, out);
    return st;
}

static uint32_t
experts_bytes(dop_gen *gen, const rows_gen *s)
{
    return s->blocks.id ? dop_blocks_bytes(gen, s->tb) : s->p.experts ? dop_expert_bytes(gen) : 0;
}

/* Emits the code that finds the workgroup's rows of the step; a workgroup that has none returns. */
static void
emit_tokens(rows_gen *s, dop_buf *decls, dop_buf *out)
{
    dop_gen *gen = s->gen;
    if (s->p.experts) /* The workgroup is one subgroup, which needs no barrier. */
        dop_buf_puts(decls, "#define barrier() DOP_STEP()\n");
    if (s->blocks.id) {
        dop_buf_puts(decls, "#define BM TB\n");
        dop_blocks_declare(&s->blocks, decls);
        dop_buf_puts(decls, "uint dop_pair_of(uint j) { return subgroupBroadcastFirst(dop_pair[j]); }\n");
        dop_buf_printf(out, "    uint n_tokens = %s;\n", dop_emit_n_tokens(&gen->e));
        dop_blocks_begin(gen, &s->blocks, "gl_WorkGroupID.y", out);
    } else if (s->tb == 1) {
        dop_buf_puts(out, "    const uint t0 = 0u, n_tokens = 1u;\n");
        if (s->p.experts)
            dop_expert_begin(gen, &s->p, decls, out);
        else if (s->p.beside)
            dop_buf_puts(decls, "uint dop_slot;\n");
    } else {
        dop_buf_printf(out,
                       "    uint t0 = gl_WorkGroupID.y * TB, n_tokens = %s;\n"
                       "    if (t0 >= n_tokens)\n        return;\n",
                       dop_emit_n_tokens(&gen->e));
    }
}

static dop_status
begin(rows_gen *s, dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    *s = (rows_gen){.gen = gen, .tb = tile->bm, .rows = tile->rows, .sg = tile->wg};
    dop_status st = dop_gen_parts(gen, &s->p);
    if (st != DOP_OK)
        return st;
    uint32_t unit = s->p.unit > tile->bk ? s->p.unit : tile->bk;
    s->k_pad = (s->p.k + unit - 1) / unit * unit;
    s->blocks = dop_blocks_of(gen->e.g, gen->e.r);
    s->summed = s->p.sum ? s->p.slots : 1;
    s->held = s->summed * s->p.n_activations; /* one factor is 1, because no sum over slots has several activations */
    s->p.t = s->tb > 1 ? "t" : "0u";
    bool fours = true;
    for (uint32_t i = 0; i < s->p.n; i++)
        fours = fours && stored_in_fours(s, &s->p.part[i]);
    s->sums = s->tb > 1 && !fours ? s->sg * s->tb * gen->e.r->info->product.most_mats * s->rows * 4 : 0;
    /* Other uses of shared memory are small; the size of a program that has to run first was checked by fusion. */
    s->ints = gen->descriptor->ints;
    s->ahead = dop_gen_ahead(gen);
    const uint32_t others = s->sums + experts_bytes(gen, s);
    s->staged =
        s->ints || (s->p.staged && s->tb == 1) ||
        (!quickly_made(s) && others + (s->tb * (s->k_pad * s->held + 16) + s->p.k2) * 4 <= gen->e.target->shared_bytes);
    return DOP_OK;
}

dop_status
dop_rows_emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    rows_gen s;
    dop_keys keys = {0};
    dop_buf *decls = dop_keys_text(gen, &keys, "DECLS"), *prologue = dop_keys_text(gen, &keys, "PROLOGUE"),
            *groups = dop_keys_text(gen, &keys, "GROUPS"), *tokens = dop_keys_text(gen, &keys, "TOKENS");
    dop_status st = begin(&s, gen);
    if (st != DOP_OK)
        return st;
    emit_tokens(&s, decls, tokens);
    if (s.sums)
        dop_buf_printf(decls, "shared vec4 dop_part[%u];\n", s.sums / 16);
    dop_tail_declare(gen, 1, decls);
    st = emit_prologue(&s, decls, prologue);
    bool *done = dop_arena_alloc(e->g->arena, s.p.n * sizeof *done);
    const dop_segment **members = dop_arena_alloc(e->g->arena, s.p.n * sizeof *members);
    if (st == DOP_OK && (!done || !members))
        st = DOP_FAIL(e->diag, DOP_E_NOMEM, "out of memory");
    for (uint32_t i = 0, group = 0; st == DOP_OK && i < s.p.n; i++) {
        uint32_t n = 0;
        if (done[i])
            continue;
        members[n++] = &s.p.part[i];
        for (uint32_t k = i + 1; k < s.p.n; k++)
            if (!done[k] && alike(&s, &s.p.part[i], &s.p.part[k])) {
                done[k] = true;
                members[n++] = &s.p.part[k];
            }
        st = emit_group(&s, members, n, group++, groups);
    }
    gen->grid[0] = tile->loops;
    gen->grid[1] = s.blocks.id ? s.blocks.n * (s.blocks.span / s.tb) : dop_div_up_u32(s.tb > 1 ? e->g->max_t : 1, s.tb);
    gen->grid[2] = 1;
    DOP_NUMBERS(gen, &keys, &gen->main, {"#ROWS", s.rows}, {"TB", s.tb});
    if (st == DOP_OK)
        st = e->status == DOP_OK ? dop_template_fill(gen, "rows.glsl", &keys, &gen->main) : e->status;
    return st;
}

uint32_t
dop_rows_shared(dop_gen *gen)
{
    rows_gen s;
    if (begin(&s, gen) != DOP_OK)
        return 0; /* generation says why */
    dop_rowprog prog = program_of(&s);
    uint32_t row = s.ints     ? dop_int8_bytes(gen, &prog, s.k_pad * s.held + s.p.k2)
                   : s.staged ? (s.tb * s.k_pad * s.held + s.p.k2) * 4
                              : 0;
    return s.sums + row + s.tb * s.p.n_stats * 4 + experts_bytes(gen, &s) + dop_tail_bytes(gen, 1);
}
