/* --serve in a build without the server (DOPPLER_SERVE=OFF). */
#include "tools/doppler-exec/common/cli.h"

const bool dop_cli_has_server = false;

dop_status
dop_mode_serve(dop_cli *cli, dop_diag *diag)
{
    (void)cli;
    return DOP_FAIL(diag, DOP_E_USAGE, "--serve: this doppler-exec was built without the server");
}
