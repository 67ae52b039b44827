/* Products with one matrix per expert, and the ids of the chosen experts. */
#include "tools/check/check_run.h"
#include "tools/check/check_values.h"
#include "tools/check/check_weights.h"

#include "ir/region/region.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Value of an unused id in a block of rows, as the interpreter stores it. */
static const float none = 4294967296.0f;

dop_status
dop_check_choose(dop_check_run *run)
{
    const dop_graph *g = run->g;
    dop_node_id ids = dop_node_base(g, run->r->info->experts.ids, NULL);
    if (!ids || dop_region_has(run->r, ids))
        return DOP_OK;
    run->choice = calloc((size_t)dop_node_rows(g, ids, g->max_t) * dop_node_cols(g, ids), sizeof *run->choice);
    if (!run->choice)
        return DOP_NO_MEMORY(run->diag);
    dop_check_fill_choice(&run->random, g, ids, (uint32_t)dop_node_rows(g, ids, g->max_t), run->choice);
    return DOP_OK;
}

/* Fills blocks of rows, grouped by expert, from all rows of the step, as the interpreter does. A product's reference
 * makes its own blocks from the samples. */
void
dop_check_fill_blocks(const dop_check_run *run, dop_node_id id, float *out)
{
    const dop_graph *g = run->g;
    const uint32_t span = dop_node_cols(g, id) - 1, experts = (uint32_t)dop_node_i(g, id, DOP_A_experts);
    const uint64_t pairs = (uint64_t)run->c->n_tokens * dop_node_cols(g, dop_node_at(g, id)->src[0]);
    uint64_t blocks = 0;
    for (uint64_t i = 0; i < dop_node_rows(g, id, 1) * (span + 1); i++)
        out[i] = none;
    for (uint32_t e = 0; e < experts; e++) {
        uint64_t used = 0;
        for (uint64_t i = 0; i < pairs; i++) {
            if (run->choice[i] != (float)e)
                continue;
            float *block = out + (blocks + used / span) * (span + 1);
            block[0] = (float)e;
            block[1 + used++ % span] = (float)i;
        }
        blocks += (used + span - 1) / span;
    }
}

/* Multiplies by one expert's matrix: gathers its rows, multiplies them, and scatters the results. */
static dop_status
multiply_expert_rows(dop_check_run *run, const dop_plan_tensor *w, uint32_t expert, const uint32_t *pairs, uint32_t n,
                     const float *activations, uint32_t share, const bool *want, float *scratch, float *out)
{
    float *x = scratch, *y = scratch + (uint64_t)n * w->cols;
    for (uint32_t i = 0; i < n; i++)
        memcpy(x + (uint64_t)i * w->cols, activations + (uint64_t)(pairs[i] / share) * w->cols, w->cols * sizeof *x);
    for (uint64_t i = 0; i < (uint64_t)n * w->rows; i++)
        y[i] = NAN;
    DOP_RETURN_IF_ERROR(dop_check_matmul(run->plan, w, expert, w->rows, x, n, want, y, run->diag));
    for (uint32_t i = 0; i < n; i++)
        memcpy(out + (uint64_t)pairs[i] * w->rows, y + (uint64_t)i * w->rows, w->rows * sizeof *y);
    return DOP_OK;
}

dop_status
dop_check_experts(dop_check_run *run, dop_node_id id, const dop_plan_tensor *w, const float *activations,
                  const bool *want, float *out)
{
    const dop_graph *g = run->g;
    const dop_node *n = dop_node_at(g, id);
    const uint32_t slots = n->shape.dim[1].mul, pairs = run->n_samples * slots;
    const uint32_t share = dop_node_at(g, n->src[0])->shape.rank == 3 ? 1 : slots; /* pairs that share a row of x */
    const dop_tensor *ids = NULL;
    dop_status st = n->n_srcs > 2 ? dop_interp_eval(run->it, n->src[2], run->diag, &ids) : DOP_OK;
    uint32_t *mine = malloc(pairs * sizeof *mine);
    float *scratch = malloc((size_t)pairs * (w->cols + w->rows) * sizeof *scratch);
    if (st == DOP_OK && (!mine || !scratch))
        st = DOP_NO_MEMORY(run->diag);
    for (uint32_t e = 0; e < w->experts && st == DOP_OK; e++) {
        uint32_t found = 0;
        for (uint32_t i = 0; i < pairs; i++)
            if ((ids ? ids->u[i] : i % slots) == e)
                mine[found++] = i;
        if (found)
            st = multiply_expert_rows(run, w, e, mine, found, activations, share, want, scratch, out);
    }
    free(mine);
    free(scratch);
    return st;
}
