/* Converts tensors of RDRR directories to canonical weights. */
#include "frontend/rdrr/import.h"

#include "frontend/facts/leftovers.h"
#include "frontend/facts/names.h"
#include "frontend/rdrr/config.h"
#include "frontend/rdrr/family.h"
#include "frontend/rdrr/manifest.h"
#include "frontend/rdrr/path.h"
#include "frontend/rdrr/rdrr.h"
#include "frontend/rdrr/shards.h"
#include "ir/interp/interp.h" /* dop_decode_row */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors ------------------------------------------------------------------------------------------------------ */

typedef struct use {
    const dop_rdrr_tensor *tensor;
    bool swapped; /* the stored matrix is the transpose of the weight */
} use;

static dop_status
fail_rdrr_shape(const dop_rdrr *r, const dop_rdrr_tensor *t, const dop_weight_need *need)
{
    char got[96] = "", want[32];
    for (uint32_t i = 0; i < t->rank && i < 4; i++) {
        size_t at = strlen(got);
        snprintf(got + at, sizeof got - at, "%s%llu", i ? ", " : "", (unsigned long long)t->shape[i]);
    }
    if (need->rank == 1)
        snprintf(want, sizeof want, "%u", need->cols);
    else
        snprintf(want, sizeof want, "%u, %u", need->rows, need->cols);
    return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "tensor %s: shape [%s], expected [%s] by architecture", t->name,
                       got, want);
}

/* Returns the tensor name of a dense layer after pooling, or of its bias; NULL: another role. */
static const char *
get_dense_name(const dop_rdrr *r, dop_role role)
{
    static const dop_role roles[DOP_MAX_DENSE][2] = {
        {DOP_W_dense1, DOP_W_dense1_bias}, {DOP_W_dense2, DOP_W_dense2_bias}, {DOP_W_dense3, DOP_W_dense3_bias}};
    for (int i = 0; i < DOP_MAX_DENSE; i++)
        for (int k = 0; k < 2; k++)
            if (role == roles[i][k])
                return r->dense[i][k];
    return NULL;
}

/* Finds the tensor of a weight and checks its description. */
static dop_status
find_use(const dop_rdrr *r, const dop_weight_need *need, use *out)
{
    const dop_tensor_name *n = dop_find_tensor_name(r->more_names, dop_hf_names_common, need->role);
    const char *dense = get_dense_name(r, need->role);
    char name[256];
    if (need->rank == 3)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "a mixture of experts is not supported");
    if (!n && !dense)
        return DOP_FAIL_IN(r->diag, DOP_E_INTERNAL, r->path, "no tensor name for %s", dop_role_name(need->role));
    if (dense)
        snprintf(name, sizeof name, "%s", dense);
    else
        dop_hf_full_name(r->prefix, "layers.", need, n->source, name, sizeof name);
    const dop_rdrr_tensor *t = dop_rdrr_find(r, name);
    if (!t)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "tensor %s is missing", name);
    if (t->transformed)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "tensor %s: sourceTransform is not supported", name);
    bool transpose_embed = need->role == DOP_W_embed && t->rank == 2 && t->shape[0] == need->cols &&
                           t->shape[1] == need->rows && need->rows != need->cols;
    const bool column = t->layout == DOP_RDRR_COLUMN;
    const bool as_is = need->rank == 1 ? t->rank == 1 && t->shape[0] == need->cols
                                       : t->rank == 2 && t->shape[0] == need->rows && t->shape[1] == need->cols;
    const bool turned = t->rank == 2 && need->rank == 2 && t->shape[0] == need->cols && t->shape[1] == need->rows;
    *out = (use){t, column || transpose_embed};
    r->tensors[t - r->tensors].taken = true;
    if (!as_is && !(turned && (column || transpose_embed)))
        return fail_rdrr_shape(r, t, need);
    const bool quant = t->type != DOP_TYPE_none && dop_type_of(t->type)->kind == DOP_KIND_QUANT;
    if (t->type == DOP_TYPE_none || dop_type_of(t->type)->kind == DOP_KIND_INT || (quant && need->rank == 1))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "tensor %s: type %s is not supported here", name, t->dtype);
    return DOP_OK;
}

static dop_status
check_rdrr_leftovers(const dop_rdrr *r)
{
    dop_leftovers l = {.model = r->model,
                       .diag = r->diag,
                       .facts = "the manifest",
                       .layer_prefix = "layers.",
                       .layers_key = "architecture.numLayers"};
    for (uint32_t i = 0; i < r->n_tensors; i++)
        if (!r->tensors[i].taken)
            DOP_RETURN_IF_ERROR(dop_leftovers_add(&l, r->tensors[i].name, r->tensors[i].rank, r->path));
    return dop_leftovers_finish(&l);
}

static dop_status
check_use(void *user, const dop_weight_need *need)
{
    use u;
    return find_use(user, need, &u);
}

dop_status
dop_rdrr_check_tensors(dop_rdrr *r)
{
    if (r->family)
        return dop_rdrr_check_family(r);
    DOP_RETURN_IF_ERROR(dop_arch_each_weight(&r->model->arch, check_use, r));
    return check_rdrr_leftovers(r);
}

/* ---- weights ------------------------------------------------------------------------------------------------------ */

/* Decodes w to f32 if its quantized blocks do not run along its rows and cannot be used in place. */
static dop_status
decode_rdrr_weight(dop_rdrr *r, const use *u, const uint8_t *data, dop_weight *w)
{
    const uint64_t n = (uint64_t)w->rows * w->cols;
    uint64_t row = 0;
    float *values = dop_arena_alloc(r->arena, (size_t)n * sizeof *values);
    float *line = u->swapped ? malloc((size_t)w->rows * sizeof *line) : NULL;
    if (!values || (u->swapped && !line)) {
        free(line);
        return DOP_FAIL(r->diag, DOP_E_NOMEM, "out of host memory for tensor %s", u->tensor->name);
    }
    if (!u->swapped) {
        dop_decode_row(u->tensor->type, data, n, values);
    } else if (dop_type_row_bytes(u->tensor->type, w->rows, &row)) {
        for (uint32_t c = 0; c < w->cols; c++) {
            dop_decode_row(u->tensor->type, data + c * row, w->rows, line);
            for (uint32_t k = 0; k < w->rows; k++)
                values[(uint64_t)k * w->cols + c] = line[k];
        }
    }
    free(line);
    w->type = DOP_TYPE_f32;
    w->row_stride = (uint64_t)w->cols * sizeof *values;
    w->data = (const uint8_t *)values;
    return DOP_OK;
}

static dop_status
fill_rdrr_weight(void *user, const dop_weight_need *need)
{
    dop_rdrr *r = user;
    use u;
    const uint8_t *data = NULL;
    DOP_RETURN_IF_ERROR(find_use(r, need, &u));
    DOP_RETURN_IF_ERROR(dop_rdrr_gather(r, u.tensor, &data));
    const dop_rdrr_tensor *t = u.tensor;
    const dop_type_info *type = dop_type_of(t->type);
    dop_weight w = {.name = need->name,
                    .type = t->type,
                    .rank = need->rank,
                    .rows = need->rows,
                    .cols = need->cols,
                    .data = data,
                    .source = t->name};
    uint64_t row = 0;
    if (!dop_type_row_bytes(t->type, need->cols, &row))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->path, "tensor %s is too large", t->name);
    w.row_stride = row;
    if (type->kind == DOP_KIND_FLOAT && u.swapped) {
        w.row_stride = type->bytes;
        w.col_stride = (uint64_t)need->rows * type->bytes;
    } else if (type->kind == DOP_KIND_QUANT &&
               (u.swapped || (t->layout == DOP_RDRR_FLAT && need->cols % type->block != 0))) {
        DOP_RETURN_IF_ERROR(decode_rdrr_weight(r, &u, data, &w));
    }
    return dop_weights_add(&r->model->weights, &w, r->arena, r->diag);
}

/* Opens and verifies the needed shards and fills model->weights. */
static dop_status
fill_rdrr_weights(dop_rdrr *r)
{
    dop_weights *w = &r->model->weights;
    DOP_RETURN_IF_ERROR(dop_rdrr_check_tensors(r));
    if (r->family)
        return dop_rdrr_import_family(r, NULL, r->model);
    DOP_RETURN_IF_ERROR(dop_arch_each_weight(&r->model->arch, fill_rdrr_weight, r));
    DOP_RETURN_IF_ERROR(dop_weights_seal(w, r->diag));
    return dop_arch_check_weights(&r->model->arch, w, r->path, r->diag);
}

dop_status
dop_import_rdrr(const char *dir, dop_diag *diag, dop_checkpoint *m)
{
    dop_rdrr r = {.dir = dir, .arena = m->arena, .diag = diag, .model = m};
    r.path = dop_arena_printf(m->arena, "%s/manifest.json", dir);
    if (!r.path)
        return DOP_NO_MEMORY(diag);
    dop_status st = DOP_OK;
    DOP_TRY(dop_rdrr_open(&r));
    DOP_TRY(dop_rdrr_config(&r));
    DOP_TRY(dop_rdrr_path(&r));
    if (!r.family)
        DOP_TRY(dop_arch_check(&m->arch, r.path, diag));
    DOP_TRY(fill_rdrr_weights(&r));
error:
    dop_rdrr_close(&r);
    return st;
}
