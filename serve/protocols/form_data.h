/* Parser for multipart/form-data bodies (RFC 7578): text fields and files. */
#ifndef DOPPLER_SERVE_PROTOCOLS_FORM_DATA_H
#define DOPPLER_SERVE_PROTOCOLS_FORM_DATA_H

#include "serve/protocols/protocol.h"

/* Parses the body. Returns false if it is malformed; the answer has the reason. */
bool dop_request_form(const dop_api_request *request, dop_answer *answer, dop_form_data *out_form);

#endif
