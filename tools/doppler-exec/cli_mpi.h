/* doppler-exec under mpirun: rank 0 is the program, and the others help it. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLI_MPI_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLI_MPI_H

#include "tools/doppler-exec/common/cli.h"

/* If a plan of the command line is in parts and the mode runs it, loads the module that knows MPI (doppler-mpi.so, a package of its
 * own), starts MPI and sets cli->wire.  On ranks other than 0 this returns when everything is over, with *out_done set. */
dop_status dop_cli_mpi_start(dop_cli *cli, dop_mode_fn *mode, dop_diag *diag, bool *out_done);
/* Call after everything else, with the program's exit status. */
void dop_cli_mpi_end(dop_cli *cli, dop_status st);

#endif
