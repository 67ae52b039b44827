/* Helpers shared by the interpreter's ops. */
#include "ir/interp/interp_util.h"
#include "ir/interp/interp_ops.h"

float
dop_interp_round(dop_type t, float v)
{
    switch (t) {
    case DOP_TYPE_f16:
        return dop_f16_to_f32(dop_f32_to_f16(v));
    case DOP_TYPE_bf16:
        return dop_bf16_to_f32(dop_f32_to_bf16(v));
    default:
        return v;
    }
}

dop_status
dop_interp_check_ids(const dop_interp_node *n, uint32_t src, uint32_t limit)
{
    const dop_node *node = &n->g->nodes[n->id];
    const dop_tensor *ids = n->src[src];
    for (uint64_t i = 0; i < ids->count; i++) {
        if (ids->u[i] >= limit)
            return DOP_FAIL(n->diag, DOP_E_INPUT, "%%%s: %%%s holds %u but %s has %u rows", node->name,
                            n->g->nodes[node->src[src]].name, ids->u[i], dop_op_of(node->op)->name, limit);
    }
    return DOP_OK;
}
