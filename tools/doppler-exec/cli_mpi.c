#include "tools/doppler-exec/cli_mpi.h"
#include "plan/plan_part.h"
#include "runtime/parts/lead/ranks.h"
#include "runtime/parts/mpi/mpi.h"
#include "tools/doppler-exec/common/cli_common.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* True if a mode runs the whole plan, instead of inspecting it. */
static bool
runs_model(dop_mode_fn *mode)
{
    return mode == dop_mode_run || mode == dop_mode_score || mode == dop_mode_embed || mode == dop_mode_converse ||
           mode == dop_mode_bench || mode == dop_mode_serve;
}

/* Sets *out_n to the number of parts, which must be equal for all plans of the command line. 1: not divided; 0:
 * unknown because a file cannot be read, which opening it reports. */
static dop_status
count_parts(const dop_cli *cli, dop_diag *diag, uint32_t *out_n)
{
    *out_n = 1;
    if (cli->draft && dop_plan_count_parts(cli->draft) > 1)
        return DOP_FAIL_IN(diag, DOP_E_USAGE, cli->draft,
                           "a plan in parts cannot write drafts: compile the draft model without --parts");
    for (size_t i = 0; i < cli->plans.count; i++) {
        uint32_t n = dop_plan_count_parts(cli->plans.items[i]);
        if (n == 0) {
            *out_n = 0;
            return DOP_OK;
        }
        if (n > 1 && *out_n > 1 && n != *out_n)
            return DOP_FAIL(diag, DOP_E_USAGE,
                            "one plan is in %u parts and another one in %u: run them one after the other", *out_n, n);
        *out_n = n > *out_n ? n : *out_n;
    }
    if (cli->plans.count > 1 && *out_n > 1) /* plans are measured in turn, so all would be open; a rank holds one */
        return DOP_FAIL(diag, DOP_E_USAGE,
                        "several plans at a time, one of them in %u parts: run them one after the other", *out_n);
    return DOP_OK;
}

/* Loads the module from the program's library path (its run path). It stays loaded, because MPI's threads outlive
 * their use. MPI's own modules need its symbols to be global. */
static dop_status
load_module(uint32_t n, dop_diag *diag, const dop_mpi_module **out_module)
{
    void *handle = dlopen(DOP_MPI_MODULE ".so", RTLD_NOW | RTLD_GLOBAL);
    *out_module = handle ? dlsym(handle, DOP_MPI_ENTRY) : NULL;
    if (*out_module)
        return DOP_OK;
    const char *why = dlerror();
    return DOP_FAIL(diag, DOP_E_USAGE,
                    "the plan is in %u parts, which run under MPI: install the package " DOP_MPI_MODULE " (%s)", n,
                    why ? why : "not loaded");
}

/* Chooses the device for rank `local` of a host from --device A,B,..., round robin. */
static dop_status
choose_device(dop_cli *cli, uint32_t local, dop_diag *diag)
{
    uint32_t n = 1, at = 0;
    if (!cli->device || !strchr(cli->device, ','))
        return DOP_OK;
    char *all = strdup(cli->device), *rest = all; /* the options refer to it until the program ends */
    if (!all)
        return DOP_NO_MEMORY(diag);
    for (const char *c = all; *c; c++)
        n += *c == ',';
    for (char *one = strsep(&rest, ","); one; one = strsep(&rest, ","))
        if (at++ == local % n)
            cli->device = one;
    cli->device_list = all;
    return DOP_OK;
}

static void
log_line(void *user, const char *text)
{
    const dop_wire *w = user;
    if (dop_says_json())
        dop_say("info", "rank %u on %s: %s", w->rank, w->name, text);
    else
        fprintf(stderr, "rank %u on %s: %s\n", w->rank, w->name, text);
}

/* Runs ranks other than 0 until rank 0 ends. They ignore signals sent to all ranks, because rank 0 decides when to
 * stop: a server finishes its requests first. */
static dop_status
run_helper_rank(dop_cli *cli, dop_diag *diag)
{
    dop_open_options options;
    dop_wire wire = *cli->wire;
    (void)signal(SIGTERM, SIG_IGN);
    (void)signal(SIGINT, SIG_IGN);
    dop_cli_open_options(cli, &options);
    options.wire = NULL;
    if (cli->verbose)
        options.log = (dop_log){log_line, &wire};
    return dop_ranks_follow(cli->wire, &options, diag);
}

dop_status
dop_cli_mpi_start(dop_cli *cli, dop_mode_fn *mode, dop_diag *diag, bool *out_done)
{
    uint32_t n = 1;
    *out_done = false;
    const dop_status counted = runs_model(mode) ? count_parts(cli, diag, &n) : DOP_OK;
    if (counted == DOP_OK && n == 1 && !cli->launched)
        return DOP_OK;
    dop_status st = load_module(n, diag, &cli->mpi_module);
    if (st != DOP_OK)
        return counted != DOP_OK ? counted : n > 1 ? st : DOP_OK;
    if ((st = cli->mpi_module->start(NULL, diag, &cli->mpi)) != DOP_OK)
        return st;
    const dop_wire *wire = cli->mpi_module->wire(cli->mpi);
    *out_done = wire->rank > 0;
    if (counted != DOP_OK || !runs_model(mode)) /* every rank finds the failure; rank 0 reports it */
        return counted;
    if (wire->n > 1 && n == 1)
        return DOP_FAIL_IN(diag, DOP_E_USAGE, cli->plans.count ? cli->plans.items[0] : NULL,
                           "a plan in one piece, and there are %u ranks: run it without mpirun, or compile it with "
                           "--parts %u",
                           wire->n, wire->n);
    if (n == 1)
        return DOP_OK;
    if (wire->n == 1 && n == 0)
        return DOP_OK;
    if (wire->n == 1)
        return dop_plan_wants_ranks(cli->plans.items[0], n, diag);
    if (n > 0 && wire->n != n)
        return DOP_FAIL(wire->rank == 0 ? diag : NULL, DOP_E_USAGE,
                        "the plan is in %u parts and there are %u ranks: mpirun -n %u doppler-exec PLAN ...", n,
                        wire->n, n);
    cli->wire = wire;
    if ((st = choose_device(cli, wire->local, diag)) == DOP_OK && *out_done)
        st = run_helper_rank(cli, diag);
    return st;
}

void
dop_cli_mpi_end(dop_cli *cli, dop_status st)
{
    if (cli->wire && cli->wire->rank == 0)
        dop_ranks_dismiss(cli->wire);
    if (cli->mpi)
        cli->mpi_module->end(cli->mpi, st);
    free(cli->device_list);
}
