/* Products of several tokens (GEMM) on matrix units as a nest: the placements that stage both factors. matmul_coop.glsl is
 * its library. */
#include "kernels/gen/gen_waits.h"
#include "kernels/gen/products.h"
#include "kernels/gen/templates.h"
#include "kernels/product/gen_coop.h"
#include "kernels/row/gen_group.h"

#include "kernels/emit/weight_types.h"

/* True if loads test for rows past the last token. Tiles clamp such rows, and stale rows past the last token only reach sums
 * that are not stored. So subgroups that load by themselves need not wait for the number of tokens. Exceptions: the buffer
 * ends before the tile does, or the row is computed from ids, which may give any address. DOP_COOP_few measured faster with
 * the test. */
static bool
tests_rows(const dop_coop *o)
{
    const dop_graph *g = o->gen->e.g;
    uint32_t start = 0;
    const bool whole = dop_node_rows(g, dop_node_base(g, o->p->act, &start), g->max_t) >= o->gen->choice->tile.bm;
    return o->form->kind == DOP_COOP_few ||
           (o->form->kind == DOP_COOP_own && (!whole || dop_coop_stored(g, o->gen->e.r).type == DOP_TYPE_COUNT));
}

/* Emits code that fills dop_windows with the window positions of the tile's rows. They are computed once and kept in shared
 * memory, because registers could not hold them for all rows that an invocation loads. */
static void
find_windows(dop_gen *gen, dop_buf *decls, dop_buf *begin)
{
    dop_emit *e = &gen->e;
    const dop_stored_rows rows = dop_coop_stored(e->g, e->r);
    if (rows.type == DOP_TYPE_COUNT || !rows.windows)
        return;
    dop_buf_puts(decls, "shared uvec2 dop_windows[BM]; // of each row of windows: x and y of 16 bits, and the first "
                        "row of its picture\n"
                        "uint dop_window_rows; // of what the windows read; loaded once\n");
    dop_buf_puts(begin, "    for (uint i = gl_LocalInvocationIndex; i < BM; i += WG) {\n"
                        "        uint t = min(t0 + i, dop_tokens - 1u);\n");
    dop_emit_scope(e, begin, "        ");
    const dop_window_row from = dop_emit_window_row(e, rows.windows, "t");
    dop_emit_line(e, "dop_windows[i] = uvec2(%s | %s << 16, %s);", from.x, from.y, from.first);
    dop_buf_printf(begin, "    }\n    dop_window_rows = %s;\n    barrier();\n", from.rows);
}

/* Emits a load of eight stored values of row t from column c on as `r`, and returns the expression that converts r to f16.
 * For windows, t is the row's index in the tile. */
static const char *
load_stored(dop_gen *gen, const dop_stored_rows *rows, dop_buf *load)
{
    dop_emit *e = &gen->e;
    const char *a = dop_emit_arg(e, rows->id, false);
    const bool halves = rows->type == DOP_TYPE_f16;
    dop_window_place from = {0};
    dop_emit_scope(e, load, "    ");
    if (rows->windows) {
        dop_emit_line(e, "uvec2 w = dop_windows[t];");
        from = dop_emit_window(e, rows->windows,
                               &(dop_window_row){"(w.x & 0xffffu)", "(w.x >> 16)", "w.y", "dop_window_rows"}, "c");
    }
    dop_emit_line(e, "uint at = %s * %uu + %s + %uu;", from.row ? from.row : "t", rows->cols, from.col ? from.col : "c",
                  rows->start);
    dop_emit_line(e,
                  halves ? "dop_raw8 eight = dop_raw8(C32x4(%s).v[at >> 3], uvec4(0u));"
                         : "dop_raw8 eight = dop_raw8(C32x4(%s).v[at >> 2], C32x4(%s).v[(at >> 2) + 1u]);",
                  a, a);
    if (from.in)
        dop_emit_line(e, "eight = dop_raw8(%s ? eight.a : uvec4(0u), %s ? eight.b : uvec4(0u));", from.in, from.in);
    dop_emit_line(e, "return eight;");
    return halves ? "r.a" : "dop_pack8(uintBitsToFloat(r.a), uintBitsToFloat(r.b))";
}

/* Emits a load of eight values of an activation as `r`, and returns the expression that converts r to f16. Stored rows are
 * loaded unchanged and converted when they are written to shared memory; computed ones become f16 at once. */
static const char *
load_activation(dop_gen *gen, const dop_parts *p, dop_buf *load)
{
    dop_emit *e = &gen->e;
    const dop_blocks b = dop_blocks_of(e->g, e->r);
    const dop_stored_rows rows = dop_coop_stored(e->g, e->r);
    dop_coop_guard_column(gen, p, load);
    if (rows.type < DOP_TYPE_COUNT)
        return load_stored(gen, &rows, load);
    dop_emit_scope(e, load, "    ");
    if (b.by_pair) {
        dop_emit_line(e, "uint s = %s;", dop_blocks_column(gen, &b, "t", p->k));
        dop_emit_line(e, "uint row = %s;", dop_blocks_row(gen, &b, "t"));
    }
    const char *t = b.by_pair ? "row" : "t", *c = b.by_pair ? "s" : "c";
    const char *x = dop_emit_value(e, p->act, (dop_index){t, c}, 4);
    const char *y = dop_emit_value(e, p->act, (dop_index){t, dop_emit_str(e, "(%s + 4u)", c)}, 4);
    dop_emit_line(e, "return dop_raw8(dop_pack8(%s, %s), uvec4(0u));", x, y);
    return "r.a";
}

/* State of the loop over the depth, except for register-direct tiles. */
typedef struct turn {
    const dop_coop *o;
    dop_nest *n;
    uint32_t memory;    /* memory bit; 0: slices, in which no subgroup waits for another one */
    const char *take_a; /* converts loaded activations `r` to f16 */
    /* Pieces of activations and of weights that the workgroup moves together (with slices: those of a fragment), the number
     * of these per invocation, and expressions of the invocation's number and of the stride to its next piece. */
    uint32_t a, b, na, nb;
    const char *lane, *by;
    const char *from;           /* first column of a subgroup's part of the depth, followed by a plus */
    struct dop_stmt **operands; /* target for the hole o->operands */
} turn;

/* Adds the hole for the epilogue's operands after the first loads of factors, which must not be delayed. */
static void
place_operands(const turn *u)
{
    const dop_emit *e = &u->o->gen->e;
    if (u->o->form->kind >= DOP_COOP_few && dop_region_part_waits(e->g, e->r, u->o->index))
        *u->operands = dop_nest_hole(u->n, "operands", "");
}

/* Begins an unrolled loop over the pieces i that an invocation moves. */
static void
each_piece(const turn *u, uint32_t pieces)
{
    dop_nest_unrolled(u->n, "x", pieces);
    dop_nest_let(u->n, "uint", "i", "%s + x * %s", u->lane, u->by);
}

/* Emits code that finds the position of weight piece i: matrix, row and column. Returns the arguments of the piece
 * functions. */
static const char *
find_weight_piece(const turn *u, const char *k)
{
    const dop_coop *o = u->o;
    const bool own = o->form->kind == DOP_COOP_own;
    if (!o->found) {
        dop_nest_let(u->n, "uint", "row", own ? "g %% FN * MN + (DOP_ROW_%u)" : "DOP_ROW_%u", o->piece);
        dop_nest_let(u->n, "uint", "m", own ? "g / FN" : "row / BN");
        dop_nest_let(u->n, "uint", "n", "min(n0 + row%s, %uu)", own ? "" : " % BN", o->rows - 1);
    }
    dop_nest_let(u->n, "uint", "c", "%s%s + (DOP_COLUMN_%u) * %uu", u->from, k, o->piece, o->piece);
    return o->found ? "piece[x], c" : "m, n, c";
}

static void
fetch_weights(const turn *u, const char *slot, const char *k)
{
    each_piece(u, u->nb);
    const char *place = find_weight_piece(u, k);
    dop_nest_load(u->n, dop_nest_text(u->n, "rb[%sx]", slot), "dop_load_b%u(%s)", u->o->index, place);
    dop_nest_end(u->n);
}

/* Emits code that loads activations; `first` is the tile's row where the pieces begin, followed by a plus. */
static void
fetch_activations(const turn *u, const char *slot, const char *first, const char *k)
{
    const dop_coop *o = u->o;
    const dop_gen *gen = o->gen;
    const bool windows = dop_coop_window_bytes(gen->e.g, gen->e.r, &gen->choice->tile) > 0;
    const char *row = dop_nest_text(u->n, "%si / (DEEP / 8u)", first);
    if (o->form->kind == DOP_COOP_tile)
        row = dop_blocks_of(gen->e.g, gen->e.r).n ? "row_of[x]"
              : windows                           ? dop_nest_text(u->n, "min(%s, BM - 1u)", row)
                                                  : dop_nest_text(u->n, "min(t0 + %s, dop_tokens - 1u)", row);
    each_piece(u, u->na);
    dop_nest_load(u->n, dop_nest_text(u->n, "ra[%sx]", slot), "dop_load_a%u(%s, %s%s + i %% (DEEP / 8u) * 8u)",
                  o->index, row, u->from, k);
    dop_nest_end(u->n);
}

/* Loads both factors; with few tokens weights first, which take longer. */
static void
fetch_factors(const turn *u, const char *slot_a, const char *slot_b, const char *k)
{
    const bool few = u->o->form->kind == DOP_COOP_few;
    if (few)
        fetch_weights(u, slot_b, k);
    fetch_activations(u, slot_a, "", k);
    if (!few)
        fetch_weights(u, slot_b, k);
}

static void
store_staged_activations(const turn *u, const char *slot, const char *to)
{
    each_piece(u, u->na);
    dop_nest_let(u->n, "dop_raw8", "r", "ra[%sx]", slot);
    if (u->memory)
        dop_nest_if(u->n, "%uu %% WG == 0u || i < %uu", u->a, u->a)->apart = true;
    dop_nest_store(u->n, u->memory, dop_nest_text(u->n, "dop_s[%si / (DEEP / 8u) * LD + i %% (DEEP / 8u)]", to), "%s",
                   u->take_a);
    dop_nest_ends(u->n, u->memory ? 2 : 1);
}

static void
store_weights(const turn *u, const char *slot, const char *to, const char *k)
{
    const dop_coop *o = u->o;
    each_piece(u, u->nb);
    const char *place = find_weight_piece(u, k);
    dop_nest_let(u->n, "uint", "at", "%s(DOP_ROW_%u) * LD + (DOP_COLUMN_%u) * %uu", to, o->piece, o->piece,
                 o->piece / 8);
    if (u->memory)
        dop_nest_if(u->n, "%uu %% WG == 0u || i < %uu", u->b, u->b)->apart = true;
    dop_nest_unrolled(u->n, "j", o->piece / 8);
    dop_nest_store(u->n, u->memory, "dop_s[at + j]", "dop_take_b%u(rb[%sx], j, %s)", o->index, slot, place);
    dop_nest_ends(u->n, u->memory ? 3 : 2);
}

static void
load_fragment(const turn *u, const char *to, const char *at, const char *by_columns)
{
    dop_nest_call(u->n, "coopMatLoadNV", dop_nest_text(u->n, "%s, dop_s, %s, LD, %s", to, at, by_columns))->reads =
        u->o->memory[0];
}

static void
multiply_fragments(const turn *u, const char *a, const char *b)
{
    dop_nest_set(u->n, "acc[(m * FM + i) * FN + j]", "coopMatMulAddNV(%s, %s, acc[(m * FM + i) * FN + j])", a, b);
}

/* Emits code that multiplies a staged piece of the depth. */
static void
multiply_staged(const turn *u)
{
    const dop_coop *o = u->o;
    const bool tile = o->form->kind == DOP_COOP_tile;
    const uint32_t steps = o->gen->choice->tile.bk / dop_matrix_k(o->gen->e.target->matrix) / o->teams;
    dop_nest *n = u->n;
    dop_nest_unrolled(n, "step", steps);
    dop_nest_let(n, "uint", "kk", tile ? "step * MK" : "(step * TEAMS + share) * MK");
    dop_nest_array(n, "FRAG_A", "a", o->fm);
    dop_nest_array(n, "FRAG_B", "b", tile ? o->fn : 1);
    dop_nest_unrolled(n, "i", o->fm);
    load_fragment(u, "a[i]", "(wm * WM + i * MM) * LD + kk / 8u", "false");
    dop_nest_end(n);
    dop_nest_unrolled(n, "m", o->part->n_mats);
    dop_nest_unrolled(n, "j", o->fn);
    load_fragment(u, tile ? "b[j]" : "b[0]", "SIZE_A + (m * BN + wn * WN + j * MN) * LD + kk / 8u", "true");
    if (tile) /* each token fragment with all weights */
        dop_nest_end(n);
    dop_nest_unrolled(n, "i", o->fm);
    if (tile)
        dop_nest_unrolled(n, "j", o->fn);
    multiply_fragments(u, "a[i]", tile ? "b[j]" : "b[0]");
    dop_nest_ends(n, 4);
}

/* Emits the loop for pieces that the whole workgroup stages. One is in shared memory while the next ones are loaded to
 * registers, so that an iteration waits for one round trip to memory. */
static void
emit_staged_loop(turn *u)
{
    const dop_coop *o = u->o;
    const uint32_t step = o->ahead * o->gen->choice->tile.bk;
    const bool tile = o->form->kind == DOP_COOP_tile;
    const char *slot_a = tile ? "" : dop_nest_text(u->n, "p * %uu + ", u->na),
               *slot_b = tile ? "" : dop_nest_text(u->n, "p * %uu + ", u->nb),
               *next = dop_nest_text(u->n, "k0 + %uu", step);
    dop_nest *n = u->n;
    dop_nest_array(n, "dop_raw8", "ra", o->ahead * u->na);
    dop_nest_array(n, o->raw, "rb", o->ahead * u->nb);
    if (!tile) {
        dop_nest_unrolled(n, "p", o->ahead);
        dop_nest_if(n, "p * BK < %s", o->to);
    }
    fetch_factors(u, slot_a, slot_b, tile ? o->from : "p * BK");
    dop_nest_ends(n, tile ? 0 : 2);
    place_operands(u);
    dop_nest_for(n, tile ? "k0" : "base", o->from, o->to, dop_nest_text(n, "%uu", step));
    if (!tile) {
        dop_nest_unrolled(n, "p", o->ahead);
        dop_nest_let(n, "uint", "k0", "base + p * BK");
        dop_nest_if(n, "k0 < %s", o->to);
    }
    store_staged_activations(u, slot_a, "");
    store_weights(u, slot_b, "SIZE_A + ", "k0");
    /* Tiles load the next piece after all invocations have stored this one. */
    dop_nest_let(n, "bool", "more", "%s < %s", next, o->to)->reads = tile ? u->memory : 0;
    dop_nest_if(n, "more");
    fetch_factors(u, slot_a, slot_b, next);
    dop_nest_end(n);
    multiply_staged(u);
    dop_nest_ends(n, tile ? 1 : 3);
}

/* Emits the loop of DOP_COOP_own. Fragments pass through the subgroup's own slice of shared memory: first those of
 * activations, which then stay in registers, then those of weights, one row of fragments at a time. So no subgroup waits for
 * another one before the end. */
static void
emit_subgroup_loop(turn *u)
{
    const dop_coop *o = u->o;
    const dop_tile *tile = &o->gen->choice->tile;
    const uint32_t deep = tile->bk / tile->ds, range = dop_div_up_u32(o->p->k, tile->bk) * deep,
                   steps = deep / dop_matrix_k(o->gen->e.target->matrix), columns = o->part->n_mats * o->fn;
    const bool each = o->gen->e.g->max_t > o->gen->e.target->schedule.small_many;
    const char *slot_a = dop_nest_text(u->n, "(p * FM + f) * %uu + ", u->na),
               *slot_b = dop_nest_text(u->n, "(p * %uu + g) * %uu + ", columns, u->nb);
    dop_nest *n = u->n;
    u->lane = "in_sg";
    u->by = "SG";
    u->from = "first + ";
    dop_nest_code(n, "uint in_sg = lane %% SG, slice = own * MM * LD, first = own * %uu; // its part of the depth\n",
                  range);
    dop_nest_array(n, "dop_raw8", "ra", o->fm * u->na);
    dop_nest_array(n, o->raw, "rb", columns * u->nb);
    dop_nest_unrolled(n, "p", 1);
    dop_nest_if(n, "p * DEEP < %uu", range);
    dop_nest_unrolled(n, "f", o->fm);
    fetch_activations(u, slot_a, "f * MM + ", "p * DEEP");
    dop_nest_end(n);
    dop_nest_unrolled(n, "g", columns);
    fetch_weights(u, slot_b, "p * DEEP");
    dop_nest_ends(n, 3);
    place_operands(u);
    dop_nest_for(n, "base", "0u", dop_nest_text(n, "%uu", range), "DEEP");
    dop_nest_unrolled(n, "p", 1);
    dop_nest_let(n, "uint", "k0", "base + p * DEEP");
    /* With many tokens the last step loads its own values again, which avoids a branch around loads. */
    dop_nest_let(n, "uint", "next", each ? "min(k0 + DEEP, %uu - DEEP)" : "k0 + DEEP", range);
    dop_nest_if(n, DOP_COOP_WHERE "k0 < %uu", "true", range);
    dop_nest_array(n, "FRAG_A", "a", o->fm * steps);
    dop_nest_unrolled(n, "f", o->fm);
    store_staged_activations(u, slot_a, "slice + ");
    dop_nest_call(n, "DOP_SYNC", "");
    dop_nest_unrolled(n, "s", steps);
    load_fragment(u, dop_nest_text(n, "a[f * %uu + s]", steps), "slice + s * (MK / 8u)", "false");
    dop_nest_end(n);
    dop_nest_if(n, DOP_COOP_WHERE "next < %uu", each ? "true" : "false", range);
    fetch_activations(u, slot_a, "f * MM + ", "next");
    dop_nest_end(n);
    dop_nest_call(n, "subgroupBarrier", "");
    dop_nest_end(n);
    dop_nest_unrolled(n, "g", columns);
    dop_nest_let(n, "uint", "m", "g / FN");
    dop_nest_let(n, "uint", "j", "g %% FN");
    store_weights(u, slot_b, "slice + ", "k0");
    dop_nest_call(n, "DOP_SYNC", "");
    dop_nest_if(n, DOP_COOP_WHERE "next < %uu", each ? "true" : "false", range);
    fetch_weights(u, slot_b, "next");
    dop_nest_end(n);
    dop_nest_unrolled(n, "s", steps);
    dop_nest_array(n, "FRAG_B", "b", 1);
    load_fragment(u, "b[0]", "slice + s * (MK / 8u)", "true");
    dop_nest_unrolled(n, "i", o->fm);
    multiply_fragments(u, dop_nest_text(n, "a[i * %uu + s]", steps), "b[0]");
    dop_nest_ends(n, 2);
    dop_nest_call(n, "subgroupBarrier", "");
    dop_nest_ends(n, 4);
}

/* Emits code that finds, before the loop, the rows of blocks from which an invocation loads activations, and the rows of its
 * weight pieces. */
static void
find_piece_rows(const turn *u)
{
    const dop_coop *o = u->o;
    const dop_blocks b = dop_blocks_of(o->gen->e.g, o->gen->e.r);
    dop_nest *n = u->n;
    if (b.n) { /* Rows without a pair use the activations of another pair; their results are not stored. */
        const char *pair = "min(dop_pair[i / (BK / 8u) % BM], dop_tokens * DOP_SLOTS - 1u)";
        dop_nest_array(n, "uint", "row_of", u->na);
        each_piece(u, u->na);
        dop_nest_set(n, "row_of[x]", "%s", b.by_pair ? pair : dop_blocks_row(o->gen, &b, pair));
        dop_nest_end(n);
    }
    if (o->found) {
        dop_nest_array(n, "dop_piece", "piece", u->nb);
        each_piece(u, u->nb);
        dop_nest_let(n, "uint", "row", "DOP_ROW_%u", o->piece);
        dop_nest_set(n, "piece[x]", "dop_piece_of%u(row / BN, min(n0 + row %% BN, %uu))", o->index, o->rows - 1);
        dop_nest_end(n);
    }
}

/* Emits the functions of a part: those that load pieces of its factors, and dop_partP, which walks over the depth. */
static void
emit_coop_part(dop_coop *o)
{
    dop_gen *gen = o->gen;
    const dop_tile *tile = &gen->choice->tile;
    const dop_coop_kind kind = o->form->kind;
    const uint32_t deep = kind == DOP_COOP_own ? tile->bk / tile->ds : tile->bk,
                   lanes = kind == DOP_COOP_own ? gen->e.target->subgroup : tile->wg;
    dop_nest *n = o->n;
    dop_buf load = {0}, text = {0};
    turn u = {.o = o,
              .n = n,
              .lane = "lane",
              .by = "WG",
              .from = "",
              .take_a = load_activation(gen, o->p, &load),
              .operands = &o->operands};
    dop_coop_weights(o, &text);
    if (kind != DOP_COOP_direct || dop_coop_window_bytes(gen->e.g, gen->e.r, tile))
        dop_buf_printf(&text, "dop_raw8 dop_load_a%u(uint t, uint c)\n{\n%s%s}\n", o->index,
                       tests_rows(o) ? "    if (t >= dop_tokens)\n        return dop_raw8(uvec4(0u), uvec4(0u));\n"
                                     : "",
                       dop_buf_text(&load));
    dop_buf_finish(&load);
    u.memory = kind == DOP_COOP_own ? 0 : o->memory[0];
    u.a = (kind == DOP_COOP_own ? dop_matrix_m(gen->e.target->matrix) : tile->bm) * deep / 8;
    u.b = (kind == DOP_COOP_own ? dop_matrix_n(gen->e.target->matrix) : o->part->n_mats * tile->bn) * deep / o->piece;
    u.na = dop_div_up_u32(u.a, lanes);
    u.nb = dop_div_up_u32(u.b, lanes);
    dop_nest_hole(n, "loads of a part", dop_gen_keep(gen, &text));
    dop_nest_function(n, dop_nest_text(n, "dop_part%u", o->index), "uint wg, uint t0");
    dop_nest_code(n,
                  "uint n0 = wg * BN, lane = gl_LocalInvocationIndex, own = lane / SG, share = %s, sg = %s;\n"
                  "uint wm = sg / (BN / WN), wn = sg %% (BN / WN);\n",
                  kind == DOP_COOP_own   ? "own"
                  : kind == DOP_COOP_few ? "own / TS"
                                         : "0u",
                  kind == DOP_COOP_own   ? "0u"
                  : kind == DOP_COOP_few ? "own % TS"
                                         : "own");
    dop_nest_array(n, "FRAG", "acc", o->part->n_mats * o->fm * o->fn);
    dop_nest_each(n, "i", o->part->n_mats * o->fm * o->fn, "acc[i]", "FRAG(0.0)");
    if (kind == DOP_COOP_direct) {
        dop_coop_direct(o);
    } else {
        if (kind == DOP_COOP_tile)
            find_piece_rows(&u);
        (kind == DOP_COOP_own ? emit_subgroup_loop : emit_staged_loop)(&u);
    }
    dop_coop_end(o);
    dop_nest_end(n);
}

/* Returns the number of a subgroup's adjacent fragments whose sums fit in `bytes` of shared memory: a divisor of its
 * fragments per row. */
static uint32_t
stored_side_by_side(const dop_tile *tile, uint32_t n_mats, const dop_target *t, uint32_t bytes)
{
    uint32_t row = tile->tn / dop_matrix_n(t->matrix), side = row;
    while (side > 1 && (row % side || dop_coop_sums_bytes(tile, n_mats, t, side) > bytes))
        side--;
    return side;
}

/* Emits the start of main() for split-K: the last columns of tiles have several workgroups, each with a share of the depth.
 * The numbers of columns and shares are numbers of the dispatch, so that chunks of different sizes share one kernel. */
static void
begin_shares(dop_gen *gen, uint32_t k, uint32_t columns, dop_buf *decls, dop_buf *begin)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    const uint32_t divided = columns - tile->undivided;
    const char *shares = dop_emit_number(e, tile->shares), *undivided = dop_emit_number(e, tile->undivided);
    dop_buf_printf(decls,
                   "#define SHARES %s\n#define UNDIVIDED %s\n"
                   "uint dop_from, dop_to, dop_tile, dop_share; // SHARES: the tile has one workgroup\n",
                   shares, undivided);
    dop_buf_printf(begin,
                   "    dop_from = 0u;\n    dop_to = %uu;\n    dop_share = SHARES;\n"
                   "    if (wg >= UNDIVIDED) {\n"
                   "        const uint steps = %uu;\n"
                   "        uint column = (wg - UNDIVIDED) / SHARES;\n"
                   "        dop_share = (wg - UNDIVIDED) %% SHARES;\n"
                   "        dop_from = dop_share * steps / SHARES * BK;\n"
                   "        dop_to = min((dop_share + 1u) * steps / SHARES * BK, %uu);\n"
                   "        dop_tile = column * gl_NumWorkGroups.x + gl_WorkGroupID.x;\n"
                   "        wg = UNDIVIDED + column;\n"
                   "    }\n",
                   k, dop_div_up_u32(k, tile->bk), k);
    gen->grid[1] = tile->undivided + divided * tile->shares;
    gen->hands_on = true;
    /* Sums of a tile, for each share. */
    dop_emit_sums(e, (uint64_t)tile->bm * tile->bn * e->r->info->product.most_mats * 4 * divided * gen->grid[0] *
                         tile->shares);
}

static dop_nest_placement
place_coop(const dop_coop *o)
{
    const dop_tile *tile = &o->gen->choice->tile;
    const dop_target *t = o->gen->e.target;
    const bool own = o->form->kind == DOP_COOP_own;
    const uint32_t turns = dop_div_up_u32(o->p->k, tile->bk);
    dop_nest_placement pl = {.at = {{[DOP_LEVEL_group] = tile->bm / tile->tm,
                                     [DOP_LEVEL_reg] = o->fm,
                                     [DOP_LEVEL_unit] = dop_matrix_m(t->matrix)},
                                    {[DOP_LEVEL_group] = tile->bn / tile->tn,
                                     [DOP_LEVEL_reg] = o->fn,
                                     [DOP_LEVEL_unit] = dop_matrix_n(t->matrix)},
                                    {[DOP_LEVEL_grid] = tile->shares,
                                     [DOP_LEVEL_piece] = own ? 1 : turns,
                                     [DOP_LEVEL_loop] = own ? turns : 1,
                                     [DOP_LEVEL_group] = o->teams,
                                     [DOP_LEVEL_reg] = tile->bk / dop_matrix_k(t->matrix) / o->teams,
                                     [DOP_LEVEL_unit] = dop_matrix_k(t->matrix)}},
                             .x = {.path = DOP_PATH_pieces, .ahead = o->ahead, .unit = 8, .form = "halves"},
                             .sum = o->teams > 1 ? DOP_MEET_each : DOP_MEET_none,
                             .subgroup = t->subgroup};
    pl.w = pl.x;
    pl.w.path = o->form->kind == DOP_COOP_direct ? DOP_PATH_direct : DOP_PATH_pieces;
    return pl;
}

/* Opens the nest with its numbers, and the library that declares the shared memory. */
static void
open_coop_nest(dop_coop *o, uint32_t bytes)
{
    const dop_tile *tile = &o->gen->choice->tile;
    const bool direct = o->form->kind == DOP_COOP_direct, own = o->form->kind == DOP_COOP_own;
    const dop_nest_placement pl = place_coop(o);
    dop_nest_open(o->n, dop_variant_of(o->gen->choice->variant)->name, &pl, o->gen->e.g->arena, o->gen->e.diag);
    DOP_LIBRARY(o->gen, o->n, "matmul_coop.glsl", {"BM", tile->bm}, {"BN", tile->bn}, {"BK", tile->bk},
                {"WM", tile->tm}, {"WN", tile->tn}, {"FJ", o->side}, {"WORDS", bytes / 16},
                {"DEEP", own ? tile->bk / tile->ds : tile->bk}, {"TEAMS", o->teams},
                {"#FEW", o->form->kind >= DOP_COOP_few}, {"#DIRECT", direct});
    o->memory[0] = dop_nest_memory(o->n, direct ? "first half" : "dop_s");
    o->memory[1] = direct ? dop_nest_memory(o->n, "second half") : 0;
}

dop_status
dop_coop_emit(dop_gen *gen, const dop_coop_form *form)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    const uint32_t mats = e->r->info->product.most_mats, bytes = form->bytes(tile, mats, e->target);
    const bool direct = form->kind == DOP_COOP_direct, all = form->kind >= DOP_COOP_few;
    dop_parts p;
    dop_nest n;
    dop_buf decls = {0}, begin = {0}, calls = {0};
    dop_status st = dop_gen_parts(gen, &p);
    if (st != DOP_OK)
        return st;
    const bool shares = tile->shares > 1;
    dop_coop o = {.gen = gen,
                  .form = form,
                  .p = &p,
                  .n = &n,
                  .teams = all ? tile->ds : 1,
                  .ahead = form->kind == DOP_COOP_few ? tile->unroll : 1,
                  .from = shares ? "dop_from" : "0u",
                  .to = shares ? "dop_to" : dop_emit_str(e, "%uu", p.k),
                  .fm = tile->tm / dop_matrix_m(e->target->matrix),
                  .fn = tile->tn / dop_matrix_n(e->target->matrix),
                  .deep = direct ? 2 : 1};
    o.side = direct ? o.fn : stored_side_by_side(tile, mats, e->target, bytes);
    open_coop_nest(&o, bytes);
    dop_stmt *declared = dop_nest_hole(&n, "declarations", NULL);
    uint32_t first = 0, makers = 0, *order = dop_arena_alloc(n.arena, p.n * sizeof *order);
    if (!order)
        return DOP_NO_MEMORY(e->diag);
    dop_stmt *waits = dop_waits_declare(gen, &n);
    dop_waits_order(gen, &p, order);
    const uint32_t together = tile->joined ? p.n : 1;
    for (uint32_t at = 0; e->status == DOP_OK && at < p.n; at += together) {
        const uint32_t i = order[at];
        dop_coop part = o;
        part.part = &p.part[i];
        part.index = i;
        part.n_parts = together;
        for (uint32_t k = 0; k < together; k++)
            part.rows += p.part[i + k].rows;
        emit_coop_part(&part);
        const char *call =
            dop_waits_call(gen, i, dop_emit_str(e, "dop_part%u(wg - %uu, %s);", i, first, all ? "0u" : "t0"));
        first += dop_div_up_u32(part.rows, tile->bn);
        makers = dop_region_part_is_awaited(e->r, i) ? first : makers;
        dop_gen_call(&calls, call, at + together < p.n ? first : 0);
    }
    dop_waits_define(gen, waits, makers, first - makers, all ? NULL : "(dop_tokens + BM - 1u) / BM");
    gen->halves = true;
    gen->grid[0] = dop_tiles_begin(gen, "gl_WorkGroupID.x", "dop_tokens", &decls, &begin);
    gen->grid[1] = first;
    if (!dop_blocks_of(e->g, e->r).n)
        find_windows(gen, &decls, &begin);
    dop_buf_puts(&begin, "    uint wg = gl_WorkGroupID.y;\n");
    if (shares)
        begin_shares(gen, p.k, first, &decls, &begin);
    if (direct) {
        gen->e.caps |= DOP_CAP_coop_pairs;
        st = dop_template_fill(gen, "matmul_coop_pairs.glsl", &(dop_keys){0}, &decls);
    }
    if (st == DOP_OK)
        st = dop_coop_declare_weights(gen, &p, form->in_units, &decls);
    declared->value = dop_gen_keep(gen, &decls);
    dop_nest_function(&n, "main", "");
    dop_nest_set(&n, "dop_tokens", "%s", dop_emit_n_tokens(e));
    if (direct)
        dop_nest_call(&n, "dop_check_pairs", dop_emit_step(e));
    dop_nest_hole(&n, "before", dop_gen_keep(gen, &begin));
    dop_nest_hole(&n, "parts", dop_gen_keep(gen, &calls));
    dop_nest_end(&n);
    n.placement.at[DOP_PLACE_t][DOP_LEVEL_grid] = gen->grid[0];
    n.placement.at[DOP_PLACE_n][DOP_LEVEL_grid] = first;
    return st == DOP_OK ? dop_gen_print_nest(gen, &n) : st;
}

/* True if the part's weights are loaded in whole units: the target lists the type (schedule.coop_units), and every invocation
 * gets equally many units. */
static bool
loads_coop_units(const dop_gen *gen, const dop_segment *part)
{
    const dop_tile *tile = &gen->choice->tile;
    const uint32_t units = tile->bn * part->n_mats * tile->bk / 32;
    return units % tile->wg == 0 && dop_coop_listed_units(gen, part);
}

/* True if register-direct weights are loaded in units: they are quantized. All weights of a part have one type. */
static bool
direct_units(const dop_gen *gen, const dop_segment *part)
{
    return dop_type_of(dop_product_type(gen->e.g, part->mats[0]))->kind == DOP_KIND_QUANT;
}

static dop_status
emit_coop(dop_gen *gen)
{
    const bool direct = gen->choice->tile.direct;
    gen->book = dop_coop_book_bytes(gen->e.g, gen->e.r, &gen->choice->tile);
    return dop_coop_emit(gen, &(dop_coop_form){.kind = direct ? DOP_COOP_direct : DOP_COOP_tile,
                                               .bytes = dop_coop_tile_bytes,
                                               .in_units = direct ? direct_units : loads_coop_units});
}

uint32_t
dop_coop_shared(dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    return dop_coop_tile_bytes(tile, gen->e.r->info->product.most_mats, gen->e.target) +
           dop_coop_window_bytes(gen->e.g, gen->e.r, tile) + dop_coop_book_bytes(gen->e.g, gen->e.r, tile) +
           dop_blocks_bytes(gen, tile->bm) + (tile->shares > 1 ? 4 : 0);
}

dop_refusal
dop_coop_fits(const dop_site *s)
{
    const dop_product_facts *a = &s->r->info->product;
    const dop_refusal no = dop_products_refuse(s);
    if (no.why)
        return no;
    if (a->n_stats)
        return (dop_refusal){"a row statistic is wanted after the sum, which f16 inputs cannot hold unscaled", NULL};
    if (dop_matrix_fit_of(s->t, s->g->max_t, a->depth) == DOP_MATRIX_FIT_ragged || !dop_region_wide(s->g, s->r, a->act))
        return (dop_refusal){"rows are not a multiple of 8 values", NULL};
    return no;
}

static dop_refusal
fits_coop_at(const dop_site *s)
{
    dop_refusal no = dop_blocks_refuse(s);
    return no.why ? no : dop_coop_fits(s);
}

static const char *
avoid_coop_at(const dop_site *s)
{
    return dop_blocks_of(s->g, s->r).span < DOP_MATRIX_ROWS ? "fewer than 16 rows of an expert" : NULL;
}

static const char *
avoid_coop(const dop_site *s)
{
    return s->g->max_t < DOP_MATRIX_ROWS ? "fewer than 16 tokens" : NULL;
}

/* The KHR form contains the use of a matrix, so that the driver need not transpose it in registers. */
#define COOP                                                                                                  \
    .shared = dop_coop_shared, .emit = emit_coop, .matrix_form = DOP_CAP_coop_khr, .settle = dop_coop_settle, \
    .legal = dop_coop_legal, .fields = DOP_COOP_FIELDS

const dop_descriptor dop_descriptor_matmul_coop = {COOP, .fits = dop_coop_fits, .avoid = avoid_coop,
                                                   .tile = dop_coop_choose_tile};
const dop_descriptor dop_descriptor_expert_coop = {COOP, .fits = fits_coop_at, .avoid = avoid_coop_at,
                                                   .tile = dop_coop_choose_tile_at};
