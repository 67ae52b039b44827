/* Expands weights before the products that read them: a matrix of f16 or f32 values. An invocation makes some adjacent values
 * of a row at a time. */
#include "kernels/gen/gen.h"
#include "kernels/gen/legal.h"
#include "kernels/gen/trips.h"
#include "kernels/nest/nest.h"

#include "kernels/emit/weight_types.h"

#include <string.h>

static dop_status
emit_dequant(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    dop_node_id out = e->r->nodes[0], w = dop_node_at(e->g, out)->src[0];
    uint32_t cols = dop_node_cols(e->g, w), stride = dop_row_values(e->g, w), v = gen->choice->tile.bk;
    uint64_t values = (uint64_t)dop_node_at(e->g, w)->shape.dim[0].mul * cols;
    const char *type = dop_type_of(dop_node_at(e->g, w)->type)->name;
    /* Matrices of one type share the kernel: sizes are numbers of the dispatch. */
    const char *count = dop_emit_number(e, (uint32_t)(values / v)), *matrix = dop_emit_arg(e, w, false);
    const char *aux = dop_emit_weight(e, w);
    aux = strcmp(aux, "0u") ? dop_emit_number(e, dop_weight_aux(e->g, w)) : aux;
    /* Written so that the compiler can infer the alignment of units. */
    const char *at = stride == cols ? dop_emit_str(e, "i * %uu", v)
                                    : dop_emit_str(e, "i / %uu * %uu + i %% %uu * %uu", cols / v, stride, cols / v, v);
    const char *a = dop_emit_arg(e, out, true);
    dop_nest n;
    dop_nest_placement pl = {.at = {{0}, {[DOP_LEVEL_grid] = gen->choice->tile.loops}, {[DOP_LEVEL_reg] = v}},
                             .w = {.path = DOP_PATH_direct, .unit = 4},
                             .subgroup = 1};
    dop_nest_open(&n, "dequant", &pl, e->g->arena, e->diag);
    dop_nest_function(&n, "main", "");
    dop_nest_for(&n, "i", "gl_GlobalInvocationID.x", count, "gl_NumWorkGroups.x * WG")->rolled = true;
    dop_nest_let(&n, "uint", "at", "%s", at);
    dop_nest_for(&n, "j", "0u", dop_nest_text(&n, "%uu", v), "8u")->unroll = true;
    dop_nest_code(&n,
                  "vec4 a = dop_w4_%s(%s, at + j, %s), b = dop_w4_%s(%s, at + j + 4u, %s);\nuint to = i * %uu + j;\n",
                  type, matrix, aux, type, matrix, aux, v);
    if (dop_node_at(e->g, out)->type == DOP_TYPE_f16)
        dop_nest_code(&n,
                      "dop_stw4(%s, to >> 3, uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), "
                      "packHalf2x16(b.zw)));\n",
                      a);
    else
        dop_nest_code(&n, "dop_st4_f32(%s, to, a);\ndop_st4_f32(%s, to + 4u, b);\n", a, a);
    dop_nest_ends(&n, 3);
    gen->grid[0] = gen->choice->tile.loops;
    return dop_gen_print_nest(gen, &n);
}

/* Chooses eight values per invocation, so that adjacent stores are 16 bytes wide. CPU devices use whole units, whose scales
 * are loaded once, and few workgroups. */
static void
choose_dequant_tile(const dop_site *s, dop_tile *tile)
{
    const dop_graph *g = s->g;
    const dop_region *r = s->r;
    const dop_target *t = s->t;
    const dop_weight_type *wt = dop_weight_type_of(dop_node_at(g, dop_node_at(g, r->nodes[0])->src[0])->type);
    uint32_t cols = dop_node_cols(g, r->nodes[0]);
    tile->bk = t->cpu && wt && cols % wt->unit == 0 ? wt->unit : 8;
    uint64_t each = (uint64_t)dop_node_at(g, r->nodes[0])->shape.dim[0].mul * cols / (tile->bk * tile->wg) + 1;
    uint64_t most = t->cpu ? 4 * t->cores : 32768; /* below the limit of every device */
    tile->loops = (uint32_t)(each < most ? each : most);
    while (t->loop_trips && dop_trips_dequant(s, tile) > t->loop_trips && tile->loops < each)
        tile->loops *= 2;
}

/* Refuses rows that are not a multiple of 8 values, and matrices whose number of values exceeds 32 bits. */
static dop_refusal
fits_dequant(const dop_site *s)
{
    const dop_node *n = dop_node_at(s->g, s->r->nodes[0]);
    if (s->r->n_nodes != 1 || n->op != DOP_OP_dequant)
        return (dop_refusal){"not a matrix of weights", NULL};
    uint32_t cols = dop_node_cols(s->g, s->r->nodes[0]);
    if (cols % 8)
        return (dop_refusal){"rows are not a multiple of 8 values", NULL};
    if ((uint64_t)n->shape.dim[0].mul * cols > UINT32_MAX)
        return (dop_refusal){"the matrix has more than 2^32 values", NULL};
    return (dop_refusal){0};
}

/* Checks that values are made and stored in eights of a row. */
static void
legal_dequant(dop_check *c)
{
    dop_check_range(c, DOP_TILE_NO_loops, 1, DOP_MOST_GROUPS);
    if (dop_check_multiple(c, DOP_TILE_NO_bk, 8, 8, 256))
        dop_check_divides(c, DOP_TILE_NO_bk, dop_node_cols(c->s->g, c->s->r->nodes[0]), "values of a row");
}

const dop_descriptor dop_descriptor_dequant = {
    .fields = DOP_FIELD(bk) | DOP_FIELD(loops),
    .legal = legal_dequant,
    .any_wg = true,
    .fits = fits_dequant,
    .tile = choose_dequant_tile,
    .emit = emit_dequant,
    .trips = dop_trips_dequant,
};
