/* Declarations shared by all of libdoppler: status codes, diagnostics, logging and progress.
 *
 * The headers of this folder are the complete public interface.  They need only the C standard library, compile as C11 and C++11,
 * and every name begins with dop_ or DOP_. */
#ifndef DOPPLER_INCLUDE_DOPPLER_STATUS_H
#define DOPPLER_INCLUDE_DOPPLER_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Release number of the library and the programs; the plan format has a version of its own. */
#define DOP_VERSION "0.1.0"

/* Result of every call that can fail.  A result other than DOP_OK leaves a message in the dop_diag that was passed. */
typedef enum dop_status {
    DOP_OK = 0,
    DOP_E_INPUT,    /* external data is missing, damaged or not supported, or an argument does not fit the object */
    DOP_E_DEVICE,   /* the device lacks a feature, was lost, or is out of memory */
    DOP_E_IO,       /* an operating system call failed */
    DOP_E_NOMEM,    /* out of host memory */
    DOP_E_USAGE,    /* wrong call order or unknown name; in programs: wrong command line */
    DOP_E_INTERNAL, /* an internal invariant is broken (a bug) */
    DOP_E_FULL,     /* no cache page is free; retry after another sequence has released some */
    DOP_E_LIMIT,    /* a limit on steps, bytes or time for processing external data was reached */
    DOP_E_CANCELLED /* cancelled by the caller's dop_progress */
} dop_status;

/* Diagnostic of a failed call: its first cause.  Owned by the caller; needs no initialization and no release.  Every function
 * that accepts one clears it first, so one struct serves any number of calls.  NULL discards the message.  Use one struct per
 * thread. */
typedef struct dop_diag {
    dop_status code;
    char path[512]; /* file that the message refers to; "": none */
    long line;      /* line in that file, from 1; 0: none */
    long column;    /* column, from 1; 0: none */
    /* One sentence: the problem and the remedy.  Option fields and functions of these headers appear between backquotes: "compile
     * with a larger `ctx`". */
    char message[1024];
    const char *src_file; /* source file and line of the library that raised it; static */
    int src_line;
} dop_diag;

/* Log callback: receives one line about a decision of the library, without a newline, valid until it returns.  Threads of the
 * library may call it.  A zeroed struct discards the lines. */
typedef struct dop_log {
    void (*line)(void *user, const char *text);
    void *user;
} dop_log;

/* Progress callback: `done` of `all` units; the function that accepts a dop_progress names the steps and their units.  Returning
 * false cancels the work: the call fails with DOP_E_CANCELLED.  Called by one thread at a time, not always the caller's.  It must
 * not use the object in progress. */
typedef bool dop_progress_fn(void *user, const char *step, uint64_t done, uint64_t all);

/* Progress callback and its argument.  A zeroed struct reports nothing. */
typedef struct dop_progress {
    dop_progress_fn *fn;
    void *user;
} dop_progress;

/* Frees memory that a library function returned to the caller.  Accepts NULL.  Callable from any thread. */
void dop_free(void *memory);

/* Returns the release of the linked library in the form of DOP_VERSION (static string).  Callable from any thread. */
const char *dop_version(void);

#ifdef __cplusplus
}
#endif

#endif
