/* What a row of kernels.def is made of.  Everything that depends on which kernel it is stands here: selection, generation
 * and whoever asks what is possible call these and never ask for a variant by name. */
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

struct dop_descriptor {
    /* Can it make the region, beyond the capabilities of its row?  NULL: every region of its template.  Whether the tile
     * fits the target's workgroups and shared memory is compared by the caller. */
    dop_refusal (*fits)(const dop_site *s);
    /* It can, but is not taken unless asked for: why, or NULL.  NULL: it is always welcome. */
    const char *(*avoid)(const dop_site *s);
    /* The tile; wg and subgroup are set to what is usual before. */
    void (*tile)(const dop_site *s, dop_tile *tile);
    /* Bytes of shared memory that it takes in gen's tile, before or while it is generated, without those of sums over the
     * workgroup.  NULL: none. */
    uint32_t (*shared)(dop_gen *gen);
    dop_status (*emit)(dop_gen *gen);

    /* As a stage of a persistent dispatch of target->persistent invocations: the variant that does it (often itself; none:
     * no stage), and in that variant its tile there (NULL, or why there is none) and, where a stage does something else
     * while its cache is short, up to how many positions (0: never) and the tile of that. */
    dop_variant_id stage;
    const char *(*as_stage)(const dop_site *s, dop_tile *tile);
    uint32_t (*as_short_stage)(const dop_site *s, const dop_tile *stage, dop_tile *tile);

    /* Of two forms of matrix units the better one: DOP_CAP_coop_khr or DOP_CAP_coop_nv. */
    uint32_t matrix_form;
    bool ints;        /* activations in 8 bits per 32 values, packed integer products */
    bool ahead;       /* with 64-bit integers, the first words of its weights are loaded before they are used */
    bool unoptimized; /* as in dop_kernel */
};

/* One for each row of kernels.def, in the file of its family. */
#define KERNEL(name, ...) extern const dop_descriptor dop_descriptor_##name;
#include "kernels/kernels.def"
#undef KERNEL

#endif
