/* Case conversion as in Python's str: Unicode's full mappings, which may map one letter to several. */
#ifndef DOPPLER_TEXT_JINJA_CASE_H
#define DOPPLER_TEXT_JINJA_CASE_H

#include "text/jinja/jinja.h"

dop_j_val dop_j_change_case(dop_j_ctx *cx, dop_j_str s, dop_j_case how);

#endif
