/* The server's adapters: the loaded ones, the default factors, and the factors of a request. Requests use
 * llama-server's form, a list of {"id": 0, "scale": 0.5}. Adapters missing from the list have factor 0. */
#ifndef DOPPLER_SERVE_API_API_ADAPTERS_H
#define DOPPLER_SERVE_API_API_ADAPTERS_H

#include "serve/api/api_internal.h"

dop_status dop_adapter_list_create(const dop_model *model, const dop_adapter_use *uses, size_t n, dop_diag *diag,
                                   dop_adapter_list **out_list);
void dop_adapter_list_destroy(dop_adapter_list *list); /* accepts NULL */
/* dop_reader_adapters: reads the request's "lora", or the adapter named by "base:adapter" in "model".
 * dop_adapter_list_name: returns the name of adapter i, NULL past the last one. dop_adapter_list_json and _set: GET
 * and POST /lora-adapters. */
void dop_reader_adapters(dop_reader *r, const dop_api *api, dop_job_request *job);
const char *dop_adapter_list_name(const dop_adapter_list *list, uint32_t i);
json_t *dop_adapter_list_json(dop_adapter_list *list);
void dop_adapter_list_set(const dop_api *api, const json_t *value, dop_answer *answer);

#endif
