/* Images of a conversation: replaces message parts with URIs by marks in the text, and loads the images. */
#ifndef DOPPLER_SERVE_API_API_IMAGES_H
#define DOPPLER_SERVE_API_API_IMAGES_H

#include "serve/api/api_internal.h"

/* Decodes data:TYPE;base64,BYTES. Returns false if the request was refused. */
bool dop_reader_data(dop_reader *r, const char *param, const char *uri, dop_budget *budget, dop_buf *out);
/* Loads a message part if it is an image, and appends its mark to the text. Returns false if the part is not an
 * image. A faulty image refuses the request. */
bool dop_request_image(dop_request_images *x, dop_reader *reader, const json_t *part, dop_buf *text);
void dop_request_images_finish(dop_request_images *x);
/* Encodes a rendered conversation, with the placeholder tokens of its images. */
dop_status dop_request_images_encode(const dop_request_images *x, const dop_tokenizer *tok, const dop_buf *text,
                                     dop_diag *diag, dop_ids *out_ids);

#endif
