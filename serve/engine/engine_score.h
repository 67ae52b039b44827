/* Log-probabilities of prompt tokens. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_SCORE_H
#define DOPPLER_SERVE_ENGINE_ENGINE_SCORE_H

#include "serve/engine/engine.h"

/* Scores the next chunk of a job's prompt, except its last token, which a normal step reads. */
void dop_engine_score(dop_engine *e, dop_job *job);

#endif
