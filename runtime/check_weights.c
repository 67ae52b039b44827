#include "runtime/check.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const dop_plan_tensor *
dop_check_find_weight(const dop_plan *plan, const char *name)
{
    for (uint32_t i = 0; i < plan->n_tensors; i++)
        if (strcmp(dop_plan_string(plan, plan->tensors[i].name), name) == 0)
            return &plan->tensors[i];
    return NULL;
}

dop_status
dop_check_weight_row(const dop_plan *plan, const dop_plan_tensor *weight, uint32_t row, float *out, dop_diag *diag)
{
    const dop_plan_slot *slot = &plan->slots[weight->slot];
    dop_type type = weight->type < DOP_TYPE_COUNT ? (dop_type)weight->type : DOP_TYPE_none;
    const uint8_t *data =
        slot->kind == DOP_SLOT_WEIGHTS ? dop_plan_slot_bytes(plan, weight->slot) + weight->offset : NULL;
    uint64_t stride = weight->rows ? weight->size / weight->rows : 0, need = 0;
    bool ok = data && row < weight->rows;
    if (ok && dop_type_of(type)->kind == DOP_KIND_FLOAT) {
        ok = dop_type_row_bytes(type, weight->cols, &need) && need <= stride;
        if (ok)
            dop_decode_row(type, data + row * stride, weight->cols, out);
    } else {
        ok = ok && dop_check_unpack_row(type, data, weight->size, weight->rows, weight->cols, row, out);
    }
    if (!ok)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, plan->path,
                           "weight %s: %u rows of %u values of type %s in %llu bytes are not what --check can decode",
                           dop_plan_string(plan, weight->name), weight->rows, weight->cols, dop_type_of(type)->name,
                           (unsigned long long)weight->size);
    return DOP_OK;
}

bool
dop_check_rounds(const char *variant)
{
    size_t n = strlen(variant);
    return n > 3 && strcmp(variant + n - 3, "_i8") == 0;
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

typedef struct job {
    const dop_plan *plan;
    const dop_plan_tensor *weight;
    const float *x;
    uint32_t n_tokens, first, step;
    const bool *want;
    float *out;
    dop_status status;
    dop_diag diag;
} job;

static void *
multiply(void *user)
{
    job *j = user;
    uint64_t k = j->weight->cols, n = j->weight->rows;
    float *row = malloc((size_t)k * sizeof *row);
    if (!row)
        j->status = DOP_FAIL(&j->diag, DOP_E_NOMEM, "out of memory");
    for (uint32_t r = j->first; r < n && j->status == DOP_OK; r += j->step) {
        if (!j->want[r])
            continue;
        j->status = dop_check_weight_row(j->plan, j->weight, r, row, &j->diag);
        for (uint32_t t = 0; t < j->n_tokens && j->status == DOP_OK; t++) {
            const float *x = j->x + t * k;
            double sum[4] = {0};
            for (uint64_t i = 0; i < k; i++)
                sum[i & 3] += (double)x[i] * (double)row[i];
            j->out[t * n + r] = (float)((sum[0] + sum[1]) + (sum[2] + sum[3]));
        }
    }
    free(row);
    return NULL;
}

dop_status
dop_check_matmul(const dop_plan *plan, const dop_plan_tensor *weight, const float *x, uint32_t n_tokens,
                 const bool *want, float *out, dop_diag *diag)
{
    enum { MAX_THREADS = 32 };
    job jobs[MAX_THREADS];
    pthread_t threads[MAX_THREADS];
    bool started[MAX_THREADS] = {false};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t n = cores < 1 ? 1 : cores > MAX_THREADS ? MAX_THREADS : (uint32_t)cores;
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < n; i++) {
        jobs[i] = (job){.plan = plan,
                        .weight = weight,
                        .x = x,
                        .n_tokens = n_tokens,
                        .first = i,
                        .step = n,
                        .want = want,
                        .out = out};
        started[i] = i > 0 && pthread_create(&threads[i], NULL, multiply, &jobs[i]) == 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (started[i])
            pthread_join(threads[i], NULL);
        else
            multiply(&jobs[i]);
        if (jobs[i].status != DOP_OK && st == DOP_OK) {
            st = jobs[i].status;
            if (diag && diag->code == DOP_OK)
                *diag = jobs[i].diag;
        }
    }
    return st;
}
