/* Attributes of values. */
#ifndef DOPPLER_TEXT_JINJA_ATTRIBUTE_H
#define DOPPLER_TEXT_JINJA_ATTRIBUTE_H

#include "text/jinja/jinja.h"

/* self.name as the template sees it: attributes and methods before the members of a mapping. */
dop_j_val dop_j_attribute(dop_j_ctx *cx, dop_j_val self, dop_j_str name, long line);

#endif
