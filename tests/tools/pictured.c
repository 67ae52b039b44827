/* Does a plan make the features of a picture that the golden data have?
 *
 *   pictured PLAN MODEL BOUND    (MODEL: a folder with config.json, preprocessor_config.json, image.png and features.f32)
 *
 * BOUND is in standard deviations of the features.  A step of the picture twice has to give each what it gives alone. */
#include <doppler/doppler.h>

#include "frontend/build/build_vision.h"
#include "frontend/hf/image.h"
#include "frontend/hf/vision.h"
#include "media/picture/picture.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COPIES = 2, MOST_INPUTS = 8 };

/* What the program is given, by name. */
typedef struct inputs {
    dop_value values[MOST_INPUTS];
    size_t n;
    uint32_t rows; /* of one picture */
} inputs;

typedef struct picture {
    dop_vision v;
    dop_image_processor p;
    dop_image_layout x;
    dop_image_row *rows;
    float *values;
} picture;

static void
must(dop_status st, const dop_diag *diag)
{
    if (st == DOP_OK)
        return;
    fprintf(stderr, "%s\n", diag->message);
    exit(1);
}

static const char *
path_of(const char *dir, const char *name)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void
prepare(const char *dir, dop_arena *arena, picture *out)
{
    dop_diag diag = {0};
    json_t *root = NULL;
    dop_json config;
    dop_st_set set;
    dop_map *maps, png = {0};
    uint32_t n_maps;
    bool present = false;
    dop_vision_model m = {0};
    dop_picture image = {0};
    must(dop_json_decode_file(&(dop_json_how){.path = path_of(dir, "config.json")}, &diag, &root), &diag);
    must(dop_json_root(root, "config.json", &diag, &config), &diag);
    must(dop_st_open_dir(dir, arena, &diag, &set, &maps, &n_maps), &diag);
    must(dop_hf_vision(&config, &set, arena, &diag, &present, &m), &diag);
    must(dop_hf_image_processor(dir, &config, &diag, &present, &out->p), &diag);
    must(dop_map_open(path_of(dir, "image.png"), &diag, &png), &diag);
    must(dop_picture_decode(png.data, png.size, 0, NULL, &diag, &image), &diag);
    must(dop_image_lay_out(&out->p, image.width, image.height, &diag, &out->x), &diag);
    must(dop_image_rows(&out->p, &out->x, &diag, &out->rows), &diag);
    must(dop_image_values(&out->p, &out->x, &image, DOP_PIXELS_ROWS, NULL, &diag, &out->values), &diag);
    out->v = m.facts;
    dop_picture_finish(&image);
    dop_map_close(&png);
    for (uint32_t i = 0; i < n_maps; i++)
        dop_map_close(&maps[i]);
    free(maps);
    json_decref(root);
}

/* COPIES times `cols` words of each row. */
static uint32_t *
add(inputs *in, const char *name, uint32_t cols)
{
    const size_t n = (size_t)COPIES * in->rows * cols;
    uint32_t *data = calloc(n, sizeof *data);
    if (!data || in->n == MOST_INPUTS)
        exit(2);
    in->values[in->n++] = (dop_value){name, data, n / COPIES};
    return data;
}

static void
make_inputs(const picture *p, inputs *in)
{
    const dop_vision *v = &p->v;
    bool windows = false;
    for (uint32_t i = 0; i < v->n_layers; i++)
        windows = windows || v->windowed[i];
    in->rows = p->x.rows + v->class_token;
    uint32_t *patches = add(in, "patches", v->row_values), *lengths = add(in, "lengths", 1);
    uint32_t *places = v->places == DOP_PLACES_TABLE ? add(in, "places", 1) : NULL;
    uint32_t *corners = v->places == DOP_PLACES_CORNERS ? add(in, "corners", 4) : NULL;
    float *mix = v->places == DOP_PLACES_RESAMPLED ? (float *)(void *)add(in, "resampling", v->n_places) : NULL;
    uint32_t *axes = v->places == DOP_PLACES_AXES ? add(in, "axes", 2) : NULL;
    float *shares = corners ? (float *)(void *)add(in, "shares", 4) : NULL;
    uint32_t *turns = v->rope_theta > 0 ? add(in, "turns", 1) : NULL;
    uint32_t *in_window = windows ? add(in, "in_window", 1) : NULL,
             *window_lasts = windows ? add(in, "window_lasts", 1) : NULL;
    in->values[1].n = 1;
    for (uint32_t c = 0; c < COPIES; c++) {
        const size_t first = (size_t)c * in->rows;
        lengths[c] = in->rows;
        memcpy(patches + first * v->row_values, p->values, (size_t)p->x.rows * v->row_values * sizeof *p->values);
        for (uint32_t i = 0; i < in->rows; i++) {
            const uint32_t patch = i < p->x.rows ? p->rows[i].patch : p->x.rows;
            const uint32_t y = patch / p->x.grid_width, x = patch % p->x.grid_width;
            if (places)
                places[first + i] = patch;
            if (mix)
                dop_image_resampling((uint32_t)lround(sqrt(v->n_places)), y, x, p->x.grid_height, p->x.grid_width,
                                     mix + (first + i) * v->n_places);
            if (corners)
                dop_image_corners((uint32_t)lround(sqrt(v->n_places)), y, x, p->x.grid_height, p->x.grid_width,
                                  corners + (first + i) * 4, shares + (first + i) * 4);
            if (axes) {
                axes[2 * (first + i)] = x;
                axes[2 * (first + i) + 1] = v->n_places / 2 + y;
            }
            if (turns)
                turns[first + i] = y * DOP_STEP_EDGE + x;
            if (windows) {
                in_window[first + i] = p->rows[i].in_window;
                window_lasts[first + i] = p->rows[i].window_last;
            }
        }
    }
}

static double
apart(const picture *p, const float *got, const float *want, uint32_t n, uint32_t width)
{
    const uint32_t m = p->v.merge, grid = p->x.grid_width / m;
    double squares = 0, worst = 0;
    for (size_t i = 0; i < (size_t)n * width; i++)
        squares += (double)want[i] * (double)want[i];
    for (uint32_t i = 0; i < n; i++) { /* in the order of rows; published ones are in reading order */
        const uint32_t patch = p->rows[(size_t)i * m * m].patch, y = patch / p->x.grid_width / m,
                       x = patch % p->x.grid_width / m;
        for (uint32_t k = 0; k < width; k++) {
            const double d =
                fabs((double)got[(size_t)i * width + k] - (double)want[((size_t)y * grid + x) * width + k]);
            worst = isfinite(d) ? fmax(worst, d) : (double)INFINITY;
        }
    }
    return worst / sqrt(squares / ((double)n * width));
}

/* Calls that have to be refused; `in` stays as it is. */
static int
refusals(dop_model *model, inputs *in)
{
    dop_diag diag = {0};
    int bad = 0;
    for (size_t i = 0; i < in->n; i++) {
        const dop_value was = in->values[i];
        const bool numbers = i > 1 && strcmp(was.name, "shares") != 0 && strcmp(was.name, "resampling") != 0;
        uint32_t *first = was.data, kept = *first;
        in->values[i].n--;
        bad += dop_program_run(model, "image", in->values, in->n, NULL, 0, &diag) != DOP_E_INPUT;
        in->values[i] = was;
        in->values[i].name = "other";
        bad += dop_program_run(model, "image", in->values, in->n, NULL, 0, &diag) != DOP_E_INPUT;
        in->values[i] = was;
        *first = numbers ? UINT32_MAX : kept;
        bad += numbers && dop_program_run(model, "image", in->values, in->n, NULL, 0, &diag) != DOP_E_INPUT;
        *first = kept;
    }
    if (bad)
        printf("%d inputs that do not fit were accepted\n", bad);
    return bad;
}

int
main(int argc, char **argv)
{
    dop_diag diag = {0};
    dop_model *model;
    dop_program_facts facts;
    dop_arena arena;
    picture p = {0};
    inputs in = {0};
    dop_map golden = {0};
    if (argc != 4)
        return 2;
    dop_arena_init(&arena);
    prepare(argv[2], &arena, &p);
    make_inputs(&p, &in);
    must(dop_map_open(path_of(argv[2], "features.f32"), &diag, &golden), &diag);
    must(dop_model_open(argv[1], NULL, &diag, &model), &diag);
    if (!dop_model_program(model, 0, &facts) || strcmp(facts.name, "image") != 0)
        return 2;
    const uint32_t n = p.x.rows / facts.merge;
    const size_t size = (size_t)n * facts.width;
    if (golden.size != size * sizeof(float) || facts.class_row != p.v.class_token)
        return 2;
    float *got = calloc(COPIES * size, sizeof *got);
    if (!got)
        return 2;
    dop_value out = {"features", got, size};
    must(dop_program_run(model, "image", in.values, in.n, &out, 1, &diag), &diag);
    const double bound = strtod(argv[3], NULL),
                 worst = apart(&p, got, (const float *)(const void *)golden.data, n, facts.width);
    printf("features: worst %.3g of the standard deviation, at most %.3g\n", worst, bound);
    int bad = !(worst <= bound);
    for (size_t i = 0; i < in.n; i++)
        in.values[i].n *= COPIES;
    out.n = COPIES * size;
    must(dop_program_run(model, "image", in.values, in.n, &out, 1, &diag), &diag);
    double most = 0;
    for (size_t i = 0; i < size; i++)
        most = fmax(most, fabs((double)got[i] - (double)got[size + i]));
    printf("the same picture twice: %.3g apart\n", most);
    bad +=
        !(most <= 1e-5) || !(apart(&p, got + size, (const float *)(const void *)golden.data, n, facts.width) <= bound);
    bad += refusals(model, &in);
    free(got);
    free(p.rows);
    free(p.values);
    for (size_t i = 0; i < in.n; i++)
        free(in.values[i].data);
    dop_map_close(&golden);
    dop_arena_finish(&arena);
    dop_model_close(model);
    return bad ? 1 : 0;
}
