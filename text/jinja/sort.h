/* Stable merge sort that uses only "less than", as Python does. */
#ifndef DOPPLER_TEXT_JINJA_SORT_H
#define DOPPLER_TEXT_JINJA_SORT_H

#include "text/jinja/jinja.h"

void dop_j_sort(dop_j_ctx *cx, dop_j_keyed *items, size_t n, bool down, long line);

#endif
