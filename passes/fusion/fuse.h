/* The legality rule of fusion (docs/design.md, section 3), shared by the passes that move nodes between regions.  It compares how
 * ops read their sources (ops.def) with what a template's workgroup computes and accepts (templates.def), and names no op. */
#ifndef DOPPLER_PASSES_FUSION_FUSE_H
#define DOPPLER_PASSES_FUSION_FUSE_H

#include "ir/graph/ops.h"
#include "ir/region/region.h"
#include "passes/fusion/region.h"

/* Decides whether `consumer` may become the epilogue of `producer`.  *out_reason is none if it may. */
dop_status dop_fuse_may_epilogue(dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer,
                                 dop_reason *out_reason);
/* Decides whether the element-wise `producer` may be recomputed in the prologue of `consumer`.  *out_reason is none if it may. */
dop_status dop_fuse_may_prologue(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer,
                                 dop_region_id consumer, dop_reason *out_reason);
/* Decides whether the row program `producer` may run in the prologue of `consumer`.  *out_reason is none if it may. */
dop_status dop_fuse_may_stage(dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer,
                              dop_reason *out_reason);

/* fuse_waits.c: epilogue elements that read whole rows of a value, such as the second half of a low-rank product.
 * dop_fuse_wait_columns: maximum columns of such a value, computed from the products of this region; 0: not supported.
 * dop_fuse_check_waits: sets *out_reason if consumer c may not read whole rows of values of p.  made ([n_nodes][DOP_MAX_SRCS]) marks
 *   the sources of c's nodes that p computes.  A segment must not be both awaited and waiting.
 * dop_fuse_makes_rows: true if each element of consumer c would recompute whole rows of producer p.
 * dop_fuse_may_wait: true if the element-wise region r belongs in the epilogue of products that it reads, directly or through regions
 *   left for the epilogue (`later`). */
uint32_t dop_fuse_wait_columns(const dop_pass_ctx *cx, const dop_graph *g, const dop_region *p);
dop_status dop_fuse_check_waits(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id p, const dop_region *c,
                                const bool *made, dop_reason *out_reason);
bool dop_fuse_makes_rows(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id p, const dop_region *c);
bool dop_fuse_may_wait(const dop_pass_ctx *cx, const dop_flow *f, const bool *later, dop_region_id r);

/* True if a workgroup can stage a row of `len` floats.  The rest of its shared memory is for reductions. */
bool dop_fuse_fits_shared(const dop_target *t, uint32_t len);
/* True if the region's template has any hole for rows, scalars of rows, heads or choices. */
bool dop_fuse_stages(const dop_region *c);
/* dop_fuse_is_program: true if the region is a row program or a choice, which can fill such a hole.  dop_fuse_is_element: true if
 * it is element-wise. */
bool dop_fuse_is_program(const dop_region *p);
static inline bool
dop_fuse_is_element(const dop_region *p)
{
    return dop_template_of(p->tpl)->kind == DOP_JOIN_ELEMENT;
}
/* True if a kernel path disables fusion of these two regions. */
bool dop_fuse_disabled(const dop_pass_ctx *cx, const dop_graph *g, dop_region_id a, dop_region_id b);
/* True if a kernel path demands that they be fused, whatever the expected cost. */
bool dop_fuse_asked(const dop_pass_ctx *cx, const dop_graph *g, dop_region_id a, dop_region_id b);
/* Estimates the 32-bit registers of an invocation for the code of both regions in one, four elements wide. */
dop_status dop_fuse_registers(const dop_graph *g, const dop_region *a, const dop_region *b, dop_template tpl,
                              dop_diag *diag, uint32_t *out_registers);
/* Estimated microseconds, by the target's bandwidth, for an element-wise region with several readers.  again_us: recompute it in
 * each reader.  stored_us: compute it once, store its values and load them in each reader.  Storing counts no dispatch, because
 * fuse-rows may find a reader that computes the value for the others.  Reading the graph's inputs costs nothing. */
typedef struct dop_fuse_times {
    double again_us, stored_us;
} dop_fuse_times;
dop_fuse_times dop_fuse_times_of(const dop_graph *g, const dop_target *t, const dop_region *region, uint32_t n_readers);

/* Logs a decision for every value of `producer` that `consumer` reads.  dispatches: number that the decision saves. */
dop_status dop_fuse_log(dop_pass_ctx *cx, const dop_graph *g, dop_region_id producer, dop_region_id consumer,
                        const char *pass, dop_reason reason, uint32_t dispatches);

#endif
