/* Facts and weights of a model's vision part: the tower (a non-causal transformer over picture patches) and the projector from
 * tower rows to text features. The encoder of a speech model is also a tower, over frames of an audio chunk, without projector.
 * Importers fill them; later code does not depend on the file format. */
#ifndef DOPPLER_FRONTEND_FACTS_VISION_H
#define DOPPLER_FRONTEND_FACTS_VISION_H

#include "frontend/facts/arch.h"

enum { DOP_VISION_MAX_DEEP = 8, DOP_VISION_MAX_LAYERS = 256 };

/* Position embedding of patches, in addition to RoPE. */
typedef enum dop_vision_places {
    DOP_PLACES_NONE,
    DOP_PLACES_TABLE,   /* a learned row per patch of a fixed-size picture, plus the class token's */
    DOP_PLACES_ROWS,    /* a learned row per position of an audio chunk */
    DOP_PLACES_CORNERS, /* bilinear interpolation in a learned square of rows, with aligned corners */
    /* Learned square of rows, resized to the patch grid like a picture: bilinear with antialiasing. */
    DOP_PLACES_RESAMPLED,
    DOP_PLACES_AXES, /* a learned row per patch column and per patch row; a patch gets the sum of its two */
} dop_vision_places;

/* Facts of a vision part. Other facts follow from the existence of weights:
 *   biases; LayerNorm (with bias) or RMSNorm; q and k norms per row or per head;
 *   gated layers (gate); factors on residual branches (scale1, scale2); clamped products (clips);
 *   norms before the first layer, after the last layer and after branches (after1, after2);
 *   shifted and scaled features (std_shift, std_scale); a second projector matrix (linear2).
 * "v.L0.q_clip" f32 [4] has the lower and upper bound of the input of product "v.L0.q", then of its result. An infinity means no bound. */
typedef struct dop_vision {
    uint32_t row_values; /* values per patch: the width of an input row */
    uint32_t hidden, heads, head_dim, ffn;
    uint32_t n_layers; /* number of layers up to the one whose result becomes features */
    dop_act_kind act;
    double eps;       /* eps of the tower's norms */
    double scale;     /* factor on attention scores; 0: 1 / sqrt(head_dim) */
    bool norm_values; /* each value head is RMS-normalized, without weights */
    bool centered;    /* patch values are mapped from 0 .. 1 to -1 .. 1 before the first product */
    dop_vision_places places;
    uint32_t n_places; /* rows of the position embedding */
    bool class_token;  /* the last row of a tile is the class token */
    double rope_theta; /* RoPE base for patch rows and columns; 0: no RoPE */
    bool rope_apart;   /* patch rows use the even frequencies, columns the odd ones; otherwise both use the same list */
    bool windowed[DOP_VISION_MAX_LAYERS]; /* [layer] rows attend only within their window */
    uint32_t merge;                       /* a feature is made of merge x merge patches */
    bool pool;                            /* a feature's patches are averaged; otherwise concatenated */
    double pool_scale;                    /* factor on the average; 0: 1 */
    bool merge_plain;                     /* the projector's norm has no weights */
    dop_act_kind merge_act;
    double merge_eps, merge_norm_add; /* eps of the projector's norms; constant added to their weights */
    uint32_t features;                /* length of a feature: the text model's hidden size */
    /* layers whose results become additional features, for the first layers of the text model (deepstack) */
    uint32_t n_deep;
    uint32_t deep[DOP_VISION_MAX_DEEP];
    bool sees_all;  /* text model: rows of a picture attend to each other in both directions */
    bool sees_near; /* text model: as sees_all, but only in sliding-window layers */
    uint32_t pad;   /* token whose per-layer inputs (dop_layer_inputs) are used for picture rows */
    /* Audio encoder: mel bins per frame; 0: the tower is for pictures. Two 1-D convolutions with three taps (conv1, conv2; stride
     * 2 in the second) turn 2 * n_places frames into n_places rows; nothing is merged. */
    uint32_t bins;
} dop_vision;

/* Vision part with its weights, which are in an arena or in files mapped by the importer. Canonical names: "v.patch", "v.L0.q",
 * "v.linear1", "v.D0.linear1"; biases end in _bias. */
typedef struct dop_vision_model {
    dop_vision facts;
    dop_weights weights;
} dop_vision_model;

/* Adds the tower to a model: its weights, and its facts, which are copied into the model's arena. */
dop_status dop_checkpoint_tower(dop_checkpoint *m, const dop_vision_model *tower, dop_diag *diag);

#endif
