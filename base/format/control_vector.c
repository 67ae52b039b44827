#include "base/format/control_vector.h"

#include "base/format/gguf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* True if the tensor is a direction; *out_layer is its layer. */
static bool
parse_direction_layer(const dop_gguf_tensor *t, unsigned long *out_layer)
{
    static const char prefix[] = "direction.";
    const size_t start = sizeof prefix - 1;
    char number[12] = "", *end = NULL;
    if (t->name.len <= start || memcmp(t->name.data, prefix, start) != 0 || t->name.len - start >= sizeof number)
        return false;
    memcpy(number, t->name.data + start, (size_t)t->name.len - start);
    *out_layer = strtoul(number, &end, 10);
    return !*end && number[0] >= '0' && number[0] <= '9';
}

bool
dop_control_is(const char *path)
{
    dop_gguf g;
    bool is = false;
    unsigned long layer;
    if (dop_gguf_open(path, NULL, &g) != DOP_OK)
        return false;
    for (size_t i = 0; i < g.tensor_count && !is; i++)
        is = parse_direction_layer(&g.tensors[i], &layer);
    dop_gguf_close(&g);
    return is;
}

static dop_status
read_direction_values(const dop_gguf *g, const dop_gguf_tensor *t, uint32_t width, unsigned long layer, float *out,
                      dop_diag *diag)
{
    if (t->type != 0 || t->dims[0] != width || t->dims[1] * t->dims[2] * t->dims[3] != 1)
        return DOP_FAIL_IN(
            diag, DOP_E_INPUT, g->path,
            "tensor direction.%lu: %llu values of type %u, %u of F32 expected: the control vector is of another "
            "model",
            layer, (unsigned long long)(t->dims[0] * t->dims[1]), t->type, width);
    memcpy(out, g->map.data + t->offset, width * sizeof *out);
    for (uint32_t i = 0; i < width; i++)
        if (!isfinite(out[i]))
            return DOP_FAIL_IN(diag, DOP_E_INPUT, g->path, "tensor direction.%lu holds an infinity or NaN", layer);
    return DOP_OK;
}

dop_status
dop_control_read(const char *path, const dop_control_want *want, dop_arena *arena, dop_diag *diag, dop_control *out)
{
    dop_gguf g;
    uint32_t found = 0;
    *out = (dop_control){0};
    dop_status st = dop_gguf_open(path, diag, &g);
    if (st != DOP_OK)
        return st;
    out->directions = dop_arena_alloc(arena, (g.tensor_count + 1) * sizeof *out->directions);
    if (!out->directions)
        st = DOP_NO_MEMORY(diag);
    for (size_t i = 0; i < g.tensor_count && st == DOP_OK; i++) {
        unsigned long layer;
        if (!parse_direction_layer(&g.tensors[i], &layer))
            continue;
        found++;
        if (layer >= want->layers)
            st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "direction.%lu is behind the %u layers of this model", layer,
                             want->layers);
        if (st != DOP_OK || layer < want->first || layer > want->last)
            continue;
        float *values = dop_arena_alloc(arena, want->width * sizeof *values);
        st = values ? read_direction_values(&g, &g.tensors[i], want->width, layer, values, diag) : DOP_NO_MEMORY(diag);
        out->directions[out->n++] = (dop_control_direction){(uint32_t)layer, values};
    }
    if (st == DOP_OK && found == 0)
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, path, "not a control vector: it has no tensors direction.N");
    dop_gguf_close(&g);
    return st;
}
