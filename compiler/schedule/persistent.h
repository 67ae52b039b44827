/* The persistent form of a decode schedule, or of one for a few rows (DOP_ORDER_PERSISTENT in plan/plan_format.h).  Its
 * regions up to the LM head are stages of one dispatch.  The dispatch has as many workgroups as the device runs at once; each
 * goes through the whole list of stages, and no barrier orders them.  A stage receives what earlier stages send through
 * mailboxes:
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
 * What a workgroup does for stage s (kernels/glsl/persistent.glsl):
 *     1. It puts row s of the table of stages (arguments, function, number of workgroups) in shared memory and starts to load
 *        row s + 1.
 *     2. For g = its own number, then in steps of the number of workgroups in the dispatch, while g is below the stage's number
 *        of workgroups, it runs the stage's function as workgroup g.  That function loads weights first, because they do not
 *        depend on other stages; then it receives its inputs, computes, and sends its outputs.
 *
 * A mailbox is empty while its words are all ones.  To receive is to read the words until none is empty; to send is to store
 * them.  There are two copies of all mailboxes, and the parity of persistent_runs says which one a step uses.  A sender empties
 * its words in the other copy: their readers finished in the step before, and the next step expects them empty.
 *
 *                  even step                    odd step                     even step
 *     copy 0       empty -> sent -> received    emptied by the sender        empty -> sent -> received
 *     copy 1       emptied by the sender        empty -> sent -> received    emptied by the sender
 *
 * Values that something after the dispatch reads (rows of the caches, logits) are stored in ordinary memory, in addition to
 * their mailboxes if they have any.
 *
 * With several rows a mailbox has a place for each row that the schedule may have.  A step with fewer rows computes its last row
 * again for every place that is left: all places are then filled and emptied in every step, and caches and states get the same
 * values twice.  What depends on the rows before it (a short convolution, a recurrence) therefore asks which row a place repeats
 * (dop_emit_own_row of kernels/emit/emit.h).  Attention receives the rows of keys and values that the step makes of its sequence up to
 * its own row.  Every schedule counts its own runs, because it has mailboxes of its own. */
#ifndef DOPPLER_COMPILER_SCHEDULE_PERSISTENT_H
#define DOPPLER_COMPILER_SCHEDULE_PERSISTENT_H

#include "compiler/schedule/schedule.h"

/* The function of a stage, and the function that the stage uses instead while its cache is short (dop_plan_dispatch of
 * plan/plan_format.h); both have the same arguments. */
typedef struct dop_stage_form {
    uint32_t function;
    /* Rounding of the stage's products, which may be nearer to exact than that of the region's own kernel. */
    dop_rounding rounding;
    uint32_t short_positions, short_function, short_groups, short_splits;
} dop_stage_form;

struct dop_persistent {
    uint32_t n_stages;    /* number of stages, which are regions 1 .. n_stages */
    uint32_t kernel;      /* kernel of the dispatch: index into the compilation's kernels */
    uint32_t groups;      /* workgroups of the dispatch */
    uint32_t n_functions; /* different functions of stages; equal stages share one */
    /* Arguments of the dispatch: bytes of the table of stages; number of stages, and words of one copy of the mailboxes. */
    uint32_t table, counts[2];
    uint64_t *mailbox;         /* [g.n_nodes] where each value's mailbox begins: bytes into a copy of the mailboxes */
    uint64_t *mailbox_bytes;   /* [g.n_nodes] size of each value's mailbox in bytes; 0: the value has none */
    uint64_t copy_bytes;       /* bytes of one copy of all mailboxes */
    dop_stage_form *forms;     /* [g.n_regions] functions of the regions that are stages */
    dop_built_region *regions; /* [g.n_regions] grids and arguments; a stage has no kernel of its own */
};

/* A sentence for the report: what the persistent form is, or why the schedule has none; "" where none was asked for. */
const char *dop_persistent_says(const dop_schedule *s, char *out, size_t size);
/* Sets s->persistent, or s->persistent_no to the reason why there is none. */
dop_status dop_persistent_build(dop_compilation *c, dop_schedule *s, dop_diag *diag);
/* Drops persistent forms whose kernel turned out to be impossible when kernels were compiled. */
void dop_compilation_drop_persistent(dop_compilation *c);

#endif
