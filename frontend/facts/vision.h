/* The vision part of a model: its tower (a transformer over the patches of a picture, without causal mask), the projector that makes
 * features for the text model of the tower's rows, and the weights of both.  The encoder of a model of speech is a tower too, over the
 * frames of a chunk of audio, without projector.  Importers fill it; nothing after them knows where a
 * model came from. */
#ifndef DOPPLER_FRONTEND_FACTS_VISION_H
#define DOPPLER_FRONTEND_FACTS_VISION_H

#include "frontend/facts/arch.h"

enum { DOP_VISION_MAX_DEEP = 8, DOP_VISION_MAX_LAYERS = 256 };

/* Position embedding of patches, besides rotary embedding. */
typedef enum dop_vision_places {
    DOP_PLACES_NONE,
    DOP_PLACES_TABLE,   /* a learned row for each patch of a picture of fixed size, and for the class token */
    DOP_PLACES_ROWS,    /* a learned row for each position of a chunk of audio */
    DOP_PLACES_CORNERS, /* bilinear interpolation in a learned square of rows, between its corners */
    /* The learned square of rows, resized to the grid of patches as a picture is: bilinear, with antialiasing. */
    DOP_PLACES_RESAMPLED,
    DOP_PLACES_AXES, /* a learned row for each column of patches, then as many for the rows of patches; a patch has the sum of two */
} dop_vision_places;

/* Facts of a vision part.  What is not here follows from which weights exist: biases, gated layers (gate), factors on residual
 * branches (scale1, scale2), LayerNorm (with a bias) or RMSNorm, norms before the first and after the last layer and behind branches
 * (after1, after2), norms of whole rows of queries and keys or of each head, clamped products (clips), features that are moved and
 * scaled (std_shift, std_scale), and a second projector matrix (linear2).  "v.L0.q_clip" f32 [4] has the bounds of what the product "v.L0.q"
 * reads, least and most, and of what it gives; an infinity is no bound. */
typedef struct dop_vision {
    uint32_t row_values; /* values of a patch: the width of an input row */
    uint32_t hidden, heads, head_dim, ffn;
    uint32_t n_layers; /* layers up to the one whose result becomes features */
    dop_act_kind act;
    double eps;       /* eps of the tower's norms */
    double scale;     /* of scores; 0: 1 / sqrt(head_dim) */
    bool norm_values; /* each head of values is divided by its root mean square */
    bool centered;    /* values of patches, 0 to 1, become -1 to 1 before the first product */
    dop_vision_places places;
    uint32_t n_places; /* rows of the table of position embeddings */
    bool class_token;  /* the last row of a tile is the class token, not a patch */
    double rope_theta; /* base of the rotary embedding by row and column; 0: none */
    bool rope_apart; /* rows have the even frequencies of one list and columns the odd ones; else both have the same */
    bool windowed[DOP_VISION_MAX_LAYERS]; /* rows of the layer see only rows of their own window */
    uint32_t merge;                       /* patches along an edge of the square that becomes a feature */
    bool pool;                            /* the patches of a feature are averaged; else concatenated */
    double pool_scale;                    /* by which the average is multiplied; 0: 1 */
    bool merge_plain;                     /* the projector's norm has no weights */
    dop_act_kind merge_act;
    double merge_eps, merge_norm_add; /* eps of the projector's norms; what is added to their weights */
    uint32_t features;                /* values of a feature: the text model's hidden size */
    uint32_t n_deep; /* layers whose results also become features, for the first layers of the text model (deepstack) */
    uint32_t deep[DOP_VISION_MAX_DEEP];
    bool sees_all;  /* in the text model, rows of a picture see one another */
    bool sees_near; /* ... in layers whose attention has a window only */
    uint32_t pad;   /* the token whose per-layer inputs (dop_layer_inputs) rows of a picture have */
    /* An encoder of audio: mel bins of a frame.  Two convolutions of one dimension with three taps (conv1, conv2), the second with stride
     * 2, make n_places rows of twice as many frames; nothing is merged.  0: the tower is for pictures. */
    uint32_t bins;
} dop_vision;

/* A vision part with its weights, which lie in an arena or in files that the importer mapped.  Canonical
 * names: "v.patch", "v.L0.q", "v.linear1", "v.D0.linear1"; biases end in _bias. */
typedef struct dop_vision_model {
    dop_vision facts;
    dop_weights weights;
} dop_vision_model;

/* Adds the tower to a model: its weights, and its facts, which are copied into the model's arena. */
dop_status dop_checkpoint_tower(dop_checkpoint *m, const dop_vision_model *tower, dop_diag *diag);

#endif
