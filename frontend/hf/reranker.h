/* Rerankers that are text models: they answer "yes" or "no" whether a document matches a query. The score is the
 * probability of "yes" among the two. The config.json of Qwen3-Reranker is that of a chat model; only the name or
 * README.md title tells them apart, as in llama.cpp's converter (conversion/qwen.py). */
#ifndef DOPPLER_FRONTEND_HF_RERANKER_H
#define DOPPLER_FRONTEND_HF_RERANKER_H

#include "frontend/hf/hf.h"

/* Turns a text model that is named a reranker into a classifier (hf->classes, hf->answers). */
dop_status dop_hf_reranker(dop_hf *hf);

#endif
