/* What every kind of attention is made of: rotation by position, caches, and the op itself. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_ATTENTION_H
#define DOPPLER_FRONTEND_BUILD_BUILD_ATTENTION_H

#include "frontend/build/builder.h"

/* build_attention.c: x rotated by rows' positions, in pairs (2i, 2i+1) or of halves; the cache of a role after x, [T,H,dim], was
 * appended; the caches of keys and values that a layer shares, after the step, or as they are where another program keeps them;
 * attention's result, where rows see the positions of the list `chosen` (0: all); the temperature of each row. */
dop_node_id dop_build_rotated(builder *b, const dop_attention *t, const char *name, bool interleaved, dop_node_id x);
dop_node_id dop_build_cache(builder *b, const dop_attention *t, const char *role, dop_node_id x, uint32_t dim);
void dop_build_shared_caches(builder *b, const dop_attention *t, dop_node_id out[2]);
dop_node_id dop_build_attention(builder *b, const dop_attention *t, dop_node_id q, dop_node_id k, dop_node_id v,
                                dop_node_id chosen);
dop_node_id dop_build_temper(builder *b);

#endif
