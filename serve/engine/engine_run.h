/* The engine's thread. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_RUN_H
#define DOPPLER_SERVE_ENGINE_ENGINE_RUN_H

/* Thread function: runs steps until the engine is stopped and all jobs have ended. */
void *dop_engine_run(void *engine);

#endif
