/* What a vision model's tower is given for a picture, as the model's preprocessor_config.json says: sizes, tiles, normalized values
 * in rows, and the tokens that stand for the picture in a text. */
#ifndef DOPPLER_RUNTIME_MEDIA_IMAGE_PROCESSOR_H
#define DOPPLER_RUNTIME_MEDIA_IMAGE_PROCESSOR_H

#include "runtime/media/resize.h"

/* How what the tower sees follows from the picture's size. */
typedef enum dop_image_form {
    DOP_IMAGE_EXACT,   /* width x height, whatever the picture's form */
    DOP_IMAGE_EDGE,    /* the shorter edge becomes `shortest`; then the middle is cut out (CLIP) */
    DOP_IMAGE_PIXELS,  /* multiples of patch * merge, between min_pixels and max_pixels (Qwen) */
    DOP_IMAGE_LONGEST, /* no edge over `longest`, then up to multiples of patch * merge (Pixtral) */
    DOP_IMAGE_TILES, /* squares of `tile` that cover the picture, whose longer edge becomes `longest`; then the whole (Idefics 3) */
    DOP_IMAGE_CANVAS, /* width x height each, in the arrangement closest to the picture's form; then the whole (InternVL) */
    DOP_IMAGE_PAN,     /* width x height: the whole; then pieces of a long picture (Gemma 3) */
    DOP_IMAGE_PATCHES, /* as many patches as max_patches allows, of the picture's form (SigLIP 2, "NaFlex") */
} dop_image_form;

/* How tokens stand for a picture. */
typedef enum dop_mark_form {
    DOP_MARKS_PLAIN, /* begin, a token for each feature, end */
    DOP_MARKS_LINES, /* a row of features, row_end, a row, ..., end (Pixtral) */
    DOP_MARKS_TILES, /* each tile behind its row and column, a line of text for each row of tiles, then the whole (Idefics 3) */
} dop_mark_form;

enum { DOP_MARK_SIZE = 32 };

/* Everything is plain data with fixed places, so that a plan can hold it. */
typedef struct dop_image_processor {
    dop_image_form form;
    dop_filter filter;
    dop_fixed_point point;
    bool resize;             /* else the picture stays as it is */
    bool crop;               /* the middle of crop_width x crop_height, with black where the picture is smaller */
    bool split;              /* DOP_IMAGE_TILES, _CANVAS, _PAN: into tiles; else only the whole */
    bool rescale, normalize; /* times factor; minus mean, divided by std */
    double factor;           /* of a value of 0 to 255 */
    float mean[3], std[3];   /* of red, green and blue, after rescaling */
    uint32_t width, height;  /* pixels of what the tower sees */
    uint32_t shortest, longest, tile; /* edges, pixels */
    uint32_t crop_width, crop_height; /* pixels */
    uint64_t min_pixels, max_pixels;
    uint32_t min_tiles, max_tiles; /* without the whole */
    uint32_t pan_edge;             /* pixels: no piece is smaller */
    double pan_ratio;              /* of the longer edge to the shorter one: below it there are no pieces */
    uint32_t patch;                /* edge of a patch of the tower, pixels */
    uint32_t merge;                /* patches along each edge that become one feature; 1: each does */
    uint32_t frames;               /* how often a patch is repeated in its row (a film's frames); 1 */
    uint32_t max_patches;
    uint32_t window;        /* edge of the windows within which some layers of the tower see, in features; 0: none */
    uint32_t more_features; /* of each tile, beside those of its patches: 1 where the class token counts */
    dop_mark_form marks;
    /* Texts of tokens.  A chat template writes `placeholder` for each picture, in whose place the marks come. */
    char placeholder[DOP_MARK_SIZE], image[DOP_MARK_SIZE], begin[DOP_MARK_SIZE], end[DOP_MARK_SIZE];
    char row_end[DOP_MARK_SIZE], whole[DOP_MARK_SIZE];
} dop_image_processor;

/* What a picture of some size becomes. */
typedef struct dop_image_layout {
    uint32_t n_tiles;                 /* pictures that the tower sees, at least 1 */
    uint32_t tile_rows, tile_columns; /* 0: the picture is not divided, n_tiles is 1 */
    bool whole_first;                 /* where it is divided, the whole picture is the first tile; else the last one */
    uint32_t width, height;           /* pixels of a tile */
    uint32_t grid_width, grid_height; /* patches of a tile */
    uint32_t rows;                    /* of all tiles; a row is a patch */
    uint32_t row_values;              /* values of a row */
    uint32_t padding;                 /* rows of zeros behind them, which are not to be seen (DOP_IMAGE_PATCHES) */
    uint32_t features;                /* rows that the tower gives the text model, of all tiles */
    uint32_t middle_width, middle_height; /* pixels: the picture is resized to this, then divided or cropped */
    uint32_t first_width, first_height;   /* pixels: and to this before (DOP_IMAGE_TILES) */
} dop_image_layout;

typedef enum dop_pixel_order {
    /* [rows, row_values] as the tower's first product takes them.  A row is [3, frames, patch, patch], or [patch, patch, 3] with
     * DOP_IMAGE_PATCHES; rows are in the order of dop_image_rows(). */
    DOP_PIXELS_ROWS,
    /* As `pixel_values` of published processors: [n_tiles, 3, height, width], or such rows, in reading order with DOP_IMAGE_PATCHES
     * and without windows with DOP_IMAGE_PIXELS. */
    DOP_PIXELS_PUBLISHED,
} dop_pixel_order;

/* A row of patches of a tile.  Windows come one after the other in reading order, in each of them the features, and patches that
 * become one feature stand together: a window is a range of rows, and merging them is another view of the same memory. */
typedef struct dop_image_row {
    uint32_t patch;       /* number of the patch in reading order */
    uint32_t in_window;   /* rows of its window before it */
    uint32_t window_last; /* in_window of the window's last row */
} dop_image_row;

/* One piece of the text that stands for a picture: a token, or plain text, n times. */
typedef struct dop_image_mark {
    char text[DOP_MARK_SIZE];
    uint32_t n;
    bool features; /* each of the n tokens stands for one row of the tower's output, in order */
} dop_image_mark;

/* Are the numbers within bounds and those that the form needs there?  DOP_E_INPUT with the field otherwise. */
dop_status dop_image_processor_check(const dop_image_processor *p, dop_diag *diag);
/* For a processor that was checked and a picture of this size.  DOP_E_INPUT: a form that the model does not take. */
dop_status dop_image_lay_out(const dop_image_processor *p, uint32_t width, uint32_t height, dop_diag *diag,
                             dop_image_layout *out_layout);
/* The values, (rows + padding) * row_values of them, owned by the caller (free) and charged to `budget` (NULL: unlimited). */
dop_status dop_image_values(const dop_image_processor *p, const dop_image_layout *layout, const dop_picture *picture,
                            dop_pixel_order order, dop_budget *budget, dop_diag *diag, float **out_values);
/* The rows of one tile, grid_width * grid_height of them, owned by the caller (free). */
dop_status dop_image_rows(const dop_image_processor *p, const dop_image_layout *layout, dop_diag *diag,
                          dop_image_row **out_rows);
/* What stands in the text for the picture; *out_marks is owned by the caller (free).  Their features together are
 * layout->features. */
dop_status dop_image_marks(const dop_image_processor *p, const dop_image_layout *layout, dop_diag *diag,
                           dop_image_mark **out_marks, uint32_t *out_n);

#endif
