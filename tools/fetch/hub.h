/* Names and files of models on a hub: what is read from its answers, before anything is downloaded. */
#ifndef DOPPLER_TOOLS_FETCH_HUB_H
#define DOPPLER_TOOLS_FETCH_HUB_H

#include "base/base.h"

/* The parts of USER/REPO[@REVISION][:FILE], owned. */
typedef struct dop_hub_name {
    char *repo;     /* USER/REPO */
    char *revision; /* "main" where none is given */
    char *file;     /* NULL: none is given */
} dop_hub_name;

dop_status dop_hub_name_parse(const char *text, dop_diag *diag, dop_hub_name *out);
void dop_hub_name_finish(dop_hub_name *name); /* accepts a zeroed one */

typedef struct dop_hub_file {
    char *path; /* owned: relative, without .. and hidden parts */
    uint64_t size;
    char digest[65]; /* SHA-256 of a large file, else the object id of Git (SHA-1 of a header and the contents) */
    bool wanted;
} dop_hub_file;

typedef struct dop_hub_files {
    dop_hub_file *list; /* owned */
    size_t n, cap;
} dop_hub_files;

/* Appends the files of a JSON answer of the interface /api/models/REPO/tree/REVISION. */
dop_status dop_hub_files_read(const char *json, size_t len, const char *repo, dop_diag *diag, dop_hub_files *files);
/* Marks the files that make up the model: those of a Hugging Face directory or, as `file` says or where there are no others, a GGUF
 * file with all of its parts.  *out_gguf: the first of these; NULL: the model is the folder. */
dop_status dop_hub_files_choose(dop_hub_files *files, const dop_hub_name *name, dop_diag *diag,
                                const dop_hub_file **out_gguf);
void dop_hub_files_finish(dop_hub_files *files);

#endif
