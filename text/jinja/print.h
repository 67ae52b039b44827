/* Text forms of values: Python's str() and repr(), and json.dumps(). */
#ifndef DOPPLER_TEXT_JINJA_PRINT_H
#define DOPPLER_TEXT_JINJA_PRINT_H

#include "text/jinja/jinja.h"

void dop_j_print(dop_j_ctx *cx, dop_j_out *o, dop_j_val v); /* Appends Python's str() of a value. */
void dop_j_repr(dop_j_ctx *cx, dop_j_out *o, dop_j_val v);  /* Appends Python's repr() of a value. */
dop_j_val dop_j_string(dop_j_ctx *cx, dop_j_val v);         /* Returns str() as a value; a string even after an
                                                             * error. */
void dop_j_json(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, const dop_j_json_form *form);

#endif
