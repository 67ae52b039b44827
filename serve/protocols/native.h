/* POST /completion and /infill, in the format of llama.cpp's server: continues a text, or fills in text between a
 * prefix and a suffix. */
#ifndef DOPPLER_SERVE_PROTOCOLS_NATIVE_H
#define DOPPLER_SERVE_PROTOCOLS_NATIVE_H

#include "serve/api/api.h"

void dop_completion_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                          dop_call **out_call);
void dop_infill_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                      dop_call **out_call);

#endif
