/* Evaluation of expressions and execution of statements. */
#ifndef DOPPLER_TEXT_JINJA_EVAL_H
#define DOPPLER_TEXT_JINJA_EVAL_H

#include "text/jinja/jinja.h"

/* ---- evaluation (eval.c) ---- */
dop_j_val dop_j_eval(dop_j_ctx *cx, const dop_j_node *e);
void dop_j_run(dop_j_ctx *cx);

#endif
