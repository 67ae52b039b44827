/* The descriptor of a kernel variant: everything that depends on the variant.  Selection, generation and all code that asks
 * what is possible call these functions, so that none of it switches over variants. */
#ifndef DOPPLER_KERNELS_DESCRIPTOR_H
#define DOPPLER_KERNELS_DESCRIPTOR_H

#include "kernels/kernel.h"

/* A region and the target it is for. */
typedef struct dop_site {
    const dop_graph *g;
    const dop_region *r;
    const dop_target *t;
    const uint8_t *routes; /* for a stage: DOP_MAILBOX and DOP_LEAVES by node; else NULL */
} dop_site;

typedef struct dop_gen dop_gen; /* kernels/gen/gen.h */

/* A field of the tile as a bit, for sets of fields. */
#define DOP_FIELD(name) (1u << DOP_TILE_NO_##name)

/* A tile whose legality is being checked (legal.c); `fault` keeps the first rule that it breaks. */
typedef struct dop_check {
    const dop_site *s;
    const dop_tile *tile;
    dop_tile_fault *fault;
} dop_check;

struct dop_descriptor {
    /* Can the variant make the region?  The caller has compared the capabilities of its row before, and checks the tile
     * afterwards.  NULL: it can make every region of its template. */
    dop_refusal (*fits)(const dop_site *s);
    /* Why a variant that fits is chosen only when somebody asks for it; the function returns NULL when there is no such
     * reason.  NULL: there never is one. */
    const char *(*avoid)(const dop_site *s);
    /* Chooses the tile.  The caller has set wg and subgroup to their defaults. */
    void (*tile)(const dop_site *s, dop_tile *tile);
    /* Sets the fields that no rule of a kernel path states (`tuned` of ir/tile.def) to what suits the other fields, after some of
     * these were changed.  NULL: they suit any tile. */
    void (*settle)(const dop_site *s, dop_tile *tile);
    /* Checks everything that `emit` takes for granted about the tile: divisibility, what lanes and registers hold, and how much
     * code is unrolled.  The caller checks `wg` against the target before, and shared memory and loop trip counts afterwards.
     * NULL: any workgroup will do. */
    void (*legal)(dop_check *c);
    /* Bytes of shared memory that the kernel needs with gen's tile, besides the bytes for sums over the workgroup.  The function
     * may be called before and while the kernel is generated.  NULL: none. */
    uint32_t (*shared)(dop_gen *gen);
    /* Generates the kernel's GLSL (gen->main) and its grid. */
    dop_status (*emit)(dop_gen *gen);
    /* Loop trip count: an upper bound of the iterations of all loops of an invocation together, with that tile (trips.c).  The
     * caller compares the bound with target->loop_trips.  NULL: a few. */
    uint64_t (*trips)(const dop_site *s, const dop_tile *tile);

    /* A region that this variant makes may become a stage of a persistent dispatch, whose workgroups have target->persistent
     * invocations.  `stage` is the variant that makes the stage, often this one; none: the region cannot be a stage.  The two
     * functions are called on the descriptor of `stage`.  as_stage chooses the stage's tile and returns NULL, or returns why the
     * region cannot be a stage.  as_short_stage chooses the tile of another form for short caches, and returns up to how many
     * positions of the cache this form is used; 0: there is no other form. */
    dop_variant_id stage;
    const char *(*as_stage)(const dop_site *s, dop_tile *tile);
    uint32_t (*as_short_stage)(const dop_site *s, const dop_tile *stage, dop_tile *tile);

    /* The form of matrix units to prefer on devices that have both: DOP_CAP_coop_khr or DOP_CAP_coop_nv. */
    uint32_t matrix_form;
    uint32_t fields; /* fields of the tile that the variant has, besides wg: DOP_FIELD */
    uint32_t tunes;  /* those of them that --tune may double or halve to measure which is faster */
    bool any_wg;     /* no sum is halved over the workgroup, so its size need not be a power of two without subgroups */
    bool ints;       /* packed integer products: activations in 8 bits with a scale per 32 values */
    bool ahead;      /* prefetches the first words of weights, where the target has 64-bit integers */
    bool texels;     /* reads matrices through a view, on CPU devices with DOP_CAP_texels (dop_emit_matrix_arg) */
};

/* One for each row of kernels.def, in the file of its family. */
#define KERNEL(name, ...) extern const dop_descriptor dop_descriptor_##name;
#include "kernels/kernels.def"
#undef KERNEL

#endif
