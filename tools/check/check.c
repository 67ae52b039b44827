/* --check: chooses the dispatches, positions and token counts, and prints one line per kernel. */
#include "tools/check/check.h"

#include "base/program/print.h"
#include "ir/region/region.h"
#include "ir/syntax/text.h"
#include "plan/plan_names.h"
#include "tools/check/check_compare.h"
#include "tools/check/check_device.h"
#include "tools/check/check_region.h"
#include "tools/check/check_stages.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Limits: higher positions cost much host time and find few errors. */
enum { MAX_POSITION = 32768, MAX_CASES = 12 };

typedef struct checker {
    dop_check_device device;
    dop_model *model;
    const dop_plan *plan;
    dop_arena arena;
    dop_graph *graphs;         /* [n_schedules], in the arena */
    dop_check_result *results; /* [n_kernels] */
    bool *seen;                /* [n_dispatches]: true if the dispatch was checked */
    const char **labels;       /* [n_kernels]: label of the first dispatch of each kernel */
} checker;

dop_status
dop_check_graphs(const dop_plan *plan, dop_arena *arena, dop_diag *diag, dop_graph **out_graphs)
{
    uint64_t at = 0;
    *out_graphs = dop_arena_alloc(arena, plan->n_schedules * sizeof **out_graphs);
    if (!*out_graphs)
        return DOP_NO_MEMORY(diag);
    if (!plan->ir)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, plan->path, "the plan carries no graphs to check against");
    for (uint32_t i = 0; i < plan->n_schedules; i++) {
        const dop_plan_schedule *s = &plan->schedules[i];
        dop_graph *g = &(*out_graphs)[i];
        size_t end = 0;
        dop_status st = dop_graph_parse(plan->path, plan->ir + at, (size_t)(plan->ir_size - at), arena, diag, g, &end);
        if (st != DOP_OK)
            return st;
        at += end;
        g->copies = plan->model->state_copies;
        g->keeps_each = g->copies > 2 && s->kind == DOP_SCHED_ROWS;
        g->stays = s->kind == DOP_SCHED_DRAFT && dop_plan_program_of(plan, s->kind)->stays;
        if (g->max_t < s->max_rows || (s->kind < DOP_SCHED_IMAGE && g->max_s < plan->model->ctx))
            return DOP_FAIL_IN(diag, DOP_E_INPUT, plan->path,
                               "the plan is damaged: graph %u is not that of schedule %u", i, i);
        for (uint32_t d = 0; d < s->n_dispatches; d++)
            if (plan->dispatches[s->first_dispatch + d].region == 0 ||
                plan->dispatches[s->first_dispatch + d].region >= g->n_regions)
                return DOP_FAIL_IN(diag, DOP_E_INPUT, plan->path,
                                   "the plan is damaged: dispatch %u of schedule %u has no "
                                   "region",
                                   d, i);
    }
    return DOP_OK;
}

typedef struct point {
    uint32_t pos, n_tokens;
} point;

static void
add_point(point *list, uint32_t *n, uint32_t pos, uint32_t n_tokens, uint32_t limit)
{
    for (uint32_t i = 0; i < *n; i++)
        if (list[i].pos == pos && list[i].n_tokens == n_tokens)
            return;
    if (*n < MAX_CASES && n_tokens > 0 && n_tokens <= limit && pos <= limit - n_tokens)
        list[(*n)++] = (point){pos, n_tokens};
}

static uint32_t
choose_points(const checker *k, const dop_graph *g, const dop_region *r, point *list)
{
    uint32_t n = 0, t = g->max_t, limit = k->plan->model->ctx < MAX_POSITION ? k->plan->model->ctx : MAX_POSITION;
    bool moves = dop_check_uses_position(g, r);
    if (t == 1) {
        /* Includes positions around cache splits: where splitting begins, and the first row of the second split. */
        uint32_t whole = 192, least = 64;
        for (dop_node_id id = 1; id < g->n_nodes; id++)
            if (dop_node_at(g, id)->op == DOP_OP_attn_split) {
                whole = (uint32_t)dop_node_i(g, id, DOP_A_whole);
                least = (uint32_t)dop_node_i(g, id, DOP_A_least);
            }
        const uint32_t decode[] = {0, 1, least, whole > 0 ? whole - 1 : 0, whole, 255};
        for (uint32_t i = 0; i < sizeof decode / sizeof *decode && moves; i++)
            add_point(list, &n, decode[i], 1, limit);
        add_point(list, &n, limit / 2, 1, limit);
        if (moves)
            add_point(list, &n, limit - 1, 1, limit);
        return n;
    }
    add_point(list, &n, 0, t, limit > t || !dop_check_begins(g) ? limit : t);
    if (dop_check_begins(g)) {
        add_point(list, &n, 0, 3, limit);
        return n;
    }
    add_point(list, &n, limit / 2, t / 2 + 1, limit);
    add_point(list, &n, 3, 1, limit);
    if (moves && limit >= t)
        add_point(list, &n, limit - t, t, limit);
    return n;
}

static dop_status
check_dispatch(checker *k, uint32_t schedule, const dop_plan_dispatch *d, dop_diag *diag)
{
    point points[MAX_CASES] = {{0, 0}};
    dop_graph *g = &k->graphs[schedule];
    const dop_region *r = &g->regions[d->region];
    k->results[d->kernel].bound =
        fmax(k->results[d->kernel].bound, dop_check_bound(k->plan->kernels[d->kernel].rounding, g, r));
    uint32_t n = choose_points(k, g, r, points);
    uint32_t parities = dop_check_uses_parity(g, r) ? 2 : 1;
    for (uint32_t i = 0; i < n * parities; i++) {
        const point *at = &points[i / parities];
        dop_check_case c = {.device = &k->device,
                            .plan = k->plan,
                            .g = g,
                            .dispatch = d,
                            .pos = at->pos,
                            .n_tokens = at->n_tokens,
                            .parity = i % parities,
                            .seed = d->kernel * 1000003ull + at->pos * 31ull + at->n_tokens};
        DOP_RETURN_IF_ERROR(dop_check_run_case(&c, diag, &k->results[d->kernel]));
    }
    return DOP_OK;
}

static bool
same_numbers(const dop_plan *p, const dop_plan_dispatch *d, const dop_plan_dispatch *e)
{
    for (uint32_t i = 0; i < d->n_args; i++) {
        const dop_plan_arg *a = &p->args[d->first_arg + i], *b = &p->args[e->first_arg + i];
        if (a->slot == DOP_ARG_NUMBERS && (b->slot != a->slot || b->offset != a->offset))
            return false;
    }
    return true;
}

/* True if an earlier, equal dispatch was checked. Dispatches with equal kernel, grid and numbers do the same work. */
static bool
seen_before(const checker *k, const dop_plan_dispatch *d)
{
    for (const dop_plan_dispatch *e = k->plan->dispatches; e < d; e++)
        if (k->seen[e - k->plan->dispatches] && e->kernel == d->kernel &&
            memcmp(e->grid, d->grid, sizeof d->grid) == 0 && same_numbers(k->plan, d, e))
            return true;
    return false;
}

/* Appends the distinct names of kernels that exceed their bounds, separated by commas. stages: adds the persistent
 * dispatch. */
static void
list_misses(const checker *k, bool stages, dop_buf *out)
{
    const dop_plan *p = k->plan;
    for (uint32_t i = 0; i < p->n_kernels; i++) {
        bool first = k->results[i].miss;
        for (uint32_t j = 0; j < i && first; j++)
            first = !k->results[j].miss ||
                    strcmp(dop_plan_string(p, p->kernels[j].variant), dop_plan_string(p, p->kernels[i].variant)) != 0;
        if (first)
            dop_buf_printf(out, "%s%s", out->size ? "," : "", dop_plan_string(p, p->kernels[i].variant));
    }
    if (stages)
        dop_buf_printf(out, "%spersistent", out->size ? "," : "");
}

/* Passes the kernels that exceed their bounds to the device's `refused` callback, if set, and fails with their
 * names. */
static dop_status
fail_misses(const checker *k, const dop_check_result *stages, uint32_t n, uint32_t misses, dop_diag *diag)
{
    const dop_device *d = &k->model->device;
    dop_buf names = {0};
    list_misses(k, stages->miss, &names);
    for (char *at = names.data, *end; at && d->refused; at = end ? end + 1 : NULL) {
        end = strchr(at, ',');
        if (end)
            *end = 0;
        d->refused(d->refused_user, at);
        if (end)
            *end = ',';
    }
    const dop_status st = DOP_FAIL(diag, DOP_E_DEVICE,
                                   "%u of %u kernels miss the bound on %s: its driver or this program is wrong; please "
                                   "report it with the lines above, and compile the plan again with --avoid %s",
                                   misses, n, d->info.caps.name, names.data ? names.data : "");
    dop_buf_finish(&names);
    return st;
}

static dop_status
print_kernel(const checker *k, uint32_t kernel, dop_diag *diag)
{
    const dop_check_result *r = &k->results[kernel];
    dop_buf line = {0};
    dop_buf_printf(&line, "%-4s  %-36s %-16s error %.2e  bound %.0e  %llu values\n", r->miss ? "MISS" : "ok",
                   dop_plan_string(k->plan, k->plan->kernels[kernel].name), k->labels[kernel], r->error, r->bound,
                   (unsigned long long)r->values);
    if (r->miss)
        dop_buf_printf(&line, "      %s\n", r->where);
    dop_status st = dop_cli_print_buf(&line, diag);
    dop_buf_finish(&line);
    return st;
}

/* Prints the summary line. */
static dop_status
print_check_summary(const checker *k, uint32_t n, uint32_t misses, uint64_t values, dop_diag *diag)
{
    dop_buf line = {0};
    dop_buf_printf(&line, "%u of %u kernels agree with the reference on %s: %llu values compared\n", n - misses, n,
                   k->model->device.info.caps.name, (unsigned long long)values);
    dop_status st = dop_cli_print_buf(&line, diag);
    dop_buf_finish(&line);
    return st;
}

static dop_status
check_all(checker *k, dop_diag *diag)
{
    const dop_plan *p = k->plan;
    uint32_t n = 0, misses = 0;
    uint64_t values = 0;
    dop_check_result stages = {0};
    dop_status st = DOP_OK;
    for (uint32_t kernel = 0; kernel < p->n_kernels && st == DOP_OK; kernel++) {
        for (uint32_t u = 0; u < k->model->used.n; u++) {
            const uint32_t i = k->model->used.schedules[u];
            const dop_plan_schedule *s = &p->schedules[i];
            bool used = s->ordering == DOP_ORDER_BARRIERS;
            for (uint32_t j = 0; j < s->n_dispatches && used && st == DOP_OK; j++) {
                const dop_plan_dispatch *d = &p->dispatches[s->first_dispatch + j];
                if (d->kernel != kernel || seen_before(k, d))
                    continue;
                k->seen[d - p->dispatches] = true;
                if (!k->labels[kernel])
                    k->labels[kernel] = dop_plan_string(p, d->label);
                st = check_dispatch(k, i, d, diag);
            }
        }
        if (st != DOP_OK || !k->labels[kernel])
            continue;
        n++;
        misses += k->results[kernel].miss;
        values += k->results[kernel].values;
        st = print_kernel(k, kernel, diag);
    }
    if (st == DOP_OK && k->model->orders.decode[DOP_ORDER_PERSISTENT] != UINT32_MAX) {
        st = dop_check_stages(&k->device, k->graphs, k->results, diag, &stages);
        n++;
        misses += stages.miss;
        values += stages.values;
    }
    if (st == DOP_OK)
        st = print_check_summary(k, n, misses, values, diag);
    return st == DOP_OK && misses > 0 ? fail_misses(k, &stages, n, misses, diag) : st;
}

dop_status
dop_check_model(dop_model *model, dop_diag *diag)
{
    checker k = {.model = model, .plan = &model->plan};
    dop_arena_init(&k.arena);
    dop_status st = DOP_OK;
    k.results = calloc(k.plan->n_kernels, sizeof *k.results);
    k.labels = calloc(k.plan->n_kernels, sizeof *k.labels);
    k.seen = calloc(k.plan->n_dispatches, sizeof *k.seen);
    if (!k.results || !k.labels || !k.seen) {
        st = DOP_NO_MEMORY(diag);
        goto error;
    }
    if ((st = dop_check_graphs(k.plan, &k.arena, diag, &k.graphs)) == DOP_OK &&
        (st = dop_check_device_create(model, diag, &k.device)) == DOP_OK)
        st = check_all(&k, diag);
error:
    dop_check_device_destroy(&k.device);
    free(k.results);
    free(k.labels);
    free(k.seen);
    dop_arena_finish(&k.arena);
    return st;
}

dop_status
dop_check_plan(const char *path, const dop_open_options *options, dop_diag *diag)
{
    dop_model *model = NULL;
    dop_status st = DOP_OK;
    DOP_TRY(dop_model_open(path, options, diag, &model));
    DOP_TRY(dop_check_model(model, diag));
error:
    dop_model_close(model);
    return st;
}
