/* The table of kernel variants, made from kernels.def. */
#include "kernels/descriptor.h"

#include <string.h>

static const dop_variant variants[] = {
    {"", DOP_TPL_none, 0, "", NULL},
#define KERNEL(name, tpl, caps, when) {#name, DOP_TPL_##tpl, caps, when, &dop_descriptor_##name},
#include "kernels/kernels.def"
#undef KERNEL
};

const dop_variant *
dop_variant_of(dop_variant_id v)
{
    return &variants[v];
}

bool
dop_variant_parse(const char *name, dop_variant_id *out)
{
    for (int i = 1; i < DOP_VARIANT_COUNT; i++)
        if (strcmp(variants[i].name, name) == 0) {
            *out = (dop_variant_id)i;
            return true;
        }
    return false;
}
