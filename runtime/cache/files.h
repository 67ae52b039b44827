/* Folder of snapshot files: read on demand, and written by a background thread.
 *
 * A file appears under its final name only when complete, and its name states its content (dop_file_name). So several
 * processes may share a folder, and a killed process leaves no partial file under a final name. If the folder exceeds
 * its size limit, the least recently used files are removed, including those of other plans. The modification time
 * records the last use. */
#ifndef DOPPLER_RUNTIME_CACHE_FILES_H
#define DOPPLER_RUNTIME_CACHE_FILES_H

#include "runtime/cache/snapshot.h"

/* Lookup key of a snapshot, in addition to plan and layout. */
typedef struct dop_snapshot_key {
    uint64_t digest[2]; /* dop_snapshot_head.key */
    uint32_t from, to;
    bool whole; /* true: a point (states of position `to`); false: rows only */
} dop_snapshot_key;

/* Reference-counted bytes of a snapshot. */
typedef struct dop_snapshot {
    _Atomic uint32_t refs;
    uint64_t size;  /* in bytes */
    uint8_t *bytes; /* [size] */
} dop_snapshot;

dop_snapshot *dop_snapshot_create(uint64_t size); /* created with one reference; NULL: out of memory */
dop_snapshot *dop_snapshot_hold(dop_snapshot *snapshot);
void dop_snapshot_release(dop_snapshot *snapshot); /* accepts NULL */

typedef struct dop_files dop_files;

/* Statistics since opening, and the size of the folder when it was last listed. */
typedef struct dop_files_counts {
    /* size in bytes; numbers of files written, read, removed and failed */
    uint64_t bytes, written, read, removed, failed;
    uint64_t waiting; /* bytes queued for writing */
} dop_files_counts;

typedef void dop_files_fn(void *user, const dop_snapshot_key *key, uint64_t size);

/* Creates the folder if it does not exist (for its owner only), and starts the thread. bound: size limit in bytes. */
dop_status dop_files_open(const char *folder, uint64_t bound, const dop_snapshot_plan *plan, dop_diag *diag,
                          dop_files **out_files);
/* Waits until everything is written, then frees. Accepts NULL. */
void dop_files_close(dop_files *files);
/* Calls fn for every file of this plan. Returns false, without calls, if the folder has not changed since the last
 * call. */
bool dop_files_list(dop_files *files, dop_files_fn *fn, void *user);
/* Reads and checks a file. NULL: it is missing, damaged (then it is removed), or memory ran out. */
dop_snapshot *dop_files_read(dop_files *files, const dop_snapshot_key *key, dop_snapshot_head *out_head);
/* Marks the file as used now. */
void dop_files_touch(dop_files *files, const dop_snapshot_key *key);
/* Queues the snapshot for writing and takes a reference. Skips it if too much is queued already. */
void dop_files_write(dop_files *files, const dop_snapshot_key *key, dop_snapshot *snapshot);
dop_files_counts dop_files_count(dop_files *files);

enum { DOP_FILE_NAME = 96 };
void dop_file_name(const dop_snapshot_plan *plan, const dop_snapshot_key *key, char out[DOP_FILE_NAME]);
/* True if it is the name of a file of this plan; sets *out_key. */
bool dop_file_name_read(const dop_snapshot_plan *plan, const char *name, dop_snapshot_key *out_key);

#endif
