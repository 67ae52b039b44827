/* Adapters merged into weights: the weights of every family are those of the checkpoint that was merged by hand, for adapters in
 * Hugging Face names and in GGUF names, on models in both formats. */
#include "base/format/gguf.h"
#include "base/words.h"
#include "compiler/pack/pack_rows.h"
#include "frontend/adapter_places.h"
#include "tests/tools/make_adapter.h"
#include "tests/unit/hf_to_gguf.h"
#include "tests/unit/import_util.h"

typedef struct work {
    scratch s;
    char adapter[200], merged[200], base[200];
} work;

static work
work_make(const char *model, const adapter_way *way)
{
    work w = {.s = scratch_make()};
    snprintf(w.adapter, sizeof w.adapter, "%s/adapter", w.s.dir);
    snprintf(w.merged, sizeof w.merged, "%s/adapter/merged", w.s.dir);
    snprintf(w.base, sizeof w.base, GOLDEN "/%s", model);
    cr_assert_gt(make_adapter(w.base, w.adapter, way, true), 0, "%s: nothing to adapt", model);
    return w;
}

static void
work_remove(work *w)
{
    char *command = NULL;
    cr_assert(asprintf(&command, "rm -rf '%s'", w->s.dir) > 0);
    cr_assert_eq(system(command), 0);
    free(command);
}

/* A model with what is merged into it, if anything. */
typedef struct loaded {
    dop_arena arena;
    dop_checkpoint m;
} loaded;

static void
load(loaded *l, const char *path, const char *adapter, double scale)
{
    dop_diag diag = {0};
    dop_arena_init(&l->arena);
    cr_assert_eq(dop_checkpoint_load(path, &l->arena, &diag, &l->m), DOP_OK, "%s: %s", path, diag.message);
    if (adapter)
        cr_assert_eq(dop_checkpoint_merge(&l->m, adapter, scale, &diag), DOP_OK, "%s: %s", adapter, diag.message);
}

static void
unload(loaded *l)
{
    dop_checkpoint_finish(&l->m);
    dop_arena_finish(&l->arena);
}

/* Every matrix of two models has the same values, and some differ from those of `plain`. */
static void
compare(const char *what, const loaded *x, const loaded *y, const loaded *plain)
{
    uint32_t n_changed = 0;
    cr_assert_eq(x->m.weights.n, y->m.weights.n);
    for (uint32_t i = 0; i < x->m.weights.n; i++) {
        const dop_weight *a = &x->m.weights.items[i], *b = &y->m.weights.items[i], *c = &plain->m.weights.items[i];
        if (a->rank < 2)
            continue;
        cr_assert_str_eq(a->name, b->name);
        float *v = malloc(3 * a->cols * sizeof *v), *u = v + a->cols, *t = u + a->cols;
        double most = 0, other = 0;
        for (uint32_t e = 0; e < dop_weight_experts(a); e++) {
            const dop_weight ae = dop_weight_expert(a, e), be = dop_weight_expert(b, e), ce = dop_weight_expert(c, e);
            for (uint32_t r = 0; r < a->rows; r++) {
                dop_weight_row(&ae, r, v);
                dop_weight_row(&be, r, u);
                dop_weight_row(&ce, r, t);
                for (uint32_t k = 0; k < a->cols; k++) {
                    most = fmax(most, fabs((double)v[k] - (double)u[k]));
                    other = fmax(other, fabs((double)v[k] - (double)t[k]));
                }
            }
        }
        n_changed += other > 1e-3;
        cr_expect_lt(most, 2e-6, "%s: %s differs by %g", what, a->name, most);
        free(v);
    }
    cr_expect_gt(n_changed, 2, "%s: %u weights change", what, n_changed);
}

static void
to_gguf(const char *dir, const char *path)
{
    gguf_writer w = {0};
    char error[200] = "";
    cr_assert(hf_to_gguf(dir, true, &w, error, sizeof error), "%s: %s", dir, error);
    cr_assert(gguf_save(&w, path));
    gguf_finish(&w);
}

/* The adapter that makes the second file of the first one, in GGUF: B is the difference, A has ones on its diagonal. */
static void
difference(const char *from, const char *to, const char *path, double alpha)
{
    dop_gguf x, y;
    dop_gguf_str arch;
    gguf_writer w = {0};
    char name[200];
    cr_assert_eq(dop_gguf_open(from, NULL, &x), DOP_OK);
    cr_assert_eq(dop_gguf_open(to, NULL, &y), DOP_OK);
    cr_assert(dop_gguf_string(dop_gguf_find(&x, "general.architecture"), &arch));
    snprintf(name, sizeof name, "%.*s", (int)arch.len, arch.data);
    gguf_str(&w, "general.architecture", name);
    gguf_str(&w, "general.type", "adapter");
    gguf_str(&w, "adapter.type", "lora");
    if (alpha > 0)
        gguf_f32(&w, "adapter.lora.alpha", alpha);
    for (size_t i = 0; i < x.tensor_count; i++) {
        const dop_gguf_tensor *t = &x.tensors[i];
        snprintf(name, sizeof name, "%.*s", (int)t->name.len, t->name.data);
        const dop_gguf_tensor *u = dop_gguf_find_tensor(&y, name);
        const uint64_t cols = t->dims[0], rows = t->dims[1], experts = t->dims[2];
        if (t->dims_count < 2 || t->type != 0 || memcmp(x.map.data + t->offset, y.map.data + u->offset, t->bytes) == 0)
            continue;
        const uint64_t a_shape[] = {experts, cols, cols}, b_shape[] = {experts, rows, cols};
        float *a = calloc(experts * cols * cols, sizeof *a), *b = malloc(experts * rows * cols * sizeof *b);
        for (uint64_t k = 0; k < experts * cols; k++)
            a[k * cols + k % cols] = alpha > 0 ? (float)((double)cols / alpha) : 1;
        for (uint64_t k = 0; k < experts * rows * cols; k++) {
            float p, q;
            memcpy(&p, x.map.data + t->offset + 4 * k, 4);
            memcpy(&q, y.map.data + u->offset + 4 * k, 4);
            b[k] = q - p;
        }
        const uint32_t skip = experts == 1;
        snprintf(name, sizeof name, "%.*s.lora_a", (int)t->name.len, t->name.data);
        gguf_tensor(&w, name, GGUF_F32, 3 - skip, a_shape + skip, a);
        snprintf(name, sizeof name, "%.*s.lora_b", (int)t->name.len, t->name.data);
        gguf_tensor(&w, name, GGUF_F32, 3 - skip, b_shape + skip, b);
        free(a);
        free(b);
    }
    dop_gguf_close(&x);
    dop_gguf_close(&y);
    cr_assert(gguf_save(&w, path));
    gguf_finish(&w);
}

/* A family in both formats, with adapters in both forms. */
static void
check_family(const char *model, const adapter_way *way, bool gguf)
{
    /* Converters multiply matrices of one of these, and reorder columns of the others: one format's names do not fit the other. */
    const bool alone = dop_has_word("falcon_h1 qwen3_5 qwen3_5_moe qwen3_next", model);
    work w = work_make(model, way);
    loaded plain, merged, made;
    char x[256], y[256], adapter[256];
    load(&plain, w.base, NULL, 1);
    load(&made, w.base, w.adapter, 1);
    load(&merged, w.merged, NULL, 1);
    compare(model, &made, &merged, &plain);
    unload(&made);
    if (gguf) {
        snprintf(x, sizeof x, "%s/x.gguf", w.s.dir);
        snprintf(y, sizeof y, "%s/y.gguf", w.s.dir);
        snprintf(adapter, sizeof adapter, "%s/adapter.gguf", w.s.dir);
        to_gguf(w.base, x);
        to_gguf(w.merged, y);
        difference(x, y, adapter, way->seed % 2 ? 3 : 0);
        if (!alone) {
            load(&made, w.base, adapter, 1); /* in GGUF names, on the directory */
            compare(model, &made, &merged, &plain);
            unload(&made);
        }
        unload(&plain);
        unload(&merged);
        load(&plain, x, NULL, 1);
        load(&merged, y, NULL, 1);
        load(&made, x, adapter, 1); /* in GGUF names, on the GGUF file */
        compare(model, &made, &merged, &plain);
        unload(&made);
        if (!alone) {
            load(&made, x, w.adapter, 1); /* in Hugging Face names, on the GGUF file */
            compare(model, &made, &merged, &plain);
            unload(&made);
        }
    }
    unload(&plain);
    unload(&merged);
    work_remove(&w);
}

Test(adapters, families)
{
    static const char *const both[] = {"llama",          "llama3_rope_tied",
                                       "mistral_window", "gemma3",
                                       "qwen2",          "qwen3",
                                       "phi3",           "gpt2",
                                       "granite",        "olmo2",
                                       "smollm3_nope",   "starcoder2",
                                       "stablelm",       "glm4",
                                       "gpt_neox",       "cohere2",
                                       "gemma4",         "mixtral",
                                       "qwen3_moe",      "gpt_oss",
                                       "mamba2",         "falcon_h1",
                                       "lfm2",           "qwen3_next",
                                       "qwen3_5",        "granitemoehybrid",
                                       "llama4_text",    "deepseek_v3",
                                       "olmo",           "falcon",
                                       "bloom",          "mpt",
                                       "minicpm3",       "gemma3n",
                                       "mamba",          "jamba",
                                       "kimi_linear",    "nemotron_h",
                                       "muse_glimmer"};
    static const char *const directories[] = {"bitnet",    "diffllama",   "doge", "flex_olmo",  "gptj",  "helium",
                                              "ministral", "olmo_hybrid", "opt",  "vaultgemma", "zamba2"};
    for (size_t i = 0; i < sizeof both / sizeof *both; i++)
        check_family(both[i], &(adapter_way){.rank = 3, .seed = (uint32_t)i, .alpha = 6, .not = "vision"}, true);
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
        check_family(directories[i],
                     &(adapter_way){.rank = 2,
                                    .seed = (uint32_t)i,
                                    .alpha = 6,
                                    .not = strcmp(directories[i], "diffllama") == 0 ? "v_proj" : NULL},
                     false);
}

Test(adapters, kinds)
{
    static const adapter_way ways[] = {
        {.rank = 1, .seed = 11, .alpha = 1},
        {.rank = 4, .seed = 12, .alpha = 12, .stabilized = true},
        {.rank = 2, .seed = 13, .alpha = 5, .patterns = true},
        {.rank = 2, .seed = 14, .alpha = 4, .dora = true},
        {.rank = 5, .seed = 15, .alpha = 4, .patterns = true, .stabilized = true, .only = "self_attn"},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        check_family("llama", &ways[i], true);
}

/* Control vectors: the layers of a range get the sum of their directions times the scales; what is of another model is refused. */
Test(adapters, control_vectors)
{
    scratch s = scratch_make();
    gguf_writer w = {0};
    loaded l;
    dop_diag diag = {0};
    char path[200];
    load(&l, GOLDEN "/llama", NULL, 1);
    const uint64_t n = l.m.arch.hidden, wrong = n + 1;
    float *v = calloc(n + 1, sizeof *v);
    for (uint64_t i = 0; i < n; i++)
        v[i] = (float)i - 3;
    snprintf(path, sizeof path, "%s/c.gguf", s.dir);
    gguf_str(&w, "general.architecture", "controlvector");
    gguf_tensor(&w, "direction.0", GGUF_F32, 1, &n, v);
    gguf_tensor(&w, "direction.1", GGUF_F32, 1, &n, v);
    cr_assert(gguf_save(&w, path));
    gguf_finish(&w);
    w = (gguf_writer){0};
    cr_assert_eq(dop_checkpoint_control(&l.m, path, 0.5, 1, 9, &diag), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_checkpoint_control(&l.m, path, 2, 1, 9, &diag), DOP_OK, "%s", diag.message);
    cr_expect(!l.m.arch.layers[0].control && l.m.arch.layers[1].control);
    const dop_weight *made = dop_weights_find(&l.m.weights, "L1.control");
    cr_assert(made && made->cols == n);
    for (uint32_t i = 0; i < n; i++)
        cr_expect_float_eq(((const float *)(const void *)made->data)[i], 2.5f * v[i], 1e-6f);
    gguf_str(&w, "general.architecture", "controlvector");
    gguf_tensor(&w, "direction.1", GGUF_F32, 1, &wrong, v);
    cr_assert(gguf_save(&w, path));
    gguf_finish(&w);
    w = (gguf_writer){0};
    dop_diag_clear(&diag);
    cr_expect_eq(dop_checkpoint_control(&l.m, path, 1, 1, 9, &diag), DOP_E_INPUT);
    cr_expect(strstr(diag.message, "of another model"), "%s", diag.message);
    free(v);
    unload(&l);
    scratch_remove(&s);
}
