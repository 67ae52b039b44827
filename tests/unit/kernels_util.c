#include "tests/unit/kernels_util.h"

#include "compiler/library/make.h"
#include "ir/graph/cache_row.h"
#include "ir/graph/dims.h"
#include "ir/interp/interp.h"
#include "ir/syntax/text.h"
#include "kernels/emit/weight_types.h"
#include "passes/fusion/region.h"
#include "plan/plan_format.h"
#include "tests/unit/kernels_blocks.h"
#include "tests/unit/kernels_device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256, MAX_KEPT = 64 };

struct kernel_lab {
    lab_device *device;
    uint8_t *heap;
    uint64_t address; /* of the heap */
    uint64_t used;    /* bytes of it */
    dop_templates templates;
    kernel_lab_counts counts;
    const kernel_lab_choice *choice; /* NULL: the compiler's */
};

bool
kernel_lab_open_any(kernel_lab **out_lab, uint32_t *out_caps, uint32_t *out_subgroup, dop_buf *why)
{
    dop_diag diag = {0};
    kernel_lab *l = calloc(1, sizeof *l);
    *out_lab = l;
    dop_status st = l ? dop_templates_load(DOP_GLSL_SOURCE_DIR, &l->templates, &diag) : DOP_NO_MEMORY(&diag);
    if (st == DOP_OK)
        st = lab_device_open(out_caps != NULL, kernel_lab_target(0)->caps, &diag, &l->device);
    if (st == DOP_OK) {
        l->heap = lab_device_heap(l->device, &l->address);
        if (out_caps) {
            *out_caps = lab_device_caps(l->device);
            *out_subgroup = lab_device_subgroup(l->device);
        }
        return true;
    }
    dop_buf_puts(why, diag.message);
    kernel_lab_close(l);
    *out_lab = NULL;
    return false;
}

void
kernel_lab_lose(kernel_lab *lab, uint32_t n)
{
    lab_device_lose(lab->device, n);
}

void
kernel_lab_close(kernel_lab *lab)
{
    if (!lab)
        return;
    lab_device_close(lab->device);
    dop_templates_finish(&lab->templates);
    free(lab);
}

kernel_lab_counts
kernel_lab_count(const kernel_lab *lab)
{
    return lab->counts;
}

static uint64_t
hash(const char *s)
{
    uint64_t h = 1469598103934665603u; /* FNV-1a */
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h;
}

/* Equal text is one kernel, also of different graphs. */
static dop_status
find_kernel(kernel_lab *l, const dop_kernel *k, const dop_target *target, dop_diag *diag, uint32_t *out)
{
    dop_buf spirv = {0};
    uint32_t shared;
    if (lab_device_find(l->device, k->glsl, out))
        return DOP_OK;
    dop_status st = dop_kernel_compile("kernel", k, target, diag, &spirv, &shared);
    if (st == DOP_OK)
        st = lab_device_add(l->device, k->glsl, &spirv, k->subgroup, diag, out);
    l->counts.kernels += st == DOP_OK;
    dop_buf_finish(&spirv);
    return st;
}

static uint64_t
next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double
normal(uint64_t *state)
{
    uint64_t x = next(state);
    double sum = (double)(x & 0xffff) + (double)(x >> 16 & 0xffff) + (double)(x >> 32 & 0xffff) + (double)(x >> 48);
    return (sum / 65536 - 2) * 1.7320508;
}

/* Vectors lie around 1, matrices keep the size of what they multiply, tables ("t...") and caches are normal. */
static void
own_values(const dop_graph *g, dop_node_id id, double shake, float *out)
{
    const dop_node *n = dop_node_at(g, id);
    const char *name = dop_node_s(g, id, DOP_A_name);
    uint64_t count = 1, state = hash(name), other = hash(name) ^ 0x5555;
    for (uint32_t i = 0; i < n->shape.rank; i++)
        count *= dop_dim_value(g, n->shape.dim[i], 1);
    double size = n->op == DOP_OP_weight && n->shape.rank > 1 && name[0] != 't' ? 1 / sqrt(dop_node_cols(g, id)) : 1;
    for (uint64_t i = 0; i < count; i++) {
        double x = n->shape.rank == 1 ? 1 + 0.25 * normal(&state) : size * normal(&state);
        float f = (float)x;
        if (n->type == DOP_TYPE_f16)
            f = dop_f16_to_f32(dop_f32_to_f16(f));
        else if (n->type == DOP_TYPE_bf16)
            f = dop_bf16_to_f32(dop_f32_to_bf16(f));
        out[i] = (float)((double)f * (1 + shake * normal(&other)));
    }
}

static void
leaf_values(const dop_graph *g, dop_node_id id, double shake, float *out)
{
    const dop_node *n = dop_node_at(g, id);
    if (!lab_in_blocks(n)) {
        own_values(g, id, shake, out);
        if (n->op == DOP_OP_state && dop_cache_blocks(n->type))
            dop_cache_round(n->type, out, dop_node_rows(g, id, 1) * dop_node_cols(g, id), out);
        return;
    }
    uint64_t count = dop_dim_value(g, n->shape.dim[0], 1) * dop_node_cols(g, id),
             other = hash(dop_node_s(g, id, DOP_A_name));
    own_values(g, id, 0, out);
    (void)lab_quantize(g, id, out, NULL, 0);
    for (uint64_t i = 0; i < count; i++)
        out[i] = (float)((double)out[i] * (1 + shake * normal(&other)));
}

static uint32_t
token_id(uint32_t i)
{
    return i * 2654435761u >> 8;
}

typedef struct built {
    kernel_lab *l;
    const dop_target *target;
    dop_diag *diag;
    dop_arena arena;
    dop_graph g;
    dop_pass_ctx cx;
    dop_kernel *kernels; /* [n_regions] */
    lab_dispatch *dispatches;
    uint32_t n_dispatches;
    uint64_t *at; /* [n_nodes] bytes into the heap of each storage node; 0: none */
    uint64_t step, scratch, counts;
} built;

static void
built_finish(built *b)
{
    free(b->kernels);
    free(b->dispatches);
    free(b->at);
    dop_arena_finish(&b->arena);
}

static uint64_t
take(built *b, uint64_t bytes)
{
    uint64_t at = b->l->used;
    uint64_t need = dop_align_u64(bytes + ALIGN, ALIGN);
    if (need > LAB_HEAP - at) {
        (void)DOP_FAIL(b->diag, DOP_E_NOMEM, "the graph does not fit the laboratory");
        return 0;
    }
    b->l->used += need;
    return at;
}

static dop_status
place_weight(built *b, dop_node_id id)
{
    const dop_graph *g = &b->g;
    const dop_node *n = dop_node_at(g, id);
    const dop_dim *d = n->shape.dim, *last = d + n->shape.rank - 1;
    uint32_t rows = last == d ? 1 : (uint32_t)dop_dim_value(g, last[-1], 1), cols = last->mul;
    uint64_t many = last == d + 2 ? d->mul : 1, each = dop_packed_expert_stride(n->type, rows, cols), bytes = 0;
    float *f = malloc((size_t)(many * rows * cols) * sizeof *f);
    if (!f || !dop_type_row_bytes(n->type, dop_row_values(g, id), &bytes) || !(b->at[id] = take(b, many * each))) {
        free(f);
        return DOP_NO_MEMORY(b->diag);
    }
    leaf_values(g, id, 0, f);
    uint8_t *p = memset(b->l->heap + b->at[id], 0, (size_t)(many * each));
    if (lab_in_blocks(n)) {
        own_values(g, id, 0, f);
        const bool ok = lab_quantize(g, id, f, p, each);
        free(f);
        return ok ? DOP_OK : DOP_NO_MEMORY(b->diag);
    }
    for (uint64_t i = 0; i < many * rows; i++)
        lab_encode(n, f + i * cols, cols, p + i / rows * each + i % rows * bytes);
    free(f);
    return DOP_OK;
}

static uint32_t
state_copies(const dop_node *state)
{
    return dop_shape_appends(&state->shape) ? 1 : 2;
}

/* Of the tables of pages, behind the step record. */
static uint32_t
n_page_entries(const dop_graph *g)
{
    const uint32_t page = dop_graph_page(g);
    return page ? g->max_q * (g->max_s / page) : 0;
}

/* Of the counters of all regions. */
static uint64_t
counts_bytes(const dop_graph *g)
{
    return (uint64_t)g->n_regions * DOP_COUNTS_MOST * sizeof(uint32_t);
}

/* Memory for everything that a kernel may point at. */
static dop_status
place_all(built *b)
{
    const dop_graph *g = &b->g;
    b->l->used = ALIGN;
    b->at = calloc(g->n_nodes, sizeof *b->at);
    b->step = take(b, sizeof(dop_step) + n_page_entries(g) * sizeof(uint32_t));
    b->scratch = take(b, b->cx.placement.scratch + ALIGN);
    b->counts = take(b, counts_bytes(g));
    if (!b->at || !b->step || !b->scratch || !b->counts)
        return DOP_NO_MEMORY(b->diag);
    memset(b->l->heap + b->counts, 0, (size_t)counts_bytes(g));
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        const dop_node *n = dop_node_at(g, id);
        dop_status st = DOP_OK;
        if (n->op == DOP_OP_weight)
            st = place_weight(b, id);
        else if (n->op == DOP_OP_state && !(b->at[id] = take(b, state_copies(n) * dop_node_bytes(g, id))))
            st = DOP_E_NOMEM;
        else if (b->cx.placement.values[id].size > 0)
            b->at[id] = b->scratch + b->cx.placement.values[id].offset;
        if (st != DOP_OK)
            return st;
    }
    for (uint32_t i = 0; i < g->n_outs; i++) {
        dop_node_id id = dop_storage_node(g, g->outs[i]);
        if (!b->at[id] && !(b->at[id] = take(b, dop_node_bytes(g, id))))
            return DOP_E_NOMEM;
    }
    return DOP_OK;
}

static dop_status
build(built *b, const char *text, size_t size, bool fuse)
{
    size_t end;
    dop_pass_options opt = {.stop_after = -1, .check = true};
    dop_arena_init(&b->arena);
    dop_status st = dop_graph_parse("graph", text, size, &b->arena, b->diag, &b->g, &end);
    if (st != DOP_OK)
        return st;
    b->cx = (dop_pass_ctx){.arena = &b->arena, .diag = b->diag, .target = b->target};
    if (!fuse)
        dop_passes_skip_fusion(&opt);
    if ((st = dop_passes_run(&b->cx, &opt, &b->g)) != DOP_OK)
        return st;
    b->kernels = calloc(b->g.n_regions, sizeof *b->kernels);
    b->dispatches = calloc(b->g.n_regions, sizeof *b->dispatches);
    if (!b->kernels || !b->dispatches)
        return DOP_NO_MEMORY(b->diag);
    for (dop_region_id r = 1; r < b->g.n_regions && st == DOP_OK; r++) {
        const dop_region *region = &b->g.regions[r];
        dop_selection choice;
        if (region->dead)
            continue;
        b->l->counts.regions++;
        st = dop_kernel_select(&b->g, region, b->target, NULL, b->diag, &choice);
        if (st == DOP_OK && b->l->choice)
            b->l->choice->choose(b->l->choice->user, &b->g, region, b->target, &choice);
        if (st == DOP_OK)
            st =
                dop_kernel_generate(&b->l->templates, &b->g, region, b->target, &choice, NULL, b->diag, &b->kernels[r]);
    }
    return st;
}

static dop_status
compile(built *b)
{
    dop_status st = DOP_OK;
    for (dop_region_id r = 1; r < b->g.n_regions && st == DOP_OK; r++)
        if (!b->g.regions[r].dead)
            st = find_kernel(b->l, &b->kernels[r], b->target, b->diag, &b->dispatches[r].kernel);
    return st == DOP_OK ? place_all(b) : st;
}

/* What argument `a` of region i's kernel points at; 0: nothing. */
static uint64_t
argument_at(built *b, dop_region_id i, const dop_kernel_arg *a)
{
    if (a->kind == DOP_ARG_COUNTS)
        return b->counts + (uint64_t)i * DOP_COUNTS_MOST * sizeof(uint32_t);
    if (a->kind != DOP_ARG_VALUE)
        return a->kind == DOP_ARG_SUMS ? take(b, a->bytes) : 0;
    return a->value ? b->at[a->value] : b->step;
}

static dop_status
list_dispatches(built *b)
{
    for (dop_region_id i = 1; i < b->g.n_regions; i++) {
        const dop_kernel *k = &b->kernels[i];
        if (b->g.regions[i].dead)
            continue;
        lab_dispatch d = {
            b->dispatches[i].kernel, {k->grid[0], k->grid[1], k->grid[2]}, k->n_args, {0}, b->cx.placement.barrier[i]};
        for (uint32_t a = 0; a < k->n_args; a++) {
            const uint64_t at = argument_at(b, i, &k->args[a]);
            if (at == 0)
                return DOP_FAIL(b->diag, DOP_E_INTERNAL, "argument %u of region %u has no memory", a, i);
            d.args[a] =
                k->args[a].numbers ? k->args[a].number[0] | (uint64_t)k->args[a].number[1] << 32 : b->l->address + at;
        }
        b->dispatches[b->n_dispatches++] = d; /* never behind i */
    }
    return DOP_OK;
}

/* Counters are zero between dispatches, so they are after the last one. */
static dop_status
run_dispatches(built *b)
{
    const uint32_t *counts = (const uint32_t *)(const void *)(b->l->heap + b->counts);
    dop_status st = lab_device_run(b->l->device, b->dispatches, b->n_dispatches, b->diag);
    for (uint32_t i = 0; st == DOP_OK && i < counts_bytes(&b->g) / sizeof *counts; i++)
        if (counts[i] != 0)
            st = DOP_FAIL(b->diag, DOP_E_INTERNAL, "counter %u of region %u is %u after the step", i % DOP_COUNTS_MOST,
                          i / DOP_COUNTS_MOST, counts[i]);
    return st;
}

/* Of a row of a step at pos .. pos + t - 1.  Order is free: from odd positions on the last two rows are exchanged. */
static uint32_t
row_position(uint32_t pos, uint32_t t, uint32_t row)
{
    if (t > 1 && pos % 2 && row + 2 >= t)
        return pos + (row + 1 == t ? t - 2 : t - 1);
    return pos + row;
}

/* Either copy may be current in a step. */
static uint32_t
first_parity(uint32_t pos)
{
    return pos / 2 % 2;
}

/* Fills states, step record and, with NaN, everything that is written; runs. */
static dop_status
run(built *b, uint32_t pos, uint32_t t)
{
    const dop_graph *g = &b->g;
    kernel_lab *l = b->l;
    dop_step *step = (dop_step *)(void *)(l->heap + b->step);
    memset(step, 0, sizeof *step);
    step->n_rows = t;
    step->n_out = DOP_STEP_RING - 1;
    for (uint32_t i = 0; i < DOP_STEP_MAX_ROWS; i++)
        step->rows[i] =
            (dop_row){token_id(i) % 16, i < t ? row_position(pos, t, i) : 0xfffffff0u, i < t ? 0 : 0xfffffff0u, 0};
    step->parity[0] = first_parity(pos);
    for (uint32_t i = 0; i < n_page_entries(g); i++) /* in order: as the interpreter has them */
        ((uint32_t *)(void *)(step + 1))[i] = i;
    memset(l->heap + b->scratch, 0xff, (size_t)b->cx.placement.scratch);
    for (uint32_t i = 0; i < g->n_outs; i++) {
        dop_node_id id = dop_storage_node(g, g->outs[i]);
        memset(l->heap + b->at[id], 0xff, (size_t)dop_node_bytes(g, id));
    }
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        const dop_node *n = dop_node_at(g, id);
        if (n->op != DOP_OP_state)
            continue;
        uint64_t count = dop_node_rows(g, id, 1) * dop_node_cols(g, id);
        float *f = malloc((size_t)count * sizeof *f);
        if (!f)
            return DOP_NO_MEMORY(b->diag);
        leaf_values(g, id, 0, f);
        memset(l->heap + b->at[id], 0xff, state_copies(n) * (size_t)dop_node_bytes(g, id));
        bool second = state_copies(n) > 1 && step->parity[0];
        lab_encode(n, f, count, l->heap + b->at[id] + (second ? dop_node_bytes(g, id) : 0));
        free(f);
    }
    l->counts.runs++;
    return run_dispatches(b);
}

typedef struct reference {
    uint32_t pos;
    double shake; /* relative noise on every leaf */
    uint32_t n_kept;
    void *kept[MAX_KEPT];
    dop_interp *it;
} reference;

static dop_status
give_leaf(void *user, const dop_graph *g, dop_node_id leaf, uint32_t t, dop_tensor *out, dop_diag *diag)
{
    reference *r = user;
    const dop_node *n = dop_node_at(g, leaf);
    if (r->n_kept == MAX_KEPT || !(r->kept[r->n_kept] = calloc((size_t)out->count + 1, 4)))
        return DOP_NO_MEMORY(diag);
    void *p = r->kept[r->n_kept++];
    if (n->op == DOP_OP_input) {
        out->u = p;
        const char *name = dop_node_s(g, leaf, DOP_A_name);
        for (uint32_t i = 0; i < t && strcmp(name, "sequences") != 0; i++)
            out->u[i] = strcmp(name, "tokens") == 0 ? token_id(i) % 16 : row_position(r->pos, t, i);
        return DOP_OK;
    }
    out->f = p;
    leaf_values(g, leaf, r->shake, out->f);
    return DOP_OK;
}

static void
reference_finish(reference *r)
{
    dop_interp_destroy(r->it);
    for (uint32_t i = 0; i < r->n_kept; i++)
        free(r->kept[i]);
}

typedef struct comparison {
    built *b;
    const dop_graph *plain; /* before the passes */
    reference *exact, *shaken;
    reference *made; /* interprets the graph that the passes made; NULL: its kernels ran on the device */
    uint32_t pos, t;
    uint32_t parity; /* before the step */
    bool fused;
    dop_buf *why;
} comparison;

static bool
differs(const comparison *c, dop_node_id id, uint64_t at, double got, double want, double allowed)
{
    dop_buf_printf(c->why,
                   "%s%s, target %s, position %u, %u tokens: %%%s value %llu is %.9g instead of %.9g (allowed %.2g)",
                   c->fused ? "fused" : "unfused", c->made ? " and interpreted" : "", c->b->target->name, c->pos, c->t,
                   dop_node_at(c->plain, id)->name, (unsigned long long)at, got, want, allowed);
    return false;
}

/* Rows of f16 caches that the graph writes itself may be rounded to neighbouring values. */
static bool
rounds_inside(const dop_graph *g)
{
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        if (dop_node_at(g, id)->op == DOP_OP_state_write && dop_node_at(g, id)->type == DOP_TYPE_f16)
            return true;
    return false;
}

/* An id that was picked: it may be another one only where the values are equal within rounding. */
static bool
same_pick(const comparison *c, dop_node_id id, const dop_tensor *ref, const dop_tensor *made)
{
    const dop_step *step = (const dop_step *)(const void *)(c->b->l->heap + c->b->step);
    uint32_t got = made ? made->u[0] : step->ids[DOP_STEP_RING - 1];
    const dop_tensor *x;
    dop_diag diag = {0};
    if (!made && dop_node_rows(c->plain, id, c->plain->max_t) > 1) /* picks of all rows, for the host */
        return memcmp(step->ids, ref->u, c->t * sizeof *ref->u) == 0 || differs(c, id, 0, step->ids[0], ref->u[0], 0);
    if (got == ref->u[0])
        return made || (step->rows[0].position == row_position(c->pos, c->t, c->t - 1) + 1 &&
                        step->rows[0].sequence == 0 && step->n_rows == 1 && step->rows[0].token == got)
                   ? true
                   : differs(c, id, 0, step->rows[0].position, c->pos + c->t, 0);
    if (dop_interp_eval(c->exact->it, dop_node_at(c->plain, id)->src[0], &diag, &x) != DOP_OK || got >= x->count)
        return differs(c, id, 0, got, ref->u[0], 0);
    double gap = (double)x->f[ref->u[0]] - (double)x->f[got];
    return gap <= 1e-5 * fabs((double)x->f[ref->u[0]]) ? true : differs(c, id, 0, got, ref->u[0], gap);
}

/* Of a replace state, the copy that the step made. */
static void
read_output(const comparison *c, dop_node_id id, uint64_t count, float *out)
{
    const dop_graph *g = &c->b->g;
    dop_node_id memory = dop_storage_node(g, id);
    const dop_node *n = dop_node_at(g, memory);
    uint64_t at = c->b->at[memory];
    if (n->op == DOP_OP_state && state_copies(n) > 1 && c->parity == 0)
        at += dop_node_bytes(g, memory);
    lab_decode(n, c->b->l->heap + at, count, out);
}

static bool
same_output(const comparison *c, uint32_t out)
{
    const dop_graph *g = &c->b->g;
    dop_node_id plain = c->plain->outs[out], id = g->outs[out];
    const dop_tensor *ref, *other, *made = NULL;
    dop_diag diag = {0};
    if (dop_interp_eval(c->exact->it, plain, &diag, &ref) != DOP_OK ||
        dop_interp_eval(c->shaken->it, plain, &diag, &other) != DOP_OK ||
        (c->made && dop_interp_eval(c->made->it, id, &diag, &made) != DOP_OK)) {
        dop_buf_puts(c->why, diag.message);
        return false;
    }
    if (ref->u)
        return same_pick(c, plain, ref, made);
    /* How much rounding matters to this output is what noise on every leaf shows. */
    double squares = 0, noise = 0;
    for (uint64_t i = 0; i < ref->count; i++) {
        squares += (double)ref->f[i] * (double)ref->f[i];
        noise = fmax(noise, fabs((double)ref->f[i] - (double)other->f[i]));
    }
    dop_node_id memory = dop_storage_node(g, id);
    dop_type type = dop_node_at(g, memory)->type;
    double size = sqrt(squares / (double)ref->count), allowed = 2e-5 * size + 16 * noise + 1e-30;
    if (dop_cache_blocks(type) && dop_node_at(g, memory)->op == DOP_OP_state)
        allowed = 1e-6 * size; /* the same bytes: what rows are made of has no rounding of its own in these graphs */
    if (rounds_inside(c->plain))
        allowed += size / 2048;
    allowed += c->b->l->choice ? size * c->b->l->choice->slack : 0;
    float *got = malloc((size_t)ref->count * sizeof *got);
    if (made)
        memcpy(got, made->f, (size_t)ref->count * sizeof *got);
    else
        read_output(c, id, ref->count, got);
    bool ok = true;
    for (uint64_t i = 0; i < ref->count && ok; i++) {
        double want = (double)ref->f[i], d = fabs((double)got[i] - want);
        double all = allowed + (type == DOP_TYPE_f16 ? fabs(want) / 1024 + 1e-7 : 0);
        if (d / all > c->b->l->counts.worst)
            c->b->l->counts.worst = d / all;
        if (!(d <= all))
            ok = differs(c, plain, i, (double)got[i], want, all);
    }
    free(got);
    return ok;
}

static bool
interpret(const dop_graph *g, uint32_t t, reference *r, dop_diag *diag)
{
    if (dop_interp_create(g, t, &(dop_leaf_provider){r, give_leaf}, diag, &r->it) != DOP_OK)
        return false;
    dop_interp_round_storage(r->it, true);
    return true;
}

static bool
check_case(built *b, const comparison *what, uint32_t pos, uint32_t t, bool on_device)
{
    dop_diag diag = {0};
    reference exact = {.pos = pos}, shaken = {.pos = pos, .shake = 3e-7}, made = {.pos = pos};
    comparison c = *what;
    c.exact = &exact, c.shaken = &shaken, c.pos = pos, c.t = t, c.parity = first_parity(pos);
    c.made = on_device ? NULL : &made;
    bool ok = interpret(c.plain, t, &exact, &diag) && interpret(c.plain, t, &shaken, &diag);
    if (ok) {
        b->diag = &diag;
        ok = on_device ? run(b, pos, t) == DOP_OK : interpret(&b->g, t, &made, &diag);
    }
    if (!ok)
        dop_buf_puts(c.why, diag.message);
    for (uint32_t i = 0; i < c.plain->n_outs && ok; i++)
        ok = same_output(&c, i);
    reference_finish(&exact);
    reference_finish(&shaken);
    reference_finish(&made);
    return ok;
}

/* A graph that was compiled, at several positions and token counts. */
static bool
check_cases(built *b, const comparison *what, bool on_device)
{
    uint32_t s = what->plain->max_s, t = what->plain->max_t;
    uint32_t cases[5][2] = {{0, t}, {s - t, t}, {s / 3, t / 2 + 1}, {1, 1}, {s / 2 | 1, t > 1 ? t - 1 : 1}};
    bool ok = true;
    for (uint32_t i = 0; i < 5 && ok; i += b->l->choice ? 2 : 1)
        if (cases[i][1] <= t && cases[i][0] + cases[i][1] <= s)
            ok = check_case(b, what, cases[i][0], cases[i][1], on_device);
    return ok;
}

static bool
check_built(kernel_lab *lab, const char *text, size_t size, const dop_target *target, bool fuse, bool on_device,
            const dop_graph *plain, dop_buf *why)
{
    dop_diag diag = {0};
    built b = {.l = lab, .target = target, .diag = &diag};
    comparison what = {.b = &b, .plain = plain, .fused = fuse, .why = why};
    bool ok = build(&b, text, size, fuse) == DOP_OK;
    if (ok && on_device)
        ok = compile(&b) == DOP_OK && list_dispatches(&b) == DOP_OK;
    if (!ok)
        dop_buf_printf(why, "%s, target %s: %s", fuse ? "fused" : "unfused", target->name, diag.message);
    ok = ok && (lab->choice || check_cases(&b, &what, false)) && (!on_device || check_cases(&b, &what, true));
    built_finish(&b);
    return ok;
}

typedef struct steps {
    reference leaves; /* what is no state and no input */
    float **states;   /* [n_nodes] of the graph before the passes: what the interpreter has of each state */
    uint32_t token, position;
} steps;

static dop_status
give_step(void *user, const dop_graph *g, dop_node_id leaf, uint32_t t, dop_tensor *out, dop_diag *diag)
{
    steps *s = user;
    dop_status st = give_leaf(&s->leaves, g, leaf, t, out, diag);
    if (st != DOP_OK)
        return st;
    if (dop_node_at(g, leaf)->op == DOP_OP_state)
        memcpy(out->f, s->states[leaf], (size_t)out->count * sizeof *out->f);
    else if (out->u && strcmp(dop_node_s(g, leaf, DOP_A_name), "sequences") != 0)
        out->u[0] = strcmp(dop_node_s(g, leaf, DOP_A_name), "tokens") == 0 ? s->token : s->position;
    return DOP_OK;
}

/* One step of one row on the device; whether it is committed is the caller's business. */
static bool
device_step(built *b, uint32_t token, uint32_t position)
{
    dop_step *step = (dop_step *)(void *)(b->l->heap + b->step);
    step->n_rows = 1;
    step->rows[0] = (dop_row){token, position, 0, 0};
    return run_dispatches(b) == DOP_OK;
}

/* The step in the interpreter, compared with what the device has just made; then its states are the next step's. */
static bool
follow(const comparison *what, steps *s, bool commit)
{
    const dop_graph *plain = what->plain;
    dop_diag diag = {0};
    comparison c = *what;
    reference exact = {0}, shaken = {0};
    dop_leaf_provider leaves = {s, give_step};
    c.exact = &exact, c.shaken = &shaken, c.pos = s->position, c.t = 1;
    bool ok = dop_interp_create(plain, 1, &leaves, &diag, &exact.it) == DOP_OK &&
              dop_interp_create(plain, 1, &leaves, &diag, &shaken.it) == DOP_OK;
    dop_interp_round_storage(exact.it, true);
    for (uint32_t i = 0; i < plain->n_outs && ok; i++) {
        const dop_tensor *unused;
        s->leaves.shake = 0;
        ok = dop_interp_eval(exact.it, plain->outs[i], &diag, &unused) == DOP_OK;
        s->leaves.shake = 3e-7;
        ok = ok && dop_interp_eval(shaken.it, plain->outs[i], &diag, &unused) == DOP_OK;
        ok = ok && same_output(&c, i);
    }
    for (dop_node_id id = 1; id < plain->n_nodes && ok && commit; id++) {
        const dop_node *n = dop_node_at(plain, id);
        const dop_tensor *made;
        ok = n->op != DOP_OP_state_write || dop_interp_eval(exact.it, id, &diag, &made) == DOP_OK;
        if (ok && n->op == DOP_OP_state_write)
            memcpy(s->states[dop_storage_node(plain, id)], made->f, (size_t)made->count * sizeof(float));
    }
    dop_buf_puts(what->why, diag.message);
    dop_interp_destroy(exact.it);
    dop_interp_destroy(shaken.it);
    for (uint32_t i = 0; i < s->leaves.n_kept; i++)
        free(s->leaves.kept[i]);
    s->leaves.n_kept = 0;
    return ok;
}

/* Steps, some of which are run more than once: as a probe does, which commits nothing; and as a step that was dropped
 * after its commit, with another token first. */
static bool
run_steps(built *b, const comparison *what, steps *s, uint32_t n)
{
    dop_step *step = (dop_step *)(void *)(b->l->heap + b->step);
    bool picks = false, ok = true;
    for (dop_node_id id = 1; id < what->plain->n_nodes; id++)
        picks = picks || dop_node_at(what->plain, id)->op == DOP_OP_argmax;
    for (uint32_t i = 0; i < n && ok; i++) {
        comparison c = *what;
        c.parity = step->parity[0];
        s->position = i;
        for (uint32_t k = 0; k < i % 3 && ok; k++) { /* dropped, or only tried */
            s->token = token_id(i + 7 * k + 3) % 16;
            step->n_out = DOP_STEP_RING - 1;
            ok = device_step(b, s->token, i) && follow(&c, s, false);
            ok = ok && step->parity[0] == (picks ? 1 - c.parity : c.parity);
            step->parity[0] = c.parity;
        }
        s->token = token_id(i) % 16;
        step->n_out = DOP_STEP_RING - 1;
        ok = ok && device_step(b, s->token, i) && follow(&c, s, true);
        step->parity[0] = 1 - c.parity;
    }
    return ok;
}

bool
kernel_lab_steps(kernel_lab *lab, const char *text, uint32_t n, const dop_target *target, bool fuse, dop_buf *why)
{
    dop_arena arena;
    dop_graph plain;
    dop_diag diag = {0};
    size_t end;
    built b = {.l = lab, .target = target, .diag = &diag};
    comparison what = {.b = &b, .plain = &plain, .fused = fuse, .why = why};
    steps s = {.states = NULL};
    dop_arena_init(&arena);
    bool ok = dop_graph_parse("graph", text, strlen(text), &arena, &diag, &plain, &end) == DOP_OK &&
              build(&b, text, strlen(text), fuse) == DOP_OK && compile(&b) == DOP_OK && list_dispatches(&b) == DOP_OK &&
              run(&b, 0, 1) == DOP_OK;
    s.states = ok ? calloc(plain.n_nodes, sizeof *s.states) : NULL;
    ok = ok && s.states;
    for (dop_node_id id = 1; ok && id < plain.n_nodes; id++)
        if (dop_node_at(&plain, id)->op == DOP_OP_state)
            ok = (s.states[id] = calloc(dop_node_rows(&plain, id, 1), dop_node_cols(&plain, id) * sizeof(float)));
    for (dop_node_id id = 1; ok && id < b.g.n_nodes; id++) /* zeros, as a plan's states begin */
        if (dop_node_at(&b.g, id)->op == DOP_OP_state)
            memset(lab->heap + b.at[id], 0, state_copies(dop_node_at(&b.g, id)) * (size_t)dop_node_bytes(&b.g, id));
    if (ok)
        ((dop_step *)(void *)(lab->heap + b.step))->parity[0] = 0;
    ok = ok && run_steps(&b, &what, &s, n);
    dop_buf_puts(why, ok ? "" : diag.message);
    for (dop_node_id id = 1; s.states && id < plain.n_nodes; id++)
        free(s.states[id]);
    free(s.states);
    built_finish(&b);
    dop_arena_finish(&arena);
    return ok;
}

bool
kernel_lab_check(kernel_lab *lab, const char *text, size_t size, const dop_target *target, kernel_lab_runs runs,
                 dop_buf *why)
{
    dop_arena arena;
    dop_graph plain;
    dop_diag diag = {0};
    size_t end;
    dop_buf own = {0};
    dop_buf_append(&own, text, size);
    if (!own.failed && !(target->caps & DOP_CAP_f16_storage))
        lab_widen_caches(&own);
    dop_arena_init(&arena);
    bool ok = !own.failed && dop_graph_parse("graph", own.data, own.size, &arena, &diag, &plain, &end) == DOP_OK;
    if (!ok)
        dop_buf_printf(why, "line %ld: %s", diag.line, diag.message);
    ok = ok && check_built(lab, own.data, own.size, target, true, runs != KERNEL_LAB_NONE, &plain, why) &&
         (lab->choice || check_built(lab, own.data, own.size, target, false, runs == KERNEL_LAB_BOTH, &plain, why));
    lab->counts.graphs++;
    dop_buf_finish(&own);
    dop_arena_finish(&arena);
    return ok;
}

bool
kernel_lab_check_choice(kernel_lab *lab, const char *text, const dop_target *target, const kernel_lab_choice *choice,
                        dop_buf *why)
{
    lab->choice = choice;
    const bool ok = kernel_lab_check(lab, text, strlen(text), target, KERNEL_LAB_FUSED, why);
    lab->choice = NULL;
    return ok;
}
