/* Image preprocessing, as a vision model's preprocessor_config.json says: from a picture to sizes, tiles, the rows of normalized values
 * that the vision tower takes, and the tokens that stand for the picture in a text. */
#ifndef DOPPLER_MEDIA_PICTURE_IMAGE_PROCESSOR_H
#define DOPPLER_MEDIA_PICTURE_IMAGE_PROCESSOR_H

#include "media/picture/resize.h"

/* How a picture is resized and divided into tiles for the tower. */
typedef enum dop_image_form {
    DOP_IMAGE_EXACT, /* resized to width x height, whatever the picture's aspect ratio */
    DOP_IMAGE_EDGE,  /* resized so that the shorter edge is `shortest`; then the middle is cut out (CLIP) */
    /* Edges become multiples of patch * merge, with min_pixels to max_pixels pixels in all (Qwen).  Where there is `tile`, a picture that
     * has pan_ratio times max_pixels or more becomes tiles as with DOP_IMAGE_CANVAS; the whole follows (LFM2-VL). */
    DOP_IMAGE_PIXELS,
    DOP_IMAGE_LONGEST, /* shrunk until no edge exceeds `longest`; edges then round up to multiples of patch * merge (Pixtral) */
    DOP_IMAGE_TILES, /* resized so that the longer edge is `longest`, divided into squares of `tile`; the whole follows (Idefics 3) */
    DOP_IMAGE_CANVAS, /* tiles of width x height, in the grid closest to the picture's aspect ratio; the whole follows (InternVL) */
    DOP_IMAGE_PAN, /* the whole at width x height; then, of a long picture, pieces of this size along its longer edge (Gemma 3) */
    DOP_IMAGE_PATCHES, /* aspect ratio kept, at the largest size with no more than max_patches patches (SigLIP 2, "NaFlex") */
    DOP_IMAGE_BUDGET, /* scaled to max_patches patches; edges then round down to multiples of patch * merge (Gemma 4) */
} dop_image_form;

/* How tokens stand for a picture. */
typedef enum dop_mark_form {
    DOP_MARKS_PLAIN, /* begin, a token for each feature, end */
    DOP_MARKS_LINES, /* each row of features with row_end behind it, the last row with `end` instead (Pixtral) */
    DOP_MARKS_TILES, /* each tile behind a mark with its row and column, a line of text for each row of tiles, then the whole (Idefics 3) */
    DOP_MARKS_GRID, /* begin, each tile behind a mark with its row and column, the whole behind `whole`, end (LFM2-VL) */
} dop_mark_form;

enum { DOP_MARK_SIZE = 32 };

/* A model's image processor: the fields of its preprocessor_config.json.  Plain data without pointers, so that a plan can hold it. */
typedef struct dop_image_processor {
    dop_image_form form;
    dop_filter filter;
    dop_fixed_point point;
    bool resize; /* the picture is resized; else it keeps its size */
    bool crop;   /* the middle of crop_width x crop_height pixels is cut out, with black where the picture is smaller */
    bool
        split; /* DOP_IMAGE_TILES, _CANVAS, _PAN, _PIXELS: the picture is divided into tiles; else only the whole is used */
    /* rescale: values are multiplied by `factor`; normalize: `mean` is subtracted, then values are divided by `std`. */
    bool rescale, normalize;
    double factor;                    /* multiplies a pixel's value, 0 to 255, when `rescale` is set */
    float mean[3], std[3];            /* mean and deviation of red, green and blue, after rescaling */
    uint32_t width, height;           /* size of a tile, pixels */
    uint32_t shortest, longest, tile; /* target lengths of the shorter and the longer edge, and a tile's edge; pixels */
    uint32_t crop_width, crop_height; /* size of the part that `crop` cuts out, pixels */
    uint64_t min_pixels, max_pixels;  /* bounds of the number of pixels after resizing (DOP_IMAGE_PIXELS) */
    uint32_t min_tiles, max_tiles;    /* bounds of the number of tiles, the one of the whole picture not counted */
    uint32_t pan_edge;                /* least edge of a piece (DOP_IMAGE_PAN), pixels */
    /* The least ratio of the longer edge to the shorter one at which a picture is divided (DOP_IMAGE_PAN), or of the number of its pixels to
     * max_pixels (DOP_IMAGE_PIXELS). */
    double pan_ratio;
    uint32_t patch;         /* edge of a patch of the tower, pixels */
    uint32_t merge;         /* merge x merge patches become one feature */
    uint32_t frames;        /* copies of a patch in its row, where the tower takes videos; else 1 */
    uint32_t max_patches;   /* most patches of a picture (DOP_IMAGE_PATCHES, DOP_IMAGE_BUDGET) */
    uint32_t window;        /* edge, in features, of the attention windows of some of the tower's layers; 0: none */
    uint32_t more_features; /* features of a tile beside those of its patches: 1 where the class token counts */
    dop_mark_form marks;
    /* Texts of tokens.  A chat template writes `placeholder` for each picture; the marks replace it. */
    char placeholder[DOP_MARK_SIZE], image[DOP_MARK_SIZE], begin[DOP_MARK_SIZE], end[DOP_MARK_SIZE];
    char row_end[DOP_MARK_SIZE], whole[DOP_MARK_SIZE];
    char before[DOP_MARK_SIZE], after[DOP_MARK_SIZE]; /* around `placeholder` where no chat template writes it */
    uint32_t image_id;                                /* the id of `image`, of which there is one for each feature */
} dop_image_processor;

/* The sizes that follow from a picture's size: tiles, patches, rows and features. */
typedef struct dop_image_layout {
    uint32_t n_tiles; /* tiles that the tower runs over, the one of the whole picture included; at least 1 */
    uint32_t tile_rows, tile_columns; /* grid of tiles; 0: the picture is not divided, and n_tiles is 1 */
    bool whole_first; /* in a divided picture, the tile of the whole picture is the first one; else the last one */
    uint32_t width, height;             /* pixels of a tile */
    uint32_t grid_width, grid_height;   /* patches of a tile */
    uint32_t whole_width, whole_height; /* pixels of the tile of the whole picture, which may have another size */
    uint32_t rows;                      /* patches of all tiles together; each is a row of the tower's input */
    uint32_t row_values;                /* values of a row: those of the pixels of a patch */
    uint32_t
        padding; /* rows of zeros behind the patches' rows, which attention must not see (where there is max_patches) */
    uint32_t features; /* rows that the tower gives the text model, of all tiles together */
    /* Pixels: the size that the picture is resized to before it is divided or cropped. */
    uint32_t middle_width, middle_height;
    /* Pixels: a size that the picture is resized to before the middle one (DOP_IMAGE_TILES); 0: none. */
    uint32_t first_width, first_height;
} dop_image_layout;

/* One tile of a layout. */
typedef struct dop_image_tile {
    bool whole;                       /* the tile shows the whole picture */
    uint32_t width, height;           /* pixels */
    uint32_t grid_width, grid_height; /* patches */
    uint32_t first_row, first_feature, features;
} dop_image_tile;

/* Layouts of the normalized values in memory. */
typedef enum dop_pixel_order {
    /* [rows, row_values] as the tower's first product takes them.  A row is [3, frames, patch, patch], or [patch, patch, 3] with
     * DOP_IMAGE_PATCHES; rows are in the order of dop_image_rows(). */
    DOP_PIXELS_ROWS,
    /* As `pixel_values` of published processors: [n_tiles, 3, height, width]; with DOP_IMAGE_PATCHES and DOP_IMAGE_PIXELS, rows as of
     * DOP_PIXELS_ROWS, but ordered as without windows; with DOP_IMAGE_BUDGET in reading order, a row being [patch, patch, 3]. */
    DOP_PIXELS_PUBLISHED,
} dop_pixel_order;

/* A row of the tower's input, which is one patch of a tile.  Rows are ordered by window, then by feature, both in reading order, and the
 * patches of one feature are neighbours.  So a window is a range of rows, and merging patches is a reshape without copying. */
typedef struct dop_image_row {
    uint32_t patch;       /* number of the patch in its tile in reading order */
    uint32_t in_window;   /* index of the row in its window */
    uint32_t window_last; /* in_window of the window's last row */
} dop_image_row;

/* One piece of the text that stands for a picture: a token, or plain text, n times. */
typedef struct dop_image_mark {
    char text[DOP_MARK_SIZE + 16]; /* a mark of the processor, or one with the row and the column of a tile */
    uint32_t n;
    bool features; /* each of the n tokens stands for one row of the tower's output, in order */
} dop_image_mark;

/* image_fields.c: a processor as the bytes that a plan holds, and back, checked.  DOP_E_INPUT: they are no processor. */
void dop_image_processor_write(const dop_image_processor *p, dop_buf *out);
dop_status dop_image_processor_read(const void *bytes, size_t size, dop_diag *diag, dop_image_processor *out);
/* Checks a processor: numbers must be within bounds, and those that its form needs must be there.  DOP_E_INPUT names the wrong field. */
dop_status dop_image_processor_check(const dop_image_processor *p, dop_diag *diag);
/* Lowers the bounds on a picture's size so that no tile has more than max_rows patches, where the processor chooses the size by bounds.
 * Published processors allow larger pictures than a step of the tower takes. */
void dop_image_processor_limit(dop_image_processor *p, uint32_t max_rows);
/* Computes the layout for a picture's size; the processor must have been checked.  DOP_E_INPUT: the model takes no picture of this
 * shape.  DOP_E_LIMIT: it has too many pixels. */
dop_status dop_image_lay_out(const dop_image_processor *p, uint32_t width, uint32_t height, dop_diag *diag,
                             dop_image_layout *out_layout);
/* Tile i of a layout, below n_tiles. */
dop_image_tile dop_image_tile_of(const dop_image_processor *p, const dop_image_layout *layout, uint32_t i);
/* Computes the normalized values of a picture, (rows + padding) * row_values of them, owned by the caller (free) and charged to `budget`
 * (NULL: unlimited). */
dop_status dop_image_values(const dop_image_processor *p, const dop_image_layout *layout, const dop_picture *picture,
                            dop_pixel_order order, dop_budget *budget, dop_diag *diag, float **out_values);
/* Lists the rows of all tiles in their order, layout->rows of them, owned by the caller (free). */
dop_status dop_image_rows(const dop_image_processor *p, const dop_image_layout *layout, dop_diag *diag,
                          dop_image_row **out_rows);
/* Bilinear interpolation of learned positions, a square of `edge` rows and columns, at patch (y, x) of a grid: the four rows of
 * the table around the patch, and their weights. */
void dop_image_corners(uint32_t edge, uint32_t y, uint32_t x, uint32_t grid_height, uint32_t grid_width,
                       uint32_t out_rows[4], float out_shares[4]);
/* Bilinear resizing with antialiasing of such a square to the grid, at patch (y, x): the weight of each of its edge * edge rows. */
void dop_image_resampling(uint32_t edge, uint32_t y, uint32_t x, uint32_t grid_height, uint32_t grid_width,
                          float *out_weights);
/* Makes the text that stands for the picture, as a list of marks, owned by the caller (free).  Marks with `features` have
 * layout->features tokens together. */
dop_status dop_image_marks(const dop_image_processor *p, const dop_image_layout *layout, dop_diag *diag,
                           dop_image_mark **out_marks, uint32_t *out_n);

#endif
