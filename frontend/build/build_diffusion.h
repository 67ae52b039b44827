/* Builds the graphs of a latent diffusion model, for pictures of one size. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_DIFFUSION_H
#define DOPPLER_FRONTEND_BUILD_BUILD_DIFFUSION_H

#include "frontend/facts/diffusion.h"
#include "ir/graph/graph.h"

typedef struct dop_diffusion_options {
    uint32_t width, height; /* of the latents; multiples of 2^(levels - 1) */
    uint32_t context_rows;  /* rows of a text */
    uint32_t sequences;     /* texts whose states are kept at once */
    dop_type act_type;      /* f16 or f32: storage of activations between regions */
    dop_type kv_type;       /* of keys and values of the text */
    /* [weights->n] storage type of each weight in the plan; NULL: the stored ones. */
    const dop_type *types;
} dop_diffusion_options;

/* Rows are the places of a picture in reading order.  T is the number of places of the U-Net's lowest resolution; all others have a
 * multiple of that.  The origin of a weight leaf is its number in `weights`.
 * Canonical names are those of published files, without ".weight": "unet.conv_in", "vae.decoder.conv_in"; biases end in _bias.
 *
 * context: what the layers of cross-attention read.  Received "context" f32 [T, context], the rows of a text; here T is their number.
 * Outputs: states of keys and values, rings of context_rows rows.
 * denoise: received "latents" f32 [mT, latents], "time" f32 [1, times], and for each resolution with attention u32 [mT] "places<level>"
 * (the number of the row) and "lasts<level>" (the number of the last row).  Output: f32 [mT, latents].
 * decode: received "latents" f32 [mT, latents], divided by scaling already, and "places0" and "lasts0" u32 [mT].
 * Output: f32 [nT, colours].
 * encode_picture: received "pixels" f32 [nT, colours], and "places0" and "lasts0".  Output: f32 [mT, 2 latents], for each place the means
 * of the latents, and then the logarithms of their variances; means times scaling are what `denoise` reads of a picture. */
/* encode_2: received "tokens" u32 [T], the ids of a text, and "places0".  Output: f32 [T, text_2.width + text_2.projection], for each row
 * the second text encoder's state before its last layer, and the projected one behind it, which counts for the row of the text's end.
 * With it `denoise` also receives "added" f32 [1, added]. */
dop_status dop_build_text_2(const dop_diffusion *d, const dop_weights *weights, const dop_diffusion_options *opt,
                            dop_arena *arena, dop_diag *diag, dop_graph *out_graph);
dop_status dop_build_context(const dop_diffusion *d, const dop_weights *weights, const dop_diffusion_options *opt,
                             dop_arena *arena, dop_diag *diag, dop_graph *out_graph);
dop_status dop_build_denoise(const dop_diffusion *d, const dop_weights *weights, const dop_diffusion_options *opt,
                             dop_arena *arena, dop_diag *diag, dop_graph *out_graph);
dop_status dop_build_decode(const dop_diffusion *d, const dop_weights *weights, const dop_diffusion_options *opt,
                            dop_arena *arena, dop_diag *diag, dop_graph *out_graph);

dop_status dop_build_encode_picture(const dop_diffusion *d, const dop_weights *weights,
                                    const dop_diffusion_options *opt, dop_arena *arena, dop_diag *diag,
                                    dop_graph *out_graph);

#endif
