/* Bodies of multipart/form-data (RFC 7578): texts and files. */
#ifndef DOPPLER_SERVE_PROTOCOLS_FORM_DATA_H
#define DOPPLER_SERVE_PROTOCOLS_FORM_DATA_H

#include "serve/protocols/protocol.h"

/* False: it is none, and the answer says so. */
bool dop_request_form(const dop_api_request *request, dop_answer *answer, dop_form_data *out_form);

#endif
