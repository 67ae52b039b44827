/* Diffusion models: importer, graphs and reference interpreter against tests/diffusion/reference.py, whose small
 * models lie beside it. */
#include "frontend/build/build_diffusion.h"
#include "frontend/facts/import.h"
#include "ir/interp/interp.h"
#include "ir/syntax/text.h"
#include "runtime/sample/diffusion.h"

#include "base/json/json.h"

#include <criterion/criterion.h>
#include <math.h>

typedef struct model {
    char dir[512];
    dop_arena arena;
    dop_diag diag;
    dop_checkpoint m;
    const dop_diffusion *d;
    dop_diffusion_options opt;
    json_t *expected;
    float *context; /* [rows, values]: the states of the text */
    float *keys[64];
    const char *key_names[64];
    uint32_t n_keys;
} model;

static void
ok(const model *v, dop_status st, const char *what)
{
    cr_assert_eq(st, DOP_OK, "%s: %s: %s: %s", v->dir, what, v->diag.path, v->diag.message);
}

static float *
read_floats(model *v, const char *name, size_t *out_n)
{
    char path[600];
    dop_map map;
    snprintf(path, sizeof path, "%s/%s.f32", v->dir, name);
    ok(v, dop_map_open(path, &v->diag, &map), path);
    float *out = malloc(map.size);
    memcpy(out, map.data, map.size);
    *out_n = map.size / sizeof(float);
    dop_map_close(&map);
    return out;
}

static uint32_t
expected_u32(const model *v, const char *key)
{
    return (uint32_t)json_integer_value(json_object_get(v->expected, key));
}

static void
model_open(model *v, const char *name)
{
    size_t n;
    *v = (model){0};
    snprintf(v->dir, sizeof v->dir, "%s/tests/diffusion/%s", DOP_SOURCE_DIR, name);
    dop_arena_init(&v->arena);
    ok(v, dop_checkpoint_load(v->dir, &v->arena, &v->diag, &v->m), "model");
    cr_assert_not_null(v->m.diffusion);
    v->d = v->m.diffusion;
    char path[600];
    snprintf(path, sizeof path, "%s/expected.json", v->dir);
    ok(v, dop_json_decode_file(&(dop_json_how){.path = path}, &v->diag, &v->expected), path);
    v->context = read_floats(v, "text", &n);
    v->opt = (dop_diffusion_options){.width = expected_u32(v, "width"),
                                     .height = expected_u32(v, "height"),
                                     .context_rows = (uint32_t)(n / v->d->context),
                                     .act_type = DOP_TYPE_f32,
                                     .kv_type = DOP_TYPE_f32};
}

static void
model_close(model *v)
{
    for (uint32_t i = 0; i < v->n_keys; i++)
        free(v->keys[i]);
    free(v->context);
    json_decref(v->expected);
    dop_checkpoint_finish(&v->m);
    dop_arena_finish(&v->arena);
}

static float *
weight_values(const dop_weight *w)
{
    float *out = calloc((size_t)w->rows * w->cols, sizeof *out);
    const uint32_t bytes = dop_type_of(w->type)->bytes, channels = w->taps ? w->cols / w->taps : w->cols;
    for (uint32_t i = 0; i < w->rows; i++)
        for (uint32_t k = 0; k < w->cols; k++) {
            const uint32_t at = w->taps ? k % channels * w->taps + k / channels : k;
            dop_decode_row(w->type, w->data + i * w->row_stride + (uint64_t)at * bytes, 1,
                           out + (size_t)i * w->cols + k);
        }
    return out;
}

/* Sets all leaves of a graph; what is received is `rows`, but for times and what attention reads. */
static void
set_leaves(model *v, const dop_graph *g, dop_interp *it, const float *rows, const float *time)
{
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        const dop_op op = g->nodes[id].op;
        const char *name = op == DOP_OP_weight || op == DOP_OP_received || op == DOP_OP_state || op == DOP_OP_input
                               ? dop_node_s(g, id, DOP_A_name)
                               : NULL;
        if (!name)
            continue;
        const dop_weight *w = dop_weights_find(&v->m.weights, name);
        const uint64_t n = dop_node_rows(g, id, g->max_t);
        float *values = w ? weight_values(w) : calloc(n + (uint64_t)g->max_t, sizeof *values);
        for (uint64_t i = 0; i < n && !w; i++)
            values[i] = strncmp(name, "lasts", 5) == 0       ? (float)(n - 1)
                        : strncmp(name, "places", 6) == 0    ? (float)i
                        : strncmp(name, "positions", 9) == 0 ? (float)i
                                                             : 0;
        const float *given = values;
        if (strcmp(name, "time") == 0)
            given = time;
        else if (strcmp(name, "latents") == 0 || strcmp(name, "context") == 0 || strcmp(name, "pixels") == 0)
            given = rows;
        for (uint32_t k = 0; op == DOP_OP_state && k < v->n_keys; k++)
            if (strcmp(v->key_names[k], name) == 0)
                given = v->keys[k];
        if (op == DOP_OP_state && given == values) {
            free(values);
            values = calloc((size_t)n * dop_node_cols(g, id) * 64, sizeof *values);
            given = values;
        }
        ok(v, dop_interp_set(it, id, given, &v->diag), name);
        free(values);
    }
}

/* Runs the program that makes keys and values of the text, and keeps them by the names of their states. */
static void
keep_keys(model *v)
{
    dop_graph g;
    dop_interp *it = NULL;
    ok(v, dop_build_context(v->d, &v->m.weights, &v->opt, &v->arena, &v->diag, &g), "context");
    ok(v, dop_graph_verify(&g, "context", &v->diag), "context");
    ok(v, dop_interp_create(&g, g.max_t, NULL, &v->diag, &it), "context");
    set_leaves(v, &g, it, v->context, NULL);
    for (uint32_t i = 0; i < g.n_outs; i++) {
        const dop_tensor *out;
        ok(v, dop_interp_eval(it, g.outs[i], &v->diag, &out), "context");
        v->key_names[v->n_keys] = dop_node_s(&g, dop_node_at(&g, g.outs[i])->src[0], DOP_A_name);
        v->keys[v->n_keys] = malloc(out->count * sizeof(float));
        memcpy(v->keys[v->n_keys++], out->f, out->count * sizeof(float));
    }
    dop_interp_destroy(it);
}

/* The largest difference, as a share of the largest value. */
static double
worst(const float *got, const float *want, size_t n)
{
    double most = 0, far = 0;
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)want[i]));
        far = fmax(far, fabs((double)got[i] - (double)want[i]));
    }
    return far / most;
}

typedef dop_status (*build_fn)(const dop_diffusion *d, const dop_weights *weights, const dop_diffusion_options *opt,
                               dop_arena *arena, dop_diag *diag, dop_graph *out_graph);

static void
check_program(model *v, build_fn build, const char *from, double by, const float *time, const char *to)
{
    dop_graph g;
    dop_interp *it = NULL;
    const dop_tensor *out;
    size_t n, n_want;
    float *x = read_floats(v, from, &n), *want = read_floats(v, to, &n_want);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((double)x[i] / by);
    ok(v, build(v->d, &v->m.weights, &v->opt, &v->arena, &v->diag, &g), to);
    ok(v, dop_graph_verify(&g, to, &v->diag), to);
    ok(v, dop_interp_create(&g, g.max_t, NULL, &v->diag, &it), to);
    set_leaves(v, &g, it, x, time);
    ok(v, dop_interp_eval(it, g.outs[0], &v->diag, &out), to);
    cr_assert_eq(out->count, n_want, "%s: %llu", to, (unsigned long long)out->count);
    const double far = worst(out->f, want, n_want);
    cr_log_info("%s %s: %g of the largest value", v->dir, to, far);
    cr_expect(far < 2e-5, "%s %s: %g of the largest value", v->dir, to, far);
    dop_interp_destroy(it);
    free(x);
    free(want);
}

static void
check_model(const char *name)
{
    model v;
    model_open(&v, name);
    float time[64];
    const uint32_t times = dop_unet_times(v.d);
    const json_t *list = json_object_get(v.expected, "times"), *levels = json_object_get(v.expected, "levels");
    const dop_noise_facts facts = {.train_steps = v.d->train_steps,
                                   .offset = v.d->offset,
                                   .beta_first = v.d->beta_first,
                                   .beta_last = v.d->beta_last,
                                   .beta_roots = v.d->beta_roots,
                                   .spacing = (uint8_t)v.d->spacing,
                                   .predicts = (uint8_t)v.d->predicts};
    dop_draw_sampler s;
    dop_sampler_begin(&facts, DOP_SAMPLER_EULER, expected_u32(&v, "steps"), 1, &s);
    for (uint32_t i = 0; i < s.n_steps; i++) {
        cr_expect_float_eq(s.times[i], json_number_value(json_array_get(list, i)), 1e-9);
        cr_expect_float_eq(s.levels[i], json_number_value(json_array_get(levels, i)), 1e-9 * s.levels[i]);
    }
    cr_assert(times <= 64);
    dop_time_embedding(s.times[0], v.d->cosine_first, v.d->shift, time, times);
    keep_keys(&v);
    check_program(&v, dop_build_denoise, "given", 1, time, "predicted");
    check_program(&v, dop_build_decode, "latents", v.d->scaling, NULL, "picture");
    if (v.d->encodes)
        check_program(&v, dop_build_encode_picture, "init", 1, NULL, "moments");
    model_close(&v);
}

static double
number_of(const json_t *config, const char *key)
{
    return json_number_value(json_object_get(config, key));
}

static bool
says(const json_t *config, const char *key, const char *value)
{
    const char *is = json_string_value(json_object_get(config, key));
    return is && strcmp(is, value) == 0;
}

/* What stands for a model in tests/diffusion/samplers.json. */
static float
formula(double given, double time)
{
    return (float)(0.6 * given + 0.3 * sin(given + time / 150));
}

static void
check_sampler(const json_t *c)
{
    enum { N = 4 };
    const json_t *config = json_object_get(c, "config"), *to_one = json_object_get(config, "set_alpha_to_one");
    const char *name = json_string_value(json_object_get(c, "sampler"));
    const uint32_t steps = (uint32_t)number_of(c, "steps");
    const dop_noise_facts facts = {.train_steps = (uint32_t)number_of(config, "num_train_timesteps"),
                                   .offset = (uint32_t)number_of(config, "steps_offset"),
                                   .beta_first = number_of(config, "beta_start"),
                                   .beta_last = number_of(config, "beta_end"),
                                   .beta_roots = says(config, "beta_schedule", "scaled_linear"),
                                   .spacing = says(config, "timestep_spacing", "leading")    ? DOP_SPACING_LEADING
                                              : says(config, "timestep_spacing", "linspace") ? DOP_SPACING_LINSPACE
                                                                                             : DOP_SPACING_TRAILING,
                                   .predicts = says(config, "prediction_type", "v_prediction") ? DOP_PREDICTS_VELOCITY
                                               : says(config, "prediction_type", "sample")     ? DOP_PREDICTS_LATENTS
                                                                                               : DOP_PREDICTS_NOISE,
                                   .rescaled = json_is_true(json_object_get(config, "rescale_betas_zero_snr")),
                                   .last_first = json_is_false(to_one)};
    dop_draw_sampler_kind kind;
    dop_draw_sampler s;
    float x[N], given[N], predicted[N];
    cr_assert(dop_sampler_by_name(name, &kind));
    dop_sampler_begin(&facts, kind, steps, (uint64_t)number_of(c, "seed"), &s);
    dop_sampler_noise(&s, x, N);
    for (size_t i = 0; i < N; i++)
        x[i] = (float)((double)x[i] * s.first);
    for (uint32_t i = 0; i < steps; i++) {
        const double want = json_number_value(json_array_get(json_object_get(c, "times"), i));
        cr_expect_float_eq(s.times[i], want, 1e-9, "%s, %u steps: time %u is %g, not %g", name, steps, i, s.times[i],
                           want);
        dop_sampler_input(&s, i, x, N, given);
        for (size_t k = 0; k < N; k++)
            predicted[k] = formula((double)given[k], s.times[i]);
        dop_sampler_step(&s, i, predicted, x, N);
    }
    for (size_t k = 0; k < N; k++) {
        const double want = json_number_value(json_array_get(json_object_get(c, "values"), k));
        char *text = json_dumps(config, JSON_COMPACT);
        cr_expect_float_eq((double)x[k], want, 1e-3 * fmax(1, fabs(want)), "%s, %u steps, %s: value %zu is %g, not %g",
                           name, steps, text, k, (double)x[k], want);
        free(text);
    }
}

Test(diffusion, samplers)
{
    json_t *cases = NULL;
    dop_diag diag = {0};
    size_t i;
    const json_t *c;
    const char *path = DOP_SOURCE_DIR "/tests/diffusion/samplers.json";
    cr_assert_eq(dop_json_decode_file(&(dop_json_how){.path = path}, &diag, &cases), DOP_OK, "%s", diag.message);
    cr_assert(json_array_size(cases) > 100);
    json_array_foreach(cases, i, c) check_sampler(c);
    json_decref(cases);
}

Test(diffusion, turbo)
{
    check_model("turbo");
}

Test(diffusion, sd15)
{
    check_model("sd15");
}

Test(diffusion, sd21)
{
    check_model("sd21");
}
