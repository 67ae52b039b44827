/* POST /v1/audio/transcriptions and /v1/audio/translations: makes a transcription job from a form with an audio
 * file, and writes the transcript in OpenAI's formats, whole or as events. */
#ifndef DOPPLER_SERVE_PROTOCOLS_TRANSCRIPTIONS_H
#define DOPPLER_SERVE_PROTOCOLS_TRANSCRIPTIONS_H

#include "serve/api/api.h"

/* Handlers of transcriptions and translations. root has the form's text fields; the file is in the request's body. */
void dop_transcriptions_begin(const dop_api *api, const dop_api_request *request, const json_t *root,
                              dop_answer *answer, dop_call **out_call);
void dop_translations_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                            dop_call **out_call);

#endif
