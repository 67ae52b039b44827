/* The thread of the engine. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_RUN_H
#define DOPPLER_SERVE_ENGINE_ENGINE_RUN_H

/* engine_run.c: steps until the engine is stopped and everything has ended. */
void *dop_engine_run(void *engine);

#endif
