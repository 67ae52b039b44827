/* Metadata keys that begin with the file's architecture, such as "llama.block_count". */
#include "frontend/gguf/keys.h"
#include "frontend/gguf/gguf_import.h"

#include <stdio.h>
#include <string.h>

const dop_gguf_kv *
dop_gi_find(const dop_gi *gi, const char *key, char *out_full, size_t size)
{
    snprintf(out_full, size, "%s.%s", gi->name, key);
    return dop_gguf_find(&gi->parts[0], out_full);
}

static dop_status
fail_missing_key(const dop_gi *gi, const char *full)
{
    return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is missing", full);
}

dop_status
dop_gi_size(const dop_gi *gi, const dop_fact_key *fact, uint32_t layer, uint32_t otherwise, uint32_t *out)
{
    char full[96];
    const dop_gguf_kv *kv = dop_gi_find(gi, fact->key, full, sizeof full);
    uint64_t v = otherwise;
    if (!kv && !otherwise)
        return fail_missing_key(gi, full);
    if (kv && kv->type == DOP_GGUF_ARRAY && kv->count != gi->model->arch.n_layers &&
        kv->count != gi->model->arch.n_layers + gi->draft)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s has %llu entries, expected one per layer", full,
                           (unsigned long long)kv->count);
    if (kv && !dop_gguf_u64(kv, kv->type == DOP_GGUF_ARRAY ? layer : 0, &v))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is not an integer of 0 or more", full);
    if (v < 1 || v > (uint64_t)fact->most)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is %llu, expected 1 to %u", full, (unsigned long long)v,
                           (unsigned)fact->most);
    *out = (uint32_t)v;
    return DOP_OK;
}

dop_status
dop_gi_number(const dop_gi *gi, const dop_fact_key *fact, double otherwise, double *out)
{
    char full[96];
    const dop_gguf_kv *kv = dop_gi_find(gi, fact->key, full, sizeof full);
    *out = otherwise;
    if (!kv)
        return DOP_OK;
    if (kv->type == DOP_GGUF_ARRAY || !dop_gguf_f64(kv, 0, out))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is not a number", full);
    if (!(*out >= fact->least && *out <= fact->most))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is %g, expected %g to %g", full, *out, fact->least,
                           fact->most);
    return DOP_OK;
}

dop_status
dop_gi_flag(const dop_gi *gi, const dop_fact_key *fact, bool otherwise, bool *out)
{
    char full[96];
    const dop_gguf_kv *kv = dop_gi_find(gi, fact->key, full, sizeof full);
    *out = otherwise;
    return !kv || dop_gguf_bool(kv, 0, out)
               ? DOP_OK
               : DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is not true or false", full);
}
