/* Weights expanded before the products that read them: dequant.glsl. */
#include "kernels/gen.h"

#include "kernels/weight_types.h"

#include <string.h>

static dop_status
emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    dop_node_id out = e->r->nodes[0], w = dop_node_at(e->g, out)->src[0];
    uint32_t cols = dop_node_cols(e->g, w), stride = dop_row_values(e->g, w), v = gen->choice->tile.bk;
    uint64_t values = (uint64_t)dop_node_at(e->g, w)->shape.dim[0].mul * cols;
    dop_keys keys = {0};
    DOP_NUMBERS(gen, &keys, &gen->main, {"V", v});
    /* Matrices of one type share the kernel: sizes are numbers of the dispatch. */
    dop_keys_set(&keys, "COUNT", dop_emit_number(e, (uint32_t)(values / v)));
    dop_keys_set(&keys, "TYPE", dop_type_of(dop_node_at(e->g, w)->type)->name);
    dop_keys_set(&keys, "W", dop_emit_arg(e, w, false));
    const char *aux = dop_emit_weight(e, w);
    dop_keys_set(&keys, "AUX", strcmp(aux, "0u") ? dop_emit_number(e, dop_weight_aux(e->g, w)) : aux);
    /* Written so that the compiler sees the alignment of units. */
    if (stride == cols)
        dop_keys_set(&keys, "AT", dop_emit_str(e, "i * %uu", v));
    else
        dop_keys_set(&keys, "AT", dop_emit_str(e, "i / %uu * %uu + i %% %uu * %uu", cols / v, stride, cols / v, v));
    const char *a = dop_emit_arg(e, out, true);
    if (dop_node_at(e->g, out)->type == DOP_TYPE_f16)
        dop_keys_set(&keys, "STORE",
                     dop_emit_str(e,
                                  "            dop_stw4(%s, to >> 3, uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), "
                                  "packHalf2x16(b.xy), packHalf2x16(b.zw)));\n",
                                  a));
    else
        dop_keys_set(&keys, "STORE",
                     dop_emit_str(e,
                                  "            dop_st4_f32(%s, to, a);\n"
                                  "            dop_st4_f32(%s, to + 4u, b);\n",
                                  a, a));
    gen->grid[0] = gen->choice->tile.loops;
    gen->grid[1] = gen->grid[2] = 1;
    return e->status == DOP_OK ? dop_template_fill(gen, "dequant.glsl", &keys, &gen->main) : e->status;
}

/* Eight values per invocation, so that neighbouring stores are 16 bytes wide; on CPU devices whole units, whose
 * scales are then loaded once, and few workgroups. */
static void
choose_tile(const dop_site *s, dop_tile *tile)
{
    const dop_graph *g = s->g;
    const dop_region *r = s->r;
    const dop_target *t = s->t;
    const dop_weight_type *wt = dop_weight_type_of(dop_node_at(g, dop_node_at(g, r->nodes[0])->src[0])->type);
    uint32_t cols = dop_node_cols(g, r->nodes[0]);
    tile->bk = t->cpu && wt && cols % wt->unit == 0 ? wt->unit : 8;
    uint64_t each = (uint64_t)dop_node_at(g, r->nodes[0])->shape.dim[0].mul * cols / (tile->bk * tile->wg) + 1;
    uint64_t most = t->cpu ? 4 * t->cores : 32768; /* below any device's limit */
    tile->loops = (uint32_t)(each < most ? each : most);
    while (t->loop_trips && dop_trips_dequant(s, tile) > t->loop_trips && tile->loops < each)
        tile->loops *= 2;
}

/* Values come in eights, and their number is one of 32 bits. */
static dop_refusal
fits(const dop_site *s)
{
    const dop_node *n = dop_node_at(s->g, s->r->nodes[0]);
    if (s->r->n_nodes != 1 || n->op != DOP_OP_dequant)
        return (dop_refusal){"not a matrix of weights", NULL};
    uint32_t cols = dop_node_cols(s->g, s->r->nodes[0]);
    if (cols % 8)
        return (dop_refusal){"rows are not a multiple of 8 values", NULL};
    if ((uint64_t)n->shape.dim[0].mul * cols > UINT32_MAX)
        return (dop_refusal){"the matrix has more than 2^32 values", NULL};
    return (dop_refusal){0};
}

const dop_descriptor dop_descriptor_dequant = {
    .fits = fits,
    .tile = choose_tile,
    .emit = emit,
    .trips = dop_trips_dequant,
};
