/* libdopplerc: implements doppler/compile.h. */
#include "compiler/library/job.h"

dop_status
dop_compile(const char *model, const char *plan, const dop_compile_options *options, dop_diag *diag,
            dop_compile_facts *out_facts)
{
    static const dop_compile_options defaults;
    dop_compile_job job;
    dop_diag_clear(diag);
    if (out_facts)
        *out_facts = (dop_compile_facts){.n_parts = 0};
    if (!options)
        options = &defaults;
    dop_status st = DOP_OK;
    DOP_TRY(dop_compile_job_prepare(model, options, diag, &job));
    DOP_TRY(dop_compile_job_refuse_plan(&job, plan, diag));
    DOP_TRY(dop_compile_job_find_targets(&job, diag));
    DOP_TRY(dop_compile_job_make(&job, diag));
    DOP_TRY(dop_compile_job_write(&job, plan, diag));
    dop_compile_job_note_stale(&job, &options->notes);
    dop_compile_job_notes(&job, plan, &options->notes);
    if (out_facts)
        dop_compile_job_facts(&job, plan, out_facts);
error:
    dop_compile_job_finish(&job);
    return st;
}
