/* The vision part of a model: facts of its tower (layers over rows of patches, which see one another) and of what makes features
 * for the text model of its rows, and their weights.  Importers fill it; nothing after them knows where a model came from. */
#ifndef DOPPLER_COMPILER_MODEL_VISION_H
#define DOPPLER_COMPILER_MODEL_VISION_H

#include "compiler/model/arch.h"

enum { DOP_VISION_MAX_DEEP = 8, DOP_VISION_MAX_LAYERS = 256 };

/* How a row knows where its patch is, beside a rotation. */
typedef enum dop_vision_places {
    DOP_PLACES_NONE,
    DOP_PLACES_TABLE,   /* a learned row for each patch of a picture of one size, and one for the class token */
    DOP_PLACES_CORNERS, /* four rows of a learned square, weighed (bilinear) */
} dop_vision_places;

typedef enum dop_vision_act {
    DOP_VISION_SILU,
    DOP_VISION_GELU,
    DOP_VISION_GELU_TANH,
    DOP_VISION_QUICK_GELU
} dop_vision_act;

/* Which weights there are decides the rest: biases, gated layers (gate), factors of branches (scale1, scale2), norms of LayerNorm
 * (with a bias) or RMSNorm, norms before the first and after the last layer, a second product behind the first. */
typedef struct dop_vision {
    uint32_t row_values; /* of a patch */
    uint32_t hidden, heads, head_dim, ffn;
    uint32_t n_layers; /* those whose results count */
    dop_vision_act act;
    double eps; /* of the norms of the tower */
    dop_vision_places places;
    uint32_t n_places; /* rows of the table */
    bool class_token;  /* the last row of a tile is no patch */
    double rope_theta; /* of rotations by row and column; 0: none */
    bool rope_apart;   /* columns turn by frequencies of their own, every second one; else both turn by the same ones */
    bool windowed[DOP_VISION_MAX_LAYERS]; /* rows of the layer see those of their window only */
    uint32_t merge;                       /* patches along an edge of a feature */
    bool pool;                            /* the mean of them; else side by side */
    dop_vision_act merge_act;
    double merge_eps, merge_norm_add; /* of the norms after the tower; what is added to their weights */
    uint32_t features;                /* values of a feature: the text model's hidden size */
    uint32_t n_deep; /* layers whose results also become features, for the first layers of the text model */
    uint32_t deep[DOP_VISION_MAX_DEEP];
} dop_vision;

/* Weights, in an arena or in files that the importer mapped, by canonical names: "v.patch", "v.L0.q", "v.linear1",
 * "v.D0.linear1"; biases end in _bias. */
typedef struct dop_vision_model {
    dop_vision facts;
    dop_weights weights;
} dop_vision_model;

#endif
