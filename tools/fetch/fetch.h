/* Downloads of models from huggingface.co, or from servers with its API, and of images. A separate module,
 * doppler-fetch.so, because loading libcurl dominates the start-up time of doppler-exec. */
#ifndef DOPPLER_TOOLS_FETCH_FETCH_H
#define DOPPLER_TOOLS_FETCH_FETCH_H

#include "base/base.h"

#include <stdatomic.h>

#define DOP_FETCH_MODULE "doppler-fetch.so"
#define DOP_FETCH_ENTRY "dop_fetch"

typedef struct dop_fetch_request {
    const char *name;      /* USER/REPO[@REVISION][:FILE]; FILE may be part of a GGUF file's name, such as Q4_K_M */
    const char *endpoint;  /* URL of the server, without a path */
    const char *token;     /* sent to that server only; NULL: none */
    const char *dir;       /* folder of downloaded models */
    dop_progress progress; /* step "download", in bytes */
    dop_log log;
} dop_fetch_request;

/* Downloads the missing files of a model and checks sizes and digests. Resumes interrupted downloads; a complete
 * model needs no request. *out_path: the model's folder or GGUF file, freed by the caller. Errors: DOP_E_USAGE for an
 * invalid name; DOP_E_INPUT for an unknown model or file, denied access, or a wrong digest; DOP_E_IO for network and
 * disk; DOP_E_CANCELLED. */
typedef dop_status dop_fetch_fn(const dop_fetch_request *request, dop_diag *diag, char **out_path);
dop_fetch_fn dop_fetch;

#define DOP_FETCH_PICTURE_ENTRY "dop_fetch_picture"

typedef struct dop_fetch_picture_request {
    const char *url; /* http or https */
    size_t max_bytes;
    double seconds;               /* total time limit including redirects, > 0 */
    bool any_address;             /* true: addresses outside the public network are allowed */
    const atomic_bool *cancelled; /* set by any thread to end the download; NULL: not cancellable */
} dop_fetch_picture_request;

/* Downloads an image without a proxy and with few redirects. Appends its bytes to *out_bytes, which the caller
 * zeroed. Returns DOP_E_INPUT with the reason if that fails. Thread-safe. */
typedef dop_status dop_fetch_picture_fn(const dop_fetch_picture_request *request, dop_diag *diag, dop_buf *out_bytes);
dop_fetch_picture_fn dop_fetch_picture;
/* True if the address is public: neither private nor special-purpose (RFC 6890). */
struct sockaddr;
bool dop_fetch_is_public(const struct sockaddr *address);

#endif
