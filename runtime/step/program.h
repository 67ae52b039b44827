/* Programs of a plan: inputs and outputs of a call by their names, and the program `image`. */
#ifndef DOPPLER_RUNTIME_STEP_PROGRAM_H
#define DOPPLER_RUNTIME_STEP_PROGRAM_H

#include "runtime/model/model.h"

const dop_value *dop_value_find(const dop_value *values, size_t n, const char *name);
/* A value that is given, if v is not NULL, has n values. */
dop_status dop_value_check(const dop_value *v, size_t n, dop_diag *diag);

/* step.c: runs a schedule of a program for the n_rows rows of the row table, and waits. */
dop_status dop_program_step(dop_model *model, uint32_t schedule, uint32_t n_rows, dop_diag *diag);
/* The same without what the host does not give or want: pieces has DOP_PIECE_STEP, and DOP_PIECE_IN or DOP_PIECE_OUT where it does. */
dop_status dop_program_step_pieces(dop_model *model, uint32_t schedule, dop_form form, uint32_t pieces, uint32_t n_rows,
                                   dop_diag *diag);
/* media.c: the program `image`, as dop_program_run and dop_model_program have it. */
dop_status dop_image_run(dop_model *model, const dop_value *inputs, size_t n_inputs, const dop_value *outputs,
                         size_t n_outputs, dop_diag *diag);
/* draw.c: the programs of a diffusion model, as dop_program_run has them; dop_draws: is the program one of them, and in the plan? */
bool dop_draws(const dop_model *model, const char *name);
dop_status dop_draw_run(dop_model *model, const char *name, const dop_value *inputs, size_t n_inputs,
                        const dop_value *outputs, size_t n_outputs, dop_diag *diag);
void dop_image_facts(const dop_model *model, dop_program_facts *out_facts);

#endif
