/* Which adapters a sequence uses. */
#include "runtime/model/model.h"

#include <math.h>

dop_status
dop_sequence_set_adapters(dop_sequence *sequence, const dop_adapter_use *uses, size_t n, dop_diag *diag)
{
    dop_diag_clear(diag);
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    dop_adapter_use kept[DOP_ADAPTERS_AT_ONCE];
    uint32_t n_kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (!dop_model_adapter(m, uses[i].adapter))
            return DOP_FAIL(diag, DOP_E_INPUT, "there is no adapter %u", uses[i].adapter);
        if (!isfinite(uses[i].scale) || fabsf(uses[i].scale) > 1e6f)
            return DOP_FAIL(diag, DOP_E_INPUT, "the scale of adapter %u is not a number of sensible size",
                            uses[i].adapter);
        if (uses[i].scale != 0 && n_kept == DOP_ADAPTERS_AT_ONCE)
            return DOP_FAIL(diag, DOP_E_INPUT, "a sequence may use %d adapters at once", DOP_ADAPTERS_AT_ONCE);
        if (uses[i].scale != 0)
            kept[n_kept++] = uses[i];
    }
    if (dop_adapters_name(m, kept, n_kept) == s->adapters)
        return DOP_OK;
    dop_status st = dop_step_none_has(m, s, diag);
    if (st == DOP_OK && (st = dop_step_drain(m, diag)) == DOP_OK)
        st = dop_sequence_settle(s, diag);
    if (st == DOP_OK && s->n_fed > 0) /* what is cached was computed with other adapters */
        st = dop_sequence_empty(s, diag);
    return st == DOP_OK ? dop_adapters_apply(s, kept, n_kept, diag) : st;
}
