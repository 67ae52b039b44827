/* A target: what the device offers and roughly what things cost there.  Passes and kernels read it; the
 * compiler fills it from a built-in row, a YAML file or the device itself. */
#ifndef DOPPLER_IR_TARGET_H
#define DOPPLER_IR_TARGET_H

#include "base/caps.h"
#include "ir/schedule_numbers.h"

#include <string.h>

/* Kernels that round activations to 8 bits are used only when asked for, wherever they can be, or never. */
typedef enum dop_int_dot { DOP_INT_DOT_ALLOW, DOP_INT_DOT_PREFER, DOP_INT_DOT_OFF } dop_int_dot;

/* C types of the kinds of fields in ir/target.def. */
typedef uint32_t dop_target_CAPS, dop_target_COUNT, dop_target_SHAPE;
typedef uint64_t dop_target_BYTES;
typedef double dop_target_AMOUNT;
typedef bool dop_target_FLAG;
typedef dop_int_dot dop_target_INT_DOT;

enum { DOP_AVOID_SIZE = 512 }; /* bytes of dop_target.avoid */

typedef struct dop_target {
    char name[32];
    char device[96]; /* the device that the target was read from; empty: the target was chosen by name */
    bool nearest;    /* no built-in target is for `device`: this one is for other devices with its capabilities */
#define FIELD(kind, name, least, most, told) dop_target_##kind name;
#include "ir/target.def"
#undef FIELD
    /* Steps of several rows, up to schedule.stage_rows, are compiled to persistent dispatches too, whose products use no matrix
     * units. */
    bool rows_as_stages;
    /* Kernels that are never chosen, as the device's driver refuses them or computes something else: names, separated by spaces. */
    char avoid[DOP_AVOID_SIZE];
    dop_schedule_numbers schedule;
} dop_target;

/* Is a kernel of this name among those that the target avoids? */
static inline bool
dop_target_avoids(const dop_target *t, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = t->avoid; *at; at += strcspn(at, " "), at += *at == ' ')
        if (strncmp(at, name, n) == 0 && (at[n] == ' ' || at[n] == 0))
            return true;
    return false;
}

/* Do kernels read memory through texel buffer views?  A software device loads through addresses one invocation at a time, so that
 * views are faster; GPUs gain nothing. */
static inline bool
dop_target_views(const dop_target *t)
{
    return t->cpu && (t->caps & DOP_CAP_texels);
}

/* Which products use matrix units where the target has them.  The pass that stores their activations as f16
 * (passes/narrow.c) and the kernels share this rule. */
enum {
    DOP_MATRIX_CAPS = DOP_CAP_subgroup | DOP_CAP_coop | DOP_CAP_f16_math | DOP_CAP_f16_storage,
    DOP_MATRIX_ROWS = 16, /* rows of a whole matrix */
    DOP_MATRIX_UNIT = 8   /* the length of a row is a multiple of this */
};
typedef enum dop_matrix_fit {
    DOP_MATRIX_FIT_yes,
    DOP_MATRIX_FIT_lacks,  /* the target lacks a capability */
    DOP_MATRIX_FIT_ragged, /* the row length does not divide */
    DOP_MATRIX_FIT_few     /* possible, but not worth it for so few rows */
} dop_matrix_fit;

/* Does a product of `rows` rows of `depth` values use matrix units? */
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

/* Does a product of `rows` rows with quantized weights use packed integer products, where matrix units would take more time?
 * (Activations in 8 bits with a scale per block hold values of any range.) */
enum { DOP_INT_ROWS_SUBGROUP = 8 };
static inline bool
dop_few_in_integers(const dop_target *t, uint32_t rows)
{
    return rows > 1 && rows <= t->schedule.int_rows && !t->cpu && t->int_dot == DOP_INT_DOT_PREFER &&
           t->subgroup >= DOP_INT_ROWS_SUBGROUP && !dop_caps_missing(DOP_CAP_subgroup | DOP_CAP_int_dot, t->caps);
}

/* Size of the blocks, of one expert each (group_rows in ops.def), in which a tile of products computes pairs of a row and one
 * of its experts: a power of two, large enough for the pairs of an expert if all experts have equally many.  0: rows compute
 * their experts one by one, because hardly two of them share one. */
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
