/* One case of --check: sets up a step, runs the dispatch and compares its outputs. */
#include "tools/check/check_region.h"

#include "ir/graph/dims.h"
#include "ir/region/region.h"
#include "tools/check/check_device.h"
#include "tools/check/check_random.h"
#include "tools/check/check_run.h"

#include <stdlib.h>
#include <string.h>

bool
dop_check_uses_position(const dop_graph *g, const dop_region *r)
{
    for (uint32_t i = 0; i < r->info->n_reads; i++) {
        dop_node_id id = r->info->reads[i];
        if (dop_node_at(g, id)->op == DOP_OP_attn_split || /* the position determines the number of splits */
            dop_node_at(g, id)->input == DOP_INPUT_positions)
            return true;
    }
    return false;
}

bool
dop_check_keeps_nothing(const dop_graph *g)
{
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        if (dop_node_at(g, id)->op == DOP_OP_state)
            return false;
    return true;
}

bool
dop_check_begins(const dop_graph *g)
{
    bool own = false;
    for (dop_node_id id = 1; id < g->n_nodes && !own; id++)
        own = dop_op_of(dop_node_at(g, id)->op)->root == DOP_ROOT_attention && !dop_attention_cached(g, id);
    return own || dop_check_keeps_nothing(g);
}

bool
dop_check_uses_parity(const dop_graph *g, const dop_region *r)
{
    bool uses = false;
    for (uint32_t i = 0; i < r->info->n_reads; i++) {
        const dop_node *n = dop_node_at(g, dop_storage_node(g, r->info->reads[i]));
        uses = uses || (n->op == DOP_OP_state && !dop_shape_appends(&n->shape));
    }
    for (uint32_t i = 0; i < r->n_nodes; i++)
        uses = uses || (dop_check_picks(g, r->nodes[i]) && dop_graph_replaces(g));
    return uses;
}

/* True if an output row of the region depends on other rows of the step. */
static bool
reads_rows(const dop_graph *g, const dop_region *r)
{
    for (uint32_t i = 0; i < r->n_nodes; i++)
        for (uint32_t k = 0; k < dop_node_at(g, r->nodes[i])->n_srcs; k++) {
            uint8_t row = dop_node_access(g, r->nodes[i], k)->axis[DOP_AXIS_row];
            bool state = dop_node_is(g, r->nodes[i], DOP_EFFECT) && dop_node_at(g, r->nodes[i])->n_srcs == 3;
            if (row == DOP_ACCESS_few || row == DOP_ACCESS_all || row == DOP_ACCESS_span || row == DOP_ACCESS_window ||
                state)
                return true;
        }
    return false;
}

static void
choose_samples(dop_check_run *run)
{
    const dop_graph *g = run->g;
    uint32_t t = run->c->n_tokens, n = t < DOP_CHECK_SAMPLES ? t : DOP_CHECK_SAMPLES;
    const dop_analysis *a = run->r->info;
    if (a->attn.root) {
        double each = 3.0 * dop_node_cols(g, dop_node_at(g, a->attn.root)->src[0]) * (run->c->pos + t);
        while (n > 2 && each * n > DOP_CHECK_PRODUCTS)
            n--;
    }
    if (a->attn.n_writes || reads_rows(g, run->r)) /* other tokens read every token of the step */
        n = t;
    run->n_samples = n;
    for (uint32_t i = 0; i < n; i++)
        run->sample[i] = n == 1 ? t - 1 : (uint32_t)((uint64_t)i * (t - 1) / (n - 1));
    for (uint32_t i = 0; i < n; i++) {
        run->step_positions[i] = run->before.rows[run->sample[i]].position;
        run->step_sequences[i] = run->before.rows[run->sample[i]].sequence;
        run->step_ids[i] = run->before.rows[run->sample[i]].token;
        run->step_types[i] = run->before.rows[run->sample[i]].flags;
    }
}

/* Sets up the step record. The number of picks places the next pick at the end of the ring. */
static void
prepare_step(dop_check_run *run)
{
    dop_step *s = &run->before;
    s->n_rows = run->c->n_tokens;
    s->n_out = 3 * DOP_STEP_RING - 1;
    for (uint32_t i = 0; i < DOP_STEP_MAX_ROWS; i++)
        s->rows[i] = (dop_row){dop_check_u32(&run->random) % run->plan->model->vocab, run->c->pos + i, 0, 0};
    if (dop_check_keeps_nothing(run->g)) {
        /* Uses two texts, or more if half the rows exceed the context. step_record.h describes the row fields. */
        const uint32_t n = s->n_rows, ctx = run->plan->model->ctx, half = n < 2 ? 1 : n / 2,
                       len = half < ctx ? half : ctx;
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t first = i / len * len, last = first + len < n ? first + len - 1 : n - 1;
            s->rows[i].position = i - first;
            s->rows[i].sequence = last - first;
            s->rows[i].flags = i % 2;
        }
    }
    for (uint32_t i = 0; i < run->g->max_q && i < DOP_STEP_MAX_SEQUENCES; i++)
        s->parity[i] = run->c->parity;
    for (uint32_t i = 0; i < DOP_STEP_RING; i++)
        s->ids[i] = 0xfffffff0u;
}

/* Makes values inside the region f32 for the reference. Values of cache writes and heads read by a per-head product
 * keep their storage types, because they are stored and read back. */
static void
widen_types(dop_check_run *run)
{
    for (dop_node_id id = 1; id < run->g->n_nodes; id++) {
        const dop_node_id base = dop_node_base(run->g, id, NULL);
        if (dop_node_at(run->g, id)->type == DOP_TYPE_f16 && dop_region_has(run->r, base) &&
            base != run->r->info->tail.of && !dop_node_is(run->g, base, DOP_EFFECT))
            dop_node_at(run->g, id)->type = DOP_TYPE_f32;
    }
}

dop_status
dop_check_run_case(const dop_check_case *c, dop_diag *diag, dop_check_result *result)
{
    dop_status st = DOP_OK;
    dop_check_run *run = calloc(1, sizeof *run);
    dop_type *types = calloc(c->g->n_nodes, sizeof *types);
    if (!run || !types) {
        st = DOP_NO_MEMORY(diag);
        goto error;
    }
    run->c = c;
    run->plan = c->plan;
    run->g = c->g;
    run->r = &c->g->regions[c->dispatch->region];
    run->diag = diag;
    run->result = result;
    run->random.state = c->seed;
    run->rounds = c->plan->kernels[c->dispatch->kernel].rounding == DOP_ROUNDING_i8;
    run->types = types;
    for (dop_node_id id = 1; id < c->g->n_nodes; id++)
        types[id] = dop_node_at(c->g, id)->type;
    widen_types(run);
    prepare_step(run);
    choose_samples(run);
    if ((st = dop_check_choose(run)) != DOP_OK || (st = dop_check_send(run)) != DOP_OK)
        goto error;
    volatile dop_step *step = dop_replay_step(&c->device->model->replay);
    memcpy((void *)(uintptr_t)step, &run->before, sizeof run->before);
    if ((st = dop_check_dispatch(c->device, c->dispatch, diag)) != DOP_OK)
        goto error;
    memcpy(&run->after, (const void *)(uintptr_t)step, sizeof run->after);
    if ((st = dop_check_receive(run)) == DOP_OK)
        st = dop_check_compare(run);
error:
    for (dop_node_id id = 1; types && run && run->g && id < c->g->n_nodes; id++)
        dop_node_at(c->g, id)->type = types[id];
    for (uint32_t i = 0; run && i < run->n_buffers; i++) {
        free(run->buffers[i].sent);
        free(run->buffers[i].got);
    }
    if (run) {
        dop_interp_destroy(run->it);
        for (uint32_t i = 0; i < run->n_leaves; i++)
            free(run->leaves[i]);
        free(run->choice);
    }
    free(run);
    free(types);
    return st;
}
