/* Attributes of values. */
#ifndef DOPPLER_TEXT_JINJA_ATTRIBUTE_H
#define DOPPLER_TEXT_JINJA_ATTRIBUTE_H

#include "text/jinja/jinja.h"

/* Evaluates self.name. Methods and built-in attributes hide members of a mapping with this name. */
dop_j_val dop_j_attribute(dop_j_ctx *cx, dop_j_val self, dop_j_str name, long line);

#endif
