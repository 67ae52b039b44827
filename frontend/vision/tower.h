/* What the importers of vision parts share: kinds of towers and of projectors, names of tensors, and the way from tensors of a file to
 * weights of the form that graphs are built of. */
#ifndef DOPPLER_FRONTEND_VISION_TOWER_H
#define DOPPLER_FRONTEND_VISION_TOWER_H

#include "frontend/facts/vision.h"
#include "media/picture/image_processor.h"

enum { DOP_TOWER_MAX_RANK = 5, DOP_TOWER_MAX_PATCH = 256, DOP_TOWER_MAX_MERGE = 64 };

/* A kind of tower.  Its numbers are defaults: published config.json files leave out what is as in the kind's first model. */
typedef struct dop_tower_kind {
    const char *model_type; /* vision_config.model_type, of which endings ("_vision", "_model") are ignored */
    uint32_t hidden, layers, heads, patch, frames, merge;
    double eps;
    dop_act_kind act;
    double theta;             /* default of dop_vision.rope_theta; 0: nothing rotates */
    bool rope_apart;          /* dop_vision's */
    dop_vision_places places; /* where the tower has a table of positions; NONE: DOP_PLACES_TABLE */
    /* Gemma 4's tower: halves of a head rotate by themselves, the first one by column, the second one by row; scores are not scaled;
     * values are normed; patches are centered. */
    bool halves;
} dop_tower_kind;

/* The projector after the tower, by the whole model's model_type. */
typedef struct dop_projector_kind {
    const char *model_type;
    double merge_eps, merge_norm_add; /* dop_vision's; eps 0: the text model's */
    dop_act_kind merge_act;           /* default where the file is silent */
    bool pool, unfolds;
    bool sees_all, sees_near; /* dop_vision's */
    bool root;  /* pooled features are multiplied by the root of their number of values, and normed without weights */
    bool inner; /* the projector reads a layer's result, without the tower's last norm */
    /* Defaults of the configuration class: dop_vision.merge, 0: the tower's; vision_feature_layer, 0: the last layer. */
    uint32_t merge;
    int32_t layer;
} dop_projector_kind;

/* The tower whose model_type `name` begins with, and the projector of a model_type; NULL: it is not known. */
const dop_tower_kind *dop_tower_kind_of(const char *name);
const dop_projector_kind *dop_projector_kind_of(const char *model_type);

/* Sets the facts of a vision part that only its kinds tell; its hidden size is known. */
void dop_tower_facts_of(const dop_tower_kind *tower, const dop_projector_kind *projector, dop_vision *v);

/* A tensor of a vision part as its file has it. */
typedef struct dop_tower_tensor {
    const char *name, *file; /* for messages; both live as long as the arena */
    const char *stored;      /* the file format's name of the storage type */
    dop_type type;           /* none: the storage type is not supported */
    uint32_t rank;
    uint64_t shape[DOP_TOWER_MAX_RANK]; /* the slowest axis first */
    const uint8_t *data;
} dop_tower_tensor;

/* Names of tensors, which differ by file format (tower_names.def). */
typedef enum dop_tower_names { DOP_TOWER_HF, DOP_TOWER_GGUF } dop_tower_names;

/* Where the tensors of a vision part are, and what is special about them. */
typedef struct dop_tower_files {
    void *user;
    /* Finds a tensor by its name and marks it as read; false: there is none.  An error, if any, is put into *status. */
    bool (*take)(void *user, const char *name, dop_tower_tensor *out, dop_status *status);
    dop_tower_names names;
    const char *tower, *after; /* prefixes of the names of the tower's tensors, and of the projector's */
    const char *path;          /* for messages */
    const char *facts;         /* what states the sizes, for messages: "config.json" */
    bool no_post_norm;         /* the norm after the tower's last layer is not used */
    bool unfolds;              /* columns of the merging matrix have one value of all patches side by side */
    dop_vision_places places;  /* dop_tower_kind.places */
    bool channels_last;        /* rows of the patch projection are [patch, patch, 3], not [3, patch, patch] */
    bool halves;               /* dop_tower_kind.halves */
    bool unclipped;            /* bounds of products stand in the file and are not used */
    bool projection_straight;  /* the projection that other files store transposed is stored as all matrices are */
    bool
        deep_by_layer; /* names of what is made of inner layers' results have the layer's number in place of 0, 1, ... */
    dop_arena *arena;
    dop_diag *diag;
} dop_tower_files;

/* Reads the weights of a vision part whose facts are known but for ffn, places, n_places, class_token and features, which follow from the
 * tensors' shapes.  Shapes that do not fit the facts are DOP_E_INPUT. */
dop_status dop_tower_weights(const dop_tower_files *files, dop_vision_model *m);

/* image_processors.c: defaults of an image processor class, of which the ending of the name (Fast, Pil) tells how resizing computes.
 * false: the class is not known. */
bool dop_image_processor_of(const char *name, dop_image_processor *out);
/* Sets the texts that stand for a picture in the texts of a model_type; leaves `p` as it is for an unknown one. */
void dop_image_marks_of(const char *model_type, dop_image_processor *p);
/* Checks a processor and makes it part of the model (m->images). */
dop_status dop_image_processor_keep(dop_checkpoint *m, const dop_image_processor *p, dop_diag *diag);

#endif
