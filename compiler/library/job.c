#include "compiler/library/job.h"

#include "base/format/adapter.h"
#include "compiler/library/make.h"
#include "compiler/schedule/kernel_path.h"
#include "compiler/target/target.h"
#include "compiler/write/plan_file.h"
#include "compiler/write/plan_write.h"
#include "frontend/not_a_model.h"
#include "runtime/model/info.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Finds the path of the binary that contains this code. Leaves *out unchanged if it is unknown. */
static void
find_own_path(char *out, size_t cap)
{
    static const char here = 0;
    Dl_info info;
    if (!dladdr(&here, &info) || !info.dli_fname)
        return;
    snprintf(out, cap, "%s", info.dli_fname);
    if (strchr(out, '/')) /* otherwise the name by which a program that holds this code was started */
        return;
    const ssize_t n = readlink("/proc/self/exe", out, cap - 1);
    out[n > 0 ? n : 0] = 0;
}

static dop_status
add_adapter(const char *argument, dop_inputs *inputs, dop_diag *diag)
{
    dop_arena arena;
    const char *path = NULL;
    double scale;
    dop_arena_init(&arena);
    dop_status st = DOP_OK;
    DOP_TRY(dop_adapter_argument(argument, &arena, diag, &path, &scale));
    DOP_TRY(dop_inputs_add(inputs, path, diag));
error:
    dop_arena_finish(&arena);
    return st;
}

/* Lists the files that the compilation reads: the model's files and the files named by options. */
static dop_status
list_inputs(dop_compile_job *job, dop_diag *diag)
{
    const dop_compile_options *a = job->asked;
    const char *read[] = {job->model, a->kernel_path, a->tuning, a->quant, a->imatrix, a->mmproj, a->draft_head};
    if (a->target)
        DOP_RETURN_IF_ERROR(dop_inputs_add_list(&job->inputs, a->target, diag));
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (read[i])
            DOP_RETURN_IF_ERROR(dop_inputs_add(&job->inputs, read[i], diag));
    char *beside = NULL;
    uint32_t n = 0;
    if (!a->mmproj)
        DOP_RETURN_IF_ERROR(dop_find_mmproj(job->model, &job->arena, diag, &beside, &n));
    if (n == 1)
        DOP_RETURN_IF_ERROR(dop_inputs_add(&job->inputs, beside, diag));
    for (size_t i = 0; i < a->n_loras; i++)
        DOP_RETURN_IF_ERROR(add_adapter(a->loras[i], &job->inputs, diag));
    for (size_t i = 0; i < a->n_controls; i++)
        DOP_RETURN_IF_ERROR(add_adapter(a->controls[i], &job->inputs, diag));
    return DOP_OK;
}

dop_status
dop_compile_job_prepare(const char *model, const dop_compile_options *asked, dop_diag *diag, dop_compile_job *job)
{
    *job = (dop_compile_job){.model = model, .asked = asked};
    dop_arena_init(&job->arena);
    find_own_path(job->own_path, sizeof job->own_path);
    DOP_RETURN_IF_ERROR(dop_compile_options_read(asked, &job->arena, diag, &job->options));
    job->options.own_path = job->own_path;
    return list_inputs(job, diag);
}

/* Fails if a list of avoided kernels, separated by spaces, contains an unknown name. source: owner of the list, for
 * messages. */
static dop_status
check_kernel_names(const char *names, const char *source, dop_status code, dop_diag *diag)
{
    char name[64];
    dop_variant_id ignored;
    dop_status st = DOP_OK;
    for (const char *at = names; *at && st == DOP_OK; at += strcspn(at, " "), at += *at == ' ') {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, " "), at);
        if (!dop_variant_parse(name, &ignored))
            st = dop_unknown_variant(source, name, code, diag);
    }
    return st;
}

/* Adds the kernels of --avoid to the target's own list, and checks the names of both. */
static dop_status
avoid_kernels(dop_target *t, const dop_compile_options *a, dop_diag *diag)
{
    dop_status st = DOP_OK;
    DOP_TRY(check_kernel_names(t->avoid, t->name, DOP_E_INPUT, diag));
    for (size_t i = 0; i < a->n_avoids; i++)
        for (const char *at = a->avoids[i], *end;; at = end + 1) {
            char name[64];
            end = at + strcspn(at, ",");
            snprintf(name, sizeof name, "%.*s", (int)(end - at), at);
            dop_variant_id ignored;
            if (!dop_variant_parse(name, &ignored))
                DOP_TRY(dop_unknown_variant("`avoids`", name, DOP_E_USAGE, diag));
            else if (!dop_target_avoid(t, name))
                DOP_TRY(DOP_FAIL(diag, DOP_E_USAGE, "`avoids` %s: these are too many", a->avoids[i]));
            if (!*end)
                break;
        }
error:
    if (dop_target_avoids(t, "persistent"))
        t->persistent = 0;
    return st;
}

dop_status
dop_compile_job_find_targets(dop_compile_job *job, dop_diag *diag)
{
    const dop_compile_options *a = job->asked;
    DOP_RETURN_IF_ERROR(dop_targets_resolve(a->target ? a->target : "auto", a->device, diag, job->targets, &job->n));
    for (uint32_t i = 0; i < job->n; i++)
        DOP_RETURN_IF_ERROR(avoid_kernels(&job->targets[i], a, diag));
    return DOP_OK;
}

/* Fails if the file `path`, or `path`.weights with external weights, is an input. */
static dop_status
refuse_input_path(const dop_compile_job *job, const char *path, dop_diag *diag)
{
    char *weights;
    dop_status st = dop_inputs_refuse(&job->inputs, path, diag);
    if (st != DOP_OK || !job->asked->external_weights)
        return st;
    if (asprintf(&weights, "%s.weights", path) < 0)
        return DOP_NO_MEMORY(diag);
    st = dop_inputs_refuse(&job->inputs, weights, diag);
    free(weights);
    return st;
}

dop_status
dop_compile_job_refuse_plan(const dop_compile_job *job, const char *plan, dop_diag *diag)
{
    DOP_RETURN_IF_ERROR(refuse_input_path(job, plan, diag));
    return dop_plan_refuse_open(plan, diag);
}

/* Compiles the model for target i. cuts: cuts between parts with different targets, or NULL. like: compilation whose
 * step sizes are reused, or NULL. */
static dop_status
make_target(dop_compile_job *job, uint32_t i, const dop_cuts *cuts, const dop_compilation *like, dop_diag *diag)
{
    dop_compilation_options opt = job->options;
    opt.target = &job->targets[i];
    opt.cuts = cuts;
    for (uint32_t k = 0; k < job->n && !job->asked->parts; k++) /* all targets share one layout of weights */
        if (opt.max_alloc == 0 || job->targets[k].max_alloc < opt.max_alloc)
            opt.max_alloc = job->targets[k].max_alloc;
    if (like) {
        opt.n_chunks = like->options.n_chunks;
        memcpy(opt.chunks, like->options.chunks, sizeof opt.chunks);
        opt.n_rows = like->options.n_rows;
        memcpy(opt.rows, like->options.rows, sizeof opt.rows);
    }
    if (job->begin)
        job->begin(job->user, job->n > 1 ? job->targets[i].name : NULL);
    return dop_compilation_make(job->model, &opt, diag, &job->list[i]);
}

/* Chooses the cuts from the first compilation. With several targets, the first compilation is then repeated with these
 * cuts, because no region may cross one. */
static dop_status
choose_cuts(dop_compile_job *job, dop_diag *diag)
{
    dop_compilation sized = {.options = job->list[0].options};
    dop_status st = dop_parts_choose(&job->list[0], job->asked->parts, job->asked->part_memory, diag, &job->cuts);
    if (st == DOP_OK && job->n > 1 && job->n != job->cuts.n_parts)
        st = DOP_FAIL(diag, DOP_E_USAGE, "`target` names %u targets for %u parts: name one for all, or one for each",
                      job->n, job->cuts.n_parts);
    if (st != DOP_OK || job->n == 1)
        return st;
    sized.options = job->list[0].options;
    dop_compilation_finish(&job->list[0]);
    return make_target(job, 0, &job->cuts, &sized, diag);
}

dop_status
dop_compile_job_make(dop_compile_job *job, dop_diag *diag)
{
    const bool cut = job->asked->parts != NULL;
    dop_status st = DOP_OK;
    if (!(job->list = calloc(job->n, sizeof *job->list)))
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < job->n && st == DOP_OK; i++) {
        st = make_target(job, i, i && cut ? &job->cuts : NULL, i && cut ? &job->list[0] : NULL, diag);
        if (i == 0 && st == DOP_OK && cut)
            st = choose_cuts(job, diag);
    }
    if (st == DOP_OK && job->options.passes.stop_after < 0 && !cut)
        st = dop_compilations_share(job->list, job->n, diag);
    if (st != DOP_OK || !cut)
        return st;
    if (!(job->parts = calloc(job->cuts.n_parts, sizeof *job->parts)))
        return DOP_NO_MEMORY(diag);
    return dop_parts_make(job->list, job->n, &job->cuts, diag, job->parts);
}

dop_status
dop_compile_job_write(const dop_compile_job *job, const char *plan, dop_diag *diag)
{
    const dop_compile_options *a = job->asked;
    dop_status st = DOP_OK;
    for (uint32_t i = 0; job->parts && i < job->cuts.n_parts && st == DOP_OK; i++) {
        char *part = NULL;
        if (asprintf(&part, "%s.part%u", plan, i) < 0)
            return DOP_NO_MEMORY(diag);
        st = refuse_input_path(job, part, diag);
        free(part);
    }
    if (st != DOP_OK)
        return st;
    const dop_plan_weights where = a->external_weights ? DOP_PLAN_WEIGHTS_EXTERNAL
                                   : a->model_weights  ? DOP_PLAN_WEIGHTS_MODEL
                                                       : DOP_PLAN_WEIGHTS_EMBED;
    return job->parts ? dop_plan_write_parts(job->parts, job->cuts.n_parts, plan, where, a->split, diag)
                      : dop_plan_write(job->list, job->n, plan, where, diag);
}

static uint64_t
get_file_size(const char *path)
{
    struct stat sb;
    return stat(path, &sb) == 0 && S_ISREG(sb.st_mode) ? (uint64_t)sb.st_size : 0;
}

void
dop_compile_job_facts(const dop_compile_job *job, const char *path, dop_compile_facts *out)
{
    *out = (dop_compile_facts){.bytes = get_file_size(path),
                               .n_parts = job->parts ? job->cuts.n_parts : 1,
                               .nearest = job->list[0].target->nearest};
    snprintf(out->target, sizeof out->target, "%s", job->list[0].target->name);
    for (uint32_t i = 0; i < out->n_parts && (out->bytes || job->parts); i++) { /* a pipe cannot be read again */
        uint64_t kinds[DOP_SLOT_KINDS];
        dop_plan plan;
        if (dop_plan_open_part(path, job->parts ? out->n_parts : 0, i, NULL, &plan) != DOP_OK)
            continue;
        out->bytes += job->parts && job->asked->split ? plan.size : 0;
        for (uint32_t f = 0; f < plan.n_files; f++)
            out->bytes += plan.files[f].model ? 0 : plan.files[f].size;
        if (dop_used_memory(&plan, 0, NULL, kinds) == DOP_OK)
            for (uint32_t k = 0; k < DOP_SLOT_KINDS; k++)
                out->device_bytes += kinds[k];
        dop_plan_close(&plan);
    }
}

void
dop_compile_job_finish(dop_compile_job *job)
{
    if (job->parts)
        dop_parts_finish(job->parts, job->cuts.n_parts);
    free(job->parts);
    for (uint32_t i = 0; job->list && i < job->n; i++)
        dop_compilation_finish(&job->list[i]);
    free(job->list);
    dop_inputs_finish(&job->inputs);
    dop_arena_finish(&job->arena);
    memset(job, 0, sizeof *job);
}
