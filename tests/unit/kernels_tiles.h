/* Random tiles of variants, each compiled as one region and compared with the interpreter. */
#ifndef DOPPLER_TESTS_UNIT_KERNELS_TILES_H
#define DOPPLER_TESTS_UNIT_KERNELS_TILES_H

#include "tests/unit/kernels_util.h"

typedef enum tile_target { TILE_CPU, TILE_GPU, TILE_PLAIN, TILE_UNITS } tile_target;

/* What a tile is of: a graph with one region of the variant's template (or more that are alike). */
typedef struct tile_case {
    dop_variant_id variant;
    tile_target target;
    void (*write)(const struct tile_case *c, uint64_t seed, dop_buf *out);
    uint32_t tokens;
    const char *type; /* of weights */
    double slack;     /* of kernel_lab_choice */
} tile_case;
uint32_t tile_cases(const tile_case **out_cases);

typedef enum tile_kind {
    TILE_ANY,  /* any numbers in some fields: 0, 1, primes, powers of two, up to 4096 */
    TILE_LEGAL /* as such, moved step by step towards what is legal */
} tile_kind;

/* What became of a tile. */
typedef struct tile_result {
    bool met;   /* there is a region that the variant fits */
    bool legal; /* the tile passed the check, so that it was compiled, and run if there is a lab */
    dop_tile tile;
    char fault[256]; /* the rule that an illegal one breaks */
} tile_result;

/* Makes a tile for the case from a seed.  lab NULL: it is generated and compiled, but not run.  False: a legal tile gives other numbers than
 * the interpreter, or does not compile, or an illegal one has no reason or is generated all the same; why has one line. */
bool tile_check(kernel_lab *lab, const dop_templates *templates, const tile_case *c, const dop_target *target,
                tile_kind kind, uint64_t seed, tile_result *out, dop_buf *why);
/* Checks n legal tiles and as many of any numbers of the cases from number `first` on, every `step`th, on a software device; those for matrix
 * units are compiled for `units`.  Prints what fails, and returns the number of failures; -1: there is no device. */
int tile_check_cases(uint32_t first, uint32_t step, uint32_t n, const char *units);
/* The target for cases of a kind, for a device with these capabilities and subgroups; TILE_UNITS: `named`. */
dop_target tile_target_of(tile_target kind, const char *named, uint32_t caps, uint32_t subgroup);

#endif
