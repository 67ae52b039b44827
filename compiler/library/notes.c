/* Notes about surprising results of compilations, one line each. */
#include "base/os/log.h"
#include "compiler/library/job.h"

#include <string.h>

/* Statistics of weights converted from one stored type to one packed type. */
typedef struct again {
    dop_type from, to;
    uint32_t count;
    uint64_t before, after; /* bytes in the model and in the plan */
} again;

/* Notes weights that the model stores as quantized blocks and that --quant converts to another type. */
static void
note_requantized(const dop_compile_job *job, const dop_log *log)
{
    enum { MOST = 16 };
    const dop_compilation *c = &job->list[0];
    again list[MOST];
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->pack.n; i++) {
        const dop_packed *x = &c->pack.items[i];
        uint64_t row = 0;
        uint32_t k = 0;
        if (!x->source || x->source->type == x->type || dop_type_of(x->source->type)->kind != DOP_KIND_QUANT)
            continue;
        while (k < n && (list[k].from != x->source->type || list[k].to != x->type))
            k++;
        if (k == MOST)
            continue;
        if (k == n)
            list[n++] = (again){.from = x->source->type, .to = x->type};
        (void)dop_type_row_bytes(x->source->type, x->cols, &row);
        list[k].count++;
        list[k].before += row * x->rows * x->experts;
        list[k].after += x->size;
    }
    for (uint32_t k = 0; k < n; k++) {
        const bool rounds = dop_type_of(list[k].to)->kind == DOP_KIND_QUANT;
        dop_log_printf(
            log,
            "%s: note: %u weight%s that the model stores as %s become%s %s (%.1f MiB become %.1f): %s; leave "
            "them with `quant` keep%s",
            job->model, list[k].count, list[k].count == 1 ? "" : "s", dop_type_of(list[k].from)->name,
            list[k].count == 1 ? "s" : "", dop_type_of(list[k].to)->name, (double)list[k].before / (1 << 20),
            (double)list[k].after / (1 << 20),
            rounds ? "they are rounded a second time, and both errors add up"
                   : "what was lost when they were rounded does not come back",
            rounds ? ", or quantize the model as it was before" : "");
    }
}

static void
note_targets(const dop_compile_job *job, const char *writes, const dop_log *log)
{
    const dop_target *t = job->list[0].target;
    if (job->n == 1 && t->device[0]) {
        dop_log_printf(log, "target %s: for %s, the device that doppler-exec picks here%s", t->name, t->device,
                       t->nearest ? "; no target file is for it, and this is the nearest one: costs are guesses" : "");
        if (t->nearest && writes)
            dop_log_printf(
                log,
                "nobody has said that it works there: doppler-exec %s --check compares every kernel with the "
                "reference, dopplerc %s --tune --target-out FILE.yaml measures a target for it",
                writes, job->model);
        return;
    }
    dop_buf line = {0};
    for (uint32_t i = 0; i < job->n; i++)
        dop_buf_printf(&line, "%s %s", i ? "," : "", job->list[i].target->name);
    dop_log_printf(log, "target%s: as `target` says", line.data ? line.data : "");
    dop_buf_finish(&line);
}

static void
note_parts(const dop_compile_job *job, const dop_log *log)
{
    dop_buf line = {0};
    for (uint32_t i = 0; i < job->cuts.n_parts; i++)
        dop_buf_printf(&line, "%s %u to %u", i ? "," : "", i ? job->cuts.end[i - 1] : 0, job->cuts.end[i] - 1);
    dop_log_printf(log, "layers of the parts:%s", line.data ? line.data : "");
    dop_buf_finish(&line);
}

void
dop_compile_job_note_stale(const dop_compile_job *job, const dop_log *log)
{
    const dop_kernel_path *p = &job->list[0].path;
    if (p->n_skipped > 1)
        dop_log_printf(log, "note: %s; skipped, with %u more rules that were measured elsewhere", p->skipped,
                       p->n_skipped - 1);
    else if (p->n_skipped)
        dop_log_printf(log, "note: %s; skipped, as it was measured elsewhere", p->skipped);
    if (job->list[0].stale)
        dop_log_printf(log, "%s: note: measured %s: ignored; make it again with dopplerc --tune",
                       job->list[0].stale_file, job->list[0].stale);
}

void
dop_compile_job_notes(const dop_compile_job *job, const char *plan, const dop_log *log)
{
    const dop_compilation *c = &job->list[0];
    const dop_checkpoint *m = &c->model;
    note_targets(job, plan, log);
    if (job->parts)
        note_parts(job, log);
    if (m->note)
        dop_log_printf(log, "%s: note: %s", job->model, m->note);
    if (c->options.quant && strcmp(c->options.quant, "keep") != 0)
        note_requantized(job, log);
    if (c->n_unweighed)
        dop_log_printf(
            log, "%s: note: %s has nothing about %u of the quantized weights: all of their inputs matter the same",
            job->model, job->asked->imatrix, c->n_unweighed);
    if (c->ctx > m->arch.ctx_train) {
        uint64_t tables = 0;
        for (uint32_t i = 0; i < c->pack.n; i++)
            tables += c->pack.items[i].source ? 0 : c->pack.items[i].size;
        dop_log_printf(log,
                       "%s: note: `ctx` %u is more than the %u positions that the model was trained for: what it "
                       "writes past them may make no sense; tables of positions take %.1f MiB",
                       job->model, c->ctx, m->arch.ctx_train, (double)tables / (1 << 20));
    }
    if (plan && !m->tokenizer_json_path && !m->tokenizer_gguf_path && !m->tokenizer_ggml_path)
        dop_log_printf(log, "%s: note: no tokenizer is here: the plan takes and gives token ids only", job->model);
}
