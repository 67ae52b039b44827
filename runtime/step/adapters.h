/* Adapters loaded while a model is open: their matrices in the plan's adapter slots, and the adapters that each
 * sequence uses. */
#ifndef DOPPLER_RUNTIME_STEP_ADAPTERS_H
#define DOPPLER_RUNTIME_STEP_ADAPTERS_H

#include <doppler/doppler.h>

/* finish: frees the records of loaded adapters. name: returns a hash of the uses, which seeds the sequence's cache keys
 * (prefix.h); 0: no adapters. apply: makes a sequence without states use them; nothing may be in flight. */
void dop_adapters_finish(dop_model *model);
uint64_t dop_adapters_name(const dop_model *model, const dop_adapter_use *uses, uint32_t n);
dop_status dop_adapters_apply(dop_sequence *sequence, const dop_adapter_use *uses, uint32_t n, dop_diag *diag);

#endif
