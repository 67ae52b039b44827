/* Loads of key and value rows in attention kernels, for each storage type of caches. */
#include "kernels/gen/gen_cache.h"

#include "ir/graph/cache_row.h"
#include "kernels/gen/gen.h"

/* Properties of the K or V cache for its load macros: name suffix, type, and value layout. */
typedef struct cache {
    char name;
    dop_type type;
    const char *arg;
    const char *dim, *start; /* stride between heads and offset of the first head in values (template macros) */
    uint32_t cols;           /* columns of a cache row over all heads */
} cache;

static cache
cache_of(dop_gen *gen, const dop_attn *a, uint32_t which)
{
    const dop_node_id id = a->n->src[1 + which];
    return (cache){.name = which ? 'V' : 'K',
                   .type = dop_node_at(gen->e.g, id)->type,
                   .arg = dop_emit_cache_arg(&gen->e, id, which ? DOP_VIEW_V_CACHE : DOP_VIEW_K_CACHE),
                   .dim = which ? "VS" : "D",
                   .start = which ? " + V0" : "",
                   .cols = a->kv * (which ? a->value_stride : a->dim)};
}

bool
dop_attn_in_blocks(const dop_graph *g, const dop_attn *a, uint32_t which)
{
    return dop_cache_blocks(dop_node_at(g, a->n->src[1 + which])->type);
}

bool
dop_attn_in_eights(const dop_graph *g, const dop_attn *a)
{
    const dop_type k = dop_node_at(g, a->n->src[1])->type, v = dop_node_at(g, a->n->src[2])->type;
    return (k == DOP_TYPE_f16 || dop_cache_blocks(k)) && (v == DOP_TYPE_f16 || dop_cache_blocks(v));
}

dop_refusal
dop_attn_refuses_blocks(const dop_site *s)
{
    for (uint32_t i = 0; i < s->r->n_nodes; i++)
        if (dop_node_writes_blocks(s->g, s->r->nodes[i]))
            return (dop_refusal){"neighbouring invocations make a block of the cache", "a kernel with subgroups"};
    return (dop_refusal){0};
}

/* Defines the macros. DOP_ROW_K(p) is the start of head kvh's row at position p. DOP_LD_K(at, i) loads its piece i as stored.
 * The piece's values are DOP_LO_K and DOP_HI_K times DOP_FACTOR_K; DOP_SCALED_K(w, x) multiplies x by the factor. DOP_AT_K(p)
 * and DOP_LD4_K(at, d) load four values from column d on. */
void
dop_attn_loads(dop_gen *gen, const dop_attn *a, const char *const words[2], dop_buf *out)
{
    for (uint32_t which = 0; which < (a->keys_only ? 1u : 2u); which++) {
        const cache c = cache_of(gen, a, which);
        const char *type = dop_type_of(c.type)->name, n = c.name;
        if (!dop_cache_blocks(c.type)) {
            dop_buf_printf(out,
                           "#define DOP_AT_%c(p) ((DOP_SLOT(p) * KV + kvh) * %s%s)\n"
                           "#define DOP_LD4_%c(at, d) dop_ld4_%s(%s, (at) + (d))\n"
                           "#define DOP_ROW_%c(p) ((DOP_SLOT(p) * KV + kvh) * (%s / 8u)%s)\n"
                           "#define DOP_RAW_%c(w) (w)\n#define DOP_HALVES_%c(w) (w)\n",
                           n, c.dim, c.start, n, type, c.arg, n, c.dim, which ? " + V0 / 8u" : "", n, n);
            dop_buf_printf(out,
                           c.type == DOP_TYPE_f32
                               ? "#define DOP_LD_%c(at, i) dop_halves(1.0, dop_ld4_f32(%s, ((at) + (i)) * 8u), "
                                 "dop_ld4_f32(%s, ((at) + (i)) * 8u + 4u))\n"
                               : "#define DOP_LD_%c(at, i) %s(%s, (at) + (i))\n",
                           n, c.type == DOP_TYPE_f32 ? c.arg : words[which], c.arg);
            dop_buf_printf(out,
                           "#define DOP_PIECE_%c uvec4\n#define DOP_LO_%c(w) dop_f16x4((w).xy)\n"
                           "#define DOP_HI_%c(w) dop_f16x4((w).zw)\n#define DOP_FACTOR_%c(w) 1.0\n"
                           "#define DOP_SCALED_%c(w, x) x\n",
                           n, n, n, n, n);
            continue;
        }
        gen->e.blocks = true;
        const char *in = c.type == DOP_TYPE_q8_0 ? "xyz" : "xy";
        dop_buf_printf(
            out,
            "#define DOP_ROW_%c(p) ((DOP_SLOT(p)) * %uu)\n#define DOP_AT_%c(p) DOP_ROW_%c(p)\n"
            "#define DOP_LD4_%c(at, d) dop_ld4_%s(%s, at, kvh * %s%s + (d), %uu)\n"
            "#define DOP_LD_%c(at, i) dop_ld8_%s(%s, at, kvh * %s%s + (i) * 8u, %uu)\n"
            "#define DOP_PIECE_%c DOP_PIECE_%s\n"
            "#define DOP_LO_%c(w) dop_lo_%s(w)\n#define DOP_HI_%c(w) dop_hi_%s(w)\n"
            "#define DOP_FACTOR_%c(w) dop_factor_%s(w)\n#define DOP_SCALED_%c(w, x) (DOP_FACTOR_%c(w) * x)\n",
            n, (uint32_t)(dop_cache_row_bytes(c.type, c.cols) / 4), n, n, n, type, c.arg, c.dim, c.start, c.cols, n,
            type, c.arg, c.dim, c.start, c.cols, n, type, n, type, n, type, n, type, n, n);
        dop_buf_printf(
            out,
            "#define DOP_RAW_%c(w) uvec4(w%s)\n"
            "#define DOP_HALVES_%c(w) dop_halves(dop_factor_%s((w).%s), dop_lo_%s((w).%s), dop_hi_%s((w).%s))\n",
            n, c.type == DOP_TYPE_q8_0 ? ", 0u" : ", 0u, 0u", n, type, in, type, in, type, in);
    }
}

/* Defines DOP_MADE_K(first): the piece of this step's row that begins at word `first` of dop_new, in the form that a load
 * gives. */
void
dop_attn_made(dop_gen *gen, const dop_attn *a, dop_buf *out)
{
    bool done[DOP_TYPE_COUNT] = {0};
    for (uint32_t which = 0; which < 2; which++) {
        const cache c = cache_of(gen, a, which);
        const char *type = dop_type_of(c.type)->name;
        dop_buf_printf(out, "#define DOP_MADE_%c(first) dop_made_%s(first)\n", c.name, type);
        if (done[c.type])
            continue;
        done[c.type] = true;
        dop_buf_printf(out,
                       dop_cache_blocks(c.type)
                           ? "DOP_PIECE_%s dop_made_%s(uint first)\n{\n"
                             "    vec4 most = vec4(0.0), least = vec4(0.0);\n"
                             "    [[unroll]] for (uint i = 0u; i < 8u; i++) {\n"
                             "        vec4 x = dop_new[first / 8u * 8u + i];\n"
                             "        most = max(most, x);\n        least = min(least, x);\n    }\n"
                             "    return dop_make8_%s(dop_most(most), -dop_most(-least), dop_new[first], "
                             "dop_new[first + 1u]);\n}\n"
                           : "#define dop_made_f16 dop_new_part\n",
                       type, type, type);
    }
}

/* Defines DOP_SLOT(p) if attention is restricted to a list of positions (top_positions): p is an index into row t0's list.
 * Returns the name of the macro that maps positions. */
static const char *
slot_macro(dop_gen *gen, const dop_attn *a, dop_buf *decls)
{
    const dop_node_id chosen = dop_attention_chosen(gen->e.g, a->id);
    if (!chosen)
        return "DOP_SLOT";
    dop_buf_printf(decls, "#define DOP_SLOT(i) DOP_SLOT_OF(dop_ld1_u32(%s, t0 * %uu + (i)))\n",
                   dop_emit_arg(&gen->e, chosen, false), (uint32_t)dop_node_i(gen->e.g, a->id, DOP_A_top));
    return "DOP_SLOT_OF";
}

void
dop_attn_positions(dop_gen *gen, const dop_attn *a, dop_buf *decls)
{
    if (!dop_attention_cached(gen->e.g, a->id)) {
        dop_buf_puts(decls, "#define DOP_RING_FROM(first)\n#define DOP_SLOT(p) (p) // rows of this step\n");
        return;
    }
    bool pages = gen->e.g->max_q > 1 && dop_attention_reach(gen->e.g, a->id).ring == 0;
    const char *ring = pages ? NULL : dop_emit_ring(&gen->e, a->id);
    const char *slot = slot_macro(gen, a, decls);
    dop_buf_printf(decls, "#define DOP_FIRST(p) %s\n", dop_emit_first(&gen->e, a->id, "(p)"));
    if (pages) {
        /* Page tables are constant during a step, so reads need not be coherent. */
        dop_buf_printf(
            decls,
            "layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Pages { uint v[]; };\n"
            "#define DOP_RING_FROM(first)\n#define %s(p) %s\n",
            slot, dop_emit_page_row(&gen->e, "Pages", "dop_first", "(p)"));
        return;
    }
    if (!ring) {
        dop_buf_printf(decls, "#define DOP_RING_FROM(first)\n#define %s(p) (p)\n", slot);
        return;
    }
    /* One division serves all positions, because a dispatch covers fewer positions than the ring has rows. */
    const char *from = gen->e.g->max_q > 1 ? "dop_first + " : "";
    dop_buf_printf(decls,
                   "uint dop_ring0; // what the first position counts from: a multiple of the ring\n"
                   "#define DOP_RING_FROM(first) dop_ring0 = (first) / %s * %s\n"
                   "#define %s(p) %s%smin((p) - dop_ring0, (p) - dop_ring0 - %s)%s\n",
                   ring, ring, slot, *from ? "(" : "", from, ring, *from ? ")" : "");
}
