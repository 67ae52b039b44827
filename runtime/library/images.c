/* doppler/images.h: images of a prompt, from files to rows of steps. */
#include "runtime/library/images.h"

#include "plan/plan_names.h"
#include "runtime/model/model_used.h"
#include "runtime/model/part.h"
#include "runtime/step/features.h"
#include "runtime/step/program.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { KEEP_BYTES = 256 << 20 };

/* Cache entry: features in the model of the file with this digest. */
typedef struct seen {
    struct seen *next; /* next in order of last use */
    uint64_t digest[2];
    uint32_t first, n; /* ids of the features */
    atomic_uint refs;  /* number of the caller's images that use them */
    uint64_t bytes;
} seen;

struct dop_images {
    dop_model *model;
    dop_image_processor processor;
    uint64_t max_pixels, keep_bytes;
    uint32_t depth; /* dop_model_features_depth */
    seen *list;     /* owned; most recently used first */
};

struct dop_image {
    atomic_uint owners;
    dop_images *images;
    uint64_t digest[2];
    dop_image_layout layout;
    float *values; /* owned: preprocessed pixels; NULL after dop_image_see */
    seen *seen;    /* cached features; NULL: not computed yet */
    bool kept;     /* the features were in the cache already */
};

dop_status
dop_images_open(dop_model *model, const dop_images_options *options, dop_diag *diag, dop_images **out_images)
{
    const dop_images_options o = options ? *options : (dop_images_options){0};
    const dop_plan *plan = &model->plan;
    *out_images = NULL;
    dop_diag_clear(diag);
    const uint32_t depth = dop_model_features_depth(model);
    if (depth == 0 || !dop_plan_program_of(plan, DOP_SCHED_IMAGE) || plan->images_size == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, plan->path, "the model takes no pictures");
    dop_images *x = calloc(1, sizeof *x);
    if (!x)
        return DOP_NO_MEMORY(diag);
    *x = (dop_images){.model = model,
                      .max_pixels = o.max_pixels,
                      .keep_bytes = o.keep_bytes ? o.keep_bytes : (uint64_t)KEEP_BYTES,
                      .depth = depth};
    dop_status st = dop_image_processor_read(plan->images, (size_t)plan->images_size, diag, &x->processor);
    dop_program_facts facts;
    dop_image_facts(model, &facts);
    if (st == DOP_OK)
        dop_image_processor_limit(&x->processor, facts.max_rows);
    if (st == DOP_OK && (!x->processor.image[0] || x->processor.form == DOP_IMAGE_PATCHES))
        st = DOP_FAIL_IN(diag, DOP_E_INPUT, plan->path, "the plan does not say which tokens stand for pictures");
    if (st == DOP_OK)
        *out_images = x;
    else
        free(x);
    return st;
}

static void
drop_seen_image(dop_images *x, seen **at)
{
    seen *s = *at;
    *at = s->next;
    dop_features_drop(x->model, s->first);
    free(s);
}

void
dop_images_close(dop_images *images)
{
    while (images && images->list)
        drop_seen_image(images, &images->list);
    free(images);
}

const dop_image_processor *
dop_images_processor(const dop_images *images)
{
    return &images->processor;
}

uint32_t
dop_image_features(const dop_image *image)
{
    return image->layout.features;
}

const float *
dop_image_rows_of(const dop_image *image, uint32_t *out_width)
{
    const dop_features *f = image->seen ? image->images->model->pictures.list : NULL;
    while (f && f->first != image->seen->first)
        f = f->next;
    *out_width = image->images->model->plan.model->hidden;
    return f ? f->rows : NULL;
}

bool
dop_image_was_kept(const dop_image *image)
{
    return image->kept;
}

uint64_t
dop_image_bytes(const dop_image *image)
{
    return ((uint64_t)image->layout.rows + image->layout.padding) * image->layout.row_values * sizeof(float);
}

const uint64_t *
dop_image_digest(const dop_image *image)
{
    return image->digest;
}

/* --- preprocessing
 * ----------------------------------------------------------------------------------------------------- */

dop_status
dop_image_read_within(const dop_images *images, const void *bytes, size_t n, bool animated, dop_budget *budget,
                      dop_diag *diag, dop_image **out_image)
{
    dop_picture picture = {0};
    dop_diag_clear(diag);
    *out_image = NULL;
    dop_image *x = calloc(1, sizeof *x);
    if (!x)
        return DOP_NO_MEMORY(diag);
    const XXH128_hash_t h = XXH3_128bits(bytes, n);
    x->images = (dop_images *)(uintptr_t)images;
    x->digest[0] = h.low64;
    x->digest[1] = h.high64;
    atomic_init(&x->owners, 1);
    dop_status st = !animated && dop_picture_is_animated(bytes, n)
                        ? DOP_FAIL(diag, DOP_E_INPUT, "the picture is animated: send one of its frames")
                        : dop_picture_decode(bytes, n, images->max_pixels, budget, diag, &picture);
    if (st == DOP_OK)
        st = dop_image_lay_out(&images->processor, picture.width, picture.height, diag, &x->layout);
    if (st == DOP_OK)
        st = dop_image_values(&images->processor, &x->layout, &picture, DOP_PIXELS_ROWS, budget, diag, &x->values);
    dop_picture_discard(&picture, budget);
    if (st == DOP_OK)
        *out_image = x;
    else
        dop_image_close(x);
    return st;
}

dop_status
dop_image_read(const dop_images *images, const void *bytes, size_t n, bool animated, dop_diag *diag,
               dop_image **out_image)
{
    return dop_image_read_within(images, bytes, n, animated, NULL, diag, out_image);
}

dop_image *
dop_image_share(dop_image *image)
{
    atomic_fetch_add(&image->owners, 1);
    return image;
}

void
dop_image_close(dop_image *image)
{
    if (!image || atomic_fetch_sub(&image->owners, 1) > 1)
        return;
    if (image->seen) /* after this the model's thread may free it */
        atomic_fetch_sub(&image->seen->refs, 1);
    free(image->values);
    free(image);
}

/* --- vision encoder
 * ---------------------------------------------------------------------------------------------------- */

/* Inputs of the program `image`. */
typedef struct inputs {
    dop_value values[DOP_PART_MAX_VALUES + 1];
    bool borrowed[DOP_PART_MAX_VALUES + 1]; /* the image owns the data; otherwise owned here */
    size_t n;
} inputs;

static void *
add_image_input(inputs *in, const char *name, size_t n)
{
    uint32_t *data = calloc(n, sizeof *data);
    in->values[in->n++] = (dop_value){name, data, n};
    return data;
}

/* Writes one input value of a tile's row; row NULL: the class row, which is no patch. */
static void
fill_image_row(const dop_image_tile *x, const char *name, const dop_image_row *row, uint32_t n_places, uint32_t *data,
               size_t at)
{
    const uint32_t n = x->grid_width * x->grid_height, patch = row ? row->patch : n, place_y = patch / x->grid_width,
                   place_x = patch % x->grid_width;
    float shares[4];
    uint32_t corners[4] = {0};
    if (strcmp(name, "places") == 0)
        data[at] = patch;
    else if (strcmp(name, "axes") == 0)
        memcpy(data + 2 * at, (const uint32_t[]){place_x, n_places / 2 + place_y}, 2 * sizeof *data);
    else if (strcmp(name, "turns") == 0)
        data[at] = row ? place_y * DOP_STEP_EDGE + place_x : 0;
    else if (strcmp(name, "in_window") == 0)
        data[at] = row ? row->in_window : 0;
    else if (strcmp(name, "window_lasts") == 0)
        data[at] = row ? row->window_last : 0;
    const uint32_t edge = (uint32_t)lround(sqrt(n_places));
    if (strcmp(name, "resampling") == 0)
        dop_image_resampling(edge, place_y, place_x, x->grid_height, x->grid_width,
                             (float *)(void *)(data + (size_t)edge * edge * at));
    if (strcmp(name, "corners") != 0 && strcmp(name, "shares") != 0)
        return;
    dop_image_corners(edge, place_y, place_x, x->grid_height, x->grid_width, corners, shares);
    memcpy(data + 4 * at, name[0] == 'c' ? (const void *)corners : (const void *)shares, sizeof corners);
}

/* Adds one input by name, for all tiles in sequence. */
static bool
fill_image_input(const dop_image *x, const char *name, size_t row_values, const dop_image_row *rows, inputs *in)
{
    const dop_plan_program *image = dop_plan_program_of(&x->images->model->plan, DOP_SCHED_IMAGE);
    if (strcmp(name, "patches") == 0 && image->class_row == 0) { /* use the preprocessed pixels without a copy */
        in->borrowed[in->n] = true;
        in->values[in->n++] = (dop_value){name, x->values, x->layout.rows * row_values};
        return true;
    }
    uint32_t *data =
        add_image_input(in, name, ((size_t)x->layout.rows + x->layout.n_tiles * image->class_row) * row_values);
    if (!data)
        return false;
    for (uint32_t i = 0; i < x->layout.n_tiles; i++) {
        const dop_image_tile t = dop_image_tile_of(&x->images->processor, &x->layout, i);
        const size_t n = (size_t)t.grid_width * t.grid_height, first = t.first_row + (size_t)i * image->class_row;
        if (strcmp(name, "patches") == 0) {
            memcpy(data + first * row_values, x->values + t.first_row * row_values, n * row_values * sizeof *data);
            continue;
        }
        for (size_t k = 0; k < n + image->class_row; k++)
            fill_image_row(&t, name, k < n ? &rows[t.first_row + k] : NULL, image->n_places, data, first + k);
    }
    return true;
}

static bool
make_inputs(const dop_image *x, const dop_image_row *rows, inputs *in)
{
    const dop_plan *plan = &x->images->model->plan;
    const dop_plan_program *image = dop_plan_program_of(plan, DOP_SCHED_IMAGE);
    uint32_t n, *lengths = add_image_input(in, "lengths", x->layout.n_tiles);
    const uint32_t *of = dop_used_of(&x->images->model->used, DOP_SCHED_IMAGE, DOP_ORDER_BARRIERS, &n);
    bool ok = lengths != NULL;
    for (uint32_t i = 0; i < x->layout.n_tiles && ok; i++) {
        const dop_image_tile t = dop_image_tile_of(&x->images->processor, &x->layout, i);
        lengths[i] = t.grid_width * t.grid_height + image->class_row;
    }
    for (uint32_t i = 0; i < plan->n_crossings && ok && n > 0 && in->n < DOP_PART_MAX_VALUES; i++) {
        const dop_plan_crossing *c = &plan->crossings[i];
        if (c->schedule == of[0] && c->way == DOP_CROSSING_RECEIVED)
            ok = fill_image_input(x, dop_plan_string(plan, c->name), (size_t)(c->row_bytes / sizeof(float)), rows, in);
    }
    return ok;
}

/* Copies features from row order to reading order. */
static void
put_in_order(const dop_image *x, const dop_image_row *rows, uint32_t width, const float *from, float *out)
{
    const uint32_t merge = x->images->processor.merge, parts = merge * merge;
    for (uint32_t i = 0; i < x->layout.n_tiles; i++) {
        const dop_image_tile t = dop_image_tile_of(&x->images->processor, &x->layout, i);
        const size_t first = t.first_row / parts;
        for (uint32_t k = 0; k < t.grid_width * t.grid_height / parts; k++) {
            const uint32_t patch = rows[t.first_row + (size_t)k * parts].patch, y = patch / t.grid_width / merge,
                           place = patch % t.grid_width / merge;
            memcpy(out + (first + y * (t.grid_width / merge) + place) * width, from + (first + k) * width,
                   width * sizeof *out);
        }
    }
}

/* Runs the program `image`. out_rows: f32 [depth][features][width], in row order. */
static dop_status
run_image_program(const dop_image *x, const dop_image_row *rows, uint32_t width, float *out_rows, dop_diag *diag)
{
    inputs in = {.n = 0};
    char names[DOP_PART_MAX_VALUES][24] = {"features"};
    dop_value outs[DOP_PART_MAX_VALUES];
    const size_t n = (size_t)x->layout.features * width;
    for (uint32_t k = 0; k < x->images->depth; k++) {
        if (k > 0)
            snprintf(names[k], sizeof names[k], "deep%u", k - 1);
        outs[k] = (dop_value){names[k], out_rows + k * n, n};
    }
    dop_status st = DOP_OK;
    if (!(make_inputs(x, rows, &in)))
        DOP_TRY(DOP_NO_MEMORY(diag));
    DOP_TRY(dop_program_run(x->images->model, "image", in.values, in.n, outs, x->images->depth, diag));
error:
    for (size_t i = 0; i < in.n; i++)
        if (!in.borrowed[i])
            free(in.values[i].data);
    return st;
}

/* Replaces features in row order by features in reading order. */
static dop_status
sort_image_features(const dop_image *x, const dop_image_row *rows, uint32_t width, float **io_rows, dop_diag *diag)
{
    const size_t n = (size_t)x->layout.features * width;
    float *sorted = malloc(x->images->depth * n * sizeof *sorted);
    if (!sorted)
        return DOP_NO_MEMORY(diag);
    for (uint32_t k = 0; k < x->images->depth; k++)
        put_in_order(x, rows, width, *io_rows + k * n, sorted + k * n);
    free(*io_rows);
    *io_rows = sorted;
    return DOP_OK;
}

/* Frees unused features, least recently used first, until the rest fits in keep_bytes. */
static void
evict_image_features(dop_images *x)
{
    for (;;) {
        uint64_t bytes = 0;
        seen **last = NULL;
        for (seen **at = &x->list; *at; at = &(*at)->next) {
            const bool free_now = atomic_load(&(*at)->refs) == 0;
            bytes += free_now ? (*at)->bytes : 0;
            last = free_now ? at : last;
        }
        if (!last || bytes <= x->keep_bytes)
            return;
        drop_seen_image(x, last);
    }
}

/* Finds the cached features of the image's file, and marks them as most recently used. */
static seen *
find_seen_image(dop_images *x, const dop_image *image)
{
    for (seen **at = &x->list; *at; at = &(*at)->next) {
        seen *s = *at;
        if (memcmp(s->digest, image->digest, sizeof s->digest) != 0)
            continue;
        *at = s->next;
        s->next = x->list;
        x->list = s;
        return s;
    }
    return NULL;
}

static dop_status
make_image_features(dop_image *image, dop_diag *diag)
{
    dop_images *x = image->images;
    const uint32_t width = x->model->plan.model->hidden, merge = x->processor.merge;
    const bool one = image->layout.n_tiles == 1 && x->processor.more_features == 0;
    const size_t bytes = (size_t)x->depth * image->layout.features * width * sizeof(float);
    dop_image_row *rows = NULL;
    float *made = malloc(bytes);
    seen *s = calloc(1, sizeof *s);
    dop_status st = DOP_OK;
    DOP_TRY(made && s ? dop_image_rows(&x->processor, &image->layout, diag, &rows) : DOP_NO_MEMORY(diag));
    DOP_TRY(run_image_program(image, rows, width, made, diag));
    if (x->processor.window > 0)
        /* otherwise rows are in reading order already */
        DOP_TRY(sort_image_features(image, rows, width, &made, diag));
    DOP_TRY(dop_features_take(x->model, &made, image->layout.features, one ? image->layout.grid_height / merge : 0,
                              one ? image->layout.grid_width / merge : 0, diag, &s->first));
    memcpy(s->digest, image->digest, sizeof s->digest);
    s->n = image->layout.features;
    s->bytes = bytes;
    s->next = x->list;
    x->list = image->seen = s;
    s = NULL;
error:
    free(s);
    free(rows);
    free(made);
    return st;
}

dop_status
dop_image_see(dop_image *image, dop_diag *diag)
{
    dop_diag_clear(diag);
    if (image->seen)
        return DOP_OK;
    dop_status st = DOP_OK;
    image->seen = find_seen_image(image->images, image);
    image->kept = image->seen != NULL;
    if (!image->seen)
        st = make_image_features(image, diag);
    if (st != DOP_OK)
        return st;
    atomic_fetch_add(&image->seen->refs, 1);
    free(image->values);
    image->values = NULL;
    evict_image_features(image->images);
    return DOP_OK;
}

/* --- prompts --------------------------------------------------------------------------------------------------------- */

static dop_status
put_marks(const dop_image *x, dop_buf *out, dop_diag *diag)
{
    dop_image_mark *marks = NULL;
    uint32_t n = 0;
    dop_status st = DOP_OK;
    DOP_TRY(dop_image_marks(&x->images->processor, &x->layout, diag, &marks, &n));
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < marks[i].n; k++)
            dop_buf_puts(out, marks[i].text);
error:
    free(marks);
    return st;
}

/* Returns the position of the next placeholder in text[at .. n); n if there is none. */
static size_t
next_mark(const char *text, size_t n, size_t at, const char *mark, size_t n_mark)
{
    for (; at + n_mark <= n; at++) {
        const char *found = memchr(text + at, mark[0], n - at - n_mark + 1);
        if (!found)
            return n;
        at = (size_t)(found - text);
        if (memcmp(found, mark, n_mark) == 0)
            return at;
    }
    return n;
}

static size_t
count_marks(const dop_images *images, const char *text, size_t n)
{
    const char *mark = images->processor.placeholder;
    const size_t n_mark = strlen(mark);
    size_t count = 0;
    for (size_t at = 0; (at = next_mark(text, n, at, mark, n_mark)) < n; at += n_mark)
        count++;
    return count;
}

/* Passes the bytes to the caller, or frees them on failure. */
static dop_status
give_image_text(dop_buf *text, dop_status st, dop_diag *diag, char **out_text, size_t *out_n)
{
    dop_buf_append(text, "", 1);
    if (st == DOP_OK && text->failed)
        st = DOP_NO_MEMORY(diag);
    if (st != DOP_OK) {
        dop_buf_finish(text);
        return st;
    }
    *out_text = text->data;
    *out_n = text->size - 1;
    return DOP_OK;
}

dop_status
dop_images_mark(const dop_images *images, const char *text, size_t n, size_t n_images, dop_diag *diag, char **out_text,
                size_t *out_n)
{
    dop_buf out = {0};
    dop_diag_clear(diag);
    *out_text = NULL;
    *out_n = 0;
    for (size_t i = count_marks(images, text, n); i < n_images; i++) {
        dop_buf_puts(&out, images->processor.before);
        dop_buf_puts(&out, images->processor.placeholder);
        dop_buf_puts(&out, images->processor.after);
    }
    dop_buf_append(&out, text, n);
    return give_image_text(&out, DOP_OK, diag, out_text, out_n);
}

dop_status
dop_images_expand(const dop_images *images, const char *text, size_t n, dop_image *const *list, size_t n_list,
                  dop_diag *diag, char **out_text, size_t *out_n)
{
    const dop_image_processor *p = &images->processor;
    const size_t n_mark = strlen(p->placeholder);
    dop_buf out = {0};
    dop_status st = DOP_OK;
    dop_diag_clear(diag);
    *out_text = NULL;
    *out_n = 0;
    const size_t count = count_marks(images, text, n);
    size_t used = 0;
    if (count != n_list)
        return DOP_FAIL(diag, DOP_E_INPUT, "the text has %zu marks of pictures (%s), and there are %zu pictures", count,
                        p->placeholder, n_list);
    for (size_t from = 0; st == DOP_OK;) {
        const size_t at = next_mark(text, n, from, p->placeholder, n_mark);
        dop_buf_append(&out, text + from, at - from);
        if (at == n)
            break;
        st = put_marks(list[used++], &out, diag);
        from = at + n_mark;
    }
    return give_image_text(&out, st, diag, out_text, out_n);
}

bool
dop_images_fit(const dop_images *images, const uint32_t *ids, size_t n, dop_image *const *list, size_t n_list)
{
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        left += ids[i] == images->processor.image_id;
    for (size_t i = 0; i < n_list; i++)
        left -= list[i]->layout.features;
    return left == 0;
}

dop_status
dop_images_place(const dop_images *images, uint32_t *ids, size_t n, dop_image *const *list, size_t n_list,
                 dop_diag *diag)
{
    size_t places = 0, features = 0, at = 0;
    dop_diag_clear(diag);
    for (size_t i = 0; i < n; i++)
        places += ids[i] == images->processor.image_id;
    for (size_t i = 0; i < n_list; i++) {
        features += list[i]->layout.features;
        if (!list[i]->seen)
            return DOP_FAIL(diag, DOP_E_USAGE, "picture %zu was not seen", i + 1);
    }
    if (places != features)
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "the prompt has %zu tokens of pictures (id %u), and the pictures have %zu rows", places,
                        images->processor.image_id, features);
    for (size_t i = 0; i < n_list; i++)
        for (uint32_t k = 0; k < list[i]->layout.features; at++)
            if (ids[at] == images->processor.image_id)
                ids[at] = list[i]->seen->first + k++;
    return DOP_OK;
}
