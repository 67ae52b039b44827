/* Samplers of diffusion models, from noise to latents in a few steps. Each step evaluates the model once (twice with
 * guidance).
 *
 * Latents are x = clean + level * noise with unit noise, so a level is the standard deviation of the noise (sigma in
 * https://arxiv.org/abs/2206.00364). The model reads x / sqrt(level^2 + 1).
 *
 * euler: Euler's method on the probability flow (same paper, algorithm 1 without second order).
 * ancestral: Euler's method to a lower level, then new noise (k-diffusion's sample_euler_ancestral).
 * ddim: https://arxiv.org/abs/2010.02502 with eta 0, which is Euler's method with integer times. Its last level may be
 * that of the first time.
 * lcm: latent consistency (https://arxiv.org/abs/2310.04378), predicts clean latents in each step, then adds new noise.
 * Times are taken from the 50 that such models are distilled with. */
#ifndef DOPPLER_RUNTIME_SAMPLE_DIFFUSION_H
#define DOPPLER_RUNTIME_SAMPLE_DIFFUSION_H

#include "base/base.h"

enum { DOP_DRAW_MAX_STEPS = 1000 };

typedef enum dop_draw_sampler_kind {
    DOP_SAMPLER_EULER,
    DOP_SAMPLER_ANCESTRAL,
    DOP_SAMPLER_DDIM,
    DOP_SAMPLER_LCM,
    DOP_N_SAMPLERS
} dop_draw_sampler_kind;

/* Noise schedule that the model was trained with; same fields as in frontend/facts/diffusion.h. */
typedef struct dop_noise_facts {
    uint32_t train_steps, offset;
    double beta_first, beta_last;
    uint8_t beta_roots, spacing, predicts; /* dop_draw_spacing, dop_draw_predicts */
    bool rescaled, last_first;
} dop_noise_facts;

typedef struct dop_draw_sampler {
    dop_draw_sampler_kind kind;
    dop_noise_facts facts;
    uint32_t n_steps;
    double times[DOP_DRAW_MAX_STEPS];      /* time given to the model in each step, 0 .. train_steps - 1 */
    double levels[DOP_DRAW_MAX_STEPS + 1]; /* noise level before each step, and after the last one */
    double first;                          /* noise level of the initial latents */
    uint64_t seed, drawn;                  /* seed, and number of normal values drawn so far */
} dop_draw_sampler;

const char *dop_sampler_name(dop_draw_sampler_kind kind);
bool dop_sampler_by_name(const char *name, dop_draw_sampler_kind *out_kind);

/* Sets up the steps. n_steps: 1 .. DOP_DRAW_MAX_STEPS, at most facts->train_steps. */
void dop_sampler_begin(const dop_noise_facts *facts, dop_draw_sampler_kind kind, uint32_t n_steps, uint64_t seed,
                       dop_draw_sampler *out);
/* Skips the first steps: n_steps * strength (0 to 1), rounded down but at least 1, remain. */
void dop_sampler_start_at(dop_draw_sampler *s, double strength);
/* Fills x with n normal values. They depend only on the seed and the count drawn before, not on the device. */
void dop_sampler_noise(dop_draw_sampler *s, float *x, size_t n);
/* Computes the model's input of a step: x / sqrt(level^2 + 1). */
void dop_sampler_input(const dop_draw_sampler *s, uint32_t step, const float *x, size_t n, float *out);
/* Updates the latents x by one step. predicted: output of the model. */
void dop_sampler_step(dop_draw_sampler *s, uint32_t step, const float *predicted, float *x, size_t n);
/* Computes the sinusoidal embedding of a time, [n], as the U-Net reads it (https://arxiv.org/abs/1706.03762, section
 * 3.5). */
void dop_time_embedding(double time, bool cosine_first, uint32_t shift, float *out, uint32_t n);

#endif
