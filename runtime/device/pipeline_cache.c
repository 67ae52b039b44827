/* Pipeline cache on disk: the driver's data, preceded by a header with a digest, so that damaged data never reaches the
 * driver. */
#include "base/os/system.h"
#include "runtime/device/pipelines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_CACHE_BYTES = 128 << 20 }; /* a cache that exceeds this size is discarded */

typedef struct cache_header {
    char magic[8];
    uint64_t size;   /* bytes of the driver's data, which follows */
    uint64_t digest; /* XXH3 of the driver's data */
} cache_header;

static const char cache_magic[8] = {'D', 'O', 'P', 'P', 'I', 'P', 'E', '1'};

static void
cache_path(const dop_device_info *info, const char *dir, char *out, size_t cap)
{
    VkPhysicalDeviceProperties props;
    vkGetPhysicalDeviceProperties(info->physical, &props);
    char uuid[3 * 2 * VK_UUID_SIZE + 1];
    const uint8_t *const ids[3] = {info->device_uuid, info->driver_uuid, props.pipelineCacheUUID};
    for (size_t i = 0; i < 3 * VK_UUID_SIZE; i++)
        snprintf(uuid + 2 * i, 3, "%02x", (unsigned)ids[i / VK_UUID_SIZE][i % VK_UUID_SIZE]);
    int n = snprintf(out, cap, "%s/pipelines-%s-%08x.bin", dir, uuid, (unsigned)info->driver_version);
    if (n < 0 || (size_t)n >= cap)
        out[0] = 0;
}

/* Returns the driver's data in a mapped file; NULL if the file is not a valid cache. */
static const uint8_t *
cache_payload(const dop_map *map, uint64_t *out_size)
{
    cache_header h;
    if (map->size < sizeof h || map->size > MAX_CACHE_BYTES)
        return NULL;
    memcpy(&h, map->data, sizeof h);
    const uint8_t *bytes = map->data + sizeof h;
    if (memcmp(h.magic, cache_magic, sizeof h.magic) != 0 || h.size != map->size - sizeof h ||
        dop_plan_digest(bytes, h.size) != h.digest)
        return NULL;
    *out_size = h.size;
    return bytes;
}

dop_status
dop_pipeline_cache_load(dop_device *device, const char *cache_dir, const dop_log *log, dop_diag *diag,
                        dop_pipeline_cache *out_cache)
{
    memset(out_cache, 0, sizeof *out_cache);
    dop_map map = {0};
    const uint8_t *bytes = NULL;
    uint64_t size = 0;
    if (cache_dir)
        cache_path(&device->info, cache_dir, out_cache->path, sizeof out_cache->path);
    struct stat sb;
    bool exists = out_cache->path[0] && stat(out_cache->path, &sb) == 0;
    if (exists && !S_ISREG(sb.st_mode)) { /* opening a pipe for writing would block */
        dop_log_printf(log, "pipeline cache: %s is not a regular file: there is none", out_cache->path);
        out_cache->path[0] = 0;
    } else if (exists) {
        if (dop_map_open(out_cache->path, NULL, &map) == DOP_OK)
            bytes = cache_payload(&map, &size);
        dop_log_printf(log, "pipeline cache: %s %s", out_cache->path,
                       bytes ? "read" : "is damaged or too large and is made anew");
    }
    VkPipelineCacheCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO,
        .initialDataSize = bytes ? (size_t)size : 0,
        .pInitialData = bytes,
    };
    VkResult r = vkCreatePipelineCache(device->handle, &info, NULL, &out_cache->handle);
    dop_map_close(&map);
    out_cache->kept = size;
    return r == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, r, "vkCreatePipelineCache");
}

/* Creates a directory and its parents. Errors show up when the file is written. */
static void
make_dirs(const char *dir)
{
    char path[768];
    snprintf(path, sizeof path, "%s", dir);
    for (char *p = path + 1; *p; p++)
        if (dop_is_slash(*p)) {
            *p = 0;
            (void)mkdir(path, 0777);
            *p = '/';
        }
    (void)mkdir(path, 0777);
}

void
dop_pipeline_cache_save(dop_device *device, dop_pipeline_cache *cache, const dop_log *log)
{
    size_t size = 0;
    if (!cache->path[0] || vkGetPipelineCacheData(device->handle, cache->handle, &size, NULL) != VK_SUCCESS ||
        size == 0 || size == cache->kept || size > MAX_CACHE_BYTES - sizeof(cache_header))
        return;
    uint8_t *file = malloc(sizeof(cache_header) + size);
    if (!file)
        return;
    dop_diag diag = {0};
    if (vkGetPipelineCacheData(device->handle, cache->handle, &size, file + sizeof(cache_header)) == VK_SUCCESS) {
        cache_header h = {.size = size, .digest = dop_plan_digest(file + sizeof h, size)};
        memcpy(h.magic, cache_magic, sizeof h.magic);
        memcpy(file, &h, sizeof h);
        char dir[768];
        snprintf(dir, sizeof dir, "%s", cache->path);
        *strrchr(dir, '/') = 0;
        make_dirs(dir);
        cache->kept = size; /* also after a failed write, which is not repeated */
        if (dop_write_file(cache->path, file, sizeof h + size, &diag) == DOP_OK)
            dop_log_printf(log, "pipeline cache: %s written, %zu bytes", cache->path, size);
        else
            dop_log_printf(log, "pipeline cache: %s", diag.message);
    }
    free(file);
}
