/* A wire between ranks (runtime/parts/lead/wire.h) over MPI, which also notices when a rank is lost.
 *
 * MPI is started by dop_mpi_start.  It is used by the thread that drives the model and by a watch, a thread of each rank that
 * reports twice a second that it is alive, checks whether the others are, and lets MPI make progress meanwhile.  A rank that
 * has ended, or has not reported for dop_mpi_options.silence_s, is lost: a thread that waits for it gets an error that names it.
 * If the program has not ended a little later, the watch itself reports the loss and ends all ranks. */
#ifndef DOPPLER_RUNTIME_PARTS_MPI_MPI_H
#define DOPPLER_RUNTIME_PARTS_MPI_MPI_H

#include "runtime/parts/lead/wire.h"

typedef struct dop_mpi dop_mpi;

typedef struct dop_mpi_options {
    double silence_s; /* how long a rank may be silent; 0: 6 s */
    bool messages;    /* ranks of one host also exchange rows as messages, as ranks of different hosts do */
} dop_mpi_options;

/* Starts MPI; every rank calls it.  One at a time in a process, and once. */
dop_status dop_mpi_start(const dop_mpi_options *options, dop_diag *diag, dop_mpi **out_mpi);
/* The wire of this rank; lives as long as `mpi`. */
const dop_wire *dop_mpi_wire(const dop_mpi *mpi);
/* Every rank calls it, after rank 0 has sent its last order and the others have executed it.  st: how the program ends.  If a
 * rank is lost, it ends all ranks with the exit status of st and does not return.  Accepts NULL. */
void dop_mpi_end(dop_mpi *mpi, dop_status st);

/* doppler-mpi.so: what doppler-exec loads when it runs a plan in parts, because nothing else needs MPI.  The module belongs to
 * the release of the library that it was linked with, and the loader refuses it beside another one. */
#define DOP_MPI_MODULE "doppler-mpi"
#define DOP_MPI_ENTRY "dop_mpi_entry"
typedef struct dop_mpi_module {
    dop_status (*start)(const dop_mpi_options *options, dop_diag *diag, dop_mpi **out_mpi); /* dop_mpi_start */
    const dop_wire *(*wire)(const dop_mpi *mpi);                                            /* dop_mpi_wire */
    void (*end)(dop_mpi *mpi, dop_status st);                                               /* dop_mpi_end */
} dop_mpi_module;
extern const dop_mpi_module dop_mpi_entry;

#endif
