/* Transfers states of a sequence; see transfer.h.
 *
 * There are two kinds of states here. *Rows* are caches that keep every position, in pages or in one contiguous piece.
 * *Whole* states belong to a single position: sliding windows and replaced states. A slot holds the whole states of a
 * sequence and one page. Slots are numbered like places, after those of the plan's sequences. */
#include "runtime/step/transfer.h"
#include "runtime/parts/lead/ranks.h"

#include <stdlib.h>
#include <string.h>

/* Size of the staging memory, in bytes. */
enum { STAGING = 8 << 20 };

/* Contiguous memory range of one state. */
typedef struct piece {
    VkBuffer buffer;
    uint64_t offset, size; /* in bytes */
} piece;

bool
dop_transfer_can(const dop_model *model)
{
    bool states = false;
    for (uint32_t i = 0; i < model->plan.n_slots; i++)
        states = states || model->plan.slots[i].kind == DOP_SLOT_STATE;
    return model->plan.n_states > 0 || !states;
}

static bool
is_state_paged(const dop_model *m, uint32_t i)
{
    return m->plan.states[i].paged != 0;
}

/* True if the chosen profile has the state, and it is contiguous for each sequence. */
static bool
is_own(const dop_model *m, uint32_t i)
{
    return m->memory.places[m->plan.states[i].slot].block != UINT32_MAX && !is_state_paged(m, i);
}

static bool
has_own(const dop_model *m)
{
    for (uint32_t i = 0; i < m->plan.n_states; i++)
        if (is_own(m, i))
            return true;
    return false;
}

/* True if the state keeps every position. In a plan with pages, unpaged append states are sliding windows. */
static bool
is_rows(const dop_model *m, uint32_t i)
{
    const dop_plan_state *s = &m->plan.states[i];
    return s->paged || (m->pages.page == 0 && m->plan.slots[s->slot].state == DOP_PLAN_STATE_APPEND &&
                        s->rows >= m->plan.model->ctx);
}

static bool
is_slot(const dop_model *m, uint32_t place)
{
    return place >= m->plan.model->n_sequences;
}

/* Returns the first `rows` rows of a page, in paged state i. */
static piece
find_page(const dop_model *m, uint32_t i, uint32_t page, uint32_t rows)
{
    const dop_plan_state *s = &m->plan.states[i];
    const dop_slot_place *p = &m->memory.places[s->slot];
    if (p->block == UINT32_MAX)
        return (piece){0};
    return (piece){m->memory.blocks[p->block].buffer,
                   p->offset + s->offset + (uint64_t)page * m->pages.page * s->row_bytes, rows * s->row_bytes};
}

/* Returns the memory of unpaged state i of a sequence that belongs to its first n positions. Size 0: the chosen profile
 * does not have this state. */
static piece
find_state_piece(const dop_model *m, uint32_t i, uint32_t place, uint32_t n, uint32_t copy)
{
    const dop_plan_state *s = &m->plan.states[i];
    const dop_slot_place *p = &m->memory.places[s->slot];
    if (p->block == UINT32_MAX)
        return (piece){0};
    uint32_t rows = n < s->rows ? n : s->rows;
    if (m->plan.slots[s->slot].state == DOP_PLAN_STATE_REPLACE)
        rows = n > 0;
    return (piece){m->memory.blocks[p->block].buffer,
                   p->offset + s->offset + place * s->sequence_stride + copy * s->copy_stride, rows * s->row_bytes};
}

/* Returns the memory of an unpaged state for the first n positions, in the current copy of replaced state. */
static piece
find_current_piece(const dop_model *m, uint32_t i, uint32_t place, uint32_t n)
{
    return find_state_piece(m, i, place, n, m->parity[place]);
}

/* Returns positions [from, to) of a page in paged state i, or of the slot's page if `page` is UINT32_MAX. */
static piece
find_page_rows(const dop_model *m, uint32_t i, uint32_t slot, uint32_t page, uint32_t from, uint32_t to)
{
    const uint64_t row_bytes = m->plan.states[i].row_bytes;
    piece p = page == UINT32_MAX
                  ? (piece){m->kept.slots.block.buffer, slot * m->kept.slots.bytes + m->kept.slots.offsets[i], 0}
                  : find_page(m, i, page, to);
    p.offset += from * row_bytes;
    p.size = (to - from) * row_bytes;
    return p;
}

/* Returns piece k of state i, in transfer order. Size 0: state i has no more pieces. */
static piece
find_transfer_piece(const dop_model *m, uint32_t i, const dop_states *x, uint32_t k)
{
    if (m->memory.places[m->plan.states[i].slot].block == UINT32_MAX || m->plan.states[i].filled ||
        (is_rows(m, i) ? !x->rows : !x->whole))
        return (piece){0};
    if (!is_rows(m, i)) {
        if (k > 0)
            return (piece){0};
        if (!is_slot(m, x->place))
            return find_current_piece(m, i, x->place, x->to);
        const uint32_t slot = x->place - m->plan.model->n_sequences;
        return (piece){m->kept.slots.block.buffer, slot * m->kept.slots.bytes + m->kept.slots.offsets[i],
                       find_state_piece(m, i, 0, x->to, 0).size};
    }
    if (!is_state_paged(m, i)) {
        piece p = find_state_piece(m, i, x->place, x->to, 0);
        const uint64_t skipped = x->from * m->plan.states[i].row_bytes;
        return k == 0 && x->from < x->to ? (piece){p.buffer, p.offset + skipped, p.size - skipped} : (piece){0};
    }
    const uint32_t page = m->pages.page, at = x->from / page + k, first = at * page;
    if (x->from >= x->to || first >= x->to)
        return (piece){0};
    const uint32_t from = k == 0 ? x->from - first : 0, to = x->to - first < page ? x->to - first : page;
    if (is_slot(m, x->place))
        return find_page_rows(m, i, x->place - m->plan.model->n_sequences, UINT32_MAX, from, to);
    return find_page_rows(m, i, 0, m->pages.tables[(size_t)x->place * m->pages.per + at], from, to);
}

static uint64_t
count_state_bytes(const dop_model *m, uint32_t i, const dop_states *x)
{
    const dop_plan_state *s = &m->plan.states[i];
    if (m->memory.places[s->slot].block == UINT32_MAX || s->filled || (is_rows(m, i) ? !x->rows : !x->whole))
        return 0;
    return is_rows(m, i) ? (x->to - x->from) * s->row_bytes : find_state_piece(m, i, 0, x->to, 0).size;
}

static dop_status
begin_transfer(dop_model *m, dop_diag *diag, VkCommandBuffer *out)
{
    return dop_replay_begin(&m->replay, diag, out);
}

static dop_status
end_transfer(dop_model *m, dop_diag *diag)
{
    uint64_t ticket;
    DOP_RETURN_IF_ERROR(dop_replay_end(&m->replay, diag, &ticket));
    return dop_replay_wait(&m->replay, ticket, diag);
}

dop_status
dop_transfer_clear(dop_model *model, uint32_t place, dop_diag *diag)
{
    dop_model *m = model;
    VkCommandBuffer commands;
    DOP_RETURN_IF_ERROR(dop_ranks_order(m, DOP_ORDER_CLEAR_PLACE, (uint32_t[]){place}, 1, diag));
    if (!has_own(m))
        return DOP_OK;
    DOP_RETURN_IF_ERROR(begin_transfer(m, diag, &commands));
    for (uint32_t i = 0; i < m->plan.n_states; i++)
        for (uint32_t copy = 0; copy < m->plan.model->state_copies && is_own(m, i) && !m->plan.states[i].filled;
             copy++) {
            piece p = find_state_piece(m, i, place, m->plan.model->ctx, copy);
            if (copy == 0 || m->plan.states[i].copy_stride > 0)
                vkCmdFillBuffer(commands, p.buffer, p.offset, p.size, 0);
        }
    return end_transfer(m, diag);
}

dop_status
dop_transfer_copy(dop_model *model, uint32_t from, uint32_t to, uint32_t n, dop_diag *diag)
{
    dop_model *m = model;
    VkCommandBuffer commands;
    if (n == 0)
        return DOP_OK;
    DOP_RETURN_IF_ERROR(
        dop_ranks_order(m, DOP_ORDER_COPY_PLACE, (uint32_t[]){from, to, n, m->parity[from], m->parity[to]}, 5, diag));
    if (!has_own(m))
        return DOP_OK;
    DOP_RETURN_IF_ERROR(begin_transfer(m, diag, &commands));
    for (uint32_t i = 0; i < m->plan.n_states; i++)
        if (is_own(m, i)) {
            piece a = find_current_piece(m, i, from, n), b = find_current_piece(m, i, to, n);
            vkCmdCopyBuffer(commands, a.buffer, b.buffer, 1, &(VkBufferCopy){a.offset, b.offset, a.size});
        }
    return end_transfer(m, diag);
}

/* --- slots ------------------------------------------------------------------------------------------------------------- */

dop_status
dop_transfer_make_slots(dop_model *model, uint32_t n, dop_diag *diag)
{
    dop_model *m = model;
    uint64_t bytes = 0;
    dop_status st = dop_ranks_order(m, DOP_ORDER_SLOTS, (uint32_t[]){n}, 1, diag);
    if (st != DOP_OK || n == 0)
        return st;
    m->kept.slots.offsets = calloc((size_t)m->plan.n_states + 1, sizeof *m->kept.slots.offsets);
    if (!m->kept.slots.offsets)
        return DOP_NO_MEMORY(diag);
    const dop_states all = {.to = m->plan.model->ctx, .whole = true}, page = {.to = m->pages.page, .rows = true};
    for (uint32_t i = 0; i < m->plan.n_states; i++) {
        m->kept.slots.offsets[i] = bytes;
        bytes += dop_align_u64(count_state_bytes(m, i, is_state_paged(m, i) ? &page : &all), 16);
    }
    m->kept.slots.bytes = bytes;
    m->kept.slots.n = n;
    return bytes == 0 ? DOP_OK
                      : dop_block_create(&m->device, n * bytes, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0, 0, diag,
                                         &m->kept.slots.block);
}

dop_status
dop_transfer_copy_slot(dop_model *model, uint32_t from, uint32_t to, uint32_t n, bool tail, dop_diag *diag)
{
    dop_model *m = model;
    VkCommandBuffer commands;
    const uint32_t place = is_slot(m, from) ? to : from, slot = is_slot(m, from) ? from : to,
                   rest = m->pages.page ? n % m->pages.page : 0;
    if (slot - m->plan.model->n_sequences >= m->kept.slots.n)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "no slot %u", slot);
    if (tail && rest > 0)
        DOP_RETURN_IF_ERROR(dop_ranks_tell_pages(m, place, n, diag));
    DOP_RETURN_IF_ERROR(
        dop_ranks_order(m, DOP_ORDER_COPY_SLOT, (uint32_t[]){from, to, n, m->parity[place], tail}, 5, diag));
    if (m->kept.slots.bytes == 0)
        return DOP_OK;
    const dop_states at = {.place = place, .from = n - rest, .to = n, .rows = tail && rest > 0, .whole = true};
    DOP_RETURN_IF_ERROR(begin_transfer(m, diag, &commands));
    for (uint32_t i = 0; i < m->plan.n_states; i++) {
        dop_states in = at;
        in.place = slot;
        const piece own = is_rows(m, i) && !is_state_paged(m, i) ? (piece){0} : find_transfer_piece(m, i, &at, 0);
        const piece kept = own.size > 0 ? find_transfer_piece(m, i, &in, 0) : own, *a = from == place ? &own : &kept,
                    *b = from == place ? &kept : &own;
        if (own.size > 0)
            vkCmdCopyBuffer(commands, a->buffer, b->buffer, 1, &(VkBufferCopy){a->offset, b->offset, a->size});
    }
    return end_transfer(m, diag);
}

dop_status
dop_transfer_copy_page(dop_model *model, uint32_t from, uint32_t to, uint32_t rows, dop_diag *diag)
{
    dop_model *m = model;
    VkCommandBuffer commands;
    DOP_RETURN_IF_ERROR(dop_ranks_order(m, DOP_ORDER_COPY_PAGE, (uint32_t[]){from, to, rows}, 3, diag));
    DOP_RETURN_IF_ERROR(begin_transfer(m, diag, &commands));
    for (uint32_t i = 0; i < m->plan.n_states; i++) {
        piece a = is_state_paged(m, i) ? find_page(m, i, from, rows) : (piece){0}, b = find_page(m, i, to, rows);
        if (a.size > 0)
            vkCmdCopyBuffer(commands, a.buffer, b.buffer, 1, &(VkBufferCopy){a.offset, b.offset, a.size});
    }
    return end_transfer(m, diag);
}

/* Returns the size in bytes of the states in this part. */
static uint64_t
size_here(const dop_model *m, const dop_states *x)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < m->plan.n_states; i++)
        size += count_state_bytes(m, i, x);
    return size;
}

uint64_t
dop_transfer_size(dop_model *model, const dop_states *states)
{
    return size_here(model, states) + dop_ranks_size(model, states);
}

/* Creates staging memory: host memory that the device copies from and to. dop_model_counters does not count it. */
static dop_status
make_staging(dop_model *m, dop_diag *diag, dop_block *out)
{
    const VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint64_t allocations = m->device.allocations;
    DOP_RETURN_IF_ERROR(
        dop_block_create(&m->device, STAGING, visible, VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 0, diag, out));
    m->base.allocations += m->device.allocations - allocations;
    if (!out->mapped) {
        dop_block_destroy(&m->device, out);
        return DOP_FAIL(diag, DOP_E_DEVICE, "device %s maps no memory for the host", m->device.info.caps.name);
    }
    return DOP_OK;
}

/* Transfer of many pieces. Each time the staging memory is full, the copies are submitted and the memory is reused. */
typedef struct batch {
    dop_model *m;
    dop_diag *diag;
    dop_block staging;
    VkCommandBuffer commands; /* valid while used > 0 */
    uint64_t used;            /* bytes used in the staging memory */
    const uint8_t *bytes;     /* source of the upload; NULL: a download, passed to `take` */
    dop_bytes_fn *take;
    void *user;
} batch;

static dop_status
flush_batch(batch *b)
{
    if (b->used == 0)
        return DOP_OK;
    DOP_RETURN_IF_ERROR(end_transfer(b->m, b->diag));
    if (!b->bytes)
        DOP_RETURN_IF_ERROR(b->take(b->user, b->staging.mapped, (size_t)b->used, b->diag));
    b->used = 0;
    return DOP_OK;
}

static dop_status
move_piece(batch *b, const piece *p)
{
    dop_status st = DOP_OK;
    for (uint64_t at = 0, size; at < p->size && st == DOP_OK; at += size) {
        size = p->size - at < STAGING - b->used ? p->size - at : STAGING - b->used;
        if (b->used == 0 && (st = begin_transfer(b->m, b->diag, &b->commands)) != DOP_OK)
            return st;
        if (b->bytes) {
            memcpy(b->staging.mapped + b->used, b->bytes, (size_t)size);
            b->bytes += size;
            vkCmdCopyBuffer(b->commands, b->staging.buffer, p->buffer, 1,
                            &(VkBufferCopy){b->used, p->offset + at, size});
        } else {
            vkCmdCopyBuffer(b->commands, p->buffer, b->staging.buffer, 1,
                            &(VkBufferCopy){p->offset + at, b->used, size});
        }
        b->used += size;
        if (b->used == STAGING)
            st = flush_batch(b);
    }
    return st;
}

static dop_status
move_all(batch *b, const dop_states *x)
{
    dop_model *m = b->m;
    const bool own = !m->kept.slots.staging.mapped;
    dop_status st = DOP_OK;
    if (size_here(m, x) == 0)
        return DOP_OK;
    if (own)
        st = make_staging(m, b->diag, &b->staging);
    else
        b->staging = m->kept.slots.staging;
    for (uint32_t i = 0; i < m->plan.n_states && st == DOP_OK; i++) {
        piece p = find_transfer_piece(m, i, x, 0);
        for (uint32_t k = 1; p.size > 0 && st == DOP_OK; k++) {
            st = move_piece(b, &p);
            p = find_transfer_piece(m, i, x, k);
        }
    }
    if (st == DOP_OK)
        st = flush_batch(b);
    if (own)
        dop_block_destroy(&m->device, &b->staging);
    return st;
}

static dop_status
keep_tensor_bytes(void *user, const void *bytes, size_t size, dop_diag *diag)
{
    uint8_t **to = user;
    (void)diag;
    memcpy(*to, bytes, size);
    *to += size;
    return DOP_OK;
}

dop_status
dop_transfer_tensor(dop_model *model, uint32_t slot, uint64_t offset, void *bytes, uint64_t size, bool write,
                    dop_diag *diag)
{
    const dop_slot_place *at = &model->memory.places[slot];
    const dop_block *block = &model->memory.blocks[at->block];
    uint8_t *to = bytes;
    if (block->mapped && (write || block->cached)) {
        uint8_t *there = block->mapped + at->offset + offset;
        memcpy(write ? there : to, write ? to : there, (size_t)size);
        return DOP_OK;
    }
    const bool own = !model->kept.slots.staging.mapped;
    batch b = {.m = model, .diag = diag, .bytes = write ? bytes : NULL, .take = keep_tensor_bytes, .user = &to};
    const piece p = {block->buffer, at->offset + offset, size};
    dop_status st = DOP_OK;
    if (own)
        DOP_TRY(make_staging(model, diag, &b.staging));
    else
        b.staging = model->kept.slots.staging;
    DOP_TRY(move_piece(&b, &p));
    DOP_TRY(flush_batch(&b));
error:
    if (own)
        dop_block_destroy(&model->device, &b.staging);
    return st;
}

dop_status
dop_transfer_keep_staging(dop_model *model, dop_diag *diag)
{
    return model->kept.slots.staging.mapped ? DOP_OK : make_staging(model, diag, &model->kept.slots.staging);
}

void
dop_transfer_finish(dop_model *model)
{
    dop_block_destroy(&model->device, &model->kept.slots.staging);
    dop_block_destroy(&model->device, &model->kept.slots.block);
    free(model->kept.slots.offsets);
}

dop_status
dop_transfer_read(dop_model *model, const dop_states *states, dop_bytes_fn *take, void *user, dop_diag *diag)
{
    batch b = {.m = model, .diag = diag, .take = take, .user = user};
    DOP_RETURN_IF_ERROR(move_all(&b, states));
    return dop_ranks_read(model, states, take, user, diag);
}

dop_status
dop_transfer_write(dop_model *model, const dop_states *states, const uint8_t *bytes, dop_diag *diag)
{
    batch b = {.m = model, .diag = diag, .bytes = bytes};
    DOP_RETURN_IF_ERROR(move_all(&b, states));
    return dop_ranks_write(model, states, bytes + size_here(model, states), diag);
}
