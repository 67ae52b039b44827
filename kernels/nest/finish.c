/* What makes a tree of statements complete. */
#include "kernels/nest/nest.h"

dop_status
dop_nest_finish(dop_nest *n)
{
    if (n->n_open > 0)
        dop_nest_fail(n, "a block is still open:", n->open[n->n_open - 1]->name);
    if (n->status == DOP_OK)
        dop_nest_pipeline(n);
    if (n->status == DOP_OK)
        dop_nest_meet(n);
    if (n->status == DOP_OK)
        dop_nest_verify(n);
    return n->status;
}
