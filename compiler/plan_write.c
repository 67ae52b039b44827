#include "compiler/plan_write.h"
#include "compiler/region_facts.h"

#include "compiler/persistent.h"
#include "compiler/plan_file.h"
#include "ir/text.h"
#include "kernels/weight_types.h"
#include "passes/region.h"
#include "runtime/gguf.h"
#include "runtime/text/tokenizer.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MERGES_STRIDE = 512 /* bytes: a region's counts, of 128 heads at most, have cache lines of their own */ };
enum { STATE_SEGMENT = 1 << 30, STATE_ALIGN = 256, STATE_TAIL = 32 /* rows */ };

typedef struct state_place {
    const char *name;
    uint32_t slot;
    uint64_t offset, size;
    dop_plan_state row; /* without the slot */
} state_place;

/* What is a target's own: its buffers, and where its kernels stand in the table of all. */
typedef struct target_rows {
    const dop_compilation *c;
    uint32_t slot_scratch, slot_merges, slot_mailbox, slot_table;
    state_place *states;
    uint32_t n_states;
    uint32_t *kernels; /* [c->kernels.n] row of DOP_SEC_KERNELS */
} target_rows;

typedef struct writer {
    dop_diag *diag;
    dop_status status;
    dop_plan_parts parts;
    dop_lookup strings; /* offsets of those in the table */
    uint32_t n_slots, slot_step, slot_result, slot_weights, n_kernels;
    uint32_t n_targets;
    target_rows targets[DOP_MAX_TARGETS];
} writer;

static void
no_memory(writer *w)
{
    w->status = DOP_FAIL(w->diag, DOP_E_NOMEM, "out of memory");
}

/* Offset of a string in the table; equal strings share one. */
static uint32_t
string(writer *w, const char *s)
{
    dop_buf *b = &w->parts.sec[DOP_SEC_STRINGS];
    size_t len = strlen(s) + 1;
    if (b->size == 0)
        dop_buf_append(b, "", 1);
    if (len == 1)
        return 0;
    uint32_t at, cursor = 0, hash = dop_lookup_hash(s);
    while (dop_lookup_next(&w->strings, hash, &cursor, &at))
        if (!b->failed && strcmp(b->data + at, s) == 0)
            return at;
    at = (uint32_t)b->size;
    dop_buf_append(b, s, len);
    if (!dop_lookup_add(&w->strings, hash, at))
        no_memory(w);
    return at;
}

static uint32_t
add_slot(writer *w, uint32_t kind, const char *name, uint64_t size, uint64_t file_offset)
{
    dop_plan_slot s = {.kind = kind,
                       .name = string(w, name),
                       .size = size,
                       .file_offset = file_offset,
                       .file = kind == DOP_SLOT_WEIGHTS && w->parts.external ? 0 : 0xffffffffu};
    dop_buf_append(&w->parts.sec[DOP_SEC_SLOTS], &s, sizeof s);
    return w->n_slots++;
}

static void
write_weights_slots(writer *w)
{
    const dop_pack *p = w->parts.pack;
    uint64_t at = 0;
    w->slot_weights = w->n_slots;
    for (uint32_t i = 0; i < p->n_segments; i++) {
        add_slot(w, DOP_SLOT_WEIGHTS, "weights", p->segment_size[i], at);
        at += p->segment_size[i];
    }
    w->parts.weights_size = at;
    for (uint32_t i = 0; i < p->n; i++) {
        const dop_packed *x = &p->items[i];
        dop_plan_tensor t = {.name = string(w, x->name),
                             .type = x->type,
                             .rows = x->rows,
                             .cols = x->cols,
                             .experts = x->experts,
                             .slot = w->slot_weights + x->segment,
                             .offset = x->offset,
                             .size = x->size - (x->experts - 1) * x->expert_stride,
                             .expert_stride = x->expert_stride};
        dop_buf_append(&w->parts.sec[DOP_SEC_TENSORS], &t, sizeof t);
    }
}

static uint32_t
add_state_slot(writer *w, uint32_t kind, uint64_t size, uint32_t rows)
{
    dop_plan_slot s = {.kind = DOP_SLOT_STATE,
                       .name = string(w, kind == DOP_PLAN_STATE_APPEND ? "cache" : "state"),
                       .size = size,
                       .file = 0xffffffffu,
                       .state = kind,
                       .rows = rows};
    dop_buf_append(&w->parts.sec[DOP_SEC_SLOTS], &s, sizeof s);
    return w->n_slots++;
}

/* Pages of the pool. */
static uint32_t
pool_pages(const dop_compilation *c)
{
    const dop_graph *g = &c->schedules[0].g;
    const uint32_t page = dop_graph_page(g);
    return !page ? 0 : c->options.ctx_total ? dop_div_up_u32(c->options.ctx_total, page) : g->max_q * (g->max_s / page);
}

/* Does the state lie in pages? */
static bool
is_paged(const dop_graph *g, dop_node_id state)
{
    return dop_graph_page(g) && dop_shape_appends(&dop_node_at(g, state)->shape) && !dop_cache_ring(g, state);
}

/* Rows of append state, of all sequences. */
static uint32_t
state_rows(const dop_compilation *c, dop_node_id state)
{
    const dop_graph *g = &c->schedules[0].g;
    const dop_shape *s = &dop_node_at(g, state)->shape;
    if (is_paged(g, state))
        return pool_pages(c) * dop_graph_page(g);
    return (uint32_t)(dop_dim_value(g, s->dim[0], 1) * dop_dim_value(g, s->dim[1], 1));
}

/* The step record and the tables of pages behind it. */
static uint64_t
step_bytes(const dop_compilation *c)
{
    const dop_graph *g = &c->schedules[0].g;
    const uint32_t page = dop_graph_page(g);
    _Static_assert(sizeof(dop_step) == DOP_STEP_WORDS * sizeof(uint32_t), "kernels know where the tables are");
    return sizeof(dop_step) + (page ? (uint64_t)g->max_q * (g->max_s / page) * sizeof(uint32_t) : 0);
}

/* The states of one kind, behind the n that have their places already. */
static uint32_t
write_states_of(writer *w, target_rows *t, uint32_t kind, uint32_t n)
{
    const dop_graph *g = &t->c->schedules[0].g;
    uint64_t used = 0;
    uint32_t from = n, fewest = 0;
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        bool appends = dop_shape_appends(&dop_node_at(g, id)->shape);
        if (dop_node_at(g, id)->op != DOP_OP_state || appends != (kind == DOP_PLAN_STATE_APPEND))
            continue;
        /* Kernels read caches in tiles: what lies past the last row must be memory, and zero. */
        const bool paged = is_paged(g, id);
        const uint32_t all = appends ? state_rows(t->c, id) : 0;
        uint64_t bytes = dop_node_bytes(g, id);
        uint32_t rows = appends ? (uint32_t)dop_dim_value(g, dop_node_at(g, id)->shape.dim[1], g->max_t) : 1;
        uint64_t row_bytes = bytes / g->max_q / rows;
        if (paged)
            bytes = row_bytes * all;
        uint64_t size = dop_align_u64(appends ? bytes + row_bytes * STATE_TAIL : 2 * bytes, STATE_ALIGN);
        if (used > 0 && used + size > STATE_SEGMENT) {
            uint32_t slot = add_state_slot(w, kind, used, fewest);
            for (; from < n; from++)
                t->states[from].slot = slot;
            used = fewest = 0;
        }
        fewest = used == 0 || all < fewest ? all : fewest;
        dop_plan_state row = {.name = string(w, dop_node_s(g, id, DOP_A_name)),
                              .rows = rows,
                              .offset = used,
                              .row_bytes = row_bytes,
                              .paged = paged,
                              .sequence_stride = paged ? 0 : bytes / g->max_q,
                              .copy_stride = appends ? 0 : bytes};
        t->states[n++] = (state_place){dop_node_s(g, id, DOP_A_name), 0, used, size, row};
        used += size;
    }
    if (used > 0) {
        uint32_t slot = add_state_slot(w, kind, used, fewest);
        for (; from < n; from++)
            t->states[from].slot = slot;
    }
    return n;
}

/* States of all schedules of a target are the same: the first graph lists them. */
static void
write_state_slots(writer *w, target_rows *t)
{
    t->states = calloc(t->c->schedules[0].g.n_nodes, sizeof *t->states);
    if (!t->states) {
        no_memory(w);
        return;
    }
    t->n_states = write_states_of(w, t, DOP_PLAN_STATE_APPEND, 0);
    t->n_states = write_states_of(w, t, DOP_PLAN_STATE_REPLACE, t->n_states);
    for (uint32_t i = 0; i < t->n_states; i++) {
        t->states[i].row.slot = t->states[i].slot;
        dop_buf_append(&w->parts.sec[DOP_SEC_STATES], &t->states[i].row, sizeof t->states[i].row);
    }
}

/* Regions of the largest schedule that merges splits of attention; 0: none does. */
static uint32_t
count_merges(const dop_compilation *c)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < c->n_schedules; i++) {
        const dop_schedule *s = &c->schedules[i];
        bool used = false;
        for (dop_region_id r = 1; r < s->g.n_regions && !used; r++)
            for (uint32_t k = 0; k < s->regions[r].n_args; k++)
                used = used || s->regions[r].args[k].kind == DOP_ARG_MERGES;
        if (used && s->g.n_regions > most)
            most = s->g.n_regions;
    }
    return most;
}

/* Buffers of one target.  The runtime makes those of the target it takes, and no others. */
static void
write_target_slots(writer *w, target_rows *t)
{
    uint64_t scratch = 256;
    for (uint32_t i = 0; i < t->c->n_schedules; i++)
        if (t->c->schedules[i].placement.scratch > scratch)
            scratch = t->c->schedules[i].placement.scratch;
    t->slot_scratch = add_slot(w, DOP_SLOT_SCRATCH, "activations", scratch + 256, 0);
    uint32_t merges = count_merges(t->c);
    if (merges)
        t->slot_merges = add_slot(w, DOP_SLOT_MERGES, "merges", (uint64_t)merges * MERGES_STRIDE, 0);
    for (uint32_t i = 0; i < t->c->n_schedules; i++) {
        const dop_persistent *p = t->c->schedules[i].persistent;
        if (p) {
            t->slot_mailbox = add_slot(w, DOP_SLOT_MAILBOX, "mailboxes", 2 * p->copy_bytes, 0);
            t->slot_table = add_slot(w, DOP_SLOT_TABLE, "stages", p->table, 0);
        }
    }
    write_state_slots(w, t);
}

static void
write_slots(writer *w)
{
    uint64_t result = 4;
    for (uint32_t t = 0; t < w->n_targets; t++)
        for (uint32_t i = 0; i < w->targets[t].c->n_schedules; i++) {
            const dop_graph *g = &w->targets[t].c->schedules[i].g;
            uint64_t bytes = dop_align_u64(dop_node_bytes(g, dop_node_base(g, g->outs[0], NULL)), 256);
            result = bytes > result ? bytes : result;
        }
    w->slot_step = add_slot(w, DOP_SLOT_STEP, "step", step_bytes(w->targets[0].c), 0);
    w->slot_result = add_slot(w, DOP_SLOT_RESULT, "logits", result, 0);
    for (uint32_t t = 0; t < w->n_targets; t++)
        write_target_slots(w, &w->targets[t]);
    write_weights_slots(w);
}

static dop_plan_arg
arg_of(writer *w, const target_rows *t, const dop_schedule *s, dop_region_id r, const dop_kernel_arg *a)
{
    const dop_graph *g = &s->g;
    if (a->kind == DOP_ARG_TABLE)
        return (dop_plan_arg){.slot = t->slot_table, .size = s->persistent->table};
    if (a->mailbox) /* of both copies: they are copy_bytes apart */
        return (dop_plan_arg){.slot = t->slot_mailbox,
                              .value = string(w, dop_node_at(g, a->value)->name),
                              .offset = s->persistent->mailbox[a->value],
                              .size = s->persistent->copy_bytes + s->persistent->mailbox_bytes[a->value]};
    if (a->kind == DOP_ARG_MERGES)
        return (dop_plan_arg){.slot = t->slot_merges, .offset = r * MERGES_STRIDE, .size = MERGES_STRIDE};
    if (a->numbers)
        return (dop_plan_arg){.slot = DOP_ARG_NUMBERS, .offset = a->number[0] | (uint64_t)a->number[1] << 32};
    if (a->value == 0)
        return (dop_plan_arg){.slot = w->slot_step, .value = 0, .offset = 0, .size = step_bytes(t->c)};
    const dop_node *n = dop_node_at(g, a->value);
    dop_plan_arg out = {.value = string(w, n->name)};
    if (n->op == DOP_OP_weight) {
        const dop_packed *x = dop_pack_find(w->parts.pack, dop_node_s(g, a->value, DOP_A_name));
        out.slot = w->slot_weights + x->segment;
        out.offset = x->offset;
        out.size = x->size;
    } else if (n->op == DOP_OP_state) {
        for (uint32_t i = 0; i < t->n_states; i++)
            if (strcmp(t->states[i].name, dop_node_s(g, a->value, DOP_A_name)) == 0) {
                out.slot = t->states[i].slot;
                out.offset = t->states[i].offset;
                out.size = t->states[i].size;
            }
    } else if (s->placement.values[a->value].size > 0) {
        out.slot = t->slot_scratch;
        out.offset = s->placement.values[a->value].offset;
        out.size = s->placement.values[a->value].size;
    } else if (a->value == dop_node_base(g, g->outs[0], NULL)) {
        out.slot = w->slot_result;
        out.size = dop_node_bytes(g, a->value);
    } else {
        w->status = DOP_FAIL(w->diag, DOP_E_INTERNAL, "value %%%s has no place", n->name);
    }
    return out;
}

static const dop_stage_form no_stage = {0};

static void
write_dispatch(writer *w, const target_rows *t, const dop_schedule *s, dop_region_id r, const dop_built_region *b,
               uint32_t flags, const dop_stage_form *f)
{
    const dop_region *reg = &s->g.regions[r];
    dop_buf ops = {0};
    dop_region_ops(&s->g, reg, &ops);
    dop_plan_dispatch d = {.kernel = t->kernels[b->kernel],
                           .grid = {b->grid[0], b->grid[1], b->grid[2]},
                           .first_arg = (uint32_t)(w->parts.sec[DOP_SEC_ARGS].size / sizeof(dop_plan_arg)),
                           .n_args = b->n_args,
                           .flags = flags,
                           .label = string(w, dop_region_label(&s->g, reg)),
                           .ops = string(w, ops.data ? ops.data : ""),
                           .region = r,
                           .short_positions = f->short_positions,
                           .short_function = f->short_function,
                           .short_groups = f->short_groups,
                           .short_splits = f->short_splits};
    dop_region_traffic(&s->g, reg, 0, &d.bytes_read, &d.bytes_written);
    for (uint32_t i = 0; i < b->n_args; i++) {
        dop_plan_arg a = arg_of(w, t, s, r, &b->args[i]);
        dop_buf_append(&w->parts.sec[DOP_SEC_ARGS], &a, sizeof a);
    }
    dop_buf_append(&w->parts.sec[DOP_SEC_DISPATCHES], &d, sizeof d);
    dop_buf_finish(&ops);
}

static const uint32_t kinds[] = {DOP_SCHED_DECODE, DOP_SCHED_PREFILL, DOP_SCHED_SCORE};

static uint32_t
n_dispatches(const writer *w)
{
    return (uint32_t)(w->parts.sec[DOP_SEC_DISPATCHES].size / sizeof(dop_plan_dispatch));
}

static void
write_schedule(writer *w, const target_rows *t, const dop_schedule *s)
{
    dop_plan_schedule row = {.kind = s->mixed    ? DOP_SCHED_ROWS
                                     : s->embeds ? DOP_SCHED_EMBED
                                                 : kinds[s->phase],
                             .profile = (uint32_t)(t - w->targets),
                             .max_rows = s->g.max_t,
                             .first_dispatch = n_dispatches(w),
                             .n_dispatches = s->g.n_regions - 1,
                             .n_body = s->n_body,
                             .logits_slot = w->slot_result,
                             .greedy = s->mixed                      ? DOP_PICKS_EACH
                                       : s->phase != DOP_PHASE_SCORE ? DOP_PICKS_NEXT
                                                                     : DOP_PICKS_NONE,
                             .logits_offset = 0,
                             .ordering = DOP_ORDER_BARRIERS};
    for (dop_region_id r = 1; r < s->g.n_regions; r++)
        write_dispatch(w, t, s, r, &s->regions[r], s->placement.barrier[r] ? DOP_DISPATCH_BARRIER : 0u, &no_stage);
    dop_buf_append(&w->parts.sec[DOP_SEC_SCHEDULES], &row, sizeof row);
    dop_graph_print(&s->g,
                    &w->parts.sec[DOP_SEC_IR]); /* one graph per schedule, also where only the ordering differs */
}

/* The dispatch of all stages, the dispatches after it, then the stages' rows. */
static void
write_persistent(writer *w, const target_rows *t, const dop_schedule *s)
{
    const dop_persistent *p = s->persistent;
    dop_built_region whole = {.kernel = p->kernel, .grid = {p->groups, 1, 1}, .n_args = 3};
    memcpy(whole.args, t->c->kernels.items[p->kernel].k.args, sizeof whole.args);
    dop_plan_schedule row = {.kind = kinds[s->phase],
                             .profile = (uint32_t)(t - w->targets),
                             .max_rows = s->g.max_t,
                             .first_dispatch = n_dispatches(w),
                             .n_dispatches = s->g.n_regions - p->n_stages,
                             .n_body = s->g.n_regions - p->n_stages,
                             .logits_slot = w->slot_result,
                             .greedy = DOP_PICKS_NEXT,
                             .ordering = DOP_ORDER_PERSISTENT,
                             .n_stages = p->n_stages,
                             .table_slot = t->slot_table};
    write_dispatch(w, t, s, 1, &whole, 0, &no_stage);
    dop_plan_dispatch *all = (dop_plan_dispatch *)(void *)w->parts.sec[DOP_SEC_DISPATCHES].data + row.first_dispatch;
    if (w->parts.sec[DOP_SEC_DISPATCHES].failed)
        return;
    all->label = string(w, "stages");
    all->ops = string(w, "");
    for (dop_region_id r = 2; r <= p->n_stages; r++) {
        uint64_t reads, writes;
        dop_region_traffic(&s->g, &s->g.regions[r], 0, &reads, &writes);
        all->bytes_read += reads;
        all->bytes_written += writes;
    }
    for (dop_region_id r = p->n_stages + 1; r < s->g.n_regions; r++)
        write_dispatch(w, t, s, r, &p->regions[r],
                       s->placement.barrier[r] || r == p->n_stages + 1 ? DOP_DISPATCH_BARRIER : 0u, &no_stage);
    row.first_stage = n_dispatches(w);
    for (dop_region_id r = 1; r <= p->n_stages; r++) {
        dop_built_region stage = p->regions[r];
        stage.kernel = p->kernel;
        write_dispatch(w, t, s, r, &stage, p->forms[r].function, &p->forms[r]);
    }
    dop_buf_append(&w->parts.sec[DOP_SEC_SCHEDULES], &row, sizeof row);
    dop_graph_print(&s->g, &w->parts.sec[DOP_SEC_IR]);
}

static void
write_schedules(writer *w)
{
    for (uint32_t k = 0; k < w->n_targets; k++) {
        const target_rows *t = &w->targets[k];
        for (uint32_t i = 0; i < t->c->n_schedules && w->status == DOP_OK; i++) {
            write_schedule(w, t, &t->c->schedules[i]);
            if (t->c->schedules[i].persistent)
                write_persistent(w, t, &t->c->schedules[i]);
        }
    }
}

static void
kernel_name(const target_rows *t, uint32_t kernel, char *out, size_t size)
{
    const dop_built_kernel *k = &t->c->kernels.items[kernel];
    snprintf(out, size, "%s/%s#%u", dop_variant_of(k->k.variant)->name, k->label, t->kernels[kernel]);
}

/* Why each kernel was taken, by its name: the reason of the first region that uses it.  For --trace-kernels. */
static json_t *
choices_json(const writer *w)
{
    json_t *choices = json_object();
    for (uint32_t k = 0; k < w->n_targets; k++) {
        const dop_compilation *c = w->targets[k].c;
        for (uint32_t i = 0; i < c->n_schedules; i++)
            for (dop_region_id r = 1; r < c->schedules[i].g.n_regions; r++) {
                const dop_built_region *b = &c->schedules[i].regions[r];
                char name[160];
                kernel_name(&w->targets[k], b->kernel, name, sizeof name);
                if (!b->choice.why[0] || json_object_get(choices, name))
                    continue;
                if (json_object_set_new(choices, name, json_string(b->choice.why)) != 0) {
                    json_decref(choices);
                    return NULL;
                }
            }
    }
    return choices;
}

/* The same module for the same needs, made for a target before; UINT32_MAX: none. */
static uint32_t
find_kernel(const writer *w, const dop_built_kernel *k)
{
    const dop_buf *rows = &w->parts.sec[DOP_SEC_KERNELS], *words = &w->parts.sec[DOP_SEC_SPIRV];
    for (uint32_t i = 0; i < w->n_kernels; i++) {
        const dop_plan_kernel *row = (const dop_plan_kernel *)(const void *)rows->data + i;
        if (row->spirv_words == k->spirv.size / 4 && row->caps == k->k.caps && row->subgroup == k->k.subgroup &&
            row->local[0] == k->k.local &&
            memcmp(words->data + (size_t)row->spirv_first * 4, k->spirv.data, k->spirv.size) == 0)
            return i;
    }
    return UINT32_MAX;
}

static void
write_kernel(writer *w, target_rows *t, uint32_t i)
{
    const dop_built_kernel *k = &t->c->kernels.items[i];
    char name[160];
    uint32_t before = w->n_targets > 1 ? find_kernel(w, k) : UINT32_MAX;
    t->kernels[i] = before == UINT32_MAX ? w->n_kernels++ : before;
    if (before != UINT32_MAX)
        return;
    kernel_name(t, i, name, sizeof name);
    dop_plan_kernel row = {.name = string(w, name),
                           .variant = string(w, dop_variant_of(k->k.variant)->name),
                           .spirv_first = (uint32_t)(w->parts.sec[DOP_SEC_SPIRV].size / 4),
                           .spirv_words = (uint32_t)(k->spirv.size / 4),
                           .caps = k->k.caps,
                           .subgroup = k->k.subgroup,
                           .local = {k->k.local, 1, 1},
                           .shared_bytes = k->shared_bytes,
                           .push_bytes = 8 * k->k.n_args,
                           .rounding = k->k.rounding};
    dop_buf_append(&w->parts.sec[DOP_SEC_KERNELS], &row, sizeof row);
    dop_buf_append(&w->parts.sec[DOP_SEC_SPIRV], k->spirv.data, k->spirv.size);
    if (w->parts.sec[DOP_SEC_KERNELS].failed || w->parts.sec[DOP_SEC_SPIRV].failed)
        no_memory(w);
}

/* The kernels of a target, and its row: what they need at most. */
static void
write_target(writer *w, target_rows *t)
{
    const dop_compilation *c = t->c;
    dop_plan_profile profile = {.name = string(w, c->target.name), .subgroup = 0};
    t->kernels = calloc(c->kernels.n ? c->kernels.n : 1, sizeof *t->kernels);
    if (!t->kernels)
        no_memory(w);
    for (uint32_t i = 0; i < c->kernels.n && w->status == DOP_OK; i++) {
        const dop_built_kernel *k = &c->kernels.items[i];
        if (k->dropped)
            continue;
        write_kernel(w, t, i);
        profile.caps |= k->k.caps;
        profile.subgroup = k->k.subgroup ? k->k.subgroup : profile.subgroup;
        profile.shared_bytes = k->shared_bytes > profile.shared_bytes ? k->shared_bytes : profile.shared_bytes;
        profile.max_workgroup = k->k.local > profile.max_workgroup ? k->k.local : profile.max_workgroup;
    }
    profile.matrix = profile.caps & DOP_CAP_coop ? c->target.matrix : 0;
    dop_buf_append(&w->parts.sec[DOP_SEC_PROFILES], &profile, sizeof profile);
}

/* Storage types of the matrices, the one with most bytes first: "q4_k, q6_k". */
static void
weight_types(const dop_pack *p, dop_buf *out)
{
    uint64_t bytes[DOP_TYPE_COUNT] = {0};
    for (uint32_t i = 0; i < p->n; i++)
        if (p->items[i].source && p->items[i].source->rank > 1)
            bytes[p->items[i].type] += p->items[i].size;
    for (;;) {
        uint32_t most = 0;
        for (uint32_t t = 1; t < DOP_TYPE_COUNT; t++)
            most = bytes[t] > bytes[most] ? t : most;
        if (bytes[most] == 0)
            return;
        dop_buf_printf(out, "%s%s", out->size ? ", " : "", dop_type_of((dop_type)most)->name);
        bytes[most] = 0;
    }
}

/* What each target's schedules were made with.  NULL: out of memory, as in choices_json. */
static json_t *
targets_json(const writer *w)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < w->n_targets; i++) {
        const dop_compilation *c = w->targets[i].c;
        const dop_schedule *d = &c->schedules[0];
        const char *k = dop_type_of(c->options.kv_type)->name, *v = dop_type_of(c->options.v_type)->name;
        json_t *row = json_pack("{s:s, s:o, s:s, s:i, s:i, s:i}", "name", c->target.name, "kvType",
                                k == v ? json_string(k) : json_sprintf("k=%s,v=%s", k, v), "activationType",
                                dop_type_of(c->options.act_type)->name, "decodeDispatches", (int)(d->g.n_regions - 1),
                                "decodeOps", (int)d->n_ops, "decodeBarriers", (int)d->placement.n_barriers);
        if (json_array_append_new(list, row) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int
append_json(const char *text, size_t size, void *user)
{
    dop_buf *out = user;
    dop_buf_append(out, text, size);
    return out->failed ? -1 : 0;
}

/* See dop_plan_model. */
static uint32_t
rewind_of(const writer *w)
{
    uint32_t least = DOP_PLAN_NO_RINGS;
    for (uint32_t i = 0; i < w->n_targets; i++) {
        const dop_graph *g = &w->targets[i].c->schedules[0].g;
        for (dop_node_id id = 1; id < g->n_nodes; id++) {
            if (dop_op_of(dop_node_at(g, id)->op)->root != DOP_ROOT_attention)
                continue;
            const dop_reach r = dop_attention_reach(g, id);
            uint32_t sees = r.chunk && (!r.window || r.chunk < r.window) ? r.chunk : r.window;
            if (r.ring && r.ring - sees < least)
                least = r.ring - sees;
        }
    }
    return least;
}

static void
write_model(writer *w)
{
    const dop_compilation *c = w->targets[0].c;
    const dop_arch *a = &c->model.arch;
    dop_buf types = {0};
    weight_types(w->parts.pack, &types);
    dop_plan_model m = {.vocab = a->vocab,
                        .ctx = c->ctx,
                        .ctx_train = a->ctx_train,
                        .hidden = a->hidden,
                        .rewind = rewind_of(w),
                        .n_layers = a->n_layers,
                        .n_sequences = c->schedules[0].g.max_q,
                        .page = dop_graph_page(&c->schedules[0].g),
                        .n_pages = pool_pages(c),
                        .bos_id = (int32_t)a->bos_id,
                        .n_end_ids = a->n_end_ids,
                        .temperature = (float)c->model.temperature,
                        .top_p = (float)c->model.top_p,
                        .min_p = (float)c->model.min_p,
                        .top_k = c->model.top_k,
                        .name = string(w, c->model.name ? c->model.name : ""),
                        .family = string(w, a->family),
                        .quant = string(w, types.data ? types.data : ""),
                        .kernel_path = c->path_name ? string(w, c->path_name) : 0};
    for (uint32_t i = 0; i < a->n_end_ids && i < 16; i++)
        m.end_ids[i] = (uint32_t)a->end_ids[i];
    if (types.failed)
        no_memory(w);
    dop_buf_finish(&types);
    dop_buf_append(&w->parts.sec[DOP_SEC_MODEL], &m, sizeof m);
    json_t *card =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:i, s:o, s:o}", "name", c->model.name ? c->model.name : "", "family",
                  a->family, "layers", (int)a->n_layers, "hidden", (int)a->hidden, "vocab", (int)a->vocab, "context",
                  (int)c->ctx, "targets", targets_json(w), "choices", choices_json(w));
    /* json_dumps of Jansson 2.14 may leave out a key when memory runs out; a buffer of ours remembers that it did. */
    if (!card || json_dump_callback(card, append_json, &w->parts.sec[DOP_SEC_CARD], JSON_SORT_KEYS | JSON_INDENT(2)))
        no_memory(w);
    json_decref(card);
}

static void
write_text(writer *w)
{
    const dop_checkpoint *m = &w->targets[0].c->model;
    dop_tokenizer *tok = NULL;
    dop_status st = DOP_OK;
    if (m->tokenizer_json_path) {
        char dir[1024];
        snprintf(dir, sizeof dir, "%s", m->tokenizer_json_path);
        char *slash = strrchr(dir, '/');
        if (slash)
            *slash = 0;
        else
            snprintf(dir, sizeof dir, ".");
        st = dop_tokenizer_from_hf_dir(dir, w->diag, &tok);
    } else if (m->tokenizer_gguf_path) {
        dop_gguf gguf = {0};
        st = dop_gguf_open(m->tokenizer_gguf_path, w->diag, &gguf);
        if (st == DOP_OK)
            st = dop_tokenizer_from_gguf(&gguf, w->diag, &tok);
        dop_gguf_close(&gguf);
    }
    if (st == DOP_OK && tok && dop_tokenizer_serialize(tok, &w->parts.sec[DOP_SEC_TOKENIZER]) != DOP_OK)
        no_memory(w);
    if (st == DOP_OK && m->chat_template)
        dop_buf_puts(&w->parts.sec[DOP_SEC_TEMPLATE], m->chat_template);
    if (st != DOP_OK)
        w->status = st;
    dop_tokenizer_destroy(tok);
}

/* --- all of it -------------------------------------------------------------------------------------------------------- */

static void
finish(writer *w)
{
    for (uint32_t i = 0; i < w->n_targets; i++) {
        free(w->targets[i].states);
        free(w->targets[i].kernels);
    }
    dop_lookup_finish(&w->strings);
    dop_plan_parts_finish(&w->parts);
}

/* weights: file name of external weights, NULL: they are part of the plan. */
static dop_status
write_rows(writer *w, const dop_compilation *list, uint32_t n, const char *weights, dop_diag *diag)
{
    const uint64_t failures = dop_buf_failures();
    *w = (writer){.diag = diag, .n_targets = n};
    w->parts.external = weights != NULL;
    w->parts.pack = &list[0].pack;
    w->parts.progress = list[0].options.progress;
    w->parts.user = list[0].options.user;
    for (uint32_t i = 0; i < n; i++)
        w->targets[i].c = &list[i];
    string(w, "");
    write_slots(w);
    for (uint32_t i = 0; i < n && w->status == DOP_OK; i++)
        write_target(w, &w->targets[i]);
    if (w->status == DOP_OK)
        write_schedules(w);
    if (w->status == DOP_OK)
        write_model(w);
    if (w->status == DOP_OK)
        write_text(w);
    if (weights) /* its size and digest follow when it is written */
        dop_buf_append(&w->parts.sec[DOP_SEC_FILES], &(dop_plan_file){.name = string(w, weights)},
                       sizeof(dop_plan_file));
    if (w->status == DOP_OK && dop_buf_failures() != failures)
        no_memory(w);
    return w->status;
}

dop_status
dop_plan_write(const dop_compilation *list, uint32_t n, const char *path, bool external_weights, dop_diag *diag)
{
    writer w = {.n_targets = 0};
    char *weights = NULL;
    const char *slash = strrchr(path, '/');
    if (external_weights && asprintf(&weights, "%s.weights", slash ? slash + 1 : path) < 0)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    dop_status st = write_rows(&w, list, n, weights, diag);
    if (st == DOP_OK)
        st = dop_plan_parts_write(&w.parts, path, diag);
    finish(&w);
    free(weights);
    return st;
}

dop_status
dop_plan_listing(const dop_compilation *list, uint32_t n, dop_diag *diag, dop_buf *out)
{
    writer w;
    dop_plan plan = {0};
    dop_plan_image image = {0};
    dop_status st = write_rows(&w, list, n, NULL, diag);
    if (st == DOP_OK)
        st = dop_plan_parts_image(&w.parts, diag, &image);
    if (st == DOP_OK)
        st = dop_plan_open_memory(image.bytes, image.size, diag, &plan);
    if (st == DOP_OK)
        dop_plan_disasm(&plan, out);
    dop_plan_image_finish(&image);
    finish(&w);
    return st;
}
