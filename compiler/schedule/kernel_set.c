#include "compiler/schedule/kernel_set.h"

#include "base/parallel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* True if both kernels and the functions of their stages have equal text. */
static bool
has_same_text(const dop_kernel *a, const dop_kernel *b)
{
    bool same = strcmp(a->glsl, b->glsl) == 0 && a->n_stages == b->n_stages;
    for (uint32_t i = 0; same && i < a->n_stages; i++)
        same = strcmp(a->stages[i], b->stages[i]) == 0;
    return same;
}

dop_status
dop_kernel_set_add(dop_kernel_set *s, const dop_kernel *k, dop_template tpl, dop_label label, dop_diag *diag,
                   uint32_t *out_index)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (has_same_text(&s->items[i].k, k)) {
            *out_index = i;
            return DOP_OK;
        }
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 32;
        dop_built_kernel *p = realloc(s->items, cap * sizeof *p);
        if (!p)
            return DOP_NO_MEMORY(diag);
        s->items = p;
        s->cap = cap;
    }
    s->items[s->n] = (dop_built_kernel){.k = *k, .tpl = tpl, .label = label};
    *out_index = s->n++;
    return DOP_OK;
}

typedef struct job {
    dop_kernel_set *set;
    const dop_target *target;
    const dop_progress *progress;
    pthread_mutex_t lock; /* protects `done` and serializes calls of `progress` */
    uint32_t done;
} job;

static dop_status
compile_one(void *user, uint32_t worker, uint32_t index, dop_diag *diag)
{
    job *j = user;
    dop_built_kernel *k = &j->set->items[index];
    char name[128];
    (void)worker;
    snprintf(name, sizeof name, "%s@%s", dop_variant_of(k->k.variant)->name, dop_label_text(k->label));
    dop_status st = dop_kernel_compile(name, &k->k, j->target, diag, &k->spirv, &k->shared_bytes);
    if (k->optional && st == DOP_E_INPUT) {
        *diag = (dop_diag){0};
        k->dropped = true;
        st = DOP_OK;
    }
    pthread_mutex_lock(&j->lock);
    j->done++;
    if (!dop_progress_report(j->progress, "kernels", j->done, j->set->n) && st == DOP_OK)
        st = DOP_CANCELLED(diag);
    pthread_mutex_unlock(&j->lock);
    return st;
}

dop_status
dop_kernel_set_compile(dop_kernel_set *s, const dop_target *target, uint32_t threads, const dop_progress *progress,
                       dop_diag *diag)
{
    job j = {.set = s, .target = target, .progress = progress};
    pthread_mutex_init(&j.lock, NULL);
    dop_status st = dop_parallel_for(s->n, threads, compile_one, &j, diag);
    pthread_mutex_destroy(&j.lock);
    return st;
}

void
dop_kernel_set_finish(dop_kernel_set *s)
{
    for (uint32_t i = 0; i < s->n; i++)
        dop_buf_finish(&s->items[i].spirv);
    free(s->items);
    memset(s, 0, sizeof *s);
}
