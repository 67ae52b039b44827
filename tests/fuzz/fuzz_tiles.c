/* Random tiles of kernel variants against the interpreter, for as long as wanted (tests/unit/kernels_tiles.c; the test suite takes a few
 * of each variant).
 *
 *   fuzz_tiles FIRST COUNT [VARIANT]           seeds, each for every variant or this one: legal tiles on odd seeds, any on even ones, on
 *                                              the device that doppler-exec takes, but for those of matrix units
 *   fuzz_tiles FIRST COUNT units TARGET [V]    the variants for matrix units on that device, which TARGET is for, as nvidia-hopper
 *   fuzz_tiles FIRST COUNT compile TARGET [V]  the same without a device: tiles are generated and compiled only */
#include "base/program/options.h"
#include "tests/unit/kernels_tiles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct counts {
    uint64_t legal, refused, failed;
} counts;

static counts
run_case(kernel_lab *lab, const dop_templates *templates, const tile_case *c, const dop_target *target,
         unsigned long long first, unsigned long long count)
{
    counts n = {0};
    for (unsigned long long seed = first; seed < first + count; seed++) {
        tile_result result;
        dop_buf why = {0};
        const bool ok = tile_check(lab, templates, c, target, seed % 2 ? TILE_LEGAL : TILE_ANY, seed, &result, &why);
        n.legal += result.legal;
        n.refused += result.met && !result.legal;
        n.failed += !ok;
        if (!ok)
            printf("FAILED %s\n", why.data ? why.data : "?");
        fflush(stdout);
        dop_buf_finish(&why);
    }
    printf("%-22s %-14s %llu legal, %llu refused, %llu failed\n", dop_variant_of(c->variant)->name, target->name,
           (unsigned long long)n.legal, (unsigned long long)n.refused, (unsigned long long)n.failed);
    fflush(stdout);
    return n;
}

int
main(int argc, char **argv)
{
    const bool units = argc > 4 && strcmp(argv[3], "units") == 0, dry = argc > 4 && strcmp(argv[3], "compile") == 0;
    const char *only = units || dry ? (argc > 5 ? argv[5] : NULL) : argc > 3 ? argv[3] : NULL;
    const tile_case *cases;
    const uint32_t n = tile_cases(&cases);
    kernel_lab *lab = NULL;
    dop_templates templates;
    dop_buf why = {0};
    dop_diag diag = {0};
    counts all = {0};
    uint32_t caps = ~0u, subgroup = 32;
    if (argc < 3) {
        fprintf(stderr,
                "usage: fuzz_tiles FIRST COUNT [VARIANT | units TARGET [VARIANT] | compile TARGET [VARIANT]]\n");
        return 2;
    }
    if (dop_templates_load(DOP_GLSL_SOURCE_DIR, &templates, &diag) != DOP_OK ||
        (!dry && !kernel_lab_open_any(&lab, &caps, &subgroup, &why))) {
        fprintf(stderr, "fuzz_tiles: %s%s\n", diag.message, why.data ? why.data : "");
        return 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        const bool of_units = cases[i].target == TILE_UNITS;
        if (of_units != (units || dry) || (only && strcmp(only, dop_variant_of(cases[i].variant)->name) != 0))
            continue;
        const dop_target target = tile_target_of(cases[i].target, argv[4], caps, subgroup);
        const counts x =
            run_case(lab, &templates, &cases[i], &target, strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10));
        all.legal += x.legal;
        all.refused += x.refused;
        all.failed += x.failed;
    }
    printf("%llu legal tiles, %llu refused, %llu failed\n", (unsigned long long)all.legal,
           (unsigned long long)all.refused, (unsigned long long)all.failed);
    kernel_lab_close(lab);
    dop_templates_finish(&templates);
    dop_buf_finish(&why);
    return all.failed > 0;
}
