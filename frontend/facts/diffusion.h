/* Facts of a latent diffusion model (https://arxiv.org/abs/2112.10752), except its text encoder: the U-Net that denoises
 * latents, the decoder that produces pictures, and the noise schedule. Importers fill them; later code does not depend on the
 * file format. */
#ifndef DOPPLER_FRONTEND_FACTS_DIFFUSION_H
#define DOPPLER_FRONTEND_FACTS_DIFFUSION_H

#include "frontend/facts/arch.h"

enum { DOP_DRAW_LEVELS = 8 };

/* Resolution level of the U-Net. Level 0 has the size of the latents; each further level has half the width and
 * height. */
typedef struct dop_unet_level {
    uint32_t channels;
    uint32_t heads;    /* attention heads */
    uint32_t depth;    /* transformer blocks after each residual block; 0: none */
    bool down, up, on; /* attention in the down path; in the up path; in the middle block (read from the last level) */
} dop_unet_level;

/* Spacing of the sampling timesteps among the training timesteps (https://arxiv.org/abs/2305.08891, table 2). */
typedef enum dop_draw_spacing { DOP_SPACING_LEADING, DOP_SPACING_LINSPACE, DOP_SPACING_TRAILING } dop_draw_spacing;
/* Prediction type of the U-Net: noise, velocity (https://arxiv.org/abs/2202.00512), or denoised latents. */
typedef enum dop_draw_predicts { DOP_PREDICTS_NOISE, DOP_PREDICTS_VELOCITY, DOP_PREDICTS_LATENTS } dop_draw_predicts;

/* Samplers (runtime/sample/diffusion.h). */
typedef enum dop_draw_method {
    DOP_METHOD_EULER,
    DOP_METHOD_ANCESTRAL,
    DOP_METHOD_DDIM,
    DOP_METHOD_LCM
} dop_draw_method;

/* Second text encoder, as in SDXL (https://arxiv.org/abs/2307.01952): CLIP's layers only. */
typedef struct dop_draw_text {
    uint32_t width, layers, heads, inner; /* width of a row; 0: no second encoder */
    uint32_t projection;                  /* length of the pooled text vector */
    dop_act_kind act;
    uint32_t pad; /* padding token id */
} dop_draw_text;

typedef struct dop_diffusion {
    dop_unet_level levels[DOP_DRAW_LEVELS];
    uint32_t n_levels;
    uint32_t layers;   /* residual blocks per level in the down path; the up path has one more */
    uint32_t groups;   /* groups of group norms */
    double eps;        /* eps of group norms outside of attention */
    uint32_t latents;  /* latent channels */
    uint32_t context;  /* length of a text row */
    bool cosine_first; /* the timestep embedding has cosines first, then sines; otherwise sines first */
    uint32_t shift;    /* frequency i of the timestep embedding is 10000^(-i / (half of the values - shift)) */
    uint32_t pad;      /* padding token id */
    /* With a second text encoder, a text row is the concatenation of both encoders' rows before their last layers. */
    dop_draw_text text_2;
    /* Length of the additional conditioning that is added to the timestep embedding (0: none). It consists of the pooled text
     * vector and embeddings of `sizes` numbers (height, width and crop corners), size_values values each. */
    uint32_t added, size_values;
    bool blank_zero; /* an empty negative prompt has zeros as text rows and vector */
    uint32_t sample; /* width and height of the latents in training */

    uint32_t channels[DOP_DRAW_LEVELS]; /* decoder channels; level 0 has the size of the picture */
    uint32_t n_decodes, decode_layers, decode_groups;
    uint32_t colours;      /* values per pixel */
    double scaling, moved; /* latents are divided by `scaling`, then `moved` is added, before decoding */
    bool encodes;          /* the model includes the encoder half of the autoencoder, with the same levels */

    uint32_t train_steps;
    double beta_first, beta_last; /* noise variance (beta) of the first and last training step */
    bool beta_roots;              /* square roots of the variances are evenly spaced, instead of the variances */
    bool
        /* zero terminal SNR: rescaled so that the last training step has no signal (https://arxiv.org/abs/2305.08891, 3.1) */
        rescaled;
    bool last_first;        /* DDIM: the final noise level is that of the first training step; otherwise 0 */
    dop_draw_method method; /* sampler named by the model's files, or the closest supported one */
    dop_draw_spacing spacing;
    uint32_t offset; /* leading spacing: offset added to each timestep */
    dop_draw_predicts predicts;
} dop_diffusion;

/* Returns the length of the timestep embedding. */
static inline uint32_t
dop_unet_times(const dop_diffusion *d)
{
    return d->levels[0].channels;
}

#endif
