#ifndef DOPPLER_RUNTIME_MPI_MPI_INTERNAL_H
#define DOPPLER_RUNTIME_MPI_MPI_INTERNAL_H

#include "runtime/mpi/mpi.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

enum { DOP_MPI_LANES = 3 };

/* One direction to or from one rank: a ring of buffers that are in flight or preposted. */
typedef struct dop_mpi_ring {
    uint32_t depth;        /* 0: this direction is not used */
    size_t most;           /* bytes of a buffer */
    uint8_t *buffers;      /* owned, [depth][most] */
    MPI_Request *requests; /* owned, [depth]; receiving: persistent */
    uint32_t next;         /* to be waited for */
    uint32_t held;         /* receiving: the buffer that the caller has; UINT32_MAX: none */
} dop_mpi_ring;

/* Messages between watches. */
typedef enum dop_mpi_word { DOP_MPI_ALIVE = 1, DOP_MPI_BYE, DOP_MPI_FAILED } dop_mpi_word;
typedef struct dop_mpi_sign {
    uint32_t word; /* dop_mpi_word */
    uint32_t code; /* FAILED: dop_status */
    char text[1000];
} dop_mpi_sign;

/* Where a rank runs. */
typedef struct dop_mpi_place {
    char host[64];
    int64_t pid;
} dop_mpi_place;

/* A rank that this one watches: rank 0 all others, the others rank 0. */
typedef struct dop_mpi_peer {
    uint32_t rank;
    MPI_Request receive, send; /* MPI_REQUEST_NULL: none */
    dop_mpi_sign received, sent;
    double heard_ms; /* when it last reported */
    bool bye, said_bye;
} dop_mpi_peer;

struct dop_mpi {
    dop_wire wire;
    MPI_Comm lanes, watching;
    dop_mpi_place *places;              /* owned, [n] */
    dop_mpi_ring (*out)[DOP_MPI_LANES]; /* owned, [n] */
    dop_mpi_ring (*in)[DOP_MPI_LANES];  /* owned, [n] */
    bool patient;                       /* there are too few processors to wait without sleeping */
    double silence_ms;
    /* The watch. */
    pthread_t thread;
    bool started;
    dop_mpi_peer *peers; /* owned, the watch's */
    uint32_t n_peers;
    _Atomic bool ending;  /* the watch must say goodbye */
    _Atomic bool failed;  /* a rank is lost, and the following are set: */
    _Atomic bool failing; /* they are being set */
    _Atomic bool silent;  /* the lost rank will not end by itself */
    bool told;            /* rank 0 has said so, and reports it */
    bool passed_on;       /* rank 0: the others are told */
    dop_status code;
    char why[1200];
    _Atomic bool has_sign; /* this rank has failed, and the watch must report it: */
    dop_mpi_sign sign;
};

/* mpi_watch.c */
dop_status dop_mpi_watch_start(dop_mpi *mpi, dop_diag *diag);
/* Says goodbye and waits until all have. */
void dop_mpi_watch_end(dop_mpi *mpi);
double dop_mpi_now_ms(void);

#endif
