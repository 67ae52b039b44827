/* The adapters of a server: which there are, the factors that requests get which state none, and what a request asks for, in llama-server's form: a list of {"id": 0, "scale": 0.5}, where adapters that are not in it have the factor 0. */
#ifndef DOPPLER_SERVE_API_API_ADAPTERS_H
#define DOPPLER_SERVE_API_API_ADAPTERS_H

#include "serve/api/api_internal.h"

dop_status dop_adapter_list_create(const dop_model *model, const dop_adapter_use *uses, size_t n, dop_diag *diag,
                                   dop_adapter_list **out_list);
void dop_adapter_list_destroy(dop_adapter_list *list); /* accepts NULL */
/* api_adapters.c.  reader_adapters: what "lora" and a name "base:adapter" in "model" ask for.  name: that of an adapter; NULL: there are
 * no more.  json and set: GET and POST /lora-adapters. */
void dop_reader_adapters(dop_reader *r, const dop_api *api, dop_job_request *job);
const char *dop_adapter_list_name(const dop_adapter_list *list, uint32_t i);
json_t *dop_adapter_list_json(dop_adapter_list *list);
void dop_adapter_list_set(const dop_api *api, const json_t *value, dop_answer *answer);

#endif
