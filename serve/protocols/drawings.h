/* POST /v1/images/generations and /v1/images/edits: makes jobs that draw, and writes the images as JSON or as
 * events.
 *
 * OpenAI's fields: prompt, n, size, response_format, output_format and stream; for edits, which are forms, also
 * image and mask. Extensions, with the meaning of doppler/draw.h: seed, steps, guidance, negative, sampler, init (a
 * data: URI; in edits, the image) and strength. */
#ifndef DOPPLER_SERVE_PROTOCOLS_DRAWINGS_H
#define DOPPLER_SERVE_PROTOCOLS_DRAWINGS_H

#include "serve/api/api.h"

/* The jobs of these calls have tasks (dop_job_task). For edits, root has the form's text fields, and the image is in
 * the request's body. */
void dop_drawings_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                        dop_call **out_call);
void dop_edits_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                     dop_call **out_call);

#endif
