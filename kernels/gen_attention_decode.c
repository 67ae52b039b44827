/* Attention of one token, or of one of each of several sequences, on a GPU (attention_decode.glsl): the pieces of gen_attention.c around it. */
#include "ir/cache_row.h"
#include "kernels/gen.h"

/* Sums of `array` over the lanes whose numbers differ in bits from `from` to below `lanes`: steps that halve the number of values,
 * and then whole ones.  Returns how many halve it.  Written out: a driver that does not unroll a loop over an array keeps it in
 * memory. */
static uint32_t
sums(const char *array, uint32_t values, uint32_t least, uint32_t from, uint32_t lanes, dop_buf *out)
{
    uint32_t halvings = 0;
    bool halving = true;
    for (uint32_t bit = from; bit < lanes; bit *= 2) {
        halving = halving && values % 2 == 0 && values > least;
        if (halving) {
            halvings++;
            values /= 2;
            dop_buf_printf(out, "    {\n        bool upper = (lane & %uu) != 0u;\n        first += upper ? %uu : 0u;\n",
                           bit, values);
            for (uint32_t i = 0; i < values; i++)
                dop_buf_printf(out,
                               "        %s[%u] = (upper ? %s[%u] : %s[%u]) + subgroupShuffleXor(upper ? %s[%u] : "
                               "%s[%u], %uu);\n",
                               array, i, array, i + values, array, i, array, i, array, i + values, bit);
            dop_buf_puts(out, "    }\n");
            continue;
        }
        for (uint32_t i = 0; i < values; i++)
            dop_buf_printf(out, "    %s[%u] += subgroupShuffleXor(%s[%u], %uu);\n", array, i, array, i, bit);
    }
    return halvings;
}

/* Cooperative lanes that share a row of the cache; each lane has equally many pieces of 8 values. */
static uint32_t
lanes_of(const dop_attn *a, const dop_target *t)
{
    uint32_t lanes = t->subgroup;
    while (lanes > 1 && (a->dim % (8 * lanes) || a->value_dim % (8 * lanes)))
        lanes /= 2;
    return lanes;
}

/* Are the values columns of the keys, which a lane already holds? */
static bool
values_are_keys(const dop_graph *g, const dop_attn *a, uint32_t lanes)
{
    return dop_attn_values_in_keys(g, a) && a->value_start % (8 * lanes) == 0;
}

/* Applies the tile to the region's attention.  Returns how many workgroups a head group is divided among. */
static uint32_t
shape(const dop_gen *gen, dop_attn *a)
{
    const dop_tile *tile = &gen->choice->tile;
    uint32_t group_wgs = tile->group_wgs ? tile->group_wgs : 1;
    a->rows = a->merged_heads = a->group / group_wgs;
    a->head0 = "head0";
    if (tile->splits)
        a->splits = tile->splits;
    for (uint32_t which = 0; which < 2; which++)
        a->keeps[which] = dop_attn_has_row(gen, a, which);
    return group_wgs;
}

/* Positions of the cache per iteration of a workgroup: the tile's, else 64; with small subgroups four for each lane of the
 * subgroup that turns a head's scores into weights, but at least one for each set of lanes that share a row. */
static uint32_t
positions_of(const dop_attn *a, const dop_tile *tile, const dop_target *t)
{
    uint32_t least = tile->wg / lanes_of(a, t);
    if (tile->positions || t->subgroup >= 16)
        return tile->positions ? tile->positions : 64;
    return least > t->subgroup * 4 ? least : t->subgroup * 4;
}

/* The number of subgroups whose sums for one head fit a third of the shared memory; if that is not all, they take turns. */
static uint32_t
subgroups_at_once(const dop_attn *a, const dop_tile *tile, const dop_target *t)
{
    uint32_t n = tile->wg / t->subgroup;
    while (n > 1 && n % 2 == 0 && n * a->value_dim * 4 > t->shared_bytes / 3)
        n /= 2;
    return n;
}

/* Heads whose sums are combined at once: as many as a third of the shared memory holds. */
static uint32_t
heads_at_once(const dop_attn *a, const dop_tile *tile, const dop_target *t)
{
    uint32_t batch = t->shared_bytes / 3 / (subgroups_at_once(a, tile, t) * a->value_dim * 4);
    return batch < 1 ? 1 : batch > a->rows ? a->rows : batch;
}

static bool
power_of_two(uint32_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* Query heads whose scores a lane holds after products were summed over the lanes of a row: one, or all where heads cannot be
 * divided among the lanes. */
static uint32_t
left_heads(const dop_attn *a, uint32_t lanes)
{
    return power_of_two(a->rows) && a->rows <= lanes ? 1 : a->rows;
}

/* Keys of the row that a workgroup computes, and of the position from which the step itself makes keys and values. */
static void
set_rows(dop_gen *gen, const dop_attn *a, bool rows, bool made_rows, dop_buf *decls, dop_keys *keys)
{
    dop_emit *e = &gen->e;
    dop_keys_set(keys, "SEQUENCE", dop_attn_sequence(gen, a, rows ? "t" : "0u", decls));
    dop_buf_printf(decls, "#define DOP_T(j) %s\n", rows ? "DOP_GROUP.y" : "0u");
    dop_keys_set(
        keys, "ROW",
        made_rows ? "    uint t = DOP_GROUP.y;\n"
        : rows ? dop_emit_str(e, "    uint t = DOP_GROUP.y;\n    if (t >= %s)\n        return;\n", dop_emit_n_tokens(e))
               : "");
    dop_keys_set(keys, "POSITION", dop_emit_seen_position(e, a->id, rows ? "t" : "0"));
}

/* Numbers of how lanes and subgroups share positions, values and sums, and the code of these sums. */
static void
set_shares(dop_gen *gen, const dop_attn *a, uint32_t lanes, dop_keys *keys)
{
    const dop_tile *tile = &gen->choice->tile;
    const dop_target *t = gen->e.target;
    const uint32_t at_once = positions_of(a, tile, t), held = at_once * lanes / tile->wg, left = left_heads(a, lanes),
                   values = a->rows * a->value_dim / 4 / lanes, batch = heads_at_once(a, tile, t),
                   wide = a->rows % 4 == 0   ? 4
                          : a->rows % 2 == 0 ? 2
                                             : 1;
    const uint32_t of_v = sums("acc", values, 1, lanes, t->subgroup, dop_keys_text(gen, keys, "SUMS_OF_V")),
                   halvings =
                       sums("s", held * a->rows, tile->apart ? left : 1, 1, lanes, dop_keys_text(gen, keys, "SUMS"));
    DOP_NUMBERS(gen, keys, &gen->main, {"R", a->rows}, {"LANES", lanes}, {"CK", a->dim / 8 / lanes},
                {"CV", a->value_dim / 8 / lanes}, {"CP", at_once}, {"NP", held}, {"PAIR", held % 2 ? 1 : 2},
                {"PAIRS", held % 2 ? held : held / 2}, {"#HALVINGS", halvings}, {"LEFT", (held * a->rows) >> halvings},
                {"#LEFT_HEADS", left}, {"SUMS_V", values}, {"LEFT_V", values >> of_v}, {"BATCH", batch},
                {"BATCHES", dop_div_up_u32(a->rows, batch)}, {"#SUMMED", subgroups_at_once(a, tile, t)},
                {"SHARE", at_once / t->subgroup}, {"#APART", tile->apart}, {"#WIDE", wide},
                {"#V_IN_K", values_are_keys(gen->e.g, a, lanes)});
}

static dop_status
emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    dop_attn a = dop_attn_find(gen);
    const dop_node_id merged = e->r->info->attn.merged;
    dop_keys keys = {0};
    dop_buf *decls = dop_keys_text(gen, &keys, "DECLS");
    const uint32_t group_wgs = shape(gen, &a);
    const bool rows = e->g->max_t > 1, made_rows = rows && e->routes;
    if (tile->splits)
        e->splits = tile->splits;
    gen->merges = merged != 0 && !e->routes;
    DOP_NUMBERS(gen, &keys, &gen->main, DOP_ATTN_SHAPE(a), {"MAX_SPLITS", a.max_splits}, {"#MERGE", merged != 0},
                {"#KEEPS_K", a.keeps[0]}, {"#KEEPS_V", a.keeps[1]}, {"GROUP_WGS", group_wgs},
                {"#MADE_ROWS", made_rows ? e->g->max_t : 1});
    dop_attn_positions(gen, &a, decls);
    set_rows(gen, &a, rows, made_rows, decls, &keys);
    dop_attn_prologue(gen, &a, dop_keys_text(gen, &keys, "PROLOGUE"));
    dop_attn_store(gen, &a, dop_keys_text(gen, &keys, "STORE"));
    dop_attn_store_whole(gen, &a, merged, dop_keys_text(gen, &keys, "STORE_WHOLE"));
    dop_attn_merge(gen, &a, merged, dop_keys_text(gen, &keys, "MERGE_BODY"));
    dop_keys_set(&keys, "TAIL", dop_attn_tail(gen, a.head0, "R", dop_tail_at_once(gen, a.rows), decls));
    set_shares(gen, &a, lanes_of(&a, e->target), &keys);
    /* Where the workgroup keeps the rows that this step makes in shared memory, it reads only rows of earlier steps from a cache, and
     * these reads need not be coherent. */
    dop_attn_loads(gen, &a,
                   (const char *const[]){a.keeps[0] ? "dop_ldw4" : "dop_ldc4", a.keeps[1] ? "dop_ldw4" : "dop_ldc4"},
                   decls);
    dop_attn_made(gen, &a, dop_keys_text(gen, &keys, "MADE"));
    dop_keys_set(&keys, "SPLIT", dop_attn_split(e, &a));
    dop_keys_set(&keys, "SCORE", dop_attn_score(gen, &a, "x"));
    dop_keys_set(&keys, "SINK", dop_attn_sink(gen, &a));
    const bool send = merged && e->routes; /* the splits go through a mailbox */
    dop_keys_set(&keys, "COUNTS", merged && !send ? dop_emit_counts(e) : "0");
    dop_keys_set(&keys, "MAILBOX", send ? dop_emit_mailbox_arg(e, a.id, true) : "0");
    gen->grid[0] = a.kv * group_wgs;
    gen->grid[1] = e->g->max_t;
    gen->grid[2] = a.splits;
    return dop_template_fill(gen, "attention_decode.glsl", &keys, &gen->main);
}

static uint32_t
shared_bytes(dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    const dop_target *t = gen->e.target;
    dop_attn a = dop_attn_find(gen);
    (void)shape(gen, &a);
    uint32_t at_once = positions_of(&a, tile, t), batch = heads_at_once(&a, tile, t);
    uint32_t scores = a.rows * at_once + a.rows * 3 * (tile->apart ? tile->wg / t->subgroup : 1);
    return (a.rows * a.dim + scores + batch * subgroups_at_once(&a, tile, t) * a.value_dim +
            (a.keeps[0] || a.keeps[1] ? (a.dim + a.value_stride) * (gen->e.routes ? gen->e.g->max_t : 1) : 0)) *
               4 +
           dop_tail_bytes(gen, dop_tail_at_once(gen, a.rows));
}

static uint64_t
trips(const dop_site *s, const dop_tile *tile)
{
    const dop_attn a = dop_attn_at(s);
    const uint32_t at_once = tile->positions ? tile->positions : 64;
    const uint32_t rows = a.group / (tile->group_wgs ? tile->group_wgs : 1);
    const uint64_t chunk = 8 + rows * (uint64_t)(dop_halvings(s->t->subgroup) + 4);
    return dop_trips_heads(s, tile, &a, rows) + dop_turns(dop_attn_reaches(s, &a), at_once) * chunk +
           (uint64_t)rows * a.value_dim + 64;
}

/* 32-bit registers of an invocation for cache rows, products and sums, where group_wgs workgroups share a head group. */
static uint32_t
registers_of(const dop_graph *g, const dop_attn *a, const dop_target *t, uint32_t wg, uint32_t group_wgs)
{
    uint32_t lanes = lanes_of(a, t), rows = 64 * lanes / wg, heads = a->group / group_wgs;
    uint32_t pieces = a->dim / 8 / lanes + (values_are_keys(g, a, lanes) ? 0 : a->value_dim / 8 / lanes);
    return rows * pieces * 4 + rows * heads + heads * a->value_dim / lanes;
}

/* 32-bit registers of an invocation for `rows` cache rows, products and sums of `heads` heads, where subgroups walk apart. */
static uint32_t
apart_registers(const dop_graph *g, const dop_attn *a, const dop_target *t, uint32_t heads, uint32_t rows)
{
    uint32_t lanes = lanes_of(a, t), values = a->dim + (values_are_keys(g, a, lanes) ? 0 : a->value_dim);
    return rows * (values / 2 / lanes + heads) + heads * a->value_dim / lanes;
}

/* The fewest workgroups among which a head group can be divided so that an invocation has registers for its part; 0: impossible. */
static uint32_t
least_group_wgs(const dop_site *s, const dop_attn *a, uint32_t wg)
{
    const dop_schedule_numbers *of = &s->t->schedule;
    const uint32_t rows = 64 * lanes_of(a, s->t) / wg;
    for (uint32_t n = 1; n <= a->group; n++)
        if (a->group % n == 0 && rows * a->group / n <= of->decode_products &&
            registers_of(s->g, a, s->t, wg, n) <= of->decode_group_registers)
            return n;
    return 0;
}

/* Lanes of a row must divide a subgroup, and the products that one invocation holds are registers. */
static dop_refusal
refuses(const dop_site *s, uint32_t wg, bool stage)
{
    const dop_target *t = s->t;
    dop_attn a = dop_attn_at(s);
    const dop_analysis *found = s->r->info;
    if (s->g->max_t != 1 && !dop_attn_mixes(s))
        return (dop_refusal){"several tokens of one sequence", NULL};
    if (s->g->max_t != 1 &&
        (found->attn.query_runs || found->attn.n_writes || found->attn.n_whole || found->attn.merged || found->tail.id))
        return (dop_refusal){"more is made here of each of several tokens than attention", NULL};
    if (!dop_attn_in_eights(s->g, &a))
        return (dop_refusal){"the cache is f32", "--kv f16"};
    if (a.dim % 8 || a.value_dim % 8 || a.value_start % 8 || a.value_stride % 8 || t->subgroup == 0 ||
        64 % t->subgroup || wg > t->max_workgroup || wg / lanes_of(&a, t) > 64)
        return (dop_refusal){"the values of a head cannot be divided among enough lanes, 8 at a time", NULL};
    uint32_t group_wgs = least_group_wgs(s, &a, wg);
    if (group_wgs == 0)
        return (dop_refusal){"a head has more values than an invocation has registers for", NULL};
    if (s->r->info->attn.merged && !stage && group_wgs * a.kv > dop_template_of(DOP_TPL_attention)->merges)
        return (dop_refusal){"more head groups than can count their splits", NULL};
    return dop_attn_refuses_step(s);
}

static dop_refusal
fits(const dop_site *s)
{
    return refuses(s, s->t->schedule.decode_wg, false);
}

/* Where the step's rows make enough workgroups, the variants in which a single invocation walks over a short head are as fast. */
static const char *
avoid(const dop_site *s)
{
    const dop_attn a = dop_attn_at(s);
    if (s->t->cpu)
        return "sums across lanes are slow on CPU devices";
    return s->g->max_t > 1 && a.dim <= s->t->schedule.decode_short_head &&
                   (uint64_t)s->g->max_t * a.kv > 2ull * s->t->cores
               ? "there are workgroups enough for heads that are short"
               : NULL;
}

/* Where a lane holds much of a row, as in latent attention, a workgroup takes the least time with one
 * head, which leaves registers free and is less code. */
static bool
takes_one_head(const dop_site *s, const dop_attn *a)
{
    return a->dim / 8 / lanes_of(a, s->t) > s->t->schedule.decode_lane_pieces &&
           (!s->r->info->attn.merged || a->group * a->kv <= dop_template_of(DOP_TPL_attention)->merges);
}

/* Sets tile.apart, by which subgroups walk over positions of their own, where `registers` of an invocation hold its rows, products
 * and sums, and where shared memory holds the sums of all subgroups at once. */
static void
walk_apart(const dop_site *s, const dop_attn *a, uint32_t registers, dop_tile *tile)
{
    /* Several tokens make many workgroups. */
    const uint32_t rows = s->t->schedule.decode_apart_rows;
    const uint32_t heads = a->group / (tile->group_wgs ? tile->group_wgs : 1);
    if (s->g->max_t > 1 || heads > s->t->schedule.decode_apart_heads || s->t->cpu || s->t->subgroup < 2 ||
        apart_registers(s->g, a, s->t, heads, rows) > registers ||
        subgroups_at_once(a, tile, s->t) * s->t->subgroup != tile->wg)
        return;
    tile->apart = true;
    tile->positions = tile->wg / lanes_of(a, s->t) * rows;
}

static void
choose_tile(const dop_site *s, dop_tile *tile)
{
    dop_attn a = dop_attn_at(s);
    tile->wg = s->t->schedule.decode_wg;
    tile->bq = 1;
    tile->group_wgs = takes_one_head(s, &a) ? a.group : least_group_wgs(s, &a, tile->wg);
    walk_apart(s, &a, s->t->schedule.decode_registers, tile);
}

/* Where KV heads are few, a head group is divided among workgroups as long as there are about enough of them for all
 * `splits`. */
static uint32_t
stage_group_wgs(const dop_site *s, const dop_attn *a, uint32_t splits)
{
    return a->kv * a->group * splits * s->g->max_t * 8 <= s->t->cores * s->t->schedule.decode_stage_busy
               ? a->group
               : least_group_wgs(s, a, s->t->persistent);
}

/* The most splits of a short cache: up to this number a stage divides head groups among more workgroups than for longer caches; 0:
 * it has no form for short caches. */
static uint32_t
short_splits(const dop_site *s, const dop_attn *a)
{
    uint32_t splits = a->splits, least = least_group_wgs(s, a, s->t->persistent);
    if (s->g->max_t > 1 || stage_group_wgs(s, a, splits) > least)
        return 0;
    while (splits > 1 && stage_group_wgs(s, a, splits) == least)
        splits /= 2;
    return stage_group_wgs(s, a, splits) > least ? splits : 0;
}

static const char *
as_stage(const dop_site *s, dop_tile *tile)
{
    dop_attn a = dop_attn_at(s);
    tile->bq = 1;
    tile->whole = s->t->stage_whole;
    tile->least = s->t->split_least;
    tile->group_wgs = stage_group_wgs(s, &a, a.splits);
    /* Long caches: where 64 positions are one row for each invocation, twice as many at a time need half the barriers. */
    if (short_splits(s, &a) > 1 && a.dim == a.value_dim && s->t->persistent * 8 == a.dim * 64)
        tile->positions = s->t->schedule.decode_stage_positions;
    walk_apart(s, &a, s->t->schedule.decode_stage_registers, tile);
    return refuses(s, s->t->persistent, true).why;
}

static uint32_t
as_short_stage(const dop_site *s, const dop_tile *stage, dop_tile *tile)
{
    dop_attn a = dop_attn_at(s);
    uint32_t splits = short_splits(s, &a);
    if (splits < 2)
        return 0;
    tile->splits = splits;
    tile->group_wgs = stage_group_wgs(s, &a, splits);
    tile->positions = 0;
    tile->apart = false;
    walk_apart(s, &a, s->t->schedule.decode_stage_registers, tile);
    return splits * stage->whole;
}

const dop_descriptor dop_descriptor_attention_decode = {
    .fits = fits,
    .avoid = avoid,
    .tile = choose_tile,
    .shared = shared_bytes,
    .emit = emit,
    .trips = trips,
    .stage = DOP_VARIANT_attention_decode,
    .as_stage = as_stage,
    .as_short_stage = as_short_stage,
};
