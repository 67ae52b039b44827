/* MPI implementation of a wire (runtime/parts/lead/wire.h), with detection of lost ranks.
 *
 * dop_mpi_start starts MPI. Two threads of each rank use it: the one that drives the model, and a watch. The watch
 * reports twice a second that its rank is alive, checks the others, and lets MPI make progress. A rank that has ended,
 * or has not reported for dop_mpi_options.silence_s, is lost: a thread that waits for it gets an error that names it.
 * If the program does not end soon after, the watch reports the loss and ends all ranks. */
#ifndef DOPPLER_RUNTIME_PARTS_MPI_MPI_H
#define DOPPLER_RUNTIME_PARTS_MPI_MPI_H

#include "runtime/parts/lead/wire.h"

typedef struct dop_mpi dop_mpi;

typedef struct dop_mpi_options {
    double silence_s; /* seconds without a report after which a rank is lost; 0: 6 s */
    bool messages;    /* ranks on one host also exchange rows as messages, as between hosts */
} dop_mpi_options;

/* Starts MPI; every rank must call it, once per process. */
dop_status dop_mpi_start(const dop_mpi_options *options, dop_diag *diag, dop_mpi **out_mpi);
/* Returns the wire of this rank, which lives as long as `mpi`. */
const dop_wire *dop_mpi_wire(const dop_mpi *mpi);
/* Ends MPI. Every rank must call it after rank 0's last order is executed. st: final status of the program. If a rank
 * is lost, ends all ranks with the exit status of st and does not return. Accepts NULL. */
void dop_mpi_end(dop_mpi *mpi, dop_status st);

/* doppler-mpi.so, which doppler-exec loads only to run a plan in parts. The module works only with the library release
 * that it was linked with; the loader refuses any other. */
#define DOP_MPI_MODULE "doppler-mpi"
#define DOP_MPI_ENTRY "dop_mpi_entry"
typedef struct dop_mpi_module {
    dop_status (*start)(const dop_mpi_options *options, dop_diag *diag, dop_mpi **out_mpi); /* dop_mpi_start */
    const dop_wire *(*wire)(const dop_mpi *mpi);                                            /* dop_mpi_wire */
    void (*end)(dop_mpi *mpi, dop_status st);                                               /* dop_mpi_end */
} dop_mpi_module;
extern const dop_mpi_module dop_mpi_entry;

#endif
