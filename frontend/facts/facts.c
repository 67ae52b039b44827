#include "frontend/facts/facts.h"
#include "frontend/facts/arch.h"

#define FAMILY NULL
#define NONE NULL
#define NEVER(least) least
#define ZERO(least) 0

const dop_fact_key dop_facts_hf[DOP_N_FACTS] = {
#define FACT(name, least, most, zero, hf, gguf, rdrr) {hf, least, most},
#include "frontend/facts/facts.def"
#undef FACT
};

const dop_fact_key dop_facts_gguf[DOP_N_FACTS] = {
#define FACT(name, least, most, zero, hf, gguf, rdrr) {gguf, zero(least), most},
#include "frontend/facts/facts.def"
#undef FACT
};

const dop_fact_key dop_facts_rdrr[DOP_N_FACTS] = {
#define FACT(name, least, most, zero, hf, gguf, rdrr) {rdrr, least, most},
#include "frontend/facts/facts.def"
#undef FACT
};

dop_status
dop_fact_u32(const dop_json *j, const dop_fact_key *key, uint32_t *out)
{
    return dop_json_u32(j, key->key, (uint32_t)key->least, (uint32_t)key->most, out);
}

dop_status
dop_fact_u32_or(const dop_json *j, const dop_fact_key *key, uint32_t otherwise, uint32_t *out)
{
    return dop_json_u32_or(j, key->key, (uint32_t)key->least, (uint32_t)key->most, otherwise, out);
}

dop_status
dop_fact_f64(const dop_json *j, const dop_fact_key *key, double *out)
{
    return dop_json_f64(j, key->key, key->least, key->most, out);
}

dop_status
dop_fact_f64_or(const dop_json *j, const dop_fact_key *key, double otherwise, double *out)
{
    return dop_json_f64_or(j, key->key, key->least, key->most, otherwise, out);
}

dop_status
dop_fact_flag_or(const dop_json *j, const dop_fact_key *key, bool otherwise, bool *out)
{
    return dop_json_bool_or(j, key->key, otherwise, out);
}
