/* Generates the GLSL of a region's kernel: header, functions by storage type, arguments, and the body. The text contains no
 * names from the graph, so that equal kernels of different layers have equal texts and are compiled once. */
#include "kernels/gen/generate.h"

#include "ir/graph/dims.h"
#include "ir/region/graph_regions.h"
#include "kernels/emit/weight_types.h"
#include "kernels/gen/gen.h"
#include "kernels/gen/int8.h"
#include "kernels/gen/legal.h"
#include "kernels/gen/templates.h"

#include <stdio.h>
#include <string.h>

bool
dop_gen_ahead(const dop_gen *gen)
{
    return (gen->e.caps & (DOP_CAP_int64 | DOP_CAP_texels)) != 0 && gen->descriptor->ahead;
}

const char *
dop_gen_first_word(dop_gen *gen, const char *matrix, const char *unit, uint32_t bytes)
{
    dop_emit *e = &gen->e;
    if (!(e->caps & DOP_CAP_texels))
        return bytes < 8 ? dop_emit_str(e, "U64(%s).v[%s / 2u]", matrix, unit)
                         : dop_emit_str(e, "U64(%s).v[%s * %uu]", matrix, unit, bytes / 8);
    if (bytes < DOP_TEXEL_BYTES)
        return dop_emit_str(e, "dop_ldw4(%s, %s / %uu)", matrix, unit, DOP_TEXEL_BYTES / bytes);
    return dop_emit_str(e, "dop_ldw4(%s, %s * %uu)", matrix, unit, bytes / DOP_TEXEL_BYTES);
}

static void
put_header(dop_gen *gen, dop_buf *b)
{
    const dop_tile *tile = &gen->choice->tile;
    dop_buf_puts(b, "#version 460\n"
                    "#extension GL_EXT_buffer_reference : require\n"
                    "#extension GL_EXT_control_flow_attributes : require\n");
    if (gen->e.caps & DOP_CAP_f16_storage)
        dop_buf_puts(b, "#extension GL_EXT_shader_16bit_storage : require\n#define DOP_F16_STORAGE\n");
    if (gen->e.target->cpu)
        dop_buf_puts(b, "#define DOP_CPU\n");
    if (gen->e.caps & DOP_CAP_int64)
        dop_buf_puts(b, "#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require\n#define DOP_INT64\n");
    if (dop_gen_ahead(gen))
        dop_buf_puts(b, "#define DOP_AHEAD\n");
    if (gen->e.caps & DOP_CAP_texels)
        dop_buf_puts(b, "#define DOP_TEXELS\n");
    if (gen->e.addresses)
        dop_buf_puts(b, "#extension GL_EXT_buffer_reference_uvec2 : require\n#define DOP_ADDRESSES\n");
    bool coop = (dop_variant_of(gen->choice->variant)->caps & DOP_CAP_coop) != 0;
    if (coop)
        dop_buf_puts(b, "#extension GL_NV_cooperative_matrix : require\n"
                        "#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n");
    if (coop)
        dop_buf_printf(b,
                       "#extension GL_KHR_memory_scope_semantics : require\n#pragma use_vulkan_memory_model\n"
                       "#define MM %uu\n#define MN %uu\n#define MK %uu\n",
                       dop_matrix_m(gen->e.target->matrix), dop_matrix_n(gen->e.target->matrix),
                       dop_matrix_k(gen->e.target->matrix));
    if (gen->descriptor->ints)
        dop_buf_printf(b, "#extension GL_EXT_spirv_intrinsics : require\n%s",
                       gen->e.types_used & ~((uint64_t)1 << DOP_TYPE_q8_0) ? "" : "#define DOP_XI_BYTES\n");
    if (dop_int8_levels(gen))
        dop_buf_puts(b, "#define DOP_LEVELS\n");
    if (gen->book)
        dop_buf_printf(b, "#define DOP_BOOK_WORDS %uu\n", gen->book / 4);
    if (gen->merges)
        dop_buf_puts(b, "#define DOP_MERGES\n");
    if (gen->claims)
        dop_buf_puts(b, "#define DOP_CLAIMS\n");
    if (gen->hands_on)
        dop_buf_puts(b, "#define DOP_HANDS_ON\n");
    if (gen->experts || dop_has_record(gen->e.n_args))
        dop_buf_puts(b, "#extension GL_EXT_buffer_reference_uvec2 : require\n");
    if (tile->subgroup)
        dop_buf_puts(b, "#extension GL_KHR_shader_subgroup_basic : require\n"
                        "#extension GL_KHR_shader_subgroup_arithmetic : require\n"
                        "#extension GL_KHR_shader_subgroup_shuffle : require\n");
    if (gen->votes)
        dop_buf_puts(b, "#extension GL_KHR_shader_subgroup_vote : require\n");
    if (tile->subgroup && gen->e.target->cpu)
        dop_buf_puts(b, "#extension GL_KHR_shader_subgroup_ballot : require\n"
                        "#extension GL_EXT_shader_subgroup_extended_types_int64 : enable\n");
    dop_buf_printf(b, "#define WG %u\n#define SG %u\nlayout(local_size_x = %u) in;\n", tile->wg,
                   tile->subgroup ? gen->e.target->subgroup : 1, tile->wg);
}

static dop_status
put_template_file(dop_gen *gen, const char *file, dop_buf *b)
{
    const char *text = dop_templates_get(gen->templates, file);
    if (!text)
        return DOP_FAIL(gen->e.diag, DOP_E_IO, "kernel template %s is missing in %s: reinstall Doppler", file,
                        gen->templates->dir);
    dop_buf_puts(b, text);
    return DOP_OK;
}

/* Appends the GLSL files of the weight types that the kernel decodes, each once. Most quantized types also need
 * types/quant.glsl. */
static dop_status
put_weight_types(dop_gen *gen, dop_buf *b)
{
    static const char quant[] = "types/quant.glsl";
    const char *done[DOP_TYPE_COUNT + 1];
    uint32_t n = 0;
    for (int t = 0; t < DOP_TYPE_COUNT; t++) {
        const dop_weight_type *w = dop_weight_type_of((dop_type)t);
        if (!w || !(gen->e.types_used & (uint64_t)1 << t))
            continue;
        const char *files[] = {dop_type_of((dop_type)t)->kind == DOP_KIND_QUANT ? quant : w->file, w->file};
        for (uint32_t f = 0; f < 2; f++) {
            bool seen = false;
            for (uint32_t i = 0; i < n; i++)
                seen = seen || strcmp(done[i], files[f]) == 0;
            if (seen)
                continue;
            dop_status st = put_template_file(gen, files[f], b);
            if (st != DOP_OK)
                return st;
            done[n++] = files[f];
        }
    }
    return gen->descriptor->ints ? put_template_file(gen, "types/int.glsl", b) : DOP_OK;
}

const char *
dop_kernel_runs(dop_emit *e, uint32_t max_t)
{
    return max_t == 1 ? "persistent_runs" : dop_emit_str(e, "several_runs[%u]", max_t - 1);
}

/* Appends functions by which a schedule's last kernel counts a persistent run after its stores (DOP_SYNC_ADVANCE). The count
 * is loaded before the stores, so that the end does not wait for the load. */
static void
put_advance(dop_gen *gen, const dop_sync *sync, dop_buf *b)
{
    const char *step = dop_emit_step(&gen->e), *runs = dop_emit_number(&gen->e, sync->runs);
    const char *count = dop_kernel_runs(&gen->e, sync->several ? gen->e.g->max_t : 1);
    dop_buf_printf(b,
                   "uint dop_runs() { return %s.%s; }\n"
                   "void dop_advance(uint runs)\n{\n"
                   "    if (gl_LocalInvocationIndex == 0u && gl_WorkGroupID == uvec3(0u))\n"
                   "        %s.%s = runs + %s;\n}\n#define main dop_main\n",
                   step, count, step, count, runs);
}

/* Defines the constants that determine the length of cache splits (dop_split_len): from the stage's tile if set, otherwise
 * from the graph. */
static void
put_splits(const dop_gen *gen, dop_buf *b)
{
    const dop_graph *g = gen->e.g;
    const dop_region *r = gen->e.r;
    const dop_tile *tile = &gen->choice->tile;
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        dop_node_id id = r->nodes[i];
        if (dop_node_at(g, id)->op == DOP_OP_attn_combine)
            id = dop_node_base(g, dop_node_at(g, id)->src[0], NULL);
        if (dop_node_at(g, id)->op != DOP_OP_attn_split)
            continue;
        dop_buf_printf(b, "#define DOP_WHOLE %uu\n#define DOP_LEAST %uu\n",
                       tile->whole ? tile->whole : (uint32_t)dop_node_i(g, id, DOP_A_whole),
                       tile->least ? tile->least : (uint32_t)dop_node_i(g, id, DOP_A_least));
        return;
    }
}

/* Declares the kernel as a stage, and defines DOP_GROUP, its 3D workgroup id: workgroups of a stage have linear numbers. */
static void
put_stage(dop_gen *gen, dop_buf *b)
{
    const uint32_t *grid = gen->grid;
    dop_buf_puts(b, "#extension GL_EXT_buffer_reference_uvec2 : require\n#define DOP_STAGE\n");
    if (gen->e.g->max_t > 1)
        dop_buf_printf(b, "#define DOP_ROWS %uu\n", gen->e.g->max_t);
    if (grid[1] == 1 && grid[2] == 1)
        dop_buf_puts(b, "#define DOP_GROUP uvec3(dop_stage.group, 0u, 0u)\n");
    else
        dop_buf_printf(b,
                       "#define DOP_GROUP uvec3(dop_stage.group %% %uu, dop_stage.group / %uu %% %uu, "
                       "dop_stage.group / %uu)\n",
                       grid[0], grid[0], grid[1], grid[0] * grid[1]);
}

/* True if the region's matrices fit in one device allocation, including gaps. A dispatch reads all of them through one view,
 * which covers one allocation. */
static bool
matrices_fit(const dop_graph *g, const dop_region *r, uint64_t allocation)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, r->nodes[i]);
        for (uint32_t k = 0; k < n->n_srcs; k++) {
            const dop_node *w = dop_node_at(g, n->src[k]);
            const dop_dim *dims = w->shape.dim + w->shape.rank - 2;
            if (w->op != DOP_OP_weight || w->shape.rank < 2)
                continue;
            const uint32_t rows = (uint32_t)dop_dim_value(g, dims[0], 1);
            sum += w->shape.rank == 3 ? w->shape.dim[0].mul * dop_packed_expert_stride(w->type, rows, dims[1].mul)
                                      : dop_packed_bytes(w->type, rows, dims[1].mul);
        }
    }
    return sum <= allocation / 16 * 15;
}

static const char *
arg_type(const dop_kernel_arg *a)
{
    return a->numbers || a->view ? "uvec2" : a->value || a->kind != DOP_ARG_VALUE ? "U32" : "Step";
}

/* GLSL type of the parameter record; its arguments are cast to their types. */
static const char record_type[] =
    "layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Record {\n    uvec2 args[];\n};\n";

/* Defines the arguments of a stage: fields of its row in the stage table, or of the parameter record that the first field
 * points to. */
static void
put_stage_args(const dop_gen *gen, dop_buf *b)
{
    const dop_kernel_arg *args = gen->e.args;
    const bool record = dop_has_record(gen->e.n_args);
    dop_buf_puts(b, record ? record_type : "");
    for (uint32_t i = 0; i < gen->e.n_args; i++)
        dop_buf_printf(b, "#define a%u %s(%s.args[%u])\n", i, arg_type(&args[i]),
                       record ? "Record(dop_stage.args[0])" : "dop_stage", i);
}

/* Declares the push constants. `early`: copies the arguments to variables, declared in out_globals and assigned by
 * out_copies. */
static void
put_args(const dop_emit *e, bool early, dop_buf *b, dop_buf *out_globals, dop_buf *out_copies)
{
    const bool record = dop_has_record(e->n_args);
    dop_buf_puts(b, record ? record_type : "");
    dop_buf_puts(b, "layout(push_constant, std430) uniform Push {\n");
    dop_buf_puts(b, record ? "    Record record;\n" : "");
    for (uint32_t i = 0; i < e->n_args && !record; i++)
        dop_buf_printf(b, "    %s %s%u;\n", arg_type(&e->args[i]), early ? "push" : "a", i);
    dop_buf_puts(b, "};\n");
    for (uint32_t i = 0; i < e->n_args; i++) {
        const char *type = arg_type(&e->args[i]);
        const uint32_t view = e->args[i].view;
        char from[48];
        if (record)
            snprintf(from, sizeof from, "%s(record.args[%u])", type, i);
        else
            snprintf(from, sizeof from, "push%u", i);
        if (record && !early)
            dop_buf_printf(b, "#define a%u %s\n", i, from);
        if (view) {
            dop_buf_printf(out_globals, "View%u a%u;\n", view, i);
            dop_buf_printf(out_copies, "    a%u = View%u(%s.x);\n", i, view, from);
            continue;
        }
        dop_buf_printf(out_globals, "%s a%u;\n", type, i);
        dop_buf_printf(out_copies, "    a%u = %s;\n", i, from);
    }
}

/* Appends the arguments and the program. `advance` is the text from put_advance, or NULL. CPU devices read the arguments
 * first, outside of loops and conditions: the driver can then prove that all lanes use the same buffer, which makes loads
 * three times as fast. */
static void
put_program(dop_gen *gen, const char *advance, dop_buf *b)
{
    static const char start[] = "void main()\n{\n";
    const char *program = gen->main.data ? gen->main.data : "", *at = strstr(program, start);
    const bool early = gen->e.target->cpu && at;
    dop_buf copies = {0}, globals = {0};
    put_args(&gen->e, early, b, &globals, &copies);
    if (early && globals.data)
        dop_buf_puts(b, globals.data);
    if (!early)
        dop_buf_finish(&copies);
    const bool fills = dop_int8_levels(gen) && at;
    if (fills)
        dop_buf_puts(&copies, "    dop_fill_level_pairs();\n    barrier();\n");
    const char *first = copies.data ? copies.data : "";
    if (advance) {
        dop_buf_puts(b, advance);
    } else if (early || fills) {
        size_t head = (size_t)(at - program) + sizeof start - 1;
        dop_buf_append(b, program, head);
        dop_buf_puts(b, first);
        program += head;
    }
    dop_buf_puts(b, program);
    if (advance)
        dop_buf_printf(b,
                       "#undef main\nvoid main()\n{\n%s    uint runs = dop_runs();\n    dop_main();\n"
                       "    dop_advance(runs);\n}\n",
                       first);
    dop_buf_finish(&copies);
    dop_buf_finish(&globals);
}

static uint32_t
matrix_form(const dop_descriptor *d, uint32_t has)
{
    return has & d->matrix_form ? d->matrix_form : has & DOP_CAP_coop;
}

/* Reports an invalid tile: its source, the violated rule, and the region. */
static dop_status
refuse_tile(const dop_gen *gen, const char *why)
{
    const dop_emit *e = &gen->e;
    const char *source = gen->choice->source;
    return DOP_FAIL(e->diag, DOP_E_INPUT, "%s%s%s: %s at %%%s on target %s", source ? source : "", source ? ": " : "",
                    why, dop_variant_of(gen->choice->variant)->name, dop_node_at(e->g, e->r->outs[0])->name,
                    e->target->name);
}

/* Checks the tile before any code is generated from it. */
static dop_status
check_tile(const dop_gen *gen)
{
    dop_tile_fault fault;
    return dop_tile_legal(&gen->site, gen->descriptor, &gen->choice->tile, &fault) ? DOP_OK
                                                                                   : refuse_tile(gen, fault.why);
}

/* Refuses a kernel that the target cannot run. The number of workgroups is checked only for tiles from a kernel path; for a
 * variant's own tile, the runtime compares it with the device's limit. */
static dop_status
check_needs(const dop_gen *gen)
{
    const dop_emit *e = &gen->e;
    const uint32_t *grid = gen->grid, most = grid[0] > grid[1] ? grid[0] : grid[1];
    char why[96];
    if (e->caps & ~e->target->caps)
        return DOP_FAIL(e->diag, DOP_E_INPUT,
                        "target %s has no 16-bit storage, which f16 values here need: use `kv` f32 and `act` f32",
                        e->target->name);
    if (!gen->choice->source || most <= DOP_MOST_GROUPS)
        return DOP_OK;
    snprintf(why, sizeof why, "the tile makes %u workgroups, which must be at most %u", most, DOP_MOST_GROUPS);
    return refuse_tile(gen, why);
}

/* Appends the complete text of the kernel around the main function from its descriptor. */
static dop_status
put_kernel_source(dop_gen *gen, const dop_sync *sync, dop_buf *text)
{
    const bool stage = sync && sync->kind == DOP_SYNC_STAGE;
    const char *common = dop_templates_get(gen->templates, "common.glsl");
    dop_buf advance = {0};
    if (sync && !stage)
        put_advance(gen, sync, &advance);
    put_header(gen, text);
    put_splits(gen, text);
    if (stage)
        put_stage(gen, text);
    dop_buf_puts(text, common ? common : "");
    dop_status st = put_weight_types(gen, text);
    if (st == DOP_OK && gen->e.blocks)
        st = put_template_file(gen, "cache.glsl", text);
    if (st == DOP_OK && stage) {
        put_stage_args(gen, text);
        dop_buf_puts(text, gen->main.data ? gen->main.data : "");
    } else if (st == DOP_OK) {
        put_program(gen, advance.data, text);
    }
    dop_buf_finish(&advance);
    return st == DOP_OK ? gen->e.status : st;
}

dop_status
dop_kernel_generate(const dop_templates *t, const dop_graph *g, const dop_region *r, const dop_target *target,
                    const dop_selection *choice, const dop_sync *sync, dop_diag *diag, dop_kernel *out_kernel)
{
    const dop_variant *variant = dop_variant_of(choice->variant);
    dop_gen gen;
    dop_buf text = {0};
    dop_kernel *k = out_kernel;
    memset(k, 0, sizeof *k);
    bool stage = sync && sync->kind == DOP_SYNC_STAGE;
    dop_graph copy;
    g = dop_graph_by_rows(g, r, &copy);
    dop_gen_open(&gen, &(dop_site){g, r, target, stage ? sync->routes : NULL}, variant->descriptor, choice, diag);
    gen.templates = t;
    /* On a CPU a load is a loop over the lanes for each component, so few wide loads are faster. */
    if (target->cpu)
        gen.e.caps |= target->caps & DOP_CAP_int64;
    if (dop_target_views(target) && variant->descriptor->texels && matrices_fit(g, r, target->max_alloc))
        gen.e.caps |= DOP_CAP_texels;
    dop_status st = check_tile(&gen);
    if (st == DOP_OK)
        st = variant->descriptor->emit(&gen);
    if (st == DOP_OK)
        st = check_needs(&gen);
    if (st == DOP_OK)
        st = put_kernel_source(&gen, sync, &text);
    if (st != DOP_OK)
        goto error;
    k->glsl = dop_buf_failures() != gen.failures ? NULL : dop_arena_strdup(g->arena, text.data);
    if (!k->glsl) {
        st = DOP_NO_MEMORY(diag);
        goto error;
    }
    k->nest = gen.nest;
    k->n_args = gen.e.n_args;
    k->args = gen.e.args;
    memcpy(k->grid, gen.grid, sizeof k->grid);
    k->local = choice->tile.wg;
    k->variant = choice->variant;
    k->caps = gen.e.caps | variant->caps;
    if ((k->caps & DOP_CAP_coop) == DOP_CAP_coop)
        k->caps &= ~(uint32_t)DOP_CAP_coop | matrix_form(variant->descriptor, target->caps);
    k->rounding = variant->descriptor->ints ? DOP_ROUNDING_i8 : gen.halves ? DOP_ROUNDING_f16 : DOP_ROUNDING_none;
    k->subgroup = choice->tile.subgroup ? target->subgroup : 0;
error:
    dop_gen_close(&gen);
    dop_buf_finish(&text);
    return st;
}
