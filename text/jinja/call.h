/* Method calls. Handles str.format() separately, which resolves attributes itself. */
#ifndef DOPPLER_TEXT_JINJA_CALL_H
#define DOPPLER_TEXT_JINJA_CALL_H

#include "text/jinja/jinja.h"

dop_j_val dop_j_call_method(dop_j_ctx *cx, dop_j_val self, const dop_j_method_row *row, const dop_j_args *a);

#endif
