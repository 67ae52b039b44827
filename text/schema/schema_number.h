/* JSON numbers. Bounds and multiples are terms of regular.h, exact for all numbers without an exponent. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_NUMBER_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_NUMBER_H

#include "text/schema/schema_internal.h"

/* Adds the numbers that a conjunction allows between two states. bits: DOP_IS_INTEGER, DOP_IS_REAL or both. */
void dop_schema_add_number(dop_schema *s, const dop_conjunction *c, unsigned bits, uint32_t from, uint32_t to);
uint32_t dop_schema_any_number(dop_schema *s, uint32_t from);

#endif
