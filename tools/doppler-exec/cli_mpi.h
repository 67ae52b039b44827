/* doppler-exec under mpirun: rank 0 runs the program, the other ranks run their parts of the model for it. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_CLI_MPI_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_CLI_MPI_H

#include "tools/doppler-exec/common/cli.h"

/* Starts MPI and sets cli->wire if a plan of the command line is in parts and the mode runs it. Loads
 * doppler-mpi.so, which is a package of its own. On other ranks than 0, returns at the end of the program with
 * *out_done set. */
dop_status dop_cli_mpi_start(dop_cli *cli, dop_mode_fn *mode, dop_diag *diag, bool *out_done);
/* Ends MPI. Call last, with the program's exit status. */
void dop_cli_mpi_end(dop_cli *cli, dop_status st);

#endif
