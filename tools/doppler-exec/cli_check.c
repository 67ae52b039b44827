/* Mode --check: checks a plan, or its parts one after the other. */
#include "tools/check/check.h"
#include "tools/doppler-exec/cli_info.h"
#include "tools/doppler-exec/common/cli.h"
#include "tools/doppler-exec/common/cli_common.h"

/* Checks a plan, or one of its n parts (dop_part_fn). */
static dop_status
check_part(void *user, const dop_plan *plan, uint32_t n, uint32_t part, dop_diag *diag)
{
    dop_open_options o;
    if (!plan) {
        printf("part %u of %u: its file is not here\n", part, n);
        return DOP_OK;
    }
    dop_cli_open_options(user, &o);
    o.parts = plan->part ? plan->part->n_parts : 0;
    o.part = plan->part ? plan->part->number : 0;
    if (n > 1)
        printf("part %u of %u\n", part, n);
    return dop_check_plan(((const dop_cli *)user)->plans.items[0], &o, diag);
}

dop_status
dop_mode_check(dop_cli *cli, dop_diag *diag)
{
    return dop_cli_each_part(cli, check_part, cli, diag);
}
