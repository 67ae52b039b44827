/* Descriptor of a kernel variant: all variant-specific functions and properties. Selection, generation and queries call these
 * functions, so that no other code switches over variants. */
#ifndef DOPPLER_KERNELS_DESCRIPTOR_H
#define DOPPLER_KERNELS_DESCRIPTOR_H

#include "kernels/kernel.h"

/* A region and its target. */
typedef struct dop_site {
    const dop_graph *g;
    const dop_region *r;
    const dop_target *t;
    const uint8_t *routes; /* stages: DOP_MAILBOX and DOP_LEAVES bits by node; otherwise NULL */
} dop_site;

typedef struct dop_gen dop_gen; /* kernels/gen/gen.h */

/* Converts a tile field's name to its bit in a set of fields. */
#define DOP_FIELD(name) (1u << DOP_TILE_NO_##name)

/* A tile being validated (legal.c); `fault` receives the first violated rule. */
typedef struct dop_check {
    const dop_site *s;
    const dop_tile *tile;
    dop_tile_fault *fault;
} dop_check;

struct dop_descriptor {
    /* Checks whether the variant can compute the region. The caller checks the required capabilities before, and the tile
     * afterwards. NULL: every region of the template is supported. */
    dop_refusal (*fits)(const dop_site *s);
    /* Returns the reason why a variant that fits should be used only if it is forced; NULL: no reason. A NULL function: never
     * a reason. */
    const char *(*avoid)(const dop_site *s);
    /* Chooses the tile. The caller has set wg and subgroup to their defaults. */
    void (*tile)(const dop_site *s, dop_tile *tile);
    /* Updates the fields that kernel path rules do not set (`tuned` is false in ir/tile.def) after other fields were changed.
     * NULL: no field depends on others. */
    void (*settle)(const dop_site *s, dop_tile *tile);
    /* Checks all assumptions of `emit` about the tile: divisibility, capacity of lanes and registers, amount of unrolled
     * code. The caller checks `wg` against the target before, and shared memory and loop trip counts afterwards. NULL: any
     * workgroup size is valid. */
    void (*legal)(dop_check *c);
    /* Returns the bytes of shared memory that the kernel needs with gen's tile, without those for reductions over the
     * workgroup. May be called before and during generation. NULL: none. */
    uint32_t (*shared)(dop_gen *gen);
    /* Generates the kernel's GLSL (gen->main) and its grid. */
    dop_status (*emit)(dop_gen *gen);
    /* Returns the loop trip count: an upper bound on the total iterations of all loops of one invocation with that tile
     * (trips.c). The caller compares it with target->loop_trips. NULL: negligible. */
    uint64_t (*trips)(const dop_site *s, const dop_tile *tile);

    /* Conversion to a stage of a persistent dispatch, whose workgroups have target->persistent invocations. `stage` is the
     * variant used for the stage, often this one; none: the region cannot be a stage. The functions are called on the
     * descriptor of `stage`.
     * as_stage chooses the tile and returns NULL, or returns why the region cannot be a stage. as_short_stage chooses another
     * tile for short caches and returns the maximum cache length in positions for it; 0: no such tile. */
    dop_variant_id stage;
    const char *(*as_stage)(const dop_site *s, dop_tile *tile);
    uint32_t (*as_short_stage)(const dop_site *s, const dop_tile *stage, dop_tile *tile);

    /* Preferred form of matrix units on devices that support both: DOP_CAP_coop_khr or DOP_CAP_coop_nv. */
    uint32_t matrix_form;
    uint32_t fields; /* tile fields that the variant uses, in addition to wg: DOP_FIELD bits */
    uint32_t tunes;  /* subset of `fields` that --tune may double or halve when it searches for the fastest tile */
    bool any_wg;     /* no tree reduction over the workgroup: its size need not be a power of two without subgroups */
    bool ints;       /* packed integer products: int8 activations with a scale per 32 values */
    bool ahead;      /* prefetches the first words of weights if the target has 64-bit integers */
    bool texels;     /* reads matrices through texel buffers on CPU devices with DOP_CAP_texels (dop_emit_matrix_arg) */
};

/* One descriptor for each row of kernels.def, defined in the file of its family. */
#define KERNEL(name, ...) extern const dop_descriptor dop_descriptor_##name;
#include "kernels/kernels.def"
#undef KERNEL

#endif
