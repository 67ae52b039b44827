/* Shared by the tests of importers and builder: a model and its expected.json, steps through the reference
 * interpreter. */
#ifndef DOPPLER_TESTS_UNIT_MODEL_UTIL_H
#define DOPPLER_TESTS_UNIT_MODEL_UTIL_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/json_util.h"
#include "frontend/build/build.h"
#include "ir/graph/dims.h"
#include "ir/syntax/text.h"
#include "tests/unit/checkpoint_leaves.h"

enum { UTIL_MAX_IDS = 512 };

typedef struct util_ids {
    uint32_t n;
    uint32_t id[UTIL_MAX_IDS];
} util_ids;

/* A loaded model with everything to run it. */
typedef struct util_model {
    dop_arena arena;
    dop_diag diag;
    dop_checkpoint m;
    dop_checkpoint_leaves *leaves;
    uint32_t max_s;
    dop_type kv_type, act_type;
    bool round_storage;
    double
        choice_gap; /* least distance of scores on both sides of a choice of experts, of all steps; infinite: no choice */
} util_model;

static inline void
util_ok(const util_model *u, dop_status st, const char *what)
{
    cr_assert_eq(st, DOP_OK, "%s: %s: %s", what, u->diag.path, u->diag.message);
}

static inline void
util_model_open(util_model *u, const char *path, uint32_t max_s)
{
    *u = (util_model){.choice_gap = INFINITY, .max_s = max_s, .kv_type = DOP_TYPE_f32, .act_type = DOP_TYPE_f32};
    dop_arena_init(&u->arena);
    util_ok(u, dop_checkpoint_load(path, &u->arena, &u->diag, &u->m), path);
    util_ok(u, dop_checkpoint_leaves_create(&u->m, &u->diag, &u->leaves), path);
}

static inline void
util_model_close(util_model *u)
{
    dop_checkpoint_leaves_destroy(u->leaves);
    dop_checkpoint_finish(&u->m);
    dop_arena_finish(&u->arena);
}

/* Remembers the least distance between the score of an expert that was chosen and of one that was not: what other orders of
 * summation may turn around.  (Where the best of several groups are chosen, only if the scores decided.) */
static inline void
util_choices(util_model *u, const dop_graph *g, dop_interp *it)
{
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        const dop_tensor *x, *ids;
        if (g->nodes[id].op != DOP_OP_top_k)
            continue;
        util_ok(u, dop_interp_eval(it, g->nodes[id].src[0], &u->diag, &x), "scores");
        util_ok(u, dop_interp_eval(it, id, &u->diag, &ids), "choice");
        const uint64_t k = dop_node_cols(g, id), cols = dop_node_cols(g, g->nodes[id].src[0]);
        for (uint64_t t = 0; t < ids->count / k; t++) {
            float chosen = INFINITY, other = -INFINITY;
            for (uint64_t c = 0; c < cols; c++) {
                bool is = false;
                for (uint64_t j = 0; j < k; j++)
                    is = is || ids->u[t * k + j] == c;
                const float v = x->f[t * cols + c];
                chosen = is && v < chosen ? v : chosen;
                other = !is && v > other ? v : other;
            }
            const double gap = (double)chosen - (double)other;
            u->choice_gap = gap >= 0 && gap < u->choice_gap ? gap : u->choice_gap;
        }
    }
}

/* One step of `phase` over n tokens from position `first`; copies the logits (rows x vocab) to `logits` and gives the
 * arg-max of the last row. */
static inline uint32_t
util_step(util_model *u, dop_phase phase, const uint32_t *tokens, uint32_t n, uint32_t first, float *logits)
{
    dop_graph g;
    dop_interp *it = NULL;
    const dop_tensor *out = NULL;
    dop_arena arena;
    dop_arena_init(&arena);
    dop_build_options opt = {
        .phase = phase, .max_t = n, .max_s = u->max_s, .kv_type = u->kv_type, .act_type = u->act_type};
    util_ok(u, dop_build_graph(&u->m, &opt, &arena, &u->diag, &g), "build");
    util_ok(u, dop_graph_verify(&g, "build", &u->diag), "verify");
    util_ok(u, dop_checkpoint_leaves_step(u->leaves, tokens, n, first, &u->diag), "step");
    dop_leaf_provider leaves = dop_checkpoint_leaves_provider(u->leaves);
    util_ok(u, dop_interp_create(&g, n, &leaves, &u->diag, &it), "interpreter");
    dop_interp_round_storage(it, u->round_storage);
    util_ok(u, dop_interp_eval(it, g.outs[0], &u->diag, &out), "logits");
    const uint32_t rows = phase == DOP_PHASE_SCORE ? n : 1;
    cr_assert_eq(out->count, (uint64_t)rows * u->m.arch.vocab);
    const float *last = out->f + (size_t)(rows - 1) * u->m.arch.vocab;
    uint32_t best = 0;
    for (uint32_t i = 1; i < u->m.arch.vocab; i++)
        if (last[i] > last[best])
            best = i;
    if (logits)
        memcpy(logits, out->f, out->count * sizeof *logits);
    if (phase != DOP_PHASE_SCORE) {
        util_ok(u, dop_interp_eval(it, g.outs[1], &u->diag, &out), "arg-max");
        cr_assert(out->u && out->count == 1 && out->u[0] == best, "arg-max %u, expected %u", out->u[0], best);
    }
    util_choices(u, &g, it);
    /* every cache too, or the next step would read zeros */
    for (uint32_t i = 0; i < g.n_outs; i++)
        util_ok(u, dop_interp_eval(it, g.outs[i], &u->diag, &out), g.nodes[g.outs[i]].name);
    for (uint32_t i = 0; i < g.n_outs; i++) { /* caches are written in place, what replaces a state is a copy */
        const dop_node *w = &g.nodes[g.outs[i]];
        const dop_tensor *state;
        if (w->op != DOP_OP_state_write || dop_shape_appends(&w->shape))
            continue;
        util_ok(u, dop_interp_eval(it, g.outs[i], &u->diag, &out), w->name);
        util_ok(u, dop_interp_eval(it, w->src[0], &u->diag, &state), w->name);
        memcpy(state->f, out->f, out->count * sizeof *out->f);
    }
    dop_interp_destroy(it);
    dop_arena_finish(&arena);
    return best;
}

static inline json_t *
util_json_open(const char *path)
{
    json_error_t err;
    json_t *root = json_load_file(path, 0, &err);
    cr_assert(root, "%s:%d: %s", path, err.line, err.text);
    return root;
}

static inline util_ids
util_ids_of(const json_t *list)
{
    util_ids ids = {.n = (uint32_t)json_array_size(list)};
    cr_assert(json_is_array(list) && ids.n > 0 && ids.n <= UTIL_MAX_IDS);
    for (uint32_t i = 0; i < ids.n; i++)
        ids.id[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

/* Largest difference of n values of which none may be NaN. */
static inline double
util_worst(const float *a, const float *b, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= worst))
            worst = isnan(d) ? INFINITY : d;
    }
    return worst;
}

static inline float *
util_floats(const char *path, size_t n)
{
    FILE *f = fopen(path, "rb");
    cr_assert(f, "cannot open %s", path);
    float *v = malloc(n * sizeof *v);
    cr_assert(v && fread(v, sizeof *v, n, f) == n, "%s is too short", path);
    cr_assert(fgetc(f) == EOF, "%s is too long", path);
    fclose(f);
    return v;
}

#endif
