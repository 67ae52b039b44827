/* POST /completion and /infill, in the form of llama.cpp's server: a text goes on, or what is between a prefix and a suffix is written. */
#ifndef DOPPLER_SERVE_PROTOCOLS_NATIVE_H
#define DOPPLER_SERVE_PROTOCOLS_NATIVE_H

#include "serve/api/api.h"

void dop_completion_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                          dop_call **out_call);
void dop_infill_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                      dop_call **out_call);

#endif
