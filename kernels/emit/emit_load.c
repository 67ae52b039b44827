/* Loads of the emitter: matrices, values of other dispatches and stages, and columns of the row table. */
#include "ir/graph/dims.h"
#include "kernels/emit/emit.h"

#include "ir/region/region.h"
#include "kernels/emit/weight_types.h"

#include <ctype.h>
#include <string.h>

bool
dop_emit_has_rows(const dop_graph *g, dop_node_id id)
{
    const dop_node *n = dop_node_at(g, id);
    if (n->shape.rank == 1) /* a vector, or one number per row */
        return n->op == DOP_OP_received && n->shape.dim[0].sym == DOP_SYM_T;
    return n->shape.rank > 1 && !(n->shape.dim[0].sym == DOP_SYM_1 && n->shape.dim[0].mul == 1);
}

static bool
is_constant(const char *s)
{
    for (; *s; s++)
        if (!isdigit((unsigned char)*s) && *s != 'u')
            return false;
    return true;
}

const char *
dop_emit_flat(dop_emit *e, dop_node_id node, dop_index ix, uint32_t row_values, uint32_t start)
{
    const char *c = start ? dop_emit_str(e, "(%s + %uu)", ix.c, start) : ix.c;
    if (!dop_emit_has_rows(e->g, node) || strcmp(ix.t, "0u") == 0)
        return c;
    const char *row = node == e->long_row ? e->row_values : dop_emit_str(e, "%uu", row_values);
    if (is_constant(c) && c[0] == '0')
        return dop_emit_str(e, "(%s * %s)", ix.t, row);
    return dop_emit_str(e, "(%s * %s + %s)", ix.t, row, c);
}

/* Emits an integer variable, such as an index. */
static const char *
temp_u32(dop_emit *e, const char *expr)
{
    const char *name = dop_emit_str(e, "v%u", e->n_temps++);
    dop_emit_line(e, "uint %s = %s;", name, expr);
    return name;
}

const char *
dop_emit_temp(dop_emit *e, uint32_t width, const char *expr)
{
    const char *name = dop_emit_str(e, "v%u", e->n_temps++);
    if (width == 4)
        dop_emit_line(e, "vec4 %s = vec4(%s);", name, expr);
    else
        dop_emit_line(e, "float %s = %s;", name, expr);
    return name;
}

uint32_t
dop_weight_aux(const dop_graph *g, dop_node_id node)
{
    const dop_node *n = dop_node_at(g, node);
    const dop_weight_type *wt = dop_weight_type_of(n->type);
    const dop_dim *dims = n->shape.dim + n->shape.rank - 2; /* of one expert's matrix, if there are several */
    if (!wt || wt->aux_bytes == 0)
        return 0;
    return (uint32_t)(dop_packed_plane_bytes(n->type, (uint32_t)dop_dim_value(g, dims[0], 1), dims[1].mul) / 16);
}

const char *
dop_emit_matrix(dop_emit *e, dop_node_id node, const char *expert)
{
    const char *a = dop_emit_matrix_arg(e, node);
    const dop_shape *s = &dop_node_at(e->g, node)->shape;
    if (s->rank < 3)
        return a;
    e->addresses = true;
    return dop_emit_str(
        e, "dop_at(%s, %s * %uu)", a, expert,
        (uint32_t)(dop_packed_expert_stride(dop_node_at(e->g, node)->type, s->dim[1].mul, s->dim[2].mul) / 16));
}

const char *
dop_emit_either(dop_emit *e, const char *first, const char *a, const char *b)
{
    if (e->caps & DOP_CAP_texels)
        return dop_emit_str(e, "(%s ? %s : %s)", first, a, b);
    e->addresses = true;
    return dop_emit_str(e, "DOP_EITHER(%s, %s, %s)", first, a, b);
}

const char *
dop_emit_weight(dop_emit *e, dop_node_id node)
{
    const dop_node *n = dop_node_at(e->g, node);
    const dop_weight_type *wt = dop_weight_type_of(n->type);
    if (!wt)
        return dop_emit_fail(e, DOP_E_INPUT, "no kernel reads this storage type", node);
    e->types_used |= (uint64_t)1 << n->type;
    return dop_emit_str(e, "%uu", dop_weight_aux(e->g, node));
}

/* one expert's, if there are several */
static const char *
load_temp(dop_emit *e, dop_node_id node, uint32_t width, const char *expr)
{
    dop_buf *out = e->out;
    const char *indent = e->indent;
    if (e->early) {
        e->out = dop_node_at(e->g, node)->op == DOP_OP_weight ? e->constants : e->early;
        e->indent = "    ";
    }
    const char *name =
        dop_node_at(e->g, node)->type == DOP_TYPE_u32 ? temp_u32(e, expr) : dop_emit_temp(e, width, expr);
    e->out = out;
    e->indent = indent;
    return name;
}

static bool
is_in_mailbox(const dop_emit *e, dop_node_id node)
{
    return e->routes && (e->routes[node] & DOP_MAILBOX);
}

/* Emits code that receives a value of another stage from its mailbox. The first poll is issued with the loads (`early`), and
 * the wait is emitted at the use, so that polls of several mailboxes are in flight at once. */
static const char *
receive_value(dop_emit *e, dop_node_id node, const char *at, uint32_t w, uint32_t width)
{
    dop_buf *out = e->early ? e->early : e->out;
    const char *a = dop_emit_add_arg(e, node, DOP_ARG_VALUE, false, true), *look = dop_emit_str(e, "h%u", e->n_temps++);
    dop_buf_puts(out, e->early ? "    " : e->indent);
    dop_buf_printf(out, "%s %s = dop_look%u(%s, %s);\n", w == 4 ? "uvec4" : "uint", look, w, a, at);
    const char *x = dop_emit_str(e, "dop_receive%u(%s, %s, %s)", w, look, a, at);
    if (dop_node_at(e->g, node)->type == DOP_TYPE_u32) /* mailboxes hold floats */
        return temp_u32(e, dop_emit_str(e, "uint(%s)", x));
    return dop_emit_temp(e, width, x);
}

bool
dop_emit_in_mailbox(const dop_emit *e, dop_node_id node)
{
    return is_in_mailbox(e, node) && !dop_region_has(e->r, node);
}

const char *
dop_emit_receive(dop_emit *e, dop_node_id node, const char *c)
{
    return receive_value(e, node, c, 4, 4);
}

/* Loads a column of the row table (token, position, sequence ...) for a row, once and before dependent loads. */
static const char *
load_input(dop_emit *e, dop_node_id node, const char *row)
{
    const dop_input_kind what = dop_node_at(e->g, node)->input;
    const char *name = dop_emit_str(e, "r%u", e->n_temps++);
    if (what == DOP_INPUT_lasts)
        return dop_emit_fail(e, DOP_E_INPUT, "the row table has no column \"lasts\"", node);
    if (what == DOP_INPUT_positions)
        dop_emit_index(e, "uint %s = %s;", name, dop_emit_position(e, row));
    else
        dop_emit_index(e, "uint %s = %s.%s;", name, dop_emit_row(e, row),
                       what == DOP_INPUT_tokens  ? "token"
                       : what == DOP_INPUT_types ? "flags" /* flags of the row: step_record.h */
                                                 : "sequence");
    return name;
}

const char *
dop_emit_replace_copy(dop_emit *e, dop_node_id state, const char *sequence, const char *steps)
{
    const char *name = dop_emit_str(e, "r%u", e->n_temps++),
               *at = dop_emit_str(e, "%s.parity[%s]", dop_emit_step(e), sequence);
    const uint64_t values = dop_node_rows(e->g, state, 1) * dop_node_cols(e->g, state);
    if (steps)
        at = e->g->copies == 2 ? dop_emit_str(e, "(1u - %s)", at)
                               : dop_emit_str(e, "((%s + %s) %% %uu)", at, steps, e->g->copies);
    dop_emit_index(e, "uint %s = %s * %lluu;", name, at, (unsigned long long)values);
    return name;
}

bool
dop_is_replace_state(const dop_graph *g, dop_node_id id)
{
    const dop_node *n = dop_node_at(g, id);
    return (n->op == DOP_OP_state || n->op == DOP_OP_state_write) && !dop_shape_appends(&n->shape);
}

const char *
dop_emit_load(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width, uint32_t start)
{
    const dop_graph *g = e->g;
    const dop_node *n = dop_node_at(g, node);
    uint32_t cols = dop_node_cols(g, node);
    if (n->op == DOP_OP_input)
        return load_input(e, node, ix.t);
    const dop_weight_type *wt = dop_weight_type_of(n->type);
    if (n->type != DOP_TYPE_u32 && !wt)
        return dop_emit_fail(e, DOP_E_INPUT, "no kernel reads this storage type", node);
    if (dop_is_replace_state(g, node) && g->max_q == 1)
        ix.t = "0u";
    const char *at = dop_emit_flat(e, node, ix, dop_row_values(g, node), start);
    if (n->op == DOP_OP_received && n->type == DOP_TYPE_u32) { /* loaded like a column of the row table */
        const char *name = dop_emit_str(e, "r%u", e->n_temps++);
        dop_emit_index(e, "uint %s = dop_ld1_u32(%s, %s);", name, dop_emit_source_arg(e, node), at);
        return name;
    }
    if (dop_is_replace_state(g, node))
        at = dop_emit_str(e, "(%s + %s)",
                          dop_emit_replace_copy(e, node, ix.t, n->op == DOP_OP_state_write ? "1u" : NULL), at);
    uint32_t w = width == 4 && cols > 1 ? 4 : 1; /* a statistic is one value for all four columns */
    if (n->op == DOP_OP_weight && n->shape.rank > 1)
        return load_temp(e, node, width,
                         dop_emit_str(e, "dop_w%u_%s(%s, %s, %s)", w, dop_type_of(n->type)->name,
                                      dop_emit_matrix_arg(e, node), at, dop_emit_weight(e, node)));
    if (is_in_mailbox(e, node))
        return receive_value(e, node, at, w, width);
    return load_temp(
        e, node, width,
        dop_emit_str(e, "dop_ld%u_%s(%s, %s)", w, dop_type_of(n->type)->name, dop_emit_source_arg(e, node), at));
}

const char *
dop_emit_awaited(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width, uint32_t start)
{
    const char *at = dop_emit_flat(e, node, ix, dop_row_values(e->g, node), start), *x;
    dop_buf *constants = e->constants, *early = e->early;
    if (is_in_mailbox(e, node)) /* with several row sets, all but the first find the value already there */
        return receive_value(e, node, at, width, width);
    e->constants = e->early = NULL; /* loads must not be hoisted before the wait */
    x = dop_emit_temp(e, width, dop_emit_str(e, "dop_taken%u(%s, %s)", width, dop_emit_arg(e, node, false), at));
    e->constants = constants;
    e->early = early;
    return x;
}

void
dop_emit_await(dop_emit *e, dop_node_id node)
{
    if (!is_in_mailbox(e, node))
        dop_emit_line(e, "dop_await();");
}
