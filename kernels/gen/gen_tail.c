/* Per-head products (dop_tail_facts), which fill tail.glsl: each head of a value that the region computes is multiplied by
 * its own matrix, in the workgroup that completes the head. */
#include "kernels/gen/gen_tail.h"

#include "kernels/emit/weight_types.h"
#include "kernels/gen/gen.h"
#include "kernels/gen/generate.h"
#include "kernels/gen/products.h"
#include "kernels/gen/templates.h"
#include "kernels/gen/trips.h"

/* Nodes and dimensions of a region's per-head product. */
typedef struct tail {
    dop_node_id id, made, matrix;
    uint32_t heads, k, n; /* values of a head before (k) and after (n) the product */
    const dop_weight_type *type;
} tail;

static tail
find_head_product(const dop_graph *g, const dop_region *r)
{
    const dop_node *n = dop_node_at(g, r->info->tail.id);
    const dop_shape *w = &dop_node_at(g, n->src[1])->shape;
    return (tail){.id = r->info->tail.id,
                  .made = r->info->tail.of,
                  .matrix = n->src[1],
                  .heads = w->dim[0].mul,
                  .n = w->dim[1].mul,
                  .k = w->dim[2].mul,
                  .type = dop_weight_type_of(dop_node_at(g, n->src[1])->type)};
}

uint32_t
dop_tail_heads(const dop_gen *gen)
{
    return gen->e.r->info->tail.id ? find_head_product(gen->e.g, gen->e.r).heads : 0;
}

uint32_t
dop_tail_depth(const dop_gen *gen)
{
    return find_head_product(gen->e.g, gen->e.r).k;
}

uint32_t
dop_tail_at_once(const dop_gen *gen, uint32_t heads)
{
    return heads * dop_tail_bytes(gen, 1) <= gen->e.target->schedule.tail_shared ? heads : 1;
}

uint32_t
dop_tail_bytes(const dop_gen *gen, uint32_t at_once)
{
    if (!gen->e.r->info->tail.id)
        return 0;
    const tail t = find_head_product(gen->e.g, gen->e.r);
    return at_once * dop_packed_row_values(t.type->type, t.k) * 4;
}

dop_refusal
dop_tail_refuses(const dop_site *s)
{
    if (s->r->info->tail.id && !find_head_product(s->g, s->r).type)
        return (dop_refusal){"no kernel reads weights of the type here", "`quant` and a type that kernels read"};
    return (dop_refusal){0};
}

void
dop_tail_declare(dop_gen *gen, uint32_t at_once, dop_buf *decls)
{
    dop_emit *e = &gen->e;
    if (!e->r->info->tail.id || e->status != DOP_OK)
        return;
    const tail t = find_head_product(e->g, e->r);
    const dop_tile *tile = &gen->choice->tile;
    const dop_type type = dop_node_at(e->g, t.made)->type;
    const uint32_t k_pad = dop_packed_row_values(t.type->type, t.k), units = k_pad / t.type->unit;
    const uint32_t most = tile->subgroup ? e->target->subgroup : 1, lanes = units < most ? dop_pow2_floor(units) : most;
    uint32_t steps = dop_div_up_u32(units, lanes), rows = dop_div_up_u32(at_once * t.n, tile->wg / lanes);
    const uint32_t loads = e->target->schedule.tail_loads;
    steps = steps > loads ? loads : steps;
    rows = e->target->cpu ? 1 : rows > loads / steps ? loads / steps : rows;
    /* On a CPU device, a workgroup of one subgroup runs in lockstep, and barriers are expensive. */
    const bool in_step = e->target->cpu && tile->subgroup && tile->wg == e->target->subgroup;
    dop_keys keys = {0};
    dop_buf *load = dop_keys_text(gen, &keys, "LOAD"), *store = dop_keys_text(gen, &keys, "STORE");
    gen->hands_on = !e->routes && type == DOP_TYPE_f32;
    gen->merges = gen->merges || (!e->routes && !gen->hands_on);
    dop_emit_scope(e, load, "            ");
    if (e->routes)
        dop_emit_line(e, "x = %s;", dop_emit_receive(e, t.made, "c"));
    else
        dop_emit_line(e, "x = %s%s(%s, c);", gen->hands_on ? "dop_take4_" : "dop_ld4_", dop_type_of(type)->name,
                      dop_emit_arg(e, t.made, false));
    dop_emit_scope(e, store, "                ");
    dop_emit_store(e, t.id, (dop_index){"0u", "c"}, 1, "z");
    DOP_NUMBERS(gen, &keys, decls, {"LANES_H", lanes}, {"#HEADS_H", at_once}, {"ROWS_H", at_once * t.n}, {"N_H", t.n},
                {"K_H", t.k}, {"K_PAD_H", k_pad}, {"RUN_H", rows}, {"STEPS_H", steps}, {"HELD_H", steps * rows},
                {"UNITS_H", units}, {"UNIT_H", t.type->unit});
    dop_buf_printf(decls, "#define DOP_SYNC_H() %s\n",
                   in_step ? "subgroupMemoryBarrier()" : "groupMemoryBarrier(); barrier()");
    dop_keys_set(&keys, "TYPE", dop_type_of(t.type->type)->name);
    dop_keys_set(&keys, "AUX", dop_emit_weight(e, t.matrix));
    const char *matrix = dop_emit_matrix(e, t.matrix, "head");
    dop_keys_set(&keys, "W", matrix);
    /* Neighboring invocations read neighboring units, so units are interleaved to avoid shared memory bank conflicts. CPU
     * devices have no banks. */
    dop_keys_set(&keys, "AT",
                 e->target->cpu ? dop_emit_str(e, "(u) * %uu + (q)", t.type->unit / 4)
                                : dop_emit_str(e, "(q) * %uu + (u)", units));
    dop_keys_set(
        &keys, "AHEAD",
        dop_gen_ahead(gen)
            ? dop_emit_str(e, "        dop_ahead = %s;\n",
                           dop_gen_first_word(gen, matrix, dop_emit_str(e, "(row %% %uu * %uu + u)", t.n, units),
                                              t.type->unit_bytes))
            : "");
    dop_status st = dop_template_fill(gen, "tail.glsl", &keys, decls);
    if (e->status == DOP_OK)
        e->status = st;
}

dop_status
dop_tail_blocks(dop_gen *gen, uint32_t first, uint32_t rows, uint32_t blocks, dop_buf *out)
{
    const tail t = find_head_product(gen->e.g, gen->e.r);
    dop_keys keys = {0};
    DOP_NUMBERS(gen, &keys, out, {"FIRST_H", first}, {"BLOCK_H", rows}, {"BLOCKS_H", blocks}, {"ALL_H", t.heads});
    dop_keys_set(&keys, "COUNTS", dop_emit_counts(&gen->e));
    return dop_template_fill(gen, "tail_blocks.glsl", &keys, out);
}

uint64_t
dop_tail_trips(const dop_site *s, const dop_tile *tile)
{
    if (!s->r->info->tail.id)
        return 0;
    const tail t = find_head_product(s->g, s->r);
    const uint32_t units = dop_packed_row_values(t.type->type, t.k) / t.type->unit, most = s->t->subgroup;
    const uint32_t lanes = units < most ? dop_pow2_floor(units) : most;
    return t.heads *
           (dop_turns(t.k / 4, tile->wg) + dop_turns(t.n, tile->wg / lanes) * (dop_turns(units, lanes) + 6) + 4);
}
