/* Adapters that are loaded while a model is open: their matrices in the plan's room for them, and which of them a sequence uses. */
#ifndef DOPPLER_RUNTIME_STEP_ADAPTERS_H
#define DOPPLER_RUNTIME_STEP_ADAPTERS_H

#include <doppler/doppler.h>

/* adapters.c.  finish: frees what is known of loaded adapters.  name: what names these uses, the seed of the sequence's keys (prefix.h);
 * 0: there are none.  apply: makes a sequence without states use them, with nothing in flight. */
void dop_adapters_finish(dop_model *model);
uint64_t dop_adapters_name(const dop_model *model, const dop_adapter_use *uses, uint32_t n);
dop_status dop_adapters_apply(dop_sequence *sequence, const dop_adapter_use *uses, uint32_t n, dop_diag *diag);

#endif
