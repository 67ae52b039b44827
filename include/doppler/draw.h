/* Image generation from text with a diffusion model, by its programs: encode, context, denoise, decode (dop_program_run).
 *
 * A plan generates images of one size (dopplerc --size). */
#ifndef DOPPLER_INCLUDE_DOPPLER_DRAW_H
#define DOPPLER_INCLUDE_DOPPLER_DRAW_H

#include <doppler/doppler.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Facts about a diffusion plan.  Programs, inputs and outputs of dop_program_run:
 *   context   "context" f32 [context_rows, context]: text states, which `denoise` reads for the same "sequence" u32 [1] (default: 0)
 *   denoise   "latents" f32 [latents_height, latents_width, latents], "time" f32 [times], "sequence" -> "predicted", as latents
 *   decode    "latents", divided by the model's scaling -> "pixels" f32 [height, width, colours], -1 to 1
 *   encode_picture  "pixels" -> "moments" f32 [latents_height, latents_width, 2 latents]: means of the latents at each position, before
 *             the model's scaling, then their log variances
 * Additional programs and inputs of models with two text encoders:
 *   encode_2  "tokens" u32 [context_rows] -> "rows" f32 [context_rows, rows_2 + pooled]: columns to append to the first encoder's rows
 *             in "context"; the last `pooled` values of the end token's row are the vector of the text
 *   denoise   "added" f32 [added]: the vector of the text, then sinusoidal embeddings of six numbers: original height and width of the
 *             image, top and left of its crop, target height and width */
typedef struct dop_draw_facts {
    uint32_t width, height; /* image size in pixels */
    uint32_t latents_width, latents_height, latents, times, context, context_rows, colours;
    uint32_t rows_2, pooled, added; /* sizes of the second text encoder; 0 without one */
    uint32_t steps;                 /* defaults of dop_draw_options.steps and .guidance */
    double guidance;
    const char *sampler; /* default sampler: the one of the model's files, or the closest supported one */
    /* True if the plan has the program encode_picture, so that dop_draw_options.init is supported. */
    bool takes_pictures;
} dop_draw_facts;

/* Returns facts about the diffusion model of a plan.  False if the plan generates no images. */
bool dop_model_draw_facts(const dop_model *model, dop_draw_facts *out_facts);

/* Called before each denoising step, and with step = n_steps before the image is decoded.  Returning false cancels the drawing:
 * dop_draw_picture fails with DOP_E_CANCELLED. */
typedef bool dop_draw_progress(void *user, uint32_t step, uint32_t n_steps);

typedef struct dop_draw_options {
    const char *text;     /* prompt, UTF-8 */
    const char *negative; /* negative prompt, used with guidance; NULL: none */
    uint32_t steps; /* denoising steps, 1 to 1000; 0: the model's default (1 if its times are trailing, otherwise 20) */
    /* Classifier-free guidance scale; 1: no guidance; 0: the default (1 with one step, otherwise 7.5). */
    double guidance;
    uint64_t seed;       /* seed of the noise; equal seeds give equal images on one device */
    const char *sampler; /* "euler", "ancestral", "ddim" or "lcm"; NULL: the model's default */
    /* [n_init] bytes of a PNG, JPEG, WebP or GIF file to start from, cropped to the plan's aspect ratio and resized; NULL: noise. */
    const void *init;
    size_t n_init;
    /* [n_mask] bytes of a PNG, WebP or GIF file with the size of init, for inpainting.  Transparent pixels (alpha 0) are drawn; others
     * keep the cropped and resized pixels of init.  NULL: everything is drawn. */
    const void *mask;
    size_t n_mask;
    /* With init: fraction of the steps that are run, 0 to 1; 0: the default (0.8, or 1 with a mask). */
    double strength;
    dop_draw_progress *progress; /* progress callback; NULL: none */
    void *user;
} dop_draw_options;

typedef struct dop_drawing {
    uint32_t width, height;
    uint8_t *rgb;        /* [height][width][3] pixels; owned by the caller (dop_free) */
    uint32_t steps, cut; /* steps that were run; prompt tokens that did not fit and were dropped */
    double guidance;
    const char *sampler;
} dop_drawing;

/* Generates an image.  Call on the model's thread; no step may be open.  DOP_E_INPUT: the plan generates no images, or an option is out
 * of range. */
dop_status dop_draw_picture(dop_model *model, const dop_draw_options *options, dop_diag *diag,
                            dop_drawing *out_drawing);

/* Formats the parameters of a drawing as other programs store them under the key "parameters": the prompt, "Negative prompt: ...",
 * "Steps: 20, Sampler: euler, ...".  options: as passed to dop_draw_picture.  Release *out_text with dop_free. */
dop_status dop_drawing_parameters(const dop_drawing *drawing, const dop_draw_options *options, dop_diag *diag,
                                  char **out_text);

/* Encodes a drawing as PNG.  text: UTF-8, stored under the key "parameters"; NULL: none.  Release *out_bytes with dop_free. */
dop_status dop_drawing_png(const dop_drawing *drawing, const char *text, dop_diag *diag, void **out_bytes,
                           size_t *out_n);

#ifdef __cplusplus
}
#endif

#endif
