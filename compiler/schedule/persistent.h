/* The persistent form of a schedule for decode or for few rows (DOP_ORDER_PERSISTENT in plan/plan_format.h).  Its regions
 * up to the LM head are stages of one dispatch.  The dispatch has as many workgroups as the device runs at once.  Each
 * workgroup runs the whole list of stages, without barriers between them.  Stages pass values through mailboxes:
 *
 *     stage                workgroup 0       workgroup 1       workgroup 2            mailboxes of this step's copy
 *
 *     1 norm, q, k, v      columns 0-63      columns 64-127    columns 128-191  send -----> [ q ][ k row ][ v row ]
 *                               |                 |                 |                               |
 *     2 attention          head 0, split 0   head 0, split 1   nothing to do    <----- receive -----+
 *                               |            merges both            |           send -----> [ splits ][ heads ]
 *                               |                 |                 |                               |
 *     3 o, residual        columns 0-63      columns 64-127    columns 128-191  <----- receive -----+
 *                               |                 |                 |           send -----> [ x ]
 *       ...                    ...               ...               ...
 *     ---- the end of the dispatch and a barrier ----
 *       arg-max            an ordinary dispatch: picks the token and adds 1 to dop_step.persistent_runs
 *
 * A workgroup executes stage s as follows (kernels/glsl/persistent.glsl):
 *     1. It copies row s of the stage table (arguments, function, number of workgroups) to shared memory and prefetches
 *        row s + 1.
 *     2. It runs the stage's function as workgroup g, for g = its own number, then in steps of the dispatch's number of
 *        workgroups, while g is below the stage's number.  The function first loads weights, because they do not depend on
 *        other stages.  It then receives its inputs, computes, and sends its outputs.
 *
 * An empty word of a mailbox has all bits set.  Receiving polls the words until none is empty; sending stores them.  The
 * mailboxes are double-buffered: the parity of persistent_runs selects the copy that a step uses.  A sender also empties its
 * words in the other copy: their readers finished in the previous step, and the next step expects them empty.
 *
 *                  even step                    odd step                     even step
 *     copy 0       empty -> sent -> received    emptied by the sender        empty -> sent -> received
 *     copy 1       emptied by the sender        empty -> sent -> received    emptied by the sender
 *
 * Values that are read after the dispatch (rows of the caches, logits) are also stored in ordinary memory.
 *
 * With several rows, a mailbox has a place for each row that the schedule may have.  A step with fewer rows repeats its last row in
 * the remaining places, so that all places are filled and emptied in every step.  Caches and states get equal values twice.  Ops
 * that depend on earlier rows (a short convolution, a recurrence) must find the row that a place repeats (dop_emit_own_row of
 * kernels/emit/emit.h).  Attention receives its sequence's new rows of keys and values, up to its own row.  Each schedule has its
 * own mailboxes and counts its own runs. */
#ifndef DOPPLER_COMPILER_SCHEDULE_PERSISTENT_H
#define DOPPLER_COMPILER_SCHEDULE_PERSISTENT_H

#include "compiler/schedule/schedule.h"

/* Functions of a stage: the normal one, and one that replaces it while the cache is short (dop_plan_dispatch in
 * plan/plan_format.h). Both have equal arguments. */
typedef struct dop_stage_form {
    uint32_t function;
    /* Rounding of the stage's products; may be more precise than that of the region's own kernel. */
    dop_rounding rounding;
    uint32_t short_positions, short_function, short_groups, short_splits;
} dop_stage_form;

struct dop_persistent {
    uint32_t n_stages;    /* number of stages: regions 1 to n_stages */
    uint32_t kernel;      /* kernel of the dispatch: index in the compilation's kernels */
    uint32_t groups;      /* workgroups of the dispatch */
    uint32_t n_functions; /* number of different stage functions; equal stages share one */
    /* Arguments of the dispatch. table: bytes of the stage table. counts: number of stages; words of one copy of the
     * mailboxes. */
    uint32_t table, counts[2];
    uint64_t *mailbox;         /* [g.n_nodes] byte offset of each value's mailbox in a copy of the mailboxes */
    uint64_t *mailbox_bytes;   /* [g.n_nodes] bytes of each value's mailbox; 0: none */
    uint64_t copy_bytes;       /* bytes of one copy of all mailboxes */
    dop_stage_form *forms;     /* [g.n_regions] functions of the stages */
    dop_built_region *regions; /* [g.n_regions] grids and arguments; a stage has no kernel of its own */
};

/* Writes a sentence for the report that describes the persistent form, or says why there is none. Returns "" if none
 * was requested. */
const char *dop_persistent_says(const dop_schedule *s, char *out, size_t size);
/* Sets s->persistent, or s->persistent_no to the reason why there is no persistent form. */
dop_status dop_persistent_build(dop_compilation *c, dop_schedule *s, dop_diag *diag);
/* Drops persistent forms whose kernel was dropped by dop_kernel_set_compile(). */
void dop_compilation_drop_persistent(dop_compilation *c);

#endif
