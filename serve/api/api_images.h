/* Pictures of a conversation: parts with URIs become pictures, and marks in the text of their message. */
#ifndef DOPPLER_SERVE_API_API_IMAGES_H
#define DOPPLER_SERVE_API_API_IMAGES_H

#include "serve/api/api_internal.h"

/* The bytes of data:TYPE;base64,BYTES; false: refused. */
bool dop_reader_data(dop_reader *r, const char *param, const char *uri, dop_budget *budget, dop_buf *out);
/* Reads a part of a message if it is a picture, and appends its mark to the text; false: it is none.  What is wrong with it refuses the
 * request. */
bool dop_request_image(dop_request_images *x, dop_reader *reader, const json_t *part, dop_buf *text);
void dop_request_images_finish(dop_request_images *x);
/* The ids of a rendered conversation, with those of the tokens that stand for its pictures. */
dop_status dop_request_images_encode(const dop_request_images *x, const dop_tokenizer *tok, const dop_buf *text,
                                     dop_diag *diag, dop_ids *out_ids);

#endif
