/* Matmul regions of several tokens on matrix units. */
#include "kernels/gen.h"

#include "kernels/weight_types.h"

/* Zeros past the end of a row, when the tile's depth does not divide it. */
static void
guard_column(dop_gen *gen, const dop_parts *p, dop_buf *out)
{
    if (p->k % gen->choice->tile.bk)
        dop_buf_printf(out, "    if (c >= %uu)\n        return uvec4(0u);\n", p->k);
}

/* Eight values of matrix m's row n from column c, as halves. */
static void
load_weights(dop_gen *gen, const dop_parts *p, const dop_part *part, dop_buf *out)
{
    dop_emit *e = &gen->e;
    guard_column(gen, p, out);
    for (uint32_t m = 0; m < part->n_mats; m++) {
        dop_node_id w = dop_node_at(e->g, part->mats[m])->src[1];
        dop_type type = dop_node_at(e->g, w)->type;
        uint32_t stride = dop_row_values(e->g, w);
        const char *a = dop_emit_arg(e, w, false), *aux = dop_emit_weight(e, w), *name = dop_type_of(type)->name;
        const char *in = "    ";
        if (m + 1 < part->n_mats) {
            dop_buf_printf(out, "    if (m == %uu) {\n", m);
            in = "        ";
        }
        dop_buf_printf(out, "%suint at = n * %uu + c;\n", in, stride);
        if (type == DOP_TYPE_f16)
            dop_buf_printf(out, "%sreturn U32x4(%s).v[at >> 3];\n", in, a);
        else
            dop_buf_printf(out, "%sreturn dop_pack8(dop_w4_%s(%s, at, %s), dop_w4_%s(%s, at + 4u, %s));\n", in, name, a,
                           aux, name, a, aux);
        if (m + 1 < part->n_mats)
            dop_buf_puts(out, "    }\n");
    }
}

static void
load_activation(dop_gen *gen, const dop_parts *p, dop_buf *out)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    uint32_t start = 0;
    dop_node_id act = dop_node_base(g, p->act, &start);
    guard_column(gen, p, out);
    dop_emit_scope(e, out, "    ");
    if (!dop_region_has(e->r, act) && dop_node_at(g, act)->type == DOP_TYPE_f16 && start % 8 == 0 &&
        dop_node_cols(g, act) % 8 == 0) {
        dop_emit_line(e, "return C32x4(%s).v[(t * %uu + c + %uu) >> 3];", dop_emit_arg(e, act, false),
                      dop_node_cols(g, act), start);
        return;
    }
    const char *a = dop_emit_value(e, p->act, (dop_index){"t", "c"}, 4);
    const char *b = dop_emit_value(e, p->act, (dop_index){"t", "(c + 4u)"}, 4);
    dop_emit_line(e, "return dop_pack8(%s, %s);", a, b);
}

static void
store_tile(dop_gen *gen, const dop_part *part, uint32_t width, dop_buf *store)
{
    dop_emit *e = &gen->e;
    uint32_t n_binds = e->n_binds;
    dop_emit_scope(e, store, "                    ");
    for (uint32_t m = 0; m < part->n_mats; m++) {
        const char *at = dop_emit_str(e, "(%uu * (WG / SG) + sg) * 256u + e", m), *name = dop_emit_str(e, "acc%u", m);
        if (width == 4)
            dop_emit_line(e, "vec4 %s = dop_c4(%s);", name, at);
        else
            dop_emit_line(e, "float %s = dop_c1(%s);", name, at);
        dop_emit_bind(e, part->mats[m], name, false, NULL);
    }
    dop_index ix = {"t", "c"};
    for (uint32_t i = 0; i < part->n_outs; i++)
        dop_emit_store(e, part->outs[i], ix, width, dop_emit_value(e, part->outs[i], ix, width));
    e->n_binds = n_binds;
}

static dop_status
emit_part(dop_gen *gen, const dop_parts *p, uint32_t index, dop_buf *out)
{
    dop_emit *e = &gen->e;
    const dop_part *part = &p->part[index];
    const dop_tile *tile = &gen->choice->tile;
    dop_keys keys = {0};
    dop_buf load_a = {0}, load_b = {0}, store = {0};
    uint32_t width = part->rows % 4 == 0 ? 4 : 1;
    for (uint32_t i = 0; i < part->n_outs; i++)
        width = dop_emit_wide(e, part->outs[i]) ? width : 1;
    load_activation(gen, p, &load_a);
    load_weights(gen, p, part, &load_b);
    store_tile(gen, part, width, &store);
    dop_keys_num(gen, &keys, "P", index);
    dop_keys_num(gen, &keys, "M", part->n_mats);
    dop_keys_num(gen, &keys, "N", part->rows);
    dop_keys_num(gen, &keys, "K", p->k);
    dop_keys_num(gen, &keys, "W", width);
    dop_keys_num(gen, &keys, "FM", tile->tm / 16);
    dop_keys_num(gen, &keys, "FN", tile->tn / 16);
    dop_keys_set(&keys, "LOAD_A", load_a.data ? load_a.data : "");
    dop_keys_set(&keys, "LOAD_B", load_b.data ? load_b.data : "");
    dop_keys_set(&keys, "STORE", store.data ? store.data : "");
    dop_status st = e->status == DOP_OK ? dop_template_fill(gen, "matmul_coop_part.glsl", &keys, out) : e->status;
    dop_buf_finish(&load_a);
    dop_buf_finish(&load_b);
    dop_buf_finish(&store);
    return st;
}

dop_status
dop_gen_matmul_coop(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    dop_parts p;
    dop_keys keys = {0};
    dop_buf parts = {0}, calls = {0};
    dop_status st = dop_gen_find_parts(gen, &p);
    if (st == DOP_OK && (p.n_stats || p.k % 8 || !dop_emit_wide(e, p.act)))
        st = DOP_FAIL(e->diag, DOP_E_INPUT, "matmul_coop: %s",
                      p.n_stats ? "a row statistic is wanted after the sum, which f16 inputs cannot hold unscaled"
                                : "rows are not a multiple of 8 values");
    if (st != DOP_OK)
        return st;
    uint32_t first = 0, mats = 1;
    for (uint32_t i = 0; st == DOP_OK && i < p.n; i++) {
        uint32_t n_wg = dop_div_up_u32(p.part[i].rows, tile->bn);
        mats = p.part[i].n_mats > mats ? p.part[i].n_mats : mats;
        st = emit_part(gen, &p, i, &parts);
        if (i + 1 < p.n)
            dop_buf_printf(&calls, "    if (wg < %uu) {\n        dop_part%u(wg - %uu, t0);\n        return;\n    }\n",
                           first + n_wg, i, first);
        else
            dop_buf_printf(&calls, "    dop_part%u(wg - %uu, t0);\n", i, first);
        first += n_wg;
    }
    gen->shared += 2 * (tile->bm + mats * tile->bn) * (tile->bk + 8) * 2;
    if (mats * tile->wg / e->target->subgroup * 1024 > 4 * mats * tile->bn * (tile->bk + 8))
        return DOP_FAIL(e->diag, DOP_E_INTERNAL, "matmul_coop: the tile's fragments do not fit where its weights were");
    gen->grid[0] = first;
    gen->grid[1] = dop_div_up_u32(e->g->max_t, tile->bm);
    gen->grid[2] = 1;
    dop_keys_num(gen, &keys, "BM", tile->bm);
    dop_keys_num(gen, &keys, "BN", tile->bn);
    dop_keys_num(gen, &keys, "BK", tile->bk);
    dop_keys_num(gen, &keys, "WM", tile->tm);
    dop_keys_num(gen, &keys, "WN", tile->tn);
    dop_keys_num(gen, &keys, "M_MAX", mats);
    dop_keys_set(&keys, "N_TOKENS", dop_emit_n_tokens(e));
    dop_keys_set(&keys, "PARTS", parts.data ? parts.data : "");
    dop_keys_set(&keys, "CALLS", calls.data ? calls.data : "");
    if (st == DOP_OK)
        st = e->status == DOP_OK ? dop_template_fill(gen, "matmul_coop.glsl", &keys, &gen->main) : e->status;
    dop_buf_finish(&parts);
    dop_buf_finish(&calls);
    return st;
}
