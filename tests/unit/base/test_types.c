/* Storage types of GGUF: rows as another library decodes them (tests/types: 8 rows of 1024 values of each type, made for this
 * project; the digests are those of the values that llama.cpp's library makes of them), and the planes that kernels read. */
#include "base/base.h"
#include "base/storage/packing.h"
#include "compiler/pack/repack.h"
#include "ir/interp/interp.h"
#include "kernels/emit/weight_types.h"
#include "tools/check/check.h"
#include "tools/check/check_unpack.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { ROWS = 8, COLUMNS = 1024 };

typedef struct sample {
    const char *name; /* of a file */
    dop_type type;
    uint64_t digest; /* XXH64 of the values */
} sample;

static const sample samples[] = {
#include "tests/types/digests.def"
};

static dop_map
rows_of(const sample *s)
{
    char path[512];
    dop_map map = {0};
    uint64_t row = 0;
    snprintf(path, sizeof path, DOP_SOURCE_DIR "/tests/types/%s.bin", s->name);
    cr_assert_eq(dop_map_open(path, NULL, &map), DOP_OK, "%s", path);
    cr_assert(dop_type_row_bytes(s->type, COLUMNS, &row) && map.size == ROWS * row, "%s", s->name);
    return map;
}

Test(types, every_type_of_gguf)
{
    for (int t = 0; t < DOP_TYPE_COUNT; t++) {
        size_t found = 0;
        for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
            found += samples[i].type == (dop_type)t;
        const dop_type_info *ti = dop_type_of((dop_type)t);
        cr_expect_eq(found, ti->kind == DOP_KIND_QUANT && ti->gguf >= 0, "%s has %zu samples", ti->name, found);
    }
}

Test(types, values_to_the_bit)
{
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        const sample *s = &samples[i];
        dop_map map = rows_of(s);
        float *values = calloc(ROWS * COLUMNS, sizeof *values);
        for (size_t r = 0; r < ROWS; r++)
            dop_decode_row(s->type, map.data + r * (map.size / ROWS), COLUMNS, values + r * COLUMNS);
        const uint64_t digest = XXH64(values, ROWS * COLUMNS * sizeof *values, 0);
        cr_expect_eq(digest, s->digest, "%s: {\"%s\", DOP_TYPE_%s, 0x%016llx},", s->name, s->name,
                     dop_type_of(s->type)->name, (unsigned long long)digest);
        free(values);
        dop_map_close(&map);
    }
}

/* Rows that do not begin with a group of units, and that end within a block. */
Test(types, planes_and_back)
{
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        const sample *s = &samples[i];
        dop_map map = rows_of(s);
        for (uint32_t cols = COLUMNS - 41; cols <= COLUMNS; cols += 41) {
            const uint64_t size = dop_packed_bytes(s->type, ROWS, cols);
            uint8_t *packed = calloc(1, size);
            float got[COLUMNS], want[COLUMNS];
            for (uint32_t r = 0; r < ROWS; r++)
                dop_repack_row(s->type, map.data + r * (map.size / ROWS), r, ROWS, cols, packed);
            for (uint32_t r = 0; r < ROWS; r++) {
                dop_decode_row(s->type, map.data + r * (map.size / ROWS), cols, want);
                dop_check_place row;
                cr_assert(dop_check_find_row(s->type, size, ROWS, cols, r, &row));
                dop_check_unpack_row(s->type, &row, packed + row.units, packed + row.groups, packed + row.factor, cols,
                                     got);
                cr_expect_arr_eq(got, want, cols * sizeof *got, "%s: row %u of %u columns", s->name, r, cols);
            }
            cr_assert_not(dop_check_find_row(s->type, size - 1, ROWS, cols, 0, &(dop_check_place){0}));
            free(packed);
        }
        dop_map_close(&map);
    }
}

/* Any part of a plane, made of the blocks of a file, is that part of a packed matrix: parts that begin and end within units and groups,
 * and are longer than what is made at once. */
Test(types, parts_of_planes)
{
    uint32_t seed = 1;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        const sample *s = &samples[i];
        const dop_type_info *ti = dop_type_of(s->type);
        dop_map map = rows_of(s);
        for (uint32_t rows = ROWS - 1; rows <= ROWS; rows++) {
            const dop_planes planes = dop_planes_of(s->type, (uint64_t)rows * COLUMNS / ti->pack.unit);
            const uint64_t n = rows * map.size / ROWS / ti->bytes;
            uint8_t *packed = calloc(1, dop_packed_bytes(s->type, rows, COLUMNS));
            for (uint32_t r = 0; r < rows; r++)
                dop_repack_row(s->type, map.data + r * (map.size / ROWS), r, rows, COLUMNS, packed);
            for (int k = 0; k < 40; k++) {
                const bool groups = k % 2;
                const uint64_t plane = groups ? planes.group_bytes : planes.units;
                const uint64_t from = k < 2 ? 0 : (seed = seed * 1664525 + 1013904223) % plane;
                const uint64_t size = k < 2 ? plane : (seed = seed * 1664525 + 1013904223) % (plane - from) + 1;
                uint8_t *got = malloc(size + 1);
                got[size] = 171;
                if (groups)
                    dop_pack_groups(s->type, map.data, n, from, size, got);
                else
                    dop_pack_units(s->type, map.data, from, size, got);
                cr_expect(memcmp(got, packed + (groups ? planes.groups : 0) + from, size) == 0,
                          "%s: %llu bytes from %llu", s->name, (unsigned long long)size, (unsigned long long)from);
                cr_expect_eq(got[size], 171);
                free(got);
            }
            free(packed);
        }
        dop_map_close(&map);
    }
}

static double
half(double x)
{
    return dop_f16_to_f32(dop_f32_to_f16((float)x));
}

/* Levels of iq4 as products on matrix units make them (dop_scaled2_iq4 in kernels/glsl/types/halves.glsl): a polynomial in halves of the
 * nibble less 7, to which 1536 - 10 is added, so that what is left are whole numbers. */
Test(types, levels_of_iq4_from_a_polynomial)
{
    static const int levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    char line[256];
    double by[5] = {0};
    FILE *f = fopen(DOP_GLSL_SOURCE_DIR "/types/halves.glsl", "r");
    cr_assert(f);
    while (by[0] == 0 && fgets(line, sizeof line, f))
        sscanf(line, "#define DOP_IQ4_POLYNOMIAL %lf, %lf, %lf, %lf", &by[0], &by[1], &by[2], &by[3]);
    fclose(f);
    by[4] = 1526;
    for (int i = 0; i < 16; i++)
        for (int fused = 0; fused < 2; fused++) {
            double p = by[0];
            for (int k = 1; k < 5; k++)
                p = half((fused ? p * (i - 7) : half(p * (i - 7))) + by[k]);
            cr_expect_eq(p - 1536, levels[i], "nibble %d, fused %d: %g", i, fused, p - 1536);
        }
}
