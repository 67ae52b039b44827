/* What every kind of rotary embedding makes of a model's queries and keys, from config.json to the graph's values, against
 * formulas written here once more, after transformers' modeling_rope_utils.py and apply_rotary_pos_emb.  The interpreter
 * gives the values before and after the rotation. */
#include "tests/unit/import_util.h"
#include "tests/unit/model_util.h"

#include <math.h>

enum { N = 5, FIRST = 37, MAX_DIM = 32, OLD = 48 }; /* rows, the first one's position; OLD: context before scaling */
enum { CTX = 512 };                                 /* after it */

typedef enum kind { NONE, LINEAR, LLAMA3, YARN, YARN_MSCALE, YARN_UNTRUNCATED, LONGROPE, PROPORTIONAL, N_KINDS } kind;

static const char *const fields[N_KINDS] = {
    [NONE] = "\"rope_type\": \"default\"",
    [LINEAR] = "\"rope_type\": \"linear\", \"factor\": 2.5",
    [LLAMA3] = "\"rope_type\": \"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
               "\"original_max_position_embeddings\": 48",
    [YARN] = "\"rope_type\": \"yarn\", \"factor\": 4.0, \"beta_fast\": 4.0, \"beta_slow\": 1.0, "
             "\"original_max_position_embeddings\": 48",
    [YARN_MSCALE] =
        "\"rope_type\": \"yarn\", \"factor\": 4.0, \"beta_fast\": 4.0, \"beta_slow\": 1.0, \"mscale\": 0.7, "
        "\"mscale_all_dim\": 1.3, \"original_max_position_embeddings\": 48",
    [YARN_UNTRUNCATED] = "\"rope_type\": \"yarn\", \"factor\": 4.0, \"beta_fast\": 4.0, \"beta_slow\": 1.0, "
                         "\"truncate\": false, \"original_max_position_embeddings\": 48",
    [LONGROPE] = "\"rope_type\": \"longrope\", \"original_max_position_embeddings\": 48",
    [PROPORTIONAL] = "\"rope_type\": \"proportional\", \"factor\": 2.0",
};

typedef struct variant {
    kind kind;
    uint32_t head, dims; /* values of a head, and those that rotate (or have a frequency, 0 for the last ones) */
    double theta, partial;
    uint32_t positions; /* that the cache holds */
    bool pairs;
} variant;

/* Factors of LongRoPE by pair. */
static double
longrope_factor(bool longer, uint32_t i)
{
    return longer ? 2.0 + i : 1 + 0.125 * i;
}

/* Positions after which pair i has turned once. */
static double
wavelength(const variant *v, uint32_t i)
{
    return 2 * M_PI * pow(v->theta, 2.0 * i / v->dims);
}

/* The pair that turns b times within the old context. */
static double
yarn_pair(const variant *v, double b)
{
    return v->dims * log(OLD / (b * 2 * M_PI)) / (2 * log(v->theta));
}

static double
frequency(const variant *v, uint32_t i)
{
    const double f = 1 / pow(v->theta, 2.0 * i / v->dims), length = wavelength(v, i);
    double low, high, keep;
    switch (v->kind) {
    case LINEAR:
        return f / 2.5;
    case LLAMA3: /* kept below a quarter of the old context, divided above it, in between by how often it turns */
        if (length < OLD / 4.0 || length > OLD)
            return length > OLD ? f / 8 : f;
        keep = (OLD / length - 1) / (4 - 1);
        return (1 - keep) * f / 8 + keep * f;
    case YARN:
    case YARN_MSCALE:
    case YARN_UNTRUNCATED:
        low = yarn_pair(v, 4);
        high = yarn_pair(v, 1);
        if (v->kind != YARN_UNTRUNCATED) {
            low = floor(low);
            high = ceil(high);
        }
        low = low < 0 ? 0 : low;
        high = high > v->dims - 1 ? v->dims - 1 : high;
        high = low == high ? high + 0.001 : high;
        keep = 1 - (i < low ? 0 : i > high ? 1 : (i - low) / (high - low));
        return f / 4 * (1 - keep) + f * keep;
    case LONGROPE:
        return f / longrope_factor(v->positions > OLD, i);
    case PROPORTIONAL: /* of the whole head's frequencies the first ones */
        return i < (uint32_t)(v->partial * v->head / 2) ? f / 2 : 0;
    default:
        return f;
    }
}

/* Of cosines and sines. */
static double
amplitude(kind k)
{
    switch (k) {
    case YARN:
    case YARN_UNTRUNCATED:
        return 0.1 * log(4) + 1;
    case YARN_MSCALE:
        return (0.1 * 0.7 * log(4) + 1) / (0.1 * 1.3 * log(4) + 1);
    case LONGROPE:
        return sqrt(1 + log((double)CTX / OLD) / log(OLD));
    default:
        return 1;
    }
}

/* A head at a position. */
static void
turn(const variant *v, uint32_t position, const float *x, double *out)
{
    for (uint32_t c = 0; c < v->head; c++)
        out[c] = (double)x[c];
    for (uint32_t i = 0; i < v->dims / 2; i++) {
        const uint32_t a = v->pairs ? 2 * i : i, b = v->pairs ? a + 1 : i + v->dims / 2;
        const double angle = position * frequency(v, i), m = amplitude(v->kind);
        out[a] = m * ((double)x[a] * cos(angle) - (double)x[b] * sin(angle));
        out[b] = m * ((double)x[b] * cos(angle) + (double)x[a] * sin(angle));
    }
}

static const dop_tensor *
value(util_model *u, const dop_graph *g, dop_interp *it, const char *name)
{
    const dop_tensor *out = NULL;
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        if (strcmp(g->nodes[id].name, name) == 0)
            util_ok(u, dop_interp_eval(it, id, &u->diag, &out), name);
    return out;
}

typedef struct step {
    uint32_t first; /* position of the first row */
    util_model u;
    dop_arena arena;
    dop_graph g;
    dop_interp *it;
} step;

/* N rows from a position on of the model in a directory. */
static void
step_open_at(step *s, const char *dir, uint32_t positions, uint32_t first)
{
    static const uint32_t tokens[N] = {5, 90, 17, 301, 44};
    dop_build_options opt = {
        .phase = DOP_PHASE_SCORE, .max_t = N, .max_s = positions, .kv_type = DOP_TYPE_f32, .act_type = DOP_TYPE_f32};
    s->first = first;
    util_model_open(&s->u, dir, positions);
    dop_arena_init(&s->arena);
    util_ok(&s->u, dop_build_graph(&s->u.m, &opt, &s->arena, &s->u.diag, &s->g), dir);
    util_ok(&s->u, dop_checkpoint_leaves_step(s->u.leaves, tokens, N, first, &s->u.diag), dir);
    dop_leaf_provider leaves = dop_checkpoint_leaves_provider(s->u.leaves);
    util_ok(&s->u, dop_interp_create(&s->g, N, &leaves, &s->u.diag, &s->it), dir);
}

static void
step_open(step *s, const char *dir, uint32_t positions)
{
    step_open_at(s, dir, positions, FIRST);
}

static void
step_close(step *s)
{
    dop_interp_destroy(s->it);
    dop_arena_finish(&s->arena);
    util_model_close(&s->u);
}

/* Heads of every row of `after` are those of `before`, turned, and times by[row]. */
static void
expect_turned(step *s, const variant *v, const char *what, const char *before, const char *after, const double *by)
{
    const dop_tensor *x = value(&s->u, &s->g, s->it, before), *y = value(&s->u, &s->g, s->it, after);
    cr_assert(x && y && x->count == y->count && x->count % (N * v->head) == 0, "%s: %s, %s", what, before, after);
    const uint32_t heads = (uint32_t)(x->count / N / v->head);
    double worst = 0, most = 0, want[MAX_DIM];
    for (uint32_t k = 0; k < N * heads; k++) {
        turn(v, s->first + k / heads, x->f + (size_t)k * v->head, want);
        for (uint32_t c = 0; c < v->head; c++) {
            const double w = want[c] * (by ? by[k / heads] : 1);
            worst = fmax(worst, fabs(w - (double)y->f[(size_t)k * v->head + c]));
            most = fmax(most, fabs(w));
        }
    }
    cr_expect(worst < 2e-6 * most, "%s, %s: differs by %.3g of %.3g", what, after, worst, most);
}

static void
config_of(const variant *v, dop_buf *out)
{
    dop_buf_printf(out,
                   "{\"head_dim\": %u, \"num_attention_heads\": %u, \"num_key_value_heads\": %u, "
                   "\"max_position_embeddings\": %d, \"rope_parameters\": {\"rope_theta\": %.1f, "
                   "\"partial_rotary_factor\": %.3f, %s",
                   v->head, 64 / v->head, 32 / v->head, CTX, v->theta, v->partial, fields[v->kind]);
    for (int longer = 0; v->kind == LONGROPE && longer < 2; longer++) {
        dop_buf_printf(out, ", \"%s\": [", longer ? "long_factor" : "short_factor");
        for (uint32_t i = 0; i < v->dims / 2; i++)
            dop_buf_printf(out, "%s%.3f", i ? ", " : "", longrope_factor(longer, i));
        dop_buf_puts(out, "]");
    }
    dop_buf_puts(out, "}}");
}

/* Every kind, in halves and in pairs, for several head sizes of which all or a part rotates. */
Test(rope_variants, every_kind_of_heads)
{
    static const char *const models[] = {"llama", "ernie4_5"}; /* halves, pairs */
    scratch s = scratch_make();
    unsigned n = 0;
    for (uint32_t i = 0; i < 2 * 3 * 2 * 2 * N_KINDS; i++) {
        variant v = {.kind = (kind)(i % N_KINDS),
                     .pairs = i / N_KINDS % 2,
                     .partial = i / N_KINDS / 2 % 2 ? 0.5 : 1,
                     .head = 8u << i / N_KINDS / 4 % 3,
                     .positions = i / N_KINDS / 12 ? 80 : OLD,
                     .theta = i / N_KINDS / 12 ? 500000 : 10000};
        v.dims = v.kind == PROPORTIONAL ? v.head : (uint32_t)(v.head * v.partial);
        dop_buf patch = {0}, what = {0};
        config_of(&v, &patch);
        dop_buf_printf(&what, "%s %s, %u positions", models[v.pairs], patch.data, v.positions);
        scratch_config(&s, models[v.pairs], patch.data);
        scratch_tensors(&s, models[v.pairs], "{}");
        step st;
        step_open(&st, s.dir, v.positions);
        expect_turned(&st, &v, what.data, "L0.qh", "L0.qr", NULL);
        expect_turned(&st, &v, what.data, "L0.kh", "L0.kr", NULL);
        step_close(&st);
        dop_buf_finish(&patch);
        dop_buf_finish(&what);
        n++;
    }
    cr_expect_eq(n, 192);
    scratch_remove(&s);
}

/* Of long contexts there is no row for each position: the same values, across a multiple of the low part and near the end. */
Test(rope_variants, every_kind_of_long_contexts)
{
    static const char *const models[] = {"llama", "ernie4_5"};
    enum { LONG = 2000000 };
    cr_expect_eq(dop_rope_rows(DOP_ROPE_FULL), DOP_ROPE_FULL);
    cr_expect(dop_rope_rows(LONG) < 3000 && dop_rope_low(LONG) == DOP_ROPE_LOW);
    scratch s = scratch_make();
    for (uint32_t i = 0; i < 2 * N_KINDS; i++) {
        variant v = {.kind = (kind)(i % N_KINDS), .pairs = i / N_KINDS, .partial = 0.5, .head = 16, .theta = 500000};
        v.positions = (i + v.pairs) % 2 ? LONG : DOP_ROPE_FULL + 1;
        v.dims = v.kind == PROPORTIONAL ? v.head : (uint32_t)(v.head * v.partial);
        dop_buf patch = {0};
        config_of(&v, &patch);
        scratch_config(&s, models[v.pairs], patch.data);
        scratch_tensors(&s, models[v.pairs], "{}");
        step st;
        step_open_at(&st, s.dir, v.positions, i / 2 % 2 ? v.positions - N : 7 * DOP_ROPE_LOW - 2);
        expect_turned(&st, &v, patch.data, "L0.qh", "L0.qr", NULL);
        expect_turned(&st, &v, patch.data, "L0.kh", "L0.kr", NULL);
        step_close(&st);
        dop_buf_finish(&patch);
    }
    scratch_remove(&s);
}

/* Layers of two types have an embedding each; without rope_parameters the fields outside say so. */
Test(rope_variants, by_layer_type)
{
    static const char *const patches[] = {
        "{\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\", \"factor\": 2.5, \"rope_theta\": "
        "200000.0}, \"sliding_attention\": {\"rope_type\": \"default\", \"rope_theta\": 3000.0}}}",
        "{\"rope_parameters\": \"<delete>\", \"rope_theta\": 200000.0, \"rope_local_base_freq\": 3000.0, "
        "\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.5}}",
    };
    const variant full = {.kind = LINEAR, .head = 16, .dims = 16, .theta = 200000},
                  local = {.kind = NONE, .head = 16, .dims = 16, .theta = 3000};
    scratch s = scratch_make();
    for (size_t i = 0; i < sizeof patches / sizeof *patches; i++) {
        step st;
        scratch_config(&s, "gemma3", patches[i]);
        scratch_tensors(&s, "gemma3", "{}");
        step_open(&st, s.dir, OLD);
        expect_turned(&st, &local, patches[i], "L0.qn", "L0.qr", NULL);
        expect_turned(&st, &local, patches[i], "L6.kn", "L6.kr", NULL);
        expect_turned(&st, &full, patches[i], "L5.qn", "L5.qr", NULL);
        expect_turned(&st, &full, patches[i], "L5.kn", "L5.kr", NULL);
        step_close(&st);
    }
    scratch_remove(&s);
}

/* Layers that do not rotate at all, and those whose queries grow with the position instead. */
Test(rope_variants, none_and_temperature)
{
    const variant smol = {.kind = NONE, .head = 16, .dims = 16, .theta = 3000},
                  llama4 = {.kind = NONE, .head = 16, .dims = 16, .theta = 500000, .pairs = true},
                  still = {.kind = NONE, .head = 16, .dims = 0};
    double by[N];
    for (uint32_t t = 0; t < N; t++) /* Llama4TextAttention: attn_scale and floor_scale of the golden model */
        by[t] = 1 + 0.1 * log(floor((FIRST + t + 1) / 16.0) + 1);
    cr_assert(by[0] != by[N - 1] || by[0] > 1);
    scratch s = scratch_make();
    step st;
    scratch_config(&s, "smollm3_nope",
                   "{\"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 3000.0}, \"rope_theta\": "
                   "\"<delete>\"}");
    scratch_tensors(&s, "smollm3_nope", "{}");
    step_open(&st, s.dir, OLD);
    expect_turned(&st, &smol, "smollm3", "L0.qh", "L0.qr", NULL);
    cr_expect_null(value(&st.u, &st.g, st.it, "L3.qr"));
    cr_expect_not_null(value(&st.u, &st.g, st.it, "L3.qh"));
    step_close(&st);
    scratch_config(&s, "smollm3_nope",
                   "{\"no_rope_layers\": \"<delete>\", \"no_rope_layer_interval\": 1}"); /* no layer rotates */
    step_open(&st, s.dir, OLD);
    for (uint32_t i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "L%u.qr", i);
        cr_expect_null(value(&st.u, &st.g, st.it, name));
    }
    step_close(&st);
    step_open(&st, GOLDEN "/llama4_text", OLD);
    expect_turned(&st, &llama4, "llama4", "L0.qh", "L0.qr", NULL);
    expect_turned(&st, &still, "llama4", "L3.qh", "L3.qt", by);
    cr_expect_null(value(&st.u, &st.g, st.it, "L3.qr"));
    cr_expect_null(value(&st.u, &st.g, st.it, "L0.qt"));
    step_close(&st);
    scratch_remove(&s);
}
