/* Choices of experts: rows of scores in shared memory, the largest of them, and what is computed from these.  A choice is either a dispatch of its own, with a workgroup for each row of the step, or runs before the products of a region, where every workgroup repeats it.  Rows and what is summed over them are row programs. */
#ifndef DOPPLER_KERNELS_ROW_GEN_CHOICE_H
#define DOPPLER_KERNELS_ROW_GEN_CHOICE_H

#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

/* Appends statements, which all invocations of the workgroup run.  Values are bound in gen->e afterwards, the kept ones as rows of
 * shared memory. */
void dop_gen_choice(dop_gen *gen, const dop_choice_program *p, struct dop_nest *n);
/* Name of the row of a kept value. */
const char *dop_choice_row(const dop_gen *gen, dop_node_id id);
/* Bytes of shared memory that the program takes, at most. */
uint32_t dop_choice_bytes(const dop_gen *gen, const dop_choice_program *p);

#endif
