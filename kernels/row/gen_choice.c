/* Expert choice: rows of scores in shared memory, their top-k, and values computed from these. A choice is either a dispatch
 * with one workgroup per row of the step, or a prologue of products that every workgroup repeats. Rows and their reductions
 * are row programs. */
#include "kernels/row/gen_choice.h"
#include "ir/graph/access.h"
#include "ir/graph/dims.h"
#include "kernels/gen/gen.h"
#include "kernels/gen/row_program.h"
#include "kernels/gen/templates.h"
#include "kernels/gen/trips.h"
#include "kernels/nest/nest.h"

typedef struct choice {
    dop_gen *gen;
    const dop_choice_program *p;
    dop_nest *n;
    uint32_t serial;
    uint32_t rows; /* memory bits of all rows so far */
} choice;

/* A row in shared memory, and its memory bits. */
typedef struct row {
    const char *name;
    uint32_t memory;
} row;

static uint32_t
choice_cols(const choice *s, dop_node_id id)
{
    return dop_node_cols(s->gen->e.g, id);
}

static row
new_row(choice *s, const char *type, uint32_t count)
{
    const char *name = dop_nest_text(s->n, "dop_c%u", s->serial++);
    return (row){name, dop_nest_shared(s->n, type, name, count)};
}

static const char *
bound_row(const choice *s, dop_node_id base)
{
    const dop_emit *e = &s->gen->e;
    for (uint32_t i = e->n_binds; i-- > 0;)
        if (e->binds[i].node == base)
            return e->binds[i].indexed ? e->binds[i].name : NULL;
    return NULL;
}

/* Binds the node's value to the row. */
static void
bind_row(choice *s, dop_node_id id, row r)
{
    s->rows |= r.memory;
    dop_emit_bind(&s->gen->e, id, r.name, true, NULL);
}

/* Begins a loop over the columns of a row, one column per invocation. It writes row `to`, which no other code has read. */
static void
each_column(choice *s, const char *column, uint32_t count, const row *to)
{
    dop_stmt *loop = dop_nest_for(s->n, column, "gl_LocalInvocationIndex", dop_nest_text(s->n, "%uu", count), "WG");
    loop->apart = true;
    loop->reads = s->rows;
    loop->writes = to ? to->memory : 0;
}

/* Emits code that runs the program of one node, which reduces rows, or of none (node NULL), which only evaluates `staged`.
 * `staged` becomes a row; 0: nothing does. */
static void
run_program(choice *s, const dop_node_id *node, dop_node_id staged)
{
    const dop_graph *g = s->gen->e.g;
    row r = {0};
    if (staged)
        r = new_row(s, dop_node_at(g, staged)->type == DOP_TYPE_u32 ? "uint" : "float", choice_cols(s, staged));
    const dop_rowprog p = {.nodes = node,
                           .n_nodes = node ? 1 : 0,
                           .len = choice_cols(s, staged ? staged : dop_node_at(g, *node)->src[0]),
                           .t = s->p->t,
                           .unit = "0u",
                           .store_if = s->p->store_if,
                           .staged = staged,
                           .stage = r.name,
                           .stage_base = "0u",
                           .memory = r.memory,
                           .columns = true,
                           .serial = s->serial++};
    dop_nest_rowprog(s->gen, &p, s->n);
    if (staged)
        bind_row(s, staged, r);
}

/* Returns the row of a value, which is computed or loaded here unless it exists already. */
static const char *
find_value_row(choice *s, dop_node_id id)
{
    const dop_node_id base = dop_node_base(s->gen->e.g, id, NULL);
    if (!bound_row(s, base))
        run_program(s, NULL, base);
    return bound_row(s, base);
}

/* Emits near_softmax (ops.def): for each chosen column, its softmax over the nearby columns that no earlier slot has
 * chosen. */
static void
near_softmax(choice *s, dop_node_id id)
{
    dop_nest *n = s->n;
    const dop_node *node = dop_node_at(s->gen->e.g, id);
    const char *x = find_value_row(s, node->src[0]), *ids = find_value_row(s, node->src[1]);
    const row y = new_row(s, "float", choice_cols(s, id));
    each_column(s, "i", choice_cols(s, id), &y);
    dop_nest_let(n, "float", "top", "%s[%s[i]]", x, ids);
    dop_nest_let(n, "float", "sum", "0.0");
    dop_nest_for(n, "j", "0u", dop_nest_text(n, "%uu", choice_cols(s, node->src[0])), NULL);
    dop_nest_let(n, "bool", "near", "top - %s[j] <= %.9g * max(abs(%s[j]), top)", x,
                 dop_node_f(s->gen->e.g, id, DOP_A_eps), x);
    dop_nest_for(n, "b", "0u", "i", NULL);
    dop_nest_set(n, "near", "near && %s[b] != j", ids);
    dop_nest_end(n);
    dop_nest_add(n, "sum", "near ? exp(%s[j] - top) : 0.0", x);
    dop_nest_end(n);
    dop_nest_set(n, dop_nest_text(n, "%s[i]", y.name), "1.0 / sum");
    dop_nest_end(n);
    bind_row(s, id, y);
}

/* Emits code that masks scores for grouped choices: columns of the best groups keep their scores, all others get -inf. */
static const char *
keep_groups(choice *s, dop_node_id id, const char *x, uint32_t len)
{
    dop_nest *n = s->n;
    const dop_graph *g = s->gen->e.g;
    const uint32_t groups = (uint32_t)dop_node_i(g, id, DOP_A_groups), each = len / groups;
    const row worth = new_row(s, "float", groups), kept = new_row(s, "float", len);
    each_column(s, "h", groups, &worth);
    dop_nest_let(n, "float", "sum", "0.0");
    dop_nest_let(n, "float", "last", "3.4e38");
    dop_nest_let(n, "uint", "at", "0u");
    dop_nest_for(n, "b", "0u", dop_nest_text(n, "%uu", (uint32_t)dop_node_i(g, id, DOP_A_group_best)), NULL);
    dop_nest_let(n, "float", "most", "-3.4e38"); /* the largest value that is not larger than the previous one */
    dop_nest_let(n, "uint", "where", "0u");
    dop_nest_for(n, "i", "0u", dop_nest_text(n, "%uu", each), NULL);
    dop_nest_let(n, "float", "y", "%s[h * %uu + i]", x, each);
    dop_nest_if(n, "(b == 0u || y < last || (y == last && i > at)) && y > most");
    dop_nest_set(n, "most", "y");
    dop_nest_set(n, "where", "i");
    dop_nest_end(n);
    dop_nest_end(n);
    dop_nest_add(n, "sum", "most");
    dop_nest_set(n, "last", "most");
    dop_nest_set(n, "at", "where");
    dop_nest_end(n);
    dop_nest_set(n, dop_nest_text(n, "%s[h]", worth.name), "sum");
    dop_nest_end(n);
    s->rows |= worth.memory;
    each_column(s, "i", len, &kept);
    dop_nest_let(n, "uint", "h", "i / %uu", each);
    dop_nest_let(n, "uint", "better", "0u");
    dop_nest_for(n, "j", "0u", dop_nest_text(n, "%uu", groups), NULL);
    dop_nest_add(n, "better", "uint(%s[j] > %s[h] || (%s[j] == %s[h] && j < h))", worth.name, worth.name, worth.name,
                 worth.name);
    dop_nest_end(n);
    dop_nest_set(n, dop_nest_text(n, "%s[i]", kept.name), "better < %uu ? %s[i] : uintBitsToFloat(0xff800000u)",
                 (uint32_t)dop_node_i(g, id, DOP_A_group_keep), x);
    dop_nest_end(n);
    s->rows |= kept.memory;
    return kept.name;
}

/* Returns the number of neighboring invocations of a subgroup that share the comparisons of one column with all others. */
static uint32_t
count_comparers(const choice *s, uint32_t len)
{
    const dop_gen *gen = s->gen;
    uint32_t n = 1;
    if (gen->choice->tile.subgroup && !gen->e.target->cpu)
        while (n * 2 <= gen->e.target->subgroup && len * n * 2 <= gen->choice->tile.wg)
            n *= 2;
    return n;
}

/* Emits top_k by rank: a column's rank is the number of columns that precede it. Every rank is initialized to some column,
 * because with NaN scores a rank may otherwise stay unset. */
static void
top_k(choice *s, dop_node_id id)
{
    dop_emit *e = &s->gen->e;
    dop_nest *n = s->n;
    const dop_node_id from = dop_node_at(e->g, id)->src[0];
    const uint32_t len = choice_cols(s, from), k = choice_cols(s, id), share = count_comparers(s, len);
    const row ids = new_row(s, "uint", k), filled = {ids.name, dop_nest_memory(n, "first columns")};
    each_column(s, "i", k, &filled);
    dop_nest_set(n, dop_nest_text(n, "%s[i]", ids.name), "i");
    dop_nest_end(n);
    const char *x = find_value_row(s, from);
    if (dop_node_i(e->g, id, DOP_A_groups) > 1)
        x = keep_groups(s, id, x, len);
    s->rows |= filled.memory; /* later code needs a barrier after the initialization */
    each_column(s, "at", len * share, &ids);
    dop_nest_let(n, "uint", "i", "at / %uu", share);
    dop_nest_let(n, "uint", "before", "0u");
    dop_nest_let(n, "float", "y", "%s[i]", x);
    dop_nest_for(n, "first", "0u", dop_nest_text(n, "%uu", len), dop_nest_text(n, "%uu", share));
    dop_nest_let(n, "uint", "j", "first + at %% %uu", share);
    if (len % share)
        dop_nest_if(n, "j < %uu", len);
    dop_nest_add(n, "before", "uint(%s[j] > y) + (uint(%s[j] == y) & uint(j < i))", x, x);
    if (len % share)
        dop_nest_end(n);
    dop_nest_end(n);
    for (uint32_t m = 1; m < share; m *= 2)
        dop_nest_add(n, "before", "subgroupShuffleXor(before, %uu)", m);
    dop_nest_if(n, "before < %uu", k);
    dop_nest_set(n, dop_nest_text(n, "%s[before]", ids.name), "i");
    dop_nest_end(n);
    dop_nest_end(n);
    bind_row(s, id, ids);
}

/* True if a row program computes the node. */
static bool
has_program(const dop_graph *g, dop_node_id id)
{
    const dop_op op = dop_node_at(g, id)->op;
    return op == DOP_OP_softmax || op == DOP_OP_rmsnorm || op == DOP_OP_layernorm || dop_node_is(g, id, DOP_STATISTIC);
}

/* Computes values that depend on a whole other row; all other values are expressions at their uses. */
static void
add_node(choice *s, const dop_node_id *id)
{
    const dop_graph *g = s->gen->e.g;
    const dop_node *n = dop_node_at(g, *id);
    if (n->op == DOP_OP_top_k) {
        top_k(s, *id);
    } else if (n->op == DOP_OP_near_softmax) {
        near_softmax(s, *id);
    } else if (has_program(g, *id)) {
        find_value_row(s, n->src[0]);
        run_program(s, id, dop_node_is(g, *id, DOP_STATISTIC) ? 0 : *id);
    } else if (dop_node_extent(g, *id) == DOP_EXTENT_row) { /* a value from anywhere in the row */
        find_value_row(s, n->src[0]);
    }
}

static void
store_choice_value(choice *s, dop_node_id id)
{
    dop_emit *e = &s->gen->e;
    const dop_index ix = {s->p->t, "i"};
    dop_buf inner = {0};
    dop_emit_scope(e, &inner, "        ");
    dop_emit_store(e, id, ix, 1, dop_emit_value(e, id, ix, 1));
    each_column(s, "i", choice_cols(s, id), NULL);
    dop_nest_hole(s->n, "store", dop_gen_keep(s->gen, &inner));
    dop_nest_end(s->n);
}

/* Emits code that stores the values that other regions read. One condition encloses all loops, so that workgroups that store
 * nothing skip them; a barrier that they need precedes it. */
static void
store_choice(choice *s)
{
    const dop_choice_program *p = s->p;
    bool any = false;
    for (uint32_t i = 0; i < p->n_nodes && s->gen->e.status == DOP_OK; i++) {
        if (!dop_region_is_out(s->gen->e.r, p->nodes[i]) || has_program(s->gen->e.g, p->nodes[i]))
            continue;
        if (p->store_if && !any)
            dop_nest_if(s->n, "%s", p->store_if)->apart = true;
        any = true;
        store_choice_value(s, p->nodes[i]);
    }
    if (p->store_if && any)
        dop_nest_end(s->n);
}

uint32_t
dop_choice_bytes(const dop_gen *gen, const dop_choice_program *p)
{
    const dop_graph *g = gen->e.g;
    uint64_t values = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        values += dop_node_cols(g, p->nodes[i]);
        for (uint32_t k = 0; k < dop_node_at(g, p->nodes[i])->n_srcs; k++)
            if (dop_node_access(g, p->nodes[i], k)->axis[DOP_AXIS_col] == DOP_ACCESS_all)
                values += dop_node_cols(g, dop_node_at(g, p->nodes[i])->src[k]);
        if (dop_node_has(g, p->nodes[i], DOP_A_groups))
            values += 2 * dop_node_cols(g, dop_node_at(g, p->nodes[i])->src[0]);
    }
    return values > UINT32_MAX / 4 ? UINT32_MAX : (uint32_t)values * 4;
}

void
dop_gen_choice(dop_gen *gen, const dop_choice_program *p, dop_nest *n)
{
    choice s = {.gen = gen, .p = p, .n = n};
    for (uint32_t i = 0; i < p->n_nodes && gen->e.status == DOP_OK; i++)
        add_node(&s, &p->nodes[i]);
    for (uint32_t i = 0; i < p->n_kept && gen->e.status == DOP_OK; i++)
        find_value_row(&s, p->kept[i]);
    store_choice(&s);
}

const char *
dop_choice_row(const dop_gen *gen, dop_node_id id)
{
    const choice s = {.gen = (dop_gen *)gen};
    const char *name = bound_row(&s, dop_node_base(gen->e.g, id, NULL));
    return name ? name : "0";
}

static dop_choice_program
region_choice_program(dop_gen *gen)
{
    const dop_region *r = gen->e.r;
    return (dop_choice_program){.nodes = r->nodes,
                                .n_nodes = r->n_nodes,
                                .t = gen->e.g->max_t == 1 || !dop_node_per_token(gen->e.g, r->outs[0]) ? "0u" : "t"};
}

static dop_status
emit_choice(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const bool tokens = dop_node_per_token(e->g, e->r->outs[0]);
    const dop_choice_program p = region_choice_program(gen);
    const uint32_t rows =
        tokens ? e->g->max_t : (uint32_t)dop_dim_value(e->g, dop_node_at(e->g, e->r->outs[0])->shape.dim[0], 1);
    dop_nest_placement pl = {.subgroup = e->target->subgroup, .sum = DOP_MEET_shared};
    dop_nest n;
    pl.at[DOP_PLACE_t][DOP_LEVEL_grid] = rows;
    dop_nest_open(&n, dop_variant_of(gen->choice->variant)->name, &pl, e->g->arena, e->diag);
    dop_nest_function(&n, "main", "");
    dop_nest_let(&n, "uint", "t", "gl_WorkGroupID.x");
    dop_nest_return(&n, "t >= %s", tokens ? dop_emit_n_tokens(e) : dop_nest_text(&n, "%uu", rows));
    dop_gen_choice(gen, &p, &n);
    dop_nest_end(&n);
    gen->grid[0] = rows;
    return dop_gen_print_nest(gen, &n);
}

static uint32_t
choice_shared_bytes(dop_gen *gen)
{
    dop_choice_program p = region_choice_program(gen);
    return dop_choice_bytes(gen, &p);
}

static void
choose_choice_tile(const dop_site *s, dop_tile *out)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < s->r->info->n_reads; i++)
        if (dop_node_cols(s->g, s->r->info->reads[i]) > most)
            most = dop_node_cols(s->g, s->r->info->reads[i]);
    while (out->wg > 32 && out->wg / 2 >= most)
        out->wg /= 2;
    if (s->t->cpu) /* barriers are expensive on CPU devices */
        out->wg = out->wg < 32 ? out->wg : 32;
}

const dop_descriptor dop_descriptor_choice = {
    .tile = choose_choice_tile,
    .shared = choice_shared_bytes,
    .emit = emit_choice,
    .trips = dop_trips_choice,
};
