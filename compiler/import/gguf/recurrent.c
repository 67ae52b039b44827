/* Recurrent mixers of GGUF files: keys "ssm.*" and "shortconv.*"; which layers have them, and which attend, is told by
 * their tensors. */
#include "compiler/import/gguf/gguf_import.h"

#include "ir/interp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool
layer_has(const dop_gi *gi, uint32_t layer, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    return dop_gi_tensor(gi, full, NULL) != NULL;
}

bool
dop_gi_recurs(const dop_gi *gi, uint32_t layer)
{
    return gi->family->recurrent &&
           (layer_has(gi, layer, "ssm_conv1d.weight") || layer_has(gi, layer, "shortconv.conv.weight"));
}

/* A layer with the tensors of neither mixer is taken to have attention, so that those tensors are reported as missing. */
bool
dop_gi_attends(const dop_gi *gi, uint32_t layer)
{
    return !dop_gi_recurs(gi, layer) || layer_has(gi, layer, "attn_output.weight");
}

static dop_status
read_sizes(const dop_gi *gi, dop_recurrent *s)
{
    uint32_t inner = 0;
    dop_status st = dop_gi_size(gi, "ssm.conv_kernel", 0, DOP_MAX_TAPS, 0, &s->taps);
    if (st == DOP_OK)
        st = dop_gi_size(gi, "ssm.inner_size", 0, DOP_MAX_WIDTH, 0, &inner);
    if (st == DOP_OK)
        st = dop_gi_size(gi, "ssm.time_step_rank", 0, DOP_MAX_HEADS, 0, &s->n_heads);
    if (st == DOP_OK)
        st = dop_gi_size(gi, "ssm.group_count", 0, DOP_MAX_HEADS, 0, &s->n_groups);
    if (st == DOP_OK)
        st = dop_gi_size(gi, "ssm.state_size", 0, DOP_MAX_HEAD_DIM, 0, &s->state_dim);
    if (st == DOP_OK && inner % s->n_heads != 0)
        st = DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                         "%s.ssm.inner_size %u is not divisible by %s.ssm.time_step_rank %u", gi->family->gguf, inner,
                         gi->family->gguf, s->n_heads);
    s->head_dim = st == DOP_OK ? inner / s->n_heads : 0;
    return st;
}

dop_status
dop_gi_recurrent(dop_gi *gi, uint32_t layer, double eps)
{
    const dop_hf_recurrent *r = gi->family->recurrent;
    dop_layer *y = &gi->model->arch.layers[layer];
    dop_mixer m = {.kind = r->kind, .scale = 1};
    m.rec = (dop_recurrent){.delta = r->kind == DOP_MIXER_DELTA,
                            .skip = r->kind == DOP_MIXER_SSM,
                            .norm_rows = r->norm_rows,
                            .in_turn = r->gguf_in_turn,
                            .beta_scale = 1,
                            .in_scale = 1,
                            .gate_scale = 1,
                            .dt_scale = 1,
                            .value_scale = 1,
                            .key_scale = 1,
                            .query_scale = 1};
    dop_status st = r->kind == DOP_MIXER_CONV ? dop_gi_size(gi, "shortconv.l_cache", 0, DOP_MAX_TAPS, 0, &m.rec.taps)
                                              : read_sizes(gi, &m.rec);
    m.rec.conv_bias = layer_has(gi, layer, "ssm_conv1d.bias") || layer_has(gi, layer, "shortconv.conv.bias");
    if (r->norm)
        m.rec.norm = (dop_norm){.kind = DOP_NORM_RMS, .eps = eps};
    if (dop_gi_attends(gi, layer))
        y->n_mixers = 2;
    y->mixers[y->n_mixers - 1] = m;
    return st;
}

/* Copies taps, one position after the other, or decays, as the logarithm that the graph takes. */
dop_status
dop_gi_vector(const dop_gi *gi, const dop_rows *rows, dop_weight *w)
{
    float *copy = dop_arena_alloc(gi->model->arena, w->cols * sizeof *copy);
    float *as = dop_arena_alloc(gi->model->arena, w->cols * sizeof *as);
    if (!copy || !as)
        return DOP_FAIL(gi->diag, DOP_E_NOMEM, "out of host memory");
    dop_decode_row(w->type, w->data, w->cols, as);
    for (uint32_t i = 0; i < w->cols; i++) {
        if (rows->turned)
            copy[i % rows->block_step * rows->block + i / rows->block_step] = as[i];
        else if (as[i] > 0 || isnan(as[i]))
            return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "tensor %s: value %u is %g, expected at most 0",
                               w->source, i, (double)as[i]);
        else /* 0 has no logarithm; exp(-100) is 0 in f32 */
            copy[i] = as[i] == 0.0f ? -100 : (float)log(-(double)as[i]);
    }
    w->type = DOP_TYPE_f32;
    w->row_stride = w->cols * sizeof *copy;
    w->data = (const uint8_t *)copy;
    return DOP_OK;
}
