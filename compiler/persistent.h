/* The persistent form of a decode schedule (DOP_ORDER_PERSISTENT in runtime/plan_format.h): its regions up to the LM head
 * as stages of one dispatch, whose workgroups stay on the device and hand values to each other; the rest as ever. */
#ifndef DOPPLER_COMPILER_PERSISTENT_H
#define DOPPLER_COMPILER_PERSISTENT_H

#include "compiler/schedule.h"

/* Which function a stage is, and what it is instead while its cache is short (dop_plan_dispatch of runtime/plan_format.h);
 * arguments are the same. */
typedef struct dop_stage_form {
    uint32_t function;
    uint32_t short_positions, short_function, short_groups, short_splits;
} dop_stage_form;

struct dop_persistent {
    uint32_t n_stages;         /* regions 1 .. n_stages */
    uint32_t kernel;           /* of the dispatch: index into the compilation's kernels */
    uint32_t groups;           /* its workgroups */
    uint32_t n_functions;      /* different stages */
    uint32_t table, counts[2]; /* arguments of the dispatch: bytes of the table, the two numbers */
    uint64_t *mailbox;         /* [g.n_nodes] bytes into a copy of the mailboxes */
    uint64_t *mailbox_bytes;   /* [g.n_nodes] */
    uint64_t copy_bytes;       /* of one of the two copies */
    dop_stage_form *forms;     /* [g.n_regions] of stages */
    dop_built_region *regions; /* [g.n_regions]; of stages without a kernel of their own */
};

/* For the report: what the form is, or why there is none; "" where none was asked for. */
const char *dop_persistent_says(const dop_schedule *s, char *out, size_t size);
/* Sets s->persistent, or s->persistent_no to the reason why there is none. */
dop_status dop_persistent_build(dop_compilation *c, dop_schedule *s, dop_diag *diag);

#endif
