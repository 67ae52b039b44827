/* Variants of products of one row where there are many invocations, of experts too: which regions each can make (gen_gemv.c). */
#include "kernels/gen.h"

static dop_refusal
fits_ints(const dop_site *s)
{
    dop_refusal no = dop_products_refuse(s);
    return no.why ? no : dop_int8_refuses(s);
}

static dop_refusal
fits_mixed(const dop_site *s)
{
    dop_refusal no = dop_products_refuse(s);
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

/* What all variants have in common, and what is tuned of those whose lanes share rows. */
#define GEMV .shared = dop_gemv_shared, .emit = dop_gemv_emit, .trips = dop_trips_gemv
#define TUNED .tunes = DOP_TUNES_rows | DOP_TUNES_lanes | DOP_TUNES_unroll | DOP_TUNES_wg

const dop_descriptor dop_descriptor_gemv = {
    .fits = dop_products_refuse,
    .tile = dop_gemv_tile,
    GEMV,
};
const dop_descriptor dop_descriptor_gemv_i8 = {
    .fits = fits_ints,
    .avoid = dop_int8_avoid,
    .tile = dop_gemv_tile,
    GEMV,
    .ints = true,
};
const dop_descriptor dop_descriptor_gemv_subgroup = {
    TUNED, .fits = dop_products_refuse,        .avoid = avoid_lanes,       .tile = dop_gemv_tile,
    GEMV,  .stage = DOP_VARIANT_gemv_subgroup, .as_stage = dop_gemv_stage,
};
const dop_descriptor dop_descriptor_gemv_subgroup_i8 = {
    TUNED,
    .fits = fits_ints,
    .avoid = avoid_ints_and_lanes,
    .tile = dop_gemv_tile,
    GEMV,
    .stage = DOP_VARIANT_gemv_subgroup_i8,
    .as_stage = dop_gemv_stage,
    .ints = true,
};
const dop_descriptor dop_descriptor_gemv_subgroup_mixed = {
    TUNED,
    .fits = fits_mixed,
    .avoid = avoid_ints_and_lanes,
    .tile = dop_gemv_tile_i8,
    GEMV,
    .stage = DOP_VARIANT_gemv_subgroup, /* two forms of a long row would take too much shared memory in a stage */
    .ints = true,
};

const dop_descriptor dop_descriptor_expert = {
    .fits = dop_products_refuse,
    .tile = dop_gemv_tile,
    GEMV,
};
const dop_descriptor dop_descriptor_expert_i8 = {
    .fits = fits_ints,
    .avoid = dop_int8_avoid,
    .tile = dop_gemv_tile,
    GEMV,
    .ints = true,
};
const dop_descriptor dop_descriptor_expert_subgroup = {
    TUNED, .fits = dop_products_refuse,          .tile = dop_gemv_tile,
    GEMV,  .stage = DOP_VARIANT_expert_subgroup, .as_stage = dop_gemv_stage,
};
const dop_descriptor dop_descriptor_expert_subgroup_i8 = {
    TUNED,
    .fits = fits_ints,
    .avoid = dop_int8_avoid,
    .tile = dop_gemv_tile,
    GEMV,
    .stage = DOP_VARIANT_expert_subgroup_i8,
    .as_stage = dop_gemv_stage,
    .ints = true,
};
const dop_descriptor dop_descriptor_expert_each = {
    .fits = dop_products_refuse,
    .tile = dop_gemv_tile,
    GEMV,
};
const dop_descriptor dop_descriptor_expert_each_subgroup = {
    .fits = dop_products_refuse,
    .tile = dop_gemv_tile,
    GEMV,
};
