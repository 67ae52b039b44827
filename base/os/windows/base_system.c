/* Implementation of base/os/system.h for Windows. */
#include "base/os/system.h"

#include "base/os/windows/posix.h"
#include "base/os/windows/wide.h"

uint64_t
dop_memory_free(void)
{
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    return GlobalMemoryStatusEx(&memory) ? memory.ullAvailPhys : 0;
}

uint64_t
dop_memory_total(void)
{
    MEMORYSTATUSEX memory = {.dwLength = sizeof memory};
    return GlobalMemoryStatusEx(&memory) ? memory.ullTotalPhys : 0;
}

/* Absolute paths: C:/NAME, //HOST/NAME, and /NAME on the current drive. */
bool
dop_path_is_absolute(const char *path)
{
    const bool drive = path[0] && path[1] == ':';
    return dop_is_slash(path[drive ? 2 : 0]);
}

bool
dop_is_slash(char c)
{
    return c == '/' || c == '\\';
}
