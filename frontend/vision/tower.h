/* Shared by the importers of vision parts: kinds of towers and projectors, tensor names, and the conversion of file tensors to
 * weights in the form that graphs need. */
#ifndef DOPPLER_FRONTEND_VISION_TOWER_H
#define DOPPLER_FRONTEND_VISION_TOWER_H

#include "frontend/facts/vision.h"
#include "media/picture/image_processor.h"

enum { DOP_TOWER_MAX_RANK = 5, DOP_TOWER_MAX_PATCH = 256, DOP_TOWER_MAX_MERGE = 64 };

/* Kind of tower. Its values are defaults: published config.json files omit fields equal to the first model of the
 * kind. */
typedef struct dop_tower_kind {
    const char *model_type; /* vision_config.model_type, without suffix "_vision" or "_model" */
    uint32_t hidden, layers, heads, patch, frames, merge;
    double eps;
    dop_act_kind act;
    double theta;             /* default of dop_vision.rope_theta; 0: no RoPE */
    bool rope_apart;          /* sets dop_vision.rope_apart */
    dop_vision_places places; /* kind of position table; NONE: DOP_PLACES_TABLE */
    /* Gemma 4's tower: the halves of a head rotate separately, by column and by row; scores are not scaled; values are
     * normalized; patches are centered. */
    bool halves;
} dop_tower_kind;

/* Projector after the tower, identified by the whole model's model_type. */
typedef struct dop_projector_kind {
    const char *model_type;
    double merge_eps, merge_norm_add; /* as in dop_vision; eps 0: the text model's */
    dop_act_kind merge_act;           /* default activation */
    bool pool, unfolds;
    bool sees_all, sees_near; /* as in dop_vision */
    bool root;  /* pooled features are multiplied by sqrt of their length, then normalized without weights */
    bool inner; /* the projector reads a layer's result, before the tower's final norm */
    /* Defaults of the configuration class. merge 0: the tower's; layer (vision_feature_layer) 0: the last layer. */
    uint32_t merge;
    int32_t layer;
} dop_projector_kind;

/* Find the tower kind whose model_type is a prefix of `name`, and the projector kind of a model_type; NULL: unknown. */
const dop_tower_kind *dop_tower_kind_of(const char *name);
const dop_projector_kind *dop_projector_kind_of(const char *model_type);

/* Sets the facts that depend only on the kinds of tower and projector. The hidden size must be known. */
void dop_tower_facts_of(const dop_tower_kind *tower, const dop_projector_kind *projector, dop_vision *v);

/* Tensor of a vision part as stored in its file. */
typedef struct dop_tower_tensor {
    const char *name, *file; /* for messages; both live as long as the arena */
    const char *stored;      /* storage type in the file format's spelling */
    dop_type type;           /* none: unsupported storage type */
    uint32_t rank;
    uint64_t shape[DOP_TOWER_MAX_RANK]; /* slowest axis first */
    const uint8_t *data;
} dop_tower_tensor;

/* Sets of tensor names, by file format (tower_names.def). */
typedef enum dop_tower_names { DOP_TOWER_HF, DOP_TOWER_GGUF } dop_tower_names;

/* Access to the tensors of a vision part, and their peculiarities. */
typedef struct dop_tower_files {
    void *user;
    /* Finds a tensor by name and marks it as used. Returns false if there is none; errors go to *status. */
    bool (*take)(void *user, const char *name, dop_tower_tensor *out, dop_status *status);
    dop_tower_names names;
    const char *tower, *after; /* prefixes of the tensor names of tower and projector */
    const char *path;          /* for messages */
    const char *facts;         /* file that states the sizes, for messages: "config.json" */
    bool no_post_norm;         /* the norm after the tower's last layer is unused */
    bool unfolds;              /* columns of the merging matrix have all patches of one value adjacent */
    dop_vision_places places;  /* as dop_tower_kind.places */
    bool channels_last;        /* patch projection rows are [patch, patch, 3] instead of [3, patch, patch] */
    bool halves;               /* as dop_tower_kind.halves */
    bool unclipped;            /* the file has bounds of products, which are unused */
    bool projection_straight;  /* the projection is not stored transposed, unlike in other files */
    bool deep_by_layer;        /* deepstack tensor names contain the layer's number instead of 0, 1, ... */
    dop_arena *arena;
    dop_diag *diag;
} dop_tower_files;

/* Reads the weights of a vision part. All facts must be known except ffn, places, n_places, class_token and features, which
 * follow from the tensors' shapes. Fails with DOP_E_INPUT if shapes do not match the facts. */
dop_status dop_tower_weights(const dop_tower_files *files, dop_vision_model *m);

/* Gets the defaults of an image processor class; suffixes (Fast, Pil) select the resizing arithmetic. Returns false for an
 * unknown class. */
bool dop_image_processor_of(const char *name, dop_image_processor *out);
/* Sets the texts that mark a picture for a model_type; leaves `p` unchanged for an unknown one. */
void dop_image_marks_of(const char *model_type, dop_image_processor *p);
/* Checks a processor and stores it in the model (m->images). */
dop_status dop_image_processor_keep(dop_checkpoint *m, const dop_image_processor *p, dop_diag *diag);

#endif
