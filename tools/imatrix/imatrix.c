#include "tools/imatrix/imatrix.h"

#include "base/parallel.h"
#include "ir/interp/interp.h"
#include "ir/region/region.h"
#include "plan/plan_names.h"
#include "tools/check/check.h"

#include <stdlib.h>
#include <string.h>

/* Value of a schedule that is copied in each of its steps. */
typedef struct copied {
    dop_node_id node; /* node that owns the value's memory */
    const dop_plan_arg *arg;
    uint64_t at;  /* byte offset in the staging buffer (taps.stage) */
    uint32_t row; /* number of values in a row */
    dop_type type;
} copied;

typedef struct product {
    uint32_t entry;
    /* Indices in taps.values: the inputs, and the expert ids. ids is UINT32_MAX if slot i uses matrix i, or there is
     * one matrix. */
    uint32_t x, ids;
    uint32_t start;  /* index of the first input in a row of the copied value */
    uint32_t slots;  /* input vectors per row: 1, or one per slot (chosen expert) */
    uint32_t chosen; /* expert ids per row */
} product;

/* Values copied in each step of a schedule, and the products that read them. */
typedef struct taps {
    bool made;
    const dop_plan_schedule *schedule;
    dop_graph *g;
    copied *values;
    product *products;
    uint32_t n_values, n_products;
    uint64_t bytes;
    dop_block stage;
    VkCommandBuffer commands[DOP_N_FORMS];
} taps;

typedef struct collector {
    dop_model *model;
    dop_imatrix_made *made;
    dop_arena arena;
    dop_graph *graphs;  /* [n_schedules], owned */
    taps *of;           /* owned, [n_schedules] */
    const taps *active; /* taps of the last step's schedule */
    VkCommandPool pool;
    dop_replay_observer observer;
    void (*progress)(size_t done, size_t all);
    size_t done, all; /* tokens read so far; tokens of the text */
} collector;

/* Returns the argument of the first dispatch that reads the value from memory, or NULL. */
static const dop_plan_arg *
find_reader(const dop_plan *p, const dop_plan_schedule *s, const dop_graph *g, dop_node_id id)
{
    for (uint32_t k = 0; k < s->n_dispatches; k++) {
        const dop_plan_dispatch *d = &p->dispatches[s->first_dispatch + k];
        for (uint32_t i = 0; i < d->n_args && d->region < g->n_regions; i++) {
            const dop_plan_arg *a = &p->args[d->first_arg + i];
            if (a->slot != DOP_ARG_NUMBERS && strcmp(dop_plan_string(p, a->value), dop_node_at(g, id)->name) == 0 &&
                !dop_region_has(&g->regions[d->region], id))
                return a;
        }
    }
    return NULL;
}

static dop_status
refuse_fused_inputs(const collector *c, const dop_plan_dispatch *d, dop_diag *diag)
{
    return DOP_FAIL_IN(diag, DOP_E_INPUT, c->model->plan.path,
                       "the plan computes the inputs of products inside of its kernels (%s), where nothing can look at "
                       "them: make one with dopplerc --no-fuse",
                       dop_plan_string(&c->model->plan, d->label));
}

/* Finds or adds a value that dispatch d reads in taps.values. It is copied before the first dispatch that reads it. */
static dop_status
copy_value(collector *c, taps *t, const dop_plan_dispatch *d, dop_node_id id, dop_diag *diag, uint32_t *out)
{
    const dop_node *n = dop_node_at(t->g, id);
    for (*out = 0; *out < t->n_values; ++*out)
        if (t->values[*out].node == id)
            return DOP_OK;
    const dop_plan_arg *arg = find_reader(&c->model->plan, t->schedule, t->g, id);
    const bool known = n->type == DOP_TYPE_f32 || n->type == DOP_TYPE_f16 || n->type == DOP_TYPE_u32;
    const uint32_t row = dop_node_cols(t->g, id);
    const uint64_t bytes = dop_node_rows(t->g, id, t->g->max_t) * row * dop_type_of(n->type)->bytes;
    if (!arg || !known || !dop_node_per_token(t->g, id))
        return refuse_fused_inputs(c, d, diag);
    if (bytes > arg->size)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, c->model->plan.path, "the plan is damaged: value %s is too large",
                           n->name);
    copied *grown = realloc(t->values, (t->n_values + 1) * sizeof *grown);
    if (!grown)
        return DOP_NO_MEMORY(diag);
    t->values = grown;
    t->values[t->n_values++] = (copied){id, arg, t->bytes, row, n->type};
    t->bytes = dop_align_u64(t->bytes + bytes, 16);
    return DOP_OK;
}

/* Finds or adds the entry of a tensor. Several weights that read the same inputs may be parts of one tensor. */
static dop_status
find_tensor_entry(collector *c, const dop_plan_tensor *w, dop_diag *diag, uint32_t *out)
{
    dop_imatrix_made *m = c->made;
    const dop_plan *p = &c->model->plan;
    const char *gguf = dop_plan_string(p, w->gguf), *name = *gguf ? gguf : dop_plan_string(p, w->name);
    for (*out = 0; *out < m->n; ++*out)
        if (strcmp(m->entries[*out].name, name) == 0 && m->entries[*out].cols == w->cols &&
            m->entries[*out].matrices == w->experts)
            return DOP_OK;
    dop_imatrix_entry *grown = realloc(m->entries, (m->n + 1) * sizeof *grown);
    if (!grown)
        return DOP_NO_MEMORY(diag);
    m->entries = grown;
    dop_imatrix_entry *e = &m->entries[m->n++];
    *e = (dop_imatrix_entry){.name = name, .cols = w->cols, .matrices = w->experts};
    e->sums = calloc((size_t)w->cols * w->experts, sizeof *e->sums);
    e->counts = calloc(w->experts, sizeof *e->counts);
    return e->sums && e->counts ? DOP_OK : DOP_NO_MEMORY(diag);
}

static const dop_plan_tensor *
find_tensor(const dop_plan *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_tensors; i++)
        if (strcmp(dop_plan_string(p, p->tensors[i].name), name) == 0)
            return &p->tensors[i];
    return NULL;
}

/* Adds a product that dispatch d computes. */
static dop_status
add_product(collector *c, taps *t, const dop_plan_dispatch *d, dop_node_id id, dop_diag *diag)
{
    const dop_graph *g = t->g;
    const dop_node *n = dop_node_at(g, id);
    const dop_node_id w = dop_node_base(g, n->src[1], NULL);
    if (dop_node_at(g, w)->op != DOP_OP_weight)
        return DOP_OK;
    const dop_plan_tensor *tensor = find_tensor(&c->model->plan, dop_node_s(g, w, DOP_A_name));
    product p = {.ids = UINT32_MAX, .slots = 1, .chosen = 1};
    if (!tensor)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, c->model->plan.path, "the plan is damaged: it lacks weight %s",
                           dop_node_s(g, w, DOP_A_name));
    const dop_node_id x = dop_node_base(g, n->src[0], &p.start);
    dop_status st = find_tensor_entry(c, tensor, diag, &p.entry);
    if (st == DOP_OK)
        st = copy_value(c, t, d, x, diag, &p.x);
    if (st != DOP_OK)
        return st;
    p.slots = dop_node_cols(g, n->src[0]) / tensor->cols;
    if (n->op == DOP_OP_matmul_at && n->n_srcs > 2) {
        const dop_node_id ids = dop_node_base(g, n->src[2], NULL);
        p.chosen = dop_node_cols(g, ids);
        st = copy_value(c, t, d, ids, diag, &p.ids);
    }
    const uint32_t row = t->values[p.x].row;
    if (st == DOP_OK && (p.slots == 0 || p.start + p.slots * tensor->cols > row ||
                         (p.ids == UINT32_MAX && p.slots != tensor->experts) ||
                         (p.ids != UINT32_MAX && p.slots != 1 && p.slots != p.chosen)))
        return refuse_fused_inputs(c, d, diag);
    for (uint32_t i = 0; i < t->n_products; i++)
        if (t->products[i].entry == p.entry && t->products[i].x == p.x && t->products[i].start == p.start)
            return st;
    product *grown = st == DOP_OK ? realloc(t->products, (t->n_products + 1) * sizeof *grown) : NULL;
    if (!grown)
        return st == DOP_OK ? DOP_NO_MEMORY(diag) : st;
    t->products = grown;
    t->products[t->n_products++] = p;
    return DOP_OK;
}

/* Finds all products of a schedule. Row factors that were moved after the products are no longer part of their
 * inputs. */
static dop_status
find_products(collector *c, taps *t, dop_diag *diag)
{
    const dop_plan_schedule *s = t->schedule;
    for (uint32_t i = 0; i < s->n_dispatches; i++) {
        const dop_plan_dispatch *d = &c->model->plan.dispatches[s->first_dispatch + i];
        if (d->region == 0 || d->region >= t->g->n_regions)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, c->model->plan.path, "the plan is damaged: a dispatch has no region");
        const dop_region *r = &t->g->regions[d->region];
        for (uint32_t k = 0; k < r->n_nodes; k++) {
            const dop_op op = dop_node_at(t->g, r->nodes[k])->op;
            if (op == DOP_OP_row_rms || op == DOP_OP_row_istd)
                DOP_RETURN_IF_ERROR(refuse_fused_inputs(c, d, diag));
            else if (op == DOP_OP_matmul || op == DOP_OP_matmul_at)
                DOP_RETURN_IF_ERROR(add_product(c, t, d, r->nodes[k], diag));
        }
    }
    return DOP_OK;
}

static void
record_memory_barrier(VkCommandBuffer commands, VkPipelineStageFlags from, VkAccessFlags wrote, VkPipelineStageFlags to,
                      VkAccessFlags touches)
{
    VkMemoryBarrier b = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = wrote, .dstAccessMask = touches};
    vkCmdPipelineBarrier(commands, from, to, 0, 1, &b, 0, NULL, 0, NULL);
}

/* Copies the values that dispatch d reads, unless an earlier dispatch read them. */
static void
on_dispatch(void *user, uint32_t schedule, const dop_plan_dispatch *d, VkCommandBuffer commands)
{
    const collector *c = user;
    const taps *t = &c->of[schedule];
    const dop_memory *m = &c->model->memory;
    const dop_plan *p = &c->model->plan;
    bool any = false;
    for (uint32_t i = 0; i < t->n_values; i++) {
        const copied *v = &t->values[i];
        if (v->arg < p->args + d->first_arg || v->arg >= p->args + d->first_arg + d->n_args)
            continue;
        if (!any)
            record_memory_barrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_ACCESS_SHADER_WRITE_BIT,
                                  VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT);
        any = true;
        const dop_slot_place *place = &m->places[v->arg->slot];
        const VkBufferCopy copy = {place->offset + v->arg->offset, v->at,
                                   dop_node_rows(t->g, v->node, t->g->max_t) * v->row * dop_type_of(v->type)->bytes};
        vkCmdCopyBuffer(commands, m->blocks[place->block].buffer, t->stage.buffer, 1, &copy);
    }
    if (any)
        record_memory_barrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_WRITE_BIT,
                              VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_HOST_BIT,
                              VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_HOST_READ_BIT);
}

static dop_status
prepare_taps(collector *c, uint32_t schedule, dop_diag *diag)
{
    taps *t = &c->of[schedule];
    t->g = &c->graphs[schedule];
    t->schedule = &c->model->plan.schedules[schedule];
    dop_status st = DOP_OK;
    DOP_TRY(find_products(c, t, diag));
    if (t->n_products == 0)
        DOP_TRY(DOP_FAIL_IN(diag, DOP_E_INPUT, c->model->plan.path, "the plan has no products with weights"));
    DOP_TRY(dop_block_create(&c->model->device, t->bytes,
                             VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                             VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 0, diag, &t->stage));
error:
    t->made = st == DOP_OK;
    return st;
}

static dop_status
give_tapped_commands(void *user, uint32_t schedule, dop_form form, uint64_t ticket, dop_diag *diag,
                     VkCommandBuffer *out)
{
    collector *c = user;
    taps *t = &c->of[schedule];
    (void)ticket;
    dop_status st = DOP_OK;
    if (!t->made)
        DOP_TRY(prepare_taps(c, schedule, diag));
    if (!t->commands[form]) {
        VkCommandBufferAllocateInfo allocate = {
            .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
            .commandPool = c->pool,
            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
            .commandBufferCount = 1,
        };
        const VkResult r = vkAllocateCommandBuffers(c->model->device.handle, &allocate, &t->commands[form]);
        DOP_TRY(r == VK_SUCCESS ? dop_replay_record(&c->model->replay, schedule, form, VK_NULL_HANDLE, 0,
                                                    &(dop_replay_watch){c, on_dispatch}, t->commands[form], diag)
                                : DOP_VK_FAIL(diag, r, "vkAllocateCommandBuffers"));
    }
error:
    c->active = t;
    *out = t->commands[form];
    return st;
}

static void
on_span(void *user, const char *name)
{
    (void)user;
    (void)name;
}

static void
on_span_end(void *user)
{
    (void)user;
}

/* --- sums ------------------------------------------------------------------------------------------------------------- */

typedef struct harvest {
    const collector *c;
    uint32_t n_rows;
} harvest;

static void
add_squares(const copied *v, const uint8_t *stage, uint64_t first, uint32_t n, float *scratch, double *sums)
{
    const uint8_t *at = stage + v->at + first * dop_type_of(v->type)->bytes;
    dop_decode_row(v->type, at, n, scratch);
    for (uint32_t i = 0; i < n; i++)
        sums[i] += (double)scratch[i] * (double)scratch[i];
}

/* Adds the squared inputs of all products of one entry; one thread per entry, so that sums have one writer. */
static dop_status
add_entry(void *user, uint32_t worker, uint32_t index, dop_diag *diag)
{
    const harvest *h = user;
    const taps *t = h->c->active;
    const dop_imatrix_entry *e = &h->c->made->entries[index];
    float *scratch = malloc((size_t)e->cols * sizeof *scratch);
    (void)worker;
    if (!scratch)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < t->n_products; i++) {
        const product *p = &t->products[i];
        if (p->entry != index)
            continue;
        const copied *x = &t->values[p->x];
        const uint32_t vectors = p->ids == UINT32_MAX ? p->slots : p->chosen;
        for (uint64_t r = 0; r < h->n_rows; r++)
            for (uint32_t k = 0; k < vectors; k++) {
                uint32_t matrix = p->ids == UINT32_MAX ? k : 0;
                if (p->ids != UINT32_MAX)
                    memcpy(&matrix, (const uint8_t *)t->stage.mapped + t->values[p->ids].at + (r * p->chosen + k) * 4,
                           sizeof matrix);
                if (matrix >= e->matrices)
                    continue;
                add_squares(x, t->stage.mapped, r * x->row + p->start + (p->slots > 1 ? k * e->cols : 0), e->cols,
                            scratch, e->sums + (size_t)matrix * e->cols);
                e->counts[matrix]++;
            }
    }
    free(scratch);
    return DOP_OK;
}

/* Accumulates the copied values after each step (dop_logits_fn). */
static dop_status
on_rows(void *user, size_t first, size_t n_rows, const float *rows, dop_diag *diag)
{
    collector *c = user;
    harvest h = {c, (uint32_t)n_rows};
    (void)first;
    (void)rows;
    dop_status st = dop_parallel_for(c->made->n, 0, add_entry, &h, diag);
    c->done += n_rows;
    if (c->progress)
        c->progress(c->done, c->all);
    return st;
}

/* --- the text ----------------------------------------------------------------------------------------------------------- */

static dop_status
read_text_windows(collector *c, dop_sequence *sequence, const uint32_t *ids, size_t n, uint32_t window, int32_t bos,
                  dop_diag *diag)
{
    uint32_t *inputs = malloc(window * sizeof *inputs);
    if (!inputs)
        return DOP_NO_MEMORY(diag);
    dop_status st = DOP_OK;
    c->all = n;
    for (size_t at = 0; at < n && st == DOP_OK;) {
        uint32_t k = 0;
        if (at > 0 && bos >= 0 && window > 1)
            inputs[k++] = (uint32_t)bos;
        while (k < window && at < n)
            inputs[k++] = ids[at++];
        st = dop_sequence_rewind(sequence, 0, diag);
        if (st == DOP_OK)
            st = dop_sequence_score(sequence, inputs, k, on_rows, c, diag);
        c->made->chunks++;
    }
    c->made->chunk_size = window;
    free(inputs);
    return st;
}

dop_status
dop_imatrix_make(dop_model *model, dop_sequence *sequence, const uint32_t *ids, size_t n, uint32_t window, int32_t bos,
                 void (*progress)(size_t done, size_t all), dop_diag *diag, dop_imatrix_made *out)
{
    collector c = {.model = model, .made = out, .progress = progress};
    const uint32_t n_schedules = model->plan.n_schedules;
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = model->device.info.queue_family,
    };
    memset(out, 0, sizeof *out);
    dop_arena_init(&c.arena);
    c.of = calloc(n_schedules, sizeof *c.of);
    dop_status st = c.of ? dop_check_graphs(&model->plan, &c.arena, diag, &c.graphs) : DOP_NO_MEMORY(diag);
    const VkResult r = st == DOP_OK ? vkCreateCommandPool(model->device.handle, &pool, NULL, &c.pool) : VK_SUCCESS;
    if (r != VK_SUCCESS)
        st = DOP_VK_FAIL(diag, r, "vkCreateCommandPool");
    c.observer = (dop_replay_observer){&c, give_tapped_commands, on_span, on_span_end};
    if (st == DOP_OK) {
        model->replay.observer = &c.observer;
        st = read_text_windows(&c, sequence, ids, n, window, bos, diag);
        model->replay.observer = NULL;
    }
    if (c.pool && !model->device.hung)
        vkDestroyCommandPool(model->device.handle, c.pool, NULL);
    for (uint32_t i = 0; c.of && i < n_schedules; i++) {
        dop_block_destroy(&model->device, &c.of[i].stage);
        free(c.of[i].values);
        free(c.of[i].products);
    }
    free(c.of);
    dop_arena_finish(&c.arena);
    return st;
}

void
dop_imatrix_made_finish(dop_imatrix_made *made)
{
    for (uint32_t i = 0; i < made->n; i++) {
        free(made->entries[i].sums);
        free(made->entries[i].counts);
    }
    free(made->entries);
    memset(made, 0, sizeof *made);
}
