/* Methods of values other than strings. */
#ifndef DOPPLER_TEXT_JINJA_METHOD_OTHER_H
#define DOPPLER_TEXT_JINJA_METHOD_OTHER_H

#include "text/jinja/jinja.h"

const dop_j_method_row *dop_j_other_methods(dop_j_kind kind);

#endif
