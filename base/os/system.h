/* Queries that differ between operating systems; base/os/windows implements them for Windows. */
#ifndef DOPPLER_BASE_OS_SYSTEM_H
#define DOPPLER_BASE_OS_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the bytes of memory available without swapping; 0: unknown. */
uint64_t dop_memory_free(void);
/* Returns the bytes of physical memory; 0: unknown. */
uint64_t dop_memory_total(void);
/* True if the path is absolute. */
bool dop_path_is_absolute(const char *path);
/* True if the character separates path components. */
bool dop_is_slash(char c);
/* Returns the path of libdoppler, or of the program that it is linked into (static string); "": unknown. */
const char *dop_library_path(void);

/* Returns the last separator of a path; NULL: none. */
static inline const char *
dop_path_slash(const char *path)
{
    const char *last = NULL;
    for (; *path; path++)
        last = dop_is_slash(*path) ? path : last;
    return last;
}

/* Returns the last component of a path. */
static inline const char *
dop_path_name(const char *path)
{
    const char *slash = dop_path_slash(path);
    return slash ? slash + 1 : path;
}

#endif
