/* Row programs, and the elementwise and row templates built on them. */
#include "kernels/gen.h"

#include <string.h>

/* Most values (or groups of four) of a row that an invocation holds in registers; it walks over a longer row in a loop.  From
 * mailboxes a row in registers is received at once, a longer one value by value in the loop, and one that is only staged in
 * batches, because each batch is one round trip to memory. */
enum { MAX_AT_ONCE = 8 };

static int
index_of(const dop_rowprog *p, dop_node_id id)
{
    uint32_t from = 0, to = p->n_nodes; /* in handle order */
    while (from < to) {
        uint32_t mid = from + (to - from) / 2;
        if (p->nodes[mid] < id)
            from = mid + 1;
        else
            to = mid;
    }
    return from < p->n_nodes && p->nodes[from] == id ? (int)from : -1;
}

/* The level of an expression: the number of the first pass over the row in which it can be evaluated, which comes after the passes
 * of all statistics that the expression reads. */
static uint32_t
level_of(const dop_gen *gen, const dop_rowprog *p, const uint32_t *level, dop_node_id id)
{
    const dop_graph *g = gen->e.g;
    id = dop_node_base(g, id, NULL);
    int at = index_of(p, id);
    return at < 0 ? 0 : level[at];
}

/* Gives each node of the program its level, the pass that computes it; returns the highest.  A norm that was not split counts as a
 * statistic and a product, softmax as two statistics (the largest value, then the sum of exponentials) and a product. */
static uint32_t
assign_levels(const dop_gen *gen, const dop_rowprog *p, uint32_t *level)
{
    const dop_graph *g = gen->e.g;
    uint32_t top = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, p->nodes[i]);
        uint32_t l = 0;
        for (uint32_t k = 0; k < n->n_srcs; k++) {
            dop_node_id b = dop_node_base(g, n->src[k], NULL);
            uint32_t x = level_of(gen, p, level, b);
            if (index_of(p, b) >= 0 && dop_node_is(g, b, DOP_STATISTIC))
                x++;
            l = x > l ? x : l;
        }
        if (n->op == DOP_OP_rmsnorm || n->op == DOP_OP_layernorm)
            l++;
        if (n->op == DOP_OP_softmax)
            l += 2;
        level[i] = l;
        top = l > top ? l : top;
    }
    return top;
}

typedef struct pass {
    dop_gen *gen;
    const dop_rowprog *p;
    const char *i;      /* index in the row */
    const char *inside; /* condition for this invocation to have a value at index `i`; NULL: it always has */
    bool first, last;   /* is the value at `i` the first, or the last, of this invocation's values? */
    bool walks;         /* the invocation takes its values in a loop */
    uint32_t level, width, serial;
    const char *sum; /* function that sums over the team */
    bool own;        /* sums may be own sums (dop_gen) */
    dop_buf *before, *loop, *after;
    dop_index ix;
} pass;

static const char *
guard(const pass *s)
{
    return s->inside ? dop_emit_str(&s->gen->e, "if (%s) ", s->inside) : "";
}

enum { MAX_OWN_SUMS = 2 };

/* The expression that sums a variable over the team. */
static const char *
sum_of(pass *s, const char *name)
{
    dop_gen *gen = s->gen;
    if (!s->own || gen->sums >= MAX_OWN_SUMS)
        return dop_emit_str(&gen->e, "%s(%s_a)", s->sum, name);
    return dop_emit_str(&gen->e, "dop_own_sum(%uu, %s_a)", gen->sums++, name);
}

/* Declares NAME_0, the first value of row x, before the loop. */
static void
first_value(pass *s, dop_node_id x, const char *name)
{
    dop_emit *e = &s->gen->e;
    dop_buf *out = dop_gen_text(s->gen);
    dop_buf *loop = e->out;
    const char *indent = e->indent;
    dop_emit_scope(e, out, "    ");
    const char *c0 = dop_emit_str(e, "(%s * %uu)", s->p->unit, s->p->len);
    const char *first = dop_emit_value(e, x, (dop_index){s->p->t, strcmp(s->p->unit, "0u") ? c0 : "0u"}, 1);
    dop_buf_printf(s->before, "%s    float %s_0 = %s;\n", dop_buf_text(out), name, first);
    e->out = loop;
    e->indent = indent;
    e->n_memo = 0;
}

/* Sums one source row into a statistic: declared before the loop, added in it, finished after it.  The row may be shorter than
 * the program's; beyond its end the last value is loaded again. */
static void
statistic(pass *s, dop_op op, dop_node_id x, const char *name, double eps)
{
    dop_emit *e = &s->gen->e;
    const uint32_t cols = dop_node_cols(e->g, x), len = cols < s->p->len ? cols : s->p->len;
    const bool shorter = cols < s->p->len;
    dop_index ix = s->ix;
    if (shorter)
        ix.c = dop_emit_str(e, "min(%s, %uu)", s->i, len - s->width);
    const char *v = dop_emit_value(e, x, ix, s->width);
    bool sq = op == DOP_OP_row_rms || op == DOP_OP_row_istd;
    if (op == DOP_OP_row_istd) {
        /* Differences to the row's first value are squared, because squares of the values would cancel where the mean is far from
         * zero. */
        dop_buf_printf(s->before, "    float %s_a = 0.0, %s_b = 0.0;\n", name, name);
        first_value(s, x, name);
        dop_emit_line(e, "%s_a += dop_sum(%s - %s_0);", name, v, name);
        dop_emit_line(e, "%s_b += dop_sumsq(%s - %s_0);", name, v, name);
        dop_buf_printf(s->after,
                       "    %s_a = %s(%s_a) / %u.0;\n"
                       "    float %s = inversesqrt(max(%s(%s_b) / %u.0 - %s_a * %s_a, 0.0) + %.9g);\n",
                       name, s->sum, name, s->p->len, name, s->sum, name, s->p->len, name, name, eps);
        return;
    }
    /* A mean far from zero is rounded once, where sums of the values would be rounded at every step: what it is off by is off in
     * every value of a norm, and adds up in the product behind it. */
    const bool far = op == DOP_OP_row_mean && s->walks && !shorter && !s->own;
    if (far) {
        dop_buf_printf(s->before, "    float %s_a = 0.0;\n", name);
        first_value(s, x, name);
        dop_emit_line(e, "%s_a += dop_sum(%s - %s_0);", name, v, name);
        dop_buf_printf(s->after, "    float %s = %s_0 + %s(%s_a) / %u.0;\n", name, name, s->sum, name, len);
        return;
    }
    if (s->first)
        dop_buf_printf(s->before, "    float %s_a = 0.0;\n", name);
    dop_emit_line(e, "%s%s%s_a += %s(%s);", guard(s), shorter ? dop_emit_str(e, "if (%s < %uu) ", s->i, len) : "", name,
                  sq ? "dop_sumsq" : "dop_sum", v);
    if (!s->last)
        return;
    if (sq)
        dop_buf_printf(s->after, "    float %s = inversesqrt(%s / %u.0 + %.9g);\n", name, sum_of(s, name), len, eps);
    else
        dop_buf_printf(s->after, "    float %s = %s / %u.0;\n", name, sum_of(s, name), len);
}

/* Softmax has two statistics: the largest value, `top`, then 1 / sum(exp(x - top)). */
static void
softmax_top(pass *s, dop_node_id x, const char *top)
{
    dop_emit *e = &s->gen->e;
    const char *v = dop_emit_value(e, x, s->ix, s->width);
    dop_buf_printf(s->before, "    float %s_a = -3.4e38;\n", top);
    dop_emit_line(e,
                  s->width == 4 ? "%s_a = max(%s_a, max(max(%s.x, %s.y), max(%s.z, %s.w)));" : "%s_a = max(%s_a, %s);",
                  top, top, v, v, v, v);
    dop_buf_printf(s->after, "    float %s = %s(%s_a);\n", top, s->p->lanes ? "subgroupMax" : "dop_wg_max", top);
}

static void
softmax_sum(pass *s, dop_node_id x, const char *top, const char *name)
{
    dop_emit *e = &s->gen->e;
    const char *v = dop_emit_value(e, x, s->ix, s->width);
    dop_buf_printf(s->before, "    float %s_a = 0.0;\n", name);
    dop_emit_line(e, "%s_a += dop_sum(exp(%s - %s));", name, v, top);
    dop_buf_printf(s->after, "    float %s = 1.0 / %s(%s_a);\n", name, s->sum, name);
}

static const char *
stat_name(pass *s, dop_node_id id, const char *suffix)
{
    return dop_emit_str(&s->gen->e, "st%u_%d%s", s->serial, index_of(s->p, id), suffix);
}

/* Emits what this pass does for node i of the program: sums up a statistic of this level, or the statistics of a norm or softmax
 * that was not split, which are computed one level before the node's own (the largest value of a softmax two levels before). */
static void
visit_member(pass *s, uint32_t i, const uint32_t *level)
{
    dop_emit *e = &s->gen->e;
    const dop_graph *g = e->g;
    dop_node_id id = s->p->nodes[i];
    const dop_node *n = dop_node_at(g, id);
    if (dop_node_is(g, id, DOP_STATISTIC) && level[i] == s->level)
        statistic(s, n->op, n->src[0], stat_name(s, id, ""),
                  dop_node_has(g, id, DOP_A_eps) ? dop_node_f(g, id, DOP_A_eps) : 0);
    if (n->op == DOP_OP_rmsnorm && level[i] == s->level + 1)
        statistic(s, DOP_OP_row_rms, n->src[0], stat_name(s, id, ""), dop_node_f(g, id, DOP_A_eps));
    if (n->op == DOP_OP_layernorm && level[i] == s->level + 1) {
        statistic(s, DOP_OP_row_mean, n->src[0], stat_name(s, id, "m"), 0);
        statistic(s, DOP_OP_row_istd, n->src[0], stat_name(s, id, ""), dop_node_f(g, id, DOP_A_eps));
    }
    if (n->op == DOP_OP_softmax && level[i] == s->level + 2)
        softmax_top(s, n->src[0], stat_name(s, id, "m"));
    if (n->op == DOP_OP_softmax && level[i] == s->level + 1)
        softmax_sum(s, n->src[0], stat_name(s, id, "m"), stat_name(s, id, ""));
}

/* Stores the values of this index that the code after the program reads in shared memory. */
static void
stage_value(pass *s)
{
    dop_emit *e = &s->gen->e;
    const dop_rowprog *p = s->p;
    const char *v = dop_emit_value(e, p->staged, s->ix, s->width);
    if (p->times)
        v = dop_emit_str(e, "%s * %s(%s)", v, p->times, s->i);
    for (uint32_t i = 0; p->which && i < p->n_others; i++)
        v = dop_emit_str(e, "%s == %uu ? %s : %s", p->which, i + 1, dop_emit_value(e, p->others[i], s->ix, s->width),
                         v);
    for (uint32_t i = 0; i <= (p->which ? 0 : p->n_others); i++) {
        const char *at = i ? dop_emit_str(e, "%s + %uu + %s", p->stage_base, i * p->apart, s->i)
                           : dop_emit_str(e, "%s + %s", p->stage_base, s->i);
        if (i)
            v = dop_emit_value(e, p->others[i - 1], s->ix, s->width);
        if (s->width == 4)
            dop_emit_line(e, "%s{ %s_PUT((%s) >> 2, %s); }", guard(s), p->stage, at, v);
        else
            dop_emit_line(e, "%s{ %s_PUT1(%s, %s); }", guard(s), p->stage, at, v);
    }
}

/* Is the output one value for a whole unit of the program, computed from statistics? */
static bool
is_scalar(const dop_graph *g, const dop_rowprog *p, dop_node_id id)
{
    const dop_shape *s = &dop_node_at(g, id)->shape;
    return !dop_node_is(g, id, DOP_STATISTIC) && p->len > 1 && s->rank > 1 && s->dim[s->rank - 1].mul == 1 &&
           s->dim[s->rank - 1].sym == DOP_SYM_1;
}

static void
emit_pass(pass *s, const uint32_t *level, uint32_t top)
{
    dop_emit *e = &s->gen->e;
    const dop_graph *g = e->g;
    const dop_rowprog *p = s->p;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        dop_op op = dop_node_at(g, p->nodes[i])->op;
        if ((op == DOP_OP_rmsnorm || op == DOP_OP_layernorm || op == DOP_OP_softmax) && level[i] <= s->level)
            dop_emit_bind_norm(e, p->nodes[i], stat_name(s, p->nodes[i], ""), stat_name(s, p->nodes[i], "m"));
        visit_member(s, i, level);
    }
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        dop_node_id id = p->nodes[i];
        if (level[i] != s->level || !dop_region_is_out(e->r, id) || dop_node_is(g, id, DOP_STATISTIC) ||
            is_scalar(g, p, id))
            continue;
        const char *v = dop_emit_value(e, id, s->ix, s->width);
        const char *indent = e->indent;
        const char *both = p->store_if && s->inside ? dop_emit_str(e, "%s && %s", p->store_if, s->inside) : NULL;
        const char *only = both ? both : p->store_if ? p->store_if : s->inside;
        if (only) {
            dop_emit_line(e, "if (%s) {", only);
            e->indent = "            ";
        }
        dop_emit_store(e, id, s->ix, s->width, v);
        e->indent = indent;
        if (only)
            dop_emit_line(e, "}");
    }
    if (p->staged && s->level == top)
        stage_value(s);
}

/* Stores the values of whole units that other regions read and that are computed from statistics. */
static void
store_scalars(pass *s, const uint32_t *level, dop_buf *body)
{
    dop_emit *e = &s->gen->e;
    const uint32_t n_binds = e->n_binds;
    for (uint32_t i = 0; i < s->p->n_nodes; i++)
        if (level[i] < s->level && dop_node_is(e->g, s->p->nodes[i], DOP_STATISTIC))
            dop_emit_bind(e, s->p->nodes[i], stat_name(s, s->p->nodes[i], ""), false, NULL);
    for (uint32_t i = 0; i < s->p->n_nodes; i++) {
        const dop_node_id id = s->p->nodes[i];
        if (level[i] != s->level || !dop_region_is_out(e->r, id) || !is_scalar(e->g, s->p, id))
            continue;
        dop_buf_printf(body, "    if (%s == 0u%s%s) {\n", s->p->lanes ? s->p->lane : "gl_LocalInvocationIndex",
                       s->p->store_if ? " && " : "", s->p->store_if ? s->p->store_if : "");
        dop_emit_scope(e, body, "        ");
        const dop_index ix = {s->p->t, s->p->unit};
        dop_emit_store(e, id, ix, 1, dop_emit_value(e, id, ix, 1));
        dop_buf_puts(body, "    }\n");
    }
    e->n_binds = n_binds;
}

/* Stores the statistics that other regions read. */
static void
store_statistics(pass *s, const uint32_t *level, dop_buf *body)
{
    dop_emit *e = &s->gen->e;
    store_scalars(s, level, body);
    for (uint32_t i = 0; i < s->p->n_nodes; i++) {
        dop_node_id id = s->p->nodes[i];
        if (level[i] != s->level || !dop_node_is(e->g, id, DOP_STATISTIC))
            continue;
        dop_emit_bind(e, id, stat_name(s, id, ""), false, NULL);
        if (!dop_region_is_out(e->r, id))
            continue;
        dop_buf_printf(body, "    if (%s == 0u%s%s) {\n", s->p->lanes ? s->p->lane : "gl_LocalInvocationIndex",
                       s->p->store_if ? " && " : "", s->p->store_if ? s->p->store_if : "");
        dop_emit_scope(e, body, "        ");
        dop_emit_store(e, id, (dop_index){s->p->t, s->p->unit}, 1, stat_name(s, id, ""));
        dop_buf_puts(body, "    }\n");
    }
}

bool
dop_rowprog_wide(const dop_gen *gen, const dop_rowprog *p)
{
    if (p->len % 4 != 0 || (p->staged && !dop_emit_wide(&gen->e, p->staged)))
        return false;
    for (uint32_t i = 0; i < p->n_others; i++)
        if (!dop_emit_wide(&gen->e, p->others[i]))
            return false;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const dop_node *n = dop_node_at(gen->e.g, p->nodes[i]);
        if (dop_node_is(gen->e.g, p->nodes[i], DOP_STATISTIC) ? !dop_emit_wide(&gen->e, n->src[0])
                                                              : !dop_emit_wide(&gen->e, p->nodes[i]))
            return false;
    }
    return true;
}

/* Values (or groups of four) of an invocation when the whole row is held in registers; UINT32_MAX: the row is walked over in a
 * loop, because sums of differences need one of their own, or because on CPU devices less code compiles to better code. */
static uint32_t
values_at_once(const dop_gen *gen, const dop_rowprog *p, uint32_t width)
{
    uint32_t team = p->lanes ? p->lanes : gen->choice->tile.wg;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        dop_op op = dop_node_at(gen->e.g, p->nodes[i])->op;
        if (op == DOP_OP_row_istd || op == DOP_OP_layernorm || op == DOP_OP_softmax)
            return UINT32_MAX;
    }
    return gen->e.target->cpu ? UINT32_MAX : dop_div_up_u32(p->len, team * width);
}

/* The program of a long row: each pass walks over the row again and computes values from memory again. */
static void
looped_program(dop_gen *gen, const dop_rowprog *p, const uint32_t *level, uint32_t top, uint32_t width, dop_buf *body)
{
    dop_emit *e = &gen->e;
    for (uint32_t l = 0; l <= top && e->status == DOP_OK; l++) {
        dop_buf before = {0}, loop = {0}, after = {0};
        uint32_t n_binds = e->n_binds;
        pass s = {.gen = gen,
                  .p = p,
                  .i = "i",
                  .first = true,
                  .last = true,
                  .walks = true,
                  .level = l,
                  .width = width,
                  .serial = p->serial,
                  .sum = p->lanes ? "subgroupAdd" : "dop_wg_sum",
                  .before = &before,
                  .loop = &loop,
                  .after = &after,
                  .ix = {p->t, NULL}};
        s.ix.c = strcmp(p->unit, "0u") == 0 ? "i" : dop_emit_str(e, "(%s * %uu + i)", p->unit, p->len);
        dop_emit_scope(e, &loop, "        ");
        emit_pass(&s, level, top);
        if (before.data)
            dop_buf_puts(body, before.data);
        if (loop.data) {
            dop_buf_printf(body, "    for (uint i = %s * %uu; i < %uu; i += %s * %uu) {\n%s    }\n",
                           p->lanes ? p->lane : "gl_LocalInvocationIndex", width, p->len,
                           p->lanes ? dop_emit_str(e, "%uu", p->lanes) : "WG", width, loop.data);
            if (after.data)
                dop_buf_puts(body, after.data);
        }
        e->n_binds = n_binds;
        store_statistics(&s, level, body);
        dop_buf_finish(&before);
        dop_buf_finish(&loop);
        dop_buf_finish(&after);
    }
}

/* The program of a row that is held in registers: all loads come first, so that one round trip to memory serves all passes.  A
 * program of one pass may have several `batches`. */
static void
straight_program(dop_gen *gen, const dop_rowprog *p, const uint32_t *level, uint32_t top, uint32_t width,
                 uint32_t batches, dop_buf *body)
{
    dop_emit *e = &gen->e;
    uint32_t team = p->lanes ? p->lanes : gen->choice->tile.wg;
    const uint32_t n = dop_div_up_u32(values_at_once(gen, p, width), batches), last = (batches - 1) * n * team * width;
    const char *batch = batches > 1 ? dop_emit_str(e, " + batch%u * %uu", p->serial, n * team * width) : "";
    const char *lane = p->lanes ? p->lane : "gl_LocalInvocationIndex", *i[MAX_AT_ONCE], *inside[MAX_AT_ONCE];
    dop_buf indices = {0}, constants = {0}, early = {0}, text = {0};
    for (uint32_t k = 0; k < n; k++) {
        uint32_t from = k * team * width;
        bool whole = last + from + team * width <= p->len;
        i[k] = dop_emit_str(e, "r%u_%u", p->serial, k);
        inside[k] = whole ? NULL : dop_emit_str(e, "in%u_%u", p->serial, k);
        if (!whole)
            dop_buf_printf(&indices, "    bool %s = %s * %uu + %uu%s < %uu;\n", inside[k], lane, width, from, batch,
                           p->len);
        dop_buf_printf(&indices,
                       whole ? "    uint %s = %s * %uu + %uu%s;\n" : "    uint %s = min(%s * %uu + %uu%s, %uu);\n",
                       i[k], lane, width, from, batch, p->len - width);
    }
    dop_emit_scope(e, &text, "    ");
    for (uint32_t l = 0; l <= top && e->status == DOP_OK; l++) {
        dop_buf before = {0}, values = {0}, after = {0};
        const uint32_t n_binds = e->n_binds, n_sums = gen->sums;
        e->constants = &constants;
        e->early = &early;
        e->out = &values;
        e->indent = "    ";
        for (uint32_t k = 0; k < n; k++) {
            pass s = {.gen = gen,
                      .p = p,
                      .i = i[k],
                      .inside = inside[k],
                      .first = k == 0,
                      .last = k + 1 == n,
                      .level = l,
                      .width = width,
                      .serial = p->serial,
                      .sum = p->lanes ? "subgroupAdd" : "dop_wg_sum",
                      .own = gen->own_sums && batches == 1 && !p->lanes,
                      .before = &before,
                      .loop = &values,
                      .after = &after,
                      .ix = {p->t, NULL}};
            s.ix.c = strcmp(p->unit, "0u") == 0 ? i[k] : dop_emit_str(e, "(%s * %uu + %s)", p->unit, p->len, i[k]);
            e->n_binds = n_binds; /* every index binds the same norms again */
            emit_pass(&s, level, top);
        }
        e->n_binds = n_binds;
        e->constants = e->early = NULL;
        dop_buf_puts(&text, before.data ? before.data : "");
        dop_buf_puts(&text, values.data ? values.data : "");
        dop_buf_puts(&text, after.data ? after.data : "");
        gen->ends_in_sum = l == top && gen->sums > n_sums;
        pass s = {.gen = gen, .p = p, .level = l, .width = width, .serial = p->serial};
        uint32_t n_memo = e->n_memo;
        store_statistics(&s, level, &text);
        e->n_memo = n_memo;
        dop_buf_finish(&before);
        dop_buf_finish(&values);
        dop_buf_finish(&after);
    }
    dop_buf *first = p->constants && batches == 1 ? p->constants : body;
    if (batches > 1)
        dop_buf_printf(body, "    for (uint batch%u = 0u; batch%u < %uu; batch%u++) {\n", p->serial, p->serial, batches,
                       p->serial);
    dop_buf_puts(first, indices.data ? indices.data : "");
    dop_buf_puts(first, constants.data ? constants.data : "");
    dop_buf_puts(body, early.data ? early.data : "");
    dop_buf_puts(body, text.data ? text.data : "");
    if (batches > 1)
        dop_buf_puts(body, "    }\n");
    dop_buf_finish(&indices);
    dop_buf_finish(&constants);
    dop_buf_finish(&early);
    dop_buf_finish(&text);
}

static bool
keeps_statistics(const dop_gen *gen, const dop_rowprog *p)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (dop_node_is(gen->e.g, p->nodes[i], DOP_STATISTIC))
            return true;
    return false;
}

void
dop_gen_rowprog(dop_gen *gen, const dop_rowprog *p, dop_buf *body)
{
    dop_emit *e = &gen->e;
    uint32_t *level = dop_arena_alloc(e->g->arena, p->n_nodes * sizeof *level);
    if (!level) {
        e->status = DOP_FAIL(e->diag, DOP_E_NOMEM, "out of memory");
        return;
    }
    uint32_t top = assign_levels(gen, p, level), width = dop_rowprog_wide(gen, p) ? 4 : 1;
    for (uint32_t i = 0; p->staged && i <= p->n_others; i++) {
        const dop_node_id value = i ? p->others[i - 1] : p->staged;
        uint32_t l = level_of(gen, p, level, value);
        dop_node_id b = dop_node_base(e->g, value, NULL);
        if (dop_node_is(e->g, b, DOP_STATISTIC))
            l++;
        top = l > top ? l : top;
    }
    const uint32_t values = values_at_once(gen, p, width), loads = e->target->schedule.row_loads,
                   most = e->routes || loads > MAX_AT_ONCE ? MAX_AT_ONCE : loads;
    if (values <= most)
        straight_program(gen, p, level, top, width, 1, body);
    else if (top == 0 && p->staged && values < UINT32_MAX && !keeps_statistics(gen, p))
        straight_program(gen, p, level, top, width, dop_div_up_u32(values, MAX_AT_ONCE), body);
    else
        looped_program(gen, p, level, top, width, body);
}

/* Values of the longest unit of the region's programs. */
static uint32_t
longest_unit(const dop_region *r)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < r->info->row.n_programs; i++)
        most = r->info->row.programs[i].unit.len > most ? r->info->row.programs[i].unit.len : most;
    return most;
}

/* The number of cooperative lanes for a unit; 0: the whole workgroup.  A subgroup has a unit in a stage of short units, and where a
 * workgroup has several subgroups for units that are no longer than what a subgroup loads at once (tile_row). */
static uint32_t
row_lanes(const dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    const uint32_t sg = gen->e.target->subgroup, most = longest_unit(gen->e.r);
    const bool several = tile->subgroup && tile->wg > sg && most <= sg * 4;
    return (gen->e.routes && most <= sg * 16) || several ? sg : 0;
}

static dop_status
emit_row(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    const dop_region *r = e->r;
    dop_keys keys = {0};
    dop_buf *body = dop_keys_text(gen, &keys, "BODY");
    uint32_t first_unit = 0;
    bool tokens = dop_node_per_token(
        g, dop_node_at(g, r->outs[0])->op == DOP_OP_state_write ? dop_node_at(g, r->outs[0])->src[1] : r->outs[0]);
    const uint32_t each = row_lanes(gen), wg = gen->choice->tile.wg;
    for (uint32_t i = 0; i < r->info->row.n_programs; i++) {
        const dop_program *x = &r->info->row.programs[i];
        const char *unit = x->unit.units == 1 && first_unit == 0 ? "0u" : dop_emit_str(e, "unit%u", i);
        dop_buf_printf(body, "    if (unit >= %uu && unit < %uu) {\n    uint unit%u = unit - %uu;\n", first_unit,
                       first_unit + x->unit.units, i, first_unit);
        dop_rowprog p = {.nodes = x->nodes,
                         .n_nodes = x->n_nodes,
                         .len = x->unit.len,
                         .t = tokens ? "t" : "0u",
                         .unit = unit,
                         .lanes = each,
                         .lane = "lane",
                         .serial = i};
        uint32_t n_binds = e->n_binds;
        dop_gen_rowprog(gen, &p, body);
        e->n_binds = n_binds;
        dop_buf_puts(body, "    }\n");
        first_unit += x->unit.units;
    }
    gen->grid[0] = first_unit;
    gen->grid[1] = tokens ? g->max_t : 1;
    gen->grid[2] = 1;
    const char *unit = "    uint t = DOP_GROUP.y, unit = DOP_GROUP.x;\n";
    if (each && e->routes) {
        unit = dop_emit_str(e,
                            "    uint item = DOP_GROUP.x * (WG / SG) + gl_LocalInvocationIndex / SG;\n"
                            "    uint t = item / %uu, unit = item %% %uu, lane = gl_LocalInvocationIndex %% SG;\n",
                            first_unit, first_unit);
        gen->grid[0] = dop_div_up_u32(first_unit * gen->grid[1], wg / each);
        gen->grid[1] = 1;
    } else if (each) {
        unit = "    uint t = DOP_GROUP.y, unit = DOP_GROUP.x * (WG / SG) + gl_LocalInvocationIndex / SG,\n"
               "         lane = gl_LocalInvocationIndex % SG;\n";
        gen->grid[0] = dop_div_up_u32(first_unit, wg / each);
    }
    dop_keys_set(&keys, "UNIT", unit);
    dop_keys_set(&keys, "N_TOKENS", tokens ? dop_emit_n_tokens(e) : "1u");
    return dop_template_fill(gen, "row.glsl", &keys, &gen->main);
}

static dop_status
emit_elementwise(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    const dop_region *r = e->r;
    dop_keys keys = {0};
    dop_buf *body = dop_keys_text(gen, &keys, "BODY");
    dop_node_id first = r->outs[0];
    if (dop_node_at(g, first)->op == DOP_OP_state_write)
        first = dop_node_at(g, first)->src[1];
    uint32_t cols = dop_node_cols(g, first), width = cols % 4 == 0 ? 4 : 1;
    for (uint32_t i = 0; i < r->n_outs; i++)
        if (!dop_emit_wide(e, r->outs[i]))
            width = 1;
    uint32_t rows =
        dop_node_per_token(g, first) ? g->max_t : (uint32_t)dop_dim_value(g, dop_node_at(g, first)->shape.dim[0], 1);
    if (dop_node_at(g, first)->shape.rank == 1 && !dop_node_per_token(g, first))
        rows = 1;
    dop_emit_scope(e, body, "    ");
    dop_index ix = {rows == 1 ? "0u" : "t", "c"};
    for (uint32_t i = 0; i < r->n_outs; i++)
        dop_emit_store(e, r->outs[i], ix, width, dop_emit_value(e, r->outs[i], ix, width));
    gen->grid[0] = dop_div_up_u32(rows * (cols / width), gen->choice->tile.wg);
    gen->grid[1] = gen->grid[2] = 1;
    DOP_NUMBERS(gen, &keys, &gen->main, {"W", width}, {"COLS_W", cols / width});
    dop_keys_set(&keys, "N_TOKENS", dop_node_per_token(g, first) ? dop_emit_n_tokens(e) : dop_emit_str(e, "%uu", rows));
    return dop_template_fill(gen, "elementwise.glsl", &keys, &gen->main);
}

static void
tile_row(const dop_site *s, dop_tile *tile)
{
    const dop_graph *g = s->g;
    dop_node_id out = s->r->outs[0];
    dop_unit u = dop_node_unit(g, dop_node_at(g, out)->op == DOP_OP_state_write ? dop_node_at(g, out)->src[1] : out);
    uint32_t least = tile->subgroup && s->t->subgroup > 32 ? s->t->subgroup : 32;
    while (tile->wg > least && tile->wg * 4 > u.len)
        tile->wg /= 2;
    /* A subgroup for each unit: a multiprocessor holds more subgroups than workgroups. */
    if (tile->subgroup && !s->t->cpu && g->max_t > 1 && longest_unit(s->r) <= s->t->subgroup * 4)
        for (tile->wg = s->t->subgroup;
             tile->wg < s->t->subgroup * s->t->schedule.row_subgroups && tile->wg * 2 <= s->t->max_workgroup;
             tile->wg *= 2)
            ;
    /* Sums over a single subgroup need no barriers, which are expensive on CPU devices. */
    if (s->t->cpu && tile->subgroup)
        tile->wg = s->t->subgroup;
}

static void
tile_elementwise(const dop_site *s, dop_tile *tile)
{
    tile->wg = s->t->schedule.element_wg;
}

const dop_descriptor dop_descriptor_row = {
    .fits = dop_attn_refuses_blocks,
    .tile = tile_row,
    .emit = emit_row,
    .trips = dop_trips_row,
};

/* Every elementwise region can be a stage: its workgroups get the size of the persistent dispatch, and invocations that have no
 * value skip their work and stay with the others. */
static const char *
any_stage(const dop_site *s, dop_tile *tile)
{
    (void)s;
    (void)tile;
    return NULL;
}

static const char *
row_stage(const dop_site *s, dop_tile *tile)
{
    (void)tile;
    return s->g->max_t > 1 ? NULL : "a row program of one row";
}

const dop_descriptor dop_descriptor_row_subgroup = {
    .tile = tile_row,
    .emit = emit_row,
    .trips = dop_trips_row,
    .stage = DOP_VARIANT_row_subgroup,
    .as_stage = row_stage,
};

const dop_descriptor dop_descriptor_elementwise = {
    .tile = tile_elementwise,
    .emit = emit_elementwise,
    .stage = DOP_VARIANT_elementwise,
    .as_stage = any_stage,
};
