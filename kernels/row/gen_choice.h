/* Expert choice: rows of scores in shared memory, their top-k, and values computed from these. A choice is either a dispatch
 * with one workgroup per row of the step, or a prologue of products that every workgroup repeats. Rows and their reductions
 * are row programs. */
#ifndef DOPPLER_KERNELS_ROW_GEN_CHOICE_H
#define DOPPLER_KERNELS_ROW_GEN_CHOICE_H

#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

/* Appends statements that all invocations of the workgroup execute. Values stay bound in gen->e afterwards, the kept ones as
 * rows in shared memory. */
void dop_gen_choice(dop_gen *gen, const dop_choice_program *p, struct dop_nest *n);
/* Returns the name of a kept value's row. */
const char *dop_choice_row(const dop_gen *gen, dop_node_id id);
/* Returns an upper bound on the bytes of shared memory of the program. */
uint32_t dop_choice_bytes(const dop_gen *gen, const dop_choice_program *p);

#endif
