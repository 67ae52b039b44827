/* POST /v1/images/generations and /v1/images/edits: from a body to jobs that draw, and the pictures as JSON or as events.  OpenAI's fields are prompt, n, size, response_format, output_format and stream, and of edits, which are forms, image and mask; seed, steps, guidance, negative, sampler, init (a data: URI; edits: the image) and strength are extensions, with the meaning that doppler/draw.h gives them. */
#ifndef DOPPLER_SERVE_PROTOCOLS_DRAWINGS_H
#define DOPPLER_SERVE_PROTOCOLS_DRAWINGS_H

#include "serve/api/api.h"

/* POST /v1/images/generations and /v1/images/edits: the jobs of their calls have tasks (dop_job_task).  Of edits root has the texts of
 * the form, whose picture is in the request's body. */
void dop_drawings_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                        dop_call **out_call);
void dop_edits_begin(const dop_api *api, const dop_api_request *request, const json_t *root, dop_answer *answer,
                     dop_call **out_call);

#endif
