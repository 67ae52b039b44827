#ifndef DOPPLER_RUNTIME_PARTS_MPI_MPI_INTERNAL_H
#define DOPPLER_RUNTIME_PARTS_MPI_MPI_INTERNAL_H

#include "runtime/parts/mpi/mpi.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

enum { DOP_MPI_LANES = 3 };

/* Message buffers for one direction to or from one rank: a ring of buffers in flight, or preposted for receiving. */
typedef struct dop_mpi_ring {
    uint32_t depth;        /* number of buffers; 0: this direction is not used */
    size_t most;           /* size of a buffer in bytes */
    uint8_t *buffers;      /* owned, [depth][most] */
    MPI_Request *requests; /* owned, [depth]; persistent requests when receiving */
    uint32_t next;         /* index of the next buffer to wait for */
    uint32_t held;         /* receiving: buffer that the caller still uses; UINT32_MAX: none */
} dop_mpi_ring;

/* Messages between watches. ALIVE: periodic; BYE: last message of a rank that ends normally; FAILED: the sender failed
 * and ends; LOST: rank 0 found that another rank is lost. */
typedef enum dop_mpi_word { DOP_MPI_ALIVE = 1, DOP_MPI_BYE, DOP_MPI_FAILED, DOP_MPI_LOST } dop_mpi_word;
typedef struct dop_mpi_sign {
    uint32_t word; /* dop_mpi_word */
    uint32_t code; /* FAILED, LOST: dop_status */
    char text[1000];
} dop_mpi_sign;

/* Host and process of a rank. */
typedef struct dop_mpi_place {
    char host[64];
    int64_t pid;
} dop_mpi_place;

/* A rank that this one watches: rank 0 watches all others, the others watch rank 0. */
typedef struct dop_mpi_peer {
    uint32_t rank;
    MPI_Request receive, send; /* MPI_REQUEST_NULL: none */
    dop_mpi_sign received, sent;
    double heard_ms; /* dop_now_ms when the peer last reported */
    bool bye, said_bye;
    bool has_sign; /* the peer was informed of a failure */
} dop_mpi_peer;

typedef struct dop_mpi_window dop_mpi_window; /* mpi_window.c */

struct dop_mpi {
    dop_wire wire;
    MPI_Comm lanes, watching, host; /* host: communicator of all ranks on this host */
    MPI_Win window;
    /* in `window`: rings for rows from the previous and to the next rank; NULL: rows are sent as messages */
    dop_mpi_window *rows_in, *rows_out;
    bool has_slot;                      /* the caller still uses the oldest message of rows_in */
    dop_mpi_place *places;              /* owned, [n] */
    dop_mpi_ring (*out)[DOP_MPI_LANES]; /* owned, [n] */
    dop_mpi_ring (*in)[DOP_MPI_LANES];  /* owned, [n] */
    double silence_ms;
    /* State of the watch thread. */
    pthread_t thread;
    bool started;
    dop_mpi_peer *peers; /* owned, used only by the watch */
    uint32_t n_peers;
    _Atomic bool ending;  /* the watch must say BYE */
    _Atomic bool failed;  /* a rank is lost; set after the fields that describe it */
    _Atomic bool failing; /* these fields are being set; only one thread does so */
    _Atomic bool silent;  /* the lost rank will not end by itself */
    bool told;            /* rank 0 has reported the loss to this rank, and prints it itself */
    bool passed_on;       /* rank 0 only: the other ranks were informed of the loss */
    dop_status code;
    char why[1200];
    _Atomic bool has_sign; /* this rank has failed, and the watch must send `sign` */
    dop_mpi_sign sign;
};

/* mpi_watch.c */
dop_status dop_mpi_watch_start(dop_mpi *mpi, dop_diag *diag);
/* Sends BYE, and waits until all peers have sent it. */
void dop_mpi_watch_end(dop_mpi *mpi);
double dop_mpi_now_ms(void);
/* Prints why all ranks end. Only one rank prints: rank 0, or rank 1 if rank 0 is lost. */
void dop_mpi_watch_say(const dop_mpi *mpi);

/* mpi_window.c. Every rank of a host must call the first two. */
void dop_mpi_window_make(dop_mpi *mpi);
void dop_mpi_window_free(dop_mpi *mpi);
dop_status dop_mpi_window_send(dop_mpi *mpi, const void *bytes, size_t size, dop_diag *diag);
dop_status dop_mpi_window_receive(dop_mpi *mpi, dop_diag *diag, const uint8_t **out_bytes, size_t *out_size);
bool dop_mpi_window_ready(const dop_mpi *mpi);
/* Back-off between two polls of a waiting thread. looks: number of earlier polls. */
void dop_mpi_rest(const dop_mpi *mpi, uint64_t looks);

#endif
