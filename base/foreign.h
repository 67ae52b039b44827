/* Recognizes the kind of a file by its first bytes, so that an error about a wrong file can say what the file is. */
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
    DOP_FILE_GGML,        /* GGUF's predecessor, in which models of speech are */
    DOP_FILE_OLD_GGML,    /* forms of it that nothing reads */
    DOP_FILE_PLAN,
    DOP_FILE_JSON,
} dop_file_kind;

dop_file_kind dop_file_kind_of(const void *bytes, uint64_t size);
/* An error message for a kind of file that no program here reads, as a pointer of Git LFS; NULL: the kind may be right somewhere. */
const char *dop_file_refusal(dop_file_kind kind);
/* Fails because a path cannot be opened; error: the errno of the attempt.  Where the path looks like a name on a model hub ("org/name",
 * a URL), the message says what to do instead. */
dop_status dop_refuse_absent(const char *path, int error, dop_diag *diag);

#endif
