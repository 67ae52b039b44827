/* Log-probabilities of prompts: what the model thought of each token before it read it. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_SCORE_H
#define DOPPLER_SERVE_ENGINE_ENGINE_SCORE_H

#include "serve/engine/engine.h"

/* engine_score.c: reads the next part of the prompt of a job that wants its log-probabilities, but not its last token. */
void dop_engine_score(dop_engine *e, dop_job *job);

#endif
