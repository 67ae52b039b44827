/* Damaged copies of a file.
 *
 *   damage flip FILE OUT BYTE BIT     one bit turned over
 *   damage places FILE N              N positions spread over the file, one a line: the first 64 bytes, the last one, and
 *                                     the others at distances that hit every kind of field
 *
 * Exit status 0, or 2 when a file cannot be used. */
#include "base/base.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
flip(const dop_map *map, const char *out, uint64_t at, unsigned bit)
{
    dop_diag diag = {0};
    char *copy = at < map->size && bit < 8 ? malloc((size_t)map->size) : NULL;
    if (!copy)
        return 2;
    memcpy(copy, map->data, (size_t)map->size);
    copy[at] = (char)(copy[at] ^ (1 << bit));
    int status = dop_write_file(out, copy, (size_t)map->size, &diag) == DOP_OK ? 0 : 2;
    free(copy);
    return status;
}

static int
places(const dop_map *map, uint64_t n)
{
    enum { FRONT = 64 };
    if (map->size < FRONT || n <= FRONT + 1)
        return 2;
    for (uint64_t i = 0; i < FRONT; i++)
        printf("%llu\n", (unsigned long long)i);
    const uint64_t rest = n - FRONT - 1, step = (map->size - FRONT) / rest;
    for (uint64_t i = 0; i < rest; i++) /* 7 i: so that equal distances do not hit the same field of each row */
        printf("%llu\n", (unsigned long long)(FRONT + (i * step + 7 * i) % (map->size - FRONT)));
    printf("%llu\n", (unsigned long long)(map->size - 1));
    return 0;
}

int
main(int argc, char **argv)
{
    dop_map map;
    int status = 2;
    if (argc < 4 || dop_map_open(argv[2], NULL, &map) != DOP_OK) {
        fprintf(stderr, "usage: damage flip FILE OUT BYTE BIT | damage places FILE N\n");
        return 2;
    }
    if (strcmp(argv[1], "flip") == 0 && argc == 6)
        status = flip(&map, argv[3], strtoull(argv[4], NULL, 10), (unsigned)strtoul(argv[5], NULL, 10));
    else if (strcmp(argv[1], "places") == 0)
        status = places(&map, strtoull(argv[3], NULL, 10));
    dop_map_close(&map);
    return status;
}
