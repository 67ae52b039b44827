/* Products of several tokens (GEMM) on matrix units: what fills the templates matmul_coop*.glsl. */
#include "kernels/gen_coop.h"

#include "kernels/weight_types.h"

/* The test for rows past the last token in matmul_own_part.glsl; empty where loads need none (matmul_few_part.glsl keeps its test,
 * which was faster when measured).  Whatever stored rows past the last token hold, they only reach sums that are not stored.  So
 * it is not worth waiting for the number of tokens, unless the buffer ends before the tile does, or the row is computed from ids
 * that may name any address. */
static const char *
guard_row(const dop_gen *gen, const dop_parts *p)
{
    const dop_graph *g = gen->e.g;
    uint32_t start = 0;
    const bool whole = dop_node_rows(g, dop_node_base(g, p->act, &start), g->max_t) >= gen->choice->tile.bm;
    return whole && dop_coop_stored(g, gen->e.r).type < DOP_TYPE_COUNT
               ? ""
               : "    if (t >= dop_tokens)\n"
                 "        return dop_raw8(uvec4(0u), uvec4(0u));\n";
}

/* Fills dop_windows, where the windows of the tile's rows begin: found once, since registers would not hold it for all rows that an invocation
 * loads. */
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

/* Code that loads eight stored values of row t from column c on as `r`, and (returned) the expression that converts r to halves.
 * place: expression of the row's place in the tile. */
static const char *
load_stored(dop_gen *gen, const dop_stored_rows *rows, const char *place, dop_buf *load)
{
    dop_emit *e = &gen->e;
    const char *a = dop_emit_arg(e, rows->id, false);
    const bool halves = rows->type == DOP_TYPE_f16;
    dop_window_place from = {0};
    dop_emit_scope(e, load, "    ");
    if (rows->windows) {
        dop_emit_line(e, "uvec2 w = dop_windows[%s];", place);
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

/* Code that loads eight values of an activation as `r`, and (returned) the expression that converts r to halves.  A stored row is
 * loaded as it is and converted when it goes to shared memory; a computed one becomes halves at once. */
static const char *
load_activation(dop_gen *gen, const dop_parts *p, const char *place, dop_buf *load)
{
    dop_emit *e = &gen->e;
    const dop_blocks b = dop_blocks_of(e->g, e->r);
    const dop_stored_rows rows = dop_coop_stored(e->g, e->r);
    dop_coop_guard_column(gen, p, load);
    if (rows.type < DOP_TYPE_COUNT)
        return load_stored(gen, &rows, place, load);
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

/* Keys for rows of the step: which row the activations of a piece belong to, and in which rows a tile's results are stored. */
static void
row_keys(dop_gen *gen, dop_keys *keys)
{
    const dop_blocks b = dop_blocks_of(gen->e.g, gen->e.r);
    if (!b.n) {
        dop_keys_set(keys, "LOAD_ROW", "min(t0 + i / (BK / 8u), dop_tokens - 1u)");
        dop_keys_set(keys, "ROW_OF", "t0");
        dop_keys_set(keys, "ROWS", "");
        dop_keys_set(keys, "STORE_ROW", "t0 + wm * WM + i * MM + r");
        return;
    }
    /* Rows without a pair use the activations of another one; they are not stored. */
    const char *pair = "min(dop_pair[(lane + i * WG) / (BK / 8u) % BM], dop_tokens * DOP_SLOTS - 1u)";
    dop_keys_set(keys, "LOAD_ROW", "t0");
    dop_keys_set(keys, "ROW_OF", "row_of[i]");
    dop_keys_set(keys, "ROWS",
                 dop_emit_str(&gen->e,
                              "    uint row_of[NA];\n"
                              "    [[unroll]] for (uint i = 0u; i < NA; i++)\n"
                              "        row_of[i] = %s;\n",
                              b.by_pair ? pair : dop_blocks_row(gen, &b, pair)));
    dop_keys_set(keys, "STORE_ROW", dop_blocks_row(gen, &b, DOP_STORED_PAIR));
}

/* Bytes that the sums of a tile take in memory, for split-K. */
static uint64_t
sums_bytes(const dop_tile *tile, uint32_t mats)
{
    return (uint64_t)tile->bm * tile->bn * mats * 4;
}

/* Keys for split-K: which part of the depth a workgroup goes through, and code by which the workgroups of a tile add up their
 * sums. */
static dop_status
share_depth(dop_gen *gen, uint32_t k, dop_keys *keys, dop_buf *meet)
{
    const dop_tile *tile = &gen->choice->tile;
    const bool shares = tile->shares > 1;
    dop_status st = DOP_OK;
    dop_keys_set(keys, "FROM_K", shares ? "dop_from" : "0u");
    dop_keys_set(keys, "TO_K", shares ? "dop_to" : dop_emit_str(&gen->e, "%uu", k));
    if (shares) {
        dop_keys_set(keys, "COUNTS", dop_emit_counts(&gen->e));
        dop_keys_set(keys, "SUMS", dop_emit_sums(&gen->e, 0));
        st = dop_template_fill(gen, "matmul_coop_meet.glsl", keys, meet);
    }
    dop_keys_set(keys, "MEET", meet->data);
    return st;
}

/* Keys for the staging of activations in register-direct tiles: beside the products of which fragment of tokens the first pieces
 * are stored, and how many pieces beside each fragment.  This decides how a driver orders the loop. */
static void
store_keys(dop_gen *gen, dop_type weights, uint32_t n_mats, dop_keys *keys)
{
    const dop_tile *tile = &gen->choice->tile;
    const bool quant = dop_type_of(weights)->kind == DOP_KIND_QUANT, shares = tile->shares > 1;
    const dop_schedule_numbers *in = &gen->e.target->schedule;
    uint32_t first = 0, each = 1;
    if (n_mats > 1 ? weights == DOP_TYPE_q4_k : tile->joined && (!quant || weights == DOP_TYPE_q4_k))
        each = in->direct_each;
    else if (shares && !quant)
        each = in->direct_each_shared;
    else if (n_mats > 1 && !quant)
        first = in->direct_first_pair;
    DOP_NUMBERS(gen, keys, NULL, {"FIRST", first}, {"EACH", each});
}

/* Keys for register-direct tiles: where the activations are, and when they are staged. */
static void
direct_keys(dop_gen *gen, const dop_parts *p, dop_keys *keys)
{
    const dop_graph *g = gen->e.g;
    const dop_stored_rows rows = dop_coop_stored(g, gen->e.r);
    const dop_node *w = dop_node_at(g, dop_node_at(g, p->part[0].mats[0])->src[1]);
    store_keys(gen, w->type, p->part[0].n_mats, keys);
    dop_keys_set(keys, "ACT", dop_emit_arg(&gen->e, rows.id, false));
    DOP_NUMBERS(gen, keys, NULL, {"DECODES", dop_type_of(w->type)->kind == DOP_KIND_QUANT},
                {"WINDOWS", rows.windows != 0}, {"BOOK", gen->book != 0}, {"START", rows.start},
                {"COLUMNS", rows.cols / 8});
}

static dop_status
emit_part(dop_gen *gen, const dop_parts *p, const dop_coop_rows *rows, const dop_coop_form *form, dop_buf *out)
{
    dop_emit *e = &gen->e;
    const dop_segment *part = rows->part;
    const dop_tile *tile = &gen->choice->tile;
    dop_keys keys = {0};
    dop_buf *load_a = dop_keys_text(gen, &keys, "LOAD_A"), *load_b = dop_keys_text(gen, &keys, "LOAD_B"),
            *take_b = dop_keys_text(gen, &keys, "TAKE_B"), *load = dop_keys_text(gen, &keys, "LOAD"),
            *store = dop_keys_text(gen, &keys, "STORE"), *loop = dop_gen_text(gen), *find = dop_gen_text(gen),
            *meet = dop_gen_text(gen);
    const dop_node *w = dop_node_at(e->g, dop_node_at(e->g, part->mats[0])->src[1]);
    const uint32_t width = dop_coop_store_width(e, rows);
    dop_keys_set(&keys, "TAKE_A", load_activation(gen, p, form->place, load_a));
    dop_coop_weights(gen, p, rows, form->in_units(gen, part), &keys, load_b, take_b, form->finds ? find : NULL);
    const bool apart = form->apart && dop_coop_store_apart(gen, rows, width, load, store);
    if (!apart)
        dop_coop_store(gen, rows, width, store);
    row_keys(gen, &keys);
    dop_keys_set(&keys, "GUARD_ROW", guard_row(gen, p));
    DOP_NUMBERS(gen, &keys, NULL, {"P", (uint32_t)(part - p->part)}, {"M", part->n_mats}, {"N", rows->rows},
                {"K", p->k}, {"W", width}, {"DEEP", rows->deep},
                {"STRIDE", dop_row_values(e->g, dop_node_at(e->g, part->mats[0])->src[1]) / 8});
    if (tile->direct)
        direct_keys(gen, p, &keys);
    dop_keys_set(&keys, "TYPE", dop_type_of(w->type)->name);
    dop_status st = e->status == DOP_OK ? share_depth(gen, p->k, &keys, meet) : e->status;
    if (st == DOP_OK && form->apart && !apart)
        st = dop_template_fill(gen, "matmul_coop_store.glsl", &keys, loop);
    dop_keys_set(&keys, "STORE_ALL", apart ? store->data : loop->data);
    if (st == DOP_OK)
        st = dop_template_fill(gen, form->part, &keys, out);
    if (st == DOP_OK)
        st = dop_template_fill(gen, form->end, &keys, out);
    return st;
}

/* The number of a subgroup's fragments in a row whose sums fit `bytes` of shared memory side by side: a divisor of the row. */
static uint32_t
stored_side_by_side(const dop_tile *tile, uint32_t n_mats, const dop_target *t, uint32_t bytes)
{
    uint32_t row = tile->tn / dop_matrix_n(t->matrix), side = row;
    while (side > 1 && (row % side || dop_coop_sums_bytes(tile, n_mats, t, side) > bytes))
        side--;
    return side;
}

/* The start of main() for split-K: the last columns of tiles have several workgroups, each with a share of the depth.  The counts
 * of columns and shares are numbers of the dispatch, so that chunks of different sizes have one kernel. */
static void
begin_shares(dop_gen *gen, uint32_t k, uint32_t mats, uint32_t columns, dop_buf *decls, dop_buf *begin)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    const uint32_t divided = columns - tile->undivided;
    const char *shares = dop_emit_number(e, tile->shares), *undivided = dop_emit_number(e, tile->undivided);
    dop_buf_printf(decls,
                   "#define SHARES %s\n#define UNDIVIDED %s\n#define MATS %uu // most matrices of a part\n"
                   "uint dop_from, dop_to, dop_tile, dop_share; // SHARES: the tile has one workgroup\n",
                   shares, undivided, mats);
    dop_buf_printf(begin,
                   "    uint wg = gl_WorkGroupID.y;\n"
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
    dop_emit_sums(e, sums_bytes(tile, mats) * divided * gen->grid[0] * tile->shares);
}

dop_status
dop_coop_emit(dop_gen *gen, const dop_coop_form *form)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    dop_parts p;
    dop_keys keys = {0};
    dop_buf *decls = dop_keys_text(gen, &keys, "DECLS"), *begin = dop_keys_text(gen, &keys, "BEGIN"),
            *parts = dop_keys_text(gen, &keys, "PARTS"), *calls = dop_keys_text(gen, &keys, "CALLS"),
            *types = dop_keys_text(gen, &keys, "TYPES");
    dop_status st = dop_gen_parts(gen, &p);
    if (st != DOP_OK)
        return st;
    uint32_t first = 0;
    const uint32_t together = tile->joined ? p.n : 1, mats = dop_coop_mats(gen),
                   bytes = form->bytes(tile, mats, e->target),
                   side = form->deep ? tile->tn / dop_matrix_n(e->target->matrix)
                                     : stored_side_by_side(tile, mats, e->target, bytes);
    for (uint32_t i = 0; st == DOP_OK && i < p.n; i += together) {
        dop_coop_rows rows = {.part = &p.part[i], .n = together, .side = side, .deep = form->deep ? form->deep : 1};
        for (uint32_t k = 0; k < together; k++)
            rows.rows += p.part[i + k].rows;
        st = emit_part(gen, &p, &rows, form, parts);
        const char *call = dop_emit_str(e, "dop_part%u(wg - %uu%s);", i, first, form->call);
        first += dop_div_up_u32(rows.rows, tile->bn);
        dop_gen_call(calls, call, i + together < p.n ? first : 0);
    }
    gen->halves = true;
    const dop_blocks b = dop_blocks_of(e->g, e->r);
    if (b.n) {
        dop_blocks_declare(&b, decls);
        dop_blocks_begin(gen, &b, "gl_WorkGroupID.x", begin);
    } else {
        dop_buf_puts(begin, "    uint t0 = gl_WorkGroupID.x * BM; // tiles that share weights run side by side\n"
                            "    if (t0 >= dop_tokens)\n"
                            "        return;\n");
        find_windows(gen, decls, begin);
    }
    gen->grid[0] = b.n ? b.n * (b.span / tile->bm) : dop_div_up_u32(e->g->max_t, tile->bm);
    gen->grid[1] = first;
    gen->grid[2] = 1;
    if (tile->shares > 1)
        begin_shares(gen, p.k, mats, first, decls, begin);
    DOP_NUMBERS(gen, &keys, &gen->main, {"BM", tile->bm}, {"BN", tile->bn}, {"BK", tile->bk}, {"WM", tile->tm},
                {"WN", tile->tn}, {"FJ", side}, {"WORDS", bytes / 16});
    dop_keys_set(&keys, "N_TOKENS", dop_emit_n_tokens(e));
    if (st == DOP_OK)
        st = form->declare(gen, decls);
    if (st == DOP_OK)
        st = dop_coop_declare_weights(gen, &p, form->in_units, decls, types);
    if (tile->shares <= 1)
        dop_buf_puts(begin, "    uint wg = gl_WorkGroupID.y;\n");
    if (st == DOP_OK)
        st = e->status == DOP_OK ? dop_template_fill(gen, "matmul_coop.glsl", &keys, &gen->main) : e->status;
    return st;
}

/* Are the part's weights loaded in whole units?  Yes where the target lists the type (schedule.coop_units) and every invocation
 * gets equally many units. */
static bool
in_units(const dop_gen *gen, const dop_segment *part)
{
    const dop_tile *tile = &gen->choice->tile;
    const uint32_t units = tile->bn * part->n_mats * tile->bk / 32;
    return units % tile->wg == 0 && dop_coop_listed_units(gen, part);
}

static dop_status
declare(dop_gen *gen, dop_buf *decls)
{
    const dop_keys keys = {0};
    return dop_template_fill(gen, "matmul_coop_shared.glsl", &keys, decls);
}

/* Register-direct weights: all of a part have one type, and quantized ones are loaded in units. */
static bool
direct_units(const dop_gen *gen, const dop_segment *part)
{
    return dop_type_of(dop_node_at(gen->e.g, dop_node_at(gen->e.g, part->mats[0])->src[1])->type)->kind ==
           DOP_KIND_QUANT;
}

static dop_status
declare_pairs(dop_gen *gen, dop_buf *decls)
{
    dop_keys keys = {0};
    gen->e.caps |= DOP_CAP_coop_pairs;
    dop_keys_set(&keys, "STEP", dop_emit_step(&gen->e));
    return dop_template_fill(gen, "matmul_coop_pairs.glsl", &keys, decls);
}

static dop_status
emit(dop_gen *gen)
{
    dop_coop_form form = {.part = "matmul_coop_part.glsl",
                          .end = "matmul_coop_end.glsl",
                          .apart = true,
                          .finds = true,
                          .call = ", t0",
                          .place = "t - t0",
                          .bytes = dop_coop_tile_bytes,
                          .in_units = in_units,
                          .declare = declare};
    if (gen->choice->tile.direct) {
        gen->book = dop_coop_book_bytes(gen->e.g, gen->e.r, &gen->choice->tile);
        form.part = "matmul_coop_direct.glsl";
        form.end = "matmul_coop_direct_end.glsl";
        form.deep = 2;
        form.place = "t";
        form.in_units = direct_units;
        form.declare = declare_pairs;
    }
    return dop_coop_emit(gen, &form);
}

uint32_t
dop_coop_mats(const dop_gen *gen)
{
    uint32_t mats = 1;
    dop_parts p;
    if (dop_gen_parts(gen, &p) != DOP_OK)
        return 0; /* generation says why */
    for (uint32_t i = 0; i < p.n; i++)
        mats = p.part[i].n_mats > mats ? p.part[i].n_mats : mats;
    return mats;
}

uint32_t
dop_coop_shared(dop_gen *gen)
{
    const uint32_t mats = dop_coop_mats(gen);
    return mats == 0 ? 0
                     : dop_coop_tile_bytes(&gen->choice->tile, mats, gen->e.target) +
                           dop_coop_window_bytes(gen->e.g, gen->e.r, &gen->choice->tile) +
                           dop_coop_book_bytes(gen->e.g, gen->e.r, &gen->choice->tile) +
                           dop_blocks_bytes(gen, gen->choice->tile.bm) + (gen->choice->tile.shares > 1 ? 4 : 0);
}

dop_refusal
dop_coop_fits(const dop_site *s)
{
    dop_refusal no = dop_products_refuse(s);
    dop_diag ignored = {0};
    dop_gen gen;
    dop_parts p;
    dop_gen_open(&gen, s, &dop_descriptor_matmul_coop, NULL, &ignored);
    if (no.why || dop_gen_parts(&gen, &p) != DOP_OK)
        return no;
    if (p.n_stats)
        return (dop_refusal){"a row statistic is wanted after the sum, which f16 inputs cannot hold unscaled", NULL};
    if (dop_matrix_fit_of(s->t, s->g->max_t, p.k) == DOP_MATRIX_FIT_ragged || !dop_emit_wide(&gen.e, p.act))
        return (dop_refusal){"rows are not a multiple of 8 values", NULL};
    return no;
}

static dop_refusal
fits_at(const dop_site *s)
{
    dop_refusal no = dop_blocks_refuse(s);
    return no.why ? no : dop_coop_fits(s);
}

static const char *
avoid_at(const dop_site *s)
{
    return dop_blocks_of(s->g, s->r).span < DOP_MATRIX_ROWS ? "fewer than 16 rows of an expert" : NULL;
}

static const char *
avoid(const dop_site *s)
{
    return s->g->max_t < DOP_MATRIX_ROWS ? "fewer than 16 tokens" : NULL;
}

/* The KHR form tells the driver what a matrix is for, so that it need not transpose it in registers. */
const dop_descriptor dop_descriptor_matmul_coop = {
    .fits = dop_coop_fits,
    .avoid = avoid,
    .tile = dop_coop_choose_tile,
    .shared = dop_coop_shared,
    .emit = emit,
    .matrix_form = DOP_CAP_coop_khr,
};
const dop_descriptor dop_descriptor_expert_coop = {
    .fits = fits_at,
    .avoid = avoid_at,
    .tile = dop_coop_choose_tile_at,
    .shared = dop_coop_shared,
    .emit = emit,
    .matrix_form = DOP_CAP_coop_khr,
};
