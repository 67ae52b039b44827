/* Row programs as nests.  A program's axis k, the values of a row, is shared out among lanes; a lane has its values side by side in registers, for all passes (batches of them, where a program of one pass has a long row), or walks over them in a loop, in each pass again. */
#ifndef DOPPLER_KERNELS_GEN_ROW_PROGRAM_H
#define DOPPLER_KERNELS_GEN_ROW_PROGRAM_H

#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

/* Appends the program's statements to the nest.  Statistics stay bound in gen->e. */
void dop_nest_rowprog(dop_gen *gen, const dop_rowprog *p, struct dop_nest *n);
/* The same as text, for templates.  A barrier is needed before other invocations read what was staged or stored. */
void dop_gen_rowprog(dop_gen *gen, const dop_rowprog *p, dop_buf *body);
/* Does the row program walk over its vector four values at a time? */
bool dop_rowprog_wide(const dop_gen *gen, const dop_rowprog *p);

#endif
