/* Control vectors, as llama.cpp's tools make them: GGUF files with a direction for each layer, "direction.N", which is added to the
 * residual stream behind layer N (https://arxiv.org/abs/2310.01405). */
#include "base/format/gguf.h"
#include "compiler/import/adapter_places.h"
#include "compiler/model/import.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Adds scale times the direction of a tensor to the layer's. */
static dop_status
add_direction(dop_checkpoint *m, const dop_gguf *g, const dop_gguf_tensor *t, uint32_t layer, double scale,
              dop_diag *diag)
{
    const uint32_t n = m->arch.hidden;
    dop_layer *y = &m->arch.layers[layer];
    char name[24];
    if (t->type != 0 || t->dims[0] != n || t->dims[1] * t->dims[2] * t->dims[3] != 1)
        return DOP_FAIL_IN(
            diag, DOP_E_INPUT, g->path,
            "tensor direction.%u: %llu values of type %u, %u of F32 expected: the control vector is of another "
            "model",
            layer, (unsigned long long)(t->dims[0] * t->dims[1]), t->type, n);
    snprintf(name, sizeof name, "L%u.control", layer);
    const dop_weight *there = y->control ? dop_weights_find(&m->weights, name) : NULL;
    float *all = there ? (float *)(uintptr_t)there->data : dop_arena_alloc(m->arena, n * sizeof *all);
    if (!all)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of host memory");
    for (uint32_t i = 0; i < n; i++) {
        float v;
        memcpy(&v, g->map.data + t->offset + 4 * (size_t)i, sizeof v);
        if (!isfinite(v))
            return DOP_FAIL_IN(diag, DOP_E_INPUT, g->path, "tensor direction.%u holds an infinity or NaN", layer);
        all[i] += (float)(scale * (double)v);
    }
    if (there)
        return DOP_OK;
    y->control = true;
    const dop_weight w = {.name = name,
                          .source = "direction",
                          .type = DOP_TYPE_f32,
                          .rank = 1,
                          .rows = 1,
                          .cols = n,
                          .data = (const uint8_t *)all,
                          .row_stride = n * sizeof *all};
    const dop_status st = dop_weights_add(&m->weights, &w, m->arena, diag);
    return st == DOP_OK ? dop_weights_seal(&m->weights, diag) : st;
}

dop_status
dop_checkpoint_control(dop_checkpoint *m, const char *path, double scale, uint32_t first, uint32_t last, dop_diag *diag)
{
    static const char prefix[] = "direction.";
    dop_gguf g;
    uint32_t n = 0;
    dop_status st = dop_gguf_open(path, diag, &g);
    if (st != DOP_OK)
        return st;
    if (m->arch.altup.n || m->arch.encoder.used)
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "control vectors are not supported for this family of models");
    for (size_t i = 0; i < g.tensor_count && st == DOP_OK; i++) {
        const dop_gguf_str name = g.tensors[i].name;
        char number[12] = "", *end = NULL;
        if (name.len <= sizeof prefix - 1 || memcmp(name.data, prefix, sizeof prefix - 1) != 0 ||
            name.len - (sizeof prefix - 1) >= sizeof number)
            continue;
        memcpy(number, name.data + sizeof prefix - 1, (size_t)name.len - (sizeof prefix - 1));
        const unsigned long layer = strtoul(number, &end, 10);
        if (*end || number[0] < '0' || number[0] > '9')
            continue;
        if (layer >= m->arch.n_layers)
            st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "direction.%lu is behind the %u layers of this model", layer,
                             m->arch.n_layers);
        else if (layer >= first && layer <= last)
            st = add_direction(m, &g, &g.tensors[i], (uint32_t)layer, scale, diag);
        n++;
    }
    if (st == DOP_OK && n == 0)
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "not a control vector: it has no tensors direction.N");
    dop_gguf_close(&g);
    return st;
}
