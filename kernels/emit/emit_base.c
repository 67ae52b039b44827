/* Basis of all code generation: texts, statements, arguments, and numbers that differ between dispatches. */
#include "ir/region/graph_regions.h"
#include "kernels/emit/emit.h"

#include "base/step_record.h"
#include "ir/graph/cache_row.h"

#include "kernels/emit/weight_types.h"

#include <stdio.h>
#include <string.h>

void
dop_emit_init(dop_emit *e, const dop_graph *g, const dop_region *r, const dop_target *target, dop_diag *diag)
{
    memset(e, 0, sizeof *e);
    e->g = g;
    e->r = r;
    e->multiple = r ? dop_region_row_multiple(g, r) : 1;
    e->target = target;
    e->diag = diag;
    e->indent = "    ";
}

void
dop_emit_scope(dop_emit *e, dop_buf *out, const char *indent)
{
    e->out = out;
    e->indent = indent;
    e->n_memo = 0;
}

const char *
dop_emit_fail(dop_emit *e, dop_status st, const char *what, dop_node_id node)
{
    if (e->status == DOP_OK)
        e->status = DOP_FAIL(e->diag, st, "cannot generate code for %%%s (%s): %s", dop_node_at(e->g, node)->name,
                             dop_op_of(dop_node_at(e->g, node)->op)->name, what);
    return "0.0";
}

bool
dop_emit_grow(dop_emit *e, void **items, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap)
        return true;
    uint32_t more = *cap ? *cap * 2 : 32;
    void *p = dop_arena_alloc(e->g->arena, more * size);
    if (!p) {
        dop_emit_fail(e, DOP_E_NOMEM, "out of memory", e->r->nodes[0]);
        return false;
    }
    if (n)
        memcpy(p, *items, n * size);
    *items = p;
    *cap = more;
    return true;
}

void
dop_emit_bind(dop_emit *e, dop_node_id node, const char *name, bool indexed, const char *base)
{
    if (!dop_emit_grow(e, (void **)&e->binds, e->n_binds, &e->cap_binds, sizeof *e->binds))
        return;
    e->binds[e->n_binds++] = (dop_bind){.node = node, .name = name, .indexed = indexed, .base = base};
}

void
dop_emit_bind_norm(dop_emit *e, dop_node_id node, const char *scale, const char *shift)
{
    if (dop_emit_grow(e, (void **)&e->binds, e->n_binds, &e->cap_binds, sizeof *e->binds))
        e->binds[e->n_binds++] = (dop_bind){.node = node, .scale = scale, .shift = shift};
}

const char *
dop_emit_str(dop_emit *e, const char *fmt, ...)
{
    dop_buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    dop_buf_vprintf(&text, fmt, ap);
    va_end(ap);
    const char *s = text.failed ? NULL : dop_arena_strdup(e->g->arena, text.data ? text.data : "");
    dop_buf_finish(&text);
    if (!s && e->status == DOP_OK)
        e->status = DOP_NO_MEMORY(e->diag);
    return s ? s : "0";
}

void
dop_emit_line(dop_emit *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    dop_buf_puts(e->out, e->indent);
    dop_buf_vprintf(e->out, fmt, ap);
    dop_buf_puts(e->out, "\n");
    va_end(ap);
}

void
dop_emit_index(dop_emit *e, const char *fmt, ...)
{
    va_list ap;
    dop_buf *out = e->constants ? e->constants : e->out;
    va_start(ap, fmt);
    dop_buf_puts(out, e->constants ? "    " : e->indent);
    dop_buf_vprintf(out, fmt, ap);
    dop_buf_puts(out, "\n");
    va_end(ap);
}

uint32_t
dop_row_values(const dop_graph *g, dop_node_id id)
{
    const dop_node *n = dop_node_at(g, id);
    const bool matrix = n->op == DOP_OP_weight && n->shape.rank > 1;
    return matrix ? dop_packed_row_values(n->type, n->shape.dim[n->shape.rank - 1].mul) : dop_node_cols(g, id);
}

static bool
append_kernel_arg(dop_emit *e, dop_kernel_arg arg)
{
    const bool grown = dop_emit_grow(e, (void **)&e->args, e->n_args, &e->cap_args, sizeof arg);
    if (grown)
        e->args[e->n_args++] = arg;
    return grown;
}

static const char *
find_or_add_arg(dop_emit *e, dop_node_id storage, dop_arg_kind kind, bool written, bool mailbox, uint32_t view)
{
    uint32_t i = 0;
    while (i < e->n_args && (e->args[i].value != storage || e->args[i].kind != kind || e->args[i].numbers > 0 ||
                             e->args[i].mailbox != mailbox || e->args[i].view != view))
        i++;
    if (i == e->n_args &&
        !append_kernel_arg(e, (dop_kernel_arg){.value = storage, .kind = kind, .mailbox = mailbox, .view = view}))
        return "a0";
    e->args[i].written = e->args[i].written || written;
    e->args[i].read = e->args[i].read || !written;
    return dop_emit_str(e, "a%u", i);
}

const char *
dop_emit_add_arg(dop_emit *e, dop_node_id storage, dop_arg_kind kind, bool written, bool mailbox)
{
    return find_or_add_arg(e, storage, kind, written, mailbox, 0);
}

const char *
dop_emit_matrix_arg(dop_emit *e, dop_node_id weight)
{
    return find_or_add_arg(e, weight, DOP_ARG_VALUE, false, false, e->caps & DOP_CAP_texels ? DOP_VIEW_MATRICES : 0);
}

const char *
dop_emit_source_arg(dop_emit *e, dop_node_id node)
{
    const dop_node *n = dop_node_at(e->g, node);
    const bool vector = n->op == DOP_OP_weight, state = n->op == DOP_OP_state || n->op == DOP_OP_state_write;
    const dop_node_id storage = dop_storage_node(e->g, node);
    const bool floats = n->type == DOP_TYPE_f32 || n->type == DOP_TYPE_f16 || n->type == DOP_TYPE_bf16;
    if (!e->viewing || !(e->caps & DOP_CAP_texels) || !floats || state || dop_region_has(e->r, node))
        return dop_emit_arg(e, node, false);
    dop_node_id *one = vector ? &e->vector : &e->value;
    if (!*one)
        *one = storage;
    const uint32_t view = *one != storage ? 0 : vector ? DOP_VIEW_VECTOR : DOP_VIEW_VALUE;
    return find_or_add_arg(e, storage, DOP_ARG_VALUE, false, false, view);
}

const char *
dop_emit_cache_arg(dop_emit *e, dop_node_id node, uint32_t view)
{
    const dop_node_id storage = dop_storage_node(e->g, node);
    bool viewed = (e->caps & DOP_CAP_texels) && !dop_cache_blocks(dop_node_at(e->g, node)->type);
    for (uint32_t i = 0; i < e->r->n_nodes && viewed; i++)
        viewed = dop_node_at(e->g, e->r->nodes[i])->op != DOP_OP_state_write ||
                 dop_storage_node(e->g, e->r->nodes[i]) != storage;
    return find_or_add_arg(e, storage, DOP_ARG_VALUE, false, false, viewed ? view : 0);
}

const char *
dop_emit_arg(dop_emit *e, dop_node_id node, bool written)
{
    return dop_emit_add_arg(e, dop_storage_node(e->g, node), DOP_ARG_VALUE, written, false);
}

const char *
dop_emit_step(dop_emit *e)
{
    return dop_emit_add_arg(e, 0, DOP_ARG_VALUE, false, false);
}

const char *
dop_emit_row(dop_emit *e, const char *row)
{
    return dop_emit_str(e, "%s.rows[%s]", e->routes && e->g->max_t > 1 ? "dop_stage" : dop_emit_step(e), row);
}

const char *
dop_emit_position(dop_emit *e, const char *row)
{
    return e->routes && e->g->max_t == 1 ? "dop_stage.position" : dop_emit_str(e, "%s.position", dop_emit_row(e, row));
}

const char *
dop_emit_counts(dop_emit *e)
{
    return dop_emit_add_arg(e, 0, DOP_ARG_COUNTS, true, false);
}

const char *
dop_emit_sums(dop_emit *e, uint64_t bytes)
{
    const char *name = dop_emit_add_arg(e, 0, DOP_ARG_SUMS, true, false);
    for (uint32_t i = 0; i < e->n_args; i++)
        if (e->args[i].kind == DOP_ARG_SUMS && bytes > e->args[i].bytes)
            e->args[i].bytes = bytes;
    return name;
}

const char *
dop_emit_number(dop_emit *e, uint32_t value)
{
    uint32_t i = 0;
    while (i < e->n_args && e->args[i].numbers != 1)
        i++;
    if (i == e->n_args && !append_kernel_arg(e, (dop_kernel_arg){.value = 0}))
        return "a0.x";
    dop_kernel_arg *a = &e->args[i];
    a->number[a->numbers++] = value;
    return dop_emit_str(e, "a%u.%c", i, a->numbers == 1 ? 'x' : 'y');
}

const char *
dop_emit_seen_position(dop_emit *e, dop_node_id attention, const char *row)
{
    const dop_reach r = dop_attention_reach(e->g, attention);
    return r.mask == DOP_MASK_cache ? dop_emit_str(e, "%uu", r.ring - 1) : dop_emit_position(e, row);
}

/* Local and global layers share one kernel, because comparing with a push constant is as fast as with a literal. */
const char *
dop_emit_first(dop_emit *e, dop_node_id attention, const char *position)
{
    const dop_reach r = dop_attention_reach(e->g, attention);
    const bool chunks = e->g->has_chunks, differ = e->g->reaches_differ;
    if (chunks && r.window)
        return dop_emit_fail(e, DOP_E_INPUT, "a graph has either windows or chunks", attention);
    if (!differ && !r.window && !r.chunk)
        return "0u";
    if (!e->limit)
        e->limit = differ ? dop_emit_number(e, chunks ? r.chunk : r.window)
                          : dop_emit_str(e, "%uu", chunks ? r.chunk : r.window);
    const char *p = position, *l = e->limit;
    const char *any = differ ? dop_emit_str(e, "%s > 0u%s", l, chunks ? " ? " : " && ") : "";
    if (chunks)
        return dop_emit_str(e, "(%s%s / %s * %s%s)", any, p, l, l, differ ? " : 0u" : "");
    return dop_emit_str(e, "(%s%s + 1u > %s ? %s + 1u - %s : 0u)", any, p, l, p, l);
}

const char *
dop_emit_ring(dop_emit *e, dop_node_id attention)
{
    const dop_reach r = dop_attention_reach(e->g, attention);
    if (!e->g->has_rings)
        return NULL;
    if (!e->ring)
        e->ring =
            e->g->reaches_differ ? dop_emit_number(e, r.ring ? r.ring : e->g->max_s) : dop_emit_str(e, "%uu", r.ring);
    return e->ring;
}

const char *
dop_emit_page_table(dop_emit *e, const char *sequence)
{
    return dop_emit_str(e, "%uu + %s * %uu", DOP_STEP_WORDS, sequence, e->g->max_s / dop_graph_page(e->g));
}

const char *
dop_emit_page_row(dop_emit *e, const char *words, const char *table, const char *position)
{
    const uint32_t page = dop_graph_page(e->g);
    return dop_emit_str(e, "(%s(%s).v[%s + %s / %uu] * %uu + %s %% %uu)", words, dop_emit_step(e), table, position,
                        page, page, position, page);
}

const char *
dop_emit_n_tokens(dop_emit *e)
{
    if (e->g->max_t == 1)
        return "1u";
    return e->routes ? dop_emit_str(e, "%uu", e->g->max_t) : dop_emit_rows(e, e->multiple);
}

const char *
dop_emit_rows(dop_emit *e, uint32_t multiple)
{
    if (e->g->max_t == e->multiple)
        return dop_emit_str(e, "%uu", multiple);
    const char *n = dop_emit_str(e, "%s.n_rows", dop_emit_step(e));
    return multiple == 1 ? n : dop_emit_str(e, "(%s * %uu)", n, multiple);
}

const char *
dop_emit_neighbours(dop_emit *e, const char *t, uint32_t most, bool behind)
{
    const char *n = dop_emit_str(e, "r%u", e->n_temps++), *rows = dop_emit_rows(e, e->multiple);
    const char *other = dop_emit_str(e, behind ? "%s + %s + 1u" : "%s - %s - 1u", t, n);
    const char *exists = behind ? dop_emit_str(e, "%s < %s", other, rows) : dop_emit_str(e, "%s < %s", n, t);
    if (e->g->max_q == 1) {
        const char *all = behind ? dop_emit_str(e, "%s - min(%s + 1u, %s)", rows, t, rows) : t;
        dop_emit_index(e, "uint %s = min(%s, %uu);", n, all, most);
        return n;
    }
    dop_emit_index(e, "uint %s = 0u;", n);
    dop_emit_index(e, "while (%s < %uu && %s && %s.sequence == %s.sequence)", n, most, exists, dop_emit_row(e, other),
                   dop_emit_row(e, t));
    dop_emit_index(e, "    %s++;", n);
    return n;
}

const char *
dop_emit_own_row(dop_emit *e, const char *t)
{
    if (!e->routes || e->g->max_t == 1)
        return t;
    const char *row = dop_emit_str(e, "r%u", e->n_temps++);
    dop_emit_index(e, "uint %s = min(%s, %s - 1u);", row, t, dop_emit_rows(e, e->multiple));
    return row;
}

const char *
dop_emit_mailbox_arg(dop_emit *e, dop_node_id node, bool written)
{
    return dop_emit_add_arg(e, node, DOP_ARG_VALUE, written, true);
}
