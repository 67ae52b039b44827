/* A folder of snapshots: read when they are wanted, and written by a thread.
 *
 * A file appears under its name when it is complete, and its name says what it is (dop_file_name); so several processes may use a
 * folder, and one that is killed leaves nothing half written.  The folder has a size, above which the files that were used least
 * recently (by their time of modification, which use renews) are removed, also those of other plans. */
#ifndef DOPPLER_RUNTIME_CACHE_FILES_H
#define DOPPLER_RUNTIME_CACHE_FILES_H

#include "runtime/cache/snapshot.h"

/* What a snapshot is found by, beside plan and layout. */
typedef struct dop_snapshot_key {
    uint64_t digest[2]; /* dop_snapshot_head.key */
    uint32_t from, to;
    bool whole; /* a point */
} dop_snapshot_key;

/* Bytes of a snapshot, shared by those who hold a reference. */
typedef struct dop_snapshot {
    _Atomic uint32_t refs;
    uint64_t size;  /* bytes */
    uint8_t *bytes; /* [size] */
} dop_snapshot;

dop_snapshot *dop_snapshot_create(uint64_t size); /* with one reference; NULL: out of memory */
dop_snapshot *dop_snapshot_hold(dop_snapshot *snapshot);
void dop_snapshot_release(dop_snapshot *snapshot); /* accepts NULL */

typedef struct dop_files dop_files;

/* Counts since opening, and the size of the folder when it was last looked at. */
typedef struct dop_files_counts {
    uint64_t bytes, written, read, removed, failed; /* bytes, then files */
    uint64_t waiting;                               /* bytes that are not written yet */
} dop_files_counts;

typedef void dop_files_fn(void *user, const dop_snapshot_key *key, uint64_t size);

/* Creates the folder if need be (for its owner only), and the thread.  bound: bytes. */
dop_status dop_files_open(const char *folder, uint64_t bound, const dop_snapshot_plan *plan, dop_diag *diag,
                          dop_files **out_files);
/* Waits until everything is written.  Accepts NULL. */
void dop_files_close(dop_files *files);
/* Calls fn for every file of this plan, if the folder has changed since the last call; else returns false. */
bool dop_files_list(dop_files *files, dop_files_fn *fn, void *user);
/* The file's content, checked; NULL: it is gone, damaged (then it is removed), or there is no memory. */
dop_snapshot *dop_files_read(dop_files *files, const dop_snapshot_key *key, dop_snapshot_head *out_head);
/* Says that the file was used now. */
void dop_files_touch(dop_files *files, const dop_snapshot_key *key);
/* Writes the snapshot later; takes a reference.  Where more than is reasonable waits already, it is not written. */
void dop_files_write(dop_files *files, const dop_snapshot_key *key, dop_snapshot *snapshot);
dop_files_counts dop_files_count(dop_files *files);

enum { DOP_FILE_NAME = 96 };
void dop_file_name(const dop_snapshot_plan *plan, const dop_snapshot_key *key, char out[DOP_FILE_NAME]);
/* Is it the name of a file of this plan?  Then *out_key. */
bool dop_file_name_read(const dop_snapshot_plan *plan, const char *name, dop_snapshot_key *out_key);

#endif
