/* Weights expanded before the products that read them: dequant.glsl. */
#include "kernels/gen.h"

#include <string.h>

dop_status
dop_gen_dequant(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    dop_node_id out = e->r->nodes[0], w = dop_node_at(e->g, out)->src[0];
    uint32_t cols = dop_node_cols(e->g, w), stride = dop_row_values(e->g, w), v = gen->choice->tile.bk;
    uint64_t values = (uint64_t)dop_node_at(e->g, w)->shape.dim[0].mul * cols;
    dop_keys keys = {0};
    if (cols % v || v % 8 || values > UINT32_MAX)
        return DOP_FAIL(e->diag, DOP_E_INPUT, "dequant at %%%s: rows of %u values are not a multiple of %u",
                        dop_node_at(e->g, out)->name, cols, v);
    dop_keys_num(gen, &keys, "V", v);
    /* Matrices of one type share the kernel: sizes are numbers of the dispatch. */
    dop_keys_set(&keys, "COUNT", dop_emit_number(e, (uint32_t)(values / v)));
    dop_keys_set(&keys, "T", dop_type_of(dop_node_at(e->g, w)->type)->name);
    dop_keys_set(&keys, "W", dop_emit_arg(e, w, false));
    const char *aux = dop_emit_weight(e, w);
    dop_keys_set(&keys, "AUX", strcmp(aux, "0u") ? dop_emit_number(e, dop_weight_aux(e->g, w)) : aux);
    /* Units keep their alignment, which the compiler then sees. */
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
