/* Importer, builder and reference interpreter together against the golden models: every prompt logit and the greedy ids,
 * whole, in two chunks, and token by token. */
#include "tests/unit/model_util.h"

#include <criterion/parameterized.h>
#include <unistd.h>

static const char cases[][32] = {
    "llama",
    "llama3_rope_tied",
    "llama_attnbias_linear",
    "llama_f32_mha",
    "llama_hd384_stream",
    "mistral_window",
    "gemma",
    "gemma2",
    "gemma3",
    "gemma3_hd256",
    "qwen2",
    "qwen3",
    "phi3",
    "phi4_mini_longrope",
    "gpt2",
    "granite",
    "olmo2",
    "smollm3_nope",
    "arcee",
    "seed_oss",
    "ernie4_5",
    "starcoder2",
    "stablelm",
    "exaone4",
    "glm4",
    "gpt_neox",
    "cohere2",
    "nemotron",
    "apertus",
    "gemma4",
    "gemma4_moe",
    "mamba2",
    "lfm2",
    "falcon_h1",
    "falcon_h1_norm",
    "qwen3_5",
    "qwen3_next",
    "granitemoehybrid",
    "mixtral",
    "qwen2_moe",
    "qwen3_moe",
    "olmoe",
    "ernie4_5_moe",
    "minimax_m2",
    "glm4_moe",
    "gpt_oss",
    "deepseek_v3",
    "deepseek_v32",
    "glm_moe_dsa",
    "mistral4",
    "falcon_rw",
    "opt_350m",
    "llama4_text",
};

/* expected.json of one case. */
typedef struct golden {
    char dir[512];
    util_ids prompt, greedy;
    uint32_t vocab;
    double margin[UTIL_MAX_IDS], std;
    float *logits; /* [prompt.n, vocab] */
    float *got;    /* room for the same */
} golden;

static golden
open_golden(const char *name)
{
    golden g;
    char path[600];
    snprintf(g.dir, sizeof g.dir, DOP_SOURCE_DIR "/tests/golden/%s", name);
    snprintf(path, sizeof path, "%s/expected.json", g.dir);
    json_t *root = util_json_open(path);
    g.prompt = util_ids_of(json_object_get(root, "prompt"));
    g.greedy = util_ids_of(json_object_get(root, "greedy"));
    for (uint32_t i = 0; i < g.greedy.n; i++)
        g.margin[i] = json_number_value(json_array_get(json_object_get(root, "greedy_margin"), i));
    g.std = json_number_value(json_object_get(root, "logits_std"));
    g.vocab = util_ids_of(json_object_get(root, "logits_shape")).id[1];
    cr_assert(g.std > 0);
    json_decref(root);
    snprintf(path, sizeof path, "%s/logits.f32", g.dir);
    g.logits = util_floats(path, (size_t)g.prompt.n * g.vocab);
    g.got = calloc((size_t)g.prompt.n * g.vocab, sizeof *g.got);
    cr_assert(g.got);
    return g;
}

static void
close_golden(golden *g)
{
    free(g->logits);
    free(g->got);
}

static void
compare(const char *name, const char *how, const golden *g, const float *got, uint32_t from, uint32_t rows,
        uint32_t vocab, double bound)
{
    double worst = util_worst(got, g->logits + (size_t)from * vocab, (size_t)rows * vocab) / g->std;
    cr_log_info("%s, %s: worst logit differs by %.2g standard deviations", name, how, worst);
    cr_expect(worst <= bound, "%s, %s: worst logit differs by %.3g standard deviations", name, how, worst);
}

/* Token by token, and as texts are written. */
static void
check_steps(const char *name, golden *g, util_model *u, double bound)
{
    const uint32_t vocab = g->vocab, n = g->prompt.n;
    dop_checkpoint_leaves_reset(u->leaves);
    for (uint32_t i = 0; i < n; i++)
        util_step(u, DOP_PHASE_DECODE, &g->prompt.id[i], 1, i, g->got + (size_t)i * vocab);
    compare(name, "token by token", g, g->got, 0, n, vocab, bound);

    dop_checkpoint_leaves_reset(u->leaves);
    uint32_t id = util_step(u, DOP_PHASE_PREFILL, g->prompt.id, n, 0, g->got);
    compare(name, "prefill", g, g->got, n - 1, 1, vocab, bound);
    for (uint32_t i = 0; i < g->greedy.n; i++) {
        if (g->margin[i] > 0.01)
            cr_expect_eq(id, g->greedy.id[i], "%s: greedy step %u gives %u, expected %u", name, i, id, g->greedy.id[i]);
        if (i + 1 < g->greedy.n) /* the reference's ids are fed, so that one near tie does not end the comparison */
            id = util_step(u, DOP_PHASE_DECODE, &g->greedy.id[i], 1, n + i, NULL);
    }
}

ParameterizedTestParameters(build_golden, every_way)
{
    return cr_make_param_array(const char[32], (void *)(uintptr_t)cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(const char param[32], build_golden, every_way)
{
    golden g = open_golden(param);
    util_model u;
    const double bound = 5e-4;
    util_model_open(&u, g.dir, g.prompt.n + g.greedy.n);
    const uint32_t vocab = u.m.arch.vocab, n = g.prompt.n, half = n / 2;
    cr_assert_eq(vocab, g.vocab);

    util_step(&u, DOP_PHASE_SCORE, g.prompt.id, n, 0, g.got);
    compare(param, "whole", &g, g.got, 0, n, vocab, bound);
    if (u.choice_gap < 1e-4) /* other orders of summation may choose other experts there, and then logits differ */
        cr_log_warn("%s: a near tie of the router, scores %.2g apart: logits may differ", param, u.choice_gap);
    else if (isfinite(u.choice_gap))
        cr_log_info("%s: the router's closest choice is %.2g apart", param, u.choice_gap);

    dop_checkpoint_leaves_reset(u.leaves);
    util_step(&u, DOP_PHASE_SCORE, g.prompt.id, half, 0, g.got);
    util_step(&u, DOP_PHASE_SCORE, g.prompt.id + half, n - half, half, g.got + (size_t)half * vocab);
    compare(param, "in two chunks", &g, g.got, 0, n, vocab, bound);

    if (DOP_STEPS) /* with sanitizers these would be the same code again */
        check_steps(param, &g, &u, bound);
    util_model_close(&u);
    close_golden(&g);
}

/* The default storage: f16 caches, and f16 between regions. */
Test(build_golden, half_precision_storage)
{
    static const struct {
        const char *name;
        dop_type act;
        double bound;
    } runs[] = {{"llama", DOP_TYPE_f32, 2e-2},
                {"gemma3", DOP_TYPE_f32, 2e-2},
                {"gpt2", DOP_TYPE_f32, 2e-2},
                {"llama", DOP_TYPE_f16, 3e-2},
                {"gemma2", DOP_TYPE_f16, 3e-2}};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        golden g = open_golden(runs[i].name);
        util_model u;
        util_model_open(&u, g.dir, g.prompt.n);
        u.kv_type = DOP_TYPE_f16;
        u.act_type = runs[i].act;
        u.round_storage = true;
        util_step(&u, DOP_PHASE_SCORE, g.prompt.id, g.prompt.n, 0, g.got);
        compare(runs[i].name, "rounded", &g, g.got, 0, g.prompt.n, g.vocab, runs[i].bound);
        cr_expect(util_worst(g.got, g.logits, (size_t)g.prompt.n * g.vocab) > 1e-5 * g.std, "nothing was rounded");
        util_model_close(&u);
        close_golden(&g);
    }
}

/* The demo: its published greedy ids, fed back. */
Test(build_golden, demo_greedy)
{
    util_model u;
    json_t *root = util_json_open(DOP_SOURCE_DIR "/examples/shakespeare-gemma3/expected.json");
    json_t *first = json_array_get(json_object_get(root, "greedy"), 0);
    util_ids prompt = util_ids_of(json_object_get(first, "ids"));
    util_ids greedy = util_ids_of(json_object_get(first, "greedy"));
    util_model_open(&u, DOP_SOURCE_DIR "/examples/shakespeare-gemma3", 128);
    uint32_t id = util_step(&u, DOP_PHASE_PREFILL, prompt.id, prompt.n, 0, NULL);
    for (uint32_t i = 0; i < 16; i++) {
        cr_expect_eq(id, greedy.id[i], "step %u gives %u, expected %u", i, id, greedy.id[i]);
        id = util_step(&u, DOP_PHASE_DECODE, &greedy.id[i], 1, prompt.n + i, NULL);
    }
    util_model_close(&u);
    json_decref(root);
}

/* ---- models of others, read in place ---- */

Test(build_golden, stories260k)
{
    const char *dir = DOP_SHARED_DIR "/models/stories260k-hf";
    if (access(dir, F_OK) != 0)
        cr_skip_test("no shared test data");
    util_model u;
    char path[600];
    snprintf(path, sizeof path, "%s/golden.json", dir);
    json_t *root = util_json_open(path);
    util_ids greedy = util_ids_of(json_object_get(root, "greedy_ids"));
    util_ids ids = {.n = 32, .id = {1}};
    memcpy(ids.id + 1, greedy.id, 31 * sizeof *ids.id);
    snprintf(path, sizeof path, "%s/logits.f32", dir);
    float *want = util_floats(path, 32 * 512), *got = calloc(32 * 512, sizeof *got);
    util_model_open(&u, dir, 64);
    util_step(&u, DOP_PHASE_SCORE, ids.id, 32, 0, got);
    double worst = util_worst(got, want, 32 * 512);
    cr_expect(worst < 2e-3, "worst logit differs by %.3g", worst);
    cr_expect_eq(u.m.arch.bos_id, 1);
    cr_expect(u.m.tokenizer_json_path && strcmp(u.m.name, "llama-259K") == 0);
    util_model_close(&u);
    json_decref(root);
    free(want);
    free(got);
}

Test(build_golden, nano_sort_gpt2)
{
    const char *dir = DOP_SHARED_DIR "/models/nano-sort-gpt2-hf";
    if (access(dir, F_OK) != 0)
        cr_skip_test("no shared test data");
    char path[600];
    snprintf(path, sizeof path, "%s/golden.json", dir);
    json_t *root = util_json_open(path);
    util_model u;
    util_model_open(&u, dir, 11);
    for (size_t k = 0; k < 3; k++) {
        util_ids ids = util_ids_of(json_array_get(json_object_get(root, "input_ids"), k));
        json_t *rows = json_array_get(json_object_get(root, "logits"), k);
        float got[33], want[33];
        cr_assert_eq(ids.n, 11);
        for (size_t i = 0; i < 33; i++)
            want[i] = (float)json_number_value(json_array_get(json_array_get(rows, i / 3), i % 3));
        dop_checkpoint_leaves_reset(u.leaves);
        util_step(&u, DOP_PHASE_SCORE, ids.id, 11, 0, got);
        double worst = util_worst(got, want, 33);
        cr_expect(worst < 1e-3, "batch %zu: worst logit differs by %.3g", k, worst);
    }
    util_model_close(&u);
    json_decref(root);
}
