/* Programs of a plan: named inputs and outputs of a call, and the program `image`. */
#ifndef DOPPLER_RUNTIME_STEP_PROGRAM_H
#define DOPPLER_RUNTIME_STEP_PROGRAM_H

#include "runtime/model/model.h"

const dop_value *dop_value_find(const dop_value *values, size_t n, const char *name);
/* Fails if v is not NULL and does not have n values. */
dop_status dop_value_check(const dop_value *v, size_t n, dop_diag *diag);

/* step.c: runs a program's schedule for the first n_rows rows of the row table, and waits. */
dop_status dop_program_step(dop_model *model, uint32_t schedule, uint32_t n_rows, dop_diag *diag);
/* Like dop_program_step, but can skip the transfers of inputs and outputs. pieces: DOP_PIECE_STEP, plus DOP_PIECE_IN or
 * DOP_PIECE_OUT where needed. */
dop_status dop_program_step_pieces(dop_model *model, uint32_t schedule, dop_form form, uint32_t pieces, uint32_t n_rows,
                                   dop_diag *diag);
/* media.c: runs the program `image`. Parameters as in dop_program_run and dop_model_program. */
dop_status dop_image_run(dop_model *model, const dop_value *inputs, size_t n_inputs, const dop_value *outputs,
                         size_t n_outputs, dop_diag *diag);
/* draw.c: programs of a diffusion model. dop_draws: true if `name` is one of them and the plan has them. dop_draw_run:
 * parameters as in dop_program_run. */
bool dop_draws(const dop_model *model, const char *name);
dop_status dop_draw_run(dop_model *model, const char *name, const dop_value *inputs, size_t n_inputs,
                        const dop_value *outputs, size_t n_outputs, dop_diag *diag);
void dop_image_facts(const dop_model *model, dop_program_facts *out_facts);

#endif
