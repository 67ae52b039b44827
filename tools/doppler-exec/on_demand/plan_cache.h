/* Cache of plans compiled by doppler-exec. CACHE/plans holds KEY-DEVICE.plan, KEY-DEVICE.txt for --cache-list, and
 * DEVICE.avoid with the kernels to avoid on a device. CACHE/plans/files holds digests of model files. Processes may
 * share the cache, and may be killed at any time. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_ON_DEMAND_PLAN_CACHE_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_ON_DEMAND_PLAN_CACHE_H

#include "base/base.h"

/* Key of all inputs of a plan except the device: a digest in hexadecimal. */
typedef struct dop_cache_key {
    char text[33];
} dop_cache_key;

/* Key of the device that a plan is for: a digest of its properties in hexadecimal. */
typedef struct dop_cache_device {
    char text[17];
} dop_cache_device;

typedef struct dop_plan_cache {
    char *dir;      /* owned: CACHE/plans */
    char *files;    /* owned: CACHE/plans/files */
    int lock;       /* descriptor of CACHE/plans/lock */
    int error;      /* errno if the cache is read-only, otherwise 0 */
    uint64_t limit; /* maximum total bytes of plans */
} dop_plan_cache;

/* Opens the cache and creates its folders. A read-only folder is accepted. Error messages suggest --cache-dir. */
dop_status dop_plan_cache_open(const char *cache_dir, uint64_t limit, dop_diag *diag, dop_plan_cache *out);
void dop_plan_cache_close(dop_plan_cache *cache); /* accepts a zeroed struct */

/* Returns the path of an entry, which may not exist; the caller frees it. NULL: out of memory. */
char *dop_plan_cache_path(const dop_plan_cache *cache, const dop_cache_key *key, const dop_cache_device *device);
/* Finds the most recently used entry of a key for any device. Returns false if there is none. */
bool dop_plan_cache_last(const dop_plan_cache *cache, const dop_cache_key *key, dop_cache_device *out_device);
/* True if there is a plan at the path. Marks it as the most recently used. */
bool dop_plan_cache_use(const char *path);

/* Appends the names of the kernels to avoid on a device, separated by commas. Appends nothing if the list is
 * missing, damaged, or written by another release, whose kernels may differ. */
void dop_plan_cache_avoided(const dop_plan_cache *cache, const dop_cache_device *device, const char *release,
                            dop_buf *out);
/* Stores the names of the kernels to avoid, replacing the old list. */
dop_status dop_plan_cache_avoid(const dop_plan_cache *cache, const dop_cache_device *device, const char *release,
                                const char *names, dop_diag *diag);

/* Locks the plan of this key for compiling. Waits while another process holds the lock, reporting step "waiting"
 * without a size; *out_waited: true then. The lock also ends with the process. */
dop_status dop_plan_cache_lock(const dop_plan_cache *cache, const dop_cache_key *key, const dop_progress *progress,
                               dop_diag *diag, bool *out_waited);
void dop_plan_cache_unlock(const dop_plan_cache *cache, const dop_cache_key *key);

/* Removes the least recently used plans until the rest plus `need` bytes are within the limit and fit on the disk;
 * also removes files left by killed processes. keep: path of a plan to keep, or NULL. */
void dop_plan_cache_trim(const dop_plan_cache *cache, uint64_t need, const char *keep);
/* Writes the entry of --cache-list for the plan at a path. */
dop_status dop_plan_cache_describe(const char *path, const char *model, const char *options, const char *device,
                                   dop_diag *diag);
void dop_plan_cache_remove(const char *path);

/* Lists the cache for --cache-list: a line per plan, most recently used first, and a line with the total. */
dop_status dop_plan_cache_list(const char *cache_dir, uint64_t limit, dop_diag *diag, dop_buf *out);
/* Clears the cache for --cache-clear: all plans, digests of model files, and pipelines; with `models`, downloads as
 * well. *out_bytes: bytes freed. */
dop_status dop_cache_clear(const char *cache_dir, bool models, dop_diag *diag, uint64_t *out_bytes);

#endif
