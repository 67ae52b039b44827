/* Vision parts: importer, graphs and reference interpreter from a picture to the features of published models (tests/vision, and
 * ../shared/golden/vision where it is there). */
#include "frontend/build/build_vision.h"
#include "frontend/hf/image.h"
#include "frontend/hf/vision.h"
#include "frontend/vision/tower.h"
#include "ir/interp/interp.h"
#include "ir/syntax/text.h"

#include "tests/unit/picture_util.h"

#include <math.h>
#include <unistd.h>

typedef struct part {
    char dir[512];
    dop_arena arena;
    dop_diag diag;
    json_t *root;
    dop_json config;
    dop_st_set set;
    dop_map *maps;
    uint32_t n_maps;
    dop_vision_model m;
    /* a picture as the tower takes it */
    dop_image_processor p;
    dop_image_layout x;
    float *values;
    dop_image_row *rows;
    uint32_t n_rows;
} part;

static void
ok(const part *v, dop_status st, const char *what)
{
    cr_assert_eq(st, DOP_OK, "%s: %s: %s: %s", v->dir, what, v->diag.path, v->diag.message);
}

/* The folder of a model; false: it is not there. */
static bool
part_open(part *v, const char *name)
{
    char path[600];
    bool present = false;
    *v = (part){0};
    snprintf(v->dir, sizeof v->dir, "%s/tests/vision/%s", DOP_SOURCE_DIR, name);
    snprintf(path, sizeof path, "%s/model.safetensors", v->dir);
    if (access(path, R_OK) != 0)
        snprintf(v->dir, sizeof v->dir, "%s/golden/vision/%s", DOP_SHARED_DIR, name);
    snprintf(path, sizeof path, "%s/model.safetensors", v->dir);
    if (access(path, R_OK) != 0)
        return false;
    dop_arena_init(&v->arena);
    snprintf(path, sizeof path, "%s/config.json", v->dir);
    ok(v, dop_json_decode_file(&(dop_json_how){.path = path}, &v->diag, &v->root), "config.json");
    ok(v, dop_json_root(v->root, "config.json", &v->diag, &v->config), "config.json");
    ok(v, dop_st_open_dir(v->dir, &v->arena, &v->diag, &v->set, &v->maps, &v->n_maps), "tensors");
    ok(v, dop_hf_vision(&v->config, &v->set, &v->arena, &v->diag, &present, &v->m), "vision");
    cr_assert(present);
    ok(v, dop_hf_image_processor(v->dir, &v->config, &v->diag, &present, &v->p), "processor");
    cr_assert(present && v->p.merge == v->m.facts.merge, "%s: %u, %u", name, v->p.merge, v->m.facts.merge);
    return true;
}

static void
part_close(part *v)
{
    for (uint32_t i = 0; i < v->n_maps; i++)
        dop_map_close(&v->maps[i]);
    free(v->maps);
    free(v->values);
    free(v->rows);
    json_decref(v->root);
    dop_arena_finish(&v->arena);
}

/* image.png, one tile, as rows; a class token is one more row of zeros. */
static void
prepare(part *v)
{
    char path[600];
    snprintf(path, sizeof path, "%s/image.png", v->dir);
    dop_picture picture = picture_read(path, NULL);
    float *values = NULL;
    ok(v, dop_image_lay_out(&v->p, picture.width, picture.height, &v->diag, &v->x), "layout");
    ok(v, dop_image_rows(&v->p, &v->x, &v->diag, &v->rows), "rows");
    ok(v, dop_image_values(&v->p, &v->x, &picture, DOP_PIXELS_ROWS, NULL, &v->diag, &values), "values");
    cr_assert_eq(v->x.n_tiles, 1);
    cr_assert_eq(v->x.row_values, v->m.facts.row_values);
    v->n_rows = v->x.rows + v->m.facts.class_token;
    v->values = calloc((size_t)v->n_rows * v->x.row_values, sizeof *v->values);
    memcpy(v->values, values, (size_t)v->x.rows * v->x.row_values * sizeof *values);
    free(values);
    dop_picture_finish(&picture);
}

/* A leaf's value: a weight, or what a row is and where. */
static float *
leaf_values(part *v, const char *name, uint32_t cols, uint64_t *out_n)
{
    const dop_weight *w = dop_weights_find(&v->m.weights, name);
    float shares[4], *out;
    uint32_t corners[4];
    if (strcmp(name, "v.turns") == 0) {
        *out_n = 2 * (uint64_t)DOP_STEP_EDGE * v->m.facts.head_dim;
        out = calloc(*out_n, sizeof *out);
        dop_vision_turns(&v->m.facts, out);
        return out;
    }
    *out_n = w ? (uint64_t)w->rows * w->cols : (uint64_t)v->n_rows * cols;
    out = calloc(*out_n, sizeof *out);
    for (uint32_t i = 0; w && i < w->rows; i++)
        for (uint32_t k = 0; k < w->cols; k++) {
            const uint64_t step = w->col_stride ? w->col_stride : dop_type_of(w->type)->bytes;
            dop_decode_row(w->type, w->data + i * w->row_stride + k * step, 1, out + (uint64_t)i * w->cols + k);
        }
    for (uint32_t i = 0; !w && i < v->n_rows; i++) {
        const bool class = i >= v->x.rows;
        const uint32_t patch = class ? v->x.rows : v->rows[i].patch;
        const uint32_t y = patch / v->x.grid_width, x = patch % v->x.grid_width;
        if (cols == 4)
            dop_image_corners((uint32_t)lround(sqrt(v->m.facts.n_places)), y, x, v->x.grid_height, v->x.grid_width,
                              corners, shares);
        if (strcmp(name, "resampling") == 0) {
            dop_image_resampling((uint32_t)lround(sqrt(cols)), y, x, v->x.grid_height, v->x.grid_width, out + i * cols);
            continue;
        }
        for (uint32_t k = 0; k < cols; k++)
            out[(uint64_t)i * cols + k] = strcmp(name, "positions") == 0      ? (float)i
                                          : strcmp(name, "lasts") == 0        ? (float)(v->n_rows - 1)
                                          : strcmp(name, "in_window") == 0    ? (float)v->rows[i].in_window
                                          : strcmp(name, "window_lasts") == 0 ? (float)v->rows[i].window_last
                                          : strcmp(name, "places") == 0       ? (float)patch
                                          : strcmp(name, "axes") == 0    ? (float)(k ? v->m.facts.n_places / 2 + y : x)
                                          : strcmp(name, "turns") == 0   ? (float)(y * DOP_STEP_EDGE + x)
                                          : strcmp(name, "corners") == 0 ? (float)corners[k]
                                          : strcmp(name, "shares") == 0  ? shares[k]
                                                                         : 0;
    }
    return out;
}

/* Sets all leaves; `rows` is the value of what the graph receives. */
static void
set_leaves(part *v, const dop_graph *g, dop_interp *it, const float *rows)
{
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        const dop_op op = g->nodes[id].op;
        if (op != DOP_OP_input && op != DOP_OP_received && op != DOP_OP_weight)
            continue;
        const char *name = dop_node_s(g, id, DOP_A_name);
        uint64_t n;
        const bool is_rows = strcmp(name, "patches") == 0 || strcmp(name, "rows") == 0;
        float *values = is_rows ? NULL : leaf_values(v, name, dop_node_cols(g, id), &n);
        ok(v, dop_interp_set(it, id, is_rows ? rows : values, &v->diag), name);
        free(values);
    }
}

/* Output number `output` of the tower, as features in the order of the rows. */
static float *
features_of(part *v, uint32_t output)
{
    const dop_vision_options opt = {.max_t = v->n_rows, .act_type = DOP_TYPE_f32};
    const uint32_t n = v->x.rows / (v->m.facts.merge * v->m.facts.merge);
    dop_graph image, features;
    dop_interp *it = NULL;
    const dop_tensor *out = NULL;
    ok(v, dop_build_vision(&v->m, &opt, &v->arena, &v->diag, &image), "tower");
    ok(v, dop_graph_verify(&image, "tower", &v->diag), "tower");
    ok(v, dop_interp_create(&image, v->n_rows, NULL, &v->diag, &it), "tower");
    set_leaves(v, &image, it, v->values);
    ok(v, dop_interp_eval(it, image.outs[output], &v->diag, &out), "tower");
    float *rows = malloc(out->count * sizeof *rows), *values;
    memcpy(rows, out->f, out->count * sizeof *rows);
    dop_interp_destroy(it);
    ok(v, dop_build_features(&v->m, output, &opt, &v->arena, &v->diag, &features), "features");
    ok(v, dop_graph_verify(&features, "features", &v->diag), "features");
    ok(v, dop_interp_create(&features, n, NULL, &v->diag, &it), "features");
    set_leaves(v, &features, it, rows);
    ok(v, dop_interp_eval(it, features.outs[0], &v->diag, &out), "features");
    cr_assert_eq(out->count, (uint64_t)n * v->m.facts.features);
    values = malloc(out->count * sizeof *values);
    memcpy(values, out->f, out->count * sizeof *values);
    dop_interp_destroy(it);
    free(rows);
    return values;
}

static void
check_features(const char *name)
{
    part v;
    if (!part_open(&v, name)) {
        cr_skip_test("%s: ../shared/golden/vision is not there", name);
        return;
    }
    prepare(&v);
    float *got = features_of(&v, 0);
    const uint32_t m = v.m.facts.merge, width = v.m.facts.features, n = v.x.rows / (m * m);
    char path[600];
    dop_map map;
    snprintf(path, sizeof path, "%s/features.f32", v.dir);
    ok(&v, dop_map_open(path, &v.diag, &map), path);
    cr_assert_eq(map.size, (uint64_t)n * width * sizeof(float), "%s", name);
    const float *want = (const float *)(const void *)map.data;
    double squares = 0, worst = 0;
    for (uint64_t i = 0; i < (uint64_t)n * width; i++)
        squares += (double)want[i] * (double)want[i];
    for (uint32_t i = 0; i < n; i++) { /* in the order of rows; published ones are in reading order */
        const uint32_t patch = v.rows[(uint64_t)i * m * m].patch, y = patch / v.x.grid_width / m,
                       x = patch % v.x.grid_width / m;
        for (uint32_t k = 0; k < width; k++)
            worst = fmax(worst, fabs((double)got[(uint64_t)i * width + k] -
                                     (double)want[(uint64_t)(y * (v.x.grid_width / m) + x) * width + k]));
    }
    worst /= sqrt(squares / ((double)n * width));
    cr_log_info("%s: worst %g of the standard deviation", name, worst);
    cr_expect(worst < 1e-4, "%s: worst %g of the standard deviation", name, worst);
    free(got);
    dop_map_close(&map);
    part_close(&v);
}

Test(vision, llava)
{
    check_features("llava");
}
Test(vision, gemma3)
{
    check_features("gemma3_vl");
}
Test(vision, gemma4)
{
    check_features("gemma4_vl");
    check_features("gemma4_vl_wide");
}
Test(vision, smolvlm)
{
    check_features("smolvlm");
}
Test(vision, lfm2)
{
    check_features("lfm2_vl");
}
Test(vision, internvl)
{
    check_features("internvl");
}
Test(vision, mistral3)
{
    check_features("mistral3");
}
Test(vision, qwen2)
{
    check_features("qwen2_vl");
}
Test(vision, qwen2_5)
{
    check_features("qwen2_5_vl");
}
Test(vision, qwen3)
{
    check_features("qwen3_vl");
}
Test(vision, qwen3_moe)
{
    check_features("qwen3_vl_moe");
}
Test(vision, qwen3_5)
{
    check_features("qwen3_5_vl");
}

/* config.json and tensors that do not fit each other: one line. */
Test(vision, refuses)
{
    static const struct {
        const char *key, *value, *message;
    } cases[] = {{"hidden_size", "40", "the table of places does not fit rows of 40 values"},
                 {"num_hidden_layers", "9", "the vision part has no tensor L#.norm1"},
                 {"num_hidden_layers", "1", "nothing reads tensor"},
                 {"num_hidden_layers", "1000000", "num_hidden_layers"},
                 {"patch_size", "16", "mm_tokens_per_image 4 does not divide 3 patches"},
                 {"patch_size", "100000", "patch_size"},
                 {"patch_size", "[0]", "vision_config.patch_size is out of range"},
                 {"hidden_act", "\"tanhshrink\"", "vision_config.hidden_act \"tanhshrink\" is not supported"},
                 {"num_attention_heads", "0", "num_attention_heads"},
                 {"model_type", "\"dinov2\"", "vision_config.model_type \"dinov2\" is not supported"},
                 {"head_dim", "5", "the tensors of the vision part have other shapes than config.json says"},
                 {"image_size", "9", "does not divide"},
                 {"deepstack_visual_indexes", "[1, 1]", "deepstack_visual_indexes is not a rising list of layers"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        part v;
        bool present;
        cr_assert(part_open(&v, "gemma3_vl"));
        json_t *vision = json_object_get(v.root, "vision_config");
        json_object_set_new(vision, cases[i].key, json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        memset(v.set.taken, 0, v.set.n * sizeof *v.set.taken);
        v.m = (dop_vision_model){0};
        cr_expect_eq(dop_hf_vision(&v.config, &v.set, &v.arena, &v.diag, &present, &v.m), DOP_E_INPUT, "%s",
                     cases[i].key);
        cr_expect(strstr(v.diag.message, cases[i].message) && !strchr(v.diag.message, '\n'), "%s: %s", cases[i].key,
                  v.diag.message);
        cr_expect_not(present);
        part_close(&v);
    }
}

/* A tower without one of its biases would be another one. */
Test(vision, a_bias_is_lost)
{
    part v;
    bool present;
    uint32_t at = 0;
    cr_assert(part_open(&v, "gemma3_vl"));
    while (at < v.set.n && !strstr(v.set.tensors[at].name, "layers.1.self_attn.q_proj.bias"))
        at++;
    cr_assert_lt(at, v.set.n);
    v.set.n--;
    memset(v.set.taken, 0, v.set.n * sizeof *v.set.taken);
    v.m = (dop_vision_model){0};
    memmove(&v.set.tensors[at], &v.set.tensors[at + 1], (v.set.n - at) * sizeof *v.set.tensors);
    cr_expect_eq(dop_hf_vision(&v.config, &v.set, &v.arena, &v.diag, &present, &v.m), DOP_E_INPUT);
    cr_expect(strstr(v.diag.message, "layer 1 of the vision part lacks q_bias, which another layer has"), "%s",
              v.diag.message);
    part_close(&v);
}

/* Windows come one after the other, features in them, and patches of a feature together. */
Test(vision, rows_of_windows)
{
    const dop_image_processor p = {.form = DOP_IMAGE_PIXELS, .patch = 1, .merge = 2, .frames = 1, .window = 2};
    const dop_image_layout x = {
        .n_tiles = 1, .grid_width = 6, .grid_height = 4, .whole_width = 6, .whole_height = 4, .rows = 24};
    static const uint32_t first[] = {0,  1,  6,  7,  2, 3, 8,  9,  12, 13, 18, 19,
                                     14, 15, 20, 21, 4, 5, 10, 11, 16, 17, 22, 23};
    dop_image_row *rows = NULL;
    dop_diag diag = {0};
    cr_assert_eq(dop_image_rows(&p, &x, &diag, &rows), DOP_OK);
    for (uint32_t i = 0; i < 24; i++)
        cr_expect(rows[i].patch == first[i] && rows[i].in_window == (i < 16 ? i : i - 16) &&
                      rows[i].window_last == (i < 16 ? 15 : 7),
                  "row %u: %u %u %u", i, rows[i].patch, rows[i].in_window, rows[i].window_last);
    free(rows);
}

/* Tensors of a tower of one layer with rows of 8 values, by the names of GGUF files, whose values count from 1. */
static bool
take_counted(void *user, const char *name, dop_tower_tensor *out, dop_status *status)
{
    static float values[12 * 12];
    static const struct {
        const char *name;
        uint64_t rows, cols; /* cols 0: a vector */
    } tensors[] = {
        {"v.patch_embd.weight", 8, 12},     {"v.blk.0.ln1.weight", 8, 0},       {"v.blk.0.attn_q.weight", 8, 8},
        {"v.blk.0.attn_k.weight", 8, 8},    {"v.blk.0.attn_v.weight", 8, 8},    {"v.blk.0.attn_out.weight", 8, 8},
        {"v.blk.0.ln2.weight", 8, 0},       {"v.blk.0.ffn_up.weight", 12, 8},   {"v.blk.0.ffn_up.bias", 12, 0},
        {"v.blk.0.ffn_gate.weight", 12, 8}, {"v.blk.0.ffn_down.weight", 8, 12}, {"mm.0.weight", 16, 8}};
    (void)user;
    (void)status;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        values[i] = (float)(i + 1);
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        if (strcmp(tensors[i].name, name) == 0) {
            *out = (dop_tower_tensor){.name = tensors[i].name,
                                      .file = "file",
                                      .stored = "f32",
                                      .type = DOP_TYPE_f32,
                                      .rank = tensors[i].cols ? 2 : 1,
                                      .shape = {tensors[i].rows, tensors[i].cols},
                                      .data = (const uint8_t *)values};
            return true;
        }
    return false;
}

/* Inner values of the FFN that are no multiple of 8 get neighbours that are zeros. */
Test(vision, inner_values_fill_matrix_units)
{
    enum { HAD = 12, HAS = 16, HIDDEN = 8 };
    dop_arena arena;
    dop_diag diag = {0};
    dop_vision_model m = {
        .facts = {.hidden = HIDDEN, .heads = 1, .head_dim = 8, .n_layers = 1, .merge = 1, .row_values = 12}};
    dop_arena_init(&arena);
    const dop_tower_files files = {.take = take_counted,
                                   .names = DOP_TOWER_GGUF,
                                   .tower = "",
                                   .after = "",
                                   .path = "file",
                                   .facts = "the metadata",
                                   .arena = &arena,
                                   .diag = &diag};
    cr_assert_eq(dop_tower_weights(&files, &m), DOP_OK, "%s", diag.message);
    const dop_weight *up = dop_weights_find(&m.weights, "v.L0.up"), *gate = dop_weights_find(&m.weights, "v.L0.gate"),
                     *bias = dop_weights_find(&m.weights, "v.L0.up_bias"),
                     *down = dop_weights_find(&m.weights, "v.L0.down");
    cr_assert(m.facts.ffn == HAS && up->rows == HAS && gate->rows == HAS && bias->cols == HAS && down->cols == HAS &&
              down->rows == HIDDEN);
    for (uint32_t i = 0; i < HAS; i++) {
        const float *row = (const float *)(const void *)dop_weight_at(up, i),
                    *other = (const float *)(const void *)dop_weight_at(gate, i);
        cr_expect_eq(((const float *)(const void *)bias->data)[i], i < HAD ? (float)(i + 1) : 0);
        for (uint32_t k = 0; k < HIDDEN; k++) {
            cr_expect(row[k] == (i < HAD ? (float)(i * HIDDEN + k + 1) : 0) && other[k] == row[k]);
            cr_expect_eq(((const float *)(const void *)dop_weight_at(down, k))[i],
                         i < HAD ? (float)(k * HAD + i + 1) : 0);
        }
    }
    dop_arena_finish(&arena);
}
