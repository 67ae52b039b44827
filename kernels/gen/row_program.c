/* Row programs as nests. Axis k, the values of a row, is divided among lanes. A lane keeps its values in registers for all
 * passes, or loads them again in the loop of each pass. If a one-pass program has a long row, it uses batches of
 * registers. */
#include "kernels/gen/row_program.h"
#include "kernels/gen/gen.h"
#include "kernels/gen/templates.h"
#include "kernels/nest/finish.h"
#include "kernels/nest/nest.h"
#include "kernels/nest/print.h"
#include "kernels/nest/reduce.h"

#include <string.h>

/* MAX_AT_ONCE: maximum number of values (or vec4s) of a row that an invocation holds in registers. Mailbox reads of register
 * rows are all in flight at once, those of longer rows one per iteration. Rows that are only staged use batches of one round
 * trip to memory each. */
enum { MAX_AT_ONCE = 8, MAX_OWN_SUMS = 2 };

/* Longest row of an expert choice that each invocation reduces by itself, without barriers. */
enum { SHORT_ROW = 32 };

static int
program_index_of(const dop_rowprog *p, dop_node_id id)
{
    uint32_t from = 0, to = p->n_nodes; /* nodes are sorted by handle */
    while (from < to) {
        uint32_t mid = from + (to - from) / 2;
        if (p->nodes[mid] < id)
            from = mid + 1;
        else
            to = mid;
    }
    return from < p->n_nodes && p->nodes[from] == id ? (int)from : -1;
}

/* Returns the level of an expression: the first pass over the row that can evaluate it, after the passes of all statistics
 * that it reads. */
static uint32_t
pass_level_of(const dop_gen *gen, const dop_rowprog *p, const uint32_t *level, dop_node_id id)
{
    const dop_graph *g = gen->e.g;
    id = dop_node_base(g, id, NULL);
    int at = program_index_of(p, id);
    return at < 0 ? 0 : level[at];
}

/* Assigns each node its level, the pass that computes it, and returns the highest. An unsplit norm counts as a statistic and
 * a product; a softmax, as two statistics (maximum, then sum of exponentials) and a product. */
static uint32_t
assign_pass_levels(const dop_gen *gen, const dop_rowprog *p, uint32_t *level)
{
    const dop_graph *g = gen->e.g;
    uint32_t top = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, p->nodes[i]);
        uint32_t l = 0;
        for (uint32_t k = 0; k < n->n_srcs; k++) {
            dop_node_id b = dop_node_base(g, n->src[k], NULL);
            uint32_t x = pass_level_of(gen, p, level, b);
            if (program_index_of(p, b) >= 0 && dop_node_is(g, b, DOP_STATISTIC))
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

/* Code generation state of a row program: the program, the placement of its values, and the current pass and value. */
typedef struct walk {
    dop_gen *gen;
    dop_nest *n;
    const dop_rowprog *p;
    uint32_t *level, top; /* pass of each node, and the last pass */
    uint32_t width;       /* values per access: 1 or 4 */
    uint32_t lanes;
    uint32_t reg, loop; /* values (or vec4s) of a lane in registers (0: processed in a loop), and loop iterations */
    const char *lane, *stride; /* expressions of the lane's number and of the number of lanes */
    uint32_t pass;
    const char *i, *inside; /* index in the row; condition that the lane has a value there, NULL: always true */
    const char *at[MAX_AT_ONCE], *in[MAX_AT_ONCE]; /* `i` and `inside` of the values in registers */
    dop_index ix;
    /* Loads of register values, issued before the first pass: [0] weights, [1] all others; and the holes that receive
     * them. */
    dop_buf early[2];
    dop_stmt *weights, *loads;
} walk;

/* A reduction over the row: a statistic, or one of those of an unsplit norm or softmax. */
typedef struct row_sum {
    enum {
        MEAN,
        ROOT,
        SPREAD,
        TOP,
        SHARES
    } what; /* ROOT: inverse root mean square; SPREAD: inverse deviation; TOP, SHARES: softmax */
    dop_node_id x;
    const char *name, *top; /* variables of the result, and of the maximum */
    double eps;
    uint32_t len; /* columns of x, which may be less than the program's length */
    /* Accumulates differences to the first value. If the mean is far from zero, partial sums of the values would round at
     * every step. Such an error shifts every value of a norm, and adds up in the next product. */
    bool from_first;
} row_sum;

static const char *
stat_name(const walk *w, dop_node_id id, const char *suffix)
{
    return dop_nest_text(w->n, "st%u_%d%s", w->p->serial, program_index_of(w->p, id), suffix);
}

static bool
uses_registers(const walk *w)
{
    return w->reg > 0;
}

/* True if every invocation reduces the whole row by itself. */
static bool
sums_alone(const walk *w)
{
    return w->p->columns && w->p->len <= SHORT_ROW;
}

/* True for a row in registers that is processed once at the beginning of a stage. */
static bool
own_sums(const walk *w)
{
    return w->gen->own_sums && uses_registers(w) && w->loop == 1 && !w->p->lanes;
}

static row_sum
sum_for(const walk *w, dop_op op, dop_node_id id, dop_node_id x, const char *suffix)
{
    const dop_graph *g = w->gen->e.g;
    const uint32_t cols = dop_node_cols(g, x), len = cols < w->p->len ? cols : w->p->len;
    row_sum s = {.what = op == DOP_OP_row_istd   ? SPREAD
                         : op == DOP_OP_row_mean ? MEAN
                                                 : ROOT,
                 .x = x,
                 .name = stat_name(w, id, suffix),
                 .len = len};
    s.eps = s.what != MEAN && dop_node_has(g, id, DOP_A_eps) ? dop_node_f(g, id, DOP_A_eps) : 0;
    s.from_first = s.what == SPREAD || (s.what == MEAN && !uses_registers(w) && !sums_alone(w) && len == w->p->len);
    return s;
}

/* Lists the reductions of this pass for node i: a statistic of this level, or the statistics of a norm or softmax. The latter
 * are computed one level before the node's own (the maximum of a softmax two levels before). */
static uint32_t
list_sums(const walk *w, uint32_t i, row_sum *out)
{
    const dop_graph *g = w->gen->e.g;
    const dop_node_id id = w->p->nodes[i];
    const dop_node *n = dop_node_at(g, id);
    const uint32_t before = w->level[i] - w->pass; /* levels until the node's own */
    uint32_t count = 0;
    if (dop_node_is(g, id, DOP_STATISTIC) && before == 0)
        out[count++] = sum_for(w, n->op, id, n->src[0], "");
    if (n->op == DOP_OP_rmsnorm && before == 1)
        out[count++] = sum_for(w, DOP_OP_row_rms, id, n->src[0], "");
    if (n->op == DOP_OP_layernorm && before == 1) {
        out[count++] = sum_for(w, DOP_OP_row_mean, id, n->src[0], "m");
        out[count++] = sum_for(w, DOP_OP_row_istd, id, n->src[0], "");
    }
    if (n->op == DOP_OP_softmax && (before == 1 || before == 2))
        out[count++] = (row_sum){.what = before == 2 ? TOP : SHARES,
                                 .x = n->src[0],
                                 .name = stat_name(w, id, before == 2 ? "m" : ""),
                                 .top = stat_name(w, id, "m")};
    return count;
}

/* Declares the lane's partial sum, and the first value if differences are accumulated. */
static void
begin_sum(walk *w, const row_sum *s)
{
    dop_emit *e = &w->gen->e;
    dop_nest *n = w->n;
    dop_reduce_begin(n, s->what == TOP ? DOP_REDUCE_most : DOP_REDUCE_sum, dop_nest_text(n, "%s_a", s->name));
    if (s->what == SPREAD)
        dop_reduce_begin(n, DOP_REDUCE_sum, dop_nest_text(n, "%s_b", s->name));
    if (!s->from_first)
        return;
    dop_buf first = {0};
    dop_emit_scope(e, &first, "    ");
    const char *c0 = strcmp(w->p->unit, "0u") ? dop_emit_str(e, "(%s * %uu)", w->p->unit, w->p->len) : "0u";
    const char *x = dop_emit_value(e, s->x, (dop_index){w->p->t, c0}, 1);
    dop_nest_hole(n, "first value", dop_gen_keep(w->gen, &first));
    dop_nest_let(n, "float", dop_nest_text(n, "%s_0", s->name), "%s", x)->reads = dop_nest_named(n, x);
}

/* Accumulates the current value. If x is shorter than the program's rows, its last value is loaded beyond the end and not
 * added. */
static void
add_to_sum(const walk *w, const row_sum *s)
{
    dop_emit *e = &w->gen->e;
    const bool shorter = s->what < TOP && s->len < w->p->len;
    dop_index ix = w->ix;
    if (shorter)
        ix.c = dop_emit_str(e, "min(%s, %uu)", w->i, s->len - w->width);
    const char *v = dop_emit_value(e, s->x, ix, w->width), *a = dop_emit_str(e, "%s_a", s->name);
    if (s->from_first)
        v = dop_emit_str(e, "%s - %s_0", v, s->name);
    if (s->what == SHARES)
        v = dop_emit_str(e, "exp(%s - %s)", v, s->top);
    const char *within = shorter ? dop_emit_str(e, "if (%s < %uu) ", w->i, s->len) : "";
    const char *guard = w->inside ? dop_emit_str(e, "if (%s) ", w->inside) : "";
    const dop_reduction r = s->what == TOP ? DOP_REDUCE_most : s->what == ROOT ? DOP_REDUCE_squares : DOP_REDUCE_sum;
    dop_emit_line(e, "%s%s%s;", guard, within, dop_reduce_add(w->n, r, a, v, w->width));
    if (s->what != SPREAD)
        return;
    /* Squares of the values themselves would cancel if the mean is far from zero. */
    a = dop_emit_str(e, "%s_b", s->name);
    dop_emit_line(e, "%s%s%s;", guard, within, dop_reduce_add(w->n, DOP_REDUCE_squares, a, v, w->width));
}

/* Emits code that reduces the partial sums of all lanes to the statistic. */
static void
end_sum(const walk *w, const row_sum *s)
{
    dop_nest *n = w->n;
    const bool own = own_sums(w) && w->gen->sums < MAX_OWN_SUMS;
    const dop_reduction r = s->what == TOP ? DOP_REDUCE_most : DOP_REDUCE_sum;
    const dop_reduce_by by = sums_alone(w) ? DOP_BY_alone
                             : w->p->lanes ? DOP_BY_lanes
                             : own         ? DOP_BY_own + w->gen->sums++
                                           : DOP_BY_workgroup;
    const char *a = dop_nest_text(n, "%s_a", s->name), *sum = dop_reduce_all(n, r, by, a);
    if (s->what == SPREAD) {
        dop_reduce_note(dop_nest_set(n, a, "%s / %u.0", sum, s->len), by);
        sum = dop_reduce_all(n, r, by, dop_nest_text(n, "%s_b", s->name));
        sum = dop_nest_text(n, "inversesqrt(max(%s / %u.0 - %s * %s, 0.0) + %.9g)", sum, s->len, a, a, s->eps);
    } else if (s->what == ROOT) {
        sum = dop_nest_text(n, "inversesqrt(%s / %u.0 + %.9g)", sum, s->len, s->eps);
    } else if (s->what == MEAN) {
        sum = dop_nest_text(n, "%s / %u.0", sum, s->len);
        sum = s->from_first ? dop_nest_text(n, "%s_0 + %s", s->name, sum) : sum;
    } else if (s->what == SHARES) {
        sum = dop_nest_text(n, "1.0 / %s", sum);
    }
    dop_reduce_note(dop_nest_let(n, "float", s->name, "%s", sum), by);
}

/* Emits code that stores the staged values at this index in shared memory for the code after the program. */
static void
stage_value(const walk *w)
{
    dop_emit *e = &w->gen->e;
    const dop_rowprog *p = w->p;
    const char *guard = w->inside ? dop_emit_str(e, "if (%s) ", w->inside) : "";
    const char *v = dop_emit_value(e, p->staged, w->ix, w->width);
    if (p->times)
        v = dop_emit_str(e, "%s * %s(%s)", v, p->times, w->i);
    for (uint32_t i = 0; p->which && i < p->n_others; i++)
        v = dop_emit_str(e, "%s == %uu ? %s : %s", p->which, i + 1, dop_emit_value(e, p->others[i], w->ix, w->width),
                         v);
    for (uint32_t i = 0; i <= (p->which ? 0 : p->n_others); i++) {
        const char *at = i ? dop_emit_str(e, "%s + %uu + %s", p->stage_base, i * p->apart, w->i)
                           : dop_emit_str(e, "%s + %s", p->stage_base, w->i);
        if (i)
            v = dop_emit_value(e, p->others[i - 1], w->ix, w->width);
        if (p->columns)
            dop_emit_line(e, "%s[%s] = %s;", p->stage, w->i, v);
        else if (w->width == 4)
            dop_emit_line(e, "%s{ %s_PUT((%s) >> 2, %s); }", guard, p->stage, at, v);
        else
            dop_emit_line(e, "%s{ %s_PUT1(%s, %s); }", guard, p->stage, at, v);
    }
}

/* True if the output is one value per unit, computed from statistics. */
static bool
is_scalar(const walk *w, dop_node_id id)
{
    const dop_graph *g = w->gen->e.g;
    const dop_shape *s = &dop_node_at(g, id)->shape;
    return !dop_node_is(g, id, DOP_STATISTIC) && w->p->len > 1 && s->rank > 1 && s->dim[s->rank - 1].mul == 1 &&
           s->dim[s->rank - 1].sym == DOP_SYM_1;
}

/* True if node i is an output that this pass completes. */
static bool
is_output(const walk *w, uint32_t i)
{
    return w->level[i] == w->pass && dop_region_is_out(w->gen->e.r, w->p->nodes[i]);
}

/* Emits the work of the pass at the current value: reductions, stores of outputs, and staging. */
static void
visit_row_value(const walk *w, const row_sum *sums, uint32_t n_sums)
{
    dop_emit *e = &w->gen->e;
    const dop_rowprog *p = w->p;
    for (uint32_t i = 0; i < n_sums; i++)
        add_to_sum(w, &sums[i]);
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        dop_node_id id = p->nodes[i];
        if (!is_output(w, i) || dop_node_is(e->g, id, DOP_STATISTIC) || is_scalar(w, id))
            continue;
        const char *v = dop_emit_value(e, id, w->ix, w->width);
        const char *indent = e->indent;
        const char *both = p->store_if && w->inside ? dop_emit_str(e, "%s && %s", p->store_if, w->inside) : NULL;
        const char *only = both ? both : p->store_if ? p->store_if : w->inside;
        if (only) {
            dop_emit_line(e, "if (%s) {", only);
            e->indent = "            ";
        }
        dop_emit_store(e, id, w->ix, w->width, v);
        e->indent = indent;
        if (only)
            dop_emit_line(e, "}");
    }
    if (p->staged && w->pass == w->top)
        stage_value(w);
}

/* Emits code that stores one value per unit from one lane: `name`, or if NULL the value computed from statistics. */
static void
store_one(const walk *w, dop_node_id id, const char *name)
{
    dop_emit *e = &w->gen->e;
    const uint32_t n_memo = e->n_memo;
    const dop_index ix = {w->p->t, w->p->unit};
    dop_buf text = {0};
    e->out = &text;
    e->indent = "        ";
    dop_emit_store(e, id, ix, 1, name ? name : dop_emit_value(e, id, ix, 1));
    e->n_memo = n_memo;
    dop_nest_if(w->n, "%s == 0u%s%s", w->lane, w->p->store_if ? " && " : "", w->p->store_if ? w->p->store_if : "")
        ->apart = true;
    dop_nest_hole(w->n, "store", dop_gen_keep(w->gen, &text));
    dop_nest_end(w->n);
}

/* Stores the per-unit values and statistics that other regions read. Statistics stay bound. */
static void
store_units(const walk *w)
{
    dop_emit *e = &w->gen->e;
    const dop_rowprog *p = w->p;
    const uint32_t n_binds = e->n_binds;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (w->level[i] < w->pass && dop_node_is(e->g, p->nodes[i], DOP_STATISTIC))
            dop_emit_bind(e, p->nodes[i], stat_name(w, p->nodes[i], ""), false, NULL);
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (is_output(w, i) && is_scalar(w, p->nodes[i]))
            store_one(w, p->nodes[i], NULL);
    e->n_binds = n_binds;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const dop_node_id id = p->nodes[i];
        if (w->level[i] != w->pass || !dop_node_is(e->g, id, DOP_STATISTIC))
            continue;
        dop_emit_bind(e, id, stat_name(w, id, ""), false, NULL);
        if (is_output(w, i))
            store_one(w, id, stat_name(w, id, ""));
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

/* Chooses the placement of a lane's values: registers, if few; batches of registers, if the program is one pass without
 * statistics; otherwise a loop. Sums of differences need a loop, and CPU devices run small code faster. */
static void
place_lane_values(walk *w)
{
    const dop_emit *e = &w->gen->e;
    const dop_rowprog *p = w->p;
    const uint32_t values = dop_div_up_u32(p->len, w->lanes * w->width), loads = e->target->schedule.row_loads;
    bool walks = e->target->cpu || p->columns, sums = false;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const dop_op op = dop_node_at(e->g, p->nodes[i])->op;
        walks = walks || op == DOP_OP_row_istd || op == DOP_OP_layernorm || op == DOP_OP_softmax;
        sums = sums || dop_node_is(e->g, p->nodes[i], DOP_STATISTIC);
    }
    const bool batches = !walks && w->top == 0 && p->staged && !sums;
    if (!walks && values <= (e->routes || loads > MAX_AT_ONCE ? MAX_AT_ONCE : loads))
        w->reg = values;
    else
        w->loop = batches ? dop_div_up_u32(values, MAX_AT_ONCE) : values;
    if (!w->reg && batches)
        w->reg = dop_div_up_u32(values, w->loop);
}

/* Emits code that stores the zero padding after the staged rows. */
static void
emit_zero_padding(const walk *w)
{
    const dop_rowprog *p = w->p;
    dop_nest *n = w->n;
    for (uint32_t i = 0; p->staged && p->padded > p->len && i <= (p->which ? 0 : p->n_others); i++) {
        dop_nest_for(n, "i", dop_nest_text(n, "%uu + %s", i * p->apart + p->len, w->lane),
                     dop_nest_text(n, "%uu", i * p->apart + p->padded), w->stride)
            ->apart = true;
        dop_nest_call(n, dop_nest_text(n, "%s_PUT1", p->stage), dop_nest_text(n, "%s + i, 0.0", p->stage_base))
            ->writes = p->memory;
        dop_nest_end(n);
    }
}

/* Declares the indices of the lane's values in registers. All loads are issued before the first pass, weights first, so that
 * one round trip to memory serves all passes. */
static void
begin_registers(walk *w)
{
    dop_nest *n = w->n;
    const uint32_t step = w->lanes * w->width, all = w->reg * step, serial = w->p->serial, len = w->p->len;
    const char *batch = "";
    if (w->loop > 1) {
        const char *name = dop_nest_text(n, "batch%u", serial);
        emit_zero_padding(w);
        dop_nest_for(n, name, "0u", dop_nest_text(n, "%uu", w->loop), NULL);
        batch = dop_nest_text(n, " + %s * %uu", name, all);
    }
    for (uint32_t k = 0; k < w->reg; k++) {
        const bool whole = (w->loop - 1) * all + (k + 1) * step <= len;
        const char *at = dop_nest_text(n, "%s * %uu + %uu%s", w->lane, w->width, k * step, batch);
        w->at[k] = dop_nest_text(n, "r%u_%u", serial, k);
        w->in[k] = whole ? NULL : dop_nest_text(n, "in%u_%u", serial, k);
        if (!whole)
            dop_nest_let(n, "bool", w->in[k], "%s < %uu", at, len);
        dop_nest_let(n, "uint", w->at[k], "%s", whole ? at : dop_nest_text(n, "min(%s, %uu)", at, len - w->width));
    }
    w->weights = dop_nest_hole(n, "weights", "");
    if (w->loop == 1)
        emit_zero_padding(w);
    w->loads = dop_nest_hole(n, "loads", "");
}

static void
visit_at(walk *w, const char *i, const char *inside, const row_sum *sums, uint32_t n_sums)
{
    const dop_rowprog *p = w->p;
    w->i = i;
    w->inside = inside;
    w->ix = (dop_index){p->t, strcmp(p->unit, "0u") ? dop_nest_text(w->n, "(%s * %uu + %s)", p->unit, p->len, i) : i};
    visit_row_value(w, sums, n_sums);
}

/* Emits one pass over the row. `sums` is an array with capacity for the pass's reductions. */
static void
emit_pass(walk *w, row_sum *sums)
{
    dop_emit *e = &w->gen->e;
    dop_nest *n = w->n;
    const dop_rowprog *p = w->p;
    const uint32_t n_binds = e->n_binds;
    uint32_t n_sums = 0;
    dop_buf values = {0};
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const dop_op op = dop_node_at(e->g, p->nodes[i])->op;
        if ((op == DOP_OP_rmsnorm || op == DOP_OP_layernorm || op == DOP_OP_softmax) && w->level[i] <= w->pass)
            dop_emit_bind_norm(e, p->nodes[i], stat_name(w, p->nodes[i], ""), stat_name(w, p->nodes[i], "m"));
        n_sums += list_sums(w, i, sums + n_sums);
    }
    for (uint32_t i = 0; i < n_sums; i++)
        begin_sum(w, &sums[i]);
    e->out = &values;
    e->indent = uses_registers(w) ? "    " : "        ";
    if (uses_registers(w)) {
        e->constants = &w->early[0];
        e->early = &w->early[1];
    } else {
        e->n_memo = 0;
        visit_at(w, "i", NULL, sums, n_sums);
        e->n_memo = 0;
    }
    for (uint32_t k = 0; k < w->reg; k++)
        visit_at(w, w->at[k], w->in[k], sums, n_sums);
    e->constants = e->early = NULL;
    e->n_binds = n_binds;
    const bool any = values.data != NULL, loop = any && !uses_registers(w), alone = n_sums > 0 && sums_alone(w);
    if (loop)
        dop_nest_for(n, "i", alone ? "0u" : dop_nest_text(n, "%s * %uu", w->lane, w->width),
                     dop_nest_text(n, "%uu", p->len), alone ? "1u" : dop_nest_text(n, "%s * %uu", w->stride, w->width))
            ->apart = !alone;
    if (any) {
        dop_stmt *s = dop_nest_hole(n, "values", dop_gen_keep(w->gen, &values));
        const bool staged = w->pass == w->top;
        s->writes = staged ? p->memory : 0;
        s->reads = (dop_nest_named(n, s->value) | (staged ? p->factors : 0)) & ~s->writes;
    }
    if (loop)
        dop_nest_end(n);
    for (uint32_t i = 0; i < n_sums; i++)
        end_sum(w, &sums[i]);
    store_units(w);
}

void
dop_nest_rowprog(dop_gen *gen, const dop_rowprog *p, dop_nest *n)
{
    dop_emit *e = &gen->e;
    walk w = {.gen = gen, .n = n, .p = p, .width = dop_rowprog_wide(gen, p) && !p->columns ? 4 : 1, .loop = 1};
    row_sum *sums = dop_arena_alloc(n->arena, (2 * p->n_nodes + 1) * sizeof *sums);
    w.level = dop_arena_alloc(n->arena, (p->n_nodes + 1) * sizeof *w.level);
    if (!w.level || !sums) {
        e->status = DOP_NO_MEMORY(e->diag);
        return;
    }
    w.lanes = p->lanes ? p->lanes : gen->choice->tile.wg;
    w.lane = p->lanes ? p->lane : "gl_LocalInvocationIndex";
    w.stride = p->lanes ? dop_nest_text(n, "%uu", p->lanes) : "WG";
    w.top = assign_pass_levels(gen, p, w.level);
    for (uint32_t i = 0; p->staged && i <= p->n_others; i++) {
        const dop_node_id value = i ? p->others[i - 1] : p->staged;
        uint32_t l = pass_level_of(gen, p, w.level, value);
        if (dop_node_is(e->g, dop_node_base(e->g, value, NULL), DOP_STATISTIC))
            l++;
        w.top = l > w.top ? l : w.top;
    }
    place_lane_values(&w);
    uint32_t *at = n->placement.at[DOP_PLACE_k];
    if (at[DOP_LEVEL_lane] == 0) { /* otherwise the placement belongs to a product */
        at[DOP_LEVEL_loop] = w.loop;
        at[DOP_LEVEL_lane] = w.lanes;
        at[DOP_LEVEL_reg] = w.reg * w.width;
    }
    dop_emit_scope(e, NULL, "    ");
    if (uses_registers(&w))
        begin_registers(&w);
    else
        emit_zero_padding(&w);
    for (w.pass = 0; w.pass <= w.top && e->status == DOP_OK; w.pass++)
        emit_pass(&w, sums);
    if (!uses_registers(&w))
        return;
    w.weights->value = dop_gen_keep(gen, &w.early[0]);
    w.loads->value = dop_gen_keep(gen, &w.early[1]);
    if (w.loop > 1)
        dop_nest_end(n);
}

void
dop_gen_rowprog(dop_gen *gen, const dop_rowprog *p, dop_buf *body)
{
    dop_nest n;
    const dop_nest_placement nowhere = {0};
    dop_nest_open(&n, "row program", &nowhere, gen->e.g->arena, gen->e.diag);
    dop_nest_rowprog(gen, p, &n);
    const dop_status st = dop_nest_finish(&n);
    if (gen->e.status == DOP_OK)
        gen->e.status = st;
    dop_nest_print(&n, body);
}
