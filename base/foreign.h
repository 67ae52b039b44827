/* Detects the type of a file from its first bytes, for messages about wrong files. */
#ifndef DOPPLER_BASE_FOREIGN_H
#define DOPPLER_BASE_FOREIGN_H

#include <stdint.h>

#include "base/base.h"

typedef enum dop_file_kind {
    DOP_FILE_OTHER,
    DOP_FILE_LFS,         /* a Git LFS pointer file */
    DOP_FILE_PAGE,        /* HTML */
    DOP_FILE_GGUF,        /* a GGUF model */
    DOP_FILE_SAFETENSORS, /* safetensors weights */
    DOP_FILE_PICKLE,      /* PyTorch weights (pickle) */
    DOP_FILE_GGML,        /* GGML, the predecessor of GGUF; used by whisper.cpp models */
    DOP_FILE_OLD_GGML,    /* GGML variants that nothing supports */
    DOP_FILE_PLAN,
    DOP_FILE_JSON,
} dop_file_kind;

dop_file_kind dop_file_kind_of(const void *bytes, uint64_t size);
/* Returns the error message for a file type that no program here supports, such as a Git LFS pointer; NULL: the type may be supported. */
const char *dop_file_refusal(dop_file_kind kind);
/* Fails with the errno value `error` of an attempt to open a path.  If the path looks like a name on a model hub ("org/name", a URL),
 * the message explains what to do. */
dop_status dop_refuse_absent(const char *path, int error, dop_diag *diag);

#endif
