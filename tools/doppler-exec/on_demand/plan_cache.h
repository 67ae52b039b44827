/* Plans that doppler-exec compiled, kept in a folder: CACHE/plans/KEY-DEVICE.plan, with KEY-DEVICE.txt for --cache-list, and digests of
 * models' files in CACHE/plans/files, and the kernels that are avoided on a device in CACHE/plans/DEVICE.avoid.
 * Any number of processes may use it at once, and any of them may be killed. */
#ifndef DOPPLER_TOOLS_DOPPLER_EXEC_ON_DEMAND_PLAN_CACHE_H
#define DOPPLER_TOOLS_DOPPLER_EXEC_ON_DEMAND_PLAN_CACHE_H

#include "base/base.h"

/* What a plan depends on beside the device, as hexadecimal digits of a digest. */
typedef struct dop_cache_key {
    char text[33];
} dop_cache_key;

/* The device that a plan is for, as digits of a digest of what is known about it. */
typedef struct dop_cache_device {
    char text[17];
} dop_cache_device;

typedef struct dop_plan_cache {
    char *dir;      /* owned: CACHE/plans */
    char *files;    /* owned: CACHE/plans/files */
    int lock;       /* a descriptor of CACHE/plans/lock */
    int error;      /* errno: nothing can be written here; what is there is used */
    uint64_t limit; /* bytes that plans may take together */
} dop_plan_cache;

/* Makes the folders.  A folder that may only be read is used as it is.  A failure says that --cache-dir names another one. */
dop_status dop_plan_cache_open(const char *cache_dir, uint64_t limit, dop_diag *diag, dop_plan_cache *out);
void dop_plan_cache_close(dop_plan_cache *cache); /* accepts a zeroed one */

/* The path of an entry, whether or not it exists; the caller frees it.  NULL: memory ran out. */
char *dop_plan_cache_path(const dop_plan_cache *cache, const dop_cache_key *key, const dop_cache_device *device);
/* Finds the entry of a key that was used last, for any device.  False: there is none. */
bool dop_plan_cache_last(const dop_plan_cache *cache, const dop_cache_key *key, dop_cache_device *out_device);
/* Is there a plan at the path?  Then it is the one that was used last. */
bool dop_plan_cache_use(const char *path);

/* Appends the names of the kernels that are avoided on a device, with commas: nothing where none are, where the list is damaged, or
 * where another release of this program has made it, whose kernels may be others. */
void dop_plan_cache_avoided(const dop_plan_cache *cache, const dop_cache_device *device, const char *release,
                            dop_buf *out);
/* Remembers these names instead. */
dop_status dop_plan_cache_avoid(const dop_plan_cache *cache, const dop_cache_device *device, const char *release,
                                const char *names, dop_diag *diag);

/* Waits until no other process makes the plan of this key, as step "waiting", which has no size.  *out_waited: there was one.  The lock
 * ends with the process, too. */
dop_status dop_plan_cache_lock(const dop_plan_cache *cache, const dop_cache_key *key, const dop_progress *progress,
                               dop_diag *diag, bool *out_waited);
void dop_plan_cache_unlock(const dop_plan_cache *cache, const dop_cache_key *key);

/* Removes plans that were not used for longest until all others, and `need` bytes more, keep the limit and fit on the disk, and what
 * processes that were killed have left.  keep: the path of a plan that stays, or NULL. */
void dop_plan_cache_trim(const dop_plan_cache *cache, uint64_t need, const char *keep);
/* Writes what --cache-list shows of the plan at a path. */
dop_status dop_plan_cache_describe(const char *path, const char *model, const char *options, const char *device,
                                   dop_diag *diag);
void dop_plan_cache_remove(const char *path);

/* --cache-list: appends a line for each plan, the last used first, and one with their sum. */
dop_status dop_plan_cache_list(const char *cache_dir, uint64_t limit, dop_diag *diag, dop_buf *out);
/* --cache-clear: removes all plans, what is remembered of models' files, and pipelines; with `models` what was downloaded as well.
 * *out_bytes: what that freed. */
dop_status dop_cache_clear(const char *cache_dir, bool models, dop_diag *diag, uint64_t *out_bytes);

#endif
