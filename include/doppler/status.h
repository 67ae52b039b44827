/* What every part of libdoppler shares: results of calls, and the log of the library's decisions.
 *
 * The headers of this folder are the whole interface of libdoppler.  They need only the C standard library, and compile as
 * C11 and C++11.  Every name begins with dop_ or DOP_. */
#ifndef DOPPLER_INCLUDE_DOPPLER_STATUS_H
#define DOPPLER_INCLUDE_DOPPLER_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Release number of library and programs; the plan format has its own version. */
#define DOP_VERSION "0.1.0"

/* Result of every call that can fail.  Anything but DOP_OK leaves one message in the dop_diag that was passed. */
typedef enum dop_status {
    DOP_OK = 0,
    DOP_E_INPUT,    /* outside data is missing, damaged or not supported, or a call does not fit its object */
    DOP_E_DEVICE,   /* the device cannot do it, was lost, or is out of memory */
    DOP_E_IO,       /* the operating system refused */
    DOP_E_NOMEM,    /* host memory */
    DOP_E_USAGE,    /* calls in the wrong order, unknown names; in a program: a wrong command line */
    DOP_E_INTERNAL, /* a broken invariant of the library */
    DOP_E_FULL,     /* no page of the caches is free; try again after another sequence has released some */
    DOP_E_LIMIT,    /* the work on outside data reached a bound of steps, bytes or time, and was given up */
    DOP_E_CANCELLED /* the caller's dop_progress ended the work */
} dop_status;

/* One diagnostic: the first cause of a failed call.  The caller owns it; no initialization is needed.  Every function that takes one
 * clears it first, so that after the call it holds that call's failure, or DOP_OK and no message: one serves for any number of
 * calls.  NULL: no message is wanted.  It has no heap memory.  Calls in several threads need one each. */
typedef struct dop_diag {
    dop_status code;
    char path[512]; /* file that the message is about, "" if none */
    long line;      /* 1-based line in that file, 0 if none */
    long column;    /* 1-based column, 0 if none */
    /* One sentence: what is wrong, and what to do.  Fields of options and functions of these headers stand in it between backquotes:
     * "compile with a larger `ctx`". */
    char message[1024];
    const char *src_file; /* where in the library's source it was raised; static */
    int src_line;
} dop_diag;

/* Receives lines about what the library decides, without a newline, valid until the function returns.  Threads of the
 * library may call it.  A zeroed struct drops the lines. */
typedef struct dop_log {
    void (*line)(void *user, const char *text);
    void *user;
} dop_log;

/* Receives how far long work is: `done` of `all`, in the unit that the step counts in, which the function that takes a
 * dop_progress names.  False cancels the work: the call fails with DOP_E_CANCELLED.  One thread at a time calls it, not always the
 * caller's, and it must not use the object that the work is on. */
typedef bool dop_progress_fn(void *user, const char *step, uint64_t done, uint64_t all);

/* A zeroed struct reports nothing. */
typedef struct dop_progress {
    dop_progress_fn *fn;
    void *user;
} dop_progress;

/* Frees memory that a function of the library returned to the caller; accepts NULL.  Any thread. */
void dop_free(void *memory);

/* The release of the linked library, in the form of DOP_VERSION; static.  Any thread. */
const char *dop_version(void);

#ifdef __cplusplus
}
#endif

#endif
