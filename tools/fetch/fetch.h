/* Downloads models of huggingface.co, or of a server with the same interface, and pictures.  This is the module doppler-fetch.so, because libcurl
 * takes longer to load than all else that doppler-exec does before it opens a plan. */
#ifndef DOPPLER_TOOLS_FETCH_FETCH_H
#define DOPPLER_TOOLS_FETCH_FETCH_H

#include "base/base.h"

#include <stdatomic.h>

#define DOP_FETCH_MODULE "doppler-fetch.so"
#define DOP_FETCH_ENTRY "dop_fetch"

typedef struct dop_fetch_request {
    const char *name;      /* USER/REPO[@REVISION][:FILE]; FILE may be a part of GGUF files' names, as Q4_K_M */
    const char *endpoint;  /* address of the server, without a path */
    const char *token;     /* sent to that server only; NULL: none */
    const char *dir;       /* the folder with downloaded models */
    dop_progress progress; /* step "download", in bytes */
    dop_log log;
} dop_fetch_request;

/* Downloads the files of a model that are not here yet, and checks their sizes and digests.  A download that was broken off is
 * continued.  A model that is complete is taken without asking the server.  *out_path: the model, a folder or a GGUF file; the caller
 * frees it.  Errors: DOP_E_USAGE: no such name; DOP_E_INPUT: no such model or file, no access, a wrong digest; DOP_E_IO: the network,
 * the disk; DOP_E_CANCELLED. */
typedef dop_status dop_fetch_fn(const dop_fetch_request *request, dop_diag *diag, char **out_path);
dop_fetch_fn dop_fetch;

#define DOP_FETCH_PICTURE_ENTRY "dop_fetch_picture"

typedef struct dop_fetch_picture_request {
    const char *url; /* http or https */
    size_t max_bytes;
    double seconds;               /* for everything, redirects included; above 0 */
    bool any_address;             /* also addresses that are not of the public network */
    const atomic_bool *cancelled; /* set by any thread to end the download; NULL: nobody cancels */
} dop_fetch_picture_request;

/* Downloads a picture, without a proxy and with few redirects; *out_bytes, zeroed by the caller, gets its bytes.  DOP_E_INPUT: it cannot
 * be had, and why.  Any thread. */
typedef dop_status dop_fetch_picture_fn(const dop_fetch_picture_request *request, dop_diag *diag, dop_buf *out_bytes);
dop_fetch_picture_fn dop_fetch_picture;
/* Is an address one of the public network, and neither private nor with a special meaning (RFC 6890)? */
struct sockaddr;
bool dop_fetch_is_public(const struct sockaddr *address);

#endif
