/* Computes the encoder's input: normalized values in rows, from an image and its layout. */
#include "base/parallel.h"
#include "media/picture/image_processor.h"

#include <stdlib.h>
#include <string.h>

/* Makes lookup tables of normalized values for 8-bit channel values.  If values are rescaled and normalized, mean and standard
 * deviation are divided by the factor instead, in single precision, as in the published processors. */
static void
make_value_table(const dop_image_processor *p, float table[3][256])
{
    for (uint32_t c = 0; c < 3; c++)
        for (uint32_t v = 0; v < 256; v++) {
            const float scale = p->rescale ? (float)(1.0 / p->factor) : 1;
            const float mean = p->mean[c] * scale, std = p->std[c] * scale;
            table[c][v] = p->normalize ? ((float)v - mean) / std : p->rescale ? (float)v * (float)p->factor : (float)v;
        }
}

/* Cuts a rectangle out of an image; pixels outside of the image are black. */
static dop_status
cut_rectangle(const dop_picture *in, int64_t left, int64_t top, uint32_t w, uint32_t h, dop_budget *budget,
              dop_diag *diag, dop_picture *out)
{
    const uint64_t bytes = (uint64_t)w * h * 3;
    if (!dop_budget_take(budget, bytes) || !dop_budget_step(budget, bytes / 16))
        return dop_budget_fail(budget, diag, "cutting the picture");
    *out = (dop_picture){w, h, calloc(bytes, 1)};
    if (!out->rgb)
        return DOP_NO_MEMORY(diag);
    const int64_t from = left > 0 ? left : 0, to = left + w < in->width ? left + w : in->width;
    for (uint32_t y = 0; y < h && from < to; y++)
        if (top + y >= 0 && top + y < in->height)
            memcpy(out->rgb + ((uint64_t)y * w + (uint64_t)(from - left)) * 3,
                   in->rgb + ((uint64_t)(top + y) * in->width + (uint64_t)from) * 3, (size_t)(to - from) * 3);
    return DOP_OK;
}

/* Context for writing pixel values. */
typedef struct place {
    const dop_image_processor *p;
    const dop_image_layout *layout;
    dop_pixel_order order;
    const dop_image_row *rows; /* rows of all tiles, in order */
} place;

/* Lists the rows of a tile: by window of `window` features per edge (0: one window), then by feature, then by patch, each in reading
 * order.
 * m: patches per edge of a feature. */
static void
list_tile_rows(const dop_image_tile *x, uint32_t window, uint32_t m, dop_image_row *rows)
{
    const uint32_t w = x->grid_width / m, h = x->grid_height / m;
    const uint32_t edge = window ? window : w > h ? w : h;
    uint32_t n = 0;
    for (uint32_t wy = 0; wy < h; wy += edge)
        for (uint32_t wx = 0; wx < w; wx += edge) {
            const uint32_t first = n, bottom = wy + edge < h ? wy + edge : h, right = wx + edge < w ? wx + edge : w;
            for (uint32_t fy = wy; fy < bottom; fy++)
                for (uint32_t fx = wx; fx < right; fx++)
                    for (uint32_t k = 0; k < m * m; k++, n++)
                        rows[n] = (dop_image_row){(fy * m + k / m) * x->grid_width + fx * m + k % m, n - first, 0};
            for (uint32_t i = first; i < n; i++)
                rows[i].window_last = n - first - 1;
        }
}

/* Lists the rows of all tiles, tile by tile. */
static void
list_all_rows(const dop_image_processor *p, const dop_image_layout *layout, uint32_t window, uint32_t m,
              dop_image_row *rows)
{
    for (uint32_t i = 0; i < layout->n_tiles; i++) {
        const dop_image_tile tile = dop_image_tile_of(p, layout, i);
        list_tile_rows(&tile, window, m, rows + tile.first_row);
    }
}

dop_status
dop_image_rows(const dop_image_processor *p, const dop_image_layout *layout, dop_diag *diag, dop_image_row **out_rows)
{
    *out_rows = calloc(layout->rows, sizeof **out_rows);
    if (!*out_rows)
        return DOP_NO_MEMORY(diag);
    list_all_rows(p, layout, p->window, p->merge, *out_rows);
    return DOP_OK;
}

static void
write_planes(const float table[3][256], const dop_picture *tile, float *out)
{
    const uint64_t plane = (uint64_t)tile->width * tile->height;
    for (uint64_t i = 0; i < plane; i++)
        for (uint32_t c = 0; c < 3; c++)
            out[c * plane + i] = table[c][tile->rgb[3 * i + c]];
}

/* Writes the row of one patch.  from: its top left pixel, in an image of `width` pixels per row. */
static void
write_patch(const place *at, const float table[3][256], const uint8_t *from, uint32_t width, float *row)
{
    const uint32_t n = at->p->patch, frames = at->p->frames;
    const size_t plane = (size_t)n * n;
    if (at->p->form == DOP_IMAGE_PATCHES ||
        (at->p->form == DOP_IMAGE_BUDGET && at->order == DOP_PIXELS_PUBLISHED)) { /* layout [patch, patch, 3] */
        for (uint32_t y = 0; y < n; y++)
            for (uint32_t x = 0; x < 3 * n; x++)
                *row++ = table[x % 3][from[(size_t)y * width * 3 + x]];
        return;
    }
    for (uint32_t c = 0; c < 3; c++, row += frames * plane) {
        for (uint32_t y = 0; y < n; y++)
            for (uint32_t x = 0; x < n; x++)
                row[y * n + x] = table[c][from[((size_t)y * width + x) * 3 + c]];
        for (uint32_t t = 1; t < frames; t++)
            memcpy(row + t * plane, row, plane * sizeof *row);
    }
}

/* Job: writes the rows of n tiles of one size.  The picture is the grid of tiles, or a single tile.  ROWS_EACH: minimum rows that pay
 * for a thread. */
enum { ROWS_EACH = 256, MOST_THREADS = 8 };
typedef struct rows_job {
    const place *at;
    const float (*table)[256];
    const dop_picture *picture;
    bool grid;
    uint32_t first, n; /* range of tiles */
    uint32_t pieces;   /* work items per tile, ROWS_EACH rows each */
    float *out;        /* output of all tiles of the layout */
} rows_job;

static dop_status
write_some_rows(void *user, uint32_t worker, uint32_t index, dop_diag *diag)
{
    const rows_job *const j = user;
    const dop_image_layout *const x = j->at->layout;
    const uint32_t n = j->at->p->patch, i = j->first + index / j->pieces, row = index % j->pieces * ROWS_EACH;
    const dop_image_tile t = dop_image_tile_of(j->at->p, x, i);
    const uint32_t all = t.grid_width * t.grid_height, in_grid = i - x->whole_first;
    const size_t width = j->picture->width, left = j->grid ? in_grid % x->tile_columns * (size_t)x->width : 0,
                 top = j->grid ? in_grid / x->tile_columns * (size_t)x->height : 0;
    const dop_image_row *rows = j->at->rows + t.first_row;
    (void)worker;
    (void)diag;
    for (uint32_t k = row; k < all && k < row + ROWS_EACH; k++) {
        const size_t py = top + (size_t)(rows[k].patch / t.grid_width) * n,
                     px = left + (size_t)(rows[k].patch % t.grid_width) * n;
        write_patch(j->at, j->table, j->picture->rgb + (py * width + px) * 3, j->picture->width,
                    j->out + ((size_t)t.first_row + k) * x->row_values);
    }
    return DOP_OK;
}

static dop_status
write_tile_rows(rows_job *j, dop_diag *diag)
{
    const dop_image_tile t = dop_image_tile_of(j->at->p, j->at->layout, j->first);
    j->pieces = dop_div_up_u32(t.grid_width * t.grid_height, ROWS_EACH);
    return dop_parallel_for(j->n * j->pieces, dop_cores_up_to(MOST_THREADS), write_some_rows, j, diag);
}

/* Makes tile i of a divided image: a rectangle of the canvas (the resized image), or with DOP_IMAGE_PAN a resized piece of the
 * original. */
static dop_status
make_image_tile(const place *at, const dop_picture *picture, const dop_picture *canvas, uint32_t i, dop_budget *budget,
                dop_diag *diag, dop_picture *out)
{
    const dop_image_layout *const x = at->layout;
    const uint32_t column = i % x->tile_columns, row = i / x->tile_columns;
    if (at->p->form != DOP_IMAGE_PAN)
        return cut_rectangle(canvas, (int64_t)column * x->width, (int64_t)row * x->height, x->width, x->height, budget,
                             diag, out);
    const uint32_t w = (picture->width + x->tile_columns - 1) / x->tile_columns;
    const uint32_t h = (picture->height + x->tile_rows - 1) / x->tile_rows;
    const uint32_t left = column * w, top = row * h;
    dop_picture piece = {0};
    dop_status st = DOP_OK;
    DOP_TRY(cut_rectangle(picture, left, top, w < picture->width - left ? w : picture->width - left,
                          h < picture->height - top ? h : picture->height - top, budget, diag, &piece));
    DOP_TRY(dop_picture_resize(&piece, x->width, x->height, at->p->filter, at->p->point, budget, diag, out));
error:
    dop_picture_discard(&piece, budget);
    return st;
}

/* Makes the tile of the whole image.  A divided image is resized from the canvas (DOP_IMAGE_TILES) or from the original.  Otherwise the
 * tile is the canvas, or its center crop. */
static dop_status
make_whole_tile(const place *at, const dop_picture *picture, const dop_picture *canvas, dop_budget *budget,
                dop_diag *diag, dop_picture *out)
{
    const dop_image_layout *const x = at->layout;
    const bool divided = x->tile_rows > 0;
    /* Center crop: the left edge moves in by half of the surplus, or out by half of the deficit, rounded down. */
    if (!divided && at->p->crop)
        return cut_rectangle(canvas,
                             canvas->width >= x->width ? (int64_t)(canvas->width - x->width) / 2
                                                       : -(int64_t)((x->width - canvas->width) / 2),
                             canvas->height >= x->height ? (int64_t)(canvas->height - x->height) / 2
                                                         : -(int64_t)((x->height - canvas->height) / 2),
                             x->width, x->height, budget, diag, out);
    const dop_picture *const from = divided && at->p->form != DOP_IMAGE_TILES ? picture : canvas;
    return dop_picture_resize(from, x->whole_width, x->whole_height, at->p->filter, at->p->point, budget, diag, out);
}

/* Writes the values of all tiles in order. */
static dop_status
write_tiles(const place *at, const dop_picture *picture, const dop_picture *canvas, dop_budget *budget, dop_diag *diag,
            float *out)
{
    const dop_image_layout *const x = at->layout;
    const bool planes = at->order == DOP_PIXELS_PUBLISHED && at->p->form != DOP_IMAGE_PIXELS &&
                        at->p->form != DOP_IMAGE_PATCHES && at->p->form != DOP_IMAGE_BUDGET;
    /* Tiles that are rectangles of the canvas need no copies. */
    const bool in_place = !planes && x->tile_rows > 0 && at->p->form != DOP_IMAGE_PAN &&
                          canvas->width >= x->tile_columns * x->width && canvas->height >= x->tile_rows * x->height;
    float table[3][256];
    make_value_table(at->p, table);
    rows_job rows = {at, (const float(*)[256])table, canvas, true, x->whole_first, x->n_tiles - 1, 0, out};
    dop_status st = in_place ? write_tile_rows(&rows, diag) : DOP_OK;
    for (uint32_t i = 0; i < x->n_tiles && st == DOP_OK; i++) {
        const dop_image_tile t = dop_image_tile_of(at->p, x, i);
        dop_picture tile = {0};
        if (in_place && !t.whole)
            continue;
        st = t.whole ? make_whole_tile(at, picture, canvas, budget, diag, &tile)
                     : make_image_tile(at, picture, canvas, x->whole_first ? i - 1 : i, budget, diag, &tile);
        rows = (rows_job){at, (const float(*)[256])table, &tile, false, i, 1, 0, out};
        if (st == DOP_OK && planes) /* these processors have tiles of one size */
            write_planes((const float(*)[256])table, &tile, out + i * 3 * (uint64_t)x->width * x->height);
        else if (st == DOP_OK)
            st = write_tile_rows(&rows, diag);
        dop_picture_discard(&tile, budget);
    }
    return st;
}

dop_status
dop_image_values(const dop_image_processor *p, const dop_image_layout *layout, const dop_picture *picture,
                 dop_pixel_order order, dop_budget *budget, dop_diag *diag, float **out_values)
{
    place at = {p, layout, order, NULL};
    dop_image_row *order_of = NULL;
    const uint64_t planes = (uint64_t)layout->n_tiles * 3 * layout->width * layout->height * p->frames;
    const uint64_t rows = ((uint64_t)layout->rows + layout->padding) * layout->row_values;
    const uint64_t bytes = (planes > rows ? planes : rows) * sizeof(float); /* enough for both orders */
    dop_picture first = {0}, canvas = {0};
    *out_values = NULL;
    if (!dop_budget_take(budget, bytes) || !dop_budget_step(budget, bytes / 16))
        return dop_budget_fail(budget, diag, "preparing the picture");
    float *const values = calloc(bytes, 1);
    dop_status st = values ? DOP_OK : DOP_NO_MEMORY(diag);
    if (st == DOP_OK)
        st = dop_image_rows(p, layout, diag, &order_of);
    if (st == DOP_OK && order == DOP_PIXELS_PUBLISHED)
        list_all_rows(p, layout, 0, p->form == DOP_IMAGE_BUDGET ? 1 : p->merge, order_of);
    at.rows = order_of;
    if (st == DOP_OK && layout->first_width > 0)
        st = dop_picture_resize(picture, layout->first_width, layout->first_height, p->filter, p->point, budget, diag,
                                &first);
    if (st == DOP_OK)
        st = dop_picture_resize(first.rgb ? &first : picture, layout->middle_width, layout->middle_height, p->filter,
                                p->point, budget, diag, &canvas);
    if (st == DOP_OK)
        st = write_tiles(&at, picture, &canvas, budget, diag, values);
    dop_picture_discard(&first, budget);
    dop_picture_discard(&canvas, budget);
    free(order_of);
    if (st != DOP_OK) {
        free(values);
        dop_budget_give(budget, bytes);
        return st;
    }
    *out_values = values;
    return DOP_OK;
}
