/* Requests for /v1/embeddings and /v1/rerank: makes their jobs, and writes vectors and scores as JSON. */
#ifndef DOPPLER_SERVE_API_API_TEXTS_H
#define DOPPLER_SERVE_API_API_TEXTS_H

#include "serve/api/api.h"

/* dop_texts_write_vector: writes the embedding of an input. dop_texts_write_ranks: writes the scores of all
 * documents in descending order. */
void dop_texts_write_vector(const dop_call *c, uint32_t index, dop_buf *out);
void dop_texts_write_ranks(const dop_call *c, dop_buf *out);

#endif
