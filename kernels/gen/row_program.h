/* Row programs as nests. Axis k, the values of a row, is divided among lanes. A lane keeps its values in registers for all
 * passes, or loads them again in the loop of each pass. If a one-pass program has a long row, it uses batches of
 * registers. */
#ifndef DOPPLER_KERNELS_GEN_ROW_PROGRAM_H
#define DOPPLER_KERNELS_GEN_ROW_PROGRAM_H

#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

/* Appends the program's statements to the nest. Statistics stay bound in gen->e. */
void dop_nest_rowprog(dop_gen *gen, const dop_rowprog *p, struct dop_nest *n);
/* Appends the program as text, for templates. A barrier is needed before other invocations read staged or stored values. */
void dop_gen_rowprog(dop_gen *gen, const dop_rowprog *p, dop_buf *body);
/* True if the row program processes four values at a time. */
bool dop_rowprog_wide(const dop_gen *gen, const dop_rowprog *p);

#endif
