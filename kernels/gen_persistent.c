/* Generates the kernel of a persistent dispatch: persistent.glsl with empty stage functions, which link.c replaces by the
 * stages. */
#include "kernels/gen/gen.h"
#include "kernels/gen/generate.h"
#include "kernels/gen/templates.h"

/* Never selected for a region: it is assembled from the kernels of its stages. */
const dop_descriptor dop_descriptor_persistent = {0};

dop_status
dop_kernel_persistent(const dop_templates *t, const dop_graph *g, const dop_target *target,
                      const dop_kernel *const *stages, uint32_t n_stages, const uint32_t numbers[2], dop_arena *arena,
                      dop_diag *diag, dop_kernel *out_kernel)
{
    dop_kernel *k = out_kernel;
    dop_emit e = {.diag = diag, .g = g};
    dop_gen gen = {.templates = t, .e = e, .failures = dop_buf_failures()};
    dop_keys keys = {0};
    dop_buf *text = dop_gen_text(&gen), *functions = dop_keys_text(&gen, &keys, "PLACEHOLDERS"),
            *calls = dop_keys_text(&gen, &keys, "CALLS");
    const char **glsl = dop_arena_alloc(arena, n_stages * sizeof *glsl);
    const char **nests = dop_arena_alloc(arena, n_stages * sizeof *nests);
    dop_kernel_arg *args = dop_arena_alloc(arena, 3 * sizeof *args);
    const char *common = dop_templates_get(t, "common.glsl");
    *k = (dop_kernel){.local = stages[0]->local,
                      .subgroup = stages[0]->subgroup,
                      .n_stages = n_stages,
                      .n_args = 3,
                      .variant = DOP_VARIANT_persistent};
    for (uint32_t i = 0; i < n_stages && glsl && nests; i++) {
        glsl[i] = stages[i]->glsl;
        nests[i] = stages[i]->nest;
        k->caps |= stages[i]->caps;
        k->rounding = stages[i]->rounding > k->rounding ? stages[i]->rounding : k->rounding;
        dop_buf_printf(functions, "void dop_stage_%u() {}\n", i);
        dop_buf_printf(calls, "    case %u: dop_stage_%u(); break;\n", i, i);
    }
    dop_buf_printf(text,
                   "#version 460\n#extension GL_EXT_buffer_reference : require\n"
                   "#extension GL_EXT_buffer_reference_uvec2 : require\n"
                   "#extension GL_EXT_control_flow_attributes : require\n"
                   "#define DOP_RUNS %s\n%s"
                   "#define DOP_STAGE\n#define DOP_WHOLE %uu\n#define DOP_LEAST %uu\n#define DOP_GROUP "
                   "gl_WorkGroupID\n#define WG %u\n#define SG "
                   "1\nlayout(local_size_x = %u) in;\n%s"
                   "layout(push_constant, std430) uniform Push {\n    U32 table;\n    Step step;\n"
                   "    uvec2 counts;\n};\n",
                   dop_kernel_runs(&e, g->max_t),
                   g->max_t > 1 ? dop_emit_str(&e, "#define DOP_ROWS %uu\n", g->max_t) : "", target->stage_whole,
                   target->split_least, k->local, k->local, common ? common : "");
    dop_status st = dop_template_fill(&gen, "persistent.glsl", &keys, text);
    k->glsl = dop_buf_failures() != gen.failures ? NULL : dop_arena_strdup(arena, text->data);
    k->stages = glsl;
    k->nests = nests;
    k->args = args;
    if (args) {
        args[0] = (dop_kernel_arg){.kind = DOP_ARG_TABLE, .read = true};
        args[1] = (dop_kernel_arg){.read = true};
        args[2] = (dop_kernel_arg){.numbers = 2, .number = {numbers[0], numbers[1]}};
    }
    if (st == DOP_OK && (!k->glsl || !glsl || !nests || !args))
        st = DOP_NO_MEMORY(diag);
    dop_gen_close(&gen);
    return st;
}
