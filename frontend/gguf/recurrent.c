/* Recurrent mixers in GGUF files: keys "ssm.*", "kda.*" and "shortconv.*". A layer's tensors show whether it has a recurrent
 * mixer, attention, or both. */
#include "frontend/gguf/recurrent.h"

#include "frontend/gguf/gguf_import.h"
#include "frontend/gguf/keys.h"
#include "frontend/gguf/open.h"
#include "ir/interp/interp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool
mixer_has_tensor(const dop_gi *gi, uint32_t layer, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    return dop_gi_tensor(gi, full, NULL) != NULL;
}

bool
dop_gi_recurs(const dop_gi *gi, uint32_t layer)
{
    return gi->family->recurrent &&
           (mixer_has_tensor(gi, layer, "ssm_conv1d.weight") || mixer_has_tensor(gi, layer, "ssm_conv1d_q.weight") ||
            mixer_has_tensor(gi, layer, "shortconv.conv.weight"));
}

/* A layer without tensors of either mixer counts as attention, so that attention's tensors are reported as missing. Exception:
 * families in which a layer may have only a feed-forward part. */
bool
dop_gi_attends(const dop_gi *gi, uint32_t layer)
{
    const dop_hf_recurrent *r = gi->family->recurrent;
    const bool recurs = dop_gi_recurs(gi, layer), has = mixer_has_tensor(gi, layer, "attn_output.weight");
    return recurs ? r->beside && has : has || !r || !r->blocks;
}

/* Reads Mamba's selective scan, in which a head is a channel. */
static dop_status
read_gguf_selective(const dop_gi *gi, dop_recurrent *s)
{
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(scan_taps), 0, 0, &s->taps));
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(scan_channels), 0, 0, &s->n_heads));
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(scan_state), 0, 0, &s->state_dim));
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(scan_rank), 0, 0, &s->dt_rank));
    s->head_dim = s->n_groups = 1;
    return DOP_OK;
}

/* Reads Kimi's delta rule: all heads have the size of a key, which is also the rank of the gate and dt projections. */
static dop_status
read_kda(const dop_gi *gi, uint32_t layer, dop_recurrent *s)
{
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(scan_taps), 0, 0, &s->taps));
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(heads), layer, 0, &s->n_heads));
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(delta_head_dim), 0, 0, &s->head_dim));
    s->n_groups = s->n_heads;
    s->state_dim = s->dt_rank = s->gate_rank = s->head_dim;
    return DOP_OK;
}

static dop_status
read_gguf_mixer_sizes(const dop_gi *gi, dop_recurrent *s)
{
    uint32_t inner = 0;
    dop_status st = DOP_OK;
    DOP_TRY(dop_gi_size(gi, DOP_GGUF(scan_taps), 0, 0, &s->taps));
    DOP_TRY(dop_gi_size(gi, DOP_GGUF(scan_width), 0, 0, &inner));
    DOP_TRY(dop_gi_size(gi, DOP_GGUF(scan_heads), 0, 0, &s->n_heads));
    DOP_TRY(dop_gi_size(gi, DOP_GGUF(scan_groups), 0, 0, &s->n_groups));
    DOP_TRY(dop_gi_size(gi, DOP_GGUF(scan_state), 0, 0, &s->state_dim));
    if (inner % s->n_heads != 0)
        DOP_TRY(DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                            "%s.ssm.inner_size %u is not divisible by %s.ssm.time_step_rank %u", gi->name, inner,
                            gi->name, s->n_heads));
error:
    s->head_dim = st == DOP_OK ? inner / s->n_heads : 0;
    return st;
}

dop_status
dop_gi_recurrent(dop_gi *gi, uint32_t layer, double eps)
{
    const dop_hf_recurrent *r = gi->family->recurrent;
    dop_layer *y = &gi->model->arch.layers[layer];
    dop_mixer m = {.kind = r->kind, .scale = 1, .rec = dop_family_recurrent(r)};
    dop_status st = r->kind == DOP_MIXER_CONV ? dop_gi_size(gi, DOP_GGUF(conv_taps), 0, 0, &m.rec.taps)
                    : r->selective            ? read_gguf_selective(gi, &m.rec)
                    : r->each                 ? read_kda(gi, layer, &m.rec)
                                              : read_gguf_mixer_sizes(gi, &m.rec);
    const dop_norm norm = {.kind = DOP_NORM_RMS, .eps = eps};
    m.rec.in_turn = r->gguf_in_turn;
    m.rec.conv_bias =
        mixer_has_tensor(gi, layer, "ssm_conv1d.bias") || mixer_has_tensor(gi, layer, "shortconv.conv.bias");
    if (r->norm)
        m.rec.norm = norm;
    if (r->small_norms)
        m.rec.dt_norm = m.rec.key_norm = m.rec.query_norm = norm;
    /* some sizes of Falcon-H1 have a norm */
    if (r->kind == DOP_MIXER_SSM && !r->norm && mixer_has_tensor(gi, layer, "ssm_norm.weight")) {
        m.rec.norm = norm;
        m.rec.norm_rows = true;
        m.rec.norm_groups = m.rec.n_groups > 1;
    }
    if (dop_gi_attends(gi, layer))
        y->n_mixers = 2;
    y->mixers[y->n_mixers - 1] = m;
    return st;
}

/* Transposes taps to [taps, channels], or converts decays from -exp(x) to x. */
dop_status
dop_gi_vector(const dop_gi *gi, const dop_rows *rows, dop_weight *w)
{
    float *copy = dop_arena_alloc(gi->model->arena, w->cols * sizeof *copy);
    float *as = dop_arena_alloc(gi->model->arena, w->cols * sizeof *as);
    if (!copy || !as)
        return DOP_NO_MEMORY(gi->diag);
    dop_decode_row(w->type, w->data, w->cols, as);
    for (uint32_t i = 0; i < w->cols; i++) {
        if (rows->turned)
            copy[i % rows->block_step * rows->block + i / rows->block_step] = as[i];
        else if (as[i] > 0 || isnan(as[i]))
            return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "tensor %s: value %u is %g, expected at most 0",
                               w->source, i, (double)as[i]);
        else /* 0 has no logarithm; exp(-100), about 4e-44, stands for 0 */
            copy[i] = as[i] == 0.0f ? -100 : (float)log(-(double)as[i]);
    }
    w->type = DOP_TYPE_f32;
    w->row_stride = w->cols * sizeof *copy;
    w->data = (const uint8_t *)copy;
    return DOP_OK;
}

dop_status
dop_gi_taps(const dop_gi *gi, const dop_tensor_name *n, const dop_weight_need *need, const dop_rows *rows,
            dop_weight *w)
{
    const uint32_t taps = rows->block_step, channels = rows->block;
    uint64_t done = 0;
    float one[DOP_MAX_TAPS], *all = dop_arena_alloc(gi->model->arena, w->cols * sizeof *all);
    if (!all)
        return DOP_NO_MEMORY(gi->diag);
    for (const dop_tensor_name *at = n; at->role == n->role; at++) {
        const dop_gguf *part = NULL;
        char name[96];
        snprintf(name, sizeof name, "blk.%d.%s", (int)need->layer, at->source);
        const dop_gguf_tensor *t = dop_gi_take(gi, name, &part);
        if (!t)
            return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "tensor %s is missing", name);
        const uint64_t here = t->bytes / (sizeof *all * taps);
        if (t->type != 0 || t->dims[0] != taps || t->bytes != here * taps * sizeof *all || here > channels - done)
            return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, part->path, "tensor %s is not %u values of type F32 a channel",
                               name, taps);
        for (uint64_t c = 0; c < here; c++) {
            memcpy(one, part->map.data + t->offset + c * taps * sizeof *one, taps * sizeof *one);
            for (uint32_t k = 0; k < taps; k++)
                all[(uint64_t)k * channels + done + c] = one[k];
        }
        done += here;
    }
    if (done != channels)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "layer %d: taps of %llu channels, expected %u",
                           (int)need->layer, (unsigned long long)done, channels);
    w->type = DOP_TYPE_f32;
    w->row_stride = w->cols * sizeof *all;
    w->data = (const uint8_t *)all;
    w->source = n->source;
    return DOP_OK;
}
