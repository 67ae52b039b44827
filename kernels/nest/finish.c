#include "kernels/nest/finish.h"
#include "kernels/nest/ahead.h"
#include "kernels/nest/barriers.h"
#include "kernels/nest/nest.h"
#include "kernels/nest/verify.h"

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
