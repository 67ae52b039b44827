/* Shared by the files of the HTTP server. http.c: start and stop. http_loop.c: the socket thread. http_connection.c:
 * one connection. http_bodies.c: memory for bodies. http_work.c: workers. http_log.c: access log. http_rules.c: keys
 * and origins. http_parse.c: message framing. */
#ifndef DOPPLER_SERVE_HTTP_HTTP_INTERNAL_H
#define DOPPLER_SERVE_HTTP_HTTP_INTERNAL_H

#include "base/budget.h"
#include "serve/http/http.h"
#include "serve/http/http_parse.h"
#include "serve/http/http_rules.h"

#include <pthread.h>

typedef struct dop_connection dop_connection;

/* State of an exchange, a request that workers answer. The state also names the owner: the socket thread in PARKED
 * and FULL, a worker otherwise. The lock guards the state. */
typedef enum dop_exchange_state {
    DOP_EXCHANGE_QUEUED,  /* waits for a worker */
    DOP_EXCHANGE_RUNS,    /* a worker is processing the exchange */
    DOP_EXCHANGE_REPORTS, /* has new output to send (in dop_http.news) */
    DOP_EXCHANGE_PARKED,  /* waits until its call wakes it */
    DOP_EXCHANGE_FULL     /* waits until the client has read pending output */
} dop_exchange_state;

typedef struct dop_exchange {
    dop_http *http;
    char *method, *path, *query; /* owned */
    dop_buf body;
    dop_http_client whose;
    dop_budget budget;  /* budget for reading the request, until its call begins */
    double deadline_ms; /* deadline for reading the request (dop_now_ms), from the server's limits; 0: none */
    atomic_bool cancelled;
    dop_call *call;
    dop_answer answer;
    bool waits;       /* waits for its model to load; the request is read again then */
    bool events;      /* with `waits`: the answer will be an event stream */
    bool begun, over; /* begun: a worker has read the request; over: the answer is complete */

    /* Under the lock. */
    dop_exchange_state state;
    bool again;    /* the call has woken the exchange since a worker last ran it */
    bool large;    /* slow to read: has a long body, or exceeded LONG_MS before */
    bool counted;  /* the exchange is counted in dop_http.n_large */
    bool put_back; /* a worker gave up reading the request to stay available; it is read again as a large one */
    dop_connection *connection; /* NULL: the client is gone, and the exchange's owner must end it */
    struct dop_exchange *next;  /* next in a queue (dop_http.work, .answers) or in dop_http.news */
} dop_exchange;

typedef struct dop_exchange_list {
    dop_exchange *first, *last;
} dop_exchange_list;

enum { DOP_HTTP_ID = 72 /* maximum bytes of a request id, with its terminator */ };

typedef enum dop_connection_state {
    DOP_CONNECTION_HEAD,    /* reading or waiting for a request head */
    DOP_CONNECTION_BODY,    /* reading a request body */
    DOP_CONNECTION_WAITS,   /* an exchange is producing the answer */
    DOP_CONNECTION_FLUSHES, /* the whole answer is in `out` */
    /* the answer is sent; further input is dropped, so that the client can still read the answer */
    DOP_CONNECTION_LINGERS
} dop_connection_state;

/* A client's connection, used by the socket thread only. */
struct dop_connection {
    dop_http *http;
    dop_connection *next, *before;
    int fd;
    uint32_t events; /* epoll events for which the socket is registered */
    dop_connection_state state;
    double since_ms; /* dop_now_ms when the state began; in HEAD, when the first byte of the head arrived */
    double heard_ms; /* dop_now_ms of the last byte received */
    bool asked;      /* a complete request has been received before */
    bool closes;     /* close the connection after this answer */
    bool left;       /* the client has closed its sending side */
    dop_buf in;      /* received bytes that are not consumed yet */
    bool again;      /* `in` may hold another request */
    size_t seen;     /* bytes of `in` that dop_http_read_head has scanned */
    dop_http_head head;
    char *head_bytes; /* owned: bytes that `head` points into */
    dop_http_chunks chunks;
    dop_buf body;
    uint64_t received; /* bytes of the body received, including dropped ones */
    uint64_t reserved; /* bytes reserved in dop_http.memory for the body, until a worker has read it */
    uint64_t wanted;   /* bytes to reserve before receiving more of the body; 0: no reservation is pending */
    dop_buf out;
    size_t sent; /* bytes of `out` sent so far */
    double
        /* dop_now_ms of the last sufficient progress: `out` became empty or enough was sent; in BODY, enough was
         * received */
        progress_ms;
    size_t progress;       /* bytes sent or received since progress_ms */
    bool begun;            /* the answer's head has been written */
    bool chunked;          /* the answer uses chunked transfer coding */
    bool comments;         /* the answer is an event stream, which may have comments */
    bool pings;            /* sends Anthropic's `ping` events instead of comments */
    double wrote_ms;       /* dop_now_ms of the last write to `out` */
    char client[48];       /* client address */
    dop_http_client whose; /* client id and priority of the request */
    char id[DOP_HTTP_ID];  /* request id */
    double asked_ms;       /* dop_now_ms when the request's head was complete */
    unsigned status;       /* HTTP status of the answer; 0: not written yet */
    bool complete;         /* the whole answer was sent */
    dop_answer_counts counts;
    dop_exchange *exchange;
};

enum { DOP_HTTP_WORKERS = 4, DOP_HTTP_WRITERS = 2 };
enum {
    /* bytes of a body that needs no reservation; their sum is bounded by the number of connections */
    DOP_HTTP_SMALL_BODY = 1 << 14
};

/* Memory for bodies of one class (short or long). */
typedef struct dop_http_memory {
    uint64_t reserved;  /* bytes of bodies that are arriving or wait to be read */
    uint32_t n_wanting; /* number of connections that wait for a reservation */
} dop_http_memory;

struct dop_http {
    const dop_api *api;
    dop_http_options options;
    dop_http_names names;
    uint64_t first_id, n_ids; /* generated request ids are first_id + n_ids, and n_ids counts up */
    char url[600];
    int listener, epoll, event; /* event: eventfd that wakes the socket thread */
    pthread_t thread, threads[DOP_HTTP_WORKERS + DOP_HTTP_WRITERS];
    uint32_t n_threads;
    bool runs; /* the socket thread was started */

    /* Used by the socket thread only. */
    dop_connection *connections;
    uint32_t n_connections;
    dop_http_memory memory[2]; /* for short and for long bodies (http_bodies.c) */
    dop_connection *closed;    /* closed connections, freed after the current batch of events */
    bool stopped;              /* the listener is closed for good */
    bool accepts;              /* the listener is registered with epoll */
    double accept_ms;          /* dop_now_ms when the listener may be registered again */

    pthread_mutex_t lock;
    pthread_cond_t more_work, more_answers;
    /* Under the lock. */
    bool stops, ends;                /* stops: accept no new requests; ends: close everything */
    dop_exchange_list work, answers; /* queues: requests to read, and answers to write */
    dop_exchange_list news;          /* exchanges with new output for the socket thread */
    uint32_t n_exchanges, n_large;   /* n_large: large exchanges that workers are reading */
};

/* Functions of http_work.c. The lock must not be held. */
bool dop_http_start_workers(dop_http *h);
void dop_http_join_workers(dop_http *h);
/* Begins the exchange of a connection's request with this head, and takes ownership of the body. Returns NULL if
 * memory runs out. */
dop_exchange *dop_exchange_begin(dop_connection *c, const dop_api_request *head, dop_buf *io_body);
/* Returns the next exchange with new output; NULL: none. */
dop_exchange *dop_exchange_next(dop_http *h);
/* Reports that the exchange's output was consumed. has_room: the client can accept more. */
void dop_exchange_go_on(dop_exchange *x, bool has_room);
/* Continues an exchange in state FULL whose client has room again. Does nothing in other states. */
void dop_exchange_resume(dop_exchange *x);
/* Ends an exchange whose client is gone or has its answer. A worker frees it. */
void dop_exchange_end(dop_exchange *x);
void dop_http_wake(dop_http *h);

/* Functions of http_connection.c. */
dop_connection *dop_connection_open(dop_http *h, int fd);
void dop_connection_close(dop_connection *c);
/* Handles epoll events of the socket. This function and the next two may close the connection. */
void dop_connection_ready(dop_connection *c, uint32_t events);
/* Sends the new output of an exchange. */
void dop_connection_hear(dop_connection *c, dop_exchange *x);
/* Continues to receive a body whose memory was granted. */
void dop_connection_resume(dop_connection *c);
/* Closes or refuses the connection if a deadline has passed, and sends a keep-alive comment if one is due. */
void dop_connection_check(dop_connection *c, double now_ms);
/* Returns how suitable the connection is for closing in favor of a new one; 0: not at all. */
double dop_connection_idles(const dop_connection *c, double now_ms);
/* Accepts no more requests: closes the connection unless an answer is in progress. */
void dop_connection_stop(dop_connection *c);

/* Functions of http_bodies.c. */
/* Reserves memory for a body. Returns false if there is no room now; the connection then waits for
 * dop_http_grant_next. */
bool dop_connection_reserve(dop_connection *c, uint64_t bytes);
void dop_connection_unreserve(dop_connection *c);
/* Grants memory to the connection that has waited longest, and returns it. NULL: none waits, or there is no room. In
 * the latter case, *out_stalled is a connection with a stalled body that should be closed, or NULL. */
dop_connection *dop_http_grant_next(dop_http *h, double now_ms, dop_connection **out_stalled);

/* Functions of http_log.c. */
/* Sets the request's id if it has none: the client's, if it is printable and short, or a generated one. */
void dop_http_name_request(dop_connection *c);
/* Writes the log line of a request that was answered or whose client left, unless logging is off. */
void dop_http_log_answer(dop_connection *c);

/* Function of http_loop.c. */
void *dop_http_loop(void *http);

#endif
