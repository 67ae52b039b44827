/* Products with one matrix per expert, for few rows: additions to the GEMV generator. */
#include "kernels/product/gen_expert.h"

#include "kernels/emit/weight_types.h"
#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"
#include "kernels/row/gen_choice.h"

#include <string.h>

/* Returns the expert choice, if the region makes it, and the rows that every workgroup keeps in shared memory: the experts of
 * the slots, and their weights if the slots are summed. */
static dop_choice_program
expert_choice_program(dop_gen *gen, const dop_analysis *a, const char *t)
{
    const dop_graph *g = gen->e.g;
    dop_choice_program p = {.nodes = a->experts.choice.nodes,
                            .n_nodes = a->experts.choice.n_nodes,
                            .t = t,
                            .store_if = "DOP_GROUP.x == 0u"};
    if (a->experts.ids)
        p.kept[p.n_kept++] = a->experts.ids;
    if (a->experts.sum)
        p.kept[p.n_kept++] = dop_node_at(g, a->experts.sum)->src[1];
    return p;
}

void
dop_expert_begin(dop_gen *gen, const dop_parts *p, dop_nest *n)
{
    dop_emit *e = &gen->e;
    const dop_choice_program choice = expert_choice_program(gen, e->r->info, p->t);
    gen->experts = true;
    dop_nest_hole(n, "experts",
                  "uint dop_slot;\n"
                  "// Where the matrix of an expert begins; no tensor crosses 4 GiB.\n"
                  "U32 dop_expert(U32 p, uint expert, uint bytes)\n{\n"
                  "    uvec2 a = uvec2(p);\n    uint carry, low = uaddCarry(a.x, expert * bytes, carry);\n"
                  "    return U32(uvec2(low, a.y + carry));\n}\n");
    if (e->caps & DOP_CAP_texels)
        dop_nest_hole(
            n, "experts",
            "DOP_W dop_expert(DOP_W p, uint expert, uint bytes) { return dop_at(p, expert * (bytes >> 4)); }\n");
    if (strcmp(p->t, "0u") != 0)
        dop_nest_hole(n, "row", "uint dop_t;\n");
    dop_nest_function(n, "dop_choose", "");
    dop_gen_choice(gen, &choice, n);
    dop_nest_end(n);
}

const char *
dop_expert_weights(dop_gen *gen, const dop_parts *p, dop_node_id w, const char *slot)
{
    dop_emit *e = &gen->e;
    const dop_node *n = dop_node_at(e->g, w);
    const uint32_t experts = n->shape.dim[0].mul;
    const uint64_t stride = dop_packed_expert_stride(n->type, n->shape.dim[1].mul, n->shape.dim[2].mul);
    const char *expert = slot;
    if (p->ids)
        expert = dop_emit_str(e, "min(%s[%s], %uu)", dop_choice_row(gen, p->ids), slot, experts - 1);
    return dop_emit_str(e, "dop_expert(%s, %s, %uu)", dop_emit_matrix_arg(e, w), expert, (uint32_t)stride);
}

void
dop_expert_program(dop_gen *gen, const dop_parts *p, uint32_t k_pad, const dop_nest *n, dop_rowprog *prog,
                   dop_buf *decls, bool *out_each)
{
    dop_emit *e = &gen->e;
    *out_each = p->sum && (k_pad != p->k || !p->own_rows);
    if (!p->sum) {
        prog->unit = p->own_rows ? "dop_slot" : "0u";
        return;
    }
    const char *weights = dop_choice_row(gen, dop_node_at(e->g, p->sum)->src[1]);
    prog->times = "DOP_TIMES";
    prog->factors = dop_nest_named(n, weights);
    if (*out_each) {
        prog->unit = p->own_rows ? "dop_j" : "0u";
        prog->stage_base = dop_emit_str(e, "dop_j * %uu", k_pad);
        dop_buf_printf(decls, "#define DOP_TIMES(i) %s[dop_j]\n", weights);
    } else {
        prog->len = p->slots * p->k;
        dop_buf_printf(decls, "#define DOP_TIMES(i) %s[(i) / %uu]\n", weights, p->k);
    }
}

uint32_t
dop_expert_bytes(dop_gen *gen)
{
    const dop_analysis *a = gen->e.r->info;
    const dop_choice_program p = expert_choice_program(gen, a, "0u");
    return dop_choice_bytes(gen, &p) + 4 * p.n_kept * a->experts.slots;
}
