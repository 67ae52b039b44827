/* Mode --report: the driver's statistics of a plan's compiled kernels. */
#include "runtime/device/pipeline_report.h"
#include "tools/doppler-exec/cli_info.h"
#include "tools/doppler-exec/common/cli.h"

static dop_status
report_part(void *user, const dop_plan *plan, uint32_t n, uint32_t part, dop_diag *diag)
{
    const dop_cli *cli = user;
    dop_buf text = {0};
    if (n > 1)
        dop_buf_printf(&text, "part %u of %u%s\n", part, n, plan ? "" : ": its file is not here");
    dop_status st = DOP_OK;
    if (plan)
        DOP_TRY(dop_pipelines_report(plan, cli->device, &text, diag));
    DOP_TRY(dop_cli_print_buf(&text, diag));
error:
    dop_buf_finish(&text);
    return st;
}

dop_status
dop_mode_report(dop_cli *cli, dop_diag *diag)
{
    return dop_cli_each_part(cli, report_part, cli, diag);
}
