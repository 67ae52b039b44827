/* Facts about models and plans, for the public header. */
#include "plan/plan_names.h"
#include "plan/plan_part.h"
#include "runtime/model/info.h"
#include "runtime/model/model.h"
#include "runtime/step/heads.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* Inserts a size into the ascending list. */
static void
add_chunk(dop_facts *f, uint32_t rows)
{
    enum { MOST = sizeof f->chunks / sizeof *f->chunks };
    uint32_t at = 0;
    while (at < f->n_chunks && f->chunks[at] < rows)
        at++;
    if ((at < f->n_chunks && f->chunks[at] == rows) || f->n_chunks == MOST)
        return;
    memmove(f->chunks + at + 1, f->chunks + at, (f->n_chunks - at) * sizeof *f->chunks);
    f->chunks[at] = rows;
    f->n_chunks++;
}

void
dop_model_facts(const dop_model *model, dop_facts *out_facts)
{
    const dop_plan *plan = &model->plan;
    const dop_plan_model *m = plan->model;
    *out_facts = (dop_facts){
        .name = dop_plan_string(plan, m->name),
        .family = dop_plan_string(plan, m->family),
        .quant = dop_plan_string(plan, m->quant),
        .device = model->device.info.caps.name,
        .driver = model->device.info.caps.driver,
        .target = dop_plan_string(plan, plan->profiles[model->info.profile].name),
        .software = model->device.info.caps.cpu,
        .digest = plan->digest,
        .vocab = m->vocab,
        .ctx = m->ctx,
        .ctx_trained = m->ctx_train,
        .n_layers = m->n_layers,
        .n_sequences = m->n_sequences,
        .page = m->page,
        .n_pages = m->n_pages,
        .has_text = plan->tokenizer_size > 0,
        .bos_id = m->bos_id,
        .n_end_ids = m->n_end_ids,
        .end_ids = m->end_ids,
        .sampling = dop_plan_sampling(plan),
        .device_bytes = model->memory.total,
        .load_ms = model->info.load_ms,
        .drafts = dop_model_drafts(model),
    };
    for (uint32_t i = 0; i < model->used.n; i++) {
        const dop_plan_schedule *x = &plan->schedules[model->used.schedules[i]];
        if (x->kind == DOP_SCHED_PREFILL && !x->adapted && (model->max_chunk == 0 || x->max_rows <= model->max_chunk))
            add_chunk(out_facts, x->max_rows);
    }
}

static dop_status
fill_plan_facts(const dop_plan *plan, const char *made, dop_diag *diag, dop_plan_facts **out)
{
    const dop_plan_model *m = plan->model;
    const char *texts[] = {dop_plan_string(plan, m->name), dop_plan_string(plan, m->family),
                           dop_plan_string(plan, m->quant), made};
    enum { N_TEXTS = sizeof texts / sizeof *texts };
    size_t bytes = sizeof(dop_plan_facts) + plan->n_profiles * sizeof(dop_plan_target);
    for (int i = 0; i < N_TEXTS; i++)
        bytes += strlen(texts[i]) + 1;
    for (uint32_t i = 0; i < plan->n_profiles; i++)
        bytes += strlen(dop_plan_string(plan, plan->profiles[i].name)) + 1;
    dop_plan_facts *f = calloc(1, bytes);
    if (!f)
        return DOP_NO_MEMORY(diag);
    dop_plan_target *targets = (dop_plan_target *)(void *)(f + 1);
    char *at = (char *)(targets + plan->n_profiles);
    const char *copies[N_TEXTS];
    for (int i = 0; i < N_TEXTS; i++) {
        const size_t len = strlen(texts[i]) + 1;
        copies[i] = memcpy(at, texts[i], len);
        at += len;
    }
    *f = (dop_plan_facts){.name = copies[0],
                          .family = copies[1],
                          .quant = copies[2],
                          .made = copies[3],
                          .digest = plan->digest,
                          .bytes = plan->size,
                          .vocab = m->vocab,
                          .ctx = m->ctx,
                          .ctx_trained = m->ctx_train,
                          .n_layers = m->n_layers,
                          .n_sequences = m->n_sequences,
                          .page = m->page,
                          .n_pages = m->n_pages,
                          .part = plan->part ? plan->part->number : 0,
                          .n_parts = plan->part ? plan->part->n_parts : 1,
                          .has_text = plan->tokenizer_size > 0,
                          .n_targets = plan->n_profiles,
                          .targets = targets};
    for (uint32_t i = 0; i < plan->n_files; i++)
        f->bytes += plan->files[i].model ? 0 : plan->files[i].size;
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < plan->n_profiles && st == DOP_OK; i++) {
        uint64_t kinds[DOP_SLOT_KINDS];
        const char *name = dop_plan_string(plan, plan->profiles[i].name);
        const size_t len = strlen(name) + 1;
        targets[i].name = memcpy(at, name, len);
        at += len;
        st = dop_used_memory(plan, i, diag, kinds);
        for (uint32_t k = 0; k < DOP_SLOT_KINDS && st == DOP_OK; k++)
            targets[i].device_bytes += kinds[k];
    }
    if (st == DOP_OK)
        *out = f;
    else
        free(f);
    return st;
}

/* Returns how the plan was made, from its card; the caller frees it. NULL: out of memory. */
static char *
made_of(const dop_plan *plan)
{
    json_t *card = plan->card ? json_loadb(plan->card, (size_t)plan->card_size, 0, NULL) : NULL;
    const json_t *made = json_object_get(card, "made");
    char *text = made ? json_dumps(made, JSON_COMPACT) : strdup("");
    json_decref(card);
    return text;
}

dop_status
dop_plan_read(const char *plan_path, uint32_t part, dop_diag *diag, dop_plan_facts **out_facts)
{
    dop_plan plan;
    dop_diag_clear(diag);
    *out_facts = NULL;
    const uint32_t n = dop_plan_count_parts(plan_path);
    if (n == 1 && part > 0)
        return DOP_FAIL_IN(diag, DOP_E_USAGE, plan_path, "the plan is in one part, and has no part %u", part);
    dop_status st = dop_plan_open_part(plan_path, n > 1 ? n : 0, n > 1 ? part : 0, diag, &plan);
    if (st != DOP_OK)
        return st;
    char *made = made_of(&plan);
    st = made ? fill_plan_facts(&plan, made, diag, out_facts) : DOP_NO_MEMORY(diag);
    free(made);
    dop_plan_close(&plan);
    return st;
}
