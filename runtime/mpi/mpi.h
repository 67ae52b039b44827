/* A wire between ranks (runtime/wire.h) that MPI carries, and who notices when a rank is lost.
 *
 * MPI is started by dop_mpi_start and used by the thread that drives the model and by a watch, a thread of each rank that
 * says it is alive twice a second, looks whether the others are, and makes MPI move what is under way meanwhile.  A rank that
 * has gone, or has not said anything for dop_mpi_options.silence_s, is lost: whoever waits for it gets an error that names it,
 * and when the program has not ended a little later the watch says so itself and ends all ranks. */
#ifndef DOPPLER_RUNTIME_MPI_MPI_H
#define DOPPLER_RUNTIME_MPI_MPI_H

#include "runtime/wire.h"

typedef struct dop_mpi dop_mpi;

typedef struct dop_mpi_options {
    double silence_s; /* how long a rank may say nothing; 0: 6 s */
    bool messages;    /* ranks of one host send messages too, as those of several do */
} dop_mpi_options;

/* Starts MPI; every rank calls it.  One at a time in a process, and once. */
dop_status dop_mpi_start(const dop_mpi_options *options, dop_diag *diag, dop_mpi **out_mpi);
/* Of this rank; lives as long as `mpi`. */
const dop_wire *dop_mpi_wire(const dop_mpi *mpi);
/* Every rank calls it, after rank 0 has sent its last order and the others have done it.  st: how the program ends.  Where a rank
 * is lost it ends all of them, with the exit status of st, and does not return.  Accepts NULL. */
void dop_mpi_end(dop_mpi *mpi, dop_status st);

#endif
