/* The activation side of integer products: one row in 8 bits with a factor per 32 values (types/int.glsl). */
#ifndef DOPPLER_KERNELS_GEN_INT8_H
#define DOPPLER_KERNELS_GEN_INT8_H

#include "kernels/gen/gen.h"

/* Why the weights of a region, or the target, do not allow integer products. */
dop_refusal dop_int8_refuses(const dop_site *s);
/* Why the region is not for kernels that have parts of integer products beside parts of floats (each workgroup makes products of
 * one part). */
dop_refusal dop_int8_refuses_mixed(const dop_site *s);
bool dop_int8_mixed(const dop_graph *g, const dop_region *r);    /* are there both? */
bool dop_int8_part(const dop_graph *g, const dop_segment *part); /* is a part one of integer products? */
dop_type dop_int8_type(const dop_site *s);                       /* type of the weights by which a tile is chosen */
const char *dop_int8_avoid(const dop_site *s);                   /* for `avoid` of descriptors */
bool dop_int8_levels(const dop_gen *gen);
/* Bytes of shared memory for the staged row of k_pad values that prog makes. */
uint32_t dop_int8_bytes(const dop_gen *gen, const dop_rowprog *prog, uint32_t k_pad);
/* Declares the staged row of k_pad values in 8 bits, and the macros with which prog stores values.  *out_direct: the macros
 * quantize each value; otherwise dop_xi_row() must be called between two barriers after the row is complete. */
dop_status dop_int8_declare(dop_gen *gen, const dop_rowprog *prog, uint32_t k_pad, dop_buf *decls, bool *out_direct);

#endif
