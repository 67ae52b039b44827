/* The legality rule (DESIGN section 3), shared by the passes that move nodes between regions. */
#ifndef DOPPLER_PASSES_FUSE_H
#define DOPPLER_PASSES_FUSE_H

#include "ir/region.h"
#include "passes/region.h"

/* The unit of a row region, taken from its reductions and rotations.  False when it has none. */
bool dop_region_unit(const dop_region *r, dop_unit *out_unit);

/* May `consumer` become the store phase of `producer`?  none: yes. */
dop_status dop_fuse_may_epilogue(dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer,
                                 dop_reason *out_reason, dop_template *out_tpl);
/* May `producer` (element-wise) be recomputed in the load phase of `consumer`?  none: yes. */
dop_reason dop_fuse_may_prologue(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer,
                                 dop_region_id consumer);
/* May the row program `producer` run in the load phase of `consumer`? */
dop_status dop_fuse_may_stage(dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer,
                              dop_reason *out_reason);

/* May a workgroup stage a row of `len` floats?  The rest of its shared memory is for reductions. */
bool dop_fuse_fits_shared(const dop_target *t, uint32_t len);
/* Is `value` read by anything in region c that `id`, the activation of one of its matmuls, is made of? */
bool dop_fuse_feeds(const dop_graph *g, const dop_region *c, dop_node_id value, dop_node_id id);
/* Did a kernel path switch fusion of these two off? */
bool dop_fuse_disabled(const dop_pass_ctx *cx, const dop_graph *g, dop_region_id a, dop_region_id b);
/* An estimate of the 32-bit registers that an invocation needs for both regions' code in one, four elements wide. */
uint32_t dop_fuse_registers(const dop_graph *g, const dop_region *a, const dop_region *b, dop_template tpl);

/* Would one dispatch of both use more buffers than push constants can point at?  prologue: what a makes is not stored. */
bool dop_fuse_too_many_buffers(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id a, dop_region_id b,
                               bool prologue);

/* Logs a decision about every value that `consumer` reads of `producer`.  dispatches: that the decision saves. */
dop_status dop_fuse_log(dop_pass_ctx *cx, const dop_graph *g, dop_region_id producer, dop_region_id consumer,
                        const char *pass, dop_reason reason, uint32_t dispatches);

#endif
