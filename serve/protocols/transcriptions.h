/* POST /v1/audio/transcriptions and /v1/audio/translations: from a form with a file of sound to a job that writes down what is said, and its transcript in OpenAI's forms, whole or as events. */
#ifndef DOPPLER_SERVE_PROTOCOLS_TRANSCRIPTIONS_H
#define DOPPLER_SERVE_PROTOCOLS_TRANSCRIPTIONS_H

#include "serve/api/api.h"

/* POST /v1/audio/transcriptions and /v1/audio/translations: root has the texts of the form, whose file is in the request's body. */
void dop_transcriptions_begin(const dop_api *api, const dop_api_request *request, const json_t *root,
                              dop_answer *answer, dop_call **out_call);
void dop_translations_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                            dop_call **out_call);

#endif
