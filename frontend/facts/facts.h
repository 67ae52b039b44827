/* Facts that files state as numbers or booleans, with their key in each format (facts.def). */
#ifndef DOPPLER_FRONTEND_FACTS_FACTS_H
#define DOPPLER_FRONTEND_FACTS_FACTS_H

#include "base/json/json_util.h"

typedef enum dop_fact {
#define FACT(name, least, most, zero, hf, gguf, rdrr) DOP_FACT_##name,
#include "frontend/facts/facts.def"
#undef FACT
    DOP_N_FACTS
} dop_fact;

/* Key of a fact in one format, and its valid range. */
typedef struct dop_fact_key {
    const char *key; /* NULL: the format has no key, or families spell it differently */
    double least, most;
} dop_fact_key;

extern const dop_fact_key dop_facts_hf[DOP_N_FACTS], dop_facts_gguf[DOP_N_FACTS], dop_facts_rdrr[DOP_N_FACTS];
#define DOP_HF(name) (&dop_facts_hf[DOP_FACT_##name])
#define DOP_GGUF(name) (&dop_facts_gguf[DOP_FACT_##name])
#define DOP_RDRR(name) (&dop_facts_rdrr[DOP_FACT_##name])

/* Read a fact by its key and check its range, like dop_json_u32() and others of base/json/json_util.h. */
dop_status dop_fact_u32(const dop_json *j, const dop_fact_key *key, uint32_t *out);
dop_status dop_fact_u32_or(const dop_json *j, const dop_fact_key *key, uint32_t otherwise, uint32_t *out);
dop_status dop_fact_f64(const dop_json *j, const dop_fact_key *key, double *out);
dop_status dop_fact_f64_or(const dop_json *j, const dop_fact_key *key, double otherwise, double *out);
dop_status dop_fact_flag_or(const dop_json *j, const dop_fact_key *key, bool otherwise, bool *out);

#endif
