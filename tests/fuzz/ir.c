/* Graphs as text: what reads them, evaluates them and makes kernels of them. */
#include "compiler/pack/pack.h"
#include "compiler/target/target.h"
#include "ir/graph/dims.h"
#include "ir/interp/interp.h"
#include "ir/region/graph_regions.h"
#include "ir/syntax/text.h"
#include "kernels/kernel.h"
#include "passes/pass.h"
#include "tests/fuzz/fuzz.h"

/* A text is refused, or it is a graph that verifies, prints, reads back and compacts. */
void
fuzz_ir(const uint8_t *data, size_t size)
{
    dop_arena arena;
    dop_graph g, again;
    dop_diag diag = {0};
    dop_buf one = {0}, two = {0};
    size_t end;
    dop_arena_init(&arena);
    dop_status st = dop_graph_parse("fuzz", (const char *)data, size, &arena, &diag, &g, &end);
    if (st == DOP_OK) {
        require(end <= size);
        dop_graph_print(&g, &one);
        require(dop_graph_parse("again", one.data, one.size, &arena, &diag, &again, &end) == DOP_OK);
        dop_graph_print(&again, &two);
        require(one.size == two.size && memcmp(one.data, two.data, one.size) == 0);
        require(dop_graph_hash(&g) == dop_graph_hash(&again));
        require(dop_graph_compact(&again, &diag) == DOP_OK);
        require(dop_graph_verify(&again, "compact", &diag) == DOP_OK);
    } else {
        require(st == DOP_E_INPUT && diag.line >= 1 && diag.column >= 1 && diag.message[0]);
    }
    dop_buf_finish(&one);
    dop_buf_finish(&two);
    dop_arena_finish(&arena);
}

/* ---- interpreter ---------------------------------------------------------------------------------------------------- */

/* Values of a node at t tokens, or `most` if there are more. */
static uint64_t
values_of(const dop_graph *g, dop_node_id id, uint32_t t, uint64_t most)
{
    const dop_shape *s = &dop_node_at(g, id)->shape;
    uint64_t n = 1;
    for (uint32_t i = 0; i < s->rank && n <= most; i++)
        if (!dop_mul_u64(n, dop_dim_value(g, s->dim[i], t), &n))
            return most + 1;
    return n;
}

/* Whether a second is enough: what an op takes is less than the values of its result times those of its largest source. */
static bool
is_small(const dop_graph *g, uint32_t t)
{
    enum { MOST_VALUES = 1 << 16, MOST_WORK = 1 << 24 };
    uint64_t values = 0, work = 0;
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        uint64_t own = values_of(g, id, t, MOST_VALUES), most = 1;
        for (uint32_t k = 0; k < dop_node_at(g, id)->n_srcs; k++) {
            uint64_t n = values_of(g, dop_node_at(g, id)->src[k], t, MOST_VALUES);
            most = n > most ? n : most;
        }
        values += own;
        work += own * most;
        if (values > MOST_VALUES || work > MOST_WORK)
            return false;
    }
    return true;
}

typedef struct leaves {
    dop_arena *arena;
    uint32_t seed;
} leaves;

/* Small values, negative ones too; ids below 8, which may be outside of what they index. */
static dop_status
get_leaf(void *user, const dop_graph *g, dop_node_id id, uint32_t t, dop_tensor *out, dop_diag *diag)
{
    leaves *l = user;
    const dop_node *n = dop_node_at(g, id);
    out->count = values_of(g, id, t, UINT32_MAX);
    out->shape = n->shape;
    for (uint32_t i = 0; i < n->shape.rank; i++)
        out->shape.dim[i] = dop_dim_n((uint32_t)dop_dim_value(g, n->shape.dim[i], t));
    void *values = dop_arena_alloc(l->arena, (size_t)out->count * 4 + 4);
    if (!values)
        return DOP_NO_MEMORY(diag);
    if (n->type == DOP_TYPE_u32)
        out->u = values;
    else
        out->f = values;
    for (uint64_t i = 0; i < out->count; i++)
        if (out->u)
            out->u[i] = fuzz_random(&l->seed) % 8;
        else
            out->f[i] = (float)(fuzz_random(&l->seed) % 64) / 16.0f - 2.0f;
    return DOP_OK;
}

static void
interpret(const dop_graph *g, uint32_t t, dop_arena *arena)
{
    leaves l = {arena, t};
    const dop_leaf_provider provider = {&l, get_leaf};
    dop_interp *it = NULL;
    dop_diag diag = {0};
    if (!is_small(g, t))
        return;
    dop_status st = dop_interp_create(g, t, &provider, &diag, &it);
    fuzz_check_lines(st, &diag);
    if (st == DOP_OK)
        dop_interp_round_storage(it, t > 1);
    for (uint32_t i = 0; i < g->n_outs && st == DOP_OK; i++) {
        const dop_tensor *out = NULL;
        st = dop_interp_eval(it, g->outs[i], &diag, &out);
        fuzz_check_lines(st, &diag);
        require(st != DOP_OK || out->count == values_of(g, g->outs[i], t, UINT32_MAX));
    }
    if (it)
        dop_interp_destroy(it);
}

void
fuzz_ir_interpret(const uint8_t *data, size_t size)
{
    dop_arena arena;
    dop_graph g;
    dop_diag diag = {0};
    size_t end;
    dop_arena_init(&arena);
    if (dop_graph_parse("fuzz", (const char *)data, size, &arena, &diag, &g, &end) == DOP_OK) {
        interpret(&g, 1, &arena);
        if (g.max_t > 1)
            interpret(&g, g.max_t < 3 ? g.max_t : 3, &arena);
    }
    dop_arena_finish(&arena);
}

/* ---- compiler ------------------------------------------------------------------------------------------------------- */

/* The text of a kernel for every region; a region that no kernel makes is refused with its reason. */
static void
generate(const dop_graph *g, const dop_target *target)
{
    static dop_templates templates;
    dop_diag diag = {0};
    if (templates.n == 0)
        require(dop_templates_load(DOP_GLSL_SOURCE_DIR, &templates, &diag) == DOP_OK);
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        dop_selection choice;
        dop_kernel k;
        dop_diag why = {0};
        if (g->regions[r].dead)
            continue;
        dop_status st = dop_kernel_select(g, &g->regions[r], target, NULL, &why, &choice);
        if (st == DOP_OK)
            st = dop_kernel_generate(&templates, g, &g->regions[r], target, &choice, NULL, &why, &k);
        fuzz_check_lines(st, &why);
    }
}

/* Weights of a device that allows little to be allocated at once. */
static uint32_t
piece_rows(void *user, const dop_graph *g, dop_node_id weight)
{
    const dop_node *w = dop_node_at(g, weight);
    (void)user;
    return dop_pack_piece_rows(w->type, &w->shape, 4096);
}

/* The first byte is the target, whether fusion is on, and whether weights are split. */
void
fuzz_ir_compile(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"tier1",         "tier2",     "tier3",    "lavapipe",
                                        "nvidia-hopper", "amd-rdna3", "intel-xe2"};
    dop_arena arena;
    dop_graph g;
    dop_target target;
    dop_diag diag = {0};
    size_t end;
    if (size == 0)
        return;
    const size_t which = data[0] % (2 * sizeof names / sizeof *names);
    require(dop_target_resolve(names[which / 2], &diag, &target) == DOP_OK);
    dop_arena_init(&arena);
    dop_pass_ctx cx = {.arena = &arena, .diag = &diag, .target = &target};
    dop_pass_options opt = {.stop_after = -1, .check = true};
    cx.piece_rows = data[0] >= 128 ? piece_rows : NULL;
    for (int p = 0; p < DOP_PASS_COUNT && which % 2; p++)
        opt.skip[p] = strncmp(dop_pass_of((dop_pass_id)p)->name, "fuse", 4) == 0;
    dop_status st = dop_graph_parse("fuzz", (const char *)data + 1, size - 1, &arena, &diag, &g, &end);
    if (st == DOP_OK) {
        st = dop_passes_run(&cx, &opt, &g);
        fuzz_check_lines(st, &diag);
        if (st == DOP_OK)
            generate(&g, &target);
    }
    dop_arena_finish(&arena);
}
