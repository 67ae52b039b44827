/* Model names and file lists of a hub, parsed from its answers before downloading. */
#ifndef DOPPLER_TOOLS_FETCH_HUB_H
#define DOPPLER_TOOLS_FETCH_HUB_H

#include "base/base.h"

/* Components of USER/REPO[@REVISION][:FILE], owned. */
typedef struct dop_hub_name {
    char *repo;     /* USER/REPO */
    char *revision; /* "main" by default */
    char *file;     /* NULL: not given */
} dop_hub_name;

dop_status dop_hub_name_parse(const char *text, dop_diag *diag, dop_hub_name *out);
void dop_hub_name_finish(dop_hub_name *name); /* accepts a zeroed struct */

typedef struct dop_hub_file {
    char *path; /* owned: relative path, without ".." and hidden components */
    uint64_t size;
    char digest[65]; /* SHA-256 of a large file, otherwise the Git object id (SHA-1 of a header and the contents) */
    bool wanted;
} dop_hub_file;

typedef struct dop_hub_files {
    dop_hub_file *list; /* owned */
    size_t n, cap;
} dop_hub_files;

/* Appends the files of a JSON answer of /api/models/REPO/tree/REVISION. */
dop_status dop_hub_files_read(const char *json, size_t len, const char *repo, dop_diag *diag, dop_hub_files *files);
/* Marks the files of the model: those of a Hugging Face folder, or a GGUF file with all parts if `file` says so or
 * there are no others. *out_gguf: the first GGUF part; NULL: the model is a folder. */
dop_status dop_hub_files_choose(dop_hub_files *files, const dop_hub_name *name, dop_diag *diag,
                                const dop_hub_file **out_gguf);
void dop_hub_files_finish(dop_hub_files *files);

#endif
