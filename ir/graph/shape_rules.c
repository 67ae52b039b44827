/* Checks of an op's sources that shape rules share, and their failure messages. */
#include "ir/graph/shape_rules.h"
#include "ir/graph/dims.h"

#include <stdio.h>

/* Maximum number of values in one tensor: far above any real one, low enough that byte counts never overflow. */
#define MAX_VALUES ((uint64_t)1 << 40)

dop_status
dop_rule_bad(const dop_rule *c, const char *src_file, int src_line, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return dop_fail(c->diag, src_file, src_line, DOP_E_INTERNAL, NULL, 0, 0, "%%%s: %s %s", c->name, c->info->name,
                    text);
}

int64_t
dop_rule_attr_i(const dop_rule *c, dop_attr_id a)
{
    for (uint8_t k = 0; k < c->info->n_attrs; k++)
        if (c->info->attrs[k] == a)
            return c->attrs[k].i;
    return 0;
}

dop_status
dop_rule_check_shape(const dop_rule *c, const dop_shape *s)
{
    if (s->rank < 1 || s->rank > DOP_MAX_RANK)
        return DOP_RULE_BAD(c, "has rank %u; 1 to %d are possible", s->rank, DOP_MAX_RANK);
    uint64_t cols = 1, rows = 1, values;
    bool behind = false; /* after a constant axis */
    for (uint32_t i = 0; i < s->rank; i++) {
        dop_dim d = s->dim[i];
        const bool known = (unsigned)d.sym < DOP_N_SYMS && (d.sym == DOP_SYM_1 || c->g->dim_names[d.sym]);
        if (d.mul == 0 || !(known || (d.sym == DOP_SYM_R && i == 1 && s->dim[0].sym == DOP_SYM_Q)))
            return DOP_RULE_BAD(c, "axis %u is empty", i);
        if (d.sym != DOP_SYM_1 && behind)
            return DOP_RULE_BAD(c, "axis %u is a dimension behind a constant axis", i);
        behind = d.sym == DOP_SYM_1;
        uint64_t *side = i && behind ? &cols : &rows;
        if (!dop_mul_u64(*side, dop_dim_value(c->g, d, c->g->max_t), side) || *side > UINT32_MAX)
            return side == &cols ? DOP_RULE_BAD(c, "a row has more than 2^32-1 values")
                                 : DOP_RULE_BAD(c, "is too large");
    }
    if (!dop_mul_u64(cols, rows, &values) || values > MAX_VALUES)
        return DOP_RULE_BAD(c, "is too large");
    return DOP_OK;
}

dop_status
dop_rule_need_rank(const dop_rule *c, uint32_t i, uint32_t rank)
{
    char text[DOP_SHAPE_TEXT];
    if (c->src[i]->shape.rank != rank)
        return DOP_RULE_BAD(c, "needs rank %u for source %u, %%%s is %s", rank, i, c->src[i]->name,
                            dop_shape_text(c->g, &c->src[i]->shape, text));
    return DOP_OK;
}

dop_status
dop_rule_need_ids(const dop_rule *c, uint32_t i, const dop_node *rows)
{
    char a[DOP_SHAPE_TEXT], b[DOP_SHAPE_TEXT];
    const dop_node *ids = c->src[i];
    if (ids->type != DOP_TYPE_u32 || ids->shape.rank != 1)
        return DOP_RULE_BAD(c, "needs u32 ids of rank 1 for source %u, %%%s is %s%s", i, ids->name,
                            dop_type_of(ids->type)->name, dop_shape_text(c->g, &ids->shape, a));
    if (rows && !dop_dim_equal(ids->shape.dim[0], rows->shape.dim[0]))
        return DOP_RULE_BAD(c, "%%%s %s and %%%s %s differ on axis 0", ids->name, dop_shape_text(c->g, &ids->shape, a),
                            rows->name, dop_shape_text(c->g, &rows->shape, b));
    return DOP_OK;
}

dop_status
dop_rule_need_sequences(const dop_rule *c, uint32_t i, const dop_node *rows)
{
    const dop_shape *s = &c->src[i]->shape;
    bool one = s->rank == 1 && s->dim[0].sym == DOP_SYM_1 && s->dim[0].mul == 1;
    return dop_rule_need_ids(c, i, one ? NULL : rows);
}

dop_status
dop_rule_mismatch(const dop_rule *c, uint32_t i, uint32_t j)
{
    char a[DOP_SHAPE_TEXT], b[DOP_SHAPE_TEXT];
    return DOP_RULE_BAD(c, "%%%s %s and %%%s %s do not fit", c->src[i]->name,
                        dop_shape_text(c->g, &c->src[i]->shape, a), c->src[j]->name,
                        dop_shape_text(c->g, &c->src[j]->shape, b));
}
