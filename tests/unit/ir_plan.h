/* A graph in IR text as a model: compiled into a plan with the compiler's own passes, kernels and writer, and run in the
 * interpreter.  Every weight's values follow from its name and shape. */
#ifndef DOPPLER_TESTS_UNIT_IR_PLAN_H
#define DOPPLER_TESTS_UNIT_IR_PLAN_H

#include "ir/target.h"

/* The compiler's types, some of which have names that the runtime's have too, stay in ir_plan.c. */
typedef struct ir_plan_inside ir_plan_inside;

typedef struct ir_plan {
    char path[32];         /* of the plan file */
    const char *no_stages; /* why it has no persistent schedule; NULL: it has one */
    ir_plan_inside *inside;
} ir_plan;

/* A built-in target, to be changed. */
void ir_plan_target(const char *name, dop_target *out);
/* The text is a decode graph of one row: its first output is the logits, the second their arg-max, and every state's
 * last write is one too. */
void ir_plan_make(ir_plan *p, const char *text, const dop_target *target);
/* Removes the file too. */
void ir_plan_finish(ir_plan *p);

/* The interpreter: begins a sequence, and feeds it a token.  Returns the arg-max; logits [vocab] may be NULL. */
void ir_plan_restart(ir_plan *p);
uint32_t ir_plan_step(ir_plan *p, uint32_t token, uint32_t position, float *logits);

#endif
