/* What every part of libdoppler shares: results of calls, and where the library says what it decides.
 *
 * The headers of this folder are the whole interface of libdoppler.  They need nothing but the C standard library, and are
 * C11 and C++11.  Every name begins with dop_ or DOP_. */
#ifndef DOPPLER_RUNTIME_INCLUDE_DOPPLER_STATUS_H
#define DOPPLER_RUNTIME_INCLUDE_DOPPLER_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Release number of library and programs; the plan format has its own. */
#define DOP_VERSION "0.1.0"

/* Result of every call that can fail.  Anything but DOP_OK leaves one message in the dop_diag it was given. */
typedef enum dop_status {
    DOP_OK = 0,
    DOP_E_INPUT,    /* outside data is missing, damaged or not supported, or a call does not fit its object */
    DOP_E_DEVICE,   /* the device cannot do it, was lost, or is out of memory */
    DOP_E_IO,       /* the operating system refused */
    DOP_E_NOMEM,    /* host memory */
    DOP_E_USAGE,    /* calls in the wrong order, names that nothing has; of a program: a wrong command line */
    DOP_E_INTERNAL, /* a broken invariant of the library's own */
    DOP_E_FULL      /* no page of the caches is free: it works again when another sequence gives some back */
} dop_status;

/* One diagnostic: the first cause.  Zero-initialize before a call; a struct that holds a failure already keeps it.  Owned by
 * the caller, no heap. */
typedef struct dop_diag {
    dop_status code;
    char path[512];       /* file the message is about, "" if none */
    long line;            /* 1-based line in that file, 0 if none */
    long column;          /* 1-based column, 0 if none */
    char message[1024];   /* one sentence: what, and what to do */
    const char *src_file; /* where in the library's source it was raised; static */
    int src_line;
} dop_diag;

/* Where the library says what it decides.  Lines come without a newline, and live until the function returns; it may be
 * called by threads of the library.  A zeroed struct drops them. */
typedef struct dop_log {
    void (*line)(void *user, const char *text);
    void *user;
} dop_log;

/* Frees what a function of the library gave out for that; accepts NULL.  Any thread. */
void dop_free(void *memory);

/* The release of the library at hand, in the form of DOP_VERSION; static.  Any thread. */
const char *dop_version(void);

#ifdef __cplusplus
}
#endif

#endif
