/* Shared by the files of the HTTP server: http.c, starting and stopping; http_loop.c, the thread that owns the sockets;
 * http_connection.c, one connection; http_bodies.c, memory for bodies; http_work.c, the workers; http_log.c; http_rules.c, who may ask;
 * http_parse.c, message framing. */
#ifndef DOPPLER_SERVE_HTTP_HTTP_INTERNAL_H
#define DOPPLER_SERVE_HTTP_HTTP_INTERNAL_H

#include "base/budget.h"
#include "serve/http/http.h"
#include "serve/http/http_parse.h"
#include "serve/http/http_rules.h"

#include <pthread.h>

typedef struct dop_connection dop_connection;

/* The state of an exchange, which is a request that workers answer.  The state says who may use the exchange: the thread of the
 * sockets where it is PARKED or FULL, a worker otherwise; the lock guards the state. */
typedef enum dop_exchange_state {
    DOP_EXCHANGE_QUEUED,  /* waits for a worker */
    DOP_EXCHANGE_RUNS,    /* a worker works on the exchange */
    DOP_EXCHANGE_REPORTS, /* has something new to send (dop_http.news) */
    DOP_EXCHANGE_PARKED,  /* waits for its call to wake it */
    DOP_EXCHANGE_FULL     /* waits for its client to read what was written */
} dop_exchange_state;

typedef struct dop_exchange {
    dop_http *http;
    char *method, *path, *query; /* owned */
    dop_buf body;
    dop_http_client whose;
    dop_budget budget;  /* for all work on the request before its call begins */
    double deadline_ms; /* of that work, as the server's limits have it; 0: none */
    atomic_bool cancelled;
    dop_call *call;
    dop_answer answer;
    bool waits;       /* for its model: the request is read again when that is loaded */
    bool events;      /* with waits: the answer will be a stream of events */
    bool begun, over; /* a worker has read the request; nothing more will be written */

    /* under the lock */
    dop_exchange_state state;
    bool again;    /* its call has woken the exchange since a worker looked at it */
    bool large;    /* reading the request takes long: its body is long, or it took long once */
    bool counted;  /* the exchange is counted in dop_http.n_large */
    bool put_back; /* a worker gave up reading the request, to stay free: it is read again as a large one */
    dop_connection *connection; /* NULL: its client is gone, and whoever has the exchange ends it */
    struct dop_exchange *next;  /* in a queue (dop_http.work, .answers), or in dop_http.news */
} dop_exchange;

typedef struct dop_exchange_list {
    dop_exchange *first, *last;
} dop_exchange_list;

enum { DOP_HTTP_ID = 72 /* bytes of a request's id, at most, with its end */ };

typedef enum dop_connection_state {
    DOP_CONNECTION_HEAD,    /* a head is read, or waited for */
    DOP_CONNECTION_BODY,    /* a body is read */
    DOP_CONNECTION_WAITS,   /* an exchange answers */
    DOP_CONNECTION_FLUSHES, /* the whole answer is in `out` */
    DOP_CONNECTION_LINGERS /* the answer is sent, and what still comes is dropped, so that the client gets to read the answer */
} dop_connection_state;

/* A client's connection; only the thread of the sockets uses it. */
struct dop_connection {
    dop_http *http;
    dop_connection *next, *before;
    int fd;
    uint32_t events; /* epoll events for which the socket is registered */
    dop_connection_state state;
    double since_ms; /* dop_now_ms when the state began; while a head arrives, when its first byte came */
    double heard_ms; /* dop_now_ms when a byte came last */
    bool asked;      /* a request has come in full */
    bool closes;     /* the connection is closed after this answer */
    bool left;       /* the client has closed its sending side */
    dop_buf in;      /* bytes received and not used yet */
    bool again;      /* `in` may hold another request */
    size_t seen;     /* bytes of `in` that dop_http_read_head has looked at */
    dop_http_head head;
    char *head_bytes; /* owned: what head points into */
    dop_http_chunks chunks;
    dop_buf body;
    uint64_t received; /* bytes of the body that have come, dropped ones included */
    uint64_t reserved; /* bytes of dop_http.memory for the body, until a worker has read it */
    uint64_t wanted;   /* bytes to be reserved before more of the body is received; 0: it may go on */
    dop_buf out;
    size_t sent; /* bytes of out */
    double
        progress_ms; /* when `out` was last empty, or enough of it was read; while a body arrives, when enough of it came */
    size_t progress;       /* bytes sent, or received, since progress_ms */
    bool begun;            /* the head of the answer is written */
    bool chunked;          /* the answer is sent in chunks */
    bool comments;         /* the answer is a stream of events, which may have comments */
    bool pings;            /* in place of comments, Anthropic's event `ping` */
    double wrote_ms;       /* dop_now_ms when something was last written to `out` */
    char client[48];       /* the client's address */
    dop_http_client whose; /* whose request it is */
    char id[DOP_HTTP_ID];  /* the request's id */
    double asked_ms;       /* dop_now_ms when the request's head had come */
    unsigned status;       /* HTTP status of the answer; 0: none is written */
    bool complete;         /* all of the answer was sent */
    dop_answer_counts counts;
    dop_exchange *exchange;
};

enum { DOP_HTTP_WORKERS = 4, DOP_HTTP_WRITERS = 2 };
enum {
    DOP_HTTP_SMALL_BODY = 1 << 14 /* bytes of a body that needs no reservation: connections bound the sum of these */
};

/* Memory for bodies of one kind. */
typedef struct dop_http_memory {
    uint64_t reserved;  /* bytes of bodies that arrive or wait to be read */
    uint32_t n_wanting; /* connections that wait to reserve memory */
} dop_http_memory;

struct dop_http {
    const dop_api *api;
    dop_http_options options;
    dop_http_names names;
    uint64_t first_id, n_ids; /* ids for requests without one are first_id + n_ids, which counts up */
    char url[600];
    int listener, epoll, event; /* event: an eventfd that wakes the thread of the sockets */
    pthread_t thread, threads[DOP_HTTP_WORKERS + DOP_HTTP_WRITERS];
    uint32_t n_threads;
    bool runs; /* the thread of the sockets has been started */

    /* used by the thread of the sockets only */
    dop_connection *connections;
    uint32_t n_connections;
    dop_http_memory memory[2]; /* for bodies, and for long bodies (http_bodies.c) */
    dop_connection *closed;    /* list of closed connections, to be freed after the events at hand */
    bool stopped;              /* the listener is closed for good */
    bool accepts;              /* the listener is registered */
    double accept_ms;          /* dop_now_ms when the listener may be registered again */

    pthread_mutex_t lock;
    pthread_cond_t more_work, more_answers;
    /* under the lock */
    bool stops, ends;                /* no new requests; nothing at all */
    dop_exchange_list work, answers; /* queues: requests to read; answers to write */
    dop_exchange_list news;          /* exchanges with something new, for the thread of the sockets */
    uint32_t n_exchanges, n_large;   /* n_large: large exchanges that workers are reading */
};

/* http_work.c.  The lock must not be held. */
bool dop_http_start_workers(dop_http *h);
void dop_http_join_workers(dop_http *h);
/* Begins the exchange of a connection's request, of which the head is given, and takes over the body.  NULL: out of memory. */
dop_exchange *dop_exchange_begin(dop_connection *c, const dop_api_request *head, dop_buf *io_body);
/* The next exchange with something new; NULL: there is none. */
dop_exchange *dop_exchange_next(dop_http *h);
/* Says that the exchange's news have been taken, and whether its client has room for more. */
void dop_exchange_go_on(dop_exchange *x, bool has_room);
/* Continues an exchange whose client has read enough to have room again; does nothing unless the exchange is FULL. */
void dop_exchange_resume(dop_exchange *x);
/* Ends an exchange whose client is gone or has its answer.  A worker frees the exchange. */
void dop_exchange_end(dop_exchange *x);
void dop_http_wake(dop_http *h);

/* http_connection.c */
dop_connection *dop_connection_open(dop_http *h, int fd);
void dop_connection_close(dop_connection *c);
/* Handles epoll events of the socket.  This function and the next two may close the connection. */
void dop_connection_ready(dop_connection *c, uint32_t events);
/* Sends what an exchange has written. */
void dop_connection_hear(dop_connection *c, dop_exchange *x);
/* Continues to receive a body whose memory was reserved. */
void dop_connection_resume(dop_connection *c);
/* Ends the connection where a deadline has passed. */
void dop_connection_check(dop_connection *c, double now_ms);
/* How readily the connection gives way to a new one where there is no room, the largest value first; 0: not at all. */
double dop_connection_idles(const dop_connection *c, double now_ms);
/* Takes no more requests: closes the connection unless an answer is under way. */
void dop_connection_stop(dop_connection *c);

/* http_bodies.c */
/* Reserves memory for a body.  False: there is none now, and the connection waits for dop_http_grant_next. */
bool dop_connection_reserve(dop_connection *c, uint64_t bytes);
void dop_connection_unreserve(dop_connection *c);
/* Gives memory to the connection that has waited longest, and returns it.  NULL: none waits, or there is no room; *out_stalled is then a
 * connection whose body stalls and is to be closed, or NULL. */
dop_connection *dop_http_grant_next(dop_http *h, double now_ms, dop_connection **out_stalled);

/* http_log.c */
/* Sets the request's id, once: the one that its client gave it, where a log can have it, or one of the server's. */
void dop_http_name_request(dop_connection *c);
/* Writes the log line of a request that was answered or whose client left, unless no log is wanted. */
void dop_http_log_answer(dop_connection *c);

/* http_loop.c */
void *dop_http_loop(void *http);

#endif
