/* Emits the loop over the depth of register-direct tiles (matmul_coop_pairs.glsl defines which values a lane loads). An
 * iteration has four steps of 32 values of the depth: the first two multiply one half of the iteration's activations, and the
 * last two the other half. */
#include "kernels/product/gen_coop.h"

#include <string.h>

typedef struct direct {
    const dop_coop *o;
    dop_nest *n;
    dop_stored_rows rows;
    uint32_t half;        /* values per half iteration */
    uint32_t line;        /* stride between tokens in words of shared memory */
    uint32_t na;          /* pieces of activations per invocation */
    const char *later;    /* column of the second half's pieces relative to those of the first */
    uint32_t eights;      /* groups of eight columns of a subgroup, per matrix */
    uint32_t first, each; /* token fragment during whose products the first piece is stored; pieces per fragment */
    const char *type;     /* weight type name */
    const char *next_row; /* stride in words between corresponding rows of adjacent groups of eight columns */
    bool decodes;         /* weights are quantized */
} direct;

/* Chooses when activations are stored, which determines how a driver orders the loop. */
static void
order_stores(direct *d)
{
    const dop_gen *gen = d->o->gen;
    const dop_schedule_numbers *in = &gen->e.target->schedule;
    const bool pair = d->o->part->n_mats > 1, q4_k = strcmp(d->type, "q4_k") == 0;
    d->first = 0;
    d->each = 1;
    if (pair ? q4_k : gen->choice->tile.joined && (!d->decodes || q4_k))
        d->each = in->direct_each;
    else if (gen->choice->tile.shares > 1 && !d->decodes)
        d->each = in->direct_each_shared;
    else if (pair && !d->decodes)
        d->first = in->direct_first_pair;
}

/* Emits code that loads float weights of step r of two, from column c of the half on; or all quantized weights of an
 * iteration, a unit per row. */
static void
load_weights(const direct *d, uint32_t r, const char *c)
{
    dop_nest *n = d->n;
    dop_nest_unrolled(n, "m", d->o->part->n_mats);
    dop_nest_unrolled(n, "j", d->eights);
    const char *to = dop_nest_text(n, "rb%u[m * %uu + j]", r, d->eights);
    if (d->decodes)
        dop_nest_load(n, to, "dop_load_b%u(rows[m], kb + j * 8u * %s)", d->o->index, d->next_row);
    else
        dop_nest_load(n, to, "dop_ldw4(U32(rows[m]), j * %s + %s / 8u)", d->next_row, c);
    dop_nest_ends(n, 2);
}

/* Emits code that loads piece i of the activations of the half that begins at column c relative to `at`. */
static void
load_activations(const direct *d, const char *i, const char *c)
{
    const uint32_t tokens = d->o->gen->choice->tile.wg / 8;
    const char *to = dop_nest_text(d->n, "ra[%s]", i);
    if (d->rows.windows)
        dop_nest_load(d->n, to, "dop_load_a%u(token + %s * %uu, eight * 8u + at + %s).a", d->o->index, i, tokens, c);
    else
        dop_nest_load(d->n, to, "dop_ldc4(U32(%s), (first + %s * %uu) * %uu + eight + (%uu + at + %s) / 8u)",
                      dop_emit_arg(&d->o->gen->e, d->rows.id, false), i, tokens, d->rows.cols / 8, d->rows.start, c);
}

/* Returns the offset of a half of the activations in shared memory. */
static const char *
half_at(const direct *d, uint32_t half)
{
    return dop_nest_text(d->n, "%uu", half * d->o->gen->choice->tile.bm * d->line);
}

static void
store_direct_activations(const direct *d, uint32_t half, const char *i)
{
    dop_nest_unrolled(d->n, "c", 4);
    dop_nest_store(d->n, d->o->memory[half],
                   dop_nest_text(d->n, "dop_s[%s + put + %s * %uu + c][t]", half_at(d, half), i,
                                 d->o->gen->choice->tile.wg / 8 * d->line),
                   "ra[%s][c]", i);
    dop_nest_end(d->n);
}

/* Emits code that loads the activations of token fragment i from shared memory, for both products of a step. */
static void
load_fragments(const direct *d, uint32_t half, uint32_t step, const char *i)
{
    dop_nest_unrolled(d->n, "s", 2);
    dop_nest_call(d->n, "coopMatLoadNV",
                  dop_nest_text(d->n, "a[s], dop_s, %s + %uu + (wm * WM + %s * MM) * %uu + s * 2u, %uu, false",
                                half_at(d, half), step * 4, i, d->line, d->line))
        ->reads = d->o->memory[half];
    dop_nest_end(d->n);
}

/* Emits code that fills fragments with the weights of a step of two, as f16. */
static void
fill_weights(const direct *d, uint32_t half, uint32_t r)
{
    dop_nest *n = d->n;
    const char *b = dop_nest_text(n, "b%u", half * 2 + r), *x[2];
    const uint32_t fragments = d->o->part->n_mats * d->o->fn * 2;
    dop_nest_array(n, "FRAG_B", b, fragments);
    dop_nest_unrolled(n, "f", fragments);
    for (uint32_t i = 0; i < 2; i++) {
        const char *raw = dop_nest_text(n, "rb%u[f / 2u * 2u + %uu]", d->decodes ? 0 : r, i);
        x[i] = d->decodes
                   ? dop_nest_text(n, "dop_take_b%u(%s, %uu, rows[f / (2u * FN)], 0u)", d->o->index, raw, half * 2 + r)
                   : dop_nest_text(n, "dop_w8_%s(dop_raw8(%s, uvec4(0u)), 0u)", d->type, raw);
    }
    dop_nest_let(n, "uvec4", "x", "%s", x[0]);
    dop_nest_let(n, "uvec4", "y", "%s", x[1]);
    dop_nest_set(n, dop_nest_text(n, "%s[f]", b), "FRAG_B(0.0)");
    dop_nest_call(n, "DOP_PAIRS", dop_nest_text(n, "%s[f], x, y, f %% 2u", b));
    dop_nest_end(n);
}

/* Emits code that multiplies step r of a half. During the products of the first step the other half of the activations is
 * stored; during those of the second step the half after it is loaded. */
static void
multiply_direct(const direct *d, uint32_t half, uint32_t r)
{
    const dop_coop *o = d->o;
    dop_nest *n = d->n;
    fill_weights(d, half, r);
    dop_nest_unrolled(n, "i", o->fm);
    dop_nest_if(n, "i > 0u || %s", r ? "true" : "false"); /* DOP_COOP_WHERE; the first one is already in registers */
    load_fragments(d, half, r, "i");
    dop_nest_end(n);
    if (r == 0) {
        dop_nest_unrolled(n, "q", d->na);
        dop_nest_if(n, "i == %uu + q / %uu", d->first, d->each);
        store_direct_activations(d, !half, "q");
        dop_nest_ends(n, 2);
    } else {
        if (half && d->decodes) {
            dop_nest_if(n, "i == 0u");
            load_weights(d, 0, NULL);
            dop_nest_end(n);
        }
        dop_nest_if(n, "i < %uu", d->na);
        load_activations(d, "i", half ? d->later : "0u");
        dop_nest_end(n);
    }
    dop_nest_unrolled(n, "s", 2);
    dop_nest_unrolled(n, "m", o->part->n_mats);
    dop_nest_unrolled(n, "j", o->fn);
    dop_nest_set(n, "acc[(m * FM + i) * FN + j]",
                 "coopMatMulAddNV(a[s], b%u[(m * FN + j) * 2u + s], acc[(m * FM + i) * FN + j])", half * 2 + r);
    dop_nest_ends(n, 4);
}

/* Emits code that finds the values that the invocation loads: its first token, and the position of its values in the first
 * eight columns of its subgroup. The rows of a subgroup are either all inside the matrix or all outside. */
static void
find_values(const direct *d)
{
    const dop_coop *o = d->o;
    dop_nest *n = d->n;
    /* row: row of the subgroup for the first group of columns. Eight lanes load the 64 values of a token, and store to all
     * banks of shared memory. With units of weights, they load first the first and then the second half of each of four
     * units. */
    dop_nest_code(n,
                  "uint g = lane %% SG / 4u, t = lane %% 4u, row = g / 2u * OWN + g %% 2u;\n"
                  "uint token = lane / 16u * 2u + lane / 4u %% 2u, eight = lane / 8u %% 2u%s + t%s;\n"
                  "uint put = token * %uu + lane / 8u %% 2u * 4u, first = t0 + token, at = %s;\n",
                  d->decodes ? "" : " * 4u", d->decodes ? " * 4u" : "", d->line, o->from);
    const char *piece = dop_nest_text(n, "dop_piece_of%u(m, min(min(n0 + wn * WN, %uu - WN) + row, %uu))", o->index,
                                      o->rows, o->rows - 1);
    if (d->decodes)
        dop_nest_let(n, "uint", "kb", "%s", o->from);
    else
        dop_nest_array(n, "uvec2", "begin", o->part->n_mats);
    dop_nest_array(n, d->decodes ? "dop_piece" : "uvec2", "rows", o->part->n_mats);
    dop_nest_unrolled(n, "m", o->part->n_mats);
    if (d->decodes) {
        dop_nest_set(n, "rows[m]", "%s", piece);
        dop_nest_add(n, "rows[m].at", "t * 32u");
    } else {
        dop_nest_set(n, "begin[m]", "dop_behind(%s.p, t + %s / 8u)", piece, o->from);
        dop_nest_set(n, "rows[m]", "begin[m]");
    }
    dop_nest_end(n);
}

/* Emits the loop: while one half of the activations is multiplied, the other one is stored, but not before the first products
 * after a barrier have their operands. The last iteration loads its own values again. */
static void
by_halves(const direct *d)
{
    const dop_coop *o = d->o;
    dop_nest *n = d->n;
    const char *half = dop_nest_text(n, "%uu", d->half), *behind = dop_nest_text(n, "%uu", d->half + 32);
    /* Not unrolled: several iterations would exceed the instruction cache. */
    dop_nest_for(n, "k0", o->from, o->to, "BK")->rolled = true;
    dop_nest_let(n, "const uint", "next", "min(k0 + BK, %s - BK)", o->to);
    dop_nest_set(n, "at", "next");
    for (uint32_t h = 0; h < 2; h++) {
        load_fragments(d, h, 0, "0u");
        multiply_direct(d, h, 0);
        if (!d->decodes)
            load_weights(d, 0, h ? "0u" : half);
        multiply_direct(d, h, 1);
        if (!d->decodes)
            load_weights(d, 1, h ? "32u" : behind);
        /* An iteration ends when the next one's activations are stored. */
        dop_nest_code(n, "// a half is done\n")->reads = o->memory[!h];
        if (h == 0 && d->decodes)
            dop_nest_set(n, "kb", "next");
        else if (h == 0)
            dop_nest_each(n, "m", o->part->n_mats, "rows[m]", "dop_behind(begin[m], (next - %s) / 8u)", o->from);
    }
    dop_nest_end(n);
}

void
dop_coop_direct(const dop_coop *o)
{
    const dop_gen *gen = o->gen;
    const dop_tile *tile = &gen->choice->tile;
    const dop_node *w = dop_node_at(gen->e.g, dop_node_at(gen->e.g, o->part->mats[0])->src[1]);
    dop_nest *n = o->n;
    direct d = {.o = o,
                .n = n,
                .rows = dop_coop_stored(gen->e.g, gen->e.r),
                .half = tile->bk / 2,
                .line = tile->bk / 16 + 1, /* padding of a word to avoid bank conflicts */
                .eights = tile->tn / 8,
                .na = tile->bm * tile->bk / 16 / tile->wg,
                .type = dop_type_of(w->type)->name,
                .decodes = dop_type_of(w->type)->kind == DOP_KIND_QUANT};
    d.next_row = dop_nest_text(n, "%uu", dop_row_values(gen->e.g, dop_node_at(gen->e.g, o->part->mats[0])->src[1]) / 4);
    d.later = d.decodes ? "16u" : dop_nest_text(n, "%uu", d.half);
    order_stores(&d);
    find_values(&d);
    if (gen->book)
        dop_nest_call(n, "dop_fill_book", "U32(rows[0].p), rows[0].aux");
    dop_nest_array(n, "FRAG_A", "a", 2);
    dop_nest_array(n, "uvec4", "ra", d.na);
    for (uint32_t r = 0; r < (d.decodes ? 1 : 2); r++)
        dop_nest_array(n, d.decodes ? o->raw : "uvec4", r ? "rb1" : "rb0", o->part->n_mats * d.eights);
    dop_nest_unrolled(n, "i", d.na);
    load_activations(&d, "i", "0u");
    dop_nest_end(n);
    load_weights(&d, 0, "0u");
    if (!d.decodes)
        load_weights(&d, 1, "32u");
    dop_nest_unrolled(n, "i", d.na);
    store_direct_activations(&d, 0, "i");
    load_activations(&d, "i", d.later);
    dop_nest_end(n);
    by_halves(&d);
}
