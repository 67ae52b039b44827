/* Image layout: sizes after resizing, tiles and numbers of patches.  Rounding determines the number of tokens, so divisions are in
 * double where the published processors use double. */
#include "media/picture/image_processor.h"

#include "base/step_record.h"

#include <math.h>

/* Bounds of a processor's numbers; they keep all products of sizes far below 2^63. */
enum { MAX_PATCH = 256, MAX_MERGE = 64, MAX_FRAMES = 16, MAX_TILES = 256, MAX_PATCHES = 1 << 20 };

static dop_status
refuse_processor_field(dop_diag *diag, const char *field)
{
    return DOP_FAIL(diag, DOP_E_INPUT, "the image processor's %s is missing or out of range", field);
}

static bool
is_in_range(uint64_t v, uint64_t low, uint64_t high)
{
    return v >= low && v <= high;
}

static bool
is_valid_edge(uint32_t v)
{
    return is_in_range(v, 1, DOP_PICTURE_MAX_EDGE);
}

/* Checks the fields that the processor's form needs. */
static dop_status
check_processor_form(const dop_image_processor *p, dop_diag *diag)
{
    const uint64_t unit = (uint64_t)p->patch * p->merge;
    switch (p->form) {
    case DOP_IMAGE_EXACT:
    case DOP_IMAGE_PAN:
    case DOP_IMAGE_CANVAS:
        if (!is_valid_edge(p->width) || !is_valid_edge(p->height))
            return refuse_processor_field(diag, "size");
        if (p->form == DOP_IMAGE_CANVAS && p->split &&
            (!is_in_range(p->min_tiles, 1, p->max_tiles) || !is_in_range(p->max_tiles, 1, MAX_TILES)))
            return refuse_processor_field(diag, "number of tiles");
        if (p->form == DOP_IMAGE_PAN && p->split &&
            (!is_valid_edge(p->pan_edge) || !is_in_range(p->max_tiles, 1, MAX_TILES) || !(p->pan_ratio >= 0)))
            return refuse_processor_field(diag, "pan and scan");
        return DOP_OK;
    case DOP_IMAGE_EDGE:
        return is_valid_edge(p->shortest) ? DOP_OK : refuse_processor_field(diag, "shortest edge");
    case DOP_IMAGE_PIXELS:
        if (!is_in_range(p->max_pixels, unit * unit, DOP_PICTURE_MAX_PIXELS))
            return refuse_processor_field(diag, "largest number of pixels");
        if (p->split && p->tile &&
            (!is_valid_edge(p->tile) || !is_in_range(p->min_tiles, 1, p->max_tiles) ||
             !is_in_range(p->max_tiles, 1, MAX_TILES) || !(p->pan_ratio >= 0)))
            return refuse_processor_field(diag, "number of tiles");
        return p->min_pixels <= p->max_pixels ? DOP_OK : refuse_processor_field(diag, "smallest number of pixels");
    case DOP_IMAGE_LONGEST:
        return is_valid_edge(p->longest) ? DOP_OK : refuse_processor_field(diag, "longest edge");
    case DOP_IMAGE_TILES:
        return !is_valid_edge(p->longest) ? refuse_processor_field(diag, "longest edge")
               : is_valid_edge(p->tile)   ? DOP_OK
                                          : refuse_processor_field(diag, "tile");
    case DOP_IMAGE_BUDGET:
        return is_in_range(p->max_patches, (uint64_t)p->merge * p->merge, MAX_PATCHES)
                   ? DOP_OK
                   : refuse_processor_field(diag, "number of patches");
    case DOP_IMAGE_PATCHES:
        return is_in_range(p->max_patches, 1, MAX_PATCHES) ? DOP_OK : refuse_processor_field(diag, "number of patches");
    }
    return refuse_processor_field(diag, "form");
}

dop_status
dop_image_processor_check(const dop_image_processor *p, dop_diag *diag)
{
    if (p->filter < DOP_FILTER_LANCZOS || p->filter > DOP_FILTER_BICUBIC || p->point > DOP_FIXED_PILLOW)
        return refuse_processor_field(diag, "filter");
    if (!is_in_range(p->patch, 1, MAX_PATCH))
        return refuse_processor_field(diag, "patch size");
    if (!is_in_range(p->merge, 1, MAX_MERGE) || !is_in_range(p->frames, 1, MAX_FRAMES) || p->more_features > 64 ||
        p->window > DOP_PICTURE_MAX_EDGE)
        return refuse_processor_field(diag, "number of patches of a feature");
    if (p->crop && (!is_valid_edge(p->crop_width) || !is_valid_edge(p->crop_height)))
        return refuse_processor_field(diag, "crop size");
    if (p->rescale && !(p->factor > 0 && p->factor < 1e6))
        return refuse_processor_field(diag, "rescale factor");
    for (uint32_t c = 0; p->normalize && c < 3; c++)
        if (!(fabsf(p->mean[c]) < 1e6F) || !(p->std[c] > 1e-9F && p->std[c] < 1e6F))
            return refuse_processor_field(diag, "mean or standard deviation");
    if (p->marks > DOP_MARKS_GRID)
        return refuse_processor_field(diag, "form of marks");
    const char *const texts[] = {p->placeholder, p->image, p->begin, p->end, p->row_end, p->whole, p->before, p->after};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i][DOP_MARK_SIZE - 1])
            return refuse_processor_field(diag, "token");
    return check_processor_form(p, diag);
}

void
dop_image_processor_limit(dop_image_processor *p, uint32_t max_rows)
{
    const uint64_t most = (uint64_t)max_rows * p->patch * p->patch;
    const uint32_t unit = p->patch * p->merge, edge = (uint32_t)sqrt((double)most) / unit * unit;
    if (p->form == DOP_IMAGE_PIXELS && p->max_pixels > most && most >= (uint64_t)unit * unit) {
        p->max_pixels = most;
        p->min_pixels = p->min_pixels < most ? p->min_pixels : most;
    } else if (p->form == DOP_IMAGE_LONGEST && p->longest > edge && edge > 0) {
        p->longest = edge;
    } else if ((p->form == DOP_IMAGE_PATCHES || p->form == DOP_IMAGE_BUDGET) && p->max_patches > max_rows) {
        p->max_patches = max_rows;
    }
}

static uint32_t
round_up_to_multiple(uint32_t v, uint32_t multiple)
{
    return (v + multiple - 1) / multiple * multiple;
}

/* Converts a computed size to an edge in pixels; 0: out of range, which the caller rejects. */
static uint32_t
to_edge_length(double v)
{
    return v >= 1 && v <= DOP_PICTURE_MAX_EDGE ? (uint32_t)v : 0;
}

/* Qwen's smart_resize.  Rounds edges to the nearest multiples of patch * merge.  If the result exceeds max_pixels or is below
 * min_pixels, the image is first scaled to the bound, keeping its aspect ratio. */
static void
lay_out_pixels(const dop_image_processor *p, double w, double h, dop_image_layout *out)
{
    const double unit = (double)p->patch * p->merge, least = p->tile ? unit : 0;
    double out_w = fmax(least, rint(w / unit) * unit), out_h = fmax(least, rint(h / unit) * unit);
    if (out_w * out_h > (double)p->max_pixels) {
        const double beta = sqrt(h * w / (double)p->max_pixels);
        out_w = fmax(unit, floor(w / beta / unit) * unit);
        out_h = fmax(unit, floor(h / beta / unit) * unit);
    } else if (out_w * out_h < (double)p->min_pixels) {
        const double beta = sqrt((double)p->min_pixels / (h * w));
        out_w = ceil(w * beta / unit) * unit;
        out_h = ceil(h * beta / unit) * unit;
    }
    out->middle_width = to_edge_length(out_w);
    out->middle_height = to_edge_length(out_h);
}

static void
lay_out_longest(const dop_image_processor *p, uint32_t w, uint32_t h, dop_image_layout *out)
{
    const double ratio = fmax((double)h / p->longest, (double)w / p->longest);
    if (ratio > 1) {
        w = (uint32_t)floor(w / ratio);
        h = (uint32_t)floor(h / ratio);
    }
    const uint32_t unit = p->patch * p->merge;
    out->middle_width = round_up_to_multiple(w > 0 ? w : 1, unit);
    out->middle_height = round_up_to_multiple(h > 0 ? h : 1, unit);
}

/* First size of Idefics 3.  The longer edge becomes `longest`; the shorter one an even number that keeps the aspect ratio.  Both then
 * shrink until neither exceeds 4096. */
static void
lay_out_idefics_first(const dop_image_processor *p, uint32_t w, uint32_t h, dop_image_layout *out)
{
    enum { MAX_EDGE = 4096 };
    const double form = (double)w / h;
    const bool wide = w >= h;
    uint32_t longer = p->longest;
    double shorter = floor(wide ? longer / form : longer * form);
    shorter += fmod(shorter, 2);
    shorter = fmax(shorter, 1);
    if (longer > MAX_EDGE) {
        const double again = wide ? longer / shorter : shorter / longer;
        longer = MAX_EDGE;
        shorter = fmax(floor(wide ? longer / again : longer * again), 1);
    }
    out->first_width = wide ? longer : to_edge_length(shorter);
    out->first_height = wide ? to_edge_length(shorter) : longer;
}

static void
lay_out_tiles(const dop_image_processor *p, uint32_t w, uint32_t h, dop_image_layout *out)
{
    out->first_width = w;
    out->first_height = h;
    if (p->resize)
        lay_out_idefics_first(p, w, h, out);
    w = out->first_width;
    h = out->first_height;
    out->width = out->height = out->middle_width = out->middle_height = p->tile;
    if (!p->split || w == 0 || h == 0)
        return;
    const double form = (double)w / h;
    if (w >= h) {
        w = round_up_to_multiple(w, p->tile);
        h = round_up_to_multiple((uint32_t)(w / form), p->tile);
    } else {
        h = round_up_to_multiple(h, p->tile);
        w = round_up_to_multiple((uint32_t)(h * form), p->tile);
    }
    out->middle_width = w;
    out->middle_height = h;
    if (w > p->tile || h > p->tile) {
        out->tile_columns = w / p->tile;
        out->tile_rows = h / p->tile;
    }
}

/* InternVL's tile grid: the grid whose aspect ratio is closest to the image's.  Ties prefer the later grid if its tiles have fewer than
 * twice the image's pixels.  Grids are ordered by number of tiles, then columns. */
static void
lay_out_canvas(const dop_image_processor *p, uint32_t w, uint32_t h, uint32_t tile_width, uint32_t tile_height,
               dop_image_layout *out)
{
    const double form = (double)w / h, area = (double)w * h;
    double best = INFINITY;
    uint32_t columns = 1, rows = 1;
    for (uint32_t n = p->min_tiles; n <= p->max_tiles; n++)
        for (uint32_t c = 1; c <= n; c++) {
            if (n % c != 0)
                continue;
            const double apart = fabs(form - (double)c / (n / c));
            if (apart < best || (apart == best && area > 0.5 * tile_width * tile_height * n)) {
                columns = c;
                rows = n / c;
            }
            best = fmin(best, apart);
        }
    if (columns * rows == 1)
        return;
    out->tile_columns = columns;
    out->tile_rows = rows;
    out->middle_width = columns * tile_width;
    out->middle_height = rows * tile_height;
}

/* LFM2-VL's tiles.  An image that is too large for one tile is divided into squares of `tile` pixels, followed by the whole image at
 * its single-tile size. */
static void
divide_pixels(const dop_image_processor *p, double w, double h, dop_image_layout *out)
{
    const double patch = p->patch, unit = patch * p->merge;
    const double area = fmax(patch, rint(w / unit) * unit) * fmax(patch, rint(h / unit) * unit);
    const uint32_t whole_width = out->middle_width, whole_height = out->middle_height;
    if (!p->split || p->tile == 0 || area <= (double)p->max_pixels * p->pan_ratio)
        return;
    lay_out_canvas(p, (uint32_t)w, (uint32_t)h, p->tile, p->tile, out);
    if (out->tile_rows == 0)
        return;
    out->width = out->height = p->tile;
    out->whole_width = whole_width;
    out->whole_height = whole_height;
}

/* Gemma 3's pan and scan: divides a long image into adjacent pieces along its longer edge. */
static void
lay_out_pan(const dop_image_processor *p, uint32_t w, uint32_t h, dop_image_layout *out)
{
    const bool wide = w >= h;
    const uint32_t longer = wide ? w : h, shorter = wide ? h : w;
    if ((double)longer / shorter < p->pan_ratio)
        return;
    uint32_t n = (uint32_t)floor((double)longer / shorter + 0.5);
    n = n < longer / p->pan_edge ? n : longer / p->pan_edge;
    n = n > 2 ? n : 2;
    n = n < p->max_tiles ? n : p->max_tiles;
    const uint32_t piece = (longer + n - 1) / n;
    if ((piece < shorter ? piece : shorter) < p->pan_edge || (uint64_t)piece * (n - 1) >= longer)
        return;
    out->tile_columns = wide ? n : 1;
    out->tile_rows = wide ? 1 : n;
    out->whole_first = true;
}

/* SigLIP 2's size: bisects for the largest scale with at most max_patches patches. */
static void
lay_out_patches(const dop_image_processor *p, uint32_t w, uint32_t h, dop_image_layout *out)
{
    const double eps = 1e-5, patch = p->patch;
    double low = eps / 10, high = 100;
    while (high - low >= eps) {
        const double scale = (low + high) / 2;
        const double y = fmax(1, ceil(h * scale / patch)), x = fmax(1, ceil(w * scale / patch));
        if (y * x <= p->max_patches)
            low = scale;
        else
            high = scale;
    }
    out->middle_width = to_edge_length(fmax(patch, ceil(w * low / patch) * patch));
    out->middle_height = to_edge_length(fmax(patch, ceil(h * low / patch) * patch));
}

/* Gemma 4's size.  Scales the image to max_patches patches and rounds edges down to multiples of `unit` pixels.  An edge that would
 * become 0 becomes `unit`; the other then follows from the aspect ratio, within the number of patches.  Positions in a step of the
 * encoder must be below DOP_STEP_EDGE. */
static void
lay_out_budget(const dop_image_processor *p, double w, double h, dop_image_layout *out)
{
    const double unit = (double)p->patch * p->merge, pixels = (double)p->max_patches * p->patch * p->patch;
    const double scale = sqrt(pixels / (h * w)), features = floor(p->max_patches / ((double)p->merge * p->merge));
    const double most = fmin(features, floor((DOP_STEP_EDGE - 1.0) / p->merge)) * unit;
    double out_w = floor(scale * w / unit) * unit, out_h = floor(scale * h / unit) * unit;
    if (out_h == 0) {
        out_h = unit;
        out_w = floor(w / h) * unit;
    } else if (out_w == 0) {
        out_w = unit;
        out_h = floor(h / w) * unit;
    }
    out->middle_width = to_edge_length(fmin(out_w, most));
    out->middle_height = to_edge_length(fmin(out_h, most));
}

/* CLIP's size: the shorter edge becomes `shortest`; keeps the aspect ratio. */
static void
lay_out_edge(const dop_image_processor *p, uint32_t w, uint32_t h, dop_image_layout *out)
{
    const uint64_t longer = (uint64_t)p->shortest * (w > h ? w : h) / (w > h ? h : w);
    out->middle_width = w <= h ? p->shortest : to_edge_length((double)longer);
    out->middle_height = w <= h ? to_edge_length((double)longer) : p->shortest;
}

static dop_status
compute_sizes(const dop_image_processor *p, uint32_t w, uint32_t h, dop_diag *diag, dop_image_layout *out)
{
    out->middle_width = w;
    out->middle_height = h;
    switch (p->form) {
    case DOP_IMAGE_EXACT:
    case DOP_IMAGE_CANVAS:
    case DOP_IMAGE_PAN:
        if (p->resize || p->split) {
            out->middle_width = p->width;
            out->middle_height = p->height;
        }
        if (p->split && p->form == DOP_IMAGE_CANVAS)
            lay_out_canvas(p, w, h, p->width, p->height, out);
        if (p->split && p->form == DOP_IMAGE_PAN)
            lay_out_pan(p, w, h, out);
        break;
    case DOP_IMAGE_EDGE:
        if (p->resize)
            lay_out_edge(p, w, h, out);
        break;
    case DOP_IMAGE_PIXELS:
        if (!p->tile && (w > h ? w : h) > 200 * (uint64_t)(w > h ? h : w))
            return DOP_FAIL(diag, DOP_E_INPUT,
                            "the picture's edges are %u and %u pixels: one may be up to 200 times the other", w, h);
        if (p->resize) {
            lay_out_pixels(p, w, h, out);
            divide_pixels(p, w, h, out);
        }
        break;
    case DOP_IMAGE_LONGEST:
        if (p->resize)
            lay_out_longest(p, w, h, out);
        break;
    case DOP_IMAGE_TILES:
        lay_out_tiles(p, w, h, out);
        break;
    case DOP_IMAGE_PATCHES:
        if (p->resize)
            lay_out_patches(p, w, h, out);
        break;
    case DOP_IMAGE_BUDGET:
        if (p->resize)
            lay_out_budget(p, w, h, out);
        break;
    }
    return DOP_OK;
}

dop_status
dop_image_lay_out(const dop_image_processor *p, uint32_t width, uint32_t height, dop_diag *diag,
                  dop_image_layout *out_layout)
{
    dop_image_layout x = {0};
    if (width == 0 || height == 0 || width > DOP_PICTURE_MAX_EDGE || height > DOP_PICTURE_MAX_EDGE)
        return DOP_FAIL(diag, DOP_E_INPUT, "a picture of %u x %u pixels", width, height);
    dop_status st = compute_sizes(p, width, height, diag, &x);
    if (st != DOP_OK)
        return st;
    const bool divided = x.tile_rows > 0;
    x.n_tiles = divided ? x.tile_rows * x.tile_columns + 1 : 1;
    if (x.width == 0) {
        x.width = divided ? p->width : p->crop ? p->crop_width : x.middle_width;
        x.height = divided ? p->height : p->crop ? p->crop_height : x.middle_height;
    }
    if (x.whole_width == 0) {
        x.whole_width = x.width;
        x.whole_height = x.height;
    }
    x.grid_width = x.width / p->patch;
    x.grid_height = x.height / p->patch;
    const uint32_t whole_columns = x.whole_width / p->patch, whole_rows = x.whole_height / p->patch;
    const uint64_t whole = (uint64_t)whole_columns * whole_rows;
    const uint64_t patches = (uint64_t)(x.n_tiles - 1) * x.grid_width * x.grid_height + whole;
    /* Pixels after the last whole patch are dropped, as by a convolution with stride patch.  The patches along each edge must fill
     * whole features. */
    if (x.middle_width == 0 || x.middle_height == 0 || whole == 0 || x.grid_width % p->merge != 0 ||
        x.grid_height % p->merge != 0 || whole_columns % p->merge != 0 || whole_rows % p->merge != 0)
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "a picture of %u x %u pixels becomes one of %u x %u, which has no patches of %u x %u pixels",
                        width, height, x.middle_width, x.middle_height, p->patch * p->merge, p->patch * p->merge);
    if ((uint64_t)x.n_tiles * x.width * x.height * p->frames > DOP_PICTURE_MAX_PIXELS ||
        (uint64_t)x.middle_width * x.middle_height > DOP_PICTURE_MAX_PIXELS)
        return DOP_FAIL(diag, DOP_E_LIMIT, "a picture of %u x %u pixels becomes %u of %u x %u, more than are allowed",
                        width, height, x.n_tiles, x.width, x.height);
    x.rows = (uint32_t)patches;
    x.row_values = 3 * p->frames * p->patch * p->patch;
    x.padding = (p->form == DOP_IMAGE_PATCHES || p->form == DOP_IMAGE_BUDGET) && p->max_patches > x.rows
                    ? p->max_patches - x.rows
                    : 0;
    x.features = x.rows / (p->merge * p->merge) + x.n_tiles * p->more_features;
    *out_layout = x;
    return DOP_OK;
}

dop_image_tile
dop_image_tile_of(const dop_image_processor *p, const dop_image_layout *layout, uint32_t i)
{
    const uint32_t of_tile = layout->grid_width * layout->grid_height,
                   whole_rows = layout->rows - (layout->n_tiles - 1) * of_tile;
    dop_image_tile t = {.whole = i == (layout->whole_first ? 0 : layout->n_tiles - 1),
                        .width = layout->width,
                        .height = layout->height,
                        .first_row = i * of_tile};
    if (t.whole) {
        t.width = layout->whole_width;
        t.height = layout->whole_height;
    } else if (layout->whole_first) {
        t.first_row += whole_rows - of_tile;
    }
    t.grid_width = t.width / p->patch;
    t.grid_height = t.height / p->patch;
    t.first_feature = t.first_row / (p->merge * p->merge) + i * p->more_features;
    t.features = t.grid_width * t.grid_height / (p->merge * p->merge) + p->more_features;
    return t;
}
