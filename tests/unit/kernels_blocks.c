#include "tests/unit/kernels_blocks.h"

#include "compiler/pack/quant.h"
#include "compiler/pack/repack.h"
#include "ir/interp.h"

#include <stdlib.h>
#include <string.h>

bool
lab_quantize(const dop_graph *g, dop_node_id id, float *values, uint8_t *packed, uint64_t stride)
{
    const dop_node *n = dop_node_at(g, id);
    const dop_dim *last = n->shape.dim + n->shape.rank - 1;
    const uint32_t cols = last->mul, rows = last == n->shape.dim ? 1 : last[-1].mul;
    const uint64_t many = n->shape.rank == 3 ? n->shape.dim[0].mul : 1;
    float *row = calloc(cols + 256, sizeof *row);
    uint8_t *blocks = calloc(cols + 256, 4);
    for (uint64_t i = 0; row && blocks && i < many * rows; i++) {
        memcpy(row, values + i * cols, cols * sizeof *row);
        dop_quantize_row(n->type, row, cols, blocks);
        if (packed)
            dop_repack_row(n->type, blocks, (uint32_t)(i % rows), rows, cols, packed + i / rows * stride);
        else
            dop_decode_row(n->type, blocks, cols, values + i * cols);
    }
    const bool ok = row && blocks;
    free(row);
    free(blocks);
    return ok;
}

bool
lab_in_blocks(const dop_node *n)
{
    return n->op == DOP_OP_weight && dop_type_of(n->type)->kind == DOP_KIND_QUANT;
}
