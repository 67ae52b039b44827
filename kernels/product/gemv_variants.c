/* Variants of single-row products for devices with many invocations, including experts: the regions that each supports
 * (gen_gemv.c). */
#include "kernels/gen/int8.h"
#include "kernels/gen/products.h"
#include "kernels/gen/trips.h"
#include "kernels/product/gemv_tiles.h"
#include "kernels/product/gen_gemv.h"

static dop_refusal
gemv_fits_ints(const dop_site *s)
{
    const dop_refusal no = dop_products_refuse(s);
    return no.why ? no : dop_int8_refuses(s);
}

static dop_refusal
fits_mixed(const dop_site *s)
{
    const dop_refusal no = dop_products_refuse(s);
    return no.why ? no : dop_int8_refuses_mixed(s);
}

static const char *
avoid_lanes(const dop_site *s)
{
    return s->t->cpu ? "sums across lanes are slow on CPU devices" : NULL;
}

static const char *
avoid_ints_and_lanes(const dop_site *s)
{
    const char *no = dop_int8_avoid(s);
    return no ? no : avoid_lanes(s);
}

/* Descriptor fields of all variants, of floats, of integers, of tuned ones, and of those that may be stages. */
#define GEMV                                                                                            \
    .shared = dop_gemv_shared, .emit = dop_gemv_emit, .trips = dop_trips_gemv, .legal = dop_gemv_legal, \
    .fields = DOP_FIELD(lanes) | DOP_FIELD(rows) | DOP_FIELD(loops) | DOP_FIELD(unroll) | DOP_FIELD(stage)
#define FLOATS .fits = dop_products_refuse, .tile = dop_gemv_tile, GEMV
#define INTS .fits = gemv_fits_ints, .tile = dop_gemv_tile, .ints = true, GEMV
#define TUNED .tunes = DOP_FIELD(rows) | DOP_FIELD(lanes) | DOP_FIELD(unroll) | DOP_FIELD(wg)
#define STAGE(name) TUNED, .stage = DOP_VARIANT_##name, .as_stage = dop_gemv_stage

const dop_descriptor dop_descriptor_gemv = {FLOATS};
const dop_descriptor dop_descriptor_gemv_i8 = {INTS, .avoid = dop_int8_avoid};
const dop_descriptor dop_descriptor_gemv_subgroup = {FLOATS, STAGE(gemv_subgroup), .avoid = avoid_lanes};
const dop_descriptor dop_descriptor_gemv_subgroup_i8 = {INTS, STAGE(gemv_subgroup_i8), .avoid = avoid_ints_and_lanes};
/* Its stage uses floats only: two forms of a long row would need too much shared memory. */
const dop_descriptor dop_descriptor_gemv_subgroup_mixed = {TUNED,
                                                           GEMV,
                                                           .fits = fits_mixed,
                                                           .avoid = avoid_ints_and_lanes,
                                                           .tile = dop_gemv_tile_i8,
                                                           .stage = DOP_VARIANT_gemv_subgroup,
                                                           .ints = true};
const dop_descriptor dop_descriptor_expert = {FLOATS};
const dop_descriptor dop_descriptor_expert_i8 = {INTS, .avoid = dop_int8_avoid};
const dop_descriptor dop_descriptor_expert_subgroup = {FLOATS, STAGE(expert_subgroup)};
const dop_descriptor dop_descriptor_expert_subgroup_i8 = {INTS, STAGE(expert_subgroup_i8), .avoid = dop_int8_avoid};
const dop_descriptor dop_descriptor_expert_each = {FLOATS};
const dop_descriptor dop_descriptor_expert_each_subgroup = {FLOATS};
