/* Models of --models. Each is compiled into the cache with its own options, as by doppler-exec MODEL. */
#include "base/os/clock.h"
#include "tools/doppler-exec/on_demand/models.h"
#include "tools/doppler-exec/serve_host.h"

#include <stdio.h>
#include <string.h>

/* Logs the start of each compilation step, then progress every few seconds (dop_progress_fn). */
static bool
log_compile_progress(void *user, const char *step, uint64_t done, uint64_t all)
{
    enum { PAUSE_MS = 5000 };
    dop_host_model *x = user;
    const double now = dop_now_ms();
    const bool fresh = !x->step || strcmp(x->step, step) != 0;
    if (!x->cli.quiet && all > 0 && (fresh || now - x->told_ms > PAUSE_MS)) {
        dop_say("info", "%s: compiling: %s %d%%", x->id, step, (int)(100 * (double)done / (double)all));
        x->step = step;
        x->told_ms = now;
    }
    return !atomic_load(x->stop);
}

/* Finds or compiles the plan as at the first start, because the model's files may have changed. */
static dop_status
begin_model_plan(dop_host_model *x, dop_diag *diag)
{
    const dop_options_given none = {0};
    dop_cli_models_finish(&x->cli);
    x->cli.plans.count = 0;
    x->cli.made = false;
    if (x->path)
        DOP_RETURN_IF_ERROR(dop_texts_push(&x->cli.plans, x->path, diag));
    return dop_cli_models_take(&x->cli, NULL, 0, &none, diag);
}

dop_status
dop_host_make(dop_host_model *model, const atomic_bool *stop, dop_diag *diag, uint64_t *out_bytes)
{
    dop_host_model *x = model;
    const double start = dop_now_ms();
    dop_status st = x->st;
    x->step = NULL;
    x->stop = stop;
    x->cli.progress = (dop_progress){log_compile_progress, x};
    if (st == DOP_OK) {
        st = begin_model_plan(x, diag);
    } else { /* opening it failed before */
        *diag = x->why;
        x->st = DOP_OK;
        x->cli.made = false;
        (void)dop_cli_models_again(&x->cli, &st, diag);
    }
    *out_bytes = dop_cli_models_bytes(&x->cli);
    if (st == DOP_OK && x->cli.made && !x->cli.quiet)
        dop_say("info", "%s: compiled in %.1f s", x->id, (dop_now_ms() - start) / 1e3);
    if (st != DOP_OK && st != DOP_E_CANCELLED) {
        dop_diag line = *diag;
        if (!line.path[0])
            snprintf(line.path, sizeof line.path, "%s", x->id);
        dop_diag_print(&line, "doppler-exec", x->cli.verbose);
    }
    return st;
}

dop_status
dop_host_open_made(dop_host_model *model, dop_diag *diag, dop_hosted **out_hosted)
{
    dop_host_model *x = model;
    dop_status st = dop_host_open(&x->cli, x->cli.plans.items[0], x->id, diag, out_hosted);
    x->st = st;
    if (st != DOP_OK)
        x->why = *diag;
    else
        (void)dop_cli_models_again(&x->cli, &st, diag); /* records what the run learned about the device */
    return x->st;
}
