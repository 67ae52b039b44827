/* A latent diffusion model beside its text encoder: the U-Net that removes noise from latents, the decoder that makes pictures of
 * latents, and the noise schedule.  https://arxiv.org/abs/2112.10752.  Importers fill it; nothing after them knows where a model came
 * from. */
#ifndef DOPPLER_FRONTEND_FACTS_DIFFUSION_H
#define DOPPLER_FRONTEND_FACTS_DIFFUSION_H

#include "frontend/facts/arch.h"

enum { DOP_DRAW_LEVELS = 8 };

/* A resolution of the U-Net; level 0 is that of the latents, and each next level has half of the width and height. */
typedef struct dop_unet_level {
    uint32_t channels;
    uint32_t heads;    /* of attention */
    uint32_t depth;    /* transformer blocks after each residual block; 0: none */
    bool down, up, on; /* attention on the way down; on the way up; in the middle, which counts for the last level */
} dop_unet_level;

/* Spacing of the times of few steps among those of training (https://arxiv.org/abs/2305.08891, table 2). */
typedef enum dop_draw_spacing { DOP_SPACING_LEADING, DOP_SPACING_LINSPACE, DOP_SPACING_TRAILING } dop_draw_spacing;
/* What the U-Net predicts: the noise, the velocity (https://arxiv.org/abs/2202.00512), or the latents without noise. */
typedef enum dop_draw_predicts { DOP_PREDICTS_NOISE, DOP_PREDICTS_VELOCITY, DOP_PREDICTS_LATENTS } dop_draw_predicts;

/* Samplers (runtime/sample/diffusion.h). */
typedef enum dop_draw_method {
    DOP_METHOD_EULER,
    DOP_METHOD_ANCESTRAL,
    DOP_METHOD_DDIM,
    DOP_METHOD_LCM
} dop_draw_method;

/* A second text encoder: CLIP's layers without anything else, as SDXL has it (https://arxiv.org/abs/2307.01952). */
typedef struct dop_draw_text {
    uint32_t width, layers, heads, inner; /* values of a row; 0: the model has no second encoder */
    uint32_t projection;                  /* values of the vector of a whole text */
    dop_act_kind act;
    uint32_t pad; /* the token that fills texts up */
} dop_draw_text;

typedef struct dop_diffusion {
    dop_unet_level levels[DOP_DRAW_LEVELS];
    uint32_t n_levels;
    uint32_t layers;   /* residual blocks of a level on the way down; one more on the way up */
    uint32_t groups;   /* of group norms */
    double eps;        /* of group norms outside of attention */
    uint32_t latents;  /* values of a place of the latents */
    uint32_t context;  /* values of a row of the text */
    bool cosine_first; /* the embedding of times has cosines first, then sines; else the other way round */
    uint32_t shift;    /* frequency i of the embedding of times is 10000^(-i / (half of the values - shift)) */
    uint32_t pad;      /* the token that fills texts up */
    /* With a second text encoder: rows of a text are those of both encoders before their last layers side by side. */
    dop_draw_text text_2;
    /* Values of what joins the embedding of the time: the vector of the whole text, and embeddings of `sizes` numbers (heights, widths and
     * corners of a picture) of size_values values each; 0: nothing joins it. */
    uint32_t added, size_values;
    bool blank_zero; /* with guidance, where nothing is said what not to draw, the text's rows and vector are zeros */
    uint32_t sample; /* width and height of the latents that the model was trained for */

    uint32_t channels[DOP_DRAW_LEVELS]; /* of the decoder; level 0 is that of pictures */
    uint32_t n_decodes, decode_layers, decode_groups;
    uint32_t colours;      /* values of a pixel */
    double scaling, moved; /* latents are divided by scaling, then `moved` is added, before the decoder reads them */
    bool encodes; /* the model has the autoencoder's other half, of the same levels, which makes latents of pictures */

    uint32_t train_steps;
    double beta_first, beta_last; /* variance of the noise that the first and the last step of training adds */
    bool beta_roots;              /* roots of the variances are evenly spaced; else the variances */
    bool
        rescaled; /* signal is scaled so that the last step of training has none (https://arxiv.org/abs/2305.08891, 3.1) */
    bool last_first;        /* DDIM's last level is that of the first time of training; else 0 */
    dop_draw_method method; /* the sampler that the model's files ask for, or the nearest one */
    dop_draw_spacing spacing;
    uint32_t offset; /* with leading spacing: added to each time */
    dop_draw_predicts predicts;
} dop_diffusion;

/* Values of the embedding of times, and of what the residual blocks read. */
static inline uint32_t
dop_unet_times(const dop_diffusion *d)
{
    return d->levels[0].channels;
}

#endif
