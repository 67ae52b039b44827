/* Activations of integer products: a row in int8 with a scale per 32 values (types/int.glsl). */
#ifndef DOPPLER_KERNELS_GEN_INT8_H
#define DOPPLER_KERNELS_GEN_INT8_H

#include "kernels/gen/gen.h"

/* Returns the reason why the region's weights or the target do not allow integer products. */
dop_refusal dop_int8_refuses(const dop_site *s);
/* Returns the reason why the region is not for kernels with both integer and float parts (each workgroup computes one
 * part). */
dop_refusal dop_int8_refuses_mixed(const dop_site *s);
bool dop_int8_mixed(const dop_graph *g, const dop_region *r);    /* true if both kinds occur */
bool dop_int8_part(const dop_graph *g, const dop_segment *part); /* true if the part uses integer products */
dop_type dop_int8_type(const dop_site *s);                       /* weight type that determines the tile */
const char *dop_int8_avoid(const dop_site *s);                   /* `avoid` function of descriptors */
bool dop_int8_levels(const dop_gen *gen);
/* Returns the bytes of shared memory for the staged row of k_pad values that prog computes. */
uint32_t dop_int8_bytes(const dop_gen *gen, const dop_rowprog *prog, uint32_t k_pad);
/* Declares the staged int8 row of k_pad values, and the macros with which prog stores values. *out_direct: true if the macros
 * quantize each value; otherwise dop_xi_row() must be called between two barriers after the row is complete. */
dop_status dop_int8_declare(dop_gen *gen, const dop_rowprog *prog, uint32_t k_pad, dop_buf *decls, bool *out_direct);

#endif
