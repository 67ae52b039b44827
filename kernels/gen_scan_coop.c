/* Linear recurrences of many rows on matrix units, in chunks (scan_coop.glsl). */
#include "kernels/gen_scan.h"

enum { BLOCK = 16, MOST_STATE = 256 };

/* Consequences of a tile: what each subgroup has, and where things are in shared memory, in words of 16 bytes. */
typedef struct layout {
    uint32_t rows;      /* rows of a chunk */
    uint32_t split;     /* subgroups that share columns of the state */
    uint32_t workers;   /* subgroups that have a part of the state */
    uint32_t subgroups; /* all subgroups of the workgroup */
    uint32_t pieces;    /* factors that pass through a subgroup's piece of shared memory at once */
    uint32_t piece_at, words;
    uint32_t bytes; /* of shared memory in all */
} layout;

/* The number of subgroups that share columns of the state.  Updating a column's state is as much work as its products, so dividing
 * a column among subgroups pays.  With a delta rule it does not, because they would have to combine their parts before the column
 * is solved. */
static uint32_t
split_of(const dop_scan *s, const dop_target *t)
{
    uint32_t split = 1;
    while (!s->delta && s->p / BLOCK * split * 2 <= t->schedule.scan_units_workers &&
           s->count / BLOCK % (split * 2) == 0)
        split *= 2;
    return split;
}

static layout
layout_of(const dop_scan *s, uint32_t rows, const dop_target *t)
{
    enum { SUMS = 256 }; /* most bytes that common.glsl uses for reductions */
    layout l = {.rows = rows, .split = split_of(s, t)};
    l.workers = s->p / BLOCK * l.split;
    l.subgroups = l.workers + t->schedule.scan_helpers;
    l.piece_at = rows * 4 * (s->count / 8 + 1) + (s->delta ? 4 : 2) * rows * (rows / 8 + 1);
    uint32_t others = (rows * (s->p + 4) + 4 * rows + BLOCK + (s->delta ? rows * BLOCK : 0)) * 4;
    for (l.pieces = 4;; l.pieces /= 2) {
        l.words = l.piece_at + l.workers * BLOCK * (l.pieces * 4 + 1);
        l.bytes = l.words * 16 + others;
        if (l.pieces == 1 || l.bytes + SUMS <= t->shared_bytes)
            return l;
    }
}

/* Can a sum become a factor by a conversion?  In the NV form it can, because matrices are not tied to a use. */
static bool
converts(const dop_gen *gen)
{
    return !(gen->e.target->caps & DOP_CAP_coop_khr);
}

/* Staging of q, k or v for a chunk: every invocation takes four values at a time, and all loads of the chunk are in flight at once.
 * Missing rows at the end of a chunk repeat the step's last row. */
static void
stage_values(dop_gen *gen, dop_node_id src, uint32_t count, const char *base, const char *put, dop_buf *body)
{
    dop_emit *e = &gen->e;
    const uint32_t fours = gen->choice->tile.bq * count / 4;
    const bool even = fours % gen->choice->tile.wg == 0;
    dop_buf *inner = dop_gen_text(gen);
    dop_emit_scope(e, inner, "            ");
    dop_emit_line(e, put, dop_emit_value(e, src, (dop_index){"t", "c"}, 4));
    dop_buf_printf(
        body,
        "        [[unroll]] for (uint i = 0u; i < %uu; i += WG) {\n"
        "            uint at = i + gl_LocalInvocationIndex, row = at / %uu, t = min(first + row, rows - 1u);\n"
        "            uint c = %s + at %% %uu * 4u;\n%s%s%s        }\n",
        fours, count / 4, base, count / 4, even ? "" : dop_emit_str(e, "            if (at < %uu) {\n", fours),
        dop_buf_text(inner), even ? "" : "            }\n");
}

/* Appends `inner` once for each row of a chunk, in an unrolled loop in which every subgroup has a row: `row` in the chunk, `t` in
 * the step. */
static void
each_row(dop_gen *gen, const dop_buf *inner, dop_buf *body)
{
    const uint32_t subgroups = gen->choice->tile.wg / gen->e.target->subgroup;
    const bool even = gen->choice->tile.bq % subgroups == 0;
    dop_buf_printf(body,
                   "    [[unroll]] for (uint i = 0u; i < ROWS; i += SUBGROUPS) {\n"
                   "    uint row = %s, t = min(first + row, rows - 1u);\n%s    }\n",
                   even ? "i + sub" : "min(i + sub, ROWS - 1u)", inner->data ? inner->data : "");
}

/* Staging of the decays (and beta): the first subgroup loads them and makes running sums of their logarithms. */
static void
stage_factors(dop_gen *gen, const dop_scan *s, dop_buf *body)
{
    dop_emit *e = &gen->e;
    dop_buf *inner = dop_gen_text(gen);
    dop_emit_scope(e, inner, "            ");
    const char *decay = dop_emit_value(e, s->n->src[3], (dop_index){"t", "h"}, 1);
    dop_emit_line(e, "float part = sum + subgroupInclusiveAdd(row < count ? scan_log2(%s) : 0.0);", decay);
    if (s->delta)
        dop_emit_line(e, "float beta = %s;", dop_emit_value(e, s->n->src[6], (dop_index){"t", "h"}, 1));
    dop_buf_printf(body,
                   "    if (sub == 0u) {\n        float sum = 0.0;\n"
                   "        [[unroll]] for (uint base = 0u; base < ROWS; base += SG) {\n"
                   "            uint row = base + lane, t = min(first + row, rows - 1u);\n%s"
                   "            if (row < ROWS) {\n"
                   "                scan_log[row] = part;\n                scan_from[row] = exp2(part);\n"
                   "%s            }\n"
                   "            sum = subgroupShuffle(part, SG - 1u);\n        }\n"
                   "        for (uint row = lane; row < ROWS; row += SG)\n"
                   "            scan_to[row] = exp2(sum - scan_log[row]);\n    }\n",
                   dop_buf_text(inner), s->delta ? "                scan_beta[row] = row < count ? beta : 0.0;\n" : "");
}

static void
stage(dop_gen *gen, const dop_scan *s, dop_buf *body)
{
    const dop_analysis *a = gen->e.r->info;
    stage_factors(gen, s, body);
    for (uint32_t i = 0; i < 2; i++) {
        dop_buf head = {0};
        if (a->scan.heads[i].n_nodes == 0) {
            stage_values(gen, s->n->src[i], s->count, "g * N", i ? "DOP_SK_PUT(at, %s);" : "DOP_SQ_PUT(at, %s);", body);
            continue;
        }
        dop_scan_head(gen, s, i, &head);
        each_row(gen, &head, body);
        dop_buf_finish(&head);
    }
    stage_values(gen, s->n->src[2], s->p, "h * P", "scan_put_v(at, row < count ? %s : vec4(0.0));", body);
}

static void
emit_behind(dop_gen *gen, const dop_scan *s, dop_buf *body)
{
    dop_buf *row = dop_gen_text(gen);
    if (gen->e.r->info->scan.behind.n_nodes == 0)
        return;
    dop_buf_puts(body, "        barrier();\n");
    dop_scan_behind(gen, s, "LV", "i + sub < count", row);
    each_row(gen, row, body);
}

static dop_status
emit(dop_gen *gen)
{
    const dop_scan s = dop_scan_of(gen);
    const layout l = layout_of(&s, gen->choice->tile.bq, gen->e.target);
    dop_keys keys = {0};
    dop_buf *from = dop_keys_text(gen, &keys, "FROM");
    gen->halves = true;
    if (!converts(gen))
        gen->e.caps |= DOP_CAP_coop_f16_sums;
    dop_keys_set(&keys, "LOAD", dop_scan_load(gen, &s, from));
    stage(gen, &s, dop_keys_text(gen, &keys, "STAGE"));
    emit_behind(gen, &s, dop_keys_text(gen, &keys, "AFTER"));
    dop_scan_save(gen, &s, "x", "            ", from, dop_keys_text(gen, &keys, "SAVE"));
    dop_scan_begin(gen, &s, dop_keys_text(gen, &keys, "BEGIN"));
    DOP_NUMBERS(gen, &keys, &gen->main, {"P", s.p}, {"N", s.count}, {"ROWS", l.rows}, {"#SPLIT", l.split},
                {"PIECES", l.pieces}, {"PIECES_AT", l.piece_at}, {"WORDS", l.words}, {"#DELTA", s.delta},
                {"#CONVERTS", converts(gen)});
    return dop_template_fill(gen, "scan_coop.glsl", &keys, &gen->main);
}

static uint32_t
shared_bytes(dop_gen *gen)
{
    const dop_scan s = dop_scan_of(gen);
    return layout_of(&s, gen->choice->tile.bq, gen->e.target).bytes;
}

static void
choose_tile(const dop_site *site, dop_tile *tile)
{
    const dop_scan s = dop_scan_at(site);
    tile->bq = site->t->schedule.scan_units_chunk / BLOCK * BLOCK;
    while (tile->bq > BLOCK && layout_of(&s, tile->bq, site->t).bytes > site->t->shared_bytes)
        tile->bq -= BLOCK;
    tile->wg = layout_of(&s, tile->bq, site->t).subgroups * site->t->subgroup;
}

/* Can the values be staged four at a time? */
static bool
in_fours(const dop_site *site, const dop_scan *s)
{
    const dop_analysis *a = site->r->info;
    bool wide = dop_region_wide(site->g, site->r, s->n->src[2]);
    for (uint32_t i = 0; i < 2; i++) {
        wide = wide && dop_region_wide(site->g, site->r, s->n->src[i]);
        for (uint32_t k = 0; k < a->scan.heads[i].n_nodes; k++) {
            dop_node_id id = a->scan.heads[i].nodes[k];
            if (dop_node_is(site->g, id, DOP_STATISTIC))
                id = dop_node_at(site->g, id)->src[0];
            wide = wide && dop_region_wide(site->g, site->r, id);
        }
    }
    return wide;
}

static dop_refusal
fits(const dop_site *site)
{
    const dop_scan s = dop_scan_at(site);
    const dop_target *t = site->t;
    if (t->matrix != DOP_MATRIX_SHAPE(BLOCK, BLOCK, BLOCK) || !(t->caps & (DOP_CAP_coop_nv | DOP_CAP_coop_f16_sums)))
        return (dop_refusal){"its matrix units have other shapes, or no sums of f16", NULL};
    if (s.each)
        return (dop_refusal){"every column of the state decays by itself", NULL};
    if (s.p % BLOCK || s.count % BLOCK || s.count > MOST_STATE)
        return (dop_refusal){"rows or columns of the state are no multiple of 16 values, or its rows longer than 256",
                             NULL};
    if (site->g->max_t < BLOCK)
        return (dop_refusal){"fewer rows than a matrix has", NULL};
    if ((s.p / BLOCK + t->schedule.scan_helpers) * t->subgroup > t->max_workgroup)
        return (dop_refusal){"a head has more columns than a workgroup has subgroups for", NULL};
    if (!in_fours(site, &s))
        return (dop_refusal){"its values cannot be made four at a time", NULL};
    return dop_scan_keeps_last(site);
}

static const char *
avoid(const dop_site *s)
{
    if (dop_graph_mixes(s->g))
        return "the step has rows of several sequences, few of each";
    if (s->g->max_t < s->t->schedule.scan_units_least)
        return "fewer rows than two chunks";
    return NULL;
}

const dop_descriptor dop_descriptor_scan_coop = {
    .fits = fits,
    .avoid = avoid,
    .tile = choose_tile,
    .shared = shared_bytes,
    .emit = emit,
    .stage = DOP_VARIANT_scan_subgroup,
    .matrix_form = DOP_CAP_coop_khr,
};
