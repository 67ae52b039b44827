/* Shared by the tests of pictures. */
#ifndef DOPPLER_TESTS_UNIT_PICTURE_UTIL_H
#define DOPPLER_TESTS_UNIT_PICTURE_UTIL_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "media/picture/picture.h"

#define PICTURES DOP_SOURCE_DIR "/tests/pictures"

/* FNV-1a, 64 bits. */
static inline uint64_t
bytes_hash(const void *bytes, size_t n)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3;
    return h;
}

static inline dop_map
picture_map(const char *name)
{
    char path[512];
    dop_map map = {0};
    dop_diag diag = {0};
    snprintf(path, sizeof path, "%s%s%s", name[0] == '/' ? "" : PICTURES, name[0] == '/' ? "" : "/", name);
    cr_assert_eq(dop_map_open(path, &diag, &map), DOP_OK, "%s: %s", path, diag.message);
    return map;
}

/* A picture of tests/pictures, or of any folder. */
static inline dop_picture
picture_read(const char *name, dop_budget *budget)
{
    dop_map map = picture_map(name);
    dop_diag diag = {0};
    dop_picture p = {0};
    const dop_status st = dop_picture_decode(map.data, map.size, 0, budget, &diag, &p);
    cr_assert_eq(st, DOP_OK, "%s: %s", name, diag.message);
    dop_map_close(&map);
    return p;
}

#endif
