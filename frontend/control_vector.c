/* Control vectors merged into a model (base/format/control_vector.h): each layer gets the sum of its directions. */
#include "base/format/control_vector.h"
#include "frontend/adapter_places.h"
#include "frontend/facts/import.h"

#include <stdio.h>

/* Adds scale times a direction to the layer's vector. */
static dop_status
add_direction(dop_checkpoint *m, const dop_control_direction *d, double scale, dop_diag *diag)
{
    const uint32_t n = m->arch.hidden;
    dop_layer *y = &m->arch.layers[d->layer];
    char name[24];
    snprintf(name, sizeof name, "L%u.control", d->layer);
    const dop_weight *there = y->control ? dop_weights_find(&m->weights, name) : NULL;
    float *all = there ? (float *)(uintptr_t)there->data : dop_arena_alloc(m->arena, n * sizeof *all);
    if (!all)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < n; i++)
        all[i] += (float)(scale * (double)d->values[i]);
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
    const dop_control_want want = {.width = m->arch.hidden, .layers = m->arch.n_layers, .first = first, .last = last};
    dop_control x;
    if (m->arch.altup.n || m->arch.encoder.used)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "control vectors are not supported for this family of models");
    DOP_RETURN_IF_ERROR(dop_control_read(path, &want, m->arena, diag, &x));
    for (uint32_t i = 0; i < x.n; i++)
        DOP_RETURN_IF_ERROR(add_direction(m, &x.directions[i], scale, diag));
    return DOP_OK;
}
