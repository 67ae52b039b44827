/* Arguments of a case's dispatch: filling, upload and read-back. */
#include "ir/graph/dims.h"
#include "plan/plan_names.h"
#include "tools/check/check_device.h"
#include "tools/check/check_random.h"
#include "tools/check/check_run.h"
#include "tools/check/check_values.h"

#include "ir/graph/cache_row.h"
#include "ir/region/region.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

dop_check_buffer *
dop_check_buffer_of(dop_check_run *run, dop_node_id id)
{
    id = dop_storage_node(run->g, id);
    for (uint32_t i = 0; i < run->n_buffers; i++)
        if (run->buffers[i].node == id)
            return &run->buffers[i];
    return NULL;
}

uint64_t
dop_check_copy(const dop_check_run *run, const dop_check_buffer *b, dop_node_id id)
{
    bool made = dop_node_is(run->g, dop_node_base(run->g, id, NULL), DOP_EFFECT);
    /* all rows of the step belong to sequence 0 */
    const bool each = run->g->keeps_each && run->c->n_tokens < b->copies;
    const uint32_t copy = (run->c->parity + (!made ? 0 : each ? run->c->n_tokens : 1)) % b->copies;
    return b->copies > 1 ? copy * (uint64_t)b->rows * b->cols : 0;
}

static bool
is_out(const dop_check_run *run, dop_node_id node)
{
    for (uint32_t i = 0; i < run->r->n_outs; i++)
        if (dop_storage_node(run->g, run->r->outs[i]) == node)
            return true;
    return false;
}

/* True if the region picks an id from this outside value. */
static bool
feeds_argmax(const dop_check_run *run, dop_node_id node)
{
    return run->r->tpl == DOP_TPL_argmax &&
           dop_node_base(run->g, dop_node_at(run->g, run->r->info->root)->src[0], NULL) == node;
}

/* Returns the number of values in all copies. */
static uint64_t
count_buffer_values(const dop_check_buffer *b)
{
    return (uint64_t)b->copies * b->rows * b->cols;
}

static void
fill_buffer(dop_check_run *run, dop_check_buffer *b)
{
    const dop_graph *g = run->g;
    uint64_t n = count_buffer_values(b), one = n / b->copies;
    dop_check_fill fill = {g, b->node, b->rows, run->c->pos,
                           feeds_argmax(run, b->node) || run->r->tpl == DOP_TPL_positions};
    if (b->copies > 1) {
        uint64_t current = dop_check_copy(run, b, b->node);
        for (uint64_t i = 0; i < n; i++)
            b->sent[i] = is_out(run, b->node) && i / one != current / one ? NAN : dop_check_normal(&run->random);
    } else if (dop_node_at(g, b->node)->op == DOP_OP_state) {
        /* Rows that must not be read yet are large, so that reads show. States that are filled once are read whole. */
        const uint64_t end = dop_state_is_filled(g, b->node) ? n : (uint64_t)(run->c->pos + run->c->n_tokens) * b->cols;
        for (uint64_t i = 0; i < n; i++)
            b->sent[i] = (i < end ? 1.0f : 100.0f) * dop_check_normal(&run->random);
    } else if (!is_out(run, b->node)) {
        dop_node_id chosen = run->choice ? dop_node_base(g, run->r->info->experts.ids, NULL) : 0;
        if (run->choice && dop_node_at(g, b->node)->op == DOP_OP_group_rows)
            dop_check_fill_blocks(run, b->node, b->sent);
        else if (b->node == chosen)
            memcpy(b->sent, run->choice, (size_t)n * sizeof *b->sent);
        else
            dop_check_fill_values(&run->random, &fill, b->sent);
    } else {
        bool split = dop_node_at(g, b->node)->op == DOP_OP_attn_split;
        for (uint64_t i = 0; i < n; i++)
            b->sent[i] = !split ? NAN
                         : i % b->cols % dop_node_at(g, b->node)->shape.dim[2].mul ==
                                 dop_node_at(g, b->node)->shape.dim[2].mul - 2
                             ? -1e30f
                             : 0.0f;
    }
}

/* Returns the number of values encoded together: a row of a cache in blocks, otherwise all values. */
static uint64_t
count_encoded_together(const dop_check_buffer *b)
{
    return dop_cache_blocks(b->type) ? b->cols : count_buffer_values(b);
}

static bool
raw_bytes(const dop_check_run *run, const dop_check_buffer *b, uint64_t *out)
{
    if (!dop_cache_blocks(b->type))
        return dop_type_row_bytes(b->type, count_buffer_values(b), out);
    *out = (uint64_t)b->rows * dop_cache_row_bytes(b->type, b->cols);
    return dop_shape_blocks(&dop_node_at(run->g, b->node)->shape, b->type);
}

static void
encode_check_buffer(const dop_check_run *run, const dop_check_buffer *b, float *values, char *raw)
{
    uint64_t n = count_buffer_values(b), one = count_encoded_together(b), bytes = 0;
    (void)raw_bytes(run, b, &bytes);
    for (uint64_t i = 0; i < n; i += one)
        dop_check_encode(b->type, values + i, one, raw + bytes / (n / one) * (i / one));
}

static void
decode_check_buffer(const dop_check_run *run, const dop_check_buffer *b, const char *raw, float *out)
{
    uint64_t n = count_buffer_values(b), one = count_encoded_together(b), bytes = 0;
    (void)raw_bytes(run, b, &bytes);
    for (uint64_t i = 0; i < n; i += one)
        dop_check_decode(b->type, raw + bytes / (n / one) * (i / one), one, out + i);
}

static dop_status
send_buffer(dop_check_run *run, dop_check_buffer *b)
{
    const dop_graph *g = run->g;
    uint64_t n = count_buffer_values(b), bytes = 0;
    bool poison = dop_node_at(g, b->node)->op == DOP_OP_attn_split && !is_out(run, b->node);
    (void)raw_bytes(run, b, &bytes);
    float *values = malloc((size_t)n * sizeof *values);
    void *raw = malloc((size_t)bytes);
    dop_status st = DOP_OK;
    if (!values || !raw) {
        st = DOP_NO_MEMORY(run->diag);
        goto error;
    }
    encode_check_buffer(run, b, b->sent, raw);
    if (poison) {
        memcpy(values, b->sent, (size_t)n * sizeof *values);
        dop_check_poison_splits(&(dop_check_fill){g, b->node, b->rows, run->c->pos, false}, values);
        encode_check_buffer(run, b, values, raw);
    }
    st = dop_check_write(run->c->device, b->arg->slot, b->arg->offset, raw, bytes, run->diag);
error:
    free(values);
    free(raw);
    return st;
}

static dop_status
receive_buffer(dop_check_run *run, dop_check_buffer *b)
{
    uint64_t n = count_buffer_values(b), bytes = 0;
    (void)raw_bytes(run, b, &bytes);
    void *raw = malloc((size_t)bytes);
    b->got = malloc((size_t)n * sizeof *b->got);
    dop_status st = DOP_OK;
    if (!(raw && b->got))
        DOP_TRY(DOP_NO_MEMORY(run->diag));
    DOP_TRY(dop_check_read(run->c->device, b->arg->slot, b->arg->offset, raw, bytes, run->diag));
    decode_check_buffer(run, b, raw, b->got);
error:
    free(raw);
    return st;
}

dop_status
dop_check_send(dop_check_run *run)
{
    const dop_graph *g = run->g;
    const dop_plan_dispatch *d = run->c->dispatch;
    for (uint32_t i = 0; i < d->n_args; i++) {
        const dop_plan_arg *a = &run->plan->args[d->first_arg + i];
        const char *name = dop_plan_string(run->plan, a->value);
        dop_node_id id = 1;
        if (a->slot == run->plan->step_slot || a->slot == DOP_ARG_NUMBERS ||
            run->plan->slots[a->slot].kind == DOP_SLOT_COUNTS) /* counters are zero between dispatches */
            continue;
        while (id < g->n_nodes && strcmp(dop_node_at(g, id)->name, name) != 0)
            id++;
        if (id == g->n_nodes)
            return DOP_FAIL_IN(run->diag, DOP_E_INPUT, run->plan->path,
                               "the plan is damaged: dispatch %s has an argument %%%s that its graph does not have",
                               dop_plan_string(run->plan, d->label), name);
        const dop_node *n = dop_node_at(g, id);
        /* Keys and values may share a cache row, which the kernel then reads through two views. */
        if (n->op == DOP_OP_weight || dop_check_buffer_of(run, id))
            continue;
        dop_check_buffer *b = &run->buffers[run->n_buffers++];
        uint64_t rows = dop_node_rows(g, id, g->max_t), bytes = 0;
        if (n->shape.rank == 1 && n->shape.dim[0].sym == DOP_SYM_1)
            rows = 1;
        uint64_t end = (uint64_t)run->c->pos + run->c->n_tokens + 16;
        bool appends = dop_shape_appends(&n->shape);
        if (appends && rows > end && !dop_state_is_filled(g, id))
            rows = end;
        uint32_t copies = n->op == DOP_OP_state && !appends ? run->plan->model->state_copies : 1;
        *b = (dop_check_buffer){id, a, copies, (uint32_t)rows, dop_node_cols(g, id), run->types[id], NULL, NULL};
        bool known =
            b->type == DOP_TYPE_f32 || b->type == DOP_TYPE_f16 || b->type == DOP_TYPE_u32 || dop_cache_blocks(b->type);
        if (!known || !raw_bytes(run, b, &bytes) || bytes > a->size)
            return DOP_FAIL_IN(run->diag, DOP_E_INPUT, run->plan->path,
                               "the plan is damaged: argument %%%s has no room", name);
        b->sent = malloc((size_t)count_buffer_values(b) * sizeof *b->sent);
        if (!b->sent)
            return DOP_NO_MEMORY(run->diag);
        fill_buffer(run, b);
        dop_status st = send_buffer(run, b);
        if (st != DOP_OK)
            return st;
    }
    return DOP_OK;
}

dop_status
dop_check_receive(dop_check_run *run)
{
    for (uint32_t i = 0; i < run->n_buffers; i++)
        if (is_out(run, run->buffers[i].node))
            DOP_RETURN_IF_ERROR(receive_buffer(run, &run->buffers[i]));
    return DOP_OK;
}
