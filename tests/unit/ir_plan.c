#include "tests/unit/ir_plan.h"

#include "compiler/schedule/compilation.h"
#include "compiler/target/target.h"
#include "compiler/write/plan_write.h"
#include "ir/graph/dims.h"
#include "ir/syntax/text.h"
#include "tests/unit/checkpoint_leaves.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ir_plan_inside {
    dop_compilation c; /* its model has the weights */
    dop_graph plain;   /* before the passes */
    dop_checkpoint_leaves *leaves;
    dop_diag diag;
};

static void
ok(const ir_plan_inside *p, dop_status st, const char *what)
{
    cr_assert_eq(st, DOP_OK, "%s: line %ld: %s", what, p->diag.line, p->diag.message);
}

/* In [-1, 1) for vectors, and less where many of them are added. */
static float
value_of(uint32_t seed, uint64_t i, float scale)
{
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    x *= 0x94d049bb133111ebu;
    x ^= x >> 32;
    return ((float)(x % 4096) / 2048.0f - 1.0f) * scale;
}

static void
add_weight(ir_plan_inside *p, const dop_graph *g, dop_node_id id)
{
    dop_arena *arena = &p->c.arena;
    const dop_node *n = dop_node_at(g, id);
    const char *name = dop_node_s(g, id, DOP_A_name);
    bool matrix = n->shape.rank > 1;
    uint32_t rows = matrix ? n->shape.dim[0].mul : 1, cols = n->shape.dim[n->shape.rank - 1].mul, seed = 0;
    bool half = n->type == DOP_TYPE_f16;
    cr_assert(n->shape.rank <= 2 && (half || n->type == DOP_TYPE_f32));
    if (dop_weights_find(&p->c.model.weights, name))
        return;
    for (const char *s = name; *s; s++)
        seed = seed * 31 + (uint8_t)*s;
    uint64_t row_bytes = cols * (half ? 2u : 4u);
    uint8_t *data = dop_arena_alloc(arena, rows * row_bytes);
    cr_assert(data);
    for (uint64_t i = 0; i < (uint64_t)rows * cols; i++) {
        float f = value_of(seed, i, matrix ? 0.35f : 1);
        uint16_t h = dop_f32_to_f16(f);
        if (half)
            memcpy(data + 2 * i, &h, sizeof h);
        else
            memcpy(data + 4 * i, &f, sizeof f);
    }
    dop_weight w = {.name = name,
                    .type = n->type,
                    .rank = n->shape.rank,
                    .rows = rows,
                    .cols = cols,
                    .data = data,
                    .row_stride = row_bytes,
                    .source = name};
    ok(p, dop_weights_add(&p->c.model.weights, &w, arena, &p->diag), name);
    ok(p, dop_weights_seal(&p->c.model.weights, &p->diag), name);
}

void
ir_plan_target(const char *name, dop_target *out)
{
    dop_diag diag = {0};
    cr_assert_eq(dop_target_resolve(name, &diag, out), DOP_OK, "%s", diag.message);
}

void
ir_plan_make(ir_plan *plan, const char *text, const dop_target *target)
{
    ir_plan_inside *p = calloc(1, sizeof *p);
    cr_assert(p);
    *plan = (ir_plan){.inside = p};
    dop_compilation *c = &p->c;
    size_t end;
    dop_arena_init(&c->arena);
    ok(p, dop_graph_parse("text", text, strlen(text), &c->arena, &p->diag, &p->plain, &end), "parse");
    ok(p, dop_graph_verify(&p->plain, "text", &p->diag), "verify");
    const dop_graph *g = &p->plain;
    c->options = (dop_compilation_options){.kv_type = DOP_TYPE_f16, .act_type = DOP_TYPE_f32, .threads = 1};
    c->options.passes.stop_after = -1;
    c->target = target;
    c->ctx = g->max_s;
    c->model.arena = &c->arena;
    c->model.temperature = -1;
    c->model.name = dop_arena_strdup(&c->arena, g->name);
    c->model.arch = (dop_arch){.n_layers = 1, .hidden = 1, .vocab = dop_node_cols(g, g->outs[0]), .bos_id = -1};
    c->model.arch.ctx_train = g->max_s;
    memcpy(c->model.arch.family, "text", 5);
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        if (dop_node_at(g, id)->op == DOP_OP_weight)
            add_weight(p, g, id);
    dop_checkpoint_leaves_name(&c->model.weights, &p->plain);
    ok(p, dop_templates_load(DOP_GLSL_SOURCE_DIR, &c->templates, &p->diag), "templates");
    dop_pack_init(&c->pack, &c->model, c->ctx);
    dop_graph copy; /* the passes change theirs */
    ok(p, dop_graph_parse("text", text, strlen(text), &c->arena, &p->diag, &copy, &end), "parse");
    dop_checkpoint_leaves_name(&c->model.weights, &copy);
    ok(p, dop_schedule_add_graph(c, DOP_PHASE_DECODE, &copy, &p->diag), "schedule");
    ok(p, dop_pack_layout(&c->pack, 1u << 30, &p->diag), "weights");
    ok(p, dop_kernel_set_compile(&c->kernels, c->target, 1, &c->options.progress, &p->diag), "kernels");
    memcpy(plan->path, "/tmp/doppler-test-XXXXXX", 25);
    int fd = mkstemp(plan->path);
    cr_assert(fd >= 0);
    close(fd);
    ok(p, dop_plan_write(c, 1, plan->path, DOP_PLAN_WEIGHTS_EMBED, &p->diag), "plan");
    ok(p, dop_checkpoint_leaves_create(&c->model, &p->diag, &p->leaves), "leaves");
    if (!c->schedules[0].persistent)
        plan->no_stages = c->schedules[0].persistent_no ? c->schedules[0].persistent_no : "the target asks for none";
}

void
ir_plan_finish(ir_plan *plan)
{
    ir_plan_inside *p = plan->inside;
    unlink(plan->path);
    dop_checkpoint_leaves_destroy(p->leaves);
    dop_kernel_set_finish(&p->c.kernels);
    dop_fusion_log_finish(&p->c.schedules[0].log);
    dop_pack_finish(&p->c.pack);
    dop_templates_finish(&p->c.templates);
    dop_checkpoint_finish(&p->c.model);
    dop_arena_finish(&p->c.arena);
    free(p);
}

void
ir_plan_restart(ir_plan *plan)
{
    dop_checkpoint_leaves_reset(plan->inside->leaves);
}

uint32_t
ir_plan_step(ir_plan *plan, uint32_t token, uint32_t position, float *logits)
{
    ir_plan_inside *p = plan->inside;
    const dop_graph *g = &p->plain;
    dop_interp *it = NULL;
    const dop_tensor *out = NULL;
    ok(p, dop_checkpoint_leaves_step(p->leaves, &token, 1, position, &p->diag), "step");
    dop_leaf_provider leaves = dop_checkpoint_leaves_provider(p->leaves);
    ok(p, dop_interp_create(g, 1, &leaves, &p->diag, &it), "interpreter");
    dop_interp_round_storage(it, true);
    ok(p, dop_interp_eval(it, g->outs[0], &p->diag, &out), "logits");
    if (logits)
        memcpy(logits, out->f, (size_t)out->count * sizeof *logits);
    ok(p, dop_interp_eval(it, g->outs[1], &p->diag, &out), "arg-max");
    uint32_t best = out->u[0];
    for (uint32_t i = 0; i < g->n_outs; i++)
        ok(p, dop_interp_eval(it, g->outs[i], &p->diag, &out), "states");
    for (dop_node_id id = 1; id < g->n_nodes; id++) { /* the step counts: what replaces states is current */
        dop_tensor state;
        const dop_node *n = dop_node_at(g, id);
        if (n->op != DOP_OP_state_write || dop_shape_appends(&n->shape))
            continue;
        ok(p, dop_interp_eval(it, id, &p->diag, &out), "new state");
        ok(p, leaves.get(leaves.user, g, dop_storage_node(g, id), 1, &state, &p->diag), "state");
        memcpy(state.f, out->f, (size_t)out->count * sizeof *out->f);
    }
    dop_interp_destroy(it);
    return best;
}
