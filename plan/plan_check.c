#include "plan/plan_check.h"
#include "base/caps.h"
#include "base/os/system.h"
#include "plan/plan.h"
#include "plan/plan_names.h"
#include "plan/plan_part.h"
#include "plan/plan_ranges.h"

#include <math.h>
#include <string.h>

/* Limits far above any device; they keep products of untrusted numbers within 64 bits. */
enum {
    MAX_VOCAB = 1 << 24,
    MAX_CTX = 1 << 24, /* positions: the largest --ctx */
    MAX_INVOCATIONS = 4096,
};
static const uint64_t max_slot = (uint64_t)1 << 42;
static const uint64_t max_weight_slot = (uint64_t)1 << 31;

#define DAMAGED(...) \
    DOP_FAIL_IN(diag, DOP_E_INPUT, plan->path[0] ? plan->path : NULL, "the plan is damaged: " __VA_ARGS__)

static bool
is_string_offset(const dop_plan *plan, uint32_t offset)
{
    return offset < plan->strings_size;
}

/* True if [first, first + n) lies in [0, limit). */
static bool
is_range_inside(uint64_t first, uint64_t n, uint64_t limit)
{
    uint64_t end;
    return dop_add_u64(first, n, &end) && end <= limit;
}

static dop_status
check_strings(const dop_plan *plan, dop_diag *diag)
{
    if (plan->strings_size == 0 || plan->strings[0] != 0 || plan->strings[plan->strings_size - 1] != 0)
        return DAMAGED("section STRINGS does not start and end with a 0 byte");
    /* Names appear in messages and listings: no line breaks or terminal control characters. */
    for (uint64_t i = 0; i < plan->strings_size; i++) {
        unsigned char c = (unsigned char)plan->strings[i];
        if ((c > 0 && c < 0x20) || c == 0x7f)
            return DAMAGED("section STRINGS holds control character 0x%02x", c);
    }
    return DOP_OK;
}

static dop_status
check_model(const dop_plan *plan, dop_diag *diag)
{
    const dop_plan_model *m = plan->model;
    if (m->vocab == 0 || m->vocab > MAX_VOCAB)
        return DAMAGED("vocabulary of %u tokens", m->vocab);
    if (m->ctx == 0 || m->ctx > MAX_CTX)
        return DAMAGED("context of %u positions", m->ctx);
    if (m->n_sequences == 0 || m->n_sequences > DOP_STEP_MAX_SEQUENCES)
        return DAMAGED("room for %u sequences", m->n_sequences);
    if (m->state_copies < 2 || m->state_copies > DOP_PLAN_MAX_COPIES)
        return DAMAGED("%u copies of states that steps replace", m->state_copies);
    const bool pages = m->page > 0 && (m->page & (m->page - 1)) == 0 && m->ctx % m->page == 0;
    const uint64_t each = pages ? m->ctx / m->page : 0;
    if (m->n_pages < each || m->n_pages > each * m->n_sequences || (m->page > 0 && !pages))
        return DAMAGED("%u pages of %u positions", m->n_pages, m->page);
    if (m->bos_id < -1 || m->bos_id >= (int32_t)m->vocab)
        return DAMAGED("BOS id %d of %u tokens", m->bos_id, m->vocab);
    if (m->n_end_ids > sizeof m->end_ids / sizeof m->end_ids[0])
        return DAMAGED("%u end ids", m->n_end_ids);
    for (uint32_t i = 0; i < m->n_end_ids; i++)
        if (m->end_ids[i] >= m->vocab)
            return DAMAGED("end id %u of %u tokens", m->end_ids[i], m->vocab);
    if (!isfinite(m->temperature) || !isfinite(m->top_p) || !isfinite(m->min_p))
        return DAMAGED("sampling defaults are not numbers");
    if (!is_string_offset(plan, m->name) || !is_string_offset(plan, m->family) || !is_string_offset(plan, m->quant) ||
        !is_string_offset(plan, m->kernel_path))
        return DAMAGED("a string of the model row is outside section STRINGS");
    return DOP_OK;
}

static bool
is_subgroup_size(uint32_t size)
{
    return size == 0 || dop_subgroup_usable(size);
}

static dop_status
check_profiles(const dop_plan *plan, dop_diag *diag)
{
    if (plan->n_profiles > DOP_MAX_TARGETS)
        return DAMAGED("%u profiles", plan->n_profiles);
    for (uint32_t i = 0; i < plan->n_profiles; i++) {
        const dop_plan_profile *p = &plan->profiles[i];
        if (!is_string_offset(plan, p->name))
            return DAMAGED("the name of profile %u is outside section STRINGS", i);
        if (!is_subgroup_size(p->subgroup))
            return DAMAGED("profile %u has a subgroup size of %u", i, p->subgroup);
        if (p->matrix >> 24)
            return DAMAGED("profile %u has matrix units of shape %#x", i, p->matrix);
        const dop_chunk_costs *c = &p->chunks;
        if (c->tile == 0 || c->lack == 0 || (c->start | c->tile | c->full | c->lack) >> 24)
            return DAMAGED("profile %u has chunks of tiles of %u tokens, full ones of %u", i, c->tile, c->full);
    }
    return DOP_OK;
}

/* Checks the dispatches of a schedule, but not its stages, which use `flags` and arguments differently.  A profile must cover all
 * capabilities of its kernels, because devices are selected by it. */
static dop_status
check_dispatch_list(const dop_plan *plan, const dop_plan_schedule *s, dop_diag *diag)
{
    const dop_plan_profile *p = &plan->profiles[s->profile];
    for (uint32_t i = s->first_dispatch; i < s->first_dispatch + s->n_dispatches; i++) {
        const dop_plan_dispatch *d = &plan->dispatches[i];
        const dop_plan_kernel *k = &plan->kernels[d->kernel];
        if (d->flags & ~(uint32_t)DOP_DISPATCH_BARRIER)
            return DAMAGED("dispatch %u has flags %u", i, d->flags);
        if (d->n_args != k->n_args)
            return DAMAGED("dispatch %u passes %u arguments to kernel %s, which takes %u", i, d->n_args,
                           dop_plan_string(plan, k->name), k->n_args);
        if ((k->caps & ~p->caps) || ((k->caps & DOP_CAP_coop) && !p->matrix) || k->shared_bytes > p->shared_bytes ||
            k->local[0] * k->local[1] * k->local[2] > p->max_workgroup)
            return DAMAGED("profile %s says less than its kernel %s needs", dop_plan_string(plan, p->name),
                           dop_plan_string(plan, k->name));
    }
    return DOP_OK;
}

static dop_status
check_decodes(const dop_plan *plan, dop_diag *diag)
{
    for (uint32_t p = 0; p < plan->n_profiles && dop_plan_steps(plan); p++)
        if (!dop_plan_decodes(plan, p, DOP_ORDER_BARRIERS))
            return DAMAGED("no decode schedule for profile %s", dop_plan_string(plan, plan->profiles[p].name));
    return DOP_OK;
}

/* Facts collected from a SPIR-V module (SPIR-V specification 1.6, section 2.3: physical layout). */
typedef struct spirv_facts {
    uint32_t entry_points;
    bool compute_main;
    bool has_local;
    uint32_t local[3];
} spirv_facts;

static bool
scan_spirv(const uint32_t *w, uint32_t n, spirv_facts *out)
{
    enum { OP_ENTRY_POINT = 15, OP_EXECUTION_MODE = 16, MODEL_GL_COMPUTE = 5, MODE_LOCAL_SIZE = 17 };
    memset(out, 0, sizeof *out);
    if (n < 5 || w[0] != 0x07230203u)
        return false;
    for (uint32_t at = 5; at < n;) {
        uint32_t len = w[at] >> 16, op = w[at] & 0xffffu;
        if (len == 0 || len > n - at)
            return false;
        if (op == OP_ENTRY_POINT) {
            out->entry_points++;
            /* "main" and its terminator: two words, little-endian */
            out->compute_main = len >= 5 && w[at + 1] == MODEL_GL_COMPUTE && w[at + 3] == 0x6e69616du && w[at + 4] == 0;
        } else if (op == OP_EXECUTION_MODE && len == 6 && w[at + 2] == MODE_LOCAL_SIZE) {
            out->has_local = true;
            memcpy(out->local, &w[at + 3], sizeof out->local);
        }
        at += len;
    }
    return true;
}

static dop_status
check_kernel_row(const dop_plan *plan, uint32_t i, dop_diag *diag)
{
    const dop_plan_kernel *k = &plan->kernels[i];
    if (!is_string_offset(plan, k->name) || !is_string_offset(plan, k->variant))
        return DAMAGED("a string of kernel %u is outside section STRINGS", i);
    const char *name = dop_plan_string(plan, k->name);
    if (!is_range_inside(k->spirv_first, k->spirv_words, plan->n_spirv))
        return DAMAGED("kernel %s: words %u..+%u lie outside section SPIRV (%llu words)", name, k->spirv_first,
                       k->spirv_words, (unsigned long long)plan->n_spirv);
    if (k->rounding > DOP_ROUNDING_i8)
        return DAMAGED("kernel %s: rounding %u is not known", name, k->rounding);
    uint64_t n = 1;
    for (int d = 0; d < 3; d++) {
        if (k->local[d] == 0 || k->local[d] > MAX_INVOCATIONS)
            return DAMAGED("kernel %s: workgroup of %u x %u x %u", name, k->local[0], k->local[1], k->local[2]);
        n *= k->local[d];
    }
    if (n > MAX_INVOCATIONS || !is_subgroup_size(k->subgroup))
        return DAMAGED("kernel %s: %llu invocations, subgroup size %u", name, (unsigned long long)n, k->subgroup);
    spirv_facts f;
    if (!scan_spirv(plan->spirv + k->spirv_first, k->spirv_words, &f))
        return DAMAGED("kernel %s is not a SPIR-V module", name);
    if (f.entry_points != 1 || !f.compute_main)
        return DAMAGED("kernel %s is not a module with one compute entry point \"main\"", name);
    if (f.has_local && memcmp(f.local, k->local, sizeof f.local) != 0)
        return DAMAGED("kernel %s: its module has workgroups of %u x %u x %u, its row says %u x %u x %u", name,
                       f.local[0], f.local[1], f.local[2], k->local[0], k->local[1], k->local[2]);
    return DOP_OK;
}

static dop_status
check_files(const dop_plan *plan, dop_diag *diag)
{
    for (uint32_t i = 0; i < plan->n_files; i++) {
        if (!is_string_offset(plan, plan->files[i].name))
            return DAMAGED("the name of file %u is outside section STRINGS", i);
        const char *name = dop_plan_string(plan, plan->files[i].name);
        if (plan->files[i].model > 1 || (plan->files[i].model && !dop_path_is_absolute(name)))
            return DAMAGED("the model's file \"%s\": not an absolute path", name);
        if (!plan->files[i].model && (!name[0] || dop_path_is_absolute(name) || strstr(name, "..")))
            return DAMAGED("external weights \"%s\": not a name inside the plan's directory", name);
    }
    return DOP_OK;
}

static dop_status
check_slots(dop_plan *plan, dop_diag *diag)
{
    plan->step_slot = UINT32_MAX;
    plan->replaces = plan->part && (plan->part->flags & DOP_PART_REPLACES);
    for (uint32_t i = 0; i < plan->n_slots; i++) {
        const dop_plan_slot *s = &plan->slots[i];
        if (s->kind < DOP_SLOT_WEIGHTS || s->kind > DOP_SLOT_SENT)
            return DAMAGED("slot %u has kind %u", i, s->kind);
        if (!is_string_offset(plan, s->name))
            return DAMAGED("the name of slot %u is outside section STRINGS", i);
        if (s->size == 0 || s->size > (s->kind == DOP_SLOT_WEIGHTS ? max_weight_slot : max_slot))
            return DAMAGED("slot %u has %llu bytes", i, (unsigned long long)s->size);
        if (s->kind == DOP_SLOT_STEP) {
            if (plan->step_slot != UINT32_MAX)
                return DAMAGED("more than one step record");
            if (s->size < dop_plan_step_bytes(plan))
                return DAMAGED("the step record has %llu bytes, expected %llu", (unsigned long long)s->size,
                               (unsigned long long)dop_plan_step_bytes(plan));
            plan->step_slot = i;
        }
        if (s->kind == DOP_SLOT_STATE ? s->state < DOP_PLAN_STATE_APPEND || s->state > DOP_PLAN_STATE_REPLACE
                                      : s->state != 0)
            return DAMAGED("slot %u holds state of kind %u", i, s->state);
        if ((s->state == DOP_PLAN_STATE_APPEND) != (s->rows > 0))
            return DAMAGED("slot %u, which holds state of kind %u, has states of %u rows", i, s->state, s->rows);
        plan->replaces = plan->replaces || s->state == DOP_PLAN_STATE_REPLACE;
        if (s->kind != DOP_SLOT_WEIGHTS)
            continue;
        if (s->file != UINT32_MAX && (s->file >= plan->n_files || plan->files[s->file].model))
            return DAMAGED("slot %u is in external file %u of %u", i, s->file, plan->n_files);
        if (plan->n_ranges > 0) /* dop_plan_check_ranges() checks these */
            continue;
        uint64_t limit = s->file == UINT32_MAX ? plan->weights_size : plan->files[s->file].size;
        if (!is_range_inside(s->file_offset, s->size, limit))
            return DAMAGED("slot %u reads past the end of the weights (offset %llu, %llu bytes, %llu there)", i,
                           (unsigned long long)s->file_offset, (unsigned long long)s->size, (unsigned long long)limit);
    }
    if (plan->step_slot == UINT32_MAX)
        return DAMAGED("no step record");
    return DOP_OK;
}

static dop_status
check_args(const dop_plan *plan, dop_diag *diag)
{
    for (uint32_t i = 0; i < plan->n_args; i++) {
        const dop_plan_arg *a = &plan->args[i];
        if (!is_string_offset(plan, a->value))
            return DAMAGED("the name of argument %u is outside section STRINGS", i);
        if (a->slot == DOP_ARG_NUMBERS && a->size == 0 && a->view == 0)
            continue;
        if (a->slot >= plan->n_slots)
            return DAMAGED("argument %u is in slot %u of %u", i, a->slot, plan->n_slots);
        if (a->view > DOP_N_VIEWS || (a->view && a->offset % DOP_TEXEL_BYTES != 0))
            return DAMAGED("argument %u (%s) begins at byte %llu of view %u", i, dop_plan_string(plan, a->value),
                           (unsigned long long)a->offset, a->view);
        if (!is_range_inside(a->offset, a->size, plan->slots[a->slot].size))
            return DAMAGED("argument %u (%s) leaves its slot (offset %llu, %llu bytes, %llu there)", i,
                           dop_plan_string(plan, a->value), (unsigned long long)a->offset, (unsigned long long)a->size,
                           (unsigned long long)plan->slots[a->slot].size);
    }
    return DOP_OK;
}

static dop_status
check_dispatches(const dop_plan *plan, dop_diag *diag)
{
    for (uint32_t i = 0; i < plan->n_dispatches; i++) {
        const dop_plan_dispatch *d = &plan->dispatches[i];
        if (d->kernel >= plan->n_kernels)
            return DAMAGED("dispatch %u runs kernel %u of %u", i, d->kernel, plan->n_kernels);
        if (!is_string_offset(plan, d->label) || !is_string_offset(plan, d->ops))
            return DAMAGED("a string of dispatch %u is outside section STRINGS", i);
        if (d->grid[0] == 0 || d->grid[1] == 0 || d->grid[2] == 0)
            return DAMAGED("dispatch %u has a grid of %u x %u x %u", i, d->grid[0], d->grid[1], d->grid[2]);
        if (!is_range_inside(d->first_arg, d->n_args, plan->n_args))
            return DAMAGED("dispatch %u has arguments %u..+%u of %u", i, d->first_arg, d->n_args, plan->n_args);
        for (uint32_t k = 0; k < d->n_args; k++)
            if (plan->args[d->first_arg + k].view && !(plan->kernels[d->kernel].caps & DOP_CAP_texels))
                return DAMAGED("dispatch %u has a view, which kernel %s does not read", i,
                               dop_plan_string(plan, plan->kernels[d->kernel].name));
    }
    return DOP_OK;
}

/* True if the parameter records of n dispatches are consecutive from *io_end on; advances *io_end. */
static bool
are_records_in_order(const dop_plan_dispatch *d, uint32_t n, uint64_t *io_end)
{
    for (uint32_t i = 0; i < n; i++) {
        if (d[i].record != (dop_has_record(d[i].n_args) ? *io_end : 0))
            return false;
        *io_end += dop_record_bytes(d[i].n_args);
    }
    return true;
}

/* The table must have exactly the size of the schedule's stages and parameter records. */
static dop_status
check_table(const dop_plan *plan, uint32_t i, dop_diag *diag)
{
    const dop_plan_schedule *s = &plan->schedules[i];
    uint64_t size = s->n_stages * sizeof(dop_stage_row);
    if (!are_records_in_order(plan->dispatches + s->first_dispatch, s->n_dispatches, &size) ||
        !are_records_in_order(plan->dispatches + s->first_stage, s->n_stages, &size))
        return DAMAGED("the parameter records of schedule %u do not follow each other", i);
    if (size == 0 ? s->table_slot != DOP_PLAN_NO_SLOT
                  : s->table_slot >= plan->n_slots || plan->slots[s->table_slot].kind != DOP_SLOT_TABLE ||
                        plan->slots[s->table_slot].size != size)
        return DAMAGED("schedule %u has the table of its stages and records in slot %u, which is none", i,
                       s->table_slot);
    return DOP_OK;
}

static dop_status
check_schedule(const dop_plan *plan, uint32_t i, dop_diag *diag)
{
    const dop_plan_schedule *s = &plan->schedules[i];
    if (s->kind < DOP_SCHED_DECODE || s->kind >= DOP_SCHED_END || s->profile >= plan->n_profiles ||
        s->greedy > DOP_PICKS_EACH ||
        (s->greedy == DOP_PICKS_EACH && s->kind != DOP_SCHED_ROWS && s->kind != DOP_SCHED_DRAFT))
        return DAMAGED("schedule %u has kind %u, profile %u, greedy %u", i, s->kind, s->profile, s->greedy);
    if (s->adapted > 1 || (s->adapted && (s->kind >= DOP_SCHED_ENCODE || plan->model->adapters == 0)))
        return DAMAGED("schedule %u is for adapters", i);
    if (s->ordering >= DOP_N_ORDERS)
        return DAMAGED("schedule %u has ordering %u", i, s->ordering);
    /* Only decode schedules and small schedules of rows count persistent runs. */
    const bool inner = s->logits_slot == DOP_PLAN_NO_SLOT && plan->part && plan->part->number + 1 < plan->part->n_parts;
    const bool decodes = s->kind == DOP_SCHED_DECODE && (s->greedy == DOP_PICKS_NEXT || inner);
    const bool rows =
        s->kind == DOP_SCHED_ROWS && s->greedy == DOP_PICKS_EACH && s->max_rows > 1 && s->max_rows <= DOP_STEP_SEVERAL;
    if (s->ordering != DOP_ORDER_BARRIERS && !decodes && !rows)
        return DAMAGED("schedule %u is ordered by %s and no greedy decode", i, dop_plan_ordering_name(s->ordering));
    if ((s->n_stages > 0) != (s->ordering == DOP_ORDER_PERSISTENT) ||
        !is_range_inside(s->first_stage, s->n_stages, plan->n_dispatches))
        return DAMAGED("schedule %u has stages %u..+%u of %u dispatches", i, s->first_stage, s->n_stages,
                       plan->n_dispatches);
    for (uint32_t k = 0; k < s->n_stages; k++) {
        const dop_plan_dispatch *d = &plan->dispatches[s->first_stage + k];
        uint64_t most = (uint64_t)d->grid[0] * d->grid[1];
        most = d->short_groups > most ? d->short_groups : most;
        if (most > UINT16_MAX || d->grid[2] > UINT16_MAX || d->short_splits > UINT16_MAX || d->flags > UINT16_MAX ||
            d->short_function > UINT16_MAX || (d->short_positions > 0 && (!d->short_groups || !d->short_splits)))
            return DAMAGED("stage %u of schedule %u has more workgroups or functions than there can be", k, i);
        if (d->stage_rounding > DOP_ROUNDING_i8)
            return DAMAGED("stage %u of schedule %u: rounding %u is not known", k, i, d->stage_rounding);
    }
    if (s->max_rows == 0 || s->max_rows > DOP_STEP_MAX_ROWS || (s->kind == DOP_SCHED_DECODE && s->max_rows != 1) ||
        (s->kind == DOP_SCHED_EMBED && plan->model->hidden == 0) ||
        (s->kind >= DOP_SCHED_ENCODE && !dop_plan_program_of(plan, s->kind)))
        return DAMAGED("schedule %u takes %u rows", i, s->max_rows);
    if (s->n_dispatches == 0 || !is_range_inside(s->first_dispatch, s->n_dispatches, plan->n_dispatches) ||
        s->n_body > s->n_dispatches)
        return DAMAGED("schedule %u has dispatches %u..+%u of %u, %u without the head", i, s->first_dispatch,
                       s->n_dispatches, plan->n_dispatches, s->n_body);
    dop_status st = check_dispatch_list(plan, s, diag);
    if (st != DOP_OK || (st = check_table(plan, i, diag)) != DOP_OK)
        return st;
    if (inner)
        return s->greedy == DOP_PICKS_NONE ? DOP_OK : DAMAGED("schedule %u picks and has no logits", i);
    if (s->logits_slot >= plan->n_slots || plan->slots[s->logits_slot].kind != DOP_SLOT_RESULT)
        return DAMAGED("schedule %u has its logits in slot %u, which is none for results", i, s->logits_slot);
    const uint64_t values = s->kind == DOP_SCHED_DENOISE          ? dop_draw_latents(plan->draw)
                            : s->kind == DOP_SCHED_DECODE_LATENTS ? dop_draw_pixels(plan->draw)
                            : s->kind == DOP_SCHED_ENCODE_PIXELS  ? 2 * dop_draw_latents(plan->draw)
                            : s->kind == DOP_SCHED_ENCODE_2       ? dop_draw_rows_2(plan->draw)
                                                                  : 0;
    if (values && dop_plan_result_bytes(plan, s) != values * sizeof(float))
        return DAMAGED("schedule %u does not give the values of a picture", i);
    if (s->logits_offset % 4 != 0 ||
        !is_range_inside(s->logits_offset, dop_plan_result_bytes(plan, s), plan->slots[s->logits_slot].size))
        return DAMAGED("the logits of schedule %u leave their slot", i);
    return DOP_OK;
}

static dop_status
check_tensors(const dop_plan *plan, dop_diag *diag)
{
    for (uint32_t i = 0; i < plan->n_tensors; i++) {
        const dop_plan_tensor *t = &plan->tensors[i];
        if (!is_string_offset(plan, t->name) || !is_string_offset(plan, t->gguf))
            return DAMAGED("the name of tensor %u is outside section STRINGS", i);
        uint64_t bytes = 0;
        if (t->experts == 0 || (t->experts > 1 && t->expert_stride < t->size))
            return DAMAGED("tensor %s has %u experts of %llu bytes every %llu", dop_plan_string(plan, t->name),
                           t->experts, (unsigned long long)t->size, (unsigned long long)t->expert_stride);
        if (t->slot >= plan->n_slots || !dop_mul_u64(t->expert_stride, t->experts - 1, &bytes) ||
            !dop_add_u64(bytes, t->size, &bytes) || !is_range_inside(t->offset, bytes, plan->slots[t->slot].size))
            return DAMAGED("tensor %s leaves its slot", dop_plan_string(plan, t->name));
    }
    return DOP_OK;
}

static bool
is_multiple_of_4(uint64_t bytes)
{
    return bytes % 4 == 0;
}

/* True if the pages of a paged state lie in its slot. */
static bool
is_pool_inside(const dop_plan *plan, const dop_plan_state *s)
{
    uint64_t rows, all;
    return plan->model->page && plan->slots[s->slot].state == DOP_PLAN_STATE_APPEND && s->rows == plan->model->ctx &&
           dop_mul_u64(plan->model->n_pages, plan->model->page, &rows) && dop_mul_u64(s->row_bytes, rows, &all) &&
           is_range_inside(s->offset, all, plan->slots[s->slot].size);
}

/* States must lie in their slots; their sequences and copies must not overlap. */
static dop_status
check_states(const dop_plan *plan, dop_diag *diag)
{
    for (uint32_t i = 0; i < plan->n_states; i++) {
        const dop_plan_state *s = &plan->states[i];
        if (!is_string_offset(plan, s->name) || s->slot >= plan->n_slots || plan->slots[s->slot].kind != DOP_SLOT_STATE)
            return DAMAGED("state %u has no name, or is in slot %u, which is none for states", i, s->slot);
        bool replaces = plan->slots[s->slot].state == DOP_PLAN_STATE_REPLACE;
        uint64_t one, all, copies = replaces ? plan->model->state_copies : 1;
        if (s->rows == 0 || (replaces && s->rows != 1) || !is_multiple_of_4(s->offset) || s->row_bytes == 0 ||
            !is_multiple_of_4(s->row_bytes) || !is_multiple_of_4(s->sequence_stride) ||
            !is_multiple_of_4(s->copy_stride) || (!replaces && s->copy_stride > 0))
            return DAMAGED("state %s has %u rows of %llu bytes", dop_plan_string(plan, s->name), s->rows,
                           (unsigned long long)s->row_bytes);
        if (s->filled > 1 || s->reserved || (s->filled && (s->paged || replaces)))
            return DAMAGED("state %s is filled and paged, or replaced", dop_plan_string(plan, s->name));
        if (s->paged > 1 || (s->paged && !is_pool_inside(plan, s)))
            return DAMAGED("state %s leaves the pages of its pool", dop_plan_string(plan, s->name));
        if (s->paged)
            continue;
        if (!dop_mul_u64(s->row_bytes, s->rows, &one) || s->sequence_stride < one ||
            !dop_mul_u64(s->sequence_stride, plan->model->n_sequences, &all) ||
            (replaces && (s->copy_stride < all || !dop_mul_u64(s->copy_stride, copies, &all))) ||
            !is_range_inside(s->offset, all, plan->slots[s->slot].size))
            return DAMAGED("state %s leaves its slot", dop_plan_string(plan, s->name));
    }
    return DOP_OK;
}

static dop_status
check_programs(const dop_plan *plan, dop_diag *diag)
{
    for (uint32_t i = 0; i < plan->n_programs; i++) {
        const dop_plan_program *p = &plan->programs[i];
        if (!is_string_offset(plan, p->name))
            return DAMAGED("the name of program %u is outside section STRINGS", i);
        const bool encodes = p->kind == DOP_SCHED_ENCODE;
        const uint32_t pool = encodes ? p->pool - DOP_POOL_CLS : p->pool,
                       last = encodes ? DOP_POOL_END - DOP_POOL_CLS : 0;
        if (p->kind < DOP_SCHED_ENCODE || p->kind >= DOP_SCHED_END || dop_plan_program_of(plan, p->kind) != p ||
            p->width == 0 || p->width > 1u << 24 || p->n_types > 64 || pool > last || p->normalized > 1 ||
            (p->classes && p->kind != DOP_SCHED_DRAFT && p->classes != p->width) || p->class_row > 1 ||
            (p->end_id && (!encodes || p->pool != DOP_POOL_END)) || (p->kind == DOP_SCHED_FEATURES) != (p->merge > 0) ||
            p->merge > 4096 || (p->kind == DOP_SCHED_AUDIO) != (p->bins > 0) || p->bins > 1024 ||
            (p->kind == DOP_SCHED_AUDIO && (p->n_places == 0 || p->n_places > DOP_STEP_MAX_ROWS)) ||
            (p->kind == DOP_SCHED_IMAGE) != (dop_plan_program_of(plan, DOP_SCHED_FEATURES) == p + 1) ||
            p->stays > (p->kind == DOP_SCHED_DRAFT) ||
            (p->kind == DOP_SCHED_DRAFT && (p->width != plan->model->hidden || p->classes > plan->model->vocab)))
            return DAMAGED("program %u is of kind %u and gives %u values, pooled %u", i, p->kind, p->width, p->pool);
    }
    return DOP_OK;
}

/* Checks the sizes of latents and images, and that a plan has either all programs of a diffusion model or none. */
static dop_status
check_draw(const dop_plan *plan, dop_diag *diag)
{
    enum { EDGE = 1 << 12, WIDE = 1 << 16 };
    const dop_plan_draw *d = plan->draw;
    bool all = true;
    for (uint32_t kind = DOP_SCHED_CONTEXT; kind <= DOP_SCHED_DECODE_LATENTS; kind++)
        all = all && (dop_plan_program_of(plan, kind) != NULL) == (d != NULL);
    const bool encodes = dop_plan_program_of(plan, DOP_SCHED_ENCODE_PIXELS) != NULL;
    const bool encodes_2 = dop_plan_program_of(plan, DOP_SCHED_ENCODE_2) != NULL;
    if (!d)
        return all && !encodes && !encodes_2 ? DOP_OK : DAMAGED("it has programs of drawing, and no section DRAW");
    if (!all || !dop_plan_program_of(plan, DOP_SCHED_ENCODE) || d->width == 0 || d->width > EDGE || d->height == 0 ||
        d->height > EDGE || d->scale == 0 || d->scale > 128 || d->latents == 0 || d->latents > 64 || d->colours == 0 ||
        d->colours > 4 || d->times < 2 || d->times > WIDE || d->times % 2 || d->context == 0 || d->context > WIDE ||
        d->context_rows == 0 || d->context_rows > DOP_STEP_MAX_ROWS || d->train_steps < 2 || d->train_steps > 100000 ||
        d->spacing > 2 || d->predicts > 2 || d->method > 3 || !(d->scaling > 0) || !(d->beta_first > 0) ||
        !(d->beta_last > 0 && d->beta_last < 1 && d->beta_first < 1) || d->shift >= d->times / 2)
        return DAMAGED("section DRAW has pictures of %u x %u places of %u values", d->width, d->height, d->latents);
    if (encodes_2 != (d->text_2 > 0) || d->text_2 >= d->context || d->pooled > WIDE || d->size_values > WIDE ||
        d->size_values % 2 || (d->size_values > 0) != encodes_2 || (d->pooled > 0) != encodes_2 ||
        (encodes_2 && d->shift >= d->size_values / 2))
        return DAMAGED("section DRAW has %u values of a second text encoder", d->text_2);
    return DOP_OK;
}

/* True if tensor i is an unpadded matrix of rows x cols with `bytes` bytes per value. */
static bool
is_adapter_matrix(const dop_plan *plan, uint32_t i, uint32_t rows, uint32_t cols, uint32_t bytes)
{
    const dop_plan_tensor *t = i < plan->n_tensors ? &plan->tensors[i] : NULL;
    return t && t->rows == rows && t->cols == cols && t->experts == 1 && rows > 0 && t->size % rows == 0 &&
           t->size / rows >= (uint64_t)cols * bytes && t->size / rows % 4 == 0;
}

/* Checks the adapter capacity: all tensors have the same ranks, and every place lies inside them. */
static dop_status
check_places(const dop_plan *plan, dop_diag *diag)
{
    const dop_plan_model *m = plan->model;
    const uint32_t cols =
                       m->adapters && m->adapter_factors < plan->n_tensors ? plan->tensors[m->adapter_factors].cols : 0,
                   ranks = cols > m->adapter_uses ? cols - m->adapter_uses : 0;
    if (!is_string_offset(plan, m->adapter_archs) || m->tied > 1 || m->adapters > 64 || m->adapter_rank > 512 ||
        (m->adapters > 0) != (m->adapter_rank > 0) || (plan->n_places > 0 && m->adapters == 0) ||
        m->adapter_uses > DOP_PLAN_MAX_USES ||
        m->adapter_uses < (m->adapters < DOP_PLAN_MAX_USES ? m->adapters : DOP_PLAN_MAX_USES))
        return DAMAGED("room for %u adapters of rank %u", m->adapters, m->adapter_rank);
    if (m->adapters && (ranks < m->adapters * m->adapter_rank ||
                        !is_adapter_matrix(plan, m->adapter_factors, m->n_sequences, cols, 4)))
        return DAMAGED("no factors of %u adapters of rank %u", m->adapters, m->adapter_rank);
    for (uint32_t i = 0; i < plan->n_places; i++) {
        const dop_plan_adapter_place *p = &plan->places[i];
        const uint64_t last = p->n > 0 ? p->n - 1 : 0;
        const bool control = p->a == p->b; /* control vectors: `start` is a layer */
        const bool tensors = is_string_offset(plan, p->tensor) && p->a < plan->n_tensors && p->b < plan->n_tensors &&
                             (control || is_adapter_matrix(plan, p->a, ranks, plan->tensors[p->a].cols, 2)) &&
                             is_adapter_matrix(plan, p->b, plan->tensors[p->b].rows, ranks, 2);
        if (control && tensors && p->first == 0 && p->n == plan->tensors[p->b].rows && p->start < p->total &&
            p->total <= 1u << 16)
            continue;
        if (control || !tensors || p->n == 0 || !is_range_inside(p->first, p->n, plan->tensors[p->b].rows) ||
            p->order > 2 || (p->order && (p->head < 2 || p->head % 2 || p->n % p->head)) || p->total > 1u << 28 ||
            p->start + (p->block ? last / p->block * p->step + (last < p->block ? last : p->block - 1) : last) >=
                p->total)
            return DAMAGED("place %u of adapters leaves its tensors", i);
    }
    return DOP_OK;
}

dop_status
dop_plan_check_rows(dop_plan *plan, dop_diag *diag)
{
    dop_status st;
    if ((st = check_strings(plan, diag)) != DOP_OK || (st = check_model(plan, diag)) != DOP_OK ||
        (st = check_profiles(plan, diag)) != DOP_OK || (st = check_programs(plan, diag)) != DOP_OK ||
        (st = check_draw(plan, diag)) != DOP_OK || (st = check_files(plan, diag)) != DOP_OK)
        return st;
    for (uint32_t i = 0; i < plan->n_kernels; i++)
        if ((st = check_kernel_row(plan, i, diag)) != DOP_OK)
            return st;
    if ((st = check_slots(plan, diag)) != DOP_OK || (st = check_args(plan, diag)) != DOP_OK ||
        (st = check_dispatches(plan, diag)) != DOP_OK || (st = check_tensors(plan, diag)) != DOP_OK ||
        (st = dop_plan_check_ranges(plan, diag)) != DOP_OK || (st = check_states(plan, diag)) != DOP_OK ||
        (st = check_places(plan, diag)) != DOP_OK)
        return st;
    for (uint32_t i = 0; i < plan->n_schedules; i++)
        if ((st = check_schedule(plan, i, diag)) != DOP_OK)
            return st;
    st = dop_plan_check_part(plan, diag);
    return st == DOP_OK ? check_decodes(plan, diag) : st;
}
