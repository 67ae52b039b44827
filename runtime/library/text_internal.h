/* The inside of a dop_text, for other parts of the library. */
#ifndef DOPPLER_RUNTIME_LIBRARY_TEXT_INTERNAL_H
#define DOPPLER_RUNTIME_LIBRARY_TEXT_INTERNAL_H

#include "runtime/plan/plan.h"
#include "runtime/text/tokenizer.h"

#include <doppler/text.h>

const dop_plan *dop_text_plan(const dop_text *text);
const dop_tokenizer *dop_text_tokenizer(const dop_text *text);

#endif
