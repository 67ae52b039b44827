/* Rules for unrestricted JSON values. */
#ifndef DOPPLER_TEXT_SCHEMA_SCHEMA_ANY_H
#define DOPPLER_TEXT_SCHEMA_SCHEMA_ANY_H

#include "text/schema/schema_internal.h"

uint32_t dop_schema_any_value(dop_schema *s);
uint32_t dop_schema_any_string(dop_schema *s);
uint32_t dop_schema_any_object(dop_schema *s);

#endif
