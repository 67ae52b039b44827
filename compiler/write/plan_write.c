#include "compiler/schedule/region_facts.h"
#include "compiler/write/plan_writer.h"
#include "ir/graph/dims.h"
#include "plan/disasm.h"

#include "base/os/system.h"
#include "compiler/schedule/persistent.h"
#include "ir/syntax/text.h"
#include "kernels/emit/weight_types.h"
#include "passes/fusion/region.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNTS_STRIDE = DOP_COUNTS_MOST * 4 /* bytes of a region's counters, which share no cache line with others */ };
enum { STATE_SEGMENT = 1 << 30, STATE_ALIGN = 256, STATE_TAIL = 32 /* spare rows after a cache, for reads in tiles */ };

static uint32_t
add_slot(dop_plan_writer *w, uint32_t kind, const char *name, uint64_t size, uint64_t file_offset)
{
    dop_plan_slot s = {.kind = kind,
                       .name = dop_plan_writer_string(w, name),
                       .size = size,
                       .file_offset = file_offset,
                       .file = kind == DOP_SLOT_WEIGHTS && w->sections.external ? 0 : 0xffffffffu};
    dop_buf_append(&w->sections.sec[DOP_SEC_SLOTS], &s, sizeof s);
    return w->n_slots++;
}

static void
write_weights_slots(dop_plan_writer *w)
{
    const dop_pack *p = w->sections.pack;
    uint64_t at = 0, *shared = calloc(p->n_segments + 1u, sizeof *shared);
    w->slot_weights = w->n_slots;
    if (!shared) {
        dop_plan_writer_no_memory(w);
        return;
    }
    if (w->sections.refers)
        dop_plan_writer_ranges(w, shared);
    for (uint32_t i = 0; i < p->n_segments; i++) {
        add_slot(w, DOP_SLOT_WEIGHTS, "weights", p->segment_size[i], at);
        at += p->segment_size[i] - shared[i];
    }
    free(shared);
    w->sections.weights_size = at;
    for (uint32_t i = 0; i < p->n; i++) {
        const dop_packed *x = &p->items[i];
        dop_plan_tensor t = {.name = dop_plan_writer_string(w, x->name),
                             .type = x->type,
                             .rows = x->rows,
                             .cols = x->cols,
                             .experts = x->experts,
                             .slot = w->slot_weights + x->segment,
                             .offset = x->offset,
                             .size = dop_pack_matrix_bytes(x),
                             .expert_stride = x->expert_stride,
                             .gguf = dop_plan_writer_string(w, x->source && x->source->gguf ? x->source->gguf : "")};
        dop_buf_append(&w->sections.sec[DOP_SEC_TENSORS], &t, sizeof t);
    }
}

static uint32_t
add_state_slot(dop_plan_writer *w, uint32_t kind, uint64_t size, uint32_t rows)
{
    dop_plan_slot s = {.kind = DOP_SLOT_STATE,
                       .name = dop_plan_writer_string(w, kind == DOP_PLAN_STATE_APPEND ? "cache" : "state"),
                       .size = size,
                       .file = 0xffffffffu,
                       .state = kind,
                       .rows = rows};
    dop_buf_append(&w->sections.sec[DOP_SEC_SLOTS], &s, sizeof s);
    return w->n_slots++;
}

/* True if the state is kept in pages: a cache that is not a ring buffer, in a plan with pages. */
static bool
is_paged_state(const dop_graph *g, dop_node_id state)
{
    return dop_graph_page(g) && dop_shape_appends(&dop_node_at(g, state)->shape) && !dop_cache_ring(g, state);
}

/* Returns the number of rows of an append state for all sequences together. */
static uint32_t
state_rows(const dop_compilation *c, const dop_graph *g, dop_node_id state)
{
    const dop_shape *s = &dop_node_at(g, state)->shape;
    if (is_paged_state(g, state))
        return dop_plan_writer_pages(c) * dop_graph_page(g);
    return (uint32_t)(dop_dim_value(g, s->dim[0], 1) * dop_dim_value(g, s->dim[1], 1));
}

/* Returns the bytes of the step record, including the data after it for each sequence: page table, vocabulary mask and
 * sampling parameters. */
static uint64_t
step_bytes(const dop_compilation *c)
{
    const dop_graph *g = &c->schedules[0].g;
    const uint32_t page = dop_graph_page(g);
    const uint64_t words = (page ? g->max_s / page : 0) + (uint64_t)dop_div_up_u32(c->model.arch.vocab, 32);
    return sizeof(dop_step) + g->max_q * (words * sizeof(uint32_t) + sizeof(dop_row_way));
}

/* True if a state with this name is already placed. Programs that read other programs' states use equal names. */
static bool
is_placed(const dop_target_rows *t, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(t->states[i].name, name) == 0)
            return true;
    return false;
}

/* Places the states of one kind of a graph in slots. Appends them to the n entries of t->states, and returns the new
 * number of states. */
static uint32_t
write_states_of(dop_plan_writer *w, dop_target_rows *t, const dop_graph *g, uint32_t kind, uint32_t n)
{
    uint64_t used = 0;
    uint32_t from = n, fewest = 0;
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        bool appends = dop_shape_appends(&dop_node_at(g, id)->shape);
        if (dop_node_at(g, id)->op != DOP_OP_state || appends != (kind == DOP_PLAN_STATE_APPEND) ||
            is_placed(t, n, dop_node_s(g, id, DOP_A_name)))
            continue;
        /* Kernels read caches in tiles, so STATE_TAIL more rows after the last one must be allocated and zero. */
        const bool paged = is_paged_state(g, id);
        const uint32_t all = appends ? state_rows(t->c, g, id) : 0;
        uint64_t bytes = dop_node_bytes(g, id);
        uint32_t rows = appends ? (uint32_t)dop_dim_value(g, dop_node_at(g, id)->shape.dim[1], g->max_t) : 1;
        uint64_t row_bytes = bytes / g->max_q / rows;
        if (paged)
            bytes = row_bytes * all;
        uint64_t size = dop_align_u64(appends ? bytes + row_bytes * STATE_TAIL : g->copies * bytes, STATE_ALIGN);
        if (used > 0 && used + size > STATE_SEGMENT) {
            uint32_t slot = add_state_slot(w, kind, used, fewest);
            for (; from < n; from++)
                t->states[from].slot = slot;
            used = fewest = 0;
        }
        fewest = used == 0 || all < fewest ? all : fewest;
        dop_plan_state row = {.name = dop_plan_writer_string(w, dop_node_s(g, id, DOP_A_name)),
                              .rows = rows,
                              .offset = used,
                              .row_bytes = row_bytes,
                              .paged = paged,
                              .filled = dop_state_is_filled(g, id),
                              .sequence_stride = paged ? 0 : bytes / g->max_q,
                              .copy_stride = appends ? 0 : bytes};
        t->states[n++] = (dop_state_place){dop_node_s(g, id, DOP_A_name), 0, used, size, row};
        used += size;
    }
    if (used > 0) {
        uint32_t slot = add_state_slot(w, kind, used, fewest);
        for (; from < n; from++)
            t->states[from].slot = slot;
    }
    return n;
}

/* Returns the first schedule of the program `draft`, which may have states of its own, or NULL. */
static const dop_schedule *
find_draft_schedule(const dop_compilation *c)
{
    for (uint32_t i = 0; i < c->n_schedules; i++)
        if (c->schedules[i].program == DOP_SCHED_DRAFT)
            return &c->schedules[i];
    return NULL;
}

/* Writes the slots and rows of a target's states. All schedules of steps have equal states, so the first schedule's
 * graph lists them. */
static void
write_state_slots(dop_plan_writer *w, dop_target_rows *t)
{
    const dop_graph *g = &t->c->schedules[0].g;
    const dop_schedule *draft = find_draft_schedule(t->c);
    t->states = calloc((size_t)g->n_nodes + (draft ? draft->g.n_nodes : 0), sizeof *t->states);
    if (!t->states) {
        dop_plan_writer_no_memory(w);
        return;
    }
    t->n_states = write_states_of(w, t, g, DOP_PLAN_STATE_APPEND, 0);
    if (draft)
        t->n_states = write_states_of(w, t, &draft->g, DOP_PLAN_STATE_APPEND, t->n_states);
    t->n_states = write_states_of(w, t, g, DOP_PLAN_STATE_REPLACE, t->n_states);
    for (uint32_t i = 0; i < t->n_states; i++) {
        t->states[i].row.slot = t->states[i].slot;
        dop_buf_append(&w->sections.sec[DOP_SEC_STATES], &t->states[i].row, sizeof t->states[i].row);
    }
}

/* Returns the offset of a region's split-K sums, after the sums of earlier regions that no barrier separates from it.
 * *out_bytes: their size; 0: the region has none. */
static uint64_t
find_sums_offset(const dop_schedule *s, dop_region_id region, uint64_t *out_bytes)
{
    uint64_t at = 0;
    *out_bytes = 0;
    for (dop_region_id r = 1; r <= region; r++) {
        at = s->placement.barrier[r] ? 0 : at + *out_bytes;
        *out_bytes = 0;
        for (uint32_t k = 0; k < s->regions[r].n_args; k++)
            if (s->regions[r].args[k].kind == DOP_ARG_SUMS)
                *out_bytes = dop_align_u64(s->regions[r].args[k].bytes, STATE_ALIGN);
    }
    return at;
}

/* Writes the slot of counters, with a place for each region of the largest schedule that uses counters. The memory for
 * split-K sums comes after them. */
static void
write_counts_slot(dop_plan_writer *w, dop_target_rows *t)
{
    uint64_t most = 0, sums = 0;
    for (uint32_t i = 0; i < t->c->n_schedules; i++) {
        const dop_schedule *s = &t->c->schedules[i];
        bool used = false;
        for (dop_region_id r = 1; r < s->g.n_regions; r++) {
            uint64_t bytes;
            const uint64_t at = find_sums_offset(s, r, &bytes);
            sums = at + bytes > sums ? at + bytes : sums;
            for (uint32_t k = 0; k < s->regions[r].n_args; k++)
                used = used || s->regions[r].args[k].kind == DOP_ARG_COUNTS;
        }
        if (used && s->g.n_regions > most)
            most = s->g.n_regions;
    }
    t->sums_at = most * COUNTS_STRIDE;
    if (most)
        t->slot_counts = add_slot(w, DOP_SLOT_COUNTS, "counts", t->sums_at + sums, 0);
}

/* Returns the byte offset of values[k] in the slot for crossing values. If k is the number of values, returns their
 * total size. */
static uint64_t
find_crossing_offset(const dop_graph *g, const dop_node_id *values, uint32_t k)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < k; i++)
        at += dop_align_u64(dop_node_bytes(g, values[i]), STATE_ALIGN);
    return at;
}

/* Returns the index of a value in values[n], or n if it is missing. */
static uint32_t
find_crossing(const dop_node_id *values, uint32_t n, dop_node_id id)
{
    uint32_t i = 0;
    while (i < n && values[i] != id)
        i++;
    return i;
}

static void
write_crossing_slots(dop_plan_writer *w, dop_target_rows *t)
{
    uint64_t received = 0, sent = 0;
    for (uint32_t i = 0; i < t->c->n_schedules; i++) {
        const dop_schedule *s = &t->c->schedules[i];
        const uint64_t in = find_crossing_offset(&s->g, s->received, s->n_received),
                       out = find_crossing_offset(&s->g, s->sent, s->n_sent);
        received = in > received ? in : received;
        sent = out > sent ? out : sent;
    }
    if (received)
        t->slot_received = add_slot(w, DOP_SLOT_RECEIVED, "received", received + STATE_ALIGN, 0);
    if (sent)
        t->slot_sent = add_slot(w, DOP_SLOT_SENT, "sent", sent + STATE_ALIGN, 0);
}

/* Returns the bytes of the parameter records of regions first .. end - 1. */
static uint64_t
records_bytes(const dop_built_region *regions, dop_region_id first, dop_region_id end)
{
    uint64_t bytes = 0;
    for (dop_region_id r = first; r < end; r++)
        bytes += dop_record_bytes(regions[r].n_args);
    return bytes;
}

static void
write_table_slots(dop_plan_writer *w, dop_target_rows *t)
{
    for (uint32_t i = 0; i < t->c->n_schedules; i++) {
        const dop_schedule *s = &t->c->schedules[i];
        const dop_persistent *p = s->persistent;
        const uint64_t bytes = records_bytes(s->regions, 1, s->g.n_regions);
        t->slot_records[i] = bytes ? add_slot(w, DOP_SLOT_TABLE, "records", bytes, 0) : DOP_PLAN_NO_SLOT;
        if (p) {
            t->slot_mailbox[i] = add_slot(w, DOP_SLOT_MAILBOX, "mailboxes", 2 * p->copy_bytes, 0);
            t->slot_table[i] =
                add_slot(w, DOP_SLOT_TABLE, "stages", p->table + records_bytes(p->regions, 1, s->g.n_regions), 0);
        }
    }
}

/* Writes the slots of one target. The runtime allocates only the slots of the target that it chooses. */
static void
write_target_slots(dop_plan_writer *w, dop_target_rows *t)
{
    uint64_t scratch = 256;
    for (uint32_t i = 0; i < t->c->n_schedules; i++)
        if (t->c->schedules[i].placement.scratch > scratch)
            scratch = t->c->schedules[i].placement.scratch;
    t->slot_scratch = add_slot(w, DOP_SLOT_SCRATCH, "activations", scratch + 256, 0);
    write_counts_slot(w, t);
    write_table_slots(w, t);
    write_crossing_slots(w, t);
    write_state_slots(w, t);
}

/* True for any part of a model but the last: such parts make no logits. */
static bool
is_inner(const dop_compilation *c)
{
    return c->cut && c->cut->number + 1 < c->cut->n_parts;
}

static void
write_slots(dop_plan_writer *w)
{
    uint64_t result = 4;
    for (uint32_t t = 0; t < w->n_targets; t++)
        for (uint32_t i = 0; i < w->targets[t].c->n_schedules; i++) {
            const dop_graph *g = &w->targets[t].c->schedules[i].g;
            if (g->n_outs == 0)
                continue;
            uint64_t bytes = dop_align_u64(dop_node_bytes(g, dop_node_base(g, g->outs[0], NULL)), 256);
            result = bytes > result ? bytes : result;
        }
    w->slot_step = add_slot(w, DOP_SLOT_STEP, "step", step_bytes(w->targets[0].c), 0);
    w->slot_result = is_inner(w->targets[0].c) ? DOP_PLAN_NO_SLOT : add_slot(w, DOP_SLOT_RESULT, "logits", result, 0);
    for (uint32_t t = 0; t < w->n_targets; t++)
        write_target_slots(w, &w->targets[t]);
    write_weights_slots(w);
}

static dop_plan_arg
make_plan_arg(dop_plan_writer *w, const dop_target_rows *t, const dop_schedule *s, dop_region_id r,
              const dop_kernel_arg *a)
{
    const dop_graph *g = &s->g;
    if (a->kind == DOP_ARG_TABLE)
        return (dop_plan_arg){.slot = t->slot_table[s - t->c->schedules], .size = s->persistent->table};
    if (a->mailbox) /* includes both copies, which are copy_bytes apart */
        return (dop_plan_arg){.slot = t->slot_mailbox[s - t->c->schedules],
                              .value = dop_plan_writer_string(w, dop_node_at(g, a->value)->name),
                              .offset = s->persistent->mailbox[a->value],
                              .size = s->persistent->copy_bytes + s->persistent->mailbox_bytes[a->value]};
    if (a->kind == DOP_ARG_COUNTS)
        return (dop_plan_arg){.slot = t->slot_counts, .offset = r * COUNTS_STRIDE, .size = COUNTS_STRIDE};
    if (a->kind == DOP_ARG_SUMS) {
        uint64_t bytes;
        const uint64_t at = find_sums_offset(s, r, &bytes);
        return (dop_plan_arg){.slot = t->slot_counts, .offset = t->sums_at + at, .size = bytes};
    }
    if (a->numbers)
        return (dop_plan_arg){.slot = DOP_ARG_NUMBERS, .offset = a->number[0] | (uint64_t)a->number[1] << 32};
    if (a->value == 0)
        return (dop_plan_arg){.slot = w->slot_step, .value = 0, .offset = 0, .size = step_bytes(t->c)};
    const dop_node *n = dop_node_at(g, a->value);
    dop_plan_arg out = {.value = dop_plan_writer_string(w, n->name), .view = a->view};
    uint32_t k;
    if (n->op == DOP_OP_weight) {
        const dop_packed *x = dop_pack_find(w->sections.pack, &n->origin);
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
    } else if ((k = find_crossing(s->received, s->n_received, a->value)) < s->n_received) {
        out.slot = t->slot_received;
        out.offset = find_crossing_offset(g, s->received, k);
        out.size = dop_node_bytes(g, a->value);
    } else if ((k = find_crossing(s->sent, s->n_sent, a->value)) < s->n_sent) {
        out.slot = t->slot_sent;
        out.offset = find_crossing_offset(g, s->sent, k);
        out.size = dop_node_bytes(g, a->value);
    } else if (s->placement.values[a->value].size > 0) {
        out.slot = t->slot_scratch;
        out.offset = s->placement.values[a->value].offset;
        out.size = s->placement.values[a->value].size;
    } else if (!is_inner(t->c) && a->value == dop_node_base(g, g->outs[0], NULL)) {
        out.slot = w->slot_result;
        out.size = dop_node_bytes(g, a->value);
    } else {
        w->status = DOP_FAIL(w->diag, DOP_E_INTERNAL, "value %%%s has no place", n->name);
    }
    return out;
}

static const dop_stage_form no_stage = {0};

/* Writes a dispatch or a stage with its arguments. *io_record: offset of the next parameter record in the schedule's
 * table. */
static void
write_dispatch(dop_plan_writer *w, const dop_target_rows *t, const dop_schedule *s, dop_region_id r,
               const dop_built_region *b, uint32_t flags, const dop_stage_form *f, uint64_t *io_record)
{
    const dop_region *reg = &s->g.regions[r];
    dop_buf ops = {0};
    dop_region_ops(&s->g, reg, &ops);
    dop_plan_dispatch d = {.kernel = t->kernels[b->kernel],
                           .grid = {b->grid[0], b->grid[1], b->grid[2]},
                           .first_arg = (uint32_t)(w->sections.sec[DOP_SEC_ARGS].size / sizeof(dop_plan_arg)),
                           .n_args = b->n_args,
                           .flags = flags,
                           .label = dop_plan_writer_string(w, dop_label_text(dop_region_label(&s->g, reg))),
                           .ops = dop_plan_writer_string(w, ops.data ? ops.data : ""),
                           .region = r,
                           .short_positions = f->short_positions,
                           .short_function = f->short_function,
                           .short_groups = f->short_groups,
                           .short_splits = f->short_splits,
                           .record = dop_has_record(b->n_args) ? *io_record : 0,
                           .stage_rounding = f->rounding};
    *io_record += dop_record_bytes(b->n_args);
    dop_region_traffic(&s->g, reg, 0, &d.bytes_read, &d.bytes_written);
    for (uint32_t i = 0; i < b->n_args; i++) {
        dop_plan_arg a = make_plan_arg(w, t, s, r, &b->args[i]);
        dop_buf_append(&w->sections.sec[DOP_SEC_ARGS], &a, sizeof a);
    }
    dop_buf_append(&w->sections.sec[DOP_SEC_DISPATCHES], &d, sizeof d);
    dop_buf_finish(&ops);
}

static const uint32_t kinds[] = {DOP_SCHED_DECODE, DOP_SCHED_PREFILL, DOP_SCHED_SCORE};

static uint32_t
count_dispatch_rows(const dop_plan_writer *w)
{
    return (uint32_t)(w->sections.sec[DOP_SEC_DISPATCHES].size / sizeof(dop_plan_dispatch));
}

static void
write_crossing(dop_plan_writer *w, const dop_target_rows *t, const dop_schedule *s, uint32_t way, uint32_t i)
{
    const dop_node_id id = way == DOP_CROSSING_SENT ? s->sent[i] : s->received[i];
    const dop_node *n = dop_node_at(&s->g, id);
    const bool here = n->op == DOP_OP_received; /* a value that is passed on stays in its received slot */
    _Static_assert((int)DOP_PLAN_F32 == (int)DOP_TYPE_f32, "the runtime knows this number");
    const uint32_t at = here ? find_crossing(s->received, s->n_received, id) : i;
    dop_plan_crossing row = {
        .schedule = (uint32_t)(w->sections.sec[DOP_SEC_SCHEDULES].size / sizeof(dop_plan_schedule)),
        .way = way,
        .name = dop_plan_writer_string(w, n->name),
        .type = n->type,
        .slot = here ? t->slot_received : t->slot_sent,
        .one_row = !dop_node_per_token(&s->g, id) && dop_node_rows(&s->g, id, s->g.max_t) == 1,
        .offset = find_crossing_offset(&s->g, here ? s->received : s->sent, at),
        .row_bytes = dop_node_bytes(&s->g, id) /
                     (dop_node_per_token(&s->g, id) ? s->g.max_t : dop_node_rows(&s->g, id, s->g.max_t))};
    dop_buf_append(&w->sections.sec[DOP_SEC_CROSSINGS], &row, sizeof row);
}

/* Writes the rows of crossing values. Must be called before the row of their schedule is written, because the rows
 * refer to the next schedule. */
static void
write_crossings(dop_plan_writer *w, const dop_target_rows *t, const dop_schedule *s)
{
    for (uint32_t i = 0; i < s->n_received; i++)
        write_crossing(w, t, s, DOP_CROSSING_RECEIVED, i);
    for (uint32_t i = 0; i < s->n_sent; i++)
        write_crossing(w, t, s, DOP_CROSSING_SENT, i);
}

/* Returns DOP_PICKS_*: the tokens that a schedule picks. */
static uint32_t
choose_picks(const dop_compilation *c, const dop_schedule *s)
{
    if (is_inner(c) || (s->program && s->program != DOP_SCHED_DRAFT))
        return DOP_PICKS_NONE;
    if (s->mixed)
        return s->program && s->g.max_t == 1 ? DOP_PICKS_NEXT : DOP_PICKS_EACH;
    return s->phase != DOP_PHASE_SCORE ? DOP_PICKS_NEXT : DOP_PICKS_NONE;
}

static void
write_schedule(dop_plan_writer *w, const dop_target_rows *t, const dop_schedule *s)
{
    dop_plan_schedule row = {.kind = s->program  ? s->program
                                     : s->mixed  ? DOP_SCHED_ROWS
                                     : s->embeds ? DOP_SCHED_EMBED
                                                 : kinds[s->phase],
                             .profile = (uint32_t)(t - w->targets),
                             .max_rows = dop_schedule_rows(s),
                             .first_dispatch = count_dispatch_rows(w),
                             .n_dispatches = s->g.n_regions - 1,
                             .n_body = s->n_body,
                             .logits_slot = w->slot_result,
                             .greedy = choose_picks(t->c, s),
                             .logits_offset = 0,
                             .ordering = DOP_ORDER_BARRIERS,
                             .adapted = s->adapted,
                             .table_slot = t->slot_records[s - t->c->schedules]};
    uint64_t record = 0;
    for (dop_region_id r = 1; r < s->g.n_regions; r++)
        write_dispatch(w, t, s, r, &s->regions[r], s->placement.barrier[r] ? DOP_DISPATCH_BARRIER : 0u, &no_stage,
                       &record);
    write_crossings(w, t, s);
    dop_buf_append(&w->sections.sec[DOP_SEC_SCHEDULES], &row, sizeof row);
    /* Every schedule has its own copy of the graph, even if it differs only in its ordering. */
    dop_graph_print(&s->g, &w->sections.sec[DOP_SEC_IR]);
}

/* Writes a schedule's persistent form: the dispatch of all stages, the dispatches after it, then the rows of the
 * stages. */
static void
write_persistent(dop_plan_writer *w, const dop_target_rows *t, const dop_schedule *s)
{
    const dop_persistent *p = s->persistent;
    dop_built_region whole = {.kernel = p->kernel, .grid = {p->groups, 1, 1}, .n_args = 3};
    uint64_t record = p->table;
    whole.args = t->c->kernels.items[p->kernel].k.args;
    dop_plan_schedule row = {.kind = s->mixed ? DOP_SCHED_ROWS : kinds[s->phase],
                             .profile = (uint32_t)(t - w->targets),
                             .max_rows = s->g.max_t,
                             .first_dispatch = count_dispatch_rows(w),
                             .n_dispatches = s->g.n_regions - p->n_stages,
                             .n_body = s->g.n_regions - p->n_stages,
                             .logits_slot = w->slot_result,
                             .greedy = is_inner(t->c) ? DOP_PICKS_NONE
                                       : s->mixed     ? DOP_PICKS_EACH
                                                      : DOP_PICKS_NEXT,
                             .ordering = DOP_ORDER_PERSISTENT,
                             .adapted = s->adapted,
                             .n_stages = p->n_stages,
                             .table_slot = t->slot_table[s - t->c->schedules]};
    write_dispatch(w, t, s, 1, &whole, 0, &no_stage, &record);
    dop_plan_dispatch *all = (dop_plan_dispatch *)(void *)w->sections.sec[DOP_SEC_DISPATCHES].data + row.first_dispatch;
    if (w->sections.sec[DOP_SEC_DISPATCHES].failed)
        return;
    all->label = dop_plan_writer_string(w, "stages");
    all->ops = dop_plan_writer_string(w, "");
    for (dop_region_id r = 2; r <= p->n_stages; r++) {
        uint64_t reads, writes;
        dop_region_traffic(&s->g, &s->g.regions[r], 0, &reads, &writes);
        all->bytes_read += reads;
        all->bytes_written += writes;
    }
    for (dop_region_id r = p->n_stages + 1; r < s->g.n_regions; r++)
        write_dispatch(w, t, s, r, &p->regions[r],
                       s->placement.barrier[r] || r == p->n_stages + 1 ? DOP_DISPATCH_BARRIER : 0u, &no_stage, &record);
    row.first_stage = count_dispatch_rows(w);
    for (dop_region_id r = 1; r <= p->n_stages; r++) {
        dop_built_region stage = p->regions[r];
        stage.kernel = p->kernel;
        write_dispatch(w, t, s, r, &stage, p->forms[r].function, &p->forms[r], &record);
    }
    write_crossings(w, t, s);
    dop_buf_append(&w->sections.sec[DOP_SEC_SCHEDULES], &row, sizeof row);
    dop_graph_print(&s->g, &w->sections.sec[DOP_SEC_IR]);
}

static void
write_schedules(dop_plan_writer *w)
{
    for (uint32_t k = 0; k < w->n_targets; k++) {
        const dop_target_rows *t = &w->targets[k];
        for (uint32_t i = 0; i < t->c->n_schedules && w->status == DOP_OK; i++) {
            write_schedule(w, t, &t->c->schedules[i]);
            if (t->c->schedules[i].persistent)
                write_persistent(w, t, &t->c->schedules[i]);
        }
    }
}

/* Returns the row of an equal kernel (module, capabilities, workgroup) of another target; UINT32_MAX if there is none. */
static uint32_t
find_kernel(const dop_plan_writer *w, const dop_built_kernel *k)
{
    const dop_buf *rows = &w->sections.sec[DOP_SEC_KERNELS], *words = &w->sections.sec[DOP_SEC_SPIRV];
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
write_kernel(dop_plan_writer *w, dop_target_rows *t, uint32_t i)
{
    const dop_built_kernel *k = &t->c->kernels.items[i];
    char name[160];
    uint32_t before = w->n_targets > 1 ? find_kernel(w, k) : UINT32_MAX;
    t->kernels[i] = before == UINT32_MAX ? w->n_kernels++ : before;
    if (before != UINT32_MAX)
        return;
    dop_plan_writer_kernel_name(t, i, name, sizeof name);
    dop_plan_kernel row = {.name = dop_plan_writer_string(w, name),
                           .variant = dop_plan_writer_string(w, dop_variant_of(k->k.variant)->name),
                           .spirv_first = (uint32_t)(w->sections.sec[DOP_SEC_SPIRV].size / 4),
                           .spirv_words = (uint32_t)(k->spirv.size / 4),
                           .caps = k->k.caps,
                           .subgroup = k->k.subgroup,
                           .local = {k->k.local, 1, 1},
                           .shared_bytes = k->shared_bytes,
                           .n_args = k->k.n_args,
                           .rounding = k->k.rounding};
    dop_buf_append(&w->sections.sec[DOP_SEC_KERNELS], &row, sizeof row);
    dop_buf_append(&w->sections.sec[DOP_SEC_SPIRV], k->spirv.data, k->spirv.size);
    if (w->sections.sec[DOP_SEC_KERNELS].failed || w->sections.sec[DOP_SEC_SPIRV].failed)
        dop_plan_writer_no_memory(w);
}

/* Writes the kernels of a target, and the target's row with the maximum of their requirements. */
static void
write_target_rows(dop_plan_writer *w, dop_target_rows *t)
{
    const dop_compilation *c = t->c;
    const dop_schedule_numbers *numbers = &c->target->schedule;
    dop_plan_profile profile = {
        .name = dop_plan_writer_string(w, c->target->name),
        .draws = !c->target->cpu,
        .submit_mib = {numbers->submit_four_mib, numbers->submit_two_mib},
        .chunks = {numbers->chunk_start, numbers->chunk_tile, numbers->chunk_full, numbers->chunk_lack}};
    t->kernels = calloc(c->kernels.n ? c->kernels.n : 1, sizeof *t->kernels);
    if (!t->kernels)
        dop_plan_writer_no_memory(w);
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
    profile.matrix = profile.caps & DOP_CAP_coop ? c->target->matrix : 0;
    dop_buf_append(&w->sections.sec[DOP_SEC_PROFILES], &profile, sizeof profile);
}

/* --- whole plans
 * --------------------------------------------------------------------------------------------------------- */

static void
finish_plan_writer(dop_plan_writer *w)
{
    for (uint32_t i = 0; i < w->n_targets; i++) {
        free(w->targets[i].states);
        free(w->targets[i].kernels);
    }
    dop_lookup_finish(&w->strings);
    dop_plan_sections_finish(&w->sections);
}

/* Makes all sections of a plan. weights: name of the file of external weights; NULL: the plan contains them. With
 * DOP_PLAN_WEIGHTS_MODEL, some stay in the model's files. */
static dop_status
write_plan_rows(dop_plan_writer *w, const dop_compilation *list, uint32_t n, const char *weights,
                dop_plan_weights where, dop_diag *diag)
{
    const uint64_t failures = dop_buf_failures();
    *w = (dop_plan_writer){.diag = diag, .n_targets = n};
    w->sections.external = weights != NULL;
    w->sections.refers = where == DOP_PLAN_WEIGHTS_MODEL && dop_plan_can_refer(&list[0].pack.model->weights);
    w->sections.pack = &list[0].pack;
    w->sections.progress = list[0].options.progress;
    for (uint32_t i = 0; i < n; i++)
        w->targets[i].c = &list[i];
    dop_plan_writer_string(w, "");
    write_slots(w);
    for (uint32_t i = 0; i < n && w->status == DOP_OK; i++)
        write_target_rows(w, &w->targets[i]);
    if (w->status == DOP_OK)
        write_schedules(w);
    if (w->status == DOP_OK)
        dop_plan_writer_model(w);
    if (w->status == DOP_OK)
        dop_plan_writer_programs(w);
    if (w->status == DOP_OK)
        dop_plan_writer_part(w);
    if (w->status == DOP_OK)
        dop_plan_writer_text(w);
    if (weights) /* put_external() sets size and digest */
        dop_buf_append(&w->sections.sec[DOP_SEC_FILES], &(dop_plan_file){.name = dop_plan_writer_string(w, weights)},
                       sizeof(dop_plan_file));
    if (w->status == DOP_OK && dop_buf_failures() != failures)
        dop_plan_writer_no_memory(w);
    return w->status;
}

dop_status
dop_plan_write(const dop_compilation *list, uint32_t n, const char *path, dop_plan_weights where, dop_diag *diag)
{
    dop_plan_writer w = {.n_targets = 0};
    char *weights = NULL;
    if (where == DOP_PLAN_WEIGHTS_EXTERNAL && asprintf(&weights, "%s.weights", dop_path_name(path)) < 0)
        return DOP_NO_MEMORY(diag);
    dop_status st = DOP_OK;
    DOP_TRY(write_plan_rows(&w, list, n, weights, where, diag));
    DOP_TRY(dop_plan_sections_write(&w.sections, path, diag));
error:
    finish_plan_writer(&w);
    free(weights);
    return st;
}

/* Makes the path of a part's plan (--split), and the name of its external weights relative to the plan. */
static dop_status
part_names(const char *path, uint32_t part, dop_diag *diag, char **out_plan, char **out_weights)
{
    *out_plan = *out_weights = NULL;
    if (asprintf(out_plan, "%s.part%u", path, part) < 0 ||
        asprintf(out_weights, "%s.part%u.weights", dop_path_name(path), part) < 0)
        return DOP_NO_MEMORY(diag);
    return DOP_OK;
}

dop_status
dop_plan_write_parts(const dop_compilation *parts, uint32_t n, const char *path, dop_plan_weights where, bool split,
                     dop_diag *diag)
{
    dop_plan_writer *w = calloc(n, sizeof *w);
    dop_plan_sections **sections = calloc(n, sizeof *sections);
    dop_plan_set_row *rows = calloc(n, sizeof *rows);
    dop_status st = w && sections && rows ? DOP_OK : DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        char *plan, *weights;
        st = part_names(path, i, diag, &plan, &weights);
        if (st == DOP_OK)
            st = write_plan_rows(&w[i], &parts[i], 1, where == DOP_PLAN_WEIGHTS_EXTERNAL ? weights : NULL, where, diag);
        sections[i] = &w[i].sections;
        rows[i].first_layer = parts[i].cut->first_layer;
        rows[i].end_layer = parts[i].cut->end_layer;
        snprintf(rows[i].target, sizeof rows[i].target, "%.31s", parts[i].target->name);
        free(plan);
        free(weights);
    }
    if (st == DOP_OK)
        st = dop_plan_set_write(sections, rows, n, path, split, diag);
    for (uint32_t i = 0; w && i < n; i++)
        finish_plan_writer(&w[i]);
    free(w);
    free(sections);
    free(rows);
    return st;
}

dop_status
dop_plan_listing(const dop_compilation *list, uint32_t n, dop_diag *diag, dop_buf *out)
{
    dop_plan_writer w;
    dop_plan plan = {0};
    dop_plan_image image = {0};
    dop_status st = DOP_OK;
    DOP_TRY(write_plan_rows(&w, list, n, NULL, DOP_PLAN_WEIGHTS_EMBED, diag));
    DOP_TRY(dop_plan_sections_image(&w.sections, diag, &image));
    DOP_TRY(dop_plan_open_memory(image.bytes, image.size, diag, &plan));
    dop_plan_disasm(&plan, out);
error:
    dop_plan_image_finish(&image);
    finish_plan_writer(&w);
    return st;
}
