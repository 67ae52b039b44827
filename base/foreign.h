/* Files that are given in place of others: what they are, by their first bytes. */
#ifndef DOPPLER_BASE_FOREIGN_H
#define DOPPLER_BASE_FOREIGN_H

#include <stdint.h>

#include "base/base.h"

typedef enum dop_file_kind {
    DOP_FILE_OTHER,
    DOP_FILE_LFS,         /* a pointer of Git Large File Storage */
    DOP_FILE_PAGE,        /* HTML */
    DOP_FILE_GGUF,        /* a model */
    DOP_FILE_SAFETENSORS, /* weights */
    DOP_FILE_PICKLE,      /* weights as PyTorch saves them */
    DOP_FILE_GGML,        /* GGUF's predecessors */
    DOP_FILE_PLAN,
    DOP_FILE_JSON,
} dop_file_kind;

dop_file_kind dop_file_kind_of(const void *bytes, uint64_t size);
/* A sentence about a file that is certainly not what was wanted, whatever that is; NULL: there is none. */
const char *dop_file_refusal(dop_file_kind kind);
/* Nothing is at a path, as `error` (errno) says: fails with that, or with what to do where the path is a name on a model hub
 * ("org/name", a URL). */
dop_status dop_refuse_absent(const char *path, int error, dop_diag *diag);

#endif
