#include "tools/check/check_weights.h"
#include "base/parallel.h"
#include "plan/plan_names.h"
#include "plan/plan_ranges.h"
#include "tools/check/check.h"
#include "tools/check/check_unpack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const dop_plan_tensor *
dop_check_find_weight(const dop_plan *plan, const char *name)
{
    for (uint32_t i = 0; i < plan->n_tensors; i++)
        if (strcmp(dop_plan_string(plan, plan->tensors[i].name), name) == 0)
            return &plan->tensors[i];
    return NULL;
}

/* Decodes a row of a quantized matrix at byte `at` of a slot. */
static dop_status
decode_quantized_row(const dop_plan *plan, const dop_plan_tensor *weight, uint64_t at, const dop_check_place *row,
                     float *out, dop_diag *diag)
{
    uint8_t *units = malloc((size_t)(row->n_units + row->n_groups) + 1), *groups = units + row->n_units, factor[4];
    if (!units)
        return DOP_NO_MEMORY(diag);
    dop_plan_copy_slot(plan, weight->slot, at + row->units, row->n_units, units);
    dop_plan_copy_slot(plan, weight->slot, at + row->groups, row->n_groups, groups);
    if (weight->type == DOP_TYPE_nvfp4)
        dop_plan_copy_slot(plan, weight->slot, at + row->factor, sizeof factor, factor);
    dop_check_unpack_row((dop_type)weight->type, row, units, groups, factor, weight->cols, out);
    free(units);
    return DOP_OK;
}

dop_status
dop_check_weight_row(const dop_plan *plan, const dop_plan_tensor *weight, uint32_t expert, uint32_t row, float *out,
                     dop_diag *diag)
{
    const dop_plan_slot *slot = &plan->slots[weight->slot];
    const dop_type type = weight->type < DOP_TYPE_COUNT ? (dop_type)weight->type : DOP_TYPE_none;
    const uint64_t stride = weight->rows ? weight->size / weight->rows : 0,
                   at = weight->offset + expert * weight->expert_stride;
    uint64_t need = 0, left = 0;
    dop_check_place place;
    if (slot->kind == DOP_SLOT_WEIGHTS && row < weight->rows && expert < weight->experts) {
        if (dop_check_find_row(type, weight->size, weight->rows, weight->cols, row, &place))
            return decode_quantized_row(plan, weight, at, &place, out, diag);
        if (dop_type_of(type)->kind == DOP_KIND_FLOAT && dop_type_row_bytes(type, weight->cols, &need) &&
            need <= stride) {
            dop_decode_row(type, dop_plan_slot_bytes(plan, weight->slot, at, &left) + row * stride, weight->cols, out);
            return DOP_OK;
        }
    }
    return DOP_FAIL_IN(diag, DOP_E_INPUT, plan->path,
                       "weight %s: %u rows of %u values of type %s in %llu bytes are not what --check can decode",
                       dop_plan_string(plan, weight->name), weight->rows, weight->cols, dop_type_of(type)->name,
                       (unsigned long long)weight->size);
}

void
dop_check_round_rows(float *x, uint64_t rows, uint64_t k)
{
    enum { UNIT = 32 };
    for (uint64_t r = 0; r < rows; r++, x += k)
        for (uint64_t u = 0; u < k; u += UNIT) {
            uint64_t n = k - u < UNIT ? k - u : UNIT;
            float top = 0;
            for (uint64_t i = u; i < u + n; i++)
                top = fmaxf(top, fabsf(x[i]));
            for (uint64_t i = u; i < u + n; i++)
                x[i] = top > 1e-30f ? rintf(x[i] * (127.0f / top)) * (top / 127.0f) : 0.0f;
        }
}

typedef struct product {
    const dop_plan *plan;
    const dop_plan_tensor *weight;
    uint32_t expert, n; /* number of weight rows that are read */
    const float *x;
    uint32_t n_tokens;
    const bool *want;
    float *out;
} product;

enum { ROWS = 64 }; /* rows of the weight per work item */

static dop_status
multiply_row_range(void *user, uint32_t worker, uint32_t index, dop_diag *diag)
{
    const product *p = user;
    uint64_t k = p->weight->cols, n = p->n;
    float *row = malloc((size_t)k * sizeof *row);
    dop_status st = row ? DOP_OK : DOP_NO_MEMORY(diag);
    (void)worker;
    for (uint64_t r = (uint64_t)index * ROWS, end = r + ROWS; r < n && r < end && st == DOP_OK; r++) {
        if (!p->want[r])
            continue;
        st = dop_check_weight_row(p->plan, p->weight, p->expert, (uint32_t)r, row, diag);
        for (uint32_t t = 0; t < p->n_tokens && st == DOP_OK; t++) {
            const float *x = p->x + t * k;
            double sum[4] = {0};
            for (uint64_t i = 0; i < k; i++)
                sum[i & 3] += (double)x[i] * (double)row[i];
            p->out[t * n + r] = (float)((sum[0] + sum[1]) + (sum[2] + sum[3]));
        }
    }
    free(row);
    return st;
}

dop_status
dop_check_matmul(const dop_plan *plan, const dop_plan_tensor *weight, uint32_t expert, uint32_t n, const float *x,
                 uint32_t n_tokens, const bool *want, float *out, dop_diag *diag)
{
    product p = {plan, weight, expert, n, x, n_tokens, want, out};
    return dop_parallel_for(n / ROWS + (n % ROWS != 0), 0, multiply_row_range, &p, diag);
}
