/* Texts of values: str() and repr() of Python, and json.dumps(). */
#ifndef DOPPLER_TEXT_JINJA_PRINT_H
#define DOPPLER_TEXT_JINJA_PRINT_H

#include "text/jinja/jinja.h"

void dop_j_print(dop_j_ctx *cx, dop_j_out *o, dop_j_val v); /* str() of Python */
void dop_j_repr(dop_j_ctx *cx, dop_j_out *o, dop_j_val v);  /* repr() of Python */
dop_j_val dop_j_string(dop_j_ctx *cx, dop_j_val v);         /* str(), as a value; a string even after an error */
void dop_j_json(dop_j_ctx *cx, dop_j_out *o, dop_j_val v, const dop_j_json_form *form);

#endif
