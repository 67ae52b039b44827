/* What every system says in its own way; base/os/windows has the form of Windows. */
#ifndef DOPPLER_BASE_OS_SYSTEM_H
#define DOPPLER_BASE_OS_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of memory that programs can have without others being moved to disk; 0: the system does not say. */
uint64_t dop_memory_free(void);
/* Bytes of memory that the machine has; 0: the system does not say. */
uint64_t dop_memory_total(void);
/* Does the name of a file begin at the root of the file system? */
bool dop_path_is_absolute(const char *path);
/* Does the character separate folders in names of files? */
bool dop_is_slash(char c);
/* The file that libdoppler was loaded from, or the program that holds it; static.  "": it is unknown. */
const char *dop_library_path(void);

/* The last character of a file's name that separates folders; NULL: there is none. */
static inline const char *
dop_path_slash(const char *path)
{
    const char *last = NULL;
    for (; *path; path++)
        last = dop_is_slash(*path) ? path : last;
    return last;
}

/* The last part of a file's name: what is behind the last slash. */
static inline const char *
dop_path_name(const char *path)
{
    const char *slash = dop_path_slash(path);
    return slash ? slash + 1 : path;
}

#endif
