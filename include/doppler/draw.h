/* Pictures from texts, by the programs of a diffusion model: encode, context, denoise, decode (dop_program_run).
 *
 * A plan makes pictures of one size (dopplerc --size). */
#ifndef DOPPLER_INCLUDE_DOPPLER_DRAW_H
#define DOPPLER_INCLUDE_DOPPLER_DRAW_H

#include <doppler/doppler.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a plan draws.  Programs, inputs and outputs of dop_program_run:
 *   context   "context" f32 [context_rows, context]: states of a text, which `denoise` reads for the same "sequence" u32 [1] (absent: 0)
 *   denoise   "latents" f32 [latents_height, latents_width, latents], "time" f32 [times], "sequence" -> "predicted", as latents
 *   decode    "latents", divided by the model's scaling -> "pixels" f32 [height, width, colours], -1 to 1
 *   encode_picture  "pixels" -> "moments" f32 [latents_height, latents_width, 2 latents]: for each place the means of the latents, before
 *             the model's scaling, then the logarithms of their variances
 * and of models with two text encoders:
 *   encode_2  "tokens" u32 [context_rows] -> "rows" f32 [context_rows, rows_2 + pooled]: what follows the first encoder's rows in
 *             "context", and in the row of the text's end the vector of the whole text
 *   denoise   also receives "added" f32 [added]: that vector, and embeddings as that of the time of the height and width of the picture
 *             before it was cut, the upper and left end of the cut, the height and width behind it */
typedef struct dop_draw_facts {
    uint32_t width, height; /* pixels */
    uint32_t latents_width, latents_height, latents, times, context, context_rows, colours;
    uint32_t rows_2, pooled, added; /* 0 without a second text encoder */
    uint32_t steps;                 /* what dop_draw_options.steps and guidance are by default */
    double guidance;
    const char *sampler; /* of the model's files, or the nearest one */
    bool takes_pictures; /* the plan has the program encode_picture, so that a drawing can begin with a picture */
} dop_draw_facts;

/* False: the plan draws nothing. */
bool dop_model_draw_facts(const dop_model *model, dop_draw_facts *out_facts);

/* Called before each step, and with step = n_steps before the picture is decoded.  False stops: dop_draw_picture gives DOP_E_CANCELLED. */
typedef bool dop_draw_progress(void *user, uint32_t step, uint32_t n_steps);

typedef struct dop_draw_options {
    const char *text;     /* UTF-8 */
    const char *negative; /* what not to draw; NULL: nothing.  Used with guidance */
    uint32_t steps;       /* 1 to 1000; 0: the default of the model (1 where its times are trailing, else 20) */
    double
        guidance; /* how far to go from `negative` to `text`; 1: no guidance; 0: the default (1 with one step, else 7.5) */
    uint64_t seed;       /* the same seed gives the same picture on the same device */
    const char *sampler; /* "euler", "ancestral", "ddim", "lcm"; NULL: the default of the model */
    const void *
        init; /* [n_init] a PNG, JPEG, WebP or GIF file to begin with, cut to the plan's shape and resized; NULL: noise */
    size_t n_init;
    /* [n_mask] with init: a PNG, WebP or GIF file of as many pixels in each direction.  Its transparent pixels (alpha 0) are drawn, and the
     * others kept as they are in init once that is cut and resized; NULL: all are drawn. */
    const void *mask;
    size_t n_mask;
    double
        strength; /* with init: the share of the steps that are made, 0 to 1; 0: the default, 0.8, or 1 with a mask */
    dop_draw_progress *progress; /* NULL: none */
    void *user;
} dop_draw_options;

typedef struct dop_drawing {
    uint32_t width, height;
    uint8_t *rgb;        /* height * width * 3; the caller's (dop_free) */
    uint32_t steps, cut; /* steps that were made; tokens of the text that did not fit and were left out */
    double guidance;
    const char *sampler;
} dop_drawing;

/* Draws a picture.  The model's thread; no step may be open.  DOP_E_INPUT: the plan draws nothing, or an option is out of range. */
dop_status dop_draw_picture(dop_model *model, const dop_draw_options *options, dop_diag *diag,
                            dop_drawing *out_drawing);

/* What a drawing was made with, as the text under "parameters" that other programs read: the text, "Negative prompt: ...", and
 * "Steps: 20, Sampler: euler, ...".  options: those of the drawing.  *out_text is the caller's (dop_free). */
dop_status dop_drawing_parameters(const dop_drawing *drawing, const dop_draw_options *options, dop_diag *diag,
                                  char **out_text);

/* The drawing as a PNG file that carries `text`, UTF-8, under the key "parameters" (NULL: without).  *out_bytes is the caller's (dop_free). */
dop_status dop_drawing_png(const dop_drawing *drawing, const char *text, dop_diag *diag, void **out_bytes,
                           size_t *out_n);

#ifdef __cplusplus
}
#endif

#endif
