/* Builds the graphs of a latent diffusion model for a fixed picture size. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_DIFFUSION_H
#define DOPPLER_FRONTEND_BUILD_BUILD_DIFFUSION_H

#include "frontend/facts/diffusion.h"
#include "ir/graph/graph.h"

typedef struct dop_diffusion_options {
    uint32_t width, height; /* size of the latents; multiples of 2^(levels - 1) */
    uint32_t context_rows;  /* rows per text */
    uint32_t sequences;     /* number of texts whose states are kept */
    dop_type act_type;      /* storage type of activations between regions: f16 or f32 */
    dop_type kv_type;       /* storage type of the text's keys and values */
    /* [weights->n] storage type of each weight in the plan; NULL: as stored. */
    const dop_type *types;
} dop_diffusion_options;

/* Rows are picture positions in reading order. T: number of positions at the U-Net's lowest resolution; other resolutions have mT or nT.
 * The origin of a weight leaf is its index in `weights`. Canonical names are those of published files without ".weight": "unet.conv_in",
 * "vae.decoder.conv_in"; biases end in _bias.
 *
 * context: computes keys and values for cross-attention. Received: "context" f32 [T, context], where T is the number of text rows.
 * Outputs: states of keys and values, ring buffers of context_rows rows.
 * denoise: received "latents" f32 [mT, latents], "time" f32 [1, times], and per resolution with attention u32 [mT] "places<level>"
 * (number of the row) and "lasts<level>" (number of the last row). Output: f32 [mT, latents].
 * decode: received "latents" f32 [mT, latents], already divided by scaling, and "places0" and "lasts0" u32 [mT]. Output: f32 [nT,
 * colours].
 * encode_picture: received "pixels" f32 [nT, colours], and "places0" and "lasts0". Output: f32 [mT, 2 latents]: means, then log
 * variances. `denoise` reads means times scaling. */
/* encode_2: received "tokens" u32 [T] (ids of a text) and "places0". Output: f32 [T, text_2.width + text_2.projection], per row:
 * the second text encoder's state before its last layer, then the projected state, which is used at the end token's row. With a
 * second encoder `denoise` also receives "added" f32 [1, added]. */
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
