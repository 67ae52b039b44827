/* What every system says in its own way; base/windows has the form of Windows. */
#ifndef DOPPLER_BASE_SYSTEM_H
#define DOPPLER_BASE_SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of memory that programs can have without others being moved to disk; 0: the system does not say. */
uint64_t dop_memory_free(void);
/* Bytes of memory that the machine has; 0: the system does not say. */
uint64_t dop_memory_total(void);
/* Does the name of a file begin at the root of the file system? */
bool dop_path_is_absolute(const char *path);

#endif
