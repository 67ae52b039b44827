/* Rerankers that are text models: they answer "yes" or "no" to the question whether a document goes with a query, and their score is the probability of "yes" among the two.  As Qwen3-Reranker was published, nothing in config.json tells it from a chat model: its name or the title of its README.md does, which llama.cpp's converter goes by too (conversion/qwen.py). */
#ifndef DOPPLER_FRONTEND_HF_RERANKER_H
#define DOPPLER_FRONTEND_HF_RERANKER_H

#include "frontend/hf/hf.h"

/* reranker.c: makes a text model whose name says so one of classes (hf->classes, hf->answers). */
dop_status dop_hf_reranker(dop_hf *hf);

#endif
