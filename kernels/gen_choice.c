/* Choices of experts: rows of scores in shared memory, the largest of them, and what is computed from these.  A choice is either
 * a dispatch of its own, with a workgroup for each row of the step, or runs before the products of a region, where every
 * workgroup repeats it. */
#include "kernels/gen.h"

/* The longest row that one invocation sums up by itself; longer ones are divided among all invocations. */
enum { SHORT_ROW = 32 };

typedef struct choice {
    dop_gen *gen;
    const dop_choice_program *p;
    dop_buf *decls, *body;
    uint32_t serial;
    uint32_t values; /* words of shared memory */
} choice;

static uint32_t
cols_of(const choice *s, dop_node_id id)
{
    return dop_node_cols(s->gen->e.g, id);
}

static const char *
new_name(choice *s)
{
    return dop_emit_str(&s->gen->e, "dop_c%u", s->serial++);
}

/* Declares a row and binds the node to it. */
static const char *
new_row(choice *s, dop_node_id id)
{
    const bool ids = dop_node_at(s->gen->e.g, id)->type == DOP_TYPE_u32;
    const char *name = new_name(s);
    dop_buf_printf(s->decls, "shared %s %s[%u];\n", ids ? "uint" : "float", name, cols_of(s, id));
    s->values += cols_of(s, id);
    return name;
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

/* The row of a value, computed or loaded here unless it exists already. */
static const char *
row_of(choice *s, dop_node_id id)
{
    dop_emit *e = &s->gen->e;
    const dop_node_id base = dop_node_base(e->g, id, NULL);
    const char *name = bound_row(s, base);
    if (name)
        return name;
    name = new_row(s, base);
    dop_buf *inner = dop_gen_text(s->gen);
    dop_emit_scope(e, inner, "        ");
    dop_emit_line(e, "%s[i] = %s;", name, dop_emit_value(e, base, (dop_index){s->p->t, "i"}, 1));
    dop_buf_printf(s->body, "    for (uint i = gl_LocalInvocationIndex; i < %uu; i += WG) {\n%s    }\n    barrier();\n",
                   cols_of(s, base), dop_buf_text(inner));
    dop_emit_bind(e, base, name, true, NULL);
    return name;
}

/* `name` becomes the sum over i of the expression, or the largest, in every invocation. */
static void
reduce(choice *s, const char *name, uint32_t len, bool largest, const char *expr)
{
    const bool alone = len <= SHORT_ROW;
    dop_buf_printf(s->body, "    %s = %s;\n    for (uint i = %s; i < %uu; i += %s)\n", name,
                   largest ? "-3.4e38" : "0.0", alone ? "0u" : "gl_LocalInvocationIndex", len, alone ? "1u" : "WG");
    if (largest)
        dop_buf_printf(s->body, "        %s = max(%s, %s);\n", name, name, expr);
    else
        dop_buf_printf(s->body, "        %s += %s;\n", name, expr);
    if (!alone)
        dop_buf_printf(s->body, "    %s = %s(%s);\n", name, largest ? "dop_wg_max" : "dop_wg_sum", name);
}

static const char *
new_value(choice *s)
{
    const char *name = new_name(s);
    dop_buf_printf(s->decls, "float %s;\n", name);
    return name;
}

/* 1 / sqrt(mean square + eps), of the row or of its differences to `mean`. */
static const char *
inverse_root(choice *s, const char *row, uint32_t len, const char *mean, double eps)
{
    dop_emit *e = &s->gen->e;
    const char *name = new_value(s),
               *x = mean ? dop_emit_str(e, "(%s[i] - %s)", row, mean) : dop_emit_str(e, "%s[i]", row);
    reduce(s, name, len, false, dop_emit_str(e, "%s * %s", x, x));
    dop_buf_printf(s->body, "    %s = inversesqrt(%s / %u.0 + %.9g);\n", name, name, len, eps);
    return name;
}

static const char *
mean_of(choice *s, const char *row, uint32_t len)
{
    const char *name = new_value(s);
    reduce(s, name, len, false, dop_emit_str(&s->gen->e, "%s[i]", row));
    dop_buf_printf(s->body, "    %s /= %u.0;\n", name, len);
    return name;
}

static void
softmax(choice *s, dop_node_id id)
{
    dop_emit *e = &s->gen->e;
    const char *x = row_of(s, dop_node_at(e->g, id)->src[0]), *top = new_value(s), *sum = new_value(s);
    const uint32_t len = cols_of(s, id);
    reduce(s, top, len, true, dop_emit_str(e, "%s[i]", x));
    reduce(s, sum, len, false, dop_emit_str(e, "exp(%s[i] - %s)", x, top));
    const char *y = new_row(s, id);
    dop_buf_printf(s->body,
                   "    for (uint i = gl_LocalInvocationIndex; i < %uu; i += WG)\n"
                   "        %s[i] = exp(%s[i] - %s) / %s;\n    barrier();\n",
                   len, y, x, top, sum);
    dop_emit_bind(e, id, y, true, NULL);
}

/* near_softmax (ops.def): for each chosen column, its softmax over the columns near it that no earlier slot has. */
static void
near_softmax(choice *s, dop_node_id id)
{
    dop_emit *e = &s->gen->e;
    const dop_node *n = dop_node_at(e->g, id);
    const char *x = row_of(s, n->src[0]), *ids = row_of(s, n->src[1]), *y = new_row(s, id);
    dop_buf_printf(s->body,
                   "    for (uint i = gl_LocalInvocationIndex; i < %uu; i += WG) {\n"
                   "        float top = %s[%s[i]], sum = 0.0;\n"
                   "        for (uint j = 0u; j < %uu; j++) {\n"
                   "            bool near = top - %s[j] <= %.9g * max(abs(%s[j]), top);\n"
                   "            for (uint b = 0u; b < i; b++)\n"
                   "                near = near && %s[b] != j;\n"
                   "            sum += near ? exp(%s[j] - top) : 0.0;\n"
                   "        }\n"
                   "        %s[i] = 1.0 / sum;\n"
                   "    }\n"
                   "    barrier();\n",
                   cols_of(s, id), x, ids, cols_of(s, n->src[0]), x, dop_node_f(e->g, id, DOP_A_eps), x, ids, x, y);
    dop_emit_bind(e, id, y, true, NULL);
}

/* Norms that were not split: an expression for each column, from statistics of the row. */
static void
norm(choice *s, dop_node_id id)
{
    dop_emit *e = &s->gen->e;
    const dop_node *n = dop_node_at(e->g, id);
    const char *x = row_of(s, n->src[0]), *mean = NULL;
    const uint32_t len = cols_of(s, id);
    if (n->op == DOP_OP_layernorm)
        mean = mean_of(s, x, len);
    const char *k = inverse_root(s, x, len, mean, dop_node_f(e->g, id, DOP_A_eps)), *y = new_row(s, id);
    dop_buf *inner = dop_gen_text(s->gen);
    dop_emit_scope(e, inner, "        ");
    const char *w = dop_emit_value(e, n->src[1], (dop_index){"0u", "i"}, 1);
    if (mean)
        dop_emit_line(e, "%s[i] = (%s[i] - %s) * %s * %s + %s;", y, x, mean, k, w,
                      n->n_srcs > 2 ? dop_emit_value(e, n->src[2], (dop_index){"0u", "i"}, 1) : "0.0");
    else
        dop_emit_line(e, "%s[i] = %s[i] * %s * (%s + %.9g);", y, x, k, w, dop_node_f(e->g, id, DOP_A_add));
    dop_buf_printf(s->body, "    for (uint i = gl_LocalInvocationIndex; i < %uu; i += WG) {\n%s    }\n    barrier();\n",
                   len, dop_buf_text(inner));
    dop_emit_bind(e, id, y, true, NULL);
}

static void
statistic(choice *s, dop_node_id id)
{
    dop_emit *e = &s->gen->e;
    const dop_node *n = dop_node_at(e->g, id);
    const char *x = row_of(s, n->src[0]), *name;
    const uint32_t len = cols_of(s, n->src[0]);
    if (n->op == DOP_OP_row_mean)
        name = mean_of(s, x, len);
    else
        name = inverse_root(s, x, len, n->op == DOP_OP_row_istd ? mean_of(s, x, len) : NULL,
                            dop_node_f(e->g, id, DOP_A_eps));
    dop_emit_bind(e, id, name, false, NULL);
}

/* Masks scores for a choice in groups: columns of the best groups keep their scores, all others get -inf. */
static const char *
keep_groups(choice *s, dop_node_id id, const char *x, uint32_t len)
{
    const dop_graph *g = s->gen->e.g;
    const uint32_t groups = (uint32_t)dop_node_i(g, id, DOP_A_groups), each = len / groups;
    const char *worth = new_name(s), *kept = new_name(s);
    dop_buf_printf(s->decls, "shared float %s[%u], %s[%u];\n", worth, groups, kept, len);
    s->values += groups + len;
    dop_buf_printf(
        s->body,
        "    for (uint h = gl_LocalInvocationIndex; h < %uu; h += WG) {\n"
        "        float sum = 0.0, last = 3.4e38;\n"
        "        uint at = 0u;\n"
        "        for (uint b = 0u; b < %uu; b++) {\n" /* the largest that is not larger than the previous one */
        "            float most = -3.4e38;\n"
        "            uint where = 0u;\n"
        "            for (uint i = 0u; i < %uu; i++) {\n"
        "                float y = %s[h * %uu + i];\n"
        "                bool after = b == 0u || y < last || (y == last && i > at);\n"
        "                if (after && y > most) {\n"
        "                    most = y;\n"
        "                    where = i;\n"
        "                }\n"
        "            }\n"
        "            sum += most;\n"
        "            last = most;\n"
        "            at = where;\n"
        "        }\n"
        "        %s[h] = sum;\n"
        "    }\n"
        "    barrier();\n",
        groups, (uint32_t)dop_node_i(g, id, DOP_A_group_best), each, x, each, worth);
    dop_buf_printf(s->body,
                   "    for (uint i = gl_LocalInvocationIndex; i < %uu; i += WG) {\n"
                   "        uint h = i / %uu, better = 0u;\n"
                   "        for (uint j = 0u; j < %uu; j++)\n"
                   "            better += uint(%s[j] > %s[h] || (%s[j] == %s[h] && j < h));\n"
                   "        %s[i] = better < %uu ? %s[i] : uintBitsToFloat(0xff800000u);\n"
                   "    }\n"
                   "    barrier();\n",
                   len, each, groups, worth, worth, worth, worth, kept, (uint32_t)dop_node_i(g, id, DOP_A_group_keep),
                   x);
    return kept;
}

/* How many invocations, neighbours in a subgroup, share the comparisons of one column with the others. */
static uint32_t
counters(const choice *s, uint32_t len)
{
    const dop_gen *gen = s->gen;
    uint32_t n = 1;
    if (gen->choice->tile.subgroup && !gen->e.target->cpu)
        while (n * 2 <= gen->e.target->subgroup && len * n * 2 <= gen->choice->tile.wg)
            n *= 2;
    return n;
}

/* A column's place is the number of columns that come before it.  Every place is first filled with some column, because with
 * scores that are NaN a place might otherwise stay empty. */
static void
top_k(choice *s, dop_node_id id)
{
    dop_emit *e = &s->gen->e;
    const dop_node_id from = dop_node_at(e->g, id)->src[0];
    const uint32_t len = cols_of(s, from), k = cols_of(s, id), n = counters(s, len);
    const bool there = bound_row(s, dop_node_base(e->g, from, NULL)) != NULL;
    const char *ids = new_row(s, id);
    dop_buf_printf(s->body, "    for (uint i = gl_LocalInvocationIndex; i < %uu; i += WG)\n        %s[i] = i;\n", k,
                   ids);
    const char *x = row_of(s, from);
    if (dop_node_i(e->g, id, DOP_A_groups) > 1)
        x = keep_groups(s, id, x, len);
    else if (there)
        dop_buf_puts(s->body, "    barrier();\n");
    dop_buf_printf(s->body,
                   "    for (uint at = gl_LocalInvocationIndex; at < %uu; at += WG) {\n"
                   "        uint i = at / %uu, before = 0u;\n"
                   "        float y = %s[i];\n"
                   "        for (uint first = 0u; first < %uu; first += %uu) {\n"
                   "            uint j = first + at %% %uu;\n"
                   "            %sbefore += uint(%s[j] > y) + (uint(%s[j] == y) & uint(j < i));\n"
                   "        }\n",
                   len * n, n, x, len, n, n, len % n ? dop_emit_str(e, "if (j < %uu)\n                ", len) : "", x,
                   x);
    for (uint32_t m = 1; m < n; m *= 2)
        dop_buf_printf(s->body, "        before += subgroupShuffleXor(before, %uu);\n", m);
    dop_buf_printf(s->body,
                   "        if (before < %uu)\n"
                   "            %s[before] = i;\n"
                   "    }\n"
                   "    barrier();\n",
                   k, ids);
    dop_emit_bind(e, id, ids, true, NULL);
}

/* Values that need all of another row are computed here; the others are expressions where they are used. */
static void
add_node(choice *s, dop_node_id id)
{
    const dop_graph *g = s->gen->e.g;
    const dop_extent x = dop_node_extent(g, id);
    const dop_op op = dop_node_at(g, id)->op;
    if (op == DOP_OP_top_k)
        top_k(s, id);
    else if (op == DOP_OP_softmax)
        softmax(s, id);
    else if (op == DOP_OP_near_softmax)
        near_softmax(s, id);
    else if (op == DOP_OP_rmsnorm || op == DOP_OP_layernorm)
        norm(s, id);
    else if (dop_node_is(g, id, DOP_STATISTIC))
        statistic(s, id);
    else if (x == DOP_EXTENT_row) /* a value from anywhere in the row */
        row_of(s, dop_node_at(g, id)->src[0]);
}

static void
store(choice *s, dop_node_id id)
{
    dop_emit *e = &s->gen->e;
    const char *v, *only = s->p->store_if;
    dop_buf *inner = dop_gen_text(s->gen);
    dop_emit_scope(e, inner, "        ");
    v = dop_emit_value(e, id, (dop_index){s->p->t, "i"}, 1);
    dop_emit_store(e, id, (dop_index){s->p->t, "i"}, 1, v);
    dop_buf_printf(s->body, "    for (uint i = gl_LocalInvocationIndex; %s%si < %uu; i += WG) {\n%s    }\n",
                   only ? only : "", only ? " && " : "", cols_of(s, id), dop_buf_text(inner));
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
dop_gen_choice(dop_gen *gen, const dop_choice_program *p, dop_buf *decls, dop_buf *body)
{
    choice s = {.gen = gen, .p = p, .decls = decls, .body = body};
    for (uint32_t i = 0; i < p->n_nodes && gen->e.status == DOP_OK; i++)
        add_node(&s, p->nodes[i]);
    for (uint32_t i = 0; i < p->n_kept && gen->e.status == DOP_OK; i++)
        row_of(&s, p->kept[i]);
    for (uint32_t i = 0; i < p->n_nodes && gen->e.status == DOP_OK; i++)
        if (dop_region_is_out(gen->e.r, p->nodes[i]))
            store(&s, p->nodes[i]);
}

const char *
dop_choice_row(const dop_gen *gen, dop_node_id id)
{
    const choice s = {.gen = (dop_gen *)gen};
    const char *name = bound_row(&s, dop_node_base(gen->e.g, id, NULL));
    return name ? name : "0";
}

static dop_choice_program
program_of(dop_gen *gen)
{
    const dop_region *r = gen->e.r;
    return (dop_choice_program){.nodes = r->nodes,
                                .n_nodes = r->n_nodes,
                                .t = gen->e.g->max_t == 1 || !dop_node_per_token(gen->e.g, r->outs[0]) ? "0u" : "t"};
}

static dop_status
emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const bool tokens = dop_node_per_token(e->g, e->r->outs[0]);
    dop_choice_program p = program_of(gen);
    dop_keys keys = {0};
    dop_buf *decls = dop_keys_text(gen, &keys, "DECLS"), *body = dop_keys_text(gen, &keys, "BODY");
    dop_gen_choice(gen, &p, decls, body);
    gen->grid[0] =
        tokens ? e->g->max_t : (uint32_t)dop_dim_value(e->g, dop_node_at(e->g, e->r->outs[0])->shape.dim[0], 1);
    gen->grid[1] = gen->grid[2] = 1;
    dop_keys_set(&keys, "N_TOKENS", tokens ? dop_emit_n_tokens(e) : dop_emit_str(e, "%uu", gen->grid[0]));
    return dop_template_fill(gen, "choice.glsl", &keys, &gen->main);
}

static uint32_t
shared_bytes(dop_gen *gen)
{
    dop_choice_program p = program_of(gen);
    return dop_choice_bytes(gen, &p);
}

static void
tile(const dop_site *s, dop_tile *out)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < s->r->info->n_reads; i++)
        if (dop_node_cols(s->g, s->r->info->reads[i]) > most)
            most = dop_node_cols(s->g, s->r->info->reads[i]);
    while (out->wg > 32 && out->wg / 2 >= most)
        out->wg /= 2;
    if (s->t->cpu) /* barriers are expensive there */
        out->wg = out->wg < 32 ? out->wg : 32;
}

const dop_descriptor dop_descriptor_choice = {
    .tile = tile,
    .shared = shared_bytes,
    .emit = emit,
    .trips = dop_trips_choice,
};
