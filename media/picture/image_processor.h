/* Image preprocessing as in a model's preprocessor_config.json: from an image to sizes, tiles, normalized rows for the vision encoder,
 * and the image tokens in a prompt. */
#ifndef DOPPLER_MEDIA_PICTURE_IMAGE_PROCESSOR_H
#define DOPPLER_MEDIA_PICTURE_IMAGE_PROCESSOR_H

#include "media/picture/resize.h"

/* How an image is resized and divided into tiles. */
typedef enum dop_image_form {
    DOP_IMAGE_EXACT, /* resized to width x height, ignoring the aspect ratio */
    DOP_IMAGE_EDGE,  /* resized so that the shorter edge is `shortest`, then center-cropped (CLIP) */
    /* Edges become multiples of patch * merge, with min_pixels to max_pixels pixels in total (Qwen).  If `tile` is set, an image with
     * at least pan_ratio * max_pixels pixels is divided as with DOP_IMAGE_CANVAS, followed by the whole image (LFM2-VL). */
    DOP_IMAGE_PIXELS,
    /* Shrunk until no edge exceeds `longest`; edges are then rounded up to multiples of patch * merge (Pixtral). */
    DOP_IMAGE_LONGEST,
    /* Resized so that the longer edge is `longest`, divided into squares of `tile`, followed by the whole image (Idefics 3). */
    DOP_IMAGE_TILES,
    /* Tiles of width x height in the grid closest to the aspect ratio, followed by the whole image (InternVL). */
    DOP_IMAGE_CANVAS,
    /* The whole image at width x height; for long images, followed by crops of this size along the longer edge (Gemma 3). */
    DOP_IMAGE_PAN,
    /* Aspect ratio kept, at the largest size with at most max_patches patches (SigLIP 2, "NaFlex"). */
    DOP_IMAGE_PATCHES,
    /* Scaled to max_patches patches; edges are then rounded down to multiples of patch * merge (Gemma 4). */
    DOP_IMAGE_BUDGET,
} dop_image_form;

/* Arrangement of image tokens in a prompt. */
typedef enum dop_mark_form {
    DOP_MARKS_PLAIN, /* begin, one token per feature, end */
    DOP_MARKS_LINES, /* row_end after each row of features, except `end` after the last row (Pixtral) */
    /* Each tile after a marker with its row and column, row_end after each row of tiles, then the whole image (Idefics 3). */
    DOP_MARKS_TILES,
    /* Begin, each tile after a marker with its row and column, `whole` and the whole image, end (LFM2-VL). */
    DOP_MARKS_GRID,
} dop_mark_form;

enum { DOP_MARK_SIZE = 32 };

/* Fields of a model's preprocessor_config.json.  Plain data without pointers, stored in plans. */
typedef struct dop_image_processor {
    dop_image_form form;
    dop_filter filter;
    dop_fixed_point point;
    bool resize; /* true to resize; otherwise the image keeps its size */
    bool crop;   /* true to center-crop to crop_width x crop_height pixels, padding with black */
    /* DOP_IMAGE_TILES, _CANVAS, _PAN, _PIXELS: true to divide the image into tiles, false to use only the whole image. */
    bool split;
    /* rescale: multiply values by `factor`; normalize: subtract `mean`, then divide by `std`. */
    bool rescale, normalize;
    double factor;                    /* factor of pixel values (0 to 255) if `rescale` is set */
    float mean[3], std[3];            /* mean and standard deviation of red, green and blue after rescaling */
    uint32_t width, height;           /* tile size in pixels */
    uint32_t shortest, longest, tile; /* target shorter edge, target longer edge, and tile edge, in pixels */
    uint32_t crop_width, crop_height; /* size of the center crop in pixels */
    uint64_t min_pixels, max_pixels;  /* range of the number of pixels after resizing (DOP_IMAGE_PIXELS) */
    uint32_t min_tiles, max_tiles;    /* range of the number of tiles, without the whole image */
    uint32_t pan_edge;                /* minimum edge of a crop (DOP_IMAGE_PAN) in pixels */
    /* Minimum ratio for dividing an image: longer to shorter edge (DOP_IMAGE_PAN), or number of pixels to max_pixels
     * (DOP_IMAGE_PIXELS). */
    double pan_ratio;
    uint32_t patch;         /* edge of an encoder patch in pixels */
    uint32_t merge;         /* merge x merge patches become one feature */
    uint32_t frames;        /* copies of a patch in its row, for encoders of videos; otherwise 1 */
    uint32_t max_patches;   /* maximum number of patches (DOP_IMAGE_PATCHES, DOP_IMAGE_BUDGET) */
    uint32_t window;        /* edge of the windows of windowed attention layers, in features; 0: none */
    uint32_t more_features; /* features of a tile in addition to its patches: 1 if the class token counts */
    dop_mark_form marks;
    /* Texts of tokens.  A chat template writes `placeholder` for each image; the image tokens replace it. */
    char placeholder[DOP_MARK_SIZE], image[DOP_MARK_SIZE], begin[DOP_MARK_SIZE], end[DOP_MARK_SIZE];
    char row_end[DOP_MARK_SIZE], whole[DOP_MARK_SIZE];
    char before[DOP_MARK_SIZE], after[DOP_MARK_SIZE]; /* texts around `placeholder` if no chat template writes it */
    uint32_t image_id;                                /* id of `image`, the token that occurs once per feature */
} dop_image_processor;

/* Sizes derived from the size of an image: tiles, patches, rows and features. */
typedef struct dop_image_layout {
    uint32_t n_tiles;                 /* number of encoder tiles, including the whole image; at least 1 */
    uint32_t tile_rows, tile_columns; /* grid of tiles; 0: the image is not divided and n_tiles is 1 */
    bool whole_first;       /* in a divided image: true if the tile of the whole image comes first, false if last */
    uint32_t width, height; /* tile size in pixels */
    uint32_t grid_width, grid_height;   /* tile size in patches */
    uint32_t whole_width, whole_height; /* pixels of the tile of the whole image, which may differ */
    uint32_t rows;                      /* encoder input rows: patches of all tiles */
    uint32_t row_values;                /* values of a row: the pixels of a patch */
    uint32_t padding;                   /* Zero rows after the patch rows, masked in attention (with max_patches). */
    uint32_t features;                  /* encoder output rows, of all tiles together */
    /* Size in pixels after resizing, before dividing or cropping. */
    uint32_t middle_width, middle_height;
    /* Size in pixels of an earlier resizing step (DOP_IMAGE_TILES); 0: none. */
    uint32_t first_width, first_height;
} dop_image_layout;

/* One tile of a layout. */
typedef struct dop_image_tile {
    bool whole;                       /* true if the tile is the whole image */
    uint32_t width, height;           /* pixels */
    uint32_t grid_width, grid_height; /* patches */
    uint32_t first_row, first_feature, features;
} dop_image_tile;

/* Memory layouts of the normalized values. */
typedef enum dop_pixel_order {
    /* [rows, row_values], the encoder's input.  A row is [3, frames, patch, patch], or [patch, patch, 3] with DOP_IMAGE_PATCHES.  Row
     * order is that of dop_image_rows(). */
    DOP_PIXELS_ROWS,
    /* `pixel_values` of published processors: [n_tiles, 3, height, width].  With DOP_IMAGE_PATCHES and DOP_IMAGE_PIXELS: rows of
     * DOP_PIXELS_ROWS in the order without windows.  With DOP_IMAGE_BUDGET: rows of [patch, patch, 3] in reading order. */
    DOP_PIXELS_PUBLISHED,
} dop_pixel_order;

/* An encoder input row: one patch of a tile.  Rows are ordered by window, then by feature, each in reading order; the patches of a
 * feature are adjacent.  A window is therefore a range of rows, and merging patches is a reshape without copying. */
typedef struct dop_image_row {
    uint32_t patch;       /* number of the patch in its tile, in reading order */
    uint32_t in_window;   /* index of the row in its window */
    uint32_t window_last; /* in_window of the last row of the window */
} dop_image_row;

/* A piece of the text that stands for an image: a token or plain text, repeated n times. */
typedef struct dop_image_mark {
    char text[DOP_MARK_SIZE + 16]; /* token text of the processor, or a marker with a tile's row and column */
    uint32_t n;
    bool features; /* true if each of the n tokens stands for one encoder output row, in order */
} dop_image_mark;

/* Serialize a processor for a plan, and parse it with checks.  DOP_E_INPUT: not a valid processor. */
void dop_image_processor_write(const dop_image_processor *p, dop_buf *out);
dop_status dop_image_processor_read(const void *bytes, size_t size, dop_diag *diag, dop_image_processor *out);
/* Checks the bounds of all numbers and the presence of those that the form needs.  DOP_E_INPUT names the invalid field. */
dop_status dop_image_processor_check(const dop_image_processor *p, dop_diag *diag);
/* Lowers the size bounds so that no tile has more than max_rows patches.  Published processors allow larger images than the encoder's
 * maximum step. */
void dop_image_processor_limit(dop_image_processor *p, uint32_t max_rows);
/* Computes the layout for an image size; the processor must have been checked.  DOP_E_INPUT: the model does not support this shape;
 * DOP_E_LIMIT: too many pixels. */
dop_status dop_image_lay_out(const dop_image_processor *p, uint32_t width, uint32_t height, dop_diag *diag,
                             dop_image_layout *out_layout);
/* Returns tile i of a layout, i < n_tiles. */
dop_image_tile dop_image_tile_of(const dop_image_processor *p, const dop_image_layout *layout, uint32_t i);
/* Computes the (rows + padding) * row_values normalized values of an image.  Release *out_values with free; budget (NULL: unlimited) is
 * charged for it. */
dop_status dop_image_values(const dop_image_processor *p, const dop_image_layout *layout, const dop_picture *picture,
                            dop_pixel_order order, dop_budget *budget, dop_diag *diag, float **out_values);
/* Lists the layout->rows rows of all tiles in order.  Release *out_rows with free. */
dop_status dop_image_rows(const dop_image_processor *p, const dop_image_layout *layout, dop_diag *diag,
                          dop_image_row **out_rows);
/* Bilinear interpolation of a learned position table, edge x edge, at patch (y, x) of a grid.  Returns the four nearest table rows and
 * their weights. */
void dop_image_corners(uint32_t edge, uint32_t y, uint32_t x, uint32_t grid_height, uint32_t grid_width,
                       uint32_t out_rows[4], float out_shares[4]);
/* Antialiased bilinear resizing of such a table to the grid, at patch (y, x).  Returns the weights of all edge * edge table rows. */
void dop_image_resampling(uint32_t edge, uint32_t y, uint32_t x, uint32_t grid_height, uint32_t grid_width,
                          float *out_weights);
/* Makes the list of text pieces that stand for an image.  Release *out_marks with free.  Pieces with `features` have layout->features
 * tokens in total. */
dop_status dop_image_marks(const dop_image_processor *p, const dop_image_layout *layout, dop_diag *diag,
                           dop_image_mark **out_marks, uint32_t *out_n);

#endif
