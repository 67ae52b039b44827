/* A stub of the Linux kernel's interface to Intel's GPUs (i915), with which Mesa's driver (ANV) makes kernels for a device that is not
 * there: it is loaded before the driver (LD_PRELOAD).  Command buffers are accepted and never executed.
 *
 * The device is /dev/full as far as paths and stat() are concerned, so that open() needs no care.  I915_STUB=ID,SLICES,SUBSLICES says
 * which one it is: its PCI id, and how many slices of how many subslices (of 16 execution units) it has.  The interface is that of
 * <libdrm/i915_drm.h>. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <drm.h>
#include <errno.h>
#include <fcntl.h>
#include <i915_drm.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <xf86drm.h>

enum { UNITS = 16, PAGE = 4096, OFFSET_SHIFT = 44 };
#define REGION_BYTES ((uint64_t)8 << 30)

static char node[] = "/dev/full";

static struct {
    unsigned id, slices, subslices;
} device;

static void
read_device(void)
{
    const char *text = getenv("I915_STUB");
    if (device.id == 0 && (!text || sscanf(text, "%x,%u,%u", &device.id, &device.slices, &device.subslices) != 3)) {
        fprintf(stderr, "I915_STUB=ID,SLICES,SUBSLICES is not set\n");
        abort();
    }
}

static bool
is_ours(int fd)
{
    struct stat s;
    return fd >= 0 && fstat(fd, &s) == 0 && S_ISCHR(s.st_mode) && s.st_rdev == makedev(1, 7);
}

/* ---- what libdrm would find in /sys --------------------------------------------------------------------------------- */

typedef struct found {
    drmDevice device;
    drmPciBusInfo bus;
    drmPciDeviceInfo info;
    char *nodes[DRM_NODE_MAX];
} found;

static drmDevicePtr
make_device(void)
{
    found *f = calloc(1, sizeof *f);
    if (!f)
        abort();
    read_device();
    f->nodes[DRM_NODE_PRIMARY] = f->nodes[DRM_NODE_RENDER] = node;
    f->bus.dev = 2;
    f->info = (drmPciDeviceInfo){.vendor_id = 0x8086, .device_id = (uint16_t)device.id};
    f->device = (drmDevice){.nodes = f->nodes,
                            .available_nodes = 1 << DRM_NODE_PRIMARY | 1 << DRM_NODE_RENDER,
                            .bustype = DRM_BUS_PCI,
                            .businfo.pci = &f->bus,
                            .deviceinfo.pci = &f->info};
    return &f->device;
}

int
drmGetDevices2(uint32_t flags, drmDevicePtr devices[], int max_devices)
{
    (void)flags;
    if (devices && max_devices > 0)
        devices[0] = make_device();
    return 1;
}

int
drmGetDevice2(int fd, uint32_t flags, drmDevicePtr *out)
{
    (void)fd, (void)flags;
    *out = make_device();
    return 0;
}

void
drmFreeDevice(drmDevicePtr *d)
{
    free(*d);
    *d = NULL;
}

void
drmFreeDevices(drmDevicePtr devices[], int n)
{
    for (int i = 0; i < n; i++)
        drmFreeDevice(&devices[i]);
}

/* ---- buffers: files in memory, by handle ------------------------------------------------------------------------------ */

static int
new_buffer(uint64_t size, uint32_t *out_handle)
{
    const int fd = memfd_create("i915 stub", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)((size + PAGE - 1) / PAGE * PAGE)) != 0)
        return -1;
    *out_handle = (uint32_t)fd;
    return 0;
}

static void *
real_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    static void *(*real)(void *, size_t, int, int, int, off_t);
    if (!real) {
        void *symbol = dlsym(RTLD_NEXT, "mmap");
        memcpy(&real, &symbol, sizeof real);
    }
    return real(at, size, protection, flags, fd, offset);
}

/* The offset that an ioctl gave says which buffer is mapped. */
void *
mmap64(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (!(flags & MAP_ANONYMOUS) && is_ours(fd)) {
        fd = (int)(offset >> OFFSET_SHIFT);
        offset = 0;
    }
    return real_mmap(at, size, protection, flags, fd, offset);
}

/* ---- facts ------------------------------------------------------------------------------------------------------------ */

static int
get_param(const drm_i915_getparam_t *p)
{
    switch (p->param) {
    case I915_PARAM_CHIPSET_ID:
        *p->value = (int)device.id;
        return 0;
    case I915_PARAM_CS_TIMESTAMP_FREQUENCY:
        *p->value = 12000000;
        return 0;
    case I915_PARAM_HAS_ALIASING_PPGTT:
        *p->value = 3; /* addresses of 48 bits */
        return 0;
    case I915_PARAM_MMAP_VERSION:
    case I915_PARAM_MMAP_GTT_VERSION:
        *p->value = 4;
        return 0;
    case I915_PARAM_SUBSLICE_TOTAL:
        *p->value = (int)(device.slices * device.subslices);
        return 0;
    case I915_PARAM_EU_TOTAL:
        *p->value = (int)(device.slices * device.subslices * UNITS);
        return 0;
    case I915_PARAM_REVISION:
    case I915_PARAM_HAS_LLC:
    case I915_PARAM_HAS_USERPTR_PROBE:
        *p->value = 0;
        return 0;
    default: /* the rest are features: all there */
        *p->value = 1;
        return 0;
    }
}

/* Is there room for an answer to a query?  Without any, the item gets its size. */
static bool
has_room(struct drm_i915_query_item *item, size_t size)
{
    const bool room = item->length >= (int32_t)size;
    item->length = item->length == 0 || room ? (int32_t)size : -EINVAL;
    return room;
}

/* Bits for n things, in whole bytes. */
static void
set_bits(uint8_t *at, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        at[i / 8] |= (uint8_t)(1u << i % 8);
}

static void
query_topology(struct drm_i915_query_item *item)
{
    const unsigned n = device.slices * device.subslices, stride = (device.subslices + 7) / 8,
                   masks = (device.slices + 7) / 8;
    struct drm_i915_query_topology_info *t = (void *)(uintptr_t)item->data_ptr;
    const size_t size = sizeof *t + masks + device.slices * stride + n * (UNITS / 8);
    if (!has_room(item, size))
        return;
    memset(t, 0, size);
    t->max_slices = (uint16_t)device.slices;
    t->max_subslices = (uint16_t)device.subslices;
    t->max_eus_per_subslice = UNITS;
    t->subslice_offset = (uint16_t)masks;
    t->subslice_stride = (uint16_t)stride;
    t->eu_offset = (uint16_t)(masks + device.slices * stride);
    t->eu_stride = UNITS / 8;
    set_bits(t->data, device.slices);
    for (unsigned i = 0; i < device.slices; i++)
        set_bits(t->data + t->subslice_offset + i * stride, device.subslices);
    for (unsigned i = 0; i < n; i++)
        set_bits(t->data + t->eu_offset + i * t->eu_stride, UNITS);
}

static void
query_engines(struct drm_i915_query_item *item)
{
    struct drm_i915_query_engine_info *e = (void *)(uintptr_t)item->data_ptr;
    const size_t size = sizeof *e + 2 * sizeof e->engines[0];
    if (!has_room(item, size))
        return;
    memset(e, 0, size);
    e->num_engines = 2;
    e->engines[0].engine.engine_class = I915_ENGINE_CLASS_RENDER;
    e->engines[1].engine.engine_class = I915_ENGINE_CLASS_COPY;
}

static void
query_regions(struct drm_i915_query_item *item)
{
    struct drm_i915_query_memory_regions *m = (void *)(uintptr_t)item->data_ptr;
    const size_t size = sizeof *m + 2 * sizeof m->regions[0];
    if (!has_room(item, size))
        return;
    memset(m, 0, size);
    m->num_regions = 2;
    for (uint16_t i = 0; i < 2; i++) {
        m->regions[i].region.memory_class = i ? I915_MEMORY_CLASS_DEVICE : I915_MEMORY_CLASS_SYSTEM;
        m->regions[i].probed_size = m->regions[i].unallocated_size = REGION_BYTES;
    }
}

static int
query(const struct drm_i915_query *q)
{
    struct drm_i915_query_item *items = (void *)(uintptr_t)q->items_ptr;
    for (uint32_t i = 0; i < q->num_items; i++)
        switch (items[i].query_id) {
        case DRM_I915_QUERY_TOPOLOGY_INFO:
        case DRM_I915_QUERY_GEOMETRY_SUBSLICES:
            query_topology(&items[i]);
            break;
        case DRM_I915_QUERY_ENGINE_INFO:
            query_engines(&items[i]);
            break;
        case DRM_I915_QUERY_MEMORY_REGIONS:
            query_regions(&items[i]);
            break;
        default:
            items[i].length = -EINVAL;
        }
    return 0;
}

/* ---- ioctls ------------------------------------------------------------------------------------------------------------ */

static int
of_i915(unsigned number, void *arg)
{
    switch (number - DRM_COMMAND_BASE) {
    case DRM_I915_GETPARAM:
        return get_param(arg);
    case DRM_I915_QUERY:
        return query(arg);
    case DRM_I915_GEM_CREATE:
        return new_buffer(((struct drm_i915_gem_create *)arg)->size, &((struct drm_i915_gem_create *)arg)->handle);
    case DRM_I915_GEM_CREATE_EXT:
        return new_buffer(((struct drm_i915_gem_create_ext *)arg)->size,
                          &((struct drm_i915_gem_create_ext *)arg)->handle);
    case DRM_I915_GEM_USERPTR:
        return new_buffer(((struct drm_i915_gem_userptr *)arg)->user_size,
                          &((struct drm_i915_gem_userptr *)arg)->handle);
    case DRM_I915_GEM_MMAP: {
        struct drm_i915_gem_mmap *m = arg;
        void *p = real_mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)m->handle, (off_t)m->offset);
        m->addr_ptr = (uintptr_t)p;
        return p == MAP_FAILED ? -1 : 0;
    }
    case DRM_I915_GEM_MMAP_GTT: { /* and GEM_MMAP_OFFSET */
        struct drm_i915_gem_mmap_offset *m = arg;
        m->offset = (uint64_t)m->handle << OFFSET_SHIFT;
        return 0;
    }
    case DRM_I915_GEM_CONTEXT_CREATE:
        ((struct drm_i915_gem_context_create *)arg)->ctx_id = 1;
        return 0;
    case DRM_I915_GEM_VM_CREATE:
        ((struct drm_i915_gem_vm_control *)arg)->vm_id = 1;
        return 0;
    case DRM_I915_GEM_CONTEXT_GETPARAM: {
        struct drm_i915_gem_context_param *p = arg;
        p->value = p->param == I915_CONTEXT_PARAM_GTT_SIZE ? (uint64_t)1 << 48 : 0;
        return 0;
    }
    case DRM_I915_GEM_GET_APERTURE: {
        struct drm_i915_gem_get_aperture *a = arg;
        a->aper_size = a->aper_available_size = (uint64_t)1 << 48;
        return 0;
    }
    default: /* commands and waits: done at once */
        return 0;
    }
}

/* The name of the kernel's driver, which the caller asks for twice: its length, and then its letters. */
static int
version(struct drm_version *v)
{
    static const char name[] = "i915";
    if (v->name && v->name_len >= sizeof name - 1)
        memcpy(v->name, name, sizeof name - 1);
    v->name_len = sizeof name - 1;
    v->version_major = 1;
    v->version_minor = 6;
    v->date_len = v->desc_len = 1; /* libdrm copies texts that it made room for */
    return 0;
}

static int
of_drm(unsigned long request, void *arg)
{
    switch (request) {
    case DRM_IOCTL_VERSION:
        return version(arg);
    case DRM_IOCTL_GET_CAP:
        ((struct drm_get_cap *)arg)->value = 1;
        return 0;
    case DRM_IOCTL_GEM_CLOSE:
        return close((int)((struct drm_gem_close *)arg)->handle);
    case DRM_IOCTL_SYNCOBJ_CREATE:
        ((struct drm_syncobj_create *)arg)->handle = 1;
        return 0;
    default:
        return 0;
    }
}

int
ioctl(int fd, unsigned long request, ...)
{
    va_list rest;
    va_start(rest, request);
    void *arg = va_arg(rest, void *);
    va_end(rest);
    if (_IOC_TYPE(request) == DRM_IOCTL_BASE && is_ours(fd)) {
        read_device();
        const unsigned number = _IOC_NR(request);
        return number >= DRM_COMMAND_BASE && number < DRM_COMMAND_END ? of_i915(number, arg) : of_drm(request, arg);
    }
    int (*real)(int, unsigned long, ...);
    void *symbol = dlsym(RTLD_NEXT, "ioctl");
    memcpy(&real, &symbol, sizeof real);
    return real(fd, request, arg);
}
