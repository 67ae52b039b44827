/* Gemma 4 with inputs of single layers, layers that share keys and values, wider feed-forward parts there, values that are
 * keys, and experts beside the dense part of every layer: a model of random weights, computed here from the formulas of
 * transformers' modeling_gemma4.py, without the graph. */
#include "tests/unit/hf_to_gguf.h"
#include "tests/unit/import_util.h"
#include "tests/unit/model_util.h"

#include <math.h>
#include <stdarg.h>

enum {
    HIDDEN = 32,
    LAYERS = 6,
    HEADS = 4,
    KV = 2,
    WIDE_KV = 1, /* of full layers, when keys are values there */
    DIM = 8,
    WIDE_DIM = 16, /* a head of full layers */
    FFN = 24,
    INPUT = 8,
    VOCAB = 40,
    WINDOW = 4,
    N = 12,
    EXPERTS = 5,
    ACTIVE = 3,
    EXPERT = 12, /* hidden values of one */
    MAX_TENSORS = 240
};
static const double eps = 1e-6, cap = 9;
static const bool full[LAYERS] = {false, false, true, false, true, false};

typedef struct tensor {
    char name[96];
    uint32_t rank, experts, rows, cols; /* of rank 3: a matrix for each expert */
    float *v;
} tensor;

typedef struct model {
    bool k_is_v;     /* in full layers */
    uint32_t shared; /* of the last layers: without keys and values of their own */
    bool experts;
    uint32_t n;
    tensor tensors[MAX_TENSORS];
} model;

/* ---- the model ---------------------------------------------------------------------------------------------------- */

static float
draw(const char *name, uint32_t i)
{
    uint32_t h = 2166136261u + i * 2654435761u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    h ^= h >> 15;
    h *= 2246822519u;
    h ^= h >> 13;
    return (float)(h >> 8) / 8388608.0f - 1; /* from -1 to 1 */
}

/* Norms are around 1, matrices such that what they give is about as large as what they read. */
static void
add(model *m, uint32_t rows, uint32_t cols, const char *format, ...)
{
    tensor *t = &m->tensors[m->n++];
    va_list ap;
    cr_assert(m->n <= MAX_TENSORS);
    va_start(ap, format);
    vsnprintf(t->name, sizeof t->name, format, ap);
    va_end(ap);
    t->rank = rows ? 2 : 1;
    t->experts = 1;
    t->rows = rows ? rows : 1;
    t->cols = cols;
    t->v = calloc((size_t)t->rows * cols, sizeof *t->v);
    for (uint32_t i = 0; i < t->rows * cols; i++)
        t->v[i] = rows ? draw(t->name, i) * sqrtf(3.0f / (float)cols) : 1 + 0.5f * draw(t->name, i);
}

/* Such a matrix for each expert. */
static void
add_experts(model *m, uint32_t rows, uint32_t cols, const char *name, uint32_t layer)
{
    add(m, EXPERTS * rows, cols, name, layer);
    tensor *t = &m->tensors[m->n - 1];
    t->rank = 3;
    t->experts = EXPERTS;
    t->rows = rows;
}

static uint32_t
kv_heads(const model *m, uint32_t layer)
{
    return m->k_is_v && full[layer] ? WIDE_KV : KV;
}

static bool
shares(const model *m, uint32_t layer)
{
    return layer >= LAYERS - m->shared;
}

static uint32_t
width(const model *m, uint32_t layer)
{
    return shares(m, layer) ? 2 * FFN : FFN;
}

static void
make_experts(model *m, uint32_t i)
{
    static const char *const norms[] = {"post_feedforward_layernorm_1", "pre_feedforward_layernorm_2",
                                        "post_feedforward_layernorm_2"};
    for (size_t k = 0; k < sizeof norms / sizeof *norms; k++)
        add(m, 0, HIDDEN, "model.layers.%u.%s.weight", i, norms[k]);
    add(m, 0, HIDDEN, "model.layers.%u.router.scale", i);
    add(m, EXPERTS, HIDDEN, "model.layers.%u.router.proj.weight", i);
    add(m, 0, EXPERTS, "model.layers.%u.router.per_expert_scale", i);
    add_experts(m, 2 * EXPERT, HIDDEN, "model.layers.%u.experts.gate_up_proj", i);
    add_experts(m, HIDDEN, EXPERT, "model.layers.%u.experts.down_proj", i);
    tensor *router = &m->tensors[m->n - 4]; /* logits that tell experts apart: their divisor is the root of the width */
    for (uint32_t k = 0; k < EXPERTS * HIDDEN; k++)
        router->v[k] *= 8;
}

static void
make(model *m)
{
    static const char *const norms[] = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                                        "post_feedforward_layernorm", "post_per_layer_input_norm"};
    add(m, VOCAB, HIDDEN, "model.embed_tokens.weight");
    add(m, VOCAB, LAYERS * INPUT, "model.embed_tokens_per_layer.weight");
    add(m, LAYERS * INPUT, HIDDEN, "model.per_layer_model_projection.weight");
    add(m, 0, INPUT, "model.per_layer_projection_norm.weight");
    add(m, 0, HIDDEN, "model.norm.weight");
    for (uint32_t i = 0; i < LAYERS; i++) {
        const uint32_t d = full[i] ? WIDE_DIM : DIM, kv = kv_heads(m, i) * d;
        for (size_t k = 0; k < sizeof norms / sizeof *norms; k++)
            add(m, 0, HIDDEN, "model.layers.%u.%s.weight", i, norms[k]);
        add(m, HEADS * d, HIDDEN, "model.layers.%u.self_attn.q_proj.weight", i);
        add(m, HIDDEN, HEADS * d, "model.layers.%u.self_attn.o_proj.weight", i);
        add(m, 0, d, "model.layers.%u.self_attn.q_norm.weight", i);
        add(m, kv, HIDDEN, "model.layers.%u.self_attn.k_proj.weight",
            i); /* also where they are not used, as published */
        add(m, 0, d, "model.layers.%u.self_attn.k_norm.weight", i);
        if (!m->k_is_v || !full[i])
            add(m, kv, HIDDEN, "model.layers.%u.self_attn.v_proj.weight", i);
        add(m, width(m, i), HIDDEN, "model.layers.%u.mlp.gate_proj.weight", i);
        add(m, width(m, i), HIDDEN, "model.layers.%u.mlp.up_proj.weight", i);
        add(m, HIDDEN, width(m, i), "model.layers.%u.mlp.down_proj.weight", i);
        add(m, INPUT, HIDDEN, "model.layers.%u.per_layer_input_gate.weight", i);
        add(m, HIDDEN, INPUT, "model.layers.%u.per_layer_projection.weight", i);
        add(m, 0, 1, "model.layers.%u.layer_scalar", i);
        if (m->experts)
            make_experts(m, i);
    }
}

static void
save(const model *m, scratch *s)
{
    dop_buf header = {0}, data = {0}, config = {0};
    dop_buf_puts(&header, "{");
    for (uint32_t i = 0; i < m->n; i++) {
        const tensor *t = &m->tensors[i];
        const size_t bytes = (size_t)t->experts * t->rows * t->cols * sizeof *t->v;
        dop_buf_printf(&header, "%s\"%s\": {\"dtype\": \"F32\", \"shape\": [", i ? ", " : "", t->name);
        if (t->rank == 3)
            dop_buf_printf(&header, "%u, ", t->experts);
        if (t->rank >= 2)
            dop_buf_printf(&header, "%u, ", t->rows);
        dop_buf_printf(&header, "%u], \"data_offsets\": [%zu, %zu]}", t->cols, data.size, data.size + bytes);
        dop_buf_append(&data, t->v, bytes);
    }
    dop_buf_puts(&header, "}");
    dop_buf out = st_bytes(header.data, header.size, header.size, data.data, data.size);
    scratch_write(s, "model.safetensors", out.data, out.size);
    dop_buf_printf(
        &config,
        "{\"architectures\": [\"Gemma4ForCausalLM\"], \"model_type\": \"gemma4_text\", \"hidden_size\": %d, "
        "\"num_hidden_layers\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d, "
        "\"num_global_key_value_heads\": %d, \"head_dim\": %d, \"global_head_dim\": %d, "
        "\"intermediate_size\": %d, \"hidden_size_per_layer_input\": %d, \"vocab_size\": %d, "
        "\"vocab_size_per_layer_input\": %d, \"sliding_window\": %d, \"attention_k_eq_v\": %s, "
        "\"num_kv_shared_layers\": %u, \"use_double_wide_mlp\": true, \"final_logit_softcapping\": %.1f, "
        "\"max_position_embeddings\": 64, \"rms_norm_eps\": 1e-6, \"bos_token_id\": 1, \"eos_token_id\": 2, "
        "\"rope_parameters\": {\"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 10000.0}, "
        "\"full_attention\": {\"rope_type\": \"proportional\", \"rope_theta\": 1000000.0, "
        "\"partial_rotary_factor\": 0.25}}, \"enable_moe_block\": %s, \"num_experts\": %d, \"top_k_experts\": %d, "
        "\"moe_intermediate_size\": %d, \"layer_types\": [",
        HIDDEN, LAYERS, HEADS, KV, WIDE_KV, DIM, WIDE_DIM, FFN, INPUT, VOCAB, VOCAB, WINDOW,
        m->k_is_v ? "true" : "false", m->shared, cap, m->experts ? "true" : "false", EXPERTS, ACTIVE, EXPERT);
    for (uint32_t i = 0; i < LAYERS; i++)
        dop_buf_printf(&config, "%s\"%s_attention\"", i ? ", " : "", full[i] ? "full" : "sliding");
    dop_buf_puts(&config, "]}");
    scratch_text(s, "config.json", config.data);
    dop_buf_finish(&header);
    dop_buf_finish(&data);
    dop_buf_finish(&config);
    dop_buf_finish(&out);
}

/* ---- the formulas ------------------------------------------------------------------------------------------------- */

static const float *
find(const model *m, const char *format, ...)
{
    char name[96];
    va_list ap;
    va_start(ap, format);
    vsnprintf(name, sizeof name, format, ap);
    va_end(ap);
    for (uint32_t i = 0; i < m->n; i++)
        if (strcmp(m->tensors[i].name, name) == 0)
            return m->tensors[i].v;
    cr_assert_fail("no tensor %s", name);
    return NULL;
}

static void
multiply(const float *w, uint32_t rows, uint32_t cols, const double *x, double *out)
{
    for (uint32_t r = 0; r < rows; r++) {
        out[r] = 0;
        for (uint32_t c = 0; c < cols; c++)
            out[r] += (double)w[(size_t)r * cols + c] * x[c];
    }
}

/* w NULL: without weights. */
static void
rms_norm(const float *w, uint32_t n, const double *x, double *out)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (uint32_t i = 0; i < n; i++)
        out[i] = x[i] / sqrt(sum / n + eps) * (w ? (double)w[i] : 1);
}

static void
turn(double *x, uint32_t dim, uint32_t position, bool wide)
{
    for (uint32_t i = 0; i < dim / 2; i++) {
        const double freq = !wide         ? pow(10000, -2.0 * i / dim)
                            : i < dim / 8 ? pow(1e6, -2.0 * i / dim)
                                          : 0; /* a quarter of the head turns */
        const double c = cos(position * freq), s = sin(position * freq), a = x[i], b = x[i + dim / 2];
        x[i] = a * c - b * s;
        x[i + dim / 2] = b * c + a * s;
    }
}

static double
gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

typedef struct pass {
    const model *m;
    double x[N][HIDDEN], inputs[N][LAYERS][INPUT];
    double k[LAYERS][N][KV * WIDE_DIM], v[LAYERS][N][KV * WIDE_DIM];
} pass;

/* Whose keys and values the layer takes: those of the last layer of its type that has some. */
static uint32_t
source(const model *m, uint32_t layer)
{
    if (!shares(m, layer))
        return layer;
    uint32_t from = LAYERS - m->shared - 1;
    while (full[from] != full[layer])
        from--;
    return from;
}

static void
make_keys(pass *p, uint32_t i, uint32_t t, const double *in)
{
    const model *m = p->m;
    const uint32_t d = full[i] ? WIDE_DIM : DIM, heads = kv_heads(m, i);
    double k[KV * WIDE_DIM], v[KV * WIDE_DIM];
    multiply(find(m, "model.layers.%u.self_attn.k_proj.weight", i), heads * d, HIDDEN, in, k);
    if (m->k_is_v && full[i])
        memcpy(v, k, sizeof v);
    else
        multiply(find(m, "model.layers.%u.self_attn.v_proj.weight", i), heads * d, HIDDEN, in, v);
    for (uint32_t h = 0; h < heads; h++) {
        rms_norm(find(m, "model.layers.%u.self_attn.k_norm.weight", i), d, k + h * d, p->k[i][t] + h * d);
        turn(p->k[i][t] + h * d, d, t, full[i]);
        rms_norm(NULL, d, v + h * d, p->v[i][t] + h * d);
    }
}

static void
attend(pass *p, uint32_t i, uint32_t t, const double *in, double *out)
{
    const model *m = p->m;
    const uint32_t d = full[i] ? WIDE_DIM : DIM, from = source(m, i), group = HEADS / kv_heads(m, i);
    const uint32_t first = !full[i] && t + 1 > WINDOW ? t + 1 - WINDOW : 0;
    double q[HEADS * WIDE_DIM], y[HEADS * WIDE_DIM] = {0}, head[WIDE_DIM];
    multiply(find(m, "model.layers.%u.self_attn.q_proj.weight", i), HEADS * d, HIDDEN, in, q);
    for (uint32_t h = 0; h < HEADS; h++) {
        double scores[N], top = -INFINITY, sum = 0;
        rms_norm(find(m, "model.layers.%u.self_attn.q_norm.weight", i), d, q + h * d, head);
        turn(head, d, t, full[i]);
        for (uint32_t s = first; s <= t; s++) {
            scores[s] = 0; /* scaling is 1 */
            for (uint32_t c = 0; c < d; c++)
                scores[s] += head[c] * p->k[from][s][h / group * d + c];
            top = fmax(top, scores[s]);
        }
        for (uint32_t s = first; s <= t; s++)
            sum += exp(scores[s] - top);
        for (uint32_t s = first; s <= t; s++)
            for (uint32_t c = 0; c < d; c++)
                y[h * d + c] += exp(scores[s] - top) / sum * p->v[from][s][h / group * d + c];
    }
    multiply(find(m, "model.layers.%u.self_attn.o_proj.weight", i), HIDDEN, HEADS * d, y, out);
}

static void
add_normed(const pass *p, uint32_t i, const char *norm, const double *y, double *x)
{
    double normed[HIDDEN];
    rms_norm(find(p->m, "model.layers.%u.%s.weight", i, norm), HIDDEN, y, normed);
    for (uint32_t c = 0; c < HIDDEN; c++)
        x[c] += normed[c];
}

/* Gemma4TextRouter: softmax of all experts' scores, the best, divided by their sum, times a value of each. */
static void
route(const model *m, uint32_t i, const double *x, uint32_t *ids, double *weights)
{
    double in[HIDDEN], scores[EXPERTS], sum = 0;
    rms_norm(NULL, HIDDEN, x, in);
    for (uint32_t c = 0; c < HIDDEN; c++)
        in[c] *= (double)find(m, "model.layers.%u.router.scale", i)[c] / sqrt(HIDDEN);
    multiply(find(m, "model.layers.%u.router.proj.weight", i), EXPERTS, HIDDEN, in, scores);
    for (uint32_t e = 0; e < EXPERTS; e++)
        sum += scores[e] = exp(scores[e]);
    double best = 0;
    for (uint32_t k = 0; k < ACTIVE; k++) {
        ids[k] = 0;
        for (uint32_t e = 1; e < EXPERTS; e++)
            if (scores[e] > scores[ids[k]])
                ids[k] = e;
        best += weights[k] = scores[ids[k]] / sum;
        scores[ids[k]] = -1;
    }
    for (uint32_t k = 0; k < ACTIVE; k++)
        weights[k] = weights[k] / best * (double)find(m, "model.layers.%u.router.per_expert_scale", i)[ids[k]];
}

/* Gemma4TextDecoderLayer with enable_moe_block: y becomes the normed sum of the dense part's and the experts' results. */
static void
mix_experts(const pass *p, uint32_t i, const double *x, double *y)
{
    const model *m = p->m;
    uint32_t ids[ACTIVE];
    double weights[ACTIVE], in[HIDDEN], gate_up[2 * EXPERT], down[HIDDEN], sum[HIDDEN] = {0}, dense[HIDDEN];
    memcpy(dense, y, sizeof dense);
    route(m, i, x, ids, weights);
    rms_norm(find(m, "model.layers.%u.pre_feedforward_layernorm_2.weight", i), HIDDEN, x, in);
    for (uint32_t k = 0; k < ACTIVE; k++) {
        multiply(find(m, "model.layers.%u.experts.gate_up_proj", i) + (size_t)ids[k] * 2 * EXPERT * HIDDEN, 2 * EXPERT,
                 HIDDEN, in, gate_up);
        for (uint32_t c = 0; c < EXPERT; c++)
            gate_up[c] = gelu(gate_up[c]) * gate_up[EXPERT + c];
        multiply(find(m, "model.layers.%u.experts.down_proj", i) + (size_t)ids[k] * HIDDEN * EXPERT, HIDDEN, EXPERT,
                 gate_up, down);
        for (uint32_t c = 0; c < HIDDEN; c++)
            sum[c] += weights[k] * down[c];
    }
    rms_norm(find(m, "model.layers.%u.post_feedforward_layernorm_1.weight", i), HIDDEN, dense, y);
    rms_norm(find(m, "model.layers.%u.post_feedforward_layernorm_2.weight", i), HIDDEN, sum, down);
    for (uint32_t c = 0; c < HIDDEN; c++)
        y[c] += down[c];
}

static void
layer(pass *p, uint32_t i, uint32_t t)
{
    const model *m = p->m;
    const uint32_t n = width(m, i);
    double in[HIDDEN], y[HIDDEN], gate[2 * FFN], up[2 * FFN], *x = p->x[t];
    rms_norm(find(m, "model.layers.%u.input_layernorm.weight", i), HIDDEN, x, in);
    if (!shares(m, i))
        make_keys(p, i, t, in);
    attend(p, i, t, in, y);
    add_normed(p, i, "post_attention_layernorm", y, x);
    rms_norm(find(m, "model.layers.%u.pre_feedforward_layernorm.weight", i), HIDDEN, x, in);
    multiply(find(m, "model.layers.%u.mlp.gate_proj.weight", i), n, HIDDEN, in, gate);
    multiply(find(m, "model.layers.%u.mlp.up_proj.weight", i), n, HIDDEN, in, up);
    for (uint32_t c = 0; c < n; c++)
        up[c] *= gelu(gate[c]);
    multiply(find(m, "model.layers.%u.mlp.down_proj.weight", i), HIDDEN, n, up, y);
    if (m->experts)
        mix_experts(p, i, x, y);
    add_normed(p, i, "post_feedforward_layernorm", y, x);
    multiply(find(m, "model.layers.%u.per_layer_input_gate.weight", i), INPUT, HIDDEN, x, gate);
    for (uint32_t c = 0; c < INPUT; c++)
        gate[c] = gelu(gate[c]) * p->inputs[t][i][c];
    multiply(find(m, "model.layers.%u.per_layer_projection.weight", i), HIDDEN, INPUT, gate, y);
    add_normed(p, i, "post_per_layer_input_norm", y, x);
    for (uint32_t c = 0; c < HIDDEN; c++)
        x[c] *= (double)find(m, "model.layers.%u.layer_scalar", i)[0];
}

/* Logits of every position. */
static void
compute(const model *m, const uint32_t *tokens, double *logits)
{
    pass *p = calloc(1, sizeof *p);
    p->m = m;
    for (uint32_t t = 0; t < N; t++) {
        double projected[LAYERS * INPUT], normed[INPUT], last[HIDDEN];
        const float *own = find(m, "model.embed_tokens_per_layer.weight") + (size_t)tokens[t] * LAYERS * INPUT;
        for (uint32_t c = 0; c < HIDDEN; c++)
            p->x[t][c] = (double)find(m, "model.embed_tokens.weight")[tokens[t] * HIDDEN + c] * sqrt(HIDDEN);
        multiply(find(m, "model.per_layer_model_projection.weight"), LAYERS * INPUT, HIDDEN, p->x[t], projected);
        for (uint32_t i = 0; i < LAYERS; i++) {
            for (uint32_t c = 0; c < INPUT; c++)
                projected[i * INPUT + c] /= sqrt(HIDDEN);
            rms_norm(find(m, "model.per_layer_projection_norm.weight"), INPUT, projected + i * INPUT, normed);
            for (uint32_t c = 0; c < INPUT; c++)
                p->inputs[t][i][c] = (normed[c] + (double)own[i * INPUT + c] * sqrt(INPUT)) / sqrt(2);
        }
        for (uint32_t i = 0; i < LAYERS; i++)
            layer(p, i, t);
        rms_norm(find(m, "model.norm.weight"), HIDDEN, p->x[t], last);
        multiply(find(m, "model.embed_tokens.weight"), VOCAB, HIDDEN, last, logits + (size_t)t * VOCAB);
        for (uint32_t c = 0; c < VOCAB; c++)
            logits[t * VOCAB + c] = cap * tanh(logits[t * VOCAB + c] / cap);
    }
    free(p);
}

/* ---- comparison --------------------------------------------------------------------------------------------------- */

static void
expect_logits(const char *what, const float *got, const double *want, uint32_t rows)
{
    double worst = 0;
    for (uint32_t i = 0; i < rows * VOCAB; i++)
        worst = fmax(worst, fabs((double)got[i] - want[i]));
    cr_expect(worst < 2e-5, "%s: worst logit differs by %.3g", what, worst);
}

/* All rows at once, and in steps: 7, then one by one. */
static void
compare(const char *what, const char *path, const uint32_t *tokens, const double *want)
{
    float *got = calloc((size_t)N * VOCAB, sizeof *got);
    util_model u;
    util_model_open(&u, path, 32);
    util_step(&u, DOP_PHASE_SCORE, tokens, N, 0, got);
    expect_logits(what, got, want, N);
    util_model_close(&u);
    util_model_open(&u, path, 32);
    util_step(&u, DOP_PHASE_PREFILL, tokens, 7, 0, got);
    expect_logits(what, got, want + 6 * VOCAB, 1);
    for (uint32_t t = 7; t < N; t++) {
        util_step(&u, DOP_PHASE_DECODE, tokens + t, 1, t, got);
        expect_logits(what, got, want + (size_t)t * VOCAB, 1);
    }
    util_model_close(&u);
    free(got);
}

Test(layer_inputs, logits_follow_from_the_formulas)
{
    static const uint32_t tokens[N] = {1, 17, 4, 39, 22, 8, 8, 31, 0, 12, 27, 5};
    static const struct {
        const char *what;
        bool k_is_v;
        uint32_t shared;
        bool experts;
    } cases[] = {{"nothing shared", false, 0, false},
                 {"three layers share", false, 3, false},
                 {"values are keys", true, 2, false},
                 {"experts", true, 0, true}};
    double *want = calloc((size_t)N * VOCAB, sizeof *want);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        scratch s = scratch_make();
        gguf_writer w = {0};
        char error[200] = "", what[64];
        model *m = calloc(1, sizeof *m);
        *m = (model){.k_is_v = cases[i].k_is_v, .shared = cases[i].shared, .experts = cases[i].experts};
        make(m);
        save(m, &s);
        compute(m, tokens, want);
        compare(cases[i].what, s.dir, tokens, want);
        cr_assert(hf_to_gguf(s.dir, true, &w, error, sizeof error), "%s", error);
        cr_assert(gguf_save(&w, scratch_path(&s, "model.gguf")));
        snprintf(what, sizeof what, "%s, as GGUF", cases[i].what);
        compare(what, scratch_path(&s, "model.gguf"), tokens, want);
        for (uint32_t k = 0; k < m->n; k++)
            free(m->tensors[k].v);
        free(m);
        scratch_remove(&s);
    }
    free(want);
}
