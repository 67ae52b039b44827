#include "base/os/system.h"

#include <stdio.h>
#include <unistd.h>

uint64_t
dop_memory_free(void)
{
    FILE *f = fopen("/proc/meminfo", "re");
    char line[128];
    unsigned long long kib = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return kib * 1024;
}

uint64_t
dop_memory_total(void)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
}

bool
dop_path_is_absolute(const char *path)
{
    return path[0] == '/';
}

bool
dop_is_slash(char c)
{
    return c == '/';
}
