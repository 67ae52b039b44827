/* The descriptor of a kernel variant: everything that depends on which variant it is.  Selection, generation and whoever asks
 * what is possible call these functions, so that none of them switches over variants. */
#ifndef DOPPLER_KERNELS_DESCRIPTOR_H
#define DOPPLER_KERNELS_DESCRIPTOR_H

#include "kernels/kernel.h"

/* A region, on a target. */
typedef struct dop_site {
    const dop_graph *g;
    const dop_region *r;
    const dop_target *t;
    const uint8_t *routes; /* of a stage: DOP_MAILBOX and DOP_LEAVES by node; else NULL */
} dop_site;

typedef struct dop_gen dop_gen; /* kernels/gen.h */

enum { DOP_TUNES_rows = 1, DOP_TUNES_lanes = 2, DOP_TUNES_unroll = 4, DOP_TUNES_wg = 8 };

struct dop_descriptor {
    /* Can the variant make the region?  The caller has compared the capabilities of its row before, and compares the tile with
     * the target's workgroups and shared memory afterwards.  NULL: it can make every region of its template. */
    dop_refusal (*fits)(const dop_site *s);
    /* The reason why a variant that fits is still not chosen unless somebody asks for it; the function returns NULL when there
     * is none.  NULL: there never is one. */
    const char *(*avoid)(const dop_site *s);
    /* Chooses the tile.  The caller has set wg and subgroup to their defaults. */
    void (*tile)(const dop_site *s, dop_tile *tile);
    /* Bytes of shared memory that the kernel needs with gen's tile, sums over the workgroup not counted.  It may be asked before
     * and while the kernel is generated.  NULL: none. */
    uint32_t (*shared)(dop_gen *gen);
    dop_status (*emit)(dop_gen *gen);
    /* The most times that one invocation goes round its loops, all of them together, with that tile (trips.c).  The caller
     * compares it with target->loop_trips.  NULL: a few. */
    uint64_t (*trips)(const dop_site *s, const dop_tile *tile);

    /* A region that this variant makes may become a stage of a persistent dispatch, whose workgroups have target->persistent
     * invocations.  `stage` is the variant that then makes it, often this one; none: it cannot be a stage.  The two functions
     * are those of the variant `stage`.  as_stage chooses the tile and returns NULL, or returns why it cannot.  as_short_stage
     * returns up to how many positions of its cache the stage has another form, and that form's tile; 0: it has none. */
    dop_variant_id stage;
    const char *(*as_stage)(const dop_site *s, dop_tile *tile);
    uint32_t (*as_short_stage)(const dop_site *s, const dop_tile *stage, dop_tile *tile);

    /* The form of matrix units to prefer on devices that have both: DOP_CAP_coop_khr or DOP_CAP_coop_nv. */
    uint32_t matrix_form;
    /* Fields of the tile that may be doubled or halved by whoever measures which is faster: DOP_TUNES_*. */
    uint32_t tunes;
    bool ints;  /* activations in 8 bits per 32 values, packed integer products */
    bool ahead; /* with 64-bit integers, the first words of its weights are loaded before they are used */
};

/* One for each row of kernels.def, in the file of its family. */
#define KERNEL(name, ...) extern const dop_descriptor dop_descriptor_##name;
#include "kernels/kernels.def"
#undef KERNEL

#endif
