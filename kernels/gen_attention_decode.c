/* Attention of one token on a GPU (attention_decode.glsl): the pieces of gen_attention.c around it. */
#include "kernels/gen.h"

/* Written out: a driver that does not unroll a loop over s[] keeps it in memory. */
static uint32_t
sums(uint32_t values, uint32_t lanes, dop_buf *out)
{
    uint32_t halvings = 0;
    bool halving = true;
    for (uint32_t bit = 1; bit < lanes; bit *= 2) {
        halving = halving && values % 2 == 0;
        if (halving) {
            halvings++;
            values /= 2;
            dop_buf_printf(out, "    {\n        bool upper = (lane & %uu) != 0u;\n        first += upper ? %uu : 0u;\n",
                           bit, values);
            for (uint32_t i = 0; i < values; i++)
                dop_buf_printf(
                    out, "        s[%u] = (upper ? s[%u] : s[%u]) + subgroupShuffleXor(upper ? s[%u] : s[%u], %uu);\n",
                    i, i + values, i, i, i + values, bit);
            dop_buf_puts(out, "    }\n");
            continue;
        }
        for (uint32_t i = 0; i < values; i++)
            dop_buf_printf(out, "    s[%u] += subgroupShuffleXor(s[%u], %uu);\n", i, i, bit);
    }
    return halvings;
}

dop_status
dop_gen_attention_decode(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    dop_attn a = dop_attn_find(gen);
    dop_node_id merged = e->r->info->merged;
    dop_keys keys = {0};
    dop_buf decls = {0}, prologue = {0}, store = {0}, whole = {0}, merge = {0}, tree = {0};
    uint32_t sharers = tile->sharers ? tile->sharers : 1;
    a.rows = a.merged_heads = a.group / sharers;
    a.head0 = "head0";
    if (tile->splits)
        a.splits = e->splits = tile->splits;
    for (uint32_t which = 0; which < 2; which++)
        a.keeps[which] = dop_attn_has_row(gen, &a, which);
    gen->merges = merged != 0 && !e->handed;
    dop_buf_printf(&decls,
                   "#define SPLITS %u\n#define ROOM %uu\n#define MERGE %d\n#define KEEPS_K %d\n#define KEEPS_V %d\n",
                   a.splits, a.room, merged != 0, a.keeps[0], a.keeps[1]);
    dop_attn_prologue(gen, &a, &prologue);
    dop_attn_store(gen, &a, &store);
    dop_attn_store_whole(gen, &a, merged, &whole);
    dop_attn_merge(gen, &a, merged, &merge);
    uint32_t lanes = a.dim / 8, teams = tile->wg / e->target->subgroup,
             at_once = tile->positions ? tile->positions : 64;
    uint32_t held = at_once * lanes / tile->wg, halvings = sums(held * a.rows, lanes, &tree);
    /* Heads whose sums meet at once: as many as a third of the shared memory takes. */
    uint32_t batch = e->target->shared_bytes / 3 / (teams * a.dim * 4);
    batch = batch < 1 ? 1 : batch > a.rows ? a.rows : batch;
    gen->shared += (a.rows * a.dim + a.rows * at_once + a.rows * 3 + batch * teams * a.dim +
                    (a.keeps[0] || a.keeps[1] ? 2 * a.dim : 0)) *
                   4;
    dop_keys_num(gen, &keys, "D", a.dim);
    dop_keys_num(gen, &keys, "R", a.rows);
    dop_keys_num(gen, &keys, "SHARERS", sharers);
    dop_keys_num(gen, &keys, "KV", a.kv);
    dop_keys_set(&keys, "SUMS", tree.data ? tree.data : "");
    dop_keys_num(gen, &keys, "CP", at_once);
    dop_keys_num(gen, &keys, "NP", held);
    dop_keys_num(gen, &keys, "LEFT", (held * a.rows) >> halvings);
    dop_keys_num(gen, &keys, "BATCHES", dop_div_up_u32(a.rows, batch));
    dop_keys_num(gen, &keys, "SHARE", at_once / e->target->subgroup);
    dop_keys_num(gen, &keys, "HALVINGS", halvings);
    dop_keys_num(gen, &keys, "BATCH", batch);
    dop_keys_set(&keys, "WINDOW", dop_emit_window(e, a.id));
    dop_keys_set(&keys, "POS", dop_emit_pos(e));
    dop_keys_set(&keys, "K", dop_emit_arg(e, a.n->src[1], false));
    dop_keys_set(&keys, "V", dop_emit_arg(e, a.n->src[2], false));
    dop_keys_set(&keys, "SCORE", dop_attn_score(gen, &a, "x"));
    dop_keys_set(&keys, "SINK", dop_attn_sink(gen, &a));
    bool parts = merged && e->handed; /* they are handed over */
    dop_keys_set(&keys, "MERGES", merged && !parts ? dop_emit_merges(e) : "0");
    dop_keys_set(&keys, "PARTS", parts ? dop_emit_handed_arg(e, a.id, true) : "0");
    dop_keys_set(&keys, "MERGE_BODY", merge.data ? merge.data : "");
    dop_keys_set(&keys, "STORE_WHOLE", whole.data ? whole.data : "");
    dop_keys_set(&keys, "STORE", store.data ? store.data : "");
    dop_keys_set(&keys, "DECLS", decls.data ? decls.data : "");
    dop_keys_set(&keys, "PROLOGUE", prologue.data ? prologue.data : "");
    gen->grid[0] = a.kv * sharers;
    gen->grid[1] = 1;
    gen->grid[2] = a.splits;
    dop_status st =
        e->status == DOP_OK ? dop_template_fill(gen, "attention_decode.glsl", &keys, &gen->main) : e->status;
    dop_buf_finish(&decls);
    dop_buf_finish(&prologue);
    dop_buf_finish(&store);
    dop_buf_finish(&whole);
    dop_buf_finish(&merge);
    dop_buf_finish(&tree);
    return st;
}
