/* A target: capabilities and approximate costs of a device, read by passes and kernels.  The compiler fills it from a built-in
 * row, a YAML file or the device itself. */
#ifndef DOPPLER_IR_TARGET_H
#define DOPPLER_IR_TARGET_H

#include "base/caps.h"
#include "ir/schedule_numbers.h"

#include <string.h>

/* Use of kernels that round activations to 8 bits: only on request, wherever possible, or never. */
typedef enum dop_int_dot { DOP_INT_DOT_ALLOW, DOP_INT_DOT_PREFER, DOP_INT_DOT_OFF } dop_int_dot;

/* C types of the kinds of fields in ir/target.def. */
typedef uint32_t dop_target_CAPS, dop_target_COUNT, dop_target_SHAPE;
typedef uint64_t dop_target_BYTES;
typedef double dop_target_AMOUNT;
typedef bool dop_target_FLAG;
typedef dop_int_dot dop_target_INT_DOT;

enum { DOP_AVOID_SIZE = 512 }; /* size of dop_target.avoid in bytes */

typedef struct dop_target {
    char name[32];
    char device[96]; /* device that the target was read from; empty: the target was chosen by name */
    bool nearest;    /* true if `device` has no built-in target; this one is for devices with similar capabilities */
#define FIELD(kind, name, least, most, told) dop_target_##kind name;
#include "ir/target.def"
#undef FIELD
    /* Steps of several rows, up to schedule.stage_rows, also become persistent dispatches, whose products use no matrix units. */
    bool rows_as_stages;
    /* Kernels that are never chosen, because the device's driver rejects or miscompiles them: names, separated by spaces. */
    char avoid[DOP_AVOID_SIZE];
    dop_schedule_numbers schedule;
} dop_target;

/* True if the target avoids the kernel of this name. */
static inline bool
dop_target_avoids(const dop_target *t, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = t->avoid; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strncmp(at, name, n) == 0 && (at[n] == ' ' || at[n] == 0))
            return true;
    return false;
}

/* True if kernels read memory through texel buffer views.  This is faster on software devices, which load through addresses one
 * invocation at a time.  GPUs gain nothing. */
static inline bool
dop_target_views(const dop_target *t)
{
    return t->cpu && (t->caps & DOP_CAP_texels);
}

/* Rule for products on matrix units.  The pass that stores their activations as f16 (passes/narrow.c) and the kernels share it. */
enum {
    DOP_MATRIX_CAPS = DOP_CAP_subgroup | DOP_CAP_coop | DOP_CAP_f16_math | DOP_CAP_f16_storage,
    DOP_MATRIX_ROWS = 16, /* rows of one matrix operand */
    DOP_MATRIX_UNIT = 8   /* the length of a row must be a multiple of this */
};
typedef enum dop_matrix_fit {
    DOP_MATRIX_FIT_yes,
    DOP_MATRIX_FIT_lacks,  /* the target lacks a capability */
    DOP_MATRIX_FIT_ragged, /* the row length is not a multiple of DOP_MATRIX_UNIT */
    DOP_MATRIX_FIT_few     /* possible, but slower for so few rows */
} dop_matrix_fit;

/* Returns whether a product of `rows` rows of `depth` values uses matrix units, and if not, why. */
static inline dop_matrix_fit
dop_matrix_fit_of(const dop_target *t, uint32_t rows, uint32_t depth)
{
    if (dop_caps_missing(DOP_MATRIX_CAPS, t->caps))
        return DOP_MATRIX_FIT_lacks;
    return depth % DOP_MATRIX_UNIT ? DOP_MATRIX_FIT_ragged
           : rows < t->schedule.matrix_least_rows || (t->rows_as_stages && rows <= t->schedule.stage_rows)
               ? DOP_MATRIX_FIT_few
               : DOP_MATRIX_FIT_yes;
}

/* True if a product of `rows` rows with quantized weights uses packed integer dot products because matrix units would be slower.
 * (8-bit activations with a scale per block can represent values of any range.) */
enum { DOP_INT_ROWS_SUBGROUP = 8 };
static inline bool
dop_few_in_integers(const dop_target *t, uint32_t rows)
{
    return rows > 1 && rows <= t->schedule.int_rows && !t->cpu && t->int_dot == DOP_INT_DOT_PREFER &&
           t->subgroup >= DOP_INT_ROWS_SUBGROUP && !dop_caps_missing(DOP_CAP_subgroup | DOP_CAP_int_dot, t->caps);
}

/* Returns the block size of group_rows (ops.def): pairs of a row and an expert that one product tile computes for one expert.  It
 * is a power of two, and large enough for an expert's pairs if all experts have equally many.  0: rows compute their experts one
 * by one, because hardly two rows share an expert. */
enum { DOP_SPAN_LEAST = 8 };
static inline uint32_t
dop_expert_span(const dop_target *t, uint32_t pairs, uint32_t experts)
{
    uint32_t span = dop_caps_missing(DOP_MATRIX_CAPS, t->caps) ? DOP_SPAN_LEAST : DOP_MATRIX_ROWS;
    if (pairs < (uint64_t)experts * t->schedule.expert_share)
        return 0;
    while (span < t->schedule.expert_span_most && (uint64_t)span * experts < pairs)
        span *= 2;
    return span;
}

#endif
