/* Requests about whole texts, /v1/embeddings and /v1/rerank: from their bodies to jobs, and the vectors and scores as JSON. */
#ifndef DOPPLER_SERVE_API_API_TEXTS_H
#define DOPPLER_SERVE_API_API_TEXTS_H

#include "serve/api/api.h"

/* api_texts.c: the vector of an input; the scores of all documents, the best first. */
void dop_texts_write_vector(const dop_call *c, uint32_t index, dop_buf *out);
void dop_texts_write_ranks(const dop_call *c, dop_buf *out);

#endif
