/* Preprocessing of pictures: the values, grids and numbers of tokens of published processors (tests/vision), sizes of every form,
 * the text that stands for a picture, and what is refused. */
#include "frontend/hf/image.h"

#include "tests/unit/import_util.h"
#include "tests/unit/picture_util.h"

#define VISION DOP_SOURCE_DIR "/tests/vision"

static const char *const models[] = {"gemma3_vl", "internvl",   "llava",    "mistral3",     "qwen2_5_vl",
                                     "qwen2_vl",  "qwen3_5_vl", "qwen3_vl", "qwen3_vl_moe", "smolvlm"};

/* A file of a model. */
static json_t *
read_json(const char *dir, const char *file)
{
    char path[600];
    dop_diag diag = {0};
    json_t *root = NULL;
    snprintf(path, sizeof path, "%s/%s", dir, file);
    cr_assert_eq(dop_json_decode_file(&(dop_json_how){.path = path}, &diag, &root), DOP_OK, "%s", diag.message);
    return root;
}

static dop_status
read_processor(const char *dir, dop_diag *diag, dop_image_processor *p)
{
    json_t *root = read_json(dir, "config.json");
    dop_json config;
    bool present = false;
    cr_assert_eq(dop_json_root(root, "config.json", diag, &config), DOP_OK);
    const dop_status st = dop_hf_image_processor(dir, &config, diag, &present, p);
    cr_assert_eq(present, st == DOP_OK);
    json_decref(root);
    return st;
}

static uint64_t
elements(const json_t *shape)
{
    uint64_t n = 1;
    for (size_t i = 0; i < json_array_size(shape); i++)
        n *= (uint64_t)json_integer_value(json_array_get(shape, i));
    return n;
}

/* Values of the picture in an order; *out_n of them, to be freed. */
static float *
values_of(const dop_image_processor *p, const dop_picture *picture, dop_pixel_order order, dop_image_layout *x)
{
    dop_diag diag = {0};
    dop_budget budget = {.steps = 1 << 24, .bytes = 1 << 24};
    float *v = NULL;
    cr_assert_eq(dop_image_lay_out(p, picture->width, picture->height, &diag, x), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_image_values(p, x, picture, order, &budget, &diag, &v), DOP_OK, "%s", diag.message);
    return v;
}

/* The same bits as pixels.f32 of ../shared/golden/vision, of which this is the FNV-1a; the file itself where it is there. */
Test(image_processor, equals_published)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char dir[512], path[600];
        dop_diag diag = {0};
        dop_image_processor p;
        dop_image_layout x;
        snprintf(dir, sizeof dir, "%s/%s", VISION, models[i]);
        cr_assert_eq(read_processor(dir, &diag, &p), DOP_OK, "%s: %s", models[i], diag.message);
        json_t *expected = read_json(dir, "expected.json");
        snprintf(path, sizeof path, "%s/image.png", dir);
        dop_picture picture = picture_read(path, NULL);
        float *v = values_of(&p, &picture, DOP_PIXELS_PUBLISHED, &x);
        const uint64_t n = elements(json_object_get(expected, "pixels_shape"));
        const json_t *grid = json_array_get(json_object_get(json_object_get(expected, "inputs"), "image_grid_thw"), 0);
        cr_assert_eq((uint64_t)x.rows * x.row_values, n * (p.form == DOP_IMAGE_PIXELS ? 1 : p.frames), "%s: %u x %u",
                     models[i], x.rows, x.row_values);
        cr_assert_eq(x.features, json_integer_value(json_object_get(expected, "image_tokens")), "%s: %u", models[i],
                     x.features);
        if (grid) {
            cr_assert_eq(x.grid_height, json_integer_value(json_array_get(grid, 1)));
            cr_assert_eq(x.grid_width, json_integer_value(json_array_get(grid, 2)));
        }
        const json_t *hash = json_object_get(expected, "pixels_fnv1a");
        char text[32];
        snprintf(text, sizeof text, "%016llx", (unsigned long long)bytes_hash(v, n * sizeof *v));
        cr_expect_str_eq(text, json_string_value(hash), "%s", models[i]);
        snprintf(path, sizeof path, "%s/golden/vision/%s/pixels.f32", DOP_SHARED_DIR, models[i]);
        if (access(path, R_OK) == 0) {
            dop_map map;
            cr_assert_eq(dop_map_open(path, &diag, &map), DOP_OK);
            cr_expect(map.size == n * sizeof *v && memcmp(map.data, v, map.size) == 0, "%s: other values", models[i]);
            dop_map_close(&map);
        }
        free(v);
        dop_picture_finish(&picture);
        json_decref(expected);
    }
}

/* Rows of patches are the planes of the published order, cut, also those that several threads write. */
Test(image_processor, rows_are_planes_cut)
{
    static const uint32_t sizes[][2] = {{12, 8}, {80, 68}};
    dop_picture picture = picture_read("rgb.png", NULL);
    dop_image_processor p = {.form = DOP_IMAGE_EXACT,
                             .filter = DOP_FILTER_BICUBIC,
                             .resize = true,
                             .rescale = true,
                             .factor = 1.0 / 255,
                             .patch = 4,
                             .merge = 1,
                             .frames = 1};
    for (size_t i = 0; i < 2; i++) {
        const uint32_t w = p.width = sizes[i][0], h = p.height = sizes[i][1];
        dop_image_layout x;
        float *planes = values_of(&p, &picture, DOP_PIXELS_PUBLISHED, &x),
              *rows = values_of(&p, &picture, DOP_PIXELS_ROWS, &x);
        cr_assert(x.rows == w * h / 16 && x.row_values == 48 && x.features == x.rows);
        for (uint32_t c = 0; c < 3; c++)
            for (uint32_t py = 0; py < h; py++)
                for (uint32_t px = 0; px < w; px++)
                    cr_assert_eq(rows[(py / 4 * (w / 4) + px / 4) * 48 + (c * 4 + py % 4) * 4 + px % 4],
                                 planes[(c * h + py) * w + px]);
        free(planes);
        free(rows);
    }
    dop_picture_finish(&picture);
}

/* Resized up and down: the bits of Pillow, and those of torchvision's arithmetic. */
Test(image_processor, resizes_as_others_do)
{
    static const struct {
        uint32_t w, h;
        dop_filter filter;
        dop_fixed_point point;
        uint64_t hash;
    } cases[] = {
#include "tests/pictures/resized.inc"
    };
    dop_picture picture = picture_read("rgb.png", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dop_diag diag = {0};
        dop_picture p;
        cr_assert_eq(
            dop_picture_resize(&picture, cases[i].w, cases[i].h, cases[i].filter, cases[i].point, NULL, &diag, &p),
            DOP_OK);
        cr_expect_eq(bytes_hash(p.rgb, (size_t)p.width * p.height * 3), cases[i].hash, "case %zu: %016llx", i,
                     (unsigned long long)bytes_hash(p.rgb, (size_t)p.width * p.height * 3));
        dop_picture_finish(&p);
    }
    dop_picture_finish(&picture);
}

/* Sizes of published models, by the formulas in sizes.py. */
Test(image_processor, sizes)
{
    enum { qwen, pixtral, idefics, internvl, siglip2, clip, gemma3, gemma4, lfm2 };
    const dop_image_processor base = {
        .filter = DOP_FILTER_BICUBIC, .resize = true, .split = true, .patch = 14, .merge = 1, .frames = 1};
    dop_image_processor forms[9] = {base, base, base, base, base, base, base, base, base};
    forms[qwen].form = DOP_IMAGE_PIXELS;
    forms[qwen].merge = forms[qwen].frames = 2;
    forms[qwen].min_pixels = 56 * 56;
    forms[qwen].max_pixels = 28 * 28 * 1280;
    forms[pixtral].form = DOP_IMAGE_LONGEST;
    forms[pixtral].merge = 2;
    forms[pixtral].longest = 1024;
    forms[idefics].form = DOP_IMAGE_TILES;
    forms[idefics].longest = 1456;
    forms[idefics].tile = 364;
    forms[idefics].merge = 2;
    forms[internvl].form = DOP_IMAGE_CANVAS;
    forms[internvl].width = forms[internvl].height = 448;
    forms[internvl].merge = 2;
    forms[internvl].min_tiles = 1;
    forms[internvl].max_tiles = 12;
    forms[siglip2].form = DOP_IMAGE_PATCHES;
    forms[siglip2].patch = 16;
    forms[siglip2].max_patches = 256;
    forms[clip].form = DOP_IMAGE_EDGE;
    forms[clip].shortest = 224;
    forms[clip].crop = true;
    forms[clip].crop_width = forms[clip].crop_height = 224;
    forms[gemma3].form = DOP_IMAGE_PAN;
    forms[gemma3].width = forms[gemma3].height = 896;
    forms[gemma3].merge = 4;
    forms[gemma3].max_tiles = 4;
    forms[gemma3].pan_edge = 256;
    forms[gemma3].pan_ratio = 1.2;
    forms[lfm2].form = DOP_IMAGE_PIXELS;
    forms[lfm2].patch = 16;
    forms[lfm2].merge = 2;
    forms[lfm2].min_pixels = 64 * 32 * 32;
    forms[lfm2].max_pixels = 256 * 32 * 32;
    forms[lfm2].tile = 512;
    forms[lfm2].min_tiles = 2;
    forms[lfm2].max_tiles = 10;
    forms[lfm2].pan_ratio = 2;
    forms[gemma4].form = DOP_IMAGE_BUDGET;
    forms[gemma4].patch = 16;
    forms[gemma4].merge = 3;
    forms[gemma4].max_patches = 2520;
    static const struct {
        int form;
        uint32_t w, h, out_w, out_h, columns, rows, features;
    } cases[] = {
#include "tests/vision/sizes.inc"
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dop_diag diag = {0};
        dop_image_layout x = {0};
        const dop_image_processor *const p = &forms[cases[i].form];
        cr_assert_eq(dop_image_processor_check(p, &diag), DOP_OK, "%s", diag.message);
        cr_assert_eq(dop_image_lay_out(p, cases[i].w, cases[i].h, &diag, &x), DOP_OK, "%s", diag.message);
        cr_expect(x.middle_width == cases[i].out_w && x.middle_height == cases[i].out_h &&
                      x.tile_columns == cases[i].columns && x.tile_rows == cases[i].rows &&
                      x.features == cases[i].features,
                  "form %d, %u x %u: %u x %u, %u x %u tiles, %u features", cases[i].form, cases[i].w, cases[i].h,
                  x.middle_width, x.middle_height, x.tile_columns, x.tile_rows, x.features);
        cr_expect_eq(x.rows + x.padding, cases[i].form == siglip2  ? 256
                                         : cases[i].form == gemma4 ? 2520
                                         : cases[i].form == lfm2   ? x.features * 4
                                                                   : x.n_tiles * x.grid_width * x.grid_height);
    }
}

/* The marks of a picture as text: a token n times is TOKEN*n. */
static void
check_marks(const char *model_type, const dop_image_processor *form, uint32_t w, uint32_t h, const char *want)
{
    scratch s = scratch_make();
    dop_diag diag = {0};
    dop_image_processor p;
    dop_image_layout x;
    dop_image_mark *m = NULL;
    uint32_t n = 0, features = 0;
    dop_buf text = {0};
    char config[128];
    snprintf(config, sizeof config, "{\"model_type\": \"%s\"}", model_type);
    scratch_text(&s, "config.json", config);
    scratch_text(&s, "preprocessor_config.json", "{\"image_processor_type\": \"CLIPImageProcessorFast\"}");
    cr_assert_eq(read_processor(s.dir, &diag, &p), DOP_OK, "%s", diag.message);
    dop_image_processor q = *form;
    q.marks = p.marks;
    memcpy(q.image, p.image, sizeof q.image);
    memcpy(q.begin, p.begin, sizeof q.begin);
    memcpy(q.end, p.end, sizeof q.end);
    memcpy(q.row_end, p.row_end, sizeof q.row_end);
    memcpy(q.whole, p.whole, sizeof q.whole);
    cr_assert_eq(dop_image_lay_out(&q, w, h, &diag, &x), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_image_marks(&q, &x, &diag, &m, &n), DOP_OK);
    for (uint32_t i = 0; i < n; i++) {
        dop_buf_printf(&text, m[i].n == 1 && !m[i].features ? "%s" : "%s*%u", m[i].text, m[i].n);
        features += m[i].features ? m[i].n : 0;
    }
    cr_assert_str_eq(text.data, want, "%s", text.data);
    cr_assert_eq(features, x.features);
    free(m);
    dop_buf_finish(&text);
    scratch_remove(&s);
}

/* No picture has more patches than a step takes, and pictures that have fewer keep their size. */
Test(image_processor, limits)
{
    const dop_image_processor processors[] = {
        {.form = DOP_IMAGE_PIXELS, .patch = 14, .merge = 2, .frames = 2, .min_pixels = 3136, .max_pixels = 12845056},
        {.form = DOP_IMAGE_PIXELS, .patch = 16, .merge = 2, .frames = 2, .min_pixels = 65536, .max_pixels = 16777216},
        {.form = DOP_IMAGE_LONGEST, .patch = 14, .merge = 2, .frames = 1, .longest = 1540},
        {.form = DOP_IMAGE_LONGEST, .patch = 16, .merge = 1, .frames = 1, .longest = 1024},
        {.form = DOP_IMAGE_BUDGET, .patch = 16, .merge = 3, .frames = 1, .max_patches = 1120 * 9},
        {.form = DOP_IMAGE_BUDGET, .patch = 16, .merge = 3, .frames = 1, .max_patches = 70 * 9},
    };
    const uint32_t sizes[][2] = {{4032, 3024}, {12000, 300}, {800, 600}, {1, 1}, {64, 3000}};
    for (size_t i = 0; i < sizeof processors / sizeof *processors; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            dop_image_processor p = processors[i], q = p;
            dop_image_layout before, after;
            p.point = q.point = DOP_FIXED_TORCHVISION;
            p.filter = q.filter = DOP_FILTER_BICUBIC;
            p.resize = q.resize = true;
            dop_image_processor_limit(&q, 4096);
            cr_assert_eq(dop_image_processor_check(&q, NULL), DOP_OK);
            cr_assert_eq(dop_image_lay_out(&p, sizes[k][0], sizes[k][1], NULL, &before), DOP_OK);
            cr_assert_eq(dop_image_lay_out(&q, sizes[k][0], sizes[k][1], NULL, &after), DOP_OK);
            cr_expect_leq(after.rows, 4096);
            if ((k == 2 || k == 3) && p.form != DOP_IMAGE_BUDGET)
                cr_expect(after.width == before.width && after.height == before.height, "%zu %zu", i, k);
        }
}

Test(image_processor, marks)
{
    const dop_image_processor base = {.filter = DOP_FILTER_BICUBIC,
                                      .resize = true,
                                      .patch = 14,
                                      .merge = 1,
                                      .frames = 1,
                                      .width = 56,
                                      .height = 56,
                                      .longest = 56,
                                      .tile = 28,
                                      .split = true};
    dop_image_processor p = base;
    check_marks("llava", &p, 9, 9, "<image>*16");
    check_marks("gemma3", &p, 9, 9, "\n\n<start_of_image><image_soft_token>*16<end_of_image>\n\n");
    check_marks("gemma4", &p, 9, 9, "<|image><|image|>*16<image|>");
    check_marks("internvl", &p, 9, 9, "<img><IMG_CONTEXT>*16</img>");
    p.form = DOP_IMAGE_PIXELS;
    p.tile = 28;
    p.max_pixels = 28 * 28;
    p.min_tiles = 2;
    p.max_tiles = 4;
    p.pan_ratio = 2;
    check_marks("lfm2_vl", &p, 84, 28,
                "<|image_start|><|img_row_1_col_1|><image>*4<|img_row_1_col_2|><image>*4<|img_row_1_col_3|><image>*4"
                "<|img_thumbnail|><image>*3<|image_end|>");
    check_marks("lfm2_vl", &p, 28, 28, "<|image_start|><image>*4<|image_end|>");
    p.form = DOP_IMAGE_LONGEST;
    check_marks("pixtral", &p, 40, 20, "[IMG]*3[IMG_BREAK][IMG]*3[IMG_END]");
    check_marks("mistral3", &p, 10, 10, "[IMG]*1[IMG_END]");
    p.form = DOP_IMAGE_TILES;
    check_marks("idefics3", &p, 56, 28,
                "<fake_token_around_image><row_1_col_1><image>*4<fake_token_around_image><row_1_col_2><image>*4\n\n"
                "<fake_token_around_image><global-img><image>*4<fake_token_around_image>");
    p.split = false;
    check_marks("smolvlm", &p, 56, 28, "<fake_token_around_image><global-img><image>*4<fake_token_around_image>");
}

/* Tiles in reading order, side by side and one above the other, and the whole picture first or last. */
Test(image_processor, tiles)
{
    static const struct {
        dop_image_form form;
        uint32_t whole;
    } cases[] = {{DOP_IMAGE_CANVAS, 2}, {DOP_IMAGE_PAN, 0}, {DOP_IMAGE_TILES, 2}};
    uint8_t rgb[2][4 * 8 * 3];
    for (uint32_t i = 0; i < 4 * 8; i++) { /* the left or upper half dark, the other one light */
        memset(rgb[0] + 3 * i, i % 8 < 4 ? 10 : 200, 3);
        memset(rgb[1] + 3 * i, i < 16 ? 10 : 200, 3);
    }
    const dop_picture pictures[] = {{8, 4, rgb[0]}, {4, 8, rgb[1]}};
    for (size_t k = 0; k < 6; k++) {
        const size_t i = k / 2;
        const bool tall = k % 2;
        dop_image_processor p = {.form = cases[i].form,
                                 .filter = DOP_FILTER_BILINEAR,
                                 .resize = true,
                                 .split = true,
                                 .patch = 4,
                                 .merge = 1,
                                 .frames = 1,
                                 .width = 4,
                                 .height = 4,
                                 .tile = 4,
                                 .longest = 8,
                                 .min_tiles = 1,
                                 .max_tiles = 2,
                                 .pan_edge = 2,
                                 .pan_ratio = 1.2};
        dop_image_layout x;
        dop_diag diag = {0};
        cr_assert_eq(dop_image_processor_check(&p, &diag), DOP_OK, "%s", diag.message);
        float *v = values_of(&p, &pictures[tall], DOP_PIXELS_ROWS, &x);
        cr_assert(x.n_tiles == 3 && x.tile_columns == (tall ? 1 : 2) && x.tile_rows == (tall ? 2 : 1), "form %d: %u",
                  p.form, x.n_tiles);
        const uint32_t first = cases[i].whole == 0;
        cr_expect(v[first * 48] == 10 && v[first * 48 + 15] == 10 && v[(first + 1) * 48] == 200, "form %d", p.form);
        cr_expect(v[cases[i].whole * 48] < 100 && v[cases[i].whole * 48 + (tall ? 12 : 3)] > 100, "form %d", p.form);
        free(v);
    }
}

/* The middle of a picture, with black where it is smaller. */
Test(image_processor, crops)
{
    uint8_t rgb[3 * 5 * 3];
    for (uint32_t i = 0; i < 15; i++)
        memset(rgb + 3 * i, (int)i + 1, 3);
    const dop_picture picture = {5, 3, rgb};
    const dop_image_processor p = {.form = DOP_IMAGE_EXACT,
                                   .filter = DOP_FILTER_BILINEAR,
                                   .crop = true,
                                   .crop_width = 2,
                                   .crop_height = 6,
                                   .patch = 2,
                                   .merge = 1,
                                   .frames = 1};
    static const float want[12] = {0, 0, 2, 3, 7, 8, 12, 13, 0, 0, 0, 0};
    dop_image_layout x;
    float *v = values_of(&p, &picture, DOP_PIXELS_PUBLISHED, &x);
    for (uint32_t i = 0; i < 12; i++)
        cr_expect_eq(v[i], want[i], "%u: %g", i, (double)v[i]);
    free(v);
}

/* A preprocessor_config.json that is wrong, or not known. */
Test(image_processor, refuses)
{
    static const char *const cases[][2] = {
        {"{", "expected"},
        {"{}", "image_processor_type is missing"},
        {"{\"image_processor_type\": \"ViTImageProcessor\"}",
         "image_processor_type \"ViTImageProcessor\" is not supported"},
        {"{\"image_processor_type\": 3}", "image_processor_type is an integer, expected a string"},
        {"{\"image_processor_type\": \"CLIPImageProcessor\", \"resample\": 0}",
         "resample is 0; 1 (Lanczos), 2 (bilinear) and 3 (bicubic) are supported"},
        {"{\"image_processor_type\": \"CLIPImageProcessor\", \"image_mean\": [1, 2]}",
         "image_mean is not a list of three numbers"},
        {"{\"image_processor_type\": \"CLIPImageProcessor\", \"image_std\": 0}",
         "the image processor's mean or standard deviation is missing or out of range"},
        {"{\"image_processor_type\": \"CLIPImageProcessor\", \"crop_size\": {\"height\": 1000000, \"width\": 2}}",
         "the image processor's crop size is missing or out of range"},
        {"{\"image_processor_type\": \"Qwen2VLImageProcessor\", \"patch_size\": 0}", "patch_size"},
        {"{\"image_processor_type\": \"Qwen2VLImageProcessor\", \"max_pixels\": 10}",
         "the image processor's largest number of pixels is missing or out of range"},
        {"{\"image_processor_type\": \"Siglip2ImageProcessor\", \"max_num_patches\": 16777216}",
         "the image processor's number of patches is missing or out of range"},
        {"{\"image_processor_type\": \"GotOcr2ImageProcessor\", \"crop_to_patches\": true, \"max_patches\": 100000}",
         "the image processor's number of tiles is missing or out of range"},
        {"{\"image_processor_type\": \"Idefics3ImageProcessor\", \"do_resize\": 1}", "do_resize"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch s = scratch_make();
        dop_diag diag = {0};
        dop_image_processor p;
        scratch_text(&s, "config.json", "{}");
        scratch_text(&s, "preprocessor_config.json", cases[i][0]);
        cr_expect_eq(read_processor(s.dir, &diag, &p), DOP_E_INPUT);
        cr_expect(strstr(diag.message, cases[i][1]) && !strchr(diag.message, '\n'), "%s", diag.message);
        scratch_remove(&s);
    }
}

/* Pictures whose form a model does not take. */
Test(image_processor, refuses_pictures)
{
    dop_image_processor p = {.form = DOP_IMAGE_PIXELS,
                             .filter = DOP_FILTER_BICUBIC,
                             .resize = true,
                             .patch = 14,
                             .merge = 2,
                             .frames = 2,
                             .min_pixels = 3136,
                             .max_pixels = 100352};
    dop_image_layout x;
    dop_diag diag = {0};
    cr_assert_eq(dop_image_lay_out(&p, 3000, 10, &diag, &x), DOP_E_INPUT);
    cr_assert_str_eq(diag.message, "the picture's edges are 3000 and 10 pixels: one may be up to 200 times the other");
    p.resize = false;
    diag = (dop_diag){0};
    cr_assert_eq(dop_image_lay_out(&p, 100, 100, &diag, &x), DOP_E_INPUT);
    cr_assert_str_eq(diag.message,
                     "a picture of 100 x 100 pixels becomes one of 100 x 100, which has no patches of 28 x 28 pixels");
    p.form = DOP_IMAGE_EDGE;
    p.resize = true;
    p.shortest = 30000;
    diag = (dop_diag){0};
    cr_assert_eq(dop_image_lay_out(&p, 30000, 30000, &diag, &x), DOP_E_LIMIT);
}

/* A plan's bytes of a processor become the processor again; those of another size, or with a value that a field does not have, are
 * refused. */
Test(image_processor, bytes_of_a_plan)
{
    const dop_image_processor p = {.form = DOP_IMAGE_EXACT,
                                   .filter = DOP_FILTER_BICUBIC,
                                   .resize = true,
                                   .rescale = true,
                                   .factor = 1 / 255.0,
                                   .mean = {0.5F, 0.25F, 0.125F},
                                   .std = {1, 1, 1},
                                   .width = 56,
                                   .height = 56,
                                   .patch = 14,
                                   .merge = 2,
                                   .frames = 1,
                                   .image = "<image>",
                                   .image_id = 319};
    dop_buf bytes = {0};
    dop_image_processor got;
    dop_diag diag = {0};
    dop_image_processor_write(&p, &bytes);
    cr_assert_eq(dop_image_processor_read(bytes.data, bytes.size, &diag, &got), DOP_OK, "%s", diag.message);
    cr_assert(got.resize && got.rescale && !got.crop && got.width == 56 && got.image_id == 319);
    cr_assert(got.mean[2] == 0.125F && got.factor == p.factor && strcmp(got.image, "<image>") == 0);
    cr_assert_eq(dop_image_processor_read(bytes.data, bytes.size - 1, &diag, &got), DOP_E_INPUT);
    for (size_t i = 0; i < bytes.size; i++) { /* any byte: another processor, or refused */
        const char was = bytes.data[i];
        bytes.data[i] = (char)0xff;
        (void)dop_image_processor_read(bytes.data, bytes.size, &diag, &got);
        bytes.data[i] = was;
    }
    bytes.data[0] = 99;
    cr_assert_eq(dop_image_processor_read(bytes.data, bytes.size, &diag, &got), DOP_E_INPUT);
    dop_buf_finish(&bytes);
}
