/* The legality rule (docs/design.md, section 3), shared by the passes that move nodes between regions.  It compares how ops read their
 * sources (ops.def) with what a template's workgroup makes and accepts (templates.def), and names no op. */
#ifndef DOPPLER_PASSES_FUSION_FUSE_H
#define DOPPLER_PASSES_FUSION_FUSE_H

#include "ir/graph/ops.h"
#include "ir/region/region.h"
#include "passes/fusion/region.h"

/* May `consumer` become the store phase of `producer`?  *out_reason is none if it may; so for the next two. */
dop_status dop_fuse_may_epilogue(dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer,
                                 dop_reason *out_reason);
/* May `producer` (element-wise) be recomputed in the load phase of `consumer`? */
dop_status dop_fuse_may_prologue(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer,
                                 dop_region_id consumer, dop_reason *out_reason);
/* May the row program `producer` run in the load phase of `consumer`? */
dop_status dop_fuse_may_stage(dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer,
                              dop_reason *out_reason);

/* fuse_waits.c: values of which an element of an epilogue reads whole rows, as the second half of a product of low rank does.
 * wait_columns: how many columns such a value may have, behind the products of this region; 0: no such values.
 * check_waits: consumer c, whose sources `made` ([n_nodes][DOP_MAX_SRCS]) are of p, may read whole rows of p's values if others of its values
 *   come from parts that none waits for.
 * makes_rows: would each element of consumer c compute whole rows of producer p again?
 * may_wait: is the element-wise region r one for the epilogue of products that it reads, or that a region left for the epilogue (`later`)
 *   reads? */
uint32_t dop_fuse_wait_columns(const dop_pass_ctx *cx, const dop_graph *g, const dop_region *p);
dop_status dop_fuse_check_waits(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id p, const dop_region *c,
                                const bool *made, dop_reason *out_reason);
bool dop_fuse_makes_rows(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id p, const dop_region *c);
bool dop_fuse_may_wait(const dop_pass_ctx *cx, const dop_flow *f, const bool *later, dop_region_id r);

/* May a workgroup stage a row of `len` floats?  The rest of its shared memory is for reductions. */
bool dop_fuse_fits_shared(const dop_target *t, uint32_t len);
/* Does the region's template have any hole for rows, scalars of rows, heads or choices? */
bool dop_fuse_stages(const dop_region *c);
/* Is the region a program that could fill one of these, a row program or a choice?  Or element-wise? */
bool dop_fuse_is_program(const dop_region *p);
static inline bool
dop_fuse_is_element(const dop_region *p)
{
    return dop_template_of(p->tpl)->kind == DOP_JOIN_ELEMENT;
}
/* Did a kernel path switch fusion of these two off? */
bool dop_fuse_disabled(const dop_pass_ctx *cx, const dop_graph *g, dop_region_id a, dop_region_id b);
/* Did one ask that they be joined, whatever it is expected to cost? */
bool dop_fuse_asked(const dop_pass_ctx *cx, const dop_graph *g, dop_region_id a, dop_region_id b);
/* An estimate of the 32-bit registers that an invocation needs for both regions' code in one, four elements wide. */
dop_status dop_fuse_registers(const dop_graph *g, const dop_region *a, const dop_region *b, dop_template tpl,
                              dop_diag *diag, uint32_t *out_registers);
/* Microseconds by the target's bandwidth of computing an element-wise region again in each of its readers, and of computing it once,
 * storing its values and loading them in each.  A stored value counts no dispatch of its own, because it needs none where
 * fuse-rows finds a reader that makes it for the others.  Reading the graph's inputs costs nothing. */
typedef struct dop_fuse_times {
    double again_us, stored_us;
} dop_fuse_times;
dop_fuse_times dop_fuse_times_of(const dop_graph *g, const dop_target *t, const dop_region *region, uint32_t n_readers);

/* Logs a decision about every value that `consumer` reads of `producer`.  dispatches: that the decision saves. */
dop_status dop_fuse_log(dop_pass_ctx *cx, const dop_graph *g, dop_region_id producer, dop_region_id consumer,
                        const char *pass, dop_reason reason, uint32_t dispatches);

#endif
