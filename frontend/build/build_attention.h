/* Common parts of all kinds of attention: RoPE, caches, and the op itself. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_ATTENTION_H
#define DOPPLER_FRONTEND_BUILD_BUILD_ATTENTION_H

#include "frontend/build/builder.h"

/* dop_build_rotated() rotates x by the rows' positions, in pairs (2i, 2i+1) if interleaved. dop_build_cache() appends x [T,H,dim]
 * to the cache of a role and returns the cache. dop_build_shared_caches() returns another layer's caches: after the step, or
 * unchanged if another program writes them. dop_build_attention() returns attention's result; chosen: list of attended positions
 * (0: all). dop_build_temper() returns the temperature of each row. */
dop_node_id dop_build_rotated(builder *b, const dop_attention *t, const char *name, bool interleaved, dop_node_id x);
dop_node_id dop_build_cache(builder *b, const dop_attention *t, const char *role, dop_node_id x, uint32_t dim);
void dop_build_shared_caches(builder *b, const dop_attention *t, dop_node_id out[2]);
dop_node_id dop_build_attention(builder *b, const dop_attention *t, dop_node_id q, dop_node_id k, dop_node_id v,
                                dop_node_id chosen);
dop_node_id dop_build_temper(builder *b);

#endif
